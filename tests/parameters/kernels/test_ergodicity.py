"""Corollary 1 of de Freitas et al., corrected: bounds on weights and rates that hold, and statements that are true."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from kernel_checks import logistic_target, paper_problem
from scipy.integrate import quad
from scipy.optimize import minimize

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.logistic_regression import make_problem
from doxa.parameters.kernels.ergodicity import Ergodicity, gaussian_ergodicity, mixture_ergodicity, with_prior
from doxa.parameters.kernels.independence import Independence
from doxa.parameters.kernels.kernel import start_at
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.laplace import laplace_posterior
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.sampling.gaussian import Gaussian
from support.checks import SEED, z_limit

ONE = make_problem([[1.0], [2.0], [0.5]], [1, 1, -1], prior_covariance=4.0)
WIDE_GRID = np.linspace(-400, 400, 160_001)[:, None]


def rng_of(seed):
    return np.random.default_rng([SEED, 170, seed])


def prior_of(problem):
    return Gaussian.from_covariance(problem.prior_mean, problem.prior_covariance)


def log_evidence_of(problem):
    target = logistic_target(problem)
    return float(np.log(quad(lambda x: np.exp(target.log_density(np.array([[x]]))[0]), -40, 40, epsabs=1e-13)[0]))


def max_log_likelihood_of(problem):
    target, prior = logistic_target(problem), prior_of(problem)
    return float((target.log_density(WIDE_GRID) - prior.log_density(WIDE_GRID)).max())


def log_weights(problem, proposal, thetas=WIDE_GRID):
    return logistic_target(problem).log_density(thetas) - log_evidence_of(problem) - proposal.log_density(thetas)


# --- bounds on the weights


@pytest.mark.parametrize(("mean", "sd"), [(0.5, 2.1), (-3.0, 2.5), (0.0, 20.0), (1.0, 2.0000001)])
def test_wide_gaussians_bound_the_weights(mean, sd):
    proposal = Gaussian(np.array([mean]), np.array([[sd]]))
    found = gaussian_ergodicity(
        proposal, prior_of(ONE), max_log_likelihood_of(ONE), log_evidence_of(ONE), "lower bound"
    )
    assert found.verdict == "uniform"
    assert found.guaranteed
    assert log_weights(ONE, proposal).max() <= found.log_beta
    if sd == 20:  # nearly flat where the posterior is: then beta is the product of three exact factors
        assert found.log_beta < log_weights(ONE, proposal).max() + 0.6


def test_without_data_the_bound_is_the_largest_ratio_of_prior_and_proposal():
    rng = rng_of(1)
    for d in (1, 2, 5):
        root = np.tril(rng.normal(size=(d, d)), -1) + np.diag(rng.uniform(0.5, 2, d))
        prior = Gaussian(rng.normal(size=d), root)
        proposal = Gaussian(prior.mean + 0.3 * rng.normal(size=d), np.linalg.cholesky(root @ root.T + np.eye(d)))
        found = gaussian_ergodicity(proposal, prior, 0.0, 0.0, "estimate")

        def drop(x, prior=prior, proposal=proposal):
            return float(proposal.log_density(x[None])[0] - prior.log_density(x[None])[0])

        best = minimize(
            drop, prior.mean, method="Nelder-Mead", options={"maxiter": 20_000, "xatol": 1e-9, "fatol": 1e-12}
        )
        assert found.log_beta == pytest.approx(-best.fun, abs=1e-6)
        assert not found.guaranteed


def test_the_printed_bound_is_none():
    """Equation 12 alone, without sup L sqrt(|S| / |Sigma_0|) / p(D), is below the weights that it should bound."""
    proposal = Gaussian(np.array([0.5]), np.array([[2.1]]))
    exponent = -0.5 * (WIDE_GRID[:, 0] / 2) ** 2 + 0.5 * ((WIDE_GRID[:, 0] - 0.5) / 2.1) ** 2
    printed = exponent.max()
    assert log_weights(ONE, proposal).max() > printed + 0.3
    found = gaussian_ergodicity(proposal, prior_of(ONE), max_log_likelihood_of(ONE), log_evidence_of(ONE), "estimate")
    missing = max_log_likelihood_of(ONE) - log_evidence_of(ONE) + np.log(2.1 / 2)
    assert found.log_beta == pytest.approx(printed + missing, abs=1e-6)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_a_share_of_the_prior_bounds_the_weights(share):
    problem = make_problem([[1.0]], [1], prior_covariance=9.0)  # likelihood near 1 far out: the bound is tight
    proposal = with_prior(optimal_posterior(problem), prior_of(problem), share)
    exact = log_evidence_of(problem)
    largest = log_weights(problem, proposal).max()
    bound = mixture_ergodicity(share, 0.0, exact, "estimate").log_beta
    assert largest <= bound + 1e-12
    if share < 0.5:
        assert largest > bound - 0.1
        # broken twin: a number above the evidence in its place bounds nothing
        assert largest > mixture_ergodicity(share, 0.0, exact + 0.2, "estimate").log_beta


def test_a_lower_bound_of_the_evidence_keeps_the_bound_honest():
    posterior = batch_posterior(ONE)
    assert posterior.evidence_kind == "lower bound"
    assert posterior.log_evidence < log_evidence_of(ONE)
    top = max_log_likelihood_of(ONE)
    cautious = mixture_ergodicity(0.1, top, posterior.log_evidence, posterior.evidence_kind)
    exact = mixture_ergodicity(0.1, top, log_evidence_of(ONE), "lower bound")
    assert cautious.log_beta > exact.log_beta
    assert cautious.distance(5) > exact.distance(5)
    assert (
        mixture_ergodicity(0.1, 0.0, posterior.log_evidence, "lower bound").log_beta > cautious.log_beta
    )  # sup L <= 1


# --- the rate


def worst_distances(weights, q, times):
    """Total variation norms of an independence chain on listed states, from the worst start, by its matrix."""
    p = weights * q
    matrix = q * np.minimum(1, weights / weights[:, None])
    np.fill_diagonal(matrix, 0)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    return [np.abs(np.linalg.matrix_power(matrix, n) - p).sum(axis=1).max() for n in times]


def test_chains_converge_as_fast_as_is_said_and_not_as_fast_as_printed():
    grid = np.linspace(-14, 14, 401)[:, None]
    proposal = with_prior(laplace_posterior(ONE), prior_of(ONE), 0.2)
    q = np.exp(proposal.log_density(grid))
    p = np.exp(logistic_target(ONE).log_density(grid))
    weights = (p / p.sum()) / (q / q.sum())
    found = mixture_ergodicity(0.2, max_log_likelihood_of(ONE), log_evidence_of(ONE), "lower bound")
    times = [1, 2, 5, 20]
    seen = worst_distances(weights, q / q.sum(), times)
    assert all(x <= found.distance(n) for x, n in zip(seen, times, strict=True))
    too_small = Ergodicity("uniform", float(np.log(weights.max())) * 0.7, guaranteed=True)  # broken twin: beta below w
    assert any(x > too_small.distance(n) for x, n in zip(seen, times, strict=True))


def test_steps_and_distances_agree():
    for log_beta in (1e-6, 0.3, 0.7, 5.0, 50.0):
        rate = Ergodicity("uniform", log_beta, guaranteed=True)
        for distance in (1.0, 1e-3):
            steps = rate.steps_to(distance)
            assert np.log(distance / 2) == pytest.approx(steps * rate.log_rate, rel=1e-9)
        assert rate.steps_to(2.0) == 0
    assert Ergodicity("uniform", 50.0, guaranteed=True).steps_to(0.02) == pytest.approx(
        np.log(100) * np.exp(50), rel=1e-9
    )
    perfect = Ergodicity("uniform", 0.0, guaranteed=True)  # beta = 1: the proposal is the posterior
    assert (perfect.distance(0), perfect.distance(1), perfect.steps_to(0.5)) == (2.0, 0.0, 1.0)
    for hopeless in (
        Ergodicity("not geometric", np.inf, guaranteed=True),
        Ergodicity("uniform", 800.0, guaranteed=False),
    ):
        assert hopeless.distance(10**9) == 2.0
        assert hopeless.steps_to(0.01) == np.inf


# --- statements


@pytest.mark.parametrize("approximate", [laplace_posterior, optimal_posterior, batch_posterior])
def test_every_approximation_is_narrower_than_the_prior(approximate):
    rng = rng_of(2)
    for d, n_rows in ((1, 3), (3, 2), (5, 60)):
        problem = make_problem(rng.normal(size=(n_rows, d)), rng.choice([-1, 1], n_rows), prior_covariance=9.0)
        fit, prior = approximate(problem), prior_of(problem)
        found = gaussian_ergodicity(fit, prior, 0.0, -50.0, "lower bound")
        assert found.verdict == "not geometric"
        assert "not geometrically ergodic" in str(found)
        assert found.log_beta == np.inf
        target, direction = logistic_target(problem), np.linalg.svd(problem.design)[2][0]
        far = fit.mean + np.array([[50.0], [100.0], [200.0]]) * direction
        weights = target.log_density(far) - fit.log_density(far)
        assert weights[0] < weights[1] < weights[2]
        assert weights[2] - weights[1] > 2 * (weights[1] - weights[0])  # faster than linear


def test_equal_variances_do_not_suffice():
    """The paper's one-dimensional remark allows them: with different means the ratio grows without bound."""
    prior = Gaussian(np.zeros(1), np.eye(1))
    moved = gaussian_ergodicity(Gaussian(np.ones(1), np.eye(1)), prior, -1.0, -2.0, "estimate")
    assert moved.verdict == "cannot tell"
    assert moved.log_beta == np.inf
    assert str(moved).startswith("cannot tell: the ratio of prior and proposal is unbounded")
    same = gaussian_ergodicity(prior, prior, -1.0, -2.0, "estimate")
    assert same == Ergodicity("uniform", 1.0, guaranteed=False)
    assert "log beta about 1.000" in str(same)
    partly = gaussian_ergodicity(
        Gaussian(np.array([0.0, 0.5]), np.diag([1.0, 2.0])), Gaussian(np.zeros(2), np.eye(2)), 0.0, -1.0, "lower bound"
    )
    assert partly.log_beta == pytest.approx(1 + np.log(2) + 0.25 / 6)
    mixed = gaussian_ergodicity(
        Gaussian(np.zeros(2), np.diag([0.9, 2.0])), Gaussian(np.zeros(2), np.eye(2)), 0.0, -1.0, "lower bound"
    )
    assert mixed.verdict == "not geometric"


# --- the proposal with the prior in it


def test_the_prior_s_share_frees_chains_that_the_gaussian_holds():
    problem = make_problem([[1.0]] * 6, [1, -1, 1, 1, -1, 1], prior_covariance=9.0)
    fit, prior = optimal_posterior(problem), prior_of(problem)
    target = logistic_target(problem)
    start = start_at(target, np.full((2000, 1), fit.mean[0] + 9 * fit.sd[0]))
    stuck, _ = Independence(fit).run(target, start, 50, rng_of(3))
    assert (stuck.thetas == start.thetas).mean() > 0.99
    freed, _ = Independence(with_prior(fit, prior, 0.2)).run(target, start, 50, rng_of(4))
    assert (freed.thetas == start.thetas).mean() < 0.01
    grid = np.linspace(-10, 10, 400_001)
    density = np.exp(target.log_density(grid[:, None]))
    edges = np.array([-np.inf, -0.5, 0.0, 0.3, 0.6, 0.9, 1.4, np.inf])
    exact = np.array([density[(grid > a) & (grid <= b)].sum() for a, b in pairwise(edges)])
    exact /= exact.sum()
    seen = np.histogram(freed.thetas, edges)[0] / 2000
    assert (np.abs(seen - exact) < z_limit(7) * np.sqrt(exact * (1 - exact) / 2000)).all()


def test_the_bound_on_the_paper_s_problem_is_true_and_useless():
    """Twenty dimensions, a thousand rows: from the worst start e^40 steps may be needed, which a report should say."""
    problem = paper_problem(20)
    fit = optimal_posterior(problem)
    best = laplace_posterior(problem._replace(prior_covariance=1e8 * np.eye(20))).mean
    flat = problem._replace(prior_covariance=1e8 * np.eye(20))
    top = float((logistic_target(flat).log_density(best[None]) - prior_of(flat).log_density(best[None]))[0])
    found = mixture_ergodicity(0.05, top, fit.log_evidence, fit.evidence_kind)
    assert found.guaranteed
    assert 30 < found.log_beta < 120
    assert found.distance(10**6) > 1.999
    draws = with_prior(fit, prior_of(problem), 0.05).sample(4000, rng_of(5))
    weights = logistic_target(problem).log_density(draws) - with_prior(fit, prior_of(problem), 0.05).log_density(draws)
    assert weights.max() - fit.log_evidence < found.log_beta


# --- bad input


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: with_prior(*[Gaussian(np.zeros(1), np.eye(1))] * 2, 0.0),
            r"share is 0\.0; it must lie between 0 and 1",
        ),
        (lambda: mixture_ergodicity(1.0, 0.0, -1.0, "estimate"), r"share is 1\.0"),
        (
            lambda: mixture_ergodicity(0.1, 0.0, -1.0, "upper bound"),
            "evidence_kind is 'upper bound'; it must be 'lower",
        ),
        (lambda: mixture_ergodicity(0.1, np.inf, -1.0, "estimate"), "max_log_likelihood is inf; it must be a finite"),
        (lambda: mixture_ergodicity(0.1, 0.0, np.nan, "estimate"), "log_evidence is nan"),
        (lambda: mixture_ergodicity(0.1, -3.0, -2.0, "estimate"), "log_evidence is -2, above max_log_likelihood, -3"),
        (lambda: Ergodicity("uniform", 1.0, guaranteed=True).steps_to(0.0), r"distance is 0\.0; it must be above 0"),
        (lambda: Ergodicity("uniform", 1.0, guaranteed=True).distance(-1), "n_steps is -1; it must be at least 0"),
        (
            lambda: gaussian_ergodicity(
                Gaussian(np.zeros(2), np.eye(2)), Gaussian(np.zeros(1), np.eye(1)), 0.0, -1.0, "estimate"
            ),
            "gaussian has 2 coordinates, prior 1",
        ),
    ],
)
def test_what_bounds_nothing_is_refused(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_mixtures_have_no_closed_form():
    prior = Gaussian(np.zeros(1), np.eye(1))
    with pytest.raises(ArgumentTypeError, match="gaussian is of type Mixture, which has no mean"):
        gaussian_ergodicity(with_prior(prior, prior, 0.5), prior, 0.0, -1.0, "estimate")
