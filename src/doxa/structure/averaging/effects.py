r"""Causal effects of one column on another, averaged over graphs and parameters.

The effect of setting x to b in the place of a is, in one network, the difference of expected numbers or of
probabilities

.. math:: E[y \mid do(x = b), \theta, G] - E[y \mid do(x = a), \theta, G]

by the truncated factorisation (Pearl 2009, section 3.2): edges into x are cut.  Where no directed path leads from x to
y it is 0, whatever the parameters.  Graph and parameters are uncertain together, so the effect has a posterior: a
probability of being 0, and a spread.  No set of columns to adjust for is chosen: every graph has its own.

Of one pair every network is asked by the inference that answers queries.  Of all pairs, networks of categories are in
`doxa.structure.averaging.category_effects`; where all columns are numbers and lines are straight,
:math:`(I - B)^{-1}` has the effects of a unit, one inverse for each graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import Estimate
from doxa.estimates.intervals import StudentInterval
from doxa.models.bits import unpack_rows
from doxa.models.gaussian import check_number
from doxa.notebook import card
from doxa.structure.averaging.answers import Averaged, mean_over_draws
from doxa.structure.averaging.category_effects import CategoryNetworks, Changes, told_states
from doxa.structure.averaging.conditional import conditional_draws, read_budget
from doxa.structure.averaging.draws import NetworkDraws
from doxa.structure.averaging.number_draws import GaussianDraws
from doxa.structure.averaging.numbers import far_beyond, level_of
from doxa.structure.averaging.questions import Question, column_of, state_of
from doxa.structure.posterior.exact_answer import ExactStructurePosterior
from doxa.structure.posterior.features import frequency_of
from doxa.structure.posterior.relations import descendant_rows
from doxa.text import printable

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = [
    "ASSUMPTIONS",
    "Effect",
    "Level",
    "all_effects",
    "assembled",
    "effect_of",
    "read_pair",
    "shown_level",
    "told_effects",
    "usual_levels",
]

Level = float | str

ASSUMPTIONS = (
    "Effects of interventions only if every common cause of the columns is a column, rows were not selected by what "
    "they hold, and the families have the right form."
)


class _Pair(NamedTuple):
    """What is compared, by positions."""

    of: int
    levels: tuple[float, float]  # states, or numbers in the units of the networks
    on: int
    state: int | None  # None of a number


@dataclass(frozen=True, eq=False, repr=False)
class Effect(Averaged):
    """Posterior of the average causal effect of one column on another.

    ``value`` is its posterior mean with the Monte Carlo error ``mcse``; ``draws`` and `credible_interval` say what the
    data leave open, graph and parameters together.

    Attributes
    ----------
    cause : str
        The column that is set.
    levels : tuple
        From what, and to what: states, or numbers in the unit of the column.
    target : str
        The column on which the effect is.
    state : str or None
        Its state, whose probability changes; None of a number, whose mean changes.
    before, after : ndarray of float, shape (chain, draw)
        Probability of the state, or mean of the number, under either value, in every network.
    is_path : ndarray of bool, shape (chain, draw)
        Whether a directed path leads from the one to the other.
    no_effect : Estimate
        Posterior probability that none does.
    notes : tuple of str
        What to beware of, as values far from all data.
    """

    cause: str = ""
    levels: tuple[Level, Level] = ("", "")
    target: str = ""
    state: str | None = None
    before: Floats = field(default_factory=lambda: np.empty((0, 0)))
    after: Floats = field(default_factory=lambda: np.empty((0, 0)))
    is_path: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), dtype=np.bool_))
    no_effect: Estimate = field(default_factory=lambda: Estimate.exactly(0.0))
    worth: float = 0.0
    notes: tuple[str, ...] = ()

    @cached_property
    def ratio(self) -> Averaged:
        """After to before: the risk ratio, of probabilities.

        Raises
        ------
        ArgumentError
            If a network has 0 or a negative number before.
        """
        if not (self.before > 0).all():
            raise ArgumentError(
                f"{self._outcome} is not above 0 in every network before {self.cause!r} is changed, and a ratio to it "
                "says nothing; the effect itself is the difference"
            )
        own = self.after / self.before
        return Averaged.of(_mean_between(own, float(own.min()), float(own.max()), self.worth), own)

    def probability(self, *, above: float | None = None, below: float | None = None) -> Estimate:
        """Posterior probability that the effect is above, or below, a threshold.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If not one of the two is given, or it is no number.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
        >>> 0.0 < posterior.effect("smoke", "protein").probability(below=0.0).value <= 1.0
        True
        """
        if (above is None) == (below is None):
            raise ArgumentError(f"above is {above!r} and below is {below!r}; give one of them, such as above=0.0")
        holds = (
            self.draws > check_number("above", above) if below is None else self.draws < check_number("below", below)
        )
        return mean_over_draws(holds[..., None].astype(np.float64), self.worth).estimate(0)

    @property
    def given_path(self) -> Floats:
        """The effect in the networks that have a directed path, shape (n,)."""
        return np.asarray(self.draws[self.is_path])

    def __str__(self) -> str:
        """The mean with its Monte Carlo error, what the data leave open, and the probability that there is none."""
        low, high = self.credible_interval()
        lines = [
            f"difference                  {Estimate.__str__(self)}",
            f"credible interval (95%)     {low:.3g} to {high:.3g}",
            f"no effect, with probability {self.no_effect}",
        ]
        if 20 <= len(self.given_path) < self.draws.size:
            low, high = np.quantile(self.given_path, [0.025, 0.975])
            lines.append(f"if there is one             {self.given_path.mean():.3g} ({low:.3g} to {high:.3g})")
        return "\n".join([*lines, *self.notes, ASSUMPTIONS])

    def __repr__(self) -> str:
        """What is compared, and the answer."""
        return f"{self._title}\n{self}"

    def _repr_html_(self) -> str:
        rows = [("difference", Estimate.__str__(self), "{:.3g} to {:.3g}".format(*self.credible_interval())),
                ("no effect, with probability", str(self.no_effect), "")]  # fmt: skip
        return card(self._title, None, ("", "mean", "credible interval (95%)"), rows, more=[*self.notes, ASSUMPTIONS])

    @property
    def _outcome(self) -> str:
        return f"the mean of {self.target}" if self.state is None else f"P({self.target} = {self.state})"

    @property
    def _title(self) -> str:
        a, b = (f"{level:.4g}" if isinstance(level, float) else level for level in self.levels)
        where = f"averaged over {self.n_networks} networks"
        return printable(f"Effect of {self.cause} ({a} to {b}) on {self._outcome}, {where}")


def effect_of(
    posterior: StructurePosterior,
    draws: NetworkDraws,
    of: str,
    on: str | Mapping[str, str],
    values: Sequence[Level] | None = None,
) -> Effect:
    """One effect: see `doxa.structure.averaging.posterior.Posterior.effect`."""
    pair, levels = read_pair(draws, of, on, values)
    (before, smooth_before), (after, smooth_after) = (_when_set(draws, pair, level) for level in pair.levels)
    mean = smooth_after - smooth_before
    reach = _reach(draws)[:, pair.of, pair.on]
    return assembled(draws, pair, levels, before, after, mean, reach, _no_path(posterior, pair.of, pair.on))


def assembled(
    draws: NetworkDraws,
    pair: _Pair,
    levels: tuple[Level, Level],
    before: Floats,
    after: Floats,
    mean: Floats,
    reach: NDArray[np.bool_],
    no_effect: Estimate,
) -> Effect:
    """An effect from what every network says; ``mean`` is the difference over parameters where that is known."""
    own = np.where(reach, after - before, 0.0)
    mean = np.where(reach, mean, 0.0)
    bounds = _bounds(own, pair.state is not None)
    estimate = _mean_between(mean.reshape(draws.shape), *bounds, draws.reference_ess)
    return Effect(
        estimate.value, estimate.mcse, estimate.ess, False, estimate.law, own.reshape(draws.shape),
        cause=draws.names[pair.of], levels=levels, target=draws.names[pair.on],
        state=None if pair.state is None else draws.states[pair.on][pair.state],
        before=before.reshape(draws.shape), after=after.reshape(draws.shape), is_path=reach.reshape(draws.shape),
        no_effect=no_effect, worth=draws.reference_ess, notes=_notes(draws, pair, levels),
    )  # fmt: skip


def all_effects(posterior: StructurePosterior, draws: NetworkDraws, prob: float = 0.95) -> pd.DataFrame:
    """Every effect: see `doxa.structure.averaging.posterior.Posterior.effects`."""
    from doxa.frames import ReadFrame

    n = len(draws.names)
    paths = posterior.ancestors(least=0.0)[["ancestor", "descendant", "probability", "mcse"]].to_numpy().tolist()
    none = {(above, below): (1.0 - probability, mcse) for above, below, probability, mcse in paths}
    reach = _reach(draws)
    straight = _straight_lines(draws)
    every = [usual_levels(draws, of) for of in range(n)]
    of_categories = CategoryNetworks(draws).changed([(int(low), int(high)) for low, high in every], reach)
    if straight is not None:
        straight = np.where(reach.transpose(0, 2, 1), straight, 0.0)
    rows: list[list[Any]] = []
    for of, levels in enumerate(every):
        shown = tuple(shown_level(draws, of, level) for level in levels)
        changes: Changes
        if straight is not None:
            changes = {(j, None): straight[:, j, of] * (levels[1] - levels[0]) for j in range(n) if j != of}
        elif isinstance(draws, GaussianDraws):
            changes = _numbers_changed(draws, of, levels, reach)
        else:
            changes = next(of_categories)
        is_probability = [state is not None for _, state in changes]
        every_told = told_effects(draws, list(changes.values()), is_probability, prob)
        for (on, state), told in zip(changes, every_told, strict=True):
            label = None if state is None else draws.states[on][state]
            none_of_it = none[draws.names[of], draws.names[on]]
            rows.append([draws.names[of], *shown, draws.names[on], label, *told, *none_of_it])
    rows.sort(key=lambda row: (row[-2], -abs(row[5])))
    head = ["of", "from", "to", "on", "state", "effect", "mcse", "sd", "lower", "upper", "no_effect", "no_effect_mcse"]
    return ReadFrame(rows, columns=head)


def read_pair(
    draws: NetworkDraws,
    of: str,
    on: str | Mapping[str, str],
    values: Sequence[Level] | None,
    *,
    same: bool = False,
) -> tuple[_Pair, tuple[Level, Level]]:
    """What is compared, and the values in the columns' own units; both may be the ``same`` column at other moments."""
    table: Table = draws.completed.table
    cause = column_of("of", of, draws.names)
    if isinstance(on, str):
        target = column_of("on", on, draws.names)
        state = None if draws.is_number[target] else len(draws.states[target]) - 1
        if state is not None and state > 1:
            last = draws.states[target][-1]
            raise ArgumentError(
                f"on is {on!r}, a category of {state + 1} states; name the one whose probability changes, as in "
                f"on={{{on!r}: {last!r}}}"
            )
    else:
        if not isinstance(on, Mapping) or len(on) != 1:
            raise ArgumentTypeError(f"on is {on!r}; give a column, or one column and its state, as a mapping")
        [(name, label)] = on.items()
        target = column_of("on", name, draws.names)
        if draws.is_number[target]:
            raise ArgumentError(f"on names {name!r} with a value, and the column holds numbers; give the column alone")
        state = state_of(f"on[{name!r}]", label, draws.states[target], table.cuts.get(name))
    if cause == target and not same:
        raise ArgumentError(f"of and on are both {of!r}; an effect is that of one column on another")
    if values is None:
        levels = usual_levels(draws, cause)
        return _Pair(cause, levels, target, state), tuple(shown_level(draws, cause, level) for level in levels)  # type: ignore[return-value]
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != 2:
        raise ArgumentTypeError(f"values is {values!r}; give two: from what {of!r} is changed, and to what")
    a, b = (level_of(draws, "values", cause, value) for value in values)
    if a == b:
        raise ArgumentError(f"values is {values!r}, twice the same; an effect compares two values")
    pair = _Pair(cause, (a, b), target, state)
    return pair, (shown_level(draws, cause, a), shown_level(draws, cause, b))


def usual_levels(draws: NetworkDraws, column: int) -> tuple[float, float]:
    """The first and the last state; of a number the mean, and a standard deviation above it, in units of networks."""
    if draws.is_number[column]:
        assert isinstance(draws, GaussianDraws)
        centre, scale = float(draws.scaling.centre[column]), float(draws.scaling.scale[column])
        return centre, centre + scale
    return 0.0, float(len(draws.states[column]) - 1)


def shown_level(draws: NetworkDraws, column: int, level: float) -> Level:
    """A state by its label; a number in the unit of the column."""
    if not draws.is_number[column]:
        return draws.states[column][int(level)]
    assert isinstance(draws, GaussianDraws)
    own = draws.scaling.transforms[column]
    return level if own is None else float(own.inverse(np.array([level]))[0])


def _reach(draws: NetworkDraws) -> NDArray[np.bool_]:
    """Directed paths of every network, shape (n_networks, n_nodes, n_nodes)."""
    return unpack_rows(descendant_rows(np.ascontiguousarray(draws.rows)), len(draws.names))


def _no_path(posterior: StructurePosterior, of: int, on: int) -> Estimate:
    if isinstance(posterior, ExactStructurePosterior):
        return Estimate.exactly(1.0 - float(posterior.exact.ancestor_probabilities[of, on]))
    rows, which = posterior._distinct
    paths = unpack_rows(descendant_rows(rows), len(posterior.names))[:, of, on]
    return frequency_of(posterior, ~paths[which])


def told_effects(
    draws: NetworkDraws, effects: Sequence[Floats], is_probability: Sequence[bool], prob: float
) -> list[list[float]]:
    """Mean, its Monte Carlo error, standard deviation and credible interval of each effect, from all networks."""
    own, tail = np.stack(effects, axis=1), (1 - prob) / 2
    low, high = np.array([_bounds(one, kind) for one, kind in zip(effects, is_probability, strict=True)]).T
    is_still = low == high
    width = np.where(is_still, 1.0, high - low)
    found = mean_over_draws(((own - low) / width).reshape(*draws.shape, -1), draws.reference_ess)
    mean = low + width * np.clip(found.value[:-1], 0.0, 1.0)
    errors = found.errors_by(np.fmin(found.ess, found.ess[-1]))  # of each as if it were asked alone
    mcse = np.where(is_still, np.nan, width * errors[:-1])
    ends = np.quantile(own, [tail, 1 - tail], axis=0)
    rows: list[list[float]] = np.array([mean, mcse, own.std(axis=0, ddof=1), *ends]).T.tolist()
    return rows


def _bounds(own: Floats, is_probability: bool) -> tuple[float, float]:
    """Between which numbers an effect can lie: of means, those of the networks."""
    return (-1.0, 1.0) if is_probability else (min(0.0, float(own.min())), max(0.0, float(own.max())))


def _mean_between(series: Floats, low: float, high: float, worth: float) -> Estimate:
    """Mean of a quantity between two numbers, shape (chain, draw), with its Monte Carlo error."""
    if low == high:
        return Estimate(low, np.nan, worth)
    found = mean_over_draws((series[..., None] - low) / (high - low), worth)
    one, law = found.estimate(0), StudentInterval(float(np.nan_to_num(found.df[0], nan=1.0)))
    return Estimate(low + (high - low) * one.value, (high - low) * one.mcse, one.ess, law=law)


def _when_set(draws: NetworkDraws, pair: _Pair, level: float) -> tuple[Floats, Floats]:
    """Probability of the state or mean of the number in every network, as drawn, and over parameters where known."""
    if isinstance(draws, GaussianDraws):
        drawn = _asked(draws, pair.of, level, pair.on)[:, pair.state or 0]
        return drawn, drawn
    assert pair.state is not None  # of a table of categories
    question = Question((pair.on,), (pair.state,), {}, {pair.of: int(level)}, ("",))
    found = conditional_draws(draws, question, read_budget(None, len(draws)))
    return found.drawn[:, 0], found.smooth[:, 0]


def _asked(draws: GaussianDraws, of: int, level: float, on: int, only: Sequence[int] | None = None) -> Floats:
    """Probability of each state, or mean of a number, in networks; shape (n_networks, n_states or 1)."""
    do = {of: level if draws.is_number[of] else int(level)}
    found = draws.condition((on,), {}, [], np.empty((1, 0)), do, only=only)
    if draws.is_number[on]:
        return np.array([[draws.in_unit(on, one.mixture()).mean] for one in found])
    return np.array([one.state_probabilities(on, draws.n_states[on])[0] for one in found])


def _straight_lines(draws: NetworkDraws) -> Floats | None:
    """Effect of a unit on the mean of each number, (n_networks, on, of), where all is linear; else None."""
    if not isinstance(draws, GaussianDraws) or not draws.is_number.all() or any(draws.scaling.transforms):
        return None
    n = len(draws.names)
    unexplained = np.broadcast_to(np.eye(n), (len(draws), n, n)).copy()
    for (node, parents), members in draws.users.items():
        unexplained[members[:, None], node, list(parents)] = -draws.parameters_in_units((node, parents)).coefficients
    return np.asarray(np.linalg.inv(unexplained))


def _numbers_changed(draws: GaussianDraws, of: int, levels: tuple[float, float], reach: NDArray[np.bool_]) -> Changes:
    """Effects on every other column in every network of a table with numbers."""
    changes: Changes = {}
    for on in range(len(draws.names)):
        if on == of:
            continue
        size = draws.n_states[on]
        found = np.zeros((len(draws), 1 if draws.is_number[on] else size))
        reached = np.flatnonzero(reach[:, of, on])
        if reached.size:
            before, after = (_asked(draws, of, level, on, reached.tolist()) for level in levels)
            found[reached] = after - before
        if draws.is_number[on]:
            changes[on, None] = found[:, 0]
        else:
            changes |= {(on, k): found[:, k] for k in told_states(size)}
    return changes


def _notes(draws: NetworkDraws, pair: _Pair, levels: tuple[Level, Level]) -> tuple[str, ...]:
    if not draws.is_number[pair.of]:
        return ()
    assert isinstance(draws, GaussianDraws)
    notes = []
    for own, level in zip(pair.levels, levels, strict=True):
        if far := far_beyond(draws, pair.of, own):
            notes.append(f"{draws.names[pair.of]} = {level:g} is {far}")
    return tuple(notes)
