"""Elements and text of an XML file, one after the other, with their places.

What network files need of XML and no more: elements, attributes, text, character references, the five entities that XML
itself defines, comments, CDATA, and a document type that declares elements.  Entities of the file's own are refused, so
nothing can be expanded or fetched; so is what is not nested, and anything behind the last element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from doxa.models.network_files.source import Source, shown

__all__ = ["Mark", "scan_marks", "unescaped"]

_MAX_DEPTH = 16
_NAME = r"[A-Za-z_:][^\s<>/=\"'&;!?]*+"
_ATTRIBUTE = rf"\s++{_NAME}\s*+=\s*+(?:\"[^\"<]*+\"|'[^'<]*+')"
_TAG = re.compile(rf"<(/?+)({_NAME})((?:{_ATTRIBUTE})*+)\s*+(/?+)>")
_DOCTYPE = re.compile(r"<!DOCTYPE(?:[^\[\]<>\"']++|\"[^\"]*+\"|'[^']*+')*+")
_DECLARATION = re.compile(
    r"\s++|<!--(?:[^-]++|-(?!->))*+-->|<\?(?:[^?]++|\?(?!>))*+\?>"
    r"|<!(?:ELEMENT|ATTLIST|NOTATION)(?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+>"
)
_DOCTYPE_END = re.compile(r"\]\s*+>")
_TYPE_END = re.compile(">")
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos));|&")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ENDS = (("<!--", "-->", "a comment"), ("<![CDATA[", "]]>", "a CDATA section"), ("<?", "?>", "an instruction"))


class Mark(NamedTuple):
    """The beginning or end of an element, or a stretch of text."""

    kind: str  # "<", ">" or "text"; "cdata" is text without references
    name: str  # of the element; empty for text
    start: int
    end: int  # behind it; attributes of an element stand between the two


def scan_marks(source: Source) -> Iterator[Mark]:
    """Go through a file; an element that closes itself has both marks.

    Raises
    ------
    NetworkFileError
        If the file is not nested as XML is, or declares entities.
    """
    text, position, begun = source.text, 0, False
    opened: list[str] = []
    if illegal := _ILLEGAL.search(text):
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
        if not 0 <= code < 0x110000 or 0xD800 <= code < 0xE000 or _ILLEGAL.match(chr(code)):
            source.refuse(f"{shown(found.string[found.start() :])} begins with no reference that XML knows", mark.start)
        return chr(code)

    return _REFERENCE.sub(replaced, text)
