"""Draws handed to other tools: what they hold, and that they are the same draws on a cluster."""

from __future__ import annotations

import sys

import distributed
import joblib
import numpy as np
import pandas as pd
import pytest

import doxa
from doxa.data import Table
from doxa.errors import MissingExtraError
from support.tables import skewed_table


@pytest.fixture(scope="module")
def posterior():
    return doxa.learn(skewed_table(4, 50, seed=7), draws=300, seed=2)


def test_the_tree_holds_the_draws(posterior):
    tree = posterior.to_arviz()
    group = tree["posterior"]
    assert group["edge"].dims == ("chain", "draw", "edge_name")
    assert group["edge"].dtype == np.int8
    means = group["edge"].mean(("chain", "draw")).to_series().to_dict()
    means |= tree["constant_data"]["constant_edge"].to_series().to_dict()
    assert len(means) == 12
    for row in posterior.edges().itertuples():
        assert means[f"{row.source} -> {row.target}"] == pytest.approx(row.probability)
    assert np.array_equal(group["log_score"].values, posterior.log_score)
    assert np.array_equal(group["n_edges"].values, posterior.n_edges)
    assert group.attrs["seed"] == "2"


def test_arviz_can_summarise_the_tree(posterior):
    from arviz_stats import summary

    table = summary(posterior.to_arviz(), var_names=["log_score", "n_edges"], ci_prob=0.9, ci_kind="eti")
    assert float(table.loc["n_edges", "mean"]) == pytest.approx(posterior.n_edges.mean(), abs=0.1)


@pytest.mark.parametrize("exact", [True, False])
def test_arviz_summarises_all_of_it_without_a_warning(exact):
    from arviz_stats import summary

    table = Table.from_codes(["a", "b", "c"], [["no", "yes"]] * 3, [[0, 0, 0], [1, 1, 0], [0, 0, 1]] * 40)
    draws = None if exact else 400
    posterior = doxa.learn(table, required=[("a", "b")], exact=exact, draws=draws, seed=2)
    tree = posterior.to_arviz()
    assert tree["constant_data"]["constant_edge"].sel(constant_edge_name="a -> b") == 1
    assert tree["constant_data"]["constant_edge"].sel(constant_edge_name="b -> a") == 0
    frame = summary(tree)  # warnings are errors here
    assert np.isfinite(frame["r_hat"].astype(float)).all()


def test_without_arviz_the_message_says_what_to_install(posterior, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(MissingExtraError) as refused:
        posterior.to_arviz()
    assert str(refused.value) == "to_arviz needs the package arviz-base: pip install 'doxa[arviz]'"


def test_the_frame_holds_the_draws(posterior, tmp_path):
    frame = posterior.to_frame()
    assert list(frame.columns[:4]) == ["chain", "draw", "log_score", "n_edges"]
    assert frame.shape == (1200, 4 + 12)
    assert frame["x0 -> x1"].mean() == pytest.approx(posterior.edge("x0", "x1").value)
    assert (frame.filter(like=" -> ").sum(axis=1) == frame["n_edges"]).all()
    frame.to_csv(tmp_path / "draws.csv", index=False)
    again = pd.read_csv(tmp_path / "draws.csv")
    assert again["n_edges"].tolist() == frame["n_edges"].tolist()


def test_a_dask_cluster_gives_the_same_draws(posterior):
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", worker_dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        there = doxa.learn(skewed_table(4, 50, seed=7), draws=300, seed=2)
    assert np.array_equal(there.trace["rows"], posterior.trace["rows"])
    assert np.array_equal(there.log_score, posterior.log_score)
