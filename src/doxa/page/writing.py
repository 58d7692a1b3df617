"""`write_report`: a posterior over graphs as one page of HTML that needs no network."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.page.document import document
from doxa.page.evidence import evidence
from doxa.page.graphs import graphs
from doxa.page.inspection import inspection
from doxa.page.run_facts import run_facts, verdict
from doxa.replacing import replacing

if TYPE_CHECKING:
    from doxa.structure.posterior import StructurePosterior

__all__ = ["page_data", "page_text", "write_report"]


def write_report(
    posterior: StructurePosterior,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    written: datetime | None = None,
) -> Path:
    """Write the report of a posterior over graphs: one HTML file that opens anywhere, offline.

    Parameters
    ----------
    posterior : StructurePosterior
        Such as `doxa.learn` returns.  Tables, imputed cells and queries need a `Posterior` that knows its table;
        without one the page has all else, and says what is missing.
    path : path
        Of the file; an older one is replaced, whole or not at all.
    title : str, optional
        Heading of the page.
    written : datetime, optional
        The time that the page states; now when left out.  The same posterior and time make the same bytes.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``posterior`` is not one over graphs, ``written`` has no time zone, or the folder of ``path`` is not there.
    AssetsMissingError
        If doxa was installed from sources without the libraries that draw the page; the message says how to get them.
    OSError
        If the file cannot be written; an older one is then as it was.

    Notes
    -----
    Long runs are thinned for drawing, never for the numbers, and the page says so.  What it holds is limited by counts
    (edges, graphs, rows of tables, cells), not by time; the page says what was left out.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise ArgumentError(f"path is '{path}', and there is no folder '{target.parent}'; make it first")
    text = page_text(posterior, title=title, written=written)
    with replacing(target) as temporary:
        temporary.write_bytes(text.encode("utf-8"))
    return Path(path)


def page_text(posterior: StructurePosterior, *, title: str | None = None, written: datetime | None = None) -> str:
    """The page that `write_report` writes; parameters and errors as there."""
    return document(page_data(posterior, title=title, written=written))


def page_data(
    posterior: StructurePosterior, *, title: str | None = None, written: datetime | None = None
) -> dict[str, Any]:
    """All that the page shows, as plain data: what goes into it as JSON."""
    from doxa.structure.posterior import StructurePosterior

    if not isinstance(posterior, StructurePosterior):
        raise ArgumentTypeError(
            f"posterior is a {type(posterior).__name__}; the report shows posteriors over graphs, such as doxa.learn "
            "returns"
        )
    written = datetime.now(UTC) if written is None else written
    if written.tzinfo is None:
        raise ArgumentError(f"written is {written!r}, without a time zone; give one, such as datetime.now(UTC)")
    n_nodes = len(posterior.names)
    return {
        "title": title or f"Belief network of {n_nodes} columns, learned by doxa",
        "verdict": verdict(posterior),
        "facts": run_facts(posterior, written),
        "graphs": graphs(posterior),
        "evidence": evidence(posterior),
        "nodes": inspection(posterior),
    }
