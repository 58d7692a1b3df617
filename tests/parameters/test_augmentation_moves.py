"""What a step of data augmentation is made of: blocks of cells against enumeration, moves that keep their target."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from augmentation_cases import CASES, logits_of, paired_z, possible_state, small_samplers
from parameter_cases import Grid
from scipy.special import logsumexp

from doxa import LogisticNetwork, Table
from doxa.models.logistic_parts import Part
from doxa.parameters import completed_factors
from doxa.parameters.augmentation import AugmentationSampler
from doxa.parameters.completed_factors import Moved, find_centre, hamiltonian, try_ends
from doxa.parameters.hidden_cells import block_weights, flip
from doxa.parameters.joint_target import JointTarget
from support.checks import SEED


@pytest.mark.parametrize("name", CASES)
def test_the_density_of_parameters_and_cells_sums_to_that_of_the_parameters(name):
    rng = np.random.default_rng(SEED)
    count = 0
    for sampler in small_samplers(name):
        target = JointTarget(sampler.network, sampler.part, sampler.table)
        thetas = rng.normal(size=(3, target.n_dimensions))
        cells = np.array(list(itertools.product([0, 1], repeat=sampler.cell_rows.size)), dtype=np.int8)
        summed = [logsumexp([sampler.log_density(theta, values) for values in cells]) for theta in thetas]
        change = target.log_density(thetas) - summed
        # cells that only a given table knows of are not among the sampler's: they add a constant
        np.testing.assert_allclose(change, 0.0 if "table" not in name else change[0], atol=1e-10)
        count += 1
    assert count >= 4


def conditional_gap(sampler, rng, change=lambda batch: batch):
    """Largest difference of a block's conditional probabilities from those of the joint density, listed."""
    table = sampler.completed
    state = possible_state(sampler, rng)
    theta, values = state.theta, table.cells.extended(state.cells)
    logits, padded = logits_of(table, theta, values), np.append(theta, 0.0)
    gap, spare = 0.0, table.cells.n_cells + 2
    drawn = []
    for batch in table.blocks.batches:
        log_weights, _ = block_weights(change(batch), values, logits, table.blocks.step * padded, padded)
        for block, cells in enumerate(batch.cells.T):
            listed = np.full(len(batch.configurations), -np.inf)
            for k, bits in enumerate(batch.configurations):
                if not bits[cells == spare].any():
                    other = values.copy()
                    other[cells] = bits
                    listed[k] = table.log_density(theta, other)
            given = np.exp(log_weights[:, block] - logsumexp(log_weights[:, block]))
            gap = max(gap, float(np.abs(given - np.exp(listed - logsumexp(listed))).max()))
            drawn += cells[cells != spare].tolist()
    assert sorted(drawn) == list(range(table.cells.n_cells))
    return gap


@pytest.mark.parametrize("name", CASES)
def test_conditionals_of_blocks_are_those_of_the_joint_density(name):
    rng = np.random.default_rng([SEED, 1])
    assert max(conditional_gap(sampler, rng) for sampler in small_samplers(name)) < 1e-9


@pytest.mark.parametrize("name", ["parents", "hidden chain"])
def test_without_the_children_s_factors_the_conditionals_are_wrong(name):
    rng = np.random.default_rng([SEED, 1])
    gaps = []
    for sampler in small_samplers(name):
        nothing = sampler.packing.n_dimensions  # where the padded parameters hold a 0

        def without_children(batch, nothing=nothing):
            own = np.isin(np.arange(batch.block.size), batch.inside)
            return batch._replace(coefficients=np.where(own, batch.coefficients, nothing))

        gaps.append(conditional_gap(sampler, rng, without_children))
    assert max(gaps) > 0.1


@pytest.mark.parametrize("name", CASES)
def test_flips_keep_the_logits_of_all_families_up_to_date(name):
    rng, n_flipped = np.random.default_rng([SEED, 2]), 0
    for sampler in small_samplers(name, most_cells=1000, rows=(20, 40)):
        table = sampler.completed
        state = possible_state(sampler, rng)
        theta, values = state.theta, table.cells.extended(state.cells)
        logits, padded = logits_of(table, theta, values), np.append(theta, 0.0)
        for batch in table.blocks.batches:
            flip(batch, values, logits, table.blocks.step * padded, padded, 1 - rng.random(batch.cells.shape[1]))
        n_flipped += int((values[: table.cells.n_cells] != state.cells).sum())
        np.testing.assert_allclose(logits, logits_of(table, theta, values), atol=1e-12)
    assert n_flipped >= 10


def test_cells_are_drawn_with_their_probabilities_and_independently():
    n = 20_000
    network = LogisticNetwork({"c": ["a", "b"]}, bias=0.4, roots={"a": 0.3, "b": 0.6})
    table = Table.from_codes(["a", "b", "c"], [["0", "1"]] * 3, [[-1, -1, 1]], counts=[n])
    sampler = AugmentationSampler(network, Part(("c",), (0, 1, 2), False), table, keep_cells=True)
    theta = np.array([1.0, -0.7])
    table_ = sampler.completed
    values = table_.cells.extended(np.zeros(2 * n, dtype=np.int8))
    logits, padded = logits_of(table_, theta, values), np.append(theta, 0.0)
    rng = np.random.default_rng([SEED, 3])
    for batch in table_.blocks.batches:
        flip(batch, values, logits, 2 * padded, padded, 1 - rng.random(batch.cells.shape[1]))
    a, b = values[: 2 * n].reshape(n, 2).T
    states = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    weights = np.where(states, [0.3, 0.6], [0.7, 0.4]).prod(axis=1) / (1 + np.exp(-(0.4 + (2 * states - 1) @ theta)))
    expected = n * weights / weights.sum()
    counts = np.bincount((2 * a + b).astype(int), minlength=4)
    assert ((counts - expected) ** 2 / expected).sum() < 30  # chi-squared of 3: exceeded with probability 1e-6
    same = np.corrcoef(a[:-1], a[1:])[0, 1]
    assert abs(same) < 5 / np.sqrt(n)


def small_family(seed=4, rows=((0, 1, 1, 2), (1, 1, 1, 1), (1, 0, 0, 3))):
    """Two coefficients, a handful of cases, a wide prior: a skewed posterior; with draws from it, from a fine grid."""
    network = LogisticNetwork({"y": ["a", "b"]}, bias=0.5, prior_mean=0.5, prior_scale=4.0, roots={"a": 0.5, "b": 0.5})
    codes, counts = np.array(rows)[:, :3], np.array(rows)[:, 3]
    table = Table.from_codes(["a", "b", "y"], [["0", "1"]] * 3, codes, counts=counts)
    sampler = AugmentationSampler(network, Part(("y",), (0,), True), table)
    (family,) = sampler.completed.families.values()
    completed = family.complete(np.array([0.0, 1.0, 0.0]))
    axis = np.linspace(-25, 25, 1001)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    log_p = family.log_density(completed, points)
    p = np.exp(log_p - log_p.max())
    grid = Grid(points, p / p.sum(), 0.0)
    return family, completed, grid


def draws_from(grid, n, rng):
    chosen = rng.choice(len(grid.points), size=n, p=grid.probability)
    return grid.points[chosen] + rng.uniform(-0.025, 0.025, (n, 2))


def statistics(thetas):
    """Moments, and bins of each coefficient and of both together."""
    lines = np.concatenate([thetas, thetas.sum(axis=1, keepdims=True), np.diff(thetas, axis=1)], axis=1)
    columns = [thetas, thetas**2, thetas.prod(axis=1, keepdims=True)]
    columns += [(lines < cut).astype(float) for cut in (-4.0, -1.0, 0.0, 1.0, 4.0)]
    return np.concatenate(columns, axis=1)


def moved_draws(move, n=2000, seed=5):
    family, completed, grid = small_family()
    rng = np.random.default_rng([SEED, seed])
    before = draws_from(grid, n, rng)
    start = np.zeros(2)
    after = np.array([move(family, completed, start, theta, rng).theta for theta in before])
    return paired_z(statistics(before), statistics(after))


def independent(family, completed, start, theta, rng):
    return try_ends(family, completed, find_centre(family, completed, start), theta, 3, rng)


def leapfrogs(family, completed, start, theta, rng):
    here = Moved(theta, float(family.log_density(completed, theta[None])[0]), 1.0)
    return hamiltonian(family, completed, find_centre(family, completed, start), here, rng)


@pytest.mark.parametrize("move", [independent, leapfrogs])
def test_a_move_of_the_coefficients_keeps_their_posterior(move):
    z, limit = moved_draws(move)
    assert z < limit


def refitted_from_here(family, completed, start, theta, rng):
    """The trap: a proposal that depends on the current parameters, without the ratio that corrects for it."""
    slope = family.slope(completed, theta)
    root = completed.design * np.sqrt(slope.curvature(completed))[:, None]
    factor = np.linalg.cholesky(root.T @ root + family.precision)
    centre = completed_factors.Centre(theta + np.linalg.solve(factor @ factor.T, slope.gradient), factor)
    return try_ends(family, completed, centre, theta, 3, rng)


def one_end(family, completed, start, theta, rng):
    """Only one end of a step is looked at, and taken for both."""
    centre = find_centre(family, completed, start)
    moved = try_ends(family, completed, centre, theta, 3, rng)
    flipped = 2 * centre.mean - moved.theta
    return moved if rng.random() < 0.5 else moved._replace(theta=flipped)


@pytest.mark.parametrize("move", [refitted_from_here, one_end])
def test_a_broken_move_is_found_out(move):
    z, limit = moved_draws(move)
    assert z > limit


def test_leapfrogs_judged_without_their_energy_are_found_out(monkeypatch):
    monkeypatch.setattr(completed_factors, "_energy", lambda velocity: 0.0)
    z, limit = moved_draws(leapfrogs)
    assert z > limit


def test_the_centre_is_the_mode_whatever_the_start_and_its_factor_the_curvature():
    family, completed, grid = small_family()
    start = np.array([15.0, -15.0])
    from_far, from_near = find_centre(family, completed, start), find_centre(family, completed, np.zeros(2))
    mode = grid.points[grid.probability.argmax()]
    for centre in (from_far, from_near):
        assert np.abs(centre.mean - mode).max() < 0.1
        step = centre.spread(np.eye(2))
        np.testing.assert_allclose(step @ step.T, np.linalg.inv(centre.factor @ centre.factor.T), rtol=1e-10)
    again = find_centre(family, completed, start)
    assert np.array_equal(again.mean, from_far.mean)
    assert np.array_equal(again.factor, from_far.factor)


def test_slopes_are_those_of_the_density():
    family, completed, _ = small_family()
    rng = np.random.default_rng([SEED, 6])
    for theta in 3 * rng.normal(size=(20, 2)):
        slope = family.slope(completed, theta)
        around = theta + 1e-5 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
        value, up = family.log_density(completed, theta[None])[0], family.log_density(completed, around)
        assert slope.value == pytest.approx(value, abs=1e-10)
        np.testing.assert_allclose(slope.gradient, (up[::2] - up[1::2]) / 2e-5, atol=1e-6)


@pytest.mark.parametrize("logit", [1e4, -1e4])
def test_logits_of_ten_thousand_overflow_nowhere(logit):
    family, completed, _ = small_family()
    theta = np.array([logit, 0.5 * logit])
    with np.errstate(all="raise", under="ignore"):
        slope = family.slope(completed, theta)
        value = family.log_density(completed, theta[None])[0]
        moved = independent(family, completed, np.zeros(2), theta, np.random.default_rng(0))
    assert np.isfinite([slope.value, value, moved.log_density]).all()


@pytest.mark.parametrize("name", CASES)
def test_counting_configurations_and_listing_rows_are_the_same(name, monkeypatch):
    rng = np.random.default_rng([SEED, 7])
    for sampler in small_samplers(name, most_cells=1000, rows=(20, 40)):
        state = possible_state(sampler, rng)
        values = []
        for most in (0, 16):
            monkeypatch.setattr(completed_factors, "_MOST_COUNTED", most)
            again = AugmentationSampler(sampler.network, sampler.part, sampler.table)
            assert any(family._counted for family in again.completed.families.values()) == (most > 0)
            after, draws, _ = again.run(state, 1, np.random.default_rng(1))
            values.append(again.log_density(state.theta, state.cells))
            assert draws["log_density"][0, 0] == pytest.approx(again.log_density(after.theta, after.cells), rel=1e-10)
        assert values[0] == pytest.approx(values[1], rel=1e-12)
