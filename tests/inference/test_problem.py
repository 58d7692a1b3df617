"""`prepare` against the sum over all configurations: marginals, joint distribution and log evidence stay the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

from doxa.errors import ArgumentError
from doxa.inference import problem as problem_module
from doxa.inference.flat import ancestral
from doxa.inference.problem import Problem, merged, prepare
from doxa.inference.propagation import ImpossibleEvidenceError
from doxa.models import Dag
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.models.factors import Factor
from doxa.models.ising import ising_grid
from doxa.models.markov import MarkovNetwork
from support.checks import SEED
from support.networks import load_network
from support.small_networks import joint, marginal, random_categorical, random_evidence, random_markov

YES_NO = ["no", "yes"]


class Reduced:
    """A problem in the form of a network, so that the same brute force serves."""

    def __init__(self, problem: Problem):
        self.states = tuple(("s",) * n for n in problem.n_states)
        self.names = tuple(map(str, problem.variables))
        self.factors = problem.factors


def cases(n, make):
    """Networks with possible evidence and a question; None asks for everything."""
    rng = np.random.default_rng([SEED, 17])
    found = 0
    while found < n:
        network = make(rng)
        evidence = random_evidence(rng, network)
        exact = joint(network, evidence)
        if exact.sum() == 0:
            continue
        names = range(len(network.names))
        query = None if rng.random() < 0.3 else [v for v in names if rng.random() < 0.3]
        yield network, evidence, query, exact
        found += 1


def assert_same_distribution(problem, query, exact):
    whole = problem.whole()
    table = joint(Reduced(whole))
    assert problem.log_constant + math.log(table.sum()) == pytest.approx(math.log(exact.sum()), abs=1e-10)
    own = joint(Reduced(problem))
    for v in range(exact.ndim) if query is None else query:
        probabilities = None if v in problem.fixed else marginal(own, problem.position[v])
        np.testing.assert_allclose(problem.expand(v, probabilities), marginal(exact, v), rtol=1e-9, atol=1e-13)
    free = list(problem.variables)
    if len(free) > 1:  # the joint of all, not only each: over the states left
        full = marginal(exact, *free)[np.ix_(*problem.states)]
        np.testing.assert_allclose(own / own.sum(), full, rtol=1e-9, atol=1e-13)


def compare_distributions(make, propagate):
    """Return how often something but observed variables was left out."""
    n_smaller = 0
    for network, evidence, query, exact in cases(150, make):
        problem = prepare(network, evidence, query, propagate=propagate)
        assert_same_distribution(problem, query, exact)
        n_smaller += len(problem.variables) + len(evidence.hard) < exact.ndim
    return n_smaller


@pytest.mark.parametrize("propagate", [True, False])
@pytest.mark.parametrize("make", [random_categorical, random_markov])
def test_marginals_and_log_evidence_stay_as_they_are(make, propagate):
    assert compare_distributions(make, propagate) > 50  # the cases do ask something of it


def test_the_form_is_as_promised():
    for network, evidence, query, exact in cases(100, random_categorical):
        problem = prepare(network, evidence, query)
        for part in (problem, problem.rest, problem.whole()):
            if part is None:
                continue
            assert all(n >= 2 for n in part.n_states)
            assert list(part.variables) == sorted(set(part.variables))
            scopes = [set(f.variables) for f in part.factors]
            assert set().union(*scopes) == set(range(len(part.variables)))
            assert not any(a <= b for i, a in enumerate(scopes) for j, b in enumerate(scopes) if i != j)
            for f in part.factors:
                assert f.log_values.shape == tuple(part.n_states[v] for v in f.variables)
                assert not np.isnan(f.log_values).any()
        groups = [problem.variables, problem.fixed, problem.barren, problem.rest.variables if problem.rest else ()]
        assert sorted(v for group in groups for v in group) == list(range(exact.ndim))
        assert evidence.hard.items() <= problem.fixed.items()


@pytest.mark.parametrize("make", [random_categorical, random_markov])
def test_a_free_variable_keeps_no_state_that_one_factor_forbids(make):
    """Not even one that is forbidden once factors over the same variables have been added up."""
    for network, evidence, query, _ in cases(150, make):
        for factor in prepare(network, evidence, query).whole().factors:
            for axis in range(factor.log_values.ndim):
                others = tuple(a for a in range(factor.log_values.ndim) if a != axis)
                assert (factor.log_values.max(axis=others) > -np.inf).all()


def test_what_merging_forbids_is_propagated_to_others():
    """Two factors leave both states of x and y, their product only the first; then z loses one as well."""
    states = {"x": YES_NO, "y": YES_NO, "z": ["0", "1", "2"]}
    with np.errstate(divide="ignore"):
        same, nand, third = (np.log(t) for t in ([[1, 0], [0, 1]], [[1, 1], [1, 0]], [[1, 1, 0], [0, 1, 1]]))
    problem = prepare(MarkovNetwork(states, [(["x", "y"], same), (["y", "x"], nand), (["y", "z"], third)]))
    assert problem.fixed == {0: 0, 1: 0}
    assert [kept.tolist() for kept in problem.states] == [[0, 1]]
    assert problem.factors[0].log_values.tolist() == [0.0, 0.0]


def test_what_is_left_out_is_barren_or_independent():
    """Separation in the moral graph of the ancestors, found here by matrix powers, is what `rest` and `barren` are."""
    for network, evidence, query, _ in cases(150, lambda rng: random_categorical(rng, zeros=0.0)):
        if query is None:
            continue
        problem = prepare(network, evidence, query)
        a = network.dag.adjacency
        reach = np.linalg.matrix_power(a + np.eye(len(a)), len(a)) > 0
        kept = {v for v in range(len(a)) if any(reach[v, t] for t in [*query, *evidence.variables])}
        assert set(problem.barren) == set(range(len(a))) - kept
        order = list(problem.barren)
        assert all(order.index(p) < order.index(v) for v in order for p in network.parents[v] if p in order)
        known = set(problem.fixed)
        moral = np.eye(len(a), dtype=bool)
        for v in kept:
            family = [u for u in (*network.parents[v], v) if u not in known]
            moral[np.ix_(family, family)] = True
        linked = np.linalg.matrix_power(moral.astype(float), len(a)) > 0
        asked = {v for v in kept - known if any(linked[v, q] for q in query if q not in known)}
        assert set(problem.variables) == asked


def test_leaving_out_an_ancestor_is_found_out(monkeypatch):
    """The twin: pruning that forgets one generation must not pass."""
    monkeypatch.setattr(
        problem_module, "ancestral", lambda parents, nodes: set(nodes) | {p for v in nodes for p in parents[v]}
    )
    with pytest.raises((AssertionError, KeyError)):
        compare_distributions(random_categorical, propagate=True)


def test_without_propagation_the_shape_does_not_depend_on_what_was_observed():
    rng = np.random.default_rng([SEED, 5])
    for _ in range(60):
        network = random_categorical(rng, zeros=0.0)
        observed = [v for v in range(len(network.names)) if rng.random() < 0.4]
        forms = set()
        for _ in range(3):
            hard = {v: int(rng.integers(network.n_states[v])) for v in observed}
            problem = prepare(network, Evidence(hard, {}), [0], propagate=False)
            forms.add((problem.variables, tuple((f.variables, f.log_values.shape) for f in problem.factors)))
        assert len(forms) == 1


def test_impossible_evidence_is_an_error_that_names_it():
    dag = Dag.from_edges([("a", "c"), ("b", "c"), ("c", "d")], nodes=["a", "b", "c", "d"])
    xor = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    tables = {"a": [0.3, 0.7], "b": [0.5, 0.5], "c": xor, "d": [[0.9, 0.1], [0.2, 0.8]]}
    network = CategoricalNetwork(dag, tables, dict.fromkeys(dag.names, YES_NO))
    for propagate in (True, False):
        with pytest.raises(ImpossibleEvidenceError) as raised:
            prepare(network, Evidence({0: 1, 1: 1, 2: 1, 3: 0}, {}), [3], propagate=propagate)
        assert raised.value.conflict == ("a", "b", "c")
        assert str(raised.value) == (
            "given says that 'a' is 'yes', 'b' is 'yes' and 'c' is 'yes', which have probability 0 together; "
            "leave out one of them"
        )
    soft = Evidence({0: 1, 1: 1}, {2: np.array([0.0, 1.0]), 3: np.array([1.0, 2.0])})
    with pytest.raises(ImpossibleEvidenceError, match=r"^the evidence says that .* and 'c' is not 'no', which have"):
        prepare(network, soft)
    forbidden = MarkovNetwork({"a": YES_NO}, [(["a"], [0.0, -np.inf]), (["a"], [-np.inf, 0.0])])
    with pytest.raises(ImpossibleEvidenceError, match="no possible configuration"):
        prepare(forbidden)


def test_impossible_evidence_is_never_found_possible_to_be():
    """What `prepare` refuses has probability zero; and it finds most of it."""
    rng = np.random.default_rng([SEED, 23])
    refused = missed = 0
    for k in range(300):
        network = (random_categorical if k % 2 else random_markov)(rng)
        evidence = random_evidence(rng, network, share=0.6)
        impossible = joint(network, evidence).sum() == 0
        try:
            problem = prepare(network, evidence, [])
        except ImpossibleEvidenceError:
            assert impossible
            refused += 1
        else:
            missed += impossible
            assert (joint(Reduced(problem.whole())).sum() == 0) == impossible
    assert refused > 20
    assert missed < refused


def test_xor_with_observed_output_joins_its_parents():
    dag = Dag.from_edges([("a", "c"), ("b", "c")], nodes=["a", "b", "c"])
    xor = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    tables = {"a": [0.3, 0.7], "b": [0.5, 0.5], "c": xor}
    network = CategoricalNetwork(dag, tables, dict.fromkeys(dag.names, YES_NO))
    problem = prepare(network, Evidence({2: 0}, {}), [0])
    assert problem.variables == (0, 1)
    (factor,) = problem.factors
    np.testing.assert_allclose(np.exp(factor.log_values), [[0.15, 0.0], [0.0, 0.35]])


def test_decode_and_encode_undo_each_other():
    for network, evidence, query, _ in cases(60, random_categorical):
        problem = prepare(network, evidence, query)
        rows = np.array([[n - 1 for n in problem.n_states], [0] * len(problem.n_states)])
        full = problem.decode(rows)
        np.testing.assert_array_equal(problem.encode(full), rows)
        assert (full[:, list(problem.fixed)] == list(problem.fixed.values())).all()
        assert (full[:, list(problem.barren)] == -1).all()


def test_encode_says_which_states_are_gone():
    network = MarkovNetwork({"a": ["0", "1", "2"]}, [(["a"], [0.0, -np.inf, 0.0])])
    problem = prepare(network)
    assert problem.encode([[0], [1], [2]]).tolist() == [[0], [-1], [1]]
    np.testing.assert_allclose(problem.expand(0, [[0.25, 0.75]]), [[0.25, 0.0, 0.75]])


def test_nothing_left_is_a_problem_too():
    network = MarkovNetwork({"a": YES_NO}, [(["a"], [0.5, 1.5]), ([], 2.0)])
    problem = prepare(network, Evidence({0: 1}, {0: np.array([1.0, 3.0])}))
    assert (problem.variables, problem.factors, problem.rest) == ((), (), None)
    assert problem.log_constant == pytest.approx(1.5 + 2.0 + math.log(3.0))
    assert problem.expand(0).tolist() == [0.0, 1.0]


def test_a_position_outside_the_network_is_refused():
    with pytest.raises(ArgumentError, match=r"query has the position 4; those of the network are 0 to 3"):
        prepare(ising_grid(2, 2, coupling=0.1), None, [4])


def test_the_network_is_left_alone():
    network = random_markov(np.random.default_rng(SEED), zeros=0.0)
    before = [f.log_values.copy() for f in network.factors]
    prepare(network)
    assert all(np.array_equal(f.log_values, b) for f, b in zip(network.factors, before, strict=True))


def test_merging_keeps_the_sum():
    rng = np.random.default_rng([SEED, 2])
    for _ in range(100):
        n_states = rng.integers(1, 4, size=5)
        scopes = [tuple(map(int, rng.permutation(5)[: rng.integers(1, 4)])) for _ in range(8)]
        factors = [Factor(scope, rng.normal(size=n_states[list(scope)])) for scope in scopes]
        rows = np.stack([rng.integers(n, size=20) for n in n_states], axis=1)

        def total(group, rows=rows):
            return sum(f.log_values[tuple(rows[:, v] for v in f.variables)] for f in group)

        np.testing.assert_allclose(total(merged(factors)), total(factors), atol=1e-12)


def test_ancestors_agree_with_the_graph():
    rng = np.random.default_rng([SEED, 3])
    for _ in range(40):
        network = random_categorical(rng)
        targets = [v for v in range(len(network.names)) if rng.random() < 0.3]
        expected = {network.dag.names.index(u) for t in targets for u in network.dag.ancestors(t)} | set(targets)
        assert ancestral(network.parents, targets) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alarm", "hailfinder", "munin"])
def test_evidence_drawn_from_a_reference_network_is_possible(name):
    reference = load_network(name)
    tables = {}
    for node, (order, table) in enumerate(zip(reference.orders, reference.tables, strict=True)):
        sorted_axes = table.transpose((*np.argsort(order), len(order)))
        tables[reference.dag.names[node]] = sorted_axes / sorted_axes.sum(axis=-1, keepdims=True)
    states = dict(zip(reference.dag.names, reference.states, strict=True))
    network = CategoricalNetwork(reference.dag, tables, states)
    rng = np.random.default_rng(SEED)
    table = network.simulate(20, rng)
    for row in table.codes[table.row_index].astype(int):
        observed = rng.choice(len(row), size=10, replace=False)
        problem = prepare(network, Evidence({int(v): int(row[v]) for v in observed}, {}))
        assert (problem.encode(row[None]) >= 0).all()  # no state that did occur is struck out
        assert all(row[v] == state for v, state in problem.fixed.items())
