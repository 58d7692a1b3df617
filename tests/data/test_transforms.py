"""Numbers on another scale: one to one, as if the column had been transformed by hand, answers in the user's unit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import norm

import doxa
from doxa import read_table
from doxa.data.scaled import scaled
from doxa.data.transforms import TRANSFORMS, Transform, transform_of
from doxa.errors import ArgumentError, ArgumentTypeError, TableError

RNG = np.random.default_rng(12)
INCOME = np.exp(RNG.normal(10, 1, 120))
FRAME = pd.DataFrame(
    {"income": INCOME, "rent": 0.3 * INCOME * np.exp(RNG.normal(0, 0.3, 120)), "n": RNG.normal(size=120)}
)
BY_HAND = FRAME.assign(income=np.log(FRAME["income"]), rent=np.log(FRAME["rent"]))
LOGS = {"income": "log", "rent": "log"}


@pytest.mark.parametrize("method", TRANSFORMS)
@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=30), st.floats(0.0005, 0.9995))
@example([0.001, 0.0010000000000000002], 0.0078125)  # far beyond two that are next to each other
def test_inverses(method, observed, number):
    transform = transform_of("x", method, np.array(observed))
    there = transform.forward(np.array([number, np.nan]))
    back = transform.inverse(there)
    assert np.isnan(back[1])
    assert back[0] == pytest.approx(number, rel=1e-6)
    assert np.isfinite(there[0])


def test_normal_scores_are_normal_quantiles_of_ranks():
    numbers = np.array([3.0, 1.0, 1.0, np.nan, 8.0, 2.5])
    scores = transform_of("x", "normal scores", numbers).forward(numbers)
    expected = norm.ppf((pd.Series(numbers).rank().to_numpy() - 0.5) / 5)
    assert np.allclose(scores, expected, equal_nan=True)
    cells = pd.DataFrame({"x": [3.0, 1.0, 8.0, 2.5], "n": [1, 2, 1, 1]})
    counted = read_table(cells, counts="n", transform={"x": "normal scores"})
    assert np.array_equal(counted.transforms["x"].scores, transform_of("x", "normal scores", numbers).scores)
    assert Transform("normal scores", np.array([2.0]), np.array([0.0])).inverse(np.array([1.0])) == [3.0]


def test_it_is_as_if_the_column_had_been_transformed_by_hand():
    table = read_table(FRAME, transform=LOGS)
    assert np.array_equal(table.numbers[:, 0], FRAME["income"])
    assert table.digest != read_table(FRAME).digest
    assert np.allclose(scaled(table).values, scaled(read_table(BY_HAND)).values)
    ours, by_hand = doxa.learn(table, seed=1), doxa.learn(BY_HAND, seed=1)
    assert np.allclose(ours.edges()["probability"], by_hand.edges()["probability"], atol=1e-9)
    plain = doxa.learn(FRAME, seed=1)  # the twin without a transform is told apart
    assert not np.allclose(ours.edges()["probability"], plain.edges()["probability"], atol=1e-3)
    assert table.select(["rent", "n"]).transforms["rent"].method == "log"


@pytest.mark.parametrize("method", ["log", "normal scores"])
def test_missing_numbers_are_answered_in_their_own_unit(method):
    frame = FRAME[:40].copy()
    frame.loc[3, "income"] = np.nan
    frame.loc[[5, 7], "rent"] = np.nan
    transform = {"income": method, "rent": method}
    own = {name: transform_of(name, method, frame[name].to_numpy()) for name in transform}
    by_hand = frame.assign(**{name: own[name].forward(frame[name].to_numpy()) for name in own})
    asked = {"draws": 100, "chains": 2, "warmup": 100, "seed": 4}
    ours, theirs = doxa.learn(read_table(frame, transform=transform), **asked), doxa.learn(by_hand, **asked)
    assert np.allclose(ours.trace["cells"], theirs.trace["cells"])
    for one, other in zip(ours.completed_tables(3), theirs.completed_tables(3), strict=True):
        for name in own:
            assert np.allclose(one[name], own[name].inverse(other[name].to_numpy()))
            assert np.array_equal(one[name][frame[name].notna()], frame[name].dropna())
    found, scores = ours.impute(), theirs.impute()
    for bound in ("lower", "upper"):  # quantiles go along, but for the interpolation between two draws
        row = own["income"].inverse(np.array(scores[bound])[:1])
        assert found[bound][0] == pytest.approx(row[0], rel=0.05)
    assert found["lower"][0] < found["mean"][0] < found["upper"][0]
    if method == "log":
        assert found["mean"][0] > np.exp(scores["mean"][0])  # the mean of exponentials, not that of the mean


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (
            {"transform": {"n": "log"}},
            TableError,
            r"transform is 'log' for column 'n', which has -?[\d.]+ in row \d+; it",
        ),
        ({"transform": {"income": "logit"}}, TableError, "takes numbers between 0 and 1"),
        (
            {"transform": {"income": "cube"}},
            ArgumentError,
            r"transform\['income'\] is 'cube'; there are 'log', 'log1p'",
        ),
        ({"transform": {"wage": "log"}}, ArgumentError, "transform names 'wage', which is no column that is read"),
        ({"transform": "log"}, ArgumentTypeError, "transform is 'log'; give one for each column"),
        ({"transform": {"n": "log"}, "bins": {"n": 3}}, ArgumentError, "transform and bins both name 'n'"),
    ],
)
def test_bad_transforms(options, kind, words):
    with pytest.raises(kind, match=words):
        read_table(FRAME, **options)
