"""Which graph?  Scores, moves, samplers and the posterior over directed acyclic graphs."""

from doxa.structure.auto import Auto
from doxa.structure.combined import Cycle
from doxa.structure.edge_gibbs import EdgeGibbs
from doxa.structure.edge_reversal import EdgeReversal
from doxa.structure.emc3 import EMC3
from doxa.structure.loss import EdgeLoss
from doxa.structure.markov_blanket import MarkovBlanket
from doxa.structure.parent_set_gibbs import ParentSetGibbs
from doxa.structure.posterior import SampledGraph, StructurePosterior
from doxa.structure.scores import BIC, K2, BDeu, log_bdeu
from doxa.structure.single_edge import SingleEdge
from doxa.structure.tempered import Tempered

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
