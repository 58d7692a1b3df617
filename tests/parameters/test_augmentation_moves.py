"""What a step of data augmentation is made of: blocks of cells against enumeration, moves that keep their target."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from augmentation_cases import CASES, logits_of, paired_z, possible_state, small_samplers
from parameter_cases import Grid
from scipy.special import logsumexp
from support.checks import SEED

from doxa import LogisticNetwork, Table
from doxa.models.logistic_parts import Part
from doxa.parameters import completed_factors, completed_moves
from doxa.parameters.augmentation import AugmentationSampler
from doxa.parameters.cell_blocks import block_weights, flip
from doxa.parameters.completed_moves import Moved, find_centre, hamiltonian, try_ends
from doxa.parameters.joint_target import JointTarget


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
    def without_children(batch):
        own = np.zeros(batch.block.size, dtype=np.bool_)
        own[batch.inside] = True
        nowhere = np.where(own, batch.coefficients, batch.coefficients.max() + 1).clip(max=zero)
        return batch._replace(coefficients=nowhere)

    rng = np.random.default_rng([SEED, 1])
    gaps = []
    for sampler in small_samplers(name):
        zero = sampler.packing.n_dimensions
        gaps.append(
            conditional_gap(
                sampler,
                rng,
                lambda batch: batch._replace(
                    coefficients=np.where(np.isin(np.arange(batch.block.size), batch.inside), batch.coefficients, zero)
                ),
            )
        )
    assert max(gaps) > 0.1


@pytest.mark.parametrize("name", CASES)
def test_flips_keep_the_logits_of_all_families_up_to_date(name):
    rng = np.random.default_rng([SEED, 2])
    for sampler in small_samplers(name, most_cells=1000, rows=(20, 40)):
        table = sampler.completed
        state = possible_state(sampler, rng)
        theta, values = state.theta, table.cells.extended(state.cells)
        logits, padded = logits_of(table, theta, values), np.append(theta, 0.0)
        for batch in table.blocks.batches:
            flip(batch, values, logits, table.blocks.step * padded, padded, 1 - rng.random(batch.cells.shape[1]))
        assert (values[: table.cells.n_cells] != state.cells).any()
        np.testing.assert_allclose(logits, logits_of(table, theta, values), atol=1e-12)
