r"""Answers averaged over networks: probabilities that carry a Monte Carlo error and, apart from it, posterior spread.

Means over networks are plain, or weighted by the probability of what was observed.  A weighted mean is a ratio,
:math:`R = \sum_t w_t c_t / \sum_t w_t`.  To first order its error is that of the mean of
:math:`z_t = R + w_t (c_t - R) / \bar w`, whose mean is R, a series as autocorrelated as the chains are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate, check_prob
from doxa.estimates.long_run import long_run_variance
from doxa.estimates.real import AverageDiagnostics, diagnose_averages
from doxa.notebook import bar, card
from doxa.text import printable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Averaged", "AveragedProbability", "QueryAnswer", "WeightedMean", "mean_over_draws", "weighted_mean"]


class WeightedMean(NamedTuple):
    """A ratio estimate for several quantities."""

    means: AverageDiagnostics
    effective_networks: float


def mean_over_draws(series: Floats, worth: float) -> AverageDiagnostics:
    """Means of quantities in [0, 1] over chains, with errors.

    Parameters
    ----------
    series : ndarray of float, shape (n_chains, n_draws, n_quantities)
    worth : float
        Effective draws of the slowest quantity of the run, by which what chains never met is bounded.

    Returns
    -------
    AverageDiagnostics
        With one more quantity at the end, which stands for ``worth``.

    Notes
    -----
    A slow chain of graphs under quick noise of drawn parameters has a lag-one autocorrelation near 0 and a long memory
    all the same: the error is that of `doxa.estimates.real`, or by Geyer's monotone sequence where that is larger.
    Neither sees a part of the variance that is both slow and small; ``worth`` is measured on quantities without such
    noise, and `doxa.estimates.intervals.UnmetInterval` makes room for it.
    """
    found = diagnose_averages(series)
    with np.errstate(divide="ignore", invalid="ignore"):
        summed = np.sqrt(long_run_variance(series) / found.n_draws)
        growth = np.where(summed > found.mcse, summed / found.mcse, 1.0)  # False for nan
    one = np.ones(1)
    return AverageDiagnostics(
        np.append(found.value, 0.5),
        np.append(found.mcse * growth, one),
        np.append(found.ess / growth**2, min(max(worth, 0.0), found.n_draws)),
        np.append(found.r_hat, one),
        np.append(found.df, one),
        np.append(found.skew, 0 * one),
        found.n_draws,
    )


def weighted_mean(conditional: Floats, log_weight: Floats, shape: tuple[int, int], worth: float) -> WeightedMean:
    """Means of conditional probabilities weighted by the probability of the evidence.

    Parameters
    ----------
    conditional : ndarray of float, shape (n_networks, n_quantities)
    log_weight : ndarray of float, shape (n_networks,)
        Nats; at least one is finite.
    shape : tuple of int
        Chains, and networks of each.
    worth : float
        As for `mean_over_draws`; bounded by the effective number of networks too.
    """
    weight = np.exp(log_weight - log_weight.max())
    share = weight / weight.mean()
    ratio = share @ conditional / len(share)
    effective = float(weight.sum() ** 2 / (weight**2).sum())
    series = ratio + share[:, None] * (conditional - ratio)
    means = mean_over_draws(series.reshape(*shape, -1), min(worth, effective))
    return WeightedMean(means, effective)


@dataclass(frozen=True)
class Averaged(Estimate):
    """Posterior mean of a quantity that every network has, with its Monte Carlo error and its posterior spread.

    Two intervals must not be confused.  `interval` says where the posterior *mean* lies, and shrinks to nothing with
    more networks.  `credible_interval` says where the quantity itself lies, as far as the data tell, and does not.

    Attributes
    ----------
    draws : ndarray of float, shape (chain, draw)
        The quantity in every drawn network.
    """

    draws: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)), repr=False, compare=False)

    @classmethod
    def of(cls, estimate: Estimate, draws: NDArray[np.float64]) -> Self:
        """An estimate of the mean, with the draws."""
        return cls(estimate.value, estimate.mcse, estimate.ess, estimate.exact, estimate.law, draws)

    @property
    def n_networks(self) -> int:
        """Networks averaged over."""
        return self.draws.size

    @property
    def posterior_sd(self) -> float:
        """Standard deviation of the quantity over the posterior."""
        return float(self.draws.std(ddof=1))

    def credible_interval(self, prob: float = 0.95) -> tuple[float, float]:
        """Interval that holds the quantity itself with posterior probability ``prob``, equal tails.

        Parameters
        ----------
        prob : float, default=0.95

        Returns
        -------
        low, high : float
            Quantiles of ``draws``.
        """
        tail = (1 - check_prob(prob)) / 2
        low, high = np.quantile(self.draws, [tail, 1 - tail])
        return float(low), float(high)


@dataclass(frozen=True)
class AveragedProbability(Averaged):
    """Posterior mean of a conditional probability; see `Averaged`."""

    def _repr_html_(self) -> str:
        return _card(f"Averaged over {self.n_networks} networks", {"probability": self})


@dataclass(frozen=True, eq=False, repr=False)
class QueryAnswer(Mapping[str, Estimate]):
    """The distribution of a column, or the probability of an event, averaged over networks.

    A mapping from states of the column to `AveragedProbability` (or `Estimate`, where nothing but a mean is asked).

    Attributes
    ----------
    target : str
        The column.
    given, do : mapping of str to str
        What was seen, and what was set.
    n_networks : int
        Networks averaged over.
    effective_networks : float
        As many as their unequal weights are worth: (sum of weights) squared by the sum of squares.  ``n_networks``
        where weights are equal.
    """

    target: str
    estimates: Mapping[str, Estimate]
    given: Mapping[str, str]
    do: Mapping[str, str]
    n_networks: int
    effective_networks: float

    def __getitem__(self, state: str) -> Estimate:
        """The probability of a state."""
        if state not in self.estimates:
            raise ArgumentError(f"{state!r} is no state of {self.target!r}; there are {', '.join(map(repr, self))}")
        return self.estimates[state]

    def probability(self, **thresholds: object) -> NoReturn:
        """Refuse a threshold: states have no order; ``answer[state]`` has the probability of one."""
        from doxa.inference.number_distribution import refuse_thresholds

        refuse_thresholds(self.target, self, thresholds)

    def __iter__(self) -> Iterator[str]:
        """The states."""
        return iter(self.estimates)

    def __len__(self) -> int:
        """Number of states."""
        return len(self.estimates)

    def __str__(self) -> str:
        """A line for each state."""
        heads = [printable(f"{self.target} = {state}") for state in self]
        width = max(map(len, heads))
        return "\n".join(f"{head:{width}}  {e}" for head, e in zip(heads, self.estimates.values(), strict=True))

    def __repr__(self) -> str:
        """What was asked, and a line for each state."""
        return f"{self._title}\n{self}"

    def _repr_html_(self) -> str:
        return _card(self._title, self.estimates)

    @property
    def _title(self) -> str:
        seen = [f"{name} = {state} seen" for name, state in self.given.items()]
        seen += [f"{name} = {state} set" for name, state in self.do.items()]
        where = f", where {', '.join(seen)}" if seen else ""
        return printable(f"{self.target}{where}, averaged over {self.n_networks} networks")

    def to_frame(self, prob: float = 0.95) -> pd.DataFrame:
        """A row for each state.

        Columns ``target, state, probability, mcse, ess, lower, upper`` (Monte Carlo interval of the mean) and, where
        networks were drawn, ``sd, credible_lower, credible_upper`` (posterior spread).
        """
        from doxa.frames import ReadFrame

        rows = []
        for state, e in self.items():
            row = [self.target, state, e.value, e.mcse, e.ess, *e.interval(prob)]
            if isinstance(e, AveragedProbability):
                row += [e.posterior_sd, *e.credible_interval(prob)]
            rows.append(row)
        columns = ["target", "state", "probability", "mcse", "ess", "lower", "upper"]
        spread = ["sd", "credible_lower", "credible_upper"]
        return ReadFrame(rows, columns=columns + spread[: len(rows[0]) - len(columns)])


def _card(title: str, estimates: Mapping[str, Estimate]) -> str:
    """The probabilities as bars, with the Monte Carlo errors and the intervals that the data leave open."""
    rows, spread = [], any(isinstance(e, AveragedProbability) for e in estimates.values())
    for state, e in estimates.items():
        row: tuple[str, ...] = (state, bar(e), str(e))
        if isinstance(e, AveragedProbability):
            low, high = e.credible_interval()
            row += (f"{low:.3f} to {high:.3f}",)
        rows.append(row)
    told = "The mean has a Monte Carlo error; the credible interval is what the data leave open."
    head = ("", "", "mean", "credible interval (95%)")
    return card(title, None, head[: 3 + spread], rows, more=[told] if spread else [])
