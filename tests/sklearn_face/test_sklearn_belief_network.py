"""`BeliefNetworkClassifier`: predictive averages over all graphs, missing cells included, in scikit-learn's words."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.sklearn import BeliefNetworkClassifier, belief_networks, class_probabilities
from doxa.sklearn.class_probabilities import ClassProbabilities
from doxa.structure.averaging.draws import draw_networks
from doxa.structure.averaging.predict import predict_of
from doxa.structure.exact.enumeration import all_dags, enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.scores import BDeu
from support.checks import SEED, z_limit
from support.tables import skewed_table


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # chains of 20 draws
@parametrize_with_checks([BeliefNetworkClassifier(draws=20, chains=2, networks=20, n_jobs=1, max_parents=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Exact sums.


def rows_of(table):
    """Features as an array of texts, None where missing, and the last column as labels."""
    codes = table.codes[table.row_index]
    cells = [[None if k < 0 else labels[k] for k, labels in zip(row, table.states, strict=True)] for row in codes]
    cells = np.array(cells, dtype=object)
    return cells[:, :-1], cells[:, -1].astype(str)


def joint_given(codes, sizes, adjacency, ess):
    """p(new row | graph, these rows), by counting: slow and plain; shape ``sizes``."""
    total = np.ones(sizes)
    n = len(sizes)
    for child in range(n):
        parents = [j for j in range(n) if adjacency[j, child]]
        q = int(np.prod([sizes[j] for j in parents])) if parents else 1
        for state in product(*map(range, sizes)):
            same = np.all([codes[:, j] == state[j] for j in parents], axis=0) if parents else np.ones(len(codes), bool)
            own = same & (codes[:, child] == state[child])
            total[state] *= (own.sum() + ess / (q * sizes[child])) / (same.sum() + ess / q)
    return total


def exact_joint(table, ess):
    """p(new row | rows), all graphs and completions summed: shape ``n_states``."""
    sizes = table.n_states.tolist()
    codes = np.repeat(table.codes, table.counts, axis=0).astype(np.int64)
    missing_cells = np.argwhere(codes < 0)
    graphs = [doxa.Dag.from_rows(rows, table.names).adjacency for rows in all_dags(len(sizes))]
    scored = []
    for cells in product(*(range(sizes[j]) for _, j in missing_cells)):
        full = codes.copy()
        full[tuple(missing_cells.T)] = cells
        made = Table.from_codes(table.names, table.states, full)
        scored.append((full, enumerate_posterior(FamilyScores(made, BDeu(ess))).log_score))
    peak = max(scores.max() for _, scores in scored)
    total = np.zeros(sizes)
    for full, scores in scored:
        for graph, score in zip(graphs, scores, strict=True):
            if score > peak - 18:
                total += np.exp(score - peak) * joint_given(full, sizes, graph, ess)
    return total / total.sum()


def classes_given(joint, row):
    """p(last | the observed of the others)."""
    cut = joint[tuple(slice(None) if k < 0 else k for k in row)]
    summed = cut.reshape(-1, joint.shape[-1]).sum(axis=0)
    return summed / summed.sum()


def cells_of(table, row):
    return [None if k < 0 else table.states[j][k] for j, k in enumerate(row)]


ROWS = [(0, 0), (1, 2), (-1, 1), (0, -1), (-1, -1), (1, 0)]


def test_probabilities_are_those_of_the_sum_over_all_graphs():
    table = skewed_table(3, 25, 5, 3)
    model = BeliefNetworkClassifier(3.0, networks=10_000, random_state=SEED).fit(*rows_of(table))
    assert model.converged_
    assert model.verdict_.startswith("Exact")
    joint = exact_joint(table, 3.0)
    found = model.predict_proba(np.array([cells_of(table, row) for row in ROWS], dtype=object))
    exact = np.array([classes_given(joint, row) for row in ROWS])
    errors = mcse_of(model, table, ROWS)
    assert errors.max() < 0.005
    assert (np.abs(found - exact) < z_limit(exact.size) * errors).all()
    joint = exact_joint(table, 30.0)
    other = np.array([classes_given(joint, row) for row in ROWS])
    assert (np.abs(found - other) > z_limit(exact.size) * errors).any()  # a wrong prior would show


def mcse_of(model, table, rows):
    """Monte Carlo errors of the same average, by the averaging room; columns as the classes are."""
    names = table.names[:-1]
    frame = pd.DataFrame([cells_of(table, row) for row in rows], columns=list(names), dtype=object)
    frame.columns = [f"x{j}" for j in range(len(names))]
    frame["class"] = None
    frame.loc[len(frame)] = [*(labels[0] for labels in table.states[:-1]), None]  # no column is all missing
    draws = draw_networks(model.posterior_, model.posterior_.table, model.networks)
    return predict_of(draws, frame, "class")["mcse"].to_numpy().reshape(len(frame), -1)[:-1]


def test_missing_cells_in_training_are_summed_out():
    whole = skewed_table(3, 14, 5, 2)
    codes = whole.codes[whole.row_index].astype(np.int64)
    codes[[2, 3, 7], 1] = -1
    codes[[5, 7], 0] = -1
    table = Table.from_codes(whole.names, whole.states, codes)
    model = BeliefNetworkClassifier(2.0, draws=800, networks=10_000, random_state=SEED).fit(*rows_of(table))
    assert model.converged_
    rows = [(0, 0), (1, 1), (-1, 1), (0, -1), (-1, -1)]
    found = model.predict_proba(np.array([cells_of(table, row) for row in rows], dtype=object))
    joint = exact_joint(table, 2.0)
    exact = np.array([classes_given(joint, row) for row in rows])
    errors = mcse_of(model, table, rows)
    assert errors.max() < 0.02
    assert (np.abs(found - exact) < z_limit(exact.size) * errors).all()
    dropped = Table.from_codes(whole.names, whole.states, codes[(codes >= 0).all(axis=1)])
    joint = exact_joint(dropped, 2.0)
    other = np.array([classes_given(joint, row) for row in rows])
    assert (np.abs(found - other) > z_limit(exact.size) * errors).any()  # complete rows alone would show


def wide(n_columns=7, missing=0.1):
    """A table of random networks' dependences, with missing cells in its features."""
    table = skewed_table(n_columns, 80, seed=3, n_states=3)
    codes = table.codes[table.row_index].astype(np.int64)
    codes[:, :-1][np.random.default_rng(SEED).random((80, n_columns - 1)) < missing] = -1
    return Table.from_codes(table.names, table.states, codes)


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("limit", [4096, 3])
def test_the_kernel_agrees_with_the_room_that_averages(missing, limit, monkeypatch):
    """Rows of any missing cells, states never seen, parts too large to list: `RowProbabilities` by another way."""
    monkeypatch.setattr(class_probabilities, "_LIMIT", limit)
    table = wide(missing=missing)
    posterior = doxa.learn(table, draws=12, warmup=0, thin=50, seed=2, exact=False)
    draws = draw_networks(posterior, table, None)
    rng = np.random.default_rng(SEED + 1)
    codes = rng.integers(0, 2, size=(25, 7))
    codes[rng.random(codes.shape) < rng.random((25, 1))] = -1
    codes[0] = 0
    codes[:, -1] = -1
    names = table.names
    frame = pd.DataFrame(
        [[None if k < 0 else labels[k] for k, labels in zip(row, table.states, strict=True)] for row in codes],
        columns=list(table.names),
        dtype=object,
    )
    frame.loc[1, names[2]] = "new"
    frame.loc[2, [names[2], names[4]]] = "new"
    codes[1, 2], codes[2, 2], codes[2, 4] = (int(table.n_states[j]) for j in (2, 2, 4))
    found = class_probabilities.class_probabilities(ClassProbabilities(draws), codes)
    known = predict_of(draws, frame.drop(columns=table.names[-1]), table.names[-1], unseen="prior")
    assert np.abs(found - known["probability"].to_numpy().reshape(found.shape)).max() < 1e-11


# Cells of all kinds.


def fruits(n=120):
    """A frame of every kind of column; the class depends on the first two."""
    rng = np.random.default_rng(SEED)
    y = rng.choice(["apple", "fig", "plum"], n)
    colour = np.where(rng.random(n) < 0.8, np.where(y == "apple", "green", "blue"), "red")
    size = np.where(y == "fig", 3.0, 6.0) + rng.standard_normal(n)
    frame = pd.DataFrame(
        {
            "colour": pd.Categorical(colour),
            "size": size,
            "count": rng.integers(0, 4, n),
            "ripe": rng.random(n) < 0.5,
            "shop": pd.array(rng.choice(["a", "b"], n), dtype="string"),
            "weight": pd.array(np.round(size * 10).astype(int), dtype="Int64"),
            "planet": "earth",
        }
    )
    frame.loc[::7, "size"] = np.nan
    frame.loc[::11, "colour"] = np.nan
    frame.loc[3, "shop"] = pd.NA
    frame.loc[4, "weight"] = pd.NA
    frame["ripe"] = frame["ripe"].astype(object)
    frame.loc[5, "ripe"] = None
    return frame, pd.Series(y, name="fruit")


def small(**options):
    return BeliefNetworkClassifier(**{"draws": 40, "chains": 2, "networks": 40, "random_state": 1, **options})


def test_a_frame_of_every_kind_of_column():
    X, y = fruits()
    model = small(bins=3).fit(X, y)
    assert model.posterior_.names == ("colour", "size", "count", "ripe", "shop", "weight", "fruit")
    assert model.class_name_ == "fruit"
    assert list(model.feature_names_in_) == list(X.columns)
    assert model.states_["colour"] == ("blue", "green", "red")
    assert model.states_["count"] == ("0", "1", "2", "3")
    assert model.states_["ripe"] == ("False", "True")
    assert [label[0] for label in model.states_["size"]] == ["<", "[", ">"]
    assert len(model.states_["weight"]) == 3  # more than 20 whole numbers
    assert "planet" not in model.states_  # never varies
    assert model.score(X, y) > 0.7
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    assert np.array_equal(model.predict_log_proba(X), np.log(model.predict_proba(X)))
    beyond = pd.DataFrame([[None, 1e6, 3, None, None, -5, "mars"]], columns=X.columns).astype(X.dtypes.to_dict())
    at_the_ends = beyond.assign(size=X["size"].max(), weight=X["weight"].min())
    assert np.array_equal(model.predict_proba(beyond), model.predict_proba(at_the_ends))
    tags = get_tags(model).input_tags
    assert tags.allow_nan
    assert tags.categorical
    assert tags.string


def test_numbers_are_cut_evenly_and_heavy_values_stand_alone():
    rng = np.random.default_rng(SEED)
    X = np.column_stack(
        [rng.standard_normal(200), np.where(rng.random(200) < 0.8, 0.0, rng.random(200)), rng.choice([0.5, 1.5], 200)]
    )
    model = small(bins=4).fit(X, rng.integers(0, 2, 200))
    table = model.posterior_.table
    sizes = [np.bincount(table.codes[table.row_index][:, j]) for j in range(3)]
    assert sizes[0].tolist() == [50] * 4
    assert sizes[1][0] == (X[:, 1] == 0).sum()
    assert sizes[1][1:].max() - sizes[1][1:].min() <= 2
    assert model.states_["x2"] == ("< 1.5", ">= 1.5")


def test_weights_are_counts_and_rows_may_come_in_any_order():
    X, y = fruits(60)
    weight = np.random.default_rng(SEED).integers(0, 3, 60)
    weighted = small().fit(X, y, sample_weight=weight)
    shuffled = np.random.default_rng(1).permutation(np.repeat(np.arange(60), weight))
    repeated = small().fit(X.iloc[shuffled], y.iloc[shuffled])
    assert np.array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    assert not np.array_equal(weighted.predict_proba(X), small().fit(X, y).predict_proba(X))


def test_the_same_random_state_gives_the_same_answers_and_copies_agree():
    X, y = fruits(60)
    one, two, other = (small(random_state=seed, n_jobs=jobs).fit(X, y) for seed, jobs in ((3, 1), (3, 2), (4, 1)))
    assert np.array_equal(one.predict_proba(X), two.predict_proba(X))
    assert not np.array_equal(one.predict_proba(X), other.predict_proba(X))
    again = pickle.loads(pickle.dumps(one))
    assert np.array_equal(again.predict_proba(X), one.predict_proba(X))
    assert again.verdict_ == one.verdict_
    assert repr(clone(one)) == repr(one)


def test_states_never_seen():
    X, y = fruits(60)
    X = X[["colour", "count"]]
    new = pd.DataFrame({"colour": ["violet", "green"], "count": [1, 17]})
    chances = small(draws=200).fit(X, y).predict_proba(new)
    assert np.allclose(chances.sum(axis=1), 1)
    strict = small(unseen="error", draws=200).fit(X, y)
    with pytest.raises(ArgumentError, match="feature 'colour' has 'violet' in row 0, which the training rows do not"):
        strict.predict(new)
    assert strict.predict(new.assign(colour="green", count=1)).shape == (2,)


def test_one_class_and_features_that_never_vary():
    X = np.column_stack([np.arange(6) / 7, np.ones(6)])
    one = small().fit(X, ["only"] * 6)
    assert one.predict_proba(X).tolist() == [[1.0]] * 6
    same = small(equivalent_sample_size=2.0).fit(np.ones((9, 2)), [0] * 6 + [1] * 3)
    assert same.predict_proba([[1.0, 5.0]])[0] == pytest.approx([7 / 11, 4 / 11])
    assert list(same.states_) == ["x0"]


def test_features_all_missing_are_left_out_with_a_word():
    X = np.array([[np.nan, 0.0], [np.nan, 1.0]] * 10)
    with pytest.warns(UserWarning, match="every cell is missing in x0, which will not be used"):
        model = small().fit(X, [0, 1] * 10)
    assert model.predict([[3.0, 1.0]]).tolist() == [1]
    empty_row = np.array([[np.nan], [0.0], [1.0], [0.0], [1.0]])
    assert small().fit(empty_row, [0, 0, 1, 0, 1]).predict([[np.nan], [1.0]]).shape == (2,)
    with pytest.raises(ArgumentError, match="every cell of X is missing"):
        small().fit(np.full((4, 2), np.nan), [0, 1, 0, 1])


def test_a_feature_with_the_name_of_the_class():
    X, y = fruits(40)
    X = X[["colour", "size"]].rename(columns={"colour": "fruit"})
    assert small().fit(X, y).posterior_.names == ("fruit", "size", "fruit'")
    assert small().fit(X.to_numpy(), y.to_list()).posterior_.names == ("x0", "x1", "class")
    odd = np.array([[1, "a"], ["1", "b"], [1, None]] * 5, dtype=object)
    assert small().fit(odd, [0, 1, 0] * 5).states_["x0"] == ("1", "1'")


def test_chains_in_different_modes_are_said(monkeypatch):
    X, y = fruits()
    monkeypatch.setattr(belief_networks, "_APART", 0.5)  # as if they were: R-hat is never so low
    with pytest.warns(ConvergenceWarning, match="Not converged: .* Run longer"):
        model = small(draws=4).fit(X, y)
    assert not model.converged_


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bins": 1}, "bins is 1"),
        ({"networks": 0}, "networks is 0"),
        ({"draws": 2}, "draws is 2"),
        ({"chains": 0}, "chains is 0"),
        ({"unseen": "guess"}, "unseen is 'guess'; it must be 'prior' or 'error'"),
        ({"equivalent_sample_size": 0.0}, "equivalent_sample_size is 0.0"),
        ({"max_parents": -1}, "max_parents is -1"),
        ({"prior": "flat"}, "prior is 'flat'"),
    ],
)
def test_bad_options(options, said):
    X, y = fruits(20)
    with pytest.raises(ArgumentError, match=said):
        small(**options).fit(X, y)


def test_bad_rows():
    X, y = fruits(30)
    numbers = X[["size"]].to_numpy()
    with pytest.raises(ArgumentError, match=r"sample_weight\[1\] is 0.5; weights say how many times a row was seen"):
        small().fit(X, y, sample_weight=[1, 0.5] * 15)
    with pytest.raises(ValueError, match=r"sample_weight is 0 everywhere|at least one non-zero"):
        small().fit(X, y, sample_weight=[0] * 30)
    with pytest.raises(ArgumentError, match="Input y contains NaN or None"):
        small().fit(numbers, [None, "a", "b"] * 10)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        small().fit(numbers, np.linspace(0, 1, 30))
    with pytest.raises(ValueError, match="infinity"):
        small().fit(np.where(np.isnan(numbers), np.inf, numbers), y)
    with pytest.raises(ArgumentError, match="feature 'size' contains infinity"):
        small().fit(X.assign(size=np.where(X["size"].isna(), np.inf, X["size"])), y)
    with pytest.raises(ArgumentError, match="has 1200 different values, and a category at most 1000"):
        small().fit(np.array([[f"name {i}"] for i in range(1200)], dtype=object), [0, 1] * 600)
    with pytest.raises(ArgumentTypeError, match=r"has the cell \{'a': 1\}, which cannot be a state"):
        small().fit(np.array([["a"], [{"a": 1}]], dtype=object), [0, 1])
    with pytest.raises(NotFittedError):
        small().predict(X)
    model = small().fit(X, y)
    with pytest.raises(ArgumentTypeError, match="feature 'size' was fitted to numbers and has 'big'"):
        model.predict(X.astype({"size": object}).assign(size="big"))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[X.columns[::-1]])
