r"""Independence Metropolis-Hastings: proposals from one distribution, whatever the state.

With an approximation of the posterior as the proposal this is the naive variational MCMC of de Freitas et al. 2001,
section 4.1.  Proposals are drawn and evaluated in bulk, then scanned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.kernels.kernel import Path, Target, Walkers, values_at
from doxa.sampling.importance_proposals import Proposal

__all__ = ["Independence", "accept_in_turn"]


@dataclass(frozen=True)
class Independence:
    r"""Metropolis-Hastings with proposals drawn from ``proposal``, whatever the state.

    Parameters
    ----------
    proposal : Proposal
        ``sample(n, rng)`` and ``log_density(thetas)``; normalised or not, but always by the same constant.

    Notes
    -----
    A proposal x' is accepted with probability :math:`\min(1, w(x') / w(x))`, w being target over proposal.  Where w is
    not bounded the chain is not geometrically ergodic (Mengersen & Tweedie 1996): see
    `doxa.parameters.kernels.ergodicity`.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.parameters.kernels.kernel import Function
    >>> class Cauchy:
    ...     def sample(self, n, rng):
    ...         return rng.standard_cauchy((n, 1))
    ...
    ...     def log_density(self, thetas):
    ...         return -np.log1p(thetas[:, 0] ** 2)
    >>> normal = Function(lambda x: -0.5 * x[:, 0] ** 2, 1)
    >>> rng = np.random.default_rng(1)
    >>> walkers, path = Independence(Cauchy()).run(normal, start_at(normal, np.zeros((4, 1))), 5000, rng)
    >>> path.thetas.shape, round(float(path.thetas.var()), 1)
    ((5000, 4, 1), 1.0)
    """

    proposal: Proposal

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times; one evaluation of the target on ``n_steps * walkers`` points."""
        n = len(walkers.thetas)
        proposed = np.asarray(self.proposal.sample(n_steps * n, rng), dtype=np.float64)
        values = values_at(target, proposed)
        weights, first = np.zeros((n_steps, n)), np.zeros(n)  # those of draws from the target itself
        if id(self.proposal) != id(target):
            weights = (values - self.proposal.log_density(proposed)).reshape(n_steps, n)
            first = walkers.log_density - self.proposal.log_density(walkers.thetas)
        ratios, source = accept_in_turn(weights, first, rng)
        begun = source < 0  # no proposal accepted yet: still where the walker began
        thetas = np.where(begun[..., None], walkers.thetas, proposed[source])
        log_density = np.where(begun, walkers.log_density, values[source])
        path = Path(thetas, log_density, np.exp(np.minimum(ratios, 0.0)))
        return Walkers(thetas[-1], log_density[-1]), path


def accept_in_turn(
    weights: NDArray[np.float64], first: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Accept or reject in turn: log ratios, and the number of the proposal each walker stands on (-1: none yet).

    Plain loops over floats: array operations of a few walkers a step would take ten times as long.
    """
    n_steps, n = weights.shape
    uniforms = rng.random((n_steps, n))
    if (weights == first).all():  # draws from the target itself: every one is accepted
        return np.zeros((n_steps, n)), np.arange(n_steps * n, dtype=np.intp).reshape(n_steps, n)
    limits = weights - np.log1p(-uniforms)  # of the weight now: above it, stay.  1 - u is in (0, 1], so finite
    source = np.empty((n_steps, n), dtype=np.intp)
    for k in range(n):
        weight, at, stood = float(first[k]), -1, []
        for t, (new, limit) in enumerate(zip(weights[:, k].tolist(), limits[:, k].tolist(), strict=True)):
            if limit > weight:
                weight, at = new, t
            stood.append(at)
        source[:, k] = stood
    walkers = np.arange(n)
    stood_on = np.where(source < 0, first, weights[source, walkers])
    before = np.concatenate([first[None], stood_on[:-1]])
    with np.errstate(invalid="ignore"):
        ratios = np.where(weights > -np.inf, weights - before, -np.inf)  # outside the support: stay
    return ratios, np.where(source < 0, -1, source * n + walkers)
