"""Graphs from complete tables with columns of numbers: the sampler against the sum over all graphs."""

from __future__ import annotations

import numpy as np

from doxa.arrays import Floats
from doxa.data import Table
from honesty_parts.learning import learned, prior_options
from honesty_parts.problems import Codes, Question, kind, pick, run_seed
from honesty_parts.tables import random_network_rows

__all__ = ["linear_rows", "mixed_rows", "number_table"]


def number_table(numbers: Floats, codes: Codes | None = None, n_states: Codes | None = None) -> Table:
    """Columns x0, x1, ...: categories first, if any, then numbers; NaN and -1 are missing."""
    n_rows, n = numbers.shape
    codes = np.zeros((n_rows, 0), dtype=np.int64) if codes is None else codes
    states = [] if n_states is None else [tuple(map(str, range(size))) for size in n_states]
    k = len(states)
    return Table.from_codes(
        [f"x{j}" for j in range(k + n)],
        [*states, *[()] * n],
        np.hstack([codes, np.where(np.isnan(numbers), -1, 0)]),
        numbers=np.hstack([np.full((n_rows, k), np.nan), numbers]),
    )


def linear_rows(
    rng: np.random.Generator, n_rows: int, n: int, *, scatter: float = 1.0, df: float = np.inf, most_parents: int = 3
) -> Floats:
    """Linear regressions on up to three columns each, in units of all sizes; ``df`` below infinity has heavy tails."""
    rows = np.zeros((n_rows, n))
    order = rng.permutation(n)
    for place, node in enumerate(order):
        parents = rng.permutation(order[:place])[: rng.integers(0, most_parents + 1)]
        slopes = rng.choice([-1, 1], len(parents)) * rng.uniform(0.1, 1.2, len(parents))
        noise = rng.standard_normal(n_rows) if np.isinf(df) else rng.standard_t(df, n_rows)
        rows[:, node] = rows[:, parents] @ slopes + (scatter if len(parents) else 1.0) * noise
    return rows * 10 ** rng.uniform(-3, 3, n) + 10 ** rng.uniform(-3, 3, n)


def mixed_rows(rng: np.random.Generator, n_rows: int, n_states: Codes, n: int) -> tuple[Codes, Floats]:
    """Categories of a random network, and numbers whose means, slopes and scatter differ by one of them each."""
    codes = random_network_rows(rng, n_rows, n_states, concentration=1.0)
    rows = np.zeros((n_rows, n))
    for node in range(n):
        group = codes[:, rng.integers(len(n_states))] * (rng.random() < 0.7)
        size = int(n_states.max())
        means, spread = rng.normal(0, pick(rng, 0.3, 1.0, 3.0), size), rng.uniform(0.3, 1.5, size)
        slopes = rng.normal(0, 0.6, (size, node)) * (rng.random(node) < 0.5)
        rows[:, node] = means[group] + np.einsum("ij,ij->i", rows[:, :node], slopes[group])
        rows[:, node] += spread[group] * rng.standard_normal(n_rows)
    return codes, rows * 10 ** rng.uniform(-2, 2, n)


def _mixed(rng: np.random.Generator, small: bool, family: str | None, most: int, most_rows: int) -> Question:
    n_categories, n = int(rng.integers(1, 3 if small else 5)), int(rng.integers(2, 4 if small else most))
    n_states = rng.integers(2, 4, n_categories)
    codes, rows = mixed_rows(rng, int(rng.integers(20, 100 if small else most_rows)), n_states, n)
    options = {**prior_options(rng), **({} if family is None else {"family": family})}
    title = f"{n_categories} categories beside numbers"
    return learned(title, number_table(rows, codes, n_states), options, run_seed(rng))


@kind("learn", share=3)
def regressions(rng: np.random.Generator, small: bool) -> Question:
    n, df = int(rng.integers(4, 6 if small else 12)), pick(rng, np.inf, np.inf, 2.5)
    rows = linear_rows(rng, int(rng.integers(15, 1001)), n, df=df)
    title = "linear regressions" + ("" if np.isinf(df) else ", heavy tails")
    return learned(title, number_table(rows), prior_options(rng), run_seed(rng))


@kind("learn", share=2)
def near_collinear(rng: np.random.Generator, small: bool) -> Question:
    """Nearly every column is a sum of others: modes of equal worth with deep valleys between them."""
    n, scatter = int(rng.integers(4, 6 if small else 10)), pick(rng, 0.003, 0.03, 0.1)
    rows = linear_rows(rng, int(rng.integers(15, 500)), n, scatter=scatter)
    return learned(f"sums with a scatter of {scatter}", number_table(rows), prior_options(rng), run_seed(rng))


@kind("learn", share=2)
def numbers_of_noise(rng: np.random.Generator, small: bool) -> Question:
    n = int(rng.integers(4, 6 if small else 12))
    rows = linear_rows(rng, int(10 ** rng.uniform(1, 3)), n, most_parents=0)
    return learned("noise", number_table(rows), prior_options(rng), run_seed(rng))


@kind("learn", share=3)
def numbers_and_categories(rng: np.random.Generator, small: bool) -> Question:
    return _mixed(rng, small, None, 7, 600)


@kind("learn", share=2)
def additive_families(rng: np.random.Generator, small: bool) -> Question:
    return _mixed(rng, small, str(rng.choice(["additive", "auto"])), 5, 300)
