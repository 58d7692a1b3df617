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

At an inverse temperature below 1 all probabilities are to that power, and the ratio is that of the posterior to it.

Rows with too many joint values of z keep them; they are told by graphs and missing cells alone, so the way back leaves
out the same.  Functions are compiled, trust their arguments and work in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from doxa._jit import hot, inlined
from doxa.structure.cases.incomplete.blocks import set_cell, to_power
from doxa.structure.cases.incomplete.families import log_of_counts
from doxa.structure.cases.incomplete.joint_counts import add_row, has_column, lay_out
from doxa.structure.moves.changes import accepts
from doxa.structure.priors import family_log_prior

__all__ = ["back", "forth", "log_estimate", "offer", "put_back", "put_values", "shuffle", "weigh_row", "write_value"]


@hot
def log_estimate(parents: Any, n_states: Any, prior: Any, side: Any) -> float:
    """Log prior and log marginal likelihood of the changed families, in the rows that are left in."""
    total = 0.0
    for f in range(side.size[0]):
        if not side.changed[f]:
            continue
        node = side.node[f]
        total += family_log_prior(node, parents[node], prior)
        begin, end = side.count_first[f], side.count_first[f + 1]
        total += log_of_counts(side.counts, begin, end, n_states[node], side.prior_cell[f], side.prior_config[f])
    return total


@hot
def weigh_row(i: int, completion: Any, work: Any, side: Any) -> tuple[int, int, float, float]:
    """Weights of the joint values of row i's cells in C; returns how many cells and values, their sum, and a factor."""
    size, joint = 0, 1
    for column in range(work.codes.size):
        work.codes[column] = completion.rows[i, column]
    for number in range(completion.first[i], completion.first[i + 1]):
        column = completion.column[number]
        if has_column(work.columns, column):
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
            known = _probability(f, config, work.codes[node], completion.n_states[node], side)
            factor *= to_power(known, work.beta)
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
            weight *= to_power(_probability(f, config, work.codes[node], completion.n_states[node], side), work.beta)
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
        add_row(f, work.codes, 1, completion.n_states[side.node[f]], side)


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
            if has_column(work.columns, column):
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
    left_in = log_estimate(after[0], completion.n_states, prior, work.there)
    left_in -= log_estimate(before[0], completion.n_states, prior, work.here)
    ratio = work.beta * left_in - log_frozen
    there = forth(n_rows, completion, work, rng)
    here = back(n_rows, completion, work)
    if there == -np.inf or here == -np.inf:  # the way back meets the same two products
        return False
    if not accepts(rng, ratio + there - here):
        return False
    put_values(n_rows, completion, work)
    return True
