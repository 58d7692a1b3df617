"""`NetworkSampler`: draws from a proposal, in blocks that each have their own random numbers."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.inference.importance.bound import largest_log_weight
from doxa.inference.importance.kernels import BATCH, N_LANES, N_POWERS, draw_block, work_space
from doxa.inference.importance.program import Compiled, compile_proposal
from doxa.inference.importance.proposal import NetworkProposal
from doxa.inference.importance.tally import Tally, add_tallies, block_tally
from doxa.inference.spins.random_words import fresh_streams
from doxa.sampling.workers import run_in_parallel

__all__ = ["BLOCK", "NetworkSampler", "WeightedRows"]

BLOCK = 2**14  # draws that share random streams: a few milliseconds
_GROUP = 16 * BATCH  # draws among which all components of a proposal have their share
_AT_ONCE = 8  # blocks of each worker that are waited for together


class WeightedRows(NamedTuple):
    """Draws with their weights."""

    rows: NDArray[np.int32]  # (n, n_variables) states; -1 where a variable was not drawn
    log_weights: NDArray[np.float64]  # (n,) nats; -inf where a draw is impossible


@dataclass(frozen=True, eq=False)
class NetworkSampler:
    """Draws of a proposal; block k of a seed is the same whoever draws it, and whatever was drawn before.

    Parameters
    ----------
    proposal : NetworkProposal
    """

    proposal: NetworkProposal

    @cached_property
    def compiled(self) -> Compiled:
        """The proposal as compiled loops read it."""
        return compile_proposal(self.proposal)

    @cached_property
    def largest_log_weight(self) -> float:
        """Bound from above of the log weights, see `doxa.inference.importance.bound`."""
        return largest_log_weight(self.proposal)

    def block(self, entropy: int, k: int) -> Tally:
        """Tally of block ``k`` of a seed: 16,384 draws."""
        sums = np.zeros((N_LANES, self.compiled.n_cells, N_POWERS))
        log_weights = np.empty(BLOCK)
        nothing = np.zeros(0, dtype=np.int64), np.empty((0, 0), dtype=np.int32)
        reference = self._draw(entropy, (k,), sums, log_weights, *nothing)
        return block_tally(log_weights, reference, sums)

    def tally(self, entropy: int, first: int, end: int, workers: int | None = 1, before: Tally | None = None) -> Tally:
        """Tally of blocks ``first`` to ``end - 1``, added one by one to the one ``before``."""
        total = before
        for one in self._blocks(entropy, range(first, end), workers):
            total = one if total is None else add_tallies(total, one)
        assert total is not None, "first is below end"
        return total

    def _blocks(self, entropy: int, numbers: Iterable[int], workers: int | None) -> Iterator[Tally]:
        waiting = list(numbers)
        if workers == 1 or len(waiting) == 1:
            yield from (self.block(entropy, k) for k in waiting)
            return
        with run_in_parallel(_block, len(waiting), workers) as run:
            at_once = _AT_ONCE * (workers or 8)
            for begin in range(0, len(waiting), at_once):
                yield from run(self, waiting[begin : begin + at_once], entropy)

    def draw(self, n: int, seed: int, *, part: int = 0) -> WeightedRows:
        """Draw rows and keep them.

        Parameters
        ----------
        n : int
            At least 1.
        seed : int
            Other draws than the tallies of that seed.
        part : int, default=0
            Other parts of the same seed are other draws.

        Returns
        -------
        WeightedRows
            Of informed variables and those barren ones that had to be drawn; observed ones as observed.
        """
        n, entropy = check_whole("n", n, 1), operator.index(seed)
        drawn = self.compiled.rows
        size = -(-n // _GROUP) * _GROUP
        log_weights = np.empty(size)
        kept = np.empty((len(drawn), size), dtype=np.int32)
        sums = np.zeros((N_LANES, self.compiled.n_cells, N_POWERS))
        self._draw(entropy, (part, 0), sums, log_weights, np.fromiter(drawn.values(), np.int64, len(drawn)), kept)
        chosen = np.arange(size).reshape(-1, BATCH).T.ravel()[:n]  # from all batches alike
        rows = np.full((n, len(self.proposal.layout.n_states)), -1, dtype=np.int32)
        rows[:, np.fromiter(drawn, np.int64, len(drawn))] = kept[:, chosen].T
        for v, state in self.proposal.layout.evidence.hard.items():
            rows[:, v] = state
        return WeightedRows(rows, log_weights[chosen])

    def _draw(
        self, entropy: int, key: tuple[int, ...], sums: Any, log_weights: Any, kept_rows: Any, kept: Any
    ) -> float:
        compiled = self.compiled
        streams = fresh_streams(np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key)))
        period = round(1 / self.proposal.defence) if self.proposal.defence else 0
        return draw_block(
            compiled.own, compiled.plain, period, streams, work_space(compiled.n_rows),
            self.proposal.layout.log_constant, sums, log_weights, kept_rows, kept,
        )  # fmt: skip


def _block(sampler: NetworkSampler, k: int, entropy: int) -> Tally:
    return sampler.block(entropy, k)
