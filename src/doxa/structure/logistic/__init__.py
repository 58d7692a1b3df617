"""Logistic families in structure learning: log evidences of Bayesian logistic regressions, and sums over types."""

from doxa.structure.logistic.score import FamilyMixture, Logistic

__all__ = ["FamilyMixture", "Logistic"]
