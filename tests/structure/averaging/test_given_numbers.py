"""`doxa.fit` of graphs with numbers: closed forms, quadrature, completions, files, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import invgamma
from scipy.stats import t as student
from test_number_answers import mixed, regression

import doxa
from doxa.data.scaled import scaled
from doxa.errors import ArgumentError
from doxa.models import Dag, GaussianNetwork, LogOdds, Regression
from doxa.structure import Additive, BGe, ConditionalGaussian
from doxa.structure.averaging import RegressionPosterior
from doxa.structure.families.scores import log_bdeu
from support.checks import z_limit

GRAPH = Dag.from_edges([("k", "y"), ("x", "y"), ("m", "k")])


@pytest.fixture(scope="module")
def fitted():
    return doxa.fit(GRAPH, mixed(), seed=1)


def values_of(frame):
    """Scaled values of x and y, as the table has them, and their centres and scales."""
    table = doxa.read_table(frame)
    scale = scaled(table)
    j = [table.names.index(name) for name in ("x", "y")]
    return scale.values[j][:, table.row_index], scale.centre[j], scale.scale[j]


def textbook(frame, rows, alpha_mu=1.0, t=0.5, freedom=2.0, like=None):
    """Of the regression of y on x in some rows: name of a term, and its law."""
    values, centre, scale = values_of(frame) if like is None else like
    mean, precision, shape, rate = regression(values[:, rows], 1, [0], t=t, alpha_mu=alpha_mu, freedom=freedom)
    around = np.linalg.inv(precision) * rate / shape
    slope = np.array([0.0, scale[1] / scale[0]])
    start = np.array([scale[1], -scale[1] / scale[0] * centre[0]])
    laws = {
        name: student(2 * shape, move + w @ mean, np.sqrt(w @ around @ w))
        for name, w, move in (("intercept", start, centre[1]), ("x", slope, 0.0))
    }
    return laws, invgamma(shape, scale=rate), scale[1]


def moments_of_root(law, scale):
    """Mean and standard deviation of the root of a variable, by quadrature."""
    mean = quad(lambda v: np.sqrt(v) * law.pdf(v), 0, law.ppf(1 - 1e-13), limit=500, points=[law.median()])[0]
    return scale * mean, scale * np.sqrt(law.mean() - mean**2)


def is_textbook(found, frame, **prior):
    """Whether the regressions of y are those of the textbook, in both configurations of k."""
    good = True
    for state in ("n", "y"):
        rows = np.flatnonzero(frame["k"] == state)
        laws, variance, scale = textbook(frame, rows, **prior)
        own = found[(found["node"] == "y") & (found["given"] == (state,))].set_index("term")
        for name, law in laws.items():
            exact = [law.mean(), law.std(), law.ppf(0.025), law.ppf(0.975)]
            good &= np.allclose(own.loc[name, ["mean", "sd", "lower", "upper"]].astype(float), exact, rtol=1e-9)
        exact = [*moments_of_root(variance, scale), *(scale * np.sqrt(variance.ppf([0.025, 0.975])))]
        good &= np.allclose(own.loc["sd", ["mean", "sd", "lower", "upper"]].astype(float), exact, rtol=1e-6)
        good &= own["cases"].tolist() == [len(rows)] * 3
    return good


def test_regressions_of_a_complete_table_are_those_of_the_textbook(fitted):
    assert isinstance(fitted, RegressionPosterior)
    found = fitted.regressions()
    assert is_textbook(found, mixed())
    assert (found["mcse"] == 0).all()
    assert not is_textbook(found, mixed(), alpha_mu=2.0)  # the twin: another prior
    other = doxa.fit(GRAPH, mixed(), score=ConditionalGaussian(1.0, 2.0), seed=1).regressions()
    assert is_textbook(other, mixed(), alpha_mu=2.0, t=4 / 3, freedom=3.0)
    assert fitted.verdict.startswith("Exact: no cell is missing: regressions have normal-inverse-gamma")


def log_evidence(values, child, parents, alpha_mu=1.0, t=0.5, a=2.0):
    """Of a regression, by quadrature over the logarithm of the variance."""
    z = np.column_stack([np.ones(values.shape[1]), *(values[p] for p in parents)])
    spread = np.eye(len(z)) + z @ np.diag([1 / alpha_mu, *[1 / t] * len(parents)]) @ z.T
    s = np.linspace(-8, 4, 1201)
    square = values[child] @ np.linalg.solve(spread, values[child])
    log_p = -0.5 * (len(z) * (np.log(2 * np.pi) + s) + np.linalg.slogdet(spread)[1] + square / np.exp(s))
    log_p += invgamma.logpdf(np.exp(s), (a + len(parents) + 1) / 2, scale=t / 2) + s
    return logsumexp(log_p) + np.log(s[1] - s[0])


def test_the_evidence_is_a_quadrature_over_variances(fitted):
    frame = mixed()
    values, _, _ = values_of(frame)
    total = log_evidence(values, 0, [])
    for state in ("n", "y"):
        total += log_evidence(values[:, np.flatnonzero(frame["k"] == state)], 1, [0])
    counts = pd.crosstab(frame["m"], frame["k"]).to_numpy()
    total += log_bdeu(counts, 1.0) + log_bdeu(counts.sum(axis=1)[None], 1.0)
    found = fitted.log_marginal_likelihood
    assert found.exact
    assert found.value == pytest.approx(total, abs=1e-7)
    other = doxa.fit(Dag.from_edges([("k", "y"), ("m", "k")], GRAPH.names), frame, seed=1).log_marginal_likelihood
    assert abs(other.value - total) > 1


def test_tables_of_categories_are_dirichlet(fitted):
    frame, entries = mixed(), fitted.entries()
    counts = pd.crosstab(frame["m"], frame["k"]).to_numpy() + 1 / 6
    exact = counts / counts.sum(axis=1, keepdims=True)
    own = entries[entries["node"] == "k"]
    np.testing.assert_allclose(own["mean"].to_numpy(), exact.ravel(), rtol=1e-12)
    sd = np.sqrt(exact * (1 - exact) / (counts.sum(axis=1, keepdims=True) + 1))
    np.testing.assert_allclose(own["sd"].to_numpy(), sd.ravel(), rtol=1e-12)
    assert (entries["mcse"] == 0).all()
    assert set(entries["node"]) == {"k", "m"}


def additive_laws(frame):
    """Of y on x and k under an additive family: intercepts of both states and the slope."""
    values, centre, scale = values_of(frame)
    sign = np.where(frame["k"] == "y", 1.0, -1.0)
    mean, precision, shape, rate = regression(np.vstack([values, sign]), 1, [0, 2], freedom=1.0)  # a contrast is no
    around = np.linalg.inv(precision) * rate / shape  # parent that is a number: no degree of freedom
    slope = np.array([0.0, scale[1] / scale[0], 0.0])
    laws = {("n", "x"): student(2 * shape, slope @ mean, np.sqrt(slope @ around @ slope))}
    for state, own in (("n", -1.0), ("y", 1.0)):
        w = np.array([scale[1], -scale[1] / scale[0] * centre[0], scale[1] * own])
        laws[state, "intercept"] = student(2 * shape, centre[1] + w @ mean, np.sqrt(w @ around @ w))
    return laws


def test_additive_regressions_are_one_regression_on_contrasts():
    fit = doxa.fit(GRAPH, mixed(), family="additive", seed=1)
    found = fit.regressions()
    own = found[found["node"] == "y"].set_index(["given", "term"])
    for (state, term), law in additive_laws(mixed()).items():
        row = own.loc[[((state,), term)], ["mean", "sd", "lower", "upper"]].to_numpy(dtype=float)[0]
        np.testing.assert_allclose(row, [law.mean(), law.std(), law.ppf(0.025), law.ppf(0.975)], rtol=1e-9)
    assert own["mcse"].max() == 0
    assert "the parameters of k, m are independent draws" in fit.verdict
    assert 0 < fit.log_marginal_likelihood.mcse < 0.05


@pytest.mark.parametrize("family", ["conditional_gaussian", "additive"])
def test_draws_have_the_moments_of_the_closed_forms(family):
    fit = doxa.fit(GRAPH, mixed(), family=family, seed=1)
    found = fit.regressions()
    found = found[found["node"] == "y"]
    drawn = fit.draws("y")
    assert isinstance(drawn, Regression)
    assert drawn.coefficients.shape == (4, 1000, 2, 1)
    own = np.stack([drawn.intercept, drawn.coefficients[..., 0], drawn.sd], axis=-1).reshape(4000, -1)
    error = found["sd"].to_numpy() / np.sqrt(4000)
    z = (own.mean(axis=0) - found["mean"].to_numpy()) / error
    assert np.abs(z).max() < z_limit(6)
    np.testing.assert_allclose(own.std(axis=0), found["sd"].to_numpy(dtype=float), rtol=0.08)
    other = doxa.fit(GRAPH, mixed(seed=5), family=family, seed=1).draws("y")  # the twin: another table
    assert np.abs(other.sd.mean(axis=(0, 1)) - found["mean"].to_numpy()[2::3]).max() > 10 * error.min()


def odds_on_grid(frame, prior_scale=2.0):
    """Posterior of intercept and slope of the log odds of g on x, scaled: points, probabilities, log evidence."""
    table = doxa.read_table(frame)
    scale, j = scaled(table), table.names.index("x")
    x = scale.values[j][table.row_index]
    g = (frame["g"] == "yes").to_numpy()
    a, b = np.meshgrid(np.linspace(-4, 4, 401), np.linspace(-3, 7, 401), indexing="ij")
    log_p = -0.5 * (a**2 + b**2) / prior_scale**2 - np.log(2 * np.pi * prior_scale**2)
    for own, yes in zip(x, g, strict=True):
        h = a + b * own
        log_p += -np.logaddexp(0, -h if yes else h)
    cell = (a[1, 0] - a[0, 0]) * (b[0, 1] - b[0, 0])
    total = logsumexp(log_p)
    return a, b, np.exp(log_p - total), total + np.log(cell), scale.centre[j], scale.scale[j]


def test_log_odds_are_those_of_a_grid():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(20, 4, 40)})
    frame["g"] = np.where(rng.random(40) < 1 / (1 + np.exp(-0.4 * (frame["x"] - 19))), "yes", "no")
    fit = doxa.fit(Dag.from_edges([("x", "g")]), frame, seed=1)
    assert fit.options.score.name == "additive_mixture"
    found = fit.log_odds().set_index("term")
    a, b, p, evidence, centre, scale = odds_on_grid(frame)
    slope, start = b / scale, a - b / scale * centre
    z = []
    for name, own in (("x", slope), ("intercept", start)):
        mean = (p * own).sum()
        sd = np.sqrt((p * (own - mean) ** 2).sum())
        z.append((found.loc[name, "mean"] - mean) / found.loc[name, "mcse"])
        assert found.loc[name, "sd"] == pytest.approx(sd, rel=0.06)
    assert np.abs(z).max() < z_limit(2)
    _, b, p, _, _, _ = odds_on_grid(frame, 6.0)  # the twin: a wider prior
    assert abs(found.loc["x", "mean"] - (p * b / scale).sum()) > z_limit(2) * found.loc["x", "mcse"]
    values = (frame["x"].to_numpy() - centre)[None] / scale
    exact = evidence + log_evidence(values, 0, [], a=2.0)
    assert abs(fit.log_marginal_likelihood.value - exact) < 4 * fit.log_marginal_likelihood.mcse
    made = fit.draws("g")
    assert isinstance(made, LogOdds)
    assert made.coefficients.shape == (4, 1000, 1, 1)
    assert fit.query("g", given={"x": 24.0})["yes"].value > 0.7
    with pytest.raises(ArgumentError, match="'z' is no node"):
        fit.draws("z")


def test_rows_without_the_child_say_nothing_about_its_regression():
    """Cells of y are missing, x is there: the regression is that of the other rows, with the whole table's scales."""
    frame = mixed(80, 6)[["x", "y"]]
    frame.loc[rng_rows(80, 20), "y"] = np.nan
    fit = doxa.fit(Dag.from_edges([("x", "y")]), frame, seed=1)
    assert fit.converged, fit.verdict
    table = doxa.read_table(frame)
    scale = scaled(table)
    values = scale.values[:, table.row_index]
    seen = np.flatnonzero(~np.isnan(values[1]))
    laws, variance, width = textbook(frame, seen, like=(values, scale.centre, scale.scale))
    own = fit.regressions()
    own = own[own["node"] == "y"].set_index("term")
    exact = {name: (law.mean(), law.std()) for name, law in laws.items()} | {"sd": moments_of_root(variance, width)}
    z = [(own.loc[name, "mean"] - mean) / own.loc[name, "mcse"] for name, (mean, _) in exact.items()]
    assert np.abs(z).max() < z_limit(3)
    for name, (_, sd) in exact.items():
        assert own.loc[name, "sd"] == pytest.approx(sd, rel=0.07)
    filled = doxa.fit(Dag.from_edges([("x", "y")]), frame.fillna(frame["y"].mean()), seed=1).regressions()  # the twin
    filled = filled[filled["node"] == "y"].set_index("term")
    assert abs(filled.loc["x", "mean"] - exact["x"][0]) > z_limit(3) * own.loc["x", "mcse"]
    x = fit.regressions().set_index(["node", "term"]).loc[("x", "intercept")]
    assert x["mean"] == pytest.approx(frame["x"].mean(), rel=0.01)
    evidence = fit.log_marginal_likelihood
    known = log_evidence(values, 0, []) + log_evidence(values[:, seen], 1, [0])
    assert 0 < evidence.mcse < 0.1
    assert abs(evidence.value - known) < z_limit(1) * evidence.mcse
    assert abs(evidence.value - log_evidence(values, 0, []) - log_evidence(values[:, seen], 1, [])) > 1  # the twin
    assert set(fit.impute()["column"]) == {"y"}


def test_the_evidence_with_a_missing_cause_and_category_is_an_integral():
    """A missing x over a grid and a missing k over its states, of the evidence of the completed tables."""
    frame = mixed(40, 3)
    frame.loc[5, "x"], frame.loc[7, "k"] = np.nan, None
    fit = doxa.fit(GRAPH, frame, draws=200, seed=1)
    table = doxa.read_table(frame)
    scaling = scaled(table)
    values = scaling.values[:, table.row_index][[table.names.index(name) for name in ("x", "y")]]
    grid = np.linspace(-8.0, 8.0, 65)
    terms = []
    for state in ("n", "y"):
        made = frame.assign(k=frame["k"].fillna(state))
        counts = pd.crosstab(made["m"], made["k"]).to_numpy()
        of_tables = log_bdeu(counts, 1.0) + log_bdeu(counts.sum(axis=1)[None], 1.0)
        for x in grid:
            values[0, 5] = x
            total = of_tables + log_evidence(values, 0, [])
            total += sum(log_evidence(values[:, np.flatnonzero(made["k"] == own)], 1, [0]) for own in ("n", "y"))
            terms.append(total)
    known = logsumexp(terms) + np.log(grid[1] - grid[0])
    found = fit.log_marginal_likelihood
    assert 0 < found.mcse < 0.1
    assert abs(found.value - known) < z_limit(1) * found.mcse
    additive = doxa.fit(GRAPH, frame, family="additive", draws=50, seed=1)
    with pytest.raises(ArgumentError, match=r"2 missing cells.*additive families is known"):
        _ = additive.log_marginal_likelihood


def rng_rows(n, k):
    return np.random.default_rng(9).choice(n, k, replace=False)


def test_tables_over_completions_have_the_spread_of_a_mixture():
    """Draws of a Dirichlet table for each completion are draws of their own: the spread is that of the mixture."""
    frame = mixed(120, 7)
    frame.loc[rng_rows(120, 25), "k"] = None
    fit = doxa.fit(GRAPH, frame, draws=500, warmup=100, seed=1)
    entries = fit.entries()
    own = entries[entries["node"] == "k"]
    family = fit._family(GRAPH.names.index("k") if fit.names == GRAPH.names else fit.names.index("k"))
    p = np.exp(fit._draws.mean_tables(family)).reshape(len(fit._draws), -1, 2)
    cases = own["cases"].to_numpy(dtype=float).reshape(-1, 2)
    sd = np.sqrt((p * (1 - p) / (cases + 2)).mean(axis=0) + p.var(axis=0))  # a prior weight of 1/3, and 1
    np.testing.assert_allclose(own["sd"].to_numpy(dtype=float).reshape(-1, 2), sd, rtol=0.06)
    middle = (own["lower"] + own["upper"]).to_numpy(dtype=float) / 2
    assert np.abs(middle - own["mean"].to_numpy(dtype=float)).max() < 0.25 * sd.max()


def test_answers_of_posteriors_are_there(fitted, tmp_path):
    made = list(fitted.networks(20))
    assert len(made) == 20
    assert all(isinstance(network, GaussianNetwork) for network in made)
    assert len({network.dag for network in made}) == 1
    answer = fitted.query("y", given={"x": 10.0, "k": "y"})
    lines = fitted.regressions()
    own = lines[(lines["node"] == "y") & (lines["given"] == ("y",))].set_index("term")["mean"]
    line = own["intercept"] + 10 * own["x"]
    assert abs(answer.mean.value - line) < z_limit(1) * answer.mean.mcse
    rows = fitted.predict(mixed().head(3).drop(columns="y"), "y")
    assert rows["mean"].notna().all()
    assert fitted.coefficients("y").summary()["probability"].tolist() == [1.0, 1.0]
    assert fitted.graph == Dag.from_edges(GRAPH.edges, fitted.names)
    assert "RegressionPosterior: the regressions of" in repr(fitted)
    assert "entries()" in repr(fitted)
    fitted.save(tmp_path / "fit.doxa")
    again = doxa.load(tmp_path / "fit.doxa", doxa.read_table(mixed()))
    assert isinstance(again, RegressionPosterior)
    assert again.regressions().equals(fitted.regressions())


@pytest.mark.parametrize("family", ["conditional_gaussian", "additive", "auto"])
def test_the_network_has_posterior_means_and_can_be_asked(family):
    fit = doxa.fit(GRAPH, mixed(), family=family, seed=1)
    network = fit.network()
    lines = fit.regressions()
    for k, state in enumerate("ny"):
        own = lines[(lines["node"] == "y") & (lines["given"] == (state,))]["mean"].to_numpy(dtype=float)
        regression = network.regressions["y"]
        assert [regression.intercept[k], regression.coefficients[k, 0], regression.sd[k]] == pytest.approx(own.tolist())
        exact = doxa.infer(network, "y", given={"x": 10.0, "k": state})["y"].mean.value
        averaged = fit.query("y", given={"x": 10.0, "k": state}).mean
        assert abs(averaged.value - exact) < z_limit(2) * averaged.mcse
    table = fit.entries()
    assert network.tables["k"].ravel() == pytest.approx(table[table["node"] == "k"]["mean"].to_numpy(dtype=float))
    with pytest.raises(ArgumentError, match="a fit has one graph"):
        fit.network("consensus")


def test_the_network_of_log_odds_can_be_asked():
    graph = Dag.from_edges([("x", "y"), ("y", "k"), ("m", "k")])
    fit = doxa.fit(graph, mixed(), seed=1)
    odds = fit.network().log_odds["k"]
    assert odds.coefficients.shape == (3, 1, 1)
    first = fit.log_odds()["mean"].to_numpy(dtype=float)
    assert [odds.intercept[0, 0], odds.coefficients[0, 0, 0]] == pytest.approx(first[:2].tolist())
    assert doxa.infer(fit.network(), "k", given={"y": 14.0, "m": "q"}).method == "exact"


def test_a_fit_with_missing_cells_is_kept_and_gone_on_with(tmp_path):
    frame = mixed(missing=0.05)
    table = doxa.read_table(frame)
    part = doxa.fit(GRAPH, table, draws=20, warmup=10, seed=3, store=tmp_path / "run.doxa")
    more = doxa.resume(tmp_path / "run.doxa", table, draws=30)
    whole = doxa.fit(GRAPH, table, draws=30, warmup=10, seed=3)
    assert isinstance(part, RegressionPosterior)
    np.testing.assert_array_equal(more.trace["cells"], whole.trace["cells"])


def test_types_that_nobody_observed_have_regressions_of_their_own():
    rng = np.random.default_rng(2)
    group = rng.integers(2, size=150)
    frame = pd.DataFrame({name: rng.normal(5.0 * group + k, 1.0) for k, name in enumerate("uvw")})
    fit = doxa.fit(Dag.from_parents({name: ["h"] for name in "uvw"}), frame, seed=1, draws=300, warmup=100)
    assert fit.options.hidden == (("h", 2),)
    found = fit.regressions()
    means = found[(found["node"] == "u") & (found["term"] == "intercept")]["mean"].to_numpy(dtype=float)
    assert np.abs(np.sort(means) - [0.0, 5.0]).max() < 0.6
    assert "h, which nobody observed" in fit.verdict


def test_numbers_alone_take_the_gaussian_family():
    frame = mixed()[["x", "y"]]
    fit = doxa.fit(Dag.from_edges([("x", "y")]), frame, seed=1)
    assert fit.options.score == BGe()
    assert fit.entries().empty
    own = fit.regressions()
    laws, _, _ = textbook(frame, np.arange(60))
    assert own[own["node"] == "y"]["mean"].tolist()[:2] == pytest.approx([law.mean() for law in laws.values()])
    assert own["node"].tolist() == ["x"] * 2 + ["y"] * 3


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda f: doxa.fit(GRAPH, f, family="categorical"), "takes categories, and 'x', 'y' hold numbers"),
        (lambda f: doxa.fit(GRAPH, f, score="gaussian_bic"), "implies no prior|takes numbers"),
        (lambda f: doxa.fit(GRAPH, f, family="gaussian"), "takes numbers, and"),
        (lambda f: doxa.fit(Dag.from_edges([("x", "k")]), f, family="conditional_gaussian"),
         "the graph has the edge 'x' -> 'k', from a number to a category.*family='additive'"),
        (lambda f: doxa.fit(Dag.from_edges([("x", "k")]), f, family="auto", score=Additive()), "a score of its own"),
        (lambda f: doxa.fit(Dag.from_edges([("m", "k")]), f, family="additive"), "family is 'additive', and none of"),
        (lambda f: doxa.fit(GRAPH, f, family="linear"), "family is 'linear'; it must be one of 'logistic'"),
        (lambda f: doxa.fit(GRAPH, f, method="hmc"), "method is 'hmc', which belongs to family='logistic'"),
        (lambda f: doxa.fit(GRAPH, doxa.read_table(f, transform={"x": "log"})), "transform=.*transformed already"),
        (lambda f: doxa.fit(GRAPH, f, seed=1).regressions(2.0), "strictly between 0 and 1"),
    ],
)  # fmt: skip
def test_bad_fits_are_named(ask, words):
    with pytest.raises(ArgumentError, match=words):
        ask(mixed())


def test_regressions_of_parent_sets_are_those_of_the_graph():
    """Given a parent set the parameters are those of a graph with this set; other sets have others."""
    frame = mixed()
    posterior = doxa.learn(frame, seed=1)
    found = posterior.parent_regressions("y", most=2, prob=0.9)
    parents = found["parents"][0]
    fit = doxa.fit(Dag.from_edges([(p, "y") for p in parents], sorted({*parents, "y"})), frame[[*parents, "y"]], seed=1)
    lines = fit.regressions(0.9)
    lines, own = lines[lines["node"] == "y"], found[[names == parents for names in found["parents"]]]
    for name in ("given", "term", "cases"):
        assert own[name].tolist() == lines[name].tolist()
    for name in ("mean", "sd", "lower", "upper"):
        assert own[name].to_numpy(float) == pytest.approx(lines[name].to_numpy(float), rel=1e-9)
    sets = posterior.parent_sets("y", 2)
    assert found.drop_duplicates("parents")["probability"].tolist() == sets["probability"].tolist()
    assert list(posterior.parent_tables("k", most=1)["state"].unique()) == ["n", "y"]
    for ask, words in (
        (lambda: posterior.parent_tables("y"), "take parent_regressions"),
        (lambda: posterior.parent_regressions("k"), "take parent_tables"),
        (lambda: doxa.learn(frame[["k", "m"]], seed=1).parent_regressions("k"), "take parent_tables"),
    ):
        with pytest.raises(ArgumentError, match=words):
            ask()
