"""Hard knowledge: its forms and contradictions, cycles found, starts and samplers that obey it."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import Dag
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure import Cycle, MarkovBlanket, SingleEdge
from doxa.structure.families.cache import FamilyScores
from doxa.structure.graph import candidate_kind, working_graph
from doxa.structure.limits import capped, find_cycle, forbid_more, is_legal_family, make_limits, may_add
from doxa.structure.moves.by_name import MOVES
from doxa.structure.moves.starts import dense_dag, greedy_graph, random_dag, smallest_graph
from support.tables import skewed_table

NAMES = ("age", "smokes", "heart", "lungs")
KNOWN = {
    "required": [("x1", "x3"), ("x4", "x3")],
    "forbidden": [("x2", "x1"), ("x4", "x1")],
    "tiers": [["x0", "x1"], ["x2", "x3"]],
    "max_parents": {"x3": 2, "x2": 1, "x1": 1},
}


# --- forms ---------------------------------------------------------------------------------------------------------


def test_without_demands_every_family_is_possible():
    limits = make_limits(NAMES)
    assert limits.only_caps
    assert limits.max_parents.tolist() == [3, 3, 3, 3]
    assert np.array_equal(limits.allowed_edges, ~np.eye(4, dtype=bool))
    for one, two in zip(limits, capped([9, 9, 9, 9]), strict=True):
        assert np.array_equal(one, two)


def test_required_and_forbidden_edges_are_edges_of_the_matrices():
    limits = make_limits(NAMES, required=[("age", "heart"), ["smokes", "heart"]], forbidden=iter([("heart", "age")]))
    assert np.argwhere(limits.required_edges).tolist() == [[0, 2], [1, 2]]
    assert np.argwhere(~limits.allowed_edges).tolist() == [[0, 0], [1, 1], [2, 0], [2, 2], [3, 3]]
    assert not limits.only_caps
    assert not make_limits(NAMES, forbidden=[("age", "heart")]).only_caps


def test_tiers_forbid_edges_backwards_and_leave_the_others_free():
    limits = make_limits(NAMES, tiers=[("age",), (), {"heart", "lungs"}])
    backwards = {(2, 0), (3, 0)}  # smokes is in no tier
    assert {(i, j) for i, j in np.argwhere(~limits.allowed_edges).tolist() if i != j} == backwards


@pytest.mark.parametrize(
    ("max_parents", "caps"),
    [(0, [0] * 4), (2, [2] * 4), (99, [3] * 4), ({"heart": 1}, [3, 3, 1, 3]), ({}, [3] * 4), (np.int64(1), [1] * 4)],
)
def test_caps_are_of_all_nodes_or_of_those_named(max_parents, caps):
    assert make_limits(NAMES, max_parents=max_parents).max_parents.tolist() == caps


def test_more_edges_are_forbidden_but_for_those_that_are_required():
    limits = make_limits(["x0", "x1", "x2", "x3", "x4"], **KNOWN)
    more = forbid_more(limits, ["x0", "x1", "x2", "x3", "x4"], [("x1", "x3"), ("x3", "x1"), ("x0", "x4"), ("x2", "x1")])
    gone = np.argwhere(limits.allowed_edges & ~more.allowed_edges).tolist()
    assert gone == [[0, 4]]  # x3 -> x1 and x2 -> x1 were forbidden before, x1 -> x3 is required
    assert np.array_equal(more.required, limits.required)
    assert np.array_equal(more.max_parents, limits.max_parents)


def test_parents_have_at_most_so_many_configurations():
    limits = make_limits(NAMES, n_states=[2, 3, 2, 4], max_configurations=6)
    assert not limits.only_caps
    legal = [{parents for parents in subsets_of(4, child) if is_legal(limits, child, parents)} for child in range(4)]
    assert legal[0] == {(), (1,), (2,), (3,), (1, 2)}
    assert legal[1] == {(), (0,), (2,), (3,), (0, 2)}
    assert legal[3] == {(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)}
    assert limits.most_parents.tolist() == [2, 2, 2, 2]
    assert make_limits(NAMES, n_states=[2, 3, 2, 4], max_configurations=1).most_parents.tolist() == [0] * 4
    assert make_limits(NAMES, n_states=[2, 3, 2, 4], max_configurations=10**9).most_parents.tolist() == [3] * 4
    assert make_limits(NAMES, max_parents=1, n_states=[2] * 4, max_configurations=8).most_parents.tolist() == [1] * 4
    more = forbid_more(limits, NAMES, [("smokes", "age")])
    assert np.array_equal(more.max_log_configs, limits.max_log_configs)
    assert np.array_equal(more.log_states, limits.log_states)
    assert more.most_parents.tolist() == [1, 2, 2, 2]


def test_required_parents_are_allowed_whatever_their_configurations():
    required = [("smokes", "heart"), ("lungs", "heart")]
    limits = make_limits(NAMES, required=required, n_states=[2, 3, 2, 4], max_configurations=6)
    assert [parents for parents in subsets_of(4, 2) if is_legal(limits, 2, parents)] == [(1, 3)]
    assert limits.most_parents.tolist() == [2, 2, 2, 2]
    single = make_limits(NAMES, required=required, n_states=[1, 3, 2, 4], max_configurations=6)
    assert [parents for parents in subsets_of(4, 2) if is_legal(single, 2, parents)] == [(1, 3), (0, 1, 3)]


@pytest.mark.parametrize("n", [2, 5, 9])
def test_the_most_parents_are_those_of_some_legal_family(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        names = [f"v{i}" for i in range(n)]
        required = [("v0", "v1")] if rng.random() < 0.5 else []
        n_states, most = rng.integers(1, 6, size=n), int(rng.integers(1, 40))
        caps = {"v1": int(rng.integers(1, n))}
        limits = make_limits(names, required=required, max_parents=caps, n_states=n_states, max_configurations=most)
        found = [max(len(p) for p in subsets_of(n, child) if is_legal(limits, child, p)) for child in range(n)]
        assert limits.most_parents.tolist() == found


def subsets_of(n, child):
    others = [node for node in range(n) if node != child]
    return [parents for size in range(n) for parents in combinations(others, size)]


def is_legal(limits, child, parents):
    members = np.zeros(len(limits.max_parents), dtype=bool)
    members[list(parents)] = True
    return is_legal_family(limits, child, pack_rows(members))


def test_many_nodes_take_several_words():
    names = [f"v{i}" for i in range(130)]
    limits = make_limits(names, required=[("v129", "v0"), ("v64", "v0")], forbidden=[("v0", "v129")])
    assert limits.allowed.shape == (130, 3)
    assert np.argwhere(limits.required_edges).tolist() == [[64, 0], [129, 0]]
    assert not limits.allowed_edges[0, 129]


A_CYCLE = [("age", "smokes"), ("smokes", "heart"), ("heart", "age"), ("age", "lungs")]
UNKNOWN = "which is not a column of the table; there are 'age', 'smokes', 'heart', 'lungs'"
TIERS = "tiers is a list of lists of names, such as [['age', 'sex'], ['smokes']]"


@pytest.mark.parametrize(
    ("demands", "error", "message"),
    [
        (
            {"required": [("age", "heart")], "forbidden": [("age", "heart")]},
            ArgumentError,
            "the edge 'age' -> 'heart' is required and forbidden at once; take one of the two away",
        ),
        (
            {"required": [("heart", "age")], "tiers": [["age"], ["heart"]]},
            ArgumentError,
            "the edge 'heart' -> 'age' is required, but it leads from a later tier to an earlier one; change tiers or "
            "required",
        ),
        (
            {"required": [("age", "heart"), ("lungs", "heart")], "max_parents": 1},
            ArgumentError,
            "'heart' has 2 required parents ('age', 'lungs'), but max_parents allows it 1; raise max_parents or take "
            "edges out of required",
        ),
        (
            {"required": [("age", "heart")], "max_parents": {"heart": 0}},
            ArgumentError,
            "'heart' has 1 required parents ('age'), but max_parents allows it 0; raise max_parents or take edges out "
            "of required",
        ),
        (
            {"required": A_CYCLE},
            ArgumentError,
            "the required edges form a cycle: 'age' -> 'smokes' -> 'heart' -> 'age'; a graph has none, so take one of "
            "them away",
        ),
        (
            {"required": [("age", "smokes"), ("smokes", "age")]},
            ArgumentError,
            "the required edges form a cycle: 'age' -> 'smokes' -> 'age'; a graph has none, so take one of them away",
        ),
        ({"required": [("age", "hart")]}, ArgumentError, f"required names 'hart', {UNKNOWN}"),
        ({"forbidden": [(0, "age")]}, ArgumentError, f"forbidden names 0, {UNKNOWN}"),
        ({"tiers": [["age"], ["hart"]]}, ArgumentError, f"tiers names 'hart', {UNKNOWN}"),
        ({"max_parents": {"hart": 1}}, ArgumentError, f"max_parents names 'hart', {UNKNOWN}"),
        (
            {"forbidden": [("age", "age")]},
            ArgumentError,
            "forbidden names the edge 'age' -> 'age'; an edge joins different nodes",
        ),
        ({"tiers": [["age"], ["heart", "age"]]}, ArgumentError, "tiers names 'age' twice; a node is in one tier"),
        ({"max_parents": -1}, ArgumentError, "max_parents is -1; it must be at least 0"),
        ({"max_parents": {"heart": -1}}, ArgumentError, "max_parents['heart'] is -1; it must be at least 0"),
        ({"max_parents": 1.5}, ArgumentTypeError, "max_parents is 1.5; it must be a whole number of at least 0"),
        (
            {"max_parents": {"heart": True}},
            ArgumentTypeError,
            "max_parents['heart'] is True; it must be a whole number of at least 0",
        ),
        (
            {"required": "age,heart"},
            ArgumentTypeError,
            "required is 'age,heart'; required holds pairs of names (source, target): required=[('a', 'b')]",
        ),
        (
            {"forbidden": {"age": "heart"}},
            ArgumentTypeError,
            "forbidden is {'age': 'heart'}; forbidden holds pairs of names (source, target): forbidden=[('a', 'b')]",
        ),
        (
            {"required": None},
            ArgumentTypeError,
            "required is None; required holds pairs of names (source, target): required=[('a', 'b')]",
        ),
        (
            {"required": ("age", "heart")},
            ArgumentTypeError,
            "required holds 'age'; required holds pairs of names (source, target)",
        ),
        (
            {"required": [("age", "smokes", "heart")]},
            ArgumentTypeError,
            "required holds ('age', 'smokes', 'heart'); required holds pairs of names (source, target)",
        ),
        ({"tiers": "age"}, ArgumentTypeError, f"tiers is 'age'; {TIERS}"),
        ({"tiers": {"age": 1}}, ArgumentTypeError, f"tiers is {{'age': 1}}; {TIERS}"),
        ({"tiers": ["age", "heart"]}, ArgumentTypeError, f"tiers holds 'age'; {TIERS}"),
        ({"tiers": [1]}, ArgumentTypeError, f"tiers holds 1; {TIERS}"),
        (
            {"max_configurations": 4},
            ArgumentError,
            "max_configurations is 4, but n_states is not given; give both",
        ),
        (
            {"max_configurations": 0, "n_states": [2] * 4},
            ArgumentError,
            "max_configurations is 0; it must be at least 1",
        ),
    ],
)  # fmt: skip
def test_contradictions_and_bad_forms_are_refused_by_name(demands, error, message):
    with pytest.raises(error) as refused:
        make_limits(NAMES, **demands)
    assert str(refused.value) == message


def test_only_some_of_many_names_are_listed():
    with pytest.raises(ArgumentError) as refused:
        make_limits([f"v{i}" for i in range(25)], forbidden=[("v1", "w")])
    assert str(refused.value).endswith("'v18', 'v19' and 5 more")


# --- families and cycles ---------------------------------------------------------------------------------------------


@given(st.integers(1, 8), st.floats(0, 0.7), st.integers(0, 2**32 - 1))
@settings(max_examples=300, deadline=None)
def test_a_cycle_is_found_where_there_is_one_and_is_one(n, density, seed):
    edges = np.random.default_rng(seed).random((n, n)) < density
    np.fill_diagonal(edges, False)
    cycle = find_cycle(edges)
    walks = np.linalg.matrix_power(edges.astype(float) + np.eye(n), n) * edges.T  # back from where an edge leads
    assert bool(cycle) == bool(walks.any())
    if cycle:
        assert len(set(cycle)) == len(cycle) > 1
        assert all(edges[i, j] for i, j in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        assert cycle[0] == min(cycle)


@pytest.mark.parametrize("with_configurations", [False, True])
def test_families_are_legal_as_their_plain_twin_says(with_configurations):
    rng = np.random.default_rng(1)
    answers = []
    for n in (4, 70):
        for _ in range(300):
            child = int(rng.integers(n))
            allowed = rng.random(n) < 0.8
            allowed[child] = False
            required = allowed & (rng.random(n) < 1.5 / n)
            parents = required | (rng.random(n) < 2 / n)
            cap = int(rng.integers(0, 5))
            n_states, most = rng.integers(1, 5, size=n), np.inf
            if with_configurations:
                most = int(rng.integers(1, 20))
                names = [f"v{i}" for i in range(n)]
                limits = make_limits(names, max_parents=cap, n_states=n_states, max_configurations=most)
            else:
                limits = capped(np.full(n, cap))
            limits.allowed[child], limits.required[child] = pack_rows(allowed), pack_rows(required)
            if rng.random() < 0.3 and required.any():
                parents[np.flatnonzero(required)[0]] = False
            plain = set(np.flatnonzero(parents))
            right = (
                plain <= set(np.flatnonzero(allowed)) and set(np.flatnonzero(required)) <= plain and len(plain) <= cap
            )
            right = right and math.prod(n_states[parents].tolist()) <= most
            assert is_legal_family(limits, child, pack_rows(parents)) == right
            answers.append(right)
            if right:
                rows = np.zeros((n, limits.allowed.shape[1]), dtype=np.uint64)
                rows[child] = pack_rows(parents)
                other = int(rng.choice(np.flatnonzero(~parents)))
                more = math.prod(n_states[parents].tolist()) * n_states[other]
                fits = bool(allowed[other] and len(plain) < cap and more <= most)
                assert may_add(limits, rows, child, other) == fits
    assert 0.1 < np.mean(answers) < 0.9


# --- starts ----------------------------------------------------------------------------------------------------------


def obeys(adjacency, limits):
    return bool(
        (adjacency <= limits.allowed_edges).all()
        and (limits.required_edges <= adjacency).all()
        and (adjacency.sum(axis=0) <= limits.max_parents).all()
        and (limits.log_states @ adjacency <= limits.max_log_configs).all()
    )


@st.composite
def some_limits(draw):
    """Limits that agree with each other: required edges lead forward in a hidden order."""
    n = draw(st.integers(2, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    order = rng.permutation(n)
    names = [f"x{i}" for i in range(n)]
    forward = [(names[order[a]], names[order[b]]) for a in range(n) for b in range(a + 1, n)]
    required = [edge for edge in forward if rng.random() < 1 / n]
    backward = [edge[::-1] for edge in forward]
    forbidden = [edge for edge in (*forward, *backward) if edge not in required and rng.random() < 0.2]
    parents = {name: sum(target == name for _, target in required) for name in names}
    caps = {name: count + int(rng.integers(0, 3)) for name, count in parents.items() if rng.random() < 0.5}
    cut = int(rng.integers(0, n + 1))
    tiers = [[names[i] for i in order[:cut]], [names[i] for i in order[cut:]]] if rng.random() < 0.5 else None
    some = {}
    if rng.random() < 0.5:
        some = {"n_states": rng.integers(1, 5, size=n), "max_configurations": int(rng.integers(1, 30))}
    return make_limits(names, required=required, forbidden=forbidden, max_parents=caps, tiers=tiers, **some)


@given(some_limits(), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_starts_obey_the_limits(limits, seed):
    n = len(limits.max_parents)
    smallest = unpack_rows(smallest_graph(limits), n)
    assert np.array_equal(smallest, limits.required_edges)
    rng = np.random.default_rng(seed)
    drawn = [draw(rng, limits) for draw in (random_dag, dense_dag) for _ in range(5)]
    for adjacency in (smallest, *drawn):
        assert obeys(adjacency, limits)
        Dag(adjacency)  # raises on a cycle


@given(some_limits(), st.integers(0, 50))
@settings(max_examples=40, deadline=None)
def test_no_single_change_improves_the_greedy_graph(limits, seed):
    n = len(limits.max_parents)
    scores = FamilyScores(skewed_table(n, 60, seed=seed, n_states=3))
    rows = greedy_graph(scores, limits)
    adjacency = unpack_rows(rows, n)
    assert obeys(adjacency, limits)

    def total(graph):
        return sum(
            scores.log_score(scores.names[j], tuple(scores.names[i] for i in np.flatnonzero(graph[:, j])))
            for j in range(n)
        )

    best = total(adjacency)
    graph = working_graph(rows)
    changes = 0
    for i, j in np.argwhere(~np.eye(n, dtype=bool)).tolist():
        after = adjacency.copy()
        after[i, j] = not adjacency[i, j]
        after[j, i] = False
        legal = obeys(after, limits) and not find_cycle(after)
        assert bool(candidate_kind(graph, limits, i, j)) == legal
        if legal:
            changes += 1
            assert total(after) <= best + 1e-8
    assert changes > 0 or n == 2 or not limits.only_caps


def test_the_greedy_graph_improves_on_the_smallest():
    scores = FamilyScores(skewed_table(6, 200, seed=1))
    assert greedy_graph(scores, capped([5] * 6)).any()


def test_random_starts_use_the_room_that_limits_leave():
    limits = make_limits([f"x{i}" for i in range(5)], **{**KNOWN, "max_parents": {"x3": 4, "x2": 1, "x1": 1}})
    rng = np.random.default_rng(0)
    seen = np.mean([random_dag(rng, limits) for _ in range(2000)], axis=0)
    assert np.array_equal(seen > 0, limits.allowed_edges & ~limits.required_edges.T)
    assert np.array_equal(seen == 1, limits.required_edges)


# --- learning --------------------------------------------------------------------------------------------------------


SAMPLERS = [
    *(name for name in MOVES if name not in ("cycle", "exact")),
    MarkovBlanket(published=True),
    Cycle([(MarkovBlanket(), 50), (SingleEdge(), 50)]),
]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_no_draw_of_any_sampler_breaks_the_limits(sampler):
    table = skewed_table(5, 60, seed=3, n_states=3)
    options = {"sampler": sampler, "prior": "uniform", "draws": 150, "warmup": 0, "thin": 3, "seed": 1}
    posterior = doxa.learn(table, **options, **KNOWN)
    limits = posterior.options.limits
    draws = unpack_rows(posterior.trace["rows"].reshape(-1, 5, 1), 5)
    assert all(obeys(adjacency, limits) for adjacency in np.unique(draws, axis=0))
    if sampler != "edge_reversal":  # alone, it joins and parts no nodes
        assert len(np.unique(draws, axis=0)) > 10
    assert np.array_equal(limits.required_edges, make_limits(table.names, **KNOWN).required_edges)
    assert posterior.edge("x1", "x3").value == 1.0
    assert posterior.edge("x2", "x0").value == 0.0
    free = doxa.learn(table, **options)
    drawn = unpack_rows(free.trace["rows"].reshape(-1, 5, 1), 5)
    assert not all(obeys(adjacency, limits) for adjacency in drawn)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_no_draw_of_any_sampler_has_more_configurations_than_rows(sampler):
    table = skewed_table(5, 4, seed=6, n_states=3)
    options = {"sampler": sampler, "draws": 150, "warmup": 0, "thin": 3, "seed": 1}
    posterior = doxa.learn(table, **options)
    assert posterior.options.max_configurations == 4
    limits = make_limits(table.names, n_states=table.n_states, max_configurations=4)
    drawn = np.unique(unpack_rows(posterior.trace["rows"].reshape(-1, 5, 1), 5), axis=0)
    assert all(obeys(adjacency, limits) for adjacency in drawn)
    if sampler != "edge_reversal":
        assert len(drawn) > 10
    free = doxa.learn(table, prior="uniform", **options)
    drawn = unpack_rows(free.trace["rows"].reshape(-1, 5, 1), 5)
    assert not all(obeys(adjacency, limits) for adjacency in drawn)


def test_learning_refuses_contradictions_before_it_samples():
    with pytest.raises(ArgumentError, match="the edge 'x0' -> 'x1' is required and forbidden at once"):
        doxa.learn(skewed_table(3, 10, seed=0), required=[("x0", "x1")], forbidden=[("x0", "x1")])
