"""Crossings of links, counted in n log n steps, against all pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from doxa.models import Dag
from doxa.plots.layers import _crossings, _inversions, layered_layout, sliced_layout


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


def test_moments_stand_side_by_side():
    """The past to the left, a row for each column, causes above effects; edges of a moment bend to the right of it."""
    names = ["x", "y", "x [t-1]", "y [t-1]", "x [t-2]", "y [t-2]"]
    layout = sliced_layout(Dag.from_edges([("y", "x"), ("x [t-2]", "y"), ("y [t-1]", "x")], names), 2)
    assert layout.nodes["y"][1] < layout.nodes["x"][1]
    for name in ("x", "y"):
        places = [layout.nodes[name + past] for past in (" [t-2]", " [t-1]", "")]
        assert places == sorted(places)
        assert len({y for _, y in places}) == 1
    [(x, y)] = layout.bends["y", "x"]
    assert x > layout.nodes["x"][0]
    assert y == 0.5
    assert layout.bends["x [t-2]", "y"] == ()
