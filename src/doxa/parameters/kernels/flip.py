r"""The flip: an independence proposal of both ends of a Gaussian step, m + z and m - z.

Of z ~ N(0, S) both ends are evaluated and one is picked in proportion to the target p.  The proposal of such pairs has
density 2q, the pair's mass is p(m + z) + p(m - z), so pairs are weighted by
:math:`W(\theta) = [p(\theta) + p(2m - \theta)] / 2q(\theta)`: what is odd about m in log p - log q, skewness above all,
no longer makes weights differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import GaussianProposal, check_gaussian
from doxa.parameters.kernels.independence import accept_in_turn
from doxa.parameters.kernels.kernel import Path, Target, Walkers, check_dimensions, values_at
from doxa.sampling.importance import ImportanceSample

__all__ = ["Flip", "Pairs", "draw_pairs", "flip_weights"]


class Pairs(NamedTuple):
    """Points and their reflections about the proposal's mean."""

    plus: Floats  # (n, d)
    minus: Floats  # (n, d), 2m - plus
    log_plus: Floats  # (n,), log density of the target, nats
    log_minus: Floats  # (n,)
    log_proposal: Floats  # (n,), of either

    @property
    def log_weights(self) -> Floats:
        """log W, shape (n,), nats."""
        return np.asarray(np.logaddexp(self.log_plus, self.log_minus) - np.log(2) - self.log_proposal)


@dataclass(frozen=True)
class Flip:
    r"""Metropolis-Hastings with pairs m + z, m - z, and a draw of the side.

    Parameters
    ----------
    gaussian : GaussianProposal
        N(m, S), or another law that is symmetric about its ``mean``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``gaussian`` has no mean or Cholesky factor, as a mixture, or its density is not the same on both sides of
        its mean; when run, if the target has another number of coordinates.

    Notes
    -----
    The state is a pair (its masses p(+), p(-)) and a side.  If :math:`\theta \sim p`, its pair has density p(+) + p(-),
    and the side given the pair has odds p(+) : p(-).  A step is an independence step on pairs, accepted with
    min(1, W' / W), which keeps the first; then the side is drawn afresh, *whether or not the pair was accepted*, which
    keeps the second. Accepting with the plain weights p / q of the point picked is biased. Each step costs two
    evaluations of the target; W of the walkers where they stand costs one more each, once a run.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.parameters.kernels.independence import Independence
    >>> from doxa.parameters.kernels.kernel import Function
    >>> class Normal:
    ...     mean, cholesky = np.zeros(1), np.eye(1)
    ...
    ...     def sample(self, n, rng):
    ...         return rng.standard_normal((n, 1))
    ...
    ...     def log_density(self, thetas):
    ...         return -0.5 * thetas[:, 0] ** 2
    >>> skew = Function(lambda x: -0.5 * x[:, 0] ** 2 - np.logaddexp(0, -3 * x[:, 0]), 1)  # a skew logistic-normal
    >>> rng = np.random.default_rng(1)
    >>> for kernel in (Independence(Normal()), Flip(Normal())):
    ...     _, path = kernel.run(skew, start_at(skew, np.ones((4, 1))), 2000, rng)
    ...     print(round(float(path.acceptance.mean()), 2), round(float(path.thetas.mean()), 1))
    0.58 0.7
    1.0 0.7
    """

    gaussian: GaussianProposal

    def __post_init__(self) -> None:
        """Refuse proposals that are not symmetric."""
        check_symmetric(self.gaussian)

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times; one evaluation on twice as many points, and one on the walkers."""
        check_dimensions(self, len(self.gaussian.mean), target)
        n = len(walkers.thetas)
        pairs = draw_pairs(target, self.gaussian, n_steps * n, rng)
        mirrored = 2 * self.gaussian.mean - walkers.thetas
        begun_at = Pairs(
            walkers.thetas,
            mirrored,
            walkers.log_density,
            values_at(target, mirrored),
            self.gaussian.log_density(walkers.thetas),
        )
        ratios, source = accept_in_turn(pairs.log_weights.reshape(n_steps, n), begun_at.log_weights, rng)
        begun = source < 0  # no pair accepted yet: still where the walker began
        log_plus = np.where(begun, begun_at.log_plus, pairs.log_plus[source])
        log_minus = np.where(begun, begun_at.log_minus, pairs.log_minus[source])
        up = rng.random(source.shape) < expit(log_plus - log_minus)
        plus = np.where(begun[..., None], begun_at.plus, pairs.plus[source])
        minus = np.where(begun[..., None], begun_at.minus, pairs.minus[source])
        thetas, log_density = np.where(up[..., None], plus, minus), np.where(up, log_plus, log_minus)
        return Walkers(thetas[-1], log_density[-1]), Path(thetas, log_density, np.exp(np.minimum(ratios, 0.0)))


def check_symmetric(gaussian: GaussianProposal) -> None:
    """Refuse what is no Gaussian, or has other densities at m + z than at m - z, z the columns of its factor."""
    check_gaussian("gaussian", gaussian)
    mean, steps = np.asarray(gaussian.mean), np.asarray(gaussian.cholesky).T
    above, below = gaussian.log_density(mean + steps), gaussian.log_density(mean - steps)
    if not np.allclose(above, below, rtol=1e-8, atol=1e-8):
        raise ArgumentError(
            f"gaussian is of type {type(gaussian).__name__}, whose density is not the same on both sides of its mean; "
            "flips need a symmetric proposal, so no mixture: use Independence for others"
        )


def draw_pairs(target: Target, gaussian: GaussianProposal, n: int, rng: np.random.Generator) -> Pairs:
    """``n`` independent pairs, evaluated in one batch."""
    plus = np.asarray(gaussian.sample(n, rng), dtype=np.float64)
    minus = 2 * gaussian.mean - plus
    values = values_at(target, np.concatenate([plus, minus]))
    return Pairs(plus, minus, values[:n], values[n:], np.asarray(gaussian.log_density(plus)))


def flip_weights(target: Target, gaussian: GaussianProposal, n: int, rng: np.random.Generator) -> ImportanceSample:
    r"""Weighted draws by flips: independent, and nearly of the same weight where the Gaussian is good.

    Parameters
    ----------
    target : Target
    gaussian : GaussianProposal
        Symmetric, with a normalised density if the constant of the target is to be estimated.
    n : int
        Pairs, at least 2; of each, one point is drawn.
    rng : Generator

    Returns
    -------
    ImportanceSample
        Draws (n, d) with weights W.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        As `Flip`, and if ``n`` is no whole number of at least 2.

    Notes
    -----
    A point drawn so has the density :math:`2 q(\theta) p(\theta) / [p(\theta) + p(2m - \theta)]`, whose integral is 1,
    and p over it is W. Keeping both points, each with its own weight, would be more accurate, but errors that assume
    independent draws would not know that the two belong together.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import Function
    >>> class Normal:
    ...     mean, cholesky = np.zeros(1), np.eye(1)
    ...
    ...     def sample(self, n, rng):
    ...         return rng.standard_normal((n, 1))
    ...
    ...     def log_density(self, thetas):
    ...         return -0.5 * thetas[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)
    >>> skew = Function(lambda x: -0.5 * x[:, 0] ** 2 - np.logaddexp(0, -3 * x[:, 0]), 1)
    >>> sample = flip_weights(skew, Normal(), 1000, np.random.default_rng(1))
    >>> round(sample.ess), round(sample.log_normalising_constant().value, 4)  # log(sqrt(2 pi) / 2)
    (1000, 0.2258)
    """
    check_symmetric(gaussian)
    check_dimensions(gaussian, len(gaussian.mean), target)
    pairs = draw_pairs(target, gaussian, check_whole("n", n, 2), rng)
    nowhere = np.isneginf(pairs.log_plus) & np.isneginf(pairs.log_minus)  # weight 0, whichever side
    difference = np.subtract(pairs.log_plus, pairs.log_minus, out=np.zeros(n), where=~nowhere)
    up = rng.random(n) < expit(difference)
    log_target = np.where(up, pairs.log_plus, pairs.log_minus)
    log_proposal = np.subtract(log_target, pairs.log_weights, out=pairs.log_proposal.copy(), where=~nowhere)
    return ImportanceSample(np.where(up[:, None], pairs.plus, pairs.minus), log_target, log_proposal)
