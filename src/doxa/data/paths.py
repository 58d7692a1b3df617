"""Paths of tables: whether a file opens, and what it is by the end of its name."""

from __future__ import annotations

import difflib
import stat
from pathlib import Path

from doxa.errors import ArgumentError, FileError

__all__ = ["check_opens", "is_parquet"]

_TEXTS = (".csv", ".tsv", ".tab", ".txt")
_PARQUETS = (".parquet", ".pq")


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet by the end of its name; if not, it is a delimited text, or refused."""
    suffix = Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix
    if path.suffix.lower() in _PARQUETS:
        return True
    if suffix.lower() in _TEXTS:
        return False
    raise ArgumentError(
        f"source {str(path)!r}: the end of the name must say what the file is: "
        f"{', '.join(_TEXTS)} (also with .gz), {' or '.join(_PARQUETS)}"
    )


def check_opens(path: Path) -> None:
    """Open the file once for reading, so that what is wrong is said in plain words."""
    if "\0" in str(path):
        raise FileError(f"source {str(path)!r} cannot be opened: no name of a file contains a NUL character")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise FileError(f"source {str(path)!r} cannot be opened: its name is not UTF-8; rename it") from None
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # opening a pipe would wait for its writer
            with path.open("rb"):
                return
    except FileNotFoundError:
        raise FileError(f"source: no file {path.name!r} in {str(path.parent.absolute())!r}{_alike(path)}") from None
    except IsADirectoryError:
        raise FileError(f"source {str(path)!r} is a folder; name a file in it") from None
    except OSError as error:
        raise FileError(f"source {str(path)!r} cannot be opened: {error.strerror}") from error
    kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise FileError(f"source {str(path)!r} is {kind}, not a regular file; save its content in a file and name that")


def _alike(path: Path) -> str:
    """Suggest files in the same folder whose names resemble the one that is not there."""
    if not path.parent.is_dir():
        return "; there is no such folder"
    matches = difflib.get_close_matches(path.name, sorted(entry.name for entry in path.parent.iterdir()), n=3)
    return f"; did you mean {' or '.join(repr(match) for match in matches)}?" if matches else ""
