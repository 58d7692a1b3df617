r"""The audit of a run that seems to have converged: is there a mode that none of its chains has seen?

Chains that agree prove nothing of a mode that none of them can reach.  So before a run is called *Converged*, a search
with moves that its sampler does not have (`doxa.structure.moves.order_search`), from orders of the chains' own graphs
and from random ones, looks for a graph that scores more than all that was sampled; and for each node a search from
large parent sets downwards looks for a family outside the lists from which the moves draw.  The best graph of a
posterior that is spread over many is seldom in a sample, so a better one alone is no finding: a chain is started there,
and where it comes to graphs that score as the sampled ones do, and the sample has graphs like those, nothing was
missed.

Where cells are missing, graphs are compared on completions: those at which the chains stand.

How long the audit may take is counted in steps, about a twentieth of the run's; a seed of its own makes it the same for
the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.trace import Trace
from doxa.models.bits import unpack_rows
from doxa.structure.families.cache import FamilyScores, local_weights
from doxa.structure.limits import Limits
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.large_families import with_large_family
from doxa.structure.moves.order_search import search_orders
from doxa.structure.moves.parent_sets import parent_sets
from doxa.structure.moves.sampler import StructureSampler

__all__ = ["Missed", "audit_completions", "audit_graphs"]

_SEED = 20262
_SHARE = 20  # of the run's steps, one in so many goes into the audit's chain
_DRAWS, _LEAST_DRAWS = 250, 60  # of that chain; a quarter of them first, which are not looked at
_NATS = 2.0  # by which its mean log score exceeds that of the sample: more is a mode with more probability
_EDGE = 0.5  # by which an edge's frequency differs where the chain is in graphs of another kind
_ALIKE = 0.8  # of those edges, how many a sampled graph has as the chain has them, if it is of that kind
_FAR_BELOW = -7.0  # nats under the sample: a mode with a thousandth of its probability


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
    sampled = unpack_rows(trace["rows"].reshape(-1, *graphs[0].shape), len(graphs[0]))
    return _missed(scores, limits, graphs, log_score, sampled, log_score.size * trace.thin)


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
        sampler = StructureSampler(Auto(), scores, limits, max(100, len(rows) ** 2))
        n_draws = _n_draws(steps // len(graphs), sampler.thin)
        draws = _late(sampler, rows, n_draws)
        best = draws["rows"][draws["log_score"].argmax()]
        sampled = unpack_rows(draws["rows"], len(rows))
        missed = _missed(scores, limits, [best], draws["log_score"], sampled, steps // len(graphs))
        if missed is not None:
            return Missed(f"given the missing cells of one draw, {missed.why}", missed.rows, chain)
    return None


def _missed(
    scores: FamilyScores,
    limits: Limits,
    graphs: Sequence[NDArray[np.uint64]],
    log_score: NDArray[np.float64],
    sampled: NDArray[np.bool_],
    steps: int,
) -> Missed | None:
    """What the audit finds."""
    rng = np.random.default_rng(_SEED)
    table = parent_sets(scores, limits, 1.0)
    known = float(log_score.max())
    best = search_orders(table, rng, graphs, looks=steps)
    candidates = [] if best is None else [best.rows]
    larger = with_large_family(scores, limits, table, graphs[0], rng)
    candidates += [] if larger is None else [larger]
    for rows in candidates:
        gain = float(local_weights(scores, rows[None]).sum()) - known
        if gain <= 1e-6:
            continue
        sampler = StructureSampler(Auto(), scores, limits, max(100, len(rows) ** 2))
        draws = _late(sampler, rows, _n_draws(steps, sampler.thin))
        above = float(draws["log_score"].mean() - log_score.mean())
        there = unpack_rows(draws["rows"], len(rows)).mean(axis=0)
        if above > _NATS or (above > _FAR_BELOW and not _is_known(there, sampled)):
            return Missed(
                f"a search found a graph that scores {gain:.1f} nats more than any sampled one, and a chain from "
                f"there stays {above:+.1f} nats from the others: they have missed a mode",
                rows,
            )
    return None


def _is_known(there: NDArray[np.float64], sampled: NDArray[np.bool_]) -> bool:
    """Whether the sample has graphs of the kind in which a chain is, by the edges that tell the two apart."""
    telling = np.abs(there - sampled.mean(axis=0)) > _EDGE
    if not telling.any():
        return True
    alike = (sampled[:, telling] == (there[telling] > 0.5)).mean(axis=1)
    return bool(alike.max() >= _ALIKE)


def _n_draws(steps: int, thin: int) -> int:
    return int(np.clip(steps // _SHARE // thin, _LEAST_DRAWS, _DRAWS))


def _late(sampler: StructureSampler, rows: NDArray[np.uint64], n_draws: int) -> dict[str, NDArray[Any]]:
    """Draws of a chain from a graph, after a quarter of its way."""
    rng = np.random.default_rng([_SEED, 1])
    _, draws, _ = sampler.run(sampler.start_at(rows), sampler.thin * n_draws, rng)
    return {name: values[n_draws // 4 :] for name, values in draws.items()}
