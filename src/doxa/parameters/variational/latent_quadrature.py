r"""Maximum likelihood of the latent trait model in one or two dimensions, by quadrature over the positions.

The positions u are put on a grid, where the likelihood of a row is a sum.  EM for that sum is exact (Bock & Aitkin
1981): the responsibilities of the grid points for a row, then a logistic regression of each column on the points.  Of
that the step of Jaakkola & Jordan (2000, appendix C) is taken, which cannot lower the likelihood, so none of EM does.

The trapezoidal rule with spacing h errs by about :math:`2 \exp(-2 \pi^2 s^2 / h^2)` of the likelihood of a row, s being
the deviation of its position, and by :math:`\exp(-2 \pi^2 / (h |w|))` for the poles of a logistic function with
loadings w.  Grids are refined until h is at most the smallest s and 1.25 / the largest :math:`|w|`: 5e-9 and 1e-7.

A latent trait model whose parameters are known: posteriors of positions, probabilities of cells, draws of rows.

How the parameters are learned is in `doxa.parameters.variational.latent_trait`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.parameters.variational.bound import expected_log_logistic, lambda_of, log_logistic
from doxa.parameters.variational.latent_em import (
    EMResult,
    Learned,
    Moments,
    TraitParameters,
    TraitState,
    ascend,
    cost,
    logit_variances,
    settle,
    whitened,
)
from doxa.parameters.variational.latent_rows import BinaryRows, Coding, code_rows

__all__ = ["Grid", "LatentPosterior", "LatentTrait", "ascend_on_grids", "grid", "grid_moments"]


_REACH = 7.0  # deviations; 3e-12 of the prior lies beyond
_CELLS = 2**21  # rows times points worked on at once
_COARSEST = 0.4
_FINEST = {1: 0.01, 2: 0.08}  # 1,400 and 24,000 points
_INNER = 3  # steps of the regressions in one of EM: they cost little beside the responsibilities


class Grid(NamedTuple):
    """Points in whitened positions, and their shares of the prior."""

    points: Floats  # (points, k)
    log_mass: Floats  # (points,)


class _Expected(NamedTuple):
    """What a pass over the rows leaves."""

    rows: Moments
    ones: Floats  # (p, points), expected cases with a 1 at each point
    zeros: Floats  # (p, points)


def grid(k: int, spacing: float) -> Grid:
    """A square grid within seven deviations.

    Examples
    --------
    >>> points, log_mass = grid(2, 0.5)
    >>> points.shape, float(np.exp(log_mass).sum().round(12))
    ((613, 2), 1.0)
    """
    half = spacing * np.arange(1, int(_REACH / spacing) + 1)
    axis = np.concatenate([-half[::-1], [0.0], half])
    points = np.stack(np.meshgrid(*[axis] * k, indexing="ij"), axis=-1).reshape(-1, k)
    points = points[(points**2).sum(axis=1) <= _REACH**2 * (1 + 1e-12)]
    log_mass = -0.5 * (points**2).sum(axis=1)
    return Grid(points, log_mass - np.log(np.exp(log_mass).sum()))


def grid_moments(rows: BinaryRows, parameters: TraitParameters, on: Grid) -> Moments:
    """Posterior moments and log probability of each row; ``next_xi`` is empty."""
    return _expected(rows, parameters, on).rows


def ascend_on_grids(
    rows: BinaryRows, parameters: TraitParameters, learn: Learned, ridge: float, **search: Any
) -> tuple[EMResult, float | None]:
    """EM from ``parameters``, whose positions are standard normal, and the spacing of the grid, or None.

    The grid is made finer, and EM goes on, until it is fine enough; None where that takes more points than is
    reasonable.  ``search`` is that of `ascend`.
    """
    spacing, n_iterations = _COARSEST, 0
    while True:
        found = _run_on_grid(rows, parameters, grid(parameters.loadings.shape[1], spacing), learn, ridge, **search)
        n_iterations += found.n_iterations
        enough = _enough(found.state)
        if spacing <= enough:
            return found._replace(n_iterations=n_iterations), spacing
        spacing = min(0.9 * enough, 0.7 * spacing)
        if spacing < _FINEST[parameters.loadings.shape[1]]:
            return found, None
        parameters = found.state.parameters


def _enough(state: TraitState) -> float:
    """The largest spacing that is fine enough."""
    sharpest = np.sqrt(max(0.0, np.linalg.eigvalsh(state.rows.covariance).min()))
    return float(min(sharpest, 1.25 / np.linalg.norm(state.parameters.loadings, axis=1).max(initial=1e-300)))


def _run_on_grid(
    rows: BinaryRows, parameters: TraitParameters, on: Grid, learn: Learned, ridge: float, **search: Any
) -> EMResult:
    last: list[_Expected] = []  # of the last two states asked for; the one that is kept is among them

    def at(new: TraitParameters, _: TraitState | None) -> TraitState:
        found = _expected(rows, new, on)
        last[:] = [found, *last[:2]]
        objective = float(rows.counts @ found.rows.log_bound) - cost(new, ridge)
        return TraitState(new, found.rows.next_xi, found.rows, objective)

    def improved(state: TraitState) -> TraitParameters:
        found = next(one for one in last if one.rows is state.rows)
        return _improved(found, state.parameters, on, learn, ridge)

    return ascend(at(parameters, None), improved, at, at, learn, **search)


def _expected(rows: BinaryRows, parameters: TraitParameters, on: Grid) -> _Expected:
    loadings, biases = whitened(parameters)
    logits = loadings @ on.points.T + biases[:, None]
    log_one, log_zero = log_logistic(logits), log_logistic(-logits)
    n, k = len(rows.half), loadings.shape[1]
    products = (on.points[:, :, None] * on.points[:, None, :]).reshape(-1, k * k)
    mean, second, log_p = np.empty((n, k)), np.empty((n, k * k)), np.empty(n)
    ones, zeros = np.zeros_like(logits), np.zeros_like(logits)
    block = max(1, _CELLS // len(on.points))
    for begin in range(0, n, block):
        part = slice(begin, begin + block)
        one, zero = rows.half[part] + rows.seen[part] / 2, rows.seen[part] / 2 - rows.half[part]
        log_joint = one @ log_one + zero @ log_zero + on.log_mass
        peak = log_joint.max(axis=1, keepdims=True)
        share = np.exp(log_joint - peak)
        total = share.sum(axis=1, keepdims=True)
        share /= total
        log_p[part] = (np.log(total) + peak)[:, 0]
        mean[part], second[part] = share @ on.points, share @ products
        counts = rows.counts[part, None]
        ones += (one * counts).T @ share
        zeros += (zero * counts).T @ share
    covariance = second.reshape(n, k, k) - mean[:, :, None] * mean[:, None, :]
    return _Expected(Moments(mean, covariance, log_p, np.empty((n, 0))), ones, zeros)


def _improved(found: _Expected, parameters: TraitParameters, on: Grid, learn: Learned, ridge: float) -> TraitParameters:
    """A logistic regression of each column on the points, some steps towards its maximum (eq. 68 with a prior)."""
    design = np.concatenate([on.points, np.ones((len(on.points), 1))], axis=1)[:, : on.points.shape[1] + learn.biases]
    d = design.shape[1]
    products = (design[:, :, None] * design[:, None, :]).reshape(-1, d * d)
    theta = np.concatenate([parameters.loadings, parameters.biases[:, None]], axis=1)[:, :d]
    b = (found.ones - found.zeros) @ design / 2
    for _ in range(_INNER):
        weights = 2 * (found.ones + found.zeros) * lambda_of(theta @ design.T)
        a = (weights @ products).reshape(-1, d, d) + ridge * np.eye(d)
        theta = np.linalg.solve(a, b[:, :, None])[:, :, 0]
    k = on.points.shape[1]
    biases = theta[:, k].copy() if learn.biases else parameters.biases
    return parameters._replace(loadings=theta[:, :k].copy(), biases=biases)


class LatentPosterior(NamedTuple):
    """Gaussian approximations to the posteriors of the positions of rows."""

    mean: Floats  # (n_rows, k)
    covariance: Floats  # (n_rows, k, k); too small where they come from a bound
    log_bound: Floats  # (n_rows,), at most the log probability of the row's observed cells, nats; by quadrature, equal

    @property
    def sd(self) -> Floats:
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
    loadings: Floats
    biases: Floats
    prior_mean: Floats
    prior_root: Floats
    log_bound: float
    n_iterations: int
    converged: bool
    trace: Floats
    spread: Floats | None = None
    spacing: float | None = None
    _coding: Coding | None = None  # of the data fitted to

    @property
    def n_components(self) -> int:
        """Dimensions k of the positions."""
        return int(self.loadings.shape[1])

    @property
    def prior_covariance(self) -> Floats:
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
        found, root = self._moments(rows), self.prior_root
        mean, covariance = self.prior_mean + found.mean @ root.T, root @ found.covariance @ root.T
        return LatentPosterior(mean[row_index], covariance[row_index], found.log_bound[row_index])

    def probabilities(self, data: Any) -> Floats:
        """Probability that each cell is 1 given the observed cells of its row, shape (n_rows, p).

        For a missing cell this is its prediction; for an observed one, a reconstruction that has seen it. The logit
        is averaged over its Gaussian by quadrature.
        """
        rows, row_index, _ = code_rows(data, None, self._coding or Coding(self.names, None))
        found = self._moments(rows)
        loadings, biases = whitened(self._parameters)
        variance = logit_variances(self._parameters, found.mean, found.covariance)
        return _averaged_logistic(biases + found.mean @ loadings.T, variance)[row_index]

    def marginals(self) -> Floats:
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


def _averaged_logistic(mean: Floats, variance: Floats) -> Floats:
    """E g(h) for h normal; any shape."""
    sd = np.sqrt(np.maximum(variance, 0.0))
    return expected_log_logistic(-mean.ravel(), sd.ravel()).slope.reshape(mean.shape)
