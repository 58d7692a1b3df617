"""Importance sampling in directed discrete networks: likelihood weighting, propagated and learned proposals."""

from doxa._face import open_door

__all__ = open_door(__name__)
