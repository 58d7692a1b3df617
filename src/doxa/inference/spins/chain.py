"""`IsingGibbs`: heat bath of one Ising chain on any graph, one site after another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from doxa.inference.spins.base_samplers import Draws, IsingBase, SpinState, check_scan, scan_order
from doxa.inference.spins.chain_kernels import Sites, advance_chain, sites_of
from doxa.inference.spins.model import IsingModel

__all__ = ["IsingGibbs"]


@dataclass(frozen=True, eq=False)
class IsingGibbs(IsingBase):
    r"""One chain of p(s) proportional to exp(sum of J_ij s_i s_j + sum of h_i s_i), s in {-1, +1}, site by site.

    Parameters
    ----------
    model : IsingModel
        Edges, couplings and fields.
    scan : {"coloured", "cyclic", "random"}, default="coloured"
        The order of a sweep: colour by colour (even then odd sites where two colours are enough), as numbered, or n
        times any site, all equally probable.
    thin : int, default=1
        Sweeps between kept draws; a step is a sweep.
    marginals : bool, default=True
        Keep each site's mean probability of being up given the others.
    keep_spins : bool, default=False
        Keep the spins of every kept draw, one bit a site.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there is no such scan, or ``thin`` is not a whole number of at least one.

    Notes
    -----
    Draws are ``energy`` (-log p up to a constant, nats) and ``magnetisation`` (mean spin) of shape (n_kept,); ``up`` of
    shape (n_kept, n_sites): the probability of +1 given the other spins, at the moment of drawing (random scan: after
    each sweep), averaged over the sweeps since the last kept draw; and ``spins``, as `numpy.packbits` packs ``s > 0``.
    A draw is up with its probability to within 2^-52.  On grids `IsingGrid` is tens of times faster.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> model = IsingModel([[0, 1], [1, 2]], [0.5, -0.5], [0.2, 0.0, 0.0])
    >>> trace = sample(IsingGibbs(model, thin=10), Schedule(4, 5000, 100), seed=1)
    >>> trace["up"].mean(axis=(0, 1)).round(2)  # exact: (1 + t) / 2, t = tanh(.2) (1, tanh(.5), -tanh(.5)^2)
    array([0.6 , 0.55, 0.48])
    """

    model: IsingModel
    scan: str = "coloured"
    thin: int = 1
    marginals: bool = True
    keep_spins: bool = False

    def __post_init__(self) -> None:
        """Refuse an unknown scan and a bad ``thin``."""
        check_scan(self.scan)
        super().__post_init__()

    @property
    def order(self) -> NDArray[np.int64]:
        """The sites in the order of a sweep, shape (n_sites,); of a random scan, as numbered."""
        return scan_order(self.scan, self.model.graph)

    @cached_property
    def _numbered(self) -> tuple[NDArray[np.int64], IsingModel, Sites]:
        """The order, the model with its sites numbered so, and its sites."""
        order = self.order
        model = self.model if self.scan != "coloured" else self.model.renumbered(order)
        return order, model, sites_of(model.graph, model.classes)

    def _advance(self, state: SpinState, n_steps: int) -> tuple[SpinState, Draws, dict[str, int]]:
        order, model, sites = self._numbered
        n, streams = model.n_sites, state.streams.copy()
        is_up = state.spins[order] > 0
        spins = np.concatenate([is_up, ~is_up]).astype(np.uint8)
        draws = self._empty_draws(n_steps)
        advance_chain(
            sites, model.graph, model.fields, order, spins, streams, np.zeros(n if self.marginals else 0),
            self.scan == "random", n_steps, self.thin, tuple(draws.values()),
        )  # fmt: skip
        after = np.empty(n, dtype=np.int8)
        after[order] = 2 * spins[:n].astype(np.int8) - 1
        return SpinState(after, streams), draws, {"updates": n * n_steps}
