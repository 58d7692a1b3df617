"""Posteriors of one node with one parent, exactly: in the logits at the parent's two values they are two integrals.

Values are -1 and +1, so those logits are bias - coefficient and bias + coefficient; with independent priors N(0, s^2)
for both they are independent N(0, 2 s^2), and each sees the cases of its own value alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

__all__ = ["OneParent", "frame", "one_parent"]

_FARTHEST, _POINTS = 12.0, 200_001  # prior standard deviations, and steps


class OneParent(NamedTuple):
    """What the posterior is, to eight digits or so."""

    bias: float
    coefficient: float
    log_evidence: float  # of the node given its parent, nats


def frame(cells: Sequence[tuple[tuple[int, int], int]]) -> pd.DataFrame:
    """Columns a and y with each pair of values so many times."""
    return pd.DataFrame(np.repeat([pair for pair, _ in cells], [n for _, n in cells], axis=0), columns=["a", "y"])


def one_parent(parent: np.ndarray, child: np.ndarray, scale: float) -> OneParent:
    """Of 0/1 columns, with the default coding and a prior of this scale."""
    (low, below), (high, above) = (
        _one_logit(int(child[parent == value].sum()), int((1 - child[parent == value]).sum()), scale)
        for value in (0, 1)
    )
    return OneParent((low + high) / 2, (high - low) / 2, below + above)


def _one_logit(ones: int, zeros: int, scale: float) -> tuple[float, float]:
    variance = 2 * scale**2
    logit = np.linspace(-_FARTHEST, _FARTHEST, _POINTS) * np.sqrt(variance)
    log_p = -ones * np.logaddexp(0, -logit) - zeros * np.logaddexp(0, logit)
    log_p -= 0.5 * logit**2 / variance + 0.5 * np.log(2 * np.pi * variance)
    p = np.exp(log_p - log_p.max())
    step = logit[1] - logit[0]
    return float(p @ logit / p.sum()), float(np.log(p.sum() * step) + log_p.max())
