r"""`IsingBitParallel`: heat bath of 64 independent Ising chains at once, one in each bit of a word (multi-spin coding).

Any graph, any couplings and fields.  How 64 chains are drawn with a few words of random bits, and why that is exact, is
in `doxa.inference.spins.bit_parallel_kernels`; the order of the sites in `doxa.inference.spins.batches`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.spins.aligned import aligned, aligned_zeros
from doxa.inference.spins.base_samplers import BaseSampler, Draws
from doxa.inference.spins.bit_parallel_kernels import N_GROUPS, N_LANES, advance_bit_parallel
from doxa.inference.spins.masks import WORK_SIZE
from doxa.inference.spins.model import IsingModel
from doxa.inference.spins.random_words import fresh_streams

__all__ = ["BitParallelState", "IsingBitParallel", "unpack_lanes"]


class BitParallelState(NamedTuple):
    """Where 64 chains stand."""

    words: NDArray[np.uint64]  # (n_sites,), bit l: chain l's spin is up
    streams: NDArray[np.uint64]  # (32,), of the random words


@dataclass(frozen=True, eq=False)
class IsingBitParallel(BaseSampler[BitParallelState]):
    r"""64 chains of p(s) proportional to exp(sum of J_ij s_i s_j + sum of h_i s_i), s in {-1, +1}, site by site.

    Parameters
    ----------
    model : IsingModel
        Edges, couplings and fields.
    thin : int, default=1
        Sweeps between kept draws; a step is a sweep.
    marginals : bool, default=True
        Keep each site's mean probability of being up given the others; costs a tenth to a third, and
        more where ``thin`` is small.
    keep_spins : bool, default=False
        Keep the spins of every kept draw, eight bytes a site.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``thin`` is not a whole number of at least one.

    Notes
    -----
    Draws are ``energy`` (-log p up to a constant, nats) and ``magnetisation`` (mean spin) of shape (n_kept, 64); ``up``
    of shape (n_kept, 8, n_sites): the probability of +1 given the other spins at the moment of drawing, averaged over
    the sweeps since the last kept draw and over eight chains (chains 8 g to 8 g + 7 are group g); and ``spins``, shape
    (n_kept, n_sites), words that `unpack_lanes` takes apart.  Chains are independent, and so are groups: to the error
    of ``up`` each group is a chain.  A draw is up with its probability to within 2^-52.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> model = IsingModel([[0, 1], [1, 2]], [0.5, -0.5], [0.2, 0.0, 0.0])
    >>> trace = sample(IsingBitParallel(model, thin=4), Schedule(1, 500, 100), seed=1)
    >>> trace["up"].shape, trace["energy"].shape
    ((1, 500, 8, 3), (1, 500, 64))
    >>> trace["up"].mean(axis=(0, 1, 2)).round(2)  # exact: (1 + tanh(.2) t) / 2, t = 1, tanh(.5), -tanh(.5)^2
    array([0.6 , 0.55, 0.48])
    """

    model: IsingModel
    thin: int = 1
    marginals: bool = True
    keep_spins: bool = False
    state_type: ClassVar[type[BitParallelState]] = BitParallelState

    def init(self, rng: np.random.Generator) -> BitParallelState:
        """Spins up or down with probability one half each, in every chain."""
        words = rng.integers(0, 2**64, self.model.n_sites, dtype=np.uint64)
        return BitParallelState(words, fresh_streams(rng))

    def _advance(self, state: BitParallelState, n_steps: int) -> tuple[BitParallelState, Draws, dict[str, int]]:
        model, n, n_kept = self.model, self.model.n_sites, n_steps // self.thin
        batches = model.batches
        words, streams = np.append(state.words, np.uint64(0)), aligned(state.streams)
        n_tallies = batches.n_tallies if self.marginals else 0
        draws = {
            "energy": np.empty((n_kept, N_LANES)),
            "magnetisation": np.empty((n_kept, N_LANES)),
            "up": np.empty((n_kept, N_GROUPS, n if self.marginals else 0)),
            "spins": np.empty((n_kept, n if self.keep_spins else 0), dtype=np.uint64),
        }
        advance_bit_parallel(
            batches, model.graph, model.fields, words, streams, aligned_zeros(WORK_SIZE), np.empty(N_LANES),
            aligned_zeros(n_tallies), np.zeros(N_GROUPS * (n + 1)), n_steps, self.thin,
            tuple(draws.values()),
        )  # fmt: skip
        return BitParallelState(words[:n], streams.copy()), draws, {"updates": N_LANES * n * n_steps}


def unpack_lanes(words: NDArray[np.uint64]) -> NDArray[np.int8]:
    """Spins -1 and +1 of the 64 chains, shape (64, ...), from words of shape (...).

    Examples
    --------
    >>> unpack_lanes(np.array([1, 3], dtype=np.uint64))[:3]
    array([[ 1,  1],
           [-1,  1],
           [-1, -1]], dtype=int8)
    """
    lanes = np.arange(N_LANES, dtype=np.uint64).reshape(-1, *(1,) * words.ndim)
    bits = (words >> lanes) & np.uint64(1)
    return (2 * bits.astype(np.int8) - 1).astype(np.int8)
