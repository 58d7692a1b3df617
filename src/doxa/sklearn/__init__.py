"""Estimators with the face of scikit-learn (extra ``sklearn``): fit, predict, transform, pipelines, searches."""

from doxa.errors import MissingExtraError

try:
    from sklearn.utils.validation import validate_data  # noqa: F401  # new in 1.6
except ImportError as error:
    raise MissingExtraError(
        "doxa.sklearn needs the package scikit-learn, 1.6 or later: pip install 'doxa[sklearn]'"
    ) from error

from doxa.sklearn.belief_network import BeliefNetworkClassifier
from doxa.sklearn.factor_analysis import BinaryFactorAnalysis
from doxa.sklearn.imputer import BeliefNetworkImputer
from doxa.sklearn.logistic import BayesianLogisticRegression, VariationalLogisticRegression
from doxa.sklearn.regressor import BeliefNetworkRegressor

__all__ = [
    "BayesianLogisticRegression",
    "BeliefNetworkClassifier",
    "BeliefNetworkImputer",
    "BeliefNetworkRegressor",
    "BinaryFactorAnalysis",
    "VariationalLogisticRegression",
]
