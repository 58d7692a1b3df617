r"""Predictive probabilities of a class by the average of many networks, given features of which some may be missing.

.. math:: p(y \mid x, D) = \frac{\sum_G P(G \mid D)\, p(y, x \mid G, D)}{\sum_G P(G \mid D)\, p(x \mid G, D)},

as `doxa.structure.averaging.predict` has it, for one column and many rows.  For each network there is log p(class,
observed features), what is missing summed out.  Missing features that nothing observed depends on are left out; the
others fall into parts that the observed ones and the class separate, and the states of each part are listed, as in
`doxa.structure.averaging.rows`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Flags, Floats, Ints
from doxa.structure.averaging.draws import NetworkDraws
from doxa.structure.averaging.predict import extended
from doxa.structure.averaging.rows import (
    Parts,
    RowProbabilities,
    find_part,
    join,
    list_states,
    room_for_parts,
)

__all__ = ["ClassProbabilities", "class_probabilities"]


_LIMIT = 4096  # states of a part: beyond it an elimination is quicker


class _Networks(NamedTuple):
    """Networks, and the tables of their families."""

    family: Any  # (n_networks, n_nodes)
    offset: Any  # (n_networks, n_nodes)
    log_count: Any  # (n_networks,) how many are equal
    first: Any  # (n_families + 1,) of the members
    member: Any  # the child last
    stride: Any
    class_stride: Any  # (n_families,) 0 where the class is no member
    values: Any  # logs of probabilities


class _Work(NamedTuple):
    """Room for one row."""

    within: Any  # (n_families,) where in its table each family is by what was observed
    n_missing_cells: Any  # (n_families,)
    kept: Any  # (n_nodes,)
    stack: Any  # (n_nodes,)
    tilt: Any  # (n_nodes,) class strides of the tables with missing cells
    joint: Any  # (n_networks, n_classes)
    parts: Parts


class ClassProbabilities(RowProbabilities):
    """All posterior mean tables of networks, laid out for predicting the last column; equal networks are one."""

    def __init__(self, draws: NetworkDraws) -> None:
        super().__init__(draws)
        both = np.concatenate([self._family, self._offset], axis=1)
        _, one_of, counts = np.unique(both, axis=0, return_index=True, return_counts=True)
        first, member, stride = self._layout
        class_stride = np.zeros(len(first) - 1, dtype=np.int64)
        here = np.flatnonzero(member == len(draws.names) - 1)
        class_stride[np.searchsorted(first, here, side="right") - 1] = stride[here]
        self._networks = _Networks(
            self._family[one_of],
            self._offset[one_of],
            np.log(counts),
            first,
            member,
            stride,
            class_stride,
            self._values,
        )

    def classes(self, codes: NDArray[np.int64]) -> Floats:
        """Probabilities of every class in every row of codes, shape (n_rows, n_nodes), -1 where missing.

        The codes of the class, the last column, are not read.  Raises `BudgetError` if a network is too wide.
        """
        n, n_families = len(self.draws.names), len(self._networks.class_stride)
        sizes = np.array(self.draws.n_states, dtype=np.int64)
        within, n_missing_cells = np.empty((2, n_families), dtype=np.int64)
        stack, tilt = np.empty((2, n), dtype=np.int64)
        joint = np.empty((len(self._networks.family), sizes[-1]))
        kept = np.empty(n, dtype=np.bool_)
        work = _Work(within, n_missing_cells, kept, stack, tilt, joint, room_for_parts(n, n, _LIMIT))
        probabilities = np.empty((len(codes), int(sizes[-1])))
        networks = _Networks(*map(_to_be_read, self._networks))
        _average_classes(np.ascontiguousarray(codes), sizes, networks, work, probabilities)
        for i in np.flatnonzero(np.isnan(probabilities[:, 0])).tolist():
            probabilities[i] = self._by_elimination(codes[i])
        return probabilities

    def _by_elimination(self, row: NDArray[np.int64]) -> Floats:
        """One row with too much missing to list."""
        missing_cells = [*np.flatnonzero(row[:-1] < 0).tolist(), len(row) - 1]
        log_weight, found = self.of(row, missing_cells)
        weight = np.exp(log_weight - log_weight.max())
        averaged = weight @ found[:, -self.draws.n_states[-1] :]
        return np.asarray(averaged / averaged.sum())


def _to_be_read(array: NDArray[Any]) -> NDArray[Any]:
    """A view that nothing writes through, as of an array on the disk: one form of array is compiled for, not two."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def class_probabilities(known: ClassProbabilities, codes: NDArray[np.int64]) -> Floats:
    """Probabilities of every class, (n_rows, n_classes); rows may have states that the table does not.

    Such a state gets the prior's share: as if the column had been declared with one more state that no case was in.
    """
    is_new = codes >= np.array(known.draws.n_states)
    kinds, group = np.unique(is_new, axis=0, return_inverse=True)
    probabilities = np.empty((len(codes), known.draws.n_states[-1]))
    for k, columns in enumerate(kinds):
        rows = np.flatnonzero(group.ravel() == k)
        own = known
        if columns.any():
            table = extended(known.draws.completed.table, np.flatnonzero(columns).tolist())
            own = ClassProbabilities(known.draws.with_table(table))
        distinct, place = np.unique(codes[rows], axis=0, return_inverse=True)
        probabilities[rows] = own.classes(distinct)[place.ravel()]
    return probabilities


@hot
def _average_classes(rows: Ints, sizes: Ints, networks: _Networks, work: _Work, probabilities: Floats) -> None:
    """Fill p(class | features), averaged over networks by how probable they make the features; nan: too many states."""
    log_count, joint = networks.log_count, work.joint
    n_classes = sizes[sizes.size - 1]
    for i in range(rows.shape[0]):
        row = rows[i]
        some = _place_families(row, networks, work)
        peak = -math.inf
        for t in range(log_count.size):
            for c in range(n_classes):
                joint[t, c] = log_count[t]
            if some:
                _add_incomplete(t, row, sizes, networks, work)
            else:
                _add_complete(t, networks, work)
            for c in range(n_classes):
                peak = max(peak, joint[t, c])
        total = 0.0
        for c in range(n_classes):
            mass = 0.0
            for t in range(log_count.size):
                mass += math.exp(joint[t, c] - peak)
            probabilities[i, c] = mass
            total += mass
        for c in range(n_classes):
            probabilities[i, c] /= total


@hot
def _place_families(row: Ints, networks: _Networks, work: _Work) -> bool:
    """Where in its table each family is by what was observed, and how many of its members are missing."""
    within, n_missing_cells = work.within, work.n_missing_cells
    first, member, stride = networks.first, networks.member, networks.stride
    label = row.size - 1
    some = False
    for f in range(within.size):
        within[f], n_missing_cells[f] = 0, 0
        for e in range(first[f], first[f + 1]):
            j = member[e]
            if j == label:
                continue
            if row[j] < 0:
                n_missing_cells[f] += 1
                some = True
            else:
                within[f] += row[j] * stride[e]
    return some


@hot
def _add_complete(t: int, networks: _Networks, work: _Work) -> None:
    within, joint = work.within, work.joint
    family, offset, class_stride, values = networks.family, networks.offset, networks.class_stride, networks.values
    total = 0.0
    for node in range(family.shape[1]):
        f = family[t, node]
        place, tilt = offset[t, node] + within[f], class_stride[f]
        if tilt == 0:
            total += values[place]
        else:
            for c in range(joint.shape[1]):
                joint[t, c] += values[place + c * tilt]
    for c in range(joint.shape[1]):
        joint[t, c] += total


@hot
def _add_incomplete(t: int, row: Ints, sizes: Ints, networks: _Networks, work: _Work) -> None:
    """The same where features are missing."""
    family, first, member, values = networks.family, networks.first, networks.member, networks.values
    joint, kept, parts = work.joint, work.kept, work.parts
    owner, step = parts.owner, parts.step
    label = row.size - 1
    _keep_ancestors(t, row, networks, kept, work.stack)
    for j in range(row.size):
        owner[j] = j if kept[j] and row[j] < 0 and j != label else -1
    n_dependent, total = 0, 0.0
    for node in range(row.size):
        if not kept[node]:
            continue
        f = family[t, node]
        place, slope = networks.offset[t, node] + work.within[f], networks.class_stride[f]
        if work.n_missing_cells[f] > 0:
            missing_cell = -1
            for j in range(row.size):
                step[n_dependent, j] = 0
            for e in range(first[f], first[f + 1]):
                j = member[e]
                if j != label and row[j] < 0:
                    step[n_dependent, j] = networks.stride[e]
                    if missing_cell >= 0:
                        join(owner, missing_cell, j)
                    missing_cell = j
            parts.base[n_dependent], work.tilt[n_dependent], parts.part[n_dependent] = place, slope, missing_cell
            n_dependent += 1
        elif slope == 0:
            total += values[place]
        else:
            for c in range(joint.shape[1]):
                joint[t, c] += values[place + c * slope]
    for j in range(label):
        if owner[j] == j:
            _add_part(find_part(j, sizes, n_dependent, parts), sizes, values, work.tilt, parts, joint[t])
    for c in range(joint.shape[1]):
        joint[t, c] += total


@hot
def _keep_ancestors(t: int, row: Ints, networks: _Networks, kept: Flags, stack: Ints) -> None:
    """Mark what was observed, the class, and all their ancestors: the rest sums to one."""
    family, first, member = networks.family, networks.first, networks.member
    top = 0
    for j in range(row.size):
        kept[j] = row[j] >= 0 or j == row.size - 1
        if kept[j]:
            stack[top] = j
            top += 1
    while top > 0:
        top -= 1
        f = family[t, stack[top]]
        for e in range(first[f], first[f + 1] - 1):
            if not kept[member[e]]:
                kept[member[e]] = True
                stack[top] = member[e]
                top += 1


@hot
def _add_part(
    found: tuple[int, int, int], sizes: Ints, values: Floats, tilt: Ints, parts: Parts, joint: Floats
) -> None:
    """Add the log of the sum over the states of one part, for every class."""
    n_cases, n_cells, n_own = found
    same = True  # for every class
    for d in range(n_own):
        same = same and tilt[parts.own[d]] == 0
    log_sum = math.nan
    for c in range(joint.size):
        if n_cases > 0 and (c == 0 or not same):
            for d in range(n_own):
                parts.at[d] = parts.base[parts.own[d]] + c * tilt[parts.own[d]]
            peak = list_states(n_cases, n_cells, n_own, sizes, values, parts)
            total = 0.0
            for case in range(n_cases):
                total += math.exp(parts.logs[case] - peak)
            log_sum = peak + math.log(total)
        joint[c] += log_sum
