"""Is the truth one more draw?  The place of a value among draws, and the exact law of how uniform places are.

The place of a true quantity among its draws is uniform on (0, 1) if the draws and the truth have one distribution
(Cook, Gelman & Rubin 2006; Talts et al. 2018).  Of n places, the number up to k/20 is binomial for each k = 1, ..., 19;
the statistic is the least of their tail probabilities, and its law is computed, not simulated (Säilynoja, Bürkner &
Vehtari 2022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

__all__ = ["distance", "least_tail", "p_values", "place", "place_in_table", "tail_law"]

Floats = NDArray[np.float64]

GRID = 20  # places at which ranks are held against the uniform law


def place(draws: Floats, value: float, rng: np.random.Generator) -> float:
    """Where a value lies among draws, in (0, 1); at random among equal ones."""
    draws = np.ravel(draws)
    same = (np.abs(draws - value) <= 1e-9 * max(1.0, abs(value))) | (draws == value)
    below = int((~same & (draws < value)).sum())
    return float((below + (int(same.sum()) + 1) * rng.random()) / (draws.size + 1))


def place_in_table(probabilities: Floats, state: int, rng: np.random.Generator) -> float:
    """Where a state lies in a distribution of states: what is below it, and a random share of its own probability."""
    return float(probabilities[:state].sum() + probabilities[state] * rng.random())


def least_tail(values: Floats) -> float:
    """Smallest binomial tail probability of the numbers of values up to 1/20, 2/20, ... 19/20."""
    z = np.arange(1, GRID) / GRID
    count = (values[:, None] <= z).sum(axis=0)
    return float(_tails(len(values))[np.arange(1, GRID), count].min())


def tail_law(n: int, tail: float) -> float:
    """Probability that the least tail of n independent uniform values is at most this: the p-value.

    Counts up to growing shares are a Markov chain with binomial steps; what stays within the intervals that all tails
    larger than ``tail`` leave is summed forwards (Säilynoja, Bürkner & Vehtari 2022, section 2).
    """
    counts, inside = np.zeros(1, dtype=np.int64), np.ones(1)
    for k in range(1, GRID):
        kept = np.flatnonzero(_tails(n)[k] > tail)
        inside = inside @ _steps(n)[k][np.ix_(counts, kept)]
        counts = kept
    return float(max(0.0, 1.0 - inside.sum()))


@lru_cache(maxsize=2)
def _tails(n: int) -> Floats:
    """The smaller tail probability at each number up to each place, shape (GRID, n + 1); nothing is up to 0."""
    z, every = np.arange(GRID)[:, None] / GRID, np.arange(n + 1)
    return np.minimum(binom.cdf(every, n, z), binom.sf(every - 1, n, z))


@lru_cache(maxsize=2)
def _steps(n: int) -> Floats:
    """Probabilities from a number up to one place to a number up to the next, shape (GRID, n + 1, n + 1)."""
    z, every = np.arange(GRID + 1) / GRID, np.arange(n + 1)
    before, share = every[:, None], np.append(0.0, np.diff(z)[:-1] / (1 - z[:-2]))
    return binom.pmf(every - before, n - before, share[:, None, None])


def p_values(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """For each quantity the probability of places as far from uniform, by chance alone."""
    return {name: tail_law(len(own), least_tail(own)) for name, own in _columns(found).items()}


def distance(values: Any) -> float:
    """Largest difference between the share of values up to a point and the point."""
    values = np.sort(values)
    steps = np.arange(len(values) + 1) / len(values)
    return float(max((steps[1:] - values).max(), (values - steps[:-1]).max()))


def _columns(found: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    """Places by quantity, of the replications that have it."""
    names = dict.fromkeys(name for one in found for name in one)
    return {name: np.array([one[name] for one in found if name in one]) for name in names}
