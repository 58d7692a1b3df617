"""Mean field among zeros: possible products are found, hard constraints are reported, blocks repair them."""

from __future__ import annotations

from itertools import product

import mean_field_cases as cases
import numpy as np
import pytest

from doxa.inference.exact import plan_contraction
from doxa.inference.mean_field import ImpossibleError, SearchStoppedError, mean_field, mean_field_problem
from doxa.inference.mean_field import support as support_module
from doxa.inference.mean_field.support import Ground
from doxa.inference.problem import prepare
from doxa.models import Dag
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.models.factors import Factor
from support.checks import SEED
from support.networks import load_network
from support.small_networks import joint

OFF = -np.inf
SAME = np.array([[0.0, OFF], [OFF, 0.0]])


def colouring(n, edges, q):
    """No two ends of an edge in the same state."""
    table = np.where(np.eye(q, dtype=bool), OFF, 0.0)
    return [q] * n, [Factor(edge, table) for edge in edges]


def test_naive_mean_field_holds_one_configuration_of_a_hard_equality_and_says_so():
    factors = [Factor((0, 1), SAME), Factor((0,), np.log([0.4, 0.6]))]
    fit = mean_field([2, 2], factors, seed=1)
    assert fit.log_z_bound == pytest.approx(np.log(0.6))  # of 1: the larger of the two configurations
    assert dict(fit.excluded) == {0: (0,), 1: (0,)}
    assert "hard constraints cost 2 variables states that are possible" in repr(fit)
    joined = mean_field([2, 2], factors, blocks=[[0, 1]])
    assert joined.log_z_bound == pytest.approx(0.0, abs=1e-12)
    assert not joined.excluded
    np.testing.assert_allclose(joined.marginals[1], [0.4, 0.6])


def test_states_that_a_factor_alone_rules_out_are_not_reported():
    fit = mean_field([2, 2], [Factor((0, 1), SAME), Factor((0,), np.array([OFF, 0.0]))])
    assert not fit.excluded
    np.testing.assert_array_equal(fit.marginals[1], [0.0, 1.0])
    assert fit.log_z_bound == 0.0


def test_the_products_found_meet_nothing_forbidden_and_hold_as_many_states_as_they_can():
    """The search's products against enumeration; after a sweep no state can be added."""
    n_cut = 0
    for network, problem, q in cases.problems(200, zeros=0.4):
        forbidden = joint(network) == 0
        full = cases.product_of(problem, problem.tables(q))
        assert not (full[forbidden] > 0).any()
        swept, _ = problem.step(q)
        assert ((swept > 0) | (q == 0)).all()  # support only grows
        alone = all(len(block) == 1 for block in problem.blocks)
        n_cut += alone and bool((full[~forbidden] == 0).any())
    assert n_cut > 10


def test_some_configurations_are_possible_where_the_search_says_so_and_only_there():
    n_hard = 0
    for k in range(300):
        rng = np.random.default_rng([SEED, k])
        n, q = 6, 3
        edges = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.7]
        n_states, factors = colouring(n, edges, q)
        possible = any(all(x[i] != x[j] for i, j in edges) for x in product(range(q), repeat=n))
        problem = mean_field_problem(n_states, factors)
        ground = Ground(problem.layout, problem.values, problem.base)  # no single factor says anything here
        assert ground.possible.all()
        preference = rng.random(problem.layout.n_q) + 0.01
        if possible:
            x = ground.configuration(preference)
            assert all(x[i] != x[j] for i, j in edges)
        else:
            n_hard += 1
            with pytest.raises(ImpossibleError, match="every configuration the probability 0"):
                ground.configuration(preference)
    assert 30 < n_hard < 270


def test_a_search_that_takes_too_long_is_given_up_with_a_way_out(monkeypatch):
    edges = [(i, j) for i in range(9) for j in range(i + 1, 9) if (i - j) % 3]
    n_states, factors = colouring(9, edges, 3)
    monkeypatch.setattr(support_module, "_DECISIONS", 1 - 20 * 9)
    with pytest.raises(SearchStoppedError, match="found in 1 decisions; give one as start, or put variables"):
        mean_field(n_states, factors, seed=1)
    fit = mean_field(n_states, factors, starts=0, start=[v % 3 for v in range(9)])
    assert fit.starts[0].kind == "given"
    assert fit.log_z_bound == pytest.approx(0.0)


def test_a_start_is_kept_in_its_product():
    n_states, factors = colouring(4, [(0, 1), (1, 2), (2, 3)], 2)
    for start in ([0, 1, 0, 1], [1, 0, 1, 0]):
        fit = mean_field(n_states, factors, starts=0, start=start)
        assert [int(p.argmax()) for p in fit.marginals] == start
        assert fit.bounds[-1] == pytest.approx(0.0)


def test_tiny_probabilities_of_what_is_forbidden_are_not_lost():
    """1e-200 times 1e-200 is 0 in floats; the configuration is as forbidden as before."""
    cube = np.zeros((2, 2, 2))
    cube[1, 1, 1] = OFF
    problem = mean_field_problem([2, 2, 2], [Factor((0, 1, 2), cube)])
    q = problem.flat([[1 - 1e-200, 1e-200], [1 - 1e-200, 1e-200], [1.0, 0.0]])
    assert problem.elbo(q) > -np.inf
    np.testing.assert_array_equal(problem.logits(q, 2), [0.0, OFF])
    q[-2:] = 0.5
    assert problem.elbo(q) == OFF


def test_impossible_networks_are_refused():
    with pytest.raises(ImpossibleError, match="every configuration the probability 0; there is nothing"):
        mean_field([2, 2], [Factor((0, 1), SAME), Factor((0,), np.array([0.0, OFF])), Factor((1,), np.array([OFF, 0]))])


@pytest.mark.parametrize(("name", "n_observed"), [("alarm", 7), ("hailfinder", 11), ("win95pts", 15), ("pigs", 20)])
def test_reference_networks_with_evidence(name, n_observed):
    """Bounds below the exact log evidence; those of blocks of two or three are better where zeros were in the way."""
    reference = load_network(name)
    states = dict(zip(reference.dag.names, reference.states, strict=True))
    tables = {
        node: table.transpose(*np.argsort(order), len(order))
        / table.transpose(*np.argsort(order), len(order)).sum(axis=-1, keepdims=True)
        for node, table, order in zip(reference.dag.names, reference.tables, reference.orders, strict=True)
    }
    network = CategoricalNetwork(reference.dag, tables, states)
    row = reference.sample(1, SEED).codes[0]
    observed = np.random.default_rng([SEED, 1]).permutation(len(row))[:n_observed]
    problem = prepare(network, Evidence({int(v): int(row[v]) for v in observed}, {}), ()).whole()
    exact = plan_contraction(problem.n_states, [f.variables for f in problem.factors]).run(problem.factors)
    fit = mean_field(problem.n_states, problem.factors, seed=1)
    assert fit.converged
    assert fit.log_z_bound <= exact.log_z + 1e-9
    assert fit.log_z_bound > -1000


def test_a_deterministic_network_is_exact_in_blocks():
    """c = a xor b with c observed: naive q is one configuration, (a, b) as a block is exact."""
    dag = Dag.from_edges([("a", "c"), ("b", "c")])
    xor = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    labels = dict.fromkeys(dag.names, ("0", "1"))
    network = CategoricalNetwork(dag, {"a": [0.3, 0.7], "b": [0.5, 0.5], "c": xor}, labels)
    problem = prepare(network, Evidence({network.names.index("c"): 0}, {}))
    naive = mean_field(problem.n_states, problem.factors, seed=1)
    assert naive.excluded
    assert naive.log_z_bound == pytest.approx(np.log(0.35), abs=1e-9)
    joined = mean_field(problem.n_states, problem.factors, blocks=[[0, 1]])
    np.testing.assert_allclose(joined.marginals[0], [0.3, 0.7])
    assert joined.log_z_bound == pytest.approx(np.log(0.5), abs=1e-9)
