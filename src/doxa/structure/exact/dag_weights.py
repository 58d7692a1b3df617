"""What sums over graphs are made of: the weights of families, the blocks of sets of nodes, and numbers of 31 digits.

Sums over graphs take a table of log weights, or a list of the possible parent sets of every node.  Both become a
`Families` a node here: checked, sorted, and split into powers of two.

A block is all sets of nodes that share their high bits.  Blocks with equally many high bits are independent of each
other, so they form a wave: a wave's blocks run at once on threads, the waves one after another.  The cut depends on the
number of nodes alone, and so do the results.  What is done in a block is in `doxa.structure.exact.dag_recursions`.

Pairs of doubles are numbers of some 31 digits, for sums that lose half of them.  A pair (h, l) is the number h + l with
|l| <= half a unit of h in the last place (Dekker 1971).  The algorithms and their error bounds are those of Joldes,
Muller & Popescu (2017).  Where numbers span thousands of nats, a pair is a mantissa beside a power of two, and `POWERS`
brings two of them to a common scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import ArrayLike, NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints
from doxa.errors import ArgumentError
from doxa.sampling.workers import Threads

__all__ = [
    "DROP",
    "MOST_NODES",
    "POWERS",
    "UNIT",
    "Families",
    "LogWeights",
    "SumSpace",
    "Threads",
    "add_into",
    "blocks",
    "list_families",
    "multiply_into",
    "plus",
    "times",
]

DROP = 200  # terms 2^-200 below the reference are left out
POWERS = np.ldexp(1.0, np.arange(-DROP, 256))  # POWERS[k + DROP] is 2^k
UNIT = 2.0**-104  # pairs of doubles: one addition or half a multiplication errs by less, relatively


@intrinsic  # type: ignore[untyped-decorator]
def _fused(_typing: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001
    """a * b + c, rounded once."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@hot
def times(a_h: float, a_l: float, b_h: float, b_l: float) -> tuple[float, float]:
    """Product of two pairs; relative error below 5 * 2^-106 (Joldes, Muller & Popescu 2017, algorithm 12)."""
    product = a_h * b_h
    rest = _fused(a_h, b_l, _fused(a_l, b_h, _fused(a_h, b_h, -product)))
    high = product + rest
    return high, rest - (high - product)


@hot
def plus(a_h: float, a_l: float, b_h: float, b_l: float) -> tuple[float, float]:
    """Sum of two pairs; error below 4 * 2^-106 (|a| + |b|), signs whatever (their algorithm 5)."""
    total = a_h + b_h
    b_part = total - a_h
    rest = (a_h - (total - b_part)) + (b_h - b_part) + (a_l + b_l)
    high = total + rest
    return high, rest - (high - total)


SumSpace = tuple[Floats, Floats, Ints]  # numbers: high, low, exponent


@hot
def add_into(to: int, other: int, work: SumSpace, powers: Floats) -> None:
    """Add one number of ``work`` to another, both non-negative with exponents of their own."""
    high, low, exponent = work
    if high[other] == 0.0:
        return
    k = exponent[other] - exponent[to]
    if high[to] == 0.0 or k >= DROP:
        high[to], low[to], exponent[to] = high[other], low[other], exponent[other]
        return
    if k <= -DROP:
        return
    if k <= 0:
        up, down = 1.0, powers[k + DROP]
    else:
        up, down = powers[DROP - k], 1.0
        exponent[to] = exponent[other]
    h, l = plus(high[to] * up, low[to] * up, high[other] * down, low[other] * down)  # noqa: E741
    if h >= 1.0:
        h, l = 0.5 * h, 0.5 * l  # noqa: E741
        exponent[to] += 1
    high[to], low[to] = h, l


@hot
def multiply_into(size: int, m_h: float, m_l: float, x_h: Floats, x_l: Floats, c_h: Floats, c_l: Floats) -> None:
    """c += m x."""
    for t in range(size):
        y_h, y_l = times(x_h[t], x_l[t], m_h, m_l)
        c_h[t], c_l[t] = plus(c_h[t], c_l[t], y_h, y_l)


_LOW_BITS = 12  # 2^12 cells of 32 bytes fit a core's cache


def blocks(n: int) -> tuple[int, list[list[int]]]:
    """How many low bits a block has, and the high parts of the sets, by their number of bits."""
    low = min(n, _LOW_BITS)
    waves: list[list[int]] = [[] for _ in range(n - low + 1)]
    for high in range(2 ** (n - low)):
        waves[high.bit_count()].append(high)
    return low, waves


def threads_for(n_nodes: int, workers: int | None) -> Threads:
    """Threads for the blocks; one where all sets are in one block."""
    return Threads(1 if n_nodes <= _LOW_BITS else workers)


LogWeights = ArrayLike | Sequence[tuple[ArrayLike, ArrayLike]]

MOST_NODES = 24  # n! 4^n must stay below the largest power in the table; memory ends sooner
_WIDEST = 5e7  # nats between the weights of one node: sums of their exponents must fit 32 bits


class Families(NamedTuple):
    """The possible families of one node, heaviest first; a weight is ``mantissa * 2^exponent * exp(reference)``."""

    masks: NDArray[np.int64]
    mantissa: NDArray[np.float64]  # in [0.5, 1)
    exponent: NDArray[np.int64]
    reference: float  # nats, the heaviest log weight
    rounding: float  # bound of the relative error of one weight


def list_families(log_weights: LogWeights) -> list[Families]:
    """Check the weights and bring both forms into one; `ArgumentError` says what is wrong with them."""
    if isinstance(log_weights, np.ndarray):
        n = len(log_weights)
        if log_weights.ndim != 2 or n > MOST_NODES or log_weights.shape[1] != 2**n:
            raise ArgumentError(
                f"log_weights has shape {log_weights.shape}; it must be (n_nodes, 2**n_nodes), "
                f"for at most {MOST_NODES} nodes"
            )
        everything = np.arange(2**n)
        rows: list[Any] = [(everything, row) for row in log_weights]
    else:
        rows = list(log_weights)  # type: ignore[arg-type]
        n = len(rows)
    if not 1 <= n <= MOST_NODES:
        raise ArgumentError(f"log_weights has {n} nodes; sums over all graphs are for 1 to {MOST_NODES} nodes")
    return [_family_list(node, n, masks, values) for node, (masks, values) in enumerate(rows)]


def _family_list(node: int, n: int, masks: ArrayLike, values: ArrayLike) -> Families:
    sets, logs = np.asarray(masks).astype(np.int64), np.asarray(values, dtype=np.float64)
    where = f"log_weights[{node}]"
    if sets.ndim != 1 or sets.shape != logs.shape:
        raise ArgumentError(f"{where} has {sets.shape} masks and {logs.shape} weights; give one weight for each mask")
    if np.isnan(logs).any() or (logs == np.inf).any():
        raise ArgumentError(f"{where} contains NaN or inf; a log weight is finite, or -inf for an impossible family")
    keep = logs > -np.inf
    sets, logs = sets[keep], logs[keep]
    if not logs.size:
        raise ArgumentError(f"{where} has no finite entry; node {node} needs at least one possible parent set")
    if ((sets >> node) & 1).any() or (sets < 0).any() or (sets >> n).any():
        raise ArgumentError(f"{where} has a finite weight for parents that include {node} itself or no node at all")
    reference = float(logs.max())
    if reference - logs.min() > _WIDEST or abs(reference) > 1e15:
        raise ArgumentError(
            f"{where} spans {logs.min():g} to {reference:g} nats; weights of one node may differ by {_WIDEST:g}: "
            "use -inf for what is impossible"
        )
    order = np.lexsort((sets, -logs))
    sets, logs = sets[order], logs[order]
    if len(np.unique(sets)) < len(sets):
        raise ArgumentError(f"{where} lists a parent set twice")
    binary = (logs - reference) / math.log(2)
    exponent = np.floor(binary)
    rounding = 2.0**-52 * (float(np.abs(binary).max()) + 4)
    return Families(sets, np.exp2(binary - exponent - 1), exponent.astype(np.int64) + 1, reference, rounding)
