"""The ascent, update by update: the bound against one written out, q against formulas, steps that never go down."""

from __future__ import annotations

import numpy as np
import pytest
from hidden_cases import (
    FORMS,
    XIS,
    joint_law,
    problem_of,
    q_written_out,
    random_case,
    random_fit,
    random_q,
    random_thetas,
    written_out,
)

from doxa.models import LogisticNetwork
from doxa.parameters.variational.bound import lambda_of
from doxa.parameters.variational.hidden import ascent as ascent_module
from doxa.parameters.variational.hidden import families as roots
from doxa.parameters.variational.hidden import problem as rows
from doxa.parameters.variational.hidden.ascent import ascend
from support.checks import SEED

ROUNDING = 1e-10  # relative to 1 + |bound|


def combinations(k):
    """A form and a kind of xi for case k; a group size for the structured form."""
    form, xi = FORMS[k % 3], XIS[k // 3 % 2]
    return form, xi, 2 + k % 2 if form == "structured" else None


def worst_difference(n_cases):
    """Between the bound of a fit with its best xi and the same written out, relative to 1 + its size."""
    worst = 0.0
    for k in range(n_cases):
        rng = np.random.default_rng([SEED, k])
        network, table = random_case(rng, most=5)
        problem = problem_of(network, table, *combinations(k))
        fit = random_fit(problem, rng)
        for _ in range(4000):  # the best xi for this q
            new = problem.ascent.fit(fit.next_xi, fit.q)
            done = abs(new.log_bound - fit.log_bound) < 1e-10
            fit = new
            if done:
                break
        expected = written_out(problem, table, fit)
        worst = max(worst, abs(fit.log_bound - expected) / (1 + abs(expected)))
    return worst


def test_the_bound_is_the_one_written_out():
    assert worst_difference(90) < 1e-8


@pytest.mark.slow
def test_the_bound_is_the_one_written_out_in_many_cases():
    assert worst_difference(2000) < 1e-8


def test_a_bound_without_a_root_or_with_another_xi_is_not_the_one_written_out(monkeypatch):
    right = roots.LearnedRoot.fit
    monkeypatch.setattr(roots.LearnedRoot, "fit", lambda self, q: right(self, q)._replace(log_bound=0.0))
    assert worst_difference(36) > 1e-3
    monkeypatch.undo()
    best = rows.RowFamily.fit
    monkeypatch.setattr(
        rows.RowFamily, "fit", lambda self, xi, q: (fit := best(self, xi, q))._replace(next_xi=1.2 * fit.next_xi)
    )
    assert worst_difference(36) > 1e-5


@pytest.mark.parametrize("xi", XIS)
def test_unconstrained_q_is_equation_65(xi):
    worst = 0.0
    for k in range(25):
        rng = np.random.default_rng([SEED, k])
        network, table = random_case(rng, most=5)
        problem = problem_of(network, table, "unconstrained", xi)
        ascent, q = problem.ascent, random_q(problem, rng)
        fit = random_fit(problem, rng)
        new = ascent.better_q(fit.families, fit.roots, ascent.best_xi(fit.families, q), q)
        for c, local, nodes, law in q_written_out(problem, fit.families, fit.roots, q):
            found_nodes, found = joint_law(problem, new, c)
            assert found_nodes == nodes
            worst = max(worst, *(abs(found[local][cells] - p) for cells, p in law.items()))
    assert worst < 1e-10


def mean_field_case():
    """h1 and h2 hidden, with observed children c1 and c2, of which h2 is a child of h1 and o too; a firm prior."""
    network = LogisticNetwork(
        {"h2": ["h1", "o"], "c1": ["h1", "h2", "o"], "c2": ["h2"]},
        bias={"h2": 0.4, "c1": -0.7, "c2": 0.2},
        prior_mean=1.2,
        prior_scale=0.3,
        roots={"h1": 0.3},
    )
    rng = np.random.default_rng(SEED)
    thetas = {"h2": [1.0, -0.5], "c1": [1.5, 1.0, 1.0], "c2": [1.5], "o": [0.4]}
    table = network.simulate(200, thetas, rng).select(["o", "c1", "c2"])
    return network, table, rng


def test_mean_field_updates_are_those_of_de_freitas_et_al_corrected():
    """With m = 2 lambda - 1 (observed: m = x): their eqs. 7 and 8 with children's factors and the quadratic term."""
    network, table, rng = mean_field_case()
    problem = problem_of(network, table, "mean_field", "row")
    ascent, fit = problem.ascent, random_fit(problem, rng)
    xi = ascent.best_xi(fit.families, fit.q)
    new = ascent.better_q(fit.families, fit.roots, xi, fit.q)
    place = {name: k for k, name in enumerate(network.names)}
    (component,) = problem.components
    by_node = {block.nodes[0]: block for stage in ascent.layout.stages for block in stage.blocks}

    def means(q):
        m = 2.0 * component.codes - 1
        for node, block in by_node.items():
            m[:, node] = 2 * q[block.place].reshape(block.shape)[:, 1] - 1
        return m

    m = means(fit.q)
    moments, phi = {}, {}
    for family, found in zip(ascent.families, fit.families, strict=True):
        root = family.coordinates.root
        mu = family.coordinates.prior_mean + root @ found.mean
        sigma = root @ found.factor @ found.factor.T @ root.T
        moments[family.node] = mu, sigma
        x = m[:, [place[parent] for parent in network.parents(family.node)]]
        alpha, outer = network.bias(family.node), sigma + np.outer(mu, mu)
        second = alpha**2 + 2 * alpha * x @ mu + np.einsum("ti,ij,tj->t", x, outer, x) + (1 - x * x) @ np.diag(outer)
        phi[family.node] = lambda_of(np.sqrt(second))
    for node in [next(network.names[v] for v in stage.blocks[0].nodes) for stage in ascent.layout.stages]:
        if node == "h1":
            logit = np.full(len(m), np.log(0.3 / 0.7))
        else:
            mu, _ = moments[node]
            logit = network.bias(node) + m[:, [place[p] for p in network.parents(node)]] @ mu
        for child in [c for c in moments if node in network.parents(c)]:
            mu, sigma = moments[child]
            parents = network.parents(child)
            j = parents.index(node)
            term = network.bias(child) * mu[j]
            for k, parent in enumerate(parents):
                if k != j:
                    term = term + (sigma[j, k] + mu[j] * mu[k]) * m[:, place[parent]]
            logit = logit + m[:, place[child]] * mu[j] - 4 * phi[child] * term
        m[:, place[node]] = 2 / (1 + np.exp(-logit)) - 1
    assert np.abs(means(new) - m).max() < 1e-12


def largest_fall(n_cases, n_steps=12, only=None):
    """Of the bound in plain steps from a random point, relative to 1 + its size; and how many steps were taken."""
    worst, taken = 0.0, 0
    for k in range(n_cases):
        rng = np.random.default_rng([SEED, k])
        network, table = random_case(rng)
        form, xi, group_size = only or combinations(k)
        problem = problem_of(network, table, form, xi, group_size)
        fit = random_fit(problem, rng)
        for _ in range(n_steps):
            new = problem.ascent.step(fit)
            worst = max(worst, (fit.log_bound - new.log_bound) / (1 + abs(fit.log_bound)))
            fit = new
            taken += 1
    return worst


def test_plain_steps_never_lower_the_bound():
    assert largest_fall(100) < ROUNDING


@pytest.mark.slow
def test_plain_steps_never_lower_the_bound_in_ten_thousand_cases():
    assert largest_fall(10_000, 5) < ROUNDING


def equation_8_as_printed(monkeypatch):
    """No quadratic term."""
    right = rows.RowFamily.terms

    def terms(self, mean, factor, xi, q):
        out = right(self, mean, factor, xi, q)
        out._slope = np.zeros_like(out._slope)
        return out

    monkeypatch.setattr(rows.RowFamily, "terms", terms)


def equation_7_as_printed(monkeypatch):
    """A cell's own factor only, none of its children's."""
    right = rows._RowTerms.add

    def add(self, stage, q, logits):
        part = self._parts[stage]
        own = logits.copy()
        right(self, stage, q, own)
        if part is not None:
            mine = part.has_child[part.share.entry]
            logits[part.share.position[mine]] = own[part.share.position[mine]]

    monkeypatch.setattr(rows._RowTerms, "add", add)


def without_factors_of_roots(monkeypatch):
    monkeypatch.setattr(roots.LearnedRoot, "add", lambda self, fit, stage, logits: None)
    right = ascent_module.Ascent.better_q

    def better_q(self, fits, root_fits, xi, q):
        given = self._log_given
        self._log_given = np.where(np.isneginf(given), given, 0.0)
        out = right(self, fits, root_fits, xi, q)
        self._log_given = given
        return out

    monkeypatch.setattr(ascent_module.Ascent, "better_q", better_q)


def with_stale_means(monkeypatch):
    monkeypatch.setattr(rows._RowTerms, "moved", lambda self, stage, q: None)


BROKEN = [equation_8_as_printed, equation_7_as_printed, without_factors_of_roots, with_stale_means]


@pytest.mark.parametrize("broken", BROKEN)
def test_updates_as_printed_lower_the_bound(monkeypatch, broken):
    broken(monkeypatch)
    assert largest_fall(40, only=("mean_field", "row", None)) > 1e5 * ROUNDING


@pytest.mark.parametrize("broken", BROKEN[:3])
def test_updates_as_printed_leave_the_optimum(monkeypatch, broken):
    """Their fixed points are not optima of the bound from which they are derived."""
    network, table, rng = mean_field_case()
    problem = problem_of(network, table, "mean_field", "row")
    best = ascend(problem.ascent, random_fit(problem, rng), tolerance=1e-13).fit

    def after(fit, n_steps):
        for _ in range(n_steps):
            fit = problem.ascent.step(fit)
        return fit

    assert abs(after(best, 20).log_bound - best.log_bound) < 1e-6
    broken(monkeypatch)
    wrong = after(best, 60)
    assert wrong.log_bound < best.log_bound - 0.05
    monkeypatch.undo()
    assert after(wrong, 60).log_bound > wrong.log_bound + 0.05


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("xi", XIS)
def test_no_point_near_the_optimum_is_better(form, xi):
    for k in range(6):
        rng = np.random.default_rng([SEED, k])
        network, table = random_case(rng, most=4)
        problem = problem_of(network, table, form, xi)
        top = ascend(problem.ascent, random_fit(problem, rng), tolerance=1e-14).fit
        for size in (1e-3, 1e-2, 0.1):
            for _ in range(5):
                noise = size * rng.standard_normal(problem.ascent.layout.n)
                q = problem.ascent.normalised(np.log(np.maximum(top.q, 1e-300)) + noise)
                xis = np.abs(top.next_xi + size * rng.standard_normal(top.xi.size))
                assert problem.ascent.fit(xis, q).log_bound <= top.log_bound + 1e-7 * (1 + abs(top.log_bound))


def test_ascending_only_goes_up_and_ends_where_plain_steps_end():
    for k in range(12):
        rng = np.random.default_rng([SEED, k])
        network, table = random_case(rng, most=4)
        problem = problem_of(network, table, *combinations(k))
        begin = random_fit(problem, rng)
        top = ascend(problem.ascent, begin)
        assert top.converged
        assert (np.diff(top.trace) > 0).all()
        plain = ascend(problem.ascent, top.fit, memory=0, max_iterations=3000)
        assert plain.fit.log_bound <= top.fit.log_bound + 1e-4


def test_ascending_gets_there_while_plain_steps_are_on_their_way_along_a_ridge():
    network = LogisticNetwork({"y": [f"x{j}" for j in range(4)]})
    rng = np.random.default_rng(SEED)
    table = network.simulate(1000, random_thetas(network, rng), rng).select(["y", "x0", "x1"])
    problem = problem_of(network, table)
    begin = random_fit(problem, rng)
    fast = ascend(problem.ascent, begin)
    slow = ascend(problem.ascent, begin, memory=0, max_iterations=fast.n_iterations)
    assert fast.converged
    assert fast.fit.log_bound > slow.fit.log_bound + 0.02
