"""`PartsSampler`: samplers of independent quantities, side by side as one sampler of the driver's.

All of a chain's randomness comes from one stream, so the samplers take turns of a fixed number of steps, wherever the
driver's blocks end; what a block has not asked for yet waits in the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.sampling.runner import Sampler

__all__ = ["TURN", "PartSampler", "PartsSampler", "PartsState"]

TURN = 256  # steps, where no sampler has chunks of its own

Draws = dict[str, NDArray[Any]]

_AHEAD = "ahead__"


class PartSampler(Sampler[Any], Protocol):
    """A sampler that says what its state is, so that it can be made again from its fields."""

    @property
    def state_type(self) -> type[Any]:
        """A NamedTuple."""


class PartsState(dict[str, Any]):
    """The states of all samplers, field by field, and draws that are ready."""

    def _asdict(self) -> dict[str, Any]:
        """As of a NamedTuple: what the driver keeps."""
        return dict(self)


@dataclass(frozen=True)
class PartsSampler:
    """Several samplers as one.

    Parameters
    ----------
    samplers : mapping of int to Sampler
        By the number of the part, at least one, each with ``thin=1``; their states are NamedTuples of arrays.

    Raises
    ------
    ArgumentError
        If there are none, or one thins by itself.

    Notes
    -----
    Draws and counters are named ``k.name`` for those of sampler k; so are the fields of the state (``k__name``), beside
    the draws that are ready.
    """

    samplers: Mapping[int, PartSampler]
    thin: int = 1
    is_compiled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse an empty list, and samplers that thin."""
        if not self.samplers:
            raise ArgumentError("samplers is empty; there is nothing to draw")
        for k, sampler in self.samplers.items():
            if sampler.thin != 1:
                raise ArgumentError(
                    f"samplers[{k}] has thin={sampler.thin}; parts have 1, and the whole may be thinned"
                )

    @property
    def turn(self) -> int:
        """Steps of a turn: the longest chunk, a multiple of every other, so that none has steps of its own ahead."""
        chunks = [sampler.chunk for sampler in self.samplers.values() if hasattr(sampler, "chunk")]
        return max(chunks, default=TURN)

    def init(self, rng: np.random.Generator) -> PartsState:
        """Start every sampler, one after another."""
        states = [sampler.init(rng) for sampler in self.samplers.values()]
        ready = [sampler.run(state, 0, rng)[1] for sampler, state in zip(self.samplers.values(), states, strict=True)]
        return self._join(states, ready)

    def run(
        self, state: PartsState, n_steps: int, rng: np.random.Generator
    ) -> tuple[PartsState, Draws, dict[str, int]]:
        """Run ``n_steps`` (a multiple of ``thin``) of every sampler and keep every ``thin``-th."""
        states, ready = self._split(state)
        pieces, turn = [[draws] for draws in ready], self.turn
        n_ready = len(next(iter(ready[0].values())))
        while n_ready < n_steps:
            for i, sampler in enumerate(self.samplers.values()):
                states[i], draws, _ = sampler.run(states[i], turn, rng)
                pieces[i].append(draws)
            n_ready += turn
        joined = [{name: np.concatenate([piece[name] for piece in part]) for name in part[0]} for part in pieces]
        whole = dict(zip(self.samplers, joined, strict=True))
        kept = slice(self.thin - 1, n_steps, self.thin)
        taken = {f"{k}.{name}": values[kept] for k, part in whole.items() for name, values in part.items()}
        left = [{name: values[n_steps:] for name, values in part.items()} for part in joined]
        return self._join(states, left), taken, {"steps": n_steps}

    def _join(self, states: Sequence[Any], ready: Sequence[Draws]) -> PartsState:
        fields: dict[str, Any] = {}
        for k, state, draws in zip(self.samplers, states, ready, strict=True):
            fields |= {f"{k}__{name}": value for name, value in state._asdict().items()}
            fields |= {f"{k}__{_AHEAD}{name}": value for name, value in draws.items()}
        return PartsState(fields)

    def _split(self, state: PartsState) -> tuple[list[Any], list[Draws]]:
        fields: dict[int, dict[str, Any]] = {k: {} for k in self.samplers}
        ready: dict[int, Draws] = {k: {} for k in self.samplers}
        for key, value in state.items():
            k, name = key.split("__", 1)
            if name.startswith(_AHEAD):
                ready[int(k)][name.removeprefix(_AHEAD)] = value
            else:
                fields[int(k)][name] = value
        states = [sampler.state_type(**fields[k]) for k, sampler in self.samplers.items()]
        return states, list(ready.values())
