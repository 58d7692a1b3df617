"""numpydoc, with one template for all docstrings, and small differences between ours and reStructuredText."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpydoc
from jinja2 import FileSystemLoader, Template
from jinja2.sandbox import SandboxedEnvironment
from numpydoc.docscrape import get_doc_object
from numpydoc.docscrape_sphinx import SphinxClassDoc, SphinxFunctionDoc, SphinxObjDoc
from sphinx.application import Sphinx

__all__ = ["setup", "with_plain_bars"]

# What is code or a formula already, or text close between two bars, which would name a substitution.
_BARS = re.compile(r"(`+[^`]*`+)|(?<![\w|\\])\|(?=\S)([^|`]*[^|`\s])\|(?!\|)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    numpydoc.setup(app, _documented)
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _documented(obj: Any, what: str | None = None, doc: Any = None, config: Any = None, builder: Any = None) -> Any:  # noqa: ARG001
    """A docstring's parts.  numpydoc by itself compiles its template anew for each, in a sixth of all the time."""
    with_template = {**(config or {}), "template": _template()}
    return get_doc_object(obj, what, doc, with_template, SphinxClassDoc, SphinxFunctionDoc, SphinxObjDoc)


@functools.cache
def _template() -> Template:
    loader = FileSystemLoader(Path(numpydoc.__file__).parent / "templates")
    return SandboxedEnvironment(loader=loader).get_template("numpydoc_docstring.rst")


def with_plain_bars(lines: Iterable[str]) -> list[str]:
    r"""Lines in which bars mean bars: ``|J|`` is an absolute value, not the name of a substitution."""
    found: list[str] = []
    indent = 0  # of the line that began a block to leave alone
    block = ""  # its kind
    for line in lines:
        text = line.lstrip()
        depth = len(line) - len(text)
        if (block == "paragraph" and not text) or (block == "indented" and text and depth <= indent):
            block = ""
        if not block:
            found.append(_BARS.sub(lambda match: match[1] or rf"\|{match[2]}\|", line) if _is_prose(text) else line)
            block = "" if _is_prose(text) else "paragraph"
            if text.endswith("::"):
                block, indent = "indented", depth
        else:
            found.append(line)
    return found


def _is_prose(text: str) -> bool:
    return not text.startswith((">>>", ".. math::"))


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    lines[:] = with_plain_bars(lines)
