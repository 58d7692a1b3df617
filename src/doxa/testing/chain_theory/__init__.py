"""Finite Markov chains as matrices: where a chain goes, how fast, and what its averages are worth.

With the states listed, a sampler is a transition matrix, `P[x, y]` the probability of y after x, and every question
about it has an exact answer: `FiniteChain` gives the stationary distribution, the classes, the period, the spectral
gap, the distance from the target at each step, and the variance of an average.  `invariance_residual` of a right kernel
is 1e-16; leaving out the Hastings ratio shows as 1e-2, where a simulation would need millions of steps to see as much.

Equation numbers are those of Antal & Sárközy, *Stochastic inference methods in Bayesian networks* (slides).  Errata:
"the smallest" lambda of eq. 10 is an infimum, which a chain with a Jordan block does not attain; the sum under eq. 13
lacks its index, sum_i p_i P_ij = p_j; theorem 3 means a finite moment of |f|.

The matrices of Metropolis-Hastings and Gibbs kernels are made in `doxa.testing.kernel_matrices`.  Chains too large to
list are diagnosed from their draws, in `doxa.estimates`.
"""

from doxa._face import open_door

__all__ = open_door(__name__)
