"""The arguments of `LogisticNetwork`, checked and brought to one form: parents, priors, biases, roots, thetas.

Nothing here knows of data or probabilities of rows; those are in `doxa.models.logistic` and
`doxa.models.logistic_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.dag import Dag
from doxa.text import listed

_SUM_TOLERANCE = 1e-9  # of a joint table: what rounding leaves of 2**20 probabilities, and no more


class GaussianPrior(NamedTuple):
    """The Gaussian prior of the coefficients of one node."""

    mean: NDArray[np.float64]  # (n_coefficients,)
    covariance: NDArray[np.float64]  # (n_coefficients, n_coefficients), positive definite

    def standardised(self) -> tuple[NDArray[np.float64], float]:
        """Matrix W with W W' the precision, and the log density at the mean."""
        factor = np.linalg.cholesky(self.covariance)
        whiten = np.linalg.inv(factor).T
        return whiten, float(-np.log(np.diag(factor)).sum() - 0.5 * len(factor) * np.log(2 * np.pi))


class RootBlock(NamedTuple):
    """Parentless nodes with the distribution they have together; most blocks are of one node."""

    nodes: tuple[str, ...]
    probabilities: NDArray[np.float64] | None  # (2,) * len(nodes), summing to 1; None: learned, of one node

    @property
    def learned(self) -> str | None:
        """The node whose probability is a parameter; None where it is given."""
        return self.nodes[0] if self.probabilities is None else None


def read_parents(parents: object) -> tuple[Dag, dict[str, tuple[str, ...]]]:
    """Return the graph and every node's parents, in the order in which they were given."""
    if isinstance(parents, Dag):
        if not parents.n_nodes:
            raise ArgumentError("parents is a graph without nodes; a network has at least one")
        return parents, {node: parents.parents(node) for node in parents.names}
    if isinstance(parents, str) or not isinstance(parents, Iterable):
        raise ArgumentTypeError(
            f"parents is {parents!r}; give a mapping of each child to its parents, a Dag, or edges (parent, child)"
        )
    if isinstance(parents, Mapping):
        given = {_node("parents", child): _parent_list(child, group) for child, group in parents.items()}
        names = list(dict.fromkeys([*given, *(parent for group in given.values() for parent in group)]))
    else:
        edges = [_edge(edge) for edge in parents]
        names = list(dict.fromkeys(node for edge in edges for node in edge))
        given = {name: [] for name in names}
        for parent, child in edges:
            given[child].append(parent)
    if not names:
        raise ArgumentError("parents is empty; a network has at least one node")
    lists = {name: tuple(given.get(name, ())) for name in names}
    for child, group in lists.items():
        for parent in group:
            if group.count(parent) > 1:
                raise ArgumentError(f"parents of {child!r} name {parent!r} more than once; name every parent once")
    try:
        return Dag.from_edges([(parent, child) for child in lists for parent in lists[child]], names), lists
    except ArgumentError as error:  # what is left to find is a cycle
        raise ArgumentError(str(error).replace("adjacency", "parents", 1)) from None


def read_priors(
    coefficients: Mapping[str, tuple[str, ...]],
    roots: Sequence[str],
    mean: object,
    scale: object,
    covariance: object,
) -> dict[str, GaussianPrior]:
    """Return the prior of every node with parents, from numbers, vectors and mappings."""
    means = _per_node("prior_mean", mean, coefficients, roots, 0.0)
    scales = _per_node("prior_scale", scale, coefficients, roots, 10.0)
    for node, vector in scales.items():
        for label, value in zip(coefficients[node], vector, strict=True):
            if value <= 0 or not 0 < float(value) * float(value) < np.inf:
                raise ArgumentError(
                    f"prior_scale of coefficient {label!r} of {node!r} is {value:g}; a standard deviation is "
                    f"positive, and its square neither 0 nor infinite"
                )
    if covariance is not None and not isinstance(covariance, Mapping):
        raise ArgumentTypeError(
            f"prior_covariance is of type {type(covariance).__name__}; give a mapping of nodes to matrices"
        )
    matrices = {node: np.diag(vector**2) for node, vector in scales.items()}
    for node, matrix in (covariance or {}).items():
        _check_has_parents("prior_covariance", node, coefficients, roots)
        if isinstance(scale, Mapping) and node in scale:
            raise ArgumentError(f"prior_scale and prior_covariance both name {node!r}; give one of them")
        matrices[node] = _covariance(f"prior_covariance[{node!r}]", matrix, coefficients[node])
    return {node: GaussianPrior(means[node], matrices[node]) for node in coefficients}


def read_biases(bias: object, families: Mapping[str, tuple[str, ...]], roots: Sequence[str]) -> dict[str, float | None]:
    """Return the fixed bias of every node with parents, None where it is learned."""
    if not isinstance(bias, Mapping):
        value = _bias("bias", bias)
        biases = {node: value for node in families}  # noqa: C420 - its type holds None too
    else:
        for node in bias:
            _check_has_parents("bias", node, families, roots)
        biases = {node: _bias(f"bias[{node!r}]", bias.get(node, "learned")) for node in families}
    for node, value in biases.items():
        if value is None and "bias" in families[node]:
            raise ArgumentError(
                f"parents of {node!r} name a node 'bias', the label of the first coefficient; "
                f"rename the node, or give bias={{{node!r}: number}}"
            )
    return biases


def read_roots(roots: object, names: Sequence[str]) -> tuple[RootBlock, ...]:
    """Return the distributions of the parentless nodes, every one of them in one block."""
    if roots is None or (isinstance(roots, str) and roots == "learned"):
        return tuple(RootBlock((name,), None) for name in names)
    if isinstance(roots, str):
        raise ArgumentError(f"roots is {roots!r}; the only word it takes is 'learned'")
    if not isinstance(roots, Mapping):
        return (RootBlock(tuple(names), _joint("roots", roots, tuple(names))),)
    blocks: dict[str, RootBlock] = {}
    for key, value in roots.items():
        block = key if isinstance(key, tuple) else (key,)
        for node in block:
            if node not in names:
                raise ArgumentError(
                    f"roots names {node!r}, which is not a parentless node; those are {listed(names) or 'none'}"
                )
            if node in blocks or block.count(node) > 1:
                raise ArgumentError(f"roots names {node!r} more than once; every node has one distribution")
        label = f"roots[{key!r}]"
        read = (
            RootBlock(block, _joint(label, value, block)) if isinstance(key, tuple) else _single_root(label, key, value)
        )
        blocks.update(dict.fromkeys(block, read))
    every = [blocks.get(name, RootBlock((name,), None)) for name in names]
    return tuple({block.nodes: block for block in every}.values())


def check_thetas(
    thetas: Mapping[str, ArrayLike], labels: Mapping[str, tuple[str, ...]], roots: Sequence[str]
) -> tuple[dict[str, NDArray[np.float64]], int | None]:
    """Return all parameters as (1 or n_batch, n_coefficients), and n_batch, None if nothing is a batch."""
    if not isinstance(thetas, Mapping):
        raise ArgumentTypeError(f"thetas is of type {type(thetas).__name__}; give a mapping of nodes to vectors")
    for node in thetas:
        if node not in labels:
            raise ArgumentError(
                f"thetas names {node!r}, which is not in the network; its nodes are {listed(tuple(labels))}"
            )
        if not labels[node]:
            raise ArgumentError(f"thetas names {node!r}, whose probability is given by roots; leave it out")
    checked: dict[str, NDArray[np.float64]] = {}
    batch: tuple[str, int] | None = None
    for node, wanted in labels.items():
        if not wanted:
            continue
        if node not in thetas:
            raise ArgumentError(f"thetas lacks {node!r}; it needs a number for each of {listed(wanted)}")
        array = _theta(node, thetas[node], wanted, node in roots)
        checked[node] = np.atleast_2d(array)
        if array.ndim == 2:
            if batch is not None and batch[1] != len(array):
                raise ArgumentError(
                    f"thetas has {len(array)} vectors for {node!r} and {batch[1]} for {batch[0]!r}; "
                    f"a batch has as many for every node, or a single vector"
                )
            batch = node, len(array)
    return checked, None if batch is None else batch[1]


def _node(argument: str, name: object) -> str:
    if not isinstance(name, str):
        raise ArgumentTypeError(f"{argument} names the node {name!r}; names of nodes are text")
    if not name:
        raise ArgumentError(f"{argument} names a node ''; names of nodes are text that is not empty")
    return str(name)


def _parent_list(child: object, group: object) -> list[str]:
    if isinstance(group, str) or not isinstance(group, Iterable):
        example = f": [{group!r}]" if isinstance(group, str) else ""
        raise ArgumentTypeError(f"parents[{child!r}] is {group!r}; give a list of names{example}")
    return [_node(f"parents[{child!r}]", parent) for parent in group]


def _edge(edge: object) -> tuple[str, str]:
    if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
        raise ArgumentError(f"parents contains {edge!r}; an edge is a pair (parent, child)")
    return _node("parents", edge[0]), _node("parents", edge[1])


def _check_has_parents(argument: str, node: object, families: Mapping[str, Any], roots: Sequence[str]) -> None:
    if node in roots:
        raise ArgumentError(
            f"{argument} names {node!r}, which has no parents and so no coefficients; its probability is given by roots"
        )
    if node not in families:
        raise ArgumentError(
            f"{argument} names {node!r}, which is not a node of the network; "
            f"those with parents are {listed(tuple(families)) or 'none'}"
        )


def _number(label: str, value: object) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"{label} is {value!r}; it must be a number")
    number = float(value)
    if not np.isfinite(number):
        raise ArgumentError(f"{label} is {number}; it must be finite")
    return number


def _bias(label: str, value: object) -> float | None:
    if isinstance(value, str):
        if value != "learned":
            raise ArgumentError(f"{label} is {value!r}; it must be 'learned' or a number")
        return None
    return _number(label, value)


def _per_node(
    argument: str, value: object, coefficients: Mapping[str, tuple[str, ...]], roots: Sequence[str], default: float
) -> dict[str, NDArray[np.float64]]:
    """One vector a node, from a number or a mapping of nodes to numbers, vectors or {coefficient: number}."""
    if not isinstance(value, Mapping):
        if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str):
            raise ArgumentTypeError(
                f"{argument} is {value!r}; give a number, or a vector for each node: {{node: vector}}"
            )
        number = _number(argument, value)
        return {node: np.full(len(labels), number) for node, labels in coefficients.items()}
    for node in value:
        _check_has_parents(argument, node, coefficients, roots)
    return {
        node: _vector(f"{argument}[{node!r}]", value.get(node, default), labels, default)
        for node, labels in coefficients.items()
    }


def _vector(label: str, value: object, coefficients: tuple[str, ...], default: float) -> NDArray[np.float64]:
    if isinstance(value, Mapping):
        for name in value:
            if name not in coefficients:
                raise ArgumentError(f"{label} names {name!r}; the coefficients are {listed(coefficients)}")
        return np.array([_number(f"{label}[{name!r}]", value.get(name, default)) for name in coefficients])
    if isinstance(value, (int, float, np.integer, np.floating)):
        return np.full(len(coefficients), _number(label, value))
    return _array(label, value, (len(coefficients),), f"a number for each of {listed(coefficients)}")


def _array(label: str, value: object, shape: tuple[int, ...], meaning: str) -> NDArray[np.float64]:
    """Return a fresh array of finite numbers of the shape asked for."""
    array = _floats(label, value)
    if array.shape != shape:
        raise ArgumentError(f"{label} has shape {array.shape}; it must be {shape}, {meaning}")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{label} contains NaN or infinity; every entry must be finite")
    return array


def _floats(label: str, value: Any) -> NDArray[np.float64]:
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{label} is {value!r}; it must be an array of numbers") from None


def _theta(node: str, value: Any, labels: tuple[str, ...], is_root: bool) -> NDArray[np.float64]:
    label, size = f"thetas[{node!r}]", len(labels)
    array = _floats(label, value)
    if array.ndim not in (1, 2) or array.shape[-1] != size:
        raise ArgumentError(
            f"{label} has shape {array.shape}; it must be ({size},) or (n_batch, {size}), "
            f"a number for each of {listed(labels)}"
        )
    if not np.isfinite(array).all():
        raise ArgumentError(f"{label} contains NaN or infinity; every entry must be finite")
    if is_root and array.size and not 0 <= array.min() <= array.max() <= 1:
        wrong = array[(array < 0) | (array > 1)][0]
        raise ArgumentError(f"{label} contains {wrong:g}; P({node} = 1) lies from 0 to 1")
    return array


def _covariance(label: str, value: ArrayLike, coefficients: tuple[str, ...]) -> NDArray[np.float64]:
    size = len(coefficients)
    matrix = _array(label, value, (size, size), f"a row and a column for each of {listed(coefficients)}")
    unequal = np.abs(matrix - matrix.T)
    deviations = np.sqrt(np.abs(np.diag(matrix)))
    uneven = np.argwhere(unequal > 1e-8 * np.outer(deviations, deviations))
    if uneven.size:
        i, j = uneven[0]
        raise ArgumentError(
            f"{label} is not symmetric: [{i}, {j}] is {matrix[i, j]:g} and [{j}, {i}] is {matrix[j, i]:g}; "
            f"a covariance is the same both ways"
        )
    matrix = (matrix + matrix.T) / 2
    if not _is_positive_definite(matrix):
        smallest = np.linalg.eigvalsh(matrix)[0]
        raise ArgumentError(
            f"{label} is not positive definite: its smallest eigenvalue, {smallest:.3g}, is 0 up to rounding or less; "
            f"every combination of coefficients needs a variance above 0"
        )
    return matrix


def _is_positive_definite(matrix: NDArray[np.float64]) -> bool:
    """Judge by the correlations: variances of very different size are lawful, exact dependence is not."""
    variances = np.diag(matrix)
    if (variances <= 0).any():
        return False
    deviations = np.sqrt(variances)
    eigenvalues = np.linalg.eigvalsh(matrix / np.outer(deviations, deviations))
    return bool(eigenvalues[0] > len(matrix) * np.finfo(np.float64).eps * eigenvalues[-1])


def _single_root(label: str, node: str, value: object) -> RootBlock:
    if isinstance(value, str):
        if value != "learned":
            raise ArgumentError(f"{label} is {value!r}; it must be 'learned' or P({node} = 1)")
        return RootBlock((node,), None)
    probability = _number(label, value)
    if not 0 < probability < 1:
        raise ArgumentError(f"{label} is {probability:g}; P({node} = 1) lies strictly between 0 and 1")
    return RootBlock((node,), np.array([1 - probability, probability]))


def _joint(label: str, value: object, nodes: tuple[str, ...]) -> NDArray[np.float64]:
    meaning = f"an axis of length 2 for each of {listed(nodes)}"
    table = _array(label, value, (2,) * len(nodes), meaning)
    if (table < 0).any():
        raise ArgumentError(f"{label} contains {table.min():g}; probabilities are not negative")
    total = float(table.sum())
    if abs(total - 1) > _SUM_TOLERANCE:
        raise ArgumentError(f"{label} sums to {total:.10g}; a joint table sums to 1: divide it by its sum")
    return table / total
