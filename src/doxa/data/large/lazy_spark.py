"""Spark frames: Python workers turn the cells of a partition into counts of many blocks of columns, in one pass.

A group-by takes Spark some seconds for each block of 2 million rows; codes computed by Spark take longer than that.
What runs on the workers is sent there with the query, and needs NumPy and PyArrow, not doxa.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.large.engine import Cells

__all__ = ["count_in_spark"]

_SCHEMA = "block long, cell long, n long"


def count_in_spark(
    native: Any,
    codes_of: Sequence[Mapping[Any, int] | None],
    blocks: Sequence[tuple[int, ...]],
    radices: NDArray[np.int64],
    has_missing: NDArray[np.bool_],
) -> tuple[list[Cells], int, int]:
    """Count blocks of columns; parameters and results as `doxa.data.large.lazy_dask.count_partitions`."""
    import narwhals.stable.v2 as nw

    maps = [None if one is None else dict(one) for one in codes_of]
    least = (2 - has_missing.astype(np.int64)).tolist()
    counting = _counting(maps, [list(block) for block in blocks], radices.tolist(), least)
    counted = native.mapInArrow(counting, _SCHEMA).groupBy("block", "cell").sum("n")
    frame = nw.from_native(counted.toDF("block", "cell", "n")).collect()
    block_of, cell, n = (np.asarray(frame[name].to_numpy()).astype(np.int64) for name in ("block", "cell", "n"))
    n_rows, n_bad = (int(n[(block_of == -1) & (cell == which)].sum()) for which in (0, 1))
    found = []
    for at, block in enumerate(blocks):
        table = np.zeros(math.prod(radices[list(block)].tolist()), dtype=np.int64)
        here = block_of == at
        table[cell[here]] = n[here]
        found.append(Cells(table, radices[list(block)], has_missing[list(block)]))
    return found, n_rows, n_bad


def _counting(
    maps: list[dict[Any, int] | None], blocks: list[list[int]], radices: list[int], least: list[int]
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The function that workers run; being local it is sent by value, so it names nothing of this module."""

    def count(batches: Iterable[Any]) -> Iterator[Any]:
        import numpy as np
        import pyarrow as pa

        def codes(column: Any, code_of: dict[Any, int] | None) -> Any:
            if code_of is None:
                return column.to_numpy(zero_copy_only=False).astype(np.int64)
            encoded = column.dictionary_encode()
            values = encoded.dictionary.to_pylist()
            place = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
            known = [1 if value is None or value != value else code_of.get(value, 0) for value in values]  # NaN differs
            return np.array([*known, 1], dtype=np.int64)[place]

        sizes = [int(np.prod([radices[j] for j in block], dtype=np.int64)) for block in blocks]
        tables = [np.zeros(size, dtype=np.int64) for size in sizes]
        n_rows = n_bad = 0
        for batch in batches:
            columns = []
            for j, code_of in enumerate(maps):
                code = codes(batch.column(j), code_of) - least[j]
                n_bad += int(((code < 0) | (code >= radices[j])).sum())
                columns.append(code)
            n_rows += batch.num_rows
            if n_bad:
                continue
            for block, table in zip(blocks, tables, strict=True):
                key = columns[block[0]]
                for j in block[1:]:
                    key = key * radices[j] + columns[j]
                table += np.bincount(key, minlength=table.size)
        for at, table in [(-1, np.array([n_rows, n_bad], dtype=np.int64)), *enumerate(tables)]:
            cell = np.flatnonzero(table).astype(np.int64)
            arrays = [np.full(cell.size, at, dtype=np.int64), cell, table[cell]]
            yield pa.RecordBatch.from_arrays([pa.array(one) for one in arrays], names=["block", "cell", "n"])

    return count
