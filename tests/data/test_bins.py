"""Quantile bins: of equal size where they can be, labelled by what they hold."""

import logging

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.data import read_table
from doxa.data.coding import cut
from doxa.errors import TableError


def test_labels_and_codes():
    labels, codes = cut("age", np.array([18.0, 25.0, np.nan, 40.0, 71.0]), 2)
    assert labels == ("[18, 40)", "[40, 71]")
    assert codes.tolist() == [0, 0, -1, 1, 1]
    assert codes.dtype == np.int16
    assert cut("x", np.array([0.1, 0.25, 2.0, 1e20]), 2)[0] == ("[0.1, 2)", "[2, 1e+20]")


def test_labels_have_the_digits_that_tell_edges_apart():
    near = 1.0 + np.array([1, 2, 3, 4]) * 1e-12
    assert cut("x", near, 2)[0] == ("[1.000000000001, 1.000000000003)", "[1.000000000003, 1.000000000004]")


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60), st.integers(2, 8))
def test_every_bin_holds_a_row_and_every_row_its_interval(values, n_bins):
    numbers = np.array(values)
    try:
        labels, codes = cut("x", numbers, n_bins)
    except TableError:
        # only when the smallest value fills the whole of the range between the quantiles
        assert np.mean(numbers == numbers.min()) > 1 - 1 / n_bins - 1 / numbers.size
        return
    assert 2 <= len(labels) <= n_bins
    assert set(codes.tolist()) == set(range(len(labels)))
    for code in range(len(labels) - 1):
        assert numbers[codes == code].max() < numbers[codes == code + 1].min()


@given(st.integers(2, 9), st.integers(1, 7), st.randoms(use_true_random=False))
def test_bins_of_different_values_are_of_equal_size(n_bins, size, random):
    values = [float(value) for value in range(n_bins * size)]
    random.shuffle(values)
    _, codes = cut("x", np.array(values), n_bins)
    assert np.bincount(codes).tolist() == [size] * n_bins


def test_different_values_are_cut_as_by_ordinary_quantiles():
    numbers = np.random.default_rng(5).lognormal(size=997)
    _, codes = cut("x", numbers, 7)
    assert np.array_equal(codes, np.searchsorted(np.quantile(numbers, np.arange(1, 7) / 7), numbers, side="right"))


def test_quantiles_that_coincide_are_reported(caplog):
    with caplog.at_level(logging.INFO, logger="doxa"):
        labels, codes = cut("visits", np.array([0.0] * 6 + [1.0, 2.0, 3.0, 4.0]), 4)
    assert labels == ("[0, 2)", "[2, 4]")
    assert codes.tolist() == [0] * 7 + [1] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "column 'visits' is cut into 2 bins, not 4: some of its quantiles coincide"
    ]


def test_one_bin_is_refused():
    with pytest.raises(TableError) as raised:
        cut("visits", np.array([0.0] * 9 + [1.0]), 4)
    assert str(raised.value) == (
        "column 'visits' cannot be cut into 4 bins: its quantiles are all 0, which leaves one bin; "
        "ask for more bins, or leave it out by naming the others with columns=[...] or --columns"
    )


FRAME = pd.DataFrame({"age": range(30), "dose": np.arange(30) / 4, "few": [1, 2, 3] * 10, "sex": ["f", "m"] * 15})


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_one_number_cuts_the_columns_that_would_be_refused(tmp_path, form):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    FRAME.to_parquet(tmp_path / "t.parquet")
    table = read_table({"frame": FRAME}.get(form, tmp_path / f"t.{form}"), bins=3)
    assert table.states == (
        ("[0, 10)", "[10, 20)", "[20, 29]"),
        ("[0, 2.5)", "[2.5, 5)", "[5, 7.25]"),
        ("1", "2", "3"),
        ("f", "m"),
    )
    assert table.codes[table.row_index][:, 0].tolist() == [0] * 10 + [1] * 10 + [2] * 10
    table = read_table({"frame": FRAME}.get(form, tmp_path / f"t.{form}"), bins={"age": 2, "dose": 3, "few": 2})
    assert table.n_states.tolist() == [2, 3, 2, 2]
    assert table.states[2] == ("[1, 2)", "[2, 3]")


def test_a_column_not_named_in_bins_holds_numbers():
    table = read_table(FRAME, bins={"age": 2})
    assert table.is_number.tolist() == [False, True, False, False]
    assert sorted(table.numbers[:, 1]) == sorted(FRAME["dose"])


def test_missing_numbers_stay_missing(tmp_path):
    cells = ["", "NA", "-9", *(f"{i}.5" for i in range(40))]
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{cell},c\n" for cell in cells))
    assert read_table(tmp_path / "t.csv", bins=2, missing=["NA", "-9"]).missing_by_column == {"x": 3}
    table = read_table(pd.DataFrame({"x": [None, -9, *np.arange(40.5)]}), bins=2, missing="-9")
    assert table.missing_by_column == {"x": 2}
    assert table.states == (("[0, 20)", "[20, 40]"),)


@pytest.mark.parametrize("text", ["inf", "-Infinity", "1e999"])
def test_infinite_numbers_in_a_text_are_refused(tmp_path, text):
    (tmp_path / "t.csv").write_text(f"x,y\n0.5,a\n{text},b\n")
    with pytest.raises(TableError) as raised:
        read_table(tmp_path / "t.csv", bins=2)
    assert str(raised.value) == (
        "column 'x' contains a number that is infinite or too large for a float; "
        "write missing cells as empty, or leave it out by naming the others with columns=[...] or --columns"
    )


def test_integers_too_long_for_a_machine_word_can_be_cut(tmp_path):
    (tmp_path / "t.csv").write_text("x\n" + "".join(f"{i}{'0' * 39}\n" for i in range(1, 41)))
    assert read_table(tmp_path / "t.csv", bins=2).states == (("[1e+39, 2.1e+40)", "[2.1e+40, 4e+40]"),)
