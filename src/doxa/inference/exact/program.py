"""`Program`: a contraction as a list of instructions over one array of numbers, with its cost, before anything runs.

Every instruction is ``target = sum of x * y`` over some axes.  A forward step makes a table out of two.  The reverse
pass makes *adjoints*, derivatives of Z with respect to tables: if c = sum of a * b, the adjoint of a is the sum of
(adjoint of c) * b over the axes that a lacks.  A marginal is the sum of a table times its adjoint over all axes but
one, so one forward and one reverse pass give all marginals (Darwiche 2003).  Only tables over which a variable is
summed out, and those above them, need adjoints.  Places in the array are given away as soon as nothing reads them.

An instruction is a matrix product, which BLAS multiplies ten times faster than loops do, where each of its axes is
shared by two or three of its tables: *rows* by the target and x, *columns* by the target and y, *inner* axes by x and
y, *batch* axes by all.  Its tables are put in that order, multiplied, and the product is put back into the order of the
target's axes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.exact.tree import ContractionTree, Scope, Step
from doxa.text import many, memory

__all__ = ["Budget", "BudgetError", "Cost"]


class Cost(NamedTuple):
    """Cost of a contraction: exact integers, known before it runs."""

    operations: int  # multiplications with an addition; a core does some 10^9 a second
    bytes: int  # of all arrays at the highest point, the factors themselves not included

    def __str__(self) -> str:
        return f"{many(self.operations)} operations and {memory(self.bytes)}"


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
            f"{what} would take {cost}; the budget is {many(budget.operations)} operations and "
            f"{memory(budget.bytes)}: raise the budget, observe more variables, or use an approximate method"
        )


_LEAST_WORK = 256
_LEAST_REUSE = 2

Loop = tuple[int, int, int, int]  # size, strides of target, x and y

_BATCH, _ROW, _COLUMN, _INNER = (True, True, True), (True, True, False), (True, False, True), (False, True, True)
_KINDS = (_BATCH, _ROW, _COLUMN, _INNER)


class MatrixProduct(NamedTuple):
    """How the three tables of an instruction become matrices: shapes of their axes, and the order of these."""

    shapes: tuple[tuple[int, ...], ...]  # of target, x and y in memory
    orders: tuple[Scope, ...]  # of the axes: (batch, row, column), (batch, row, inner), (batch, inner, column)
    n_batch: int
    n_rows: int
    n_columns: int
    n_inner: int

    @property
    def n_extra(self) -> int:
        """Numbers in the copies that a call makes, at most."""
        return sum(math.prod(shape) for shape in self.shapes)

    def run(self, target: Floats, x: Floats, y: Floats, scale: float, *, swap: bool) -> None:
        """Set ``target`` to the products of x, y and scale, by which y is multiplied if ``swap``; all are flat."""
        left, right = x.reshape(self.shapes[1]).transpose(self.orders[1]), y.reshape(self.shapes[2])
        right = right.transpose(self.orders[2])
        if swap:
            right = np.multiply(right, scale, order="C")
        else:
            left = np.multiply(left, scale, order="C")
        left = left.reshape(self.n_batch, self.n_rows, self.n_inner)
        right = right.reshape(self.n_batch, self.n_inner, self.n_columns)
        view = target.reshape(self.shapes[0]).transpose(self.orders[0])
        view[...] = np.matmul(left, right).reshape(view.shape)


def as_matrix_product(loops: Sequence[Loop]) -> MatrixProduct | None:
    """The matrix product that an instruction is, or nothing if it is none or not worth it; innermost loop first."""
    kinds = [(loop[1] > 0, loop[2] > 0, loop[3] > 0) for loop in loops]
    if _INNER not in kinds or not set(_KINDS).issuperset(kinds):
        return None
    sizes = [math.prod([loop[0] for loop, kind in zip(loops, kinds, strict=True) if kind == one]) for one in _KINDS]
    n_batch, n_rows, n_columns, n_inner = sizes
    moved = n_batch * (n_rows * n_columns + n_rows * n_inner + n_inner * n_columns)
    if n_rows * n_columns * n_inner < _LEAST_WORK or n_batch * n_rows * n_columns * n_inner < _LEAST_REUSE * moved:
        return None
    shapes, orders = [], []
    for table, order in enumerate(((_BATCH, _ROW, _COLUMN), (_BATCH, _ROW, _INNER), (_BATCH, _INNER, _COLUMN))):
        own = [at for at in reversed(range(len(loops))) if kinds[at][table]]  # outermost first, as in memory
        shapes.append(tuple([loops[at][0] for at in own]))
        orders.append(tuple(sorted(range(len(own)), key=lambda k: order.index(kinds[own[k]]))))
    return MatrixProduct(tuple(shapes), tuple(orders), n_batch, n_rows, n_columns, n_inner)


_SMALL = 4096  # numbers; fewer are not worth a search for a gap


class Places:
    """Places in an array that grows at its end; the smallest gap that is wide enough is filled first."""

    def __init__(self, start: int) -> None:
        self.end = start  # length of the array so far
        self._gaps: list[tuple[int, int]] = []  # (first, end), increasing, never touching

    def take(self, size: int) -> int:
        """Find a place for ``size`` numbers."""
        fits = [gap for gap in self._gaps if gap[1] - gap[0] >= size] if size >= _SMALL else []
        if fits:
            first, end = min(fits, key=lambda gap: (gap[1] - gap[0], gap))
            at = self._gaps.index((first, end))
            self._gaps[at : at + 1] = [(first + size, end)] if first + size < end else []
            return first
        last_gap_grows = self._gaps and size >= _SMALL and self._gaps[-1][1] == self.end
        first = self._gaps.pop()[0] if last_gap_grows else self.end
        self.end = first + size
        return first

    def give_back(self, first: int, size: int) -> None:
        """Free a place; small ones stay taken."""
        if size < _SMALL:
            return
        end = first + size
        at = bisect_left(self._gaps, (first, end))
        if at < len(self._gaps) and self._gaps[at][0] == end:
            end = self._gaps.pop(at)[1]
        if at and self._gaps[at - 1][1] == first:
            at -= 1
            first = self._gaps.pop(at)[0]
        self._gaps.insert(at, (first, end))


_WORTH_A_LOOK = 2_048  # terms of an instruction that may be a matrix product
_NOTHING = -1  # in place of a table: the number 1
_LEFT, _RIGHT, _RESULT, _STILL = 1, 2, 3, 4  # columns of `Program.loops`; the last is 0

Loops = list[tuple[int, ...]]


class Purpose(Enum):
    """What a program leaves behind."""

    MARGINALS = "marginals"  # the root and the marginals
    BESIDE = "marginals beside"  # the root and the joint distribution of every other variable with those kept
    ROOT = "root"  # the root alone
    TABLES = "tables"  # every table, for tracing back


_MARGINALS = (Purpose.MARGINALS, Purpose.BESIDE)


@dataclass(frozen=True)
class Program:
    """What the kernels of `doxa.inference.exact.kernels` execute; exact Python integers until `arrays` is read."""

    cost: Cost
    n_numbers: int  # length of the array; the leaves come first, one after the other
    leaf_numbers: int
    one: int  # place of the number 1
    instructions: list[tuple[int, ...]]  # columns as in the kernels
    loops: Loops  # (size, strides of left, right and result, 0), innermost loop of a step first
    n_tables: int  # numbers of tables, adjoints, marginals and the number 1, which comes last
    places: tuple[int, ...]  # [table]: where its entries start, if it is there at the end
    marginals: int  # where the marginals start, in the order of positions
    beside: int  # numbers of a marginal for each state of its variable: those of states of the variables kept, or 1
    products: dict[int, MatrixProduct]  # [instruction]: those for BLAS

    @cached_property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Instructions and loops for the kernels."""
        instructions = np.array(self.instructions, dtype=np.int64).reshape(-1, 13)
        return instructions, np.array(self.loops, dtype=np.int64).reshape(-1, 5)

    @property
    def deepest(self) -> int:
        """Loops of the deepest instruction."""
        return max([instruction[8] for instruction in self.instructions], default=0)


class _Line(NamedTuple):
    """An instruction before places are known."""

    target: int  # numbers of tables; an adjoint's is n + its table's, a marginal's 2 n + its position
    x: int
    y: int
    columns: tuple[int, int, int]  # of target, x and y
    loops: tuple[int, int]  # first, how many
    is_forward: bool


def write_program(tree: ContractionTree, purpose: Purpose) -> Program:
    """Write the instructions for one purpose and count what they cost."""
    entries = [tree.n_entries(scope) for scope in tree.scopes]
    loops: Loops = []
    ranges = []  # [step]: its loops
    for step in tree.steps:
        first = len(loops)
        loops += _loops(tree, step)
        ranges.append((first, len(loops) - first))
    lines = [
        _Line(step.result, step.left, step.right, (_RESULT, _LEFT, _RIGHT), extent, is_forward=True)
        for step, extent in zip(tree.steps, ranges, strict=True)
    ]
    beside = entries[tree.root] if purpose is Purpose.BESIDE else 1
    if purpose in _MARGINALS:
        _reverse(tree, entries, beside, loops, ranges, lines)
    return _assemble(tree, purpose, entries, beside, loops, lines)


def _loops(tree: ContractionTree, step: Step) -> Loops:
    """Loops of a step, innermost first; neighbouring axes of the same tables are one loop."""
    left, right, result = (tree.scopes[table] if table >= 0 else () for table in step)
    strides = [1, 1, 1]
    loops: Loops = []
    last = None
    for position in sorted({*left, *right}, reverse=True):
        members = (position in left, position in right, position in result)
        size = tree.sizes[position]
        if members == last:
            loops[-1] = (loops[-1][0] * size, *loops[-1][1:])
        else:
            loops.append((size, *[stride * is_in for stride, is_in in zip(strides, members, strict=True)], 0))
            last = members
        for table, is_in in enumerate(members):
            if is_in:
                strides[table] *= size
    return loops or [(1, 0, 0, 0, 0)]


def _reverse(
    tree: ContractionTree,
    entries: list[int],
    beside: int,
    loops: Loops,
    ranges: list[tuple[int, int]],
    lines: list[_Line],
) -> None:
    """Append the adjoints and the marginals."""
    n = len(tree.scopes)
    asked = _tables_of_marginals(tree, entries)
    if beside > 1:
        asked[tree.root] = []
    needed = [bool(positions) for positions in asked]
    for step in tree.steps:
        needed[step.result] |= needed[step.left] or (step.right >= 0 and needed[step.right])

    def add_marginals(table: int) -> None:
        adjoint, column = (_NOTHING, _STILL) if table == tree.root else (n + table, _LEFT)
        for position in asked[table]:
            first = len(loops)
            loops.extend(_marginal_loops(tree, tree.scopes[table], position, beside))
            columns, extent = (_RESULT, _LEFT, column), (first, len(loops) - first)
            lines.append(_Line(2 * n + position, table, adjoint, columns, extent, is_forward=False))

    add_marginals(tree.root)
    for step, extent in zip(reversed(tree.steps), reversed(ranges), strict=True):
        adjoint, column = (_NOTHING, _STILL) if step.result == tree.root else (n + step.result, _RESULT)
        sides = ((step.left, _LEFT, step.right, _RIGHT), (step.right, _RIGHT, step.left, _LEFT))
        for side, own, other, others in sides:
            if side >= 0 and needed[side]:
                lines.append(_Line(n + side, adjoint, other, (own, column, others), extent, is_forward=False))
                add_marginals(side)


def _tables_of_marginals(tree: ContractionTree, entries: list[int]) -> list[list[int]]:
    """[table]: positions whose marginals are taken from it: summed out there, if possible where adjoints are needed."""
    asked: list[list[int]] = [[] for _ in tree.scopes]
    needed = [False] * len(tree.scopes)
    for step in tree.steps:
        sides = [side for side in (step.left, step.right) if side >= 0]
        rest = set(tree.scopes[step.result])
        for position in sorted({position for side in sides for position in tree.scopes[side]} - rest):
            holders = [side for side in sides if position in tree.scopes[side]]
            table = min(holders, key=lambda side: (not needed[side], entries[side]))
            asked[table].append(position)
            needed[table] = True
        needed[step.result] = any(needed[side] for side in sides)
    asked[tree.root] = list(tree.scopes[tree.root])
    return asked


def _marginal_loops(tree: ContractionTree, scope: Scope, position: int, beside: int) -> Loops:
    """Loops of a marginal: over the axes beside it, which come last, those behind, its own, and those before."""
    at = scope.index(position)
    size, inner, outer = tree.sizes[position], tree.n_entries(scope[at + 1 :]), tree.n_entries(scope[:at])
    loops = [(beside, 1, 0, 1, 0), (inner // beside, beside, 0, 0, 0), (size, inner, 0, beside, 0)]
    return [loop for loop in (*loops, (outer, inner * size, 0, 0, 0)) if loop[0] > 1]


def _assemble(
    tree: ContractionTree, purpose: Purpose, entries: list[int], beside: int, loops: Loops, lines: list[_Line]
) -> Program:
    """Give every table a place, write the instructions, and count."""
    n = len(tree.scopes)
    marginals = 2 * n  # number of the first
    one = marginals + len(tree.sizes)
    leaf_numbers = sum(entries[: tree.n_leaves])
    asked = len(tree.sizes) if beside == 1 else len(tree.sizes) - len(tree.scopes[tree.root])
    sizes = (
        entries
        + entries
        + [
            size * beside if purpose in _MARGINALS and position < asked else 0
            for position, size in enumerate(tree.sizes)
        ]
    )
    place = [0] * (one + 1)
    end = 0
    for table in (*range(tree.n_leaves), one, *range(marginals, one)):
        place[table] = end
        end += 1 if table == one else sizes[table]
    places = Places(end)
    last_read = {table: at for at, line in enumerate(lines) for table in (line.x, line.y)}
    instructions: list[tuple[int, ...]] = []
    products = {}
    operations = extra = 0
    for at, line in enumerate(lines):
        if line.target < marginals:
            place[line.target] = places.take(sizes[line.target])
        x, y = (one if table == _NOTHING else table for table in (line.x, line.y))
        tables = (place[line.target], sizes[line.target], place[x], place[y], line.target, x, y)
        instructions.append((*tables, *line.loops, *line.columns, line.is_forward))
        own_loops = loops[line.loops[0] : sum(line.loops)]
        terms = math.prod([loop[0] for loop in own_loops])
        operations += terms
        target, left, right = line.columns
        axes = [(loop[0], loop[target], loop[left], loop[right]) for loop in own_loops]
        product = as_matrix_product(axes) if terms >= _WORTH_A_LOOK else None
        if product is not None:
            products[at] = product
            extra = max(extra, product.n_extra)
        if purpose is not Purpose.TABLES:
            for table in {x, y}:
                if tree.n_leaves <= table < marginals and table != tree.root and last_read[table] == at:
                    places.give_back(place[table], sizes[table])
    largest = max([sizes[line.target] for line in lines], default=0)  # of a target: as many again for logarithms
    numbers = places.end + max(extra, leaf_numbers, largest)
    cost = Cost(operations, 8 * (numbers + 13 * len(lines) + 5 * len(loops) + 3 * (one + 1)))
    return Program(
        cost, places.end, leaf_numbers, leaf_numbers, instructions, loops, one + 1, tuple(place[:n]),
        leaf_numbers + 1, beside, products,
    )  # fmt: skip
