"""Gelman and Rubin's potential scale reduction, its rank-normalised descendant, and the ranks that a rank plot shows.

Slides, eq. 19: chains started apart and not yet mixed scatter more between than within.  doxa's own verdicts use the
rank-normalised split form (Vehtari et al. 2021).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError
from doxa.estimates._draws import as_chains, is_constant
from doxa.estimates.effective import halves, normal_scores

__all__ = ["GelmanRubin", "are_stuck", "gelman_rubin", "rank_r_hat", "rank_shares", "split_rank_r_hat"]


def rank_shares(draws: NDArray[np.float64], bins: int = 20) -> NDArray[np.float64]:
    """Share of each chain's draws in each bin of ranks over all chains, times the number of bins: 1 if chains agree.

    Rank plots: Vehtari et al. (2021).  Draws that tie share the ranks that they take up together evenly, so that a
    quantity of few values makes no comb.  From (n_chains, n_draws) to (n_chains, bins).
    """
    n_chains, n_draws = draws.shape
    _, kind, size = np.unique(draws.ravel(), return_inverse=True, return_counts=True)
    end = np.cumsum(size) / draws.size  # of the ranks of each value, as shares of all ranks
    begin = end - size / draws.size
    edges = np.arange(bins + 1) / bins
    reach = np.clip(edges[None, :], begin[:, None], end[:, None])
    share = np.diff(reach, axis=1) / (end - begin)[:, None]  # of each value in each bin
    kind = kind.reshape(n_chains, n_draws)
    counts = np.stack([np.bincount(chain, minlength=size.size) for chain in kind])
    found: NDArray[np.float64] = counts @ share * bins / n_draws
    return found


class GelmanRubin(NamedTuple):
    """The pieces of eq. 19; arrays of the quantities' shape."""

    r_hat: NDArray[np.float64]  # sqrt(var_plus / within): the slides' square root of R-hat
    within: NDArray[np.float64]  # W, mean of the chains' variances
    between: NDArray[np.float64]  # B, N times the variance of the chains' means
    var_plus: NDArray[np.float64]  # estimate of the stationary variance, too large while chains are apart


def gelman_rubin(draws: ArrayLike, *, split: bool = False) -> GelmanRubin:
    r"""Potential scale reduction of each quantity, by the variances between and within chains.

    Parameters
    ----------
    draws : array_like of float, shape (n_chains, n_draws, ...)
        Finite numbers; at least 2 chains (1 if ``split``) and 2 draws (4 if ``split``). Not modified.
    split : bool, default=False
        Count the two halves of every chain as chains, so that a chain that drifts is seen too; the middle draw of an
        odd number is left out.

    Returns
    -------
    GelmanRubin
        R-hat, W, B and var+. R-hat is about 1 where chains agree; infinite where no chain moved and they differ; nan
        where nothing moved at all.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there are too few chains or draws, or they are not finite numbers.

    Notes
    -----
    Slides, eq. 19, after Gelman & Rubin (1992), without their correction for degrees of freedom: with M chains of N
    draws, :math:`B = \frac{N}{M-1}\sum_j(\bar Y_{\cdot j} - \bar Y_{\cdot\cdot})^2`, :math:`W = \frac1M\sum_j s_j^2`,
    :math:`\widehat{var}^+ = \frac{N-1}{N}W + \frac{B}{N}`, :math:`\hat R^{1/2} = \sqrt{\widehat{var}^+ / W}`.

    Errata: eq. 19 prints the last term as :math:`1/(NB)`, which *falls* as chains move apart; :math:`s_j^2` has a bar
    over its :math:`Y_{ij}` and the range of i and j is exchanged.  Derivation of the corrected term: for a stationary
    chain :math:`E s^2 = \frac{N}{N-1}(\sigma^2 - Var\,\bar Y)` and :math:`E B = N\,Var\,\bar Y`, hence
    :math:`E\,\widehat{var}^+ = \sigma^2` exactly, at any autocorrelation.

    Examples
    --------
    >>> gelman_rubin([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])  # W = 1, B = 3 * 2 = 6, var+ = 2/3 + 6/3
    GelmanRubin(r_hat=array(1.63299316), within=array(1.), between=array(6.), var_plus=array(2.66666667))
    """
    least = 4 if split else 2
    chains = _several(draws, least, 1 if split else 2)
    if split:
        chains = halves(chains)
    n = chains.shape[1]
    means = chains.mean(axis=1)
    within = chains.var(axis=1, ddof=1).mean(axis=0)
    within = np.where((chains.min(axis=1) == chains.max(axis=1)).all(axis=0), 0.0, within)
    between = np.where(is_constant(chains), 0.0, n * means.var(axis=0, ddof=1))
    var_plus = (n - 1) / n * within + between / n
    with np.errstate(divide="ignore", invalid="ignore"):  # no chain moved, as documented
        r_hat = np.sqrt(var_plus / within)
    return GelmanRubin(np.asarray(r_hat), np.asarray(within), np.asarray(between), np.asarray(var_plus))


def rank_r_hat(draws: ArrayLike) -> NDArray[np.float64]:
    r"""Rank-normalised split R-hat of each quantity.

    Parameters
    ----------
    draws : array_like of float, shape (n_chains, n_draws, ...)
        Finite numbers; at least 2 chains and 4 draws. Not modified.

    Returns
    -------
    ndarray of float, shape (...)
        The larger of the bulk's and the folded draws'; infinite where no half of a chain moved and they differ, nan for
        a quantity that never moved.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there are too few chains or draws, or they are not finite numbers.

    Notes
    -----
    Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), as Stan and ArviZ have it: `gelman_rubin` with split chains,
    of the normal scores of the ranks, and of those of the distances from the median.  Ranks have moments where draws
    do not, and the fold sees chains that agree in place but not in spread.

    Examples
    --------
    >>> draws = np.random.default_rng(1).standard_cauchy(size=(4, 1000))
    >>> draws[0] *= 5  # same centre, other spread
    >>> float(gelman_rubin(draws).r_hat.round(3)), float(rank_r_hat(draws).round(3))
    (1.001, 1.097)
    """
    chains = _several(draws, 4, 2)
    apart = np.moveaxis(chains.reshape(*chains.shape[:2], -1), 2, 0)
    values = [split_rank_r_hat(split, normal_scores(split)) for split in map(halves, apart)]
    found = np.where(are_stuck(chains), np.inf, np.reshape(values, chains.shape[2:]))
    return np.where(is_constant(chains), np.nan, found)


def split_rank_r_hat(split: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    """R-hat of the bulk of one quantity or, where it is larger, of the folded draws, which may be all one number.

    From halves of chains that are not all stuck, and the normal scores of these.
    """
    folded = normal_scores(np.abs(split - np.median(split)))
    return float(np.fmax(*(gelman_rubin(part).r_hat for part in (scores, folded))))


def are_stuck(chains: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether no half of a chain moved, shape (...): what is within is 0, or what rounding of ranks leaves of it.

    >>> bool(are_stuck(np.repeat([[0.0], [0.0], [1.0], [1.0]], 100, axis=1)))
    True
    """
    split = halves(chains)
    result: NDArray[np.bool_] = (split.min(axis=1) == split.max(axis=1)).all(axis=0)
    return result


def _several(draws: ArrayLike, min_draws: int, min_chains: int) -> NDArray[np.float64]:
    """Checked draws with their chain axis: one axis would be one chain, which has nothing to be compared with."""
    if np.ndim(draws) == 1:
        raise ArgumentError(
            f"draws has shape {np.shape(draws)}; it must be (chain, draw, ...): chains are to be compared"
        )
    return as_chains(draws, min_draws, min_chains)
