"""`Limits` of what a network file may ask for, and `NetworkFileError`, how one is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from doxa.checks import check_whole
from doxa.errors import FileError

__all__ = ["Limits", "NetworkFileError"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that a file may hold: a few kilobytes can declare tables that fill any memory.

    Parameters
    ----------
    max_bytes : int, default=2**24
        Size of the file, unpacked.  The largest of the usual reference networks has a third of it.
    max_variables : int, default=10_000
        Number of variables; the adjacency matrix of that many takes 100 MB.
    max_states : int, default=2**18
        Number of states of all variables together.
    max_numbers : int, default=2**24
        Number of entries of all tables together, of 8 bytes each, whether the file writes them out or not.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If one of them is not a whole number of at least 1.

    Examples
    --------
    >>> Limits(max_numbers=2**28).max_variables
    10000
    """

    max_bytes: int = 2**24
    max_variables: int = 10_000
    max_states: int = 2**18
    max_numbers: int = 2**24

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, check_whole(field.name, getattr(self, field.name), 1))


class NetworkFileError(FileError):
    """A network file, or a file of evidence, cannot be read.

    Attributes
    ----------
    path : str
        The file.
    cause : str
        What is wrong, in words, and the way out.
    line, column : int or None
        Where, both from 1; None where the whole file is meant.
    """

    def __init__(self, what: str, path: str, cause: str, line: int | None = None, column: int | None = None) -> None:
        where = "" if line is None else f", line {line}, column {column}"
        super().__init__(f"{what} {path!r}{where}: {cause}")
        self.path, self.cause, self.line, self.column = path, cause, line, column
        self._given = (what, path, cause, line, column)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given
