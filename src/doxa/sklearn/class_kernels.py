"""Probabilities of classes by the average of many networks, row by row: the compiled loop.

For each network there is log p(class, observed features), what is missing summed out.  Missing features that nothing
observed depends on are left out; the others fall into parts that the observed ones and the class separate, and the
states of each part are listed.
"""

from __future__ import annotations

import math
from typing import Any

from doxa._jit import hot

__all__ = ["average_classes"]


@hot
def average_classes(rows: Any, sizes: Any, networks: Any, tables: Any, limit: int, work: Any, chances: Any) -> None:
    """Fill p(class | features), averaged over networks by how probable they make the features.

    Parameters
    ----------
    rows : (n_rows, n_nodes) codes, -1 where missing; the class is the last node, and its code is not read
    sizes : (n_nodes,) states of each node
    networks : family (n_networks, n_nodes); offset (n_networks, n_nodes); log_count (n_networks,), how many are equal
    tables : first (n_families + 1,), member and stride, child last among the members; class_stride (n_families,), 0
        where the class is no member; log values
    limit : most states of a part to list; rows that need more get nan work : within, n_missing_cells (n_families,);
    kept, owner, digit, stack (n_nodes,); base, tilt, part, at, own (n_nodes,);
        step (n_nodes, n_nodes); logs (limit,); joint (n_networks, n_classes)
    probabilities : (n_rows, n_classes): written
    """
    log_count, joint = networks[2], work[13]
    n_classes = sizes[sizes.size - 1]
    for i in range(rows.shape[0]):
        row = rows[i]
        some = _place_families(row, tables, work[0], work[1])
        peak = -math.inf
        for t in range(log_count.size):
            for c in range(n_classes):
                joint[t, c] = log_count[t]
            if some:
                _add_incomplete(t, row, sizes, networks, tables, limit, work)
            else:
                _add_complete(t, networks, tables, work[0], joint)
            for c in range(n_classes):
                peak = max(peak, joint[t, c])
        total = 0.0
        for c in range(n_classes):
            mass = 0.0
            for t in range(log_count.size):
                mass += math.exp(joint[t, c] - peak)
            chances[i, c] = mass
            total += mass
        for c in range(n_classes):
            chances[i, c] /= total


@hot
def _place_families(row: Any, tables: Any, within: Any, n_missing_cells: Any) -> bool:
    """Where in its table each family is by what was observed, and how many of its members are missing."""
    first, member, stride = tables[0], tables[1], tables[2]
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
def _add_complete(t: int, networks: Any, tables: Any, within: Any, joint: Any) -> None:
    family, offset = networks[0], networks[1]
    class_stride, values = tables[3], tables[4]
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
def _add_incomplete(t: int, row: Any, sizes: Any, networks: Any, tables: Any, limit: int, work: Any) -> None:
    """The same where features are missing."""
    within, n_missing_cells, kept, owner, digit, stack, base, tilt, part, at, own, step, logs, joint = work
    family, offset = networks[0], networks[1]
    first, member, stride, class_stride, values = tables
    label = row.size - 1
    _keep_ancestors(t, row, family, first, member, kept, stack)
    for j in range(row.size):
        owner[j] = j
    n_dependent, total = 0, 0.0
    for node in range(row.size):
        if not kept[node]:
            continue
        f = family[t, node]
        place, slope = offset[t, node] + within[f], class_stride[f]
        if n_missing_cells[f] > 0:
            missing_cell = -1
            for j in range(row.size):
                step[n_dependent, j] = 0
            for e in range(first[f], first[f + 1]):
                j = member[e]
                if j != label and row[j] < 0:
                    step[n_dependent, j] = stride[e]
                    if missing_cell >= 0:
                        owner[_root(owner, missing_cell)] = _root(owner, j)
                    missing_cell = j
            base[n_dependent], tilt[n_dependent], part[n_dependent] = place, slope, missing_cell
            n_dependent += 1
        elif slope == 0:
            total += values[place]
        else:
            for c in range(joint.shape[1]):
                joint[t, c] += values[place + c * slope]
    for j in range(label):
        if kept[j] and row[j] < 0 and _root(owner, j) == j:
            _add_part(
                t, j, row, sizes, values, limit, n_dependent, kept, owner, digit, stack, base, tilt, part, at, own,
                step, logs, joint,
            )  # fmt: skip
    for c in range(joint.shape[1]):
        joint[t, c] += total


@hot
def _keep_ancestors(t: int, row: Any, family: Any, first: Any, member: Any, kept: Any, stack: Any) -> None:
    """Mark what was observed, the class, and all their ancestors: the rest sums to one."""
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
def _root(owner: Any, j: int) -> int:
    while owner[j] != j:
        j = owner[j]
    return j


@hot
def _add_part(
    t: int, root: int, row: Any, sizes: Any, values: Any, limit: int, n_dependent: int, kept: Any, owner: Any,
    digit: Any, missing_cells: Any, base: Any, tilt: Any, part: Any, at: Any, own: Any, step: Any, logs: Any,
    joint: Any,
) -> None:  # fmt: skip
    """Add the log of the sum over the states of one part, for every class."""
    n_cases, n_own, n_free = 1, 0, 0
    for j in range(row.size - 1):
        if kept[j] and row[j] < 0 and _root(owner, j) == root:
            missing_cells[n_free] = j
            n_free += 1
            n_cases *= sizes[j]
            if n_cases > limit:
                for c in range(joint.shape[1]):
                    joint[t, c] = math.nan
                return
    same = True  # for every class
    for d in range(n_dependent):
        if _root(owner, part[d]) == root:
            own[n_own] = d
            n_own += 1
            same = same and tilt[d] == 0
    for c in range(joint.shape[1]):
        if c == 0 or not same:
            for k in range(n_free):
                digit[k] = 0
            for d in range(n_own):
                at[d] = base[own[d]] + c * tilt[own[d]]
            log_sum = _sum_part(n_cases, n_free, n_own, missing_cells, sizes, values, digit, at, own, step, logs)
        joint[t, c] += log_sum


@hot
def _sum_part(
    n_cases: int, n_free: int, n_own: int, missing_cells: Any, sizes: Any, values: Any, digit: Any, at: Any, own: Any,
    step: Any, logs: Any,
) -> float:  # fmt: skip
    peak = -math.inf
    for case in range(n_cases):
        log_p = 0.0
        for d in range(n_own):
            log_p += values[at[d]]
        logs[case] = log_p
        peak = max(peak, log_p)
        for k in range(n_free):  # on to the next states
            j = missing_cells[k]
            digit[k] += 1
            around = digit[k] == sizes[j]
            move = 1 - sizes[j] if around else 1
            for d in range(n_own):
                at[d] += move * step[own[d], j]
            if not around:
                break
            digit[k] = 0
    total = 0.0
    for case in range(n_cases):
        total += math.exp(logs[case] - peak)
    return peak + math.log(total)
