"""Options that give numbers to nodes: ``10``, or ``heart=0.5`` for one node and ``age=learned`` for another.

The last equals sign counts, so that names may hold others.
"""

from __future__ import annotations

import typer

__all__ = ["parse_node_values", "parse_value"]


def parse_value(option: str, word: str, learned: bool = False) -> float | str:
    """``"0.5"`` to a number; ``"learned"`` as it is, where it may stand."""
    if learned and word == "learned":
        return word
    try:
        return float(word)
    except ValueError:
        rule = "'learned', a number" if learned else "a number"
        raise typer.BadParameter(
            f"{word!r} should be {rule}, or NODE=NUMBER, as in {option} heart=0.5", param_hint=option
        ) from None


def parse_node_values(option: str, words: list[str], learned: bool = False) -> dict[str, float | str]:
    """``["heart=0.5", "age=learned"]`` to a mapping."""
    parsed: dict[str, float | str] = {}
    for word in words:
        node, equals, value = word.rpartition("=")
        if not equals or not node:
            raise typer.BadParameter(f"{word!r} should be NODE=NUMBER, as in {option} heart=0.5", param_hint=option)
        if node in parsed:
            raise typer.BadParameter(f"node {node!r} is given twice", param_hint=option)
        parsed[node] = parse_value(option, value, learned)
    return parsed
