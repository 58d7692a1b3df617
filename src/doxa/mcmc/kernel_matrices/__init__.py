"""Transition matrices: of Metropolis-Hastings and Gibbs kernels, and of kernels that are mixed or taken in turn.

With the states listed, a sampler is a matrix.  Whether it keeps its target, and how fast it reaches it, is the business
of `doxa.mcmc.chain_theory`.
"""

from doxa.mcmc.kernel_matrices.checks import as_distribution, as_numbers, as_transition_matrix
from doxa.mcmc.kernel_matrices.gibbs import gibbs_matrix
from doxa.mcmc.kernel_matrices.metropolis_hastings import (
    Proposal,
    independence_rate,
    metropolis_hastings_matrix,
    proposal_matrices,
)
from doxa.mcmc.kernel_matrices.scans import cycle_matrix, mixture_matrix

__all__ = [
    "Proposal",
    "as_distribution",
    "as_numbers",
    "as_transition_matrix",
    "cycle_matrix",
    "gibbs_matrix",
    "independence_rate",
    "metropolis_hastings_matrix",
    "mixture_matrix",
    "proposal_matrices",
]
