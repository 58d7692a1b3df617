r"""Where an ascent begins: coefficients drawn at random, coefficients given, or another posterior.

A q that is uniform, or drawn row by row, is a saddle where a hidden node tells nothing, so q is made from
coefficients: each family's are drawn from Laplace's approximation for the rows in which it is complete, with standard
deviations of at most 1, so that a family without such rows begins near its prior mean.  Hidden nodes can then be
relabelled: with their states exchanged, the same q stands for other coefficients, and often leads to another optimum.

Probability of every missing cell: q where the bound has it, and a prediction where it does not.

A missing cell without observed descendants is no part of the bound.  It is predicted from its parents, in the order of
the graph: :math:`E\,g(o + \theta^T x)` over the Gaussian and over those parents that are missing too, taken as
independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Bits, Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.logistic import LogisticNetwork
from doxa.models.logistic_factors import Factor, LogisticFactor, RootFactor
from doxa.models.logistic_rows import all_configurations, distinct_rows
from doxa.parameters.variational.bound import expected_log_logistic
from doxa.parameters.variational.hidden.ascent import AscentFit, logarithms
from doxa.parameters.variational.hidden.blocks import Component, Layout
from doxa.parameters.variational.hidden.families import FamilyFit, RootFit
from doxa.parameters.variational.hidden.problem import HiddenProblem
from doxa.parameters.variational.laplace import find_mode
from doxa.sampling.gaussian import Gaussian, GaussianPosterior
from doxa.text import listed

__all__ = [
    "begin_at",
    "begin_from",
    "block_marginals",
    "check_coefficients",
    "check_rng",
    "draw_coefficients",
    "drawn_starts",
    "hidden_nodes",
    "predict_rest",
    "product_of_cells",
    "relabelled",
    "sure",
]


_MOST_PARENTS = 10  # missing ones summed over: 1024 terms; the sum of more is near enough to Gaussian


def block_marginals(codes: Bits, components: Sequence[Component], layout: Layout, q: Floats) -> Floats:
    """P(cell = 1) for each row and node, shape (n_distinct, n_nodes): observed 0 and 1, NaN where q has no say."""
    cells = np.where(codes < 0, np.nan, codes.astype(np.float64))
    for stage in layout.stages:
        for block in stage.blocks:
            component = components[block.component]
            ones = q[block.place].reshape(block.shape) @ block.bits
            cells[np.ix_(component.rows, np.array(block.nodes))] = ones[component.local]
    return cells


def product_of_cells(cells: Floats, components: Sequence[Component], layout: Layout) -> Floats:
    """The q (n,) in which all cells are independent with these probabilities, shape (n_distinct, n_nodes)."""
    q = np.empty(layout.n)
    for stage in layout.stages:
        for block in stage.blocks:
            component = components[block.component]
            _, first = np.unique(component.local, return_index=True)
            ones = cells[np.ix_(component.rows[first], np.array(block.nodes))][:, None, :]
            q[block.place] = np.where(block.bits == 1, ones, 1 - ones).prod(axis=2).ravel()
    return q


def predict_rest(
    cells: Floats,
    factors: Sequence[Factor],
    gaussians: Mapping[str, Gaussian],
    roots: Mapping[str, tuple[float, float]],
) -> None:
    """Fill in the NaN of ``cells``, parents before children; works in place."""
    for factor in reversed(factors):  # children stand before parents
        unknown = np.flatnonzero(np.isnan(cells[:, factor.children[0]]))
        if not unknown.size:
            continue
        if isinstance(factor, RootFactor):
            for axis, node in enumerate(factor.scope):
                cells[unknown, node] = _root_probability(factor, axis, roots)
        else:
            parents = cells[np.ix_(unknown, np.array(factor.scope[:-1]))]
            cells[unknown, factor.scope[-1]] = _probability_of_one(factor, parents, gaussians[factor.node])


def _root_probability(factor: RootFactor, axis: int, roots: Mapping[str, tuple[float, float]]) -> float:
    if factor.probabilities is None:
        ones, zeros = roots[str(factor.node)]
        return ones / (ones + zeros)
    others = tuple(k for k in range(factor.probabilities.ndim) if k != axis)
    return float(factor.probabilities.sum(axis=others)[1])


def _probability_of_one(factor: LogisticFactor, parents: Floats, gaussian: Gaussian) -> Floats:
    out = np.empty(len(parents))
    open_ended = (parents > 0) & (parents < 1)
    patterns, pattern = distinct_rows(open_ended.astype(np.int8))
    for k, mask in enumerate(patterns):
        rows = pattern == k
        out[rows] = _averaged(factor, parents[rows], np.flatnonzero(mask), gaussian)
    return out


def _averaged(factor: LogisticFactor, parents: Floats, missing: NDArray[np.intp], gaussian: Gaussian) -> Floats:
    if missing.size > _MOST_PARENTS:
        design, offset = factor.design(parents)
        steps = np.zeros((missing.size, parents.shape[1]))
        steps[np.arange(missing.size), missing] = 1.0
        steps = factor.design(steps)[0] - factor.design(np.zeros((1, parents.shape[1])))[0]
        spread = (steps @ gaussian.mean) ** 2 + ((steps @ gaussian.cholesky) ** 2).sum(axis=1)
        ones = parents[:, missing]
        variance = ((design @ gaussian.cholesky) ** 2).sum(axis=1) + (ones * (1 - ones)) @ spread
        return expected_log_logistic(-(offset + design @ gaussian.mean), np.sqrt(variance)).slope
    bits = all_configurations(missing.size)
    weights = np.where(bits == 1, parents[:, None, missing], 1 - parents[:, None, missing]).prod(axis=2)
    filled = np.repeat(parents[:, None, :], len(bits), axis=1)
    filled[:, :, missing] = bits
    distinct, index = distinct_rows(filled.reshape(-1, parents.shape[1]).astype(np.int8))
    design, offset = factor.design(distinct)
    sd = np.sqrt(((design @ gaussian.cholesky) ** 2).sum(axis=1))
    probability = expected_log_logistic(-(offset + design @ gaussian.mean), sd).slope
    return np.asarray((weights * probability[index].reshape(weights.shape)).sum(axis=1))


_LARGEST_SD = 1.0
_SWEEPS = 3  # of xi and q before the coefficients move
_SURE = 1e6  # cases that a given probability of a root counts as, at first


def hidden_nodes(problem: HiddenProblem) -> tuple[int, ...]:
    """Nodes that no row observes, by position."""
    return tuple(np.flatnonzero((problem.codes < 0).all(axis=0)).tolist())


def draw_coefficients(problem: HiddenProblem, rng: np.random.Generator) -> dict[str, Floats]:
    """Coefficients for every family with missing cells."""
    drawn = {}
    for family, complete in zip(problem.ascent.families, problem.complete, strict=True):
        mode = find_mode(complete)
        root, mean = complete.prior_cholesky @ mode.factor, complete.prior_mean + complete.prior_cholesky @ mode.mean
        step = root @ rng.standard_normal(mean.size)
        drawn[family.node] = mean + step * np.minimum(1.0, _LARGEST_SD / np.sqrt((root**2).sum(axis=1)))
    return drawn


def relabelled(problem: HiddenProblem, coefficients: Mapping[str, Floats], nodes: Sequence[int]) -> dict[str, Floats]:
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


def drawn_starts(
    problem: HiddenProblem, seeds: Sequence[np.random.SeedSequence]
) -> Iterator[tuple[dict[str, Floats], np.random.Generator]]:
    """Coefficients to start at, one for each seed, and the generator that has drawn them.

    Where nodes are hidden, every two are the same draw, with the states of some hidden nodes exchanged in the first,
    and of all the others in the second.
    """
    hidden = np.array(hidden_nodes(problem), dtype=np.intp)
    for k in range(len(seeds)):
        rng = np.random.default_rng(seeds[k // 2 * 2 if hidden.size else k])
        drawn = draw_coefficients(problem, rng)
        exchanged = (rng.random(hidden.size) < 0.5) ^ bool(k % 2)
        yield relabelled(problem, drawn, hidden[exchanged].tolist()), rng


def check_rng(rng: np.random.Generator | None) -> np.random.Generator:
    """What draws a start: without a generator the same numbers each time."""
    if rng is None:
        return np.random.default_rng(0)
    if not isinstance(rng, np.random.Generator):
        raise ArgumentTypeError(
            f"rng is {rng!r}; it must be a numpy.random.Generator, as numpy.random.default_rng(1) makes"
        )
    return rng


def begin_at(problem: HiddenProblem, coefficients: Mapping[str, ArrayLike], rng: np.random.Generator) -> AscentFit:
    """Begin at coefficients (and probabilities of learned roots); those that are not given are drawn."""
    ascent = problem.ascent
    points = draw_coefficients(problem, rng) | check_coefficients(problem.network, coefficients)
    fits = []
    for family in ascent.families:
        mean = family.coordinates.to_whitened(points[family.node])
        fits.append(FamilyFit(mean, np.zeros((mean.size, mean.size)), np.nan, np.empty(0)))
    q = ascent.flat_q()
    roots = [sure(points[root.node]) if root.node in points else root.fit(q) for root in ascent.roots]
    for _ in range(_SWEEPS):
        xi = ascent.best_xi(fits, q)
        q = ascent.better_q(fits, roots, xi, q)
    return ascent.fit(xi, q)


def begin_from(
    problem: HiddenProblem,
    other: HiddenProblem,
    gaussians: Mapping[str, GaussianPosterior],
    betas: Mapping[str, tuple[float, float]],
    cells: Floats,
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


def sure(probability: ArrayLike) -> RootFit:
    """A Beta that is sure of a root's probability, shape (1,)."""
    ones = float(np.clip(np.asarray(probability)[0], 1e-6, 1 - 1e-6))
    return RootFit(_SURE * ones, _SURE * (1 - ones), np.nan)


def check_coefficients(network: LogisticNetwork, coefficients: Mapping[str, ArrayLike]) -> dict[str, Floats]:
    """Coefficients, and probabilities of learned roots, as vectors; ArgumentError if they are not the network's."""
    checked = {}
    for node, values in coefficients.items():
        if node not in network.parameters:
            raise ArgumentError(
                f"start names {node!r}, which has no parameters in this network; those that have are "
                f"{listed(network.parameters)}"
            )
        vector, labels = np.array(values, dtype=np.float64), network.coefficients(node)
        if vector.shape != (len(labels),) or not np.isfinite(vector).all():
            raise ArgumentError(f"start[{node!r}] is {values!r}; give a finite number for each of {listed(labels)}")
        if node in network.roots and not 0 <= vector[0] <= 1:
            raise ArgumentError(f"start[{node!r}] is {values!r}; P({node} = 1) lies from 0 to 1")
        checked[node] = vector
    return checked
