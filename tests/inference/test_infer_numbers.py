"""`doxa.infer` of networks with numbers: dense linear algebra, sums over configurations, and integrals on a grid."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from test_gaussian_networks import brute, components, random_network

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference import GaussianInference, ImpossibleEvidenceError, NetworkNumber
from doxa.inference.exact import BudgetError
from doxa.inference.importance import numbers
from doxa.models import Dag, GaussianNetwork, LogOdds, Regression
from support.checks import z_limit


def odds_network():
    """x -> y, x -> g, and h of three states below x and g."""
    return GaussianNetwork(
        Dag.from_edges([("x", "y"), ("x", "g"), ("x", "h"), ("g", "h")], ("x", "y", "g", "h")),
        {"x": Regression(0.5, [], 1.5), "y": Regression(1.0, [0.8], 1.0)},
        states={"g": ["no", "yes"], "h": ["a", "b", "c"]},
        log_odds={"g": LogOdds([-0.4], [[1.2]]), "h": LogOdds([[0.1, -0.3], [0.6, 0.2]], [[[0.5], [-0.7]]] * 2)},
    )


def on_grid(given):
    """Points of x and their probabilities given states of g and h and a value of y; and the log evidence."""
    x = np.linspace(-9, 10, 8001)
    p = norm.pdf(x, 0.5, 1.5) * (x[1] - x[0])
    if "y" in given:
        p = p * norm.pdf(given["y"], 1 + 0.8 * x, 1.0)
    g = np.stack([1 / (1 + np.exp(1.2 * x - 0.4)), 1 / (1 + np.exp(0.4 - 1.2 * x))], axis=1)
    odds = np.stack([np.zeros((len(x), 2)), 0.5 * x[:, None] + [0.1, 0.6], -0.7 * x[:, None] + [-0.3, 0.2]], axis=2)
    h = np.exp(odds) / np.exp(odds).sum(axis=2, keepdims=True)
    joint = p[:, None, None] * g[:, :, None] * h
    if "g" in given:
        joint = joint[:, [["no", "yes"].index(given["g"])]]
    if "h" in given:
        joint = joint[:, :, [["a", "b", "c"].index(given["h"])]]
    return x, joint / joint.sum(), np.log(joint.sum())


@pytest.mark.parametrize("seed", range(4))
def test_numbers_alone_are_conditioned_as_by_dense_algebra(seed):
    network = random_network(seed, 6, categories=())
    ((_, _, _, mean, covariance),) = components(network)
    seen, free = [1, 4], [0, 2, 3, 5]
    at = np.array([0.7, -1.1])
    result = doxa.infer(network, given={"v1": 0.7, "v4": -1.1})
    assert list(result) == [f"v{v}" for v in free]
    gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen][:, free]).T
    means = mean[free] + gain @ (at - mean[seen])
    sds = np.sqrt(np.diag(covariance[np.ix_(free, free)] - gain @ covariance[np.ix_(seen, free)]))
    for v, m, s in zip(free, means, sds, strict=True):
        own = result[f"v{v}"]
        assert own.mean.exact
        assert own.sd.exact
        assert abs(own.mean.value - m) < 1e-9 * max(1, abs(m))
        assert abs(own.sd.value - s) < 1e-9 * s
        assert abs(own.quantile(0.9).value - norm.ppf(0.9, m, s)) < 1e-8
        assert abs(own.probability(above=0.3).value - norm.sf(0.3, m, s)) < 1e-9
        assert abs(own.probability(between=(-1, 0.3)).value - (norm.cdf(0.3, m, s) - norm.cdf(-1, m, s))) < 1e-9
    law = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)])
    assert abs(result.log_evidence.value - law.logpdf(at)) < 1e-9
    assert result.method == "exact"
    assert result.verdict.startswith("Exact")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("given", [{}, {"v1": 0.4, "v4": -1.0}, {"v6": 0.7, "v0": "a", "v5": 0.2}])
def test_both_are_sums_over_configurations(given, seed):
    network = random_network(seed)
    result = doxa.infer(network, given=given)
    for name in result:
        weights, means, variances, states = brute(network, name, given, {})
        p = weights / weights.sum()
        if network.states[network.names.index(name)]:
            exact = np.bincount(states, weights=p, minlength=len(result[name]))
            assert np.abs(result.probabilities(name) - exact).max() < 1e-9
            continue
        assert abs(result[name].mean.value - p @ means) < 1e-9 * max(1, abs(p @ means))
        above = p @ norm.sf(0.5, means, np.sqrt(variances))
        assert abs(result[name].probability(above=0.5).value - above) < 1e-9
        quantile = result[name].quantile(0.2).value
        assert abs(p @ norm.cdf(quantile, means, np.sqrt(variances)) - 0.2) < 1e-9
    other = "v6" if "v6" not in given else "v2"
    assert abs(result.log_evidence.value - np.log(brute(network, other, given, {})[0].sum())) < 1e-9


def test_what_was_set_is_no_evidence():
    network = random_network(1)
    weights, means, _, _ = brute(network, "v5", {"v6": 0.7}, {"v4": 2.0})
    exact = weights @ means / weights.sum()
    found = doxa.infer(network.do({"v4": 2.0}), "v5", given={"v6": 0.7})["v5"].mean.value
    assert abs(found - exact) < 1e-9
    seen = doxa.infer(network, "v5", given={"v6": 0.7, "v4": 2.0})["v5"].mean.value  # the twin
    assert abs(seen - exact) > 1e-3


def z_scores(seeds):
    """Of many quantities of a sampled answer, over seeds, against the grid: shape (seeds, quantities)."""
    network, given = odds_network(), {"g": "yes", "h": "c"}
    x, p, log_evidence = on_grid(given)
    p = p[:, 0, 0]
    mean = x @ p
    sd = np.sqrt((x - mean) ** 2 @ p)
    y = norm.sf(1.0, 1 + 0.8 * x, 1.0) @ p
    half = (x[1] - x[0]) / 2
    tail = np.interp(1.0 - half, x, np.cumsum(p[::-1])[::-1])
    quantile = np.interp(0.9, np.cumsum(p), x + half)
    rows = []
    for seed in seeds:
        result = doxa.infer(network, given=given, draws=2000, chains=2, seed=seed)
        own = result["x"]
        pairs = [
            (own.mean, mean), (own.sd, sd), (own.quantile(0.9), quantile), (own.probability(above=1.0), tail),
            (result["y"].probability(above=1.0), y), (result["y"].mean, 1 + 0.8 * mean),
            (result.log_evidence, log_evidence),
        ]  # fmt: skip
        _, whole, _ = on_grid({"h": "c"})
        pairs.append((doxa.infer(network, "g", given={"h": "c"}, draws=2000, chains=2, seed=seed)["g"]["yes"],
                      whole[:, 1].sum()))  # fmt: skip
        rows.append([(e.value - exact) / e.mcse for e, exact in pairs])
    return np.array(rows)


def test_sampled_answers_are_as_far_from_the_truth_as_their_errors_say():
    z = z_scores(range(40))
    assert np.abs(z).max() < z_limit(z.size)
    rms = np.sqrt((z**2).mean(axis=0))
    assert (rms > 0.6).all()
    assert (rms < 1.45).all(), rms  # 40 squares: standard error 0.11


def test_draws_that_are_not_weighted_fail_the_same_check(monkeypatch):
    weigh = numbers.weigh

    def alike(*args, **options):
        found = weigh(*args, **options)
        return found._replace(log_weights=np.full_like(found.log_weights, -np.log(found.log_weights.shape[1])))

    monkeypatch.setattr(numbers, "weigh", alike)
    assert np.nanmax(np.abs(z_scores([0]))) > 20


def test_weighted_draws_agree_with_the_exact_answer():
    network = random_network(2)
    given = {"v4": 0.3, "v0": "a"}
    exact = doxa.infer(network, given=given)
    sampled = doxa.infer(network, given=given, method="importance", seed=1)
    assert sampled.method == "importance"
    assert sampled.converged, sampled.verdict
    assert "asked for" in sampled.why
    z = [(sampled.log_evidence.value - exact.log_evidence.value) / sampled.log_evidence.mcse]
    for name in exact:
        if isinstance(exact[name], NetworkNumber):
            z += [(own.value - its.value) / own.mcse for own, its in (
                (sampled[name].mean, exact[name].mean), (sampled[name].sd, exact[name].sd),
                (sampled[name].quantile(0.7), exact[name].quantile(0.7)),
                (sampled[name].probability(below=0.2), exact[name].probability(below=0.2)),
            )]  # fmt: skip
        else:
            z += [(e.value - exact[name][k].value) / e.mcse for k, e in sampled[name].items() if not e.exact]
    assert len(z) > 8
    assert np.abs(z).max() < z_limit(len(z))


def test_a_run_ends_when_it_is_accurate_and_says_so():
    network = odds_network()
    rough = doxa.infer(network, "x", given={"g": "yes"}, until=doxa.Until(mcse=0.02), seed=1)
    fine = doxa.infer(network, "x", given={"g": "yes"}, until=doxa.Until(mcse=0.004), seed=1)
    assert fine["x"].mean.mcse < 0.004 * fine["x"].sd.value
    assert fine.numbers["draws"] > rough.numbers["draws"]
    assert "as accurate as asked" in fine.verdict
    assert "g is a category that depends on numbers" in fine.why
    short = doxa.infer(network, "x", given={"g": "yes"}, until=doxa.Until(mcse=1e-4, max_draws=5000), seed=1)
    assert "max_draws" in short.verdict
    again = doxa.infer(network, "x", given={"g": "yes"}, until=doxa.Until(mcse=0.02), seed=1)
    assert again["x"].mean == rough["x"].mean


def test_evidence_that_few_draws_agree_with_is_not_vouched_for():
    result = doxa.infer(
        odds_network(),
        "x",
        given={"g": "no", "y": 9.0},
        method="importance",
        until=doxa.Until(max_draws=20_000),
        seed=1,
    )
    assert result.converged is not True
    assert np.isnan(result["x"].mean.mcse)
    assert "Leave out what was seen" in result.verdict


def test_nodes_that_need_no_draws_are_exact_beside_those_that_do():
    result = doxa.infer(odds_network(), ["x", "g", "y"], given={"y": 2.5}, draws=500, seed=1)
    assert result["x"].mean.exact
    assert not result["g"]["yes"].exact
    assert result["y"].mean.value == 2.5
    assert result["y"].sd.value == 0.0
    assert result["y"].probability(above=3).value == 0.0
    assert result["y"].quantile(0.3).value == 2.5
    listed = doxa.infer(odds_network(), "g", given={"x": 1.0, "h": "c"})
    odds = np.exp(np.array([[0.0, 0.6, -1.0], [0.0, 1.1, -0.5]]))
    h = odds[:, 2] / odds.sum(axis=1)
    both = np.array([1 - 1 / (1 + np.exp(-0.8)), 1 / (1 + np.exp(-0.8))]) * h
    assert listed.method == "exact"
    assert listed["g"]["yes"].value == pytest.approx(both[1] / both.sum(), abs=1e-12)


def test_what_was_set_is_known_and_leaves_nothing_to_draw():
    result = doxa.infer(odds_network().do({"x": 1.0, "h": "b"}), seed=1)
    assert result.method == "exact"
    assert result["g"]["yes"].value == pytest.approx(1 / (1 + np.exp(-0.8)), abs=1e-12)
    assert result["y"].mean.value == pytest.approx(1.8, abs=1e-12)
    assert (result["x"].mean.value, result["x"].sd.value) == (1.0, 0.0)
    assert result["h"]["b"].value == 1.0


def test_nodes_that_the_same_evidence_speaks_about_share_their_draws():
    network, given = odds_network(), {"g": "yes", "h": "c"}
    both = doxa.infer(network, ["x", "y"], given=given, draws=2000, seed=1)
    alone = doxa.infer(network, "x", given=given, draws=2000, seed=1)
    assert both["x"].mean == alone["x"].mean  # the first of a group has the draws that it has alone
    assert both["y"].weighted is both["x"].weighted
    assert both.verdict.startswith("Reliable: x, y: ")
    more = doxa.infer(network, ["x", "g"], given={"h": "c"}, method="importance", draws=2000, seed=1)
    own = doxa.infer(network, "g", given={"h": "c"}, method="importance", draws=2000, seed=2)
    apart = more["g"]["yes"].value - own["g"]["yes"].value
    assert abs(apart) < 5 * np.hypot(more["g"]["yes"].mcse, own["g"]["yes"].mcse)


def test_answers_are_shown_kept_and_tabled():
    result = doxa.infer(odds_network(), given={"y": 2.5}, draws=500, seed=1)
    assert isinstance(result, GaussianInference)
    assert str(result).splitlines()[0].startswith("x        mean 1.31")
    assert "given y = 2.5" in repr(result)
    assert "standard deviation" in result._repr_html_()
    frame = result.to_frame()
    assert frame["variable"].tolist() == ["x", "g", "g", "h", "h", "h"]
    assert frame["case_lower"][0] < frame["mean"][0] < frame["case_upper"][0]
    again = pickle.loads(pickle.dumps(result))
    assert again["x"].mean == result["x"].mean
    assert again["g"]["yes"] == result["g"]["yes"]
    assert "where y = 2.5 seen" in repr(result["x"])
    assert result["x"].to_frame()["mean"][0] == result["x"].mean.value


def test_evidence_that_is_impossible_is_named():
    network = GaussianNetwork(
        Dag.from_edges([("a", "b"), ("a", "x"), ("c", "x")]),
        {"x": Regression([[0.0, 1.0], [2.0, 3.0]], np.zeros((2, 2, 0)), np.ones((2, 2)))},
        {"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.0, 1.0]], "c": [0.3, 0.7]},
        {"a": ["n", "y"], "b": ["n", "y"], "c": ["n", "y"]},
    )
    with pytest.raises(ImpossibleEvidenceError, match="'a' is 'n' and 'b' is 'y', which have probability 0") as caught:
        doxa.infer(network, "x", given={"a": "n", "b": "y", "c": "n"})
    assert caught.value.conflict == ("a", "b")
    never = GaussianNetwork(
        Dag.from_edges([("k", "m"), ("k", "g"), ("x", "g")]),
        {"x": Regression(0.0, [], 1.0)},
        {"k": [0.5, 0.5], "m": [[1.0, 0.0], [1.0, 0.0]]},
        {"k": ["n", "y"], "m": ["n", "y"], "g": ["n", "y"]},
        {"g": LogOdds([[0.0], [1.0]], [[[1.0]], [[2.0]]])},
    )
    with pytest.raises(ImpossibleEvidenceError, match="none of 40 weighted draws"):
        doxa.infer(never, "x", given={"m": "y", "g": "y"}, draws=10)


def test_many_configurations_are_drawn_and_not_listed():
    names = [f"k{j}" for j in range(17)]
    dag = Dag.from_edges([(name, f"x{j}") for j, name in enumerate(names)] + [(f"x{j}", "y") for j in range(17)])
    lines = {f"x{j}": Regression([0.0, 1.0], [[], []], [1.0, 1.0]) for j in range(17)}
    lines["y"] = Regression(0.0, np.ones(17), 1.0)
    network = GaussianNetwork(dag, lines, {k: [0.5, 0.5] for k in names}, {k: ["n", "y"] for k in names})
    with pytest.raises(BudgetError, match="131072 configurations"):
        doxa.infer(network, "y", method="exact")
    found = doxa.infer(network, "y", draws=2000, seed=1)
    assert "too many configurations" in found.why
    assert abs(found["y"].mean.value - 8.5) < 5 * found["y"].mean.mcse


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda n: doxa.infer(n, "x", given={"y": "fifty"}), ArgumentTypeError, r"given\['y'\] is 'fifty'.*a number"),
        (lambda n: doxa.infer(n, "x", given={"y": float("nan")}), ArgumentError, r"given\['y'\] is nan; give a finite"),
        (lambda n: doxa.infer(n, "x", given={"g": 2.5}), ArgumentTypeError, "the label of a state, such as 'no'"),
        (lambda n: doxa.infer(n, "x", given={"g": "perhaps"}), ArgumentError, "there are 'no', 'yes'"),
        (lambda n: doxa.infer(n, "x", given={"yy": 1.0}), ArgumentError, "given names 'yy'.*close to it is 'y'"),
        (lambda n: doxa.infer(n, "z"), ArgumentError, "query has 'z', which is no variable"),
        (lambda n: doxa.infer(n, "x", soft={"g": [1, 2, 3]}), ArgumentError, r"soft\['g'\] has shape \(3,\)"),
        (lambda n: doxa.infer(n, "x", soft={"y": 30.0}), ArgumentTypeError, r"is 30.0; .* give \(value, sd\)"),
        (lambda n: doxa.infer(n, "x", soft={"y": (3, 0)}), ArgumentError, r"above 0; say given={'y': 3} where"),
        (lambda n: doxa.infer(n, "x", soft={"yy": (3, 1)}), ArgumentError, "soft names 'yy'.*close to it is 'y'"),
        (lambda n: doxa.infer(n, "x", method="tempering"), ArgumentError, "take 'exact', 'importance', 'gibbs' or"),
        (lambda n: doxa.infer(n, "x", exact_budget=10), ArgumentError, "exact_budget is given.*leave it out"),
        (lambda n: doxa.infer(n, "g", method="exact"), ArgumentError, "a category that depends on numbers"),
        (lambda n: doxa.infer(n, "x")["y"], ArgumentError, "'y' was not asked for; there are 'x'"),
        (lambda n: doxa.infer(n, "x").probabilities("x"), ArgumentError, "a number, which has no states"),
        (lambda n: doxa.infer(n, "x")["x"].probability(between=(3, 1)), ArgumentError, "lower end comes first"),
        (lambda n: doxa.infer(n, "x")["x"].probability(above=float("nan")), ArgumentError, "neither above nor below"),
        (lambda n: doxa.infer(n, "x")["x"].probability(above="3"), ArgumentTypeError, "above is '3'; give a number"),
        (lambda n: doxa.infer(n, "x")["x"].probability(), ArgumentError, "give one of them"),
        (lambda n: doxa.infer(n, "x")["x"].quantile(1.5), ArgumentError, "strictly between"),
        (lambda n: doxa.infer(n, "g", draws=50)["g"].probability(above=3), ArgumentError, "states have no order"),
        (lambda n: doxa.infer(n, "g", draws=50)["g"]["perhaps"], ArgumentError, "no state of 'g'; there are 'no'"),
        (lambda n: doxa.infer(n.do({"x": 1.0}), "g", given={"x": 1.0}, method="importance", draws=50), ArgumentError,
         "without scatter"),
    ],
)  # fmt: skip
def test_bad_questions_are_named(ask, error, words):
    with pytest.raises(error, match=words):
        ask(odds_network())


def test_a_noisy_measurement_is_weighed_with_the_prior():
    """In closed form: precisions add up; the density of what was measured is that of its scatter and the prior's."""
    lines = {"age": Regression(50.0, [], 10.0), "pressure": Regression(80.0, [0.7], 8.0)}
    network = GaussianNetwork(doxa.Dag.from_edges([("age", "pressure")]), lines)
    found = doxa.infer(network, soft={"age": (60.0, 5.0)})
    precision = 1 / 100 + 1 / 25
    assert found["age"].mean.value == pytest.approx((50 / 100 + 60 / 25) / precision)
    assert found["age"].sd.value == pytest.approx(precision**-0.5)
    assert found["pressure"].sd.value == pytest.approx(math.sqrt(64 + 0.49 / precision))
    assert found.log_evidence.value == pytest.approx(norm.logpdf(60.0, 50.0, math.sqrt(125.0)))
    twice = doxa.infer(network, "age", soft={"age": (60.0, 5.0)}, given={"pressure": 130.0})
    precision += 0.49 / 64
    assert twice["age"].mean.value == pytest.approx((50 / 100 + 60 / 25 + 0.7 * 50 / 64) / precision)
    assert doxa.infer(network, "age", given={"age": 60.0})["age"].mean.value == 60.0  # which is not the same


@pytest.mark.parametrize("method", ["auto", "importance"])
def test_soft_evidence_about_categories_and_numbers_together(method):
    """Against the sum over the states, times a grid over the number below which a category stands."""
    network = odds_network()
    soft = {"g": {"no": 1.0, "yes": 3.0}, "x": (1.0, 0.5)}
    found = doxa.infer(network, ["x", "g", "y"], soft=soft, method=method, seed=1)
    hard = doxa.infer(network, ["x"], given={"x": 1.0}, method=method, seed=1)
    rng = np.random.default_rng(5)
    codes, numbers = network.draw_cells(400_000, rng)
    g, x, y = (network.names.index(name) for name in "gxy")
    weights = np.where(codes[:, g] == 1, 3.0, 1.0) * norm.pdf(1.0, numbers[:, x], 0.5)
    total = weights.sum()
    for of, value in ((x, found["x"].mean), (y, found["y"].mean)):
        mean = weights @ numbers[:, of] / total
        error = math.sqrt(weights**2 @ (numbers[:, of] - mean) ** 2) / total
        assert abs(value.value - mean) < 4.9 * math.hypot(error, value.mcse)
    share = weights @ (codes[:, g] == 1) / total
    assert abs(found["g"]["yes"].value - share) < 4.9 * math.hypot(found["g"]["yes"].mcse, 2e-3)
    log_evidence = math.log(total / len(weights))
    assert abs(found.log_evidence.value - log_evidence) < 4.9 * math.hypot(found.log_evidence.mcse, 4e-3)
    assert hard["x"].mean.value == 1.0


def chains_against(network, wanted, given, expected, seed=1, draws=2000):
    """z-scores of means, standard deviations and probabilities by chains, against values with errors."""
    found = doxa.infer(network, wanted, given=given, method="gibbs", seed=seed, draws=draws)
    assert found.method == "gibbs"
    z = []
    for name in wanted:
        own, other = found[name], expected[name]
        if name in network.regressions:
            low = float(other.quantile(0.3).value)
            pairs = [(own.mean, other.mean), (own.sd, other.sd)]
            pairs.append((own.probability(below=low), other.probability(below=low)))
        else:
            pairs = [(own[state], other[state]) for state in other]
        z += [(a.value - b.value) / math.hypot(a.mcse, b.mcse) for a, b in pairs if a.mcse > 0]
    return found, np.abs(z)


@pytest.mark.parametrize("seed", [0, 1])
def test_chains_have_the_exact_answers_where_there_are(seed):
    network = random_network(seed)
    names = network.names
    codes, numbers = network.draw_cells(1, np.random.default_rng(seed))
    seen = names[-1]
    given = {seen: float(numbers[0, -1]) if seen in network.regressions else network.states[-1][int(codes[0, -1])]}
    wanted = list(names[:-1])
    exact = doxa.infer(network, wanted, given=given, method="exact")
    found, z = chains_against(network, wanted, given, exact, draws=16_000)
    assert found.converged
    assert z.max() < z_limit(len(z))
    without = doxa.infer(network, wanted, method="exact")
    _, of_twin = chains_against(network, wanted, given, without)
    assert of_twin.max() > z_limit(len(z))  # chains that did not listen to the evidence


@pytest.mark.parametrize("given", [{}, {"y": 2.0, "h": "a"}, {"g": "yes", "h": "c"}])
def test_chains_below_and_above_log_odds_agree_with_weighted_draws(given):
    network = odds_network()
    wanted = [name for name in network.names if name not in given]
    weighted = doxa.infer(network, wanted, given=given, method="importance", until=doxa.Until(mcse=0.002), seed=2)
    found, z = chains_against(network, wanted, given, weighted)
    assert found.converged
    assert z.max() < z_limit(len(z))


def test_nodes_that_were_set_stand_where_they_were_set():
    network = odds_network().do({"x": 1.0})
    given = {"y": 2.0}
    weighted = doxa.infer(network, ["g", "h"], given=given, method="importance", until=doxa.Until(mcse=0.002), seed=2)
    _, z = chains_against(network, ["g", "h"], given, weighted)
    assert z.max() < z_limit(len(z))


def test_chains_are_refused_where_numbers_hold_each_other_fast():
    dag = Dag.from_edges([("x", "m"), ("m", "y")])
    lines = {"x": Regression(0.0, [], 1.0), "m": Regression(0.0, [2.0], 0.0), "y": Regression(0.0, [1.0], 1.0)}
    network = GaussianNetwork(dag, lines)
    with pytest.raises(ArgumentError, match="'m' has no scatter about its line"):
        doxa.infer(network, "x", given={"y": 1.0}, method="gibbs")
    assert doxa.infer(network, "x", given={"y": 1.0})["x"].mean.value == pytest.approx(0.4)


def test_states_that_are_impossible_leave_the_verdict_open():
    dag = Dag.from_edges([("a", "b"), ("a", "x")])
    tables = {"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.0, 1.0]]}
    lines = {"x": Regression([0.0, 1.0], [[], []], [1.0, 1.0])}
    network = GaussianNetwork(dag, lines, tables, {"a": ["n", "y"], "b": ["n", "y"]})
    found = doxa.infer(network, "b", given={"x": 0.5}, method="gibbs", draws=200, seed=1)
    assert found.converged is not True
    assert doxa.infer(network, "b", given={"x": 0.5})["b"]["y"].value == pytest.approx(0.5)


def test_chains_are_taken_where_weights_cannot_be_relied_on():
    """Ten numbers, each above a category that was seen in its rare state, and one category below them all."""
    xs, cs = [f"x{k}" for k in range(10)], [f"c{k}" for k in range(10)]
    dag = Dag.from_edges([*zip(xs, cs, strict=True), *((x, "d") for x in xs)])
    odds = {c: LogOdds([-9.0], [[2.0]]) for c in cs} | {"d": LogOdds([0.0], [[0.1] * 10])}
    states = {c: ["n", "y"] for c in [*cs, "d"]}
    network = GaussianNetwork(dag, {x: Regression(0.0, [], 3.0) for x in xs}, {}, states, odds)
    given = dict.fromkeys(cs, "y")
    found = doxa.infer(network, "d", given=given, seed=1, until=doxa.Until(max_draws=2**14))
    assert found.method == "gibbs"
    grid = np.linspace(-20.0, 20.0, 4001)
    weight = norm.pdf(grid, 0.0, 3.0) / (1.0 + np.exp(9.0 - 2.0 * grid))
    draws = np.random.default_rng(3).choice(grid, (200_000, 10), p=weight / weight.sum())
    share = 1.0 / (1.0 + np.exp(-0.1 * draws.sum(axis=1)))
    error = math.hypot(found["d"]["y"].mcse, share.std() / math.sqrt(len(share)))
    assert abs(found["d"]["y"].value - share.mean()) < 4.9 * error
    assert found["d"]["y"].mcse < 0.01
