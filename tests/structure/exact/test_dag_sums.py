"""Sums over all graphs: against enumeration, known counts, exact fractions, permuted nodes; draws by chi-square."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chi2

from doxa.errors import ArgumentError
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.exact import dag_sums
from doxa.structure.exact import dag_sums as dag_draws
from doxa.structure.exact.dag_budget import ExactCost, family_count, fits, predicted_cost
from doxa.structure.exact.dag_recursions import backward, forward, references
from doxa.structure.exact.dag_sums import PrecisionError, log_sum_over_dags, sum_over_dags
from doxa.structure.exact.dag_weights import Families, Threads
from doxa.structure.exact.enumeration import all_dags, enumerate_posterior, exact_edge_probabilities, exact_posterior
from doxa.structure.exact.family_sums import subset_sums
from doxa.structure.families.cache import FamilyScores, local_weights
from doxa.structure.limits import capped, make_limits
from support.checks import FALSE_ALARM, SEED, worst_z, z_limit
from support.networks import load_network
from support.tables import skewed_table

LABELLED_DAGS = [1, 3, 25, 543, 29281, 3781503, 1138779265, 783702329343]  # n = 1, 2, ...; OEIS A003024


@cache
def graphs(n):
    """All graphs as rows, parent masks (graph, node) and reachability matrices."""
    rows = all_dags(n)
    edges = unpack_rows(rows, n)
    parents = pack_rows(edges.transpose(0, 2, 1))[:, :, 0].astype(np.int64)
    reach = edges.astype(np.int64)
    for _ in range(n):
        reach = np.minimum(reach + reach @ edges, 1)
    return rows, parents, edges, reach


def listed(log_weights):
    """Log of the total weight, and the probability of every graph."""
    n = len(log_weights)
    log_score = log_weights[np.arange(n), graphs(n)[1]].sum(axis=1)
    top = log_score.max()
    weight = np.exp(log_score - top)
    return top + math.log(weight.sum()), weight / weight.sum()


def random_weights(n, seed, scale=1.0, impossible=0.0, cap=None):
    rng = np.random.default_rng(seed)
    log_weights = scale * rng.normal(size=(n, 2**n))
    sets = np.arange(2**n)
    log_weights[rng.random(log_weights.shape) < impossible] = -np.inf
    log_weights[:, 0] = np.where(log_weights[:, 0] == -np.inf, -scale, log_weights[:, 0])  # some graph is possible
    log_weights[(sets >> np.arange(n)[:, None] & 1) == 1] = -np.inf
    if cap is not None:
        log_weights[:, np.bitwise_count(sets) > cap] = -np.inf
    return log_weights


def as_lists(log_weights):
    finite = [np.flatnonzero(np.isfinite(row)) for row in log_weights]
    return [(masks, row[masks]) for masks, row in zip(finite, log_weights, strict=True)]


def edge_penalty(n, log_weight):
    """Weights exp(log_weight)^edges, as lists."""
    sets = np.arange(2**n)
    own = [sets[(sets >> node & 1) == 0] for node in range(n)]
    return [(masks, log_weight * np.bitwise_count(masks).astype(float)) for masks in own]


def counted(n, weight=Fraction(1)):
    """Exact sum over the graphs on n nodes of weight^edges."""
    sums = [Fraction(1)]
    for m in range(1, n + 1):
        terms = (
            (-1) ** (k + 1) * math.comb(m, k) * (1 + weight) ** (k * (m - k)) * sums[m - k] for k in range(1, m + 1)
        )
        sums.append(sum(terms))
    return sums[n]


def log_fraction(x):
    return math.log(float(x))  # the quotient is rounded once


def assert_agrees(posterior, log_weights, tolerance=1e-11):
    n = len(log_weights)
    _, parents, edges, reach = graphs(n)
    log_total, probability = listed(log_weights)
    assert posterior.log_evidence == pytest.approx(log_total, rel=1e-14, abs=tolerance)
    np.testing.assert_allclose(posterior.edge_probabilities, np.einsum("g,gij->ij", probability, edges), atol=tolerance)
    ancestors = np.einsum("g,gij->ij", probability, reach)
    np.testing.assert_allclose(posterior.ancestor_probabilities, ancestors, atol=tolerance)
    for node in range(n):
        masks, found = posterior.parent_sets(node)
        assert set(masks.tolist()) == set(np.flatnonzero(np.isfinite(log_weights[node])).tolist())
        right = np.bincount(parents[:, node], weights=probability, minlength=2**n)
        np.testing.assert_allclose(found, right[masks.astype(np.int64)], atol=tolerance)
        assert found.sum() == pytest.approx(1.0, abs=1e-14)
        assert (np.diff(found) <= 0).all()
    assert math.exp(posterior.log_relative_error) < 1e-8


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("scale", [0.1, 2.0, 30.0, 3000.0])
@pytest.mark.parametrize(("impossible", "cap"), [(0.0, None), (0.5, None), (0.2, 2), (0.9, None)])
def test_sums_agree_with_enumeration(n, scale, impossible, cap):
    log_weights = random_weights(n, n, scale, impossible, cap)
    posterior = sum_over_dags(log_weights)
    # log weights of thousands of nats are themselves rounded at 1e-12
    assert_agrees(posterior, log_weights, tolerance=1e-11 if scale > 100 else 1e-13)
    again = sum_over_dags(as_lists(log_weights))
    assert again.log_evidence == posterior.log_evidence
    np.testing.assert_array_equal(again.edge_probabilities, posterior.edge_probabilities)


@given(st.integers(2, 4), st.integers(0, 2**32 - 1), st.floats(0.01, 1e4), st.floats(0.0, 0.9))
@settings(max_examples=60, deadline=None)
def test_sums_agree_with_enumeration_whatever_the_weights(n, seed, scale, impossible):
    log_weights = random_weights(n, seed, scale, impossible)
    assert_agrees(sum_over_dags(log_weights), log_weights, tolerance=1e-10)


def test_the_comparison_sees_one_family_off_by_a_part_in_a_million():
    log_weights = random_weights(4, 1)
    broken = log_weights.copy()
    broken[2, 0b1001] += 1e-6
    with pytest.raises(AssertionError):
        assert_agrees(sum_over_dags(broken), log_weights)


def test_graphs_far_below_the_heaviest_families_are_summed_right():
    log_weights = np.full((3, 8), -np.inf)  # the heaviest families form cycles, their best alternatives weigh nothing
    log_weights[0, [0b000, 0b010, 0b110]] = [-9000.0, 0.0, -20.0]
    log_weights[1, [0b000, 0b100, 0b101]] = [-9001.0, 0.0, -30.0]
    log_weights[2, [0b000, 0b001, 0b011]] = [-9000.5, 0.0, -1.0]
    posterior = sum_over_dags(log_weights)
    assert posterior.log_evidence < -8990
    assert_agrees(posterior, log_weights)


@pytest.mark.parametrize("n", range(1, 9))
def test_equal_weights_count_the_graphs(n):
    assert counted(n) == LABELLED_DAGS[n - 1]
    assert math.exp(log_sum_over_dags(edge_penalty(n, 0.0))) == pytest.approx(LABELLED_DAGS[n - 1], rel=1e-13)


@pytest.mark.parametrize("n", [12, 13, 14, pytest.param(17, marks=pytest.mark.slow)])
@pytest.mark.parametrize("log_weight", [0.0, -3.0, -8.0])
def test_larger_sums_are_those_of_exact_fractions(n, log_weight):
    weight = Fraction(math.exp(log_weight))
    posterior = sum_over_dags(edge_penalty(n, log_weight))
    assert posterior.log_evidence == pytest.approx(log_fraction(counted(n, weight)), rel=1e-13, abs=1e-13)
    assert math.exp(posterior.log_relative_error) < 1e-11
    off = posterior.edge_probabilities[~np.eye(n, dtype=bool)]
    np.testing.assert_allclose(off, off[0], rtol=1e-13)
    # the mean number of edges is the derivative of the sum by the logarithm of the weight, over the sum
    step = Fraction(1, 10**9)
    slope = (counted(n, weight * (1 + step)) - counted(n, weight * (1 - step))) / (2 * step)
    assert off.sum() == pytest.approx(float(slope / counted(n, weight)), rel=1e-13)


@pytest.mark.slow
def test_twenty_nodes_are_counted():
    log_total = log_sum_over_dags(edge_penalty(20, 0.0))
    assert log_total == pytest.approx(log_fraction(counted(20)), rel=1e-15)


def pair_total(n, log2_weight):
    """A(V) by the compiled recursion, all its digits, and its bound; weights that doubles hold exactly."""
    families = [
        Families(m, np.full(m.size, 0.5), 1 + log2_weight * np.bitwise_count(m).astype(np.int64), 0.0, 0.0)
        for m, _ in edge_penalty(n, 0.0)
    ]
    with Threads(n, 1) as threads:
        alpha = subset_sums(families, threads)
        inside, outside = references(alpha)
        forward(alpha, inside, threads)
        backward(alpha, inside, outside, threads)
    for sums, at in ((inside, -1), (outside, 0)):
        high, low, bound, _ = sums.cells[at]
        yield (Fraction(high) + Fraction(low)) * Fraction(2) ** int(sums.exponents[at, 3]), bound / high


def plain_total(n, weight):
    """The same recursion in single doubles."""
    total = np.zeros(2**n)
    total[0] = 1.0
    for members in range(1, 2**n):
        sinks = members
        while sinks:
            rest = members & ~sinks
            term = total[rest] * (1 + weight) ** (sinks.bit_count() * rest.bit_count())
            total[members] -= term * (-1) ** sinks.bit_count()
            sinks = (sinks - 1) & members
    return total[-1]


@pytest.mark.parametrize("n", [9, 13])
@pytest.mark.parametrize("log2_weight", [0, -5, -9])
def test_digits_are_kept_and_errors_stay_within_their_bounds(n, log2_weight):
    right = counted(n, Fraction(1, 2**-log2_weight))
    for value, bound in pair_total(n, log2_weight):
        error = float(abs(value / right - 1))
        assert error < 1e-25
        assert error <= bound < 1e-15


def test_single_doubles_would_lose_digits():
    n, weight = 9, 2.0**-9
    error = abs(float(Fraction(float(plain_total(n, weight))) / counted(n, Fraction(weight)) - 1))
    assert error > 1e-13  # nine nearly independent nodes; twenty lose all sixteen digits


def permuted(log_weights, order):
    """The weights with node ``order[i]`` renamed i."""
    n = len(log_weights)
    sets = np.arange(2**n)
    renamed = sum(((sets >> int(old) & 1) << new) for new, old in enumerate(order))
    other = np.empty_like(log_weights)
    other[:, renamed] = log_weights[order]
    return other


@pytest.mark.parametrize(("n", "scale", "cap"), [(9, 1.0, None), (13, 5.0, 3), (13, 300.0, None), (14, 0.3, 2)])
def test_renaming_the_nodes_changes_nothing(n, scale, cap):
    log_weights = random_weights(n, 3, scale, 0.1, cap)
    order = np.random.default_rng(0).permutation(n)
    one, two = sum_over_dags(log_weights), sum_over_dags(permuted(log_weights, order))
    assert two.log_evidence == pytest.approx(one.log_evidence, rel=1e-14, abs=1e-11)
    np.testing.assert_allclose(two.edge_probabilities, one.edge_probabilities[np.ix_(order, order)], atol=1e-11)
    np.testing.assert_allclose(two.ancestor_probabilities, one.ancestor_probabilities[np.ix_(order, order)], atol=1e-11)


@pytest.mark.parametrize("places", [(0, 5, 10, 12, 13), (13, 1, 12, 11, 0), (9, 10, 11, 12, 13)])
def test_five_nodes_among_fourteen_are_as_five_alone(places):
    few = random_weights(5, 8, 2.0, 0.2)
    lists = [([0], [0.25])] * 14
    for node, (masks, values) in enumerate(as_lists(few)):
        moved = sum(((masks >> k & 1) << place) for k, place in enumerate(places))
        lists[places[node]] = (moved, values)
    posterior = sum_over_dags(lists)
    log_total, probability = listed(few)
    assert posterior.log_evidence == pytest.approx(log_total + 9 * 0.25, rel=1e-13)
    edges = np.einsum("g,gij->ij", probability, graphs(5)[2])
    np.testing.assert_allclose(posterior.edge_probabilities[np.ix_(places, places)], edges, atol=1e-13)
    assert posterior.edge_probabilities.sum() == pytest.approx(edges.sum())


def test_results_do_not_depend_on_the_number_of_threads():
    log_weights = random_weights(15, 4, 3.0, cap=2)
    one, two = (sum_over_dags(log_weights, workers=workers) for workers in (1, 2))
    assert one.log_evidence == two.log_evidence == log_sum_over_dags(log_weights, workers=2)
    assert one.log_relative_error == two.log_relative_error
    np.testing.assert_array_equal(one.edge_probabilities, two.edge_probabilities)
    np.testing.assert_array_equal(one.ancestor_probabilities, two.ancestor_probabilities)
    draws = [posterior.draw(50, np.random.default_rng(1)) for posterior in (one, two)]
    np.testing.assert_array_equal(*draws)


def test_an_answer_that_may_be_wrong_is_refused(monkeypatch):
    monkeypatch.setattr(dag_sums, "_WORST_ERROR", 1e-30)
    for function in (sum_over_dags, log_sum_over_dags):
        with pytest.raises(PrecisionError, match=r"relative error may reach .*e-.*sample graphs"):
            function(random_weights(4, 0))


def test_a_score_of_tables_agrees_with_enumeration():
    limits = make_limits(
        [f"x{i}" for i in range(5)], max_parents=3, required=[("x0", "x3")], forbidden=[("x4", "x1"), ("x2", "x0")]
    )
    for seed, n_rows, limit in product(range(2), (40, 2000), (None, capped([4, 1, 2, 3, 0]), limits)):
        scores = FamilyScores(skewed_table(5, n_rows, seed=seed, n_states=3))
        right, found = enumerate_posterior(scores, limit), exact_posterior(scores, limit)
        np.testing.assert_allclose(found.edge_probabilities, right.edge_probabilities, atol=1e-11)
        np.testing.assert_array_equal(found.edge_probabilities, exact_edge_probabilities(scores, limit))
        assert found.log_evidence == pytest.approx(logsumexp(right.log_score), rel=1e-14)
        assert found.names == scores.names
        masks, probability = found.parent_sets("x3")
        np.testing.assert_array_equal(masks, found.parent_sets(3).masks)
        assert probability[masks & 1 == 1].sum() == pytest.approx(found.edge_probabilities[0, 3])


def test_log_scores_of_draws_are_those_of_their_families():
    limits = make_limits([f"x{i}" for i in range(5)], max_parents=2, required=[("x0", "x3")])
    for n_rows in (40, 3000):
        scores = FamilyScores(skewed_table(5, n_rows, seed=2, n_states=3))
        found = exact_posterior(scores, limits)
        graphs = found.draw(200, np.random.default_rng(SEED))
        right = local_weights(scores, graphs).sum(axis=1)
        assert np.ptp(right) > 1.0
        np.testing.assert_allclose(found.log_scores(graphs), right, rtol=1e-13)


def test_asia_is_as_another_program_found_it():
    posterior = exact_posterior(FamilyScores(load_network("asia").sample(1000, seed=1)))
    assert posterior.log_evidence == pytest.approx(-2235.475469, abs=5e-7)  # own C++ program, long double
    assert posterior.edge_probabilities.sum() == pytest.approx(11.4033, abs=5e-5)
    log_graphs = log_sum_over_dags(edge_penalty(8, 0.0))
    assert math.exp(log_graphs) == pytest.approx(LABELLED_DAGS[7])  # log_evidence - log_graphs: uniform prior


@pytest.mark.slow
def test_child_is_as_another_program_found_it():
    scores = FamilyScores(load_network("child").sample(1000, seed=1))
    posterior = exact_posterior(scores, capped(np.full(20, 3)))
    assert posterior.log_evidence == pytest.approx(-12884.649257, abs=5e-7)
    assert posterior.edge_probabilities.sum() == pytest.approx(21.4741, abs=5e-5)
    assert math.exp(posterior.log_relative_error) < 1e-9
    assert_edges_of_draws(posterior, posterior.draw(10_000, np.random.default_rng(SEED)))


# Draws.


def chi_square_p(posterior, log_weights, n_draws, seed):
    """P-value of the counts of all graphs in independent draws; 0 if an impossible graph is drawn."""
    rows, _, _, _ = graphs(len(log_weights))
    _, probability = listed(log_weights)
    place = {row.tobytes(): k for k, row in enumerate(rows)}
    draws = posterior.draw(n_draws, np.random.default_rng(seed))
    counts = np.bincount([place[row.tobytes()] for row in draws], minlength=len(rows))
    if counts[probability == 0].any():
        return 0.0
    expected = n_draws * probability
    common = expected >= 10
    seen, right = counts[common], expected[common]
    if not common.all() and expected[~common].sum() > 10:  # the rest as one cell
        seen, right = np.append(seen, counts[~common].sum()), np.append(right, expected[~common].sum())
    return float(chi2.sf(((seen - right) ** 2 / right).sum(), len(right) - 1))


CASES = [(3, 0.5, 0.0, None), (3, 1.5, 0.4, None), (4, 0.7, 0.0, None), (4, 1.5, 0.5, None), (4, 1.0, 0.1, 1)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_have_the_enumerated_distribution(case):
    n, scale, impossible, cap = case
    log_weights = random_weights(n, 11, scale, impossible, cap)
    assert chi_square_p(sum_over_dags(log_weights), log_weights, 40_000, SEED) > FALSE_ALARM


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_that_forget_the_last_layer_fail_the_same_check(case, monkeypatch):
    n, scale, impossible, cap = case
    log_weights = random_weights(n, 11, scale, impossible, cap)
    monkeypatch.setattr(dag_draws, "minus", lambda *_: 1.0)
    try:
        p_value = chi_square_p(sum_over_dags(log_weights), log_weights, 40_000, SEED)
    except PrecisionError:
        p_value = 0.0  # a layer without possible parents: noticed at once
    assert p_value < FALSE_ALARM


def assert_edges_of_draws(posterior, rows):
    exact = posterior.edge_probabilities
    found = unpack_rows(rows, posterior.n_nodes).mean(axis=0)
    known = len(rows) * exact * (1 - exact) > 30
    errors = np.sqrt(exact * (1 - exact) / len(rows))
    assert known.any()
    assert worst_z(found[known], exact[known], errors[known]) < z_limit(known.sum())
    assert (found[exact < 1e-12] == 0).all()
    sizes = np.bitwise_count(rows).sum(axis=(1, 2))
    assert worst_z(sizes.mean(), exact.sum(), sizes.std() / math.sqrt(len(rows)) + 1e-12) < z_limit(1)


@pytest.mark.parametrize(("n", "scale", "cap"), [(8, 1.0, None), (13, 4.0, 2), (10, 1000.0, 3)])
def test_draws_on_more_nodes_have_the_exact_edges(n, scale, cap):
    log_weights = random_weights(n, 5, scale, 0.1, cap)
    if scale > 100:
        log_weights[:, 0b11] = log_weights[:, 0]  # ties, so that something is left to chance
        log_weights[:2, 0b11] = -np.inf
    posterior = sum_over_dags(log_weights)
    rows = posterior.draw(5000, np.random.default_rng(SEED))
    assert rows.shape == (5000, n, 1)
    assert rows.dtype == np.uint64
    if scale < 100:
        assert_edges_of_draws(posterior, rows)
    walks = unpack_rows(rows, n).astype(np.int64)
    for _ in range(4):
        walks = np.minimum(walks @ walks + walks, 1)
    assert not np.trace(walks, axis1=1, axis2=2).any()


def test_no_draws_and_bad_numbers_of_draws():
    posterior = sum_over_dags(random_weights(3, 0))
    assert posterior.draw(0, np.random.default_rng(0)).shape == (0, 3, 1)
    with pytest.raises(ArgumentError, match="n_draws is -1; it must be 0 or more"):
        posterior.draw(-1, np.random.default_rng(0))


# What is refused.


@pytest.mark.parametrize(
    ("log_weights", "message"),
    [
        (
            np.zeros((3, 4)),
            r"log_weights has shape \(3, 4\); it must be \(n_nodes, 2\*\*n_nodes\), for at most 24 nodes",
        ),
        ([([0], [0.0])] * 25, "log_weights has 25 nodes; sums over all graphs are for 1 to 24 nodes"),
        ([], "log_weights has 0 nodes"),
        ([([0], [np.nan])], r"log_weights\[0\] contains NaN or inf"),
        ([([0], [0.0]), ([0], [np.inf])], r"log_weights\[1\] contains NaN or inf"),
        ([([0], [-np.inf])], r"log_weights\[0\] has no finite entry; node 0 needs at least one possible parent set"),
        ([([0], [0.0]), ([2], [0.0])], r"log_weights\[1\] has a finite weight for parents that include 1 itself"),
        ([([0], [0.0]), ([4], [0.0])], r"log_weights\[1\] has a finite weight for parents .* no node at all"),
        ([([2], [0.0]), ([1], [0.0])], "log_weights allow no graph at all"),
        ([([0, 2], [0.0]), ([0], [0.0])], r"log_weights\[0\] has \(2,\) masks and \(1,\) weights"),
        ([([0, 2, 2], [0.0] * 3), ([0], [0.0])], r"log_weights\[0\] lists a parent set twice"),
        ([([0, 2], [0.0, -1e300]), ([0], [0.0])], "may differ by 5e.07: use -inf for what is impossible"),
    ],
)
def test_bad_weights_are_refused(log_weights, message):
    with pytest.raises(ArgumentError, match=message):
        sum_over_dags(log_weights)


def test_bad_names_and_nodes_are_refused():
    with pytest.raises(ArgumentError, match="names has 1 entries but log_weights has 2 nodes"):
        sum_over_dags([([0], [0.0])] * 2, names=["a"])
    posterior = sum_over_dags([([0], [0.0])] * 2, names=["a", "b"])
    with pytest.raises(ArgumentError, match="node 'c' is not among the nodes 'a', 'b'"):
        posterior.parent_sets("c")
    with pytest.raises(ArgumentError, match="node is 2; positions run from 0 to 1"):
        posterior.parent_sets(2)
    assert repr(posterior).startswith("ExactPosterior(2 nodes, log evidence 0.000000, error below ")


def test_costs_are_counted():
    cost = predicted_cost(20, max_parents=3)
    assert cost.n_operations == 2 * 3**20 + 2 * 20 * 19 * 2**18
    assert str(cost) == "7.2 billion operations and 767 MB"
    assert family_count(4) == 4 * 8
    assert family_count(20, 3) == 20 * 1160
    assert fits(cost, cost)
    assert not fits(cost, ExactCost(cost.n_operations - 1, cost.n_bytes))
    assert not fits(cost, ExactCost(cost.n_operations, cost.n_bytes - 1))
    assert str(ExactCost(27, 10**6)) == "27 operations and little memory"
    with pytest.raises(ArgumentError, match="n_nodes is 0; it must be 1 or more"):
        predicted_cost(0)
