"""`Draft`: variables and families as a file gives them, checked before any table is read.

Sizes are exact Python integers, compared with the limits before anything is allocated; cycles are found here, in time
linear in the edges, before a `Dag` would take a matrix of nodes by nodes.  Variables are numbers here and families lie
in arrays, for what is known of a variable may be two characters long: a file is a network only when all of it is read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from doxa.models.categorical import CategoricalNetwork
from doxa.models.dag import Dag
from doxa.models.network_files.source import Source, shown

__all__ = ["Draft", "check_sizes", "repeated_number"]


class Draft:
    """What is known of a directed network while its file is read; without ``labels`` states are 0, 1, ... of each
    variable.
    """

    def __init__(self, source: Source, labels: Sequence[str] | None = None) -> None:
        self.source = source
        self.labels = labels
        self.n_states = array("q")  # of each variable, in order
        self.first_label = array("q")
        self.children = array("i")  # of each family, in order
        self._names: Sequence[str] | None = None
        self._numbers: dict[str, int] = {}  # of the names
        self._places = array("q")  # of the variables
        self._parents, self._ends = array("i"), array("q", [0])
        self._family_places = array("q")
        self._family = array("i")  # of each variable; -1 if it has none
        self._total = 0

    def add_variable(self, name: str, n_states: int, place: int) -> None:
        """Declare a variable; its labels are the next ``n_states``, and checked already."""
        limits, number = self.source.limits, len(self.n_states)
        if name in self._numbers:
            self.source.refuse(f"the variable {shown(name)} is declared twice; take one of the two away", place)
        if number == limits.max_variables:
            n = number + 1
            self.source.refuse_too_many(f"this is variable number {n}", 2 * n, "max_variables", place)
        if self._total + n_states > limits.max_states:
            n = self._total + n_states
            self.source.refuse_too_many(f"the variables up to here have {n} states", 2 * n, "max_states", place)
        self._numbers[name] = number
        self._add(n_states, place)

    def add_numbered(self, n_states: Iterable[int], names: Sequence[str] | None) -> None:
        """Declare all variables, within the limits, without places; None calls them X0, X1, ..."""
        self._names = names
        for n in n_states:
            self._add(n, 0)

    def _add(self, n_states: int, place: int) -> None:
        self.first_label.append(self._total)
        self.n_states.append(n_states)
        self._places.append(place)
        self._family.append(-1)
        self._total += n_states

    def name(self, variable: int) -> str:
        """What a variable is called."""
        if self._numbers:
            self._names = self._names or list(self._numbers)
        return f"X{variable}" if self._names is None else self._names[variable]

    def label(self, variable: int, state: int) -> str:
        """What a state is called."""
        return str(state) if self.labels is None else self.labels[self.first_label[variable] + state]

    def number(self, name: str, place: int) -> int:
        """Which variable is called so; refuses a name that is not declared."""
        found = self._numbers.get(name)
        if found is None:
            self.source.refuse(f"{shown(name)} is not declared as a variable", place)
        return found

    def add_family(self, child: int, parents: Sequence[int], place: int) -> None:
        """Declare who the parents of a variable are."""
        if self._family[child] >= 0:
            called = shown(self.name(child))
            self.source.refuse(f"there is a second table of {called}; take one of the two away", place)
        twice = repeated_number(parents)
        if twice is not None:
            called, parent = shown(self.name(child)), shown(self.name(twice))
            self.source.refuse(f"{called} has the parent {parent} more than once; name it once", place)
        self._family[child] = len(self.children)
        self.children.append(child)
        self._parents.extend(parents)
        self._ends.append(len(self._parents))
        self._family_places.append(place)

    def parents(self, family: int) -> array[int]:
        """Parents of a family, in the order of the file."""
        return self._parents[self._ends[family] : self._ends[family + 1]]

    def place(self, family: int) -> int:
        """Where in the text a family is declared."""
        return self._family_places[family]

    def shape(self, family: int) -> list[int]:
        """Numbers of states of the parents, in the order of the file, and of the child."""
        return [self.n_states[v] for v in (*self.parents(family), self.children[family])]

    def n_configurations(self, family: int) -> int:
        """Number of configurations of the parents, exactly."""
        return prod(self.shape(family)[:-1])

    def given(self, family: int, configuration: int) -> str:
        """A configuration of the parents in words, with a blank before; nothing where there are no parents."""
        parents, words = self.parents(family), []
        for parent in reversed(parents):
            configuration, state = divmod(configuration, self.n_states[parent])
            words.append(f"{shown(self.name(parent))} = {shown(self.label(parent, state))}")
        words.reverse()
        if len(words) > 8:
            words[8:] = [f"... {len(words) - 8} more"]
        return f" given {', '.join(words)}" if words else ""

    def check(self) -> None:
        """Refuse missing tables, tables beyond the limits and cycles."""
        self.check_families()
        n = len(self.children)
        check_sizes(self.source, ((self.name(self.children[k]), self.shape(k), self.place(k)) for k in range(n)))
        self._check_cycles()

    def check_families(self) -> None:
        """Refuse a text without variables, and variables without a family."""
        if not self.n_states:
            self.source.refuse("it declares no variable; has the file been cut off?", 0)
        for variable, family in enumerate(self._family):
            if family < 0:
                cause = f"the variable {shown(self.name(variable))} has no table; has the file been cut off?"
                self.source.refuse(cause, self._places[variable])

    def _check_cycles(self) -> None:
        """Walk from children to parents, depth first; a walk that meets itself is a cycle."""
        new, open_, done = 0, 1, 2
        states = bytearray(len(self.n_states))
        following = array("q", [self._ends[family] for family in self._family])  # of each: its next edge to walk
        for start in self.children:
            if states[start] != new:
                continue
            path = array("i", [start])
            states[start] = open_
            while path:
                node = path[-1]
                if following[node] == self._ends[self._family[node] + 1]:
                    states[path.pop()] = done
                    continue
                parent = self._parents[following[node]]
                following[node] += 1
                if states[parent] == open_:
                    self._refuse_cycle([*path[path.index(parent) :], parent])
                if states[parent] == new:
                    states[parent] = open_
                    path.append(parent)

    def _refuse_cycle(self, cycle: list[int]) -> None:
        place = self.place(self._family[cycle[0]])
        cycle.reverse()
        names = [shown(self.name(v)) for v in (cycle if len(cycle) <= 10 else (*cycle[:5], *cycle[-4:]))]
        if len(cycle) > 10:
            names.insert(5, "...")
        self.source.refuse(f"there is the cycle {' -> '.join(names)}; take one of its edges away", place)

    def finish(self, tables: Iterable[NDArray[np.float64]]) -> CategoricalNetwork:
        """Make the network of the families' tables, shape (n_configurations, n_states), in the order of the file."""
        names = [self.name(v) for v in range(len(self.n_states))]
        adjacency = np.zeros((len(names), len(names)), dtype=np.bool_)
        shaped = {}
        for family, table in enumerate(tables):
            child, parents = self.children[family], self.parents(family)
            adjacency[parents, child] = True
            axes = [*np.argsort(parents, kind="stable").tolist(), len(parents)]
            shaped[names[child]] = table.reshape(self.shape(family)).transpose(axes)
        states = {name: [self.label(v, k) for k in range(self.n_states[v])] for v, name in enumerate(names)}
        return CategoricalNetwork(Dag(adjacency, names), shaped, states)


def check_sizes(source: Source, tables: Iterable[tuple[str, Sequence[int], int]]) -> array[int]:
    """Return the sizes of tables, given as (name, shape, place), or refuse if together they pass the limit."""
    most, sizes, total = source.limits.max_numbers, array("q"), 0
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


def repeated_number(numbers: Sequence[int]) -> int | None:
    """One of the numbers that stands there more than once; None if all differ."""
    if len(numbers) < 64:
        if len(set(numbers)) == len(numbers):
            return None
        return next(number for k, number in enumerate(numbers) if number in numbers[:k])
    ordered = np.sort(np.asarray(numbers))  # a set would take far more
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    return int(twice[0]) if twice.size else None
