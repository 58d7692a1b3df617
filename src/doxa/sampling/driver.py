"""The driver: runs the chains of any sampler, in rounds, and returns their draws as a `Trace`.

A sampler offers ``init(rng) -> state`` and ``run(state, n_steps, rng) -> (state, draws, info)``; see `Sampler`.
The driver gives every chain a random stream of its own, discards the warm-up, and works in rounds:
each chain runs a block of steps (one task a chain, `doxa.sampling.workers`), the results are gathered, progress is
shown.  A run has a fixed length, or ends when its draws are accurate enough (`doxa.estimates.stopping`).

Draws depend on the seed and the options alone.  How many workers there are, how long a block is, and which
joblib backend the user has chosen change the time only.  Scores and samplers are not here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError, WorkersLostError
from doxa.estimates.stopping import Assess, Audit, StopReport, Until
from doxa.estimates.trace import Trace
from doxa.progress import following
from doxa.sampling.runner import (
    STEPS_PER_BLOCK,
    Runner,
    Sampler,
    is_compiled,
    run_block,
    single_threaded_products,
)
from doxa.sampling.workers import run_in_parallel

if TYPE_CHECKING:
    from doxa.estimates.store import RunWriter

__all__ = [
    "Finding",
    "Run",
    "Sampler",
    "Schedule",
    "check_one_end",
    "fresh_entropy",
    "plan_length",
    "run_chains",
    "sample",
]


class Schedule(NamedTuple):
    """How long to run: chains, kept draws of each, and draws discarded before them; None: as many as it takes."""

    chains: int
    draws: int | None
    warmup: int | None


class Finding(NamedTuple):
    """What an audit of a run says, and where chains should go on from; None: there is no such place."""

    audit: Audit
    states: Sequence[Any] | None = None


class Run(NamedTuple):
    """What a run gives back."""

    trace: Trace
    stop: StopReport


def plan_length(chains: int, draws: int | None, warmup: int | None, until: Until | None) -> tuple[Schedule, Until]:
    """Check how long a run is to be, and fill in what was left out.

    >>> plan_length(4, 1000, None, None)[0]
    Schedule(chains=4, draws=1000, warmup=500)
    """
    check_one_end(draws, until)
    if draws is not None and warmup is None:
        warmup = check_whole("draws", draws, 4) // 2
    return Schedule(check_whole("chains", chains, 1), draws, warmup), Until() if until is None else until


def check_one_end(draws: int | None, until: Until | None) -> None:
    """Raise unless at most one of them says when to stop; a limit of time goes with a number of draws."""
    if until is not None and not isinstance(until, Until):
        raise ArgumentTypeError(f"until is {until!r}; it must be an Until, such as doxa.Until(ess=1000)")
    if draws is None or until is None:
        return
    if until.max_seconds is None or until != Until(max_seconds=until.max_seconds):
        raise ArgumentError(
            f"draws is {draws!r} and until is {until!r}: both say when to stop; give one of them (max_seconds alone "
            "may go with draws)"
        )


def fresh_entropy() -> int:
    """A seed from the operating system, short enough to be typed again."""
    return int.from_bytes(os.urandom(6), "big")


def sample(sampler: Sampler[Any], schedule: Schedule, **options: Any) -> Trace:
    """Run every chain for a fixed number of draws and return them; `run_chains` without stopping rules."""
    return run_chains(sampler, schedule, **options).trace


def run_chains(
    sampler: Sampler[Any],
    schedule: Schedule,
    *,
    until: Until | None = None,
    assess: Assess | None = None,
    settled: Callable[[Trace], bool] | None = None,
    audit: Callable[[Trace, list[Any]], Finding | None] | None = None,
    store: RunWriter | None = None,
    seed: int | None = None,
    workers: int | None = None,
    block: int | None = None,
    progress: bool | None = None,
) -> Run:
    """Run every chain of a sampler, for as long as was said or until its draws are good enough.

    Parameters
    ----------
    sampler : Sampler
    schedule : Schedule
        Chains, draws kept from each, and draws discarded as warm-up (each ``sampler.thin`` steps long).  With
        ``draws=None`` the run goes on until ``assess`` finds nothing missing; with ``warmup=None`` the warm-up goes on,
        in epochs that double, until ``settled`` says so of the latest epoch.
    until : Until, optional
        Limits of a run without a fixed length.
    assess : callable, optional
        From the draws so far to what is still missing; None when nothing is.  Asked at `decision_points`.
    settled : callable, optional
        From the draws of one warm-up epoch to whether the chains agree.
    audit : callable, optional
        From all draws and the chains' states to what the chains have missed; None if that cannot be said.  Asked when
        the run has come to its end.  Where it gives states and neither ``draws`` nor ``warmup`` is fixed, all draws are
        counted as warm-up, and the chains go on from there; up to three times, and only while there is as much time
        left as has gone by.
    store : RunWriter, optional
        Where draws and states are kept, about once a second.  One that already holds a part of the run is gone on with:
        the draws are those of a run that was never interrupted.
    seed : int, optional
        Chain c draws from ``SeedSequence(seed, spawn_key=(c,))``.  Taken from the system when left out, and
        kept in the trace.
    workers : int, optional
        Chains that run at the same time.  When left out: what an active ``joblib.parallel_config`` says, else one for
        each core, at most one a chain.
    block : int, optional
        Draws of each chain between two looks at the progress.
    progress : bool, optional
        Say on one line of standard error what goes on.  When left out: on a terminal and in a notebook, and elsewhere
        in a few lines where it takes long.

    Returns
    -------
    Run
        Draws of shape (chain, draw, ...), and why the run stopped.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a count is not a whole number or is too small.
    WorkersLostError
        If worker processes die again and again, or the cluster is gone; what was drawn is in the store.

    Notes
    -----
    Warm-up draws are discarded whatever they show, and kept draws never prolong or shorten the warm-up.  But if the
    time that ``until`` allows ends in the warm-up, its latest draws are returned, and the run stopped for "warm-up";
    one that goes on discards them.  The time of compiling does not count.  On KeyboardInterrupt the exception carries a
    note that says how far the run had come.
    """
    chains, draws, warmup = _checked(schedule)
    thin = check_whole("thin", sampler.thin, 1)
    entropy = fresh_entropy() if seed is None else check_whole("seed", seed, 0)
    if workers is not None:
        workers = check_whole("workers", workers, 1)
    block = max(1, STEPS_PER_BLOCK // thin) if block is None else check_whole("block", block, 1)
    until = Until() if until is None else until
    with (
        nullcontext() if is_compiled(sampler) else single_threaded_products(),
        following(progress) as report,
        run_in_parallel(run_block, chains, workers) as run_all,
    ):
        runner = Runner(sampler, chains, entropy, block, run_all, report, until.max_seconds, store)
        with _committed(runner):
            runner.start()
            stop = _drawn(runner, Schedule(chains, draws, warmup), until, assess, settled, audit)
    return Run(runner.trace(), stop._replace(spent=runner.spent))


def _drawn(
    runner: Runner,
    schedule: Schedule,
    until: Until,
    assess: Assess | None,
    settled: Callable[[Trace], bool] | None,
    audit: Callable[[Trace, list[Any]], Finding | None] | None,
) -> StopReport:
    """Warm up and draw, over again from what the audit finds."""
    free, seconds = schedule.draws is None and schedule.warmup is None, 0.0
    while True:
        if not runner.warm_up(schedule.warmup, settled):
            return StopReport("warm-up", None, 0.0)
        stop = runner.draw(schedule.draws, until, assess)
        if audit is None:
            return stop
        runner.commit()  # an audit takes its time
        runner.report.tell("looking for what the chains have missed")
        finding = audit(runner.trace(), [chain.state for chain in runner.chains])
        if finding is None:
            return stop
        seconds += finding.audit.seconds
        states = finding.states if free and stop.reason == "reached" and runner.may_start_over else None
        if states is None:
            return stop._replace(audit=finding.audit._replace(seconds=seconds, n_starts=runner.n_starts))
        runner.start_over(states)


@contextmanager
def _committed(runner: Runner) -> Iterator[None]:
    """Keep what was drawn, also of a run that is interrupted or has lost its workers; it then says how far it came."""
    try:
        yield
    except (KeyboardInterrupt, WorkersLostError) as interruption:
        runner.commit()
        interruption.add_note(runner.how_far)
        raise
    runner.commit()


def _checked(schedule: Schedule) -> Schedule:
    """The same, its counts as whole numbers."""
    chains, draws, warmup = schedule
    return Schedule(
        check_whole("chains", chains, 1),
        None if draws is None else check_whole("draws", draws, 4, " (each chain is compared with itself in halves)"),
        None if warmup is None else check_whole("warmup", warmup, 0),
    )
