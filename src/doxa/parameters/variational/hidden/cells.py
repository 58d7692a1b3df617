r"""Probability of every missing cell: q where the bound has it, and a prediction where it does not.

A missing cell without observed descendants is no part of the bound.  It is predicted from its parents, in the order of
the graph: :math:`E\,g(o + \theta^T x)` over the Gaussian and over those parents that are missing too, taken as
independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from doxa.models.logistic_factors import Factor, LogisticFactor, RootFactor
from doxa.models.logistic_rows import distinct_rows
from doxa.parameters.variational.expectations import expected_log_logistic
from doxa.parameters.variational.hidden.blocks import Bits, Component, Layout, all_configurations
from doxa.sampling.gaussian import Gaussian

__all__ = ["block_marginals", "predict_rest", "product_of_cells"]

_Floats = NDArray[np.float64]
_MOST_PARENTS = 10  # missing ones summed over: 1024 terms; the sum of more is near enough to Gaussian


def block_marginals(codes: Bits, components: Sequence[Component], layout: Layout, q: _Floats) -> _Floats:
    """P(cell = 1) for each row and node, shape (n_distinct, n_nodes): observed 0 and 1, NaN where q has no say."""
    cells = np.where(codes < 0, np.nan, codes.astype(np.float64))
    for stage in layout.stages:
        for block in stage.blocks:
            component = components[block.component]
            ones = q[block.place].reshape(block.shape) @ block.bits
            cells[np.ix_(component.rows, np.array(block.nodes))] = ones[component.local]
    return cells


def product_of_cells(cells: _Floats, components: Sequence[Component], layout: Layout) -> _Floats:
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
    cells: _Floats,
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
            cells[unknown, factor.scope[-1]] = _chance_of_one(factor, parents, gaussians[factor.node])


def _root_probability(factor: RootFactor, axis: int, roots: Mapping[str, tuple[float, float]]) -> float:
    if factor.probabilities is None:
        ones, zeros = roots[str(factor.node)]
        return ones / (ones + zeros)
    others = tuple(k for k in range(factor.probabilities.ndim) if k != axis)
    return float(factor.probabilities.sum(axis=others)[1])


def _chance_of_one(factor: LogisticFactor, parents: _Floats, gaussian: Gaussian) -> _Floats:
    out = np.empty(len(parents))
    open_ended = (parents > 0) & (parents < 1)
    patterns, pattern = distinct_rows(open_ended.astype(np.int8))
    for k, mask in enumerate(patterns):
        rows = pattern == k
        out[rows] = _averaged(factor, parents[rows], np.flatnonzero(mask), gaussian)
    return out


def _averaged(factor: LogisticFactor, parents: _Floats, missing: NDArray[np.intp], gaussian: Gaussian) -> _Floats:
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
    chance = expected_log_logistic(-(offset + design @ gaussian.mean), sd).slope
    return np.asarray((weights * chance[index].reshape(weights.shape)).sum(axis=1))
