"""The hidden cells of a table that matter to some parameters, and which of them are drawn together.

Rows that are equal are kept apart: their cells are independent given the parameters.  Cells without observed
descendants are left out (they sum to one), and so are those that only given distributions of roots know of.  How cells
are drawn is in `doxa.parameters.cell_blocks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.models.logistic_factors import Factor, LogisticFactor
from doxa.models.logistic_options import listing
from doxa.models.logistic_rows import components_of_pattern, distinct_rows

__all__ = ["HiddenCells", "find_cells"]

Bits: TypeAlias = NDArray[np.int8]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]
_Block: TypeAlias = tuple[int, ...]

_BLOCK = 3  # cells: 2**3 / 3 configurations a cell, where single flips look at 2
_LARGEST_TABLE = 8  # hidden cells of one joint table, drawn together as its zeros may lock single ones


class HiddenCells(NamedTuple):
    """The hidden cells that matter, by row of the source and then by node.

    Their values stand in one vector of floats, ``values``: the cells, then the constants 0 and 1, then a number that is
    never read, the cell of blocks that have one to spare.
    """

    rows: Ints  # (n_cells,), row of the source table
    nodes: Ints  # (n_cells,), position of the node
    shares: tuple[Ints, ...]  # of each factor (n_share, n_scope), where its rows with hidden cells have their values
    blocks: Mapping[tuple[int, int], list[tuple[_Block, Ints]]]  # by pass and size: nodes, and positions of their rows
    place: Ints  # (n_incomplete, n_nodes), where a row has each node in ``values``
    pair: Ints  # (n_incomplete, n_factors), which row of a factor's share a row is; -1: none

    @property
    def n_cells(self) -> int:
        """Number of hidden cells."""
        return self.rows.size

    def extended(self, cells: Bits) -> Floats:
        """``values`` of these cells: a new array, shape (n_cells + 3,)."""
        return np.concatenate([cells.astype(np.float64), [0.0, 1.0, 0.0]])


def find_cells(factors: Sequence[Factor], codes: Bits, row_index: NDArray[Any], names: Sequence[str]) -> HiddenCells:
    """Find the hidden cells of a table's rows that tie these factors.

    Parameters
    ----------
    factors : sequence of Factor
        Children before parents.
    codes : ndarray of int8, shape (n_distinct, n_nodes)
        0, 1, and -1 where missing.
    row_index : ndarray of int, shape (n_rows,)
        The distinct row that each row of the source equals.
    names : sequence of str
        The nodes', for messages.

    Raises
    ------
    ArgumentError
        If too many cells of a joint table are hidden in one row.
    """
    patterns, kind = distinct_rows((codes < 0).astype(np.int8))
    found = [
        [
            (nodes, touching)
            for nodes, touching in components_of_pattern(factors, frozenset(np.flatnonzero(mask).tolist()))
            if any(isinstance(factors[f], LogisticFactor) for f in touching)
        ]
        for mask in patterns
    ]
    used = np.zeros(patterns.shape, dtype=np.bool_)
    touched = np.zeros((len(patterns), len(factors)), dtype=np.bool_)
    for k, components in enumerate(found):
        for nodes, touching in components:
            used[k, list(nodes)] = True
            touched[k, list(touching)] = True
    incomplete = np.asarray(used.any(axis=1))
    source = np.flatnonzero(incomplete[kind][row_index])
    distinct = row_index[source]
    kinds = kind[distinct]
    row, node = np.nonzero(used[kinds])
    place = np.where(codes[distinct] > 0, 1, 0).astype(np.intp) + row.size
    place[row, node] = np.arange(row.size)
    pair = np.full((source.size, len(factors)), -1, dtype=np.intp)
    shares = []
    for f, factor in enumerate(factors):
        members = np.flatnonzero(touched[kinds, f])
        pair[members, f] = np.arange(members.size)
        shares.append(place[members][:, list(factor.scope)])
    blocks: dict[tuple[int, int], list[tuple[_Block, Ints]]] = {}
    for k, members in _groups(kinds, len(patterns)):
        for nodes, touching in found[k]:
            for turn, block in enumerate(_partition(nodes, [factors[f] for f in touching], names)):
                blocks.setdefault((turn, len(block)), []).append((block, members))
    return HiddenCells(source[row], node, tuple(shares), blocks, place, pair)


def _groups(kinds: Ints, n_kinds: int) -> Iterator[tuple[int, Ints]]:
    """Positions of each kind that occurs."""
    order = np.argsort(kinds, kind="stable")
    ends = np.cumsum(np.bincount(kinds, minlength=n_kinds))
    for k, members in enumerate(np.split(order, ends[:-1])):
        if members.size:
            yield k, members


def _partition(nodes: Sequence[int], factors: Sequence[Factor], names: Sequence[str]) -> list[_Block]:
    """Hidden nodes of a component in blocks, neighbours together; those of one joint table always are."""
    together: dict[int, _Block] = {v: (v,) for v in nodes}
    for factor in factors:
        if not isinstance(factor, LogisticFactor):
            unit = tuple(v for v in factor.scope if v in together)
            if len(unit) > _LARGEST_TABLE:
                raise ArgumentError(
                    f"roots gives a joint table over {listing([names[v] for v in factor.scope])}, and in some row "
                    f"{len(unit)} of them are hidden; at most {_LARGEST_TABLE} can be drawn together: observe some of "
                    f"them, or give the roots tables or probabilities of their own"
                )
            together.update(dict.fromkeys(unit, unit))
    scopes = [set(factor.scope) for factor in factors]
    order: list[_Block] = []
    waiting = [together[nodes[0]]]
    while waiting:  # breadth first
        unit = waiting.pop(0)
        if unit in order:
            continue
        order.append(unit)
        near = sorted(set().union(*(scope for scope in scopes if scope.intersection(unit))))
        waiting.extend(together[v] for v in near if v in together and together[v] not in order)
    blocks: list[_Block] = []
    for unit in order:
        if blocks and len(blocks[-1]) + len(unit) <= _BLOCK:
            blocks[-1] += unit
        else:
            blocks.append(unit)
    return blocks
