"""`Layout`: factors and blocks as flat arrays, the form in which the compiled loops read them.

q holds the tables of all blocks one behind the other, each over the joint states of its variables, the last varying
fastest.  Where a factor meets a block there is a *slot*: the marginal of the block over the variables that they share.
A factor's entries are its configurations in the order of its slots, and say where in a flat array of values each one
is found; rows of data that miss the same cells share a layout and differ in where their values begin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["Layout", "Scope", "check_blocks", "lay_out"]

Positions = NDArray[np.int64]


class Scope(NamedTuple):
    """A factor without its values: variables, and how far apart in the values their states are."""

    variables: tuple[int, ...]
    strides: tuple[int, ...]


class Layout(NamedTuple):
    """What the kernels read; slots are numbered block by block."""

    block_start: Positions  # (n_blocks + 1,) in q
    touching: Positions  # (n_blocks + 1,) slots of each block
    slot_factor: Positions  # (n_slots,)
    slot_start: Positions  # (n_slots + 1,) in an array of the slots' marginals
    map_start: Positions  # (n_slots,) in maps
    maps: Positions  # state of the slot, by state of its block
    factor_start: Positions  # (n_factors + 1,) in factor_slots
    factor_slots: Positions  # slots of each factor, in the order of its entries' axes, the last varying fastest
    entry_start: Positions  # (n_factors + 1,) in entries
    entries: Positions  # places of the values, relative to where the factor's begin

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.block_start) - 1

    @property
    def n_q(self) -> int:
        """Number of entries of q."""
        return int(self.block_start[-1])

    @property
    def is_coupled(self) -> bool:
        """Whether a factor meets two blocks."""
        return bool((np.diff(self.factor_start) > 1).any())


def check_blocks(n_states: Sequence[int], blocks: Iterable[Iterable[int]], most_states: int) -> list[tuple[int, ...]]:
    """Return disjoint blocks of all variables: those given, then every other variable by itself.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a block is empty, names a variable that is not there or already in a block, or has more joint states than
        ``most_states``.
    """
    found: list[tuple[int, ...]] = []
    owner: dict[int, int] = {}
    for k, block in enumerate(blocks):
        if isinstance(block, str) or not isinstance(block, Iterable):
            raise ArgumentTypeError(f"blocks[{k}] is {block!r}; give a sequence of positions of variables")
        members = tuple(block)
        if not members:
            raise ArgumentError(f"blocks[{k}] is empty; a block has at least one variable")
        for v in members:
            if isinstance(v, bool) or not isinstance(v, (int, np.integer)):
                raise ArgumentTypeError(f"blocks[{k}] has {v!r}; variables are named by position, whole numbers")
            if not 0 <= v < len(n_states):
                raise ArgumentError(
                    f"blocks[{k}] has the position {v}; those of the network are 0 to {len(n_states) - 1}"
                )
            if v in owner:
                raise ArgumentError(
                    f"blocks[{k}] has the position {v}, which is in blocks[{owner[v]}] already; blocks are disjoint"
                )
            owner[v] = k
        size = math.prod(int(n_states[v]) for v in members)
        if size > most_states:
            raise ArgumentError(
                f"blocks[{k}] has {size} joint states, and max_block_states is {most_states}; "
                f"cut the block into smaller ones, or raise max_block_states"
            )
        found.append(tuple(map(int, members)))
    return found + [(v,) for v in range(len(n_states)) if v not in owner]


def lay_out(n_states: Sequence[int], scopes: Sequence[Scope], blocks: Sequence[tuple[int, ...]]) -> Layout:
    """Lay out factors over blocks that hold every variable once.

    Parameters
    ----------
    n_states : sequence of int
        Number of states of each variable.
    scopes : sequence of Scope
        An empty one is a constant.
    blocks : sequence of tuple of int

    Returns
    -------
    Layout
    """
    owner = {v: (b, place) for b, block in enumerate(blocks) for place, v in enumerate(block)}
    by_block: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in blocks]
    orders, entries = [], []
    for f, (variables, strides) in enumerate(scopes):
        groups: dict[int, list[int]] = {}
        for axis, v in enumerate(variables):
            groups.setdefault(owner[v][0], []).append(axis)
        for b, axes in groups.items():
            by_block[b].append((f, tuple(variables[axis] for axis in axes)))
        orders.append(tuple(groups))
        places = np.zeros(1, dtype=np.int64)
        for axis in (axis for axes in groups.values() for axis in axes):
            places = np.add.outer(places, strides[axis] * np.arange(n_states[variables[axis]])).ravel()
        entries.append(places)
    slots = [(b, f, shared) for b, mine in enumerate(by_block) for f, shared in mine]
    number = {(b, f): k for k, (b, f, _) in enumerate(slots)}
    shapes = [tuple(int(n_states[v]) for v in block) for block in blocks]
    maps = [_map(shapes[b], [owner[v][1] for v in shared]) for b, _, shared in slots]
    return Layout(
        block_start=_starts(math.prod(shape) for shape in shapes),
        touching=_starts(len(mine) for mine in by_block),
        slot_factor=np.array([f for _, f, _ in slots], dtype=np.int64),
        slot_start=_starts(math.prod(int(n_states[v]) for v in shared) for _, _, shared in slots),
        map_start=_starts(len(m) for m in maps)[:-1],
        maps=_joined(maps),
        factor_start=_starts(len(order) for order in orders),
        factor_slots=np.array([number[b, f] for f, order in enumerate(orders) for b in order], dtype=np.int64),
        entry_start=_starts(len(places) for places in entries),
        entries=_joined(entries),
    )


def _map(shape: tuple[int, ...], places: Sequence[int]) -> Positions:
    """State of the shared variables, at some places of a block, by state of the block."""
    if len(shape) == 1:
        return np.arange(shape[0])
    states = np.unravel_index(np.arange(math.prod(shape)), shape)
    kept = [states[place] for place in places]
    return np.asarray(np.ravel_multi_index(kept, [shape[place] for place in places]), dtype=np.int64)


def _starts(sizes: Iterable[int]) -> Positions:
    return np.concatenate([[0], np.cumsum(np.fromiter(sizes, dtype=np.int64))]).astype(np.int64)


def _joined(arrays: Sequence[Positions]) -> Positions:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays])
