"""Models: graphs, networks and their file formats. They know nothing of samplers."""

from doxa.models.cpdag import Cpdag
from doxa.models.dag import Dag

__all__ = ["Cpdag", "Dag"]
