"""Binary data for the latent trait model: what a table or an array means, and its distinct rows.

Rows are collapsed, and sorted by their cells, so that neither their order nor how often a row was written down rather
than counted changes any digit of a fit.  Missing cells stay missing: they have no share in a row's likelihood.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.data import Table, read_table
from doxa.data.table import check_categories, group_rows
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.models.logistic_rows import binary_codes

__all__ = ["BinaryRows", "Coding", "code_rows", "opened"]


class BinaryRows(NamedTuple):
    """Distinct rows of binary data, as the equations use them."""

    half: NDArray[np.float64]  # (rows, p), S - 1/2: +-1/2, and 0 where missing
    seen: NDArray[np.float64]  # (rows, p), 1 where observed, else 0
    counts: NDArray[np.float64]  # (rows,), cases that each row stands for


class Coding(NamedTuple):
    """What the columns are called and which labels of a table mean 0 and 1."""

    names: tuple[str, ...]
    labels: tuple[Mapping[str, int], ...] | None  # None: the data were an array of 0 and 1


def opened(data: Any) -> Any:
    """Read frames and paths as a Table; Tables and arrays are returned as they are."""
    if not isinstance(data, Table) and (isinstance(data, str | os.PathLike) or hasattr(data, "columns")):
        return read_table(data)
    return data


def code_rows(
    data: Any, counts: ArrayLike | None = None, coding: Coding | None = None
) -> tuple[BinaryRows, NDArray[np.intp], Coding]:
    """Read binary data and put equal rows together."""
    data = opened(data)
    if isinstance(data, Table):
        if counts is not None:
            raise ArgumentError("counts is given and data is a table, which has counts of its own")
        codes, coding = _table_codes(data, coding)
        times, source = data.counts.astype(np.float64), np.asarray(data.row_index, dtype=np.intp)
    else:
        codes = _array_codes(data, coding)
        times, source = _counts(counts, len(codes)), np.arange(len(codes))
        coding = coding or Coding(tuple(f"x{j}" for j in range(codes.shape[1])), None)
    if source.size == 0:
        raise ArgumentError("data has no rows; at least one is needed")
    first, group = group_rows(list(codes.T.astype(np.int16)), len(codes))
    distinct = codes[first]
    order = np.lexsort(distinct.T[::-1])
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    distinct, group = distinct[order], rank[group]
    seen = (distinct >= 0).astype(np.float64)
    half = np.where(distinct >= 0, distinct - 0.5, 0.0)
    counts_of = np.asarray(np.bincount(group, times, minlength=order.size), dtype=np.float64)
    rows = BinaryRows(half, seen, counts_of)
    return rows, group[source], coding


def _table_codes(table: Table, coding: Coding | None) -> tuple[NDArray[np.int8], Coding]:
    check_categories(table, "a latent trait model")
    if coding is None:
        for name, states in zip(table.names, table.states, strict=True):
            if len(states) > 2:
                raise TableError(
                    f"column {name!r} has {len(states)} states; the latent trait model takes columns of two: merge "
                    f"states, read numbers with bins={{{name!r}: 2}}, or leave the column out (Table.select)"
                )
        codes = binary_codes(table, table.names)
        # a state that occurs nowhere is the other one
        ones = [{int(c) for c in codes[:, j] if c >= 0} == {1} for j in range(table.n_columns)]
        labels = tuple(
            {label: k for k, label in enumerate(states)} if len(states) == 2 else {states[0]: int(one)}
            for states, one in zip(table.states, ones, strict=True)
        )
        return codes, Coding(table.names, labels)
    absent = [name for name in coding.names if name not in table.names]
    if absent:
        raise TableError(f"data has no column {absent[0]!r}, which the model was fitted to")
    codes = np.full((table.n_distinct, len(coding.names)), -1, dtype=np.int8)
    labels_known = coding.labels or ({"0": 0, "1": 1},) * len(coding.names)
    for j, (name, known) in enumerate(zip(coding.names, labels_known, strict=True)):
        position = table.names.index(name)
        for k, label in enumerate(table.states[position]):
            where = table.codes[:, position] == k
            if where.any() and label not in known:
                raise TableError(f"column {name!r} has the state {label!r}; the model was fitted to {sorted(known)}")
            codes[where, j] = known.get(label, -1)
    return codes, coding


def _array_codes(data: Any, coding: Coding | None) -> NDArray[np.int8]:
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ArgumentError(f"data is not a rectangular array of numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        raise ArgumentTypeError(
            f"data holds values of type {array.dtype}; an array holds 0, 1, and NaN or -1 for missing "
            "(doxa.read_table codes texts)"
        )
    if array.ndim != 2 or array.shape[1] == 0:
        raise ArgumentError(f"data has shape {array.shape}; it must be (rows, columns), with at least one column")
    if coding is not None and array.shape[1] != len(coding.names):
        raise ArgumentError(f"data has {array.shape[1]} columns; the model was fitted to {len(coding.names)}")
    array = array.astype(np.float64)
    missing = np.isnan(array) | (array == -1)
    wrong = np.argwhere(~(missing | (array == 0) | (array == 1)))
    if len(wrong):
        i, j = (int(place) for place in wrong[0])
        raise ArgumentError(f"data[{i}, {j}] is {array[i, j]:g}; cells are 0, 1, and NaN or -1 for missing")
    if (array == -1).any() and not (array == 0).any() and coding is None:
        raise ArgumentError(
            "data holds -1 and no 0, and -1 means missing; if these are spins, (data + 1) / 2 turns them into 0 and 1, "
            "and if no cell is 0, write the missing ones as NaN"
        )
    return np.where(missing, -1, array).astype(np.int8)


def _counts(counts: ArrayLike | None, n_rows: int) -> NDArray[np.float64]:
    if counts is None:
        return np.ones(n_rows)
    try:
        times = np.asarray(counts, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError("counts does not hold numbers; it must hold one for each row of data") from None
    if times.shape != (n_rows,):
        raise ArgumentError(f"counts has shape {times.shape}; it must be ({n_rows},), one for each row of data")
    wrong = np.flatnonzero(~(np.isfinite(times) & (times >= 0)))
    if wrong.size:
        raise ArgumentError(f"counts[{wrong[0]}] is {times[wrong[0]]:g}; counts must be finite and not negative")
    if not times.any():
        raise ArgumentError("counts are all 0; at least one row must have been seen")
    return times
