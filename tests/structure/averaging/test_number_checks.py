"""Predictive checks and cross-validation of numbers: plain formulas, a model that fits and ones that cannot."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from test_number_answers import mixed, table_of

import doxa
from doxa.structure.averaging import NumberCrossValidation, cross_validate, predictive_checks
from doxa.structure.averaging.checks import _number_statistics


def test_statistics_against_the_textbook():
    rng = np.random.default_rng(1)
    values = rng.gamma(2.0, size=(60, 3))
    values[:, 1] += values[:, 0]
    codes = rng.integers(0, 3, size=(60, 2))
    values[rng.random(values.shape) < 0.15] = np.nan
    codes[rng.random(codes.shape) < 0.15] = -1
    codes[codes[:, 1] == 2, 1] = 0
    found = _number_statistics(values, codes, (3, 2))
    assert np.allclose(found[:3], np.nanmean(values, axis=0))
    assert np.allclose(found[3:6], np.nanstd(values, axis=0, ddof=1))
    assert np.allclose(found[6:9], [stats.skew(column[~np.isnan(column)]) for column in values.T])
    assert np.allclose(found[9:12], pd.DataFrame(values).corr().to_numpy()[np.triu_indices(3, 1)])
    for k in range(2):
        for j in range(3):
            own = (codes[:, k] >= 0) & ~np.isnan(values[:, j])
            groups = pd.Series(values[own, j]).groupby(codes[own, k])
            between = (groups.count() * (groups.mean() - values[own, j].mean()) ** 2).sum()
            assert found[12 + 3 * k + j] == pytest.approx(between / own.sum() / values[own, j].var())


def test_what_has_no_spread_has_no_correlation():
    values = np.column_stack([np.zeros(5), np.arange(5.0)])
    found = _number_statistics(values, np.zeros((5, 1), dtype=int), (2,))
    assert found[4] == 0.0  # skewness of the constant
    assert found[6:].tolist() == [0.0, 0.0, 0.0]  # correlation, and shares of a category with one state


def checked(frame, **options):
    found = doxa.learn(frame, seed=1, **options).predictive_checks()
    return found.set_index(["statistic", "column", "other"])


def test_a_model_that_fits_is_left_alone_and_one_that_may_not_join_is_found_out():
    frame = mixed(n=150)
    free = checked(frame)
    assert free.loc[("mean", "y", ""), "observed"] == pytest.approx(frame["y"].mean())
    assert free.loc[("sd", "y", ""), "observed"] == pytest.approx(frame["y"].std())
    assert free.loc[("correlation", "x", "y"), "observed"] == pytest.approx(frame[["x", "y"]].corr().iloc[0, 1])
    assert free.loc[("count", "k", "y"), "observed"] == (frame["k"] == "y").sum()
    named = ["correlation", "correlation_ratio", "count", "mean", "mutual_information", "sd", "skewness"]
    assert sorted(set(free.index.get_level_values(0))) == named
    for key in [("correlation", "x", "y"), ("correlation_ratio", "k", "y"), ("mean", "y", ""), ("sd", "y", "")]:
        assert 0.1 < free.loc[key, "tail"] < 0.9
        assert free.loc[key, "lower"] < free.loc[key, "observed"] < free.loc[key, "upper"]
        assert free.loc[key, "mcse"] > 0
    bound = checked(frame, forbidden=[("x", "y"), ("y", "x"), ("k", "y")])
    assert bound.loc[("correlation", "x", "y"), "tail"] < 0.01
    assert bound.loc[("correlation_ratio", "k", "y"), "tail"] < 0.01
    assert 0.1 < bound.loc[("mean", "y", ""), "tail"] < 0.9


def test_skewed_columns_are_found_out_and_their_logarithms_are_not():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": np.exp(rng.normal(size=120)), "b": rng.normal(size=120)})
    assert checked(frame).loc[("skewness", "a", ""), "tail"] < 0.01
    assert 0.05 < checked(frame.assign(a=np.log(frame["a"]))).loc[("skewness", "a", ""), "tail"] < 0.95


def test_missing_cells_are_missing_in_replicas_too():
    frame = mixed(n=80, missing=0.1)
    found = doxa.learn(frame, draws=150, seed=1).predictive_checks().set_index(["statistic", "column", "other"])
    observed = found.loc[("mean", "y", "")]
    assert observed["observed"] == pytest.approx(frame["y"].mean())
    assert 0.05 < observed["tail"] < 0.95
    assert 0.1 < found.loc[("correlation", "x", "y"), "tail"] < 0.9
    assert found.loc[("count", "k", "n"), "upper"] < 80


def test_numbers_alone_have_no_counts():
    table = table_of()
    found = predictive_checks(doxa.learn(table, seed=1), table, replicas=40)
    assert len(found) == 3 * 3 + 3
    assert not found.isna().any().any()


@pytest.fixture(scope="module")
def validated():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(size=160), "k": rng.choice(["n", "y"], 160)})
    frame["y"] = 3 * frame["x"] + np.where(frame["k"] == "y", 4.0, 0.0) + rng.normal(0, 2.0, 160)
    frame.loc[7, "y"] = np.nan
    table = doxa.read_table(frame)
    return frame, cross_validate(table, "y", folds=4, seed=1, draws=50)


def test_scores_of_a_number_are_near_those_of_the_truth(validated):
    frame, found = validated
    assert isinstance(found, NumberCrossValidation)
    mean = 3 * frame["x"] + np.where(frame["k"] == "y", 4.0, 0.0)
    truth = stats.norm(mean, 2.0)
    apart = found.log_density + np.where(frame["y"].isna(), 0, -truth.logpdf(frame["y"].fillna(0)))
    own = ~frame["y"].isna()
    assert -0.15 < apart[own].mean() < 0.02  # nats: learned from three quarters, no better than the truth
    loss, error = found.log_loss
    assert loss == pytest.approx(-found.log_density[own].mean())
    assert error == pytest.approx(found.log_density[own].std(ddof=1) / np.sqrt(own.sum()))
    z = (frame["y"] - mean)[own] / 2.0
    exact = 2.0 * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    difference = found.ranked_score[own] - exact
    assert -0.02 < difference.mean() < 0.15
    root, error = found.root_mean_squared_error
    assert abs(root - 2.0) < 4 * error
    share, error = found.coverage
    assert abs(share - 0.95) < 4 * max(error, 0.01)
    assert np.isnan(found.log_density[7])
    assert np.isfinite(found.mean[7])


def test_a_model_without_the_parent_scores_worse_and_too_narrow_a_one_as_well(validated):
    frame, found = validated
    bound = [("x", "y"), ("y", "x")]
    twin = cross_validate(doxa.read_table(frame), "y", folds=4, seed=1, draws=50, forbidden=bound)
    own = ~frame["y"].isna()
    for better, worse in ((-found.log_density, -twin.log_density), (found.ranked_score, twin.ranked_score)):
        apart = (worse - better)[own]
        assert apart.mean() > 5 * apart.std() / np.sqrt(own.sum())
    inside = np.abs(frame["y"] - found.mean)[own] < 1.96 * found.sd[own] / 2  # half as wide
    assert inside.mean() < 0.95 - 4 * np.sqrt(0.05 * 0.95 / own.sum())


def test_each_row_has_the_predictive_distribution_of_the_other_folds():
    frame = mixed(n=40)
    table = doxa.read_table(frame)
    found = cross_validate(table, "y", folds=2, seed=3, draws=50)
    fold = np.random.default_rng(3).permutation(np.arange(40) % 2)
    posterior = doxa.learn(frame[fold != 0], seed=3, draws=50)
    for row in np.flatnonzero(fold == 0)[:2]:
        seen = {name: frame.loc[row, name] for name in ("k", "m", "x")}
        one = posterior.predictive("y", given=seen)
        assert found.mean[row] == pytest.approx(one.mean.value)
        assert found.lower[row] == pytest.approx(one.interval()[0])
        assert found.log_density[row] == pytest.approx(float(one.distribution.log_density(frame.loc[row, "y"])))
        assert found.ranked_score[row] == pytest.approx(float(one.distribution.crps(frame.loc[row, "y"])))


def test_a_category_beside_numbers_is_validated_too():
    frame = mixed(n=60)
    found = cross_validate(doxa.read_table(frame), "k", folds=2, seed=1, draws=50)
    assert found.probabilities.shape == (60, 2)
    assert found.log_loss[0] < np.log(2)


def test_scores_of_a_transformed_column_are_in_its_unit():
    frame = mixed(n=60).drop(columns="m").assign(y=lambda own: np.exp(0.3 * own["y"]))
    options = {"folds": 2, "seed": 1, "draws": 50}
    logs = cross_validate(doxa.read_table(frame.assign(y=np.log(frame["y"]))), "y", **options)
    for method in ("log", "normal scores"):
        found = cross_validate(doxa.read_table(frame, transform={"y": method}), "y", **options)
        if method == "log":
            assert found.log_density == pytest.approx(logs.log_density - np.log(frame["y"].to_numpy()))
            assert found.upper == pytest.approx(np.exp(logs.upper))
        assert 0.75 < found.coverage[0] <= 1.0
        assert np.isfinite(found.ranked_score).all()
