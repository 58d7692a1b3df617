"""`doxa show`: what is in a run file.

A posterior over graphs on the terminal and in files.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import doxa
from doxa.cli.aligned import aligned
from doxa.cli.parameters import show_parameters, write_summary
from doxa.text import printable

if TYPE_CHECKING:
    from doxa.structure import StructurePosterior

__all__ = ["show", "show_graphs", "write_edges"]

_EDGES_SHOWN = 20


def show_graphs(posterior: StructurePosterior, most: int = _EDGES_SHOWN) -> None:
    """Print the run, the edge table and the verdict."""
    from doxa.structure.posterior.summary import cache_text, ranked_edges, run_text

    print(run_text(posterior))
    if posterior.cache is not None:
        print(cache_text(posterior))
    print()
    rows = [("source", "target", "probability", "95% interval", "ess", "r_hat", "joined")]
    for edge in ranked_edges(posterior, most):
        low, high = edge.estimate.interval()
        r_hat = "-" if math.isnan(edge.r_hat) else f"{edge.r_hat:.3f}"
        ess = "-" if math.isinf(edge.estimate.ess) else f"{edge.estimate.ess:.0f}"
        joined = f"{edge.joined.value:.3f}"
        names = (printable(edge.source), printable(edge.target))
        rows.append((*names, str(edge.estimate), f"{low:.3f} - {high:.3f}", ess, r_hat, joined))
    print(aligned(rows, n_left=2))
    left = len(posterior.names) * (len(posterior.names) - 1) - most
    if left > 0:
        print(f"... and {left} less probable edges")
    print()
    print(f"edges in a graph: {posterior.expected_edges}")
    print(printable(posterior.verdict))


def write_edges(posterior: StructurePosterior, path: Path) -> None:
    """Write the table of all edges."""
    from doxa.output import write_frame

    write_frame(posterior.edges(), path)
    print(f"\nAll {len(posterior.names) * (len(posterior.names) - 1)} edges are in {printable(str(path))}.")


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
