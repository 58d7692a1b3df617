"""`doxa report`, a run as one page of HTML, and `doxa watch`, that page while the run goes on here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import doxa
from doxa.cli.words import refuse
from doxa.errors import ArgumentError
from doxa.text import printable

__all__ = ["check_page", "report", "tell", "watch", "watching"]


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
    try:
        with _served(run, port, table):
            while True:
                time.sleep(0.2)  # a Ctrl-C that comes just before a sleep is seen only after it
    except KeyboardInterrupt:
        _say("doxa: the page is closed; the run is as it was")


@contextmanager
def watching(asked: bool, port: int | None, run: Path | None) -> Iterator[None]:
    """Serve a run that goes on within the ``with`` statement, if that was asked for."""
    if not asked:
        if port is not None:
            refuse("--watch-port", "it is the port of --watch; give that, too")
        yield
        return
    if run is None:
        refuse(
            "--watch",
            "the page is made from the file of the run; give it one: --store RUN (so kept, a run is safe against "
            "crashes, too)",
        )
    with _served(run, port or 0, None):
        yield


@contextmanager
def _served(run: Path, port: int, table: Path | None) -> Iterator[None]:
    from doxa.report.document import libraries
    from doxa.report.live_run import LiveRun, serving

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


_NETWORKS = (".bif", ".xml", ".xmlbif", ".uai")


def report(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run file of `doxa learn --store` or `doxa fit --store`, finished or not.", metavar="RUN"
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.", metavar="FILE.html")],
    table: Annotated[
        Path | None,
        typer.Option(
            help="The table it was made from, if it has moved; of a fit, to show the approximation, too.",
            show_default="of graphs: as the run says",
        ),
    ] = None,
) -> None:
    """Write a run as one self-contained page: verdict, network or parameters, evidence, tables.

    A page of an inference is made by `doxa infer NETWORK --report FILE.html`.
    """
    from doxa.estimates.store import RunFileError

    check_page(output, run)
    if Path(run.name.lower().removesuffix(".gz")).suffix in _NETWORKS:
        raise ArgumentError(
            f"'{run}' is the file of a network, and pages are made of runs; ask it something: "
            f"doxa infer {run} --report {output}"
        )
    try:
        posterior: Any = doxa.load(run, table=table)  # what it cannot show, a report refuses
    except RunFileError as error:
        if "is not a run of doxa" not in str(error):
            raise
        raise RunFileError(
            f"{error}; reports are made of files of `doxa learn --store` or `doxa fit --store`"
        ) from None
    doxa.report(posterior, output, facts={"Run file": run.name})
    tell(output)


def check_page(path: Path | None, *needed: Path | None) -> None:
    """Raise `ArgumentError` unless a page of this name, if one is given, can be written, before any work is done."""
    from doxa.output import is_same_file

    if path is None:
        return
    if path.is_dir():
        raise ArgumentError(f"the page is '{path}', which is a folder; give the name of a file in it")
    if not path.absolute().parent.is_dir():
        raise ArgumentError(f"the page is '{path}', and there is no folder '{path.absolute().parent}'; make it first")
    if any(is_same_file(path, other) for other in needed if other is not None):
        raise ArgumentError(f"the page is '{path}', which is what it is made of; give it another name")


def tell(path: Path) -> None:
    """Say where a page is."""
    print(f"The report is in {printable(str(path))}; open it in a browser, no network is needed.")
