"""Coefficients of the probable families that are logistic regressions, with intervals, in little room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.report.families import NOT_DRAWN, by_rank
from doxa.report.numbers import decimals

if TYPE_CHECKING:
    from doxa.structure.averaging.draws import NetworkDraws

__all__ = ["MOST_COEFFICIENTS", "regressions"]

MOST_COEFFICIENTS = 3000  # of all nodes together
_MOST_FAMILIES = 2  # of a node
_MOST_OF_ONE = 40
_DRAWS = 2000
_LEAST_DRAWS = 200  # of a regression, where the family may be a table
_ENDS = (0.025, 0.975)


def regressions(draws: NetworkDraws, sets: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]] | None:
    """Of every node, its most probable parent sets as logistic regressions; None where all families are tables.

    Parameters
    ----------
    draws : NetworkDraws
    sets : list
        Parent sets of every node, most probable first.

    Returns
    -------
    list or None
        Of each node, families with ``parents``; posterior ``mean``, ``low`` and ``high`` of the bias and of the
        coefficient of each parent, counted as -1 and +1; ``share``, the probability that the family is a regression
        and no table, or None where that was not open.  Families without coefficients have a ``why``.
    """
    if draws.is_of_tables:
        return None
    found: list[list[dict[str, Any]]] = [[] for _ in draws.names]
    room = MOST_COEFFICIENTS
    for node, parents in by_rank(sets, _MOST_FAMILIES):
        size = len(parents) + 1
        if (node, parents) not in draws.users:
            entry: dict[str, Any] = {"why": NOT_DRAWN}
        elif size > min(_MOST_OF_ONE, room):
            entry = {"why": f"{size} coefficients have no room on this page"}
        else:
            entry = _regression(draws, node, parents)
            room -= size if "mean" in entry else 0
        found[node].append({"parents": list(parents), **entry})
    return found


def _regression(draws: NetworkDraws, node: int, parents: tuple[int, ...]) -> dict[str, Any]:
    family = draws.logistic_family((node, parents))
    share = family.logistic_probability
    if share == 0:
        return {"why": "it can only be a table: not all of its columns have two states"}
    drawn = family.coefficients(_DRAWS)
    drawn = drawn[~np.isnan(drawn[:, 0])]
    if len(drawn) < _LEAST_DRAWS:
        return {"why": f"it is a table with probability {1 - share:.3f}"}
    low, high = np.quantile(drawn, _ENDS, axis=0)
    return {
        "share": None if share == 1 else decimals([min(max(share, 1e-4), 0.9999)], 4)[0],  # sure it never is
        "mean": decimals(drawn.mean(axis=0), 3),
        "low": decimals(low, 3),
        "high": decimals(high, 3),
    }
