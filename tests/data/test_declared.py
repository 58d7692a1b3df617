"""Columns that an analysis declares: indicators of missing cells, hidden columns."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.data import Table
from doxa.data.declared import own_absence, with_hidden, with_indicators
from doxa.errors import ArgumentError, ArgumentTypeError

BINARY = ("no", "yes")
TABLE = Table.from_codes(["a", "b", "c"], [BINARY] * 3, [[0, -1, 1], [1, 0, -1], [0, -1, 1], [-1, 1, 0]])


def test_an_indicator_says_where_a_cell_is_missing():
    made = with_indicators(TABLE, ["c", "a"])
    assert made.names == ("a", "b", "c", "c is missing", "a is missing")
    assert made.states[3:] == (BINARY, BINARY)
    rows = made.codes[made.row_index]
    np.testing.assert_array_equal(rows[:, :3], TABLE.codes[TABLE.row_index])
    np.testing.assert_array_equal(rows[:, 3:], (rows[:, [2, 0]] < 0).astype(int))
    assert made.n_rows == TABLE.n_rows
    assert made.digest != TABLE.digest
    assert made.n_missing == TABLE.n_missing


def test_a_hidden_column_is_missing_everywhere():
    made = with_hidden(TABLE, {"h": 3, "g": 2})
    assert made.names[3:] == ("h", "g")
    assert made.states[3:] == (("0", "1", "2"), ("0", "1"))
    assert (made.codes[:, 3:] == -1).all()
    assert made.n_missing == TABLE.n_missing + 8
    assert not made.codes.flags.writeable


def test_an_empty_column_gets_the_states_that_are_declared():
    table = Table.from_codes(["a", "h"], [BINARY, ("x",)], [[0, -1], [1, -1]])
    made = with_hidden(table, {"h": 4})
    assert made.names == table.names
    assert made.states[1] == ("0", "1", "2", "3")


def test_nothing_declared_changes_nothing():
    assert with_hidden(TABLE, {}).digest == with_indicators(TABLE, []).digest == TABLE.digest


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["d"], "indicator names 'd', which is not a column; there are: 'a', 'b', 'c'"),
        (["a", "a"], "indicator names 'a' twice"),
        ("a", "indicator is 'a'; give names of columns in a list"),
        ([3], "indicator holds 3; a column's name is a text"),
    ],
)
def test_indicators_refused(names, message):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        with_indicators(TABLE, names)


def test_indicators_of_full_and_empty_columns_are_refused():
    table = Table.from_codes(["a", "b", "b is missing"], [BINARY] * 3, [[0, -1, 1], [1, -1, 0], [1, 0, 0]])
    with pytest.raises(ArgumentError, match="'a', which has no missing cell"):
        with_indicators(table, ["a"])
    with pytest.raises(ArgumentError, match="would add the column 'b is missing', and there is one"):
        with_indicators(table, ["b"])
    empty = Table.from_codes(["a", "b"], [BINARY] * 2, [[0, -1], [1, -1]])
    with pytest.raises(ArgumentError, match="'b', which is missing in every row"):
        with_indicators(empty, ["b"])


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        ({"a": 2}, "hidden names 'a', a column that has values"),
        ({"h": 1}, r"hidden\['h'\] is 1; a hidden column has 2 to 1000 states"),
        ({"h": 2.0}, r"hidden\['h'\] is 2.0; it must be a whole number of states"),
        (["h"], r"hidden is \['h'\]; it maps names to numbers of states"),
    ],
)
def test_hidden_refused(hidden, message):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        with_hidden(TABLE, hidden)


def test_the_edges_of_own_absence_join_what_the_indicators_are_called():
    made = with_indicators(TABLE, ["c", "a"])
    edges = own_absence(["c", "a"])
    assert edges == [("c", "c is missing"), ("c is missing", "c"), ("a", "a is missing"), ("a is missing", "a")]
    assert {name for edge in edges for name in edge} <= set(made.names)
    assert own_absence([]) == []
