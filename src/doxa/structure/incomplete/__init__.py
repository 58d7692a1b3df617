"""The posterior over graphs and missing cells together: exact for tiny tables, sampled for others."""

from typing import TYPE_CHECKING

from doxa._face import lazy_face

if TYPE_CHECKING:
    from doxa.structure.incomplete.cells_sampler import IncompleteState as IncompleteState
    from doxa.structure.incomplete.data import IncompleteData as IncompleteData
    from doxa.structure.incomplete.holes import Holes as Holes
    from doxa.structure.incomplete.holes import completed_table as completed_table
    from doxa.structure.incomplete.holes import find_holes as find_holes
    from doxa.structure.incomplete.impute import cell_probabilities as cell_probabilities
    from doxa.structure.incomplete.oracle import JointPosterior as JointPosterior
    from doxa.structure.incomplete.oracle import enumerate_joint as enumerate_joint
    from doxa.structure.incomplete.sampler import IncompleteSampler as IncompleteSampler

__all__ = lazy_face(
    __name__,
    {
        "cells_sampler": ["IncompleteState"],
        "data": ["IncompleteData"],
        "holes": ["Holes", "completed_table", "find_holes"],
        "impute": ["cell_probabilities"],
        "oracle": ["JointPosterior", "enumerate_joint"],
        "sampler": ["IncompleteSampler"],
    },
)
