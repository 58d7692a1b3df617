"""Answers of network importance sampling, against `ImportanceSample` and contraction; unlikely and impossible evidence.

``DOXA_TEST_SEED`` moves the seeds.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from test_network_importance_kernels import raw_draws
from test_network_importance_proposals import METHODS, cases, explaining_away

from doxa.errors import ArgumentError
from doxa.estimates.intervals import UnseenInterval
from doxa.estimates.stopping import Until
from doxa.inference.exact import plan_contraction
from doxa.inference.importance import (
    NetworkSample,
    NetworkSampler,
    lay_out,
    learned,
    likelihood_weighting,
    propagated,
    sample_network,
    sample_until,
    shortfall,
)
from doxa.inference.importance.kernels import block_tally
from doxa.inference.importance.sampler import BLOCK
from doxa.inference.problem import prepare
from doxa.models import Dag
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.sampling.importance import ImportanceSample
from support.checks import FALSE_ALARM, SEED, z_limit
from support.networks import load_network
from support.small_networks import joint

NO_YES = ["no", "yes"]


def reference(name):
    """A reference network, its parents in the order of `CategoricalNetwork`."""
    found = load_network(name)
    names = found.dag.names
    tables = {}
    for v, node in enumerate(names):
        parents = [names.index(p) for p in found.dag.parents(node)]
        table = found.tables[v].transpose([*(found.orders[v].index(p) for p in parents), len(parents)])
        tables[node] = table / table.sum(axis=-1, keepdims=True)
    return CategoricalNetwork(found.dag, tables, dict(zip(names, found.states, strict=True)))


def forward_evidence(network, n_observed, seed):
    """Values of random nodes in a record drawn from the network."""
    rng = np.random.default_rng([SEED, seed])
    row = network.simulate(1, rng).codes[0]
    return Evidence({int(v): int(row[v]) for v in rng.choice(len(row), n_observed, replace=False)}, {})


def exact_answers(network, evidence):
    """Log evidence, and the distribution of every variable."""
    problem = prepare(network, evidence).whole()
    result = plan_contraction(problem.n_states, [f.variables for f in problem.factors]).run(problem.factors)
    marginals = [
        problem.expand(v, result.marginals[problem.position[v]] if v in problem.position else None)
        for v in range(len(network.names))
    ]
    return result.log_z + problem.log_constant, marginals


# --- the same numbers as from single draws ---


def test_estimates_are_those_of_single_draws():
    n_compared = 0
    for _, _, layout in cases(21, 300):
        if n_compared >= 40:
            break
        sampler = NetworkSampler(propagated(layout))
        rows, log_weights, sums, reference_weight = raw_draws(sampler, BLOCK)
        if not (log_weights > -np.inf).any():
            continue
        found = NetworkSample(sampler, block_tally(log_weights, reference_weight, sums[None]), 0)
        single = ImportanceSample(rows, log_weights, np.zeros(BLOCK))
        assert found.ess == pytest.approx(single.ess, rel=1e-9)
        assert found.pareto_k == pytest.approx(single.pareto_k, rel=1e-6, nan_ok=True)
        assert found.log_evidence().value == pytest.approx(single.log_normalising_constant().value, rel=1e-9)
        if found.verdict.reliable and single.verdict.reliable and not layout.is_weightless:
            _compare_laws(found.log_evidence(), single.log_normalising_constant(), 1e-4)
        for v, counted in sampler.compiled.counted.items():
            if not found.verdict.reliable or not single.verdict.reliable:
                continue
            for state in range(layout.n_states[v]):
                ours = found.probability(v, state)
                if counted.values is None:
                    theirs = single.expectation(lambda x, v=v, state=state: x[:, v] == state)
                else:
                    table = layout.conditionals[v]
                    values = table.values[(*(rows[:, p] for p in table.variables[:-1]), state)]
                    values = np.broadcast_to(values, BLOCK)
                    theirs = single.expectation(lambda _, values=values: values, unit=True)
                if ours.exact or isinstance(ours.law, UnseenInterval):
                    assert np.isnan(theirs.mcse) or isinstance(theirs.law, UnseenInterval)
                    continue
                assert ours.value == pytest.approx(theirs.value, abs=1e-12)
                if np.isnan(theirs.delta_error):  # the same at every draw, and elsewhere not
                    assert ours.delta_error < 1e-9 < ours.mcse
                    continue
                assert ours.delta_error == pytest.approx(theirs.delta_error, rel=1e-6, abs=1e-12)
                if ours.delta_error > 1e-9:
                    _compare_laws(ours, theirs, 1e-6)
                    n_compared += 1
    assert n_compared >= 40


def _compare_laws(ours, theirs, rel):
    """Degrees of freedom and side of the skew; errors are those of the delta method, and a little more."""
    if np.isnan(theirs.mcse):
        assert np.isnan(ours.mcse)
        return
    assert ours.delta_error == pytest.approx(theirs.delta_error, rel=rel)
    assert ours.mcse >= ours.delta_error
    assert ours.law.df == pytest.approx(theirs.law.df, rel=1e-3) or min(ours.law.df, theirs.law.df) > 1e5
    assert np.sign(ours.law.skew) == np.sign(theirs.law.skew)
    low, high = ours.interval()
    inner_low, inner_high = theirs.interval()
    assert low <= inner_low + 1e-9
    assert high >= inner_high - 1e-9


# --- reference networks ---


@pytest.mark.parametrize("method", ["likelihood weighting", "propagated"])
@pytest.mark.parametrize(("name", "n_observed"), [("asia", 2), ("alarm", 7), ("hailfinder", 11)])
def test_reference_networks_with_deterministic_tables(name, n_observed, method):
    network = reference(name)
    zs = []
    for seed in range(3):
        evidence = forward_evidence(network, n_observed, seed)
        log_z, marginals = exact_answers(network, evidence)
        sample = sample_network(METHODS[method](lay_out(network, evidence)), 8 * BLOCK, seed=seed)
        assert sample.verdict.reliable is not None or sample.ess > 50
        assert np.isnan(sample.log_evidence().mcse) or abs(sample.log_evidence().value - log_z) < 0.2
        for v, exact in enumerate(marginals):
            for state, estimate in enumerate(sample.marginal(v)):
                if estimate.exact or isinstance(estimate.law, UnseenInterval):
                    low, high = estimate.interval(1 - FALSE_ALARM)
                    assert low - 1e-12 <= exact[state] <= high + 1e-12
                elif estimate.delta_error < 1e-9:
                    assert estimate.value == pytest.approx(exact[state], abs=5 * estimate.mcse)
                elif estimate.value * sample.ess > 50 and (1 - estimate.value) * sample.ess > 50:
                    zs.append(abs(estimate.value - exact[state]) / estimate.mcse if estimate.mcse > 0 else 0.0)
    assert max(zs) < z_limit(len(zs)), max(zs)


def test_xor_with_observed_output():
    """The network on which samplers that change one variable at a time say 0 or 1; exact: 0.7."""
    dag = Dag.from_edges([("a", "c"), ("b", "c"), ("a", "d")], ["a", "b", "c", "d"])
    tables = {
        "a": [0.5, 0.5],
        "b": [0.5, 0.5],
        "c": [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]],
        "d": [[0.7, 0.3], [0.3, 0.7]],
    }
    network = CategoricalNetwork(dag, tables, dict.fromkeys(tables, NO_YES))
    layout = lay_out(network, Evidence({2: 0, 3: 1}, {}))
    for proposal in (likelihood_weighting(layout), propagated(layout), learned(propagated(layout), seed=1)):
        sample = sample_network(proposal, 4 * BLOCK, seed=SEED)
        low, high = sample.probability(0, 1).interval(1 - FALSE_ALARM)
        assert low <= 0.7 <= high
        assert high - low < 0.05
    assert sample.n_zero / sample.n < 0.1  # b is drawn given a; by likelihood weighting alone 0.5 are


# --- evidence that draws hardly meet ---


def unlikely(n=9, rate=0.1):
    """A chain of ``n`` rare causes above a finding: e is there if all are, and once in 10^12 otherwise."""
    names = [f"n{i}" for i in range(n)] + ["e"]
    dag = Dag.from_edges([*itertools.pairwise(names)], names)
    tables = {names[0]: [1 - rate, rate]}
    tables |= {name: [[1.0, 0.0], [1 - rate, rate]] for name in names[1:-1]}
    tables["e"] = [[1 - 1e-12, 1e-12], [0.0, 1.0]]
    return CategoricalNetwork(dag, tables, dict.fromkeys(names, NO_YES))


def test_unlikely_evidence_is_not_answered_in_silence():
    """P(e) = 1e-9: likelihood weighting meets the 1e-12 alone, with weights that are all equal and look perfect."""
    network = unlikely()
    layout = lay_out(network, Evidence({9: 1}, {}))
    plain = sample_network(likelihood_weighting(layout), 2 * BLOCK, seed=SEED)
    assert plain.ess > 0.99 * plain.n
    assert plain.verdict.reliable is None
    assert "is not ruled out" in plain.verdict.reason
    assert np.isnan(plain.probability(8, 1).mcse)
    assert all(np.isnan(plain.probability(8, 1).interval()))
    told = sample_network(propagated(layout), 2 * BLOCK, seed=SEED)
    assert told.verdict.reliable
    assert told.log_evidence().value == pytest.approx(np.log(1e-9 + 1e-12), abs=0.01)
    assert told.probability(8, 1).value > 0.99


def test_learning_finds_what_likelihood_weighting_hardly_meets():
    """P(e) about 1e-5, met by a few draws of a stage in a thousand: learning ascends there by tempered weights."""
    network = random_two_layers(np.random.default_rng([SEED, 31]))
    evidence = Evidence(dict.fromkeys(range(6, 16), 1), {})
    exact = np.log(joint(network, evidence).sum())
    layout = lay_out(network, evidence)
    plain = sample_network(likelihood_weighting(layout), BLOCK, seed=SEED)
    adapted = sample_network(learned(likelihood_weighting(layout), seed=SEED), BLOCK, seed=SEED)
    assert adapted.ess > 2 * plain.ess
    for sample in (plain, adapted):
        estimate = sample.log_evidence()
        assert not sample.verdict.reliable or abs(estimate.value - exact) < z_limit(2) * estimate.mcse


def random_two_layers(rng):
    """Six causes, ten effects with two causes each that rarely happen without them."""
    names = [f"c{i}" for i in range(6)] + [f"e{i}" for i in range(10)]
    edges = [(names[c], names[6 + e]) for e in range(10) for c in rng.choice(6, 2, replace=False)]
    dag = Dag.from_edges(edges, names)
    tables = {name: [0.95, 0.05] for name in names[:6]}
    for name in names[6:]:
        on = np.array([[0.05, 0.6], [0.7, 0.9]])
        tables[name] = np.stack([1 - on, on], axis=-1)
    return CategoricalNetwork(dag, tables, dict.fromkeys(names, NO_YES))


def test_all_weights_zero_gives_no_number():
    """A needle: one configuration of 2^24 is possible, and the zeros show only together."""
    n = 24
    names = [f"n{i}" for i in range(n)] + [f"e{i}" for i in range(n)]
    dag = Dag.from_edges([(names[i], names[n + i]) for i in range(n)], names)
    tables = {name: [0.5, 0.5] for name in names[:n]} | {name: [[1.0, 0.0], [0.0, 1.0]] for name in names[n:]}
    network = CategoricalNetwork(dag, tables, dict.fromkeys(names, NO_YES))
    layout = lay_out(network, Evidence({n + i: 1 for i in range(n)}, {}))
    sample = sample_network(likelihood_weighting(layout), 1, seed=SEED)
    assert sample.n_zero == sample.n == BLOCK
    assert sample.ess == 0
    assert sample.verdict.reliable is None
    assert sample.verdict.reason.startswith("all 16384 weights are 0: the evidence is impossible, or so improbable")
    assert np.isnan(sample.probabilities(0)).all()
    for estimate in (sample.probability(0, 1), sample.log_evidence()):
        assert np.isnan([estimate.value, estimate.mcse, *estimate.interval()]).all()
        assert str(estimate).startswith("nan (error unknown; cannot tell: all 16384 weights are 0")
    told = sample_network(propagated(layout), 1, seed=SEED)
    assert told.verdict.reliable
    assert told.probability(0, 1).value == pytest.approx(1.0)


# --- what was never met ---


def test_states_never_met_get_a_bound_and_impossible_ones_are_exact():
    dag = Dag.from_edges([("a", "e"), ("a", "x")], ["a", "e", "x"])
    tables = {
        "a": [0.5, 0.5 - 1e-6, 1e-6, 0.0],
        "e": [[0.5, 0.5], [0.2, 0.8], [0.1, 0.9], [0.5, 0.5]],
        "x": [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]],
    }
    states = {"a": list("0123"), "e": NO_YES, "x": list("012")}
    layout = lay_out(
        CategoricalNetwork(dag, tables, states), Evidence({1: 1}, {}), None, {0: [True, True, True, False]}
    )
    sample = sample_network(likelihood_weighting(layout), 1, seed=3)
    rare = sample.probability(0, 2)
    assert rare.value == 0
    assert rare.mcse > 0
    low, high = rare.interval()
    assert low == 0
    assert 1e-6 < high < 1e-3
    assert str(rare).startswith("< 0.000")
    assert sample.probability(0, 3).exact  # struck out
    assert sample.probability(2, 2).exact  # 0 whatever its parents are
    assert sample.probability(1, 1).exact  # observed
    followed = sample.probability(2, 1)  # 1 if a is 2, which was never met
    assert followed.value == 0
    assert followed.interval()[1] == pytest.approx(high)
    opposite = sample.probability(2, 0)
    assert opposite.value == 1
    assert str(opposite).startswith("> 0.99")
    assert sample.probabilities(0).sum() == pytest.approx(1.0)


def test_without_evidence_nothing_is_weighted():
    network = reference("asia")
    sample = sample_network(propagated(lay_out(network)), 1, seed=1)
    assert sample.log_evidence().exact
    assert sample.log_evidence().value == 0.0
    assert sample.verdict.reliable
    root = network.names.index("asia")
    assert sample.probability(root, 0).exact  # a root's table
    _, marginals = exact_answers(network, Evidence({}, {}))
    zs = [
        abs(estimate.value - exact) / estimate.delta_error
        for v in range(8)
        for estimate, exact in zip(sample.marginal(v), marginals[v], strict=True)
        if not estimate.exact
    ]
    assert max(zs) < z_limit(len(zs))


def test_what_was_not_asked_for_is_refused():
    layout = lay_out(explaining_away(), Evidence({2: 1}, {}), [0])
    sample = sample_network(propagated(layout), 1, seed=1)
    assert sample.probability(0, 1).mcse > 0
    with pytest.raises(ArgumentError, match="variable 1 was not asked for; name it in query"):
        sample.probability(1, 0)
    with pytest.raises(ArgumentError, match="there is no state 2 of variable 0"):
        sample.probability(0, 2)
    with pytest.raises(ArgumentError, match="n is 0; it must be at least 1"):
        sample_network(propagated(layout), 0)
    with pytest.raises(ArgumentError, match="quantities names 'x', which was not asked for; there are a"):
        sample_until(propagated(layout), Until(quantities=["x"]))


# --- when to stop ---


def test_a_run_ends_when_it_is_accurate_enough():
    network = reference("asia")
    layout = lay_out(network, Evidence({network.names.index("dysp"): 0}, {}))
    sample, report = sample_until(propagated(layout), Until(mcse=0.001), seed=1)
    assert report.reason == "reached"
    assert report.held_back is None
    assert max(e.mcse for v in layout.query for e in sample.marginal(v) if not e.exact) <= 0.001
    again = sample_network(propagated(layout), sample.n, seed=1)
    np.testing.assert_array_equal(again.tally.cells, sample.tally.cells)
    before = sample_network(propagated(layout), sample.n // 4, seed=1)
    assert shortfall(before, Until(mcse=0.001)) is not None  # two looks were needed, one after the other


def test_a_run_that_hits_its_limit_says_what_it_lacks():
    network = reference("asia")
    layout = lay_out(network, Evidence({network.names.index("dysp"): 0}, {}))
    sample, report = sample_until(propagated(layout), Until(mcse=1e-5, max_draws=100_000), seed=1)
    assert report.reason == "max_draws"
    assert sample.n == 7 * BLOCK
    assert report.held_back is not None
    assert report.held_back.what == "Monte Carlo error"
    assert report.held_back.name.startswith("P(")
    sample, report = sample_until(propagated(layout), Until(mcse=1e-5, max_seconds=1e-9), seed=1)
    assert report.reason == "max_seconds"
    assert sample.n == BLOCK
    sample, report = sample_until(
        likelihood_weighting(lay_out(unlikely(), Evidence({9: 1}, {}))), Until(max_draws=40_000), seed=1
    )
    assert report.held_back is not None
    assert report.held_back.name == "the weights"
