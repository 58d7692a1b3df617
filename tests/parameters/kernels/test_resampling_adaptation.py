"""Adaptation by resampled chains: an initial phase that finds a proposal, and an exact chain after it."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_checks import kept_run
from regeneration_checks import BAD, BENT, BUMPS, GRIDS, WIDE, Marked, acceptance_of, paper_problem, target_z

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels import resampling_adaptation
from doxa.parameters.kernels.kernel import Function, TargetError
from doxa.parameters.kernels.resampling_adaptation import ResamplingSampler, adapt_by_resampling
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.sampling.driver import Schedule, sample
from support.checks import SEED, z_limit

LIMIT = z_limit(100)  # cells compared in this file, roughly


@pytest.mark.parametrize("d", [1, 2])
def test_a_resampled_proposal_is_frozen_and_the_chain_exact(d):
    sampler = ResamplingSampler(GRIDS[d].target, BAD[d])
    rng = np.random.default_rng(SEED)
    first = sampler.init(rng)
    state, draws, _ = sampler.run(first, 30_000, rng)
    assert np.array_equal(first.mean, state.mean)
    assert np.array_equal(first.cholesky, state.cholesky)
    assert isinstance(state, sampler.state_type)
    assert target_z(GRIDS[d], Marked(draws["theta"][:, 0], draws["regenerated"][:, 0])) < LIMIT


def test_draws_of_the_initial_phase_are_not_exact(monkeypatch):
    """What is kept of it is a proposal, and that is why."""
    kept, real = [], resampling_adaptation._run_round

    def spying(*arguments):
        result = real(*arguments)
        kept.append(result[0].thetas)
        return result

    monkeypatch.setattr(resampling_adaptation, "_run_round", spying)
    rng, n = np.random.default_rng(SEED), 100
    ends = []
    for _ in range(n):
        adapt_by_resampling(BUMPS.target, BAD[1], rng, chains=8, rounds=12, steps=2)
        ends.append(kept[-1])
    frequency = np.array([np.bincount(BUMPS.cells(end), minlength=BUMPS.n_cells) / 8 for end in ends])
    z = (frequency.mean(axis=0) - BUMPS.sums(BUMPS.p)) / (frequency.std(axis=0) / np.sqrt(n))
    assert np.abs(z).max() > LIMIT


@pytest.mark.parametrize("d", [5, 20])
def test_resampling_improves_a_poor_proposal_and_leaves_a_good_one(d):
    target, rng = paper_problem(d, SEED), np.random.default_rng(SEED)
    poor, good = batch_posterior(target.problem), optimal_posterior(target.problem)
    low, high = acceptance_of(target, poor), acceptance_of(target, good)
    assert acceptance_of(target, adapt_by_resampling(target, poor, rng).proposal) > low + (high - low) / 4
    assert acceptance_of(target, adapt_by_resampling(target, good, rng).proposal) > high - 0.02


def test_blocks_change_nothing_after_resampling():
    one = ResamplingSampler(BENT.target, BAD[2], thin=2)
    whole = sample(one, Schedule(2, 300, 20), seed=4, workers=1)
    other = sample(one, Schedule(2, 300, 20), seed=4, workers=1, block=7)
    for name in whole.names:
        np.testing.assert_array_equal(whole[name], other[name])


def test_a_stored_run_goes_on_where_it_stopped(tmp_path):
    one = ResamplingSampler(BENT.target, BAD[2])
    assert kept_run(tmp_path / "a.doxa", one, 300) == kept_run(tmp_path / "b.doxa", one, 10, 300)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"chains": 3}, ArgumentError, "chains is 3; it must be at least 4 (the differences between them say how"),
        ({"rounds": 0}, ArgumentError, "rounds is 0; it must be at least 1"),
        ({"steps": "ten"}, ArgumentTypeError, "steps is 'ten'; it must be a whole number of at least 1"),
        ({"proposal": WIDE[2]}, ArgumentError, "proposal has 2 dimensions, but target has 1"),
    ],
)
def test_phases_that_are_none_are_refused(options, kind, message):
    options = {"target": BUMPS.target, "proposal": BAD[1], **options}
    with pytest.raises(kind) as refused:
        ResamplingSampler(**options)
    assert str(refused.value).startswith(message)
    target, proposal = options.pop("target"), options.pop("proposal")
    with pytest.raises(kind):
        adapt_by_resampling(target, proposal, np.random.default_rng(1), **options)


def test_a_phase_that_begins_outside_the_support_is_refused():
    far = Function(lambda x: np.where(x[:, 0] > 1000, -x[:, 0], -np.inf), 1)
    with pytest.raises(TargetError, match=r"none of 64 draws from .* lies in the target's support; give a proposal"):
        ResamplingSampler(far, BAD[1]).init(np.random.default_rng(1))
