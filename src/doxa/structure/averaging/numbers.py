r"""Questions about tables with numbers, averaged over graphs and regressions.

As for categories (`doxa.structure.averaging.query`) two questions are told apart: `query` is the posterior of the
conditional distribution :math:`p(y \mid x, \theta, G)`, over equally weighted networks; `predictive` concerns one new
case of which x was seen, and weighs networks by the density of x.  Every network answers exactly
(`doxa.inference.exact.gaussian`) or, where categories depend on numbers, by weighted draws
(`doxa.inference.importance.numbers`), with drawn parameters; the mean of the networks' distributions is a mixture of
normal distributions, and what is read off it has the Monte Carlo error of the networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.data import Table
from doxa.data.options import shown
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import Estimate
from doxa.estimates.real import diagnose_real
from doxa.inference.exact.gaussian import Conditioned
from doxa.inference.exact.mixture import NormalMixture, TransformedMixture, threshold_pair
from doxa.inference.importance.numbers import Weighted
from doxa.inference.number_distribution import Line, NumberDistribution
from doxa.models.gaussian import check_number
from doxa.structure.averaging.answers import (
    Averaged,
    AveragedProbability,
    QueryAnswer,
    mean_over_draws,
    weighted_mean,
)
from doxa.structure.averaging.draws import NetworkDraws
from doxa.structure.averaging.number_draws import GaussianDraws
from doxa.structure.averaging.query import averaged_answer
from doxa.structure.averaging.questions import column_of, column_of_numbers, read_states, state_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "NumberAnswer",
    "NumberQuestion",
    "far_beyond",
    "level_of",
    "log_evidence_in",
    "log_evidence_of",
    "number_answer",
    "predict_numbers",
    "read_number_question",
    "row_distributions",
]

_FAR = 8.0  # standard deviations of a column
_ROWS = 256  # predicted at a time
_FEW = 50.0  # effective draws


class NumberQuestion(NamedTuple):
    """A question, by positions."""

    target: tuple[int, ...]
    event: tuple[int, ...] | None  # states of categories, the first targets; None: all of one column
    given: dict[int, float]  # numbers, and positions of states
    do: dict[int, float]
    between: tuple[float, float] | None = None  # where a number, the last target, lies in an event


def read_number_question(
    table: Table,
    target: str | Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    do: Mapping[str, Any] | None = None,
) -> NumberQuestion:
    """Check a question to a table with numbers.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a column or state is unknown, a number is given as text or not finite, an event has no thresholds of a
        number, those of a category, or two numbers, the target is empty, or also given or set, or a column is both
        given and set.
    """
    own = table.names, table.states, table.cuts
    seen, made = read_states("given", given, *own), read_states("do", do, *own)
    if isinstance(target, str):
        asked = NumberQuestion((column_of("target", target, table.names),), None, seen, made)
    elif isinstance(target, Mapping):
        asked = _event(table, target)._replace(given=seen, do=made)
    else:
        raise ArgumentTypeError(f"target is {target!r}; give a column, or a mapping of columns to states")
    for j in {*asked.target, *made}:
        where = [word for word, places in (("target", asked.target), ("given", seen), ("do", made)) if j in places]
        if len(where) > 1:
            raise ArgumentError(f"{table.names[j]!r} is in {' and in '.join(where)}; leave it in one of them")
    return asked


def _event(table: Table, target: Mapping[str, Any]) -> NumberQuestion:
    """States of categories, and thresholds of a number, that are to hold together."""
    numbers = [name for name in target if not table.states[column_of("target", name, table.names)]]
    if len(numbers) > 1:
        raise ArgumentError(
            f"target names the numbers {', '.join(map(repr, numbers))}, and an event has one at most; ask for one of "
            "them, given the value of the other"
        )
    for name, value in target.items():
        if name not in numbers and isinstance(value, (tuple, list)):
            raise ArgumentTypeError(
                f"target[{name!r}] is {value!r}, and the column is a category, whose states have no order; give one "
                f"of {shown(table.states[table.names.index(name)])}"
            )
    named = {name: value for name, value in target.items() if name not in numbers}
    states = read_states("target", named, table.names, table.states, table.cuts)
    if not target:
        raise ArgumentError("target is empty; name a column, or columns and their states")
    between = read_thresholds(f"target[{numbers[0]!r}]", target[numbers[0]]) if numbers else None
    columns = (*states, *(table.names.index(name) for name in numbers))
    return NumberQuestion(columns, tuple(int(k) for k in states.values()), {}, {}, between)


def read_thresholds(label: str, value: Any) -> tuple[float, float]:
    """Ends of the interval that ``("above", 30)``, ``("below", 30)`` or ``("between", 20, 30)`` names.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If it is none of these, a threshold is no number, or the ends are reversed.

    Examples
    --------
    >>> read_thresholds("bmi", ("above", 30)), read_thresholds("bmi", ("between", 20, 30))
    ((30.0, inf), (20.0, 30.0))
    """
    way = "give ('above', number), ('below', number) or ('between', low, high)"
    if not isinstance(value, (tuple, list)):
        raise ArgumentTypeError(f"{label} is {value!r}, and the column holds numbers; {way}")
    word, ends = (value[0], tuple(value[1:])) if value else ("", ())
    if word == "between" and len(ends) == 1 and isinstance(ends[0], (tuple, list)):
        ends = tuple(ends[0])
    if word not in ("above", "below", "between") or len(ends) != 1 + (word == "between"):
        raise ArgumentError(f"{label} is {value!r}, and the column holds numbers; {way}")
    named: dict[str, Any] = {"above": None, "below": None, "between": None}
    return threshold_pair(**{**named, word: ends if word == "between" else ends[0]})


@dataclass(frozen=True, eq=False, repr=False)
class NumberAnswer(NumberDistribution):
    """The distribution of a number, averaged over networks; in the unit of its column.

    Attributes
    ----------
    target : str
        The column.
    given, do : mapping of str to float or str
        What was seen, and what was set.
    each : sequence of NormalMixture
        The distribution in every network.
    shape : tuple of int
        Chains, and networks of each.
    log_weights : ndarray of float, shape (n_networks,), optional
        Nats, of networks that count by the density of what was seen; None where all count the same.
    notes : tuple of str
        What to beware of, as evidence far from all data.
    """

    each: Sequence[NormalMixture]
    shape: tuple[int, int]
    worth: float = field(repr=False)  # effective draws of the slowest quantity of the run over graphs
    log_weights: Floats | None = None

    @cached_property
    def shares(self) -> Floats:
        """Weight of every network, with a mean of 1."""
        if self.log_weights is None:
            return np.ones(len(self.each))
        weight = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(weight / weight.mean())

    @property
    def effective_networks(self) -> float:
        """As many as their weights are worth: (sum of weights) squared by the sum of squares."""
        return float(self.shares.sum() ** 2 / (self.shares**2).sum())

    @cached_property
    def distribution(self) -> NormalMixture:
        """The mean of the networks' distributions: that of a case, uncertain networks and scatter together."""
        weights = [share * own.weights for share, own in zip(self.shares, self.each, strict=True)]
        return self.each[0].pooled(weights, self.each)

    @cached_property
    def mean(self) -> Estimate:
        """The expected number; of `query` an `Averaged`, whose ``credible_interval()`` is what the data leave open."""
        found, own = super().mean, self._moments()[0]
        return found if self.log_weights is not None else Averaged.of(found, own.reshape(self.shape))

    def quantile(self, p: float) -> Estimate:
        """The number that a case does not exceed with probability ``p``; of `query` an `Averaged`."""
        found = super().quantile(p)
        if self.log_weights is not None:
            return found
        own = np.array([own.quantile(p) for own in self.each])
        return Averaged.of(found, own.reshape(self.shape))

    def probability(
        self,
        *,
        above: float | None = None,
        below: float | None = None,
        between: tuple[float, float] | None = None,
    ) -> Estimate:
        """Probability that a case is above, below or between thresholds; of `query` an `AveragedProbability`.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If not one of the three is given, a threshold is no number, or the ends are reversed.
        """
        own = self._probabilities(*threshold_pair(above, below, between))
        found = self._estimate(own, unit=True)
        return found if self.log_weights is not None else AveragedProbability.of(found, own.reshape(self.shape))

    def _moments(self) -> tuple[Floats, Floats]:
        return self.each[0].moments(self.each)

    def _probabilities(self, low: float, high: float) -> Floats:
        return np.array([mixture.weights @ mixture.component_probabilities(low, high) for mixture in self.each])

    def _estimate(self, own: Floats, *, unit: bool = False) -> Estimate:
        """Mean over networks, with its error; of a ratio, where they are weighted."""
        if unit and self.log_weights is not None:
            return weighted_mean(own[:, None], self.log_weights, self.shape, self.worth).means.estimate(0)
        if unit:
            return mean_over_draws(own.reshape(*self.shape, 1), self.worth).estimate(0)
        value = float(self.shares @ own / len(own))
        return diagnose_real((value + self.shares * (own - value)).reshape(self.shape)).estimate

    def _lines(self) -> list[Line]:
        lines = super()._lines()
        if isinstance(self.distribution, TransformedMixture):  # whose mean hangs on its upper tail
            lines.insert(0, Line("median", "", str(self.quantile(0.5))))
        if isinstance(self.mean, Averaged):
            low, high = self.mean.credible_interval()
            lines.insert(-2, Line("credible interval (95%) of the mean", ":", f"{low:.4g} to {high:.4g}"))
        return lines

    @property
    def _title(self) -> str:
        return f"{super()._title}, averaged over {len(self.each)} networks"


def number_answer(
    draws: GaussianDraws, question: NumberQuestion, *, weighted: bool
) -> NumberAnswer | QueryAnswer | Estimate:
    """Ask every network; ``weighted`` by the density of what was seen (`predictive`), or not (`query`)."""
    states = {j: int(k) for j, k in question.given.items() if not draws.is_number[j]}
    numbers = [j for j in question.given if draws.is_number[j]]
    values = draws.on_scale(numbers, np.array([[question.given[j] for j in numbers]]))
    do_so = {j: _on_scale(draws, j, value) for j, value in question.do.items()}
    found = draws.condition(question.target, states, numbers, values, do_so, whole=weighted)
    log_weights = np.array([one.log_evidence[0] for one in found]) if weighted else None
    if log_weights is not None and not np.isfinite(log_weights).any():
        raise ArgumentError("given has probability zero in every network; leave out part of it")
    j = question.target[0]
    if question.event is None and draws.is_number[j]:
        given, do = draws.named(question.given), draws.named(question.do)
        each = [draws.in_unit(j, one.mixture()) for one in found]
        notes = (*_notes(draws, question), *_worth(found))
        return NumberAnswer(draws.names[j], given, do, each, draws.shape, draws.reference_ess, log_weights, notes=notes)
    if question.event is None:
        own = np.array([one.state_probabilities(j, draws.n_states[j])[0] for one in found])
    else:
        own = np.array([[_event_probability(draws, question, one)] for one in found])
    return averaged_answer(draws, question, own, own, log_weights)


def _event_probability(draws: GaussianDraws, question: NumberQuestion, found: Conditioned | Weighted) -> float:
    """In one network."""
    assert question.event is not None
    inside: Floats | float = 1.0
    if question.between is not None:
        means, sds = found.components(0)
        each = draws.in_unit(question.target[-1], NormalMixture(np.ones(len(means)), means, sds))
        inside = each.component_probabilities(*question.between)
    return found.event_probability(question.target[: len(question.event)], question.event, inside)


def level_of(draws: NetworkDraws, label: str, column: int, value: object) -> float:
    """A value as users give it: the position of a state, or a number on the scale of networks."""
    if not draws.is_number[column]:
        cuts = draws.completed.table.cuts.get(draws.names[column])
        return float(state_of(label, value, draws.states[column], cuts))
    assert isinstance(draws, GaussianDraws)  # which alone have numbers
    return _on_scale(draws, column, check_number(label, value))


def _on_scale(draws: GaussianDraws, column: int, value: float) -> float:
    return float(draws.on_scale([column], np.array([value]))[0]) if draws.is_number[column] else value


def _worth(found: Sequence[Conditioned | Weighted]) -> tuple[str, ...]:
    """What to say where weighted draws are worth too little."""
    few = sum(isinstance(one, Weighted) and one.effective.min() < _FEW for one in found)
    if 10 * few <= len(found):
        return ()
    return (
        f"in {few} of {len(found)} networks what was given is so unlikely that the weighted draws are worth fewer than "
        f"{_FEW:.0f}: give less",
    )


def _notes(draws: GaussianDraws, question: NumberQuestion) -> tuple[str, ...]:
    notes = []
    for word, known in (("given", question.given), ("do", question.do)):
        for j, value in known.items():
            if draws.is_number[j] and (far := far_beyond(draws, j, _on_scale(draws, j, value))):
                notes.append(f"{word} has {draws.names[j]} = {value:g}, {far}")
    return tuple(notes)


def far_beyond(draws: GaussianDraws, column: int, value: float) -> str:
    """In words, how far a number on the scale of networks is from all data; empty where it is not."""
    apart = abs(value - draws.scaling.centre[column]) / draws.scaling.scale[column]
    if not apart > _FAR:
        return ""
    way = "the answer is a straight line drawn far beyond the data"
    return f"{apart:.0f} standard deviations from the column's mean: {way}"


class _Rows(NamedTuple):
    """New rows in the codes of the table."""

    codes: NDArray[np.integer]  # (n_rows, n_columns): -1 where missing; 0 of numbers that are there
    numbers: Floats  # NaN where missing, and of categories


def _read_rows(draws: GaussianDraws, rows: Any) -> _Rows:
    from doxa.structure.averaging.predict import read_rows, row_table

    rows = row_table(rows, draws.names)
    held = [name for name, one in zip(draws.names, draws.is_number, strict=True) if one]
    n = rows.n_rows
    numbers = np.full((n, len(draws.names)), np.nan)
    for name in held:
        if name in rows.names:
            numbers[:, draws.names.index(name)] = column_of_numbers(rows, rows.names.index(name))
    rest = [name for name in rows.names if name not in held]
    codes = np.full((n, len(draws.names)), -1, dtype=np.int64)
    if rest:
        new = read_rows(rows.select(rest), draws.completed.table)
        codes = new.codes[new.row_index]
    codes[:, draws.is_number] = np.where(np.isnan(numbers[:, draws.is_number]), -1, 0)
    return _Rows(codes, numbers)


def _patterns(
    draws: GaussianDraws, rows: _Rows
) -> Iterator[tuple[NDArray[np.intp], dict[int, int], list[int], list[int]]]:
    """Rows of which the same was seen, the same states among it: which, states, numbers seen, and what is missing."""
    groups, member = np.unique(rows.codes, axis=0, return_inverse=True)
    for k, group in enumerate(groups.tolist()):
        own = np.flatnonzero(member.ravel() == k)
        seen = [j for j, code in enumerate(group) if code >= 0]
        states = {j: group[j] for j in seen if not draws.is_number[j]}
        numbers = [j for j in seen if draws.is_number[j]]
        missing = [j for j, code in enumerate(group) if code < 0]
        for first in range(0, len(own), _ROWS):
            yield own[first : first + _ROWS], states, numbers, missing


_COMPONENTS = 2**14  # of a row's distribution, over all networks
_FEWEST, _MOST_OF_ONE = 16, 256  # of one network's
_GOLDEN = 0.6180339887498949


class _PooledRows:
    """Distributions of a number in many rows, each the mean over networks that count by what was seen of the row.

    Parameters
    ----------
    draws : GaussianDraws
    column : int
    found : sequence of Conditioned or Weighted
        In every network.
    target : int
        The column's place among the targets of these.
    log_weights : ndarray of float, shape (n_networks, n_rows)
        Nats, up to a constant.
    """

    def __init__(
        self,
        draws: GaussianDraws,
        column: int,
        found: Sequence[Conditioned | Weighted],
        target: int,
        log_weights: Floats,
    ) -> None:
        self._draws, self._column, self._log_weights = draws, column, log_weights
        most = min(_MOST_OF_ONE, max(_FEWEST, _COMPONENTS // len(found)))
        parts = [_components(one, target, most, (0.5 + k * _GOLDEN) % 1.0) for k, one in enumerate(found)]
        self._means = np.stack([mean for mean, _ in parts])  # (n_networks, n_rows)
        # weights, means and standard deviations of the components of all networks, (n_rows, n)
        self._parts = [np.concatenate(same, axis=1) for same in zip(*(own for _, own in parts), strict=True)]
        self._sizes = [own[0].shape[1] for _, own in parts]

    def of(self, row: int) -> tuple[NormalMixture, Estimate]:
        """The distribution in a row, and its mean with its error."""
        weights = self._log_weights[:, row]
        own_weights, own_means, own_sds = (part[row] for part in self._parts)
        if self._draws.scaling.transforms[self._column] is not None:
            ends = np.cumsum(self._sizes)[:-1]
            rows = zip(*(np.split(part[row], ends) for part in self._parts), strict=True)
            each = [self._draws.in_unit(self._column, NormalMixture(*one)) for one in rows]
            name, shape, worth = self._draws.names[self._column], self._draws.shape, self._draws.reference_ess
            answer = NumberAnswer(name, {}, {}, each, shape, worth, weights)
            return answer.distribution, answer.mean
        shares = np.exp(weights - weights.max())
        shares /= shares.mean()
        own = self._means[:, row]
        value = float(shares @ own / len(own))
        mean = diagnose_real((value + shares * (own - value)).reshape(self._draws.shape)).estimate
        return NormalMixture(np.repeat(shares, self._sizes) * own_weights, own_means, own_sds), mean


def _components(
    found: Conditioned | Weighted, target: int, most: int, offset: float
) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
    """Means of rows (n_rows,), and weights, means and sds (n_rows, n) of their components, ``most`` at most.

    Weighted draws are resampled in order of their means, at even distances from an ``offset`` of this network's own, so
    that over many networks no part of the distribution is left out.
    """
    weights, means = np.exp(found.log_weights), found.means[..., target]
    mean = (weights * means).sum(axis=1)
    if isinstance(found, Conditioned):
        return mean, (weights, means, np.broadcast_to(found.sds[:, target], means.shape))
    sds = found.sds[..., target]
    if np.isnan(sds).any():
        means, sds = found.smoothed_rows(target)
    if weights.shape[1] <= most:
        return mean, (weights, means, sds)
    order = np.argsort(means, axis=1)
    ends = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    at = (np.arange(most) + offset) / most
    place = np.minimum((ends[:, None, :] < at[None, :, None]).sum(axis=2), weights.shape[1] - 1)
    chosen = np.take_along_axis(order, place, axis=1)
    even = np.full(chosen.shape, 1.0 / most)
    return mean, (even, np.take_along_axis(means, chosen, axis=1), np.take_along_axis(sds, chosen, axis=1))


def predict_numbers(draws: GaussianDraws, rows: Any, target: str | None = None) -> pd.DataFrame:
    """Predictive distributions of one column, or of all missing cells, of every row; networks count by what was seen.

    Returns
    -------
    pandas.DataFrame
        Columns ``row, column, state, probability, mean, sd, lower, upper, mcse``, as of `impute`: central 95%.
    """
    from doxa.frames import ReadFrame

    made: list[tuple[int, int, dict[str, Any]]] = []
    for own, wanted, found, log_weights in _conditioned_rows(draws, rows, target):
        numbers = [j for j in wanted if draws.is_number[j]]
        pooled = {j: _PooledRows(draws, j, found, numbers.index(j), log_weights) for j in numbers}
        sizes = {j: draws.n_states[j] for j in wanted if not draws.is_number[j]}
        in_states = {j: np.stack([one.state_probabilities(j, size) for one in found]) for j, size in sizes.items()}
        for r, row in enumerate(own.tolist()):
            for j in wanted:
                place = {"row": row, "column": draws.names[j]}
                if draws.is_number[j]:
                    distribution, mean = pooled[j].of(r)
                    low, high = distribution.interval()
                    spread = {"mean": mean.value, "sd": distribution.sd, "lower": low, "upper": high}
                    made.append((row, j, {**place, **spread, "mcse": mean.mcse}))
                else:
                    own_p = in_states[j][:, r]
                    means = weighted_mean(own_p, log_weights[:, r], draws.shape, draws.reference_ess).means
                    for k, label in enumerate(draws.states[j]):
                        shown = {"state": label, "probability": means.value[k], "mcse": means.errors[k]}
                        made.append((row, j, {**place, **shown}))
    made.sort(key=lambda cell: cell[:2])
    columns = ["row", "column", "state", "probability", "mean", "sd", "lower", "upper", "mcse"]
    return ReadFrame([cell for _, _, cell in made], columns=columns)


def row_distributions(draws: GaussianDraws, rows: Any, target: str) -> list[NormalMixture]:
    """The predictive distribution of a number in every row from the row's other columns; as of `predict_numbers`."""
    made: dict[int, NormalMixture] = {}
    for own, (asked,), found, log_weights in _conditioned_rows(draws, rows, target):
        pooled = _PooledRows(draws, asked, found, 0, log_weights)
        for r, row in enumerate(own.tolist()):
            made[row] = pooled.of(r)[0]
    return [made[row] for row in range(len(made))]


def _conditioned_rows(
    draws: GaussianDraws, rows: Any, target: str | None
) -> Iterator[tuple[NDArray[np.intp], list[int], list[Conditioned | Weighted], Floats]]:
    """Rows of which the same was seen: which, the columns asked for, what networks say, and log weights of these."""
    new = _read_rows(draws, rows)
    asked = None if target is None else column_of("target", target, draws.names)
    if asked is not None:
        new.codes[:, asked], new.numbers[:, asked] = -1, np.nan
    for own, states, seen, missing in _patterns(draws, new):
        wanted = missing if asked is None else [asked]
        if wanted:
            values = draws.on_scale(seen, new.numbers[own][:, seen])
            found = draws.condition(wanted, states, seen, values, {}, whole=True)
            yield own, wanted, found, np.array([one.log_evidence for one in found])


def log_evidence_of(draws: GaussianDraws, rows: Any) -> Floats:
    """Log density of what was seen of new rows in every network, nats, shape (n_networks, n_rows)."""
    new = _read_rows(draws, rows)
    return log_evidence_in(draws, new.codes, new.numbers)


def log_evidence_in(
    draws: GaussianDraws, codes: NDArray[np.integer], numbers: Floats, only: Sequence[int] | None = None
) -> Floats:
    """The same of rows in the table's codes, -1 where missing, in networks, all if left out; (n_networks, n_rows)."""
    found = np.zeros((len(draws) if only is None else len(only), len(codes)))
    for own, states, seen, _ in _patterns(draws, _Rows(codes, numbers)):
        if states or seen:
            values = draws.on_scale(seen, numbers[own][:, seen])
            given = draws.condition((), states, seen, values, {}, whole=True, only=only)
            found[:, own] = np.array([one.log_evidence for one in given])
            found[:, own] += draws.log_slopes(seen, numbers[own][:, seen])
    return found
