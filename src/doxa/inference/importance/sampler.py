"""`NetworkSampler`: draws from a proposal, in blocks that each have their own random numbers; proposals that learn.

*The largest weight* that a proposal can give says what draws that were not met could do at most.  The log weight is a
sum of tables, so its maximum is found by eliminating one variable after another.  Where a table would become too large
the tables of a variable are split, and each part takes its maximum for itself (mini-buckets; Dechter & Rish 2003): the
result is then a bound from above.

*Learning* (AIS-BN, Cheng & Druzdzel 2000): in each stage rows are drawn from the proposal as it stands, and its tables
are moved to the weighted frequencies of these draws.  Where few draws carry the weight, powers of the weights below 1
are used, so that a stage learns from many draws and the next comes closer.  Draws of the learning phase are not kept:
estimates are made from draws of one fixed proposal, which are independent, so that their errors are right.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.inference.importance.kernels import (
    BATCH,
    N_LANES,
    N_POWERS,
    Compiled,
    Tally,
    add_tallies,
    block_tally,
    compile_proposal,
    draw_block,
    work_space,
)
from doxa.inference.importance.layout import Table
from doxa.inference.importance.proposal import DEFENCE, NetworkProposal, mixed
from doxa.inference.spins.words import fresh_streams
from doxa.sampling.workers import run_in_parallel

__all__ = ["NetworkSampler", "WeightedRows", "learned"]

MOST_CELLS = 2**16  # of a table: a tenth of a millisecond


def largest_log_weight(proposal: NetworkProposal, most_cells: int = MOST_CELLS) -> float:
    """Bound from above of the log weights (nats) of all draws that the proposal can make; -inf where all are 0."""
    layout = proposal.layout
    findings = [finding.logarithms() for finding in layout.findings.values()]
    bounds = []
    for plain, tables in ((False, proposal.tables), (True, proposal.plain)):
        share = proposal.defence if plain else 1 - proposal.defence
        if share > 0:
            ratios = [Table(t.variables, proposal.log_ratios(i, plain=plain)) for i, t in enumerate(tables)]
            bounds.append(largest_sum(findings + ratios, layout.n_states, most_cells) - math.log(share))
    return layout.log_constant + min(bounds)


def largest_sum(tables: Sequence[Table], n_states: Sequence[int], most_cells: int) -> float:
    """Bound from above of the sum of tables, over all states of their variables; the maximum where none is split.

    The variable whose tables have the fewest cells together is eliminated next.
    """
    left = dict(enumerate(tables))
    holding: dict[int, set[int]] = {}
    for f, table in left.items():
        for v in table.variables:
            holding.setdefault(v, set()).add(f)
    costs = {v: _cells(v, holding, left, n_states) for v in holding}
    constant = sum(float(table.values) for table in left.values() if not table.variables)
    number = len(left)
    while costs:
        v = min(costs, key=costs.__getitem__)
        del costs[v]
        touched: set[int] = set()
        for part in _parts([left[f] for f in holding[v]], n_states, most_cells):
            scope = tuple(sorted({u for table in part for u in table.variables} - {v}))
            total = sum(table.over((*scope, v)) for table in part)
            shape = [n_states[u] for u in (*scope, v)]
            best = np.broadcast_to(np.asarray(total), shape).max(axis=-1)
            if scope:
                left[number] = Table(scope, best)
                for u in scope:
                    holding[u].add(number)
                number += 1
            else:
                constant += float(best)
        for f in holding.pop(v):
            for u in left.pop(f).variables:
                if u != v:
                    holding[u].discard(f)
                    touched.add(u)
        costs.update({u: _cells(u, holding, left, n_states) for u in touched})
    return constant


def _cells(v: int, holding: dict[int, set[int]], left: dict[int, Table], n_states: Sequence[int]) -> float:
    """Log of the number of cells of all tables of a variable together."""
    return sum(math.log(n_states[u]) for u in {u for f in holding[v] for u in left[f].variables})


def _parts(tables: list[Table], n_states: Sequence[int], most_cells: int) -> list[list[Table]]:
    """Tables in groups of not too many cells together, large ones first."""
    groups: list[tuple[set[int], list[Table]]] = []
    for table in sorted(tables, key=lambda table: -table.values.size):
        scope = set(table.variables)
        for variables, group in groups:
            if math.prod(n_states[u] for u in variables | scope) <= most_cells:
                variables |= scope
                group.append(table)
                break
        else:
            groups.append((scope, [table]))
    return [group for _, group in groups]


BLOCK = 2**14  # draws that share random streams: a few milliseconds
_GROUP = 16 * BATCH  # draws among which all components of a proposal have their share
_AT_ONCE = 8  # blocks of each worker that are waited for together


class WeightedRows(NamedTuple):
    """Draws with their weights."""

    rows: NDArray[np.int32]  # (n, n_variables) states; -1 where a variable was not drawn
    log_weights: NDArray[np.float64]  # (n,) nats; -inf where a draw is impossible


@dataclass(frozen=True, eq=False)
class NetworkSampler:
    """Draws of a proposal; block k of a seed is the same whoever draws it, and whatever was drawn before."""

    proposal: NetworkProposal

    @cached_property
    def compiled(self) -> Compiled:
        """The proposal as compiled loops read it."""
        return compile_proposal(self.proposal)

    @cached_property
    def largest_log_weight(self) -> float:
        """Bound from above of the log weights, see `doxa.inference.importance.sampler`."""
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
        programs, log_constant = (compiled.own, compiled.plain), self.proposal.layout.log_constant
        space, asked = work_space(compiled.n_rows), (kept_rows, kept)
        return draw_block(programs, period, log_constant, streams, space, sums, log_weights, asked)


def _block(sampler: NetworkSampler, k: int, entropy: int) -> Tally:
    return sampler.block(entropy, k)


STAGE_DRAWS = 8192
LEAST_SHARE = 0.05  # of the draws of a stage that carry its weights after tempering
FIRST_STRENGTH = 30.0  # effective draws that a row of the first tables is worth
MEMORY = 0.5  # of that strength from one stage to the next
BETTER = 1.05  # in ess that a proposal must be to take the place of the one before
ENOUGH = 0.5  # share of the draws, as ess, at which there is little left to learn
PATIENCE = 3  # stages without a better proposal


def learned(proposal: NetworkProposal, *, seed: int, stages: int = 8, draws: int = STAGE_DRAWS) -> NetworkProposal:
    """Let a proposal learn.

    Parameters
    ----------
    proposal : NetworkProposal
        Where to begin, such as `propagated`: the first tables decide where the first draws fall.
    seed : int
        The result is a function of it.
    stages : int, default=8
        At most; fewer where the ess is above half the draws, three stages brought nothing, or all weights are 0.
    draws : int, default=8192
        In each stage, rounded up to a multiple of 8192.

    Returns
    -------
    NetworkProposal
        The proposal with the largest ess on the draws of a stage of its own, ``proposal`` itself among them where
        others are not better by a twentieth.  No possible state has probability 0.

    Notes
    -----
    Cheng & Druzdzel (2000) move all rows of the tables by the same step, which shrinks from stage to stage.  Here each
    row moves by r / (r + s): r is the effective number of this stage's draws in the row, s what it has learned before,
    halved from stage to stage as earlier draws were worse.  A row that was not met stays as it is.
    """
    check_whole("stages", stages, 1)
    now = proposal
    strengths = [np.full(table.values.shape[:-1], FIRST_STRENGTH) for table in proposal.tables]
    best, best_ess, best_stage = proposal, 0.0, 0
    for stage in range(stages + 1):
        drawn = NetworkSampler(now).draw(draws, seed, part=stage)
        ess = _ess(tempered_weights(drawn.log_weights, 1.0))
        if ess > best_ess * BETTER:
            best, best_ess, best_stage = now, ess, stage
        weights = tempered_weights(drawn.log_weights, LEAST_SHARE)
        if stage == stages or ess > ENOUGH * weights.size or stage - best_stage >= PATIENCE or not weights.any():
            break
        now = _moved(now, drawn.rows, weights, strengths)
    return best


def tempered_weights(log_weights: Floats, least_share: float) -> Floats:
    """Weights to the largest power, at most 1, at which their ess is a share of the draws of positive weight.

    The largest is 1; all are 0 where no draw has positive weight.
    """
    met = log_weights > -np.inf
    if not met.any():
        return np.zeros(log_weights.size)
    logs = log_weights - log_weights.max()
    wanted = least_share * np.count_nonzero(met)
    power = 1.0
    if least_share < 1 and _ess(np.exp(logs)) < wanted:
        low, high = 0.0, 1.0
        for _ in range(40):
            power = (low + high) / 2
            low, high = (power, high) if _ess(np.exp(logs[met] * power)) >= wanted else (low, power)
    with np.errstate(invalid="ignore"):
        return np.where(met, np.exp(np.where(met, logs, 0.0) * power), 0.0)


def _ess(weights: Floats) -> float:
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def _moved(
    proposal: NetworkProposal, rows: NDArray[np.int32], weights: Floats, strengths: list[Floats]
) -> NetworkProposal:
    """Tables moved to the weighted frequencies; ``strengths`` of their rows are updated."""
    tables = []
    for i, (v, table) in enumerate(zip(proposal.layout.informed, proposal.tables, strict=True)):
        shape = table.values.shape
        codes = np.ravel_multi_index(tuple(rows[:, u] for u in table.variables), shape)
        size = table.values.size
        sums = np.bincount(codes, weights, size).reshape(shape)
        squares = np.bincount(codes, weights**2, size).reshape(shape).sum(axis=-1)
        totals = sums.sum(axis=-1)
        effective = np.where(squares > 0, totals**2 / np.where(squares > 0, squares, 1.0), 0.0)
        strengths[i] *= MEMORY
        step = (effective / (effective + strengths[i]))[..., None]
        frequencies = sums / np.where(totals > 0, totals, 1.0)[..., None]
        strengths[i] += effective
        values = (1 - step) * table.values + step * frequencies
        tables.append(mixed(proposal.layout, v, Table(table.variables, values)))
    return NetworkProposal(proposal.layout, tuple(tables), "learned", DEFENCE if tables else 0.0)
