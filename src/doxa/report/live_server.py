"""The live view: a small server on this machine's loopback address, for the pages of one run.

Only this machine can reach it (it is bound to 127.0.0.1), and only who knows the address, which has a random token in
its path.  A request that names another host is refused, so no page of the web can reach it by a name of its own that it
points here (DNS rebinding).  It answers GET for two addresses, the page and its status, and has no files to give.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from doxa.errors import ArgumentError
from doxa.report.live_run import LiveRun
from doxa.text import printable

__all__ = ["serving"]

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
            self._answer(200, _JSON, json.dumps(self.server.run.status().to_json()))
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
