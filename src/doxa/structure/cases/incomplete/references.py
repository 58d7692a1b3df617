"""Which parent sets are listed: those that matter in some of a few completions, found once by a short chain of its own.

The lists are a choice of moves, not of answers: any lists are exact.  They depend on the data and the limits alone, so
every chain, every process and every resumed run has the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa.structure.cases.incomplete.blocks import row_work
from doxa.structure.cases.incomplete.candidate_sets import FamilyLists, family_lists
from doxa.structure.cases.incomplete.data import IncompleteData
from doxa.structure.cases.incomplete.families import families_of
from doxa.structure.cases.incomplete.missing_cells import MissingCells, completion_of
from doxa.structure.cases.incomplete.sweep import sweep_cells
from doxa.structure.families.score_table import ScoreTable, build_score_table
from doxa.structure.graph import working_graph
from doxa.structure.limits import Limits
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.moves.starts import smallest_graph

__all__ = ["observed_cells", "reference_completions", "reference_lists", "shared_lists"]

_SEED = 20011  # of the short chain: lists must not depend on a run's own seed
_STEPS = 20_000  # of Auto, between two completions: some hundredths of a second
_SWEEPS = 5
_BEFORE = 2  # completions that are not used
_ROW_VISITS = 34_000_000_000  # as `build_score_table` has it, for all completions together


def observed_cells(missing_cells: MissingCells, rng: np.random.Generator) -> NDArray[np.int16]:
    """Random values of the missing cells, each from the values that its column has elsewhere; hidden ones uniform."""
    cells = np.empty(missing_cells.n_missing, dtype=np.int16)
    for column in np.unique(missing_cells.column).tolist():
        states = missing_cells.base[column]
        known = states >= 0
        cases = np.bincount(
            states[known], missing_cells.weights[known], minlength=int(missing_cells.n_states[column])
        ).astype(float)
        if not cases.any():
            cases[:] = 1.0
        where = missing_cells.column == column
        cells[where] = rng.choice(len(cases), size=int(where.sum()), p=cases / cases.sum())
    return cells


def reference_completions(
    data: IncompleteData, limits: Limits, n_references: int, keep_within: float
) -> list[tuple[NDArray[np.int16], ScoreTable]]:
    """Completions from a short chain, each with its score table."""
    rng = np.random.default_rng(_SEED)
    missing_cells, rows = data.missing_cells, smallest_graph(limits)
    cells = observed_cells(missing_cells, rng)
    most = _ROW_VISITS // max(2000, len(missing_cells.weights)) // (n_references + _BEFORE)
    found = []
    for number in range(_BEFORE + n_references):
        scores = data.completed(cells)
        table = build_score_table(scores, limits, keep_within=keep_within, max_families=most)
        scores.remember("score table", limits, lambda table=table: table)  # type: ignore[misc]
        if number >= _BEFORE:
            found.append((cells, table))
        structure = StructureSampler(Auto(), scores, limits, _STEPS)
        rows = structure.run(structure.start_at(rows), _STEPS, rng)[0].rows
        completion = completion_of(missing_cells, cells)
        families = families_of(working_graph(rows)[0], completion, data.rule)
        work, info = row_work(missing_cells.n_states), np.zeros(2, dtype=np.int64)
        for _ in range(_SWEEPS):
            sweep_cells(completion, families, work, info, rng)
        cells = completion.rows[missing_cells.row, missing_cells.column]
    return found


def reference_lists(
    data: IncompleteData, limits: Limits, n_references: int = 4, keep_within: float = 8.0
) -> tuple[FamilyLists, list[NDArray[np.int16]]]:
    """The sets that the score table of some reference completion lists, and the completions.

    Parameters
    ----------
    data : IncompleteData
    limits : Limits
    n_references : int, default=4
        Completions.
    keep_within : float, default=8.0
        As in `build_score_table`.
    """
    found = reference_completions(data, limits, n_references, keep_within)
    tables = [table for _, table in found]
    node = np.concatenate([np.repeat(np.arange(data.n_nodes), np.diff(table.first)) for table in tables])
    entries = np.unique(
        np.column_stack([node.astype(np.uint64), np.concatenate([table.sets for table in tables])]), axis=0
    )
    lists = family_lists(data, entries[:, 0].astype(np.int64), np.ascontiguousarray(entries[:, 1:]))
    return lists, [cells for cells, _ in found]


def shared_lists(
    data: IncompleteData, limits: Limits, n_references: int, keep_within: float
) -> tuple[FamilyLists, list[NDArray[np.int16]]]:
    """`reference_lists`, made once a process; the work space is the caller's own."""
    lists, completions = data.remember(
        f"lists of {n_references} within {keep_within!r}",
        limits,
        lambda: reference_lists(data, limits, n_references, keep_within),
    )
    return lists._replace(scratch=lists.scratch.copy()), completions
