"""Beginning a run file, opening it to continue the run or to read it, and a finished trace in a file of its own.

Whoever writes takes the lease first.  Whoever continues a run says what it is to be continued with, and every
difference from what it was started with is named.  Of a finished trace the states of the chains are not known any more:
its file, written whole or not at all, can be read for ever, and not gone on with.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.store.file import create_file, move_new, open_read_only, open_to_write, real_path
from doxa.estimates.store.format import MAX_HEADER, RunFileError, RunHeader, insert_header, with_free_options
from doxa.estimates.store.lease import Lease
from doxa.estimates.store.reader import RunReader
from doxa.estimates.store.writer import ChainRound, Round, RunWriter
from doxa.estimates.trace import Trace
from doxa.text import Lines, printable

__all__ = ["MAX_RUN_BYTES", "check_can_go_on", "create_run", "open_reader", "open_writer", "write_trace"]

MAX_RUN_BYTES = 2**34  # of a file, and of its draws in memory, unless the caller allows more


def create_run(path: str | os.PathLike[str], header: RunHeader) -> RunWriter:
    """Begin a run file.

    Parameters
    ----------
    path : str or path-like
        A name that is not taken.
    header : RunHeader
        What the run is started with.

    Returns
    -------
    RunWriter
        Holding the lease; close it, or use it in a ``with`` statement.

    Raises
    ------
    RunFileError
        If the name is taken, or the file cannot be made.
    LeaseHeldError
        If another process is writing a run of that name.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from doxa.estimates.store import ChainRound, Round
    >>> rng = np.random.default_rng(1)
    >>> header = RunHeader("toy", {"draws": 2}, "no data", {}, n_chains=1)
    >>> draws = {"x": rng.normal(size=2)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with create_run(f"{folder}/run.doxa", header) as run:
    ...         run.commit(Round("sampling", 2, [ChainRound(draws, {}, {"at": 2}, rng.bit_generator.state)]))
    ...     with open_reader(f"{folder}/run.doxa") as run:
    ...         print(run.n_draws, run.states()[0][0], np.array_equal(run.trace()["x"][0], draws["x"]))
    2 {'at': 2} True
    """
    named = Path(path) if isinstance(path, (str, os.PathLike)) else path
    target = real_path(path)
    if os.path.lexists(named) and not target.exists():
        raise RunFileError(f"'{named}' is a link that leads nowhere; delete it or choose another name")
    if not target.parent.is_dir():
        raise RunFileError(f"'{target}' cannot be made: the folder '{target.parent}' does not exist; create it first")
    body = header.to_json()
    if len(body) > MAX_HEADER:
        raise ArgumentError(f"the options of the run take {len(body)} characters; at most {MAX_HEADER} can be kept")
    return _with_lease(target, MAX_RUN_BYTES, new=body)


def open_writer(
    path: str | os.PathLike[str],
    expect: RunHeader | None = None,
    *,
    free: Collection[str] = (),
    free_versions: Collection[str] = (),
    max_bytes: int = MAX_RUN_BYTES,
) -> RunWriter:
    """Open a run file to continue it, with the lease: to be closed, or used in a ``with`` statement.

    What it is to be continued with may be stated (``expect``): every difference is named in a `RunFileError`, but for
    ``created``, an ``entropy`` of None, and the ``free`` options, such as the number of draws, and ``free_versions`` of
    programs.  The file takes over the new values of free options.  ``max_bytes`` is as for `open_reader`.
    """
    target = real_path(path)
    if not target.exists():
        raise RunFileError(f"there is no run file '{target}'")
    writer = _with_lease(target, max_bytes)
    try:
        if expect is not None:
            _take_over(writer, expect, free, free_versions)
    except BaseException:
        writer.close()
        raise
    return writer


def open_reader(path: str | os.PathLike[str], *, max_bytes: int = MAX_RUN_BYTES, check: bool = True) -> RunReader:
    """Open a run file for reading, also while it is written.

    Parameters
    ----------
    path : str or path-like
    max_bytes : int
        Largest file, and largest size of its draws in memory, that is opened.
    check : bool, default=True
        Run SQLite's integrity check, which reads the whole file.  The schema is compared and checksums are verified in
        any case.

    Returns
    -------
    RunReader
        Close it, or use it in a ``with`` statement.

    Raises
    ------
    RunFileError
        If the file is no run, or is damaged.

    Notes
    -----
    Nothing is written, with one exception: if a killed writer left a transaction half done, and no writer lives, it is
    undone.
    """
    target = real_path(path)
    connection = open_read_only(target, max_bytes, check=check)
    try:
        return RunReader(target, connection, max_bytes)
    except BaseException:
        connection.close()
        raise


def _with_lease(path: Path, max_bytes: int, new: str | None = None) -> RunWriter:
    """Take the lease and open a run to write; it is made first where ``new``, its header, is given."""
    lease = Lease(path)
    try:
        if new is not None:
            create_file(path, lambda connection: insert_header(connection, new))
        connection = open_to_write(path, max_bytes)
        try:
            return RunWriter(path, connection, max_bytes, lease)
        except BaseException:
            connection.close()
            raise
    except BaseException:
        lease.release()
        raise


def _take_over(writer: RunWriter, expect: RunHeader, free: Collection[str], free_versions: Collection[str]) -> None:
    differences = list(writer.header.differences(expect, free, free_versions))
    if differences:
        listed = "".join(f"\n  {line}" for line in differences)
        raise RunFileError(
            Lines(
                f"'{printable(str(writer.path))}' cannot be continued, because it was started in another way:{listed}\n"
                "Continue it with what it was started with, or start a run in another file"
            )
        )
    writer.change_header(with_free_options(writer.header, expect, free))


_BYTES_OF_A_ROUND = 2**25  # what is written at once is held in memory


def write_trace(path: str | os.PathLike[str], header: RunHeader, trace: Trace) -> None:
    """Write a trace to a new file, whole or not at all.

    The header has an option ``saved``, by which `check_can_go_on` knows such a file.  It is made in a folder of its own
    beside ``path`` (``.doxa-...``) and moved when it is complete.
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
    if "sums" in header.options:
        raise RunFileError(
            f"'{path}' holds an exact answer, a sum over all graphs: there is nothing to go on with; read it with "
            "doxa.load, or doxa show"
        )
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
            move_new(scratch, target, taken)
    except OSError as error:
        if isinstance(error, RunFileError) and str(error) == taken:
            raise
        cause = error.__cause__ or error
        reason = getattr(cause, "strerror", None) or cause
        raise RunFileError(
            f"'{target}' cannot be saved: {reason}. There is no such file, not even in part; make space or choose "
            "another folder, and save again"
        ) from error
