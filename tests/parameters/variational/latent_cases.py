"""Random latent trait models with one or two dimensions, their rows, and exact integrals on grids."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.variational.bound import log_logistic
from doxa.parameters.variational.latent_em import TraitParameters
from doxa.parameters.variational.latent_rows import BinaryRows, code_rows


def random_parameters(rng, p, k, *, scale=1.5, standard=False) -> TraitParameters:
    mean, root = np.zeros(k), np.eye(k)
    if not standard:
        mean = rng.normal(0, 0.7, k)
        root = np.tril(rng.normal(0, 0.4, (k, k)), -1) + np.diag(rng.uniform(0.3, 1.5, k))
    return TraitParameters(scale * rng.standard_normal((p, k)), rng.standard_normal(p), mean, root)


def simulate(rng, parameters: TraitParameters, n: int, *, missing=0.0):
    """Codes (n, p), -1 where missing, and the positions (n, k)."""
    loadings, biases, mean, root, _ = parameters
    positions = mean + rng.standard_normal((n, len(mean))) @ root.T
    logits = biases + positions @ loadings.T
    codes = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(int)
    codes[rng.random(codes.shape) < missing] = -1
    return codes, positions


def grid(parameters: TraitParameters, spacing=0.2, reach=8.0):
    """Positions and their log prior masses; the trapezoidal rule errs by 1e-9 for loadings up to 4 in all."""
    k = len(parameters.prior_mean)
    axis = np.arange(-reach, reach + spacing / 2, spacing)
    points = np.stack(np.meshgrid(*[axis] * k, indexing="ij"), axis=-1).reshape(-1, k)
    log_mass = -0.5 * (points**2).sum(axis=1) + k * (np.log(spacing) - 0.5 * np.log(2 * np.pi))
    return parameters.prior_mean + points @ parameters.prior_root.T, log_mass


def log_cells(parameters: TraitParameters, codes, points, cell=None) -> NDArray[np.float64]:
    """Log probability of the observed cells of each row at each point, (rows, points); ``cell(h, t, i)`` replaces g."""
    logits = parameters.biases + points @ parameters.loadings.T  # (points, p)
    total = np.zeros((len(codes), len(points)))
    for t, row in enumerate(codes):
        for i, code in enumerate(row):
            if code >= 0:
                h = (2 * code - 1) * logits[:, i]
                total[t] += log_logistic(h) if cell is None else cell(h, t, i)
    return total


def integrate(parameters: TraitParameters, codes, cell=None):
    """Log integral of each row, (rows,), and the mean and covariance of its position."""
    points, log_mass = grid(parameters)
    log_p = log_cells(parameters, codes, points, cell) + log_mass
    peak = log_p.max(axis=1, keepdims=True)
    p = np.exp(log_p - peak)
    total = p.sum(axis=1)
    mean = p @ points / total[:, None]
    second = np.einsum("tg,gi,gj->tij", p, points, points) / total[:, None, None]
    return np.log(total) + peak[:, 0], mean, second - mean[:, :, None] * mean[:, None, :]


def rows_of(codes):
    """As the equations use them, in the order given."""
    rows, index, _ = code_rows(codes)
    return BinaryRows(rows.half[index], rows.seen[index], np.ones(len(index)))
