r"""Graphs from files: who is a parent of whom, and nothing else.

Three forms, told apart by the end of the name (each also with ``.gz``):

- ``.bif``: the heads ``variable NAME`` and ``probability ( CHILD | A, B )`` of a network in the interchange format;
  what stands in their blocks, states and tables, is passed over.
- ``.csv``: edges, under a header that has ``source,target``, ``from,to`` or ``parent,child``.  Where there is a column
  ``probability``, as in what ``doxa learn --output`` writes, edges above 0.5 are taken; every name is a node.
- any other end: lines ``child: parent parent``.  A node alone has no parents; commas may stand between parents; a word
  that begins with ``#`` begins a comment; names with blanks, colons or commas stand in double quotes, and a quote in
  them is written twice.

Time is linear in the size of the file, whatever it holds.  Cycles are found where a network is made of the graph.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import stat
import zlib
from array import array
from collections import Counter, deque
from pathlib import Path
from typing import NamedTuple, NoReturn

from doxa.errors import ArgumentTypeError, FileError
from doxa.models.network_files.bif import FORM, read_families
from doxa.models.network_files.draft import Draft
from doxa.models.network_files.source import Limits, NetworkFileError, Source, shown
from doxa.models.network_files.words import Words

__all__ = ["MAX_BYTES", "MAX_NODES", "read_parents"]

MAX_BYTES = 2**24  # unpacked; the largest networks in circulation have a third of it
MAX_NODES = 10_000  # whose adjacency matrix takes 100 MB

_LINES = "write 'child: parent parent', and names with blanks, colons or commas in double quotes"
_NAME = r'(?:"(?:[^"]|"")++"|[^\s:,"#][^\s:,"]*+)'
_LINE = re.compile(
    rf"\s*+(?:({_NAME})\s*+(?::\s*+({_NAME}(?:(?:\s*+,\s*+|\s++){_NAME})*+)?+)?+)?+\s*+(?:#.*+)?+\Z", re.DOTALL
)
_ENDS = (("source", "target"), ("from", "to"), ("parent", "child"))
_HEADER = f"the header names the two ends of an edge, once each: {' or '.join(map(','.join, _ENDS))}"
_OTHERS = frozenset({".parquet", ".json", ".xml", ".xmlbif", ".xdsl", ".net", ".dsc", ".uai", ".dot"})


def read_parents(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read the parents of every node from a ``.bif`` file, a ``.csv`` file of edges, or lines ``child: parent parent``.

    Nodes that stand in the file as parents alone come last.  A refusal names the line and the way out.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(f"graph is {path!r}; it must be the name of a file")
    name = Path(path)
    end = Path(name.stem).suffix.lower() if name.suffix.lower() == ".gz" else name.suffix.lower()
    if end in _OTHERS:
        raise FileError(
            f"graph {str(name)!r}: files that end in {end} are not read as graphs; give a .bif file, edges in a .csv "
            "file, or lines 'child: parent parent' in a .txt file"
        )
    file = _File(name, _text(name))
    read, rule = {".bif": (_read_bif, FORM), ".csv": (_read_edges, _HEADER)}.get(end, (_read_lines, _LINES))
    given = read(file)
    nodes = dict.fromkeys([*given, *(parent for parents in given.values() for parent in parents)])
    if not nodes:
        raise FileError(f"graph {str(name)!r} names no nodes; {rule}")
    file.check_number(len(nodes))
    return {node: given.get(node, []) for node in nodes}


class _File(NamedTuple):
    """A text, and the name by which messages call it."""

    name: Path
    text: str

    def refuse(self, line: int, what: str) -> NoReturn:
        raise FileError(f"graph {str(self.name)!r}: line {line}: {what}")

    def check_number(self, n_nodes: int) -> None:
        if n_nodes > MAX_NODES:
            raise FileError(f"graph {str(self.name)!r} has more than {MAX_NODES} nodes, the most that can be used")


def _text(name: Path) -> str:
    try:
        mode = name.stat().st_mode
        content = _beginning(name) if stat.S_ISREG(mode) else b""  # opening a pipe would wait for its writer
    except FileNotFoundError:
        raise FileError(f"graph: no file {name.name!r} in {str(name.parent.absolute())!r}") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise FileError(f"graph {str(name)!r} is not a gzip file, or is damaged: {error}") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise FileError(f"graph {str(name)!r} cannot be opened: {getattr(error, 'strerror', error)}") from error
    if not stat.S_ISREG(mode):
        kind = "a folder; name a file in it" if stat.S_ISDIR(mode) else "no regular file; save its content in one"
        raise FileError(f"graph {str(name)!r} is {kind}")
    if len(content) > MAX_BYTES:
        raise FileError(f"graph {str(name)!r} holds more than {MAX_BYTES >> 20} MiB, far more than a graph needs")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
        raise FileError(
            f"graph {str(name)!r} is not UTF-8 text: line {line} contains the byte 0x{byte:02x}; convert it to UTF-8"
        ) from None


def _beginning(name: Path) -> bytes:
    with gzip.open(name) if name.suffix.lower() == ".gz" else name.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _read_lines(file: _File) -> dict[str, list[str]]:
    parents: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    for line, text in enumerate(file.text.split("\n"), start=1):
        found = _LINE.match(text)
        if found is None:
            file.refuse(line, f"{text.strip()[:60]!r} cannot be read; {_LINES}")
        if found[1] is None:
            continue
        child, *group = map(_unquoted, [found[1], *re.findall(_NAME, found[2] or "")])
        if child in lines:
            file.refuse(line, f"{child!r} has its parents on line {lines[child]} already; name all of them there")
        if twice := _repeated(group):
            file.refuse(line, f"{child!r} has the parent {twice!r} more than once; name it once")
        lines[child], parents[child] = line, group
        file.check_number(len(parents))
    return parents


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _repeated(names: list[str]) -> str | None:
    return next((name for name, times in Counter(names).items() if times > 1), None)


def _read_edges(file: _File) -> dict[str, list[str]]:
    first = file.text.partition("\n")[0]
    delimiter = next((mark for mark in ",;\t" if mark in first), ",")
    rows = csv.reader(io.StringIO(file.text, newline=""), delimiter=delimiter, strict=True)
    parents: dict[str, list[str]] = {}
    lines: dict[tuple[str, str], int] = {}
    try:
        header = [cell.strip().casefold() for cell in next(rows, [])]
        ends = next((ends for ends in _ENDS if header.count(ends[0]) == header.count(ends[1]) == 1), None)
        if ends is None:
            file.refuse(1, _HEADER)
        for row in filter(None, rows):
            line = rows.line_num
            if len(row) != len(header):
                file.refuse(line, f"there are {len(row)} cells, and the header has {len(header)}")
            cells = dict(zip(header, row, strict=True))
            source, target = cells[ends[0]], cells[ends[1]]
            if not source or not target:
                file.refuse(line, "an end of the edge is empty; name both nodes")
            if (source, target) in lines:
                file.refuse(line, f"the edge {source!r} -> {target!r} is on line {lines[source, target]} already")
            lines[source, target] = line
            for node in (source, target):
                parents.setdefault(node, [])
            file.check_number(len(parents))
            if _probability(file, line, cells.get("probability", "1")) > 0.5:
                parents[target].append(source)
    except csv.Error as error:
        file.refuse(rows.line_num, f"{error}; put names that hold a separator or a quote in double quotes")
    return parents


def _probability(file: _File, line: int, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        file.refuse(line, f"the probability is {cell!r}; it must be a number from 0 to 1 (edges above 0.5 are taken)")
    return value


def _read_bif(file: _File) -> dict[str, list[str]]:
    source = Source("graph", str(file.name), file.text, Limits(max_variables=MAX_NODES))
    try:
        return _bif_parents(file, source)
    except NetworkFileError as error:
        if error.line is None:
            raise
        file.refuse(error.line, error.cause)


def _bif_parents(file: _File, source: Source) -> dict[str, list[str]]:
    words, draft, heads = Words(source, FORM), Draft(source), array("q")
    while kind := words.take():
        begin = words.place
        if kind == "network":
            words.pass_until("{")
        elif kind == "variable":
            file.check_number(len(draft.n_states) + 1)
            name = words.take_name()
            draft.add_variable(name, 1, words.place)  # states are not of interest
            words.expect("{")
        elif kind == "probability":
            heads.append(begin)
            deque(words.take_family(), maxlen=0)  # names are looked up when all are declared
        else:
            words.refuse(f"{shown(kind)} begins no block; {FORM}")
        words.pass_nested(begin)
    if not draft.n_states and not heads:
        return {}
    read_families(words, draft, heads)
    draft.check_families()
    groups = {child: draft.parents(family) for family, child in enumerate(draft.children)}
    return {draft.name(v): [draft.name(parent) for parent in groups[v]] for v in range(len(draft.n_states))}
