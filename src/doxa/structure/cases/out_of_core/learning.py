"""From a source that is counted where it lives to the table of counts that a run over graphs needs."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa.data.large import OutOfCoreSource, OutOfCoreTable
from doxa.data.large.kept import table_of
from doxa.errors import ArgumentError, FileError, TableError
from doxa.estimates.store import RunFileError, open_reader
from doxa.structure.cases.out_of_core.scores import (
    MOST_CELLS,
    MOST_FAMILIES,
    MOST_PARENTS,
    FamilyCost,
    fits,
    needed_sets,
    predicted_cost,
)
from doxa.structure.families.kind import FamilyKind
from doxa.structure.limits import Limits
from doxa.structure.runs.options import RunOptions
from doxa.text import many

if TYPE_CHECKING:
    from doxa.structure.runs.plan import RunPlan

__all__ = ["beside", "check_counts", "count_table", "kept_table", "stored_options", "uncounted", "with_counts"]


def count_table(source: OutOfCoreSource, limits: Limits) -> OutOfCoreTable:
    """Count all that the families within some limits need; what the source has kept is not counted again.

    Raises
    ------
    TableError
        If cells are missing.
    ArgumentError
        If there are too many families; the message says what would do.
    SourceError
        If the source fails or has changed.
    """
    check_counts(source, limits)
    return source.counted_table([members for sets in needed_sets(limits) for members in sets.tolist()])


def check_counts(source: OutOfCoreSource, limits: Limits, score: FamilyKind | None = None) -> None:
    """Refuse what cannot be counted, before the first pass; errors as `count_table`."""
    large = f"the table has {source.n_rows} rows, more of them distinct than are held in memory"
    if score is not None and not score.is_counted:
        raise ArgumentError(
            f"{large}, and families of the kind {score.name!r} are scored from rows; leave out family=, read fewer "
            "columns (columns=...), or give fewer rows"
        )
    if source.n_missing:
        listed = ", ".join(f"{name!r} ({count})" for name, count in source.missing_by_column.items())
        raise TableError(
            f"{large}, and missing cells, in the columns {listed}; missing cells are drawn row by row, which takes the "
            "rows: leave these columns out, fill the cells or remove the rows in the source, or give fewer rows (some "
            "million drawn at random)"
        )
    cost = predicted_cost(limits, source.n_states, source.n_rows)
    if not fits(cost):
        raise ArgumentError(
            f"max_parents allows up to {cost.most_parents} parents, {cost}; {large}, so each of these families has to "
            f"be counted where the data live, and at most {many(MOST_FAMILIES)} families, {many(MOST_CELLS)} cells and "
            f"{MOST_PARENTS} parents are; {_way_out(limits, source.n_states, source.n_rows)}"
        )


def uncounted(source: OutOfCoreSource) -> OutOfCoreTable:
    """A table without any counts, for options to be checked before the first pass."""
    return OutOfCoreTable(source.names, source.states, source.n_rows, ())


def with_counts(plan: RunPlan, source: OutOfCoreSource) -> RunPlan:
    """A plan with the counts that its families need; errors as `count_table`."""
    table = count_table(source, plan.options.limits)
    return plan._replace(table=table, options=dataclasses.replace(plan.options, data_digest=table.digest))


def beside(store: str | os.PathLike[str]) -> Path:
    """The file of counts that belongs to a run file."""
    return Path(f"{os.fspath(store)}.counts")


def kept_table(path: str | os.PathLike[str]) -> OutOfCoreTable | None:
    """The table of counts of a run file, from the file beside it; None where there is none of this run."""
    if not beside(path).exists():
        return None
    options = stored_options(path)
    try:
        table = table_of(beside(path), (tuple(one) for sets in needed_sets(options.limits) for one in sets.tolist()))
    except FileError:  # left there by another run
        return None
    return table if table.digest == options.data_digest else None


def stored_options(path: str | os.PathLike[str]) -> RunOptions:
    """The options of a run file of graphs; `RunFileError` if it is none."""
    with open_reader(path, check=False) as reader:
        try:
            return RunOptions.from_json(reader.header.options, reader.header.data_digest)
        except ArgumentError as error:
            raise RunFileError(f"'{path}' is not a run that doxa wrote: {error}") from error


def _way_out(limits: Limits, n_states: NDArray[np.int64], n_rows: int) -> str:
    """The largest cap that would do, if any does."""
    least = int(limits.required_edges.sum(axis=0).max())
    found: tuple[int, FamilyCost] | None = None
    for cap in range(max(1, least), MOST_PARENTS + 1):
        capped = limits._replace(max_parents=np.minimum(limits.max_parents, cap))
        cost = predicted_cost(capped, n_states, n_rows)
        if not fits(cost):
            break
        found = cap, cost
    if found is None:
        return "read fewer columns (columns=...), or give tiers or forbidden edges"
    return f"max_parents={found[0]} would do, with {found[1]}"
