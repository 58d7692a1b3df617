r"""`Scan`: which blocks of variables a step redraws, and in which order.

A step takes *lists* of blocks, in turn or by chance, and redraws the blocks of a list one after another, each given all
variables outside of it.  Blocks may overlap, and a list may have a block more than once.

What is redrawn may depend on time, on chance, and on variables outside of the block; never on the values that the block
redraws.  Let step b redraw block b with matrix :math:`P_b`, which keeps :math:`\pi`, and be taken with probability
:math:`w_b(x)`.  The mixture keeps it if :math:`\sum_x \pi(x) \sum_b w_b(x) P_b(x, y) = \pi(y)`.  Where no :math:`w_b`
looks at block b, :math:`w_b(x) = w_b(y)` whenever :math:`P_b(x, y) > 0`, and the left side is
:math:`\pi(y) \sum_b w_b(y) = \pi(y)`.  Otherwise the flow out of y and the flow back into it are weighted differently.
Riggelsen, ch. 4, section 2.1.6 (dynamic creation of blocks) gives an example where values of X1 and X2 decide that X1
and X2 are drawn together, and then claims samples of Pr(X): it needs this condition.  The scans here depend on time
and chance alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.mcmc.gibbs.arguments import Block, check_block

__all__ = ["FlatScan", "Scan", "cyclic", "in_turn", "random_blocks", "random_lists", "single_sites"]


@dataclass(frozen=True)
class Scan:
    """Blocks and when they are redrawn; made by `cyclic`, `in_turn`, `random_blocks` or `random_lists`.

    Attributes
    ----------
    lists : tuple of tuple of blocks
        A block is a tuple of variables.
    weights : tuple of float or None
        Probabilities of the lists, which sum to 1; None: step t takes list t modulo their number.
    per_step : int
        Lists that a step takes.
    """

    lists: tuple[tuple[Block, ...], ...]
    weights: tuple[float, ...] | None = None
    per_step: int = 1

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The different blocks that are ever redrawn, in order of appearance."""
        weights = self.weights or (1.0,) * len(self.lists)
        taken = [blocks for blocks, weight in zip(self.lists, weights, strict=True) if weight > 0]
        return tuple(dict.fromkeys(block for blocks in taken for block in blocks))

    def checked(self, n_variables: int) -> Scan:
        """Return the scan with its blocks checked against a number of variables."""
        lists = tuple(
            tuple(check_block(block, f"scan.lists[{i}][{j}]", n_variables) for j, block in enumerate(blocks))
            for i, blocks in enumerate(self.lists)
        )
        return Scan(lists, self.weights, self.per_step)

    def flat(self) -> FlatScan:
        """The scan as arrays, with blocks numbered as in `blocks`."""
        number = {block: b for b, block in enumerate(self.blocks)}
        sizes = [len(blocks) for blocks in self.lists]
        order = [number.get(block, 0) for blocks in self.lists for block in blocks]  # those of weight 0: never read
        keep, other = _alias_table(self.weights) if self.weights else (np.empty(0), np.empty(0, dtype=np.int64))
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return FlatScan(starts, np.array(order, dtype=np.int64), keep, other, self.per_step)


class FlatScan(NamedTuple):
    """A scan as the kernel reads it; ``keep`` is empty where lists are taken in turn."""

    starts: NDArray[np.int64]  # (n_lists + 1,)
    order: NDArray[np.int64]  # numbers of blocks
    keep: NDArray[np.float64]  # (n_lists,): of the numbers in [i, i + 1), those below i + keep[i] mean list i,
    other: NDArray[np.int64]  # (n_lists,): the rest this one
    per_step: int


def single_sites(n_variables: int) -> tuple[Block, ...]:
    """Return a block for each variable.

    Examples
    --------
    >>> single_sites(3)
    ((0,), (1,), (2,))
    """
    return tuple((v,) for v in range(n_variables))


def cyclic(blocks: Iterable[Sequence[int]]) -> Scan:
    """Redraw all blocks in every step, in this order.

    Examples
    --------
    >>> cyclic([(1, 2), (0,), (2,)])
    Scan(lists=(((1, 2), (0,), (2,)),), weights=None, per_step=1)
    """
    return in_turn([blocks])


def in_turn(lists: Iterable[Iterable[Sequence[int]]]) -> Scan:
    """Redraw the blocks of one list in every step, of the first list in the first step.

    Examples
    --------
    >>> in_turn([[(0, 1), (2,)], [(0,), (1, 2)]]).blocks
    ((0, 1), (2,), (0,), (1, 2))
    """
    return Scan(_read_lists(lists))


def random_blocks(
    blocks: Iterable[Sequence[int]], weights: Sequence[float] | None = None, per_step: int | None = None
) -> Scan:
    """Redraw ``per_step`` blocks in every step, each chosen by chance: a random scan.

    Parameters
    ----------
    blocks : iterable of sequence of int
    weights : sequence of float, optional
        How probable the blocks are, up to a factor; equally when left out.
    per_step : int, optional
        As many as there are blocks when left out.

    Examples
    --------
    >>> random_blocks([(0,), (1,)], [3, 1])
    Scan(lists=(((0,),), ((1,),)), weights=(0.75, 0.25), per_step=2)
    """
    lists = _read_lists([block] for block in blocks)
    n = len(lists) if per_step is None else check_whole("per_step", per_step, 1)
    return Scan(lists, _read_weights(weights, len(lists)), n)


def random_lists(lists: Iterable[Iterable[Sequence[int]]], weights: Sequence[float] | None = None) -> Scan:
    """Redraw the blocks of one list in every step, chosen by chance.

    Examples
    --------
    >>> random_lists([[(0, 1), (2,)], [(0,), (1, 2)]]).weights
    (0.5, 0.5)
    """
    read = _read_lists(lists)
    return Scan(read, _read_weights(weights, len(read)))


def _read_lists(lists: Iterable[Iterable[Sequence[int]]]) -> tuple[tuple[Block, ...], ...]:
    read = []
    for i, blocks in enumerate(lists):
        own = tuple(blocks)
        if not own:
            raise ArgumentError(f"list {i} of the scan has no blocks; give at least one")
        for block in own:
            if isinstance(block, str) or not isinstance(block, Sequence):
                raise ArgumentTypeError(f"list {i} of the scan has {block!r}; a block is a sequence of variables")
        read.append(tuple(tuple(int(v) for v in block) for block in own))
    if not read:
        raise ArgumentError("the scan has no blocks; give at least one")
    return tuple(read)


def _read_weights(weights: Sequence[float] | None, n: int) -> tuple[float, ...]:
    if weights is None:
        return (1 / n,) * n
    given = [float(weight) for weight in weights]
    if len(given) != n:
        raise ArgumentError(f"weights has {len(given)} entries but there are {n} to choose from")
    for i, weight in enumerate(given):
        if not (weight >= 0 and math.isfinite(weight)):
            raise ArgumentError(f"weights[{i}] is {weight:g}; it must be a finite number of at least 0")
    total = math.fsum(given)
    if not 0 < total < math.inf:
        raise ArgumentError(f"weights sum to {total:g}; at least one must be positive")
    return tuple(weight / total for weight in given)


def _alias_table(weights: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Probabilities as equal shares of at most two outcomes each (Walker 1977)."""
    n = len(weights)
    left = np.array(weights) * n
    keep, other = np.ones(n), np.arange(n)
    small, large = [int(i) for i in np.flatnonzero(left < 1)], [int(i) for i in np.flatnonzero(left >= 1)]
    while small and large:
        i, j = small.pop(), large.pop()
        keep[i], other[i] = left[i], j
        left[j] -= 1 - left[i]
        (small if left[j] < 1 else large).append(j)
    richest = int(np.argmax(weights))
    for i in small:  # what rounding has left: full shares, unless that would give life to a weight of 0
        if not weights[i]:
            keep[i], other[i] = 0.0, richest
    return keep, other
