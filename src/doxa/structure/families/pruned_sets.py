"""A node's parent sets while a score table is made: heaviest first, without those that a subset beats by far.

`list_sets` goes through the sizes and needs of each set only the heaviest of its subsets with one parent less;
`add_grown` adds good sets of other nodes than the candidates, and `more_sets` and `add_sets` let a list grow where its
largest sets are among its best.  Why sets may be left out is in `doxa.structure.families.score_table`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Ints, Words
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.families.family_weights import FamilyWeights, NodeFamilies
from doxa.structure.families.set_numbers import set_numbers

__all__ = [
    "PrunedSets",
    "add_grown",
    "add_sets",
    "growing_sets",
    "list_sets",
    "may_grow",
    "more_sets",
    "with_most_gain",
]


class PrunedSets(NamedTuple):
    """A node's sets while they are gathered, heaviest first."""

    sets: NDArray[np.uint64]
    log_weight: NDArray[np.float64]
    n_free: NDArray[np.int64]  # parents besides the required
    gain: NDArray[np.float64]  # nats above the heaviest proper subset
    replaced: NDArray[np.float64]  # what the sets left out for this one have as probability, relative to it at most
    n_computed: int
    largest: int  # free parents of the largest set computed

    def taken(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> PrunedSets:
        """Some of the sets, in this order."""
        return self._replace(**{name: getattr(self, name)[which] for name in self._fields[:5]})


class _Level(NamedTuple):
    """All sets of one size over some nodes, in colexicographic order."""

    place: NDArray[np.int64]  # (n_nodes,): of a node among these nodes, or -1
    best: NDArray[np.float64]  # (n_sets,): weight of the heaviest subset, the set itself included
    which: NDArray[np.int64]  # (n_sets,): its number among all sets of the node


def list_sets(weights: FamilyWeights, node: NodeFamilies, complete: int, keep_within: float) -> PrunedSets:
    """All sets of a node up to its listed size, less those that a subset beats by ``keep_within`` nats.

    Sets of more than ``complete`` free parents are made from the node's candidates.  All must have been counted.
    """
    level: _Level | None = None
    sets, logs, sizes, gains, kept, left_out, gaps = [], [], [], [], [], [], []
    n_computed, n_legal, largest = 0, 0, 0
    for size in range(node.n_listed + 1):
        pool = node.free if size <= complete else node.candidates
        free = weights.sets_over(pool, size)
        legal = node.legal(free, weights.log_states)
        weight = np.full(len(free), -np.inf)  # those of too many configurations are numbered, and not listed
        weight[legal] = weights.weigh(node, free[legal])
        above, which = _heaviest_proper_subset(free, level, weights.counts.binom)
        keep = legal & _is_kept(weight, above, keep_within)
        own = np.arange(n_computed, n_computed + len(free))
        place = np.full(weights.scores.n_nodes, -1, dtype=np.int64)
        place[pool] = np.arange(len(pool))
        level = _Level(place, np.maximum(weight, above), np.where(weight > above, own, which))
        sets.append(weights.words(node, free[keep]))
        logs.append(weight[keep])
        sizes.append(np.full(int(keep.sum()), size, dtype=np.int64))
        gains.append(weight[keep] - above[keep])
        kept.append(own[keep])
        pruned = legal & ~keep
        left_out.append(which[pruned])
        gaps.append(weight[pruned] - above[pruned])
        n_computed += len(free)
        n_legal += int(legal.sum())
        largest = size if len(free) else largest
    replaced = np.bincount(np.concatenate(left_out), np.exp(np.concatenate(gaps)), minlength=n_computed)
    found = PrunedSets(
        np.concatenate(sets),
        np.concatenate(logs),
        np.concatenate(sizes),
        np.concatenate(gains),
        replaced[np.concatenate(kept)].astype(np.float64),
        n_legal,
        largest,
    )
    return _heaviest_first(found)


def growing_sets(found: PrunedSets, extend_within: float) -> NDArray[np.int64]:
    """Numbers of the largest sets computed that may be worth another parent, heaviest first.

    Those within ``extend_within`` nats of the best, and those that beat all their subsets: where a node may not have
    its best parents, for a cycle that they would close, such a set is what it has, however far below the best.
    """
    worth_it = (found.gain > 0.0) | (found.log_weight >= found.log_weight[0] - extend_within)
    return np.flatnonzero(worth_it & (found.n_free == found.largest))


def more_sets(
    weights: FamilyWeights, node: NodeFamilies, found: PrunedSets, bases: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Sets to add, as free parents: one more than the largest sets computed, of which ``bases`` are taken."""
    size = found.largest
    if not may_grow(weights, node, found) or not bases.size:
        return np.empty((0, size + 1), dtype=np.int64)
    present = unpack_rows(found.sets[bases], weights.scores.n_nodes)
    present[:, node.required] = False
    which, added = np.nonzero(~present[:, node.candidates])
    members = present[which]
    members[np.arange(len(which)), node.candidates[added]] = True
    words = pack_rows(members)
    words = words[np.lexsort(words.T)]
    new = np.append(True, (words[1:] != words[:-1]).any(axis=1))[: len(words)]
    free = np.nonzero(unpack_rows(words[new], weights.scores.n_nodes))[1].reshape(-1, size + 1)
    return free[node.legal(free, weights.log_states)]


def may_grow(weights: FamilyWeights, node: NodeFamilies, found: PrunedSets) -> bool:
    """Whether sets of one parent more are within the limits, and can be counted."""
    return found.largest < min(node.most_free, max(weights.most_columns - 1 - len(node.required), 2))


def add_sets(
    weights: FamilyWeights, node: NodeFamilies, found: PrunedSets, free: NDArray[np.int64], keep_within: float
) -> PrunedSets:
    """The list with those of the new sets ``free``, counted before, that no listed subset beats by far."""
    weight, words = weights.weigh(node, free), weights.words(node, free)
    which = np.empty(len(free), dtype=np.int64)
    _first_subset(words, found.sets, which)  # the lists fall: the first is the heaviest
    above = found.log_weight[which]
    keep = _is_kept(weight, above, keep_within)
    more = np.bincount(which[~keep], np.exp(weight[~keep] - above[~keep]), minlength=len(found.replaced))
    replaced = found.replaced + more.astype(np.float64)
    n_kept = int(keep.sum())
    return _heaviest_first(
        PrunedSets(
            np.concatenate([found.sets, words[keep]]),
            np.concatenate([found.log_weight, weight[keep]]),
            np.concatenate([found.n_free, np.full(n_kept, free.shape[1], dtype=np.int64)]),
            np.concatenate([found.gain, weight[keep] - above[keep]]),
            np.concatenate([replaced, np.zeros(n_kept)]),
            found.n_computed + len(free),
            max(found.largest, free.shape[1]),
        )
    )


def add_grown(weights: FamilyWeights, node: NodeFamilies, found: PrunedSets, keep_within: float) -> PrunedSets:
    """The list of `list_sets` with the node's grown sets, smaller ones first, that are not of candidates alone."""
    for free in node.grown:
        new = free[~np.isin(free, node.candidates).all(axis=1)]
        if len(new):
            found = add_sets(weights, node, found, new, keep_within)
    return found


def with_most_gain(found: PrunedSets, most: int, size: int) -> PrunedSets:
    """The list with all its sets of up to ``size`` free parents, and of the larger ones the most that gain most.

    What a node may have where its descendants are its best parents weighs hundreds of nats less than these, so weights
    do not tell which sets are worth their place.
    """
    large = np.flatnonzero(found.n_free > size)
    keep = np.ones(len(found.sets), dtype=np.bool_)
    keep[large[np.argsort(-found.gain[large], kind="stable")[most:]]] = False
    return found.taken(keep)


def _heaviest_proper_subset(
    free: NDArray[np.int64], level: _Level | None, binom: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Weight and number of each set's heaviest proper subset, by way of the sets with one parent less."""
    above, which = np.full(len(free), -np.inf), np.full(len(free), -1, dtype=np.int64)
    if level is not None:
        members = level.place[free.T]
        number = set_numbers(members[1:].T, binom)  # of the set without its first member
        for dropped, member in enumerate(members):
            if dropped:
                number += binom[members[dropped - 1], dropped] - binom[member, dropped]
            best = level.best[number]
            heavier = best > above
            np.copyto(above, best, where=heavier)
            np.copyto(which, level.which[number], where=heavier)
    return above, which


def _is_kept(weight: NDArray[np.float64], above: NDArray[np.float64], keep_within: float) -> NDArray[np.bool_]:
    return weight > above - keep_within if math.isfinite(keep_within) else np.ones(len(weight), dtype=np.bool_)


def _heaviest_first(found: PrunedSets) -> PrunedSets:
    return found.taken(np.argsort(-found.log_weight, kind="stable"))


@hot
def _first_subset(words: Words, sets: Words, which: Ints) -> None:
    """For each bit set of ``words`` the first of ``sets`` that it contains."""
    for row in range(words.shape[0]):
        for k in range(sets.shape[0]):
            inside = True
            for w in range(words.shape[1]):
                if sets[k, w] & ~words[row, w]:
                    inside = False
                    break
            if inside:
                which[row] = k
                break
