"""What compiled loops need to score logistic families: fixed nodes, shared, and work space, one set a chain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.structure.families.logistic.nodes import REPLICATES, Nodes, nodes_for

__all__ = ["CHUNK", "MOST_PARENTS", "LogisticWork", "logistic_work"]

MOST_PARENTS = 63  # the nodes have a column for each and one for the bias
CHUNK = 128  # nodes that are weighed together: a few kilobytes
_FEWEST_LABELS = 4096

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]


class LogisticWork(NamedTuple):
    """Work space of `doxa.structure.families.logistic.evidence`; every family overwrites all of it but ``report``."""

    nodes: Nodes
    labels: _Integers  # (n_rows,): of each row, its configuration
    keys: _Integers  # hash table that renumbers labels
    names: _Integers
    parents: _Integers  # (MOST_PARENTS,): those that vary
    row: _Integers  # (n_labels,): a row that has the configuration
    successes: _Floats  # (n_labels,): cases with the child in its second state
    cases: _Floats  # (n_labels,)
    logit: _Floats  # (n_labels,): at the mode
    skewness: _Floats  # (n_labels,): third derivative of the log likelihood in the logit
    left: _Floats  # (n_labels,): squared length of what the axes chosen so far leave of a logit's direction
    along: _Floats  # (n_labels,): logits along one axis
    mean: _Floats  # (d,), d = MOST_PARENTS + 1
    trial: _Floats  # (d,)
    step: _Floats  # (d,)
    precision: _Floats  # (d, d); below, its Cholesky factor
    axes: _Floats  # (d, d): a row is an axis in coordinates where the precision is 1
    frame: _Floats  # (d, d): a row is an axis, of standard length
    centre: _Floats  # (d,): scale of an axis
    tilt: _Floats  # (d,): half the difference of its scales to the right and to the left
    moved: _Floats  # (d, CHUNK)
    growth: _Floats  # (d, CHUNK): exponentials of logits, see `doxa.structure.families.logistic.evidence`
    product: _Floats  # (CHUNK,)
    weighted: _Floats  # (CHUNK,)
    logits: _Floats  # (CHUNK,)
    exponents: _Floats  # (CHUNK,)
    weights: _Floats  # (CHUNK,)
    sums: _Floats  # (REPLICATES,)
    report: _Floats  # (6,): families, largest error, sum of squares, how many beyond the tolerance; last error, nodes


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
