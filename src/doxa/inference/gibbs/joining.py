"""Blocks that connect all possible states, from blocks that do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from doxa.inference.gibbs.arguments import Block
from doxa.inference.gibbs.connectivity import Connectivity, Part, connectivity, inner_blocks, listed_part
from doxa.inference.gibbs.reach import classes
from doxa.inference.gibbs.supports import Supports
from doxa.models.factors import Factor

__all__ = ["ConnectingBlocks", "connecting_blocks"]

_MOST_PAIRS = 200  # of blocks of a part, whose union is tried


class ConnectingBlocks(NamedTuple):
    """Blocks, and what they connect."""

    blocks: tuple[Block, ...]
    connectivity: Connectivity


def connecting_blocks(
    n_states: Sequence[int],
    factors: Sequence[Factor],
    blocks: Iterable[Sequence[int]] | None = None,
    most_configurations: int = 4096,
) -> ConnectingBlocks:
    """Join blocks until they connect all possible states, as far as that can be told and done.

    Parameters
    ----------
    n_states : sequence of int
    factors : sequence of Factor
    blocks : iterable of sequence of int, optional
        To begin with, such as those of `deterministic_blocks`; each variable alone when left out.
    most_configurations : int, default=4096
        Largest number of configurations of a block that no single factor forbids.

    Returns
    -------
    ConnectingBlocks
        Of two blocks that are joined the union takes the place of the first.

    Notes
    -----
    Where `connectivity` proves that a part falls into classes, the two of its blocks are joined whose union leaves the
    fewest, the smaller union of equal ones; where no union of two helps, all blocks of the part.  What is too large to
    list, or to join, stays as it is.

    Examples
    --------
    >>> import numpy as np
    >>> never_differ = np.where([[True, True, False], [True, True, False], [False, False, True]], 0.0, -np.inf)
    >>> connecting_blocks([3, 3], [Factor((0, 1), never_differ)]).blocks
    ((0, 1),)
    """
    now: list[Block] = (
        [(v,) for v in range(len(n_states))] if blocks is None else [tuple(int(v) for v in b) for b in blocks]
    )
    supports = Supports.of(n_states, factors)
    while True:
        found = connectivity(n_states, factors, now)
        union = next(
            (
                better
                for part in found.parts
                if part.n_classes is not None and part.n_classes > 1
                if (better := _union(part, supports, now, most_configurations)) is not None
            ),
            None,
        )
        if union is None:
            return ConnectingBlocks(tuple(now), found)
        first = next(b for b, block in enumerate(now) if set(block) <= set(union))
        now[first] = union
        now = [block for b, block in enumerate(now) if b <= first or not set(block) <= set(union)]


def _union(part: Part, supports: Supports, blocks: list[Block], most: int) -> Block | None:
    """The union of blocks that leaves the fewest classes; None if none helps or is small enough."""
    rows = listed_part(part, supports)
    if rows is None:
        return None
    own = [block for block in blocks if not set(block).isdisjoint(part.variables)]
    scopes = [set(support.variables) for support in supports.among(part.variables)]
    pairs = [pair for pair in combinations(own, 2) if any(all(scope & set(b) for b in pair) for scope in scopes)]
    for groups in (pairs[:_MOST_PAIRS], [own]):
        best: tuple[int, int, Block] | None = None
        for group in groups:
            union = tuple(sorted({v for block in group for v in block}))
            codes = supports.configurations(union, most)
            if codes is None:
                continue
            n_classes = len(set(classes(rows, inner_blocks(part.variables, [*blocks, union])).tolist()))
            tried = (n_classes, len(codes), union)
            best = tried if best is None else min(best, tried)
        if best is not None and part.n_classes is not None and best[0] < part.n_classes:
            return best[2]
    return None
