"""`Words`: the words of a text in blocks, as BIF, DSC, NET and DOT files are, taken one after the other.

Names are words, or stand in double quotes; comments are those of C.  Every pattern is possessive and every character is
looked at a bounded number of times, so time is linear in the text.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import NoReturn

from doxa.models.network_files.source import Source, Spans, shown

__all__ = ["CUT_OFF", "MARKS", "Words", "plain"]

MARKS = frozenset({"", *"{}()|,;"})  # words that are no names
CUT_OFF = "the file ends in the block that begins here: it has been cut off"

# Groups that are repeated possessively are atomic: before Python 3.11.5 they are else taken for matched halfway.
_COMMENT = r"//[^\n]*+|/\*[^*]*+\*++(?>[^/*][^*]*+\*++)*+/"
_SKIP = rf"(?>\s++|{_COMMENT})*+"
_BLANKS = re.compile(_SKIP)
_WORD = r'(?>[^\s{}()|,;"/]|/(?![/*]))++'
_TOKEN = re.compile(rf'{_SKIP}("[^"\n]++"|[{{}}()|,;]|{_WORD}|\Z)')
_TYPE = re.compile(rf"{_SKIP}(?>:{_SKIP})?+discrete{_SKIP}\[{_SKIP}([0-9]++){_SKIP}\]{_SKIP}(?>={_SKIP})?+\{{")
_COLON = re.compile(rf"{_SKIP}:")
_BLOCK = re.compile(rf'[^{{}}"/]*+(?>(?:"[^"\n]*+"|{_COMMENT}|/(?![/*]))[^{{}}"/]*+)*+')
_STATEMENT = re.compile(rf'[^{{}};"/]*+(?>(?:"[^"\n]*+"|{_COMMENT}|/(?![/*]))[^{{}};"/]*+)*+')
_LABELS = re.compile(r'([^{}()"/]*+)[})]')
_BETWEEN_COMMAS = re.compile(r"[^,\s][^,]*+")
_BETWEEN_BLANKS = re.compile(r"[^,\s]++")
_COMMENTS = re.compile(_COMMENT)


class Words:
    """The words of a text, taken one after the other."""

    def __init__(self, source: Source, form: str) -> None:
        self._source, self._form = source, form  # which says of what form files are
        self.position = 0  # behind the last word
        self.place = 0  # of the last word

    def refuse(self, cause: str, place: int | None = None) -> NoReturn:
        """Raise, naming a place: that of the last word if left out."""
        self._source.refuse(cause, self.place if place is None else place)

    def take(self) -> str:
        """The next word, a name in quotes with its quotes; empty at the end."""
        found = _TOKEN.match(self._source.text, self.position)
        if found is None:
            self._refuse_open()
        self.place, self.position = found.span(1)
        return found[1]

    def take_key(self) -> str:
        """The next word up to a colon, which stays."""
        word = self.take().partition(":")[0]
        self.position = self.place + len(word)
        return word

    def expect(self, mark: str) -> None:
        """Take a mark that has to stand here."""
        word = self.take()
        if word != mark:
            self.refuse(f"{_named(word)} stands where {mark!r} should; {self._form}")

    def take_colon(self) -> None:
        """Take a colon that has to stand here, whatever stands behind it."""
        found = _COLON.match(self._source.text, self.position)
        if found is None:
            self.refuse(f"':' should stand behind this; {self._form}")
        self.position = found.end()

    def pass_until(self, mark: str) -> None:
        """Leave words behind, up to a mark that has to follow."""
        begin = self.place
        while (word := self.take()) != mark:
            if not word:
                self.refuse(CUT_OFF, begin)
            if word in "{};":
                self.refuse(f"{shown(word)} stands where {mark!r} should; {self._form}")

    def take_family(self) -> Iterator[str]:
        """Child and parents of a head ``( CHILD | A, B )``, one after the other, and then the brace behind it."""
        self.expect("(")
        begin, most = self.place, self._source.limits.max_variables + 1
        form = f"the head of a probability is not of the form '( CHILD | A, B )'; {self._form}"
        n, last, bar, commas = 0, "(", False, False
        while (word := self.take()) != ")" or n == 0:
            if not word:
                self.refuse(CUT_OFF, begin)
            if word in "{};" or n > most:
                self.refuse(f"{shown(word)} stands where ')' should; {self._form}")
            if word == "|" and n == 1 and not bar:
                bar = True
            elif word == "," and n:
                if not bar or last in "|," or (n > 2 and not commas):
                    self.refuse(form, begin)
                commas = True
            else:
                if commas and last != ",":
                    self.refuse(form, begin)
                yield self.check_name(word, begin)
                n += 1
            last = word
        if last == "|":
            self.refuse(f"no parent stands behind the bar; leave it out where there are none; {self._form}", begin)
        if last == ",":
            self.refuse(form, begin)
        self.expect("{")

    def take_name(self) -> str:
        """The next word, which has to be a name."""
        return self.check_name(self.take(), self.place)

    def check_name(self, word: str, place: int) -> str:
        """A name without its quotes."""
        if word in MARKS:
            self.refuse(f"{_named(word)} stands where a name should; {self._form}", place)
        return plain(word)

    def take_type(self, form: str) -> int | None:
        """The number in ``discrete [ N ] {``; None where it has more digits than any that could be used."""
        found = _TYPE.match(self._source.text, self.position)
        if found is None:
            self.refuse(f"the type is not of the form '{form}'")
        self.place, self.position = found.start(1), found.end()
        return int(found[1]) if len(found[1]) < 16 else None

    def take_labels(self, mark: str, n: int, of_what: str, labels: Spans) -> None:
        """Append ``n`` names that stand before a mark."""
        text, begin, before = self._source.text, self.position, len(labels)
        found = _LABELS.match(text, begin)
        if found and text[found.end() - 1] == mark:  # neither quotes nor slashes
            start, end = found.span(1)
            part = _BETWEEN_COMMAS if text.count(",", start, end) == n - 1 else _BETWEEN_BLANKS
            for piece in islice(part.finditer(text, start, end), n + 1):
                labels.add(*piece.span())
            if len(labels) - before == n:
                self.position = found.end()
                return
            labels.cut(before)
        self._take_labels(mark, n, of_what, labels)

    def _take_labels(self, mark: str, n: int, of_what: str, labels: Spans) -> None:
        text, begin, before = self._source.text, self.position, len(labels)
        ends = array("q")  # how many words stand before each comma
        cause = f"there are not {n} {of_what}; separate names by commas"
        while (word := self.take()) != mark:
            if not word or word in "{}()|;":
                self.refuse(f"{_named(word)} stands where a name, a comma or {mark!r} should")
            if word == ",":
                ends.append(len(labels) - before)
            else:
                labels.add(self.place, self.position)
            if len(labels) - before > 16 * (n + 1) or len(ends) > n:
                self.refuse(cause, begin)
        ends.append(len(labels) - before)
        if len(ends) == 1 and ends[0] == n:
            return
        first = before
        for i, end in enumerate(ends if len(ends) == n else [0], start=before):
            end += before
            quoted = end - first > 1 and any(text[labels.place(k)] == '"' for k in range(first, end))
            if first == end or quoted:
                self.refuse(cause, begin)
            labels.join(i, first, end)
            first = end
        labels.cut(before + n)

    def pass_statement(self) -> None:
        """Leave a statement behind its semicolon, which becomes the last word."""
        begin = self.position
        if self._pass(_STATEMENT) != ";":
            self.refuse("no ';' ends the statement that begins here", begin)

    def pass_block(self, begin: int) -> None:
        """Leave a block behind its last brace, which becomes the last word."""
        mark = self._pass(_BLOCK)
        if mark == "{":
            self.refuse("there is a block within a block; has a closing brace been lost?")
        if mark != "}":
            self.refuse(CUT_OFF, begin)

    def pass_nested(self, begin: int) -> None:
        """Leave a block behind that may hold others."""
        depth = 1
        while depth:
            mark = self._pass(_BLOCK)
            if not mark:
                self.refuse(CUT_OFF, begin)
            depth += 1 if mark == "{" else -1

    def _pass(self, what: re.Pattern[str]) -> str:
        """Leave a stretch with the mark behind it, which becomes the last word; empty at the end."""
        found = what.match(self._source.text, self.position)
        assert found is not None  # it may be empty
        self.place = self.position = found.end()
        mark = self._source.text[self.place : self.place + 1]
        if mark and mark in '"/':
            self._refuse_open()
        self.position += len(mark)
        return mark

    def _refuse_open(self) -> NoReturn:
        """Refuse what begins at or behind the position and is not closed."""
        found = _BLANKS.match(self._source.text, self.position)
        assert found is not None  # it may be empty
        comment = self._source.text.startswith("/*", found.end())
        what = "a comment is not closed" if comment else "a quote is not closed on its line, or holds no name"
        self.refuse(f"{what}; has the file been cut off?", found.end())


def plain(text: str) -> str:
    """A name as it stands in the text, without quotes; of several words, with one blank between them."""
    if text.startswith('"'):
        return text[1:-1]
    return " ".join((_COMMENTS.sub(" ", text) if "/" in text else text).split())


def _named(word: str) -> str:
    return shown(word) if word else "the end of the file"
