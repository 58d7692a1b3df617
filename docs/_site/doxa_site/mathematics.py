"""Formulas as MathML, made when the site is built: no script runs in the browser, and screen readers read them.

Docutils converts; browsers since 2023 draw MathML by themselves, best with a font made for mathematics.
``scripts/fetch_page_assets.py`` fetches one (STIX Two Math); without it the browser takes one of the system's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

__all__ = ["setup", "to_mathml"]

FONTS = Path(__file__).resolve().parent.parent / "vendor"
STYLE = FONTS.with_name("mathematics")
_LOG = logging.getLogger(__name__)

# What docutils does not know, in words that it knows.
_REWRITTEN = (
    (r"\\dots(?![a-zA-Z])", r"\\ldots"),
    (r"\\([bB]igg?)(?![a-zA-Z])(?=\s*(?:\)|\]|\\\}|\\rangle))", r"\\\1r"),
    (r"\\([bB]igg?)(?![a-zA-Z])", r"\\\1l"),
    (r"\\([td]?frac)\s*(\d)\s*(\d)", r"\\\1{\2}{\3}"),  # TeX takes one digit, docutils the number
)

# Braces grow only where the source says \\left and \\right, which docutils wraps in a row.
_BRACE = re.compile(r"(<mrow>\s*)?<mo>([{}])</mo>(\s*</mrow>)?")
_SMALL = '<mo stretchy="false">{}</mo>'


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    app.connect("config-inited", _configure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def to_mathml(tex: str, *, block: bool = False) -> str:
    """A formula of LaTeX as a ``math`` element; raises MathError where it is not understood."""
    for pattern, known in _REWRITTEN:
        tex = re.sub(pattern, known, tex)
    element = str(tex2mathml(" ".join(tex.split()), as_block=block)).strip()
    element = element.replace('<mi class="capital-greek">', '<mi mathvariant="normal">')
    return _BRACE.sub(lambda brace: brace[0] if brace[1] or brace[3] else _SMALL.format(brace[2]), element)


def _configure(app: Sphinx, config: Any) -> None:  # noqa: ARG001
    config.html_math_renderer = "mathml"
    if (FONTS / "libraries.json").exists():
        config.html_static_path += [str(FONTS), str(STYLE)]
        config.html_css_files.append("mathematics.css")


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_converted(node, block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula" tabindex="0">{_converted(node, block=True)}</div>')
    raise nodes.SkipNode


def _converted(node: nodes.Element, *, block: bool) -> str:
    try:
        return to_mathml(node.astext(), block=block)
    except MathError as error:
        _LOG.warning("a formula is not understood: %s: %s", node.astext(), error, location=node)
        return f"<code>{node.astext()}</code>"
