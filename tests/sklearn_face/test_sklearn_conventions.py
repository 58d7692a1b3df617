"""scikit-learn's own checks, pipelines, searches and copies; and what is said where scikit-learn is absent."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from doxa.sklearn import BayesianLogisticRegression, BinaryFactorAnalysis, VariationalLogisticRegression
from support.checks import SEED

ESTIMATORS = [
    VariationalLogisticRegression(),
    VariationalLogisticRegression(method="batch", fit_intercept=False),
    VariationalLogisticRegression(method="laplace", prior_scale=1.0),
    VariationalLogisticRegression(method="sequential"),
    BayesianLogisticRegression(draws=100, chains=2, n_jobs=1),
    BinaryFactorAnalysis(),
    BinaryFactorAnalysis(n_components=1, binarize=0.5, prior_scale=2.0),
]


BEFORE_1_7 = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) < (1, 7)


def known_failures(estimator):
    """The check of weights shuffles, on which a single pass depends, and so did the labels that it made before 1.7."""
    method = getattr(estimator, "method", None)
    if method == "sequential" or (method and BEFORE_1_7):
        return {"check_sample_weight_equivalence_on_dense_data": "it shuffles"}
    return {}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks set max_iter to 5
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=known_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(n=120):
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, 3))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ [1.0, -2.0, 0.0])), "yes", "no")


def test_a_pipeline_and_a_search():
    X, y = rows()
    model = make_pipeline(StandardScaler(), VariationalLogisticRegression())
    search = GridSearchCV(model, {"variationallogisticregression__prior_scale": [0.01, 1.0]}, scoring="neg_log_loss")
    assert search.fit(X, y).best_params_ == {"variationallogisticregression__prior_scale": 1.0}
    cells = np.where(np.random.default_rng(SEED).random(X.shape) < 0.1, np.nan, X)
    factors = make_pipeline(BinaryFactorAnalysis(1), VariationalLogisticRegression())
    assert cross_val_score(factors, cells, y).mean() > 0.5


def test_copies_are_the_same():
    X, y = rows()
    for estimator in ESTIMATORS:
        fitted = clone(estimator).fit(X, y)
        again = pickle.loads(pickle.dumps(fitted))
        answer = "transform" if hasattr(estimator, "transform") else "predict_proba"
        assert np.array_equal(getattr(again, answer)(X), getattr(fitted, answer)(X))
        assert repr(clone(fitted)) == repr(estimator)


@pytest.mark.parametrize("hidden", ["sklearn", "sklearn.utils.validation"])
def test_without_scikit_learn_the_message_says_what_to_install(hidden):
    code = (
        f"import sys; sys.modules[{hidden!r}] = None\n"
        "try:\n    import doxa.sklearn\nexcept ImportError as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == (
        "MissingExtraError doxa.sklearn needs the package scikit-learn, 1.6 or later: pip install 'doxa[sklearn]'"
    )


def test_importing_doxa_does_not_load_scikit_learn():
    code = "import sys, doxa; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
