r"""`CategoricalNetwork`: a directed graph with a table of conditional probabilities for every node, and records from
it.

.. math:: p(x) = \prod_i p(x_i \mid x_{\pi(i)})

Learning the tables, and inference from evidence, are not here; neither are the files that such networks come in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_generator, check_whole
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.dag import Dag
from doxa.models.directed import DirectedNetwork
from doxa.models.factors import Factor
from doxa.models.markov import check_rows, read_array, read_states, sum_factors
from doxa.text import counted

__all__ = ["CategoricalNetwork", "blank", "check_share", "draw_records", "parent_positions"]


def draw_records(
    n: int,
    order: Sequence[int],
    parents: Sequence[Sequence[int]],
    tables: Sequence[NDArray[np.float64]],
    rng: np.random.Generator,
) -> NDArray[np.int16]:
    """Draw n complete records of positions of states, shape (n, n_nodes), one uniform a cell, node after node.

    Nodes are in ``order``, and the last axis of a node's table is its own; a state of probability 0 is never drawn.
    """
    codes = np.zeros((n, len(tables)), dtype=np.int16, order="F")
    for node in order:
        n_states = tables[node].shape[-1]
        thresholds = _thresholds(tables[node].reshape(-1, n_states))
        row = np.zeros(n, dtype=np.intp)
        for parent, size in zip(parents[node], tables[node].shape, strict=False):
            row = row * size + codes[:, parent]
        u = rng.random(n)
        for k in range(n_states - 1):
            codes[:, node] += u >= thresholds[row, k]
    return codes


def check_share(missing: object) -> float:
    """The share of cells to blank, or an error."""
    if isinstance(missing, bool) or not isinstance(missing, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"missing is {missing!r}; it must be a number from 0 to 1")
    if not 0 <= missing <= 1:
        raise ArgumentError(f"missing is {missing!r}; it must be from 0 to 1, the share of cells to blank")
    return float(missing)


def blank(codes: NDArray[np.int16], share: float, rng: np.random.Generator) -> None:
    """Set every cell to -1 with probability ``share``, in place."""
    for j in range(codes.shape[1]):
        codes[rng.random(len(codes)) < share, j] = -1


def _thresholds(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums, raised from the last possible state on: rounding must not reach an impossible one."""
    n_states = rows.shape[1]
    last = n_states - 1 - np.argmax(rows[:, ::-1] > 0, axis=1)
    return np.where(np.arange(n_states) >= last[:, None], np.inf, np.cumsum(rows, axis=1))


_SUM_TOLERANCE = 1e-6  # numbers with seven decimals are probabilities; coarser ones are the reader's to judge


class CategoricalNetwork(DirectedNetwork):
    """A belief network of discrete nodes; immutable.

    Parameters
    ----------
    dag : Dag
        The graph.
    tables : mapping of str to array_like
        P(node | parents) for every node: an axis for each of ``dag.parents(node)``, in that order, and the last for
        the node itself.  Along the last axis the entries sum to 1 within 1e-6, and are divided by their sum.
    states : mapping of str to sequence of str
        Labels of the states of every node.

    Raises
    ------
    ArgumentError
        If a table is missing, of the wrong shape, or no distribution; the message names the node and the
        configuration of its parents.

    Notes
    -----
    Two networks are equal when graph, states and tables are.

    Examples
    --------
    >>> dag = Dag.from_edges([("rain", "wet")])
    >>> yes_no = {"rain": ["no", "yes"], "wet": ["no", "yes"]}
    >>> network = CategoricalNetwork(dag, {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.0, 1.0]]}, yes_no)
    >>> network
    CategoricalNetwork(2 nodes, 1 edge, 3 free probabilities)
    >>> network.tables["wet"][1, 0].item()  # P(wet = no | rain = yes)
    0.0
    """

    _tables: Mapping[str, NDArray[np.float64]]

    def __init__(self, dag: Dag, tables: Mapping[str, ArrayLike], states: Mapping[str, Sequence[str]]) -> None:
        if not isinstance(dag, Dag):
            raise ArgumentTypeError(f"dag is of type {type(dag).__name__}; give a Dag, as Dag.from_edges makes")
        if not isinstance(tables, Mapping):
            raise ArgumentTypeError(f"tables is of type {type(tables).__name__}; give a mapping of nodes to arrays")
        labels = dict(zip(*read_states(states), strict=True))
        _check_keys("states", labels, dag, "the labels of its states")
        _check_keys("tables", tables, dag, "an array of P(node | parents)")
        parents = parent_positions(dag)
        ordered = {name: labels[name] for name in dag.names}
        read = {
            name: _read_table(name, tables[name], {dag.names[p]: ordered[dag.names[p]] for p in group}, ordered[name])
            for name, group in zip(dag.names, parents, strict=True)
        }
        self._set(dag, tuple(ordered.values()), read, parents)

    def _set(
        self,
        dag: Dag,
        states: tuple[tuple[str, ...], ...],
        tables: dict[str, NDArray[np.float64]],
        parents: tuple[tuple[int, ...], ...],
    ) -> None:
        for table in tables.values():
            table.setflags(write=False)
        self.__dict__.update(_dag=dag, _states=states, _tables=MappingProxyType(tables), _parents=parents)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a CategoricalNetwork is immutable; cannot set {name!r}")

    @property
    def n_states(self) -> tuple[int, ...]:
        """Number of states of each node."""
        return tuple(len(labels) for labels in self._states)

    @property
    def tables(self) -> Mapping[str, NDArray[np.float64]]:
        """P(node | parents) by name, the node on the last axis; read-only."""
        return self._tables

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """Log of each node's table in nats, over (parents..., node), in node order; arrays are read-only."""
        made = []
        with np.errstate(divide="ignore"):
            for node, table in enumerate(self._tables.values()):
                log_values = np.log(table)
                log_values.setflags(write=False)
                made.append(Factor((*self._parents[node], node), log_values))
        return tuple(made)

    def simulate(
        self, n: int, rng: np.random.Generator | None = None, *, missing: float = 0.0, seed: int | None = None
    ) -> Table:
        """Draw records, parents before children.

        Parameters
        ----------
        n : int
            Number of records.
        rng : numpy.random.Generator, optional
            Advanced.
        missing : float, default=0.0
            Probability with which each cell is blanked, from 0 to 1.  The other cells are those of 0.0.
        seed : int, optional
            In the place of ``rng``: the same seed gives the same records.  Fresh when both are left out.

        Returns
        -------
        Table
            A column for every node, in order.

        Examples
        --------
        >>> network = CategoricalNetwork(Dag([[0]], ["coin"]), {"coin": [0.5, 0.5]}, {"coin": ["heads", "tails"]})
        >>> network.simulate(1000, missing=0.1, seed=0)
        Table(1000 rows (3 distinct) x 1 column, 121 missing cells)
        """
        n_rows = check_whole("n", n, 0)
        rng = check_generator(rng, seed)
        share = check_share(missing)
        codes = draw_records(n_rows, self.order, self._parents, tuple(self._tables.values()), rng)
        if share:
            blank(codes, share, rng)
        return Table.from_codes(self.names, self._states, codes)

    def log_probability(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Log probability of complete rows.

        Parameters
        ----------
        rows : array_like of int, shape (n, n_nodes)
            Positions of states, as in ``table.codes``; cells that are missing need inference.

        Returns
        -------
        ndarray, shape (n,)
            Nats; -inf where a row is impossible.
        """
        return sum_factors(self.factors, check_rows(rows, self.names, self.n_states))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CategoricalNetwork):
            return NotImplemented
        if self._dag != other._dag or self._states != other._states:
            return False
        return all(np.array_equal(self._tables[name], other._tables[name]) for name in self.names)

    def __hash__(self) -> int:
        return hash((self._dag, self._states))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._dag, self._states, dict(self._tables), self._parents)

    def __repr__(self) -> str:
        nodes, edges = counted(len(self.names), "node"), counted(self._dag.n_edges, "edge")
        free = sum(t.size - t.size // t.shape[-1] for t in self._tables.values())
        return f"{type(self).__name__}({nodes}, {edges}, {free} free probabilities)"


def _restore(*parts: Any) -> CategoricalNetwork:
    """Make a network from checked parts: another division by the sums could change the last bit."""
    network = CategoricalNetwork.__new__(CategoricalNetwork)
    network._set(*parts)
    return network


def parent_positions(dag: Dag) -> tuple[tuple[int, ...], ...]:
    """Positions of each node's parents, increasing: all of them from one adjacency matrix."""
    parents: list[list[int]] = [[] for _ in dag.names]
    for parent, child in np.argwhere(dag.adjacency).tolist():  # by parent: increasing
        parents[child].append(parent)
    return tuple(map(tuple, parents))


def _check_keys(argument: str, given: Mapping[str, Any], dag: Dag, what: str) -> None:
    known = set(dag.names)
    for name in given:
        if name not in known:
            raise ArgumentError(f"{argument} names {name!r}, which is not a node of dag; leave it out or add the node")
    for name in dag.names:
        if name not in given:
            raise ArgumentError(f"{argument} lacks the node {name!r}; give {what} for every node of dag")


def _read_table(
    name: str, value: ArrayLike, parents: Mapping[str, tuple[str, ...]], states: tuple[str, ...]
) -> NDArray[np.float64]:
    label = f"tables[{name!r}]"
    table = read_array(label, value)
    shape = (*(len(labels) for labels in parents.values()), len(states))
    if table.shape != shape:
        axes = ", ".join(map(repr, (*parents, name)))
        raise ArgumentError(f"{label} has shape {table.shape}; it must be {shape}, the numbers of states of {axes}")
    if not (table >= 0).all():  # NaN too
        at = np.argwhere(~(table >= 0))[0].tolist()
        raise ArgumentError(
            f"{label} has P({name} = {states[at[-1]]!r}{_given(parents, at)}) = {table[tuple(at)]:g}; "
            f"probabilities are numbers from 0 to 1"
        )
    with np.errstate(over="ignore"):
        sums = table.sum(axis=-1)
    wrong = np.argwhere(~(np.abs(sums - 1) <= _SUM_TOLERANCE))
    if len(wrong):
        at = wrong[0].tolist()
        row = f"P({name}{_given(parents, at)})"
        raise ArgumentError(
            f"{label} has {row} that sums to {sums[tuple(at)]:.9g}; over the states of a node probabilities sum to 1"
        )
    exact = np.abs(sums - 1) <= len(states) * np.finfo(np.float64).eps  # rounding: left as it was given
    table /= np.where(exact, 1.0, sums)[..., None]
    return table


def _given(parents: Mapping[str, tuple[str, ...]], at: Sequence[int]) -> str:
    words = [f"{parent} = {labels[k]!r}" for (parent, labels), k in zip(parents.items(), at, strict=False)]
    return " | " + ", ".join(words) if words else ""
