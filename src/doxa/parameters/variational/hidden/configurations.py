"""A table with missing cells as a list of small problems: cells that are summed over together, in their surroundings.

As in `doxa.models.logistic_rows`, the missing cells of a row fall into *components* that share factors, after those
without observed descendants are taken out, which would only loosen the bound.  Rows that agree in what a component's
factors observe are one *neighbourhood* with the cases of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.models.logistic_factors import Factor
from doxa.models.logistic_rows import components_of_pattern, distinct_rows

__all__ = ["Bits", "Component", "all_configurations", "complete_cases", "components_of_table"]

Bits = NDArray[np.int8]


class Component(NamedTuple):
    """Missing cells that share factors, and the neighbourhoods in which they are missing."""

    nodes: tuple[int, ...]  # the missing cells, by the position of their node
    factors: tuple[int, ...]  # positions of the factors that hold any of them
    rows: NDArray[np.int32]  # distinct rows of the table that have it
    local: NDArray[np.int32]  # the neighbourhood of each of these rows
    codes: Bits  # (n_local, n_nodes of the network), -1 at the missing cells; columns outside the factors mean nothing
    cases: NDArray[np.float64]  # (n_local,)


def components_of_table(
    factors: Sequence[Factor], codes: Bits, counts: NDArray[np.int64] | NDArray[np.float64]
) -> list[Component]:
    """Components of a table, ordered by their cells.

    Parameters
    ----------
    factors : sequence of Factor
        Children before parents.
    codes : ndarray of int8, shape (n_distinct, n_nodes)
        0, 1 and -1 (missing), as `doxa.models.logistic_rows.binary_codes` makes them.
    counts : ndarray, shape (n_distinct,)

    Returns
    -------
    list of Component

    Examples
    --------
    >>> from doxa.models import LogisticNetwork
    >>> network = LogisticNetwork({"c": ["a", "b"], "d": ["c"]})
    >>> network.names
    ('c', 'd', 'a', 'b')
    >>> codes = np.array([[1, 0, -1, 0], [1, -1, 0, 0], [1, 1, -1, 0]], dtype=np.int8)
    >>> (found,) = components_of_table(network.factors, codes, np.array([5, 1, 2]))
    >>> found.nodes, found.rows.tolist(), found.cases.tolist()  # d = 0 or 1 is no part of a's surroundings
    ((2,), [0, 2], [7.0])
    """
    missing = codes < 0
    incomplete = np.flatnonzero(missing.any(axis=1)).astype(np.int32)
    patterns, pattern = distinct_rows(missing[incomplete].astype(np.int8))
    order = np.argsort(pattern, kind="stable")
    members = np.split(incomplete[order], np.cumsum(np.bincount(pattern, minlength=len(patterns)))[:-1])
    having: dict[tuple[tuple[int, ...], tuple[int, ...]], list[NDArray[np.int32]]] = {}
    for mask, group in zip(patterns, members, strict=False):  # no patterns leave one empty group
        for key in components_of_pattern(factors, frozenset(np.flatnonzero(mask).tolist())):
            having.setdefault(key, []).append(group)
    components = []
    for (nodes, touched), groups in sorted(having.items()):
        rows = np.sort(np.concatenate(groups))
        observed = sorted({v for f in touched for v in factors[f].scope} - set(nodes))
        distinct, local = distinct_rows(codes[rows][:, observed])
        neighbourhoods = np.full((len(distinct), codes.shape[1]), -1, dtype=np.int8)
        neighbourhoods[:, observed] = distinct
        cases = np.bincount(local, weights=counts[rows], minlength=len(distinct)).astype(np.float64, copy=False)
        components.append(Component(nodes, touched, rows, local, neighbourhoods, cases))
    return components


def complete_cases(
    factor: Factor, codes: Bits, counts: NDArray[np.int64] | NDArray[np.float64]
) -> tuple[Bits, NDArray[np.float64]]:
    """Configurations of a factor's nodes in rows that miss none of them, one a row, and the cases of each."""
    family = codes[:, list(factor.scope)]
    whole = (family >= 0).all(axis=1)
    configurations, index = distinct_rows(family[whole])
    cases = np.bincount(index, weights=counts[whole], minlength=len(configurations)).astype(np.float64, copy=False)
    return configurations, cases


def all_configurations(n_bits: int) -> Bits:
    """All configurations of ``n_bits`` cells, shape (2**n_bits, n_bits): cell j is bit j of the row's number."""
    return (np.arange(2**n_bits)[:, None] >> np.arange(n_bits) & 1).astype(np.int8)
