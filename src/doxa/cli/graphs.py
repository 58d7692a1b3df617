"""A posterior over graphs on the terminal and in files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from doxa.cli.aligned import aligned
from doxa.text import printable

if TYPE_CHECKING:
    from doxa.structure import StructurePosterior

__all__ = ["show_graphs", "write_edges"]

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
