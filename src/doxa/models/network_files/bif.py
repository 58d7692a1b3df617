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

DSC, Microsoft's form of the same, names states by their positions from 0 where rows begin, and has no ``table``:

    belief network "unknown"
    node lung {
      type: discrete[2] = { "yes", "no" };
    }
    probability ( lung | smoke ) {
      (0): 0.1, 0.9;
      default: 0.01, 0.99;
    }
"""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple, NoReturn

from doxa.errors import ArgumentError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.network_files.draft import Draft
from doxa.models.network_files.names import finish_renamed, name_comments, quotable, words_for
from doxa.models.network_files.source import Finder, Source, Spans, check_states, shown
from doxa.models.network_files.tables import Numbers, Rows, finish
from doxa.models.network_files.words import CUT_OFF, MARKS, Words, plain

__all__ = ["FORM", "bif_pieces", "dsc_pieces", "read_bif", "read_dsc", "read_families"]

FORM = "a BIF file has blocks 'variable NAME { ... }' and 'probability ( CHILD | PARENT ) { ... }'"


class _Dialect(NamedTuple):
    """What differs between BIF and DSC."""

    form: str
    variable: str  # the word that begins a block
    states: str  # how they are declared
    row: re.Pattern[str]  # of the common form
    find_by: Callable[[Spans, int, int], Finder | _Position]
    take_key: Callable[[Words], str]  # the word that begins a statement


class _Position:
    """Which of ``n`` states a text is that gives its position, as `Finder` is asked; a KeyError for any other text."""

    def __init__(self, _labels: Spans, _first: int, n: int) -> None:
        self._n = n

    def find(self, text: str) -> int:
        if len(text) > 9 or not (text.isascii() and text.isdigit()) or int(text) >= self._n:
            raise KeyError(text)
        return int(text)


_BIF = _Dialect(
    FORM,
    "variable",
    "type discrete [ N ] { FIRST, SECOND };",
    re.compile(r'\s*+\(([^()"]{0,4096})\)([0-9eE+.,\s-]{1,16384});'),
    Finder,
    Words.take,
)
_DSC = _Dialect(
    "a DSC file has blocks 'node NAME { ... }' and 'probability ( CHILD | PARENT ) { ... }'",
    "node",
    'type: discrete[N] = { "FIRST", "SECOND" };',
    re.compile(r'\s*+\(([^()"]{0,4096})\)\s*+:([0-9eE+.,\s-]{1,16384});'),
    _Position,
    Words.take_key,
)


def read_bif(source: Source) -> CategoricalNetwork:
    """Read a network, or raise `NetworkFileError`."""
    return finish(_read_blocks(source, _BIF))


def read_dsc(source: Source) -> CategoricalNetwork:
    """Read a network, or raise `NetworkFileError`."""
    return finish_renamed(_read_blocks(source, _DSC), source)


def _read_blocks(source: Source, dialect: _Dialect) -> Rows:
    words, labels = Words(source, dialect.form), Spans(source.text, plain)
    draft = Draft(source, labels)
    heads, ends = array("q"), array("q")  # of blocks probability, where they begin and where their last brace stands
    while kind := words.take():
        begin = words.place
        if kind == "network" and dialect is _BIF:
            words.pass_until("{")
            words.pass_block(begin)
        elif kind == "belief" and dialect is _DSC:
            words.expect("network")
            words.take_name()
        elif kind == dialect.variable:
            _read_variable(words, draft, labels, dialect)
        elif kind == "probability":
            heads.append(begin)
            deque(words.take_family(), maxlen=0)  # names are looked up when all are declared
            words.pass_block(begin)
            ends.append(words.place)
        else:
            words.refuse(f"{shown(kind)} begins no block; {dialect.form}")
    read_families(words, draft, heads)
    draft.check()
    tables = _Tables(words, draft, labels, dialect)
    for family, (begin, end) in enumerate(zip(heads, ends, strict=True)):
        tables.read(family, begin, end)
    return tables.rows


def read_families(words: Words, draft: Draft, heads: array[int]) -> None:
    """Declare the families of blocks ``probability``; where each begins becomes where its inside begins."""
    for family, begin in enumerate(heads):
        words.position = begin
        words.take()
        numbers = array("i", (draft.number(name, begin) for name in words.take_family()))
        draft.add_family(numbers[0], numbers[1:], begin)
        heads[family] = words.position


def _read_variable(words: Words, draft: Draft, labels: Spans, dialect: _Dialect) -> None:
    begin = words.place
    name = words.take_name()
    place = words.place
    words.expect("{")
    n_states: int | None = None
    while (kind := dialect.take_key(words)) != "}":
        if not kind:
            words.refuse(CUT_OFF, begin)
        elif kind == "type" and n_states is None:
            n_states = _read_states(words, draft, labels, name, dialect)
        elif kind == "property" or (dialect is _DSC and kind not in MARKS):
            words.pass_statement()
        else:
            words.refuse(f"{shown(kind)} stands where '{dialect.states}' or a property should")
    if n_states is None:
        words.refuse(f"the variable {shown(name)} has no states; write '{dialect.states}'", place)
    draft.add_variable(name, n_states, place)


def _read_states(words: Words, draft: Draft, labels: Spans, name: str, dialect: _Dialect) -> int:
    most, before = draft.source.limits.max_states, len(labels)
    n_states = words.take_type(dialect.states)
    if n_states is None or n_states > most:
        number = "too many" if n_states is None else f"{n_states}"
        draft.source.refuse_too_many(f"{shown(name)} has {number} states", n_states or 2**40, "max_states", words.place)
    begin = words.position
    words.take_labels("}", n_states, f"states of {shown(name)}, as declared", labels)
    if n_states == 0:
        words.refuse(f"{shown(name)} has no states; a variable has at least one", begin)
    check_states(draft.source, shown(name), labels, before, lambda _: begin)
    words.expect(";")
    return n_states


class _Tables:
    """Blocks ``probability``, when all states are known."""

    def __init__(self, words: Words, draft: Draft, labels: Spans, dialect: _Dialect) -> None:
        self.rows = Rows(draft)
        self._words, self._draft, self._labels, self._dialect = words, draft, labels, dialect
        self._large: dict[int, Finder | _Position] = {}  # of variables of many states: made once
        # of the block that is read:
        self._family = self._n_states = self._end = 0
        self._weights: list[
            tuple[Finder | _Position, int]
        ] = []  # of each parent: its labels, and how far they are apart

    def read(self, family: int, begin: int, end: int) -> None:
        """Read a block's rows, or its table, between two places."""
        words, draft, rows = self._words, self._draft, self.rows
        self._family, self._end, words.position = family, end, begin
        self._n_states, self._weights = draft.n_states[draft.children[family]], self._find_weights()
        before, default, whole = len(rows.configurations), None, False
        while True:
            self._take_rows()
            kind = self._dialect.take_key(words)
            if words.place == end:
                break
            rowless = len(rows.configurations) == before
            if kind == "(" and not whole:
                self._take_row()
            elif kind == "table" and not whole and default is None and rowless and self._dialect is _BIF:
                whole = True
                self._take_numbers(rows.numbers, self._n_states * draft.n_configurations(family))
            elif kind == "default" and not whole and default is None:
                if self._dialect is _DSC:
                    words.take_colon()
                default = len(rows.defaults)
                self._take_numbers(rows.defaults, self._n_states)
            elif kind == "property":
                words.pass_statement()
            elif self._dialect is _DSC and not whole and default is None and rowless and not self._weights:
                words.position, whole = words.place, True  # what has no parents has one row
                self._take_numbers(rows.numbers, self._n_states)
            else:
                words.refuse(f"{shown(kind)} stands where a row of the table of {self._child()} should")
        if whole:
            rows.end_table(child_first=True)
        else:
            rows.end_rows(default)

    def _find_weights(self) -> list[tuple[Finder | _Position, int]]:
        made, stride = [], 1
        for parent in reversed(self._draft.parents(self._family)):
            n = self._draft.n_states[parent]
            finder = self._large.get(parent) or self._dialect.find_by(self._labels, self._draft.first_label[parent], n)
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
        row = self._dialect.row
        while found := row.match(text, words.position, end):
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
        if self._dialect is _DSC:
            words.take_colon()
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


_KEYWORDS = frozenset({"network", "variable", "probability", "type", "discrete", "property", "table", "default"})
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


def dsc_pieces(network: CategoricalNetwork) -> Iterator[str]:
    """The text of a network in pieces; names that DSC cannot hold stand in comments, and others in their place."""
    names = words_for(network.names)
    states = [quotable(labels) for labels in network.states]
    yield 'belief network "unknown"\n'
    for name, labels in zip(names, states, strict=True):
        quoted = ", ".join(f'"{label}"' for label in labels)
        yield f"node {name}\n{{\n  type: discrete[{len(labels)}] = {{ {quoted} }};\n}}\n"
    for node, (name, parents) in enumerate(zip(names, network.parents, strict=True)):
        rows = network.tables[network.names[node]].reshape(-1, len(states[node])).tolist()
        given = f" | {', '.join(names[p] for p in parents)}" if parents else ""
        yield f"probability({name}{given})\n{{\n"
        for positions, row in zip(product(*(range(network.n_states[p]) for p in parents)), rows, strict=True):
            yield f"  ({', '.join(map(str, positions))}): {_listed(row)};\n" if parents else f"  {_listed(row)};\n"
        yield "}\n"
    yield from name_comments(network, names, states, "// ")


def _listed(row: list[float]) -> str:
    return ", ".join(map(repr, row))


def _quoted(name: str) -> str:
    if _PLAIN.fullmatch(name) and name not in _KEYWORDS:
        return name
    if any(mark in name for mark in '"\n\r'):
        raise ArgumentError(
            f"the name {name!r} has a quote or a line end in it, which BIF has no way to write; "
            "rename it, or write XMLBIF (.xml)"
        )
    return f'"{name}"'
