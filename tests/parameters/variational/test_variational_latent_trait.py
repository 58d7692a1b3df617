"""The latent trait model against grids: its bound, its EM, planted answers."""

from functools import partial

import numpy as np
import pytest
from latent_cases import integrate, random_parameters, rows_of, simulate

from doxa.errors import ArgumentError
from doxa.parameters.variational import latent_em
from doxa.parameters.variational.bound import lambda_of, log_logistic_bound, row_bound
from doxa.parameters.variational.latent_em import (
    LOADINGS,
    PRIOR,
    Learned,
    TraitParameters,
    init,
    moments,
    settle,
    step,
    whitened,
)
from doxa.parameters.variational.latent_rows import code_rows
from doxa.parameters.variational.latent_trait import fit_latent_prior, fit_latent_trait
from support.checks import SEED, z_limit


def cases(rng, n, *, n_rows=3):
    for case in range(n):
        k = 1 + case % 2
        parameters = random_parameters(rng, int(rng.integers(1, 6)), k, scale=float(rng.uniform(0.2, 1.3)))
        codes, _ = simulate(rng, parameters, n_rows, missing=0.2)
        codes[0, 0] = case % 2  # never all missing, and 0 occurs often enough
        yield parameters, np.where(codes < 0, np.nan, codes.astype(float))


# --- the bound ------------------------------------------------------------------------------------------------------


def integral_of_the_bound(parameters, codes, xi):
    return integrate(parameters, codes, lambda h, t, i: log_logistic_bound(h, xi[t, i]))


@pytest.mark.parametrize("k", [1, 2])
def test_the_bound_of_a_row_is_the_integral_of_its_bounded_likelihood(k):
    rng = np.random.default_rng(SEED)
    parameters = random_parameters(rng, 4, k)
    codes, _ = simulate(rng, parameters, 6, missing=0.2)
    xi = rng.uniform(0.1, 3, codes.shape)
    found = moments(rows_of(np.where(codes < 0, np.nan, codes)), parameters, xi)
    total, mean, covariance = integral_of_the_bound(parameters, codes, xi)
    assert np.allclose(found.log_bound, total, atol=1e-8)
    root = parameters.prior_root
    assert np.allclose(parameters.prior_mean + found.mean @ root.T, mean, atol=1e-7)
    assert np.allclose(root @ found.covariance @ root.T, covariance, atol=1e-7)
    doubled = integral_of_the_bound(parameters, codes, 1.1 * xi)[0]  # the check sees a tenth in xi
    assert np.abs(found.log_bound - doubled).max() > 1e-4


def excess(n_cases):
    """Largest bound minus log likelihood of a row, at random xi and at the best."""
    rng = np.random.default_rng(SEED)
    worst = -np.inf
    for parameters, codes in cases(rng, n_cases):
        rows = rows_of(codes)
        exact = integrate(parameters, np.nan_to_num(codes, nan=-1).astype(int))[0]
        anywhere = moments(rows, parameters, np.abs(rng.normal(0, 4, codes.shape)))
        for found in (anywhere, settle(rows, parameters).rows):
            worst = max(worst, float((found.log_bound - exact).max()))
    return worst


@pytest.mark.parametrize("n_cases", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_bound_is_below_the_likelihood(n_cases):
    assert excess(n_cases) <= 1e-8


def test_a_wrong_lambda_is_above_the_likelihood(monkeypatch):
    monkeypatch.setattr(latent_em, "lambda_of", lambda xi: 0.7 * lambda_of(xi))
    assert excess(20) > 0.01


def test_one_column_is_one_row_of_logistic_regression():
    parameters = TraitParameters(np.array([[1.3]]), np.array([0.4]), np.array([-0.2]), np.array([[1.7]]))
    found = settle(rows_of([[0], [1], [np.nan]]), parameters).rows
    known = row_bound([-0.14, 0.14], (1.3 * 1.7) ** 2)
    assert np.allclose(found.log_bound, [*known.log_bound, 0.0], atol=1e-10)


def test_no_xi_is_better_than_the_settled_one():
    rng = np.random.default_rng(SEED)
    parameters = random_parameters(rng, 8, 2)
    rows = rows_of(simulate(rng, parameters, 30)[0])
    best = settle(rows, parameters)
    for size in (1e-3, 0.1, 1.0):
        other = moments(rows, parameters, np.abs(best.xi + size * rng.standard_normal(best.xi.shape)))
        assert (other.log_bound <= best.rows.log_bound + 1e-10).all()
    again = settle(rows, parameters, xi=rng.uniform(0, 20, best.xi.shape))
    assert np.allclose(again.rows.mean, best.rows.mean, atol=1e-8)


def test_blocks_of_rows_do_not_show(monkeypatch):
    rng = np.random.default_rng(SEED)
    parameters = random_parameters(rng, 5, 2)
    rows = rows_of(simulate(rng, parameters, 40, missing=0.1)[0])
    whole = settle(rows, parameters)
    monkeypatch.setattr(latent_em, "_BLOCK", 35)
    for one, other in zip(whole.rows, settle(rows, parameters).rows, strict=True):
        assert np.allclose(one, other, atol=1e-12)


# --- EM -------------------------------------------------------------------------------------------------------------


def parameters_of(fit):
    return TraitParameters(fit.loadings, fit.biases, fit.prior_mean, fit.prior_root)


bound_fit = partial(fit_latent_trait, likelihood="bound")
AS_PRINTED = Learned(loadings=True, biases=False, mean=True, covariance=True)
WITH_BIASES = Learned(loadings=True, biases=True, mean=False, covariance=True)


def path(learn, ridge, seed, n_steps=40):
    """Objectives along EM; for the prior the loadings are those that made the rows, so that there is one to learn."""
    rng = np.random.default_rng(seed)
    parameters = random_parameters(rng, 10, 2)
    rows = rows_of(simulate(rng, parameters, 150, missing=0.1)[0])
    start = random_parameters(rng, 10, 2, standard=True)
    if learn == PRIOR:
        start = start._replace(loadings=parameters.loadings, biases=parameters.biases)
    state = init(rows, start, rng.uniform(0, 5, rows.half.shape), ridge=ridge)
    objectives = [state.objective]
    for _ in range(n_steps):
        state = step(rows, state, learn, ridge=ridge)
        objectives.append(state.objective)
    return np.array(objectives)


def runs_that_fall(learn, ridge=0.0, n_runs=10):
    """In how many runs a step lowers the objective by more than rounding."""
    paths = [path(learn, ridge, seed) for seed in range(SEED, SEED + n_runs)]
    return sum(bool(np.diff(objectives).min() < -1e-11 * abs(objectives[0])) for objectives in paths)


@pytest.mark.parametrize("learn", [LOADINGS, PRIOR, AS_PRINTED, WITH_BIASES])
@pytest.mark.parametrize(("ridge", "n_runs"), [(0.0, 10), (0.5, 10), pytest.param(0.0, 1000, marks=pytest.mark.slow)])
def test_no_step_lowers_the_bound(learn, ridge, n_runs):
    assert runs_that_fall(learn, ridge, n_runs) == 0


def test_the_printed_covariance_lowers_the_bound(monkeypatch):
    """Eq. 38 as it stands: the mean of the posterior covariances, without the spread of the means.

    It shrinks the prior to a point. That costs bound where the rows differ in position, as here, and not always.
    """

    def printed(counts, state, parameters, ridge):
        mean = np.einsum("t,tij->ij", counts / counts.sum(), state.rows.covariance)
        return parameters._replace(prior_root=parameters.prior_root @ np.linalg.cholesky(mean))

    monkeypatch.setattr(latent_em, "_improved_covariance", printed)
    assert runs_that_fall(PRIOR) >= 5


def test_a_ridge_forgotten_in_the_covariance_lowers_the_objective(monkeypatch):
    right = latent_em._improved_covariance
    monkeypatch.setattr(
        latent_em, "_improved_covariance", lambda counts, state, new, ridge: right(counts, state, new, 0)
    )
    assert runs_that_fall(WITH_BIASES, ridge=20.0) >= 5


def test_loadings_without_the_posterior_covariance_lower_the_bound(monkeypatch):
    """Eq. 41 with mu mu' alone."""
    right = latent_em._positions
    monkeypatch.setattr(latent_em, "_positions", lambda state: (right(state)[0], 0 * right(state)[1]))
    assert runs_that_fall(LOADINGS) >= 5


@pytest.mark.parametrize("memory", [0, 6])
def test_the_trace_never_falls_and_ends_at_the_bound(memory):
    rng = np.random.default_rng(SEED)
    truth = random_parameters(rng, 8, 2)
    codes = simulate(rng, truth, 200, missing=0.1)[0]
    for fit, precision in (
        (bound_fit(codes, 2, memory=memory), 1e-2),
        (bound_fit(codes, 2, memory=memory, prior_scale=0.5), 4.0),
        (bound_fit(codes, 2, memory=memory, prior_scale=None), 0.0),
        (bound_fit(codes, 2, memory=memory, prior="learned", prior_scale=0.5), 4.0),
        (bound_fit(codes, 2, memory=memory, prior="learned", biases=False, prior_scale=1.0), 1.0),
        (bound_fit(codes, 2, memory=memory, prior="learned", biases=False, prior_scale=None), 0.0),
        (bound_fit(codes, 2, memory=memory, biases=False), 1e-2),
        (fit_latent_prior(codes, truth.loadings, truth.biases, memory=memory), 0.0),
    ):
        assert fit.converged
        assert (np.diff(fit.trace) >= 0).all()
        log_prior = -0.5 * precision * sum((part**2).sum() for part in whitened(parameters_of(fit)))
        assert fit.trace[-1] == pytest.approx(fit.log_bound + log_prior, abs=1e-7)


def test_acceleration_changes_the_way_and_not_the_end():
    rng = np.random.default_rng(SEED)
    codes = simulate(rng, random_parameters(rng, 10, 2), 300)[0]
    plain, fast = (bound_fit(codes, 2, memory=m, tolerance=1e-13) for m in (0, 6))
    assert fast.log_bound == pytest.approx(plain.log_bound, abs=1e-6)
    assert np.allclose(fast.loadings, plain.loadings, atol=1e-3)
    assert fast.n_iterations < plain.n_iterations


def slopes(codes, fit, prior_scale=np.inf):
    """Derivatives of the best bound (plus log prior) in every loading and bias, by central differences."""
    rows, _, _ = code_rows(codes)
    here = np.column_stack([fit.loadings, fit.biases])
    out = np.empty_like(here)
    size = 1e-4
    for place in np.ndindex(here.shape):
        values = []
        for sign in (-1, 1):
            there = here.copy()
            there[place] += sign * size
            parameters = TraitParameters(there[:, :-1], there[:, -1], fit.prior_mean, fit.prior_root)
            total = rows.counts @ settle(rows, parameters).rows.log_bound
            values.append(total - 0.5 * (there**2).sum() / prior_scale**2)
        out[place] = (values[1] - values[0]) / (2 * size)
    return out


def test_the_fit_is_a_stationary_point_of_the_bound_with_its_prior():
    rng = np.random.default_rng(SEED)
    codes = simulate(rng, random_parameters(rng, 5, 2, standard=True), 120, missing=0.1)[0]
    fit = bound_fit(codes, 2, prior_scale=2.0, tolerance=1e-14)
    at_best = np.abs(slopes(codes, fit, 2.0)).max()
    assert at_best < 1e-2  # the curvature is about 10 a parameter: within 1e-3 of the maximum
    assert np.abs(slopes(codes, fit)).max() > 20 * at_best  # without the prior's term it is none
    assert np.abs(slopes(codes, bound_fit(codes, 2, prior_scale=1.0), 2.0)).max() > 20 * at_best


def test_the_learned_prior_is_a_maximum():
    rng = np.random.default_rng(SEED)
    truth = random_parameters(rng, 6, 2)
    codes = simulate(rng, truth, 200)[0]
    fit = fit_latent_prior(codes, truth.loadings, truth.biases, tolerance=1e-14)
    rows, _, _ = code_rows(codes)
    best = (
        rows.counts @ settle(rows, truth._replace(prior_mean=fit.prior_mean, prior_root=fit.prior_root)).rows.log_bound
    )
    assert best == pytest.approx(fit.log_bound, abs=1e-7)
    for _ in range(20):
        nearby = truth._replace(
            prior_mean=fit.prior_mean + 0.05 * rng.standard_normal(2),
            prior_root=fit.prior_root + np.tril(0.05 * rng.standard_normal((2, 2))),
        )
        assert rows.counts @ settle(rows, nearby).rows.log_bound < best
    assert best >= rows.counts @ settle(rows, truth).rows.log_bound


def test_with_biases_a_learned_covariance_adds_nothing():
    rng = np.random.default_rng(SEED)
    codes = simulate(rng, random_parameters(rng, 7, 2, standard=True), 300, missing=0.1)[0]
    standard = bound_fit(codes, 2, prior_scale=1.0, tolerance=1e-13)
    learned = bound_fit(codes, 2, prior="learned", prior_scale=1.0, tolerance=1e-13)
    assert learned.log_bound == pytest.approx(standard.log_bound, abs=1e-5)
    for one, other in zip(whitened(parameters_of(learned)), whitened(parameters_of(standard)), strict=True):
        assert np.allclose(one, other, atol=1e-3)
    assert np.allclose(learned.loadings.T @ learned.loadings, np.eye(2), atol=1e-10)
    assert np.allclose(np.sqrt(np.diag(learned.prior_covariance)), np.linalg.norm(standard.loadings, axis=0), atol=2e-3)


def printed_model(rng, p=120, n=600):
    """The paper's model without biases, in the convention of the fit, and rows of it."""
    loadings = np.linalg.qr(rng.standard_normal((p, 2)))[0]
    loadings *= np.sign(loadings[np.abs(loadings).argmax(axis=0), [0, 1]])
    truth = TraitParameters(loadings, np.zeros(p), np.array([8.0, -5.0]), np.diag([15.0, 10.0]))
    return truth, *simulate(rng, truth, n)


def away(found, truth):
    return np.linalg.norm(found - truth) / np.linalg.norm(truth)


def test_loadings_mean_and_covariance_are_learned_together():
    """A maximum of the bound near what was planted; held at mean 0, the model misses it by far."""
    rng = np.random.default_rng(SEED)
    truth, codes, positions = printed_model(rng)
    fit = bound_fit(codes, 2, biases=False, prior="learned", prior_scale=None, tolerance=1e-11)
    assert fit.converged
    assert not fit.biases.any()
    drawn = TraitParameters(
        truth.loadings, truth.biases, positions.mean(axis=0), np.linalg.cholesky(np.cov(positions.T, bias=True))
    )
    assert away(whitened(parameters_of(fit))[1], whitened(drawn)[1]) < 0.15
    spread = whitened(drawn)[0] @ whitened(drawn)[0].T
    assert away(fit.loadings @ fit.prior_covariance @ fit.loadings.T, spread) < 0.25  # loadings shrink by 0.05 to 0.1
    rows, _, _ = code_rows(codes)
    for _ in range(10):
        nearby = TraitParameters(
            fit.loadings + 0.005 * rng.standard_normal(fit.loadings.shape),
            fit.biases,
            fit.prior_mean + 0.05 * rng.standard_normal(2),
            fit.prior_root + np.diag(0.05 * rng.standard_normal(2)),
        )
        assert rows.counts @ settle(rows, nearby).rows.log_bound < fit.log_bound
    held = bound_fit(codes, 2, biases=False, tolerance=1e-8)
    assert held.log_bound < fit.log_bound - 100
    assert away(held.loadings @ held.loadings.T, spread) > 0.25
    flipped = bound_fit(1 - codes, 2, biases=False, prior="learned", prior_scale=None, tolerance=1e-11)
    assert np.allclose(flipped.prior_mean, -fit.prior_mean, atol=1e-2)


def test_unknown_priors_are_refused():
    with pytest.raises(ArgumentError, match="prior is 'free'; it must be"):
        fit_latent_trait([[0, 1], [1, 0]], 1, prior="free")


# --- planted answers ------------------------------------------------------------------------------------------------


def planted_z(fit, truth, positions):
    """Errors of loadings and biases in units of their standard errors.

    The errors are those of logistic regressions on the positions as they were drawn, whose mean and covariance, not
    exactly 0 and I, are taken into the truth; a reliability of the positions of 0.9 widens them.
    """
    centre = positions.mean(axis=0)
    root = np.linalg.cholesky(np.cov(positions.T, bias=True))
    loadings, biases = truth.loadings @ root, truth.biases + truth.loadings @ centre
    standard = (positions - centre) @ np.linalg.inv(root).T
    left, _, right = np.linalg.svd(loadings.T @ fit.loadings)
    turn = left @ right
    design = np.column_stack([standard @ turn, np.ones(len(positions))])
    truth_turned = np.column_stack([loadings @ turn, biases])
    found = np.column_stack([fit.loadings, fit.biases])
    errors = np.empty_like(found)
    for i, coefficients in enumerate(truth_turned):
        p = 1 / (1 + np.exp(-design @ coefficients))
        information = (design * (p * (1 - p))[:, None]).T @ design
        errors[i] = np.sqrt(np.diag(np.linalg.inv(information)) / 0.9)
    return (found - truth_turned) / errors


def planted(rng, p=150, n=400, missing=0.0):
    truth = random_parameters(rng, p, 2, scale=1.0, standard=True)
    truth.loadings[:, 1] *= 0.7  # so that the axes are told apart
    return truth, *simulate(rng, truth, n, missing=missing)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_planted_loadings_are_recovered(missing):
    truth, codes, positions = planted(np.random.default_rng(SEED), missing=missing)
    z = planted_z(bound_fit(codes, 2, tolerance=1e-7), truth, positions) * np.sqrt(1 - missing)
    assert np.abs(z).max() < z_limit(z.size)
    assert 0.7 < np.sqrt((z**2).mean()) < 1.3
    if missing:  # filling the missing cells with the commoner value pulls loadings in
        commoner = (np.where(codes < 0, np.nan, codes) == 1).mean(axis=0) > 0.5 * (codes >= 0).mean(axis=0)
        filled = bound_fit(np.where(codes < 0, commoner, codes), 2, tolerance=1e-7)
        assert np.abs(planted_z(filled, truth, positions) * np.sqrt(1 - missing)).max() > z_limit(z.size)


def test_a_wrong_update_of_the_loadings_does_not_recover_them(monkeypatch):
    right = lambda_of
    truth, codes, positions = planted(np.random.default_rng(SEED))
    monkeypatch.setattr(latent_em, "lambda_of", lambda xi: right(xi) / 2)  # eqs. 36 and 41 without their factor 2
    z = planted_z(bound_fit(codes, 2, max_iterations=60), truth, positions)
    assert np.abs(z).max() > z_limit(z.size)


def test_few_columns_give_loadings_that_are_too_small():
    """What the bound costs, as the module says: with 8 columns five draws gave 0.48 to 0.67."""
    rng = np.random.default_rng(SEED)
    truth = random_parameters(rng, 8, 2, scale=1.0, standard=True)
    fit = bound_fit(simulate(rng, truth, 3000)[0], 2)
    assert np.linalg.norm(fit.loadings) < 0.9 * np.linalg.norm(truth.loadings)


def test_axes_are_principal_and_signs_fixed():
    rng = np.random.default_rng(SEED)
    codes = simulate(rng, random_parameters(rng, 9, 3, standard=True), 300)[0]
    fit = bound_fit(codes, 3)
    gram = fit.loadings.T @ fit.loadings
    assert np.allclose(gram, np.diag(np.diag(gram)), atol=1e-10)
    assert (np.diff(np.diag(gram)) <= 0).all()
    for column in fit.loadings.T:
        assert column[np.abs(column).argmax()] > 0
    flipped = bound_fit(1 - codes, 3)  # the other coding turns signs of logits, not the map's shape
    assert np.allclose(np.abs(flipped.loadings), np.abs(fit.loadings), atol=1e-3)
    assert flipped.log_bound == pytest.approx(fit.log_bound, abs=1e-5)


def test_draws_have_the_marginals():
    rng = np.random.default_rng(SEED)
    fit = bound_fit(simulate(rng, random_parameters(rng, 5, 2), 200)[0], 2)
    n = 40_000
    share, p = fit.sample(n, np.random.default_rng(SEED)).mean(axis=0), fit.marginals()
    z = (share - p) * np.sqrt(n / (p * (1 - p)))
    assert np.abs(z).max() < z_limit(5)
    at_the_mean = 1 / (1 + np.exp(-fit.biases))  # the logistic of the mean logit
    assert np.abs((share - at_the_mean) * np.sqrt(n / (p * (1 - p)))).max() > z_limit(5)
