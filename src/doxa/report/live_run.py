"""A run that goes on, as its file shows it: how far it is, and the newest page of it.

The file is only read.  Pages are made when somebody looks, one at a time, and so seldom that they cost the run little.
Who makes them is `doxa.report.live_maker`; who asks, and how that is answered, is `doxa.report.live_server`'s.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from doxa.errors import DoxaError
from doxa.estimates.store import RunFileError, open_reader, stored_stop
from doxa.report.live_document import live_page, waiting_page
from doxa.report.live_maker import PageMaker
from doxa.report.live_words import Progress, gone_text, progress_text
from doxa.report.live_writer import writer_of

__all__ = ["SHARE", "LiveRun", "LiveStatus"]

SHARE = 0.04  # of the processor time of the run, that making pages may take
_LEAST_DRAWS = 4  # of a page: with fewer there is no error to give


class LiveStatus(NamedTuple):
    """How far a run is, and which page of it is ready."""

    state: str  # see `Progress`; "trouble" when the file cannot be read
    text: str  # for people
    draws: int  # kept, of each chain
    page: int  # number of the newest page; 0: none yet

    def to_json(self) -> dict[str, Any]:
        """For the page that asks."""
        return self._asdict()


class LiveRun:
    """A run file that may be growing.

    Parameters
    ----------
    path : path
        It need not exist yet.
    table : path, optional
        The table of a run over graphs, if it has moved.
    share : float, default=0.04
        Most of the processor time of the run that may go into pages, the first one apart.
    """

    def __init__(self, path: str | os.PathLike[str], table: Path | None = None, share: float = SHARE) -> None:
        self.path = Path(path)
        self._share = share
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._seen: tuple[Any, Progress | None] = (None, None)  # what the file was like, and what was in it
        self._page = ""
        self._number = 0
        self._made_of: tuple[int, str] = (0, "")  # draws and state when the last page was begun
        self._spent = self._last = 0.0  # seconds of processor time for pages, and for the last one
        self._trouble = ""
        self._maker = PageMaker(self.path, table)
        self._making: threading.Thread | None = None
        self._closed = False

    def status(self) -> LiveStatus:
        """How far the run is; begins a newer page, if there is something new and it is time."""
        with self._lock:
            try:
                progress = self._progress()
            except (DoxaError, OSError) as error:
                return LiveStatus("trouble", f"The run file cannot be read: {error}.", 0, self._number)
            self._begin_page(progress)
            text = progress_text(progress, self.path)
            return LiveStatus(progress.state, f"{text} {self._trouble}".rstrip(), progress.draws, self._number)

    def page(self) -> str:
        """The newest page; before there is one, a page that says so."""
        status = self.status()
        return self._page or waiting_page(status.text, gone_text(self.path))

    def wait(self) -> None:
        """Until the page that is being made is ready."""
        if self._making is not None:
            self._making.join()

    def close(self) -> None:
        """Make no more pages; one that is under way is given up."""
        with self._lock:
            self._closed = True
        self._maker.close()
        self.wait()

    def _progress(self) -> Progress:
        """What the file says, read again only if it has changed."""
        writing = writer_of(self.path)
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return Progress("before", since=writing.since)
        look = (found.st_mtime_ns, found.st_size, found.st_ino)
        known, progress = self._seen
        if progress is None or look != known:
            progress = _read(self.path)
            self._seen = (look, progress)
        if progress.state in ("warm-up", "running") and writing.alive is False:
            return progress._replace(state="stopped")
        return progress._replace(since=writing.since)

    def _begin_page(self, progress: Progress) -> None:
        due = (progress.draws, progress.state)
        if progress.state == "warm-up":
            self._maker.start()
        if progress.draws < _LEAST_DRAWS or due == self._made_of or self._closed:
            return
        if self._making is not None and self._making.is_alive():
            return
        if self._number and progress.state == "running" and not self._can_afford(progress.chains):
            return
        self._made_of = due
        self._making = threading.Thread(target=self._make_page, name="doxa live page", daemon=True)
        self._making.start()

    def _can_afford(self, chains: int) -> bool:
        """Whether one more page, which may cost what the last did, stays within the share."""
        run = (time.monotonic() - self._began) * min(chains, os.cpu_count() or 1)
        return self._spent + self._last <= self._share * run

    def _make_page(self) -> None:
        made = self._maker.make()
        number = self._number + 1  # nobody else changes it
        page = "" if made.trouble else live_page(made.page, number, made.draws, gone_text(self.path))
        with self._lock:
            self._last = made.seconds
            self._spent += made.seconds
            self._trouble = made.trouble and f"The page of these draws cannot be made: {made.trouble}."
            if page:
                self._page, self._number = page, number


def _read(path: Path) -> Progress:
    with open_reader(path, check=False) as reader:
        header = reader.header
        try:
            stop = stored_stop(header.options)
        except ValueError as error:
            raise RunFileError(f"'{path}' is not a run that doxa wrote: {error}") from error
        finished = stop is not None or "saved" in header.options
        planned = header.options.get("draws")
        return Progress(
            "finished" if finished else "running" if reader.n_draws else "warm-up",
            kind=header.kind,
            chains=header.n_chains,
            draws=reader.n_draws,
            planned=planned if isinstance(planned, int) else None,
            warmup=reader.n_warmup_steps // header.thin,
            stop=None if stop is None else stop.text,
        )
