"""The working graph of compiled loops: closures kept in step, candidates judged rightly, any number of words."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.models import Dag
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.graph import (
    ADD,
    DELETE,
    ILLEGAL,
    REVERSE,
    apply_change,
    candidate_kind,
    reach,
    rebuild,
    replace_parents,
    reverse_covered,
    working_graph,
)
from doxa.structure.limits import capped, make_limits
from doxa.structure.moves.auto import _kind
from doxa.structure.moves.changes import edge_number
from doxa.structure.moves.covered_arcs import _find_covered, _refresh_covered
from doxa.structure.moves.starts import random_dag

NAMES = ("parents", "children", "ancestors", "descendants")


def assert_in_step(graph):
    fresh = working_graph(graph[1])
    for name, kept, right in zip(NAMES, graph, fresh, strict=False):
        assert np.array_equal(kept, right), name


def plain_closure(adjacency):
    """NumPy twin of the compiled closure."""
    reached = adjacency.copy()
    for _ in range(len(adjacency).bit_length()):  # twice as far each time
        reached = reached | ((reached.astype(float) @ reached.astype(float)) > 0)
    return reached


@pytest.mark.parametrize("n", [1, 2, 5, 64, 65, 130])
def test_rebuild_agrees_with_its_plain_twin(n):
    rng = np.random.default_rng(n)
    adjacency = random_dag(rng, capped(np.full(n, n)))
    parents, children, ancestors, descendants, _ = working_graph(pack_rows(adjacency))
    closure = plain_closure(adjacency)
    for words, matrix in (
        (parents, adjacency.T),
        (children, adjacency),
        (ancestors, closure.T),
        (descendants, closure),
    ):
        assert np.array_equal(unpack_rows(words, n), matrix)


@pytest.mark.parametrize(("n", "steps"), [(3, 300), (6, 600), (20, 600), (70, 300)])
def test_random_changes_keep_the_closures_in_step(n, steps):
    rng = np.random.default_rng(10 + n)
    limits = capped(np.full(n, n - 1))
    graph = working_graph(np.zeros((n, (n + 63) // 64), dtype=np.uint64))
    seen = dict.fromkeys((ILLEGAL, ADD, DELETE, REVERSE), 0)
    for _ in range(steps):
        i, j = rng.choice(n, size=2, replace=False)
        kind = candidate_kind(graph, limits, i, j)
        seen[kind] += 1
        if kind == ILLEGAL or (kind == DELETE and rng.random() < 0.7):
            continue
        apply_change(graph, kind, i, j)
        assert_in_step(graph)
    assert min(seen.values()) > 0


@pytest.mark.parametrize("n", [3, 4])
def test_candidates_are_legal_exactly_when_the_result_is_acyclic_and_within_the_caps(n):
    rng = np.random.default_rng(0)
    for _ in range(60):
        caps = rng.integers(0, n, size=n)
        limits = capped(caps)
        adjacency = random_dag(rng, capped(np.full(n, n)))
        graph = working_graph(pack_rows(adjacency))
        for i in range(n):
            for j in range(n):
                if i == j:
                    continue
                after = adjacency.copy()
                if adjacency[i, j]:
                    after[i, j], expected = False, DELETE
                elif adjacency[j, i]:
                    after[j, i], after[i, j], expected = False, True, REVERSE
                else:
                    after[i, j], expected = True, ADD
                cyclic = bool(np.trace(plain_closure(after)))
                too_many = expected != DELETE and adjacency[:, j].sum() >= caps[j]
                assert candidate_kind(graph, limits, i, j) == (ILLEGAL if cyclic or too_many else expected)


@pytest.mark.parametrize("n", [3, 8, 64, 70, 130])
def test_replaced_parents_and_what_is_reached_without_parents_agree_with_plain_twins(n):
    rng = np.random.default_rng(n)
    words = (n + 63) // 64
    for _ in range(20):
        adjacency = random_dag(rng, capped(np.full(n, n - 1)))
        graph = working_graph(pack_rows(adjacency))
        i, j = rng.choice(n, size=2, replace=False)
        bare = adjacency.copy()
        bare[:, [i, j]] = False
        closure = plain_closure(bare)
        for source in (i, j):
            reached = np.full(words, 2**64 - 1, dtype=np.uint64)  # what was there before is overwritten
            reach(graph[1], source, i, j, reached)
            assert np.array_equal(unpack_rows(reached, n), closure[source])
        parents = (rng.random(n) < 2 / n) & ~closure[i]  # closes no cycle
        parents[i] = False
        bare = adjacency.copy()
        bare[:, i] = parents & ~plain_closure(np.where(np.arange(n) == i, False, adjacency))[i]
        replace_parents(graph, i, pack_rows(bare[:, i]))
        rebuild(graph)
        assert np.array_equal(unpack_rows(graph[1], n), bare)
        assert_in_step(graph)


@pytest.mark.parametrize("n", [4, 66])
def test_candidates_are_judged_alike_with_and_without_closures(n):
    rng = np.random.default_rng(n)
    names = [f"x{i}" for i in range(n)]
    limits = make_limits(
        names, required=[("x1", "x3")], forbidden=[("x3", "x2")], tiers=[["x0", "x1"], ["x2"]], max_parents={"x2": 1}
    )
    seen = dict.fromkeys((ILLEGAL, ADD, DELETE, REVERSE), 0)
    below = np.zeros((n + 63) // 64, dtype=np.uint64)
    for _ in range(40):
        graph = working_graph(pack_rows(random_dag(rng, limits)))
        before = graph[1].copy()
        for _ in range(60):
            i, j = rng.choice(n, size=2, replace=False)
            kind = candidate_kind(graph, limits, i, j)
            assert _kind(graph, limits, i, j, below) == kind
            seen[kind] += 1
        assert np.array_equal(graph[1], before)
    assert min(seen.values()) > 0


def test_edges_are_numbered_by_parent_then_child():
    adjacency = random_dag(np.random.default_rng(3), capped(np.full(130, 9)))
    rows = pack_rows(adjacency)
    edges = np.argwhere(adjacency).tolist()
    assert [list(edge_number(rows, rank)) for rank in range(len(edges))] == edges
    assert edge_number(rows, len(edges)) == (-1, -1)


@pytest.mark.parametrize("n", [4, 9, 70])
def test_reversing_covered_arcs_keeps_closures_and_covered_arcs_in_step(n):
    rng = np.random.default_rng(n)
    limits = capped(np.full(n, n - 1))
    reversed_arcs = 0
    for _ in range(12):
        adjacency = random_dag(rng, limits)
        graph = working_graph(pack_rows(adjacency))
        covered = np.zeros_like(graph[0])
        n_covered = _find_covered(graph[0], covered, limits)
        for _ in range(15):
            names = tuple(f"x{k}" for k in range(n))
            arcs = Dag.from_rows(graph[1], names).covered_arcs()
            assert len(arcs) == n_covered
            assert {(names.index(a), names.index(b)) for a, b in arcs} == {
                (int(i), int(j)) for j, i in np.argwhere(unpack_rows(covered, n))
            }
            if not arcs:
                break
            parent, child = arcs[rng.integers(len(arcs))]
            i, j = names.index(parent), names.index(child)
            reverse_covered(graph, i, j)
            n_covered += _refresh_covered(graph[0], graph[1], covered, limits, i, j)
            assert_in_step(graph)
            reversed_arcs += 1
    assert reversed_arcs > 30


def test_random_starts_are_acyclic_obey_caps_and_differ_in_density():
    rng = np.random.default_rng(5)
    caps = np.array([0, 1, 2, 3] * 5)
    limits = capped(caps)
    edges = []
    for _ in range(200):
        adjacency = random_dag(rng, limits)
        Dag(adjacency)  # raises on a cycle
        assert (adjacency.sum(axis=0) <= caps).all()
        edges.append(adjacency.sum())
    assert min(edges) <= 3
    assert max(edges) >= 20
