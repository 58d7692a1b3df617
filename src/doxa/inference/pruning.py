"""What a question does not depend on: barren nodes, unconnected parts, factors within factors.

In a directed network, a node that is neither observed nor asked for, and has no descendant that is, sums to one and can
be left out, together with its table.  What is then not connected to the question by factors, observed variables having
been cut out of them, is independent of it given the evidence: it counts in the log evidence alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from doxa.models.factors import Factor

__all__ = ["ancestral", "connected_parts", "merged", "parents_first"]


def ancestral(parents: Sequence[Sequence[int]], nodes: Iterable[int]) -> set[int]:
    """Return ``nodes`` and all their ancestors.

    Examples
    --------
    >>> sorted(ancestral([(), (0,), (1,), (1,)], [3]))
    [0, 1, 3]
    """
    found = set(nodes)
    waiting = list(found)
    while waiting:
        new = [p for p in parents[waiting.pop()] if p not in found]
        found.update(new)
        waiting += new
    return found


def parents_first(parents: Sequence[Sequence[int]], nodes: Iterable[int]) -> tuple[int, ...]:
    """Return ``nodes`` with parents before children; ties as given.

    Examples
    --------
    >>> parents_first([(1,), (2,), ()], [0, 1, 2])
    (2, 1, 0)
    """
    waiting = dict.fromkeys(nodes, 0)
    children: dict[int, list[int]] = {}
    for node in waiting:
        for parent in parents[node]:
            if parent in waiting:
                waiting[node] += 1
                children.setdefault(parent, []).append(node)
    order = [node for node, n_waiting in waiting.items() if not n_waiting]
    for node in order:  # grows as it goes
        for child in children.get(node, ()):
            waiting[child] -= 1
            if not waiting[child]:
                order.append(child)
    return tuple(order)


def connected_parts(variables: Iterable[int], factors: Iterable[Factor]) -> dict[int, int]:
    """Return for every variable one that stands for all those that factors connect it to.

    Examples
    --------
    >>> pair = np.zeros((2, 2))
    >>> connected_parts([0, 1, 2, 3], [Factor((0, 2), pair), Factor((3, 2), pair)])
    {0: 2, 1: 1, 2: 2, 3: 2}
    """
    owner = {v: v for v in variables}

    def root(v: int) -> int:
        while owner[v] != v:
            owner[v] = v = owner[owner[v]]
        return v

    for factor in factors:
        for v in factor.variables[1:]:
            owner[root(factor.variables[0])] = root(v)
    return {v: root(v) for v in owner}


def merged(factors: Iterable[Factor]) -> list[Factor]:
    """Add every factor to the smallest one that has all its variables, if there is one.

    What is merged with what depends on variables and shapes alone, not on values; arguments are left as they are.

    Examples
    --------
    >>> [factor] = merged([Factor((1,), np.array([1.0, 2.0])), Factor((0, 1), np.zeros((2, 2)))])
    >>> factor.variables, factor.log_values.tolist()
    ((0, 1), [[1.0, 2.0], [1.0, 2.0]])
    """
    hosts: list[Factor] = []
    guests: dict[int, list[Factor]] = {}
    by_variable: dict[int, list[int]] = {}
    for factor in sorted(factors, key=lambda factor: -len(factor.variables)):
        lists = [by_variable.get(v, []) for v in factor.variables]
        fitting = [h for h in min(lists, key=len) if all(v in hosts[h].variables for v in factor.variables)]
        if fitting:
            guests.setdefault(min(fitting, key=lambda h: hosts[h].log_values.size), []).append(factor)
            continue
        for v in factor.variables:
            by_variable.setdefault(v, []).append(len(hosts))
        hosts.append(factor)
    return [_sum(host, guests[h]) if h in guests else host for h, host in enumerate(hosts)]


def _sum(host: Factor, guests: Sequence[Factor]) -> Factor:
    total = host.log_values.copy()
    for variables, log_values in guests:
        places = [host.variables.index(v) for v in variables]
        shape = [1] * total.ndim
        for place, size in zip(places, log_values.shape, strict=True):
            shape[place] = size
        total += log_values.transpose(np.argsort(places)).reshape(shape)
    return Factor(host.variables, total)
