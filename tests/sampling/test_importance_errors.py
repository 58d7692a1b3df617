"""Coverage of the 95% intervals of importance sampling, with the verdict on.

Every check has broken twins: an interval or a weight known to be wrong must be rejected by the same assertion.
``DOXA_TEST_SEED`` moves the seeds; the long form (10,000 runs) is marked slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom
from test_importance_targets import Finite, Normal, ParetoWeight, StudentT, log_normal, log_t

from doxa.estimates import Estimate
from doxa.sampling.importance import ImportanceSample, Mixture, importance_sample
from support.checks import FALSE_ALARM, SEED

lengths = pytest.mark.parametrize(
    "runs", [pytest.param(2000, id="short"), pytest.param(10_000, id="long", marks=pytest.mark.slow)]
)


class Case(NamedTuple):
    """A target, its proposal, a quantity, and what is exactly true of them."""

    log_target: Callable[[Any], Any]
    proposal: Any
    f: Callable[[Any], Any]
    mean: float
    log_constant: float
    n: int


STATES = np.array([0.3, 2.0, 0.5, 4.0, 0.2])  # sums to 7
STATE_VALUES = np.array([-1.0, 0.5, 4.0, 2.0, -7.0])
Q = np.array([0.3, 0.1, 0.25, 0.2, 0.15])
MODES = Mixture([Normal(-2.0, 0.6), Normal(3.0, 0.6)], [0.35, 0.65])


def log_two_modes(x):
    return np.logaddexp(np.log(0.2) + log_normal(x, -2.0, 0.5), np.log(0.8) + log_normal(x, 3.0, 0.5)) + 1.5


def log_states(x):
    return np.log(STATES)[x]


MILD = {
    "states": Case(log_states, Finite(Q), STATE_VALUES.__getitem__, STATES @ STATE_VALUES / 7, np.log(7), 400),
    "states, a probability": Case(log_states, Finite(Q), lambda x: x == 2, 0.5 / 7, np.log(7), 400),
    "normal, t proposal": Case(lambda x: log_normal(x, 0.3, 0.8), StudentT(4.0), lambda x: x, 0.3, 0.0, 400),
    "two modes, mixture": Case(log_two_modes, MODES, lambda x: x, 2.0, 1.5, 400),
    "two modes, a probability": Case(log_two_modes, MODES, lambda x: x < 0, 0.2, 1.5, 400),
    "normal, shifted by 0.7": Case(
        lambda x: log_normal(x, 0.7, 1.0) - 3, Normal(0.0, 1.0), lambda x: x > 0, ndtr(0.7), -3.0, 800
    ),
    "Pareto tail 0.2": Case(lambda u: -0.2 * np.log(u), ParetoWeight(), lambda u: u, 0.8 / 1.8, -np.log(0.8), 800),
}
HARD = {
    "normal, shifted by 1.2": Case(lambda x: log_normal(x, 1.2, 1.0), Normal(0.0, 1.0), lambda x: x, 1.2, 0.0, 1000),
    "Pareto tail 0.5": Case(lambda u: -0.5 * np.log(u), ParetoWeight(), lambda u: u, 0.5 / 1.5, -np.log(0.5), 1000),
    "Pareto tail 0.65": Case(
        lambda u: -0.65 * np.log(u), ParetoWeight(), lambda u: u, 0.35 / 1.35, -np.log(0.35), 1000
    ),
    "t target, normal proposal": Case(lambda x: log_t(x, 5.0), Normal(0.0, 1.0), lambda x: x, 0.0, 0.0, 1000),
}


def expectation(sample: ImportanceSample, case: Case) -> tuple[Estimate, float]:
    return sample.expectation(case.f), case.mean


def constant(sample: ImportanceSample, case: Case) -> tuple[Estimate, float]:
    return sample.log_normalising_constant(), case.log_constant


def outcomes(case, estimates, runs, seed, draw=None):
    """Of ``runs`` samples and each estimate: whether it was said to be reliable, and whether its interval held."""
    draw = draw or (lambda rng: importance_sample(case.log_target, case.proposal, case.n, rng))
    rng = np.random.default_rng([SEED, seed])
    result = np.zeros((len(estimates), runs, 2), dtype=bool)
    for run in range(runs):
        sample = draw(rng)
        for i, estimate in enumerate(estimates):
            found, exact = estimate(sample, case)
            low, high = found.interval()
            result[i, run] = not np.isnan(low), low <= exact <= high
    return result


def assert_covered(result, low=0.93, high=0.985):
    """Nearly all runs are reliable, and of these as many hold as coverage between ``low`` and ``high`` allows."""
    reliable, held = result.T
    assert reliable.mean() > 0.95, f"only {reliable.mean():.1%} of the runs were reliable"
    n, hits = int(reliable.sum()), int((reliable & held).sum())
    assert binom.cdf(hits, n, low) > FALSE_ALARM, f"covered {hits} of {n}"
    assert binom.sf(hits - 1, n, high) > FALSE_ALARM, f"covered {hits} of {n}"


@lengths
@pytest.mark.parametrize("name", MILD)
def test_intervals_cover(name, runs):
    case = MILD[name]
    for result in outcomes(case, (expectation, constant), runs, seed=1):
        assert_covered(result)


@lengths
@pytest.mark.parametrize("name", HARD)
def test_hardly_any_interval_is_offered_that_does_not_hold(name, runs):
    """Where the verdict varies from run to run, offered and wrong must be rare; offered alone cannot be promised."""
    for result in outcomes(HARD[name], (expectation, constant), runs, seed=2):
        reliable, held = result.T
        wrong = int((reliable & ~held).sum())
        assert binom.sf(wrong - 1, runs, 0.07) > FALSE_ALARM, f"offered and wrong: {wrong} of {runs}"


def normal_interval(value, error):
    return Estimate(float(value), float(error), 1.0)


def without_the_ratio_term(sample, case):
    """Error of the numerator alone, as if the denominator were known."""
    terms = sample.weights * sample.n * case.f(sample.draws)
    return normal_interval(terms.mean(), terms.std() / np.sqrt(sample.n)), case.mean


def from_the_kish_ess(sample, case):
    """The target's variance over the ess of the weights: right only if f and w have nothing to do with each other."""
    values = case.f(sample.draws)
    mean = sample.weights @ values
    return normal_interval(mean, np.sqrt(sample.weights @ (values - mean) ** 2 / sample.ess)), case.mean


def forgetting_the_weights(sample, case):
    values = case.f(sample.draws)
    return normal_interval(values.mean(), values.std() / np.sqrt(sample.n)), case.mean


def mean_of_the_logarithms(sample, case):
    lw = sample.log_weights
    return normal_interval(lw.mean(), lw.std() / np.sqrt(sample.n)), case.log_constant


def constant_from_the_number_of_draws(sample, case):
    return normal_interval(sample.log_normalising_constant().value, 1 / np.sqrt(sample.n)), case.log_constant


@pytest.mark.parametrize(
    ("name", "twin", "runs"),
    [
        ("states", without_the_ratio_term, 2000),
        ("states, a probability", without_the_ratio_term, 2000),
        ("states", from_the_kish_ess, 2000),
        ("states, a probability", from_the_kish_ess, 2000),
        ("states", forgetting_the_weights, 200),
        ("two modes, mixture", forgetting_the_weights, 200),
        ("states", mean_of_the_logarithms, 200),
        ("two modes, mixture", mean_of_the_logarithms, 200),
        ("Pareto tail 0.2", constant_from_the_number_of_draws, 2000),
        ("two modes, mixture", constant_from_the_number_of_draws, 2000),
    ],
)
def test_a_wrong_estimate_or_error_is_rejected(name, twin, runs):
    (result,) = outcomes(MILD[name], (twin,), runs, seed=3)
    with pytest.raises(AssertionError, match="covered"):
        assert_covered(result)


def weighted_by_one_component(rng):
    """Hesterberg's point missed: each draw divided by the density of the component it came from."""
    label = (rng.random(400) < 0.65).astype(int)
    draws = np.where(label, MODES.components[1].sample(400, rng), MODES.components[0].sample(400, rng))
    densities = np.stack([component.log_density(draws) for component in MODES.components])
    return ImportanceSample(draws, log_two_modes(draws), densities[label, np.arange(400)])


def test_weights_by_one_component_are_rejected():
    for result in outcomes(MILD["two modes, mixture"], (expectation, constant), 200, 4, weighted_by_one_component):
        with pytest.raises(AssertionError):
            assert_covered(result)


def test_the_law_covers_where_a_normal_one_does_not():
    """Pareto tail 0.6, whatever the verdict: the weights have no variance, yet the stretched interval mostly holds."""
    case = Case(lambda u: -0.6 * np.log(u), ParetoWeight(), lambda u: u, 0.4 / 1.4, -np.log(0.4), 1000)
    rng = np.random.default_rng([SEED, 5])
    held = np.zeros((2000, 2), dtype=bool)
    for run in range(2000):
        estimate = importance_sample(case.log_target, case.proposal, case.n, rng).log_normalising_constant()
        plain = normal_interval(estimate.value, estimate.delta_error)
        full = Estimate(estimate.value, estimate.delta_error, 1.0, law=estimate.law)
        held[run] = [low <= case.log_constant <= high for low, high in (full.interval(), plain.interval())]
    assert binom.cdf(held[:, 0].sum(), 2000, 0.93) > FALSE_ALARM
    assert binom.cdf(held[:, 1].sum(), 2000, 0.93) < FALSE_ALARM


def test_what_was_never_seen_gets_a_bound_that_holds():
    """A state that two thirds of the runs miss: its bound must contain its probability."""
    p = np.array([0.5, 0.4995, 0.0005])
    q = np.array([0.3, 0.699, 0.001])
    rng = np.random.default_rng([SEED, 6])
    missed = held = 0
    for _ in range(2000):
        sample = importance_sample(lambda x: np.log(p)[x], Finite(q), 400, rng)
        estimate = sample.expectation(lambda x: x == 2)
        low, high = estimate.interval()
        missed += estimate.value == 0
        held += low <= p[2] <= high
        if estimate.value == 0:
            other = sample.expectation(lambda x: x != 2)
            assert other.value == 1
            assert other.interval() == (pytest.approx(1 - high), 1.0)
    assert missed > 1000
    assert held > 0.93 * 2000
