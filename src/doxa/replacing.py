"""Files that are replaced whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

__all__ = ["replacing", "temporary_beside"]


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file to write to, which takes the place and the permissions of ``path`` when the block ends without error.

    A link stays a link: give what it points to.  The older file, if any, stays as it is when something goes wrong.

    Raises
    ------
    OSError
        If no file can be made there, or it cannot take its place.
    """
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    with temporary_beside(path, 0o666 if mode is None else mode | 0o600) as temporary:
        yield temporary
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)


@contextlib.contextmanager
def temporary_beside(path: Path, mode: int = 0o600) -> Iterator[Path]:
    """A new file in the folder of ``path``, with the same ending, gone afterwards unless it was moved away.

    ``mode`` is what it is opened with: the system takes the process's umask off it, which threads share and so must not
    be touched to be asked.
    """
    temporary = path.with_name(f".doxa-{secrets.token_hex(8)}{path.suffix}")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
