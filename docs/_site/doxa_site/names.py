"""Links from names: a name between backticks, in docstrings and pages, leads to its place in the reference.

Docstrings name things as a reader would: `StructurePosterior.consensus`, `doxa.learn`, `write_report`.  A name that one
documented object alone ends with is a link; any other stays as it is, set as code.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform

__all__ = ["setup"]

_FILE = re.compile(r"[\w./-]+\.md")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("missing-reference", _resolve)
    app.add_post_transform(ExactNames)
    app.add_post_transform(LinkedLiterals)
    app.connect("doctree-resolved", _name_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def find(env: BuildEnvironment, name: str) -> tuple[str, str, str] | None:
    """Page, anchor and full name of the object that a name means; None where there is none, or several."""
    objects = env.domains.python_domain.objects
    bare = name.strip().partition("(")[0]
    if bare in objects:
        full = [bare]
    else:
        full = [key for key, value in objects.items() if key.endswith(f".{bare}") and not value.aliased]
        if len(full) > 1:  # a module's or a class's own name rather than a member's that happens to be called so
            full = [key for key in full if objects[key].objtype in ("class", "function", "exception")]
    if len(full) != 1:
        return None
    found = objects[full[0]]
    return found.docname, found.node_id, full[0]


def _resolve(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, shown: nodes.Node) -> nodes.Node | None:
    if node.get("refdomain") != "py":
        return None
    return _link(app, env, node.get("refdoc", env.current_document.docname), node["reftarget"], shown)


def _link(app: Sphinx, env: BuildEnvironment, page: str, name: str, shown: nodes.Node) -> nodes.Node | None:
    found = find(env, name)
    if found is None:
        return None
    target, anchor, full = found
    reference = nodes.reference("", "", shown, internal=True, reftitle=full)
    reference["refuri"] = f"{app.builder.get_relative_uri(page, target)}#{anchor}"
    return reference


def _name_pages(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """A link that is called as its file, data.md, gets the title of the page: readers of the site see no files."""
    for reference in doctree.findall(nodes.reference):
        file = reference.astext()
        if not (reference.get("internal") and _FILE.fullmatch(file)):
            continue
        uri = reference.get("refuri", "").partition("#")[0]
        for target, title in app.env.titles.items():
            if target.endswith(file.removesuffix(".md")) and app.builder.get_relative_uri(page, target) == uri:
                reference.children = [nodes.inline("", title.astext())]


class ExactNames(SphinxPostTransform):
    """Sphinx takes the first of several objects whose names end alike; we take none."""

    default_priority = 5  # before references are resolved

    def run(self, **kwargs: Any) -> None:  # noqa: ARG002
        """Ask for exact names alone; `_resolve` is asked for the others."""
        for node in self.document.findall(addnodes.pending_xref):
            if node.get("refdomain") == "py":
                node.attributes.pop("refspecific", None)


class LinkedLiterals(SphinxPostTransform):
    """``doxa.something`` set as code in a page becomes a link where the reference has it."""

    default_priority = 400

    def run(self, **kwargs: Any) -> None:  # noqa: ARG002
        """Replace what can be replaced."""
        for literal in list(self.document.findall(nodes.literal)):
            text = literal.astext()
            if text.startswith("doxa.") and not isinstance(literal.parent, (nodes.reference, nodes.title)):
                link = _link(self.app, self.env, self.env.current_document.docname, text, literal.deepcopy())
                if link is not None:
                    literal.replace_self(link)
