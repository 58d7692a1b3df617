"""The monitors of importance weights: what they see, and the verdict that follows."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base import array_stats
from test_importance_targets import Normal, ParetoWeight, StudentT, log_normal, log_t

from doxa.errors import ArgumentError
from doxa.sampling.importance import ImportanceSample, importance_sample
from doxa.sampling.importance_weights import (
    check_log_weights,
    judge_weights,
    kish_ess,
    log_mean_exp,
    normalised_weights,
    pareto_k,
    pareto_k_limit,
    running_variance,
    tail_aware_law,
    variance_jumps,
)
from support.checks import SEED


def rng(seed):
    return np.random.default_rng([SEED, seed])


# --- Pareto k


def test_a_normal_proposal_is_too_thin_for_a_t_target():
    """True k is 1, the estimate about 0.8: it judges the tail at the draws there are."""
    generator = rng(1)
    samples = [importance_sample(lambda x: log_t(x, 1.0), Normal(0.0, 0.5), 20_000, generator) for _ in range(20)]
    assert np.median([sample.pareto_k for sample in samples]) > 0.7
    assert not any(sample.verdict.reliable for sample in samples)
    worst = max(samples, key=lambda sample: sample.pareto_k)
    assert worst.verdict.reliable is False
    assert worst.verdict.text.startswith(
        f"Not reliable: Pareto k of the weights is {worst.pareto_k:.2f} (limit 0.70), ess "
    )
    assert "widen the tails" in worst.verdict.advice


def test_the_reverse_passes():
    wide = importance_sample(lambda x: log_normal(x, 0.0, 1.0), StudentT(2.0), 20_000, rng(2))
    assert wide.pareto_k < 0.3
    assert wide.verdict.reliable
    assert wide.verdict.advice == ""


@pytest.mark.parametrize("k", [0.2, 0.5, 0.7, 1.0])
def test_the_shape_of_a_pareto_tail_is_found(k):
    sample = importance_sample(lambda u: -k * np.log(u), ParetoWeight(), 100_000, rng(3))
    assert abs(sample.pareto_k - k) < 6 * (1 + k) / np.sqrt(
        3 * np.sqrt(100_000)
    )  # its error is about (1 + k) / sqrt(M)


@pytest.mark.parametrize("n", [25, 100, 226, 1000, 5000])
def test_pareto_k_is_that_of_the_reference(n):
    log_weights = 1.5 * rng(4).normal(size=n)
    _, k = array_stats.psislw(-log_weights)  # takes the negative
    assert pareto_k(log_weights) == pytest.approx(float(k), rel=1e-9)
    assert pareto_k(log_weights - 5000) == pytest.approx(float(k), rel=1e-9)


@pytest.mark.parametrize(
    "log_weights",
    [
        np.zeros(1000),
        1e-14 * np.arange(1000.0),  # rounding
        np.zeros(24),
        np.r_[np.zeros(990), np.full(10, 5.0)],  # the foot of the tail is tied
        np.r_[np.full(200, 5.0), np.zeros(800)],  # the tail is one value
        np.r_[np.full(960, -np.inf), np.arange(40.0)],
    ],
)
def test_ties_have_no_tail(log_weights):
    assert np.isnan(pareto_k(log_weights))


def test_a_tail_beyond_measure_is_infinite():
    """Where the reference sees underflow, and calls it harmless."""
    log_weights = 1000 * rng(5).normal(size=1000)
    with np.errstate(all="ignore"):
        _, k = array_stats.psislw(-log_weights)
    assert not k > 0.7
    assert pareto_k(log_weights) == np.inf
    sample = ImportanceSample(np.arange(1000), log_weights, np.zeros(1000))
    assert sample.verdict.reliable is False
    assert sample.verdict.reason.startswith("Pareto k of the weights is inf (limit 0.67), ess 1 of 1000 draws")


def test_the_limit_is_lower_for_few_draws():
    assert pareto_k_limit(100) == pytest.approx(0.5)
    assert pareto_k_limit(2154) < 0.7
    assert pareto_k_limit(2155) == pytest.approx(0.7, abs=1e-4)


# --- the verdict


@pytest.mark.parametrize(
    ("arguments", "reliable", "text"),
    [
        ((4000, 2000.0, 0.5), True, "Reliable: Pareto k of the weights is 0.50 (limit 0.70), ess 2000 of 4000 draws."),
        (
            (4000, 2000.0, 0.7),
            None,
            "Cannot tell: Pareto k of the weights is 0.70 (limit 0.70), ess 2000 of 4000 draws; above 0.5 the variance "
            "of the weights is infinite. Widen the tails of the proposal, or draw more: k itself is uncertain, the "
            "less the more draws.",
        ),
        ((4000, 100.0, np.nan), True, "Reliable: no Pareto k (ties, or too few draws), ess 100 of 4000 draws."),
        (
            (4000, 99.0, 0.1),
            False,
            "Not reliable: Pareto k of the weights is 0.10 (limit 0.70), ess 99 of 4000 draws; an ess of at least 100 "
            "is wanted. Draw more (n=8081 may do), or bring the proposal closer to the target.",
        ),
        (
            (4000, 2000.0, 0.71),
            False,
            "Not reliable: Pareto k of the weights is 0.71 (limit 0.70), ess 2000 of 4000 draws. Few draws carry the "
            "estimate, and larger weights are to be expected: widen the tails of the proposal, or mix it with one that "
            "covers what it misses. More draws of the same proposal help little.",
        ),
        (
            (20, 18.0, np.nan),
            None,
            "Cannot tell: no Pareto k (ties, or too few draws), ess 18 of 20 draws; at least 25 are wanted. Draw more.",
        ),
    ],
)
def test_verdicts_in_words(arguments, reliable, text):
    verdict = judge_weights(*arguments)
    assert verdict.reliable is reliable
    assert verdict.text == text


def heavy_weights(k, seed):
    """Weights of a Pareto tail, at its quantiles: what they are does not depend on chance."""
    u = rng(seed).permutation((np.arange(5000) + 0.5) / 5000)
    return ImportanceSample(u, -k * np.log(u), np.zeros(5000))


@pytest.mark.parametrize(("k", "word"), [(1.2, "not reliable"), (0.6, "cannot tell")])
def test_estimates_from_bad_weights_have_no_error(k, word):
    sample = heavy_weights(k, 6)
    for estimate in (
        sample.expectation(lambda x: x),
        sample.expectation(lambda x: x > 0.5),
        sample.expectation(lambda x: x > 99),
        sample.log_normalising_constant(),
    ):
        assert np.isnan(estimate.mcse)
        assert np.isnan(estimate.interval()).all()
        assert estimate.delta_error > 0
        assert f"(error unknown; {word}: Pareto k of the weights is {sample.pareto_k:.2f}" in str(estimate)


def test_a_quantity_may_have_a_heavier_tail_than_the_weights():
    """Equal weights of a t target with 2 degrees of freedom: plain Monte Carlo, but x**2 has no mean."""
    sample = importance_sample(lambda x: log_t(x, 2.0) + 1e-3 * np.tanh(x), StudentT(2.0), 5000, rng(7))
    assert sample.verdict.reliable
    assert sample.expectation(lambda x: x > 1).verdict.reliable
    assert sample.expectation(np.tanh).verdict.reliable
    square = sample.expectation(lambda x: x**2)
    assert square.verdict.reliable is False
    assert "Pareto k of the weights times f is " in str(square)
    assert np.isnan(square.mcse)


def test_what_never_varied_has_no_error():
    sample = ImportanceSample(np.arange(1000), np.zeros(1000), np.full(1000, -2.0))
    constant = sample.log_normalising_constant()
    assert constant.value == pytest.approx(2.0)
    assert (
        str(constant)
        == "2 (error unknown; cannot tell: all weights are equal, which says nothing about their variance)"
    )
    same = sample.expectation(lambda x: np.full(1000, 3.5))
    assert same.value == 3.5
    assert np.isnan(same.mcse)
    assert sample.verdict.reliable  # plain Monte Carlo
    assert sample.expectation(lambda x: x).mcse == pytest.approx(np.arange(1000).std(ddof=1) / np.sqrt(1000), rel=1e-12)


def test_equal_weights_are_plain_monte_carlo():
    values = rng(8).normal(size=500)
    sample = ImportanceSample(values, np.zeros(500), np.zeros(500))
    estimate = sample.expectation(lambda x: x)
    assert estimate.value == pytest.approx(values.mean(), abs=1e-12)
    assert estimate.mcse == pytest.approx(values.std(ddof=1) / np.sqrt(500), rel=1e-12)
    assert sample.ess == pytest.approx(500)
    assert estimate.law.df == pytest.approx(500, rel=0.5)  # n for normal values


# --- the running variance


def test_the_running_variance_is_the_variance_of_the_first_weights():
    log_weights = rng(9).normal(size=50) - 900
    weights = normalised_weights(log_weights) * 50
    expected = [weights[:t].var(ddof=1) for t in range(2, 51)]
    variance = running_variance(log_weights)
    assert np.isnan(variance[0])
    np.testing.assert_allclose(variance[1:], expected, rtol=1e-10)
    assert kish_ess(log_weights) == pytest.approx(50 / (1 + variance[-1] * 49 / 50))  # the same number in other words


def test_it_jumps_where_a_bad_area_is_met():
    """A second mode that the proposal reaches once; the draws before know nothing of it."""
    good = rng(10).normal(size=2000)
    draws = np.insert(good, 1500, 6.0)
    log_target = np.logaddexp(log_normal(draws, 0.0, 1.0), log_normal(draws, 6.0, 0.3))
    sample = ImportanceSample(draws, log_target, log_normal(draws, 0.0, 1.1))
    assert sample.variance_jumps().tolist() == [1500]
    assert sample.running_variance[1500] > 1000 * sample.running_variance[1499]
    before = ImportanceSample(*(x[:1500] for x in (draws, log_target, log_normal(draws, 0.0, 1.1))))
    assert before.verdict.reliable  # it sees only what was drawn
    assert before.variance_jumps().size == 0
    assert sample.verdict.reliable is False


def test_mild_weights_do_not_jump():
    log_weights = 0.5 * rng(11).normal(size=(200, 1000))
    assert sum(variance_jumps(row).size for row in log_weights) <= 4  # a draw at five standard deviations may
    assert variance_jumps(np.zeros(100)).size == 0


def test_a_factor_that_is_none_is_refused():
    with pytest.raises(ArgumentError) as refused:
        variance_jumps(np.zeros(100), 1.0)
    assert str(refused.value) == "factor is 1.0; a jump multiplies the variance by more than 1, such as 2.0"


# --- outliers


def test_a_tail_is_the_denominators_doing():
    sample = importance_sample(lambda x: log_t(x, 2.0), Normal(0.0, 1.0), 20_000, rng(12))
    trimmed = sample.without_outliers(above=sample.weights.max() * 0.99)
    removal = trimmed.removal
    assert removal.causes == ("denominator",)
    assert removal.indices.tolist() == [sample.weights.argmax()]
    assert removal.shares[0] == sample.weights.max()
    assert removal.proposal_ranks[0] < 0.01
    assert removal.target_ranks[0] < 0.01
    assert trimmed.n == 19_999
    assert trimmed.n_removed == 1


def missed_mode():
    draws = np.append(rng(13).normal(size=1000), 7.0)
    log_target = np.logaddexp(log_normal(draws, 0.0, 1.0), log_normal(draws, 7.0, 0.3))
    return ImportanceSample(draws, log_target, log_normal(draws, 0.0, 1.1))


def test_a_missed_mode_is_the_numerators_doing():
    sample = missed_mode()
    trimmed = sample.without_outliers(above=0.5)
    assert trimmed.removal.causes == ("numerator",)
    assert trimmed.removal.proposal_ranks[0] == 0
    assert str(trimmed.removal) == (
        f"1 draw with {sample.weights[-1]:.1%} of the weight removed (1 by the numerator: the target is high there, "
        "perhaps a part that the proposal misses)"
    )


def test_the_report_follows_every_estimate():
    trimmed = missed_mode().without_outliers(above=0.5)
    assert sample_is_healthy(trimmed)
    assert trimmed.verdict.reliable is None
    assert trimmed.verdict.text.startswith(
        f"Cannot tell: {trimmed.removal}; of the others, Pareto k of the weights is "
    )
    for estimate in (
        trimmed.expectation(lambda x: x),
        trimmed.expectation(lambda x: x > 4.5),
        trimmed.log_normalising_constant(),
    ):
        assert np.isnan(estimate.mcse)
        assert estimate.delta_error > 0
        assert "(error unknown; cannot tell: 1 draw with " in str(estimate)


def sample_is_healthy(sample):
    return judge_weights(sample.n, sample.ess, sample.pareto_k).reliable


def test_the_constant_counts_the_draws_left_out():
    sample = missed_mode()
    trimmed = sample.without_outliers(above=0.5)
    kept = np.exp(sample.log_weights[:-1]).sum() / 1001
    estimate = trimmed.log_normalising_constant()
    assert estimate.value == pytest.approx(np.log(kept))
    weights = np.append(np.exp(sample.log_weights[:-1]), 0.0)
    assert estimate.delta_error == pytest.approx(weights.std(ddof=1) / np.sqrt(1001) / kept, rel=1e-9)


def test_nothing_above_the_share_is_nothing_removed():
    sample = heavy_weights(0.3, 15)
    same = sample.without_outliers(above=0.5)
    assert str(same.removal) == "no draw removed"
    assert same.n == sample.n
    assert same.verdict == sample.verdict
    assert same.verdict.reliable


@pytest.mark.parametrize("above", [0.0, 1.0, -1.0, np.nan])
def test_shares_that_are_none_are_refused(above):
    with pytest.raises(ArgumentError) as refused:
        missed_mode().without_outliers(above)
    assert str(refused.value) == f"above is {above}; it must be a share of the total weight, in (0, 1)"


def test_removing_all_or_twice_is_refused():
    with pytest.raises(ArgumentError) as refused:
        missed_mode().without_outliers(1e-12)
    assert str(refused.value) == (
        "above is 1e-12, which leaves fewer than 2 draws of positive weight; choose a larger share"
    )
    with pytest.raises(ArgumentError) as refused:
        missed_mode().without_outliers(0.5).without_outliers(0.5)
    assert str(refused.value) == "outliers were removed from this sample before; start from the original one"


# --- the numbers themselves


def test_logarithms_neither_overflow_nor_vanish():
    log_weights = np.array([5000.0, 5000.0 + np.log(3)])
    assert log_mean_exp(log_weights) == pytest.approx(5000 + np.log(2))
    np.testing.assert_allclose(normalised_weights(-log_weights), [0.75, 0.25])
    assert kish_ess([0.0, -np.inf]) == 1.0


@pytest.mark.parametrize(
    ("log_weights", "message"),
    [
        ([], "log_weights has shape (0,); it must be one axis of at least 2 draws"),
        ([0.0], "log_weights has shape (1,); it must be one axis of at least 2 draws"),
        (np.zeros((2, 2)), "log_weights has shape (2, 2); it must be one axis of at least 2 draws"),
        ([0.0, np.nan], "log_weights[1] is nan; each must be a finite number, or -inf for a weight of 0"),
        ([np.inf, 0.0], "log_weights[0] is inf; each must be a finite number, or -inf for a weight of 0"),
        (
            [-np.inf, -np.inf],
            "all 2 log_weights are -inf, so every weight is 0: the draws never meet the target",
        ),
    ],
)
def test_log_weights_that_are_none_are_refused(log_weights, message):
    with pytest.raises(ArgumentError) as refused:
        check_log_weights(log_weights)
    assert str(refused.value) == message


def test_the_law_of_equal_terms_is_normal_and_of_few_is_not():
    assert tail_aware_law(np.array([1.0, -1.0] * 50)).df == np.inf
    normal = tail_aware_law(rng(14).normal(size=20_000))
    assert normal.df == pytest.approx(20_000, rel=0.2)
    few = tail_aware_law(np.r_[-np.ones(3), np.full(300, 0.01)] * 1e-200, unit=True)
    assert few.df == pytest.approx(6, rel=0.05)
    assert few.skew == -few.df
    assert few.unit
