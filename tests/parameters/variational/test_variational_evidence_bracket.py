"""Bounds on the log evidence from both sides, against quadrature."""

import numpy as np
import pytest
from scipy.special import logsumexp

from doxa.errors import ArgumentError
from doxa.models.logistic_regression import make_problem
from doxa.parameters.variational import evidence_bracket as module
from doxa.parameters.variational.bound import log_logistic
from doxa.parameters.variational.evidence_bracket import evidence_bracket
from doxa.parameters.variational.laplace import find_mode
from doxa.parameters.variational.whitened import whiten
from support.checks import SEED


def random_problem(rng, d):
    n = int(rng.integers(1, 30))
    root = rng.normal(0, 1.0, (d, d)) * np.exp(rng.normal(0, 0.7))
    return make_problem(
        rng.normal(0, 1, (n, d)),
        rng.choice([-1, 1], n),
        rng.integers(1, 4, n),
        rng.normal(0, 0.5, n),
        rng.normal(0, 0.5, d),
        root @ root.T + 0.05 * np.eye(d),
    )


def log_evidence(problem):
    """By the trapezoidal rule in units of Laplace's Gaussian; one or two coefficients."""
    white = whiten(problem)
    mode = find_mode(white)
    d = white.rows.shape[1]
    axis = np.linspace(-15, 15, 4001 if d == 1 else 241)
    grid = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    points = mode.mean + grid @ mode.factor.T
    log_p = log_logistic(points @ white.rows.T + white.offset) @ white.counts - 0.5 * (points**2).sum(axis=1)
    size = np.log(np.diag(mode.factor)).sum() + d * (np.log(axis[1] - axis[0]) - 0.5 * np.log(2 * np.pi))
    return float(logsumexp(log_p) + size)


def excesses(n_cases, boxes=16):
    """How far the bounds are on the wrong side, nats: (cases, 2)."""
    rng = np.random.default_rng(SEED)
    out = []
    for case in range(n_cases):
        problem = random_problem(rng, 1 + case % 2)
        exact, found = log_evidence(problem), evidence_bracket(problem, boxes=boxes)
        out.append((found.lower - exact, exact - found.upper))
    return np.array(out)


@pytest.mark.parametrize("boxes", [1, 16])
@pytest.mark.parametrize("n_cases", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_the_evidence_is_between(n_cases, boxes):
    assert excesses(n_cases, boxes).max() < 1e-7


def test_a_tangent_that_is_too_low_is_found_out(monkeypatch):
    monkeypatch.setattr(module, "log_logistic", lambda h: log_logistic(h) - 0.02)
    assert excesses(40)[:, 1].max() > 0.01


def test_boxes_that_leave_a_gap_are_found_out(monkeypatch):
    right = module._cuts

    def short(n):
        low, high, points = right(n)
        return low, np.where((high == np.inf) & (low > -np.inf), low + 1, high), points

    monkeypatch.setattr(module, "_cuts", short)
    assert excesses(40)[:, 1].max() > 1e-3


def test_one_box_is_the_smallest_bound_that_is_linear_in_the_logits():
    """The expectation of exp(lambda h - H(lambda)) under the prior; at the mode no other lambda is better."""
    rng = np.random.default_rng(SEED)
    problem = random_problem(rng, 2)
    white = whiten(problem)

    def bound(lam):
        entropy = -lam * np.log(lam) - (1 - lam) * np.log1p(-lam)
        linear = white.rows.T @ (white.counts * lam)
        return float(white.counts @ (lam * white.offset - entropy)) + 0.5 * float(linear @ linear)

    mode = find_mode(white)
    best = 1 / (1 + np.exp(white.offset + white.rows @ mode.mean))
    found = evidence_bracket(problem, boxes=1).upper
    assert found == pytest.approx(bound(best), abs=1e-8)
    assert found == pytest.approx(mode.trace[-1], abs=1e-8)  # the dual problem
    for _ in range(50):
        assert bound(np.clip(best + 0.1 * rng.standard_normal(best.size), 1e-6, 1 - 1e-6)) >= found


def test_newton_steps_only_lower_the_bound(monkeypatch):
    rng = np.random.default_rng(SEED)
    problems = [random_problem(rng, d) for d in (1, 2, 4, 6)]
    path = []
    for n_steps in (0, 1, 2, 4, 12):
        monkeypatch.setattr(module, "_STEPS", n_steps)
        path.append([evidence_bracket(problem, boxes=64).upper for problem in problems])
    assert (np.diff(path, axis=0) <= 1e-12).all()
    assert (path[0][-1] - path[-1][-1]) > 1e-3


def test_more_boxes_are_tighter_and_never_worse_than_one():
    rng = np.random.default_rng(SEED)
    for d in (1, 2, 3, 5):
        problem = random_problem(rng, d)
        widths = [np.subtract(*evidence_bracket(problem, boxes=b)[::-1]) for b in (1, 32, 1024)]
        assert widths[2] < widths[1] <= widths[0]
    separable = make_problem(rng.normal(size=(12, 12)), np.ones(12))
    one, many = (evidence_bracket(separable, boxes=b).upper for b in (1, 256))
    assert many <= one + 1e-9


def test_the_bounds_meet_where_there_are_no_data():
    widths = []
    for share in (1.0, 1e-2, 1e-4, 0.0):
        found = evidence_bracket(make_problem([[1.0, 2.0], [1.0, -1.0]], [1, -1], [share, 3 * share]), boxes=1)
        widths.append(found.upper - found.lower)
    assert (np.diff(widths) < 0).all()
    assert widths[-1] == pytest.approx(0, abs=1e-12)


def test_no_boxes_are_refused():
    with pytest.raises(ArgumentError, match="boxes is 0"):
        evidence_bracket(make_problem([[1.0]], [1]), boxes=0)
