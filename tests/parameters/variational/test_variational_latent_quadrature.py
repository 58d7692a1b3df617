"""The latent trait model by quadrature: likelihood and posteriors against finer grids, planted loadings, refusals."""

import numpy as np
import pytest
from latent_cases import integrate, random_parameters, rows_of, simulate

from doxa.errors import ArgumentError
from doxa.parameters.variational import latent_quadrature
from doxa.parameters.variational.latent_em import LOADINGS, TraitParameters
from doxa.parameters.variational.latent_quadrature import grid, grid_moments
from doxa.parameters.variational.latent_trait import fit_latent_trait
from support.checks import SEED


def furthest(spacing):
    """Largest error of a row's log likelihood, mean and covariance, against a grid with twice the reach of a cell."""
    rng = np.random.default_rng(SEED)
    worst = 0.0
    for k in (1, 2):
        parameters = random_parameters(rng, 5, k, standard=True)
        codes = simulate(rng, parameters, 20, missing=0.2)[0]
        found = grid_moments(rows_of(np.where(codes < 0, np.nan, codes)), parameters, grid(k, spacing))
        total, mean, covariance = integrate(parameters, codes)
        for one, other in ((found.log_bound, total), (found.mean, mean), (found.covariance, covariance)):
            worst = max(worst, float(np.abs(one - other).max()))
    return worst


def test_rows_have_their_likelihood_mean_and_covariance():
    assert furthest(0.2) < 1e-6
    assert furthest(1.5) > 1e-3  # the check sees a grid that is too coarse


def paths(n_runs=5):
    for seed in range(SEED, SEED + n_runs):
        rng = np.random.default_rng(seed)
        k = 1 + seed % 2
        rows = rows_of(simulate(rng, random_parameters(rng, 6, k, standard=True), 80)[0])
        start = random_parameters(rng, 6, k, standard=True)
        search = {"tolerance": 1e-9, "max_iterations": 40, "memory": 0}
        yield latent_quadrature._run_on_grid(rows, start, grid(k, 0.3), LOADINGS, 0.1, **search).trace


def test_no_step_lowers_the_likelihood():
    for trace in paths():
        assert len(trace) > 5
        assert (np.diff(trace) >= 0).all()


def test_too_small_a_curvature_ends_the_ascent_at_once(monkeypatch):
    """The steps are then too long; the first that would lower the likelihood ends the search."""
    right = latent_quadrature.lambda_of
    full = [trace[-1] for trace in paths()]
    monkeypatch.setattr(latent_quadrature, "lambda_of", lambda xi: right(xi) / 4)
    assert max(np.subtract(full, [trace[-1] for trace in paths()])) > 1.0


def test_the_fit_is_a_stationary_point_of_the_likelihood():
    rng = np.random.default_rng(SEED)
    codes = simulate(rng, random_parameters(rng, 5, 1, standard=True), 120)[0]

    def slopes(fit):
        here = np.column_stack([fit.loadings, fit.biases])
        out = np.empty_like(here)
        for place in np.ndindex(here.shape):
            values = []
            for sign in (-1, 1):
                there = here.copy()
                there[place] += sign * 1e-4
                parameters = TraitParameters(there[:, :1], there[:, 1], fit.prior_mean, fit.prior_root)
                values.append(integrate(parameters, codes)[0].sum() - 0.5 * (there**2).sum() / 4)
            out[place] = (values[1] - values[0]) / 2e-4
        return np.abs(out).max()

    fit = fit_latent_trait(codes, 1, prior_scale=2.0, tolerance=1e-14)
    assert fit.spacing is not None
    exact = integrate(TraitParameters(fit.loadings, fit.biases, fit.prior_mean, fit.prior_root), codes)[0].sum()
    assert fit.log_bound == pytest.approx(exact, abs=1e-4)
    assert slopes(fit) < 0.01
    assert slopes(fit_latent_trait(codes, 1, prior_scale=2.0, likelihood="bound")) > 0.2


def test_few_columns_are_enough_for_planted_loadings():
    """Five seeds gave 0.95 to 1.18 of the planted length, the bound 0.50 to 0.70."""
    rng = np.random.default_rng(SEED)
    truth = random_parameters(rng, 8, 2, scale=1.0, standard=True)
    codes = simulate(rng, truth, 3000)[0]
    lengths = [
        np.linalg.norm(fit_latent_trait(codes, 2, likelihood=likelihood).loadings) / np.linalg.norm(truth.loadings)
        for likelihood in ("auto", "bound")
    ]
    assert 0.85 < lengths[0] < 1.2
    assert lengths[1] < 0.75


def test_sharp_positions_refine_the_grid_and_end_at_the_bound(monkeypatch):
    rng = np.random.default_rng(SEED)
    truth = random_parameters(rng, 12, 1, scale=4.0, standard=True)
    codes = simulate(rng, truth, 200)[0]
    fit = fit_latent_trait(codes, 1, tolerance=1e-8)
    assert fit.spacing < 0.4
    assert (np.diff(fit.trace) >= 0).all()
    monkeypatch.setattr(latent_quadrature, "_FINEST", {1: 0.3})
    fallen = fit_latent_trait(codes, 1, tolerance=1e-8)
    assert fallen.spacing is None
    assert fallen.log_bound == fit_latent_trait(codes, 1, tolerance=1e-8, likelihood="bound").log_bound
    with pytest.raises(ArgumentError, match="too sharp for a grid"):
        fit_latent_trait(codes, 1, likelihood="quadrature")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"likelihood": "exact"}, "likelihood is 'exact'; it must be"),
        ({"n_components": 3, "likelihood": "quadrature"}, "with n_components=3"),
        ({"prior": "learned", "likelihood": "quadrature"}, "prior='learned'"),
    ],
)
def test_what_quadrature_does_not_do_is_refused(options, said):
    with pytest.raises(ArgumentError, match=said):
        fit_latent_trait(np.eye(4), **{"n_components": 1, **options})
