"""The posterior of graphs, parameters and values together: networks, queries, imputation, prediction, checks."""

from doxa._face import open_door

__all__ = open_door(__name__)
