"""The driver: runs the chains of any sampler, in rounds, and returns their draws as a `Trace`.

A sampler offers ``init(rng) -> state`` and ``run(state, n_steps, rng) -> (state, draws, info)``; see `Sampler`.
The driver gives every chain a random stream of its own, discards the warm-up, and works in rounds:
each chain runs a block of steps (one joblib task a chain), the results are gathered, progress is shown.

Draws depend on the seed and the options alone.  How many workers there are, how long a block is, and which
joblib backend the user has chosen change the time only.  Scores and samplers are not here.
"""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.trace import Trace
from doxa.mcmc.progress import Reporter, reporter

__all__ = ["Sampler", "Schedule", "check_whole", "fresh_entropy", "sample"]

logger = logging.getLogger("doxa")

State = TypeVar("State")
Draws = dict[str, NDArray[Any]]

_STEPS_PER_BLOCK = 2**20  # tenths of a second for compiled loops: short enough to follow and to interrupt


class Sampler(Protocol[State]):
    """What the driver asks of a sampler (a frozen dataclass of settings)."""

    @property
    def thin(self) -> int:
        """Steps between kept draws."""

    def init(self, rng: np.random.Generator) -> State:
        """An over-dispersed starting state."""

    def run(self, state: State, n_steps: int, rng: np.random.Generator) -> tuple[State, Draws, dict[str, int]]:
        """Run ``n_steps`` (a multiple of ``thin``); keep every ``thin``-th as draws of shape (n_kept, ...)."""


class Schedule(NamedTuple):
    """How long to run: chains, kept draws of each, and draws discarded before them."""

    chains: int
    draws: int
    warmup: int


class _Chain(NamedTuple):
    """A chain between two rounds."""

    state: Any
    rng: np.random.Generator


def check_whole(name: str, value: object, least: int, hint: str = "") -> int:
    """Return ``value`` as an int of at least ``least``, or raise an error that names the argument."""
    if isinstance(value, bool):
        raise ArgumentTypeError(f"{name} is {value!r}; it must be a whole number of at least {least}{hint}")
    try:
        whole = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(f"{name} is {value!r}; it must be a whole number of at least {least}{hint}") from None
    if whole < least:
        raise ArgumentError(f"{name} is {whole}; it must be at least {least}{hint}")
    return whole


def fresh_entropy() -> int:
    """A seed from the operating system, short enough to be typed again."""
    return int.from_bytes(os.urandom(6), "big")


def sample(
    sampler: Sampler[Any],
    schedule: Schedule,
    *,
    seed: int | None = None,
    workers: int | None = None,
    block: int | None = None,
    progress: bool | None = None,
) -> Trace:
    """Run every chain of a sampler and return the kept draws.

    Parameters
    ----------
    sampler : Sampler
    schedule : Schedule
        Chains, draws kept from each, and draws discarded as warm-up (each ``sampler.thin`` steps long).
    seed : int, optional
        Chain c draws from ``SeedSequence(seed, spawn_key=(c,))``.  Taken from the system when left out, and
        kept in the trace.
    workers : int, optional
        Chains that run at the same time.  When left out: what an active ``joblib.parallel_config`` says, else one for
        each core, at most one a chain.
    block : int, optional
        Draws of each chain between two looks at the progress.
    progress : bool, optional
        Show a progress bar on standard error; when left out, if that is a terminal.

    Returns
    -------
    Trace
        Draws of shape (chain, draw, ...).

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a count is not a whole number or is too small.

    Notes
    -----
    On KeyboardInterrupt the exception carries a note that says how far the run had come.
    """
    chains = check_whole("chains", schedule.chains, 1)
    draws = check_whole("draws", schedule.draws, 4, " (each chain is compared with itself in halves)")
    warmup = check_whole("warmup", schedule.warmup, 0)
    thin = check_whole("thin", sampler.thin, 1)
    entropy = fresh_entropy() if seed is None else check_whole("seed", seed, 0)
    if workers is not None:
        workers = check_whole("workers", workers, 1)
    block = max(1, _STEPS_PER_BLOCK // thin) if block is None else check_whole("block", block, 1)
    streams = [np.random.SeedSequence(entropy, spawn_key=(chain,)) for chain in range(chains)]
    kept: list[list[Draws]] = [[] for _ in range(chains)]
    counts: list[dict[str, int]] = [{} for _ in range(chains)]
    done = 0
    with reporter(progress, chains * (warmup + draws)) as report:
        try:
            fleet = [_start(sampler, stream) for stream in streams]
            _compile(sampler, fleet[0], report)
            with _parallel(chains, workers) as run_all:
                for size, keep in _rounds(warmup, draws, block):
                    results = run_all(sampler, fleet, size * thin)
                    fleet = [chain for chain, _, _ in results]
                    if keep:
                        for number, (_, block_draws, info) in enumerate(results):
                            kept[number].append(block_draws)
                            _add(counts[number], info)
                    done += size
                    report.advance(chains * size, "sampling" if keep else "warm-up")
        except KeyboardInterrupt as interruption:
            interruption.add_note(_how_far(done, warmup, draws, chains))
            raise
    arrays = {name: np.stack([np.concatenate([part[name] for part in parts]) for parts in kept]) for name in kept[0][0]}
    info = {name: np.array([count[name] for count in counts]) for name in counts[0]}
    return Trace(arrays, thin=thin, n_warmup=warmup * thin, entropy=entropy, info=info)


def _start(sampler: Sampler[Any], stream: np.random.SeedSequence) -> _Chain:
    rng = np.random.default_rng(stream)
    return _Chain(sampler.init(rng), rng)


def _compile(sampler: Sampler[Any], chain: _Chain, report: Reporter) -> None:
    """Compile what the sampler needs before threads start, on a throw-away stream; say so if it takes long."""
    with _when_compiling(report):
        sampler.run(chain.state, sampler.thin, np.random.default_rng(0))


@contextmanager
def _when_compiling(report: Reporter) -> Iterator[None]:
    from numba.core import event

    class Announce(event.Listener):  # type: ignore[misc]
        announced = False

        def on_start(self, _event: Any) -> None:
            if not self.announced:
                self.announced = True
                logger.info("compiling the sampling kernels, once for this version (some 20 seconds)")
                report.advance(0, "compiling")

        def on_end(self, _event: Any) -> None:
            return

    with event.install_listener("numba:compile", Announce()):
        yield


def _run_block(sampler: Sampler[Any], chain: _Chain, n_steps: int) -> tuple[_Chain, Draws, dict[str, int]]:
    state, draws, info = sampler.run(chain.state, n_steps, chain.rng)
    return _Chain(state, chain.rng), draws, info


@contextmanager
def _parallel(chains: int, workers: int | None) -> Iterator[Any]:
    """A function that runs one block of every chain, on as many workers as asked for."""
    from joblib import Parallel, cpu_count, delayed
    from joblib.parallel import get_active_backend

    if workers is None:
        _, configured = get_active_backend()
        n_jobs = None if configured != 1 else min(chains, cpu_count())
    else:
        n_jobs = min(chains, workers)
    with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:

        def run_all(sampler: Sampler[Any], fleet: Iterable[_Chain], n_steps: int) -> list[Any]:
            return list(parallel(delayed(_run_block)(sampler, chain, n_steps) for chain in fleet))

        yield run_all


def _rounds(warmup: int, draws: int, block: int) -> Iterator[tuple[int, bool]]:
    """Sizes of the rounds in draws, and whether they are kept."""
    for total, keep in ((warmup, False), (draws, True)):
        for begin in range(0, total, block):
            yield min(block, total - begin), keep


def _add(totals: dict[str, int], info: dict[str, int]) -> None:
    for name, value in info.items():
        totals[name] = totals.get(name, 0) + value


def _how_far(done: int, warmup: int, draws: int, chains: int) -> str:
    if done < warmup:
        return f"interrupted in the warm-up, after {done} of {warmup} draws of each of the {chains} chains"
    return f"interrupted after {done - warmup} of {draws} draws of each of the {chains} chains; warm-up was done"
