r"""Importance sampling in networks of numbers and categories in which categories depend on numbers.

There is no exact answer: given evidence a number has no mixture of normal distributions.  Nodes are drawn parents
before children, those that were seen stand as they are and weigh the draw by the density of what was seen (likelihood
weighting; Fung & Chang 1989, Shachter & Peot 1989),

.. math:: w = \prod_{i \in E} p(x_i \mid x_{\pi(i)}), \qquad
   p(x_t \mid x_E) \approx \sum_r w_r \, p(x_t \mid x_{\pi(t)}^{(r)}) \Big/ \sum_r w_r

for a number or category t that the evidence does not depend on.  Of another its draws are taken, those of a number
smoothed by a normal kernel that keeps their mean and variance (West 1993).  Draws are added until the weights are worth
enough of them.  Where nothing but categories of a few configurations is left to draw, these are listed in their place,
and the answer is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from doxa.errors import ArgumentError
from doxa.inference.exact import gaussian
from doxa.inference.exact.mixture import NormalMixture
from doxa.models.gaussian import GaussianNetwork, odds_probabilities
from doxa.models.separation import requisite_families

__all__ = ["Weighted", "condition"]

Floats = NDArray[np.float64]

_FIRST, _MOST = 1024, 2**15  # draws for a row of evidence; of many rows a quarter
_ENOUGH = 200.0  # effective draws
_COMPONENTS = 256  # of a mixture that is handed on
_BANDWIDTH = 0.5


class Weighted(NamedTuple):
    """Numbers and categories given rows of evidence: weighted draws."""

    log_evidence: Floats  # (n_rows,): nats
    log_weights: Floats  # (n_rows, n_draws): nats; sum to 1
    means: Floats  # (n_rows, n_draws, n_targets)
    sds: Floats  # (n_rows, n_draws, n_targets)
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

    def mixture(self, row: int = 0, target: int = 0) -> NormalMixture:
        """The distribution of a number in a row, of at most 256 components: draws by systematic resampling."""
        share = np.exp(self.log_weights[row])
        means, sds = self.means[row, :, target], self.sds[row, :, target]
        if len(share) <= _COMPONENTS:
            return NormalMixture(share, means, sds)
        at = (np.arange(_COMPONENTS) + 0.5) / _COMPONENTS
        order = np.argsort(means)
        chosen = order[np.minimum(np.searchsorted(np.cumsum(share[order]), at), len(share) - 1)]
        return NormalMixture(np.ones(_COMPONENTS), means[chosen], sds[chosen])

    def state_probabilities(self, category: int, n_states: int) -> Floats:
        """Of a category among the listed, shape (n_rows, n_states)."""
        if category in self.shares:
            return np.asarray((np.exp(self.log_weights)[..., None] * self.shares[category]).sum(axis=1))
        own = self.states[:, :, self.listed.index(category)]
        return np.stack([(np.exp(self.log_weights) * (own == k)).sum(axis=1) for k in range(n_states)], axis=1)

    def event_probability(self, target: Sequence[int], event: Sequence[int]) -> float:
        """That categories have these states, in the first row."""
        holds = np.all(self.states[0][:, [self.listed.index(j) for j in target]] == np.array(event), axis=1)
        return float(np.exp(self.log_weights[0])[holds].sum())


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
    families = requisite_families(network.parents, targets, [*given, *columns], do, whole=whole)
    if not any(network.names[child] in network.log_odds for child, _ in families):
        return gaussian.condition(network, targets, given, columns, values, do, whole=whole)
    first, most = (_FIRST, _MOST) if len(values) == 1 else (_FIRST // 4, _MOST // 4)
    free = {p for _, own in families for p in own}.difference(given, columns, do)
    categories = [v for v in targets if network.states[v]]
    if len(categories) > 1:  # their states are wanted together
        free.update(categories)
    sizes = [len(network.states[v]) for v in sorted(free)]
    if all(sizes) and math.prod(sizes) <= _FIRST:  # nothing but a few configurations: they are listed
        n = math.prod(sizes)
        listed = dict(zip(sorted(free), np.indices(sizes).reshape(len(sizes), n), strict=True))
        summed = _draw(network, families, targets, given, columns, values, do, n, rng, listed)
        return _joined(network, targets, families, [summed], is_sum=True)
    drawn = [_draw(network, families, targets, given, columns, values, do, first, rng)]
    n = first
    while True:
        found = _joined(network, targets, families, drawn)
        if n >= most or found.effective.min() >= _ENOUGH:
            return found
        drawn.append(_draw(network, families, targets, given, columns, values, do, n, rng))
        n *= 2


Drawn = tuple[Floats, Floats, Floats, NDArray[np.int64], dict[int, Floats]]  # log weights, means, sds, states, shares


def _draw(
    network: GaussianNetwork,
    families: Sequence[tuple[int, tuple[int, ...]]],
    targets: Sequence[int],
    given: Mapping[int, int],
    columns: Sequence[int],
    values: Floats,
    do: Mapping[int, float],
    n: int,
    rng: np.random.Generator,
    listed: Mapping[int, NDArray[np.int64]] | None = None,
) -> Drawn:
    """So many draws for each row; categories that are ``listed`` stand as they are and weigh, like those seen."""
    wide = (len(values), n)
    at: dict[int, NDArray[np.generic]] = {v: np.broadcast_to(own, wide) for v, own in (listed or {}).items()}
    for v, k in given.items():
        at[v] = np.full(wide, k, dtype=np.int64)
    for v, value in do.items():
        at[v] = np.full(wide, int(value), dtype=np.int64) if network.states[v] else np.full(wide, float(value))
    for place, v in enumerate(columns):
        at[v] = np.broadcast_to(values[:, place, None], wide)
    log_weights = np.zeros(wide)
    moments: dict[int, tuple[Floats, Floats]] = {}
    inside, shares = {child for child, _ in families}, {}
    is_parent = {p for _, own in families for p in own}
    for v in (v for v in network.order if v in inside):
        above = [at[p] for p in network.parents[v] if network.states[p]]
        on = [at[p] for p in network.parents[v] if not network.states[p]]
        numbers = np.stack(on, axis=-1) if on else np.zeros((*wide, 0))
        name = network.names[v]
        if not network.states[v]:
            regression = network.regressions[name]
            mean = regression.intercept[tuple(above)] + (numbers * regression.coefficients[tuple(above)]).sum(axis=-1)
            mean, sd = np.broadcast_to(mean, wide), np.broadcast_to(regression.sd[tuple(above)], wide)
            moments[v] = mean, sd
            if v in at:
                with np.errstate(divide="ignore", invalid="ignore"):
                    log_weights -= 0.5 * ((at[v] - mean) / sd) ** 2 + np.log(sd) + 0.5 * math.log(2 * math.pi)
            else:
                at[v] = mean + sd * rng.standard_normal(wide)
            continue
        if name in network.log_odds:
            p = odds_probabilities(network.log_odds[name], tuple(above), numbers)
        else:
            p = network.tables[name][tuple(above)] if above else network.tables[name]
        p = np.broadcast_to(p, (*wide, len(network.states[v])))
        if v in at:
            with np.errstate(divide="ignore"):
                log_weights += np.log(np.take_along_axis(p, at[v][..., None].astype(np.int64), axis=-1)[..., 0])
            continue
        at[v] = (rng.random((*wide, 1)) > p.cumsum(axis=-1)[..., :-1]).sum(axis=-1)
        if v in targets and v not in is_parent:
            shares[v] = p
    asked = [v for v in targets if not network.states[v]]
    own = [moments[v] if v not in is_parent else (at[v].astype(np.float64), np.full(wide, np.nan)) for v in asked]
    means = np.stack([mean for mean, _ in own], axis=-1) if own else np.zeros((*wide, 0))
    sds = np.stack([sd for _, sd in own], axis=-1) if own else np.zeros((*wide, 0))
    asked_states = [at[v].astype(np.int64) for v in targets if network.states[v]]
    states = np.stack(asked_states, axis=-1) if asked_states else np.zeros((*wide, 0), dtype=np.int64)
    return log_weights, means, sds, states, shares


def _joined(
    network: GaussianNetwork,
    targets: Sequence[int],
    families: Sequence[tuple[int, tuple[int, ...]]],
    drawn: Sequence[Drawn],
    *,
    is_sum: bool = False,
) -> Weighted:
    """Draws put together; configurations that are listed are a sum, not a mean."""
    *parts, shares = zip(*drawn, strict=True)
    log_weights, means, sds, states = (np.concatenate(part, axis=1) for part in parts)
    total = logsumexp(log_weights, axis=1)
    if not np.isfinite(total).all():
        raise ArgumentError("given has probability zero; leave out part of it")
    normal = log_weights - total[:, None]
    listed = tuple(v for v in targets if network.states[v])
    joined = {v: np.concatenate([part[v] for part in shares], axis=1) for v in shares[0]}
    log_n = 0.0 if is_sum else math.log(log_weights.shape[1])
    found = Weighted(total - log_n, normal, means, sds, listed, states, joined, is_sum)
    is_parent = {p for _, own in families for p in own}
    numbers = [v for v in targets if not network.states[v]]
    share = np.exp(normal)[..., None]
    for t in (t for t, v in enumerate(numbers) if v in is_parent):
        own, part = means[..., t : t + 1], share
        mean = (part * own).sum(axis=1, keepdims=True)
        variance = (part * (own - mean) ** 2).sum(axis=1, keepdims=True)
        wide = np.minimum(0.9, _BANDWIDTH * found.effective ** (-0.2))[:, None, None]
        means[..., t : t + 1] = mean + np.sqrt(1.0 - wide**2) * (own - mean)
        sds[..., t : t + 1] = wide * np.sqrt(variance)
    return found
