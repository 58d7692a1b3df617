r"""Importance sampling in networks of numbers and categories in which categories depend on numbers.

There is no exact answer: given evidence a number has no mixture of normal distributions.  Nodes are drawn parents
before children, those that were seen stand as they are and weigh the draw by the density of what was seen (likelihood
weighting; Fung & Chang 1989, Shachter & Peot 1989),

.. math:: w = \prod_{i \in E} p(x_i \mid x_{\pi(i)}), \qquad
   p(x_t \mid x_E) \approx \sum_r w_r \, p(x_t \mid x_{\pi(t)}^{(r)}) \Big/ \sum_r w_r

for a number or category t that the evidence does not depend on.  Of another its draws are taken, those of a number
smoothed by a normal kernel that keeps their mean and variance (West 1993) where its distribution is wanted.  Draws are
added until the weights are worth enough of them.  Where nothing but categories of a few configurations is left to draw,
these are listed in their place, and the answer is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.inference.exact import gaussian
from doxa.inference.exact.mixture import NormalMixture
from doxa.inference.flat import log_of
from doxa.inference.propagation import ImpossibleEvidenceError
from doxa.models.gaussian import GaussianNetwork, odds_probabilities
from doxa.models.separation import requisite_families

__all__ = ["Asked", "Weighted", "condition", "largest_log_weight", "listed", "weigh"]

_FIRST, _MOST = 1024, 2**15  # draws for a row of evidence; of many rows a quarter
_ENOUGH = 200.0  # effective draws
_COMPONENTS = 256  # of a mixture that is handed on
_BANDWIDTH = 0.5
_SMOOTH, _NARROW = -0.2, -0.5  # powers of the draws' worth


@dataclass(frozen=True, eq=False)
class Asked:
    """A question about a network; its parts are those of `doxa.inference.exact.gaussian.condition`."""

    network: GaussianNetwork
    targets: Sequence[int]
    given: Mapping[int, int]
    columns: Sequence[int]
    values: Floats  # (n_rows, n_columns)
    do: Mapping[int, float]
    whole: bool = False

    @cached_property
    def families(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Nodes, and their parents, that the answer depends on."""
        seen = [*self.given, *self.columns]
        return requisite_families(self.network.parents, self.targets, seen, self.do, whole=self.whole)

    @property
    def below_numbers(self) -> list[str]:
        """The categories that depend on numbers, because of which there is no exact answer."""
        names = [self.network.names[child] for child, _ in self.families]
        return [name for name in names if name in self.network.log_odds]

    def exactly(self) -> gaussian.Conditioned:
        """The exact answer."""
        return gaussian.condition(
            self.network, self.targets, self.given, self.columns, self.values, self.do, whole=self.whole
        )


class Weighted(NamedTuple):
    """Numbers and categories given rows of evidence: weighted draws."""

    log_evidence: Floats  # (n_rows,): nats
    log_weights: Floats  # (n_rows, n_draws): nats; sum to 1
    means: Floats  # (n_rows, n_draws, n_targets)
    sds: Floats  # (n_rows, n_draws, n_targets); NaN of numbers of which nothing but draws is known
    listed: tuple[int, ...]  # the categories among the targets
    states: NDArray[np.int64]  # (n_rows, n_draws, n_listed)
    shares: Mapping[int, Floats]  # (n_rows, n_draws, n_states) of those that the evidence does not depend on
    is_sum: bool  # whether the draws are all configurations there are

    @property
    def effective(self) -> Floats:
        """Draws that the weights are worth, shape (n_rows,); infinite where they are a sum."""
        if self.is_sum:
            return np.full(len(self.log_evidence), math.inf)
        return np.asarray(1.0 / np.exp(2.0 * self.log_weights).sum(axis=1))

    def mixture(self, row: int = 0, target: int = 0, most: int = _COMPONENTS, *, alone: bool = False) -> NormalMixture:
        """The distribution of a number in a row, of at most so many components: draws by systematic resampling.

        Where nothing but draws is known they are smoothed.  The kernel is as narrow as the root of the draws' worth
        allows, so that averages over many networks, whose own error is small, are hardly moved; if the mixture is to
        stand ``alone``, it is wide enough for a smooth density.
        """
        share = np.exp(self.log_weights[row])
        means, sds = self._smoothed(row, target, share, _SMOOTH if alone else _NARROW)
        if len(share) <= most:
            return NormalMixture(share, means, sds)
        at = (np.arange(most) + 0.5) / most
        order = np.argsort(means)
        chosen = order[np.minimum(np.searchsorted(np.cumsum(share[order]), at), len(share) - 1)]
        return NormalMixture(np.ones(most), means[chosen], sds[chosen])

    def _smoothed(self, row: int, target: int, share: Floats, power: float) -> tuple[Floats, Floats]:
        means, sds = self.means[row, :, target], self.sds[row, :, target]
        if not np.isnan(sds).any():
            return means, sds
        found = _spread_out(share[None], means[None], self.effective[[row]], power)
        return found[0][0], found[1][0]

    def smoothed_rows(self, target: int) -> tuple[Floats, Floats]:
        """Means and standard deviations of the kernels of a number of which only draws are known, as of `mixture`."""
        return _spread_out(np.exp(self.log_weights), self.means[..., target], self.effective, _NARROW)

    def state_probabilities(self, category: int, n_states: int) -> Floats:
        """Of a category among the listed, shape (n_rows, n_states)."""
        if category in self.shares:
            return np.asarray((np.exp(self.log_weights)[..., None] * self.shares[category]).sum(axis=1))
        own = self.states[:, :, self.listed.index(category)]
        return np.stack([(np.exp(self.log_weights) * (own == k)).sum(axis=1) for k in range(n_states)], axis=1)

    def components(self, target: int) -> tuple[Floats, Floats]:
        """Means and standard deviations of a number in each draw, in the first row; 0 where the draw is all that is
        known.
        """
        return self.means[0, :, target], np.nan_to_num(self.sds[0, :, target], nan=0.0)

    def event_probability(self, target: Sequence[int], event: Sequence[int], inside: Floats | float = 1.0) -> float:
        """That categories have these states, in the first row, times what has the probability ``inside`` in each
        draw.

        Nodes that nothing depends on are independent given a draw, and count by their probabilities; where draws are a
        sum they must, for their own states were drawn but once.
        """
        total = np.exp(self.log_weights[0]) * inside
        for j, k in zip(target, event, strict=True):
            share = self.shares.get(j)
            total = total * (self.states[0, :, self.listed.index(j)] == k if share is None else share[0, :, k])
        return float(total.sum())


def _spread_out(shares: Floats, means: Floats, effective: Floats, power: float) -> tuple[Floats, Floats]:
    """Kernels about draws, (n_rows, n_draws), that keep mean and variance (West 1993)."""
    mean = (shares * means).sum(axis=1, keepdims=True)
    wide = np.minimum(0.9, _BANDWIDTH * effective[:, None] ** power)
    spread = wide * np.sqrt((shares * (means - mean) ** 2).sum(axis=1, keepdims=True))
    return mean + np.sqrt(1.0 - wide**2) * (means - mean), np.broadcast_to(spread, means.shape)


def condition(
    network: GaussianNetwork,
    targets: Sequence[int],
    given: Mapping[int, int],
    columns: Sequence[int],
    values: Floats,
    do: Mapping[int, float],
    rng: np.random.Generator,
    *,
    whole: bool = False,
) -> gaussian.Conditioned | Weighted:
    """As `doxa.inference.exact.gaussian.condition`, which answers where it can; ``rng`` is for weighted draws."""
    asked = Asked(network, targets, given, columns, values, do, whole)
    if not asked.below_numbers:
        return asked.exactly()
    first, most = (_FIRST, _MOST) if len(values) == 1 else (_FIRST // 4, _MOST // 4)
    looks = [first << k for k in range((most // first).bit_length())]
    return weigh(asked, rng, looks, lambda found: float(found.effective.min()) >= _ENOUGH)


def weigh(
    asked: Asked, rng: np.random.Generator, looks: Iterable[int], is_enough: Callable[[Weighted], bool]
) -> Weighted:
    """Weighted draws, also where there would be an exact answer.

    Parameters
    ----------
    asked : Asked
    rng : numpy.random.Generator
        Advanced.
    looks : iterable of int
        Rising numbers of draws for a row, after each of which ``is_enough`` is asked.
    is_enough : callable
        Whether to stop.  Where categories of a few configurations are all that is left, these are listed and it is not
        asked.

    Raises
    ------
    ImpossibleEvidenceError
        If no draw agrees with the evidence.
    ArgumentError
        If a number was seen that its parents determine.
    """
    for child in {child for child, _ in asked.families}.intersection(asked.columns):
        name = asked.network.names[child]
        if not asked.network.regressions[name].sd.all():
            raise ArgumentError(
                f"given names {name!r}, a number without scatter about its parents, which no weighted "
                "draw meets; leave it out, or give its regression a small sd"
            )
    summed = listed(asked)
    if summed is not None:
        return summed
    drawn: list[Drawn] = []
    n, found, failed = 0, None, None
    for look in looks:
        drawn.append(_draw(asked, look - n, rng))
        n = look
        try:
            found = _joined(asked, drawn)
        except ImpossibleEvidenceError as error:
            failed = error
            continue
        if is_enough(found):
            break
    if found is None:
        assert failed is not None  # there is one look at least
        raise failed
    return found


def listed(asked: Asked) -> Weighted | None:
    """The sum over the configurations of categories, where few are all that is left to draw; None where not."""
    states = asked.network.states
    free = {p for _, own in asked.families for p in own}.difference(asked.given, asked.columns, asked.do)
    categories = [v for v in asked.targets if states[v]]
    if len(categories) > 1:  # their states are wanted together
        free.update(categories)
    sizes = [len(states[v]) for v in sorted(free)]
    if all(sizes) and math.prod(sizes) <= _FIRST:
        n = math.prod(sizes)
        of_each = dict(zip(sorted(free), np.indices(sizes).reshape(len(sizes), n), strict=True))
        rng = np.random.default_rng(0)  # draws nothing that is looked at
        return _joined(asked, [_draw(asked, n, rng, of_each)], is_sum=True)
    return None


def largest_log_weight(asked: Asked) -> float:
    """The most that a draw of `weigh` can weigh, nats: the product of the greatest densities of what was seen."""
    network, total = asked.network, 0.0
    for child, _ in asked.families:
        name = network.names[child]
        if child in asked.columns:
            total -= math.log(network.regressions[name].sd.min()) + 0.5 * math.log(2 * math.pi)
        elif child in asked.given and name in network.tables:
            total += float(np.log(network.tables[name][..., asked.given[child]].max()))
    return total


Drawn = tuple[Floats, Floats, Floats, NDArray[np.int64], dict[int, Floats]]  # log weights, means, sds, states, shares


def _draw(
    asked: Asked, n: int, rng: np.random.Generator, listed: Mapping[int, NDArray[np.int64]] | None = None
) -> Drawn:
    """So many draws for each row; categories that are ``listed`` stand as they are and weigh, like those seen."""
    network, values, targets = asked.network, asked.values, asked.targets
    wide = (len(values), n)
    at: dict[int, NDArray[np.generic]] = {v: np.broadcast_to(own, wide) for v, own in (listed or {}).items()}
    for v, k in asked.given.items():
        at[v] = np.full(wide, k, dtype=np.int64)
    for v, value in asked.do.items():
        at[v] = np.full(wide, int(value), dtype=np.int64) if network.states[v] else np.full(wide, float(value))
    for place, v in enumerate(asked.columns):
        at[v] = np.broadcast_to(values[:, place, None], wide)
    log_weights = np.zeros(wide)
    moments: dict[int, tuple[Floats, Floats]] = {}
    inside, shares = {child for child, _ in asked.families}, {}
    is_parent = {p for _, own in asked.families for p in own}
    for v in (v for v in network.order if v in inside):
        above = [at[p] for p in network.parents[v] if network.states[p]]
        on = [at[p] for p in network.parents[v] if not network.states[p]]
        name = network.names[v]
        if not network.states[v]:
            regression = network.regressions[name]
            mean, slopes = regression.intercept[tuple(above)], regression.coefficients[tuple(above)]
            for j, parent in enumerate(on):
                mean = mean + slopes[..., j] * parent
            mean, sd = np.broadcast_to(mean, wide), np.broadcast_to(regression.sd[tuple(above)], wide)
            moments[v] = mean, sd
            if v in at:
                with np.errstate(divide="ignore", invalid="ignore"):
                    log_weights -= 0.5 * ((at[v] - mean) / sd) ** 2 + np.log(sd) + 0.5 * math.log(2 * math.pi)
            else:
                at[v] = mean + sd * rng.standard_normal(wide)
            continue
        if name in network.log_odds:
            numbers = np.stack(on, axis=-1) if on else np.zeros((*wide, 0))
            p = odds_probabilities(network.log_odds[name], tuple(above), numbers)
        else:
            p = network.tables[name][tuple(above)] if above else network.tables[name]
        p = np.broadcast_to(p, (*wide, len(network.states[v])))
        if v in at:
            log_weights += log_of(np.take_along_axis(p, at[v][..., None].astype(np.int64), axis=-1)[..., 0])
            continue
        at[v] = (rng.random((*wide, 1)) > p.cumsum(axis=-1)[..., :-1]).sum(axis=-1)
        if v in targets and v not in is_parent:
            shares[v] = p
    of_numbers = [v for v in targets if not network.states[v]]
    own = [moments[v] if v not in is_parent else (at[v].astype(np.float64), np.full(wide, np.nan)) for v in of_numbers]
    means = np.stack([mean for mean, _ in own], axis=-1) if own else np.zeros((*wide, 0))
    sds = np.stack([sd for _, sd in own], axis=-1) if own else np.zeros((*wide, 0))
    asked_states = [at[v].astype(np.int64) for v in targets if network.states[v]]
    states = np.stack(asked_states, axis=-1) if asked_states else np.zeros((*wide, 0), dtype=np.int64)
    return log_weights, means, sds, states, shares


def _joined(asked: Asked, drawn: Sequence[Drawn], *, is_sum: bool = False) -> Weighted:
    """Draws put together; configurations that are listed are a sum, not a mean."""
    *parts, shares = zip(*drawn, strict=True)
    log_weights, means, sds, states = (np.concatenate(part, axis=1) for part in parts)
    total = logsumexp(log_weights, axis=1)
    if not np.isfinite(total).all():
        number = "" if is_sum else f", or so little that none of {log_weights.shape[1]} weighted draws agrees with it"
        raise ImpossibleEvidenceError(f"given has probability zero{number}; leave out part of it")
    normal = log_weights - total[:, None]
    listed = tuple(v for v in asked.targets if asked.network.states[v])
    joined = {v: np.concatenate([part[v] for part in shares], axis=1) for v in shares[0]}
    log_n = 0.0 if is_sum else math.log(log_weights.shape[1])
    return Weighted(total - log_n, normal, means, sds, listed, states, joined, is_sum)
