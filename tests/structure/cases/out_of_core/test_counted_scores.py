"""Scores from counts alone are those of the table in memory; what samples or sums cannot tell the two apart."""

import itertools
import math
import pickle

import numpy as np
import polars as pl
import pytest

import doxa
from doxa.data import Table
from doxa.data.large import OutOfCoreTable, open_source
from doxa.errors import TableError
from doxa.structure.cases.out_of_core import OutOfCoreScores, count_table, needed_sets, predicted_cost
from doxa.structure.exact.enumeration import exact_posterior, family_score_lists
from doxa.structure.families.cache import FamilyScores, local_weights
from doxa.structure.families.score_table import build_score_table
from doxa.structure.families.scores import BIC, K2, BDeu
from doxa.structure.limits import capped, make_limits

RADIX = [2, 3, 4, 2, 3, 2, 5]
NAMES = tuple(f"x{j}" for j in range(len(RADIX)))
SCORES = [BDeu(2.5), K2(0.5), BIC()]
LIMITS = {
    "caps": capped([3] * 7),
    "uneven": capped([0, 1, 2, 3, 3, 2, 1]),
    "edges": make_limits(
        NAMES,
        max_parents={"x1": 2, "x4": 3, "x0": 1, "x2": 2, "x3": 2, "x5": 2, "x6": 2},
        required=[("x0", "x4"), ("x1", "x4")],
        forbidden=[("x2", "x5")],
        tiers=[["x0", "x1"], ["x2", "x3"]],
    ),
    "configurations": make_limits(
        NAMES, max_parents=3, required=[("x2", "x6"), ("x1", "x6")], n_states=RADIX, max_configurations=10
    ),
}


def lazy_frame(n_rows=900, seed=2):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, RADIX, size=(n_rows, len(RADIX)))
    codes[:, 1] = (codes[:, 0] + (rng.random(n_rows) < 0.3)) % 3
    codes[:, 4] = (codes[:, 1] * codes[:, 3] + (rng.random(n_rows) < 0.2)) % 3
    return pl.LazyFrame({name: [f"s{code}" for code in column] for name, column in zip(NAMES, codes.T, strict=True)})


@pytest.fixture(scope="module")
def table():
    return doxa.read_table(lazy_frame())


@pytest.fixture(scope="module")
def counted():
    with open_source(lazy_frame()) as source:
        return {name: count_table(source, limits) for name, limits in LIMITS.items()}


def legal_families(limits):
    """By brute force."""
    allowed, required = limits.allowed_edges, limits.required_edges
    for child in range(len(RADIX)):
        for size in range(int(limits.max_parents[child]) + 1):
            for parents in itertools.combinations(range(len(RADIX)), size):
                needed = set(np.flatnonzero(required[:, child]).tolist())
                if (
                    all(allowed[p, child] for p in parents)
                    and needed <= set(parents)
                    and fits_cap(limits, parents, needed)
                ):
                    yield child, parents


def fits_cap(limits, parents, needed):
    """Whether parents have at most ten configurations, or as many as those that are needed have."""
    if limits is not LIMITS["configurations"]:
        return True
    return math.prod(RADIX[p] for p in parents) <= max(10, math.prod(RADIX[p] for p in needed))


@pytest.mark.parametrize("which", LIMITS)
def test_needed_sets_and_their_cost_are_those_of_all_legal_families(which):
    limits = LIMITS[which]
    families = list(legal_families(limits))
    wanted = {parents for _, parents in families} | {tuple(sorted((c, *parents))) for c, parents in families}
    found = needed_sets(limits)
    assert [sets.shape[1] for sets in found] == list(range(len(found)))
    listed = [tuple(one) for sets in found for one in sets.tolist()]
    assert len(listed) == len(set(listed))
    assert wanted <= set(listed) if limits.only_caps and which == "caps" else wanted == set(listed)
    cost = predicted_cost(limits, np.array(RADIX), 10**6)
    n_cells = sum(math.prod(RADIX[j] for j in (c, *parents)) for c, parents in families)
    if which == "configurations":  # a bound: those of too many are not told apart without listing them
        assert cost.n_families > len(families)
        assert cost.n_cells > n_cells
    else:
        assert cost.n_families == len(families)
        assert cost.n_cells == n_cells
    assert cost.most_parents == max(len(parents) for _, parents in families)


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
@pytest.mark.parametrize("which", LIMITS)
def test_scores_and_tables_are_equal_to_the_last_bit(table, counted, which, score):
    limits = LIMITS[which]
    prior = doxa.structure.priors.make_prior(NAMES, "in_degree", {("x0", "x1"): 1.5})
    whole, alone = FamilyScores(table, score, prior), OutOfCoreScores(counted[which], score, prior, limits=limits)
    for (masks, scores), (same_masks, same) in zip(
        family_score_lists(whole, limits), family_score_lists(alone, limits), strict=True
    ):
        assert np.array_equal(masks, same_masks)
        assert np.array_equal(scores, same)
    first, second = build_score_table(whole, limits), build_score_table(alone, limits)
    assert all(np.array_equal(a, b) for a, b in zip(first[:3], second[:3], strict=True))
    assert first.info.pruned_mass == second.info.pruned_mass
    assert first.info.n_computed == second.info.n_computed
    assert alone.use.n_misses == alone.use.n_evictions == 0
    assert alone.use.n_scores == sum(1 for _ in legal_families(limits))


def test_scores_of_families_of_many_cells_agree(monkeypatch):
    # 5^6 cells: beyond those that tables in memory fill in order, so sums are rounded in another order.
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 5, size=(3000, 7))
    frame = pl.LazyFrame({name: [f"s{code}" for code in column] for name, column in zip(NAMES, codes.T, strict=True)})
    limits = capped([5, 0, 0, 0, 0, 0, 0])
    monkeypatch.setattr(doxa.structure.cases.out_of_core.scores, "_DENSE", 1000)
    with open_source(frame) as source:
        alone = OutOfCoreScores(count_table(source, limits), limits=limits)
    whole = FamilyScores(doxa.read_table(frame))
    found = build_score_table(alone, limits, max_size=5, keep_within=math.inf)
    sets = build_score_table(whole, limits, max_size=5, keep_within=math.inf)
    assert np.allclose(np.sort(found.log_weight), np.sort(sets.log_weight), rtol=1e-12, atol=0)
    family = ("x0", tuple(NAMES[1:6]))
    assert alone.log_score(*family) == pytest.approx(whole.log_score(*family), rel=1e-12)


def test_families_beyond_the_limits_are_never_made_up(counted):
    alone = OutOfCoreScores(counted["uneven"], limits=LIMITS["uneven"])
    with pytest.raises(AssertionError, match="beyond the limits"):
        alone.log_score("x0", ("x1",))


def test_a_damaged_count_shows_in_the_scores(table, counted):
    # the twin of the equality above: one case moved from a cell to another is seen
    held = counted["caps"]
    held.sizes[2].counts[:2] += (1, -1)
    try:
        alone, whole = OutOfCoreScores(held, limits=LIMITS["caps"]), FamilyScores(table)
        rows = np.zeros((1, 7, 1), dtype=np.uint64)
        rows[0, 0, 0] = 2  # x0 -> x1
        assert local_weights(alone, rows)[0, 1] != local_weights(whole, rows)[0, 1]
        assert local_weights(alone, rows)[0, 2] == local_weights(whole, rows)[0, 2]
    finally:
        held.sizes[2].counts[:2] -= (1, -1)


def test_exact_sums_and_copies_in_other_processes(table, counted):
    limits = LIMITS["caps"]
    alone = OutOfCoreScores(counted["caps"], limits=limits)
    whole = exact_posterior(FamilyScores(table), limits).edge_probabilities
    assert np.array_equal(exact_posterior(alone, limits).edge_probabilities, whole)
    copy = pickle.loads(pickle.dumps(alone))
    assert copy.log_score("x1", ("x0",)) == alone.log_score("x1", ("x0",))
    with copy.borrow() as (first, _), copy.borrow() as (second, _):
        assert first is second


def test_a_table_of_counts_is_a_table_as_far_as_it_goes(table, counted):
    held = counted["caps"]
    assert isinstance(held, Table)
    assert (held.names, held.states, held.n_rows, held.n_missing) == (table.names, table.states, 900, 0)
    assert repr(held) == "OutOfCoreTable(900 rows x 7 columns, counts of 99 sets of columns)"
    columns = ["x4", "x0", "x6"]
    some = held.select(columns)
    same = table.select(columns)
    assert sorted(np.c_[some.codes, some.counts].tolist()) == sorted(np.c_[same.codes, same.counts].tolist())
    assert counted["edges"].select(["x4", "x2"]).n_rows == 900  # from the smallest set that holds them
    for ask in (lambda: held.codes, lambda: held.counts, lambda: held.row_index, lambda: held.n_distinct):
        with pytest.raises(TableError, match=r"the rows of this table are not here: it has 900 rows, too many of them"):
            ask()
    with pytest.raises(TableError, match=r"were not counted together.*raise max_parents"):
        held.select(list(NAMES[:5]))


def test_the_digest_covers_every_count(counted):
    digests = {held.digest for held in counted.values()}
    assert len(digests) == len(LIMITS)
    held = counted["caps"]
    sets = [held._set(3, k) for k in range(len(held.sizes[3].members))]
    before = OutOfCoreTable(held.names, held.states, held.n_rows, sets).digest
    assert OutOfCoreTable(held.names, held.states, held.n_rows, sets[::-1]).digest == before
    sets[5].counts[0] += 1
    assert OutOfCoreTable(held.names, held.states, held.n_rows, sets).digest != before
    sets[5].counts[0] -= 1
