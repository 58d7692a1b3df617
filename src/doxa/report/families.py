"""Tables of the probable families: P(node | parents), with intervals, of all nodes and in little room."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.report.numbers import decimals
from doxa.structure.averaging.parent_tables import family_table

if TYPE_CHECKING:
    from doxa.structure.averaging.draws import NetworkDraws

__all__ = ["MOST_CELLS", "NOT_DRAWN", "by_rank", "family_tables"]

MOST_CELLS = 4000  # entries of the tables of all nodes together
_MOST_OF_ONE = 300  # entries of one table
_MOST_TABLES = 2  # of a node
NOT_DRAWN = "no network that was drawn has these parents"


def family_tables(draws: NetworkDraws, sets: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Of every node, tables of its most probable parent sets, as far as there is room.

    Parameters
    ----------
    draws : NetworkDraws
    sets : list
        Parent sets of every node, most probable first.

    Returns
    -------
    list
        Of each node, tables with ``parents``, ``given`` (states of the parents, one list a row), ``cases``, ``mean``,
        ``low`` and ``high`` (a list a row), or ``why`` there is none.
    """
    found: list[list[dict[str, Any]]] = [[] for _ in draws.names]
    room = MOST_CELLS
    for node, parents in by_rank(sets, _MOST_TABLES):
        size = int(np.prod([draws.n_states[j] for j in (*parents, node)], dtype=np.int64))
        if (node, parents) not in draws.users:
            entry: dict[str, Any] = {"why": NOT_DRAWN}
        elif size > min(_MOST_OF_ONE, room):
            entry = {"why": f"a table of {size} entries has no room on this page: see posterior.parent_tables"}
        else:
            room -= size
            entry = _table(draws, node, parents)
        found[node].append({"parents": list(parents), **entry})
    return found


def by_rank(sets: list[list[dict[str, Any]]], most: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Nodes with their parent sets, ``most`` of each: the best set of every node before the second of any.

    Examples
    --------
    >>> list(by_rank([[{"parents": [1]}, {"parents": []}], [{"parents": []}]], 2))
    [(0, (1,)), (1, ()), (0, ())]
    """
    for rank in range(most):
        for node, own in enumerate(sets):
            if rank < len(own):
                yield node, tuple(own[rank]["parents"])


def _table(draws: NetworkDraws, node: int, parents: tuple[int, ...]) -> dict[str, Any]:
    found = family_table(draws, node, parents)
    return {
        "given": [list(row) for row in product(*(range(draws.n_states[j]) for j in parents))],
        "cases": decimals(found.cases, 1),
        "mean": [decimals(row, 3) for row in found.mean],
        "low": [decimals(row, 3) for row in found.lower],
        "high": [decimals(row, 3) for row in found.upper],
    }
