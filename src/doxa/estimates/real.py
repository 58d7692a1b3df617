"""Mean, error and R-hat of a real-valued quantity, such as the log score or the number of edges, or of many averages.

Rank R-hat, effective sample size and MCSE are those of Vehtari et al. (2021); the error is raised, and given
Student's t, where long batches or chains scatter more than it says (`doxa.estimates.batches`), and is never less than
the scatter of the chains' means where these disagree.  Where the batch means are skewed, as by a few visits to a rare
mode, the interval reaches farther to that side: few visits seen may stand for many more.  That takes milliseconds for
one quantity; a network has thousands of averages of conditional probabilities (Rao-Blackwell), which are done in one
pass of array operations: a short-range variance by the lag-one autocorrelation of the kept draws, raised and stretched
in the same way, and split R-hat.  0/1 quantities belong to `doxa.estimates.indicators`, which is both faster and honest
about those that never switch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.estimates.batches import batch_edges, long_range_dispersion, visits_by_skew
from doxa.estimates.effective import effective_draws, halves, normal_scores
from doxa.estimates.estimate import Estimate
from doxa.estimates.gelman_rubin import are_stuck, gelman_rubin, split_rank_r_hat
from doxa.estimates.intervals import StudentInterval, UnmetInterval, UnseenInterval, unmet_error

__all__ = ["AverageDiagnostics", "RealDiagnosis", "diagnose_averages", "diagnose_real"]


_MOST_CORRELATED = 0.99
_ROUNDING = 1e-13  # spread of draws below which they differ by rounding alone


class AverageDiagnostics(NamedTuple):
    """Means of many quantities in [0, 1]; every array has shape (n_quantities,)."""

    value: Floats
    mcse: Floats  # nan where the quantity never moved
    ess: Floats  # draws of the same variance, independent of each other; nan where it never moved
    r_hat: Floats  # split, without ranks; nan where it never moved, or for one chain that did not
    df: Floats
    skew: Floats  # as in `doxa.estimates.intervals.tail_widths`
    n_draws: int  # over all chains

    @property
    def slowest(self) -> float:
        """Effective draws of the quantity that has the fewest; 0 where none moved."""
        moved = ~np.isnan(self.ess)
        return float(self.ess[moved].min()) if moved.any() else 0.0

    @property
    def errors(self) -> Floats:
        """Standard errors that allow for what the chains never met, shape (n_quantities,)."""
        return self.errors_by(self.slowest)

    def errors_by(self, slowest: ArrayLike) -> Floats:
        """The same, where what was not met is bounded by other numbers of effective draws, one or of each quantity."""
        unmet = unmet_error(slowest) * np.maximum(self.value, 1 - self.value)
        return np.hypot(np.nan_to_num(self.mcse, nan=0.0), unmet)

    def estimate(self, k: int) -> Estimate:
        """One of them, with an error that allows for what the chains never met.

        Averages of conditional probabilities say nothing of a mode of probability q that the chains have not met: how
        large q can be says the number of effective draws of the slowest quantity, as for a state that was not seen.
        """
        value = float(np.clip(self.value[k], 0.0, 1.0))
        worth = self.slowest
        error = float(self._replace(value=self.value[k], mcse=self.mcse[k]).errors_by(worth))
        if np.isnan(self.mcse[k]):  # it never moved
            if value in (0.0, 1.0):
                return Estimate(value, error, worth, law=UnseenInterval(worth, self.n_draws))
            return Estimate(value, error, worth, law=UnmetInterval(StudentInterval(unit=True), 0.0, worth))
        own = float(self.mcse[k])
        met = StudentInterval(float(self.df[k]), unit=True, skew=float(self.skew[k]))
        law = UnmetInterval(met, own, worth)
        return Estimate(value, error, float(self.ess[k]), law=law)


def diagnose_averages(draws: ArrayLike) -> AverageDiagnostics:
    r"""Diagnose draws of many quantities in [0, 1], shape (n_chains, n_draws, n_quantities), at least 4 draws a chain.

    With lag-one autocorrelation :math:`\rho`, pooled over chains, the short-range variance of the mean of n draws is
    :math:`\frac{\sigma^2}{n} \frac{1 + \rho}{1 - \rho}`, exact for an autoregression of order one and a start for
    others; long batches and the scatter between chains raise it (`doxa.estimates.batches.long_range_dispersion`).  Keep
    averages over several steps as draws, so that they are correlated little.
    """
    chains = np.asarray(draws, dtype=np.float64)
    if chains.ndim != 3 or chains.shape[1] < 4:
        raise ArgumentError(
            f"draws has shape {chains.shape}; it must be (chain, draw, quantity) with at least 4 draws of each chain"
        )
    m, n, _ = chains.shape
    value = chains.mean(axis=(0, 1))
    moved = chains.max(axis=(0, 1)) - chains.min(axis=(0, 1)) > _ROUNDING
    centred = chains - chains.mean(axis=1, keepdims=True)
    within = (centred**2).sum(axis=(0, 1)) / (m * (n - 1))
    lagged = np.einsum("cik,cik->k", centred[:, 1:], centred[:, :-1]) / (m * (n - 1))
    safe = np.where(within > 0, within, 1.0)
    rho = np.clip(lagged / safe + 1 / n, 0.0, _MOST_CORRELATED)  # 1/n: what the chain's own mean takes away
    short = safe * (1 + rho) / (1 - rho)
    own_df = np.maximum(m * n * (1 - rho) / (1 + rho) / 2, 1.0)
    edges = batch_edges(n)
    sums = np.add.reduceat(chains - value, edges[:-1], axis=1)
    lengths = np.diff(edges)
    spread, df, _, _ = long_range_dispersion(sums, lengths, short, own_df)
    mcse = np.sqrt(short * spread / (m * n))
    variance = ((chains - value) ** 2).sum(axis=(0, 1)) / (m * n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = variance / mcse**2
        r_hat = gelman_rubin(chains, split=True).r_hat
    still = ~moved
    mcse[still], ess[still], r_hat[still] = np.nan, np.nan, np.nan
    skew = visits_by_skew(sums, lengths)
    return AverageDiagnostics(value, mcse, ess, r_hat, np.minimum(df, own_df), skew, m * n)


_APART = 1.1  # R-hat above which chains disagree; one in thousands that agree is there by chance


class RealDiagnosis(NamedTuple):
    """The mean of a real-valued quantity, and whether its chains agree."""

    estimate: Estimate
    r_hat: (
        float  # rank-normalised split R-hat; nan for one chain or constant draws, inf for constant chains that differ
    )
    bulk_ess: float  # of the rank-normalised draws; nan for constant draws


def diagnose_real(draws: ArrayLike) -> RealDiagnosis:
    """Diagnose the draws of one real-valued quantity.

    Parameters
    ----------
    draws : array_like of float, shape (n_chains, n_draws)
        Finite numbers; at least one chain and 4 draws. Not modified.

    Returns
    -------
    RealDiagnosis
        Estimate of the mean, rank R-hat and bulk effective sample size. Constant draws give an error, an ess and an
        R-hat of nan, not 0: a quantity that never moved has said nothing about its error. Chains that are constant but
        differ have an R-hat of infinity. Where R-hat is above 1.1 the error is at least that of the chains' means.

    Raises
    ------
    ArgumentError
        If the array does not have two axes, has too few draws or holds a value that is not finite.

    Examples
    --------
    >>> draws = np.random.default_rng(3).normal(size=(4, 1000))
    >>> result = diagnose_real(draws)
    >>> print(result.estimate)
    0.012 +/- 0.016
    >>> round(result.r_hat, 2)
    1.0
    >>> print(diagnose_real(np.zeros((4, 100))).estimate)
    0 (error unknown)
    """
    draws = np.asarray(draws, dtype=np.float64)
    if draws.ndim != 2 or draws.shape[0] < 1 or draws.shape[1] < 4:
        raise ArgumentError(
            f"draws has shape {draws.shape}; it must be (chain, draw) with at least one chain and 4 draws"
        )
    if not np.isfinite(draws).all():
        chain, draw = (int(i) for i in np.argwhere(~np.isfinite(draws))[0])
        raise ArgumentError(f"draws[{chain}, {draw}] is {draws[chain, draw]}; every draw must be finite")
    value = float(draws.mean())
    if draws.min() == draws.max():
        return RealDiagnosis(Estimate(float(draws[0, 0]), np.nan, np.nan), np.nan, np.nan)

    split = halves(draws)
    scores = normal_scores(split)
    mcse, bulk = float(draws.std(ddof=1) / np.sqrt(effective_draws(split))), effective_draws(scores)
    r_hat = np.nan
    if draws.shape[0] > 1:
        r_hat = np.inf if are_stuck(draws) else split_rank_r_hat(split, scores)
    if not mcse > 0:
        return RealDiagnosis(Estimate(value, np.nan, np.nan), r_hat, bulk)
    mean_ess = float(draws.var(ddof=1)) / mcse**2
    edges = batch_edges(draws.shape[1])
    sums = np.add.reduceat(draws - value, edges[:-1], axis=1)
    # An ess of n is an error known about as well as from n / 2 draws: chains stuck apart have an ess near their number.
    own_df = max(mean_ess / 2, 1.0)
    lengths = np.diff(edges)
    dispersion, df, _, _ = long_range_dispersion(sums, lengths, np.array(mcse**2 * draws.size), np.array(own_df))
    law = StudentInterval(min(float(df), own_df), skew=float(visits_by_skew(sums, lengths)))
    error = mcse * float(np.sqrt(dispersion))
    between = _between(draws) if r_hat > _APART else 0.0
    if between > error:  # by batches: short ones take each chain that is stuck for many
        law, error = StudentInterval(draws.shape[0] - 1.0), between
    return RealDiagnosis(Estimate(value, error, float(draws.var(ddof=1)) / error**2, law=law), r_hat, bulk)


def _between(draws: NDArray[np.float64]) -> float:
    """Standard error of the mean by the chains' own means alone."""
    return float(draws.mean(axis=1).std(ddof=1) / np.sqrt(draws.shape[0]))
