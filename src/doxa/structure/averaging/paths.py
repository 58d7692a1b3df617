"""Paths of a unit through the moments to come, drawn in the networks of a posterior over moments with their past.

A network has laws of the present given the past and the same moment.  A path is drawn moment by moment, each the past
of the next; what is set by intervention stands as it is set.  Parameters are those of one network all along, so that
what they leave open does not average out from moment to moment.

Categories are drawn by the inverse of their distribution function and numbers by their mean and scatter, from noise
that is given: paths under different interventions can have the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from doxa.arrays import Floats
from doxa.structure.averaging.draws import NetworkDraws
from doxa.structure.averaging.number_draws import GaussianDraws
from doxa.structure.cases.incomplete.missing_cells import completion_of, missing_cells_of

__all__ = ["Law", "Noise", "PathDraws", "fresh_noise"]

Noise = tuple[Floats, Floats]  # uniform and normal numbers, (n_moments, n_paths, n_columns)


class Law(NamedTuple):
    """How a column depends on others in one network."""

    node: int
    categories: list[int]  # parents
    numbers: list[int]
    table: Floats | None  # (n_states of categories..., n_states): of a category below categories alone
    intercept: Floats  # (n_states of categories..., or with n_states - 1): of a number, or of log odds
    slopes: Floats  # (as intercept..., n_numbers)
    sd: Floats | None  # (n_states of categories...): of a number

    def probabilities(self, cells: Floats) -> Floats:
        """Of the states of a category, (n_paths, n_states), given the cells (n_paths, n_columns) of its parents."""
        at = self._at(cells)
        if self.table is not None:
            return np.broadcast_to(self.table[at], (len(cells), self.table.shape[-1]))
        h = self.intercept[at] + (self.slopes[at] * cells[:, None, self.numbers]).sum(axis=-1)
        return np.asarray(softmax(np.concatenate([np.zeros((len(cells), 1)), h], axis=1), axis=1))

    def mean(self, cells: Floats) -> Floats:
        """Of a number."""
        at = self._at(cells)
        return np.asarray(self.intercept[at] + (self.slopes[at] * cells[:, self.numbers]).sum(axis=-1))

    def draw(self, cells: Floats, uniform: Floats, normal: Floats) -> Floats:
        """A state or a number for each path."""
        if self.sd is not None:
            return np.asarray(self.mean(cells) + self.sd[self._at(cells)] * normal)
        if self.table is not None:
            cumulated = np.cumsum(self.table, axis=-1)[self._at(cells)][..., :-1]
        else:
            cumulated = np.cumsum(self.probabilities(cells), axis=1)[:, :-1]
        return np.asarray((uniform[:, None] >= cumulated).sum(axis=1), dtype=np.float64)

    def _at(self, cells: Floats) -> tuple[NDArray[np.int64], ...]:
        return tuple(cells[:, j].astype(np.int64) for j in self.categories)


def fresh_noise(rng: np.random.Generator, n_moments: int, n_paths: int, width: int) -> Noise:
    """Noise for paths."""
    shape = n_moments, n_paths, width
    return rng.random(shape), rng.standard_normal(shape)


class PathDraws:
    """Paths in the networks of a posterior whose rows are moments with their past.

    Parameters
    ----------
    draws : NetworkDraws
    """

    def __init__(self, draws: NetworkDraws) -> None:
        slices = draws.completed.table.slices
        assert slices is not None  # the caller saw to it
        self.draws, self.width, self.lags = draws, slices.width, slices.lags

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """Which columns of a moment hold numbers."""
        return self.draws.completed.table.is_number[: self.width]

    def laws(self, t: int) -> list[Law]:
        """Of the columns of a moment in one network, parents before children."""
        parents, order = self.draws.parents[t], []
        left = set(range(self.width))
        while left:
            free = sorted(j for j in left if not left.intersection(parents[j]))
            order += free
            left.difference_update(free)
        return [self._law(t, node) for node in order]

    def run(self, t: int, history: Floats, n_moments: int, do: Sequence[Mapping[int, float]], noise: Noise) -> Floats:
        """Paths from histories (n_paths, lags, n_columns), the latest first, shape (n_moments, n_paths, n_columns).

        ``do`` has for each moment to come the columns that are set there; unknown cells of histories, NaN, are drawn
        from the distribution that their column has over all moments.
        """
        history = self._filled(t, history, noise)
        laws, width = self.laws(t), self.width
        cells = np.empty((len(history), width * (self.lags + 1)))
        cells[:, width:] = history.reshape(len(history), -1)
        found = np.empty((n_moments, len(history), width))
        for k in range(n_moments):
            for law in laws:
                set_to = do[k].get(law.node)
                if set_to is None:
                    cells[:, law.node] = law.draw(cells, noise[0][k, :, law.node], noise[1][k, :, law.node])
                else:
                    cells[:, law.node] = set_to
            found[k] = cells[:, :width]
            cells[:, width:] = cells[:, :-width].copy()
        return found

    def expected(self, t: int, history: Floats, cells: Floats, k: int, do: Mapping[int, float]) -> dict[int, Floats]:
        """Of every column, given what is above it at moment k of paths: means or probabilities, (n_paths, 1 or states).

        ``history`` and ``cells`` as of `run`; numbers with a transform have the values that were drawn, in their unit.
        """
        past = [cells[k - lag] if k >= lag else history[:, lag - k - 1] for lag in range(1, self.lags + 1)]
        whole = np.concatenate([cells[k], *past], axis=1)
        found = {}
        for law in self.laws(t):
            j = law.node
            if not self.is_number[j]:
                size = self.draws.n_states[j]
                found[j] = np.eye(size)[[int(do[j])] * len(whole)] if j in do else law.probabilities(whole)
                continue
            own = self.draws.scaling.transforms[j]  # type: ignore[attr-defined]  # of such draws
            if own is not None:
                found[j] = own.inverse(cells[k][:, j])[:, None]
            else:
                found[j] = np.full((len(whole), 1), do[j]) if j in do else law.mean(whole)[:, None]
        return found

    def histories(self, t: int, rows: NDArray[np.integer[Any]], lag: int) -> Floats:
        """What was seen in rows of the table, from so many moments before on: (n_rows, lags, n_columns).

        Missing cells have the values that they have in the draw of the network.
        """
        codes, numbers = self._cells_of(t, rows)
        found = np.where(np.isnan(numbers), codes, numbers)
        first = lag * self.width
        return np.asarray(found[:, first : first + self.lags * self.width].reshape(len(rows), self.lags, self.width))

    def _law(self, t: int, node: int) -> Law:
        draws, parents = self.draws, list(self.draws.parents[t][node])
        nothing = np.empty(0)
        if not isinstance(draws, GaussianDraws):
            return Law(node, parents, [], np.exp(draws.log_table(t, node, False)), nothing, nothing, None)
        network, name = draws.all[t], draws.names[node]
        numbers = [j for j in parents if draws.is_number[j]]
        categories = [j for j in parents if not draws.is_number[j]]
        if draws.is_number[node]:
            own = network.regressions[name]
            return Law(node, categories, numbers, None, *map(np.asarray, (own.intercept, own.coefficients, own.sd)))
        if numbers:
            odds = network.log_odds[name]
            return Law(node, categories, numbers, None, np.asarray(odds.intercept), np.asarray(odds.coefficients), None)
        return Law(node, categories, [], np.asarray(network.tables[name]), nothing, nothing, None)

    def _filled(self, t: int, history: Floats, noise: Noise) -> Floats:
        unknown = np.isnan(history)
        if not unknown.any():
            return history
        found = history.copy()
        rng = np.random.default_rng([int(noise[0][0, 0, 0] * 2**53), t])
        nothing = np.zeros((len(history), self.width * (self.lags + 1)))
        for lag, node in np.argwhere(unknown.any(axis=0)).tolist():
            law = self._law(t, (lag + 1) * self.width + node)
            drawn = law.draw(nothing, rng.random(len(history)), rng.standard_normal(len(history)))
            found[:, lag, node] = np.where(unknown[:, lag, node], drawn, found[:, lag, node])
        return found

    def _cells_of(self, t: int, rows: NDArray[np.integer[Any]]) -> tuple[Floats, Floats]:
        """Codes and numbers, on the scales of networks, of rows of the table."""
        draws, table = self.draws, self.draws.completed.table
        columns = np.arange(table.n_columns)
        if draws.completed.cells is None:
            at = table.row_index[rows]
            codes = table.codes[at].astype(np.float64)
            if table.numbers is None or not isinstance(draws, GaussianDraws):
                return codes, np.full(codes.shape, np.nan)
            return codes, draws.on_scale(columns.tolist(), table.numbers[at])
        missing = self._missing
        made = completion_of(missing, draws.completed.cells[draws.draws[t]])
        at = self._place[rows]
        codes = made.columns[:, at].T.astype(np.float64)
        if missing.numbers is None:
            return codes, np.full(codes.shape, np.nan)
        scaling = missing.numbers
        return codes, np.asarray(made.numbers[:, at].T * scaling.scale + scaling.centre)

    @cached_property
    def _missing(self) -> Any:
        return missing_cells_of(self.draws.completed.table)

    @cached_property
    def _place(self) -> NDArray[np.int64]:
        """Where the rows of the table are in a completion."""
        table = self.draws.completed.table
        complete = np.flatnonzero((table.codes >= 0).all(axis=1))
        place = np.full(table.n_distinct, -1, dtype=np.int64)
        place[complete] = np.arange(len(complete))
        found = place[table.row_index]
        found[self._missing.source_row] = self._missing.n_complete + np.arange(len(self._missing.source_row))
        return found
