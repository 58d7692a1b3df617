"""Anderson's method: the next point of a fixed-point iteration, from its last few steps.

If a step takes x to f(x), the combination of past x whose changes f(x) - x cancel best points at the fixed point; the
same combination of their f(x) is where to go (Anderson 1965, with Walker & Ni's (2011) differences).  It guarantees
nothing: a caller that climbs a bound checks it, and takes the plain step where the extrapolated one falls.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["extrapolate"]


def extrapolate(changes: list[NDArray[np.float64]], ends: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Where to go from the last of some points.

    Parameters
    ----------
    changes, ends : list of ndarray of float, shape (n,)
        f(x) - x and f(x) of each point x, oldest first. Changes may be in other coordinates than ends: they only say
        what is to cancel.

    Returns
    -------
    ndarray of float, shape (n,)
        The last of ``ends`` where there is only one.

    Examples
    --------
    >>> f = lambda x: 0.9 * x + 1.0  # fixed at 10
    >>> x, y = np.array([0.0]), np.array([1.0])
    >>> extrapolate([f(x) - x, f(y) - y], [f(x), f(y)]).round(6)
    array([10.])
    """
    if len(ends) == 1 or ends[-1].size == 0:
        return ends[-1]
    apart = np.diff(np.array(changes), axis=0)
    gram = apart @ apart.T
    gram.flat[:: len(gram) + 1] += 1e-10 * np.trace(gram) + 1e-300  # keeps the shares finite; any shares are lawful
    shares = np.linalg.solve(gram, apart @ changes[-1])
    return np.asarray(ends[-1] - shares @ np.diff(np.array(ends), axis=0))
