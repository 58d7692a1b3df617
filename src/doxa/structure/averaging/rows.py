"""`RowProbabilities`: rows, complete or not, in all networks of posterior mean parameters at once.

For each row and graph there is the probability of what was observed, and that of each state of each missing cell given
it.  Both are exact (`doxa.structure.averaging.query` shows why mean parameters do).

Probabilities of rows with missing cells, in many networks: the compiled loop.

In each network the missing cells of a row fall into parts that the observed ones separate, and the states of each part
are listed: few in rows that are mostly observed, where this is far quicker than planning an elimination.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.inference.exact import Budget, BudgetError, plan_contraction
from doxa.models.factors import Factor
from doxa.structure.averaging.conditional import read_budget
from doxa.structure.averaging.draws import NetworkDraws

__all__ = ["RowProbabilities", "row_in_networks"]


class RowWork(NamedTuple):
    """Work space of one row."""

    owner: NDArray[np.int64]  # (n_missing,): missing cells that hang together have one root
    digit: NDArray[np.int64]  # (n_missing,): the states of a part
    base: NDArray[np.int64]  # (n_nodes,): where a family with missing cells begins in the values
    part: NDArray[np.int64]  # (n_nodes,): one of its missing cells
    at: NDArray[np.int64]  # (n_nodes,): its place in the values
    step: NDArray[np.int64]  # (n_nodes, n_missing): how far it moves there with the state of a cell
    logs: NDArray[np.float64]  # (limit,)


@hot
def row_in_networks(
    row: Any, missing_cells: Any, tables: Any, limit: int, work: Any, log_weight: Any, probabilities: Any
) -> None:
    """Fill log p(row | network) and p(missing cell = state | row, network), for every network.

    Parameters
    ----------
    row : (n_nodes,) codes; those of missing cells are not read
    missing_cells : number (n_nodes,) of each missing cell, -1 where observed; sizes (n_missing,); starts (n_missing,)
        in ``probabilities``
    tables : family (n_networks, n_nodes); offset (n_networks, n_nodes); first (n_families + 1,), member and stride, the
        child with stride 1 among the members; log values
    limit : most states of a part to list; networks with more get nan
    work : RowWork
    log_weight, chances : (n_networks,), (n_networks, total of sizes): written
    """
    number, sizes = missing_cells[0], missing_cells[1]
    family, offset, first, member, stride, values = tables
    owner, base, part, step = work.owner, work.base, work.part, work.step
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
                _join(owner, missing_cell, k)
            if missing_cell < 0:
                total += values[place]
            else:
                base[n_dependent], part[n_dependent] = place, missing_cell
                n_dependent += 1
        for k in range(n_missing_cells):
            if _root(owner, k) == k:
                total += _list_part(k, missing_cells, values, work, n_dependent, limit, probabilities[t])
        log_weight[t] = total


@hot
def _root(owner: Any, k: int) -> int:
    while owner[k] != k:
        k = owner[k]
    return k


@hot
def _join(owner: Any, a: int, b: int) -> None:
    owner[_root(owner, a)] = _root(owner, b)


@hot
def _list_part(
    root: int, missing_cells: Any, values: Any, work: Any, n_dependent: int, limit: int, probabilities: Any
) -> float:
    """Log of the sum over the states of one part; its marginals into ``probabilities``."""
    sizes, starts = missing_cells[1], missing_cells[2]
    owner, digit, at, logs = work.owner, work.digit, work.at, work.logs
    n_cases = 1
    for k in range(sizes.size):
        if _root(owner, k) == root:
            n_cases *= sizes[k]
            digit[k] = 0
            if n_cases > limit:
                return math.nan
    for d in range(n_dependent):  # -1: a family of another part
        if _root(owner, work.part[d]) == root:
            at[d] = work.base[d]
        else:
            at[d] = -1
    peak = -math.inf
    for case in range(n_cases):
        log_p = 0.0
        for d in range(n_dependent):
            if at[d] >= 0:
                log_p += values[at[d]]
        logs[case] = log_p
        peak = max(peak, log_p)
        _next(root, sizes, work, n_dependent)
    total = 0.0
    for k in range(sizes.size):
        if _root(owner, k) == root:
            digit[k] = 0
            for s in range(sizes[k]):
                probabilities[starts[k] + s] = 0.0
    for case in range(n_cases):
        weight = math.exp(logs[case] - peak)
        total += weight
        for k in range(sizes.size):
            if _root(owner, k) == root:
                probabilities[starts[k] + digit[k]] += weight
        _next(root, sizes, work, 0)
    for k in range(sizes.size):
        if _root(owner, k) == root:
            for s in range(sizes[k]):
                probabilities[starts[k] + s] /= total
    return peak + math.log(total)


@hot
def _next(root: int, sizes: Any, work: Any, n_dependent: int) -> None:
    """Move on to the next states of a part, and every place with them; after the last comes the first."""
    owner, digit, at = work.owner, work.digit, work.at
    for k in range(sizes.size):
        if _root(owner, k) != root:
            continue
        digit[k] += 1
        around = digit[k] == sizes[k]
        move = 1 - sizes[k] if around else 1
        for d in range(n_dependent):
            if at[d] >= 0:
                at[d] += move * work.step[d, k]
        if not around:
            return
        digit[k] = 0


Floats = NDArray[np.float64]

_LIMIT = 4096  # states of a part: beyond it an elimination is quicker


class RowProbabilities:
    """All posterior mean tables of networks, laid out for rows.

    Parameters
    ----------
    draws : NetworkDraws
    exact_budget : Budget or int, optional
        Most that one network may cost where a row has many missing cells.
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
        """Evidence and probabilities of one row.

        Parameters
        ----------
        row : ndarray of int, shape (n_nodes,)
            Codes; those of ``missing_cells`` are not read.
        missing_cells : sequence of int
            Missing cells.

        Returns
        -------
        log_weight : ndarray of float, shape (n_networks,)
            Log probability of what was observed, nats.
        probabilities : ndarray of float, shape (n_networks, n)
            Of the states of the first missing cell, then of the next.

        Raises
        ------
        BudgetError
            If a network is too wide for exact inference with so many cells missing.
        """
        n = len(self.draws.names)
        sizes = np.array([self.draws.n_states[j] for j in missing_cells], dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        number = np.full(n, -1, dtype=np.int64)
        number[list(missing_cells)] = np.arange(len(missing_cells))
        log_weight = np.empty(len(self.draws))
        probabilities = np.empty((len(self.draws), int(sizes.sum())))
        m = len(missing_cells)
        owner, digit, base, part, at = (np.empty(size, dtype=np.int64) for size in (m, m, n, n, n))
        work = RowWork(owner, digit, base, part, at, np.empty((n, m), dtype=np.int64), np.empty(_LIMIT))
        tables = (self._family, self._offset, *self._layout, self._values)
        codes = np.ascontiguousarray(row, dtype=np.int64)
        row_in_networks(codes, (number, sizes, starts), tables, _LIMIT, work, log_weight, probabilities)
        for t in np.flatnonzero(np.isnan(log_weight)).tolist():
            log_weight[t], probabilities[t] = self._eliminate(codes, list(missing_cells), t)
        return log_weight, probabilities

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
