r"""`Scan`: which blocks of variables a step redraws, and in which order.

A step takes *lists* of blocks, in turn or by chance, and redraws the blocks of a list one after another, each given all
variables outside of it.  Blocks may overlap, and a list may have a block more than once.  In the place of a block there
may be a `ByValue`: of its lists of blocks, the value of a variable outside of all of them chooses the one to redraw.

What is redrawn may depend on time, on chance, and on variables outside of the block; never on the values that the block
redraws.  Let step b redraw block b with matrix :math:`P_b`, which keeps :math:`\pi`, and be taken with probability
:math:`w_b(x)`.  The mixture keeps it if :math:`\sum_x \pi(x) \sum_b w_b(x) P_b(x, y) = \pi(y)`.  Where no :math:`w_b`
looks at block b, :math:`w_b(x) = w_b(y)` whenever :math:`P_b(x, y) > 0`, and the left side is
:math:`\pi(y) \sum_b w_b(y) = \pi(y)`.  Otherwise the flow out of y and the flow back into it are weighted differently.
Riggelsen, ch. 4, section 2.1.6 (dynamic creation of blocks) gives an example where values of X1 and X2 decide that X1
and X2 are drawn together, and then claims samples of Pr(X): it needs this condition.  A `ByValue` whose blocks have the
variable that chooses between them is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.flat import starts_of
from doxa.inference.gibbs.supports import Block, check_block

__all__ = ["ByValue", "Scan", "by_value", "cyclic", "in_turn", "random_blocks", "random_lists", "single_sites"]


class ByValue(NamedTuple):
    """Lists of blocks, of which the value of a variable chooses one; made by `by_value`."""

    variable: int
    lists: tuple[tuple[Block, ...], ...]  # by its states; none of their blocks has the variable


Entry: TypeAlias = Block | ByValue


@dataclass(frozen=True)
class Scan:
    """Blocks and when they are redrawn; made by `cyclic`, `in_turn`, `random_blocks` or `random_lists`.

    Attributes
    ----------
    lists : tuple of tuple of blocks
        A block is a tuple of variables, or a `ByValue`.
    weights : tuple of float or None
        Probabilities of the lists, which sum to 1; None: step t takes list t modulo their number.
    per_step : int
        Lists that a step takes.
    """

    lists: tuple[tuple[Entry, ...], ...]
    weights: tuple[float, ...] | None = None
    per_step: int = 1

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The different blocks and choices between blocks that are ever taken, in order of appearance."""
        weights = self.weights or (1.0,) * len(self.lists)
        taken = [blocks for blocks, weight in zip(self.lists, weights, strict=True) if weight > 0]
        return tuple(dict.fromkeys(entry for blocks in taken for entry in blocks))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The different blocks that are ever redrawn, in order of appearance."""
        return tuple(dict.fromkeys(block for entry in self.entries for block in blocks_of(entry)))

    def checked(self, n_states: Sequence[int]) -> Scan:
        """Return the scan with its blocks checked against the variables' numbers of states."""
        lists = tuple(
            tuple(_check_entry(entry, f"scan.lists[{i}][{j}]", n_states) for j, entry in enumerate(entries))
            for i, entries in enumerate(self.lists)
        )
        return Scan(lists, self.weights, self.per_step)

    def flat(self) -> FlatScan:
        """The scan as arrays, with blocks numbered as in `blocks`."""
        number = {block: b for b, block in enumerate(self.blocks)}
        choices = list(
            dict.fromkeys(entry for entries in self.lists for entry in entries if isinstance(entry, ByValue))
        )
        more = [own for choice in choices for own in choice.lists]  # these follow the lists that steps take
        order = [
            -1 - choices.index(entry)
            if isinstance(entry, ByValue)
            else number.get(entry, 0)  # 0: of weight 0, not read
            for entries in [*self.lists, *more]
            for entry in entries
        ]
        begin = np.cumsum([len(self.lists), *(len(choice.lists) for choice in choices)])
        keep, other = _alias_table(self.weights) if self.weights else (np.empty(0), np.empty(0, dtype=np.int64))
        return FlatScan(
            starts_of(len(entries) for entries in [*self.lists, *more]),
            np.array(order, dtype=np.int64),
            keep,
            other,
            self.per_step,
            len(self.lists),
            np.array([choice.variable for choice in choices], dtype=np.int64),
            begin[:-1].astype(np.int64),
            np.empty(0, dtype=np.int64),
        )


class FlatScan(NamedTuple):
    """A scan as the kernel reads it; ``keep`` is empty where lists are taken in turn."""

    starts: NDArray[np.int64]  # where each list begins in ``order``; first those that steps take, then those of choices
    order: NDArray[np.int64]  # numbers of blocks; -1 - k where choice k is made
    keep: NDArray[np.float64]  # (n_lists,): of the numbers in [i, i + 1), those below i + keep[i] mean list i,
    other: NDArray[np.int64]  # (n_lists,): the rest this one
    per_step: int
    n_lists: int  # that steps take
    by_variables: NDArray[np.int64]  # (n_choices,): what chooses
    by_lists: NDArray[np.int64]  # (n_choices,): the list for its state 0; those for the others follow
    looked_at: NDArray[np.int64]  # blocks whose probabilities are taken at the end of every step, where values choose


def by_value(variable: int, lists: Iterable[Iterable[Sequence[int]]]) -> ByValue:
    """Let the value of a variable choose which blocks are redrawn.

    Parameters
    ----------
    variable : int
    lists : iterable of iterable of sequence of int
        The blocks of each of its states, which may be none.  None of them may have the variable.

    Examples
    --------
    >>> cyclic([(0,), by_value(0, [[(1, 2)], [(1,), (2,)]])]).blocks
    ((0,), (1, 2), (1,), (2,))
    """
    return ByValue(int(variable), tuple(tuple(_read_block(block) for block in own) for own in lists))


def single_sites(n_variables: int) -> tuple[Block, ...]:
    """Return a block for each variable.

    Examples
    --------
    >>> single_sites(3)
    ((0,), (1,), (2,))
    """
    return tuple((v,) for v in range(n_variables))


def cyclic(blocks: Iterable[Sequence[int] | ByValue]) -> Scan:
    """Redraw all blocks in every step, in this order.

    Examples
    --------
    >>> cyclic([(1, 2), (0,), (2,)])
    Scan(lists=(((1, 2), (0,), (2,)),), weights=None, per_step=1)
    """
    return in_turn([blocks])


def in_turn(lists: Iterable[Iterable[Sequence[int] | ByValue]]) -> Scan:
    """Redraw the blocks of one list in every step, of the first list in the first step.

    Examples
    --------
    >>> in_turn([[(0, 1), (2,)], [(0,), (1, 2)]]).blocks
    ((0, 1), (2,), (0,), (1, 2))
    """
    return Scan(_read_lists(lists))


def random_blocks(
    blocks: Iterable[Sequence[int] | ByValue], weights: Sequence[float] | None = None, per_step: int | None = None
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


def random_lists(lists: Iterable[Iterable[Sequence[int] | ByValue]], weights: Sequence[float] | None = None) -> Scan:
    """Redraw the blocks of one list in every step, chosen by chance.

    Examples
    --------
    >>> random_lists([[(0, 1), (2,)], [(0,), (1, 2)]]).weights
    (0.5, 0.5)
    """
    read = _read_lists(lists)
    return Scan(read, _read_weights(weights, len(read)))


def _read_lists(lists: Iterable[Iterable[Sequence[int] | ByValue]]) -> tuple[tuple[Entry, ...], ...]:
    read = []
    for i, blocks in enumerate(lists):
        own = tuple(blocks)
        if not own:
            raise ArgumentError(f"list {i} of the scan has no blocks; give at least one")
        read.append(tuple(b if isinstance(b, ByValue) else _read_block(b, f"list {i} of the scan") for b in own))
    if not read:
        raise ArgumentError("the scan has no blocks; give at least one")
    return tuple(read)


def _read_block(block: Sequence[int], where: str = "a list of by_value") -> Block:
    if isinstance(block, (str, ByValue)) or not isinstance(block, Sequence):
        raise ArgumentTypeError(f"{where} has {block!r}; a block is a sequence of variables")
    return tuple(int(v) for v in block)


def blocks_of(entry: Entry) -> tuple[Block, ...]:
    """A block alone, or all blocks that a choice is between."""
    return tuple(block for own in entry.lists for block in own) if isinstance(entry, ByValue) else (entry,)


def _check_entry(entry: Entry, name: str, n_states: Sequence[int]) -> Entry:
    """A block, or a choice whose lists fit the states of what chooses and leave it alone."""
    if not isinstance(entry, ByValue):
        return check_block(entry, name, len(n_states))
    (chooser,) = check_block((entry.variable,), f"the variable of {name}", len(n_states))
    if len(entry.lists) != n_states[chooser]:
        raise ArgumentError(
            f"{name} has {len(entry.lists)} lists but the variable {chooser}, which chooses, has {n_states[chooser]} "
            "states; give a list for each, which may be empty"
        )
    lists = tuple(
        tuple(check_block(block, f"{name}.lists[{s}][{j}]", len(n_states)) for j, block in enumerate(own))
        for s, own in enumerate(entry.lists)
    )
    for s, own in enumerate(lists):
        for block in own:
            if chooser in block:
                raise ArgumentError(
                    f"{name}.lists[{s}] redraws the variable {chooser}, which chooses the list; chains would settle "
                    "elsewhere; leave it out of these blocks"
                )
    return ByValue(chooser, lists)


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
