"""Gibbs sampling in discrete networks of tables, directed or not: of single variables, or of blocks."""

from doxa._face import open_door

__all__ = open_door(__name__)
