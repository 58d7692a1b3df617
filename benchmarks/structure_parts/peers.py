"""The default sampler beside sumu's, on the same records and prior, for the same CPU time.

sumu 0.1.2 (PyPI, source only) is the one other package on PyPI with a sampler of the posterior of discrete structures
that was found to install; pgmpy 1.1.2 and pyAgrum 3.3.1 have none.  Its C++ files were generated for Python 3.10 and
earlier, and with Cython 3 its ``2**K`` is a float: so they are generated afresh with Cython 0.29, against NumPy 1.26.
It then runs on Asia; on Sachs and Child its sums become NaN.  A single chain may stop for good: on Asia one of 80,000
iterations ended with the same error in each quarter and 52 different partitions; tempered chains do better.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.structure import Auto
from doxa.structure.cache import FamilyScores
from doxa.structure.exact import exact_posterior
from doxa.structure.priors import make_prior
from doxa.structure.sampler import StructureSampler
from doxa.structure.scores import BDeu
from structure_parts.chains import SEEDS, WARMUP, caps, compile_kernels, load, run_for, spread
from support.networks import load_network

# network, K (all other nodes, where it is n - 1), tempered chains, CPU seconds
CASES = (("asia", 7, 1, 2.0), ("asia", 7, 1, 10.0), ("asia", 7, 4, 10.0), ("sachs", 10, 1, 10.0), ("child", 8, 1, 10.0))
REPEATS = max(1, SEEDS)


def install(folder: Path) -> str:
    """Build sumu in an environment of its own; returns its Python."""
    python = str(folder / "env" / "bin" / "python")
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    tools = ["setuptools<70", "wheel", "cython<3", "numpy<2", "scipy"]
    source = ["--no-deps", "--no-build-isolation", "--no-binary", "sumu"]
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    subprocess.run([*pip, "install", *tools], check=True)
    subprocess.run([*pip, "download", *source, "--dest", str(folder), "sumu==0.1.2"], check=True)
    with tarfile.open(folder / "sumu-0.1.2.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    for written in (folder / "sumu-0.1.2").rglob("_*.pyx"):
        written.with_suffix(".cpp").unlink(missing_ok=True)
    subprocess.run([*pip, "install", "--no-deps", "--no-build-isolation", str(folder / "sumu-0.1.2")], check=True)
    return python


def theirs(python: str, table: Table, k: int, chains: int, seconds: float, seed: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npy"
        np.save(path, table.codes[table.row_index])
        script = str(Path(__file__).with_name("sumu_run.py"))
        command = [python, "-W", "error::RuntimeWarning", script, str(path), *map(str, (k, chains, seconds, seed))]
        answer = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    if answer.returncode:
        return {"failed": answer.stderr.strip().splitlines()[-1]}
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def peers() -> None:
    python = os.environ.get("SUMU_PYTHON")
    if python:
        return compare(python)
    with tempfile.TemporaryDirectory() as folder:
        try:
            python = install(Path(folder))
        except subprocess.CalledProcessError as error:
            print(f"sumu 0.1.2 could not be installed: {' '.join(map(str, error.cmd))} failed")
            return None
        return compare(python)


def compare(python: str) -> None:
    compile_kernels(Auto())
    print(
        f"1000 records, BDeu 1, in-degree prior; {REPEATS} seeds; first {WARMUP:.0%} discarded; errors against the "
        "exact sum under that prior; scores and tables included"
    )
    for name, k, chains, seconds in CASES:
        table = load_network(name).sample(1000, seed=1)
        n = len(table.names)
        assert (table.n_states == table.codes.max(axis=0) + 1).all()  # sumu knows only the states that it sees
        prior = make_prior(table.names, "in_degree")
        limits = caps(table, None if n < 20 else 3)
        exact = exact_posterior(FamilyScores(table, BDeu(1.0), prior), limits).edge_probabilities
        first = theirs(python, table, k, chains, seconds, 1)
        who = f"sumu, K = {k}, {chains} chain{'s' * (chains > 1)}"
        if "failed" in first:
            print(f"{name:6s} {seconds:4.0f} CPU s  {who}: fails, {first['failed']}", flush=True)
            continue
        found = [first, *(theirs(python, table, k, chains, seconds, seed) for seed in range(2, REPEATS + 1))]
        failed = sum("failed" in answer for answer in found)
        kept = [answer for answer in found if "failed" not in answer]
        its = median([float(str(answer["iterations"])) for answer in kept])
        took = median([float(str(answer["seconds"])) for answer in kept])
        show(name, seconds, who, [np.array(answer["edges"]) for answer in kept], exact, f"{its:.0f} iterations")
        print(f"       took {took:.1f} CPU s (median); {failed} runs failed", flush=True)
        ours, steps = [], []
        for seed in range(1, REPEATS + 1):
            begin = time.process_time()
            sampler = StructureSampler(Auto(), FamilyScores(table, BDeu(1.0), prior), limits, thin=20)
            rng = np.random.default_rng(seed)
            chain = run_for(sampler, sampler.init(rng), rng, seconds, begin)
            ours.append(chain.edges)
            steps.append(chain.n_steps)
        show(name, seconds, "doxa, auto", ours, exact, f"{median(steps) / 1e6:.1f} million steps")


def show(
    name: str, seconds: float, who: str, found: list[NDArray[np.float64]], exact: NDArray[np.float64], more: str
) -> None:
    off = ~np.eye(len(exact), dtype=bool)
    errors = [np.abs(edges - exact)[off] for edges in found]
    means, largest = [float(error.mean()) for error in errors], [float(error.max()) for error in errors]
    print(
        f"{name:6s} {seconds:4.0f} CPU s  {who:22s} mean error {spread(means)}, largest {spread(largest, 4)}; {more}; "
        f"{load()}",
        flush=True,
    )
