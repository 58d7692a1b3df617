"""`PottsGibbs`: heat bath of one Potts chain on any graph, one site after another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.mcmc.ising.chain import check_scan
from doxa.mcmc.ising.graph import SpinGraph, as_fields, colour_sites, spin_graph
from doxa.mcmc.ising.potts_kernels import advance_potts
from doxa.mcmc.ising.random_words import fresh_streams

__all__ = ["PottsGibbs", "PottsModel", "PottsState"]

_MOST_STATES = 2**15 - 1
_LARGEST_EXPONENT = 600.0  # weights up to e^600 in all can be multiplied as they are


class PottsModel:
    """p(x) proportional to exp(sum of J_ij [x_i = x_j] + sum of h_i(x_i)) over states x in {0, ..., q - 1}.

    Parameters
    ----------
    edges : array_like of int, shape (n_edges, 2)
        Pairs of different sites, each pair once.
    couplings : array_like of float, shape (n_edges,) or ()
        J, nats: one a pair, or one for all.
    fields : array_like of float, shape (n_sites, n_states)
        h, nats; at least two states.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a site does not exist, an edge joins a site with itself or is there twice, a number is not finite, there are
        no sites, or states are fewer than 2 or more than 32767.

    Examples
    --------
    >>> model = PottsModel([[0, 1]], 0.7, [[0.0, 0.0, 0.5], [0.0, 0.0, 0.5]])
    >>> model.n_sites, model.n_states, model.energy([[2, 2], [0, 1]])
    (2, 3, array([-1.7, -0. ]))
    """

    def __init__(self, edges: ArrayLike, couplings: ArrayLike, fields: ArrayLike) -> None:
        self.fields: NDArray[np.float64] = as_fields(fields, 2)
        if not 2 <= self.n_states <= _MOST_STATES:
            raise ArgumentError(f"fields has {self.n_states} states a site; there must be 2 to {_MOST_STATES}")
        self.graph: SpinGraph = spin_graph(len(self.fields), edges, couplings)

    def __repr__(self) -> str:
        return f"PottsModel({self.n_sites} sites, {self.n_states} states, {len(self.graph.edges)} edges)"

    @property
    def n_sites(self) -> int:
        """Number of variables."""
        return len(self.fields)

    @property
    def n_states(self) -> int:
        """Number of states of each."""
        return int(self.fields.shape[1])

    def renumbered(self, order: NDArray[np.int64]) -> PottsModel:
        """The same model where ``order[i]`` is site i."""
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return PottsModel(place[self.graph.edges], self.graph.couplings, self.fields[order])

    def energy(self, states: ArrayLike) -> NDArray[np.float64]:
        """-log p up to a constant, nats, of states (..., n_sites)."""
        x = np.asarray(states)
        same = x[..., self.graph.edges[:, 0]] == x[..., self.graph.edges[:, 1]]
        return np.asarray(-(same @ self.graph.couplings + self.fields[np.arange(self.n_sites), x].sum(axis=-1)))


class PottsState(NamedTuple):
    """Where a chain stands."""

    states: NDArray[np.int16]  # (n_sites,)
    streams: NDArray[np.uint64]  # (32,), of the random words


@dataclass(frozen=True, eq=False)
class PottsGibbs:
    """One Potts chain, site by site.

    Parameters
    ----------
    model : PottsModel
        Edges, couplings and fields.
    scan, thin, marginals
        As of `doxa.mcmc.ising.IsingGibbs`.
    keep_states : bool, default=False
        Keep the states of every kept draw.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there is no such scan, or ``thin`` is not a whole number of at least one.

    Notes
    -----
    Draws are ``energy`` (-log p up to a constant, nats), shape (n_kept,); ``shares``, the share of the sites in each
    state, shape (n_kept, n_states); ``probability``, shape (n_kept, n_sites, n_states): given the others, at the moment
    of drawing (random scan: after each sweep), averaged over the sweeps since the last kept draw; and ``states``, shape
    (n_kept, n_sites).  Probabilities are those of floating-point numbers, about 2^-52 off.

    Examples
    --------
    >>> from doxa.mcmc.driver import Schedule, sample
    >>> model = PottsModel([[0, 1]], 0.7, [[0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    >>> trace = sample(PottsGibbs(model, thin=10), Schedule(4, 2000, 100), seed=1)
    >>> trace["probability"].mean(axis=(0, 1)).round(2)  # first e^.5 / (2 + e^.5) = .452
    array([[0.27, 0.27, 0.45],
           [0.32, 0.32, 0.36]])
    """

    model: PottsModel
    scan: str = "coloured"
    thin: int = 1
    marginals: bool = True
    keep_states: bool = False

    def __post_init__(self) -> None:
        """Refuse an unknown scan and a bad ``thin``."""
        check_scan(self.scan)
        check_whole("thin", self.thin, 1)

    @property
    def state_type(self) -> type[PottsState]:
        """The type of its states."""
        return PottsState

    @property
    def order(self) -> NDArray[np.int64]:
        """The sites in the order of a sweep, shape (n_sites,); of a random scan, as numbered."""
        if self.scan == "coloured":
            return np.argsort(colour_sites(self.model.graph), kind="stable")
        return np.arange(self.model.n_sites)

    @cached_property
    def _numbered(self) -> tuple[NDArray[np.int64], PottsModel, bool]:
        """The order, the model with its sites numbered so, and whether weights can be multiplied as they are."""
        order = self.order
        model = self.model if self.scan != "coloured" else self.model.renumbered(order)
        graph = model.graph
        total = np.bincount(graph.edges.ravel(), np.repeat(np.abs(graph.couplings), 2), model.n_sites)
        return order, model, bool((total + np.ptp(model.fields, axis=1) <= _LARGEST_EXPONENT).all())

    def __getstate__(self) -> dict[str, Any]:
        """Without what is derived."""
        return {name: value for name, value in self.__dict__.items() if name != "_numbered"}

    def init(self, rng: np.random.Generator) -> PottsState:
        """All states equally probable, at every site."""
        states = rng.integers(0, self.model.n_states, self.model.n_sites, dtype=np.int16)
        return PottsState(states, fresh_streams(rng))

    def run(
        self,
        state: PottsState,
        n_steps: int,
        rng: np.random.Generator,  # noqa: ARG002 (the streams are in the state)
    ) -> tuple[PottsState, dict[str, NDArray[Any]], dict[str, int]]:
        """Sweep ``n_steps`` times (a multiple of ``thin``) and keep every ``thin``-th; ``rng`` is not used."""
        order, model, is_tame = self._numbered
        (n, q), n_kept = model.fields.shape, n_steps // self.thin
        states, streams = state.states[order], state.streams.copy()
        own = model.fields - model.fields.max(axis=1, keepdims=True)
        draws: dict[str, NDArray[Any]] = {
            "energy": np.empty(n_kept),
            "shares": np.zeros((n_kept, q)),
            "probability": np.empty((n_kept, n if self.marginals else 0, q)),
            "states": np.empty((n_kept, n if self.keep_states else 0), dtype=np.int16),
        }
        weights = (np.exp(own), np.exp(model.graph.strengths)) if is_tame else (own, model.graph.strengths)
        advance_potts(
            model.graph, model.fields, weights, is_tame, order, states, streams, np.zeros(q),
            np.zeros((n if self.marginals else 0, q)), self.scan == "random", n_steps, self.thin,
            tuple(draws.values()),
        )  # fmt: skip
        after = np.empty_like(states)
        after[order] = states
        asked = {"probability": self.marginals, "states": self.keep_states}
        kept = {name: values for name, values in draws.items() if asked.get(name, True)}
        return PottsState(after, streams), kept, {"updates": n * n_steps}
