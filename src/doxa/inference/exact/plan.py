"""`plan_contraction`: everything about an exact answer that the values of the factors do not change.

A plan finds the contraction tree, counts what each kind of answer costs, and answers: all marginals and log Z
(`ContractionPlan.run`), the joint distribution of a few variables (`ContractionPlan.joint`), the most probable states
(`ContractionPlan.most_probable`).  New evidence on the same variables changes values only, so a plan serves it again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.exact.arguments import check_factors, check_scopes
from doxa.inference.exact.budget import Budget, BudgetError, Cost
from doxa.inference.exact.execution import execute, execute_logs
from doxa.inference.exact.most_probable import MostProbable, trace_back
from doxa.inference.exact.orders import TooWideError
from doxa.inference.exact.program import Program, Purpose, write_program
from doxa.inference.exact.tree import ContractionTree, Scope, grow_tree
from doxa.models.factors import Factor

__all__ = ["ContractionPlan", "ExactResult", "Joint", "plan_contraction"]


class ExactResult(NamedTuple):
    """Log Z and all marginals."""

    log_z: float  # nats, summed over the variables that have factors; -inf where no state is possible
    marginals: list[NDArray[np.float64]]  # [variable]: (n_states,), sums to 1; nan where log_z is -inf


class Joint(NamedTuple):
    """Log Z and the joint distribution of a few variables."""

    log_z: float
    probabilities: NDArray[np.float64]  # shape (n_states of each variable kept...), sums to 1; nan where log_z is -inf


@dataclass(frozen=True)
class ContractionPlan:
    """How to sum over all states of a network; made by `plan_contraction`."""

    n_states: tuple[int, ...]
    scopes: tuple[Scope, ...]  # variables of the factors
    keep: tuple[int, ...]  # variables of `joint`
    tree: ContractionTree
    budget: Budget

    @property
    def operations(self) -> int:
        """Operations of `run`."""
        return self.cost.operations

    @property
    def bytes(self) -> int:
        """Bytes of `run` at the highest point, the factors themselves not included."""
        return self.cost.bytes

    @property
    def width(self) -> float:
        """Binary logarithm of the entries of the largest table."""
        return math.log2(max(map(self.tree.n_entries, self.tree.scopes)))

    @property
    def cost(self) -> Cost:
        """Cost of `run`."""
        return self._marginals.cost

    @property
    def joint_cost(self) -> Cost:
        """Cost of `joint`."""
        return self._root.cost

    @property
    def most_probable_cost(self) -> Cost:
        """Cost of `most_probable`."""
        return self._tables.cost

    def run(self, factors: Sequence[Factor]) -> ExactResult:
        """Log Z and all marginals, in one forward and one reverse pass.

        Parameters
        ----------
        factors : sequence of Factor
            Over the plan's scopes, in their order; not modified.

        Raises
        ------
        BudgetError
            If the plan's budget does not allow it; nothing was allocated.
        ArgumentError
            If a factor has another scope or shape than planned, or contains nan or +inf.
        """
        self.budget.check(self.cost, "all marginals of this network")
        check_factors(self.n_states, self.scopes, factors)
        run = execute(self.tree, self._marginals, factors)
        if run.log_z == -np.inf:
            return ExactResult(-math.inf, [np.full(size, np.nan) for size in self.n_states])
        marginals = [np.full(size, 1 / size) for size in self.n_states]
        for variable, marginal in zip(self.tree.variables, run.marginals(self.tree, self._marginals), strict=True):
            marginals[variable] = marginal
        return ExactResult(run.log_z, marginals)

    def joint(self, factors: Sequence[Factor]) -> Joint:
        """Log Z and the joint distribution of the variables kept, by a forward pass alone; arguments as in `run`."""
        self.budget.check(self.joint_cost, f"the joint distribution of {len(self.keep)} variables of this network")
        check_factors(self.n_states, self.scopes, factors)
        run = execute(self.tree, self._root, factors)
        shape = [self.n_states[variable] for variable in self.keep]
        if run.log_z == -np.inf:
            return Joint(-math.inf, np.full(shape, np.nan))
        is_there = set(self.tree.variables)
        root = run.root(self.tree, self._root)
        known = root.reshape([size if v in is_there else 1 for v, size in zip(self.keep, shape, strict=True)])
        spread = np.broadcast_to(known, shape)
        return Joint(run.log_z, spread / spread.sum())

    def most_probable(self, factors: Sequence[Factor]) -> MostProbable:
        """The states of largest probability, by a forward pass and a way back; arguments as in `run`."""
        self.budget.check(self.most_probable_cost, "the most probable states of this network")
        check_factors(self.n_states, self.scopes, factors)
        run = execute_logs(self.tree, self._tables, factors, is_sum=False)
        return trace_back(self.tree, self._tables, run, self.n_states)

    @cached_property
    def _marginals(self) -> Program:
        return write_program(self.tree, Purpose.MARGINALS)

    @cached_property
    def _root(self) -> Program:
        return write_program(self.tree, Purpose.ROOT)

    @cached_property
    def _tables(self) -> Program:
        return write_program(self.tree, Purpose.TABLES)


def plan_contraction(
    n_states: Sequence[int], scopes: Sequence[Sequence[int]], *, keep: Sequence[int] = (), budget: Budget | None = None
) -> ContractionPlan:
    """Plan exact answers for factors over given variables.

    Parameters
    ----------
    n_states : sequence of int
        Number of states of every variable, at least 1.
    scopes : sequence of sequence of int
        Variables of every factor, as in `doxa.models.factors.Factor.variables`.  A variable in no factor has a uniform
        marginal and does not count in log Z: leave observed variables out of the scopes, as slicing does.
    keep : sequence of int, optional
        Variables whose joint distribution `ContractionPlan.joint` gives.
    budget : Budget, optional
        Most that an answer may cost; `Budget()` when left out.

    Raises
    ------
    BudgetError
        If even log Z costs more than the budget.  An answer that alone costs more is refused when it is asked for.
    ArgumentError
        If scopes or kept variables name a variable twice, or one that is not there.

    Notes
    -----
    The search takes some 20 microseconds a factor, and a tenth of the contraction's time where that is longer.  The
    tree depends on the arguments alone.

    Examples
    --------
    >>> log_values = np.log([[0.9, 0.1], [0.2, 0.8]])
    >>> plan = plan_contraction((2, 2, 2), [(0, 1), (1, 2)])
    >>> plan.run([Factor((0, 1), log_values), Factor((1, 2), log_values)]).marginals[2].round(3)
    array([0.585, 0.415])
    """
    n_states, scopes, keep = check_scopes(n_states, scopes, keep)
    budget = Budget() if budget is None else budget
    used = {variable for scope in scopes for variable in scope if n_states[variable] > 1}
    kept = [variable for variable in keep if variable in used]
    try:
        tree = grow_tree(n_states, scopes or ((),), kept, budget.operations)
    except TooWideError as too_wide:
        step = Cost(too_wide.operations, 8 * too_wide.operations)
        raise BudgetError("one step of log Z of this network, in the best order found,", step, budget) from None
    plan = ContractionPlan(n_states, scopes, keep, tree, budget)
    roughly = 32 * sum(map(tree.n_entries, tree.scopes)) + 10_000 * len(tree.scopes)  # bytes, more than it can be
    if tree.operations > budget.operations or roughly > budget.bytes:
        budget.check(plan.joint_cost, f"log Z of this network, with tables of up to 2^{plan.width:.1f} numbers,")
    return plan
