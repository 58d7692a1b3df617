"""The posterior of graphs, parameters and values together: networks, queries, imputation, prediction, checks."""

from doxa.averaging.answers import AveragedProbability, QueryAnswer
from doxa.averaging.checks import predictive_checks
from doxa.averaging.coefficients import Coefficients, coefficients
from doxa.averaging.cross_validation import CrossValidation, cross_validate
from doxa.averaging.draws import NetworkDraws, draw_networks, networks
from doxa.averaging.impute import completed_tables, impute
from doxa.averaging.parent_tables import parent_tables
from doxa.averaging.predict import LogScore, log_score, predict
from doxa.averaging.query import predictive, query

__all__ = [
    "AveragedProbability",
    "Coefficients",
    "CrossValidation",
    "LogScore",
    "NetworkDraws",
    "QueryAnswer",
    "coefficients",
    "completed_tables",
    "cross_validate",
    "draw_networks",
    "impute",
    "log_score",
    "networks",
    "parent_tables",
    "predict",
    "predictive",
    "predictive_checks",
    "query",
]
