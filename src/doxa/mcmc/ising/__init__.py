"""Chains of Ising and Potts models at speed: heat bath site by site, 64 sites or 64 chains at a time; cluster moves."""

from doxa.mcmc.ising.chain import IsingGibbs, SpinState
from doxa.mcmc.ising.clusters import SwendsenWang
from doxa.mcmc.ising.grid import IsingGrid
from doxa.mcmc.ising.lanes import IsingLanes, LanesState, unpack_lanes
from doxa.mcmc.ising.model import IsingModel
from doxa.mcmc.ising.potts import PottsGibbs, PottsModel, PottsState

__all__ = [
    "IsingGibbs",
    "IsingGrid",
    "IsingLanes",
    "IsingModel",
    "LanesState",
    "PottsGibbs",
    "PottsModel",
    "PottsState",
    "SpinState",
    "SwendsenWang",
    "unpack_lanes",
]
