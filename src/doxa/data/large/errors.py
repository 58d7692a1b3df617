"""What went wrong in an engine that is not ours, in words that name the source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from doxa.errors import DoxaError

__all__ = ["SourceError", "changed", "failures"]

_MAX_SAID = 300  # characters of what an engine says


class SourceError(DoxaError, RuntimeError):
    """A source failed or changed while it was counted; asking again goes on from what was kept."""


@contextmanager
def failures(label: str, doing: str) -> Iterator[None]:
    """Turn whatever an engine raises into a `SourceError`; our own exceptions pass."""
    try:
        yield
    except DoxaError:
        raise
    except Exception as error:  # engines raise what they like: duckdb.Error, polars' own, OSError from a cluster
        lines = [line for line in str(error).splitlines() if line.strip()]
        words = " ".join(lines[:2])[:_MAX_SAID]
        raise SourceError(f"{label} failed while {doing}: {type(error).__name__}: {words}") from error


def changed(label: str, what: str) -> SourceError:
    """Say that a source is not what it was when it was opened."""
    return SourceError(f"{label} changed while it was counted: {what}; open it again when nothing writes to it")
