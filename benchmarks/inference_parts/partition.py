"""Log Z of Ising grids: annealed with two-sided bounds beside contraction; error, bounds and CPU seconds.

Runs are made with `log_partition` as users call it.  "in .1": runs within 0.1 of the exact value; "hold": runs whose
bounds hold, both; "drawn": how the reverse run began: "exact" draws (proven bounds) or "approximate" ones.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from doxa.inference.log_partition import log_partition
from doxa.models.ising import IsingNetwork, ising_grid

SIDES = (10, 16, 20)
KINDS = ("ferro .44", "glass +-1", "glass N(0,1)")
RUNS = 20


def make_grid(side: int, kind: str, seed: int = 0) -> IsingNetwork:
    """An open grid without fields."""
    rng = np.random.default_rng(seed)
    n_edges = 2 * side * (side - 1)
    couplings = {
        "ferro .44": np.full(n_edges, 0.44),
        "glass +-1": rng.choice([-1.0, 1.0], n_edges),
        "glass N(0,1)": rng.normal(size=n_edges),
    }
    return ising_grid(side, side, coupling=couplings[kind])


def partition(runs: int = RUNS) -> None:
    """A line a grid."""
    log_partition(make_grid(3, KINDS[0]), method="annealed", seed=0)  # compiles
    log_partition(make_grid(3, KINDS[2]), method="annealed", seed=0)
    print("grid               exact  seconds | rms error  worst  in .1 | lower   upper  hold  drawn       | seconds")
    for side in SIDES:
        for kind in KINDS:
            print(_row(side, kind, runs), flush=True)


def _row(side: int, kind: str, runs: int) -> str:
    network = make_grid(side, kind)
    exact, exact_seconds = _timed(network, "exact", 0)
    found, seconds = zip(*[_timed(network, "annealed", seed) for seed in range(runs)], strict=True)
    errors = np.array([one.value - exact.value for one in found])
    lower, upper = (np.array([getattr(one, side_) - exact.value for one in found]) for side_ in ("lower", "upper"))
    hold = ((lower < 0) & (upper > 0)).mean()
    drawn = "exact" if found[0].bounds_are == "proven" else "approximate"
    return (
        f"{side:2} {kind:12} {exact.value:9.3f} {exact_seconds:8.2f} | {np.sqrt((errors**2).mean()):9.3f} "
        f"{np.abs(errors).max():6.3f} {(np.abs(errors) < 0.1).mean():6.0%} | {lower.mean():5.2f} {upper.mean():7.2f} "
        f"{hold:5.0%}  {drawn:11} | {np.median(seconds):.2f}"
    )


def _timed(network: IsingNetwork, method: Any, seed: int) -> tuple[Any, float]:
    begin = time.process_time()
    found = log_partition(network, method=method, seed=seed)
    return found, time.process_time() - begin


if __name__ == "__main__":
    partition()
