r"""`Layout`: factors and blocks as flat arrays, and the compiled loops over them: messages, sweeps, bound, counts.

q holds the tables of all blocks one behind the other, each over the joint states of its variables, the last varying
fastest.  Where a factor meets a block there is a *slot*: the marginal of the block over the variables that they share.
A factor's entries are its configurations in the order of its slots, and say where in a flat array of values each one
is found; rows of data that miss the same cells share a layout and differ in where their values begin.

With q the product of the blocks' tables, and the others fixed, the best table of block B is

.. math:: q_B(x_B) \propto \exp \sum_f E_{q_{-B}} [\ell_f \mid x_B].

A state from which the others lead to :math:`\ell_f = -\infty` with positive probability gets 0; such a probability may
be too small for a float, and counts as the smallest one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined
from doxa.arrays import Floats, Ints
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.flat import joined, starts_of

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

    def uniform(self) -> Floats:
        """The q of independent uniform states."""
        sizes = np.diff(self.block_start)
        return np.repeat(1.0 / sizes, sizes)

    @property
    def is_coupled(self) -> bool:
        """Whether a factor meets two blocks."""
        return bool((np.diff(self.factor_start) > 1).any())


def check_blocks(n_states: Sequence[int], blocks: Iterable[Iterable[int]], most_states: int) -> list[tuple[int, ...]]:
    """Disjoint blocks of all variables, checked: those given, then every other variable by itself."""
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
    """Lay out factors over blocks that hold every variable once; an empty scope is a constant."""
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
        block_start=starts_of(math.prod(shape) for shape in shapes),
        touching=starts_of(len(mine) for mine in by_block),
        slot_factor=np.array([f for _, f, _ in slots], dtype=np.int64),
        slot_start=starts_of(math.prod(int(n_states[v]) for v in shared) for _, _, shared in slots),
        map_start=starts_of(len(m) for m in maps)[:-1],
        maps=joined(maps),
        factor_start=starts_of(len(order) for order in orders),
        factor_slots=np.array([number[b, f] for f, order in enumerate(orders) for b in order], dtype=np.int64),
        entry_start=starts_of(len(places) for places in entries),
        entries=joined(entries),
    )


def _map(shape: tuple[int, ...], places: Sequence[int]) -> Positions:
    """State of the shared variables, at some places of a block, by state of the block."""
    if len(shape) == 1:
        return np.arange(shape[0])
    states = np.unravel_index(np.arange(math.prod(shape)), shape)
    kept = [states[place] for place in places]
    return np.asarray(np.ravel_multi_index(kept, [shape[place] for place in places]), dtype=np.int64)


_TINY = 5e-324


class Scratch(NamedTuple):
    """Work space of the kernels."""

    slot_q: Floats  # marginals of the slots
    logits: Floats  # (largest block,)
    message: Floats  # (largest slot,)
    at: NDArray[np.int64]  # (most slots of a factor + 1,)
    prefix: Floats  # (most slots of a factor + 1,)


def scratch(layout: Layout) -> Scratch:
    """Work space for a layout."""
    arity = int(np.diff(layout.factor_start).max(initial=0)) + 1
    return Scratch(
        np.zeros(layout.slot_start[-1]),
        np.zeros(np.diff(layout.block_start).max(initial=1)),
        np.zeros(np.diff(layout.slot_start).max(initial=1)),
        np.zeros(arity, dtype=np.int64),
        np.zeros(arity),
    )


@inlined
def weigh(a: float, b: float) -> float:
    """Return a product of probabilities that is 0 only if one of them is."""
    product = a * b
    if product == 0.0 and a > 0.0 and b > 0.0:
        return _TINY
    return product


@hot
def _refill(layout: Layout, q: Floats, block: int, slot_q: Floats) -> None:
    """Marginals of one block's slots."""
    start = layout.block_start[block]
    size = layout.block_start[block + 1] - start
    for slot in range(layout.touching[block], layout.touching[block + 1]):
        first, mapped = layout.slot_start[slot], layout.map_start[slot]
        for k in range(first, layout.slot_start[slot + 1]):
            slot_q[k] = 0.0
        for s in range(size):
            slot_q[first + layout.maps[mapped + s]] += q[start + s]


@hot
def fill_slots(layout: Layout, q: Floats, work: Scratch) -> None:
    """Marginals of all slots."""
    for block in range(layout.block_start.size - 1):
        _refill(layout, q, block, work.slot_q)


@inlined
def _reweigh(layout: Layout, first: int, k: int, begin: int, target: int, work: Scratch) -> None:
    """Products of the slots' probabilities up to each axis, from axis ``begin`` on; 1 for the target's."""
    for i in range(begin, k):
        if layout.factor_slots[first + i] == target:
            work.prefix[i + 1] = work.prefix[i]
        else:
            start = layout.slot_start[layout.factor_slots[first + i]]
            work.prefix[i + 1] = weigh(work.prefix[i], work.slot_q[start + work.at[i]])


@inlined
def next_entry(layout: Layout, first: int, k: int, at: Ints) -> int:
    """Go on to the factor's next configuration: the first axis that changed, or -1 at the end."""
    j = k - 1
    while j >= 0:
        slot = layout.factor_slots[first + j]
        at[j] += 1
        if at[j] < layout.slot_start[slot + 1] - layout.slot_start[slot]:
            return j
        at[j] = 0
        j -= 1
    return -1


@hot
def _message(layout: Layout, values: Floats, base: int, factor: int, target: int, work: Scratch) -> None:
    """Expected value of a factor under its other slots, by state of the target."""
    first = layout.factor_start[factor]
    k = layout.factor_start[factor + 1] - first
    place = 0
    for i in range(k):
        work.at[i] = 0
        if layout.factor_slots[first + i] == target:
            place = i
    for a in range(layout.slot_start[target + 1] - layout.slot_start[target]):
        work.message[a] = 0.0
    work.prefix[0] = 1.0
    entry, changed = layout.entry_start[factor], 0
    while changed >= 0:
        _reweigh(layout, first, k, changed, target, work)
        if work.prefix[k] > 0.0:
            work.message[work.at[place]] += work.prefix[k] * values[base + layout.entries[entry]]
        entry += 1
        changed = next_entry(layout, first, k, work.at)


@hot
def block_logits(layout: Layout, values: Floats, base: Ints, block: int, work: Scratch) -> None:
    """Logits of the best table of a block, into ``work.logits``; the slots are up to date."""
    size = layout.block_start[block + 1] - layout.block_start[block]
    for s in range(size):
        work.logits[s] = 0.0
    for slot in range(layout.touching[block], layout.touching[block + 1]):
        factor = layout.slot_factor[slot]
        _message(layout, values, base[factor], factor, slot, work)
        for s in range(size):
            work.logits[s] += work.message[layout.maps[layout.map_start[slot] + s]]


@hot
def update_block(layout: Layout, values: Floats, base: Ints, q: Floats, block: int, work: Scratch) -> float:
    """Make a block's table the best one; the largest change of a probability, or -1 where no state is possible."""
    start = layout.block_start[block]
    size = layout.block_start[block + 1] - start
    block_logits(layout, values, base, block, work)
    most = -math.inf
    for s in range(size):
        most = max(most, work.logits[s])
    if most == -math.inf:
        return -1.0
    total, change = 0.0, 0.0
    for s in range(size):
        work.logits[s] = math.exp(work.logits[s] - most)
        total += work.logits[s]
    for s in range(size):
        new = work.logits[s] / total
        change = max(change, abs(new - q[start + s]))
        q[start + s] = new
    _refill(layout, q, block, work.slot_q)
    return change


@hot
def sweep_rows(
    layout: Layout,
    values: Floats,
    base: Ints,
    q: Floats,
    changes: Floats,
    most_sweeps: int,
    tolerance: float,
    work: Scratch,
) -> int:
    """Sweep over the blocks of every row, until no probability of it changes by more than ``tolerance``.

    ``base`` is (n_rows, n_factors), ``q`` (n_rows, n_q) and changed in place; ``changes`` (n_rows,) becomes the largest
    change of each row's last sweep, or -1 where a block was left without a possible state.  Returns the sweeps made.
    """
    n_sweeps = 0
    for row in range(q.shape[0]):
        fill_slots(layout, q[row], work)
        for _ in range(most_sweeps):
            changes[row] = 0.0
            for block in range(layout.block_start.size - 1):
                change = update_block(layout, values, base[row], q[row], block, work)
                if change < 0.0:
                    changes[row] = -1.0
                    break
                changes[row] = max(changes[row], change)
            n_sweeps += 1
            if changes[row] <= tolerance:
                break
    return n_sweeps


@hot
def _expected(layout: Layout, values: Floats, base: int, factor: int, work: Scratch) -> tuple[float, float]:
    """Expected value of a factor under q, and the expected size of its values."""
    first = layout.factor_start[factor]
    k = layout.factor_start[factor + 1] - first
    for i in range(k):
        work.at[i] = 0
    work.prefix[0] = 1.0
    expected, size = 0.0, 0.0
    entry, changed = layout.entry_start[factor], 0
    while changed >= 0:
        _reweigh(layout, first, k, changed, -1, work)
        if work.prefix[k] > 0.0:
            term = work.prefix[k] * values[base + layout.entries[entry]]
            expected += term
            size += abs(term)
        entry += 1
        changed = next_entry(layout, first, k, work.at)
    return expected, size


@hot
def bounds(layout: Layout, values: Floats, base: Ints, q: Floats, out: Floats, work: Scratch) -> None:
    """Write each row's bound, the sum of the sizes of its terms, and the entropy into ``out`` (n_rows, 3).

    Sums are compensated: many equal terms round alike, and the bound would seem to fall.
    """
    n_blocks = layout.block_start.size - 1
    for row in range(q.shape[0]):
        fill_slots(layout, q[row], work)
        bound, lost, size, entropy = 0.0, 0.0, 0.0, 0.0
        for part in range(n_blocks + layout.factor_start.size - 1):
            if part < n_blocks:
                value = 0.0
                for k in range(layout.block_start[part], layout.block_start[part + 1]):
                    if q[row, k] > 0.0:
                        value -= q[row, k] * math.log(q[row, k])
                entropy += value
                size += value
            else:
                factor = part - n_blocks
                value, term_sizes = _expected(layout, values, base[row, factor], factor, work)
                size += term_sizes
                if value == -math.inf:
                    bound, lost = value, 0.0
                    break
            term = value - lost
            total = bound + term
            lost = (total - bound) - term
            bound = total
        out[row, 0], out[row, 1], out[row, 2] = bound, size, entropy


@hot
def add_counts(layout: Layout, base: Ints, q: Floats, weights: Floats, counts: Floats, work: Scratch) -> None:
    """Add every row's expected number of cases to ``counts``, which lies as the values do."""
    for row in range(q.shape[0]):
        fill_slots(layout, q[row], work)
        for factor in range(layout.factor_start.size - 1):
            first = layout.factor_start[factor]
            k = layout.factor_start[factor + 1] - first
            for i in range(k):
                work.at[i] = 0
            work.prefix[0] = 1.0
            entry, changed = layout.entry_start[factor], 0
            while changed >= 0:
                _reweigh(layout, first, k, changed, -1, work)
                counts[base[row, factor] + layout.entries[entry]] += weights[row] * work.prefix[k]
                entry += 1
                changed = next_entry(layout, first, k, work.at)
