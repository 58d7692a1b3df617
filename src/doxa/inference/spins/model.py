"""`IsingModel`: an Ising model as arrays, and what the kernels derive from it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.inference.spins.batches import Batches, batches_of
from doxa.inference.spins.classes import LocalClasses, local_classes
from doxa.inference.spins.graph import SpinGraph, as_fields, colour_sites, spin_graph

__all__ = ["IsingModel"]


class IsingModel:
    """p(s) proportional to exp(sum of J_ij s_i s_j + sum of h_i s_i) over spins s in {-1, +1}.

    Parameters
    ----------
    edges : array_like of int, shape (n_edges, 2)
        Pairs of different sites, each pair once.
    couplings : array_like of float, shape (n_edges,) or ()
        J, nats: one a pair, or one for all; negative ones favour spins that differ.
    fields : array_like of float, shape (n_sites,)
        h, nats.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a site does not exist, an edge joins a site with itself or is there twice, a number is not finite, or there
        are no sites.

    Examples
    --------
    >>> model = IsingModel([[0, 1], [1, 2]], 0.4, [0.1, 0.0, 0.0])
    >>> model.n_sites, model.energy([[1, 1, 1], [-1, 1, 1]])
    (3, array([-0.9,  0.1]))
    """

    def __init__(self, edges: ArrayLike, couplings: ArrayLike, fields: ArrayLike) -> None:
        self.fields: NDArray[np.float64] = as_fields(fields, 1)
        self.graph: SpinGraph = spin_graph(len(self.fields), edges, couplings)

    def __repr__(self) -> str:
        return f"IsingModel({self.n_sites} sites, {len(self.graph.edges)} edges)"

    def __getstate__(self) -> dict[str, Any]:
        """Without what is derived: a worker derives it again."""
        return {"fields": self.fields, "graph": self.graph}

    @property
    def n_sites(self) -> int:
        """Number of spins."""
        return len(self.fields)

    @cached_property
    def classes(self) -> LocalClasses:
        """Classes and thresholds of all sites."""
        return local_classes(self.graph, self.fields)

    @cached_property
    def batches(self) -> Batches:
        """The sites, coloured, in groups of eight."""
        return batches_of(self.graph, self.classes, colour_sites(self.graph))

    def renumbered(self, order: NDArray[np.int64]) -> IsingModel:
        """The same model where ``order[i]`` is site i."""
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return IsingModel(place[self.graph.edges], self.graph.couplings, self.fields[order])

    def energy(self, spins: ArrayLike) -> NDArray[np.float64]:
        """-log p up to a constant, nats, of spins (..., n_sites) that are -1 or +1."""
        s = np.asarray(spins, dtype=np.float64)
        pairs = s[..., self.graph.edges[:, 0]] * s[..., self.graph.edges[:, 1]]
        return np.asarray(-(pairs @ self.graph.couplings + s @ self.fields))
