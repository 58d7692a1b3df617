r"""`Intervened`: families in a table in which somebody set cells, or changed how they come about.

A row in which a node was set says nothing about how the node depends on its parents, and counts in all other families
(Cooper & Yoo 1999).  Where an intervention changed how the node comes about, without setting it, the node has in these
rows a family of its own, with the same parents and other parameters (Tian & Pearl 2001; Eaton & Murphy 2007).  So a
node's score is a sum over its ways of coming about,

.. math:: s_i(P) = \sum_m \ln p(d_i^{(m)} \mid d_P^{(m)}),

each the score of the same kind on the rows m in which it came about so; a cell that was set has none.  Parameters are
those of the rows in which nobody intervened on the node.

Nodes have different cases, so counts of sets of columns serve no two of them, and compiled loops call a scorer, which
adds up those of the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import carray, typeof
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.structure.families.call import ONE_ROW, ScorerBox, at, call_scorer, opener, scorer
from doxa.structure.families.counting import (
    BDEU_RULE,
    CALLED_WITH_TABLE_RULE,
    Rule,
    counting_scratch,
)
from doxa.structure.families.kind import Data, FamilyKind, Scorer
from doxa.structure.families.scores import family_log_marginal

__all__ = ["Intervened", "intervened"]

_MECHANISMS = (0, 1)  # of a cell that was not set: its own, and the one that an intervention left
_ADDRESSES = 1 << 20  # of all parts, at most
_INHERITED = (
    "name", "is_probability", "has_coefficients", "is_mixture", "takes_categories", "takes_numbers", "most_states",
    "most_parents", "is_quick",
)  # fmt: skip


def intervened(kind: FamilyKind, interventions: NDArray[np.int8]) -> Intervened:
    """The kind with these interventions, in the place of others that it may have; see `Intervened`."""
    return Intervened(kind.own, interventions)


class Intervened(FamilyKind):
    """A kind of family, and the cells that interventions set or changed; see the module's notes.

    Parameters
    ----------
    kind : FamilyKind
    interventions : ndarray of int8, shape (n_rows, n_nodes)
        0, -1 or 1, as in `Table.interventions`; of the rows of the data that are scored.
    """

    def __init__(self, kind: FamilyKind, interventions: NDArray[np.int8]) -> None:
        self._own, self.interventions = kind, interventions
        for name in _INHERITED:
            setattr(self, name, getattr(kind, name))

    @property
    def own(self) -> FamilyKind:
        """The kind of families on which nobody intervened."""
        return self._own

    @property
    def text(self) -> str:
        """In words."""
        return f"{self._own.text}, of the rows in which a column was not intervened on"

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the kind."""
        return self._own.settings

    def of_node(self, node: int) -> FamilyKind:
        """As `FamilyKind.of_node`, where nobody intervened."""
        return self._own.of_node(node)

    def scorer(self, data: Data, numbers: Floats | None = None, *, fixed: bool = False) -> Scorer:
        """A compiled scorer."""
        return _PartsScorer(self, data, numbers, fixed=fixed)

    def cost(self, n_parents: int, n_rows: int) -> float:
        """That of the kind, or of counting the rows."""
        return self._own.cost(n_parents, n_rows) + (0.5 + 0.003 * n_rows * (1 + n_parents)) * self._own.is_counted

    def most_configurations(self, n_rows: int) -> int | None:
        """As for the kind."""
        return self._own.most_configurations(n_rows)

    def forbidden_edges(self, is_number: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """As for the kind."""
        return self._own.forbidden_edges(is_number)

    def check_columns(self, names: Sequence[str], n_states: NDArray[np.int64], is_number: NDArray[np.bool_]) -> None:
        """As for the kind."""
        self._own.check_columns(names, n_states, is_number)


class _PartsScorer:
    """Addresses of the scorers of all parts; keep it as long as they are in use, by one chain."""

    def __init__(self, kind: Intervened, data: Data, numbers: Floats | None, *, fixed: bool) -> None:
        self._parts: dict[bytes, tuple[ScorerBox | None, Scorer | None]] = {}
        first, parts = [0], []
        for node in range(len(data[2])):
            for mechanism in _MECHANISMS:
                cases = np.where(kind.interventions[:, node] == mechanism, data[1], 0)
                if cases.any():
                    key = cases.tobytes()
                    if key not in self._parts:
                        self._parts[key] = _scorers(kind.own, data, cases, numbers, fixed=fixed)
                    parts += [0 if one is None else one.addresses.ctypes.data for one in self._parts[key]]
            first.append(len(parts))
        assert len(parts) < _ADDRESSES // 2
        self.addresses = np.array([_sum_of_parts.address, len(first), *first, *parts], dtype=np.int64)

    def stand_still(self, whether: bool) -> None:
        """As of `GaussianBox`, every part."""
        for _, one in self._parts.values():
            stand_still = getattr(one, "stand_still", None)
            if stand_still is not None:
                stand_still(whether)

    @property
    def error(self) -> Exception | None:
        """What went wrong in a part."""
        return next((error for _, one in self._parts.values() if (error := getattr(one, "error", None))), None)

    @error.setter
    def error(self, none: None) -> None:
        for _, one in self._parts.values():
            if getattr(one, "error", None) is not None:
                one.error = none  # type: ignore[union-attr]  # it has one


def _scorers(
    kind: FamilyKind, data: Data, cases: NDArray[np.int64], numbers: Floats | None, *, fixed: bool
) -> tuple[ScorerBox | None, Scorer | None]:
    """What scores families as tables, if the kind asks for it, and by the kind, from these cases of the rows."""
    columns, _, n_states = data
    if fixed:  # nothing will be written, so that rows without cases need not be read
        kept = np.flatnonzero(cases)
        columns, cases = np.ascontiguousarray(columns[:, kept]), cases[kept]
        numbers = None if numbers is None else np.ascontiguousarray(numbers[:, kept])
    own = columns, cases, n_states
    rule = kind.rule(int(cases.sum()))
    if kind.is_counted:
        return _table_box(rule, own), None
    with_table = rule.kind == CALLED_WITH_TABLE_RULE
    table = _table_box(rule._replace(kind=BDEU_RULE), own) if with_table else None
    return table, kind.scorer(own, numbers, fixed=fixed)


def _table_box(rule: Rule, data: Data) -> ScorerBox:
    """The scorer of tables of counts, and all that it works on."""
    return ScorerBox(_score_table, _CONTENTS, (data, rule, counting_scratch(len(data[1]))))


_CONTENTS = typeof((ONE_ROW, Rule(BDEU_RULE, 0.0, 0.0), counting_scratch(1)))
_open = opener(_CONTENTS)


@scorer
def _score_table(child: int, words: Any, n_words: int, box: Any, _of_table: float) -> float:
    data, rule, scratch = _open(box)
    return family_log_marginal(child, carray(words, n_words), data, rule, scratch)


@scorer
def _sum_of_parts(child: int, words: Any, n_words: int, box: Any, _of_table: float) -> float:
    a, parents = carray(box, _ADDRESSES), carray(words, n_words)
    parts = 2 + a[1]
    total = 0.0
    for part in range(parts + a[2 + child], parts + a[3 + child], 2):
        of_table = call_scorer(carray(at(a[part]), 1, np.int64), child, parents, 0.0) if a[part] != 0 else 0.0
        if a[part + 1] != 0:
            of_table = call_scorer(carray(at(a[part + 1]), 1, np.int64), child, parents, of_table)
        total += of_table
    return total
