r"""`joint_parents_step`: redraw the parents of four or six nodes together, from the sum over all their parents' sets.

Columns that measure nearly the same thing hang together in rings: to turn one arc, the others must turn too, and what
lies between scores tens of nats less, too much for moves of one or two nodes and for all but hot chains.  A step that
redraws all of them at once goes through (Goudie & Mukherjee 2016).

Take the parents of the nodes S away.  For s in S let :math:`R_s` be s and its descendants in what is left.  A parent
set P of s that avoids :math:`R_s` has for *type* those other members t of S with P reaching into :math:`R_t`.  The
whole is without cycles exactly if the types, read as parents within S, are a graph H without cycles.  So the sum over
the joint parent sets of S is :math:`\sum_H \prod_{s \in S} W_s(pa_H(s))`, with :math:`W_s(T)` the sum of the weights
of the sets of type T.  There are 3.8 million graphs on six nodes; orders of them are
few.  With :math:`W_s(\subseteq U)` the sum over the types within U, and U the nodes that have been placed,

.. math:: B(U) = \sum_{s \notin U} W_s(\subseteq U) \, B(U \cup \{s\}), \qquad B(S) = 1,

is a sum over all graphs on the rest, each counted once for each of its orders (Koivisto & Sood 2004).  By these sums an
order is drawn, node by node, and then for each node a set of nodes before it.  So a graph H is drawn by its weight
times L(H), the number of its orders, and accepted in the place of H' with probability :math:`\min\{1, L(H') / L(H)\}`.
What is costly are the sums, so a step draws four times.

Which nodes are taken together depends on the lists and on chance, never on the graph: a node, and others that matter
to it or to each other.  Of these, nodes whose families are not listed are left alone, and so before as after the step.

The sets of a node are those of its list, the first 512 of it at least.  Lists of numbers have thousands, and where a
node's descendants are its best parents what it may have stands far behind.  So a longer list is looked at until what
follows is less than a thousandth of :math:`W_s(\emptyset)`, and for sets whose types have t until it is that of
:math:`W_s(\subseteq \{t\})`.  What is looked at is the same before as after the step, and as in
`doxa.structure.moves.gibbs` a draw from a part of the sets is exact whatever the part; from a family that is not in it
a step changes nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._jit import hot, inlined, lowest_bit, popcount
from doxa.arrays import Floats, Ints, Words
from doxa.structure.families.cache import CacheArrays, Scoring, family_log_score
from doxa.structure.graph import WorkingGraph, replace_parents

if TYPE_CHECKING:
    from doxa.structure.moves.parent_sets import ParentSets

__all__ = ["JointWork", "joint_parents_step", "joint_work", "near_nodes", "with_own_work_space"]

_NODES, _USUAL = 6, 4  # together; a step of four takes a quarter of the time
_SIX = 0.25  # share of the steps that take six: some modes lie five families apart
_NEAR = 6  # nodes that may join a node
_BLOCKS = 8  # of 64 sets each: so much of a node's list is looked at in any case
_REST = 1e-3  # of the sets of no type: what is left of a longer list
_UP, _DOWN = math.exp(64.0), math.exp(-64.0)  # a level: that of the lists of parent sets
_ROUNDING = 1e-17  # the same of the first blocks: what is smaller changes no sum
_TRIES = 4  # draws of one step


def near_nodes(value: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each node those that matter most to it or it to them, by a matrix of values, ``[i, j]`` of j for i."""
    n = len(value)
    both = np.fmax(value, value.T)
    np.fill_diagonal(both, np.nan)  # last, also where others are worth nothing
    return np.ascontiguousarray(np.argsort(-both, axis=1, kind="stable")[:, : min(_NEAR, n - 1)])


@by_address
class JointWork(NamedTuple):
    """What `joint_parents_step` needs beside the lists; all but ``near`` is work space of a chain's own.

    Sums of weights are held as two parts, a number m from 1 to e^64 and a level l, which stand for m e^(-64 l); m = 0
    is zero.  Sets of nodes are bits.
    """

    near: NDArray[np.int64]  # (n_nodes, n_near): which nodes may join a node
    sums: NDArray[np.float64]  # (k, 2^k): of the weights of a node's sets whose types lie within a set of nodes
    sum_levels: NDArray[np.int64]
    orders: NDArray[np.float64]  # (2^k,): B(U)
    order_levels: NDArray[np.int64]
    counts: NDArray[np.float64]  # (2^k,): of the orders of a set of nodes
    kinds: NDArray[np.int64]  # (k,): types of the nodes' sets
    reach: NDArray[np.uint64]  # (k, n_words)
    fits: NDArray[np.uint64]  # (k, n_blocks): which sets of a block of a node's list are looked at
    meets: NDArray[np.uint64]  # (k, n_blocks, k): which of them meet a reach
    looked_at: NDArray[np.int64]  # (k,): blocks of a node's list


def joint_work(near: NDArray[np.int64], n_words: int, n_blocks: int, most: int = _NODES) -> JointWork:
    """Work space for up to so many nodes together, whose lists have up to so many blocks."""
    k = min(most, len(near))
    return JointWork(
        near, np.zeros((k, 2**k)), np.zeros((k, 2**k), dtype=np.int64), np.zeros(2**k), np.zeros(2**k, dtype=np.int64),
        np.zeros(2**k), np.zeros(k, dtype=np.int64),
        np.zeros((k, n_words), dtype=np.uint64), np.zeros((k, n_blocks), dtype=np.uint64),
        np.zeros((k, n_blocks, k), dtype=np.uint64),
        np.zeros(k, dtype=np.int64),
    )  # fmt: skip


def with_own_work_space(work: JointWork) -> JointWork:
    """The same for another chain."""
    copies: list[Any] = [part.copy() for part in work[1:]]
    return JointWork(work.near, *copies)


@inlined
def _plus(m: float, level: int, other: float, other_level: int) -> tuple[float, int]:
    """The sum of two numbers; what is two levels down is nothing beside one."""
    apart = other_level - level
    if m == 0.0 or (other > 0.0 and apart < -1):
        return other, other_level
    if other > 0.0:
        if apart == 0:
            m += other
        elif apart == 1:
            m += other * _DOWN
        elif apart == -1:
            m, level = other + m * _DOWN, other_level
        if m > _UP:
            m, level = m * _DOWN, level - 1
    return m, level


@inlined
def _times(m: float, level: int, other: float, other_level: int) -> tuple[float, int]:
    """The product of two numbers."""
    m *= other
    level += other_level
    return (m * _DOWN, level - 1) if m > _UP else (m, level)


@inlined
def _over(m: float, level: int, other: float, other_level: int) -> float:
    """A number as a multiple of another; 0 where it is three levels below."""
    found, apart = m / other, level - other_level
    if apart > 3:
        return 0.0
    while apart > 0:
        found, apart = found * _DOWN, apart - 1
    while apart < 0:
        found, apart = found * _UP, apart + 1
    return found


@hot
def _choose(near: Ints, nodes: Ints, k: int, rng: np.random.Generator) -> None:
    """Draw k different nodes that are near each other."""
    n = near.shape[0]
    nodes[0] = int(rng.random() * n)
    for found in range(1, k):
        tries = 0
        while True:
            member = nodes[int(rng.random() * found)]
            other = near[member, int(rng.random() * near.shape[1])] if tries < 8 else int(rng.random() * n)
            tries += 1
            new = True
            for m in range(found):
                new = new and nodes[m] != other
            if new:
                nodes[found] = other
                break


@hot
def _reach_outside(children: Words, node: int, inside: Words, reached: Words) -> None:
    """Fill ``reached`` with a node and its descendants in the graph in which the nodes ``inside`` have no parents."""
    words = reached.size
    for w in range(words):
        reached[w] = children[node, w] & ~inside[w]
    waiting = True
    while waiting:
        waiting = False
        for w in range(words):
            word = reached[w]
            while word != np.uint64(0):
                other = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                for v in range(words):
                    new = children[other, v] & ~inside[v] & ~reached[v]
                    if new != np.uint64(0):
                        reached[v] |= new
                        waiting = True
    reached[node >> 6] |= np.uint64(1) << np.uint64(node & 63)


@inlined
def _meeting(table: ParentSets, block: int, reach: Words, among: np.uint64) -> np.uint64:
    """Which sets of a block meet a reach, of those that are asked about."""
    left = among
    for w in range(reach.size):
        word = reach[w] & table.union[block, w]
        while word != np.uint64(0) and left != np.uint64(0):
            left &= ~table.holds[block, 64 * w + lowest_bit(word)]
            word &= word - np.uint64(1)
    return among & ~left


@inlined
def _type_of(bit: np.uint64, b: int, k: int, meets: Words) -> int:
    """Which of the k reaches a set meets, as bits; the set is told by its block and its bit there."""
    found = 0
    for s in range(k):
        if meets[b, s] & bit != np.uint64(0):
            found |= 1 << s
    return found


@inlined
def _sum_listed(table: ParentSets, base: int, chosen: np.uint64) -> tuple[float, int]:
    """The sum of the weights of some sets, one at least, of the 64 from ``base`` on."""
    level, total = table.level[base + lowest_bit(chosen)], 0.0
    while chosen != np.uint64(0):
        number = base + lowest_bit(chosen)
        below = table.level[number] - level
        if below > 1:
            break
        total += table.scaled[number] if below == 0 else table.scaled[number] * _DOWN
        chosen &= chosen - np.uint64(1)
    return (total, level) if total > 1.0 else (total * _UP, level + 1)


@hot
def _sum_types(table: ParentSets, node: int, s: int, k: int, work: JointWork) -> None:
    """Fill ``work.sums[s]`` with the sums of the weights of the node's sets whose types lie within a set of nodes.

    Fills ``work.fits[s]`` with the sets that are looked at, ``work.meets[s]`` with the reaches that they meet, and
    ``work.looked_at[s]`` with the number of their blocks.
    """
    sums, levels, meets = work.sums[s], work.sum_levels[s], work.meets[s]
    sums[: 1 << k] = 0.0
    first, n_blocks = table.first_block[node], table.first_block[node + 1] - table.first_block[node]
    work.looked_at[s] = n_blocks
    avoided, avoid = 1 << s, table.reached[1]  # nodes of S that no set that is looked at may reach into
    for w in range(avoid.size):
        avoid[w] = work.reach[s, w]
    for b in range(n_blocks):
        behind = table.first[node + 1] - table.first[node] - 64 * b
        fits = ~np.uint64(0) if behind >= 64 else (np.uint64(1) << np.uint64(behind)) - np.uint64(1)
        fits &= ~_meeting(table, first + b, avoid, fits)
        for t in range(k):
            meets[b, t] = np.uint64(0) if avoided >> t & 1 else _meeting(table, first + b, work.reach[t], fits)
        work.fits[s, b] = fits
        while fits != np.uint64(0):
            kind = _type_of(fits & (~fits + np.uint64(1)), b, k, meets)
            alike = fits
            for t in range(k):
                alike &= meets[b, t] if kind >> t & 1 else ~meets[b, t]
            fits ^= alike
            m, level = _sum_listed(table, table.first[node] + 64 * b, alike)
            sums[kind], levels[kind] = _plus(sums[kind], levels[kind], m, level)
        if b + 1 < n_blocks:
            rest = _REST if b + 1 >= _BLOCKS else _ROUNDING
            last = table.first[node] + 64 * b + 63
            left, below = table.left[last] * _UP, table.level[last] + 1
            for t in range(k):
                if avoided >> t & 1 == 0:
                    m, level = _plus(sums[0], levels[0], sums[1 << t], levels[1 << t])
                    if m > 0.0 and _over(left, below, m, level) < rest:
                        avoided |= 1 << t
                        for w in range(avoid.size):
                            avoid[w] |= work.reach[t, w]
            if sums[0] > 0.0 and _over(left, below, sums[0], levels[0]) < rest:
                work.looked_at[s] = b + 1
                break
    for t in range(k):
        for nodes in range(1 << k):
            if nodes >> t & 1:
                less = nodes ^ (1 << t)
                sums[nodes], levels[nodes] = _plus(sums[nodes], levels[nodes], sums[less], levels[less])


@hot
def _sum_orders(work: JointWork, k: int) -> None:
    """Fill ``work.orders`` with the sums B(U) of the module's notes."""
    whole = (1 << k) - 1
    orders, levels = work.orders, work.order_levels
    orders[whole], levels[whole] = 1.0, 0
    for left in range(1, whole + 1):
        placed = whole ^ left
        orders[placed], levels[placed] = 0.0, 0
        for s in range(k):
            if left >> s & 1:
                then = placed | 1 << s
                m, level = _times(work.sums[s, placed], work.sum_levels[s, placed], orders[then], levels[then])
                orders[placed], levels[placed] = _plus(orders[placed], levels[placed], m, level)


@hot
def _count_orders(kinds: Ints, k: int, counts: Floats) -> float:
    """In how many orders of the nodes none comes before one of its type."""
    whole = (1 << k) - 1
    counts[: whole + 1] = 0.0
    counts[0] = 1.0
    for placed in range(whole):
        if counts[placed] > 0.0:
            for s in range(k):
                if placed >> s & 1 == 0 and kinds[s] & ~placed == 0:
                    counts[placed | 1 << s] += counts[placed]
    return counts[whole]  # type: ignore[no-any-return]


@hot
def _kind_of(table: ParentSets, node: int, s: int, number: int, k: int, work: JointWork) -> int:
    """The type of a set that is looked at."""
    inside = number - table.first[node]
    return _type_of(np.uint64(1) << np.uint64(inside & 63), inside >> 6, k, work.meets[s])


@hot
def _draw_next(placed: int, k: int, work: JointWork, rng: np.random.Generator) -> int:
    """The node that follows in an order, drawn by its weight; -1 if none can: a sum that was all rounding."""
    target, found = rng.random(), -1
    for s in range(k):
        if placed >> s & 1 == 0:
            then = placed | 1 << s
            m, level = _times(
                work.sums[s, placed], work.sum_levels[s, placed], work.orders[then], work.order_levels[then]
            )
            if m > 0.0:
                found = s
                target -= _over(m, level, work.orders[placed], work.order_levels[placed])
                if target < 0.0:
                    break
    return found


@hot
def _draw_after(
    placed: int, table: ParentSets, node: int, s: int, k: int, work: JointWork, rng: np.random.Generator
) -> int:
    """A set whose type lies within what has been placed, drawn by its weight; -1 if there is none, likewise."""
    whole, level, meets = work.sums[s, placed], work.sum_levels[s, placed], work.meets[s]
    target, found = rng.random(), -1
    for b in range(work.looked_at[s]):
        fits = work.fits[s, b]
        for t in range(k):
            if placed >> t & 1 == 0:
                fits &= ~meets[b, t]
        while fits != np.uint64(0):
            number = table.first[node] + 64 * b + lowest_bit(fits)
            weight = _over(table.scaled[number] * _UP, table.level[number] + 1, whole, level)
            if weight > 0.0:
                found = number
                target -= weight
                if target < 0.0:
                    return found  # type: ignore[no-any-return]
            fits &= fits - np.uint64(1)
    return found


@hot
def _draw(table: ParentSets, nodes: Ints, drawn: Ints, k: int, work: JointWork, rng: np.random.Generator) -> bool:
    """Draw an order, and for every node a set of nodes before it, and its type; False where rounding left none."""
    placed = 0
    for _ in range(k):
        s = _draw_next(placed, k, work, rng)
        if s < 0:
            return False
        drawn[s] = _draw_after(placed, table, nodes[s], s, k, work, rng)
        if drawn[s] < 0:
            return False
        work.kinds[s] = _kind_of(table, nodes[s], s, drawn[s], k, work)
        placed |= 1 << s
    return True


@hot
def joint_parents_step(
    graph: WorkingGraph,
    local: Floats,
    cache: CacheArrays,
    scoring: Scoring,
    table: ParentSets,
    rng: np.random.Generator,
) -> int:
    """Redraw the parents of some nodes together; returns by how many the edges grew, or -2^30 if nothing changed.

    Closures are not kept.
    """
    nothing = -(1 << 30)
    work = table.joint
    nodes, drawn, standing, inside = table.order[0], table.order[1], table.order[2], table.reached[0]
    if work.near.shape[0] < 2:
        return nothing
    most = work.sums.shape[0] if rng.random() < _SIX else min(_USUAL, work.sums.shape[0])
    _choose(work.near, nodes, most, rng)
    inside[:] = np.uint64(0)
    k = 0
    for s in range(most):
        node = nodes[s]
        if table.where[node] >= 0:
            nodes[k] = node
            inside[node >> 6] |= np.uint64(1) << np.uint64(node & 63)
            k += 1
    if k < 2:
        return nothing
    for s in range(k):
        _reach_outside(graph[1], nodes[s], inside, work.reach[s])
    for s in range(k):
        _sum_types(table, nodes[s], s, k, work)
        number = table.where[nodes[s]] - table.first[nodes[s]]
        if number >= 64 * work.looked_at[s] or work.fits[s, number >> 6] >> np.uint64(number & 63) & np.uint64(1) == 0:
            return nothing
    _sum_orders(work, k)
    if work.orders[0] == 0.0:
        return nothing
    for s in range(k):
        standing[s] = table.where[nodes[s]]
        work.kinds[s] = _kind_of(table, nodes[s], s, standing[s], k, work)
    n_orders = _count_orders(work.kinds, k, work.counts)
    for _ in range(_TRIES):
        if not _draw(table, nodes, drawn, k, work, rng):
            continue
        n_after = _count_orders(work.kinds, k, work.counts)
        if rng.random() * n_after < n_orders:
            n_orders = n_after
            for s in range(k):
                standing[s] = drawn[s]
    more, changed = 0, False
    for s in range(k):
        node, number = nodes[s], standing[s]
        if number != table.where[node]:
            changed = True
            for w in range(inside.size):
                more += popcount(table.sets[number, w]) - popcount(graph[0][node, w])
            replace_parents(graph, node, table.sets[number])
            table.where[node] = number
            local[node] = family_log_score(node, graph[0][node], cache, scoring)
    return more if changed else nothing
