"""Options of the command line that are more than one word: ``age=4``, ``smokes,heart``, ``smokes,heart=1.5``.

Names of columns may hold commas and equals signs: the last equals sign counts, and a name with a comma is written in
double quotes, as in a CSV file.
"""

from __future__ import annotations

import csv

import typer

__all__ = ["parse_edges", "parse_log_odds", "parse_names", "parse_numbers"]


def parse_numbers(option: str, words: list[str] | None) -> int | dict[str, int] | None:
    """``["4"]`` to 4, ``["age=4", "weight=3"]`` to a mapping."""
    if not words:
        return None
    if len(words) == 1 and "=" not in words[0]:
        return _whole(option, words[0], words[0])
    parsed: dict[str, int] = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        if not equals:
            raise typer.BadParameter(f"{word!r} should be NAME=NUMBER, as in {option} age=4", param_hint=option)
        if name in parsed:
            raise typer.BadParameter(f"column {name!r} is given twice", param_hint=option)
        parsed[name] = _whole(option, number, word)
    return parsed


def parse_names(option: str, word: str) -> list[str]:
    """``"age,sex"`` to a list."""
    try:
        (names,) = csv.reader([word], strict=True, skipinitialspace=True)
    except (csv.Error, ValueError):
        raise typer.BadParameter(f"{word!r} should be names with commas between them", param_hint=option) from None
    return names


def parse_edges(option: str, words: list[str] | None) -> list[tuple[str, str]]:
    """``["a,b", "b,c"]`` to pairs."""
    edges = []
    for word in words or []:
        names = parse_names(option, word)
        if len(names) != 2:
            raise typer.BadParameter(
                f"{word!r} should be SOURCE,TARGET, as in {option} smokes,heart", param_hint=option
            )
        edges.append((names[0], names[1]))
    return edges


def parse_log_odds(option: str, words: list[str] | None) -> float | dict[tuple[str, str], float] | None:
    """``["-2"]`` to a number, ``["a,b=1.5"]`` to a mapping."""
    if not words:
        return None
    if len(words) == 1 and "=" not in words[0]:
        return _number(option, words[0], words[0])
    parsed: dict[tuple[str, str], float] = {}
    for word in words:
        edge, equals, number = word.rpartition("=")
        if not equals:
            raise typer.BadParameter(f"{word!r} should be SOURCE,TARGET=NUMBER", param_hint=option)
        (names,) = parse_edges(option, [edge])
        if names in parsed:
            raise typer.BadParameter(f"the edge {edge!r} is given twice", param_hint=option)
        parsed[names] = _number(option, number, word)
    return parsed


def _whole(option: str, number: str, word: str) -> int:
    try:
        return int(number)
    except ValueError:
        message = f"{word!r} should be a whole number, or NAME=NUMBER, as in {option} age=4"
        raise typer.BadParameter(message, param_hint=option) from None


def _number(option: str, number: str, word: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise typer.BadParameter(f"{word!r} should be a number, or SOURCE,TARGET=NUMBER", param_hint=option) from None
