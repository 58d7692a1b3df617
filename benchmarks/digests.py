"""Are draws the same on another machine?  Digests of a set of runs, to be printed on both and compared.

    python benchmarks/digests.py --output here.json
    python benchmarks/digests.py --against here.json       # on the other machine, or with other settings
    python benchmarks/digests.py --settings             # other threads and kernels of BLAS, here

A digest is the SHA-256 of all draws and counters of a run, or of the numbers of an answer, bit by bit.  With
``--settings`` the script runs again under settings that stand for other machines, and says which runs differ from those
made without any: other threads and kernels of BLAS, and NumPy, the C library's functions and compiled loops without
the instructions of later processors.  docs/reliability.md says which may.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import doxa
from doxa.data import Table

SETTINGS: dict[str, dict[str, str]] = {
    "as it is": {},
    "1 thread": {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    "4 threads": {"OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "4"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "Sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge"},
    "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "old NumPy": {"NPY_DISABLE_CPU_FEATURES": "X86_V3"},
    "old libm": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-FMA,-FMA_Usable,-FMA4"},
    "old Numba": {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""},
}
_RUN: dict[str, Any] = {"chains": 2, "draws": 200, "warmup": 100, "seed": 7, "progress": False}


def _categories(n_rows: int, n_columns: int, holes: float = 0.0) -> Table:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (n_rows, n_columns))
    for j in range(1, n_columns):
        copied = rng.random(n_rows) < 0.7
        codes[copied, j] = codes[copied, j - 1]
    codes[rng.random(codes.shape) < holes] = -1
    return Table.from_codes([f"x{j}" for j in range(n_columns)], [["no", "yes"]] * n_columns, codes)


def _numbers(n_rows: int, blank_every: int = 0) -> Table:
    rng = np.random.default_rng(2)
    a = rng.integers(-500, 500, n_rows) / 64  # exact, so that the table is the same everywhere
    b = np.round(a * 0.5 + rng.integers(-200, 200, n_rows) / 64, 3)
    c = np.round(b - a + rng.integers(-200, 200, n_rows) / 64, 3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        lines = [f"{x},{y},{z},{'uv'[k % 2]}" for k, (x, y, z) in enumerate(zip(a, b, c, strict=True))]
        if blank_every:
            lines[::blank_every] = [line.split(",")[0] + ",,,u" for line in lines[::blank_every]]
        path.write_text("\n".join(["a,b,c,d", *lines]) + "\n")
        return doxa.read_table(path)


def _network() -> Any:
    return doxa.LogisticNetwork({"x2": ["x0", "x1"], "x4": ["x2", "x3"]})


def runs() -> dict[str, Callable[[], Any]]:
    """What is run, by name."""
    table, holes = _categories(300, 6), _categories(120, 5, 0.05)
    numbers, numbers_missing = _numbers(80), _numbers(80, 7)
    coin = doxa.ising_grid(6, 6, coupling=0.4)
    learn, fit = doxa.learn, doxa.fit
    return {
        "learn, single_edge": lambda: learn(table, sampler="single_edge", **_RUN),
        "learn, auto": lambda: learn(table, **_RUN),
        "learn, markov_blanket": lambda: learn(table, sampler="markov_blanket", **_RUN),
        "learn, exact sums": lambda: learn(table, exact=True, seed=7),
        "learn, missing cells": lambda: learn(holes, **_RUN),
        "learn, logistic": lambda: learn(table, family="logistic", **_RUN),
        "learn, numbers": lambda: learn(numbers, **_RUN),
        "learn, additive": lambda: learn(numbers, family="additive", **_RUN),
        "learn, missing numbers": lambda: learn(numbers_missing, **_RUN),
        "learn, additive, missing": lambda: learn(numbers_missing, family="additive", **_RUN),
        "learn, hidden column": lambda: learn(numbers, hidden={"h": 2}, **_RUN),
        "fit, auto": lambda: fit(_network(), table, **_RUN),
        "fit, random walk": lambda: fit(_network(), table, method="random_walk", **_RUN),
        "fit, augmentation": lambda: fit(_network(), holes, method="augmentation", **_RUN),
        "infer, gibbs": lambda: doxa.infer(coin, coin.names[0], method="gibbs", draws=500, seed=7),
        "log_partition, annealed": lambda: doxa.log_partition(coin, method="annealed", seed=7),
    }


def digest(found: Any) -> str:
    """The SHA-256 of all numbers of an answer."""
    made = hashlib.sha256()
    trace = getattr(found, "trace", None)
    if trace is not None:
        for name in trace.names:
            made.update(name.encode() + np.ascontiguousarray(trace[name]).tobytes())
        made.update(repr({name: values.tolist() for name, values in trace.info.items()}).encode())
    elif hasattr(found, "value"):
        made.update(f"{float(found.value).hex()} {float(found.mcse).hex()}".encode())
    else:
        for target in found:
            for state, estimate in sorted(found[target].items()):
                made.update(f"{target} {state} {float(estimate.value).hex()} {float(estimate.mcse).hex()}".encode())
    return made.hexdigest()[:16]


def report() -> dict[str, Any]:
    """Digests of all runs, and where they were made."""
    found: dict[str, str] = {}
    for name, run in runs().items():
        try:
            found[name] = digest(run())
        except doxa.DoxaError as error:
            found[name] = f"refused: {error}"[:60]
    versions = {name: version(name) for name in ("numpy", "scipy", "numba")} | {"doxa": doxa.__version__}
    from threadpoolctl import threadpool_info

    blas = sorted({f"{one['internal_api']} {one.get('architecture')}" for one in threadpool_info()})
    return {
        "machine": f"{platform.machine()} {platform.system()}",
        "blas": blas,
        "versions": versions,
        "digests": found,
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Runs that differ."""
    return [name for name, value in one["digests"].items() if other["digests"].get(name) != value]


def _under(setting: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--output", "-"]
    told = subprocess.run(command, env=os.environ | setting, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def main() -> int:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--output", help="a file for what --against reads; - for standard output")
    parser.add_argument("--against", type=Path, help="what another machine has written")
    parser.add_argument("--settings", action="store_true", help="try other threads and kernels of BLAS")
    asked = parser.parse_args()
    if asked.settings:
        reports = {name: _under(setting) for name, setting in SETTINGS.items()}
        first = reports["as it is"]
        for name, found in reports.items():
            differ = differences(first, found)
            print(f"{name:<12} {', '.join(found['blas'])}: {', '.join(differ) or 'all alike'}")
        return 0
    found = report()
    if asked.output == "-":
        print(json.dumps(found))
        return 0
    if asked.output:
        Path(asked.output).write_text(json.dumps(found, indent=1) + "\n")
    for name, value in found["digests"].items():
        print(f"{value}  {name}")
    if asked.against:
        other = json.loads(asked.against.read_text())
        for name in ("machine", "blas", "versions"):
            print(f"{name}: {found[name]} here, {other[name]} there")
        differ = differences(found, other)
        print(f"{len(differ)} of {len(found['digests'])} differ: {', '.join(differ) or 'none'}")
        return int(bool(differ))
    return 0


if __name__ == "__main__":
    sys.exit(main())
