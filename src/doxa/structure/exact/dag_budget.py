"""What sums over all graphs cost, before they are made: counted steps and bytes, never seconds.

The counts depend on the number of nodes and of families alone.  They are upper bounds: peaked weights let
`doxa.structure.exact.dag_sums` leave out most sets.

`worth_it`: whether that is little enough to make the sum unasked.  The cost depends on the table and the limits alone,
so that the same call has the same kind of answer on any machine.  Seconds are those operations on a usual core.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from doxa.errors import ArgumentError
from doxa.structure.exact.dag_sums import MOST_NODES
from doxa.text import many, memory

if TYPE_CHECKING:
    from doxa.structure.runs.options import RunOptions

__all__ = [
    "BUDGET",
    "PATIENCE",
    "ExactCost",
    "affordable_sum",
    "exact_cost",
    "family_count",
    "fits",
    "predicted_cost",
    "worth_it",
]


_BYTES_PER_FAMILY = 144  # the list and its copies while it is checked and sorted, the posterior, the draws' tables


class ExactCost(NamedTuple):
    """Cost of an exact answer."""

    n_operations: int  # pairs of disjoint sets and additions of numbers; a core does some 10^8 a second
    n_bytes: int  # at the highest point

    @property
    def seconds(self) -> float:
        """About how long a core takes."""
        return self.n_operations / 1e8

    def __str__(self) -> str:
        room = memory(self.n_bytes) if self.n_bytes >= 5e7 else "little memory"
        return f"{many(self.n_operations)} operations and {room}"


def predicted_cost(n_nodes: int, max_parents: int | None = None, scoring: int = 0) -> ExactCost:
    """Cost of `doxa.structure.exact.dag_sums.sum_over_dags`.

    Parameters
    ----------
    n_nodes : int
    max_parents : int, optional
        Cap of the number of parents; no cap when left out.
    scoring : int, default=0
        What scoring the families costs, in the same operations; not included when left out.

    Examples
    --------
    >>> print(predicted_cost(20, max_parents=3))
    7.2 billion operations and 767 MB
    """
    if n_nodes < 1:
        raise ArgumentError(f"n_nodes is {n_nodes}; it must be 1 or more")
    n_sets, n_families = 2**n_nodes, family_count(n_nodes, max_parents)
    # every pair (R, T) is met once forward and once backward; every node's table is summed over subsets and supersets
    n_operations = 2 * 3**n_nodes + n_nodes * (n_nodes - 1) * n_sets // 2 + scoring
    # alpha: two doubles and 4 bytes a node; its derivative: a double and 4 bytes; A and F: four doubles each
    n_bytes = n_sets * (n_nodes * (20 + 12) + 2 * 32) + 2 * n_sets * 12 + n_families * _BYTES_PER_FAMILY
    return ExactCost(n_operations, n_bytes)


def family_count(n_nodes: int, max_parents: int | None = None) -> int:
    """Number of families of all nodes together.

    Examples
    --------
    >>> family_count(20, 3)
    23200
    """
    cap = n_nodes - 1 if max_parents is None else min(max_parents, n_nodes - 1)
    return n_nodes * sum(math.comb(n_nodes - 1, size) for size in range(cap + 1))


def fits(cost: ExactCost, budget: ExactCost) -> bool:
    """Whether neither the operations nor the bytes exceed the budget.

    Examples
    --------
    >>> fits(predicted_cost(20, max_parents=3), budget=ExactCost(10**10, 4 * 10**9))
    True
    """
    return cost.n_operations <= budget.n_operations and cost.n_bytes <= budget.n_bytes


BUDGET = ExactCost(3_000_000_000, 2_000_000_000)  # half a minute: up to 19 columns
PATIENCE = ExactCost(400_000_000_000, 16_000_000_000)  # about an hour: what a person may be told of
_TABLE = 200  # operations to score a family that is counted, two microseconds
_MICROSECOND = 100  # operations


def exact_cost(options: RunOptions) -> ExactCost:
    """Cost of the sum over all graphs within the limits, and of scoring its families."""
    n = len(options.names)
    most = int(options.limits.most_parents.max())
    if options.max_configurations is not None and options.score.is_counted:
        most = min(most, int(math.log(options.max_configurations, max(2, min(options.n_states, default=2))) + 1e-9))
    if options.score.is_counted:
        return predicted_cost(n, most, family_count(n, most) * _TABLE)
    rows = options.n_rows if options.numbers else min(options.n_rows, 2 ** min(n, 40))  # distinct ones, of two states
    scoring = n * math.fsum(
        math.comb(n - 1, size) * options.score.cost(size, rows) for size in range(min(most, n - 1) + 1)
    )
    return predicted_cost(n, most, int(scoring * _MICROSECOND))


def worth_it(options: RunOptions) -> bool:
    """Whether the sum over all graphs is made unasked."""
    return len(options.names) <= MOST_NODES and fits(exact_cost(options), BUDGET)


def affordable_sum(options: RunOptions) -> ExactCost | None:
    """Cost of the sum, where a person who waits for it gets one; None where there are too many columns or cells."""
    if len(options.names) > MOST_NODES or options.n_missing or options.hidden:
        return None
    cost = exact_cost(options)
    return cost if fits(cost, PATIENCE) else None
