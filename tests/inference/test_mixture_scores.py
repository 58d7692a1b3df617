"""The ranked score of mixtures of many components, and moments of many mixtures at once, against plain sums."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.data.transforms import Transform
from doxa.inference.exact import mixture
from doxa.inference.exact.mixture import NormalMixture, TransformedMixture

SPREADS = (0.0, 0.1, 1.0, 5.0)  # of the means, in standard deviations


def made(n, spread, ratio=1.5, seed=0):
    rng = np.random.default_rng([seed, n])
    return NormalMixture(rng.random(n), spread * rng.normal(size=n), ratio ** rng.random(n))


def by_pairs(own):
    """E of the distance between two draws, by all pairs of components."""
    means, sds = own.means[:, None] - own.means, np.hypot(own.sds[:, None], own.sds)
    return float(own.weights @ mixture._absolute(means, sds) @ own.weights)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("n", [3, 40, 400])
@pytest.mark.parametrize("ratio", [1.0, 4.0, 1000.0])
def test_the_mean_difference_is_that_of_all_pairs(n, spread, ratio):
    own = made(n, spread, ratio)
    assert own._mean_difference == pytest.approx(by_pairs(own), rel=1e-12)


def test_many_components_cost_no_pairs(monkeypatch):
    own = made(400, 1.0)
    expected = by_pairs(own)
    monkeypatch.setattr(mixture, "_absolute", None)
    assert own._mean_difference == pytest.approx(expected, rel=1e-12)


def test_a_grid_that_is_too_coarse_is_seen():
    own = made(400, 0.1, 1.0)
    low, high = own._ends
    points = np.arange(low, high, 1.5)
    below = own._below(points)
    assert 2.0 * 1.5 * (below * (1.0 - below)).sum() != pytest.approx(by_pairs(own), rel=1e-6)


def test_a_point_among_the_components_steps_up():
    own = NormalMixture([0.25, 0.75], [1.0, 0.0], [0.0, 1.0])
    before, after = own._below(np.array([1.0 - 1e-9, 1.0]))
    assert after - before == pytest.approx(0.25, abs=1e-8)
    assert own.crps(1.0) == pytest.approx(by_crps(own, 1.0), abs=1e-4)


def by_crps(own, x):
    t = np.linspace(-9.0, 9.0, 400_001)
    gap = (own._below(t) - (t >= x)) ** 2
    return float(gap.sum() * (t[1] - t[0]))


@pytest.mark.parametrize("method", ["log", "logit", "normal scores"])
def test_moments_of_many_are_those_of_each(method):
    knots = (np.array([0.0, 1.0, 4.0]), np.array([-1.0, 0.0, 1.0])) if method == "normal scores" else ()
    each = [made(n, 1.0, seed=n) for n in (1, 5, 3)]
    own = [TransformedMixture(one.weights, one.means, one.sds, Transform(method, *knots)) for one in each]
    mean, sd = own[0].moments(own)
    assert mean == pytest.approx([one.mean for one in own])
    assert sd == pytest.approx([one.sd for one in own])
    first, _ = own[1].transform.moments(own[1].means, own[1].sds)
    assert own[1].mean == pytest.approx(float(own[1].weights @ first))


@pytest.mark.parametrize("sds", [(1.0, 1.0), (0.5, 2.0), (0.0, 1.0), (0.0, 0.0)])
def test_the_grid_of_a_transformed_score_is_fine_enough(sds, monkeypatch):
    own = TransformedMixture([0.4, 0.6], [0.0, 1.3], sds, Transform("log"))
    points = np.array([0.3, 1.0, 2.2, 9.0])
    found = own.crps(points)
    monkeypatch.setattr(mixture, "_GRID", 400_001)
    monkeypatch.setattr(mixture, "_FINE", 1e-4)
    assert found == pytest.approx(own.crps(points), rel=2e-3 if min(sds) == 0 else 1e-3)  # steps fall between points
    monkeypatch.setattr(mixture, "_GRID", 60)
    assert found != pytest.approx(own.crps(points), rel=1e-2)  # a broken twin
