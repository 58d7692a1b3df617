r"""Ising and Potts models: Markov networks of pairs, kept as arrays so that compiled kernels can use the structure.

.. math:: p(s) = \frac{1}{Z} \exp \Big( \sum_i h_i s_i + \sum_{(i, j)} J_{ij} s_i s_j \Big), \quad s_i \in \{-1, +1\}.

Given the others, :math:`P(s_i = +1) = 1 / (1 + e^{-2 (h_i + \sum_j J_{ij} s_j)})`.  A Potts model has states 0, 1, ...,
q - 1, fields :math:`h_i(x_i)` and couplings :math:`J_{ij} [x_i = x_j]`.  Sampling and log Z are not here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.factors import Factor
from doxa.models.markov import MarkovNetwork, check_rows, read_array
from doxa.text import counted

__all__ = ["IsingNetwork", "PairNetwork", "PottsNetwork", "ising", "ising_grid", "potts", "potts_grid"]

Edges = ArrayLike | Iterable[tuple[str, str]]


def _read_grid(
    rows: int, columns: int, periodic: bool
) -> tuple[tuple[int, int], NDArray[np.int64], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the shape, the edges to the right and then those down, and rows and columns of the edges of each kind."""
    least, hint = (3, " where the grid is periodic: two would be joined twice") if periodic else (1, "")
    shape = check_whole("rows", rows, least, hint), check_whole("columns", columns, least, hint)
    place = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape)
    if periodic:
        pairs = (place, np.roll(place, -1, axis=1)), (place, np.roll(place, -1, axis=0))
    else:
        pairs = (place[:, :-1], place[:, 1:]), (place[:-1], place[1:])
    edges = np.concatenate([np.stack(ends, axis=2).reshape(-1, 2) for ends in pairs])
    return shape, edges, (pairs[0][0].shape, pairs[1][0].shape)


def _grid_couplings(coupling: Any, horizontal: tuple[int, ...], vertical: tuple[int, ...]) -> Floats:
    """Return couplings by edge, given for all, by edge, or as (horizontal, vertical)."""
    if isinstance(coupling, tuple):
        if len(coupling) != 2:
            raise ArgumentError(f"coupling is a tuple of {len(coupling)}; give (horizontal, vertical), or an array")
        right = _read_numbers("coupling, horizontal,", coupling[0], horizontal, "a number for every horizontal edge")
        down = _read_numbers("coupling, vertical,", coupling[1], vertical, "a number for every vertical edge")
        return np.concatenate([right, down])
    size = math.prod(horizontal) + math.prod(vertical)
    return _read_numbers("coupling", coupling, (size,), "a number for every edge, the horizontal ones first")


def _read_edges(edges: Any) -> tuple[NDArray[np.int64], tuple[str, ...] | None, int]:
    """Return edges by position, names if they were given by name, and the least number of variables there are."""
    listed = edges.tolist() if isinstance(edges, np.ndarray) and edges.dtype.kind in "OU" else edges
    if not isinstance(listed, np.ndarray):
        listed = list(listed)
    if not len(listed):
        return np.zeros((0, 2), dtype=np.int64), None, 0
    names, positions = _by_position(listed) if isinstance(listed, list) else (None, listed)
    try:
        pairs = np.array(positions)
    except ValueError:  # of unequal lengths
        pairs = np.empty(0)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ArgumentTypeError("edges is no array of shape (n_edges, 2); give pairs of names, or pairs of positions")
    if pairs.min() < 0 or pairs.max() >= 2**31:
        raise ArgumentError(f"edges has positions from {pairs.min()} to {pairs.max()}; they are 0 to 2**31 - 1")
    pairs = pairs.astype(np.int64)
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    shown = names or range(int(high.max()) + 1)
    if (low == high).any():
        k = int(np.argmax(low == high))
        raise ArgumentError(f"edges[{k}] joins {shown[low[k]]!r} to itself; the two ends of an edge differ")
    first = np.unique(low * (high.max() + 1) + high, return_index=True)[1]
    if len(first) < len(pairs):
        k = int(np.setdiff1d(np.arange(len(pairs)), first)[0])
        ends = f"{shown[low[k]]!r} and {shown[high[k]]!r}"
        raise ArgumentError(f"edges[{k}] joins {ends} again; name every pair once and add up the couplings")
    return pairs, names, int(high.max()) + 1


def _by_position(pairs: list[Any]) -> tuple[tuple[str, ...] | None, list[Any]]:
    """Names and pairs of their positions; the pairs as they are where they hold no name."""
    if not any(isinstance(end, str) for pair in pairs if isinstance(pair, (tuple, list)) for end in pair):
        return None, pairs
    for pair in pairs:
        right = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(end, str) and end for end in pair)
        if not right:
            raise ArgumentError(f"edges contains {pair!r}; an edge is a pair of names, or a pair of positions")
    names = tuple(dict.fromkeys(str.__str__(end) for pair in pairs for end in pair))
    index = {name: i for i, name in enumerate(names)}
    return names, [[index[end] for end in pair] for pair in pairs]


def _read_named_field(field: Mapping[str, float], names: tuple[str, ...] | None) -> tuple[tuple[str, ...], list[float]]:
    """Return all names, those of edges first, and their fields."""
    if names is None:
        raise ArgumentTypeError("field is a mapping, but edges has positions; give names in both, or an array")
    for name in field:
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(f"field names the variable {name!r}; names are text that is not empty")
    every = tuple(dict.fromkeys([*names, *field]))
    return every, [field.get(name, 0.0) for name in every]


def _count_variables(given: int | None, names: tuple[str, ...] | None, least: int) -> int:
    """Return the number of variables, of names, fields given or the largest position, in this order."""
    n = len(names) if names is not None else least if given is None else given
    if n < least:
        raise ArgumentError(f"field is for {n} variables, and edges has position {least - 1}; give at least {least}")
    if not n:
        raise ArgumentError("edges is empty and field is no array; a network has at least one variable")
    return n


def _read_numbers(label: str, value: Any, shape: tuple[int, ...], meaning: str) -> Floats:
    """Return finite numbers, one a place and flat: a number is for all places; shape (n,) also serves for a grid."""
    array = read_array(label, value)
    size = math.prod(shape)
    if array.ndim == 0:
        array = np.full(size, array)
    elif array.shape not in (shape, (size,)):
        raise ArgumentError(f"{label} has shape {array.shape}; it must be a number or of shape {shape}, {meaning}")
    _check_finite(label, array)
    return array.ravel()


def _read_state_fields(array: Floats, shape: tuple[int, int]) -> Floats:
    """Return fields of shape (n, n_states), given so or as (n_states,)."""
    if array.shape not in (shape, shape[1:]):
        raise ArgumentError(
            f"field has shape {array.shape}; it must be ({shape[1]},), a number for every state, or {shape}: "
            f"one number for all states would change nothing"
        )
    _check_finite("field", array)
    return np.ascontiguousarray(np.broadcast_to(array, shape))


def _check_finite(label: str, array: Floats) -> None:
    if not np.isfinite(array).all():
        raise ArgumentError(f"{label} contains NaN or infinity; what is forbidden takes a MarkovNetwork with -inf")


_LABELS = {"pm1": ("-1", "1"), "01": ("0", "1")}


class PairNetwork(MarkovNetwork):
    """Variables with the same states, a coupling for every edge: what Ising and Potts networks share.

    Made by `ising`, `ising_grid`, `potts` and `potts_grid`.  Names, states and factors are built when they are first
    asked for: a grid of a quarter of a million spins is made in milliseconds.

    Attributes
    ----------
    edges : ndarray of int64, shape (n_edges, 2)
        Positions of the ends; no pair is there twice, in either order.  Read-only, as all arrays here.
    couplings : ndarray, shape (n_edges,)
        Nats.
    fields : ndarray, shape (n,) for Ising and (n, n_states) for Potts networks
        Nats.
    constant : float
        Log potential (nats) that every configuration has besides.
    shape : (int, int) or None
        Rows and columns of a grid; the variable at row r and column c has position r * columns + c.
    periodic : bool
        Whether the grid's borders are joined.
    """

    edges: NDArray[np.int64]
    couplings: Floats
    fields: Floats
    constant: float
    shape: tuple[int, int] | None
    periodic: bool
    _labels: tuple[str, ...]
    _given_names: tuple[str, ...] | None

    def __init__(
        self,
        edges: NDArray[np.int64],
        couplings: Floats,
        fields: Floats,
        labels: tuple[str, ...],
        *,
        names: tuple[str, ...] | None = None,
        shape: tuple[int, int] | None = None,
        periodic: bool = False,
        constant: float = 0.0,
    ) -> None:
        for array in (edges, couplings, fields):
            array.setflags(write=False)
        self.__dict__.update(edges=edges, couplings=couplings, fields=fields, constant=constant, _labels=labels)
        self.__dict__.update(shape=shape, periodic=periodic, _given_names=names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the variables: those given, ``X0, X1, ...``, or on a grid ``X{row}_{column}``."""
        if self._given_names is not None:
            return self._given_names
        if self.shape is not None:
            return tuple(f"X{r}_{c}" for r in range(self.shape[0]) for c in range(self.shape[1]))
        return tuple(f"X{i}" for i in range(len(self.fields)))

    @cached_property
    def states(self) -> tuple[tuple[str, ...], ...]:
        """Labels of each variable's states."""
        return (self._labels,) * len(self.fields)

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """Fields that are not 0, then edges in order, then the constant if it is not 0."""
        unary, pairs = self._tables()
        for array in (unary, pairs):
            array.setflags(write=False)  # and so are the views that the factors hold
        variables = np.flatnonzero(unary.any(axis=1)).tolist()
        made = [Factor((i,), unary[i]) for i in variables]
        made += [Factor((i, j), table) for (i, j), table in zip(self.edges.tolist(), pairs, strict=True)]
        if self.constant:
            constant = np.array(self.constant)
            constant.setflags(write=False)
            made.append(Factor((), constant))
        return tuple(made)

    def _tables(self) -> tuple[Floats, Floats]:
        """Log potentials of the variables, shape (n, q), and of the edges, (n_edges, q, q)."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PairNetwork):
            return NotImplemented
        if type(self) is not type(other) or self._grid() != other._grid():
            return False
        arrays = ((self.edges, other.edges), (self.couplings, other.couplings), (self.fields, other.fields))
        return all(np.array_equal(a, b) for a, b in arrays) and self.names == other.names

    def __hash__(self) -> int:
        return hash((self._grid(), self.fields.tobytes(), self.couplings.tobytes()))

    def _grid(self) -> tuple[Any, ...]:
        return self._labels, self.constant, self.shape, self.periodic

    def __reduce__(self) -> tuple[Any, ...]:
        options = {"names": self._given_names, "shape": self.shape, "periodic": self.periodic}
        parts = (self.edges, self.couplings, self.fields, self._labels)
        return _restore, (type(self), parts, options | {"constant": self.constant})

    def __repr__(self) -> str:
        grid = ""
        if self.shape is not None:
            grid = f", {self.shape[0]} x {self.shape[1]} grid" + (", periodic" if self.periodic else "")
        states = f"states {', '.join(map(repr, self._labels))}"
        edges = counted(len(self.edges), "edge")
        return f"{type(self).__name__}({len(self.fields)} variables, {edges}{grid}; {states})"


class IsingNetwork(PairNetwork):
    """An Ising model; ``couplings`` J and ``fields`` h are those of the spins -1 and +1, whatever the labels.

    State 0 is spin -1 and state 1 is spin +1.  See `ising` for the relation to 0/1 variables.
    """

    def log_potential(self, rows: ArrayLike) -> Floats:
        """Sum of the log potentials (nats) of complete rows of positions, 0 and 1, of shape (n, n_variables)."""
        spins = 2.0 * check_rows(rows, self.names, self.n_states) - 1.0
        pairs = spins[:, self.edges[:, 0]] * spins[:, self.edges[:, 1]]
        return np.asarray(spins @ self.fields + pairs @ self.couplings + self.constant)

    def _tables(self) -> tuple[Floats, Floats]:
        return np.multiply.outer(self.fields, [-1.0, 1.0]), np.multiply.outer(self.couplings, [[1.0, -1.0], [-1.0, 1]])


class PottsNetwork(PairNetwork):
    """A Potts model: ``couplings`` count where two ends have the same state, ``fields`` hold a number a state."""

    def log_potential(self, rows: ArrayLike) -> Floats:
        """Sum of the log potentials (nats) of complete rows of positions, of shape (n, n_variables)."""
        codes = check_rows(rows, self.names, self.n_states)
        same = codes[:, self.edges[:, 0]] == codes[:, self.edges[:, 1]]
        own = self.fields[np.arange(len(self.fields)), codes].sum(axis=1)
        return np.asarray(own + same @ self.couplings + self.constant)

    def _tables(self) -> tuple[Floats, Floats]:
        return self.fields, np.multiply.outer(self.couplings, np.eye(len(self._labels)))


def ising(
    edges: Edges,
    coupling: ArrayLike,
    field: ArrayLike | Mapping[str, float] = 0.0,
    *,
    coding: Literal["pm1", "01"] = "pm1",
) -> IsingNetwork:
    r"""Ising model on any graph.

    Parameters
    ----------
    edges : array_like of int, shape (n_edges, 2), or iterable of (str, str)
        Pairs of positions, counted from 0, or of names; the order of the two does not matter.
    coupling : float or array_like, shape (n_edges,)
        J in nats, for all edges or for each.
    field : float, array_like of shape (n,), or mapping of str to float, default=0.0
        h in nats, for all variables or for each.  An array says how many variables there are, which otherwise the
        largest position does.  A mapping is for names: others than it has get 0, and names that no edge has are added.
    coding : {"pm1", "01"}, default="pm1"
        "pm1": spins -1 and +1, states labelled "-1" and "1".  "01": variables 0 and 1, labelled "0" and "1".

    Returns
    -------
    IsingNetwork

    Raises
    ------
    ArgumentError
        If an edge joins a variable to itself or a pair twice, a number is not finite, or lengths do not fit.

    Notes
    -----
    With "01" the model is :math:`\exp(\sum_i m_i x_i + \sum_{(i,j)} m_{ij} x_i x_j) / Z`, ``field`` being m_i and
    ``coupling`` m_ij, and :math:`P(x_i = 1 | \text{rest}) = 1 / (1 + e^{-m_i - \sum_j m_{ij} x_j})`; in print the
    denominator of this conditional may lack m_i.  Putting x = (1 + s) / 2 gives the form of the spins, which the
    network keeps, with a constant:

    .. math:: J_{ij} = m_{ij} / 4, \quad h_i = m_i / 2 + \sum_j m_{ij} / 4, \quad
              c = \sum_i m_i / 2 + \sum_{(i, j)} m_{ij} / 4.

    Examples
    --------
    >>> network = ising([("a", "b"), ("b", "c")], coupling=1.0, coding="01")
    >>> network
    IsingNetwork(3 variables, 2 edges; states '0', '1')
    >>> network.couplings, network.fields, network.constant
    (array([0.25, 0.25]), array([0.25, 0.5 , 0.25]), 0.5)
    """
    pairs, names, least = _read_edges(edges)
    couplings = _read_numbers("coupling", coupling, (len(pairs),), "a number for every edge")
    if isinstance(field, Mapping):
        names, field = _read_named_field(field, names)
    given = read_array("field", field)
    n = _count_variables(len(given) if given.ndim else None, names, least)
    fields = _read_numbers("field", given, (n,), "a number for every variable")
    return _ising(pairs, couplings, fields, coding, names=names)


def ising_grid(
    rows: int,
    columns: int,
    *,
    coupling: ArrayLike | tuple[ArrayLike, ArrayLike],
    field: ArrayLike = 0.0,
    periodic: bool = False,
    coding: Literal["pm1", "01"] = "pm1",
) -> IsingNetwork:
    """Ising model on a grid, each variable joined to those beside, above and below it.

    Parameters
    ----------
    rows, columns : int
        At least 1, and at least 3 where the grid is periodic.  Variable ``X{r}_{c}`` has position r * columns + c.
    coupling : float, array_like of shape (n_edges,), or a tuple (horizontal, vertical)
        By edge: first the horizontal ones, row after row, then the vertical ones, row after row.  Of a tuple either
        is a number or an array, ``horizontal[r, c]`` joining (r, c) to (r, c + 1), of shape (rows, columns - 1), and
        ``vertical[r, c]`` joining (r, c) to (r + 1, c), of shape (rows - 1, columns); (rows, columns) both where the
        grid is periodic.
    field : float or array_like, shape (rows, columns) or (rows * columns,), default=0.0
    periodic : bool, default=False
        Whether the last column is joined to the first, and the last row to the first.
    coding : {"pm1", "01"}, default="pm1"
        As in `ising`.

    Returns
    -------
    IsingNetwork

    Examples
    --------
    >>> ising_grid(2, 3, coupling=0.4).edges.tolist()
    [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [1, 4], [2, 5]]
    >>> ising_grid(512, 512, coupling=(0.4, 0.5), periodic=True)
    IsingNetwork(262144 variables, 524288 edges, 512 x 512 grid, periodic; states '-1', '1')
    """
    shape, edges, of_edges = _read_grid(rows, columns, periodic)
    fields = _read_numbers("field", field, shape, "a number for every variable")
    couplings = _grid_couplings(coupling, *of_edges)
    return _ising(edges, couplings, fields, coding, shape=shape, periodic=periodic)


def potts(edges: Edges, n_states: int, coupling: ArrayLike, field: ArrayLike | None = None) -> PottsNetwork:
    """Potts model on any graph: a coupling counts where its two ends are in the same state.

    Parameters
    ----------
    edges : array_like of int, shape (n_edges, 2), or iterable of (str, str)
        As in `ising`.
    n_states : int
        At least 2; the labels are "0", "1", ...
    coupling : float or array_like, shape (n_edges,)
        Nats.
    field : array_like, shape (n_states,) or (n, n_states), optional
        Nats by state, for all variables or for each.  One number for all states would change nothing.

    Returns
    -------
    PottsNetwork

    Notes
    -----
    With two states this is an Ising model of half the couplings, and a constant.

    Examples
    --------
    >>> network = potts([("a", "b")], 3, coupling=0.7, field=[0.0, 0.0, 0.5])
    >>> network.log_potential([[2, 2], [0, 1]])
    array([1.7, 0. ])
    """
    pairs, names, least = _read_edges(edges)
    couplings = _read_numbers("coupling", coupling, (len(pairs),), "a number for every edge")
    q = check_whole("n_states", n_states, 2)
    given = np.zeros(q) if field is None else read_array("field", field)
    n = _count_variables(len(given) if given.ndim == 2 else None, names, least)
    fields = _read_state_fields(given, (n, q))
    return PottsNetwork(pairs, couplings, fields, tuple(map(str, range(q))), names=names)


def potts_grid(
    rows: int,
    columns: int,
    n_states: int,
    *,
    coupling: ArrayLike | tuple[ArrayLike, ArrayLike],
    field: ArrayLike | None = None,
    periodic: bool = False,
) -> PottsNetwork:
    """Potts model on a grid: couplings as in `ising_grid`, fields as in `potts` or of shape (rows, columns, n_states).

    Examples
    --------
    >>> potts_grid(4, 4, 3, coupling=0.5)
    PottsNetwork(16 variables, 24 edges, 4 x 4 grid; states '0', '1', '2')
    """
    shape, edges, of_edges = _read_grid(rows, columns, periodic)
    q = check_whole("n_states", n_states, 2)
    given = np.zeros(q) if field is None else read_array("field", field)
    return PottsNetwork(
        edges,
        _grid_couplings(coupling, *of_edges),
        _read_state_fields(given.reshape(-1, q) if given.shape == (*shape, q) else given, (shape[0] * shape[1], q)),
        tuple(map(str, range(q))),
        shape=shape,
        periodic=periodic,
    )


def _ising(edges: NDArray[np.int64], couplings: Floats, fields: Floats, coding: str, **options: Any) -> IsingNetwork:
    if not isinstance(coding, str) or coding not in _LABELS:
        raise ArgumentError(f"coding is {coding!r}; it must be 'pm1' (spins -1 and +1) or '01' (variables 0 and 1)")
    constant = 0.0
    if coding == "01":
        constant = float(fields.sum() / 2 + couplings.sum() / 4)
        ends = np.bincount(edges.ravel(), weights=np.repeat(couplings, 2), minlength=len(fields))
        couplings, fields = couplings / 4, fields / 2 + ends / 4
    return IsingNetwork(edges, couplings, fields, _LABELS[coding], constant=constant, **options)


def _restore(kind: type[PairNetwork], parts: tuple[Any, ...], options: dict[str, Any]) -> PairNetwork:
    return kind(*parts, **options)
