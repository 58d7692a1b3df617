"""`IsingModel` and `PottsModel` as arrays, and what the samplers of this room have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.spins.graph import (
    Batches,
    LocalClasses,
    SpinGraph,
    as_fields,
    batches_of,
    colour_sites,
    local_classes,
    spin_graph,
)
from doxa.inference.spins.words import fresh_streams

__all__ = ["IsingModel", "PottsModel", "Run", "SpinState"]

SCANS = ("coloured", "cyclic", "random")

Draws = dict[str, NDArray[Any]]
State = TypeVar("State")

_ASKED_BY = {
    "marginals": "marginals", "probability": "marginals", "up": "marginals", "visits": "visits",
    "spins": "keep_spins", "states": "keep_states",
}  # fmt: skip


class BaseSampler(ABC, Generic[State]):
    """A frozen dataclass of settings, with ``thin``; its random words are part of the state."""

    state_type: ClassVar[type[Any]]

    def __post_init__(self) -> None:
        """Refuse a bad ``thin``."""
        check_whole("thin", getattr(self, "thin"), 1)  # noqa: B009 (a field of the dataclasses)

    def __getstate__(self) -> dict[str, Any]:
        """The settings, without what is derived."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @abstractmethod
    def init(self, rng: np.random.Generator) -> State:
        """Where a chain begins."""

    def run(
        self,
        state: State,
        n_steps: int,
        rng: np.random.Generator,  # noqa: ARG002 (the streams are in the state)
    ) -> tuple[State, Draws, dict[str, int]]:
        """Make ``n_steps`` steps (a multiple of ``thin``) and keep every ``thin``-th; ``rng`` is not used."""
        after, draws, info = self._advance(state, n_steps)
        kept = {name: values for name, values in draws.items() if getattr(self, _ASKED_BY.get(name, ""), True)}
        return after, kept, info

    @abstractmethod
    def _advance(self, state: State, n_steps: int) -> tuple[State, Draws, dict[str, int]]:
        """The same with all draws; those not asked for are of size 0."""


class Run(NamedTuple):
    """What a compiled loop of sweeps works on."""

    state: NDArray[Any]  # spins, states or words, in the order of a sweep
    streams: NDArray[np.uint64]  # (32,)
    sums: NDArray[np.float64]  # of probabilities, since the last kept draw; of size 0 where they are not asked for
    n_steps: int
    thin: int
    draws: tuple[NDArray[Any], ...]


class Sweeping(BaseSampler[State]):
    """A sampler that draws one site after another, in the order that ``scan`` says."""

    model: Any
    scan: Any = "coloured"

    def __post_init__(self) -> None:
        """Refuse an unknown scan and a bad ``thin``."""
        if self.scan not in SCANS:
            raise ArgumentError(f"scan is {self.scan!r}; it must be one of {', '.join(map(repr, SCANS))}")
        super().__post_init__()

    @property
    def order(self) -> NDArray[np.int64]:
        """The sites in the order of a sweep, shape (n_sites,); of a random scan, as numbered."""
        graph: SpinGraph = self.model.graph
        return np.argsort(colour_sites(graph), kind="stable") if self.scan == "coloured" else np.arange(graph.n_sites)

    @cached_property
    def _numbered(self) -> tuple[NDArray[np.int64], Any]:
        """The order, and the model with its sites numbered so."""
        order = self.order
        return order, self.model if self.scan != "coloured" else self.model.renumbered(order)


class SpinState(NamedTuple):
    """Where a chain stands."""

    spins: NDArray[np.int8]  # (n_sites,), -1 or +1
    streams: NDArray[np.uint64]  # (32,), of the random words


class IsingBase(BaseSampler[SpinState]):
    """One chain of an `IsingModel`: ``model``, ``thin``, ``marginals``, ``keep_spins``."""

    model: Any
    thin: Any
    marginals: Any
    keep_spins: Any
    state_type: ClassVar[type[SpinState]] = SpinState

    def init(self, rng: np.random.Generator) -> SpinState:
        """Spins up or down with probability one half each."""
        spins = 2 * rng.integers(0, 2, self.model.n_sites, dtype=np.int8) - 1
        return SpinState(spins.astype(np.int8), fresh_streams(rng))

    def begin(self, states: NDArray[np.int64], rng: np.random.Generator) -> SpinState:
        """A chain that stands at states 0 (down) and 1 (up), shape (n_sites,)."""
        return SpinState((2 * states - 1).astype(np.int8), fresh_streams(rng))

    def _begin_run(
        self, state: NDArray[Any], streams: NDArray[np.uint64], n_steps: int, n_sums: int | None = None
    ) -> tuple[Run, Draws]:
        """A run, with a sum for every site unless told otherwise, and its draws; what is not asked for has no sites."""
        n, n_kept = self.model.n_sites, n_steps // self.thin
        draws: Draws = {
            "energy": np.empty(n_kept),
            "magnetisation": np.empty(n_kept),
            "up": np.empty((n_kept, n if self.marginals else 0)),
            "spins": np.empty((n_kept, (n + 7) // 8 if self.keep_spins else 0), dtype=np.uint8),
        }
        sums = np.zeros((n if n_sums is None else n_sums) if self.marginals else 0)
        return Run(state, streams, sums, n_steps, self.thin, tuple(draws.values())), draws


_MOST_STATES = 2**15 - 1
_LARGEST_EXPONENT = 600.0  # weights up to e^600 in all can be multiplied as they are


class SiteModel:
    """Sites that are coupled in pairs, each with fields of its own."""

    fields: NDArray[np.float64]
    graph: SpinGraph

    @property
    def n_sites(self) -> int:
        """Number of variables."""
        return len(self.fields)

    def renumbered(self, order: NDArray[np.int64]) -> Self:
        """The same model where ``order[i]`` is site i."""
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        made: Any = type(self)
        return cast(Self, made(place[self.graph.edges], self.graph.couplings, self.fields[order]))


class PottsModel(SiteModel):
    """p(x) proportional to exp(sum of J_ij [x_i = x_j] + sum of h_i(x_i)) over states x in {0, ..., q - 1}.

    Parameters
    ----------
    edges : array_like of int, shape (n_edges, 2)
        Pairs of different sites, each pair once.
    couplings : array_like of float, shape (n_edges,) or ()
        J, nats: one a pair, or one for all.
    fields : array_like of float, shape (n_sites, n_states)
        h, nats; at least two states.  ``-inf`` forbids a state; one of each site must be possible.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a site does not exist, an edge joins a site with itself or is there twice, a number is not finite (but
        for fields that forbid a state), no state of a site is possible, there are no sites, or states are fewer than
        2 or more than 32767.

    Examples
    --------
    >>> model = PottsModel([[0, 1]], 0.7, [[0.0, 0.0, 0.5], [0.0, 0.0, 0.5]])
    >>> model.n_sites, model.n_states, model.energy([[2, 2], [0, 1]])
    (2, 3, array([-1.7, -0. ]))
    """

    def __init__(self, edges: ArrayLike, couplings: ArrayLike, fields: ArrayLike) -> None:
        self.fields = as_fields(fields, 2)
        if not 2 <= self.n_states <= _MOST_STATES:
            raise ArgumentError(f"fields has {self.n_states} states a site; there must be 2 to {_MOST_STATES}")
        never = np.flatnonzero((self.fields == -np.inf).all(axis=1))
        if never.size:
            raise ArgumentError(f"fields[{never[0]}] is -inf in every state; one at least must be possible")
        self.graph = spin_graph(len(self.fields), edges, couplings)

    def __repr__(self) -> str:
        return f"PottsModel({self.n_sites} sites, {self.n_states} states, {len(self.graph.edges)} edges)"

    @property
    def n_states(self) -> int:
        """Number of states of each."""
        return int(self.fields.shape[1])

    def energy(self, states: ArrayLike) -> NDArray[np.float64]:
        """-log p up to a constant, nats, of states (..., n_sites)."""
        x = np.asarray(states)
        same = x[..., self.graph.edges[:, 0]] == x[..., self.graph.edges[:, 1]]
        return np.asarray(-(same @ self.graph.couplings + self.fields[np.arange(self.n_sites), x].sum(axis=-1)))

    @property
    def is_tame(self) -> NDArray[np.bool_]:
        """Whether weights of a site can be multiplied without overflow or underflow, shape (n_sites,)."""
        total = np.bincount(self.graph.edges.ravel(), np.repeat(np.abs(self.graph.couplings), 2), self.n_sites)
        lowest = np.where(self.fields == -np.inf, np.inf, self.fields).min(axis=1)
        return np.asarray(total + self.fields.max(axis=1) - lowest <= _LARGEST_EXPONENT)

    @property
    def own_logs(self) -> NDArray[np.float64]:
        """Fields with the largest of each site at 0, nats, shape (n_sites, n_states)."""
        return np.asarray(self.fields - self.fields.max(axis=1, keepdims=True))

    def random_states(self, rng: np.random.Generator, n_chains: int = 1) -> NDArray[np.int16]:
        """All possible states equally probable at every site, independently; shape (n_chains, n_sites)."""
        shape = n_chains, self.n_sites
        states = rng.integers(0, self.n_states, shape, dtype=np.int16)
        never = self.fields == -np.inf
        if never.any():
            possible_first = np.argsort(never, axis=1, kind="stable")
            rank = (rng.random(shape) * (~never).sum(axis=1)).astype(np.intp)
            states = possible_first[np.arange(self.n_sites), rank].astype(np.int16)
        return states


class IsingModel(SiteModel):
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
        self.fields = as_fields(fields, 1)
        self.graph = spin_graph(len(self.fields), edges, couplings)

    def __repr__(self) -> str:
        return f"IsingModel({self.n_sites} sites, {len(self.graph.edges)} edges)"

    def __getstate__(self) -> dict[str, Any]:
        """Without what is derived: a worker derives it again."""
        return {"fields": self.fields, "graph": self.graph}

    @cached_property
    def classes(self) -> LocalClasses:
        """Classes and thresholds of all sites."""
        return local_classes(self.graph, self.fields)

    @cached_property
    def batches(self) -> Batches:
        """The sites, coloured, in groups of eight."""
        return batches_of(self.graph, self.classes, colour_sites(self.graph))

    def energy(self, spins: ArrayLike) -> NDArray[np.float64]:
        """-log p up to a constant, nats, of spins (..., n_sites) that are -1 or +1."""
        s = np.asarray(spins, dtype=np.float64)
        pairs = s[..., self.graph.edges[:, 0]] * s[..., self.graph.edges[:, 1]]
        return np.asarray(-(pairs @ self.graph.couplings + s @ self.fields))
