"""What the kernels' own tables say of a step, as a matrix, and what the compiled kernels do, beside it."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from ising_cases import (
    SMALL,
    all_spins,
    conditionals,
    couplings_of,
    even_grid,
    exact,
    glass_grid,
    grid_edges,
    number,
    random_graph,
    scan_matrix,
    uneven_grid,
)
from scipy.special import stdtrit

from doxa.inference.spins import IsingBitParallel, IsingGibbs, IsingGrid, IsingModel, unpack_lanes
from doxa.inference.spins.graph import thresholds_of
from doxa.testing import cycle_matrix, gibbs_matrix, mixture_matrix
from support.checks import FALSE_ALARM, SEED, compare_transitions, z_limit

SMALL_GRIDS = {
    "one site": (SMALL["one site"], (1, 1)),
    "2 x 2": (SMALL["2 x 2"], (2, 2)),
    "2 x 2 uneven": (SMALL["2 x 2 uneven"], (2, 2)),
    "2 x 2 glass": (glass_grid(2, 2), (2, 2)),
    "antiferromagnet": (SMALL["antiferromagnet"], (2, 2)),
    "row": (uneven_grid(1, 4), (1, 4)),
    "ring": (even_grid(4, 1, periodic=True), (4, 1)),
    "strong": (SMALL["strong"], (3, 1)),
}
TO_UNIT = 2.0**-64


def joint_of(model):
    return exact(model).reshape((2,) * model.n_sites)


def chain_up(sampler):
    """P(+1) of every site in every state, from the tables of the compiled kernel, shape (2^n, n)."""
    (order, model), sites = sampler._numbered, sampler._sites
    states = all_spins(model.n_sites)[:, order] > 0
    both = np.concatenate([states, ~states], axis=1)
    found = np.empty(states.shape)
    for t, i in enumerate(order):
        begin, end = model.graph.starts[t : t + 2]
        strides = sites.strides[sites.strides_at[t] : sites.strides_at[t] + end - begin]
        m = both[:, sites.places[begin:end]] @ strides
        found[:, i] = sites.thresholds[sites.table[t] + m] * TO_UNIT
    return found


def lanes_up(model):
    b, n = model.batches, model.n_sites
    states = all_spins(n) > 0
    found = np.empty(states.shape)
    for entry, site in enumerate(b.sites):
        if site == n:
            continue
        k, w = divmod(entry, 8)
        m = np.zeros(len(states), dtype=int)
        for j in range(b.degree[k]):
            signed = b.signed[b.signed_at[k] + 8 * j + w]
            m += b.strides[b.strides_at[k] + j] * (~states[:, ~signed] if signed < 0 else states[:, signed])
        found[:, site] = b.thresholds[b.tables_at[k] + 8 * m + w] * TO_UNIT
        for d in range(10):  # the first digits, as truth tables
            digits = b.planes[b.planes_at[k] + 8 * d + w] >> m.astype(np.uint64) & np.uint64(1)
            assert (digits == (b.thresholds[b.tables_at[k] + 8 * m + w] >> np.uint64(63 - d)) & np.uint64(1)).all()
    return found


def grid_up(sampler):
    layout, tables = sampler._laid_out
    rows, columns = sampler.shape
    states = all_spins(sampler.model.n_sites) > 0
    found = np.empty(states.shape)
    for b, batch in enumerate(layout.batches):
        for w, word in enumerate(batch):
            for lane in range(64) if word < len(layout.site) else ():
                site = layout.site[word, lane]
                if site < 0:
                    continue
                y, x = divmod(site, columns)
                m = np.zeros(len(states), dtype=int)
                for j, (v, u) in enumerate([(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]):
                    place = 32 * b + 8 * j + w
                    turned, present = (bool(a[place] >> np.uint64(lane) & np.uint64(1)) for a in tables[2:4])
                    m += tables.strides[j] * ((states[:, columns * (v % rows) + u % columns] ^ turned) & present)
                found[:, site] = tables.thresholds[tables.table[64 * word + lane] + m] * TO_UNIT
    return found


def checkerboard(shape):
    return np.argsort(np.add(*np.divmod(np.arange(shape[0] * shape[1]), shape[1])) % 2, kind="stable")


def step_of(kind, name):
    """Sampler, order of the sites, and P(+1) by its tables."""
    if kind == "grid":
        model, shape = SMALL_GRIDS[name]
        sampler = IsingGrid(model, shape, keep_spins=True, marginals=False)
        return sampler, checkerboard(shape), grid_up(sampler)
    model = SMALL[name]
    if kind == "lanes":
        return (
            IsingBitParallel(model, keep_spins=True, marginals=False),
            model.batches.scan(model.n_sites),
            lanes_up(model),
        )
    sampler = IsingGibbs(model, kind, keep_spins=True, marginals=False)
    return sampler, sampler.order, chain_up(sampler)


CASES = [(kind, name) for kind in ("cyclic", "coloured", "random", "lanes") for name in SMALL]
CASES += [("grid", name) for name in SMALL_GRIDS]


def sweep_matrix(kind, n, order, up):
    if kind != "random":
        return scan_matrix(n, order, up)
    return np.linalg.matrix_power(mixture_matrix([scan_matrix(n, [i], up) for i in range(n)]), n)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_step_keeps_the_distribution(kind, name):
    sampler, order, up = step_of(kind, name)
    model, n = sampler.model, sampler.model.n_sites
    assert sorted(order) == list(range(n))
    p = exact(model)
    assert up == pytest.approx(conditionals(model, all_spins(n)), abs=2**-52)
    for i in range(n):
        matrix = scan_matrix(n, [i], up)
        assert np.abs(p @ matrix - p).max() < 1e-12
        assert np.abs(matrix - gibbs_matrix(joint_of(model), i)).max() < 1e-12
    if kind != "random":
        whole = cycle_matrix([gibbs_matrix(joint_of(model), int(i)) for i in order])
        assert np.abs(scan_matrix(n, order, up) - whole).max() < 1e-12


def path_of(sampler, n_steps):
    """Numbers of the states, (chains, steps + 1), from the compiled kernel."""
    n = sampler.model.n_sites
    state = sampler.init(np.random.default_rng(SEED + 1))
    _, draws, _ = sampler.run(state, n_steps, np.random.default_rng(0))
    if isinstance(sampler, IsingBitParallel):
        spins = np.concatenate([unpack_lanes(state.words)[:, None], unpack_lanes(draws["spins"])], axis=1)
    else:
        spins = np.concatenate([state.spins[None] > 0, np.unpackbits(draws["spins"], axis=1, count=n)])[None]
    return number(spins)


def transitions(path, n_states):
    return np.bincount((path[:, :-1] * n_states + path[:, 1:]).ravel(), minlength=n_states**2).reshape(n_states, -1)


@pytest.mark.parametrize(("kind", "name"), [case for case in CASES if case[1] not in ("strong", "one site")])
def test_compiled_kernels_move_as_the_matrix_says(kind, name):
    sampler, order, up = step_of(kind, name)
    n = sampler.model.n_sites
    counts = transitions(path_of(sampler, 4000 if kind == "lanes" else 200_000), 2**n)
    z, compared = compare_transitions(counts, sweep_matrix(kind, n, order, up))
    assert compared >= 2**n
    assert z < z_limit(compared)
    broken = up.copy()  # of the site with the largest conditional spread, one neighbour or the field is forgotten
    broken[:, 0] = conditionals(IsingModel([], [], sampler.model.fields + 0.1), all_spins(n))[:, 0]
    z, compared = compare_transitions(counts, sweep_matrix(kind, n, order, broken))
    assert z > z_limit(compared)


def test_the_order_of_the_scan_is_seen():
    """The check that accepts a scan rejects the reverse scan, which has the same distribution."""
    sampler, order, up = step_of("cyclic", "2 x 2 uneven")
    counts = transitions(path_of(sampler, 200_000), 16)
    z, compared = compare_transitions(counts, scan_matrix(4, order[::-1], up))
    assert z > z_limit(compared)


RINGS = IsingModel(
    np.concatenate([grid_edges(2, 6), [[0, 5], [6, 11]]]), np.linspace(-0.5, 0.8, 18), np.linspace(-0.3, 0.5, 12)
)
LARGER = {
    "3 x 3": (even_grid(3, 3, coupling=0.3, field=0.2), (3, 3)),
    "3 x 3 uneven": (uneven_grid(3, 3, seed=4), (3, 3)),
    "3 x 3 glass": (glass_grid(3, 3, seed=1), (3, 3)),
    "4 x 4 torus, even": (even_grid(4, 4, periodic=True, coupling=0.15, field=0.1), (4, 4)),
    "2 x 6 torus, uneven": (RINGS, (2, 6)),
    "random": (random_graph(9, 16, seed=5), None),
    "wide": (random_graph(9, 34, seed=6), None),
}


def each_kernel(model, shape, thin):
    """(name, trace of `up` as (streams, draws, n), energies (streams, draws)) of every kernel that takes the model."""
    samplers = [IsingGibbs(model, scan, thin) for scan in ("cyclic", "coloured", "random")]
    samplers += [IsingBitParallel(model, thin)] + ([IsingGrid(model, shape, thin)] if shape else [])
    for sampler in samplers:
        rng = np.random.default_rng(SEED + 2)
        is_lanes = isinstance(sampler, IsingBitParallel)
        state, _, _ = sampler.run(sampler.init(rng), 50 * thin, rng)
        _, draws, _ = sampler.run(state, (500 if is_lanes else 12_000) * thin, rng)
        up, energy = draws["up"], draws["energy"]
        name = f"{type(sampler).__name__} {getattr(sampler, 'scan', '')}"
        yield name, (np.moveaxis(up, 1, 0) if is_lanes else up[None]), (energy.T if is_lanes else energy[None])


def batch_z(draws, value, n_batches):
    """Student's t of draws (streams, draws, ...) from means of n_batches batches of every stream; its freedom."""
    means = draws.reshape(draws.shape[0] * n_batches, -1, *draws.shape[2:]).mean(axis=1)
    return (means.mean(axis=0) - value) / (means.std(axis=0, ddof=1) / np.sqrt(len(means))), len(means) - 1


@pytest.mark.parametrize("name", LARGER)
def test_marginals_and_energies(name):
    model, shape = LARGER[name]
    p, states = exact(model), all_spins(model.n_sites)
    up, energy = p @ (states > 0), p @ model.energy(states)
    couplings = model.graph.couplings.copy()
    couplings[0] *= -1
    broken = IsingModel(model.graph.edges, couplings, model.fields + 0.02)
    q = exact(broken)
    for kernel, ups, energies in each_kernel(model, shape, 4):
        z, freedom = batch_z(ups, up, 20 if len(ups) > 1 else 60)
        limit = stdtrit(freedom, 1 - FALSE_ALARM / (2 * z.size))
        assert np.abs(z).max() < limit, kernel
        assert np.abs(batch_z(ups, q @ (states > 0), 20 if len(ups) > 1 else 60)[0]).max() > limit, kernel
        z, freedom = batch_z(energies, energy, 1 if len(energies) > 1 else 60)
        assert abs(z) < stdtrit(freedom, 1 - FALSE_ALARM / 2), kernel


def correlation_z(x):
    """z-values of the correlations of the columns of x (independent rows)."""
    r = np.corrcoef(x.T)
    return np.abs(r[np.triu_indices(len(r), 1)]) * np.sqrt(len(x))


def test_lanes_are_independent():
    """Draws 12 sweeps apart of a model that forgets in two or three."""
    model = uneven_grid(4, 4, scale=0.25)
    sampler = IsingBitParallel(model, thin=12, marginals=False)
    state, _, _ = sampler.run(sampler.init(np.random.default_rng(SEED)), 600, np.random.default_rng(0))
    _, draws, _ = sampler.run(state, 12 * 8000, np.random.default_rng(0))
    for name in ("energy", "magnetisation"):
        x = draws[name].copy()
        assert (z := correlation_z(x)).max() < z_limit(z.size)
        x[::10, 1] = x[::10, 0]  # a lane that copies another now and then
        assert correlation_z(x).max() > z_limit(z.size)


def test_sites_without_couplings_are_independent():
    """Of the same batch, of others, and of the sweep before."""
    model = IsingModel([], [], np.linspace(-1, 1, 20))
    sampler = IsingBitParallel(model, keep_spins=True, marginals=False)
    _, draws, _ = sampler.run(sampler.init(np.random.default_rng(SEED)), 2000, np.random.default_rng(0))
    x = unpack_lanes(draws["spins"]).astype(float)  # (lane, sweep, site)
    both = np.concatenate([x[:, 1:], x[:, :-1]], axis=2).reshape(-1, 40)[::2]  # rows do not overlap
    assert (z := correlation_z(both)).max() < z_limit(z.size)


def exact_share(field):
    """2^64 / (1 + exp(-2 f)) to fifty digits."""
    with localcontext() as context:
        context.prec = 60
        return 2**64 / (1 + (Decimal(-2) * Decimal(float(field))).exp())


def test_thresholds_are_exact_to_2_to_the_minus_52():
    fields = np.concatenate([np.random.default_rng(SEED).normal(0, 3, 500), np.linspace(-40, 40, 81), [-400, 400, 0]])
    for field, threshold in zip(fields, thresholds_of(fields), strict=True):
        assert abs(int(threshold) - exact_share(field)) < 2 ** (64 - 52)
    assert thresholds_of(np.array([0.0])) == 2**63


@pytest.mark.parametrize("digits", [3, 9, 10, 11, 15, 16])
def test_rare_spins_are_as_rare_as_they_should_be(digits):
    """Beyond ten digits, one by one: 2^-digits (1 + 1/3), in binary 101010... from some place on."""
    p = 2.0**-digits * 4 / 3
    n, sweeps = 512, 600
    model = IsingModel([], [], np.full(n, 0.5 * np.log(p / (1 - p))))
    for sampler, chains in (
        (IsingBitParallel(model, marginals=False), 64),
        (IsingGrid(model, (16, 32), marginals=False), 1),
    ):
        steps = sweeps if chains == 64 else 64 * sweeps
        _, draws, _ = sampler.run(sampler.init(np.random.default_rng(SEED)), steps, np.random.default_rng(0))
        total = n * chains * steps
        found = (draws["magnetisation"].sum() + draws["magnetisation"].size) / 2 * n
        z = (found - total * p) / np.sqrt(total * p * (1 - p))
        assert abs(z) < z_limit(1)
        assert abs(found - total * p * 1.5) / np.sqrt(total * p * 1.5) > z_limit(1)  # the digits after the first


@pytest.mark.parametrize("sign", [-1, 1])
def test_strong_couplings_and_fields_freeze(sign):
    edges = grid_edges(4, 4)
    parity = (-1) ** np.add(*np.divmod(np.arange(16), 4))
    pattern = np.ones(16) if sign == 1 else parity
    model = IsingModel(edges, 50.0 * sign, 250.0 * pattern)  # more than four neighbours can do
    for sampler in (IsingGibbs(model, keep_spins=True), IsingGrid(model, (4, 4), keep_spins=True)):
        state, _, _ = sampler.run(sampler.init(np.random.default_rng(SEED)), 20, np.random.default_rng(0))
        assert (state.spins == pattern).all()
    sampler = IsingBitParallel(model)
    state, draws, _ = sampler.run(sampler.init(np.random.default_rng(SEED)), 20, np.random.default_rng(0))
    assert (unpack_lanes(state.words) == pattern).all()
    assert draws["energy"][-1] == pytest.approx(-50.0 * len(edges) - 250.0 * 16)


def test_couplings_matrix_of_the_tests():
    model = random_graph(5, 7)
    s = all_spins(5)
    assert -model.energy(s) == pytest.approx(np.einsum("si,ij,sj->s", s, couplings_of(model), s) / 2 + s @ model.fields)
