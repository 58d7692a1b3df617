"""Counts of the bits alone that are ever set, and diagnostics of all from them."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from doxa.estimates import counts as counting
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.indicators import IndicatorDiagnostics, diagnose_indicators, diagnose_words
from doxa.models.bits import pack_rows


def chains(n=70, draws=45, seed=1):
    """Draws of sparse matrices in which few bits are ever set, some of them always."""
    rng = np.random.default_rng(seed)
    chance = np.where(rng.random((n, n)) < 0.02, rng.random((n, n)), 0.0)
    chance[0, 1], chance[3, 65] = 1.0, 1.0
    np.fill_diagonal(chance, 0.0)
    return rng.random((3, draws, n, n)) < chance


@pytest.fixture(params=[0, counting._FEW], ids=["walk", "plain"], autouse=True)
def _of_few(request, monkeypatch):
    monkeypatch.setattr(counting, "_FEW", request.param)


@pytest.mark.parametrize("reference", [None, 30.0])
def test_diagnostics_of_what_was_ever_set_are_those_of_all(reference):
    draws = chains()
    sparse = diagnose_words(pack_rows(draws), draws.shape[-1], reference)
    dense = diagnose_indicators(IndicatorCounts.from_draws(draws), reference)
    for field in fields(IndicatorDiagnostics):
        assert np.array_equal(getattr(sparse, field.name), getattr(dense, field.name), equal_nan=field.name == "r_hat")


def test_folded_counts_are_those_of_unordered_pairs_and_unfolded_ones_are_not():
    draws = chains(seed=2)
    n = draws.shape[-1]
    pairs = (draws | draws.swapaxes(-1, -2)) & np.triu(np.ones((n, n), dtype=bool))
    expected = IndicatorCounts.from_draws(pairs)
    present, folded = IndicatorCounts.of_present(pack_rows(draws), n, folded=True)
    assert np.array_equal(present, pairs.any(axis=(0, 1)))
    for name in ("ones", "rises", "falls", "middle", "differing"):
        assert np.array_equal(getattr(folded, name), getattr(expected, name)[..., present])
    unfolded, counts = IndicatorCounts.of_present(pack_rows(draws), n)
    assert not np.array_equal(unfolded, present)
    assert np.array_equal(counts.ones.sum(axis=(1, 2)), draws.sum(axis=(1, 2, 3)))


def test_nothing_ever_set_is_nothing_known():
    found = diagnose_words(np.zeros((2, 10, 3, 1), dtype=np.uint64), 3)
    assert found.probability.shape == (3, 3)
    assert found.reference_ess == 0
    assert np.isnan(found.r_hat).all()
