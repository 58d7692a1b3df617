r"""The audit of a run that seems to have converged: is there a mode that none of its chains has seen?

Chains that agree prove nothing of a mode that none of them can reach.  So before a run is called *Converged*, a search
with moves that its sampler does not have (`doxa.structure.moves.order_search`), from orders of the chains' own graphs
and from random ones, looks for a graph that scores more than all that was sampled; of few nodes for the best of all.
Where the lists from which the moves draw could not be made from all families, a search from large parent sets
downwards looks, for each node, for one outside them.  The best graph of a posterior that is spread over many is seldom
in a sample, so a better one alone is no finding: a chain is started there, and where it comes to graphs that score as
the sampled ones do, and the sample has graphs like those, nothing was missed.

A mode of one graph in a hundred scores less than the best.  In a complete table of few nodes the best graph with each
edge is known; of more nodes, graphs are met at which insertions in an order end.  So it is seen which edges the
sample has much too rarely for what the best graph with them scores.  A chain that has to keep such an edge cannot leave
its mode; by its draws and those of the sample, all graphs with the edge and all graphs are summed
(`doxa.structure.exact.order_sums`), and the ratio of the sums is the probability that the edge should have.

Where cells are missing, graphs are compared on completions: those at which the chains stand.

How long the audit may take is counted in steps, about a twentieth of the run's; a seed of its own makes it the same for
the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.estimates.accuracy import cautious_error
from doxa.estimates.estimate import Estimate
from doxa.estimates.indicators import diagnose_words
from doxa.estimates.stopping import Audit
from doxa.estimates.trace import Trace
from doxa.models.bits import unpack_rows
from doxa.sampling.driver import Finding
from doxa.sampling.runner import Sampler
from doxa.structure.families.cache import FamilyScores, local_weights
from doxa.structure.families.score_table import ScoreTable
from doxa.structure.limits import Limits
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.best_graph import (
    best_graph,
    best_of_all,
    best_scores_with_edges,
    heaviest_within,
    takes_all_orders,
)
from doxa.structure.moves.listing import lists_are_complete, parent_sets, score_table
from doxa.structure.moves.order_search import nearby_optima, with_large_family
from doxa.structure.moves.parent_sets import ParentSets
from doxa.structure.moves.sampler import StructureSampler, steps_to_mix
from doxa.structure.posterior.relations import bit_totals
from doxa.structure.posterior.structure_posterior import StructurePosterior
from doxa.structure.runs.plan import RunPlan

__all__ = ["Missed", "audit_completions", "audit_graphs", "audit_run"]

_SEED = 20262
_AUDITED = 2  # chains whose completions are audited: each needs lists of its own
_SHARE = 20  # of the run's steps, one in so many goes into the audit's chain
_DRAWS, _LEAST_DRAWS = 250, 60  # of that chain; a quarter of them first, which are not looked at
_NATS = 2.0  # by which its mean log score exceeds that of the sample: more is a mode with more probability
_EDGE = 0.5  # by which an edge's frequency differs where the chain is in graphs of another kind
_ALIKE = 0.8  # of those edges, how many a sampled graph has as the chain has them, if it is of that kind
_FAR_BELOW = -7.0  # nats under the sample: a mode with a thousandth of its probability
_RARE = 0.005  # frequency of an edge that may be of a mode that was missed
_OFF, _ERRORS = 0.005, 3.0  # by how much, and by how many Monte Carlo errors, it is then too low
_MOST_EDGES = 3  # for which sums are made
_SURE = 2.0  # standard errors of a sum that are allowed for


class Missed(NamedTuple):
    """A graph from which a chain comes to what the others have not seen."""

    why: str  # in words
    rows: NDArray[np.uint64]  # adjacency rows, (n_nodes, n_words)
    chain: int = 0  # on the completion of this chain


def audit_run(
    plan: RunPlan,
    scores: FamilyScores | None,
    sampler: Sampler[Any],
    posterior: StructurePosterior,
    states: list[Any],
) -> Finding | None:
    """Modes that the chains have missed; None where the chains disagree, or a search would cost more than the run.

    Parameters
    ----------
    plan : RunPlan
    scores : FamilyScores or None
        Of a complete table.
    sampler : Sampler
    posterior : StructurePosterior
        Of all draws.
    states : list
        Where the chains stand: those that go on from what was found are planted among them.
    """
    options, trace = plan.options, posterior.trace
    if options.limits.one_graph:
        return None
    is_counted = options.score.is_counted and plan.table.interventions is None
    if not is_counted and not (scores is not None and plan.move.uses_table):
        return None
    if not posterior.converged:
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
    sampled, steps = trace["rows"].reshape(-1, *graphs[0].shape), log_score.size * trace.thin
    missed = _missed(scores, limits, graphs, log_score, sampled, steps)
    return _missed_with_edge(scores, limits, trace, steps) if missed is None else missed


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
        missed = _missed(scores, limits, [best], draws["log_score"], draws["rows"], steps // len(graphs))
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
) -> Missed | None:
    """A mode from which a chain does not come to what is known."""
    rng = np.random.default_rng(_SEED)
    table = parent_sets(scores, limits, 1.0)
    known = float(log_score.max())
    best = best_graph(table, rng, graphs, looks=steps)
    candidates = [] if best is None else [best.rows]
    if not lists_are_complete(scores, limits):
        larger = with_large_family(scores, limits, table, graphs[0], rng)
        candidates += [] if larger is None else [larger]
    for rows, gain in zip(candidates, _gains(scores, candidates, known), strict=True):
        if gain <= 1e-6:
            continue
        sampler = _looking(scores, limits)
        draws = _late(sampler, rows, _n_draws(steps, sampler.thin))
        above = float(draws["log_score"].mean() - log_score.mean())
        there = _frequencies(draws["rows"])
        if above > _NATS or (above > _FAR_BELOW and not _is_known(there, sampled, _frequencies(sampled))):
            return Missed(
                f"a search found a graph that scores {gain:.1f} nats more than any sampled one, and a chain from there "
                f"stays {above:+.1f} nats from the others: they have missed a mode",
                rows,
            )
    return None


def _gains(scores: FamilyScores, graphs: Sequence[NDArray[np.uint64]], known: float) -> NDArray[np.float64]:
    """Nats that graphs score more."""
    return local_weights(scores, np.array(graphs)).sum(axis=1) - known if len(graphs) else np.zeros(0)


def _missed_with_edge(scores: FamilyScores, limits: Limits, trace: Trace, steps: int) -> Missed | None:
    """A mode of graphs with an edge that is much rarer in the sample than it should be."""
    from doxa.structure.exact.order_sums import log_sum_by_bridge  # compiled where there is such an edge

    rng, names = np.random.default_rng(_SEED), scores.table.names
    table, sampled = parent_sets(scores, limits, 1.0), trace["rows"]
    edges = diagnose_words(sampled, scores.n_nodes)
    share, least = edges.probability, edges.probability + np.maximum(_OFF, _ERRORS * cautious_error(edges))
    whole: Estimate | None = None
    best = [trace["rows"][chain, draw] for chain, draw in enumerate(trace["log_score"].argmax(axis=1))]
    known = float(trace["log_score"].max())
    if takes_all_orders(scores.n_nodes):
        with_edges = _of_all_orders(table, known)
    else:
        with_edges = _of_nearby_orders(table, known, best, rng, steps)
    for (i, j), rows in _too_rare(with_edges, share, least):
        kept = _keeping(scores, limits, i, j)
        sampler = _looking(scores, kept)
        draws = _late(sampler, rows, _n_draws(steps, sampler.thin))["rows"]
        try:
            whole = log_sum_by_bridge(sampled, table, rng) if whole is None else whole
            part = log_sum_by_bridge(draws[None], parent_sets(scores, kept, 1.0), rng)
        except ArgumentError:  # so many graphs that those of one half's orders are none of the other's
            continue
        log_share = part.value - whole.value - _SURE * np.hypot(part.mcse, whole.mcse)
        if np.exp(log_share) > least[i, j]:
            return Missed(
                f"{names[i]} -> {names[j]} has a probability of about {np.exp(part.value - whole.value):.2g} by a sum "
                f"over graphs and is in {share[i, j]:.2g} of the sampled ones: they have missed a mode",
                rows,
            )
    return None


class _WithEdges(NamedTuple):
    """For every edge the best graph that has it."""

    log_ratio: NDArray[np.float64]  # (n_nodes, n_nodes): nats from the best sampled graph; minus infinity for none
    graph: Callable[[int, int], NDArray[np.uint64] | None]


def _of_all_orders(table: ParentSets, known: float) -> _WithEdges:
    """Of few nodes: the best of all."""
    heaviest = heaviest_within(table)

    def graph(i: int, j: int) -> NDArray[np.uint64] | None:
        one = best_of_all(table, (i, j), heaviest)
        return None if one is None else one.rows

    return _WithEdges(best_scores_with_edges(table, heaviest) - known, graph)


def _of_nearby_orders(
    table: ParentSets, known: float, graphs: Sequence[NDArray[np.uint64]], rng: np.random.Generator, looks: int
) -> _WithEdges:
    """Of more nodes: the best that are met from the sample's best graphs."""
    n = len(table.first) - 1
    log_ratio, which = np.full((n, n), -np.inf), np.zeros((n, n), dtype=np.int64)
    met = nearby_optima(table, rng, graphs, looks=looks)
    for k, one in enumerate(met):
        better = unpack_rows(one.rows, n) & (one.log_score - known > log_ratio)
        log_ratio[better], which[better] = one.log_score - known, k
    return _WithEdges(log_ratio, lambda i, j: met[which[i, j]].rows)


def _too_rare(
    with_edges: _WithEdges, share: NDArray[np.float64], least: NDArray[np.float64]
) -> Iterator[tuple[tuple[int, int], NDArray[np.uint64]]]:
    """Edges in few sampled graphs, though the best graph with one scores as if at the ``least`` share should have it;
    and that graph.  At most three, those that are most out of proportion first, no two in the same graph.
    """
    expected = np.exp(np.minimum(with_edges.log_ratio, 0.0))
    expected[share > _RARE] = 0.0
    found: list[NDArray[np.uint64]] = []
    for at in np.argsort(-expected / least, axis=None, kind="stable").tolist():
        i, j = divmod(at, len(share))
        if expected[i, j] < least[i, j] or len(found) == _MOST_EDGES:
            return
        if any(rows[i, j >> 6] >> np.uint64(j & 63) & np.uint64(1) for rows in found):
            continue
        rows = with_edges.graph(i, j)
        if rows is not None:
            found.append(rows)
            yield (i, j), rows


def _keeping(scores: FamilyScores, limits: Limits, i: int, j: int) -> Limits:
    """Limits that require an edge i -> j as well; lists within them are made from those that there are."""
    required = limits.required.copy()
    required[j, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    kept = limits._replace(required=required)

    def filtered() -> ScoreTable:
        table = score_table(scores, limits)
        node = np.repeat(np.arange(scores.n_nodes), np.diff(table.first))
        stay = (node != j) | (table.sets[:, i >> 6] >> np.uint64(i & 63) & np.uint64(1) == 1)
        first = np.concatenate([[0], np.cumsum(np.bincount(node[stay], minlength=scores.n_nodes))])
        return table._replace(first=first, sets=table.sets[stay], log_weight=table.log_weight[stay])

    scores.remember("score table", kept, filtered)
    return kept


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
