"""`Budget`: what an exact answer may cost, in counted operations and bytes; never in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from doxa.checks import check_whole
from doxa.errors import ArgumentError

__all__ = ["Budget", "BudgetError", "Cost"]


class Cost(NamedTuple):
    """Cost of a contraction: exact integers, known before it runs."""

    operations: int  # multiplications with an addition; a core does some 10^9 a second
    bytes: int  # of all arrays at the highest point, the factors themselves not included

    def __str__(self) -> str:
        return f"{_short(self.operations)} operations and {_short(self.bytes)} bytes"


@dataclass(frozen=True)
class Budget:
    """Most that an exact answer may cost.

    Parameters
    ----------
    operations : int, default=20_000_000_000
    bytes : int, default=4_000_000_000

    Examples
    --------
    >>> Budget().admits(Cost(10**9, 10**6))
    True
    """

    operations: int = 20_000_000_000
    bytes: int = 4_000_000_000

    def __post_init__(self) -> None:
        check_whole("operations", self.operations, 1)
        check_whole("bytes", self.bytes, 1)

    def admits(self, cost: Cost) -> bool:
        """Whether neither the operations nor the bytes exceed the budget."""
        return cost.operations <= self.operations and cost.bytes <= self.bytes

    def check(self, cost: Cost, what: str) -> None:
        """Raise `BudgetError` where ``what`` costs more."""
        if not self.admits(cost):
            raise BudgetError(what, cost, self)


class BudgetError(ArgumentError):
    """An exact answer would cost more than its budget."""

    def __init__(self, what: str, cost: Cost, budget: Budget) -> None:
        self.cost = cost
        self.budget = budget
        super().__init__(
            f"{what} would take {cost}; the budget is {_short(budget.operations)} operations and "
            f"{_short(budget.bytes)} bytes: raise the budget, observe more variables, or use an approximate method"
        )


def _short(number: int) -> str:
    """1234567 as '1.2e6'; exact however large."""
    digits = str(number)
    if len(digits) < 5:
        return digits
    tenths = (int(digits[:3]) + 5) // 10
    exponent = len(digits) - 1
    return f"{tenths // 10}.{tenths % 10}e{exponent}" if tenths < 100 else f"1.0e{exponent + 1}"
