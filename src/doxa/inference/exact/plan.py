"""`plan_contraction`: everything about an exact answer that the values of the factors do not change.

A plan finds the contraction tree, counts what each kind of answer costs, and answers: all marginals and log Z
(`ContractionPlan.run`), the joint distribution of a few variables (`ContractionPlan.joint`, of many networks together
`ContractionPlan.joints`), the most probable states (`ContractionPlan.most_probable`).  New evidence on the same
variables changes values only, so a plan serves it again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.exact.kernels import LIFT, Room, load, prepare, run_logs, run_products, settle
from doxa.inference.exact.program import Budget, BudgetError, Cost, Program, Purpose, write_program
from doxa.inference.exact.tree import ContractionTree, Scope, TooWideError, grow_tree
from doxa.models.factors import Factor
from doxa.sampling.runner import single_threaded_products

__all__ = ["ContractionPlan", "ExactResult", "Joint", "Joints", "MostProbable", "plan_contraction"]

_AT_ONCE = 2**18  # operations of `joints` for which networks are put together
_TOGETHER = 2**21  # operations of `marginals`


class Run(NamedTuple):
    """The array after a run."""

    log_z: float  # nats
    numbers: NDArray[np.float64]
    are_logs: bool

    def root(self, tree: ContractionTree, program: Program) -> NDArray[np.float64]:
        """Entries of the last table, proportional to the joint distribution of the variables kept."""
        first = program.places[tree.root]
        numbers = self.numbers[first : first + tree.n_entries(tree.scopes[tree.root])]
        return np.exp(numbers - numbers.max()) if self.are_logs else numbers

    def marginals(self, tree: ContractionTree, program: Program) -> list[NDArray[np.float64]]:
        """Distribution of every variable of the tree, in the order of positions; shape (n_states, beside)."""
        sizes = np.array(tree.sizes if program.beside == 1 else tree.sizes[: -len(tree.scopes[tree.root])])
        if not sizes.size:
            return []
        ends = np.cumsum(sizes)
        numbers = self.numbers[program.marginals : program.marginals + program.beside * ends[-1]]
        numbers = numbers.reshape(-1, program.beside)
        starts = ends - sizes
        if self.are_logs:
            numbers = np.exp(numbers - np.repeat(np.maximum.reduceat(numbers, starts), sizes, axis=0))
        probabilities = numbers / np.repeat(np.add.reduceat(numbers, starts), sizes, axis=0)
        return [probabilities[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def execute(tree: ContractionTree, program: Program, factors: Sequence[Factor]) -> Run:
    """Sum products of plain numbers, and of logarithms if any entry on the way is out of their range."""
    numbers = _stage(tree, program, factors)
    exponent, lowest = np.zeros((2, program.n_tables), dtype=np.int64)
    counter = np.zeros(program.deepest + 1, dtype=np.int64)
    room = Room(numbers, numbers.view(np.int64), *program.arrays, exponent, lowest, counter)
    peaks = np.empty(tree.n_leaves)
    entries = np.array([tree.n_entries(scope) for scope in tree.scopes[: tree.n_leaves]], dtype=np.int64)
    numbers[program.one] = 1.0
    in_range, scaling = load(room, entries, peaks), 0
    if in_range:
        with single_threaded_products() if program.products else nullcontext():
            in_range, scaling = _products(program, room)
    if not in_range:
        del numbers, room
        return execute_logs(tree, program, factors, is_sum=True)
    first = program.places[tree.root]
    total = float(numbers[first : first + tree.n_entries(tree.scopes[tree.root])].sum())
    if total == 0.0:
        return Run(-math.inf, numbers, are_logs=False)
    mantissa, exponent_of_total = math.frexp(total)
    power = exponent_of_total - scaling - LIFT * tree.n_leaves
    return Run(math.fsum([*peaks.tolist(), math.log(mantissa), power * math.log(2)]), numbers, are_logs=False)


def _products(program: Program, room: Room) -> tuple[bool, int]:
    """Whether all stayed in range, and the scaling in all; loops run compiled, between the large matrix products."""
    numbers, instructions = room.numbers, room.instructions
    in_range, scaling, done = True, 0, 0
    for at, product in [*program.products.items(), (len(instructions), None)]:
        fits, scale = run_products(done, at, room)
        in_range, scaling, done = in_range and fits, scaling + scale, at + 1
        if product is not None and in_range:
            row = instructions[at]
            scale, fits, swap = prepare(row, room)
            target, size, x, y = row[:4].tolist()
            x_size, y_size = (math.prod(shape) for shape in product.shapes[1:])
            tables = numbers[target : target + size], numbers[x : x + x_size], numbers[y : y + y_size]
            product.run(*tables, math.ldexp(1.0, scale), swap=swap)
            in_range = settle(row, room) and fits
            scaling += (scale + int(room.counter[0])) * int(row[-1])
        if not in_range:
            break
    return in_range, scaling


def execute_logs(tree: ContractionTree, program: Program, factors: Sequence[Factor], *, is_sum: bool) -> Run:
    """Run on logarithms: sums of products, or the largest product, whose logarithm is then ``log_z``."""
    numbers = _stage(tree, program, factors)
    instructions, loops = program.arrays
    numbers[program.one] = 0.0
    work = np.empty(int(instructions[:, 1].max(initial=0)) if is_sum else 0)
    run_logs(numbers, work, is_sum, instructions, loops, np.zeros(program.deepest + 1, dtype=np.int64))
    first = program.places[tree.root]
    root = numbers[first : first + tree.n_entries(tree.scopes[tree.root])]
    log_z = float(np.logaddexp.reduce(root)) if is_sum else float(root.max())
    return Run(log_z, numbers, are_logs=True)


def _stage(tree: ContractionTree, program: Program, factors: Sequence[Factor]) -> NDArray[np.float64]:
    """The program's array, with the factors at its start and their axes in order."""
    numbers = np.empty(program.n_numbers)
    tables = [np.zeros(1)]
    if factors:
        both = zip(factors, tree.leaf_axes, strict=True)
        tables = [factor.log_values.transpose(axes).ravel() for factor, axes in both]
    leaves = numbers[: program.leaf_numbers]
    np.concatenate(tables, out=leaves)
    if np.isnan(leaves).any() or leaves.max() == np.inf:
        for at, factor in enumerate(factors):
            if np.isnan(factor.log_values).any() or factor.log_values.max() == np.inf:
                raise ArgumentError(f"factors[{at}] contains nan or +inf; a log value is finite, or -inf where 0")
    return numbers


class MostProbable(NamedTuple):
    """The states of all variables that are most probable together."""

    states: tuple[int, ...]  # [variable]; of several best, one; 0 without a factor; -1 where no state is possible
    log_value: float  # log of the product of the factors there, nats; subtract log Z for the log probability
    gap: float  # nats to the next best states; 0 (up to rounding, 1e-10 or so) where the best are not alone


def trace_back(tree: ContractionTree, program: Program, run: Run, n_states: Sequence[int]) -> MostProbable:
    """Choose the variables that each step summed out, from the last step to the first.

    When a step is reached, the variables of its result are chosen; the best choice of those it summed out is the
    largest entry of its two tables there.  Second best states differ from the best first at some step, and then at
    best take the second entry there: so the smallest distance between the two entries is the distance to the next best.
    """
    if run.log_z == -math.inf:
        return MostProbable((-1,) * len(n_states), -math.inf, 0.0)
    gap = math.inf
    chosen: dict[int, int] = {}  # position: state

    def slice_of(table: int, order: list[int]) -> NDArray[np.float64] | float:
        """Entries of a table at the chosen states, with an axis for each position in ``order``."""
        if table < 0:
            return 0.0
        scope = tree.scopes[table]
        shape = [tree.sizes[position] for position in scope]
        first = program.places[table]
        values = run.numbers[first : first + math.prod(shape)].reshape(shape)
        at = values[tuple([chosen.get(position, slice(None)) for position in scope])]
        return at.reshape([tree.sizes[position] if position in scope else 1 for position in order])

    def choose(order: list[int], left: int, right: int) -> float:
        sizes = [tree.sizes[position] for position in order]
        values = np.broadcast_to(slice_of(left, order) + slice_of(right, order), sizes).flatten()
        best = int(values.argmax())
        chosen.update(zip(order, map(int, np.unravel_index(best, sizes)), strict=True))
        value, values[best] = values[best], -np.inf
        return float(value - values.max())

    gap = min(gap, choose(list(tree.scopes[tree.root]), tree.root, -1))
    for step in reversed(tree.steps):
        scopes = {*tree.scopes[step.left], *(tree.scopes[step.right] if step.right >= 0 else ())}
        gone = sorted(scopes - set(tree.scopes[step.result]))
        if gone:
            gap = min(gap, choose(gone, step.left, step.right))
    states = [0] * len(n_states)
    for position, state in chosen.items():
        states[tree.variables[position]] = state
    return MostProbable(tuple(states), run.log_z, gap)


def check_scopes(
    n_states: Sequence[int], scopes: Sequence[Sequence[int]], keep: Sequence[int]
) -> tuple[tuple[int, ...], tuple[Scope, ...], Scope]:
    """Return all three as tuples of ints, or raise `ArgumentError`."""
    sizes = tuple([check_whole(f"n_states[{at}]", size, 1) for at, size in enumerate(n_states)])
    checked = tuple([_variables(f"scopes[{at}]", scope, len(sizes)) for at, scope in enumerate(scopes)])
    return sizes, checked, _variables("keep", keep, len(sizes))


def _variables(name: str, variables: Sequence[int], n: int) -> Scope:
    scope = tuple([int(variable) for variable in variables])
    if len(set(scope)) < len(scope):
        raise ArgumentError(f"{name} is {scope}; a variable may be named once")
    for variable in scope:
        if not 0 <= variable < n:
            raise ArgumentError(f"{name} is {scope}; variables are 0..{n - 1}, as many as n_states has entries")
    return scope


def check_factors(n_states: Sequence[int], scopes: Sequence[Scope], factors: Sequence[Factor]) -> None:
    """Raise `ArgumentError` where factors are not over the scopes that were planned for; values are not looked at."""
    if len(factors) != len(scopes):
        raise ArgumentError(f"factors has {len(factors)} entries; the plan was made for {len(scopes)}: make a new one")
    for at, (scope, factor) in enumerate(zip(scopes, factors, strict=True)):
        if factor.variables != scope:
            raise ArgumentError(
                f"factors[{at}] is over variables {tuple(factor.variables)}; the plan was made for {scope}: "
                "make a new plan, or give the factors in their old order"
            )
        shape = tuple([n_states[variable] for variable in scope])
        if factor.log_values.shape != shape:
            raise ArgumentError(f"factors[{at}] has shape {factor.log_values.shape}; its variables have {shape} states")


class ExactResult(NamedTuple):
    """Log Z and all marginals."""

    log_z: float  # nats, summed over the variables that have factors; -inf where no state is possible
    marginals: list[NDArray[np.float64]]  # [variable]: (n_states,), sums to 1; nan where log_z is -inf


class Joint(NamedTuple):
    """Log Z and the joint distribution of a few variables."""

    log_z: float
    probabilities: NDArray[np.float64]  # shape (n_states of each variable kept...), sums to 1; nan where log_z is -inf


class Joints(NamedTuple):
    """`Joint` of many networks."""

    log_z: NDArray[np.float64]  # (n_networks,)
    probabilities: NDArray[np.float64]  # (n_networks, n_states of each variable kept...), as of `Joint`


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
            marginals[variable] = marginal[:, 0]
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

    def joints(self, tables: Sequence[NDArray[np.float64]]) -> Joints:
        """`joint` of networks whose tables differ, together: which of them it is is one more variable, that is kept.

        Parameters
        ----------
        tables : sequence of ndarray, shape (n_networks, n_states of each variable...)
            Log values over the plan's scopes, one table at least.
        """
        self.budget.check(self.joint_cost, f"the joint distribution of {len(self.keep)} variables of this network")
        at_once = max(1, _AT_ONCE // max(1, self.joint_cost.operations))
        firsts = range(0, len(tables[0]), at_once)
        parts = [self._joints([table[first : first + at_once] for table in tables]) for first in firsts]
        return Joints(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _joints(self, tables: Sequence[NDArray[np.float64]]) -> Joints:
        plan = self._of_many(len(tables[0]))
        log_z, together = plan.joint([Factor(scope, own) for scope, own in zip(plan.scopes, tables, strict=True)])
        together = np.moveaxis(together, -1, 0)
        shares = together.sum(axis=tuple(range(1, together.ndim)), keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            probabilities, log_shares = together / shares, np.log(shares.ravel())
        return Joints(np.where(shares.ravel() > 0, log_z + log_shares, -math.inf), probabilities)

    def marginals(self, tables: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Marginals of networks whose tables differ, together; of a plan that keeps no variable.

        Parameters
        ----------
        tables : sequence of ndarray, shape (n_networks, n_states of each variable...)
            Log values over the plan's scopes.

        Returns
        -------
        list of ndarray, shape (n_networks, n_states)
            Of every variable; nan where no state of the network is possible.
        """
        assert not self.keep
        n = len(tables[0])
        n_runs = min(n, max(1, n * self.tree.operations // _TOGETHER))
        at_once = -(-n // n_runs)
        plan = self._of_many(at_once)
        plan.budget.check(plan._beside.cost, "all marginals of this network")
        found = [np.full((n, size), 1 / size) for size in self.n_states]
        for start in range(0, n, at_once):
            first = min(start, n - at_once)  # the last run takes some again: one plan serves all
            factors = [
                Factor(scope, table[first : first + at_once]) for scope, table in zip(plan.scopes, tables, strict=True)
            ]
            run = execute(plan.tree, plan._beside, factors)
            with np.errstate(invalid="ignore"):  # where nothing is possible
                each = run.marginals(plan.tree, plan._beside)
            for variable, own in zip(plan.tree.variables, each, strict=False):  # that of the network itself is last
                found[variable][first : first + at_once] = own.T
        return found

    def _of_many(self, n: int) -> ContractionPlan:
        """The plan of n networks together."""
        if n not in self._plans:
            which = len(self.n_states)
            self._plans[n] = ContractionPlan(
                (*self.n_states, n),
                tuple([(which, *scope) for scope in self.scopes]),
                (*self.keep, which),
                self.tree.of_many(n, which),
                Budget() if n > 1 else self.budget,
            )
        return self._plans[n]

    @cached_property
    def _plans(self) -> dict[int, ContractionPlan]:
        return {}

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
    def _beside(self) -> Program:
        return write_program(self.tree, Purpose.BESIDE)

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
