"""What goes on, said while it goes on, on standard error: one line on a terminal or in a notebook, few lines elsewhere.

A script whose standard error is a file, a pipe or an editor's window cannot write over a line.  It hears nothing of
what is quick, then a line now and then, the longer it takes the seldomer.

A question opens a line (`following`), and whatever it calls says on that same line what it does: reading, compiling,
warm-up, sampling.  The line is gone when the answer is there.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from doxa.text import duration, printable

__all__ = ["Status", "clear", "compiling", "following", "tell"]

logger = logging.getLogger("doxa")

_OFTEN = 0.1  # seconds between two looks of a line that changes by the block
_SELDOM = 10.0  # where lines cannot be written over, as in a log; then a tenth of the time since the beginning
_QUICK = 5.0  # what takes no longer is not told there, unless it was asked for
_ONCE = ", once for this version of doxa (some 5 to 20 seconds)"


class Status:
    """One line about what goes on; made by `following`.

    Parameters
    ----------
    stream : text stream, optional
        Where to write; silent when left out.
    rewrites : bool, default=True
        Whether a line can be written over; else each is written below the last, and there are fewer.
    quiet : float, default=0
        Seconds before the first line.

    Attributes
    ----------
    n_compiled : int
        Functions that were compiled since the line was opened; those in the cache are not.
    """

    def __init__(self, stream: TextIO | None = None, rewrites: bool = True, quiet: float = 0.0) -> None:
        self.stream, self.rewrites, self.quiet = stream, rewrites, quiet
        self._text = self._phase = ""
        self._begin = time.monotonic()
        self._shown_at = self._since = -float("inf")
        self._from = self._width = self.n_compiled = self._depth = 0
        self._told_of_compiling = False

    def tell(self, text: str) -> None:
        """Say what begins now."""
        self._phase, self._text = "", text
        if not self.quiet or self._is_time():
            self._show(text)

    def draws(self, phase: str, done: int, of: float | None = None, held_back: str = "") -> None:
        """Say how far a phase has come: draws of each chain, of how many (if that is known), and what is missing."""
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._from, self._since = phase, done, now
            self._shown_at = self._shown_at if self.quiet else -float("inf")
        if not self._is_time():
            return
        text = f"{phase}: {done} draws of each chain"
        if of is not None and of > done > self._from:
            text += f", {duration((now - self._since) * (of - done) / (done - self._from))} left"
        self._text = f"{text}; {held_back}" if held_back else text
        self._show(self._text)

    def compiling(self, begins: bool) -> None:
        """Say that one more function is being compiled, or is done; once, where lines cannot be written over."""
        self._depth += 1 if begins else -1
        if not begins:
            if not self._depth and self.rewrites:
                self._show(self._text)
            return
        self.n_compiled += 1
        if self.stream is None and self.n_compiled == 1:
            logger.info(f"compiling{_ONCE}")
        if self.rewrites:
            self._show(f"compiling function {self.n_compiled}{_ONCE}")
        elif not self._told_of_compiling:
            self._told_of_compiling = self._show(f"compiling{_ONCE}")

    def clear(self) -> None:
        """Leave a clean line to others."""
        if self.stream is not None and self.rewrites and self._width:
            self.stream.write(f"\r{' ' * self._width}\r")
            self.stream.flush()
            self._width = 0

    def _is_time(self) -> bool:
        """Whether the last line has stood long enough."""
        now = time.monotonic()
        return now - self._shown_at >= (_OFTEN if self.rewrites else max(_SELDOM, (now - self._begin) / 10))

    def _show(self, text: str) -> bool:
        """Show a line, and say whether it was shown."""
        now = time.monotonic()
        if self.stream is None or now - self._begin < self.quiet:
            return False
        self._shown_at = now
        line = f"doxa: {printable(text)}"
        if self.rewrites:
            line = line[: shutil.get_terminal_size().columns - 1]
            self.stream.write(f"\r{line:<{self._width}}")
            self._width = len(line)
        else:
            self.stream.write(f"{line}\n")
        self.stream.flush()
        return True


_active: ContextVar[Status | None] = ContextVar("status", default=None)


@contextmanager
def following(show: bool | None = None) -> Iterator[Status]:
    """A line that lives as long as the block; inside another such block, that one's line.

    Parameters
    ----------
    show : bool, optional
        Whether to write; when left out, at once on a terminal or in a notebook, elsewhere where it takes long.

    Examples
    --------
    >>> with following(False) as status:
    ...     status.tell("reading table.csv")  # silent
    """
    outer = _active.get()
    if outer is not None and (show is not False or outer.stream is None):
        yield outer
        return
    stream: TextIO | None = sys.stderr  # None where a program has no console
    rewrites = stream is not None and _rewrites(stream)
    status = Status(None if show is False else stream, rewrites, 0.0 if show or rewrites else _QUICK)
    token = _active.set(status)
    logger.addFilter(_cleared)
    try:
        yield status
    finally:
        logger.removeFilter(_cleared)
        _active.reset(token)
        status.clear()


def tell(text: str) -> None:
    """Say on the line that is open, if one is, what begins now."""
    status = _active.get()
    if status is not None:
        status.tell(text)


def clear() -> None:
    """Leave a clean line, if one is open, to what is printed now."""
    status = _active.get()
    if status is not None:
        status.clear()


def compiling(begins: bool) -> None:
    """A function is being compiled, or is done: `doxa._compilers` says so."""
    status = _active.get()
    if status is not None:
        status.compiling(begins)


def _cleared(_record: logging.LogRecord) -> bool:
    """Clear the line before a notice is printed."""
    clear()
    return True


def _rewrites(stream: TextIO) -> bool:
    """Whether a carriage return goes back to the begin of the line: a terminal, or a notebook's own stream."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel")
