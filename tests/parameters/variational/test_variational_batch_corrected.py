"""The corrected covariance of the batch variational posterior, against quadrature."""

import numpy as np
import pytest

from doxa.models.logistic_regression import make_problem
from doxa.parameters.variational import batch
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.bound import expected_log_logistic, log_logistic
from doxa.parameters.variational.whitened import whiten
from support.checks import SEED


def problems(n=40):
    rng = np.random.default_rng(SEED)
    for case in range(n):
        d, n_rows = 1 + case % 2, int(rng.integers(1, 30))
        scale = np.exp(rng.normal(0, 0.7))
        yield make_problem(
            rng.normal(0, scale, (n_rows, d)), rng.choice([-1, 1], n_rows), offset=rng.normal(0, 0.5, n_rows),
            prior_covariance=1.0,
        )  # fmt: skip


def exact_sd(problem):
    """By the trapezoidal rule, with a standard normal prior."""
    white = whiten(problem)
    d = white.rows.shape[1]
    axis = np.linspace(-8, 8, 1601 if d == 1 else 161)
    points = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    log_p = log_logistic(points @ white.rows.T + white.offset) @ white.counts - 0.5 * (points**2).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    return np.sqrt(p @ points**2 - (p @ points) ** 2)


def error(**options):
    """Root mean square of the log ratios of deviations to the exact ones."""
    ratios = [batch_posterior(one, **options).sd / exact_sd(one) for one in problems()]
    return float(np.sqrt((np.log(np.concatenate(ratios)) ** 2).mean()))


def test_corrected_deviations_are_near_the_exact_ones():
    before, after = error(), error(corrected=True)
    assert after < 0.05
    assert after < before / 3


def test_a_curvature_that_is_a_quarter_too_large_is_seen(monkeypatch):
    def wrong(mean, sd):
        found = expected_log_logistic(mean, sd)
        return found._replace(curvature=1.25 * found.curvature)

    monkeypatch.setattr(batch, "expected_log_logistic", wrong)
    assert error(corrected=True) > 0.05


def test_mean_and_bound_stay():
    for problem in problems(4):
        plain, corrected = batch_posterior(problem), batch_posterior(problem, corrected=True)
        assert np.array_equal(plain.mean, corrected.mean)
        assert plain.log_evidence == corrected.log_evidence
        assert "corrected" in repr(corrected)
        assert (corrected.sd >= plain.sd - 1e-12).all()


def test_without_rows_the_prior_is_left():
    problem = make_problem(np.empty((0, 1)), [], prior_covariance=4.0)
    assert batch_posterior(problem, corrected=True).sd == pytest.approx([2.0])
