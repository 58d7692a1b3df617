"""Mean field for conjugate networks of Gaussian, gamma and categorical nodes: variational message passing."""

from doxa.variational.conjugate.factors import CategoricalFactor, GammaFactor, GaussianFactor, Known
from doxa.variational.conjugate.fit import ConjugateMeanField, conjugate_mean_field
from doxa.variational.conjugate.nodes import Categorical, Gamma, Mixture, Node, Normal
from doxa.variational.conjugate.problem import ConjugateProblem, conjugate_problem

__all__ = [
    "Categorical",
    "CategoricalFactor",
    "ConjugateMeanField",
    "ConjugateProblem",
    "Gamma",
    "GammaFactor",
    "GaussianFactor",
    "Known",
    "Mixture",
    "Node",
    "Normal",
    "conjugate_mean_field",
    "conjugate_problem",
]
