"""Coupling from the past and elimination draw the network itself; coupling that is stopped or begun anew does not."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError
from doxa.inference.annealing import (
    NotCoupledError,
    SpinPath,
    TablePath,
    TooWideError,
    draw_by_coupling,
    draw_by_elimination,
    draw_exactly,
    elimination_cost,
    turn_over,
)
from doxa.inference.annealing.exact_draws import SPARE, couple_spins
from doxa.inference.annealing.spins import unpack_spins
from doxa.inference.spins.graph import spin_graph
from doxa.inference.spins.words import aligned, aligned_zeros, fresh_streams
from doxa.models.factors import Factor
from doxa.models.ising import ising, ising_grid
from support.checks import SEED, z_limit
from support.small_networks import joint, random_categorical, random_markov

N = 512 * 24
RNG = np.random.default_rng(5)
ATTRACTIVE = {
    "ferromagnet": ising_grid(2, 3, coupling=0.5, field=RNG.normal(0.1, 0.4, (2, 3))),
    "uneven": ising_grid(2, 3, coupling=RNG.uniform(0.1, 1.0, 7), field=RNG.normal(0, 0.3, (2, 3))),
    "antiferromagnet": ising_grid(2, 3, coupling=-0.6, field=0.3),
    "tree": ising([[0, 1], [1, 2], [1, 3], [3, 4]], [0.8, -0.5, 1.2, -0.9], [0.2, 0.0, -0.3, 0.1, 0.0]),
    "isolated": ising([[0, 2]], 0.7, [0.3, -0.5, 0.1]),
}


def frequency_z(draws, density):
    """Largest z-value of the frequencies of states against their probabilities, and how many were compared."""
    p = density.ravel() / density.sum()
    counts = np.bincount(np.ravel_multi_index(tuple(draws.T.astype(int)), density.shape), minlength=p.size)
    assert (counts[p == 0] == 0).all()
    usable = len(draws) * p * (1 - p) > 30
    z = (counts - len(draws) * p)[usable] / np.sqrt(len(draws) * p * (1 - p))[usable]
    return float(np.abs(z).max()), int(usable.sum())


@pytest.mark.parametrize("name", ATTRACTIVE)
def test_coupling_from_the_past_is_exact(name):
    network = ATTRACTIVE[name]
    model = network.edges, network.couplings, network.fields
    draws = draw_by_coupling(*model, N, np.random.default_rng(SEED))
    z, compared = frequency_z(draws, joint(network))
    assert compared > 4
    assert z < z_limit(compared * len(ATTRACTIVE))
    pairs = draws[:-1, 0] == draws[1:, 0]  # draws are independent of each other
    p = joint(network).reshape(2, -1).sum(axis=1)
    same = ((p / p.sum()) ** 2).sum()
    assert abs(pairs.mean() - same) < z_limit(5) * np.sqrt(3 * same * (1 - same) / N)


def couple(path, how, rng):
    """512 draws by coupling that is broken in one of two ways, or in none."""
    thresholds, size = path.thresholds(), 8 * path.n_variables
    work, more = aligned_zeros(SPARE + 512), aligned_zeros(32)
    met = np.zeros(512, dtype=bool)
    found = np.zeros((512, path.n_variables), dtype=np.uint8)
    high, low = aligned_zeros(size), aligned_zeros(size)
    high[:] = np.uint64(2**64 - 1)
    blocks = []
    for step in range(60):
        if how == "forward":  # one sweep after another, each chain stopped where the two meet
            couple_spins(path.arrays, thresholds, 1, high, low, aligned(fresh_streams(rng)), more, work)
        else:  # from further and further in the past
            blocks.append(fresh_streams(rng))
            high, low = aligned_zeros(size), aligned_zeros(size)
            high[:] = np.uint64(2**64 - 1)
            used = reversed(blocks) if how == "past" else (fresh_streams(rng) for _ in range(step + 1))
            for streams in used:
                couple_spins(path.arrays, thresholds, 1, high, low, aligned(streams), more, work)
        up, down = unpack_spins(high), unpack_spins(low)
        new = (up == down).all(axis=1) & ~met
        found[new] = up[new]
        met |= new
        if met.all():
            return found
    raise AssertionError("not coupled")


@pytest.mark.parametrize("how", ["past", "forward", "fresh"])
def test_coupling_that_is_stopped_or_begun_anew_is_not_exact(how):
    network = ising_grid(2, 2, coupling=0.5, field=np.array([[0.6, 0.1], [0.0, -0.2]]))
    path = SpinPath(network.edges, network.couplings, network.fields)
    rng = np.random.default_rng(SEED)
    draws = np.concatenate([couple(path, how, rng) for _ in range(24)])
    z, compared = frequency_z(draws, joint(network))
    assert z < z_limit(3 * compared) if how == "past" else z > 1.5 * z_limit(3 * compared)


def test_what_is_drawn_does_not_depend_on_the_states():
    """The same numbers at the same time, wherever the chains come from; and order is kept."""
    network = ising_grid(5, 5, coupling=0.4)
    path = SpinPath(network.edges, network.couplings, network.fields)
    rng = np.random.default_rng(SEED)
    start = fresh_streams(rng)
    work, more = aligned_zeros(SPARE + 512), aligned_zeros(32)
    after = []
    for _ in range(4):
        one, other = (aligned(rng.integers(0, 2**64, 200, dtype=np.uint64)) for _ in range(2))
        high, low = aligned(one | other), aligned(one & other)
        streams = aligned(start)
        couple_spins(path.arrays, path.thresholds(), 3, high, low, streams, more, work)
        assert (low & ~high == 0).all()
        after.append(streams.copy())
    assert all((streams == after[0]).all() for streams in after)


def test_where_coupling_is_not_possible():
    triangle = [[0, 1], [1, 2], [2, 0]]
    with pytest.raises(ArgumentError, match="odd number of negative"):
        draw_by_coupling(triangle, -1.0, np.zeros(3), 1, np.random.default_rng())
    cold = ising_grid(8, 8, coupling=1.0)
    with pytest.raises(NotCoupledError, match="did not meet within 32 sweeps"):
        draw_by_coupling(cold.edges, cold.couplings, cold.fields, 1, np.random.default_rng(1), doublings=1)
    signs = turn_over(spin_graph(4, [[0, 1], [1, 2], [2, 3], [3, 0]], [-1.0, 1.0, -1.0, 1.0]))
    assert signs is not None
    assert (signs[[0, 1, 2, 3]] * signs[[1, 2, 3, 0]] == [-1, 1, -1, 1]).all()


@pytest.mark.parametrize("seed", range(8))
def test_elimination_is_exact(seed):
    rng = np.random.default_rng(seed)
    make = random_markov if seed % 2 else random_categorical
    network = make(rng, 6)
    while joint(network).sum() == 0:
        network = make(rng, 6)
    draws = draw_by_elimination(network.n_states, network.factors, N, np.random.default_rng(SEED + seed))
    z, compared = frequency_z(draws, joint(network))
    assert z < z_limit(max(compared, 1) * 8)


def test_elimination_of_tables_beyond_the_range_of_numbers():
    """Tables that agree only where all are vanishingly small."""
    away = [Factor((i, 2), np.array([[0.0, -900.0], [-900.0, 0.3]])) for i in (0, 1)]
    fields = [Factor((0,), np.array([0.0, -900.0])), Factor((1,), np.array([-900.0, 0.5]))]
    grid = np.indices((2, 2, 2))
    total = sum(f.log_values[tuple(grid[v] for v in f.variables)] for f in away + fields)
    draws = draw_by_elimination((2, 2, 2), away + fields, N, np.random.default_rng(SEED))
    z, _ = frequency_z(draws, np.exp(total - total.max()))
    assert z < z_limit(8)


def test_the_cost_of_an_elimination_is_known():
    network = ising_grid(4, 10, coupling=0.1)
    cost = elimination_cost(network.n_states, network.factors)
    assert cost < 40 * 2**6
    with pytest.raises(TooWideError, match="more than 100 numbers"):
        draw_by_elimination(network.n_states, network.factors, 1, np.random.default_rng(), most=100)
    never = [Factor((0, 1), np.where(np.eye(2) == k, 0.0, -np.inf)) for k in (0, 1)]
    with pytest.raises(ArgumentError, match="nothing to draw"):
        draw_by_elimination((2, 2), never, 1, np.random.default_rng())


def test_the_cheapest_way_is_taken():
    rng = np.random.default_rng(SEED)
    small = ATTRACTIVE["uneven"]
    paths = [SpinPath(small.edges, small.couplings, small.fields), TablePath(small.n_states, small.factors)]
    for path in paths:
        found = draw_exactly(path, N, rng)
        assert found.how == "elimination"
        assert found.draws is not None
        z, compared = frequency_z(found.draws, joint(small))
        assert z < z_limit(2 * compared)
    wide = ising_grid(30, 30, coupling=0.2)
    assert draw_exactly(SpinPath(wide.edges, wide.couplings, wide.fields), 4, rng).how == "coupling from the past"
    glass = ising_grid(30, 30, coupling=rng.normal(size=2 * 30 * 29))
    none = draw_exactly(SpinPath(glass.edges, glass.couplings, glass.fields), 4, rng)
    assert none.draws is None
    assert "too wide" in none.how
