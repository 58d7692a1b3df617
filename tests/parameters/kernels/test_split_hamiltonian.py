"""Split Hamiltonian steps: exact on skewed targets, reversible, no error under the Gaussian; broken twins; tuning."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_checks import (
    BANANA_AXES,
    NEAR_BANANA,
    NEAR_SKEW,
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
    differences,
    log_volume,
    two_coefficients,
)

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.logistic_regression import make_problem
from doxa.parameters.kernels import split as module
from doxa.parameters.kernels.kernel import Function, start_at
from doxa.parameters.kernels.split import SplitHamiltonian, SplitPilot, tuned_split
from doxa.parameters.kernels.trajectory import Palindrome, Whitening, mixing, palindrome, rotate_and_kick
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.sampling.gaussian import Gaussian
from support.checks import SEED, z_limit

TWO = two_coefficients()
NEAR_TWO = optimal_posterior(TWO.problem)
NEAR_HALF_LINE = Gaussian(np.array([1.7]), np.array([[1.2]]))
NEAR_SLOPES = Gaussian(np.array([0.4]), np.array([[1.0]]))
WIDE = 1.3  # angle of the broken twins, and kicks enough for errors of a tenth


def whitening(gaussian):
    return Whitening(gaussian.mean, gaussian.cholesky)


@pytest.mark.parametrize(
    "target",
    [SmoothSkew(), SmoothBanana(), TwoSlopes(), TWO, LogisticPosterior(paper_problem(4, n_rows=30))],
    ids=["skew", "banana", "slopes", "two", "paper"],
)
def test_the_gradients_are_those_of_the_log_densities(target):
    thetas = 0.9 * np.random.default_rng(SEED).standard_normal((50, target.n_dimensions)) + 0.1
    np.testing.assert_allclose(target.value_and_gradient(thetas).gradient, differences(target, thetas), atol=1e-5)


@pytest.mark.parametrize("n_kicks", [1, 2, 4])
@pytest.mark.parametrize(
    ("target", "near"),
    [
        (SmoothSkew(), NEAR_SKEW),
        (SmoothBanana(), NEAR_BANANA),
        (TwoSlopes(), NEAR_SLOPES),
        (SmoothHalfLine(), NEAR_HALF_LINE),
    ],
    ids=["skew", "banana", "kink", "half-line"],
)
def test_a_step_leaves_the_target_invariant(target, near, n_kicks):
    found = invariance(SplitHamiltonian(near, n_kicks), target, np.random.default_rng([SEED, n_kicks]))
    assert found.z < z_limit(found.n)


@pytest.mark.parametrize(
    ("target", "near", "axes", "start"),
    [
        (SmoothSkew(), NEAR_SKEW, SKEW_AXES, [-2.0]),
        (SmoothBanana(), NEAR_BANANA, BANANA_AXES, [1.0, 3.0]),
        (TWO, NEAR_TWO, TWO_AXES, [-2.0, 2.5]),
    ],
    ids=["skew", "banana", "logistic"],
)
def test_walkers_from_one_point_come_to_fill_the_grid_as_they_should(target, near, axes, start):
    found = convergence(SplitHamiltonian(near), target, axes, start, 25, np.random.default_rng(SEED))
    assert found.n >= 9
    assert found.z < z_limit(found.n)


def lopsided(n):
    """All of the first two kicks at the start: keeps volume, but is not its own reverse."""
    turns, kicks = palindrome(n)
    return Palindrome(turns, np.concatenate([[2 * kicks[0]], kicks[1:-1], [0.0]]))


def test_kicks_that_are_no_palindrome_are_caught():
    def trajectory(steps):
        def go(target, phase, momenta, rng):
            return rotate_and_kick(target, whitening(NEAR_SKEW), phase, momenta, WIDE, steps)

        return go

    for steps, wrong in ((lopsided(2), True), (palindrome(2), False)):
        twin = Wrong(whitening(NEAR_SKEW), trajectory(steps))
        found = invariance(twin, SmoothSkew(), np.random.default_rng(SEED), n=60_000)
        assert (found.z > z_limit(found.n)) == wrong


def test_acceptance_without_the_kinetic_term_is_caught():
    def go(target, phase, momenta, rng):
        return rotate_and_kick(target, whitening(NEAR_SKEW), phase, momenta, WIDE, palindrome(2))

    twin = Wrong(whitening(NEAR_SKEW), go, kinetic=False)
    found = invariance(twin, SmoothSkew(), np.random.default_rng(SEED), n=60_000)
    assert found.z > z_limit(found.n)


def test_kicks_by_the_whole_slope_are_exact_but_hardly_accepted():
    """Without the Gaussian's share left out of the kicks, what was gained is lost; the acceptance keeps it right."""

    class Whole(Whitening):
        def at(self, target, y):
            end = super().at(target, y)
            return end._replace(slope=end.slope - y)

    def go(target, phase, momenta, rng):
        return rotate_and_kick(target, Whole(TWO_MEAN, TWO_FACTOR), phase, momenta, WIDE, palindrome(2))

    TWO_MEAN, TWO_FACTOR = NEAR_TWO.mean, NEAR_TWO.cholesky
    rng = np.random.default_rng(SEED)
    walkers = start_at(TWO, NEAR_TWO.sample(500, rng))
    _, whole = Wrong(whitening(NEAR_TWO), go).run(TWO, walkers, 20, rng)
    _, rest = SplitHamiltonian(NEAR_TWO, 2, WIDE).run(TWO, walkers, 20, rng)
    assert rest.acceptance.mean() > 0.9 > 0.7 > whole.acceptance.mean()


@pytest.mark.parametrize("n_kicks", range(1, 7))
def test_trajectories_run_backwards_come_back(n_kicks):
    rng = np.random.default_rng(SEED)
    target, steps = SmoothBanana(), palindrome(n_kicks)
    start = whitening(NEAR_BANANA).begin(target, target.sample(100, rng))
    momenta = rng.standard_normal((100, 2))
    end, final = rotate_and_kick(target, whitening(NEAR_BANANA), start, momenta, 1.7, steps)
    back, returned = rotate_and_kick(target, whitening(NEAR_BANANA), end, -final, 1.7, steps)
    near = np.abs(np.hstack([end.y, final])).max(axis=1) < 100  # far out, rounding is blown up
    assert near.sum() > 90
    np.testing.assert_allclose(back.y[near], start.y[near], atol=1e-8)
    np.testing.assert_allclose(-returned[near], momenta[near], atol=1e-8)
    assert np.abs(end.y - start.y).max() > 1


def test_trajectories_keep_volume():
    target = TWO
    frame = whitening(NEAR_TWO)

    def trajectory(y, v):
        end, final = rotate_and_kick(target, frame, frame.at(target, y), v, 1.9, palindrome(3))
        return end.y, final

    rng = np.random.default_rng(SEED)
    for _ in range(5):
        assert abs(log_volume(trajectory, rng.standard_normal(2), rng.standard_normal(2))) < 1e-6


def test_under_the_gaussian_itself_a_trajectory_is_a_rotation_without_error():
    rng = np.random.default_rng(SEED)
    target, frame = AsTarget(NEAR_BANANA), whitening(NEAR_BANANA)
    start = frame.begin(target, target.sample(50, rng))
    momenta = rng.standard_normal((50, 2))
    end, final = rotate_and_kick(target, frame, start, momenta, 1.1, palindrome(5))
    np.testing.assert_allclose(end.y, np.cos(1.1) * start.y + np.sin(1.1) * momenta, atol=1e-12)
    energy = [(y**2 + v**2).sum(axis=1) for y, v in ((start.y, momenta), (end.y, final))]
    np.testing.assert_allclose(energy[0], energy[1], rtol=1e-12)
    _, path = SplitHamiltonian(NEAR_BANANA, 1).run(target, start_at(target, start.thetas), 5, rng)
    np.testing.assert_allclose(path.acceptance, 1.0, rtol=1e-10)


def test_at_a_total_angle_of_pi_walkers_keep_their_distance():
    class Frozen(SplitHamiltonian):
        def __post_init__(self):
            pass

    rng = np.random.default_rng(SEED)
    gaussian = Gaussian(np.ones(3), np.tril(np.ones((3, 3))))
    target = AsTarget(gaussian)
    walkers = start_at(target, gaussian.sample(64, rng))
    for angle, frozen in ((np.pi, True), (0.6 * np.pi, False)):
        _, path = Frozen(gaussian, 2, angle, 0.0).run(target, walkers, 50, rng)
        y = whitening(gaussian).undo(path.thetas)
        moved = np.ptp((y**2).sum(axis=2), axis=0)
        assert (moved.max() < 1e-9) == frozen
        assert (mixing(y) < 1e-3) == frozen


@pytest.mark.parametrize("n", range(1, 9))
def test_the_palindrome_lies_halfway_between_equal_steps_and_gauss_lobatto(n):
    turns, kicks = palindrome(n)
    assert np.array_equal(turns, turns[::-1])
    assert np.array_equal(kicks, kicks[::-1])
    np.testing.assert_allclose([turns.sum(), kicks.sum()], 1, rtol=1e-14)
    equal = np.full(n + 1, 1 / n)
    equal[[0, -1]] /= 2
    nodes, weights = np.append(0, np.cumsum(2 * turns - 1 / n)), 2 * kicks - equal
    for power in range(2 * n):  # Gauss-Lobatto: exact for polynomials of degree up to 2 n - 1
        np.testing.assert_allclose(weights @ nodes**power, 1 / (power + 1), rtol=1e-12)


def test_tuning_finds_the_kicks_that_are_worth_their_cost():
    problem = paper_problem(30, n_rows=300)
    target, near = LogisticPosterior(problem), optimal_posterior(problem)
    rng = np.random.default_rng(SEED)
    walkers = start_at(target, near.sample(32, rng))
    kernel, walkers, report = tuned_split(target, near, walkers, rng)
    assert report.n_kicks == kernel.n_kicks in (2, 3, 4)
    assert 0.8 <= report.acceptance <= 1
    assert [pilot.n_kicks for pilot in report.pilots] == list(range(1, len(report.pilots) + 1))
    good = [pilot.efficiency for pilot in report.pilots if pilot.acceptance >= 0.8]
    assert report.efficiency == max(good)
    assert target.n_evaluated == report.n_evaluations + 32
    _, path = kernel.run(target, walkers, 40, rng)
    assert abs(path.acceptance.mean() - report.acceptance) < 0.05
    assert mixing(whitening(near).undo(path.thetas)) > 0.5


def test_the_tuning_tells_that_a_gaussian_is_not_good_enough():
    """Separable data: walls in a wide prior."""
    rng = np.random.default_rng(SEED)
    design = rng.standard_normal((40, 15))
    problem = make_problem(design, np.where(design @ np.ones(15) > 0, 1, -1), prior_covariance=1e4)
    target, near = LogisticPosterior(problem), optimal_posterior(problem)
    kernel, walkers, report = tuned_split(target, near, start_at(target, near.sample(32, rng)), rng)
    assert report.acceptance < 0.6
    assert [pilot.n_kicks for pilot in report.pilots] == [1, 2, 3, 4, 5, 6]
    assert report.acceptance == max(pilot.acceptance for pilot in report.pilots)
    assert kernel.n_kicks == report.n_kicks
    assert walkers.thetas.shape == (32, 15)


def test_tuning_depends_on_the_generator_alone():
    def run():
        rng = np.random.default_rng(5)
        return tuned_split(TWO, NEAR_TWO, start_at(TWO, NEAR_TWO.sample(16, rng)), rng)

    (_, walkers, report), (_, again, same) = run(), run()
    assert report == same
    assert np.array_equal(walkers.thetas, again.thetas)


def test_same_seed_same_draws():
    check_reproducible(SplitHamiltonian(NEAR_TWO, 2), TWO, NEAR_TWO)


def test_angles_vary_as_the_jitter_says(monkeypatch):
    angles = []

    def watched(target, frame, start, momenta, angle, steps):
        angles.append(angle)
        return rotate_and_kick(target, frame, start, momenta, angle, steps)

    monkeypatch.setattr(module, "rotate_and_kick", watched)
    SplitHamiltonian(NEAR_TWO, 1, 1.0, 0.3).run(TWO, start_at(TWO, np.zeros((1, 2))), 1000, np.random.default_rng(SEED))
    assert 0.7 < min(angles) < 0.71
    assert 1.29 < max(angles) < 1.3
    assert abs(np.mean(angles) - 1) < 5 * 0.3 / np.sqrt(3 * 1000)


def test_where_walkers_stick_acceptance_ranks_and_efficiency_only_where_they_move():
    sticky, less, good, better = (
        SplitPilot(*numbers) for numbers in [(1, 0.2, 0.5), (6, 0.5, 0.1), (4, 0.95, 0.15), (3, 0.8, 0.2)]
    )
    assert sorted([better, sticky, good, less], key=module._rank) == [sticky, less, good, better]


def test_walkers_that_are_kicked_out_of_every_bound_stay_where_they_were():
    """A Gaussian a thousand times too wide, and a density that falls like exp(-exp x)."""
    target, near = SmoothSkew(), Gaussian(np.zeros(1), np.array([[1e3]]))
    start = start_at(target, np.zeros((20, 1)))
    walkers, path = SplitHamiltonian(near, 6).run(target, start, 10, np.random.default_rng(SEED))
    assert np.isfinite(path.thetas).all()
    stuck = (walkers.thetas == 0)[:, 0]
    assert stuck.any()
    assert (path.acceptance[:, stuck] < 0.5).all()


@pytest.mark.parametrize(("target", "error", "message"), BROKEN)
def test_broken_targets_are_refused(target, error, message):
    walkers = start_at(target, np.zeros((3, target.n_dimensions)))
    with pytest.raises(error, match=message):
        SplitHamiltonian(NEAR_BANANA).run(target, walkers, 2, np.random.default_rng(0))


def test_a_target_without_gradient_is_refused():
    flat = Function(lambda x: -0.5 * (x**2).sum(axis=1), 2)
    walkers, rng = start_at(flat, np.zeros((3, 2))), np.random.default_rng(0)
    for run in (
        lambda: SplitHamiltonian(NEAR_BANANA).run(flat, walkers, 2, rng),
        lambda: tuned_split(flat, NEAR_BANANA, walkers, rng),
    ):
        with pytest.raises(ArgumentTypeError, match=r"type Function, which has no value_and_gradient; .* needs slopes"):
            run()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"gaussian": 3.0}, ArgumentTypeError, "gaussian is of type float, which has no mean and no cholesky"),
        ({"n_kicks": 0}, ArgumentError, "n_kicks is 0; it must be at least 1"),
        ({"n_kicks": 1.5}, ArgumentTypeError, "n_kicks is 1.5; it must be a whole number"),
        ({"jitter": 1.0}, ArgumentError, "jitter is 1.0; it must be at least 0 and below 1"),
        ({"jitter": np.nan}, ArgumentError, "jitter is nan"),
        (
            {"angle": np.pi},
            ArgumentError,
            r"angle is 1 pi and jitter 0.1, so steps turn by 0.9 to 1.1 pi; .* \.6 pi is",
        ),
        ({"angle": 0.9 * np.pi}, ArgumentError, "steps turn by 0.81 to 0.99 pi; they must stay between .05 and .95 pi"),
        ({"angle": 0.0}, ArgumentError, "angle is 0 pi"),
        ({"angle": -1.0}, ArgumentError, "angle is -0.3183 pi"),
        ({"angle": np.nan}, ArgumentError, "angle is nan pi"),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        SplitHamiltonian(**{"gaussian": NEAR_BANANA, **options})
