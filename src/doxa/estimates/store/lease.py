"""A writer's lease: at most one process writes a run file, and it need not tidy up when it dies.

The lease is an exclusive lock, taken with ``flock`` (on Windows ``msvcrt.locking``), on a sidecar file ``<name>.lock``
that also names the process.  The system drops the lock when the process ends, however it ends, so a sidecar left behind
by a killed run is harmless.  Reading needs no lease.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from io import FileIO
from pathlib import Path

from doxa.estimates.store.format import RunFileError
from doxa.text import printable

__all__ = ["Lease", "LeaseHeldError"]

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # far beyond the text, which others are to read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class LeaseHeldError(RunFileError):
    """Another writer holds the lease."""


class Lease:
    """The right to write ``path``, links resolved, from construction to `release` or the end of the process.

    Raises `LeaseHeldError` if another writer holds it, and `RunFileError` if the sidecar cannot be made or locked.
    """

    def __init__(self, path: Path) -> None:
        self.sidecar = path.with_name(path.name + ".lock")
        self._owner = os.getpid()
        self._file: FileIO | None = _acquire(path, self.sidecar)

    def release(self) -> None:
        """Give the lease back and remove the sidecar; in a forked child, and the second time, nothing happens."""
        file, self._file = self._file, None
        if file is None or self._owner != os.getpid():
            return
        # Removed while still locked: whoever opened the old sidecar meanwhile sees, in _acquire, that it is gone.
        if sys.platform != "win32":
            with contextlib.suppress(OSError):
                self.sidecar.unlink()
        file.close()


def _acquire(path: Path, sidecar: Path) -> FileIO:
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    while True:
        try:
            file = os.fdopen(os.open(sidecar, flags, 0o666), "r+b", buffering=0)
        except OSError as error:
            raise RunFileError(
                f"'{path}' cannot be written: its lock '{sidecar.name}' cannot be opened ({error.strerror}); "
                "the folder must be writable, also to continue a run"
            ) from error
        try:
            _lock(file.fileno())
        except (BlockingIOError, PermissionError) as error:
            with file:
                raise LeaseHeldError(
                    f"'{path}' is being written by {_holder(file)}; wait until it ends or stop it. "
                    "Reading the run meanwhile is possible"
                ) from error
        except OSError as error:
            with file:
                raise RunFileError(
                    f"'{path}' cannot be written: the file system refuses to lock '{sidecar.name}' "
                    f"({error.strerror}); keep runs on a local disk"
                ) from error
        if _is_still(sidecar, file):
            with contextlib.suppress(OSError):  # a full disk: the lock holds without its text
                file.seek(0)
                file.truncate()
                file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            return file
        file.close()


def _is_still(sidecar: Path, file: FileIO) -> bool:
    """Whether the file that was locked is the one under that name."""
    try:
        return os.path.samestat(sidecar.lstat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _holder(file: FileIO) -> str:
    return printable((file.read(200) or b"").decode("utf-8", "replace").strip()) or "another process"
