"""`MixedDraft`: a `Draft` in which some variables are numbers, and the network that is made of it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from doxa.models.categorical import CategoricalNetwork
from doxa.models.dag import Dag
from doxa.models.gaussian import GaussianNetwork, LogOdds, Regression
from doxa.models.network_files.draft import Draft
from doxa.models.network_files.source import Source, Spans, shown
from doxa.models.network_files.tables import Rows

__all__ = ["LOG_ODDS", "PARTS", "REGRESSION", "TABLE", "MixedDraft", "as_categorical", "refuse_beyond", "shapes_of"]

TABLE, REGRESSION, LOG_ODDS = range(3)
PARTS = {TABLE: ("table",), REGRESSION: ("intercept", "coefficients", "sd"), LOG_ODDS: ("intercept", "coefficients")}


class MixedDraft(Draft):
    """What is known of a network of numbers, which have no states, and categories."""

    def __init__(
        self, source: Source, names: Sequence[str], kinds: bytearray, n_states: array[int], labels: Spans
    ) -> None:
        super().__init__(source, labels)
        self.kinds = kinds  # of each variable: TABLE, REGRESSION or LOG_ODDS
        self.add_numbered(n_states, names)

    def shape(self, family: int) -> list[int]:
        """Numbers of states of the parents that are categories, and how many numbers each configuration has."""
        child, (sizes, n_numbers) = self.children[family], self.sizes(family)
        own = {
            TABLE: self.n_states[child],
            REGRESSION: n_numbers + 2,
            LOG_ODDS: (self.n_states[child] - 1) * (n_numbers + 1),
        }
        return [*sizes, own[self.kinds[child]]]

    def sizes(self, family: int) -> tuple[list[int], int]:
        """Numbers of states of the parents that are categories, and how many parents are numbers."""
        parents = self.parents(family)
        sizes = [self.n_states[p] for p in parents if self.n_states[p]]
        return sizes, len(parents) - len(sizes)

    def check_edges(self, most: int) -> None:
        """Refuse edges from numbers to categories with tables, and more categories as parents than arrays have axes."""
        for family, child in enumerate(self.children):
            parents, (sizes, n_numbers) = self.parents(family), self.sizes(family)
            called = shown(self.name(child))
            if n_numbers and self.kinds[child] == TABLE:
                parent = shown(self.name(next(p for p in parents if not self.n_states[p])))
                self.source.refuse(
                    f"{called} is a category with a table, and its parent {parent} is a number; give it log_odds in "
                    "the place of the table, or turn the edge",
                    self.place(family),
                )
            if len(sizes) > most:
                cause = f"{called} has {len(sizes)} parents that are categories, more than the {most} that can be used"
                self.source.refuse(cause, self.place(family))

    def network(self, values: NDArray[np.float64]) -> GaussianNetwork:
        """Make the network of the numbers of all families, one part after the other, in the order of the file."""
        names = [self.name(v) for v in range(len(self.n_states))]
        adjacency = np.zeros((len(names), len(names)), dtype=np.bool_)
        made: tuple[dict[str, NDArray[np.float64]], dict[str, Regression], dict[str, LogOdds]] = ({}, {}, {})
        tables, regressions, log_odds = made
        first = 0
        for family, child in enumerate(self.children):
            parents, name, kind = self.parents(family), names[child], self.kinds[child]
            adjacency[parents, child] = True
            parts = []
            for shape, axes in zip(shapes_of(self, family), self._axes(family), strict=True):
                n = int(np.prod(shape, dtype=np.int64))
                part = values[first : first + n].reshape(shape).transpose(axes[0])
                parts.append(part if axes[1] is None else part[..., axes[1]])
                first += n
            if kind == TABLE:
                tables[name] = parts[0]
            elif kind == REGRESSION:
                regressions[name] = Regression(*parts)
            else:
                log_odds[name] = LogOdds(*parts)
        n_states = enumerate(self.n_states)
        states = {names[v]: [self.label(v, k) for k in range(n)] for v, n in n_states if n}
        return GaussianNetwork(Dag(adjacency, names), regressions, tables, states, log_odds)

    def _axes(self, family: int) -> list[tuple[list[int], list[int] | None]]:
        """Of each part: its axes in the order of the graph, and the order of its last one, where that changes."""
        parents, child = self.parents(family), self.children[family]
        categories = [p for p in parents if self.n_states[p]]
        numbers = [p for p in parents if not self.n_states[p]]
        first = np.argsort(categories, kind="stable").tolist()
        last = np.argsort(numbers, kind="stable").tolist()
        n = len(categories)
        if self.kinds[child] == TABLE:
            return [([*first, n], None)]
        if self.kinds[child] == LOG_ODDS:
            return [([*first, n], None), ([*first, n, n + 1], last)]
        alone: tuple[list[int], list[int] | None] = (first, None)
        return [alone, ([*first, n], last), alone]


def shapes_of(draft: MixedDraft, family: int) -> list[tuple[int, ...]]:
    """Shapes of the parts of a family, in the order of its parents in the file."""
    child, (sizes, n_numbers) = draft.children[family], draft.sizes(family)
    if draft.kinds[child] == TABLE:
        return [(*sizes, draft.n_states[child])]
    if draft.kinds[child] == LOG_ODDS:
        return [(*sizes, draft.n_states[child] - 1), (*sizes, draft.n_states[child] - 1, n_numbers)]
    return [tuple(sizes), (*sizes, n_numbers), tuple(sizes)]


def refuse_beyond(rows: Rows, first: int, n: int, what: str, *, negative: bool = True) -> None:
    """Refuse numbers beyond the range of numbers, and negative ones where there may be none."""
    values = rows.numbers.array(first, n)
    for bad, rule in ((~np.isfinite(values), "finite"), (values < 0, "0 or more")):
        if bad.any() and (rule == "finite" or not negative):
            k = int(np.argmax(bad))
            rows.draft.source.refuse(f"{what} is {values[k]:.9g}; it must be {rule}", rows.numbers.place(first + k))


def as_categorical(network: GaussianNetwork) -> CategoricalNetwork:
    """The same network of categories alone."""
    states = dict(zip(network.names, network.states, strict=True))
    return CategoricalNetwork(network.dag, network.tables, states)
