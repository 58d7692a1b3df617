"""The approximation that a part of a posterior is proposed from, seen one parameter at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.kernels.student import Student
from doxa.sampling.importance_proposals import Mixture

__all__ = ["marginal_density"]

_DRAWS, _BINS = 40_000, 120  # of an approximation whose marginals have no formula

Floats = NDArray[np.float64]


def marginal_density(proposal: Any, column: int, at: Floats, *, probability: bool = False) -> Floats:
    """Density of one parameter under an approximation.

    Parameters
    ----------
    proposal : Proposal
        Of vectors.
    column : int
        Of the vector.
    at : ndarray of float, shape (n,)
        Values of the parameter.
    probability : bool, default=False
        Whether the parameter is a probability, whose logit stands in the vector.

    Returns
    -------
    ndarray of float, shape (n,)

    Examples
    --------
    >>> from doxa.sampling.gaussian import Gaussian
    >>> marginal_density(Gaussian.from_covariance([0.0, 1.0], [[4.0, 1.0], [1.0, 1.0]]), 0, np.array([0.0])).round(4)
    array([0.1995])
    """
    if not probability:
        return _density(proposal, column, at)
    inside = (at > 0) & (at < 1)
    p = np.where(inside, at, 0.5)
    return np.asarray(np.where(inside, _density(proposal, column, np.log(p) - np.log1p(-p)) / (p * (1 - p)), 0.0))


def _density(proposal: Any, column: int, at: Floats) -> Floats:
    if isinstance(proposal, Mixture):
        parts = zip(proposal.weights, proposal.components, strict=True)
        return np.asarray(sum(weight * _density(component, column, at) for weight, component in parts))
    if hasattr(proposal, "cholesky") and hasattr(proposal, "mean"):  # a normal distribution, or a t of that shape
        spread = np.linalg.norm(proposal.cholesky[column])
        one = Student(proposal.mean[column : column + 1], np.array([[spread]]), getattr(proposal, "df", np.inf))
        return np.asarray(np.exp(one.log_density(at[:, None])))
    if getattr(proposal, "n_dimensions", 0) == 1:
        return np.asarray(np.exp(proposal.log_density(at[:, None])))
    drawn = np.asarray(proposal.sample(_DRAWS, np.random.default_rng(0)))[:, column]
    share, edges = np.histogram(drawn, bins=_BINS, density=True)
    return np.asarray(np.interp(at, (edges[1:] + edges[:-1]) / 2, share, left=0.0, right=0.0))
