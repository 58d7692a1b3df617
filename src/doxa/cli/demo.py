"""`doxa demo`: the first answer, and what it means."""

from __future__ import annotations

import doxa
from doxa.cli.app import interruptible
from doxa.cli.graphs import show_graphs

__all__ = ["demo"]


def demo() -> None:
    """Learn the structure of a real data set that comes with doxa, and explain what is seen."""
    from doxa import datasets

    print(datasets.describe("reinis"))
    print()
    with interruptible("learn"):
        posterior = doxa.learn(datasets.load("reinis"), sampler="single_edge", seed=1)
    show_graphs(posterior, 15)
    print()
    print("'joined' is the probability of an edge in either direction. Where it is near 1 and the two directions share")
    print("it, the data show that the two are connected, but not which way. Next, try a file of your own:")
    print("  doxa learn FILE.csv --output edges.csv")
