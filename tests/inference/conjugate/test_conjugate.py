"""Mean field for conjugate networks: bound, updates and moments against quadrature, sums and draws; broken twins."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import gamma, multivariate_normal, norm

import doxa
from doxa.inference import conjugate
from doxa.inference.conjugate import Categorical, Gamma, GammaFactor, GaussianFactor, Mixture, Normal
from doxa.inference.mean_field import ascend
from support.checks import SEED

X = np.array([[1.0, -1.2], [1.0, -0.3], [1.0, 0.1], [1.0, 0.8], [1.0, 2.0]])
Y = np.array([-2.0, 0.1, 0.3, 1.6, 3.1])
SEEN = np.array([-1.9, -1.2, 0.2, 1.5, 2.6])


def regression(precision="noise"):
    nodes = {"weights": Normal([0.5, 1.0], [0.2, 0.5]), "noise": Gamma(1.5, 0.8)}
    return nodes | {"y": Normal(0.1, precision, slopes={"weights": X})}


def mixture():
    """Two groups of observations with a shared unknown precision, and shares that depend on a variable of their own."""
    n = len(SEEN)
    column = np.ones((n, 1))
    return {
        "season": Categorical([0.3, 0.7]),
        "low": Normal(-1.0, 0.5),
        "high": Normal(1.0, 0.3),
        "precision": Gamma(2.0, 1.0),
        "group": Categorical([[0.6, 0.4], [0.2, 0.8]], parents=["season"], size=n),
        "x": Mixture("group", [Normal(precision="precision", slopes={k: column}) for k in ("low", "high")]),
    }


def layered():
    """A hidden vector below a hidden vector, with a precision for each coefficient, a mixture that none observed."""
    return {
        "scales": Gamma(2.0, [1.0, 2.0], size=2),
        "weights": Normal(precision="scales", size=2),
        "noise": Gamma(3.0, 2.0),
        "level": Normal(0.5, 2.0),
        "hidden": Normal(precision="noise", slopes={"weights": X, "level": np.ones((5, 1))}),
        "y": Normal(precision=4.0, slopes={"hidden": 1.0}, size=5),
        "which": Categorical([0.5, 0.5, 1.0]),
        "where": Mixture("which", [Normal(-1.0, 2.0), Normal(1.0, "noise"), Normal(slopes={"level": 2.0})]),
    }


CASES = {"regression": (regression, "y", Y), "mixture": (mixture, "x", SEEN), "layered": (layered, "y", Y)}


def problem_of(case):
    make, name, value = CASES[case]
    return conjugate.conjugate_problem(make(), {name: value})


def log_marginal_normal(y, mean, covariance):
    return multivariate_normal.logpdf(y, mean, covariance)


@functools.cache
def regression_by_quadrature():
    """Log evidence, and the means of the weights and of the precision, from a grid of the log precision."""
    u = np.linspace(-12, 6, 6001)
    mean, prior = np.array([0.5, 1.0]), np.diag([1 / 0.2, 1 / 0.5])
    log_p, weights = [], []
    for tau in np.exp(u):
        covariance = X @ prior @ X.T + np.eye(5) / tau
        gain = prior @ X.T @ np.linalg.inv(covariance)
        rest = Y - 0.1 - X @ mean
        weights.append(mean + gain @ rest)
        log_p.append(log_marginal_normal(rest, np.zeros(5), covariance) + gamma.logpdf(tau, 1.5, scale=1 / 0.8))
    log_p = np.array(log_p) + u
    mass = np.exp(log_p - logsumexp(log_p))
    return logsumexp(log_p) + np.log(u[1] - u[0]), mass @ np.array(weights), mass @ np.exp(u)


def mixture_log_evidence():
    """Sums over the season and the groups, means integrated out, a grid for the precision."""
    u = np.linspace(-8, 5, 300)
    prior = gamma.logpdf(np.exp(u), 2.0, scale=1.0) + u
    total = []
    for groups in itertools.product([0, 1], repeat=len(SEEN)):
        groups = np.array(groups)
        shares = np.array([[0.6, 0.4], [0.2, 0.8]])[:, groups].prod(axis=1) @ [0.3, 0.7]
        mean = np.where(groups == 0, -1.0, 1.0)
        shared = (groups[:, None] == groups) * np.where(groups == 0, 1 / 0.5, 1 / 0.3)
        values, vectors = np.linalg.eigh(shared)
        rest = vectors.T @ (SEEN - mean)
        spread = np.sqrt(values + 1 / np.exp(u)[:, None])
        total.append(np.log(shares) + logsumexp(prior + norm.logpdf(rest, scale=spread).sum(axis=1)))
    return logsumexp(total) + np.log(u[1] - u[0])


def statistics(factor):
    """Expected sufficient statistics, in the order of the natural parameters."""
    if isinstance(factor, GaussianFactor):
        return np.concatenate([factor.mean, (factor.covariance + np.outer(factor.mean, factor.mean)).ravel()])
    if isinstance(factor, GammaFactor):
        return np.concatenate([factor.mean_log, factor.mean])
    return factor.mean.ravel()


def log_q_and_log_p(problem, q, n, rng):
    """Draws of q with their log density, and that of the network, written out node by node."""
    draws, log_q = {name: np.broadcast_to(k.mean, (n, *k.mean.shape)) for name, k in problem.given.items()}, 0.0
    for name in problem.order:
        factor = q[name]
        if isinstance(factor, GaussianFactor):
            draws[name] = factor.sample(n, rng)
            log_q = log_q + multivariate_normal.logpdf(draws[name], factor.mean, factor.covariance)
        elif isinstance(factor, GammaFactor):
            draws[name] = rng.gamma(factor.shape, 1 / factor.rate, (n, len(factor.shape)))
            log_q = log_q + gamma.logpdf(draws[name], factor.shape, scale=1 / factor.rate).sum(axis=1)
        else:
            u = rng.random((n, len(factor.mean), 1))
            state = np.minimum((u > factor.mean.cumsum(axis=1)).sum(axis=2), factor.mean.shape[1] - 1)
            draws[name] = np.eye(factor.mean.shape[1])[state]
            log_q = log_q + (draws[name] * factor.log_mean).sum(axis=(1, 2))
    return log_q, sum(log_density(node, draws, name) for name, node in problem.nodes.items())


def log_density(node, draws, name):
    own = draws[name]
    if isinstance(node, Gamma):
        return gamma.logpdf(own, node.shape, scale=1 / node.rate).sum(axis=1)
    if isinstance(node, Categorical):
        states = [draws[other].argmax(axis=2) for other in (*node.parents, name)]
        return node.log_weights[tuple(np.broadcast_arrays(*states))].sum(axis=1)
    terms = []
    for component in node.components:
        mean = component.offset + sum((draws[p] @ a.T for p, a in component.slopes.items()), 0.0)
        named = isinstance(component.precision, str)
        precision = draws[component.precision] if named else component.precision.mean
        terms.append(norm.logpdf(own, mean, 1 / np.sqrt(precision)))
    weights = draws[node.chooser] if isinstance(node, Mixture) else np.ones((*own.shape, 1))
    return (np.stack(terms, axis=2) * weights).sum(axis=(1, 2))


def written_out_gap(case, n=20_000):
    """How far the bound is from its average over draws, in standard errors."""
    rng, problem = np.random.default_rng(SEED), problem_of(case)
    q, _ = problem.step(problem.start(rng))
    log_q, log_p = log_q_and_log_p(problem, q, n, rng)
    terms = log_p - log_q
    return abs(problem.elbo(q) - terms.mean()) / (terms.std() / np.sqrt(n))


def derivative_gap(case):
    """Largest difference of the bound's change from natural parameters times the change of the statistics."""
    rng, problem, worst = np.random.default_rng(SEED), problem_of(case), 0.0
    for _ in range(5):
        one, other = problem.start(rng), problem.step(problem.start(rng))[0]
        for name in problem.order:
            q = {**one, name: other[name]}
            expected = [problem.elbo(p) - problem.entropy(p) for p in (one, q)]
            change = statistics(q[name]) - statistics(one[name])
            by_messages = problem.natural(one, name) @ change
            worst = max(worst, abs(expected[1] - expected[0] - by_messages) / (1 + abs(by_messages)))
    return worst


def worst_fall(case):
    """Largest fall of the bound in an update."""
    rng, problem, worst = np.random.default_rng(SEED), problem_of(case), -np.inf
    for _ in range(5):
        q = problem.start(rng)
        before = problem.elbo(q)
        for name in problem.order * 10:
            q = problem.updated(q, name)
            after = problem.elbo(q)
            worst, before = max(worst, before - after), after
    return worst


@pytest.mark.parametrize("case", CASES)
def test_the_bound_is_the_one_written_out(case):
    assert written_out_gap(case) < 5


@pytest.mark.parametrize("case", CASES)
def test_messages_are_the_derivatives_of_the_bound(case):
    assert derivative_gap(case) < 1e-10


@pytest.mark.parametrize("case", CASES)
def test_no_update_lowers_the_bound(case):
    assert worst_fall(case) < 1e-9


@pytest.mark.parametrize("case", CASES)
def test_the_bound_is_stationary_at_the_end_and_not_before(case):
    rng, problem = np.random.default_rng(SEED), problem_of(case)
    q = problem.start(rng)
    assert slope(problem, q, rng) > 1e-3
    q = ascend(problem, q, tolerance=1e-11, max_sweeps=5000).q
    assert slope(problem, q, rng) < 1e-5


def slope(problem, q, rng):
    """Largest derivative of the bound by the natural parameters of a factor, in random directions."""
    found = 0.0
    for name in problem.order:
        node, natural = problem.nodes[name], q[name].natural
        for _ in range(3):
            step = 1e-5 * natural * rng.standard_normal(natural.size)
            if isinstance(q[name], GaussianFactor):  # second statistics are symmetric, and the precision stays positive
                square = step[node.size :].reshape(node.size, node.size)
                step[node.size :] = (0.5 * (square + square.T)).ravel()
            ends = [problem.elbo({**q, name: node.family.from_natural(natural + s * step, node.size)}) for s in (1, -1)]
            found = max(found, abs(ends[0] - ends[1]) / 2e-5)
    return found


def without_spread(self, name, q):
    return (q[name].mean - self._mean(q)) ** 2 + q[name].variances()


def log_of_mean(self):
    return np.log(self.mean)


@pytest.fixture
def broken(request, monkeypatch):
    """One expectation wrong: the squares forget the parents' variances, or E log is taken for log E."""
    target, attribute, wrong = {
        "squares": (Normal, "_squares", without_spread),
        "logarithm": (GammaFactor, "mean_log", property(log_of_mean)),
    }[request.param]
    monkeypatch.setattr(target, attribute, wrong)


@pytest.mark.parametrize("broken", ["squares", "logarithm"], indirect=True)
def test_a_wrong_expectation_is_seen_by_the_draws(broken):
    assert written_out_gap("regression") > 20


@pytest.mark.parametrize("broken", ["squares"], indirect=True)
def test_a_wrong_expectation_is_seen_by_the_derivatives_and_the_falls(broken):
    assert derivative_gap("regression") > 1e-3
    assert worst_fall("regression") > 1e-3


@pytest.mark.parametrize("broken", ["squares", "logarithm"], indirect=True)
def test_a_wrong_expectation_breaks_the_bound(broken):
    problem = problem_of("regression")
    q = problem.start()
    for _ in range(100):
        q, _ = problem.step(q)
    assert problem.elbo(q) > regression_by_quadrature()[0] + 1e-3


def exact_gamma_evidence():
    u = np.linspace(-12, 6, 4001)
    log_p = norm.logpdf(Y[:, None], (0.1 + X @ [0.4, 1.3])[:, None], np.exp(-0.5 * u)).sum(axis=0)
    log_p = log_p + gamma.logpdf(np.exp(u), 1.5, scale=1 / 0.8) + u
    weights = norm.logpdf([0.4, 1.3], [0.5, 1.0], 1 / np.sqrt([0.2, 0.5])).sum()
    return logsumexp(log_p) + np.log(u[1] - u[0]) + weights


def test_a_regression_with_unknown_precision_is_near_the_exact_one():
    log_evidence, weights, noise = regression_by_quadrature()
    fit = conjugate.conjugate_mean_field(regression(), {"y": Y}, seed=1)
    assert fit.converged
    assert log_evidence - 0.5 < fit.log_evidence_bound < log_evidence
    np.testing.assert_allclose(fit["weights"].mean, weights, atol=0.1 * fit["weights"].sd.max())
    np.testing.assert_allclose(fit["noise"].mean, noise, rtol=0.1)
    assert (np.diff(fit.bounds) >= 0).all()
    assert len(fit.starts) == 4


def test_a_mixture_of_gaussians_is_below_its_evidence():
    log_evidence = mixture_log_evidence()
    fit = conjugate.conjugate_mean_field(mixture(), {"x": SEEN}, starts=6, seed=1)
    assert log_evidence - 2.5 < fit.log_evidence_bound < log_evidence
    assert all(start.log_z_bound < log_evidence for start in fit.starts)
    assert fit["low"].mean[0] < 0 < fit["high"].mean[0]
    assert (fit["group"].mean[[0, -1], [0, 1]] > 0.8).all()


def test_where_mean_field_is_exact_it_is_the_posterior():
    alone = conjugate.conjugate_mean_field(regression(2.0), {"y": Y, "noise": 1.0})
    prior = np.diag([1 / 0.2, 1 / 0.5])
    marginal = X @ prior @ X.T + np.eye(5) / 2
    expected = log_marginal_normal(Y, 0.1 + X @ [0.5, 1.0], marginal) + gamma.logpdf(1.0, 1.5, scale=1 / 0.8)
    assert alone.exact
    assert alone.log_evidence_bound == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(alone["weights"].precision(), np.diag([0.2, 0.5]) + 2 * X.T @ X)
    noise = conjugate.conjugate_mean_field(regression(), {"y": Y, "weights": [0.4, 1.3]})
    assert noise.exact
    assert noise.log_evidence_bound == pytest.approx(exact_gamma_evidence(), abs=1e-6)
    chosen = {"which": Categorical([1.0, 3.0]), "x": Mixture("which", [Normal(-1.0, 1.0), Normal(1.0, 2.0)])}
    groups = conjugate.conjugate_mean_field(chosen, {"x": 0.3})
    weight = np.array([1.0, 3.0]) * norm.pdf(0.3, [-1.0, 1.0], [1.0, 1 / np.sqrt(2)])
    np.testing.assert_allclose(groups["which"].mean[0], weight / weight.sum())
    assert groups.log_evidence_bound == pytest.approx(np.log(weight.sum()))
    assert not conjugate.conjugate_mean_field(regression(), {"y": Y}).exact


def test_an_unnormalised_mixture_has_a_maximum_for_each_mode():
    nodes = {"which": Categorical([2.0, 5.0]), "x": Mixture("which", [Normal(-6.0, 1.0), Normal(6.0, 1.0)])}
    fit = conjugate.conjugate_mean_field(nodes, {}, starts=12, seed=1)
    found = {round(start.log_z_bound, 4) for start in fit.starts}
    assert {round(np.log(2.0), 4), round(np.log(5.0), 4)} <= found  # each mode alone; log Z is log 7
    assert fit.log_evidence_bound == pytest.approx(np.log(5.0), abs=1e-4)
    assert fit["x"].mean[0] == pytest.approx(6.0, abs=1e-3)


def test_the_same_seed_gives_the_same_fit():
    one, other = (conjugate.conjugate_mean_field(mixture(), {"x": SEEN}, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.bounds, other.bounds)


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        ({"weights": Gamma(1.0, 1.0, size=2)}, {}, "is a Gamma; it must be a Normal or a Mixture"),
        ({"noise": Normal()}, {}, "'noise', a parent of 'y', is a Normal; it must be a Gamma"),
        ({"noise": Gamma(1.0, 1.0, size=2)}, {}, "'noise' has size 2; as a parent of 'y' it must have 1 or 5"),
        ({"weights": Normal(size=3)}, {}, "have 2 columns; 'weights' has size 3"),
        ({"y": Normal(slopes={"wieghts": X})}, {}, "'y' has the parent 'wieghts', which is no node"),
        ({"weights": Normal(slopes={"y": np.ones((2, 5))})}, {}, "cycle"),
        ({}, {"z": 1.0}, "given has 'z', which is no node"),
        ({}, {"y": [1.0, 2.0]}, r"given\['y'\] has shape \(2,\); it must be a number or have shape \(5,\)"),
        ({}, {"y": np.full(5, np.nan)}, r"given\['y'\] has NaN or infinity"),
        ({}, {"noise": -1.0}, r"given\['noise'\] is -1.0; numbers must be finite and above 0"),
        ({"kind": Categorical([1.0, 1.0])}, {"kind": 2}, r"has the state 2; states are 0 to 1"),
        ({"noise": 1.0}, {}, r"nodes\['noise'\] is 1.0; give a Normal"),
        ({"kind": Categorical([1.0, 1.0]), "y": Mixture("kind", [Normal()])}, {}, "size 1 and 2 states"),
    ],
)
def test_slips_are_named(change, given, message):
    with pytest.raises(doxa.DoxaError, match=message):
        conjugate.conjugate_mean_field(regression() | change, given)


def test_nodes_refuse_what_they_cannot_be():
    for make, message in [
        (lambda: Normal(precision=0.0), "precision is 0.0; numbers must be finite and above 0"),
        (lambda: Normal([1.0, 2.0], size=3), r"mean has shape \(2,\); it must be a number or have shape \(3,\)"),
        (lambda: Normal(slopes={"w": np.ones((2, 1))}, size=3), r"slopes\['w'\] has shape \(2, 1\)"),
        (lambda: Gamma(-1.0, 1.0), "shape is -1.0; numbers must be finite and above 0"),
        (lambda: Categorical([0.0, 1.0]), "weights is .*; numbers must be finite and above 0"),
        (lambda: Categorical([1.0, 1.0], parents=["z"]), "weights has shape .2,.; 1 parents need an axis each"),
        (lambda: Mixture("z", []), r"components have the sizes \[\]"),
        (lambda: conjugate.conjugate_mean_field({}, {}, tolerance=0.0), "tolerance is 0.0; it must be above 0"),
    ]:
        with pytest.raises(doxa.DoxaError, match=message):
            make()
