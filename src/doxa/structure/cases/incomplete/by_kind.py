"""The sampler of a move on a table with missing cells, by what the kind of its families offers.

Families with Dirichlet parameters have these integrated out cell by cell (`doxa.structure.cases.incomplete.sampler`);
of others nothing is asked but scores of completed tables (`doxa.structure.cases.incomplete.scored_sampler`).
"""

from __future__ import annotations

from typing import Any

from doxa.sampling.runner import Sampler
from doxa.structure.cases.incomplete.cells_sampler import usual_steps
from doxa.structure.cases.incomplete.missing_cells import IncompleteData
from doxa.structure.cases.incomplete.sampler import IncompleteSampler
from doxa.structure.cases.incomplete.scored_sampler import ScoredCellsSampler
from doxa.structure.limits import Limits
from doxa.structure.moves.sampler import StructureMove
from doxa.structure.moves.tempered import Tempered, TemperedSampler

__all__ = ["sampler_with_cells"]


def sampler_with_cells(
    data: IncompleteData, limits: Limits, move: StructureMove, *, thin: int | None = None, **options: Any
) -> Sampler[Any]:
    """The sampler that runs a move on a table with missing cells.

    Parameters
    ----------
    data : IncompleteData
    limits : Limits
    move : StructureMove
        `Tempered` too.
    thin : int, optional
        Structure steps between draws; as many as there are in a sweep when left out.  Else a sweep is as long as usual,
        but for what makes it a number of draws, or a draw a number of sweeps.
    **options
        Of `IncompleteSampler` or `ScoredCellsSampler`, of every rung if there are several.

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
    kind = IncompleteSampler if data.score.is_dirichlet else ScoredCellsSampler  # also with interventions, and in time
    if thin is not None:
        usual = usual_steps(data.n_nodes, lists=move.uses_table, quick=data.score.is_quick)
        options |= {"thin": thin, "steps": _steps_that_fit(thin, usual)}
    if not isinstance(move, Tempered):
        return kind(data, limits, move, **options)
    rungs = tuple(kind(data, limits, move.move, **options, beta=beta) for beta in move.betas)
    return TemperedSampler(rungs, rungs[0].thin, move.swap_every)


def _steps_that_fit(thin: int, usual: int) -> int:
    """The steps of a sweep nearest to the usual that are a multiple of ``thin``, or of which that is a multiple.

    >>> [_steps_that_fit(thin, 320) for thin in (80, 100, 320, 640, 700, 701)]
    [320, 300, 320, 320, 350, 701]
    """
    if thin <= usual:
        return round(usual / thin) * thin
    sweeps = round(thin / usual)
    return thin // sweeps if thin % sweeps == 0 else thin
