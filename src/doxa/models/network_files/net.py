r"""Read and write NET, Hugin's format: blocks ``node`` with states and ``potential`` with the numbers of a table.

    net
    {
    }
    node lung
    {
        states = ("yes" "no");
    }
    potential (lung | smoke)
    {
        data = ((0.1 0.9)      % smoke = yes
                (0.01 0.99));
    }

The child varies fastest in ``data``, then the last of its parents; brackets are around the numbers of every value of a
parent, or around all of them alone.  What stands behind ``%`` is a comment.  Other attributes are passed over; nodes
that are continuous, decisions or utilities, and classes, are refused.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from math import prod

from doxa.models.categorical import CategoricalNetwork
from doxa.models.network_files.draft import Draft
from doxa.models.network_files.names import finish_renamed, name_comments, quotable, words_for
from doxa.models.network_files.source import Source, Spans, blanked, check_states, shown
from doxa.models.network_files.tables import Rows
from doxa.models.network_files.words import CUT_OFF, MARKS, Words, plain

__all__ = ["net_pieces", "read_net"]

_FORM = "a NET file has blocks 'node NAME { ... }' and 'potential ( CHILD | PARENT ) { ... }'"
_COMMENT = re.compile(r'("[^"\n]*+")|%[^\n]*+')
_OPENING = re.compile(r"\s*+(?>=\s*+)?+\(")
_ROW = re.compile(r"\s*+((?>\(\s*+)++)([^()]*+)((?>\)\s*+)++)")
_KINDS = frozenset({"continuous", "decision", "utility", "function", "class", "temporal"})
_KEYWORDS = frozenset({"net", "node", "potential", "discrete", "chance", "states", "data"}) | _KINDS


def read_net(source: Source) -> CategoricalNetwork:
    """Read a network, or raise `NetworkFileError`."""
    original, source = source, blanked(source, _COMMENT)
    words, labels = Words(source, _FORM), Spans(source.text, plain)
    draft = Draft(source, labels)
    heads = array("q")  # of blocks potential
    while kind := words.take():
        begin = words.place
        while kind in ("discrete", "chance"):
            kind = words.take()
        if kind == "net":
            words.pass_until("{")
            words.pass_block(begin)
        elif kind == "node":
            _read_node(words, draft, labels)
        elif kind == "potential":
            heads.append(words.position)
            words.pass_until("{")
            words.pass_block(begin)
        elif kind in _KINDS:
            words.refuse(f"this begins a block {shown(kind)}; only networks of discrete nodes are read")
        else:
            words.refuse(f"{shown(kind)} begins no block; {_FORM}")
    for k, begin in enumerate(heads):
        words.position = begin
        family = array("i", _take_family(words, draft))
        draft.add_family(family[0], family[1:], begin)
        heads[k] = words.position
    draft.check()
    rows = Rows(draft)
    for k, begin in enumerate(heads):
        words.position = begin
        _read_potential(words, draft, rows, k)
    return finish_renamed(rows, original)


def _read_node(words: Words, draft: Draft, labels: Spans) -> None:
    begin, name = words.place, words.take_name()
    place, before = words.place, len(labels)
    words.expect("{")
    while (kind := words.take()) != "}":
        if not kind:
            words.refuse(CUT_OFF, begin)
        if kind.removesuffix("=") == "states" and len(labels) == before:
            _take_states(words, draft, labels)
            words.expect(";")
        else:
            words.pass_statement()
    if len(labels) == before:
        words.refuse(f'the variable {shown(name)} has no states; write \'states = ("FIRST" "SECOND");\'', place)
    check_states(draft.source, shown(name), labels, before, labels.place)
    draft.add_variable(name, len(labels) - before, place)


def _take_states(words: Words, draft: Draft, labels: Spans) -> None:
    """Append the names between the brackets that follow."""
    _take_opening(words, draft.source, 'states = ("FIRST" "SECOND");')
    most = draft.source.limits.max_states
    while (word := words.take()) != ")":
        if word in MARKS or "\\" in word:
            words.refuse(f"{shown(word)} is no state; states stand in double quotes, without backslashes")
        labels.add(words.place, words.position)
        if len(labels) > most:
            draft.source.refuse_too_many(
                "the variables up to here have more states", 2 * most, "max_states", words.place
            )


def _take_opening(words: Words, source: Source, form: str) -> None:
    found = _OPENING.match(source.text, words.position)
    if found is None:
        words.refuse(f"this is not of the form '{form}'")
    words.position = found.end()


def _take_family(words: Words, draft: Draft) -> Iterator[int]:
    """Child and parents of a head ``( CHILD | A B )``, and the brace behind it."""
    words.expect("(")
    yield draft.number(words.take_name(), words.place)
    word, n = words.take(), 1
    if word not in ("|", ")"):
        words.refuse(
            f"{shown(word)} stands where '|' should; a potential has one child, and is a table of probabilities"
        )
    while word != ")" and (word := words.take()) != ")":
        n += 1
        if n > len(draft.n_states) + 1:
            words.refuse("this potential has more parents than there are nodes")
        yield draft.number(words.check_name(word, words.place), words.place)
    words.expect("{")


def _read_potential(words: Words, draft: Draft, rows: Rows, family: int) -> None:
    """Append the numbers of a table."""
    child, before = shown(draft.name(draft.children[family])), len(rows)
    while (kind := words.take()) != "}":
        if kind.removesuffix("=") == "data" and len(rows) == before:
            place = words.position
            words.pass_statement()
            _take_data(words, draft, rows, family, place)
            rows.end_table()
        else:
            words.pass_statement()
    if len(rows) == before:
        words.refuse(f"the potential of {child} has no data; write 'data = ( ... );'", draft.place(family))


def _take_data(words: Words, draft: Draft, rows: Rows, family: int, begin: int) -> None:
    """Take what stands between ``data`` and the semicolon that is the last word."""
    text, end = draft.source.text, words.place
    *sizes, n_states = draft.shape(family)
    n_rows, child = prod(sizes), shown(draft.name(draft.children[family]))
    deep = [prod(sizes[i:]) for i in range(len(sizes))]  # rows within a bracket of each level
    found = _OPENING.match(text, begin, end)
    place = begin if found is None else found.end() - 1
    for row in range(n_rows):
        found = _ROW.match(text, place, end)
        if found is None:
            words.refuse(f"there are {row} rows for {child}, and there should be {n_rows}, in brackets", place)
        before = len(rows.numbers)
        rows.numbers.take(*found.span(2))
        n, place = len(rows.numbers) - before, found.end()
        flat = row == 0 and n == n_rows * n_states and found[1].count("(") == found[3].count(")") == 1
        if not flat and n != n_states:
            words.refuse(f"there are {n} numbers for {child}, and there should be {n_states}", found.start(2))
        opened, closed = (1 + sum(at % size == 0 for size in deep) for at in (row, row + 1))
        if not flat and (found[1].count("("), found[3].count(")")) != (opened, closed):
            words.refuse(f"the brackets around this row of {child} are not those of its parents' states", found.start())
        if flat:
            break
    if text[place:end].strip():
        words.refuse(f"{shown(text[place:end].strip())} stands behind the numbers for {child}", place)


def net_pieces(network: CategoricalNetwork) -> Iterator[str]:
    """The text of a network in pieces; names that NET cannot hold stand in comments, and others in their place."""
    names = words_for(network.names, _KEYWORDS)
    states = [quotable(labels) for labels in network.states]
    yield "net\n{\n}\n"
    for name, labels in zip(names, states, strict=True):
        quoted = " ".join(f'"{label}"' for label in labels)
        yield f"node {name}\n{{\n    states = ({quoted});\n}}\n"
    for node, (name, parents) in enumerate(zip(names, network.parents, strict=True)):
        sizes = [network.n_states[p] for p in parents]
        deep = [prod(sizes[i:]) for i in range(len(sizes))]
        given = f" | {' '.join(names[p] for p in parents)}" if parents else ""
        yield f"potential ({name}{given})\n{{\n    data = "
        for k, row in enumerate(network.tables[network.names[node]].reshape(-1, network.n_states[node]).tolist()):
            opened, closed = (1 + sum(at % size == 0 for size in deep) for at in (k, k + 1))
            yield f"{'(' * opened}{' '.join(map(repr, row))}{')' * closed}\n        "
        yield ";\n}\n"
    yield from name_comments(network, names, states, "% ")
