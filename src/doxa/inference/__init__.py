"""Which values?  Distributions of a network's variables given what was observed: exact, or with an error."""

from typing import TYPE_CHECKING

from doxa._face import lazy_face

if TYPE_CHECKING:
    from doxa.inference.answers import Inference as Inference
    from doxa.inference.blocks import ChosenBy as ChosenBy
    from doxa.inference.conflict import ImpossibleEvidenceError as ImpossibleEvidenceError
    from doxa.inference.exact import Budget as Budget
    from doxa.inference.exact import BudgetError as BudgetError
    from doxa.inference.exact_answers import Explanation as Explanation
    from doxa.inference.exact_answers import JointTable as JointTable
    from doxa.inference.exact_answers import joint as joint
    from doxa.inference.exact_answers import most_probable as most_probable
    from doxa.inference.infer import infer as infer
    from doxa.inference.log_partition import LogPartition as LogPartition
    from doxa.inference.log_partition import log_partition as log_partition

__all__ = lazy_face(
    __name__,
    {
        "answers": ["Inference"],
        "blocks": ["ChosenBy"],
        "conflict": ["ImpossibleEvidenceError"],
        "exact": ["Budget", "BudgetError"],
        "exact_answers": ["Explanation", "JointTable", "joint", "most_probable"],
        "infer": ["infer"],
        "log_partition": ["LogPartition", "log_partition"],
    },
)
