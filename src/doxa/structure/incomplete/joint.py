r"""A change of the graph and new values of the cells that it depends on, offered together.

Edges and missing cells hold each other up: cells that were drawn with an edge speak for it.  Here the cells concerned
are let go.  Let G' be a proposed graph, C the columns whose families change, and z the missing cells of C.  The rows of
z are taken out of the counts of all families that z touches, and put back one by one, in some order; each row's cells
are drawn from their exact distribution under G' given the rows that are in.  With :math:`w_i` the sum of that
distribution before it is scaled, so the predictive probability of what is known of row i,

.. math:: \hat\pi(G') = p(G') \, p(\text{rows left in} \mid G') \prod_i w_i

is an unbiased estimate of the probability of graph and data, the cells z summed out (Kong, Liu & Wong 1994).  The same
product along the values that stand gives :math:`\hat\pi(G)`, and the ratio of joint probability to proposal is

.. math::

    \frac{p(G', z')\, q(z \mid G)}{p(G, z)\, q(z' \mid G')} = \frac{\hat\pi(G')}{\hat\pi(G)},

whatever the order, if that does not depend on z.  Where most rows are known the estimates are close to the sums, and
the graph moves almost as if the cells were not there.

Rows with too many joint values of z keep them; they are told by graphs and holes alone, so the way back leaves out the
same.  Functions are compiled, trust their arguments and work in place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined, lowest_bit
from doxa.models.bits import n_words
from doxa.structure.changes import accepts
from doxa.structure.incomplete.blocks import set_cell
from doxa.structure.incomplete.data import IncompleteData
from doxa.structure.priors import family_log_prior
from doxa.structure.scores import CONSTANT_RULE, log_ratio

__all__ = [
    "JointWork",
    "Side",
    "back",
    "forth",
    "joint_work",
    "lay_out",
    "log_estimate",
    "offer",
    "put_back",
    "put_values",
    "shuffle",
    "weigh_row",
    "write_value",
]

_MOST_JOINT = 64  # joint values of a row's cells
_MOST_COUNTS = 2**16  # of all families that are touched


class Side(NamedTuple):
    """The families that the cells touch, under one of the two graphs, and their counts."""

    size: NDArray[np.int64]  # (1,): how many families
    node: NDArray[np.int64]  # (n_nodes,)
    changed: NDArray[np.bool_]  # (n_nodes,): whether the two graphs differ in this family
    parent_first: NDArray[np.int64]  # (n_nodes + 1,)
    parent: NDArray[np.int64]  # (n_nodes**2,)
    stride: NDArray[np.int64]  # (n_nodes**2,): the parent's factor in the number of a configuration
    count_first: NDArray[np.int64]  # (n_nodes + 1,): a configuration has a count for each state, and their sum
    counts: NDArray[np.int64]  # (_MOST_COUNTS,)
    prior_cell: NDArray[np.float64]  # (n_nodes,): a_ijk
    prior_config: NDArray[np.float64]  # (n_nodes,): a_ij
    open: NDArray[np.int64]  # (n_nodes,): families that hold a missing cell of the row at hand
    closed: NDArray[np.int64]  # (n_nodes,): places of the row at hand in the others


class JointWork(NamedTuple):
    """Work space of one chain."""

    columns: NDArray[np.uint64]  # (n_words,): C
    rows: NDArray[np.int64]  # (n_incomplete,): the rows of z
    is_out: NDArray[np.uint64]  # the same as a bit set
    codes: NDArray[np.int64]  # (n_nodes,): the row at hand
    cells: NDArray[np.int64]  # (n_nodes,): columns of its missing cells in C
    values: NDArray[np.int64]  # (n_incomplete,): the joint value of each row of z, a number in mixed radix
    weights: NDArray[np.float64]  # (_MOST_JOINT,)
    here: Side
    there: Side


def joint_work(data: IncompleteData) -> JointWork:
    """Fresh work space."""
    n, n_incomplete = data.n_nodes, len(data.holes.first) - 1

    def whole(size: int) -> NDArray[np.int64]:
        return np.zeros(size, dtype=np.int64)

    def side() -> Side:
        return Side(
            whole(1), whole(n), np.zeros(n, dtype=np.bool_), whole(n + 1), whole(n * n), whole(n * n), whole(n + 1),
            whole(_MOST_COUNTS), np.zeros(n), np.zeros(n), whole(n), whole(n),
        )  # fmt: skip

    return JointWork(
        np.zeros(n_words(n), dtype=np.uint64), whole(n_incomplete),
        np.zeros(data.holes.missing_in.shape[1], dtype=np.uint64), whole(n), whole(n), whole(n_incomplete),
        np.zeros(_MOST_JOINT), side(), side(),
    )  # fmt: skip


@inlined
def _has(words: Any, bit: int) -> bool:
    return bool((words[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1))


@hot
def lay_out(before: Any, after: Any, completion: Any, lists: Any, rule: Any, work: Any) -> int:
    """Find C, the rows of z, and the touched families under both graphs, counted without these rows.

    ``before`` and ``after`` are graphs: the parents of every node as bit sets, and the number of each set in ``lists``,
    -1 if it is not listed.  Returns the number of rows, or -1 if the families are too large to be counted here.
    """
    columns = work.columns
    columns[:] = np.uint64(0)
    for node in range(completion.n_states.size):
        differs = False
        for w in range(columns.size):
            differs = differs or before[0][node, w] != after[0][node, w]
        if differs:
            columns[node >> 6] |= np.uint64(1) << np.uint64(node & 63)
    n_rows = _find_rows(completion, lists.missing_in, work)
    if not _list_families(before[0], after[0], completion.n_states, rule, work.columns, work.here):
        return -1
    if not _list_families(after[0], before[0], completion.n_states, rule, work.columns, work.there):
        return -1
    for f in range(work.here.size[0]):
        _count(f, before[1][work.here.node[f]], completion, lists, work, work.here)
    for f in range(work.there.size[0]):
        if work.there.changed[f]:
            _count(f, after[1][work.there.node[f]], completion, lists, work, work.there)
        else:
            _copy(f, work.here, work.there)
    return n_rows


@hot
def _find_rows(completion: Any, missing_in: Any, work: Any) -> int:
    """List the rows of z."""
    work.is_out[:] = np.uint64(0)
    n_rows = 0
    for v in range(missing_in.shape[1]):
        word = np.uint64(0)
        for w in range(work.columns.size):
            left = work.columns[w]
            while left != np.uint64(0):
                word |= missing_in[64 * w + lowest_bit(left), v]
                left &= left - np.uint64(1)
        while word != np.uint64(0):
            i = 64 * v + lowest_bit(word)
            word &= word - np.uint64(1)
            joint = 1
            for number in range(completion.first[i], completion.first[i + 1]):
                column = completion.column[number]
                if _has(work.columns, column) and joint <= _MOST_JOINT:
                    joint *= completion.n_states[column]
            if joint <= _MOST_JOINT:
                work.rows[n_rows] = i
                work.is_out[v] |= np.uint64(1) << np.uint64(i & 63)
                n_rows += 1
    return n_rows


@hot
def _list_families(parents: Any, others: Any, n_states: Any, rule: Any, columns: Any, side: Any) -> bool:
    """Fill all but the counts, which are set to 0; False if there would be too many."""
    size, edge, n_counts = 0, 0, 0
    for node in range(parents.shape[0]):
        touched, changed = _has(columns, node), False
        for w in range(columns.size):
            touched = touched or parents[node, w] & columns[w] != np.uint64(0)
            changed = changed or parents[node, w] != others[node, w]
        if not touched:
            continue
        r = n_states[node]
        side.node[size], side.changed[size] = node, changed
        side.parent_first[size], side.count_first[size] = edge, n_counts
        stride = 1
        for w in range(columns.size):
            word = parents[node, w]
            while word != np.uint64(0):
                parent = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                side.parent[edge], side.stride[edge] = parent, stride
                edge += 1
                stride *= n_states[parent]
                if n_counts + stride * (r + 1) > _MOST_COUNTS:
                    return False
        n_counts += stride * (r + 1)
        log_cell = rule.log_weight
        if rule.kind != CONSTANT_RULE:
            log_cell -= np.log(stride) + np.log(r)
        side.prior_cell[size], side.prior_config[size] = np.exp(log_cell), np.exp(log_cell + np.log(r))
        size += 1
    side.size[0], side.parent_first[size], side.count_first[size] = size, edge, n_counts
    side.counts[:n_counts] = 0
    return True


@hot
def _count(f: int, number: int, completion: Any, lists: Any, work: Any, side: Any) -> None:
    """Count a family in the rows that are left in; where it is listed, only rows with its cells missing are visited."""
    node, first = side.node[f], side.count_first[f]
    r = completion.n_states[node]
    if number < 0 or lists.n_cells[number] == 0:
        for row in range(completion.columns.shape[1]):
            i = row - completion.n_complete
            if i < 0 or not _has(work.is_out, i):
                _add(f, completion.columns[:, row], completion.weights[row], r, side)
        return
    kept = lists.kept_first[number]
    for config in range((side.count_first[f + 1] - first) // (r + 1)):
        place, total = first + config * (r + 1), 0
        for state in range(r):
            cases = lists.kept[kept + config * r + state]
            side.counts[place + state] = cases
            total += cases
        side.counts[place + r] = total
    for v in range(lists.missing_in.shape[1]):
        missing = lists.missing_in[node, v]
        for e in range(side.parent_first[f], side.parent_first[f + 1]):
            missing |= lists.missing_in[side.parent[e], v]
        word = missing ^ work.is_out[v]  # missing and left in: not kept; known and taken out: kept
        while word != np.uint64(0):
            bit = word & ~(word - np.uint64(1))
            word ^= bit
            _add(f, completion.rows[64 * v + lowest_bit(bit)], 1 if missing & bit != np.uint64(0) else -1, r, side)


@inlined
def _add(f: int, codes: Any, weight: int, r: int, side: Any) -> None:
    config = 0
    for e in range(side.parent_first[f], side.parent_first[f + 1]):
        config += side.stride[e] * codes[side.parent[e]]
    place = side.count_first[f] + config * (r + 1)
    side.counts[place + codes[side.node[f]]] += weight
    side.counts[place + r] += weight


@hot
def _copy(f: int, source: Any, side: Any) -> None:
    """The counts of a family that both graphs have."""
    node = side.node[f]
    for g in range(source.size[0]):
        if source.node[g] == node:
            shift = source.count_first[g] - side.count_first[f]
            for place in range(side.count_first[f], side.count_first[f + 1]):
                side.counts[place] = source.counts[place + shift]


@hot
def log_estimate(parents: Any, n_states: Any, prior: Any, side: Any) -> float:
    """Log prior and log marginal likelihood of the changed families, in the rows that are left in."""
    total = 0.0
    for f in range(side.size[0]):
        if not side.changed[f]:
            continue
        node = side.node[f]
        total += family_log_prior(node, parents[node], prior)
        r = n_states[node]
        cell, config = side.prior_cell[f], side.prior_config[f]
        log_cell, log_config = np.log(cell), np.log(config)
        for place in range(side.count_first[f], side.count_first[f + 1], r + 1):
            if side.counts[place + r] == 0:
                continue
            for k in range(r):
                if side.counts[place + k] > 0:
                    total += log_ratio(float(side.counts[place + k]), cell, log_cell)
            total -= log_ratio(float(side.counts[place + r]), config, log_config)
    return total


@hot
def weigh_row(i: int, completion: Any, work: Any, side: Any) -> tuple[int, int, float, float]:
    """Weights of the joint values of row i's cells in C; returns how many cells and values, their sum, and a factor."""
    size, joint = 0, 1
    for column in range(work.codes.size):
        work.codes[column] = completion.rows[i, column]
    for number in range(completion.first[i], completion.first[i + 1]):
        column = completion.column[number]
        if _has(work.columns, column):
            work.cells[size] = column
            size += 1
            joint *= completion.n_states[column]
            work.codes[column] = -1
    n_open, factor = 0, 1.0
    for f in range(side.size[0]):
        node = side.node[f]
        is_open = work.codes[node] < 0
        config = 0
        for e in range(side.parent_first[f], side.parent_first[f + 1]):
            code = work.codes[side.parent[e]]
            is_open = is_open or code < 0
            config += side.stride[e] * code
        if is_open:
            side.open[n_open] = f
            n_open += 1
        else:
            factor *= _probability(f, config, work.codes[node], completion.n_states[node], side)
    total = 0.0
    for value in range(joint):
        write_value(value, size, completion.n_states, work)
        weight = 1.0
        for g in range(n_open):
            f = side.open[g]
            node = side.node[f]
            config = 0
            for e in range(side.parent_first[f], side.parent_first[f + 1]):
                config += side.stride[e] * work.codes[side.parent[e]]
            weight *= _probability(f, config, work.codes[node], completion.n_states[node], side)
        work.weights[value] = weight
        total += weight
    return size, joint, total, factor


@inlined
def _probability(f: int, config: int, state: int, r: int, side: Any) -> float:
    place = side.count_first[f] + config * (r + 1)
    return (side.counts[place + state] + side.prior_cell[f]) / (side.counts[place + r] + side.prior_config[f])  # type: ignore[no-any-return]


@inlined
def write_value(value: int, size: int, n_states: Any, work: Any) -> None:
    """Write joint value number ``value`` into the row at hand."""
    for k in range(size):
        r = n_states[work.cells[k]]
        work.codes[work.cells[k]] = value % r
        value //= r


@hot
def put_back(completion: Any, work: Any, side: Any) -> None:
    """Count the row at hand."""
    for f in range(side.size[0]):
        _add(f, work.codes, 1, completion.n_states[side.node[f]], side)


@hot
def forth(n_rows: int, completion: Any, work: Any, rng: np.random.Generator) -> float:
    """Draw z under the other graph, into ``work.values``; the log of the product of the sums."""
    total = 0.0
    for number in range(n_rows):
        size, joint, mass, factor = weigh_row(work.rows[number], completion, work, work.there)
        if not mass * factor > 0.0:
            return -np.inf
        total += np.log(mass) + np.log(factor)
        left = rng.random() * mass
        value = 0
        for v in range(joint):
            if work.weights[v] > 0.0:
                value = v
                left -= work.weights[v]
                if left < 0.0:
                    break
        work.values[number] = value
        write_value(value, size, completion.n_states, work)
        put_back(completion, work, work.there)
    return total


@hot
def back(n_rows: int, completion: Any, work: Any) -> float:
    """The log of the product of the sums along the values that stand."""
    total = 0.0
    for number in range(n_rows):
        i = work.rows[number]
        size, _, mass, factor = weigh_row(i, completion, work, work.here)
        if not mass * factor > 0.0:
            return -np.inf
        total += np.log(mass) + np.log(factor)
        for k in range(size):
            work.codes[work.cells[k]] = completion.rows[i, work.cells[k]]
        put_back(completion, work, work.here)
    return total


@hot
def put_values(n_rows: int, completion: Any, work: Any) -> None:
    """Write the drawn values into the completion."""
    for number in range(n_rows):
        i, value = work.rows[number], work.values[number]
        for place in range(completion.first[i], completion.first[i + 1]):
            column = completion.column[place]
            if _has(work.columns, column):
                r = completion.n_states[column]
                set_cell(i, column, value % r, completion)
                value //= r


@hot
def shuffle(n_rows: int, work: Any, rng: np.random.Generator) -> None:
    """Put the rows into a random order."""
    for number in range(n_rows - 1, 0, -1):
        other = int(rng.random() * (number + 1))
        work.rows[number], work.rows[other] = work.rows[other], work.rows[number]


@hot
def offer(
    before: Any, after: Any, log_frozen: float, completion: Any, lists: Any, rule: Any, prior: Any, work: Any,
    rng: np.random.Generator,
) -> bool:  # fmt: skip
    """Offer the other graph and new cells; True if they are accepted, and the cells written.

    ``log_frozen`` is the log ratio of the probabilities of proposing the other graph and of proposing this one; the
    graphs are as in `lay_out`.
    """
    n_rows = lay_out(before, after, completion, lists, rule, work)
    if n_rows < 0:
        return False
    shuffle(n_rows, work, rng)
    ratio = log_estimate(after[0], completion.n_states, prior, work.there) - log_frozen
    ratio -= log_estimate(before[0], completion.n_states, prior, work.here)
    there = forth(n_rows, completion, work, rng)
    here = back(n_rows, completion, work)
    if there == -np.inf or here == -np.inf:  # the way back meets the same two products
        return False
    if not accepts(rng, ratio + there - here):
        return False
    put_values(n_rows, completion, work)
    return True
