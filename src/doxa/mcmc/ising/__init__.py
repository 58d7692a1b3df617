"""Chains of Ising and Potts models at speed: heat bath site by site, 64 sites or 64 chains at a time; cluster moves."""

from doxa.mcmc.ising.chain import IsingGibbs
from doxa.mcmc.ising.clusters import SwendsenWang
from doxa.mcmc.ising.grid import IsingGrid
from doxa.mcmc.ising.heads import SpinState
from doxa.mcmc.ising.lanes import IsingLanes, LanesState, unpack_lanes
from doxa.mcmc.ising.model import IsingModel
from doxa.mcmc.ising.potts import PottsGibbs, PottsState
from doxa.mcmc.ising.potts_lanes import PottsLanes, PottsLanesState, unpack_potts_lanes
from doxa.mcmc.ising.potts_model import PottsModel

__all__ = [
    "IsingGibbs",
    "IsingGrid",
    "IsingLanes",
    "IsingModel",
    "LanesState",
    "PottsGibbs",
    "PottsLanes",
    "PottsLanesState",
    "PottsModel",
    "PottsState",
    "SpinState",
    "SwendsenWang",
    "unpack_lanes",
    "unpack_potts_lanes",
]
