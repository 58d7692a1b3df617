"""Binary tables of several kinds, and log evidences by independent means."""

from __future__ import annotations

import numpy as np

from doxa.data import Table
from doxa.models.logistic_regression import make_problem
from doxa.parameters.variational.laplace import laplace_posterior

KINDS = ("mild", "prior", "rare", "separable")


def random_codes(rng, n_parents, n_rows, kind):
    """Child and parents, shape (n_rows, 1 + n_parents): tame, drawn from a wide prior, rare outcomes, separable."""
    theta = {
        "mild": rng.normal(0.0, 0.7, n_parents + 1),
        "prior": rng.normal(0.0, 2.0, n_parents + 1),
        "rare": np.append(-4.0, rng.normal(0.0, 1.0, n_parents)),
        "separable": 8.0 * np.append(0.0, rng.normal(0.0, 1.0, n_parents)),
    }[kind]
    parents = (rng.random((n_rows, n_parents)) < rng.beta(1.0, 2.0, n_parents)).astype(int)
    if kind == "separable" and n_parents > 1:
        parents[:, 1] = np.where(rng.random(n_rows) < 0.97, parents[:, 0], parents[:, 1])
    logit = theta[0] + (2 * parents - 1) @ theta[1:]
    return np.column_stack([rng.random(n_rows) < 1.0 / (1.0 + np.exp(-logit)), parents]).astype(int)


def binary_table(codes):
    names = tuple(f"x{i}" for i in range(codes.shape[1]))
    return Table.from_codes(names, (("n", "y"),) * len(names), codes)


def design_of(codes):
    """Distinct rows of the design with their successes and cases."""
    design = np.column_stack([np.ones(len(codes)), 2.0 * codes[:, 1:] - 1.0])
    rows, index = np.unique(design, axis=0, return_inverse=True)
    index = index.ravel()
    return rows, np.bincount(index, codes[:, 0], len(rows)), np.bincount(index, minlength=len(rows)).astype(float)


def softplus(h):
    return np.maximum(h, 0.0) + np.log1p(np.exp(-np.abs(h)))


def boxed_evidence(codes, scale, n):
    """Log evidence by a dense grid over eight standard deviations of the prior: for few rows."""
    rows, successes, cases = design_of(codes)
    axis = np.linspace(-8.0, 8.0, n)
    points = np.stack(np.meshgrid(*[axis] * rows.shape[1], indexing="ij"), axis=-1).reshape(-1, rows.shape[1])
    logits = scale * points @ rows.T
    log_joint = logits @ successes - softplus(logits) @ cases - 0.5 * (points**2).sum(axis=1)
    return np.log(np.exp(log_joint).sum()) + rows.shape[1] * np.log((axis[1] - axis[0]) / np.sqrt(2 * np.pi))


def dense_evidence(codes, scale, n=61):
    """Log evidence by a dense grid in the frame of the mode's Hessian: far beyond the posterior, if scale is mild."""
    rows, successes, cases = design_of(codes)
    rows = rows * scale
    d = rows.shape[1]
    mode = _mode_of(codes, scale)
    weights = cases * np.exp(-softplus(rows @ mode) - softplus(-rows @ mode))
    values, vectors = np.linalg.eigh(np.eye(d) + (rows * weights[:, None]).T @ rows)
    frame = vectors / np.sqrt(values)

    def log_joint(points):
        logits = points @ rows.T
        return logits @ successes - softplus(logits) @ cases - 0.5 * (points**2).sum(axis=1)

    peak = log_joint(mode[None])[0]
    axes = []
    for axis in range(d):
        ends = []
        for sign in (-1.0, 1.0):
            far = 1.0
            while far * np.linalg.norm(frame[:, axis]) < 9.0:
                if peak - log_joint((mode + sign * far * frame[:, axis])[None])[0] > 60.0:
                    break
                far *= 1.15
            ends.append(1.2 * sign * far)
        axes.append(np.linspace(*ends, n))
    points = mode + np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d) @ frame.T
    total = np.log(np.exp(log_joint(points) - peak).sum()) + peak - 0.5 * np.log(values).sum()
    return total + sum(np.log(a[1] - a[0]) for a in axes) - 0.5 * d * np.log(2 * np.pi)


def drawn_evidence(codes, scale, n_draws, seed):
    """Log evidence and its standard error by independent draws of a Student law, 5 degrees of freedom, at the mode."""
    rows, successes, cases = design_of(codes)
    fit = _laplace(codes, scale)
    d, freedom = rows.shape[1], 5.0
    rng = np.random.default_rng(seed)
    logs = []
    for _ in range(-(-n_draws // 50_000)):
        noise = rng.standard_normal((50_000, d))
        stretch = np.sqrt(freedom / rng.chisquare(freedom, 50_000))[:, None]
        points = fit.mean + 1.1 * (noise * stretch) @ fit.cholesky.T
        logits = points @ rows.T
        log_joint = logits @ successes - softplus(logits) @ cases - 0.5 * (points**2).sum(axis=1) / scale**2
        log_joint -= d * np.log(scale * np.sqrt(2 * np.pi))
        square = ((noise * stretch) ** 2).sum(axis=1)
        log_q = -0.5 * (freedom + d) * np.log1p(square / freedom)
        log_q -= d * np.log(1.1) + np.log(np.diag(fit.cholesky)).sum()
        logs.append(log_joint - log_q - _student_constant(d, freedom))
    logs = np.concatenate(logs)
    weights = np.exp(logs - logs.max())
    return np.log(weights.mean()) + logs.max(), weights.std() / weights.mean() / np.sqrt(len(weights))


def _student_constant(d, freedom):
    from scipy.special import gammaln

    return gammaln(0.5 * (freedom + d)) - gammaln(0.5 * freedom) - 0.5 * d * np.log(np.pi * freedom)


def problem_of(codes, scale):
    design = np.column_stack([np.ones(len(codes)), 2.0 * codes[:, 1:] - 1.0])
    return make_problem(design, 2 * codes[:, 0] - 1, prior_covariance=scale**2)


def _laplace(codes, scale):
    return laplace_posterior(problem_of(codes, scale))


def _mode_of(codes, scale):
    return _laplace(codes, scale).mean / scale
