r"""The form of q: which missing cells have a joint distribution, and where its probabilities stand.

The cells of a component are cut into blocks; q is any distribution inside a block and a product over blocks (Jaakkola &
Jordan 2000, eq. 27 with blocks for cells).  One block is the unconstrained q of their eq. 65, blocks of one cell are
mean field (eq. 66; de Freitas et al. 2001, 3.3).  Cells of one joint table of roots are never parted: its zeros would
make the bound minus infinity.

All probabilities are one flat array: for each block of each neighbourhood a run of 2**k numbers.  Blocks of one
neighbourhood are updated one after another and stand in different *stages*; a stage is updated at once.

A table with missing cells as a list of small problems: cells that are summed over together, in their surroundings.

As in `doxa.models.logistic_rows`, the missing cells of a row fall into *components* that share factors, after those
without observed descendants are taken out, which would only loosen the bound.  Rows that agree in what a component's
factors observe are one *neighbourhood* with the cases of all of them.

One factor in all the neighbourhoods where it holds missing cells: its *instances*, and what q says of them.

A block's distribution matters to a factor through its marginal on the cells that both have.  `Share` has the
bookkeeping of one factor and one stage: from q to these marginals, and back from a number for each of their
configurations, or *entries*, to a number for each configuration of the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Bits, Floats
from doxa.errors import ArgumentError
from doxa.models.logistic_factors import Factor, RootFactor
from doxa.models.logistic_rows import MAX_CONFIGURATIONS, all_configurations, distinct_rows, rows_of_components
from doxa.text import listed

__all__ = [
    "Block",
    "Component",
    "Instances",
    "Layout",
    "Share",
    "Stage",
    "complete_cases",
    "components_of_table",
    "cut",
    "instances_of",
    "lay_out",
]


class Component(NamedTuple):
    """Missing cells that share factors, and the neighbourhoods in which they are missing."""

    nodes: tuple[int, ...]  # the missing cells, by the position of their node
    factors: tuple[int, ...]  # positions of the factors that hold any of them
    rows: NDArray[np.int32]  # distinct rows of the table that have it
    local: NDArray[np.int32]  # the neighbourhood of each of these rows
    codes: Bits  # (n_local, n_nodes of the network), -1 at the missing cells; columns outside the factors mean nothing
    cases: NDArray[np.float64]  # (n_local,)


def components_of_table(
    factors: Sequence[Factor], codes: Bits, counts: NDArray[np.int64] | NDArray[np.float64]
) -> list[Component]:
    """Components of a table, ordered by their cells.

    Parameters
    ----------
    factors : sequence of Factor
        Children before parents.
    codes : ndarray of int8, shape (n_distinct, n_nodes)
        0, 1 and -1 (missing), as `doxa.models.logistic_rows.binary_codes` makes them.
    counts : ndarray, shape (n_distinct,)

    Returns
    -------
    list of Component

    Examples
    --------
    >>> from doxa.models import LogisticNetwork
    >>> network = LogisticNetwork({"c": ["a", "b"], "d": ["c"]})
    >>> network.names
    ('c', 'd', 'a', 'b')
    >>> codes = np.array([[1, 0, -1, 0], [1, -1, 0, 0], [1, 1, -1, 0]], dtype=np.int8)
    >>> (found,) = components_of_table(network.factors, codes, np.array([5, 1, 2]))
    >>> found.nodes, found.rows.tolist(), found.cases.tolist()  # d = 0 or 1 is no part of a's surroundings
    ((2,), [0, 2], [7.0])
    """
    components = []
    for (nodes, touched), found in sorted(rows_of_components(factors, codes).items()):
        rows = np.sort(found)
        observed = sorted({v for f in touched for v in factors[f].scope} - set(nodes))
        distinct, local = distinct_rows(codes[rows][:, observed])
        neighbourhoods = np.full((len(distinct), codes.shape[1]), -1, dtype=np.int8)
        neighbourhoods[:, observed] = distinct
        cases = np.bincount(local, weights=counts[rows], minlength=len(distinct)).astype(np.float64, copy=False)
        components.append(Component(nodes, touched, rows, local, neighbourhoods, cases))
    return components


def complete_cases(
    factor: Factor, codes: Bits, counts: NDArray[np.int64] | NDArray[np.float64]
) -> tuple[Bits, NDArray[np.float64]]:
    """Configurations of a factor's nodes in rows that miss none of them, one a row, and the cases of each."""
    family = codes[:, list(factor.scope)]
    whole = (family >= 0).all(axis=1)
    configurations, index = distinct_rows(family[whole])
    cases = np.bincount(index, weights=counts[whole], minlength=len(configurations)).astype(np.float64, copy=False)
    return configurations, cases


class Block(NamedTuple):
    """Cells with a joint distribution, in every neighbourhood of a component."""

    component: int
    nodes: tuple[int, ...]
    start: int  # of the first neighbourhood's probabilities; the others follow
    n_local: int

    @property
    def shape(self) -> tuple[int, int]:
        """Neighbourhoods, configurations."""
        return self.n_local, 2 ** len(self.nodes)

    @property
    def place(self) -> slice:
        """Where its probabilities stand."""
        return slice(self.start, self.start + self.n_local * 2 ** len(self.nodes))

    @property
    def bits(self) -> Bits:
        """Configurations of its cells, shape (2**k, k)."""
        return all_configurations(len(self.nodes))


class Stage(NamedTuple):
    """Blocks that are updated together, in one stretch of the array."""

    place: slice
    first: NDArray[np.intp]  # where each run begins, from the stage's start
    sizes: NDArray[np.intp]
    blocks: tuple[Block, ...]

    def softmax(self, logits: Floats) -> Floats:
        """Probabilities in proportion to the exponentials of ``logits``, run by run."""
        weights = np.exp(logits - np.repeat(np.maximum.reduceat(logits, self.first), self.sizes))
        return np.asarray(weights / np.repeat(np.add.reduceat(weights, self.first), self.sizes))


class Layout(NamedTuple):
    """All probabilities of q."""

    stages: tuple[Stage, ...]
    cases: Floats  # (n,), of the neighbourhood that each number belongs to
    n: int

    def softmax(self, logits: Floats) -> Floats:
        """Normalise every run of an array of logarithms, shape (n,)."""
        q = np.empty(self.n)
        for stage in self.stages:
            q[stage.place] = stage.softmax(logits[stage.place])
        return q


def cut(
    nodes: Sequence[int], scopes: Sequence[Sequence[int]], tied: Sequence[Sequence[int]], size: int
) -> list[tuple[int, ...]]:
    """Cut cells into blocks of at most ``size``; each grows by the cell that shares most factors with it."""
    units = [unit for group in tied if (unit := tuple(v for v in nodes if v in group))]
    units = sorted(units + [(v,) for v in nodes if not any(v in unit for unit in units)])
    blocks = []
    while units:
        block = units.pop(0)
        while units:
            shared = [
                sum(not set(unit).isdisjoint(scope) for scope in scopes if not set(block).isdisjoint(scope))
                if len(block) + len(unit) <= size
                else 0
                for unit in units
            ]
            if not max(shared):
                break
            block += units.pop(int(np.argmax(shared)))
        blocks.append(tuple(sorted(block)))
    return blocks


def lay_out(
    components: Sequence[Component], factors: Sequence[Factor], names: Sequence[str], size: int | None
) -> Layout:
    """Cut every component into blocks of at most ``size`` cells (None: one block) and give them places.

    Raises
    ------
    ArgumentError
        If q needs more than 2**20 numbers.
    """
    tables = [factor.scope for factor in factors if isinstance(factor, RootFactor)]
    cuts = []
    n = 0
    for component in components:
        scopes = [factors[f].scope for f in component.factors]
        blocks = [component.nodes] if size is None else cut(component.nodes, scopes, tables, size)
        n += sum(component.cases.size << len(block) for block in blocks)
        if n > MAX_CONFIGURATIONS:
            raise _too_many(n, [names[v] for v in max(blocks, key=len)], size)
        cuts.append(blocks)
    stages: list[Stage] = []
    cases = [np.empty(0)]
    start = 0
    for k in range(max(map(len, cuts), default=0)):
        begin, members = start, []
        for c, (component, blocks) in enumerate(zip(components, cuts, strict=True)):
            if k < len(blocks):
                block = Block(c, blocks[k], start, component.cases.size)
                members.append(block)
                cases.append(np.repeat(component.cases, block.shape[1]))
                start = block.place.stop
        sizes = np.repeat([block.shape[1] for block in members], [block.n_local for block in members])
        stages.append(Stage(slice(begin, start), np.cumsum(sizes) - sizes, sizes, tuple(members)))
    return Layout(tuple(stages), np.concatenate(cases), start)


def _too_many(n: int, nodes: Sequence[str], size: int | None) -> ArgumentError:
    if size is None:
        way_out = "form='mean_field' or form='structured' cuts them into small groups"
    elif len(nodes) > 1:
        way_out = "a smaller group_size or form='mean_field' cuts them further"
    else:
        way_out = "leave out the rows that miss most, or columns that matter little"
    return ArgumentError(
        f"q needs at least {n:,} probabilities of hidden configurations, and the limit is {MAX_CONFIGURATIONS:,}; the "
        f"largest group of the last rows counted has {len(nodes)} missing cells ({listed(nodes, 6)}): {way_out}"
    )


_Index = NDArray[np.intp]


class Share(NamedTuple):
    """The cells that one factor has in blocks of one stage."""

    instance: _Index  # (n_blocks,), each in one of the factor's instances and no two in the same
    first: _Index  # (n_blocks,), where each block's entries begin
    sizes: _Index  # (n_blocks,), how many they are: 2**(cells of the block in the factor)
    bits: Bits  # (n_entries, n_scope), -1 outside the block
    position: _Index  # (n_q,), places in q
    entry: _Index  # (n_q,), the entry that each belongs to

    def marginals(self, q: Floats) -> Floats:
        """Probability of each entry, shape (n_entries,)."""
        return np.bincount(self.entry, weights=q[self.position], minlength=len(self.bits)).astype(
            np.float64, copy=False
        )

    def totals(self, values: Floats) -> Floats:
        """Sum over each block's entries, along the first axis."""
        return np.asarray(np.add.reduceat(values, self.first, axis=0))


class Instances(NamedTuple):
    """A factor's instances."""

    codes: Bits  # (n, n_scope), -1 where missing
    cases: Floats  # (n,)
    shares: tuple[Share | None, ...]  # one a stage


def instances_of(f: int, scope: Sequence[int], components: Sequence[Component], layout: Layout) -> Instances:
    """Instances of the factor at position ``f``, component by component."""
    begins: dict[int, int] = {}
    n = 0
    for c, component in enumerate(components):
        if f in component.factors:
            begins[c] = n
            n += component.cases.size
    codes = [components[c].codes[:, list(scope)] for c in begins]
    cases = [components[c].cases for c in begins]
    shares = []
    for stage in layout.stages:
        pieces = []
        n_entries = 0
        for block in stage.blocks:
            if block.component not in begins:
                continue
            common = [k for k, v in enumerate(block.nodes) if v in scope]
            if not common:
                continue
            n_local, size = block.shape
            local = all_configurations(len(common))
            bits = np.full((len(local), len(scope)), -1, dtype=np.int8)
            bits[:, [scope.index(block.nodes[k]) for k in common]] = local
            entry = block.bits[:, common].astype(np.intp) @ (1 << np.arange(len(common)))
            first = n_entries + len(local) * np.arange(n_local)
            pieces.append(
                Share(
                    instance=begins[block.component] + np.arange(n_local),
                    first=first,
                    sizes=np.full(n_local, len(local)),
                    bits=np.tile(bits, (n_local, 1)),
                    position=np.arange(block.start, block.start + n_local * size),
                    entry=(first[:, None] + entry).ravel(),
                )
            )
            n_entries += n_local * len(local)
        shares.append(Share(*map(np.concatenate, zip(*pieces, strict=True))) if pieces else None)
    empty = np.empty((0, len(scope)), dtype=np.int8)
    return Instances(np.concatenate([empty, *codes]), np.concatenate([np.empty(0), *cases]), tuple(shares))
