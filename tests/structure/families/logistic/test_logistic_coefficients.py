"""Coefficients of one family, drawn and averaged, against dense grids; draws that are not exact are found out."""

from __future__ import annotations

import numpy as np
import pytest
from logistic_score_cases import KINDS, design_of, random_codes, softplus

import doxa.structure.families.logistic.coefficients as module
from doxa.structure.exact.dag_sums import PrecisionError
from doxa.structure.families.logistic.coefficients import CoefficientPosterior, log_tables_of
from support.checks import SEED, z_limit

N = 20_000


def stream(number):
    return np.random.default_rng((SEED, 8, number))


def posterior_of(codes, scale=2.0):
    distinct, times = np.unique(codes, axis=0, return_counts=True)
    return CoefficientPosterior(distinct, times, [2] * (codes.shape[1] - 1), scale)


def grid(codes, scale=2.0):
    """Points of a grid that reaches six standard deviations of the prior, and their posterior probabilities.

    Steps are about a posterior standard deviation, of 60 cases, or less: sums over normal curves are exact to 1e-8.
    """
    rows, successes, cases = design_of(codes)
    axis = np.linspace(-6.0, 6.0, {1: 641, 2: 201, 3: 85}[rows.shape[1]]) * scale
    points = np.stack(np.meshgrid(*[axis] * rows.shape[1], indexing="ij"), axis=-1).reshape(-1, rows.shape[1])
    logits = points @ rows.T
    log_p = logits @ successes - softplus(logits) @ cases - 0.5 * ((points / scale) ** 2).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    return points, p / p.sum()


def features(coefficients):
    """What is compared: every coefficient and its square, and the probabilities of all configurations and theirs."""
    n_parents = coefficients.shape[1] - 1
    tables = np.exp(log_tables_of(coefficients, [2] * n_parents)[..., 1])
    return np.hstack([coefficients, coefficients**2, tables, tables**2])


def worst_of(draws, points, p):
    """Largest z-value of the means of the features, and its limit."""
    own, exact = features(draws), p @ features(points)
    errors = own.std(axis=0) / np.sqrt(len(own))
    return np.abs((own.mean(axis=0) - exact) / errors).max(), z_limit(own.shape[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_parents", [0, 1, 2])
def test_draws_have_the_moments_of_the_grid(kind, n_parents):
    codes = random_codes(np.random.default_rng(31), n_parents, 40, kind)
    posterior = posterior_of(codes)
    draws = posterior.draws(N, stream)
    worst, limit = worst_of(draws, *grid(codes))
    assert worst < limit
    assert posterior.excess == 0.0  # no proposal had a weight above the bound: draws are exact
    assert posterior.acceptance > 0.03


def test_draws_have_the_distribution_of_the_grid_far_into_the_tails():
    codes = random_codes(np.random.default_rng(5), 1, 30, "separable")
    draws = posterior_of(codes).draws(4 * N, stream)
    points, p = grid(codes)
    shares, exact = [], []
    for weights in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]):
        along, own = points @ weights, draws @ weights
        order = np.argsort(along)
        below = np.cumsum(p[order])
        for level in (0.002, 0.02, 0.2, 0.5, 0.8, 0.98, 0.998):
            k = int(np.searchsorted(below, level))
            between = 0.5 * (along[order][k] + along[order][np.searchsorted(along[order], along[order][k] + 1e-9)])
            shares.append((own < between).mean())
            exact.append(p[along < between].sum())
    shares, exact = np.array(shares), np.array(exact)
    z = (shares - exact) / np.sqrt(exact * (1 - exact) / len(draws))
    assert np.abs(z).max() < z_limit(z.size)


def test_draws_that_are_not_of_the_posterior_are_found_out(monkeypatch):
    """The twins: the mode in the place of draws, Laplace's normal, and a bound that lets every proposal through."""
    codes = random_codes(np.random.default_rng(31), 2, 40, "rare")
    points, p = grid(codes)
    rng = np.random.default_rng(3)
    mode = points[p.argmax()]
    rows, _, cases = design_of(codes)
    g = 1 / (1 + np.exp(-rows @ mode))
    covariance = np.linalg.inv(np.eye(3) / 4 + (rows * (cases * g * (1 - g))[:, None]).T @ rows)
    careless = posterior_of(codes)
    careless._bound = 1e-9
    with pytest.raises(
        PrecisionError, match=r"draws of 3 coefficients are off by up to 1 in probability; a smaller pr"
    ):
        careless.draws(N, stream)
    monkeypatch.setattr(module, "_WRONG", 2.0)
    twins = {
        "mode": mode + 1e-9 * rng.standard_normal((N, 3)),
        "laplace": rng.multivariate_normal(mode, covariance, N),
        "all proposals": careless.draws(N, stream),
    }
    for name, draws in twins.items():
        worst, limit = worst_of(draws, points, p)
        assert worst > 1.5 * limit, name
    assert careless.excess > 0.9  # and it says so


def test_a_bound_that_is_a_little_low_is_measured(monkeypatch):
    monkeypatch.setattr(module, "_WRONG", 2.0)
    codes = random_codes(np.random.default_rng(31), 2, 40, "rare")
    posterior = posterior_of(codes)
    posterior.draws(1, stream)
    posterior._bound /= 8
    draws = posterior.draws(N, stream)
    assert 0.02 < posterior.excess < 0.5
    tables = np.exp(log_tables_of(draws, [2, 2])[..., 1])
    points, p = grid(codes)
    exact = p @ np.exp(log_tables_of(points, [2, 2])[..., 1])
    noise = z_limit(4) * tables.std(axis=0) / np.sqrt(N)
    assert (np.abs(tables.mean(axis=0) - exact) < posterior.excess + noise).all()  # numbers in [0, 1] move by no more


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_parents", [0, 1, 2])
def test_mean_probabilities_are_those_of_the_grid(kind, n_parents):
    codes = random_codes(np.random.default_rng(9), n_parents, 60, kind)
    posterior = posterior_of(codes)
    means = posterior.probabilities()
    points, p = grid(codes)
    exact = p @ np.exp(log_tables_of(points, [2] * n_parents)[..., 1])
    limit = 4 * posterior.error_of_probabilities + 1e-6
    assert np.abs(np.log(means / exact)).max() <= limit
    assert posterior.error_of_probabilities <= 0.015
    if kind in ("rare", "separable"):
        at_mode = log_tables_of(points[[p.argmax()]], [2] * n_parents)[0, :, 1]
        assert np.abs(at_mode - np.log(exact)).max() > limit  # the twin


def test_small_means_are_ratios_of_evidences(monkeypatch):
    """Where the nodes of the family's own law do not reach: without ratios the error is larger, and known."""
    codes = random_codes(np.random.default_rng(18), 2, 100, "separable")
    points, p = grid(codes)
    exact = p @ np.exp(log_tables_of(points, [2, 2])[..., 1])
    errors = []
    for most in (module._MOST_RATIOS, 0):
        monkeypatch.setattr(module, "_MOST_RATIOS", most)
        posterior = posterior_of(codes)
        off = np.abs(np.log(posterior.probabilities() / exact)).max()
        assert off <= 4 * posterior.error_of_probabilities
        errors.append(posterior.error_of_probabilities)
    assert errors[0] < 0.015 < errors[1]


def test_mean_probabilities_of_many_parents_are_those_of_draws():
    codes = random_codes(np.random.default_rng(2), 6, 400, "prior")
    posterior = posterior_of(codes)
    means, draws = posterior.probabilities(), posterior.draws(N, stream)
    tables = np.exp(log_tables_of(draws, [2] * 6)[..., 1])
    errors = np.hypot(tables.std(axis=0) / np.sqrt(N), means * posterior.error_of_probabilities)
    assert np.abs((tables.mean(axis=0) - means) / errors).max() < z_limit(64)
    assert posterior.excess < 1e-4


def test_a_draw_is_the_same_whatever_is_drawn_beside_it():
    codes = random_codes(np.random.default_rng(2), 3, 50, "rare")
    posterior = posterior_of(codes)
    many = posterior.draws(500, stream)
    assert (posterior_of(codes).draws(40, stream) == many[:40]).all()
    assert (posterior.draws(500, stream) == many).all()
    shuffled = np.random.default_rng(1).permutation(codes)
    assert (posterior_of(shuffled).draws(500, stream) == many).all()
    other = posterior.draws(500, lambda number: np.random.default_rng((7, number)))
    assert not (other == many).any()


def test_parents_of_one_state_have_no_coefficient():
    codes = random_codes(np.random.default_rng(2), 2, 50, "mild")
    wide = np.insert(codes, 2, 0, axis=1)
    distinct, times = np.unique(wide, axis=0, return_counts=True)
    found = CoefficientPosterior(distinct, times, [2, 1, 2], 2.0)
    draws = found.draws(100, stream)
    assert (draws[:, 2] == 0).all()
    assert (draws[:, [0, 1, 3]] == posterior_of(codes).draws(100, stream)).all()
    assert log_tables_of(draws, [2, 1, 2]).shape == (100, 4, 2)
    assert found.probabilities().shape == (4,)


def test_tables_of_coefficients_have_the_last_parent_fastest():
    coefficients = np.array([[0.3, 1.0, -2.0]])
    tables = np.exp(log_tables_of(coefficients, [2, 2]))[0]
    logits = [0.3 + a - 2.0 * b for a in (-1, 1) for b in (-1, 1)]
    assert np.allclose(tables[:, 1], 1 / (1 + np.exp(-np.array(logits))))
    assert np.allclose(tables.sum(axis=1), 1)
    assert np.isfinite(log_tables_of(np.array([[900.0]]), [])).all()


def test_too_few_proposals_are_an_error(monkeypatch):
    monkeypatch.setattr(module, "_MOST_PROPOSALS", 3)
    posterior = posterior_of(random_codes(np.random.default_rng(2), 2, 50, "mild"))
    with pytest.raises(PrecisionError, match=r"of 1000 draws of 3 coefficients found no place in 4 proposals each; a"):
        posterior.draws(1000, stream)


@pytest.mark.slow
@pytest.mark.parametrize("n_parents", [2, 3, 4, 5])
def test_the_excess_is_small_for_tables_of_every_kind(n_parents):
    rng = np.random.default_rng(SEED + 77)
    found = []
    for kind in KINDS:
        for n_rows in (30, 100, 1000):
            posterior = posterior_of(random_codes(rng, n_parents, n_rows, kind))
            posterior.draws(N, stream)
            found.append(posterior.excess)
    assert max(found) < 1e-3
    assert np.median(found) == 0.0
