"""The exceptions doxa raises: every one is a `DoxaError`.

Those about an argument are also `ValueError` (or `TypeError`), so code that knows
nothing of doxa can still catch them.  Messages name the argument, the value seen,
the rule, and the way out.
"""

from __future__ import annotations

from doxa.text import in_message

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "DoxaError",
    "FileError",
    "MissingExtraError",
    "TableError",
    "WorkersLostError",
]


class DoxaError(Exception):
    """Base of every exception that doxa raises on purpose.

    What its message repeats of names, values and paths is cut where it is long, and control characters in it are shown
    as escapes (`doxa.text.in_message`), wherever it is raised.
    """

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*(in_message(one) if isinstance(one, str) else one for one in arguments), **more)


class ArgumentError(DoxaError, ValueError):
    """An argument has a value that breaks a stated rule."""


class ArgumentTypeError(DoxaError, TypeError):
    """An argument is of a type that the function cannot use."""


class TableError(ArgumentError):
    """A table cannot be read or used as asked: a bad header, a ragged row, a numeric column without bins."""


class FileError(ArgumentError, OSError):
    """A file named by an argument cannot be opened, read or written."""


class WorkersLostError(DoxaError, RuntimeError):
    """Worker processes die again and again, or the cluster on which a run was under way is gone."""


class MissingExtraError(DoxaError, ImportError):
    """A package that an extra of doxa installs is not there."""
