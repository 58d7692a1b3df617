"""Slopes of edges against the textbook's posterior in one graph, and its sum over all 25 graphs."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from test_number_answers import LIMIT, mixed, regression, table_of

import doxa
from doxa.data.scaled import scaled
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.bits import unpack_rows
from doxa.structure import BGe
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.priors import make_prior

EDGES = [("a", "b"), ("a", "c"), ("b", "c")]


def slope(table, child, parents, parent):
    """Posterior mean of a slope in units of the table, and the scale and freedom of its t distribution."""
    scale = scaled(table)
    mean, precision, shape, rate = regression(scale.values, child, parents)
    k = 1 + parents.index(parent)
    unit = scale.scale[child] / scale.scale[parent]
    return unit * mean[k], unit * np.sqrt(rate / shape * np.linalg.inv(precision)[k, k]), 2 * shape


def test_in_one_graph_a_slope_has_the_textbook_posterior():
    table = table_of()
    posterior = doxa.learn(table, required=EDGES, seed=1)
    found = posterior.slopes(networks=None).set_index(["source", "target"])
    for source, target in EDGES:
        child, parent = table.names.index(target), table.names.index(source)
        parents = [table.names.index(p) for p, t in EDGES if t == target]
        mean, scale, freedom = slope(table, child, parents, parent)
        row = found.loc[(source, target)]
        assert row["probability"] == 1.0
        assert row["probability_mcse"] == 0.0
        assert abs(row["mean"] - mean) < LIMIT * row["mcse"]
        assert row["mcse"] < 0.03 * scale
        for end, p in (("lower", 0.025), ("upper", 0.975)):
            exact = mean + scale * student.ppf(p, freedom)
            density = student.pdf(student.ppf(p, freedom), freedom) / scale
            assert abs(row[end] - exact) < LIMIT * np.sqrt(p * (1 - p) / 10_000) / density
    reverse = found.loc[("b", "a")]
    assert reverse["probability"] == 0.0
    assert reverse[["mean", "lower", "mcse"]].isna().all()


def test_over_graphs_a_slope_is_a_sum_over_all_of_them():
    table = table_of()
    posterior = doxa.learn(table, prior="uniform", exact=True, seed=1)
    listed = enumerate_posterior(FamilyScores(table, BGe(), make_prior(table.names, "uniform")))
    graphs = [unpack_rows(rows, 3) for rows in listed.rows]
    found = posterior.slopes(networks=2000).set_index(["source", "target"])
    assert len(found) == 6
    summaries = [posterior.coefficients(name, networks=2000).summary().set_index("coefficient") for name in table.names]
    apart = []
    for parent, child in permutations(range(3), 2):
        row = found.loc[(table.names[parent], table.names[child])]
        has = np.array([graph[parent, child] for graph in graphs])
        weight = listed.probability * has
        means = [
            slope(table, child, np.flatnonzero(graph[:, child]).tolist(), parent)[0] if graph[parent, child] else 0.0
            for graph in graphs
        ]
        exact = weight @ means / weight.sum()
        assert row["probability"] == pytest.approx(weight.sum(), abs=1e-9)
        assert abs(row["mean"] - exact) < LIMIT * row["mcse"]
        twin = weight @ means  # 0 where there is no edge, as in `summary`
        apart.append(abs(row["mean"] - twin) / row["mcse"])
        mean, mcse = summaries[child].loc[table.names[parent], ["mean", "mcse"]]
        assert abs(mean - twin) < LIMIT * mcse
    assert max(apart) > 10


def both():
    frame = mixed()
    forbidden = [("m", "y"), ("m", "x"), ("k", "x"), ("k", "m"), ("m", "k")]
    return frame, doxa.learn(frame, required=[("k", "y"), ("x", "y")], forbidden=forbidden, seed=1)


def test_slopes_of_configurations_are_those_of_their_rows():
    frame, posterior = both()
    scale = scaled(posterior.table)
    x, y = (posterior.names.index(name) for name in "xy")
    values = (frame[["x", "y"]].to_numpy() - scale.centre[[x, y]]) / scale.scale[[x, y]]
    means = {}
    for state in ("n", "y"):
        mean = regression(values[frame["k"] == state].T, 1, [0])[0]
        means[state] = mean[1] * scale.scale[y] / scale.scale[x]
        row = posterior.slopes(where={"k": state}, networks=2000).iloc[0]
        assert (row["source"], row["target"]) == ("x", "y")
        assert abs(row["mean"] - means[state]) < LIMIT * row["mcse"]
    assert abs(means["y"] - means["n"]) > 10 * row["mcse"]
    share = (frame["k"] == "y").mean()
    whole = posterior.slopes(networks=2000).iloc[0]
    assert abs(whole["mean"] - (share * means["y"] + (1 - share) * means["n"])) < LIMIT * whole["mcse"]
    among = (frame["k"] == "y")[frame["m"] == "p"].mean()  # a category that is no parent chooses the cases
    row = posterior.slopes(where={"m": "p"}, networks=2000).iloc[0]
    assert abs(row["mean"] - (among * means["y"] + (1 - among) * means["n"])) < LIMIT * row["mcse"]


def test_states_without_cases_weigh_alike():
    frame = mixed()
    rare = frame[~((frame["k"] == "y") & (frame["m"] == "p"))]
    learned = doxa.learn(rare, required=[("k", "y"), ("x", "y")], forbidden=[("m", "y")], seed=1)
    both_ways = learned.slopes(where={"k": "y", "m": "p"}).iloc[0]
    assert both_ways["mean"] == pytest.approx(learned.slopes(where={"k": "y"}).iloc[0]["mean"])


@pytest.mark.parametrize(
    ("where", "error", "words"),
    [
        ({"x": 3.0}, ArgumentError, "holds numbers"),
        ({"k": "maybe"}, ArgumentError, "not one of its states"),
        ({"nobody": "n"}, ArgumentError, "not a column"),
        ("k", ArgumentTypeError, "give a mapping"),
    ],
)
def test_bad_conditions_are_named(where, error, words):
    posterior = doxa.learn(mixed(), seed=1)
    with pytest.raises(error, match=words):
        posterior.slopes(where=where)
    with pytest.raises(error, match=words):
        posterior.coefficients("y", where=where)


def test_categories_alone_have_no_slopes():
    table = doxa.datasets.load("reinis")
    with pytest.raises(ArgumentError, match="no column holds numbers"):
        doxa.learn(table, seed=1).slopes()
    with pytest.raises(ArgumentError, match="where is for slopes of numbers"):
        doxa.learn(table, family="logistic", seed=1).coefficients("systol", where={"smoke": "no"})


def test_coefficients_of_logistic_families_given_that_they_are_there():
    found = doxa.learn(doxa.datasets.load("reinis"), family="logistic", seed=1).coefficients("systol")
    frame = found.given_parent().set_index("coefficient")
    whole = found.summary().set_index("coefficient")
    assert np.allclose(frame["probability"], whole["probability"])
    assert frame.loc["bias", "mean"] == pytest.approx(whole.loc["bias", "mean"])
    own = found.draws[..., 4][found.is_parent[..., 4]]
    assert frame.loc["protein", "mean"] == pytest.approx(own.mean())
    some = frame["probability"] * 1000 >= 20
    assert np.allclose((frame["mean"] * frame["probability"])[some], whole["mean"][some])
    assert isinstance(frame, pd.DataFrame)


def test_a_hidden_column_above_numbers_is_no_obstacle():
    """Answers need the cells that were drawn; nobody observed any of them."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, 2, 80)
    frame = pd.DataFrame({"x": 4.0 * group + rng.normal(size=80), "z": 3.0 * group + rng.normal(size=80)})
    posterior = doxa.learn(frame, hidden={"type": 2}, draws=100, seed=1)
    assert posterior.query("x").mean.value == pytest.approx(frame["x"].mean(), abs=1.0)
    assert sorted(posterior.slopes()["source"]) == ["x", "z"]
    cells = posterior.impute()
    assert len(cells) == 160
    assert posterior.predictive_checks()["observed"].notna().all()
