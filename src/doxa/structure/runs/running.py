r"""A run over graphs from a plan: sampled, alone or together with what is missing.

What a structure run watches: is it settled after warm-up, and accurate enough to stop?

Probabilities of edges and adjacencies are watched by their Monte Carlo errors, which grow where chains disagree; the
log score and the number of edges by R-hat and effective draws, since they show a chain in another mode soonest.  What
is accurate enough is decided in `doxa.estimates.accuracy`.

When it seems to have converged, it is audited (`doxa.structure.runs.audit`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.accuracy import confirmed, indicator_shortfalls, is_settled, real_shortfalls
from doxa.estimates.gelman_rubin import rank_r_hat
from doxa.estimates.stopping import Shortfall, Until, worst_shortfall
from doxa.estimates.store.writer import keep_stop
from doxa.estimates.trace import Trace
from doxa.sampling.driver import Finding, check_one_end, run_chains
from doxa.sampling.runner import Sampler
from doxa.structure.cases.incomplete.by_kind import sampler_with_cells
from doxa.structure.families.cache import FamilyScores
from doxa.structure.moves.by_name import sampler_of
from doxa.structure.moves.sampler import planted_in_half
from doxa.structure.posterior.structure_posterior import StructurePosterior, diagnoses_of
from doxa.structure.runs.audit import audit_run
from doxa.structure.runs.files import go_on
from doxa.structure.runs.plan import RunPlan, scores_of

if TYPE_CHECKING:
    from doxa.estimates.store import RunWriter

__all__ = [
    "check_quantities",
    "has_settled",
    "missing",
    "resume_run",
    "run_plan",
]

_RUN_WIDE = ("log_score", "n_edges")


def check_quantities(until: Until, names: tuple[str, ...]) -> None:
    """Raise `ArgumentError` when ``until`` monitors something that the run does not have."""
    known = {*_RUN_WIDE, *_pair_names(names, "->"), *_pair_names(names, "--")}
    for name in until.quantities or ():
        if name not in known:
            raise ArgumentError(
                f"until.quantities names {name!r}, which is not monitored; write an edge as "
                f"'{names[0]} -> {names[1]}', an adjacency as '{names[0]} -- {names[1]}', or one of "
                f"{', '.join(_RUN_WIDE)}"
            )


def has_settled(trace: Trace) -> bool:
    """Whether the chains of one warm-up epoch agree in the log score and the number of edges."""
    return trace.n_chains == 1 or all(is_settled(rank_r_hat(trace[name])) for name in _RUN_WIDE)


def missing(posterior: StructurePosterior, until: Until) -> Shortfall | None:
    """The monitored quantity that is farthest from what ``until`` asks; None when all are there, at two looks."""
    trace = posterior.trace

    def assess(n_draws: int) -> Shortfall | None:
        part = posterior if n_draws == trace.n_draws else _beginning(posterior, n_draws)
        return worst_shortfall([*_run_wide(part, until), *_probabilities(part, until, posterior)])

    return confirmed(assess, trace.n_draws, until, trace.n_warmup // trace.thin)


def _beginning(posterior: StructurePosterior, n_draws: int) -> StructurePosterior:
    """The posterior by the first draws of each chain."""
    draws = {name: posterior.trace[name][:, :n_draws] for name in posterior.trace.names}
    return type(posterior)(posterior.names, Trace(draws), posterior.sampler, posterior.options)


def _run_wide(posterior: StructurePosterior, until: Until) -> Iterator[Shortfall]:
    for name, diagnosis in zip(_RUN_WIDE, (posterior.log_score_diagnosis, posterior.n_edges_diagnosis), strict=True):
        yield from real_shortfalls(name, diagnosis, until)


def _probabilities(part: StructurePosterior, until: Until, whole: StructurePosterior) -> Iterator[Shortfall]:
    names = part.names
    every_edge = ~np.eye(len(names), dtype=np.bool_)
    for arrow, diagnostics, pairs, now in (
        ("->", part.edge_diagnostics, every_edge, whole.edge_diagnostics),
        ("--", part.adjacency_diagnostics, np.triu(every_edge), whole.adjacency_diagnostics),
    ):
        yield from indicator_shortfalls(partial(_pair_name, names, arrow), diagnostics, until, pairs, now)


def _pair_name(names: tuple[str, ...], arrow: str, i: int, j: int) -> str:
    return f"{names[i]} {arrow} {names[j]}"


def _pair_names(names: tuple[str, ...], arrow: str) -> Iterator[str]:
    for i in range(len(names)):
        for j in range(len(names)):
            if (arrow == "->" and i != j) or i < j:
                yield _pair_name(names, arrow, i, j)


def resume_run(
    path: str | os.PathLike[str],
    table: Table | None,
    draws: int | None,
    until: Until | None,
    workers: int | None,
    progress: bool | None,
) -> StructurePosterior:
    """Go on with a run that is kept in a file; see `doxa.resume`."""
    check_one_end(draws, until)
    plan, writer = go_on(path, table, draws, until)
    with writer:
        return run_plan(plan, lambda: nullcontext(writer), workers, progress)


def run_plan(
    plan: RunPlan,
    open_store: Callable[[], AbstractContextManager[RunWriter]] | None,
    workers: int | None,
    progress: bool | None,
) -> StructurePosterior:
    """Run a plan, and keep it in a file if there is one."""
    sampler, scores = _sampler(plan)
    if plan.begin_at is not None:
        sampler = _BegunAt(sampler, plan.begin_at)
    names = plan.table.names
    check_quantities(plan.until, names)

    # What was found out about the latest draws that were looked at, by the piece of the chains that they are.
    known: dict[tuple[int, int], dict[str, Any]] = {}

    def posterior_of(trace: Trace, *more: Any) -> StructurePosterior:
        made = StructurePosterior(names, trace, plan.move, plan.options, *more)
        vars(made).update(known.pop((trace.n_warmup, trace.n_draws), {}))
        known.clear()
        return made

    def keep(posterior: StructurePosterior) -> None:
        known[posterior.trace.n_warmup, posterior.trace.n_draws] = diagnoses_of(posterior)

    def assess(trace: Trace) -> Shortfall | None:
        posterior = posterior_of(trace)
        found = missing(posterior, plan.until)
        keep(posterior)
        return found

    def audit(trace: Trace, states: list[Any]) -> Finding | None:
        posterior = posterior_of(trace)
        found = audit_run(plan, scores, sampler, posterior, states)
        keep(posterior)
        return found

    with nullcontext() if open_store is None else open_store() as store:
        run = run_chains(
            sampler,
            plan.schedule,
            until=plan.until,
            assess=assess,
            settled=has_settled,
            audit=audit,
            store=store,
            seed=plan.entropy,
            workers=workers,
            progress=progress,
        )
        if store is not None:
            keep_stop(store, run.stop)
    use = None if scores is None else scores.use
    return posterior_of(run.trace, use, run.stop, plan.source)


def _sampler(plan: RunPlan) -> tuple[Sampler[Any], FamilyScores | None]:
    """The sampler of a plan, and the scores of a complete table."""
    options = plan.options
    if plan.table.n_missing:
        return sampler_with_cells(options.incomplete(plan.table), options.limits, plan.move, thin=plan.thin), None
    scores = scores_of(plan)
    return sampler_of(plan.move, scores, options.limits, plan.thin), scores


class _BegunAt:
    """A sampler whose every other chain, from the second, begins at a graph that is given; the others far apart."""

    def __init__(self, sampler: Any, graphs: NDArray[np.uint64]) -> None:
        self._sampler, self._graphs = sampler, graphs

    def start(self, chain: int, rng: np.random.Generator) -> Any:
        state = self._sampler.start(chain, rng)
        return planted_in_half([state, state], rows=self._graphs[chain])[1] if chain % 2 else state

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_sampler", "_graphs"):
            raise AttributeError(name)
        return getattr(self._sampler, name)
