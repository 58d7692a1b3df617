r"""Batch means: the variance of an average from the scatter of the averages of long stretches.

The slides' first method of "Confidence estimation": cut the chain into M parts of N draws, so long that their averages
are nearly independent and normal with variance :math:`\tau^2 / N`, and estimate :math:`\tau^2` by their scatter.
`doxa.estimates.batches` builds the errors that doxa prints on the same idea at several lengths at once; here it is
alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from doxa.errors import ArgumentError
from doxa.estimates._draws import as_chains, check_count
from doxa.estimates.estimate import Estimate
from doxa.estimates.intervals import StudentInterval

__all__ = ["batch_means_error"]

# Schmeiser (1982): whatever the length of a run, between 10 and 30 batches lose little: more of them narrow Student's t
# hardly further (2.26 at 10, 2.09 at 20, 2.05 at 30) and are shorter, hence more dependent.
DEFAULT_BATCHES = 20
MIN_DRAWS = 4  # two batches of two draws
ROUNDING = 1e-24  # of the variance: batch means of a chain that repeats itself differ by rounding alone


def batch_means_error(draws: ArrayLike, n_batches: int | None = None) -> Estimate:
    r"""The mean of one quantity, with the error that the scatter of its batch means gives.

    Parameters
    ----------
    draws : array_like of float, shape (n_draws,) or (n_chains, n_draws)
        Finite numbers, at least 4 draws a chain. Not modified.
    n_batches : int, optional
        Batches each chain is cut into, from 1 (2 for a single chain) to half its draws. By default as many as make 20
        over all chains, and at least 2 a chain.

    Returns
    -------
    Estimate
        Mean of all draws, its error, and an interval by Student's t with one degree of freedom less than there are
        batches. The error is nan where all batch means are equal: constant draws, or a chain that repeats itself.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there is more than one quantity, draws are too few or not finite numbers, or ``n_batches`` is out of range.

    Notes
    -----
    Slides, "Confidence estimation I": :math:`\hat\tau^2 = \frac{N}{M-1}\sum_j (\bar Y_j - \bar{\bar Y})^2`.  Two things
    are ours.  Draws that do not fill the last batch are not dropped: batches differ by at most one draw, and each
    square is weighted by its batch's length, which keeps the estimate unbiased for independent draws.  And batches of
    several chains are compared with the mean of all of them, so that chains that disagree enlarge the error.  M stays
    fixed as the run grows: the estimate itself then never settles, but Student's t accounts for that (Schmeiser 1982).
    Too small by about :math:`\sum_k |k|\gamma_k / (N\tau^2)` where neighbouring batches are still correlated.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 500)).repeat(5, axis=1)  # 2000 independent draws, five times
    >>> print(batch_means_error(draws))
    -0.03 +/- 0.02
    >>> print(batch_means_error([0, 4, 4, 8], n_batches=2))  # means 2 and 6
    4 +/- 2
    """
    chains = as_chains(draws, MIN_DRAWS)
    if chains.ndim > 2:
        message = f"draws has shape {chains.shape}; one estimate is of one quantity, (draw,) or (chain, draw)"
        raise ArgumentError(message)
    m, n = chains.shape
    if n_batches is None:
        n_batches = min(max(-(-DEFAULT_BATCHES // m), 2), n // 2)
    n_batches = check_count("n_batches", n_batches, 2 if m == 1 else 1, n // 2, "two draws a batch")
    value = float(chains.mean())
    edges = np.arange(n_batches + 1) * n // n_batches
    lengths = np.diff(edges)
    deviation = np.add.reduceat(chains - value, edges[:-1], axis=1) / lengths
    df = m * n_batches - 1
    long_run = float((lengths * deviation**2).sum()) / df
    variance = float(((chains - value) ** 2).sum()) / (m * n - 1)
    if chains.min() == chains.max() or long_run <= variance * ROUNDING:
        return Estimate(value, np.nan, np.nan)
    law = StudentInterval(float(df))
    return Estimate(value, float(np.sqrt(long_run / (m * n))), m * n * variance / long_run, law=law)
