"""Coverage of the 95% intervals of 0/1 quantities, on chains whose answer is known.

Every check has a broken twin: an interval known to be wrong must be rejected by the same assertion.
``DOXA_TEST_SEED`` moves the seeds; the long form (10,000 runs) is marked slow.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from known_chains import between_chains_alone, normal_ar1, plain_ess, slow_modes, two_state, two_state_alone
from scipy.stats import binom

from doxa.estimates import IndicatorCounts, Status, diagnose_indicators
from doxa.estimates.intervals import unseen_bound

SEED = int(os.environ.get("DOXA_TEST_SEED", "0"))
FALSE_ALARM = 1e-6  # of one comparison; some fifty are made
BLOCK = 2000

lengths = pytest.mark.parametrize(
    "runs", [pytest.param(2000, id="short"), pytest.param(10_000, id="long", marks=pytest.mark.slow)]
)


def assert_coverage(hits, low=0.93, high=0.97):
    """Reject if so few (or so many) hits would be rarer than the false alarm at true coverage ``low`` (or ``high``)."""
    hits = np.asarray(hits)
    share = f"covered {hits.sum()} of {hits.size}"
    assert hits.size >= 200, "too few runs for the comparison to mean anything"
    assert binom.cdf(hits.sum(), hits.size, low) > FALSE_ALARM, share
    assert binom.sf(hits.sum() - 1, hits.size, high) > FALSE_ALARM, share


def repeat(simulate, runs, seed):
    """Draws in blocks, and the generator, so that long forms need no more memory."""
    rng = np.random.default_rng([SEED, seed])
    for _ in range(runs // BLOCK):
        yield rng, simulate(rng, BLOCK)


def holds(lower, upper, p):
    return (lower <= p) & (p <= upper)


def diagnose(draws, **options):
    return diagnose_indicators(IndicatorCounts.from_draws(draws), **options)


MIXING = {
    "independent": (0.5, lambda rng, n: two_state(rng, 500, np.full(n, 0.5), 1.0)),
    "independent, rare": (0.03, lambda rng, n: two_state(rng, 500, np.full(n, 0.03), 1.0)),
    "odd length": (0.8, lambda rng, n: two_state(rng, 333, np.full(n, 0.8), 1.0)),
    "two-state": (0.1, lambda rng, n: two_state(rng, 800, np.full(n, 0.1), 0.3)),
    "two-state, slow": (0.5, lambda rng, n: two_state(rng, 1000, np.full(n, 0.5), 0.05)),
    "two-state, antithetic": (0.5, lambda rng, n: two_state(rng, 400, np.full(n, 0.5), 1.5)),
    "AR(1) above 0": (0.5, lambda rng, n: normal_ar1(rng, 1000, n, 0.9) > 0),
    "AR(1) above 1.28": (0.1, lambda rng, n: normal_ar1(rng, 1000, n, 0.9) > 1.2815516),
    "modes": (0.5, lambda rng, n: slow_modes(rng, 1000, n, 0.5, 0.04, (0.2, 0.8))),
}

NOT_MIXING = {
    "modes 1:1": (0.5, lambda rng, n: slow_modes(rng, 1000, n, 0.5, 0.01, (0.2, 0.8))),
    "modes 1:1, slower": (0.5, lambda rng, n: slow_modes(rng, 1000, n, 0.5, 0.004, (0.2, 0.8))),
    "modes 1:1, a switch a chain": (0.5, lambda rng, n: slow_modes(rng, 1000, n, 0.5, 0.001, (0.2, 0.8))),
    "modes 7:3, silent": (0.15, lambda rng, n: slow_modes(rng, 1000, n, 0.3, 0.02, (0.0, 0.5))),
    "modes 9:1, few visits": (0.26, lambda rng, n: slow_modes(rng, 1000, n, 0.1, 0.02, (0.2, 0.8))),
}


@lengths
@pytest.mark.parametrize("name", MIXING)
def test_chains_that_mix(name, runs):
    p, simulate = MIXING[name]
    hits, squares = [], []
    for _, draws in repeat(simulate, runs, list(MIXING).index(name)):
        result = diagnose(draws)
        hits.append(holds(result.lower, result.upper, p))
        squares.append((result.probability - p) ** 2)
    effective = (p * (1 - p)) ** 2 / np.mean(squares)
    assert effective > 10, "the promise is for ess p (1 - p) >= 10"
    assert_coverage(np.concatenate(hits))


@lengths
@pytest.mark.parametrize("name", NOT_MIXING)
def test_slow_modes_with_fast_flips_inside(name, runs):
    p, simulate = NOT_MIXING[name]
    hits, alone = [], []
    for rng, draws in repeat(simulate, runs, 100 + list(NOT_MIXING).index(name)):
        result = diagnose(draws)
        told = result.status != Status.CANNOT_TELL
        hits.append(holds(result.lower, result.upper, p)[told])
        alone.append(holds(*two_state_alone(rng, draws[..., :500]), p))
    assert_coverage(np.concatenate(hits), high=1.0)
    with pytest.raises(AssertionError, match="covered"):  # fast flips look like many independent draws
        assert_coverage(np.concatenate(alone), high=1.0)


def with_companion(a, b, rate):
    """p from Beta(a, b), its chains, and chains of the same rate with p = 1/2 in the same runs."""

    def simulate(rng, n):
        p = rng.beta(a, b, n)
        return p, two_state(rng, 500, p, rate), two_state(rng, 500, np.full(n, 0.5), rate)

    return simulate


def judged(draws, companion):
    """Our limits, each never-switching run judged by the ess of its own companion; and which runs have a verdict."""
    result = diagnose(draws, reference_ess=0.0)
    side = diagnose(companion, reference_ess=0.0)
    bound = unseen_bound(np.minimum(side.ess, draws.shape[0] * draws.shape[1]))
    lower = np.where(result.probability == 1, 1 - bound, result.lower)
    upper = np.where(result.probability == 0, bound, result.upper)
    return lower, upper, result.switches, (result.switches > 0) | (side.switches > 0)


@lengths
@pytest.mark.parametrize("rate", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("prior", [(0.5, 0.5), (0.1, 0.9)])
def test_rare_switches_averaged_over_the_prior(prior, rate, runs):
    hits, never, plain = [], [], []
    for _, (p, draws, companion) in repeat(with_companion(*prior, rate), runs, 200):
        lower, upper, switches, told = judged(draws, companion)
        hits.append(holds(lower, upper, p)[told])
        never.append(hits[-1][switches[told] == 0])
        plain.append(holds(*plain_ess(draws, 250), p[:250]))
    assert_coverage(np.concatenate(hits), high=1.0)
    unseen = np.concatenate(never)
    if unseen.size >= 200:
        assert_coverage(unseen, high=1.0)
    if unseen.size < 0.2 * runs:
        return  # the broken twin would cover more than about 0.76: 250 runs cannot be relied on to reject that
    with pytest.raises(AssertionError, match="covered"):  # an error of 0 where nothing switched
        assert_coverage(np.concatenate(plain), high=1.0)


@lengths
def test_never_switching_fools_the_rates_alone(runs):
    hits, alone, between = [], [], []
    for rng, (p, draws, companion) in repeat(with_companion(0.5, 0.5, 0.003), runs, 300):
        lower, upper, switches, told = judged(draws, companion)
        never = (switches == 0) & told
        hits.append(holds(lower, upper, p)[never])
        alone.append(holds(*two_state_alone(rng, draws[..., never]), p[never]))
        between.append(holds(*between_chains_alone(draws[..., never]), p[never]))
    assert_coverage(np.concatenate(hits), high=1.0)
    with pytest.raises(AssertionError, match="covered"):  # the rate of return was never seen and is taken for about 1/2
        assert_coverage(np.concatenate(alone), high=1.0)
    with pytest.raises(AssertionError, match="covered"):
        assert_coverage(np.concatenate(between), high=1.0)


def test_chains_stuck_in_their_modes_are_called_unconverged():
    rng = np.random.default_rng([SEED, 400])
    draws = slow_modes(rng, 500, 1000, 0.5, 1e-9, (0.2, 0.8))
    result = diagnose(draws)
    means = draws.mean(axis=1)
    split = means.max(axis=0) - means.min(axis=0) > 0.3  # 7 of 8 runs: not all four chains in one mode
    assert split.mean() == pytest.approx(7 / 8, abs=5 * np.sqrt(7 / 64 / 1000))
    assert (result.status[split] == Status.UNCONVERGED).all()
    assert holds(result.lower, result.upper, 0.5)[split].all()


def test_the_assertion_rejects_what_is_too_wide_and_too_narrow():
    rng = np.random.default_rng([SEED, 500])
    p, simulate = MIXING["independent"]
    result = diagnose(simulate(rng, BLOCK))
    for factor in (0.7, 1.6):
        half = factor * 1.96 * result.mcse
        with pytest.raises(AssertionError, match="covered"):
            assert_coverage(holds(result.probability - half, result.probability + half, p))
