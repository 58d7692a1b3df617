r"""Listed parent sets, weighed again on every new completion: a cost that grows with the missing cells, not with the
table.

Moves that redraw whole parent sets draw from lists (`doxa.structure.moves.parent_sets`).  *Which* sets are listed does
not matter for exactness, so the lists stay; their *weights* must be those of the completion at hand.  For each listed
family the counts of the rows that have none of its columns missing are kept: they never change.  Weighing adds the
others, which are found by joining the bit sets of the rows without each column, and looks logarithms of Gamma functions
up in a table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, lowest_bit
from doxa.models.bits import unpack_rows
from doxa.structure.cases.incomplete.data import IncompleteData
from doxa.structure.families.cache import store_score
from doxa.structure.families.rules import CONSTANT_RULE
from doxa.structure.families.scores import family_log_marginal, log_ratio
from doxa.structure.priors import family_log_prior

__all__ = ["FamilyLists", "family_lists", "fill_cache", "weigh_lists"]

_MOST_CELLS = 4096  # cells of a family whose counts are kept
_MOST_KEPT = 2**25  # cells of all families together: 256 MB
_MOST_TABULATED = 4096  # cases: logarithms for larger counts are computed when they are needed


class FamilyLists(NamedTuple):
    """Listed sets of all nodes, and of each the counts that do not depend on the completion."""

    first: NDArray[np.int64]  # (n_nodes + 1,): the sets of node i are numbers first[i] to first[i + 1] - 1
    node: NDArray[np.int64]  # (n_sets,)
    sets: NDArray[np.uint64]  # (n_sets, n_words)
    member_first: NDArray[np.int64]  # (n_sets + 1,)
    member: NDArray[np.int64]  # the parents
    stride: NDArray[np.int64]  # the parent's factor in the number of a cell; the child's is 1
    n_cells: NDArray[np.int64]  # (n_sets,): q r; 0 if the family's counts are not kept
    kept_first: NDArray[np.int64]  # (n_sets,): where its counts begin
    kept: NDArray[np.int64]
    log_prior: NDArray[np.float64]  # (n_sets,): share in the log prior of the graph
    cell_table: NDArray[np.int64]  # (n_sets,): row of ``ratios`` for cells
    config_table: NDArray[np.int64]  # (n_sets,): and for configurations
    log_weights: NDArray[np.float64]  # (n_tables,): log a of each row of ``ratios``
    ratios: NDArray[np.float64]  # (n_tables, n): ln Gamma(a + N) - ln Gamma(a) for N cases
    missing_in: NDArray[np.uint64]  # as `MissingCells.missing_in`
    scratch: NDArray[np.int64]  # (_MOST_CELLS,): work space

    @property
    def n_sets(self) -> int:
        """Number of sets, of all nodes together."""
        return len(self.node)


def family_lists(data: IncompleteData, node: NDArray[np.int64], sets: NDArray[np.uint64]) -> FamilyLists:
    """Lists of these parent sets.

    Parameters
    ----------
    data : IncompleteData
    node : ndarray of int64, shape (n_sets,)
        The child of each, rising.
    sets : ndarray of uint64, shape (n_sets, n_words)
        The parents, as bit sets; no set of a node twice.
    """
    missing_cells, rule, n = data.missing_cells, data.rule, data.n_nodes
    r = missing_cells.n_states
    members = unpack_rows(sets, n)
    member = np.nonzero(members)[1]
    sizes = members.sum(axis=1)
    log_q = members @ np.log(r)
    exact = log_q + np.log(r[node]) <= np.log(_MOST_CELLS) + 1e-9
    n_cells = np.where(exact, np.rint(np.exp(np.where(exact, log_q, 0.0))).astype(np.int64) * r[node], 0)
    kept_first = np.concatenate([[0], np.cumsum(n_cells)])[:-1].astype(np.int64)
    n_cells[kept_first + n_cells > _MOST_KEPT] = 0
    member_first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    log_cell = np.full(len(node), rule.log_weight)
    if rule.kind != CONSTANT_RULE:
        log_cell -= log_q + np.log(r[node])
    # Rounded, so that equal weights come out as one table: log a enters as exp(log a), and 1e-12 of it is nothing.
    both = np.round(np.concatenate([log_cell, log_cell + np.log(r[node])]), 12)
    log_weights, which = np.unique(both, return_inverse=True)
    log_prior = np.array([family_log_prior(int(c), s, data.prior.arrays) for c, s in zip(node, sets, strict=True)])
    lists = FamilyLists(
        np.searchsorted(node, np.arange(n + 1)).astype(np.int64), node, np.ascontiguousarray(sets), member_first,
        member.astype(np.int64), np.zeros(len(member), dtype=np.int64), n_cells, kept_first,
        np.zeros(int(np.max(kept_first + n_cells, initial=0)), dtype=np.int64), log_prior.reshape(len(node)),
        which[: len(node)].astype(np.int64), which[len(node) :].astype(np.int64), log_weights,
        np.zeros((len(log_weights), min(data.table.n_rows, _MOST_TABULATED) + 1)), missing_cells.missing_in,
        np.zeros(_MOST_CELLS, dtype=np.int64),
    )  # fmt: skip
    _prepare(lists, missing_cells.base, missing_cells.weights, r)
    return lists


@hot
def _prepare(lists: Any, base: Any, weights: Any, n_states: Any) -> None:
    """Fill factors, tables of logarithms, and the counts of rows whose family is complete."""
    for table in range(lists.log_weights.size):
        log_alpha = lists.log_weights[table]
        for cases in range(1, lists.ratios.shape[1]):
            lists.ratios[table, cases] = log_ratio(float(cases), np.exp(log_alpha), log_alpha)
    for s in range(lists.node.size):
        stride = n_states[lists.node[s]]
        begin, end = lists.member_first[s], lists.member_first[s + 1]
        for e in range(begin, end):
            lists.stride[e] = stride
            stride *= n_states[lists.member[e]]
        if lists.n_cells[s] == 0:
            continue
        for row in range(base.shape[1]):
            cell = np.int64(base[lists.node[s], row])
            whole = cell >= 0
            for e in range(begin, end):
                state = base[lists.member[e], row]
                whole = whole and state >= 0
                cell += lists.stride[e] * state
            if whole:
                lists.kept[lists.kept_first[s] + cell] += weights[row]


@hot
def weigh_lists(completion: Any, scoring: Any, lists: Any, parents: Any, weight: Any) -> None:
    """Fill ``weight`` with the log weights of all sets in a completion: score and log prior.

    ``scoring`` is `IncompleteData.scoring`, ``parents`` work space of shape (n_words,).
    """
    for s in range(lists.node.size):
        if lists.n_cells[s] == 0:
            for w in range(parents.size):
                parents[w] = lists.sets[s, w]
            weight[s] = family_log_marginal(lists.node[s], parents, scoring[0], scoring[1], scoring[3])
        else:
            _count_set(s, completion, lists)
            weight[s] = _score_set(s, completion.n_states[lists.node[s]], lists)
        weight[s] += lists.log_prior[s]


@hot
def fill_cache(lists: Any, weight: Any, words: Any, cache: Any) -> None:
    """Store the weights of all listed families as their scores; ``words`` is work space of shape (n_words,)."""
    for s in range(lists.node.size):
        for w in range(words.size):
            words[w] = lists.sets[s, w]
        store_score(lists.node[s], words, weight[s], cache)


@hot
def _count_set(s: int, completion: Any, lists: Any) -> None:
    """Counts of a listed family in a completion, into the work space."""
    node, rows = lists.node[s], completion.rows
    counts = lists.scratch
    begin, end = lists.member_first[s], lists.member_first[s + 1]
    first = lists.kept_first[s]
    for cell in range(lists.n_cells[s]):
        counts[cell] = lists.kept[first + cell]
    for w in range(lists.missing_in.shape[1]):
        word = lists.missing_in[node, w]
        for e in range(begin, end):
            word |= lists.missing_in[lists.member[e], w]
        while word != np.uint64(0):
            i = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            place = np.int64(rows[i, node])
            for e in range(begin, end):
                place += lists.stride[e] * rows[i, lists.member[e]]
            counts[place] += 1


@hot
def _score_set(s: int, r: int, lists: Any) -> float:
    """Log marginal likelihood of the family whose counts are in the work space."""
    counts = lists.scratch
    of_cell, of_config = lists.cell_table[s], lists.config_table[s]
    score = 0.0
    for begin in range(0, lists.n_cells[s], r):
        total = 0
        for cell in range(begin, begin + r):
            if counts[cell] > 0:
                score += _ratio(counts[cell], of_cell, lists)
                total += counts[cell]
        if total > 0:
            score -= _ratio(total, of_config, lists)
    return score


@hot
def _ratio(cases: int, table: int, lists: Any) -> float:
    if cases < lists.ratios.shape[1]:
        return lists.ratios[table, cases]  # type: ignore[no-any-return]
    log_alpha = lists.log_weights[table]
    return log_ratio(float(cases), np.exp(log_alpha), log_alpha)
