"""Score tables: every weight against the score of its family, nothing missing, and the bound on what is left out."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, xlogy

from doxa.data import Table, datasets
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.exact.enumeration import enumerate_posterior, family_score_lists
from doxa.structure.families import score_table, shared_counts
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.counting import count_family
from doxa.structure.families.score_table import build_score_table
from doxa.structure.families.scores import BIC, K2, BDeu
from doxa.structure.families.set_numbers import subsets
from doxa.structure.families.shared_counts import SharedCounts
from doxa.structure.limits import capped, is_legal_family, make_limits
from doxa.structure.priors import make_prior
from support.tables import skewed_table

SCORES = [BDeu(), BDeu(30.0), K2(), K2(0.3), BIC()]
NAMES = tuple(f"x{i}" for i in range(6))
STATES = [3, 2, 4, 2, 3, 5]
LIMITS = {
    "none": {},
    "caps": {"max_parents": {"x0": 0, "x1": 1, "x2": 2, "x3": 4}},
    "required and forbidden": {"required": [("x0", "x3"), ("x4", "x3"), ("x1", "x2")], "forbidden": [("x5", "x3")]},
    "tiers": {"tiers": [["x4", "x5"], ["x1", "x2"]], "max_parents": 3},
    "configurations": {"max_configurations": 12, "required": [("x0", "x3")], "max_parents": {"x2": 2}},
    "more required than listed": {"required": [(f"x{i}", "x5") for i in range(4)]},
}


def all_to_all(n):
    return capped([n - 1] * n)


def mixed_table(radices, n_rows, seed, counts=None):
    """Columns that depend on the ones before them, with these numbers of states."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((n_rows, len(radices)), dtype=np.int64)
    for j, radix in enumerate(radices):
        noise = (rng.gamma(1.0, radix / 3.0, size=n_rows)).astype(np.int64)
        codes[:, j] = (noise + (codes[:, j - 1] if j else 0)) % radix
    names = [f"x{j}" for j in range(len(radices))]
    return Table.from_codes(names, [[f"s{k}" for k in range(radix)] for radix in radices], codes, counts)


def families(table, n):
    """The table as one dictionary of {parents: log weight} a node."""
    members = unpack_rows(table.sets, n)
    return [
        {tuple(np.flatnonzero(members[k]).tolist()): float(table.log_weight[k]) for k in range(begin, end)}
        for begin, end in zip(table.first[:-1], table.first[1:], strict=True)
    ]


def legal_sets(limits, child, n, most):
    for size in range(most + 1):
        for parents in combinations([i for i in range(n) if i != child], size):
            members = np.zeros(n, dtype=bool)
            members[list(parents)] = True
            if is_legal_family(limits, child, pack_rows(members)):
                yield parents


def assert_weights_are_scores(table, scores, step=1):
    names = scores.names
    for child, listed in enumerate(families(table, len(names))):
        for parents, weight in list(listed.items())[::step]:
            right = scores.log_score(names[child], tuple(names[p] for p in parents))
            assert math.isclose(weight, right, rel_tol=1e-10, abs_tol=1e-10), (child, parents)


def assert_in_order(table):
    assert table.first[0] == 0
    assert table.first[-1] == len(table.sets) == len(table.log_weight) == table.info.n_kept
    for begin, end in zip(table.first[:-1], table.first[1:], strict=True):
        assert end > begin
        assert (np.diff(table.log_weight[begin:end]) <= 0).all()
        assert len(set(map(tuple, table.sets[begin:end].tolist()))) == end - begin


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.text)
@pytest.mark.parametrize("limited", LIMITS)
@pytest.mark.parametrize("max_size", [0, 2, 3])
def test_all_legal_sets_are_listed_with_the_scores_of_their_families(score, limited, max_size):
    limits = make_limits(NAMES, n_states=STATES, **LIMITS[limited])
    prior = make_prior(NAMES, "in_degree", {("x0", "x1"): 1.7, ("x4", "x3"): -0.6, ("x2", "x3"): 2.5})
    scores = FamilyScores(mixed_table(STATES, 90, seed=1), score, prior)
    table = build_score_table(scores, limits, max_size=max_size, keep_within=math.inf)
    assert_in_order(table)
    assert_weights_are_scores(table, scores)
    assert table.info.n_pruned == 0
    assert table.info.pruned_mass == 0.0
    for child, listed in enumerate(families(table, 6)):
        n_required = int(limits.required_edges[:, child].sum())
        expected = set(legal_sets(limits, child, 6, max(max_size, n_required)))
        assert expected <= set(listed)
        assert set(listed) <= set(legal_sets(limits, child, 6, 5))


@pytest.mark.parametrize("limited", LIMITS)
def test_left_to_itself_a_table_holds_every_legal_family(limited):
    limits = make_limits(NAMES, n_states=STATES, **LIMITS[limited])
    scores = FamilyScores(mixed_table(STATES, 90, seed=1), prior=make_prior(NAMES))
    table = build_score_table(scores, limits, keep_within=math.inf)
    for listed, (masks, weights) in zip(families(table, 6), family_score_lists(scores, limits), strict=True):
        found = {sum(1 << parent for parent in parents): weight for parents, weight in listed.items()}
        assert found.keys() == set(masks.tolist())
        np.testing.assert_allclose([found[mask] for mask in masks.tolist()], weights, rtol=1e-12)
    assert table.info.n_computed == len(table.sets)
    loose = limits._replace(max_log_configs=np.full(6, math.inf))
    without = build_score_table(FamilyScores(scores.table), loose, keep_within=math.inf)
    assert (len(without.sets) > len(table.sets)) == (limited == "configurations")


def test_left_to_itself_a_table_has_all_sets_of_few_columns():
    """Where every case is a configuration of its own, large sets hold nearly everything, and no part of them does."""
    scores = FamilyScores(mixed_table([6] * 9, 300, seed=1))
    every = of_nodes(build_score_table(scores, all_to_all(9), max_size=8, keep_within=math.inf))
    found = build_score_table(scores, all_to_all(9))
    assert found.info.max_size == 8
    assert of_nodes(found) == pytest.approx(every, abs=1e-6)
    assert (of_nodes(build_score_table(scores, all_to_all(9), max_size=6)) < every - 4).any()  # the same would show


def of_nodes(table):
    """Log weight of all listed families of each node together."""
    return np.array([logsumexp(table.log_weight[a:b]) for a, b in pairwise(table.first.tolist())])


def test_larger_sets_are_left_to_growth_where_the_prior_holds_them_down():
    table = mixed_table([2] * 24, 60, seed=1)
    sparse, uniform = (FamilyScores(table, prior=make_prior(table.names, kind)) for kind in ("sparse", "uniform"))
    limits = make_limits(table.names, max_configurations=60, n_states=table.n_states)
    assert score_table.usual_size(sparse, limits) == 5  # of 32 configurations: all that there are
    assert score_table.usual_size(sparse, make_limits(table.names)) == 6
    assert score_table.usual_size(uniform, make_limits(table.names)) == 7
    required = [(f"x{j}", "x8") for j in range(7)]
    assert score_table.usual_size(sparse, make_limits(table.names, required=required)) == 7


def test_few_families_of_votes_give_the_lists_that_all_give():
    """For completions of missing cells: of 17 columns all sets of up to five parents, and those that grow."""
    votes = datasets.load("house_votes")
    codes = np.maximum(votes.codes[votes.row_index], 0)
    table = Table.from_codes(votes.names, votes.states, codes)
    scores = FamilyScores(table, prior=make_prior(table.names, "sparse"))
    limits = make_limits(table.names, max_configurations=table.n_rows, n_states=table.n_states)
    every = build_score_table(scores, limits, keep_within=6.0)
    size = score_table.usual_size(scores, limits, 2**17)
    assert (size, every.info.max_size) == (5, 8)
    few = build_score_table(scores, limits, max_size=size, keep_within=6.0)
    assert few.info.n_computed < every.info.n_computed / 5
    assert families(few, 17) == families(every, 17)
    assert families(build_score_table(scores, limits, max_size=2, keep_within=6.0), 17) != families(every, 17)


def test_of_the_large_sets_those_that_gain_most_are_kept():
    scores = FamilyScores(mixed_table([2] * 8, 60, seed=1))
    whole = families(build_score_table(scores, all_to_all(8), max_size=7, keep_within=math.inf), 8)
    few = build_score_table(scores, all_to_all(8), max_size=7, keep_within=math.inf, most_large=5)
    assert_in_order(few)
    by_weight = 0
    for every, kept in zip(whole, families(few, 8), strict=True):
        large = [parents for parents in every if len(parents) > 3]  # heaviest first
        assert len(large) == 35 + 21 + 7 + 1
        gain = {own: every[own] - max(every[sub] for sub in every if set(sub) < set(own)) for own in large}
        best = sorted(large, key=gain.get, reverse=True)[:5]
        assert list(kept) == [parents for parents in every if len(parents) <= 3 or parents in best]
        by_weight += set(best) != set(large[:5])
    assert by_weight  # the heaviest are others


@pytest.mark.parametrize("score", [BDeu(), K2(), BIC()], ids=lambda score: score.name)
def test_sums_are_those_of_the_counts(score):
    table = mixed_table([3, 2, 4, 1, 3], 70, seed=5)
    columns = range(5)
    with ThreadPoolExecutor(1) as pool:
        counts = SharedCounts(FamilyScores(table, score).data, score.rule(table.n_rows), 4, pool)
        for size in range(1, 5):
            if size == 3:  # in two parts that overlap
                counts.count(3, [np.array([7, 2]), np.array([2, 3])])
                assert not counts.has_all(3)
                counts.count(3, [np.arange(10)])
            else:
                counts.count_all(size)
            sums = counts.sums(size, np.arange(math.comb(5, size)), 0)
            for members, value in zip(subsets(5, size), sums, strict=True):
                n = count_family(table, table.names[members[0]], tuple(table.names[m] for m in members[1:])).ravel()
                if score.name == "bic":
                    right = xlogy(n, n).sum()
                else:
                    a = 1.0 if score.name == "k2" else 1.0 / n.size
                    right = (gammaln(a + n) - gammaln(a)).sum()
                assert math.isclose(value, right, rel_tol=1e-11)
    assert counts.n_counted == 5 + 10 + 10 + 5
    assert [tuple(row) for row in subsets(5, 3)] == sorted(combinations(columns, 3), key=lambda s: s[::-1])


@pytest.mark.parametrize("score", [BDeu(), K2(), BIC()], ids=lambda score: score.name)
@pytest.mark.parametrize(
    ("constant", "value"), [("_MOST_TERMS", 0), ("_MOST_PRODUCTS", 3), ("_FEWEST_CELLS", 0), ("_MOST_CELLS", 40)]
)
def test_bounded_work_space_changes_no_weight(score, constant, value, monkeypatch):
    table = mixed_table([9, 7, 8, 20, 6], 300, seed=2)
    monkeypatch.setattr(shared_counts, constant, value)
    if constant == "_MOST_CELLS":  # sets of labels are renumbered by occurrence
        monkeypatch.setattr(shared_counts, "_FEWEST_CELLS", 0)
    scores = FamilyScores(table, score)
    assert_weights_are_scores(build_score_table(scores, all_to_all(5), max_size=4, keep_within=math.inf), scores)


@pytest.mark.parametrize("score", [BDeu(), K2(), BIC()], ids=lambda score: score.name)
def test_many_states_and_huge_counts(score):
    wide = FamilyScores(mixed_table([20] * 5, 150, seed=3), score)
    assert_weights_are_scores(build_score_table(wide, all_to_all(5), keep_within=math.inf), wide)
    heavy = FamilyScores(mixed_table([2, 3, 2, 2], 30, seed=3), score)
    columns, counts, n_states = heavy.data
    for factor in (10**6, 10**9):  # beyond the tables of logarithms, and beyond 32 bits
        heavy = FamilyScores(heavy.table, score)
        heavy.data = (columns, np.arange(1, counts.size + 1) * factor, n_states)
        assert_weights_are_scores(build_score_table(heavy, all_to_all(4), keep_within=math.inf), heavy)


@pytest.mark.parametrize("score", [BDeu(), K2(), BIC()], ids=lambda score: score.name)
def test_collapsed_rows_count_as_the_rows_they_stand_for(score):
    one = skewed_table(5, 60, seed=4)
    tripled = Table.from_codes(one.names, one.states, one.codes, one.counts * 3)
    repeated = Table.from_codes(one.names, one.states, np.tile(one.codes[one.row_index], (3, 1)))
    tables = [build_score_table(FamilyScores(t, score), all_to_all(5)) for t in (tripled, repeated, one)]
    np.testing.assert_array_equal(tables[0].sets, tables[1].sets)
    np.testing.assert_array_equal(tables[0].log_weight, tables[1].log_weight)
    assert not np.allclose(tables[0].log_weight[:5], tables[2].log_weight[:5])


def mass_of(left_out, posterior):
    """Probability of the graphs in which some node has a set that is left out."""
    n = posterior.rows.shape[1]
    parents = unpack_rows(posterior.rows, n).transpose(0, 2, 1)
    uses = np.array([any(tuple(np.flatnonzero(g[i]).tolist()) in left_out[i] for i in range(n)) for g in parents])
    return float(posterior.probability[uses].sum())


def left_out_of(table, limits, n, most):
    return [
        {parents for parents in legal_sets(limits, child, n, most) if parents not in listed}
        for child, listed in enumerate(families(table, n))
    ]


BOUNDED = [
    (4, 60, 1.0, {}),
    (4, 200, 3.0, {"required": [("x0", "x2")]}),
    (5, 300, 3.0, {}),
    (5, 100, 2.0, {"tiers": [["x0", "x1"], ["x3"]]}),
    (5, 40, 1.5, {"required": [("x0", "x2"), ("x4", "x2")], "max_parents": 3}),
]


@pytest.mark.parametrize("score", [BDeu(), K2(), BIC()], ids=lambda score: score.name)
@pytest.mark.parametrize(("n", "n_rows", "keep_within", "limited"), BOUNDED)
def test_graphs_that_use_a_set_left_out_have_at_most_the_stated_probability(score, n, n_rows, keep_within, limited):
    scores = FamilyScores(skewed_table(n, n_rows, seed=n_rows), score)
    limits = make_limits(scores.names, **limited)
    posterior = enumerate_posterior(scores, limits)
    for max_size in (2, 4):  # larger sets are left out one by one as the lists are extended
        table = build_score_table(scores, limits, max_size=max_size, keep_within=keep_within, extend_within=math.inf)
        everything = build_score_table(scores, limits, max_size=max_size, keep_within=math.inf, extend_within=math.inf)
        kept, computed = families(table, n), families(everything, n)
        if max_size == 4:
            assert table.info.n_computed == everything.info.n_computed
            left_out = left_out_of(table, limits, n, 4)
            assert sum(map(len, left_out)) == table.info.n_pruned > 0
            mass = mass_of(left_out, posterior)
            assert 0.0 < mass <= table.info.pruned_mass <= table.info.n_pruned * math.exp(-keep_within)
        for child, listed in enumerate(kept):
            for parents, weight in computed[child].items():
                above = [w for other, w in listed.items() if set(other) < set(parents)]
                assert (parents in listed) == (not above or weight > max(above) - keep_within)


def test_the_bound_breaks_where_supersets_replace_sets():
    """The broken twin: leaving out what *any* set beats is not covered, since a superset may close a cycle."""
    scores = FamilyScores(skewed_table(4, 200, seed=200))
    limits = all_to_all(4)
    posterior = enumerate_posterior(scores, limits)
    computed = families(build_score_table(scores, limits, max_size=3, keep_within=math.inf), 4)
    broken, bound = [], 0.0
    for listed in computed:
        top = max(listed.values())
        broken.append({parents for parents, weight in listed.items() if weight <= top - 4.0})
        bound += sum(math.exp(listed[parents] - top) for parents in broken[-1])
    assert mass_of(broken, posterior) > 5 * bound


def candidate_table(n=70, n_rows=150):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, size=(n_rows, max(n, 70)))
    codes[:, 69] = (codes[:, 3] & codes[:, 66]) ^ (rng.random(n_rows) < 0.05)
    codes[:, 1] = (codes[:, 69] | codes[:, 68]) ^ (rng.random(n_rows) < 0.05)
    return Table.from_codes([f"x{i}" for i in range(n)], [["n", "y"]] * n, codes[:, :n])


@pytest.mark.parametrize(("max_families", "complete"), [(60_000, 1), (600_000, 2)])
def test_larger_sets_are_made_from_candidates_where_there_are_many_nodes(max_families, complete):
    scores = FamilyScores(candidate_table())
    limits = make_limits(
        scores.names, required=[("x7", "x1")], forbidden=[("x5", "x1")], max_parents={"x9": 1, "x8": 0}
    )
    table = build_score_table(scores, limits, max_families=max_families, keep_within=math.inf)
    assert_in_order(table)
    assert_weights_are_scores(table, scores, step=97)
    assert table.info.complete_size == complete
    assert table.info.max_size == 3
    candidates = unpack_rows(table.info.candidates, 70)
    assert candidates[1, 7]
    assert not candidates[1, 5]
    assert {3, 66} <= set(np.flatnonzero(candidates[69]).tolist())
    assert {69, 68} <= set(np.flatnonzero(candidates[1]).tolist())
    assert 3 <= candidates[20].sum() < 69
    listed = families(table, 70)
    for child, number in ((69, 0), (1, 1), (20, 0)):
        assert set(legal_sets(limits, child, 70, complete + number)) <= set(listed[child])
        among = set(np.flatnonzero(candidates[child]).tolist())
        large = {parents for parents in listed[child] if len(parents) == 3}
        assert {parents for parents in large if set(parents) <= among} >= {
            parents for parents in combinations(sorted(among), 3) if number == 0 or 7 in parents
        }
        if complete + number < 3:  # others are sets that grew
            assert sum(not set(parents) <= among for parents in large) <= score_table._GROWN
    assert listed[8].keys() == {()}
    assert max(map(len, listed[9])) == 1
    assert max(listed[69], key=listed[69].get) >= (3, 66)


def hidden_parent_table():
    """The last column depends on x0, of which forty others are noisy copies, and on x69, which tells nothing alone."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, size=(1500, 71))
    codes[:, 1:41] = codes[:, :1] ^ (rng.random((1500, 40)) < 0.15)
    codes[:, 70] = rng.random(1500) < np.array([[0.1, 0.4], [0.9, 0.6]])[codes[:, 0], codes[:, 69]]
    return Table.from_codes([f"x{i}" for i in range(71)], [["n", "y"]] * 71, codes)


@pytest.mark.parametrize("score", [BDeu(), K2()])
def test_a_parent_that_tells_nothing_by_itself_is_found_beside_another(score, monkeypatch):
    scores = FamilyScores(hidden_parent_table(), score)

    def found():
        table = build_score_table(scores, all_to_all(71), max_families=60_000)
        assert table.info.complete_size == 1
        chosen = np.flatnonzero(unpack_rows(table.info.candidates, 71)[70])
        listed = families(table, 71)[70]
        return set(chosen.tolist()), max(listed, key=listed.get)

    chosen, best = found()
    assert 69 in chosen
    assert {0, 69} <= set(best)
    assert len(chosen & set(range(1, 41))) >= len(chosen) // 2 - 1  # those that may stand for x0 have a place too
    monkeypatch.setattr(score_table, "_GROWN", 0)
    chosen, best = found()  # by what each tells alone, the copies of x0 are before it
    assert 69 not in chosen
    assert 69 not in best


def test_good_sets_are_listed_though_not_all_their_nodes_are_candidates(monkeypatch):
    """Ten columns are one: as parents each is as good as the others, and there is no room for all."""
    codes = hidden_parent_table().codes.copy()
    codes[:, 60:69] = codes[:, 69:70]
    scores = FamilyScores(Table.from_codes([f"x{i}" for i in range(71)], [["n", "y"]] * 71, codes))

    def found():
        table = build_score_table(scores, all_to_all(71), max_families=50_000)
        candidates = unpack_rows(table.info.candidates, 71)[70]
        listed = families(table, 71)[70]
        return candidates[60:70].sum(), sum((0, same) in listed for same in range(60, 70))

    candidates, listed = found()
    assert 1 <= candidates < listed
    monkeypatch.setattr(score_table, "add_grown", lambda weights, node, found, keep_within: found)
    assert found() == (candidates, candidates)


def test_nodes_without_possible_parents_have_no_candidates():
    scores = FamilyScores(skewed_table(6, 60, seed=4))
    forbidden = [(a, b) for a in scores.names for b in scores.names if a != b]
    limits = make_limits(scores.names, forbidden=forbidden)
    table = build_score_table(scores, limits, max_size=3, max_families=1, order=lambda _: np.arange(6))
    assert np.diff(table.first).tolist() == [1] * 6
    assert not table.info.candidates.any()


def test_parents_are_found_beside_children_that_tell_more():
    """Without an order the sets that grow are of the twelve copies of x2, which a good graph has below it."""
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, size=(1500, 71))
    codes[:, 2] = rng.random(1500) < np.array([[0.1, 0.4], [0.9, 0.6]])[codes[:, 0], codes[:, 1]]
    codes[:, 3:15] = codes[:, 2:3] ^ (rng.random((1500, 12)) < 0.05)
    scores = FamilyScores(Table.from_codes([f"x{i}" for i in range(71)], [["n", "y"]] * 71, codes))

    def found(order):
        table = build_score_table(scores, all_to_all(71), max_families=60_000, order=lambda _: order)
        assert table.info.complete_size == 1
        return set(np.flatnonzero(unpack_rows(table.info.candidates, 71)[2]).tolist())

    assert 1 not in found(None)
    assert {0, 1} <= found(np.arange(71))
    assert 1 not in found(np.arange(71)[::-1].copy())  # nor in a wrong order


def test_a_network_of_few_possible_edges_is_not_restricted():
    scores = FamilyScores(candidate_table())
    banned = [(a, b) for i, a in enumerate(scores.names) for b in scores.names[: i + 60] if a != b]
    table = build_score_table(scores, make_limits(scores.names, forbidden=banned), max_families=2000)
    assert table.info.complete_size == 3
    assert table.info.n_counted < 3000
    assert_weights_are_scores(table, scores)


@pytest.mark.parametrize("max_families", [None, 30_000])
def test_threads_change_nothing(max_families):
    scores = FamilyScores(candidate_table(66, 100))
    one, two = (
        build_score_table(scores, capped([4] * 66), max_families=max_families, keep_within=8.0, workers=workers)
        for workers in (1, 2)
    )
    for a, b in zip(one[:3], two[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.info.pruned_mass == two.info.pruned_mass
    np.testing.assert_array_equal(one.info.candidates, two.info.candidates)


def parity_table(n_parents, n_rows):
    """The last column is the parity of the others: no set short of all of them says anything."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, size=(n_rows, n_parents + 3))
    codes[:, -1] = (codes[:, 0] + 2 * codes[:, 1] + 3 * codes[:, 2] + 4 * codes[:, 3] + rng.integers(0, 2, n_rows)) % 6
    return Table.from_codes(
        [f"x{i}" for i in range(n_parents + 3)],
        [["n", "y"]] * (n_parents + 2) + [[f"s{k}" for k in range(6)]],
        codes,
    )


def test_lists_are_extended_where_their_largest_sets_are_best():
    scores = FamilyScores(parity_table(5, 3000))
    table = build_score_table(scores, all_to_all(8), max_size=3)
    listed = families(table, 8)
    assert next(iter(listed[7])) == (0, 1, 2, 3)  # found although max_size is 3
    assert table.info.largest_size > 4  # tried
    assert_weights_are_scores(table, scores)
    capped_table = build_score_table(scores, capped([3] * 8), max_size=3)
    assert capped_table.info.largest_size == 3
    assert max(len(parents) for parents in families(capped_table, 8)[7]) == 3


def test_lists_grow_from_sets_that_beat_their_parts_however_far_below_the_best():
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 2, (2000, 9))
    codes[:, 8] = rng.random(2000) < 1 / (1 + np.exp(-3.0 * (codes[:, :4].sum(axis=1) - 2)))
    codes[:, 7] = np.where(rng.random(2000) < 0.01, 1 - codes[:, 8], codes[:, 8])  # a near copy beats all other parents
    scores = FamilyScores(Table.from_codes([f"x{i}" for i in range(9)], [["a", "b"]] * 9, codes))
    table = build_score_table(scores, all_to_all(9), max_size=3)
    listed = families(table, 9)[8]
    assert 7 in next(iter(listed))
    assert (0, 1, 2, 3) in listed  # what is left where the copy is below the node
    assert listed[0, 1, 2, 3] < max(listed.values()) - 100  # far below what grew before
    assert_weights_are_scores(table, scores)


def test_extension_stays_within_its_budget(monkeypatch):
    scores = FamilyScores(mixed_table([2] * 9, 6, seed=1), K2())  # so few cases that no size is ruled out
    free = build_score_table(scores, all_to_all(9), max_size=3, extend_within=math.inf)
    assert free.info.largest_size == 8
    monkeypatch.setattr(score_table, "_EXTENDED_SHARE", 10_000_000)
    tight = build_score_table(scores, all_to_all(9), max_size=3, extend_within=math.inf)
    assert tight.info.largest_size == 3
    assert_weights_are_scores(free, scores)


def test_families_of_more_columns_than_are_counted_together_are_scored_one_by_one():
    scores = FamilyScores(candidate_table(80, 60))
    required = [(f"x{i}", "x79") for i in range(20)]
    limits = make_limits(scores.names, required=required, max_parents=dict.fromkeys(scores.names, 1) | {"x79": 21})
    table = build_score_table(scores, limits, max_size=1, keep_within=math.inf)
    listed = families(table, 80)[79]
    assert tuple(range(20)) in listed
    assert len(listed) == 1 + 59
    assert_weights_are_scores(table, scores, step=13)


def test_smallest_cases():
    two = FamilyScores(skewed_table(2, 30, seed=1))
    table = build_score_table(two, all_to_all(2))
    assert [set(listed) for listed in families(table, 2)] == [{(), (1,)}, {(), (0,)}]
    assert_weights_are_scores(table, two)
    alone = build_score_table(two, capped([0, 0]))
    assert [set(listed) for listed in families(alone, 2)] == [{()}, {()}]
    assert alone.info.largest_size == 0
    one_way = build_score_table(two, make_limits(two.names, forbidden=[("x0", "x1")]))
    assert [set(listed) for listed in families(one_way, 2)] == [{(), (1,)}, {()}]
    fixed = build_score_table(two, make_limits(two.names, required=[("x0", "x1")]), max_size=0)
    assert [set(listed) for listed in families(fixed, 2)][1] == {(0,)}


def test_independent_columns_keep_one_set_where_little_is_allowed():
    rng = np.random.default_rng(3)
    table = Table.from_codes([f"x{i}" for i in range(6)], [["n", "y"]] * 6, rng.integers(0, 2, size=(3000, 6)))
    found = build_score_table(FamilyScores(table), all_to_all(6), keep_within=0.0)
    assert (np.diff(found.first) == 1).all()
    assert not found.sets.any()
    assert 0.0 < found.info.pruned_mass <= 1.0


def test_bad_arguments_are_refused():
    scores, limits = FamilyScores(skewed_table(3, 10, seed=0)), all_to_all(3)
    with pytest.raises(ArgumentError) as refused:
        build_score_table(scores, limits, keep_within=-1.0)
    assert str(refused.value) == "keep_within is -1.0; it must be a number of nats, 0 or more"
    with pytest.raises(ArgumentError, match="extend_within is nan"):
        build_score_table(scores, limits, extend_within=math.nan)
    with pytest.raises(ArgumentTypeError, match=r"max_size is 1\.5; it must be a whole number of at least 0"):
        build_score_table(scores, limits, max_size=1.5)
    with pytest.raises(ArgumentError, match="workers is 0; it must be at least 1"):
        build_score_table(scores, limits, workers=0)
    with pytest.raises(ArgumentError, match="max_families is 0; it must be at least 1"):
        build_score_table(scores, limits, max_families=0)


@pytest.mark.parametrize("most", [1, 20, 60, 120])
def test_a_bound_that_leaves_no_candidates_still_gives_the_small_sets(most):
    scores = FamilyScores(skewed_table(6, 60, seed=4))
    table = build_score_table(scores, capped([5] * 6), max_families=most, keep_within=np.inf)
    assert table.info.complete_size >= 1
    for node in range(6):
        listed = table.sets[table.first[node] : table.first[node + 1], 0].tolist()
        assert {0, *(1 << parent for parent in range(6) if parent != node)} <= set(listed)
