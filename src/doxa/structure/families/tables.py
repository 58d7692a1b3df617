r"""`DirichletFamily`: the posterior of a family's table of probabilities.

A table with q configurations of the parents and r states of the child has in every configuration a distribution
:math:`\theta_j \sim \mathrm{Dirichlet}(a, \dots, a)`; BDeu has :math:`a = \alpha / (qr)`, K2 its prior count.  Given
complete cases they are independent Dirichlet again, the cases added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.structure.families.kind import FamilyKind, FamilyParameters, Stream

__all__ = ["DirichletFamily", "cell_counts", "cell_index", "log_dirichlet"]


class DirichletFamily(FamilyParameters):
    """The posterior of one family's table; see the module's notes.

    Parameters
    ----------
    kind : FamilyKind
        With Dirichlet priors.
    counts : ndarray of float, shape (1 or n_completions, n_configurations, n_states)
        Cases of every cell, in each completion of the table.
    stream : callable
        A fresh generator for purpose 0 and number 0.
    """

    def __init__(self, kind: FamilyKind, counts: Floats, stream: Stream) -> None:
        self.weights = counts + kind.cell_prior(*counts.shape[1:])
        self._stream = stream

    def log_tables(self, n: int) -> Floats:
        """As `FamilyParameters.log_tables`; with several completions, a draw for each."""
        return log_dirichlet(np.broadcast_to(self.weights, (n, *self.weights.shape[1:])), self._stream(0, 0))

    def log_density(self, log_tables: Floats) -> Floats:
        """Log density (nats) of drawn tables, (n, n_configurations, n_states), given the one completion; shape (n,)."""
        from scipy.special import gammaln

        weights = self.weights[0]
        constant = gammaln(weights.sum(axis=1)).sum() - gammaln(weights).sum()
        return np.asarray(constant + ((weights - 1.0) * log_tables).sum(axis=(1, 2)))

    def log_mean_tables(self) -> Floats:
        """Log of the posterior means given each completion."""
        means: Floats = np.log(self.weights) - np.log(self.weights.sum(axis=-1, keepdims=True))
        return means

    def log_means(self) -> Floats:
        """Log of the posterior means over completions."""
        means: Floats = np.log(np.exp(self.log_mean_tables()).mean(axis=0))
        return means


def log_dirichlet(alpha: Floats, rng: np.random.Generator) -> Floats:
    r"""Logarithms of Dirichlet draws, one for each vector along the last axis.

    Parameters
    ----------
    alpha : ndarray of float, shape (..., n_states)
        Positive.
    rng : numpy.random.Generator
        Advanced.

    Returns
    -------
    ndarray of float, shape (..., n_states)
        Nats; finite however small ``alpha`` is.

    Notes
    -----
    With G ~ Gamma(a + 1) and U uniform, :math:`G U^{1/a}` ~ Gamma(a) (Marsaglia & Tsang 2000).  A small ``a`` makes
    it underflow, and a distribution of nothing but zeros be 0/0; its logarithm does not.

    Examples
    --------
    >>> draw = log_dirichlet(np.full((2, 3), 1e-5), np.random.default_rng(1))
    >>> np.exp(draw).sum(axis=1).round(12).tolist(), bool(np.isfinite(draw).all())
    ([1.0, 1.0], True)
    """
    log_gamma = np.log(rng.standard_gamma(alpha + 1.0))
    log_gamma += np.log1p(-rng.random(alpha.shape)) / alpha
    log_gamma -= log_gamma.max(axis=-1, keepdims=True)
    log_gamma -= np.log(np.exp(log_gamma).sum(axis=-1, keepdims=True))
    return log_gamma


def cell_index(codes: NDArray[np.integer] | list[NDArray[np.int64]], sizes: list[int]) -> NDArray[np.int64]:
    """Place of each row's cell in a family's table, from the codes of its columns; the last varies fastest.

    Examples
    --------
    >>> cell_index(np.array([[0, 1, 1], [2, 0, 1]]), [2, 3]).tolist()
    [2, 3, 4]
    """
    index = np.zeros(np.shape(codes[0]), dtype=np.int64)
    for column, size in zip(codes, sizes, strict=True):
        index = index * size + column
    return index


def cell_counts(codes: NDArray[Any], cases: NDArray[Any], sizes: Sequence[int]) -> Floats:
    """Cases of every cell of a family's table, shape (n_configurations, n_states); the last parent varies fastest.

    ``codes`` (n_rows, 1 + n_parents) are states of the node, first, and of its parents, ``sizes`` their numbers.
    """
    child_last = [*sizes[1:], sizes[0]]
    index = cell_index(np.roll(codes, -1, axis=1).T.astype(np.int64), child_last)
    counted = np.bincount(index, weights=cases, minlength=math.prod(child_last))
    return counted.astype(np.float64).reshape(-1, sizes[0])
