"""Gaussians: density, draws, marginals, conditionals; whitening and its factors; the checks of a problem."""

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.logistic_regression import make_problem
from doxa.parameters.variational.bound import log_logistic
from doxa.parameters.variational.whitened import covariance_factor, divergence, row_variances, to_posterior, whiten
from doxa.sampling.gaussian import Gaussian, GaussianPosterior
from support.checks import SEED, z_limit
from support.logistic_cases import log_joint, random_problem


@pytest.fixture
def gaussian():
    rng = np.random.default_rng(SEED)
    root = rng.standard_normal((5, 5))
    return Gaussian.from_covariance(rng.standard_normal(5), root @ root.T + 0.1 * np.eye(5))


def test_density(gaussian):
    points = np.random.default_rng(SEED).standard_normal((7, 5))
    away = points - gaussian.mean
    _, log_det = np.linalg.slogdet(2 * np.pi * gaussian.covariance)
    expected = [-0.5 * (a @ np.linalg.solve(gaussian.covariance, a) + log_det) for a in away]
    assert np.allclose(gaussian.log_density(points), expected, rtol=1e-11)
    assert np.allclose(gaussian.precision(), np.linalg.inv(gaussian.covariance))
    assert gaussian.entropy == pytest.approx(0.5 * (log_det + 5))
    assert gaussian.n_dimensions == 5


def test_draws_have_the_mean_and_covariance(gaussian):
    n = 40_000
    draws = gaussian.sample(n, np.random.default_rng(SEED))
    noise = np.linalg.solve(gaussian.cholesky, (draws - gaussian.mean).T)
    products = noise @ noise.T / n
    z = np.concatenate([noise.mean(axis=1) * np.sqrt(n), (products - np.eye(5))[np.triu_indices(5)] * np.sqrt(n / 2)])
    assert np.abs(z).max() < z_limit(z.size)
    assert np.array_equal(draws, gaussian.sample(n, np.random.default_rng(SEED)))


def test_marginals_and_conditionals(gaussian):
    block, rest = [3, 1], [0, 2, 4]
    s = gaussian.covariance
    marginal = gaussian.marginal(block)
    assert np.allclose(marginal.mean, gaussian.mean[block])
    assert np.allclose(marginal.covariance, s[np.ix_(block, block)])
    values = np.array([0.3, -1.0, 2.0])
    gain = s[np.ix_(block, rest)] @ np.linalg.inv(s[np.ix_(rest, rest)])
    law = gaussian.conditional(block, values)
    assert np.allclose(law.mean, gaussian.mean[block] + gain @ (values - gaussian.mean[rest]))
    assert np.allclose(law.covariance, s[np.ix_(block, block)] - gain @ s[np.ix_(rest, block)])
    assert np.allclose(gaussian.conditional_map(block).gain, gain)
    # density of the whole = of the rest times of the block given the rest
    whole = np.empty(5)
    whole[block], whole[rest] = [0.1, 0.2], values
    parts = gaussian.marginal(rest).log_density([values]) + law.log_density([[0.1, 0.2]])
    assert np.allclose(gaussian.log_density([whole]), parts)
    everything = gaussian.conditional([0, 1, 2, 3, 4], [])
    assert np.allclose(everything.covariance, s)


def test_gaussian_messages(gaussian):
    with pytest.raises(ArgumentError, match=r"block is \[1, 1\]; it must name at least one coefficient, each once"):
        gaussian.marginal([1, 1])
    with pytest.raises(ArgumentError, match=r"block is \[5\]; indices are 0..4"):
        gaussian.marginal([5])
    with pytest.raises(ArgumentError, match=r"rest_values has shape \(1,\); 4 coefficients are not in block"):
        gaussian.conditional([0], [1.0])
    with pytest.raises(ArgumentError, match=r"thetas has shape \(5,\); it must be \(n, 5\)"):
        gaussian.log_density(np.zeros(5))
    with pytest.raises(ArgumentError, match="covariance has no Cholesky factor"):
        Gaussian.from_covariance([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ArgumentError, match="mean and covariance have shapes"):
        Gaussian.from_covariance([0.0, 0.0], [[1.0]])


def test_repr_says_what_it_is():
    posterior = GaussianPosterior(np.zeros(1), np.eye(1), "Laplace", -1.5, "estimate", 3, False)
    assert repr(posterior) == (
        "<GaussianPosterior by Laplace: 1 coefficients, estimate -1.5000 of the log evidence, not converged>"
    )


def test_whitening_changes_no_joint_density():
    problem = random_problem(np.random.default_rng(SEED), 20, 4, full=True, counts=True)
    whitened = whiten(problem)
    u = np.random.default_rng(SEED).standard_normal((6, 4))
    thetas = problem.prior_mean + u @ whitened.prior_cholesky.T
    logits = whitened.offset[:, None] + whitened.rows @ u.T
    log_det = np.log(np.diag(whitened.prior_cholesky)).sum()
    inside = whitened.counts @ log_logistic(logits) - 0.5 * (u**2).sum(axis=1) - 2 * np.log(2 * np.pi) - log_det
    assert np.allclose(inside, log_joint(problem, thetas), rtol=1e-12)


@pytest.mark.parametrize("size", [1.0, 1e12])
def test_factors(size):
    rng = np.random.default_rng(SEED)
    rows, weights = rng.standard_normal((30, 4)), rng.random(30) * size
    rows[:, 3] = rows[:, 0]
    factor = covariance_factor(rows, weights)
    assert np.array_equal(factor, np.tril(factor))
    assert (np.diag(factor) > 0).all()
    stack = np.concatenate([np.sqrt(weights)[:, None] * rows, np.eye(4)]) @ factor
    assert np.allclose(stack.T @ stack, np.eye(4), atol=1e-6)
    spread = factor @ factor.T
    assert np.allclose(row_variances(rows, factor), np.einsum("ti,ij,tj->t", rows, spread, rows))


def test_factors_survive_weights_that_swamp_the_prior():
    rows = np.ones((10, 2)) * 1e6
    rows[0] += 1
    factor = covariance_factor(rows, np.full(10, 1e9))
    assert np.isfinite(factor).all()
    # the direction (1, -1) is seen by no row but the prior: its variance stays 1
    assert np.sum((np.array([1, -1]) / np.sqrt(2) @ factor) ** 2) == pytest.approx(1.0, rel=1e-3)


def test_divergence_from_the_prior():
    rng = np.random.default_rng(SEED)
    mean, factor = rng.standard_normal(3), np.tril(rng.standard_normal((3, 3)))
    factor[np.diag_indices(3)] = [0.5, 1.0, 2.0]
    s = factor @ factor.T
    expected = 0.5 * (np.trace(s) + mean @ mean - 3 - np.log(np.linalg.det(s)))
    assert divergence(mean, factor) == pytest.approx(expected)
    assert divergence(np.zeros(3), np.eye(3)) == 0.0


def test_back_to_the_users_coordinates():
    problem = random_problem(np.random.default_rng(SEED), 20, 3, full=True)
    whitened = whiten(problem)
    posterior = to_posterior(whitened, np.zeros(3), np.eye(3), method="prior")
    assert np.allclose(posterior.mean, problem.prior_mean)
    assert np.allclose(posterior.covariance, problem.prior_covariance)


class TestProblem:
    def test_equal_rows_are_put_together_in_order_of_appearance(self):
        rng = np.random.default_rng(SEED)
        design = rng.choice([-1.0, 1.0], (3000, 4))
        sign, offset = rng.choice([-1, 1], 3000), rng.choice([0.0, 0.5], 3000)
        problem = make_problem(design, sign, offset=offset)
        table = np.column_stack([design, sign, offset])
        seen: dict[tuple, int] = {}
        for row in map(tuple, table):
            seen[row] = seen.get(row, 0) + 1
        got = np.column_stack([problem.design, problem.sign, problem.offset])
        assert list(map(tuple, got)) == list(seen)
        assert problem.counts.tolist() == list(seen.values())

    def test_collisions_of_hashes_do_no_harm(self, monkeypatch):
        from doxa.models import logistic_regression as module

        hashed = []

        def collide(table):
            hashed.append(len(table))
            return np.zeros(len(table), dtype=np.uint64)

        monkeypatch.setattr(module, "_hash_rows", collide)
        self.test_equal_rows_are_put_together_in_order_of_appearance()
        assert hashed == [3000]

    def test_rows_may_be_kept_and_empty_rows_go(self):
        kept = make_problem([[1.0], [1.0], [2.0]], [1, 1, -1], counts=[1, 2, 0], collapse=False)
        assert kept.counts.tolist() == [1.0, 2.0]
        assert make_problem([[0.0], [-0.0]], [1, 1]).counts.tolist() == [2.0]
        assert make_problem(np.empty((0, 2)), []).design.shape == (0, 2)

    def test_the_prior_may_be_short(self):
        assert make_problem([[1.0, 2.0]], [1]).prior_covariance.tolist() == [[100.0, 0.0], [0.0, 100.0]]
        assert make_problem([[1.0, 2.0]], [1], prior_covariance=[1.0, 4.0]).prior_covariance[1, 1] == 4.0
        assert make_problem([[1.0, 2.0]], [1], prior_mean=3).prior_mean.tolist() == [3.0, 3.0]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"design": [1.0, 2.0]}, r"design has shape \(2,\); it must be \(rows, d\) with d of at least 1"),
            ({"design": np.empty((2, 0))}, r"design has shape \(2, 0\)"),
            ({"design": [[1.0], [np.nan]]}, r"design\[1, 0\] is nan; every number must be finite"),
            ({"design": [[1.0], [1.0, 2.0]]}, "design is not a rectangular array of numbers"),
            ({"sign": [1, 0]}, r"sign\[1\] is 0; outcomes are -1 or \+1"),
            ({"sign": [1]}, r"sign has shape \(1,\); it must be \(2,\), one for each row of design"),
            ({"counts": [1, -2]}, r"counts\[1\] is -2; counts of cases must not be negative"),
            ({"offset": [1.0, np.inf]}, r"offset\[1\] is inf"),
            ({"prior_mean": [1.0, 2.0]}, r"prior_mean has shape \(2,\); it must be \(1,\), one for each column"),
            ({"prior_covariance": 0.0}, "prior_covariance holds a variance of 0; variances must be above 0"),
            ({"prior_covariance": np.eye(2)}, r"prior_covariance has shape \(2, 2\); it must be \(1, 1\)"),
            (
                {"prior_covariance": [[-1.0]]},
                "not positive definite: its smallest eigenvalue is -1; it must be above 0",
            ),
        ],
    )
    def test_messages(self, change, message):
        arguments = {"design": [[1.0], [2.0]], "sign": [1, -1], **change}
        with pytest.raises(ArgumentError, match=message):
            make_problem(**arguments)

    def test_more_messages(self):
        with pytest.raises(ArgumentError, match="prior_covariance is not symmetric"):
            make_problem([[1.0, 2.0]], [1], prior_covariance=[[1.0, 0.5], [0.0, 1.0]])
        with pytest.raises(ArgumentTypeError, match="design holds values of type"):
            make_problem([["a"]], [1])


def test_extrapolation_solves_linear_iterations():
    from doxa.parameters.variational.whitened import extrapolate

    rng = np.random.default_rng(SEED)
    turn = 0.3 * rng.standard_normal((4, 4))
    fixed = rng.standard_normal(4)
    points = [rng.standard_normal(4) for _ in range(5)]
    ends = [fixed + turn @ (point - fixed) for point in points]
    found = extrapolate([end - point for end, point in zip(ends, points, strict=True)], ends)
    assert np.allclose(found, fixed, atol=1e-5)
    assert np.array_equal(extrapolate([ends[0] - points[0]], [ends[0]]), ends[0])
