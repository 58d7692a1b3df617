"""Prove a move of your own: finite Markov chains as matrices, and the matrices of the usual kernels.

With the states listed, a sampler is a transition matrix, `P[x, y]` the probability of y after x, and every question
about it has an exact answer: `FiniteChain` gives the stationary distribution, the classes, the period, the spectral
gap, the distance from the target at each step, and the variance of an average.  `invariance_residual` of a right kernel
is 1e-16; leaving out the Hastings ratio shows as 1e-2, where a simulation would need millions of steps to see as much.
`metropolis_hastings_matrix` and `gibbs_matrix` make the matrices of kernels, `mixture_matrix` and `cycle_matrix` those
of kernels that are mixed or taken in turn.  docs/samplers.md proves a move in this way.

Equation numbers are those of Antal & Sárközy, *Stochastic inference methods in Bayesian networks* (slides).  Errata:
"the smallest" lambda of eq. 10 is an infimum, which a chain with a Jordan block does not attain; the sum under eq. 13
lacks its index, sum_i p_i P_ij = p_j; theorem 3 means a finite moment of |f|.

All graphs of few nodes are listed by `doxa.structure.exact.enumeration`.  Chains too large to list are diagnosed from
their draws, in `doxa.estimates`.
"""

from doxa._face import open_door

__all__ = open_door(__name__)
