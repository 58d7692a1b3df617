r"""A run over graphs from a plan: sampled, alone or together with what is missing.

What a structure run watches: is it settled after warm-up, and accurate enough to stop?

Probabilities of edges and adjacencies are watched by their Monte Carlo errors, which grow where chains disagree; the
log score and the number of edges by R-hat and effective draws, since they show a chain in another mode soonest.  What
is accurate enough is decided in `doxa.estimates.accuracy`.

The audit of a run that seems to have converged: is there a mode that none of its chains has seen?

Chains that agree prove nothing of a mode that none of them can reach.  So before a run is called *Converged*, a search
with moves that its sampler does not have (`doxa.structure.moves.order_search`), from orders of the chains' own graphs
and from random ones, looks for a graph that scores more than all that was sampled; of few nodes for the best of all,
and in complete tables for the best with each edge that hardly any sampled graph has.  Where the lists from which the
moves draw could not be made from all families, a search from large parent sets downwards looks, for each node, for one
outside them.  The best graph of a posterior that is spread over many is seldom in a sample, so a better one alone is no
finding: a chain is started there, and where it comes to graphs that score as the sampled ones do, and the sample has
graphs like those, nothing was missed.

Where cells are missing, graphs are compared on completions: those at which the chains stand.

How long the audit may take is counted in steps, about a twentieth of the run's; a seed of its own makes it the same for
the same run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.accuracy import confirmed, indicator_shortfalls, is_settled, real_shortfalls
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.stopping import Audit, Shortfall, Until, worst_shortfall
from doxa.estimates.store.writer import keep_stop
from doxa.estimates.trace import Trace
from doxa.sampling.driver import Finding, check_one_end, run_chains
from doxa.sampling.runner import Sampler
from doxa.structure.cases.incomplete.by_kind import sampler_with_cells
from doxa.structure.families.cache import FamilyScores, local_weights
from doxa.structure.limits import Limits
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.best_graph import (
    best_graph,
    best_of_all,
    best_scores_with_edges,
    heaviest_within,
    takes_all_orders,
)
from doxa.structure.moves.by_name import sampler_of
from doxa.structure.moves.listing import lists_are_complete, parent_sets
from doxa.structure.moves.order_search import with_large_family
from doxa.structure.moves.parent_sets import ParentSets
from doxa.structure.moves.sampler import StructureSampler, planted_in_half, steps_to_mix
from doxa.structure.posterior.relations import bit_totals
from doxa.structure.posterior.structure_posterior import StructurePosterior
from doxa.structure.runs.files import go_on
from doxa.structure.runs.plan import RunPlan, scores_of

if TYPE_CHECKING:
    from doxa.estimates.store import RunWriter

__all__ = [
    "Missed",
    "audit_completions",
    "audit_graphs",
    "check_quantities",
    "has_settled",
    "missing",
    "resume_run",
    "run_plan",
]

_SEED = 20262
_SHARE = 20  # of the run's steps, one in so many goes into the audit's chain
_DRAWS, _LEAST_DRAWS = 250, 60  # of that chain; a quarter of them first, which are not looked at
_NATS = 2.0  # by which its mean log score exceeds that of the sample: more is a mode with more probability
_EDGE = 0.5  # by which an edge's frequency differs where the chain is in graphs of another kind
_ALIKE = 0.8  # of those edges, how many a sampled graph has as the chain has them, if it is of that kind
_FAR_BELOW = -7.0  # nats under the sample: a mode with a thousandth of its probability
_HARDLY, _MOST_UNSEEN = 1e-3, 3  # frequency of an edge that may be of such a mode, and graphs with one that are tried


class Missed(NamedTuple):
    """A graph from which a chain comes to what the others have not seen."""

    why: str  # in words
    rows: NDArray[np.uint64]  # adjacency rows, (n_nodes, n_words)
    chain: int = 0  # on the completion of this chain


def audit_graphs(scores: FamilyScores, limits: Limits, trace: Trace) -> Missed | None:
    """Audit a run over graphs of a complete table.

    Parameters
    ----------
    scores : FamilyScores
    limits : Limits
    trace : Trace
        With ``rows`` and ``log_score``.
    """
    log_score = trace["log_score"]
    best = log_score.argmax(axis=1)
    graphs = [trace["rows"][chain, draw] for chain, draw in enumerate(best)]
    sampled = trace["rows"].reshape(-1, *graphs[0].shape)
    return _missed(scores, limits, graphs, log_score, sampled, log_score.size * trace.thin, complete=True)


def audit_completions(
    completions: Sequence[FamilyScores], limits: Limits, graphs: NDArray[np.uint64], steps: int
) -> Missed | None:
    """Audit a run over graphs and missing cells, on the completions at which its chains stand.

    Parameters
    ----------
    completions : sequence of FamilyScores
        The scores of each chain's completion.
    limits : Limits
    graphs : ndarray of uint64, shape (n_chains, n_nodes, n_words)
        Each chain's graph.
    steps : int
        Structure steps of the run.
    """
    for chain, (scores, rows) in enumerate(zip(completions, graphs, strict=True)):
        sampler = _looking(scores, limits)
        n_draws = _n_draws(steps // len(graphs), sampler.thin)
        draws = _late(sampler, rows, n_draws)
        best = draws["rows"][draws["log_score"].argmax()]
        missed = _missed(
            scores, limits, [best], draws["log_score"], draws["rows"], steps // len(graphs), complete=False
        )
        if missed is not None:
            return Missed(f"given the missing cells of one draw, {missed.why}", missed.rows, chain)
    return None


def _missed(
    scores: FamilyScores,
    limits: Limits,
    graphs: Sequence[NDArray[np.uint64]],
    log_score: NDArray[np.float64],
    sampled: NDArray[np.uint64],
    steps: int,
    complete: bool,
) -> Missed | None:
    """What the audit finds; modes that score less than what is known are looked for in complete tables."""
    rng = np.random.default_rng(_SEED)
    table = parent_sets(scores, limits, 1.0)
    known = float(log_score.max())
    best = best_graph(table, rng, graphs, looks=steps)
    candidates = [] if best is None else [best.rows]
    if not lists_are_complete(scores, limits):
        larger = with_large_family(scores, limits, table, graphs[0], rng)
        candidates += [] if larger is None else [larger]
    found = [
        (rows, f"a search found a graph that scores {gain:.1f} nats more than any sampled one")
        for rows, gain in zip(candidates, _gains(scores, candidates, known), strict=True)
        if gain > 1e-6
    ]
    if complete:
        unlike = _with_unseen_edges(table, known, sampled)
        found += [(rows, "a search found a good graph that is unlike all sampled ones") for rows in unlike]
    for rows, what in found:
        sampler = _looking(scores, limits)
        draws = _late(sampler, rows, _n_draws(steps, sampler.thin))
        above = float(draws["log_score"].mean() - log_score.mean())
        there = _frequencies(draws["rows"])
        if above > _NATS or (above > _FAR_BELOW and not _is_known(there, sampled, _frequencies(sampled))):
            return Missed(
                f"{what}, and a chain from there stays {above:+.1f} nats from the others: they have missed a mode", rows
            )
    return None


def _gains(scores: FamilyScores, graphs: Sequence[NDArray[np.uint64]], known: float) -> NDArray[np.float64]:
    """Nats that graphs score more."""
    return local_weights(scores, np.array(graphs)).sum(axis=1) - known if len(graphs) else np.zeros(0)


def _with_unseen_edges(table: ParentSets, known: float, sampled: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    """Of few nodes: for edges that are hardly in the sample, the best graph that has it, if it is no rarity.

    At most three, that no sampled graph is like, the best first.
    """
    if not takes_all_orders(len(table.first) - 1):
        return []
    heaviest, frequencies = heaviest_within(table), _frequencies(sampled)
    gains = best_scores_with_edges(table, heaviest) - known
    gains[frequencies > _HARDLY] = -np.inf
    looked_at: list[NDArray[np.uint64]] = []
    found: list[NDArray[np.uint64]] = []
    for at in np.argsort(-gains, axis=None, kind="stable").tolist():
        i, j = divmod(at, len(gains))
        if gains[i, j] < _FAR_BELOW or len(found) == _MOST_UNSEEN:
            break
        if any(rows[i, 0] >> np.uint64(j) & np.uint64(1) for rows in looked_at):
            continue  # the same graph, or one as good
        one = best_of_all(table, (i, j), heaviest)
        if one is None:
            continue
        looked_at.append(one.rows)
        if not _is_known(_frequencies(one.rows[None]), sampled, frequencies):
            found.append(one.rows)
    return found


def _looking(scores: FamilyScores, limits: Limits) -> StructureSampler:
    """The sampler of an audit's own chains."""
    return StructureSampler(Auto(), scores, limits, steps_to_mix(scores.n_nodes))


def _frequencies(rows: NDArray[np.uint64]) -> NDArray[np.float64]:
    """How often each edge is in graphs (n_graphs, n_nodes, n_words)."""
    return bit_totals(rows, np.ones(len(rows), dtype=np.int64)) / len(rows)


def _is_known(there: NDArray[np.float64], sampled: NDArray[np.uint64], frequencies: NDArray[np.float64]) -> bool:
    """Whether the sample, with these frequencies of edges, has graphs of the kind in which a chain is, by the edges
    that tell the two apart.
    """
    i, j = np.nonzero(np.abs(there - frequencies) > _EDGE)
    if not len(i):
        return True
    telling = (sampled[:, i, j >> 6] >> (j & 63).astype(np.uint64)) & np.uint64(1)
    alike = (telling.astype(np.bool_) == (there[i, j] > 0.5)).mean(axis=1)
    return bool(alike.max() >= _ALIKE)


def _n_draws(steps: int, thin: int) -> int:
    return int(np.clip(steps // _SHARE // thin, _LEAST_DRAWS, _DRAWS))


def _late(sampler: StructureSampler, rows: NDArray[np.uint64], n_draws: int) -> dict[str, NDArray[Any]]:
    """Draws of a chain from a graph, after a quarter of its way."""
    rng = np.random.default_rng([_SEED, 1])
    _, draws, _ = sampler.run(sampler.start_at(rows), sampler.thin * n_draws, rng)
    return {name: values[n_draws // 4 :] for name, values in draws.items()}


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
    return all(is_settled(diagnose_real(trace[name].astype(np.float64)).r_hat) for name in _RUN_WIDE)


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
    if plan.begin_at is not None:
        sampler = _BegunAt(sampler, plan.begin_at)
    names = plan.table.names
    check_quantities(plan.until, names)

    def assess(trace: Trace) -> Shortfall | None:
        return missing(StructurePosterior(names, trace, plan.move, plan.options), plan.until)

    def audit(trace: Trace, states: list[Any]) -> Finding | None:
        return _audit(plan, scores, sampler, trace, states)

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
    if options.limits.one_graph:
        return None
    is_counted = options.score.is_counted and plan.table.interventions is None
    if not is_counted and not (scores is not None and plan.move.uses_table):
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
    data = options.incomplete(plan.table)
    graphs = trace["rows"][:, -1].reshape(-1, len(options.names), n_words)
    completions = [data.completed(cells) for cells in trace["cells"][:, -1]]
    steps = trace["n_edges"].size * plan.thin
    return audit_completions(completions[:_AUDITED], options.limits, graphs[:_AUDITED], steps)


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
