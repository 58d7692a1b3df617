"""Kernels: transitions that leave a continuous target invariant, as values that combine."""

from doxa._face import open_door

__all__ = open_door(__name__)
