"""Options of Gibbs sampling in blocks: ``tub,lung`` for a block, a JSON object for a choice, ``1,2,1`` for weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from doxa.words import parse_names

if TYPE_CHECKING:
    from doxa.inference import ChosenBy

__all__ = ["parse_blocks", "parse_scan"]


def parse_blocks(option: str, words: list[str]) -> list[list[str] | ChosenBy]:
    """``["tub,lung", '{"smoke": {"yes": [["tub"]], "no": []}}']`` to blocks; names with commas in quotes."""
    return [_choice(option, word) if word.lstrip().startswith("{") else parse_names(option, word) for word in words]


def parse_scan(word: str) -> Any:
    """``"1,2,1"`` to weights; any other word as it is, for `doxa.infer` to judge."""
    try:
        return [float(weight) for weight in word.split(",")]
    except ValueError:
        return word


def _choice(option: str, word: str) -> ChosenBy:
    from doxa.inference import ChosenBy

    try:
        found: dict[str, Any] = json.loads(word)
    except (json.JSONDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"{word!r} is no JSON object: {error}", param_hint=option) from None
    if len(found) != 1:
        raise typer.BadParameter(
            f'{word!r} has {len(found)} names; one variable chooses, as in {{"smoke": {{"yes": [["tub"]], "no": []}}}}',
            param_hint=option,
        )
    ((variable, blocks),) = found.items()
    return ChosenBy(variable, blocks)
