r"""All missing cells drawn under one graph, row by row: sequential imputation (Kong, Liu & Wong 1994).

The complete rows are counted first.  Then each incomplete row is put in, its missing cells drawn given the rows that
are in already, and known by q(z | G), the product of the probabilities of all these draws.  The ratio

.. math:: \hat w(G, z) = \frac{p(D, z \mid G)}{q(z \mid G)}, \qquad E_q \hat w(G, z) = p(D \mid G),

is an unbiased estimate of the probability of the data under the graph, all missing cells summed out; the more of the
table is known, the less it varies.

Components of a row (`doxa.structure.cases.incomplete.blocks`) of few joint values are drawn from their exact
distribution; larger ones a cell at a time along the graph, from predictive probabilities.  The order of the rows is
that of the table, which knows nothing of the values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints, Words
from doxa.structure.cases.incomplete.blocks import (
    MOST_JOINT,
    RowWork,
    gather,
    n_joint,
    row_work,
    set_cell,
    tie_cells,
    weigh_block,
)
from doxa.structure.cases.incomplete.families import (
    Families,
    add_case,
    case_probability,
    config_of,
    count_all,
    lay_out,
    log_of_counts,
    no_families,
    with_room,
)
from doxa.structure.cases.incomplete.missing_cells import Completion, IncompleteData, completion_of
from doxa.structure.cases.incomplete.sweep import draw_place
from doxa.structure.families.counting import Rule
from doxa.structure.priors import family_log_prior

__all__ = ["log_summed"]


def log_summed(
    data: IncompleteData,
    parents: NDArray[np.uint64],
    rng: np.random.Generator,
    cells: NDArray[np.integer[Any]] | None = None,
) -> Floats:
    """Log of p(G) times the estimate of p(D | G), nats, for each of some graphs, with fresh cells or given ones.

    Parameters
    ----------
    data : IncompleteData
    parents : ndarray of uint64, shape (n, n_nodes, n_words)
        Sets of parents.
    rng : numpy.random.Generator
        Advanced where cells are drawn.
    cells : array of int, shape (n, n_missing), optional
        The missing cells that go with each graph; drawn when left out.

    Returns
    -------
    ndarray of float, shape (n,)
        The log of p(G, D, z) / q(z | G), p(G) up to its constant.
    """
    missing_cells = data.missing_cells
    completion = completion_of(missing_cells, np.zeros(missing_cells.n_missing, dtype=np.int16))
    work, graphs = row_work(missing_cells.n_states), np.ascontiguousarray(parents)
    values = np.zeros((len(graphs), 0), dtype=np.int16) if cells is None else np.asarray(cells, dtype=np.int16)
    if cells is not None and missing_cells.shared is not None:
        values = values[:, missing_cells.shared.owner]
    given = graphs, np.ascontiguousarray(values), missing_cells.row, missing_cells.column
    families = no_families(data.n_nodes, int(np.bitwise_count(graphs).sum(axis=(1, 2)).max(initial=0)))
    found, rules = np.empty(len(graphs)), (data.rule, data.prior.arrays)
    done, n_keys, n_counts = 0, 0, 0
    while done < len(graphs):
        done, n_keys, n_counts = _sum_graphs(done, given, rules, completion, families, work, found, rng)
        families = with_room(families, n_keys, n_counts)
    return found


Given = tuple[NDArray[np.uint64], NDArray[np.int16], Ints, Ints]  # graphs, values of cells or none, rows and columns
Rules = tuple[Rule, tuple[Floats, Floats]]  # of scores, and of the prior of graphs


@hot
def _sum_graphs(
    first: int, given: Given, rules: Rules, completion: Completion, families: Families, work: RowWork, found: Floats,
    rng: np.random.Generator,
) -> tuple[int, int, int]:  # fmt: skip
    """`log_summed` from the graph with this number to one whose counts want more room; its number, and the room."""
    (graphs, values, rows, columns), (rule, prior) = given, rules
    fresh = values.shape[1] == 0
    for k in range(first, found.size):
        for cell in range(values.shape[1]):
            set_cell(rows[cell], columns[cell], values[k, cell], completion)
        n_keys, n_counts = lay_out(graphs[k], completion, rule, families)
        if n_keys > families.keys.size or n_counts > families.counts.size:
            return k, max(n_keys, families.keys.size), max(n_counts, families.counts.size)
        count_all(completion, families)
        found[k] = _put_in(completion, families, work, fresh, rng) + _log_prior(graphs[k], prior)
    return found.size, 0, 0


@hot
def _log_prior(parents: Words, prior: tuple[Floats, Floats]) -> float:
    total = 0.0
    for node in range(parents.shape[0]):
        total += family_log_prior(node, parents[node], prior)
    return total


@hot
def _put_in(completion: Completion, families: Families, work: RowWork, fresh: bool, rng: np.random.Generator) -> float:
    """Log of p(D, z | G) / q(z | G); ``families`` hold all rows at first, and again in the end."""
    n_incomplete = completion.rows.shape[0]
    for i in range(n_incomplete):
        _add_row(i, -1, completion, families)
    total = 0.0
    for node in range(completion.n_states.size):
        begin, r = families.first_count[node], completion.n_states[node]
        end = begin + families.slots[node] * (r + 1)
        total += log_of_counts(families.counts, begin, end, r, families.prior_cell[node], families.prior_config[node])
    for i in range(n_incomplete):
        m = tie_cells(i, completion, families, work)
        for a in range(m):
            if work.root[a] == a:
                size, _ = gather(a, m, families, work)
                if n_joint(0, size, completion, work) <= MOST_JOINT or size == 1:
                    total -= _take_block(i, size, fresh, completion, families, work, rng)
                else:
                    total -= _take_along(i, size, fresh, completion, families, work, rng)
        total += _log_row(i, completion, families)
        _add_row(i, 1, completion, families)
    return total


@hot
def _add_row(i: int, weight: int, completion: Completion, families: Families) -> None:
    codes = completion.rows[i]
    for node in range(codes.size):
        add_case(node, config_of(node, codes, families), codes[node], weight, completion.n_states[node], families)


@hot
def _log_row(i: int, completion: Completion, families: Families) -> float:
    """Log predictive probability of a row that is out of the counts."""
    codes, total = completion.rows[i], 0.0
    for node in range(codes.size):
        config = config_of(node, codes, families)
        total += np.log(case_probability(node, config, codes[node], completion.n_states[node], families))
    return total


@hot
def _take_block(
    i: int, size: int, fresh: bool, completion: Completion, families: Families, work: RowWork, rng: np.random.Generator
) -> float:
    """A component from its exact distribution given the rows that are in; the log probability of what it takes."""
    joint = weigh_block(i, 0, size, completion, families, work)
    chosen = draw_place(work.weights, joint, rng) if fresh else _standing(i, size, joint, completion, work)
    if chosen < 0:  # every value has probability 0, and so has the row
        return 0.0
    mass = 0.0
    for c in range(joint):
        mass += work.weights[c]
    for k in range(size):
        set_cell(i, work.members[k], work.digits[k, chosen], completion)
    return float(np.log(work.weights[chosen] / mass))


@hot
def _standing(i: int, size: int, joint: int, completion: Completion, work: RowWork) -> int:
    """The joint value that stands in a component."""
    for c in range(joint):
        same = True
        for k in range(size):
            same = same and work.digits[k, c] == completion.rows[i, work.members[k]]
        if same:
            return c
    return -1


@hot
def _take_along(
    i: int, size: int, fresh: bool, completion: Completion, families: Families, work: RowWork, rng: np.random.Generator
) -> float:
    """A component a cell at a time, parents first; the log probability of what it takes."""
    total = 0.0
    for k in range(size):
        node = work.members[k]
        r, config = completion.n_states[node], config_of(node, completion.rows[i], families)
        for state in range(r):
            work.weights[state] = case_probability(node, config, state, r, families)
        if fresh:
            set_cell(i, node, draw_place(work.weights, r, rng), completion)
        total += np.log(work.weights[completion.rows[i, node]])
    return total
