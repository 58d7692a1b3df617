"""The compiled loop beside its plain twin, with the same random numbers; and runs that are cut in pieces."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from gibbs_cases import block_conditional, dense_problem, draw, random_problems, redraw_block

from doxa.inference.gibbs import (
    ByValue,
    TableGibbs,
    by_value,
    cyclic,
    in_turn,
    random_blocks,
    random_lists,
    single_sites,
)
from doxa.inference.gibbs.block_tables import PRODUCTS
from doxa.inference.gibbs.supports import log_density_at
from doxa.models.factors import Factor
from doxa.sampling.driver import Schedule, sample
from support.checks import SEED

ROOT = np.random.default_rng


def scans(n):
    """Every kind of scan; blocks overlap."""
    every = tuple(range(n))
    halves = [(v, (v + 1) % n) for v in every]
    return {
        "single": cyclic(single_sites(n)),
        "custom order": cyclic([(v,) for v in reversed(every)] + [(0,)]),
        "blocks": cyclic([every[: n - 1], every[1:]]),
        "in turn": in_turn([halves, single_sites(n), [every]]),
        "random sites": random_blocks(single_sites(n), np.arange(1, n + 1)),
        "random blocks": random_blocks(halves, per_step=2),
        "random lists": random_lists([halves, single_sites(n)], [0.3, 0.7]),
    }


def chosen_scans(n_states):
    """Values choose some of the blocks."""
    n = len(n_states)
    others = [v for v in range(n) if v != 0]
    lists = [[(v,) for v in others][: s + 1] + [tuple(others)] * (s % 2) for s in range(n_states[0])]
    choice = by_value(0, lists)
    last = by_value(n - 1, [[]] + [[(0,)]] * (n_states[-1] - 1))
    return {
        "by value": cyclic([(0,), choice, tuple(others)]),
        "by values, in turn": in_turn([[*single_sites(n)], [choice, last], [(0,), choice]]),
        "by value, by chance": random_blocks([(0,), choice, tuple(others), last], [1, 2, 1, 1]),
    }


CHOSEN = tuple(chosen_scans((2, 2)))


def add_conditional(total, begins, block, x, n_states, factors):
    p = block_conditional(block, x, n_states, factors)
    for j, v in enumerate(block):
        away = tuple(a for a in range(p.ndim) if a != j)
        total[begins[v] : begins[v + 1]] += p.sum(axis=away)


def twin_run(sampler, state, n_steps):
    """States after every step, mean conditional probabilities of all steps, and the streams."""
    n_states, factors, scan = sampler.n_states, sampler.factors, sampler.scan
    x, streams = state.states.copy(), state.streams.copy()
    begins = np.concatenate([[0], np.cumsum(n_states)])
    total, path = np.zeros(begins[-1]), []
    chosen = any(isinstance(entry, ByValue) for entry in scan.entries)
    for step in range(n_steps):
        t = 0
        for _ in range(scan.per_step):
            if scan.weights is None:
                blocks = scan.lists[(state.position + step) % len(scan.lists)]
            else:
                u, t = draw(streams, t & 7), t + 1
                blocks = scan.lists[pick(scan, u)]
            for entry in blocks:
                for block in entry.lists[x[entry.variable]] if isinstance(entry, ByValue) else [entry]:
                    if not chosen:
                        add_conditional(total, begins, block, x, n_states, factors)
                    x = redraw_block(block, x, draw(streams, t & 7), n_states, factors)
                    t += 1
        for b in np.unique(sampler._flat[0].home) if chosen else ():  # each at the end of every step
            add_conditional(total, begins, sampler.scan.blocks[b], x, n_states, factors)
        path.append(x)
    for v in range(len(n_states)):
        own = slice(begins[v], begins[v + 1])
        if not total[own].any():  # by chance: given what is around the smallest of its blocks
            block = sampler.scan.blocks[sampler._flat[0].home[v]]
            p = block_conditional(block, x, n_states, factors)
            total[own] = p.sum(axis=tuple(a for a, w in enumerate(block) if w != v))
        total[own] /= total[own].sum()
    return np.array(path), total, streams


def pick(scan, u):
    """As an alias table has it: what matters is how often, which `test_alias_tables` sees to."""
    flat = scan.flat()
    i = int(u * len(flat.keep))
    return i if u * len(flat.keep) - i < flat.keep[i] else int(flat.other[i])


@pytest.mark.parametrize("weights", [[1.0], [0.2, 0.8], [0.0, 3.0, 0.5, 0.0], [1, 1, 1], [1e-9, 1.0, 1e-3], [5, 1, 0]])
def test_alias_tables(weights):
    flat = random_blocks(single_sites(len(weights)), weights).flat()
    share = np.zeros(len(weights))
    for i, (keep, other) in enumerate(zip(flat.keep, flat.other, strict=True)):
        share[i] += keep / len(weights)
        share[other] += (1 - keep) / len(weights)
    np.testing.assert_allclose(share, np.array(weights) / np.sum(weights), atol=1e-15)
    assert (share[np.array(weights) == 0] == 0).all()


@pytest.mark.parametrize("most_entries", [0, 4096])
@pytest.mark.parametrize("name", [*scans(4), *CHOSEN])
def test_the_loop_is_that_of_the_twin(name, most_entries):
    for k, (n_states, factors) in enumerate([dense_problem(), *random_problems(8, seed=4)]):
        scan = (scans(len(n_states)) | chosen_scans(n_states))[name]
        sampler = TableGibbs(n_states, factors, scan, thin=3, keep_states=True, visits=True, most_entries=most_entries)
        state = sampler.init(ROOT([SEED, k]))
        after, draws, info = sampler.run(state, 12, ROOT(0))
        position = state
        for kept in range(4):
            path, mean, streams = twin_run(sampler, position, 3)
            np.testing.assert_array_equal(draws["states"][kept], path[-1])
            np.testing.assert_allclose(draws["probability"][kept], mean, atol=1e-13)
            shares = [np.bincount(path[:, v], minlength=size) / 3 for v, size in enumerate(n_states)]
            np.testing.assert_allclose(draws["visits"][kept], np.concatenate(shares), atol=1e-15)
            assert draws["log_density"][kept] == pytest.approx(log_density_at(factors, path[-1]), abs=1e-12)
            position = position._replace(states=path[-1], streams=streams, position=position.position + 3)
        np.testing.assert_array_equal(after.streams, position.streams)
        assert after.position == position.position % len(scan.lists)
        assert info["updates"] >= 12


def test_a_twin_with_another_blanket_is_found_out():
    """The check above would see one factor forgotten."""
    n_states, factors = dense_problem()
    sampler = TableGibbs(n_states, factors, keep_states=True)
    state = sampler.init(ROOT(SEED))
    _, draws, _ = sampler.run(state, 50, ROOT(0))
    path, _, _ = twin_run(sampler, state, 50)
    assert (path == draws["states"]).all()
    broken = TableGibbs(n_states, factors[1:])
    path, _, _ = twin_run(broken, state, 50)
    assert (path != draws["states"]).any()


@pytest.mark.parametrize("name", [*scans(4), *CHOSEN])
def test_runs_do_not_depend_on_where_they_are_cut(name):
    n_states, factors = dense_problem(zeros=0.1)
    scan = (scans(4) | chosen_scans(n_states))[name]
    sampler = TableGibbs(n_states, factors, scan, thin=2, visits=True, keep_states=True)
    state = sampler.init(ROOT(SEED))
    whole_state, whole, _ = sampler.run(state, 40, ROOT(0))
    parts = []
    for n_steps in (2, 14, 24):
        state, draws, _ = sampler.run(state, n_steps, ROOT(1))
        parts.append(draws)
    for name_of in whole:
        np.testing.assert_array_equal(whole[name_of], np.concatenate([part[name_of] for part in parts]))
    for one, other in zip(state, whole_state, strict=True):
        np.testing.assert_array_equal(one, other)


def test_runs_do_not_depend_on_workers_or_blocks():
    n_states, factors = dense_problem()
    sampler = TableGibbs(n_states, factors, random_lists([[(0, 1), (2, 3)], [(0,), (1, 2), (3,)]]), thin=3)
    schedule = Schedule(4, 60, 10)
    one = sample(sampler, schedule, seed=SEED, workers=1)
    other = sample(pickle.loads(pickle.dumps(sampler)), schedule, seed=SEED, workers=4, block=7)
    for name in one.names:
        np.testing.assert_array_equal(one[name], other[name])


def test_what_is_not_wanted_is_not_kept():
    n_states, factors = dense_problem()
    every = TableGibbs(n_states, factors, thin=2, visits=True)
    some = TableGibbs(n_states, factors, thin=2, visits=True, wanted=[3, 1])
    state = every.init(ROOT(SEED))
    _, draws, _ = every.run(state, 20, ROOT(0))
    _, fewer, _ = some.run(state, 20, ROOT(0))
    for name in ("probability", "visits"):
        by_variable = every.split(draws[name])
        assert fewer[name].shape == (10, 5)
        for v, values in zip((3, 1), some.split(fewer[name]), strict=True):
            np.testing.assert_array_equal(values, by_variable[v])
    _, bare, _ = TableGibbs(n_states, factors, marginals=False).run(state, 20, ROOT(0))
    assert set(bare) == {"log_density"}


def test_variables_of_one_state_and_without_factors():
    sampler = TableGibbs([1, 3, 2], [], cyclic([(1,), (2, 1)]), thin=5000)
    _, draws, _ = sampler.run(sampler.init(ROOT(SEED)), 5000, ROOT(0))
    own = sampler.split(draws["probability"][0])
    assert own[0].tolist() == [1.0]
    np.testing.assert_allclose(own[1], 1 / 3, atol=1e-12)
    np.testing.assert_allclose(own[2], 1 / 2, atol=1e-12)


def test_a_large_blanket_is_multiplied():
    """A variable with more neighbours than a table holds."""
    rng = ROOT(SEED)
    n = 16
    factors = [Factor((0, v), rng.normal(size=(2, 2))) for v in range(1, n)]
    sampler = TableGibbs([2] * n, factors, thin=20, keep_states=True)
    assert sampler.tables[0].kind == PRODUCTS
    state = sampler.init(rng)
    path, mean, _ = twin_run(sampler, state, 20)
    _, draws, _ = sampler.run(state, 20, rng)
    np.testing.assert_array_equal(draws["states"][0], path[-1])
    np.testing.assert_allclose(draws["probability"][0], mean, atol=1e-13)
