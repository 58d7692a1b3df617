"""Logistic families in structure learning: log evidences of Bayesian logistic regressions, and sums over types."""

from doxa._face import open_door

__all__ = open_door(__name__)
