r"""Jumps between modes that were found: what lies around one is mapped onto what lies around another.

Where each mode has a Gaussian :math:`N(m_j, L_j L_j^T)`, the map :math:`\theta' = m_k + L_k L_j^{-1} (\theta - m_j)`
takes the one at mode j to the one at mode k, whatever the distance and the depth of the valley between them (compare
Tjelmeland & Hegstad 2001; de Freitas et al. 2001, section 6, ask for jumps between modes that bounds have located).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import GaussianProposal
from doxa.parameters.kernels.kernel import Path, Walkers, check_dimensions, decide, run_lockstep
from doxa.parameters.kernels.targets import Target

__all__ = ["Jump"]

Floats: TypeAlias = NDArray[np.float64]


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
    >>> from doxa.parameters.kernels.normal import Normal
    >>> from doxa.parameters.kernels.targets import Function
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
