r"""Where an ascent begins: coefficients drawn at random, coefficients given, or another posterior.

A q that is uniform, or drawn row by row, is a saddle where a hidden node tells nothing, so q is made from
coefficients: each family's are drawn from Laplace's approximation for the rows in which it is complete, with standard
deviations of at most 1, so that a family without such rows begins near its prior mean.  Hidden nodes can then be
relabelled: with their states exchanged, the same q stands for other coefficients, and often leads to another optimum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError
from doxa.models.logistic import LogisticNetwork
from doxa.models.logistic_factors import LogisticFactor
from doxa.models.logistic_options import listing
from doxa.parameters.variational.hidden.ascent import AscentFit, logarithms
from doxa.parameters.variational.hidden.cells import product_of_cells
from doxa.parameters.variational.hidden.families import FamilyFit, RootFit
from doxa.parameters.variational.hidden.problem import HiddenProblem
from doxa.parameters.variational.laplace import find_mode
from doxa.sampling.gaussian import GaussianPosterior

__all__ = ["begin_at", "begin_from", "check_coefficients", "draw_coefficients", "hidden_nodes", "relabelled"]

_Floats = NDArray[np.float64]
_LARGEST_SD = 1.0
_SWEEPS = 3  # of xi and q before the coefficients move
_SURE = 1e6  # cases that a given probability of a root counts as, at first


def hidden_nodes(problem: HiddenProblem) -> tuple[int, ...]:
    """Nodes that no row observes, by position."""
    return tuple(np.flatnonzero((problem.codes < 0).all(axis=0)).tolist())


def draw_coefficients(problem: HiddenProblem, rng: np.random.Generator) -> dict[str, _Floats]:
    """Coefficients for every family with missing cells."""
    drawn = {}
    for family, complete in zip(problem.ascent.families, problem.complete, strict=True):
        mode = find_mode(complete)
        root, mean = complete.prior_cholesky @ mode.factor, complete.prior_mean + complete.prior_cholesky @ mode.mean
        step = root @ rng.standard_normal(mean.size)
        drawn[family.node] = mean + step * np.minimum(1.0, _LARGEST_SD / np.sqrt((root**2).sum(axis=1)))
    return drawn


def relabelled(problem: HiddenProblem, coefficients: Mapping[str, _Floats], nodes: Sequence[int]) -> dict[str, _Floats]:
    """The same probabilities with the states of ``nodes`` exchanged (as near as a fixed bias lets them be)."""
    out = {node: vector.copy() for node, vector in coefficients.items()}
    for factor in problem.network.factors:
        if not isinstance(factor, LogisticFactor) or factor.node not in out:
            continue
        vector = out[factor.node]
        *parents, child = factor.scope
        weights = vector[vector.size - len(parents) :]  # a view
        for k, parent in enumerate(parents):
            if parent in nodes:
                if factor.bias is None and factor.low == 0:
                    vector[0] += weights[k]
                weights[k] = -weights[k]
        if child in nodes:
            vector *= -1
    return out


def begin_at(problem: HiddenProblem, coefficients: Mapping[str, ArrayLike], rng: np.random.Generator) -> AscentFit:
    """Begin at coefficients (and probabilities of learned roots); those that are not given are drawn."""
    ascent = problem.ascent
    points = draw_coefficients(problem, rng) | check_coefficients(problem.network, coefficients)
    fits = []
    for family in ascent.families:
        mean = family.coordinates.to_whitened(points[family.node])
        fits.append(FamilyFit(mean, np.zeros((mean.size, mean.size)), np.nan, np.empty(0)))
    q = ascent.flat_q()
    roots = [_sure(points[root.node]) if root.node in points else root.fit(q) for root in ascent.roots]
    for _ in range(_SWEEPS):
        xi = ascent.best_xi(fits, q)
        q = ascent.better_q(fits, roots, xi, q)
    return ascent.fit(xi, q)


def begin_from(
    problem: HiddenProblem,
    other: HiddenProblem,
    gaussians: Mapping[str, GaussianPosterior],
    betas: Mapping[str, tuple[float, float]],
    cells: _Floats,
) -> AscentFit:
    """Begin at Gaussians, Betas and cells found for another problem; with a freer q, never below a mean-field bound."""
    ascent = problem.ascent
    same_rows = np.array_equal(other.codes, problem.codes)
    if not same_rows or _labels(other.network) != _labels(problem.network):
        raise ArgumentError("start is the posterior of another network or table; give one of these, in any form")
    fits = []
    for family in ascent.families:
        found = gaussians[family.node]
        mean, factor = family.coordinates.to_whitened(found.mean), family.coordinates.factor_to_whitened(found.cholesky)
        fits.append(FamilyFit(mean, factor, np.nan, np.empty(0)))
    roots = [RootFit(*betas[root.node], np.nan) for root in ascent.roots]
    products = product_of_cells(cells, problem.components, ascent.layout)
    q = ascent.normalised(logarithms(products))
    xi = ascent.best_xi(fits, q)
    return ascent.fit(xi, ascent.better_q(fits, roots, xi, q))


def _labels(network: LogisticNetwork) -> list[tuple[str, tuple[str, ...]]]:
    return [(node, network.coefficients(node)) for node in network.names]


def _sure(probability: _Floats) -> RootFit:
    ones = float(np.clip(probability[0], 1e-6, 1 - 1e-6))
    return RootFit(_SURE * ones, _SURE * (1 - ones), np.nan)


def check_coefficients(network: LogisticNetwork, coefficients: Mapping[str, ArrayLike]) -> dict[str, _Floats]:
    """Coefficients, and probabilities of learned roots, as vectors; ArgumentError if they are not the network's."""
    checked = {}
    for node, values in coefficients.items():
        if node not in network.parameters:
            raise ArgumentError(
                f"start names {node!r}, which has no parameters in this network; those that have are "
                f"{listing(network.parameters)}"
            )
        vector, labels = np.array(values, dtype=np.float64), network.coefficients(node)
        if vector.shape != (len(labels),) or not np.isfinite(vector).all():
            raise ArgumentError(f"start[{node!r}] is {values!r}; give a finite number for each of {listing(labels)}")
        if node in network.roots and not 0 <= vector[0] <= 1:
            raise ArgumentError(f"start[{node!r}] is {values!r}; P({node} = 1) lies from 0 to 1")
        checked[node] = vector
    return checked
