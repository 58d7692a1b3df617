"""`read_table`: one door for files and for frames of any make, which are read through Narwhals, lazy ones too."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from doxa.data.coding import NumbersCountedError, Reading, code_table
from doxa.data.duck import is_large
from doxa.data.options import Among, check_missing, check_opens, is_parquet
from doxa.data.series import frame_names, series_column
from doxa.data.table import Table
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.text import a_kind

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["read_frame", "read_table", "read_without_empty", "without_empty"]


def read_frame(source: Any, reading: Reading) -> Table:
    """Read a frame, a lazy one by counting it where it lives."""
    import narwhals.stable.v2 as nw

    frame = _wrapped(source)
    if isinstance(frame, nw.LazyFrame):
        try:
            return _counted(frame, reading)
        except NumbersCountedError as error:
            frame, reading = _held(frame, reading, error), replace(reading, drop=None)  # which is left out by now
    all_names = frame_names(list(frame.columns))
    chosen, n_bins = reading.choose(all_names)
    if not len(frame):
        raise TableError("source has columns but no rows")
    own_names = frame.columns  # as the frame spells them, an np.str_ perhaps
    described = [series_column(frame[own_names[j]], all_names[j], reading.missing) for j in chosen]
    return code_table(described, n_bins, reading, len(frame))


def _counted(frame: nw.LazyFrame[Any], reading: Reading) -> Table:
    """The table of a lazy frame of categories, its rows counted where they are."""
    from doxa.data.large.opening import open_lazy

    try:
        reading.refuse_where_counted()
    except ArgumentError as error:
        raise NumbersCountedError(str(error)) from error
    columns = reading.columns
    if reading.drop is not None or isinstance(columns, Among):
        all_names = list(frame.collect_schema().names())
        columns = [all_names[j] for j in reading.choose(all_names)[0]]
    with open_lazy(frame, columns, reading.missing, reading.bins) as counted:
        return counted.table()


def _held(frame: nw.LazyFrame[Any], reading: Reading, error: NumbersCountedError) -> nw.DataFrame[Any]:
    """The rows of a lazy frame that cannot be counted where they are, in memory; or the error, if they are too many."""
    import narwhals.stable.v2 as nw

    from doxa.data.large.engine import failures

    label = f"source (a lazy frame of {frame.implementation.value})"
    with failures(label, "its rows were counted"):
        n_rows = int(frame.select(n=nw.len()).collect()["n"][0])
    all_names = list(frame.collect_schema().names())
    chosen = [all_names[j] for j in reading.choose(all_names)[0]]
    if is_large(n_rows, len(chosen)):
        raise TableError(f"{error}; of fewer rows than these {n_rows:,}, numbers would be held in memory") from error
    own = frame.implementation.is_polars() or frame.implementation.is_dask()
    with failures(label, "its rows were read"):
        return frame.select(*chosen).collect(backend=None if own else "pandas")


def _wrapped(source: Any) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
    """Wrap a frame, or say what to give instead."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame: nw.DataFrame[Any] | nw.LazyFrame[Any] = nw.from_native(source)
    except DuplicateError:
        names = [str(name) for name in getattr(source, "column_names", None) or source.columns]
        repeated = ", ".join(repr(name) for name in dict.fromkeys(names) if names.count(name) > 1)
        raise TableError(f"source has the columns {repeated} more than once; names of columns must differ") from None
    except TypeError:
        raise ArgumentTypeError(
            f"source is {a_kind(source)}; give a path, a Table, or a frame of pandas, Polars or PyArrow"
        ) from None
    return frame


Read = TypeVar("Read")


def read_table(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    missing: str | Sequence[str] | None = None,
    bins: int | str | Mapping[str, int | str | Sequence[float]] | None = None,
    drop: Sequence[str] | None = None,
    numbers: Sequence[str] | None = None,
    categories: Sequence[str] | None = None,
    counts: str | None = None,
    transform: Mapping[str, str] | None = None,
) -> Table:
    r"""Read a table of categories and numbers from a file or a frame.

    No row, column, name or value is left out, renamed or retyped in silence: what cannot be read as
    it stands is refused by name.

    Parameters
    ----------
    source : str, path, frame or Table
        A delimited text (``.csv``, ``.tsv``, ``.tab``, ``.txt``, also with ``.gz``; UTF-8, with a header), a
        Parquet file (``.parquet``, ``.pq``), a frame that Narwhals knows (pandas, Polars, PyArrow), or something lazy:
        a relation of DuckDB (``connection.sql(...)``) or a lazy frame of Polars, Dask, PySpark or Ibis.  A pandas
        index is not a column.  A Table is returned as it is.
    columns : sequence of str, optional
        Names of the columns to read, in the order wanted; all of them by default.
    missing : str or sequence of str, optional
        Texts that mean missing, in place of the default ``["", "NA", "NaN", "null", "?"]``; ``[]`` for none.
        They are matched exactly.  In a delimited text only an *unquoted* cell is compared, so that
        ``"NA"`` in quotes is a value, and so is ``""``, the empty text; an empty unquoted cell is always
        missing.  In a frame or Parquet file, texts and categories are compared, and numbers with the
        tokens that are numbers (categories that are numbers too); its own nulls and NaN are always missing.
    bins : int, str or mapping of str to int, str or sequence of float, optional
        How to cut columns of numbers into bins: one rule for all the columns that would hold numbers, or one for each
        column named.  A whole number is a number of quantile bins, ``"uniform:4"`` asks for bins of equal width,
        ``[18.5, 25, 30]`` are cuts (of one column), and ``"supervised:COLUMN"`` cuts where it tells most of a column
        of categories.  Bins are labelled by their intervals, ``[18, 40)``; a value that many rows share has one of
        its own.  `Table.cuts` remembers the cuts.
    drop : sequence of str, optional
        Names of columns to leave out.
    numbers, categories : sequence of str, optional
        Columns that hold numbers although they have few values, and that hold categories although they have many.
    counts : str, optional
        The column that says how often each row occurs: whole numbers, 0 or more.  It is no column of the table.
    transform : mapping of str to str, optional
        Scales on which columns of numbers are learned from: ``"log"``, ``"log1p"``, ``"logit"``, or
        ``"normal scores"``, the normal quantiles of their ranks.  The table holds the numbers as they are, and answers
        are in their unit.

    Returns
    -------
    Table
        Codes, states and counts of the distinct rows.

    Raises
    ------
    FileError
        If the file cannot be opened.
    TableError
        If the table cannot be read as it stands; the message names the line or the column, and the way out.
    SourceError
        If a lazy source fails, or a source changes while it is counted (`doxa.data.large`).
    ArgumentError, ArgumentTypeError
        If an option is wrong.

    Notes
    -----
    Lazy sources of categories, and files of more than 2**24 rows or 2**29 cells, are counted where they are: a few
    passes group equal rows, and no more than the distinct rows are ever held here.  Such a table has the same states
    and counts, but does not know the order of its rows (``table.has_row_order`` is False).  Where even the distinct
    rows are too many, `doxa.data.large.open_source` counts families.  A lazy source that holds numbers is read into
    memory, up to that size.

    Categories are: texts, sorted as Python sorts them; booleans; categoricals of pandas and PyArrow and
    Polars Enums, in their own order and with the categories that never occur; and integers of at most 20
    distinct values, by size.  Integers may be stored as floats without fraction, as pandas does beside missing
    cells.  The cells of a delimited text are integers or numbers if all that are present are written so;
    labels stay as written, and a column with both ``1`` and ``01`` is text.  Decimal commas are read where cells are
    separated by something else, and the log says so.  Any other numeric column
    holds numbers, unless it is cut into ``bins``.  A category has at most 1000 states.

    Left out, with a line in the log, are columns that look like identifiers or free text: more than 20 different texts,
    other ones in nine of ten rows (in half of them, if they are 30 characters long); whole numbers, all different, that
    count the rows or are called ``id``, ``index``, ``key`` or the like.  A column that ``columns``, ``numbers``,
    ``categories`` or ``bins`` names is kept, and so are all of a table that has no others.

    The delimiter is a tab in ``.tsv`` and ``.tab``.  Elsewhere it is the one of comma, semicolon, tab and
    vertical bar that occurs in the header outside quotes; if several do, the one which splits header and first
    row into equally many cells, if only one does.  If none occurs, the table has one column; only there
    is a blank line a row (its cell is missing).

    Examples
    --------
    >>> import pandas as pd
    >>> table = read_table(pd.DataFrame({"smokes": ["yes", "no", "yes", None], "children": [2, 0, 2, 1]}))
    >>> table
    Table(4 rows (3 distinct) x 2 columns, 1 missing cell)
    >>> table.states
    (('no', 'yes'), ('0', '1', '2'))
    >>> ages = pd.DataFrame({"age": [x + 0.5 for x in range(20, 60)]})
    >>> read_table(ages, bins=2).states
    (('[20.5, 40.5)', '[40.5, 59.5]'),)
    """
    options = {"columns": columns, "missing": missing, "bins": bins, "drop": drop, "numbers": numbers}
    return _read(source, (), **options, categories=categories, counts=counts, transform=transform)


def _read(source: Any, known: Collection[str], *, missing: Any = None, **options: Any) -> Table:
    if isinstance(source, Table):
        return _from_table(source, missing=missing, **options)
    reading = Reading(missing=check_missing(missing), known=frozenset(known), **options)
    if isinstance(source, str | os.PathLike):
        return _from_file(Path(source), reading)
    return read_frame(source, reading)


def read_without_empty(
    source: Any, allowed: Collection[str] | None = None, known: Collection[str] = (), **options: Any
) -> Table:
    """`read_table`, which leaves out columns without a value (those allowed) instead of refusing them.

    Columns that are ``known`` are never taken for identifiers.
    """
    return without_empty(partial(_read, source, known), allowed, options)


def without_empty(read: Callable[..., Read], allowed: Collection[str] | None, options: dict[str, Any]) -> Read:
    """What a reader returns for these options of `read_table`, columns without a value left out, if that is allowed."""
    from doxa.data.coding import EmptyColumnsError

    try:
        return read(**options)
    except EmptyColumnsError as error:
        left = [name for name in error.names if name not in error.empty]
        if not left or (allowed is not None and not set(error.empty) <= set(allowed)):
            raise
        return read(**{**options, "columns": left})


def _from_table(table: Table, columns: Any = None, drop: Any = None, **given: Any) -> Table:
    for option, value in given.items():
        if value is not None:
            raise ArgumentError(f"{option} is given and source is a Table, whose cells are already coded")
    chosen, _ = Reading(columns, drop=drop).choose(table.names)
    return table if columns is None and drop is None else table.select([table.names[j] for j in chosen])


def _from_file(path: Path, reading: Reading) -> Table:
    check_opens(path)
    if is_parquet(path):
        from doxa.data.parquet import read_parquet

        return read_parquet(path, reading)
    from doxa.data.layout import read_text

    return read_text(path, reading)
