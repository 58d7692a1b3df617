"""Forecasts, paths and effects over time: against matrix products and recursions in the same networks."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pandas as pd
import pytest

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.structure.averaging.checks import predictive_checks
from doxa.structure.averaging.cross_validation import cross_validate
from doxa.structure.averaging.effects_in_time import later_descendants
from doxa.structure.averaging.paths import PathDraws, fresh_noise

LIMIT = 4.9  # standard errors: a false alarm in a million


def moments(kind, lags=1, units=12, times=12, seed=2, missing=0.0):
    rng = np.random.default_rng(seed)
    rows = []
    for unit in range(units):
        past = [rng.normal(size=2) for _ in range(lags)]
        for time in range(times):
            x = 0.9 * past[-1][0] - 0.3 * past[0][1] + rng.normal()
            y = 0.8 * past[0][0] + 0.6 * x + rng.normal()
            cells = [
                np.sign(v) if kind == "categories" or (kind == "mixed" and j == 0) else v for j, v in enumerate((x, y))
            ]
            past = [*past[1:], np.array(cells)]
            rows.append((unit, time, *cells))
    frame = pd.DataFrame(rows, columns=["who", "when", "x", "y"])
    for name in ("x", "y"):
        if kind == "categories" or (kind == "mixed" and name == "x"):
            frame[name] = np.where(frame[name] > 0, "up", "down")
            frame[name] = frame[name].astype(object)
        frame.loc[rng.random(len(frame)) < missing, name] = None
    return frame


@functools.lru_cache
def learned(kind, lags=1, missing=0.0):
    options = {"draws": 200, "warmup": 50} if missing else {}
    frame = moments(kind, lags, missing=missing)
    return doxa.learn(frame, time="when", unit="who", lags=lags, seed=1, progress=False, **options)


def tables_of(draws, t):
    """P(x, y at the next moment | the last `lags` moments) of a network of categories: a matrix on states of pasts."""
    lags, parents = draws.completed.table.slices.lags, draws.parents[t]
    tables = [np.exp(draws.log_table(t, node, False)) for node in (0, 1)]
    states = list(itertools.product((0, 1), repeat=2 * lags))  # latest moment first
    matrix = np.zeros((len(states), len(states)))
    for a, past in enumerate(states):
        for x, y in itertools.product((0, 1), repeat=2):
            cells = [x, y, *past]
            p = 1.0
            for node in (0, 1):
                p *= tables[node][(*[cells[k] for k in parents[node]], cells[node])]
            matrix[a, states.index((x, y, *past[: 2 * (lags - 1)]))] += p
    return matrix, states


@pytest.mark.parametrize("lags", [1, 2])
def test_forecasts_of_categories_are_powers_of_matrices(lags):
    posterior = learned("categories", lags)
    draws = posterior.network_draws()
    given = {"x": "up", "y": "down"} | ({"x [t-1]": "down", "y [t-1]": "down"} if lags == 2 else {})
    frame = posterior.forecast(3, given=given).set_index(["ahead", "column", "state"])
    start = [posterior.table.states[0].index("up"), posterior.table.states[1].index("down")] + [0, 0] * (lags - 1)
    exact = np.zeros((3, 2))
    for t in range(len(draws)):
        matrix, states = tables_of(draws, t)
        here = np.eye(len(states))[states.index(tuple(start))]
        for k in range(3):
            here = here @ matrix
            for j in range(2):
                exact[k, j] += sum(p for p, s in zip(here, states, strict=True) if s[j] == 1) / len(draws)
    for k, j in itertools.product(range(3), range(2)):
        found = frame.loc[k + 1, "xy"[j], "up"]
        assert abs(found["probability"] - exact[k, j]) < LIMIT * found["mcse"]
        assert found["mcse"] < 0.02
    broken = posterior.forecast(3, given=given | {"x": "down"}).set_index(["ahead", "column", "state"])
    gap = abs(broken.loc[1, "x", "up"]["probability"] - exact[0, 0]) / broken.loc[1, "x", "up"]["mcse"]
    assert gap > LIMIT


def test_parameters_stay_the_same_along_a_path():
    """Two moments ahead the mean of squares counts, not the square of means: the twin multiplies mean tables."""
    frame = pd.DataFrame({"t": range(7), "x": list("nynnyny")})
    posterior = doxa.learn(frame, time="t", required=[("x [t-1]", "x")], seed=1)
    draws = posterior.network_draws(networks=None)
    each = [np.linalg.matrix_power(np.exp(draws.log_table(t, 0, False)), 3) for t in range(len(draws))]
    mean = np.linalg.matrix_power(np.exp(draws.log_table(0, 0, True)), 3)
    found = posterior.forecast(3, given={"x": "n"}, networks=None).set_index(["ahead", "state"]).loc[3, "y"]
    assert abs(found["probability"] - np.mean(each, axis=0)[0, 1]) < LIMIT * found["mcse"]
    assert abs(found["probability"] - mean[0, 1]) > LIMIT * found["mcse"]


def test_forecasts_of_numbers_follow_the_recursion():
    posterior = learned("numbers", 2)
    draws = posterior.network_draws()
    given = {"x": 1.0, "y": -2.0, "x [t-1]": 0.5, "y [t-1]": 1.5}
    frame = posterior.forecast(3, given=given, do={"y [t+2]": 3.0}).set_index(["ahead", "column"])
    mean, square = np.zeros((3, 2)), np.zeros((3, 2))
    for network, parents in zip(draws.all, draws.parents, strict=True):
        past, spread = np.array([1.0, -2.0, 0.5, 1.5]), np.zeros((4, 4))  # means and covariances
        for k in range(3):
            cells, joint = np.concatenate([np.zeros(2), past]), np.zeros((6, 6))
            joint[2:, 2:] = spread
            for node in sorted((0, 1), key=lambda j: len(set(parents[j]) & {0, 1})):
                own, above = network.regressions["xy"[node]], list(parents[node])
                slopes = np.zeros(6)
                slopes[above] = own.coefficients
                cells[node] = float(own.intercept) + slopes @ cells
                joint[node, :] = joint[:, node] = slopes @ joint
                joint[node, node] = slopes @ joint @ slopes + float(own.sd) ** 2
                if (k, node) == (1, 1):
                    cells[1], joint[1, :], joint[:, 1] = 3.0, 0.0, 0.0
            mean[k] += cells[:2] / len(draws)
            square[k] += (cells[:2] ** 2 + np.diag(joint)[:2]) / len(draws)
            past, spread = cells[:4], joint[:4, :4]
    for k, j in itertools.product(range(3), range(2)):
        found = frame.loc[k + 1, "xy"[j]]
        assert abs(found["mean"] - mean[k, j]) < LIMIT * found["mcse"] + 1e-9
        assert found["sd"] == pytest.approx(np.sqrt(max(0.0, square[k, j] - mean[k, j] ** 2)), rel=0.06, abs=1e-6)
    assert frame.loc[2, "y"]["mcse"] == 0.0
    assert frame.loc[1, "x"]["lower"] < frame.loc[1, "x"]["mean"] < frame.loc[1, "x"]["upper"]


@pytest.mark.parametrize(
    ("kind", "missing"), [("categories", 0.0), ("mixed", 0.0), ("categories", 0.15), ("mixed", 0.15)]
)
def test_units_go_on_from_their_last_moments(kind, missing):
    posterior = learned(kind, 1, missing)
    frame = posterior.forecast(2)
    assert frame["unit"].nunique() == 12
    assert set(frame["after"]) == {"11"}
    last = moments(kind, missing=missing)
    last = last[last["when"] >= 10]
    rows = posterior.forecast(2, given=last)
    known = last[last["when"] == 11].dropna()["who"].astype(str)
    mine, theirs = (part[part["unit"].isin(known)].reset_index(drop=True) for part in (frame, rows))
    what = "probability" if kind == "categories" else "mcse"
    if not missing:
        assert np.allclose(mine[what], theirs[what], equal_nan=True)
    if kind == "categories":
        gap = (mine["probability"] - theirs["probability"]).abs() / np.hypot(mine["mcse"], theirs["mcse"])
        assert gap.max() < LIMIT


def test_paths_are_like_the_forecast():
    posterior = learned("categories")
    given = {"x": "up", "y": "up"}
    paths = posterior.simulate(2, given=given, n=4000, do={"x [t+1]": "down"})
    frame = posterior.forecast(2, given=given, do={"x [t+1]": "down"}).set_index(["ahead", "column", "state"])
    assert list(paths.columns) == ["path", "ahead", "x", "y"]
    assert (paths[paths["ahead"] == 1]["x"] == "down").all()
    for column in ("x", "y"):
        share = (paths[paths["ahead"] == 2][column] == "up").mean()
        found = frame.loc[2, column, "up"]
        assert abs(share - found["probability"]) < LIMIT * np.hypot(found["mcse"], np.sqrt(0.25 / 4000))


def test_effects_of_categories_are_sums_over_pasts():
    posterior = learned("categories")
    draws, table = posterior.network_draws(), posterior.table
    effect = posterior.effect("x", "y", lag=2, values=("down", "up"))
    pasts, counts = np.unique(table.codes[table.row_index][:, 2:], axis=0, return_counts=True)
    own = np.zeros(len(draws))
    for t in range(len(draws)):
        matrix, states = tables_of(draws, t)
        law, parents = np.exp(draws.log_table(t, 1, False)), draws.parents[t][1]
        after = []
        for level in (0, 1):
            cut = np.zeros((4, 4))
            for a, past in enumerate(states):
                if 0 in parents:
                    cells = [level, 0, *past]
                    p = law[tuple(cells[k] for k in parents)]
                else:
                    p = matrix[a].reshape(2, 2).sum(axis=0)
                cut[a, [states.index((level, 0)), states.index((level, 1))]] = p
            start = sum(c * np.eye(4)[states.index(tuple(p))] for p, c in zip(pasts.tolist(), counts, strict=True))
            ends = start / counts.sum() @ cut @ matrix @ matrix
            after.append(sum(p for p, s in zip(ends, states, strict=True) if s[1] == 1))
        own[t] = after[1] - after[0]
    assert effect.value == pytest.approx(own.mean(), abs=0.004)
    assert np.corrcoef(effect.draws.ravel(), own)[0, 1] > 0.95
    assert abs(posterior.effect("x", "y", lag=1, values=("down", "up")).value - own.mean()) > 0.02  # another lag
    assert effect.no_effect.value < 0.05


def test_effects_of_numbers_are_products_of_slopes():
    posterior = learned("numbers", 2)
    draws = posterior.network_draws()
    effect = posterior.effect("x", "y", lag=2, values=(0.0, 1.0))
    own = []
    for network, parents in zip(draws.all, draws.parents, strict=True):
        b = np.zeros((2, 6))
        for node in (0, 1):
            b[node, list(parents[node])] = network.regressions["xy"[node]].coefficients
        whole = np.linalg.inv(np.eye(2) - b[:, :2])
        one = whole @ b[:, 2:4] @ whole
        own.append((whole @ (b[:, 2:4] @ one + b[:, 4:] @ whole))[1, 0])
    assert np.abs(effect.draws.ravel() - own).max() < 1e-9
    frame = posterior.effects().set_index(["of", "on", "lag"])
    default = posterior.effect("x", "y", lag=2)
    assert frame.loc[("x", "y", 2), "effect"] == pytest.approx(default.value)
    assert frame.loc[("x", "y", 2), "no_effect"] == default.no_effect.value
    assert ("x", "x", 1) in frame.index
    assert ("x", "x", 0) not in frame.index
    assert posterior.effect("x", "x", lag=1).value > 0.0


def test_paths_of_edges_through_time():
    adjacency = np.zeros((6, 6), dtype=bool)  # x, y, and their past of one and two moments
    adjacency[2, 1] = adjacency[1, 0] = adjacency[5, 1] = True  # x [t-1] -> y -> x, y [t-2] -> y
    found = later_descendants(adjacency[None], 2, 3)[:, 0]
    assert found[0].tolist() == [[True, False], [True, True]]
    assert found[1].tolist() == [[True, True], [True, True]]
    only = np.zeros((4, 4), dtype=bool)
    only[2, 1] = True
    assert later_descendants(only[None], 1, 2)[:, 0].tolist() == [
        [[True, False], [False, True]], [[False, True], [False, False]], [[False, False], [False, False]]
    ]  # fmt: skip


def test_cells_that_were_not_seen_are_drawn():
    posterior = learned("categories")
    draws = posterior.network_draws()
    paths, n = PathDraws(draws), 4000
    history = np.full((n, 1, 2), np.nan)
    history[:, 0, 1] = 1.0
    noise = fresh_noise(np.random.default_rng(1), 1, n, 2)
    found = paths.run(0, history, 1, [{}], noise)
    share = np.exp(draws.log_table(0, 2, False))[1]
    matrix, states = tables_of(draws, 0)
    exact = sum(
        q * matrix[states.index((x, 1)), [states.index((1, 0)), states.index((1, 1))]].sum()
        for x, q in ((0, 1 - share), (1, share))
    )
    assert abs(found[0, :, 0].mean() - exact) < LIMIT * np.sqrt(0.25 / n)


BAD = {
    "ahead": (lambda p: p.forecast(0), ArgumentError, "ahead is 0"),
    "far": (lambda p: p.forecast(10**4), ArgumentError, "ahead is 10000; it is a number of moments, 1000 at most"),
    "state": (lambda p: p.forecast(1, given={"x": "sideways"}), ArgumentError, "given\\['x'\\] is 'sideways'"),
    "column": (lambda p: p.forecast(1, given={"z": "up"}), ArgumentError, "given names 'z', which is not a column"),
    "far past": (
        lambda p: p.forecast(1, given={"x [t-1]": "up"}),
        ArgumentError,
        "the last 1 moments alone",
    ),
    "do": (lambda p: p.forecast(1, do={"x": "up"}), ArgumentError, r"do names 'x'; say at which .* 'x \[t\+1\]'"),
    "late": (
        lambda p: p.forecast(1, do={"x [t+2]": "up"}),
        ArgumentError,
        r"the moments asked for is \[t\+1\]",
    ),
    "no mapping": (lambda p: p.forecast(1, do=["x"]), ArgumentTypeError, "do is \\['x'\\]; give a mapping"),
    "itself": (lambda p: p.effect("x", "x"), ArgumentError, "of and on are both 'x'"),
    "copy": (lambda p: p.effect("x [t-1]", "y"), ArgumentError, "of names 'x \\[t-1\\]', a copy of the past"),
    "lag": (lambda p: p.effect("x", "y", lag=-1), ArgumentError, "lag is -1"),
    "checks": (lambda p: predictive_checks(p, p.table), ArgumentError, "rows are moments in time"),
    "folds": (
        lambda p: cross_validate(p.table, "x"),
        ArgumentError,
        "moments in time cannot be held out",
    ),
    "update": (lambda p: p.update(moments("categories")), ArgumentError, "learned from moments in time"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_questions_are_refused(case):
    ask, error, words = BAD[case]
    with pytest.raises(error, match=words):
        ask(learned("categories"))


def test_rows_that_are_no_moments_have_no_forecast():
    posterior = doxa.learn(moments("categories").drop(columns=["who", "when"]), seed=1)
    with pytest.raises(ArgumentError, match="forecast is about moments in time"):
        posterior.forecast()
    with pytest.raises(ArgumentError, match="lag is about moments in time"):
        posterior.effect("x", "y", lag=1)


def test_completed_tables_say_of_whom_and_when():
    posterior = learned("categories", 1, 0.15)
    frame = posterior.completed_tables(2)[0]
    assert list(frame.columns) == ["who", "when", "x", "y", "x [t-1]", "y [t-1]"]
    assert not frame.isna().any().any()
    following = frame["who"].eq(frame["who"].shift())
    assert (frame["x [t-1]"][following] == frame["x"].shift()[following]).all()
