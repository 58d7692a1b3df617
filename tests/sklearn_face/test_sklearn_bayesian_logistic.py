"""`BayesianLogisticRegression`: draws from the exact posterior, and probabilities averaged over them."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from scipy.special import expit, log_expit

from doxa.errors import ArgumentError
from doxa.estimates.diagnostics import diagnose_real
from doxa.sklearn import BayesianLogisticRegression
from support.checks import SEED, z_limit


def rows(n=25):
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, 1))
    return X, np.where(rng.random(n) < expit(1.5 * X[:, 0] - 0.5), "yes", "no")


def exact(X, y, scale, weight=1.0, at=0.7):
    """Means of intercept and slope, probability at a point and its quantiles, log evidence: on a grid."""
    axis = np.linspace(-9, 13, 500)
    slope, intercept = (g.ravel() for g in np.meshgrid(axis, axis))
    logits = slope[:, None] * X[:, 0] + intercept[:, None]
    log_p = (weight * log_expit(np.where(y == "yes", logits, -logits))).sum(axis=1)
    log_p -= 0.5 * (slope**2 + intercept**2) / scale**2 + np.log(2 * np.pi * scale**2)
    p = np.exp(log_p - log_p.max())
    evidence = np.log(p.sum() * (axis[1] - axis[0]) ** 2) + log_p.max()
    p /= p.sum()
    chance = expit(slope * at + intercept)
    order = np.argsort(chance)
    ends = chance[order][np.searchsorted(np.cumsum(p[order]), [0.025, 0.975])]
    return np.array([p @ slope, p @ intercept]), p @ chance, ends, evidence


@pytest.mark.parametrize("method", ["auto", "independence", "hmc"])
def test_answers_are_those_of_a_grid(method):
    X, y = rows()
    draws = 1000 if method == "hmc" else 3000  # of which each takes many steps
    model = BayesianLogisticRegression(prior_scale=2.0, method=method, draws=draws, random_state=1).fit(X, y)
    means, chance, ends, evidence = exact(X, y, 2.0)
    for j in range(2):
        found = diagnose_real(model.draws_[..., j]).estimate
        assert abs(found.value - means[j]) < z_limit(2) * found.mcse
    found = diagnose_real(expit(model.draws_ @ [0.7, 1.0])).estimate
    assert model.predict_proba([[0.7]])[0, 1] == pytest.approx(found.value)
    assert abs(found.value - chance) < z_limit(1) * found.mcse
    np.testing.assert_allclose(model.predict_interval([[0.7]])[0], ends, atol=0.02)
    estimate = model.log_evidence()
    assert abs(estimate.value - evidence) < z_limit(1) * estimate.mcse < 0.1
    assert model.method_ == ("independence" if method == "auto" else method)


def test_weights_are_cases():
    X, y = rows(12)
    weight = np.tile([1, 2, 3], 4)
    model = BayesianLogisticRegression(prior_scale=2.0, random_state=1, draws=3000).fit(X, y, weight)
    means, *_ = exact(X, y, 2.0, weight)
    found = diagnose_real(model.draws_[..., 0]).estimate
    assert abs(found.value - means[0]) < z_limit(1) * found.mcse
    plain, *_ = exact(X, y, 2.0)
    assert abs(found.value - plain[0]) > 5 * found.mcse  # cases counted once would be seen


def test_the_same_seed_gives_the_same_draws():
    X, y = rows()
    one, two, other = (BayesianLogisticRegression(draws=50, random_state=seed).fit(X, y) for seed in (3, 3, 4))
    assert np.array_equal(one.draws_, two.draws_)
    assert not np.array_equal(one.draws_, other.draws_)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"draws": 3}, "draws is 3"),
        ({"chains": 0}, "chains is 0"),
        ({"method": "magic"}, "method is 'magic'"),
        ({"prior_scale": 0.0}, "prior_scale is 0.0"),
    ],
)
def test_options_out_of_range_are_refused(options, said):
    with pytest.raises(ArgumentError, match=said):
        BayesianLogisticRegression(**options).fit(*rows())


def test_an_interval_needs_a_probability():
    model = BayesianLogisticRegression(draws=20, random_state=1).fit(*rows())
    with pytest.raises(ArgumentError, match="prob is 2"):
        model.predict_interval([[0.0]], prob=2)
