"""Write a frame to a file, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from doxa.errors import ArgumentError, FileError
from doxa.replacing import replacing, temporary_beside

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_folder", "check_output", "is_same_file", "write_frame"]

_KINDS = (".csv", ".json", ".parquet")


def check_folder(path: Path, what: str) -> None:
    """Raise `FileError` if ``path`` is a folder, or one that does not exist is to hold it; ``what`` names the file."""
    if path.is_dir():
        raise FileError(f"{what} is '{path}', which is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise FileError(f"{what} is '{path}', but the folder '{path.parent}' does not exist; create it first")


def is_same_file(path: Path, other: Path) -> bool:
    """Whether two names are of one file that exists."""
    return path.exists() and other.exists() and path.samefile(other)


def check_output(path: Path | None, *needed: Path | None) -> None:
    """Raise unless a file of this name, if one is given, can be written.

    Parameters
    ----------
    path : Path, optional
    *needed : Path, optional
        Files that are still needed: ``path`` must be none of them.

    Raises
    ------
    ArgumentError
        If the ending is none of .csv, .json and .parquet.
    FileError
        If the folder does not exist or cannot be written to, or the name is that of a folder.
    """
    if path is None:
        return
    if path.suffix.lower() not in _KINDS:
        raise ArgumentError(f"output is '{path}'; its ending must be one of {', '.join(_KINDS)}")
    check_folder(path, "output")
    if any(is_same_file(path, other) for other in needed if other is not None):
        raise ArgumentError(f"output is '{path}', which is the table itself; give it another name")
    if path.exists() and not os.access(path, os.W_OK):
        raise FileError(f"output is '{path}', which may not be written to; change its permissions or give another name")
    try:
        with temporary_beside(path.resolve()):
            pass
    except OSError as error:
        raise FileError(f"output is '{path}', which cannot be written: {error.strerror}") from error


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write ``frame`` in the format that the ending of ``path`` names; an older file is replaced in one step.

    Raises
    ------
    ArgumentError, FileError
        As `check_output`, or when the disk is full.  The older file, if any, is then still there.
    """
    import duckdb

    check_output(path)
    kind = path.suffix.lower()
    target = path.resolve()  # a link stays a link
    try:
        with replacing(target) as temporary:
            if kind == ".csv":
                frame.to_csv(temporary, index=False)
            elif kind == ".json":
                frame.to_json(temporary, orient="records", indent=1)
            else:
                _write_parquet(frame, temporary)
    except (OSError, duckdb.IOException) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"output is '{path}', which cannot be written: {reason}") from error


def _write_parquet(frame: pd.DataFrame, path: Path) -> None:
    import duckdb

    with duckdb.connect(":memory:") as connection:
        connection.register("frame", frame)
        target = str(path).replace("'", "''")
        connection.execute(f"COPY frame TO '{target}' (FORMAT parquet)")
