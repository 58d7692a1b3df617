"""Maximum likelihood by the monotone algorithm, and the search for separation."""

import numpy as np
import pytest

from doxa.errors import ArgumentError
from doxa.models.logistic_regression import make_problem
from doxa.parameters.variational import laplace as module
from doxa.parameters.variational.bound import lambda_of, log_logistic
from doxa.parameters.variational.laplace import find_separation, maximum_likelihood
from support.checks import SEED
from support.logistic_cases import expand, random_problem


def test_the_likelihood_never_decreases_and_the_gradient_vanishes():
    rng = np.random.default_rng(SEED)
    for _ in range(10):
        problem = random_problem(rng, 80, 3, scale=0.7, full=True, counts=True)
        found = maximum_likelihood(problem)
        assert found.converged
        assert found.verdict == "converged"
        assert (np.diff(found.trace) >= 0).all()
        logits = problem.sign * (problem.offset + problem.design @ found.coefficients)
        gradient = (problem.sign[:, None] * problem.design).T @ (problem.counts / (1 + np.exp(logits)))
        assert np.abs(gradient).max() < 2e-3
        plain = maximum_likelihood(problem, memory=0)
        assert (np.diff(plain.trace) >= 0).all()
        assert np.allclose(plain.coefficients, found.coefficients, atol=1e-4)
        assert found.log_likelihood == pytest.approx(problem.counts @ log_logistic(logits))
        assert np.allclose(maximum_likelihood(expand(problem)).coefficients, found.coefficients, atol=1e-6)


def test_a_step_is_equation_68():
    problem = random_problem(np.random.default_rng(SEED), 30, 3, bias=0.0)
    theta = np.array([0.3, -0.2, 0.5])
    logits = problem.sign * (problem.design @ theta)
    A = (problem.design * (2 * lambda_of(logits))[:, None]).T @ problem.design
    b = problem.design.T @ (problem.sign / 2)
    change, _ = module._step(problem.sign[:, None] * problem.design, problem.counts, logits)
    assert np.allclose(theta + change, np.linalg.solve(A, b))


def test_too_small_a_curvature_would_lower_the_likelihood(monkeypatch):
    monkeypatch.setattr(module, "lambda_of", lambda xi: lambda_of(xi) / 4)
    problem = random_problem(np.random.default_rng(SEED), 80, 3, scale=0.7)
    theta, values = np.zeros(3), []
    for _ in range(20):
        logits = problem.sign * (problem.offset + problem.design @ theta)
        values.append(log_logistic(logits).sum())
        theta = theta + module._step(problem.sign[:, None] * problem.design, problem.counts, logits)[0]
    assert np.diff(values).min() < -0.1


def test_closed_form():
    found = maximum_likelihood(make_problem([[1.0], [1.0]], [1, -1], counts=[30, 10], offset=0.5))
    assert found.coefficients[0] == pytest.approx(np.log(3) - 0.5, abs=1e-5)


@pytest.mark.parametrize("kind", ["complete", "quasi", "one-sided"])
def test_separable_data_are_said_to_be(kind):
    rng = np.random.default_rng(SEED)
    x = np.concatenate([rng.uniform(-3, -0.1, 20), rng.uniform(0.1, 3, 20)])
    sign = np.sign(x)
    if kind == "quasi":
        x = np.concatenate([x, [0.0, 0.0]])
        sign = np.concatenate([sign, [1, -1]])
    if kind == "one-sided":
        sign = np.ones(40)
    problem = make_problem(np.column_stack([np.ones(x.size), x]), sign)
    found = maximum_likelihood(problem)
    assert not found.converged
    assert "separable" in found.verdict
    margins = problem.sign * (problem.design @ found.separation)
    assert margins.min() >= -1e-6
    assert margins.max() > 1e-3
    assert np.isfinite(found.coefficients).all()
    assert (np.diff(found.trace) >= 0).all()


def test_overlapping_data_are_not_separable():
    rng = np.random.default_rng(SEED)
    for d in (1, 5, 20):
        assert find_separation(random_problem(rng, 300, d, scale=0.5)) is None
    # one row short of separation
    x = np.concatenate([np.linspace(-3, -0.1, 20), np.linspace(0.1, 3, 20), [0.2]])
    sign = np.concatenate([-np.ones(20), np.ones(20), [-1]])
    assert find_separation(make_problem(np.column_stack([np.ones(41), x]), sign)) is None


def test_dependent_columns_give_the_shortest_solution():
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal(60)
    sign = np.where(rng.random(60) < 1 / (1 + np.exp(-x)), 1, -1)
    pair = maximum_likelihood(make_problem(np.column_stack([x, x, np.zeros(60)]), sign))
    single = maximum_likelihood(make_problem(x[:, None], sign))
    assert np.allclose(pair.coefficients, [single.coefficients[0] / 2] * 2 + [0.0], atol=1e-5)


def test_limits_and_messages():
    problem = random_problem(np.random.default_rng(SEED), 80, 3, scale=0.7)
    assert maximum_likelihood(problem, max_iterations=2).verdict == "not converged after 2 iterations"
    with pytest.raises(ArgumentError, match="tolerance is -1; it must be above 0"):
        maximum_likelihood(problem, tolerance=-1)
    with pytest.raises(ArgumentError, match="max_iterations is 0"):
        maximum_likelihood(problem, max_iterations=0)
    empty = maximum_likelihood(make_problem(np.empty((0, 2)), []))
    assert empty.coefficients.tolist() == [0.0, 0.0]
    assert empty.log_likelihood == 0.0
