"""What scoring a family costs, estimated by counts: score tables are as large as a budget of such work allows.

A clock would make the lists, and so the draws, depend on the machine.  The unit is a microsecond of one core at some
three gigahertz; measured for 1000 and for 10000 distinct rows and up to 10 parents, the estimate is within a factor of
two but for separable data, whose families need more nodes than the usual 512.
"""

from __future__ import annotations

from doxa.structure.families.logistic.score import FamilyMixture, Logistic

__all__ = ["family_cost"]

_FEW = 4.0  # a family without parents, or with one
_ROW, _ROW_A_PARENT = 0.003, 0.0005  # to find a row's cell
_TABLE_ROW = 0.0006  # the same in a table, for each column
_CELL = 1.8  # to weigh 512 nodes
_FRAME = 4.0  # mode and axes, for each coefficient


def family_cost(score: Logistic | FamilyMixture, n_parents: int, n_rows: int) -> float:
    """Work of scoring a family of so many binary parents in a table of ``n_rows`` distinct rows, about a microsecond.

    Examples
    --------
    >>> [round(family_cost(Logistic(), k, 1000)) for k in (1, 2, 3, 5, 8)]
    [8, 27, 39, 91, 508]
    """
    cost = _FEW + n_rows * (_ROW + _ROW_A_PARENT * n_parents)
    if isinstance(score, FamilyMixture):
        cost += n_rows * _TABLE_ROW * (1 + n_parents)
    if n_parents > 1:
        cost += _FRAME * (1 + n_parents) + _CELL * min(2**n_parents, n_rows)
    return cost
