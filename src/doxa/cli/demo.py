"""`doxa demo`: the first answers, and what they mean, on two real tables; one of them has missing cells."""

from __future__ import annotations

import doxa
from doxa.cli.aligned import aligned
from doxa.cli.app import interruptible
from doxa.cli.questions import Questions
from doxa.cli.show import show_graphs

__all__ = ["demo"]

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
    print("'joined' is the probability of an edge in either direction. Where it is near 1 and the two directions share")
    print("it, the data show that the two are connected, but not which way.")
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
    from doxa.structure.averaging import cross_validate

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
