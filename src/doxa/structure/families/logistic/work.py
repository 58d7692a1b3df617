r"""What compiled loops need to score logistic families: fixed nodes, shared, and work space, one set a chain.

The fixed nodes at which logistic families are weighed: one shifted lattice, as standard normals.

The points :math:`\{i g / n\}` of a rank-1 lattice with generating vector g, moved by a random vector modulo 1 (Cranley
& Patterson 1976), folded by the tent map (Hickernell 2002) and taken through the normal quantile, integrate smooth
functions far better than independent draws.  In the order of the reversed binary digits of i the first :math:`2^m`
points are a lattice themselves, so a level continues the one before; and each sixteenth of these, in order, is a
shifted copy of the lattice with :math:`2^{m - 4}` points.  The spread of the sixteen means says how good so small a
lattice is, and their common lattice is better: the standard error that the spread gives is too large rather than too
small, but for integrands so rough that a lattice gains nothing, and there it is right.

Shift and generator are the same numbers for every family of every run: a score is a function of the counts alone.

The cells of a binary family: for each configuration of the parents that occurs, its successes and cases.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined, lowest_bit
from doxa.arrays import Floats, Ints, Words
from doxa.structure.families.counting import relabel
from doxa.structure.families.kind import Data

__all__ = [
    "CHUNK",
    "LEVELS",
    "MOST_PARENTS",
    "REPLICATES",
    "LogisticWork",
    "Nodes",
    "gather_cells",
    "logistic_work",
    "logit_of",
    "nodes_for",
]


@hot
def gather_cells(child: int, parents: Words, data: Data, work: LogisticWork) -> tuple[int, int]:
    """Count the family of ``child`` with the bit set ``parents``; returns the number of cells and of varying parents.

    ``data`` is (columns, counts, n_states) of a complete table.  Parents with a single state say nothing and are left
    out.  Fills ``work.parents``, and of each cell ``work.row``, ``work.successes`` and ``work.cases``.
    """
    columns, weights, n_states = data
    labels, row_of, successes, cases = work.labels, work.row, work.successes, work.cases
    n_parents = 0
    size = 1
    labels[:] = 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if n_states[parent] < 2:
                continue
            work.parents[n_parents] = parent
            n_parents += 1
            if 2 * size > cases.size:
                size = relabel(labels, work.keys, work.names)
            column = columns[parent]
            for row in range(labels.size):
                labels[row] = 2 * labels[row] + column[row]
            size *= 2
    for label in range(size):
        successes[label] = 0.0
        cases[label] = 0.0
    column = columns[child]
    for row in range(labels.size):
        label = labels[row]
        weight = float(weights[row])
        cases[label] += weight
        successes[label] += weight * column[row]
        row_of[label] = row
    n_cells = 0
    for label in range(size):
        if cases[label] > 0.0:
            row_of[n_cells], successes[n_cells], cases[n_cells] = row_of[label], successes[label], cases[label]
            n_cells += 1
    return n_cells, n_parents


@inlined
def logit_of(cell: int, n_parents: int, coefficients: Floats, columns: NDArray[np.int16], work: LogisticWork) -> float:
    """Bias plus or minus the coefficient of each parent, in the state that the cell has of it."""
    row = work.row[cell]
    total = coefficients[0]
    for j in range(n_parents):
        if columns[work.parents[j], row] != 0:
            total += coefficients[j + 1]
        else:
            total -= coefficients[j + 1]
    return total  # type: ignore[no-any-return]


REPLICATES = 16
LEVELS = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_SHIFT_SEED = 2001
# Chosen component by component among 160 random odd numbers: the least of the largest, over the levels, of the
# worst-case error in the Korobov space of smoothness 2 with weights 1 / j, relative to the median of the candidates.
_GENERATOR = (
    1, 19305, 21917, 9591, 20297, 32573, 31575, 14737, 13127, 11427, 10137, 25167, 2429, 7235, 1495, 12029,
    5693, 12035, 21751, 20393, 32329, 3107, 2749, 6415, 93, 5821, 27351, 2947, 6365, 11325, 1411, 27619,
    25053, 30781, 29, 25245, 16803, 8637, 579, 23811, 2691, 22019, 14499, 6947, 27299, 28285, 3517, 5405,
    20003, 515, 3203, 22211, 17027, 3427, 29501, 17699, 14691, 24035, 23523, 27651, 21245, 18461, 2621, 4739,
)  # fmt: skip
_made: dict[int, Nodes] = {}
_lock = threading.Lock()


class Nodes(NamedTuple):
    """``d`` rows are enough for as many coefficients."""

    value: NDArray[np.float64]  # (d, n): standard normals z
    bend: NDArray[np.float64]  # (d, n): sqrt(1 + z^2) - 1
    levels: NDArray[np.int64]  # (n_levels,): numbers of nodes, each twice or four times the one before


def nodes_for(n_dimensions: int) -> Nodes:
    """The nodes for up to ``n_dimensions`` coefficients, at most 64; made once a process.

    The first rows are the same whatever the number.

    Examples
    --------
    >>> nodes_for(2).value.shape
    (2, 32768)
    """
    with _lock:
        if n_dimensions not in _made:
            _made[n_dimensions] = _make(n_dimensions)
        return _made[n_dimensions]


def _make(n_dimensions: int) -> Nodes:
    from scipy.special import ndtri

    n = LEVELS[-1]
    n_bits = n.bit_length() - 1
    order = np.zeros(n, dtype=np.int64)
    for bit in range(n_bits):
        order |= (np.arange(n) >> bit & 1) << (n_bits - 1 - bit)
    shift = np.random.default_rng(_SHIFT_SEED).random(len(_GENERATOR))[:n_dimensions]
    generator = np.array(_GENERATOR[:n_dimensions], dtype=np.int64)
    x = (generator[:, None] * order % n / n + shift[:, None]) % 1.0
    x = 1.0 - np.abs(2.0 * x - 1.0)
    value = ndtri(np.clip(x, 2.0**-50, 1.0 - 2.0**-50))
    return Nodes(value, np.sqrt(1.0 + value * value) - 1.0, np.array(LEVELS, dtype=np.int64))


MOST_PARENTS = 63  # the nodes have a column for each and one for the bias
CHUNK = 128  # nodes that are weighed together: a few kilobytes
_FEWEST_LABELS = 4096


class LogisticWork(NamedTuple):
    """Work space of `doxa.structure.families.logistic.evidence`; every family overwrites all of it but ``report``."""

    nodes: Nodes
    labels: Ints  # (n_rows,): of each row, its configuration
    keys: Ints  # hash table that renumbers labels
    names: Ints
    parents: Ints  # (MOST_PARENTS,): those that vary
    row: Ints  # (n_labels,): a row that has the configuration
    successes: Floats  # (n_labels,): cases with the child in its second state
    cases: Floats  # (n_labels,)
    logit: Floats  # (n_labels,): at the mode
    skewness: Floats  # (n_labels,): third derivative of the log likelihood in the logit
    left: Floats  # (n_labels,): squared length of what the axes chosen so far leave of a logit's direction
    along: Floats  # (n_labels,): logits along one axis
    mean: Floats  # (d,), d = MOST_PARENTS + 1
    trial: Floats  # (d,)
    step: Floats  # (d,)
    precision: Floats  # (d, d); below, its Cholesky factor
    axes: Floats  # (d, d): a row is an axis in coordinates where the precision is 1
    frame: Floats  # (d, d): a row is an axis, of standard length
    centre: Floats  # (d,): scale of an axis
    tilt: Floats  # (d,): half the difference of its scales to the right and to the left
    moved: Floats  # (d, CHUNK)
    growth: Floats  # (d, CHUNK): exponentials of logits, see `doxa.structure.families.logistic.evidence`
    product: Floats  # (CHUNK,)
    weighted: Floats  # (CHUNK,)
    logits: Floats  # (CHUNK,)
    exponents: Floats  # (CHUNK,)
    weights: Floats  # (CHUNK,)
    sums: Floats  # (REPLICATES,)
    report: Floats  # (6,): families, largest error, sum of squares, how many beyond the tolerance; last error, nodes


def logistic_work(n_rows: int, n_nodes: int) -> LogisticWork:
    """Work space for a table of ``n_rows`` distinct rows and ``n_nodes`` columns."""
    most = min(MOST_PARENTS, max(1, n_nodes - 1))
    d = most + 1
    n_labels = max(_FEWEST_LABELS, 2 * n_rows)
    slots = 1 << max(4, int(2 * n_rows - 1).bit_length())
    return LogisticWork(
        nodes=nodes_for(d),
        labels=np.zeros(n_rows, dtype=np.int64),
        keys=np.zeros(slots, dtype=np.int64),
        names=np.zeros(slots, dtype=np.int64),
        parents=np.zeros(most, dtype=np.int64),
        row=np.zeros(n_labels, dtype=np.int64),
        successes=np.zeros(n_labels),
        cases=np.zeros(n_labels),
        logit=np.zeros(n_labels),
        skewness=np.zeros(n_labels),
        left=np.zeros(n_labels),
        along=np.zeros(n_labels),
        mean=np.zeros(d),
        trial=np.zeros(d),
        step=np.zeros(d),
        precision=np.zeros((d, d)),
        axes=np.zeros((d, d)),
        frame=np.zeros((d, d)),
        centre=np.zeros(d),
        tilt=np.zeros(d),
        moved=np.zeros((d, CHUNK)),
        growth=np.zeros((d, CHUNK)),
        product=np.zeros(CHUNK),
        weighted=np.zeros(CHUNK),
        logits=np.zeros(CHUNK),
        exponents=np.zeros(CHUNK),
        weights=np.zeros(CHUNK),
        sums=np.zeros(REPLICATES),
        report=np.zeros(6),
    )
