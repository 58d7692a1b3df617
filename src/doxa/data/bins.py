"""Quantile bins: how a numeric column becomes categories when the user asks for it.

The cuts are values of the column, so that every bin holds at least one row; where the values are all
different the bins are those of the ordinary (interpolated) quantiles.
"""

from __future__ import annotations

import itertools
import logging

import numpy as np
from numpy.typing import NDArray

from doxa.data.options import LEAVE_OUT
from doxa.errors import TableError

__all__ = ["cut"]

_log = logging.getLogger("doxa")


def cut(name: str, numbers: NDArray[np.float64], n_bins: int) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """Cut a column into quantile bins, labelled by their intervals.

    Parameters
    ----------
    name : str
        Name of the column, for messages.
    numbers : ndarray of float, shape (n_rows,)
        NaN is missing; at least one number is present.
    n_bins : int
        Number of bins asked for; there are fewer where quantiles coincide, and the log says so.

    Returns
    -------
    labels : tuple of str
        ``"[18, 40)"`` and so on; the last interval contains its end.
    codes : ndarray of int16, shape (n_rows,)
        The bin of every row, -1 where missing.

    Raises
    ------
    TableError
        If all quantiles coincide, so that only one bin would be left.

    Examples
    --------
    >>> labels, codes = cut("age", np.array([18.0, 25.0, np.nan, 40.0, 71.0]), 2)
    >>> labels, codes.tolist()
    (('[18, 40)', '[40, 71]'), [0, 0, -1, 1, 1])
    """
    present = numbers[~np.isnan(numbers)]
    low, high = float(present.min()), float(present.max())
    quantiles = np.quantile(present, np.arange(1, n_bins) / n_bins, method="higher")
    cuts = np.unique(quantiles[quantiles > low])
    if cuts.size == 0:
        raise TableError(
            f"column {name!r} cannot be cut into {n_bins} bins: its quantiles are all {low:g}, which leaves one bin; "
            f"ask for more bins, or {LEAVE_OUT}"
        )
    if cuts.size + 1 < n_bins:
        _log.warning(
            "column %r is cut into %d bins, not %d: some of its quantiles coincide", name, cuts.size + 1, n_bins
        )
    codes = np.where(np.isnan(numbers), -1, np.searchsorted(cuts, numbers, side="right")).astype(np.int16)
    return _interval_labels(np.array([low, *cuts, high])), codes


def _interval_labels(edges: NDArray[np.float64]) -> tuple[str, ...]:
    """Write intervals with as many digits as keep different edges apart, six at least."""
    texts: list[str] = []
    for digits in range(6, 18):
        texts = [_number_text(float(edge), digits) for edge in edges]
        if len(set(texts)) == np.unique(edges).size:
            break
    intervals = [f"[{left}, {right})" for left, right in itertools.pairwise(texts)]
    return (*intervals[:-1], intervals[-1][:-1] + "]")


def _number_text(number: float, digits: int) -> str:
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.{digits}g}"
