"""What pages of inferences show are the numbers of the answer."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from page_cases import unpacked

import doxa
from doxa.report import page_text
from doxa.report.document import libraries
from doxa.report.of_values import grid, grid_places, marginals, with_intervals
from doxa.report.writing import page_data


def test_marginals_are_those_of_the_answer(sampled_answer):
    shown, frame = marginals(sampled_answer), sampled_answer.to_frame()
    assert shown["names"] == list(sampled_answer)
    assert [shown["labels"][k] for k in shown["states"]] == [list(table) for table in sampled_answer.values()]
    assert np.allclose(shown["p"], frame["probability"], atol=5.1e-6)
    assert np.allclose(shown["low"], frame["lower"], atol=5.1e-5)
    assert np.allclose(shown["high"], frame["upper"], atol=5.1e-5)
    assert np.allclose(shown["mcse"], frame["mcse"], rtol=0.06)
    assert (shown["half"], shown["exact"], shown["left_out"]) == (False, False, 0)


def test_exact_answers_have_no_errors():
    answer = doxa.infer(doxa.ising_grid(2, 3, coupling=0.5), "X0_0")
    shown = marginals(answer)
    assert shown["exact"]
    assert "mcse" not in shown
    page = page_data(answer)
    assert page["verdict"]["word"] == "Exact"
    assert "Seed" not in dict(page["facts"])


def test_approximations_have_none_either():
    shown = page_data(doxa.infer(doxa.ising_grid(2, 3, coupling=0.5, field=0.2), method="mean_field", seed=1))
    assert "mcse" not in shown["marginals"]
    assert (shown["verdict"]["word"], shown["verdict"]["state"]) == ("Approximation", "unknown")
    assert shown["method"]["numbers"][0][:2] == ["log_evidence_bound", "lower bound of the log evidence, nats"]


def test_of_many_binary_variables_the_second_state_is_held(spins, monkeypatch):
    whole = marginals(spins)
    monkeypatch.setattr(import_module("doxa.report.of_values"), "MOST_STATES", 60)
    half = marginals(spins)
    assert half["half"]
    assert half["p"] == whole["p"][1::2]
    assert half["left_out"] == 0
    monkeypatch.setattr(import_module("doxa.report.of_values"), "MOST_STATES", 30)
    assert marginals(spins)["left_out"] == len(spins) - 30


def test_the_map_is_that_of_the_answer(spins):
    shown = grid(spins)
    assert (shown["rows"], shown["columns"], shown["square"], shown["states"]) == (6, 9, 1, ["1"])
    values = unpacked(shown["p"][0], 0.0, 1.0).reshape(6, 9)
    errors = unpacked(shown["errors"], 0.0, shown["largest"]).reshape(6, 9)
    for name, (row, column) in grid_places(spins).items():
        if name in spins.given:
            assert values[row, column] == (spins.given[name] == "1")
            assert row * 9 + column in shown["given"]
        else:
            assert values[row, column] == pytest.approx(spins[name]["1"].value, abs=1.3e-4)
            assert errors[row, column] == pytest.approx(spins[name]["1"].mcse, rel=0.07)
    assert sorted(shown["given"]) == [0, 53]


def test_a_large_map_is_averaged_over_squares(spins, monkeypatch):
    whole = unpacked(grid(spins)["p"][0], 0.0, 1.0).reshape(6, 9)
    monkeypatch.setattr(import_module("doxa.report.of_values"), "MOST_CELLS", 20)
    shown = grid(spins)
    assert (shown["rows"], shown["columns"], shown["square"], shown["whole"]) == (3, 5, 2, [6, 9])
    values = unpacked(shown["p"][0], 0.0, 1.0).reshape(3, 5)
    assert values[0, 0] == pytest.approx(whole[:2, :2].mean(), abs=3e-4)
    assert values[2, 4] == pytest.approx(whole[4:, 8:].mean(), abs=3e-4)  # at the edge, of one column
    assert shown["given"] == []


def test_more_than_two_states_have_a_map_each():
    from doxa.models.ising import potts_grid

    answer = doxa.infer(potts_grid(2, 2, 3, coupling=0.4, field=[0.0, 0.1, 0.3]))
    shown = grid(answer)
    assert shown["states"] == ["0", "1", "2"]
    total = sum(unpacked(text, 0.0, 1.0) for text in shown["p"])
    assert np.allclose(total, 1, atol=5e-4)


def test_what_is_no_grid_has_no_map(sampled_answer):
    assert grid(sampled_answer) is None
    square = doxa.ising_grid(2, 2, coupling=0.5)
    assert grid(doxa.infer(square, ["X0_0", "X0_1", "X1_0"])) is None  # one is missing
    assert grid(doxa.infer(doxa.ising_grid(1, 4, coupling=0.5))) is None
    assert grid(doxa.infer(doxa.ising([(0, 1)], [0.5]))) is None


def test_how_it_was_found(sampled_answer):
    shown = page_data(sampled_answer, facts={"Network": "alarm.bif"})
    method = shown["method"]
    assert (method["method"], method["why"]) == ("importance", "asked for")
    assert method["evidence"] == str(sampled_answer.log_evidence)
    assert method["given"] == [["BP", "LOW"], ["HRBP", "HIGH"]]
    numbers = {name: value for name, _, value in method["numbers"]}
    largest = max(e.mcse for table in sampled_answer.values() for e in table.values())
    assert numbers["mcse"] == pytest.approx(largest, rel=0.06)
    assert all(words for _, words, _ in method["numbers"])
    assert shown["facts"][0] == ["Network", "alarm.bif"]
    assert ["Seed", "1"] in shown["facts"]


def test_a_run_that_is_too_short_says_what_to_do():
    network = doxa.ising_grid(6, 6, coupling=0.44)
    shown = page_data(doxa.infer(network, method="gibbs", draws=20, chains=4, seed=1))["verdict"]
    assert (shown["state"], shown["word"]) == ("no", "Not converged")
    assert shown["next"].startswith("Run longer (draws=), or try method='tempering'. Do not rely on")
    assert "Run longer" not in shown["why"]


def test_no_library_is_needed(sampled_answer, monkeypatch, tmp_path):
    monkeypatch.setattr(import_module("doxa.report.document"), "files", lambda package: tmp_path)
    libraries.cache_clear()
    try:
        with pytest.raises(doxa.DoxaError):
            libraries()
        monkeypatch.undo()
        text = page_text(sampled_answer)
    finally:
        libraries.cache_clear()
    assert "Licences of the libraries" not in text


def test_pages_are_small(sampled_answer, spins):
    assert max(len(page_text(answer).encode()) for answer in (sampled_answer, spins)) < 60_000


def network_of_numbers():
    from doxa.models import GaussianNetwork, Regression

    dag = doxa.Dag.from_edges([("smokes", "pressure"), ("pressure", "pulse")])
    lines = {"pressure": Regression([120.0, 130.0], [[], []], [10.0, 10.0]), "pulse": Regression(20.0, [0.4], 5.0)}
    return GaussianNetwork(dag, lines, {"smokes": [0.6, 0.4]}, {"smokes": ["no", "yes"]})


@pytest.mark.parametrize("method", ["exact", "importance"])
def test_numbers_stand_there_with_their_intervals(method):
    answer = doxa.infer(network_of_numbers(), given={"pulse": 75.0}, method=method, seed=1)
    page = page_data(answer)
    shown = page["marginals"]
    assert shown["names"] == ["smokes", "pressure"]
    labels = shown["labels"][shown["states"][1]]
    assert labels[0].startswith("below ")
    assert labels[-1].startswith("above ")
    assert len(labels) == 12
    p = np.array(shown["p"][2:])
    assert p.sum() == pytest.approx(1.0, abs=1e-4)
    low, high = map(float, labels[5].split(" to "))
    assert p[5] == pytest.approx(answer["pressure"].probability(between=(low, high)).value, abs=1e-5)
    assert shown["exact"] == (method == "exact")
    facts = dict(page["facts"])
    assert str(answer["pressure"].mean) in facts["pressure"]
    assert page["method"]["given"] == [["pulse", "75"]]
    assert "above" in page_text(answer)


def test_a_number_that_cannot_vary_has_one_value():
    from doxa.models import GaussianNetwork, Regression

    fixed = GaussianNetwork(
        doxa.Dag.from_edges([("x", "y")]), {"x": Regression(0.0, [], 1.0), "y": Regression(5.0, [0.0], 0.0)}
    )
    shown = marginals(with_intervals(doxa.infer(fixed, "y")))
    assert (shown["labels"], shown["p"]) == ([["5"]], [1.0])
