"""The reference pages, written from the modules' ``__all__`` and docstrings, as reStructuredText for autodoc.

Each page opens with the docstring of its module and a table of its names.  The docstrings of the modules in which the
names are defined follow as notes: the formulas and what was measured stand there.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from doxa_site.rooms import ROOMS, Room

__all__ = ["Entry", "entries", "index", "pages"]


class Entry(NamedTuple):
    """A public name, and where it is documented."""

    name: str  # as users write it, such as doxa.structure.BDeu
    value: Any
    page: str  # the module of the room
    first: bool  # whether this is the place where it is documented


def pages() -> dict[str, str]:
    """The text of every page by the name of its room."""
    told: set[str] = {room.module for room in ROOMS}
    by_room = {room.module: [entry for entry in entries() if entry.page == room.module] for room in ROOMS}
    return {room.module: _page(room, by_room[room.module], told) for room in ROOMS}


def index() -> str:
    """The first page of the reference: every room, and what it is for."""
    rows = "".join(
        f"   * - :doc:`{room.module}`\n     - {_summary(importlib.import_module(room.module))}\n" for room in ROOMS
    )
    trees = "\n".join(f"   {room.module}" for room in ROOMS)
    return (
        f"{_heading('Reference', '=')}"
        "Every public name, from the docstrings. Names are public when they are in the ``__all__`` of a module below.\n"
        "What most people need is on the page :doc:`doxa`; the commands of the shell are on :doc:`command-line`.\n\n"
        f".. list-table::\n   :widths: auto\n\n{rows}\n"
        f".. toctree::\n   :hidden:\n\n{trees}\n"
    )


@cache
def entries() -> tuple[Entry, ...]:
    """Every public name of every page, in order."""
    return tuple(_entries())


def _entries() -> Iterator[Entry]:
    homes: dict[int, str] = {}
    for room in ROOMS:
        on_page: set[int] = set()
        for module_name in (room.module, *room.also):
            module = importlib.import_module(module_name)
            for name in getattr(module, "__all__", ()):
                value = getattr(module, name)
                if not (inspect.isclass(value) or inspect.isroutine(value)) or id(value) in on_page:
                    continue  # rooms have their own pages; numbers and texts are told with what uses them
                on_page.add(id(value))
                first = homes.setdefault(id(value), f"{module_name}.{name}") == f"{module_name}.{name}"
                yield Entry(homes[id(value)], value, room.module, first)


def _page(room: Room, found: list[Entry], told: set[str]) -> str:
    parts = [_heading(f"{room.module}: {room.title[0].lower()}{room.title[1:]}", "=")]
    parts.append(f".. automodule:: {room.module}\n   :no-members:\n\n")
    if found:
        rows = "".join(
            f"   * - :py:obj:`{_short(entry.name)} <{entry.name}>`\n     - {_summary(entry.value)}\n" for entry in found
        )
        parts.append(f".. list-table::\n   :widths: auto\n   :class: names\n\n{rows}\n")
    names = {entry.name for entry in entries()}
    groups: dict[str, list[Entry]] = {}
    for entry in found:
        if entry.first:
            groups.setdefault(entry.value.__module__, []).append(entry)
    for module, group in groups.items():
        parts.extend(_documented(entry) for entry in group)
        if module not in told and inspect.getdoc(importlib.import_module(module)):
            told.add(module)
            hidden = "   :no-index:\n" if module in names else ""  # a function may be called as its module is
            parts.append(
                f".. container:: notes\n\n   .. rubric:: Notes of {module}\n\n"
                f"   .. automodule:: {module}\n      :no-members:\n   {hidden}\n"
            )
    return "".join(parts)


def _documented(entry: Entry) -> str:
    """The directive of one name, with the members of a class."""
    if not inspect.isclass(entry.value):
        return f".. autofunction:: {entry.name}\n\n"
    lines = [f".. autoclass:: {entry.name}\n"]
    if issubclass(entry.value, BaseException):
        lines.append("   :no-members:\n   :show-inheritance:\n")
    elif members := documented_members(entry.value):
        lines.append(f"   :members: {', '.join(members)}\n")
    for field, annotation, comment in commented_fields(entry.value):
        lines.append(
            f"\n   .. py:attribute:: {field}\n      :type: {annotation}\n      :no-index-entry:\n\n      {comment}\n"
        )
    return "".join(lines) + "\n"


def documented_members(cls: type) -> list[str]:
    """Public methods and properties with a docstring, those of our bases included, in the order of the sources."""
    found: dict[str, None] = {}
    for base in cls.__mro__:
        if not base.__module__.startswith("doxa"):
            continue
        for name, value in vars(base).items():
            function = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", value)
            ours = inspect.isroutine(function) and (getattr(function, "__module__", None) or "").startswith("doxa")
            if not name.startswith("_") and ours and inspect.getdoc(getattr(base, name)):
                found.setdefault(name)
    return list(found)


def commented_fields(cls: type) -> Iterator[tuple[str, str, str]]:
    """Fields of a class that its docstring does not tell: name, type, and the comment beside or above them."""
    told = inspect.getdoc(cls) or ""
    if not cls.__module__.startswith("doxa"):
        return
    tree, comments = _source(inspect.getsourcefile(cls) or "")
    node = next((node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__), None)
    for statement in node.body if node else ():
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        name = statement.target.id
        if name.startswith("_") or f"\n{name} : " in f"\n{told}" or "ClassVar" in ast.unparse(statement.annotation):
            continue
        comment = comments.get(statement.end_lineno or 0, "")
        yield name, ast.unparse(statement.annotation), _escaped(comment)


@cache
def _source(path: str) -> tuple[ast.Module, dict[int, str]]:
    text = Path(path).read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {
        token.start[0]: token.string.lstrip("#: ")
        for token in tokens
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:"))
    }
    return ast.parse(text), comments


def _summary(value: object) -> str:
    """The first sentence of a docstring."""
    if isinstance(value, ModuleType) or inspect.isclass(value) or inspect.isroutine(value):
        text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
        return text.split(".  ")[0]
    return ""


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _heading(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n\n"


def _escaped(text: str) -> str:
    """A comment as reStructuredText: nothing in it is markup except names between backticks."""
    for character in "\\*|_":
        text = text.replace(character, f"\\{character}")
    return text
