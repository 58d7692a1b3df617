"""`RowProbabilities`: rows, complete or not, in all networks of posterior mean parameters at once.

For each row and graph there is the probability of what was observed, and that of each state of each missing cell given
it.  Both are exact (`doxa.structure.averaging.query` shows why mean parameters do).

In each network the missing cells of a row fall into parts that the observed ones separate, and the states of each part
are listed: few in rows that are mostly observed, where this is far quicker than planning an elimination.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints
from doxa.inference.exact import Budget, BudgetError, plan_contraction
from doxa.models.factors import Factor
from doxa.structure.averaging.conditional import read_budget
from doxa.structure.averaging.draws import NetworkDraws

__all__ = ["Parts", "RowProbabilities", "find_part", "join", "list_states", "room_for_parts", "root_of"]


class Parts(NamedTuple):
    """Room to list the states of missing cells that hang together, and the places of their tables in a network."""

    owner: NDArray[np.int64]  # (n_cells,) of trees whose roots stand for parts; -1 for what is no cell of any
    digit: NDArray[np.int64]  # (n_cells,) states of the cells of a part, in their order
    cells: NDArray[np.int64]  # (n_cells,) the cells of a part, rising
    base: NDArray[np.int64]  # (n_nodes,) where each table with missing cells is by what was observed
    part: NDArray[np.int64]  # (n_nodes,) one of its missing cells
    own: NDArray[np.int64]  # (n_nodes,) the tables of a part
    at: NDArray[np.int64]  # (n_nodes,) where each of them is
    step: NDArray[np.int64]  # (n_nodes, n_cells) how far a table's place moves with the state of a cell
    logs: NDArray[np.float64]  # (most states of a part to list,)


def room_for_parts(n_nodes: int, n_cells: int, limit: int) -> Parts:
    """Room for parts of up to ``limit`` states."""
    owner, digit, cells = np.empty((3, n_cells), dtype=np.int64)
    base, part, own, at = np.empty((4, n_nodes), dtype=np.int64)
    step = np.empty((n_nodes, n_cells), dtype=np.int64)
    return Parts(owner, digit, cells, base, part, own, at, step, np.empty(limit))


@hot
def root_of(owner: Ints, k: int) -> int:
    """The cell that stands for the part of cell ``k``."""
    while owner[k] != k:
        k = owner[k]
    return k


@hot
def join(owner: Ints, a: int, b: int) -> None:
    """Make one part of those of two cells."""
    owner[root_of(owner, a)] = root_of(owner, b)


@hot
def find_part(root: int, sizes: Ints, n_dependent: int, parts: Parts) -> tuple[int, int, int]:
    """Number of states of a part (0 if there are too many to list), of its cells and of its tables."""
    n_cases, n_cells, n_own = 1, 0, 0
    for k in range(parts.owner.size):
        if parts.owner[k] >= 0 and root_of(parts.owner, k) == root:
            parts.cells[n_cells] = k
            n_cells += 1
            n_cases *= sizes[k]
            if n_cases > parts.logs.size:
                return 0, 0, 0
    for d in range(n_dependent):
        if root_of(parts.owner, parts.part[d]) == root:
            parts.own[n_own] = d
            n_own += 1
    return n_cases, n_cells, n_own


@hot
def list_states(n_cases: int, n_cells: int, n_own: int, sizes: Ints, values: Floats, parts: Parts) -> float:
    """Fill ``logs`` with the log probability of each state of a part; the largest.  ``at`` is that of the first."""
    at, logs = parts.at, parts.logs
    for k in range(n_cells):
        parts.digit[k] = 0
    peak = -math.inf
    for case in range(n_cases):
        log_p = 0.0
        for d in range(n_own):
            log_p += values[at[d]]
        logs[case] = log_p
        peak = max(peak, log_p)
        _next(n_cells, n_own, sizes, parts)
    return peak


@hot
def _next(n_cells: int, n_own: int, sizes: Ints, parts: Parts) -> None:
    """Move on to the next states of a part, and every place with them; after the last comes the first."""
    cells, digit, own, at, step = parts.cells, parts.digit, parts.own, parts.at, parts.step
    for k in range(n_cells):
        j = cells[k]
        digit[k] += 1
        around = digit[k] == sizes[j]
        move = 1 - sizes[j] if around else 1
        for d in range(n_own):
            at[d] += move * step[own[d], j]
        if not around:
            return
        digit[k] = 0


Tables = tuple[Ints, Ints, Ints, Ints, Ints, Floats]  # of families of all networks, as `_row_in_networks` has them


@hot
def _row_in_networks(
    row: Ints, missing_cells: tuple[Ints, Ints, Ints], tables: Tables, parts: Parts, log_weight: Floats, beliefs: Floats
) -> None:
    """Fill log p(row | network) and p(missing cell = state | row, network), for every network; nan: too many states.

    ``row`` has codes, of which those of missing cells are not read.  ``missing_cells``: number (n_nodes,) of each, -1
    where observed; sizes and starts in ``beliefs`` (n_missing_cells,).  ``tables``: family and offset (n_networks,
    n_nodes); first (n_families + 1,), member and stride, child with stride 1 among the members; log values.
    """
    number, sizes, starts = missing_cells
    family, offset, first, member, stride, values = tables
    owner, step = parts.owner, parts.step
    n_missing_cells = sizes.size
    for t in range(family.shape[0]):
        for k in range(n_missing_cells):
            owner[k] = k
        total, n_dependent = 0.0, 0
        for node in range(row.size):
            f = family[t, node]
            place, missing_cell = offset[t, node], -1
            for e in range(first[f], first[f + 1]):
                k = number[member[e]]
                if k < 0:
                    place += row[member[e]] * stride[e]
                    continue
                if missing_cell < 0:
                    missing_cell = k
                    for other in range(n_missing_cells):
                        step[n_dependent, other] = 0
                step[n_dependent, k] = stride[e]
                join(owner, missing_cell, k)
            if missing_cell < 0:
                total += values[place]
            else:
                parts.base[n_dependent], parts.part[n_dependent] = place, missing_cell
                n_dependent += 1
        for k in range(n_missing_cells):
            if root_of(owner, k) == k:
                total += _list_part(find_part(k, sizes, n_dependent, parts), sizes, starts, values, parts, beliefs[t])
        log_weight[t] = total


@hot
def _list_part(
    found: tuple[int, int, int], sizes: Ints, starts: Ints, values: Floats, parts: Parts, beliefs: Floats
) -> float:
    """Log of the sum over the states of one part; its marginals into ``beliefs``."""
    n_cases, n_cells, n_own = found
    if n_cases == 0:
        return math.nan
    for d in range(n_own):
        parts.at[d] = parts.base[parts.own[d]]
    peak = list_states(n_cases, n_cells, n_own, sizes, values, parts)
    for k in range(n_cells):
        j = parts.cells[k]
        for s in range(sizes[j]):
            beliefs[starts[j] + s] = 0.0
    total = 0.0
    for case in range(n_cases):
        weight = math.exp(parts.logs[case] - peak)
        total += weight
        for k in range(n_cells):
            beliefs[starts[parts.cells[k]] + parts.digit[k]] += weight
        _next(n_cells, 0, sizes, parts)
    for k in range(n_cells):
        j = parts.cells[k]
        for s in range(sizes[j]):
            beliefs[starts[j] + s] /= total
    return peak + math.log(total)


_LIMIT = 4096  # states of a part: beyond it an elimination is quicker


class RowProbabilities:
    """All posterior mean tables of networks, laid out for rows.

    ``exact_budget`` is the most that one network may cost where a row has many missing cells.
    """

    def __init__(self, draws: NetworkDraws, exact_budget: Budget | int | None = None) -> None:
        self.draws = draws
        self.budget = read_budget(exact_budget, len(draws))
        n = len(draws.names)
        self._family = np.empty((len(draws), n), dtype=np.int64)
        self._offset = np.empty((len(draws), n), dtype=np.int64)
        first, member, stride, values, end = [0], [], [], [], 0
        for f, ((child, parents), members) in enumerate(draws.users.items()):
            tables = draws.mean_tables((child, parents))
            size = tables[0].size
            self._family[members, child] = f
            self._offset[members, child] = end + (np.arange(len(members)) * size if len(tables) > 1 else 0)
            end += tables.size
            values.append(tables.ravel())
            member += [*parents, child]
            stride += [step // tables.itemsize for step in tables.strides[1:]]
            first.append(len(member))
        self._layout = tuple(np.array(part, dtype=np.int64) for part in (first, member, stride))
        self._values = np.concatenate(values)

    def of(self, row: NDArray[np.integer], missing_cells: Sequence[int]) -> tuple[Floats, Floats]:
        """Log probability (nats) of what was observed in a row, shape (n_networks,), and probabilities of the rest.

        The latter has shape (n_networks, n): the states of the first missing cell, then of the next; the row's codes
        there are not read.  Raises `BudgetError` if a network is too wide for exact inference with so many missing.
        """
        n = len(self.draws.names)
        sizes = np.array([self.draws.n_states[j] for j in missing_cells], dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        number = np.full(n, -1, dtype=np.int64)
        number[list(missing_cells)] = np.arange(len(missing_cells))
        log_weight = np.empty(len(self.draws))
        beliefs = np.empty((len(self.draws), int(sizes.sum())))
        parts = room_for_parts(n, len(missing_cells), _LIMIT)
        first, member, stride = self._layout
        tables = self._family, self._offset, first, member, stride, self._values
        codes = np.ascontiguousarray(row, dtype=np.int64)
        _row_in_networks(codes, (number, sizes, starts), tables, parts, log_weight, beliefs)
        for t in np.flatnonzero(np.isnan(log_weight)).tolist():
            log_weight[t], beliefs[t] = self._eliminate(codes, list(missing_cells), t)
        return log_weight, beliefs

    def _eliminate(self, row: NDArray[np.int64], missing_cells: list[int], t: int) -> tuple[float, Floats]:
        """The same for one network, by contraction."""
        number = {v: k for k, v in enumerate(missing_cells)}
        factors, constant = [], 0.0
        for node, parents in enumerate(self.draws.parents[t]):
            members = (*parents, node)
            cut = tuple(slice(None) if v in number else int(row[v]) for v in members)
            table = self.draws.log_table(t, node, mean=True)[cut]
            scope = tuple(number[v] for v in members if v in number)
            if scope:
                factors.append(Factor(scope, table))
            else:
                constant += float(table)
        try:
            plan = plan_contraction(
                [self.draws.n_states[v] for v in missing_cells], [f.variables for f in factors], budget=self.budget
            )
            found = plan.run(factors)
        except BudgetError as error:
            what = f"a row with {len(missing_cells)} missing cells in network {t + 1} of {len(self.draws)}"
            raise BudgetError(what, error.cost, self.budget) from None
        return constant + found.log_z, np.concatenate(found.marginals)
