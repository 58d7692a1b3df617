"""A process beside the run that makes its pages.

To make a page takes seconds, and the first time compiled loops may have to be compiled.  In a process of its own, of
lower priority, that does not hold up the run, and it can be ended at once when the run is over.  This module is both
ends of it: `PageMaker` for who wants pages, and the program that ``python -m doxa.report.live_maker RUN TABLE`` runs
(``TABLE`` empty for the one that the run names): a line on its input asks for a page; on its output comes a line of
JSON, and then the page.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from doxa.errors import DoxaError

if TYPE_CHECKING:
    from doxa.data import Table

__all__ = ["Made", "PageMaker"]

_NICE = 5  # how much lower its priority is: a third of what a thread of the run gets on a busy core


class Made(NamedTuple):
    """A page, or why there is none."""

    page: str
    draws: int  # of each chain, that it shows
    seconds: float  # of processor time that it took
    trouble: str  # empty if it was made


class PageMaker:
    """Makes pages of a run file, one at a time, in a process that begins with the first, or with `start`."""

    def __init__(self, run: Path, table: Path | None = None) -> None:
        self._words = [str(run.absolute()), "" if table is None else str(table.absolute())]
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._lock = threading.Lock()  # so that none begins while it is closed

    def start(self) -> None:
        """Begin the process now, so that the first page comes sooner."""
        with suppress(OSError, ValueError):  # `make` says what is wrong
            self._running()

    def make(self) -> Made:
        """The report of the draws so far; waits for it."""
        try:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            head = process.stdout.readline()
            found = json.loads(head)
            page = process.stdout.read(found.pop("size")).decode("utf-8")
            return Made(page, **found)
        except (OSError, ValueError) as error:  # it was ended, or broke down
            self.end()
            return Made("", 0, 0.0, f"the process that makes pages has ended ({error})")

    def end(self) -> None:
        """End the process, whatever it is doing."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):  # what was not sent needs no sending
                        stream.close()

    def close(self) -> None:
        """End the process, and begin no other."""
        with self._lock:
            self._closed = True
        self.end()

    def _running(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise ValueError("nobody looks any more")
            if self._process is None:
                self._process = subprocess.Popen(  # noqa: S603 (this Python and this module)
                    [
                        sys.executable,
                        "-P",
                        "-m",
                        "doxa.report.live_maker",
                        *self._words,
                    ],  # -P: no module of this folder
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the run
                )
            return self._process


def _main(run: Path, table: Path | None) -> None:
    """Make a page whenever a line is read; its end is the end of the input."""
    if hasattr(os, "nice"):
        os.nice(_NICE)

    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what others print is no page
        begin, source = 0.0, _Source(run, table)
        for _ in sys.stdin:
            page, draws, trouble = "", 0, ""
            try:
                page, draws = source.report()
            except Exception as error:  # whatever it is, who asked shows it
                trouble = str(error) or type(error).__name__
            text = page.encode("utf-8", "replace")
            seconds = time.process_time() - begin
            head = {"draws": draws, "seconds": seconds, "trouble": trouble, "size": len(text)}
            begin += seconds
            out.write(json.dumps(head).encode() + b"\n" + text)
            out.flush()


class _Source:
    """A run file, and its table, which is read once."""

    def __init__(self, run: Path, table: Path | None) -> None:
        self.run = run
        self.table: Path | Table | None = table

    def report(self) -> tuple[str, int]:
        """The report of the draws so far, and how many of each chain they are."""
        from doxa.report.writing import page_text

        posterior = self._posterior()
        return page_text(posterior), posterior.trace.n_draws

    def _posterior(self) -> Any:
        from doxa.data import Table
        from doxa.run_files import load
        from doxa.structure.averaging.posterior import Posterior, with_table
        from doxa.structure.runs.files import load as load_graphs

        if isinstance(self.table, Table):
            return with_table(load_graphs(self.run), self.table)
        posterior = load(self.run, self.table)
        if isinstance(posterior, Posterior):
            with suppress(DoxaError, OSError):  # the page says what is wrong with it
                self.table = posterior.table
        return posterior


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        _main(Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2] else None)
