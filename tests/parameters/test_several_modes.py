"""Posteriors with several modes by every method: the example of de Freitas et al. 2001, section 5.2, against a grid."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
from parameter_cases import bimodal_on_grid, blanked

import doxa
from doxa import LogisticNetwork
from doxa.estimates import IndicatorCounts, diagnose_indicators
from doxa.models.logistic_parts import independent_parts
from doxa.parameters import approximate as approximate_room
from doxa.parameters import drawing, methods
from doxa.parameters.approximate import approximate
from doxa.parameters.kernels import blocks as blocks_room
from doxa.parameters.kernels.kernel import Walkers, join, start_at
from doxa.parameters.methods import METHODS, components_of
from doxa.parameters.targets import RegressionTarget
from doxa.parameters.variational.hidden import hidden_posterior
from doxa.sampling.importance_proposals import Mixture
from support.checks import z_limit

NAMED = ["independence", "hmc", "block", "mixture", "regeneration", "resampling", "flip", "split_hmc", "tempered"]
KERNELS = [name for name in NAMED if name not in ("regeneration", "resampling")]  # which have samplers of their own
ALONE = ["independence", "regeneration", "resampling"]  # one walker a chain
FORMS = ["unconstrained", "structured", "mean_field"]


def minor_of(grid):
    return float(grid.probability[grid.points[:, 0] < 0].sum())


@cache
def found_on(seed, approximation=None):
    network, table, _, _ = bimodal_on_grid(seed)
    (part,) = independent_parts(network, table)
    return approximate(network, part, table, approximation, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("method", "approximation", "seed"),
    [
        *((method, None, 0) for method in NAMED),
        *((method, "mean_field", 0) for method in ("block", "regeneration", "resampling", "tempered")),
        *((method, None, 1) for method in ("block", "tempered")),  # the lighter mode has 3% of the mass
        *(
            pytest.param(method, form, seed, marks=pytest.mark.slow)
            for method in NAMED
            for form in FORMS
            for seed in (0, 1)
        ),
    ],
)
def test_every_method_gives_both_modes_their_mass(method, approximation, seed):
    network, table, _, grid = bimodal_on_grid(seed)
    chains = 4 if method in ALONE or seed == 1 else 2  # the more, the lighter the mode
    draws = 1600 if method in ALONE else 200  # of each of eight walkers
    options = {"approximation": approximation, "chains": chains, "draws": draws, "warmup": 100, "seed": 1}
    fit = doxa.fit(network, table, method=method, **options)
    assert fit.method["y"] == method
    assert "Cannot tell" not in fit.verdict
    minor = diagnose_indicators(IndicatorCounts.from_draws(fit.draws("y")[..., 0] < 0)).estimate(())
    assert abs(minor.value - minor_of(grid)) < z_limit(1) * minor.mcse
    assert minor.mcse < 0.25 * minor_of(grid)
    evidence, exact = fit.log_marginal_likelihood, grid.log_mass + fit.report.fixed
    assert abs(evidence.value - exact) < z_limit(1) * evidence.mcse < 0.2
    assert fit.log_marginal_likelihood_bound < exact


def test_regeneration_refits_the_gaussian_of_each_mode(monkeypatch):
    """Twelve coefficients and two modes, where one Gaussian over both is accepted half as often."""
    network = doxa.LogisticNetwork({name: ["h"] for name in "abcdef"}, roots={"h": 0.5}, prior_scale=2.0)
    given = {name: [0.3 * (k - 2), 1.5] for k, name in enumerate("abcdef")}
    table = network.simulate(150, given, np.random.default_rng(3)).select(list("abcdef"))

    def accepted():
        fit = doxa.fit(network, table, method="regeneration", draws=400, warmup=100, seed=1)
        return fit.acceptance["a"]

    with_both = accepted()
    monkeypatch.setattr(methods, "components_of", lambda found: components_of(found)[:1])
    assert with_both > 1.5 * accepted()


@pytest.mark.parametrize(
    "method", ["block", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mixture", "flip"))]
)
def test_the_chains_stop_when_they_agree(method):
    network, table, _, grid = bimodal_on_grid(1)
    fit = doxa.fit(network, table, method=method, chains=2, until=doxa.Until(max_draws=2000), seed=2)
    assert fit.converged
    assert "by each of 2 Gaussians at random" in fit.part("y").why
    minor = diagnose_indicators(IndicatorCounts.from_draws(fit.draws("y")[..., 0] < 0)).estimate(())
    assert abs(minor.value - minor_of(grid)) < z_limit(1) * minor.mcse


# --- what the kernels keep: walkers that begin at exact draws are at exact draws after some steps

_WALKERS, _STEPS = 4000, 12


def drift(kernel, rng, seed=0):
    """Largest z over the light mode's share, and the first two moments, of walkers that began in the posterior."""
    _, _, target, grid = bimodal_on_grid(seed)
    chosen = rng.choice(len(grid.points), size=_WALKERS, p=grid.probability)
    width = 60.1 / 601
    thetas = grid.points[chosen] + width * (rng.random((_WALKERS, 2)) - 0.5)  # uniform in each cell
    walkers, _ = kernel.run(target, start_at(target, thetas), _STEPS, rng)
    numbers = np.column_stack([walkers.thetas[:, 0] < 0, walkers.thetas, walkers.thetas**2])
    exact_of = np.column_stack([grid.points[:, 0] < 0, grid.points, grid.points**2])
    exact = grid.probability @ exact_of
    sd = np.sqrt(grid.probability @ (exact_of - exact) ** 2)
    return np.abs((numbers.mean(axis=0) - exact) / (sd / np.sqrt(_WALKERS))).max()


class Nearest:
    """A broken twin: the component is chosen by where the walker stands, and the ratio does not know it."""

    def __init__(self, kernels, means):
        self.kernels, self.means = kernels, means

    def run(self, target, walkers, n_steps, rng):
        paths = []
        for _ in range(n_steps):
            near = ((walkers.thetas[:, None] - self.means) ** 2).sum(axis=2).argmin(axis=1)
            thetas, log_density = walkers.thetas.copy(), walkers.log_density.copy()
            for k, kernel in enumerate(self.kernels):
                moved, path = kernel.run(target, walkers, 1, rng)
                thetas[near == k], log_density[near == k] = moved.thetas[near == k], moved.log_density[near == k]
            walkers = Walkers(thetas, log_density)
            paths.append(path)
        return walkers, join(paths)


@pytest.mark.parametrize("method", KERNELS)
def test_the_kernels_keep_both_modes(method):
    kernel = METHODS[method](found_on(0), np.random.default_rng(3)).kernel
    assert drift(kernel, np.random.default_rng(4)) < z_limit(5)


@pytest.mark.parametrize("approximation", ["mean_field"])
def test_the_kernels_of_a_form_keep_both_modes(approximation):
    kernel = METHODS["block"](found_on(0, approximation), np.random.default_rng(3)).kernel
    assert drift(kernel, np.random.default_rng(4)) < z_limit(5)


def test_a_component_chosen_by_the_state_would_be_seen():
    rung = METHODS["block"](found_on(0), np.random.default_rng(3))
    choice = rung.kernel.kernels[0]  # in turn with proposals from the mixture
    nearest = Nearest(choice.kernels, np.array([one.gaussian.mean for one in components_of(found_on(0))]))
    assert drift(choice, np.random.default_rng(4)) < z_limit(5)
    assert drift(nearest, np.random.default_rng(4)) > z_limit(5)


def test_weights_left_out_of_the_acceptance_would_be_seen(monkeypatch):
    whole = blocks_room.propose_block
    kernel = METHODS["block"](found_on(0), np.random.default_rng(3)).kernel
    monkeypatch.setattr(blocks_room, "propose_block", lambda *given: (whole(*given)[0], 0.0))
    assert drift(kernel, np.random.default_rng(4)) > z_limit(5)


# --- the parts they are made of


def test_components_are_the_modes_without_the_wide_one():
    found = found_on(1)
    components = components_of(found)
    assert isinstance(found.proposal, Mixture)
    assert len(found.proposal.components) == 3
    assert len(components) == len(found.modes) == 2
    assert sum(one.share for one in components) == pytest.approx(1)
    assert min(one.share for one in components) >= 0.25  # the light mode has 3% of the mass
    for one, mode in zip(components, found.modes, strict=True):
        assert np.abs(np.linalg.solve(one.gaussian.cholesky, mode.mean - one.gaussian.mean)).max() < 1


def test_more_than_a_dozen_coefficients_with_one_mode():
    """No mixture is fitted in so many dimensions: each method makes do with the Gaussian."""
    rng = np.random.default_rng(5)
    names = [f"x{j}" for j in range(13)]
    network = LogisticNetwork({"y": names}, prior_scale=1.0, roots=dict.fromkeys(names, 0.5))
    table = blanked(network.simulate(60, {"y": rng.normal(0, 0.5, 14)}, rng), 0.005, rng)
    exact = doxa.fit(network, table, draws=2000, seed=1).summary()
    draws = {"tempered": 20, "hmc": 60, "split_hmc": 60}  # of which each takes many steps
    for method in NAMED:
        fit = doxa.fit(network, table, method=method, draws=draws.get(method, 300), warmup=20, seed=2)
        assert fit.method["y"] == method
        summary = fit.summary()
        z = (summary["mean"] - exact["mean"]) / np.hypot(summary["mcse"], exact["mcse"])
        assert np.abs(z).max() < z_limit(14 * len(NAMED)), method


# --- tempered transitions with complete data


@pytest.fixture
def six_coefficients():
    names = [f"x{j}" for j in range(5)]
    network = LogisticNetwork({"y": names}, prior_scale=2.0)
    table = network.simulate(
        200, {"y": [0.2, 1.0, -0.5, 0.3, 0.8, -1.0], **{x: [0.5] for x in names}}, np.random.default_rng(1)
    )
    return network, table


def evaluations(monkeypatch, network, table):
    calls = []
    whole = RegressionTarget.log_density
    monkeypatch.setattr(RegressionTarget, "log_density", lambda self, x: (calls.append(len(x)), whole(self, x))[1])
    fit = doxa.fit(network, table, method="tempered", draws=50, seed=1)
    return fit, len(calls)


def test_tempered_transitions_take_few_evaluations(monkeypatch, six_coefficients):
    """Fifty draws are 300 transitions of up to nine rungs, whatever exact parts beside them need."""
    network, table = six_coefficients
    fit, n = evaluations(monkeypatch, network, table)
    assert n < 15_000
    exact, summary = doxa.fit(network, table, draws=4000, seed=2).summary()[:6], fit.summary()[:6]
    z = (summary["mean"] - exact["mean"]) / np.hypot(summary["mcse"], exact["mcse"])
    assert np.abs(z).max() < z_limit(6)
    assert fit.part("y").efficiency > 0.5


def test_long_turns_of_tempered_transitions_would_be_seen(monkeypatch, six_coefficients):
    """The broken twin: chunks of 256 steps, whatever a step costs."""
    whole = drawing.ChainSampler
    monkeypatch.setattr(drawing, "ChainSampler", lambda *given, most: whole(*given))
    _, n = evaluations(monkeypatch, *six_coefficients)
    assert n > 15_000


def test_draws_of_short_turns_do_not_depend_on_blocks(monkeypatch, six_coefficients):
    network, table = six_coefficients
    whole = doxa.fit(network, table, method="tempered", draws=20, seed=5)
    run = drawing.run_chains
    for block in (1, 7):
        monkeypatch.setattr(drawing, "run_chains", partial(run, block=block))
        other = doxa.fit(network, table, method="tempered", draws=20, seed=5)
        assert all(np.array_equal(other.trace[name], whole.trace[name]) for name in whole.trace.names)


# --- the bound


def one_climb(network, table, **options):
    return [hidden_posterior(network, table, form=options["form"])]


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_the_bound_is_that_of_the_best_climb(monkeypatch, seed):
    network, table, _, grid = bimodal_on_grid(seed)
    fit = doxa.fit(network, table, draws=20, seed=1)
    best = fit.log_marginal_likelihood_bound - fit.report.fixed
    assert best == approximate_room.joint_bound(network, table)
    monkeypatch.setattr(approximate_room, "hidden_posteriors", one_climb)
    alone = approximate_room.joint_bound(network, table)  # the broken twin
    assert alone + 0.05 < best < grid.log_mass


def test_long_climbs_are_made_once(monkeypatch):
    network, table, _, grid = bimodal_on_grid(0)
    best = approximate_room.joint_bound(network, table)
    monkeypatch.setattr(approximate_room, "_LONG_ASCENT", 1)
    assert approximate_room.joint_bound(network, table) < best < grid.log_mass
