"""`Runner`: all chains of one run, moved on in rounds, with the draws that they keep, on as many workers as there are.

The runner knows blocks, warm-up, decision points, the clock and the run store; what is accurate enough, it asks.  One
block of every chain runs at a time, by `doxa.sampling.workers`.  Matrix products run on one thread
each: chains already keep the cores busy, and a product that is shared out between threads may round differently, so
that draws would depend on how many there are.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from doxa.errors import DoxaError
from doxa.estimates import store as run_store
from doxa.estimates.stopping import FIRST_LOOK, Assess, Spent, StopReport, Until, decision_points
from doxa.estimates.trace import Trace
from doxa.progress import Status
from doxa.schema import OtherFormError, Within, check_array, check_fields, rules_of
from doxa.text import shown


def single_threaded_products() -> AbstractContextManager[Any]:
    """A context in which matrix products of this process run on one thread."""
    limits: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limits


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # takes some milliseconds to look at the libraries that are loaded


State = TypeVar("State")
Draws = dict[str, NDArray[Any]]

STEPS_PER_BLOCK = 2**20  # tenths of a second for compiled loops: short enough to follow and to interrupt
_BYTES_PER_BLOCK = 2**25  # of draws, of each chain: they stand beside what is kept for a while
_FIRST_STEPS = 2**14  # scores are not cached yet: the first blocks are short and double
_MOST_DOUBLED = 2**5  # the longest epoch of a warm-up beside the first; with those before it, twice as many draws
_SECONDS_PER_COMMIT = 2.0  # a commit takes some 30 to 50 thousandths of a second, most of it waiting for the disk
HOT = "hot_ns"  # of what a sampler's `run` counts: nanoseconds at temperatures that are not the first
_MOST_STARTS = 4  # of one run: chains that an audit sends elsewhere start over
_LEAST_DRAWS = 4  # with fewer there is no error to give


class Sampler(Protocol[State]):
    """What the driver asks of a sampler (a frozen dataclass of settings).

    One that has a ``start(chain, rng)`` chooses each chain's start by its number.  One that has a ``revise(states,
    trace, *, settled, epoch)`` is asked after each epoch of a warm-up that goes on until the chains agree; where it
    returns other states, the chains go on from those, for another epoch at least unless they are `AsSettled`.  One
    that has a ``first_epoch`` says of how many draws the first of these epochs is, in place of 500.
    """

    @property
    def thin(self) -> int:
        """Steps between kept draws."""

    def init(self, rng: np.random.Generator) -> State:
        """An over-dispersed starting state."""

    def run(self, state: State, n_steps: int, rng: np.random.Generator) -> tuple[State, Draws, dict[str, int]]:
        """Run ``n_steps`` (a multiple of ``thin``); keep every ``thin``-th as draws of shape (n_kept, ...)."""


class AsSettled(list[Any]):
    """States that are as settled as those that they replace: the warm-up need not go on for them."""


@dataclass
class _Pending:
    """What one chain did since the last commit."""

    n_steps: int = 0
    parts: list[Draws] = field(default_factory=list)
    info: Counter[str] = field(default_factory=Counter)

    def add(self, n_steps: int, draws: Draws | None, info: dict[str, int]) -> None:
        """One more block; warm-up blocks bring no draws and are not counted."""
        self.n_steps += n_steps
        if draws is not None:
            self.parts.append(draws)
            self.info.update(info)


class _Kept:
    """The draws of all chains, once: in arrays that grow by doubling up to the length that is wanted.

    What is handed out are views, which stay as they are: draws that are added later stand behind them.
    """

    def __init__(self, n_draws: int = 0, arrays: Mapping[str, NDArray[Any]] | None = None) -> None:
        self.n_draws = n_draws
        self.arrays: Draws = {} if arrays is None else dict(arrays)

    def add(self, blocks: Sequence[Draws], wanted: int) -> None:
        """A block of every chain, on the way to so many draws."""
        size = len(next(iter(blocks[0].values())))
        end = self.n_draws + size
        for name, like in blocks[0].items():
            array = self.arrays.get(name)
            if array is None or array.shape[1] < end:
                room = max(end, min(wanted, 2 * end))
                grown = np.empty((len(blocks), room, *like.shape[1:]), dtype=like.dtype)
                if array is not None:
                    grown[:, : self.n_draws] = array[:, : self.n_draws]
                self.arrays[name] = array = grown
            for chain, block in enumerate(blocks):
                array[chain, self.n_draws : end] = block[name]
        self.n_draws = end

    def draws(self) -> Draws:
        """All of them, shape (n_chains, n_draws, ...), contiguous."""
        for name, array in self.arrays.items():
            if array.shape[1] > self.n_draws:  # such an array was never handed out
                self.arrays[name] = _without_room(array, self.n_draws)
        return dict(self.arrays)


def _without_room(array: NDArray[Any], n_draws: int) -> NDArray[Any]:
    """The first draws of each chain, contiguous, in the memory in which they are: a copy might be gigabytes.

    >>> _without_room(np.arange(8).reshape(2, 4), 3)
    array([[0, 1, 2],
           [4, 5, 6]])
    """
    flat, each = array.reshape(-1), array[0, :n_draws].size
    for chain, own in enumerate(array[:, :n_draws]):
        flat[chain * each : (chain + 1) * each] = own.reshape(-1)
    return flat[: len(array) * each].reshape(len(array), n_draws, *array.shape[2:])


class _Chain(NamedTuple):
    """A chain between two rounds."""

    state: Any
    rng: np.random.Generator


class Runner:
    """All chains of one run: moves them on in rounds and keeps their draws."""

    def __init__(
        self,
        sampler: Sampler[Any],
        chains: int,
        entropy: int,
        block: int,
        run_all: Callable[..., list[Any]],
        report: Status,
        max_seconds: float | None,
        store: run_store.RunWriter | None,
    ) -> None:
        self.sampler, self.entropy, self.block = sampler, entropy, block
        self.run_all, self.report = run_all, report
        self.streams = [np.random.SeedSequence(entropy, spawn_key=(chain,)) for chain in range(chains)]
        self.max_seconds = math.inf if max_seconds is None else max_seconds
        self.begin, self.deadline = time.monotonic(), math.inf  # until the chains start: compiling does not count
        self.chains: list[_Chain] = []
        self.epoch_chains: list[_Chain] = []  # where they stood when the latest epoch of the warm-up began
        self.kept = _Kept()
        self.counts: list[Counter[str]] = [Counter() for _ in range(chains)]
        self.spent = Spent(0.0)
        self.n_kept = self.n_warmup = 0
        self.n_starts = 1  # more if the chains started over (`start_over`)
        self.plan = ""  # in words, for an interruption
        self.end: float | None = None  # draws of a chain when this phase ends, roughly; None: not known
        self.held_back = ""  # what is not accurate enough yet, in words
        self._steps = _FIRST_STEPS
        self.store = store
        self.warmed_up = self.in_epoch = False
        self.last_epoch: Trace | None = None  # whole one of the warm-up, where the time is limited
        self.pending = [_Pending() for _ in range(chains)]  # not yet committed
        self.is_whole = True
        self.last_commit = time.monotonic()

    def start(self) -> None:
        """Put every chain at its start, or where the stored part of the run ends; compile what is needed."""
        self.chains = [_start(self.sampler, number, stream) for number, stream in enumerate(self.streams)]
        if self.store is not None and self.store.states():
            self._restore(self.store)
        self.report.tell("preparing to sample")
        _compile(self.sampler, self.chains[0])
        self.begin = time.monotonic()
        self.deadline = self.begin + self.max_seconds

    def _restore(self, store: run_store.RunWriter) -> None:
        """Go on where the stored part of the run ends."""
        began = self.chains[0].state
        for number, (fields, rng_state) in enumerate(store.states()):
            self.warmed_up, self.n_starts = _progress(fields, store.path)
            rng = np.random.default_rng(self.streams[number])
            rng.bit_generator.state = rng_state
            state = _checked_state(self.sampler, self.chains[number].state, fields, store.path)
            self.chains[number] = _Chain(state, rng)
        if self.warmed_up and store.n_steps != store.n_draws * self.sampler.thin:
            raise run_store.RunFileError(
                f"'{store.path}' is damaged: its rounds have {store.n_steps} steps for {store.n_draws} draws, which "
                f"are {self.sampler.thin} steps apart; use a copy, or run it again"
            )
        self.n_warmup = store.n_warmup_steps // self.sampler.thin
        if store.n_draws and not self.warmed_up:  # the time of the run before ended in its warm-up
            self.n_warmup += store.n_steps // self.sampler.thin
            store.start_over([self._to_store(chain, {}, {}) for chain in self.chains])
        if store.n_draws:
            n_steps = self.sampler.thin if is_compiled(self.sampler) else 0
            trace = _checked_draws(store, self.sampler.run(began, n_steps, np.random.default_rng(0))[1])
            self.n_kept = trace.n_draws
            self.kept = _Kept(trace.n_draws, trace.draws)
            for number, count in enumerate(self.counts):
                count.update({name: int(values[number]) for name, values in trace.info.items()})

    def commit(self) -> None:
        """Keep what was done since the last time, with the states after it, in one transaction."""
        self.last_commit = time.monotonic()
        if self.store is None or self.in_epoch or not self.is_whole or not self.pending[0].n_steps:
            return
        phase: Literal["warmup", "sampling"] = "sampling" if self.pending[0].parts else "warmup"
        chains = []
        for chain, pending in zip(self.chains, self.pending, strict=True):
            names = pending.parts[0] if pending.parts else ()
            draws = {name: np.concatenate([part[name] for part in pending.parts]) for name in names}
            chains.append(self._to_store(chain, draws, pending.info))
        with self._in_one_piece():
            self.store.commit(run_store.Round(phase, self.pending[0].n_steps, chains))
            self.pending = [_Pending() for _ in self.chains]

    def _to_store(self, chain: _Chain, draws: Draws, info: dict[str, int]) -> run_store.ChainRound:
        state = {**chain.state._asdict(), "warmed_up": int(self.warmed_up), "n_starts": self.n_starts}
        return run_store.ChainRound(draws, info, state, chain.rng.bit_generator.state)

    @contextmanager
    def _in_one_piece(self) -> Iterator[None]:
        """Mark what must not be half done when the states are stored: an interruption can come between any two lines.

        After one that came in here nothing more is committed, so the run goes on from the commit before.
        """
        self.is_whole = False
        yield
        self.is_whole = True

    def warm_up(self, warmup: int | None, settled: Callable[[Trace], bool] | None) -> bool:
        """Run draws to be discarded: so many, or epochs of doubling length until the chains have settled.

        False if the time ends before that: then the latest of these draws are kept, for what they are worth.
        """
        if not self.warmed_up:
            if warmup is not None:
                self.plan, self.end = f" of {warmup}", warmup
                self._advance(warmup - self.n_warmup, "warm-up", keep=self.deadline < math.inf)
                self.warmed_up = self.n_warmup >= warmup
            else:
                self._warm_up_by_epochs(settled)
            if not self.warmed_up:
                self._keep_provisional()
                return False
            self._forget()
            self.commit()
        return True

    def _warm_up_by_epochs(self, settled: Callable[[Trace], bool] | None) -> None:
        """Epochs of doubling length; each is judged as a whole, so only whole ones are committed.

        The first has 500 draws where the sampler does not say otherwise.  After a new start it is longer than all that
        was drawn before.
        """
        self.plan, self.end = "", None
        first: int = getattr(self.sampler, "first_epoch", FIRST_LOOK)
        epoch = self.n_warmup + first  # those before it have (2^k - 1) times as many draws as the first
        revise = getattr(self.sampler, "revise", None)
        while not self.warmed_up:
            self.in_epoch, self.epoch_chains = True, self.chains
            if not self._advance(epoch, "warm-up", keep=True):
                return  # time is up
            agree = settled is None or settled(self.trace())
            is_last = epoch >= _MOST_DOUBLED * first
            self.warmed_up = agree or is_last
            if revise is not None and not is_last:
                number = (epoch // first).bit_length() - 1
                self.warmed_up = not self._revised(revise, settled=agree, epoch=number) and self.warmed_up
            if not self.warmed_up and self.deadline < math.inf:
                self.last_epoch = self.trace()
            self._forget()
            self.in_epoch = False  # only now, when it is known what the epoch says, may an interruption store it
            self.commit()
            epoch *= 2

    def _keep_provisional(self) -> None:
        """Keep draws of a warm-up that was not over, so that there is an answer; a run that goes on discards them.

        They are the epoch that the time has cut, or the one before it if that is longer; of a warm-up of fixed length
        the latter half.  A run goes on from where the epoch began, and so to the draws of one without a limit.
        """
        now = self.trace() if self.kept.n_draws else None
        if now is not None and not self.in_epoch:
            now = replace(now, draws={name: draws[:, now.n_draws // 2 :] for name, draws in now.draws.items()})
        latest = max((t for t in (now, self.last_epoch) if t is not None), key=lambda trace: trace.n_draws)
        self._forget()
        self.kept = _Kept(latest.n_draws, latest.draws)
        self.n_kept, self.n_warmup = latest.n_draws, latest.n_warmup // latest.thin - latest.n_draws
        n_steps, chains = (0, self.epoch_chains) if self.in_epoch else (self.pending[0].n_steps, self.chains)
        rounds = []
        for number, chain in enumerate(chains):
            draws = {name: latest[name][number] for name in latest.names}
            counts = {name: int(values[number]) for name, values in latest.info.items()}
            self.counts[number].update(counts)
            rounds.append(self._to_store(chain, draws, counts))
        if self.store is not None:
            with self._in_one_piece():
                self.store.commit(run_store.Round("sampling", n_steps, rounds))

    def _revised(self, revise: Callable[..., list[Any] | None], **what: Any) -> bool:
        """Let the sampler put chains elsewhere after an epoch of the warm-up; whether they need another one for it."""
        states = revise([chain.state for chain in self.chains], self.trace(), **what)
        if states is None:
            return False
        self.chains = [chain._replace(state=state) for chain, state in zip(self.chains, states, strict=True)]
        return not isinstance(states, AsSettled)

    @property
    def may_start_over(self) -> bool:
        """Whether there may be another start, and is time for it: the new warm-up is as long as all before it."""
        now = time.monotonic()
        return self.n_starts < _MOST_STARTS and self.deadline - now >= now - self.begin

    def start_over(self, states: Sequence[Any]) -> None:
        """Count all that was drawn as warm-up, and let the chains go on from other states."""
        self.chains = [chain._replace(state=state) for chain, state in zip(self.chains, states, strict=True)]
        self.n_starts += 1
        self.n_warmup, self.n_kept, self.warmed_up = self.n_warmup + self.n_kept, 0, False
        self._forget()
        with self._in_one_piece():
            self.pending = [_Pending() for _ in self.chains]
            if self.store is not None:
                self.store.start_over([self._to_store(chain, {}, {}) for chain in self.chains])

    def draw(self, draws: int | None, until: Until, assess: Assess | None) -> StopReport:
        """Run draws to be kept: so many, or as many as it takes."""
        begin = time.monotonic()
        if draws is not None:
            self.plan, self.end = f" of {draws}", draws
            self._advance(draws - self.n_kept, "sampling", keep=True)
            reason = "draws" if self.n_kept >= draws else "max_seconds"
            return StopReport(reason, None, time.monotonic() - begin)
        self.plan, self.end = "", None
        missing = None
        for point in decision_points(until.max_draws):
            if point < self.n_kept:
                continue  # a stored run has passed it
            self._advance(point - self.n_kept, "sampling", keep=True)
            missing = None if assess is None else assess(self.trace())
            seconds = time.monotonic() - begin
            if self.n_kept < point:
                return StopReport("max_seconds", missing, seconds)
            if missing is None:
                return StopReport("reached", None, seconds)
            self.held_back, self.end = str(missing), self.n_kept * missing.factor
        return StopReport("max_draws", missing, seconds)

    def _advance(self, draws: int, phase: str, *, keep: bool) -> bool:
        """Run every chain for ``draws`` draws, in rounds; fewer, and return False, when the time is up."""
        done = 0
        while done < draws:
            if time.monotonic() >= self.deadline and self._n_held >= _LEAST_DRAWS:
                return False
            size = min(self.block, draws - done, max(1, self._steps // self.sampler.thin))
            self._steps *= 2
            results = self.run_all(self.sampler, self.chains, size * self.sampler.thin)
            wanted = self.kept.n_draws + draws - done if keep else 0
            with self._in_one_piece():
                self._take(results, size, phase, wanted)
            done += size
            self.report.draws(phase, self.n_warmup if phase == "warm-up" else self.n_kept, self.end, self.held_back)
            if time.monotonic() - self.last_commit >= _SECONDS_PER_COMMIT:
                self.commit()
        return True

    @property
    def _n_held(self) -> int:
        """Draws of each chain that an answer could be made of now."""
        held = self.kept.n_draws
        return held if self.last_epoch is None else max(held, self.last_epoch.n_draws)

    def _take(self, results: list[Any], size: int, phase: str, wanted: int) -> None:
        """What a round brought, on the way to so many draws that are kept; 0: they are not."""
        self.chains = [chain for chain, *_ in results]
        a_draw = sum(values.nbytes for values in results[0][1].values()) // size
        self.block = min(self.block, max(1, _BYTES_PER_BLOCK // max(1, a_draw)))
        self.spent = Spent(*map(sum, zip(self.spent, *(spent for *_, spent in results), strict=True)))
        if wanted:
            self.kept.add([block_draws for _, block_draws, *_ in results], wanted)
            for count, (_, _, info, _) in zip(self.counts, results, strict=True):
                count.update(info)
        to_store = phase == "sampling" and self.store is not None
        for pending, (_, block_draws, info, _) in zip(self.pending, results, strict=True):
            pending.add(size * self.sampler.thin, block_draws if to_store else None, info)
        if phase == "warm-up":
            self.n_warmup += size
        else:
            self.n_kept += size

    def _forget(self) -> None:
        """Discard what was kept: a warm-up epoch."""
        self.kept = _Kept()
        for count in self.counts:
            count.clear()

    def trace(self) -> Trace:
        """What is kept so far."""
        arrays = self.kept.draws()
        info = {name: np.array([count[name] for count in self.counts]) for name in self.counts[0]}
        return Trace(
            arrays, thin=self.sampler.thin, n_warmup=self.n_warmup * self.sampler.thin, entropy=self.entropy, info=info
        )

    @property
    def how_far(self) -> str:
        """What was done when the run was interrupted."""
        chains = f"draws of each of the {len(self.streams)} chains"
        if self.n_kept == 0:
            return f"interrupted in the warm-up, after {self.n_warmup}{self.plan} {chains}"
        return f"interrupted after {self.n_kept}{self.plan} {chains}; warm-up was done"


def _progress(fields: dict[str, Any], path: Path) -> tuple[bool, int]:
    """Whether a chain is warmed up, and how often it has started; what a state holds beside the sampler's own."""
    warmed_up, n_starts = fields.pop("warmed_up", None), fields.pop("n_starts", 1)
    for name, value, known in (("warmed_up", warmed_up, (0, 1)), ("n_starts", n_starts, range(1, _MOST_STARTS + 1))):
        if type(value) is not int or value not in known:
            raise run_store.RunFileError(
                f"'{path}' is damaged: state.{name} is {shown(value)}; it must be one of {', '.join(map(str, known))}"
            )
    return bool(warmed_up), n_starts


def _checked_state(sampler: Sampler[Any], like: Any, fields: dict[str, Any], path: Path) -> Any:
    """A state of the sampler's from a file: of the form of one made afresh, and what the sampler can go on from."""
    check: Callable[[Any], None] | None = getattr(sampler, "check_state", None)
    of_field = getattr(sampler, "rule_of", None) or rules_of(type(like)).__getitem__
    try:
        check_fields(fields, like._asdict(), of_field)
        state = type(like)(**fields)
        if check is not None:
            check(state)
    except OtherFormError:
        raise run_store.RunFileError(
            f"'{path}' holds chains in the form of another version of doxa; what was drawn can be read with doxa.load, "
            "but not gone on with: run again"
        ) from None
    except DoxaError as error:
        raise run_store.RunFileError(f"'{path}' is damaged: {error}; use a copy, or run it again") from error
    return state


def _checked_draws(store: run_store.RunWriter, made: Draws) -> Trace:
    """The stored draws, if they are of the form of those that the sampler makes."""
    trace = store.trace()
    if set(trace.names) != set(made):
        raise run_store.RunFileError(
            f"'{store.path}' holds draws of {shown(sorted(trace.names))}; this sampler makes {shown(sorted(made))}"
        )
    for name, values in made.items():
        try:
            check_array(trace[name], values.dtype, (None, None, *values.shape[1:]), Within(finite=False), name)
        except DoxaError as error:
            raise run_store.RunFileError(f"'{store.path}' is damaged: {error}; use a copy, or run it again") from error
    return trace


def _start(sampler: Sampler[Any], number: int, stream: np.random.SeedSequence) -> _Chain:
    """Where chain ``number`` begins: a sampler that has a ``start(number, rng)`` chooses by the number."""
    rng = np.random.default_rng(stream)
    start = getattr(sampler, "start", None)
    state = sampler.init(rng) if start is None else start(number, rng)
    return _Chain(state, rng)


def _compile(sampler: Sampler[Any], chain: _Chain) -> None:
    """Compile what the sampler needs before threads start, on a throw-away stream; `doxa._compilers` says so."""
    if not is_compiled(sampler):
        return
    from doxa import _jit  # noqa: F401 (a sampler of a user's own may compile without it)

    sampler.run(chain.state, sampler.thin, np.random.default_rng(0))


def run_block(sampler: Sampler[Any], chain: _Chain, n_steps: int) -> tuple[_Chain, Draws, dict[str, int], Spent]:
    """One block of one chain: the task of a worker."""
    begin, rng = time.thread_time(), deepcopy(chain.rng)  # a block whose worker is lost is run again
    with nullcontext() if is_compiled(sampler) else single_threaded_products():
        state, draws, info = sampler.run(chain.state, n_steps, rng)
    hot = info.pop(HOT, 0) / 1e9  # no counter of the run: it differs from time to time
    spent = Spent(time.thread_time() - begin, hot)
    return _Chain(state, rng), draws, info, spent


def is_compiled(sampler: Sampler[Any]) -> bool:
    """Whether a sampler is a compiled loop; one of arrays and matrix products says ``is_compiled = False``."""
    return bool(getattr(sampler, "is_compiled", True))
