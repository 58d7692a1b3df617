"""Learning from a table that is counted where it lives: which counts it takes, and scores made from them alone."""

from doxa._face import open_door

__all__ = open_door(__name__)
