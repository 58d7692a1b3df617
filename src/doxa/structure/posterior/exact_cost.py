"""What the sum over all graphs of a table would cost, and whether that is little enough to make it unasked.

The cost is counted beforehand, in operations and bytes, and depends on the table and the limits alone, so that the same
call has the same kind of answer on any machine.  Seconds are those operations on a usual core.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from doxa.structure.exact.dag_budget import ExactCost, family_count, fits, predicted_cost
from doxa.structure.exact.dag_sums import MOST_NODES

if TYPE_CHECKING:
    from doxa.structure.runs.options import RunOptions

__all__ = ["BUDGET", "PATIENCE", "affordable_sum", "exact_cost", "worth_it"]

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
