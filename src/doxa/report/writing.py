"""`write_report`: an answer as one page of HTML that needs no network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.notebook import remember_report
from doxa.replacing import replacing
from doxa.report.document import document
from doxa.text import a_kind

if TYPE_CHECKING:
    from doxa.inference.answers import Inference
    from doxa.parameters.posterior import ParameterPosterior
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["page_data", "page_text", "write_report"]


def write_report(
    posterior: StructurePosterior | ParameterPosterior | Inference,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    facts: Mapping[str, str] | None = None,
    written: datetime | None = None,
) -> Path:
    """Write the report of an answer: one HTML file that opens anywhere, offline.

    Parameters
    ----------
    posterior : StructurePosterior, ParameterPosterior or Inference
        What `doxa.learn`, `doxa.fit`, `doxa.infer` or `doxa.load` returns.  Tables, imputed cells and queries of graphs
        need a `Posterior` that knows its table; without one the page has all else, and says what is missing.
    path : path
        Of the file; an older one is replaced, whole or not at all.
    title : str, optional
        Heading of the page.
    facts : mapping of str to str, optional
        More to say of how it was made, such as the file of the network; listed before doxa's own facts.
    written : datetime, optional
        The time that the page states; now when left out.  The same answer and time make the same bytes.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``posterior`` is no such answer, ``facts`` are no texts, ``written`` has no time zone, or the folder of
        ``path`` is not there.
    AssetsMissingError
        If doxa was installed from sources without the libraries that draw the page; the message says how to get them.
        Pages of inferences need none.
    OSError
        If the file cannot be written; an older one is then as it was.

    Notes
    -----
    Long runs are thinned for drawing, never for the numbers, and the page says so.  What it holds is limited by counts
    (edges, graphs, rows of tables, cells), not by time; the page says what was left out.
    """
    try:
        target = Path(os.path.realpath(path))
    except ValueError as error:  # a NUL character
        raise ArgumentError(f"path is {str(path)!r}, which cannot be the name of a file: {error}") from None
    if not target.parent.is_dir():
        raise ArgumentError(f"path is '{path}', and there is no folder '{target.parent}'; make it first")
    text = page_text(posterior, title=title, facts=facts, written=written)
    with replacing(target) as temporary:
        temporary.write_bytes(text.encode("utf-8"))
    remember_report(posterior, target)
    return Path(path)


def page_text(
    posterior: StructurePosterior | ParameterPosterior | Inference,
    *,
    title: str | None = None,
    facts: Mapping[str, str] | None = None,
    written: datetime | None = None,
) -> str:
    """The page that `write_report` writes; parameters and errors as there."""
    return document(page_data(posterior, title=title, facts=facts, written=written))


def page_data(
    posterior: StructurePosterior | ParameterPosterior | Inference,
    *,
    title: str | None = None,
    facts: Mapping[str, str] | None = None,
    written: datetime | None = None,
) -> dict[str, Any]:
    """All that the page shows, as plain data: what goes into it as JSON."""
    written = datetime.now(UTC) if written is None else written
    if written.tzinfo is None:
        raise ArgumentError(f"written is {written!r}, without a time zone; give one, such as datetime.now(UTC)")
    more = [] if facts is None else _checked(facts)
    data = _contents(posterior, written)
    return data | {"title": title or data["title"], "facts": [*more, *data["facts"]]}


def _contents(posterior: object, written: datetime) -> dict[str, Any]:
    """By the kind of the answer."""
    from doxa.inference.answers import Inference
    from doxa.parameters.fitted import FittedParameters
    from doxa.parameters.posterior import ParameterPosterior
    from doxa.structure.posterior.structure_posterior import StructurePosterior

    if isinstance(posterior, StructurePosterior):
        from doxa.report.of_graphs import of_graphs

        return of_graphs(posterior, written)
    if isinstance(posterior, ParameterPosterior):
        from doxa.report.of_parameters import of_parameters

        return of_parameters(posterior, written)
    if isinstance(posterior, Inference):
        from doxa.report.of_values import of_values

        return of_values(posterior, written)
    hint = "; read a run file first: doxa.load(path)" if isinstance(posterior, (str, os.PathLike)) else ""
    if isinstance(posterior, FittedParameters):
        hint = ", with keep='draws'"
    raise ArgumentTypeError(
        f"posterior is {a_kind(posterior)}; a report shows what doxa.learn, doxa.fit or doxa.infer returns{hint}"
    )


def _checked(facts: Mapping[str, str]) -> list[list[str]]:
    if not isinstance(facts, Mapping):
        raise ArgumentTypeError(f"facts is {a_kind(facts)}; it must map names to texts")
    for name, value in facts.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ArgumentTypeError(f"facts has {name!r}: {value!r}; names and values must be texts")
    return [[name, value] for name, value in facts.items()]
