"""Answers averaged over graphs, types and coefficients, against sums over all graphs and grids of coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from logistic_family_cases import (
    NAMES,
    REQUIRED,
    SCALE,
    all_graphs,
    exact_predictive,
    exact_query,
    learned,
    logistic_family,
    logistic_weight,
    mean_of_family,
    table_of,
)

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.structure import BDeu
from doxa.structure.averaging import draw_networks, query
from doxa.structure.families.logistic import FamilyMixture, Logistic
from doxa.structure.families.logistic.coefficients import CoefficientPosterior
from doxa.structure.families.logistic.parameters import LogisticFamily
from support.checks import SEED, z_limit

CASES = [("logistic", ()), ("auto", ()), ("auto", REQUIRED)]
QUESTIONS = [
    ("x2", {"x0": "y"}, {}),
    ("x0", {"x2": "y"}, {}),
    ("x0", {"x1": "n", "x2": "y"}, {}),
    ("x2", {}, {"x1": "y"}),
    ("x2", {"x0": "y"}, {"x1": "n"}),
]
LIMIT = z_limit(2 * len(CASES) * len(QUESTIONS))


def positions(mapping):
    return {NAMES.index(name): "ny".index(state) for name, state in mapping.items()}


def query_z(family, required, question):
    """How far `query` is from the sum over all graphs, in errors of both."""
    target, given, do = question
    mean, own = exact_query(
        family, required, NAMES.index(target), tuple(positions(given).items()), tuple(positions(do).items())
    )
    posterior = learned(family, required)
    found = query(posterior, table_of(), {target: "y"}, given, do, networks=3000, seed=SEED)
    return abs(found.value - mean) / np.hypot(found.mcse, own)


def predictive_z(family, required, question):
    target, given, do = question
    exact = exact_predictive(family, required, NAMES.index(target), positions(given), positions(do))
    found = learned(family, required).predictive({target: "y"}, given, do, networks=4000)
    return abs(found.value - exact) / found.mcse


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
@pytest.mark.parametrize(("family", "required"), CASES)
def test_query_is_the_mean_over_graphs_types_and_coefficients(family, required, question):
    assert query_z(family, required, question) < LIMIT


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
@pytest.mark.parametrize(("family", "required"), CASES)
def test_predictive_is_the_sum_over_graphs_types_and_coefficients(family, required, question):
    assert predictive_z(family, required, question) < LIMIT


def test_the_mode_in_the_place_of_draws_is_found_out(monkeypatch):
    def at_mode(posterior):
        """Where the law of the proposals is centred."""
        work = posterior._settled()
        return posterior.prior_scale * work.mean[: 1 + len(posterior.varying)]

    def draws(posterior, n, _stream):
        found = np.zeros((n, posterior._n_coefficients))
        found[:, [0, *posterior.varying]] = at_mode(posterior)
        return found

    monkeypatch.setattr(CoefficientPosterior, "draws", draws)
    learned.cache_clear()
    assert max(query_z("logistic", (), q) for q in QUESTIONS) > 2 * LIMIT
    learned.cache_clear()


@pytest.mark.parametrize("weight", [0.0, 1.0, 0.5])
def test_wrong_probabilities_of_types_are_found_out(monkeypatch, weight):
    """The likelier type alone, the other, and the prior shares; the right ones are .32, .71 and .71."""
    learned.cache_clear()

    def wrong(family):
        return weight if len(family.varying) > 1 else 1.0

    monkeypatch.setattr(LogisticFamily, "logistic_probability", property(wrong))
    assert max(predictive_z("auto", REQUIRED, question) for question in QUESTIONS) > LIMIT
    learned.cache_clear()


def test_tables_in_the_place_of_regressions_are_found_out():
    """What was asked of such posteriors before: a prior of tables."""
    posterior = learned("logistic")
    as_tables = posterior.predictive({"x2": "y"}, {"x0": "y", "x1": "n"}, networks=None, prior=BDeu(1.0))
    exact = exact_predictive("logistic", (), 2, {0: 1, 1: 0}, {})
    assert abs(as_tables.value - exact) > 2 * LIMIT * as_tables.mcse


def test_types_have_the_probabilities_of_their_evidences():
    draws = learned("auto").network_draws(None)
    n_types = 0
    for family, members in draws.users.items():
        own = draws.parameters_of(family)
        if len(family[1]) < 2:
            assert own.is_one_model
            assert own.logistic_probability == 1.0
            continue
        exact = logistic_weight("auto", *family)
        assert abs(own.logistic_probability - exact) < 2e-3
        share = own.is_logistic(len(members)).mean()
        assert abs(share - exact) < z_limit(3) * np.sqrt(exact * (1 - exact) / len(members)) + 2e-3
        assert (np.isnan(own.coefficients(len(members))[:, 0]) == ~own.is_logistic(len(members))).all()
        n_types += 1
    assert n_types == 3


@pytest.mark.parametrize("family", ["logistic", "auto"])
def test_tables_of_families_have_the_means_of_the_grid(family):
    draws = learned(family).network_draws(None)
    for child, parents in draws.users:
        exact = mean_of_family(family, child, parents)
        found = np.exp(draws.mean_tables((child, parents))).reshape(-1, 2)
        assert np.abs(np.log(found[:, 1] / exact)).max() < 0.01  # the least probabilities are .003
        assert np.allclose(found.sum(axis=1), 1)
        drawn = np.exp(draws.parameters_of((child, parents)).log_tables(4000))[..., 1]
        errors = drawn.std(axis=0) / np.sqrt(len(drawn))
        assert (np.abs(drawn.mean(axis=0) - exact) / errors).max() < z_limit(60)


def test_coefficients_are_averaged_over_graphs():
    found = learned("logistic").coefficients("x2", networks=None)
    graphs, p = all_graphs("logistic")
    exact = np.zeros(3)  # bias, x0, x1
    exact_square, included = np.zeros(3), np.zeros(3)
    for own, weight in zip(graphs, p, strict=True):
        parents = own[2]
        _, tables, chances = logistic_family(2, parents)
        logits = np.log(tables / (1 - tables))
        design = np.array(
            [(1, *(2 * int(bit) - 1 for bit in np.binary_repr(k, len(parents)))) for k in range(2 ** len(parents))]
        )
        design = design[:, : 1 + len(parents)]
        theta = logits @ np.linalg.pinv(design).T
        places = [0, *(1 + j for j in parents)]
        exact[places] += weight * (chances @ theta)
        exact_square[places] += weight * (chances @ theta**2)
        included[places] += weight
    frame = found.summary()
    assert frame["coefficient"].tolist() == ["bias", "x0", "x1"]
    assert (np.abs(frame["mean"] - exact) / frame["mcse"]).max() < z_limit(6)
    assert np.abs(frame["sd"] / np.sqrt(exact_square - exact**2) - 1).max() < 0.05
    n = found.draws[..., 0].size
    assert (np.abs(frame["probability"] - included)[1:] < z_limit(6) * np.sqrt(0.25 / n) + 1e-3).all()
    assert ((found.draws == 0) == ~found.is_parent).all()
    assert found.logistic_probability.exact
    at = found.draws[..., 1].ravel()
    assert np.allclose(frame.loc[1, ["lower", "upper"]].astype(float), np.quantile(at, [0.025, 0.975]))
    conditional = exact[1] / included[1]  # the twin: the mean over graphs that have the edge alone
    assert abs(frame.loc[1, "mean"] - conditional) > 2 * z_limit(6) * frame.loc[1, "mcse"]


def test_coefficients_of_a_mixture_are_those_of_its_regressions():
    posterior = learned("auto", REQUIRED)
    found = posterior.coefficients("x2", networks=None)
    _, tables, p = logistic_family(2, (0, 1))
    logits = np.log(tables / (1 - tables))
    exact = p @ logits @ np.linalg.pinv(np.array([[1, -1, -1], [1, -1, 1], [1, 1, -1], [1, 1, 1]])).T
    frame = found.summary()
    assert (np.abs(frame["mean"] - exact) / frame["mcse"]).max() < z_limit(3)
    weight = logistic_weight("auto", 2, (0, 1))
    assert abs(found.logistic_probability.value - weight) < 2e-3
    assert abs(found.is_logistic.mean() - weight) < 0.05
    assert (np.isnan(found.draws).all(axis=-1) == ~found.is_logistic).all()
    root = learned("auto").coefficients(
        "x2", networks=None
    )  # which has fewer parents, too: tables that are regressions
    drawn = learned("auto").network_draws(None)
    for family, members in drawn.users.items():
        if family == (2, (0,)):
            logits = np.diff(drawn.drawn_tables(family), axis=-1)[..., 0]
            own = root.draws.reshape(-1, 3)[members]
            assert np.allclose(own[:, 0] + own[:, 1], logits[:, 1])
            assert np.allclose(own[:, 0] - own[:, 1], logits[:, 0])
            assert (own[:, 2] == 0).all()


def test_draws_do_not_depend_on_what_is_asked_before():
    posterior = learned("auto")
    one, two = (draw_networks(posterior, table_of(), 400) for _ in range(2))
    families = list(one.users)
    for family in families:
        one.drawn_tables(family)
    for family in families[::-1]:
        two.mean_tables(family)
        assert (two.drawn_tables(family) == one.drawn_tables(family)).all()
    other = draw_networks(posterior, table_of(), 400, seed=9)
    assert not (other.drawn_tables(families[0]) == one.drawn_tables(families[0])).any()


def test_everything_a_posterior_answers_is_answered_for_logistic_families():
    posterior = doxa.learn(table_of(), family="auto", draws=50, warmup=20, seed=1, progress=False)
    networks = list(posterior.networks(8))
    assert len(networks) == 8
    assert networks[0].tables["x2"].sum(axis=-1) == pytest.approx(1.0)
    assert len(list(posterior.networks(8, mean=True))) == 8
    tables = posterior.parent_tables("x2")
    assert ((tables["lower"] < tables["mean"]) & (tables["mean"] < tables["upper"])).all()
    assert posterior.predict(table_of(), "x2").groupby("row")["probability"].sum().to_numpy() == pytest.approx(1.0)
    assert posterior.log_predictive(table_of()).total.value < 0
    assert posterior.predictive_checks(replicas=20)["tail"].between(0, 1).all()
    assert posterior.impute().empty
    assert len(posterior.completed_tables(2)) == 2
    sampled = posterior.coefficients("x0")
    assert sampled.draws.shape == (4, 50, 3)


def test_a_prior_can_be_named_for_every_answer():
    posterior = doxa.learn(table_of(), draws=50, warmup=20, seed=1, progress=False)  # tables
    plain, named = posterior.query({"x2": "y"}), posterior.query({"x2": "y"}, prior=Logistic())
    assert plain.value != named.value
    assert posterior.query({"x2": "y"}, prior=BDeu(1.0)).value == plain.value
    for prior in (BDeu(30.0), Logistic(5.0), FamilyMixture()):
        ask = {"prior": prior}
        assert posterior.predictive({"x2": "y"}, **ask).value != posterior.predictive({"x2": "y"}).value
        assert posterior.predict(table_of(), "x2", **ask).shape == (80, 5)
        assert posterior.log_predictive(table_of(), **ask).total.value < 0
        assert len(list(posterior.networks(4, **ask))) == 4
        assert len(posterior.predictive_checks(replicas=16, **ask))
        assert not posterior.parent_tables("x2", 1, **ask).empty
        assert posterior.impute(**ask).empty
    assert posterior.coefficients("x2", prior=Logistic()).logistic_probability.exact


def test_what_logistic_families_cannot_do_is_said():
    posterior = learned("logistic")
    with pytest.raises(ArgumentError, match=r"rows has a state that the table does not have in 'x0', and logistic fam"):
        posterior.log_predictive(Table.from_codes(("x0",), (("n", "y", "?"),), [[2]]), unseen="prior")
    assert (
        learned("auto").log_predictive(Table.from_codes(("x0",), (("n", "?"),), [[1]]), unseen="prior").total.value < 0
    )
    tables = doxa.learn(table_of(), draws=8, warmup=0, thin=1, seed=1, progress=False)
    with pytest.raises(ArgumentError, match="families are tables, which have no coefficients; learn with family='log"):
        tables.coefficients("x2")
    three = Table.from_codes(("a", "b"), (("n", "y"), ("r", "s", "t")), [[0, 0], [1, 1], [0, 2], [1, 0]])
    mixed = doxa.learn(three, family="auto", required=[("b", "a")], exact=False, draws=8, warmup=0, thin=1, seed=1)
    with pytest.raises(ArgumentError, match="'b' has 3 states; a logistic family has a node of two"):
        mixed.coefficients("b")
    with pytest.raises(ArgumentError, match="'a' has a logistic family in none of the 32 networks, but tables: see"):
        mixed.coefficients("a")
    with pytest.raises(ArgumentError, match=r"needs columns of two states, and the table has 'b' \(3 states\)"):
        mixed.query("a", prior=Logistic())
    assert 0 < mixed.query({"a": "y"}, {"b": "s"}).value < 1
    missing_cells = Table.from_codes(("a", "b"), (("n", "y"),) * 2, [[0, 0], [1, -1], [0, 1], [1, 0]])
    incomplete = doxa.learn(missing_cells, draws=8, warmup=0, thin=1, seed=1, progress=False)
    assert 0 < incomplete.query({"a": "y"}, prior=FamilyMixture()).value < 1  # a regression for each completion


def test_columns_of_one_state_are_harmless():
    codes = np.insert(table_of().codes[table_of().row_index], 1, 0, axis=1)
    table = Table.from_codes(("x0", "k", "x1", "x2"), (("n", "y"), ("only",), ("n", "y"), ("n", "y")), codes)
    edges = [("x0", "x2"), ("k", "x2"), ("x0", "k")]
    for family in ("logistic", "auto"):
        posterior = doxa.learn(table, family=family, required=edges, exact=False, draws=20, warmup=0, thin=9, seed=1)
        assert 0 < posterior.query({"x2": "y"}, {"x0": "y"}).value < 1
        assert posterior.query("k")["only"].value == pytest.approx(1.0)
        of_k = posterior.coefficients("x2").draws[..., 2]
        assert (of_k[~np.isnan(of_k)] == 0).all()
        seen = posterior.predict(Table.from_codes(("x0",), (("n", "y"),), [[1]]), "x2")
        assert seen["probability"].sum() == pytest.approx(1.0)


def many_columns(n, n_parents):
    codes = np.random.default_rng(3).integers(0, 2, (60, n))
    table = Table.from_codes([f"x{i}" for i in range(n)], [("n", "y")] * n, codes)
    edges = [(f"x{i}", f"x{n - 1}") for i in range(n_parents)]
    options = {"exact": False, "draws": 4, "warmup": 0, "thin": 1, "chains": 1, "sampler": "single_edge", "seed": 1}
    return table, {"required": edges, "max_parents": {f"x{n - 1}": n_parents}, **options}


def test_many_parents_have_coefficients_and_no_tables():
    table, options = many_columns(21, 20)
    posterior = doxa.learn(table, family="logistic", **options)
    found = posterior.coefficients("x20", networks=None)
    assert found.draws.shape == (1, 4, 21)
    assert (found.draws != 0).all()
    with pytest.raises(ArgumentError, match=r"'x20' has 20 parents in some network; answers list .* max_parents=15 or"):
        posterior.query("x20", networks=None)
    with pytest.raises(ArgumentError, match=r"'x20' has 20 parents in some network"):
        posterior.predict(table, "x20", networks=None)


def test_more_than_63_parents_are_refused():
    table, options = many_columns(66, 1)
    for cap in (None, 64):
        with pytest.raises(
            ArgumentError, match=r"'x0' may have 6\d parents, and a logistic family has at most 63; give"
        ):
            doxa.learn(table, family="logistic", **{**options, "max_parents": cap})
    assert doxa.learn(table, family="logistic", **{**options, "max_parents": 63}).n_edges.shape == (1, 4)
    assert Logistic().prior_scale == SCALE
