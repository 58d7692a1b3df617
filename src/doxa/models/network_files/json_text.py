"""`Json`: a text of JSON, taken value by value by who knows what should stand there.

No tree is made of it: two characters of JSON may be a list of sixty bytes.  Texts are kept by their places, numbers in
one array, and lists of numbers are only passed over until their shape is known.  Every pattern is possessive, nothing
is recursive but lists of numbers, whose depth is given, so time is linear in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Sequence
from typing import NoReturn

from doxa.models.network_files.source import Source, Spans, shown
from doxa.models.network_files.tables import Numbers

__all__ = ["MAX_AXES", "Json", "unquoted"]

MAX_AXES = 60  # of a list of lists: an array has at most 64

_BLANK = r"[ \t\r\n]*+"
_PLAIN = r'[^"\\\x00-\x1f]*+'
_STRING = rf'"{_PLAIN}(?>\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{{4}}){_PLAIN})*+"'
_NUMBER = r"-?+(?:0|[1-9][0-9]*+)(?>\.[0-9]++)?+(?>[eE][+-]?+[0-9]++)?+"
_TOKEN = re.compile(rf'{_BLANK}({_STRING}|[^\s\[\]{{}}:,"]++|\Z|.)', re.DOTALL)
_ITEM = re.compile(rf"{_BLANK}({_STRING}){_BLANK}([,\]])")
_EMPTY = re.compile(rf"{_BLANK}\]")
_NUMBERS = re.compile(rf"{_BLANK}([\[\]0-9eE+\-., \t\r\n]*+)")
_ONE = re.compile(_NUMBER)
_ROW = re.compile(rf"{_BLANK}(?>({_NUMBER}{_BLANK}(?>,{_BLANK}{_NUMBER}{_BLANK})*+))?+")
_NESTED = re.compile(r'"(?>[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_LONG = 2**14


class Json:
    """The values of a text, taken one after the other; ``form`` says in messages what a file looks like."""

    def __init__(self, source: Source, form: str) -> None:
        self.source, self._form = source, form
        self.position = 0  # behind the last word
        self.place = 0  # of the last word
        self.key_place = 0  # of the last key

    def refuse(self, cause: str, place: int | None = None) -> NoReturn:
        """Raise, naming a place: that of the last word if left out."""
        self.source.refuse(cause, self.place if place is None else place)

    def take(self) -> str:
        """The next mark, text with its quotes, or word; empty at the end."""
        found = _TOKEN.match(self.source.text, self.position)
        assert found is not None  # any character is a word
        self.place, self.position = found.span(1)
        return found[1]

    def expect(self, mark: str) -> None:
        """Take a mark that has to stand here."""
        word = self.take()
        if word != mark:
            self._refuse_word(word, repr(mark))

    def keys(self, known: Container[str] | None, what: str) -> Iterator[str]:
        """Keys of the object that begins here; whoever gets one takes its value before asking for the next.

        None knows all keys, and lets them stand there twice.
        """
        self.expect("{")
        seen = set[str]()
        word = self.take()
        while word != "}":
            if word[:1] != '"' or len(word) < 2:
                self._refuse_word(word, "a key in double quotes")
            key = unquoted(word)
            self.key_place = self.place
            if known is not None:
                if key not in known:
                    self.refuse(f"{what} has the key {shown(key)}, which is not known; {self._form}")
                if key in seen:
                    self.refuse(f"{what} has the key {shown(key)} more than once; take one of them away")
                seen.add(key)
            self.expect(":")
            yield key
            word = self.take()
            if word == "}":
                return
            if word != ",":
                self._refuse_word(word, "',' or '}'")
            word = self.take()
            if word == "}":
                self._refuse_word(word, "a key in double quotes")

    def items(self) -> Iterator[int]:
        """Numbers of the values of the list that begins here; whoever gets one takes the value."""
        self.expect("[")
        found = _EMPTY.match(self.source.text, self.position)
        if found is not None:
            self.position = found.end()
            return
        k = 0
        while True:
            yield k
            word = self.take()
            if word == "]":
                return
            if word != ",":
                self._refuse_word(word, "',' or ']'")
            k += 1

    def text(self, what: str) -> str:
        """The text that has to stand here; it is not empty."""
        word = self.take()
        if word[:1] != '"' or len(word) < 2:
            self._refuse_word(word, f"{what} in double quotes")
        self._check_text(self.place, self.position, what)
        return unquoted(word)

    def strings(self, spans: Spans, what: str) -> int:
        """Append the texts of the list that begins here, and return how many there are."""
        text, before = self.source.text, len(spans)
        self.expect("[")
        found = _EMPTY.match(text, self.position)
        if found is not None:
            self.position = found.end()
            return 0
        while True:
            found = _ITEM.match(text, self.position)
            if found is None:
                word = self.take()
                if word[:1] != '"' or len(word) < 2:
                    self._refuse_word(word, f"{what} in double quotes")
                self._refuse_word(self.take(), "',' or ']'")
            start, end = found.span(1)
            self._check_text(start, end, what)
            spans.add(start, end)
            self.position = found.end()
            if found[2] == "]":
                return len(spans) - before

    def skip(self) -> int:
        """Pass over a value, whatever it holds, and return where it begins."""
        word, begin = self.take(), self.place
        if not word or word in "]}:,":
            self._refuse_word(word, "a value")
        depth = 0
        if word in "[{":
            for found in _NESTED.finditer(self.source.text, self.place):
                mark = found[0]
                depth += 1 if mark in "[{" else -1 if mark in "]}" else 0
                if not depth:
                    self.position = found.end()
                    break
        if depth:
            self.refuse("the file ends before what begins here is closed: it has been cut off", begin)
        return begin

    def skip_numbers(self) -> tuple[int, int]:
        """Pass over a number, or over lists of numbers, and return begin and end."""
        text = self.source.text
        found = _NUMBERS.match(text, self.position)
        assert found is not None  # nothing at all matches
        start, end = found.span(1)
        while end > start and text[end - 1] in " \t\r\n,":
            end -= 1
        odd = text[found.end() : found.end() + 1] not in ("", "}", '"')
        if end == start or odd or text.count("[", start, end) != text.count("]", start, end):
            self.position = found.end()
            while self.position > start and text[self.position - 1] not in "[], \t\r\n":
                self.position -= 1  # to where the word begins
            self._refuse_word(self.take(), "a number")
        self.place, self.position = start, end
        return start, end

    def take_numbers(self, numbers: Numbers, start: int, end: int, shape: Sequence[int], what: str) -> None:
        """Append the numbers between two places, which are lists of lists of a shape."""
        self.position = start
        if shape:
            self._take_lists(numbers, end, shape, 0, what)
        else:
            found = _ONE.match(self.source.text, start, end)
            if found is None:
                self._refuse_shape(start, shape, what)
            numbers.add(start, found[0])
            self.position = found.end()
        if self.position < end:
            self._refuse_shape(self.position, shape, what)

    def _take_lists(self, numbers: Numbers, end: int, shape: Sequence[int], axis: int, what: str) -> None:
        text = self.source.text
        self._expect_in(end, "[", shape, what)
        if axis < len(shape) - 1:
            for k in range(shape[axis]):
                if k:
                    self._expect_in(end, ",", shape, what)
                self._take_lists(numbers, end, shape, axis + 1, what)
            self._expect_in(end, "]", shape, what)
            return
        start, before = self.position, len(numbers)
        found = _ROW.match(text, start, end)
        assert found is not None  # blanks match
        stop = found.end()
        if text[stop : stop + 1] != "]" or stop >= end:
            self.position = stop + (found[1] is not None and text[stop : stop + 1] == ",")
            word = self.take()
            if word == "[" or self.place >= end:
                self._refuse_shape(self.place, shape, what)
            self._refuse_word(word, "a number")
        if stop - start > _LONG:
            numbers.take(start, stop)
        elif stop > start:
            numbers.add(start, text[start:stop])
        if len(numbers) - before != shape[-1]:
            self._refuse_shape(start, shape, what)
        self.position = stop + 1

    def _expect_in(self, end: int, mark: str, shape: Sequence[int], what: str) -> None:
        word = self.take() if self.position < end else ""
        if word != mark:
            self._refuse_shape(self.place if word else end, shape, what)

    def _refuse_shape(self, place: int, shape: Sequence[int], what: str) -> NoReturn:
        wanted = "one number, without brackets"
        if len(shape) == 1:
            wanted = f"a list of length {shape[0]}"
        elif shape:
            lengths = ", ".join(map(str, shape if len(shape) <= 8 else (*shape[:7], "...")))
            wanted = f"lists in lists, {len(shape)} deep, of lengths {lengths}: one for each parent that is a category"
        self.refuse(f"{what} should be {wanted}", place)

    def _check_text(self, start: int, end: int, what: str) -> None:
        if end - start == 2:
            self.refuse(f"{what} is empty; give it a name", start)
        if self.source.text.find("\\", start, end) >= 0:
            try:
                unquoted(self.source.text[start:end]).encode()
            except UnicodeEncodeError:
                self.refuse(f"{what} has half a character in it; write both halves, or the character itself", start)

    def _refuse_word(self, word: str, wanted: str) -> NoReturn:
        if not word:
            self.refuse(f"the file ends where {wanted} should stand: it has been cut off")
        called = "a text that is not closed, or has an unknown escape or a control character in it,"
        if word != '"':
            called = shown(word)
        more = f"; {self._form}"
        if wanted == "a number":
            more = "; JSON has numbers such as -1, 0.5 and 1e-9, and neither nan nor inf"
        self.refuse(f"{called} stands where {wanted} should{more}")


def unquoted(text: str) -> str:
    """What a text of JSON in its quotes stands for."""
    return str(json.loads(text)) if "\\" in text else text[1:-1]
