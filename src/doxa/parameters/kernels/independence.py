r"""Independence Metropolis-Hastings: proposals from one distribution, whatever the state.

With an approximation of the posterior as the proposal this is the naive variational MCMC of de Freitas et al. 2001,
section 4.1.  Proposals are drawn and evaluated in bulk, then scanned.

Jumps between modes that were found: what lies around one is mapped onto what lies around another.

Where each mode has a Gaussian :math:`N(m_j, L_j L_j^T)`, the map :math:`\theta' = m_k + L_k L_j^{-1} (\theta - m_j)`
takes the one at mode j to the one at mode k, whatever the distance and the depth of the valley between them (compare
Tjelmeland & Hegstad 2001; de Freitas et al. 2001, section 6, ask for jumps between modes that bounds have located).

Exchanges in turn with another kernel: linear maps that are their own inverses, accepted by their ratio.

Where a target has mirror images of its modes, as where a hidden node's two labels or two hidden nodes can be exchanged,
a map leads from each to another at once, and a local kernel need not cross what lies between (compare the permutation
sampler of Fruhwirth-Schnatter 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import GaussianProposal
from doxa.parameters.kernels.kernel import (
    Kernel,
    Path,
    Target,
    Walkers,
    check_dimensions,
    decide,
    join,
    run_lockstep,
    values_at,
)
from doxa.sampling.importance_proposals import Proposal

__all__ = ["Exchanging", "Independence", "Jump", "accept_in_turn"]

_MANY = 64  # walkers: array operations on all of them are quicker than a loop
_TOLERANCE = 1e-9


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
    if n > _MANY:
        source = _stood_by_step(weights, limits, first)
    else:
        columns = zip(first.tolist(), weights.T.tolist(), limits.T.tolist(), strict=True)
        stood_all = [_stood(*column) for column in columns]
        source = np.ascontiguousarray(np.array(stood_all, dtype=np.intp).T)
    walkers = np.arange(n)
    stood_on = np.where(source < 0, first, weights[source, walkers])
    before = np.concatenate([first[None], stood_on[:-1]])
    with np.errstate(invalid="ignore"):
        ratios = np.where(weights > -np.inf, weights - before, -np.inf)  # outside the support: stay
    return ratios, np.where(source < 0, -1, source * n + walkers)


def _stood(weight: float, new: list[float], limits: list[float]) -> list[int]:
    """Which proposal one walker stands on after each step."""
    at, stood = -1, []
    for t, limit in enumerate(limits):
        if limit > weight:
            weight, at = new[t], t
        stood.append(at)
    return stood


def _stood_by_step(weights: Floats, limits: Floats, weight: Floats) -> NDArray[np.intp]:
    """The same of many walkers, one step after another, shape (n_steps, n)."""
    source = np.empty(weights.shape, dtype=np.intp)
    at = np.full(weights.shape[1], -1)
    for t, limit in enumerate(limits):
        accepted = limit > weight
        weight, at = np.where(accepted, weights[t], weight), np.where(accepted, t, at)
        source[t] = at
    return source


@dataclass(frozen=True, eq=False)
class Exchanging:
    r"""A kernel, and exchanges before some of its steps.

    Parameters
    ----------
    kernel : Kernel
    matrices : sequence of ndarray of float, shape (d, d)
        The exchanges :math:`\theta' = A\theta`, each its own inverse.
    every : int, default=1
        Steps of the kernel between two rounds of exchanges.

    Raises
    ------
    ArgumentError
        If there is no matrix, one is not its own inverse, or ``every`` is below 1.

    Notes
    -----
    Each exchange is proposed to each walker with probability 1/2, as one that is always accepted would else alternate
    between two images. Its determinant is 1 or -1, so the acceptance probability is :math:`\min(1, p(A\theta) /
    p(\theta))`: the target is kept whether or not the exchange is a symmetry of it. The acceptance of a path is that of
    the kernel.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.parameters.kernels.random_walk import RandomWalk
    >>> from doxa.parameters.kernels.kernel import Function
    >>> two = Function(lambda x: np.logaddexp(-0.5 * (x[:, 0] - 9) ** 2, -0.5 * (x[:, 0] + 9) ** 2), 1)
    >>> kernel = Exchanging(RandomWalk(2.0), [-np.eye(1)])
    >>> _, path = kernel.run(two, start_at(two, np.full((4, 1), 9.0)), 1000, np.random.default_rng(1))
    >>> round(float((path.thetas > 0).mean()), 1)
    0.5
    """

    kernel: Kernel
    matrices: Sequence[NDArray[np.float64]]
    every: int = 1

    def __post_init__(self) -> None:
        """Refuse what is no exchange."""
        check_whole("every", self.every, 1)
        if not len(self.matrices):
            raise ArgumentError("matrices is empty; give at least one exchange, or use the kernel alone")
        for i, matrix in enumerate(self.matrices):
            if not np.allclose(matrix @ matrix, np.eye(len(matrix)), rtol=0, atol=_TOLERANCE):
                raise ArgumentError(f"matrices[{i}] is not its own inverse; its ratio would lack the Hastings term")

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times; each exchange evaluates the target once, on all walkers."""
        check_dimensions(self, len(self.matrices[0]), target)
        paths = []
        for first in range(0, n_steps, self.every):
            for matrix in self.matrices:
                walkers = exchanged(target, walkers, matrix, rng)
            walkers, path = self.kernel.run(target, walkers, min(self.every, n_steps - first), rng)
            paths.append(path)
        return walkers, join(paths)


def exchanged(target: Target, walkers: Walkers, matrix: NDArray[np.float64], rng: np.random.Generator) -> Walkers:
    """Walkers after an exchange that is proposed to half of them."""
    proposed = np.where(rng.random((len(walkers.thetas), 1)) < 0.5, walkers.thetas @ matrix.T, walkers.thetas)
    return decide(target, walkers, proposed, 0.0, rng)[0]


@dataclass(frozen=True, eq=False)
class Jump:
    r"""Metropolis-Hastings by the maps between Gaussians around modes; in turn with a kernel that moves within them.

    Parameters
    ----------
    gaussians : sequence of GaussianProposal
        At least two, ``mean`` (d,) and ``cholesky`` (d, d) each.

    Raises
    ------
    ArgumentError
        If there are fewer than two.

    Notes
    -----
    Each walker draws two different modes j and k, each pair with the same probability whatever its state, and is
    offered the map from j to k: the way back is the map from k to j, so it is accepted with probability :math:`\min(1,
    p(\theta') |L_k| / p(\theta) |L_j|)`.  By itself the kernel does not reach every state.

    Examples
    --------
    >>> from doxa.parameters.kernels import RandomWalk, cycle
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.parameters.kernels.gaussians import Normal
    >>> from doxa.parameters.kernels.kernel import Function
    >>> left, right = Normal(np.array([-9.0]), np.eye(1)), Normal(np.array([9.0]), 2 * np.eye(1))
    >>> two = Function(lambda x: np.logaddexp(left.log_density(x) + np.log(0.3), right.log_density(x) + np.log(0.7)), 1)
    >>> kernel = cycle(Jump([left, right]), RandomWalk(2.0))
    >>> _, path = kernel.run(two, start_at(two, np.full((4, 1), 9.0)), 2000, np.random.default_rng(1))
    >>> round(float((path.thetas > 0).mean()), 1)
    0.7
    """

    gaussians: Sequence[GaussianProposal]

    def __post_init__(self) -> None:
        """Refuse what has nowhere to jump to."""
        if len(self.gaussians) < 2:
            raise ArgumentError(f"gaussians has {len(self.gaussians)}; a jump is between two modes at least")

    @cached_property
    def _shapes(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Means, roots, inverse roots and log volumes."""
        means = np.array([np.asarray(one.mean, dtype=np.float64) for one in self.gaussians])
        roots = np.array([np.asarray(one.cholesky, dtype=np.float64) for one in self.gaussians])
        return means, roots, np.linalg.inv(roots), np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Offer every walker ``n_steps`` jumps."""
        means, roots, inverses, volumes = self._shapes
        n_modes = len(means)
        check_dimensions(self, means.shape[1], target)

        def step(now: Walkers) -> tuple[Walkers, Floats]:
            n = len(now.thetas)
            here = rng.integers(n_modes, size=n)
            there = (here + rng.integers(1, n_modes, size=n)) % n_modes
            inner = np.einsum("nij,nj->ni", inverses[here], now.thetas - means[here])
            proposed = means[there] + np.einsum("nij,nj->ni", roots[there], inner)
            return decide(target, now, proposed, volumes[there] - volumes[here], rng)

        return run_lockstep(step, walkers, n_steps)
