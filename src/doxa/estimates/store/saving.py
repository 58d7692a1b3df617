"""A finished trace in a new run file, whole or not at all.

The states of the chains are not known any more: such a file can be read for ever, and not gone on with.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.store.header import RunFileError, RunHeader
from doxa.estimates.store.opening import create_run
from doxa.estimates.store.rounds import ChainRound, Round
from doxa.estimates.trace import Trace

__all__ = ["check_can_go_on", "write_trace"]

_BYTES_OF_A_ROUND = 2**25  # what is written at once is held in memory


def write_trace(path: str | os.PathLike[str], header: RunHeader, trace: Trace) -> None:
    """Write a trace to a new file.

    Parameters
    ----------
    path : str or path-like
        A name that is not taken.
    header : RunHeader
        With an option ``saved``, by which `check_can_go_on` knows such a file.
    trace : Trace

    Raises
    ------
    RunFileError
        If the name is taken, or the file cannot be written; there is then no file of that name, whole or in part.
    ArgumentError
        If a counter of the trace is no whole number a chain.

    Notes
    -----
    The file is made in a folder of its own beside ``path`` (``.doxa-...``) and moved when it is complete.
    """
    try:
        target = Path(path).absolute()
    except TypeError:
        raise ArgumentTypeError(f"path is {path!r:.80}; it must be the name of a file") from None
    with _new_file(target) as scratch, create_run(scratch, header) as run:
        for part in _rounds(trace):
            run.commit(part)


def check_can_go_on(path: str | os.PathLike[str], header: RunHeader, call: str) -> None:
    """Raise `RunFileError` when a file holds a saved posterior and no chains; ``call`` makes such a run."""
    if "saved" in header.options:
        seed = "" if header.entropy is None else f"seed={header.entropy}, "
        raise RunFileError(
            f"'{path}' holds a saved posterior, without the states of its chains: it can be read (doxa.load) but not "
            f"gone on with. To make the run longer, make it again in a new file, with {call}, {seed}"
            "store=...) and the options it had; such a file can be gone on with"
        )


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
