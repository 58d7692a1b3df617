"""Options that say what was observed: ``BP=LOW``, ``BP=0.5,1,2``, or a JSON object for odd names.

The first equals sign counts, so that labels may hold others.
"""

from __future__ import annotations

import json

import typer

__all__ = ["parse_given", "parse_soft"]


def parse_given(words: list[str], option: str = "--given") -> dict[str, str]:
    """``["BP=LOW", '{"a=b": "c"}']`` to a mapping."""
    given: dict[str, str] = {}
    for word in words:
        found = _parse_object(option, word) if word.lstrip().startswith("{") else dict([_split(option, word, "BP=LOW")])
        for name, label in found.items():
            if name in given:
                raise typer.BadParameter(f"{name!r} is given twice", param_hint=option)
            given[name] = label
    return given


def parse_soft(words: list[str]) -> dict[str, list[float]]:
    """``["BP=0.5,1,2"]`` to a mapping."""
    soft: dict[str, list[float]] = {}
    for word in words:
        name, numbers = _split("--soft", word, "BP=0.5,1,2")
        if name in soft:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint="--soft")
        try:
            soft[name] = [float(number) for number in numbers.split(",")]
        except ValueError:
            raise typer.BadParameter(
                f"{word!r} should be VARIABLE=NUMBER,NUMBER,..., as in --soft BP=0.5,1,2", param_hint="--soft"
            ) from None
    return soft


def _split(option: str, word: str, example: str) -> tuple[str, str]:
    name, equals, rest = word.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{word!r} should be VARIABLE=..., as in {option} {example}", param_hint=option)
    return name, rest


def _parse_object(option: str, word: str) -> dict[str, str]:
    try:
        found = json.loads(word)
    except (json.JSONDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"{word!r} is no JSON object: {error}", param_hint=option) from None
    for name, label in found.items():
        if isinstance(label, bool) or not isinstance(label, (str, int)):
            raise typer.BadParameter(f"{name!r} has {label!r}; a label is a text", param_hint=option)
    return {name: str(label) for name, label in found.items()}
