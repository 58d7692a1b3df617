"""The files that the page is made of: our own, and the two libraries that are fetched when doxa is built."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from doxa.errors import DoxaError

__all__ = ["AssetsMissingError", "Library", "libraries", "own_text"]

_FETCH = "python scripts/fetch_page_assets.py"


class AssetsMissingError(DoxaError, FileNotFoundError):
    """The libraries that the report draws with are not in this installation."""


class Library(NamedTuple):
    """A library that is bundled into the page."""

    name: str
    version: str
    script: str
    style: str  # may be empty
    licence: str


def own_text(name: str) -> str:
    """One of our own files."""
    return _plain_lines((files("doxa.report") / "assets" / name).read_text(encoding="utf-8"))


@cache
def libraries() -> tuple[Library, ...]:
    """Cytoscape.js and uPlot, with their licences.

    Raises
    ------
    AssetsMissingError
        If they were not fetched.
    """
    folder = files("doxa.report") / "assets" / "vendor"
    found = []
    try:
        for entry in json.loads((folder / "libraries.json").read_text(encoding="utf-8")):
            texts = [
                _plain_lines((folder / entry[part]).read_text(encoding="utf-8")) if entry.get(part) else ""
                for part in ("script", "style", "licence")
            ]
            found.append(Library(entry["name"], entry["version"], *texts))
    except FileNotFoundError:
        raise AssetsMissingError(
            "the libraries that draw the report, Cytoscape.js and uPlot, are not in this installation of doxa; "
            f"in its source folder run: {_FETCH} (it needs npm; released wheels hold them)"
        ) from None
    return tuple(found)


def _plain_lines(text: str) -> str:
    """Lines that end as HTML parsers read them: hashes are of what is read."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
