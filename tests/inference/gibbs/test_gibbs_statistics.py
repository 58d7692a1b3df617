"""What chains of the compiled kernel give, beside what is exact; and checks that a wrong kernel does not pass."""

from __future__ import annotations

import numpy as np
import pytest
from gibbs_cases import dense_problem, marginals_of, possible, reference_problem, relations, twin_matrix

from doxa.estimates.real import diagnose_real
from doxa.inference.exact import plan_contraction
from doxa.inference.gibbs import (
    TableGibbs,
    connectivity,
    cyclic,
    deterministic_blocks,
    in_turn,
    random_blocks,
    random_lists,
    single_sites,
)
from doxa.inference.problem import prepare
from doxa.models import Dag
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.sampling.driver import Schedule, sample
from doxa.testing import cycle_matrix, mixture_matrix
from support.checks import SEED, compare_transitions, z_limit

OVERLAPPING = [(0, 1), (1, 2), (3,)]
SCANS = {
    "cyclic": cyclic(single_sites(4)),
    "overlapping": cyclic(OVERLAPPING),
    "random": random_blocks(OVERLAPPING, [1, 2, 3]),
    "lists": random_lists([OVERLAPPING, single_sites(4)], [0.3, 0.7]),
}

STANDARD = Schedule(4, 1000, 100)


def step_matrix(scan, n_states, factors):
    by_list = [cycle_matrix([twin_matrix(b, n_states, factors) for b in blocks]) for blocks in scan.lists]
    one = by_list[0] if scan.weights is None else mixture_matrix(by_list, scan.weights)
    return np.linalg.matrix_power(one, scan.per_step)


def transitions(sampler, n_steps):
    """Counts of steps between possible states."""
    rows, _ = possible(sampler.n_states, sampler.factors)
    number = np.full(sampler.n_states, -1)
    number[tuple(rows.T)] = np.arange(len(rows))
    state = sampler.init(np.random.default_rng([SEED, 3]))
    _, draws, _ = sampler.run(state, n_steps, np.random.default_rng(0))
    path = number[tuple(np.concatenate([state.states[None], draws["states"]]).T)]
    n = len(rows)
    return np.bincount(path[:-1] * n + path[1:], minlength=n * n).reshape(n, n)


@pytest.mark.parametrize("name", SCANS)
def test_steps_are_as_probable_as_the_matrix_says(name):
    n_states, factors = dense_problem(2, zeros=0.15)
    sampler = TableGibbs(n_states, factors, SCANS[name], keep_states=True, marginals=False)
    counts = transitions(sampler, 200_000)
    z, compared = compare_transitions(counts, step_matrix(SCANS[name], n_states, factors))
    assert compared > 50
    assert z < z_limit(compared)
    for broken in (factors[1:], factors[:3] + factors[4:]):
        z, compared = compare_transitions(counts, step_matrix(SCANS[name], n_states, (*broken, *zeros_of(factors))))
        assert z > z_limit(compared)


def zeros_of(factors):
    """The zeros alone, so that a factor can be left out without other states becoming possible."""
    return [factor._replace(log_values=np.where(factor.log_values > -np.inf, 0.0, -np.inf)) for factor in factors]


def test_a_block_that_depends_on_what_it_redraws_is_found_out():
    n_states, factors = dense_problem(2, zeros=0.15)
    sampler = TableGibbs(n_states, factors, SCANS["lists"], keep_states=True, marginals=False)
    counts = transitions(sampler, 200_000)
    rows, _ = possible(n_states, factors)
    by_list = [cycle_matrix([twin_matrix(b, n_states, factors) for b in blocks]) for blocks in SCANS["lists"].lists]
    chosen = np.where(rows[:, 0] == 1, 0, 1)
    z, compared = compare_transitions(counts, np.array([by_list[k][i] for i, k in enumerate(chosen)]))
    assert z > z_limit(compared)


def worst_z(sampler, exact, name="probability", schedule=STANDARD, seed=SEED + 1):
    """Largest z of the kept means against the exact values, and their number; constants must be exact."""
    draws = sample(sampler, schedule, seed=seed, progress=False)[name]
    worst, compared = 0.0, 0
    for i, value in enumerate(exact):
        own = draws[:, :, i]
        if np.ptp(own) < 1e-12:
            worst = max(worst, 0.0 if abs(own[0, 0] - value) < 1e-9 else np.inf)
            continue
        estimate = diagnose_real(own).estimate
        worst, compared = max(worst, abs(estimate.value - value) / estimate.mcse), compared + 1
    return worst, compared


@pytest.mark.parametrize("name", [*SCANS, "in turn"])
def test_means_are_exact_within_their_errors(name):
    n_states, factors = dense_problem(2, zeros=0.15)
    scan = in_turn([single_sites(4), OVERLAPPING]) if name == "in turn" else SCANS[name]
    exact = marginals_of(n_states, factors)
    for quantity in ("probability", "visits"):
        sampler = TableGibbs(n_states, factors, scan, thin=20, visits=True)
        z, compared = worst_z(sampler, exact, quantity)
        assert z < z_limit(compared)
        broken = TableGibbs(n_states, (*factors[1:], *zeros_of(factors)), scan, thin=20, visits=True)
        z, compared = worst_z(broken, exact, quantity)
        assert z > z_limit(compared)


def test_conditional_means_vary_less_than_visits():
    n_states, factors = dense_problem(2)
    for scan in SCANS.values():
        sampler = TableGibbs(n_states, factors, scan, thin=50, visits=True)
        trace = sample(sampler, Schedule(4, 2000, 50), seed=SEED, progress=False)
        ratio = trace["probability"].var(axis=(0, 1)) / trace["visits"].var(axis=(0, 1))
        assert (ratio < 1).all()
        difference = trace["probability"] - trace["visits"]
        for i in range(difference.shape[-1]):
            estimate = diagnose_real(difference[:, :, i]).estimate
            assert abs(estimate.value) < z_limit(9) * estimate.mcse


def exact_marginals(problem):
    plan = plan_contraction(problem.n_states, [factor.variables for factor in problem.factors])
    return np.concatenate(plan.run(problem.factors).marginals)


def blocks_of(problem):
    return deterministic_blocks(problem.n_states, problem.factors, relations(problem.factors)).blocks


REFERENCES = [("alarm", 7, 0), ("alarm", 7, 1), ("insurance", 5, 0), ("hailfinder", 11, 0), ("hailfinder", 11, 2)]


@pytest.mark.parametrize(("name", "n_observed", "seed"), REFERENCES)
def test_reference_networks(name, n_observed, seed):
    problem = reference_problem(name, n_observed, seed)
    sampler = TableGibbs(problem.n_states, problem.factors, cyclic(blocks_of(problem)), thin=50)
    z, compared = worst_z(sampler, exact_marginals(problem), schedule=Schedule(4, 600, 50))
    assert compared > 10
    assert z < z_limit(compared)


def test_single_moves_are_wrong_where_the_probe_says_so():
    """Hailfinder with 11 observations: the check above rejects single sites, whatever their errors say.

    One chain: several in different classes disagree, and their error says so.
    """
    problem = reference_problem("hailfinder", 11, 0)
    sampler = TableGibbs(problem.n_states, problem.factors, thin=50)
    z, compared = worst_z(sampler, exact_marginals(problem), schedule=Schedule(1, 600, 50))
    assert z > z_limit(max(compared, 1))


def asia():
    """With one node seen, and all others asked for: "either" is tuberculosis or lung cancer, and free."""
    return reference_problem("asia", 1, 0, prune=False)


def xor():
    """A and B are tossed, C = A xor B is seen to be 0, and so is D, which follows A with some noise."""
    dag = Dag.from_edges([("A", "C"), ("B", "C"), ("A", "D")])
    tables = {
        "A": [0.4, 0.6],
        "B": [0.5, 0.5],
        "C": [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]],
        "D": [[0.3, 0.7], [0.8, 0.2]],
    }
    network = CategoricalNetwork(dag, tables, {name: ["0", "1"] for name in dag.names})
    seen = dict.fromkeys(("C", "D"), 0)
    return prepare(network, Evidence({dag.names.index(name): state for name, state in seen.items()}, {})).whole()


@pytest.mark.parametrize("make", [asia, xor])
def test_deterministic_nodes(make):
    problem = make()
    exact = exact_marginals(problem)
    assert connectivity(problem.n_states, problem.factors).answer is False
    alone = TableGibbs(problem.n_states, problem.factors, thin=20)
    z, compared = worst_z(alone, exact, schedule=Schedule(1, 1000, 100))  # several chains disagree and so see it
    assert z > z_limit(max(compared, 1))
    blocks = blocks_of(problem)
    assert connectivity(problem.n_states, problem.factors, blocks).answer is True
    z, compared = worst_z(TableGibbs(problem.n_states, problem.factors, cyclic(blocks), thin=20), exact)
    assert z < z_limit(max(compared, 1))


def test_xor_is_what_can_be_worked_out_by_hand():
    """P(A = 1 | C = 0, D = 0) = .6 .8 / (.6 .8 + .4 .3)."""
    problem = xor()
    assert exact_marginals(problem) == pytest.approx([0.2, 0.8, 0.2, 0.8])
    sampler = TableGibbs(problem.n_states, problem.factors, cyclic(blocks_of(problem)))
    assert sample(sampler, Schedule(1, 10, 0), seed=1)["probability"][0, 0] == pytest.approx([0.2, 0.8, 0.2, 0.8])
