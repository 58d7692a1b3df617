"""What a source that is counted where it lives must be able to do, and what it hands over.

An engine (`doxa.data.large.duck_engine`, `doxa.data.large.lazy_engine`) knows its columns by position.  It is asked in
this order: `describe` once, `set_codings` once, then `group` as often as wanted; each is a few passes over the source.

What went wrong in an engine that is not ours, in words that name the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import Column
from doxa.errors import DoxaError

_MAX_SAID = 300  # characters of what an engine says


class SourceError(DoxaError, RuntimeError):
    """A source failed or changed while it was counted; asking again goes on from what was kept."""


@contextmanager
def failures(label: str, doing: str) -> Iterator[None]:
    """Turn whatever an engine raises into a `SourceError`; our own exceptions pass."""
    try:
        yield
    except DoxaError:
        raise
    except Exception as error:  # engines raise what they like: duckdb.Error, polars' own, OSError from a cluster
        lines = [line for line in str(error).splitlines() if line.strip()]
        words = " ".join(lines[:2])[:_MAX_SAID]
        raise SourceError(f"{label} failed while {doing}: {type(error).__name__}: {words}") from error


def changed(label: str, what: str) -> SourceError:
    """Say that a source is not what it was when it was opened."""
    return SourceError(f"{label} changed while it was counted: {what}; open it again when nothing writes to it")


MANY_VALUES = 4096  # a column with more distinct values is no category, and they are not fetched to find that out


@dataclass(frozen=True)
class Seen:
    """A column after the first passes, ``column`` by its distinct values; no ``codes()`` where they are too many to
    fetch.
    """

    column: Column
    n_present: int  # cells that are not missing
    n_each: NDArray[np.int64] | None = None  # cells of each value of ``column.codes()``, if these were fetched
    ranked: Callable[[Sequence[int]], NDArray[np.float64]] | None = (
        None  # the k-th smallest cells of a column of numbers
    )


class Coding(NamedTuple):
    """How the cells of a column become codes: value by value, or by the cuts between bins."""

    states: tuple[str, ...]
    codes: NDArray[np.int16]  # of the distinct values, as the column was described
    cuts: NDArray[np.float64] | None  # bins: the code is the number of cuts that are not above the cell


class Groups(NamedTuple):
    """The distinct rows of some columns."""

    codes: NDArray[np.int16]  # (n_groups, n_columns of the block), -1 is missing
    counts: NDArray[np.int64]  # (n_groups,)
    first: NDArray[np.int64] | None  # where each occurs first, if the source has an order


class Cells(NamedTuple):
    """How many rows each possible cell of some columns has."""

    table: NDArray[np.int64]  # (n_cells,), the last column fastest
    radices: NDArray[np.int64]  # (n_columns of the block,), a missing cell being a value of a column that has any
    has_missing: NDArray[np.bool_]  # whether the first value of a column is a missing cell


class Moments(NamedTuple):
    """Numbers in each configuration of some columns of categories, shifted and divided by a power of 2."""

    codes: NDArray[np.int16]  # (n_groups, n_categories), none of them missing
    counts: NDArray[np.int64]  # (n_groups,)
    means: NDArray[np.float64]  # (n_groups, n_numbers)
    products: NDArray[np.float64]  # (n_groups, n_numbers, n_numbers): centred sums of products


class Engine(Protocol):
    """A source that groups its rows itself."""

    label: str  # how messages name it: "source 'x.parquet'"
    names: tuple[str, ...]
    n_rows: int
    has_order: bool
    cells_a_block: int  # possible cells of a block of which most sets are counted in the least time
    cells_a_pass: int  # and of all blocks of a pass: what fits memory, and what a failure may lose

    def describe(self) -> list[Seen]:
        """Go over the source: the number of rows, and the values of every column."""

    def set_codings(self, codings: Sequence[Coding]) -> None:
        """Say how cells become codes in `group`."""

    def group(self, blocks: Sequence[tuple[int, ...]], most: int) -> list[Groups | None]:
        """Group the rows by each of several blocks of columns, in one pass if the engine can.

        None in place of a block that has more than ``most`` groups.
        """

    def count_blocks(self, blocks: Sequence[tuple[int, ...]], most: int) -> Sequence[Groups | Cells | None]:
        """As `group`, but where groups occur first may be left out, and cells that do not occur be there."""

    def extremes(self, numbers: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the largest number of some columns without missing cells."""

    def moments(
        self,
        categories: tuple[int, ...],
        numbers: tuple[int, ...],
        origin: NDArray[np.float64],
        power: NDArray[np.int64],
        most: int,
    ) -> Moments | None:
        """Moments of (x - origin) / 2^power of columns of numbers; None where there are more than ``most`` groups."""

    def is_spread(self, most: int) -> bool:
        """Whether there are clearly more distinct rows than ``most``: an estimate, to save a pass that would fail."""

    def close(self) -> None:
        """Let go of files and connections that are the engine's own."""


def unseen(codes: NDArray[Any]) -> bool:
    """Whether some code marks a value that was not there when the columns were described."""
    return bool((codes < -1).any())


def rank(values: NDArray[np.float64], counts: NDArray[np.int64], ranks: Sequence[int]) -> NDArray[np.float64]:
    """Return the k-th smallest, from 0, of values that occur ``counts`` times."""
    order = np.argsort(values)
    ends = np.cumsum(counts[order])
    found: NDArray[np.float64] = values[order][np.searchsorted(ends, ranks, side="right")]
    return found
