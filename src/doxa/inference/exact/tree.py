"""`ContractionTree`: in which order the factors of a network are multiplied and its variables summed out.

Pairs of tables are multiplied one after the other; a variable is summed out by the step that leaves it in no other
table.  The tree holds no numbers, so it serves any values of factors over the same variables.

Variables are renamed to *positions*, in the order in which they are summed out, and the axes of every table are sorted
by position.  The tables of a step then agree on their order, what the step sums over comes first, and loops over the
last axes run along memory: no table is ever transposed.

Summing out a variable multiplies all tables that hold it, so its neighbours become neighbours of each other.  The
*weight* of a variable is the number of states that it and its neighbours have together: the operations that summing
it out costs.  Taking the least weight first (Kjaerulff 1990) is fast, and hard to beat on networks; long regular
networks, such as grids, are better summed out as they are numbered; and small random changes of the weights find
another order, often a better one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

Score = Callable[[int, int], float]  # of a variable and its weight; least first

_TEMPERATURE = 0.3  # of the random changes, in bits; 0.1 to 0.6 do as well


class TooWideError(Exception):
    """An order would need a step of too many operations."""

    def __init__(self, operations: int) -> None:
        super().__init__(operations)
        self.operations = operations  # of that step


def candidates(n_states: Sequence[int]) -> Iterator[Score]:
    """Scores to try, in this order, without end."""
    yield lambda _, weight: weight
    yield lambda variable, _: variable
    for seed in count():
        yield _perturbed(n_states, seed)


def _perturbed(n_states: Sequence[int], seed: int) -> Score:
    """The logarithm of the weight, or for every other seed of what is left of it once summed, with Gumbel noise."""
    rng = random.Random(seed)  # noqa: S311 (its stream is the same in every version of Python)
    logs = [math.log2(size) * (seed % 2) for size in n_states]

    def score(variable: int, weight: int) -> float:
        noise = -math.log(-math.log(rng.random() or 0.5))
        return math.log2(weight) - logs[variable] - _TEMPERATURE * noise

    return score


def eliminate(
    n_states: Sequence[int], scopes: Sequence[Sequence[int]], keep: Sequence[int], score: Score, most: float
) -> dict[int, int]:
    """Order the variables that are not kept, by taking the one of least score again and again; with their weights then.

    Raises `TooWideError` where one has a weight above ``most`` when it is its turn.
    """
    near: dict[int, set[int]] = {}
    for scope in scopes:
        for variable in scope:
            near.setdefault(variable, set()).update(scope)
    weights = {variable: math.prod([n_states[other] for other in others]) for variable, others in near.items()}
    for variable, others in near.items():
        others.discard(variable)
    left = dict.fromkeys(sorted(set(near).difference(keep)))
    heap = [(score(variable, weights[variable]), variable, weights[variable]) for variable in left]
    heapify(heap)
    order = {}
    while heap:
        _, variable, weight = heappop(heap)
        if variable not in left or weight != weights[variable]:
            continue  # its weight has changed since
        if weight > most:
            raise TooWideError(weight)
        del left[variable]
        order[variable] = weight
        clique = near.pop(variable)
        for other in clique:
            theirs = near[other]
            weight = weights[other] // n_states[variable]
            for new in clique - theirs:
                if new != other:
                    weight *= n_states[new]
            theirs |= clique
            theirs.discard(other)
            theirs.discard(variable)
            if weight != weights[other]:
                weights[other] = weight
                if other in left:
                    heappush(heap, (score(other, weight), other, weight))
    return order


_WORTH_A_SEARCH = 100_000  # operations a variable that take ten times as long as finding an order
_MOST_TRIED = 32

Scope = tuple[int, ...]


class Step(NamedTuple):
    """One product of two tables, summed over some of their variables."""

    left: int  # number of a table: a leaf, or n_leaves + the position of an earlier step
    right: int  # -1 where one table is only summed over
    result: int  # n_leaves + own position


class ContractionTree(NamedTuple):
    """Tables, numbered with the leaves first, and the steps that make them; the last step makes the root."""

    operations: int  # products of two numbers, of all steps
    n_leaves: int
    steps: tuple[Step, ...]  # each after the steps that make its tables; the tables of a step are used up by it
    scopes: tuple[Scope, ...]  # [table]: positions of its variables, increasing
    variables: tuple[int, ...]  # [position]: variable
    sizes: tuple[int, ...]  # [position]: number of states, at least 2
    leaf_axes: tuple[Scope, ...]  # [leaf]: axes of its factor, those of one state first, then as in ``scopes``

    @property
    def root(self) -> int:
        """Number of the last table."""
        return len(self.scopes) - 1

    def n_entries(self, scope: Scope) -> int:
        """Entries of a table over ``scope``."""
        return math.prod([self.sizes[position] for position in scope])

    def of_many(self, n: int, which: int) -> ContractionTree:
        """The same steps for n networks together: variable ``which`` says which one, is the first axis of every
        factor, is kept, and has the last position, along which loops run.
        """
        leaf_axes = tuple([(*[axis + 1 for axis in axes], 0) for axes in self.leaf_axes])
        if n == 1:
            return self._replace(leaf_axes=tuple([(0, *axes[:-1]) for axes in leaf_axes]))
        last = len(self.variables)
        return self._replace(
            operations=self.operations * n,
            scopes=tuple([(*scope, last) for scope in self.scopes]),
            variables=(*self.variables, which),
            sizes=(*self.sizes, n),
            leaf_axes=leaf_axes,
        )


def grow_tree(n_states: Sequence[int], scopes: Sequence[Scope], keep: Sequence[int], most: int) -> ContractionTree:
    """Find a tree over variables of two states or more; arguments are trusted, and those kept are the root's axes.

    Raises `TooWideError` where a step takes more than ``most`` operations, whatever the order that is tried.
    """
    leaves = [tuple([variable for variable in scope if n_states[variable] > 1]) for scope in scopes]
    operations, steps, tables = _cheapest(n_states, leaves, keep, most)
    steps, tables = _depth_first(len(leaves), steps, tables, n_states)
    variables = _elimination_order(steps, tables, keep)
    position = {variable: at for at, variable in enumerate(variables)}
    places = [[position.get(variable, -1) for variable in scope] for scope in scopes]
    axes = [tuple(sorted(range(len(own)), key=own.__getitem__)) for own in places]
    return ContractionTree(
        operations,
        len(leaves),
        tuple(steps),
        tuple([tuple(sorted([position[variable] for variable in table])) for table in tables]),
        tuple(variables),
        tuple([n_states[variable] for variable in variables]),
        tuple(axes),
    )


def _cheapest(
    n_states: Sequence[int], leaves: list[Scope], keep: Sequence[int], most: int
) -> tuple[int, list[Step], list[set[int]]]:
    """Operations, steps and tables (as variables) of the cheapest order; the more there is to save, the more we try."""
    best: tuple[int, list[Step], list[set[int]]] | None = None
    narrowest: TooWideError | None = None
    for tried, score in enumerate(candidates(n_states), start=1):
        try:
            order = eliminate(n_states, leaves, keep, score, most)
        except TooWideError as too_wide:
            narrowest = min(narrowest or too_wide, too_wide, key=lambda error: error.operations)
        else:
            found = _steps(n_states, leaves, order)
            best = found if best is None or found[0] < best[0] else best
        operations = most if best is None else best[0]
        if tried == (_MOST_TRIED if best else 2) or operations <= tried * _WORTH_A_SEARCH * len(n_states):
            break
    if best is None:
        assert narrowest is not None
        raise narrowest
    return best


def _steps(
    n_states: Sequence[int], leaves: list[Scope], order: Collection[int]
) -> tuple[int, list[Step], list[set[int]]]:
    """Operations, steps and tables of an elimination order; of several tables the smallest are multiplied first."""
    tables = [set(leaf) for leaf in leaves]
    entries = [math.prod([n_states[variable] for variable in leaf]) for leaf in leaves]
    holders: dict[int, set[int]] = {}  # [variable]: tables not yet used up
    for table, leaf in enumerate(leaves):
        for variable in leaf:
            holders.setdefault(variable, set()).add(table)
    alive = dict.fromkeys(range(len(leaves)))
    to_sum = set(order)
    steps: list[Step] = []
    operations = 0

    def contract(pair: tuple[int, ...]) -> int:
        nonlocal operations
        result, union = len(tables), set().union(*[tables[table] for table in pair])
        size = math.prod([n_states[variable] for variable in union])
        operations += size
        rest = set()
        for variable in union:
            others = holders[variable]
            others.difference_update(pair)
            if others or variable not in to_sum:
                others.add(result)
                rest.add(variable)
            else:
                size //= n_states[variable]
        steps.append(Step(pair[0], pair[1] if len(pair) == 2 else -1, result))
        tables.append(rest)
        entries.append(size)
        for table in pair:
            del alive[table]
        alive[result] = None
        return result

    def contract_all(numbers: Iterable[int]) -> None:
        heap = sorted([(entries[table], table) for table in numbers])
        while len(heap) > 1:
            result = contract((heappop(heap)[1], heappop(heap)[1]))
            heappush(heap, (entries[result], result))

    for variable in order:
        contract_all(holders[variable])
        if holders[variable]:
            contract(tuple(holders[variable]))  # the only one
    contract_all(list(alive))
    return operations, steps, tables


def _depth_first(
    n_leaves: int, steps: list[Step], tables: list[set[int]], n_states: Sequence[int]
) -> tuple[list[Step], list[set[int]]]:
    """Put every step right after those that it needs, so that few tables live at a time (Sethi & Ullman 1970)."""
    entries = [math.prod([n_states[variable] for variable in table]) for table in tables]
    most = [0] * n_leaves  # entries that live at a time while a table is made; leaves are there anyway
    sides: list[tuple[int, ...]] = []
    for step in steps:
        pair = [side for side in (step.left, step.right) if side >= 0]
        pair.sort(key=lambda side: most[side] - (entries[side] if side >= n_leaves else 0))
        alive, peak = 0, 0
        for side in reversed(pair):  # what needs most beyond its result is made first
            peak = max(peak, alive + most[side])
            alive += entries[side] if side >= n_leaves else 0
        most.append(max(peak, alive + entries[step.result]))
        sides.append(tuple(pair))
    backwards: list[Step] = []
    stack = [steps[-1].result] if steps else []
    while stack:
        table = stack.pop()
        if table >= n_leaves:
            backwards.append(steps[table - n_leaves])
            stack.extend(reversed(sides[table - n_leaves]))
    number = [*range(n_leaves), *[0] * len(steps), -1]  # the last for "no table"
    for at, step in enumerate(reversed(backwards)):
        number[step.result] = n_leaves + at
    renamed = [Step(number[step.left], number[step.right], number[step.result]) for step in reversed(backwards)]
    return renamed, tables[:n_leaves] + [tables[step.result] for step in reversed(backwards)]


def _elimination_order(steps: list[Step], tables: list[set[int]], keep: Sequence[int]) -> list[int]:
    """Variables in the order in which they are summed out, then those kept."""
    order: list[int] = []
    for step in steps:
        left, right = tables[step.left], tables[step.right] if step.right >= 0 else set()
        gone = (left | right) - tables[step.result]
        order += sorted(gone, key=lambda variable: (variable in left, variable in right, variable))  # runs are loops
    return order + list(keep)
