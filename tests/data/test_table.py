"""The Table itself: codes, counts, the index of the rows, and what is refused at construction."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from doxa.data import Table
from doxa.data.table import group_rows
from doxa.errors import ArgumentError, TableError


def rain(codes=((0, 0), (1, 1), (0, 0), (1, -1)), counts=None):
    return Table.from_codes(["rain", "wet"], [["no", "yes"], ["dry", "damp", "wet"]], codes, counts)


def test_identical_rows_are_one_row_with_a_count():
    table = rain()
    assert table.codes.tolist() == [[0, 0], [1, 1], [1, -1]]
    assert table.counts.tolist() == [2, 1, 1]
    assert table.row_index.tolist() == [0, 1, 0, 2]
    assert (table.n_rows, table.n_distinct, table.n_columns, table.n_missing) == (4, 3, 2, 1)
    assert table.missing_by_column == {"wet": 1}
    assert table.n_states.tolist() == [2, 3]


def test_the_arrays_have_the_promised_types_and_cannot_be_written():
    table = rain()
    assert (table.codes.dtype, table.counts.dtype, table.row_index.dtype) == (np.int16, np.int64, np.int32)
    assert table.n_states.dtype == np.int64
    assert table.codes.flags.c_contiguous
    for array in (table.codes, table.counts, table.row_index):
        assert not array.flags.writeable
    with pytest.raises(AttributeError):
        table.names = ("a", "b")


def test_counts_count_for_missing_cells_and_rows_of_count_zero_are_no_rows():
    table = rain([[0, -1], [1, 1], [0, -1], [1, 2]], [3, 2, 4, 0])
    assert table.codes.tolist() == [[0, -1], [1, 1]]
    assert table.counts.tolist() == [7, 2]
    assert table.row_index.tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 0]
    assert table.n_missing == 7
    assert rain(np.empty((0, 2), dtype=int)).n_rows == 0


def test_the_source_is_copied():
    codes = np.array([[0, 0], [1, 1]])
    table = rain(codes)
    codes[0, 0] = 1
    assert table.codes.tolist() == [[0, 0], [1, 1]]


def test_repr():
    assert repr(rain()) == "Table(4 rows (3 distinct) x 2 columns, 1 missing cell)"
    one = Table.from_codes(["a"], [["x"]], [[0]])
    assert repr(one) == "Table(1 row (1 distinct) x 1 column, no missing cells)"
    assert repr(rain([[-1, -1]])) == "Table(1 row (1 distinct) x 2 columns, 2 missing cells)"


def test_the_digest_depends_on_the_content_and_on_nothing_else():
    assert rain().digest == rain(np.array([[0, 0], [1, 1], [1, -1]], dtype=np.int8), [2, 1, 1]).digest
    assert len(rain().digest) == 64
    others = [
        rain(counts=[1, 1, 1, 2]),
        rain([[0, 0], [1, 1], [0, 0], [1, 0]]),
        Table.from_codes(["rain", "Wet"], rain().states, rain().codes, rain().counts),
        Table.from_codes(["rain", "wet"], [["no", "yes"], ["dry", "damp", "w"]], rain().codes, rain().counts),
    ]
    assert len({rain().digest, *(other.digest for other in others)}) == 5
    # names and states are kept apart: shifting a letter between them is another content
    left, right = Table.from_codes(["ab"], [["c"]], [[0]]), Table.from_codes(["a"], [["bc"]], [[0]])
    assert left.digest != right.digest


def test_the_digest_is_the_same_tomorrow():
    assert Table.from_codes(["a"], [["x", "y"]], [[0], [1], [0]]).digest == (
        "49504515324ba47a0484b6129d80e05a20eb4c544dad767eedcda173035576d6"
    )


def test_a_table_can_be_pickled():
    copy = pickle.loads(pickle.dumps(rain()))
    assert copy.digest == rain().digest
    assert copy.row_index.tolist() == rain().row_index.tolist()


def test_select_collapses_again_and_keeps_the_rows():
    table = rain([[0, 0], [1, 1], [0, 1], [1, -1]])
    chosen = table.select(["rain"])
    assert chosen.names == ("rain",)
    assert chosen.counts.tolist() == [2, 2]
    assert chosen.row_index.tolist() == [0, 1, 0, 1]
    swapped = table.select(["wet", "rain"])
    assert swapped.names == ("wet", "rain")
    assert swapped.states == (table.states[1], table.states[0])
    assert swapped.codes[swapped.row_index].tolist() == [[0, 0], [1, 1], [1, 0], [-1, 1]]
    with pytest.raises(ArgumentError) as raised:
        table.select(["rian"])
    assert str(raised.value) == (
        "columns names 'rian', which is no column; did you mean 'rain'? (there are: 'rain', 'wet')"
    )


BAD = [
    (([], [], np.empty((1, 0), int)), "names is empty; a table has at least one column"),
    ((["a"], [], [[0]]), "states has 0 entries and names has 1; give the states of every column"),
    ((["a", ""], [["x"], ["y"]], [[0, 0]]), "names[1] is ''; a column's name is a text that is not empty"),
    ((["a", 3], [["x"], ["y"]], [[0, 0]]), "names[1] is 3; a column's name is a text that is not empty"),
    ((["a", "a"], [["x"], ["y"]], [[0, 0]]), "names[1] is 'a' again; names must differ"),
    ((["a"], [[]], [[0]]), "column 'a' has no states and numbers is not given; give one of them"),
    ((["a"], [["x", 1]], [[0]]), "column 'a' has the state 1; labels of states are text"),
    ((["a"], [["x", "x"]], [[0]]), "column 'a' has two states of one label; labels must differ"),
    ((["a"], [["x"]], [0]), "codes has shape (1,); it must be (rows, 1), a column for every name"),
    ((["a"], [["x"]], [[0, 0]]), "codes has shape (1, 2); it must be (rows, 1), a column for every name"),
    ((["a"], [["x"]], [[0.0]]), "codes has dtype float64; codes are integers"),
    (
        (["a"], [["x", "y"]], [[0], [2]]),
        "codes[1, 0] is 2, and column 'a' has 2 states; codes are 0 to 1, or -1 for missing",
    ),
    (
        (["a"], [["x", "y"]], [[0], [-2]]),
        "codes[1, 0] is -2, and column 'a' has 2 states; codes are 0 to 1, or -1 for missing",
    ),
    (
        (["a"], [["x"]], np.array([[2**63 + 1]], dtype=np.uint64)),
        "codes[0, 0] is 9223372036854775809, and column 'a' has 1 states; codes are 0 to 0, or -1 for missing",
    ),
    ((["a"], [["x"]], [[0]], [1, 2]), "counts has shape (2,); it must be (1,), a count for every row of codes"),
    ((["a"], [["x"]], [[0]], [1.5]), "counts has dtype float64; counts are integers"),
    ((["a"], [["x"]], [[0]], [-1]), "counts[0] is -1; a count is not negative"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_what_is_refused(arguments, message):
    with pytest.raises(TableError) as raised:
        Table.from_codes(*arguments)
    assert str(raised.value) == message


matrices = hnp.arrays(
    np.int16,
    st.tuples(st.integers(1, 40), st.integers(1, 6)),
    elements=st.integers(-1, 2),
)


@given(matrices)
def test_collapsing_keeps_every_row_and_the_order_of_first_occurrence(codes):
    labels = [["x", "y", "z"]] * codes.shape[1]
    table = Table.from_codes([f"v{j}" for j in range(codes.shape[1])], labels, codes)
    assert np.array_equal(table.codes[table.row_index], codes)
    assert table.counts.tolist() == np.bincount(table.row_index).tolist()
    assert list(map(tuple, table.codes.tolist())) == list(dict.fromkeys(map(tuple, codes.tolist())))


@pytest.mark.parametrize("n_columns", [1, 5, 40])
def test_keys_that_would_overflow_are_ranked_on_the_way(n_columns):
    rng = np.random.default_rng(n_columns)
    patterns = rng.integers(-1, 30_000, size=(50, n_columns)).astype(np.int16)
    patterns[25:, :-1] = patterns[:25, :-1]  # pairs that differ in the last column only
    codes = patterns[rng.integers(0, 50, size=400)]
    first, row_index = group_rows(list(codes.T), 400)
    assert np.array_equal(codes[first][row_index], codes)
    assert first.size == len({tuple(row) for row in codes.tolist()})
    assert np.all(np.diff(first) > 0)


def test_a_difference_that_an_overflow_would_push_out_is_seen():
    codes = np.full((3, 6), 32_766, dtype=np.int16)  # each column after the first is a digit of 15 bits
    codes[1, 0] -= 2_048
    first, row_index = group_rows(list(codes.T), 3)
    assert (first.tolist(), row_index.tolist()) == ([0, 1], [0, 1, 0])
