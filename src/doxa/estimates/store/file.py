"""Opening the SQLite file of a run so that a file from a stranger can do no harm, and saying what goes wrong in words.

Before any table is read: the file is a plain file of a sensible size, has our application id and format, and its schema
is ours to the letter, so no trigger, view, virtual table or generated column can run.  SQLite is told not to trust the
schema, to check the sizes of cells and to keep small limits; extensions are off; pages are not mapped into memory.
Then its own integrity check runs.  What the tables hold is read in `index` and made in `rounds`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from doxa.errors import ArgumentTypeError
from doxa.estimates.store.format import MAX_BYTES, RunFileError
from doxa.estimates.store.lease import Lease, LeaseHeldError

__all__ = ["FORMAT", "create_file", "in_words", "open_read_only", "open_to_write", "real_path"]

APPLICATION_ID = 0x646F7861  # "doxa"
FORMAT = 1
SCHEMA = {
    "header": "CREATE TABLE header (id INTEGER PRIMARY KEY, body TEXT NOT NULL, sha256 TEXT NOT NULL)",
    "rounds": (
        "CREATE TABLE rounds (round INTEGER PRIMARY KEY, phase TEXT NOT NULL, n_steps INTEGER NOT NULL,"
        " n_draws INTEGER NOT NULL, crc32 INTEGER NOT NULL)"
    ),
    "blocks": (
        "CREATE TABLE blocks (id INTEGER PRIMARY KEY, round INTEGER NOT NULL, chain INTEGER NOT NULL,"
        " name TEXT NOT NULL, first INTEGER NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL, codec TEXT NOT NULL,"
        " crc32 INTEGER NOT NULL, data BLOB NOT NULL)"
    ),
    "chains": (
        "CREATE TABLE chains (chain INTEGER PRIMARY KEY, round INTEGER NOT NULL, body TEXT NOT NULL,"
        " crc32 INTEGER NOT NULL)"
    ),
    "states": (
        "CREATE TABLE states (id INTEGER PRIMARY KEY, chain INTEGER NOT NULL, name TEXT NOT NULL,"
        " dtype TEXT NOT NULL, shape TEXT NOT NULL, codec TEXT NOT NULL, crc32 INTEGER NOT NULL, data BLOB NOT NULL)"
    ),
}
_PAGE = 4096
_PATIENCE = 30.0  # seconds to wait for readers, or for a writer's transaction
_JOURNAL_END = bytes.fromhex("d9d505f920a163d7")  # ends a rollback journal that names another file
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_BYTES + 2**16,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4096,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 4,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def real_path(path: str | os.PathLike[str]) -> Path:
    """The file a path stands for, absolute and without symbolic links, whether or not it exists."""
    try:
        named = Path(path)
    except TypeError:
        raise ArgumentTypeError(f"path is {path!r:.80}; it must be the name of a file") from None
    try:
        return named.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle
        raise RunFileError(f"'{named}' is not the name of a file: {error}") from error


@contextlib.contextmanager
def in_words(path: Path, consequence: str = "") -> Iterator[None]:
    """Turn SQLite's errors into `RunFileError`; ``consequence`` is added to those of writing."""
    try:
        yield
    except sqlite3.Error as error:
        raise RunFileError(_words(path, error, consequence)) from error
    except UnicodeDecodeError as error:  # SQLite's own message repeats what it could not read
        raise RunFileError(_damaged(path, "it holds text that is not UTF-8")) from error


def create_file(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make a run file whole or not at all; ``fill(connection)`` writes the first rows.  The lease must be held."""
    if os.path.lexists(path):
        raise RunFileError(
            f"'{path}' exists already; continue that run (resume), choose another name, or delete the file first"
        )
    scratch = path.with_name(f".{path.name}.new")  # ours alone, because the lease is ours
    journal = scratch.with_name(scratch.name + "-journal")
    try:
        for old in (scratch, journal):
            old.unlink(missing_ok=True)
        os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        with in_words(path), contextlib.closing(_connect(scratch, "rw")) as connection:
            _harden(connection)
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            connection.execute("PRAGMA auto_vacuum = NONE")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            for statement in SCHEMA.values():
                connection.execute(statement)
            fill(connection)
            connection.execute("COMMIT")
        move_new(scratch, path, f"'{path}' exists already; continue that run (resume) or choose another name")
    except OSError as error:
        if isinstance(error, RunFileError):
            raise
        raise RunFileError(f"'{path}' cannot be made: {error.strerror or error}") from error
    finally:
        for old in (scratch, journal):
            with contextlib.suppress(OSError):
                old.unlink(missing_ok=True)


def open_read_only(path: Path, max_bytes: int, *, check: bool) -> sqlite3.Connection:
    """Open a run for reading, also while it is written, and check that it is one."""
    _check_file(path, max_bytes)
    for _ in range(40):
        try:
            return _open(path, "ro", check=check)
        except sqlite3.Error as error:
            if not _needs_rollback(error):
                raise RunFileError(_words(path, error)) from error
        except UnicodeDecodeError as error:
            raise RunFileError(_damaged(path, "it holds text that is not UTF-8")) from error
        # A killed writer left a transaction half done.  SQLite undoes it when someone opens the file to write.
        try:
            lease = Lease(path)
        except LeaseHeldError:  # a writer, or another reader, is about to do it
            time.sleep(0.05)
            continue
        except RunFileError as error:
            raise RunFileError(
                f"'{path}' was left in the middle of a write by a run that was killed, and cannot be repaired where it "
                f"is ({error}); copy it together with '{path.name}-journal' to a folder you can write to"
            ) from error
        try:
            with in_words(path):
                _open(path, "rw", check=False).close()
        finally:
            lease.release()
    raise RunFileError(f"'{path}' is busy: a writer keeps starting over; try again")


def open_to_write(path: Path, max_bytes: int) -> sqlite3.Connection:
    """Open a run to continue it, and check that it is one.  The lease must be held."""
    _check_file(path, max_bytes)
    if not os.access(path, os.W_OK):
        raise RunFileError(f"'{path}' is read-only; make it writable to continue the run, or copy it")
    with in_words(path):
        connection = _open(path, "rw", check=True)
        connection.execute("PRAGMA cache_spill = OFF")  # readers are kept out for the commit only
        return connection


def _open(path: Path, mode: str, *, check: bool) -> sqlite3.Connection:
    _check_journal(path)
    connection = _connect(path, mode)
    try:
        _harden(connection)
        if mode == "ro":
            connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        _check_identity(connection, path)
        if check:
            _check_integrity(connection, path)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _harden(connection: sqlite3.Connection) -> None:
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    if hasattr(connection, "enable_load_extension"):
        connection.enable_load_extension(False)
    if hasattr(connection, "setconfig"):  # Python 3.12
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)  # type: ignore[attr-defined, unused-ignore]
    for pragma in (
        "trusted_schema = OFF",
        "cell_size_check = ON",
        "mmap_size = 0",
        "synchronous = FULL",
        "temp_store = MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


class _Connection(sqlite3.Connection):
    """A connection that is counted while it is open; see `_connect`."""

    identity: tuple[int, int] | None = None

    def close(self) -> None:
        super().close()
        identity, self.identity = self.identity, None
        if identity is not None:
            with _counting:
                _connected[identity] -= 1


_counting = threading.Lock()
_connected: Counter[tuple[int, int]] = Counter()  # connections to each file (device, inode) in this process


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    # The first bytes are read before SQLite sees the file, because merely by opening a database in write-ahead mode
    # it adds files.  Closing a file drops all locks that this process holds on it (POSIX), so they are not read while
    # another connection stands; that one's file has been looked at.
    with _counting:
        try:
            status = path.stat()
        except OSError as error:
            raise RunFileError(f"'{path}' cannot be opened: {error.strerror}") from error
        identity = (status.st_dev, status.st_ino)
        if not _connected[identity]:
            _check_beginning(path)
        uri = f"{path.as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_PATIENCE, factory=_Connection)
        _connected[identity] += 1
        connection.identity = identity
    return connection


def _check_beginning(path: Path) -> None:
    try:
        with path.open("rb", buffering=0) as file:
            begin = file.read(100) or b""
    except OSError as error:
        raise RunFileError(f"'{path}' cannot be opened: {error.strerror}") from error
    if begin and not begin.startswith(b"SQLite format 3\0"):
        raise RunFileError(_not_a_run(path, "it is not an SQLite database"))
    if begin and begin[18:20] != b"\1\1":
        raise RunFileError(_not_a_run(path, "it is an SQLite database with a write-ahead log"))


def _check_file(path: Path, max_bytes: int) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        raise RunFileError(f"there is no run file '{path}'") from None
    except OSError as error:
        raise RunFileError(f"'{path}' cannot be opened: {error.strerror}") from error
    if stat.S_ISDIR(status.st_mode):
        raise RunFileError(f"'{path}' is a folder; give the name of a run file in it")
    if not stat.S_ISREG(status.st_mode):
        raise RunFileError(f"'{path}' is a device or a pipe, not a file")
    if not os.access(path, os.R_OK):
        raise RunFileError(f"'{path}' cannot be opened: permission denied")
    if status.st_size == 0:
        raise RunFileError(f"'{path}' is empty, so there is no run in it; delete it and start the run again")
    if status.st_size > max_bytes:
        raise RunFileError(
            f"'{path}' has {status.st_size} bytes and at most {max_bytes} are opened; raise max_bytes if you trust it"
        )


def _check_journal(path: Path) -> None:
    """Refuse a journal that SQLite could be led astray by: playing it back may delete the file that it names."""
    journal = path.with_name(path.name + "-journal")
    try:
        if not stat.S_ISREG(os.lstat(journal).st_mode):  # asked once: it may be gone the next moment
            raise RunFileError(f"'{journal}' is not a plain file; a run writes no such journal")
        with journal.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8))
            tail = file.read(8)
    except FileNotFoundError:
        return  # a live writer has just committed
    except OSError as error:
        if isinstance(error, RunFileError):
            raise
        raise RunFileError(f"'{journal}' cannot be opened: {error.strerror}") from error
    if tail == _JOURNAL_END:
        raise RunFileError(f"'{journal}' refers to another file; a run writes no such journal, so it is not opened")


def _check_identity(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise RunFileError(_not_a_run(path, "it is an SQLite database of another program"))
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        way_out = "update doxa to read it" if version > FORMAT else "it was never released"
        raise RunFileError(f"'{path}' is a run in format {version}; this doxa reads format {FORMAT}: {way_out}")
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT 50").fetchall()
    if sorted(map(repr, rows)) != sorted(repr(("table", name, name, sql)) for name, sql in SCHEMA.items()):
        raise RunFileError(_not_a_run(path, "its tables are not those of a run, or there is something beside them"))


def _check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if found != [("ok",)]:
        raise RunFileError(_damaged(path, f"integrity check: {found[0][0]!r:.120}"))


def move_new(scratch: Path, path: Path, taken: str) -> None:
    """Give the finished file its name, never over another file, and make the name durable; else say ``taken``."""
    try:
        os.link(scratch, path)
    except FileExistsError:
        raise RunFileError(taken) from None
    except OSError:  # no hard links here
        scratch.rename(path)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):
                os.fsync(folder)
        finally:
            os.close(folder)


def _needs_rollback(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY


def _not_a_run(path: Path, reason: str) -> str:
    return f"'{path}' is not a run of doxa: {reason}"


def _damaged(path: Path, detail: object) -> str:
    return f"'{path}' is damaged ({detail}); use a copy, or run it again"


def _words(path: Path, error: sqlite3.Error, consequence: str = "") -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return _not_a_run(path, "it is not an SQLite database")
    if code == sqlite3.SQLITE_FULL:
        return f"'{path}' cannot be written: the disk is full ({error}){consequence}"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"'{path}' has been locked by another program for {_PATIENCE:g} seconds{consequence}"
    if code == sqlite3.SQLITE_IOERR:
        return (
            f"'{path}' cannot be read or written ({error}): a quota, a lost connection or a failing disk{consequence}"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        way_out = "check that the file and its folder may be read and written"
        return f"'{path}' cannot be opened ({error}); {way_out}{consequence}"
    return _damaged(path, error)
