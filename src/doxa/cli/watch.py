"""`doxa watch`, and ``--watch`` of other commands: the report of a run while it goes on, on this machine alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from doxa.text import printable

__all__ = ["watch", "watching"]


def watch(
    run: Annotated[Path, typer.Argument(help="A run file that is being written, or finished.", metavar="RUN")],
    port: Annotated[int, typer.Option(help="Port of the page.", show_default="one that is free")] = 0,
    table: Annotated[
        Path | None,
        typer.Option(help="The table it was learned from, if it has moved.", show_default="as the run says"),
    ] = None,
) -> None:
    """Serve the report of a run while it goes on elsewhere, to this machine alone, until Ctrl-C."""
    from doxa.estimates.store import open_reader

    with open_reader(run, check=False):
        pass  # what is no run is refused here
    with _served(run, port, table):
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            _say("doxa: the page is closed; the run is as it was")


@contextmanager
def watching(asked: bool, port: int | None, run: Path | None) -> Iterator[None]:
    """Serve a run that goes on within the ``with`` statement, if that was asked for."""
    if not asked:
        if port is not None:
            raise typer.BadParameter("it is the port of --watch; give that, too", param_hint="--watch-port")
        yield
        return
    if run is None:
        raise typer.BadParameter(
            "the page is made from the file of the run; give it one: --store RUN (so kept, a run is safe against "
            "crashes, too)",
            param_hint="--watch",
        )
    with _served(run, port or 0, None):
        yield


@contextmanager
def _served(run: Path, port: int, table: Path | None) -> Iterator[None]:
    from doxa.report.document import libraries
    from doxa.report.live_run import LiveRun
    from doxa.report.live_server import serving

    libraries()  # what is missing is said now, not on the page
    with serving(LiveRun(run, table), port) as address:
        _say(f"doxa: watch {printable(str(run))} at {address} (on this machine; to close the page stops nothing)")
        yield


def _say(text: str) -> None:
    """To standard error, in one line, however narrow the terminal: an address must not be cut."""
    from rich.console import Console

    from doxa.progress import clear

    clear()
    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)
