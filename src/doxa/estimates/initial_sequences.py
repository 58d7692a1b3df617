r"""Geyer's initial sequences: where to stop adding autocovariances.

For a reversible chain the sums of neighbouring autocovariances :math:`\Gamma_k = \gamma_{2k} + \gamma_{2k+1}` are
positive, decreasing and convex in k (Geyer 1992, theorem 3.1).  Estimates that break this are noise: the sum is cut
where they turn negative, and the rest may be made decreasing, or convex as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["initial_sequence"]


def initial_sequence(gamma: NDArray[np.float64], window: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    r"""Sum of autocovariances up to Geyer's cut.

    Parameters
    ----------
    gamma : ndarray of float, shape (n_lags, ...)
        Autocovariances from lag 0, at least two; the trailing axes are the quantities'.
    window : {"initial-positive", "initial-monotone", "initial-convex"}
        Which of the three properties to impose; each includes those before it.

    Returns
    -------
    long_run : ndarray of float, shape (...)
        :math:`-\hat\gamma_0 + 2 \sum_k \hat\Gamma_k`; not above the one of the property before it.
    n_lags : ndarray of int, shape (...)
        Autocovariances added, an even number, lag 0 included; at least 2.

    Notes
    -----
    Geyer (1992), sec. 3.3.  Positive: :math:`\hat\Gamma_k` up to the first that is not positive.  Monotone: the running
    minimum of these.  Convex: the greatest convex minorant of the monotone ones followed by a 0, which is what the cut
    says of the next one.  Overestimates the variance in the limit, if anything, when the chain is reversible; for
    others (systematic scans, non-reversible cycles) the cut is a rule of thumb.

    Examples
    --------
    >>> gamma = np.array([4.0, 1.0, 1.5, 0.5, 2.0, 0.5, -1.0, 0.5])  # pairs 5, 2, 2.5, -0.5
    >>> for window in ("initial-positive", "initial-monotone", "initial-convex"):
    ...     print(initial_sequence(gamma, window))
    (array(15.), array(6))
    (array(14.), array(6))
    (array(12.), array(6))
    """
    n_pairs = gamma.shape[0] // 2
    pairs = gamma[0 : 2 * n_pairs : 2] + gamma[1 : 2 * n_pairs : 2]
    kept = np.logical_and.accumulate(pairs > 0, axis=0)
    kept[0] = True  # positive in theory; 0 for constants and where two draws alternate exactly
    terms = np.where(kept, pairs, 0.0)
    if window != "initial-positive":
        terms = np.where(kept, np.minimum.accumulate(pairs, axis=0), 0.0)
    total = terms.sum(axis=0)
    if window == "initial-convex":
        columns = terms.reshape(n_pairs, -1)
        counts = kept.reshape(n_pairs, -1).sum(axis=0)
        sums = [_convex_sum(column[:count]) for column, count in zip(columns.T, counts, strict=True)]
        total = np.array(sums).reshape(total.shape)
    return np.asarray(2 * total - gamma[0]), np.asarray(2 * kept.sum(axis=0))


def _convex_sum(sequence: NDArray[np.float64]) -> float:
    """Sum of the greatest convex minorant of a sequence followed by a 0: the lower hull, from left to right."""
    heights = [*sequence.tolist(), 0.0]
    hull: list[int] = []
    for k, height in enumerate(heights):
        while len(hull) > 1:
            before, last = hull[-2], hull[-1]
            if (heights[last] - heights[before]) * (k - last) < (height - heights[last]) * (last - before):
                break
            hull.pop()
        hull.append(k)
    return float(np.interp(np.arange(sequence.size), hull, [heights[k] for k in hull]).sum())
