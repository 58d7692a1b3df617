"""The Gaussians of an approximation, with a weight each: what kernels need that propose from one Gaussian at a time.

An approximation of several modes is a mixture (de Freitas et al. 2001, section 6), and block updates, flips and
Hamiltonian steps that rotate need a Gaussian.  So each component makes a kernel, and one of these is drawn at each step
whatever the state: as each keeps the target, so does the choice among them.  Steps of a component move walkers about
its own mode; those of the others are hardly ever accepted there, and proposals from the whole mixture, in turn with
them, jump.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.approximate import Approximated
from doxa.parameters.kernels.combined import mixture
from doxa.parameters.kernels.kernel import Kernel
from doxa.parameters.kernels.student import Student
from doxa.parameters.kernels.targets import values_at
from doxa.parameters.reach import Reach
from doxa.sampling.gaussian import Gaussian
from doxa.sampling.importance_proposals import Mixture
from doxa.sampling.importance_weights import normalised_weights

__all__ = ["Component", "components_of", "moments_of", "one_at_a_time"]

Floats: TypeAlias = NDArray[np.float64]

_MOST = 8  # components: more of them are pieces of a bent mode, and each has a kernel to be tuned
_EQUALLY = 0.5  # of the choices are made without regard to weights, so that a light mode too is moved about in
_MOMENTS = 4000  # draws that tell how wide all components are together


class Component(NamedTuple):
    """One Gaussian of an approximation."""

    share: float  # of the steps that are to be made under it; those of all sum to 1
    gaussian: Gaussian


def components_of(found: Approximated) -> list[Component]:
    """The Gaussians of what was found, the heaviest first: one, or at most eight of a mixture.

    A t distribution counts as the Gaussian with its covariance; the component that is as wide as the prior is left out.

    Examples
    --------
    >>> from doxa.models.logistic_parts import Part
    >>> wide, narrow = (Student(np.zeros(1), np.array([[s]]), np.inf) for s in (2.0, 1.0))
    >>> found = Approximated(Part(("y",), (0,), False), None, Mixture([narrow, wide], [0.2, 0.8]))
    >>> [(round(one.share, 2), float(one.gaussian.cholesky[0, 0])) for one in components_of(found)]
    [(0.65, 2.0), (0.35, 1.0)]
    """
    if not isinstance(found.proposal, Mixture):
        return [Component(1.0, found.proposal)]
    prior = getattr(found.target, "prior_spread", None)
    parts = list(zip(found.proposal.weights, found.proposal.components, strict=True))
    pieces = [(float(weight), part) for weight, part in parts if isinstance(part, Student) and not _is(part, prior)]
    heaviest = sorted(pieces, key=lambda piece: -piece[0])[:_MOST]
    total = sum(weight for weight, _ in heaviest)
    equal = _EQUALLY / len(heaviest)
    return [Component(equal + (1 - _EQUALLY) * weight / total, _as_gaussian(part)) for weight, part in heaviest]


def one_at_a_time(components: list[Component], make: Callable[[Gaussian], Kernel]) -> Kernel:
    """The kernel of the only Gaussian, or at each step that of one drawn by its share, whatever the state."""
    kernels = [make(component.gaussian) for component in components]
    return kernels[0] if len(kernels) == 1 else mixture(*kernels, weights=[component.share for component in components])


def moments_of(found: Approximated, reach: Reach, rng: np.random.Generator) -> Gaussian:
    """A Gaussian as wide as all modes together: the approximation itself where it is one and does by itself.

    Else it has the mean and the covariance of draws, half of which are those of what is proposed, weighted to be the
    target's where the weights tell enough.  The other half are those of the components by their shares: by the target's
    moments alone a light mode lies many standard deviations out, 1 / sqrt(mass).
    """
    components = components_of(found)
    tell = reach.pilot.good_with_long_tails
    if len(components) == 1 and (reach.gaussian_alone or not tell):
        return components[0].gaussian
    shares = np.array([component.share for component in components])
    means = np.array([component.gaussian.mean for component in components])
    covariances = np.array([component.gaussian.covariance for component in components])
    if tell:
        thetas = np.asarray(reach.proposal.sample(_MOMENTS, rng), dtype=np.float64)
        weights = normalised_weights(values_at(found.target, thetas) - reach.proposal.log_density(thetas))
        shares = np.append(0.5 * shares, 0.5)
        means = np.vstack([means, np.average(thetas, axis=0, weights=weights)])
        covariances = np.concatenate([covariances, np.atleast_2d(np.cov(thetas.T, aweights=weights))[None]])
    mean = shares @ means
    between = np.einsum("k,ki,kj->ij", shares, means - mean, means - mean)
    return Gaussian.from_covariance(mean, np.einsum("k,kij->ij", shares, covariances) + between)


def _is(part: Student, spread: tuple[Floats, Floats] | None) -> bool:
    return spread is not None and np.array_equal(part.mean, spread[0]) and np.array_equal(part.cholesky, spread[1])


def _as_gaussian(part: Student) -> Gaussian:
    wider = 1.0 if np.isinf(part.df) else np.sqrt(part.df / (part.df - 2))
    return Gaussian(part.mean, wider * part.cholesky)
