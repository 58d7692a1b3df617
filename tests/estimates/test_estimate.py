"""The Estimate type: what it prints, what its intervals do, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates import Estimate
from doxa.estimates.intervals import StudentInterval, UnseenInterval


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(0.41173, 0.0061, 6500), "0.412 +/- 0.006"),
        (Estimate(0.41173, 0.0012, 6500), "0.4117 +/- 0.0012"),
        (Estimate(-532.123, 1.34, 900), "-532.1 +/- 1.3"),
        (Estimate(1234.5, 56.0, 900), "1234 +/- 56"),
        (Estimate(2.0, np.nan, np.nan), "2 (error unknown)"),
        (Estimate(2.0, np.inf, 0.0), "2 (error unknown)"),
        (Estimate.exactly(0.25), "0.25 (exact)"),
        (Estimate.exactly(1.0), "1 (exact)"),
        (Estimate(1.0, 0.001, 1500, law=UnseenInterval(1500, 8000)), "> 0.9980 (no switch in 8000 draws)"),
        (Estimate(0.0, 0.001, 1500, law=UnseenInterval(1500, 8000)), "< 0.0020 (no switch in 8000 draws)"),
        (Estimate(0.0, 0.6, 0, law=UnseenInterval(0, 80)), "0 in all 80 draws (cannot tell: nothing switched)"),
    ],
)
def test_printed_form(estimate, text):
    assert str(estimate) == text


def test_printed_bound_claims_no_more_than_the_interval():
    for ess in np.geomspace(1, 1e6, 50):
        for value in (0.0, 1.0):
            estimate = Estimate(value, 0.1, ess, law=UnseenInterval(ess, 10))
            shown = float(str(estimate).split()[1])
            low, high = estimate.interval()
            assert shown >= high - 1e-12 if value == 0 else shown <= low + 1e-12


def test_intervals_of_a_normal_error():
    low, high = Estimate(10.0, 2.0, 100).interval(0.95)
    assert (low, high) == pytest.approx((10 - 1.959964 * 2, 10 + 1.959964 * 2))
    low, high = Estimate(10.0, 2.0, 100, law=StudentInterval(3.0)).interval(0.95)
    assert high - 10 == pytest.approx(3.182446 * 2)
    low, high = Estimate(10.0, 2.0, 100, law=StudentInterval(4.0, skew=4.0)).interval(0.95)
    assert high - 10 > 1.5 * (10 - low)
    assert Estimate.exactly(3.0).interval(0.5) == (3.0, 3.0)
    assert np.isnan(Estimate(2.0, np.nan, np.nan).interval()).all()


def test_probabilities_stay_in_the_unit_interval():
    law = StudentInterval(5.0, unit=True)
    for value in (0.0, 1e-300, 1e-9, 0.2, 0.5, 0.999, 1.0):
        for mcse in (1e-6, 0.1, 10.0):
            low, high = Estimate(value, mcse, 10, law=law).interval()
            assert 0 <= low <= value <= high <= 1
            assert high > low
    assert Estimate(0.5, 0.01, 100, law=law).interval()[0] == pytest.approx(0.5 - 2.5706 * 0.01, abs=2e-4)


@pytest.mark.parametrize("prob", [0, 1, -0.1, 1.5, 95, float("nan")])
def test_prob_outside_the_unit_interval_is_refused(prob):
    with pytest.raises(ArgumentError, match=r"prob is .*; it must lie strictly between 0 and 1, such as 0\.95"):
        Estimate(0.0, 1.0, 1.0).interval(prob)


@pytest.mark.parametrize("prob", ["0.95", None, True, 1j])
def test_prob_of_a_wrong_type_is_refused(prob):
    with pytest.raises(ArgumentTypeError, match="it must be a number strictly between 0 and 1"):
        Estimate.exactly(0.0).interval(prob)


def test_contradictory_errors_are_refused():
    with pytest.raises(ArgumentError, match=r"mcse is 0\.1 for an exact estimate; it must be 0"):
        Estimate(0.5, 0.1, 10, exact=True)
    for mcse in (0.0, -1.0):
        with pytest.raises(ArgumentError, match="an estimate that is not exact needs a positive error"):
            Estimate(0.5, mcse, 10)
    with pytest.raises(ArgumentError, match="ess is -1; the effective number of draws cannot be negative"):
        Estimate(0.5, 0.1, -1)
    with pytest.raises(AttributeError):
        Estimate(0.5, 0.1, 1).value = 2.0


def test_import_is_light():
    heavy = ("scipy", "numba", "arviz_stats", "pandas")
    code = f"import sys, doxa.estimates; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
