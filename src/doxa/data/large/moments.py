r"""Tables of numbers from sources that are too large to hold: rows that have the moments of all rows.

Scores of Gaussian families depend on the rows only through, for each configuration of the columns of categories, the
number of cases, the means of the columns of numbers and their sums of products.  One grouped aggregation where the data
live gives these; here each configuration gets a few rows with whole counts that have exactly its moments, so that all
that works on a table works on this one.

Let N be the cases of a configuration, :math:`\bar x` the means and :math:`S = \sum_k l_k l_k^T` the centred sums of
products, of rank r.  Where N is above 2r, the rows are :math:`\bar x \pm l_k / \sqrt{2w}`, each with the count
:math:`w = \lfloor N / (2r + 1) \rfloor`, and :math:`\bar x` with what is left.  Else they are
:math:`\bar x + \sum_k h_{ik} l_k`, one for each case, with Helmert's contrasts h: orthonormal, and orthogonal to 1.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.data.coding import refuse_infinite
from doxa.data.large.engine import Moments
from doxa.data.table import Table, collapsed
from doxa.errors import TableError

if TYPE_CHECKING:
    from doxa.data.large.engine import Engine

__all__ = ["rows_with_moments", "table_of_moments"]

_MOST_NUMBERS = 200  # columns: some 20 000 sums of products
_MOST_CELLS = 2**27  # of the rows that are made: a GB
_ROUNDING, _NATS = 2.0**-53, 0.01  # of a number; by which scores may be off


def table_of_moments(engine: Engine, states: tuple[tuple[str, ...], ...], most_rows: int) -> Table:
    """A table with the moments of the source's numbers in every configuration of its categories, in two passes.

    Raises
    ------
    TableError
        If numbers are infinite, or there are too many columns or configurations.
    SourceError
        If the source fails or changes, or its sums would lose too many digits.
    """
    numbers = tuple(j for j, labels in enumerate(states) if not labels)
    categories = tuple(j for j, labels in enumerate(states) if labels)
    p = len(numbers)
    if p > _MOST_NUMBERS:
        raise TableError(
            f"{engine.label} has {p} columns of numbers, and sums of products are made of {_MOST_NUMBERS} at most; "
            "name fewer columns with columns=[...] or --columns"
        )
    low, high = engine.extremes(numbers)
    for at, j in enumerate(numbers):
        refuse_infinite(engine.names[j], np.array([low[at], high[at]]))
    power = np.frexp(np.maximum(high / 2 - low / 2, np.finfo(np.float64).tiny))[1] + 1
    most = min(most_rows, _MOST_CELLS // len(states)) // (2 * p + 1)
    found = engine.moments(categories, numbers, low, power, most)
    if found is None:
        raise TableError(
            f"{engine.label} has more than {most} configurations of its {len(categories)} columns of categories, too "
            f"many for sums of products of {p} columns of numbers in each; name fewer columns with columns=[...] or "
            "--columns, or give fewer rows"
        )
    _check_digits(engine, found, numbers, np.maximum(-low, high), power)
    parts = [rows_with_moments(*one) for one in zip(found.counts.tolist(), found.means, found.products, strict=True)]
    sizes = [len(counts) for _, counts in parts]
    values = np.ldexp(np.concatenate([rows for rows, _ in parts]), power) + low
    codes = np.repeat(found.codes, sizes, axis=0)
    columns = [np.zeros(len(codes), dtype=np.int16) for _ in states]
    for at, j in enumerate(categories):
        columns[j] = codes[:, at]
    made = collapsed(
        engine.names,
        states,
        columns,
        np.concatenate([counts for _, counts in parts]),
        in_order=False,
        numbers={j: values[:, at] for at, j in enumerate(numbers)},
    )
    return replace(made, moments=_fingerprint(found, low, high))


def _check_digits(
    engine: Engine, found: Moments, numbers: tuple[int, ...], largest: Floats, power: NDArray[np.int64]
) -> None:
    """Refuse columns whose spread is so small, compared with their numbers, that rows in their unit lose it."""
    squares = np.maximum(found.products.diagonal(axis1=1, axis2=2), 0.0)
    spread = np.ldexp(np.sqrt(squares / found.counts[:, None]), power)
    lost = np.argwhere((spread > 0) & (found.counts[:, None] * _ROUNDING * largest > _NATS * spread))
    if len(lost):
        name = engine.names[numbers[int(lost[0, 1])]]
        raise TableError(
            f"column {name!r} of {engine.label} varies by {spread[tuple(lost[0])]:.2g} in some rows and has numbers of "
            f"{largest[lost[0, 1]]:.2g}, whose digits do not hold that; subtract a constant in the source"
        )


def rows_with_moments(n_cases: int, mean: Floats, products: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Rows and their counts, which add up to ``n_cases``, with this mean and these centred sums of products.

    Examples
    --------
    >>> rows, counts = rows_with_moments(10, np.array([1.0]), np.array([[6.0]]))
    >>> rows.ravel().tolist(), counts.tolist()
    ([2.0, 0.0, 1.0], [3, 3, 4])
    """
    squares, axes = np.linalg.eigh(products)
    kept = np.argsort(-squares)[: min(len(mean), n_cases - 1)]  # further ones are rounding
    kept = kept[squares[kept] > 0.0]
    r = len(kept)
    parts = axes[:, kept] * np.sqrt(squares[kept])  # (p, r)
    if n_cases > 2 * r:
        weight = n_cases // (2 * r + 1)
        ends = parts.T / np.sqrt(2.0 * weight)
        rows = mean + np.concatenate([ends, -ends, np.zeros((1, len(mean)))])
        return rows, np.array([weight] * (2 * r) + [n_cases - 2 * r * weight], dtype=np.int64)
    return mean + _helmert(n_cases)[:, :r] @ parts.T, np.ones(n_cases, dtype=np.int64)


def _helmert(n: int) -> Floats:
    """Orthonormal contrasts, shape (n, n - 1)."""
    found = np.zeros((n, n - 1))
    for k in range(1, n):
        found[:k, k - 1], found[k, k - 1] = -1.0, k
        found[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return found


def _fingerprint(found: Moments, low: Floats, high: Floats) -> str:
    """Of what is the same whenever the source is asked: sums of products differ in their last digits."""
    order = np.lexsort(found.codes.T[::-1]) if found.codes.shape[1] else np.arange(len(found.codes))
    content = hashlib.sha256(found.codes[order].astype("<i2").tobytes())
    for part in (found.counts[order].astype("<i8"), low.astype("<f8"), high.astype("<f8")):
        content.update(part.tobytes())
    return content.hexdigest()
