"""Write the pages that are made rather than written, and give the first page its side bar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from doxa_site import commands, navigation, reference

__all__ = ["setup", "write_pages"]

CHANGELOG = ".. include:: ../../CHANGELOG.md\n   :parser: myst_parser.sphinx_\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("config-inited", _link_types, priority=900)  # after numpydoc's
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "reference"), priority=100)
    app.connect("source-read", _add_navigation)
    app.connect("html-page-context", _with_titles_alone, priority=100)  # before the theme's
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(folder: Path) -> None:
    """Write every made page; one that has not changed keeps its time, so that it is not read again."""
    folder.mkdir(exist_ok=True)
    wanted = {f"{room}.rst": text for room, text in reference.pages().items()}
    wanted["index.rst"] = reference.index()
    wanted["command-line.rst"] = commands.page()
    wanted["changelog.rst"] = CHANGELOG
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _link_types(app: Sphinx, config: Any) -> None:  # noqa: ARG001
    """Tell numpydoc which words in the types of parameters are names of ours: those that one class alone has."""
    full: dict[str, set[str]] = {}
    for entry in reference.entries():
        if isinstance(entry.value, type):
            full.setdefault(entry.name.rpartition(".")[2], set()).add(entry.name)
    config.numpydoc_xref_param_type = True
    config.numpydoc_xref_ignore = "all"
    config.numpydoc_xref_aliases_complete = {short: names.pop() for short, names in full.items() if len(names) == 1}


def _add_navigation(app: Sphinx, page: str, content: list[str]) -> None:
    docs = Path(app.srcdir)
    if page == app.config.root_doc:
        content[0] += navigation.toctrees(docs)
    elif page.endswith("/index") and page != "reference/index":
        content[0] += navigation.toctree(navigation.beside(docs, page))


def _with_titles_alone(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Give the side bar of every page contents that hold titles alone.

    Sphinx copies the contents of every page, thousands of functions and methods, and then takes them away: a third of
    the time of all.
    """
    env, whole = app.env, context["toctree"]

    def toctree(**options: Any) -> str:
        if not options.get("titles_only"):
            return str(whole(**options))
        tocs = env.tocs
        if "doxa_titles" not in env.temp_data:
            env.temp_data["doxa_titles"] = {name: _titles(toc) for name, toc in tocs.items()}
        env.tocs = env.temp_data["doxa_titles"]
        try:
            return str(whole(**options))
        finally:
            env.tocs = tocs

    context["toctree"] = toctree


def _titles(toc: nodes.bullet_list) -> nodes.bullet_list:
    """The contents of a page without its parts, but with the pages below it."""
    toc = toc.deepcopy()
    for entry in toc.children:
        if isinstance(entry, nodes.Element) and len(entry) > 1:
            below = list(entry.findall(addnodes.toctree))
            entry.children[1:] = [nodes.bullet_list("", *below)] if below else []
    return toc
