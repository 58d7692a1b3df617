"""A latent trait model whose parameters are known: posteriors of positions, probabilities of cells, draws of rows.

How the parameters are learned is in `doxa.parameters.variational.latent_trait`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.parameters.variational.expectations import expected_log_logistic
from doxa.parameters.variational.latent_em import Moments, TraitParameters, logit_variances, settle, whitened
from doxa.parameters.variational.latent_quadrature import grid, grid_moments
from doxa.parameters.variational.latent_rows import BinaryRows, Coding, code_rows

__all__ = ["LatentPosterior", "LatentTrait"]

_Floats = NDArray[np.float64]


class LatentPosterior(NamedTuple):
    """Gaussian approximations to the posteriors of the positions of rows."""

    mean: _Floats  # (n_rows, k)
    covariance: _Floats  # (n_rows, k, k); too small where they come from a bound
    log_bound: _Floats  # (n_rows,), at most the log probability of the row's observed cells, nats; by quadrature, equal

    @property
    def sd(self) -> _Floats:
        """Standard deviations of the positions, shape (n_rows, k)."""
        return np.asarray(np.sqrt(np.einsum("tii->ti", self.covariance)))


@dataclass(frozen=True, eq=False, repr=False)
class LatentTrait:
    """A fitted latent trait model: P(column i is 1 | z) = g(biases[i] + loadings[i] @ z), z normal.

    Attributes
    ----------
    names : tuple of str
        Names of the columns.
    loadings : ndarray of float, shape (p, k)
    biases : ndarray of float, shape (p,)
    prior_mean, prior_root : ndarray of float, shapes (k,) and (k, k)
        Mean of the positions z, and the lower triangular L of their covariance L L'.
    log_bound : float
        Lower bound of the log likelihood of the data at these parameters, nats; where there is a ``spread``, of the log
        evidence, that is with loadings and biases integrated out.
    n_iterations : int
        Times that the posteriors of all rows were computed.
    converged : bool
        False if the limit of iterations ended the search.
    trace : ndarray of float, shape (n,)
        What was maximised, after each iteration, nats: the bound plus the log prior of loadings and biases relative to
        its peak; where there is a ``spread``, the bound of the evidence. It never decreases.
    spread : ndarray of float, shape (p, k + 1, k + 1), or None
        Posterior covariance of every column's loadings and bias, whose means are then ``loadings`` and ``biases``;
        everything below averages over it. Too small, as of every such bound. None where they were maximised.
    spacing : float or None
        Of the grid of positions, where the likelihood was maximised by quadrature: ``log_bound`` is then the log
        likelihood itself, and posteriors of rows have their true means and covariances. None: all are bounds.
    """

    names: tuple[str, ...]
    loadings: _Floats
    biases: _Floats
    prior_mean: _Floats
    prior_root: _Floats
    log_bound: float
    n_iterations: int
    converged: bool
    trace: _Floats
    spread: _Floats | None = None
    spacing: float | None = None
    _coding: Coding | None = None  # of the data fitted to

    @property
    def n_components(self) -> int:
        """Dimensions k of the positions."""
        return int(self.loadings.shape[1])

    @property
    def prior_covariance(self) -> _Floats:
        """Covariance of the positions, shape (k, k)."""
        return self.prior_root @ self.prior_root.T

    def posterior(self, data: Any) -> LatentPosterior:
        """Posteriors of the positions of rows; all cells of a row may be missing.

        Parameters
        ----------
        data : Table, frame, path, or array_like, shape (n_rows, p)
            With the columns that the model was fitted to; rows in the order of the source.

        Returns
        -------
        LatentPosterior
        """
        rows, row_index, _ = code_rows(data, None, self._coding or Coding(self.names, None))
        found = self._posterior(rows)
        return LatentPosterior(*(part[row_index] for part in found))

    def probabilities(self, data: Any) -> _Floats:
        """Probability that each cell is 1 given the observed cells of its row, shape (n_rows, p).

        For a missing cell this is its prediction; for an observed one, a reconstruction that has seen it. The logit
        is averaged over its Gaussian by quadrature.
        """
        rows, row_index, _ = code_rows(data, None, self._coding or Coding(self.names, None))
        found = self._moments(rows)
        loadings, biases = whitened(self._parameters)
        variance = logit_variances(self._parameters, found.mean, found.covariance)
        return _averaged_logistic(biases + found.mean @ loadings.T, variance)[row_index]

    def marginals(self) -> _Floats:
        """Probability that each column is 1, shape (p,), when no cell of the row is known."""
        k = self.n_components
        variance = logit_variances(self._parameters, np.zeros((1, k)), np.eye(k)[None])[0]
        return _averaged_logistic(whitened(self._parameters)[1], variance)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int8]:
        """``n`` rows of 0 and 1, shape (n, p); with a ``spread``, each has loadings and biases of its own."""
        n = check_whole("n", n, 0)
        positions = self.prior_mean + rng.standard_normal((n, self.n_components)) @ self.prior_root.T
        logits = self.biases + positions @ self.loadings.T
        if self.spread is not None:
            held = np.zeros((1, self.n_components, self.n_components))
            logits += rng.standard_normal(logits.shape) * np.sqrt(logit_variances(self._parameters, positions, held))
        return (rng.logistic(size=logits.shape) < logits).astype(np.int8)

    def __repr__(self) -> str:
        state = "" if self.converged else ", not converged"
        size = f"n_columns={len(self.names)}, n_components={self.n_components}"
        of = "likelihood" if self.spread is None else "evidence"
        above = "above " if self.spacing is None else ""
        return f"<LatentTrait({size}): log {of} {above}{self.log_bound:.4f}{state}>"

    @property
    def _parameters(self) -> TraitParameters:
        return TraitParameters(self.loadings, self.biases, self.prior_mean, self.prior_root, self.spread)

    def _moments(self, rows: BinaryRows) -> Moments:
        if self.spacing is not None:
            return grid_moments(rows, self._parameters, grid(self.n_components, self.spacing))
        return settle(rows, self._parameters).rows

    def _posterior(self, rows: BinaryRows) -> LatentPosterior:
        root = self.prior_root
        found = self._moments(rows)
        return LatentPosterior(self.prior_mean + found.mean @ root.T, root @ found.covariance @ root.T, found.log_bound)


def _averaged_logistic(mean: _Floats, variance: _Floats) -> _Floats:
    """E g(h) for h normal; any shape."""
    sd = np.sqrt(np.maximum(variance, 0.0))
    return expected_log_logistic(-mean.ravel(), sd.ravel()).slope.reshape(mean.shape)
