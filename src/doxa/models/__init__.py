"""Models: graphs, networks and their file formats. They know nothing of samplers."""

from doxa.models.categorical import CategoricalNetwork
from doxa.models.cpdag import Cpdag
from doxa.models.dag import Dag
from doxa.models.learned_scale import LearnedScale
from doxa.models.logistic import LogisticNetwork
from doxa.models.markov import MarkovNetwork

__all__ = ["CategoricalNetwork", "Cpdag", "Dag", "LearnedScale", "LogisticNetwork", "MarkovNetwork"]
