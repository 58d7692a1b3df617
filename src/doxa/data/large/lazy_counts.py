"""Blocks of columns of a lazy frame counted together, in the way that costs its engine least.

- Engines of this process (Polars; Ibis on DuckDB, DataFusion or Polars) hand over codes some rows at a time, and tables
  of all possible cells are filled here: every further block costs a nanosecond a row.
- Dask fills such tables on each partition where it is, see `doxa.data.large.lazy_dask`.
- Spark does so in Python workers, see `doxa.data.large.lazy_engine`.
- Others (Ibis on a server) group the rows by one block after the other.  All blocks in one query, each row becoming a
  short row for each block, took DuckDB and Spark as long or longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data.large.engine import Cells

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["Asked", "OutOfCore", "count_here", "streaming"]

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
