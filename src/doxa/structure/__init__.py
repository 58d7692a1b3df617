"""Which graph?  Scores, moves, samplers and the posterior over directed acyclic graphs."""

from doxa._face import open_door

__all__ = open_door(__name__)
