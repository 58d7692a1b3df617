"""`Draft`: variables and families as a file gives them, checked before any table is read.

Sizes are exact Python integers, compared with the limits before anything is allocated; cycles are found here, in time
linear in the edges, before a `Dag` would take a matrix of nodes by nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.models.categorical import CategoricalNetwork
from doxa.models.dag import Dag
from doxa.models.network_files.source import Source, shown

__all__ = ["Draft", "Family", "check_sizes", "repeated"]


class Family(NamedTuple):
    """A child and its parents, in the order of the file."""

    child: str
    parents: tuple[str, ...]
    place: int  # in the text


class Draft:
    """What is known of a directed network while its file is read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.states: dict[str, Sequence[str]] = {}  # of each variable, in order
        self.families: dict[str, Family] = {}
        self._places: dict[str, int] = {}
        self._n_states = 0

    def add_variable(self, name: str, states: Sequence[str], place: int) -> None:
        """Declare a variable; its labels are checked already."""
        limits = self.source.limits
        if name in self.states:
            self.source.refuse(f"the variable {shown(name)} is declared twice; take one of the two away", place)
        self._n_states += len(states)
        if len(self.states) == limits.max_variables:
            n = len(self.states) + 1
            self.source.refuse_too_many(f"this is variable number {n}", 2 * n, "max_variables", place)
        if self._n_states > limits.max_states:
            n = self._n_states
            self.source.refuse_too_many(f"the variables up to here have {n} states", 2 * n, "max_states", place)
        self.states[name] = states
        self._places[name] = place

    def add_family(self, child: str, parents: Sequence[str], place: int) -> None:
        """Declare who the parents of a variable are."""
        if child in self.families:
            self.source.refuse(f"there is a second table of {shown(child)}; take one of the two away", place)
        twice = repeated(parents)
        if twice is not None:
            self.source.refuse(f"{shown(child)} has the parent {shown(twice)} more than once; name it once", place)
        self.families[child] = Family(child, tuple(parents), place)

    def check(self) -> None:
        """Refuse unknown names, missing tables, tables beyond the limits and cycles."""
        if not self.states:
            self.source.refuse("it declares no variable; has the file been cut off?", 0)
        for child, parents, place in self.families.values():
            for name in (child, *parents):
                if name not in self.states:
                    self.source.refuse(f"{shown(name)} is not declared as a variable", place)
        for name, place in self._places.items():
            if name not in self.families:
                self.source.refuse(f"the variable {shown(name)} has no table; has the file been cut off?", place)
        shapes = ([len(self.states[name]) for name in (*f.parents, f.child)] for f in self.families.values())
        check_sizes(self.source, zip(self.families, shapes, (f.place for f in self.families.values()), strict=True))
        self._check_cycles()

    def n_configurations(self, child: str) -> int:
        """Number of configurations of the parents, exactly."""
        return prod(len(self.states[parent]) for parent in self.families[child].parents)

    def given(self, child: str, configuration: int) -> str:
        """A configuration of the parents in words, with a blank before; nothing where there are no parents."""
        parents, words = self.families[child].parents, []
        for parent in reversed(parents):
            configuration, state = divmod(configuration, len(self.states[parent]))
            words.append(f"{shown(parent)} = {shown(self.states[parent][state])}")
        words.reverse()
        if len(words) > 8:
            words[8:] = [f"... {len(words) - 8} more"]
        return f" given {', '.join(words)}" if words else ""

    def _check_cycles(self) -> None:
        waiting = {child: len(family.parents) for child, family in self.families.items()}
        children: dict[str, list[str]] = {name: [] for name in self.states}
        for child, parents, _ in self.families.values():
            for parent in parents:
                children[parent].append(child)
        ready = [name for name, n in waiting.items() if n == 0]
        while ready:
            name = ready.pop()
            del waiting[name]
            for child in children[name]:
                waiting[child] -= 1
                if waiting[child] == 0:
                    ready.append(child)
        if waiting:
            cycle = self._cycle(set(waiting))
            words = " -> ".join(map(shown, cycle if len(cycle) <= 10 else (*cycle[:5], "...", *cycle[-4:])))
            self.source.refuse(
                f"there is the cycle {words}; take one of its edges away", self.families[cycle[-1]].place
            )

    def _cycle(self, left: set[str]) -> list[str]:
        """A cycle among nodes that each have a parent among them; the first is repeated at the end."""
        path: dict[str, int] = {}
        node = next(name for name in self.families if name in left)
        while node not in path:
            path[node] = len(path)
            node = next(parent for parent in self.families[node].parents if parent in left)
        return [node, *reversed(list(path)[path[node] :])]

    def finish(self, tables: Mapping[str, NDArray[np.float64]]) -> CategoricalNetwork:
        """Make the network of tables of shape (n_configurations, n_states), parents in the order of the file."""
        order = {name: i for i, name in enumerate(self.states)}
        adjacency = np.zeros((len(order), len(order)), dtype=np.bool_)
        shaped = {}
        for child, parents, _ in self.families.values():
            positions = [order[parent] for parent in parents]
            adjacency[positions, order[child]] = True
            table = tables[child].reshape([len(self.states[name]) for name in (*parents, child)])
            shaped[child] = table.transpose([*np.argsort(positions, kind="stable").tolist(), len(parents)])
        return CategoricalNetwork(Dag(adjacency, list(order)), shaped, self.states)


def check_sizes(source: Source, tables: Iterable[tuple[str, Sequence[int], int]]) -> list[int]:
    """Return the sizes of tables, given as (name, shape, place), or refuse if together they pass the limit."""
    most, sizes, total = source.limits.max_numbers, [], 0
    for name, shape, place in tables:
        size = 1
        for length in shape:
            size *= length
            if size > most:  # a long scope would make a number of thousands of digits
                break
        total += size
        if total > most:
            exact = prod(shape[:4096])
            number = f"{exact:_}" if exact < 10**24 else f"more than 10**{exact.bit_length() * 3 // 10}"
            things = f"the table of {shown(name)} takes {number} numbers"
            if size <= most:
                things = f"the tables up to here take {total} numbers"
            source.refuse_too_many(things, 1 << (total + exact).bit_length(), "max_numbers", place)
        sizes.append(size)
    return sizes


def repeated(names: Sequence[str]) -> str | None:
    """One of the names that stands there more than once; None if all differ."""
    return next((name for name, after in pairwise(sorted(names)) if name == after), None)  # a set would take far more
