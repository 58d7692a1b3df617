r"""The fixed nodes at which logistic families are weighed: one shifted lattice, as standard normals.

The points :math:`\{i g / n\}` of a rank-1 lattice with generating vector g, moved by a random vector modulo 1 (Cranley
& Patterson 1976), folded by the tent map (Hickernell 2002) and taken through the normal quantile, integrate smooth
functions far better than independent draws.  In the order of the reversed binary digits of i the first :math:`2^m`
points are a lattice themselves, so a level continues the one before; and each sixteenth of these, in order, is a
shifted copy of the lattice with :math:`2^{m - 4}` points.  The spread of the sixteen means says how good so small a
lattice is, and their common lattice is better: the standard error that the spread gives is too large rather than too
small, but for integrands so rough that a lattice gains nothing, and there it is right.

Shift and generator are the same numbers for every family of every run: a score is a function of the counts alone.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVELS", "REPLICATES", "Nodes", "nodes_for"]

REPLICATES = 16
LEVELS = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_SHIFT_SEED = 2001
# Chosen component by component among 160 random odd numbers: the least of the largest, over the levels, of the
# worst-case error in the Korobov space of smoothness 2 with weights 1 / j, relative to the median of the candidates.
_GENERATOR = (
    1, 19305, 21917, 9591, 20297, 32573, 31575, 14737, 13127, 11427, 10137, 25167, 2429, 7235, 1495, 12029,
    5693, 12035, 21751, 20393, 32329, 3107, 2749, 6415, 93, 5821, 27351, 2947, 6365, 11325, 1411, 27619,
    25053, 30781, 29, 25245, 16803, 8637, 579, 23811, 2691, 22019, 14499, 6947, 27299, 28285, 3517, 5405,
    20003, 515, 3203, 22211, 17027, 3427, 29501, 17699, 14691, 24035, 23523, 27651, 21245, 18461, 2621, 4739,
)  # fmt: skip
_made: dict[int, Nodes] = {}
_lock = threading.Lock()


class Nodes(NamedTuple):
    """``d`` rows are enough for as many coefficients."""

    value: NDArray[np.float64]  # (d, n): standard normals z
    bend: NDArray[np.float64]  # (d, n): sqrt(1 + z^2) - 1
    levels: NDArray[np.int64]  # (n_levels,): numbers of nodes, each twice or four times the one before


def nodes_for(n_dimensions: int) -> Nodes:
    """The nodes for up to ``n_dimensions`` coefficients, at most 64; made once a process.

    The first rows are the same whatever the number.

    Examples
    --------
    >>> nodes_for(2).value.shape
    (2, 32768)
    """
    with _lock:
        if n_dimensions not in _made:
            _made[n_dimensions] = _make(n_dimensions)
        return _made[n_dimensions]


def _make(n_dimensions: int) -> Nodes:
    from scipy.special import ndtri

    n = LEVELS[-1]
    n_bits = n.bit_length() - 1
    order = np.zeros(n, dtype=np.int64)
    for bit in range(n_bits):
        order |= (np.arange(n) >> bit & 1) << (n_bits - 1 - bit)
    shift = np.random.default_rng(_SHIFT_SEED).random(len(_GENERATOR))[:n_dimensions]
    generator = np.array(_GENERATOR[:n_dimensions], dtype=np.int64)
    x = (generator[:, None] * order % n / n + shift[:, None]) % 1.0
    x = 1.0 - np.abs(2.0 * x - 1.0)
    value = ndtri(np.clip(x, 2.0**-50, 1.0 - 2.0**-50))
    return Nodes(value, np.sqrt(1.0 + value * value) - 1.0, np.array(LEVELS, dtype=np.int64))
