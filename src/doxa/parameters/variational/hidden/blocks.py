r"""The form of q: which missing cells have a joint distribution, and where its probabilities stand.

The cells of a component are cut into blocks; q is any distribution inside a block and a product over blocks (Jaakkola &
Jordan 2000, eq. 27 with blocks for cells).  One block is the unconstrained q of their eq. 65, blocks of one cell are
mean field (eq. 66; de Freitas et al. 2001, 3.3).  Cells of one joint table of roots are never parted: its zeros would
make the bound minus infinity.

All probabilities are one flat array: for each block of each neighbourhood a run of 2**k numbers.  Blocks of one
neighbourhood are updated one after another and stand in different *stages*; a stage is updated at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.models.logistic_factors import Factor, RootFactor
from doxa.models.logistic_options import listing
from doxa.models.logistic_rows import MAX_CONFIGURATIONS
from doxa.parameters.variational.hidden.configurations import Bits, Component, all_configurations

__all__ = ["Block", "Layout", "Stage", "cut", "lay_out"]

_Floats = NDArray[np.float64]


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

    def softmax(self, logits: _Floats) -> _Floats:
        """Probabilities in proportion to the exponentials of ``logits``, run by run."""
        weights = np.exp(logits - np.repeat(np.maximum.reduceat(logits, self.first), self.sizes))
        return np.asarray(weights / np.repeat(np.add.reduceat(weights, self.first), self.sizes))


class Layout(NamedTuple):
    """All probabilities of q."""

    stages: tuple[Stage, ...]
    cases: _Floats  # (n,), of the neighbourhood that each number belongs to
    n: int

    def softmax(self, logits: _Floats) -> _Floats:
        """Normalise every run of an array of logarithms, shape (n,)."""
        q = np.empty(self.n)
        for stage in self.stages:
            q[stage.place] = stage.softmax(logits[stage.place])
        return q


def cut(
    nodes: Sequence[int], scopes: Sequence[Sequence[int]], tied: Sequence[Sequence[int]], size: int
) -> list[tuple[int, ...]]:
    """Cut cells into blocks of at most ``size``; each grows by the cell that shares most factors with it.

    Parameters
    ----------
    nodes : sequence of int
        Missing cells.
    scopes : sequence of sequence of int
        Nodes of each factor.
    tied : sequence of sequence of int
        Cells that must not be parted, whatever the size.
    size : int

    Returns
    -------
    list of tuple of int

    Examples
    --------
    >>> cut([0, 1, 2, 3], [(0, 2), (1, 3), (2, 3)], [], 2)  # a chain 0 - 2 - 3 - 1
    [(0, 2), (1, 3)]
    """
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
        f"largest group of the last rows counted has {len(nodes)} missing cells ({listing(nodes, 6)}): {way_out}"
    )
