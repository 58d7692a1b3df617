"""Rows drawn from a logistic network, parents before children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.logistic_factors import Factor

__all__ = ["draw_table"]


def draw_table(
    names: Sequence[str],
    factors: Sequence[Factor],
    n_rows: int,
    thetas: Mapping[str, NDArray[np.float64]],
    rng: np.random.Generator,
    states: tuple[str, str],
) -> Table:
    """Draw rows of all nodes; ``factors`` have children before parents, ``thetas`` are checked."""
    if not isinstance(rng, np.random.Generator):
        raise ArgumentTypeError(
            f"rng is {rng!r}; it must be a numpy.random.Generator, as numpy.random.default_rng(1) makes"
        )
    if not isinstance(states, (tuple, list)) or len(states) != 2:
        raise ArgumentError(f"states is {states!r}; give two labels, of 0 and of 1")
    codes = np.zeros((n_rows, len(names)), dtype=np.int8)
    for factor in reversed(factors):
        codes[:, list(factor.children)] = factor.draw(codes, thetas, rng.random(n_rows))
    return Table.from_codes(names, [tuple(states)] * len(names), codes)
