"""Graphs from tables with missing cells: every completion, each weighted by the evidence of its own sum over graphs.

P(graph | what was seen) is proportional to the sum over completions of P(completed table, graph).
Cells of equal rows can be exchanged, so what is listed is how many of them hold which states, with the number of ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from math import factorial, log
from typing import Any

import numpy as np
from scipy.special import logsumexp

import doxa
from doxa.data import Table
from honesty_parts.learning import edges_of, prior_options
from honesty_parts.problems import Answer, Codes, Exact, Question, kind, run_seed
from honesty_parts.tables import as_table, parity, random_network_rows

__all__ = ["with_missing_cells"]

MOST_COMPLETIONS = 400


def with_missing_cells(
    title: str, codes: Codes, n_states: Codes, options: dict[str, Any], seed: int, hidden: bool
) -> Question:
    """`doxa.learn` made to sample, -1 for missing cells; ``hidden``: nothing of the last column was seen."""
    options = {"seed": seed, "workers": 1, **options}
    asked = as_table(codes, n_states)
    declared: dict[str, Any] = {}
    if hidden:
        name = asked.names[-1]
        declared = {"hidden": {name: int(n_states[-1])}}
        asked = as_table(codes[:, :-1], n_states[:-1])

    def ask() -> Answer:
        return edges_of(doxa.learn(asked, exact=False, **options, **declared))

    def exact() -> Exact:
        names = as_table(codes, n_states).names
        logs, edges = [], []
        for ways, table in completions(codes, n_states):
            found: Any = doxa.learn(table, exact=True, **options)
            logs.append(log(ways) + found.log_evidence)
            edges.append(found.exact.edge_probabilities)
        weights = np.exp(np.array(logs) - logsumexp(logs))
        mean = np.einsum("c,cij->ij", weights, edges)
        pairs = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
        return {f"{names[i]} -> {names[j]}": float(mean[i, j]) for i, j in pairs}

    words = f"{codes.shape[1]} columns, {len(codes)} rows, {(codes < 0).sum()} cells missing, {options}"
    return Question(f"{title}: {words}", ask, exact)


def completions(codes: Codes, n_states: Codes) -> Iterator[tuple[int, Table]]:
    """Distinct completed tables, each with the number of ways to fill the cells that lead to it."""
    rows, counts = np.unique(codes, axis=0, return_counts=True)
    fillings = []
    for row, count in zip(rows, counts, strict=True):
        filled = _filled(row, n_states)
        fillings.append([_multiset(chosen) for chosen in combinations_with_replacement(filled, int(count))])
    for chosen in product(*fillings):
        ways = int(np.prod([w for w, _ in chosen], dtype=object))
        yield ways, as_table(np.array([row for _, rows in chosen for row in rows]), n_states)


def count_completions(codes: Codes, n_states: Codes) -> int:
    """How many there are, without listing them."""
    rows, counts = np.unique(codes, axis=0, return_counts=True)
    total = 1
    for row, count in zip(rows, counts, strict=True):
        k = len(_filled(row, n_states)) - 1
        total *= factorial(int(count) + k) // (factorial(k) * factorial(int(count)))
    return total


def _filled(row: Codes, n_states: Codes) -> list[tuple[int, ...]]:
    return list(product(*[range(size) if cell < 0 else (int(cell),) for cell, size in zip(row, n_states, strict=True)]))


def _multiset(rows: tuple[tuple[int, ...], ...]) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """How many sequences have these rows, in some order."""
    ways = factorial(len(rows))
    for row in set(rows):
        ways //= factorial(rows.count(row))
    return ways, rows


def _blanked(rng: np.random.Generator, codes: Codes, n_cells: int) -> Codes:
    cells = rng.choice(codes.size, n_cells, replace=False)
    holed = codes.copy()
    holed.flat[cells] = -1
    return holed


@kind("learn", share=2)
def missing_cells(rng: np.random.Generator, small: bool) -> Question:
    n = 3 if small else int(rng.integers(3, 5))
    n_states = rng.integers(2, 3 if small else 4, n)
    codes = random_network_rows(rng, int(rng.integers(8, 41)), n_states, concentration=0.5, most_parents=2)
    holed = _blanked(rng, codes, int(rng.integers(1, 4 if small else 7)))
    while count_completions(holed, n_states) > MOST_COMPLETIONS:
        i, j = np.argwhere(holed < 0)[0]
        holed[i, j] = codes[i, j]
    return with_missing_cells("missing cells", holed, n_states, prior_options(rng), run_seed(rng), hidden=False)


@kind("learn")
def parities_with_missing_cells(rng: np.random.Generator, small: bool) -> Question:
    n = 5 if small else int(rng.integers(4, 7))
    codes = parity(rng, int(rng.integers(60, 150)), n, int(rng.integers(4, n + 1)), 2, 0.0)
    holed = _blanked(rng, codes, 2 if small else int(rng.integers(1, 5)))
    title = "parity with missing cells"
    return with_missing_cells(title, holed, np.full(n, 2), prior_options(rng), run_seed(rng), hidden=False)


@kind("learn")
def hidden_columns(rng: np.random.Generator, small: bool) -> Question:
    """A column that nobody saw behind two or three that were seen."""
    n_states = np.full(3 if small else int(rng.integers(3, 5)), 2)
    n = len(n_states)
    hidden = rng.integers(0, 2, int(rng.integers(8, 20 if n == 3 else 12)))
    codes = np.where(rng.random((len(hidden), n - 1)) < 0.15, 1 - hidden[:, None], hidden[:, None])
    codes = np.hstack([codes, np.full((len(hidden), 1), -1)])
    while count_completions(codes, n_states) > MOST_COMPLETIONS:
        codes = codes[:-1]
    return with_missing_cells("a hidden column", codes, n_states, prior_options(rng), run_seed(rng), hidden=True)
