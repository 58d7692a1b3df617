"""Bins: quantiles of equal size where they can be, equal widths, cuts of the user's own, and cuts for a class."""

import logging
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.data import read_table
from doxa.data.bins import Binning, codes_of_numbers, find_cuts, informative_cuts, rank_in
from doxa.errors import ArgumentError, ArgumentTypeError, TableError


def cut(name, numbers, n_bins, method="quantiles"):
    found = find_cuts(name, Binning(method, n_bins), *rank_in(numbers))
    return found.labels, codes_of_numbers(found.cuts, numbers)


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
@given(st.lists(st.floats(-1e6, 1e6) | st.sampled_from([-1.0, 0.0, 7.0]), min_size=2, max_size=60), st.integers(2, 8))
def test_every_bin_holds_a_row_and_every_row_its_interval(values, n_bins):
    numbers = np.array(values)
    labels, codes = cut("x", numbers, n_bins)
    assert 1 <= len(labels) <= n_bins
    assert (len(labels) == 1) == (numbers.min() == numbers.max())
    assert set(codes.tolist()) == set(range(len(labels)))
    for code in range(len(labels) - 1):
        assert numbers[codes == code].max() < numbers[codes == code + 1].min()
    for code, label in enumerate(labels):
        assert label[0] in "[(" or len(set(numbers[codes == code].tolist())) == 1


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


def test_a_repeated_value_has_a_bin_of_its_own_and_the_others_share_the_rest(caplog):
    numbers = np.array([0.0] * 12 + [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, np.nan])
    with caplog.at_level(logging.INFO, logger="doxa"):
        labels, codes = cut("visits", numbers, 4)
    assert labels == ("0", "(0, 3)", "[3, 5)", "[5, 6]")
    assert codes.tolist() == [0] * 12 + [1, 1, 2, 2, 3, 3, -1]
    assert [record.getMessage() for record in caplog.records] == [
        "column 'visits' is cut into 4 bins; 0 has one of its own, for many rows hold it"
    ]
    cuts = find_cuts("visits", Binning("quantiles", 4), *rank_in(numbers)).cuts
    assert codes_of_numbers(cuts, np.array([-1.0, 0.0, 1e-300, 0.5, 9.0])).tolist() == [0, 0, 1, 1, 3]


@pytest.mark.parametrize(
    ("numbers", "labels"),
    [
        ([1, 2, 3, 9, 9, 9, 9, 9, 9], ("[1, 2)", "[2, 9)", "9")),  # at the upper end
        ([1, 2, 5, 5, 5, 5, 5, 8, 9], ("[1, 5)", "5", "(5, 9]")),  # in the middle
        ([0, 0, 0, 0, 7, 7, 7, 7], ("[0, 7)", "7")),  # two of them, and no others
    ],
)
def test_where_repeated_values_stand(numbers, labels):
    found, codes = cut("x", np.array(numbers, dtype=float), 3)
    assert found == labels
    assert set(codes.tolist()) == set(range(len(labels)))


def test_quantiles_that_coincide_by_chance_are_reported(caplog):
    with caplog.at_level(logging.INFO, logger="doxa"):
        labels, _ = cut("x", np.array([1.0, 2.0]), 3)
    assert labels == ("[1, 2)", "[2, 2]")
    assert len(caplog.records) == 1


def test_a_column_of_one_value_has_one_bin(caplog):
    with caplog.at_level(logging.INFO, logger="doxa"):
        assert cut("k", np.full(9, 3.5), 4)[0] == ("3.5",)
    assert [record.getMessage() for record in caplog.records] == ["column 'k' has one bin: all its values are 3.5"]


def test_equal_widths():
    labels, codes = cut("x", np.array([0.0, 1.0, 2.5, 5.0, 10.0]), 4, "uniform")
    assert labels == ("[0, 2.5)", "[2.5, 5)", "[5, 7.5)", "[7.5, 10]")
    assert codes.tolist() == [0, 0, 1, 2, 3]
    assert cut("x", np.array([-1.5e308, 0.0, 1.5e308]), 3, "uniform")[1].tolist() == [0, 1, 2]


def test_cuts_of_ones_own():
    frame = pd.DataFrame({"bmi": [17.0, 18.5, 24.9, 25.0, 31.5, None]})
    table = read_table(frame, bins={"bmi": [18.5, 25, 30, 40]})
    assert table.states == (("< 18.5", "[18.5, 25)", "[25, 30)", "[30, 40)", ">= 40"),)
    assert table.codes[table.row_index][:, 0].tolist() == [0, 1, 1, 2, 3, -1]
    assert table.cuts == {"bmi": (18.5, 25.0, 30.0, 40.0)}
    assert table.measured["bmi"][:5].tolist() == frame["bmi"][:5].tolist()


# -- cuts that tell of a class ----------------------------------------------------------------------------------------


def entropy(classes):
    shares = np.unique(classes, return_counts=True)[1] / len(classes)
    return float(-(shares * np.log2(shares)).sum())


def by_the_definition(numbers, classes, pays=True):
    """Fayyad and Irani's recursion, each split tried by counting its two sides anew."""
    values = sorted(set(numbers))
    n, best = len(numbers), None
    for value in values[1:]:
        left, right = classes[numbers < value], classes[numbers >= value]
        mean = (len(left) * entropy(left) + len(right) * entropy(right)) / n
        if best is None or mean < best[0] - 1e-12:
            best = mean, value, left, right
    if best is None:
        return []
    mean, value, left, right = best
    k, k_left, k_right = (len(set(part)) for part in (classes, left, right))
    change = k * entropy(classes) - k_left * entropy(left) - k_right * entropy(right)
    price = (math.log2(n - 1) + math.log2(3**k - 2) - change) / n
    if pays and entropy(classes) - mean <= price:
        return []
    below = numbers < value
    return [
        *by_the_definition(numbers[below], left, pays),
        value,
        *by_the_definition(numbers[~below], right, pays),
    ]


@pytest.mark.parametrize("seed", range(6))
def test_informative_cuts_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    numbers = np.round(rng.normal(size=120), 1 + seed % 3)
    classes = (numbers > 0.5).astype(int) + (numbers < -0.3) * (rng.random(120) < 0.9)
    expected = by_the_definition(numbers, classes)
    assert expected
    assert informative_cuts(numbers, classes) == expected
    # the twin, which takes every split that there is, is told apart
    assert by_the_definition(numbers, classes, pays=False) != expected


def test_a_column_that_tells_nothing_is_cut_once():
    rng = np.random.default_rng(3)
    numbers, classes = rng.normal(size=300), rng.integers(0, 2, 300)
    assert by_the_definition(numbers, classes) == []
    assert len(informative_cuts(numbers, classes)) == 1
    assert informative_cuts(np.full(5, 2.0), np.array([0, 1, 0, 1, 0])) == []


def test_supervised_bins_of_a_table():
    rng = np.random.default_rng(4)
    x = rng.normal(size=400)
    frame = pd.DataFrame({"x": x, "y": np.where(x > 0.7, "c", np.where(x < -0.5, "a", "b"))})
    table = read_table(frame, bins={"x": "supervised:y"})
    low, high = table.cuts["x"]
    assert (low, high) == (x[x >= -0.5].min(), x[x > 0.7].min())
    both = table.codes[table.row_index]
    assert np.array_equal(both[:, 0], both[:, 1])


BAD_BINS = [
    ("deciles:10", ArgumentTypeError, "bins is 'deciles:10'; give a number of quantile bins"),
    ("uniform:1", ArgumentError, "bins is 1; a column is cut into 2 to 1000 bins"),
    ([1.0, 2.0], ArgumentTypeError, "cuts belong to one column: bins={'age': [1.0, 2.0]}"),
    ({"dose": []}, ArgumentError, "bins['dose'] is empty; give the cuts between its bins"),
    ({"dose": [3, 1]}, ArgumentError, "bins['dose'] has 3 before 1; cuts rise"),
    ({"dose": [1, float("nan")]}, ArgumentError, "bins['dose'] holds nan; cuts are finite"),
    ({"dose": [1, "2"]}, ArgumentTypeError, "bins['dose'] holds '2'; cuts are numbers"),
    ({"dose": "supervised:sexx"}, ArgumentError, "'sexx' is no other column that is read; did you mean 'sex'?"),
    ({"dose": "supervised:dose"}, ArgumentError, "'dose' is no other column that is read"),
    ({"dose": "supervised:age"}, TableError, "bins are supervised by 'age', which holds numbers"),
    ({"dose": "supervised:age", "age": "supervised:sex"}, TableError, "which is cut by another column itself"),
]


@pytest.mark.parametrize(("bins", "kind", "words"), BAD_BINS)
def test_bad_bins(bins, kind, words):
    with pytest.raises(kind) as raised:
        read_table(FRAME, bins=bins)
    assert words in str(raised.value)


# -- tables -----------------------------------------------------------------------------------------------------------


FRAME = pd.DataFrame({"age": range(0, 60, 2), "dose": np.arange(30) / 4, "few": [1, 2, 3] * 10, "sex": ["f", "m"] * 15})


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_one_number_cuts_the_columns_that_would_be_refused(tmp_path, form):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    FRAME.to_parquet(tmp_path / "t.parquet")
    table = read_table({"frame": FRAME}.get(form, tmp_path / f"t.{form}"), bins=3)
    assert table.states == (
        ("[0, 20)", "[20, 40)", "[40, 58]"),
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
        "column 'x' contains a number in row 2 that is infinite or too large for a float; "
        "write missing cells as empty, or leave it out by naming the others with columns=[...] or --columns"
    )


def test_integers_too_long_for_a_machine_word_can_be_cut(tmp_path):
    (tmp_path / "t.csv").write_text("x\n" + "".join(f"{i}{'0' * 39}\n" for i in range(1, 41)))
    assert read_table(tmp_path / "t.csv", bins=2).states == (("[1e+39, 2.1e+40)", "[2.1e+40, 4e+40]"),)
