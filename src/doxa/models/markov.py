r"""`MarkovNetwork`: a network of discrete variables given by log potentials on any sets of them.

.. math:: p(x) = \frac{1}{Z} \exp \sum_c \psi_c(x_c)

The sets c ("cliques") may overlap and repeat; :math:`\psi = -\infty` forbids a configuration.  Z is not known here:
that is inference.  Ising and Potts models, whose structure compiled kernels use, are in `doxa.models.ising`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.factors import Factor
from doxa.text import counted

__all__ = ["MarkovNetwork", "check_rows", "read_array", "read_states", "sum_factors"]


class MarkovNetwork:
    """Discrete variables with log potentials; immutable.

    Parameters
    ----------
    states : mapping of str to sequence of str
        Labels of the states of every variable; the order of the variables is that of the mapping.
    potentials : iterable of (sequence of str, array_like)
        A clique, names of different variables, and its log potential in nats: an axis for each of them, of as many
        entries as it has states.  -inf forbids a configuration.  An empty clique with a number adds a constant.

    Raises
    ------
    ArgumentError
        If labels or names repeat, a clique names an unknown variable, or an array has the wrong shape, a NaN, a +inf,
        or nothing but -inf.

    Notes
    -----
    A variable without a potential is uniform and independent of all others.

    Examples
    --------
    >>> network = MarkovNetwork({"a": ["no", "yes"], "b": ["no", "yes"]}, [(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])])
    >>> network
    MarkovNetwork(2 variables, 1 potential)
    >>> network.log_potential([[0, 0], [0, 1]])
    array([1., 0.])
    """

    _names: tuple[str, ...]
    _states: tuple[tuple[str, ...], ...]
    _factors: tuple[Factor, ...]

    def __init__(
        self, states: Mapping[str, Sequence[str]], potentials: Iterable[tuple[Sequence[str], ArrayLike]]
    ) -> None:
        names, labels = read_states(states)
        sizes = {name: (i, len(own)) for i, (name, own) in enumerate(zip(names, labels, strict=True))}
        factors = tuple(_read_potential(k, entry, sizes) for k, entry in enumerate(potentials))
        self.__dict__.update(_names=names, _states=labels, _factors=factors)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; cannot set {name!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables, in order."""
        return self._names

    @property
    def states(self) -> tuple[tuple[str, ...], ...]:
        """Labels of each variable's states."""
        return self._states

    @property
    def n_states(self) -> tuple[int, ...]:
        """Number of states of each variable."""
        return tuple(len(labels) for labels in self.states)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The potentials, in the order given; their arrays are read-only."""
        return self._factors

    def log_potential(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Sum of the log potentials, log p(x) + log Z, of complete rows.

        Parameters
        ----------
        rows : array_like of int, shape (n, n_variables)
            Positions of states.

        Returns
        -------
        ndarray, shape (n,)
            Nats; -inf where a configuration is forbidden.
        """
        return sum_factors(self.factors, check_rows(rows, self.names, self.n_states))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MarkovNetwork):
            return NotImplemented
        if type(self) is not type(other):
            return False
        if (self.names, self.states) != (other.names, other.states) or len(self.factors) != len(other.factors):
            return False
        return all(
            f.variables == g.variables and np.array_equal(f.log_values, g.log_values)
            for f, g in zip(self.factors, other.factors, strict=True)
        )

    def __hash__(self) -> int:
        return hash((self.names, self.states))

    def __reduce__(self) -> tuple[Any, ...]:
        named = [([self._names[i] for i in f.variables], f.log_values) for f in self._factors]
        return MarkovNetwork, (dict(zip(self._names, self._states, strict=True)), named)

    def __repr__(self) -> str:
        return f"MarkovNetwork({counted(len(self._names), 'variable')}, {counted(len(self._factors), 'potential')})"


def read_states(states: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return names and labels of a mapping, checked: texts that are not empty, names and a variable's labels differ."""
    if not isinstance(states, Mapping):
        raise ArgumentTypeError(f"states is {states!r}; give a mapping of names to lists of labels")
    if not states:
        raise ArgumentError("states is empty; a network has at least one variable")
    for name, labels in states.items():
        if not isinstance(name, str):
            raise ArgumentTypeError(f"states names the variable {name!r}; names are text")
        if not name:
            raise ArgumentError("states names a variable ''; names are text that is not empty")
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise ArgumentTypeError(f"states[{name!r}] is {labels!r}; give a list of labels")
    names = tuple(str.__str__(name) for name in states)
    return names, tuple(_read_labels(name, tuple(labels)) for name, labels in states.items())


def _read_labels(name: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    if not labels:
        raise ArgumentError(f"states[{name!r}] is empty; a variable has at least one state")
    for label in labels:
        if not isinstance(label, str):
            raise ArgumentTypeError(f"states[{name!r}] has the label {label!r}; labels are text: {str(label)!r}")
        if not label:
            raise ArgumentError(f"states[{name!r}] has the label ''; labels are text that is not empty")
    if len(set(labels)) < len(labels):
        repeated = next(label for label in labels if labels.count(label) > 1)
        raise ArgumentError(f"states[{name!r}] has the label {repeated!r} more than once; labels must differ")
    return tuple(str.__str__(label) for label in labels)


def read_array(label: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return a fresh array of float64, or raise an error that names the argument."""
    try:
        array = np.array(value)
        numbers = array.astype(np.float64, order="C") if array.dtype.kind in "biuf" else None  # texts are not parsed
    except (TypeError, ValueError):
        numbers = None
    if numbers is None:
        raise ArgumentTypeError(f"{label} is not an array of numbers with rows of equal length")
    return numbers


def check_rows(rows: ArrayLike, names: Sequence[str], n_states: Sequence[int]) -> NDArray[np.intp]:
    """Return complete rows of positions of states, shape (n, n_variables), or raise an error."""
    codes = np.asarray(rows)
    if codes.ndim != 2 or codes.shape[1] != len(names):
        raise ArgumentError(f"rows has shape {codes.shape}; it must be (n, {len(names)}), a column for every variable")
    if codes.dtype.kind not in "iub":
        raise ArgumentTypeError(f"rows has dtype {codes.dtype}; rows hold positions of states, whole numbers")
    wrong = np.argwhere((codes < 0) | (codes >= np.array(n_states)))
    if wrong.size:
        i, j = wrong[0]
        raise ArgumentError(
            f"rows[{i}, {j}] is {codes[i, j]}, and {names[j]!r} has {n_states[j]} states; "
            f"positions are 0 to {n_states[j] - 1}, and every cell is needed"
        )
    return codes.astype(np.intp)


def sum_factors(factors: Iterable[Factor], rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Sum the factors' log values at complete rows, shape (n, n_variables); unchecked."""
    total = np.zeros(len(rows))
    for variables, log_values in factors:
        total += log_values[tuple(rows[:, v] for v in variables)]
    return total


def _read_potential(k: int, entry: object, sizes: Mapping[str, tuple[int, int]]) -> Factor:
    if not isinstance(entry, (tuple, list)) or len(entry) != 2 or isinstance(entry[0], str):
        raise ArgumentTypeError(f"potentials[{k}] is {entry!r}; give a pair (names, log potential)")
    clique = tuple(entry[0])
    for name in clique:
        if name not in sizes:
            raise ArgumentError(f"potentials[{k}] names {name!r}, which is not a key of states")
        if clique.count(name) > 1:
            raise ArgumentError(f"potentials[{k}] names {name!r} more than once; the variables of a clique differ")
    label = f"potentials[{k}], over {', '.join(map(repr, clique)) or 'nothing'},"
    array = read_array(label, entry[1])
    shape = tuple(sizes[name][1] for name in clique)
    if array.shape != shape:
        raise ArgumentError(f"{label} has shape {array.shape}; it must be {shape}, the numbers of states")
    if np.isnan(array).any() or (array == np.inf).any():
        raise ArgumentError(f"{label} contains NaN or +inf; log potentials are finite, or -inf where forbidden")
    if np.isneginf(array).all():
        raise ArgumentError(f"{label} is -inf everywhere; leave at least one configuration possible")
    array.setflags(write=False)
    return Factor(tuple(sizes[name][0] for name in clique), array)
