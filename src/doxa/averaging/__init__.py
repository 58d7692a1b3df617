"""The posterior of graphs, parameters and values together: networks, queries, imputation, prediction, checks."""

from typing import TYPE_CHECKING

from doxa._face import lazy_face

if TYPE_CHECKING:
    from doxa.averaging.answers import AveragedProbability as AveragedProbability
    from doxa.averaging.answers import QueryAnswer as QueryAnswer
    from doxa.averaging.checks import predictive_checks as predictive_checks
    from doxa.averaging.coefficients import Coefficients as Coefficients
    from doxa.averaging.coefficients import coefficients as coefficients
    from doxa.averaging.cross_validation import CrossValidation as CrossValidation
    from doxa.averaging.cross_validation import cross_validate as cross_validate
    from doxa.averaging.draws import NetworkDraws as NetworkDraws
    from doxa.averaging.draws import draw_networks as draw_networks
    from doxa.averaging.draws import networks as networks
    from doxa.averaging.impute import completed_tables as completed_tables
    from doxa.averaging.impute import impute as impute
    from doxa.averaging.parent_tables import parent_tables as parent_tables
    from doxa.averaging.predict import LogScore as LogScore
    from doxa.averaging.predict import log_score as log_score
    from doxa.averaging.predict import predict as predict
    from doxa.averaging.query import predictive as predictive
    from doxa.averaging.query import query as query

__all__ = lazy_face(
    __name__,
    {
        "answers": ["AveragedProbability", "QueryAnswer"],
        "checks": ["predictive_checks"],
        "coefficients": ["Coefficients", "coefficients"],
        "cross_validation": ["CrossValidation", "cross_validate"],
        "draws": ["NetworkDraws", "draw_networks", "networks"],
        "impute": ["completed_tables", "impute"],
        "parent_tables": ["parent_tables"],
        "predict": ["LogScore", "log_score", "predict"],
        "query": ["predictive", "query"],
    },
)
