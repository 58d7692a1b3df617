"""d-separation and adjustment sets: by the definition on paths, by numbers, against NetworkX, by trying all sets."""

from __future__ import annotations

from itertools import chain, combinations

import networkx as nx
import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import Dag
from doxa.models.separation import Adjustment
from support.small_networks import FOUR, every_dag


def random_dag(rng, n, density):
    adjacency = np.zeros((n, n), dtype=bool)
    order = rng.permutation(n)
    adjacency[np.ix_(order, order)] = np.triu(rng.random((n, n)) < density, 1)
    return Dag(adjacency)


def subsets(nodes):
    return chain.from_iterable(combinations(nodes, k) for k in range(len(nodes) + 1))


def is_open(dag, path, given):
    """Pearl's definition: colliders have a descendant that is given, all others are not given."""
    for before, node, behind in zip(path, path[1:], path[2:], strict=False):
        if dag.has_edge(before, node) and dag.has_edge(behind, node):
            if not {node, *dag.descendants(node)} & set(given):
                return False
        elif node in given:
            return False
    return True


def paths_between(dag, x, y):
    undirected = nx.Graph(list(dag.edges))
    undirected.add_nodes_from(dag.names)
    return list(nx.all_simple_paths(undirected, x, y))


def test_every_graph_of_four_nodes_is_separated_as_paths_say():
    for dag in every_dag():
        for x, y in combinations(FOUR, 2):
            paths = paths_between(dag, x, y)
            for given in subsets([name for name in FOUR if name not in (x, y)]):
                separated = not any(is_open(dag, path, given) for path in paths)
                assert dag.d_separated(x, y, given) == dag.d_separated(y, x, given) == separated


def test_groups_are_separated_as_networkx_says():
    rng = np.random.default_rng(1)
    found = []
    for _ in range(600):
        n = int(rng.integers(3, 30))
        dag = random_dag(rng, n, rng.uniform(0, 3 / n))
        graph = nx.DiGraph(list(dag.edges))
        graph.add_nodes_from(dag.names)
        ends = np.cumsum([rng.integers(1, 3) if n > 4 else 1, 1, rng.integers(0, n - 3) if n > 4 else 0])
        named = [[dag.names[i] for i in group] for group in np.split(rng.permutation(n), ends)[:3]]
        found.append(dag.d_separated(*named))
        assert found[-1] == nx.is_d_separator(graph, *map(set, named))
    assert 0.1 < np.mean(found) < 0.9


# --- adjustment -------------------------------------------------------------------------------------------------------


def joint_of(dag, tables):
    """P of all states, an axis for each node; tables have an axis for each node, of length 1 where they do not vary."""
    p = np.ones((2,) * dag.n_nodes)
    for table in tables:
        p = p * table
    return p


def random_tables(rng, dag):
    tables = []
    for j in range(dag.n_nodes):
        shape = [2 if dag.adjacency[i, j] or i == j else 1 for i in range(dag.n_nodes)]
        table = rng.uniform(0.05, 1, shape)
        tables.append(table / table.sum(axis=j, keepdims=True))
    return tables


def effect_by_surgery(dag, tables, x, y):
    """P(y | do(x)), shape (2, 2): the table of x is taken out."""
    p = joint_of(dag, [table for j, table in enumerate(tables) if j != x])
    others = tuple(i for i in range(dag.n_nodes) if i not in (x, y))
    both = p.sum(axis=others)
    return both if x < y else both.T


def effect_by_adjustment(dag, tables, x, y, given):
    """The mean over z of P(y | x, z), shape (2, 2)."""
    n = dag.n_nodes
    p = joint_of(dag, tables)
    p_xyz = p.sum(axis=tuple(i for i in range(n) if i not in (x, y, *given)), keepdims=True)
    p_z = p_xyz.sum(axis=(x, y), keepdims=True)
    both = (p_xyz / p_xyz.sum(axis=y, keepdims=True) * p_z).sum(axis=tuple(given)).reshape(2, 2)
    return both if x < y else both.T


def test_valid_sets_are_those_that_give_the_effect_in_numbers():
    """The criterion is complete: tables at random tell every set that is not valid."""
    rng = np.random.default_rng(2)
    seen = set()
    for dag in every_dag()[::4]:
        tables = random_tables(rng, dag)
        for x, y in ((0, 1), (1, 0), (2, 3), (3, 0)):
            exact = effect_by_surgery(dag, tables, x, y)
            for given in subsets([i for i in range(4) if i not in (x, y)]):
                agrees = np.allclose(effect_by_adjustment(dag, tables, x, y, given), exact, rtol=0, atol=1e-11)
                assert dag.is_adjustment_set(x, y, given) == agrees, (dag, x, y, given)
                seen.add((agrees, len(given)))
    assert len(seen) == 6


def test_the_back_door_alone_would_be_refuted(monkeypatch):
    """The broken twin: forbidding nothing that the effect changes, numbers disagree."""
    dag = Dag.from_edges([("x", "m"), ("m", "y")])
    exact = effect_by_surgery(dag, tables := random_tables(np.random.default_rng(3), dag), 0, 2)
    assert not np.allclose(effect_by_adjustment(dag, tables, 0, 2, (1,)), exact, atol=1e-3)
    assert not dag.is_adjustment_set("x", "y", "m")
    of = Adjustment.of
    monkeypatch.setattr(Adjustment, "of", lambda a, x, y: of(a, x, y)._replace(adjacency=a & ~x[:, None], allowed=~x))
    assert dag.is_adjustment_set("x", "y", "m")


def test_minimal_sets_are_all_that_trying_finds():
    rng = np.random.default_rng(4)
    numbers = []
    for _ in range(250):
        n = int(rng.integers(3, 9))
        dag = random_dag(rng, n, rng.uniform(0.1, 0.7))
        x, y, z = rng.permutation(n)[:3].tolist()
        causes = [x, z] if rng.random() < 0.3 else [x]
        others = [i for i in range(n) if i not in (*causes, y)]
        valid = [set(given) for given in subsets(others) if dag.is_adjustment_set(causes, y, given)]
        minimal = {frozenset(given) for given in valid if not any(part < given for part in valid)}
        found = dag.adjustment_sets(causes, y)
        assert len(set(found)) == len(found)
        assert {frozenset(map(dag.names.index, given)) for given in found} == minimal
        first = dag.adjustment_set(causes, y)
        assert first == (found[0] if found else None)
        numbers.append(len(found))
    assert {0, 1, 2, 3} <= set(numbers)


def test_a_bound_cuts_exponentially_many_sets_short():
    ladder = [(f"l{i}", f"l{i + 1}") for i in range(12)] + [(f"r{i}", f"r{i + 1}") for i in range(12)]
    dag = Dag.from_edges([*ladder, ("c", "l0"), ("c", "r0"), ("l12", "x"), ("r12", "x"), ("c", "y"), ("x", "y")])
    assert len(dag.adjustment_sets("x", "y", most=1000)) == 1 + 13 * 13
    assert len(dag.adjustment_sets("x", "y", most=7)) == 7
    assert dag.adjustment_sets("x", "y", most=1) == (("c",),)


def test_nodes_may_be_positions_and_groups():
    dag = Dag.from_edges([("a", "b"), ("b", "c")])
    assert dag.d_separated(0, np.int64(2), ["b"])
    assert dag.d_separated({"a"}, ("c",), given=(1,))
    assert dag.adjustment_set("a", ["c"]) == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda dag: dag.d_separated("a", "z"), "node 'z' is not in the graph; its nodes are 'a', 'b', 'c'"),
        (lambda dag: dag.d_separated("a", "a"), "y has the node 'a', which is in x; leave it out there"),
        (
            lambda dag: dag.d_separated("a", "b", ["c", "b"]),
            "given has the node 'b', which is in y; leave it out there",
        ),
        (lambda dag: dag.d_separated([], "b"), "x has no nodes; give at least one"),
        (lambda dag: dag.adjustment_sets("a", []), "effect has no nodes; give at least one"),
        (lambda dag: dag.is_adjustment_set("a", "c", 7), "node 7 is not in the graph; positions run from 0 to 2"),
        (lambda dag: dag.adjustment_sets("a", "c", 0), "most is 0; it must be at least 1"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ArgumentError) as refused:
        call(Dag.from_edges([("a", "b"), ("b", "c")]))
    assert str(refused.value) == message


def test_what_is_no_group_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"given is 1.5; give a node, or a list of nodes"):
        Dag.from_edges([("a", "b")]).d_separated("a", "b", 1.5)
