"""Tables end to end in memory, and the links from variables to them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Part", "Tables", "lay_out"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Part(NamedTuple):
    """One table: its log values are ``low + beta * rise``."""

    variables: tuple[int, ...]
    low: Floats
    rise: Floats
    zero: NDArray[np.bool_]  # cells that are 0 at beta = 1


class Tables(NamedTuple):
    """What the kernels of `doxa.inference.annealing.table_kernels` read."""

    n_states: Integers  # (n,)
    low: Floats  # all cells
    rise: Floats
    zero: NDArray[np.bool_]
    first: Integers  # (n_tables,) first cell
    scope_starts: Integers  # (n_tables + 1,)
    scopes: Integers  # variables of each table
    scope_strides: Integers  # their strides, in cells
    starts: Integers  # (n + 1,) links of each variable
    at: Integers  # (n_links,) first cell of the table
    strides: Integers  # (n_links,) of the variable there
    other_starts: Integers  # (n_links + 1,)
    others: Integers  # the table's other variables
    other_strides: Integers


def lay_out(n_states: Sequence[int], parts: Sequence[Part]) -> Tables:
    """Put tables into arrays; those over no variables are left out.

    Examples
    --------
    >>> part = Part((1, 0), np.zeros((3, 2)), np.ones((3, 2)), np.zeros((3, 2), dtype=bool))
    >>> tables = lay_out((2, 3), [part])
    >>> tables.scopes, tables.scope_strides, tables.strides, tables.others
    (array([1, 0]), array([2, 1]), array([1, 2]), array([1, 0]))
    """
    parts = [part for part in parts if part.variables]
    sizes = [part.low.size for part in parts]
    first = list(itertools.accumulate(sizes, initial=0))[:-1]
    strides = [_strides(part.low.shape) for part in parts]
    links: list[list[tuple[int, int, list[tuple[int, int]]]]] = [[] for _ in n_states]
    for cell, part, own in zip(first, parts, strides, strict=True):
        scope = list(zip(part.variables, own, strict=True))
        for variable, stride in scope:
            links[variable].append((cell, stride, [pair for pair in scope if pair[0] != variable]))
    flat = [link for group in links for link in group]
    others = [pair for _, _, pairs in flat for pair in pairs]
    return Tables(
        _whole(n_states),
        _joined([part.low for part in parts]),
        _joined([part.rise for part in parts]),
        _joined([part.zero for part in parts]).astype(np.bool_),
        _whole(first),
        _ends([len(part.variables) for part in parts]),
        _whole([variable for part in parts for variable in part.variables]),
        _whole([stride for own in strides for stride in own]),
        _ends([len(group) for group in links]),
        _whole([cell for cell, _, _ in flat]),
        _whole([stride for _, stride, _ in flat]),
        _ends([len(pairs) for _, _, pairs in flat]),
        _whole([variable for variable, _ in others]),
        _whole([stride for _, stride in others]),
    )


def _strides(shape: tuple[int, ...]) -> list[int]:
    """Cells from one state to the next, by axis; the last varies fastest."""
    return list(itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1))[::-1]


def _whole(values: Sequence[int]) -> Integers:
    return np.array(values, dtype=np.int64)


def _ends(lengths: Sequence[int]) -> Integers:
    return _whole(list(itertools.accumulate(lengths, initial=0)))


def _joined(arrays: Sequence[NDArray[np.generic]]) -> Floats:
    return np.concatenate([np.zeros(0), *[array.ravel() for array in arrays]])
