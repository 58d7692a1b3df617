"""`infer`: every method against enumeration, what auto chooses and why, evidence that cannot be, bad input."""

from __future__ import annotations

import dataclasses
import inspect
from importlib import import_module

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import Verdict
from doxa.inference import Budget, BudgetError, ImpossibleEvidenceError, chains, joint, most_probable
from doxa.inference.answers import Answer
from doxa.inference.infer import infer_from
from doxa.inference.options import InferOptions
from doxa.sampling.importance_weights import WeightVerdict
from support.networks import network_file

YES_NO = ["no", "yes"]


def xor_network():
    """Two coins, whether they differ, and a noisy sign of the first."""
    dag = doxa.Dag.from_edges([("a", "c"), ("b", "c"), ("a", "d")], nodes=["a", "b", "c", "d"])
    xor = np.zeros((2, 2, 2))
    for a in range(2):
        for b in range(2):
            xor[a, b, a ^ b] = 1
    tables = {"a": [0.5, 0.5], "b": [0.5, 0.5], "c": xor, "d": [[0.7, 0.3], [0.3, 0.7]]}
    return doxa.CategoricalNetwork(dag, tables, dict.fromkeys("abcd", YES_NO))


SAMPLED = ["importance", "gibbs", "tempering"]


@pytest.mark.parametrize("method", SAMPLED)
def test_xor_is_right_by_every_method(method):
    """Where single-site samplers give 0 or 1, by the seed; 0.7 is exact."""
    result = doxa.infer(xor_network(), "a", given={"c": "no", "d": "yes"}, method=method, seed=1)
    estimate = result["a"]["yes"]
    assert result.converged
    if method == "gibbs":  # the coins and their difference are one block, and nothing else is free
        assert estimate.exact
        assert estimate.value == pytest.approx(0.7)
    else:
        assert 0 < estimate.mcse <= 0.011
        assert abs(estimate.value - 0.7) < 5 * estimate.mcse


@pytest.mark.parametrize("method", [*SAMPLED, "exact"])
def test_asia_with_its_deterministic_node(method):
    network = doxa.read_network(network_file("asia"))
    given = {"xray": "yes", "dysp": "yes"}
    exact = doxa.infer(network, given=given)
    assert exact.method == "exact"
    found = doxa.infer(network, given=given, method=method, seed=2)
    assert list(found) == [name for name in network.names if name not in given]
    for name, table in found.items():
        assert sum(e.value for e in table.values()) == pytest.approx(1)
        for label, estimate in table.items():
            low, high = estimate.interval(1 - 1e-5)
            assert low - 1e-12 <= exact[name][label].value <= high + 1e-12
    if found.log_evidence is not None:
        low, high = found.log_evidence.interval(1 - 1e-5)
        assert low <= exact.log_evidence.value <= high


def test_a_broken_gibbs_sampler_is_not_believed(monkeypatch):
    """The broken twin: single sites, which never leave the class they begin in."""
    from doxa.inference import by_gibbs
    from doxa.inference.gibbs import TableGibbs
    from doxa.inference.gibbs.connectivity import connectivity

    def single(problem, asked):
        sampler = TableGibbs(problem.n_states, problem.factors, thin=10, wanted=asked)
        return sampler, connectivity(problem.n_states, problem.factors)

    monkeypatch.setattr(by_gibbs, "gibbs_sampler", single)
    found = doxa.infer(xor_network(), "a", given={"c": "no", "d": "yes"}, method="gibbs", seed=1, draws=500)
    assert found.converged is False
    assert "do not connect" in found.verdict


def narrow_and_wide():
    """A hidden cause: with it thirty effects are certain, without it they are coins; both are seen alike at times."""
    effects = [f"e{k}" for k in range(30)]
    dag = doxa.Dag.from_edges([("cause", effect) for effect in effects])
    tables = {"cause": [0.7, 0.3]} | {effect: [[0.5, 0.5], [1e-4, 1 - 1e-4]] for effect in effects}
    return doxa.CategoricalNetwork(dag, tables, dict.fromkeys(dag.names, YES_NO))


@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_chains_that_miss_a_narrow_mode_are_not_believed(method, monkeypatch):
    """All chains begin in the wide mode, agree with each other, and never meet the other one."""
    from doxa.inference import by_importance as room

    wide = np.zeros((4, 31), dtype=np.int64)
    monkeypatch.setattr(room, "weighted_starts", lambda *given: lambda problem: wide)
    if method == "gibbs":
        from doxa.inference import by_gibbs

        monkeypatch.setattr(by_gibbs, "scope_blocks", lambda n_states, factors, blocks: blocks)
    found = doxa.infer(narrow_and_wide(), method=method, seed=1, draws=300)
    right = abs(found["cause"]["yes"].value - 0.3) < 0.05
    assert right or not found.converged
    monkeypatch.setattr(room, "cross_checked", lambda answer, *given: answer)
    alone = doxa.infer(narrow_and_wide(), method=method, seed=1, draws=300)
    if method == "gibbs":  # the broken twin believes it
        assert alone.converged
        assert alone["cause"]["yes"].value < 0.1


def test_soft_evidence_multiplies_in():
    network = xor_network()
    result = doxa.infer(network, "a", soft={"a": [1.0, 3.0]}, given={"d": "no"})
    assert result["a"]["yes"].value == pytest.approx(0.3 * 3 / (0.7 + 0.9))
    by_label = doxa.infer(network, "a", soft={"a": {"no": 1, "yes": 3}}, given={"d": "no"})
    assert by_label.probabilities("a").tolist() == result.probabilities("a").tolist()
    assert result.log_evidence.value == pytest.approx(np.log(0.5 * (0.7 + 0.9)))


def test_auto_goes_on_when_the_budget_refuses():
    network = doxa.read_network(network_file("alarm"))
    given = {"BP": "LOW", "HRBP": "HIGH"}
    exact = doxa.infer(network, "HYPOVOLEMIA", given=given)
    found = doxa.infer(network, "HYPOVOLEMIA", given=given, exact_budget=10, seed=1)
    assert found.method == "importance"
    assert found.why.startswith("exact: ")
    assert "the budget is 10 operations" in found.why
    assert found.converged
    estimate = found["HYPOVOLEMIA"]["TRUE"]
    assert abs(estimate.value - exact["HYPOVOLEMIA"]["TRUE"].value) < 5 * estimate.mcse


def test_auto_goes_from_method_to_method_and_says_why(monkeypatch):
    def poor(method):
        def answer(question):
            halves = {v: [doxa.Estimate(0.5, np.nan, np.nan)] * 2 for v in question.query}
            return Answer(method, halves, None, Verdict(False, "Not converged", f"{method} is poor."))

        return answer

    room = import_module("doxa.inference.infer")  # the package's attribute of that name is the function
    for name in SAMPLED:
        monkeypatch.setitem(room._ANSWERS, name, poor(name))
    found = doxa.infer(xor_network(), "a", exact_budget=1, seed=1)
    assert (found.method, found.converged) == ("tempering", False)
    assert "importance is poor." in found.why
    assert "gibbs is poor." in found.why
    assert found.verdict == "Not converged: tempering is poor."


def test_a_verdict_can_be_taken_apart_and_the_seed_makes_the_answer_again():
    network = doxa.ising_grid(6, 6, coupling=0.44)
    short = doxa.infer(network, method="gibbs", draws=20)
    assert (short.judgement.status, short.judgement.advice) == (
        "Not converged",
        "Run longer (draws=), or try method='tempering'.",
    )
    assert short.verdict == f"Not converged: {short.judgement.reason} {short.judgement.advice}"
    again = doxa.infer(network, method="gibbs", draws=20, seed=short.seed)
    assert [again.probabilities(name).tolist() for name in again] == [
        short.probabilities(name).tolist() for name in short
    ]
    exact = doxa.infer(doxa.ising_grid(2, 2, coupling=0.4)).judgement
    assert exact == (True, "Exact", "summed over all states.", "")


def test_weights_that_are_not_good_say_what_to_do(monkeypatch):
    bad = WeightVerdict(False, "two weights are nearly all", "Draw more.")
    monkeypatch.setattr("doxa.inference.importance.sample.judge_weights", lambda *_: bad)
    network = doxa.read_network(network_file("asia"))
    found = doxa.infer(network, given={"xray": "yes"}, method="importance", draws=500, seed=1)
    assert found.verdict.startswith("Not reliable: ")
    assert found.judgement[:2] == (False, "Not reliable")
    assert found.verdict == f"Not reliable: {found.judgement.reason} Draw more."


def test_same_seed_same_answer():
    network = doxa.read_network(network_file("asia"))
    for method in SAMPLED:
        one, two, other = (
            doxa.infer(network, "bronc", given={"dysp": "yes"}, method=method, draws=50, seed=seed)["bronc"][
                "yes"
            ].value
            for seed in (3, 3, 4)
        )
        assert one == two
        assert one != other


def test_ising_grids_by_spins_and_by_sums():
    grid = doxa.ising_grid(4, 5, coupling=0.3, field=0.1)
    given = {"X0_0": 1, "X2_3": -1}
    exact = doxa.infer(grid, given=given)
    found = doxa.infer(grid, given=given, soft={"X1_1": [1, 2]}, method="gibbs", seed=1)
    exact_soft = doxa.infer(grid, given=given, soft={"X1_1": [1, 2]})
    assert abs(exact_soft["X1_1"]["1"].value - exact["X1_1"]["1"].value) > 0.05
    for name in found:
        estimate = found[name]["1"]
        assert abs(estimate.value - exact_soft[name]["1"].value) < 5.5 * estimate.mcse
        assert found[name]["-1"].value == pytest.approx(1 - estimate.value)
    whole = doxa.infer(grid, method="gibbs", seed=2, draws=400)
    free = doxa.infer(grid)
    errors = [abs(whole[n]["1"].value - free[n]["1"].value) / whole[n]["1"].mcse for n in whole]
    assert max(errors) < 5.5


def test_a_large_grid_goes_to_gibbs_at_once():
    found = doxa.infer(doxa.ising_grid(64, 64, coupling=0.2), "X10_10", draws=400, seed=1)
    assert found.method == "gibbs"
    assert found.why.startswith("exact: ")


@pytest.mark.parametrize("method", ["exact", "gibbs", "tempering", "mean_field"])
def test_spins_that_evidence_leaves_one_state_are_certain(method):
    """Soft evidence with a zero observes a spin as hard evidence does."""
    chain = doxa.ising([[0, 1], [1, 2]], [0.5, 0.7], [0.1, 0.0, 0.0])
    soft = {"X1": [0.0, 2.0], "X2": [3.0, 0.0]}
    found = doxa.infer(chain, ["X0", "X1", "X2"], given={"X0": 1}, soft=soft, method=method, seed=1)
    assert [found.probabilities(name).tolist() for name in found] == [[0, 1], [0, 1], [1, 0]]
    assert all(estimate.exact for table in found.values() for estimate in table.values())
    partly = doxa.infer(chain, ["X0", "X1"], soft={"X1": soft["X1"]}, method=method, seed=1)
    assert partly.probabilities("X1").tolist() == [0, 1]
    assert partly.probabilities("X0").sum() == pytest.approx(1)


def test_mean_field_is_labelled_as_an_approximation():
    found = doxa.infer(doxa.ising_grid(3, 3, coupling=0.1, field=0.2), method="mean_field", seed=1)
    exact = doxa.infer(doxa.ising_grid(3, 3, coupling=0.1, field=0.2))
    assert found.converged is None
    assert found.verdict.startswith("Approximation")
    assert found.numbers["log_evidence_bound"] < exact.log_evidence.value
    assert np.isnan(found["X1_1"]["1"].mcse)
    assert abs(found["X1_1"]["1"].value - exact["X1_1"]["1"].value) < 0.1


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], "2 variables lose states that are possible."),
        ([[0.5, 0.5], [0.0, 1.0]], "1 variable loses states that are possible."),
        ([[0.9, 0.1], [0.2, 0.8]], ""),
    ],
)
def test_mean_field_says_what_hard_constraints_cost(table, said):
    states = {name: ["no", "yes"] for name in "ab"}
    network = doxa.CategoricalNetwork(doxa.Dag.from_edges([("a", "b")]), {"a": [0.4, 0.6], "b": table}, states)
    verdict = doxa.infer(network, method="mean_field", seed=1).verdict
    assert verdict.startswith("Approximation: the best product of tables that was found; ")
    assert verdict.endswith(f"hard constraints: {said}" if said else "too sure as a rule.")


def test_joint_and_most_probable_against_enumeration():
    network = xor_network()
    table = joint(network, ["b", "a"], given={"d": "yes"})
    assert table.probabilities == pytest.approx(np.array([[0.15, 0.35], [0.15, 0.35]]))
    assert joint(network, ["c", "a"], given={"c": "no"}).probabilities == pytest.approx(np.array([[0.5, 0.5], [0, 0]]))
    best = most_probable(network, given={"c": "yes", "d": "no"})
    assert best.states == {"a": "no", "b": "yes", "c": "yes", "d": "no"}
    assert best.log_probability == pytest.approx(np.log(0.25 * 0.7))


def test_a_frame_and_a_text():
    result = doxa.infer(xor_network(), ["d", "a"], given={"c": "no"})
    frame = result.to_frame()
    assert frame.columns.tolist() == ["variable", "state", "probability", "mcse", "ess", "lower", "upper"]
    assert frame["variable"].tolist() == ["d", "d", "a", "a"]
    assert str(result).splitlines()[0] == "d = no   0.5 (exact)"
    assert result.given == {"c": "no"}
    with pytest.raises(ArgumentError, match="'b' was not asked for; there are 'd', 'a'"):
        result["b"]


def test_impossible_evidence_names_the_conflict():
    """No two of the three contradict each other."""
    with pytest.raises(ImpossibleEvidenceError) as refused:
        doxa.infer(xor_network(), "d", given={"a": "yes", "b": "yes", "c": "yes"})
    assert refused.value.conflict == ("a", "b", "c")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"query": "e"}, ArgumentError, "query has 'e', which is no variable of the network"),
        ({"query": ["a", "a"]}, ArgumentError, "query has 'a' twice"),
        ({"given": {"a": "maybe"}}, ArgumentError, "maybe"),
        ({"method": "magic"}, ArgumentError, "method is 'magic'; it must be one of 'auto', 'exact'"),
        ({"seed": -1}, ArgumentError, "seed is -1"),
        ({"draws": 100, "until": doxa.Until()}, ArgumentError, "both say when to stop"),
        ({"exact_budget": 0, "method": "exact"}, ArgumentError, "exact_budget is 0"),
        ({"exact_budget": 1, "method": "exact"}, BudgetError, "the budget is 1 operations"),
        ({"exact_budget": Budget(bytes=1), "method": "exact"}, BudgetError, "1 bytes"),
    ],
)
def test_refused(options, error, message):
    with pytest.raises(error, match=message):
        doxa.infer(xor_network(), **options)


def test_refuses_what_is_no_network():
    with pytest.raises(ArgumentTypeError, match="network is a dict; give a CategoricalNetwork or a MarkovNetwork"):
        doxa.infer({"a": 1}, "a")
    with pytest.raises(ArgumentError, match="method is 'importance', which needs a directed network"):
        doxa.infer(doxa.ising_grid(2, 2, coupling=0.1), method="importance")


def test_nothing_observed_has_a_log_evidence_of_0_and_not_of_rounding():
    chain = [(f"x{k}", f"x{k + 1}") for k in range(9)]
    states = {f"x{k}": ["a", "b", "c"] for k in range(10)}
    rng = np.random.default_rng(1)
    tables = {"x0": rng.dirichlet(np.ones(3))} | {child: rng.dirichlet(np.ones(3), 3) for _, child in chain}
    network = doxa.CategoricalNetwork(doxa.Dag.from_edges(chain), tables, states)
    assert str(doxa.infer(network, "x9").log_evidence) == "0 (exact)"
    seen = doxa.infer(network, "x0", given={"x9": "a"}).log_evidence
    assert seen.value == pytest.approx(np.log(doxa.infer(network, "x9")["x9"]["a"].value), rel=1e-12)


def test_options_are_one_value():
    asked = InferOptions(method="gibbs", draws=100, seed=3)
    grid = doxa.ising_grid(3, 3, coupling=0.3, field=0.1)
    assert str(asked) == "method=gibbs, chains=4, draws=100, seed=3"
    by_value = infer_from(grid, "X0_0", {"X1_1": 1}, None, asked)
    by_words = doxa.infer(grid, "X0_0", given={"X1_1": 1}, method="gibbs", draws=100, seed=3)
    assert by_value.to_frame().equals(by_words.to_frame())
    keywords = inspect.signature(doxa.infer).parameters
    for field in dataclasses.fields(InferOptions):  # the same defaults at both faces
        assert keywords[field.name].default == field.default


@pytest.mark.parametrize("method", ["gibbs", "tempering", "importance"])
def test_the_line_says_what_goes_on_and_workers_change_nothing(method, capsys):
    network = xor_network()
    loud = doxa.infer(network, "a", given={"c": "yes", "d": "yes"}, method=method, seed=1, workers=2, progress=True)
    said = capsys.readouterr().err
    assert f"asking the method '{method}'" in said
    if method != "importance":
        assert "draws of each chain" in said
    quiet = doxa.infer(network, "a", given={"c": "yes", "d": "yes"}, method=method, seed=1, workers=1, progress=False)
    assert capsys.readouterr().err == ""
    assert loud.to_frame().equals(quiet.to_frame())


def test_the_warm_up_is_as_long_as_said(monkeypatch):
    lengths = []
    run = chains.run_chains
    monkeypatch.setattr(chains, "run_chains", lambda sampler, schedule, **rest: lengths.append(schedule) or run(
        sampler, schedule, **rest))  # fmt: skip
    doxa.infer(doxa.ising_grid(3, 3, coupling=0.3), method="gibbs", draws=40, warmup=7, seed=1)
    assert lengths[0] == (4, 40, 7)
