"""What the theme's pages lack for keyboards and screen readers, put in when a page has been written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

__all__ = ["setup", "with_help"]

_REPLACED = (
    ("<pre>", '<pre tabindex="0">'),  # code that is wider than the page scrolls by keyboard, too
    ('class="caption" role="heading">', 'class="caption" role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="pages">'),
    ('<th class="head"><p></p></th>', "<td></td>"),  # the corner of a table is no heading
)

# The parameters of a long signature, one a line: Sphinx makes them definitions without terms.
_PARAMETERS = re.compile(r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def with_help(page: str) -> str:
    """The text of a page, improved; once is enough."""
    for theirs, ours in _REPLACED:
        page = page.replace(theirs, ours)
    return _PARAMETERS.sub(_as_lines, page)


def _as_lines(match: re.Match[str]) -> str:
    if "sig-param" not in match[1]:
        return match[0]
    lines = re.sub("^<dd>(.*)</dd>$", r"<span>\1</span>", match[1], flags=re.MULTILINE)
    return f'<span class="sig-params">\n{lines}</span>'


def _finish(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        for path in Path(app.outdir).rglob("*.html"):
            page = path.read_text(encoding="utf-8")
            if (better := with_help(page)) != page:
                path.write_text(better, encoding="utf-8")
