"""Read and write XMLBIF 0.3: variables with outcomes, definitions with tables.

    <BIF VERSION="0.3"><NETWORK><NAME>unknown</NAME>
    <VARIABLE TYPE="nature"><NAME>lung</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
    <DEFINITION><FOR>lung</FOR><GIVEN>smoke</GIVEN><TABLE>0.1 0.9 0.01 0.99</TABLE></DEFINITION>
    </NETWORK></BIF>

In a table the variable itself varies fastest, then the last of those it is given.  Blanks around names do not count.
Properties are passed over; decisions, utilities and elements of other dialects are refused.

`scan_marks` goes through XML as far as network files need it, and no farther: elements, attributes, text,
character references, the five entities that XML itself defines, comments, CDATA, and a document type that declares
elements.  Entities of the file's own are refused, so nothing can be expanded or fetched; so is what is not nested, and
anything behind the last element.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from doxa.errors import ArgumentError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.network_files.draft import Draft
from doxa.models.network_files.source import Source, check_states, shown
from doxa.models.network_files.tables import Rows, finish

__all__ = ["ESCAPES", "ILLEGAL", "Mark", "Stretches", "read_xmlbif", "scan_marks", "unescaped", "xmlbif_pieces"]

ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\n"): "&#10;", ord("\r"): "&#13;"}
ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def xmlbif_pieces(network: CategoricalNetwork) -> Iterator[str]:
    """The text of a network in pieces, numbers with all their digits; names with control characters or blank ends are
    refused.
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
    if ILLEGAL.search(name):
        raise ArgumentError(
            f"the name {name!r} has a control character in it, which XML has no way to write; rename it"
        )
    if name != name.strip():
        raise ArgumentError(f"the name {name!r} has blanks at its ends, which do not count in XMLBIF; rename it")
    return name.translate(ESCAPES)


_MAX_DEPTH = 16
_NAME = r"[A-Za-z_:][^\s<>/=\"'&;!?]*+"
_ATTRIBUTE = rf"\s++{_NAME}\s*+=\s*+(?:\"[^\"<]*+\"|'[^'<]*+')"
_TAG = re.compile(rf"<(/?+)({_NAME})((?>{_ATTRIBUTE})*+)\s*+(/?+)>")
_DOCTYPE = re.compile(r"<!DOCTYPE(?>[^\[\]<>\"']++|\"[^\"]*+\"|'[^']*+')*+")
_DECLARATION = re.compile(
    r"\s++|<!--(?>[^-]++|-(?!->))*+-->|<\?(?>[^?]++|\?(?!>))*+\?>"
    r"|<!(?:ELEMENT|ATTLIST|NOTATION)(?>[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+>"
)
_DOCTYPE_END = re.compile(r"\]\s*+>")
_TYPE_END = re.compile(">")
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos));|&")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ENDS = (("<!--", "-->", "a comment"), ("<![CDATA[", "]]>", "a CDATA section"), ("<?", "?>", "an instruction"))


class Mark(NamedTuple):
    """The beginning or end of an element, or a stretch of text."""

    kind: str  # "<", ">" or "text"; "cdata" is text without references
    name: str  # of the element; empty for text
    start: int
    end: int  # behind it; attributes of an element stand between the two


class Stretches:
    """Stretches of text in the elements of one name, node by node."""

    def __init__(self) -> None:
        self._starts, self._ends, self._node_ends = array("q"), array("q"), array("q", [0])
        self.n_elements = array("q", [0])  # of each node, and of the one that is open

    def add(self, mark: Mark) -> None:
        """Append a stretch of the node that is open."""
        self._starts.append(mark.start)
        self._ends.append(mark.end)

    def end_node(self) -> None:
        """Close the node that is open; another begins."""
        self._node_ends.append(len(self._starts))
        self.n_elements.append(0)

    def of(self, node: int) -> Iterator[tuple[int, int]]:
        """Begin and end of each stretch of a node."""
        return ((self._starts[k], self._ends[k]) for k in range(*self._node_ends[node : node + 2]))


def scan_marks(source: Source) -> Iterator[Mark]:
    """Go through a file nested as XML is, without entities; an element that closes itself has both marks."""
    text, position, begun = source.text, 0, False
    opened: list[str] = []
    if illegal := ILLEGAL.search(text):
        source.refuse(f"the character {shown(illegal[0])} does not belong in XML", illegal.start())
    while True:
        start = text.find("<", position)
        end = start if start >= 0 else len(text)
        if opened:
            yield Mark("text", "", position, end)
        elif text[position:end].strip():
            place = end - len(text[position:end].lstrip())
            source.refuse("there is text outside of the elements; is it an XML file?", place)
        if start < 0:
            break
        position, mark = _pass_markup(source, start, begun)
        if mark is not None:
            if opened:
                yield mark
            continue
        if position > start:
            continue
        tag = _TAG.match(text, start)
        if tag is None or (tag[1] and (tag[3] or tag[4])):
            source.refuse(f"{shown(text[start : start + 20])} is no element; has the file been cut off?", start)
        position = tag.end()
        if tag[1]:
            if not opened or opened.pop() != tag[2]:
                source.refuse(f"the element {shown(tag[2])} ends here, but is not the last that began", start)
            yield Mark(">", tag[2], start, position)
            continue
        if begun and not opened:
            source.refuse("there is a second element behind the one that holds the network", start)
        begun = True
        yield Mark("<", tag[2], start, position)
        if tag[4]:
            yield Mark(">", tag[2], start, position)
            continue
        opened.append(tag[2])
        if len(opened) > _MAX_DEPTH:
            source.refuse(f"elements are nested more than {_MAX_DEPTH} deep", start)
    if opened:
        source.refuse(f"the element {shown(opened[-1])} does not end: the file has been cut off", len(text))


def _pass_markup(source: Source, start: int, begun: bool) -> tuple[int, Mark | None]:
    """Where a comment, an instruction or a declaration ends, and the text in it; ``start`` for an element."""
    text = source.text
    for opening, closing, what in _ENDS:
        if text.startswith(opening, start):
            inside = start + len(opening)
            end = text.find(closing, inside)
            if end < 0:
                source.refuse(f"{what} is not closed; has the file been cut off?", start)
            mark = Mark("cdata", "", inside, end) if opening == "<![CDATA[" else None
            return end + len(closing), mark
    if text.startswith("<!DOCTYPE", start) and not begun:
        return _pass_doctype(source, start), None
    return start, None


def _pass_doctype(source: Source, start: int) -> int:
    text = source.text
    found = _DOCTYPE.match(text, start)
    assert found is not None  # it begins so
    position = found.end()
    if text[position : position + 1] == "[":
        position += 1
        while found := _DECLARATION.match(text, position):
            position = found.end()
        if text.startswith(("<!ENTITY", "%"), position):
            source.refuse("entities are declared here; they are not read, write the text itself", position)
        found = _DOCTYPE_END.match(text, position)
    else:
        found = _TYPE_END.match(text, position)
    if not found:
        source.refuse("the document type is not of XML, or cut off", position)
    return found.end()


def unescaped(source: Source, mark: Mark) -> str:
    """A stretch of text with its references replaced."""
    text = source.text[mark.start : mark.end].replace("\r\n", "\n").replace("\r", "\n")
    if mark.kind == "cdata" or "&" not in text:
        return text

    def replaced(found: re.Match[str]) -> str:
        decimal, hexadecimal, name = found.groups()
        if name:
            return _ENTITIES[name]
        code = int(decimal) if decimal else int(hexadecimal, 16) if hexadecimal else -1
        if not 0 <= code < 0x110000 or 0xD800 <= code < 0xE000 or ILLEGAL.match(chr(code)):
            source.refuse(f"{shown(found.string[found.start() :])} begins with no reference that XML knows", mark.start)
        return chr(code)

    return _REFERENCE.sub(replaced, text)


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


def read_xmlbif(source: Source) -> CategoricalNetwork:
    """Read a network, or raise `NetworkFileError`."""
    elements = _Elements(source)
    elements.read()
    draft = elements.draft
    elements.add_families()
    draft.check()
    rows = Rows(draft)
    for family in range(len(draft.children)):
        elements.read_table(family, rows)
    return finish(rows)


class _Elements:
    """Declarations, taken element by element."""

    def __init__(self, source: Source) -> None:
        self._labels: list[str] = []
        self.draft = Draft(source, self._labels)
        self._source = source
        self._open: list[Mark] = []
        self._texts: dict[str, list[_Text]] = {}  # of the variable or definition that is open
        self._pieces: list[str] = []  # of the name that is open
        self._networks = 0
        self._families: list[tuple[str, ...]] = []  # of each definition, child first
        self._places = array("q")  # of each definition
        self._tables = Stretches()

    def read(self) -> None:
        """Go through the file: variables go to the draft, definitions are kept till all of them are known."""
        for mark in scan_marks(self._source):
            if mark.kind == "<":
                self._begin(mark)
            elif mark.kind == ">":
                self._end(self._open.pop())
            else:
                self._take(mark)
        if not self._networks:
            self._source.refuse("there is no element NETWORK; is it a file of another format?", 0)

    def add_families(self) -> None:
        """Look up the names of definitions."""
        for (child, *parents), place in zip(self._families, self._places, strict=True):
            number = self.draft.number(child, place)
            self.draft.add_family(number, array("i", (self.draft.number(name, place) for name in parents)), place)

    def read_table(self, family: int, rows: Rows) -> None:
        """Append the numbers of a definition."""
        place, n_tables = self._places[family], self._tables.n_elements[family]
        if n_tables != 1:
            child = shown(self.draft.name(self.draft.children[family]))
            self._source.refuse(f"the definition of {child} has {n_tables} elements TABLE; it has one", place)
        rows.take_table(family, self._tables.of(family), place)

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
            self._tables.n_elements[-1] += 1
        if mark.name in ("VARIABLE", "DEFINITION"):
            self._texts = {}
        self._pieces = []

    def _take(self, mark: Mark) -> None:
        name = self._open[-1].name
        if name == "TABLE":
            if mark.start < mark.end:
                self._tables.add(mark)
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
        before = len(self._labels)
        self._labels.extend(outcome.text for outcome in outcomes)
        check_states(self._source, shown(name.text), self._labels, before, lambda k: outcomes[k - before].place)
        self.draft.add_variable(name.text, len(outcomes), name.place)

    def _add_definition(self, begun: Mark) -> None:
        child = self._one("FOR", begun)
        self._families.append((child.text, *(parent.text for parent in self._texts.get("GIVEN", []))))
        self._places.append(begun.start)
        self._tables.end_node()
