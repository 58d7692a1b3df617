"""BDeu scores: against the closed form, score equivalence, invariances; the cache that remembers them."""

from __future__ import annotations

import math
import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from doxa.data import Table
from doxa.errors import ArgumentError, TableError
from doxa.models import Dag
from doxa.models.bits import pack_rows
from doxa.structure.exact.enumeration import all_dags
from doxa.structure.families.cache import FamilyScores, ScoreCache, family_log_score
from doxa.structure.families.counting import count_family, counting_scratch, group_family
from doxa.structure.families.scores import BDeu, log_bdeu
from support.tables import skewed_table


def closed_form(counts, alpha):
    """The textbook formula, all configurations included."""
    q, r = counts.shape
    n_j = counts.sum(axis=1)
    rows = gammaln(alpha / q) - gammaln(alpha / q + n_j)
    cells = gammaln(alpha / (q * r) + counts) - gammaln(alpha / (q * r))
    return float(rows.sum() + cells.sum())


def prequential(table, child, parents, alpha):
    """Product of one-step predictive probabilities: no gamma function at all."""
    columns = [table.names.index(name) for name in (child, *parents)]
    radix = [len(table.states[c]) for c in columns]
    q = math.prod(radix[1:])
    seen: dict[tuple[int, ...], int] = {}
    total = 0.0
    for row in table.codes[table.row_index][:, columns]:
        value, config = int(row[0]), tuple(int(x) for x in row[1:])
        n_jk = seen.get((value, *config), 0)
        n_j = sum(seen.get((k, *config), 0) for k in range(radix[0]))
        total += math.log((alpha / (q * radix[0]) + n_jk) / (alpha / q + n_j))
        seen[value, *config] = n_jk + 1
    return total


@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.floats(1e-3, 1e3),
    st.integers(0, 2**32 - 1),
    st.sampled_from([3, 50, 10**6]),
)
@settings(max_examples=150, deadline=None)
def test_log_bdeu_is_the_closed_form(q, r, alpha, seed, largest):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, largest, size=(q, r)) * (rng.random((q, r)) < 0.6)
    # both take differences of terms as large as this, each known to a unit in its last place
    rounding = 8 * np.spacing(np.abs(gammaln(alpha / q + counts.sum(axis=1))).max())
    assert math.isclose(log_bdeu(counts, alpha), closed_form(counts, alpha), rel_tol=1e-9, abs_tol=1e-9 + rounding)


def test_log_bdeu_of_no_cases_is_zero():
    assert log_bdeu(np.zeros((4, 3), dtype=int)) == 0.0


@pytest.mark.parametrize("alpha", [1e4, 0.99e5, 1.01e5, 1e7, 1e9, 1e12, 1e15, 1e200])
def test_a_heavy_prior_is_exact_too(alpha):
    counts = np.array([[300, 200], [100, 400], [0, 7]])
    q, r = counts.shape
    exact = 0.0
    for row in counts:
        for k, n in enumerate(row):
            del k
            exact += math.fsum(math.log1p(i * q * r / alpha) for i in range(n))
        exact -= math.fsum(math.log1p(i * q / alpha) for i in range(row.sum()))
    exact -= counts.sum() * math.log(r)  # the factors a_jk / a_j
    assert math.isclose(log_bdeu(counts, alpha), exact, rel_tol=1e-10)


def test_one_state_has_probability_one():
    assert log_bdeu([[7], [12]]) == 0.0


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_family_scores_are_the_product_of_predictive_probabilities(alpha):
    table = skewed_table(4, 50, seed=1, n_states=3)
    scores = FamilyScores(table, BDeu(alpha))
    for child in table.names:
        others = [name for name in table.names if name != child]
        for size in range(4):
            parents = tuple(others[:size])
            right = prequential(table, child, parents, alpha)
            assert math.isclose(scores.log_score(child, parents), right, rel_tol=1e-10)
            assert math.isclose(log_bdeu(count_family(table, child, parents), alpha), right, rel_tol=1e-10)


def test_markov_equivalent_graphs_score_the_same_and_others_do_not():
    table = skewed_table(4, 200, seed=2, n_states=3)
    scores = FamilyScores(table)
    by_class: dict[object, list[float]] = {}
    for rows in all_dags(4):
        dag = Dag.from_rows(rows, table.names)
        total = sum(scores.log_score(name, dag.parents(name)) for name in dag.names)
        by_class.setdefault(dag.cpdag(), []).append(total)
    for totals in by_class.values():
        np.testing.assert_allclose(totals, totals[0], rtol=0, atol=1e-9)
    representatives = np.sort([totals[0] for totals in by_class.values()])
    assert (np.diff(representatives) > 1e-9).all()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_scores_ignore_the_order_of_rows_columns_and_labels(seed):
    rng = np.random.default_rng(seed)
    table = skewed_table(4, 40, seed=seed % 1000, n_states=3)
    codes = table.codes[table.row_index].astype(np.int64)
    columns = rng.permutation(4)
    relabel = [rng.permutation(len(states)) for states in table.states]
    shuffled = np.column_stack([relabel[c][codes[:, c]] for c in columns])[rng.permutation(len(codes))]
    other = Table.from_codes(
        [table.names[c] for c in columns], [table.states[c] for c in columns], shuffled.astype(np.int64)
    )
    one, two = FamilyScores(table), FamilyScores(other)
    for child, size in product(table.names, range(4)):
        parents = tuple(name for name in table.names if name != child)[:size]
        assert math.isclose(one.log_score(child, parents), two.log_score(child, parents[::-1]), rel_tol=1e-11)


def test_collapsed_rows_score_as_the_rows_they_stand_for():
    table = skewed_table(3, 60, seed=4)
    spread = FamilyScores(table)
    doubled = Table.from_codes(table.names, table.states, table.codes, table.counts * 3)
    repeated = Table.from_codes(table.names, table.states, np.tile(table.codes[table.row_index], (3, 1)))
    for child in table.names:
        parents = tuple(name for name in table.names if name != child)
        assert FamilyScores(doubled).log_score(child, parents) == pytest.approx(
            FamilyScores(repeated).log_score(child, parents), rel=1e-12
        )
        assert spread.log_score(child, parents) != pytest.approx(FamilyScores(doubled).log_score(child, parents))


def wide_table(n_columns, n_rows, n_states, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_states, size=(n_rows, n_columns))
    names = [f"v{i}" for i in range(n_columns)]
    return Table.from_codes(names, [[f"s{k}" for k in range(n_states)]] * n_columns, codes)


def test_families_with_more_configurations_than_could_be_counted_are_exact():
    table = wide_table(120, 300, 5, seed=0)  # 5^110 configurations: beyond any integer, and 1/q is subnormal
    scores = FamilyScores(table)
    for n_parents in (0, 1, 4, 30, 110):
        parents = table.names[1 : n_parents + 1]
        r, log_q = 5, n_parents * math.log(5)
        groups: dict[tuple[int, ...], dict[int, int]] = {}
        for row, count in zip(table.codes, table.counts, strict=True):
            cell = groups.setdefault(tuple(row[1 : n_parents + 1]), {})
            cell[int(row[0])] = cell.get(int(row[0]), 0) + int(count)

        def ratio(n, log_a):  # ln Gamma(a + n) - ln Gamma(a), as a sum of logarithms
            return log_a + math.fsum(math.log(math.exp(log_a) + k) for k in range(1, n))

        right = math.fsum(
            math.fsum(ratio(n, -log_q - math.log(r)) for n in cell.values()) - ratio(sum(cell.values()), -log_q)
            for cell in groups.values()
        )
        assert math.isclose(scores.log_score("v0", parents), right, rel_tol=1e-9)


def test_grouping_renumbers_without_mixing_groups():
    table = wide_table(20, 500, 9, seed=3)
    columns = np.ascontiguousarray(table.codes.T)
    n_states = np.full(20, 9, dtype=np.int64)
    scratch = counting_scratch(table.n_distinct)
    for parents in ([], [3], [3, 7], list(range(1, 12)), list(range(1, 20))):
        members = np.zeros(20, dtype=bool)
        members[parents] = True
        n_configs, n_cells, log_q = group_family(columns, n_states, 0, pack_rows(members), scratch)
        assert log_q == pytest.approx(len(parents) * math.log(9))
        for labels, size, key in ((scratch[0], n_configs, parents), (scratch[1], n_cells, [*parents, 0])):
            assert labels.max() < size <= scratch[2].size
            groups = {}
            for row, label in zip(table.codes[:, key], labels, strict=True):
                assert groups.setdefault(int(label), tuple(row)) == tuple(row)
            assert len(groups) == len({tuple(row) for row in table.codes[:, key]})


def test_a_full_cache_replaces_scores_and_never_returns_a_wrong_one():
    table = wide_table(70, 50, 2, seed=1)  # two words a key
    scores = FamilyScores(table)
    fresh = FamilyScores(table)
    cache = ScoreCache(70, max_bytes=1)  # never grows
    rng = np.random.default_rng(0)
    families = [np.flatnonzero(rng.random(70) < 0.05) for _ in range(800)]
    order = [*range(800), *rng.permutation(800), *rng.permutation(800)]  # again and again: replaced slots are met
    with scores.borrow() as (_, scoring):
        for number in order:
            parents = families[number]
            members = np.zeros(70, dtype=bool)
            members[parents[parents != 0]] = True
            value = family_log_score(0, pack_rows(members), cache.arrays, scoring)
            assert value == fresh.log_score("v0", tuple(np.array(table.names)[members]))
    assert cache.statistics[1] > 0
    assert cache.used[0] <= cache.capacity


def test_a_growing_cache_keeps_what_it_holds_within_its_bound():
    table = wide_table(12, 50, 2, seed=2)
    scores = FamilyScores(table, max_bytes=2**20)
    cache = ScoreCache(12, max_bytes=2**20)
    with scores.borrow() as (_, scoring):
        for parents in range(2048):
            members = np.array([0] + [parents >> k & 1 for k in range(11)], dtype=bool)
            family_log_score(0, pack_rows(members), cache.arrays, scoring)
            while cache.wants_to_grow and cache.can_grow:
                cache.grow()
        misses = int(cache.statistics[0])
        for parents in range(0, 2048, 5):
            members = np.array([0] + [parents >> k & 1 for k in range(11)], dtype=bool)
            family_log_score(0, pack_rows(members), cache.arrays, scoring)
    assert cache.capacity > 256
    assert cache.scores.nbytes <= 2**20
    assert cache.statistics[0] - misses <= cache.statistics[1] + 8


def test_scores_travel_to_another_process_without_their_caches():
    scores = FamilyScores(skewed_table(3, 30, seed=1))
    value = scores.log_score("x0", ("x1",))
    assert scores.use.n_scores == 1
    copy = pickle.loads(pickle.dumps(scores))
    assert copy.use.n_scores == 0
    assert copy.log_score("x0", ("x1",)) == value


def test_use_reports_memory_and_misses():
    scores = FamilyScores(skewed_table(3, 30, seed=1))
    for _ in range(3):
        scores.log_score("x0")
    use = scores.use
    assert (use.n_scores, use.n_misses, use.n_evictions) == (1, 1, 0)
    assert use.n_bytes == 3 * 256 * 2 * 8


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_equivalent_sample_size_must_be_positive(bad):
    with pytest.raises(ArgumentError) as refused:
        log_bdeu([[1, 1]], bad)
    assert str(refused.value) == f"equivalent_sample_size is {bad!r}; it must be above 0 and finite (1.0 is usual)"


def test_equivalent_sample_size_must_be_a_number():
    with pytest.raises(ArgumentError) as refused:
        BDeu("one")
    assert str(refused.value) == "equivalent_sample_size is 'one'; it must be a number above 0"


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, 2], "counts has shape (2,); it must be (n_parent_configurations, n_states)"),
        ([[1, -1]], "counts has an entry that is negative or not a whole number; entries are numbers of cases"),
        ([[0.5, 1]], "counts has an entry that is negative or not a whole number; entries are numbers of cases"),
    ],
)
def test_bad_counts_are_refused(counts, message):
    with pytest.raises(ArgumentError) as refused:
        log_bdeu(counts)
    assert str(refused.value) == message


def test_missing_cells_are_refused_by_column():
    codes = [[0, 0, -1], [1, -1, -1], [0, 1, 0]]
    table = Table.from_codes(["a", "b", "c"], [["n", "y"]] * 3, codes)
    with pytest.raises(TableError) as refused:
        FamilyScores(table)
    assert str(refused.value) == (
        "table has missing cells, in the columns 'b' (1), 'c' (2); scores are of complete tables: "
        "doxa.structure.cases.incomplete completes them"
    )


def test_one_column_is_refused():
    with pytest.raises(TableError) as refused:
        FamilyScores(Table.from_codes(["a"], [["n", "y"]], [[0], [1]]))
    assert str(refused.value) == "table has only the column 'a'; a structure needs at least two columns"


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (("z", ()), "the family names 'z', which is not a column of the table"),
        (("x0", ("q",)), "the family names 'q', which is not a column of the table"),
        (("x0", ("x0",)), "the family names 'x0' as its own parent"),
    ],
)
def test_bad_families_are_refused(family, message):
    scores = FamilyScores(skewed_table(3, 10, seed=0))
    with pytest.raises(ArgumentError) as refused:
        scores.log_score(*family)
    assert str(refused.value) == message


def test_counting_refuses_bad_families():
    table = skewed_table(3, 10, seed=0)
    with pytest.raises(ArgumentError, match="names 'q', which is not a column"):
        count_family(table, "q")
    with pytest.raises(ArgumentError, match="names 'x0' twice"):
        count_family(table, "x0", ("x0",))
    missing_cells = Table.from_codes(["a", "b"], [["n", "y"]] * 2, [[0, -1], [1, 0]])
    with pytest.raises(ArgumentError, match=r"columns \['b'\] have missing cells"):
        count_family(missing_cells, "a", ("b",))
    assert count_family(missing_cells, "a").tolist() == [[1, 1]]
