"""Transition matrices: of Metropolis-Hastings and Gibbs kernels, and of kernels that are mixed or taken in turn.

With the states listed, a sampler is a matrix.  Whether it keeps its target, and how fast it reaches it, is the business
of `doxa.testing.chain_theory`.
"""

from doxa._face import open_door

__all__ = open_door(__name__)
