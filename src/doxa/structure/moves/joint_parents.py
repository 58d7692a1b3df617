r"""`joint_parents_step`: redraw the parents of four or six nodes together, by their exact conditional posterior.

Columns that measure nearly the same thing hang together in rings: to turn one arc, the others must turn too, and what
lies between scores tens of nats less, too much for moves of one or two nodes and for all but hot chains.  A step that
redraws all of them at once goes through (Goudie & Mukherjee 2016).

Take the parents of the nodes S away.  For s in S let :math:`R_s` be s and its descendants in what is left.  A parent
set P of s that avoids :math:`R_s` has for *type* those other members t of S with P reaching into :math:`R_t`.  The
whole is without cycles exactly if the types, read as parents within S, are a graph H without cycles.  So the sum over
the joint parent sets of S is :math:`\sum_H \prod_{s \in S} W_s(pa_H(s))`, with :math:`W_s(T)` the sum of the weights
of the sets of type T.  There are 3.8 million graphs on six nodes; their sum is made layer by layer.  The first layer of
H are its nodes without parents, and each other layer those whose parents have been placed, one of them at least in the
layer before (Kuipers & Moffa 2017).  Let U be the nodes that have been placed, L the last layer of them; then

.. math:: F(U \cup N, N) = \sum_L F(U, L) \prod_{s \in N} W_s(\subseteq U) \, r_s(U, L), \qquad
    r_s(U, L) = 1 - W_s(\subseteq U \setminus L) / W_s(\subseteq U),

with :math:`W_s(\subseteq U)` the sum over the types within U, and :math:`\sum_L F(S, L)` is the whole: 4096 terms at
most, none below 0.  Layers are drawn from the last to the first, and then for every node a set whose type lies in U and
meets L.

Weights are hundreds and thousands of nats apart.  What tells how much a term matters is the sum over orders,
:math:`B(U) = \sum_{s \notin U} W_s(\subseteq U) B(U \cup \{s\})` with :math:`B(S) = 1`: it counts every graph on the
nodes that have not been placed, once for each of its orders.  So :math:`F(U, L) B(U) / B(\emptyset)` is between what
graphs that begin so have of the whole and 720 times that, floats hold all of these that matter, and one below 1e-25 is
left away with all that follows.

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
_ROUNDING = 1e-12  # of a sum: a difference below this is one of roundings
_NOTHING = 1e-25  # of the whole


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
    ways: NDArray[np.float64]  # (2^k, 2^k): F(U, L) B(U) / B(nothing)
    following: NDArray[np.float64]  # (2^k,): product of the sums of some nodes after U, times B of the two over B(U)
    product: NDArray[np.float64]  # (2^k,)
    share: NDArray[np.float64]  # (k,): r of the nodes that have not been placed
    layers: NDArray[np.int64]  # (2, k): what is placed before a node, and the last layer of that
    reach: NDArray[np.uint64]  # (k, n_words)
    fits: NDArray[np.uint64]  # (k, n_blocks): which sets of a block of a node's list are looked at
    meets: NDArray[np.uint64]  # (k, n_blocks, k): which of them meet a reach
    looked_at: NDArray[np.int64]  # (k,): blocks of a node's list


def joint_work(near: NDArray[np.int64], n_words: int, n_blocks: int, most: int = _NODES) -> JointWork:
    """Work space for up to so many nodes together, whose lists have up to so many blocks."""
    k = min(most, len(near))
    return JointWork(
        near, np.zeros((k, 2**k)), np.zeros((k, 2**k), dtype=np.int64), np.zeros(2**k), np.zeros(2**k, dtype=np.int64),
        np.zeros((2**k, 2**k)), np.zeros(2**k), np.zeros(2**k), np.zeros(k), np.zeros((2, k), dtype=np.int64),
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
            bit = fits & (~fits + np.uint64(1))
            number = table.first[node] + 64 * b + lowest_bit(fits)
            kind = _type_of(bit, b, k, meets)
            m, level = table.scaled[number] * _UP, table.level[number] + 1
            sums[kind], levels[kind] = _plus(sums[kind], levels[kind], m, level)
            fits ^= bit
        if b + 1 >= _BLOCKS and b + 1 < n_blocks:
            last = table.first[node] + 64 * b + 63
            left, below = table.left[last] * _UP, table.level[last] + 1
            for t in range(k):
                if avoided >> t & 1 == 0:
                    m, level = _plus(sums[0], levels[0], sums[1 << t], levels[1 << t])
                    if m > 0.0 and _over(left, below, m, level) < _REST:
                        avoided |= 1 << t
                        for w in range(avoid.size):
                            avoid[w] |= work.reach[t, w]
            if sums[0] > 0.0 and _over(left, below, sums[0], levels[0]) < _REST:
                work.looked_at[s] = b + 1
                break
    for t in range(k):
        for nodes in range(1 << k):
            if nodes >> t & 1:
                less = nodes ^ (1 << t)
                sums[nodes], levels[nodes] = _plus(sums[nodes], levels[nodes], sums[less], levels[less])


@inlined
def _share(work: JointWork, s: int, placed: int, last: int) -> float:
    """r: of a node's weights within what has been placed, the share with a node of the last layer."""
    whole, level = work.sums[s, placed], work.sum_levels[s, placed]
    if placed == 0 or whole == 0.0:
        return 1.0 if whole > 0.0 else 0.0
    found = 1.0 - _over(work.sums[s, placed ^ last], work.sum_levels[s, placed ^ last], whole, level)
    return found if found > _ROUNDING else 0.0


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
def _weigh_next(work: JointWork, placed: int, rest: int) -> None:
    """Fill ``work.following`` for all that may be the layer after what has been placed."""
    orders, levels, following = work.orders, work.order_levels, work.following
    following[0] = 1.0
    new = 0
    while new != rest:
        new = (new - rest) & rest
        fewer, s = new & (new - 1), lowest_bit(np.uint64(new))
        following[new] = 0.0
        if following[fewer] > 0.0:
            now, before = placed | new, placed | fewer
            m, level = _times(work.sums[s, placed], work.sum_levels[s, placed], orders[now], levels[now])
            following[new] = following[fewer] * _over(m, level, orders[before], levels[before])


@hot
def _sum_layers(work: JointWork, k: int) -> None:
    """Fill ``work.ways`` with what F(U, L) has of the whole, as in the module's notes."""
    whole = (1 << k) - 1
    ways, product = work.ways, work.product
    ways[: whole + 1, : whole + 1] = 0.0
    ways[0, 0] = 1.0 if work.orders[0] > 0.0 else 0.0
    for placed in range(whole):
        rest, weighed, last = whole ^ placed, False, placed
        while True:
            if ways[placed, last] > _NOTHING:
                if not weighed:
                    _weigh_next(work, placed, rest)
                    weighed = True
                able = 0
                for s in range(k):
                    if rest >> s & 1:
                        work.share[s] = _share(work, s, placed, last)
                        able |= (work.share[s] > 0.0) << s
                product[0] = ways[placed, last]
                new = 0
                while new != able:
                    new = (new - able) & able
                    product[new] = product[new & (new - 1)] * work.share[lowest_bit(np.uint64(new))]
                    ways[placed | new, new] += product[new] * work.following[new]
            last = (last - 1) & placed
            if last <= 0:
                break


@hot
def _draw_layers(work: JointWork, k: int, rng: np.random.Generator) -> bool:
    """Draw the layers by their weight; False where no graph has any."""
    product, placed, following = work.product, (1 << k) - 1, 0
    while placed != 0:
        total, last = 0.0, placed
        while last > 0:  # what may be the last layer of what is placed, before the one that has been drawn
            product[last] = 0.0
            if work.ways[placed, last] > _NOTHING:
                product[last] = work.ways[placed, last]
                for s in range(k):
                    if following >> s & 1:
                        product[last] *= _share(work, s, placed, last)
                total += product[last]
            last = (last - 1) & placed
        if total == 0.0:
            return False
        target, drawn, last = rng.random() * total, 0, placed
        while last > 0 and target >= 0.0:
            if product[last] > 0.0:
                drawn = last
                target -= product[last]
            last = (last - 1) & placed
        for s in range(k):
            if following >> s & 1:
                work.layers[0, s], work.layers[1, s] = placed, drawn
        following = drawn
        placed ^= drawn
    for s in range(k):
        if following >> s & 1:
            work.layers[0, s], work.layers[1, s] = 0, 0
    return True


@hot
def _draw_in_layer(table: ParentSets, node: int, s: int, k: int, work: JointWork, rng: np.random.Generator) -> int:
    """A set within what has been placed that meets the last layer, drawn by its weight.

    -1 if there is none: a sum that was all rounding.
    """
    placed, last, meets = work.layers[0, s], work.layers[1, s], work.meets[s]
    whole, level = work.sums[s, placed], work.sum_levels[s, placed]
    target = rng.random() * _share(work, s, placed, last)
    found = -1
    for b in range(work.looked_at[s]):
        fits = work.fits[s, b] & _may_draw(b, placed, last, k, meets)
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
def _may_draw(b: int, placed: int, last: int, k: int, meets: Words) -> np.uint64:
    """The sets of a block, as bits, that meet the last layer and nothing that has not been placed."""
    outside = np.uint64(0)
    inside = ~outside if placed == 0 else np.uint64(0)
    for t in range(k):
        if placed >> t & 1 == 0:
            outside |= meets[b, t]
        elif last >> t & 1:
            inside |= meets[b, t]
    return inside & ~outside


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
    nodes, drawn, inside = table.order[0], table.order[1], table.reached[0]
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
    _sum_layers(work, k)
    if not _draw_layers(work, k, rng):
        return nothing
    for s in range(k):
        drawn[s] = _draw_in_layer(table, nodes[s], s, k, work, rng)
        if drawn[s] < 0:
            return nothing
    more, changed = 0, False
    for s in range(k):
        node, number = nodes[s], drawn[s]
        if number != table.where[node]:
            changed = True
            for w in range(inside.size):
                more += popcount(table.sets[number, w]) - popcount(graph[0][node, w])
            replace_parents(graph, node, table.sets[number])
            table.where[node] = number
            local[node] = family_log_score(node, graph[0][node], cache, scoring)
    return more if changed else nothing
