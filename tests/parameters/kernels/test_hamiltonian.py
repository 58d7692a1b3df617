"""Hamiltonian Monte Carlo: exact on skewed targets, reversible, with broken twins; what warm-up learns, and reports."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_checks import (
    BANANA_AXES,
    NEAR_BANANA,
    SKEW_AXES,
    convergence,
    invariance,
    paper_problem,
)
from split_checks import (
    BROKEN,
    TWO_AXES,
    AsTarget,
    LogisticPosterior,
    SmoothBanana,
    SmoothHalfLine,
    SmoothSkew,
    TwoSlopes,
    Wrong,
    check_reproducible,
    log_volume,
    two_coefficients,
)

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.logistic_regression import make_problem
from doxa.parameters.kernels import hamiltonian as module
from doxa.parameters.kernels.hamiltonian import Hamiltonian, warmed_up
from doxa.parameters.kernels.kernel import Function, ValueAndGradient, Walkers, start_at
from doxa.parameters.kernels.trajectory import Whitening, leapfrog, mixing, palindrome, rotate_and_kick
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.sampling.gaussian import Gaussian
from support.checks import SEED, z_limit

TWO = two_coefficients()
ONE = np.array([[1.1]])
SLANTED = NEAR_BANANA.cholesky


@pytest.mark.parametrize("step", [0.4, 1.2])
@pytest.mark.parametrize(
    ("target", "metric"),
    [(SmoothSkew(), ONE), (SmoothBanana(), SLANTED), (TwoSlopes(), ONE), (SmoothHalfLine(), ONE)],
    ids=["skew", "banana", "kink", "half-line"],
)
def test_a_step_leaves_the_target_invariant(target, metric, step):
    found = invariance(Hamiltonian(metric, step, 1.5), target, np.random.default_rng([SEED, round(10 * step)]))
    assert found.z < z_limit(found.n)


@pytest.mark.parametrize(
    ("target", "metric", "axes", "start"),
    [
        (SmoothSkew(), ONE, SKEW_AXES, [-2.0]),
        (SmoothBanana(), SLANTED, BANANA_AXES, [1.0, 3.0]),
        (TWO, np.array([[2.0, 0.0], [0.2, 1.0]]), TWO_AXES, [-2.0, 2.5]),
    ],
    ids=["skew", "banana", "logistic"],
)
def test_walkers_from_one_point_come_to_fill_the_grid_as_they_should(target, metric, axes, start):
    found = convergence(Hamiltonian(metric, 0.6, 1.5), target, axes, start, 25, np.random.default_rng(SEED))
    assert found.n >= 9
    assert found.z < z_limit(found.n)


@pytest.mark.parametrize(
    ("first_kick", "kinetic", "wrong"), [(0.5, True, False), (1.0, True, True), (0.5, False, True)]
)
def test_lopsided_kicks_and_acceptance_without_the_kinetic_term_are_caught(first_kick, kinetic, wrong):
    frame, step = Whitening(np.zeros(1), ONE), 0.8

    def go(target, phase, momenta, rng):
        shift = (first_kick - 0.5) * step
        end, final = leapfrog(target, frame, phase, momenta + shift * phase.slope, step, 2)
        return end, final - shift * end.slope

    found = invariance(Wrong(frame, go, kinetic), SmoothSkew(), np.random.default_rng(SEED), n=60_000)
    assert (found.z > z_limit(found.n)) == wrong


def test_trajectories_run_backwards_come_back():
    rng = np.random.default_rng(SEED)
    target, frame = SmoothBanana(), Whitening(np.zeros(2), SLANTED)
    start = frame.begin(target, target.sample(200, rng))
    momenta = rng.standard_normal((200, 2))
    end, final = leapfrog(target, frame, start, momenta, 0.1, 15)
    back, returned = leapfrog(target, frame, end, -final, 0.1, 15)
    near = np.isfinite(end.value)
    assert near.sum() > 190
    np.testing.assert_allclose(back.y[near], start.y[near], atol=1e-8)
    np.testing.assert_allclose(-returned[near], momenta[near], atol=1e-8)
    assert np.abs(end.y - start.y).max() > 1


def test_trajectories_keep_volume_and_nearly_keep_the_energy():
    frame = Whitening(np.zeros(2), np.array([[2.0, 0.0], [0.2, 1.0]]))

    def trajectory(y, v):
        end, final = leapfrog(TWO, frame, frame.at(TWO, y), v, 0.3, 5)
        return end.y, final

    rng = np.random.default_rng(SEED)
    for _ in range(5):
        assert abs(log_volume(trajectory, rng.standard_normal(2), rng.standard_normal(2))) < 1e-6
    start = frame.begin(TWO, rng.standard_normal((100, 2)))
    momenta = rng.standard_normal((100, 2))
    errors = []
    for n in (16, 32, 64):
        end, final = leapfrog(TWO, frame, start, momenta, 1.6 / n, n)
        errors.append(np.abs(end.value - start.value + 0.5 * (momenta**2 - final**2).sum(axis=1)).mean())
    assert 3.5 < errors[0] / errors[1] < 4.5  # of second order
    assert 3.5 < errors[1] / errors[2] < 4.5


def test_lengths_vary_as_the_jitter_says_and_steps_are_never_longer_than_asked():
    made = []

    class Watched(AsTarget):
        def value_and_gradient(self, thetas):
            made.append(thetas.copy())
            return super().value_and_gradient(thetas)

    target = Watched(Gaussian(np.zeros(1), np.eye(1)))
    Hamiltonian(np.eye(1), 0.25, 2.0, 0.5).run(
        target, start_at(target, np.zeros((1, 1))), 400, np.random.default_rng(SEED)
    )
    assert Hamiltonian(np.eye(1), 0.25, 2.0).n_gradients == 8
    assert Hamiltonian(np.eye(1), 0.3, 2.0).n_gradients == 7
    assert Hamiltonian(np.eye(1), 3.0, 2.0).n_gradients == 1
    mean = (len(made) - 1) / 400  # lengths are uniform on (1, 3): 5 to 12 steps, 8.5 on average
    assert abs(mean - 8.5) < 5 * np.sqrt(5.25 / 400)


@pytest.mark.parametrize(
    ("size", "shorter", "longer"), [(1.0, 1.0, 2.3), (1.7, 0.5, 1.2), (2.5, 0.35, 0.7), (1 / 3, 3.0, 6.5)]
)
def test_the_length_is_chosen_to_suit_a_metric_of_another_size(size, shorter, longer):
    gaussian = Gaussian(np.zeros(4), np.eye(4))
    target, rng = AsTarget(gaussian), np.random.default_rng(SEED)
    kernel = Hamiltonian(size * np.eye(4), 0.4 / size, 1.6)
    walkers = start_at(target, gaussian.sample(64, rng))
    chosen, _, pilots = module._choose_length(kernel, module._Counted(target), walkers, rng, 30)
    assert shorter <= chosen.length <= longer
    assert min(pilot.acceptance for pilot in pilots) > 0.9
    pilot, _ = module._try(Hamiltonian(np.eye(4), 0.5, 2.0, 0.0), module._Counted(target), walkers, rng, 10)
    assert pilot.n_gradients == 4


@pytest.mark.parametrize("bound", [1e2, 1e8])
def test_trajectories_that_leave_every_bound_are_lost_and_the_others_are_not(bound):
    """Slopes of this size beyond 1."""

    class Cliff(TwoSlopes):
        def value_and_gradient(self, thetas):
            return ValueAndGradient(np.zeros(len(thetas)), np.where(np.abs(thetas) > 1, bound, 0.0))

    target, frame = Cliff(), Whitening(np.zeros(1), np.eye(1))
    momenta = np.array([[0.1], [3.0]])
    ends = [
        leapfrog(target, frame, frame.begin(target, np.zeros((2, 1))), momenta, 0.5, 4),
        rotate_and_kick(target, frame, frame.begin(target, np.zeros((2, 1))), momenta, 1.5, palindrome(4)),
    ]
    for end, final in ends:
        assert np.isfinite(end.y).all()
        assert np.isfinite(final).all()
        assert end.value.tolist() == [0.0, 0.0 if bound == 1e2 else -np.inf]


def separable(d=12, n=60):
    """Walls in a wide prior: no Gaussian is near."""
    rng = np.random.default_rng(7)
    design = rng.standard_normal((n, d))
    return make_problem(design, np.where(design @ np.ones(d) > 0, 1, -1), prior_covariance=100.0)


def test_warm_up_finds_a_metric_a_step_and_a_length():
    rng = np.random.default_rng(SEED)
    factor = np.tril(np.random.default_rng(0).standard_normal((6, 6))) + 3 * np.diag([0.01, 0.1, 0.3, 1.0, 3.0, 10.0])
    gaussian = Gaussian(np.arange(6.0), factor * np.sign(np.diag(factor)))
    target = AsTarget(gaussian)
    start = start_at(target, gaussian.mean + rng.standard_normal((32, 6)))  # up to thirty deviations off
    kernel, walkers, report = warmed_up(target, start, rng)
    relative = np.linalg.solve(gaussian.cholesky, kernel.metric_cholesky)
    sizes = np.linalg.eigvalsh(relative @ relative.T)
    assert 0.3 < sizes[0] < sizes[-1] < 3
    assert 0.65 < report.acceptance < 0.95
    assert kernel.n_gradients <= 4
    assert 1 <= kernel.length <= 2.3
    assert len(report.pilots) >= 3
    assert report.efficiency > 0.1
    _, path = kernel.run(target, walkers, 100, rng)
    away = Whitening(gaussian.mean, gaussian.cholesky).undo(path.thetas)
    assert mixing(away) > 0.3
    assert np.abs(away.mean(axis=(0, 1))).max() < 5 / np.sqrt(3200 * mixing(away))


@pytest.mark.parametrize("given", [True, False])
def test_the_tuned_kernel_draws_from_a_posterior_with_walls(given):
    """Two tunings, from different walkers, give the same means."""
    problem = separable()
    target, near = LogisticPosterior(problem), optimal_posterior(problem)
    means, errors = [], []
    for seed in (1, 2):
        rng = np.random.default_rng([SEED, seed, given])
        start = start_at(target, near.sample(32, rng) if given else 3 * rng.standard_normal((32, 12)))
        kernel, walkers, report = warmed_up(target, start, rng, near if given else None, n_steps=120)
        assert 0.65 < report.acceptance < 0.95
        assert len(report.shrinkage) == 3
        _, path = kernel.run(target, walkers, 150, rng)
        means.append(path.thetas.mean(axis=(0, 1)))
        errors.append(path.thetas.mean(axis=0).std(axis=0, ddof=1) / np.sqrt(32))  # walkers are independent
    z = np.abs(means[0] - means[1]) / np.hypot(*errors)
    assert z.max() < 6  # of 12 coordinates; 31 degrees of freedom: a false alarm in 10^5
    assert target.n_evaluated > 0


def test_the_report_counts_steps_and_evaluations():
    target = LogisticPosterior(paper_problem(3, n_rows=30))
    rng = np.random.default_rng(SEED)
    start = start_at(target, rng.standard_normal((16, 3)))
    before = target.n_evaluated
    kernel, walkers, report = warmed_up(target, start, rng, n_steps=100)
    assert report.n_evaluations == target.n_evaluated - before
    assert report.n_steps == 10 + 15 + 25 + 10 * (len(report.pilots) + 2)
    assert kernel.length in [pilot.length for pilot in report.pilots]
    best = max(report.pilots, key=lambda pilot: pilot.efficiency)
    assert best.length == kernel.length
    assert all(0 <= share <= 1 for share in report.shrinkage)
    np.testing.assert_allclose(walkers.log_density, target.log_density(walkers.thetas))


def test_warm_up_depends_on_the_generator_alone():
    def run():
        rng = np.random.default_rng(5)
        return warmed_up(TWO, start_at(TWO, rng.standard_normal((8, 2))), rng, n_steps=100)

    (kernel, walkers, report), (again, same_walkers, same) = run(), run()
    assert report == same
    assert np.array_equal(kernel.metric_cholesky, again.metric_cholesky)
    assert (kernel.step, kernel.length) == (again.step, again.length)
    assert np.array_equal(walkers.thetas, same_walkers.thetas)


def test_same_seed_same_draws():
    check_reproducible(Hamiltonian(np.diag([2.0, 1.0]), 0.7, 1.5), TWO, Gaussian(np.zeros(2), np.eye(2)))


def test_steps_far_too_long_are_rejected_in_peace():
    target = SmoothSkew()
    start = start_at(target, np.zeros((20, 1)))
    walkers, path = Hamiltonian(np.array([[1.0]]), 1e4, 3e5).run(target, start, 5, np.random.default_rng(SEED))
    assert (path.acceptance < 1e-6).all()
    assert np.array_equal(walkers.thetas, start.thetas)


def test_warm_up_recovers_from_walkers_far_out():
    target = LogisticPosterior(paper_problem(4, n_rows=50))
    rng = np.random.default_rng(SEED)
    kernel, walkers, report = warmed_up(target, start_at(target, 1e4 * rng.standard_normal((32, 4))), rng)
    exact = optimal_posterior(target.problem)
    assert np.abs((walkers.thetas.mean(axis=0) - exact.mean) / exact.sd).max() < 1
    assert 0.6 < report.acceptance < 0.95
    assert kernel.n_gradients < 12


@pytest.mark.parametrize(("target", "error", "message"), BROKEN)
def test_broken_targets_are_refused(target, error, message):
    walkers = start_at(target, np.zeros((3, target.n_dimensions)))
    with pytest.raises(error, match=message):
        Hamiltonian(SLANTED, 0.1, 1.0).run(target, walkers, 2, np.random.default_rng(0))


def test_a_target_without_gradient_is_refused():
    flat = Function(lambda x: -0.5 * (x**2).sum(axis=1), 2)
    walkers, rng = start_at(flat, np.zeros((3, 2))), np.random.default_rng(0)
    for run in (
        lambda: Hamiltonian(SLANTED, 0.1, 1.0).run(flat, walkers, 2, rng),
        lambda: warmed_up(flat, walkers, rng),
    ):
        with pytest.raises(ArgumentTypeError, match=r"type Function, which has no value_and_gradient; .* needs slopes"):
            run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric_cholesky": np.ones((2, 2))}, "metric_cholesky must be lower triangular and finite"),
        ({"metric_cholesky": np.ones((2, 3))}, r"metric_cholesky has shape \(2, 3\)"),
        ({"step": 0.0}, "step is 0.0; it must be above 0 and finite"),
        ({"step": np.nan}, "step is nan; it must be above 0"),
        ({"length": np.inf}, "length is inf; it must be above 0 and finite"),
        ({"length": -1.0}, "length is -1.0"),
        ({"jitter": 1.0}, "jitter is 1.0; it must be at least 0 and below 1"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        Hamiltonian(**{"metric_cholesky": np.eye(2), "step": 0.1, "length": 1.0, **options})


def test_bad_warm_ups_are_refused():
    rng = np.random.default_rng(0)
    good = start_at(TWO, np.zeros((4, 2)))
    outside = start_at(SmoothHalfLine(), np.array([[1.0], [-1.0]]))
    for run, error, message in [
        (lambda: warmed_up(TWO, good, rng, n_steps=99), ArgumentError, "n_steps is 99; it must be at least 100"),
        (lambda: warmed_up(TWO, good, rng, jitter=-0.1), ArgumentError, "jitter is -0.1"),
        (lambda: warmed_up(TWO, good, rng, 3.0), ArgumentTypeError, "gaussian is of type float, which has no mean"),
        (
            lambda: warmed_up(TWO, good, rng, Gaussian(np.zeros(3), np.eye(3))),
            ArgumentError,
            "target has 2 coordinates",
        ),
        (lambda: warmed_up(TWO, Walkers(*(x[:1] for x in good)), rng), ArgumentError, r"walkers have shape \(1, 2\)"),
        (lambda: warmed_up(SmoothHalfLine(), outside, rng), ArgumentError, r"walkers\[1\] has log density -inf; start"),
    ]:
        with pytest.raises(error, match=message):
            run()
