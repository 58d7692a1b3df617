"""Crossings of links, counted in n log n steps, against all pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from doxa.models import Dag
from doxa.plots.layers import _crossings, _inversions, layered_layout


@pytest.mark.parametrize("seed", range(20))
def test_inversions_are_counted(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 9, size=seed * 3).tolist()
    n = len(values)
    assert _inversions(values) == sum(values[i] > values[j] for i in range(n) for j in range(i + 1, n))


@pytest.mark.parametrize("seed", range(5))
def test_crossings_are_those_of_all_pairs_of_links(seed):
    rng = np.random.default_rng(seed)
    rows = [[(f"{row}{k}",) for k in range(7)] for row in range(3)]
    below = {item: [] for row in rows for item in row}
    pairs = 0
    for upper, lower in itertools.pairwise(rows):
        links = [(i, j) for i in range(7) for j in range(7) if rng.random() < 0.3]
        for i, j in links:
            below[upper[i]].insert(0, lower[j])  # in no order
        pairs += sum(a < c and b > d for a, b in links for c, d in links)
    assert pairs > 0
    assert _crossings(rows, below) == pairs


def test_a_ladder_without_need_of_crossings_has_none():
    names = [f"{side}{k}" for k in range(6) for side in "ab"]
    layout = layered_layout(Dag.from_edges([(f"a{k}", f"b{5 - k}") for k in range(6)], names))
    tops = sorted((layout.nodes[f"a{k}"][0], layout.nodes[f"b{5 - k}"][0]) for k in range(6))
    assert [bottom for _, bottom in tops] == sorted(bottom for _, bottom in tops)
