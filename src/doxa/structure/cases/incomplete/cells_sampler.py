"""`CellsSampler`: where chains over graphs and missing cells start, and what they keep.

How a sweep moves them is for its subclasses: `doxa.structure.cases.incomplete.sampler` for tables of probabilities,
`doxa.structure.cases.incomplete.scored_sampler` for any kind of family.

Which parent sets are listed: those that matter in some of a few completions, found once by a short chain of its own.

The lists are a choice of moves, not of answers: any lists are exact.  They depend on the data and the limits alone, so
every chain, every process and every resumed run has the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa._call_at import settled
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.stopping import FIRST_LOOK
from doxa.structure.cases.incomplete.blocks import row_work
from doxa.structure.cases.incomplete.candidate_sets import FamilyLists, family_lists
from doxa.structure.cases.incomplete.families import families_of
from doxa.structure.cases.incomplete.graph_moves import GraphDraws
from doxa.structure.cases.incomplete.missing_cells import (
    IncompleteData,
    MissingCells,
    completion_of,
    read_cells,
)
from doxa.structure.cases.incomplete.sweep import sweep_cells
from doxa.structure.cases.incomplete.sweeping_chain import Run, SweepingChain
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.score_table import ScoreTable, build_score_table, usual_size
from doxa.structure.graph import working_graph
from doxa.structure.limits import Limits
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.best_graph import takes_all_orders
from doxa.structure.moves.sampler import GraphStarts, StructureSampler, StructureState
from doxa.structure.moves.starts import greedy_graph, smallest_graph

__all__ = [
    "USUAL_MOVE",
    "CellsSampler",
    "observed_cells",
    "reference_completions",
    "reference_lists",
    "shared_lists",
    "usual_steps",
    "usual_thin",
]

USUAL_MOVE = Auto()
_SEED = 20011  # of the short chain: lists must not depend on a run's own seed
_STEPS = 20_000  # of Auto, between two completions: some hundredths of a second
_SWEEPS = 5
_BEFORE = 2  # completions that are not used
_FIRST_SWEEPS = 250  # of a warm-up
_ROW_VISITS = 34_000_000_000  # as `build_score_table` has it, for all completions together
# Where there are more, sets of more than three parents are made from those that are among the best.  Of the votes, and
# of 1000 rows of Child and ALARM with a tenth blank, lists are those of a million families but for some below e^-27.
_FEW_FAMILIES = 2**17


def observed_cells(missing_cells: MissingCells, rng: np.random.Generator) -> NDArray[Any]:
    """Random values of the missing cells, each from the values that its column has elsewhere; hidden ones uniform."""
    is_number, numbers = missing_cells.is_number, missing_cells.numbers
    cells = np.empty(missing_cells.n_missing, dtype=np.float64 if is_number.any() else np.int16)
    for column in np.unique(missing_cells.column).tolist():
        where = missing_cells.column == column
        if numbers is not None and is_number[where].any():
            seen = ~np.isnan(numbers.values[column])
            share = missing_cells.weights[seen] / missing_cells.weights[seen].sum()
            cells[where] = rng.choice(numbers.values[column, seen], size=int(where.sum()), p=share)
            continue
        states = missing_cells.base[column]
        known = states >= 0
        cases = np.bincount(
            states[known], missing_cells.weights[known], minlength=int(missing_cells.n_states[column])
        ).astype(float)
        if not cases.any():
            cases[:] = 1.0
        cells[where] = rng.choice(len(cases), size=int(where.sum()), p=cases / cases.sum())
    return cells


Redraw = Callable[[NDArray[np.uint64], NDArray[Any], int, np.random.Generator], NDArray[Any]]


def reference_completions(
    data: IncompleteData, limits: Limits, n_references: int, keep_within: float, redraw: Redraw | None = None
) -> list[tuple[NDArray[Any], ScoreTable]]:
    """Completions from a short chain, each with its score table.

    ``redraw(rows, cells, sweeps, rng)`` sweeps over the cells so many times, given a graph; left out, those of tables
    of probabilities.
    """
    rng = np.random.default_rng(_SEED)
    missing_cells, rows = data.missing_cells, smallest_graph(limits)
    cells = observed_cells(missing_cells, rng)
    redraw = partial(_redrawn, data) if redraw is None else redraw
    most = _ROW_VISITS // max(2000, len(missing_cells.weights)) // (n_references + _BEFORE)
    found = []
    for number in range(_BEFORE + n_references):
        scores = data.completed(cells)
        size = usual_size(scores, limits, _FEW_FAMILIES) if data.prior.kind == "sparse" else None
        table = build_score_table(scores, limits, max_size=size, keep_within=keep_within, max_families=most)
        scores.remember("score table", limits, lambda table=table: table)  # type: ignore[misc]
        if number >= _BEFORE:
            found.append((cells, table))
        structure = StructureSampler(USUAL_MOVE, scores, limits, _STEPS)
        rows = structure.run(structure.start_at(rows), _STEPS, rng)[0].rows
        cells = redraw(rows, cells, _SWEEPS, rng)
    return found


def _redrawn(
    data: IncompleteData, rows: NDArray[np.uint64], cells: NDArray[Any], sweeps: int, rng: np.random.Generator
) -> NDArray[Any]:
    completion = completion_of(data.missing_cells, cells)
    families = families_of(working_graph(rows)[0], completion, data.rule)
    work, done = row_work(data.missing_cells.n_states), np.zeros(2, dtype=np.int64)
    for _ in range(sweeps):
        settled(sweep_cells)(completion, families, work, done, rng)
    return read_cells(completion, data.missing_cells)


def reference_lists(
    data: IncompleteData,
    limits: Limits,
    n_references: int = 4,
    keep_within: float = 8.0,
    redraw: Redraw | None = None,
    most_sets: int | None = None,
) -> tuple[FamilyLists, list[NDArray[Any]]]:
    """The sets that the score table of some reference completion lists, and the completions.

    Parameters
    ----------
    data : IncompleteData
    limits : Limits
    n_references : int, default=4
        Completions.
    keep_within : float, default=8.0
        As in `build_score_table`.
    redraw : callable, optional
        As in `reference_completions`.
    most_sets : int, optional
        Of each node, the heaviest in each completion; all when left out.
    """
    found = reference_completions(data, limits, n_references, keep_within, redraw)
    listed = []
    for _, table in found:
        sizes = np.diff(table.first)
        node = np.repeat(np.arange(data.n_nodes), sizes)
        place = np.arange(len(node)) - table.first[node]  # weights fall within each node
        kept = place < (len(node) if most_sets is None else most_sets)
        listed.append(np.column_stack([node.astype(np.uint64), table.sets])[kept])
    entries = np.unique(np.concatenate(listed), axis=0)
    lists = family_lists(data, entries[:, 0].astype(np.int64), np.ascontiguousarray(entries[:, 1:]))
    return lists, [cells for cells, _ in found]


def shared_lists(
    data: IncompleteData,
    limits: Limits,
    n_references: int,
    keep_within: float,
    redraw: Redraw | None = None,
    most_sets: int | None = None,
) -> tuple[FamilyLists, list[NDArray[Any]]]:
    """`reference_lists`, made once a process; the work space is the caller's own."""
    lists, completions = data.remember(
        f"lists of {n_references} within {keep_within!r}",
        limits,
        lambda: reference_lists(data, limits, n_references, keep_within, redraw, most_sets),
    )
    return lists.with_own_work_space(), completions


class CellsSampler(GraphStarts):
    """Chains over graphs and missing cells: their starts, and their sweeps.

    A sweep changes the cells once and takes ``steps`` structure steps.  These cost little beside the cells, and given
    the cells graphs soon have nothing in common any more: so a sweep has several draws, every ``thin`` steps.
    """

    data: IncompleteData
    steps: int
    thin: int

    @property
    def cycle_length(self) -> int:
        """Steps after which both the sweep and the move begin again."""
        return math.lcm(self.steps, self.move.cycle_length(self.data.n_nodes))

    def check_thin(self) -> None:
        """Fill in ``thin`` where it was left out, and raise unless draws and sweeps keep step."""
        thin = self.steps if self.thin is None else check_whole("thin", self.thin, 1)
        if thin % self.steps and self.steps % thin:
            raise ArgumentError(f"thin is {thin}; it must divide steps, which is {self.steps}, or be a multiple of it")
        object.__setattr__(self, "thin", thin)

    def check_state(self, state: StructureState) -> None:
        """As of any chain over graphs, and that it stands where a draw was kept."""
        super().check_state(state)
        apart = min(self.thin, self.steps)
        if state.position % apart:
            raise ArgumentError(f"state.position is {state.position}; it must be a multiple of {apart}")

    @property
    def first_epoch(self) -> int:
        """Draws of the first epoch of a warm-up: those of 250 sweeps, and 500 at least."""
        return max(FIRST_LOOK, _FIRST_SWEEPS * self.steps // self.thin)

    def chain_at(self, state: StructureState) -> SweepingChain:
        """A chain that stands there, and its work space."""
        raise NotImplementedError

    def run(self, state: StructureState, n_steps: int, rng: np.random.Generator) -> Run:
        """Run ``n_steps`` structure steps, a multiple of ``thin``, and the sweeps that go with them.

        Returns
        -------
        state : StructureState
        draws : dict
            ``rows`` uint64 (n_kept, n_nodes, n_words); ``log_score`` float64 (n_kept,), log of the joint probability of
            graph, missing cells and data, nats, up to the constant in the prior of graphs; ``n_edges`` int32; ``cells``
            (n_kept, n_missing), int8 or, if a column has more than 127 states, int16, or float64 if some are numbers.
        info : dict
            `SweepingChain.counts`.
        """
        return self.running()(state, n_steps, rng)

    def running(self) -> Callable[[StructureState, int, np.random.Generator], Run]:
        """`run` for one chain, or several in turn: the work space is made at the first call, and kept."""
        chain: SweepingChain | None = None

        def run(state: StructureState, n_steps: int, rng: np.random.Generator) -> Run:
            nonlocal chain
            if chain is None:
                chain = self.chain_at(state)
            else:
                chain.stand_at(state)
            return (*self._run_chain(chain, state.position, n_steps, rng), chain.counts())

        return run

    def _run_chain(
        self, chain: SweepingChain, position: int, n_steps: int, rng: np.random.Generator
    ) -> tuple[StructureState, dict[str, NDArray[Any]]]:
        """`run`; ``position`` is the number of steps, up to whole cycles, that the chain has done."""
        kept, missing_cells = n_steps // self.thin, self.data.missing_cells
        draws: dict[str, NDArray[Any]] = {
            "rows": np.empty((kept, *chain.rows.shape), dtype=np.uint64),
            "log_score": np.empty(kept),
            "n_edges": np.empty(kept, dtype=np.int32),
            "cells": np.empty((kept, missing_cells.n_missing), dtype=missing_cells.dtype),
        }
        done = 0
        while done < n_steps:
            in_sweep, first = (position + done) % self.steps, done // self.thin
            if in_sweep == 0:
                chain.begin_sweep(rng)
            steps = min(self.steps - in_sweep, n_steps - done)
            here = slice(first, first + max(1, steps // self.thin))
            of_graphs = GraphDraws(
                min(self.thin, self.steps), draws["rows"][here], draws["log_score"][here], draws["n_edges"][here]
            )
            chain.move_graph(steps, rng, of_graphs)
            draws["cells"][here] = chain.cells
            done += steps
            if in_sweep + steps == self.steps:
                is_changed = chain.end_sweep(rng)
                of_graphs.keep(chain.rows, chain.local, -1, None)
                if is_changed:
                    draws["cells"][here.stop - 1] = chain.cells
        return chain.state()._replace(position=(position + n_steps) % self.cycle_length), draws

    def likely_cells(self, rng: np.random.Generator) -> NDArray[Any]:
        """Each from the values that its column has elsewhere."""
        return observed_cells(self.data.missing_cells, rng)

    def check_cells(self, cells: NDArray[Any]) -> None:
        """Raise `ArgumentError` unless missing cells can have these values."""
        self.data.missing_cells.check_values(cells, "state.cells")

    def any_cells(self, rng: np.random.Generator) -> NDArray[Any]:
        """Any values, each as likely; of numbers any from the least to the greatest."""
        missing_cells = self.data.missing_cells
        share = rng.random(missing_cells.n_missing)
        cells = (share * missing_cells.n_states[missing_cells.column]).astype(np.int16)
        is_number, numbers = missing_cells.is_number, missing_cells.numbers
        if numbers is None or not is_number.any():
            return cells
        low, high = np.zeros(len(numbers.scale)), np.zeros(len(numbers.scale))
        for column in np.unique(missing_cells.column[is_number]).tolist():
            low[column], high[column] = np.nanmin(numbers.values[column]), np.nanmax(numbers.values[column])
        between = (low + share[:, None] * (high - low))[np.arange(len(share)), missing_cells.column]
        return np.where(is_number, between, cells)

    def searched(self, cells: NDArray[Any]) -> NDArray[np.uint64]:
        """The best graph of a few nodes whose families are scored quickly; else a greedy optimum."""
        scores = self.ascended(cells)
        if self.data.score.is_quick and takes_all_orders(self.data.n_nodes):
            return StructureSampler(self.move, scores, self.limits, self.thin).searched(cells)
        return greedy_graph(scores, self.limits)

    def ascended(self, cells: NDArray[Any]) -> FamilyScores:
        """The scores by which `searched` searches: those of its completion."""
        return self.data.completed(cells)


_LEAST_STEPS, _STEPS_A_PAIR_OF_FEW, _LEAST_STALE = 48, 10, 100
_CHEAP, _STEPS_A_PAIR = {True: 320, False: 640}, {True: 1.0, False: 2.5}  # with lists of parent sets, and without
_DRAWS_A_SWEEP = 4


def usual_steps(n_nodes: int, *, lists: bool = True, quick: bool = True) -> int:
    """Structure steps in a sweep: fewer leave the graph behind the cells, more wait for the cells' next change.

    ``lists``: of a move that draws from lists of parent sets.  ``quick``: on scores of the completion at hand; else by
    stale ones, which want to be compared with those of today.

    >>> [usual_steps(n) for n in (2, 8, 17, 37)]
    [48, 320, 320, 1372]
    """
    few = min(_STEPS_A_PAIR_OF_FEW * n_nodes**2, _CHEAP[lists])  # cheap beside a sweep of the cells
    steps = max(_LEAST_STEPS, few, round(_STEPS_A_PAIR[lists] * n_nodes**2))
    if not quick:
        steps = max(_LEAST_STALE, n_nodes**2)
    return -(-steps // _DRAWS_A_SWEEP) * _DRAWS_A_SWEEP


def usual_thin(n_nodes: int, *, lists: bool = True, quick: bool = True) -> int:
    """Structure steps between draws of runs that go on until they are accurate: a quarter of a sweep.

    Where a tenth of the cells of eight categories are missing, four draws of a sweep leave two thirds of the variance
    of edge probabilities, of eight numbers a quarter.
    """
    return usual_steps(n_nodes, lists=lists, quick=quick) // _DRAWS_A_SWEEP
