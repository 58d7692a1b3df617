"""`Until` refuses what is no target; decision points are fixed numbers that grow geometrically."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.stopping import Shortfall, StopReport, Until, decision_points, worst_shortfall


@pytest.mark.parametrize("name", ["r_hat", "mcse", "ess", "max_seconds"])
@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_targets_must_be_positive_and_finite(name, bad):
    above = 1 if name == "r_hat" else 0
    with pytest.raises(ArgumentError) as refused:
        Until(**{name: bad})
    assert str(refused.value) == f"{name} is {bad!r}; it must be a finite number above {above}"


def test_r_hat_of_one_cannot_be_reached():
    with pytest.raises(ArgumentError, match=r"r_hat is 1\.0; it must be a finite number above 1"):
        Until(r_hat=1.0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mcse": "small"}, ArgumentTypeError, "mcse is 'small'; it must be a finite number above 0"),
        ({"ess": True}, ArgumentTypeError, "ess is True; it must be a finite number above 0"),
        ({"max_draws": 3}, ArgumentError, "max_draws is 3; it must be at least 4"),
        ({"max_draws": 10.0}, ArgumentTypeError, "max_draws is 10.0; it must be a whole number of at least 4"),
        ({"quantities": "a -> b"}, ArgumentTypeError, "quantities is the text 'a -> b'; give a list: ['a -> b']"),
    ],
)
def test_bad_targets_are_refused_by_name(options, error, message):
    with pytest.raises(error) as refused:
        Until(**options)
    assert str(refused.value) == message


def test_decision_points_grow_geometrically_to_the_limit():
    points = list(decision_points(None))
    assert points[0] == 500
    assert points[-1] == 100_000
    assert all(1.2 < after / before <= 1.25 for before, after in pairwise(points[:-1]))
    assert list(decision_points(100)) == [100]
    assert list(decision_points(500)) == [500]


def test_the_worst_shortfall_needs_the_most_draws():
    found = [Shortfall("a", "R-hat", 1.2, 1.01, 20.0), Shortfall("b", "Monte Carlo error", 0.1, 0.01, 100.0)]
    assert worst_shortfall(found).name == "b"
    assert worst_shortfall([]) is None


def test_reports_are_words():
    short = Shortfall("a -> b", "Monte Carlo error", 0.02, 0.01, 4.0)
    assert StopReport("draws", None, 1.0).text == ""
    assert StopReport("max_seconds", None, 1.0).text == "The run stopped at its limit (max_seconds)."
    assert StopReport("max_draws", short, 10.0).text == (
        "The run stopped at its limit (max_draws): the Monte Carlo error of a -> b is 0.02 (asked: 0.01); about 4 "
        "times as many draws would do, 30 seconds more."
    )
    far = short._replace(factor=3300.0)
    assert StopReport("max_draws", far, 127.7).text.endswith("about 3300 times as many draws would do, 4.9 days more.")
