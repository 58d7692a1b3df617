r"""`Tempered`: parallel tempering, chains at several temperatures that trade places (Geyer 1991).

Rung k samples the posterior to the power :math:`\beta_k`, with :math:`1 = \beta_0 > \beta_1 > \dots`; flatter rungs
cross valleys that stop the first.  After so many draws, neighbouring rungs offer each other their graphs
(`doxa.sampling.temperatures`), s being :math:`\log P(D \mid G) + \log P(G)`; only the draws of the first rung are
kept.  A step moves every rung, so it costs as many times as much as there are rungs.

Where cells of the table are missing, a rung holds a graph and a completion, which are swapped together; s is the log of
their joint probability with the data.  All parts of a turn have the rung's target: cells are drawn from powers of their
predictive probabilities (`doxa.structure.cases.incomplete.sweep`), changes of the graph with their cells
(`doxa.structure.cases.incomplete.joint_proposals`) and structure moves weigh by powers of theirs.  Every missing cell
widens the spread of s, and neighbours swap only if it is not far above the inverse of the difference of their betas:
with thousands of missing cells, betas must be some hundredths apart.

`EscalatingSampler`: the default sampler, which helps its chains while they warm up.

It begins as the move alone.  After each epoch of the warm-up (`doxa.sampling.runner`) it looks at what the chains did,
and

- where a search over orders (`doxa.structure.moves.best_graph`) finds a graph that scores more than any chain has
  seen, half of the chains go on from there: a mode that no chain knew is known from then on;
- where the chains have not settled, and sit nats apart at its end or have had two epochs, every chain becomes several,
  at temperatures of its own, which trade places.  The hot ones begin where the other chains stand.  Chains that agree
  in the log score and sit in different graphs have not settled either.  Chains that sit more than 15 nats below the
  best after the first epoch go on from its graph instead, up to half of them: what holds them has nothing of the
  posterior.  In tables of more than 64 columns they do so wherever they sit, and after any later epoch if they sit more
  than 10 nats below, and chains that are on their way up or score alike are given another epoch first;
- temperatures that trade places too seldom, or more often than they need, are spaced anew (`respaced`); those that
  hardly do when the chains have settled are given up.

All this is in the warm-up, which is thrown away, and follows from the draws and the seed alone.  What the state holds
says how many temperatures there are, so a run that is gone on with goes on as it was.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.stopping import FIRST_LOOK
from doxa.estimates.trace import Trace
from doxa.sampling.runner import HOT, AsSettled
from doxa.sampling.temperatures import barrier_along, equally_rejected, log_swap_ratio
from doxa.schema import By, Many, Within
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import Limits
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.best_graph import best_graph
from doxa.structure.moves.by_name import move_from_settings
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.sampler import StructureSampler, StructureState, planted_in_half
from doxa.text import shown

__all__ = [
    "EscalatingSampler",
    "Rung",
    "Tempered",
    "TemperedSampler",
    "TemperedState",
    "betas_for",
    "respaced",
    "spawned",
    "stream_of",
    "words_of",
]


@dataclass(frozen=True)
class Tempered:
    """Parallel tempering of a move; see the module's notes.

    Parameters
    ----------
    move : StructureMove, default=Auto()
        What every rung runs.
    betas : sequence of float, default=(1.0, 0.7, 0.5, 0.35)
        Inverse temperatures of the rungs: 1.0 first, then falling, above 0.
    swap_every : int, default=5
        Draws between two offers.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the betas are not such a sequence, or ``swap_every`` is not a whole number of at least 1.

    Examples
    --------
    >>> import doxa
    >>> sampler = Tempered(betas=(1.0, 0.5))
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), sampler=sampler, draws=100, seed=1)
    >>> sorted(posterior.trace.info)
    ['accepted', 'from_1', 'proposed', 'swapped_0', 'swaps_0']
    """

    move: Any = field(default_factory=Auto)
    betas: Sequence[float] = (1.0, 0.7, 0.5, 0.35)
    swap_every: int = 5

    name: ClassVar[str] = "tempered"
    _in_file: ClassVar[dict[str, Any]] = {
        "move": Annotated[Any, By(move_from_settings)],
        "betas": Annotated[tuple[float, ...], Many(1, 1000)],
    }

    def __post_init__(self) -> None:
        if isinstance(self.move, (type, Tempered)) or not hasattr(self.move, "advance"):
            raise ArgumentTypeError(f"move is {self.move!r}; it must be a move such as Auto()")
        try:
            betas = tuple(float(beta) for beta in self.betas)
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"betas is {self.betas!r}; it must be numbers that fall from 1.0") from None
        falls = all(a > b > 0 for a, b in itertools.pairwise(betas))
        if not betas or betas[0] != 1.0 or not falls:
            raise ArgumentError(f"betas is {self.betas!r}; they fall from 1.0, the first, and stay above 0")
        object.__setattr__(self, "betas", betas)
        object.__setattr__(self, "swap_every", check_whole("swap_every", self.swap_every, 1))

    @property
    def bias(self) -> str | None:
        """What is wrong with the answers of the move, if something is."""
        bias: str | None = self.move.bias
        return bias

    @property
    def uses_table(self) -> bool:
        """Whether the move draws from lists of parent sets."""
        return bool(self.move.uses_table)

    def cycle_length(self, n_nodes: int) -> int:
        """That of the move; the swaps are counted in the state."""
        return int(self.move.cycle_length(n_nodes))

    def advance(self, *_: Any) -> int:
        """Refuse: several graphs are moved together, by `sampler`."""
        raise ArgumentError("a Tempered sampler moves several graphs; it cannot be a part of another move")

    def sampler(self, scores: FamilyScores, limits: Limits, thin: int) -> TemperedSampler:
        """The sampler that the driver runs."""
        rungs = tuple(StructureSampler(self.move, scores, limits, thin, beta) for beta in self.betas)
        return TemperedSampler(rungs, thin, self.swap_every)


class Rung(Protocol):
    """A sampler at one temperature, as `TemperedSampler` runs it; its draws have a ``log_score``."""

    @property
    def beta(self) -> float:
        """Inverse temperature."""

    def start(self, chain: int, rng: np.random.Generator) -> Any:
        """The start of a chain, a named tuple."""

    def init(self, rng: np.random.Generator) -> Any:
        """An over-dispersed start."""

    def run(
        self, state: Any, n_steps: int, rng: np.random.Generator
    ) -> tuple[Any, dict[str, NDArray[Any]], dict[str, int]]:
        """So many steps, a multiple of the steps between draws."""


_RUNGS = Within(free="rungs")


class TemperedState(NamedTuple):
    """Graphs and completions of all rungs; fields as in `StructureState`, with a rung to a row."""

    rows: Annotated[NDArray[np.uint64], _RUNGS]  # (n_rungs, n_nodes, n_words)
    position: Annotated[NDArray[np.int64], _RUNGS._replace(least=0)]  # (n_rungs,)
    block: Annotated[NDArray[np.uint64], _RUNGS]  # (n_rungs, n_words)
    memory: Annotated[NDArray[np.int64], _RUNGS._replace(least=0)]  # (n_rungs, 1)
    cells: Annotated[NDArray[np.int16], _RUNGS]  # (n_rungs, n_missing)
    # state and increment of each rung's own bit generator, high words first
    streams: Annotated[NDArray[np.uint64], _RUNGS]  # (n_rungs, 4)
    n_draws: Annotated[int, Within(0)]  # since the beginning, for the swaps
    # the hottest rung where each rung's graph was since it was on the first
    farthest: Annotated[NDArray[np.int64], _RUNGS._replace(least=0)]  # (n_rungs,)
    betas: Annotated[NDArray[np.float64], _RUNGS._replace(least=0, most=1)]  # (n_rungs,): inverse temperatures, 1 first


def stream_of(words: NDArray[np.uint64]) -> np.random.Generator:
    """The random stream of one rung: its own, so that the draws do not depend on where a block ends."""
    state_high, state_low, increment_high, increment_low = words.tolist()
    generator = np.random.PCG64()
    generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state_high << 64 | state_low, "inc": increment_high << 64 | increment_low},
        "has_uint32": 0,
        "uinteger": 0,
    }
    return np.random.Generator(generator)


def words_of(stream: np.random.Generator) -> NDArray[np.uint64]:
    """Undo `stream_of`."""
    state: Any = stream.bit_generator.state["state"]
    low = 2**64 - 1
    return np.array(
        [state["state"] >> 64, state["state"] & low, state["inc"] >> 64, state["inc"] & low], dtype=np.uint64
    )


def spawned(rng: np.random.Generator) -> np.random.Generator:
    """A stream of its own for a rung."""
    return np.random.Generator(np.random.PCG64(rng.integers(2**63, size=4).tolist()))


@dataclass(frozen=True)
class TemperedSampler:
    """Samplers at several temperatures, and the swaps between them."""

    rungs: tuple[Rung, ...]
    thin: int
    swap_every: int

    swapped: ClassVar[tuple[str, ...]] = ("rows", "cells")  # of a rung's state, what swaps exchange

    @property
    def first_epoch(self) -> int:
        """Draws of the first epoch of a warm-up: as many as the rungs' sampler takes."""
        return int(getattr(self.rungs[0], "first_epoch", FIRST_LOOK))

    def start(self, chain: int, rng: np.random.Generator) -> TemperedState:
        """The first rung starts where a chain of its number does, the others at random graphs."""
        return self._beginning(self.rungs[0].start(chain, rng), rng)

    def init(self, rng: np.random.Generator) -> TemperedState:
        """Random graphs."""
        return self._beginning(self.rungs[0].init(rng), rng)

    def _beginning(self, first: StructureState, rng: np.random.Generator) -> TemperedState:
        states = [first, *(rung.init(rng) for rung in self.rungs[1:])]
        streams = [spawned(rng) for _ in states]
        return _together(states, streams, 0, np.arange(len(states)), np.array([rung.beta for rung in self.rungs]))

    def planted(self, states: Sequence[TemperedState], rows: NDArray[np.uint64], chain: int) -> list[TemperedState]:
        """States in which half of the chains have this graph on the first rung, with the completion of one chain."""
        return planted_in_half(states, rows=rows, cells=states[chain].cells[0])

    def check_state(self, state: TemperedState) -> None:
        """Raise `ArgumentError` unless a state from a file is one of this sampler's, whose fields have its form."""
        first: Any = self.rungs[0]
        betas = state.betas.tolist()
        if not betas or betas[0] != 1.0 or not all(a > b > 0 for a, b in itertools.pairwise(betas)):
            raise ArgumentError(f"state.betas is {shown(betas)}; they fall from 1.0, the first, and stay above 0")
        self.check_betas(betas)
        if (state.farthest >= len(betas)).any():
            raise ArgumentError(f"state.farthest is {int(state.farthest.max())}; it must be below {len(betas)}")
        for k in range(len(betas)):
            first.check_state(_rung(state, k))

    def check_betas(self, betas: Sequence[float]) -> None:
        """Raise `ArgumentError` unless a chain's temperatures are those of the rungs."""
        own = [rung.beta for rung in self.rungs]
        if own != betas:
            raise ArgumentError(f"state.betas is {shown(betas)}; the sampler's are {shown(own)}")

    def run(
        self, state: TemperedState, n_steps: int, rng: np.random.Generator
    ) -> tuple[TemperedState, dict[str, NDArray[Any]], dict[str, int]]:
        """Run ``n_steps`` steps of every rung; the draws are those of the first.

        Returns
        -------
        state : TemperedState
        draws : dict
            As the first rung has them.
        info : dict
            Counts of the first rung, among them ``proposed`` and ``accepted`` steps; ``swaps_k`` and ``swapped_k`` for
            rungs k and k + 1; ``from_k``, of graphs that came to the first rung and had been on rung k or hotter since
            they were last there; ``hot_ns``, nanoseconds of CPU time on all rungs but the first.
        """
        rungs = self.rungs_of(state)
        states = [_rung(state, k) for k in range(len(rungs))]
        running = [getattr(rung, "running", lambda rung=rung: rung.run)() for rung in rungs]
        streams = [stream_of(words) for words in state.streams]
        info: dict[str, int] = {"proposed": 0, "accepted": 0}
        for k in range(len(states) - 1):
            info |= {f"swaps_{k}": 0, f"swapped_{k}": 0, f"from_{k + 1}": 0}
        parts = []
        n_draws, end = state.n_draws, state.n_draws + n_steps // self.thin
        farthest = state.farthest.copy()
        while n_draws < end:
            to_swap = (n_draws // self.swap_every + 1) * self.swap_every if len(rungs) > 1 else end
            size = min(end, to_swap) - n_draws
            scores = np.empty(len(states))
            for k, run in enumerate(running):
                begin = time.thread_time_ns()
                states[k], draws, done = run(states[k], size * self.thin, streams[k])
                scores[k] = draws["log_score"][-1]
                if k == 0:
                    parts.append(draws)
                    info |= {name: info.get(name, 0) + count for name, count in done.items()}
                else:
                    info[HOT] = info.get(HOT, 0) + time.thread_time_ns() - begin
            n_draws += size
            if n_draws % self.swap_every == 0:
                before = {name: count for name, count in info.items() if name.startswith("swapped_")}
                self._swap(rungs, states, scores, n_draws // self.swap_every % 2, rng, info)
                _follow(farthest, [k for k, name in enumerate(before) if info[name] > before[name]], info)
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return _together(states, streams, n_draws, farthest, state.betas), joined, info

    def rungs_of(self, state: TemperedState) -> tuple[Any, ...]:
        """The sampler at each of the chain's temperatures."""
        first: Any = self.rungs[0]
        return tuple(replace(first, beta=beta) for beta in state.betas.tolist())

    def _swap(
        self,
        rungs: Sequence[Rung],
        states: list[Any],
        scores: NDArray[np.float64],
        first: int,
        rng: np.random.Generator,
        info: dict[str, int],
    ) -> None:
        """Offer states between rungs first and first + 1, first + 2 and first + 3, ..., in place."""
        for k in range(first, len(states) - 1, 2):
            log_ratio = log_swap_ratio(rungs[k].beta, rungs[k + 1].beta, scores[k], scores[k + 1])
            info[f"swaps_{k}"] += 1
            if math.log1p(-rng.random()) < log_ratio:
                here, there = states[k], states[k + 1]
                states[k] = here._replace(**{name: getattr(there, name) for name in self.swapped})
                states[k + 1] = there._replace(**{name: getattr(here, name) for name in self.swapped})
                info[f"swapped_{k}"] += 1


def _together(
    states: Sequence[StructureState],
    streams: Sequence[np.random.Generator],
    n_draws: int,
    farthest: NDArray[np.int64],
    betas: NDArray[np.float64],
) -> TemperedState:
    fields: dict[str, Any] = {name: np.stack([getattr(s, name) for s in states]) for name in StructureState._fields}
    words = np.stack([words_of(stream) for stream in streams])
    return TemperedState(**fields, streams=words, n_draws=n_draws, farthest=farthest, betas=betas)


def _rung(state: TemperedState, k: int) -> StructureState:
    return StructureState(state.rows[k], int(state.position[k]), state.block[k], state.memory[k], state.cells[k])


def _follow(farthest: NDArray[np.int64], swapped: Sequence[int], info: dict[str, int]) -> None:
    """Where graphs have been, after swaps of rungs k and k + 1; and count those that come to the first."""
    for k in swapped:
        farthest[[k, k + 1]] = farthest[[k + 1, k]]
    np.maximum(farthest, np.arange(len(farthest)), out=farthest)
    if 0 in swapped:
        for k in range(1, int(farthest[0]) + 1):
            info[f"from_{k}"] += 1
    farthest[0] = 0


_APART = 5.0  # nats between the mean log scores of chains: more is another mode
_FAR = 15.0  # nats: a mode so far below another has nothing of the posterior
_LOW = 10.0  # nats: in large tables, where temperatures cross nothing so deep, after later epochs
_AT_THE_END = 10  # one in so many draws of an epoch: what chains do at its end
_CLIMBS = 1.0  # nats by which a chain on its way up gains from one such part to the next
_EDGES_APART = 0.6  # between the shares of an edge in two chains' latter halves: more is another mode
_REJECTED = 0.55  # of the offers between neighbours: more rungs than that takes are not worth their steps
_MUCH = 0.08  # by which some rejection is off that, before rungs are spaced anew
_LARGE = 64  # columns beyond which chains take long to arrive: temperatures, which multiply that, come later
_PATIENT = 2  # epochs that chains on their way up are given there
_IDLE = 0.98  # rejections beyond which rungs are not of use to each other
_LEAST_BETA, _WIDEST_STEP, _MOST_RUNGS = 0.35, 0.3, 8
_SPREADS = 1.2  # standard deviations of the log score that two neighbouring temperatures may lie apart
_USUAL_SPREAD = 3.0  # standard deviation of the log score of some twenty columns
_GAIN = 1.0  # nats above all that the chains have seen: less is the fine structure of a mode that they know
_SEED = 20261  # of the searches: they follow from the table and the epoch


@dataclass(frozen=True)
class EscalatingSampler(TemperedSampler):
    """See the module's notes; ``rungs`` is the sampler at temperature 1 alone."""

    def revise(
        self, states: Sequence[TemperedState], trace: Trace, *, settled: bool, epoch: int
    ) -> list[TemperedState] | None:
        """States to go on from after an epoch of warm-up; None if the chains are to be left alone.

        Parameters
        ----------
        states : sequence of TemperedState
            Of all chains.
        trace : Trace
            The draws of the epoch.
        settled : bool
            Whether the chains agree.
        epoch : int
            Its number, from 0.
        """
        planted = self._planted(list(states), trace, epoch)
        log_score = trace["log_score"]
        size = max(2, log_score.shape[1] // _AT_THE_END)
        end, before = (part.mean(axis=1) for part in (log_score[:, -size:], log_score[:, -2 * size : -size]))
        apart, low, far = (np.ptp(end) > nats for nats in (_APART, _LOW, _FAR))
        other_graphs = not apart and _edges_apart(trace)
        if settled and not other_graphs:
            return self._without_idle(states, trace) if planted is None else planted
        states = list(states) if planted is None else planted
        if len(states[0].betas) > 1:
            rejected = _rejections(trace)
            betas = respaced(states[0].betas, rejected) if len(rejected) == len(states[0].betas) - 1 else None
            return planted if betas is None else [_with_betas(state, betas) for state in states]
        is_large = len(self.base.limits.max_parents) > _LARGE
        if is_large and apart and end[end.argmin()] > before[end.argmin()] + _CLIMBS and epoch < _PATIENT:
            return planted
        if epoch == 0 and (far or (apart and is_large)):
            return _with_the_best(states, end, _APART)
        if low and is_large:
            return _with_the_best(states, end, _LOW)
        if is_large and not apart and epoch < _PATIENT:
            return states if other_graphs else planted
        if apart or epoch > 0:
            late = log_score[:, log_score.shape[1] // 2 :]
            return _all_heated(states, betas_for(float(np.median(late.std(axis=1)))))
        return states if other_graphs else planted

    def _without_idle(self, states: Sequence[TemperedState], trace: Trace) -> list[TemperedState] | None:
        """The same chains without the rungs that hardly trade places with the first; None if there are none."""
        rejected = _rejections(trace)
        linked = int(np.append(rejected > _IDLE, True).argmax()) + 1
        if linked >= len(states[0].betas):
            return None
        return AsSettled(_with_betas(state, state.betas[:linked]) for state in states)

    def planted(self, states: Sequence[TemperedState], rows: NDArray[np.uint64], chain: int) -> list[TemperedState]:
        """As `TemperedSampler.planted`; chains without temperatures get them, for they have missed a mode."""
        planted = super().planted(states, rows, chain)
        return planted if len(planted[0].betas) > 1 else _all_heated(planted, betas_for(_USUAL_SPREAD))

    def check_betas(self, betas: Sequence[float]) -> None:
        """Raise `ArgumentError` unless a chain has one temperature, or as many as it can be given."""
        if len(betas) > _MOST_RUNGS:
            raise ArgumentError(f"state.betas has {len(betas)} temperatures; there are at most {_MOST_RUNGS}")

    @property
    def base(self) -> StructureSampler:
        """The sampler at temperature 1."""
        sampler = self.rungs[0]
        assert isinstance(sampler, StructureSampler)
        return sampler

    def _planted(self, states: list[TemperedState], trace: Trace, epoch: int) -> list[TemperedState] | None:
        """Half of the chains at a graph that beats all that was seen; None if the search finds none."""
        table = parent_sets(self.base.scores, self.base.limits, 1.0)
        rng = np.random.default_rng([_SEED, epoch])
        found = best_graph(table, rng, [state.rows[0] for state in states])
        if found is None or found.log_score <= float(trace["log_score"].max()) + _GAIN:
            return None
        return planted_in_half(states, rows=found.rows)


def betas_for(spread: float) -> NDArray[np.float64]:
    """Inverse temperatures of rungs that trade places, for a log score of this standard deviation.

    Examples
    --------
    >>> betas_for(2.0).round(3)
    array([1.   , 0.7  , 0.49 , 0.343])
    """
    ratio = 1.0 - min(_WIDEST_STEP, _SPREADS / max(spread, 1e-3))
    n_rungs = min(_MOST_RUNGS, 1 + int(np.ceil(np.log(_LEAST_BETA) / np.log(ratio) - 0.1)))
    return np.asarray(ratio ** np.arange(n_rungs))


def respaced(betas: NDArray[np.float64], rejected: NDArray[np.float64]) -> NDArray[np.float64] | None:
    r"""Inverse temperatures between which offers are rejected alike, from the rejections of an epoch.

    The sum of the rejections down to a beta, the *barrier*, hardly depends on how rungs are spaced (Syed et al. 2022),
    so rungs are put where it grows by equal parts, and there are as many as make a part at most 0.55; the hottest is as
    hot as eight allow.

    Parameters
    ----------
    betas : ndarray of float, shape (n_rungs,)
    rejected : ndarray of float, shape (n_rungs - 1,)
        Share of the offers between neighbours that were rejected.

    Returns
    -------
    ndarray of float or None
        None where the rungs are about as they should be.

    Examples
    --------
    >>> respaced(np.array([1.0, 0.7, 0.5]), np.array([0.1, 1.0])).round(2)
    array([1.  , 0.61, 0.5 ])
    >>> respaced(np.array([1.0, 0.7, 0.5]), np.array([0.55, 0.52])) is None
    True
    """
    barrier = barrier_along(rejected)
    parts = min(_MOST_RUNGS - 1, max(1, math.ceil(barrier[-1] / _REJECTED)))
    reach = min(barrier[-1], parts * _REJECTED)
    if parts == len(rejected) and np.abs(rejected - reach / parts).max() <= _MUCH:
        return None
    return equally_rejected(betas, barrier, parts + 1, reach)


def _rejections(trace: Trace) -> NDArray[np.float64]:
    """Share of the offers between neighbours that were rejected, in all chains together."""
    found, k = [], 0
    while f"swaps_{k}" in trace.info:
        found.append(1.0 - float(trace.info[f"swapped_{k}"].sum()) / max(1, int(trace.info[f"swaps_{k}"].sum())))
        k += 1
    return np.array(found)


def _with_betas(state: TemperedState, betas: NDArray[np.float64]) -> TemperedState:
    """A chain with other temperatures: each new rung begins at the graph of the old rung next to it."""
    near = np.abs(state.betas[None] - betas[:, None]).argmin(axis=1)
    near[0] = 0
    seeds = [int(word) for word in state.streams[0]]
    streams = [words_of(np.random.Generator(np.random.PCG64([*seeds, k, len(betas)]))) for k in range(1, len(betas))]
    fields = {name: getattr(state, name)[near] for name in StructureState._fields}
    return TemperedState(
        **fields,
        streams=np.stack([state.streams[0], *streams]),
        n_draws=state.n_draws,
        farthest=np.arange(len(betas)),
        betas=betas,
    )


def _edges_apart(trace: Trace) -> bool:
    """Whether chains that score alike sit in different graphs: an edge is in most of one's, and in few of another's."""
    _, counts = IndicatorCounts.of_present(trace["rows"], trace["rows"].shape[2])
    half = (len(counts.edges) - 1) // 2
    shares = counts.ones[:, half:].sum(axis=1) / (counts.n_draws - counts.edges[half])
    return bool(np.ptp(shares, axis=0).max(initial=0.0) > _EDGES_APART)


def _with_the_best(states: Sequence[TemperedState], end: NDArray[np.float64], below: float) -> list[TemperedState]:
    """The worst half of the chains, so far as they sit nats ``below``, go on from where the best one stands."""
    found = list(states)
    for chain in np.argsort(end)[: len(end) // 2].tolist():
        if end[chain] < end.max() - below:
            found[chain] = found[chain]._replace(rows=states[int(end.argmax())].rows)
    return found


def _all_heated(states: Sequence[TemperedState], betas: NDArray[np.float64]) -> list[TemperedState]:
    return [_heated(states, chain, betas) for chain in range(len(states))]


def _heated(states: Sequence[TemperedState], chain: int, betas: NDArray[np.float64]) -> TemperedState:
    """A chain with a rung for each temperature, the hot ones where the next chains stand."""
    own = states[chain]
    others = [states[(chain + k) % len(states)] for k in range(len(betas))]
    seeds = [int(word) for word in own.streams[0]]
    streams = [stream_of(own.streams[0])]
    streams += [np.random.Generator(np.random.PCG64([*seeds, k])) for k in range(1, len(betas))]
    return TemperedState(
        np.stack([other.rows[0] for other in others]),
        np.array([other.position[0] for other in others]),
        np.stack([other.block[0] for other in others]),
        np.stack([other.memory[0] for other in others]),
        np.stack([other.cells[0] for other in others]),
        np.stack([words_of(stream) for stream in streams]),
        own.n_draws,
        np.arange(len(betas)),
        betas,
    )
