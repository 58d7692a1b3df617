"""The page on the command line, written from the Typer application: what ``doxa COMMAND --help`` says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from doxa.cli import app

__all__ = ["page"]


def page() -> str:
    """The page as reStructuredText."""
    group: Any = typer.main.get_command(app)
    context = group.context_class(group, info_name="doxa")
    parts = [
        "Command line\n============\n\n",
        f"{_prose(group.help)}\n\n",
        "The same texts are printed by ``doxa --help`` and ``doxa COMMAND --help``.\n\n",
        *_parameters(group, context),
    ]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = command.context_class(command, info_name=name, parent=context)
        usage = " ".join(command.collect_usage_pieces(inner))
        title = f"doxa {name}"
        parts.append(f"{title}\n{'-' * len(title)}\n\n{_prose(command.help)}\n\n")
        parts.append(f".. code-block:: text\n\n   doxa {name} {usage}\n\n")
        parts.extend(_parameters(command, inner))
    return "".join(parts)


def _parameters(command: Any, context: Any) -> Iterator[str]:
    """A definition list of arguments and options, as the help has them."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or getattr(parameter, "hidden", False):
            continue
        names, text = record
        yield f"``{names.strip()}``\n   {_prose(text) or '(no description)'}\n\n"


def _prose(text: str | None) -> str:
    """A help text in one line, with nothing in it read as markup except literals."""
    plain = " ".join((text or "").replace("\b", "").split())
    for character in "\\*|_":
        plain = plain.replace(character, f"\\{character}")
    return plain
