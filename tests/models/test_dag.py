"""`Dag` against brute force over all graphs of four nodes, and against itself on random large ones."""

from __future__ import annotations

import copy
import pickle
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import Cpdag, Dag
from doxa.models.bits import pack_rows, unpack_rows
from support.small_networks import FOUR, every_dag


@st.composite
def random_dags(draw, most=80):
    n = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    order = rng.permutation(n)
    lower = np.tril(rng.random((n, n)) < rng.random(), -1)
    adjacency = np.zeros((n, n), dtype=bool)
    adjacency[np.ix_(order, order)] = lower
    return Dag(adjacency)


@given(random_dags())
@settings(max_examples=60, deadline=None)
def test_relatives_agree_with_the_adjacency_matrix(dag):
    a = dag.adjacency
    closure = np.linalg.matrix_power((a + np.eye(len(a))), len(a)) > 0
    position = {name: i for i, name in enumerate(dag.names)}
    for i, name in enumerate(dag.names):
        assert dag.parents(name) == dag.parents(i) == tuple(dag.names[k] for k in range(len(a)) if a[k, i])
        assert dag.children(name) == tuple(dag.names[k] for k in range(len(a)) if a[i, k])
        assert dag.ancestors(name) == tuple(dag.names[k] for k in range(len(a)) if closure[k, i] and k != i)
        assert dag.descendants(name) == tuple(dag.names[k] for k in range(len(a)) if closure[i, k] and k != i)
        blanket = {*dag.parents(name), *dag.children(name)}
        for child in dag.children(name):
            blanket.update(dag.parents(child))
        assert set(dag.markov_blanket(name)) == blanket - {name}
    order = [position[name] for name in dag.topological_order()]
    assert sorted(order) == list(range(len(a)))
    assert all(order.index(i) < order.index(j) for i, j in np.argwhere(a))
    assert dag.n_edges == len(dag.edges) == a.sum()


@given(random_dags())
@settings(max_examples=40, deadline=None)
def test_round_trips_keep_the_graph(dag):
    assert Dag(dag.adjacency, dag.names) == dag
    assert Dag.from_edges(dag.edges, nodes=dag.names) == dag
    assert Dag.from_rows(dag.rows, dag.names) == dag
    assert hash(Dag(dag.adjacency, dag.names)) == hash(dag)
    assert pickle.loads(pickle.dumps(dag)) == copy.deepcopy(dag) == dag
    assert np.array_equal(unpack_rows(pack_rows(dag.adjacency), dag.n_nodes), dag.adjacency)


def test_equality_looks_at_edges_and_names():
    one = Dag.from_edges([("a", "b")])
    assert one != Dag.from_edges([("b", "a")], nodes=["a", "b"])
    assert one != Dag.from_edges([("a", "b")], nodes=["b", "a"])
    assert one != Dag.from_edges([("x", "y")])
    assert one != "a -> b"
    assert len({*every_dag(), *every_dag()}) == 543


def test_covered_arcs_are_those_whose_reversal_keeps_the_class():
    by_class = {dag: dag.cpdag() for dag in every_dag()}
    for dag in by_class:
        covered = set(dag.covered_arcs())
        for parent, child in dag.edges:
            flipped = [(child, parent) if edge == (parent, child) else edge for edge in dag.edges]
            try:
                after = Dag.from_edges(flipped, nodes=FOUR)
            except ArgumentError:
                assert (parent, child) not in covered
                continue
            assert ((parent, child) in covered) == (by_class[after] == by_class[dag])


def skeleton_and_colliders(dag):
    a = dag.adjacency
    colliders = {
        (min(i, j), k, max(i, j))
        for i, j, k in permutations(range(4), 3)
        if a[i, k] and a[j, k] and not (a[i, j] or a[j, i])
    }
    return (a | a.T).tobytes(), frozenset(colliders)


def test_cpdag_is_the_class_and_its_arrows_are_what_all_members_share():
    classes: dict[object, list[Dag]] = {}
    for dag in every_dag():
        classes.setdefault(skeleton_and_colliders(dag), []).append(dag)
    assert len(classes) == 185  # Markov equivalence classes on four nodes (Gillispie & Perlman 2002)
    found = set()
    for members in classes.values():
        (cpdag,) = {dag.cpdag() for dag in members}
        shared = set.intersection(*(set(dag.edges) for dag in members))
        assert cpdag.directed == shared
        assert {frozenset(e) for e in cpdag.undirected} == {frozenset(e) for e in members[0].edges if e not in shared}
        found.add(cpdag)
    assert len(found) == 185
    assert all(isinstance(cpdag, Cpdag) for cpdag in found)


def test_a_dag_cannot_be_changed():
    dag = Dag.from_edges([("a", "b")])
    with pytest.raises(AttributeError, match="immutable"):
        dag.names = ("x", "y")
    with pytest.raises(ValueError, match="read-only"):
        dag.rows[0, 0] = 0
    adjacency = dag.adjacency
    adjacency[:] = False
    assert dag.has_edge("a", "b")


def test_the_matrix_that_was_given_is_not_kept():
    matrix = np.array([[0, 1], [0, 0]])
    dag = Dag(matrix)
    matrix[:] = 0
    assert dag.edges == (("X0", "X1"),)


def test_repr_is_short():
    assert repr(Dag(np.zeros((2, 2)))) == "Dag(2 nodes: no edges)"
    star = Dag.from_edges([("hub", f"n{i}") for i in range(12)])
    assert repr(star).endswith("hub -> n7, ... 4 more)")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dag([[0, 1, 0]]), "adjacency has shape (1, 3); it must be square, one row and column a node"),
        (lambda: Dag([[0, 2], [0, 0]]), "adjacency has entries other than 0 and 1; entry [i, j] says whether i -> j"),
        (lambda: Dag([[1]]), "adjacency has the cycle X0 -> X0; remove one of its edges"),
        (
            lambda: Dag.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("z", "a")]),
            "adjacency has the cycle a -> b -> c -> a; remove one of its edges",
        ),
        (lambda: Dag([[0]], ["a", "b"]), "names has 2 entries but adjacency has 1 nodes; give one name a node"),
        (lambda: Dag(np.zeros((2, 2)), ["a", "a"]), "names has 'a' more than once; every node needs a name of its own"),
        (
            lambda: Dag.from_edges([("a", "b", "c")]),
            "edges contains ('a', 'b', 'c'); an edge is a pair (parent, child)",
        ),
        (lambda: Dag.from_edges(["ab"]), "edges contains 'ab'; an edge is a pair (parent, child)"),
        (
            lambda: Dag.from_edges([("a", "q")], nodes=["a", "b"]),
            "edges contains the unknown node 'q'; the nodes are 'a', 'b'",
        ),
        (
            lambda: Dag.from_edges([("a", "b")]).parents("c"),
            "node 'c' is not in the graph; its nodes are 'a', 'b'",
        ),
        (lambda: Dag([[0]]).children(1), "node 1 is not in the graph; positions run from 0 to 0"),
        (lambda: Dag([[0]]).children(-1), "node -1 is not in the graph; positions run from 0 to 0"),
    ],
)
def test_bad_values_are_refused(make, message):
    with pytest.raises(ArgumentError) as refused:
        make()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dag([[0]], "a"), "names is the text 'a'; give one name for each node, in a list"),
        (lambda: Dag.from_parents({"a": "bc"}), "parents['a'] is the text 'bc'; give a list of names: ['bc']"),
    ],
)
def test_bad_types_are_refused(make, message):
    with pytest.raises(ArgumentTypeError) as refused:
        make()
    assert str(refused.value) == message
