r"""Network importance sampling in compiled loops: a proposal as flat arrays, a batch of draws at a time, tallies.

Step by step over a batch the loops are short, without branches, and run in vector registers; draw by draw they take
several times as long.  Rows of codes hold a state, or the number of a configuration of parents, for each draw of a
batch.  Every step fills rows from rows above; what is counted is a row.  A barren variable is counted by the
configurations of its parents, where there are not too many: given these its probabilities are known, and need no draw
(Rao & Blackwell).

Weights are summed relative to a reference, :math:`w' = \exp(\ln w - r)`, so that nothing over- or underflows whatever
the evidence.  Tallies of different draws add up; added in the same order they give the same numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints, Words
from doxa.inference.importance.layout import Table
from doxa.inference.importance.proposal import NetworkProposal
from doxa.inference.spins.words import next_words, store
from doxa.sampling.importance_weights import pareto_k

MOST_CONFIGURATIONS = 1024  # of parents, to count a variable by them
SCRATCH = 0  # the row of configurations that nothing counts
FINDINGS, OWN, PLAIN = 0, 1, 2  # sums that a step's ratios belong to: p(e | x), p / q, p / plain


class Program(NamedTuple):
    """Step s: the configuration of its parents goes to one row; then a state is drawn to another, if asked."""

    starts: Ints  # (n_steps + 1,) of the parents of each step
    parent_rows: Ints
    parent_strides: Ints
    configuration_rows: Ints  # (n_steps,)
    state_rows: Ints  # (n_steps,) -1: nothing is drawn
    n_states: Ints  # (n_steps,) 1 where nothing is drawn
    thresholds_at: Ints  # (n_steps,)
    ratios_at: Ints  # (n_steps,) -1: the weight stays as it is
    ratio_sums: Ints  # (n_steps,) which sum the ratios are added to
    thresholds: Floats  # n_states - 1 a configuration; a state is the number of those not above a uniform number
    ratios: Floats  # nats, n_states a configuration
    counted_rows: Ints  # (n_counted,)
    first_cells: Ints  # (n_counted,)


class Counted(NamedTuple):
    """How a variable is counted."""

    first: int  # cell
    n_cells: int
    values: Floats | None  # (n_cells, n_states) probability of each state in each cell; None: cells are states


class Compiled(NamedTuple):
    """What a sampler needs of a proposal."""

    own: Program
    plain: Program  # the same rows, drawn by likelihood weighting
    n_rows: int
    rows: dict[int, int]  # of states, by variable that is drawn
    counted: dict[int, Counted]  # by variable of the query
    n_cells: int


class _Step(NamedTuple):
    configuration_row: int
    state_row: int = -1
    n_states: int = 1
    thresholds_at: int = 0
    ratios_at: int = -1
    ratio_sum: int = FINDINGS


class _Builder:
    """Steps, and the rows that they fill; rows are numbered in the order in which they are asked for."""

    def __init__(self) -> None:
        self.starts = [0]
        self.parents: list[tuple[int, int]] = []  # row, stride
        self.steps: list[_Step] = []
        self.thresholds: list[Floats] = [np.zeros(0)]
        self.ratios: list[Floats] = [np.zeros(0)]
        self.n_thresholds = self.n_ratios = 0
        self.rows: dict[int, int] = {}
        self.n_rows = 1

    def new_row(self) -> int:
        self.n_rows += 1
        return self.n_rows - 1

    def configure(self, parents: tuple[int, ...], shape: tuple[int, ...], row: int = SCRATCH) -> None:
        """Begin a step with the configurations of some variables."""
        self.parents += [(self.rows[p], int(np.prod(shape[a + 1 :]))) for a, p in enumerate(parents)]
        self.starts.append(len(self.parents))
        self.steps.append(_Step(row))

    def draw(self, table: Table) -> None:
        """Draw the last variable of a table given the others; they are the configuration of the step."""
        k = table.values.shape[-1]
        row = self.rows[table.variables[-1]] = self.new_row()
        self.steps[-1] = self.steps[-1]._replace(state_row=row, n_states=k, thresholds_at=self.n_thresholds)
        self.thresholds.append(thresholds(table.values.reshape(-1, k)).ravel())
        self.n_thresholds += self.thresholds[-1].size

    def weigh(self, ratios: Floats, ratio_sum: int) -> None:
        """Let the step add ratios, by configuration and state drawn."""
        self.steps[-1] = self.steps[-1]._replace(ratios_at=self.n_ratios, ratio_sum=ratio_sum)
        self.ratios.append(ratios.ravel())
        self.n_ratios += ratios.size

    def program(self, counted_rows: list[int], first_cells: list[int]) -> Program:
        parents = np.array(self.parents, dtype=np.int64).reshape(-1, 2).T.copy()
        steps = np.array(self.steps, dtype=np.int64).reshape(-1, len(_Step._fields)).T.copy()
        counted = np.array([counted_rows, first_cells], dtype=np.int64)
        flat = np.concatenate(self.thresholds), np.concatenate(self.ratios)
        return Program._make([np.array(self.starts), *parents, *steps, *flat, *counted])


def compile_proposal(proposal: NetworkProposal) -> Compiled:
    """Flatten a proposal and its defence."""
    layout = proposal.layout
    programs = []
    for plain in (False, True):
        build = _Builder()
        _informed_steps(proposal, build, plain)
        for finding in layout.findings.values():
            build.configure(finding.variables, finding.values.shape)
            build.weigh(finding.logarithms().values, FINDINGS)
        by_configuration = _barren_steps(proposal, build)
        counted, rows, n_cells = {}, [], 0
        for v in layout.query:
            by_states = v not in by_configuration
            values = None if by_states else layout.conditionals[v].values.reshape(-1, layout.n_states[v])
            rows.append(build.rows[v] if by_states else by_configuration[v])
            counted[v] = Counted(n_cells, layout.n_states[v] if values is None else len(values), values)
            n_cells += counted[v].n_cells
        programs.append(build.program(rows, [c.first for c in counted.values()]))
    return Compiled(programs[0], programs[1], build.n_rows, build.rows, counted, n_cells)


def _informed_steps(proposal: NetworkProposal, build: _Builder, plain: bool) -> None:
    """Draw informed variables and weigh them; with a defence, by the ratios of both."""
    both = proposal.defence > 0
    for i in range(len(proposal.tables)):
        drawn, other = proposal.tables[i], proposal.plain[i]
        if plain:
            drawn, other = other, drawn
        build.configure(drawn.variables[:-1], drawn.values.shape[:-1])
        build.draw(drawn)
        ratios = proposal.log_ratios(i, plain=plain)
        if _matter(ratios, drawn):
            build.weigh(ratios, PLAIN if plain else OWN)
        ratios = proposal.log_ratios(i, plain=not plain)
        if both and _matter(ratios, other):
            build.configure(other.variables, other.values.shape)
            build.weigh(ratios, OWN if plain else PLAIN)


def _matter(ratios: Floats, table: Table) -> bool:
    """Whether a draw can change the weight, more than by rounding."""
    drawn = table.values > 0
    return bool((np.abs(ratios[drawn]) > 1e-14).any() or not drawn.any(axis=-1).all())


def _barren_steps(proposal: NetworkProposal, build: _Builder) -> dict[int, int]:
    """Draw barren variables that others are drawn from; rows of the configurations by which they are counted."""
    layout = proposal.layout
    parents = {p for v in layout.barren for p in layout.conditionals[v].variables[:-1]}
    by_configuration = {}
    for v in layout.barren:
        table = layout.conditionals[v]
        is_counted = v in layout.query and table.values.size <= MOST_CONFIGURATIONS * layout.n_states[v]
        row = build.new_row() if is_counted else SCRATCH
        build.configure(table.variables[:-1], table.values.shape[:-1], row)
        if is_counted:
            by_configuration[v] = row
        if v in parents or not is_counted:
            build.draw(table)
    return by_configuration


def thresholds(q: Floats) -> Floats:
    """Sums of probabilities up to each state but the last, shape (n, n_states - 1).

    At and after the last state that is possible they are infinite: rounding must not let a uniform number get beyond.
    """
    sums = np.cumsum(q, axis=-1)[:, :-1]
    later = np.cumsum(q[:, ::-1], axis=-1)[:, ::-1][:, 1:]
    return np.where(later == 0, np.inf, sums)


BATCH = 512  # draws; their codes fit the second cache
N_LANES = 4  # copies of the sums, so that one addition need not wait for the last to the same cell
N_POWERS = 4  # of weights that are summed
HEADROOM = 30.0  # nats a weight may exceed the reference by: its fourth power is e^120
TO_UNIT = 2.0**-53


class Space(NamedTuple):
    """Work space of a batch."""

    codes: NDArray[np.int32]  # (n_rows, BATCH)
    words: NDArray[np.uint64]  # random
    uniforms: Floats
    powers: Floats  # (BATCH, N_POWERS) of the weights
    logs: Floats  # (3, BATCH) of their three parts


def work_space(n_rows: int) -> Space:
    """Work space for programs of so many rows."""
    codes, words = np.zeros((n_rows, BATCH), dtype=np.int32), np.empty(BATCH, dtype=np.uint64)
    return Space(codes, words, np.empty(BATCH), np.empty((BATCH, N_POWERS)), np.empty((3, BATCH)))


@hot
def draw_block(
    programs: tuple[Program, Program],
    period: int,
    log_constant: float,
    streams: Words,
    space: Space,
    sums: Floats,
    log_weights: Floats,
    asked: tuple[Ints, NDArray[np.int32]],
) -> float:
    """Draw as many times as ``log_weights`` is long, a multiple of `BATCH`; return the reference (nats) of the sums.

    Of the two programs, every ``period``-th batch is drawn by the second, none if it is 0.  ``sums`` (lanes, cells,
    powers) begins at 0 and gets the powers 1 to 4 of exp(log weight - reference), which is -inf where every weight is
    0.  What is ``asked`` for are rows of the codes, and where they go, shape (rows, draws).
    """
    (own, plain), (kept_rows, kept) = programs, asked
    codes, powers, logs = space.codes, space.powers, space.logs
    reference = -math.inf
    for begin in range(0, log_weights.size, BATCH):
        logs[:] = 0.0
        if period > 0 and (begin // BATCH) % period == period - 1:
            for s in range(plain.n_states.size):
                _step(plain, s, streams, space)
        else:
            for s in range(own.n_states.size):
                _step(own, s, streams, space)
        found = log_weights[begin : begin + BATCH]
        _weigh(logs, period, log_constant, found)
        for i in range(kept_rows.size):
            for t in range(BATCH):
                kept[i, begin + t] = codes[kept_rows[i], t]
        largest = -math.inf
        for t in range(BATCH):
            largest = max(largest, found[t])
        if largest == -math.inf:
            continue
        if reference == -math.inf:
            reference = largest
        elif largest > reference + HEADROOM:
            _rescale(sums, reference - largest)
            reference = largest
        for t in range(BATCH):
            w = math.exp(found[t] - reference)
            powers[t, 0] = w
            powers[t, 1] = w * w
            powers[t, 2] = w * w * w
            powers[t, 3] = (w * w) * (w * w)
        for i in range(own.counted_rows.size):
            _count(codes[own.counted_rows[i]], own.first_cells[i], powers, sums)
    return reference


@hot
def _weigh(logs: Floats, period: int, log_constant: float, found: Floats) -> None:
    """Log weights over the mixture: p(e | x) / (a / (p / plain) + (1 - a) / (p / own)), a = 1 / period."""
    if period == 0:
        for t in range(BATCH):
            found[t] = log_constant + logs[FINDINGS, t] + logs[OWN, t]
        return
    log_own, log_plain = math.log1p(-1.0 / period), -math.log(period)
    for t in range(BATCH):
        own, plain = log_own - logs[OWN, t], log_plain - logs[PLAIN, t]
        high, low = max(own, plain), min(own, plain)
        if high == math.inf:  # the target is 0
            found[t] = -math.inf
        else:
            found[t] = log_constant + logs[FINDINGS, t] - high - math.log1p(math.exp(low - high))


@hot
def _step(program: Program, s: int, streams: Words, space: Space) -> None:
    """The configurations of a step's parents, its draws, and what it does to the weights."""
    codes, words, uniforms = space.codes, space.words, space.uniforms
    first, end = program.starts[s], program.starts[s + 1]
    row = codes[program.configuration_rows[s]]
    if first == end:
        row[:] = 0
    else:
        _multiply(codes[program.parent_rows[first]], program.parent_strides[first], row)
        for e in range(first + 1, end):
            _multiply_add(codes[program.parent_rows[e]], program.parent_strides[e], row)
    k = program.n_states[s]
    states = codes[0]
    if program.state_rows[s] >= 0:
        states = codes[program.state_rows[s]]
        if k == 1:
            states[:] = 0
        else:
            for t in range(0, BATCH, 8):
                store(words, t, next_words(streams))
            for t in range(BATCH):
                uniforms[t] = np.float64(np.int64(words[t] >> np.uint64(11))) * TO_UNIT
            if k == 2:
                _draw_two(program.thresholds[program.thresholds_at[s] :], row, uniforms, states)
            else:
                _draw(program.thresholds[program.thresholds_at[s] :], k, row, uniforms, states)
    if program.ratios_at[s] >= 0:
        logs = space.logs[program.ratio_sums[s]]
        ratios = program.ratios[program.ratios_at[s] :]
        if k == 1:
            for t in range(BATCH):
                logs[t] += ratios[row[t]]
        else:
            for t in range(BATCH):
                logs[t] += ratios[row[t] * k + states[t]]


@hot
def _multiply(codes: NDArray[np.int32], stride: int, row: NDArray[np.int32]) -> None:
    factor = np.int32(stride)
    for t in range(BATCH):
        row[t] = codes[t] * factor


@hot
def _multiply_add(codes: NDArray[np.int32], stride: int, row: NDArray[np.int32]) -> None:
    factor = np.int32(stride)
    for t in range(BATCH):
        row[t] += codes[t] * factor


@hot
def _draw_two(thresholds: Floats, row: NDArray[np.int32], uniforms: Floats, states: NDArray[np.int32]) -> None:
    for t in range(BATCH):
        states[t] = uniforms[t] >= thresholds[row[t]]


@hot
def _draw(thresholds: Floats, k: int, row: NDArray[np.int32], uniforms: Floats, states: NDArray[np.int32]) -> None:
    """The number of thresholds that are not above the uniform number."""
    for t in range(BATCH):
        first = row[t] * (k - 1)
        state = 0
        for j in range(k - 1):
            state += uniforms[t] >= thresholds[first + j]
        states[t] = state


@hot
def _count(row: NDArray[np.int32], first: int, powers: Floats, sums: Floats) -> None:
    for t in range(0, BATCH, N_LANES):
        for lane in range(N_LANES):
            cell = first + row[t + lane]
            for j in range(N_POWERS):
                sums[lane, cell, j] += powers[t + lane, j]


@hot
def _rescale(sums: Floats, log_factor: float) -> None:
    for j in range(N_POWERS):
        factor = math.exp((j + 1) * log_factor)
        for lane in range(sums.shape[0]):
            for cell in range(sums.shape[1]):
                sums[lane, cell, j] *= factor


# Pareto k is fitted to the largest 3 sqrt(n) weights, here of at most 250,000 draws: of more draws the 1500 largest
# weights are a tail further out.  The error of k is then about (1 + k) / sqrt(1500), or 0.04.
TAIL_DRAWS = 250_000
N_LARGEST = 1501  # the tail and its foot


class Tally(NamedTuple):
    """Sums over draws; columns of ``cells`` and ``totals`` are powers 1 to 4 of the weights over exp(reference)."""

    n: int
    n_zero: int  # draws of weight 0
    reference: float  # nats; -inf where every weight is 0
    cells: Floats  # (n_cells, 4)
    totals: Floats  # (4,)
    largest: Floats  # log weights (nats) of the up to 1501 largest that are not 0, not sorted


def block_tally(log_weights: Floats, reference: float, sums: Floats) -> Tally:
    """Tally of a block of draws, from what `draw_block` made of it."""
    met = log_weights[log_weights > -np.inf]
    weights = np.exp(met - reference)  # summed without BLAS, whose rounding depends on the number of threads
    squares = weights * weights
    totals = np.array([part.sum() for part in (weights, squares, squares * weights, squares * squares)])
    return Tally(log_weights.size, log_weights.size - met.size, reference, sums.sum(axis=0), totals, _largest(met))


def add_tallies(a: Tally, b: Tally) -> Tally:
    """Tally of the draws of both."""
    n, n_zero = a.n + b.n, a.n_zero + b.n_zero
    if b.reference == -math.inf:
        return a._replace(n=n, n_zero=n_zero)
    if a.reference == -math.inf:
        return b._replace(n=n, n_zero=n_zero)
    reference = max(a.reference, b.reference)
    j = np.arange(1, N_POWERS + 1)
    ours, theirs = np.exp(j * (a.reference - reference)), np.exp(j * (b.reference - reference))
    return Tally(
        n, n_zero, reference, a.cells * ours + b.cells * theirs, a.totals * ours + b.totals * theirs,
        _largest(np.concatenate([a.largest, b.largest])),
    )  # fmt: skip


def tail_shape(tally: Tally) -> float:
    """Pareto k of the weights (`doxa.sampling.importance_weights.pareto_k`); nan where all are 0."""
    if not tally.largest.size:
        return math.nan
    log_weights = np.full(min(tally.n, TAIL_DRAWS), -np.inf)
    log_weights[: tally.largest.size] = tally.largest
    return pareto_k(log_weights)


def _largest(log_weights: Floats) -> Floats:
    if log_weights.size <= N_LARGEST:
        return log_weights
    return np.partition(log_weights, log_weights.size - N_LARGEST)[-N_LARGEST:]
