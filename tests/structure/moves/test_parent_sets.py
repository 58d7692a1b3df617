"""Lists of parent sets: draws by inversion and sums of weights, against plain twins, over thousands of nats."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.exact.enumeration import family_score_lists
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import capped
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.parent_sets import (
    bound_log_sum,
    draw_set,
    find_set,
    log_bounds,
    log_sum_of_sets,
    no_parent_sets,
    scaled,
)
from support.tables import skewed_table

SPREADS = [0.5, 30.0, 400.0, 5000.0]  # nats


def some_lists(n, size, spread, seed):
    """Random lists, heaviest first, each with the empty set somewhere."""
    rng = np.random.default_rng(seed)
    first, sets, weights = [0], [], []
    for node in range(n):
        members = rng.random((size - 7 * (node % 3), n)) < 2 / n  # lists of several lengths
        members[0] = False
        members[:, node] = False
        words = np.unique(pack_rows(members), axis=0)
        sets.append(words[rng.permutation(len(words))])
        weights.append(np.sort(rng.normal(-900.0, 1.0) - spread * rng.random(len(words)) ** 2)[::-1])
        first.append(first[-1] + len(words))
    return scaled(np.array(first), np.concatenate(sets), np.concatenate(weights), 1.0)


def draw(table, node, avoid, must, u):
    """The number drawn, by a walk that ends as soon as it can."""
    return draw_set(table, node, pack_rows(avoid), must, u, np.inf)[0]


def that_fit(table, node, avoid, must, n):
    """Plain twin: numbers and weights of the sets that fit, in the order of the list."""
    numbers = np.arange(table.first[node], table.first[node + 1])
    members = unpack_rows(table.sets[numbers], n)
    fits = ~(members & avoid).any(axis=1)
    if must >= 0:
        fits &= members[:, must]
    return numbers[fits], table.weight[numbers[fits]]


def questions(n, seed, count=80):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        node, must = rng.choice(n, size=2, replace=False)
        avoid = rng.random(n) < rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        avoid[must] = False
        yield int(node), int(must) if rng.random() < 0.5 else -1, avoid


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("n", [9, 70])
def test_sums_are_those_of_their_plain_twin(n, spread):
    table = some_lists(n, 300, spread, seed=n)
    empty = 0
    for node, must, avoid in questions(n, seed=1):
        numbers, weights = that_fit(table, node, avoid, must, n)
        found = log_sum_of_sets(table, node, pack_rows(avoid), must)
        if len(numbers) == 0:
            empty += 1
            assert must >= 0  # the empty set fits else
            assert found == -np.inf
            assert bound_log_sum(table, node, pack_rows(avoid), must, 0.1) == (-np.inf, -np.inf)
            continue
        right = logsumexp(weights)
        assert found == pytest.approx(right, abs=1e-11)
        for tolerance in (0.5, 0.1, 1e-6, 0.0):
            low, high = bound_log_sum(table, node, pack_rows(avoid), must, tolerance)
            assert low - 1e-11 <= right <= high + 1e-11
            assert high - low <= tolerance + 1e-15
    assert empty > 0 or n == 9


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("n", [9, 70])
def test_draws_are_by_inversion_of_the_weights_that_fit(n, spread):
    table = some_lists(n, 300, spread, seed=10 + n)
    compared = 0
    for node, must, avoid in questions(n, seed=2):
        numbers, weights = that_fit(table, node, avoid, must, n)
        if len(numbers) == 0:
            assert draw(table, node, avoid, must, 0.5) == -1
            continue
        shares = np.cumsum(np.exp(weights - logsumexp(weights)))
        for u in (0.0, 1e-12, 0.1, 0.37, 0.5, 0.9, 1 - 1e-9, 1 - 2**-53):
            if np.abs(shares - u).min() < 1e-13:  # on the border between two sets rounding decides
                continue
            right = numbers[min(np.searchsorted(shares, u), len(numbers) - 1)]
            assert draw(table, node, avoid, must, u) == right
            number, begin, total, rest = draw_set(table, node, pack_rows(avoid), must, u, 0.1)
            low, high = log_bounds(table, node, begin, total, rest)
            assert number == right  # a longer walk, for the sum, draws the same
            assert low - 1e-11 <= logsumexp(weights) <= high + 1e-11
            assert high - low <= 0.1
            compared += 1
    assert compared > 100


def test_the_walk_ends_early_and_this_changes_nothing():
    """A list whose tail is nothing: the same draws as with the tail cut off, but sums that know it."""
    table = some_lists(9, 300, 5000.0, seed=3)
    for node in range(9):
        begin, end = table.first[node : node + 2]
        weights = table.weight[begin:end]
        heavy = int((weights > weights[0] - 128.0).sum())
        assert heavy < end - begin
        for u in np.random.default_rng(node).random(50):
            assert draw(table, node, np.zeros(9, dtype=bool), -1, u) < begin + heavy


def test_light_sets_are_drawn_by_weight_when_the_heavy_do_not_fit():
    """Levels are relative to the first set that fits, however light."""
    members = np.array([[False, True, False], [False, False, True], [False, False, False]])
    empty = np.zeros((1, 3), dtype=bool)
    table = scaled(np.array([0, 3, 4, 5]), pack_rows(np.concatenate([members, empty, empty])),
                   np.array([0.0, -3000.0, -3000.5, 0.0, 0.0]), 1.0)  # fmt: skip
    avoid = np.array([False, True, False])
    share = 1 / (1 + np.exp(-0.5))
    assert draw(table, 0, avoid, -1, share - 1e-9) == 1
    assert draw(table, 0, avoid, -1, share + 1e-9) == 2
    assert log_sum_of_sets(table, 0, pack_rows(avoid), -1) == pytest.approx(-3000 + np.log1p(np.exp(-0.5)), abs=1e-11)


def test_sets_are_found_by_their_members():
    table = some_lists(70, 300, 10.0, seed=5)
    for node in (0, 33, 69):
        for number in range(table.first[node], table.first[node + 1]):
            assert find_set(table, node, table.sets[number]) == number
        everything = np.ones(70, dtype=bool)
        assert find_set(table, node, pack_rows(everything)) == -1
        one_more = table.sets[table.first[node + 1] - 1].copy()
        one_more[node >> 6] |= np.uint64(1) << np.uint64(node & 63)
        assert find_set(table, node, one_more) == -1


@pytest.mark.parametrize("beta", [1.0, 0.5, 0.0])
def test_lists_of_a_small_table_hold_every_family_by_its_score(beta, monkeypatch):
    monkeypatch.setattr("doxa.structure.moves.listing._KEEP", np.inf)
    scores, limits = FamilyScores(skewed_table(4, 60, seed=3, n_states=3)), capped([3, 1, 2, 3])
    table = parent_sets(scores, limits, beta)
    for node, (masks, log_scores) in enumerate(family_score_lists(scores, limits)):
        begin, end = table.first[node : node + 2]
        assert sorted(table.sets[begin:end, 0].tolist()) == sorted(masks.tolist())
        by_mask = dict(zip(masks.tolist(), log_scores, strict=True))
        right = [beta * by_mask[int(words[0])] for words in table.sets[begin:end]]
        np.testing.assert_allclose(table.weight[begin:end], right, atol=1e-9)


def test_work_space_is_each_caller_s_own():
    scores, limits = FamilyScores(skewed_table(4, 60, seed=3)), capped([3] * 4)
    one, two = parent_sets(scores, limits, 1.0), parent_sets(scores, limits, 1.0)
    assert one.sets is two.sets
    for name in ("cumulative", "chosen", "where", "reached"):
        assert not np.shares_memory(getattr(one, name), getattr(two, name))


def test_no_lists_are_empty_lists():
    table = no_parent_sets(70, 2)
    assert draw(table, 3, np.zeros(70, dtype=bool), -1, 0.5) == -1
    assert log_sum_of_sets(table, 3, np.zeros(2, dtype=np.uint64), 5) == -np.inf
