"""What the samplers of this room have in common: what a run keeps, the scans, and states of one Ising chain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.spins.graph import SpinGraph, colour_sites
from doxa.inference.spins.words import fresh_streams

__all__ = ["BaseSampler", "Draws", "IsingBase", "SpinState", "check_scan", "coloured_order", "scan_order"]

SCANS = ("coloured", "cyclic", "random")

Draws = dict[str, NDArray[Any]]
State = TypeVar("State")

_ASKED_BY = {"up": "marginals", "probability": "marginals", "spins": "keep_spins", "states": "keep_states"}
_DERIVED = ("_numbered", "_laid_out")


class BaseSampler(ABC, Generic[State]):
    """A frozen dataclass of settings, with ``thin``; its random words are part of the state."""

    state_type: ClassVar[type[Any]]

    def __post_init__(self) -> None:
        """Refuse a bad ``thin``."""
        check_whole("thin", getattr(self, "thin"), 1)  # noqa: B009 (a field of the dataclasses)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is derived."""
        return {name: value for name, value in self.__dict__.items() if name not in _DERIVED}

    @abstractmethod
    def init(self, rng: np.random.Generator) -> State:
        """All states equally probable, independently at every site."""

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

    def _empty_draws(self, n_steps: int) -> Draws:
        """Where a run writes its draws; what is not asked for has no sites."""
        n, n_kept = self.model.n_sites, n_steps // self.thin
        return {
            "energy": np.empty(n_kept),
            "magnetisation": np.empty(n_kept),
            "up": np.empty((n_kept, n if self.marginals else 0)),
            "spins": np.empty((n_kept, (n + 7) // 8 if self.keep_spins else 0), dtype=np.uint8),
        }


def check_scan(scan: str) -> None:
    """Raise unless there is such a scan."""
    if scan not in SCANS:
        raise ArgumentError(f"scan is {scan!r}; it must be one of {', '.join(map(repr, SCANS))}")


def scan_order(scan: str, graph: SpinGraph) -> NDArray[np.int64]:
    """The sites in the order of a sweep, shape (n_sites,); of a random scan, as numbered."""
    return coloured_order(graph) if scan == "coloured" else np.arange(graph.n_sites)


def coloured_order(graph: SpinGraph) -> NDArray[np.int64]:
    """The sites colour by colour, shape (n_sites,)."""
    return np.argsort(colour_sites(graph), kind="stable")
