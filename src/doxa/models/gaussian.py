r"""`GaussianNetwork`: a graph of numbers with normal scatter about straight lines, and of categories.

In every configuration k of its parents that are categories a number has a linear regression on those that are
numbers,

.. math:: x_i \mid k, x_{\pi(i)} \sim N\big(c_{ik} + \sum_j b_{ijk} x_j,\; \sigma_{ik}^2\big),

and a category has a table, and parents that are categories alone: the conditional Gaussian network of Lauritzen &
Wermuth (1989).  Without categories it is the linear Gaussian network.  A category may also depend on numbers, by the
log odds of each of its states against the first,

.. math:: P(s = k \mid x) \propto e^{h_k}, \qquad h_0 = 0, \quad h_k = a_{k} + \sum_j b_{jk} x_j.

Inference from evidence is in `doxa.inference.exact.gaussian`, where no category depends on numbers, and in
`doxa.inference.importance.numbers`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.checks import check_generator, check_whole
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.categorical import CategoricalNetwork, check_share, draw_records, parent_positions
from doxa.models.dag import Dag
from doxa.models.directed import DirectedNetwork
from doxa.text import counted

__all__ = ["GaussianNetwork", "LogOdds", "Regression", "check_number", "odds_probabilities"]


class Regression(NamedTuple):
    """How a number depends on its parents; the axes of the configuration are its parents that are categories, in order.

    ``coefficients`` may also be a mapping of parents to numbers, where no parent is a category.
    """

    intercept: Any  # (n_states of each parent that is a category...): in units of the node
    coefficients: Any  # (as intercept..., n_parents that are numbers): units of the node a unit of the parent
    sd: Any  # shape of intercept: standard deviation about the line, 0 or more


class LogOdds(NamedTuple):
    """How a category depends on its parents, numbers among them; the axes of the configuration as in `Regression`."""

    intercept: Any  # (n_states of each parent that is a category..., n_states - 1)
    coefficients: Any  # (as intercept..., n_parents that are numbers): a unit of the parent


class GaussianNetwork(DirectedNetwork):
    """A belief network of numbers, or of numbers and categories; immutable.

    Parameters
    ----------
    dag : Dag
        The graph; edges lead from a number to a category only where that has ``log_odds``.
    regressions : mapping of str to Regression
        Of every node that is a number: ``(intercept, coefficients, sd)``.
    tables : mapping of str to array_like, optional
        P(node | parents) of every category, as `CategoricalNetwork` takes them.
    states : mapping of str to sequence of str, optional
        Labels of the states of every category.
    log_odds : mapping of str to LogOdds, optional
        Of every category that depends on numbers, in the place of its table: ``(intercept, coefficients)``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a node has no regression, table or log odds, or two of them, one is of the wrong shape or not finite, a
        standard deviation is negative, or an edge leads from a number to a category with a table.

    Examples
    --------
    >>> dag = Dag.from_edges([("smokes", "pressure"), ("age", "pressure")])
    >>> network = GaussianNetwork(
    ...     dag,
    ...     {"age": Regression(50.0, [], 10.0), "pressure": Regression([80.0, 88.0], [[0.7], [0.7]], [8.0, 8.0])},
    ...     {"smokes": [0.6, 0.4]},
    ...     {"smokes": ["no", "yes"]},
    ... )
    >>> network
    GaussianNetwork(3 nodes, 2 edges; pressure, age: numbers)
    """

    _tables: Mapping[str, Floats]
    _regressions: Mapping[str, Regression]
    _log_odds: Mapping[str, LogOdds]

    def __init__(
        self,
        dag: Dag,
        regressions: Mapping[str, Regression | tuple[Any, Any, Any]],
        tables: Mapping[str, ArrayLike] | None = None,
        states: Mapping[str, Sequence[str]] | None = None,
        log_odds: Mapping[str, LogOdds | tuple[Any, Any]] | None = None,
    ) -> None:
        if not isinstance(dag, Dag):
            raise ArgumentTypeError(f"dag is of type {type(dag).__name__}; give a Dag, as Dag.from_edges makes")
        if not isinstance(regressions, Mapping):
            raise ArgumentTypeError(f"regressions is of type {type(regressions).__name__}; give a mapping of nodes")
        tables, states, log_odds = dict(tables or {}), dict(states or {}), dict(log_odds or {})
        for name in dag.names:
            if sum(name in one for one in (regressions, tables, log_odds)) != 1:
                many = "neither a regression nor a table" if name not in tables else "both a regression and a table"
                if name in log_odds:
                    many = "log odds and a regression or a table"
                raise ArgumentError(f"the node {name!r} has {many}; a number has the one, a category the other")
        known = set(dag.names)
        given = {"regressions": regressions, "tables": tables, "states": states, "log_odds": log_odds}
        for argument, mapping in given.items():
            for name in mapping:
                if name not in known or (argument == "states" and name in regressions):
                    raise ArgumentError(f"{argument} names {name!r}, which is no such node of dag; leave it out")
        names = dag.names
        parents = parent_positions(dag)
        above = {name: [names[p] for p in group] for name, group in zip(names, parents, strict=True)}
        for name in tables:
            for parent in above[name]:
                if parent in regressions:
                    raise ArgumentError(
                        f"dag has the edge {parent!r} -> {name!r}, from a number to a category, which has a table; "
                        f"turn the edge, cut the number into bins, or give log_odds={{{name!r}: ...}} in the place of "
                        "the table"
                    )
        for name in log_odds:
            if len(states.get(name, ())) < 2:
                raise ArgumentError(
                    f"states has fewer than two labels of {name!r}, which has log odds; name its states"
                )
        categories = [name for name in names if name in tables or name in log_odds]
        labels: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
        read_tables: dict[str, Floats] = {}
        if categories:
            part = Dag.from_edges([(p, name) for name in tables for p in above[name]], categories)
            # parents of a node stand in the graph's order in both; those with log odds stand as roots
            roots = {name: np.full(len(states[name]), 1.0 / len(states[name])) for name in log_odds}
            discrete = CategoricalNetwork(part, tables | roots, states)
            read_tables = {name: table for name, table in discrete.tables.items() if name in tables}
            labels.update(zip(discrete.names, discrete.states, strict=True))
        read = {
            name: _read_regression(name, regressions[name], [(p, len(labels[p])) for p in above[name]])
            for name in names
            if name in regressions
        }
        read_odds = {
            name: _read_log_odds(name, own, [(p, len(labels[p])) for p in above[name]], len(labels[name]))
            for name, own in log_odds.items()
        }
        self._set(dag, tuple(labels.values()), read_tables, read, parents, read_odds)

    def _set(
        self,
        dag: Dag,
        states: tuple[tuple[str, ...], ...],
        tables: dict[str, Floats],
        regressions: dict[str, Regression],
        parents: tuple[tuple[int, ...], ...],
        log_odds: dict[str, LogOdds],
    ) -> None:
        self.__dict__.update(
            _dag=dag,
            _states=states,
            _tables=MappingProxyType(tables),
            _regressions=MappingProxyType(regressions),
            _parents=parents,
            _log_odds=MappingProxyType(log_odds),
        )

    @classmethod
    def of_checked(
        cls,
        dag: Dag,
        states: tuple[tuple[str, ...], ...],
        tables: dict[str, Floats],
        regressions: dict[str, Regression],
        parents: tuple[tuple[int, ...], ...],
        log_odds: dict[str, LogOdds] | None = None,
    ) -> GaussianNetwork:
        """Make a network of parts that are known to fit each other: a thousand draws are made without checks."""
        made = cls.__new__(cls)
        made._set(dag, states, tables, regressions, parents, log_odds or {})
        return made

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a GaussianNetwork is immutable; cannot set {name!r}")

    @property
    def tables(self) -> Mapping[str, Floats]:
        """P(node | parents) of every category, the node on the last axis; read-only."""
        return self._tables

    @property
    def regressions(self) -> Mapping[str, Regression]:
        """Of every number; arrays are read-only."""
        return self._regressions

    @property
    def log_odds(self) -> Mapping[str, LogOdds]:
        """Of every category that depends on numbers; arrays are read-only."""
        return self._log_odds

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
            In the place of ``rng``: the same seed gives the same records.

        Returns
        -------
        Table
            A column for every node, in order.

        Examples
        --------
        >>> network = GaussianNetwork(Dag([[0]], ["height"]), {"height": Regression(170.0, [], 9.0)})
        >>> network.simulate(1000, seed=0)
        Table(1000 rows (1000 distinct) x 1 column, no missing cells)
        """
        n_rows = check_whole("n", n, 0)
        rng, share = check_generator(rng, seed), check_share(missing)
        codes, numbers = self.draw_cells(n_rows, rng)
        if share:
            gone = rng.random(codes.shape) < share
            codes[gone], numbers[gone] = -1, np.nan
        return Table.from_codes(self.names, self._states, codes, numbers=numbers)

    def draw_cells(
        self,
        n_rows: int,
        rng: np.random.Generator,
        made: Mapping[int, tuple[NDArray[np.intp], NDArray[Any]]] | None = None,
    ) -> tuple[NDArray[np.int16], Floats]:
        """`simulate`, as arrays: codes of states and numbers, each (n_rows, n_nodes); 0 and NaN where a node has none.

        ``made`` has nodes that are set by intervention, by position: the rows in which they are, and the states or
        numbers that they are set to there.
        """
        fixed, names = made or {}, self.names
        codes, numbers = np.zeros((n_rows, len(names)), dtype=np.int16), np.full((n_rows, len(names)), np.nan)
        for node in self.order:
            name = names[node]
            if name in self._tables:
                codes[:, node] = _draw_state(self._tables[name], codes[:, list(self._parents[node])], rng)
            elif name in self._log_odds:
                steps = self._state_probabilities(node, codes, numbers).cumsum(axis=1)[:, :-1]
                codes[:, node] = (rng.random((n_rows, 1)) > steps).sum(axis=1)
            else:
                mean, sd = self._line(node, codes, numbers)
                numbers[:, node] = mean + sd * rng.standard_normal(n_rows)
            if node in fixed:
                rows, values = fixed[node]
                (numbers if name in self._regressions else codes)[rows, node] = values
        return codes, numbers

    def log_density(self, codes: ArrayLike, numbers: ArrayLike) -> Floats:
        """Log density of complete rows.

        Parameters
        ----------
        codes : array_like of int, shape (n, n_nodes)
            Positions of states, as in ``table.codes``; those of numbers are not read.
        numbers : array_like of float, shape (n, n_nodes)
            As in ``table.numbers``; those of categories are not read.  Cells that are missing need inference:
            `doxa.inference.exact.gaussian.log_density`.

        Returns
        -------
        ndarray, shape (n,)
            Nats, a density in the units of the numbers.
        """
        states, values = np.asarray(codes), np.asarray(numbers, dtype=np.float64)
        total = np.zeros(len(states))
        for node, name in enumerate(self.names):
            if name in self._tables:
                at = tuple(states[:, p] for p in (*self._parents[node], node))
                with np.errstate(divide="ignore"):
                    total += np.log(self._tables[name][at])
            elif name in self._log_odds:
                p = self._state_probabilities(node, states, values)
                with np.errstate(divide="ignore"):
                    total += np.log(p[np.arange(len(p)), states[:, node]])
            else:
                mean, sd = self._line(node, states, values)
                total -= 0.5 * ((values[:, node] - mean) / sd) ** 2 + np.log(sd) + 0.5 * math.log(2 * math.pi)
        return total

    def do(self, made: Mapping[str, float | str]) -> GaussianNetwork:
        """The network in which some nodes are set by intervention: edges into them are cut.

        Parameters
        ----------
        made : mapping of str to float or str
            Numbers for numbers, states for categories.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If a node, or a state of it, is unknown, or the value of a number is no finite number.

        Examples
        --------
        >>> chain = GaussianNetwork(
        ...     Dag.from_edges([("x", "y")]), {"x": Regression(0.0, [], 1.0), "y": Regression(1.0, [2.0], 1.0)}
        ... )
        >>> chain.do({"y": 3.0}).dag
        Dag(2 nodes: no edges)
        """
        tables, regressions, log_odds = dict(self._tables), dict(self._regressions), dict(self._log_odds)
        for name, value in made.items():
            if name not in self.names:
                raise ArgumentError(f"do names {name!r}, which is not a node of the network")
            log_odds.pop(name, None)
            if self._states[self.names.index(name)]:
                labels = self._states[self.names.index(name)]
                if value not in labels:
                    raise ArgumentError(f"do sets {name!r} to {value!r}; its states are {', '.join(map(repr, labels))}")
                tables[name] = np.eye(len(labels))[labels.index(str(value))]
            else:
                regressions[name] = Regression(check_number(f"do[{name!r}]", value), [], 0.0)
        edges = [edge for edge in self._dag.edges if edge[1] not in made]
        known = {name: labels for name, labels in zip(self.names, self._states, strict=True) if labels}
        return GaussianNetwork(Dag.from_edges(edges, self.names), regressions, tables, known, log_odds)

    def _state_probabilities(self, node: int, codes: NDArray[Any], numbers: Floats) -> Floats:
        """Of a category with log odds in each row, given its parents; shape (n, n_states)."""
        at = tuple(codes[:, p] for p in self._parents[node] if self._states[p])
        on = [p for p in self._parents[node] if not self._states[p]]
        found = odds_probabilities(self._log_odds[self.names[node]], at, numbers[:, on])
        return np.broadcast_to(found, (len(codes), len(self._states[node])))

    def _line(self, node: int, codes: NDArray[Any], numbers: Floats) -> tuple[Floats, Floats]:
        """Mean of a number in each row, given its parents, and standard deviation, one where all have the same."""
        regression = self._regressions[self.names[node]]
        at = tuple(codes[:, p] for p in self._parents[node] if self._states[p])
        on = [p for p in self._parents[node] if not self._states[p]]
        mean = regression.intercept[at] + (numbers[:, on] * regression.coefficients[at]).sum(axis=-1)
        return np.asarray(mean), np.asarray(regression.sd[at])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GaussianNetwork):
            return NotImplemented
        return (
            self._dag == other._dag
            and self._states == other._states
            and set(self._log_odds) == set(other._log_odds)
            and all(np.array_equal(self._tables[name], other._tables[name]) for name in self._tables)
            and all(
                np.array_equal(own, its)
                for name in self._regressions
                for own, its in zip(self._regressions[name], other._regressions[name], strict=True)
            )
            and all(
                np.array_equal(own, its)
                for name in self._log_odds
                for own, its in zip(self._log_odds[name], other._log_odds[name], strict=True)
            )
        )

    def __hash__(self) -> int:
        return hash((self._dag, self._states))

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (
            self._dag, self._states, dict(self._tables), dict(self._regressions), self._parents, dict(self._log_odds)
        )  # fmt: skip
        return GaussianNetwork.of_checked, parts

    def __repr__(self) -> str:
        nodes, edges = counted(len(self.names), "node"), counted(self._dag.n_edges, "edge")
        shown = list(self._regressions)
        more = f", ... {len(shown) - 4} more" if len(shown) > 4 else ""
        return f"GaussianNetwork({nodes}, {edges}; {', '.join(shown[:4])}{more}: numbers)"


def odds_probabilities(log_odds: LogOdds, at: tuple[NDArray[Any], ...], numbers: Floats) -> Floats:
    """Probabilities of a category's states, in the last axis, given its parents.

    Parameters
    ----------
    log_odds : LogOdds
    at : tuple of ndarray of int
        States of each parent that is a category; shapes that broadcast.
    numbers : ndarray of float, shape (..., n_parents that are numbers)

    Examples
    --------
    >>> odds_probabilities(LogOdds(np.zeros(1), np.array([[2.0]])), (), np.array([[0.0]])).tolist()
    [[0.5, 0.5]]
    """
    from scipy.special import expit, softmax

    odds, slopes = log_odds.intercept[at], log_odds.coefficients[at]
    for j in range(numbers.shape[-1]):  # of many rows: a sum over the last axis would take ten times as long
        odds = odds + slopes[..., j] * numbers[..., None, j]
    if odds.shape[-1] == 1:
        return np.concatenate([expit(-odds), expit(odds)], axis=-1)
    whole = np.concatenate([np.zeros((*odds.shape[:-1], 1)), odds], axis=-1)
    return np.asarray(softmax(whole, axis=-1))


def check_number(label: str, value: object) -> float:
    """A finite number, or an error that names it."""
    if isinstance(value, (bool, np.bool_, str)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"{label} is {value!r}; the column holds numbers: give a number, such as 50 or 1.5")
    if not math.isfinite(value):
        raise ArgumentError(f"{label} is {value!r}; give a finite number")
    return float(value)


def _draw_state(table: Floats, parents: NDArray[np.int16], rng: np.random.Generator) -> NDArray[np.int16]:
    """A state of a category in each row, given its parents."""
    flat = table.reshape(-1, table.shape[-1])
    if len(flat) == 1:
        return draw_records(len(parents), [0], [()], [flat[0]], rng)[:, 0]
    row = np.zeros(len(parents), dtype=np.intp)
    for k, size in enumerate(table.shape[:-1]):
        row = row * size + parents[:, k]
    drawn = np.zeros(len(parents), dtype=np.int16)
    for configuration in np.unique(row).tolist():
        at = row == configuration
        drawn[at] = draw_records(int(at.sum()), [0], [()], [flat[configuration]], rng)[:, 0]
    return drawn


def _read_log_odds(name: str, given: Any, parents: Sequence[tuple[str, int]], n_states: int) -> LogOdds:
    label = f"log_odds[{name!r}]"
    try:
        intercept, coefficients = given
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{label} is {given!r}; give LogOdds(intercept, coefficients)") from None
    shape = (*(size for _, size in parents if size), n_states - 1)
    n_numbers = sum(not size for _, size in parents)
    parts = _read_parts(label, {"intercept": (intercept, shape), "coefficients": (coefficients, (*shape, n_numbers))})
    return LogOdds(*parts)


def _read_regression(name: str, given: Any, parents: Sequence[tuple[str, int]]) -> Regression:
    label = f"regressions[{name!r}]"
    try:
        intercept, coefficients, sd = given
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{label} is {given!r}; give Regression(intercept, coefficients, sd)") from None
    shape = tuple(size for _, size in parents if size)
    numbers = [parent for parent, size in parents if not size]
    if isinstance(coefficients, Mapping):
        if set(coefficients) != set(numbers):
            raise ArgumentError(f"{label} has coefficients of {list(coefficients)}; its parents are {numbers}")
        coefficients = np.stack([np.broadcast_to(coefficients[p], shape) for p in numbers], axis=-1) if numbers else []
    wanted = {
        "intercept": (intercept, shape), "coefficients": (coefficients, (*shape, len(numbers))), "sd": (sd, shape)
    }  # fmt: skip
    return Regression(*_read_parts(label, wanted))


def _read_parts(label: str, parts: Mapping[str, tuple[Any, tuple[int, ...]]]) -> list[Floats]:
    """Arrays of the shapes wanted, read-only."""
    read = []
    for what, (value, wanted) in parts.items():
        it, be, have = ("they", "are", "have") if what == "coefficients" else ("it", "is", "has")
        try:
            array = np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"the {what} of {label} {be} {value!r}; give numbers") from None
        if array.size == 0 and math.prod(wanted) == 0:
            array = array.reshape(wanted)
        if array.shape != wanted:
            raise ArgumentError(
                f"the {what} of {label} {have} shape {array.shape}; it must be {wanted}: an axis for each parent that "
                f"is a category{', and the last for those that are numbers' if what == 'coefficients' else ''}"
            )
        if not np.isfinite(array).all() or (what == "sd" and (array < 0).any()):
            rule = "finite and not negative" if what == "sd" else "finite"
            raise ArgumentError(f"the {what} of {label} {be} {array.tolist()}; {it} must be {rule}")
        array.setflags(write=False)
        read.append(array)
    return read
