"""Scales of the prior that are learned: against quadrature, in all coordinates, calibrated, on disk; broken twins."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from parameter_cases import blanked
from scipy.special import chdtrc, logsumexp
from scipy.stats import halfcauchy, halfnorm, norm

import doxa
from doxa import LogisticNetwork
from doxa.errors import ArgumentError
from doxa.models import LearnedScale
from doxa.models.logistic_json import network_from_json, network_to_json
from doxa.models.logistic_parts import independent_parts
from doxa.parameters import approximate
from doxa.parameters.scaled_target import InCoordinates, ScaledCoordinates, ScaledTarget
from support.checks import FALSE_ALARM, SEED, z_limit

PARENTS = {"y": ["a"], "z": ["b"]}
GIVEN = {"bias": 0.3, "roots": {"a": 0.4, "b": 0.7}}
HYPERPRIORS = {"half_normal": halfnorm, "half_cauchy": halfcauchy}


def case(n=40, hyperprior="half_normal", missing_cells=0.0, groups=None):
    """Two families with one coefficient each, and a table."""
    network = LogisticNetwork(PARENTS, prior_scale=LearnedScale(groups, hyperprior, width=1.5), **GIVEN)
    table = LogisticNetwork(PARENTS, **GIVEN).simulate(n, {"y": [0.9], "z": [-0.4]}, np.random.default_rng(3))
    return network, blanked(table, missing_cells, np.random.default_rng(4)) if missing_cells else table


@cache
def by_quadrature(n, hyperprior="half_normal", missing_cells=0.0):
    """Log evidence, and posterior mean and standard deviation of both coefficients and of the scale, of a `case`."""
    _, table = case(n, hyperprior, missing_cells)
    u = np.linspace(-12, 5 if hyperprior == "half_normal" else 9, 401)
    z = np.sinh(np.linspace(-5, 5, 1001)) / 12  # in units of the scale: from thousandths to six
    stretch = np.cosh(np.linspace(-5, 5, 1001)) / 12 * (10 / 1000)
    density = {}
    for node in PARENTS:
        network = LogisticNetwork(
            {node: PARENTS[node]}, bias=0.3, roots={PARENTS[node][0]: GIVEN["roots"][PARENTS[node][0]]}
        )
        beta = np.multiply.outer(np.exp(u), z)
        likelihood = network.likelihood(table).log_likelihood({node: beta.reshape(-1, 1)}).reshape(beta.shape)
        density[node] = beta, likelihood + norm.logpdf(z) + np.log(stretch)
    inside = {node: logsumexp(values, axis=1) for node, (_, values) in density.items()}
    weights = sum(inside.values()) + HYPERPRIORS[hyperprior].logpdf(np.exp(u), scale=1.5) + u
    log_evidence = logsumexp(weights) + np.log(u[1] - u[0])
    mass = np.exp(weights - logsumexp(weights))
    moments = {"prior_scale": [mass @ np.exp(k * u) for k in (1, 2)]}
    for node, (beta, values) in density.items():
        shares = np.exp(values - inside[node][:, None])
        moments[node] = [mass @ (shares * beta**k).sum(axis=1) for k in (1, 2)]
    return log_evidence, {node: (one, np.sqrt(two - one**2)) for node, (one, two) in moments.items()}


def worst(fit, exact):
    """Largest distance of the fit's means from the exact ones, and of its log evidence, in standard errors."""
    log_evidence, moments = exact
    found = [(fit.log_marginal_likelihood.value - log_evidence) / fit.log_marginal_likelihood.mcse]
    for node, (mean, _) in moments.items():
        estimate = fit.coefficient(node, fit.network.coefficients(node)[0])
        found.append((estimate.value - mean) / estimate.mcse)
    return float(np.abs(found).max())


@pytest.mark.parametrize(("n", "missing_cells"), [(4, 0.0), (60, 0.0), (2000, 0.0), (60, 0.2)])
def test_the_posterior_is_that_of_quadrature(n, missing_cells):
    network, table = case(n, missing_cells=missing_cells)
    fit = doxa.fit(network, table, draws=3000, seed=SEED + 1)
    assert fit.converged
    exact = by_quadrature(n, missing_cells=missing_cells)
    assert worst(fit, exact) < z_limit(4)
    spreads = fit.summary().set_index("node")["sd"]
    for node, (_, sd) in exact[1].items():
        assert spreads[node] == pytest.approx(sd, rel=0.1)


def test_a_half_cauchy_prior_is_that_of_quadrature():
    network, table = case(60, "half_cauchy")
    fit = doxa.fit(network, table, draws=4000, seed=SEED + 1)
    log_evidence, moments = by_quadrature(60, "half_cauchy")
    assert abs(fit.log_marginal_likelihood.value - log_evidence) < z_limit(3) * fit.log_marginal_likelihood.mcse
    for node in PARENTS:  # the scale itself has hardly a mean
        estimate = fit.coefficient(node, *PARENTS[node])
        assert abs(estimate.value - moments[node][0]) < z_limit(3) * estimate.mcse


@pytest.mark.parametrize("method", ["independence", "hmc", "random_walk", "flip"])
def test_every_kernel_keeps_it(method):
    network, table = case(30)
    draws = 400 if method == "hmc" else 1200  # of which each takes many steps
    fit = doxa.fit(network, table, method=method, chains=2, draws=draws, warmup=200, seed=SEED + 2)
    assert worst(fit, by_quadrature(30)) < z_limit(4 * 4)


@pytest.mark.parametrize("centring", [1.0, 0.5, 0.0])
def test_the_posterior_does_not_depend_on_the_coordinates(centring, monkeypatch):
    monkeypatch.setattr(approximate, "_CENTRINGS", (centring,))
    network, table = case(30)
    fit = doxa.fit(network, table, draws=3000, seed=SEED + 3)
    assert fit.part("y").approximation.endswith(f"power {1 - centring:g}")
    assert worst(fit, by_quadrature(30)) < z_limit(4 * 3)


@pytest.fixture
def jacobian(request, monkeypatch):
    """That of the logarithm of the scale, taken another number of times than once."""
    extra = request.param - 1
    right, slope = ScaledTarget._log_prior, ScaledTarget.value_and_gradient

    def wrong(self, thetas):
        return right(self, thetas) + extra * sum(thetas[:, group.scale] for group in self.groups)

    def wrong_slope(self, thetas):
        value, gradient = slope(self, thetas)
        gradient[:, [group.scale for group in self.groups]] += extra
        return value, gradient

    monkeypatch.setattr(ScaledTarget, "_log_prior", wrong)
    monkeypatch.setattr(ScaledTarget, "value_and_gradient", wrong_slope)


@pytest.mark.usefixtures("jacobian")
@pytest.mark.parametrize("jacobian", [0, 2], indirect=True)
def test_a_jacobian_left_out_is_seen():
    network, table = case(60)
    fit = doxa.fit(network, table, draws=3000, seed=SEED + 1)
    assert worst(fit, by_quadrature(60)) > 2 * z_limit(4)


def test_a_volume_left_out_of_the_coordinates_is_seen(monkeypatch):
    monkeypatch.setattr(approximate, "_CENTRINGS", (0.0,))
    monkeypatch.setattr(ScaledCoordinates, "log_volume", lambda self, thetas: np.zeros(thetas.shape[:-1]))
    network, table = case(60)
    fit = doxa.fit(network, table, method="independence", draws=3000, seed=SEED + 1)
    assert worst(fit, by_quadrature(60)) > 2 * z_limit(4)


def joint(seed=0, groups=None):
    network = LogisticNetwork(
        {"c": ["a", "b"], "d": ["a", "c"], "e": ["d"]},
        prior_scale=LearnedScale(groups, otherwise={"c": {"bias": 3.0}, "e": 2.0}),
        prior_mean={"c": [0.1, 0.2, 0.3], "d": 0.4},
    )
    rng = np.random.default_rng(seed)
    thetas = {node: rng.random(network.n_coefficients(node)) for node in network.parameters}
    return network, network.simulate(30, thetas, rng)


@pytest.mark.parametrize("groups", [None, {"low": ["c", "d"]}, {"low": ["c"], "high": ["e", "d"]}])
def test_densities_and_gradients_are_those_of_the_network(groups):
    network, table = joint(groups=groups)
    table = blanked(table, 0.1, np.random.default_rng(2))
    rng = np.random.default_rng(1)
    (part, *_) = [part for part in independent_parts(network, table) if not set(part.nodes).isdisjoint(network.scales)]
    target = ScaledTarget(network, part, table)
    thetas = rng.normal(size=(4, target.n_dimensions))
    parameters = target.packing.unpack(thetas)
    rest = {
        node: np.full((1, network.n_coefficients(node)), 0.5) for node in network.parameters if node not in part.nodes
    }
    change = thetas[:, [group.scale for group in target.groups]].sum(axis=1)
    change += sum((np.log(p) + np.log1p(-p)).sum(axis=1) for p in (parameters[root] for root in target.packing.roots))
    whole = network.log_joint(parameters | rest, table)
    np.testing.assert_allclose(np.diff(target.log_density(thetas)), np.diff(whole + change), atol=1e-9)
    coordinates = ScaledCoordinates(tuple(target.groups), 0.3)
    for one in (target, InCoordinates(target, coordinates)):
        steps = 1e-5 * np.eye(target.n_dimensions)
        slopes = [(one.log_density(thetas + step) - one.log_density(thetas - step)) / 2e-5 for step in steps]
        np.testing.assert_allclose(one.value_and_gradient(thetas).gradient, np.transpose(slopes), atol=1e-6)
    np.testing.assert_allclose(coordinates.outer(coordinates.inner(thetas)), thetas, atol=1e-12)


def test_the_prior_is_the_one_written_out():
    network, _ = joint(groups={"low": ["c", "d"]})
    thetas = {node: np.full(network.n_coefficients(node), 0.5) for node in network.parameters}
    expected = halfnorm.logpdf(0.5, scale=2.5)
    expected += norm.logpdf(0.5, 0.1, 3.0) + norm.logpdf(0.5, [0.2, 0.3], 0.5).sum()
    expected += norm.logpdf(0.5, 0.4, [10.0, 0.5, 0.5]).sum() + 2 * norm.logpdf(0.5, 0.0, 2.0)
    assert network.log_prior(thetas) == pytest.approx(expected)
    assert network.prior("d", 0.5).covariance.diagonal().tolist() == [100.0, 0.25, 0.25]
    batch = {node: np.tile(values, (3, 1)) for node, values in thetas.items()}
    np.testing.assert_allclose(network.log_prior(batch), expected)


def test_groups_have_scales_of_their_own():
    network, table = case(400, groups={"one": ["y"], "other": ["z"]})
    fit = doxa.fit(network, table, draws=1500, seed=1)
    frame = fit.summary().set_index("node")
    assert list(frame.index) == ["y", "z", "one", "other"]
    assert frame.loc["one", "mean"] > frame.loc["other", "mean"]
    assert [part.nodes for part in fit.report.parts] == [("y", "one"), ("z", "other")]


def test_a_fit_is_kept_gone_on_with_and_predicts(tmp_path):
    network, table = case(30)
    whole = doxa.fit(network, table, draws=300, warmup=50, seed=5)
    doxa.fit(network, table, draws=90, warmup=50, seed=5, store=tmp_path / "run.doxa")
    more = doxa.resume(tmp_path / "run.doxa", table, draws=300)
    assert np.array_equal(more.draws("prior_scale"), whole.draws("prior_scale"))
    loaded = doxa.load(tmp_path / "run.doxa", table)
    assert loaded.summary().equals(whole.summary())
    points = loaded.approximation("y").sample(5, np.random.default_rng(1))
    np.testing.assert_array_equal(points, whole.approximation("y").sample(5, np.random.default_rng(1)))
    whole.save(tmp_path / "saved.doxa")
    assert doxa.load(tmp_path / "saved.doxa").verdict == whole.verdict
    row = doxa.Table.from_codes(["a"], [["0", "1"]], [[1]])
    chance = 1 / (1 + np.exp(-0.3 - whole.draws("y")))
    found = whole.predict(row).set_index("node")["probability"]["y"]
    assert found == pytest.approx(chance.mean(), abs=0.02)
    assert whole.baseline().agrees


def test_a_network_survives_the_file():
    network, _ = joint(groups={"low": ["c"], "high": ["e", "d"]})
    stored = network_to_json(network)
    again = network_from_json(stored)
    assert network_to_json(again) == stored
    assert again.scales == {"low": ("c",), "high": ("d", "e")}
    assert "learned_scale" not in network_to_json(LogisticNetwork(PARENTS))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior_scale": "learnt"}, "prior_scale is 'learnt'"),
        (
            {"prior_scale": LearnedScale({"y": ["y"]})},
            "names a scale 'y'; the name of a scale is a text that no node has",
        ),
        ({"prior_scale": LearnedScale({"s": ["a"]})}, "names 'a', which is no node with parents"),
        ({"prior_scale": LearnedScale({"s": ["y"], "t": ["y"]})}, "names 'y' in 's' and in 't'"),
        ({"prior_scale": LearnedScale({"s": []})}, "has no nodes"),
        ({"prior_scale": LearnedScale({"s": "y"})}, "give a list of nodes"),
        ({"prior_scale": LearnedScale(otherwise=-1.0)}, "prior_scale of coefficient 'bias' of 'y' is -1"),
        ({"prior_scale": "learned", "prior_covariance": {"y": np.eye(2)}}, "whose scale is learned"),
    ],
)
def test_slips_are_named(options, message):
    with pytest.raises((ArgumentError, doxa.DoxaError), match=message):
        LogisticNetwork(PARENTS, **options)


def test_what_needs_a_gaussian_prior_says_so():
    network, table = case()
    for options, message in [
        ({"approximation": "laplace"}, "approximation='laplace' does not know learned scales"),
        ({"method": "augmentation"}, "data augmentation does not draw learned scales"),
        ({"method": "regeneration"}, "method='regeneration' does not draw learned scales"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            doxa.fit(network, table, **options)
    with pytest.raises(ArgumentError, match="has a scale that is learned"):
        network.regression("y", table)
    for wrong in ({"hyperprior": "uniform"}, {"width": 0.0}, {"width": np.inf}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            LearnedScale(**wrong)


def least_p(replications):
    """Of chi-square tests that ranks of the truth are uniform, times their number (Talts et al. 2018)."""
    network = LogisticNetwork(
        {"y": ["a", "b"], "z": ["b"]}, prior_scale=LearnedScale(width=1.0, otherwise=1.0), roots=0.25 * np.ones((2, 2))
    )
    rng, ranks = np.random.default_rng(SEED), []
    for k in range(replications):
        scale = np.abs(rng.standard_normal(1))
        thetas = {"prior_scale": scale}
        for node in ("y", "z"):
            sd = np.concatenate([[1.0], np.full(len(network.parents(node)), scale[0])])
            thetas[node] = sd * rng.standard_normal(len(sd))
        fit = doxa.fit(network, network.simulate(25, thetas, rng), chains=2, draws=120, warmup=40, seed=k, workers=1)
        drawn = [fit.draws(node)[:, 7::8].reshape(-1, fit.draws(node).shape[2])[:29] for node in thetas]
        ranks.append((np.concatenate(drawn, axis=1) < np.concatenate(list(thetas.values()))).sum(axis=0))
    counts = np.stack([np.bincount(column // 5, minlength=6) for column in np.array(ranks).T])
    statistic = ((counts - replications / 6) ** 2 / (replications / 6)).sum(axis=1)
    return float(chdtrc(5, statistic).min() * len(counts))


@pytest.mark.slow
def test_ranks_of_the_truth_are_uniform():
    assert least_p(150) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.usefixtures("jacobian")
@pytest.mark.parametrize("jacobian", [2], indirect=True)  # without any the prior is improper
def test_ranks_with_another_jacobian_are_not():
    assert least_p(150) < FALSE_ALARM
