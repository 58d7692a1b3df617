"""Read and write JSON files of networks: nodes with parents, and tables, regressions or log odds.

    {
    "format": "doxa network",
    "version": 1,
    "kind": "Gaussian",
    "nodes": [
    {"name": "smokes", "states": ["no", "yes"], "parents": [], "table": [0.6, 0.4]},
    {"name": "age", "parents": [], "regression": {"intercept": 50.0, "sd": 10.0}},
    {"name": "pressure", "parents": ["smokes", "age"],
     "regression": {"intercept": [80.0, 88.0], "coefficients": [[0.7], [0.7]], "sd": [8.0, 8.0]}}
    ]
    }

A list has an axis for each of the node's parents that is a category, in the order of ``parents``; then, in a table, for
the states of the node, and in log odds (``"log_odds": {"intercept": ..., "coefficients": ...}``) for its states but the
first; then, in coefficients, for the parents that are numbers.  These may leave out coefficients where there are none.
The kind ``"categorical"`` has tables alone.  Nodes and keys may have any order; other keys are refused.

What bnlearn's Gaussian networks come in, ``"nodes"``, ``"arcs"`` and ``"cpds"``, is told apart by these keys.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from doxa.models.categorical import CategoricalNetwork
from doxa.models.gaussian import GaussianNetwork
from doxa.models.network_files.json_cpds import CPDS_KEYS, read_cpds
from doxa.models.network_files.json_text import MAX_AXES, Json, unquoted
from doxa.models.network_files.mixed_draft import (
    LOG_ODDS,
    PARTS,
    REGRESSION,
    TABLE,
    MixedDraft,
    as_categorical,
    refuse_beyond,
    shapes_of,
)
from doxa.models.network_files.source import Finder, Source, Spans, check_states, repeated, shown
from doxa.models.network_files.tables import Rows

__all__ = ["FORMAT", "VERSION", "json_pieces", "read_json"]

FORMAT, VERSION = "doxa network", 1

_FORM = (
    f'a network is of the form {{"format": "{FORMAT}", "version": {VERSION}, "kind": "Gaussian", "nodes": [...]}}, and '
    'a node has "name", "parents", and "states" and "table", "regression" or "log_odds"'
)
_KEYS = ("format", "version", "kind", "nodes")
_KINDS = {"Gaussian", "categorical"}
_OF_NODE = {"name", "parents", "states", "table", "regression", "log_odds"}
_DEPENDENCE = {"table": TABLE, "regression": REGRESSION, "log_odds": LOG_ODDS}
_CALLED = {kind: key for key, kind in _DEPENDENCE.items()}
_MISSING = -1


def read_json(source: Source) -> CategoricalNetwork | GaussianNetwork:
    """Read a network, or raise `NetworkFileError`."""
    text = Json(source, _FORM)
    places = {}
    for key in text.keys({*_KEYS, *CPDS_KEYS}, "the file"):
        places[key] = text.skip()
    if text.take():
        text.refuse("something stands behind the end of the network; take it away")
    if "format" not in places and any(key in places for key in ("arcs", "cpds")):
        return read_cpds(source, places)
    for key in places:
        if key not in _KEYS:
            text.refuse(f"the file has the key {shown(key)}, which is not known; {_FORM}", places[key])
    for key in _KEYS:
        if key not in places:
            text.refuse(f"the file has no key {key!r}; {_FORM}", 0)
        text.position = places[key]
        if key != "nodes":
            _check_head(text, key)
    text.position = places["kind"]
    kind = text.text("the kind")
    text.position = places["nodes"]
    return _Nodes(text).read(kind)


def _check_head(text: Json, key: str) -> None:
    word = text.take()
    if key == "format" and word != f'"{FORMAT}"':
        text.refuse(f'the format is {shown(word)}; it must be "{FORMAT}"')
    if key == "version" and word != str(VERSION):
        text.refuse(
            f"the version is {shown(word)}, and this doxa reads {VERSION}; read the file by the doxa that wrote it, or "
            "by a newer one"
        )
    if key == "kind" and (word[:1] != '"' or unquoted(word if len(word) > 1 else '""') not in _KINDS):
        text.refuse(f'the kind is {shown(word)}; it must be "Gaussian" or "categorical"')


class _Nodes:
    """Nodes in the order of the file: first all of their words, then their numbers, whose shapes are known by then."""

    def __init__(self, text: Json) -> None:
        self._text, self._source = text, text.source
        self._names, self._labels, self._parents = (Spans(text.source.text, unquoted) for _ in range(3))
        self._places, self._parent_ends = array("q"), array("q", [0])
        self._kinds, self._n_states = bytearray(), array("q")
        self._spans = array("q")  # of each node: begin and end of its parts, three at most

    def read(self, kind: str) -> CategoricalNetwork | GaussianNetwork:
        """Read all of them."""
        for k in self._text.items():
            self._text.take()
            self._places.append(self._text.place)
            self._text.position = self._text.place
            if k >= self._source.limits.max_variables:
                self._source.refuse_too_many(
                    f"this is variable number {k + 1}", 2 * (k + 1), "max_variables", self._places[k]
                )
            self._take_node(kind)
        twice = repeated(self._names)
        if twice is not None:
            name, place = shown(self._names[twice]), self._names.place(twice)
            self._text.refuse(f"the variable {name} is declared twice; take one of the two away", place)
        draft = MixedDraft(self._source, self._names, self._kinds, self._n_states, self._labels)
        self._add_families(draft)
        draft.check_edges(MAX_AXES)
        draft.check()
        rows = Rows(draft)
        for family in range(len(self._places)):
            self._take_numbers(draft, rows, family)
        network = draft.network(rows.numbers.array())
        return network if kind == "Gaussian" else as_categorical(network)

    def _take_node(self, kind: str) -> None:
        text, begin, node = self._text, self._places[-1], len(self._kinds)
        spans, n_labels, n_states = array("q", [_MISSING] * 6), len(self._labels), _MISSING
        seen = dict[str, int]()
        dependence = _MISSING
        for key in text.keys(_OF_NODE, "the node"):
            seen[key] = text.key_place
            if key == "name":
                name = text.text("the name of a node")
                self._names.add(text.place, text.position)
            elif key == "parents":
                text.strings(self._parents, "a parent")
            elif key == "states":
                n_states = text.strings(self._labels, "a state")
            elif dependence != _MISSING:
                other = _CALLED[dependence]
                text.refuse(f"the node has both {key!r} and {other!r}; take one of the two away", text.key_place)
            else:
                dependence = _DEPENDENCE[key]
                self._take_parts(dependence, spans)
        if "name" not in seen:
            text.refuse(f"this node has no name; {_FORM}", begin)
        called = shown(name)
        if "parents" not in seen:
            text.refuse(f'{called} has no parents; write "parents": [] where it has none', begin)
        if dependence == _MISSING:
            text.refuse(f"{called} has neither a table nor a regression nor log_odds; {_FORM}", begin)
        if dependence == REGRESSION and "states" in seen:
            cause = f"{called} has states and a regression; a number has no states, a category has a table or log_odds"
            text.refuse(cause, seen["states"])
        if dependence != TABLE and kind == "categorical":
            key = _CALLED[dependence]
            cause = f'{called} has {key!r}, and the network is of the kind "categorical"; let that be "Gaussian"'
            text.refuse(cause, seen[key])
        if dependence != REGRESSION:
            self._check_states(called, n_labels, n_states, dependence, seen.get("states", begin))
        self._kinds.append(dependence)
        self._n_states.append(max(n_states, 0))
        self._parent_ends.append(len(self._parents))
        self._spans.extend(spans)
        assert len(self._names) == node + 1

    def _take_parts(self, dependence: int, spans: array[int]) -> None:
        text = self._text
        if dependence == TABLE:
            spans[0], spans[1] = text.skip_numbers()
            return
        what, parts, begin = _CALLED[dependence], PARTS[dependence], text.key_place
        for part in text.keys(parts, f"the {what}"):
            at = 2 * parts.index(part)
            spans[at], spans[at + 1] = text.skip_numbers()
        for k, part in enumerate(parts):
            if part != "coefficients" and spans[2 * k] == _MISSING:
                text.refuse(f"this {what} has no {part}; give it", begin)

    def _check_states(self, called: str, first: int, n_states: int, dependence: int, place: int) -> None:
        if n_states <= 0:
            self._text.refuse(f"{called} is a category and has no states; name them", place)
        if n_states < 2 and dependence == LOG_ODDS:
            self._text.refuse(f"{called} has log_odds and one state; it needs two or more", place)
        if len(self._labels) > self._source.limits.max_states:
            n = len(self._labels)
            self._source.refuse_too_many(f"the variables up to here have {n} states", 2 * n, "max_states", place)
        check_states(self._source, called, self._labels, first, self._labels.place)

    def _add_families(self, draft: MixedDraft) -> None:
        find = Finder(self._names, 0, len(self._names)).find
        for node, place in enumerate(self._places):
            parents = array("i")
            for k in range(self._parent_ends[node], self._parent_ends[node + 1]):
                try:
                    parents.append(find(self._parents[k]))
                except KeyError:
                    cause = f"{shown(draft.name(node))} has the parent {shown(self._parents[k])}, which is no node"
                    self._text.refuse(f"{cause}; add it to the nodes, or leave it out", self._parents.place(k))
            draft.add_family(node, parents, place)

    def _take_numbers(self, draft: MixedDraft, rows: Rows, family: int) -> None:
        called, kind = shown(draft.name(family)), self._kinds[family]
        n_numbers = draft.sizes(family)[1]
        for k, (part, shape) in enumerate(zip(PARTS[kind], shapes_of(draft, family), strict=True)):
            start, end = self._spans[6 * family + 2 * k : 6 * family + 2 * k + 2]
            what, before = f"the {part} of {called}", len(rows.numbers)
            if start != _MISSING:
                self._text.take_numbers(rows.numbers, start, end, shape, what)
            elif n_numbers:
                self._text.refuse(f"{called} has parents that are numbers, and no coefficients", draft.place(family))
            if kind != TABLE:
                refuse_beyond(rows, before, len(rows.numbers) - before, what, negative=part != "sd")
        rows.end_table()
        if kind == TABLE:
            rows.written(family).normalise()


def json_pieces(network: CategoricalNetwork | GaussianNetwork) -> Iterator[str]:
    """The text of a network in pieces, a line for each node, numbers with all their digits."""
    kind = "Gaussian" if isinstance(network, GaussianNetwork) else "categorical"
    yield f'{{\n"format": "{FORMAT}",\n"version": {VERSION},\n"kind": "{kind}",\n"nodes": ['
    for node, (name, labels) in enumerate(zip(network.names, network.states, strict=True)):
        on = network.parents[node]
        own: dict[str, Any] = {"name": name} | ({"states": labels} if labels else {})
        own["parents"] = [network.names[p] for p in on]
        if name in network.tables:
            own["table"] = network.tables[name].tolist()
        elif isinstance(network, GaussianNetwork):
            dependence = network.log_odds.get(name) or network.regressions[name]
            parts = {part: np.asarray(value).tolist() for part, value in dependence._asdict().items()}
            if all(network.states[p] for p in on):
                del parts["coefficients"]
            own["log_odds" if labels else "regression"] = parts
        yield ("," if node else "") + "\n" + json.dumps(own, ensure_ascii=False, allow_nan=False)
    yield "\n]\n}\n"
