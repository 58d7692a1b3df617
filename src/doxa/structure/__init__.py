"""Which graph?  Scores, moves, samplers and the posterior over directed acyclic graphs."""

from doxa.structure.learn import learn, resume
from doxa.structure.markov_blanket import MarkovBlanket
from doxa.structure.posterior import SampledGraph, StructurePosterior
from doxa.structure.runs import load
from doxa.structure.scores import log_bdeu
from doxa.structure.single_edge import SingleEdge

__all__ = ["MarkovBlanket", "SampledGraph", "SingleEdge", "StructurePosterior", "learn", "load", "log_bdeu", "resume"]
