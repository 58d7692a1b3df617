"""Whether a kernel keeps a distribution, by running it: for kernels whose matrix nobody can write down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from doxa.errors import ArgumentError
from doxa.testing.checks import as_distribution

__all__ = ["simulated_invariance"]

_EXPECTED = 5.0  # starts: states with fewer are counted together


def simulated_invariance(
    step: Callable[[int, np.random.Generator], int], target: ArrayLike, n: int = 20_000, seed: int = 0
) -> float:
    """Start a kernel in draws from its target, move each once, and test whether they are such draws still.

    Parameters
    ----------
    step : callable
        From the number of a state and a random generator to the number of the next state.
    target : array of float, shape (n_states,)
        The distribution that the kernel is to keep.
    n : int, default=20_000
        Starts.  A kernel that moves a share d of the probability from where it belongs is seen once n d^2 is some
        tens.
    seed : int, default=0

    Returns
    -------
    float
        p-value of the chi-square test: uniform on (0, 1) for a right kernel, next to 0 for a wrong one.

    Raises
    ------
    ArgumentError
        If the target is no distribution, or the kernel leaves its states.

    Examples
    --------
    A Metropolis kernel that proposes the other of two states, and one that forgets to reject:

    >>> def right(state, rng):
    ...     return 1 - state if rng.random() < min(1.0, (0.2, 0.8)[1 - state] / (0.2, 0.8)[state]) else state
    >>> simulated_invariance(right, [0.2, 0.8]) > 0.001
    True
    >>> simulated_invariance(lambda state, rng: 1 - state, [0.2, 0.8]) < 1e-9
    True
    """
    from scipy.special import chdtrc

    law = as_distribution(target, "target")
    rng = np.random.default_rng(seed)
    ends = np.zeros(len(law))
    for state in rng.choice(len(law), size=n, p=law).tolist():
        end = step(state, rng)
        if not 0 <= end < len(law):
            raise ArgumentError(f"step led from state {state} to {end!r}, which is not among the {len(law)} states")
        ends[end] += 1
    order = np.argsort(-law)
    common = order[n * law[order] >= _EXPECTED]
    found, expected = ends[common], n * law[common]
    rest = n - expected.sum()
    if rest > 0:
        found, expected = np.append(found, n - found.sum()), np.append(expected, rest)
    if len(expected) < 2:
        raise ArgumentError("target has nearly all its probability in one state; there is nothing to compare")
    return float(chdtrc(len(expected) - 1, ((found - expected) ** 2 / expected).sum()))
