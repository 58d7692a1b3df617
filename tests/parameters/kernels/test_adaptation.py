"""Adaptation: what tours say, what a pilot says, chains that learn and stay exact, and the ways to get it wrong."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import kept_run
from regeneration_checks import (
    BAD,
    BANANA,
    BENT,
    BUMPS,
    GRIDS,
    WIDE,
    acceptance_of,
    paper_problem,
    run_marked,
    target_z,
)

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels import adaptation
from doxa.parameters.kernels.adaptation import AdaptiveSampler
from doxa.parameters.kernels.gaussians import Normal
from doxa.parameters.kernels.kernel import Function, TargetError
from doxa.parameters.kernels.random_walk import RandomWalk
from doxa.parameters.kernels.regeneration import RegenerativeSampler
from doxa.parameters.kernels.splitting import Atom
from doxa.parameters.kernels.tour_moments import (
    add_draws,
    choose_proposal,
    close_tour,
    correction,
    no_tours,
    pilot_log_c,
    sample_moments,
)
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.sampling.driver import Schedule, sample
from doxa.sampling.importance_proposals import Mixture
from support.checks import SEED, z_limit

LIMIT = z_limit(500)  # cells and rates compared in this file, roughly


# Moments of tours


def random_tours(rng, n, d):
    draws = rng.standard_normal((n, d)) + 0.3
    starts = rng.random(n) < 0.3
    starts[0] = True
    return draws, starts


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_moments_do_not_depend_on_how_draws_arrive(seed, d):
    rng = np.random.default_rng(seed)
    draws, starts = random_tours(rng, 60, d)
    whole = add_draws(no_tours(d), draws, starts)
    pieces, at = no_tours(d), 0
    while at < 60:
        n = int(rng.integers(1, 20))
        pieces = add_draws(pieces, draws[at : at + n], starts[at : at + n])
        at += n
    edges = np.flatnonzero(starts)
    tours = [draws[a:b] for a, b in pairwise(edges)]
    outers = [tour.T @ tour for tour in tours]
    for moments in (whole, pieces):
        assert moments.n_tours == len(tours)
        if not tours:
            continue
        flat = np.concatenate(tours)
        mean, covariance = sample_moments(moments)
        np.testing.assert_allclose(mean, flat.mean(axis=0))
        np.testing.assert_allclose(covariance, np.cov(flat.T, bias=True).reshape(d, d), atol=1e-12)
        np.testing.assert_allclose(
            moments.weighted[1:, 1:], sum(len(t) * s for t, s in zip(tours, outers, strict=True))
        )
        np.testing.assert_allclose(moments.weighted[0, 1:], sum(len(t) * t.sum(axis=0) for t in tours))
        squares = [
            sum((t.sum(axis=0) ** 2).sum() for t in tours),
            sum((s**2).sum() for s in outers),
            sum(np.trace(s) ** 2 for s in outers),
        ]
        np.testing.assert_allclose(moments.squares, squares)
        np.testing.assert_allclose(moments.running[0, 0], 60 - edges[-1])
        assert close_tour(close_tour(moments)).n_tours == len(tours) + 1


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_a_weight_is_so_many_draws_of_the_same_tour(seed, d):
    rng = np.random.default_rng(seed)
    draws, starts = random_tours(rng, 40, d)
    weights = rng.integers(1, 4, 40)
    repeated = np.repeat(draws, weights, axis=0)
    marks = np.zeros(len(repeated), dtype=bool)
    marks[(np.cumsum(weights) - weights)[starts]] = True
    one = close_tour(add_draws(no_tours(d), draws, starts, weights.astype(float)))
    other = close_tour(add_draws(no_tours(d), repeated, marks))
    for part, same in zip(one, other, strict=True):
        np.testing.assert_allclose(part, same)


def loss(mean, covariance, true_mean, true_covariance):
    return (mean - true_mean) @ (mean - true_mean) + 0.5 * ((covariance - true_covariance) ** 2).sum()


@pytest.mark.parametrize("n_tours", [16, 64, 512])
@pytest.mark.parametrize(
    ("shift", "scale", "tilt"), [(0.0, 1.0, 0.0), (0.3, 1.0, 0.0), (0.0, 1.5, 0.0), (0.2, 1.2, 0.3)]
)
def test_a_correction_loses_less_than_plain_moments_and_little_where_nothing_is_wrong(n_tours, shift, scale, tilt):
    """Twice the divergence, to second order; tours are runs of repeated draws, of random lengths."""
    d, rng = 10, np.random.default_rng([SEED, n_tours])
    true_mean = np.full(d, shift)
    true_covariance = scale * ((1 - tilt) * np.eye(d) + tilt)
    root = np.linalg.cholesky(true_covariance)
    losses = []
    for _ in range(40):
        lengths = rng.geometric(0.6, n_tours)
        draws = np.repeat(true_mean + rng.standard_normal((n_tours, d)) @ root.T, lengths, axis=0)
        starts = np.zeros(len(draws), dtype=bool)
        starts[np.cumsum(lengths) - lengths] = True
        moments = close_tour(add_draws(no_tours(d), draws, starts))
        change = correction(moments)
        np.linalg.cholesky(change.covariance)
        losses.append(
            [
                loss(change.mean, change.covariance, true_mean, true_covariance),
                loss(np.zeros(d), np.eye(d), true_mean, true_covariance),
                loss(*sample_moments(moments), true_mean, true_covariance),
            ]
        )
    corrected, uncorrected, plain = np.mean(losses, axis=0)
    error = np.std(np.array(losses)[:, 0]) / np.sqrt(40)
    assert corrected < 1.1 * plain  # where all is wrong, there is nothing to save
    # Positive-part shrinkage in k dimensions loses at most a share of the noise where there is nothing to find.
    assert corrected < uncorrected + 0.1 * plain + 5 * error


def test_few_tours_say_nothing():
    moments = add_draws(no_tours(2), np.full((8, 2), 5.0), np.ones(8, dtype=bool))
    assert moments.n_tours == 7
    assert not correction(moments).shares.any()
    assert correction(close_tour(moments)).shares[0] == 1 - 1 / 8  # eight that agree: all but a share of one in eight


# The pilot


def exact_acceptance(on, q):
    """By quadrature: the double integral of min(p q', p' q), in the order of the weights."""
    log_q = q.log_density(on.points)
    q_cells = np.exp(log_q) / np.exp(log_q).sum()
    order = np.argsort(on.target.log_density(on.points) - log_q)
    p, q_cells = on.p[order], q_cells[order]
    return 2 * (p * (1 - np.cumsum(q_cells))).sum()


@pytest.mark.parametrize("d", [1, 2])
def test_a_pilot_estimates_acceptance(d):
    on, rng = GRIDS[d], np.random.default_rng(SEED)
    candidates = [BAD[d], WIDE[d], WIDE[d].widened(1.2)]
    found = np.array([choose_proposal(on.target, candidates, 256, rng).acceptance for _ in range(100)])
    exact = np.array([exact_acceptance(on, q) for q in candidates])
    error = found.std(axis=0) / 10
    assert (np.abs(found.mean(axis=0) - exact) < LIMIT * error + 0.005).all()  # self-normalised: a bias of order 1/n


def test_a_pilot_sees_the_mode_that_a_proposal_misses():
    """Judged by its own draws, or by acceptance alone, the narrow proposal would be better."""
    narrow, both = Normal(np.array([-1.0]), np.array([[0.5]])), WIDE[1]
    choice = choose_proposal(BUMPS.target, [both, narrow], 512, np.random.default_rng(SEED))
    assert choice.number == 0
    assert choice.acceptance[1] > choice.acceptance[0]
    assert choice.efficiency[1] < 0.1 < choice.efficiency[0]
    own = narrow.sample(512, np.random.default_rng(SEED))
    w = np.sort(np.exp(BUMPS.target.log_density(own) - narrow.log_density(own)))
    assert 2 * (w * np.arange(511, -1, -1)).sum() / 511 / w.sum() > 0.9 > exact_acceptance(BUMPS, both)


def test_a_pilot_sees_the_tail_that_a_proposal_cuts_off():
    """The bulk of a banana is fitted better by a Gaussian that loses its tail."""
    start = Normal(np.array([0.5, -1.0]), np.diag([1.7, 3.5]))
    narrow = Normal(np.array([1.0, -0.2]), np.array([[1.0, 0.0], [-1.0, 0.9]]))
    assert exact_acceptance(BANANA, narrow) > exact_acceptance(BANANA, start) + 0.1
    for k in range(20):
        assert choose_proposal(BANANA.target, [start, narrow], 256, np.random.default_rng([SEED, k])).number == 0
    _, marked = run_marked(AdaptiveSampler(BANANA.target, start), 15_000, SEED)
    assert target_z(BANANA, marked) < LIMIT


def test_equal_proposals_stay():
    for seed in range(20):
        assert choose_proposal(BENT.target, [WIDE[2], WIDE[2]], 64, np.random.default_rng(seed)).number == 0


# Chains against grids


def adaptive(d=1, **options: Any):
    return AdaptiveSampler(GRIDS[d].target, **{"proposal": BAD[d], **options})


def pair(*means, spread, shares=(0.5, 0.5)):
    """A mixture of two Gaussians of this spread."""
    parts = [Normal(np.asarray(mean, dtype=np.float64), spread * np.eye(len(mean))) for mean in means]
    return Mixture(parts, shares)


LOCAL = {"local": RandomWalk(1.5), "local_share": 0.3}
KINDS = {
    "ours": {},
    "published": {"shrinkage": False},
    "with local steps": LOCAL,
    "with a wide part": {"wide": Normal(np.zeros(2), 4.0 * np.eye(2))},
    "published, with local steps": {**LOCAL, "shrinkage": False},
    "a mixture": {"proposal": pair([-1.5, 0.0], [2.0, 1.0], spread=2.0)},
}
TWO = pair([-2.0], [4.0], spread=2.0)  # about the modes of BUMPS, too wide and off
CASES = [
    pytest.param(kind, marks=[pytest.mark.slow] if kind == "published, with local steps" else []) for kind in KINDS
]


@pytest.mark.parametrize("kind", CASES)
def test_adaptive_chains_keep_the_target(kind):
    n = 4000 if "published" in kind else 8000 if "local" in kind else 30_000
    sampler = adaptive(2, **KINDS[kind])
    state, marked = run_marked(sampler, n, SEED)
    assert target_z(BENT, marked) < LIMIT
    started = sampler.init(np.random.default_rng(SEED))
    assert not np.array_equal(state.mean, started.mean)  # and it did adapt


@pytest.mark.parametrize("kind", ["ours", "published"])
def test_an_adaptive_chain_keeps_a_target_with_two_modes(kind):
    _, marked = run_marked(adaptive(1, **KINDS[kind]), 4000 if kind == "published" else 30_000, SEED)
    assert target_z(BUMPS, marked) < LIMIT


def test_an_adaptive_mixture_finds_the_two_modes():
    sampler = adaptive(1, proposal=TWO)
    state, marked = run_marked(sampler, 30_000, SEED)
    assert target_z(BUMPS, marked) < LIMIT
    found = adaptation._unpack(state)[0].normals
    np.testing.assert_allclose(state.mean[:, 0], [-1.0, 2.0], atol=0.3)
    np.testing.assert_allclose(state.cholesky[:, 0, 0], [0.5, 1.0], atol=0.3)
    np.testing.assert_allclose(state.shares, [0.7, 0.3], atol=0.1)  # 0.7 * 0.5 to 0.15
    started, alone = (acceptance_of(BUMPS.target, q) for q in (TWO, adapted_alone()))
    assert acceptance_of(BUMPS.target, found.proposal) > max(started, alone) + 0.1


def adapted_alone():
    """The one Gaussian that a chain comes to."""
    state, _ = run_marked(adaptive(1), 10_000, SEED)
    return adaptation._unpack(state)[0].normals.proposal


@pytest.mark.parametrize(("share", "bounded"), [(0.05, True), (0.0, False)])
def test_weights_stay_within_twenty_times_those_of_the_start(share, bounded):
    """A chain that has not seen a tail would cut it off, and never see it."""
    sampler = adaptive(2, wide_share=share)
    state, _ = run_marked(sampler, 4000, SEED)
    now = sampler._guarded(adaptation._unpack(state)[0].normals)
    rise = sampler.proposal.log_density(BENT.points) - now.log_density(BENT.points)
    assert rise.max() > 0.1  # it has changed
    assert (rise.max() <= np.log(20) + 1e-9) == bounded


def test_tours_cut_at_other_times_are_seen(monkeypatch):
    """One step to a tour, whether the chain regenerated or not: all draws are draws from nu."""
    real = adaptation.advance

    def impatient(target, atom, walker, n_steps, rng, *mixed, stop):
        steps = real(target, atom, walker, min(1, n_steps), rng, *mixed)
        marks = np.zeros_like(steps.regenerated)
        marks[-1] = True
        return steps._replace(regenerated=marks)

    monkeypatch.setattr(adaptation, "advance", impatient)
    assert target_z(BUMPS, run_marked(adaptive(1, shrinkage=False), 4000, SEED)[1]) > LIMIT


def begin_anywhere(monkeypatch):
    """A draw from the new proposal in the place of one from its nu."""

    def draw(atom, target, rng):
        thetas = atom.proposal.sample(1, rng)
        return adaptation.Walkers(thetas, target.log_density(thetas))

    monkeypatch.setattr(Atom, "draw", draw)


def test_a_tour_that_begins_with_any_draw_is_seen(monkeypatch):
    begin_anywhere(monkeypatch)
    assert target_z(BUMPS, run_marked(adaptive(1, shrinkage=False), 4000, SEED)[1]) > 2 * LIMIT


@pytest.mark.parametrize("broken", [False, True])
def test_a_mixture_may_change_at_every_regeneration_if_tours_begin_with_nu(monkeypatch, broken):
    """Whatever the new proposal is: here the mixture with other weights, by the draws that it is responsible for."""

    def changed(self, now, rng):
        normals = adaptation.Normals(now.normals.parts, adaptation._shares(now.tours))
        return normals, pilot_log_c(self.target, self._guarded(normals), 32, rng)

    monkeypatch.setattr(AdaptiveSampler, "_corrected", changed)
    monkeypatch.setattr(AdaptiveSampler, "_refit", every_time(AdaptiveSampler._refit))
    if broken:
        begin_anywhere(monkeypatch)
    z = target_z(BUMPS, run_marked(adaptive(1, proposal=TWO, first=8), 6000, SEED)[1])
    assert z > 2 * LIMIT if broken else z < LIMIT


def every_time(refit):
    """Refits at every regeneration."""

    def refitted(self, now, start, rng):
        now, start, new = refit(self, now, start, rng)
        return now._replace(next_refit=now.n_tours + 2), start, new

    return refitted


# What adaptation is for


def rates(draws, half):
    """Mean acceptance of the first or second half, with its error from 20 batches."""
    values = draws["acceptance"].ravel()
    means = np.array_split(values[: len(values) // 2] if half == 0 else values[len(values) // 2 :], 20)
    means = [part.mean() for part in means]
    return float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(20))


def run(sampler, n, seed):
    rng = np.random.default_rng(seed)
    return sampler.run(sampler.init(rng), n, rng)


@pytest.mark.parametrize("d", [20, 50])
def test_a_good_proposal_is_not_spoilt(d):
    """The optimal Gaussian on the paper's problem is accepted as often after 6000 steps as at the start."""
    target = paper_problem(d, SEED)
    start = optimal_posterior(target.problem)
    state, draws, info = run(AdaptiveSampler(target, start), 6000, SEED)
    fixed, error = rates(run(RegenerativeSampler(target, start), 6000, SEED + 1)[1], 1)
    late, late_error = rates(draws, 1)
    assert late > fixed - LIMIT * np.hypot(error, late_error)
    final = acceptance_of(target, Normal(state.mean[0], state.cholesky[0]))
    assert final > acceptance_of(target, start) - 0.02  # the same random numbers: errors of some .005
    assert info["regenerations"] > {20: 4800, 50: 3300}[d]


@pytest.mark.parametrize("d", [5, 20])
def test_a_poor_proposal_is_improved(d, monkeypatch):
    """From the Jaakkola-Jordan Gaussian, whose covariance is too small, most of the way to the optimal one."""
    target = paper_problem(d, SEED)
    sampler = AdaptiveSampler(target, batch_posterior(target.problem))
    early, best = acceptance_of(target, sampler.proposal), acceptance_of(target, optimal_posterior(target.problem))
    half_way = (early + best) / 2
    late, error = rates(run(sampler, 10_000, SEED)[1], 1)
    assert late - LIMIT * error > half_way
    # q_{j+1} = q_j, as figure 10 prints it, never adapts
    monkeypatch.setattr(AdaptiveSampler, "_corrected", lambda self, now, rng: None)
    monkeypatch.setattr(adaptation, "_WIDER", 1.0)
    never, _ = rates(run(sampler, 10_000, SEED)[1], 1)
    assert never < half_way


def test_the_published_scheme_spoils_a_good_proposal():
    target = paper_problem(20, SEED)
    sampler = AdaptiveSampler(target, optimal_posterior(target.problem), shrinkage=False)
    state, _, _ = run(sampler, 3000, SEED)
    assert (
        acceptance_of(target, Normal(state.mean[0], state.cholesky[0])) < 0.5 < acceptance_of(target, sampler.proposal)
    )


# The driver's contract


@pytest.mark.parametrize("kind", CASES)
def test_blocks_change_nothing(kind):
    one = adaptive(2, **KINDS[kind])
    whole = sample(one, Schedule(2, 300, 60), seed=4, workers=1)
    for block in (1, 7):
        other = sample(one, Schedule(2, 300, 60), seed=4, workers=1, block=block)
        assert list(other.names) == list(whole.names)
        for name in whole.names:
            np.testing.assert_array_equal(whole[name], other[name])
        for name in whole.info:
            assert whole.info[name].tolist() == other.info[name].tolist()


@pytest.mark.parametrize("kind", ["ours", "published", "a mixture"])
def test_a_stored_run_goes_on_where_it_stopped(tmp_path, kind):
    one = adaptive(2, **KINDS[kind])
    assert kept_run(tmp_path / "a.doxa", one, 500) == kept_run(tmp_path / "b.doxa", one, 10, 333, 500)


def test_the_state_has_a_fixed_size():
    sampler, rng = adaptive(2), np.random.default_rng(SEED)
    state = sampler.init(rng)
    first, _, _ = sampler.run(state, 255, rng)  # the start, and a chunk: one step is ahead again
    later, _, info = sampler.run(first, 20 * 256, rng)
    assert info["refits"] > 0
    assert [np.shape(part) for part in first] == [np.shape(part) for part in later]
    assert isinstance(later, sampler.state_type)


def test_counts_and_marks_agree():
    sampler = adaptive(2, thin=1)
    state, draws, info = run(sampler, 2561, SEED)
    assert info == {"steps": 2561, "regenerations": draws["regenerated"].sum(), "refits": draws["refitted"].sum()}
    assert state.n_tours == info["regenerations"] - 1  # the last is under way
    assert (draws["regenerated"] | ~draws["refitted"]).all()  # refits are at regenerations
    refits = np.cumsum(draws["regenerated"].ravel())[draws["refitted"].ravel()] - 1
    assert set(refits) <= {32 * 2**k for k in range(10)}


# Refusals


class Off:
    mean = np.zeros(2)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"first": 7}, ArgumentError, "first is 7; it must be at least 8 (fewer tours do not say how exact they are)"),
        ({"pilot": 5}, ArgumentError, "pilot is 5; it must be at least 32 (the comparison of proposals rests on"),
        ({"wide_share": -0.1}, ArgumentError, "wide_share is -0.1; it must be at least 0, and below 1"),
        ({"wide_share": 1}, ArgumentError, "wide_share is 1; it must be at least 0, and below 1"),
        ({"wide_share": None}, ArgumentTypeError, "wide_share is None; it must be a number of at least 0 and below 1"),
        ({"local_share": 0.1}, ArgumentError, "local_share is 0.1, but local is None; give the kernel"),
        ({"thin": 1.5}, ArgumentTypeError, "thin is 1.5; it must be a whole number of at least 1"),
        ({"proposal": WIDE[2]}, ArgumentError, "proposal has 2 dimensions, but target has 1"),
        ({"proposal": Off()}, ArgumentTypeError, "proposal is"),
        ({"proposal": Mixture([BAD[1], Off()], [0.5, 0.5])}, ArgumentTypeError, "proposal.components is of type Off"),
        ({"proposal": Mixture([BAD[1], BAD[1]], [1, 0])}, ArgumentError, "proposal.weights holds a 0; leave out a"),
        ({"proposal": TWO, "shrinkage": False}, ArgumentError, "shrinkage is False, the published scheme, which has"),
    ],
)
def test_settings_that_make_no_sampler_are_refused(options, kind, message):
    with pytest.raises(kind) as refused:
        AdaptiveSampler(**{"target": BUMPS.target, "proposal": BAD[1], **options})
    assert str(refused.value).startswith(message)


def test_proposals_that_miss_the_support_are_refused():
    rng = np.random.default_rng(1)
    far = Function(lambda x: np.where(x[:, 0] > 1000, -x[:, 0], -np.inf), 1)
    with pytest.raises(TargetError, match=r"none of 512 draws from .* lies in the target's support; give a proposal"):
        AdaptiveSampler(far, BAD[1]).init(rng)
    with pytest.raises(TargetError, match=r"the log density at proposal\.mean is minus infinity"):
        AdaptiveSampler(far, BAD[1], shrinkage=False).init(rng)
