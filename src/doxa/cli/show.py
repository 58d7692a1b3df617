"""`doxa show`: what is in a run file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import doxa
from doxa.cli.graphs import show_graphs, write_edges
from doxa.cli.parameters import show_parameters, write_summary
from doxa.text import printable

__all__ = ["show"]


def show(
    run: Annotated[Path, typer.Argument(help="A run file, finished or under way.", metavar="RUN")],
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write all edges, or the summary of a fit, to this file, too: .csv, .json or .parquet.",
            show_default=False,
        ),
    ] = None,
    draws: Annotated[
        Path | None,
        typer.Option(
            help="Write every sampled graph, or draw of the parameters, to this file, too: .csv, .json or .parquet.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what is in a run file that `doxa learn --store` or `doxa fit --store` made."""
    from doxa.output import check_output, write_frame
    from doxa.structure import StructurePosterior

    for path in (output, draws):
        if path is not None:
            check_output(path, run)
    posterior = doxa.load(run)
    if isinstance(posterior, StructurePosterior):
        n_draws = posterior.n_edges.size
        show_graphs(posterior)
        if output is not None:
            write_edges(posterior, output)
    else:
        n_draws = posterior.n_chains * posterior.n_draws
        show_parameters(posterior)
        if output is not None:
            write_summary(posterior, output)
    if draws is not None:
        write_frame(posterior.to_frame(), draws)
        print(f"\nAll {n_draws} draws are in {printable(str(draws))}.")
