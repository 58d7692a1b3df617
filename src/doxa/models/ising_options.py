"""The arguments of Ising and Potts models, checked and brought to arrays: edges, grids, couplings, fields."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.markov import read_array

__all__ = [
    "Edges",
    "Floats",
    "count_variables",
    "grid_couplings",
    "read_edges",
    "read_grid",
    "read_named_field",
    "read_numbers",
    "read_state_fields",
]

Floats = NDArray[np.float64]
Edges = ArrayLike | Iterable[tuple[str, str]]


def read_grid(rows: int, columns: int, periodic: bool) -> tuple[tuple[int, int], NDArray[np.int64], NDArray[np.int64]]:
    """Return the shape, and the edges to the right and down, each of shape (rows of them, columns of them, 2)."""
    least, hint = (3, " where the grid is periodic: two would be joined twice") if periodic else (1, "")
    shape = check_whole("rows", rows, least, hint), check_whole("columns", columns, least, hint)
    place = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape)
    if periodic:
        right, down = np.roll(place, -1, axis=1), np.roll(place, -1, axis=0)
        return shape, np.stack([place, right], axis=2), np.stack([place, down], axis=2)
    return shape, np.stack([place[:, :-1], place[:, 1:]], axis=2), np.stack([place[:-1], place[1:]], axis=2)


def grid_couplings(coupling: Any, horizontal: tuple[int, ...], vertical: tuple[int, ...]) -> Floats:
    """Return couplings by edge, given for all, by edge, or as (horizontal, vertical)."""
    if isinstance(coupling, tuple):
        if len(coupling) != 2:
            raise ArgumentError(f"coupling is a tuple of {len(coupling)}; give (horizontal, vertical), or an array")
        right = read_numbers("coupling, horizontal,", coupling[0], horizontal, "a number for every horizontal edge")
        down = read_numbers("coupling, vertical,", coupling[1], vertical, "a number for every vertical edge")
        return np.concatenate([right, down])
    size = math.prod(horizontal) + math.prod(vertical)
    return read_numbers("coupling", coupling, (size,), "a number for every edge, the horizontal ones first")


def read_edges(edges: Any) -> tuple[NDArray[np.int64], tuple[str, ...] | None, int]:
    """Return edges by position, names if they were given by name, and the least number of variables there are."""
    listed = edges.tolist() if isinstance(edges, np.ndarray) and edges.dtype.kind in "OU" else edges
    if not isinstance(listed, np.ndarray):
        listed = list(listed)
    if not len(listed):
        return np.zeros((0, 2), dtype=np.int64), None, 0
    names, positions = _by_position(listed) if isinstance(listed, list) else (None, listed)
    try:
        pairs = np.array(positions)
    except ValueError:  # of unequal lengths
        pairs = np.empty(0)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ArgumentTypeError("edges is no array of shape (n_edges, 2); give pairs of names, or pairs of positions")
    if pairs.min() < 0 or pairs.max() >= 2**31:
        raise ArgumentError(f"edges has positions from {pairs.min()} to {pairs.max()}; they are 0 to 2**31 - 1")
    pairs = pairs.astype(np.int64)
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    shown = names or range(int(high.max()) + 1)
    if (low == high).any():
        k = int(np.argmax(low == high))
        raise ArgumentError(f"edges[{k}] joins {shown[low[k]]!r} to itself; the two ends of an edge differ")
    first = np.unique(low * (high.max() + 1) + high, return_index=True)[1]
    if len(first) < len(pairs):
        k = int(np.setdiff1d(np.arange(len(pairs)), first)[0])
        ends = f"{shown[low[k]]!r} and {shown[high[k]]!r}"
        raise ArgumentError(f"edges[{k}] joins {ends} again; name every pair once and add up the couplings")
    return pairs, names, int(high.max()) + 1


def _by_position(pairs: list[Any]) -> tuple[tuple[str, ...] | None, list[Any]]:
    """Names and pairs of their positions; the pairs as they are where they hold no name."""
    if not any(isinstance(end, str) for pair in pairs if isinstance(pair, (tuple, list)) for end in pair):
        return None, pairs
    for pair in pairs:
        right = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(end, str) and end for end in pair)
        if not right:
            raise ArgumentError(f"edges contains {pair!r}; an edge is a pair of names, or a pair of positions")
    names = tuple(dict.fromkeys(str.__str__(end) for pair in pairs for end in pair))
    index = {name: i for i, name in enumerate(names)}
    return names, [[index[end] for end in pair] for pair in pairs]


def read_named_field(field: Mapping[str, float], names: tuple[str, ...] | None) -> tuple[tuple[str, ...], list[float]]:
    """Return all names, those of edges first, and their fields."""
    if names is None:
        raise ArgumentTypeError("field is a mapping, but edges has positions; give names in both, or an array")
    for name in field:
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(f"field names the variable {name!r}; names are text that is not empty")
    every = tuple(dict.fromkeys([*names, *field]))
    return every, [field.get(name, 0.0) for name in every]


def count_variables(given: int | None, names: tuple[str, ...] | None, least: int) -> int:
    """Return the number of variables, of names, fields given or the largest position, in this order."""
    n = len(names) if names is not None else least if given is None else given
    if n < least:
        raise ArgumentError(f"field is for {n} variables, and edges has position {least - 1}; give at least {least}")
    if not n:
        raise ArgumentError("edges is empty and field is no array; a network has at least one variable")
    return n


def read_numbers(label: str, value: Any, shape: tuple[int, ...], meaning: str) -> Floats:
    """Return finite numbers, one a place and flat: a number is for all places; shape (n,) also serves for a grid."""
    array = read_array(label, value)
    size = math.prod(shape)
    if array.ndim == 0:
        array = np.full(size, array)
    elif array.shape not in (shape, (size,)):
        raise ArgumentError(f"{label} has shape {array.shape}; it must be a number or of shape {shape}, {meaning}")
    _check_finite(label, array)
    return array.ravel()


def read_state_fields(array: Floats, shape: tuple[int, int]) -> Floats:
    """Return fields of shape (n, n_states), given so or as (n_states,)."""
    if array.shape not in (shape, shape[1:]):
        raise ArgumentError(
            f"field has shape {array.shape}; it must be ({shape[1]},), a number for every state, or {shape}: "
            f"one number for all states would change nothing"
        )
    _check_finite("field", array)
    return np.ascontiguousarray(np.broadcast_to(array, shape))


def _check_finite(label: str, array: Floats) -> None:
    if not np.isfinite(array).all():
        raise ArgumentError(f"{label} contains NaN or infinity; what is forbidden takes a MarkovNetwork with -inf")
