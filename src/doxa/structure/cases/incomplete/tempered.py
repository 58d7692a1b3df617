r"""Parallel tempering of graphs and missing cells: rungs that hold a graph and a completion, swapped together.

Rung k samples the joint posterior of graph G and missing cells z to the power :math:`\beta_k`, all parts of a turn with
that target: cells are drawn from powers of their predictive probabilities (`doxa.structure.cases.incomplete.sweep`),
changes of the graph with their cells (`doxa.structure.cases.incomplete.joint_proposals`) and structure moves weigh by
powers of theirs.  Swaps are those of `doxa.structure.moves.tempered`, with :math:`s = \log P(D, z \mid G) + \log P(G)`.

Every missing cell widens the spread of s, and neighbours swap only if it is not far above the inverse of the difference
of their betas: with thousands of missing cells, betas must be some hundredths apart.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.sampling.runner import Sampler
from doxa.structure.cases.incomplete.cells_sampler import IncompleteState
from doxa.structure.cases.incomplete.missing_cells import IncompleteData
from doxa.structure.cases.incomplete.sampler import IncompleteSampler
from doxa.structure.limits import Limits
from doxa.structure.moves.sampler import StructureMove
from doxa.structure.moves.tempered import Tempered, TemperedSampler

__all__ = ["TemperedCellsSampler", "TemperedCellsState", "sampler_with_cells"]


class TemperedCellsState(NamedTuple):
    """Graphs and completions of all rungs; fields as in `IncompleteState`, with a rung to a row."""

    rows: NDArray[np.uint64]  # (n_rungs, n_nodes, n_words)
    cells: NDArray[np.int16]  # (n_rungs, n_missing)
    position: NDArray[np.int64]  # (n_rungs,)
    block: NDArray[np.uint64]  # (n_rungs, n_words)
    memory: NDArray[np.int64]  # (n_rungs, 1)
    streams: NDArray[np.uint64]  # as in `doxa.structure.moves.tempered.TemperedState`
    n_draws: int
    farthest: NDArray[np.int64]


class TemperedCellsSampler(TemperedSampler):
    """`TemperedSampler` whose rungs are `IncompleteSampler`."""

    together: ClassVar[Any] = TemperedCellsState
    one: ClassVar[Any] = IncompleteState
    swapped: ClassVar[tuple[str, ...]] = ("rows", "cells")


def sampler_with_cells(data: IncompleteData, limits: Limits, move: StructureMove, **options: Any) -> Sampler[Any]:
    """The sampler that runs a move on a table with missing cells.

    Parameters
    ----------
    data : IncompleteData
    limits : Limits
    move : StructureMove
        `Tempered` too.
    **options
        Of `IncompleteSampler`, of every rung if there are several.

    Examples
    --------
    >>> from doxa.data import Table
    >>> from doxa.sampling.driver import Schedule, sample
    >>> from doxa.structure.limits import capped
    >>> codes = [[0, 0], [1, 1], [0, 0], [1, -1]] * 5
    >>> data = IncompleteData(Table.from_codes(["a", "b"], [["n", "y"]] * 2, codes))
    >>> sampler = sampler_with_cells(data, capped([1, 1]), Tempered(betas=(1.0, 0.8)), steps=10)
    >>> trace = sample(sampler, Schedule(2, 100, 10), seed=1)
    >>> trace["cells"].shape, trace.info["swaps_0"].tolist()
    ((2, 100, 5), [10, 10])
    """
    if not isinstance(move, Tempered):
        return IncompleteSampler(data, limits, move, **options)
    rungs = tuple(IncompleteSampler(data, limits, move.move, **options, beta=beta) for beta in move.betas)
    return TemperedCellsSampler(rungs, rungs[0].thin, move.swap_every)
