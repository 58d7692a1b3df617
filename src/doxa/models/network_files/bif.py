r"""Read BIF, the interchange format: blocks ``variable`` and ``probability``, with states, rows and comments.

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
The file is scanned twice: declarations and heads are checked before any row is read.
"""

from __future__ import annotations

import re
from array import array
from typing import NamedTuple, NoReturn

from doxa.models.categorical import CategoricalNetwork
from doxa.models.network_files.bif_words import CUT_OFF, FORM, Words
from doxa.models.network_files.draft import Draft, repeated
from doxa.models.network_files.numbers import Numbers
from doxa.models.network_files.source import Source, shown
from doxa.models.network_files.tables import Rows, finish

__all__ = ["KEYWORDS", "read_bif"]

KEYWORDS = frozenset({"network", "variable", "probability", "type", "discrete", "property", "table", "default"})

_ROW = re.compile(r'\s*+\(([^()"]{0,4096})\)([0-9eE+.,\s-]{1,16384});')


class _Block(NamedTuple):
    """The inside of a block ``probability``."""

    child: str
    begin: int
    end: int  # where its last brace stands


def read_bif(source: Source) -> CategoricalNetwork:
    """Read a network.

    Raises
    ------
    NetworkFileError
        If the text is of another form, or no network.
    """
    draft, words = Draft(source), Words(source)
    blocks = []
    while kind := words.take():
        begin = words.place
        if kind == "network":
            words.take_until("{")
            words.pass_block(begin)
        elif kind == "variable":
            _read_variable(words, draft)
        elif kind == "probability":
            blocks.append(_read_head(words, draft))
        else:
            words.refuse(f"{shown(kind)} begins no block; {FORM}")
    draft.check()
    rows = {block.child: _Table(words, draft, block).read() for block in blocks}
    return finish(draft, rows)


def _read_variable(words: Words, draft: Draft) -> None:
    begin = words.place
    name = words.take_name()
    place = words.place
    words.expect("{")
    states: list[str] | None = None
    while (kind := words.take()) != "}":
        if kind == "property":
            words.pass_statement()
        elif kind == "type" and states is None:
            states = _read_states(words, draft, name)
        elif not kind:
            words.refuse(CUT_OFF, begin)
        else:
            words.refuse(f"{shown(kind)} stands where 'type discrete [ N ] {{ ... }};' or a property should")
    if states is None:
        words.refuse(f"the variable {shown(name)} has no states; write 'type discrete [ N ] {{ ... }};'", place)
    draft.add_variable(name, states, place)


def _read_states(words: Words, draft: Draft, name: str) -> list[str]:
    most = draft.source.limits.max_states
    n_states = words.take_type()
    if n_states is None or n_states > most:
        number = "too many" if n_states is None else f"{n_states}"
        draft.source.refuse_too_many(f"{shown(name)} has {number} states", n_states or 2**40, "max_states", words.place)
    begin = words.position
    states = words.take_labels("}", n_states, f"states of {shown(name)}, as declared")
    if n_states == 0:
        words.refuse(f"{shown(name)} has no states; a variable has at least one", begin)
    if twice := repeated(states):
        words.refuse(f"{shown(name)} has the state {shown(twice)} more than once; states must differ", begin)
    words.expect(";")
    return states


def _read_head(words: Words, draft: Draft) -> _Block:
    begin = words.place
    words.expect("(")
    place = words.place
    child, *rest = words.take_until(")") or [")"]
    bar = rest[:1] == ["|"]
    parents = rest[1:] if bar else rest
    if "," in parents:
        if not bar or len(parents) % 2 == 0 or set(parents[1::2]) != {","}:
            words.refuse(f"the head of a probability is not of the form '( CHILD | A, B )'; {FORM}", place)
        parents = parents[::2]
    if bar and not parents:
        words.refuse(f"no parent stands behind the bar; leave it out where there are none; {FORM}", place)
    names = [words.check_name(word, place) for word in (child, *parents)]
    draft.add_family(names[0], names[1:], begin)
    words.expect("{")
    inside = words.position
    words.pass_block(begin)
    return _Block(names[0], inside, words.place)


class _Table:
    """One block ``probability``, when all states are known."""

    def __init__(self, words: Words, draft: Draft, block: _Block) -> None:
        self._words, self._draft, self._block = words, draft, block
        self._numbers = Numbers(draft.source)
        self._n_states = len(draft.states[block.child])
        self._parents = draft.families[block.child].parents
        self._weights: list[dict[str, int]] = []  # of each parent: what each label adds to a configuration
        stride = 1
        for parent in reversed(self._parents):
            self._weights.append({label: k * stride for k, label in enumerate(draft.states[parent])})
            stride *= len(draft.states[parent])
        self._weights.reverse()

    def read(self) -> Rows:
        """Read the block's rows, or its table."""
        words, (child, _, end) = self._words, self._block
        words.position = self._block.begin
        configurations, default, whole = array("q"), None, False
        while True:
            self._take_rows(configurations)
            kind = words.take()
            if words.place == end:
                break
            if kind == "(" and not whole:
                self._take_row(configurations)
            elif kind == "table" and not whole and default is None and not configurations:
                whole = True
                self._take_numbers(self._numbers, self._n_states * self._draft.n_configurations(child))
            elif kind == "default" and not whole and default is None:
                default = Numbers(self._draft.source)
                self._take_numbers(default, self._n_states)
            elif kind == "property":
                words.pass_statement()
            else:
                words.refuse(f"{shown(kind)} stands where a row of the table of {shown(child)} should")
        if whole:
            return Rows(self._numbers, child_first=True)
        return Rows(self._numbers, configurations=configurations, default=default)

    def _take_rows(self, configurations: array[int]) -> None:
        """Take rows of the common form, as long as they stand here."""
        text, words, n_states = self._draft.source.text, self._words, self._n_states
        numbers, weights = self._numbers, self._weights
        while found := _ROW.match(text, words.position, self._block.end):
            labels = found[1].split(",")
            try:
                configuration = sum([own[label.strip()] for own, label in zip(weights, labels, strict=True)])
            except (KeyError, ValueError):  # quotes, comments, blanks or a mistake
                return
            before = len(numbers)
            numbers.add(found.start(2), found[2])
            if len(numbers) - before != n_states:
                self._refuse_count(len(numbers) - before, n_states, found.start(2))
            configurations.append(configuration)
            words.position = found.end()

    def _take_row(self, configurations: array[int]) -> None:
        """Take a row of any form, behind its first bracket."""
        words, place = self._words, self._words.place
        labels = words.take_labels(")", len(self._parents), f"parents of {shown(self._block.child)}")
        configuration = 0
        for parent, own, label in zip(self._parents, self._weights, labels, strict=True):
            if label not in own:
                words.refuse(f"{shown(parent)} has no state {shown(label)}", place)
            configuration += own[label]
        self._take_numbers(self._numbers, self._n_states)
        configurations.append(configuration)

    def _take_numbers(self, numbers: Numbers, n: int) -> None:
        words, begin, before = self._words, self._words.position, len(numbers)
        words.pass_statement()
        numbers.take(begin, words.place)
        if len(numbers) - before != n:
            self._refuse_count(len(numbers) - before, n, begin)

    def _refuse_count(self, n: int, n_expected: int, place: int) -> NoReturn:
        child = shown(self._block.child)
        self._words.refuse(f"there are {n} numbers for {child}, and there should be {n_expected}", place)
