"""Compiled sweeps and bounds of mean field for Ising models, in both codings of the spins."""

from __future__ import annotations

import math
from typing import Any

from doxa._jit import hot

__all__ = ["spin_bound", "spin_sweep", "unit_sweep"]


@hot
def spin_sweep(starts: Any, neighbours: Any, couplings: Any, fields: Any, scale: float, m: Any) -> float:
    """m_i = tanh(scale (h_i + sum_j J_ij m_j)), site after site, in place; the largest change of a probability."""
    change = 0.0
    for i in range(fields.size):
        field = fields[i]
        for k in range(starts[i], starts[i + 1]):
            field += couplings[k] * m[neighbours[k]]
        e = math.exp(-2.0 * abs(scale * field))  # half the time of tanh
        new = math.copysign((1.0 - e) / (1.0 + e), field)
        change = max(change, abs(new - m[i]))
        m[i] = new
    return change / 2.0


@hot
def unit_sweep(starts: Any, neighbours: Any, couplings: Any, fields: Any, mu: Any) -> float:
    """mu_i = 1 / (1 + exp(-m_i - sum_j m_ij mu_j)), the notes' form; in place, the largest change of a probability.

    The Gibbs update has the neighbours' values where this has their means; in print its denominator lacks the node's
    own m_i.
    """
    change = 0.0
    for i in range(fields.size):
        logit = fields[i]
        for k in range(starts[i], starts[i + 1]):
            logit += couplings[k] * mu[neighbours[k]]
        e = math.exp(-abs(logit))
        new = 1.0 / (1.0 + e) if logit >= 0.0 else e / (1.0 + e)
        change = max(change, abs(new - mu[i]))
        mu[i] = new
    return change


@hot
def spin_bound(starts: Any, neighbours: Any, couplings: Any, fields: Any, m: Any) -> tuple[float, float, float]:
    """Bound (nats), sum of the sizes of its terms, entropy; sums are compensated, for many equal terms round alike."""
    bound, lost, size, entropy = 0.0, 0.0, 0.0, 0.0
    for i in range(fields.size):
        local = 0.0
        for k in range(starts[i], starts[i + 1]):
            local += couplings[k] * m[neighbours[k]]
        expected, own = m[i] * (fields[i] + local / 2.0), 0.0
        up, down = (1.0 + m[i]) / 2.0, (1.0 - m[i]) / 2.0
        if up > 0.0 and down > 0.0:
            own = -up * math.log(up) - down * math.log(down)
        term = expected + own - lost
        total = bound + term
        lost = (total - bound) - term
        bound = total
        size += abs(expected) + own
        entropy += own
    return bound, size, entropy
