r"""One factor in all the neighbourhoods where it holds missing cells: its *instances*, and what q says of them.

A block's distribution matters to a factor through its marginal on the cells that both have.  `Share` has the
bookkeeping of one factor and one stage: from q to these marginals, and back from a number for each of their
configurations, or *entries*, to a number for each configuration of the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.variational.hidden.blocks import Layout
from doxa.parameters.variational.hidden.configurations import Bits, Component, all_configurations

__all__ = ["Instances", "Share", "instances_of"]

_Floats = NDArray[np.float64]
_Index = NDArray[np.intp]


class Share(NamedTuple):
    """The cells that one factor has in blocks of one stage."""

    instance: _Index  # (n_blocks,), each in one of the factor's instances and no two in the same
    first: _Index  # (n_blocks,), where each block's entries begin
    sizes: _Index  # (n_blocks,), how many they are: 2**(cells of the block in the factor)
    bits: Bits  # (n_entries, n_scope), -1 outside the block
    position: _Index  # (n_q,), places in q
    entry: _Index  # (n_q,), the entry that each belongs to

    def marginals(self, q: _Floats) -> _Floats:
        """Probability of each entry, shape (n_entries,)."""
        return np.bincount(self.entry, weights=q[self.position], minlength=len(self.bits)).astype(
            np.float64, copy=False
        )

    def totals(self, values: _Floats) -> _Floats:
        """Sum over each block's entries, along the first axis."""
        return np.asarray(np.add.reduceat(values, self.first, axis=0))


class Instances(NamedTuple):
    """A factor's instances."""

    codes: Bits  # (n, n_scope), -1 where missing
    cases: _Floats  # (n,)
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
