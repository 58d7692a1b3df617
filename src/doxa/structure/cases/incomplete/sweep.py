r"""One sweep over the missing cells: every component of every row is redrawn, given the graph and all else.

A component with up to `MOST_JOINT` joint values is drawn exactly.  A larger one is drawn a block at a time, each block
exactly given the rest, and then offered an *independence* move: all its cells drawn along the graph, parents first,
from their predictive probabilities, accepted with probability

.. math:: \min\Big\{1, \prod_f \frac{p_f(\text{new})}{p_f(\text{old})}\Big\},

f running over the affected families whose own cell is observed: the factors of the cells' own families are those of the
proposal.  Where there is no such family, as in a row of which nothing is known, the proposal is an exact draw.

At an inverse temperature below 1 the target is the posterior to that power, and so are all these probabilities.  Those
that a cell is proposed from then sum to some :math:`Z_c`, which depends on the values of its parents, and the fraction
is multiplied by :math:`\prod_c Z_c(\text{new}) / Z_c(\text{old})`, c running over the cells.

The states of a hidden column have no meaning of their own, and priors that weigh all cells of a family alike treat them
alike; `swap_labels` exchanges two of them, which leaves the posterior as it is.
"""

from __future__ import annotations

import numpy as np

from doxa._jit import branching, hot
from doxa.arrays import Floats, Ints
from doxa.structure.cases.incomplete.blocks import (
    MOST_JOINT,
    RowWork,
    end_of_block,
    gather,
    move_case,
    n_joint,
    set_cell,
    tie_cells,
    to_power,
    weigh_block,
)
from doxa.structure.cases.incomplete.families import Families, case_probability, config_of, recount
from doxa.structure.cases.incomplete.missing_cells import Completion

__all__ = [
    "draw_place",
    "log_fixed",
    "log_masses",
    "redraw_block",
    "redraw_independently",
    "redraw_row",
    "swap_labels",
    "sweep_cells",
]


@branching
def sweep_cells(
    completion: Completion, families: Families, work: RowWork, info: Ints, rng: np.random.Generator
) -> None:
    """Redraw every missing cell; ``info`` counts independence proposals made and accepted."""
    for i in range(completion.rows.shape[0]):
        redraw_row(i, completion, families, work, info, rng)


@hot
def redraw_row(
    i: int, completion: Completion, families: Families, work: RowWork, info: Ints, rng: np.random.Generator
) -> None:
    """Redraw the missing cells of one row, component by component."""
    m = tie_cells(i, completion, families, work)
    for a in range(m):
        if work.root[a] != a:
            continue
        size, n_affected = gather(a, m, families, work)
        move_case(i, n_affected, -1, completion, families, work)
        if n_joint(0, size, completion, work) <= MOST_JOINT or size == 1:
            redraw_block(i, 0, size, completion, families, work, rng)
        else:
            begin = 0
            while begin < size and (n_affected > size or work.beta != 1.0):
                end = end_of_block(begin, size, completion, work)
                redraw_block(i, begin, end, completion, families, work, rng)
                begin = end
            info[0] += 1
            info[1] += redraw_independently(i, size, n_affected, completion, families, work, rng)
        move_case(i, n_affected, 1, completion, families, work)


@hot
def redraw_block(
    i: int, begin: int, end: int, completion: Completion, families: Families, work: RowWork, rng: np.random.Generator
) -> None:
    """Draw members ``begin`` to ``end`` jointly, given the rest of the row, which is out of the counts."""
    joint = weigh_block(i, begin, end, completion, families, work)
    chosen = draw_place(work.weights, joint, rng)
    if chosen >= 0:
        for k in range(begin, end):
            set_cell(i, work.members[k], work.digits[k, chosen], completion)


@hot
def draw_place(weights: Floats, size: int, rng: np.random.Generator) -> int:
    """A place drawn by weight; -1 if the weights have no sum to draw by."""
    total = 0.0
    for c in range(size):
        total += weights[c]
    if not total > 0.0:
        return -1
    left = rng.random() * total
    last = 0
    for c in range(size):
        if weights[c] > 0.0:
            last = c
            left -= weights[c]
            if left < 0.0:
                return c
    return last  # rounding


@hot
def log_fixed(i: int, size: int, n_affected: int, completion: Completion, families: Families, work: RowWork) -> float:
    """Log predictive probability of the affected families whose own cell is observed."""
    codes = completion.rows[i]
    total = 0.0
    for k in range(size, n_affected):
        node = work.affected[k]
        config = config_of(node, codes, families)
        total += np.log(case_probability(node, config, codes[node], completion.n_states[node], families))
    return total


@hot
def log_masses(i: int, size: int, completion: Completion, families: Families, work: RowWork) -> float:
    """Log of the product of what each member's probabilities, to the power, sum to, given the values that stand."""
    if work.beta == 1.0:
        return 0.0
    codes = completion.rows[i]
    total = 0.0
    for k in range(size):
        node = work.members[k]
        config, r, mass = config_of(node, codes, families), completion.n_states[node], 0.0
        for state in range(r):
            mass += case_probability(node, config, state, r, families) ** work.beta
        total += np.log(mass)
    return total


@hot
def redraw_independently(
    i: int,
    size: int,
    n_affected: int,
    completion: Completion,
    families: Families,
    work: RowWork,
    rng: np.random.Generator,
) -> bool:
    """Offer the component new values drawn along the graph; True if they were accepted."""
    codes = completion.rows[i]
    fixed = log_fixed(i, size, n_affected, completion, families, work)
    masses = log_masses(i, size, completion, families, work)
    for k in range(size):
        node = work.members[k]
        work.before[k] = codes[node]
        r = completion.n_states[node]
        config = config_of(node, codes, families)
        for state in range(r):
            work.weights[state] = to_power(case_probability(node, config, state, r, families), work.beta)
        set_cell(i, node, draw_place(work.weights, r, rng), completion)
    log_ratio = work.beta * (log_fixed(i, size, n_affected, completion, families, work) - fixed)
    log_ratio += log_masses(i, size, completion, families, work) - masses
    if log_ratio >= 0.0 or np.log1p(-rng.random()) < log_ratio:
        return True
    for k in range(size):
        set_cell(i, work.members[k], work.before[k], completion)
    return False


@hot
def swap_labels(column: int, a: int, b: int, completion: Completion, families: Families) -> None:
    """Exchange two states of a hidden column, and count its family and its children's again."""
    for i in range(completion.rows.shape[0]):
        state = completion.rows[i, column]
        if state == a:
            set_cell(i, column, b, completion)
        elif state == b:
            set_cell(i, column, a, completion)
    recount(column, completion, families)
    for e in range(families.child_first[column], families.child_first[column + 1]):
        recount(families.child[e], completion, families)
