"""What the page shows are the numbers of the posterior."""

from __future__ import annotations

from datetime import datetime
from importlib import import_module

import numpy as np
import pytest
from page_cases import WRITTEN

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import Dag
from doxa.report.graphs import MOST_SAMPLES, bend, graphs, places
from doxa.report.of_graphs import MOST_POINTS, evidence
from doxa.report.writing import page_data
from support.posteriors import posterior_of_dags


@pytest.fixture(scope="module")
def shown(reinis):
    return page_data(reinis, written=WRITTEN)


def test_edges_are_those_of_the_posterior(reinis, shown):
    edges, names = shown["graphs"]["edges"], shown["graphs"]["names"]
    frame = reinis.edges()
    frame = frame[frame["probability"] > 0]
    found = list(zip(edges["source"], edges["target"], strict=True))
    assert [(names[i], names[j]) for i, j in found] == list(zip(frame["source"], frame["target"], strict=True))
    assert np.allclose(edges["p"], frame["probability"], atol=5e-5)
    assert np.allclose(np.array(edges["mcse"], dtype=float), frame["mcse"], rtol=0.06)
    lower, upper = reinis.edge_diagnostics.interval()
    assert np.allclose(edges["low"], [lower[pair] for pair in found], atol=5e-5)
    assert np.allclose(edges["high"], [upper[pair] for pair in found], atol=5e-5)


def test_chains_average_to_the_whole(shown):
    edges = shown["graphs"]["edges"]
    assert len(edges["chains"]) == 4
    assert np.allclose(np.mean(edges["chains"], axis=0), edges["p"], atol=1.01e-4)
    assert np.ptp(edges["chains"], axis=0).max() > 0


def test_pairs_and_classes_are_those_of_the_posterior(reinis, shown):
    pairs, classes, names = shown["graphs"]["pairs"], shown["graphs"]["class"], shown["graphs"]["names"]
    joined = reinis.adjacencies()
    assert np.allclose(pairs["p"], joined["probability"][joined["probability"] > 0], atol=5e-5)
    frame = reinis.cpdag_edges()
    first = frame.loc[0]
    assert (names[classes["source"][0]], names[classes["target"][0]]) == (first["source"], first["target"])
    assert classes["directed"] == [int(kind == "directed") for kind in frame[frame["probability"] > 0]["kind"]]
    assert all(low <= p <= high for low, p, high in zip(classes["low"], classes["p"], classes["high"], strict=True))


def test_samples_are_graphs_of_the_run(reinis, shown):
    samples = shown["graphs"]["samples"]
    assert shown["graphs"]["n_samples"] == reinis.n_edges.size == 2400
    assert 30 <= len(samples) <= MOST_SAMPLES
    for sample in samples[:: len(samples) // 7]:
        dag = Dag.from_rows(reinis.trace["rows"][sample["chain"], sample["draw"]], reinis.names)
        edges = {(reinis.names[cell // 6], reinis.names[cell % 6]) for cell in sample["edges"]}
        assert edges == set(dag.edges)
        assert sample["score"] == pytest.approx(reinis.log_score[sample["chain"], sample["draw"]], abs=0.006)


def test_knowledge_is_shown(shown):
    names = shown["graphs"]["names"]
    assert [[names[i], names[j]] for i, j in shown["graphs"]["required"]] == [["smoke", "protein"]]
    assert [[names[i], names[j]] for i, j in shown["graphs"]["forbidden"]] == [["mental", "smoke"]]


def test_verdict_and_facts(reinis, shown):
    verdict, facts = shown["verdict"], dict(shown["facts"])
    assert verdict["word"] == reinis.verdict.split(":")[0]
    assert verdict["state"] == {True: "yes", False: "no", None: "unknown"}[reinis.converged]
    assert verdict["why"]
    assert facts["Seed"] == "3"
    assert facts["Digest of the data"] == reinis.options.data_digest
    assert facts["Page written"] == "2025-03-01 12:30:00+00:00"
    assert doxa.__version__ in facts["Versions"]
    assert "1 required edge" in facts["Prior"]


def test_more_facts_and_a_title_come_first(reinis):
    shown = page_data(reinis, title="Mine", facts={"Made by": "<me>"}, written=WRITTEN)
    assert (shown["title"], shown["facts"][0]) == ("Mine", ["Made by", "<me>"])


def test_a_run_that_cannot_tell_says_what_to_do():
    alone = doxa.learn(doxa.datasets.load("reinis"), exact=False, chains=1, draws=50, seed=1)
    verdict = page_data(alone, written=WRITTEN)["verdict"]
    assert (verdict["state"], verdict["word"]) == ("unknown", "Cannot tell")
    assert verdict["next"].startswith("Run several: chains=4.")


def test_an_exact_posterior_has_no_errors():
    posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
    shown = page_data(posterior, written=WRITTEN)
    assert shown["graphs"]["exact"]
    assert shown["verdict"]["word"] == "Exact"
    assert set(shown["graphs"]["edges"]["mcse"]) == {0}
    assert set(shown["graphs"]["edges"]["ess"]) == {"inf"}


def test_long_traces_are_thinned_and_say_so(alarm):
    shown = evidence(alarm)
    assert shown["step"] == 8
    assert shown["n_draws"] == 4000
    assert sum(map(len, shown["log_score"])) <= MOST_POINTS
    assert np.allclose(shown["log_score"][2], alarm.log_score[2, ::8], atol=0.006)
    assert shown["n_edges"][3] == alarm.n_edges[3, ::8].tolist()


def test_what_is_left_out_is_counted(alarm, monkeypatch):
    monkeypatch.setattr(import_module("doxa.report.graphs"), "MOST_EDGES", 200)
    shown = graphs(alarm)
    listed = len(shown["edges"]["p"])
    assert listed == 200
    seen = int((alarm.edge_diagnostics.probability > 0).sum())
    assert f"{seen - listed} rarer edges" in shown["unseen"]
    assert f"{37 * 36 - seen} possible edges are in no draw" in shown["unseen"]


def test_places_are_apart_and_bends_are_between(alarm):
    found = places(alarm)
    assert set(found.nodes) == set(alarm.names)
    assert len(set(found.nodes.values())) == 37
    assert found.bends
    (source, target), points = next(iter(found.bends.items()))
    shares = [share for share, _ in bend(found.nodes[source], found.nodes[target], points)]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1


def test_no_edge_at_all():
    posterior = posterior_of_dags([Dag.from_edges([], ("a", "b"))], repeat=8)
    shown = page_data(posterior, written=WRITTEN)
    assert shown["graphs"]["edges"]["p"] == []
    assert shown["nodes"]["sets"][0][0]["parents"] == []


def test_bad_arguments(reinis):
    with pytest.raises(
        ArgumentTypeError, match=r"posterior is a str; a report shows .*; read a run file first: doxa.load"
    ):
        page_data("run.doxa")
    with pytest.raises(
        ArgumentTypeError, match=r"posterior is a list; .* what doxa.learn, doxa.fit or doxa.infer returns$"
    ):
        page_data([1])
    with pytest.raises(ArgumentTypeError, match="facts is a list; it must map names to texts"):
        page_data(reinis, facts=["File"])
    with pytest.raises(ArgumentTypeError, match="facts has 'Rows': 3; names and values must be texts"):
        page_data(reinis, facts={"Rows": 3})
    with pytest.raises(ArgumentError, match="without a time zone"):
        page_data(reinis, written=datetime(2025, 1, 1))


def test_of_many_edges_the_probable_ones_decide_where_nodes_stand(alarm, monkeypatch):
    monkeypatch.setattr(import_module("doxa.report.graphs"), "_MOST_EDGES", 10)
    monkeypatch.setattr(import_module("doxa.report.graphs"), "_LOWEST", 0.02)
    found = places(alarm)
    assert len(set(found.nodes.values())) == 37
