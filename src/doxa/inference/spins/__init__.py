"""Chains of Ising and Potts models at speed: heat bath site by site, 64 sites or 64 chains at a time; cluster moves."""

from doxa._face import open_door

__all__ = open_door(__name__)
