r"""Probabilities of the rows of a table under a logistic network, missing cells summed out exactly.

A row's probability is a product of factors: one for each node with parents, one for each block of
roots (Jaakkola & Jordan 2000, eq. 20).  Summing over missing cells leaves alone the factors that have
none of them (their eq. 21); those that have fall into *components*, groups of missing cells that share
factors, and the sum over a row is a product of sums over components.  A missing cell without observed
descendants sums to one and is taken out first.

`LogisticLikelihood` does the bookkeeping once: distinct configurations of each factor, and which of
them each row and each component needs.  An evaluation is then one matrix product a node on distinct
configurations, for a whole batch of parameters, and a gather.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Bits
from doxa.data import Table
from doxa.data.table import check_categories, group_rows
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.models.logistic_factors import BoundFactor, BoundLearned, BoundTable, Factor, LogisticFactor
from doxa.models.logistic_options import GaussianPrior
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.models.missing_sums import Component, Together
from doxa.text import listed

MAX_CONFIGURATIONS = 2**20  # hidden configurations in all, times distinct observed neighbourhoods: 20 ms a factor
_ONES = frozenset({"1", "+1", "1.0", "yes", "true"})  # lone labels that mean 1
_DENSE_BITS = 20  # up to here keys are counted in an array rather than sorted: 10 ms, not 150, for a million rows

CheckThetas = Callable[[Mapping[str, ArrayLike]], tuple[dict[str, NDArray[np.float64]], int | None]]


def binary_codes(table: Table, names: Sequence[str]) -> Bits:
    """Codes 0, 1 and -1 (missing) of the named columns, shape (n_distinct, n_names); absent columns are missing.

    The second of a column's two states is 1.  A column of one state is 1 if its label is one of 1, +1, 1.0, yes, true
    (in any case), else 0.

    >>> table = Table.from_codes(["a", "b"], [["no", "yes"], ["Yes"]], [[1, 0], [0, -1]])
    >>> binary_codes(table, ["b", "c", "a"]).tolist()
    [[1, -1, 1], [-1, -1, 0]]
    """
    if not isinstance(table, Table):
        raise ArgumentTypeError(
            f"table is of type {type(table).__name__}; it must be a Table: doxa.read_table makes one of a file or frame"
        )
    position = {name: j for j, name in enumerate(table.names)}
    if not any(name in position for name in names):
        raise TableError(
            f"table has no column of the network's: its columns are {listed(table.names)}, "
            f"and the nodes {listed(names)}; rename the columns"
        )
    check_categories(table, "a network of binary nodes", names)
    codes = np.full((table.n_distinct, len(names)), -1, dtype=np.int8)
    for k, name in enumerate(names):
        if name not in position:
            continue
        states = table.states[position[name]]
        if len(states) > 2:
            raise TableError(
                f"table column {name!r} has {len(states)} states ({listed(states, 4)}), and the nodes of a logistic "
                f"network have two; merge its states, read numbers with bins={{{name!r}: 2}}, take the node "
                f"out of the network, or fit tables: family='categorical'"
            )
        column = table.codes[:, position[name]]
        if len(states) == 1 and states[0].casefold() in _ONES:
            codes[:, k] = np.where(column < 0, -1, 1)
        else:
            codes[:, k] = column
    return codes


def distinct_rows(bits: Bits) -> tuple[Bits, NDArray[np.int32]]:
    """Distinct rows of a matrix of 0 and 1, and for every row the distinct one it equals."""
    n_rows, n_bits = bits.shape
    if n_bits > _DENSE_BITS:
        first, index = group_rows([bits[:, j].astype(np.int16) for j in range(n_bits)], n_rows)
        return bits[first], index.astype(np.int32)
    keys = np.zeros(n_rows, dtype=np.int32)
    for j in range(n_bits):
        keys <<= 1
        keys |= bits[:, j]
    present = np.bincount(keys, minlength=1) > 0 if n_rows else np.zeros(1, dtype=np.bool_)
    rank = np.cumsum(present, dtype=np.int32) - np.int32(1)
    distinct = np.flatnonzero(present)
    unpacked = distinct[:, None] >> np.arange(n_bits - 1, -1, -1) & 1
    return unpacked.astype(np.int8), rank[keys]


@dataclass(frozen=True)
class _Complete:
    """Rows in which a factor has no missing cell."""

    factor: int
    rows: NDArray[np.int32]
    index: NDArray[np.int32]  # their configurations
    configurations: NDArray[np.intp]  # those that occur, and how often
    weights: NDArray[np.float64]

    def log_probability(self, values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Log probability of all of them, shape (n_batch,), from the factors' ``values`` at each configuration."""
        return np.asarray(values[self.factor].T.take(self.configurations, axis=0).T @ self.weights)


class LogisticLikelihood:
    """The likelihood of one table under a `LogisticNetwork`, ready for many evaluations.

    Missing cells and nodes without a column are summed out exactly, component by component; ``n_configurations`` counts
    the hidden configurations in one evaluation, times the distinct observed neighbourhoods they stand in.
    """

    def __init__(self, names: Sequence[str], factors: Sequence[Factor], check: CheckThetas, table: Table) -> None:
        codes = binary_codes(table, names)
        self._check_thetas = check
        self._n_rows = table.n_distinct
        groups = rows_of_components(factors, codes)
        self.n_configurations = 0
        missing = codes < 0
        kept = [np.flatnonzero(~missing[:, list(factor.scope)].any(axis=1)).astype(np.int32) for factor in factors]
        blocks = [[codes[rows][:, list(factor.scope)]] for factor, rows in zip(factors, kept, strict=True)]
        drafts = []
        for (nodes, touched), rows in groups.items():
            observed = sorted({v for f in touched for v in factors[f].scope} - set(nodes))
            distinct, local = distinct_rows(codes[rows][:, observed])
            self.n_configurations += len(distinct) << len(nodes)
            if self.n_configurations > MAX_CONFIGURATIONS:
                raise _too_many(self.n_configurations, [names[v] for v in nodes])
            hidden = all_configurations(len(nodes))
            for f in touched:
                blocks[f].append(_expand(factors[f].scope, nodes, hidden, observed, distinct))
            weights = _cases(local, table.counts[rows], len(distinct))
            drafts.append((rows, local, weights, touched, (len(distinct), len(hidden))))
        self._bound: list[BoundFactor] = []
        self._complete: list[_Complete] = []
        pieces, sizes = [], []
        for f, (factor, rows, block) in enumerate(zip(factors, kept, blocks, strict=True)):
            configurations, index = distinct_rows(np.concatenate(block))
            first, *rest = np.split(index, np.cumsum([len(part) for part in block])[:-1])
            weights = _cases(first, table.counts[rows], len(configurations))
            occurring = np.flatnonzero(weights)  # the others may be impossible: 0 * -inf is no number
            self._bound.append(factor.bind(configurations))
            sizes.append(len(configurations))
            if rows.size:
                self._complete.append(_Complete(f, rows, first, occurring, weights[occurring]))
            pieces.append(iter(rest))
        self._learned = {f: bound for f, bound in enumerate(self._bound) if not isinstance(bound, BoundTable)}
        self._components = [
            Component(rows, local, weights, touched, tuple(next(pieces[f]).reshape(shape) for f in touched))
            for rows, local, weights, touched, shape in drafts
        ]
        self._arrange(sizes)

    def _arrange(self, sizes: Sequence[int]) -> None:
        """Where the values of the factors, of so many configurations each, and the shares of components stand."""
        self._first = np.cumsum([0, *sizes])
        self._width, self._places = int(self._first[-1]) + 1, list(pairwise(self._first.tolist()))
        alike: dict[int, dict[int, Component]] = {}  # by the configurations of their missing cells
        for k, component in enumerate(self._components):
            alike.setdefault(component.index[0].shape[1], {})[k] = component
        self._together = [Together(members, self._first, self._learned) for members in alike.values()]
        self._certain = np.zeros(self._first[-1])  # cases of each configuration in rows that have it for certain
        for complete in self._complete:
            self._certain[self._first[complete.factor] + complete.configurations] = complete.weights
        none = np.zeros(0, dtype=np.intp)
        owners = np.concatenate([none, *(group.owners for group in self._together)])
        targets = np.concatenate([none, *(group.targets for group in self._together)])
        order = np.lexsort((owners, targets))  # to each configuration shares are added in the order of the components
        targets = targets[order]
        turn = np.arange(len(order)) - np.searchsorted(targets, targets)
        self._turns = [(order[turn == k], targets[turn == k]) for k in range(turn.max(initial=-1) + 1)]
        self._n_parts = len(order)

    def log_likelihood(self, thetas: Mapping[str, ArrayLike]) -> float | NDArray[np.float64]:
        """Log likelihood of the table (nats): a float, or shape (n_batch,) if any parameter is a batch."""
        checked, n_batch = self._check_thetas(thetas)
        values = [bound.log_values(bound.at(checked)) for bound in self._bound]
        total = np.zeros(n_batch or 1)
        for complete in self._complete:
            total += complete.log_probability(values)
        for component, sums in zip(self._components, self._log_sums(values, n_batch or 1), strict=True):
            total += sums @ component.weights
        return float(total[0]) if n_batch is None else total

    def value_and_gradient(
        self, thetas: Mapping[str, ArrayLike]
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
        """Log likelihood (nats) of a batch of parameters, shape (n_batch,), and its slope in each node's.

        Each node has (n_batch, n_coefficients); a learned root's slope is in the logit of its probability.  The slope
        of a log sum over hidden configurations is the expected slope under their posterior (Fisher's identity).
        """
        checked, n_batch = self._check_thetas(thetas)
        total, expected = self._expected_cases(checked, n_batch or 1)
        return total, {bound.node: bound.gradient(at, share) for bound, at, share in expected}

    def touching_precision(self, thetas: Mapping[str, ArrayLike]) -> dict[str, NDArray[np.float64]]:
        """Precision, for each node (n_batch, n_coefficients, n_coefficients), of a quadratic below the log likelihood.

        A log sum is convex in the log probabilities, and each of these is above a quadratic that touches at ``thetas``.
        """
        checked, n_batch = self._check_thetas(thetas)
        _, expected = self._expected_cases(checked, n_batch or 1)
        return {bound.node: bound.touching(at, share) for bound, at, share in expected}

    def above_tangent(
        self,
        thetas: Mapping[str, ArrayLike],
        axes: Mapping[str, NDArray[np.float64]],
        reach: Mapping[str, NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        """How far (nats) the log likelihood may lie above its tangent plane near ``thetas``, shape (n_batch,).

        ``axes`` are directions of each node's coefficients (the logit of a learned root), in columns, and ``reach``,
        shape (n_batch, n_coefficients), how far at most one goes along each, either way.  The log probability of a
        completion is concave, hence below its tangent X, and log E exp X <= E X + min(w^2 / 8, w) where all X lie in an
        interval of width w (Hoeffding's lemma).
        """
        checked, n_batch = self._check_thetas(thetas)
        total = np.zeros(n_batch or 1)
        for component in self._components:
            width = np.zeros((len(total), component.weights.size))
            for f, index in zip(component.factors, component.index, strict=True):
                if f in self._learned:
                    bound = self._learned[f]
                    span = np.ptp((bound.slopes(bound.at(checked)) @ axes[bound.node])[:, index], axis=2)
                    width += (span @ reach[bound.node][:, :, None])[:, :, 0]
            total += np.minimum(width**2 / 8, width) @ component.weights
        return total

    def _expected_cases(
        self, checked: Mapping[str, NDArray[np.float64]], n: int
    ) -> tuple[NDArray[np.float64], list[tuple[BoundLearned, NDArray[np.float64], NDArray[np.float64]]]]:
        """Log likelihood, and with each factor that has parameters what it is ``at`` and the expected cases
        (n, n_configurations) of its configurations.
        """
        at = [bound.at(checked) for bound in self._bound]
        values = [bound.log_values(one) for bound, one in zip(self._bound, at, strict=True)]
        total = np.zeros(n)
        for complete in self._complete:
            total += complete.log_probability(values)
        parts = np.empty((n, self._n_parts))
        for component, sums in zip(self._components, self._log_sums(values, n, parts), strict=True):
            total += sums @ component.weights
        cases = np.tile(self._certain, (n, 1))
        for some, targets in self._turns:
            cases[:, targets] += parts.take(some, axis=1)
        shares = np.split(cases, self._first[1:-1], axis=1)
        return total, [(bound, at[f], np.ascontiguousarray(shares[f])) for f, bound in self._learned.items()]

    def _log_sums(
        self, values: Sequence[NDArray[np.float64]], n: int, parts: NDArray[np.float64] | None = None
    ) -> list[NDArray[np.float64]]:
        """For each component the log sums over its missing cells (n, n_local); expected cases go to ``parts``."""
        beside = np.zeros((n, self._width))
        for (begin, end), one in zip(self._places, values, strict=True):
            beside[:, begin:end] = one
        found: list[NDArray[np.float64]] = [beside] * len(self._components)
        begin = 0
        for group in self._together:
            sums, end = np.empty((n, group.weights.size)), begin + len(group.targets)
            group.sum_out(beside, sums, None if parts is None else parts[:, begin:end])
            for k, stretch in group.stretches.items():
                found[k] = np.ascontiguousarray(sums[:, stretch])
            begin = end
        return found

    def log_rows(self, thetas: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
        """Log probability of every distinct row (nats), shape (n_distinct,) or (n_batch, n_distinct)."""
        checked, n_batch = self._check_thetas(thetas)
        values = [bound.log_values(bound.at(checked)) for bound in self._bound]
        rows = np.zeros((n_batch or 1, self._n_rows))
        for complete in self._complete:
            rows[:, complete.rows] += values[complete.factor][:, complete.index]
        for component, sums in zip(self._components, self._log_sums(values, n_batch or 1), strict=True):
            rows[:, component.rows] += sums[:, component.local]
        return rows[0] if n_batch is None else rows


def rows_of_components(
    factors: Sequence[Factor], codes: Bits
) -> dict[tuple[tuple[int, ...], tuple[int, ...]], NDArray[np.int32]]:
    """Rows that have each component, keyed by its missing nodes and the factors they share."""
    missing = codes < 0
    incomplete = np.flatnonzero(missing.any(axis=1)).astype(np.int32)
    patterns, pattern = distinct_rows(missing[incomplete].astype(np.int8))
    order = np.argsort(pattern, kind="stable")
    members = np.split(incomplete[order], np.cumsum(np.bincount(pattern, minlength=len(patterns)))[:-1])
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], list[NDArray[np.int32]]] = {}
    for mask, rows in zip(patterns, members, strict=False):  # no patterns leave one empty group
        for key in components_of_pattern(factors, frozenset(np.flatnonzero(mask).tolist())):
            found.setdefault(key, []).append(rows)
    return {key: np.concatenate(rows) for key, rows in found.items()}


def components_of_pattern(
    factors: Sequence[Factor], missing: frozenset[int]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Group missing nodes that share factors, after those without observed descendants are taken out.

    ``factors`` stand children before parents.  Each group is (nodes, positions of its factors).
    """
    groups: list[tuple[frozenset[int], set[int]]] = []
    needed: set[int] = set()  # nodes that some factor kept so far conditions on
    for f, factor in enumerate(factors):
        if all(child in missing and child not in needed for child in factor.children):
            continue  # sums to one, whatever the parents are
        needed.update(set(factor.scope).difference(factor.children))
        nodes, touched = missing.intersection(factor.scope), {f}
        if nodes:
            merged = [group for group in groups if not nodes.isdisjoint(group[0])]
            groups = [group for group in groups if nodes.isdisjoint(group[0])]
            groups.append((nodes.union(*(group[0] for group in merged)), touched.union(*(g[1] for g in merged))))
    return sorted((tuple(sorted(nodes)), tuple(sorted(touched))) for nodes, touched in groups)


def _cases(index: NDArray[np.int32], counts: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Cases of each of ``size`` configurations; a float holds whole numbers up to 2**53."""
    return np.bincount(index, weights=counts, minlength=size).astype(np.float64, copy=False)


def all_configurations(n_bits: int) -> Bits:
    """All configurations of ``n_bits`` cells, shape (2**n_bits, n_bits): cell j is bit j of the row's number."""
    return (np.arange(2**n_bits)[:, None] >> np.arange(n_bits) & 1).astype(np.int8)


def _expand(scope: Sequence[int], nodes: Sequence[int], hidden: Bits, observed: Sequence[int], distinct: Bits) -> Bits:
    """Values of a factor's nodes for every observed neighbourhood and hidden configuration, one a row."""
    bits = np.empty((len(distinct), len(hidden), len(scope)), dtype=np.int8)
    for k, node in enumerate(scope):
        bits[:, :, k] = hidden[:, nodes.index(node)] if node in nodes else distinct[:, [observed.index(node)]]
    return bits.reshape(-1, len(scope))


def _too_many(reached: int, nodes: Sequence[str]) -> ArgumentError:
    return ArgumentError(
        f"table needs sums over at least {reached:,} hidden configurations, and the limit is {MAX_CONFIGURATIONS:,}; "
        f"the last counted are of {len(nodes)} missing cells that share families ({listed(nodes, 6)}): observe some "
        f"of them, leave out the rows that miss most, or take hidden nodes out of the network"
    )


def parent_values(values: ArrayLike, n_parents: int) -> NDArray[np.generic]:
    """Check values of the parents of one node: codes or probabilities, shape (n, n_parents)."""
    matrix = np.asarray(values)
    if matrix.dtype.kind not in "buif":
        raise ArgumentTypeError(f"values has dtype {matrix.dtype}; it must hold numbers")
    if matrix.ndim != 2 or matrix.shape[1] != n_parents:
        raise ArgumentError(f"values has shape {matrix.shape}; it must be (n, {n_parents}), a column for every parent")
    inside = (matrix >= 0) & (matrix <= 1)  # NaN is not
    if not inside.all():
        wrong = matrix[~inside][0]
        raise ArgumentError(
            f"values contains {wrong}; give codes 0 and 1 (or probabilities of 1): the coding is applied here"
        )
    return matrix


def family_regression(
    factor: LogisticFactor, codes: Bits, counts: NDArray[np.int64], prior: GaussianPrior
) -> LogisticRegressionProblem:
    """The regression of a child on its parents in the rows in which its family, ``codes`` (n, family), is complete."""
    whole = (codes >= 0).all(axis=1)
    configurations, index = distinct_rows(codes[whole])
    return _regression(factor, configurations, _cases(index, counts[whole], len(configurations)), prior)


def ordered_regression(factor: LogisticFactor, codes: Bits, prior: GaussianPrior) -> LogisticRegressionProblem:
    """The same with equal cases apart: a row for each row of ``codes`` (n, family) that is complete, in their order."""
    complete = codes[(codes >= 0).all(axis=1)]
    return _regression(factor, complete, np.ones(len(complete)), prior)


def _regression(
    factor: LogisticFactor, rows: Bits, cases: NDArray[np.float64], prior: GaussianPrior
) -> LogisticRegressionProblem:
    design, offset = factor.design(rows[:, :-1])
    sign = 2.0 * rows[:, -1].astype(np.float64) - 1.0
    return LogisticRegressionProblem(design, sign, cases, offset, *prior)


def complete_regression(
    factor: LogisticFactor, family: Sequence[str], table: Table, prior: GaussianPrior
) -> LogisticRegressionProblem:
    """The regression of a child on its parents in all rows, all complete; ``family`` is the factor's scope."""
    codes = binary_codes(table, family)
    cells = {name: int(table.counts[codes[:, k] < 0].sum()) for k, name in enumerate(family)}
    lacking = {name: count for name, count in cells.items() if count}
    if lacking:
        shown = ", ".join(f"{name!r} ({count} of {table.n_rows} rows)" for name, count in lacking.items())
        raise TableError(
            f"table has missing cells in the family of {factor.node!r}: {shown}; a regression needs all of them, "
            f"log_likelihood and likelihood sum over what is missing"
        )
    return family_regression(factor, codes, table.counts, prior)
