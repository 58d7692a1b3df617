r"""Nodes of conjugate networks, Gaussians with linear means, gamma and categorical nodes, mixtures; the factors of q.

The log density of a node given its parents is linear in the statistics of each variable when the others are held.
Its expectation under q is therefore ``expected_log``, and its derivative by the expected statistics of one variable
is the node's ``message`` to it: natural parameters that are added up (`ConjugateProblem.updated`).

A factor is of a family :math:`q(z) = h(z) \exp(\eta^T T(z) - A(\eta))` (the lecture notes' formula 23).  Natural
parameters are flat arrays, so that messages from the neighbours of a node are added as they are:

========================  ==========================================================  =====================
family                    statistics T                                                natural parameters
========================  ==========================================================  =====================
`GaussianFactor`          :math:`x, x x^T`                                            :math:`\Lambda \mu, -\Lambda / 2`
`GammaFactor`             :math:`\log x, x`, each of ``size``                         shape - 1, -rate
`CategoricalFactor`       indicators of the states, (size, n_states)                  log weights
========================  ==========================================================  =====================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular
from scipy.special import digamma, entr, gammaln, log_softmax

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.sampling.gaussian import Gaussian
from doxa.text import a_kind

__all__ = [
    "Categorical",
    "CategoricalFactor",
    "Gamma",
    "GammaFactor",
    "GaussianFactor",
    "Known",
    "Mixture",
    "Node",
    "Normal",
]


class GaussianFactor(Gaussian):
    """A Gaussian over a vector."""

    @classmethod
    def from_natural(cls, natural: Floats, size: int) -> Self:
        """The Gaussian with these natural parameters, shape (size + size**2,)."""
        precision = -2.0 * natural[size:].reshape(size, size)
        # With the order of the coordinates turned, the factor of the precision is, inverted, that of the covariance.
        turned = cholesky(precision[::-1, ::-1], lower=True)
        root = solve_triangular(turned, np.eye(size), lower=True, trans="T")[::-1, ::-1]
        return cls(root @ (root.T @ natural[:size]), root)

    @cached_property
    def natural(self) -> Floats:
        """Natural parameters, shape (d + d**2,)."""
        precision = self.precision()
        return np.concatenate([precision @ self.mean, -0.5 * precision.ravel()])

    def variances(self, slopes: Floats | None = None) -> Floats:
        """Variances of the coordinates, or of ``slopes @ x``."""
        root = self.cholesky if slopes is None else slopes @ self.cholesky
        return np.asarray((root**2).sum(axis=1))

    def moved(self, rng: np.random.Generator) -> Self:
        """With a draw in the place of the mean."""
        return replace(self, mean=self.sample(1, rng)[0])


@dataclass(frozen=True, eq=False)
class GammaFactor:
    """Independent gamma distributions, of ``shape`` and ``rate`` (size,)."""

    shape: Floats
    rate: Floats

    @classmethod
    def from_natural(cls, natural: Floats, size: int) -> Self:
        """The distributions with these natural parameters, shape (2 * size,)."""
        return cls(natural[:size] + 1.0, -natural[size:])

    @property
    def natural(self) -> Floats:
        """Natural parameters, shape (2 * size,)."""
        return np.concatenate([self.shape - 1.0, -self.rate])

    @cached_property
    def mean(self) -> Floats:
        """Expected values, shape (size,)."""
        return self.shape / self.rate

    @cached_property
    def mean_log(self) -> Floats:
        """Expected logarithms, shape (size,)."""
        return np.asarray(digamma(self.shape) - np.log(self.rate))

    @property
    def sd(self) -> Floats:
        """Standard deviations, shape (size,)."""
        return np.sqrt(self.shape) / self.rate

    @cached_property
    def entropy(self) -> float:
        """Differential entropy, nats."""
        a = self.shape
        return float((a - np.log(self.rate) + gammaln(a) + (1.0 - a) * digamma(a)).sum())

    def moved(self, rng: np.random.Generator) -> Self:
        """With a draw in the place of the mean."""
        return replace(self, rate=self.shape / np.maximum(rng.gamma(self.shape) / self.rate, 1e-6 * self.mean))


@dataclass(frozen=True, eq=False)
class CategoricalFactor:
    """Independent distributions over states: log probabilities (size, n_states)."""

    log_mean: Floats

    @classmethod
    def from_natural(cls, natural: Floats, size: int) -> Self:
        """The distributions with these log weights, shape (size * n_states,)."""
        return cls(log_softmax(natural.reshape(size, -1), axis=1))

    @property
    def natural(self) -> Floats:
        """Natural parameters, shape (size * n_states,)."""
        return self.log_mean.ravel()

    @cached_property
    def mean(self) -> Floats:
        """Probabilities of the states, shape (size, n_states)."""
        return np.exp(self.log_mean)

    @cached_property
    def entropy(self) -> float:
        """Entropy, nats."""
        return float(entr(self.mean).sum())

    def moved(self, rng: np.random.Generator) -> Self:
        """With random weights."""
        noise = np.log(rng.standard_exponential(self.log_mean.shape))
        return replace(self, log_mean=log_softmax(self.log_mean + noise, axis=1))


@dataclass(frozen=True, eq=False)
class Known:
    """What was observed, in the place of a factor: a vector (size,), or indicators of states (size, n_states)."""

    mean: Floats
    entropy: float = 0.0

    @cached_property
    def mean_log(self) -> Floats:
        """Logarithms of the values."""
        return np.log(self.mean)

    def variances(self, slopes: Floats | None = None) -> Floats:
        """0 for each value, or for each row of ``slopes``."""
        return np.zeros(len(self.mean if slopes is None else slopes))


Factors: TypeAlias = Mapping[str, Any]  # the factors of q by node: a family of `conjugate.factors`, or `Known`


class Node(ABC):
    """A variable, and its distribution given its parents."""

    size: int
    parents: tuple[str, ...]
    family: type[GaussianFactor | GammaFactor | CategoricalFactor]

    @abstractmethod
    def expected_log(self, name: str, q: Factors) -> float:
        """Expected log density of the node ``name`` given its parents, under q; nats."""

    @abstractmethod
    def message(self, name: str, to: str, q: Factors) -> Floats:
        """Derivative of ``expected_log`` by the expected statistics of ``to``, the node itself or a parent."""

    @abstractmethod
    def known(self, name: str, value: ArrayLike) -> Known:
        """Observed values; ArgumentError unless they fit the node."""

    def check_parents(self, name: str, nodes: Mapping[str, Node]) -> None:  # noqa: B027 - a node may have none
        """Raise ArgumentError unless every parent is of the kind and size that it must be."""


class _Gaussians(Node):
    """A vector whose element i is Gaussian, by component k with weight :math:`r_{ik}`; a Normal has one component."""

    family = GaussianFactor
    components: tuple[Normal, ...]

    @abstractmethod
    def weights(self, q: Factors) -> Floats:
        """Probability of each component for each element, shape (n_components, size)."""

    def expected_log(self, name: str, q: Factors) -> float:
        weights = self.weights(q)
        return float(sum(w @ c.log_terms(name, q) for w, c in zip(weights, self.components, strict=True)))

    def message(self, name: str, to: str, q: Factors) -> Floats:
        weights = self.weights(q)
        found = [
            c.component_message(name, to, w, q)
            for w, c in zip(weights, self.components, strict=True)
            if to == name or to in c.parents
        ]
        return np.asarray(sum(found))

    def known(self, name: str, value: ArrayLike) -> Known:
        return Known(_numbers(f"given[{name!r}]", value, self.size))

    def check_parents(self, name: str, nodes: Mapping[str, Node]) -> None:
        for component in self.components:
            for parent, matrix in component.slopes.items():
                _check_kind(name, parent, nodes[parent], _Gaussians, "a Normal or a Mixture, as slopes name it")
                if matrix.shape[1] != nodes[parent].size:
                    raise ArgumentError(
                        f"the slopes of {name!r} on {parent!r} have {matrix.shape[1]} columns; {parent!r} has size "
                        f"{nodes[parent].size}; give a column for each of its elements"
                    )
            if isinstance(component.precision, str):
                parent = component.precision
                _check_kind(name, parent, nodes[parent], Gamma, "a Gamma, as it is a precision")
                _check_size(name, self.size, parent, nodes[parent])


class Normal(_Gaussians):
    r"""A vector of Gaussians with a mean linear in other nodes.

    Element i is Gaussian with mean :math:`c_i + \sum_j (A_j w_j)_i` and precision :math:`\tau` or :math:`\tau_i`.

    Parameters
    ----------
    mean : float or array_like of shape (size,), default=0.0
        The constant c.
    precision : float, array_like of shape (size,), or str, default=1.0
        One over the variance: numbers, or the name of a `Gamma` node of size 1 or ``size``.
    slopes : mapping of str to array_like of shape (size, size of the parent), optional
        The matrices A, by the names of Gaussian parents; the number 1 where the two are of one size.
    size : int, optional
        Length of the vector; that of the mean, the precision or the slopes when left out, else 1.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is not finite, a precision not positive, or lengths differ.
    """

    def __init__(
        self,
        mean: ArrayLike = 0.0,
        precision: ArrayLike | str = 1.0,
        *,
        slopes: Mapping[str, ArrayLike] | None = None,
        size: int | None = None,
    ) -> None:
        matrices = {name: np.asarray(matrix, dtype=np.float64) for name, matrix in (slopes or {}).items()}
        given = [mean, *([] if isinstance(precision, str) else [precision]), *matrices.values()]
        lengths = [np.shape(array)[0] for array in given if np.ndim(array)]
        self.size = check_whole("size", lengths[0] if size is None and lengths else 1 if size is None else size, 1)
        self.offset = _numbers("mean", mean, self.size)
        self.precision: str | Known = (
            precision if isinstance(precision, str) else Known(positive_numbers("precision", precision, self.size))
        )
        self.slopes = {name: _matrix(name, matrix, self.size) for name, matrix in matrices.items()}
        self.parents = (*self.slopes, *([precision] if isinstance(precision, str) else []))
        self.components = (self,)

    def weights(self, q: Factors) -> Floats:  # noqa: ARG002
        """One component, certainly."""
        return np.ones((1, self.size))

    def log_terms(self, name: str, q: Factors) -> Floats:
        """Expected log density of each element of ``name``, were this its component; shape (size,), nats."""
        precision = self._precision(q)
        return np.asarray(0.5 * (precision.mean_log - np.log(2 * np.pi) - precision.mean * self._squares(name, q)))

    def component_message(self, name: str, to: str, weights: Floats, q: Factors) -> Floats:
        """Message of this component, to which element i belongs with probability ``weights[i]``."""
        if to == self.precision:
            size = len(q[to].mean)
            found = [0.5 * weights, -0.5 * weights * self._squares(name, q)]
            return np.concatenate([[part.sum()] if size == 1 else part for part in found])
        scale = weights * self._precision(q).mean
        if to == name:
            return np.concatenate([scale * self._mean(q), np.diag(-0.5 * scale).ravel()])
        slopes = self.slopes[to]
        rest = q[name].mean - self._mean(q) + slopes @ q[to].mean
        return np.concatenate([slopes.T @ (scale * rest), (-0.5 * (slopes.T * scale) @ slopes).ravel()])

    def _mean(self, q: Factors) -> Floats:
        return np.asarray(self.offset + sum(slopes @ q[parent].mean for parent, slopes in self.slopes.items()))

    def _squares(self, name: str, q: Factors) -> Floats:
        """Expected squares of the residuals, shape (size,)."""
        spread = sum(q[parent].variances(slopes) for parent, slopes in self.slopes.items())
        return np.asarray((q[name].mean - self._mean(q)) ** 2 + q[name].variances() + spread)

    def _precision(self, q: Factors) -> Any:
        return q[self.precision] if isinstance(self.precision, str) else self.precision


class Mixture(_Gaussians):
    """A vector of Gaussians, each element's mean and precision chosen by an element of a `Categorical`.

    Parameters
    ----------
    chooser : str
        Name of a `Categorical` of the same size, with a state for each component.
    components : sequence of Normal
        Of one size, which is the chooser's.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there are no components, or they are no `Normal` nodes of one size.
    """

    def __init__(self, chooser: str, components: Sequence[Normal]) -> None:
        self.chooser, self.components = chooser, tuple(components)
        for k, component in enumerate(self.components):
            if not isinstance(component, Normal):
                raise ArgumentTypeError(f"components[{k}] is {component!r}; give Normal nodes")
        sizes = sorted({component.size for component in self.components})
        if len(sizes) != 1:
            raise ArgumentError(f"components have the sizes {sizes}; give at least one, and all of one size")
        self.size = sizes[0]
        self.parents = tuple(dict.fromkeys([chooser, *(name for c in self.components for name in c.parents)]))

    def weights(self, q: Factors) -> Floats:
        """Probabilities of the chooser's states."""
        return np.asarray(q[self.chooser].mean.T)

    def message(self, name: str, to: str, q: Factors) -> Floats:
        """Derivative of ``expected_log`` by the expected statistics of ``to``."""
        if to == self.chooser:
            return np.stack([c.log_terms(name, q) for c in self.components], axis=1).ravel()
        return super().message(name, to, q)

    def check_parents(self, name: str, nodes: Mapping[str, Node]) -> None:
        """Raise ArgumentError unless every parent is of the kind and size that it must be."""
        chooser = nodes[self.chooser]
        _check_kind(name, self.chooser, chooser, Categorical, "a Categorical, as it chooses the components")
        assert isinstance(chooser, Categorical)
        if chooser.size != self.size or chooser.n_states != len(self.components):
            raise ArgumentError(
                f"{self.chooser!r} has size {chooser.size} and {chooser.n_states} states, but {name!r} has size "
                f"{self.size} and {len(self.components)} components; they must be the same"
            )
        super().check_parents(name, nodes)


class Gamma(Node):
    """Independent gamma variables, such as precisions.

    Parameters
    ----------
    shape, rate : float or array_like of shape (size,)
        Positive; the mean is shape / rate.
    size : int, default=1
        How many.
    """

    family = GammaFactor
    parents = ()

    def __init__(self, shape: ArrayLike, rate: ArrayLike, *, size: int = 1) -> None:
        self.size = check_whole("size", size, 1)
        self.shape, self.rate = positive_numbers("shape", shape, size), positive_numbers("rate", rate, size)

    def expected_log(self, name: str, q: Factors) -> float:
        """Expected log density given the parents, under q; nats."""
        a, b = self.shape, self.rate
        own = q[name]
        return float((a * np.log(b) - gammaln(a) + (a - 1) * own.mean_log - b * own.mean).sum())

    def message(self, name: str, to: str, q: Factors) -> Floats:  # noqa: ARG002
        """Derivative of ``expected_log`` by the expected statistics of ``to``."""
        return np.concatenate([self.shape - 1, -self.rate])

    def known(self, name: str, value: ArrayLike) -> Known:
        """Observed values; ArgumentError unless they fit the node."""
        return Known(positive_numbers(f"given[{name!r}]", value, self.size))


class Categorical(Node):
    """Independent variables with a few states.

    Parameters
    ----------
    weights : array_like of shape (n_states of each parent ..., n_states)
        Positive weights of the states.  They need not sum to 1: the bound is then one on the log of the integral of
        the density as it was given.
    parents : sequence of str, default=()
        Categorical nodes of size 1 or ``size``, in the order of the axes of ``weights``.
    size : int, default=1
        How many.
    """

    family = CategoricalFactor

    def __init__(self, weights: ArrayLike, *, parents: Sequence[str] = (), size: int = 1) -> None:
        self.size, self.parents = check_whole("size", size, 1), tuple(parents)
        table = positive_numbers("weights", weights, None)
        if table.ndim != len(self.parents) + 1:
            raise ArgumentError(
                f"weights has shape {table.shape}; {len(self.parents)} parents need an axis each, and the node's own "
                "states the last"
            )
        self.log_weights = np.log(table)
        self.n_states = table.shape[-1]

    def expected_log(self, name: str, q: Factors) -> float:
        """Expected log density given the parents, under q; nats."""
        return float((self.message(name, name, q).reshape(self.size, -1) * q[name].mean).sum())

    def message(self, name: str, to: str, q: Factors) -> Floats:
        """Derivative of ``expected_log`` by the expected statistics of ``to``."""
        scope = (*self.parents, name)
        operands: list[Any] = [self.log_weights, list(range(1, len(scope) + 1))]
        for axis, other in enumerate(scope, 1):
            if other != to:
                mean = q[other].mean
                operands += [np.broadcast_to(mean, (self.size, mean.shape[1])), [0, axis]]
        one = scope.index(to) + 1
        found = np.einsum(*operands, [0, one] if len(scope) > 1 else [one])
        whole = np.broadcast_to(found, (self.size, found.shape[-1]))
        return np.asarray(whole.sum(axis=0) if len(q[to].mean) < self.size else whole).ravel()

    def known(self, name: str, value: ArrayLike) -> Known:
        """Observed states, by position; ArgumentError unless they fit the node."""
        states = np.asarray(value)
        shape = () if self.size == 1 and states.ndim == 0 else (self.size,)
        if states.shape != shape or states.dtype.kind not in "iu":
            raise ArgumentError(f"given[{name!r}] is {value!r}; give {self.size} positions of states, whole numbers")
        wrong = states[(states < 0) | (states >= self.n_states)]
        if wrong.size:
            raise ArgumentError(
                f"given[{name!r}] has the state {wrong.flat[0]}; states are 0 to {self.n_states - 1}, by position"
            )
        return Known(np.eye(self.n_states)[np.broadcast_to(states, self.size)])

    def check_parents(self, name: str, nodes: Mapping[str, Node]) -> None:
        """Raise ArgumentError unless every parent is of the kind and size that it must be."""
        for axis, parent in enumerate(self.parents):
            node = nodes[parent]
            _check_kind(name, parent, node, Categorical, "a Categorical, as weights have an axis for it")
            assert isinstance(node, Categorical)
            _check_size(name, self.size, parent, node)
            if node.n_states != self.log_weights.shape[axis]:
                raise ArgumentError(
                    f"axis {axis} of the weights of {name!r} has length {self.log_weights.shape[axis]}; {parent!r} has "
                    f"{node.n_states} states; give a slice for each of them"
                )


def positive_numbers(name: str, value: ArrayLike, size: int | None) -> Floats:
    """Finite numbers above 0 as an array, of shape (size,) unless that is None."""
    array = np.asarray(value, dtype=np.float64) if size is None else _numbers(name, value, size)
    if not (np.isfinite(array) & (array > 0)).all():
        raise ArgumentError(f"{name} is {value!r}; numbers must be finite and above 0")
    return array


def _numbers(name: str, value: ArrayLike, size: int) -> Floats:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name} is {value!r}; it must be {size} numbers") from None
    if array.shape not in ((), (size,)):
        raise ArgumentError(f"{name} has shape {array.shape}; it must be a number or have shape ({size},)")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name} has NaN or infinity; every number must be finite")
    return np.asarray(np.broadcast_to(array, size))


def _matrix(parent: str, matrix: Floats, size: int) -> Floats:
    if matrix.ndim == 0:
        matrix = matrix * np.eye(size)
    if matrix.ndim != 2 or len(matrix) != size or not np.isfinite(matrix).all():
        raise ArgumentError(
            f"slopes[{parent!r}] has shape {matrix.shape}; it must be a number or a matrix of finite numbers with "
            f"{size} rows and a column for each element of {parent!r}"
        )
    return matrix


def _check_kind(name: str, parent: str, node: Node, kind: type[Any], what: str) -> None:
    if not isinstance(node, kind):
        raise ArgumentTypeError(f"{parent!r}, a parent of {name!r}, is {a_kind(node)}; it must be {what}")


def _check_size(name: str, size: int, parent: str, node: Node) -> None:
    if node.size not in (1, size):
        raise ArgumentError(f"{parent!r} has size {node.size}; as a parent of {name!r} it must have 1 or {size}")
