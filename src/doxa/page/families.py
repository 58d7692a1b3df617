"""Tables of the probable families: P(node | parents), with intervals, from networks that are drawn already.

As `doxa.averaging.parent_tables`, for all nodes at once and in little room.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.page.numbers import decimals

if TYPE_CHECKING:
    from doxa.averaging.draws import NetworkDraws

__all__ = ["MOST_CELLS", "family_tables"]

MOST_CELLS = 4000  # entries of the tables of all nodes together
_MOST_OF_ONE = 300  # entries of one table
_MOST_TABLES = 2  # of a node
_TAIL = 0.025


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
    for rank in range(_MOST_TABLES):  # the best table of every node before the second of any
        for node, own in enumerate(sets):
            if rank >= len(own):
                continue
            parents = tuple(own[rank]["parents"])
            size = int(np.prod([draws.n_states[j] for j in (*parents, node)], dtype=np.int64))
            if (node, parents) not in draws.users:
                why = "no network that was drawn has these parents"
            elif size > min(_MOST_OF_ONE, room):
                why = f"a table of {size} entries has no room on this page: see posterior.parent_tables"
            else:
                room -= size
                found[node].append({"parents": list(parents), **_table(draws, node, parents)})
                continue
            found[node].append({"parents": list(parents), "why": why})
    return found


def _table(draws: NetworkDraws, node: int, parents: tuple[int, ...]) -> dict[str, Any]:
    family = (node, parents)
    weights = draws.posterior_counts(family)
    means = (weights / weights.sum(axis=-1, keepdims=True)).mean(axis=0)
    if len(weights) == 1:
        from scipy.special import betaincinv

        own, rest = weights[0], weights[0].sum(axis=-1, keepdims=True) - weights[0]
        sure = own.shape[-1] == 1
        low, high = (np.ones_like(own) if sure else betaincinv(own, rest, level) for level in (_TAIL, 1 - _TAIL))
    else:
        drawn = np.exp(draws.drawn_tables(family)).reshape(-1, *means.shape)
        low, high = np.quantile(drawn, [_TAIL, 1 - _TAIL], axis=0)
    return {
        "given": [list(row) for row in product(*(range(draws.n_states[j]) for j in parents))],
        "cases": decimals(draws.counts(family).sum(axis=-1).mean(axis=0), 1),
        "mean": [decimals(row, 3) for row in means],
        "low": [decimals(row, 3) for row in low],
        "high": [decimals(row, 3) for row in high],
    }
