r"""`NetworkSample`: what weighted draws of a network say, with errors and a verdict on the weights.

A quantity f is constant in each cell: 1 in the cell of a state and 0 in the others, or a state's probability given the
configuration of its parents.  Everything that errors by the delta method need is then in the sums of powers of the
weights in each cell, :math:`\sum_t (w_t (f_t - \hat f))^j = \sum_c M_{cj} (f_c - \hat f)^j`: what
`doxa.sampling.importance` makes of single draws is made here of their sums.

The delta method sees only what was met.  A rare state may be met by light draws alone, and carried by heavy ones that
are rarer still: with the alarm network a state of probability 4e-5 was given 2.2e-5 +/- 0.1e-5.  So intervals allow for
a part of the distribution that all draws missed, of up to about 3 in ``least``.
"""

from __future__ import annotations

import math
import operator
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.intervals import (
    StudentInterval,
    UnseenInterval,
    unmet_bound,
    unmet_error,
    unseen_bound,
    unseen_error,
)
from doxa.inference.importance.kernels import Tally, tail_shape
from doxa.inference.importance.layout import Layout
from doxa.inference.importance.proposal import NetworkProposal
from doxa.inference.importance.sampler import BLOCK, NetworkSampler
from doxa.sampling.importance_weights import LEAST_ESS, WeightedEstimate, WeightVerdict, judge_weights, judged

__all__ = ["NetworkSample", "sample_network"]

EQUAL = 1e-10  # relative variance of weights that are equal but for rounding
NEARLY_EQUAL = 1e-6  # below it rounding leaves nothing of their fourth moment, and the mean of so many is normal


class CellSums(NamedTuple):
    """What is known of one quantity."""

    powers: Floats  # (n_cells, 4): sums of powers 1 to 4 of the weights
    totals: Floats  # (4,): over all draws; those of the cells add up to it
    n: int  # draws, those of weight 0 included
    least: float  # what is not met holds no more of the weight than in so many equal draws


@dataclass(frozen=True)
class MeanInterval(StudentInterval):
    """Student's t around what was met, and anything for a part that was not.

    ``delta`` is the standard error by the delta method, ``least`` as in `CellSums`, and the quantity lies between
    ``lowest`` and ``highest``.
    """

    delta: float = 0.0
    least: float = np.inf
    lowest: float = 0.0
    highest: float = 1.0

    def bounds(self, value: float, mcse: float, prob: float) -> tuple[float, float]:
        """Limits of the interval; nan where the error is."""
        low, high = super().bounds(value, self.delta if np.isfinite(mcse) else np.nan, prob)
        missed = float(unmet_bound(self.least, prob))
        below = math.hypot(value - low, missed * (value - self.lowest))
        above = math.hypot(high - value, missed * (self.highest - value))
        return max(self.lowest, value - below), min(self.highest, value + above)


@dataclass(frozen=True)
class EvidenceInterval(StudentInterval):
    """Student's t for the log of the mean weight, and room above for a part of the distribution that was not met."""

    delta: float = 0.0
    least: float = np.inf

    def bounds(self, value: float, mcse: float, prob: float) -> tuple[float, float]:
        """Limits of the interval; nan where the error is."""
        low, high = super().bounds(value, self.delta if np.isfinite(mcse) else np.nan, prob)
        return low, high - math.log1p(-float(unseen_bound(self.least, prob)))


def law_of_sums(second: float, third: float, fourth: float, n: int, *, unit: bool = False) -> StudentInterval:
    """As `doxa.sampling.importance_weights.tail_aware_law`, from the sums of the terms' powers."""
    excess = fourth / second**2 - 1 / n
    if excess < 2e-12:
        return StudentInterval(unit=unit)
    skewed = abs(third) > 1e-9 * second**1.5
    df = max(2 / excess, 1.0)
    return StudentInterval(df, unit=unit, skew=float(np.copysign(df, third)) if skewed else 0.0)


def estimate_mean(sums: CellSums, values: Floats, verdict: WeightVerdict) -> WeightedEstimate:
    """Weighted mean of a probability that has a value in each cell, shape (n_cells,).

    Exact where all cells have the same value; a bound where all draws, but not all cells, have 0, or 1.  Otherwise the
    ``mcse`` is the delta method's together with that of a part that was not met.
    """
    if values.min() == values.max():
        return exactly(float(values[0]), verdict)
    met = sums.powers[:, 0] > 0
    value = float((sums.powers[met, 0] * values[met]).sum() / sums.powers[met, 0].sum())
    if (values[met] == values[met][0]).all():
        value = float(values[met][0])
    apart = (values - value)[:, None] ** np.arange(1, 5)
    _, second, third, fourth = (sums.powers * apart).sum(axis=0) / sums.totals[0] ** np.arange(1, 5)
    delta = math.sqrt(second * sums.n / (sums.n - 1))
    if value in (0.0, 1.0):
        law: StudentInterval | UnseenInterval = UnseenInterval(sums.least, sums.n)
        return judged(value, float(unseen_error(sums.least)), sums.least, law, verdict)
    known = law_of_sums(second, third, fourth, sums.n, unit=True) if second > 0 else StudentInterval(unit=True)
    law = MeanInterval(known.df, True, known.skew, delta, sums.least, float(values.min()), float(values.max()))
    error = math.hypot(delta, float(np.abs(values - value).max() * unmet_error(sums.least)))
    return judged(value, error, value * (1 - value) / error**2, law, verdict, delta)


def estimate_evidence(sums: CellSums, reference: float, ess: float, verdict: WeightVerdict) -> WeightedEstimate:
    r"""Log of the mean weight, nats; its error is nan where the weights are all equal, or not reliable."""
    n, mean = sums.n, sums.totals[0] / sums.n
    value = math.log(mean) + reference
    one, two, three = sums.totals[1:] / mean ** np.arange(2, 5)
    second = one - n
    if second < EQUAL * n:
        unknown = WeightVerdict(None, "all weights are equal, which says nothing about their variance", "")
        return WeightedEstimate(value, np.nan, np.nan, verdict=unknown)
    delta = math.sqrt(second * n / (n - 1)) / n
    known = StudentInterval()
    if second >= NEARLY_EQUAL * n:
        third, fourth = two - 3 * one + 2 * n, three - 4 * two + 6 * one - 3 * n
        known = law_of_sums(second, third, fourth, n)
    law = EvidenceInterval(known.df, False, known.skew, delta, sums.least)
    return judged(value, math.hypot(delta, float(unseen_error(sums.least))), ess, law, verdict, delta)


def exactly(value: float, verdict: WeightVerdict) -> WeightedEstimate:
    """What needs no draws."""
    return WeightedEstimate(value, 0.0, np.inf, exact=True, delta_error=0.0, verdict=verdict)


@dataclass(frozen=True, eq=False)
class NetworkSample:
    """Weighted counts of a network's states; made by `sample_network`.

    Attributes
    ----------
    sampler : NetworkSampler
    tally : Tally
        Of ``n`` draws.
    entropy : int
        The seed.

    Notes
    -----
    The draws are independent but for a share of exactly 1/16 that the defence makes, which only lowers the variance.
    """

    sampler: NetworkSampler
    tally: Tally
    entropy: int

    @property
    def layout(self) -> Layout:
        """What is drawn and counted."""
        return self.sampler.proposal.layout

    @property
    def n(self) -> int:
        """Number of draws, those of weight 0 included."""
        return self.tally.n

    @property
    def n_zero(self) -> int:
        """Number of draws of weight 0."""
        return self.tally.n_zero

    @property
    def ess(self) -> float:
        """Effective sample size of the weights (Kish); 0 where all are 0."""
        first, second = self.tally.totals[:2]
        return float(first**2 / second) if second > 0 else 0.0

    @cached_property
    def pareto_k(self) -> float:
        """Shape of the tail of the weights, see `doxa.sampling.importance_weights.pareto_k`."""
        return tail_shape(self.tally)

    @cached_property
    def guaranteed_ess(self) -> float:
        """Sum of the weights over the largest weight that is possible: the ess is at least this, whatever was not met.

        A part of the distribution that n draws had a chance of 5% to miss holds less than 3 over this of the
        probability.  It is a bound, and can be far too low.
        """
        if not self.tally.totals[0]:
            return 0.0
        return math.exp(
            min(math.log(self.tally.totals[0]) + self.tally.reference - self.sampler.largest_log_weight, 700)
        )

    @cached_property
    def verdict(self) -> WeightVerdict:
        """Whether estimates, and their errors, can be trusted.

        Judged by `doxa.sampling.importance_weights.judge_weights`.  Where no weight can be above a hundredth of their
        sum the tail cannot hold anything that matters, and Pareto k, which extrapolates it, is left out.  Where one
        might exceed the sum, nobody can tell what was not met.
        """
        if self.n_zero == self.n:
            return WeightVerdict(
                None,
                f"all {self.n} weights are 0: the evidence is impossible, or so improbable that no draw met it",
                "Strike out impossible states first, or use a proposal that is told of the evidence.",
            )
        guaranteed = self.guaranteed_ess
        if guaranteed >= LEAST_ESS:
            return judge_weights(self.n, self.ess, np.nan)._replace(
                reason=f"no weight can be above 1/{guaranteed:.0f} of their sum, ess {self.ess:.0f} of {self.n} draws"
            )
        verdict = judge_weights(self.n, self.ess, self.pareto_k)
        if guaranteed < 1 and verdict.reliable:
            return WeightVerdict(
                None,
                f"{verdict.reason}, but a weight of {1 / guaranteed:.2g} times the sum of all is not ruled out",
                "Draw more, or use a proposal that is told of the evidence.",
            )
        return verdict

    def probabilities(self, variable: int) -> Floats:
        """Distribution of a variable given the evidence, shape (n_states,); nan where all weights are 0."""
        state = self.layout.evidence.hard.get(variable)
        n_states = self.layout.n_states[variable]
        if not self.tally.totals[0]:
            return np.full(n_states, np.nan)
        if state is not None:
            return np.asarray(np.eye(n_states)[state])
        cells, values = self._cells(variable)
        found = (self.tally.cells[cells, :1] * values).sum(axis=0)
        return np.asarray(found / found.sum())

    def probability(self, variable: int, state: int) -> WeightedEstimate:
        """Probability of a state given the evidence.

        Parameters
        ----------
        variable, state : int
            Positions; the variable is one asked for, or observed.

        Returns
        -------
        WeightedEstimate
            Delta-method error.  A state never met, or met by every draw of positive weight, gets a bound.

        Raises
        ------
        ArgumentError
            If the variable was not asked for, or has no such state.
        """
        n_states = self.layout.n_states
        if not 0 <= variable < len(n_states) or not 0 <= state < n_states[variable]:
            raise ArgumentError(f"there is no state {state} of variable {variable}; both are positions in the network")
        if not self.tally.totals[0]:
            return WeightedEstimate(np.nan, np.nan, np.nan, verdict=self.verdict)
        if variable in self.layout.evidence.hard or self._struck_out(variable, state):
            return exactly(float(self.layout.evidence.hard.get(variable) == state), self.verdict)
        cells, values = self._cells(variable)
        return estimate_mean(self._sums(cells), values[:, state], self.verdict)

    def marginal(self, variable: int) -> tuple[WeightedEstimate, ...]:
        """`probability` of each state."""
        n_states = self.layout.n_states[variable]
        return tuple(self.probability(variable, state) for state in range(n_states))

    def log_evidence(self) -> WeightedEstimate:
        """Log probability (nats) of the evidence.

        Returns
        -------
        WeightedEstimate
            Log of the mean weight, which is unbiased; nan where all weights are 0, as the evidence may be possible.
        """
        if self.layout.is_weightless:
            return exactly(self.layout.log_constant, self.verdict)
        if not self.tally.totals[0]:
            return WeightedEstimate(np.nan, np.nan, np.nan, verdict=self.verdict)
        return estimate_evidence(self._sums(slice(0, 0)), self.tally.reference, self.ess, self.verdict)

    def extended(self, n: int, *, workers: int | None = 1) -> NetworkSample:
        """Go on to ``n`` draws in all, rounded up to whole blocks: the sample that `sample_network` gives at once."""
        first, end = self.n // BLOCK, -(-check_whole("n", n, 1) // BLOCK)
        if end <= first:
            return self
        tally = self.sampler.tally(self.entropy, first, end, workers, self.tally)
        return NetworkSample(self.sampler, tally, self.entropy)

    def _cells(self, variable: int) -> tuple[slice, Floats]:
        """Cells of a variable, and the probability of each state in each of them, (n_cells, n_states)."""
        counted = self.sampler.compiled.counted.get(variable)
        if counted is None:
            raise ArgumentError(f"variable {variable} was not asked for; name it in query")
        values = np.eye(counted.n_cells) if counted.values is None else counted.values
        return slice(counted.first, counted.first + counted.n_cells), values

    def _sums(self, cells: slice) -> CellSums:
        least = self.guaranteed_ess
        if least < LEAST_ESS:
            least = float(self.tally.totals[0] / math.exp(self.tally.largest.max() - self.tally.reference))
        return CellSums(self.tally.cells[cells], self.tally.totals, self.n, least)

    def _struck_out(self, variable: int, state: int) -> bool:
        local = self.layout.local.get(variable)
        return local is not None and not local[state]


def sample_network(
    proposal: NetworkProposal | NetworkSampler, n: int, *, seed: int | None = None, workers: int | None = 1
) -> NetworkSample:
    """Draw from a proposal and count.

    Parameters
    ----------
    proposal : NetworkProposal or NetworkSampler
        A sampler keeps what it compiled for the next call.
    n : int
        Number of draws, rounded up to a multiple of 16,384.
    seed : int, optional
        Taken from the system when left out.
    workers : int, optional
        Threads; None for as many as there are cores, or what ``joblib.parallel_config`` says.

    Returns
    -------
    NetworkSample
        The same whatever the number of workers.  Look at its ``verdict`` first.

    Raises
    ------
    ArgumentError
        If no configuration that the proposal can draw has positive weight: the evidence is impossible.

    Examples
    --------
    >>> from doxa.inference.importance import lay_out, propagated
    >>> from doxa.models import Dag
    >>> from doxa.models.categorical import CategoricalNetwork
    >>> from doxa.models.evidence import read_evidence
    >>> tables = {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.0, 1.0]]}
    >>> states = dict.fromkeys(tables, ["no", "yes"])
    >>> network = CategoricalNetwork(Dag.from_edges([("rain", "wet")]), tables, states)
    >>> layout = lay_out(network, read_evidence(network, {"wet": "yes"}))
    >>> sample = sample_network(propagated(layout), 100_000, seed=1)
    >>> print(sample.probability(0, 1), "exact:", round(0.2 / 0.28, 4))
    0.7157 +/- 0.0013 exact: 0.7143
    >>> print(sample.log_evidence(), "exact:", round(float(np.log(0.28)), 4))
    -1.2726 +/- 0.0003 exact: -1.273
    """
    sampler = proposal if isinstance(proposal, NetworkSampler) else NetworkSampler(proposal)
    end = -(-check_whole("n", n, 1) // BLOCK)
    entropy = secrets.randbits(128) if seed is None else operator.index(seed)
    if sampler.largest_log_weight == -math.inf:
        raise ArgumentError("the evidence has probability 0: no configuration of the network agrees with all of it")
    return NetworkSample(sampler, sampler.tally(entropy, 0, end, workers), entropy)
