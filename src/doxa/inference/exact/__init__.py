"""Exact answers by contraction: log Z, all marginals, joint distributions, most probable states, and their cost."""

from doxa._face import open_door

__all__ = open_door(__name__)
