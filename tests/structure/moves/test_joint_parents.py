"""Joint redrawings of some nodes and of all among five and six, by brute force: paths outside, thousands of nats."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from scipy.stats import chi2

from doxa._call_at import settled
from doxa.data import Table
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure import Auto
from doxa.structure.exact.enumeration import all_dags, exact_edge_probabilities
from doxa.structure.families.cache import FamilyScores, local_scores
from doxa.structure.graph import working_graph
from doxa.structure.limits import capped
from doxa.structure.moves.joint_parents import _count_orders, _sum_orders, joint_parents_step, joint_work, near_nodes
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.parent_sets import find_set, scaled
from doxa.structure.moves.sampler import StructureSampler
from support.checks import FALSE_ALARM, SEED, compare_transitions, z_limit
from support.joint_moves import listed_sets, n_orders, parents_of, redrawn
from support.tables import skewed_table


def is_acyclic(parents, among):
    """Whether nodes can be taken away, those without parents first, until none is left."""
    left = sum(1 << node for node in among)
    while left:
        free = [node for node in among if left >> node & 1 and not parents[node] & left]
        if not free:
            return False
        left &= ~sum(1 << node for node in free)
    return True


def test_near_nodes_are_those_with_most_value_either_way():
    value = np.array([[0, 5, 1, 2], [0, 0, 9, 0], [0, 0, 0, -np.inf], [0, 8, 7, 0]], dtype=float)
    assert near_nodes(value).tolist() == [[1, 3, 2], [2, 3, 0], [1, 3, 0], [1, 2, 0]]
    assert near_nodes(np.zeros((9, 9))).shape == (9, 6)
    for nothing in (0.0, -np.inf):
        assert all(node not in near for node, near in enumerate(near_nodes(np.full((9, 9), nothing)).tolist()))


def steps_from(scores, limits, rows, n_steps, seed, table=None, most=4, near=None):
    """Parents of all nodes after one step from the same graph, again and again."""
    rng = np.random.default_rng(seed)
    table = parent_sets(scores, limits, 1.0) if table is None else table
    near = table.joint.near if near is None else near
    table = table._replace(joint=joint_work(near, table.sets.shape[1], 1 + len(table.sets) // 64, most))
    graph, local = working_graph(rows), np.empty(scores.n_nodes)
    before = [part.copy() for part in (graph[0], graph[1])]
    where = np.array([find_set(table, node, graph[0][node]) for node in range(scores.n_nodes)])
    assert (where >= 0).all()
    parents, children = np.zeros((2, n_steps, scores.n_nodes, 1), dtype=np.uint64)
    places, more = np.zeros((n_steps, scores.n_nodes), dtype=np.int64), np.zeros(n_steps, dtype=np.int64)
    with scores.borrow() as (cache, scoring):
        step_once, score = settled(joint_parents_step, scoring.address), settled(local_scores, scoring.address)
        score(graph[0], cache.arrays, scoring, local)
        at_first = local.copy()
        for step in range(n_steps):
            graph[0][:], graph[1][:] = before
            table.where[:], local[:] = where, at_first
            more[step] = step_once(graph, local, cache.arrays, scoring, table, rng)
            parents[step], children[step], places[step] = graph[0], graph[1], table.where
        right = local.copy()
        score(graph[0], cache.arrays, scoring, right)
        np.testing.assert_array_equal(local, right)
    added = (np.bitwise_count(parents).astype(np.int64) - np.bitwise_count(before[0])).sum(axis=(1, 2))
    stayed = (parents == before[0]).all(axis=(1, 2))
    assert ((more == added) | (more == -(1 << 30)) & stayed).all()
    np.testing.assert_array_equal(table.sets[places], parents)
    n = scores.n_nodes
    np.testing.assert_array_equal(unpack_rows(children, n), unpack_rows(parents, n).swapaxes(1, 2))
    return [*map(tuple, parents[:, :, 0].tolist())]


def conditional(sets, parents, *, whole=True, fours=None, with_orders=True):
    """Law of the parents after a step on five nodes that takes some of these, fours or others, by all joint sets.

    ``whole=False`` sees cycles in the four alone, ``with_orders=False`` takes every draw.
    """
    fours = list(combinations(range(5), 4)) if fours is None else fours
    law = {}
    for nodes in fours:
        weights = {}
        for own in product(*(sets[node].items() for node in nodes)):
            after = list(parents)
            for node, (members, _) in zip(nodes, own, strict=True):
                after[node] = members
            if is_acyclic(after, range(len(after)) if whole else nodes):
                weights[tuple(after)] = sum(weight for _, weight in own)
        graphs, weight = list(weights), np.array(list(weights.values()))
        start = np.array([[float(after == tuple(parents)) for after in graphs]])
        orders = np.array([n_orders(after, nodes) if whole else 1 for after in graphs], dtype=float)
        (shares,) = redrawn(start, np.exp(weight - weight.max()), orders, with_orders=with_orders)
        for after, share in zip(graphs, shares, strict=True):
            law[after] = law.get(after, 0.0) + share / len(fours)
    return law


def z_of(found, law):
    """Largest z of the outcomes against a law, or the chi-square of all that are not rare: as a multiple of its limit.

    Many outcomes that are a little too frequent are seen by the latter alone.
    """
    names = [*law, *(set(found) - set(law))]
    number = {name: k for k, name in enumerate(names)}
    counts = np.bincount([number[name] for name in found], minlength=len(names))
    shares = np.array([law.get(name, 0.0) for name in names])
    z, compared = compare_transitions(counts[None], shares[None])
    expected = shares * len(found)
    often = expected >= 30
    square = ((counts - expected)[often] ** 2 / expected[often]).sum() / chi2.isf(FALSE_ALARM, often.sum())
    return max(z / z_limit(compared), square), compared


@pytest.mark.parametrize("centre", [0, 3])
def test_a_step_among_five_nodes_draws_from_the_conditional_posterior(centre):
    """From a graph in which paths lead through the node outside: centre has a parent and children."""
    scores, limits = FamilyScores(skewed_table(5, 40, seed=3)), capped([2] * 5)
    adjacency = np.zeros((5, 5), dtype=bool)
    adjacency[(centre + 1) % 5, centre] = adjacency[centre, (centre + 2) % 5] = adjacency[centre, (centre + 3) % 5] = (
        True
    )
    rows = pack_rows(adjacency)
    found = steps_from(scores, limits, rows, 40_000, SEED)
    (parents,) = parents_of(rows[None])
    sets = listed_sets(parent_sets(scores, limits, 1.0))
    z, compared = z_of(found, conditional(sets, parents))
    assert compared > 30
    assert z < 1
    assert all(is_acyclic(after, range(5)) for after in set(found))
    assert z_of(found, conditional(sets, parents, whole=False))[0] > 5
    assert z_of(found, conditional(sets, parents, with_orders=False))[0] > 5


def test_sets_that_fit_are_drawn_by_weight_where_the_best_that_does_not_is_thousands_of_nats_above():
    """Four independent columns and one that says all that they say: it is the best parent of each, and their child."""
    codes = np.random.default_rng(1).integers(0, 2, (3000, 4))
    codes = np.column_stack([codes, codes @ [8, 4, 2, 1]])
    states = [["a", "b"]] * 4 + [[f"s{k}" for k in range(16)]]
    scores, limits = FamilyScores(Table.from_codes([f"x{i}" for i in range(5)], states, codes)), capped([4] * 5)
    table = parent_sets(scores, limits, 1.0)
    sets = listed_sets(table)
    assert all(max(own.values()) - own[0] > 1500 for own in sets)
    assert all(next(iter(own)) & 16 for own in sets[:4])
    adjacency = np.zeros((5, 5), dtype=bool)
    adjacency[:4, 4] = True
    found = steps_from(scores, limits, pack_rows(adjacency), 20_000, SEED)
    z, compared = z_of(found, conditional(sets, (0, 0, 0, 0, 15)))
    assert compared > 8
    assert z < 1
    assert {after[4] for after in found} == {15}
    assert z_of(found, {(0, 0, 0, 0, 15): 1.0})[0] > 1.5


def near_copies(n, n_rows, seed):
    """Columns that say the same but for two in a hundred cells: one hundreds of nats better with another than alone."""
    rng = np.random.default_rng(seed)
    said = rng.integers(0, 2, n_rows)
    codes = np.where(rng.random((n_rows, n)) < 0.02, 1 - said[:, None], said[:, None])
    return Table.from_codes([f"x{i}" for i in range(n)], [["a", "b"]] * n, codes)


@pytest.mark.parametrize("move", [Auto(), Auto(0.3, 0.2, 0.0, 0.5)], ids=["as usual", "half joint"])
def test_near_copies_are_sampled_as_they_are_summed(move):
    scores, limits = FamilyScores(near_copies(6, 3000, seed=1)), capped([5] * 6)
    table = parent_sets(scores, limits, 1.0)
    assert all(table.weight[begin] - table.weight[end - 1] > 750 for begin, end in pairwise(table.first))
    sampler = StructureSampler(move, scores, limits, thin=100)
    rng = np.random.default_rng(SEED)
    state, _, _ = sampler.run(sampler.init(rng), 50_000, rng)
    _, draws, _ = sampler.run(state, 400_000, rng)
    adjacency = unpack_rows(draws["rows"], 6)
    assert all(is_acyclic(parents, range(6)) for parents in set(parents_of(draws["rows"])))
    np.testing.assert_allclose(adjacency.mean(axis=0), exact_edge_probabilities(scores, limits), atol=0.06)


@pytest.mark.parametrize("below", [640.1, 440.1])
def test_graphs_that_weigh_hundreds_of_nats_less_than_their_sets_are_drawn_from(below):
    """Two orders of two nodes, hundreds of nats below what their sets weigh, and one nat apart."""
    scores, limits = FamilyScores(skewed_table(5, 20, seed=1)), capped([4] * 5)
    # Node 4, a child of both, is the best parent of each; of the sets that fit, the other node is the best.
    lists = [
        {16: 0.0, 2: -63.9, 0: -below},
        {16: 0.0, 1: -63.9, 0: 0.9 - below},
        {0: 0.0},
        {0: 0.0},
        {3: 0.0},
    ]
    first = np.cumsum([0, *map(len, lists)])
    sets = np.array([[members] for own in lists for members in own], dtype=np.uint64)
    table = scaled(first, sets, np.array([weight for own in lists for weight in own.values()]), 1.0)
    one, other = (0, 1, 0, 0, 3), (2, 0, 0, 0, 3)
    for start in (one, other):
        adjacency = unpack_rows(np.array(start, dtype=np.uint64)[:, None], 5).T
        found = steps_from(scores, limits, pack_rows(adjacency), 3000, SEED, table)
        law = {after: share for after, share in conditional(lists, start).items() if share > 1e-9}
        assert set(found) == set(law) == {one, other}
        assert z_of(found, law)[0] < 1
        assert z_of(found, {start: 1.0})[0] > 1.5


def test_five_nodes_are_redrawn_together():
    """In a quarter of the steps all five, else four of them."""
    scores, limits = FamilyScores(skewed_table(5, 40, seed=3)), capped([1] * 5)
    rows = pack_rows(np.eye(5, k=1, dtype=bool))
    found = steps_from(scores, limits, rows, 40_000, SEED, most=6)
    (parents,) = parents_of(rows[None])
    sets = listed_sets(parent_sets(scores, limits, 1.0))
    of_four, of_all = conditional(sets, parents), conditional(sets, parents, fours=[range(5)])
    law = {after: 0.75 * of_four.get(after, 0.0) + 0.25 * share for after, share in of_all.items()}
    z, compared = z_of(found, law)
    assert compared > 50
    assert z < 1
    assert z_of(found, of_four)[0] > 1.5


def long_lists():
    """Of x0 540 sets with x1, its child in half of the graphs, 60 without, and 300 that weigh nothing beside these."""
    members = np.arange(2**11) << 1
    with_1, without = members[members & 2 > 0], members[members & 2 == 0]
    own = [
        *zip(with_1[:540], -0.02 * np.arange(540), strict=True),
        *zip(without[:60], -11.0 - 0.02 * np.arange(60), strict=True),
        *zip(without[60:360], -40.0 - 0.01 * np.arange(300), strict=True),
    ]
    return [{int(sets): float(weight) for sets, weight in own}, {1: 0.0, 0: -11.4}, *({0: 0.0} for _ in range(10))]


def test_long_lists_are_looked_at_as_far_as_what_a_node_may_have():
    scores, limits = FamilyScores(skewed_table(12, 20, seed=1)), capped([11] * 12)
    lists = long_lists()
    first = np.cumsum([0, *map(len, lists)])
    sets = np.array([[members] for own in lists for members in own], dtype=np.uint64)
    table = scaled(first, sets, np.array([weight for own in lists for weight in own.values()]), 1.0)
    near = np.array([[1], *([0] for _ in range(11))])  # x0 and another one are taken

    def steps(start, n_steps):
        rows = pack_rows(unpack_rows(np.array(start, dtype=np.uint64)[:, None], 12).T)
        return steps_from(scores, limits, rows, n_steps, SEED, table, most=2, near=near)

    pairs = [(0, 1), (0, 1), *((0, other) for other in range(2, 12))]
    own = list(lists[0])
    start = (own[545], 1, *[0] * 10)
    found, law = steps(start, 60_000), conditional(lists, start, fours=pairs)
    z, compared = z_of(found, {after: share for after, share in law.items() if share > 1e-9})
    assert compared > 100
    assert z < 1
    assert any(after[0] & 2 for after in found)
    assert any(after[0] & 2 == 0 for after in found)
    of_512 = [dict(list(lists[0].items())[:512]), *lists[1:]]  # none of which x0 may have
    assert z_of(found, conditional(of_512, (own[0], *[0] * 11), fours=pairs))[0] > 1.5
    assert not {after[0] for after in found} & set(own[600:])  # too light to be looked at
    behind = (own[700], *start[1:])
    assert set(steps(behind, 200)) == {behind}  # and so left as they are


def numbers_of(logs):
    """Numbers and levels of `JointWork` for logarithms."""
    level = np.where(np.isfinite(logs), 1 - np.ceil(logs / 64), 0.0)
    return np.where(np.isfinite(logs), np.exp(logs + 64 * level), 0.0), level.astype(np.int64)


@pytest.mark.parametrize("spread", [1.0, 300.0])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_sums_over_orders_count_each_graph_once_for_each_of_its_orders(n, spread):
    """Weights of the types of all nodes, a third of them none, as far apart as a float can hold and farther."""
    rng = np.random.default_rng(n)
    logs = np.where(rng.random((n, 2**n)) < 0.3, -np.inf, rng.normal(0, spread, (n, 2**n)))
    logs[:, 0] = rng.normal(0, spread, n)
    within = np.array([[[t & u == t for t in range(2**n)] for u in range(2**n)]] * n)
    work = joint_work(np.zeros((n, 1), dtype=np.int64), 1, 1)
    summed = np.logaddexp.reduce(np.where(within, logs[:, None], -np.inf), axis=2)
    work.sums[:], work.sum_levels[:] = numbers_of(summed)
    _sum_orders(work, n)
    found = np.log(work.orders[0]) - 64.0 * work.order_levels[0]
    graphs = parents_of(all_dags(n))
    of_graphs = [sum(logs[s, own] for s, own in enumerate(graph)) for graph in graphs]
    counts = np.array([n_orders(graph, range(n)) for graph in graphs])
    assert [_count_orders(np.array(graph), n, work.counts) for graph in graphs] == counts.tolist()
    assert found == pytest.approx(np.logaddexp.reduce(of_graphs + np.log(counts)), abs=1e-9)
