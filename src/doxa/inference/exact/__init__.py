"""Exact answers by contraction: log Z, all marginals, joint distributions, most probable states, and their cost."""

from doxa.inference.exact.budget import Budget, BudgetError, Cost
from doxa.inference.exact.most_probable import MostProbable
from doxa.inference.exact.plan import ContractionPlan, ExactResult, Joint, plan_contraction

__all__ = [
    "Budget",
    "BudgetError",
    "ContractionPlan",
    "Cost",
    "ExactResult",
    "Joint",
    "MostProbable",
    "plan_contraction",
]
