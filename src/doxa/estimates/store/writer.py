"""Writing a run file: one round, and the chain states after it, whole or not at all.

Why a run stopped, as a run file keeps it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from doxa.errors import ArgumentError
from doxa.estimates.stopping import Audit, Shortfall, StopReport
from doxa.estimates.store.file import in_words
from doxa.estimates.store.header import RunFileError, RunHeader, update_header
from doxa.estimates.store.index import Index
from doxa.estimates.store.lease import Lease
from doxa.estimates.store.reader import RunReader
from doxa.estimates.store.rounds import ChainRound, Round, Row, dropped, prepare

__all__ = ["RunWriter", "keep_stop", "stop_as_json", "stored_stop"]


def stored_stop(options: Mapping[str, Any]) -> StopReport | None:
    """Why a run stopped; None if that is not known, or it has not come to its end.

    Raises
    ------
    ArgumentError
        If the option is not as `stop_as_json` writes it.
    """
    match options.get("saved", {"stop": options.get("stop")}):
        case {"stop": None}:
            return None
        case {"stop": {"reason": str(reason), "seconds": str(seconds), "held_back": held_back, **more}}:
            return StopReport(reason, _shortfall(held_back), _number(seconds), _audit(more.get("audit")))
        case _:
            raise ArgumentError("its option 'saved' has no such form")


def keep_stop(store: RunWriter, stop: StopReport) -> None:
    """Write why a run stopped into the file in which it was kept as it went."""
    options = {**store.header.options, "stop": stop_as_json(stop)}
    store.change_header(replace(store.header, options=options))


def stop_as_json(stop: StopReport | None) -> dict[str, Any] | None:
    """Floats as hexadecimal text, so that every bit is kept, infinity included."""
    if stop is None:
        return None
    held = stop.held_back
    described = None if held is None else [held.name, held.what, *(float(x).hex() for x in held[2:])]
    audited = stop.audit
    audit = None if audited is None else [audited.found, float(audited.seconds).hex(), audited.n_starts]
    return {"reason": stop.reason, "seconds": float(stop.seconds).hex(), "held_back": described, "audit": audit}


def _audit(stored: object) -> Audit | None:
    match stored:
        case None:
            return None
        case [str(found), str(seconds)]:
            return Audit(found, _number(seconds))
        case [str(found), str(seconds), int(n_starts)]:
            return Audit(found, _number(seconds), n_starts)
        case _:
            raise ArgumentError("its option 'saved' has no such form")


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
        self._write(*prepare(done, self._index, self.header.n_chains))

    def start_over(self, chains: Sequence[ChainRound]) -> None:
        """Count all that was drawn as warm-up, drop the draws and write new states, whole or not at all.

        Parameters
        ----------
        chains : sequence of ChainRound
            Where each chain goes on from; its draws and counters are empty.

        Raises
        ------
        ArgumentError, ArgumentTypeError, RunFileError
            As `commit`.
        """
        rows, before = dropped(self._index)
        more, after = prepare(Round("warmup", 0, chains), before, self.header.n_chains)
        self._write([*rows, *more], after)

    def _write(self, rows: Sequence[Row], after: Index) -> None:
        """Write rows and the states among them, in the place of the states before."""
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
                update_header(self._connection, body)
        self.header = header


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
