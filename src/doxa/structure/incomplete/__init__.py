"""The posterior over graphs and missing cells together: exact for tiny tables, sampled for others."""

from doxa.structure.incomplete.cells_sampler import IncompleteState
from doxa.structure.incomplete.data import IncompleteData
from doxa.structure.incomplete.holes import Holes, completed_table, find_holes
from doxa.structure.incomplete.impute import cell_probabilities
from doxa.structure.incomplete.oracle import JointPosterior, enumerate_joint
from doxa.structure.incomplete.sampler import IncompleteSampler

__all__ = [
    "Holes",
    "IncompleteData",
    "IncompleteSampler",
    "IncompleteState",
    "JointPosterior",
    "cell_probabilities",
    "completed_table",
    "enumerate_joint",
    "find_holes",
]
