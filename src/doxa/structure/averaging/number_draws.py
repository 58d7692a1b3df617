"""`GaussianDraws`: draws from the posterior of networks with numbers, graph and regressions together.

Parameters are drawn in the scaled units in which families are scored, and come in the units of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.data.scaled import Scaled, scaled
from doxa.data.transforms import TRANSFORMS
from doxa.errors import ArgumentError
from doxa.inference.exact.gaussian import Conditioned, Networks, condition_each
from doxa.inference.exact.mixture import NormalMixture, TransformedMixture
from doxa.inference.importance.numbers import Weighted, condition
from doxa.models.bits import unpack_rows
from doxa.models.dag import Dag
from doxa.models.gaussian import GaussianNetwork, LogOdds, Regression
from doxa.models.separation import requisite_families
from doxa.structure.averaging.counts import Family
from doxa.structure.averaging.draws import NetworkDraws
from doxa.structure.cases.incomplete.missing_cells import MissingCells, completion_of, completion_rows, missing_cells_of
from doxa.structure.posterior.relations import descendant_rows

__all__ = ["GaussianDraws"]

_SEED = 20_300  # of weighted draws


class GaussianDraws(NetworkDraws):
    """Networks of a table with numbers; made by `doxa.structure.averaging.draws.draw_networks`."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.is_number = self.completed.table.is_number
        self._numbers: dict[Family, Any] = {}
        self._whole: dict[Family, Any] = {}
        self._in_units: dict[Family, Any] = {}

    @cached_property
    def scaling(self) -> Scaled:
        """Centres and scales of the columns, and the values as scored."""
        return scaled(self.completed.table)

    def on_scale(self, columns: Sequence[int], values: Floats) -> Floats:
        """Numbers of some columns, (..., n_columns), on the scales that networks have; NaN stays.

        Raises
        ------
        ArgumentError
            If a number is none that the transform of its column takes.
        """
        found = np.array(values, dtype=np.float64)
        for at, j in enumerate(columns):
            own = self.scaling.transforms[j]
            if own is None:
                continue
            found[..., at] = own.forward(found[..., at])
            wrong = ~np.isnan(values[..., at]) & ~np.isfinite(found[..., at])
            if wrong.any():
                raise ArgumentError(
                    f"{self.names[j]!r} is {values[..., at][wrong].flat[0]:g}, and the column was learned from with "
                    f"transform={own.method!r}, which takes {TRANSFORMS[own.method]}; give such a one, or none"
                )
        return found

    def log_slopes(self, columns: Sequence[int], values: Floats) -> Floats:
        """What log densities of some columns on the scales of networks lack in the columns' units, summed over them."""
        total = np.zeros(values.shape[:-1])
        for at, j in enumerate(columns):
            own = self.scaling.transforms[j]
            if own is not None:
                total += own.log_slope(values[..., at])
        return total

    def in_unit(self, column: int, mixture: NormalMixture) -> NormalMixture:
        """What a network says of a number, in the unit of the column."""
        own = self.scaling.transforms[column]
        if own is None:
            return mixture
        return TransformedMixture(mixture.weights, mixture.means, mixture.sds, own)

    def restored(self, numbers: Floats) -> Floats:
        """Numbers that networks drew, shape (..., n_columns), in the units of the columns."""
        found = numbers.copy()
        for j, own in enumerate(self.scaling.transforms):
            if own is not None:
                found[..., j] = own.inverse(found[..., j])
        return found

    def generator(self, t: int) -> np.random.Generator:
        """For weighted draws in one of the networks: the same for every question."""
        return np.random.default_rng([_SEED, t])

    @cached_property
    def all(self) -> list[GaussianNetwork]:
        """Every network, in the units of the table; a column with a transform is on that scale."""
        return [self._made(t) for t in range(len(self))]

    def network(self, t: int, mean: bool = False) -> Any:
        """One of the networks, with the parameters drawn; units as in `all`."""
        if mean:
            raise ArgumentError("mean is True, and regressions have no network of mean parameters; leave mean out")
        return self.all[t]

    def family_draws(self, family: Family) -> Any:
        """What `FamilyParameters` draws, for each network that has the family: scaled regressions, or log tables."""
        if family not in self._numbers:
            members = [family[0], *family[1]]
            sizes = np.where(self.is_number, 0, self.completed.table.n_states)[members].tolist()
            users = self.users[family]
            stream = partial(self._stream, family)
            if self.is_complete(family):
                cases = self.completed.table.own_counts(family[0])
                own = self._parameters_from(*self._complete, cases, members, sizes, stream)
                self._numbers[family] = _drawn(own, len(users), 0, sizes)
            else:
                parts = []
                for t in users.tolist():
                    codes, numbers, cases = self._completions[t]
                    if self._done is not None:
                        cases = np.where(self._done[:, family[0]] == 0, cases, 0)
                    own = self._parameters_from(
                        codes, numbers, cases, members, sizes, lambda a, b, t=t: stream(a + 1, b + t)
                    )
                    parts.append(_drawn(own, 1, 0, sizes))
                self._numbers[family] = [np.concatenate(same) for same in zip(*parts, strict=True)]
        return self._numbers[family]

    def _parameters_from(
        self,
        codes: NDArray[Any],
        numbers: Floats,
        cases: NDArray[Any],
        members: list[int],
        sizes: list[int],
        stream: Any,
    ) -> Any:
        own = np.where(np.array(sizes)[:, None] == 0, numbers[members], codes[members]).T
        own, cases = own[cases > 0], cases[cases > 0]
        kind = self.prior.of_node(members[0])
        return kind.parameters_in_table(own, cases, sizes, stream, int(self.is_number.sum()))

    def is_complete(self, family: Family) -> bool:
        """Whether no cell of the family's columns is missing."""
        return self.completed.cells is None or not self._is_incomplete[[family[0], *family[1]]].any()

    def cases_of(self, categories: Sequence[int]) -> Floats:
        """Rows of each configuration of some categories, averaged over what missing cells may hold; as in a table."""
        if not categories:
            return np.array([float(self.completed.table.n_rows)])
        counts = self.completed.counts((categories[-1], tuple(categories[:-1])), self.draws)
        return np.asarray(counts.reshape(len(counts), -1).mean(axis=0))

    @cached_property
    def _is_incomplete(self) -> NDArray[np.bool_]:
        return np.asarray((self.completed.table.codes < 0).any(axis=0))

    @cached_property
    def _missing(self) -> MissingCells:
        return missing_cells_of(self.completed.table)

    @cached_property
    def _complete(self) -> tuple[NDArray[Any], Floats]:
        return self.completed.table.codes.T, self.scaling.values

    @cached_property
    def _done(self) -> NDArray[np.int8] | None:
        """`Table.interventions`, in the rows of a completion."""
        table = self.completed.table
        return None if table.interventions is None else table.interventions[completion_rows(table)]

    @cached_property
    def _completions(self) -> list[tuple[NDArray[Any], Floats, NDArray[Any]]]:
        cells = self.completed.cells
        assert cells is not None  # the caller saw to it
        found = []
        for draw in self.draws.tolist():
            made = completion_of(self._missing, cells[draw])
            found.append((made.columns, made.numbers, made.weights))
        return found

    def _made(self, t: int) -> GaussianNetwork:
        tables: dict[str, Floats] = {}
        regressions: dict[str, Regression] = {}
        log_odds: dict[str, LogOdds] = {}
        for node, name in enumerate(self.names):
            made, at = self.parameters_in_units((node, self.parents[t][node])), self.place[t][node]
            if isinstance(made, Regression):
                regressions[name] = Regression(*(part[at, ...] for part in made))
            elif isinstance(made, LogOdds):
                log_odds[name] = LogOdds(*(part[at, ...] for part in made))
            else:
                tables[name] = made[at]
        return GaussianNetwork.of_checked(
            Dag.from_rows(self.rows[t], self.names), self.states, tables, regressions, tuple(self.parents[t]), log_odds
        )

    def parameters_in_units(self, family: Family) -> Any:
        """`family_draws` in the units of the table, of each network that has the family: the first axis."""
        if family not in self._in_units:
            made = self.in_units(family, self.family_draws(family))
            for part in made if isinstance(made, tuple) else (made,):
                part.setflags(write=False)
            self._in_units[family] = made
        return self._in_units[family]

    def condition(
        self,
        targets: Sequence[int],
        given: Mapping[int, int],
        columns: Sequence[int],
        values: Floats,
        do: Mapping[int, float],
        *,
        whole: bool = False,
        only: Sequence[int] | None = None,
    ) -> list[Conditioned | Weighted]:
        """`doxa.inference.importance.numbers.condition` of every network; exact answers are found together.

        The other arguments are as there; ``only`` names the networks that are asked, all if left out.
        """
        asked = np.arange(len(self)) if only is None else np.asarray(only)
        families, which = self._requisite(targets, [*given, *columns], do, whole=whole)
        exact = asked[~np.array([any(map(self._has_odds, own)) for own in families])[which[asked]]]

        def parameters(family: Family, members: NDArray[np.intp]) -> Any:
            own = self.parameters_in_units(family)
            at = np.searchsorted(self.users[family], exact[members])
            return Regression(*(part[at] for part in own)) if isinstance(own, Regression) else own[at]

        question = targets, given, columns, values, do
        networks = Networks(self.states, families, which[exact], self._depths[exact], parameters)
        found = dict(zip(exact.tolist(), condition_each(networks, *question), strict=True))
        return [
            found[t] if t in found else condition(self.all[t], *question, self.generator(t), whole=whole)
            for t in asked.tolist()
        ]

    def _requisite(
        self, targets: Sequence[int], given: Sequence[int], do: Mapping[int, float], *, whole: bool
    ) -> tuple[list[tuple[Family, ...]], NDArray[np.int64]]:
        """`requisite_families` of all networks, each once, and which are those of each network."""
        number: dict[tuple[Family, ...], int] = {}
        which = np.empty(len(self), dtype=np.int64)
        for parents, members in self.of_graph.items():
            own = requisite_families(parents, targets, given, do, whole=whole)
            which[members] = number.setdefault(own, len(number))
        return list(number), which

    def _has_odds(self, family: Family) -> bool:
        """Whether it is of a category that depends on numbers."""
        return not self.is_number[family[0]] and any(self.is_number[p] for p in family[1])

    @cached_property
    def _depths(self) -> NDArray[np.int64]:
        """How many ancestors every node has in every network, (n_networks, n_nodes): more than its parents have."""
        paths = unpack_rows(descendant_rows(np.ascontiguousarray(self.rows)), len(self.names))
        return np.asarray(paths.sum(axis=1))

    def log_densities(self, family: Family, draws: Sequence[int]) -> tuple[Floats, Floats]:
        """Log densities (nats) of the family's drawn parameters, of networks that all have it, in scaled units.

        Returns
        -------
        ndarray, shape (n_draws, n_draws)
            ``[s, t]``: of the parameters of network t, given the completed table of network s.
        ndarray, shape (n_draws,)
            Under the prior.
        """
        members = [family[0], *family[1]]
        sizes = np.where(self.is_number, 0, self.completed.table.n_states)[members].tolist()
        places = [self.place[t][family[0]] for t in draws]
        drawn = [part[places] for part in self.family_draws(family)]
        stream = partial(self._stream, family)
        found = np.empty((len(draws), len(draws)))
        if self.is_complete(family):
            cases = self.completed.table.own_counts(family[0])
            of_all = self._parameters_from(*self._complete, cases, members, sizes, stream)
            found[:] = of_all.log_density(*drawn)
        else:
            for s, t in enumerate(draws):
                own = self._parameters_from(*self._completions[t], members, sizes, stream)
                found[s] = own.log_density(*drawn)
        codes, numbers = self._complete
        nothing = self._parameters_from(codes, numbers, np.zeros(codes.shape[1], np.int64), members, sizes, stream)
        return found, nothing.log_density(*drawn)

    def in_units(self, family: Family, drawn: list[Floats]) -> Regression | LogOdds | Floats:
        """What `family_draws` has, in the units of the table: regressions, log odds or tables, any axes before."""
        node, parents = family
        centre, scale = self.scaling.centre, self.scaling.scale
        on = [j for j in parents if self.is_number[j]]
        if not self.is_number[node] and on:
            intercept, slopes = drawn
            own = slopes / scale[on]
            return LogOdds(intercept - own @ centre[on], own)
        if not self.is_number[node]:
            shape = drawn[0].shape[:-2]
            return np.asarray(np.exp(drawn[0]).reshape(*shape, *(self.n_states[j] for j in (*parents, node))))
        intercept, slopes, sd = drawn
        own = slopes * scale[node] / scale[on]
        at_zero = centre[node] + scale[node] * intercept - own @ centre[on]
        return Regression(np.asarray(at_zero), own, np.asarray(scale[node] * sd))

    def posterior_of_whole(self, family: Family) -> Any:
        """`whole_family`, kept."""
        if family not in self._whole:
            self._whole[family] = self.whole_family(family)
        return self._whole[family]

    def whole_family(self, family: Family) -> Any:
        """The posterior of a family of a complete table, in scaled units."""
        members = [family[0], *family[1]]
        sizes = np.where(self.is_number, 0, self.completed.table.n_states)[members].tolist()
        cases = self.completed.table.own_counts(family[0])
        return self._parameters_from(*self._complete, cases, members, sizes, partial(self._stream, family))


def _drawn(parameters: Any, n: int, number: int, sizes: list[int]) -> list[Floats]:
    """Of a category log tables, or log odds below numbers; of a number its regressions.  The first axis is the draw."""
    if not sizes[0]:
        return list(parameters.regressions(n, number))
    return [parameters.log_tables(n)] if all(sizes) else list(parameters.log_odds(n, number))
