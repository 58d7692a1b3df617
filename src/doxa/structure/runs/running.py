"""A run over graphs from a plan: sampled, alone or together with what is missing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.data import Table
from doxa.estimates.stopping import Audit, Shortfall, Until
from doxa.estimates.store.stops import keep_stop
from doxa.estimates.trace import Trace
from doxa.sampling.driver import Finding, check_one_end, run_chains
from doxa.sampling.runner import Sampler
from doxa.structure.cases.incomplete import IncompleteData
from doxa.structure.cases.incomplete.logistic_sampler import logistic_sampler
from doxa.structure.cases.incomplete.sampler import usual_steps
from doxa.structure.cases.incomplete.tempered import sampler_with_cells
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.logistic import FamilyMixture, Logistic
from doxa.structure.moves.by_name import sampler_of
from doxa.structure.posterior.structure_posterior import StructurePosterior
from doxa.structure.runs.audit import Missed, audit_completions, audit_graphs
from doxa.structure.runs.files import go_on
from doxa.structure.runs.monitor import check_quantities, has_settled, missing
from doxa.structure.runs.plan import RunPlan, scores_of

if TYPE_CHECKING:
    from doxa.estimates.store import RunWriter

__all__ = ["resume_run", "run_plan"]

_AUDITED = 2  # chains whose completions are audited: each needs lists of its own


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
    names = plan.table.names
    check_quantities(plan.until, names)

    def assess(trace: Trace) -> Shortfall | None:
        return missing(StructurePosterior(names, trace, plan.move, plan.options), plan.until)

    def audit(trace: Trace, states: list[Any]) -> Finding | None:
        return _audit(plan, scores, sampler, trace, states)

    _load_diagnostics_meanwhile()
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
    return StructurePosterior(names, run.trace, plan.move, plan.options, use, run.stop, plan.source)


def _audit(
    plan: RunPlan, scores: FamilyScores | None, sampler: Sampler[Any], trace: Trace, states: list[Any]
) -> Finding | None:
    """Modes that the chains have missed; None where the chains disagree, or a search would cost more than the run."""
    options = plan.options
    if options.score.is_logistic and not (scores is not None and plan.move.uses_table):
        return None
    if not StructurePosterior(options.names, trace, plan.move, options).converged:
        return None
    begin = time.monotonic()
    missed = audit_graphs(scores, options.limits, trace) if scores is not None else _audit_completions(plan, trace)
    audit = Audit("" if missed is None else missed.why, time.monotonic() - begin)
    planted: Callable[..., list[Any]] | None = getattr(sampler, "planted", None)
    if missed is None or planted is None:
        return Finding(audit)
    return Finding(audit, planted(states, missed.rows, missed.chain))


def _audit_completions(plan: RunPlan, trace: Trace) -> Missed | None:
    options, n_words = plan.options, trace["rows"].shape[-1]
    hidden = [name for name, _ in options.hidden]
    data = IncompleteData(plan.table, options.score, options.structure_prior, hidden)
    graphs = trace["rows"][:, -1].reshape(-1, len(options.names), n_words)
    completions = [data.completed(cells.astype(np.int16)) for cells in trace["cells"][:, -1]]
    steps = trace["n_edges"].size * plan.thin
    return audit_completions(completions[:_AUDITED], options.limits, graphs[:_AUDITED], steps)


def _sampler(plan: RunPlan) -> tuple[Sampler[Any], FamilyScores | None]:
    """The sampler of a plan, and the scores of a complete table."""
    options = plan.options
    if plan.table.n_missing:
        hidden = [name for name, _ in options.hidden]
        if isinstance(options.score, (Logistic, FamilyMixture)):
            return logistic_sampler(plan.table, options, plan.move, plan.thin), None
        data = IncompleteData(plan.table, options.score, options.structure_prior, hidden)
        steps = usual_steps(data.n_nodes)
        steps = steps if plan.thin % steps == 0 else plan.thin
        return sampler_with_cells(data, options.limits, plan.move, steps=steps, turns=plan.thin // steps), None
    scores = scores_of(plan)
    return sampler_of(plan.move, scores, options.limits, plan.thin), scores


def _load_diagnostics_meanwhile() -> None:
    """Import arviz-stats, which takes seconds, while compiled loops run without the GIL."""
    threading.Thread(target=import_module, args=("arviz_stats.base",), daemon=True).start()
