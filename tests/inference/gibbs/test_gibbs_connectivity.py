"""What is said of connectivity is true; deterministic blocks connect; starts are possible."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from gibbs_cases import possible, random_problems, reference_problem, relations

from doxa.inference.gibbs import (
    NoStartError,
    connecting_blocks,
    connectivity,
    deterministic_blocks,
    find_state,
    scope_blocks,
    single_sites,
)
from doxa.inference.gibbs.supports import Supports, classes, log_density_at
from doxa.models.factors import Factor
from support.checks import SEED

folding = import_module("doxa.inference.gibbs.connectivity")  # the room has a function of this name
NO = -np.inf
XOR = np.where(np.indices((2, 2, 2)).sum(axis=0) % 2 == 0, 0.0, NO)
PROBLEMS = random_problems(150, seed=8, zeros=0.6, most_nodes=6)


def differ(n):
    return np.where(np.eye(n, dtype=bool), NO, 0.0)


def n_classes(n_states, factors, blocks):
    """By following moves from state to state."""
    rows, _ = possible(n_states, factors)
    waiting, n = {tuple(row) for row in rows.tolist()}, 0
    while waiting:
        n += 1
        frontier = [waiting.pop()]
        while frontier:
            here = frontier.pop()
            near = [
                there
                for there in waiting
                if any(
                    all(a == b or v in block for v, (a, b) in enumerate(zip(here, there, strict=True)))
                    for block in blocks
                )
            ]
            waiting.difference_update(near)
            frontier += near
    return n


def cases(seed):
    """Problems with single sites, and with random blocks that overlap."""
    rng = np.random.default_rng([SEED, seed])
    for n_states, factors in PROBLEMS:
        n = len(n_states)
        yield n_states, factors, single_sites(n)
        pairs = [tuple(int(v) for v in rng.permutation(n)[:2]) for _ in range(n // 2)]
        yield n_states, factors, (*single_sites(n), *pairs)


def answers(most_configurations=50_000):
    """(said, true) for every case."""
    for n_states, factors, blocks in cases(0):
        said = connectivity(n_states, factors, blocks, most_configurations=most_configurations)
        yield said.answer, n_classes(n_states, factors, blocks) == 1


def test_the_answer_is_true():
    said = list(answers())
    assert all(answer is truth for answer, truth in said)
    assert min(sum(truth for _, truth in said), sum(not truth for _, truth in said)) > 40


def test_parts_too_large_to_list_are_not_guessed_at():
    said = list(answers(most_configurations=1))
    assert all(answer is None or answer is truth for answer, truth in said)
    assert sum(answer is False for answer, _ in said) > 20
    assert sum(answer is None for answer, _ in said) > 5


@pytest.mark.parametrize("wrong", ["exchange when a single factor allows it", "exchange always"])
def test_folding_too_much_is_found_out(monkeypatch, wrong):
    right = folding._targets

    def targets(v, supports, tables, size):
        if wrong == "exchange always":
            return np.zeros(size, dtype=int)
        few = Supports(supports.n_states, supports.supports)
        few.touching[v] = supports.touching[v][:1]
        return right(v, few, tables, size)

    monkeypatch.setattr(folding, "_targets", targets)

    def is_true():
        try:
            return all(answer is truth for answer, truth in answers())
        except ValueError:  # everything struck out
            return False

    assert not is_true()


def test_images_are_possible_and_connected_to_what_they_are_images_of():
    n_folded = 0
    for n_states, factors, blocks in cases(1):
        rows, _ = possible(n_states, factors)
        folded = folding.fold(Supports.of(n_states, factors))
        number = {tuple(row): c for row, c in zip(rows.tolist(), classes(rows, blocks).tolist(), strict=True)}
        for row in rows:
            image = [int(left[k]) for left, k in zip(folded.left, folded.image(row), strict=True)]
            assert number[tuple(image)] == number[tuple(row.tolist())]
            n_folded += image != row.tolist()
    assert n_folded > 500


def test_starts_are_counted():
    same = Factor((0, 1), np.where(np.eye(3, dtype=bool), 0.0, NO))
    found = connectivity([3, 3], [same], starts=[[0, 0], [2, 2], [0, 0]])
    assert found.parts == ((((0, 1)), 3, 3, 2),)
    assert "fall into 3 classes that the blocks do not connect; the starts lie in 2 of them" in found.reason


def test_two_coins_and_their_observed_sum():
    """A and B free, C = A xor B seen to be 0: nothing can change alone."""
    coins = [Factor((0,), np.log([0.3, 0.7])), Factor((1,), np.log([0.5, 0.5])), Factor((0, 1), XOR[:, :, 0])]
    said = connectivity([2, 2], coins)
    assert said.answer is False
    joined = deterministic_blocks([2, 2], coins, relations(coins))
    assert joined == (((0, 1),), (), ())
    assert connectivity([2, 2], coins, joined.blocks).answer is True


@pytest.mark.parametrize(
    ("name", "n_observed", "seed"), [("hailfinder", 11, 0), ("hailfinder", 11, 1), ("win95pts", 15, 1)]
)
def test_reference_networks_that_single_moves_do_not_connect(name, n_observed, seed):
    problem = reference_problem(name, n_observed, seed)
    assert connectivity(problem.n_states, problem.factors).answer is False
    joined = deterministic_blocks(problem.n_states, problem.factors, relations(problem.factors))
    assert connectivity(problem.n_states, problem.factors, joined.blocks).answer is True


def test_zeros_that_determine_nothing_can_cut_too():
    problem = reference_problem("pathfinder", 20, 2)
    joined = deterministic_blocks(problem.n_states, problem.factors, relations(problem.factors))
    assert connectivity(problem.n_states, problem.factors, joined.blocks).answer is False
    mended = connecting_blocks(problem.n_states, problem.factors, joined.blocks)
    assert mended.connectivity.answer is True


def test_connecting_blocks_connect():
    n_joined = 0
    for n_states, factors, blocks in cases(2):
        found = connecting_blocks(n_states, factors, blocks)
        assert {v for block in found.blocks for v in block} == set(range(len(n_states)))
        assert found.connectivity.answer is True
        assert n_classes(n_states, factors, found.blocks) == 1
        n_joined += set(found.blocks) != set(blocks)
    assert n_joined > 20


def test_connecting_blocks_stop_at_the_limit():
    same = Factor((0, 1), np.where(np.eye(9, dtype=bool), 0.0, NO))
    found = connecting_blocks([9, 9], [same], most_configurations=8)
    assert found.blocks == ((0,), (1,))
    assert found.connectivity.answer is False


def chain_of_sums():
    """x2 = x0 xor x1, x4 = x2 xor x3, and x5 free."""
    return [2] * 6, [Factor((0, 1, 2), XOR), Factor((2, 3, 4), XOR), Factor((5,), np.zeros(2))]


def test_chains_of_deterministic_nodes_make_one_block():
    n_states, factors = chain_of_sums()
    wanted = [(2, (0, 1), 0), (4, (2, 3), 1)]
    assert deterministic_blocks(n_states, factors, wanted).blocks == ((0, 1, 2, 3, 4), (5,))


def test_chains_are_cut_where_blocks_grow_too_large():
    n_states, factors = chain_of_sums()
    wanted = [(2, (0, 1), 0), (4, (2, 3), 1)]
    found = deterministic_blocks(n_states, factors, wanted, most_configurations=4)
    assert found == (((0, 1, 2), (2, 3, 4), (3,), (4,), (5,)), ((4, (2, 3), 1),), ())
    found = deterministic_blocks(n_states, factors, wanted, most_configurations=3)
    assert found == (single_sites(6), (), tuple(wanted))


def test_every_relation_is_joined_or_reported():
    n_out = 0
    for n_states, factors in PROBLEMS:
        wanted = relations(factors)
        for most in (2, 3, 6, 4096):
            found = deterministic_blocks(n_states, factors, wanted, most)
            supports = Supports.of(n_states, factors)
            for variable, others, f in wanted:
                inside = [block for block in found.blocks if {variable, *others} <= set(block)]
                assert bool(inside) is ((variable, others, f) not in found.left_out)
            for block in found.blocks:
                codes = supports.configurations(block, most)
                assert len(block) == 1 or codes is not None
            n_out += len(found.left_out)
            assert most < 4096 or not (found.cut or found.left_out)
    assert n_out > 10


def test_scope_blocks_connect_what_the_given_ones_do():
    n_wider = 0
    for n_states, factors, blocks in cases(3):
        found = scope_blocks(n_states, factors, blocks, most_configurations=6)
        assert all(any(set(block) <= set(wider) for wider in found) for block in blocks)
        assert not any(set(one) < set(other) for one in found for other in found)
        supports = Supports.of(n_states, factors)
        assert all(block in blocks or len(supports.configurations(block, 6)) > 0 for block in found)
        assert n_classes(n_states, factors, found) <= n_classes(n_states, factors, blocks)
        n_wider += len(found) < len(blocks)
    assert n_wider > 50


def test_scope_blocks_are_pairs_where_all_together_are_too_many():
    wide = [Factor((0, 1, 2), np.zeros((2, 2, 2)))]
    assert scope_blocks([2, 2, 2], wide, most_configurations=8) == ((0, 1, 2),)
    assert scope_blocks([2, 2, 2], wide, most_configurations=7) == ((0, 1), (0, 2), (1, 2))
    assert scope_blocks([2, 2, 2], wide, most_configurations=3) == single_sites(3)


def test_states_that_are_found_are_possible():
    seen = set()
    for k, (n_states, factors) in enumerate(PROBLEMS):
        for seed in range(3):
            state = find_state(n_states, factors, np.random.default_rng([SEED, seed]))
            assert log_density_at(factors, state) > NO
            seen.add((k, *state.tolist()))
    assert len(seen) > 1.5 * len(PROBLEMS)


def test_a_state_is_found_where_few_are_possible():
    """Eight queens."""
    rows = np.arange(8)
    factors = [
        Factor((i, j), np.where((rows[:, None] == rows) | (np.abs(rows[:, None] - rows) == j - i), NO, 0.0))
        for i in range(8)
        for j in range(i + 1, 8)
    ]
    assert log_density_at(factors, find_state([8] * 8, factors, np.random.default_rng(SEED))) == 0.0


def pigeons(n, missing_cells):
    return [missing_cells] * n, [Factor((i, j), differ(missing_cells)) for i in range(n) for j in range(i + 1, n)]


def test_there_may_be_no_state():
    rng = np.random.default_rng(SEED)
    with pytest.raises(NoStartError, match="the zeros of the factors exclude every one"):
        find_state([2], [Factor((0,), np.array([NO, 0.0])), Factor((0,), np.array([0.0, NO]))], rng)
    with pytest.raises(NoStartError, match="the search has tried all there are"):
        find_state(*pigeons(5, 4), rng)
    with pytest.raises(NoStartError, match="found with 40 choices taken back; give starts, or remove zeros"):
        find_state(*pigeons(8, 7), rng, most_dead_ends=40)
    with pytest.raises(NoStartError, match="exclude every one"):
        find_state([2], [Factor((), np.array(NO))], rng)
