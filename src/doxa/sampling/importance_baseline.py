r"""Importance resampling from an approximation: where a chain may start, and the baseline it is compared with.

The Metropolis-Hastings algorithm of Antal & Sárközy begins with an approximation of the posterior, a mixture around its
modes (step 0), draws the initial states from it (step 2), judges the chain's efficiency (step 5) and compares it with
importance resampling from that approximation (step 6).  The chain itself is not here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate
from doxa.sampling.importance import ImportanceSample
from doxa.sampling.importance_proposals import Draws
from doxa.sampling.importance_weights import WeightedEstimate, WeightVerdict

__all__ = ["ChainComparison", "Resample", "all_agree", "compare_with_chain", "resample"]

AGREE = 3.0  # standard errors that a chain may differ from its baseline
_CHANCE = 0.01  # that right chains and right weights differ as much as is called a disagreement, in any of many numbers
_WORDS = {True: "Agree", False: "Disagree", None: "Cannot tell"}


class Resample(NamedTuple):
    """Draws with equal weights, made from weighted ones."""

    draws: Draws  # (n, ...), in random order
    indices: NDArray[np.intp]  # where each stood in the sample
    n_distinct: int  # different draws among them; copies tell nothing new
    most_copies: int  # of any one draw
    verdict: WeightVerdict  # of the weights


def resample(
    sample: ImportanceSample,
    n: int,
    rng: np.random.Generator,
    *,
    method: Literal["systematic", "multinomial"] = "systematic",
) -> Resample:
    r"""Make draws of equal weight: starting points for a chain, or a sample to look at (slides, steps 0, 2 and 6).

    Parameters
    ----------
    sample : ImportanceSample
        The weighted draws.
    n : int
        How many; at least 1. Far fewer than the ess, if they are to be different.
    rng : numpy.random.Generator
        Advanced in place.
    method : {"systematic", "multinomial"}
        Systematic: each draw appears :math:`n \bar w_t` times, rounded down or up. Multinomial: independent
        choices. Both expect :math:`n \bar w_t` copies.

    Returns
    -------
    Resample
        In random order, with the number of distinct draws. For averages use
        `ImportanceSample.expectation`: resampling only adds noise.

    Raises
    ------
    ArgumentError
        If ``n`` is not at least 1, or the method is unknown.

    Examples
    --------
    >>> sample = ImportanceSample(np.array([10, 20, 30]), np.log([1.0, 2.0, 1.0]), np.zeros(3))
    >>> result = resample(sample, 4, np.random.default_rng(0))
    >>> sorted(result.draws.tolist()), result.n_distinct, result.most_copies
    ([10, 20, 20, 30], 3, 2)
    """
    if not n >= 1:
        raise ArgumentError(f"n is {n}; at least 1 draw must be asked for")
    if method == "systematic":
        positions = (np.arange(n) + rng.random()) / n
    elif method == "multinomial":
        positions = rng.random(n)
    else:
        raise ArgumentError(f"method is {method!r}; it must be 'systematic' or 'multinomial'")
    edges = np.cumsum(sample.weights)
    last = int(np.flatnonzero(sample.weights)[-1])  # rounding must not reach past it
    indices = np.minimum(np.searchsorted(edges, positions * edges[-1], side="right"), last)
    indices = rng.permutation(indices)  # systematic choices come sorted
    _, copies = np.unique(indices, return_counts=True)
    return Resample(sample.draws[indices], indices, len(copies), int(copies.max()), sample.verdict)


class ChainComparison(NamedTuple):
    """A chain's estimate beside that of its importance-sampling baseline."""

    baseline: WeightedEstimate
    chain: Estimate
    z: float  # difference in standard errors of the difference; nan if an error is unknown
    agrees: bool | None  # |z| at most 3; None: cannot tell
    efficiency: float  # of the chain: baseline's variance x evaluations over the chain's; nan if unknown
    text: str


def compare_with_chain(
    sample: ImportanceSample, f: Callable[[Draws], ArrayLike], chain: Estimate, *, evaluations: int | None = None
) -> ChainComparison:
    """Compare a chain's estimate with importance sampling from an approximation (slides, steps 5 and 6).

    Parameters
    ----------
    sample : ImportanceSample
        Drawn from the approximation, weighted for the chain's target.
    f : callable
        The quantity, as in `ImportanceSample.expectation`.
    chain : Estimate
        The chain's estimate of its mean.
    evaluations : int, optional
        How often the chain evaluated its target; without it the efficiency is nan.

    Returns
    -------
    ChainComparison
        ``agrees`` is None, never True, where the baseline's weights or either error cannot be trusted. Agreement
        is no proof: both may miss the same part of the target. An efficiency below 1 says that the chain makes
        less of its evaluations than the approximation does, and its proposal should be redesigned (step 5).

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> draws = rng.integers(0, 4, 2000)
    >>> sample = ImportanceSample(draws, np.log([1.0, 2.0, 3.0, 4.0])[draws], np.full(2000, np.log(0.25)))
    >>> print(compare_with_chain(sample, lambda x: x, Estimate(1.71, 0.03, 900.0), evaluations=4000).text)
    Disagree: chain 1.71 +/- 0.03, baseline 2.00 +/- 0.02, 7.9 standard errors apart; efficiency of the chain 0.27.
    """
    baseline = sample.expectation(f)
    error = float(np.hypot(baseline.mcse, chain.mcse))
    z = (chain.value - baseline.value) / error if error > 0 else np.nan
    agrees = None if np.isnan(z) else bool(abs(z) <= AGREE)
    efficiency = np.nan
    if evaluations is not None and chain.mcse > 0:
        efficiency = baseline.mcse**2 * (sample.n + sample.n_removed) / (chain.mcse**2 * evaluations)
    parts = f"{_WORDS[agrees]}: chain {chain}, baseline {baseline}"
    parts += "" if np.isnan(z) else f", {abs(z):.1f} standard errors apart"
    parts += "" if np.isnan(efficiency) else f"; efficiency of the chain {efficiency:.2g}"
    return ChainComparison(baseline, chain, float(z), agrees, float(efficiency), f"{parts}.")


def all_agree(worst: float, n: int, reliable: bool | None) -> tuple[bool | None, str, float]:
    """Whether the largest of n standardised differences says that a run and its baseline agree; a word, and the limit.

    By chance alone they disagree in one of a hundred comparisons.  None where the weights cannot be trusted.
    """
    limit = float(-ndtri(_CHANCE / 2 / n))
    agrees = bool(abs(worst) <= limit) if reliable else None
    return agrees, _WORDS[agrees], limit
