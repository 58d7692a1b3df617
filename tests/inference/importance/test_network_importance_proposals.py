"""Proposals of network importance sampling by enumeration: q w = p everywhere, so that the mean weight is P(e)."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.importance import lay_out, learned, likelihood_weighting, propagated
from doxa.inference.importance.layout import Layout
from doxa.inference.importance.proposal import NetworkProposal
from doxa.inference.importance.sampler import largest_log_weight
from doxa.inference.problem import prepare
from doxa.inference.propagation import ImpossibleEvidenceError
from doxa.models import Dag
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.models.markov import MarkovNetwork
from support.checks import SEED
from support.small_networks import joint, random_categorical, random_evidence

METHODS = {
    "likelihood weighting": likelihood_weighting,
    "propagated": propagated,
    "propagated, own tables": lambda layout: propagated(layout, most_cells=0),
    "propagated, one round": lambda layout: propagated(layout, rounds=1),
    "learned": lambda layout: learned(likelihood_weighting(layout), seed=SEED, stages=2),
    "learned, then propagated": lambda layout: learned(propagated(layout), seed=SEED, stages=1),
}


def supported_states(network, evidence):
    """Possible states by propagation of zeros, as a caller gives them."""
    problem = prepare(network, evidence)
    masks = {v: np.zeros(len(labels), dtype=bool) for v, labels in enumerate(network.states)}
    for part in (problem, problem.rest):
        for v, states in () if part is None else zip(part.variables, part.states, strict=True):
            masks[v][states] = True
    for v, state in problem.fixed.items():
        masks[v][state] = True
    return masks


def cases(seed, n, most_nodes=6):
    """Networks with evidence that propagation finds no fault with, with and without its masks."""
    rng = np.random.default_rng([SEED, seed])
    while n:
        network = random_categorical(rng, most_nodes=most_nodes)
        evidence = random_evidence(rng, network, share=0.4)
        try:
            masks = supported_states(network, evidence)
        except ImpossibleEvidenceError:
            continue
        query = [v for v in range(len(network.names)) if rng.random() < 0.7]
        yield network, evidence, lay_out(network, evidence, query, masks if n % 2 else None)
        n -= 1


def every_row(layout):
    """All configurations of the informed variables, the others at 0, or as observed."""
    sizes = [layout.n_states[v] for v in layout.informed]
    rows = np.zeros((math.prod(sizes), len(layout.n_states)), dtype=np.int64)
    for number, states in enumerate(product(*map(range, sizes))):
        rows[number, list(layout.informed)] = states
    for v, state in layout.evidence.hard.items():
        rows[:, v] = state
    return rows


def exact_target(network, evidence, layout, rows):
    """Sum of p(x, e) over all variables but the informed ones, by row."""
    total = joint(network, evidence)
    kept = sorted(layout.informed)
    summed = total.sum(axis=tuple(v for v in range(total.ndim) if v not in kept))
    return np.broadcast_to(summed[tuple(rows[:, v] for v in kept)], len(rows))


def agree(network, evidence, layout, proposal):
    """Whether q w = p for all rows, q sums to 1, and nothing possible has q = 0."""
    rows = every_row(layout)
    target = exact_target(network, evidence, layout, rows)
    with np.errstate(invalid="ignore"):
        density, log_weights = proposal.log_density(rows), proposal.log_weights(rows)
    drawn = density > -np.inf
    assert density[drawn].size == 0 or np.exp(density[drawn]).sum() <= 1 + 1e-9
    found = np.where(drawn, np.exp(np.where(drawn, density, 0.0) + np.where(drawn, log_weights, 0.0)), 0.0)
    return bool((drawn | (target == 0)).all()) and np.allclose(found, target, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("method", METHODS)
def test_weights_are_target_over_proposal_everywhere(method):
    n = 15 if "learned" in method else 100
    for network, evidence, layout in cases(1, n):
        proposal = METHODS[method](layout)
        assert agree(network, evidence, layout, proposal)
        for table in proposal.tables:
            sums = table.values.sum(axis=-1)
            assert (np.isclose(sums, 1, rtol=1e-12) | (sums == 0)).all()


class _Flat(Layout):
    """Broken: weights know nothing of soft evidence."""

    def likelihood(self, v):
        return np.ones(self.n_states[v])


class _Unnormalised(NetworkProposal):
    """Broken: draws from p times a likelihood, divided by its sum, are weighted as if there were no sum."""

    def log_weights(self, rows):
        logs = [np.log(t.values)[tuple(rows[:, v] for v in t.variables)] for t in self.layout.findings.values()]
        return self.layout.log_constant + sum(logs, np.zeros(len(rows)))


def test_the_enumeration_sees_what_is_forgotten():
    n_seen = np.zeros(3, dtype=int)
    for network, evidence, layout in cases(2, 100):
        plain = likelihood_weighting(layout)
        if not agree(network, evidence, layout, plain) or not joint(network, evidence).sum():
            continue
        if layout.findings:
            fewer = replace(layout, findings=dict(list(layout.findings.items())[1:]))
            n_seen[0] += not agree(network, evidence, layout, likelihood_weighting(fewer))
        if any(v in evidence.soft for v in layout.informed):
            flat = _Flat(**{name: getattr(layout, name) for name in layout.__dataclass_fields__})
            n_seen[1] += not agree(network, evidence, layout, replace(plain, layout=flat))
            with np.errstate(divide="ignore"):
                n_seen[2] += not agree(network, evidence, layout, _Unnormalised(layout, plain.tables, ""))
    assert (n_seen >= 10).all(), n_seen


def random_tree(rng, n):
    """Each node has one parent among those before it."""
    names = [f"n{i}" for i in range(n)]
    edges = [(names[rng.integers(i)], names[i]) for i in range(1, n)]
    dag = Dag.from_edges(edges, names)
    sizes = dict(zip(names, rng.integers(2, 4, n).tolist(), strict=True))
    tables = {v: rng.dirichlet(np.ones(sizes[v]), size=[sizes[p] for p in dag.parents(v)]) for v in names}
    return CategoricalNetwork(dag, tables, {v: [str(k) for k in range(sizes[v])] for v in names})


def test_messages_are_exact_on_trees():
    """So no weight is above e^(1/2) times the mean, but for the defence's share."""
    rng = np.random.default_rng([SEED, 3])
    n_uneven = 0
    for _ in range(20):
        network = random_tree(rng, 8)
        evidence = Evidence(dict.fromkeys(rng.choice(8, 3, replace=False).tolist(), 0), {1: np.array([1.0, 3.0, 2.0])})
        evidence.soft[1] = evidence.soft[1][: network.n_states[1]]
        layout = lay_out(network, evidence)
        exact = math.log(joint(network, evidence).sum())
        proposal = propagated(layout)
        rows = every_row(layout)
        spread = proposal.log_weights(rows) - exact
        assert spread.max() < 0.5 - math.log(15 / 16)
        n_uneven += bool(np.ptp(likelihood_weighting(layout).log_weights(rows)) > 1)
    assert n_uneven >= 10


def explaining_away(certain=False):
    """Two causes with an effect that is there when exactly one of them is; if ``certain``, none ever is."""
    dag = Dag.from_edges([("a", "c"), ("b", "c")], ["a", "b", "c"])
    e = 0.0 if certain else 0.001
    xor = [[[1 - e, e], [e, 1 - e]], [[e, 1 - e], [1 - e, e]]]
    roots = [1.0, 0.0] if certain else [0.5, 0.5]
    return CategoricalNetwork(dag, {"a": roots, "b": roots, "c": xor}, {key: ["no", "yes"] for key in "abc"})


def test_parents_of_a_finding_are_drawn_together():
    """Tables over own parents alone cannot say that exactly one cause is there; larger ones do."""
    layout = lay_out(explaining_away(), Evidence({2: 1}, {}))
    rows = every_row(layout)

    def largest(proposal):
        return np.exp(proposal.log_weights(rows)).max() / 0.5

    assert largest(propagated(layout, most_cells=0)) > 1.8
    assert largest(propagated(layout)) < 1.1


def test_the_bound_is_above_every_weight_and_met_where_nothing_is_split():
    for network, evidence, layout in cases(4, 40):
        if not layout.informed:
            continue
        for method in (likelihood_weighting, propagated):
            proposal = method(layout)
            rows = every_row(layout)
            with np.errstate(invalid="ignore"):
                density, weights = proposal.log_density(rows), proposal.log_weights(rows)
            largest = weights[density > -np.inf].max(initial=-np.inf)
            bound = largest_log_weight(proposal)
            assert bound >= largest - 1e-9
            assert largest_log_weight(proposal, most_cells=4) >= bound - 1e-9
            if method is likelihood_weighting:
                assert bound == pytest.approx(largest, abs=1e-9)
            if not joint(network, evidence).sum():
                assert largest_log_weight(likelihood_weighting(layout)) == -np.inf


def test_only_ancestors_are_drawn():
    dag = Dag.from_edges([("a", "b"), ("b", "c"), ("b", "d"), ("e", "f")])
    tables = {v: [[0.5, 0.5], [0.25, 0.75]] if dag.parents(v) else [0.5, 0.5] for v in dag.names}
    network = CategoricalNetwork(dag, tables, {key: ["0", "1"] for key in dag.names})
    names = network.names
    layout = lay_out(network, Evidence({names.index("c"): 1}, {}), [names.index("d")])
    assert [names[v] for v in layout.informed] == ["a", "b"]
    assert [names[v] for v in layout.barren] == ["d"]
    assert lay_out(network).is_weightless


def test_bad_arguments_are_refused():
    network = explaining_away()
    with pytest.raises(ArgumentTypeError, match="network is of type MarkovNetwork; importance sampling draws parents"):
        lay_out(MarkovNetwork({"a": ["0", "1"]}, []))
    with pytest.raises(ArgumentError, match="query has the position 3; those of the network are 0 to 2"):
        lay_out(network, None, [3])
    with pytest.raises(ArgumentError, match="evidence has the position 7"):
        lay_out(network, Evidence({7: 0}, {}))
    with pytest.raises(ArgumentError, match="must be a truth value for each of the 2 states of 'b'"):
        lay_out(network, Evidence({2: 0}, {}), None, {1: [True, False, True]})
    with pytest.raises(ArgumentError, match="leave no state of 'b'"):
        lay_out(network, Evidence({2: 0}, {}), None, {1: [False, False]})
    with pytest.raises(ArgumentError, match="rounds is 0; it must be at least 1"):
        propagated(lay_out(network), rounds=0)
    sure = CategoricalNetwork(Dag([[0]], ["a"]), {"a": [1.0, 0.0]}, {"a": ["no", "yes"]})
    with pytest.raises(ArgumentError, match="evidence says that 'a' is 'yes', which has probability 0"):
        lay_out(sure, Evidence({0: 1}, {}))
