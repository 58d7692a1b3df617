"""`doxa report`: a run as one page of HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import doxa
from doxa.text import printable

__all__ = ["report"]


def report(
    run: Annotated[Path, typer.Argument(help="A run file of `doxa learn --store`, finished or not.", metavar="RUN")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.", metavar="FILE.html")],
    table: Annotated[
        Path | None,
        typer.Option(help="The table it was learned from, if it has moved.", show_default="as the run says"),
    ] = None,
) -> None:
    """Write a run over graphs as one self-contained page: verdict, network, evidence, nodes, tables."""
    posterior = doxa.load(run, table=table)
    if not isinstance(posterior, doxa.Posterior):
        raise doxa.DoxaError(f"'{run}' holds a fit of parameters; pages are made of runs over graphs so far")
    made = doxa.report(posterior, output)
    print(f"The report is in {printable(str(made))}; open it in a browser, no network is needed.")
