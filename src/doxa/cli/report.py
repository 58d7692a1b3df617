"""`doxa report`: a run as one page of HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import doxa
from doxa.errors import ArgumentError
from doxa.text import printable

__all__ = ["check_page", "report", "tell"]

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


def check_page(path: Path, source: Path) -> None:
    """Raise `ArgumentError` unless a page of this name can be written, before any work is done."""
    if path.is_dir():
        raise ArgumentError(f"the page is '{path}', which is a folder; give the name of a file in it")
    if not path.absolute().parent.is_dir():
        raise ArgumentError(f"the page is '{path}', and there is no folder '{path.absolute().parent}'; make it first")
    if path.exists() and source.exists() and path.samefile(source):
        raise ArgumentError(f"the page is '{path}', which is what it is made of; give it another name")


def tell(path: Path) -> None:
    """Say where a page is."""
    print(f"The report is in {printable(str(path))}; open it in a browser, no network is needed.")
