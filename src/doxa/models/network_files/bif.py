r"""Read and write BIF, the interchange format: blocks ``variable`` and ``probability``, with states, rows and comments.

    network unknown {
    }
    variable lung {
      type discrete [ 2 ] { yes, no };
    }
    probability ( lung | smoke ) {
      (yes) 0.1, 0.9;
      default 0.01, 0.99;
    }

Names are words, or stand in double quotes; states between commas may hold blanks without.  Commas, and the bar of a
head, may be left out where the names tell what is meant.  ``table`` lists the numbers of a child's first state, for all
configurations of the parents with the last varying fastest, before those of its second.  Properties are passed over.
The file is scanned three times: declarations, then heads, are checked before any row is read.
Every pattern is possessive and every character is looked at a bounded number of times, so time is linear in the text.
"""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Iterator
from itertools import islice, product
from typing import NoReturn

from doxa.errors import ArgumentError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.network_files.draft import Draft
from doxa.models.network_files.source import Finder, Source, Spans, repeated, shown
from doxa.models.network_files.tables import Numbers, Rows, finish

__all__ = ["CUT_OFF", "FORM", "KEYWORDS", "Words", "bif_pieces", "plain", "read_bif", "read_families"]

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
_LABELS = re.compile(r'([^{}()"/]*+)[})]')
_BETWEEN_COMMAS = re.compile(r"[^,\s][^,]*+")
_BETWEEN_BLANKS = re.compile(r"[^,\s]++")
_COMMENTS = re.compile(_COMMENT)


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

    def pass_until(self, mark: str) -> None:
        """Leave words behind, up to a mark that has to follow."""
        begin = self.place
        while (word := self.take()) != mark:
            if not word:
                self.refuse(CUT_OFF, begin)
            if word in "{};":
                self.refuse(f"{shown(word)} stands where {mark!r} should; {FORM}")

    def take_family(self) -> Iterator[str]:
        """Child and parents of a head ``( CHILD | A, B )``, one after the other, and then the brace behind it."""
        self.expect("(")
        begin, most = self.place, self._source.limits.max_variables + 1
        form = f"the head of a probability is not of the form '( CHILD | A, B )'; {FORM}"
        n, last, bar, commas = 0, "(", False, False
        while (word := self.take()) != ")" or n == 0:
            if not word:
                self.refuse(CUT_OFF, begin)
            if word in "{};" or n > most:
                self.refuse(f"{shown(word)} stands where ')' should; {FORM}")
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
            self.refuse(f"no parent stands behind the bar; leave it out where there are none; {FORM}", begin)
        if last == ",":
            self.refuse(form, begin)
        self.expect("{")

    def take_name(self) -> str:
        """The next word, which has to be a name."""
        return self.check_name(self.take(), self.place)

    def check_name(self, word: str, place: int) -> str:
        """A name without its quotes."""
        if not word or word in "{}()|,;":
            self.refuse(f"{_named(word)} stands where a name should; {FORM}", place)
        return plain(word)

    def take_type(self) -> int | None:
        """The number in ``discrete [ N ] {``; None where it has more digits than any that could be used."""
        found = _TYPE.match(self._source.text, self.position)
        if found is None:
            self.refuse("the type is not of the form 'type discrete [ N ] { FIRST, SECOND };'")
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


KEYWORDS = frozenset({"network", "variable", "probability", "type", "discrete", "property", "table", "default"})

_ROW = re.compile(r'\s*+\(([^()"]{0,4096})\)([0-9eE+.,\s-]{1,16384});')


def read_bif(source: Source) -> CategoricalNetwork:
    """Read a network, or raise `NetworkFileError`."""
    words, labels = Words(source), Spans(source.text, plain)
    draft = Draft(source, labels)
    heads, ends = array("q"), array("q")  # of blocks probability, where they begin and where their last brace stands
    while kind := words.take():
        begin = words.place
        if kind == "network":
            words.pass_until("{")
            words.pass_block(begin)
        elif kind == "variable":
            _read_variable(words, draft, labels)
        elif kind == "probability":
            heads.append(begin)
            deque(words.take_family(), maxlen=0)  # names are looked up when all are declared
            words.pass_block(begin)
            ends.append(words.place)
        else:
            words.refuse(f"{shown(kind)} begins no block; {FORM}")
    read_families(words, draft, heads)
    draft.check()
    tables = _Tables(words, draft, labels)
    for family, (begin, end) in enumerate(zip(heads, ends, strict=True)):
        tables.read(family, begin, end)
    return finish(tables.rows)


def read_families(words: Words, draft: Draft, heads: array[int]) -> None:
    """Declare the families of blocks ``probability``; where each begins becomes where its inside begins."""
    for family, begin in enumerate(heads):
        words.position = begin
        words.take()
        numbers = array("i", (draft.number(name, begin) for name in words.take_family()))
        draft.add_family(numbers[0], numbers[1:], begin)
        heads[family] = words.position


def _read_variable(words: Words, draft: Draft, labels: Spans) -> None:
    begin = words.place
    name = words.take_name()
    place = words.place
    words.expect("{")
    n_states: int | None = None
    while (kind := words.take()) != "}":
        if kind == "property":
            words.pass_statement()
        elif kind == "type" and n_states is None:
            n_states = _read_states(words, draft, labels, name)
        elif not kind:
            words.refuse(CUT_OFF, begin)
        else:
            words.refuse(f"{shown(kind)} stands where 'type discrete [ N ] {{ ... }};' or a property should")
    if n_states is None:
        words.refuse(f"the variable {shown(name)} has no states; write 'type discrete [ N ] {{ ... }};'", place)
    draft.add_variable(name, n_states, place)


def _read_states(words: Words, draft: Draft, labels: Spans, name: str) -> int:
    most, before = draft.source.limits.max_states, len(labels)
    n_states = words.take_type()
    if n_states is None or n_states > most:
        number = "too many" if n_states is None else f"{n_states}"
        draft.source.refuse_too_many(f"{shown(name)} has {number} states", n_states or 2**40, "max_states", words.place)
    begin = words.position
    words.take_labels("}", n_states, f"states of {shown(name)}, as declared", labels)
    if n_states == 0:
        words.refuse(f"{shown(name)} has no states; a variable has at least one", begin)
    twice = repeated(labels, before)
    if twice is not None:
        words.refuse(f"{shown(name)} has the state {shown(labels[twice])} more than once; states must differ", begin)
    words.expect(";")
    return n_states


class _Tables:
    """Blocks ``probability``, when all states are known."""

    def __init__(self, words: Words, draft: Draft, labels: Spans) -> None:
        self.rows = Rows(draft)
        self._words, self._draft, self._labels = words, draft, labels
        self._large: dict[int, Finder] = {}  # of variables of many states: made once
        # of the block that is read:
        self._family = self._n_states = self._end = 0
        self._weights: list[tuple[Finder, int]] = []  # of each parent: its labels, and how far they are apart

    def read(self, family: int, begin: int, end: int) -> None:
        """Read a block's rows, or its table, between two places."""
        words, draft, rows = self._words, self._draft, self.rows
        self._family, self._end, words.position = family, end, begin
        self._n_states, self._weights = draft.n_states[draft.children[family]], self._find_weights()
        before, default, whole = len(rows.configurations), None, False
        while True:
            self._take_rows()
            kind = words.take()
            if words.place == end:
                break
            rowless = len(rows.configurations) == before
            if kind == "(" and not whole:
                self._take_row()
            elif kind == "table" and not whole and default is None and rowless:
                whole = True
                self._take_numbers(rows.numbers, self._n_states * draft.n_configurations(family))
            elif kind == "default" and not whole and default is None:
                default = len(rows.defaults)
                self._take_numbers(rows.defaults, self._n_states)
            elif kind == "property":
                words.pass_statement()
            else:
                words.refuse(f"{shown(kind)} stands where a row of the table of {self._child()} should")
        if whole:
            rows.end_table(child_first=True)
        else:
            rows.end_rows(default)

    def _find_weights(self) -> list[tuple[Finder, int]]:
        made, stride = [], 1
        for parent in reversed(self._draft.parents(self._family)):
            n = self._draft.n_states[parent]
            finder = self._large.get(parent) or Finder(self._labels, self._draft.first_label[parent], n)
            if n > Finder.FEW:
                self._large[parent] = finder
            made.append((finder, stride))
            stride *= n
        made.reverse()
        return made

    def _take_rows(self) -> None:
        """Take rows of the common form, as long as they stand here."""
        text, words, n_states, end = self._draft.source.text, self._words, self._n_states, self._end
        numbers, configurations, weights = self.rows.numbers, self.rows.configurations, self._weights
        while found := _ROW.match(text, words.position, end):
            labels = found[1].split(",")
            try:
                configuration = sum(
                    [own.find(label.strip()) * stride for (own, stride), label in zip(weights, labels, strict=True)]
                )
            except (KeyError, ValueError):  # quotes, comments, blanks or a mistake
                return
            before = len(numbers)
            numbers.add(found.start(2), found[2])
            if len(numbers) - before != n_states:
                self._refuse_count(len(numbers) - before, n_states, found.start(2))
            configurations.append(configuration)
            words.position = found.end()

    def _take_row(self) -> None:
        """Take a row of any form, behind its first bracket."""
        words, place, parents = self._words, self._words.place, self._draft.parents(self._family)
        labels = Spans(self._draft.source.text, plain)
        words.take_labels(")", len(parents), f"parents of {self._child()}", labels)
        configuration = 0
        for parent, (own, stride), label in zip(parents, self._weights, labels, strict=True):
            try:
                configuration += own.find(label) * stride
            except KeyError:
                words.refuse(f"{shown(self._draft.name(parent))} has no state {shown(label)}", place)
        self._take_numbers(self.rows.numbers, self._n_states)
        self.rows.configurations.append(configuration)

    def _take_numbers(self, numbers: Numbers, n: int) -> None:
        words, begin, before = self._words, self._words.position, len(numbers)
        words.pass_statement()
        numbers.take(begin, words.place)
        if len(numbers) - before != n:
            self._refuse_count(len(numbers) - before, n, begin)

    def _child(self) -> str:
        return shown(self._draft.name(self._draft.children[self._family]))

    def _refuse_count(self, n: int, n_expected: int, place: int) -> NoReturn:
        self._words.refuse(f"there are {n} numbers for {self._child()}, and there should be {n_expected}", place)


_PLAIN = re.compile(r"[A-Za-z0-9_.+-]++")


def bif_pieces(network: CategoricalNetwork) -> Iterator[str]:
    """The text of a network in pieces, numbers with all their digits; a name with a quote is refused.

    Names of other than letters, digits and ``_.+-`` stand in double quotes, which not every program reads.
    """
    names = [_quoted(name) for name in network.names]
    states = [[_quoted(label) for label in labels] for labels in network.states]
    yield "network unknown {\n}\n"
    for name, labels in zip(names, states, strict=True):
        yield f"variable {name} {{\n  type discrete [ {len(labels)} ] {{ {', '.join(labels)} }};\n}}\n"
    for node, (name, parents) in enumerate(zip(names, network.parents, strict=True)):
        rows = network.tables[network.names[node]].reshape(-1, len(states[node])).tolist()
        if not parents:
            yield f"probability ( {name} ) {{\n  table {_listed(rows[0])};\n}}\n"
            continue
        yield f"probability ( {name} | {', '.join(names[p] for p in parents)} ) {{\n"
        for configuration, row in zip(product(*(states[p] for p in parents)), rows, strict=True):
            yield f"  ({', '.join(configuration)}) {_listed(row)};\n"
        yield "}\n"


def _listed(row: list[float]) -> str:
    return ", ".join(map(repr, row))


def _quoted(name: str) -> str:
    if _PLAIN.fullmatch(name) and name not in KEYWORDS:
        return name
    if any(mark in name for mark in '"\n\r'):
        raise ArgumentError(
            f"the name {name!r} has a quote or a line end in it, which BIF has no way to write; "
            "rename it, or write XMLBIF (.xml)"
        )
    return f'"{name}"'
