"""Counts of 0/1 draws against plain loops, and split R-hat against arviz-stats."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates import IndicatorCounts, counts, diagnose_indicators
from doxa.estimates.batches import batch_edges, batch_scatter, long_range_dispersion
from doxa.estimates.counts import doubling_lags
from doxa.estimates.indicators import split_r_hat


def sticky(rng, shape, stay=0.8):
    """0/1 draws along axis 1 that often repeat."""
    draws = rng.random(shape) < 0.4
    for t in range(1, shape[1]):
        draws[:, t] = np.where(rng.random(draws[:, t].shape) < stay, draws[:, t - 1], draws[:, t])
    return draws


def pack(draws, junk=0):
    """Rows of bits to uint64 words, bit b of word w being 64 w + b; unused bits are set to ``junk``."""
    n_bits = draws.shape[-1]
    n_words = -(-n_bits // 64)
    words = np.zeros((*draws.shape[:-1], n_words), dtype=np.uint64)
    for bit in range(64 * n_words):
        value = draws[..., bit] if bit < n_bits else np.full(draws.shape[:-1], junk)
        words[..., bit // 64] |= value.astype(np.uint64) << np.uint64(bit % 64)
    return words


def count_slowly(draws):
    """Plain twin of both constructors: one pass over every draw of shape (chain, draw, quantity)."""
    n_chains, n_draws, n = draws.shape
    edges = batch_edges(n_draws)
    ones = np.zeros((n_chains, edges.size - 1, n), dtype=np.int64)
    rises, falls = np.zeros((2, n_chains, n), dtype=np.int64)
    for chain in range(n_chains):
        for draw in range(n_draws):
            batch = int(np.searchsorted(edges, draw, side="right")) - 1
            for q in range(n):
                ones[chain, batch, q] += draws[chain, draw, q]
                if draw > 0:
                    rises[chain, q] += int(draws[chain, draw, q]) > int(draws[chain, draw - 1, q])
                    falls[chain, q] += int(draws[chain, draw, q]) < int(draws[chain, draw - 1, q])
    lags = [lag for lag in (2**k for k in range(1, 20)) if 16 * lag <= n_draws]
    differing = np.zeros((len(lags), n), dtype=np.int64)
    for k, lag in enumerate(lags):
        for draw in range(n_draws):
            differing[k] += (draws[:, draw] != draws[:, (draw + lag) % n_draws]).sum(axis=0)
    return ones, rises, falls, draws[:, n_draws // 2], differing


COUNTED = ("ones", "rises", "falls", "middle", "differing")


def assert_same(found, *expected):
    for name, values in zip(COUNTED, expected, strict=True):
        np.testing.assert_array_equal(getattr(found, name), values, err_msg=name)


@pytest.mark.parametrize(
    ("n_chains", "n_draws", "n_rows", "n_bits"),
    [(1, 4, 1, 1), (2, 5, 3, 3), (4, 33, 2, 64), (3, 67, 2, 65), (2, 100, 3, 130), (1, 129, 1, 192), (2, 300, 2, 70)],
)
@pytest.mark.parametrize("few", [0, counts._FEW], ids=["walk", "plain"])
def test_packed_and_plain_draws_agree_with_the_loop(monkeypatch, few, n_chains, n_draws, n_rows, n_bits):
    monkeypatch.setattr(counts, "_FEW", few)
    rng = np.random.default_rng([n_chains, n_draws, n_bits])
    draws = sticky(rng, (n_chains, n_draws, n_rows, n_bits))
    expected = [x.reshape(*x.shape[:-1], n_rows, n_bits) for x in count_slowly(draws.reshape(n_chains, n_draws, -1))]
    words = pack(draws, junk=1)
    before = words.copy()
    assert_same(IndicatorCounts.from_words(words, n_bits), *expected)
    assert_same(IndicatorCounts.from_words(np.asfortranarray(words), n_bits), *expected)
    assert_same(IndicatorCounts.from_draws(draws), *expected)
    assert_same(IndicatorCounts.from_draws(draws.astype(np.int8)), *expected)
    np.testing.assert_array_equal(words, before)


def test_lags_double_up_to_a_sixteenth_of_a_chain_and_to_what_the_space_for_draws_allows():
    for n_draws in range(4, 300):
        lags = doubling_lags(n_draws)
        assert (lags == 2 ** np.arange(1, lags.size + 1)).all()
        assert 16 * lags.max(initial=0) <= n_draws < 16 * 2 * lags.max(initial=1)
    assert doubling_lags(10_000, 2**18).max() == 16  # 32 draws of 256 KiB
    assert doubling_lags(10_000, 2**40).size == 0


def test_batches_tile_the_chain_and_meet_in_its_middle():
    for n_draws in range(4, 300):
        edges = batch_edges(n_draws)
        lengths = np.diff(edges)
        assert (edges[0], edges[-1]) == (0, n_draws)
        assert edges[(edges.size - 1) // 2] == n_draws // 2
        assert lengths.min() >= 2
        assert lengths.max() - lengths.min() <= 1
        assert edges.size - 1 in (2, 4, 8, 16, 32)


@pytest.mark.parametrize("n_draws", [4, 5, 6, 7, 11, 64, 101])
@pytest.mark.parametrize("n_chains", [2, 3, 4])
def test_split_r_hat_is_that_of_arviz_stats(n_chains, n_draws):
    from arviz_stats.base import array_stats

    rng = np.random.default_rng([n_chains, n_draws])
    draws = sticky(rng, (n_chains, n_draws, 60)).astype(np.int8)
    draws[:, : n_draws // 2, 0] = 1  # exactly half ones, so that the folded form is constant, when n_draws is even
    draws[:, n_draws // 2 :, 0] = 0
    draws[0, 0, 0], draws[0, -1, 0] = 0, 1
    ours = split_r_hat(IndicatorCounts.from_draws(draws))
    compared = 0
    for q in range(draws.shape[2]):
        halves = np.concatenate([draws[:, : n_draws // 2, q], draws[:, n_draws - n_draws // 2 :, q]])
        if (halves.min(axis=1) == halves.max(axis=1)).all():
            assert np.isnan(ours[q]) if halves.min() == halves.max() else np.isinf(ours[q])
            continue
        with np.errstate(invalid="ignore"):  # their folded form is constant where half the draws are ones
            theirs = float(array_stats.rhat(draws[..., q], chain_axis=0, draw_axis=1, method="rank"))
        assert ours[q] == pytest.approx(theirs, rel=1e-10)
        compared += 1
    assert compared > 8


def test_batch_scatter_is_the_weighted_sum_of_squares():
    rng = np.random.default_rng(4)
    lengths = np.array([3, 4, 4, 4])
    sums = rng.normal(size=(3, 4, 5))
    squares = batch_scatter(sums, lengths)
    mean = sums.sum(axis=(0, 1)) / (3 * 15)
    weight = lengths[:, None]
    np.testing.assert_allclose(squares[4], ((sums / weight - mean) ** 2 * weight).sum(axis=(0, 1)))
    chain = sums.sum(axis=1) / 15
    np.testing.assert_allclose(squares[1], ((chain - mean) ** 2).sum(axis=0) * 15)


def test_base_batches_estimate_the_variance_of_independent_draws():
    rng = np.random.default_rng(5)
    sums = rng.normal(size=(4, 32, 4000)) * np.sqrt(7.0)
    squares = batch_scatter(sums, np.full(32, 7))
    for n_batches, square in squares.items():
        df = 4 * n_batches - 1
        error = np.sqrt(2 / df / 4000)
        assert square.mean() / df == pytest.approx(1.0, abs=5 * error)
    wrong = long_range_dispersion(sums, np.full(32, 7), np.full(4000, 0.1), np.full(4000, 1e6))
    for found in (wrong.dispersion, wrong.joint):  # ten times too small is found out
        assert np.quantile(found, (0.01, 0.5)) == pytest.approx([6.0, 10.0], rel=0.2)
    right, df, skew, joint = long_range_dispersion(sums, np.full(32, 7), np.full(4000, 1.0), np.full(4000, 1e6))
    assert np.mean(right == 1.0) > 0.4
    assert np.mean(np.isinf(df)) > 0.4
    assert (right >= 1.0).all()
    assert np.mean(skew != 0) < 0.01
    assert joint.max() < 2.5
    with pytest.raises(AssertionError):  # of quantities that are judged one by one, the worst is far too large
        assert right.max() < 2.5


def test_one_quantity_is_judged_with_others_or_alone():
    """Alone, it takes the same candidates as its interval; among others it needs to stand out, and then does."""
    rng = np.random.default_rng(6)
    lengths, n = np.full(8, 50), 2000
    sums = rng.normal(size=(4, 8, n)) * np.sqrt(50.0)
    arguments = np.ones(n), np.full(n, 1e6)
    together = long_range_dispersion(sums, lengths, *arguments)
    alone = [long_range_dispersion(sums[..., [k]], lengths, np.ones(1), np.full(1, 1e6)) for k in range(n)]
    raised = np.array([one.joint[0] for one in alone])
    np.testing.assert_array_equal(raised > 1, together.dispersion > 1)
    assert (raised <= together.dispersion * (1 + 1e-12)).all()
    assert (together.joint <= raised * (1 + 1e-12)).all()
    sums[..., 0] += 200.0 * np.array([-1, 1, -1, 1])[:, None]  # chains that disagree
    assert long_range_dispersion(sums, lengths, *arguments).joint[0] > 100


@pytest.mark.parametrize(
    ("draws", "error", "message"),
    [
        (np.zeros((4, 3), dtype=np.int8), ArgumentError, "draws has 3 draws a chain; at least 4 are needed"),
        (np.zeros((1, 1), dtype=np.int8), ArgumentError, "draws has 1 draws a chain; at least 4 are needed"),
        (np.zeros((0, 9), dtype=np.int8), ArgumentError, "draws has no chain"),
        (np.zeros(9, dtype=np.int8), ArgumentError, r"draws has shape \(9,\); it needs the axes \(chain, draw"),
        (np.full((2, 9), 2), ArgumentError, "draws contains 2; every value must be 0 or 1"),
        (np.full((2, 9), -1), ArgumentError, "draws contains -1; every value must be 0 or 1"),
        (np.zeros((2, 9)), ArgumentTypeError, "draws has dtype float64; 0/1 draws must be booleans or integers"),
    ],
)
def test_bad_draws_are_refused(draws, error, message):
    with pytest.raises(error, match=message):
        IndicatorCounts.from_draws(draws)


def test_bad_words_are_refused():
    words = np.zeros((2, 8, 3, 1), dtype=np.uint64)
    with pytest.raises(ArgumentTypeError, match="words is an array of int64 with 4 axes; it must be a uint64 array"):
        IndicatorCounts.from_words(words.astype(np.int64), 3)
    with pytest.raises(ArgumentTypeError, match="words is a list; it must be a uint64 array"):
        IndicatorCounts.from_words([[0]], 3)
    for n_bits in (0, 65):
        with pytest.raises(ArgumentError, match=f"n_bits is {n_bits}; it must be from 1 to 64"):
            IndicatorCounts.from_words(words, n_bits)
    with pytest.raises(ArgumentError, match="words has 2 draws a chain"):
        IndicatorCounts.from_words(words[:, :2], 3)


def test_no_quantities_give_empty_arrays():
    result = diagnose_indicators(IndicatorCounts.from_draws(np.zeros((2, 8, 0), dtype=bool)))
    assert result.probability.shape == result.mcse.shape == result.lower.shape == (0,)
