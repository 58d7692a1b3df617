r"""Proposals of importance sampling: anything that can be drawn from and evaluated, and mixtures of such.

An approximation of a target with several modes is a mixture with a component around each (Antal & Sárközy, step 0 of
the Metropolis-Hastings algorithm).  Its draws are weighted by the density of the whole (Hesterberg 1995, in Riggelsen,
chapter 4, section 1.1.1).  Weights and estimates are not here: see `doxa.sampling.importance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError

__all__ = ["Draws", "Mixture", "Proposal", "check_weights"]

Draws: TypeAlias = NDArray[Any]  # (n, ...): real numbers or integer states


class Proposal(Protocol):
    """What can be drawn from and evaluated; both on batches."""

    def sample(self, n: int, rng: np.random.Generator) -> Draws:
        """``n`` independent draws, shape (n, ...)."""

    def log_density(self, draws: Draws) -> NDArray[np.float64]:
        """Log density (or probability) of each draw, shape (n,), normalised where a constant is to be estimated."""


def check_weights(weights: ArrayLike, n: int, of: str, they: str) -> NDArray[np.float64]:
    """Probabilities of n things, as a read-only array of its own; ArgumentError, in these words, if they are none."""
    checked = np.array(weights, dtype=np.float64)
    if checked.shape != (n,):
        raise ArgumentError(f"weights has shape {checked.shape}, but there are {n} {of}")
    bad = ~(checked >= 0)
    if bad.any():
        i = int(bad.argmax())
        raise ArgumentError(f"weights[{i}] is {checked[i]}; {they} must not be negative")
    if abs(checked.sum() - 1) > 1e-9:
        raise ArgumentError(f"weights sum to {checked.sum():.6g}; they must sum to 1")
    checked.flags.writeable = False
    return checked


@dataclass(frozen=True)
class Mixture:
    r"""A proposal made of others: drawn from one of them, weighted by all of them (Hesterberg 1995).

    Parameters
    ----------
    components : sequence of Proposal
        Each covers a part of the target, with normalised densities and draws of one shape. Adding one that is wide (a
        prior, say) with weight e bounds every weight by 1 / e of what that component alone would give.
    weights : sequence of float
        Probability of each component; not negative, sum 1.

    Raises
    ------
    ArgumentError
        If there are no components, the numbers of both differ, or ``weights`` are not probabilities.

    Notes
    -----
    :math:`q(x) = \sum_i v_i q_i(x)`, whichever component x came from. Dividing by that component's density
    instead is unbiased too, but its weights are unbounded wherever one component has a thin tail. Components are
    chosen independently for each draw; fixed shares would lower the variance, but errors that assume independent
    draws would not know it, so they are not offered.

    Examples
    --------
    >>> class Coin:
    ...     def __init__(self, p):
    ...         self.log_p = np.log([1 - p, p])
    ...
    ...     def sample(self, n, rng):
    ...         return (rng.random(n) < np.exp(self.log_p[1])).astype(int)
    ...
    ...     def log_density(self, draws):
    ...         return self.log_p[draws]
    >>> both = Mixture([Coin(0.1), Coin(0.9)], [0.75, 0.25])
    >>> np.exp(both.log_density(np.array([0, 1]))).round(3)
    array([0.7, 0.3])
    """

    components: Sequence[Proposal]
    weights: Sequence[float] | NDArray[np.float64]

    def __post_init__(self) -> None:
        """Refuse weights that are no distribution over the components."""
        if not len(self.components):
            raise ArgumentError("components is empty; a mixture needs at least one")
        weights = check_weights(self.weights, len(self.components), "components", "the weights of a mixture")
        object.__setattr__(self, "components", tuple(self.components))
        object.__setattr__(self, "weights", weights)

    def sample(self, n: int, rng: np.random.Generator) -> Draws:
        """Draw ``n`` times, each from a component chosen at random; the order is random too."""
        label = rng.choice(len(self.components), size=n, p=np.asarray(self.weights))
        parts = [
            np.asarray(component.sample(int(size), rng))
            for component, size in zip(self.components, np.bincount(label, minlength=len(self.components)), strict=True)
            if size
        ]
        shapes = {part.shape[1:] for part in parts}
        if len(shapes) > 1:
            raise ArgumentError(f"the components draw different shapes, {sorted(shapes)}; all must agree")
        drawn = np.concatenate(parts)
        mixed = np.empty_like(drawn)
        mixed[np.argsort(label.astype(np.uint16), kind="stable")] = drawn  # short numbers are sorted by their digits
        return mixed

    def log_density(self, draws: Draws) -> NDArray[np.float64]:
        """Log density of the whole mixture at each draw."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(np.asarray(self.weights))
        terms = np.stack([np.asarray(c.log_density(draws), dtype=np.float64) for c in self.components])
        total: NDArray[np.float64] = np.logaddexp.reduce(terms + log_weights[:, None], axis=0)
        return total
