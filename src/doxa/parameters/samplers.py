"""`ChainSampler`: a target and a kernel as a sampler of the driver's.

The driver's blocks may end anywhere, and a matrix product of half as many rows may round differently; so kernels always
run in whole chunks of a fixed number of steps, and what a block has not asked for yet waits in the state.

`PartsSampler`: samplers of independent quantities, side by side as one sampler of the driver's.

All of a chain's randomness comes from one stream, so the samplers take turns of a fixed number of steps, wherever the
driver's blocks end; what a block has not asked for yet waits in the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.parameters.kernels.kernel import Kernel, Path, Target, TargetError, Walkers, join, start_at, take
from doxa.sampling.importance_proposals import Proposal
from doxa.sampling.runner import Sampler
from doxa.schema import Within, rules_of

__all__ = ["TURN", "ChainSampler", "ChainState", "PartSampler", "PartsSampler", "PartsState"]


_CHUNK = 256  # steps
_TRIES = 100
_NUMBERS = 2**17  # in a chunk's path; where steps are large, a chunk is seconds of work


class ChainState(NamedTuple):
    """Walkers, and steps that they have made beyond what was asked of them."""

    thetas: Floats  # (walkers, d), at the end of the chunk
    log_density: Floats  # (walkers,)
    ahead_thetas: Annotated[Floats, Within(free="ahead")]  # (steps, walkers, d)
    ahead_log_density: Annotated[Floats, Within(free="ahead")]  # (steps, walkers)
    ahead_acceptance: Annotated[Floats, Within(0, 1, free="ahead")]  # (steps, walkers)


@dataclass(frozen=True)
class ChainSampler:
    """Walkers that a kernel moves, as a sampler for `doxa.sampling.driver`.

    Parameters
    ----------
    target : Target
        What is drawn from.
    kernel : Kernel
        What moves the walkers.
    starts : Proposal
        Where walkers begin: ``starts.sample(walkers, rng)``.  Independence samplers begin at draws of their own
        proposal, as an over-dispersed start would stick; others do well with a wide one.
    walkers : int, default=1
        Chains in lockstep; the driver's chain is a group of so many.
    thin : int, default=1
        Steps between kept draws.
    most : int, default=256
        Steps that the kernel makes at a time: fewer where each evaluates the target very often, as a run of some draws
        makes so many at least.

    Notes
    -----
    Draws are ``theta`` of shape (n_kept, walkers, d), ``log_density`` and ``acceptance`` of shape (n_kept, walkers).
    """

    target: Target
    kernel: Kernel
    starts: Proposal
    walkers: int = 1
    thin: int = 1
    most: int = _CHUNK
    state_type: ClassVar[type[ChainState]] = ChainState
    is_compiled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse numbers below one."""
        check_whole("walkers", self.walkers, 1)
        check_whole("thin", self.thin, 1)
        check_whole("most", self.most, 1)

    @property
    def chunk(self) -> int:
        """Steps that the kernel makes at a time; a matter of sizes alone, so that draws do not depend on blocks."""
        most = max(1, min(self.most, _NUMBERS // (self.walkers * self.target.n_dimensions)))
        return 1 << (most.bit_length() - 1)  # a power of two, as `PartsSampler` wants

    def init(self, rng: np.random.Generator) -> ChainState:
        """Walkers at draws from ``start`` that lie in the support."""
        walkers = start_at(self.target, self.starts.sample(self.walkers, rng))
        for _ in range(_TRIES):
            outside = np.isneginf(walkers.log_density)
            if not outside.any():
                n, d = walkers.thetas.shape
                return ChainState(*walkers, np.empty((0, n, d)), np.empty((0, n)), np.empty((0, n)))
            walkers = take(outside, start_at(self.target, self.starts.sample(self.walkers, rng)), walkers)
        raise TargetError(
            f"no start in the target's support in {_TRIES} draws from {self.starts!r}; give starts that lie where the "
            "log density is finite"
        )

    def run(
        self, state: ChainState, n_steps: int, rng: np.random.Generator
    ) -> tuple[ChainState, dict[str, NDArray[Any]], dict[str, int]]:
        """Run ``n_steps`` (a multiple of ``thin``) and keep every ``thin``-th."""
        walkers = Walkers(state.thetas, state.log_density)
        path = Path(state.ahead_thetas, state.ahead_log_density, state.ahead_acceptance)
        paths, n_ready = [path], len(path.thetas)
        while n_ready < n_steps:
            walkers, path = self.kernel.run(self.target, walkers, self.chunk, rng)
            paths.append(path)
            n_ready += len(path.thetas)
        path = join(paths)
        kept = slice(self.thin - 1, n_steps, self.thin)
        draws = {
            "theta": path.thetas[kept],
            "log_density": path.log_density[kept],
            "acceptance": path.acceptance[kept],
        }
        after = ChainState(*walkers, *(part[n_steps:] for part in path))
        return after, draws, {"steps": n_steps * self.walkers}


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

    def rule_of(self, key: str) -> Within:
        """The bounds of a field of the state, for `doxa.schema.check_fields`."""
        k, name = key.split("__", 1)
        if name.startswith(_AHEAD):
            return Within(free="ready")
        rule = rules_of(self.samplers[int(k)].state_type)[name]
        return rule._replace(free=f"{k} {rule.free}") if rule.free else rule

    def check_state(self, state: PartsState) -> None:
        """Raise `ArgumentError` unless every sampler can go on from its part of a state from a file."""
        for sampler, own in zip(self.samplers.values(), self._split(state)[0], strict=True):
            check = getattr(sampler, "check_state", None)
            if check is not None:
                check(own)

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
