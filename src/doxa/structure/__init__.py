"""Which graph?  Scores, moves, samplers and the posterior over directed acyclic graphs."""

from typing import TYPE_CHECKING

from doxa._face import lazy_face

if TYPE_CHECKING:
    from doxa.structure.answers.loss import EdgeLoss as EdgeLoss
    from doxa.structure.answers.posterior import SampledGraph as SampledGraph
    from doxa.structure.answers.posterior import StructurePosterior as StructurePosterior
    from doxa.structure.families.scores import BIC as BIC
    from doxa.structure.families.scores import K2 as K2
    from doxa.structure.families.scores import BDeu as BDeu
    from doxa.structure.families.scores import log_bdeu as log_bdeu
    from doxa.structure.moves.auto import Auto as Auto
    from doxa.structure.moves.combined import Cycle as Cycle
    from doxa.structure.moves.edge_gibbs import EdgeGibbs as EdgeGibbs
    from doxa.structure.moves.edge_reversal import EdgeReversal as EdgeReversal
    from doxa.structure.moves.emc3 import EMC3 as EMC3
    from doxa.structure.moves.markov_blanket import MarkovBlanket as MarkovBlanket
    from doxa.structure.moves.parent_set_gibbs import ParentSetGibbs as ParentSetGibbs
    from doxa.structure.moves.single_edge import SingleEdge as SingleEdge
    from doxa.structure.moves.tempered import Tempered as Tempered

__all__ = lazy_face(
    __name__,
    {
        "answers.loss": ["EdgeLoss"],
        "answers.posterior": ["SampledGraph", "StructurePosterior"],
        "families.scores": ["BIC", "K2", "BDeu", "log_bdeu"],
        "moves.auto": ["Auto"],
        "moves.combined": ["Cycle"],
        "moves.edge_gibbs": ["EdgeGibbs"],
        "moves.edge_reversal": ["EdgeReversal"],
        "moves.emc3": ["EMC3"],
        "moves.markov_blanket": ["MarkovBlanket"],
        "moves.parent_set_gibbs": ["ParentSetGibbs"],
        "moves.single_edge": ["SingleEdge"],
        "moves.tempered": ["Tempered"],
    },
)
