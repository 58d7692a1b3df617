"""`RunPlan`: all that the draws of a structure run depend on; and the answer of a plan that needs no draws.

What users call stands in `doxa.structure.averaging`; here a table and checked options become a plan.  Where graphs are
few enough to sum over all of them, the plan is answered here; else `doxa.structure.runs.running` samples, and is
imported then.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.data import Table
from doxa.data.large.table import OutOfCoreTable
from doxa.errors import ArgumentError
from doxa.estimates.stopping import Until
from doxa.sampling.driver import Schedule, fresh_entropy, plan_length
from doxa.structure.exact.dag_budget import worth_it
from doxa.structure.exact.dag_sums import PrecisionError
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import Limits
from doxa.structure.moves.by_name import check_move
from doxa.structure.posterior.exact_answer import sum_over_graphs
from doxa.structure.priors import make_prior
from doxa.structure.runs.options import LearnOptions, RunOptions
from doxa.text import memory

if TYPE_CHECKING:
    from doxa.structure.cases.incomplete.missing_cells import IncompleteData
    from doxa.structure.moves.sampler import StructureMove
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["RunPlan", "check_memory", "exact_answer", "make_plan", "sampling_bytes", "scores_of"]


class RunPlan(NamedTuple):
    """All that the draws of a structure run depend on, and when it is to stop."""

    table: Table
    options: RunOptions
    move: StructureMove
    thin: int
    schedule: Schedule
    until: Until
    entropy: int
    source: dict[str, Any] | None = None  # where the table was read, and how; for people and for `go_on`
    begin_at: NDArray[np.uint64] | None = None  # graphs (n_chains, n_nodes, n_words), where every other chain begins


def make_plan(table: Table, source: dict[str, Any] | None, asked: LearnOptions, limits: Limits) -> RunPlan:
    """Check the options of `doxa.learn` and fill in what was left out.

    ``table`` has the declared columns; ``source`` is how it was read.
    """
    move = check_move(asked.sampler)
    schedule, until = plan_length(asked.chains, asked.draws, asked.warmup, asked.until)
    prior = make_prior(table.names, asked.prior, asked.edge_log_odds, table.n_present)
    kind = asked.kind(table)
    kind.check_parents(table.names, limits)
    check_memory(len(table.names), schedule.chains, schedule.draws)
    counted = schedule.draws is not None
    usual = _usual_thin(table, limits, move, quick=kind.is_quick, counted=counted)
    return RunPlan(
        table,
        RunOptions.of(table, asked, prior, limits),
        move,
        usual if asked.thin is None else check_whole("thin", asked.thin, 1),
        schedule,
        until,
        fresh_entropy() if asked.seed is None else check_whole("seed", asked.seed, 0),
        source,
    )


def exact_answer(plan: RunPlan, exact: bool | None, asked: bool, workers: int | None) -> StructurePosterior | None:
    """The sum over all graphs, if it is wanted; ``asked``: something that only a sampler can do was asked."""
    if exact and asked:
        raise ArgumentError(
            "exact is True, but sampler, draws, warmup, thin or until is given too: they belong to sampling; "
            "leave them out, or leave out exact"
        )
    if exact is False or asked or not (exact or worth_it(plan.options)):
        return None
    cases = _summed(plan, exact)
    if cases is None:
        return None
    try:
        return sum_over_graphs(cases, plan.options, plan.schedule.chains, plan.entropy, workers, plan.source)
    except PrecisionError:
        if exact:
            raise
        return None


def _summed(plan: RunPlan, exact: bool | None) -> FamilyScores | IncompleteData | None:
    """What graphs are summed over; None where too many completions of the table would have to be, too."""
    if not plan.table.n_missing:
        return scores_of(plan)
    from doxa.structure.cases.incomplete.sums import completion_sums_fit, n_completions

    options = plan.options
    if options.order is not None:
        if exact:
            raise ArgumentError(
                f"exact is True, but {options.n_missing} cells of moments in time are missing, and sums over cells "
                "that several rows share are not made; leave exact out"
            )
        return None
    data = options.incomplete(plan.table)
    if completion_sums_fit(data.missing_cells, int(options.limits.most_parents.max())):
        return data
    if exact:
        if data.missing_cells.is_number.any():
            raise ArgumentError(
                "exact is True, but cells of columns of numbers are missing, which no sum is over; leave exact out"
            )
        number = n_completions(data.missing_cells)
        many = str(number) if number < 10**6 else f"10^{math.log10(number):.0f}"
        raise ArgumentError(
            f"exact is True, but the table has {plan.table.n_missing} missing cells: the sums over graphs of its "
            f"{many} completions would take too long; leave out exact"
        )
    return None


def scores_of(plan: RunPlan) -> FamilyScores:
    """The scores of a complete table, or of one that was counted where it lives."""
    table, options = plan.table, plan.options
    if isinstance(table, OutOfCoreTable):
        from doxa.structure.cases.out_of_core import OutOfCoreScores

        return OutOfCoreScores(table, options.score, options.structure_prior, limits=options.limits)
    return FamilyScores(table, options.score, options.structure_prior)


_DRAWS, _COPIES = 2000, 2  # kept of each chain where nothing else is said; arrays that grow by doubling stand twice
_BYTES_A_PAIR = 600  # of nodes: lists, prior, diagnostics of edges and of adjacencies
_CACHES = 2**30  # of two chains that run at the same time


def sampling_bytes(n_nodes: int, chains: int, draws: int | None) -> int:
    """About the memory that a run over so many columns takes; the table itself is not counted.

    >>> sampling_bytes(1000, 4, 2000) / 1e9 < 6
    True
    """
    graph = n_nodes * -(-n_nodes // 64) * 8
    return _CACHES + _BYTES_A_PAIR * n_nodes**2 + _COPIES * chains * (_DRAWS if draws is None else draws) * graph


def check_memory(n_nodes: int, chains: int, draws: int | None) -> None:
    """Raise before anything is built where a run will not fit into the memory of this machine."""
    there, needed = physical_memory(), sampling_bytes(n_nodes, chains, draws)
    if there is None or n_nodes <= _ALWAYS or needed <= there:
        return
    low, high = 1, n_nodes
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sampling_bytes(middle, chains, draws) <= there else (low, middle - 1)
    raise ArgumentError(
        f"table has {n_nodes} columns: {chains} chains over graphs of so many take about {memory(needed)}, and this "
        f"machine has {memory(there)}; {low} columns would do, or fewer chains= and draws="
    )


_ALWAYS = 200  # columns that fit any machine, unless millions of draws are asked for


def physical_memory() -> int | None:
    """Bytes of this machine's memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


_MOST_IN_A_DRAW = 2**14  # bytes of missing cells, where several draws have the same


def _usual_thin(table: Table, limits: Limits, move: StructureMove, *, quick: bool, counted: bool) -> int:
    """Steps between kept draws, of families that are scored quickly or not; ``counted``: so many draws are asked for,
    which should have as little in common as they can.
    """
    n_nodes, lists = len(table.names), move.uses_table
    if table.n_missing:
        from doxa.structure.cases.incomplete.cells_sampler import usual_steps, usual_thin

        n_bytes = table.n_missing * (8 if table.is_number.any() else 1)
        several_graphs = hasattr(move, "sampler")  # which are swapped after so many draws, each time at some cost
        whole_sweeps = counted or several_graphs or limits.one_graph or n_bytes > _MOST_IN_A_DRAW
        return (usual_steps if whole_sweeps else usual_thin)(n_nodes, lists=lists, quick=quick)
    from doxa.structure.moves.sampler import steps_between_draws

    return steps_between_draws(n_nodes, lists=lists)
