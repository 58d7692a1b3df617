"""Which graph?  Scores, moves, samplers and the posterior over directed acyclic graphs."""

from doxa.structure.answers.loss import EdgeLoss
from doxa.structure.answers.posterior import SampledGraph, StructurePosterior
from doxa.structure.families.scores import BIC, K2, BDeu, log_bdeu
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.combined import Cycle
from doxa.structure.moves.edge_gibbs import EdgeGibbs
from doxa.structure.moves.edge_reversal import EdgeReversal
from doxa.structure.moves.emc3 import EMC3
from doxa.structure.moves.markov_blanket import MarkovBlanket
from doxa.structure.moves.parent_set_gibbs import ParentSetGibbs
from doxa.structure.moves.single_edge import SingleEdge
from doxa.structure.moves.tempered import Tempered

__all__ = [
    "BIC",
    "EMC3",
    "K2",
    "Auto",
    "BDeu",
    "Cycle",
    "EdgeGibbs",
    "EdgeLoss",
    "EdgeReversal",
    "MarkovBlanket",
    "ParentSetGibbs",
    "SampledGraph",
    "SingleEdge",
    "StructurePosterior",
    "Tempered",
    "log_bdeu",
]
