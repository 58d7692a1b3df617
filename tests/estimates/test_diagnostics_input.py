"""What is refused, and in which words; what the room imports."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates import diagnostics as d

GOOD = np.random.default_rng(1).normal(size=(2, 50))
NAN = GOOD.copy()
NAN[1, 3] = np.nan
LAGS = "lag windows are 'bartlett', 'parzen', 'tukey-hanning'"
ALL = (
    "it must be one of 'bartlett', 'parzen', 'tukey-hanning', 'initial-positive', 'initial-monotone', 'initial-convex'"
)
CHAIN = "it must be (draw,) or (chain, draw, ...) with at least"
TOURS = "both must be (tour,) with at least 2 complete tours: run longer"
PROB = "it must lie strictly between 0 and 1, such as 0.95"

REFUSED = [
    # draws
    (lambda: d.autocovariance(NAN), "draws[1, 3] is nan; every one must be finite"),
    (lambda: d.long_run_variance([1, 2, np.inf, 3]), "draws[2] is inf; every one must be finite"),
    (lambda: d.geweke_z(NAN), "draws[1, 3] is nan; every one must be finite"),
    (lambda: d.gelman_rubin(NAN), "draws[1, 3] is nan; every one must be finite"),
    (lambda: d.rank_r_hat(NAN), "draws[1, 3] is nan; every one must be finite"),
    (lambda: d.batch_means_error(NAN), "draws[1, 3] is nan; every one must be finite"),
    (lambda: d.autocovariance([1.0]), f"draws has shape (1,); {CHAIN} 1 chain and 2 draws"),
    (lambda: d.autocovariance(3.0), f"draws has shape (); {CHAIN} 1 chain and 2 draws"),
    (lambda: d.long_run_variance(GOOD[:, :3]), f"draws has shape (2, 3); {CHAIN} 1 chain and 4 draws"),
    (lambda: d.batch_means_error(np.zeros((0, 9))), f"draws has shape (0, 9); {CHAIN} 1 chain and 4 draws"),
    (lambda: d.gelman_rubin(GOOD[:1]), f"draws has shape (1, 50); {CHAIN} 2 chains and 2 draws"),
    (lambda: d.gelman_rubin(GOOD[:, :3], split=True), f"draws has shape (2, 3); {CHAIN} 1 chain and 4 draws"),
    (lambda: d.rank_r_hat(GOOD[:, :3]), f"draws has shape (2, 3); {CHAIN} 2 chains and 4 draws"),
    (
        lambda: d.gelman_rubin(GOOD[0]),
        "draws has shape (50,); it must be (chain, draw, ...): chains are to be compared",
    ),
    (
        lambda: d.windowed_error(np.zeros((2, 9, 3))),
        "draws has shape (2, 9, 3); one estimate is of one quantity, (draw,) or (chain, draw)",
    ),
    (
        lambda: d.batch_means_error(np.zeros((2, 9, 3))),
        "draws has shape (2, 9, 3); one estimate is of one quantity, (draw,) or (chain, draw)",
    ),
    # windows, lags, bandwidths, batches
    (lambda: d.autocovariance(GOOD, 50), "max_lag is 50; it must be from 0 to 49 (the number of draws less one)"),
    (lambda: d.autocovariance(GOOD, -1), "max_lag is -1; it must be from 0 to 49 (the number of draws less one)"),
    (lambda: d.long_run_variance(GOOD, "hann"), f"window is 'hann'; {ALL}"),
    (lambda: d.windowed_error(GOOD, "hann"), f"window is 'hann'; {ALL}"),
    (lambda: d.geweke_z(GOOD, window="hann"), f"window is 'hann'; {ALL}"),
    (lambda: d.lag_weights("initial-convex", 0.5), f"window is 'initial-convex'; {LAGS}"),
    (lambda: d.default_bandwidth("initial-convex", 2.0, 100), f"window is 'initial-convex'; {LAGS}"),
    (lambda: d.default_bandwidth("parzen", -0.1, 100), "decay is -0.1; it must not be negative"),
    (lambda: d.default_bandwidth("parzen", np.nan, 100), "decay is nan; it must not be negative"),
    (lambda: d.default_bandwidth("parzen", 2.0, 0), "n_draws is 0; it must be at least 1"),
    (
        lambda: d.long_run_variance(GOOD, "parzen", 0.5),
        "bandwidth is 0.5; it must be from 1 to 50 (the draws of a chain)",
    ),
    (
        lambda: d.long_run_variance(GOOD, "parzen", 51),
        "bandwidth is 51; it must be from 1 to 50 (the draws of a chain)",
    ),
    (
        lambda: d.long_run_variance(GOOD, "parzen", float("nan")),
        "bandwidth is nan; it must be from 1 to 50 (the draws of a chain)",
    ),
    (
        lambda: d.long_run_variance(GOOD, "initial-convex", 9),
        "bandwidth is 9 with window 'initial-convex', which finds its own; leave it out",
    ),
    (lambda: d.batch_means_error(GOOD, 0), "n_batches is 0; it must be from 1 to 25 (two draws a batch)"),
    (lambda: d.batch_means_error(GOOD[0], 1), "n_batches is 1; it must be from 2 to 25 (two draws a batch)"),
    (lambda: d.batch_means_error(GOOD, 26), "n_batches is 26; it must be from 1 to 25 (two draws a batch)"),
    # Geweke's stretches
    (
        lambda: d.geweke_z(GOOD, first=0.6),
        "first is 0.6 and last 0.5; they must be positive shares that add up to at most 1",
    ),
    (
        lambda: d.geweke_z(GOOD, last=0),
        "first is 0.1 and last 0; they must be positive shares that add up to at most 1",
    ),
    (
        lambda: d.geweke_z(GOOD[:, :30]),
        "30 draws with first=0.1 and last=0.5 leave 3 and 15; "
        "each stretch needs at least 4: run longer, or take larger shares",
    ),
    # bounds
    (lambda: d.hoeffding_bound(0), "n is 0; it must be at least 1"),
    (lambda: d.hoeffding_bound(9, 1.0), f"prob is 1.0; {PROB}"),
    (lambda: d.hoeffding_bound(9, 0.0), f"prob is 0.0; {PROB}"),
    (lambda: d.hoeffding_bound(9, 95), f"prob is 95; {PROB}"),
    (lambda: d.hoeffding_bound(9, width=0), "width is 0.0; it must be positive"),
    (lambda: d.hoeffding_bound(9, width=np.inf), "width is inf; it must be finite"),
    (lambda: d.hoeffding_draws(-0.1), "half_width is -0.1; it must be positive"),
    (lambda: d.hoeffding_draws(0.1, 2), f"prob is 2; {PROB}"),
    (lambda: d.mean_error_bound(0), "n is 0; it must be at least 1"),
    (
        lambda: d.bernstein_known_variance(9, 0.3),
        "variance is 0.3; on an interval of width 1.0 it must be from 0 to 0.25",
    ),
    (
        lambda: d.bernstein_known_variance(9, -0.1),
        "variance is -0.1; on an interval of width 1.0 it must be from 0 to 0.25",
    ),
    (lambda: d.bernstein_bound([0.5]), "values has shape (1,); it must be (draw, ...) with at least 2 draws"),
    (lambda: d.bernstein_bound([0.5, np.nan]), "values[1] is nan; every one must be finite"),
    (lambda: d.bernstein_bound([0.5, 1.5]), "values[1] is 1.5; all must lie from low=0.0 to high=1.0"),
    (lambda: d.bernstein_bound([[0.5], [-3]], low=-2), "values[1, 0] is -3.0; all must lie from low=-2.0 to high=1.0"),
    (lambda: d.bernstein_bound([0.5, 0.5], low=1, high=1), "low is 1.0 and high 1.0; low must be less than high"),
    (lambda: d.bernstein_bound([0.5, 0.5], prob=-1), f"prob is -1; {PROB}"),
    # tours
    (
        lambda: d.regenerative_estimate([1.0, 2.0, 3.0], [1, 0, 2]),
        "tour_lengths[1] is 0; every tour has at least one draw",
    ),
    (
        lambda: d.regenerative_estimate([1.0], [3]),
        f"tour_sums has shape (1,) and tour_lengths (1,); {TOURS}",
    ),
    (
        lambda: d.regenerative_estimate([1.0, 2.0], [3, 4, 5]),
        f"tour_sums has shape (2,) and tour_lengths (3,); {TOURS}",
    ),
    (lambda: d.regenerative_estimate([1.0, np.nan], [3, 4]), "tour_sums[1] is nan; every one must be finite"),
    (lambda: d.regenerative_estimate([1.0, 2.0], [3, np.inf]), "tour_lengths[1] is inf; every one must be finite"),
    (
        lambda: d.cut_tours([1.0, 2.0], [[True, False]]),
        "draws has shape (2,) and starts (1, 2); both must be (draw,) or (chain, draw)",
    ),
]

REFUSED_TYPES = [
    (lambda: d.autocovariance(["a", "b"]), "draws has dtype <U1; real numbers are needed"),
    (lambda: d.long_run_variance(GOOD + 1j), "draws has dtype complex128; real numbers are needed"),
    (lambda: d.autocovariance(GOOD, 2.0), "max_lag is 2.0; it must be a whole number"),
    (lambda: d.batch_means_error(GOOD, True), "n_batches is True; it must be a whole number"),
    (lambda: d.long_run_variance(GOOD, "parzen", "9"), "bandwidth is '9'; it must be a number of draws"),
    (lambda: d.geweke_z(GOOD, first="0.1"), "first is '0.1'; it must be a share of the chain, such as 0.1"),
    (lambda: d.hoeffding_bound(9.5), "n is 9.5; it must be a whole number"),
    (lambda: d.hoeffding_bound(9, "0.9"), "prob is '0.9'; it must be a number strictly between 0 and 1, such as 0.95"),
    (lambda: d.hoeffding_bound(9, width=None), "width is None; it must be a number"),
    (lambda: d.cut_tours([1.0, 2.0], [0, 1]), "starts has dtype int64; it must be boolean"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_bad_values_are_refused(call, message):
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize(("call", "message"), REFUSED_TYPES)
def test_bad_types_are_refused(call, message):
    with pytest.raises(ArgumentTypeError, match=f"^{re.escape(message)}$"):
        call()


def test_boundary_cases_are_accepted():
    assert d.autocovariance(GOOD, 49).shape == (2, 50)
    assert d.geweke_z(GOOD, 0.5, 0.5).shape == (2,)
    assert d.geweke_z(GOOD[:, :40]).shape == (2,)  # 4 draws in the first stretch
    assert d.long_run_variance(GOOD, "parzen", 50) > 0
    assert d.bernstein_known_variance(9, 0.25) > 0
    assert d.bernstein_bound([0, 1]) > 0
    assert d.long_run_variance([1, 2, 2, 1], "bartlett") > 0


def test_draws_are_not_modified():
    before = GOOD.copy()
    for window in d.WINDOWS:
        d.windowed_error(GOOD, window)
    for call in (d.autocovariance, d.geweke_z, d.gelman_rubin, d.rank_r_hat, d.batch_means_error):
        call(GOOD)
    assert (before == GOOD).all()


def test_every_name_is_there_and_documented():
    assert len(set(d.__all__)) == len(d.__all__)
    for name in d.__all__:
        value = getattr(d, name)
        assert name in ("WINDOWS", "Window") or value.__doc__
    assert d.RealDiagnosis is type(d.diagnose_real(GOOD))


def test_heavy_libraries_are_imported_where_they_are_used():
    code = "import sys, doxa.estimates.diagnostics; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {"scipy", "arviz_stats", "numba", "pandas"}.isdisjoint(name.partition(".")[0] for name in loaded)
