"""One content, five sources, one table; and what each type of column becomes."""

import decimal
import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doxa.data import read_table
from doxa.data.options import MISSING

words = st.sampled_from(["yes", "no", "a b", "é", "x,y", 'q"', "10", "9", " ", "-"])
text = st.one_of(words, words, st.none())
number = st.one_of(st.integers(-3, 3), st.none())


def rows_of(table):
    labels = [(*states, None) for states in table.states]
    return [[labels[j][code] for j, code in enumerate(row)] for row in table.codes[table.row_index].tolist()]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(text, text, number, st.booleans()), min_size=1, max_size=12))
def test_one_content_five_sources(tmp_path, rows):
    rows = [("yes", "w", 1, True), *rows]  # no column all missing, the first two not numbers in a CSV
    columns = {
        name: list(values) for name, values in zip(["t u", "T U", "n", "b"], zip(*rows, strict=True), strict=True)
    }
    arrow = pa.table(columns)
    pq.write_table(arrow, tmp_path / "t.parquet")
    pandas = pd.DataFrame({**columns, "n": pd.array(columns["n"], dtype="Int64")})
    pandas.to_csv(tmp_path / "t.csv", index=False)
    pandas_with_floats = pd.DataFrame({**columns, "n": np.array([np.nan if n is None else n for n in columns["n"]])})
    sources = [arrow, pl.DataFrame(columns), pandas, pandas_with_floats, tmp_path / "t.csv", tmp_path / "t.parquet"]
    found = [read_table(source) for source in sources]
    assert len({table.digest for table in found}) == 1
    assert all(np.array_equal(table.row_index, found[0].row_index) for table in found)
    assert rows_of(found[0]) == [[t, u, None if n is None else str(n), str(b)] for t, u, n, b in rows]


def test_integers_are_sorted_by_size_and_texts_are_not():
    for frame in (pd.DataFrame, pl.DataFrame, pa.table):
        table = read_table(frame({"n": [10, 9, -1], "t": ["10", "9", "-1"]}))
        assert table.states == (("-1", "9", "10"), ("-1", "10", "9"))


def test_large_integers_beside_missing_cells_are_not_rounded(tmp_path):
    values = [2**60 + 1, None, 2**60]
    arrow = pa.table({"n": values})
    pq.write_table(arrow, tmp_path / "t.parquet")
    for source in (arrow, pl.DataFrame({"n": values}), pd.DataFrame({"n": pd.array(values, dtype="Int64")})):
        assert rows_of(read_table(source)) == [["1152921504606846977"], [None], ["1152921504606846976"]]
    assert rows_of(read_table(tmp_path / "t.parquet")) == [["1152921504606846977"], [None], ["1152921504606846976"]]


def test_floats_without_fraction_are_integers(tmp_path):
    assert read_table(pd.DataFrame({"n": [2.0, np.nan, 10.0]})).states == (("2", "10"),)
    assert rows_of(read_table(pl.DataFrame({"n": [2.0, float("nan"), None]}))) == [["2"], [None], [None]]
    exact = [decimal.Decimal("2.00"), None, decimal.Decimal("10.00")]
    for source in (pl.DataFrame({"n": exact}), pa.table({"n": exact})):
        assert read_table(source).states == (("2", "10"),)
    pq.write_table(pa.table({"n": exact, "f": [1.0, float("nan"), None]}), tmp_path / "t.parquet")
    assert rows_of(read_table(tmp_path / "t.parquet")) == [["2", "1"], [None, None], ["10", None]]


def test_pandas_categoricals_keep_their_order_and_the_categories_that_never_occur():
    values = ["mid", None, "low"]
    frame = pd.DataFrame(
        {"c": pd.Categorical(values, ["low", "mid", "high"]), "o": pd.Categorical(values, ["mid", "low"])}
    )
    frame["o"] = frame["o"].cat.as_ordered()
    for source in (frame, pa.Table.from_pandas(frame, preserve_index=False)):
        table = read_table(source)
        assert table.states == (("low", "mid", "high"), ("mid", "low"))
        assert table.codes[table.row_index].tolist() == [[1, 0], [-1, -1], [0, 1]]


def test_other_categoricals():
    assert read_table(pd.DataFrame({"c": pd.cut([1, 2, 3, 4], 2)})).states == (("(0.997, 2.5]", "(2.5, 4.0]"),)
    assert read_table(pd.DataFrame({"c": pd.Categorical([3, 1], [3, 2, 1])})).states == (("3", "2", "1"),)
    enum = pl.Series(["b", None, "b"], dtype=pl.Enum(["b", "a"]))
    pool = pl.Series(["b", "a", None], dtype=pl.Categorical)  # polars keeps one pool of categories for all columns
    assert read_table(pl.DataFrame({"e": enum, "p": pool})).states == (("b", "a"), ("a", "b"))
    chunks = [pa.array(["b", "a"]).dictionary_encode(), pa.array([None, "c"]).dictionary_encode()]
    table = read_table(pa.table({"d": pa.chunked_array(chunks)}))
    assert (table.states, rows_of(table)) == ((("b", "a", "c"),), [["b"], ["a"], [None], ["c"]])


def test_booleans_of_any_make():
    values = [True, None, False]
    sources = [
        pd.DataFrame({"b": pd.array(values, dtype="boolean")}),
        pd.DataFrame({"b": np.array(values, dtype=object)}),
        pl.DataFrame({"b": values}),
        pa.table({"b": values}),
    ]
    for source in sources:
        table = read_table(source)
        assert (table.states, rows_of(table)) == ((("False", "True"),), [["True"], [None], ["False"]])
    assert read_table(pl.DataFrame({"b": [True]})).states == (("True",),)  # the states seen


def test_python_objects_of_one_type():
    frame = pd.DataFrame({"n": np.array([10, None, 9], dtype=object), "t": np.array(["u", None, "v"], dtype=object)})
    assert read_table(frame).states == (("9", "10"), ("u", "v"))
    assert read_table(pd.DataFrame({"n": np.array([1.5, 2], dtype=object)}), bins=2).n_states.tolist() == [2]


def test_the_tokens_are_missing_in_frames_too(tmp_path):
    values = ["", *MISSING[1:], "x", "na"]
    arrow = pa.table({"t": values, "c": pa.array(values).dictionary_encode()})
    pq.write_table(arrow, tmp_path / "t.parquet")
    frame = pd.DataFrame({"t": values, "c": pd.Categorical(values)})
    for source in (arrow, frame, pl.DataFrame({"t": values, "c": values}), tmp_path / "t.parquet"):
        assert rows_of(read_table(source)) == [*([[None, None]] * 5), ["x", "x"], ["na", "na"]]
        assert rows_of(read_table(source, missing=[])) == [[value, value] for value in values]
        assert read_table(source, missing=["x", "na"]).n_missing == 4
    assert read_table(frame).states[1] == ("na", "x")  # a category that means missing is no state


@pytest.mark.parametrize("token", ["-9", ["-9"], ["-9.0", "zz"]])
def test_tokens_that_are_numbers_mean_numbers_in_typed_columns(tmp_path, token):
    columns = {"n": [-9, 1, 2], "f": [-9.0, 1.0, 2.0]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    for source in (pd.DataFrame(columns), pl.DataFrame(columns), tmp_path / "t.parquet"):
        table = read_table(source, missing=token)
        assert (table.states, table.n_missing) == ((("1", "2"), ("1", "2")), 2)


def test_columns_are_read_in_the_order_asked(tmp_path):
    frame = pd.DataFrame({"a": ["x"], "age": [0.5], "b": ["y"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (frame, pl.from_pandas(frame), tmp_path / "t.csv", str(tmp_path / "t.parquet")):
        table = read_table(source, columns=("b", "a"))
        assert (table.names, table.states) == (("b", "a"), (("y",), ("x",)))


def test_a_table_is_returned_as_it_is():
    table = read_table(pd.DataFrame({"a": ["x"], "b": ["y"]}))
    assert read_table(table) is table
    assert read_table(table, columns=["b"]).names == ("b",)


def test_parquet_of_duckdb_and_odd_file_names(tmp_path):
    folder = tmp_path / "year=2020"
    folder.mkdir()
    (tmp_path / "ab.parquet").write_bytes(b"wrong")
    path = folder / "[a]*'?.parquet"
    with duckdb.connect() as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
        connection.execute(
            "COPY (SELECT 'sad'::mood AS mood, true AS yes, 7::UTINYINT AS n UNION ALL "
            f"SELECT 'happy'::mood, NULL, NULL) TO '{tmp_path / 'm.parquet'}'"
        )
    (tmp_path / "m.parquet").rename(path)
    table = read_table(path)
    assert table.names == ("mood", "yes", "n")
    assert rows_of(table) == [["sad", "True", "7"], ["happy", None, None]]
    assert table.states[0] == ("happy", "sad")  # Parquet keeps no order of categories


def run(program):
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_room_imports_nothing_heavy():
    heavy = "duckdb", "pandas", "narwhals", "numba", "scipy", "polars", "pyarrow"
    assert run(f"import sys, doxa.data; print([name for name in {heavy} if name in sys.modules])") == "[]\n"


def test_polars_and_pyarrow_are_not_needed(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\nx,1\ny,\n")
    pd.DataFrame({"a": ["x", "y"], "b": [1, None]}).to_parquet(tmp_path / "t.parquet")
    program = f"""
import sys
sys.modules["pyarrow"] = sys.modules["polars"] = None
from doxa.data import read_table
import pandas as pd
frame = pd.DataFrame({{"a": ["x", "y"], "b": [1, None]}})
print({{read_table(source).digest for source in ({str(tmp_path / "t.csv")!r}, {str(tmp_path / "t.parquet")!r}, frame)}})
"""
    digest = read_table(tmp_path / "t.csv").digest
    assert run(program) == f"{{{digest!r}}}\n"


def test_pyarrow_is_not_needed_for_polars():
    program = """
import sys
sys.modules["pyarrow"] = None
from doxa.data import read_table
import polars as pl
enum, pool = (pl.Series(["v", None], dtype=kind) for kind in (pl.Enum(["v", "u"]), pl.Categorical))
frame = pl.DataFrame({"t": ["x", None], "b": [True, None], "n": [1, None], "f": [1.5, None], "e": enum, "p": pool})
print(read_table(frame, columns=["t", "b", "n", "e", "p"]).states)
"""
    assert run(program) == "(('x',), ('True',), ('1',), ('v', 'u'), ('v',))\n"
