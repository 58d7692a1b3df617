"""`IsingGrid`: heat bath of one Ising chain on a square grid or torus, 64 sites at a time (checkerboard)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from doxa.inference.spins.aligned import aligned, aligned_zeros
from doxa.inference.spins.base_samplers import Draws, IsingBase, SpinState
from doxa.inference.spins.grid_kernels import N_COUNTERS, advance_grid
from doxa.inference.spins.grid_layout import ABOVE, LEFT, N_LANES, GridLayout, directed_couplings, grid_layout
from doxa.inference.spins.grid_tables import GridTables, grid_tables, pack_lanes
from doxa.inference.spins.masks import WORK_SIZE
from doxa.inference.spins.model import IsingModel

__all__ = ["IsingGrid"]


@dataclass(frozen=True, eq=False)
class IsingGrid(IsingBase):
    r"""One Ising chain on a grid: all even sites, then all odd sites, each given its neighbours.

    Parameters
    ----------
    model : IsingModel
        Edges join neighbours on the grid, or its last row or column with the first; couplings and fields are any.
    shape : (int, int)
        Rows and columns; site ``columns * row + column``.
    thin, marginals, keep_spins
        As of `doxa.inference.spins.IsingGibbs`, and so are the draws.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the shape does not have the model's sites, an edge is not of the grid, a side that wraps around is odd (three
        colours would be needed), or ``thin`` is not a whole number of at least one.

    Notes
    -----
    A grid that wraps around is fastest where its sides are multiples of 16, or one is a multiple of 128: it is cut into
    at most 64 equal blocks.  Others are filled up.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> model = IsingModel([[0, 1], [0, 2], [1, 3], [2, 3]], 0.4, [0.3, 0, 0, 0])
    >>> trace = sample(IsingGrid(model, (2, 2), thin=10), Schedule(4, 5000, 10), seed=1)
    >>> trace["up"].mean(axis=(0, 1)).round(2)
    array([0.65, 0.56, 0.56, 0.54])
    """

    model: IsingModel
    shape: tuple[int, int]
    thin: int = 1
    marginals: bool = True
    keep_spins: bool = False

    def __post_init__(self) -> None:
        """Refuse graphs that are no such grid, and a bad ``thin``."""
        super().__post_init__()
        _ = self._laid_out

    @cached_property
    def _laid_out(self) -> tuple[GridLayout, GridTables]:
        couplings = directed_couplings(self.model, self.shape)
        wraps = bool(couplings[ABOVE, 0].any()), bool(couplings[LEFT, :, 0].any())
        layout = grid_layout(self.shape, wraps)
        return layout, grid_tables(layout, couplings, self.model.fields)

    def _advance(self, state: SpinState, n_steps: int) -> tuple[SpinState, Draws, dict[str, int]]:
        layout, tables = self._laid_out
        n, n_words, is_site = self.model.n_sites, len(layout.site), layout.site >= 0
        words, streams = np.zeros(layout.spare + 1, dtype=np.uint64), aligned(state.streams)
        words[:n_words] = pack_lanes(is_site & (state.spins[layout.site] > 0))
        n_tallies = len(layout.batches) * tables.n_classes * N_COUNTERS * 8 if self.marginals else 0
        draws = self._empty_draws(n_steps)
        advance_grid(
            layout, tables, words, streams, aligned_zeros(WORK_SIZE), aligned_zeros(n_tallies),
            np.zeros(n_words * N_LANES), np.zeros(N_LANES, dtype=np.uint64), n, n_steps, self.thin,
            tuple(draws.values()),
        )  # fmt: skip
        bits = (words[:n_words, None] >> np.arange(N_LANES, dtype=np.uint64)) & np.uint64(1)
        spins = np.empty(n, dtype=np.int8)
        spins[layout.site[is_site]] = 2 * bits[is_site].astype(np.int8) - 1
        return SpinState(spins, streams.copy()), draws, {"updates": n * n_steps}
