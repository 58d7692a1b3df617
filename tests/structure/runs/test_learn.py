"""`learn` and `StructurePosterior` as a user meets them."""

from __future__ import annotations

import pickle
import re
import time

import joblib
import numpy as np
import pandas as pd
import pytest

import doxa
from doxa.data import Table, datasets
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.trace import Trace
from doxa.models import Dag
from doxa.sampling import runner
from doxa.structure import MarkovBlanket, SingleEdge
from doxa.structure.exact.enumeration import enumerate_posterior, exact_edge_probabilities
from doxa.structure.families.cache import FamilyScores
from doxa.structure.posterior.structure_posterior import StructurePosterior
from support.networks import load_network
from support.tables import skewed_table

NAMED = "'auto', 'single_edge', 'edge_gibbs', 'emc3', 'markov_blanket', 'parent_set_gibbs', 'edge_reversal', 'tempered'"


@pytest.fixture(scope="module")
def reinis():
    return doxa.learn(datasets.load("reinis"), prior="uniform", exact=False, seed=1)


@pytest.fixture(scope="module")
def small():
    table = skewed_table(4, 50, seed=7)
    return doxa.learn(table, prior="uniform", seed=2, draws=2000), enumerate_posterior(FamilyScores(table))


def test_reinis_agrees_with_the_exact_sum(reinis):
    exact = exact_edge_probabilities(FamilyScores(datasets.load("reinis")))
    for row in reinis.edges().itertuples():
        i, j = reinis.names.index(row.source), reinis.names.index(row.target)
        low, high = reinis.edge(row.source, row.target).interval(0.9999)
        assert low <= exact[i, j] <= high
        assert row.mcse > 0
    assert reinis.converged
    assert reinis.verdict.startswith(
        "Converged: 4 chains from the empty graph, the best graph of a search, a dense graph and a random graph agree"
    )


def test_edges_are_a_sorted_frame_of_all_ordered_pairs(reinis):
    frame = reinis.edges()
    assert list(frame.columns) == ["source", "target", "probability", "mcse", "ess", "r_hat"]
    assert len(frame) == 30
    assert frame["probability"].is_monotonic_decreasing
    assert set(zip(frame["source"], frame["target"], strict=True)) == {
        (a, b) for a in reinis.names for b in reinis.names if a != b
    }


def test_adjacencies_add_the_two_directions(reinis):
    frame = reinis.adjacencies()
    assert list(frame.columns) == ["node_a", "node_b", "probability", "mcse", "ess", "r_hat"]
    assert len(frame) == 15
    for row in frame.itertuples():
        both = reinis.edge(row.node_a, row.node_b).value + reinis.edge(row.node_b, row.node_a).value
        assert row.probability == pytest.approx(both, abs=1e-12)


def test_number_of_edges_and_scores_belong_to_the_draws(reinis):
    assert reinis.n_edges.shape == reinis.log_score.shape == (4, reinis.trace.n_draws)
    assert reinis.n_edges.mean() == pytest.approx(reinis.edges()["probability"].sum(), abs=1e-9)


def test_graphs_come_by_their_exact_probability(small):
    posterior, exact = small
    graphs = posterior.graphs(30)
    best = np.argsort(-exact.log_score, kind="stable")[:30]
    np.testing.assert_allclose([graph.log_score for graph in graphs], exact.log_score[best], atol=1e-9)
    known = {Dag.from_rows(rows, posterior.names): p for rows, p in zip(exact.rows, exact.probability, strict=True)}
    for graph in graphs:
        low, high = graph.frequency.interval(0.99999)
        assert low <= known[graph.dag] <= high
    assert sum(graph.frequency.value for graph in posterior.graphs(10_000)) == pytest.approx(1.0)


def test_features_are_means_over_the_draws(small):
    posterior, exact = small
    truth = sum(
        p * (Dag.from_rows(rows, posterior.names).n_edges)
        for rows, p in zip(exact.rows, exact.probability, strict=True)
    )
    n_edges = posterior.feature(lambda dag: dag.n_edges)
    assert n_edges.value == pytest.approx(posterior.n_edges.mean())
    assert abs(n_edges.value - truth) < 5 * n_edges.mcse
    edge = posterior.feature(lambda dag: dag.has_edge("x0", "x1"))
    assert edge.value == posterior.edge("x0", "x1").value
    assert edge.mcse == pytest.approx(posterior.edge("x0", "x1").mcse, rel=1e-12)
    always = posterior.feature(lambda dag: True)
    assert always.value == 1.0
    assert 0 < always.interval()[0] < 1
    # A count that was 1 in every draw may be more in another graph: no bound from a probability can be given.
    one = posterior.feature(lambda dag: 1)
    assert str(one) == "1 (error unknown)"


def test_a_feature_must_be_a_number(small):
    posterior, _ = small
    with pytest.raises(ArgumentError, match="f returned 'many'; it must return a number, True or False"):
        posterior.feature(lambda dag: "many")
    with pytest.raises(ArgumentError, match="f returned a value that is not finite"):
        posterior.feature(lambda dag: np.inf)


@pytest.mark.parametrize("sampler", ["single_edge", "markov_blanket"])
def test_same_seed_same_draws_with_one_two_and_four_workers(sampler):
    table = skewed_table(5, 60, seed=1)
    runs = [doxa.learn(table, sampler=sampler, seed=3, draws=200, workers=workers) for workers in (1, 2, 4)]
    with joblib.parallel_config(backend="loky", n_jobs=2):
        runs.append(doxa.learn(table, sampler=sampler, seed=3, draws=200))
    for run in runs[1:]:
        for name in ("rows", "log_score", "n_edges"):
            assert np.array_equal(run.trace[name], runs[0].trace[name])
    assert not np.array_equal(doxa.learn(table, sampler=sampler, seed=4, draws=200).n_edges, runs[0].n_edges)


def test_learn_takes_paths_and_frames(tmp_path):
    frame = pd.DataFrame({"a": ["x", "y", "x", "x"] * 5, "b": ["u", "v", "u", "v"] * 5})
    path = tmp_path / "data.csv"
    frame.to_csv(path, index=False)
    options = {"seed": 1, "draws": 50}
    from_path, from_frame = doxa.learn(path, **options), doxa.learn(frame, **options)
    assert np.array_equal(from_path.trace["rows"], from_frame.trace["rows"])
    assert doxa.learn(str(path), **options).names == ("a", "b")


def test_a_cap_is_obeyed_and_stated(small):
    posterior = doxa.learn(skewed_table(4, 50, seed=7), max_parents=1, seed=1, draws=200)
    assert max(len(dag.parents(x)) for dag, _, _ in posterior.graphs(99) for x in dag.names) == 1
    assert "sparse prior over graphs; at most 1 parent with at most 50 configurations\n" in posterior.summary()
    uniform = doxa.learn(skewed_table(4, 50, seed=7), prior="uniform", max_parents=1, seed=1, draws=20)
    assert "at most 1 parent\n" in uniform.summary()
    assert "any number of parents" in small[0].summary()


def test_summary_is_a_page_of_text(reinis):
    lines = reinis.summary().splitlines()
    assert lines[0] == (
        "1841 rows x 6 columns; BDeu score, equivalent sample size 1; uniform prior over graphs; any number of parents"
    )
    n_draws = reinis.trace.n_draws
    assert lines[1].startswith(
        "Auto(single_edge=0.15, edge_reversal=0.69, order_shift=0.03, joint_parents=0.05): "
        f"4 chains x {n_draws} draws, one every 100 steps, after "
    )
    assert lines[1].endswith("seed 1")
    assert "phys -> smoke" in lines[4]
    assert lines[-1] == reinis.verdict


def test_one_state_columns_and_one_row_are_learnt_from():
    table = Table.from_codes(["a", "b", "c"], [["n", "y"], ["only"], ["n", "y"]], [[0, 0, 1]])
    posterior = doxa.learn(table, prior="uniform", seed=1, draws=400)
    # BDeu of one case is -log 2 for each two-state column, whatever the graph: the posterior is the prior.
    exact = enumerate_posterior(FamilyScores(table))
    np.testing.assert_allclose(exact.probability, 1 / 25)
    for row in posterior.edges().itertuples():
        low, high = posterior.edge(row.source, row.target).interval(0.9999)
        assert low <= 8 / 25 <= high


def test_the_printed_sampler_is_labelled_biased():
    posterior = doxa.learn(skewed_table(3, 30, seed=0), sampler=MarkovBlanket(published=True), seed=1, draws=100)
    assert posterior.verdict.startswith("Biased: Algorithm 1 as printed does not keep the posterior")
    assert posterior.converged is False
    assert "Converged" not in posterior.verdict
    assert not doxa.learn(skewed_table(3, 30, seed=0), sampler=MarkovBlanket(), seed=1, draws=100).verdict.startswith(
        "Biased"
    )


# --- verdicts on made-up draws ---------------------------------------------------------------------------------


def made_up(edge_by_chain, log_score, n_draws=1000):
    """A posterior over two nodes whose chains hold a -> b with these probabilities."""
    rng = np.random.default_rng(0)
    rows = np.zeros((len(edge_by_chain), n_draws, 2, 1), dtype=np.uint64)
    for chain, p in enumerate(edge_by_chain):
        rows[chain, :, 0, 0] = 2 * (rng.random(n_draws) < p)
    scores = np.array(log_score)[:, None] + rng.normal(0, 1, size=(len(edge_by_chain), n_draws))
    info = {name: np.full(len(edge_by_chain), 9) for name in ("proposed", "accepted")}
    trace = Trace(
        {"rows": rows, "log_score": scores, "n_edges": (rows > 0).sum(axis=(2, 3)).astype(np.int32)}, info=info
    )
    real = doxa.learn(skewed_table(2, 10, seed=0), draws=4, seed=1)
    return StructurePosterior(("a", "b"), trace, SingleEdge(), real.options, real.cache)


def test_chains_that_agree_have_converged():
    posterior = made_up([0.3] * 4, [0.0] * 4)
    assert posterior.converged is True
    assert posterior.verdict.startswith(
        "Converged: 4 chains from the empty graph, the best graph of a search, a dense graph and a random graph agree "
        "(R-hat of the log score 1.0"
    )


def test_chains_in_different_modes_have_not():
    posterior = made_up([0.3] * 4, [0.0, 0.0, 0.0, -40.0])
    assert posterior.converged is False
    assert posterior.verdict.startswith("Not converged: the log score has R-hat")
    assert re.search(r"mean by chain -?0\.\d, -?0\.\d, -?0\.\d, -40\.\d\)", posterior.verdict)
    assert "The chains sit in different modes, 40 nats apart, which longer runs seldom mend" in posterior.verdict


def test_chains_that_nearly_agree_should_run_longer():
    posterior = made_up([0.3] * 4, [0.0, 0.0, 0.3, -0.3])
    assert posterior.converged is False
    assert "Or run longer: draws=4000, warmup=2000. If it stays so, the chains are caught" in posterior.verdict


def test_chains_that_disagree_on_an_edge_have_not():
    posterior = made_up([0.1, 0.9, 0.1, 0.9], [0.0] * 4)
    assert posterior.converged is False
    assert "chains disagree about one edge probability, that of a -> b: R-hat 1." in posterior.verdict
    assert "chains disagree about one adjacency probability, that of a -- b: R-hat 1." in posterior.verdict
    assert "(limit 1.01)" in posterior.verdict


def test_chains_stuck_on_different_graphs_have_infinite_r_hat():
    posterior = made_up([0.0, 1.0, 0.0, 1.0], [0.0] * 4)
    assert posterior.converged is False
    assert "R-hat infinite" in posterior.verdict
    assert posterior.edge("a", "b").mcse > 0.1


def test_one_chain_cannot_tell():
    posterior = made_up([0.3], [0.0])
    assert posterior.converged is None
    assert posterior.verdict == (
        "Cannot tell: one chain alone cannot show that others would agree. Run several: chains=4."
    )


def test_few_effective_draws_are_not_enough():
    posterior = made_up([0.3] * 4, [0.0] * 4, n_draws=12)
    assert posterior.converged is False


@pytest.mark.parametrize("draws", [4, 8, 20])
def test_a_handful_of_draws_is_never_called_converged(draws):
    # Two columns that depend on each other: one equivalence class holds the mass, so the log score never changes.
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 500)
    b = np.where(rng.random(500) < 0.05, 1 - a, a)
    table = Table.from_codes(["a", "b"], [["n", "y"]] * 2, np.column_stack([a, b]))
    for seed in range(25):
        posterior = doxa.learn(table, draws=draws, warmup=0, thin=1, seed=seed)
        assert posterior.converged is not True, posterior.verdict


def test_with_no_parents_allowed_the_answer_is_exact():
    posterior = doxa.learn(skewed_table(3, 10, seed=0), max_parents=0, draws=50, seed=1)
    assert posterior.verdict == "Converged: with max_parents=0 the empty graph is the only one."


def test_posteriors_travel_between_processes(small):
    posterior, _ = small
    copied = pickle.loads(pickle.dumps(posterior))
    assert copied.edges().equals(posterior.edges())
    assert copied.verdict == posterior.verdict


# --- stopping ------------------------------------------------------------------------------------------------------


def test_a_run_stops_when_it_is_accurate_enough():
    table = skewed_table(4, 50, seed=7)
    rough, fine = (doxa.learn(table, until=doxa.Until(mcse=mcse), seed=3) for mcse in (0.02, 0.003))
    for posterior, mcse in ((rough, 0.02), (fine, 0.003)):
        assert posterior.stop.reason == "reached"
        assert posterior.edges()["mcse"].max() <= mcse
        assert posterior.adjacencies()["mcse"].max() <= mcse
        assert posterior.log_score_diagnosis.r_hat <= 1.01
        assert posterior.converged
        assert "The run stopped when every monitored quantity was as accurate as asked." in posterior.verdict
    assert fine.trace.n_draws > rough.trace.n_draws
    n = rough.trace.n_draws
    assert np.array_equal(fine.trace["rows"][:, :n], rough.trace["rows"])  # the rough run is the beginning of the fine


def test_a_limit_says_what_held_the_run_back():
    until = doxa.Until(mcse=1e-5, max_draws=600)
    posterior = doxa.learn(skewed_table(4, 50, seed=7), until=until, seed=3)
    assert posterior.stop.reason == "max_draws"
    assert posterior.trace.n_draws == 600
    assert posterior.stop.held_back.what == "Monte Carlo error"
    assert posterior.stop.held_back.factor > 1000
    assert re.search(
        r"The run stopped at its limit \(max_draws\): the Monte Carlo error of x\d -[->] x\d is 0\.\d+ "
        r"\(asked: 1e-05\); about .* times as many draws would do, [\d.]+ \w+ more\.",
        posterior.verdict,
    )


def test_time_cuts_a_prefix():
    table = skewed_table(4, 50, seed=7)
    options = {"seed": 3, "warmup": 10, "thin": 20_000}
    cut = doxa.learn(table, until=doxa.Until(mcse=1e-7, max_seconds=0.8), **options)
    assert cut.stop.reason == "max_seconds"
    n = cut.trace.n_draws
    whole = doxa.learn(table, draws=n, **options)
    assert np.array_equal(cut.trace["rows"], whole.trace["rows"])


class Clock:
    """A clock that moves on by a second at each look."""

    now = 0.0

    thread_time = staticmethod(time.thread_time)

    def monotonic(self):
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("warmup", [None, 5000])
def test_time_that_ends_in_the_warm_up_leaves_provisional_draws(warmup, monkeypatch, tmp_path):
    table, path = skewed_table(4, 50, seed=7), tmp_path / "cut.doxa"
    options = {"seed": 1, "workers": 1, "warmup": warmup, "sampler": "auto", "thin": 1}
    whole = doxa.learn(table, until=doxa.Until(max_draws=300), **options)
    monkeypatch.setattr(runner, "time", Clock())
    monkeypatch.setattr(runner, "_FIRST_STEPS", 64)
    cut = doxa.learn(table, until=doxa.Until(max_seconds=4), store=path, **options)
    monkeypatch.undo()
    assert cut.stop.is_provisional
    assert cut.converged is False
    assert "of a warm-up that was not over. The time that max_seconds allows ended in the warm-up." in cut.verdict
    assert "--resume" in cut.verdict
    kept = doxa.load(path, table)
    assert kept.verdict == cut.verdict
    assert np.array_equal(kept.trace["rows"], cut.trace["rows"])
    assert 4 <= cut.trace.n_draws < 500
    doxa.report(kept, tmp_path / "page.html")
    resumed = doxa.resume(path, table, until=doxa.Until(max_draws=300), workers=1)
    assert np.array_equal(resumed.trace["rows"], whole.trace["rows"])  # the provisional draws are forgotten
    assert resumed.trace.n_warmup == whole.trace.n_warmup
    assert np.array_equal(doxa.load(path, table).trace["rows"], whole.trace["rows"])


def test_a_time_too_short_for_a_single_draw_leaves_four():
    posterior = doxa.learn(skewed_table(4, 50, seed=7), until=doxa.Until(max_seconds=1e-9), warmup=10**6, seed=1)
    assert posterior.trace.n_draws >= 4
    assert posterior.converged is False


def test_a_number_of_draws_and_a_limit_of_time_go_together():
    table = skewed_table(4, 50, seed=7)
    limit = doxa.Until(max_seconds=600)
    both = doxa.learn(table, draws=200, until=limit, seed=3)
    assert np.array_equal(both.trace["rows"], doxa.learn(table, draws=200, seed=3).trace["rows"])
    cut = doxa.learn(table, draws=10**7, warmup=10, until=doxa.Until(max_seconds=0.5), seed=3)
    assert cut.stop.reason == "max_seconds"
    assert cut.trace.n_draws < 10**7


def test_named_quantities_alone_decide():
    table = skewed_table(4, 50, seed=7)
    until = doxa.Until(mcse=1e-6, quantities=["log_score"])
    assert doxa.learn(table, until=until, seed=3).stop.reason == "reached"
    until = doxa.Until(mcse=1e-6, max_draws=600, quantities=["x0 -> x1"])
    assert doxa.learn(table, until=until, seed=3).stop.held_back.name == "x0 -> x1"


def test_warm_up_goes_on_until_the_chains_agree():
    posterior = doxa.learn(load_network("asia").sample(500, seed=3), until=doxa.Until(mcse=0.05), seed=1)
    steps = posterior.trace.n_warmup / posterior.trace.thin
    assert steps in {500 * (2**k - 1) for k in range(1, 7)}


def test_stopping_does_not_depend_on_workers():
    table = skewed_table(4, 50, seed=7)
    one, two = (doxa.learn(table, until=doxa.Until(mcse=0.01), seed=5, workers=w) for w in (1, 2))
    assert np.array_equal(one.trace["rows"], two.trace["rows"])
    assert one.stop.reason == two.stop.reason == "reached"


# --- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"sampler": "gibs"},
            ArgumentError,
            f"sampler is 'gibs'; it must be one of {NAMED}",
        ),
        (
            {"sampler": SingleEdge},
            ArgumentTypeError,
            f"sampler is {SingleEdge!r}; it must be a name ({NAMED}) or a move such as SingleEdge()",
        ),
        ({"max_parents": -1}, ArgumentError, "max_parents is -1; it must be at least 0"),
        ({"chains": 0}, ArgumentError, "chains is 0; it must be at least 1"),
        ({"thin": 0}, ArgumentError, "thin is 0; it must be at least 1"),
        ({"draws": 2}, ArgumentError, "draws is 2; it must be at least 4"),
        (
            {"draws": 10, "until": doxa.Until()},
            ArgumentError,
            f"draws is 10 and until is {doxa.Until()!r}: both say when to stop; give one of them "
            "(max_seconds alone may go with draws)",
        ),
        ({"until": 0.01}, ArgumentTypeError, "until is 0.01; it must be an Until, such as doxa.Until(ess=1000)"),
        (
            {"until": doxa.Until(quantities=["x0 -> y"])},
            ArgumentError,
            "until.quantities names 'x0 -> y', which is not monitored; write an edge as 'x0 -> x1', an adjacency as "
            "'x0 -- x1', or one of log_score, n_edges",
        ),
        (
            {"equivalent_sample_size": 0},
            ArgumentError,
            "equivalent_sample_size is 0; it must be above 0 and finite (1.0 is usual)",
        ),
    ],
)
def test_bad_options_are_refused_by_name(options, error, message):
    with pytest.raises(error) as refused:
        doxa.learn(skewed_table(3, 10, seed=0), **options)
    assert str(refused.value) == message


@pytest.mark.parametrize("most", [-1, 2.5])
def test_a_number_of_graphs_must_be_one(reinis, most):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=r"^most is "):
        reinis.graphs(most)
    with pytest.raises((ArgumentError, ArgumentTypeError), match=r"^most is "):
        reinis.summary(most)


def test_unknown_nodes_are_refused(reinis):
    with pytest.raises(ArgumentError) as refused:
        reinis.edge("smoke", "cough")
    assert str(refused.value) == (
        "'cough' is not a node of this posterior; its nodes are 'smoke', 'mental', 'phys', 'systol', 'protein', "
        "'family'"
    )
    with pytest.raises(ArgumentError, match="source and target are both 'smoke'; an edge joins two different nodes"):
        reinis.edge("smoke", "smoke")


def test_edges_that_the_limits_decide_are_exact():
    table = datasets.load("reinis")
    posterior = doxa.learn(table, exact=False, seed=1, forbidden=[("smoke", "phys")], required=[("mental", "family")])
    for pair, value in {("smoke", "phys"): 0.0, ("mental", "family"): 1.0, ("family", "mental"): 0.0}.items():
        estimate = posterior.edge(*pair)
        assert (estimate.exact, estimate.value, estimate.interval()) == (True, value, (value, value))
    assert not posterior.edge("phys", "smoke").exact
    assert not posterior.edge("family", "systol").exact  # hardly ever there, but nothing forbids it
    joined = posterior.adjacencies().set_index(["node_a", "node_b"])
    assert joined["mcse"]["mental", "family"] == 0
    assert joined["mcse"]["smoke", "phys"] > 0
    assert posterior.converged
