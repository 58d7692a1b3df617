"""Options that are more than one word, such as ``age=4``, ``smokes,heart=1.5`` or ``BP=LOW``, and tables of texts.

Names of columns may hold commas and equals signs: the last equals sign counts, and a name with a comma is written in
double quotes, as in a CSV file.  In what was observed the first equals sign counts, so that labels may hold others, and
a JSON object serves for odd names.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer

__all__ = [
    "aligned",
    "as_numbers",
    "parse_bins",
    "parse_edges",
    "parse_event",
    "parse_family",
    "parse_given",
    "parse_log_odds",
    "parse_names",
    "parse_numbers",
    "parse_soft",
]


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


_THRESHOLD = re.compile(r"\s*([^<>=]+?)\s*([<>])=?\s*([^<>=]+?)\s*")
_BETWEEN = re.compile(r"\s*([^<>=]+?)\s*<=?\s*([^<>=]+?)\s*<=?\s*([^<>=]+?)\s*")


def parse_event(word: str, option: str = "--query") -> dict[str, Any]:
    """``bmi>30``, ``bmi<18.5``, ``18.5<bmi<30``, ``heart=yes`` or a JSON object of such, as targets of a query."""
    if word.lstrip().startswith("{"):
        return _parse_object(option, word, lists=True)
    if found := _BETWEEN.fullmatch(word):
        low, name, high = found.groups()
        return {name: ("between", _threshold(low, word, option), _threshold(high, word, option))}
    if found := _THRESHOLD.fullmatch(word):
        name, sign, number = found.groups()
        return {name: ("above" if sign == ">" else "below", _threshold(number, word, option))}
    return dict([_split(option, word, "BP=LOW")])


def _threshold(text: str, word: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = f"{word!r} compares with {text!r}, which is no number; write it as {option} 'bmi>30'"
        raise typer.BadParameter(message, param_hint=option) from None


def as_numbers(known: Mapping[str, str | float], held: set[str], option: str) -> dict[str, str | float]:
    """Text of columns of numbers as numbers."""
    found: dict[str, str | float] = {}
    for name, value in known.items():
        try:
            found[name] = float(value) if name in held else value
        except ValueError:
            message = f"{name} is {value!r}, and the column holds numbers; give one, as in {name}=50"
            raise typer.BadParameter(message, param_hint=option) from None
    return found


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


def _parse_object(option: str, word: str, *, lists: bool = False) -> dict[str, Any]:
    try:
        found = json.loads(word)
    except (json.JSONDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"{word!r} is no JSON object: {error}", param_hint=option) from None
    for name, label in found.items():
        if isinstance(label, bool) or not isinstance(label, (str, int, list) if lists else (str, int)):
            raise typer.BadParameter(f"{name!r} has {label!r}; a label is a text", param_hint=option)
    return {name: label if isinstance(label, list) else str(label) for name, label in found.items()}


def aligned(rows: Sequence[Sequence[str]], n_left: int) -> str:
    """Lines of a table: the first ``n_left`` columns to the left, the others to the right.

    Columns are as wide as their widest cell, whatever the terminal: a cut name or number is worse than a long line.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(w) if column < n_left else cell.rjust(w)
            for column, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def parse_numbers(option: str, words: list[str] | None) -> int | dict[str, int] | None:
    """``["4"]`` to 4, ``["age=4", "weight=3"]`` to a mapping."""
    if not words:
        return None
    if len(words) == 1 and "=" not in words[0]:
        return _whole(option, words[0], words[0])
    return {name: _whole(option, number, f"{name}={number}") for name, number in _named(option, words, "4").items()}


def parse_family(words: list[str] | None) -> str | dict[str, str] | None:
    """``["auto"]`` to auto, ``["type=additive", "weight=auto"]`` to a mapping."""
    if not words or (len(words) == 1 and "=" not in words[0]):
        return words[0] if words else None
    return _named("--family", words, "additive")


def _named(option: str, words: list[str], example: str) -> dict[str, str]:
    """What stands behind the last "=" of each word, by what stands before it, a column."""
    parsed: dict[str, str] = {}
    for word in words:
        name, equals, value = word.rpartition("=")
        if not equals:
            what = "NUMBER" if example.isdigit() else "KIND"
            raise typer.BadParameter(f"{word!r} should be NAME={what}, as in {option} age={example}", param_hint=option)
        if name in parsed:
            raise typer.BadParameter(f"column {name!r} is given twice", param_hint=option)
        parsed[name] = value
    return parsed


def parse_bins(option: str, words: list[str] | None) -> Any:
    """As ``bins`` of `doxa.read_table`: ``["4"]``, ``["age=4", "bmi=18.5,25,30", "dose=uniform:4"]``."""
    if words is not None and len(words) == 1 and "=" not in words[0] and ":" in words[0]:
        return words[0]
    cuts: dict[str, str | list[float]] = {}
    numbers = []
    for word in words or []:
        name, equals, rule = word.rpartition("=")
        if not equals or not (":" in rule or "," in rule or "." in rule):
            numbers.append(word)
        elif name in cuts:
            raise typer.BadParameter(f"column {name!r} is given twice", param_hint=option)
        else:
            cuts[name] = rule if ":" in rule else [_cut(option, cut, word) for cut in rule.split(",") if cut]
    if not cuts:
        return parse_numbers(option, numbers)
    whole = parse_numbers(option, numbers)
    if isinstance(whole, int):
        message = f"{numbers[0]!r} should be NAME=NUMBER, as in {option} age=4"
        raise typer.BadParameter(message, param_hint=option)
    both = [name for name in whole or {} if name in cuts]
    if both:
        raise typer.BadParameter(f"column {both[0]!r} is given twice", param_hint=option)
    return cuts | (whole or {})


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


def _cut(option: str, number: str, word: str) -> float:
    try:
        return float(number)
    except ValueError:
        message = f"{word!r} should be cuts with commas between them, as in {option} bmi=18.5,25,30"
        raise typer.BadParameter(message, param_hint=option) from None


def _number(option: str, number: str, word: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise typer.BadParameter(f"{word!r} should be a number, or SOURCE,TARGET=NUMBER", param_hint=option) from None
