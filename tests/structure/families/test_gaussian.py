"""Families of numbers: BGe, Gaussian BIC and conditional Gaussian, held against routes of their own."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import doxa
from doxa.data import Table
from doxa.data.scaled import scaled
from doxa.errors import ArgumentError
from doxa.models.bits import unpack_rows
from doxa.structure import BDeu, BGe, ConditionalGaussian, GaussianBIC
from doxa.structure.exact.enumeration import all_dags, enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import make_limits
from support.checks import worst_z, z_limit


def numbers_of(values, names="abcdefghij"):
    values = np.asarray(values, dtype=float)
    n_rows, n = values.shape
    return Table.from_codes(list(names[:n]), [()] * n, np.zeros((n_rows, n), int), numbers=values)


def correlated(n_rows=40, seed=1):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, 4))
    values[:, 2] += 0.4 * values[:, 0] - 0.3 * values[:, 1]
    values[:, 3] += 0.5 * values[:, 2]
    return values


def mixed(n_rows=60, seed=2):
    """Two categories and two numbers, weakly dependent."""
    rng = np.random.default_rng(seed)
    g, h = rng.integers(0, 2, n_rows), rng.integers(0, 3, n_rows)
    h = np.where(rng.random(n_rows) < 0.3, g, h)
    x = rng.normal(size=n_rows) + 0.5 * g
    y = rng.normal(size=n_rows) + 0.35 * x * (g == 1)
    codes = np.column_stack([g, h, 0 * g, 0 * g])
    numbers = np.column_stack([g * np.nan, g * np.nan, x, y])
    return Table.from_codes(["g", "h", "x", "y"], [("n", "y"), ("0", "1", "2"), (), ()], codes, numbers=numbers)


def one_row_after_another(y, x, alpha_mu=1.0, freedom=2.0, growing=True):
    """Log density of y given x by Student's t of each row given those before it."""
    n_rows, p = x.shape
    scale = alpha_mu * (freedom - 1) / (alpha_mu + 1)
    precision, weighted = np.diag([alpha_mu] + [scale] * p), np.zeros(p + 1)
    shape, rate = (freedom + (p if growing else 0) + 1) / 2, scale / 2
    total = 0.0
    for value, row in zip(y, np.column_stack([np.ones(n_rows), x]), strict=True):
        mean = np.linalg.solve(precision, weighted)
        spread = 1.0 + row @ np.linalg.solve(precision, row)
        total += student.logpdf(value, 2 * shape, row @ mean, math.sqrt(rate / shape * spread))
        rate += 0.5 * (value - row @ mean) ** 2 / spread
        precision, weighted, shape = precision + np.outer(row, row), weighted + row * value, shape + 0.5
    return total


FAMILIES = [(child, parents) for child in range(4) for k in range(4) for parents in combinations(range(4), k)
            if child not in parents]  # fmt: skip


@pytest.mark.parametrize("kind", [BGe(), BGe(0.3), BGe(2.0, 5.5), ConditionalGaussian()], ids=repr)
def test_scores_are_densities_of_one_row_after_another(kind):
    table = numbers_of(correlated())
    scores = FamilyScores(table, kind)
    z = scaled(table).values.T
    freedom = kind.alpha_mu + 1 if kind.alpha_w is None else kind.alpha_w - 4
    for child, parents in FAMILIES:
        right = one_row_after_another(z[:, child], z[:, parents], kind.alpha_mu, freedom)
        assert scores.log_score("abcd"[child], tuple("abcd"[p] for p in parents)) == pytest.approx(right, abs=1e-9)


@pytest.mark.parametrize("parents", [("g",), ("h",), ("g", "x"), ("h", "g"), ("g", "h", "x")])
def test_each_configuration_of_categories_has_a_regression_of_its_own(parents):
    table = mixed()
    z = scaled(table).values
    continuous = [3 - 1] if "x" in parents else []
    codes = table.codes[:, [table.names.index(p) for p in parents if p != "x"]]
    _, group = np.unique(codes, axis=0, return_inverse=True)
    rows = [np.flatnonzero(group.ravel() == k) for k in range(group.max() + 1)]
    right = sum(one_row_after_another(z[3, some], z[continuous][:, some].T) for some in rows)
    assert FamilyScores(table, ConditionalGaussian()).log_score("y", parents) == pytest.approx(right, abs=1e-9)


def test_categories_have_tables_and_no_numbers_among_their_parents():
    table = mixed()
    scores = FamilyScores(table, ConditionalGaussian(3.0))
    tables = FamilyScores(table.select(["g", "h"]), BDeu(3.0))
    for child, parents in (("g", ()), ("g", ("h",)), ("h", ("g",))):
        assert scores.log_score(child, parents) == pytest.approx(tables.log_score(child, parents), abs=1e-10)
    assert scores.log_score("g", ("x",)) == -math.inf


def classes(rows, n):
    """Graphs by what they say: adjacencies, and pairs of unmarried parents."""
    found = {}
    for k, graph in enumerate(unpack_rows(rows, n)):
        together = graph | graph.T
        colliders = frozenset(
            (i, c, j)
            for c in range(n)
            for i, j in combinations(np.flatnonzero(graph[:, c]).tolist(), 2)
            if not together[i, j]
        )
        found.setdefault((together.tobytes(), colliders), []).append(k)
    return list(found.values())


@pytest.mark.parametrize("kind", [BGe(), BGe(0.5, 7.0), GaussianBIC()], ids=repr)
def test_graphs_that_say_the_same_score_the_same(kind):
    table = numbers_of(correlated())
    posterior = enumerate_posterior(FamilyScores(table, kind))
    groups = classes(posterior.rows, 4)
    assert len(groups) == 185
    spreads = [np.ptp(posterior.log_score[group]) for group in groups]
    assert max(spreads) < 1e-9


def test_freedom_that_does_not_grow_with_the_parents_fails_the_same_check():
    z = scaled(numbers_of(correlated())).values.T
    score = {f: one_row_after_another(z[:, f[0]], z[:, f[1]], growing=False) for f in FAMILIES}
    rows = all_dags(4)
    total = [sum(score[c, tuple(np.flatnonzero(graph[:, c]))] for c in range(4)) for graph in unpack_rows(rows, 4)]
    assert max(np.ptp(np.array(total)[group]) for group in classes(rows, 4)) > 1e-3


def test_graphs_of_both_kinds_that_say_the_same_score_the_same():
    table = mixed()
    scores = FamilyScores(table, ConditionalGaussian())
    one = scores.log_score("x", ("g", "h")) + scores.log_score("y", ("x", "g", "h"))
    other = scores.log_score("y", ("g", "h")) + scores.log_score("x", ("y", "g", "h"))
    assert one == pytest.approx(other, abs=1e-9)


def test_bic_is_the_greatest_density_less_a_price():
    table = numbers_of(correlated())
    z, n_rows = scaled(table).values.T, 40
    scores = FamilyScores(table, GaussianBIC())
    for child, parents in FAMILIES:
        design = np.column_stack([np.ones(n_rows), z[:, parents]])
        left = z[:, child] - design @ np.linalg.lstsq(design, z[:, child], rcond=None)[0]
        density = -n_rows / 2 * (math.log(2 * math.pi * np.mean(left**2)) + 1)
        right = density - (len(parents) + 2) / 2 * math.log(n_rows)
        assert scores.log_score("abcd"[child], tuple("abcd"[p] for p in parents)) == pytest.approx(right, abs=1e-9)


def test_collapsed_rows_count_as_often_as_they_occur():
    values = np.repeat(correlated(12), [1, 2, 3] * 4, axis=0)
    whole = numbers_of(values)
    assert whole.n_distinct == 12
    z = scaled(whole).values[:, whole.row_index].T
    right = one_row_after_another(z[:, 3], z[:, [0, 2]])
    assert FamilyScores(whole, BGe()).log_score("d", ("a", "c")) == pytest.approx(right, abs=1e-9)


@pytest.mark.parametrize("unit", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_units_do_not_matter(unit):
    values = correlated()
    right = FamilyScores(numbers_of(values), BGe()).log_score("d", ("a", "c"))
    shifted = numbers_of(values * unit)
    assert FamilyScores(shifted, BGe()).log_score("d", ("a", "c")) == pytest.approx(right, abs=1e-9)


def test_copies_constants_and_few_rows_have_scores():
    values = correlated(6)
    values = np.column_stack([values, values[:, 0], values[:, 0] + values[:, 1], np.full(6, 3.0)])
    table = numbers_of(values)
    scores = FamilyScores(table, BGe())
    z = scaled(table).values.T
    everything = tuple("bcdefg")
    assert scores.log_score("a", everything) == pytest.approx(one_row_after_another(z[:, 0], z[:, 1:]), abs=1e-7)
    assert scores.log_score("a", ("e",)) > scores.log_score("a", ("f",)) > scores.log_score("a")
    assert math.isfinite(scores.log_score("g", ("a",)))


def test_bic_refuses_what_has_no_likelihood():
    values = correlated(6)
    table = numbers_of(np.column_stack([values, values[:, 0]]))
    scores = FamilyScores(table, GaussianBIC())
    with pytest.raises(ArgumentError, match=r"^the Gaussian BIC of families of column 4 .* is infinite: numbers among"):
        scores.log_score("e", ("a",))
    assert math.isfinite(scores.log_score("e", ("b",)))  # and goes on
    assert FamilyScores(numbers_of(correlated(5)), GaussianBIC()).log_score("a", tuple("bcd")) > -math.inf
    assert FamilyScores(numbers_of(correlated(4)), GaussianBIC()).log_score("a", tuple("bcd")) == -math.inf


@pytest.mark.parametrize("table", [numbers_of(correlated(30)), mixed(40)], ids=["numbers", "both"])
@pytest.mark.parametrize(
    "sampler", ["auto", "single_edge", "edge_gibbs", "emc3", "markov_blanket", "parent_set_gibbs", "edge_reversal"]
)
def test_samplers_agree_with_the_sum_over_all_graphs(table, sampler):
    posterior = doxa.learn(table, sampler=sampler, prior="uniform", draws=4000, warmup=500, thin=20, seed=3, workers=1)
    exact = exact_edges(table)
    found = posterior.edge_diagnostics
    free = (exact > 1e-3) & (exact < 1 - 1e-3)
    assert free.sum() >= 8
    assert worst_z(found.probability[free], exact[free], found.mcse[free]) < z_limit(free.sum())
    assert (found.probability[exact == 0.0] == 0.0).all()


def exact_edges(table, kind=None):
    limits = make_limits(table.names)
    scores = FamilyScores(table, kind or (BGe() if table.is_number.all() else ConditionalGaussian()))
    return enumerate_posterior(scores, limits).edge_probabilities


def test_the_sum_of_another_score_fails_the_same_check():
    table = mixed(40)
    posterior = doxa.learn(table, prior="uniform", draws=4000, warmup=500, thin=20, seed=3, workers=1)
    wrong, found = exact_edges(table, ConditionalGaussian(alpha_mu=0.2)), posterior.edge_diagnostics
    free = (wrong > 1e-3) & (found.mcse > 0)
    assert worst_z(found.probability[free], wrong[free], found.mcse[free]) > z_limit(free.sum())


@pytest.mark.parametrize("table", [numbers_of(correlated(30)), mixed(40)], ids=["numbers", "both"])
def test_exact_answers_are_the_sum_over_listed_graphs(table):
    posterior = doxa.learn(table, prior="uniform", seed=1)
    assert posterior.verdict.startswith("Exact")
    assert np.allclose(posterior.edge_diagnostics.probability, exact_edges(table), atol=1e-12)


def test_the_table_decides_the_family():
    assert doxa.learn(numbers_of(correlated()), seed=1).options.score == BGe()
    posterior = doxa.learn(mixed(), equivalent_sample_size=2.0, seed=1)
    assert posterior.options.score == ConditionalGaussian(2.0)
    assert posterior.options.numbers == ("x", "y")
    forbidden = {(i, j) for i, j in posterior.options.forbidden}
    assert forbidden == {(i, j) for i in "xy" for j in "gh"}
    assert doxa.learn(mixed().select(["g", "h"]), seed=1).options.score == BDeu()
    assert doxa.learn(numbers_of(correlated()), score="gaussian_bic", seed=1).options.score == GaussianBIC()
    assert doxa.learn(numbers_of(correlated()), family="gaussian", score="bic", seed=1).options.score == GaussianBIC()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"score": "bge"},
            "the bge score takes numbers, and 'g', 'h' hold categories; take family=",
        ),
        ({"score": "bdeu"}, "the bdeu score takes categories, and 'x', 'y' hold numbers; cut numbers into bins"),
        ({"family": "logistic"}, "the logistic score takes categories, and 'x', 'y' hold numbers"),
        ({"required": [("x", "g")]}, "the edge 'x' -> 'g' is required, and the conditional_gaussian score has no such"),
        (
            {"score": ConditionalGaussian(alpha_w=3.0)},
            "alpha_w is 3.0, and the table has 2 columns of numbers; it must",
        ),
        ({"family": "gaussian", "equivalent_sample_size": 2.0}, "equivalent_sample_size is 2.0, and gaussian families"),
        ({"family": "gauss"}, "family is 'gauss'; it must be one of 'categorical', 'logistic', 'auto', 'gaussian'"),
        ({"family": "conditional_gaussian", "score": "bge"}, "score is 'bge', and family='conditional_gaussian' has a"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(ArgumentError) as raised:
        doxa.learn(mixed(), seed=1, **options)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BGe(alpha_mu=0.0), "alpha_mu is 0.0; it must be above 0 and finite"),
        (lambda: BGe(alpha_w="5"), "alpha_w is '5'; it must be a number above 0"),
        (
            lambda: ConditionalGaussian(equivalent_sample_size=math.inf),
            "equivalent_sample_size is inf; it must be",
        ),
    ],
)
def test_settings_are_checked(make, message):
    with pytest.raises(ArgumentError) as raised:
        make()
    assert str(raised.value).startswith(message)


def test_a_run_over_numbers_is_stored_gone_on_with_and_loaded(tmp_path):
    frame = pd.DataFrame(correlated(), columns=list("abcd"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    whole = doxa.learn(tmp_path / "t.csv", draws=60, warmup=20, seed=5, store=tmp_path / "whole.doxa")
    doxa.learn(tmp_path / "t.csv", draws=30, warmup=20, seed=5, store=tmp_path / "half.doxa")
    again = doxa.resume(tmp_path / "half.doxa", draws=60)
    assert np.array_equal(again.trace["rows"], whole.trace["rows"])
    loaded = doxa.load(tmp_path / "whole.doxa")
    assert loaded.options == whole.options
    assert loaded.options.numbers == tuple("abcd")
