r"""Coefficients of a graph's families: drawn from their posterior given a complete table, and weighed there.

Numbers have a regression in each configuration of their parents that are categories, categories a distribution in each
configuration of their parents.  The configurations are numbered, the first parent changing slowest.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._jit import hot, lowest_bit
from doxa.arrays import Floats, Ints, Words
from doxa.structure.families.gaussian.box import add_up, factorise, group_rows
from doxa.structure.families.kind import Data

__all__ = [
    "LOG_2PI",
    "MOST_CONFIGURATIONS",
    "Coefficients",
    "Rows",
    "copy_family",
    "draw_family",
    "find_residuals",
    "label_rows",
    "log_frozen",
    "log_states",
    "n_configurations",
    "no_coefficients",
]

LOG_2PI = math.log(2.0 * math.pi)
MOST_CONFIGURATIONS = 64  # of the parents of a node that are categories: each has coefficients of its own


@by_address
class Rows(NamedTuple):
    """A complete table, and work space of `draw_family`."""

    data: Data
    gaussian: Any  # `GaussianWork` of its numbers
    scratch: Any  # `CountingScratch`
    residuals: Floats  # (n_rows,)


@by_address
class Coefficients(NamedTuple):
    """Of the families of a graph, in each configuration of the parents that are categories."""

    n_labels: Ints  # (n_nodes,): configurations
    label: Ints  # (n_nodes, n_rows): that of each row of the completion
    frozen_label: Ints  # (n_nodes, n_rows of the frozen table): likewise
    n_above: Ints  # (n_nodes,): parents that are categories
    above: Ints  # (n_nodes, n_nodes)
    n_parents: Ints  # (n_nodes,): parents that are numbers
    parents: Ints  # (n_nodes, n_nodes)
    slopes: Floats  # (n_nodes, most labels, n_nodes): on these parents
    intercepts: Floats  # (n_nodes, most labels)
    variances: Floats  # (n_nodes, most labels): of the residuals
    log_shares: Floats  # (n_nodes, most labels, most states): log probabilities of the states of a category


class Prior(NamedTuple):
    """Of the coefficients."""

    mean_weight: float  # alpha_mu
    freedom: float  # a, of the rule of the regressions
    scale: float  # t
    log_weight: float  # of the BDeu prior of a family of categories


def no_coefficients(n: int, n_rows: int, n_frozen: int, most: int, n_states: int) -> Coefficients:
    """Space for those of any graph with at most so many configurations, of categories of at most so many states."""
    counted, nodes = np.zeros((3, n), dtype=np.int64), np.zeros((2, n, n), dtype=np.int64)
    label, frozen_label = np.zeros((n, n_rows), dtype=np.int64), np.zeros((n, n_frozen), dtype=np.int64)
    return Coefficients(
        counted[0], label, frozen_label, counted[1], nodes[0], counted[2], nodes[1],
        np.zeros((n, most, n)), np.zeros((n, most)), np.ones((n, most)), np.zeros((n, most, n_states)),
    )  # fmt: skip


@hot
def n_configurations(parents: Words, is_number: Ints, n_states: Ints) -> int:
    """Of the parents that are categories."""
    found = 1
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if is_number[parent] == 0 and found <= MOST_CONFIGURATIONS:
                found *= n_states[parent]
    return found


@hot
def label_rows(node: int, parents: Words, target: Coefficients, today: Data, frozen: Rows) -> None:
    """Note a family's parents, and number the rows of both tables by the configuration of those that are categories."""
    n_above, n_parents, n_labels = 0, 0, 1
    target.label[node] = 0
    target.frozen_label[node] = 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if frozen.gaussian.is_number[parent] != 0:
                target.parents[node, n_parents] = parent
                n_parents += 1
                continue
            target.above[node, n_above] = parent
            n_above += 1
            r = today[2][parent]
            n_labels *= r
            for row in range(target.label.shape[1]):
                target.label[node, row] = target.label[node, row] * r + today[0][parent, row]
            for row in range(target.frozen_label.shape[1]):
                target.frozen_label[node, row] = target.frozen_label[node, row] * r + frozen.data[0][parent, row]
    target.n_above[node], target.n_parents[node], target.n_labels[node] = n_above, n_parents, n_labels


@hot
def copy_family(node: int, source: Coefficients, target: Coefficients) -> None:
    """Copy what belongs to a node."""
    target.n_labels[node] = source.n_labels[node]
    target.n_above[node], target.n_parents[node] = source.n_above[node], source.n_parents[node]
    for row in range(source.label.shape[1]):
        target.label[node, row] = source.label[node, row]
    for row in range(source.frozen_label.shape[1]):
        target.frozen_label[node, row] = source.frozen_label[node, row]
    for k in range(source.above.shape[0]):
        target.above[node, k], target.parents[node, k] = source.above[node, k], source.parents[node, k]
    for label in range(source.n_labels[node]):
        for k in range(source.n_parents[node]):
            target.slopes[node, label, k] = source.slopes[node, label, k]
        for state in range(source.log_shares.shape[2]):
            target.log_shares[node, label, state] = source.log_shares[node, label, state]
        target.intercepts[node, label] = source.intercepts[node, label]
        target.variances[node, label] = source.variances[node, label]


@hot
def draw_family(
    node: int, parents: Words, target: Coefficients, labels: Ints, table: Rows, prior: Prior, rng: np.random.Generator
) -> None:
    r"""Draw the coefficients of a family, which `label_rows` has noted, from their posterior given a complete table.

    ``labels`` are those of its rows.  In each configuration :math:`\sigma^2 \sim \mathrm{InvGamma}((N + a + p + 1) / 2,
    s / 2)`, slopes from :math:`N(R_{PP}^{-1} R_{Pi}, \sigma^2 R_{PP}^{-1})`, and the intercept about its mean shrunk by
    :math:`N / (N + \alpha_\mu)`; R and s as in `doxa.structure.families.gaussian.box`.  The shares of a category's
    states have a Dirichlet distribution.  Where no row is, these are the prior: another table may have some there.
    """
    gaussian, p = table.gaussian, target.n_parents[node]
    if gaussian.is_number[node] == 0:
        _draw_shares(node, target, labels[node], table.data, prior.log_weight, rng)
        return
    for k in range(p):
        gaussian.members[k] = target.parents[node, k]
    gaussian.members[p] = node
    group_rows(parents, table.data, table.scratch, gaussian)
    for label in range(target.n_labels[node]):
        _draw_regression(node, label, p, target, table, prior, rng)


@hot
def _draw_shares(
    node: int, target: Coefficients, labels: Ints, data: Data, log_weight: float, rng: np.random.Generator
) -> None:
    r = data[2][node]
    shares, alpha = target.log_shares[node], math.exp(log_weight) / (r * target.n_labels[node])
    for label in range(target.n_labels[node]):
        for state in range(r):
            shares[label, state] = alpha
    for row in range(labels.size):
        shares[labels[row], data[0][node, row]] += data[1][row]
    for label in range(target.n_labels[node]):
        most, total = -np.inf, 0.0
        for state in range(r):
            shares[label, state] = _log_gamma_draw(shares[label, state], rng)
            most = max(most, shares[label, state])
        for state in range(r):
            total += math.exp(shares[label, state] - most)
        for state in range(r):
            shares[label, state] -= most + math.log(total)


@hot
def _log_gamma_draw(shape: float, rng: np.random.Generator) -> float:
    """The logarithm of a gamma variate, which itself may be too small for a number."""
    log_power = 0.0
    if shape < 1.0:
        log_power = math.log(1.0 - rng.random()) / shape
        shape += 1.0
    return math.log(rng.standard_gamma(shape)) + log_power


@hot
def _draw_regression(
    node: int, label: int, p: int, target: Coefficients, table: Rows, prior: Prior, rng: np.random.Generator
) -> None:
    (mean_weight, freedom, scale, _), gaussian = prior, table.gaussian
    matrix, slopes = gaussian.matrix, target.slopes[node, label]
    n_cases = add_up(gaussian.first[label], gaussian.first[label + 1], p + 1, table.data[1], gaussian)
    shrunk = n_cases * mean_weight / (n_cases + mean_weight)
    for i in range(p + 1):
        for j in range(i + 1):
            matrix[i, j] += shrunk * gaussian.mean[i] * gaussian.mean[j]
        matrix[i, i] += scale
    factorise(matrix, p + 1, scale)
    variance = 0.5 * matrix[p, p] ** 2 / rng.standard_gamma(0.5 * (n_cases + freedom + p + 1.0))
    deviation, centre = math.sqrt(variance), gaussian.mean[p]
    for i in range(p - 1, -1, -1):
        slope = matrix[p, i] + deviation * rng.standard_normal()
        for k in range(i + 1, p):
            slope -= matrix[k, i] * slopes[k]
        slopes[i] = slope / matrix[i, i]
        centre -= slopes[i] * gaussian.mean[i]
    weight = n_cases + mean_weight
    target.intercepts[node, label] = centre * n_cases / weight + deviation * rng.standard_normal() / math.sqrt(weight)
    target.variances[node, label] = variance


@hot
def log_frozen(node: int, coefficients: Coefficients, table: Rows) -> float:
    """Log likelihood (nats) of one family's coefficients in the complete table, expected where that is."""
    gaussian, weights = table.gaussian, table.data[1]
    if gaussian.is_number[node] == 0:
        return log_states(node, coefficients, coefficients.frozen_label, table.data[0], weights)
    total = find_residuals(node, coefficients, coefficients.frozen_label, (gaussian.values, weights), table.residuals)
    first = weights.size - gaussian.spread.shape[0]
    p, parents = coefficients.n_parents[node], coefficients.parents[node]
    for row in range(first, weights.size):
        label = coefficients.frozen_label[node, row]
        slopes, spread = coefficients.slopes[node, label], gaussian.spread[row - first]
        square = spread[node, node]
        for i in range(p):
            square -= 2.0 * slopes[i] * spread[node, parents[i]]
            for j in range(p):
                square += slopes[i] * slopes[j] * spread[parents[i], parents[j]]
        total -= 0.5 * weights[row] * square / coefficients.variances[node, label]
    return total


@hot
def find_residuals(
    node: int, coefficients: Coefficients, labels: Ints, rows: tuple[Floats, Floats], residuals: Floats
) -> float:
    """The same of a number in rows as they stand, values and cases; their residuals."""
    values, weights = rows
    slopes, parents, n_rows = coefficients.slopes[node], coefficients.parents[node], weights.size
    intercepts, variances, total = coefficients.intercepts[node], coefficients.variances[node], 0.0
    if coefficients.n_labels[node] == 1:
        for row in range(n_rows):
            residuals[row] = values[node, row] - intercepts[0]
        for k in range(coefficients.n_parents[node]):
            slope, parent = slopes[0, k], parents[k]
            for row in range(n_rows):
                residuals[row] -= slope * values[parent, row]
        constant = math.log(variances[0]) + LOG_2PI
        for row in range(n_rows):
            total += weights[row] * (residuals[row] ** 2 / variances[0] + constant)
        return -0.5 * total
    for row in range(n_rows):
        label = labels[node, row]
        residuals[row] = values[node, row] - intercepts[label]
        for k in range(coefficients.n_parents[node]):
            residuals[row] -= slopes[label, k] * values[parents[k], row]
        total += weights[row] * (residuals[row] ** 2 / variances[label] + math.log(variances[label]) + LOG_2PI)
    return -0.5 * total


@hot
def log_states(
    node: int, coefficients: Coefficients, labels: Ints, states: NDArray[np.int16], weights: Floats
) -> float:
    """Log probability (nats) of a category in rows of a table, given its parents."""
    total = 0.0
    for row in range(weights.size):
        total += weights[row] * coefficients.log_shares[node, labels[node, row], states[node, row]]
    return total
