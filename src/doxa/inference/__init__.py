"""Which values?  Distributions of a network's variables given what was observed: exact, or with an error."""

from doxa.inference.answers import Inference
from doxa.inference.blocks import ChosenBy
from doxa.inference.conflict import ImpossibleEvidenceError
from doxa.inference.exact import Budget, BudgetError
from doxa.inference.exact_answers import Explanation, JointTable, joint, most_probable
from doxa.inference.infer import infer
from doxa.inference.log_partition import LogPartition, log_partition

__all__ = [
    "Budget",
    "BudgetError",
    "ChosenBy",
    "Explanation",
    "ImpossibleEvidenceError",
    "Inference",
    "JointTable",
    "LogPartition",
    "infer",
    "joint",
    "log_partition",
    "most_probable",
]
