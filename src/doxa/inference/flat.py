"""Tables end to end in flat arrays, as compiled loops read them; what several engines ask of tables and scopes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats, Ints
from doxa.errors import ArgumentError

__all__ = [
    "ancestral",
    "check_positions",
    "connected_parts",
    "cut",
    "drawn_columns",
    "end_to_end",
    "joined",
    "log_of",
    "over",
    "starts_of",
    "strides_of",
]


def starts_of(sizes: Iterable[int]) -> Ints:
    """Where things of these sizes begin when laid end to end, and where the last ends."""
    return np.concatenate([[0], np.cumsum(np.fromiter(sizes, dtype=np.int64))]).astype(np.int64)


def joined(parts: Iterable[Sequence[int] | Ints]) -> Ints:
    """Whole numbers end to end."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *(np.asarray(part, dtype=np.int64) for part in parts)])


def end_to_end(tables: Iterable[NDArray[Any]]) -> NDArray[np.float64]:
    """The entries of tables, one table after another."""
    return np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])


def strides_of(shape: Sequence[int]) -> Ints:
    """How far apart, in a flat array of this shape, the entries along every axis are; the last varies fastest."""
    return np.append(np.cumprod(np.array(shape[:0:-1], dtype=np.int64))[::-1], 1)[: len(shape)]


def over(values: NDArray[Any], scope: Sequence[int], axes: Sequence[int]) -> NDArray[Any]:
    """A view of a table over ``scope`` with an axis for each of ``axes``, of length 1 for variables it is not over."""
    order = sorted(range(len(scope)), key=lambda k: axes.index(scope[k]))
    sizes = dict(zip(scope, values.shape, strict=True))
    return values.transpose(order).reshape([sizes.get(v, 1) for v in axes])


def cut(values: NDArray[Any], scope: Sequence[int], known: Mapping[int, int]) -> tuple[tuple[int, ...], NDArray[Any]]:
    """What is left of a table once some variables are known: the others, and their table.  More axes may follow."""
    left = tuple(v for v in scope if v not in known)
    return left, np.asarray(values[tuple(known.get(v, slice(None)) for v in scope)])


def log_of(values: ArrayLike) -> Floats:
    """Logarithms, without a warning where they are -inf."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def drawn_columns(rows: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    """A column for each row, with probabilities in proportion to its entries."""
    sums = np.cumsum(rows, axis=1)
    u = rng.random((len(rows), 1)) * sums[:, -1:]
    return np.asarray(np.minimum((sums <= u).sum(axis=1), rows.shape[1] - 1))


def ancestral(parents: Sequence[Sequence[int]], nodes: Iterable[int]) -> set[int]:
    """The nodes and all their ancestors."""
    found = set(nodes)
    waiting = list(found)
    while waiting:
        new = [p for p in parents[waiting.pop()] if p not in found]
        found.update(new)
        waiting += new
    return found


def check_positions(argument: str, variables: Iterable[int], n: int) -> set[int]:
    """Positions of variables, all of a network with ``n`` of them."""
    found = set(variables)
    for v in found:
        if not 0 <= v < n:
            raise ArgumentError(f"{argument} has the position {v}; those of the network are 0 to {n - 1}")
    return found


def connected_parts(variables: Iterable[int], scopes: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """Variables by what scopes hold together, directly or by others: parts and members in the order given."""
    owner = {v: v for v in variables}

    def root(v: int) -> int:
        while owner[v] != v:
            owner[v] = v = owner[owner[v]]
        return v

    for scope in scopes:
        for v in scope[1:]:
            owner[root(scope[0])] = root(v)
    parts: dict[int, list[int]] = {}
    for v in owner:
        parts.setdefault(root(v), []).append(v)
    return [tuple(part) for part in parts.values()]
