"""Noise for proposals: standard normal, or with a share of it from a t distribution, whose tails are long."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

__all__ = ["LONG_DF", "long_factors", "long_peak", "radial_log_density", "radial_noise"]

Floats: TypeAlias = NDArray[np.float64]

LONG_DF = 4.0  # degrees of freedom: tails much longer than a Gaussian's, and still a variance


def long_factors(n: int, width: float, rng: np.random.Generator) -> Floats:
    """What makes rows of normal noise rows of a t distribution that is ``width`` times as wide, shape (n,)."""
    return np.asarray(width / np.sqrt(rng.chisquare(LONG_DF, n) / LONG_DF))


def long_peak(d: int, width: float) -> float:
    """Log density (nats) of that distribution at 0, in d dimensions."""
    peak = gammaln((LONG_DF + d) / 2) - gammaln(LONG_DF / 2)
    return float(peak - 0.5 * d * np.log(LONG_DF * np.pi) - d * np.log(width))


def radial_noise(n: int, d: int, tails: float, width: float, rng: np.random.Generator) -> Floats:
    """Rows of standard normal noise, a share ``tails`` of them from the t distribution instead, shape (n, d).

    Without tails, a plain call of ``rng.standard_normal``.
    """
    noise = rng.standard_normal((n, d))
    if tails:
        far = np.flatnonzero(rng.random(n) < tails)
        noise[far] *= long_factors(far.size, width, rng)[:, None]
    return noise


def radial_log_density(squares: Floats, d: int, tails: float, width: float) -> Floats:
    """Log density (nats) of `radial_noise` at points whose squared distances from 0 are ``squares``."""
    normal = -0.5 * squares - 0.5 * d * np.log(2 * np.pi)
    if not tails:
        return np.asarray(normal)
    far = long_peak(d, width) - 0.5 * (LONG_DF + d) * np.log1p(squares / (LONG_DF * width**2))
    return np.asarray(np.logaddexp(np.log1p(-tails) + normal, np.log(tails) + far))
