r"""Errors of many averages at once: probabilities that are means of conditional probabilities (Rao-Blackwell).

`doxa.estimates.real` diagnoses one quantity in milliseconds; a network has thousands.  Here all are done in one pass of
array operations: a short-range variance by the lag-one autocorrelation of the kept draws, raised where long batches or
chains scatter more than it says (`doxa.estimates.batches`), and split R-hat.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError
from doxa.estimates.batches import batch_edges, long_range_dispersion
from doxa.estimates.estimate import Estimate
from doxa.estimates.gelman_rubin import gelman_rubin
from doxa.estimates.intervals import StudentInterval, UnmetInterval, UnseenInterval, unmet_error

__all__ = ["AverageDiagnostics", "diagnose_averages"]

Floats = NDArray[np.float64]

_MOST_CORRELATED = 0.99
_ROUNDING = 1e-13  # spread of draws below which they differ by rounding alone


class AverageDiagnostics(NamedTuple):
    """Means of many quantities in [0, 1]; every array has shape (n_quantities,)."""

    value: Floats
    mcse: Floats  # nan where the quantity never moved
    ess: Floats  # draws of the same variance, independent of each other; nan where it never moved
    r_hat: Floats  # split, without ranks; nan where it never moved, or for one chain that did not
    df: Floats
    skew: Floats
    n_draws: int  # over all chains

    @property
    def slowest(self) -> float:
        """Effective draws of the quantity that has the fewest; 0 where none moved."""
        moved = ~np.isnan(self.ess)
        return float(self.ess[moved].min()) if moved.any() else 0.0

    @property
    def errors(self) -> Floats:
        """Standard errors that allow for what the chains never met, shape (n_quantities,)."""
        unmet = unmet_error(self.slowest) * np.maximum(self.value, 1 - self.value)
        return np.hypot(np.nan_to_num(self.mcse, nan=0.0), unmet)

    def estimate(self, k: int) -> Estimate:
        """One of them, with an error that allows for what the chains never met.

        Averages of conditional probabilities say nothing of a mode of probability q that the chains have not met: how
        large q can be says the number of effective draws of the slowest quantity, as for a state that was not seen.
        """
        value = float(np.clip(self.value[k], 0.0, 1.0))
        worth = self.slowest
        error = float(self.errors[k])
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
    spread, df, skew = long_range_dispersion(sums, np.diff(edges), short, own_df)
    mcse = np.sqrt(short * spread / (m * n))
    variance = ((chains - value) ** 2).sum(axis=(0, 1)) / (m * n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = variance / mcse**2
        r_hat = gelman_rubin(chains, split=True).r_hat
    still = ~moved
    mcse[still], ess[still], r_hat[still] = np.nan, np.nan, np.nan
    return AverageDiagnostics(value, mcse, ess, r_hat, np.minimum(df, own_df), skew, m * n)
