"""Shares of each chain in bins of ranks: what rank plots draw."""

from __future__ import annotations

import numpy as np

from doxa.estimates.gelman_rubin import rank_shares


def test_ranks_show_a_chain_that_sits_elsewhere():
    rng = np.random.default_rng(2)
    same = rng.normal(size=(4, 1000))
    apart = same + np.array([[0.0], [0.0], [0.0], [1.5]])
    assert np.abs(rank_shares(same) - 1).max() < 0.6
    assert rank_shares(apart)[3, -1] > 2.5
    assert np.allclose(rank_shares(apart).mean(axis=1), 1)
    assert np.allclose(rank_shares(apart).mean(axis=0), 1)


def test_ranks_of_ties_are_shared():
    shares = rank_shares(np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]]), bins=8)
    assert np.allclose(shares[:, :3], [[4 / 3] * 3, [2 / 3] * 3])  # three draws of 0: ranks 1 to 3, two from chain 0
    assert np.allclose(shares[:, 3:], [[4 / 5] * 5, [6 / 5] * 5])
