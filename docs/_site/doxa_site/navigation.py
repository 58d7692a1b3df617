"""The order of the pages: what the side bar shows, under which heading.

A folder whose ``index.md`` is named here brings its other pages with it, one level below.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["SECTIONS", "beside", "pages_of", "toctree", "toctrees"]

# Pages below docs/, without their ending; a star stands for the rest of a folder.
SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Start", ("install", "tutorials/index", "tutorials/risk-factors", "tutorials/votes", "tutorials/*")),
    (
        "How to",
        (
            "how-to/index",
            "data",
            "structure",
            "averaging",
            "parameters",
            "inference",
            "report",
            "live-view",
            "sklearn",
            "parallel",
            "run-store",
            "latent-trait",
        ),
    ),
    (
        "Explanation",
        (
            "explanation/index",
            "papers",
            "errors",
            "diagnostics",
            "samplers",
            "extending",
            "kernels",
            "importance",
            "variational-hidden",
            "chains",
        ),
    ),
    ("Experiments", ("gallery", "experiments", "experiments-logistic", "experiments-inference")),
    ("Reference", ("reference/index", "reference/command-line")),
    ("About", ("glossary", "limits", "reliability", "reference/changelog")),
)


def pages_of(docs: Path) -> dict[str, list[str]]:
    """The pages that exist of each section, in order."""
    return {
        heading: list(dict.fromkeys(page for pattern in patterns for page in _found(docs, pattern)))
        for heading, patterns in SECTIONS
    }


def beside(docs: Path, index: str) -> list[str]:
    """The other pages of the folder of an index, in the order in which it links to them, then the rest."""
    folder = index.rpartition("/")[0]
    text = (docs / f"{index}.md").read_text(encoding="utf-8")
    pages = [page for page in _found(docs, f"{folder}/*") if page != index]
    linked = {page: text.find(f"({page.rpartition('/')[2]}.md") for page in pages}
    return sorted(pages, key=lambda page: (linked[page] < 0, linked[page], page))


def toctrees(docs: Path) -> str:
    """The side bar as hidden directives, which the first page gets at its end."""
    return "".join(toctree(pages, heading) for heading, pages in pages_of(docs).items() if pages)


def toctree(pages: list[str], heading: str = "") -> str:
    """One hidden directive in Markdown; names of pages begin at docs/."""
    caption = f":caption: {heading}\n" if heading else ""
    return (
        f"\n\n```{{toctree}}\n:hidden:\n:titlesonly:\n{caption}\n" + "".join(f"/{page}\n" for page in pages) + "```\n"
    )


def _found(docs: Path, pattern: str) -> list[str]:
    paths = [path for ending in ("md", "rst") for path in sorted(docs.glob(f"{pattern}.{ending}"))]
    return [path.relative_to(docs).as_posix().rpartition(".")[0] for path in paths]
