"""The classifier gives the answers of the approximations it names, in scikit-learn's words."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import get_tags

from doxa.errors import ArgumentError
from doxa.models.logistic_regression import make_problem
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.bound import log_logistic
from doxa.parameters.variational.laplace import laplace_posterior
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.parameters.variational.sequential import sequential_posterior
from doxa.sampling.gaussian import GaussianPosterior
from doxa.sklearn import VariationalLogisticRegression
from support.checks import SEED

FITS: dict[str, Any] = {
    "batch": batch_posterior,
    "optimal": optimal_posterior,
    "laplace": laplace_posterior,
    "sequential": sequential_posterior,
}


def rows(n=80, d=3, scale=1.0):
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, d))
    theta = scale * rng.standard_normal(d)
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-0.5 - X @ theta)), "yes", "no")


@pytest.mark.parametrize("method", FITS)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_posterior_is_that_of_the_method(method, intercept):
    X, y = rows()
    model = VariationalLogisticRegression(prior_scale=3.0, fit_intercept=intercept, method=method).fit(X, y)
    design = np.column_stack([X, np.ones(80)]) if intercept else X
    sign = np.where(y == "yes", 1, -1)
    known = FITS[method](make_problem(design, sign, prior_covariance=9.0, collapse=False))
    assert np.allclose(np.append(model.coef_[0], model.intercept_[: int(intercept)]), known.mean, atol=1e-3)
    assert np.allclose(model.covariance_, known.covariance, atol=1e-3)
    assert model.log_evidence_ == pytest.approx(known.log_evidence, abs=1e-4)
    assert model.evidence_kind_ == known.evidence_kind
    assert model.coef_.shape == (1, 3)
    assert model.intercept_.shape == (1,)
    assert intercept or model.intercept_[0] == 0
    assert model.classes_.tolist() == ["no", "yes"]


def log_evidence_on_a_grid(x, sign, prior_scale):
    theta = np.linspace(-12 * prior_scale, 12 * prior_scale, 40_001)
    log_joint = log_logistic(sign[:, None] * x[:, None] * theta).sum(axis=0) - 0.5 * (theta / prior_scale) ** 2
    peak = log_joint.max()
    total = np.exp(log_joint - peak).sum() * (theta[1] - theta[0])
    return np.log(total) + peak - np.log(prior_scale * np.sqrt(2 * np.pi))


def test_bounds_are_below_the_evidence():
    for seed in range(SEED, SEED + 20):
        rng = np.random.default_rng(seed)
        x, y = rng.standard_normal(12), rng.permutation([0, 1] * 6)
        exact = log_evidence_on_a_grid(x, 2 * y - 1, 2.0)
        fits = {m: VariationalLogisticRegression(2.0, False, m).fit(x[:, None], y) for m in FITS}
        for method in ("batch", "optimal", "sequential"):
            assert fits[method].log_evidence_ <= exact + 1e-8
        assert fits["optimal"].log_evidence_ >= fits["batch"].log_evidence_ - 1e-8  # the best of all Gaussians
        assert fits["batch"].log_evidence_ >= fits["sequential"].log_evidence_ - 1e-7
        parts = VariationalLogisticRegression(2.0, False)
        for part in np.array_split(np.arange(12), 5):
            parts.partial_fit(x[part, None], y[part], classes=[0, 1])
        assert parts.log_evidence_ == pytest.approx(fits["sequential"].log_evidence_, abs=1e-9)
        assert parts.evidence_kind_ == "lower bound"
        half = VariationalLogisticRegression(2.0, False, "batch").fit(x[:6, None], [0, 1] * 3)
        half_y = np.concatenate([[0, 1] * 3, y[6:]])
        half.partial_fit(x[6:, None], y[6:])
        assert half.evidence_kind_ == "lower bound"
        assert half.log_evidence_ <= log_evidence_on_a_grid(x, 2 * half_y - 1, 2.0) + 1e-8


def test_probabilities_are_averages_over_the_posterior():
    X, y = rows(30, 2, 3.0)
    far = np.concatenate([X, 20 * X])
    for method in FITS:
        model = VariationalLogisticRegression(method=method).fit(X, y)
        design = np.column_stack([far, np.ones(60)])
        mean = design @ model.posterior_.mean
        sd = np.sqrt(np.einsum("ti,ij,tj->t", design, model.covariance_, design))
        z = np.linspace(-9, 9, 36_001)
        mass = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
        averaged = np.array([mass @ np.exp(log_logistic(m + s * z)) for m, s in zip(mean, sd, strict=True)])
        found = model.predict_proba(far)
        assert np.allclose(found[:, 1], averaged, atol=2e-8)
        assert np.allclose(found.sum(axis=1), 1)
        assert np.abs(np.exp(log_logistic(mean)) - averaged).max() > 0.01  # the logistic at the mean is another answer
        assert np.allclose(model.decision_function(far), np.log(found[:, 1] / found[:, 0]))
        assert np.array_equal(model.predict(far), np.where(mean > 0, "yes", "no"))
        bounds = model.predictive_log_bound(far)
        assert (bounds <= model.predict_log_proba(far) + 1e-7).all()
        assert (bounds[:30] > model.predict_log_proba(X) - 1).all()


def test_far_rows_have_finite_and_ordered_answers():
    model = VariationalLogisticRegression().fit([[-1.0], [1.0]], [0, 1])
    far = np.array([[-1e6], [-1e3], [-1.0], [0.0], [1.0], [1e3], [1e6]])
    found = model.predict_proba(far)
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found[:, 1]) >= 0).all()
    assert not np.isnan(model.decision_function(far)).any()
    model.posterior_ = GaussianPosterior(np.array([1e6, 0.0]), 1e-3 * np.eye(2))  # beyond the smallest float
    assert model.predict_log_proba([[1.0]]).tolist() == [[-np.inf, 0.0]]
    assert model.decision_function([[-1.0], [1.0]]).tolist() == [-np.inf, np.inf]


def test_weights_are_repeated_rows():
    X, y = rows(25)
    weight = np.random.default_rng(SEED).integers(0, 4, 25)
    shuffled = np.random.default_rng(SEED).permutation(weight.sum())
    for method in FITS:
        weighted = VariationalLogisticRegression(method=method).fit(X, y, sample_weight=weight)
        repeated = VariationalLogisticRegression(method=method).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        assert np.allclose(weighted.coef_, repeated.coef_, rtol=0, atol=1e-12)
        assert not np.allclose(VariationalLogisticRegression(method=method).fit(X, y).coef_, weighted.coef_, atol=1e-3)
        again = VariationalLogisticRegression(method=method)
        again.fit(np.repeat(X, weight, axis=0)[shuffled], np.repeat(y, weight)[shuffled])
        if method == "sequential":
            assert not np.allclose(again.coef_, repeated.coef_, atol=1e-3)
        else:
            assert np.array_equal(again.coef_, repeated.coef_)
            assert again.log_evidence_ == repeated.log_evidence_
    parts = VariationalLogisticRegression().partial_fit(X, y, classes=["no", "yes"], sample_weight=weight / 2)
    assert np.isfinite(parts.coef_).all()


def test_parts_are_taken_in_as_one():
    X, y = rows()
    whole = VariationalLogisticRegression(method="sequential").fit(X, y)
    parts = VariationalLogisticRegression()
    for part in np.array_split(np.arange(80), [1, 2, 30]):
        parts.partial_fit(X[part], y[part], classes=["yes", "no"])
    assert np.allclose(parts.coef_, whole.coef_, atol=1e-9)
    assert np.allclose(parts.covariance_, whole.covariance_, atol=1e-9)
    assert parts.n_iter_ == whole.n_iter_ == 80
    parts.fit(X[:40], y[:40])  # forgets
    assert parts.n_features_in_ == 3
    assert np.array_equal(parts.coef_, VariationalLogisticRegression().fit(X[:40], y[:40]).coef_)
    on = VariationalLogisticRegression(method="optimal").fit(X[:40], y[:40])
    before = on.covariance_
    on.partial_fit(X[40:], y[40:])
    assert on.evidence_kind_ == "estimate"  # the optimal Gaussian bounds no further likelihood
    assert (np.linalg.eigvalsh(before - on.covariance_) > 0).all()  # every row adds to the precision


def test_the_tag_says_two_classes():
    assert get_tags(VariationalLogisticRegression()).classifier_tags.multi_class is False
    with pytest.raises(
        ValueError, match=r"Only binary classification is supported\. The type of the target is multicl"
    ):
        VariationalLogisticRegression().fit([[1.0], [2.0], [3.0]], ["a", "b", "c"])


def test_a_search_that_was_cut_is_said():
    X, y = rows()
    with pytest.warns(ConvergenceWarning, match=r"batch variational did not converge in 2 iterations; raise max_iter"):
        VariationalLogisticRegression(method="batch", max_iter=2).fit(X, y)


@pytest.mark.parametrize("method", ["batch", "optimal", "laplace", "sequential"])
def test_separable_constant_and_duplicated_columns(method):
    x = np.linspace(-2, 2, 30)
    X = np.column_stack([x, x, np.ones(30), np.zeros(30)])
    model = VariationalLogisticRegression(method=method).fit(X, (x > 0).astype(int))
    assert np.isfinite(model.covariance_).all()
    if method != "sequential":  # which need not separate: its last rows move it most
        assert model.score(X, (x > 0).astype(int)) == 1
    assert model.coef_[0, 0] == pytest.approx(model.coef_[0, 1])
    assert model.coef_[0, 3] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior_scale": 0.0}, r"prior_scale is 0\.0; it must be above 0 and finite"),
        ({"prior_scale": np.inf}, r"prior_scale is inf"),
        ({"method": "best"}, r"method is 'best'; it must be one of \['batch', 'laplace', 'optimal', 'sequential'\]"),
        ({"max_iter": 0}, r"max_iterations is 0; it must be at least 1"),
        ({"tol": 0.0}, r"tolerance is 0\.0; it must be above 0"),
    ],
)
def test_bad_options_are_refused_in_words(options, message):
    with pytest.raises(ArgumentError, match=message):
        VariationalLogisticRegression(**options).fit([[0.0], [1.0]], [0, 1])


def test_bad_input_is_refused_in_words():
    model = VariationalLogisticRegression()
    with pytest.raises(NotFittedError):
        model.predict([[1.0]])
    with pytest.raises(ArgumentError, match=r"there are 1 classes \(3\); there must be two"):
        model.fit([[0.0], [1.0]], [3, 3])
    with pytest.raises(ArgumentError, match=r"classes must be given in the first call of partial_fit"):
        model.partial_fit([[0.0]], [1])
    with pytest.raises(ArgumentError, match=r"there are 3 classes \(0, 1, 2\)"):
        model.partial_fit([[0.0]], [1], classes=[0, 1, 2])
    model.partial_fit([[0.0]], [1], classes=[0, 1])
    with pytest.raises(ArgumentError, match=r"y holds the label .*2.*, which is none of the classes \[0, 1\]"):
        model.partial_fit([[0.0]], [2])
    with pytest.raises(ArgumentError, match=r"classes is \[0, 5\]; earlier calls said \[0, 1\]"):
        model.partial_fit([[0.0]], [0], classes=[0, 5])
    with pytest.raises(ValueError, match=r"Negative values"):
        model.fit([[0.0], [1.0]], [0, 1], sample_weight=[1, -1])
    with pytest.raises(ValueError, match=r"NaN"):
        model.fit([[np.nan], [1.0]], [0, 1])
