"""Importance sampling against exact sums, and what it refuses."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln
from test_importance_targets import Finite, Normal, StudentT, log_normal, log_t

from doxa.errors import ArgumentError
from doxa.estimates import Estimate
from doxa.sampling.importance import ImportanceSample, Mixture, importance_sample
from doxa.sampling.importance_baseline import compare_with_chain, resample
from support.checks import SEED, z_limit

TARGET = np.array([0.3, 2.0, 0.5, 4.0, 0.2])  # sums to 7: skewed, not normalised
PROPOSAL = np.array([0.3, 0.1, 0.25, 0.2, 0.15])
F = np.array([-1.0, 0.5, 4.0, 2.0, -7.0])


def finite_sample(n, seed, proposal=PROPOSAL):
    rng = np.random.default_rng([SEED, seed])
    return importance_sample(lambda x: np.log(TARGET)[x], Finite(proposal), n, rng)


def every_sample(n):
    """All possible samples of n draws of the finite proposal, with their probabilities."""
    for states in product(range(5), repeat=n):
        draws = np.array(states)
        yield PROPOSAL[draws].prod(), ImportanceSample(draws, np.log(TARGET)[draws], np.log(PROPOSAL)[draws])


# --- exact: all samples listed


def mean_constant(estimate, n):
    return sum(p * np.exp(estimate(sample)) for p, sample in every_sample(n))


def test_the_normalising_constant_is_unbiased():
    assert mean_constant(lambda s: s.log_normalising_constant().value, 3) == pytest.approx(7.0, rel=1e-12)
    # broken twins: no weights at all; the mean of the logarithms
    assert abs(mean_constant(lambda s: s.log_target.mean(), 3) - 7) > 0.1
    assert abs(mean_constant(lambda s: s.log_weights.mean(), 3) - 7) > 0.1


def test_leaving_outliers_out_is_biased():
    """Also where the denominator made them large: the source calls that harmless."""
    trimmed = mean_constant(lambda s: s.without_outliers(0.6).log_normalising_constant().value, 4)
    assert trimmed < 7 - 0.3


def test_the_weighted_mean_of_listed_draws_is_exact():
    draws = np.arange(5)
    sample = ImportanceSample(draws, np.log(TARGET), np.log(PROPOSAL))
    weights = TARGET / PROPOSAL
    np.testing.assert_allclose(sample.weights, weights / weights.sum(), rtol=1e-14)
    assert sample.expectation(F.__getitem__).value == pytest.approx((weights * F).sum() / weights.sum(), rel=1e-14)
    assert sample.ess == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-14)


def test_the_error_is_that_of_the_ratio():
    n = 400_000
    sample = finite_sample(n, 1)
    p = TARGET / TARGET.sum()
    mean = p @ F
    asymptotic = np.sqrt((p**2 / PROPOSAL) @ (F - mean) ** 2 / n)
    assert sample.expectation(F.__getitem__).mcse == pytest.approx(asymptotic, rel=0.01)
    relative = np.sqrt(((p**2 / PROPOSAL).sum() - 1) / n)
    assert sample.log_normalising_constant().mcse == pytest.approx(relative, rel=0.01)


def test_estimates_lie_within_their_errors():
    sample = finite_sample(100_000, 2)
    p = TARGET / TARGET.sum()
    for f, exact in [(F, p @ F), (F**2, p @ F**2), (np.arange(5) == 2, p[2])]:
        estimate = sample.expectation(f.__getitem__)
        assert abs(estimate.value - exact) < z_limit(4) * estimate.mcse
    constant = sample.log_normalising_constant()
    assert abs(constant.value - np.log(7)) < z_limit(4) * constant.mcse
    assert sample.verdict.reliable


def test_the_prior_as_proposal_gives_the_marginal_likelihood():
    """Slides, eqs. 7-8: the mean likelihood of draws of the prior is p(D)."""

    class Uniform:
        def sample(self, n, rng):
            return rng.random((n, 1))

        def log_density(self, draws):
            return np.zeros(len(draws))

    def log_likelihood(p):
        return 12 * np.log(p[:, 0]) + 4 * np.log1p(-p[:, 0])

    sample = importance_sample(log_likelihood, Uniform(), 50_000, np.random.default_rng([SEED, 3]))
    constant = sample.log_normalising_constant()
    assert abs(constant.value - betaln(13, 5)) < z_limit(1) * constant.mcse
    assert constant.mcse < 0.01


# --- the best proposal


def variance_of_the_mean(p, q, f):
    """Slides, eq. 6, and Riggelsen, eq. 4.6: of one weighted draw, the target normalised."""
    return (f**2 * p**2 / q).sum() - (p @ f) ** 2


def variance_of_the_ratio(p, q, f):
    return (p**2 / q * (f - p @ f) ** 2).sum()


@pytest.mark.parametrize(
    ("variance", "size"),
    [
        (variance_of_the_mean, lambda p, f: np.abs(f)),
        (variance_of_the_ratio, lambda p, f: np.abs(f - p @ f)),
    ],
)
def test_the_best_proposal_is_proportional_to_the_size_of_f_times_the_target(variance, size):
    p = TARGET / TARGET.sum()
    best = size(p, F) * p
    best /= best.sum()
    least = variance(p, best, F)
    rng = np.random.default_rng(0)
    others = [*rng.dirichlet(np.ones(5), 500), *(best + 1e-3 * (rng.dirichlet(np.ones(5), 500) - best)), p]
    assert min(variance(p, q, F) for q in others) > least
    assert variance(p, p, F) > 1.2 * least
    assert (F * p).min() < 0  # q proportional to f pi, as printed, is no distribution


def test_the_best_proposal_gives_the_smallest_errors():
    p = TARGET / TARGET.sum()
    best = np.abs(F - p @ F) * p
    errors = [finite_sample(40_000, 4, q).expectation(F.__getitem__).mcse for q in (best / best.sum(), p, PROPOSAL)]
    assert errors[0] < 0.9 * errors[1]
    assert errors[0] < 0.9 * errors[2]


# --- mixtures


def test_a_mixture_is_weighted_by_its_whole_density():
    parts = [np.array([0.5, 0.5, 0.0, 0.0, 0.0]), np.array([0.0, 0.25, 0.25, 0.25, 0.25])]
    mixture = Mixture([Finite(part) for part in parts], [0.3, 0.7])
    whole = 0.3 * parts[0] + 0.7 * parts[1]
    np.testing.assert_allclose(np.exp(mixture.log_density(np.arange(5))), whole, rtol=1e-14)
    rng = np.random.default_rng([SEED, 5])
    n = 100_000
    draws = mixture.sample(n, rng)
    for part in (draws, draws[: n // 4], draws[-n // 4 :]):  # the order is random too
        seen = np.bincount(part, minlength=5) / part.size
        assert (np.abs(seen - whole) / np.sqrt(whole * (1 - whole) / part.size)).max() < z_limit(15)


def test_a_wide_component_bounds_the_weights():
    narrow, wide = Normal(0.0, 1.0), StudentT(3.0)
    draws = np.linspace(-50, 50, 1001)
    log_target = log_t(draws, 3.0)
    alone = log_target - narrow.log_density(draws)
    mixed = log_target - Mixture([narrow, wide], [0.9, 0.1]).log_density(draws)
    assert alone.max() > 1000
    assert np.exp(mixed.max()) <= 10 * (1 + 1e-12)


def test_a_mixture_may_have_unused_components_and_several_dimensions():
    class Square(Normal):
        def sample(self, n, rng):
            return self.mean + self.scale * rng.normal(size=(n, 2))

        def log_density(self, draws):
            return log_normal(draws, self.mean, self.scale).sum(axis=1)

    mixture = Mixture([Square(0.0, 1.0), Square(9.0, 1.0)], [1.0, 0.0])
    draws = mixture.sample(50, np.random.default_rng(0))
    assert draws.shape == (50, 2)
    np.testing.assert_allclose(mixture.log_density(draws), Square(0.0, 1.0).log_density(draws))
    nested = Mixture([mixture, Square(1.0, 2.0)], np.array([0.5, 0.5]))
    assert nested.sample(7, np.random.default_rng(0)).shape == (7, 2)


# --- resampling


def counts_of_resamples(sample, runs, n, seed, **options):
    rng = np.random.default_rng([SEED, seed])
    counts = np.zeros(sample.n)
    first = np.zeros(sample.n)
    for _ in range(runs):
        indices = resample(sample, n, rng, **options).indices
        counts += np.bincount(indices, minlength=sample.n)
        first[indices[0]] += 1
    return counts, first


def assert_frequencies(counts, p):
    """Independent choices, or better spread than such."""
    n = counts.sum()
    assert (np.abs(counts - n * p) / np.sqrt(n * p * (1 - p))).max() < z_limit(counts.size)


@pytest.mark.parametrize("method", ["systematic", "multinomial"])
def test_resampling_is_unbiased(method):
    sample = finite_sample(8, 6)
    counts, first = counts_of_resamples(sample, 4000, 3, 7, method=method)
    assert_frequencies(counts, sample.weights)
    assert_frequencies(first, sample.weights)
    with pytest.raises(AssertionError):  # broken twin: the weights forgotten
        assert_frequencies(counts, np.full(8, 1 / 8))


def test_without_the_shuffle_the_first_draw_would_be_biased():
    sample = finite_sample(8, 6)
    rng = np.random.default_rng([SEED, 8])
    first = np.zeros(8)
    for _ in range(4000):
        first[resample(sample, 3, rng).indices.min()] += 1
    with pytest.raises(AssertionError):
        assert_frequencies(first, sample.weights)


def test_systematic_copies_are_rounded_shares():
    sample = finite_sample(300, 9)
    result = resample(sample, 1000, np.random.default_rng(0))
    counts = np.bincount(result.indices, minlength=300)
    share = 1000 * sample.weights
    assert (counts >= np.floor(share - 1e-9)).all()
    assert (counts <= np.ceil(share + 1e-9)).all()
    assert result.n_distinct == (counts > 0).sum()
    assert result.most_copies == counts.max()
    np.testing.assert_array_equal(result.draws, sample.draws[result.indices])
    assert result.verdict == sample.verdict


def test_a_draw_of_weight_zero_is_never_chosen():
    log_target = np.array([-np.inf, 0.0, 0.0, -np.inf])
    sample = ImportanceSample(np.arange(4), log_target, np.zeros(4))

    class Edge:
        def random(self, n=None):
            return 0.0 if n is None else np.array([0.0, 0.5, 1 - 2**-53])[:n]

        def permutation(self, x):
            return x

    assert resample(sample, 3, Edge(), method="multinomial").indices.tolist() == [1, 2, 2]
    assert resample(sample, 2, Edge()).indices.tolist() == [1, 2]


# --- the baseline of a chain


def test_a_chain_that_agrees_and_one_that_does_not():
    sample = finite_sample(20_000, 10)
    exact = TARGET @ F / 7
    good = compare_with_chain(sample, F.__getitem__, Estimate(exact + 0.01, 0.02, 5000.0), evaluations=100_000)
    assert good.agrees
    assert good.text.startswith("Agree: chain ")
    assert good.efficiency == pytest.approx(good.baseline.mcse**2 * 20_000 / (0.02**2 * 100_000))
    bad = compare_with_chain(sample, F.__getitem__, Estimate(exact + 0.5, 0.02, 5000.0))
    assert bad.agrees is False
    assert np.isnan(bad.efficiency)
    assert "standard errors apart" in bad.text
    assert compare_with_chain(sample, F.__getitem__, Estimate.exactly(exact)).agrees


def test_a_baseline_that_cannot_be_trusted_agrees_with_nothing():
    sample = ImportanceSample(np.arange(1000) / 1000, -3 * np.log(np.arange(1, 1001)), np.zeros(1000))
    result = compare_with_chain(sample, lambda x: x, Estimate(0.0, 0.1, 100.0), evaluations=100)
    assert result.agrees is None
    assert np.isnan(result.efficiency)
    assert result.text.startswith("Cannot tell: chain 0.00 +/- 0.10, baseline ")
    assert "not reliable" in result.text
    unknown = compare_with_chain(finite_sample(500, 11), F.__getitem__, Estimate(0.0, np.nan, np.nan))
    assert unknown.agrees is None


# --- invariances

log_weight_lists = st.lists(st.floats(-50, 50) | st.just(-np.inf), min_size=2, max_size=60).filter(
    lambda lw: max(lw) > -np.inf
)


@settings(max_examples=60, deadline=None)
@given(log_weight_lists, st.floats(-1000, 1000), st.floats(-1000, 1000))
def test_constants_change_only_the_normalising_constant(log_weights, up, down):
    lw = np.array(log_weights)
    draws = np.arange(lw.size) ** 2
    plain = ImportanceSample(draws, lw, np.zeros(lw.size))
    moved = ImportanceSample(draws, lw + up, np.full(lw.size, down))
    np.testing.assert_allclose(moved.weights, plain.weights, rtol=1e-9, atol=1e-12)
    assert moved.ess == pytest.approx(plain.ess, rel=1e-9)
    np.testing.assert_allclose(moved.running_variance, plain.running_variance, rtol=1e-6, atol=1e-9)
    assert moved.expectation(np.sqrt).value == pytest.approx(plain.expectation(np.sqrt).value, rel=1e-9, abs=1e-12)
    there, here = moved.log_normalising_constant(), plain.log_normalising_constant()
    assert there.value == pytest.approx(here.value + up - down, rel=1e-9, abs=1e-9)
    assert there.delta_error == pytest.approx(here.delta_error, rel=1e-6, abs=1e-9, nan_ok=True)


@settings(max_examples=60, deadline=None)
@given(log_weight_lists, st.randoms(use_true_random=False))
def test_the_order_of_the_draws_does_not_matter(log_weights, random):
    lw = np.array(log_weights)
    order = list(range(lw.size))
    random.shuffle(order)
    draws = np.arange(lw.size) ** 2.0
    plain, shuffled = (ImportanceSample(draws[o], lw[o], np.zeros(lw.size)) for o in (np.arange(lw.size), order))
    assert shuffled.ess == pytest.approx(plain.ess, rel=1e-9)
    assert shuffled.pareto_k == pytest.approx(plain.pareto_k, rel=1e-6, nan_ok=True)
    for estimate in (lambda s: s.expectation(np.sqrt), lambda s: s.log_normalising_constant()):
        one, other = estimate(plain), estimate(shuffled)
        assert other.value == pytest.approx(one.value, rel=1e-9, abs=1e-9)
        assert other.delta_error == pytest.approx(one.delta_error, rel=1e-6, abs=1e-9, nan_ok=True)


def test_same_seed_same_draws():
    one, other = finite_sample(100, 12), finite_sample(100, 12)
    np.testing.assert_array_equal(one.draws, other.draws)
    np.testing.assert_array_equal(one.log_weights, other.log_weights)


def test_arrays_are_copies_that_cannot_be_written():
    draws = np.arange(3)
    sample = ImportanceSample(draws, np.zeros(3), np.zeros(3))
    draws[0] = 9
    assert sample.draws[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        sample.log_target[0] = 1.0


# --- bad input

ZEROS = np.zeros(3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [], []), "draws has length 0; importance sampling needs at least 2 draws"),
        (([1], [0.0], [0.0]), "draws has length 1; importance sampling needs at least 2 draws"),
        ((5, [0.0], [0.0]), "draws has length 0; importance sampling needs at least 2 draws"),
        (
            ([1, 2, 3], [0.0, 0.0], ZEROS),
            "log_target has shape (2,), but there are 3 draws; it must hold one number for each",
        ),
        (
            ([1, 2, 3], ZEROS, np.zeros((3, 1))),
            "log_proposal has shape (3, 1), but there are 3 draws; it must hold one number for each",
        ),
        (
            ([1, 2, 3], [0.0, np.nan, 0.0], ZEROS),
            "log_target[1] is nan; a log density is a finite number, or -inf where it is 0",
        ),
        (
            ([1, 2, 3], [0.0, 0.0, np.inf], ZEROS),
            "log_target[2] is inf; a log density is a finite number, or -inf where it is 0",
        ),
        (
            ([1, 2, 3], ZEROS, [np.nan, 0.0, 0.0]),
            "log_proposal[0] is nan; a log density is a finite number, or -inf where it is 0",
        ),
        (
            ([1, 2, 3], ZEROS, [0.0, -np.inf, 0.0]),
            "log_proposal[1] is -inf at a draw of the proposal itself; its log_density must be finite wherever its "
            "sample lands",
        ),
        (
            ([1, 2, 3], np.full(3, -np.inf), ZEROS),
            "log_target is -inf at all 3 draws, so every weight is 0: the proposal never meets the target; use one "
            "that covers it",
        ),
    ],
)
def test_draws_that_cannot_be_weighted_are_refused(arguments, message):
    with pytest.raises(ArgumentError) as refused:
        ImportanceSample(*arguments)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.2, -0.2], "weights[1] is -0.2; the weights of a mixture must not be negative"),
        ([np.nan, 1.0], "weights[0] is nan; the weights of a mixture must not be negative"),
        ([0.5, 0.4], "weights sum to 0.9; they must sum to 1"),
        ([0.5, 0.25, 0.25], "weights has shape (3,), but there are 2 components"),
    ],
)
def test_weights_of_a_mixture_that_are_none_are_refused(weights, message):
    with pytest.raises(ArgumentError) as refused:
        Mixture([Normal(0.0, 1.0), Normal(1.0, 1.0)], weights)
    assert str(refused.value) == message


def test_mixtures_of_nothing_or_of_unlike_things_are_refused():
    with pytest.raises(ArgumentError) as refused:
        Mixture([], [])
    assert str(refused.value) == "components is empty; a mixture needs at least one"

    class Plane(Normal):
        def sample(self, n, rng):
            return rng.normal(size=(n, 2))

    with pytest.raises(ArgumentError) as refused:
        Mixture([Normal(0.0, 1.0), Plane(0.0, 1.0)], [0.5, 0.5]).sample(100, np.random.default_rng(0))
    assert str(refused.value) == "the components draw different shapes, [(), (2,)]; all must agree"


@pytest.mark.parametrize("n", [1, 0, -3, 2.5, True, "10"])
def test_numbers_of_draws_that_are_none_are_refused(n):
    with pytest.raises(ArgumentError) as refused:
        importance_sample(lambda x: x, Normal(0.0, 1.0), n, np.random.default_rng(0))
    assert str(refused.value) == f"n is {n!r}; it must be an integer of at least 2"


def test_a_proposal_that_returns_too_few_draws_is_refused():
    class Lazy(Normal):
        def sample(self, n, rng):
            return rng.normal(size=n - 1)

    with pytest.raises(ArgumentError) as refused:
        importance_sample(lambda x: x, Lazy(0.0, 1.0), 5, np.random.default_rng(0))
    assert str(refused.value) == "the proposal returned draws of shape (4,); the first axis must have length 5"


def test_functions_that_cannot_be_averaged_are_refused():
    sample = ImportanceSample(np.array([-1.0, 4.0, 9.0]), np.array([-np.inf, 0.0, 0.0]), ZEROS)
    with np.errstate(invalid="ignore"):
        assert sample.expectation(np.sqrt).value == 2.5  # nan where the weight is 0 is no harm
    with pytest.raises(ArgumentError) as refused:
        sample.expectation(lambda x: x[:2])
    assert str(refused.value) == "f returned shape (2,) for 3 draws; it must return one number for each draw"
    with pytest.raises(ArgumentError) as refused:
        sample.expectation(lambda x: np.where(x > 5, np.inf, 0.0))
    assert str(refused.value) == "f is inf at draw 2, whose weight is not 0; it must be finite there"


def test_resampling_refuses_what_it_cannot_do():
    sample = finite_sample(50, 13)
    with pytest.raises(ArgumentError) as refused:
        resample(sample, 0, np.random.default_rng(0))
    assert str(refused.value) == "n is 0; at least 1 draw must be asked for"
    with pytest.raises(ArgumentError) as refused:
        resample(sample, 5, np.random.default_rng(0), method="residual")
    assert str(refused.value) == "method is 'residual'; it must be 'systematic' or 'multinomial'"
