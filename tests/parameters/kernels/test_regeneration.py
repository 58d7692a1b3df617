"""Regeneration: eqs. 16 and 17, tours against theory, exactness, and the ways to get it wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import kept_run
from regeneration_checks import (
    BUMPS,
    FAR,
    GRIDS,
    NARROW,
    WIDE,
    Marked,
    choose_by,
    dependence_z,
    length_z,
    mean_tour_length,
    nu_z,
    rank_correlation_z,
    regeneration_rate,
    run_marked,
    target_z,
)

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.regenerative import regenerative_estimate
from doxa.parameters.kernels import regeneration
from doxa.parameters.kernels.gaussians import Normal
from doxa.parameters.kernels.kernel import Function, TargetError
from doxa.parameters.kernels.random_walk import RandomWalk
from doxa.parameters.kernels.regeneration import RegenerativeSampler, advance
from doxa.parameters.kernels.splitting import (
    Atom,
    best_log_c,
    log_nu,
    log_s,
    regeneration_probability,
)
from doxa.sampling.driver import Schedule, sample
from doxa.sampling.importance_proposals import Mixture
from support.checks import SEED, z_limit

LIMIT = z_limit(500)  # cells and tours compared in this file, roughly


def log_weights(d, thetas):
    return GRIDS[d].target.log_density(thetas) - WIDE[d].log_density(thetas)


def sampler(d=1, log_c: Any = "best", **options):
    return RegenerativeSampler(GRIDS[d].target, WIDE[d], log_c, **options)


# Eqs. 16 and 17


@settings(deadline=None)
@given(*[st.floats(-50, 50)] * 3)
def test_eq_17_is_s_nu_over_the_density_of_an_accepted_move(old, new, log_c):
    r = float(regeneration_probability(old, new, log_c))
    if old > log_c and new > log_c:
        printed = max(np.exp(log_c - old), np.exp(log_c - new))
    elif old < log_c and new < log_c:
        printed = max(np.exp(old - log_c), np.exp(new - log_c))
    else:
        printed = 1.0
    assert r == pytest.approx(printed, rel=1e-9)
    assert r <= 1 + 1e-12  # eq. 13: s nu is never above the kernel
    assert log_s(old, log_c) + log_nu(new, log_c) == pytest.approx(np.log(r) + min(0.0, new - old), abs=1e-9)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("log_c", [0.0, 2.0, 3.6, 5.0])
def test_the_rate_is_the_square_of_the_overlap_over_c_and_z(d, log_c):
    """1 / mean tour = M^2 / cZ, M the integral of min(p, cq): by quadrature, and from draws of q."""
    on, q = GRIDS[d], WIDE[d]
    cell = np.prod([axis[1] - axis[0] for axis in on.axes])
    p, q_density = np.exp(on.target.log_density(on.points)), np.exp(q.log_density(on.points))
    overlap = np.minimum(p, np.exp(log_c) * q_density).sum() * cell
    exact = overlap**2 / (np.exp(log_c) * p.sum() * cell)
    assert 1 / mean_tour_length(on.target, Atom(q, log_c), on.axes) == pytest.approx(exact, rel=1e-9)
    thetas = q.sample(100_000, np.random.default_rng(SEED))
    estimate = regeneration_rate(log_weights(d, thetas), log_c)
    assert estimate == pytest.approx(exact, rel=0.05)


@settings(deadline=None)
@given(st.lists(st.floats(-30, 30), min_size=1, max_size=40))
def test_no_other_c_regenerates_more_often(weights):
    best = regeneration_rate(weights, best_log_c(weights))
    others = [regeneration_rate(weights, c) for c in np.linspace(min(weights) - 1, max(weights) + 1, 200)]
    assert best >= max(others) - 1e-12


def test_the_best_c_balances_target_and_proposal():
    """c Q(w > c) = P(w < c), and there M = 2 c Q(w > c)."""
    weights = log_weights(1, BUMPS.points)
    q = np.exp(WIDE[1].log_density(BUMPS.points))
    p = np.exp(BUMPS.target.log_density(BUMPS.points))
    rates = [(np.minimum(p, c * q).sum() ** 2 / c, c) for c in np.exp(np.linspace(0, 6, 4001))]
    c = max(rates)[1]
    above = weights > np.log(c)
    assert c * q[above].sum() == pytest.approx(p[~above].sum(), rel=0.01)
    rng = np.random.default_rng(SEED)
    thetas = WIDE[1].sample(100_000, rng)
    chosen = best_log_c(log_weights(1, thetas))
    assert np.exp(chosen) == pytest.approx(c, rel=0.05)


def test_weights_on_any_scale_give_the_same_c():
    weights = np.array([0.3, -np.inf, 1.0, 2.5, -1.0, 0.0])
    assert best_log_c(weights + 5000) - 5000 == pytest.approx(best_log_c(weights), abs=1e-9)
    assert regeneration_rate(weights + 5000, 5000.0) == pytest.approx(regeneration_rate(weights, 0.0), rel=1e-9)


# Chains against grids


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("log_c", ["best", "mode", 1.0, 4.0])
@pytest.mark.parametrize("local_share", [0.0, 0.4])
def test_draws_marks_and_tours_are_those_of_theory(d, log_c, local_share):
    on = GRIDS[d]
    local = RandomWalk(1.5) if local_share else None
    n = 9000 if local_share else 40_000
    state, marked = run_marked(sampler(d, log_c, local=local, local_share=local_share), n, [SEED, d])
    atom = Atom(WIDE[d], state.log_c)
    assert marked.starts[0]
    assert target_z(on, marked) < LIMIT
    assert nu_z(on, marked, atom) < LIMIT
    assert abs(length_z(marked, mean_tour_length(on.target, atom, on.axes, local_share))) < LIMIT
    assert dependence_z(marked, marked.thetas[:, 0]) < LIMIT
    assert dependence_z(marked, log_weights(d, marked.thetas)) < LIMIT


def test_the_printed_mean_tour_lacks_the_mass_of_nu():
    """1 over the mean of s is refused by the check that the corrected form passes."""
    state, marked = run_marked(sampler(1, 4.5), 60_000, SEED)
    p, weights = BUMPS.p, log_weights(1, BUMPS.points)
    printed = 1 / (p @ np.exp(log_s(weights, state.log_c)))
    right = mean_tour_length(BUMPS.target, Atom(WIDE[1], state.log_c), BUMPS.axes)
    assert abs(length_z(marked, right)) < LIMIT < abs(length_z(marked, printed))


def test_marks_on_all_accepted_moves_are_seen(monkeypatch):
    """The marks of eq. 17 if c follows the weight of the state."""
    real = regeneration._scan

    def marking(*arguments):
        steps = real(*arguments)
        moved = np.diff(steps.theta[:, 0, 0], prepend=arguments[1].thetas[0, 0]) != 0
        return steps._replace(regenerated=moved[:, None])

    monkeypatch.setattr(regeneration, "_scan", marking)
    state, marked = run_marked(sampler(), 60_000, SEED)
    assert nu_z(BUMPS, marked, Atom(WIDE[1], state.log_c)) > 2 * LIMIT
    assert dependence_z(marked, log_weights(1, marked.thetas)) > 2 * LIMIT


@pytest.mark.parametrize(
    ("rule", "independent"),
    [(lambda weights: 3.0, True), (lambda weights: weights - np.log(2), False)],
)
def test_c_may_not_depend_on_the_state(rule, independent):
    """One step each from exact draws of p: where marked, the new state knows nothing of the old, and vice versa."""
    rng = np.random.default_rng(SEED)
    old = BUMPS.points[rng.choice(len(BUMPS.p), size=100_000, p=BUMPS.p)]
    new = WIDE[1].sample(100_000, rng)
    w_old, w_new = log_weights(1, old), log_weights(1, new)
    probability = np.exp(np.minimum(0.0, w_new - w_old)) * regeneration_probability(w_old, w_new, rule(w_old))
    marked = rng.random(100_000) < probability
    z = rank_correlation_z(w_old[marked], w_new[marked])
    assert z < LIMIT if independent else z > 2 * LIMIT


def test_acceptance_without_the_proposal_is_seen(monkeypatch):
    """Metropolis' ratio p / p in place of w / w."""
    monkeypatch.setattr(Atom, "log_weights", lambda self, thetas, values: values)
    _, marked = run_marked(sampler(log_c=0.0), 60_000, SEED)
    assert target_z(BUMPS, marked) > 2 * LIMIT


def test_draws_from_nu_are_draws_from_nu(monkeypatch):
    atom = Atom(WIDE[1], 4.0)
    rng = np.random.default_rng(SEED)

    def firsts():
        drawn = np.concatenate([atom.draw(BUMPS.target, rng).thetas for _ in range(4000)])
        return Marked(drawn, np.ones(4000, dtype=bool))

    assert nu_z(BUMPS, firsts(), atom) < LIMIT
    monkeypatch.setattr(
        "doxa.parameters.kernels.splitting.log_nu", lambda weights, log_c: np.zeros(len(weights))
    )  # from q instead
    assert nu_z(BUMPS, firsts(), atom) > 2 * LIMIT


# When proposals may change


def switching(rule, n_tours, seed, *, keep=False):
    """A chain whose proposal depends on its past: ``rule`` says on which part."""
    rng = np.random.default_rng(seed)
    atoms = {id(q): Atom(q, _best(q)) for q in (NARROW, FAR)}
    atom, parts = atoms[id(FAR)], []
    walker = atom.draw(BUMPS.target, rng)
    for _ in range(n_tours):
        steps = advance(BUMPS.target, atom, walker, 100_000 if rule != "at all times" else 1, rng, stop=1)
        parts.append((walker, steps))
        new = Marked(steps.theta[:, 0], steps.regenerated[:, 0])
        last = new.thetas[-2] if len(new.thetas) > 1 else walker.thetas[0]
        known = last if rule == "complete tours" else new.thetas[-1]
        chosen = atoms[id(choose_by(known))]
        walker = type(walker)(steps.theta[-1], steps.log_density[-1])
        if rule != "at all times" and not (keep and chosen is atom):
            walker = chosen.draw(BUMPS.target, rng)
        atom = chosen
    thetas = np.concatenate([np.concatenate([start.thetas, steps.theta[:-1, 0]]) for start, steps in parts])
    starts = np.concatenate([np.arange(len(steps.theta)) == 0 for _, steps in parts])
    return Marked(thetas, starts)


def _best(q):
    thetas = q.sample(4000, np.random.default_rng(3))
    return best_log_c(BUMPS.target.log_density(thetas) - q.log_density(thetas))


@pytest.mark.parametrize("keep", [False, True])
def test_the_proposal_may_follow_complete_tours(keep):
    """Even where the draw that revealed the regeneration is kept whenever the proposal stays as it was."""
    assert target_z(BUMPS, switching("complete tours", 3000, SEED, keep=keep)) < LIMIT


def test_the_proposal_may_not_follow_the_draw_that_is_kept():
    assert target_z(BUMPS, switching("the new draw", 6000, SEED, keep=True)) > 2 * LIMIT
    assert target_z(BUMPS, switching("the new draw", 3000, SEED, keep=False)) < LIMIT  # nothing of it remains


def test_the_proposal_may_not_follow_the_state_at_all_times():
    assert target_z(BUMPS, switching("at all times", 3000, SEED)) > 2 * LIMIT


# Estimates


def test_intervals_by_tours_cover():
    exact, covered = float(BUMPS.p @ BUMPS.points[:, 0]), 0
    for k in range(200):
        _, marked = run_marked(sampler(), 800, [SEED, k])
        low, high = regenerative_estimate(*marked.tours(marked.thetas[:, 0])).estimate.interval(0.95)
        covered += low < exact < high
    assert covered / 200 > 0.93 - 3.1 * np.sqrt(0.93 * 0.07 / 200)  # passes chains that cover 93% in 999 of 1000 runs


# The driver's contract


def test_blocks_change_nothing():
    one = sampler(2, local=RandomWalk(1.0), local_share=0.2)
    whole = sample(one, Schedule(2, 600, 100), seed=4, workers=1)
    for block in (1, 7, 256):
        other = sample(one, Schedule(2, 600, 100), seed=4, workers=1, block=block)
        for name in whole.names:
            np.testing.assert_array_equal(whole[name], other[name])
        assert {name: whole.info[name].tolist() for name in whole.info} == {
            name: other.info[name].tolist() for name in other.info
        }


def test_a_stored_run_goes_on_where_it_stopped(tmp_path):
    assert kept_run(tmp_path / "a.doxa", sampler(2), 500) == kept_run(tmp_path / "b.doxa", sampler(2), 10, 333, 500)


def test_thinned_marks_are_regenerations_at_kept_draws():
    rng = np.random.default_rng(SEED)
    one, three = sampler(), sampler(thin=3)
    _, every, _ = one.run(one.init(rng), 900, rng)
    rng = np.random.default_rng(SEED)
    _, third, info = three.run(three.init(rng), 900, rng)
    for name, values in every.items():
        np.testing.assert_array_equal(values[2::3], third[name])
    assert info == {"steps": 900, "regenerations": int(every["regenerated"].sum())}
    _, thinned = run_marked(three, 90_000, SEED)
    assert target_z(BUMPS, thinned) < LIMIT
    assert dependence_z(thinned, log_weights(1, thinned.thetas)) < LIMIT


def test_any_proposal_will_do():
    mixture = Mixture([NARROW, FAR], [0.6, 0.4])
    state, marked = run_marked(RegenerativeSampler(BUMPS.target, mixture), 40_000, SEED)
    assert target_z(BUMPS, marked) < LIMIT
    assert nu_z(BUMPS, marked, Atom(mixture, state.log_c)) < LIMIT
    few = RegenerativeSampler(BUMPS.target, mixture, local=RandomWalk(1.0), local_share=0.99)
    assert run_marked(few, 300, SEED)[1].thetas.shape == (300, 1)


def test_a_target_with_a_border_is_no_trouble():
    half = Function(lambda x: np.where(x[:, 0] > 0, -x[:, 0], -np.inf), 1)
    _, marked = run_marked(RegenerativeSampler(half, Normal(np.ones(1), np.eye(1))), 20_000, SEED)
    assert (marked.thetas > 0).all()
    estimate = regenerative_estimate(*marked.tours((marked.thetas[:, 0] > 1).astype(float))).estimate
    assert abs(estimate.value - np.exp(-1)) < LIMIT * estimate.mcse


# Refusals


@dataclass
class Elsewhere:
    """A proposal far from everything."""

    def sample(self, n, rng):
        return 1000.0 + rng.random((n, 1))

    def log_density(self, thetas):
        return np.zeros(len(thetas))


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"log_c": np.nan}, ArgumentError, "log_c is nan; it must be a finite number, 'best' or 'mode'"),
        ({"log_c": "highest"}, ArgumentError, "log_c is 'highest'; it must be a finite number, 'best' or 'mode'"),
        ({"local_share": 0.5}, ArgumentError, "local_share is 0.5, but local is None; give the kernel that makes"),
        (
            {"local": RandomWalk(), "local_share": 1.0},
            ArgumentError,
            "local_share is 1.0; it must be at least 0, and below 1",
        ),
        (
            {"local": RandomWalk(), "local_share": "half"},
            ArgumentTypeError,
            "local_share is 'half'; it must be a number of at least 0 and below 1",
        ),
        ({"thin": 0}, ArgumentError, "thin is 0; it must be at least 1"),
    ],
)
def test_settings_that_make_no_sampler_are_refused(options, kind, message):
    with pytest.raises(kind) as refused:
        sampler(**options)
    assert str(refused.value).startswith(message)


def test_a_proposal_outside_the_support_is_refused():
    box = Function(lambda x: np.where(np.abs(x[:, 0]) < 1, 0.0, -np.inf), 1)
    with pytest.raises(TargetError, match=r"none of 512 draws from Elsewhere\(\) lies in the target's support"):
        RegenerativeSampler(box, Elsewhere()).init(np.random.default_rng(1))
    with pytest.raises(TargetError, match=r"no draw from nu in 2\^15 proposals: log_c = 40 lies far above the log wei"):
        sampler(log_c=40.0).init(np.random.default_rng(1))


def test_constants_are_checked():
    with pytest.raises(ArgumentError, match="log_c is -inf; it must be finite, a log weight of target over proposal"):
        Atom(WIDE[1], -np.inf)
