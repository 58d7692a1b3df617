r"""Graphs from files and into files: who is a parent of whom, and nothing else.

Forms are told apart by the end of the name (each also with ``.gz``):

- ``.bif``: the heads ``variable NAME`` and ``probability ( CHILD | A, B )`` of a network in the interchange format;
  what stands in their blocks, states and tables, is passed over.
- ``.csv``: edges, under a header that has ``source,target``, ``from,to`` or ``parent,child``.  Where there is a column
  ``probability``, as in what ``doxa learn --output`` writes, edges above 0.5 are taken; every name is a node.
- ``.dot`` and ``.gv``: a ``digraph`` of Graphviz, in which an edge may go through several nodes, ``a -> b -> c``, and
  to or from a group, ``{a b} -> c``; attributes are passed over.
- ``.xml``, ``.xmlbif``, ``.net``, ``.dsc``, ``.xdsl``, ``.uai``, ``.json``: the graph of a directed network.
- any other end: lines ``child: parent parent``.  A node alone has no parents; commas may stand between parents; a word
  that begins with ``#`` begins a comment; names with blanks, colons or commas stand in double quotes, and a quote in
  them is written twice.

Time is linear in the size of the file and the number of edges, whatever it holds.  Cycles are found where a network is
made of the graph.
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

from doxa.errors import ArgumentError, ArgumentTypeError, FileError
from doxa.models.dag import Dag
from doxa.models.markov import MarkovNetwork
from doxa.models.network_files import ENDS, read_network
from doxa.models.network_files.bif import FORM, read_families
from doxa.models.network_files.draft import Draft
from doxa.models.network_files.source import Limits, NetworkFileError, Source, check_path, shown, write_text
from doxa.models.network_files.words import Words

__all__ = ["MAX_BYTES", "MAX_NODES", "is_dot", "read_graph", "read_parents", "write_graph"]

MAX_BYTES = 2**24  # unpacked; the largest networks in circulation have a third of it
MAX_NODES = 10_000  # whose adjacency matrix takes 100 MB

_LINES = "write 'child: parent parent', and names with blanks, colons or commas in double quotes"
_NAME = r'(?:"(?>[^"]|"")++"|[^\s:,"#][^\s:,"]*+)'
_LINE = re.compile(
    rf"\s*+(?>({_NAME})\s*+(?>:\s*+(?>({_NAME}(?>(?:\s*+,\s*+|\s++){_NAME})*+))?+)?+)?+\s*+(?>#.*+)?+\Z", re.DOTALL
)
_ENDS = (("source", "target"), ("from", "to"), ("parent", "child"))
_HEADER = f"the header names the two ends of an edge, once each: {' or '.join(map(','.join, _ENDS))}"
_MOST_CELLS = 1000  # of a line of edges
_OTHERS = frozenset({".parquet"})
_DOT = frozenset({".dot", ".gv"})
_DOT_FORM = "a DOT file is of the form 'digraph { a -> b; \"node c\"; }'"
_DOT_TOKEN = re.compile(
    r"(?>\s++|//[^\n]*+|^#[^\n]*+|/\*[^*]*+\*++(?>[^/*][^*]*+\*++)*+/)*+"
    r'("(?>[^"\\]|\\.)*+"|->|--|[{}\[\];,=:]|[^\W\d]\w*+|-?+(?:\d++\.?+\d*+|\.\d++)|\Z|.)',
    re.MULTILINE | re.DOTALL,
)
_DOT_NAME = re.compile(r"[^\W\d]\w*+|-?+(?:\d++\.?+\d*+|\.\d++)")
_MAX_EDGES = 1_000_000  # groups declare more than they write out
_MAX_DEPTH = 16  # of groups


def read_graph(path: str | os.PathLike[str]) -> Dag:
    """Read a graph from a DOT file, a CSV file of edges, lines ``child: parent parent``, or a network file.

    Parameters
    ----------
    path : str or path-like
        The end of the name says which: ``.dot``, ``.gv``, ``.csv``, an end of `doxa.read_network`'s, or any other for
        lines; each also with ``.gz``.

    Returns
    -------
    Dag

    Raises
    ------
    FileError
        If the file cannot be read; the message names the line.
    ArgumentError
        If the graph has a cycle.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graph(Dag.from_edges([("rain", "wet grass")]), f"{folder}/lawn.dot")
    ...     read_graph(f"{folder}/lawn.dot")
    Dag(2 nodes: rain -> wet grass)
    """
    parents = read_parents(path)
    return Dag.from_edges([(parent, child) for child, group in parents.items() for parent in group], list(parents))


def write_graph(graph: Dag, path: str | os.PathLike[str]) -> None:
    """Write a graph as a DOT file, which Graphviz draws; an older file is replaced in one step.

    Parameters
    ----------
    graph : Dag
    path : str or path-like
        Ends in ``.dot`` or ``.gv``, or these and ``.gz``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the name ends otherwise, DOT cannot hold the name of a node, or ``graph`` is no Dag.
    FileError
        If the file cannot be written.
    """
    if not isinstance(graph, Dag):
        raise ArgumentTypeError(f"graph is of type {type(graph).__name__}; give a Dag, such as network.dag")
    name = check_path(path)
    if not is_dot(Path(name)):
        raise ArgumentError(f"path is {name!r}; its end must be one of {', '.join(sorted(_DOT))}, also with .gz")
    nodes = dict(zip(graph.names, map(_dot_name, graph.names), strict=True))
    lines = [f"  {node};\n" for node in nodes.values()]
    lines += [f"  {nodes[parent]} -> {nodes[child]};\n" for parent, child in graph.edges]
    write_text(["digraph {\n", *lines, "}\n"], name, "graph")


def is_dot(path: Path) -> bool:
    """Whether a file is one of Graphviz by its name."""
    return _end_of(path) in _DOT


def _dot_name(name: str) -> str:
    if re.search(r'\\(?:["\n\r]|\Z)', name):
        raise ArgumentError(
            f"the name {name!r} has a backslash before a quote, a line break or its end, which DOT cannot hold"
        )
    return '"' + name.replace('"', '\\"') + '"'


def _end_of(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def read_parents(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read the parents of every node from a graph file or a network file.

    Nodes that stand in the file as parents alone come last.  A refusal names the line and the way out.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(f"graph is {path!r}; it must be the name of a file")
    name = Path(path)
    end = _end_of(name)
    if end in _OTHERS:
        raise FileError(
            f"graph {str(name)!r}: files that end in {end} are not read as graphs; give a network file, a .dot file, "
            "edges in a .csv file, or lines 'child: parent parent' in a .txt file"
        )
    if end in ENDS and end != ".bif":  # of which heads are enough
        network = read_network(name)
        if isinstance(network, MarkovNetwork):
            raise FileError(f"graph {str(name)!r} holds an undirected network, which has no parents")
        return {node: list(network.dag.parents(node)) for node in network.names}
    file = _File(name, _text(name))
    forms = {".bif": (_read_bif, FORM), ".csv": (_read_edges, _HEADER), **dict.fromkeys(_DOT, (_read_dot, _DOT_FORM))}
    read, rule = forms.get(end, (_read_lines, _LINES))
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


_PIECE = 2**16  # bytes


def _beginning(name: Path) -> bytes:
    with gzip.open(name) if name.suffix.lower() == ".gz" else name.open("rb") as stream:
        pieces, size = [], 0
        while size <= MAX_BYTES and (piece := stream.read(_PIECE)):  # room for all at once would be taken for none
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)


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
    if first.count(delimiter) >= _MOST_CELLS:  # a list of them would take twenty times the file
        file.refuse(1, f"there are more than {_MOST_CELLS} cells; {_HEADER}")
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


def _read_dot(file: _File) -> dict[str, list[str]]:
    dot = _Dot(file)
    dot.read()
    return {node: list(parents) for node, parents in dot.parents.items()}


class _Dot:
    """The tokens of a DOT file, taken one after the other, and the edges so far."""

    def __init__(self, file: _File) -> None:
        self.parents: dict[str, dict[str, None]] = {}
        self._file = file
        self._position = self._place = self._n_edges = 0

    def read(self) -> None:
        """Go through the file."""
        word = self._take()
        if word.lower() == "strict":
            word = self._take()
        if word.lower() == "graph":
            self._refuse("the edges of a 'graph' have no direction; write a 'digraph'")
        if word.lower() != "digraph":
            self._refuse(_DOT_FORM)
        if (word := self._take()) != "{":
            self._name(word)
            self._expect("{")
        self._statements(1)
        if self._take():
            self._refuse("something stands behind the graph's closing brace; keep one graph")

    def _take(self) -> str:
        found = _DOT_TOKEN.match(self._file.text, self._position)
        assert found is not None  # it may be empty
        self._place, self._position = found.span(1)
        return found[1]

    def _peek(self) -> str:
        found = _DOT_TOKEN.match(self._file.text, self._position)
        assert found is not None
        return found[1]

    def _expect(self, mark: str) -> None:
        if (word := self._take()) != mark:
            self._refuse(f"{shown(word)} stands where {mark!r} should; {_DOT_FORM}")

    def _refuse(self, what: str) -> NoReturn:
        self._file.refuse(self._file.text.count("\n", 0, self._place) + 1, what)

    def _name(self, word: str) -> str:
        if word.startswith('"') and len(word) > 2:
            return re.sub(r"\\\r?\n", "", word[1:-1].replace('\\"', '"'))
        if not _DOT_NAME.fullmatch(word):
            self._refuse(f"{shown(word) if word else 'the end of the file'} stands where a name should; {_DOT_FORM}")
        return word

    def _statements(self, depth: int) -> dict[str, None]:
        """Go through a block, its opening brace left behind, and return the nodes that it names."""
        if depth > _MAX_DEPTH:
            self._refuse(f"groups are nested more than {_MAX_DEPTH} deep")
        named: dict[str, None] = {}
        while (word := self._take()) != "}":
            if word in (";", ","):
                continue
            if word.lower() in ("node", "edge", "graph") and self._peek() == "[":
                self._pass_attributes()
                continue
            nodes = self._end_point(word, depth)
            if self._peek() == "=":  # it was the name of an attribute
                self._take()
                self._name(self._take())
                continue
            self._add_nodes(nodes)
            named |= nodes
            while (arrow := self._peek()) in ("->", "--"):
                self._take()
                if arrow == "--":
                    self._refuse("the edge '--' has no direction; write '->'")
                children = self._end_point(self._take(), depth)
                self._add_nodes(children)
                self._add_edges(nodes, children)
                named |= children
                nodes = children
            self._pass_attributes()
        return named

    def _end_point(self, word: str, depth: int) -> dict[str, None]:
        """The nodes of a name, or of a group."""
        if word.lower() == "subgraph":
            word = self._take()
            if word != "{":
                self._name(word)
                self._expect("{")
                word = "{"
        if word == "{":
            return self._statements(depth + 1)
        node = self._name(word)
        while self._peek() == ":":  # where at the node an edge begins
            self._take()
            self._name(self._take())
        return {node: None}

    def _add_nodes(self, nodes: dict[str, None]) -> None:
        for node in nodes:
            self.parents.setdefault(node, {})
        self._file.check_number(len(self.parents))

    def _add_edges(self, parents: dict[str, None], children: dict[str, None]) -> None:
        self._n_edges += len(parents) * len(children)
        if self._n_edges > _MAX_EDGES:
            self._refuse(f"the edges up to here are more than {_MAX_EDGES}, the most that are read")
        for child in children:
            self.parents[child] |= parents

    def _pass_attributes(self) -> None:
        while self._peek() == "[":
            self._take()
            begin = self._place
            while (word := self._take()) != "]":
                if not word:
                    self._place = begin
                    self._refuse("the attributes that begin here are not closed; has the file been cut off?")
