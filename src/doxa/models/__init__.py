"""Models: graphs, networks and their file formats. They know nothing of samplers."""

from doxa.models.cpdag import Cpdag
from doxa.models.dag import Dag
from doxa.models.logistic import LogisticNetwork

__all__ = ["Cpdag", "Dag", "LogisticNetwork"]
