r"""The hidden cells of a table that matter to some parameters, and which of them are drawn together.

Rows that are equal are kept apart: their cells are independent given the parameters.  Cells without observed
descendants are left out (they sum to one), and so are those that only given distributions of roots know of.

Cells are drawn given the parameters by Gibbs flips of small blocks, in all rows at once.  A block is a few hidden cells
of one row.  Given the parameters and all other cells, the :math:`2^b` configurations of b cells are weighted by the
factors that these are in: those of their nodes and of their nodes' children.  Blocks of different rows are independent,
so one pass draws the first block of every row, the next the second one, and so on.  The logits of all families with
hidden cells are kept up to date; a configuration's logit is a few additions away from the current one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Bits, Floats
from doxa.errors import ArgumentError
from doxa.models.logistic_factors import Factor, LogisticFactor, RootFactor
from doxa.models.logistic_rows import all_configurations, components_of_pattern, distinct_rows
from doxa.text import listed

__all__ = ["Batch", "Blocks", "HiddenCells", "block_weights", "find_cells", "flip", "make_blocks"]


Ints: TypeAlias = NDArray[np.intp]
_Block: TypeAlias = tuple[int, ...]

_BLOCK = 3  # cells: 2**3 / 3 configurations a cell, where single flips look at 2
_LARGEST_TABLE = 8  # hidden cells of one joint table, drawn together as its zeros may lock single ones


class HiddenCells(NamedTuple):
    """The hidden cells that matter, by row of the source and then by node.

    Their values stand in one vector of floats, ``values``: the cells, then the constants 0 and 1, then a number that is
    never read, the cell of blocks that have one to spare.
    """

    rows: Ints  # (n_cells,), row of the source table
    nodes: Ints  # (n_cells,), position of the node
    shares: tuple[Ints, ...]  # of each factor (n_share, n_scope), where its rows with hidden cells have their values
    blocks: Mapping[tuple[int, int], list[tuple[_Block, Ints]]]  # by pass and size: nodes, and positions of their rows
    place: Ints  # (n_incomplete, n_nodes), where a row has each node in ``values``
    pair: Ints  # (n_incomplete, n_factors), which row of a factor's share a row is; -1: none

    @property
    def n_cells(self) -> int:
        """Number of hidden cells."""
        return self.rows.size

    def extended(self, cells: Bits) -> Floats:
        """``values`` of these cells: a new array, shape (n_cells + 3,)."""
        return np.concatenate([cells.astype(np.float64), [0.0, 1.0, 0.0]])


def find_cells(factors: Sequence[Factor], codes: Bits, row_index: NDArray[Any], names: Sequence[str]) -> HiddenCells:
    """Find the hidden cells of a table's rows that tie these factors."""
    patterns, kind = distinct_rows((codes < 0).astype(np.int8))
    found = [
        [
            (nodes, touching)
            for nodes, touching in components_of_pattern(factors, frozenset(np.flatnonzero(mask).tolist()))
            if any(isinstance(factors[f], LogisticFactor) for f in touching)
        ]
        for mask in patterns
    ]
    used = np.zeros(patterns.shape, dtype=np.bool_)
    touched = np.zeros((len(patterns), len(factors)), dtype=np.bool_)
    for k, components in enumerate(found):
        for nodes, touching in components:
            used[k, list(nodes)] = True
            touched[k, list(touching)] = True
    incomplete = np.asarray(used.any(axis=1))
    source = np.flatnonzero(incomplete[kind][row_index])
    distinct = row_index[source]
    kinds = kind[distinct]
    row, node = np.nonzero(used[kinds])
    place = np.where(codes[distinct] > 0, 1, 0).astype(np.intp) + row.size
    place[row, node] = np.arange(row.size)
    pair = np.full((source.size, len(factors)), -1, dtype=np.intp)
    shares = []
    for f, factor in enumerate(factors):
        members = np.flatnonzero(touched[kinds, f])
        pair[members, f] = np.arange(members.size)
        shares.append(place[members][:, list(factor.scope)])
    blocks: dict[tuple[int, int], list[tuple[_Block, Ints]]] = {}
    for k, members in _groups(kinds, len(patterns)):
        for nodes, touching in found[k]:
            for turn, block in enumerate(_partition(nodes, [factors[f] for f in touching], names)):
                blocks.setdefault((turn, len(block)), []).append((block, members))
    return HiddenCells(source[row], node, tuple(shares), blocks, place, pair)


def _groups(kinds: Ints, n_kinds: int) -> Iterator[tuple[int, Ints]]:
    """Positions of each kind that occurs."""
    order = np.argsort(kinds, kind="stable")
    ends = np.cumsum(np.bincount(kinds, minlength=n_kinds))
    for k, members in enumerate(np.split(order, ends[:-1])):
        if members.size:
            yield k, members


def _partition(nodes: Sequence[int], factors: Sequence[Factor], names: Sequence[str]) -> list[_Block]:
    """Hidden nodes of a component in blocks, neighbours together; those of one joint table always are."""
    together: dict[int, _Block] = {v: (v,) for v in nodes}
    for factor in factors:
        if not isinstance(factor, LogisticFactor):
            unit = tuple(v for v in factor.scope if v in together)
            if len(unit) > _LARGEST_TABLE:
                raise ArgumentError(
                    f"roots gives a joint table over {listed([names[v] for v in factor.scope])}, and in some row "
                    f"{len(unit)} of them are hidden; at most {_LARGEST_TABLE} can be drawn together: observe some of "
                    f"them, or give the roots tables or probabilities of their own"
                )
            together.update(dict.fromkeys(unit, unit))
    scopes = [set(factor.scope) for factor in factors]
    order: list[_Block] = []
    waiting = [together[nodes[0]]]
    while waiting:  # breadth first
        unit = waiting.pop(0)
        if unit in order:
            continue
        order.append(unit)
        near = sorted(set().union(*(scope for scope in scopes if scope.intersection(unit))))
        waiting.extend(together[v] for v in near if v in together and together[v] not in order)
    blocks: list[_Block] = []
    for unit in order:
        if blocks and len(blocks[-1]) + len(unit) <= _BLOCK:
            blocks[-1] += unit
        else:
            blocks.append(unit)
    return blocks


_MIXED = 3  # cells: blocks of up to so many may share a batch
_TOGETHER = 4096  # numbers in a mixed batch at most: one more batch costs as much, 50 millionths of a second
_CHUNK = 2**15  # numbers in a batch at most: a quarter of a megabyte, which stays in the second cache


class Batch(NamedTuple):
    """Blocks that are drawn at once; a slot is a block with a logistic factor that it is in."""

    cells: Ints  # (b, n), where in ``values``
    configurations: Floats  # (2**b, b), of 0 and 1
    roots: Ints | None  # (b, n), the logit of a learned root's probability in the parameters; at the end: a 0
    constant: Floats | None  # (2**b, n), nats: what the given distributions of roots say; -inf for a spare cell's 1
    block: Ints  # (n_slots,), rising
    first: Ints | None  # (n,), first slot of each block; None if every block has one
    pair: Ints  # (n_slots,), where in the logits
    coefficients: Ints  # (b, n_slots), of the block's cells in the parameters; at the end: a 0
    child: Ints  # (n_slots,), where in ``values``
    inside: Ints  # slots whose child is in the block
    signs: Floats  # (2**b, n_inside), of those children


class Blocks(NamedTuple):
    """Batches in the order in which they are drawn."""

    batches: tuple[Batch, ...]
    step: float  # by which a parent's value rises from 0 to 1: 1, or 2 where it is coded -1 and +1
    starts: tuple[int, ...]  # of each logistic factor's rows in the logits
    n_logits: int


def make_blocks(
    factors: Sequence[Factor], cells: HiddenCells, n_nodes: int, low: float, places: Mapping[str, slice]
) -> Blocks:
    """Lay out the blocks of hidden cells for array operations."""
    sizes = [
        len(share) if isinstance(factor, LogisticFactor) else 0
        for factor, share in zip(factors, cells.shares, strict=True)
    ]
    starts = tuple(np.cumsum([0, *sizes[:-1]]).tolist())
    layout = _Layout(factors, cells, n_nodes, places, starts)
    batches = [layout.batch(nodes, rows) for nodes, rows in _batches(cells.blocks)]
    return Blocks(tuple(batches), 1.0 - low, starts, sum(sizes))


def block_weights(batch: Batch, values: Floats, logits: Floats, steps: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """Log weights of the configurations of every block given all else (nats, up to a constant of the block)."""
    slopes = steps[batch.coefficients]
    here = logits[batch.pair] - (slopes * values[batch.cells][:, batch.block]).sum(axis=0)
    options = batch.configurations @ slopes
    options += here
    signed = options * (2.0 * values[batch.child] - 1.0)
    if batch.inside.size:
        signed[:, batch.inside] = options[:, batch.inside] * batch.signs
    terms = np.abs(signed)
    np.log1p(np.exp(np.negative(terms, out=terms), out=terms), out=terms)
    np.subtract(np.minimum(signed, 0.0, out=signed), terms, out=terms)  # log g
    log_weights = terms if batch.first is None else np.add.reduceat(terms, batch.first, axis=1)
    if batch.roots is not None:
        log_weights += batch.configurations @ theta[batch.roots]
    if batch.constant is not None:
        log_weights += batch.constant
    return log_weights, options


def flip(batch: Batch, values: Floats, logits: Floats, steps: Floats, theta: Floats, uniforms: Floats) -> None:
    """Draw every block of a batch given all else, by inversion; changes ``values`` and ``logits``.

    ``uniforms`` (n,) are from (0, 1], so that a configuration without probability is never taken.
    """
    log_weights, options = block_weights(batch, values, logits, steps, theta)
    log_weights -= log_weights.max(axis=0)
    cumulative = np.cumsum(np.exp(log_weights, out=log_weights), axis=0)
    taken = (cumulative < uniforms * cumulative[-1]).sum(axis=0)
    values[batch.cells] = batch.configurations[taken].T
    logits[batch.pair] = options[taken[batch.block], np.arange(batch.block.size)]


class _Layout(NamedTuple):
    """What batches are made from."""

    factors: Sequence[Factor]
    cells: HiddenCells
    n_nodes: int
    places: Mapping[str, slice]
    starts: tuple[int, ...]

    def batch(self, nodes: Ints, rows: Ints) -> Batch:
        """Blocks of these nodes (n, b), -1 where there is one to spare, in rows (n,)."""
        n, b = nodes.shape
        configurations = all_configurations(b).astype(np.float64)
        spare = np.full((len(self.cells.place), 1), self.cells.n_cells + 2)
        place = np.concatenate([self.cells.place, spare], axis=1)[rows]
        zero = max(part.stop for part in self.places.values())
        roots = np.full(self.n_nodes + 1, zero)  # the last of these belongs to spare cells
        constant = np.where(configurations @ (nodes < 0).T > 0, -np.inf, 0.0)
        slots = []
        for f, factor in enumerate(self.factors):
            touched = np.flatnonzero(np.isin(nodes, factor.scope).any(axis=1) & (self.cells.pair[rows, f] >= 0))
            if isinstance(factor, LogisticFactor):
                slots.append(self._slots(f, factor, nodes[touched], rows[touched], touched))
            elif factor.node is not None:
                roots[factor.scope[0]] = self.places[factor.node].start
            else:
                observed = place[touched] - self.cells.n_cells  # 0 or 1
                constant[:, touched] += _given(factor, nodes[touched], observed)
        block, pair, child, coefficients, own = (np.concatenate(parts) for parts in zip(*slots, strict=True))
        order = np.argsort(block, kind="stable")
        block, own = block[order], own[order]
        inside = np.flatnonzero(own.any(axis=1))
        positions = roots[nodes]
        return Batch(
            np.take_along_axis(place, nodes, axis=1).T.copy(),
            configurations,
            positions.T.copy() if (positions < zero).any() else None,
            constant if constant.any() else None,
            block,
            np.searchsorted(block, np.arange(n)) if block.size > n else None,
            pair[order],
            coefficients[order].T.copy(),
            child[order],
            inside,
            2.0 * configurations[:, own[inside].argmax(axis=1)] - 1.0,
        )

    def _slots(self, f: int, factor: LogisticFactor, nodes: Ints, rows: Ints, blocks: Ints) -> tuple[NDArray[Any], ...]:
        """Of a factor's slots: block, place in the logits and of the child, coefficients, where the child is inside."""
        where = np.full(self.n_nodes + 1, max(part.stop for part in self.places.values()))
        first = self.places[factor.node].start + (factor.bias is None)
        where[list(factor.scope[:-1])] = first + np.arange(len(factor.scope) - 1)
        child = factor.scope[-1]
        pair = self.starts[f] + self.cells.pair[rows, f]
        return blocks, pair, self.cells.place[rows, child], where[nodes], nodes == child


def _given(factor: RootFactor, nodes: Ints, observed: Ints) -> Floats:
    """Log probabilities of a given distribution of roots for every configuration and block, shape (2**b, n)."""
    assert factor.probabilities is not None
    configurations = all_configurations(nodes.shape[1]).astype(np.float64)
    index = []
    for v in factor.scope:
        own = nodes == v
        drawn = configurations @ own.T
        index.append(np.where(own.any(axis=1), drawn, observed[:, v]).astype(np.intp))
    with np.errstate(divide="ignore"):  # zeros of a joint table
        return np.asarray(np.log(factor.probabilities[tuple(index)]))


def _batches(blocks: Mapping[tuple[int, int], list[tuple[tuple[int, ...], Ints]]]) -> Iterator[tuple[Ints, Ints]]:
    """Nodes (n, b) and rows (n,) of every batch, pass after pass; small groups of different sizes share one."""
    for turn in sorted({turn for turn, _ in blocks}):
        groups = {size: blocks[turn, size] for start, size in sorted(blocks) if start == turn}
        n = {size: sum(len(rows) for _, rows in group) for size, group in groups.items()}
        small = [size for size in groups if size <= _MIXED]
        if sum(n[size] for size in small) << max(small, default=0) <= _TOGETHER:
            sizes = [small, *([size] for size in groups if size > _MIXED)]
        else:
            sizes = [[size] for size in groups]
        for mixed in filter(None, sizes):
            width = max(mixed)
            parts = [(block + (-1,) * (width - size), rows) for size in mixed for block, rows in groups[size]]
            nodes = np.repeat([block for block, _ in parts], [len(rows) for _, rows in parts], axis=0).astype(np.intp)
            rows = np.concatenate([rows for _, rows in parts])
            step = max(1, _CHUNK >> width)
            for start in range(0, len(rows), step):
                yield nodes[start : start + step], rows[start : start + step]
