"""Effects of every column on every other in networks of categories.

In each network the distributions of all that several columns reach come from one run of a contraction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.inference.exact import Budget, BudgetError, ContractionPlan, plan_contraction
from doxa.models.separation import requisite_families
from doxa.structure.averaging.conditional import read_budget
from doxa.structure.averaging.counts import Family
from doxa.structure.averaging.draws import NetworkDraws

__all__ = ["CategoryNetworks", "Changes", "told_states"]

Changes = dict[tuple[int, int | None], Floats]  # of a column, and its state or None, in every network

_NEGLIGIBLE = -80.0  # nats: with less, sums of plain numbers may leave their range, and no effect has such digits
_KEPT = 2**23  # effects in single networks that are held at a time
_WHOLE = Budget(operations=2_000_000)  # of a network: cheaper than to plan the part that each cause needs


def told_states(size: int) -> Sequence[int]:
    """States of which an effect is told: of two, the second says all."""
    return range(size) if size > 2 else (size - 1,)


class _Program(NamedTuple):
    """How the marginals of a network, or of a part of it, are found."""

    plan: ContractionPlan
    families: tuple[Family, ...]
    scopes: tuple[tuple[int, ...], ...]
    number: Mapping[int, int]  # of each column


class CategoryNetworks:
    """Networks of categories, in which one column after the other is set; what they share is made once."""

    def __init__(self, draws: NetworkDraws) -> None:
        self._draws = draws
        self._budget = read_budget(None, len(draws))
        self._wholes: dict[tuple[Family, ...], _Program | None] = {}
        self._parts: dict[tuple[Family, ...], _Program] = {}
        self._tables: dict[tuple[int, Family], Floats] = {}

    def changed(self, levels: Sequence[tuple[int, int]], reach: NDArray[np.bool_]) -> Iterator[Changes]:
        """Effects of each column in turn on every other one, in every network."""
        n = len(levels)
        at_once = max(1, _KEPT // (len(self._draws) * sum(self._draws.n_states)))
        for first in range(0, n, at_once):
            yield from self._changed(range(first, min(n, first + at_once)), levels, reach)

    def _changed(
        self, causes: Sequence[int], levels: Sequence[tuple[int, int]], reach: NDArray[np.bool_]
    ) -> Iterator[Changes]:
        draws = self._draws
        n = len(draws.names)
        found = {of: {j: np.zeros((len(draws), draws.n_states[j])) for j in range(n) if j != of} for of in causes}
        for t in range(len(draws)):
            wanted = {of: np.flatnonzero(reach[t, of]).tolist() for of in causes if reach[t, of].any()}
            for program, some in self._programs(t, wanted):
                settings = [(of, level) for of in some for level in levels[of]]
                each = program.plan.marginals(self._tables_when_set(program, t, settings))
                for k, of in enumerate(some):
                    for j in wanted[of]:
                        before, after = each[program.number[j]][2 * k : 2 * k + 2]
                        found[of][j][t] = after - before
        for own in found.values():
            yield {(j, k): changes[:, k] for j, changes in own.items() for k in told_states(draws.n_states[j])}

    def _tables_when_set(self, program: _Program, t: int, settings: Sequence[tuple[int, int]]) -> list[Floats]:
        """Tables of a network under each setting of a column: that of its own says so, whatever its parents are."""
        tables = []
        for child, group in program.families:
            own = [(at, level) for at, (of, level) in enumerate(settings) if of == child]
            table = np.full((len(settings), *[self._draws.n_states[v] for v in (*group, child)]), -np.inf)
            if len(own) < len(settings):
                table[:] = self._table(t, (child, group))
            for at, level in own:
                table[at] = -np.inf
                table[at, ..., level] = 0.0
            tables.append(table)
        return tables

    def _table(self, t: int, family: Family) -> Floats:
        if (t, family) not in self._tables:
            table = self._draws.log_table(t, family[0], False)
            self._tables[t, family] = np.where(table < _NEGLIGIBLE, -np.inf, table)
        return self._tables[t, family]

    def _programs(self, t: int, wanted: Mapping[int, Sequence[int]]) -> list[tuple[_Program, list[int]]]:
        """With the columns that are set in each: the whole network, where it is cheap, or else what bears on those
        wanted.
        """
        whole = tuple(enumerate(self._draws.parents[t]))
        if whole not in self._wholes:
            try:
                self._wholes[whole] = self._planned(whole, _WHOLE)
            except BudgetError:
                self._wholes[whole] = None
        if (program := self._wholes[whole]) is not None:
            return [(program, list(wanted))] if wanted else []
        return [(self._of_part(t, of, own), [of]) for of, own in wanted.items()]

    def _of_part(self, t: int, of: int, wanted: Sequence[int]) -> _Program:
        families = (*requisite_families(self._draws.parents[t], wanted, (), (of,)), (of, ()))
        if families not in self._parts:
            try:
                program = self._planned(families, self._budget)
                self._budget.check(program.plan.cost, "all marginals")
            except BudgetError as error:
                bear = len(families) - 1
                what = f"the effects of {self._draws.names[of]!r}, on which {bear} nodes bear in some network,"
                raise BudgetError(what, error.cost, self._budget) from None
            self._parts[families] = program
        return self._parts[families]

    def _planned(self, families: tuple[Family, ...], budget: Budget) -> _Program:
        number = {child: k for k, (child, _) in enumerate(families)}
        scopes = tuple(tuple(number[v] for v in (*group, child)) for child, group in families)
        plan = plan_contraction([self._draws.n_states[child] for child, _ in families], scopes, budget=budget)
        return _Program(plan, families, scopes, number)
