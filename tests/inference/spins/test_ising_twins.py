"""The compiled kernels beside their plain twins: the same random words give the same spins."""

from __future__ import annotations

import numpy as np
import pytest
from ising_cases import (
    Xoshiro,
    bit_parallel_sweep,
    chain_sweep,
    conditionals,
    couplings_of,
    even_grid,
    glass_grid,
    grid_sweep,
    random_graph,
    uneven_grid,
)
from scipy.special import expit

from doxa._jit import compiled
from doxa.inference.spins import IsingBitParallel, IsingGibbs, IsingGrid, IsingModel, unpack_lanes
from doxa.inference.spins.bit_parallel import BitParallelState
from doxa.inference.spins.words import (
    chosen,
    fresh_streams,
    load,
    next_word,
    next_words,
    rotated,
    same,
    shifted_left,
    shifted_right,
    store,
    uniform,
    word,
)
from support.checks import SEED

GRAPHS = {
    "even torus": even_grid(4, 4, periodic=True),
    "uneven torus": uneven_grid(4, 6, periodic=True),
    "glass": glass_grid(5, 3),
    "random": random_graph(11, 20),
    "random, few sizes": random_graph(11, 25, values=[0.5, -0.5, 0.2]),
    "random, one size": random_graph(12, 40, values=[0.3]),
    "one site": IsingModel([], [], [0.3]),
}
WIDE = random_graph(12, 38, seed=2)  # all couplings differ: no tables for sites of more than 6 neighbours
ONE_WAY = IsingModel([[0, 3], [0, 1], [1, 2], [2, 3], [0, 4]], [1.0, 0.5, -0.2, 0.3, 0.4], [0.1] * 8)
GRIDS = {
    "even torus": (even_grid(4, 4, periodic=True), (4, 4)),
    "uneven torus": (uneven_grid(16, 16, periodic=True), (16, 16)),
    "glass torus": (glass_grid(8, 4, periodic=True), (8, 4)),
    "torus one way": (ONE_WAY, (2, 4)),
    "uneven": (uneven_grid(5, 7), (5, 7)),
    "glass": (glass_grid(9, 20), (9, 20)),
    "a row": (uneven_grid(1, 131), (1, 131)),
    "a column": (even_grid(130, 1, periodic=True), (130, 1)),
    "one site": (IsingModel([], [], [0.3]), (1, 1)),
}


@compiled
def draw_words(streams, n, out):
    for i in range(n):
        store(out, 8 * i, next_words(streams))


@compiled
def draw_one(streams, k):
    return next_word(streams, k), uniform(streams, k)


@compiled
def use_words(a, out):
    x, y = load(a, 0), load(a, 8)
    store(out, 0, x & ~y)
    store(out, 8, (x | y) ^ shifted_right(x, np.uint64(7)))
    store(out, 16, rotated(x, np.uint64(9)) + y - shifted_left(y, np.uint64(3)))
    store(out, 24, chosen(x, y, np.uint64(63)) | same(np.uint64(5)))
    return word(x, 6)


def test_words_are_worked_on_one_by_one():
    a, out = np.random.default_rng(SEED).integers(0, 2**64, 16, dtype=np.uint64), np.zeros(32, dtype=np.uint64)
    assert use_words(a, out) == a[6]
    x, y, u = a[:8], a[8:], np.uint64
    assert (out[:8] == (x & ~y)).all()
    assert (out[8:16] == (x | y) ^ (x >> u(7))).all()
    assert (out[16:24] == ((x << u(9)) | (x >> u(55))) + y - (y << u(3))).all()
    assert (out[24:] == np.where(y >> u(63), x, u(0)) | u(5)).all()


def test_random_words_are_those_of_the_published_generator():
    state = np.repeat(np.array([1, 2, 3, 4], dtype=np.uint64), 8)
    out = np.zeros(40, dtype=np.uint64)
    draw_words(state, 5, out)
    published = [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205]
    assert (out.reshape(5, 8) == np.array(published, dtype=np.uint64)[:, None]).all()


def test_random_words_are_those_of_their_twin():
    streams = fresh_streams(np.random.default_rng(SEED))
    twin, out = Xoshiro(streams), np.zeros(24, dtype=np.uint64)
    draw_words(streams, 3, out)
    assert out.tolist() == [twin.next(k) for _ in range(3) for k in range(8)]
    assert draw_one(streams, 5) == (twin.next(5), twin.uniform(5))
    assert (streams == twin.streams).all()


@pytest.mark.parametrize("scan", ["cyclic", "coloured", "random"])
@pytest.mark.parametrize("name", GRAPHS)
def test_one_chain(name, scan):
    model = GRAPHS[name]
    sampler = IsingGibbs(model, scan)
    state = sampler.init(np.random.default_rng(SEED))
    spins, random = state.spins.astype(int), Xoshiro(state.streams)
    for _ in range(12):
        chain_sweep(model, sampler.order, spins, random, scan)
    after, draws, _ = sampler.run(state, 12, np.random.default_rng(0))
    assert (after.spins == spins).all()
    assert (after.streams == random.streams).all()
    assert draws["energy"][-1] == pytest.approx(float(model.energy(spins)), abs=1e-12)
    assert draws["magnetisation"][-1] == pytest.approx(spins.mean(), abs=1e-12)


def test_one_chain_with_wide_sites():
    assert 0 < (WIDE.classes.n_classes == 0).sum() < 12
    state = IsingGibbs(WIDE).init(np.random.default_rng(SEED))
    for scan in ("cyclic", "coloured", "random"):
        sampler = IsingGibbs(WIDE, scan)
        spins, random = state.spins.astype(int), Xoshiro(state.streams)
        is_wide = WIDE.classes.n_classes == 0
        for _ in range(20):
            for t in range(WIDE.n_sites):
                i = int(random.uniform(t % 8) * WIDE.n_sites) if scan == "random" else sampler.order[t]
                u = random.uniform(t % 8) if is_wide[i] else random.next(t % 8) / 2**64
                spins[i] = 1 if u < conditionals(WIDE, spins)[i] else -1
        after, _, _ = sampler.run(state, 20, np.random.default_rng(0))
        assert (after.spins == spins).all()


@pytest.mark.parametrize("name", GRAPHS)
def test_64_chains(name):
    model = GRAPHS[name]
    sampler = IsingBitParallel(model)
    state = sampler.init(np.random.default_rng(SEED))
    spins, random = unpack_lanes(state.words).astype(int), Xoshiro(state.streams)
    for _ in range(3):
        bit_parallel_sweep(model, model.batches, spins, random)
    after, draws, _ = sampler.run(state, 3, np.random.default_rng(0))
    assert (unpack_lanes(after.words) == spins).all()
    assert (after.streams == random.streams).all()
    assert draws["energy"][-1] == pytest.approx(model.energy(spins), abs=1e-12)
    assert draws["magnetisation"][-1] == pytest.approx(spins.mean(axis=1), abs=1e-12)


def test_64_chains_with_wide_sites():
    sampler, batches = IsingBitParallel(WIDE), WIDE.batches
    state = sampler.init(np.random.default_rng(SEED))
    spins, random = unpack_lanes(state.words).astype(int), Xoshiro(state.streams)
    for _ in range(3):
        bit_parallel_sweep(WIDE, batches, spins, random)
        for i in batches.wide:
            up = [random.uniform(lane % 8) for lane in range(64)] < conditionals(WIDE, spins)[:, i]
            spins[:, i] = np.where(up, 1, -1)
    after, _, _ = sampler.run(state, 3, np.random.default_rng(0))
    assert (unpack_lanes(after.words) == spins).all()
    assert (after.streams == random.streams).all()


def test_every_site_wide():
    model = random_graph(9, 36)
    assert len(model.batches.degree) == 0
    assert sorted(model.batches.wide) == list(range(9))
    sampler = IsingBitParallel(model, keep_spins=True)
    _, draws, _ = sampler.run(sampler.init(np.random.default_rng(SEED)), 2, np.random.default_rng(0))
    last = unpack_lanes(draws["spins"])[:, 1].reshape(8, 8, 9)  # the last site has seen what is kept
    assert draws["up"][1, :, 8] == pytest.approx(conditionals(model, last)[..., 8].mean(axis=1), abs=1e-14)


@pytest.mark.parametrize("name", GRIDS)
def test_a_grid(name):
    model, shape = GRIDS[name]
    sampler = IsingGrid(model, shape)
    state = sampler.init(np.random.default_rng(SEED))
    spins, random = state.spins.astype(int), Xoshiro(state.streams)
    for _ in range(2):
        grid_sweep(model, sampler._laid_out[0], spins, random)
    after, draws, _ = sampler.run(state, 2, np.random.default_rng(0))
    assert (after.spins == spins).all()
    assert (after.streams == random.streams).all()
    assert draws["energy"][-1] == pytest.approx(float(model.energy(spins)), abs=1e-11)
    assert draws["magnetisation"][-1] == pytest.approx(spins.mean(), abs=1e-12)


@pytest.mark.parametrize("scan", ["cyclic", "coloured", "random"])
def test_up_is_the_conditional_at_the_moment_of_drawing(scan):
    for model in (GRAPHS["random"], WIDE):
        sampler = IsingGibbs(model, scan, keep_spins=True)
        state = sampler.init(np.random.default_rng(SEED))
        _, draws, _ = sampler.run(state, 50, np.random.default_rng(0))
        spins = 2 * np.unpackbits(draws["spins"], axis=1, count=model.n_sites).astype(int) - 1
        assert draws["up"] == pytest.approx(up_along(model, sampler.order, state.spins, spins, scan), abs=1e-14)


def up_along(model, order, start, path, scan="cyclic"):
    """Conditional probabilities along paths of spins (..., steps, n), site after site."""
    found = np.empty(path.shape)
    coupled, before = couplings_of(model), start.astype(int)
    for step in range(path.shape[-2]):
        after = path[..., step, :]
        if scan == "random":
            found[..., step, :] = conditionals(model, after)
            continue
        for i in order:
            found[..., step, i] = expit(2 * (model.fields[i] + before @ coupled[i]))
            before[..., i] = after[..., i]
    return found


@pytest.mark.parametrize("model", [GRAPHS["random"], WIDE, GRAPHS["even torus"]])
def test_up_of_64_chains(model):
    sampler = IsingBitParallel(model, keep_spins=True)
    state = sampler.init(np.random.default_rng(SEED))
    _, draws, _ = sampler.run(state, 40, np.random.default_rng(0))
    starts, path = unpack_lanes(state.words), unpack_lanes(draws["spins"])
    order = model.batches.scan(model.n_sites)
    each = up_along(model, order, starts, path)  # (lane, step, site)
    assert np.abs(draws["up"] - np.moveaxis(each.reshape(8, 8, 40, -1).mean(axis=1), 0, 1)).max() < 1e-14


@pytest.mark.parametrize("name", GRIDS)
def test_up_of_a_grid(name):
    model, shape = GRIDS[name]
    sampler = IsingGrid(model, shape, keep_spins=True)
    state = sampler.init(np.random.default_rng(SEED))
    _, draws, _ = sampler.run(state, 5, np.random.default_rng(0))
    spins = 2 * np.unpackbits(draws["spins"], axis=1, count=model.n_sites).astype(int) - 1
    order = np.argsort(np.add(*np.divmod(np.arange(model.n_sites), shape[1])) % 2, kind="stable")
    assert np.abs(draws["up"] - up_along(model, order, state.spins, spins)).max() < 1e-14


SAMPLERS = {
    "cyclic": lambda **options: IsingGibbs(GRAPHS["random"], "cyclic", **options),
    "coloured": lambda **options: IsingGibbs(GRAPHS["random"], **options),
    "random": lambda **options: IsingGibbs(GRAPHS["random"], "random", **options),
    "wide": lambda **options: IsingBitParallel(WIDE, **options),
    "lanes": lambda **options: IsingBitParallel(GRAPHS["uneven torus"], **options),
    "grid": lambda **options: IsingGrid(GRIDS["glass"][0], (9, 20), **options),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_depend_on_neither_blocks_nor_thinning(name):
    """600 sweeps are more than a tally of either kernel can hold."""
    sampler = SAMPLERS[name](keep_spins=True)
    rng = np.random.default_rng(SEED)
    state = sampler.init(rng)
    copy = type(state)(*(part.copy() for part in state))
    end, draws, info = sampler.run(state, 600, rng)
    assert all((before == now).all() for before, now in zip(copy, state, strict=True))
    now, blocks = state, []
    for size in (1, 0, 99, 500):
        now, block, _ = sampler.run(now, size, rng)
        blocks.append(block)
    assert all((a == b).all() for a, b in zip(now, end, strict=True))
    for key, values in draws.items():
        assert (np.concatenate([block[key] for block in blocks]) == values).all()
    thinned = SAMPLERS[name](thin=300, keep_spins=True).run(state, 600, rng)[1]
    for key in ("energy", "magnetisation", "spins"):
        assert (thinned[key] == draws[key][299::300]).all()
    up = draws["up"].reshape(2, 300, *draws["up"].shape[1:]).mean(axis=1)
    assert np.abs(thinned["up"] - up).max() < 1e-12
    assert info == {"updates": (64 if isinstance(state, BitParallelState) else 1) * sampler.model.n_sites * 600}
    bare = SAMPLERS[name](marginals=False).run(state, 10, rng)[1]
    assert sorted(bare) == ["energy", "magnetisation"]
    assert (bare["energy"] == draws["energy"][:10]).all()
