"""Quantiles and tail probabilities by shares below levels: covered by their errors, and honest about what they lack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import gammaincinv, ndtr, ndtri

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.level_shares import LevelShares
from support.checks import SEED, z_limit

LEVELS = np.linspace(-3, 3, 25)  # a quarter of a standard deviation apart, as `doxa.fit` has them
PS = (0.025, 0.3, 0.9)


def shares_of(draws, levels=LEVELS, every=50):
    """Of draws (chain, draw)."""
    batches = draws.reshape(len(draws), -1, every)
    below = np.stack([(batches <= level).mean(axis=2) for level in levels], axis=-1)
    return LevelShares(levels, below, draws.size, draws.size)


@pytest.fixture(scope="module")
def runs():
    """Slow chains of a standard normal: four of 200 batches of 50, each draw worth a tenth."""
    rho, rng = 0.818, np.random.default_rng(SEED + 1)
    noise = np.sqrt(1 - rho**2) * rng.standard_normal((50, 4, 10_000))
    noise[..., 0] /= np.sqrt(1 - rho**2)
    return [shares_of(draws) for draws in lfilter([1.0], [1.0, -rho], noise)]


def scatter(estimates, exact):
    """Root mean square of how many errors the estimates are off."""
    return np.sqrt(np.mean([((one.value - exact) / one.mcse) ** 2 for one in estimates]))


@pytest.mark.parametrize("p", PS)
def test_quantiles_are_off_by_their_errors(runs, p):
    found = [known.quantile(p) for known in runs]
    assert 0.7 < scatter(found, ndtri(p)) < 1.35
    density = np.exp(-0.5 * ndtri(p) ** 2) / np.sqrt(2 * np.pi)
    naive = np.sqrt(p * (1 - p) / 40_000) / density  # the broken twin: as if all draws were independent
    assert scatter([replace(one, mcse=naive) for one in found], ndtri(p)) > 1.5
    moved = [replace(known, levels=known.levels + 0.25).quantile(p) for known in runs]  # levels off by one
    assert scatter(moved, ndtri(p)) > 3


@pytest.mark.parametrize("level", [-1.0, 0.6])  # one of the levels; between two
def test_probabilities_are_off_by_their_errors(runs, level):
    found = [known.above(level) for known in runs]
    assert 0.7 < scatter(found, ndtr(-level)) < 1.35
    naive = np.sqrt(ndtr(level) * ndtr(-level) / 40_000)
    assert scatter([replace(one, mcse=naive) for one in found], ndtr(-level)) > 1.5
    covered = [one.interval(0.9)[0] < ndtr(-level) < one.interval(0.9)[1] for one in found]
    assert np.mean(covered) > 0.75


@pytest.mark.parametrize("p", PS)
def test_few_levels_are_said_by_the_error(p):
    """A skewed law at seven levels, so many draws that how the shares are interpolated is all that is not known."""
    rng = np.random.default_rng(SEED + 2)
    draws, levels = rng.standard_gamma(3.0, (4, 100_000)), np.arange(0.0, 16.0, 2.5)
    found, exact = shares_of(draws, levels, 1000).quantile(p), gammaincinv(3.0, p)
    assert abs(found.value - exact) < 2 * found.mcse
    density = 0.5 * exact**2 * np.exp(-exact)
    assert abs(found.value - exact) > z_limit(3) * np.sqrt(p * (1 - p) / draws.size) / density  # the draws' alone


def test_what_was_never_seen_is_bounded(runs):
    known = replace(runs[0], levels=LEVELS * 3, shares=np.repeat(runs[0].shares[..., [0]] * 0, 25, axis=2))
    assert known.above(5.0).interval(0.95)[0] > 0.99  # all draws are above 9
    assert known.above(-1e9).value == 1
    assert str(replace(known, ess=0.0).above(0.0)) == "1 in all 40000 draws (cannot tell: nothing switched)"


def test_equal_levels_are_one(runs):
    twice = replace(runs[0], levels=np.repeat(LEVELS, 2), shares=np.repeat(runs[0].shares, 2, axis=2))
    for p in PS:
        assert twice.quantile(p).value == pytest.approx(runs[0].quantile(p).value)
    assert twice.above(0.6).value == pytest.approx(runs[0].above(0.6).value)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda known: known.quantile(1.5), ArgumentError, "prob is 1.5; it must lie strictly between 0 and 1"),
        (lambda known: known.quantile("half"), ArgumentTypeError, "prob is 'half'; it must be a number"),
        (
            lambda known: known.quantile(1e-5),
            ArgumentError,
            "prob is 1e-05, but the levels from -3 to 3 tell",
        ),
        (lambda known: known.above(3.5), ArgumentError, "level is 3.5, but shares of draws are known from -3 to 3"),
        (lambda known: known.above(np.nan), ArgumentError, "level is nan, but shares"),
    ],
)
def test_bad_input(runs, ask, error, message):
    with pytest.raises(error, match=message):
        ask(runs[0])
