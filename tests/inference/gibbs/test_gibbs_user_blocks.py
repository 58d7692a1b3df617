"""`infer(method="gibbs", blocks=..., scan=...)`: transition matrices of the user's scans, answers, and bad input."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from gibbs_cases import kernel_matrix, possible

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference import ChosenBy
from doxa.inference.by_gibbs import connected_by, read_plan, scan_of
from doxa.inference.gibbs import ByValue, Scan, TableGibbs
from doxa.inference.problem import prepare
from doxa.models.evidence import read_evidence
from support.checks import SEED

ALONE = [["a"], ["b"], ["c"], ["d"]]


def network(zeros=False):
    """Four variables, of two and three states, all of which hang together."""
    rng = np.random.default_rng([0, 5])
    states = {"a": ["x", "y"], "b": ["x", "y", "z"], "c": ["x", "y"], "d": ["x", "y"]}
    scopes = [("a", "b"), ("b", "c"), ("c", "d", "a"), ("d", "b")]
    potentials = [(scope, rng.normal(size=[len(states[v]) for v in scope])) for scope in scopes]
    if zeros:
        potentials.append((("a", "c"), np.array([[0.0, -np.inf], [-np.inf, 0.0]])))
    return doxa.MarkovNetwork(states, potentials)


BLOCKS = {
    "alone": ALONE,
    "overlapping": [["a", "b"], ["b", "c", "d"], ["d", "a"]],
    "twice": [["a"], ["b", "c"], ["a"], ["d", "c"]],
    "by value": [["a"], ChosenBy("a", {"x": [["b", "c"], ["d"]], "y": [["c", "d"], ["b"], ["c"]]})],
    "by values": [["a", "b"], ChosenBy("b", {"x": [], "y": [["c"]], "z": [["a", "d"]]}), ["c", "d"]],
}
ORDERS = ["in_order", "reversed", "random", "weights"]


def sampler_of(asked, blocks, scan, **evidence):
    """As `infer` makes it."""
    problem = prepare(asked, read_evidence(asked, evidence.get("given"), evidence.get("soft")))
    plan = read_plan(asked, blocks, scan)
    return problem, TableGibbs(problem.n_states, problem.factors, scan_of(plan, asked, problem, ()))


def weights_of(order, blocks):
    return list(range(1, len(blocks) + 1)) if order == "weights" else order


def entry_matrix(sampler, entry):
    """One redraw by the compiled kernel; where a value chooses, each state follows its own list."""
    if not isinstance(entry, ByValue):
        return kernel_matrix(sampler, entry)
    rows, _ = possible(sampler.n_states, sampler.factors)
    by_list = [
        reduce(np.matmul, (kernel_matrix(sampler, block) for block in own), np.eye(len(rows))) for own in entry.lists
    ]
    return np.array([by_list[row[entry.variable]][i] for i, row in enumerate(rows)])


def scan_matrix(sampler):
    """One step."""
    scan = sampler.scan
    n = len(possible(sampler.n_states, sampler.factors)[0])
    lists = [reduce(np.matmul, (entry_matrix(sampler, e) for e in own), np.eye(n)) for own in scan.lists]
    if scan.weights is None:
        return reduce(np.matmul, lists)
    mixed = sum(weight * matrix for weight, matrix in zip(scan.weights, lists, strict=True))
    return np.linalg.matrix_power(mixed, scan.per_step)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", BLOCKS)
def test_every_scan_keeps_the_posterior(name, order):
    _, sampler = sampler_of(network(), BLOCKS[name], weights_of(order, BLOCKS[name]))
    _, p = possible(sampler.n_states, sampler.factors)
    matrix = scan_matrix(sampler)
    assert np.abs(p @ matrix - p).max() < 1e-12
    assert np.abs(np.linalg.matrix_power(matrix, 2000) - p).max() < 1e-9  # from everywhere


@pytest.mark.parametrize("name", BLOCKS)
def test_a_reversed_scan_is_the_chain_run_backwards(name):
    matrices = []
    for order in ("in_order", "reversed"):
        _, sampler = sampler_of(network(), BLOCKS[name], order)
        matrices.append(scan_matrix(sampler))
    _, p = possible(sampler.n_states, sampler.factors)
    flow = p[:, None] * matrices[0]
    np.testing.assert_allclose(flow, (p[:, None] * matrices[1]).T, atol=1e-13)
    if name != "alone":
        return
    assert np.abs(flow - flow.T).max() > 1e-3  # forwards alone it is not reversible


def test_blocks_chosen_by_what_they_redraw_do_not_keep_it(monkeypatch):
    """The broken twin: the rule of the print, that values of a block's own variables choose it."""
    broken = [["a"], ChosenBy("a", {"x": [["a", "b"]], "y": [["c", "d"], ["b"]]})]
    with pytest.raises(ArgumentError, match=r"blocks\[1\]\['x'\] redraws 'a', which chooses the blocks"):
        read_plan(network(), broken, None)
    scan = Scan((((0,), ByValue(0, (((0, 1),), ((2, 3), (1,))))),))
    problem = prepare(network())
    with pytest.raises(ArgumentError, match=r"scan.lists\[0\]\[1\].lists\[0\] redraws the variable 0, which chooses"):
        TableGibbs(problem.n_states, problem.factors, scan)
    monkeypatch.setattr(Scan, "checked", lambda self, n_states: self)
    sampler = TableGibbs(problem.n_states, problem.factors, scan)
    _, p = possible(sampler.n_states, sampler.factors)
    assert np.abs(p @ scan_matrix(sampler) - p).max() > 1e-3


def test_a_block_that_forgets_a_factor_is_found_out():
    asked = network()
    problem, sampler = sampler_of(asked, BLOCKS["overlapping"], "random")
    _, p = possible(sampler.n_states, sampler.factors)
    assert np.abs(p @ scan_matrix(sampler) - p).max() < 1e-12
    broken = TableGibbs(problem.n_states, problem.factors[1:], sampler.scan)
    assert np.abs(p @ scan_matrix(broken) - p).max() > 1e-3


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["overlapping", "by value"])
def test_answers_are_those_of_the_exact_sum(name, order):
    asked, given = network(), {"d": "y"}
    exact = doxa.infer(asked, given=given, method="exact")
    found = doxa.infer(
        asked, given=given, method="gibbs", blocks=BLOCKS[name], scan=weights_of(order, BLOCKS[name]), seed=SEED + 1
    )
    assert found.method == "gibbs"
    assert found.converged, found.verdict
    for v, table in exact.items():
        for label, right in table.items():
            assert abs(found[v][label].value - right.value) < 5.2 * found[v][label].mcse + 1e-9


def mean_over_redraws(sampler, v):
    """What the conditional probabilities of a variable average to over the redraws of a stationary chain, exactly."""
    rows, p = possible(sampler.n_states, sampler.factors)
    is_at = [rows[:, v] == s for s in range(sampler.n_states[v])]
    total, n_redraws = np.zeros(len(is_at)), 0.0
    for entry in sampler.scan.lists[0]:
        parts = [(p, [entry])]
        if isinstance(entry, ByValue):
            parts = [(p * (rows[:, entry.variable] == s), own) for s, own in enumerate(entry.lists)]
        after = []
        for share, blocks in parts:
            for block in blocks:
                share = share @ kernel_matrix(sampler, block)
                if v in block:
                    total += [share[at].sum() for at in is_at]
                    n_redraws += share.sum()
            after.append(share)
        p = sum(after)
    return total / n_redraws


def test_a_mean_over_redraws_would_be_of_another_distribution():
    """Where values choose, states with more redraws would count more often: why the kernel looks once a step."""
    for name in BLOCKS:
        _, sampler = sampler_of(network(), BLOCKS[name], None)
        rows, p = possible(sampler.n_states, sampler.factors)
        off = 0.0
        for v, size in enumerate(sampler.n_states):
            marginal = np.array([p[rows[:, v] == s].sum() for s in range(size)])
            off = max(off, np.abs(mean_over_redraws(sampler, v) - marginal).max())
        assert off > 0.003 if name.startswith("by") else off < 1e-12, (name, off)


def test_evidence_makes_the_choice_and_leaves_blocks():
    """What was observed is left out of blocks, and a choice by it is made once."""
    asked = network()
    blocks = [["a", "d"], ChosenBy("d", {"x": [["b"]], "y": [["b", "c"], ["c"]]}), ["b"]]
    _, sampler = sampler_of(asked, blocks, None, given={"d": "y"})
    assert sampler.scan.lists == (((0,), (1, 2), (2,), (1,)),)
    _, sampler = sampler_of(asked, [["c", "d"], *BLOCKS["by value"]], None, soft={"a": [0.0, 1.0]})
    assert sampler.scan.lists == (((1, 2), (1, 2), (0,), (1,)),)  # b, c, d are left: those of the state y


def test_a_scan_alone_takes_doxa_s_own_blocks():
    asked = network()
    exact = doxa.infer(asked, method="exact")
    found = doxa.infer(asked, method="gibbs", scan="random", seed=SEED)
    assert found.converged
    assert abs(found["b"]["z"].value - exact["b"]["z"].value) < 5.2 * found["b"]["z"].mcse
    grid = doxa.ising_grid(3, 3, coupling=0.3)
    right = doxa.infer(grid, "X1_1", given={"X0_1": 1}, method="exact")
    spins = doxa.infer(grid, "X1_1", given={"X0_1": 1}, method="gibbs", scan="reversed", seed=SEED)
    assert abs(spins["X1_1"]["1"].value - right["X1_1"]["1"].value) < 5.2 * spins["X1_1"]["1"].mcse


def test_a_default_call_draws_what_it_drew():
    """No blocks, no scan: the same draws as with doxa's own blocks in order."""
    asked = network()
    default = doxa.infer(asked, method="gibbs", seed=3, draws=200)
    named = doxa.infer(asked, method="gibbs", scan="in_order", seed=3, draws=200)
    assert str(default) == str(named)


def test_blocks_that_do_not_connect_are_said_not_to():
    asked = network(zeros=True)
    found = doxa.infer(asked, method="gibbs", blocks=BLOCKS["alone"], seed=1, draws=300)
    assert found.converged is False
    assert "the variables (a, c) fall into 2 classes that the blocks do not connect" in found.verdict
    joined = doxa.infer(asked, method="gibbs", blocks=[["a", "c"], ["b"], ["d"]], seed=1)
    assert joined.converged


def connection(blocks, zeros=False):
    asked = network(zeros)
    problem, sampler = sampler_of(asked, blocks, None)
    return connected_by(sampler.scan, problem).answer


def test_choices_that_can_keep_a_block_from_being_redrawn():
    assert connection(BLOCKS["by value"]) is True
    assert connection(BLOCKS["by values"]) is True
    circular = [["c"], ["d"], ChosenBy("a", {"x": [["b"]], "y": []}), ChosenBy("b", {"x": [["a"]], "y": [], "z": []})]
    assert connection(circular) is None  # at a = y, b = z neither is ever redrawn
    both = {"x": [["b"], ["a", "c"]], "y": [["a", "c"]]}
    assert connection([["d"], ["b"], ChosenBy("d", both)], zeros=True) is True  # in every list
    only = {"x": [["b"], ["a", "c"]], "y": [["a"], ["c"]]}
    assert connection([["d"], ["b"], ChosenBy("d", only)], zeros=True) is None
    assert connection([["d"], ["b"], ChosenBy("d", {"x": [["a"]], "y": [["c"]]})], zeros=True) is False


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"blocks": "ab"}, ArgumentTypeError, "blocks is 'ab'; give a sequence of blocks"),
        ({"blocks": 3}, ArgumentTypeError, "blocks is 3; give a sequence of blocks"),
        ({"blocks": []}, ArgumentError, "blocks is empty; give at least one block, or leave it out"),
        ({"blocks": ["a", "b"]}, ArgumentTypeError, r"blocks\[0\] is 'a'; give a sequence of variables"),
        ({"blocks": [["a"], []]}, ArgumentError, r"blocks\[1\] is empty; a block has at least one variable"),
        ({"blocks": [["a", "e"]]}, ArgumentError, r"blocks\[0\] has 'e', which is no variable of the network"),
        ({"blocks": [["a", "a"]]}, ArgumentError, r"blocks\[0\] has 'a' twice; name each variable once"),
        ({"blocks": [["a"], ["b"]]}, ArgumentError, r"no block has 'c', so it would never move; add the block \['c'\]"),
        ({"blocks": ALONE, "scan": "up"}, ArgumentError, "scan is 'up'; it must be one of 'in_order'"),
        ({"blocks": ALONE, "scan": [1]}, ArgumentError, "scan has 1 weights but there are 4 blocks"),
        ({"blocks": ALONE, "scan": [1, 1, -1, 1]}, ArgumentError, r"scan\[2\] is -1; a weight is a finite"),
        ({"blocks": ALONE, "scan": [0] * 4}, ArgumentError, "the weights of scan sum to 0"),
        ({"blocks": ALONE, "scan": [1, 1, "q", 1]}, ArgumentTypeError, r"scan\[2\] is 'q'; a weight is a"),
        ({"blocks": ALONE, "scan": [1, 1, 0, 1]}, ArgumentError, "no block has 'c'"),
        ({"scan": [1, 2]}, ArgumentError, "scan has weights but there are no blocks to weigh; give blocks="),
        ({"scan": 7}, ArgumentError, "scan has weights but there are no blocks to weigh"),
        ({"blocks": [["a"]], "method": "auto"}, ArgumentError, "blocks is given, but method is 'auto'; it belongs to"),
        ({"scan": "random", "method": "exact"}, ArgumentError, "scan is given, but method is 'exact'; it belongs to"),
        ({"blocks": [ChosenBy("e", {})]}, ArgumentError, r"the variable of blocks\[0\] has 'e', which is no variable"),
        ({"blocks": [ChosenBy("a", [])]}, ArgumentTypeError, r"the blocks of blocks\[0\] are a list; give blocks by"),
        ({"blocks": [ChosenBy("a", {"x": []})]}, ArgumentError, r"blocks\[0\] has no blocks for the state 'y' of 'a'"),
        ({"blocks": [ChosenBy("a", {"q": []})]}, ArgumentError, r"blocks\[0\] has blocks for 'q', which is no state"),
        (
            {"blocks": [ChosenBy("a", {"x": ["b"], "y": []})]},
            ArgumentTypeError,
            r"blocks\[0\]\['x'\]\[0\] is 'b'; give a sequence of variables",
        ),
    ],
)
def test_refused(options, error, message):
    with pytest.raises(error, match=message):
        doxa.infer(network(), **({"method": "gibbs"} | options))


def test_a_block_that_is_too_large_is_named():
    names = [f"v{k}" for k in range(13)]
    wide = doxa.ising([(names[k], names[k + 1]) for k in range(12)], coupling=0.1)
    with pytest.raises(ArgumentError, match=r"the block \['v0', .*'v12'\] has more than 4096 possible configurations"):
        doxa.infer(wide, method="gibbs", blocks=[names])


def test_a_choice_by_what_is_left_out_is_refused():
    dag = doxa.Dag.from_edges([("a", "b"), ("b", "c"), ("b", "d")])
    two = [[0.6, 0.4], [0.3, 0.7]]
    tables = {"a": [0.5, 0.5], "b": two, "c": two, "d": two}
    asked = doxa.CategoricalNetwork(dag, tables, {name: ["no", "yes"] for name in dag.names})
    blocks = [["a"], ["b"], ["c"], ["d"], ChosenBy("d", {"no": [["a", "b"]], "yes": []})]
    found = doxa.infer(asked, "a", given={"c": "yes"}, method="gibbs", blocks=blocks[:4], seed=1)  # d is barren
    exact = doxa.infer(asked, "a", given={"c": "yes"}, method="exact")
    assert abs(found["a"]["yes"].value - exact["a"]["yes"].value) < 5.2 * found["a"]["yes"].mcse
    with pytest.raises(ArgumentError, match=r"blocks\[4\] is chosen by 'd', which bears on nothing that was asked for"):
        doxa.infer(asked, "a", given={"c": "yes"}, method="gibbs", blocks=blocks)
