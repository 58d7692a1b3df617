"""Dask frames: each partition is described and counted where it is, and only small tables travel.

Workers of a cluster need doxa.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.large.engine import Cells

__all__ = ["count_partitions", "describe_partitions"]

_FAN_IN = 8  # tables that are added up at a time


def describe_partitions(native: Any, most: int) -> tuple[int, list[Any]]:
    """Number of rows, and of each column its values with their counts, or None for more than ``most``, in one pass."""
    import pandas as pd
    from dask.delayed import delayed

    parts = delayed([delayed(_describe_partition)(part, most) for part in native.to_delayed()]).compute()
    found: list[Any] = []
    for of_parts in zip(*(columns for _, columns in parts), strict=True):
        if any(one is None for one in of_parts):
            found.append(None)
            continue
        counted = pd.concat(of_parts, ignore_index=True)
        name, count = counted.columns
        whole = counted.groupby(name, dropna=False, observed=True, sort=False)[count].sum().reset_index()
        found.append(whole if len(whole) <= most else None)
    return sum(n for n, _ in parts), found


def _describe_partition(part: Any, most: int) -> tuple[int, list[Any]]:
    found: list[Any] = []
    for name in part.columns:
        counts = part[name].value_counts(dropna=False, sort=False)
        counts = counts[counts > 0]  # a category may never occur
        if len(counts) > most:
            found.append(None)
            continue
        frame = counts.reset_index()
        frame.columns = [name, f"{name} n"]
        found.append(frame)
    return len(part), found


def count_partitions(
    native: Any,
    codes_of: Sequence[Mapping[Any, int] | None],
    blocks: Sequence[tuple[int, ...]],
    radices: NDArray[np.int64],
    has_missing: NDArray[np.bool_],
) -> tuple[list[Cells], int, int]:
    """Count blocks of columns: cells, number of rows, and number of cells without a code.

    ``codes_of`` has the codes of each column's values, states from 2, or None for a column of codes; the rest is as for
    `doxa.data.large.tally.Tally`.
    """
    from dask.delayed import delayed

    asked = (list(codes_of), list(blocks), radices, has_missing)
    sums = [delayed(_count_partition)(part, *asked) for part in native.to_delayed()]
    while len(sums) > 1:
        sums = [delayed(_total)(sums[k : k + _FAN_IN]) for k in range(0, len(sums), _FAN_IN)]
    n_rows, n_bad, *_ = found = sums[0].compute()
    sizes = [math.prod(radices[list(block)].tolist()) for block in blocks]
    tables = np.split(found[2:], np.cumsum(sizes)[:-1])
    pairs = [(table, list(block)) for table, block in zip(tables, blocks, strict=True)]
    return [Cells(table, radices[block], has_missing[block]) for table, block in pairs], int(n_rows), int(n_bad)


def _count_partition(part: Any, codes_of: Any, blocks: Any, radices: Any, has_missing: Any) -> NDArray[np.int64]:
    """Number of rows, of cells without a code, and the tables of all blocks, one after the other."""
    from doxa.data.large.tally import Tally

    tally = Tally(blocks, radices, has_missing)
    codes = np.empty((len(codes_of), len(part)), dtype=np.int16)
    for at, (name, code_of) in enumerate(zip(part.columns, codes_of, strict=True)):
        codes[at] = part[name].to_numpy() if code_of is None else _codes(part[name], code_of)
    n_rows, n_bad = tally.add_parts([codes])
    return np.concatenate([np.array([n_rows, n_bad], dtype=np.int64), tally.counts])


def _codes(series: Any, code_of: Mapping[Any, int]) -> NDArray[np.int16]:
    """Codes of the cells: 1 is missing, 0 a value that is not known."""
    places, values = series.factorize()
    codes = np.array([*(code_of.get(value, 0) for value in values), 1], dtype=np.int16)
    found: NDArray[np.int16] = codes[places]
    return found


def _total(tables: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    total: NDArray[np.int64] = np.sum(tables, axis=0, dtype=np.int64)
    return total
