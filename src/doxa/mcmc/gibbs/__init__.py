"""Gibbs sampling in discrete networks of tables, directed or not: of single variables, or of blocks."""

from doxa.mcmc.gibbs.connectivity import Connectivity, Part, connectivity
from doxa.mcmc.gibbs.deterministic import DeterministicBlocks, deterministic_blocks
from doxa.mcmc.gibbs.joining import ConnectingBlocks, connecting_blocks
from doxa.mcmc.gibbs.regenerations import regenerations
from doxa.mcmc.gibbs.sampler import GibbsState, TableGibbs
from doxa.mcmc.gibbs.scans import ByValue, Scan, by_value, cyclic, in_turn, random_blocks, random_lists, single_sites
from doxa.mcmc.gibbs.scope_blocks import scope_blocks
from doxa.mcmc.gibbs.starts import NoStartError, find_state

__all__ = [
    "ByValue",
    "ConnectingBlocks",
    "Connectivity",
    "DeterministicBlocks",
    "GibbsState",
    "NoStartError",
    "Part",
    "Scan",
    "TableGibbs",
    "by_value",
    "connecting_blocks",
    "connectivity",
    "cyclic",
    "deterministic_blocks",
    "find_state",
    "in_turn",
    "random_blocks",
    "random_lists",
    "regenerations",
    "scope_blocks",
    "single_sites",
]
