"""`InferOptions`: how `doxa.infer` finds an answer, whichever face asks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.stopping import Until
from doxa.inference.exact import Budget
from doxa.sampling.driver import Schedule, plan_length

if TYPE_CHECKING:
    from doxa.inference.by_gibbs import ChosenBy

__all__ = ["METHODS", "InferOptions", "read_budget"]

METHODS = ("exact", "importance", "gibbs", "tempering", "mean_field")


@dataclass(frozen=True, kw_only=True)
class InferOptions:
    """What `doxa.infer` is asked for, beside the network, the question and what was observed: keywords and defaults."""

    method: str = "auto"
    exact_budget: Budget | int | None = None
    blocks: Sequence[Sequence[str] | ChosenBy] | None = None
    scan: Literal["in_order", "reversed", "random"] | Sequence[float] | None = None
    chains: int = 4
    draws: int | None = None
    warmup: int | None = None
    until: Until | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS and self.method != "auto":
            names = ", ".join(map(repr, ("auto", *METHODS)))
            raise ArgumentError(f"method is {self.method!r}; it must be one of {names}")
        for name in ("blocks", "scan"):
            if getattr(self, name) is not None and self.method != "gibbs":
                raise ArgumentError(f"{name} is given, but method is {self.method!r}; it belongs to method='gibbs'")
        plan_length(self.chains, self.draws, self.warmup, self.until)
        if self.seed is not None:
            check_whole("seed", self.seed, 0)

    @property
    def budget(self) -> Budget:
        """Most that an exact answer may cost."""
        return read_budget(self.exact_budget)

    @property
    def length(self) -> tuple[Schedule, Until]:
        """How long to run."""
        return plan_length(self.chains, self.draws, self.warmup, self.until)

    def __str__(self) -> str:
        """Names and values of what is not left out: ``method=gibbs, chains=4, draws=1000``."""
        said = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return ", ".join(f"{name}={value}" for name, value in said.items() if value is not None)


def read_budget(budget: Budget | int | None) -> Budget:
    """The budget meant: a number is one of operations."""
    if budget is None or isinstance(budget, Budget):
        return Budget() if budget is None else budget
    return Budget(operations=check_whole("exact_budget", budget, 1))
