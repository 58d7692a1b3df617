"""Read XMLBIF 0.3: variables with outcomes, definitions with tables.

    <BIF VERSION="0.3"><NETWORK><NAME>unknown</NAME>
    <VARIABLE TYPE="nature"><NAME>lung</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
    <DEFINITION><FOR>lung</FOR><GIVEN>smoke</GIVEN><TABLE>0.1 0.9 0.01 0.99</TABLE></DEFINITION>
    </NETWORK></BIF>

In a table the variable itself varies fastest, then the last of those it is given.  Blanks around names do not count.
Properties are passed over; decisions, utilities and elements of other dialects are refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from doxa.models.categorical import CategoricalNetwork
from doxa.models.network_files.draft import Draft
from doxa.models.network_files.numbers import Numbers
from doxa.models.network_files.source import Source, shown
from doxa.models.network_files.tables import Rows, finish
from doxa.models.network_files.xml_marks import Mark, scan_marks, unescaped

__all__ = ["read_xmlbif"]

_INSIDE = {
    "": {"BIF"},
    "BIF": {"NETWORK"},
    "NETWORK": {"NAME", "PROPERTY", "VARIABLE", "DEFINITION"},
    "VARIABLE": {"NAME", "OUTCOME", "PROPERTY"},
    "DEFINITION": {"FOR", "GIVEN", "TABLE", "PROPERTY"},
}
_TYPE = re.compile(r"""\sTYPE\s*+=\s*+["']([^"']*+)["']""")


class _Text(NamedTuple):
    text: str
    place: int


class _Definition(NamedTuple):
    tables: list[list[Mark]]  # stretches of numbers
    place: int


def read_xmlbif(source: Source) -> CategoricalNetwork:
    """Read a network.

    Raises
    ------
    NetworkFileError
        If the text is of another form, or no network.
    """
    draft = Draft(source)
    definitions = _Elements(source, draft).read()
    draft.check()
    rows = {child: _read_table(draft, child, definition) for child, definition in definitions.items()}
    return finish(draft, rows)


class _Elements:
    """Declarations, taken element by element."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source, self._draft = source, draft
        self._open: list[Mark] = []
        self._texts: dict[str, list[_Text]] = {}  # of the variable or definition that is open
        self._tables: list[list[Mark]] = []
        self._pieces: list[str] = []  # of the name that is open
        self._definitions: dict[str, _Definition] = {}
        self._networks = 0

    def read(self) -> dict[str, _Definition]:
        """Tables by child, unread; variables and families go to the draft."""
        for mark in scan_marks(self._source):
            if mark.kind == "<":
                self._begin(mark)
            elif mark.kind == ">":
                self._end(self._open.pop())
            else:
                self._take(mark)
        if not self._networks:
            self._source.refuse("there is no element NETWORK; is it a file of another format?", 0)
        return self._definitions

    def _begin(self, mark: Mark) -> None:
        outer = self._open[-1].name if self._open else ""
        if mark.name not in _INSIDE.get(outer, set()):
            inside = f" in {outer}" if outer else ", and XMLBIF begins with BIF"
            self._source.refuse(f"the element {shown(mark.name)} is not expected here{inside}", mark.start)
        self._open.append(mark)
        if mark.name == "NETWORK":
            self._networks += 1
            if self._networks > 1:
                self._source.refuse("there is a second NETWORK; keep one of the two", mark.start)
        elif mark.name == "VARIABLE":
            kind = _TYPE.search(self._source.text, mark.start, mark.end)
            if kind and kind[1] != "nature":
                cause = f"a variable is of the type {shown(kind[1])}; only networks of type 'nature' are read"
                self._source.refuse(cause, mark.start)
        elif mark.name == "TABLE":
            self._tables.append([])
        if mark.name in ("VARIABLE", "DEFINITION"):
            self._texts, self._tables = {}, []
        self._pieces = []

    def _take(self, mark: Mark) -> None:
        name = self._open[-1].name
        if name == "TABLE":
            self._tables[-1].append(mark)
        elif name not in _INSIDE:
            if name != "PROPERTY":
                self._pieces.append(unescaped(self._source, mark))
        elif self._source.text[mark.start : mark.end].strip():
            self._source.refuse(f"there is text in {name} outside of its elements", mark.start)

    def _end(self, begun: Mark) -> None:
        if begun.name == "VARIABLE":
            self._add_variable(begun)
        elif begun.name == "DEFINITION":
            self._add_definition(begun)
        elif begun.name in ("NAME", "OUTCOME", "FOR", "GIVEN") and self._open[-1].name != "NETWORK":
            text = "".join(self._pieces).strip()
            if not text:
                self._source.refuse(f"the element {begun.name} is empty; it holds a name", begun.start)
            self._texts.setdefault(begun.name, []).append(_Text(text, begun.start))

    def _one(self, what: str, begun: Mark) -> _Text:
        found = self._texts.get(what, [])
        if len(found) != 1:
            self._source.refuse(f"this {begun.name} has {len(found)} elements {what}; it has one", begun.start)
        return found[0]

    def _add_variable(self, begun: Mark) -> None:
        name = self._one("NAME", begun)
        outcomes = self._texts.get("OUTCOME", [])
        if not outcomes:
            self._source.refuse(f"the variable {shown(name.text)} has no OUTCOME; give its states", begun.start)
        seen: set[str] = set()
        for outcome in outcomes:
            if outcome.text in seen:
                cause = f"{shown(name.text)} has the state {shown(outcome.text)} more than once; states must differ"
                self._source.refuse(cause, outcome.place)
            seen.add(outcome.text)
        self._draft.add_variable(name.text, [outcome.text for outcome in outcomes], name.place)

    def _add_definition(self, begun: Mark) -> None:
        child = self._one("FOR", begun)
        parents = [parent.text for parent in self._texts.get("GIVEN", [])]
        self._draft.add_family(child.text, parents, begun.start)
        self._definitions[child.text] = _Definition(self._tables, begun.start)


def _read_table(draft: Draft, child: str, definition: _Definition) -> Rows:
    if len(definition.tables) != 1:
        cause = f"the definition of {shown(child)} has {len(definition.tables)} elements TABLE; it has one"
        draft.source.refuse(cause, definition.place)
    numbers = Numbers(draft.source)
    for mark in definition.tables[0]:
        numbers.take(mark.start, mark.end)
    n_expected = len(draft.states[child]) * draft.n_configurations(child)
    if len(numbers) != n_expected:
        cause = f"there are {len(numbers)} numbers for {shown(child)}, and there should be {n_expected}"
        draft.source.refuse(cause, definition.place)
    return Rows(numbers)
