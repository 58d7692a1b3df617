"""Answers about numbers against sums over all 25 graphs times quadrature over the parameters' posterior."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp, roots_genlaguerre
from scipy.stats import t as student

import doxa
from doxa.data.scaled import scaled
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.importance.numbers import Weighted, condition
from doxa.models.bits import unpack_rows
from doxa.structure import BGe, ConditionalGaussian
from doxa.structure.averaging.draws import draw_networks
from doxa.structure.exact.enumeration import all_dags, enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.gaussian.parameters import GaussianFamily
from doxa.structure.priors import make_prior

LIMIT = 4.9  # a false alarm in a million


def table_of(seed=3, n=25):
    rng = np.random.default_rng(seed)
    a = rng.normal(50, 10, n)
    b = 2 + 0.06 * a + rng.normal(0, 0.9, n)
    c = 100 - 5 * b + 0.4 * a + rng.normal(0, 7, n)
    return doxa.data.Table.from_codes(
        ["a", "b", "c"], [()] * 3, np.zeros((n, 3), dtype=int), numbers=np.column_stack([a, b, c])
    )


@pytest.fixture(scope="module")
def learned():
    table = table_of()
    posterior = doxa.learn(table, prior="uniform", exact=True, seed=1)
    listed = enumerate_posterior(FamilyScores(table, BGe(), make_prior(table.names, "uniform")))
    return table, posterior, [unpack_rows(rows, 3) for rows in listed.rows], listed.probability


def regression(values, child, parents, t=0.5, freedom=2.0, alpha_mu=1.0):
    """Normal-inverse-gamma posterior of a regression, by the textbook: mean, precision, shape and rate."""
    z = np.column_stack([np.ones(values.shape[1]), *(values[p] for p in parents)])
    precision = np.diag([alpha_mu, *[t] * len(parents)]) + z.T @ z
    mean = np.linalg.solve(precision, z.T @ values[child])
    shape = (values.shape[1] + freedom + len(parents) + 1) / 2
    rate = (t + values[child] @ values[child] - mean @ precision @ mean) / 2
    return mean, precision, shape, rate


def moments(table, graph, target, do):
    """E of a number under an intervention on one other, and of its square, given a graph: products of mean paths.

    Families are independent, so the mean and the mean square of a sum along paths are closed forms.
    """
    scale = scaled(table)
    node, value = do
    order = [int(v) for v in np.argsort([graph[:, v].sum() + 10 * _depth(graph, v) for v in range(3)])]
    # first and second moments of (1, x) given all regressions before, one node at a time
    first, second = np.array([1.0]), np.array([[1.0]])
    place = {}
    for v in order:
        if v == node:
            weights, outer, noise = np.zeros(len(first)), np.zeros((len(first), len(first))), 0.0
            weights[0] = (value - scale.centre[v]) / scale.scale[v]
            outer = np.outer(weights, weights)
        else:
            parents = np.flatnonzero(graph[:, v]).tolist()
            mean, precision, shape, rate = regression(scale.values, v, parents)
            at = [0, *(place[p] for p in parents)]
            noise = rate / (shape - 1)
            weights = np.zeros(len(first))
            weights[at] = mean
            outer = np.zeros((len(first), len(first)))
            outer[np.ix_(at, at)] = np.outer(mean, mean) + noise * np.linalg.inv(precision)
        square = (outer * second).sum() + noise
        cross = second @ weights
        second = np.block([[second, cross[:, None]], [cross[None], np.array([[square]])]])
        first = np.append(first, weights @ first)
        place[v] = len(first) - 1
    m, s = first[place[target]], second[place[target], place[target]]
    centre, width = scale.centre[target], scale.scale[target]
    return centre + width * m, width * np.sqrt(s - m * m)


def _depth(graph, v):
    return 1 + max((_depth(graph, u) for u in np.flatnonzero(graph[:, v])), default=0)


@pytest.mark.parametrize(("target", "node", "value"), [("c", "a", 65.0), ("b", "c", 80.0), ("a", "b", 7.0)])
def test_interventions_are_sums_over_all_graphs_of_closed_forms(learned, target, node, value):
    table, posterior, graphs, probability = learned
    found = posterior.query(target, do={node: value}, networks=1000)
    index = table.names.index
    parts = [moments(table, graph, index(target), (index(node), value)) for graph in graphs]
    means, sds = np.array(parts).T
    mean = probability @ means
    sd = np.sqrt(probability @ (sds**2 + (means - mean) ** 2))
    assert abs(found.mean.value - mean) < LIMIT * found.mean.mcse
    assert abs(found.sd.value - sd) < LIMIT * found.sd.mcse
    assert found.mean.mcse < 0.05 * sd


def test_seeing_is_not_doing(learned):
    """The twin: an answer that takes an intervention for an observation is far outside its error."""
    table, posterior, graphs, probability = learned
    means = [moments(table, graph, 0, (1, 7.0))[0] for graph in graphs]
    seen = posterior.query("a", given={"b": 7.0}, networks=1000)
    assert abs(seen.mean.value - probability @ np.array(means)) > 10 * seen.mean.mcse


def test_one_new_case_has_the_density_of_a_sum_over_graphs_of_student_t(learned):
    """Of complete rows: products of the families' predictive distributions, averaged over all graphs."""
    table, posterior, graphs, probability = learned
    rows = pd.DataFrame({"a": [45.0, 70.0, 20.0], "b": [5.0, 5.5, 3.0], "c": [95.0, 110.0, 120.0]})
    scale = scaled(table)
    new = ((rows.to_numpy() - scale.centre) / scale.scale).T
    exact = np.zeros(3)
    twin = np.zeros(3)
    for graph, weight in zip(graphs, probability, strict=True):
        log_p, log_twin = np.zeros(3), np.zeros(3)
        for v in range(3):
            parents = np.flatnonzero(graph[:, v]).tolist()
            mean, precision, shape, rate = regression(scale.values, v, parents)
            z = np.column_stack([np.ones(3), *(new[p] for p in parents)])
            spread = rate / shape * (1 + np.einsum("ij,jk,ik->i", z, np.linalg.inv(precision), z))
            log_p += student.logpdf(new[v], 2 * shape, z @ mean, np.sqrt(spread)) - np.log(scale.scale[v])
            log_twin += student.logpdf(new[v], 2 * shape, z @ mean, np.sqrt(rate / shape)) - np.log(scale.scale[v])
        exact += weight * np.exp(log_p)
        twin += weight * np.exp(log_twin)
    found = posterior.log_predictive(rows, networks=2500).rows
    z = (found["log_probability"] - np.log(exact)) / found["mcse"]
    assert np.abs(z).max() < LIMIT
    assert (
        np.abs((found["log_probability"] - np.log(twin)) / found["mcse"]).max() > LIMIT
    )  # parameters held at their means


@pytest.fixture(scope="module")
def mixed_and_new():
    """Two categories and two numbers, and their posterior; the log probability of the table with one of four new rows.

    By graph, shape (n_graphs, 1 + 4): the table alone first.  A score of the table and one case more, by the score of
    the table, is the predictive probability of that case, with all parameters integrated out.
    """
    rng = np.random.default_rng(11)
    g = rng.integers(0, 2, 30)
    h = np.where(rng.random(30) < 0.7, g, rng.integers(0, 3, 30))
    x = rng.normal(size=30) + 0.8 * g
    y = 0.6 * x - 0.5 * (h == 2) + rng.normal(size=30)
    frame = pd.DataFrame({"g": np.array(["n", "y"])[g], "h": np.array(list("uvw"))[h], "x": 3 + 2 * x, "y": 50 - 9 * y})
    table = doxa.read_table(frame)
    new = pd.DataFrame([{"g": state, "h": "w", "x": x, "y": 48.0} for state in "ny" for x in (1.0, 6.0)])
    kind = ConditionalGaussian()
    scale = scaled(table)
    codes = np.where(table.is_number[:, None], scale.values, table.codes.T)[:, table.row_index]
    added = [[["n", "y"].index(row.g), 2, *(row[["x", "y"]].astype(float) - scale.centre[2:]) / scale.scale[2:]]
             for _, row in new.iterrows()]  # fmt: skip
    sizes = np.where(table.is_number, 0, table.n_states)
    graphs = unpack_rows(all_dags(4), 4)
    known: dict[tuple[int, ...], np.ndarray] = {}
    logs = np.full((len(graphs), 5), -np.inf)
    for k, graph in enumerate(graphs):
        families = [(child, *np.flatnonzero(graph[:, child]).tolist()) for child in range(4)]
        if any(family[0] < 2 and max(family[1:], default=0) > 1 for family in families):
            continue  # a category has no parents that are numbers
        for family in families:
            if family not in known:
                rows = [codes[list(family)].T]
                rows += [np.vstack([rows[0], np.array(one)[list(family)]]) for one in added]
                known[family] = np.array([
                    kind.log_marginal_likelihood(each, np.ones(len(each), dtype=np.int64), sizes[list(family)])
                    for each in rows
                ])  # fmt: skip
        logs[k] = sum(known[family] for family in families)
    return table, new, logs, np.log(scale.scale[2:]).sum(), doxa.learn(table, prior="uniform", exact=True, seed=1)


def test_new_cases_of_both_have_the_density_of_a_sum_over_543_graphs(mixed_and_new):
    _, new, logs, units, posterior = mixed_and_new
    assert np.isfinite(logs[:, 0]).sum() < 543 == len(logs)
    found = posterior.log_predictive(new, networks=2500).rows
    right = logsumexp(logs[:, 1:], axis=0) - logsumexp(logs[:, 0]) - units
    z = (found["log_probability"] - right) / found["mcse"]
    assert np.abs(z).max() < LIMIT
    best = logs[:, 0].argmax()  # the twin: one graph, the best
    assert np.abs((found["log_probability"] - (logs[best, 1:] - logs[best, 0] - units)) / found["mcse"]).max() > LIMIT


def test_categories_are_predicted_by_a_sum_over_543_graphs(mixed_and_new):
    _, _, logs, _, posterior = mixed_and_new
    answers, right = [], []
    for at, x in enumerate((1.0, 6.0)):
        found = posterior.predictive("g", given={"h": "w", "x": x, "y": 48.0}, networks=4000)["y"]
        of_states = logsumexp(logs[:, [1 + at, 3 + at]], axis=0)
        right.append(np.exp(of_states[1] - logsumexp(of_states)))
        answers.append(found)
        assert abs(found.value - right[-1]) < LIMIT * found.mcse
        assert found.mcse < 0.02
    assert abs(answers[0].value - right[1]) > LIMIT * answers[0].mcse  # the twin: another number


def test_draws_of_regressions_have_the_moments_of_the_textbook():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(3, 12))
    rule = BGe().gaussian_rule(3, 12)
    family = GaussianFamily(
        rule, values[[2, 0, 1]].T, np.ones(12, dtype=int), [0, 0, 0], lambda *_: np.random.default_rng(5)
    )
    drawn = family.regressions(200_000)
    mean, precision, shape, rate = regression(values, 2, [0, 1])
    beta = np.column_stack([drawn.intercept, drawn.coefficients])
    covariance = rate / (shape - 1) * np.linalg.inv(precision)
    error = np.sqrt(np.diag(covariance) / len(beta))
    assert np.abs((beta.mean(axis=0) - mean) / error).max() < LIMIT
    assert np.allclose(np.cov(beta.T), covariance, rtol=0.03, atol=2e-3)
    variances = drawn.sd**2
    assert abs(variances.mean() - rate / (shape - 1)) < LIMIT * variances.std() / np.sqrt(len(beta))
    nodes, weights = roots_genlaguerre(60, shape - 1)  # quadrature of E sd over the inverse gamma
    sd = (weights * np.sqrt(rate / nodes)).sum() / weights.sum()
    assert abs(drawn.sd.mean() - sd) < LIMIT * drawn.sd.std() / np.sqrt(len(beta))
    more = rule._replace(freedom=rule.freedom + 3)
    stream = lambda *_: np.random.default_rng(5)  # noqa: E731
    wrong = GaussianFamily(more, values[[2, 0, 1]].T, np.ones(12, dtype=int), [0, 0, 0], stream).regressions(200_000)
    assert abs((wrong.sd**2).mean() - rate / (shape - 1)) > 10 * variances.std() / np.sqrt(len(beta))


def test_counts_stand_for_repeated_rows():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(6, 2))
    times = np.array([1, 3, 2, 1, 1, 4])
    rule = BGe().gaussian_rule(2, 12)
    stream = lambda *_: np.random.default_rng(5)  # noqa: E731
    one = GaussianFamily(rule, values, times, [0, 0], stream).regressions(5)
    other = GaussianFamily(rule, np.repeat(values, times, axis=0), np.ones(12, dtype=int), [0, 0], stream).regressions(
        5
    )
    assert all(np.allclose(a, b) for a, b in zip(one, other, strict=True))


def test_units_come_back(learned):
    """The same table in other units gives the same answers in those."""
    table, posterior, _, _ = learned
    moved = doxa.data.Table.from_codes(
        table.names, table.states, table.codes, numbers=table.numbers * [1e3, 1e-3, 1.0] + [0, 5, 0]
    )
    other = doxa.learn(moved, prior="uniform", exact=True, seed=1)
    own = posterior.query("b", given={"a": 60.0, "c": 90.0})
    its = other.query("b", given={"a": 6e4, "c": 90.0})
    assert np.isclose(its.mean.value, own.mean.value * 1e-3 + 5, rtol=1e-9)
    assert np.isclose(its.sd.value, own.sd.value * 1e-3, rtol=1e-6)
    assert np.isclose(
        other.coefficients("c").draws[..., 1].mean() * 1e3, posterior.coefficients("c").draws[..., 1].mean(), rtol=1e-6
    )


def mixed(n=60, seed=4, missing=0.0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"k": rng.choice(["n", "y"], n), "m": rng.choice(["p", "q", "r"], n), "x": rng.normal(10, 2, n)}
    )
    frame["y"] = 3 + np.where(frame["k"] == "y", 1.2, 0.4) * frame["x"] + rng.normal(0, 1.5, n)
    return frame.mask(rng.random(frame.shape) < missing) if missing else frame


@pytest.fixture(scope="module")
def of_both():
    """Of a table of categories and numbers, 200 networks in all."""
    return doxa.learn(mixed(), draws=50, seed=1)


def test_tables_of_both_answer_about_both_and_events_agree(of_both):
    posterior = of_both
    found = posterior.query("k", given={"x": 10.0, "y": 15.5})
    event = posterior.query({"k": "y"}, given={"x": 10.0, "y": 15.5})
    assert np.isclose(found["y"].value, event.value, rtol=1e-12)
    assert np.isclose(sum(e.value for e in found.values()), 1.0)
    assert event.value > 0.9
    low, high = event.credible_interval()
    assert low < event.value < high
    number = posterior.query("y", given={"x": 10.0}, do={"k": "y"})
    assert np.isclose(number.probability(above=14.0).value + number.probability(below=14.0).value, 1.0)
    assert np.isclose(number.distribution.probability(below=number.quantile(0.2).value), 0.2)
    with pytest.raises(ArgumentError, match="states have no order"):
        found.probability(above=3)
    weighted = posterior.predictive("y", given={"x": 10.0})
    assert weighted.effective_networks <= 200.0001
    assert abs(weighted.mean.value - posterior.query("y", given={"x": 10.0}).mean.value) < 0.2


def test_predictions_of_rows_are_those_of_single_questions(of_both):
    frame, posterior = mixed(), of_both
    rows = frame.head(4).assign(y=np.nan)
    found = posterior.predict(rows)
    assert found["column"].tolist() == ["y"] * 4
    for k in range(4):
        one = posterior.predictive("y", given={"k": rows["k"][k], "m": rows["m"][k], "x": rows["x"][k]})
        assert np.isclose(found["mean"][k], one.mean.value)
        assert np.isclose(found["lower"][k], one.interval()[0])
    states = posterior.predict(frame.head(3), "k")
    assert states["state"].tolist() == ["n", "y"] * 3
    assert np.allclose(states.groupby("row")["probability"].sum(), 1.0)


def test_events_of_numbers_and_categories(of_both):
    posterior = of_both
    given = {"x": 9.0}
    above = posterior.query({"y": ("above", 4.0)}, given=given)
    assert above.value == pytest.approx(posterior.query("y", given=given).probability(above=4.0).value, abs=1e-12)
    parts = [posterior.query({"k": k, "y": ["above", 4.0]}, given=given) for k in posterior.query("k")]
    assert sum(part.value for part in parts) == pytest.approx(above.value, abs=1e-12)
    alone = posterior.query({"k": "y"}, given=given).value
    assert alone == pytest.approx(posterior.query("k", given=given)["y"].value, abs=1e-12)
    assert abs(parts[1].value - alone * above.value) > 1e-3  # they depend on each other
    low, high = above.credible_interval()
    assert low < above.value < high
    whole = posterior.predictive({"y": ("between", (-1e9, 1e9))}, given=given)
    assert whole.value == pytest.approx(1.0, abs=1e-9)
    with pytest.raises(ArgumentTypeError, match="states have no order"):
        posterior.query({"k": ("above", 1)})


def test_missing_cells_are_drawn_with_the_networks(of_both):
    posterior = doxa.learn(mixed(missing=0.06), draws=100, seed=1)
    ours, its = posterior.query("y", given={"x": 10.0}), of_both.query("y", given={"x": 10.0})
    assert abs(ours.mean.value - its.mean.value) < 3 * ours.mean.posterior_sd
    assert ours.mean.posterior_sd > 0.02


def test_credible_intervals_cover():
    """The slope's mean at a point lies in its 90% interval in about 90% of tables; in one half as wide it does not."""
    inside, narrow, n = 0, 0, 40
    for seed in range(n):
        rng = np.random.default_rng(1000 + seed)
        x = rng.normal(size=80)
        y = 0.8 * x + rng.normal(size=80)
        z = rng.normal(size=80)
        table = doxa.data.Table.from_codes(
            ["x", "y", "z"], [()] * 3, np.zeros((80, 3), dtype=int), numbers=np.column_stack([x, y, z])
        )
        mean = doxa.learn(table, seed=1).query("y", given={"x": 1.0}, networks=100).mean
        low, high = mean.credible_interval(0.9)
        inside += low < 0.8 < high
        narrow += abs(mean.value - 0.8) < (high - low) / 6
    error = np.sqrt(0.09 / n)
    assert abs(inside / n - 0.9) < 3.5 * error
    assert narrow / n < 0.9 - 3.5 * error


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda p: p.query("b", given={"a": "fifty"}), ArgumentTypeError, "holds numbers"),
        (lambda p: p.query("b", given={"a": float("nan")}), ArgumentError, "finite"),
        (lambda p: p.query({"b": 5.0}), ArgumentTypeError, r"target\['b'\] is 5.0.*give \('above', number\)"),
        (lambda p: p.query({"b": ("over", 5.0)}), ArgumentError, r"give \('above', number\)"),
        (lambda p: p.query({"b": ("between", 5.0)}), ArgumentError, r"'between', low, high"),
        (lambda p: p.query({"b": ("between", 5.0, 4.0)}), ArgumentError, r"between=\(4, 5\)"),
        (lambda p: p.query({"b": ("above", float("nan"))}), ArgumentError, "neither above nor below"),
        (lambda p: p.query({"a": ("above", 1), "b": ("above", 1)}), ArgumentError, "an event has one at most"),
        (lambda p: p.query({"b": ("above", 5.0)}, given={"b": 5.0}), ArgumentError, "is in target and in given"),
        (lambda p: p.query("b", given={"b": 5.0}), ArgumentError, "is in target and in given"),
        (lambda p: p.query("bb"), ArgumentError, "not a column"),
        (lambda p: p.query("b").probability(between=(3, 1)), ArgumentError, "lower end comes first"),
        (lambda p: p.query("b").probability(above=float("nan")), ArgumentError, "neither above nor below"),
        (lambda p: p.query("b").quantile(1.5), ArgumentError, "strictly between"),
        (lambda p: p.coefficients("bb"), ArgumentError, "not a column"),
    ],
)
def test_bad_questions_are_named(learned, ask, error, words):
    with pytest.raises(error, match=words):
        ask(learned[1])


def test_far_evidence_is_answered_with_a_note(learned):
    far = learned[1].query("b", given={"a": 50 + 10 * 50.0})
    assert "standard deviations from the column's mean" in far.notes[0]
    assert not learned[1].query("b", given={"a": 55.0}).notes


@pytest.mark.parametrize("family", ["conditional_gaussian", "auto"])
def test_networks_together_and_one_by_one(family):
    """Draws over many graphs, with weighted draws where categories depend on numbers."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 60), "size": rng.normal(0, 1, 60)})
    frame["weight"] = 0.4 * frame["size"] + rng.normal(0, 1, 60)
    frame["ill"] = np.where(rng.random(60) < 0.3 + 0.3 * (frame["weight"] > 0), "yes", "no")
    posterior = doxa.learn(doxa.read_table(frame), family=family, seed=1)
    draws = draw_networks(posterior, posterior.table, 60)
    assert len(draws.of_graph) > 5
    kinds = set()
    values = np.array([[0.3], [-2.0]])
    for question in (
        ([2], {0: 1}, [1], values, {}),
        ([3, 2], {}, [1], values, {}),
        ([1], {}, [], values[:, :0], {2: 1.0}),
    ):
        for whole, only in ((False, None), (True, [3, 11, 40])):
            found = draws.condition(*question, whole=whole, only=only)
            for t, one in zip(range(60) if only is None else only, found, strict=True):
                right = condition(draws.network(t), *question, draws.generator(t), whole=whole)
                kinds.add(type(one))
                assert type(one) is type(right)
                np.testing.assert_allclose(one.log_evidence, right.log_evidence, rtol=1e-11, atol=1e-12)
                np.testing.assert_allclose(one.log_weights, right.log_weights, rtol=1e-11, atol=1e-12)
                np.testing.assert_allclose(one.means, right.means, rtol=1e-11, atol=1e-12)
                np.testing.assert_allclose(one.sds, right.sds, rtol=1e-11)
    assert (Weighted in kinds) == (family == "auto")
