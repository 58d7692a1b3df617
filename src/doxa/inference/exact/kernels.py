"""Kernels that execute a `Program`: products of tables at full range, and of logarithms where that is not enough.

Plain numbers are kept in range by powers of two, so nothing is rounded: the largest entry of every table stays near
2^960, and each product is scaled by the power of two that brings it back there.  Entries and products down to 2^-1982
(1e-597) times the largest are kept to full precision; a kernel that meets less says so, and the same program is run on
logarithms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from doxa._jit import hot, inlined
from doxa.arrays import Floats, Ints

# columns of an instruction
_TARGET, _SIZE, _X, _Y = 0, 1, 2, 3  # where the target starts, its entries, where x and y start
_TARGET_TABLE, _X_TABLE, _Y_TABLE = 4, 5, 6  # numbers of tables
_FIRST_LOOP, _N_LOOPS = 7, 8
_TARGET_COLUMN, _X_COLUMN, _Y_COLUMN = 9, 10, 11  # of ``loops``: strides
_IS_FORWARD = 12

LIFT = 960  # exponent of the largest entry of a table that was just scaled
_LEAST, _MOST = 900, 990  # exponents that need no scaling: 2^990 times 2^33 terms is still finite
_SMALLEST = -1022  # exponent of the smallest number of full precision

Places = tuple[int, int, int]  # of target, x and y


class Room(NamedTuple):
    """What a program of plain numbers runs in."""

    numbers: Floats
    bits: Ints  # the same memory
    instructions: Ints
    loops: Ints
    exponent: Ints  # by table: binary exponent of its largest entry,
    lowest: Ints  # and of its smallest that is not zero
    counter: Ints  # of the loops


@hot
def load(room: Room, entries: Ints, peaks: Floats) -> bool:
    """Turn the leaves, logarithms at the start of the numbers, into lifted numbers of largest entry 2^LIFT.

    ``peaks`` gets the largest logarithm of every leaf, -inf where all entries are 0.  Returns whether all entries
    are in range.
    """
    numbers, lowest = room.numbers, room.lowest
    in_range = True
    first = 0
    lift, log_lift = math.ldexp(1.0, LIFT), LIFT * math.log(2.0)
    for leaf in range(entries.size):
        end = first + entries[leaf]
        peak = -np.inf
        for k in range(first, end):
            peak = max(peak, numbers[k])
        peaks[leaf] = peak
        for k in range(first, end):
            log = numbers[k] - peak if numbers[k] > -np.inf else -np.inf
            numbers[k] = math.exp(log) * lift if log > -700.0 else math.exp(log + log_lift)
            if numbers[k] == 0.0 and log > -np.inf:
                in_range = False
        _measure(room, first, end, leaf)
        in_range = in_range and lowest[leaf] > _SMALLEST
        first = end
    return in_range


@hot
def run_products(first: int, last: int, room: Room) -> tuple[bool, int]:
    """Execute instructions first..last-1 on lifted numbers.

    Returns whether everything stayed in range, and the sum of the forward steps' scalings.
    """
    numbers, instructions = room.numbers, room.instructions
    in_range, scaling = True, 0
    for k in range(first, last):
        for i in range(instructions[k, _TARGET], instructions[k, _TARGET] + instructions[k, _SIZE]):
            numbers[i] = 0.0
        scale, fits, swap = prepare(instructions[k], room)
        _walk(0, numbers, numbers, math.ldexp(1.0, scale), swap, instructions[k], room.loops, room.counter)
        in_range = settle(instructions[k], room) and fits and in_range
        scaling += (scale + room.counter[0]) * instructions[k, _IS_FORWARD]
    return in_range, scaling


@hot
def prepare(instruction: Ints, room: Room) -> tuple[int, bool, bool]:
    """The power of two that lifts the products, whether all are in range, and whether y is to be multiplied by it.

    Of x and y that one is brought down whose entries span less; the other may have entries down to 2^-1982 times the
    largest.
    """
    exponent, lowest = room.exponent, room.lowest
    x, y = instruction[_X_TABLE], instruction[_Y_TABLE]
    scale = LIFT - exponent[x] - exponent[y]
    swap = lowest[y] - exponent[y] > lowest[x] - exponent[x]
    low = lowest[y] if swap else lowest[x]
    return scale, min(low, lowest[x] + lowest[y]) + scale > _SMALLEST, swap


@hot
def settle(instruction: Ints, room: Room) -> bool:
    """Measure a target, and lift it where that is needed; ``counter[0]`` gets the power of two.

    Returns whether its entries are in range.
    """
    numbers, exponent, lowest = room.numbers, room.exponent, room.lowest
    target = instruction[_TARGET_TABLE]
    first, end = instruction[_TARGET], instruction[_TARGET] + instruction[_SIZE]
    _measure(room, first, end, target)
    room.counter[0] = 0
    if exponent[target] < _LEAST or exponent[target] > _MOST:
        shift = LIFT - exponent[target]
        half = shift // 2  # two factors: one alone might overflow
        for i in range(first, end):
            numbers[i] = numbers[i] * math.ldexp(1.0, half) * math.ldexp(1.0, shift - half)
        exponent[target] += shift
        lowest[target] += shift
        room.counter[0] = shift
    return bool(lowest[target] > _SMALLEST)


@hot
def run_logs(numbers: Floats, work: Floats, is_sum: bool, instructions: Ints, loops: Ints, counter: Ints) -> None:
    """Execute a program on logarithms: sums of products where ``is_sum``, else the largest product.

    ``work`` has as many numbers as the largest target.
    """
    for k in range(instructions.shape[0]):
        first, end = instructions[k, _TARGET], instructions[k, _TARGET] + instructions[k, _SIZE]
        for i in range(first, end):
            numbers[i] = -np.inf
        _walk(1, numbers, work, 0.0, False, instructions[k], loops, counter)
        if is_sum:
            for i in range(end - first):
                work[i] = 0.0
            _walk(2, numbers, work, 0.0, False, instructions[k], loops, counter)
            for i in range(first, end):
                if numbers[i] > -np.inf:
                    numbers[i] += math.log(work[i - first])


@hot
def _measure(room: Room, first: int, end: int, table: int) -> None:
    """Exponents of the largest and the smallest non-zero entry: numbers of one sign are ordered as their bits are."""
    bits, exponent, lowest = room.bits, room.exponent, room.lowest
    largest, smallest = np.int64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
    for i in range(first, end):
        largest = max(largest, bits[i])
        smallest = min(smallest, np.uint64(bits[i]) - np.uint64(1))  # 0 wraps to the largest
    if largest == 0:
        exponent[table] = lowest[table] = LIFT
    else:
        exponent[table] = (largest >> 52) - 1023
        lowest[table] = (np.int64(smallest + np.uint64(1)) >> 52) - 1023


@inlined
def _walk(
    kind: int,
    numbers: Floats,
    work: Floats,
    scale: float,
    swap: bool,
    instruction: Ints,
    loops: Ints,
    counter: Ints,
) -> None:
    """Run through all terms of an instruction: add products (0), take the largest (1), add powers of e (2)."""
    first, n_loops = instruction[_FIRST_LOOP], instruction[_N_LOOPS]
    t_column, x_column, y_column = instruction[_TARGET_COLUMN], instruction[_X_COLUMN], instruction[_Y_COLUMN]
    start = instruction[_TARGET]
    t, x, y = start, instruction[_X], instruction[_Y]
    if swap:
        x, y = y, x
        x_column, y_column = y_column, x_column
    size, steps = loops[first, 0], (loops[first, t_column], loops[first, x_column], loops[first, y_column])
    size_2, t_2, x_2, y_2 = 1, 0, 0, 0
    if n_loops > 1:
        size_2, t_2 = loops[first + 1, 0], loops[first + 1, t_column]
        x_2, y_2 = loops[first + 1, x_column], loops[first + 1, y_column]
    for depth in range(2, n_loops):
        counter[depth] = 0
    depth = 0
    while depth < n_loops:
        for j in range(size_2):
            at = t + j * t_2, x + j * x_2, y + j * y_2
            if kind == 0:
                _add_products(numbers, at, size, steps, scale)
            elif kind == 1:
                _take_largest(numbers, at, size, steps)
            else:
                _add_powers(numbers, work, start, at, size, steps)
        depth = 2
        while depth < n_loops:
            row = first + depth
            counter[depth] += 1
            t += loops[row, t_column]
            x += loops[row, x_column]
            y += loops[row, y_column]
            if counter[depth] < loops[row, 0]:
                break
            counter[depth] = 0
            t -= loops[row, 0] * loops[row, t_column]
            x -= loops[row, 0] * loops[row, x_column]
            y -= loops[row, 0] * loops[row, y_column]
            depth += 1


@inlined
def _add_products(numbers: Floats, at: Places, size: int, steps: Places, scale: float) -> None:
    """Add x * y * scale to the target along one axis; steps are 0 or 1."""
    (t, x, y), (t_step, x_step, y_step) = at, steps
    if t_step == 1:
        if x_step == 1 and y_step == 1:
            for i in range(size):
                numbers[t + i] += numbers[x + i] * scale * numbers[y + i]
        elif x_step == 1:
            factor = numbers[y]
            for i in range(size):
                numbers[t + i] += numbers[x + i] * scale * factor
        elif y_step == 1:
            factor = numbers[x] * scale
            for i in range(size):
                numbers[t + i] += numbers[y + i] * factor
        else:
            term = numbers[x] * scale * numbers[y]
            for i in range(size):
                numbers[t + i] += term
    else:
        a = b = c = d = 0.0  # four sums at a time hide the latency of an addition
        i = 0
        while i + 4 <= size:
            a += numbers[x + i * x_step] * scale * numbers[y + i * y_step]
            b += numbers[x + (i + 1) * x_step] * scale * numbers[y + (i + 1) * y_step]
            c += numbers[x + (i + 2) * x_step] * scale * numbers[y + (i + 2) * y_step]
            d += numbers[x + (i + 3) * x_step] * scale * numbers[y + (i + 3) * y_step]
            i += 4
        while i < size:
            a += numbers[x + i * x_step] * scale * numbers[y + i * y_step]
            i += 1
        numbers[t] += (a + b) + (c + d)


@inlined
def _take_largest(numbers: Floats, at: Places, size: int, steps: Places) -> None:
    """Raise the target to x + y where that is larger."""
    (t, x, y), (t_step, x_step, y_step) = at, steps
    for i in range(size):
        numbers[t + i * t_step] = max(numbers[t + i * t_step], numbers[x + i * x_step] + numbers[y + i * y_step])


@inlined
def _add_powers(numbers: Floats, work: Floats, start: int, at: Places, size: int, steps: Places) -> None:
    """Add exp(x + y - target) to ``work``, which has the target's entries."""
    (t, x, y), (t_step, x_step, y_step) = at, steps
    for i in range(size):
        peak = numbers[t + i * t_step]
        log = numbers[x + i * x_step] + numbers[y + i * y_step]
        if log > -np.inf:
            work[t + i * t_step - start] += math.exp(log - peak)
