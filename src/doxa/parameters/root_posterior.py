"""`RootPosterior`: the exact posterior of a learned root that hides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from doxa.estimates.trace import Trace
from doxa.models.logistic_factors import log_logistic

__all__ = ["RootPosterior"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class RootPosterior:
    """Posterior of a root observed in every row that tells of it: Beta(1 + ones, 1 + zeros), as a law of the logit.

    Examples
    --------
    >>> root = RootPosterior(3, 1)
    >>> root.sample(4, np.random.default_rng(1)).shape, round(root.log_evidence, 4)  # 1 / 20
    ((4, 1), -2.9957)
    """

    ones: int
    zeros: int
    n_dimensions: int = 1

    @property
    def log_evidence(self) -> float:
        """Log probability (nats) of the observed cells."""
        return float(betaln(1 + self.ones, 1 + self.zeros))

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """``n`` independent logits, shape (n, 1)."""
        one, zero = rng.standard_gamma(1.0 + self.ones, n), rng.standard_gamma(1.0 + self.zeros, n)
        tiny = np.finfo(np.float64).tiny
        return np.asarray(np.log(np.maximum(one, tiny)) - np.log(np.maximum(zero, tiny)))[:, None]

    def chains(self, trace: Trace, k: int) -> Floats:
        """Independent logits, (chain, draw, 1), beside other parts of a run, this one being part k of them.

        No chain need draw them, so they are made when they are asked for; more draws begin with those of fewer.
        """
        theta = next(trace[name] for name in trace.names if name.endswith(".theta"))
        n_chains, n_draws = theta.shape[0] * theta.shape[2], theta.shape[1]
        rng = np.random.default_rng(np.random.SeedSequence(trace.entropy, spawn_key=(k, 3)))
        shapes = np.broadcast_to([1.0 + self.ones, 1.0 + self.zeros], (n_draws, n_chains, 2))
        logs = np.log(np.maximum(rng.standard_gamma(shapes), np.finfo(np.float64).tiny))
        return np.asarray((logs[..., 0] - logs[..., 1]).T[..., None])

    def log_density(self, thetas: Floats) -> Floats:
        """Normalised log density (nats) of logits (n, 1)."""
        logits = thetas[:, 0]
        return (1 + self.ones) * log_logistic(logits) + (1 + self.zeros) * log_logistic(-logits) - self.log_evidence
