"""`PottsBitParallel`: heat bath of 64 independent Potts chains at once, on any graph.

How the weights of 64 chains are worked out together is in `doxa.inference.spins.potts_bit_parallel_kernels`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.spins.aligned import aligned, aligned_zeros
from doxa.inference.spins.base_samplers import BaseSampler, Draws, coloured_order
from doxa.inference.spins.bit_parallel_numbers import N_LANES
from doxa.inference.spins.potts_bit_parallel_kernels import N_GROUPS, advance_potts_bit_parallel
from doxa.inference.spins.potts_model import PottsModel
from doxa.inference.spins.random_words import fresh_streams

__all__ = ["PottsBitParallel", "PottsBitParallelState", "unpack_potts_lanes"]


class PottsBitParallelState(NamedTuple):
    """Where 64 chains stand."""

    words: NDArray[np.uint64]  # (n_sites, n_states), bit l of (i, a): chain l has site i in state a
    streams: NDArray[np.uint64]  # (32,), of the random words


@dataclass(frozen=True, eq=False)
class PottsBitParallel(BaseSampler[PottsBitParallelState]):
    """64 chains of a Potts model, site by site, coloured.

    Parameters
    ----------
    model : PottsModel
        Edges, couplings and fields.
    thin : int, default=1
        Sweeps between kept draws; a step is a sweep.
    marginals : bool, default=True
        Keep the mean probability of each site's states given the others; costs a quarter to a half, and more where
        ``thin`` is small.
    keep_states : bool, default=False
        Keep the states of every kept draw, eight bytes a site and state.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``thin`` is not a whole number of at least one.

    Notes
    -----
    Draws are ``energy`` (-log p up to a constant, nats), shape (n_kept, 64); ``shares``, the share of the sites in each
    state, shape (n_kept, 64, n_states); ``probability``, shape (n_kept, 8, n_sites, n_states): given the others, at the
    moment of drawing, averaged over the sweeps since the last kept draw and over eight chains (chains g, g + 8, ...,
    g + 56 are group g); and ``states``, shape (n_kept, n_sites, n_states), words that `unpack_potts_lanes` takes apart.
    Chains are independent, and so are groups.  Probabilities are those of floating-point numbers, about 2^-52 off, as
    of `doxa.inference.spins.PottsGibbs`.  Time grows with states times neighbours; whether couplings are equal does not
    matter.  Sites with sums of |J| and fields above 600 are drawn one chain after another.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> model = PottsModel([[0, 1]], 0.7, [[0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    >>> trace = sample(PottsBitParallel(model, thin=4), Schedule(1, 500, 100), seed=1)
    >>> trace["probability"].shape, trace["energy"].shape
    ((1, 500, 8, 2, 3), (1, 500, 64))
    >>> trace["probability"].mean(axis=(0, 1, 2)).round(2)  # first e^.5 / (2 + e^.5) = .452
    array([[0.27, 0.27, 0.45],
           [0.32, 0.32, 0.36]])
    """

    model: PottsModel
    thin: int = 1
    marginals: bool = True
    keep_states: bool = False
    state_type: ClassVar[type[PottsBitParallelState]] = PottsBitParallelState

    @property
    def order(self) -> NDArray[np.int64]:
        """The sites in the order of a sweep, shape (n_sites,)."""
        return self._numbered[0]

    @cached_property
    def _numbered(self) -> tuple[NDArray[np.int64], PottsModel]:
        """The order, and the model with its sites numbered so."""
        order = coloured_order(self.model.graph)
        return order, self.model.renumbered(order)

    def init(self, rng: np.random.Generator) -> PottsBitParallelState:
        """All possible states equally probable, at every site of every chain."""
        return PottsBitParallelState(
            _pack(self.model.random_states(rng, N_LANES), self.model.n_states), fresh_streams(rng)
        )

    def begin(self, states: NDArray[np.int64], rng: np.random.Generator) -> PottsBitParallelState:
        """64 chains that all stand at the same possible states, shape (n_sites,)."""
        rows = np.tile(states.astype(np.int16), (N_LANES, 1))
        return PottsBitParallelState(_pack(rows, self.model.n_states), fresh_streams(rng))

    def _advance(
        self, state: PottsBitParallelState, n_steps: int
    ) -> tuple[PottsBitParallelState, Draws, dict[str, int]]:
        order, model = self._numbered
        (n, q), n_kept = model.fields.shape, n_steps // self.thin
        words, streams = aligned(state.words[order].ravel()), aligned(state.streams)
        asked_sites = n if self.marginals else 0
        draws = {
            "energy": np.empty((n_kept, N_LANES)),
            "shares": np.empty((n_kept, N_LANES, q)),
            "probability": np.empty((n_kept, N_GROUPS, asked_sites, q)),
            "states": np.empty((n_kept, n if self.keep_states else 0, q), dtype=np.uint64),
        }
        is_tame = model.is_tame
        own = np.where(is_tame[:, None], np.exp(model.own_logs), model.own_logs)
        with np.errstate(over="ignore"):  # of sites that are not tame, where factors are not used
            factors = np.exp(model.graph.strengths)
        advance_potts_bit_parallel(
            model.graph, model.fields, (own, factors, is_tame), order, words, streams,
            aligned_zeros(N_LANES * q).view(np.float64), aligned_zeros(N_GROUPS * asked_sites * q).view(np.float64),
            n_steps, self.thin, tuple(draws.values()),
        )  # fmt: skip
        after = np.empty((n, q), dtype=np.uint64)
        after[order] = words.reshape(n, q)
        return PottsBitParallelState(after, streams.copy()), draws, {"updates": N_LANES * n * n_steps}


def _pack(states: NDArray[np.int16], n_states: int) -> NDArray[np.uint64]:
    """Words (n_sites, n_states) of the states (64, n_sites) of 64 chains."""
    words = np.zeros((states.shape[1], n_states), dtype=np.uint64)
    sites = np.arange(states.shape[1])
    for lane, row in enumerate(states):
        words[sites, row] |= np.uint64(1) << np.uint64(lane)
    return words


def unpack_potts_lanes(words: NDArray[np.uint64]) -> NDArray[np.int16]:
    """States of the 64 chains, shape (64, ...), from words of shape (..., n_states).

    Examples
    --------
    >>> unpack_potts_lanes(np.array([2**64 - 4, 1, 2], dtype=np.uint64))[:4]
    array([1, 2, 0, 0], dtype=int16)
    """
    lanes = np.arange(N_LANES, dtype=np.uint64)
    return np.stack([((words >> lane) & np.uint64(1)).argmax(axis=-1) for lane in lanes]).astype(np.int16)
