"""Bad input is refused in words."""

from __future__ import annotations

import numpy as np
import pytest
from gibbs_cases import dense_problem

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.gibbs import (
    TableGibbs,
    connectivity,
    cyclic,
    deterministic_blocks,
    in_turn,
    random_blocks,
    random_lists,
    single_sites,
)
from doxa.models.factors import Factor

NO = -np.inf
PAIR = Factor((0, 1), np.array([[0.0, NO], [NO, 0.0]]))


def refuses(message, error=ArgumentError):
    return pytest.raises(error, match=message)


def test_variables_and_factors():
    with refuses(r"n_states is empty; there must be a variable to draw"):
        TableGibbs([], [])
    with refuses(r"n_states\[1\] is 0; it must be at least 1"):
        TableGibbs([2, 0], [])
    with refuses(r"n_states\[0\] is 40000; a variable has at most 32767 states"):
        TableGibbs([40000], [])
    with refuses(r"factors\[0\] has the variable 2; those of n_states are 0 to 1"):
        TableGibbs([2, 2], [Factor((2,), np.zeros(2))])
    with refuses(r"factors\[0\] has the variable 1 twice"):
        TableGibbs([2, 2], [Factor((1, 1), np.zeros((2, 2)))])
    with refuses(r"factors\[0\], over \(0, 1\), has shape \(2, 3\); it must be \(2, 2\)"):
        TableGibbs([2, 2], [Factor((0, 1), np.zeros((2, 3)))])
    for value in (np.nan, np.inf):
        with refuses(r"factors\[0\] contains nan or \+inf"):
            TableGibbs([2], [Factor((0,), np.array([0.0, value]))])


def test_scans():
    with refuses(r"no block has the variable 1, so it would never move; add the block \(1,\)"):
        TableGibbs([2, 2], [PAIR], cyclic([(0,)]))
    with refuses(r"no block has the variable 1"):
        TableGibbs([2, 2], [PAIR], random_blocks([(0,), (1,)], [1, 0]))
    with refuses(r"scan.lists\[0\]\[1\] has the variable 2; there are 2, 0 to 1"):
        TableGibbs([2, 2], [PAIR], cyclic([(0, 1), (2,)]))
    with refuses(r"scan.lists\[0\]\[0\] has the variable 0 twice"):
        TableGibbs([2, 2], [PAIR], cyclic([(0, 0, 1)]))
    with refuses(r"scan.lists\[0\]\[0\] is empty"):
        TableGibbs([2, 2], [PAIR], cyclic([()]))
    with refuses("list 0 of the scan has 3; a block is a sequence of variables", ArgumentTypeError):
        cyclic([3])
    with refuses("list 1 of the scan has no blocks"):
        in_turn([[(0,)], []])
    with refuses("the scan has no blocks"):
        random_lists([])
    with refuses("weights has 1 entries but there are 2 to choose from"):
        random_blocks([(0,), (1,)], [1.0])
    with refuses(r"weights\[1\] is -1; it must be a finite number of at least 0"):
        random_blocks([(0,), (1,)], [1.0, -1.0])
    with refuses("weights sum to 0; at least one must be positive"):
        random_blocks([(0,), (1,)], [0.0, 0.0])
    with refuses("per_step is 0; it must be at least 1"):
        random_blocks([(0,)], per_step=0)


def test_blocks_that_are_too_large():
    n_states, factors = dense_problem()
    sampler = TableGibbs(n_states, factors, cyclic([(0, 1, 2, 3)]), most_configurations=23)
    with refuses(r"the block \(0, 1, 2, 3\) has more than most_configurations = 23 possible configurations"):
        _ = sampler.tables
    assert len(TableGibbs(n_states, factors, cyclic([(0, 1, 2, 3)]), most_configurations=24).tables[0].codes) == 24


def test_impossible_configurations_do_not_count():
    assert len(TableGibbs([2, 2], [PAIR], cyclic([(0, 1)]), most_configurations=4).tables[0].codes) == 2


def test_starts():
    rng = np.random.default_rng(0)
    given = TableGibbs([2, 2], [PAIR], starts=[[0, 0], [1, 1]], start_weights=[0.0, 1.0])
    assert given.init(rng).states.tolist() == [1, 1]
    drawn = TableGibbs([2, 2], [PAIR], starts=lambda rng: [int(rng.integers(2))] * 2)
    assert {tuple(drawn.init(rng).states.tolist()) for _ in range(40)} == {(0, 0), (1, 1)}
    for starts, weights, message in [
        ([[0, 1]], None, r"starts has the state \[0, 1\], which has probability 0"),
        ([0, 1], None, r"starts has shape \(2,\); it must be \(n, 2\)"),
        ([[0, 2]], None, r"starts has state 2 for the variable 1, which has 2: 0 to 1"),
        ([[0, 0]], [1, 2], r"start_weights has shape \(2,\) but starts has 1 rows"),
        ([[0, 0]], [0.0], r"start_weights must be finite numbers of at least 0, not all 0"),
        (lambda _: [0, 0], [1.0], "start_weights belong to an array of starts"),
        (lambda _: [0, 0, 0], None, r"what starts returned has shape \(3,\); it must be \(2,\)"),
    ]:
        with refuses(message):
            TableGibbs([2, 2], [PAIR], starts=starts, start_weights=weights).init(rng)
    with refuses("starts has dtype float64; states are whole numbers", ArgumentTypeError):
        TableGibbs([2, 2], [PAIR], starts=[[0.0, 0.0]]).init(rng)


def test_what_is_wanted():
    with refuses(r"wanted\[1\] is 2; variables are 0 to 1"):
        TableGibbs([2, 2], [PAIR], wanted=[0, 2])
    with refuses("thin is 0; it must be at least 1"):
        TableGibbs([2, 2], [PAIR], thin=0)


def test_connectivity():
    with refuses(r"no block has the variable 1"):
        connectivity([2, 2], [PAIR], [(0,)])
    with refuses(r"starts\[1\] is \[0, 1\], which has probability 0; give possible states"):
        connectivity([2, 2], [PAIR], starts=[[0, 0], [0, 1]])
    with refuses("factors exclude every state; there is nothing to connect"):
        connectivity([2, 2], [PAIR, Factor((0,), np.array([0.0, NO])), Factor((1,), np.array([NO, 0.0]))])
    three = [Factor(pair, np.where(np.eye(2, dtype=bool), NO, 0.0)) for pair in ((0, 1), (1, 2), (0, 2))]
    with refuses("factors exclude every state"):  # which no pair of them does
        connectivity([2, 2, 2], three)
    with refuses(r"blocks\[0\] is 0; a block is a sequence of variables: \(0,\)", ArgumentTypeError):
        connectivity([2, 2], [PAIR], [0, 1])


def test_relations():
    with refuses(r"determined\[0\] names the factor 1; there are 1, from 0"):
        deterministic_blocks([2, 2], [PAIR], [(0, (1,), 1)])
    with refuses(r"determined\[0\] is over \(0,\) but its factor 0 is over \(0, 1\)"):
        deterministic_blocks([2, 2], [PAIR], [(0, (), 0)])
    assert deterministic_blocks([2, 2], [PAIR], []).blocks == single_sites(2)
