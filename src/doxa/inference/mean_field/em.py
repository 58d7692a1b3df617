r"""Variational EM: the tables of a discrete network, learnt from records with missing cells or hidden nodes.

With q_t a product of tables over the missing cells z of record t, every choice of q bounds the likelihood,

.. math:: \sum_t \log P(x_t \mid \theta) \ge \sum_t E_{q_t} [\log P(x_t, z \mid \theta)] + H(q_t),

and both steps raise the bound: the E-step over q, by mean field (`doxa.inference.mean_field`), the M-step over the
tables, in closed form from the expected counts.  Where q keeps a joint table of all cells that depend on each other the
bound is the likelihood and this is EM; with less, it is the bound that never falls, and the likelihood may (the notes'
variational E-step).  These are point estimates: posteriors of tables are not here.

Hidden nodes without an observed descendant sum out: they and their tables are left out of a row's bound, which they
would only loosen.  Rows that miss the same cells share a `Layout`; each has its own q and its own places in the tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from doxa.arrays import Floats
from doxa.checks import check_positive, check_whole
from doxa.data import Table
from doxa.data.table import check_categories
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.flat import ancestral, connected_parts, log_of, starts_of, strides_of
from doxa.inference.mean_field.layout import Layout, Scope, Scratch, add_counts, bounds, lay_out, scratch, sweep_rows
from doxa.inference.mean_field.problem import begin_at
from doxa.inference.mean_field.support import Ground, ImpossibleError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.markov import read_array

__all__ = ["LearntTables", "Rows", "code_table", "group_rows", "table_starts", "variational_em"]

_MOST_NUMBERS = 2**27  # of all q together: a gigabyte


@dataclass(eq=False)
class Rows:
    """Rows that miss the same cells."""

    layout: Layout
    base: NDArray[np.int64]  # (n, n_factors) where each row's part of each table begins
    counts: Floats  # (n,) cases
    first: NDArray[np.int64]  # (n,) a row of the source, for messages
    hidden: tuple[int, ...]  # nodes, as the layout numbers them
    q: Floats  # (n, n_q)
    work: Scratch

    def place(self, values: Floats, rng: np.random.Generator) -> None:
        """Begin at uniform tables, or where these meet what the network forbids, at what mean field tempers to."""
        self.q[:] = self.layout.uniform()
        for k in np.flatnonzero(np.isneginf(self.bounds(values))):
            try:
                ground = Ground(self.layout, values, self.base[k])
                if self.q.shape[1]:
                    self.q[k] = begin_at(self.layout, values, self.base[k], ground, "tempered", rng)
            except ImpossibleError:
                raise ArgumentError(
                    f"table has row {self.first[k]}, counted from 0, which has probability 0 in network; "
                    f"give tables without zeros where the records are not"
                ) from None

    def improve(self, values: Floats, max_sweeps: int, tolerance: float) -> None:
        """E-step: sweep every row until it settles."""
        changes = np.zeros(len(self.q))
        sweeps = max_sweeps if self.layout.is_coupled else 1
        sweep_rows(self.layout, values, self.base, self.q, changes, sweeps, tolerance, self.work)
        assert (changes >= 0).all(), "a row was left without a possible state, which no update can do"

    def bounds(self, values: Floats) -> Floats:
        """Lower bound on each row's log probability, shape (n,), nats."""
        out = np.zeros((len(self.q), 3))
        bounds(self.layout, values, self.base, self.q, out, self.work)
        return out[:, 0]

    def add(self, counts: Floats) -> None:
        """Add the expected cases to ``counts``, which lies as the tables do."""
        add_counts(self.layout, self.base, self.q, self.counts, counts, self.work)


def code_table(network: CategoricalNetwork, table: Table) -> NDArray[np.int64]:
    """Codes of a table's distinct rows in the network's states, shape (n_distinct, n_nodes); -1 where missing."""
    check_categories(table, "a network of categories")
    position = {name: i for i, name in enumerate(network.names)}
    codes = np.full((table.n_distinct, len(position)), -1, dtype=np.int64)
    for j, (name, labels) in enumerate(zip(table.names, table.states, strict=True)):
        if name not in position:
            raise ArgumentError(
                f"table has the column {name!r}, which is no node of network; choose columns with select"
            )
        known = {label: k for k, label in enumerate(network.states[position[name]])}
        for label in labels:
            if label not in known:
                raise ArgumentError(
                    f"table column {name!r} has the state {label!r}, which the node has not; "
                    f"its states are {', '.join(map(repr, list(known)[:8]))}"
                )
        codes[:, position[name]] = np.array([*(known[label] for label in labels), -1])[table.codes[:, j]]
    return codes


def table_starts(network: CategoricalNetwork) -> NDArray[np.int64]:
    """Where each node's table begins in the flat array of all, shape (n_nodes + 1,)."""
    return starts_of(table.size for table in network.tables.values())


def group_rows(
    network: CategoricalNetwork, table: Table, blocks: Sequence[Sequence[int]] | None, max_block_states: int
) -> list[Rows]:
    """Group the distinct rows of a table by the cells they miss; rows that miss all are left out.

    ``blocks`` are sets of nodes whose missing cells keep a joint table; None for whatever is needed to be exact.
    """
    codes = code_table(network, table)
    first = np.full(table.n_distinct, table.n_rows, dtype=np.int64)
    np.minimum.at(first, table.row_index, np.arange(table.n_rows))
    missing, which = np.unique(codes < 0, axis=0, return_inverse=True)
    groups, n_numbers = [], 0
    for k, pattern in enumerate(missing):
        rows = np.flatnonzero(which.ravel() == k)
        if pattern.all():
            continue
        group = _group(network, codes[rows], pattern, blocks, max_block_states)
        n_numbers += len(rows) * group[0].n_q
        if n_numbers > _MOST_NUMBERS:
            raise ArgumentError(
                f"missing cells need joint tables of more than {_MOST_NUMBERS} numbers; "
                f"use e_step='mean_field', or smaller blocks"
            )
        layout, base, hidden = group
        q = np.zeros((len(rows), layout.n_q))
        counts = table.counts[rows].astype(np.float64)
        groups.append(Rows(layout, base, counts, first[rows], hidden, q, scratch(layout)))
    return groups


def _group(
    network: CategoricalNetwork,
    codes: NDArray[np.int64],
    pattern: NDArray[np.bool_],
    blocks: Sequence[Sequence[int]] | None,
    max_block_states: int,
) -> tuple[Layout, NDArray[np.int64], tuple[int, ...]]:
    """Layout, bases and hidden nodes of rows with one pattern of missing cells."""
    sizes, starts = network.n_states, table_starts(network)
    relevant = sorted(ancestral(network.parents, np.flatnonzero(~pattern).tolist()))
    hidden = tuple(v for v in relevant if pattern[v])
    number = {v: i for i, v in enumerate(hidden)}
    scopes, bases = [], []
    for node in relevant:
        family = (*network.parents[node], node)
        strides = strides_of([sizes[v] for v in family]).tolist()
        own = [(number[v], stride) for v, stride in zip(family, strides, strict=True) if v in number]
        scopes.append(Scope(tuple(v for v, _ in own), tuple(stride for _, stride in own)))
        seen = [(v, stride) for v, stride in zip(family, strides, strict=True) if v not in number]
        bases.append(starts[node] + sum(codes[:, v] * stride for v, stride in seen))
    chosen = (
        connected_parts(range(len(hidden)), [own.variables for own in scopes])
        if blocks is None
        else _cut(blocks, number)
    )
    for block in chosen:
        size = math.prod(sizes[hidden[v]] for v in block)
        if size > max_block_states:
            names = ", ".join(repr(network.names[hidden[v]]) for v in block[:6]) + (", ..." if len(block) > 6 else "")
            raise ArgumentError(
                f"missing cells of {names} have {size} joint states, and max_block_states is {max_block_states}; "
                f"use e_step='mean_field', or smaller blocks"
            )
    layout = lay_out([sizes[v] for v in hidden], scopes, chosen)
    return layout, np.stack(np.broadcast_arrays(*bases), axis=1).astype(np.int64), hidden


def _cut(blocks: Sequence[Sequence[int]], number: dict[int, int]) -> list[tuple[int, ...]]:
    cut = [tuple(number[v] for v in block if v in number) for block in blocks]
    kept = [block for block in cut if block]
    inside = {v for block in kept for v in block}
    return kept + [(v,) for v in range(len(number)) if v not in inside]


_ROUNDING = 1e-10  # of 1 + the objective's size
_TINY = 5e-324


@dataclass(frozen=True, eq=False, repr=False)
class LearntTables:
    """Tables learnt by EM; made by `variational_em`.

    Attributes
    ----------
    network : CategoricalNetwork
        With the tables learnt.
    log_likelihood_bound : float
        Lower bound on the log likelihood of the records under ``network``, nats.
    bounds : ndarray
        The bound and the log prior, up to a constant, after each iteration; never decreasing.
    converged : bool
        Whether three iterations in a row raised it by less than the tolerance.
    exact : bool
        Whether the bound is the log likelihood itself: every record's q is its exact posterior.
    starts : tuple of float
        The last of ``bounds``, of every start; the best is what is returned.
    """

    network: CategoricalNetwork
    log_likelihood_bound: float
    bounds: Floats
    converged: bool
    exact: bool
    starts: tuple[float, ...]

    def __repr__(self) -> str:
        sign = "=" if self.exact else ">="
        late = "" if self.converged else f"; not converged in {len(self.bounds)} iterations"
        method = "EM" if self.exact else "variational EM, an approximation"
        return f"<{method}: log likelihood {sign} {self.log_likelihood_bound:.6g}{late}>"


def variational_em(
    network: CategoricalNetwork,
    table: Table,
    *,
    e_step: Literal["mean_field", "exact"] = "mean_field",
    blocks: Iterable[Iterable[str]] = (),
    prior_counts: float | Mapping[str, ArrayLike] = 0.0,
    starts: int = 1,
    seed: int | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 1000,
    max_sweeps: int = 20,
    max_block_states: int = 65_536,
) -> LearntTables:
    r"""Learn the tables of a network from records with missing cells.

    Parameters
    ----------
    network : CategoricalNetwork
        The graph, the states, and the tables to begin with.  Entries that are 0 stay 0.  Where hidden nodes could
        exchange their states the tables must tell these apart: uniform ones are a saddle that EM does not leave.
    table : Table
        Columns are nodes; nodes without a column are hidden.  Missing cells are taken to be missing at random.
    e_step : {"mean_field", "exact"}, default="mean_field"
        "exact" keeps, for every record, joint tables of the missing cells that depend on each other.
    blocks : iterable of iterable of str, default=()
        Of mean field: disjoint sets of nodes whose missing cells keep a joint table.
    prior_counts : float or mapping of str to array_like, default=0.0
        Cases added to the expected ones, for every entry of every table that is not 0, or by node with the shape of
        its table: the mode under Dirichlet priors with parameters 1 + count.
    starts : int, default=1
        The tables given, then tables drawn uniformly.  The best is returned.
    seed : int, optional
        Of the tables drawn, and of where mean field begins in rows whose missing cells constrain each other.
    tolerance : float, default=1e-9
        Stop when three iterations in a row raise the bound by less than this share of 1 + its size.
    max_iterations : int, default=1000
    max_sweeps : int, default=20
        Most sweeps of mean field in one iteration; each goes on from the q of the last iteration.
    max_block_states : int, default=65536
        Most joint states of a block.

    Returns
    -------
    LearntTables
        Rows of a table for which nothing was seen, nor prior counts given, stay as they were.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If columns or labels are not the network's, a record has probability 0 in it, blocks overlap or are too large,
        or an option is out of range.

    Examples
    --------
    >>> from doxa.models import Dag
    >>> dag = Dag.from_edges([("h", "a"), ("h", "b"), ("h", "c")])
    >>> tables = {"h": [0.5, 0.5], **{x: [[0.7, 0.3], [0.2, 0.8]] for x in "abc"}}
    >>> network = CategoricalNetwork(dag, tables, {x: ["0", "1"] for x in "habc"})
    >>> rows = [[0, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0], [0, 1, 0]]
    >>> table = Table.from_codes(["a", "b", "c"], [["0", "1"]] * 3, rows, [40, 40, 5, 5, 10])
    >>> fit = variational_em(network, table)
    >>> fit
    <EM: log likelihood = -127.344>
    >>> fit.network.tables["b"].round(3)
    array([[0.818, 0.182],
           [0.   , 1.   ]])
    """
    _check_given(network, table, e_step)
    n_starts = check_whole("starts", starts, 1)
    limits = check_whole("max_iterations", max_iterations, 1), check_whole("max_sweeps", max_sweeps, 1)
    check_positive("tolerance", tolerance)
    named = _check_blocks(network, blocks)
    groups = group_rows(network, table, None if e_step == "exact" else named, max_block_states)
    learning = _Learning(network, groups, _read_counts(network, prior_counts))
    found = []
    for k, rng in enumerate(map(np.random.default_rng, np.random.SeedSequence(seed).spawn(n_starts))):
        theta = learning.drawn(rng) if k else learning.given
        found.append(learning.ascend(theta, rng, tolerance, *limits))
    best = max(found, key=lambda fit: float(fit.bounds[-1]))
    return LearntTables(
        network=learning.network_of(best.theta),
        log_likelihood_bound=best.log_likelihood_bound,
        bounds=best.bounds,
        converged=best.converged,
        exact=not any(group.layout.is_coupled for group in groups),
        starts=tuple(float(fit.bounds[-1]) for fit in found),
    )


def _check_given(network: object, table: object, e_step: str) -> None:
    if not isinstance(network, CategoricalNetwork):
        raise ArgumentTypeError(f"network is of type {type(network).__name__}; give a CategoricalNetwork")
    if not isinstance(table, Table):
        raise ArgumentTypeError(f"table is of type {type(table).__name__}; give a Table, as doxa.read_table makes")
    if e_step not in ("mean_field", "exact"):
        raise ArgumentError(f"e_step is {e_step!r}; it must be 'mean_field' or 'exact'")


@dataclass(frozen=True)
class _Fit:
    """Where one start ended."""

    theta: Floats
    log_likelihood_bound: float
    bounds: Floats
    converged: bool


class _Learning:
    """The two steps, over the tables of all nodes as one flat array."""

    def __init__(self, network: CategoricalNetwork, groups: list[Rows], prior: Floats) -> None:
        self.network, self.groups, self.prior = network, groups, prior
        self.given = np.concatenate([t.ravel() for t in network.tables.values()])
        lengths = np.concatenate([np.full(t.size // t.shape[-1], t.shape[-1]) for t in network.tables.values()])
        self.row_starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.intp)
        self.lengths = lengths

    def drawn(self, rng: np.random.Generator) -> Floats:
        """Tables whose rows are uniform over all distributions that are 0 where the given ones are."""
        return self._divided(rng.standard_exponential(self.given.size) * (self.given > 0), self.given)

    def ascend(
        self, theta: Floats, rng: np.random.Generator, tolerance: float, max_iterations: int, max_sweeps: int
    ) -> _Fit:
        """EM from some tables."""
        trace: list[float] = []
        log_values = log_of(theta)
        for group in self.groups:
            group.place(log_values, rng)
        quiet = 0
        while True:
            likelihood = 0.0
            for group in self.groups:
                group.improve(log_values, max_sweeps, 1e-9)
                likelihood += float(group.counts @ group.bounds(log_values))
            objective = likelihood + float(xlogy(self.prior, theta).sum())
            last = trace[-1] if trace else objective
            assert objective >= last - _ROUNDING * (1 + abs(last)), "the bound fell, which neither step can do"
            trace.append(max(objective, last))  # the difference is rounding
            quiet = quiet + 1 if len(trace) > 1 and objective - last < tolerance * (1 + abs(objective)) else 0
            if quiet >= 3 or len(trace) == max_iterations:
                return _Fit(theta, likelihood, np.array(trace), quiet >= 3)
            theta = self._improved(theta)
            log_values = log_of(theta)

    def network_of(self, theta: Floats) -> CategoricalNetwork:
        """The network with the tables of a flat array."""
        starts = table_starts(self.network)
        tables = {
            name: theta[starts[k] : starts[k + 1]].reshape(old.shape)
            for k, (name, old) in enumerate(self.network.tables.items())
        }
        states = dict(zip(self.network.names, self.network.states, strict=True))
        return CategoricalNetwork(self.network.dag, tables, states)

    def _improved(self, theta: Floats) -> Floats:
        """M-step: expected counts and prior counts, divided by their sums."""
        counts = self.prior.copy()
        for group in self.groups:
            group.add(counts)
        return self._divided(counts, theta)

    def _divided(self, counts: Floats, otherwise: Floats) -> Floats:
        sums = np.repeat(np.add.reduceat(counts, self.row_starts), self.lengths)
        theta = np.divide(counts, sums, out=otherwise.copy(), where=sums > 0)
        return np.where((theta == 0) & (counts > 0), _TINY, theta)  # q is positive there: a 0 would make the bound -inf


def _check_blocks(network: CategoricalNetwork, blocks: Iterable[Iterable[str]]) -> list[tuple[int, ...]]:
    position = {name: i for i, name in enumerate(network.names)}
    owner: dict[str, int] = {}
    found = []
    for k, block in enumerate(blocks):
        if isinstance(block, str) or not isinstance(block, Iterable):
            raise ArgumentTypeError(f"blocks[{k}] is {block!r}; give a sequence of names of nodes")
        names = tuple(block)
        for name in names:
            if name not in position:
                raise ArgumentError(f"blocks[{k}] names {name!r}, which is no node of network")
            if name in owner:
                raise ArgumentError(
                    f"blocks[{k}] names {name!r}, which is in blocks[{owner[name]}] already; blocks are disjoint"
                )
            owner[name] = k
        found.append(tuple(position[name] for name in names))
    return found


def _read_counts(network: CategoricalNetwork, given: float | Mapping[str, ArrayLike]) -> Floats:
    """Prior counts of all entries, 0 where the table is."""
    by_node = given if isinstance(given, Mapping) else dict.fromkeys(network.names, given)
    for name in by_node:
        if name not in network.tables:
            raise ArgumentError(f"prior_counts names {name!r}, which is no node of network")
    found = []
    for name, table in network.tables.items():
        label = f"prior_counts[{name!r}]" if isinstance(given, Mapping) else "prior_counts"
        counts = read_array(label, by_node.get(name, 0.0))
        if counts.shape not in ((), table.shape):
            raise ArgumentError(f"{label} has shape {counts.shape}; it must be a number or of shape {table.shape}")
        if not (np.isfinite(counts) & (counts >= 0)).all():
            raise ArgumentError(f"{label} holds {counts.min():g}; counts are finite numbers of at least 0")
        found.append((np.broadcast_to(counts, table.shape) * (table > 0)).ravel())
    return np.concatenate(found)
