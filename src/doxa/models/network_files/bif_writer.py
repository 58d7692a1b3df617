"""Write BIF, as `doxa.models.network_files.bif` reads it and other programs do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from doxa.errors import ArgumentError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.network_files.bif import KEYWORDS

__all__ = ["bif_pieces"]

_PLAIN = re.compile(r"[A-Za-z0-9_.+-]++")


def bif_pieces(network: CategoricalNetwork) -> Iterator[str]:
    """The text of a network in pieces, numbers with all their digits.

    Names of other than letters, digits and ``_.+-`` stand in double quotes, which not every program reads.

    Raises
    ------
    ArgumentError
        If a name cannot be written so that it comes back: the format has no way to write a quote within quotes.
    """
    names = [_quoted(name) for name in network.names]
    states = [[_quoted(label) for label in labels] for labels in network.states]
    yield "network unknown {\n}\n"
    for name, labels in zip(names, states, strict=True):
        yield f"variable {name} {{\n  type discrete [ {len(labels)} ] {{ {', '.join(labels)} }};\n}}\n"
    for node, (name, parents) in enumerate(zip(names, network.parents, strict=True)):
        rows = network.tables[network.names[node]].reshape(-1, len(states[node])).tolist()
        if not parents:
            yield f"probability ( {name} ) {{\n  table {_listed(rows[0])};\n}}\n"
            continue
        yield f"probability ( {name} | {', '.join(names[p] for p in parents)} ) {{\n"
        for configuration, row in zip(product(*(states[p] for p in parents)), rows, strict=True):
            yield f"  ({', '.join(configuration)}) {_listed(row)};\n"
        yield "}\n"


def _listed(row: list[float]) -> str:
    return ", ".join(map(repr, row))


def _quoted(name: str) -> str:
    if _PLAIN.fullmatch(name) and name not in KEYWORDS:
        return name
    if any(mark in name for mark in '"\n\r'):
        raise ArgumentError(
            f"the name {name!r} has a quote or a line end in it, which BIF has no way to write; "
            "rename it, or write XMLBIF (.xml)"
        )
    return f'"{name}"'
