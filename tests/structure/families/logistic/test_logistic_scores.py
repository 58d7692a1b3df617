"""Bounds lie below and in order, types are summed, lists and samplers see what enumeration sees."""

from __future__ import annotations

import math

import numpy as np
import pytest
from logistic_score_cases import KINDS, binary_table, problem_of, random_codes

from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.indicators import diagnose_indicators
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.sampling.driver import Schedule, sample
from doxa.structure import Auto, BDeu, SingleEdge
from doxa.structure.exact.enumeration import enumerate_posterior, family_score_table
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.logistic import FamilyMixture, Logistic
from doxa.structure.families.logistic.report import family_evidence, family_types
from doxa.structure.families.score_table import build_score_table
from doxa.structure.limits import capped
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.priors import make_prior
from support.checks import SEED, worst_z, z_limit
from support.tables import skewed_table

METHODS = ("laplace", "jaakkola_jordan", "optimal")


def test_bounds_lie_below_in_order_and_are_those_of_the_variational_room():
    rng = np.random.default_rng(2)
    for kind in KINDS:
        for n_parents, n_rows, scale in ((0, 30, 2.0), (1, 200, 2.0), (3, 100, 10.0), (4, 400, 2.0)):
            codes = random_codes(rng, n_parents, n_rows, kind)
            table = binary_table(codes)
            value, jordan, best = (
                family_evidence(table, "x0", table.names[1:], Logistic(scale, method)) for method in METHODS
            )
            assert jordan.log_evidence <= best.log_evidence + 1e-6
            assert best.log_evidence <= value.log_evidence + 4 * value.error + 1e-6
            problem = problem_of(codes, scale)
            assert jordan.log_evidence <= batch_posterior(problem).log_evidence + 1e-8
            assert jordan.log_evidence == pytest.approx(batch_posterior(problem).log_evidence, abs=2e-3)
            assert best.log_evidence == pytest.approx(optimal_posterior(problem).log_evidence, abs=1e-4)
            assert math.isnan(jordan.error)
            assert jordan.n_nodes == 0


def test_types_are_summed_with_their_shares():
    table = binary_table(random_codes(np.random.default_rng(1), 3, 300, "mild"))
    for share in (0.1, 0.5, 0.999):
        score = FamilyMixture(2.0, logistic_share=share)
        found = family_types(table, "x0", ("x1", "x2", "x3"), score)
        logistic = family_evidence(table, "x0", ("x1", "x2", "x3"))
        assert (found.log_logistic, found.error) == (logistic.log_evidence, logistic.error)
        total = np.logaddexp(math.log(share) + found.log_logistic, math.log1p(-share) + found.log_table)
        assert found.log_score == pytest.approx(total, abs=1e-12)
        assert found.log_score < max(found.log_table, found.log_logistic)
        assert found.logistic_probability == pytest.approx(math.exp(math.log(share) + logistic[0] - total), abs=1e-12)


def test_types_that_are_one_model_take_the_tables_score():
    codes = random_codes(np.random.default_rng(1), 2, 300, "mild")
    table = Table.from_codes(
        ("x0", "x1", "k", "many"), (("n", "y"), ("n", "y"), ("only",), ("a", "b", "c")),
        np.column_stack([codes[:, :2], np.zeros(300, dtype=int), np.arange(300) % 3]),
    )  # fmt: skip
    for parents in ((), ("x1",), ("x1", "k")):
        found = family_types(table, "x0", parents, FamilyMixture(logistic_share=0.3))
        assert found.log_score == found.log_table == found.log_logistic
        assert found.logistic_probability == 0.3
    impossible = family_types(table, "x0", ("x1", "many"))
    assert (impossible.log_score, impossible.logistic_probability) == (impossible.log_table, 0.0)
    # so x0 -> x1 and x1 -> x0 stay equivalent
    one = family_types(table, "x0").log_score + family_types(table, "x1", ("x0",)).log_score
    other = family_types(table, "x1").log_score + family_types(table, "x0", ("x1",)).log_score
    assert one == pytest.approx(other, abs=1e-9)


def test_data_of_either_type_are_told_apart():
    rng = np.random.default_rng(7)
    additive = random_codes(rng, 3, 2000, "mild")
    parents = rng.integers(0, 2, (2000, 3))
    xor = np.column_stack([(rng.random(2000) < 0.2 + 0.6 * (parents.sum(axis=1) % 2)).astype(int), parents])
    names = ("x1", "x2", "x3")
    assert family_types(binary_table(additive), "x0", names).logistic_probability > 0.99
    assert family_types(binary_table(xor), "x0", names).logistic_probability < 1e-6


def test_settings_are_checked():
    for bad in (0, -1.0, math.nan, math.inf, 1e9):
        with pytest.raises(ArgumentError, match=r"prior_scale is .*; it must be from 0.001 to 1000"):
            Logistic(bad)
    with pytest.raises(ArgumentTypeError, match=r"prior_scale is '2'; it must be a number from 0.001 to 1000"):
        Logistic("2")
    with pytest.raises(
        ArgumentError, match=r"method is 'em'; it must be one of 'laplace', 'jaakkola_jordan', 'optimal'"
    ):
        Logistic(method="em")
    with pytest.raises(ArgumentError, match=r"logistic_share is 1.0; it must be from"):
        FamilyMixture(logistic_share=1.0)
    with pytest.raises(ArgumentError, match=r"tolerance is 0.0; it must be from 1e-06 to 1"):
        FamilyMixture(tolerance=0.0)
    assert "Jaakkola-Jordan bound" in Logistic(method="jaakkola_jordan").text
    assert "prior probability 0.5" in FamilyMixture().text


# -- graphs ----------------------------------------------------------------------------------------------------------


def all_families(scores):
    """Log score of every family, prior included: dictionary by child and bit set."""
    table = family_score_table(scores)
    return {(child, words): value for (child, words), value in np.ndenumerate(table) if np.isfinite(value)}


def any_graph(n_nodes):
    return capped([n_nodes - 1] * n_nodes)


SCORES = {
    "logistic": Logistic(),
    "bound": Logistic(method="jaakkola_jordan"),
    "mixture": FamilyMixture(logistic_share=0.3),
}


def edges_of_a_run(move, scores, limits):
    trace = sample(StructureSampler(move, scores, limits, 30), Schedule(4, 4000, 300), seed=SEED, workers=1)
    return diagnose_indicators(IndicatorCounts.from_words(trace["rows"], scores.n_nodes))


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("move", [SingleEdge(), Auto()], ids=lambda move: move.name)
def test_long_runs_agree_with_enumeration(move, name):
    table = skewed_table(4, 60, seed=7)
    prior = make_prior(table.names, "uniform", edge_log_odds={("x1", "x0"): 0.8})
    scores, limits = FamilyScores(table, SCORES[name], prior), any_graph(4)
    exact = enumerate_posterior(scores, limits).edge_probabilities
    found = edges_of_a_run(move, scores, limits)
    free = (exact > 1e-3) & (exact < 1 - 1e-3)
    assert free.sum() >= 7
    assert worst_z(found.probability[free], exact[free], found.mcse[free]) < z_limit(free.sum())
    wrong = enumerate_posterior(FamilyScores(table, BDeu(), prior), limits).edge_probabilities
    free = (wrong > 1e-3) & (found.mcse > 0)
    assert worst_z(found.probability[free], wrong[free], found.mcse[free]) > z_limit(free.sum())


def test_scores_to_the_tolerance_move_edges_by_less_than_two_thousandths():
    for seed in range(6):
        table = skewed_table(4, (30, 100, 400)[seed % 3], seed=seed)
        edges = [
            enumerate_posterior(FamilyScores(table, Logistic(tolerance=tolerance))).edge_probabilities
            for tolerance in (0.01, 1e-4)
        ]
        assert np.abs(edges[0] - edges[1]).max() < 2e-3


def test_direct_lists_are_those_of_shared_counts_when_the_scores_are():
    table = skewed_table(6, 200, seed=3)
    limits = capped([5, 5, 3, 2, 5, 1])
    # a mixture with hardly a share for logistic families is BDeu but for 1e-9
    nearly = FamilyMixture(logistic_share=1e-9)
    shared = build_score_table(FamilyScores(table), limits, max_size=3, keep_within=6.0)
    direct = build_score_table(FamilyScores(table, nearly), limits, max_size=3, keep_within=6.0)
    assert (direct.first == shared.first).all()
    assert (direct.sets == shared.sets).all()
    np.testing.assert_allclose(direct.log_weight, shared.log_weight, atol=1e-3)
    assert (direct.info.n_computed, direct.info.n_counted) == (shared.info.n_computed, 0)
    assert direct.info.pruned_mass == pytest.approx(shared.info.pruned_mass, rel=1e-3)


@pytest.mark.parametrize("workers", [1, 3])
def test_direct_lists_hold_every_family_or_a_subset_that_beats_it(workers):
    table = skewed_table(5, 150, seed=5)
    scores = FamilyScores(table, Logistic())
    families = all_families(scores)
    found = build_score_table(scores, any_graph(5), max_size=4, keep_within=3.0, workers=workers)
    assert found.info.n_computed == 5 * 16
    for child in range(5):
        part = slice(found.first[child], found.first[child + 1])
        listed = dict(zip(found.sets[part, 0].tolist(), found.log_weight[part].tolist(), strict=True))
        assert (np.diff(found.log_weight[part]) <= 0).all()
        own = {words: value for (node, words), value in families.items() if node == child}
        for words, value in own.items():
            best = max((v for w, v in own.items() if w & words == w and w != words), default=-np.inf)
            assert (words in listed) == (value > best - 3.0)
            assert words not in listed or listed[words] == value


def test_tables_with_more_states_are_refused_by_logistic_scores_alone():
    table = skewed_table(3, 40, seed=1, n_states=3)
    with pytest.raises(ArgumentError, match=r"needs columns of two states, and the table has 'x1' \(3 states\)"):
        FamilyScores(table, Logistic())
    families = all_families(FamilyScores(table, FamilyMixture()))
    plain = all_families(FamilyScores(table, FamilyMixture(logistic_share=1e-9)))
    binary = (2, 0b011)  # holds x1
    assert families[binary] == plain[binary]
