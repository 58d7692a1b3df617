"""Bounds of the posterior's mass in boxes, modes that they locate, and what they promise, against grids."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from parameter_cases import bimodal, blanked, grid_of, two_parents
from scipy.special import logsumexp

from doxa import LogisticNetwork, Table
from doxa.errors import ArgumentError
from doxa.models import LearnedScale
from doxa.models.logistic_parts import independent_parts
from doxa.models.logistic_rows import LogisticLikelihood
from doxa.parameters.joint_target import JointTarget
from doxa.parameters.kernels.gaussians import Student
from doxa.parameters.mode_search import _distances, _Search, _Surface, search_modes
from doxa.parameters.population import find_modes
from doxa.parameters.scaled_target import ScaledTarget


def target_of(network, table):
    (part,) = (part for part in independent_parts(network, table) if not part.complete)
    return JointTarget(network, part, table)


@cache
def hidden_parent():
    """Fifty rows, two modes (de Freitas et al. 2001, section 5.2)."""
    return target_of(*bimodal(2))


@cache
def correlated_prior():
    network, table = two_parents(np.random.default_rng(6), n=40)
    network = LogisticNetwork(
        {"y": ["a", "b"]}, prior_covariance={"y": [[3.0, 1.5], [1.5, 2.0]]}, bias=0.3, roots={"a": 0.4, "b": 0.7}
    )
    return target_of(network, blanked(table, 0.4, np.random.default_rng(7)))


@cache
def learned_root():
    """One coefficient, and the logit of the hidden parent's probability, which has no Gaussian prior."""
    network = LogisticNetwork({"y": ["h"]}, prior_mean=1.0, prior_scale=2.0, bias=0.5)
    rows = [[0, 0], [1, 1], [1, 1], [0, 1], [1, 0]] + [[-1, 0]] * 6 + [[-1, 1]] * 9
    return target_of(network, Table.from_codes(["h", "y"], [["0", "1"]] * 2, rows))


CASES = [hidden_parent, correlated_prior, learned_root]


def boxes_of(surface, rng, n):
    """Random boxes of all sizes in whitened coordinates, and points for the tangents, in them or not."""
    low = rng.uniform(-6, 5, (n, 2))
    return low, low + np.exp(rng.uniform(-4, 2, (n, 2))), rng.uniform(-5, 5, (n, 2))


def log_masses(surface, low, high, n=101):
    """By Gauss-Legendre quadrature."""
    node, weight = np.polynomial.legendre.leggauss(n)
    out = []
    for a, b in zip(low, high, strict=True):
        axes = [(u + v) / 2 + (v - u) / 2 * node for u, v in zip(a, b, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        log_w = np.log(np.outer(weight, weight).ravel()) + np.log((b - a) / 2).sum()
        out.append(logsumexp(surface._density(surface.outer(points)).value + log_w))
    return np.array(out)


def excess(make, n=16):
    """How far bounds of boxes are on the wrong side at most, nats: from above, from below."""
    surface = _Surface(make())
    low, high, point = boxes_of(surface, np.random.default_rng(4), n)
    _, above, below = surface.bounds(low, high, point)
    exact = log_masses(surface, low, high)
    plain, _ = surface._above(low, high, point)
    return (exact - np.minimum(above, plain)).max(), (below - exact).max()


@pytest.mark.parametrize("make", CASES)
def test_masses_of_boxes_are_between_the_bounds(make):
    assert max(excess(make)) < 1e-7


@pytest.mark.parametrize("make", CASES)
def test_tangents_without_the_rise_of_log_sums_are_found_out(make, monkeypatch):
    monkeypatch.setattr(LogisticLikelihood, "above_tangent", lambda self, thetas, axes, reach: 0.0)
    assert excess(make)[0] > 0.01


@pytest.mark.parametrize("make", CASES)
def test_quadratics_that_are_too_flat_are_found_out(make, monkeypatch):
    right = _Surface._precision
    monkeypatch.setattr(_Surface, "_precision", lambda self, thetas: 0.3 * right(self, thetas))
    assert excess(make)[1] > 0.01


@pytest.mark.parametrize("make", CASES)
def test_bounds_close_in_on_small_boxes(make):
    surface = _Surface(make())
    gaps = []
    for width in (0.4, 0.2, 0.1):
        low = np.random.default_rng(0).uniform(-2, 2, (20, 2))
        _, above, below = surface.bounds(low, low + width, low)
        gaps.append((above - below).max())
    assert gaps[1] < 0.5 * gaps[0]
    assert gaps[2] < 0.5 * gaps[1]


def rises(make):
    """By how much the sum of two halves' bounds is above the whole's, nats."""
    surface = _Surface(make())
    low, high, point = boxes_of(surface, np.random.default_rng(5), 60)
    point, whole, _ = surface.bounds(low, high, point)
    cut = high.copy()
    cut[:, 0] = (low[:, 0] + high[:, 0]) / 2
    other = low.copy()
    other[:, 0] = cut[:, 0]
    halves = [surface.bounds(a, b, point)[1] for a, b in ((low, cut), (other, high))]
    return (np.logaddexp(*halves) - whole).max()


@pytest.mark.parametrize("make", CASES)
def test_cutting_a_box_never_loosens_the_bound(make):
    assert rises(make) < 1e-9


def test_halves_that_forget_the_tangent_of_the_whole_can_be_looser(monkeypatch):
    """The broken twin: bounds that keep the last point tried, not the best."""
    monkeypatch.setattr(
        _Surface, "bounds", lambda self, low, high, _: ((low + high) / 2, self._above(low, high, low)[0], 0)
    )
    assert rises(hidden_parent) > 1e-3


def away_of(target, known, radius=6.0):
    """The exact share that lies away from some Gaussians, and the log evidence."""
    grid = grid_of(target, (-30.0, -30.0), (40.0, 40.0), 701)
    far = np.all([_distances(one, grid.points) > radius for one in known], axis=0)
    return grid.probability[far].sum(), grid.log_mass


@pytest.mark.parametrize("seed", [1, 2])
def test_a_mode_that_climbs_did_not_find_is_located(seed):
    target = target_of(*bimodal(seed))
    both = find_modes(target, np.array([[3.0, 0.0], [-3.0, 0.0]]))
    major = find_modes(target, np.random.default_rng(0).normal(3.0, 0.5, (8, 2)))
    assert len(both) == 2
    assert len(major) == 1
    found = search_modes(target, major, radius=3.0, boxes=4000)
    assert any(np.abs(mode.mean - both[-1].mean).max() < 1e-3 for mode in found.modes)


def far_and_narrow():
    """Two thousand rows: the lighter mode, 5 away, has a width of 0.08 and a hundredth of the mass."""
    rng = np.random.default_rng(1)
    network = LogisticNetwork({"y": ["h", "x"]}, prior_mean=3.0, prior_scale=2.0, bias=2.0, roots={"h": 0.6, "x": 0.5})
    return target_of(network, network.simulate(2000, {"y": [3.0, -1.0]}, rng).select(["x", "y"]))


def test_a_far_and_narrow_mode_is_located_and_then_certified():
    target = far_and_narrow()
    (major,) = find_modes(target, np.array([[3.0, -1.0]]))
    wide = Student(major.mean, 2 * major.cholesky, np.inf)
    found = search_modes(target, [wide], share=0.005, boxes=40_000)
    (minor,) = found.modes
    assert np.diag(minor.cholesky).max() < 0.1
    assert np.abs(minor.mean - wide.mean).max() > 5
    assert found.certified


def promise(**options):
    target = hidden_parent()
    known = [Student(np.array([5.0, 0.5]), np.diag([2.0, 1.0]), np.inf)]
    found = search_modes(target, known, radius=3.0, **options)
    exact, log_evidence = away_of(target, [*known, *found.modes], 3.0)
    return found, exact, log_evidence


def test_what_is_promised_is_true_and_not_far_from_exact():
    found, exact, log_evidence = promise(boxes=20_000)
    assert 0.01 < exact <= found.away < 1.3 * exact
    assert log_evidence - 0.1 < found.log_evidence < log_evidence
    assert not found.certified
    enough = promise(share=1.2 * found.away)[0]
    assert enough.certified
    assert enough.n_boxes < found.n_boxes


def test_a_promise_by_a_bound_that_is_none_is_found_out(monkeypatch):
    right = _Surface._above

    def low(self, *boxes):
        bound, mean = right(self, *boxes)
        return bound - 0.5, mean

    monkeypatch.setattr(_Surface, "_above", low)
    found, exact, _ = promise(boxes=20_000)
    assert found.away < exact


def test_a_search_is_monotone_and_loses_no_part_of_space():
    target = hidden_parent()
    search = _Search(target, find_modes(target, np.array([[3.0, 0.0]])), 0.01, 6.0)
    volume = np.prod(search.boxes.high - search.boxes.low, axis=1).sum()
    path = []
    for _ in range(12):
        search.cut()
        path.append(search.log_away)
    assert (np.diff(path) <= 1e-9).all()
    assert np.prod(search.boxes.high - search.boxes.low, axis=1).sum() == pytest.approx(volume)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 1.0}, "share is 1.0"),
        ({"share": np.nan}, "share is nan"),
        ({"boxes": 0}, "boxes is 0"),
        ({"radius": -1.0}, "radius is -1.0"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        search_modes(hidden_parent(), **options)


def test_targets_without_a_given_box_or_with_too_many_parameters_are_refused():
    _, table = bimodal()
    scaled = LogisticNetwork({"y": ["h", "x"]}, prior_scale=LearnedScale(), roots={"h": 0.6, "x": 0.5})
    (part,) = independent_parts(scaled, table)
    with pytest.raises(ArgumentError, match="learned scale"):
        search_modes(ScaledTarget(scaled, part, table))
    parents = [f"x{k}" for k in range(11)]
    rows = np.zeros((1, 12), dtype=int)
    rows[0, 0] = -1
    large = LogisticNetwork({"y": parents}, roots=dict.fromkeys(parents, 0.5))
    with pytest.raises(ArgumentError, match="12 parameters"):
        search_modes(target_of(large, Table.from_codes([*parents, "y"], [["0", "1"]] * 12, rows)))
