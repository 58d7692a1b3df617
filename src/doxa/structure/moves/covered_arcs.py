r"""Reverse covered arcs at random: wander within an equivalence class (Kočka & Castelo 2001).

An arc i -> j is covered when pa(j) = pa(i) + {i}.  Reversing it gives a Markov equivalent graph, so it costs little
posterior, and it frees the neighbouring edges to move.  The chapter calls this ``rcar(10)`` (Algorithm 1, line 4):
choose one of the n(G) covered arcs uniformly, reverse it, and so on.

As usually printed that is not invariant, because n(G) varies within a class (total variation distance 0.06 to 0.16
after one reversal, on the three- and four-node tables of the tests).  Here each reversal is accepted with probability

.. math:: \min\{1, \frac{P(G' \mid D)\, n(G)}{P(G \mid D)\, n(G')}\},

with the posterior ratio in it, since not every score or prior is constant on a class.  Without covered arcs the
graph stays.  ``published=True`` accepts every reversal.  Arcs whose reversal would give a node too many parents are
not counted: the arc turned round would not be either, so the count is the same rule on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, lowest_bit
from doxa.arrays import Words
from doxa.structure.graph import REVERSE, count_bits, has_bit, is_covered, reverse_covered, toggle_bit, working_graph
from doxa.structure.limits import Limits, may_add
from doxa.structure.moves.changes import edge_number, score_change
from doxa.structure.moves.sampler import Work

if TYPE_CHECKING:
    from doxa.testing import Proposal

__all__ = ["covered_arc_proposals", "reverse_covered_arcs"]


def covered_arc_proposals(rows: NDArray[np.uint64], limits: Limits) -> Iterator[Proposal[NDArray[np.uint64]]]:
    """Every graph that one covered-arc reversal can propose, with its probability and log Hastings term."""
    from doxa.testing import Proposal  # checks alone list what a step can propose

    graph = working_graph(rows)
    covered = np.zeros_like(graph[0])
    n_covered = _find_covered(graph[0], covered, limits)
    for rank in range(n_covered):
        j, i = edge_number(covered, rank)
        after, covered_after = working_graph(rows), covered.copy()
        reverse_covered(after, i, j)
        n_after = n_covered + _refresh_covered(after[0], after[1], covered_after, limits, i, j)
        yield Proposal(after[1], 1.0 / n_covered, float(np.log(n_covered) - np.log(n_after)))


@hot
def _is_turnable(parents: Words, limits: Limits, i: int, j: int) -> bool:
    """Whether the arc i -> j has pa(j) = pa(i) + {i} and may be turned round."""
    if has_bit(limits.required, j, i):
        return False
    return is_covered(parents, i, j) and bool(may_add(limits, parents, i, j))


@hot
def _find_covered_into(parents: Words, covered: Words, limits: Limits, j: int) -> int:
    """Fill row j of ``covered`` with the tails of the covered arcs into j; return how many more there are now."""
    change = -count_bits(covered, j)
    for w in range(parents.shape[1]):
        covered[j, w] = np.uint64(0)
        word = parents[j, w]
        while word != np.uint64(0):
            i = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if _is_turnable(parents, limits, i, j):
                toggle_bit(covered, j, i)
                change += 1
    return change


@hot
def _find_covered(parents: Words, covered: Words, limits: Limits) -> int:
    """Fill ``covered`` (bit i of row j: i -> j is covered) and return the number of covered arcs."""
    total = 0
    for j in range(parents.shape[0]):
        for w in range(parents.shape[1]):
            covered[j, w] = np.uint64(0)
        total += _find_covered_into(parents, covered, limits, j)
    return total


@hot
def _refresh_covered(parents: Words, children: Words, covered: Words, limits: Limits, i: int, j: int) -> int:
    """Mend ``covered`` after the arc between i and j was turned; return the change of its count.

    Only arcs into i or j and arcs out of i or j can have become, or ceased to be, covered.
    """
    change = _find_covered_into(parents, covered, limits, i) + _find_covered_into(parents, covered, limits, j)
    for w in range(parents.shape[1]):
        word = children[i, w] | children[j, w]
        while word != np.uint64(0):
            child = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if child in (i, j):
                continue
            for tail in (i, j):
                was = has_bit(covered, child, tail)
                now = has_bit(parents, child, tail) and _is_turnable(parents, limits, tail, child)
                if was != now:
                    toggle_bit(covered, child, tail)
                    change += 1 if now else -1
    return change


@hot
def reverse_covered_arcs(work: Work, repeats: int, published: bool, rng: np.random.Generator) -> None:
    """Try ``repeats`` covered-arc reversals in turn, in place."""
    graph, local, beta, limits = work.graph, work.local, work.beta, work.limits
    cache, scoring, proposed, covered = work.cache, work.scoring, work.proposed, work.spare[0]
    if repeats == 0:
        return
    parents, children = graph[0], graph[1]
    n_covered = _find_covered(parents, covered, limits)
    for _ in range(repeats):
        if n_covered == 0:
            return
        j, i = edge_number(covered, int(rng.random() * n_covered))
        delta = score_change(graph, local, REVERSE, j, i, cache, scoring, proposed)
        reverse_covered(graph, i, j)
        n_covered_after = n_covered + _refresh_covered(parents, children, covered, limits, i, j)
        ratio = np.exp(beta * delta) * n_covered / n_covered_after
        if published or 1.0 - rng.random() < ratio:  # 1 - u is in (0, 1]
            local[i] = proposed[0]
            local[j] = proposed[1]
            n_covered = n_covered_after
        else:
            reverse_covered(graph, j, i)
            _refresh_covered(parents, children, covered, limits, i, j)
