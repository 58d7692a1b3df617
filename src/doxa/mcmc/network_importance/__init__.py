"""Importance sampling in directed discrete networks: likelihood weighting, propagated and learned proposals."""

from doxa.mcmc.network_importance.layout import Layout, lay_out
from doxa.mcmc.network_importance.learning import learned
from doxa.mcmc.network_importance.proposal import NetworkProposal, likelihood_weighting, propagated
from doxa.mcmc.network_importance.sample import NetworkSample, sample_network
from doxa.mcmc.network_importance.sampler import NetworkSampler, WeightedRows
from doxa.mcmc.network_importance.until import sample_until, shortfall

__all__ = [
    "Layout",
    "NetworkProposal",
    "NetworkSample",
    "NetworkSampler",
    "WeightedRows",
    "lay_out",
    "learned",
    "likelihood_weighting",
    "propagated",
    "sample_network",
    "sample_until",
    "shortfall",
]
