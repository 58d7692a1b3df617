"""Annealing in discrete networks: log Z with bounds, tempering, the most probable states."""

from doxa._face import open_door

__all__ = open_door(__name__)
