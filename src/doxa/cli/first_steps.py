"""`doxa warm-up`, which compiles once what the usual questions need, and `doxa demo`, the first answers on two real
tables.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import doxa
from doxa.cli.app import interruptible
from doxa.cli.show import show_graphs
from doxa.cli.values import Questions
from doxa.cli.words import aligned
from doxa.progress import following

__all__ = ["demo", "warm_up"]

_FOLDS = 5


def demo() -> None:
    """Learn the structure of two real tables that come with doxa, fill the missing cells of one, and explain it."""
    from doxa import datasets

    print(datasets.describe("reinis"))
    print()
    with interruptible("learn"):
        posterior = doxa.learn(datasets.load("reinis"), sampler="single_edge", seed=1)
    show_graphs(posterior, 15)
    print()
    print("Where 'joined' is near 1 and the two directions share it, the data show that the two are connected, but not")
    print("which way.")
    print()
    _votes()
    print()
    print("Next, try a file of your own:")
    print("  doxa learn FILE.csv --output edges.csv --query COLUMN --given OTHER=STATE")
    print("  doxa impute FILE.csv --output cells.csv")


def _votes() -> None:
    """A table with missing cells: graphs and missing cells in one posterior."""
    import numpy as np

    from doxa import datasets
    from doxa.structure.averaging import CrossValidation, cross_validate

    print(datasets.describe("house_votes"))
    print()
    votes = datasets.load("house_votes")
    with interruptible("learn"):
        posterior = doxa.learn(votes, draws=60, warmup=30, seed=1)
        show_graphs(posterior, 8)
        print("(a short run, to show what comes; doxa learn goes on until it is accurate)")
        Questions(["party=republican"], {"physician_fee_freeze": "y"}, {}).answer(posterior)
        print()
        print("What the missing votes may have been, the first five:")
        print(_first_missing_cells(posterior, 5))
        print()
        found = cross_validate(votes, "party", folds=_FOLDS, seed=1, draws=10, warmup=10)
    assert isinstance(found, CrossValidation)  # for the party is a category
    counts = np.bincount(found.codes)
    share = counts / counts.sum()
    guess = -(share * np.log(share)).sum()
    (right, right_error), (loss, loss_error) = found.accuracy, found.log_loss
    print(
        f"The party, predicted from the votes by networks learned from the other rows ({_FOLDS} folds; cells missing in"
    )
    print(
        f"learning and in prediction): right in {right:.1%} +/- {right_error:.1%} of {len(found.codes)} rows; log loss"
    )
    print(f"{loss:.3f} +/- {loss_error:.3f} nats a row, where the parties' shares alone would have {guess:.3f}.")


def _first_missing_cells(posterior: doxa.Posterior, most: int) -> str:
    rows = [("row", "vote", "y", "error")]
    found = posterior.impute()
    for row, column, _, probability, mcse in found[found["state"] == "y"].head(most).itertuples(index=False):
        rows.append((str(row), column, f"{probability:.3f}", f"{mcse:.3f}"))
    return aligned(rows, n_left=2)


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
