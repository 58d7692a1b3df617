"""Soft knowledge: the forms of a prior, its share of each family, and posteriors under it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure import K2
from doxa.structure.exact.enumeration import enumerate_posterior, exact_edge_probabilities, exact_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.scores import BDeu
from doxa.structure.limits import make_limits
from doxa.structure.priors import PRIORS, family_log_prior, make_prior, uniform_prior
from support.tables import skewed_table

NAMES = ("x0", "x1", "x2", "x3")
ODDS = np.array([[0.0, 1.5, 0.0, -2.0], [-0.7, 0.0, 0.3, 0.0], [0.0, 0.0, 0.0, 0.1], [4.0, 0.0, -1.0, 0.0]])


# --- forms -----------------------------------------------------------------------------------------------------------


def test_without_words_the_prior_is_sparse():
    for prior in (make_prior(NAMES), make_prior(NAMES, edge_log_odds=0), make_prior(NAMES, "sparse")):
        assert prior.kind == "sparse"
        assert not prior.is_uniform
        assert prior.edge_log_odds.shape == (4, 4)
    assert not make_prior(NAMES, "in_degree").is_uniform


def test_the_uniform_prior_is_uniform_without_odds():
    for prior in (uniform_prior(4), make_prior(NAMES, "uniform"), make_prior(NAMES, "uniform", edge_log_odds=0)):
        assert prior.is_uniform
        assert prior.kind == "uniform"
        assert prior.edge_log_odds.shape == (4, 4)
    assert not make_prior(NAMES, "uniform", edge_log_odds={("x0", "x1"): 0.1}).is_uniform


@pytest.mark.parametrize("number", [-2, 0.5, Fraction(1, 2), np.float32(0.5), np.int64(-3)], ids=repr)
def test_one_number_is_for_all_edges(number):
    odds = make_prior(NAMES, edge_log_odds=number).edge_log_odds
    assert np.array_equal(odds, float(number) * ~np.eye(4, dtype=bool))


def test_a_mapping_and_an_array_say_the_same():
    mapping = {(NAMES[i], NAMES[j]): float(ODDS[i, j]) for i, j in np.argwhere(ODDS).tolist()}
    filled = ODDS + np.diag([9.0, np.nan, np.inf, 1.0])  # the diagonal is no edge
    for form in (mapping, ODDS, ODDS.tolist(), filled):
        assert np.array_equal(make_prior(NAMES, edge_log_odds=form).edge_log_odds, ODDS)


def test_an_array_is_copied():
    mine = ODDS.copy()
    prior = make_prior(NAMES, edge_log_odds=mine)
    mine[0, 1] = 99.0
    assert prior.edge_log_odds[0, 1] == 1.5


CERTAIN = "(required= and forbidden= say what is certain)"
FORM = "give a number, a mapping from (source, target), or an array"


@pytest.mark.parametrize(
    ("kind", "odds", "error", "message"),
    [
        ("flat", None, ArgumentError, "prior is 'flat'; it must be one of 'sparse', 'uniform', 'in_degree'"),
        (None, None, ArgumentError, "prior is None; it must be one of 'sparse', 'uniform', 'in_degree'"),
        ("uniform", math.nan, ArgumentError, f"edge_log_odds is nan; it must be finite {CERTAIN}"),
        ("uniform", -math.inf, ArgumentError, f"edge_log_odds is -inf; it must be finite {CERTAIN}"),
        ("uniform", True, ArgumentTypeError, f"edge_log_odds is True; {FORM}"),
        ("uniform", "many", ArgumentTypeError, f"edge_log_odds is 'many'; {FORM}"),
        ("uniform", "2", ArgumentTypeError, f"edge_log_odds is '2'; {FORM}"),
        ("uniform", [["a"]], ArgumentTypeError, f"edge_log_odds is [['a']]; {FORM}"),
        (
            "uniform",
            np.zeros((3, 4)),
            ArgumentError,
            "edge_log_odds has shape (3, 4); for 4 columns it must be (4, 4)",
        ),
        (
            "uniform",
            np.where(np.eye(4, k=1), np.inf, 0.0),
            ArgumentError,
            f"edge_log_odds of 'x0' -> 'x1' is inf; it must be finite {CERTAIN}",
        ),
        (
            "uniform",
            {"x0,x1": 1.0},
            ArgumentTypeError,
            "edge_log_odds has the key 'x0,x1'; keys are pairs of names (source, target)",
        ),
        (
            "uniform",
            {("x0", "x1", "x2"): 1.0},
            ArgumentTypeError,
            "edge_log_odds has the key ('x0', 'x1', 'x2'); keys are pairs of names (source, target)",
        ),
        (
            "uniform",
            {("x0", "y"): 1.0},
            ArgumentError,
            "edge_log_odds names 'y', which is not a column of the table",
        ),
        (
            "uniform",
            {("x0", "x0"): 1.0},
            ArgumentError,
            "edge_log_odds names the edge 'x0' -> 'x0'; edges join two nodes",
        ),
        (
            "uniform",
            {("x0", "x1"): math.inf},
            ArgumentError,
            f"edge_log_odds[('x0', 'x1')] is inf; it must be finite {CERTAIN}",
        ),
        (
            "uniform",
            {("x0", "x1"): "2"},
            ArgumentTypeError,
            "edge_log_odds[('x0', 'x1')] is '2'; it must be a finite number",
        ),
        (
            "uniform",
            {("x0", "x1"): True},
            ArgumentTypeError,
            "edge_log_odds[('x0', 'x1')] is True; it must be a finite number",
        ),
    ],
)
def test_bad_priors_are_refused_by_name(kind, odds, error, message):
    with pytest.raises(error) as refused:
        make_prior(NAMES, kind, odds)
    assert str(refused.value) == message


def test_a_number_beyond_floats_is_refused():
    for odds in (10**400, {("x0", "x1"): -(10**400)}):
        with pytest.raises(ArgumentError, match="it must be finite"):
            make_prior(NAMES, edge_log_odds=odds)


# --- families --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PRIORS)
@pytest.mark.parametrize("n", [4, 70])
def test_the_share_of_a_family_is_that_of_its_plain_twin(kind, n):
    rng = np.random.default_rng(n)
    odds = rng.normal(size=(n, n))
    prior = make_prior([f"v{i}" for i in range(n)], kind, odds)
    for _ in range(100):
        child = int(rng.integers(n))
        parents = rng.random(n) < rng.random()
        parents[child] = False
        plain = odds[parents, child].sum()
        if kind != "uniform":
            plain -= math.log(math.comb(n - 1, int(parents.sum())))
        if kind == "sparse":
            plain -= parents.sum() * math.log(n)
        assert family_log_prior(child, pack_rows(parents), prior.arrays) == pytest.approx(plain, abs=1e-10)


def test_in_degree_makes_the_number_of_parents_uniform_before_the_ban_on_cycles():
    for n in (2, 4, 9):
        by_in_degree = make_prior([f"v{i}" for i in range(n)], "in_degree").by_in_degree
        sets = [math.comb(n - 1, k) for k in range(n)]
        np.testing.assert_allclose(np.exp(by_in_degree) * sets, 1.0)


def test_the_sparse_prior_divides_the_probability_by_n_for_each_parent_before_the_ban_on_cycles():
    for n in (2, 4, 9, 40):
        by_in_degree = make_prior([f"v{i}" for i in range(n)], "sparse").by_in_degree
        share = np.exp(by_in_degree) * [math.comb(n - 1, k) for k in range(n)]  # of all sets of k parents
        np.testing.assert_allclose(share * float(n) ** np.arange(n), 1.0, rtol=1e-12)
        expected = n * (share * np.arange(n)).sum() / share.sum()  # edges
        assert expected == pytest.approx(1.0 if n == 40 else expected, abs=0.03)
        assert 0.6 < expected < 1.3


@pytest.mark.parametrize("kind", ["sparse", "in_degree"])
def test_very_many_nodes_have_a_finite_prior(kind):
    assert np.isfinite(make_prior([f"v{i}" for i in range(3000)], kind).by_in_degree).all()


# --- posteriors ------------------------------------------------------------------------------------------------------


def by_hand(table, kind, odds, score):
    """Probabilities of all graphs: those under the uniform prior, weighted by the prior, edge by edge."""
    flat = enumerate_posterior(FamilyScores(table, score))
    adjacency = unpack_rows(flat.rows, 4)
    log_prior = (adjacency * odds).sum(axis=(1, 2))
    if kind != "uniform":
        sets = np.array([math.comb(3, k) for k in range(4)])
        log_prior = log_prior - np.log(sets[adjacency.sum(axis=1)]).sum(axis=1)
    if kind == "sparse":
        log_prior = log_prior - math.log(4) * adjacency.sum(axis=(1, 2))
    weight = flat.probability * np.exp(log_prior - log_prior.max())
    return flat, weight / weight.sum(), log_prior


@pytest.mark.parametrize("kind", PRIORS)
@pytest.mark.parametrize("odds", [np.zeros((4, 4)), ODDS, -1.2 * ~np.eye(4, dtype=bool)], ids=["none", "some", "all"])
@pytest.mark.parametrize("score", [BDeu(), K2()], ids=repr)
def test_posteriors_under_a_prior_are_those_made_by_hand(kind, odds, score):
    table = skewed_table(4, 60, seed=3, n_states=3)
    flat, probability, log_prior = by_hand(table, kind, odds, score)
    scores = FamilyScores(table, score, make_prior(NAMES, kind, odds))
    found = enumerate_posterior(scores)
    np.testing.assert_allclose(found.probability, probability, atol=1e-13)
    np.testing.assert_allclose(found.log_score, flat.log_score + log_prior, atol=1e-9)
    assert np.array_equal(found.rows, flat.rows)
    edges = np.einsum("g,gij->ij", probability, unpack_rows(flat.rows, 4))
    np.testing.assert_allclose(exact_edge_probabilities(scores), edges, atol=1e-10)
    whole = np.logaddexp.reduce(flat.log_score + log_prior)
    assert exact_posterior(scores).log_evidence == pytest.approx(whole, abs=1e-9)


def test_without_data_the_posterior_is_the_prior():
    """One record scores every graph alike."""
    one = doxa.data.Table.from_codes(NAMES, [["a", "b"]] * 4, np.zeros((1, 4), dtype=int))
    penalised = enumerate_posterior(FamilyScores(one, prior=make_prior(NAMES, "uniform", edge_log_odds=-0.5)))
    n_edges = np.bitwise_count(penalised.rows).sum(axis=(1, 2))
    weight = np.exp(-0.5 * n_edges)
    np.testing.assert_allclose(penalised.probability, weight / weight.sum(), atol=1e-14)


def test_a_penalty_leaves_fewer_edges_and_odds_draw_an_edge_in():
    table = skewed_table(4, 60, seed=3, n_states=3)
    n_edges = [
        exact_edge_probabilities(FamilyScores(table, prior=make_prior(NAMES, "uniform", edge_log_odds=penalty))).sum()
        for penalty in (0.0, -1.0, -3.0, -30.0)
    ]
    assert all(np.diff(n_edges) < -0.1)
    assert n_edges[-1] < 0.01
    likely = FamilyScores(table, prior=make_prior(NAMES, "uniform", edge_log_odds={("x3", "x0"): 8.0}))
    assert exact_edge_probabilities(likely)[3, 0] > exact_edge_probabilities(FamilyScores(table))[3, 0] + 0.3


def test_very_large_odds_are_as_good_as_limits():
    table = skewed_table(4, 60, seed=3)
    odds = {("x2", "x0"): 500.0, ("x0", "x1"): -500.0}
    soft = exact_edge_probabilities(FamilyScores(table, prior=make_prior(NAMES, "uniform", edge_log_odds=odds)))
    limits = make_limits(NAMES, required=[("x2", "x0")], forbidden=[("x0", "x1")])
    np.testing.assert_allclose(soft, exact_edge_probabilities(FamilyScores(table), limits), atol=1e-9)


@pytest.mark.parametrize("sampler", ["auto", "single_edge"])
@pytest.mark.parametrize("kind", ["sparse", "in_degree"])
def test_learning_is_from_the_posterior_under_the_prior(sampler, kind):
    table = skewed_table(4, 60, seed=3, n_states=3)
    odds = {("x1", "x0"): 1.0, ("x0", "x3"): -1.0}
    posterior = doxa.learn(table, sampler=sampler, prior=kind, edge_log_odds=odds, draws=3000, thin=20, seed=5)
    right = FamilyScores(table, prior=make_prior(NAMES, kind, odds))
    wrong = [FamilyScores(table), FamilyScores(table, prior=make_prior(NAMES, kind))]
    assert _inside(posterior, exact_edge_probabilities(right))
    assert not any(_inside(posterior, exact_edge_probabilities(scores)) for scores in wrong)
    assert posterior.options.prior == kind
    assert posterior.options.edge_log_odds == (("x0", "x3", -1.0), ("x1", "x0", 1.0))


def _inside(posterior, exact):
    for i, source in enumerate(NAMES):
        for j, target in enumerate(NAMES):
            if i != j:
                low, high = posterior.edge(source, target).interval(0.99999)
                if not low <= exact[i, j] <= high:
                    return False
    return True
