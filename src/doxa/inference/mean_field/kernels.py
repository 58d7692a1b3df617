r"""Compiled loops over a `Layout`: what a block expects of the others, sweeps, the bound, expected counts.

With q the product of the blocks' tables, and the others fixed, the best table of block B is

.. math:: q_B(x_B) \propto \exp \sum_f E_{q_{-B}} [\ell_f \mid x_B].

A state from which the others lead to :math:`\ell_f = -\infty` with positive probability gets 0; such a probability may
be too small for a float, and counts as the smallest one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined
from doxa.inference.mean_field.layout import Layout

__all__ = ["Scratch", "add_counts", "block_logits", "bounds", "fill_slots", "scratch", "sweep_rows", "update_block"]

_Floats = NDArray[np.float64]
_TINY = 5e-324


class Scratch(NamedTuple):
    """Work space of the kernels."""

    slot_q: _Floats  # marginals of the slots
    logits: _Floats  # (largest block,)
    message: _Floats  # (largest slot,)
    at: NDArray[np.int64]  # (most slots of a factor + 1,)
    prefix: _Floats  # (most slots of a factor + 1,)


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
def _refill(layout: Any, q: Any, block: int, slot_q: Any) -> None:
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
def fill_slots(layout: Any, q: Any, work: Any) -> None:
    """Marginals of all slots."""
    for block in range(layout.block_start.size - 1):
        _refill(layout, q, block, work.slot_q)


@inlined
def _reweigh(layout: Any, first: int, k: int, begin: int, target: int, work: Any) -> None:
    """Products of the slots' probabilities up to each axis, from axis ``begin`` on; 1 for the target's."""
    for i in range(begin, k):
        if layout.factor_slots[first + i] == target:
            work.prefix[i + 1] = work.prefix[i]
        else:
            start = layout.slot_start[layout.factor_slots[first + i]]
            work.prefix[i + 1] = weigh(work.prefix[i], work.slot_q[start + work.at[i]])


@inlined
def _next(layout: Any, first: int, k: int, at: Any) -> int:
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
def _message(layout: Any, values: Any, base: int, factor: int, target: int, work: Any) -> None:
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
        changed = _next(layout, first, k, work.at)


@hot
def block_logits(layout: Any, values: Any, base: Any, block: int, work: Any) -> None:
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
def update_block(layout: Any, values: Any, base: Any, q: Any, block: int, work: Any) -> float:
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
    layout: Any, values: Any, base: Any, q: Any, changes: Any, most_sweeps: int, tolerance: float, work: Any
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
def _expected(layout: Any, values: Any, base: int, factor: int, work: Any) -> tuple[float, float]:
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
        changed = _next(layout, first, k, work.at)
    return expected, size


@hot
def bounds(layout: Any, values: Any, base: Any, q: Any, out: Any, work: Any) -> None:
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
def add_counts(layout: Any, base: Any, q: Any, weights: Any, counts: Any, work: Any) -> None:
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
                changed = _next(layout, first, k, work.at)
