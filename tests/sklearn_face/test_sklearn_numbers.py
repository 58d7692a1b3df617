"""Estimators of scikit-learn's face that keep numbers: against closed forms, quadrature and other rooms."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from scipy.stats import multivariate_normal, norm
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.sklearn import BeliefNetworkClassifier, BeliefNetworkImputer, BeliefNetworkRegressor
from support.checks import SEED, z_limit

QUICK = {"draws": 20, "chains": 2, "networks": 20, "n_jobs": 1}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # chains of 20 draws
@parametrize_with_checks(
    [
        BeliefNetworkImputer(**QUICK),
        BeliefNetworkImputer("draw", **QUICK),
        BeliefNetworkRegressor(max_parents=2, **QUICK),
        BeliefNetworkClassifier(numbers="conditional_gaussian", max_parents=2, **QUICK),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Closed forms.


def test_with_no_edge_allowed_the_prediction_is_that_of_one_column():
    rng = np.random.default_rng(SEED)
    X, y = rng.standard_normal((40, 1)), 5 + 3 * rng.standard_normal(40)
    model = BeliefNetworkRegressor(max_parents=0, networks=4000, random_state=SEED).fit(X, y)
    mean, sd = model.predict(X[:3], return_std=True)
    assert np.ptp(mean) < 0.01  # what networks weighed by other rows differ by
    answer = model.predict_distribution(X[:1])[0]
    # BGe of 2 columns: alpha_mu 1, alpha_w 4, t = 1 * (4 - 2 - 1) / 2 = 1/2; a column alone has alpha_w - 1 = 3
    n, scaled = len(y), (y - y.mean()) / y.std(ddof=1)
    sum_of_squares = 0.5 + (scaled**2).sum() + n / (n + 1) * scaled.mean() ** 2
    freedom = 3 + n
    spread = np.sqrt(sum_of_squares * (n + 2) / ((n + 1) * freedom)) * y.std(ddof=1)
    exact = student(freedom, y.mean(), spread)
    assert abs(answer.mean.value - exact.mean()) < z_limit(1) * answer.mean.mcse
    assert abs(answer.sd.value - exact.std()) < z_limit(1) * answer.sd.mcse
    assert abs(answer.sd.value - 1.2 * exact.std()) > z_limit(1) * answer.sd.mcse  # another spread would show
    assert sd[0] == pytest.approx(answer.sd.value)
    quantiles = model.predict_quantiles(X[:1], (0.05, 0.9))
    assert quantiles[0] == pytest.approx(exact.ppf((0.05, 0.9)), abs=0.1)
    assert model.log_density(X[:2], y[:2]) == pytest.approx(exact.logpdf(y[:2]), abs=0.02)


def dependent(n=60):
    """Features of every kind, and a number that depends on two of them."""
    rng = np.random.default_rng(SEED)
    group = rng.choice(["a", "b"], n)
    size = rng.standard_normal(n)
    y = np.where(group == "a", 2.0, -1.0) + 1.5 * size + 0.5 * rng.standard_normal(n)
    frame = pd.DataFrame({"group": pd.Categorical(group), "size": size, "noise": rng.standard_normal(n)})
    frame["twice"] = 2 * size + 0.2 * rng.standard_normal(n)
    frame["planet"] = "earth"
    return frame, pd.Series(y, name="weight")


def test_predictions_are_those_of_the_averaging_room():
    X, y = dependent()
    model = BeliefNetworkRegressor(networks=100, random_state=1).fit(X, y)
    assert model.verdict_.startswith("Exact")
    assert model.target_name_ == "weight"
    assert model.posterior_.names == ("group", "size", "noise", "twice", "weight")
    mean, sd = model.predict(X[:4], return_std=True)
    quantiles = model.predict_quantiles(X[:4], [0.1, 0.5])
    for i in range(4):
        given = X.iloc[i].drop("planet").to_dict()
        known = model.posterior_.predictive("weight", given, networks=100)
        assert mean[i] == pytest.approx(known.mean.value)
        assert sd[i] == pytest.approx(known.sd.value)
        assert quantiles[i] == pytest.approx([known.distribution.quantile(p) for p in (0.1, 0.5)])
        other = model.posterior_.predictive("weight", {**given, "size": given["size"] + 0.1}, networks=100)
        assert mean[i] != pytest.approx(other.mean.value)
        assert model.log_density(X[i : i + 1], [y[i]])[0] == pytest.approx(np.log(known.density(y[i])))
    assert model.score(X, y) > 0.9


def test_a_density_integrates_to_one():
    X, y = dependent()
    model = BeliefNetworkRegressor(networks=40, random_state=1).fit(X, y)
    row = X[:1].assign(size=np.nan)
    at = np.linspace(-25, 25, 401)
    density = np.exp(model.log_density(row.loc[[0] * at.size], at))
    assert np.trapezoid(density, at) == pytest.approx(1.0, abs=1e-6)
    mean, sd = model.predict(row, return_std=True)
    assert np.trapezoid(at * density, at) == pytest.approx(mean[0], abs=1e-5)
    assert np.trapezoid((at - mean[0]) ** 2 * density, at) == pytest.approx(sd[0] ** 2, abs=1e-4)


def test_weights_rows_in_any_order_and_copies():
    X, y = dependent(30)
    weight = np.random.default_rng(SEED).integers(0, 3, 30)
    model = BeliefNetworkRegressor(networks=40, random_state=1)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    shuffled = np.random.default_rng(1).permutation(np.repeat(np.arange(30), weight))
    repeated = clone(model).fit(X.iloc[shuffled], y.iloc[shuffled])
    assert np.array_equal(weighted.predict(X), repeated.predict(X))
    assert not np.array_equal(weighted.predict(X), clone(model).fit(X, y).predict(X))
    again = pickle.loads(pickle.dumps(weighted))
    assert np.array_equal(again.predict(X), weighted.predict(X))
    empty = X[:0]
    with pytest.raises(ValueError, match="0 sample"):
        weighted.predict(empty)


def test_states_never_seen_are_missing():
    X, y = dependent()
    model = BeliefNetworkRegressor(networks=40, random_state=1).fit(X, y)
    odd, gone = (X[:2].assign(group=value) for value in ("c", None))
    assert np.array_equal(model.predict(odd), model.predict(gone))
    assert not np.array_equal(model.predict(odd), model.predict(X[:2]))


def test_whole_numbers_are_numbers_or_categories():
    rng = np.random.default_rng(SEED)
    X, y = rng.integers(0, 4, (60, 1)), rng.standard_normal(60)
    assert BeliefNetworkRegressor(networks=40).fit(X, y).states_ == {"x0": ()}
    own = BeliefNetworkRegressor(networks=40, categorical_features="auto").fit(X, y)
    assert own.states_ == {"x0": ("0", "1", "2", "3")}


# Classes.


def test_class_probabilities_are_those_of_the_averaging_room_and_of_the_right_normals():
    rng = np.random.default_rng(SEED)
    y = rng.choice(["no", "yes"], 400, p=[0.3, 0.7])
    mean = np.where(y == "yes", 1.0, 0.0)[:, None] * [1.0, -0.5]
    X = mean + rng.standard_normal((400, 2))
    model = BeliefNetworkClassifier(numbers="conditional_gaussian", random_state=1).fit(X, y)
    assert model.verdict_.startswith("Exact")
    found = model.predict_proba(X[:20])
    answer = model.posterior_.predictive("class", {"x0": float(X[0, 0]), "x1": float(X[0, 1])}, networks=400)
    z = np.abs(found[:, 0] - answer["no"].value) / answer["no"].mcse  # which draws parameters, and the model does not
    assert z[0] < z_limit(1)
    assert z[1] > z_limit(1)  # another row
    true = np.array(
        [
            [p * multivariate_normal(m, np.eye(2)).pdf(row) for p, m in ((0.3, [0.0, 0.0]), (0.7, [1.0, -0.5]))]
            for row in X[:20]
        ]
    )
    true /= true.sum(axis=1, keepdims=True)
    assert np.abs(found - true).max() < 0.12
    assert np.abs(found - true[:, ::-1]).max() > 0.3  # classes exchanged would show
    some = model.predict_proba([[np.nan, np.nan], [np.nan, 0.3]])
    assert some[0] == pytest.approx([(y == "no").mean(), (y == "yes").mean()], abs=0.02)
    one = [p * norm.pdf(0.3, m) for p, m in ((0.3, 0.0), (0.7, -0.5))]
    assert some[1] == pytest.approx(np.array(one) / sum(one), abs=0.06)


@pytest.mark.parametrize("numbers", ["additive", "auto"])
def test_a_class_may_depend_on_numbers(numbers):
    """Two causes of the class, uniform, so that no normal scatter says which class it was."""
    rng = np.random.default_rng(SEED)
    X = rng.uniform(-3, 3, (500, 2))
    p = 1 / (1 + np.exp(-2.0 * X[:, 0] + 1.5 * X[:, 1]))
    y = np.where(rng.random(500) < p, "yes", "no")
    found, binned = (
        BeliefNetworkClassifier(numbers=word, random_state=1).fit(X[:300], y[:300]).predict_proba(X[300:])[:, 1]
        for word in (numbers, "bins")
    )
    assert np.abs(found - p[300:]).mean() < 0.05
    assert np.abs(found - p[300:]).mean() < 0.6 * np.abs(binned - p[300:]).mean()


def test_numbers_beside_categories_and_tables_without_numbers():
    X, y = dependent()
    labels = np.where(y > 0, "big", "small")
    own = BeliefNetworkClassifier(numbers="conditional_gaussian", networks=40, random_state=1)
    model = own.fit(X, labels)
    assert model.states_ == {"group": ("a", "b"), "size": (), "noise": (), "twice": ()}
    assert model.score(X, labels) > 0.8
    odd = X[:1].assign(group="c")
    assert np.array_equal(model.predict_proba(odd), model.predict_proba(odd.assign(group=None)))
    with pytest.raises(ArgumentError, match="feature 'group' has 'c' in row 0"):
        clone(own).set_params(unseen="error").fit(X, labels).predict(odd)
    both = [clone(own).set_params(numbers=word).fit(X[["group"]], labels) for word in ("bins", "conditional_gaussian")]
    assert np.array_equal(both[0].predict_proba(X[["group"]]), both[1].predict_proba(X[["group"]]))
    with pytest.raises(ArgumentError, match="numbers is 'normal'; it must be one of 'bins', 'conditional_gaussian'"):
        BeliefNetworkClassifier(numbers="normal").fit(X, labels)


# Imputation.


def holes(n=150):
    X, y = dependent(n)
    X["weight"] = y
    X["count"] = pd.array(np.random.default_rng(2).integers(0, 3, n), dtype="Int64")
    whole = X.copy()
    rng = np.random.default_rng(SEED + 1)
    for name in ("group", "size", "weight", "count", "planet"):
        X.loc[rng.random(n) < 0.08, name] = None
    return X, whole


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_frame_is_filled_by_the_posterior_of_its_cells():
    X, whole = holes()
    imputer = BeliefNetworkImputer(draws=300, chains=2, random_state=1).set_output(transform="pandas")
    filled = imputer.fit_transform(X)
    assert not filled.isna().any().any()
    assert list(filled.columns) == list(X.columns) == imputer.get_feature_names_out().tolist()
    assert (filled.dtypes == X.dtypes).all()
    seen = X.notna()
    assert ((filled == X) | ~seen).all().all()
    cells = imputer.posterior_.impute()
    for name in ("size", "weight"):
        own = cells[cells["column"] == name]
        assert filled[name].to_numpy()[own["row"]] == pytest.approx(own["mean"].to_numpy())
        gone = ~seen[name]
        assert np.corrcoef(filled[name][gone], whole[name][gone])[0, 1] > 0.8  # the mean of the column has 0
    groups = cells[cells["column"] == "group"]
    best = groups.loc[groups.groupby("row")["probability"].idxmax()]
    assert filled["group"].iloc[best["row"]].tolist() == best["state"].tolist()
    assert set(filled["count"]) == {0, 1, 2}
    assert (filled["planet"] == "earth").all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_new_rows_are_filled_by_the_predictive_distribution():
    X, _ = holes()
    imputer = BeliefNetworkImputer(draws=40, chains=2, random_state=1).fit(X)
    row = X.dropna()[:1].assign(size=np.nan)
    given = row.drop(columns=["size", "planet"]).iloc[0].to_dict()
    known = imputer.posterior_.predictive("size", {**given, "count": str(given["count"])})
    filled = imputer.transform(row)
    assert filled[0, 1] == pytest.approx(known.mean.value)
    odd = row.assign(group="c")
    assert imputer.transform(odd)[0, 0] == "c"
    nothing = imputer.transform(row.assign(**dict.fromkeys(X.columns)))
    assert pd.notna(nothing).all()


def test_draws_of_new_rows_have_the_moments_of_the_predictive_distribution():
    rng = np.random.default_rng(SEED)
    z = rng.standard_normal((80, 3))
    z[:, 1] = z[:, 0] + 0.5 * z[:, 1]
    z[:, 2] = z[:, 1] - 0.5 * z[:, 2]
    imputer = BeliefNetworkImputer("draw", random_state=SEED).fit(z)
    rows = np.tile([1.0, np.nan, np.nan], (2000, 1))
    drawn = imputer.transform(rows)
    assert np.array_equal(drawn[:, 0], rows[:, 0])
    assert np.array_equal(imputer.transform(rows[:50]), imputer.transform(rows[:50]))
    for name, own in (("x1", drawn[:, 1]), ("x2", drawn[:, 2])):
        known = imputer.posterior_.predictive(name, {"x0": 1.0}).distribution
        assert abs(own.mean() - known.mean) < z_limit(4) * own.std() / np.sqrt(len(own))
        assert abs(own.var() / known.sd**2 - 1) < z_limit(4) * np.sqrt(2 / len(own)) * 1.3
    # cells of a row belong together: x2 - x1 has a spread of its own, far below that of independent draws
    assert (drawn[:, 2] - drawn[:, 1]).std() < 0.7
    assert (rng.permutation(drawn[:, 2]) - drawn[:, 1]).std() > 0.8  # drawn cell by cell it would be this


def test_draws_of_categories_have_the_joint_probabilities_of_the_network():
    rng = np.random.default_rng(SEED)
    a = rng.integers(0, 2, 200)
    b = np.where(rng.random(200) < 0.85, a, 1 - a)
    c = np.where(rng.random(200) < 0.7, b, 1 - b)
    X = np.array([["no", "yes"][k] for k in np.column_stack([a, b, c]).ravel()], dtype=object).reshape(-1, 3)
    imputer = BeliefNetworkImputer("draw", random_state=SEED).fit(X)
    rows = np.tile(np.array(["yes", None, None], dtype=object), (3000, 1))
    drawn = imputer.transform(rows)
    posterior = imputer.posterior_
    first = posterior.predictive({"x1": "yes"}, {"x0": "yes"}).value
    both = first * posterior.predictive({"x2": "yes"}, {"x0": "yes", "x1": "yes"}).value
    for found, exact in ((drawn[:, 1] == "yes", first), (((drawn[:, 1:] == "yes").all(axis=1)), both)):
        assert abs(found.mean() - exact) < z_limit(2) * np.sqrt(exact * (1 - exact) / 3000)
    alone = first * (drawn[:, 2] == "yes").mean()
    assert abs(both - alone) > z_limit(2) * np.sqrt(both * (1 - both) / 3000)  # independent cells would show


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_draw_of_the_training_table_is_one_of_the_posteriors():
    X, _ = holes(60)
    imputer = BeliefNetworkImputer("draw", draws=20, chains=2, random_state=1).set_output(transform="pandas")
    filled = imputer.fit_transform(X)
    made = imputer.posterior_.completed_tables(1)[0]
    assert np.array_equal(filled["size"], made["size"])
    assert filled["group"].tolist() == made["group"].tolist()
    other = clone(imputer).set_params(random_state=2).fit_transform(X)
    assert not np.array_equal(filled["size"], other["size"])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of twenty draws
def test_columns_all_missing_constant_or_alone():
    X = np.array([[np.nan, 1.5, 2.25], [np.nan, np.nan, 3.5], [np.nan, 1.5, 1.25], [np.nan, 1.5, np.nan]])
    imputer = BeliefNetworkImputer(draws=20, chains=2, random_state=1)
    with pytest.warns(UserWarning, match="every cell is missing in x0, which will not be used"):
        filled = imputer.fit_transform(X)
    assert imputer.get_feature_names_out().tolist() == ["x1", "x2"]
    assert filled.shape == (4, 2)
    assert (filled[:, 0] == 1.5).all()
    assert np.isfinite(filled).all()
    with pytest.raises(ArgumentError, match="every cell of X is missing"):
        imputer.fit(np.full((3, 2), np.nan))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_in_a_pipeline():
    rng = np.random.default_rng(SEED)
    z = rng.standard_normal((100, 3))
    y = z @ [1.0, 2.0, -1.0] + 0.1 * rng.standard_normal(100)
    cells = np.column_stack([z, z[:, :1] + 0.1 * rng.standard_normal((100, 1))])
    cells[rng.random(100) < 0.2, 0] = np.nan
    model = make_pipeline(BeliefNetworkImputer(draws=20, chains=2, random_state=1), LinearRegression())
    assert cross_val_score(model, cells, y, cv=3).min() > 0.97


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (BeliefNetworkImputer("median"), "strategy is 'median'; it must be 'mean' or 'draw'"),
        (BeliefNetworkImputer(networks=0), "networks is 0"),
        (BeliefNetworkImputer(categorical_features="all"), "categorical_features is 'all'"),
        (BeliefNetworkRegressor(networks=0), "networks is 0"),
        (BeliefNetworkRegressor(categorical_features="all"), "it must be 'auto' or 'from_dtype'"),
    ],
)
def test_bad_options(estimator, said):
    with pytest.raises(ArgumentError, match=said):
        estimator.fit(np.arange(8.0).reshape(4, 2), np.arange(4.0))


def test_bad_rows():
    X, y = dependent(30)
    model = BeliefNetworkRegressor(networks=40).fit(X, y)
    with pytest.raises(ArgumentError, match=r"quantiles is 1\.0; it must hold numbers between 0 and 1"):
        model.predict_quantiles(X, 1.0)
    with pytest.raises(ArgumentError, match=r"y has shape \(2,\) for 30 rows of X"):
        model.log_density(X, [1.0, 2.0])
    with pytest.raises(ArgumentTypeError, match="feature 'size' was fitted to numbers and has 'big'"):
        model.predict(X.astype({"size": object}).assign(size="big"))
    assert isinstance(model.posterior_, doxa.Posterior)


def test_several_choices_for_numbers_are_averaged():
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((60, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(60) > 0, "up", "down")
    kinds = ("conditional_gaussian", "additive", "bins")
    alone = [BeliefNetworkClassifier(numbers=kind, networks=20, random_state=1).fit(X, y) for kind in kinds]
    pooled = BeliefNetworkClassifier(numbers=kinds, networks=20, random_state=1).fit(X, y)
    X[0, 1] = np.nan
    right = np.mean([one.predict_proba(X[:9]) for one in alone], axis=0)
    assert pooled.predict_proba(X[:9]) == pytest.approx(right, abs=1e-12)
    assert tuple(pooled.posteriors_) == kinds
    assert pooled.posterior_ is pooled.posteriors_["conditional_gaussian"]
    assert np.abs(alone[0].predict_proba(X[:9]) - right).max() > 1e-3


@pytest.mark.parametrize("value", ["other", (), ("additive", "additive"), ("additive", "other"), 3])
def test_choices_for_numbers_that_are_none_are_refused(value):
    with pytest.raises(ArgumentError, match=r"numbers is .*; it must be one of 'bins', .*, or a tuple"):
        BeliefNetworkClassifier(numbers=value).fit([[0.5], [1.5]], [0, 1])
