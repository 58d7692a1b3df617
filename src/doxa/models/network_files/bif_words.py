"""The words of a BIF text: names, marks and numbers, between blanks and comments.

Every pattern is possessive and every character is looked at a bounded number of times, so time is linear in the text.
"""

from __future__ import annotations

import re
from array import array
from typing import NoReturn

from doxa.models.network_files.source import Source, shown

__all__ = ["CUT_OFF", "FORM", "Words"]

FORM = "a BIF file has blocks 'variable NAME { ... }' and 'probability ( CHILD | PARENT ) { ... }'"
CUT_OFF = "the file ends in the block that begins here: it has been cut off"

_COMMENT = r"//[^\n]*+|/\*[^*]*+\*++(?:[^/*][^*]*+\*++)*+/"
_SKIP = rf"(?:\s++|{_COMMENT})*+"
_BLANKS = re.compile(_SKIP)
_WORD = r'(?:[^\s{}()|,;"/]|/(?![/*]))++'
_TOKEN = re.compile(rf'{_SKIP}("[^"\n]++"|[{{}}()|,;]|{_WORD}|\Z)')
_TYPE = re.compile(rf"{_SKIP}discrete{_SKIP}\[{_SKIP}([0-9]++){_SKIP}\]{_SKIP}\{{")
_BLOCK = re.compile(rf'[^{{}}"/]*+(?:(?:"[^"\n]*+"|{_COMMENT}|/(?![/*]))[^{{}}"/]*+)*+')
_STATEMENT = re.compile(rf'[^{{}};"/]*+(?:(?:"[^"\n]*+"|{_COMMENT}|/(?![/*]))[^{{}};"/]*+)*+')
_LABELS = re.compile(r'([^{}()"/]{0,65536})[})]')


class Words:
    """The words of a text, taken one after the other."""

    def __init__(self, source: Source) -> None:
        self._source = source
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

    def expect(self, mark: str) -> None:
        """Take a mark that has to stand here."""
        word = self.take()
        if word != mark:
            self.refuse(f"{_named(word)} stands where {mark!r} should; {FORM}")

    def take_until(self, mark: str) -> list[str]:
        """Words before a mark."""
        begin = self.place
        words: list[str] = []
        most = 2 * self._source.limits.max_variables + 2
        while (word := self.take()) != mark:
            if not word:
                self.refuse(CUT_OFF, begin)
            if word in "{};" or len(words) > most:
                self.refuse(f"{shown(word)} stands where {mark!r} should; {FORM}")
            words.append(word)
        return words

    def take_name(self) -> str:
        """The next word, which has to be a name."""
        return self.check_name(self.take(), self.place)

    def check_name(self, word: str, place: int) -> str:
        """A name without its quotes."""
        if not word or word in "{}()|,;":
            self.refuse(f"{_named(word)} stands where a name should; {FORM}", place)
        return word[1:-1] if word.startswith('"') else word

    def take_type(self) -> int | None:
        """The number in ``discrete [ N ] {``; None where it has more digits than any that could be used."""
        found = _TYPE.match(self._source.text, self.position)
        if found is None:
            self.refuse("the type is not of the form 'type discrete [ N ] { FIRST, SECOND };'")
        self.place, self.position = found.start(1), found.end()
        return int(found[1]) if len(found[1]) < 16 else None

    def take_labels(self, mark: str, n: int, of_what: str) -> list[str]:
        """``n`` names before a mark."""
        begin = self.position
        found = _LABELS.match(self._source.text, begin)
        if found and found[0][-1] == mark:  # neither quotes nor slashes
            labels = found[1].split(",", n)
            if len(labels) != n:
                labels = found[1].replace(",", " ").split(None, n)
            if len(labels) == n:
                for i, label in enumerate(labels):  # in place: there may be many
                    labels[i] = " ".join(label.split())
                if all(labels):
                    self.position = found.end()
                    return labels
        return self._take_labels(mark, n, of_what, begin)

    def _take_labels(self, mark: str, n: int, of_what: str, begin: int) -> list[str]:
        words: list[str] = []
        ends = array("q")  # how many words stand before each comma
        cause = f"there are not {n} {of_what}; separate names by commas"
        while (word := self.take()) != mark:
            if not word or word in "{}()|;":
                self.refuse(f"{_named(word)} stands where a name, a comma or {mark!r} should")
            if word == ",":
                ends.append(len(words))
            else:
                words.append(word)
            if len(words) > 16 * (n + 1) or len(ends) > n:
                self.refuse(cause, begin)
        ends.append(len(words))
        if len(words) == n and (len(ends) == 1 or all(end == i for i, end in enumerate(ends, start=1))):
            for i, word in enumerate(words):
                words[i] = self.check_name(word, begin)
            return words
        groups = [words[start:end] for start, end in zip([0, *ends], ends, strict=False)] if len(ends) == n else [[]]
        if not all(groups) or any(word[0] == '"' for group in groups if len(group) > 1 for word in group):
            self.refuse(cause, begin)
        return [" ".join(group) if len(group) > 1 else self.check_name(group[0], begin) for group in groups]

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


def _named(word: str) -> str:
    return shown(word) if word else "the end of the file"
