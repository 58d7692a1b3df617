"""Read the JSON in which pgmpy keeps linear Gaussian networks, those of the bnlearn repository among them.

    {"nodes": ["a", "b"], "arcs": [["a", "b"]],
     "cpds": {"a": {"coefficients": {"(Intercept)": [1.5]}, "variance": [0.25], "parents": []},
              "b": {"coefficients": {"(Intercept)": [0.0], "a": [2.0]}, "variance": [1.0], "parents": ["a"]}}}

A standard deviation is the square root of the variance.  Arcs and parents say the same, or the file is refused.  This
form is not written: it has no place for categories.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping

import numpy as np

from doxa.models.gaussian import GaussianNetwork
from doxa.models.network_files.json_text import MAX_AXES, Json, unquoted
from doxa.models.network_files.mixed_draft import REGRESSION, MixedDraft
from doxa.models.network_files.source import Finder, Source, Spans, repeated, shown
from doxa.models.network_files.tables import Numbers

__all__ = ["CPDS_KEYS", "read_cpds"]

CPDS_KEYS = ("nodes", "arcs", "cpds")

_FORM = (
    'a linear Gaussian network is of the form {"nodes": ["a", "b"], "arcs": [["a", "b"]], "cpds": {"b": '
    '{"coefficients": {"(Intercept)": [0.0], "a": [2.0]}, "variance": [1.0], "parents": ["a"]}, ...}}'
)
_OF_CPD = ("coefficients", "variance", "parents")
_INTERCEPT = "(Intercept)"


def read_cpds(source: Source, places: Mapping[str, int]) -> GaussianNetwork:
    """Read a network whose keys stand at the places, or raise `NetworkFileError`."""
    text = Json(source, _FORM)
    for key in (*CPDS_KEYS, *places):
        if key not in places or key not in CPDS_KEYS:
            known = "is not known" if key in places else "is missing"
            text.refuse(f"the key {key!r} {known}; {_FORM}", places.get(key, 0))
    return _Cpds(text, places).read()


class _Cpds:
    def __init__(self, text: Json, places: Mapping[str, int]) -> None:
        self._text, self._source, self._places = text, text.source, places
        self._names = Spans(text.source.text, unquoted)

    def read(self) -> GaussianNetwork:
        """Read nodes, then their dependences, then the arcs, which say the same again."""
        text, names = self._text, self._names
        text.position = self._places["nodes"]
        n, most = text.strings(names, "a node"), self._source.limits.max_variables
        if n > most:
            self._source.refuse_too_many(f"there are {n} variables", n, "max_variables", self._places["nodes"])
        twice = repeated(names)
        if twice is not None:
            cause = f"the variable {shown(names[twice])} is declared twice; take one of the two away"
            text.refuse(cause, names.place(twice))
        self._find = Finder(names, 0, n).find
        labels = Spans(self._source.text, unquoted)
        self._draft = MixedDraft(self._source, names, bytearray([REGRESSION]) * n, array("q", [0]) * n, labels)
        self._given = Numbers(self._source)  # in the order of the file
        self._values = array("d")  # intercept, coefficients in the order of parents, deviation; of each family
        text.position = self._places["cpds"]
        for name in text.keys(None, "cpds"):
            self._take(self._node(name, text.key_place))
        self._draft.check_edges(MAX_AXES)
        self._draft.check()
        self._check_arcs()
        return self._draft.network(np.frombuffer(self._values))

    def _node(self, name: str, place: int) -> int:
        try:
            return self._find(name)
        except KeyError:
            self._text.refuse(f"{shown(name)} is not among the nodes; add it there, or leave it out", place)

    def _take(self, node: int) -> None:
        """Parents, coefficients and variance of a node; rows have intercept, coefficients and deviation."""
        text, begin, given, called = self._text, self._text.key_place, self._given, shown(self._names[node])
        parents, causes = Spans(self._source.text, unquoted), array("i")
        seen, first, variance = set[str](), len(given), -1
        for key in text.keys(_OF_CPD, f"the distribution of {called}"):
            seen.add(key)
            if key == "parents":
                text.strings(parents, "a parent")
            elif key == "variance":
                variance = len(given)
                self._take_one(f"the variance of {called}")
            else:
                first = len(given)
                for name in text.keys(None, f"the coefficients of {called}"):
                    causes.append(-1 if name == _INTERCEPT else self._node(name, text.key_place))
                    self._take_one(f"a coefficient of {called}")
        for key in _OF_CPD:
            if key not in seen:
                text.refuse(f"the distribution of {called} has no {key}; {_FORM}", begin)
        numbers = array("i", (self._node(parents[k], parents.place(k)) for k in range(len(parents))))
        self._draft.add_family(node, numbers, begin)
        order = np.argsort(causes, kind="stable")
        if np.asarray(causes, dtype=np.int64)[order].tolist() != [-1, *sorted(numbers)]:
            cause = f"the coefficients of {called} are not of {_INTERCEPT!r} and of each of its parents, once each"
            text.refuse(f"{cause}; name the same in both", begin)
        values = given.array(first, len(causes))[order]  # intercept, then parents in the order of the nodes
        self._values.extend(values[[0, *(1 + np.argsort(np.argsort(numbers))).tolist()]].tolist())
        self._values.append(math.sqrt(given.values[variance]))

    def _take_one(self, what: str) -> None:
        start, end = self._text.skip_numbers()
        self._text.take_numbers(self._given, start, end, (1,), what)
        value = self._given.values[-1]
        if not np.isfinite(value) or (value < 0 and what.startswith("the variance")):
            rule = "0 or more, and finite" if what.startswith("the variance") else "finite"
            self._text.refuse(f"{what} is {value:.9g}; it must be {rule}", self._given.place(len(self._given) - 1))

    def _check_arcs(self) -> None:
        text, draft, n = self._text, self._draft, len(self._names)
        text.position = self._places["arcs"]
        arcs, ends = array("q"), Spans(self._source.text, unquoted)
        for _ in text.items():
            if text.strings(ends, "an end of an arc") != 2:
                text.refuse(
                    'an arc is a list of two names, ["parent", "child"]',
                    ends.place(len(ends) - 1) if len(ends) else None,
                )
            parent, child = (self._node(ends[k], ends.place(k)) for k in (0, 1))
            ends.cut(0)
            arcs.append(parent * n + child)
        families = (p * n + c for k, c in enumerate(draft.children) for p in draft.parents(k))
        given, known = np.sort(arcs), np.sort(array("q", families))
        if not np.array_equal(given, known):
            odd = np.setxor1d(given, known)
            arc = int(odd[0] if len(odd) else given[1:][given[1:] == given[:-1]][0])
            edge = f"{shown(self._names[arc // n])} -> {shown(self._names[arc % n])}"
            text.refuse(
                f"the arc {edge} does not stand once in arcs and once in cpds; let both say the same",
                self._places["arcs"],
            )
