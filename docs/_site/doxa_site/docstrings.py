"""Small differences between our docstrings and reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sphinx.application import Sphinx

__all__ = ["setup", "with_plain_bars"]

# What is code or a formula already, or text close between two bars, which would name a substitution.
_BARS = re.compile(r"(`+[^`]*`+)|(?<![\w|\\])\|(?=\S)([^|`]*[^|`\s])\|(?!\|)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


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
