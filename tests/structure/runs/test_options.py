"""What a structure run was asked for, as plain data: kept in run files, gone on with, refused where it is hostile."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError
from doxa.estimates.store import RunFileError, open_reader, open_writer
from doxa.structure import BIC, K2
from doxa.structure.families.scores import BDeu
from doxa.structure.limits import make_limits
from doxa.structure.priors import make_prior
from doxa.structure.runs.files import FREE
from doxa.structure.runs.options import LearnOptions, RunOptions
from support.tables import skewed_table

KNOWN = {
    "required": [("x1", "x3"), ("x4", "x3")],
    "forbidden": [("x2", "x1"), ("x4", "x1")],
    "tiers": [["x0", "x1"], ["x2", "x3"]],
    "max_parents": {"x3": 2, "x2": 1, "x1": 1},
}
FIVE = tuple(f"x{i}" for i in range(5))
OPTIONS = {
    "plain": {},
    "limits": KNOWN,
    "odds": {"edge_log_odds": {("x0", "x1"): 1.5, ("x3", "x2"): -1 / 3}, "prior": "in_degree"},
    "penalty, K2": {"edge_log_odds": -0.25, "score": K2(0.5)},
    "BIC": {"score": BIC(), "max_parents": 2},
}


def options_of(*, score=None, prior="uniform", edge_log_odds=None, max_configurations=None, n_states=None, **limits):
    table = skewed_table(5, 60, seed=3)
    n_states = None if n_states is None else [n_states] * 5
    asked = LearnOptions(score=BDeu(2.0) if score is None else score, prior=prior)
    limits = make_limits(FIVE, n_states=n_states, max_configurations=max_configurations, **limits)
    made = RunOptions.of(table, asked, make_prior(FIVE, prior, edge_log_odds), limits)
    return replace(made, max_configurations=max_configurations)


@pytest.mark.parametrize("name", OPTIONS)
def test_options_survive_json(name):
    options = options_of(**OPTIONS[name])
    again = RunOptions.from_json(json.loads(json.dumps(options.to_json())), options.data_digest)
    assert again == options
    assert again.to_json() == options.to_json()
    for one, two in zip(again.limits, make_limits(FIVE, **(KNOWN if name == "limits" else {})), strict=True):
        assert np.array_equal(one, two) or name == "BIC"
    assert np.array_equal(again.structure_prior.edge_log_odds, options.structure_prior.edge_log_odds)
    assert np.array_equal(again.structure_prior.by_in_degree, options.structure_prior.by_in_degree)


@pytest.mark.parametrize("name", OPTIONS)
def test_runs_with_limits_and_priors_are_gone_on_with(name, tmp_path):
    table = skewed_table(5, 60, seed=3)
    keep = {"thin": 3, "warmup": 5, "seed": 2, **OPTIONS[name]}
    doxa.learn(table, draws=20, store=tmp_path / "run.doxa", **keep)
    more = doxa.resume(tmp_path / "run.doxa", table, draws=50)
    whole = doxa.learn(table, draws=50, **keep)
    assert np.array_equal(more.trace["rows"], whole.trace["rows"])
    assert np.array_equal(more.trace["log_score"], whole.trace["log_score"])
    loaded = doxa.load(tmp_path / "run.doxa")
    assert loaded.options == whole.options
    assert loaded.summary() == more.summary()


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"required": [("x0", "x1")]}, "required"),
        ({"forbidden": [("x0", "x1")]}, "forbidden"),
        ({"tiers": [["x0"], ["x1"]]}, "forbidden"),
        ({"max_parents": {"x2": 1}}, "max_parents"),
        ({"edge_log_odds": 0.5}, "edge_log_odds"),
        ({"prior": "in_degree"}, "prior"),
        ({"score": K2()}, "score"),
        ({"max_configurations": 4, "n_states": 2}, "max_configurations"),
    ],
)
def test_a_run_with_other_knowledge_is_another_run(other, named, tmp_path):
    """`resume` takes what the file says; a writer that expects something else is told what differs."""
    table = skewed_table(5, 60, seed=3)
    path = tmp_path / "run.doxa"
    doxa.learn(table, draws=20, seed=2, equivalent_sample_size=2.0, prior="uniform", store=path)
    with open_reader(path) as reader:
        header = reader.header
    changed = dataclasses.replace(header, options={**header.options, **options_of(**other).to_json()})
    with pytest.raises(RunFileError) as refused, open_writer(path, changed, free=FREE):
        pass
    lines = [line for line in str(refused.value).splitlines() if line.startswith("  ")]
    assert len(lines) == 1
    assert f"'{named}'" in lines[0]


HUGE = 10**400
CHANGES = {
    "no nodes": {"nodes": []},
    "one node": {"nodes": ["x0"], "max_parents": [1]},
    "nodes that are numbers": {"nodes": [0, 1, 2, 3, 4]},
    "equal nodes": {"nodes": ["x0", "x0", "x1", "x2", "x3"]},
    "too few caps": {"max_parents": [1, 2]},
    "negative cap": {"max_parents": [1, 1, 1, 1, -1]},
    "infinite cap": {"max_parents": [1, 1, 1, 1, math.inf]},
    "fractional cap": {"max_parents": [1, 1, 1, 1, 1.5]},
    "cap as text": {"max_parents": [1, 1, 1, 1, "1"]},
    "cap that is true": {"max_parents": [1, 1, 1, 1, True]},
    "rows as text": {"n_rows": "60"},
    "negative rows": {"n_rows": -1},
    "unknown score": {"score": {"name": "best"}},
    "no score": {"score": {}},
    "unhashable score": {"score": {"name": ["k2"]}},
    "bad setting": {"score": {"name": "k2", "prior_count": -1.0}},
    "huge setting": {"score": {"name": "k2", "prior_count": HUGE}},
    "setting as text": {"score": {"name": "k2", "prior_count": "1"}},
    "strange setting": {"score": {"name": "bic", "colour": 1}},
    "cap on configurations of nothing": {"max_configurations": 0},
    "cap on configurations as text": {"max_configurations": "4"},
    "cap on configurations that is true": {"max_configurations": True},
    "cap on configurations without states": {"max_configurations": 4, "n_states": []},
    "too few numbers of states": {"n_states": [2, 2]},
    "no states": {"n_states": [2, 2, 2, 2, 0]},
    "huge number of states": {"max_configurations": 4, "n_states": [2, 2, 2, 2, HUGE]},
    "states as text": {"n_states": ["2"] * 5},
    "unknown prior": {"prior": "mine"},
    "prior that is a list": {"prior": []},
    "odds of two": {"edge_log_odds": [["x0", "x1"]]},
    "odds of an unknown node": {"edge_log_odds": [["x0", "y", 1.0]]},
    "odds that are nan": {"edge_log_odds": [["x0", "x1", math.nan]]},
    "odds that are huge": {"edge_log_odds": [["x0", "x1", HUGE]]},
    "odds as text": {"edge_log_odds": [["x0", "x1", "1"]]},
    "odds of nothing": {"edge_log_odds": [None]},
    "odds of lists": {"edge_log_odds": [[["x0"], "x1", 1.0]]},
    "required cycle": {"required": [["x0", "x1"], ["x1", "x0"]]},
    "required and forbidden": {"required": [["x0", "x1"]], "forbidden": [["x0", "x1"]]},
    "required as numbers": {"required": [[0, 1]]},
    "required of three": {"required": [["x0", "x1", "x2"]]},
    "required as text": {"required": "x0,x1"},
    "forbidden as object": {"forbidden": {}},
    "forbidden of itself": {"forbidden": [["x0", "x0"]]},
    "unhashable nodes": {"forbidden": [[["x0"], ["x1"]]]},
}


@pytest.mark.parametrize("name", CHANGES)
def test_hostile_options_are_refused(name):
    stored = {**options_of().to_json(), **CHANGES[name]}
    with pytest.raises(ArgumentError, match=r"^its "):
        RunOptions.from_json(stored, "digest")


# which older files do not have
NEW = (
    "order",
    "of_time",
    "interventions",
    "target_sets",
    "n_missing",
    "indicator",
    "hidden",
    "n_states",
    "max_configurations",
    "numbers",
    "transforms",
    "graph_given",
)


@pytest.mark.parametrize("name", NEW)
def test_options_that_older_files_do_not_have_may_be_left_out(name):
    stored = options_of().to_json()
    del stored[name]
    expected = dataclasses.replace(options_of(), data_digest="digest")
    if name == "n_states":  # it cannot be told from the other options, and is not needed without a cap
        expected = dataclasses.replace(expected, n_states=())
    assert RunOptions.from_json(stored, "digest") == expected


def test_files_from_before_the_cap_on_configurations_have_the_limits_that_they_had():
    stored = options_of(**KNOWN).to_json()
    del stored["n_states"], stored["max_configurations"]
    old = RunOptions.from_json(stored, "digest")
    assert (old.n_states, old.max_configurations) == ((), None)
    for one, two in zip(old.limits, make_limits(FIVE, **KNOWN), strict=True):
        assert np.array_equal(one, two)


def test_a_cap_on_configurations_survives_json():
    options = options_of(prior="sparse", n_states=2, max_configurations=4, **KNOWN)
    again = RunOptions.from_json(json.loads(json.dumps(options.to_json())), options.data_digest)
    assert again == options
    assert again.max_configurations == 4
    assert again.n_states == (2,) * 5
    right = make_limits(FIVE, **KNOWN, n_states=[2] * 5, max_configurations=4)
    for one, two in zip(again.limits, right, strict=True):
        assert np.array_equal(one, two)
    without = dataclasses.replace(options, max_configurations=None).limits
    assert not np.array_equal(again.limits.max_log_configs, without.max_log_configs)
    assert again.limits.most_parents.max() < without.most_parents.max()


@pytest.mark.parametrize("name", [name for name in options_of().to_json() if name not in NEW])
def test_options_that_are_left_out_are_missed(name):
    stored = options_of().to_json()
    del stored[name]
    with pytest.raises(ArgumentError, match=f"^its option {name} is missing$"):
        RunOptions.from_json(stored, "digest")
