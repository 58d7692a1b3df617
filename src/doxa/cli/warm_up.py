"""`doxa warm-up`: compile once what the usual questions need, for images, clusters and first demonstrations."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import doxa
from doxa.cli.aligned import aligned
from doxa.cli.app import interruptible
from doxa.progress import following

__all__ = ["warm_up"]

_FEW: dict[str, Any] = {"draws": 8, "warmup": 4, "seed": 1}


def warm_up() -> None:
    """Compile once what the usual questions need, so that first answers come at once; say what was compiled."""
    from doxa._jit import cache_folder

    rows, total, begin = [("question", "functions", "seconds")], 0, time.monotonic()
    with interruptible("warm-up"), following() as status:
        for name, ask in _QUESTIONS.items():
            before, asked = status.n_compiled, time.monotonic()
            ask()
            rows.append((name, str(status.n_compiled - before), f"{time.monotonic() - asked:.1f}"))
        total = status.n_compiled
    print(aligned(rows, n_left=1))
    print()
    folder = cache_folder()
    if folder is None:
        print(f"Compiled {total} functions, which cannot be kept: no cache folder can be written to.")
        print("Set the environment variable NUMBA_CACHE_DIR to one that can, and run doxa warm-up again.")
    elif not total:
        print(f"Nothing was left to compile: all is in {folder}")
    else:
        print(f"Compiled {total} functions in {time.monotonic() - begin:.0f} seconds; they are kept in {folder}")


def _file() -> None:
    with tempfile.TemporaryDirectory(prefix="doxa-") as folder:
        path = Path(folder) / "table.csv"
        path.write_text("rain,wet\n" + "no,no\nyes,yes\n" * 4)
        doxa.read_table(path)


def _table() -> doxa.Table:
    return doxa.datasets.load("reinis")


def _missing_cells() -> None:
    votes = doxa.datasets.load("house_votes").select(["party", "crime", "physician_fee_freeze", "education_spending"])
    posterior = doxa.learn(votes, **_FEW)
    posterior.query({"party": "republican"}, given={"crime": "y"})
    posterior.impute()


def _network() -> doxa.LogisticNetwork:
    return doxa.LogisticNetwork({"systol": ["smoke", "phys"], "phys": ["smoke"]})


def _grid() -> doxa.MarkovNetwork:
    return doxa.ising_grid(4, 4, coupling=0.4)


_QUESTIONS: dict[str, Callable[[], object]] = {
    "read a table": _file,
    "learn, summed over all graphs": lambda: doxa.learn(_table(), seed=1).query({"smoke": "yes"}),
    "learn, sampled": lambda: doxa.learn(_table(), **_FEW),
    "learn, with missing cells": _missing_cells,
    "learn, logistic families": lambda: doxa.learn(_table(), family="logistic", **_FEW),
    "fit": lambda: doxa.fit(_network(), _table(), **_FEW),
    "infer, exactly": lambda: doxa.infer(_grid(), "X0_0"),
    "infer, by Gibbs sampling": lambda: doxa.infer(_grid(), "X0_0", method="gibbs", draws=8, seed=1),
}
