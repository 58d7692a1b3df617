"""No value is merged, renamed or retyped: objects of any type, exact numbers, and what a token means."""

import decimal
from enum import StrEnum

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from doxa.data import Table, read_table
from doxa.data.coding import EmptyColumnsError
from doxa.errors import ArgumentError, TableError
from support.refusals import LEAVE_OUT, NO_CATEGORIES

D = decimal.Decimal


def rows_of(table):
    labels = [(*states, None) for states in table.states]
    rows = [[labels[j][code] for j, code in enumerate(row)] for row in table.codes[table.row_index].tolist()]
    return [row[0] for row in rows]


def objects(values):
    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        column[i] = value
    return pd.DataFrame({"x": pd.Series(column, dtype=object)})


def refusal(source, kind=TableError, **options):
    with pytest.raises(kind) as raised:
        read_table(source, **options)
    assert type(raised.value) in (kind, EmptyColumnsError)
    return str(raised.value)


def mixes(types):
    return f"column 'x' mixes {types}; make its values of one type (text: .astype(str)), or {LEAVE_OUT}"


class Colour(StrEnum):
    RED = "red"


# Narwhals looks at the first hundred rows of a column of objects.
LATE = {
    "booleans and numbers": ([None] * 100 + [True, 1, 1.0, False, 0], mixes("bool and float and int")),
    "texts and numbers": (["a", "b"] * 60 + [5, 5], mixes("int and str")),
    "times": ([None] * 100 + [pd.Timestamp("2020")], f"column 'x' is of type Timestamp, which {NO_CATEGORIES}"),
}


@pytest.mark.parametrize(("values", "message"), LATE.values(), ids=LATE.keys())
def test_objects_are_looked_at_to_the_last_row(values, message):
    assert refusal(objects(values)) == message


def test_numbers_after_a_hundred_missing_cells_are_numbers():
    table = read_table(objects([None] * 150 + [3, 1, 2]))
    assert (table.states, rows_of(table)[149:]) == ((("1", "2", "3"),), [None, "3", "1", "2"])
    frame = objects([None] * 100 + [1.5, 2.5, -9.0])
    numbers = read_table(frame, missing=["-9"]).numbers
    assert np.array_equal(np.unique(numbers), [1.5, 2.5, np.nan], equal_nan=True)
    assert read_table(frame, missing=["-9"], bins=2).missing_by_column == {"x": 101}


@pytest.mark.parametrize("red", [np.str_("red"), Colour.RED])
def test_labels_and_names_are_plain_texts(red):
    frame = objects([red, "red", "blue"])
    frame.columns = pd.Index([red], dtype=object)
    sources = [
        read_table(frame),
        read_table(frame, columns=["red"]),
        read_table(pd.DataFrame({"red": pd.Categorical([red, "red", "blue"], ["blue", red])})),
        Table.from_codes([red], [["blue", red]], [[1], [1], [0]]),
    ]
    for table in sources:
        assert (table.names, table.states, table.counts.tolist()) == (("red",), (("blue", "red"),), [2, 1])
        assert {type(text) for text in (*table.names, *table.states[0])} == {str}
    assert read_table(pd.DataFrame({"t": pd.array([np.str_("u")], dtype="string[python]")})).states == (("u",),)


def test_texts_are_not_cut_at_a_nul():
    assert read_table(objects(["a", "a\0", None, "a\0\0"])).states == (("a", "a\0", "a\0\0"),)


def test_a_table_holds_no_label_of_another_type():
    from doxa.data.table import collapsed

    with pytest.raises(AssertionError):
        collapsed(("a",), ((np.str_("x"),),), [np.zeros(1, dtype=np.int16)])


def test_nat_is_missing_and_does_not_change_what_the_rest_is():
    assert rows_of(read_table(objects(["u", pd.NaT, "v"]))) == ["u", None, "v"]
    assert rows_of(read_table(objects([1, pd.NaT, 2]))) == ["1", None, "2"]
    assert refusal(objects([pd.NaT, None])).startswith("column 'x': every cell is missing")
    assert refusal(objects([pd.NaT, pd.Timestamp("2020")])) == f"column 'x' is of type Timestamp, which {NO_CATEGORIES}"


LARGE = 12345678901234567890


def decimals(values, kind):
    arrow = pa.table({"x": pa.array(values, kind)})
    return [arrow, pd.DataFrame({"x": pd.array(values, dtype=pd.ArrowDtype(kind))}), objects(values)]


@pytest.mark.parametrize("scale", [0, 2])
def test_large_decimals_are_not_rounded(tmp_path, scale):
    values = [D(LARGE), D(LARGE + 1), None, D(-LARGE)]
    kind = pa.decimal128(38, scale)
    sources = decimals(values, kind)
    pq.write_table(sources[0], tmp_path / "t.parquet")
    for source in (
        *sources,
        pl.DataFrame({"x": pl.Series(values, dtype=pl.Decimal(38, scale))}),
        tmp_path / "t.parquet",
    ):
        table = read_table(source)
        assert rows_of(table) == [str(LARGE), str(LARGE + 1), None, str(-LARGE)]
        assert table.states == ((str(-LARGE), str(LARGE), str(LARGE + 1)),)
        assert read_table(source, missing=[f"{LARGE}.0"]).states == ((str(-LARGE), str(LARGE + 1)),)
        assert read_table(source, missing=[f"{LARGE}.001", "1e30", "inf", "1e99999999999999999999"]).n_missing == 1


def test_decimals_of_any_width():
    value = D("12345678901234567890123456789012345678901234567890")
    wide = pa.array([value, D(int(value) + 1), None], pa.decimal256(60, 2))
    assert rows_of(read_table(pa.table({"x": wide}))) == [str(value), str(int(value) + 1), None]
    assert rows_of(read_table(objects([D("1E+3"), D("-0.0"), D("NaN"), 1000]))) == ["1000", "0", None, "1000"]


@pytest.mark.parametrize(("precision", "scale"), [(4, 2), (2, 2), (38, 38)])
def test_fractions_in_parquet(tmp_path, precision, scale):
    values = [D("0.50"), D("-0.5"), D(0), D("0.05"), None]
    pq.write_table(pa.table({"x": pa.array(values, pa.decimal128(precision, scale))}), tmp_path / "t.parquet")
    numbers = read_table(tmp_path / "t.parquet").numbers
    assert np.array_equal(numbers.ravel(), [0.5, -0.5, 0.0, 0.05, np.nan], equal_nan=True)
    table = read_table(tmp_path / "t.parquet", bins=2)
    assert (table.states, table.n_missing) == ((("[-0.5, 0.05)", "[0.05, 0.5]"),), 1)
    left = read_table(tmp_path / "t.parquet", missing=["0.5", "-.500", "5e-2"])
    assert (left.states, left.n_missing) == ((("0",),), 4)


def test_many_decimals_in_parquet(tmp_path):
    values = pa.array([D(i) / 4 for i in range(4000)], pa.decimal128(12, 2))
    pq.write_table(pa.table({"x": values, "n": pa.array(range(4000), pa.decimal128(12, 0))}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", numbers=["n"]).numbers[5].tolist() == [1.25, 5.0]
    assert read_table(tmp_path / "t.parquet", bins={"x": 2, "n": 2}).states == (
        ("[0, 500)", "[500, 999.75]"),
        ("[0, 2000)", "[2000, 3999]"),
    )


def test_decimals_that_duckdb_would_round_are_refused(tmp_path):
    wide = pa.array([D("12345678901234567890123456789012345678901234.5")], pa.decimal256(60, 2))
    pq.write_table(pa.table({"s": [{"a": 1.0}], "x": wide, "y": ["u"]}), tmp_path / "t.parquet")
    assert refusal(tmp_path / "t.parquet", columns=["y", "x"]) == (
        "column 'x' is a decimal of more than 38 digits, which DuckDB would round; "
        f"store it with fewer digits, or {LEAVE_OUT}"
    )
    assert read_table(tmp_path / "t.parquet", columns=["y"]).states == (("u",),)


def test_integers_beside_floats_are_not_rounded():
    assert read_table(objects([2**60 + 1, 2**60, 2.0, np.int64(2), np.float32(2), None])).states == (
        ("2", str(2**60), str(2**60 + 1)),
    )
    huge = 10**5000
    assert read_table(objects([huge, huge + 1])).n_states.tolist() == [2]
    assert refusal(objects([huge, 1]), bins={"x": 2}).startswith(
        "column 'x' contains a number in row 1 that is infinite or too large for a float; "
    )
    assert refusal(objects([D("1E+999999999"), 1])).startswith(
        "column 'x' contains a number in row 1 that is infinite or too"
    )
    assert refusal(objects([float("inf"), 1])).startswith(
        "column 'x' contains a number in row 1 that is infinite or too"
    )


def test_objects_can_be_cut():
    table = read_table(objects([1, 2.5, D("3.5"), None, 4, float("nan")]), bins=2)
    assert (table.states, rows_of(table)[3:]) == ((("[1, 3.5)", "[3.5, 4]"),), [None, "[3.5, 4]", None])


@pytest.mark.parametrize("kind", ["int64", "uint64", "Int64", "int64[pyarrow]", object])
def test_tokens_are_compared_with_integers_exactly(kind):
    frame = pd.DataFrame({"x": pd.Series([2**53, 2**53 + 1], dtype=kind)})
    assert rows_of(read_table(frame, missing=["9007199254740992"])) == [None, "9007199254740993"]
    assert rows_of(read_table(frame, missing=["9007199254740993.0"])) == ["9007199254740992", None]
    assert read_table(frame, missing=["9007199254740992.5", "1e400", "-inf", "1e-400", "-1"]).n_missing == 0


@pytest.mark.parametrize("kind", ["float32", "float64", "Float64", "float16", object])
def test_tokens_are_compared_with_floats_as_they_are_written(kind):
    values = [-9.1, 2.0, 3.0] if kind is not object else [-9.1, np.float64(2), 3]
    frame = pd.DataFrame({"x": pd.Series(values, dtype=kind)})
    assert rows_of(read_table(frame, missing=["-9.1"])) == [None, "2", "3"]
    assert rows_of(read_table(frame, missing=["-9.1", "2.0e0", "1e400"])) == [None, None, "3"]
    large = pd.DataFrame({"x": pd.Series([2.0**53, 1.0], dtype="float64")})
    assert read_table(large, missing=["9007199254740993"]).n_missing == 0


def test_an_infinite_number_can_be_said_to_be_missing():
    for frame in (pd.DataFrame({"x": [1.0, np.inf]}), objects([1, float("inf")])):
        assert rows_of(read_table(frame, missing=["inf"])) == ["1", None]
        assert "infinite" in refusal(frame, missing=["-inf", "1e999"])


def test_tokens_that_are_numbers_mean_categories_that_are_numbers():
    dictionary = pa.array([-9.0, 1.5, None]).dictionary_encode()
    for source in (pd.DataFrame({"x": pd.Categorical([-9.0, 1.5, None])}), pa.table({"x": dictionary})):
        table = read_table(source, missing=["-9"])
        assert (table.states, rows_of(table)) == ((("1.5",),), [None, "1.5", None])
        assert read_table(source, missing=[]).states == (("-9.0", "1.5"),)
    texts = pd.DataFrame({"x": pd.Categorical(["-9.0", "-9"])})
    assert read_table(texts, missing=["-9"]).states == (("-9.0",),)  # texts are compared as texts
    assert read_table(pd.DataFrame({"x": pd.Categorical([True, False])}), missing=["1"]).n_missing == 0


def test_a_null_in_an_arrow_dictionary_is_missing():
    one = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["x", None]))
    two = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.uint8()), pa.array([None, "y", "x"]))
    assert rows_of(read_table(pa.table({"d": one}))) == ["x", None, None, "x"]
    table = read_table(pa.table({"d": pa.chunked_array([one[1:], two.cast(one.type)])}))
    assert (table.states, rows_of(table)) == ((("x", "y"),), [None, None, "x", None, "y", "x"])
    assert rows_of(read_table(pa.table({"d": two}))) == [None, "y", "x"]
    nan = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), pa.array([2.5, float("nan")]))
    assert (read_table(pa.table({"d": nan})).states, rows_of(read_table(pa.table({"d": nan})))) == (
        (("2.5",),),
        ["2.5", None, None],
    )
    twice = pa.DictionaryArray.from_arrays(pa.array([1, 0, 2]), pa.array(["x", "x", "y"]))
    assert rows_of(read_table(pa.table({"d": twice}))) == ["x", "x", "y"]  # one value, held twice by the dictionary


def test_an_arrow_dictionary_in_a_frame_of_pandas():
    values = pd.array(["b", None, "a", "b"], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    frame = pd.DataFrame({"d": values})
    assert (read_table(frame).states, rows_of(read_table(frame))) == ((("b", "a"),), ["b", None, "a", "b"])
    assert rows_of(read_table(frame[2:])) == ["a", "b"]


def test_an_arrow_dictionary_of_lists_is_refused():
    lists = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[1]]))
    message = refusal(pa.table({"d": lists}))
    assert message == f"column 'd' is of type {lists.type}, which {NO_CATEGORIES}"


@pytest.mark.parametrize("kind", ["Int128", "UInt128"])
def test_integers_of_128_bits(kind):
    if not hasattr(pl, kind):
        pytest.skip(f"this Polars has no {kind}")
    frame = pl.DataFrame({"x": pl.Series([2**100 + 1, None, 2**100, 7], dtype=getattr(pl, kind))})
    assert rows_of(read_table(frame)) == [str(2**100 + 1), None, str(2**100), "7"]
    assert rows_of(read_table(frame, missing=["7", str(2**100)])) == [str(2**100 + 1), None, None, None]
    assert read_table(frame, bins={"x": 2}).n_states.tolist() == [2]


def test_other_objects():
    assert read_table(pl.DataFrame({"x": pl.Series(["u", None, "v"], dtype=pl.Object)})).states == (("u", "v"),)
    assert refusal(objects([b"x", None])) == f"column 'x' is of type bytes, which {NO_CATEGORIES}"
    assert refusal(objects([1j])) == f"column 'x' is of type complex, which {NO_CATEGORIES}"
    assert rows_of(read_table(pd.DataFrame({"x": pd.arrays.SparseArray([np.nan, 0, 1])}))) == [None, "0", "1"]


HOSTILE = ["x,y", 'a"', "a\nb", "\r", '"x"', ' "x', "\ud800", "\0", "it's", ","]


@pytest.mark.parametrize("token", [token for token in HOSTILE if token != 'a"'])
def test_tokens_that_no_unquoted_cell_can_be(tmp_path, token):
    cells = ["x,y", "a\nb", "\r", '"x"', ' "x', ",", "z"]
    quoted = ['"' + cell.replace('"', '""') + '"' for cell in cells]
    (tmp_path / "t.csv").write_bytes(("a,b\n" + "".join(f"{cell},NA\n" for cell in [*quoted, "w"])).encode())
    assert rows_of(read_table(tmp_path / "t.csv", columns=["a"], missing=[token, "w"])) == [*cells, None]


def test_tokens_of_all_kinds_in_frames_and_parquet(tmp_path):
    values = [token for token in HOSTILE if token != "\ud800"] + ["z"]
    frame = pd.DataFrame({"a": values})
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (frame, tmp_path / "t.parquet"):
        assert rows_of(read_table(source, missing=HOSTILE)) == [None] * (len(values) - 1) + ["z"]


def test_a_token_that_the_reader_cannot_compare_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text('a\n5" pipe\n')
    assert refusal(tmp_path / "t.csv", ArgumentError, missing=['5" pipe']) == (
        "missing contains '5\" pipe'; a text with a quote in it cannot be compared with the cells of a delimited "
        "text: write another one in those cells, or give the table as a frame"
    )
    (tmp_path / "t.tsv").write_text("a\tb\nx,y\tu\nv\tw\n")
    assert rows_of(read_table(tmp_path / "t.tsv", missing=["x,y", "\t"])) == [None, "v"]
