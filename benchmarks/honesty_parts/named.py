"""Problems that are known by name: those on which doxa was once found to be wrong with confidence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import doxa
from honesty_parts.fitting import fitted, quasi_separated_rows
from honesty_parts.incomplete import with_missing_cells
from honesty_parts.inferring import inferred
from honesty_parts.learning import learned
from honesty_parts.problems import Codes, Question, kind
from honesty_parts.tables import as_table, hamming, network_cut, parity

__all__ = ["NAMED"]


def _four_to_one() -> Codes:
    rows = np.random.default_rng(1).integers(0, 2, (100, 5))
    rows[:, 4] = rows[:, :4].sum(axis=1) % 2
    return rows


def _with_two_missing_cells() -> Codes:
    rows = _four_to_one()
    rows[0, 0] = rows[1, 4] = -1
    return rows


def _uniform(title: str, codes: Codes, n_states: int, seed: int) -> Question:
    return learned(title, as_table(codes, n_states), {"prior": "uniform"}, seed)


def _rng() -> np.random.Generator:
    return np.random.default_rng(1)


def _weak_links(seed: int) -> Question:
    """A ring of spins that flip together or, once in a million, not at all."""
    n = 14
    network = doxa.CategoricalNetwork(
        doxa.Dag.from_edges([(f"v{v - 1}", f"v{v}") for v in range(1, n)]),
        {"v0": [1 / 3, 2 / 3], **{f"v{v}": [[1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6]] for v in range(1, n)}},
        {f"v{v}": ("0", "1") for v in range(n)},
    )
    return inferred("links of 1e-6", network, {}, ("gibbs", "tempering", "auto")[seed % 3], seed)


def _cold(seed: int) -> Question:
    grid = doxa.ising_grid(8, 8, coupling=0.8, field=0.02)
    return inferred("a cold grid", grid, {}, ("gibbs", "auto")[seed % 2], seed)


NAMED: tuple[Callable[[int], Question], ...] = (
    lambda seed: _uniform("parity of four", _four_to_one(), 2, seed),
    lambda seed: with_missing_cells(
        "parity of four, two cells blanked",
        _with_two_missing_cells(),
        np.full(5, 2),
        {"prior": "uniform"},
        seed,
        hidden=False,
    ),
    lambda seed: learned("Hailfinder", network_cut("hailfinder", 300, 11, 1 + seed % 5), {"prior": "uniform"}, seed),
    lambda seed: _uniform("Hamming(7,4)", hamming(_rng(), 300, 3, 0.02), 2, seed),
    lambda seed: _uniform("parity of 5 among 12", parity(_rng(), 500, 12, 6, 2, 0.0), 2, seed),
    lambda seed: _uniform("parity of 6 among 11", parity(_rng(), 1000, 11, 7, 2, 0.0), 2, seed),
    lambda seed: _uniform("sum modulo three of four", parity(_rng(), 300, 6, 5, 3, 0.0), 3, seed),
    lambda seed: _uniform("noisy parity of six among nine", parity(_rng(), 600, 9, 7, 2, 0.1), 2, seed),
    lambda seed: _uniform("sixty rows of eight columns", _rng().integers(0, 4, (60, 8)), 4, seed),
    lambda seed: fitted("an empty cell", quasi_separated_rows(20, 30, 25), None, seed),
    lambda seed: fitted("an empty cell, few rows", quasi_separated_rows(6, 5, 3), None, seed),
    _cold,
    _weak_links,
)


@kind("named", share=2)
def named(rng: np.random.Generator, small: bool) -> Question:  # noqa: ARG001
    """One of the list; the seed of the run is random."""
    case = int(rng.integers(len(NAMED)))
    return NAMED[case](int(rng.integers(2**31)))
