"""The run store: the draws and the chain states of a run in one SQLite file, safe against crashes and strangers.

A round (what every chain did in one block of steps) and the chain states after it are written in one transaction.  A
run killed anywhere therefore has a file that ends with a whole round, from which it goes on to the same draws.  One
process writes, holding a `Lease`; others read meanwhile.  A file from a stranger is data: checked, never executed.

The format is described in docs/run-store.md.  Sampling, and what the options of a run mean, are not here.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, DoxaError
from doxa.estimates.lease import Lease, LeaseHeldError
from doxa.estimates.store_file import create_file, in_words, open_read_only, open_to_write, real_path
from doxa.estimates.store_format import Packed, State, unpack
from doxa.estimates.store_header import RunFileError, RunHeader, with_free_options
from doxa.estimates.store_index import Block, Index, TooLargeError, checksum, read_index
from doxa.estimates.store_rounds import ChainRound, Round, prepare
from doxa.estimates.trace import Trace

__all__ = [
    "MAX_RUN_BYTES",
    "ChainRound",
    "LeaseHeldError",
    "Round",
    "RunFileError",
    "RunHeader",
    "RunReader",
    "RunWriter",
    "create_run",
    "open_reader",
    "open_writer",
]

MAX_RUN_BYTES = 2**34  # of a file, and of its draws in memory, unless the caller allows more
_MAX_HEADER = 2**24


class RunReader:
    """A run file open for reading; made by `open_reader`, and a context manager.

    It shows the file as it was when opened, or at the last `refresh`: draws of a live run do not change under way.

    Attributes
    ----------
    path : Path
    header : RunHeader
    """

    header: RunHeader

    def __init__(self, path: Path, connection: sqlite3.Connection, max_bytes: int) -> None:
        self.path = path
        self._connection = connection
        self._max_bytes = max_bytes
        self._index = Index()
        self.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was read from it stays valid."""
        self._connection.close()

    @property
    def n_draws(self) -> int:
        """Draws kept in each chain."""
        return self._index.n_draws

    @property
    def n_warmup_steps(self) -> int:
        """Steps of each chain in the warm-up."""
        return self._index.n_warmup_steps

    @property
    def n_steps(self) -> int:
        """Steps of each chain after the warm-up."""
        return self._index.n_steps

    @property
    def n_bytes(self) -> int:
        """Bytes that the draws of all chains take in memory."""
        return self._index.n_bytes

    def refresh(self) -> None:
        """See what a live writer has committed since; the draws are not read.

        Raises
        ------
        RunFileError
            If the file is damaged.
        """
        with self._reading():
            self._connection.execute("BEGIN")
            try:
                self.header = _read_header(self._connection)
                self._index = read_index(self._connection, self.header.n_chains, self._max_bytes)
            finally:
                self._connection.execute("COMMIT")

    def states(self) -> list[tuple[State, dict[str, Any]]]:
        """State and state of the bit generator of every chain after the last round; empty before the first."""
        return [(dict(chain.state), dict(chain.rng_state)) for chain in self._index.chains]

    def trace(self) -> Trace:
        """Read the draws.

        Returns
        -------
        Trace
            Arrays of shape (chain, draw, ...), counters summed over the sampling rounds.

        Raises
        ------
        RunFileError
            If there are no draws yet, or a block fails its checksum.
        """
        index = self._index
        if not index.layout:
            raise RunFileError(
                f"'{self.path}' holds no draws yet, only {index.n_warmup_steps} steps of warm-up; continue the run"
            )
        chains = self.header.n_chains
        arrays = {
            name: np.empty((chains, index.n_draws, *tail), dtype=np.dtype(dtype).newbyteorder("="))
            for name, (dtype, tail) in index.layout.items()
        }
        for block, values in self._blocks():
            arrays[block.name][block.chain, block.first : block.first + block.n_draws] = values
        counters = dict.fromkeys(name for chain in index.chains for name in chain.info)
        info = {name: np.array([chain.info.get(name, 0) for chain in index.chains]) for name in counters}
        return Trace(arrays, self.header.thin, index.n_warmup_steps, self.header.entropy, info)

    def verify(self) -> None:
        """Read every block and check lengths and checksums.

        Raises
        ------
        RunFileError
            If anything is damaged.
        """
        self.refresh()
        for _ in self._blocks():
            pass

    def _blocks(self) -> Iterator[tuple[Block, NDArray[Any]]]:
        """One block at a time, each in a transaction of its own: blocks never change, and a writer can go on."""
        query = "SELECT crc32, data FROM blocks WHERE id = ?"
        with self._reading():
            for block in self._index.blocks:
                crc, data = self._connection.execute(query, (block.id,)).fetchone() or (None, None)
                if not isinstance(data, bytes) or crc != checksum(block.key, data):
                    raise ArgumentError(f"draws from {block.first} of chain {block.chain} fail their checksum")
                yield block, unpack(Packed(*block.described, data))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            with in_words(self.path):
                yield
        except RunFileError:
            raise
        except TooLargeError as error:
            raise RunFileError(f"'{self.path}' is too large: {error}; raise max_bytes if you trust it") from error
        except (DoxaError, UnicodeError) as error:
            raise RunFileError(f"'{self.path}' is damaged: {error}; use a copy, or run it again") from error


class RunWriter(RunReader):
    """A run file open for writing; made by `create_run` or `open_writer`, and a context manager.

    It holds the lease until `close`.  Everything that a `RunReader` offers is there too.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, max_bytes: int, lease: Lease) -> None:
        self._lease = lease
        super().__init__(path, connection, max_bytes)

    def close(self) -> None:
        """Close the file and give the lease back."""
        super().close()
        self._lease.release()

    def commit(self, done: Round) -> None:
        """Write a round and the states after it, whole or not at all.

        Parameters
        ----------
        done : Round
            Every chain has the same quantities and equally many draws.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If the round does not fit the run.
        RunFileError
            If it cannot be written: a full disk, say.  The file then still holds the run up to the round before, and
            the same round may be committed again.
        """
        rows, after = prepare(done, self._index, self.header.n_chains)
        consequence = (
            f". Nothing of this round was stored; the file holds {self.n_draws} draws of each chain. "
            "Make space or remove the cause, then continue the run (resume): it goes on from there"
        )
        with in_words(self.path, consequence), _transaction(self._connection):
            (last,) = self._connection.execute("SELECT ifnull(max(round), 0) FROM rounds").fetchone()
            if last != self._index.n_rounds:
                raise RunFileError(f"'{self.path}' was changed by another program; open it again to continue the run")
            self._connection.execute("DELETE FROM states")
            self._connection.execute("DELETE FROM chains")
            for statement, values in rows:
                self._connection.execute(statement, values)
        self._index = after

    def change_header(self, header: RunHeader) -> None:
        """Replace the header, for options that may change from one part of a run to the next."""
        body = header.to_json()
        if body != self.header.to_json():
            with in_words(self.path, ". Nothing was changed"), _transaction(self._connection):
                self._connection.execute("UPDATE header SET body = ?, sha256 = ? WHERE id = 1", (body, _digest(body)))
        self.header = header


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
    if len(body) > _MAX_HEADER:
        raise ArgumentError(f"the options of the run take {len(body)} characters; at most {_MAX_HEADER} can be kept")
    return _with_lease(target, lambda: _create(target, body))


def open_writer(
    path: str | os.PathLike[str],
    expect: RunHeader | None = None,
    *,
    free: Collection[str] = (),
    free_versions: Collection[str] = (),
    max_bytes: int = MAX_RUN_BYTES,
) -> RunWriter:
    """Open a run file to continue it.

    Parameters
    ----------
    path : str or path-like
    expect : RunHeader, optional
        What the run is to be continued with; not compared when left out.  Its ``created``, and its ``entropy`` when
        None, are not compared either.
    free : collection of str
        Options that may differ, such as the number of draws.  The file takes over their new values.
    free_versions : collection of str
        Programs whose versions may differ.
    max_bytes : int
        Largest file, and largest size of its draws in memory, that is opened.

    Returns
    -------
    RunWriter
        Holding the lease; close it, or use it in a ``with`` statement.

    Raises
    ------
    RunFileError
        If the file is no run, is damaged, or was started in another way; every difference is named.
    LeaseHeldError
        If another process is writing it.
    """
    target = real_path(path)
    if not target.exists():
        raise RunFileError(f"there is no run file '{target}'")

    def open_checked() -> tuple[sqlite3.Connection, int]:
        return open_to_write(target, max_bytes), max_bytes

    writer = _with_lease(target, open_checked)
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


def _with_lease(path: Path, open_file: Callable[[], tuple[sqlite3.Connection, int]]) -> RunWriter:
    lease = Lease(path)
    try:
        connection, max_bytes = open_file()
        try:
            return RunWriter(path, connection, max_bytes, lease)
        except BaseException:
            connection.close()
            raise
    except BaseException:
        lease.release()
        raise


def _create(path: Path, body: str) -> tuple[sqlite3.Connection, int]:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO header VALUES (1, ?, ?)", (body, _digest(body)))

    create_file(path, fill)
    return open_to_write(path, MAX_RUN_BYTES), MAX_RUN_BYTES


def _take_over(writer: RunWriter, expect: RunHeader, free: Collection[str], free_versions: Collection[str]) -> None:
    differences = list(writer.header.differences(expect, free, free_versions))
    if differences:
        listed = "".join(f"\n  {line}" for line in differences)
        raise RunFileError(
            f"'{writer.path}' cannot be continued, because it was started in another way:{listed}\n"
            "Continue it with what it was started with, or start a run in another file"
        )
    writer.change_header(with_free_options(writer.header, expect, free))


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _read_header(connection: sqlite3.Connection) -> RunHeader:
    rows = connection.execute("SELECT id, length(body), body, sha256 FROM header LIMIT 2").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][2], str) or rows[0][0] != 1 or len(rows[0][2]) > _MAX_HEADER:
        raise ArgumentError("it has no header")
    if _digest(rows[0][2]) != rows[0][3]:
        raise ArgumentError("its header fails its checksum")
    return RunHeader.from_json(rows[0][2])


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, also when interrupted from the keyboard."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has often undone it itself
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise
