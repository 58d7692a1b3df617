"""Write a text to a file, whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Iterable
from pathlib import Path

from doxa.errors import DoxaError, FileError
from doxa.replacing import replacing

__all__ = ["write_text"]


def write_text(pieces: Iterable[str], path: str, what: str) -> None:
    """Write pieces of text as UTF-8, packed if ``path`` ends in ``.gz``; an older file is replaced in one step.

    Raises
    ------
    FileError
        If the file cannot be written.  An older file, if any, is then still there.
    """
    try:
        target = _target(Path(path), f"{what} {path!r}")
        with replacing(target) as temporary:
            _fill(temporary, pieces, packed=path.lower().endswith(".gz"))
    except DoxaError:
        raise
    except UnicodeEncodeError as error:
        raise FileError(f"{what} {path!r}: a name contains {error.object[error.start]!r}, half a character") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise FileError(f"{what} {path!r} cannot be written: {getattr(error, 'strerror', None) or error}") from error


def _target(name: Path, called: str) -> Path:
    """The file that will be replaced: a link stays a link."""
    if name.is_dir():
        raise FileError(f"{called} is a folder; give the name of a file in it")
    if not name.parent.is_dir():
        raise FileError(f"{called}: the folder {str(name.parent)!r} does not exist; create it first")
    target = name.resolve()
    if target.exists() and not target.is_file():
        raise FileError(f"{called} is no regular file; give another name")
    if target.exists() and not os.access(target, os.W_OK):
        raise FileError(f"{called} may not be written to; change its permissions or give another name")
    return target


def _fill(path: Path, pieces: Iterable[str], *, packed: bool) -> None:
    with path.open("wb") as raw, contextlib.ExitStack() as stack:
        # neither name nor time in the header: the same network makes the same bytes
        stream = stack.enter_context(gzip.GzipFile("", "wb", 6, raw, mtime=0)) if packed else raw
        for piece in pieces:
            stream.write(piece.encode())
