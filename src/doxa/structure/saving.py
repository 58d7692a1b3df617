"""`save_run`: a posterior over graphs in a new run file, which `doxa.load` reads.

A posterior has draws, options and the reason why its run stopped; it does not know where the chains stand.  A saved
file says so (its option ``saved``): it can be read for ever, and not gone on with.  The file itself is
`doxa.estimates.store`'s; runs that are kept as they go are `doxa.structure.runs`'.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.stopping import Shortfall, StopReport
from doxa.estimates.store import ChainRound, Round, RunFileError, RunHeader, create_run
from doxa.structure.moves import move_settings

if TYPE_CHECKING:
    from doxa.estimates.store import RunWriter
    from doxa.estimates.trace import Trace
    from doxa.structure.posterior import StructurePosterior

__all__ = ["KIND", "check_can_go_on", "keep_stop", "save_run", "stored_stop"]

KIND = "structure"

_BYTES_OF_A_ROUND = 2**25  # what is written at once is held in memory


def save_run(posterior: StructurePosterior, path: str | os.PathLike[str]) -> None:
    """Write a posterior to a new file, from which `doxa.load` makes an equal one.

    Parameters
    ----------
    posterior : StructurePosterior
        From a finished run, or loaded.  What the score caches of this process did is not kept.
    path : str or path-like
        A name that is not taken.

    Raises
    ------
    RunFileError
        If the name is taken, or the file cannot be written; there is then no file of that name, whole or in part.
    ArgumentError
        If the sampler is not one of doxa's own: another could not be made again from the file.

    Notes
    -----
    The file is made in a folder of its own beside ``path`` (``.doxa-...``) and moved when it is complete.

    Examples
    --------
    >>> import doxa, tempfile
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), exact=False, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_run(posterior, f"{folder}/run.doxa")
    ...     doxa.load(f"{folder}/run.doxa").verdict == posterior.verdict
    True
    """
    try:
        target = Path(path).absolute()
    except TypeError:
        raise ArgumentTypeError(f"path is {path!r:.80}; it must be the name of a file") from None
    header = _header(posterior)
    with _new_file(target) as scratch, create_run(scratch, header) as run:
        for part in _rounds(posterior.trace):
            run.commit(part)


def stored_stop(options: Mapping[str, Any]) -> StopReport | None:
    """Why a run stopped; None if that is not known, or it has not come to its end.

    Raises
    ------
    ArgumentError
        If the option is not as `save_run` or `keep_stop` writes it.
    """
    match options.get("saved", {"stop": options.get("stop")}):
        case {"stop": None}:
            return None
        case {"stop": {"reason": str(reason), "seconds": str(seconds), "held_back": held_back}}:
            return StopReport(reason, _shortfall(held_back), _number(seconds))
        case _:
            raise ArgumentError("its option 'saved' has no such form")


def keep_stop(store: RunWriter, stop: StopReport) -> None:
    """Write why a run stopped into the file in which it was kept as it went."""
    options = {**store.header.options, "stop": _stop_as_json(stop)}
    store.change_header(replace(store.header, options=options))


def check_can_go_on(path: str | os.PathLike[str], header: RunHeader) -> None:
    """Raise `RunFileError` when a file holds a saved posterior and no chains."""
    if "saved" in header.options:
        seed = "" if header.entropy is None else f"seed={header.entropy}, "
        raise RunFileError(
            f"'{path}' holds a saved posterior, without the states of its chains: it can be read (doxa.load) but not "
            f"gone on with. To make the run longer, make it again in a new file, with doxa.learn(table, {seed}"
            "store=...) and the options it had; such a file can be gone on with"
        )


def _header(posterior: StructurePosterior) -> RunHeader:
    trace, options = posterior.trace, posterior.options
    described = options.to_json() | {
        "sampler": move_settings(posterior.sampler),
        "warmup": trace.n_warmup // trace.thin,
        "draws": trace.n_draws,
        "until": {},
        "source": None,
        "saved": {"doxa": version("doxa"), "stop": _stop_as_json(posterior.stop)},
    }
    created = datetime.now(UTC).isoformat(timespec="seconds")
    # which versions made the draws, a posterior does not know
    return RunHeader(KIND, described, options.data_digest, {}, trace.n_chains, trace.thin, trace.entropy, created)


def _rounds(trace: Trace) -> Iterator[Round]:
    """All that a trace holds, in rounds of a bearable size."""
    for name, values in trace.info.items():
        if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
            raise ArgumentError(f"info[{name!r}] of the trace is no whole number a chain; a run file keeps counters")
    info = [{name: int(values[chain]) for name, values in trace.info.items()} for chain in range(trace.n_chains)]
    if trace.n_warmup:
        yield Round("warmup", trace.n_warmup, [_part(trace, chain, slice(0), {}) for chain in range(trace.n_chains)])
    per_draw = sum(trace[name][:, :1].nbytes for name in trace.names)
    size = max(1, _BYTES_OF_A_ROUND // max(1, per_draw))
    for first in range(0, trace.n_draws, size):
        draws = slice(first, min(first + size, trace.n_draws))
        parts = [_part(trace, chain, draws, {} if first else info[chain]) for chain in range(trace.n_chains)]
        yield Round("sampling", (draws.stop - first) * trace.thin, parts)


def _part(trace: Trace, chain: int, draws: slice, info: Mapping[str, int]) -> ChainRound:
    """What one chain did; its state is empty, and its random stream stands at its beginning."""
    stream = np.random.SeedSequence(trace.entropy or 0, spawn_key=(chain,))
    arrays = {name: trace[name][chain, draws] for name in trace.names}
    return ChainRound(arrays, info, {}, np.random.default_rng(stream).bit_generator.state)


def _stop_as_json(stop: StopReport | None) -> dict[str, Any] | None:
    """Floats as hexadecimal text, so that every bit is kept, infinity included."""
    if stop is None:
        return None
    held = stop.held_back
    described = None if held is None else [held.name, held.what, *(float(x).hex() for x in held[2:])]
    return {"reason": stop.reason, "seconds": float(stop.seconds).hex(), "held_back": described}


def _shortfall(stored: object) -> Shortfall | None:
    match stored:
        case None:
            return None
        case [str(name), str(what), str(value), str(target), str(factor)]:
            return Shortfall(name, what, _number(value), _number(target), _number(factor))
        case _:
            raise ArgumentError("its option 'saved' has no such form")


def _number(digits: str) -> float:
    try:
        return float.fromhex(digits)
    except (ValueError, OverflowError):
        raise ArgumentError("its option 'saved' holds a number that cannot be read") from None


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """A name to write to; the file gets its own name when it is complete, never over another file."""
    taken = f"'{target}' exists already; choose another name, or delete the file first"
    if os.path.lexists(target):
        raise RunFileError(taken)
    if not target.parent.is_dir():
        raise RunFileError(f"'{target}' cannot be made: the folder '{target.parent}' does not exist; create it first")
    try:
        with tempfile.TemporaryDirectory(prefix=".doxa-", dir=target.parent) as folder:
            scratch = Path(folder) / target.name
            yield scratch
            try:
                os.link(scratch, target)
            except FileExistsError:
                raise RunFileError(taken) from None
            except OSError:  # no hard links here
                scratch.rename(target)
        _make_durable(target.parent)
    except OSError as error:
        if isinstance(error, RunFileError) and str(error) == taken:
            raise
        cause = error.__cause__ or error
        reason = getattr(cause, "strerror", None) or cause
        raise RunFileError(
            f"'{target}' cannot be saved: {reason}. There is no such file, not even in part; make space or choose "
            "another folder, and save again"
        ) from error


def _make_durable(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
