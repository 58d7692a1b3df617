"""Bad frames and bad options: each is refused with one message, given here in full but for what several share."""

import io
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from support.refusals import IDENTIFIER, LEAVE_OUT, NO_CATEGORIES, NO_STATES, refusal

FRAMES = {
    "no rows": (pd.DataFrame({"a": []}), "source has columns but no rows"),
    "no columns": (pd.DataFrame(), "source has no columns"),
    "same names": (
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        "source has the columns 'a' more than once; names of columns must differ",
    ),
    "same names in Arrow": (
        pa.table([[1], [2]], names=["x", "x"]),
        "source has the columns 'x' more than once; names of columns must differ",
    ),
    "numbers for names": (
        pd.DataFrame([[1, 2]]),
        "source: the name of column 1 is 0, of type int; names are text: frame.columns = frame.columns.astype(str)",
    ),
    "nameless column": (pl.DataFrame({"a": [1], "": [2]}), "source: column 2 of 2 has no name; give it one"),
    "all missing": (pl.DataFrame({"a": [None, None]}), f"column 'a': {NO_STATES}"),
    "all missing categories": (pd.DataFrame({"a": pd.Categorical([None], ["x"])}), f"column 'a': {NO_STATES}"),
    "mixed": (
        pd.DataFrame({"a": np.array([1, "x"], dtype=object)}),
        f"column 'a' mixes int and str; make its values of one type (text: .astype(str)), or {LEAVE_OUT}",
    ),
    "booleans and numbers": (
        pd.DataFrame({"a": np.array([1, True], dtype=object)}),
        f"column 'a' mixes bool and int; make its values of one type (text: .astype(str)), or {LEAVE_OUT}",
    ),
    "dates": (pl.DataFrame({"a": [date(2020, 1, 1)]}), f"column 'a' is of type Date, which {NO_CATEGORIES}"),
    "lists": (pl.DataFrame({"a": [[1]]}), f"column 'a' is of type List(Int64), which {NO_CATEGORIES}"),
    "objects": (
        pd.DataFrame({"a": np.array([{1}, None], dtype=object)}),
        f"column 'a' is of type set, which {NO_CATEGORIES}",
    ),
    "categories written alike": (
        pd.DataFrame({"a": pd.Categorical([1, "1"])}),
        "column 'a' has two categories that are written alike; rename one of them",
    ),
    "infinite": (
        pd.DataFrame({"a": [1.0, float("-inf")]}),
        "column 'a' contains a number in row 2 that is infinite or too large for a float; "
        f"write missing cells as empty, or {LEAVE_OUT}",
    ),
    "identifier": (
        pd.DataFrame({"id": [f"r{i}" for i in range(1001)]}),
        f"column 'id' has 1001 distinct values, and {IDENTIFIER}",
    ),
    "too many categories": (
        pd.DataFrame({"id": pd.Categorical(["0"], [str(i) for i in range(1001)])}),
        f"column 'id' has 1001 distinct values, and {IDENTIFIER}",
    ),
}


@pytest.mark.parametrize(("frame", "message"), FRAMES.values(), ids=FRAMES.keys())
def test_frames(frame, message):
    assert refusal(TableError, frame) == message


THINGS = [
    (None, "source is None; give a path, a Table, or a frame of pandas, Polars or PyArrow"),
    ({"a": [1]}, "source is a dict; give a path, a Table, or a frame of pandas, Polars or PyArrow"),
    (np.eye(2), "source is a ndarray; give a path, a Table, or a frame of pandas, Polars or PyArrow"),
    (io.StringIO("a"), "source is a StringIO; give a path, a Table, or a frame of pandas, Polars or PyArrow"),
    (pd.Series([1]), "source is a Series; give a path, a Table, or a frame of pandas, Polars or PyArrow"),
]


@pytest.mark.parametrize(("source", "message"), THINGS, ids=[message[:24] for _, message in THINGS])
def test_things_that_are_no_tables(source, message):
    assert refusal(ArgumentTypeError, source) == message


FRAME = pd.DataFrame({"smoke": ["yes", "no"], "age": [1, 2]})
OPTIONS = [
    (
        {"columns": ["smokes"]},
        ArgumentError,
        "columns names 'smokes', which is no column; did you mean 'smoke'? (there are: 'smoke', 'age')",
    ),
    ({"columns": ["zzz"]}, ArgumentError, "columns names 'zzz', which is no column; there are: 'smoke', 'age'"),
    ({"columns": ["age", "age"]}, ArgumentError, "columns names 'age' twice"),
    ({"columns": []}, ArgumentError, "columns is empty; name at least one column, or leave columns out to read all"),
    ({"columns": "age"}, ArgumentTypeError, "columns is 'age'; give a list of names: columns=['age']"),
    ({"columns": [0]}, ArgumentTypeError, "columns[0] is 0; columns are chosen by name"),
    (
        {"missing": -9},
        ArgumentTypeError,
        "missing is -9; give a text or a list of texts (a number as it is written: missing=['-9'])",
    ),
    ({"missing": [-9]}, ArgumentTypeError, "missing contains -9; its entries are texts: write '-9'"),
    ({"bins": 1}, ArgumentError, "bins is 1; a column is cut into 2 to 1000 bins"),
    (
        {"bins": "4"},
        ArgumentTypeError,
        "bins is '4'; give a number of quantile bins (4), cuts ([18.5, 25, 30]), 'uniform:4' for equal widths or "
        "'supervised:COLUMN', or one for each column ({'age': 4})",
    ),
    (
        {"bins": True},
        ArgumentTypeError,
        "bins is True; give a number of quantile bins (4), cuts ([18.5, 25, 30]), 'uniform:4' for equal widths or "
        "'supervised:COLUMN', or one for each column ({'age': 4})",
    ),
    ({"bins": {"age": 1001}}, ArgumentError, "bins['age'] is 1001; a column is cut into 2 to 1000 bins"),
    (
        {"bins": {"agee": 2}},
        ArgumentError,
        "bins names 'agee', which is no column that is read; did you mean 'age'? (there are: 'smoke', 'age')",
    ),
    (
        {"bins": {"age": 2}, "columns": ["smoke"]},
        ArgumentError,
        "bins names 'age', which is no column that is read; there are: 'smoke'",
    ),
    (
        {"bins": {"smoke": 2}},
        TableError,
        "bins names 'smoke', whose values are not numbers; only numbers can be cut into bins",
    ),
]


@pytest.mark.parametrize(("options", "kind", "message"), OPTIONS, ids=[message[:36] for *_, message in OPTIONS])
@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_options(tmp_path, form, options, kind, message):
    source = FRAME
    if form == "csv":
        source = tmp_path / "t.csv"
        FRAME.to_csv(source, index=False)
    elif form == "parquet":
        source = tmp_path / "t.parquet"
        FRAME.to_parquet(source)
    assert refusal(kind, source, **options) == message


def test_many_names_are_not_all_listed():
    frame = pd.DataFrame({f"v{i}": ["x"] for i in range(12)})
    listed = ", ".join(repr(f"v{i}") for i in range(10))
    assert refusal(ArgumentError, frame, columns=["zzz"]) == (
        f"columns names 'zzz', which is no column; there are: {listed} and 2 more"
    )


def test_a_table_is_already_coded():
    table = Table.from_codes(["a"], [["x"]], [[0]])
    for option in ({"bins": 2}, {"missing": []}):
        message = f"{next(iter(option))} is given and source is a Table, whose cells are already coded"
        assert refusal(ArgumentError, table, **option) == message
