r"""The joint posterior of coefficients and the learned scales of their prior, in coordinates that suit it.

`ScaledTarget` has coefficients and log scales.  Where the data say little a coefficient is as wide as its scale, and
the density is a funnel that no Gaussian fits; where they say much it is not.  `ScaledCoordinates` divide the distance
of a coefficient from its prior mean by :math:`\sigma^{1 - c}`: c = 1 leaves it as it is (centred), c = 0 makes it
independent of the scale a priori (non-centred), and what lies between is for data that say something
(Papaspiliopoulos, Roberts & Skold 2007).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.models.logistic_options import GaussianPrior
from doxa.parameters.joint_target import JointTarget
from doxa.parameters.kernels.kernel import Kernel, Path, SmoothTarget, Target, ValueAndGradient, Walkers
from doxa.sampling.importance_proposals import Mixture, Proposal

if TYPE_CHECKING:
    from doxa.data import Table
    from doxa.models import LogisticNetwork
    from doxa.models.logistic_parts import Part

__all__ = ["InCoordinates", "ScaledCoordinates", "ScaledKernel", "ScaledProposal", "ScaledTarget"]

_MOST = 60.0  # of |log scale|: beyond, squares and their products leave the range of numbers


class _Group(NamedTuple):
    """Coefficients that share a scale, by their places in the vector."""

    slopes: NDArray[np.intp]
    means: Floats
    scale: int


class ScaledTarget(JointTarget):
    """Log posterior density of coefficients and log scales of one part, normalised but for the evidence."""

    def __init__(self, network: LogisticNetwork, part: Part, table: Table) -> None:
        super().__init__(network, part, table)
        assert network.learned_scale is not None
        self._hyperprior = network.learned_scale
        places = {label: k for k, label in enumerate(self.packing.labels)}
        self.groups = []
        for scale in self.packing.scales:
            nodes = network.scales[scale]
            slopes = [places[node, parent] for node in nodes for parent in network.parents(node)]
            means = [network.prior(node, 1.0).mean[self._n_given(node) :] for node in nodes]
            self.groups.append(_Group(np.array(slopes), np.concatenate(means), places[scale, "scale"]))

    def prior_of(self, node: str) -> GaussianPrior:
        """A Gaussian about as wide as the prior of a node's coefficients, or of a log scale."""
        width = self._hyperprior.width
        if node in self.packing.scales:
            return GaussianPrior(np.array([np.log(width) - 0.5]), np.array([[1.5**2]]))
        return self.network.prior(node, width if self.network.scale_of(node) else None)

    def value_and_gradient(self, thetas: Floats) -> ValueAndGradient:
        """Log density (n,) and its gradient (n, d)."""
        value, gradient = super().value_and_gradient(thetas)
        for slopes, means, scale in self.groups:
            log_scale = np.clip(thetas[:, scale], -_MOST, _MOST)
            residual = (thetas[:, slopes] - means) * np.exp(-log_scale)[:, None]
            gradient[:, slopes] -= residual * np.exp(-log_scale)[:, None]
            gradient[:, scale] += (residual**2 - 1).sum(axis=1) + self._hyperprior.slope(np.exp(log_scale)) + 1
        return ValueAndGradient(value, gradient)

    def _log_prior(self, thetas: Floats) -> Floats:
        total = super()._log_prior(thetas)
        for slopes, means, scale in self.groups:
            log_scale = np.clip(thetas[:, scale], -_MOST, _MOST)
            residual = (thetas[:, slopes] - means) * np.exp(-log_scale)[:, None]
            total -= 0.5 * (residual**2).sum(axis=1) + len(slopes) * (log_scale + 0.5 * np.log(2 * np.pi))
            total += self._hyperprior.log_density(np.exp(log_scale)) + thetas[:, scale]  # a density of the logarithm
        return total

    def _parameters(self, thetas: Floats) -> dict[str, Floats]:
        with np.errstate(over="ignore"):  # of a scale far out, which the likelihood does not know
            found = super()._parameters(thetas)
        return {node: found[node] for node in self.packing.nodes if node not in self.packing.scales}

    def _n_given(self, node: str) -> int:
        """How many coefficients, the first, have a scale that is given."""
        n = self.network.n_coefficients(node)
        return n - len(self.network.parents(node)) if self.network.scale_of(node) else n

    @cached_property
    def _precisions(self) -> list[tuple[slice, Floats, Floats]]:
        """Of what has a Gaussian prior whatever the scales: nodes that share none, and biases of those that do."""
        found = []
        for node, place in self.packing.place.items():
            if node in self.packing.roots or node in self.packing.scales:
                continue
            mean, covariance = self.prior_of(node)
            k = self._n_given(node)
            if k:
                precision = np.asarray(np.linalg.inv(covariance[:k, :k]), dtype=np.float64)
                found.append((slice(place.start, place.start + k), mean[:k], precision))
        return found


@dataclass(frozen=True, eq=False)
class ScaledCoordinates:
    """Coordinates in which coefficients' distances from their prior means are divided by scale ** (1 - centring)."""

    groups: tuple[_Group, ...]
    centring: float

    def outer(self, inner: Floats) -> Floats:
        """Coefficients and log scales (..., d) from the coordinates."""
        thetas = inner.copy()
        for slopes, means, scale in self.groups:
            thetas[..., slopes] = means + inner[..., slopes] * self._factor(inner[..., scale])
        return thetas

    def inner(self, thetas: Floats) -> Floats:
        """Undo `outer`."""
        inner = thetas.copy()
        for slopes, means, scale in self.groups:
            inner[..., slopes] = (thetas[..., slopes] - means) / self._factor(thetas[..., scale])
        return inner

    def log_volume(self, thetas: Floats) -> Floats:
        """Log determinant (nats) of the derivative of `outer`; the log scales are the same on both sides."""
        total = np.zeros(thetas.shape[:-1])
        for slopes, _, scale in self.groups:
            total += (1 - self.centring) * len(slopes) * np.clip(thetas[..., scale], -_MOST, _MOST)
        return total

    def pulled(self, inner: Floats, gradient: Floats) -> Floats:
        """Gradient by the coordinates of a log density with this gradient by coefficients, log volume included."""
        found = gradient.copy()
        for slopes, _, scale in self.groups:
            found[:, slopes] *= self._factor(inner[:, scale])
            found[:, scale] += (1 - self.centring) * ((inner[:, slopes] * found[:, slopes]).sum(axis=1) + len(slopes))
        return found

    def _factor(self, log_scale: Floats) -> Floats:
        return np.asarray(np.exp((1 - self.centring) * np.clip(log_scale, -_MOST, _MOST)))[..., None]


@dataclass(frozen=True, eq=False)
class InCoordinates:
    """A target over coefficients and log scales as one over coordinates."""

    target: Target
    coordinates: ScaledCoordinates

    @property
    def n_dimensions(self) -> int:
        """The number of coordinates."""
        return self.target.n_dimensions

    @cached_property
    def prior_spread(self) -> tuple[Floats, Floats]:
        """Mean (d,) and lower Cholesky factor (d, d) of a Gaussian about as wide as the prior."""
        assert isinstance(self.target, ScaledTarget)
        mean, cholesky = (part.copy() for part in self.target.prior_spread)
        for slopes, means, _ in self.coordinates.groups:
            mean[slopes] -= means
            cholesky[slopes, slopes] **= self.coordinates.centring
        return mean, cholesky

    def log_density(self, inner: Floats) -> Floats:
        """Log density (nats) of the coordinates, shape (n,)."""
        thetas = self.coordinates.outer(inner)
        return self.target.log_density(thetas) + self.coordinates.log_volume(thetas)

    def value_and_gradient(self, inner: Floats) -> ValueAndGradient:
        """Log density (n,) and its gradient (n, d)."""
        assert isinstance(self.target, SmoothTarget)
        thetas = self.coordinates.outer(inner)
        value, gradient = self.target.value_and_gradient(thetas)
        return ValueAndGradient(value + self.coordinates.log_volume(thetas), self.coordinates.pulled(inner, gradient))


@dataclass(frozen=True, eq=False)
class ScaledProposal:
    """A proposal of coordinates as one of coefficients and log scales."""

    proposal: Proposal
    coordinates: ScaledCoordinates

    @property
    def method(self) -> str:
        """What it is, in words."""
        kind = "mixture of t" if isinstance(self.proposal, Mixture) else "Gaussian at the mode"
        return f"{kind}, coefficients in units of their scale to the power {1 - self.coordinates.centring:g}"

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """``n`` independent draws, shape (n, d)."""
        return self.coordinates.outer(np.asarray(self.proposal.sample(n, rng)))

    def log_density(self, thetas: Floats) -> Floats:
        """Normalised log density (nats), shape (n,)."""
        inside = self.proposal.log_density(self.coordinates.inner(thetas))
        return np.asarray(inside - self.coordinates.log_volume(thetas))


@dataclass(frozen=True, eq=False)
class ScaledKernel:
    """A kernel that moves in coordinates, for walkers that stand at coefficients and log scales."""

    kernel: Kernel
    coordinates: ScaledCoordinates

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times."""
        volume = self.coordinates.log_volume
        begun = Walkers(self.coordinates.inner(walkers.thetas), walkers.log_density + volume(walkers.thetas))
        ended, path = self.kernel.run(InCoordinates(target, self.coordinates), begun, n_steps, rng)
        after, passed = self.coordinates.outer(ended.thetas), self.coordinates.outer(path.thetas)
        return (
            Walkers(after, ended.log_density - volume(after)),
            Path(passed, path.log_density - volume(passed), path.acceptance),
        )
