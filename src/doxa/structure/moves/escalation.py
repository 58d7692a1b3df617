r"""`EscalatingSampler`: the default sampler, which helps its chains while they warm up.

It begins as the move alone.  After each epoch of the warm-up (`doxa.sampling.runner`) it looks at what the chains did,
and

- where a search over orders (`doxa.structure.moves.order_search`) finds a graph that scores more than any chain has
  seen, half of the chains go on from there: a mode that no chain knew is known from then on;
- where the chains have not settled, and sit nats apart or have had two epochs, every chain becomes several, at
  temperatures of its own, which trade places (`doxa.structure.moves.tempered`).  The hot ones begin where the other
  chains stand.

All this is in the warm-up, which is thrown away, and follows from the draws and the seed alone.  What the state holds
says how many temperatures there are, so a run that is gone on with goes on as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.trace import Trace
from doxa.structure.moves.order_search import search_orders
from doxa.structure.moves.parent_sets import parent_sets
from doxa.structure.moves.sampler import StructureSampler, planted_in_half
from doxa.structure.moves.tempered import TemperedSampler, TemperedState, stream_of, words_of

__all__ = ["EscalatingSampler", "betas_for"]

_APART = 5.0  # nats between the mean log scores of chains: more is another mode
_LEAST_BETA, _WIDEST_STEP, _MOST_RUNGS = 0.35, 0.3, 8
_SPREADS = 1.2  # standard deviations of the log score that two neighbouring temperatures may lie apart
_USUAL_SPREAD = 3.0  # standard deviation of the log score of some twenty columns
_GAIN = 1.0  # nats above all that the chains have seen: less is the fine structure of a mode that they know
_SEED = 20261  # of the searches: they follow from the table and the epoch


@dataclass(frozen=True)
class EscalatingSampler(TemperedSampler):
    """See the module's notes; ``rungs`` is the sampler at temperature 1 alone."""

    def revise(
        self, states: Sequence[TemperedState], trace: Trace, *, settled: bool, epoch: int
    ) -> list[TemperedState] | None:
        """States to go on from after an epoch of warm-up; None if the chains are to be left alone.

        Parameters
        ----------
        states : sequence of TemperedState
            Of all chains.
        trace : Trace
            The draws of the epoch.
        settled : bool
            Whether the chains agree.
        epoch : int
            Its number, from 0.
        """
        planted = self._planted(list(states), trace, epoch)
        if settled:
            return planted
        log_score = trace["log_score"]
        late = log_score[:, log_score.shape[1] // 2 :]
        apart = np.ptp(late.mean(axis=1)) > _APART
        states = list(states) if planted is None else planted
        if len(states[0].betas) == 1 and (apart or epoch > 0):
            return _all_heated(states, betas_for(float(np.median(late.std(axis=1)))))
        return planted

    def planted(self, states: Sequence[TemperedState], rows: NDArray[np.uint64], chain: int) -> list[TemperedState]:
        """As `TemperedSampler.planted`; chains without temperatures get them, for they have missed a mode."""
        planted = super().planted(states, rows, chain)
        return planted if len(planted[0].betas) > 1 else _all_heated(planted, betas_for(_USUAL_SPREAD))

    @property
    def base(self) -> StructureSampler:
        """The sampler at temperature 1."""
        sampler = self.rungs[0]
        assert isinstance(sampler, StructureSampler)
        return sampler

    def _planted(self, states: list[TemperedState], trace: Trace, epoch: int) -> list[TemperedState] | None:
        """Half of the chains at a graph that beats all that was seen; None if the search finds none."""
        table = parent_sets(self.base.scores, self.base.limits, 1.0)
        rng = np.random.default_rng([_SEED, epoch])
        found = search_orders(table, rng, [state.rows[0] for state in states])
        if found is None or found.log_score <= float(trace["log_score"].max()) + _GAIN:
            return None
        return planted_in_half(states, rows=found.rows)


def betas_for(spread: float) -> NDArray[np.float64]:
    """Inverse temperatures of rungs that trade places, for a log score of this standard deviation.

    Examples
    --------
    >>> betas_for(2.0).round(3)
    array([1.   , 0.7  , 0.49 , 0.343])
    """
    ratio = 1.0 - min(_WIDEST_STEP, _SPREADS / max(spread, 1e-3))
    n_rungs = min(_MOST_RUNGS, 1 + int(np.ceil(np.log(_LEAST_BETA) / np.log(ratio) - 0.1)))
    return np.asarray(ratio ** np.arange(n_rungs))


def _all_heated(states: Sequence[TemperedState], betas: NDArray[np.float64]) -> list[TemperedState]:
    return [_heated(states, chain, betas) for chain in range(len(states))]


def _heated(states: Sequence[TemperedState], chain: int, betas: NDArray[np.float64]) -> TemperedState:
    """A chain with a rung for each temperature, the hot ones where the next chains stand."""
    own = states[chain]
    others = [states[(chain + k) % len(states)] for k in range(len(betas))]
    seeds = [int(word) for word in own.streams[0]]
    streams = [stream_of(own.streams[0])]
    streams += [np.random.Generator(np.random.PCG64([*seeds, k])) for k in range(1, len(betas))]
    return TemperedState(
        np.stack([other.rows[0] for other in others]),
        np.array([other.position[0] for other in others]),
        np.stack([other.block[0] for other in others]),
        np.stack([other.memory[0] for other in others]),
        np.stack([other.cells[0] for other in others]),
        np.stack([words_of(stream) for stream in streams]),
        own.n_draws,
        np.arange(len(betas)),
        betas,
    )
