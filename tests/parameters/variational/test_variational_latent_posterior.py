"""Posteriors of the loadings of latent traits: against the evidence and the posterior by importance sampling."""

import numpy as np
import pytest
from latent_cases import random_parameters, simulate
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import multivariate_t

from doxa.errors import ArgumentError
from doxa.parameters.variational import latent_em
from doxa.parameters.variational.bound import log_logistic
from doxa.parameters.variational.latent_em import LOADINGS
from doxa.parameters.variational.latent_trait import fit_latent_trait
from support.checks import SEED, z_limit


def log_likelihood(codes, thetas):
    """Of one trait, integrated over the positions; ``thetas`` is (n, p, 2), loadings and biases; shape (n,)."""
    u = np.linspace(-6, 6, 41)
    mass = np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi) * (u[1] - u[0])
    logits = thetas[:, :, :1] * u + thetas[:, :, 1:]
    log_p = [np.ascontiguousarray(np.moveaxis(log_logistic(z), 1, 0)) for z in (-logits, logits)]
    total = np.zeros(len(thetas))
    for row, count in zip(*np.unique(codes, axis=0, return_counts=True), strict=True):
        cells = sum(log_p[code][i] for i, code in enumerate(row) if code >= 0)
        total += count * np.log(np.exp(cells) @ mass)
    return total


class Weighted:
    """Draws of (loadings, biases) from a Student proposal that is refitted once, with their importance weights."""

    def __init__(self, codes, prior_scale, mean, covariance, rng, n=6000):
        d = len(mean)
        for stretch in (2.0, 1.3):
            proposal = multivariate_t(mean, stretch**2 * covariance, df=5, seed=rng)
            draws = proposal.rvs(n)
            log_prior = -0.5 * (draws**2).sum(axis=1) / prior_scale**2 - d * np.log(prior_scale * np.sqrt(2 * np.pi))
            log_weight = log_prior + log_likelihood(codes, draws.reshape(n, -1, 2)) - proposal.logpdf(draws)
            weight = np.exp(log_weight - log_weight.max())
            share = weight / weight.sum()
            self.log_evidence = float(np.log(weight.mean()) + log_weight.max())
            self.error = float(np.sqrt((share**2).sum()))  # of the log evidence
            mean = share @ draws
            covariance = ((draws - mean) * share[:, None]).T @ (draws - mean)
        self.ess, self.mean, self.sd = 1 / self.error**2, mean, np.sqrt(np.diag(covariance))


def flat(fit):
    """Means and covariance of all (loading, bias)."""
    p, d = fit.spread.shape[:2]
    covariance = np.zeros((p * d, p * d))
    for i in range(p):
        covariance[i * d : (i + 1) * d, i * d : (i + 1) * d] = fit.spread[i]
    return np.column_stack([fit.loadings, fit.biases]).ravel(), covariance


def laplace(codes, prior_scale, start):
    """The mode near ``start`` and the inverse of the Hessian there, by differences."""

    def minus(thetas):
        return 0.5 * (thetas**2).sum(axis=1) / prior_scale**2 - log_likelihood(
            codes, thetas.reshape(len(thetas), -1, 2)
        )

    mode = minimize(lambda theta: minus(theta[None])[0], start, method="BFGS").x
    d, size = len(mode), 0.02
    steps = size * np.eye(d)
    values = [minus((mode + a * steps[:, None] + b * steps).reshape(-1, d)) for a, b in [(1, 1), (1, -1), (-1, -1)]]
    hessian = (values[0] + values[2] - values[1] - values[1].reshape(d, d).T.ravel()) / (2 * size) ** 2
    return mode, np.linalg.inv(hessian.reshape(d, d))


def excesses(n_cases=6):
    """How far the bound is above the log evidence of tiny tables, in nats, less five standard errors of the latter."""
    for seed in range(SEED, SEED + n_cases):
        rng = np.random.default_rng(seed)
        codes = simulate(rng, random_parameters(rng, 3, 1, standard=True), 12, missing=0.1)[0]
        fit = fit_latent_trait(codes, 1, posterior=True, prior_scale=1.0)
        exact = Weighted(codes, 1.0, *flat(fit), rng)
        assert exact.ess > 300
        yield fit.trace[-1] - exact.log_evidence - 5 * exact.error


def test_the_bound_is_below_the_evidence():
    assert max(excesses()) < 0


def test_without_the_divergence_of_the_loadings_it_is_above(monkeypatch):
    monkeypatch.setattr(latent_em, "cost", lambda parameters, ridge: 0.0)
    assert max(excesses()) > 0


def falls(n_runs=6):
    """Runs of plain variational Bayes in which a step lowers the bound."""
    total = 0
    for seed in range(SEED, SEED + n_runs):
        rng = np.random.default_rng(seed)
        codes = simulate(rng, random_parameters(rng, 7, 2, standard=True), 100, missing=0.1)[0]
        rows = latent_em.BinaryRows(np.where(codes < 0, 0, codes - 0.5), (codes >= 0) * 1.0, np.ones(len(codes)))
        spread = np.tile(0.1 * np.eye(3), (7, 1, 1))
        start = random_parameters(rng, 7, 2, standard=True)._replace(spread=spread)
        state = latent_em.init(rows, start, ridge=0.5)
        bounds = [state.objective]
        for _ in range(25):
            state = latent_em.step(rows, state, LOADINGS._replace(spread=True), ridge=0.5)
            bounds.append(state.objective)
        total += bool(np.diff(bounds).min() < -1e-11 * abs(bounds[0]))
    return total


def test_no_step_lowers_the_bound():
    assert falls() == 0


def test_a_spread_of_twice_the_variance_lowers_the_bound(monkeypatch):
    right = latent_em._improved_loadings

    def wrong(*given):
        new = right(*given)
        return new._replace(spread=2 * new.spread)

    monkeypatch.setattr(latent_em, "_improved_loadings", wrong)
    assert falls() >= 3


@pytest.mark.parametrize(("k", "biases"), [(1, True), (2, True), (2, False)])
def test_the_trace_ends_at_the_bound_in_principal_axes(k, biases):
    rng = np.random.default_rng(SEED)
    codes = simulate(rng, random_parameters(rng, 8, 2, standard=True), 200, missing=0.1)[0]
    fit = fit_latent_trait(codes, k, posterior=True, prior_scale=2.0, biases=biases)
    assert fit.converged
    assert (np.diff(fit.trace) >= 0).all()
    assert fit.log_bound == pytest.approx(fit.trace[-1], abs=1e-6)
    assert np.allclose(fit.loadings.T @ fit.loadings, np.diag((fit.loadings**2).sum(axis=0)), atol=1e-9)
    assert (fit.spread[:, k, k] > 0).all() if biases else not fit.spread[:, k].any()
    assert "log evidence above" in repr(fit)


def posterior_errors(seed):
    """Errors of the means, in exact standard deviations, and the ratios of the standard deviations."""
    rng = np.random.default_rng(seed)
    truth = random_parameters(rng, 6, 1, standard=True)
    truth.loadings[:] = np.array([[1.0, -1.2, 0.7, 1.2, -1.0, 0.8]]).T
    codes = simulate(rng, truth, 1000)[0]
    fit = fit_latent_trait(codes, 1, posterior=True, prior_scale=1.0)
    mean, covariance = flat(fit)
    exact = Weighted(codes, 1.0, *laplace(codes, 1.0, mean), rng)
    return (mean - exact.mean) / exact.sd, np.sqrt(np.diag(covariance)) / exact.sd, exact.ess


def test_means_are_shrunk_and_deviations_too_small_as_is_said():
    """Six seeds gave ratios of the deviations of 0.3 to 0.6 (loadings) and 0.3 to 0.9 (biases)."""
    errors, ratios, ess = posterior_errors(SEED)
    assert ess > 400
    assert np.abs(errors).max() < 4.5
    assert (ratios < 1).all()
    assert (ratios > 0.2).all()
    assert not (2 * ratios < 1).all()


def test_predictions_average_over_the_loadings():
    rng = np.random.default_rng(SEED)
    codes = simulate(rng, random_parameters(rng, 6, 1, standard=True), 25)[0]
    fit = fit_latent_trait(codes, 1, posterior=True, prior_scale=1.5)
    row = np.array([[1, 0, 1, -1, 1, -1]])
    z = fit.posterior(row)
    draws = [
        rng.multivariate_normal([w[0], b], s, size=40_000)
        for w, b, s in zip(fit.loadings, fit.biases, fit.spread, strict=True)
    ]
    theta = np.stack(draws, axis=1)
    positions = z.mean[0, 0] + z.sd[0, 0] * rng.standard_normal((40_000, 1))
    averaged = expit(theta[:, :, 0] * positions + theta[:, :, 1]).mean(axis=0)
    alone = expit(fit.loadings[:, 0] * positions + fit.biases).mean(axis=0)
    found = fit.probabilities(row)[0]
    assert np.abs(found - averaged).max() < 0.01  # the logit is taken as normal
    assert np.abs(alone - averaged).max() > 0.01  # what the means of the loadings would have said
    shares, n = fit.sample(40_000, rng).mean(axis=0), 40_000
    assert np.abs(shares - fit.marginals()).max() < 0.01 + z_limit(6) * 0.5 / np.sqrt(n)


@pytest.mark.parametrize("options", [{"prior_scale": None}, {"prior": "learned"}])
def test_what_has_no_posterior_is_refused(options):
    with pytest.raises(ArgumentError, match="posterior is True with prior="):
        fit_latent_trait([[0, 1], [1, 0]], 1, posterior=True, **options)
