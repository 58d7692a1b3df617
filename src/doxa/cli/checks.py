"""What commands that keep runs check of their options: which were typed, and whether they belong together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import typer

__all__ = ["HOW_TO_READ", "check_end", "check_going_on", "refuse", "typed"]

HOW_TO_READ = ("columns", "bins", "missing")

_SPELLED = {"exact": "--exact or --sample"}


def typed(context: typer.Context) -> set[str]:
    """Names of the options that were typed, in place of left at their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}


def check_going_on(given: set[str], what: str, fixed: Iterable[str]) -> None:
    """Raise if a run is to be gone on with and an option belongs to its start; ``what`` is a run or a fit."""
    if "resume" not in given:
        return
    if "store" in given:
        refuse("--store", f"--resume goes on with a {what} and --store begins one; give one of them")
    for name in fixed:
        if name in given:
            option = _option(name)
            refuse(
                option,
                f"--resume goes on with a {what} as it was started; leave {option} out, or begin another {what} "
                "with --store",
            )


def check_end(given: set[str], when_to_stop: Iterable[str]) -> None:
    """Raise unless one thing says when a run ends."""
    if "draws" in given:
        for name in when_to_stop:
            if name in given:
                refuse(_option(name), "--draws says when to stop, too; give one of them")


def refuse(option: str, message: str) -> NoReturn:
    """Raise, naming the option."""
    raise typer.BadParameter(message, param_hint=option)


def _option(name: str) -> str:
    return _SPELLED.get(name, f"--{name.replace('_', '-')}")
