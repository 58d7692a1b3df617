"""Blocks of columns of a lazy frame counted together, in the way that costs its engine least.

- Engines of this process (Polars; Ibis on DuckDB, DataFusion or Polars) hand over codes some rows at a time, and tables
  of all possible cells are filled here: every further block costs a nanosecond a row.
- Dask describes and counts each partition where it is, and only small tables travel; workers of a cluster need doxa.
- Spark fills such tables in Python workers, see `doxa.data.large.lazy_engine`.
- Others (Ibis on a server) group the rows by one block after the other.  All blocks in one query, each row becoming a
  short row for each block, took DuckDB and Spark as long or longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data.large.engine import Cells

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["Asked", "OutOfCore", "count_here", "count_partitions", "describe_partitions", "streaming"]

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


_ROWS = 2**17  # at a time
_VECTORS = 64  # of 2048 rows, as DuckDB counts them
_EMBEDDED = {"datafusion", "polars"}  # backends of Ibis that run in this process, beside DuckDB

Parts = Iterator[NDArray[Any]]


class Asked(NamedTuple):
    """What is to be counted."""

    codes: Sequence[nw.Expr]  # of the columns that blocks name, as `doxa.data.large.lazy_engine` writes them
    blocks: Sequence[tuple[int, ...]]  # positions among these
    radices: NDArray[np.int64]  # number of states, one more where there are missing cells
    has_missing: NDArray[np.bool_]


class OutOfCore(NamedTuple):
    """Counts of the blocks, and what tells that the frame has changed."""

    blocks: Sequence[Cells]
    n_rows: int
    n_bad: int  # cells without a code


def streaming(frame: nw.LazyFrame[Any]) -> Callable[[nw.LazyFrame[Any]], Parts] | None:
    """How such a frame is had some rows at a time in this process, if it is; parts have shape (n_columns, n_rows)."""
    native: Any = frame.to_native()
    if frame.implementation.is_polars() and hasattr(native, "collect_batches"):  # Polars 1.34
        return _polars_parts
    if not frame.implementation.is_ibis():
        return None
    backend = native.get_backend().name
    return _ibis_duckdb_parts if backend == "duckdb" else _ibis_parts if backend in _EMBEDDED else None


def _polars_parts(coded: nw.LazyFrame[Any]) -> Parts:
    native: Any = coded.to_native()
    for part in native.collect_batches(chunk_size=_ROWS, maintain_order=False, engine="streaming"):
        yield np.stack([column.to_numpy() for column in part.get_columns()])


def _ibis_parts(coded: nw.LazyFrame[Any]) -> Parts:
    native: Any = coded.to_native()
    for part in native.to_pyarrow_batches(chunk_size=_ROWS):
        yield np.stack([part.column(k).to_numpy(zero_copy_only=False) for k in range(part.num_columns)])


def _ibis_duckdb_parts(coded: nw.LazyFrame[Any]) -> Parts:
    # Ibis 12 asks DuckDB 2 for batches by a name that is gone.
    native: Any = coded.to_native()
    backend = native.get_backend()
    backend.con.execute(backend.compile(native))
    while len(part := backend.con.fetch_df_chunk(_VECTORS)):
        yield np.stack([part[name].to_numpy() for name in part.columns])


def count_here(frame: nw.LazyFrame[Any], asked: Asked, parts: Callable[[nw.LazyFrame[Any]], Parts]) -> OutOfCore:
    """Count rows that stream by."""
    from doxa.data.large.tally import Tally  # compiled on import

    tally = Tally(asked.blocks, asked.radices, asked.has_missing)
    n_rows, n_bad = tally.add_parts(parts(_coded(frame, asked)))
    return OutOfCore(tally.cells(), n_rows, n_bad)


def _coded(frame: nw.LazyFrame[Any], asked: Asked) -> nw.LazyFrame[Any]:
    return frame.select(*(code.alias(f"c{j}") for j, code in enumerate(asked.codes)))
