"""Names from a stranger's file, made fit for a terminal."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    r"""Show control characters as escapes: a name must not break a line or steer the terminal.

    Examples
    --------
    >>> print(printable("age\n\x1b[31m"))
    age\n\x1b[31m
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
