"""Predictive checks and tables over structures: plain counts, a model that fits and one that cannot."""

from __future__ import annotations

import numpy as np
import pytest
from averaging_cases import case, independent

import doxa
from doxa.data import Table
from doxa.structure.averaging import parent_tables, predictive_checks
from doxa.structure.averaging.checks import _statistics
from support.tables import skewed_table


def test_statistics_against_plain_counting():
    table = skewed_table(3, 40, seed=2, n_states=3)
    codes = table.codes[table.row_index].copy()
    codes[np.random.default_rng(1).random(codes.shape) < 0.2] = -1
    found = _statistics(codes, (2, 3, 2))
    counts = [np.sum(codes[:, j] == k) for j, r in enumerate((2, 3, 2)) for k in range(r)]
    assert found[:7].tolist() == counts
    for value, (i, j) in zip(found[7:], [(0, 1), (0, 2), (1, 2)], strict=True):
        both = codes[(codes[:, i] >= 0) & (codes[:, j] >= 0)]
        joint = np.zeros((3, 3))
        np.add.at(joint, (both[:, i], both[:, j]), 1 / len(both))
        outer = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
        positive = joint > 0
        assert value == pytest.approx((joint[positive] * np.log(joint[positive] / outer[positive])).sum(), abs=1e-12)


def test_a_model_that_may_not_join_what_belongs_together_is_found_out():
    rng = np.random.default_rng(3)
    a = rng.integers(2, size=300)
    b = np.where(rng.random(300) < 0.85, a, 1 - a)
    c = rng.integers(2, size=300)
    table = Table.from_codes(["a", "b", "c"], [["0", "1"]] * 3, np.stack([a, b, c], axis=1))
    free = doxa.learn(table, seed=1)
    bound = doxa.learn(table, forbidden=[("a", "b"), ("b", "a")], seed=1)
    tails = {}
    for name, posterior in (("free", free), ("bound", bound)):
        frame = predictive_checks(posterior, table)
        pairs = frame[frame["statistic"] == "mutual_information"].set_index(["column", "other"])
        tails[name] = pairs.loc[("a", "b"), "tail"]
        counts = frame[frame["statistic"] == "count"]
        assert counts["tail"].between(0.2, 0.8).all()
        assert (frame["mcse"] > 0).all()
        assert (frame["lower"] <= frame["upper"]).all()
    assert 0.2 < tails["free"] < 0.8
    assert tails["bound"] < 0.01


def test_parent_tables_have_the_beta_posterior_of_their_entries():
    of = case()
    posterior = independent(of, seed=4)
    frame = parent_tables(posterior, of.table, "x1", most=8)
    assert frame.groupby("parents", sort=False)["probability"].first().sum() == pytest.approx(1, abs=1e-9)
    one = frame[[parents == ("x0",) for parents in frame["parents"]]].reset_index(drop=True)
    assert one["given"].tolist() == [("s0",)] * 3 + [("s1",)] * 3
    counts = np.zeros((2, 3))
    np.add.at(counts, (of.table.codes[:, 0], of.table.codes[:, 1]), of.table.counts)
    weights = counts + 1 / 6
    assert np.allclose(one["mean"], (weights / weights.sum(axis=1, keepdims=True)).ravel())
    assert one["cases"].tolist() == np.repeat(counts.sum(axis=1), 3).tolist()
    rng = np.random.default_rng(5)
    drawn = np.stack([rng.dirichlet(w, size=20_000) for w in weights], axis=1).reshape(-1, 6)
    assert np.abs(np.quantile(drawn, 0.025, axis=0) - one["lower"]).max() < 0.01
    assert np.abs(np.quantile(drawn, 0.975, axis=0) - one["upper"]).max() < 0.01
