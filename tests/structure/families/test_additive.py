"""Additive families, of numbers and of categories, held against routes of their own."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, multivariate_t, norm

import doxa
from doxa.data import Table
from doxa.data.scaled import scaled
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.bits import unpack_rows
from doxa.structure import Additive, AdditiveMixture, ConditionalGaussian, Logistic
from doxa.structure.exact.enumeration import all_dags
from doxa.structure.families.cache import FamilyScores
from support.checks import worst_z, z_limit

NAN = np.nan
TOLERANCE = 0.02  # nats: twice the standard error to which scores of categories are refined


def mixed(n_rows=60, seed=2):
    """Two categories and two numbers, in which categories depend on numbers, too."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    g = (rng.random(n_rows) < 1 / (1 + np.exp(-x))).astype(int)
    h = np.where(rng.random(n_rows) < 0.4, g, rng.integers(0, 3, n_rows))
    y = rng.normal(size=n_rows) + 0.5 * x - 0.4 * g
    codes = np.column_stack([g, h, 0 * g, 0 * g])
    numbers = np.column_stack([g * NAN, g * NAN, x, y])
    return Table.from_codes(["g", "h", "x", "y"], [("n", "y"), ("0", "1", "2"), (), ()], codes, numbers=numbers)


SETS = [parents for k in range(4) for parents in combinations("ghxy", k)]


def effects(table, parents, of_row=None):
    """Inner products of rows under the prior of effects: of numbers, and of categories whose states differ alike."""
    z, codes = scaled(table).values, table.codes[table.row_index]
    whole = np.zeros((len(codes), len(codes)))
    for j in (table.names.index(parent) for parent in parents):
        if table.is_number[j]:
            column = z[j][table.row_index]
            whole += np.outer(column, column)
        else:
            same = codes[:, j][:, None] == codes[:, j]
            whole += 2.0 * (same - 1.0 / table.n_states[j])
    return whole


@pytest.mark.parametrize("kind", [Additive(), Additive(alpha_mu=0.3), Additive(alpha_mu=2.0, alpha_w=4.5)], ids=repr)
def test_a_number_has_the_density_of_students_t(kind):
    """Parameters integrated out, a number's rows are one draw of a multivariate t."""
    table = mixed()
    scores = FamilyScores(table, kind)
    freedom = kind.alpha_mu + 1 if kind.alpha_w is None else kind.alpha_w - 2
    t = kind.alpha_mu * (freedom - 1) / (kind.alpha_mu + 1)
    y = scaled(table).values[3][table.row_index]
    for parents in (one for one in SETS if "y" not in one):
        df = freedom + ("x" in parents) + 1
        spread = np.eye(len(y)) + 1 / kind.alpha_mu + effects(table, parents) / t
        right = multivariate_t(np.zeros(len(y)), t / df * spread, df=df).logpdf(y)
        assert scores.log_score("y", parents) == pytest.approx(right, abs=1e-9)


def test_another_prior_of_contrasts_fails_the_same_check():
    """The twin takes indicators of states for contrasts."""
    table = mixed()
    y, h = scaled(table).values[3][table.row_index], table.codes[table.row_index][:, 1]
    spread = np.eye(len(y)) + 1.0 + (h[:, None] == h) / 0.5
    twin = multivariate_t(np.zeros(len(y)), 0.5 / 3 * spread, df=3).logpdf(y)
    assert abs(FamilyScores(table, Additive()).log_score("y", ("h",)) - twin) > 0.1


def test_one_coefficient_and_two_by_quadrature():
    """A node of two states and a number; a node of three states alone."""
    table = mixed(25)
    scores, codes = FamilyScores(table, Additive(1.5)), table.codes[table.row_index]
    x = scaled(table).values[2][table.row_index]
    signs = 2.0 * codes[:, 0] - 1

    axis = np.linspace(-9, 9, 181)  # six standard deviations of the prior, in steps far below one of the posterior
    first, second = np.meshgrid(axis, axis, indexing="ij")
    logs = norm.logpdf(first, 0, 1.5) + norm.logpdf(second, 0, 1.5)
    logs -= np.logaddexp(0, -signs * (first[..., None] + second[..., None] * x)).sum(axis=-1)
    assert scores.log_score("g", ("x",)) == pytest.approx(logsumexp(logs) + 2 * math.log(0.1), abs=TOLERANCE)
    counts = np.bincount(codes[:, 1], minlength=3)
    prior = multivariate_normal(np.zeros(2), 1.5**2 / 2 * (np.eye(2) + 1))
    logs = prior.logpdf(np.stack([first, second], axis=-1)) + counts[1] * first + counts[2] * second
    logs -= counts.sum() * np.logaddexp(np.logaddexp(0, first), second)
    assert scores.log_score("h") == pytest.approx(logsumexp(logs) + 2 * math.log(0.1), abs=TOLERANCE)


def mean_likelihood(table, child, parents, scale, rng, n=80_000):
    """Log evidence by draws from the prior of utilities, one for each state, and its standard error."""
    codes, z = table.codes[table.row_index], scaled(table).values[:, table.row_index]
    k = table.names.index(child)
    r, n_rows = int(table.n_states[k]), len(codes)
    sd = scale / math.sqrt(2)
    utility = np.repeat(rng.normal(0, sd, (n, r, 1)), n_rows, axis=2)
    for j in (table.names.index(parent) for parent in parents):
        if table.is_number[j]:
            utility += rng.normal(0, sd, (n, r, 1)) * z[j]
        else:
            of_state = rng.normal(0, sd * math.sqrt(2), (n, r, int(table.n_states[j])))
            utility += (of_state - of_state.mean(axis=2, keepdims=True))[:, :, codes[:, j]]
    own = utility[:, codes[:, k], np.arange(n_rows)] - logsumexp(utility, axis=1)
    logs = own.sum(axis=1)
    weights = np.exp(logs - logs.max())
    return logs.max() + math.log(weights.mean()), weights.std() / weights.mean() / math.sqrt(n)


@pytest.mark.parametrize("child", ["g", "h"])
def test_categories_have_the_mean_likelihood_of_utilities(child):
    """States differ alike a priori: so do the utilities, of which the prior of the log odds follows."""
    table, rng = mixed(9), np.random.default_rng(3)
    scores = FamilyScores(table, Additive())
    for parents in (one for one in SETS if child not in one and len(one) < 3):
        right, error = mean_likelihood(table, child, parents, 2.0, rng)
        assert abs(scores.log_score(child, parents) - right) < 5 * error + TOLERANCE


def test_another_scale_fails_the_same_check():
    table, rng = mixed(9), np.random.default_rng(3)
    scores = FamilyScores(table, Additive(1.0))
    right, error = mean_likelihood(table, "h", ("g", "x"), 2.0, rng)
    assert abs(scores.log_score("h", ("g", "x")) - right) > 5 * error + TOLERANCE


def test_scores_of_categories_are_probabilities():
    """Over everything that the node might have been, they sum to 1."""
    parents = np.array([[0, 0.3], [1, -1.2], [2, 0.4], [2, 1.5]])
    cases = np.ones(4, dtype=np.int64)
    logs = [
        Additive().log_marginal_likelihood(np.column_stack([node, parents]), cases, [3, 3, 0])
        for node in product(range(3), repeat=4)
    ]
    assert logsumexp(logs) == pytest.approx(0.0, abs=TOLERANCE)


def test_names_and_order_of_states_mean_nothing():
    table = mixed()
    other = Table.from_codes(
        table.names, table.states, (np.array([1, 2, 1, 1]) - table.codes) % np.array([2, 3, 1, 1]), table.counts,
        numbers=table.numbers,
    )  # fmt: skip
    for child in "ghy":
        for parents in (one for one in SETS if child not in one):
            one, two = (FamilyScores(each, Additive()).log_score(child, parents) for each in (table, other))
            assert one == pytest.approx(two, abs=1e-9 if child == "y" else TOLERANCE)


def test_two_states_are_a_logistic_family():
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 2, (50, 4))
    codes[:, 3] = codes[:, 0] ^ (rng.random(50) < 0.3)
    table = Table.from_codes(list("abcd"), [("n", "y")] * 4, codes)
    one, two = FamilyScores(table, Additive(1.3)), FamilyScores(table, Logistic(1.3))
    for parents in ((), ("a",), ("a", "b", "c")):
        assert one.log_score("d", parents) == two.log_score("d", parents)


def test_separable_data_are_scored_by_the_prior():
    """No mode without the prior: every x above 0 is a yes."""
    x = np.linspace(-3, 3, 400)
    z = (x - x.mean()) / x.std()
    codes = np.column_stack([x > 0, x > 0]).astype(float)
    codes[:, 1] = z
    found = Additive().log_marginal_likelihood(codes, np.ones(400, dtype=np.int64), [2, 0])
    signs = np.where(x > 0, 1.0, -1.0)
    bias, slope = np.meshgrid(np.linspace(-8, 8, 161), np.linspace(0, 16, 161), indexing="ij")
    logs = norm.logpdf(bias, 0, 2) + norm.logpdf(slope, 0, 2)
    for one, sign in zip(z, signs, strict=True):
        logs -= np.logaddexp(0, -sign * (bias + slope * one))
    assert found == pytest.approx(logsumexp(logs) + 2 * math.log(0.1), abs=TOLERANCE)


def test_collinear_parents_and_more_parents_than_rows_are_right_by_the_prior():
    table = mixed(6)
    twice = np.column_stack([table.numbers, table.numbers[:, 2:]])
    codes = np.column_stack([table.codes, table.codes[:, 2:]])
    many = Table.from_codes(
        ["g", "h", "x", "y", "x2", "y2"], [*table.states, (), ()], codes, table.counts, numbers=twice
    )
    scores = FamilyScores(many, Additive())
    y = scaled(many).values[3][many.row_index]
    parents = ("g", "h", "x", "x2", "y2")
    df = 2 + 3 + 1
    right = multivariate_t(np.zeros(6), 0.5 / df * (np.eye(6) + 1 + effects(many, parents) / 0.5), df=df).logpdf(y)
    assert scores.log_score("y", parents) == pytest.approx(right, abs=1e-8)
    assert np.isfinite(scores.log_score("h", ("g", "x", "x2", "y", "y2")))


def test_the_mixture_adds_both_kinds_where_both_are_possible():
    table = mixed()
    both = FamilyScores(table, AdditiveMixture(2.0, additive_share=0.3))
    conditional, additive = FamilyScores(table, ConditionalGaussian(2.0)), FamilyScores(table, Additive())
    for child in "ghxy":
        for parents in (one for one in SETS if child not in one):
            s_c, s_a = (each.log_score(child, parents) for each in (conditional, additive))
            right = np.logaddexp(math.log(0.7) + s_c, math.log(0.3) + s_a)
            if child in "gh" and {"x", "y"} & set(parents):
                right = s_a
            elif not {"g", "h"} & set(parents) if child in "xy" else len(parents) < 2:
                right = s_c
            assert both.log_score(child, parents) == pytest.approx(right, abs=1e-9)


def by_hand(table, kind):
    """Edge probabilities by the sum over all graphs."""
    n = len(table.names)
    scores, graphs = FamilyScores(table, kind), unpack_rows(all_dags(n), n)
    local = {
        (child, parents): scores.log_score(child, parents)
        for child in table.names
        for k in range(n)
        for parents in combinations([name for name in table.names if name != child], k)
    }
    logs = [
        sum(local[child, tuple(table.names[i] for i in range(n) if graph[i, j])] for j, child in enumerate(table.names))
        for graph in graphs
    ]
    return np.tensordot(np.exp(np.array(logs) - logsumexp(logs)), graphs.astype(float), 1)


def worst_of(posterior, right):
    found = posterior.edge_diagnostics
    free = ~np.eye(len(right), dtype=bool) & ~((right == 0) & (found.probability == 0))  # what no graph may have
    return worst_z(found.probability[free], right[free], found.mcse[free])


@pytest.mark.parametrize("family", ["additive", "auto"])
def test_edges_are_the_sum_over_all_543_graphs(family):
    table = mixed()
    kind = Additive() if family == "additive" else AdditiveMixture()
    right = by_hand(table, kind)
    exact = doxa.learn(table, family=family, prior="uniform")
    assert exact.options.score == kind
    assert exact.verdict.startswith("Exact")
    assert exact.edge_diagnostics.probability == pytest.approx(right, abs=1e-9)
    assert exact.edge("x", "g").value > 0  # which no conditional Gaussian family has
    for sampler in ("auto", "single_edge"):
        sampled = doxa.learn(table, family=family, prior="uniform", exact=False, sampler=sampler, draws=1000, seed=1)
        assert worst_of(sampled, right) < z_limit(12)


BY_COLUMN = {"g": "additive", "h": "categorical", "x": "additive", "y": "auto"}


def test_kinds_by_column_have_the_scores_of_their_kinds():
    table = mixed()
    own = FamilyScores(table, AdditiveMixture(2.0, additive_share=(1, 0, 1, 0.5)))
    of_kind = {
        "additive": FamilyScores(table, Additive()),
        "categorical": FamilyScores(table, ConditionalGaussian(2.0)),
        "auto": FamilyScores(table, AdditiveMixture(2.0)),
    }
    for child, kind in BY_COLUMN.items():
        for parents in (one for one in SETS if child not in one and not (child == "h" and {"x", "y"} & set(one))):
            assert own.log_score(child, parents) == of_kind[kind].log_score(child, parents)


def test_edges_of_kinds_by_column_are_the_sum_over_all_graphs():
    table = mixed()
    exact = doxa.learn(table, family=BY_COLUMN, prior="uniform")
    kind = AdditiveMixture(additive_share=(1, 0, 1, 0.5))
    assert exact.options.score == kind
    assert exact.edge_diagnostics.probability == pytest.approx(by_hand(table, kind), abs=1e-9)
    assert exact.edge("x", "g").value > 0
    assert exact.edge("x", "h").value == 0  # a table has no parents that are numbers
    sampled = doxa.learn(table, family=BY_COLUMN, prior="uniform", exact=False, draws=1000, seed=1)
    assert worst_of(sampled, by_hand(table, kind)) < z_limit(11)
    other = by_hand(table, AdditiveMixture(additive_share=(1, 0, 0, 0)))
    assert worst_of(sampled, other) > z_limit(11)  # kinds of other numbers are told apart


def test_kinds_by_column_are_kept_and_asked_about(tmp_path):
    learned = doxa.learn(mixed(), family=BY_COLUMN, store=tmp_path / "r.doxa")
    again = doxa.load(tmp_path / "r.doxa")
    assert again.options == learned.options
    assert "by column 1, 0, 1, 0.5" in learned.options.score.text
    found = learned.query("g", given={"x": 1.0})
    assert sum(part.value for part in found.values()) == pytest.approx(1.0)
    codes = mixed().codes[mixed().row_index][:, :2]
    categories = doxa.Table.from_codes(["g", "h"], mixed().states[:2], codes)
    tables = doxa.learn(categories, family={"g": "categorical", "h": "categorical"})
    assert tables.edge("g", "h").value == pytest.approx(doxa.learn(categories).edge("g", "h").value, abs=1e-12)
    assert tables.query("g", given={"h": categories.states[1][0]})


def test_a_hidden_column_beside_numbers_may_be_asked_about():
    learned = doxa.learn(mixed(), family={"g": "additive"}, hidden={"type": 2}, draws=20, warmup=10, progress=False)
    assert sum(part.value for part in learned.query("type", given={"g": "n"}).values()) == pytest.approx(1.0)
    assert np.isfinite(learned.query("x", given={"type": "1"}).mean.value)
    assert set(learned.impute()["column"]) == {"type"}
    assert learned.completed_tables(2)[0]["type"].notna().all()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"x": "categorical"}, r"family\['x'\] is 'categorical', a kind for categories, and the column holds numbers"),
        ({"g": "gaussian"}, r"family\['g'\] is 'gaussian', a kind for numbers, and the column holds categories"),
        ({"g": "other"}, r"family\['g'\] is 'other'; it must be one of"),
        ({"z": "additive"}, r"family names 'z', which is no column of the table; its columns are 'g', 'h', 'x', 'y'"),
    ],
)
def test_kinds_that_a_column_cannot_have_are_refused(asked, said):
    with pytest.raises(ArgumentError, match=said):
        doxa.learn(mixed(), family=asked)
    with pytest.raises(ArgumentError, match="family names kinds by column, with scores of their own"):
        doxa.learn(mixed(), family=BY_COLUMN, score="bge")
    with pytest.raises(ArgumentError, match="additive_share has 3 numbers, and there are 4 columns"):
        doxa.learn(mixed(), score=AdditiveMixture(additive_share=(0, 1, 0)))


def test_another_prior_fails_the_sampled_check():
    table = mixed()
    right = by_hand(table, Additive(0.3))
    sampled = doxa.learn(table, family="additive", prior="uniform", exact=False, draws=1000, seed=1)
    assert worst_of(sampled, right) > z_limit(12)


def stream(purpose, number):
    return np.random.default_rng((9, purpose, number))


def test_drawn_log_odds_are_those_of_the_posterior():
    """Of a node of two states and a number, against a grid; of another scale they are not."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=25)
    own = (rng.random(25) < 1 / (1 + np.exp(-1.5 * x))).astype(float)
    codes, cases = np.column_stack([own, x]), np.ones(25, dtype=np.int64)
    a, b = np.meshgrid(np.linspace(-5, 5, 401), np.linspace(-4, 8, 401), indexing="ij")
    logs = norm.logpdf(a, 0, 2) + norm.logpdf(b, 0, 2)
    for value, sign in zip(x, 2 * own - 1, strict=True):
        logs -= np.logaddexp(0, -sign * (a + b * value))
    share = np.exp(logs - logsumexp(logs))
    z = {}
    for scale in (2.0, 1.0):
        drawn = Additive(scale).parameters(codes, cases, [2, 0], stream).log_odds(20_000)
        z[scale] = [
            abs(draws.mean() - right) / (draws.std() / math.sqrt(len(draws)))
            for draws, right in (
                (drawn.intercept[:, 0], (share * a).sum()),
                (drawn.coefficients[:, 0, 0], (share * b).sum()),
                (drawn.coefficients[:, 0, 0] ** 2, (share * b**2).sum()),
            )
        ]
    assert max(z[2.0]) < z_limit(3)
    assert max(z[1.0]) > z_limit(3)


def test_drawn_log_odds_have_the_coding_of_categories():
    """Three states below a category of three and a number: means of probabilities against draws from the prior."""
    table, rng = mixed(12, seed=6), np.random.default_rng(7)
    codes, z = table.codes[table.row_index], scaled(table).values[:, table.row_index]
    n, sd = 400_000, 2.0 / math.sqrt(2)
    base, slope = rng.normal(0, sd, (n, 3)), rng.normal(0, sd, (n, 3))
    of_state = rng.normal(0, sd * math.sqrt(2), (n, 3, 2))
    of_state -= of_state.mean(axis=2, keepdims=True)
    logs = np.zeros(n)
    for row in range(len(codes)):
        utility = base + slope * z[2, row] + of_state[:, :, codes[row, 0]]
        logs += utility[:, codes[row, 1]] - logsumexp(utility, axis=1)
    weight = np.exp(logs - logs.max())
    utility = base + slope * 0.5 + of_state[:, :, 1]
    p = np.exp(utility - logsumexp(utility, axis=1, keepdims=True))
    right = weight @ p / weight.sum()
    error = np.sqrt(weight**2 @ (p - right) ** 2) / weight.sum()
    family = np.column_stack([codes[:, 1], codes[:, 0], z[2]])
    drawn = Additive().parameters(family, np.ones(len(codes), dtype=np.int64), [3, 2, 0], stream).log_odds(20_000)
    odds = drawn.intercept[:, 1] + drawn.coefficients[:, 1, :, 0] * 0.5
    found = np.exp(np.column_stack([np.zeros(len(odds)), odds]))
    found /= found.sum(axis=1, keepdims=True)
    z_values = np.abs(found.mean(axis=0) - right) / np.sqrt(error**2 + found.var(axis=0) / len(found))
    assert z_values.max() < z_limit(3)
    wrong = np.abs(found.mean(axis=0)[::-1] - right) / np.sqrt(error**2 + found.var(axis=0) / len(found))
    assert wrong.max() > z_limit(3)


def test_drawn_regressions_have_the_coding_of_categories():
    """Means of a number in every configuration, by the kernel of the prior of effects."""
    table = mixed()
    codes, y = table.codes[table.row_index], scaled(table).values[3][table.row_index]
    x = scaled(table).values[2][table.row_index]
    family = np.column_stack([y, codes[:, 0], codes[:, 1], x])
    drawn = Additive().parameters(family, np.ones(len(y), dtype=np.int64), [0, 2, 3, 0], stream).regressions(20_000)
    assert drawn.intercept.shape == drawn.sd.shape == (20_000, 2, 3)
    spread = effects(table, ("g", "h", "x")) / 0.5 + 1.0
    weights = np.linalg.solve(spread + np.eye(len(y)), y)
    for g, h in product(range(2), range(3)):
        shared = 1.0 + (2.0 * ((codes[:, 0] == g) - 1 / 2) + 2.0 * ((codes[:, 1] == h) - 1 / 3) + 0.7 * x) / 0.5
        own = drawn.intercept[:, g, h] + 0.7 * drawn.coefficients[:, g, h, 0]
        assert abs(own.mean() - shared @ weights) < z_limit(6) * own.std() / math.sqrt(len(own))


def test_types_of_a_mixture_are_drawn_by_their_evidence():
    table = mixed()
    codes, y = table.codes[table.row_index], scaled(table).values[3][table.row_index]
    x, cases = scaled(table).values[2][table.row_index], np.ones(len(y), dtype=np.int64)
    kind = AdditiveMixture(2.0, additive_share=0.4)
    for names in (("g", "x"), ("g", "h")):
        parents = [table.names.index(name) for name in names]
        family = np.column_stack([y, *(x if j == 2 else codes[:, j] for j in parents)])
        sizes = [0, *(0 if j == 2 else int(table.n_states[j]) for j in parents)]
        made = kind.parameters(family, cases, sizes, stream, n_numbers=2)
        s_a, s_c = (FamilyScores(table, one).log_score("y", names) for one in (Additive(), ConditionalGaussian(2.0)))
        assert made.additive_probability == pytest.approx(1 / (1 + 1.5 * math.exp(s_c - s_a)), abs=1e-9)
        drawn = made.regressions(2000).sd
        same = np.ptp(drawn.reshape(2000, -1), axis=1) == 0  # additive draws have one scatter everywhere
        assert same.mean() == pytest.approx(made.additive_probability, abs=0.06)


@pytest.mark.parametrize("family", ["additive", "auto"])
def test_questions_are_averaged_over_graphs_and_parameters(family):
    """A category below a number, both ways round: sums over the three graphs of two columns, on grids."""
    rng = np.random.default_rng(3)
    x = rng.normal(3.0, 2.0, 40)
    g = (rng.random(40) < 1 / (1 + np.exp(-0.8 * (x - 3)))).astype(int)
    table = Table.from_codes(
        ["g", "x"], [("n", "y"), ()], np.column_stack([g, 0 * g]), numbers=np.column_stack([x * NAN, x])
    )
    posterior = doxa.learn(table, family=family, prior="uniform", draws=None, seed=1)
    found = posterior.predictive("g", given={"x": 4.0})["y"]
    z, at = (x - x.mean()) / x.std(), (4.0 - x.mean()) / x.std()
    kind, cases = posterior.options.score, np.ones(41, dtype=np.int64)
    logs = np.zeros((3, 2))  # of the table and one case more, for every graph and state of its g
    for state in (0, 1):
        own_g, own_x = np.append(g, state), np.append(z, at)
        alone = [
            kind.log_marginal_likelihood(own_g[:, None].astype(float), cases, [2]),
            kind.log_marginal_likelihood(own_x[:, None], cases, [0]),
        ]
        g_below_x = kind.log_marginal_likelihood(np.column_stack([own_g, own_x]), cases, [2, 0])
        x_below_g = kind.log_marginal_likelihood(np.column_stack([own_x, own_g]), cases, [0, 2])
        logs[:, state] = [sum(alone), g_below_x + alone[1], alone[0] + x_below_g]
    total = logsumexp(logs, axis=0)
    right = math.exp(total[1] - logsumexp(total))
    assert abs(found.value - right) < z_limit(1) * found.mcse + TOLERANCE / 2
    wrong = posterior.predictive("g", given={"x": 2.0})["y"]
    assert abs(wrong.value - right) > z_limit(1) * wrong.mcse + TOLERANCE / 2


def test_runs_are_kept_and_read(tmp_path):
    table = mixed()
    made = doxa.learn(table, family="auto", prior_scale=1.5, seed=1, exact=False, draws=50, store=tmp_path / "r.doxa")
    read = doxa.load(tmp_path / "r.doxa")
    assert read.options.score == made.options.score == AdditiveMixture(prior_scale=1.5)
    assert "not score equivalent" in read.options.score.text


@pytest.mark.parametrize("value", ["a", 0.0, -1.0, NAN, math.inf])
def test_numbers_out_of_range_are_refused(value):
    for name in ("prior_scale", "alpha_mu", "tolerance"):
        with pytest.raises((ArgumentError, ArgumentTypeError), match=name):
            Additive(**{name: value})
    with pytest.raises((ArgumentError, ArgumentTypeError), match="additive_share"):
        AdditiveMixture(additive_share=value)
    with pytest.raises(ArgumentError, match="equivalent_sample_size"):
        doxa.learn(mixed(), family="additive", equivalent_sample_size=2.0)


def test_scores_of_categories_have_the_errors_that_they_say():
    """Families of few and many rows, by the second-order term and by nodes, against many more nodes."""
    rng = np.random.default_rng(11)
    gaps, errors, n_nodes = [], [], []
    for n in (25, 60, 200):
        x = rng.normal(size=(n, 4))
        odds = np.stack([np.zeros(n), x[:, 0] - 0.5, 0.7 * x[:, 1] - 1.0], axis=1)
        state = (odds + rng.gumbel(size=(n, 3))).argmax(axis=1)
        codes = np.column_stack([state, np.zeros((n, 4), dtype=int)])
        table = Table.from_codes(list("sabcd"), [("0", "1", "2"), (), (), (), ()], codes, numbers=np.insert(x, 0, 0, 1))
        found = []
        for tolerance in (0.01, 0.0005):
            scores = FamilyScores(table, Additive(tolerance=tolerance))
            box = Additive(tolerance=tolerance).scorer(scores.data, scores.numbers, fixed=True)
            value = np.zeros(1)
            for above in range(1, 16):
                box.score(0, np.array([[above << 1]], dtype=np.uint64), value)
                found.append((value[0], *box.report[[4, 5]]))
        rough, fine = np.array(found).reshape(2, 15, 3)
        gaps.append(np.abs(rough[:, 0] - fine[:, 0]))
        errors.append(np.hypot(rough[:, 1], fine[:, 1]))
        n_nodes.append(rough[:, 2])
    assert 5 < (np.concatenate(n_nodes) == 0).sum() < 40  # by either way
    z = np.concatenate(gaps) / np.concatenate(errors)
    assert z.max() < 4.0
    assert np.concatenate(gaps).max() < 0.02
    assert (8 * z).max() > 4.0  # errors said to be an eighth of these are found out
