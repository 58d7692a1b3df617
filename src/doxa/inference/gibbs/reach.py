"""Which configurations moves within blocks connect: all of a list, or those around one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from doxa.inference.gibbs.supports import Block, Supports

__all__ = ["classes", "number_rows", "reached"]

Codes = NDArray[np.int64]

_MOST_AT_A_TIME = 2**22  # numbers in the table of candidates
_MOST_TRIED = 2**25  # such numbers in all: a fraction of a second


def number_rows(rows: Codes) -> Codes:
    """Give equal rows equal numbers.

    Examples
    --------
    >>> number_rows(np.array([[1, 0], [0, 5], [1, 0]])).tolist()
    [1, 0, 1]
    """
    numbers = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        _, numbers = np.unique(numbers * (column.max(initial=0) + 1) + column, return_inverse=True)
    return numbers.reshape(-1)


def classes(rows: Codes, blocks: Iterable[Block]) -> Codes:
    """Number the classes of configurations that moves within blocks of columns connect.

    Parameters
    ----------
    rows : ndarray of int, shape (n, n_variables)
        All configurations that are possible, each once.
    blocks : iterable of tuple of int
        Columns that a move can change.

    Returns
    -------
    ndarray of int, shape (n,)

    Examples
    --------
    >>> classes(np.array([[0, 0], [1, 1], [1, 2]]), [(0,), (1,)]).tolist()
    [0, 1, 1]
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n = len(rows)
    ends, n_nodes = [np.zeros(0, dtype=np.int64)], n
    for block in blocks:  # rows that agree outside of a block are joined to a node of their own
        groups = number_rows(np.delete(rows, list(block), axis=1))
        ends.append(n_nodes + groups)
        n_nodes += int(groups.max(initial=-1)) + 1
    there = np.concatenate(ends)
    here = np.tile(np.arange(n), len(ends) - 1)
    links = coo_matrix((np.ones(len(there), dtype=np.int8), (here, there)), shape=(n_nodes, n_nodes))
    _, numbers = connected_components(links, directed=False)
    return np.unique(numbers[:n], return_inverse=True)[1].reshape(-1)


def reached(
    start: Codes, variables: Sequence[int], supports: Supports, blocks: Iterable[Block], most: int
) -> set[bytes] | None:
    """All configurations that moves from ``start`` lead to, as bytes; None if they are too many to follow.

    Parameters
    ----------
    start : ndarray of int, shape (n_variables,)
        A possible configuration.
    variables : sequence of int
        Variables of its columns; supports do not join them to others.
    supports : Supports
    blocks : iterable of tuple of int
        Columns that a move can change.
    most : int
        Largest number of configurations reached, and of a block.
    """
    place = {v: j for j, v in enumerate(variables)}
    moves: list[tuple[list[int], Codes, list[tuple[list[int], NDArray[np.bool_]]]]] = []
    for block in blocks:
        own = [variables[j] for j in block]
        codes = supports.configurations(own, most)
        if codes is None:
            return None
        tests = [supports.supports[f] for f in sorted({f for v in own for f in supports.touching[v]})]
        moves.append((list(block), codes, [([place.get(v, -1) for v in scope], table) for scope, table in tests]))
    seen = {start.tobytes()}
    frontier, n_left = start[None], _MOST_TRIED
    while len(frontier):
        new: list[Codes] = []
        for columns, codes, own_tests in moves:
            for part in np.array_split(frontier, 1 + frontier.size * len(codes) // _MOST_AT_A_TIME):
                wider = np.repeat(part, len(codes), axis=0)
                wider[:, columns] = np.tile(codes, (len(part), 1))
                n_left -= wider.size
                for places, table in own_tests:
                    wider = wider[table[tuple(wider[:, j] if j >= 0 else 0 for j in places)]]
                for row in wider:
                    key = row.tobytes()
                    if key not in seen:
                        seen.add(key)
                        new.append(row)
                if len(seen) > most or n_left < 0:
                    return None
        frontier = np.array(new, dtype=np.int64).reshape(-1, len(variables))
    return seen
