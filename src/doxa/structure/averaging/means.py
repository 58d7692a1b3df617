r"""Means over draws of networks with their errors: plain, and weighted by the probability of what was observed.

A weighted mean is a ratio, :math:`R = \sum_t w_t c_t / \sum_t w_t`.  To first order its error is that of the mean of
:math:`z_t = R + w_t (c_t - R) / \bar w`, whose mean is R, a series as autocorrelated as the chains are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.averages import AverageDiagnostics, diagnose_averages
from doxa.estimates.long_run import long_run_variance

__all__ = ["WeightedMean", "mean_over_draws", "weighted_mean"]

Floats = NDArray[np.float64]


class WeightedMean(NamedTuple):
    """A ratio estimate for several quantities."""

    means: AverageDiagnostics
    effective_networks: float
    log_mean_weight: float  # nats


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
    all the same: the error is that of `doxa.estimates.averages`, or by Geyer's monotone sequence where that is larger.
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
    peak = float(log_weight.max())
    weight = np.exp(log_weight - peak)
    share = weight / weight.mean()
    ratio = share @ conditional / len(share)
    effective = float(weight.sum() ** 2 / (weight**2).sum())
    series = ratio + share[:, None] * (conditional - ratio)
    means = mean_over_draws(series.reshape(*shape, -1), min(worth, effective))
    return WeightedMean(means, effective, peak + float(np.log(weight.mean())))
