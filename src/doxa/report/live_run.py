"""The live view: a run that goes on, as its file shows it, on a small server on this machine's loopback address.

The file is only read, and so is the sidecar of its lease; the lock itself is not asked: to ask is to hold it for a
moment, in which a writer that begins would be refused.  Pages are made when somebody looks, one at a time, and so
seldom that they cost the run little (`doxa.report.live_maker`).  A page is the report, left as it is, and a bar that
says how far the run is and loads newer pages; the report's policy, which allows nothing from anywhere, gets the hashes
of the bar's own script and style, and leave to ask the address that the page came from.

Only this machine can reach the server (it is bound to 127.0.0.1), and only who knows the address, which has a random
token in its path.  A request that names another host is refused, so no page of the web can reach it by a name of its
own that it points here (DNS rebinding).  It answers GET for two addresses, the page and its status, and has no files to
give.
"""

from __future__ import annotations

import hmac
import html
import json
import logging
import os
import re
import secrets
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from doxa.errors import ArgumentError, DoxaError
from doxa.estimates.store import RunFileError, open_reader, stored_stop
from doxa.report.document import filled, hash_source, own_text
from doxa.report.live_maker import PageMaker
from doxa.text import printable

_COMMANDS = {"structure": "learn", "parameters": "fit"}


class Progress(NamedTuple):
    """What a run file says of how far its run is."""

    state: str  # "before" there is a file, "warm-up", "running", "finished", or "stopped" before its end
    kind: str = "structure"
    chains: int = 0
    draws: int = 0  # kept, of each chain
    planned: int | None = None  # None: as many as it takes
    warmup: int = 0  # draws that were discarded
    stop: str | None = None  # why it finished
    since: float | None = None  # when its writer began, in seconds since 1970


def progress_text(progress: Progress, path: Path, now: float | None = None) -> str:
    """One or two sentences; ``now`` is the time in seconds since 1970."""
    now = time.time() if now is None else now
    sofar = "" if progress.since is None else f", {_time_text(max(0.0, now - progress.since))} so far"
    of_plan = "" if progress.planned is None else f" of {progress.planned}"
    chains = "1 chain" if progress.chains == 1 else f"each of {progress.chains} chains"
    match progress.state:
        case "before":
            return f"The run has no file yet{sofar}: its table is being read. The page comes with the first draws."
        case "warm-up":
            done = f": {progress.warmup} draws of each chain" if progress.warmup else " or before it"
            return f"In the warm-up{done}{sofar}; no draws are kept yet. The page comes with the first that are."
        case "running":
            return f"Running: {progress.draws} draws{of_plan} of {chains}{sofar}, not finished."
        case "finished":
            return f"Finished: {progress.draws} draws of {chains}. {progress.stop or ''}".rstrip()
        case _:
            command = _COMMANDS.get(progress.kind, "learn")
            return (
                f"Stopped before its end: {progress.draws} draws{of_plan} of {chains}. "
                f"Go on with it by: doxa {command} --resume {printable(str(path))}"
            )


def gone_text(path: Path) -> str:
    """What a page says when nobody answers it any more."""
    return (
        "The run has ended, or what served this page is gone. The page stays as it is; one of the whole run is made "
        f"by: doxa report {printable(str(path))} -o report.html"
    )


def _time_text(seconds: float) -> str:
    """Seconds, minutes or hours.

    >>> _time_text(59.4), _time_text(3599.0), _time_text(7300.0)
    ('59 s', '59 min 59 s', '2 h 1 min')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def live_page(report: str, number: int, draws: int, gone: str) -> str:
    """A report with the bar: page ``number`` (a larger one is newer), which shows so many ``draws`` of each chain.

    ``gone`` is what to say when nobody answers any more.
    """
    script, style = own_text("live.js"), own_text("live.css")
    page = _once(report, "default-src 'none'; ", "default-src 'none'; connect-src 'self'; ")
    page = _once(page, "script-src ", f"script-src {hash_source(script)} ")
    page = _once(page, "style-src ", f"style-src {hash_source(style)} ")
    page = _once(page, "</head>", f"<style>{style}</style>\n</head>")
    page = _once(page, "<main ", f"{_bar(number, draws, gone)}\n<main ")
    body, end, rest = page.rpartition("</body>")
    return f"{body}<script>{script}</script>\n{end}{rest}"


def waiting_page(text: str, gone: str) -> str:
    """A page for the time before the first draws: it says so, and gives way to the first report."""
    script, styles = own_text("live.js"), own_text("page.css") + own_text("live.css")
    policy = (
        f"default-src 'none'; connect-src 'self'; script-src {hash_source(script)}; style-src {hash_source(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = {"policy": policy, "title": "A run that has begun, doxa", "styles": f"<style>{styles}</style>"}
    return f"""{filled("head.html", head).rstrip()}
<body>
{_bar(0, 0, gone)}
<main id="main">
<section aria-labelledby="waiting">
<h1 id="waiting">There is nothing to show yet</h1>
<p id="live-waiting">{html.escape(text)}</p>
<p class="note">This page looks every two seconds and shows the report once there are draws. Closing it does not stop
the run.</p>
</section>
</main>
<script>{script}</script>
</body>
</html>
"""


def _bar(number: int, draws: int, gone: str) -> str:
    return f"""<aside id="live" aria-label="Live view of the run" data-page="{number}" data-draws="{draws}"
 data-gone="{html.escape(gone)}">
<p id="live-text">Asking how far the run is.</p>
<p class="live-tools">
<label><input type="checkbox" id="live-follow" checked> show newer draws as they come</label>
<button type="button" id="live-show" hidden>Show the newer draws now</button>
</p>
<p id="live-said" class="hidden" role="status"></p>
</aside>"""


def _once(text: str, old: str, new: str) -> str:
    """The first ``old`` changed to ``new``: all that is looked for comes before anything from the data."""
    if old not in text:
        raise ValueError(f"the report holds no {old!r}")
    return text.replace(old, new, 1)


_HOLDER = re.compile(r"process (\d{1,9}) on (.+)")


class Writer(NamedTuple):
    """Who writes a run file."""

    alive: bool | None  # None: cannot tell from here
    since: float | None  # seconds since 1970


def writer_of(path: Path) -> Writer:
    """The process that writes a run file, by the sidecar of its lease (`doxa.estimates.store.lease`)."""
    real = path.resolve()
    sidecar = real.with_name(real.name + ".lock")
    try:
        with sidecar.open("rb") as file:
            since = os.fstat(file.fileno()).st_mtime
            holder = _HOLDER.fullmatch(file.read(200).decode("utf-8", "replace").strip())
    except FileNotFoundError:
        return Writer(None if sys.platform == "win32" else False, None)
    except OSError:
        return Writer(None, None)
    if holder is None or holder[2] != socket.gethostname() or sys.platform == "win32":
        return Writer(None, since)
    try:
        os.kill(int(holder[1]), 0)
    except ProcessLookupError:
        return Writer(False, None)  # killed: who ends in order takes the sidecar away
    except OSError:
        pass  # it is another user's, and alive
    return Writer(True, since)


SHARE = 0.04  # of the processor time of the run, that making pages may take
_LEAST_DRAWS = 4  # of a page: with fewer there is no error to give


class LiveStatus(NamedTuple):
    """How far a run is, and which page of it is ready; what the page that asks gets, as JSON."""

    state: str  # see `Progress`; "trouble" when the file cannot be read
    text: str  # for people
    draws: int  # kept, of each chain
    page: int  # number of the newest page; 0: none yet


class LiveRun:
    """A run file that may be growing, or not be there yet; its ``table``, if it has moved.

    ``share`` is the most of the processor time of the run that may go into pages, the first one apart.
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


_log = logging.getLogger("doxa")
_ADDRESS = "127.0.0.1"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # what a policy inside the page cannot say
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_TEXT, _HTML, _JSON = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/json; charset=utf-8"


@contextmanager
def serving(run: LiveRun, port: int = 0) -> Iterator[str]:
    """Serve the pages of a run at the address yielded, in threads, until the end of the ``with``; then the run is
    closed.

    The port 0 is one that is free.
    """
    try:
        server = _Server(run, port)
    except (OSError, OverflowError) as error:
        raise ArgumentError(
            f"the live view cannot be served on port {port}: {getattr(error, 'strerror', None) or error}; give another "
            "port, or leave it out for one that is free"
        ) from error
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="doxa live view", daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        run.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, run: LiveRun, port: int) -> None:
        self.run = run
        self.path = f"/{secrets.token_urlsafe(24)}/"
        super().__init__((_ADDRESS, port), _Handler)
        self.hosts = {f"{name}:{self.server_port}" for name in (_ADDRESS, "localhost")}

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own asks the network for this machine's name
        self.server_name, self.server_port = _ADDRESS, self.server_address[1]

    @property
    def address(self) -> str:
        return f"http://{_ADDRESS}:{self.server_port}{self.path}"

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        error = sys.exception()
        if not isinstance(error, OSError):  # which is a browser that has left
            _log.warning("the live view failed to answer: %s", printable(f"{type(error).__name__}: {error}"))


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10.0  # seconds that a request may take to arrive
    server_version, sys_version = "doxa", ""

    def do_GET(self) -> None:
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            self._answer(403, _TEXT, "This address answers to 127.0.0.1 and localhost alone.\n")
        elif self._asks_for(self.server.path):
            self._answer(200, _HTML, self.server.run.page())
        elif self._asks_for(f"{self.server.path}status"):
            self._answer(200, _JSON, json.dumps(self.server.run.status()._asdict()))
        else:
            self._answer(404, _TEXT, "There is nothing here.\n")

    def _asks_for(self, path: str) -> bool:
        return hmac.compare_digest(self.path.encode("utf-8", "replace"), path.encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """What is no GET, or no HTTP; nothing of the request is repeated."""
        self.close_connection = True
        if code == 501:
            self._answer(405, _TEXT, "Only GET is answered.\n", {"Allow": "GET"})
        else:
            self._answer(code, _TEXT, "This is not a request that is answered.\n")

    def _answer(self, code: int, kind: str, text: str, more: dict[str, str] | None = None) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(code)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), **_HEADERS, **(more or {})}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ARG002
        return
