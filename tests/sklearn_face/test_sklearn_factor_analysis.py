"""The transformer gives the answers of the latent trait model."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import get_tags

from doxa.errors import ArgumentError
from doxa.parameters.variational.latent_trait import fit_latent_trait
from doxa.sklearn import BinaryFactorAnalysis
from support.checks import SEED


def cells(n=100, p=6, missing=0.1):
    rng = np.random.default_rng(SEED)
    z = rng.standard_normal((n, 1))
    X = (rng.random((n, p)) < 1 / (1 + np.exp(-2 * z))).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def test_the_answers_are_those_of_the_latent_trait_model():
    X = cells()
    model = BinaryFactorAnalysis(prior_scale=3.0, tol=1e-9).fit(X)
    known = fit_latent_trait(X, 2, prior_scale=3.0, tolerance=1e-9)
    assert np.array_equal(model.components_, known.loadings.T)
    assert np.array_equal(model.intercept_, known.biases)
    assert model.log_likelihood_bound_ == known.log_bound
    posterior = known.posterior(X)
    assert np.array_equal(model.transform(X), posterior.mean)
    assert np.array_equal(model.score_samples(X), posterior.log_bound)
    assert model.score(X) == pytest.approx(known.log_bound / 100)
    assert np.array_equal(model.reconstruct(X), known.probabilities(X))
    at = np.array([[0.3, -1.0]])
    assert np.allclose(model.inverse_transform(at), 1 / (1 + np.exp(-known.biases - at @ known.loadings.T)))
    assert np.allclose(model.fit_transform(X), posterior.mean)


def test_cells_above_the_threshold_are_ones():
    X = cells()
    fits = [
        BinaryFactorAnalysis(1).fit(X),
        BinaryFactorAnalysis(1, binarize=None).fit(X),
        BinaryFactorAnalysis(1).fit(2 * X - 1),  # spins
        BinaryFactorAnalysis(1, binarize=10.0).fit(9.5 + X),
    ]
    for fit in fits[1:]:
        assert np.array_equal(fit.components_, fits[0].components_)
    filled = BinaryFactorAnalysis(1).fit(np.nan_to_num(X))
    assert not np.allclose(filled.components_, fits[0].components_, atol=0.05)


def test_weights_are_repeated_rows():
    X = cells()
    weight = np.random.default_rng(SEED).integers(0, 3, 100)
    weighted = BinaryFactorAnalysis(1).fit(X, sample_weight=weight)
    assert np.array_equal(weighted.components_, BinaryFactorAnalysis(1).fit(np.repeat(X, weight, axis=0)).components_)
    assert not np.allclose(weighted.components_, BinaryFactorAnalysis(1).fit(X).components_, atol=1e-3)


def test_names_frames_and_tags():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(cells(), columns=list("abcdef"))
    model = BinaryFactorAnalysis().set_output(transform="pandas").fit(frame)
    assert list(model.get_feature_names_out()) == ["binaryfactoranalysis0", "binaryfactoranalysis1"]
    assert list(model.transform(frame).columns) == list(model.get_feature_names_out())
    assert list(model.feature_names_in_) == list("abcdef")
    assert get_tags(model).input_tags.allow_nan


def test_a_search_that_was_cut_is_said():
    with pytest.warns(
        ConvergenceWarning, match=r"the bound was still rising after 2 iterations; raise max_iter, or tol"
    ):
        BinaryFactorAnalysis(max_iter=2).fit(cells())


def test_bad_input_is_refused_in_words():
    X = cells()
    with pytest.raises(NotFittedError):
        BinaryFactorAnalysis().transform(X)
    with pytest.raises(ArgumentError, match=r"n_components is 7; it must be at most 6, the number of columns"):
        BinaryFactorAnalysis(7).fit(X)
    with pytest.raises(ArgumentError, match=r"X holds -1, 0 and 1; missing cells are NaN here: np\.where"):
        BinaryFactorAnalysis().fit(np.nan_to_num(X, nan=-1))
    with pytest.raises(ArgumentError, match=r"X holds 0\.5; with binarize=None its cells are 0, 1 and NaN"):
        BinaryFactorAnalysis(binarize=None).fit(X / 2)
    with pytest.raises(
        ArgumentError, match=r"X has shape \(1, 3\); it must be \(n_samples, 2\), a column for each fac"
    ):
        BinaryFactorAnalysis().fit(X).inverse_transform([[1, 2, 3]])
    with pytest.raises(ArgumentError, match=r"prior_scale is -1; it must be above 0"):
        BinaryFactorAnalysis(prior_scale=-1).fit(X)
    with pytest.raises(ValueError, match=r"infinity"):
        BinaryFactorAnalysis().fit([[np.inf, 1.0], [0.0, 1.0]])
