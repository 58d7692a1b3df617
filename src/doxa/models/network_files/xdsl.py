"""Read and write XDSL, the format of GeNIe and SMILE: nodes with states, parents and probabilities.

    <smile version="1.0" id="unknown"><nodes>
    <cpt id="lung"><state id="yes"/><state id="no"/><parents>smoke</parents>
    <probabilities>0.1 0.9 0.01 0.99</probabilities></cpt>
    </nodes></smile>

The node itself varies fastest, then the last of its parents.  Parents stand before their children in the files that are
written, as SMILE wants it; those that are read may have any order.  Extensions and properties are passed over; nodes of
other kinds, such as decisions and noisy gates, are refused.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

from doxa.models.categorical import CategoricalNetwork
from doxa.models.network_files.draft import Draft
from doxa.models.network_files.names import finish_renamed, name_comments, words_for
from doxa.models.network_files.source import Source, check_states, shown
from doxa.models.network_files.tables import Rows
from doxa.models.network_files.xmlbif import ESCAPES, ILLEGAL, Mark, Stretches, scan_marks, unescaped

__all__ = ["read_xdsl", "xdsl_pieces"]

_INSIDE = {
    "": {"smile"},
    "smile": {"nodes", "extensions", "properties", "property"},
    "nodes": {"cpt"},
    "cpt": {"state", "parents", "probabilities", "property"},
}
_PASSED_OVER = frozenset({"extensions", "properties", "property"})
_WORD = re.compile(r"\S++")
_ID = re.compile(r"""\sid\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")


def read_xdsl(source: Source) -> CategoricalNetwork:
    """Read a network, or raise `NetworkFileError`."""
    nodes = _Nodes(source)
    nodes.read()
    draft = nodes.draft
    nodes.add_families()
    draft.check()
    rows = Rows(draft)
    for family in range(len(draft.children)):
        nodes.read_table(family, rows)
    return finish_renamed(rows, source)


class _Nodes:
    """Declarations, taken element by element."""

    def __init__(self, source: Source) -> None:
        self._labels: list[str] = []
        self.draft = Draft(source, self._labels)
        self._source = source
        self._open: list[Mark] = []
        self._n_labels = 0  # in front of those of the node that is open
        self._places = array("q")  # of each node
        self._stretches = {"parents": Stretches(), "probabilities": Stretches()}

    def read(self) -> None:
        """Go through the file: nodes go to the draft, their parents and numbers are kept till all are known."""
        n_passed = 0  # open elements of what is passed over
        for mark in scan_marks(self._source):
            if mark.kind == "<":
                n_passed += n_passed > 0 or mark.name in _PASSED_OVER
                if not n_passed or n_passed == 1:
                    self._begin(mark)
                self._open.append(mark)
            elif mark.kind == ">":
                begun = self._open.pop()
                if begun.name == "cpt" and not n_passed:
                    self._add_node(begun)
                n_passed -= n_passed > 0
            elif not n_passed:
                self._take(mark)

    def add_families(self) -> None:
        """Look up the names of parents."""
        for node, place in enumerate(self._places):
            parents = array("i", (self.draft.number(name, place) for name in self._parents(node)))
            self.draft.add_family(node, parents, place)

    def read_table(self, node: int, rows: Rows) -> None:
        """Append the numbers of a node."""
        rows.take_table(node, self._stretches["probabilities"].of(node), self._places[node])

    def _parents(self, node: int) -> Iterator[str]:
        for stretch in self._stretches["parents"].of(node):
            for word in _WORD.finditer(self._source.text, *stretch):
                yield unescaped(self._source, Mark("text", "", *word.span()))

    def _begin(self, mark: Mark) -> None:
        outer = self._open[-1].name if self._open else ""
        if mark.name not in _INSIDE.get(outer, set()):
            inside = f" in {outer}" if outer else ", and XDSL begins with smile"
            if outer == "nodes":
                inside = "; only networks of nodes of the kind 'cpt' are read: change the node's type to general"
            self._source.refuse(f"the element {shown(mark.name)} is not expected here{inside}", mark.start)
        if mark.name == "cpt":
            self._n_labels = len(self._labels)
        elif mark.name == "state":
            self._labels.append(self._id(mark))
        elif mark.name in self._stretches:
            self._stretches[mark.name].n_elements[-1] += 1

    def _id(self, mark: Mark) -> str:
        found = _ID.search(self._source.text, mark.start, mark.end)
        if found is None or not found[found.lastindex or 0]:
            self._source.refuse(f"this element {mark.name} has no id", mark.start)
        return unescaped(self._source, Mark("text", "", *found.span(found.lastindex or 0)))

    def _take(self, mark: Mark) -> None:
        name = self._open[-1].name
        if name in self._stretches:
            self._stretches[name].add(mark)
        elif self._source.text[mark.start : mark.end].strip():
            self._source.refuse(f"there is text in {name} outside of its elements", mark.start)

    def _add_node(self, begun: Mark) -> None:
        name, n_states = self._id(begun), len(self._labels) - self._n_labels
        if not n_states:
            self._source.refuse(f"the variable {shown(name)} has no element state; give its states", begun.start)
        check_states(self._source, shown(name), self._labels, self._n_labels, lambda _: begun.start)
        for what, stretches in self._stretches.items():
            n = stretches.n_elements[-1]
            if n > 1 or (n == 0 and what == "probabilities"):
                self._source.refuse(f"{shown(name)} has {n} elements {what}; it has one", begun.start)
            stretches.end_node()
        self._places.append(begun.start)
        self.draft.add_variable(name, n_states, begun.start)


def xdsl_pieces(network: CategoricalNetwork) -> Iterator[str]:
    """The text of a network in pieces; names that XDSL cannot hold stand in comments, and words in their place."""
    names = words_for(network.names)
    states = [words_for(labels) for labels in network.states]
    position = {name: i for i, name in enumerate(network.names)}
    in_order = all(parent < node for node, parents in enumerate(network.parents) for parent in parents)
    order = list(range(len(names))) if in_order else [position[name] for name in network.dag.topological_order()]
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<smile version="1.0" id="unknown">\n<nodes>\n'
    for node in order:
        listed = "".join(f'  <state id="{label}" />\n' for label in states[node])
        given = " ".join(names[p] for p in network.parents[node])
        parents = f"  <parents>{given}</parents>\n" if given else ""
        numbers = " ".join(map(repr, network.tables[network.names[node]].ravel().tolist()))
        yield f'<cpt id="{names[node]}">\n{listed}{parents}  <probabilities>{numbers}</probabilities>\n</cpt>\n'
    yield '</nodes>\n<extensions>\n<genie version="1.0" app="doxa" name="unknown">\n'
    for node in order:  # which GeNIe shows, and some readers ask for
        name = ILLEGAL.sub("_", network.names[node]).translate(ESCAPES)
        yield f'<node id="{names[node]}"><name>{name}</name></node>\n'
    yield "</genie>\n</extensions>\n"
    yield from name_comments(network, names, states, "<!-- ", " -->", order)
    yield "</smile>\n"
