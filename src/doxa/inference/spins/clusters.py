r"""`SwendsenWang`: cluster moves of an Ising chain, with fields and couplings of either sign (Swendsen & Wang 1987).

Heat bath of single spins crosses from mostly up to mostly down by way of states of high energy; near and below the
critical temperature of a lattice that takes forever.  Here every edge whose spins agree with its coupling is bound with
probability :math:`1 - e^{-2|J|}`, others never; within the clusters so bound all spins keep their relations, and each
cluster takes one of its two orientations.  Edwards & Sokal (1988): the joint density of spins and bonds is

.. math:: \prod_i e^{h_i s_i} \prod_{ij} e^{-|J_{ij}|} [ (1 - b_{ij}) + b_{ij} (e^{2|J_{ij}|} - 1)
          1(J_{ij} s_i s_j > 0) ],

whose sum over bonds is p(s): for J s s > 0 the factor is :math:`e^{|J|}`, else :math:`e^{-|J|}`.  Given the bonds, a
cluster stays as it is with odds :math:`e^{2H}`, H the sum of h_i s_i over its spins as they stand: no ghost spin is
needed, and what the bonds leave open is known exactly, which ``up`` makes use of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from doxa._jit import hot
from doxa.inference.spins.base_samplers import Draws, IsingBase, SpinState
from doxa.inference.spins.chain import measure, record
from doxa.inference.spins.model import IsingModel
from doxa.inference.spins.words import uniform

__all__ = ["SwendsenWang"]


@dataclass(frozen=True, eq=False)
class SwendsenWang(IsingBase):
    """One Ising chain that moves by clusters; for lattices that order, where `IsingGibbs` hardly moves.

    Parameters
    ----------
    model : IsingModel
        Edges, couplings and fields.
    thin : int, default=1
        Steps (new bonds, then a new orientation of every cluster) between kept draws.
    marginals : bool, default=True
        Keep each spin's mean probability of being up given the bonds.
    keep_spins : bool, default=False
        Keep the spins of every kept draw, one bit a site.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``thin`` is not a whole number of at least one.

    Notes
    -----
    Draws are named as `doxa.inference.spins.IsingGibbs` names them; ``up`` is the probability of +1 given the bonds.
    Where couplings of both signs leave no order that suits all, or fields pull the spins of a cluster apart, clusters
    grow large without leading anywhere, and single spins do better.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> model = IsingModel([[0, 1], [1, 2]], [2.0, -2.0], [0.2, 0.0, 0.0])
    >>> trace = sample(SwendsenWang(model), Schedule(4, 2000, 100), seed=1)
    >>> trace["up"].mean(axis=(0, 1)).round(2)  # exact: (1 + t) / 2, t = tanh(.2) (1, tanh(2), -tanh(2)^2)
    array([0.6 , 0.6 , 0.41])
    """

    model: IsingModel
    thin: int = 1
    marginals: bool = True
    keep_spins: bool = False

    def _advance(self, state: SpinState, n_steps: int) -> tuple[SpinState, Draws, dict[str, int]]:
        model, n = self.model, self.model.n_sites
        spins, streams = (state.spins > 0).astype(np.uint8), state.streams.copy()
        binding = -np.expm1(-2 * np.abs(model.graph.couplings))
        draws = self._empty_draws(n_steps)
        n_clusters = _advance(
            model.graph, model.fields, binding, np.arange(n), spins, streams, np.empty(n, dtype=np.int64), np.empty(n),
            np.zeros(n if self.marginals else 0), n_steps, self.thin, tuple(draws.values()),
        )  # fmt: skip
        after = (2 * spins.astype(np.int8) - 1).astype(np.int8)
        return SpinState(after, streams), draws, {"updates": n * n_steps, "clusters": int(n_clusters)}


@hot
def _advance(
    graph: Any,
    fields: Any,
    binding: Any,
    numbers: Any,
    spins: Any,
    streams: Any,
    parent: Any,
    pull: Any,
    sums: Any,
    n_steps: int,
    thin: int,
    draws: Any,
) -> int:
    """Make the steps; return the number of clusters, all steps together."""
    energy, magnetisation, up, packed = draws
    n, n_clusters = fields.size, 0
    for step in range(1, n_steps + 1):
        for i in range(n):
            parent[i] = i
        for e in range(graph.couplings.size):
            i, j = graph.edges[e, 0], graph.edges[e, 1]
            agrees = (spins[i] == spins[j]) == (graph.couplings[e] > 0.0)
            if agrees and uniform(streams, e & 7) < binding[e]:
                _join(parent, i, j)
        for i in range(n):
            pull[i] = 0.0
        for i in range(n):
            parent[i] = _root(parent, i)
            pull[parent[i]] += fields[i] if spins[i] else -fields[i]
        for i in range(n):
            if parent[i] == i:
                n_clusters += 1
                pull[i] = 1.0 / (1.0 + math.exp(2.0 * pull[i]))  # from here on: the probability of turning over
        for i in range(sums.size):
            sums[i] += 1.0 - pull[parent[i]] if spins[i] else pull[parent[i]]
        for i in range(n):
            if parent[i] == i:
                pull[i] = 1.0 if uniform(streams, i & 7) < pull[i] else 0.0  # from here on: whether it does
        for i in range(n):
            if pull[parent[i]] == 1.0:
                spins[i] ^= 1
        if step % thin == 0:
            measure(graph, fields, spins, step // thin - 1, energy, magnetisation)
            record(spins, sums, numbers, thin, up[step // thin - 1], packed[step // thin - 1])
    return n_clusters


@hot
def _root(parent: Any, i: int) -> int:
    """The number of the cluster of ``i``; paths are halved on the way."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@hot
def _join(parent: Any, i: int, j: int) -> None:
    """Make one cluster of two; the lower number stands for it."""
    a, b = _root(parent, i), _root(parent, j)
    if a < b:
        parent[b] = a
    else:
        parent[a] = b
