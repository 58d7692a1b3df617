"""Mean field for discrete networks: the best product of tables, naive or structured, and its bound on log Z."""

from doxa.variational.mean_field.fit import Climb, MeanField, Start, climb, mean_field
from doxa.variational.mean_field.ising import IsingMeanField, ising_mean_field
from doxa.variational.mean_field.problem import MeanFieldProblem, mean_field_problem
from doxa.variational.mean_field.support import ImpossibleError, SearchStoppedError

__all__ = [
    "Climb",
    "ImpossibleError",
    "IsingMeanField",
    "MeanField",
    "MeanFieldProblem",
    "SearchStoppedError",
    "Start",
    "climb",
    "ising_mean_field",
    "mean_field",
    "mean_field_problem",
]
