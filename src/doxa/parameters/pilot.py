r"""Pilot draws: how near an approximation is to its target, before anything is staked on it.

The weights target / approximation of some independent draws tell their efficiency (Kish's effective sample size a draw)
and the shape of their tail.  The latter is fitted by probability-weighted moments (Hosking & Wallis 1987): coarser than
`doxa.sampling.importance_weights.pareto_k`, and of any number of draws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from doxa.arrays import Floats
from doxa.parameters.kernels.kernel import Target, values_at
from doxa.sampling.importance_proposals import Proposal
from doxa.sampling.importance_weights import kish_ess

__all__ = ["PILOT_DRAWS", "Pilot", "judge_pilot", "run_pilot", "tail_shape"]

PILOT_DRAWS = 512
_GOOD_EFFICIENCY = 0.3  # a chain of independent proposals then moves in more than half of its steps
_FAIR_EFFICIENCY = 0.15  # a draw in seven; each still costs less than a tenth of a Hamiltonian step
_EXCELLENT = 0.95  # weights so nearly equal that a heavy tail of what is left over one does not matter
_NEARLY_ALL, _GOOD_WITH_TAILS = 0.9, 0.5  # of a Gaussian with tails, some of whose draws are there for safety
_MOST = 0.8  # of one with more tails
_FAIR_TAIL = 0.7  # beyond it even their mean is hardly known (Vehtari et al. 2024)
_GOOD_TAIL = 0.5  # below it the weights have a variance
_LONGER = 8  # times as many draws where weights differ: the tail of a few dozen is known to +/- 0.15 only


class Pilot(NamedTuple):
    """What the weights of some draws tell."""

    n: int
    efficiency: float  # effective draws a draw, in (0, 1]
    tail: float  # Pareto k of the largest weights; above 1/2 their variance is infinite

    @property
    def good(self) -> bool:
        """Whether independent proposals from the approximation will do."""
        return self.efficiency >= _EXCELLENT or (self.efficiency >= _GOOD_EFFICIENCY and self.tail <= _GOOD_TAIL)

    @property
    def good_with_long_tails(self) -> bool:
        """The same for a t distribution or a mixture of such: the weights are bounded, whatever their tail looks like.

        The posterior's tails are those of its prior at most: Gaussian, or exponential in the logit of a learned root's
        probability.  So a few large weights are not the first of ever larger ones.
        """
        return self.efficiency >= _FAIR_EFFICIENCY

    def good_when_bounded(self, *, long: bool) -> bool:
        """Whether a Gaussian with tails will do; ``long`` says that the target was seen to go on beyond the Gaussian.

        As some proposals come from the tails, the pilot has seen there what there is to see, if there is little.
        """
        if self.efficiency >= (_MOST if long else _NEARLY_ALL):
            return True
        return not long and self.efficiency >= _GOOD_WITH_TAILS and self.tail <= _GOOD_TAIL

    @property
    def fair(self) -> bool:
        """Whether the weights, though uneven, have a mean that some hundred draws know."""
        return self.efficiency >= _FAIR_EFFICIENCY and self.tail <= _FAIR_TAIL

    def __str__(self) -> str:
        return f"efficiency {self.efficiency:.2f}, Pareto k {self.tail:.2f}"


def run_pilot(target: Target, proposal: Proposal, rng: np.random.Generator, n: int = PILOT_DRAWS) -> Pilot:
    """Draw ``n`` times from ``proposal`` and judge the weights; eight times as often where they differ."""
    draws = np.asarray(proposal.sample(n, rng), dtype=np.float64)
    pilot = judge_pilot(values_at(target, draws) - proposal.log_density(draws))
    if n == PILOT_DRAWS and _GOOD_EFFICIENCY <= pilot.efficiency < _NEARLY_ALL:
        return run_pilot(target, proposal, rng, _LONGER * n)
    return pilot


def judge_pilot(log_weights: Floats) -> Pilot:
    """Efficiency and tail of weights given as logarithms (nats), up to a constant."""
    if np.isneginf(log_weights).all():
        return Pilot(log_weights.size, 0.0, np.inf)
    return Pilot(log_weights.size, kish_ess(log_weights) / log_weights.size, tail_shape(log_weights))


def tail_shape(log_weights: Floats) -> float:
    """Shape k of a generalised Pareto distribution fitted to the largest weights by probability-weighted moments.

    With :math:`a_0` the mean of the exceedances and :math:`a_1` that of exceedance times the share of larger ones,
    :math:`k = 2 - a_0 / (a_0 - 2 a_1)`: always below 1, as those moments exist only there, and too small beyond 1/2
    (0.68 for 0.8, from 4000 weights), which still says that the variance is infinite.
    """
    weights = np.sort(np.exp(log_weights - log_weights.max()))
    n_tail = min(weights.size // 5, int(3 * np.sqrt(weights.size)))
    if n_tail < 2:
        return np.nan
    over = weights[-n_tail:] - weights[-n_tail - 1]
    first = float(over.mean())
    if not first > 0:
        return -np.inf  # all equal: no tail
    larger = (n_tail - np.arange(1, n_tail + 1) + 0.35) / n_tail
    second = float((over * larger).mean())
    return 2.0 - first / (first - 2.0 * second)
