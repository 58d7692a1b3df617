"""Parallel tempering against enumeration on networks where single-variable draws are caught, and broken swaps."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError
from doxa.inference.annealing import ParallelTempering, TablePath, tune_ladder
from doxa.inference.annealing.tables import log_parts
from doxa.inference.annealing.tempering import offer_states
from doxa.inference.spins.words import fresh_streams
from doxa.models.factors import Factor
from doxa.sampling.driver import Schedule, sample
from support.checks import SEED, z_limit
from support.small_networks import joint, random_markov

SAME = np.array([[3.5, -3.5], [-3.5, 3.5]])
RING = [Factor((i, (i + 1) % 6), SAME) for i in range(6)] + [Factor((0,), np.array([0.0, 0.7]))]  # two modes
XOR = [
    Factor((0, 1, 2), np.where(np.indices((2, 2, 2)).sum(axis=0) % 2 == 0, 0.0, -np.inf)),
    Factor((0,), np.log([0.7, 0.3])),
    Factor((2, 3), np.array([[0.3, -0.5], [0.2, -np.inf]])),
]
LADDER = (1.0, 0.6, 0.3, 0.1, 0.0)


def density_of(factors, sizes):
    grid = np.indices(sizes)
    total = sum(f.log_values[tuple(grid[v] for v in f.variables)] for f in factors)
    return np.exp(total) / np.exp(total).sum()


def marginal_z(draws, exact):
    """z-values of the mean states of binary variables, from batches of independent-looking length."""
    batches = draws.reshape(-1, 50, draws.shape[-1]).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    return np.abs(batches.mean(axis=0) - exact) / np.maximum(error, 1e-12)


def up(density):
    return np.array([density.sum(axis=tuple(a for a in range(density.ndim) if a != v))[1] for v in range(density.ndim)])


@pytest.mark.parametrize(("factors", "sizes"), [(RING, (2,) * 6), (XOR, (2,) * 4)])
def test_draws_are_those_of_the_network(factors, sizes):
    density = density_of(factors, sizes)
    path = TablePath(sizes, factors)
    trace = sample(ParallelTempering(path, LADDER, thin=4), Schedule(4, 10_000, 200), seed=SEED + 1)
    states = trace["states"]
    assert (marginal_z(states, up(density)) < z_limit(20)).all()
    assert (density[tuple(np.moveaxis(states, -1, 0))] > 0).all()
    log_values = path.log_value(states[0])
    assert trace["log_value"][0] == pytest.approx(log_values)
    blackwell = trace["marginals"][..., 1::2]  # of binary variables
    assert (marginal_z(blackwell, up(density)) < z_limit(20)).all()
    assert trace["marginals"].reshape(-1, len(sizes), 2).sum(axis=2) == pytest.approx(1.0)
    assert (trace.info["round_trips"] > 50).all()
    pair = density.sum(axis=tuple(range(2, density.ndim))).ravel()
    codes = 2 * states[..., 0] + states[..., 1]
    together = np.stack([codes == k for k in range(4)], axis=-1).astype(float)
    kept = pair > 0.01  # rarer ones have no normal errors
    assert (marginal_z(together[..., kept], pair[kept]) < z_limit(20)).all()


@pytest.mark.parametrize(("factors", "sizes"), [(RING, (2,) * 6), (XOR, (2,) * 4)])
def test_without_rungs_the_chain_is_caught(factors, sizes):
    """Single-variable draws at beta = 1 stay in the mode that they begin in."""
    path = TablePath(sizes, factors)
    start = ParallelTempering(path, LADDER).init(np.random.default_rng(SEED))
    states = path.stay(np.repeat(start.states[:1], 64, axis=0), 2000, np.random.default_rng(SEED))
    first = start.states[0]
    assert (states[:, :3] == first[:3]).all(axis=1).mean() > 0.9


def test_random_networks_with_zeros():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        network = random_markov(rng, most_variables=5)
        while joint(network).sum() == 0:
            network = random_markov(rng, most_variables=5)
        density = joint(network) / joint(network).sum()
        path = TablePath(network.n_states, network.factors)
        trace = sample(ParallelTempering(path, LADDER, thin=4), Schedule(4, 4000, 100), seed=SEED + seed)
        flat = np.ravel_multi_index(tuple(np.moveaxis(trace["states"], -1, 0)), density.shape)
        kept = np.flatnonzero((density.ravel() > 0.01) & (density.ravel() < 0.99))
        together = np.stack([flat == k for k in kept], axis=-1).astype(float)
        assert (marginal_z(together, density.ravel()[kept]) < z_limit(60)).all()


def by_hand(factors, sizes, betas, n_steps, rng, swap):
    """Parallel tempering by the definition, without softening; ``swap(a, b, u_a, u_b)`` is the log ratio."""
    density = np.log(density_of(factors, sizes))
    states = rng.integers(0, 2, (len(betas), len(sizes)))
    found = np.empty((n_steps, len(sizes)))
    for step in range(n_steps):
        for r, beta in enumerate(betas):
            for i in range(len(sizes)):
                turned = states[r].copy()
                turned[i] ^= 1
                gap = beta * (density[tuple(turned)] - density[tuple(states[r])])
                if rng.random() < 1 / (1 + np.exp(-gap)):
                    states[r] = turned
        for r in range(step % 2, len(betas) - 1, 2):
            u = [density[tuple(states[r + k])] for k in (0, 1)]
            if np.log1p(-rng.random()) < swap(betas[r], betas[r + 1], *u):
                states[[r, r + 1]] = states[[r + 1, r]]
        found[step] = states[0]
    return found


@pytest.mark.parametrize("broken", [False, True])
def test_the_rule_of_swaps(broken):
    """Swaps with the temperatures the wrong way round lead the cold chain to hot states; the check finds that out."""
    factors, sizes = [Factor((0, 1), SAME / 3), Factor((0,), np.array([0.0, 0.8]))], (2, 2)
    rules = {False: lambda a, b, u, v: (a - b) * (v - u), True: lambda a, b, u, v: (b - a) * (v - u)}
    draws = by_hand(factors, sizes, (1.0, 0.4, 0.0), 6000, np.random.default_rng(SEED + 2), rules[broken])
    z = marginal_z(draws, up(density_of(factors, sizes))).max()
    assert z > 2 * z_limit(4) if broken else z < z_limit(4)


def test_offers_are_accepted_as_they_should():
    """The compiled rule, one pair of states at a time: a cold zero is refused, else min(1, ratio)."""
    path, betas = TablePath((2,) * 4, XOR), np.array([1.0, 0.3])
    n, rng = 4000, np.random.default_rng(SEED)
    streams = fresh_streams(rng)
    for cold, hot in (((0, 0, 0, 0), (1, 1, 0, 0)), ((1, 1, 0, 0), (0, 0, 0, 0)), ((0, 0, 0, 0), (1, 0, 0, 0))):
        counts = np.zeros((2, 2), dtype=np.int64)
        u = [log_parts(path.tables, np.array(state, dtype=np.int32))[1] for state in (cold, hot)]
        wanted = 0.0 if sum(hot[:3]) % 2 else min(1.0, np.exp(0.7 * (u[1] - u[0])))
        for _ in range(n):
            states = np.array([cold, hot], dtype=np.int32)
            offer_states(path.tables, betas, 0, states, np.zeros(2, dtype=np.int64), streams, counts)
        gap = abs(counts[0, 1] - n * wanted)
        assert counts[0, 0] == n
        assert gap <= z_limit(3) * np.sqrt(n * wanted * (1 - wanted))


def test_a_tuned_ladder_is_even():
    path = TablePath((2,) * 6, RING)
    ladder = tune_ladder(path, np.random.default_rng(SEED))
    assert ladder.betas[0] == 1.0
    assert ladder.betas[-1] == 0.0
    trace = sample(ParallelTempering(path, ladder.betas), Schedule(2, 4000, 100), seed=SEED)
    info = trace.info
    rejected = [1 - info[f"swaps_{k}"].sum() / info[f"offers_{k}"].sum() for k in range(len(ladder.betas) - 1)]
    assert max(rejected) < 0.6
    assert sum(rejected) == pytest.approx(ladder.barrier, rel=0.4)
    assert tune_ladder(path, np.random.default_rng(SEED), rejected=0.15).betas != ladder.betas


def test_seed_workers_and_blocks():
    sampler = ParallelTempering(TablePath((2,) * 4, XOR), LADDER, thin=3)
    options = {"seed": 5}
    one = sample(sampler, Schedule(2, 60, 7), workers=1, **options)
    other = sample(sampler, Schedule(2, 60, 7), workers=2, block=11, **options)
    for name in ("states", "log_value", "marginals"):
        assert (one[name] == other[name]).all()
    assert all((one.info[name] == other.info[name]).all() for name in one.info)


@pytest.mark.parametrize("betas", [(1.0,), (1.0, 0.5), (0.9, 0.0), (1.0, 0.0, 0.5), (0.0, 1.0)])
def test_bad_ladders(betas):
    with pytest.raises(ArgumentError, match=r"fall from 1\.0, the first, to 0\.0, the last"):
        ParallelTempering(TablePath((2,) * 4, XOR), betas)


def test_a_network_without_a_possible_state():
    never = [Factor((0, 1), np.where(np.eye(2) == k, 0.0, -np.inf)) for k in (0, 1)]
    with pytest.raises(ArgumentError, match="no possible state was found"):
        ParallelTempering(TablePath((2, 2), never), LADDER).init(np.random.default_rng())
    with pytest.raises(ArgumentError, match="rejected is 1"):
        tune_ladder(TablePath((2, 2), []), np.random.default_rng(), rejected=1.0)
