"""Data augmentation as a sampler of the driver's: bookkeeping, blocks, settings, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from augmentation_cases import CASES, mirrored, part_of, small_samplers, table_of

from doxa import LogisticNetwork, Table
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.models.logistic_parts import Part, independent_parts
from doxa.parameters.augmentation import AugmentationSampler
from doxa.parameters.samplers import PartsSampler
from doxa.sampling.driver import Schedule, sample
from support.checks import SEED


def test_hidden_cells_are_named_by_row_and_node():
    network, _ = CASES["parents"]
    codes = np.array([[1, 0, 1], [1, -1, 0], [1, 0, 1], [1, -1, 0], [-1, 1, -1]])  # nodes c, a, b
    table = table_of(network, codes)
    sampler = AugmentationSampler(network, part_of("c", network, table), table, keep_cells=True)
    assert sampler.cell_rows.tolist() == [1, 3]  # in the last row the child is missing: nothing depends on b there
    assert sampler.cell_nodes == ("a", "a")
    draws = sample(sampler, Schedule(2, 10, 5), seed=1, workers=1)
    assert sampler.packing.labels == (("c", "bias"), ("c", "a"), ("c", "b"), ("a", "probability"))
    assert draws["theta"].shape == (2, 10, 1, 4)
    assert draws["log_density"].shape == draws["acceptance"].shape == (2, 10, 1)
    assert draws["cells"].shape == (2, 10, 2)
    assert draws["cells"].dtype == np.int8


def test_log_density_is_that_of_the_draw_with_its_cells():
    for sampler in small_samplers("hidden chain", most_cells=1000, rows=(20, 40)):
        rng = np.random.default_rng([SEED, 8])
        state = sampler.init(rng)
        for _ in range(5):
            state, draws, _ = sampler.run(state, 1, rng)
            np.testing.assert_allclose(draws["theta"][0, 0], state.theta)
            assert draws["log_density"][0, 0] == pytest.approx(sampler.log_density(*state), rel=1e-11)


@pytest.mark.parametrize(("block", "workers"), [(1, 1), (7, 2), (1000, 1)])
def test_same_seed_same_draws_whatever_the_blocks_and_workers(block, workers):
    sampler = mirrored()
    once = sample(sampler, Schedule(2, 30, 10), seed=5, workers=1)
    again = sample(sampler, Schedule(2, 30, 10), seed=5, workers=workers, block=block)
    assert all(np.array_equal(once[name], again[name]) for name in ("theta", "log_density", "acceptance"))


def test_draws_among_other_parts_do_not_depend_on_blocks():
    both = PartsSampler({0: mirrored(rows=20), 1: mirrored("01", rows=20)})
    once = sample(both, Schedule(1, 30, 0), seed=5, workers=1)
    again = sample(both, Schedule(1, 30, 0), seed=5, workers=1, block=7)
    assert np.array_equal(once["1.theta"], again["1.theta"])


def test_a_sampler_comes_back_from_a_pickle_as_its_settings():
    sampler = mirrored()
    data = pickle.dumps(sampler)
    assert len(data) < len(pickle.dumps(sampler.completed))
    again = pickle.loads(data)
    state = sampler.init(np.random.default_rng(1))
    runs = [s.run(state, 4, np.random.default_rng(2))[1]["theta"] for s in (sampler, again)]
    assert np.array_equal(*runs)


def test_thinning_keeps_every_so_manieth_draw_and_states_are_left_alone():
    sampler = mirrored()
    thinned = AugmentationSampler(sampler.network, sampler.part, sampler.table, thin=3)
    state = sampler.init(np.random.default_rng(1))
    kept = state.theta.copy(), state.cells.copy()
    _, all_draws, _ = sampler.run(state, 12, np.random.default_rng(2))
    after, some, info = thinned.run(state, 12, np.random.default_rng(2))
    assert np.array_equal(all_draws["theta"][2::3], some["theta"])
    assert np.array_equal(state.theta, kept[0])
    assert np.array_equal(state.cells, kept[1])
    assert info["steps"] == 12
    assert [field.dtype for field in after] == [np.float64, np.int8]


TABLE = Table.from_codes(["c", "a", "b"], [["0", "1"]] * 3, [[1, -1, 0], [0, 1, 1]])


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"thin": 0}, ArgumentError, "thin is 0; it must be at least 1"),
        ({"tries": 1.5}, ArgumentTypeError, "tries is 1.5; it must be a whole number of at least 1"),
        ({"keep_cells": 1}, ArgumentTypeError, "keep_cells is 1; it must be True or False"),
        ({"part": "c"}, ArgumentTypeError, "part is 'c'; give one of independent_parts(network, table)"),
        (
            {"part": Part(("c", "q"), (0,), False)},
            ArgumentError,
            "part has nodes ('c', 'q') and factors (0,), which do",
        ),
        ({"part": Part(("c",), (9,), False)}, ArgumentError, "give one of independent_parts(network, table)"),
        ({"table": [[1, 0]]}, ArgumentTypeError, "table is of type list; it must be a Table"),
        ({"table": Table.from_codes(["q"], [["0"]], [[0]])}, TableError, "table has no column of the network's"),
        ({"network": "c"}, ArgumentTypeError, "network is 'c'; it must be a LogisticNetwork"),
    ],
)
def test_bad_arguments_are_refused_when_the_sampler_is_made(options, kind, message):
    network, _ = CASES["parents"]
    part = part_of("c", network, TABLE)
    with pytest.raises(kind) as raised:
        AugmentationSampler(**{"network": network, "part": part, "table": TABLE} | options)
    assert type(raised.value) is kind
    assert message in str(raised.value)


def test_a_row_that_the_given_roots_make_impossible_is_refused():
    network, _ = CASES["joint table with a zero"]
    table = Table.from_codes(["a", "b", "c", "e", "d"], [["0", "1"]] * 5, [[1, 0, 1, -1, 1], [0, -1, 0, 1, 0]])
    part = part_of("c", network, table)
    with pytest.raises(ArgumentError) as raised:
        AugmentationSampler(network, part, table)
    assert str(raised.value) == (
        "table has a row with b = 0, a = 1, which roots gives probability 0; no parameters explain it: give it a "
        "probability above 0, or leave the row out"
    )


def test_a_large_joint_table_with_all_its_roots_hidden_is_refused():
    names = tuple(f"r{k}" for k in range(9))
    network = LogisticNetwork({"y": names}, roots={names: np.full((2,) * 9, 2.0**-9)})
    table = Table.from_codes(["y"], [["0", "1"]], [[1], [0]])
    (part,) = independent_parts(network, table)
    with pytest.raises(ArgumentError) as raised:
        AugmentationSampler(network, part, table)
    assert str(raised.value) == (
        "roots gives a joint table over 'r0', 'r1', 'r2', 'r3', 'r4', 'r5', 'r6', 'r7', 'r8', and in some row 9 of "
        "them are hidden; at most 8 can be drawn together: observe some of them, or give the roots tables or "
        "probabilities of their own"
    )
