"""Names that a format cannot hold: other words stand in their place, and comments keep the names.

UAI has no names at all; NET, DSC and XDSL have words of letters, digits and underlines.  A comment for each variable,
which other programs pass over, gives its name and those of its states: ``# variable 0: ["wet grass", "no", "yes"]``.
The number is the variable's place in the network; the comments stand in the order of the file.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from doxa.models.categorical import CategoricalNetwork
from doxa.models.dag import Dag
from doxa.models.factors import DiscreteNetwork
from doxa.models.network_files.json_text import unquoted
from doxa.models.network_files.source import Source, Spans, repeated
from doxa.models.network_files.tables import Rows, finish

__all__ = ["Names", "finish_renamed", "name_comments", "quotable", "read_names", "words_for"]

_NAMES = re.compile(r"(?:#[ \t]*+|(?:%|//|<!--) (?=variable [0-9]{1,9}: \[))variable[ \t]++([0-9]{1,9}):([^\n]*+)")
_STRING = r'"(?>[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))++"'  # of JSON
_STRINGS = re.compile(
    rf"[ \t\r]*+\[[ \t\r]*+{_STRING}(?>[ \t\r]*+,[ \t\r]*+{_STRING})*+[ \t\r]*+\][ \t\r]*+(?>-->\r?+)?+"
)
_EACH = re.compile(_STRING)
_IS_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*+")
_NO_WORD = re.compile(r"[^A-Za-z0-9]++")
_NO_QUOTE = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029]')


class Names(NamedTuple):
    """What comments call variables and states."""

    names: Spans  # of the variables
    labels: Spans  # of all their states, one variable after the other


def read_names(source: Source, n_states: Sequence[int]) -> Names | None:
    """Names and labels, where comments give them."""
    text, places = source.text, array("q", [-1]) * len(n_states)
    for found in _NAMES.finditer(text):
        i = int(found[1])
        start, end = found.span(2)
        n_names = 0
        if i < len(n_states) and places[i] < 0 and _STRINGS.fullmatch(text, start, end):
            n_names = sum(1 for _ in _EACH.finditer(text, start, end))
        if n_names != (n_states[i] + 1 if n_names else -1):
            source.refuse(f"this comment should give variable {i} its name and those of its states", found.start())
        places[i] = found.start()
    if max(places) < 0:
        return None
    missing = next((i for i, place in enumerate(places) if place < 0), None)
    if missing is not None:
        source.refuse(f"comments name variables, but not variable {missing}; name all of them or none")
    return _take_names(source, places)


def _take_names(source: Source, places: array[int]) -> Names:
    text = source.text
    given = Names(Spans(text, unquoted), Spans(text, unquoted))
    for i, place in enumerate(places):
        found = _NAMES.match(text, place)
        assert found is not None  # as before
        spans, before = given.names, len(given.labels)
        for string in _EACH.finditer(text, *found.span(2)):
            spans.add(*string.span())
            spans = given.labels
        if repeated(given.labels, before) is not None:
            source.refuse(f"this comment gives two states of variable {i} one name", place)
    if repeated(given.names) is not None:
        source.refuse("comments give two variables one name")
    return given


def finish_renamed(rows: Rows, source: Source) -> CategoricalNetwork:
    """Make the network, with the names and in the order that comments give; as the file has it where there are none."""
    numbers, n_states = [int(found[1]) for found in _NAMES.finditer(source.text)], rows.draft.n_states
    if not numbers:
        return finish(rows)
    if sorted(numbers) != list(range(len(n_states))):
        source.refuse(f"comments name variables; they should name each of the {len(n_states)} once, or none")
    order = np.argsort(numbers).tolist()  # of each place in the network: the place in the file
    given = read_names(source, [n_states[i] for i in order])
    assert given is not None  # they are there
    network = finish(rows)  # which takes more than all the rest
    names, labels = list(given.names), iter(given.labels)
    states = {name: [next(labels) for _ in network.states[i]] for name, i in zip(names, order, strict=True)}
    tables = {}
    for name, i in zip(names, order, strict=True):
        parents = [numbers[p] for p in network.parents[i]]
        axes = [*np.argsort(parents).tolist(), len(parents)]
        tables[name] = network.tables[network.names[i]].transpose(axes)
    return CategoricalNetwork(Dag(network.dag.adjacency[np.ix_(order, order)], names), tables, states)


def _is_word(name: str) -> bool:
    """Whether a name begins with a letter, and has letters, digits and underlines alone."""
    return _IS_WORD.fullmatch(name) is not None


def words_for(names: Sequence[str], reserved: frozenset[str] = frozenset()) -> list[str]:
    """The names, with words in the place of those that are none, or reserved."""

    def word(name: str) -> str:
        made = _NO_WORD.sub("_", name).strip("_")
        return made if _is_word(made) and made not in reserved else f"X_{made}".rstrip("_")

    return _substituted(names, [name if _is_word(name) and name not in reserved else word(name) for name in names])


def quotable(labels: Sequence[str]) -> list[str]:
    """The labels, with underlines in the place of what cannot stand between double quotes."""
    return _substituted(labels, [_NO_QUOTE.sub("_", label) for label in labels])


def _substituted(names: Sequence[str], made: Sequence[str]) -> list[str]:
    """What was made of the names; what is not the name itself is numbered where it stands there already."""
    taken, latest, all_different = set(names), dict[str, int](), []
    for name, stem in zip(names, made, strict=True):
        new = stem
        while new != name and new in taken:
            latest[stem] = latest.get(stem, 1) + 1
            new = f"{stem}_{latest[stem]}"
        taken.add(new)
        all_different.append(new)
    return all_different


def name_comments(
    network: DiscreteNetwork,
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    begin: str,
    end: str = "",
    order: Sequence[int] | None = None,
) -> Iterator[str]:
    """Comments, a line each, that keep the names of a network, and its order, where a file has others."""
    in_order = range(len(names))
    same = all(list(new) == list(old) for new, old in zip(states, network.states, strict=True))
    if same and list(names) == list(network.names) and (order is None or list(order) == list(in_order)):
        return
    yield "\n"
    for i in in_order if order is None else order:
        listed = json.dumps([network.names[i], *network.states[i]])
        yield f"{begin}variable {i}: {listed.replace('-', chr(92) + 'u002d') if end else listed}{end}\n"
