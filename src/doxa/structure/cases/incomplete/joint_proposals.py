r"""Changes of the graph that take their cells along, proposed by a posterior that does not know the cells.

The *frozen* posterior f has for score of each listed family its mean over a few reference completions, so it stays the
same while cells change.  One step of `Auto`, which is reversible for f, proposes G' from G; the graph and new values of
the cells concerned are then offered together (`doxa.structure.cases.incomplete.joint_proposals`) and accepted with
probability

.. math:: \min\Big\{1, \frac{\hat\pi(G')\, f(G)}{\hat\pi(G)\, f(G')}\Big\}.

An offer costs a thousand steps, and cells matter to few pairs of graphs: to those of which one completion says what
another denies.  Where the log ratio of the two graphs' scores differs by less than ``least_spread`` over the reference
completions, nothing is offered.  That rule treats the two graphs alike, so it changes no answer.

At an inverse temperature below 1 the chain has the posterior to that power for target, and proposes from f to it.

A change of the graph and new values of the cells that it depends on, offered together.

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

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import call_at, settled
from doxa._jit import branching, hot, inlined
from doxa.arrays import Floats, Ints, Words
from doxa.structure.cases.incomplete.blocks import set_cell, to_power
from doxa.structure.cases.incomplete.candidate_sets import FamilyLists, arrange, fill_cache, list_layout, weigh_lists
from doxa.structure.cases.incomplete.families import log_of_counts
from doxa.structure.cases.incomplete.graph_moves import CACHE_BYTES
from doxa.structure.cases.incomplete.joint_counts import JointWork, Side, add_row, joint_work, lay_out
from doxa.structure.cases.incomplete.missing_cells import Completion, IncompleteData, completion_of, put_cells
from doxa.structure.cases.incomplete.proposals import go_to, standing_space
from doxa.structure.cases.incomplete.sweep import draw_place
from doxa.structure.families.cache import ScoreCache, local_scores
from doxa.structure.families.counting import Rule
from doxa.structure.graph import WorkingGraph, is_in, working_graph
from doxa.structure.limits import Limits
from doxa.structure.moves.auto import Auto, advance_auto
from doxa.structure.moves.changes import accepts, cache_is_full
from doxa.structure.moves.parent_sets import ParentSets, find_set
from doxa.structure.moves.sampler import Work, work_without_draws
from doxa.structure.moves.single_edge import log_proposals
from doxa.structure.priors import family_log_prior

__all__ = [
    "JointProposals",
    "back",
    "forth",
    "frozen_lists",
    "is_worth_it",
    "log_estimate",
    "offer",
    "put_back",
    "put_values",
    "shuffle",
    "weigh_row",
    "write_value",
]


@hot
def log_estimate(parents: Words, n_states: Ints, prior: tuple[Floats, Floats], side: Side) -> float:
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
def weigh_row(i: int, completion: Completion, work: JointWork, side: Side) -> tuple[int, int, float, float]:
    """Weights of the joint values of row i's cells in C; returns how many cells and values, their sum, and a factor."""
    size, joint = 0, 1
    for column in range(work.codes.size):
        work.codes[column] = completion.rows[i, column]
    for number in range(completion.first[i], completion.first[i + 1]):
        column = completion.column[number]
        if is_in(work.columns, column):
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
def _probability(f: int, config: int, state: int, r: int, side: Side) -> float:
    place = side.count_first[f] + config * (r + 1)
    return (side.counts[place + state] + side.prior_cell[f]) / (side.counts[place + r] + side.prior_config[f])  # type: ignore[no-any-return]


@inlined
def write_value(value: int, size: int, n_states: Ints, work: JointWork) -> None:
    """Write joint value number ``value`` into the row at hand."""
    for k in range(size):
        r = n_states[work.cells[k]]
        work.codes[work.cells[k]] = value % r
        value //= r


@hot
def put_back(completion: Completion, work: JointWork, side: Side) -> None:
    """Count the row at hand."""
    for f in range(side.size[0]):
        add_row(f, work.codes, 1, completion.n_states[side.node[f]], side)


@hot
def forth(n_rows: int, completion: Completion, work: JointWork, rng: np.random.Generator) -> float:
    """Draw z under the other graph, into ``work.values``; the log of the product of the sums."""
    total = 0.0
    for number in range(n_rows):
        size, joint, mass, factor = weigh_row(work.rows[number], completion, work, work.there)
        if not mass * factor > 0.0:
            return -np.inf
        total += np.log(mass) + np.log(factor)
        value = draw_place(work.weights, joint, rng)
        work.values[number] = value
        write_value(value, size, completion.n_states, work)
        put_back(completion, work, work.there)
    return total


@hot
def back(n_rows: int, completion: Completion, work: JointWork) -> float:
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
def put_values(n_rows: int, completion: Completion, work: JointWork) -> None:
    """Write the drawn values into the completion."""
    for number in range(n_rows):
        i, value = work.rows[number], work.values[number]
        for place in range(completion.first[i], completion.first[i + 1]):
            column = completion.column[place]
            if is_in(work.columns, column):
                r = completion.n_states[column]
                set_cell(i, column, value % r, completion)
                value //= r


@hot
def shuffle(n_rows: int, work: JointWork, rng: np.random.Generator) -> None:
    """Put the rows into a random order."""
    for number in range(n_rows - 1, 0, -1):
        other = int(rng.random() * (number + 1))
        work.rows[number], work.rows[other] = work.rows[other], work.rows[number]


@hot
def offer(
    before: tuple[Words, Ints],
    after: tuple[Words, Ints],
    log_frozen: float,
    completion: Completion,
    terms: tuple[FamilyLists, Rule, tuple[Floats, Floats]],
    work: JointWork,
    rng: np.random.Generator,
) -> bool:
    """Offer the other graph and new cells; True if they are accepted, and the cells written.

    ``log_frozen`` is the log ratio of the probabilities of proposing the other graph and of proposing this one; the
    graphs are as in `lay_out`.  ``terms`` is the lists, the rule of the score and the arrays of the prior.
    """
    lists, rule, prior = terms
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


_SHARES = Auto(0.2, 0.3, 0.02, 0.06).shares  # an offer costs as much as many steps: small changes are taken more often


class JointProposals:
    """One chain's work space; see the module's notes.

    Parameters
    ----------
    data : IncompleteData
    limits : Limits
    lists : FamilyLists
    references : list of ndarray of int, each of shape (n_missing,)
        Completions; families that are not listed are scored on the first.
    least_spread : float
        Nats; see the module's notes.
    beta : float, default=1.0
        Inverse temperature.
    """

    def __init__(
        self,
        data: IncompleteData,
        limits: Limits,
        lists: FamilyLists,
        references: list[NDArray[np.int16]],
        least_spread: float,
        beta: float = 1.0,
    ) -> None:
        n = data.n_nodes
        self.data, self.limits, self.lists, self.least_spread = data, limits, lists, least_spread
        self.beta = float(beta)
        completion = completion_of(data.missing_cells, references[0])
        self.scoring, _ = data.scoring(completion)
        self.cache = ScoreCache(n, CACHE_BYTES)
        self.cache.make_room(int(np.diff(lists.first).max(initial=0)))
        parents = np.zeros(lists.sets.shape[1], dtype=np.uint64)
        self.table, self.weights, self.number = frozen_lists(data, limits, lists, references, beta)
        settled(fill_cache)(lists, self.weights.mean(axis=0), parents, self.cache.arrays)
        self.local = np.zeros(n)
        self.work = joint_work(data, beta)
        self.done = np.zeros(3, dtype=np.int64)  # steps, offers, acceptances
        self.advance = data.address_of(advance_auto)
        words = np.zeros((n, lists.sets.shape[1]), dtype=np.uint64)
        self.standing = standing_space(words)
        self.places = (np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64))
        self.steps = work_without_draws(
            working_graph(words), self.local, self.beta, limits, self.cache.arrays, self.scoring, self.table
        )._replace(thin=0)

    def run(
        self, number: int, rows: NDArray[np.uint64], completion: Completion, rng: np.random.Generator
    ) -> WorkingGraph:
        """So many steps from a graph, given by its adjacency rows, and a completion, which is changed in place."""
        graph, log_q = working_graph(rows), log_proposals(len(self.local))
        terms = (self.lists, self.data.rule, self.data.prior.arrays)
        frozen = Frozen(
            self.number, self.weights, self.least_spread, self.standing, self.places, completion, terms, self.work
        )  # fmt: skip
        n_done = 0
        settled(local_scores, self.scoring.address)(graph[0], self.cache.arrays, self.scoring, self.local)
        while n_done < number:
            while self.cache.wants_to_grow and self.cache.can_grow:
                self.cache.grow()
            work, steps = self.steps._replace(graph=graph, cache=self.cache.arrays), (n_done, number)
            at = self.advance.of(work, _SHARES, log_q, *steps, rng)
            n_done = settled(_run, self.scoring.address)(at, steps, work, _SHARES, log_q, frozen, self.done, rng)
        return working_graph(graph[1])


def frozen_lists(
    data: IncompleteData,
    limits: Limits,
    lists: FamilyLists,
    references: list[NDArray[np.int16]],
    beta: float = 1.0,
) -> tuple[ParentSets, NDArray[np.float64], NDArray[np.int64]]:
    """The lists of the frozen posterior to a power, each set's log weight on each reference completion, and the number
    in the lists of each set in the order of the table.
    """
    weights, table = _weights_on(references, data, limits, lists), list_layout(lists)
    return table, weights, arrange(table, lists, beta * weights.mean(axis=0))


def _weights_on(
    references: list[NDArray[np.int16]], data: IncompleteData, limits: Limits, lists: FamilyLists
) -> NDArray[np.float64]:
    """Log weights of the listed families on each completion, shape (n_references, n_sets); made once a process."""

    def weigh() -> NDArray[np.float64]:
        completion = completion_of(data.missing_cells, references[0])
        scoring, _ = data.scoring(completion)
        weights, weigh = np.zeros((len(references), lists.n_sets)), settled(weigh_lists, scoring.address)
        for weight, cells in zip(weights, references, strict=True):
            put_cells(completion, data.missing_cells, cells)
            weigh(completion, scoring, lists, np.zeros(lists.sets.shape[1], dtype=np.uint64), weight)
        return weights

    arrays: list[NDArray[Any]] = [lists.node, lists.sets, *references]
    digest = hashlib.blake2b(b"".join(array.tobytes() for array in arrays))
    found: NDArray[np.float64] = data.remember(f"weights of lists {digest.hexdigest()}", limits, weigh)
    return found


@by_address
class Frozen(NamedTuple):
    """The frozen posterior that proposes graphs, and what the offer of one needs."""

    number: NDArray[np.int64]  # in the lists, of each set in the order of the table
    weights: NDArray[np.float64]  # (n_references, n_sets): log weight of each listed set on each completion
    least_spread: float  # nats
    standing: tuple[Words, Words, Floats, Ints]  # parents, children, scores, places in the table: the graph that stands
    places: tuple[NDArray[np.int64], NDArray[np.int64]]  # work space: places in the lists, here and there
    completion: Completion
    terms: tuple[FamilyLists, Any, Any]  # the lists, the rule of the score, the arrays of the prior
    scratch: Any


@branching
def _run(
    advance: int,
    steps: tuple[int, int],
    work: Work,
    shares: tuple[float, float, float, float],
    log_q: Floats,
    frozen: Frozen,
    done: Ints,
    rng: np.random.Generator,
) -> int:
    graph, local, cache, table = work.graph, work.local, work.cache, work.table
    standing, places, number_of = frozen.standing, frozen.places, frozen.number
    for node in range(local.size):
        table.where[node] = find_set(table, node, graph[0][node])
    go_to((graph[0], graph[1], local, table.where), standing)
    step, number = steps
    while step < number and not cache_is_full(cache):
        changes = work.info[1]
        after = call_at(advance, (work, shares, log_q, step, number, rng))
        done[0] += after - step
        step = after
        if work.info[1] == changes:
            continue
        taken = False
        log_frozen = 0.0  # of f to the power
        for node in range(local.size):
            log_frozen += work.beta * (local[node] - standing[2][node])
            places[0][node] = number_of[standing[3][node]] if standing[3][node] >= 0 else -1
            places[1][node] = number_of[table.where[node]] if table.where[node] >= 0 else -1
        here, there = (standing[0], places[0]), (graph[0], places[1])
        if is_worth_it(here, there, frozen.weights, frozen.least_spread):
            done[1] += 1
            taken = offer(here, there, log_frozen, frozen.completion, frozen.terms, frozen.scratch, rng)
        if taken:
            done[2] += 1
            go_to((graph[0], graph[1], local, table.where), standing)
        else:
            go_to(standing, (graph[0], graph[1], local, table.where))
    return step


@hot
def is_worth_it(before: tuple[Words, Ints], after: tuple[Words, Ints], weights: Floats, least_spread: float) -> bool:
    """Whether completions differ about the two graphs; also where the change involves a set that is not listed."""
    least, most = np.inf, -np.inf
    for r in range(weights.shape[0]):
        total = 0.0
        for node in range(before[1].size):
            differs = False
            for w in range(before[0].shape[1]):
                differs = differs or before[0][node, w] != after[0][node, w]
            if differs:
                if before[1][node] < 0 or after[1][node] < 0:
                    return True
                total += weights[r, after[1][node]] - weights[r, before[1][node]]
        least, most = min(least, total), max(most, total)
    return bool(most - least >= least_spread)
