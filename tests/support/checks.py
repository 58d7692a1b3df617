"""Statistical assertions with stated false-alarm rates, and the seed that a nightly sweep can move."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from doxa.estimates.diagnostics import diagnose_real

SEED = int(os.environ.get("DOXA_TEST_SEED", "0"))
FALSE_ALARM = 1e-6


def z_limit(n_compared: int, false_alarm: float = FALSE_ALARM) -> float:
    """Two-sided normal limit that all of ``n_compared`` z-values exceed with probability at most ``false_alarm``."""
    return float(-ndtri(false_alarm / (2 * n_compared)))


def worst_z(values: NDArray[np.float64], exact: NDArray[np.float64], errors: NDArray[np.float64]) -> float:
    return float(np.abs((values - exact) / errors).max())


def score_z(log_score: NDArray[np.float64], exact: Any) -> float:
    """The z of the mean of log scores (chain, draw) against a listed posterior.

    It says at once whether all that is likely is too likely, as when wrong swaps bring better graphs or worse ones.
    """
    found = diagnose_real(log_score).estimate
    return float(abs(found.value - (exact.probability * exact.log_score).sum()) / found.mcse)


def compare_transitions(counts: NDArray[np.int64], matrix: NDArray[np.float64]) -> tuple[float, int]:
    """Largest z-value of counted transitions against ``matrix``, and how many were compared.

    Cells with an expected count below 30 are left out (the normal limit is not for them), but a transition that
    the matrix says is impossible counts as an infinite z.  Where nothing is left by chance, z is 0.
    """
    if (counts[matrix <= 1e-15] > 0).any():
        return np.inf, 1
    visits = counts.sum(axis=1, keepdims=True)
    expected = visits * matrix
    usable = (expected >= 30) & (visits - expected >= 30)
    z = (counts - expected)[usable] / np.sqrt(expected * (1 - matrix))[usable]
    return float(np.abs(z).max(initial=0.0)), int(usable.sum())
