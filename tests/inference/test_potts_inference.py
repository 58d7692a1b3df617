"""Potts models by heat bath, beside exact answers."""

from __future__ import annotations

import numpy as np
import pytest

import doxa
from doxa.inference import by_spins
from doxa.models.evidence import Evidence, read_evidence
from doxa.models.ising import potts, potts_grid
from support.checks import z_limit


def uneven(rows, columns, q, seed=0):
    rng = np.random.default_rng(seed)
    n_edges = rows * (columns - 1) + (rows - 1) * columns
    fields = rng.normal(0, 0.5, (rows, columns, q))
    return potts_grid(rows, columns, q, coupling=rng.normal(0.2, 0.6, n_edges), field=fields)


QUESTIONS = {
    "two states": (uneven(3, 3, 2), {}),
    "three states": (uneven(3, 3, 3), {}),
    "five states": (uneven(2, 3, 5), {}),
    "observed": (uneven(3, 3, 3), {"given": {"X1_1": 2, "X0_0": 0}}),
    "soft": (uneven(3, 3, 3), {"soft": {"X0_1": [1, 5, 2], "X2_2": [0.1, 0.1, 0.3]}}),
    "soft zeros": (uneven(3, 3, 3), {"soft": {"X0_1": [1, 0, 2], "X1_1": [0, 0, 1], "X2_0": [0, 1, 3]}}),
    "both": (
        uneven(3, 3, 4, seed=2),
        {"given": {"X1_0": 3}, "soft": {"X1_0": [0, 0, 0, 2.0], "X0_1": [1, 0, 0, 4], "X2_1": [1e-200, 1, 1, 0]}},
    ),
    "strong fields": (potts([[0, 1], [1, 2]], 3, [0.8, -0.5], [[0, 700, 699.0], [0, 0.1, 0.2], [-900, 0, 1.0]]), {}),
}


def z_values(found, exact):
    """Of every state with an error; those without are compared here."""
    found_z = []
    for name in exact:
        for label, estimate in found[name].items():
            truth = float(exact[name][label].value)
            if estimate.exact:
                assert estimate.value == pytest.approx(truth, abs=1e-12)
            else:
                found_z.append((estimate.value - truth) / estimate.mcse)
    return np.array(found_z)


@pytest.mark.parametrize("name", QUESTIONS)
def test_marginals(name):
    network, evidence = QUESTIONS[name]
    found = doxa.infer(network, method="gibbs", draws=400, seed=3, **evidence)
    assert found.method == "gibbs"
    exact = doxa.infer(network, method="exact", **evidence)
    z = z_values(found, exact)
    assert np.abs(z).max() < z_limit(z.size)
    for variable in exact:
        assert found.probabilities(variable).sum() == pytest.approx(1, abs=1e-12)
        for label, estimate in exact[variable].items():
            low, high = found[variable][label].interval(1 - 1e-6)
            assert low - 1e-12 <= float(estimate.value) <= high + 1e-12
    if name != "strong fields":
        other = doxa.infer(uneven(*dimensions(network), seed=9), method="exact", **evidence)
        assert np.abs(z_values(found, other)).max() > z_limit(z.size)


def dimensions(network):
    return *network.shape, network.fields.shape[1]


def test_states_that_evidence_forbids_are_exactly_zero():
    network, evidence = QUESTIONS["soft zeros"]
    found = doxa.infer(network, method="gibbs", draws=40, seed=1, **evidence)
    assert found["X0_1"]["1"].exact
    assert found["X0_1"]["1"].value == 0
    assert not found["X0_1"]["0"].exact
    assert [e.value for e in found["X1_1"].values()] == [0, 0, 1]
    assert all(e.exact for e in found["X1_1"].values())


def test_what_is_known_needs_no_chains():
    network = potts([[0, 1], [2, 3]], 3, [0.5, 0.0], [[0.0, 0.0, 1.0], [0.0] * 3, [0.0, 1.0, 2.0], [0.0] * 3])
    found = doxa.infer(network, ["X0", "X1"], given={"X0": 1}, soft={"X1": [0, 1, 0]}, method="gibbs", seed=1)
    assert found.verdict == "Exact: the evidence leaves one state of each."
    assert [e.value for e in found["X1"].values()] == [0, 1, 0]
    for query, options in ((["X2"], {}), (["X0", "X1"], {"given": {"X0": 1}})):
        found = doxa.infer(network, query, method="gibbs", seed=1, **options)
        exact = doxa.infer(network, query, method="exact", **options)
        assert found.verdict == "Exact: nothing that is unknown bears on what was asked."
        assert z_values(found, exact).size == 0
    everything = dict.fromkeys(network.names, 1)
    assert doxa.infer(network, ["X0"], given=everything, method="gibbs", seed=1)["X0"]["1"].value == 1


def test_conditioned_models_have_the_energies_of_the_network():
    network, options = QUESTIONS["both"]
    model, known = by_spins.condition_potts(network, read_evidence(network, options["given"], options["soft"]))
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4, (50, 9))
    rows[:, 3], rows[:, 1], rows[:, 7] = 3, rng.choice([0, 3], 50), rng.integers(0, 3, 50)
    log_p = network.log_potential(rows) + np.log([1, 0.5, 0.25, 4])[rows[:, 1]] + np.log([1e-200, 1, 1, 1])[rows[:, 7]]
    shift = log_p + model.energy(rows[:, known < 0])
    assert known.tolist() == [-1, -1, -1, 3, -1, -1, -1, -1, -1]
    assert np.ptp(shift) < 1e-10
    nothing, all_known = by_spins.condition_potts(network, Evidence(dict.fromkeys(range(9), 1), {}))
    assert nothing is None
    assert (all_known == 1).all()


def test_the_seed_gives_the_answer_whoever_works():
    network = uneven(3, 3, 3)
    first = doxa.infer(network, method="gibbs", draws=40, seed=5).to_frame()
    assert first.equals(doxa.infer(network, method="gibbs", draws=40, seed=5).to_frame())
    assert not first.equals(doxa.infer(network, method="gibbs", draws=40, seed=6).to_frame())


def test_one_chain_where_64_are_too_large(monkeypatch):
    network, evidence = QUESTIONS["soft zeros"]
    monkeypatch.setattr(by_spins, "_MOST_BYTES", 1)
    found = doxa.infer(network, ["X0_0", "X2_0"], method="gibbs", draws=300, seed=3, **evidence)
    z = z_values(found, doxa.infer(network, ["X0_0", "X2_0"], method="exact", **evidence))
    assert np.abs(z).max() < z_limit(z.size)


def test_large_models_are_sampled_by_auto():
    found = doxa.infer(potts_grid(40, 40, 3, coupling=0.3), "X10_10", draws=200, seed=1)
    assert found.method == "gibbs"
    assert found.converged
    assert found["X10_10"]["0"].value == pytest.approx(1 / 3, abs=0.02)


def test_chains_that_stay_in_different_states_are_not_believed():
    """Far in the ordered phase every chain keeps the state it began in; 256 chains are split between three."""
    found = doxa.infer(potts_grid(12, 12, 3, coupling=3.0), "X5_5", method="gibbs", draws=100, seed=1)
    assert found.converged is False


@pytest.mark.slow
def test_intervals_cover():
    """95% intervals of short runs, 60 seeds: no fewer than a binomial 0.95 allows, per network."""
    for name in ("three states", "soft zeros", "five states"):
        network, evidence = QUESTIONS[name]
        exact = doxa.infer(network, method="exact", **evidence)
        inside = total = 0
        for seed in range(60):
            found = doxa.infer(network, method="gibbs", draws=100, seed=seed, **evidence)
            for variable in exact:
                for label, estimate in found[variable].items():
                    if not estimate.exact:
                        low, high = estimate.interval()
                        inside += low <= float(exact[variable][label].value) <= high
                        total += 1
        assert inside / total >= 0.93
