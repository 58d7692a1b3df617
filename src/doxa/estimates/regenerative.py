r"""Errors from tours: a chain that starts afresh at known times falls into independent pieces.

Between two regenerations a chain makes a tour; its length :math:`N_i` and its sum :math:`S_i = \sum f` are independent
of the other tours' and alike in law (Mykland, Tierney & Yu 1995).  The mean is a ratio of expectations, and its error
needs neither burn-in nor autocovariances (Hobert, Jones, Presnell & Rosenthal 2002).  How regenerations are found
belongs to the samplers.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates._draws import as_chains, finite_array
from doxa.estimates.batches import FEW_VISITS, SKEW_LIMIT
from doxa.estimates.estimate import Estimate
from doxa.estimates.intervals import StudentInterval

__all__ = ["RegenerativeEstimate", "Tours", "cut_tours", "regenerative_estimate"]

FEW_TOURS = 30  # below this, and above the next, the docstring's warning: see the coverage in docs/diagnostics.md
LARGE_VARIATION = 0.1


class Tours(NamedTuple):
    """Complete tours, of all chains one after another."""

    sums: NDArray[np.float64]  # (n_tours,); of the draws of each tour
    lengths: NDArray[np.int64]  # (n_tours,); draws in each


class RegenerativeEstimate(NamedTuple):
    """A mean with its regenerative error, and whether to believe the error."""

    estimate: Estimate
    n_tours: int
    length_variation: float  # coefficient of variation of the mean tour length


def cut_tours(draws: ArrayLike, starts: ArrayLike) -> Tours:
    """Cut chains where they regenerate, at ``starts``, and add up each complete tour of one quantity.

    Draws before the first start of a chain, and from its last start on, belong to none.  A chain that is stopped at a
    fixed number of draws loses its last tour, which tends to be a long one: a bias of the order of one tour in the
    whole run.
    """
    chains = as_chains(draws, min_draws=1)
    marks = np.asarray(starts)
    if marks.dtype != np.bool_:
        raise ArgumentTypeError(f"starts has dtype {marks.dtype}; it must be boolean")
    if chains.ndim > 2 or marks.shape != np.shape(draws):
        raise ArgumentError(
            f"draws has shape {np.shape(draws)} and starts {marks.shape}; both must be (draw,) or (chain, draw)"
        )
    sums, lengths = [], []
    for chain, mark in zip(chains, marks.reshape(chains.shape), strict=True):
        edges = np.flatnonzero(mark)
        if edges.size > 1:
            sums.append(np.add.reduceat(chain[: edges[-1]], edges[:-1]))
            lengths.append(np.diff(edges))
    if not sums:
        return Tours(np.empty(0), np.empty(0, dtype=np.int64))
    return Tours(np.concatenate(sums), np.concatenate(lengths).astype(np.int64))


def regenerative_estimate(tour_sums: ArrayLike, tour_lengths: ArrayLike) -> RegenerativeEstimate:
    r"""Mean and error of a quantity from the tours of a regenerative chain.

    Parameters
    ----------
    tour_sums : array_like of float, shape (n_tours,)
        Sum of the quantity over each complete tour; at least 2 tours. Chains may be put one after another.
    tour_lengths : array_like of int, shape (n_tours,)
        Draws in each tour, positive.

    Returns
    -------
    RegenerativeEstimate
        Estimate with an interval by Student's t (its ``ess`` is nan: sums do not tell the variance of one draw), the
        number of tours, and the coefficient of variation of the mean tour length. The error is nan where all tours
        have the same mean.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there are fewer than 2 tours, the two differ in shape, a sum is not finite or a length not positive.

    Warns
    -----
    UserWarning
        If there are fewer than 30 tours, or the mean length has a coefficient of variation above 0.1: the error then
        is likely too small, because the long tours, which have the largest deviations, are the ones not yet seen.

    Notes
    -----
    With R tours, :math:`\hat f = \sum S_i / \sum N_i` and :math:`\widehat{Var}\,\hat f = \frac{R}{R-1} \sum (S_i - \hat
    f N_i)^2 / (\sum N_i)^2`: Mykland, Tierney & Yu (1995); Hobert et al. (2002), whose :math:`\hat\gamma^2 / R`
    it is but for the R - 1.  The central limit theorem needs finite second moments of tour length and sum, which
    geometric ergodicity and slightly more than two moments of f ensure (Hobert et al. 2002).  The monitor, after
    Mykland, Tierney & Yu, is :math:`\sqrt{\sum (N_i - \bar N)^2} / \sum N_i`.

    Few tours visit the tails, and the residuals :math:`S_i - \hat f N_i` are far from normal.  Degrees of freedom are
    therefore R - 1 or :math:`2R / (2 + \text{excess kurtosis})`, whichever is less, and below 16 a significant skewness
    stretches its side of the interval, the rule of `doxa.estimates.batches`.  With R - 1 alone, 95% intervals for
    P(y > 1.28) from 2000 draws of an AR(1) of 0.9 (250 tours) covered 91.9%; so, 96.4%.

    Examples
    --------
    >>> rng = np.random.default_rng(5)
    >>> lengths = rng.geometric(0.1, size=400)
    >>> result = regenerative_estimate(lengths * rng.normal(3.0, 1.0, size=400), lengths)
    >>> print(result.estimate, result.n_tours, round(result.length_variation, 3))
    2.99 +/- 0.06 400 0.042
    """
    sums = finite_array("tour_sums", tour_sums)
    lengths = finite_array("tour_lengths", tour_lengths)
    if sums.ndim != 1 or sums.shape != lengths.shape or sums.size < 2:
        raise ArgumentError(
            f"tour_sums has shape {sums.shape} and tour_lengths {lengths.shape}; "
            "both must be (tour,) with at least 2 complete tours: run longer"
        )
    if not (lengths > 0).all():
        tour = int(np.flatnonzero(~(lengths > 0))[0])
        raise ArgumentError(f"tour_lengths[{tour}] is {lengths[tour]:g}; every tour has at least one draw")
    n_tours, n_draws = sums.size, float(lengths.sum())
    value = float(sums.sum() / n_draws)
    residual = sums - value * lengths
    square = float(residual @ residual) * n_tours / (n_tours - 1) / n_draws**2
    variation = float(np.sqrt(((lengths - n_draws / n_tours) ** 2).sum()) / n_draws)
    if n_tours < FEW_TOURS or variation > LARGE_VARIATION:
        message = (
            f"{n_tours} tours with a coefficient of variation of {variation:.2g} in their mean length; the error needs "
            f"at least {FEW_TOURS} and at most {LARGE_VARIATION} to be believed: run longer"
        )
        warnings.warn(message, UserWarning, stacklevel=2)
    means = sums / lengths
    if np.ptp(means) <= 1e-12 * np.abs(means).max():
        return RegenerativeEstimate(Estimate(value, np.nan, np.nan), n_tours, variation)
    estimate = Estimate(value, float(np.sqrt(square)), np.nan, law=_law(residual))
    return RegenerativeEstimate(estimate, n_tours, variation)


def _law(residual: NDArray[np.float64]) -> StudentInterval:
    """Student's t with the degrees of freedom, and the skew, that the tours' residuals leave."""
    n_tours = residual.size
    power = residual**2
    kurtosis = float((power**2).mean() / power.mean() ** 2)
    skewness = float((power * residual).mean() / power.mean() ** 1.5)
    df = max(1.0, min(n_tours - 1.0, 2 * n_tours / max(kurtosis - 1, 1e-12)))
    skewed = df < FEW_VISITS and abs(skewness) > SKEW_LIMIT * np.sqrt(6 / n_tours)
    return StudentInterval(df, skew=float(np.copysign(df, skewness)) if skewed else 0.0)
