"""Causal effects against sums over all graphs of closed forms, and against adjustment by the back door."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from averaging_cases import case, conditional, independent, mean_joint
from test_number_answers import regression, table_of

import doxa
from doxa.data.scaled import scaled
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.exact import Budget
from doxa.models.bits import unpack_rows
from doxa.structure import BDeu, BGe
from doxa.structure.averaging.draws import draw_networks
from doxa.structure.averaging.effects import all_effects, effect_of
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.priors import make_prior
from support.checks import FALSE_ALARM
from support.ranks import p_values

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from calibration_parts import graphs
from calibration_parts.graphs import effects

LIMIT = 4.9  # a false alarm in a million


def set_to(of, cause, target, state, do):
    """P(target = state | do), of all graphs."""
    each = [conditional(mean_joint(of, rows, {cause: do}), target, {cause: do})[state] for rows in of.listed.rows]
    return of.listed.probability @ np.array(each)


def test_effects_are_sums_over_all_graphs():
    of = case()
    names, states = of.table.names, of.table.states
    posterior = independent(of, 7)
    draws = draw_networks(posterior, of.table, 2000)
    joint = sum(p * mean_joint(of, rows, {}) for p, rows in zip(of.listed.probability, of.listed.rows, strict=True))
    twins = []
    for cause, target, state in [(0, 1, 2), (1, 2, 0), (2, 0, 1)]:
        last = len(states[cause]) - 1
        found = effect_of(
            posterior,
            draws,
            names[cause],
            {names[target]: states[target][state]},
            (states[cause][0], states[cause][-1]),
        )
        before, after = (set_to(of, cause, target, state, k) for k in (0, last))
        assert abs(found.value - (after - before)) < LIMIT * found.mcse
        assert found.mcse < 0.01
        seen = [conditional(np.asarray(joint), target, {cause: k})[state] for k in (0, last)]
        twins.append((found.value - (seen[1] - seen[0])) / found.mcse)
    assert np.abs(twins).max() > LIMIT  # what is seen is not what is done


def test_no_effect_is_the_probability_of_no_path():
    of = case()
    posterior = independent(of, 7)
    draws = draw_networks(posterior, of.table, 1000)
    found = effect_of(posterior, draws, "x0", "x2")
    adjacency = np.array([unpack_rows(rows, 3) for rows in of.listed.rows])
    path = adjacency[:, 0, 2] | (adjacency[:, 0, 1] & adjacency[:, 1, 2])
    assert abs(found.no_effect.value - of.listed.probability[~path].sum()) < LIMIT * found.no_effect.mcse
    assert (found.draws[~found.is_path] == 0).all()
    assert (found.draws[found.is_path] != 0).all()
    assert len(found.given_path) == found.is_path.sum()


def test_given_one_graph_effects_are_those_of_adjustment_by_the_back_door():
    """Sum over the parents z of the cause of P(z) P(y | x, z), from the joint distribution of each drawn network."""
    of = case()
    posterior = independent(of, 7)
    draws = draw_networks(posterior, of.table, 200)
    found = effect_of(posterior, draws, "x0", "x2", values=("s0", "s1"))
    for t in range(len(draws)):
        joint = _joint(draws, t)
        parents = draws.parents[t][0]
        change = 0.0
        if 2 not in parents:  # else the effect is 0
            for z in np.ndindex(*(joint.shape[p] for p in parents)):
                at = dict(zip(parents, z, strict=True))
                p_z = joint[tuple(at.get(j, slice(None)) for j in range(3))].sum()
                change += p_z * (conditional(joint, 2, {**at, 0: 1})[1] - conditional(joint, 2, {**at, 0: 0})[1])
        assert found.draws.ravel()[t] == pytest.approx(change, abs=1e-12)


def _joint(draws, t):
    total = np.zeros(tuple(draws.n_states))
    for states in np.ndindex(*total.shape):
        total[states] = sum(
            draws.log_table(t, j, False)[tuple(states[p] for p in (*draws.parents[t][j], j))] for j in range(3)
        )
    return np.exp(total)


@pytest.fixture(scope="module")
def of_numbers():
    table = table_of()
    return table, doxa.learn(table, prior="uniform", exact=True, seed=1)


def test_effects_of_numbers_are_sums_over_graphs_of_products_along_paths(of_numbers):
    """Regressions are independent given the graph, so a sum of products of slopes has the product of their means."""
    table, posterior = of_numbers
    listed = enumerate_posterior(FamilyScores(table, BGe(), make_prior(table.names, "uniform")))
    scale = scaled(table)
    frame = posterior.effects(networks=4000).set_index(["of", "on"])
    z, total, twin = [], np.zeros((3, 3)), np.zeros((3, 3))
    for rows, p in zip(listed.rows, listed.probability, strict=True):
        slopes = np.zeros((3, 3))
        for v in range(3):
            parents = np.flatnonzero(unpack_rows(rows, 3)[:, v]).tolist()
            slopes[v, parents] = regression(scale.values, v, parents)[0][1:]
        total += p * np.linalg.inv(np.eye(3) - slopes)
        twin += p * slopes  # direct effects alone
    far = []
    for i, of in enumerate(table.names):
        for j, on in enumerate(table.names):
            if i != j:
                row = frame.loc[of, on]
                z.append((row.effect / scale.scale[j] - total[j, i]) / (row.mcse / scale.scale[j]))
                far.append((row.effect / scale.scale[j] - twin[j, i]) / (row.mcse / scale.scale[j]))
    assert np.abs(z).max() < LIMIT
    assert np.abs(far).max() > LIMIT


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.normal(size=40), "kind": rng.choice(["u", "v", "w"], 40)})
    frame["y"] = frame["x"] + (frame["kind"] == "w") + rng.normal(size=40)
    frame["ill"] = np.where(frame["y"] + rng.normal(size=40) > 0, "yes", "no")
    return doxa.learn(frame, seed=1)


@pytest.mark.parametrize("which", ["categories", "numbers", "mixed"])
def test_all_effects_are_the_single_ones(which, of_numbers, mixed):
    if which == "categories":
        of = case()
        posterior = independent(of, 7, 100)
        draws = draw_networks(posterior, of.table, None)
    else:
        posterior = {"numbers": of_numbers[1], "mixed": mixed}[which]
        draws = posterior.network_draws(40)
    frame = all_effects(posterior, draws)
    names = draws.names
    assert set(zip(frame["of"], frame["on"], strict=True)) == {(a, b) for a in names for b in names if a != b}
    for row in frame.itertuples(index=False):
        on = row.on if not isinstance(row.state, str) else {row.on: row.state}
        one = effect_of(posterior, draws, row.of, on)
        assert np.mean(one.draws) == pytest.approx(row.effect, abs=1e-9)
        assert one.credible_interval() == pytest.approx((row.lower, row.upper), abs=1e-9)
        assert one.no_effect.value == pytest.approx(row.no_effect)
        assert one.levels[0] == pytest.approx(row._1)
    assert (frame["mcse"].dropna() > 0).all()


@pytest.fixture(scope="module")
def sharp():
    """One column says another: states that were not seen have probabilities of 1e-100 and less."""
    rng = np.random.default_rng(2)
    first = rng.integers(0, 3, 30)
    last = np.where(rng.random(30) < 0.8, first, rng.integers(0, 3, 30))
    frame = pd.DataFrame({"x": first, "y": first, "z": last}).map(lambda code: "abc"[code])
    posterior = doxa.learn(frame, seed=1, score=BDeu(0.1))
    return posterior, posterior.network_draws(200)


def test_whole_networks_and_parts_of_them_agree(sharp, monkeypatch):
    whole = all_effects(*sharp)
    monkeypatch.setattr("doxa.structure.averaging.category_effects._WHOLE", Budget(operations=1))
    parts = all_effects(*sharp)
    pd.testing.assert_frame_equal(whole, parts, rtol=1e-9, atol=1e-12)


def test_entries_that_are_left_out_change_no_effect(sharp, monkeypatch):
    posterior, draws = sharp
    smallest = min(draws.log_table(t, j, False).min() for t in range(len(draws)) for j in range(3))
    assert smallest < -80.0
    without = all_effects(posterior, draws)
    monkeypatch.setattr("doxa.structure.averaging.category_effects._NEGLIGIBLE", -np.inf)
    pd.testing.assert_frame_equal(all_effects(posterior, draws), without, rtol=1e-12, atol=1e-15)
    monkeypatch.setattr("doxa.structure.averaging.category_effects._NEGLIGIBLE", -2.0)  # a broken twin
    twin = all_effects(posterior, draws)
    assert np.abs(twin["effect"].to_numpy() - without["effect"].to_numpy()).max() > 1e-3


def test_an_effect_is_the_difference_of_two_queries(mixed):
    found = mixed.effect("kind", "y", values=("u", "w"), networks=200)
    means = [mixed.query("y", do={"kind": kind}, networks=200).mean.draws for kind in ("u", "w")]
    assert np.abs(found.after - means[1]).max() == 0
    assert np.abs(found.draws[found.is_path] - (means[1] - means[0])[found.is_path]).max() < 1e-12
    assert "no effect" in str(found)
    assert "common cause" in repr(found)
    assert "common cause" in found._repr_html_()


def test_ratios_and_probabilities_of_effects():
    posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
    found = posterior.effect("phys", "smoke")
    assert found.ratio.value == pytest.approx((found.after / found.before).mean())
    above, below = found.probability(above=0.0), found.probability(below=0.0)
    assert above.value == pytest.approx((found.draws > 0).mean())
    assert above.value + below.value == pytest.approx(found.is_path.mean())
    assert found.no_effect.exact


def test_a_ratio_to_what_may_be_negative_is_refused(of_numbers):
    with pytest.raises(ArgumentError, match="not above 0 in every network"):
        _ = of_numbers[1].effect("a", "b", values=(-1e4, 1e4)).ratio


def test_values_far_from_all_data_are_noted(of_numbers):
    assert "standard deviations" in of_numbers[1].effect("a", "b", values=(0.0, 1e4)).notes[0]
    assert not of_numbers[1].effect("a", "b").notes


@pytest.mark.parametrize(
    ("of", "on", "values", "error", "told"),
    [
        ("x", "x", None, ArgumentError, "of and on are both 'x'"),
        ("q", "x", None, ArgumentError, "of names 'q', which is not a column"),
        ("x", "kind", None, ArgumentError, r"name the one whose probability changes, as in on=\{'kind': 'w'\}"),
        ("x", {"kind": "t"}, None, ArgumentError, "not one of its states"),
        ("x", {"y": 3}, None, ArgumentError, "holds numbers; give the column alone"),
        ("x", {"kind": "u", "ill": "yes"}, None, ArgumentTypeError, "one column and its state"),
        ("x", "y", (1.0, 1.0), ArgumentError, "twice the same"),
        ("x", "y", (1.0,), ArgumentTypeError, "give two"),
        ("x", "y", "12", ArgumentTypeError, "give two"),
        ("x", "y", (1.0, "high"), ArgumentTypeError, "values is 'high'"),
        ("kind", "y", ("u", "t"), ArgumentError, "not one of its states"),
    ],
)
def test_wrong_questions_are_refused(mixed, of, on, values, error, told):
    with pytest.raises(error, match=told):
        mixed.effect(of, on, values=values)


def test_thresholds_are_one_and_numbers(mixed):
    found = mixed.effect("x", "y", networks=40)
    with pytest.raises(ArgumentError, match="give one of them"):
        found.probability()
    with pytest.raises(ArgumentError, match="above"):
        found.probability(above=float("nan"))


@pytest.fixture(scope="module")
def in_other_worlds():
    """Places of the effects of 60 worlds among the draws of another one each, and each one's own draws."""
    before = [np.zeros(1)]
    return [effects(number, before) for number in range(60)], before[1:]


def test_credible_intervals_hold_the_true_effect(in_other_worlds, monkeypatch):
    """Worlds from the prior: the place of the truth among the draws is uniform, so 95% intervals hold it in 95%."""
    _, draws = in_other_worlds

    def run_of(setting, table, number):  # not once more
        return SimpleNamespace(effect=lambda *_, **__: SimpleNamespace(draws=draws[number]))

    monkeypatch.setattr(graphs, "run_of", run_of)
    assert p_values([effects(number) for number in range(60)])["effect"] > FALSE_ALARM


def test_effects_in_another_world_are_seen(in_other_worlds):
    assert p_values(in_other_worlds[0])["effect in another world"] < FALSE_ALARM
