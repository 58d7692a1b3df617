"""The regressions that are measured, and how effective draws are counted."""

from __future__ import annotations

import os
from statistics import median

import numpy as np

from doxa.estimates.effective import bulk_ess
from doxa.estimates.gelman_rubin import rank_r_hat
from doxa.models.logistic_regression import make_problem

SEEDS = int(os.environ.get("BENCH_SEEDS", "5"))


def paper_problem(d, seed, n_rows=1000):
    """De Freitas et al. 2001, section 5.1: parents -1 or +1, coefficients uniform, bias 0.5, prior N(0, 100 I)."""
    rng = np.random.default_rng([seed, d])
    theta, design = 1 - rng.random(d), rng.choice([-1.0, 1.0], (n_rows, d))
    sign = np.where(rng.random(n_rows) < 1 / (1 + np.exp(-(0.5 + design @ theta))), 1, -1)
    return make_problem(design, sign, offset=0.5, prior_covariance=100.0, collapse=False)


def cancer_problem():
    """Wisconsin breast cancer (569 x 30) as scikit-learn ships it, standardised, learned bias, prior N(0, 25 I)."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    x = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    design = np.column_stack([np.ones(len(x)), x])
    return make_problem(design, 2 * data.target - 1, prior_covariance=25.0, collapse=False)


def separable_problem(d=200, n_rows=1000, seed=0):
    """As the paper's, with more parents than the rows tell apart: linearly separable."""
    return paper_problem(d, seed, n_rows)


def least_ess(draws):
    """Bulk effective draws of the slowest coefficient of draws (chain, draw, d)."""
    return min(bulk_ess(draws[..., j]) for j in range(draws.shape[-1]))


def worst_r_hat(draws):
    return float(rank_r_hat(draws).max())


def spread(values, form=".3g"):
    """Median, and the least and largest."""
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})"
