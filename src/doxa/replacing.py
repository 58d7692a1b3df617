"""Files that are replaced whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
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
    with temporary_beside(path) as temporary:
        yield temporary
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        temporary.replace(path)


@contextlib.contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """A new file in the folder of ``path``, with the same ending, gone afterwards unless it was moved away."""
    handle, name = tempfile.mkstemp(prefix=".doxa-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
