"""`log_partition`: exact against enumeration, annealed within its errors and bounds, with evidence and without."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.annealing import Annealed, Reversed, linear
from doxa.inference.annealing.network_paths import condition_spins
from doxa.inference.exact import BudgetError
from doxa.inference.log_partition import NoWeightError, _compare, log_partition
from doxa.inference.propagation import ImpossibleEvidenceError
from doxa.models import Dag
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence, read_evidence
from doxa.models.ising import ising, ising_grid, potts_grid
from doxa.models.markov import MarkovNetwork
from support.checks import SEED, z_limit
from support.small_networks import joint, named, random_categorical, random_evidence, random_markov

RNG = np.random.default_rng(11)
GLASS = ising_grid(3, 3, coupling=RNG.normal(size=12), field=RNG.normal(0, 0.4, (3, 3)), coding="01")
POTTS = potts_grid(3, 3, 3, coupling=0.8, field=[0.0, 0.2, -0.3])
GIVEN = {"X0_0": 1, "X2_1": 0}
SOFT = {"X1_1": [1.0, 3.0], "X2_2": [0.0, 2.0], "X0_0": [0.5, 0.25]}


@pytest.mark.parametrize("seed", range(30))
def test_exact_is_the_sum_over_all_states(seed):
    rng = np.random.default_rng(seed)
    network = (random_categorical if seed % 2 else random_markov)(rng)
    evidence = random_evidence(rng, network)
    total = joint(network, evidence).sum()
    given, soft = named(network, evidence)
    if total == 0:
        with pytest.raises((ImpossibleEvidenceError, ArgumentError)):
            log_partition(network, given=given, soft=soft)
        return
    found = log_partition(network, given=given, soft=soft)
    assert found.value == pytest.approx(np.log(total), abs=1e-12)
    assert found.exact
    assert found.lower == found.upper == found.value
    assert (found.method, found.bounds_are) == ("exact", "exact")
    assert found.verdict.reliable


CASES = {
    "glass": (GLASS, {}, {}),
    "glass, evidence": (GLASS, GIVEN, SOFT),
    "potts": (POTTS, {}, {}),
    "potts, evidence": (POTTS, {"X1_1": 2}, {"X0_0": [1.0, 2.0, 0.0]}),
    "spins apart": (ising([[0, 1]], 0.5, [0.0, 0.1, 0.0]), {}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_annealed_is_near_what_is_exact(name):
    network, given, soft = CASES[name]
    exact = log_partition(network, given=given, soft=soft)
    total = joint(network, read_evidence(network, given, soft)).sum()
    assert exact.value == pytest.approx(np.log(total), abs=1e-10)
    found = log_partition(network, given=given, soft=soft, method="annealed", seed=SEED)
    assert found.lower < exact.value < found.upper
    assert found.upper - found.lower < 1.6
    assert abs(found.value - exact.value) < z_limit(len(CASES)) * found.delta_error + 1e-9
    assert (found.method, found.bounds_are) == ("annealed", "proven")
    assert "particles from" in found.why
    assert "elimination" in found.why
    if found.verdict.reliable:
        assert found.mcse == found.delta_error
        assert "proven" in str(found)


@pytest.mark.parametrize("seed", range(8))
def test_annealed_with_zeros_and_evidence(seed):
    rng = np.random.default_rng(100 + seed)
    make = random_categorical if seed % 2 else random_markov
    while True:
        network = make(rng)
        evidence = random_evidence(rng, network)
        total = joint(network, evidence).sum()
        if total > 0:
            break
    given, soft = named(network, evidence)
    found = log_partition(network, given=given, soft=soft, method="annealed", seed=SEED + seed)
    if found.exact:  # evidence left nothing to sum over
        assert found.value == pytest.approx(np.log(total))
    else:
        assert found.lower < np.log(total) < found.upper
        scale = found.delta_error if np.isfinite(found.delta_error) else 1e-9
        assert abs(found.value - np.log(total)) < z_limit(8) * scale + 1e-9


def test_spins_given_evidence():
    evidence = read_evidence(GLASS, GIVEN, SOFT)
    left, free = condition_spins(GLASS, evidence)
    density = joint(GLASS, evidence)
    others = tuple(v for v in range(9) if v not in free)
    assert joint(left) == pytest.approx(density.sum(axis=others))
    both, known = condition_spins(GLASS, Evidence(dict.fromkeys(range(9), 1), {}))
    assert known == ()
    found = log_partition(GLASS, given=dict.fromkeys(GLASS.names, 1), method="annealed")
    assert found.exact
    assert found.value == pytest.approx(both.constant)
    assert found.value == pytest.approx(float(GLASS.log_potential(np.ones((1, 9), dtype=int))[0]))


def hidden_chain():
    """Four hidden nodes in a row, each with a node that is seen."""
    rng = np.random.default_rng(17)
    edges = [(f"hidden{i}", f"hidden{i + 1}") for i in range(3)] + [(f"hidden{i}", f"seen{i}") for i in range(4)]
    dag = Dag.from_edges(edges)
    tables = {name: rng.dirichlet([0.5, 0.5, 0.5], size=(3,) * len(dag.parents(name))) for name in dag.names}
    return CategoricalNetwork(dag, tables, {name: ["a", "b", "c"] for name in dag.names})


def test_simulated_evidence_gives_a_proven_bound():
    """Over repetitions of drawing a state and taking evidence from it."""
    rng = np.random.default_rng(SEED)
    network = hidden_chain()
    density, held = joint(network), []
    for _ in range(40):
        flat = rng.choice(density.size, p=density.ravel() / density.sum())
        row = np.unravel_index(flat, density.shape)
        state = {name: network.states[v][row[v]] for v, name in enumerate(network.names)}
        given = {name: state[name] for name in state if name.startswith("seen")}
        exact = log_partition(network, given=given).value
        found = log_partition(network, given=given, origin=state, method="annealed", seed=int(rng.integers(1000)))
        if not found.exact:
            assert found.bounds_are == "proven"
            assert "the state that the evidence came from" in found.why
            held.append(found.lower < exact < found.upper)
    assert len(held) > 20
    assert np.mean(held) > 0.8


def test_auto_reroutes_what_is_too_wide():
    wide = ising_grid(40, 40, coupling=0.1)
    with pytest.raises(BudgetError, match="log Z of this grid"):
        log_partition(wide, method="exact")
    found = log_partition(wide, seed=SEED)
    assert found.method == "annealed"
    assert found.bounds_are == "proven"
    assert "coupling from the past" in found.why
    assert "would take" in found.why
    high = 1600 * np.log(2) + 3120 * np.log(np.cosh(0.1))  # and loops: a plaquette adds tanh(.1)^4
    assert found.lower < high + 1521 * np.tanh(0.1) ** 4 < found.upper


def test_without_exact_draws_the_upper_bound_is_an_estimate():
    glass = ising_grid(26, 26, coupling=np.random.default_rng(1).choice([-0.3, 0.3], 2 * 26 * 25))
    found = log_partition(glass, method="annealed", seed=SEED)
    assert found.bounds_are == "estimate"
    assert "states of the forward run (the network is too wide" in found.why
    assert found.lower < found.value < found.upper


def test_a_disagreement_is_reported():
    rng = np.random.default_rng(SEED)
    forward = Annealed(rng.normal(0, 0.3, 512), np.zeros((512, 1)), linear(2), np.zeros(2))
    apart = Reversed(rng.normal(1.0, 0.3, 512), linear(2))
    assert forward.estimate().verdict.reliable
    verdict = _compare(forward.estimate(), apart)
    assert verdict.reliable is False
    assert "forward and reverse runs disagree by" in verdict.text
    fitting = Reversed(rng.normal(0.09, 0.3, 512), linear(2))  # both say 0.3^2 / 2
    assert _compare(forward.estimate(), fitting).reliable


def test_the_seed_decides():
    runs = [log_partition(GLASS, method="annealed", seed=seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0].value != runs[2].value


def test_a_network_without_weight():
    """No pair of tables excludes a state, but all together exclude every one."""
    differ = np.where(np.eye(2), -np.inf, 0.0)
    network = MarkovNetwork(
        {name: ["0", "1"] for name in "abc"}, [(["a", "b"], differ), (["b", "c"], differ), (["c", "a"], differ)]
    )
    with pytest.raises(NoWeightError, match="states of probability 0"):
        log_partition(network, method="annealed", seed=1)
    with pytest.raises(ArgumentError, match="the sum over all states is 0"):
        log_partition(network)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "guess"}, ArgumentError, "method is 'guess'; it must be one of 'auto', 'exact', 'annealed'"),
        ({"given": {"X9_9": 1}}, ArgumentError, "given names 'X9_9'"),
        ({"seed": -1, "method": "annealed"}, ArgumentError, "seed is -1"),
        ({"seed": 0.5, "method": "annealed"}, ArgumentTypeError, "seed is 0.5"),
        ({"origin": {"X0_0": 1}}, ArgumentError, "origin has no state for 'X0_1'"),
        (
            {"origin": dict.fromkeys(GLASS.names, 1), "given": {"X0_1": 0}},
            ArgumentError,
            "origin and given disagree about 'X0_1'",
        ),
        ({"origin": dict.fromkeys(GLASS.names, 1), "soft": {"X0_1": [1, 2]}}, ArgumentError, "soft evidence was not"),
    ],
)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        log_partition(GLASS, **options)
