"""Write XMLBIF, as `doxa.models.network_files.xmlbif` reads it and other programs do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doxa.errors import ArgumentError
from doxa.models.categorical import CategoricalNetwork

__all__ = ["xmlbif_pieces"]

_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\n"): "&#10;", ord("\r"): "&#13;"}
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def xmlbif_pieces(network: CategoricalNetwork) -> Iterator[str]:
    """The text of a network in pieces, numbers with all their digits.

    Raises
    ------
    ArgumentError
        If a name cannot be written so that it comes back: XML has no control characters, and blanks around a name do
        not count.
    """
    names = [_escaped(name) for name in network.names]
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<BIF VERSION="0.3">\n<NETWORK>\n<NAME>unknown</NAME>\n'
    for name, labels in zip(names, network.states, strict=True):
        outcomes = "".join(f"  <OUTCOME>{_escaped(label)}</OUTCOME>\n" for label in labels)
        yield f'<VARIABLE TYPE="nature">\n  <NAME>{name}</NAME>\n{outcomes}</VARIABLE>\n'
    for node, (name, parents) in enumerate(zip(names, network.parents, strict=True)):
        given = "".join(f"  <GIVEN>{names[p]}</GIVEN>\n" for p in parents)
        yield f"<DEFINITION>\n  <FOR>{name}</FOR>\n{given}  <TABLE>\n"
        for row in network.tables[network.names[node]].reshape(-1, network.n_states[node]).tolist():
            yield f"    {' '.join(map(repr, row))}\n"
        yield "  </TABLE>\n</DEFINITION>\n"
    yield "</NETWORK>\n</BIF>\n"


def _escaped(name: str) -> str:
    if _ILLEGAL.search(name):
        raise ArgumentError(
            f"the name {name!r} has a control character in it, which XML has no way to write; rename it"
        )
    if name != name.strip():
        raise ArgumentError(f"the name {name!r} has blanks at its ends, which do not count in XMLBIF; rename it")
    return name.translate(_ESCAPES)
