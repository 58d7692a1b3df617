"""Compiled loop of `doxa.inference.gibbs.sampler`: blocks are redrawn one after another, given what is around them.

Every redraw adds the block's conditional probabilities to ``sums``: their mean over redraws is the Rao-Blackwellised
estimate of the block's distribution.  The draw needs the same numbers, so it costs about a tenth of the time.  Where
values choose the blocks, redraws happen more often in some states than in others and their mean is of another
distribution; there the blocks are looked at once at the end of every step, whatever was redrawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined
from doxa.arrays import Floats, Ints
from doxa.inference.gibbs.block_tables import LOGARITHMS, LOOK_UP
from doxa.inference.gibbs.scans import FlatScan
from doxa.inference.spins.model import Run
from doxa.inference.spins.words import uniform

if TYPE_CHECKING:
    from doxa.inference.gibbs.sampler import FlatFactors, Layout


class Plan(NamedTuple):
    """What a chain is of: made by `TableGibbs`."""

    layout: Any
    factors: Any
    scan: Any
    offsets: NDArray[np.int64]  # (n_variables,) where its states begin in the rows of probabilities; -1: not wanted
    sizes: NDArray[np.int64]  # (n_variables,) their numbers


class Work(NamedTuple):
    """Work space of a run; ``redrawn``, as the sums of a run, begins and ends as zeros."""

    weights: NDArray[np.float64]  # an entry for every configuration of the largest block
    redrawn: NDArray[np.int64]  # (n_blocks,)
    unused: NDArray[np.float64]  # sums that nobody asks for


@hot
def advance(plan: Plan, run: Run, work: Work, position: int) -> int:
    """Make the steps of a run, from list ``position`` on where lists are taken in turn; return the redrawn blocks."""
    layout, scan, offsets = plan.layout, plan.scan, plan.offsets
    states, streams, sums, redrawn = run.state, run.streams, run.sums, work.redrawn
    log_density, probability, visits, kept_states = run.draws
    by_turns = scan.by_variables.size == 0
    into = sums if by_turns else work.unused
    total = 0
    for step in range(run.n_steps):
        t = 0  # which stream is used depends on the place in the step: not on where a run was cut
        for _ in range(scan.per_step):
            if scan.keep.size == 0:
                chosen = (position + step) % scan.n_lists
            else:
                chosen = _pick_list(scan, uniform(streams, t & 7))
                t += 1
            for e in range(scan.starts[chosen], scan.starts[chosen + 1]):
                first, end = e, e + 1
                if scan.order[e] < 0:  # a value chooses the list, whose blocks leave it as it is
                    by = -1 - scan.order[e]
                    own = scan.by_lists[by] + states[scan.by_variables[by]]
                    first, end = scan.starts[own], scan.starts[own + 1]
                for f in range(first, end):
                    b = scan.order[f]
                    redraw(layout, states, b, uniform(streams, t & 7), work.weights, into)
                    redrawn[b] += by_turns
                    t += 1
                    total += 1
        for e in range(scan.looked_at.size):
            _look_at(layout, states, scan.looked_at[e], work.weights, sums)
            redrawn[scan.looked_at[e]] += 1
        kept = step // run.thin
        if visits.shape[1] > 0:
            for v in range(offsets.size):
                if offsets[v] >= 0:
                    visits[kept, offsets[v] + states[v]] += 1
        if (step + 1) % run.thin == 0:
            log_density[kept] = _log_density(plan.factors, states)
            _record(plan, run, work, probability[kept])
            for v in range(kept_states.shape[1]):
                kept_states[kept, v] = states[v]
    return total


@inlined
def redraw(layout: Layout, states: Ints, b: int, u: float, work: Floats, sums: Floats) -> None:
    """Redraw block ``b`` with the number ``u`` from [0, 1); its probabilities are added to ``sums``."""
    n, sums_at = layout.n_configurations[b], layout.sums_at[b]
    if layout.kinds[b] == LOOK_UP:
        chosen = _choose(layout.values, _row(layout, states, layout.groups_at[b]), n, 1.0, u, sums, sums_at)
    else:
        scale = 1.0 / _weigh(layout, states, b, work)
        chosen = _choose(work, 0, n, scale, u, sums, sums_at)
    begin = layout.members_at[b]
    n_members = layout.members_at[b + 1] - begin
    code = layout.codes_at[b] + chosen * n_members
    for j in range(n_members):
        states[layout.members[begin + j]] = layout.codes[code + j]


@hot
def _look_at(layout: Layout, states: Ints, b: int, work: Floats, sums: Floats) -> None:
    """Add the probabilities of block ``b`` given the others to ``sums``, and redraw nothing."""
    n, sums_at = layout.n_configurations[b], layout.sums_at[b]
    if layout.kinds[b] == LOOK_UP:
        at = _row(layout, states, layout.groups_at[b])
        for k in range(n):
            sums[sums_at + k] += layout.values[at + k]
    else:
        scale = 1.0 / _weigh(layout, states, b, work)
        for k in range(n):
            sums[sums_at + k] += work[k] * scale


@inlined
def _row(layout: Layout, states: Ints, g: int) -> int:
    """Where the row of group ``g`` for the present blanket is."""
    at = layout.values_at[g]
    for e in range(layout.blanket_at[g], layout.blanket_at[g + 1]):
        at += layout.strides[e] * states[layout.blanket[e]]
    return at  # type: ignore[no-any-return]


@inlined
def _choose(values: Floats, at: int, n: int, scale: float, u: float, sums: Floats, sums_at: int) -> int:
    """The first configuration up to which the probabilities sum to more than ``u``; add them to ``sums``."""
    cumulative, chosen = 0.0, 0
    for k in range(n):
        p = values[at + k] * scale
        sums[sums_at + k] += p
        cumulative += p
        chosen += u >= cumulative
    if chosen == n:  # u is next to 1, and the sum has rounded down
        chosen = n - 1
        while values[at + chosen] <= 0.0:
            chosen -= 1
    return chosen


@hot
def _weigh(layout: Layout, states: Ints, b: int, work: Floats) -> float:
    """Weights of the configurations of block ``b`` given the others, into ``work``; their sum."""
    n, is_log = layout.n_configurations[b], layout.kinds[b] == LOGARITHMS
    for k in range(n):
        work[k] = 0.0 if is_log else 1.0
    for g in range(layout.groups_at[b], layout.groups_at[b + 1]):
        at, columns = _row(layout, states, g), layout.columns_at[g]
        if is_log:
            for k in range(n):
                work[k] += layout.values[at + (k if columns < 0 else layout.columns[columns + k])]
        elif columns < 0:
            for k in range(n):
                work[k] *= layout.values[at + k]
        else:
            for k in range(n):
                work[k] *= layout.values[at + layout.columns[columns + k]]
    if is_log:
        highest = work[0]
        for k in range(1, n):
            highest = max(highest, work[k])
        for k in range(n):
            work[k] = math.exp(work[k] - highest)
    total = 0.0
    for k in range(n):
        total += work[k]
    return total


@inlined
def _pick_list(scan: FlatScan, u: float) -> int:
    """A list of the scan by its weight."""
    scaled = u * scan.keep.size
    i = min(int(scaled), scan.keep.size - 1)
    return i if scaled - i < scan.keep[i] else scan.other[i]


@hot
def _log_density(factors: FlatFactors, states: Ints) -> float:
    """Sum of the log factors, nats."""
    total = 0.0
    for f in range(factors.values_at.size):
        at = factors.values_at[f]
        for e in range(factors.scopes_at[f], factors.scopes_at[f + 1]):
            at += factors.strides[e] * states[factors.scopes[e]]
        total += factors.log_values[at]
    return total


@hot
def _record(plan: Plan, run: Run, work: Work, probability: Floats) -> None:
    """Mean conditional probabilities of each variable over the redraws of its blocks; begin new sums.

    A variable that was not redrawn, which chance alone decides, gets its probabilities as they are now.
    """
    layout, offsets, sizes, sums, redrawn = plan.layout, plan.offsets, plan.sizes, run.sums, work.redrawn
    for i in range(probability.size):
        probability[i] = 0.0
    for b in range(redrawn.size):
        if redrawn[b] > 0:
            if probability.size > 0:
                _add_up(layout, offsets, b, -1, sums, layout.sums_at[b], probability)
            for k in range(layout.n_configurations[b]):
                sums[layout.sums_at[b] + k] = 0.0
            redrawn[b] = 0
    for v in range(offsets.size):
        if offsets[v] >= 0 and probability.size > 0:
            begin, end = offsets[v], offsets[v] + sizes[v]
            total = _sum(probability, begin, end)  # of conditional distributions: their number
            if total == 0.0 and layout.home[v] < 0:  # in no block: it has one state
                probability[begin] = total = 1.0
            elif total == 0.0:
                _weigh(layout, run.state, layout.home[v], work.weights)
                _add_up(layout, offsets, layout.home[v], v, work.weights, 0, probability)
                total = _sum(probability, begin, end)
            for i in range(begin, end):
                probability[i] /= total


@hot
def _add_up(layout: Layout, offsets: Ints, b: int, only: int, weights: Floats, at: int, probability: Floats) -> None:
    """Add the weights of a block's configurations to the states of its variables; of one alone unless that is -1."""
    begin = layout.members_at[b]
    n_members = layout.members_at[b + 1] - begin
    for j in range(n_members):
        v = layout.members[begin + j]
        if offsets[v] >= 0 and (only < 0 or v == only):
            for k in range(layout.n_configurations[b]):
                probability[offsets[v] + layout.codes[layout.codes_at[b] + k * n_members + j]] += weights[at + k]


@inlined
def _sum(values: Floats, begin: int, end: int) -> float:
    total = 0.0
    for i in range(begin, end):
        total += values[i]
    return total
