r"""The log evidence of a posterior, from its draws and draws of an approximation: bridge sampling.

With p the unnormalised posterior, q the approximation and shares s of the draws, the evidence is the fixed point of
:math:`r = \overline{p / (s_1 p + s_2 r q)}_q \, / \, \overline{q / (s_1 p + s_2 r q)}_p` (Meng & Wong 1996), which has
the least error among such ratios.  Weights of p over q that have no variance do not harm it, as both fractions are
bounded; the error follows Fruehwirth-Schnatter (2004), with the effective number of the posterior's draws.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.estimate import Estimate

__all__ = ["bridge"]


_MOST_ROUNDS = 200
_ROUNDING = 1e-12  # what is left of the error where all weights are equal


def bridge(posterior_log_weights: Floats, proposal_log_weights: Floats) -> Estimate:
    """Log evidence (nats) from log p - log q at draws of the posterior, (chain, draw), and at n independent draws of q.

    The first is infinite where q is zero, the second minus infinity where p is.  The error is that of the ratio by the
    delta method: good while it is well below 1.
    """
    inside, outside = np.asarray(posterior_log_weights), np.asarray(proposal_log_weights)
    if inside.ndim != 2 or inside.shape[1] < 4 or outside.ndim != 1 or outside.size < 2:
        raise ArgumentError(
            f"weights have shapes {inside.shape} and {outside.shape}; (chain, draw) with 4 draws, and (n,) with 2?"
        )
    if np.isnan(inside).any() or np.isneginf(inside).any() or np.isnan(outside).any() or (outside == np.inf).any():
        raise ArgumentError("a log weight is not a number; p and q must be positive at their own draws")
    if np.isneginf(outside).all() or np.isposinf(inside).all():
        n, one, other = (
            (outside.size, "approximation", "posterior")
            if np.isneginf(outside).all()
            else (inside.size, "posterior", "approximation")
        )
        raise ArgumentError(f"none of {n} draws of the {one} lies where the {other} is positive; it is no use here")
    # 1 / draws of q is known; what posterior draws are worth, only once the ratio is: two rounds are enough.
    n_inside, n_outside = float(inside.size), float(outside.size)
    estimate = Estimate(0.0, np.nan, np.nan)
    for _ in range(2):
        log_shares = np.log(n_inside / (n_inside + n_outside)), np.log(n_outside / (n_inside + n_outside))
        log_r = _fixed_point(inside.ravel(), outside, log_shares)
        above = np.exp(outside - log_r - np.logaddexp(log_shares[0] + outside - log_r, log_shares[1]))
        below = np.exp(-np.logaddexp(log_shares[0] + inside - log_r, log_shares[1]))
        found = diagnose_real(below).estimate
        square = (found.mcse / found.value) ** 2 if np.isfinite(found.mcse) else 0.0
        square += float(above.var(ddof=1)) / above.mean() ** 2 / n_outside
        estimate = Estimate(log_r, max(float(np.sqrt(square)), _ROUNDING), np.nan)
        if np.isfinite(found.ess):
            n_inside = min(max(found.ess, 1.0), float(inside.size))
    return estimate


def _fixed_point(inside: Floats, outside: Floats, log_shares: tuple[float, float]) -> float:
    """Log of the ratio at which both means agree."""
    log_r = float(logsumexp(outside) - np.log(outside.size))
    for _ in range(_MOST_ROUNDS):
        above = logsumexp(outside - np.logaddexp(log_shares[0] + outside, log_shares[1] + log_r)) - np.log(outside.size)
        below = logsumexp(-np.logaddexp(log_shares[0] + inside, log_shares[1] + log_r)) - np.log(inside.size)
        new = float(above - below)
        if abs(new - log_r) < 1e-10:
            return new
        log_r = new
    return log_r
