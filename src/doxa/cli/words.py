"""Options that are more than one word, such as ``age=4``, ``smokes,heart=1.5`` or ``BP=LOW``, and tables of texts.

Names of columns may hold commas and equals signs: the last equals sign counts, and a name with a comma is written in
double quotes, as in a CSV file.  In what was observed the first equals sign counts, so that labels may hold others, and
a JSON object serves for odd names.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

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
    "parse_states",
    "parsed",
    "refuse",
]

T = TypeVar("T")


def refuse(option: str, message: str) -> NoReturn:
    """Raise, naming the option."""
    raise typer.BadParameter(message, param_hint=option)


def parsed(kind: Callable[[str], T], text: str, option: str, message: str) -> T:
    """What ``kind``, such as ``float``, makes of a text, or an error with this message."""
    try:
        return kind(text)
    except ValueError:
        raise typer.BadParameter(message, param_hint=option) from None


def parse_given(words: list[str], option: str = "--given") -> dict[str, str]:
    """``["BP=LOW", '{"a=b": "c"}']`` to a mapping."""
    given: dict[str, str] = {}
    for word in words:
        found = _parse_object(option, word) if word.lstrip().startswith("{") else dict([_split(option, word, "BP=LOW")])
        for name, label in found.items():
            if name in given:
                refuse(option, f"{name!r} is given twice")
            given[name] = label
    return given


_THRESHOLD = re.compile(r"\s*([^<>=]+?)\s*([<>])=?\s*([^<>=]+?)\s*")
_BETWEEN = re.compile(r"\s*([^<>=]+?)\s*<=?\s*([^<>=]+?)\s*<=?\s*([^<>=]+?)\s*")


def parse_event(word: str) -> dict[str, Any]:
    """``bmi>30``, ``bmi<18.5``, ``18.5<bmi<30``, ``heart=yes`` or a JSON object of such, as targets of a query."""
    if word.lstrip().startswith("{"):
        return _parse_object("--query", word, lists=True)
    if found := _BETWEEN.fullmatch(word):
        low, name, high = found.groups()
        return {name: ("between", _threshold(low, word), _threshold(high, word))}
    if found := _THRESHOLD.fullmatch(word):
        name, sign, number = found.groups()
        return {name: ("above" if sign == ">" else "below", _threshold(number, word))}
    return dict([_split("--query", word, "BP=LOW")])


def _threshold(text: str, word: str) -> float:
    message = f"{word!r} compares with {text!r}, which is no number; write it as --query 'bmi>30'"
    return parsed(float, text, "--query", message)


def as_numbers(known: Mapping[str, str | float], held: set[str], option: str) -> dict[str, str | float]:
    """Text of columns of numbers as numbers."""
    found: dict[str, str | float] = {}
    for name, value in known.items():
        message = f"{name} is {value!r}, and the column holds numbers; give one, as in {name}=50"
        found[name] = parsed(float, str(value), option, message) if name in held else value
    return found


def parse_soft(words: list[str]) -> dict[str, list[float]]:
    """``["BP=0.5,1,2"]`` to a mapping."""
    soft: dict[str, list[float]] = {}
    for word in words:
        name, numbers = _split("--soft", word, "BP=0.5,1,2")
        if name in soft:
            refuse("--soft", f"{name!r} is given twice")
        message = f"{word!r} should be VARIABLE=NUMBER,NUMBER,..., as in --soft BP=0.5,1,2"
        soft[name] = [parsed(float, number, "--soft", message) for number in numbers.split(",")]
    return soft


def _split(option: str, word: str, example: str) -> tuple[str, str]:
    name, equals, rest = word.partition("=")
    if not equals or not name:
        refuse(option, f"{word!r} should be VARIABLE=..., as in {option} {example}")
    return name, rest


def _parse_object(option: str, word: str, *, lists: bool = False) -> dict[str, Any]:
    try:
        found = json.loads(word)
    except (json.JSONDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"{word!r} is no JSON object: {error}", param_hint=option) from None
    for name, label in found.items():
        if isinstance(label, bool) or not isinstance(label, (str, int, list) if lists else (str, int)):
            refuse(option, f"{name!r} has {label!r}; a label is a text")
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


def parse_states(words: list[str] | None, form: str) -> dict[str, int] | None:
    """Numbers of states of what is hidden: ``["cause=2"]`` to a mapping; ``form`` says how each is written."""
    states = parse_numbers("--hidden", words)
    if isinstance(states, int):
        refuse("--hidden", f"{str(states)!r} should be {form}")
    return states


def parse_family(words: list[str] | None) -> str | dict[str, str] | None:
    """``["auto"]`` to auto, ``["type=additive", "weight=auto"]`` to a mapping."""
    if not words or (len(words) == 1 and "=" not in words[0]):
        return words[0] if words else None
    return _named("--family", words, "additive")


def _named(option: str, words: list[str], example: str) -> dict[str, str]:
    """What stands behind the last "=" of each word, by what stands before it, a column."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.rpartition("=")
        if not equals:
            what = "NUMBER" if example.isdigit() else "KIND"
            refuse(option, f"{word!r} should be NAME={what}, as in {option} age={example}")
        if name in found:
            refuse(option, f"column {name!r} is given twice")
        found[name] = value
    return found


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
            refuse(option, f"column {name!r} is given twice")
        else:
            message = f"{word!r} should be cuts with commas between them, as in {option} bmi=18.5,25,30"
            listed = [cut for cut in rule.split(",") if cut]
            cuts[name] = rule if ":" in rule else [parsed(float, cut, option, message) for cut in listed]
    whole = parse_numbers(option, numbers)
    if not cuts:
        return whole
    if isinstance(whole, int):
        refuse(option, f"{numbers[0]!r} should be NAME=NUMBER, as in {option} age=4")
    both = [name for name in whole or {} if name in cuts]
    if both:
        refuse(option, f"column {both[0]!r} is given twice")
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
            refuse(option, f"{word!r} should be SOURCE,TARGET, as in {option} smokes,heart")
        edges.append((names[0], names[1]))
    return edges


def parse_log_odds(option: str, words: list[str] | None) -> float | dict[tuple[str, str], float] | None:
    """``["-2"]`` to a number, ``["a,b=1.5"]`` to a mapping."""
    if not words:
        return None
    if len(words) == 1 and "=" not in words[0]:
        return _number(option, words[0], words[0])
    found: dict[tuple[str, str], float] = {}
    for word in words:
        edge, equals, number = word.rpartition("=")
        if not equals:
            refuse(option, f"{word!r} should be SOURCE,TARGET=NUMBER")
        (names,) = parse_edges(option, [edge])
        if names in found:
            refuse(option, f"the edge {edge!r} is given twice")
        found[names] = _number(option, number, word)
    return found


def _whole(option: str, number: str, word: str) -> int:
    return parsed(int, number, option, f"{word!r} should be a whole number, or NAME=NUMBER, as in {option} age=4")


def _number(option: str, number: str, word: str) -> float:
    return parsed(float, number, option, f"{word!r} should be a number, or SOURCE,TARGET=NUMBER")
