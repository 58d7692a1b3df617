"""Features of sampled graphs: the compiled reading of graphs against `Dag`, the numbers against exact sums."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import Dag
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.exact.enumeration import all_dags
from doxa.structure.posterior.relations import (
    bit_totals,
    blanket_rows,
    class_rows,
    count_differing_pairs,
    descendant_rows,
    label_rows,
    sum_over_bits,
)
from support.checks import SEED, worst_z, z_limit
from support.posteriors import independent_draws, posterior_of_dags

NAMES = ("x0", "x1", "x2", "x3")


@pytest.fixture(scope="module")
def posterior(exact):
    return independent_draws(exact, seed=SEED, n_draws=5000)


# --- the compiled reading of graphs --------------------------------------------------------------------------------


@st.composite
def random_dags(draw, most_nodes=9):
    n = draw(st.integers(1, most_nodes))
    upper = np.array(draw(st.lists(st.booleans(), min_size=n * n, max_size=n * n))).reshape(n, n)
    order = draw(st.permutations(range(n)))
    return Dag(np.triu(upper, 1)[np.ix_(order, order)])


def large_dags():
    """Graphs of two words a row, sparse and dense."""
    rng = np.random.default_rng(SEED)
    for n, density in product((64, 65, 90), (0.02, 0.1, 0.5)):
        order = rng.permutation(n)
        yield Dag(np.triu(rng.random((n, n)) < density, 1)[np.ix_(order, order)])


def assert_classes_are_those_of_the_dag(dag):
    directed, undirected = (unpack_rows(part[0], dag.n_nodes) for part in class_rows(dag.rows[None]))
    cpdag = dag.cpdag()
    assert {(dag.names[i], dag.names[j]) for i, j in np.argwhere(directed)} == cpdag.directed
    assert {(dag.names[i], dag.names[j]) for i, j in np.argwhere(np.triu(undirected))} == cpdag.undirected
    assert np.array_equal(undirected, undirected.T)


@settings(max_examples=300, deadline=None)
@given(random_dags())
def test_classes_are_those_of_the_dag(dag):
    assert_classes_are_those_of_the_dag(dag)


def test_classes_of_large_graphs_and_of_all_small_ones():
    for dag in large_dags():
        assert_classes_are_those_of_the_dag(dag)
    for rows in all_dags(4):
        assert_classes_are_those_of_the_dag(Dag.from_rows(rows, NAMES))
    assert len(label_rows(np.stack(class_rows(all_dags(4)), axis=1))[0]) == 185  # classes on 4 nodes (Gillispie 2001)


def assert_relations_are_those_of_the_dag(dag):
    below, blanket = (unpack_rows(f(dag.rows[None])[0], dag.n_nodes) for f in (descendant_rows, blanket_rows))
    for i, node in enumerate(dag.names):
        assert tuple(dag.names[j] for j in np.flatnonzero(below[i])) == dag.descendants(node)
        assert tuple(dag.names[j] for j in np.flatnonzero(below[:, i])) == dag.ancestors(node)
        assert tuple(dag.names[j] for j in np.flatnonzero(blanket[i])) == dag.markov_blanket(node)


@settings(max_examples=200, deadline=None)
@given(random_dags())
def test_descendants_and_blankets_are_those_of_the_dag(dag):
    assert_relations_are_those_of_the_dag(dag)


def test_descendants_and_blankets_of_large_graphs():
    for dag in large_dags():
        assert_relations_are_those_of_the_dag(dag)


def test_kernels_agree_with_their_plain_twins():
    rng = np.random.default_rng(SEED)
    for n in (1, 3, 64, 90):
        adjacency = (rng.random((7, n, n)) < 0.2) & ~np.eye(n, dtype=np.bool_)
        rows, one = pack_rows(adjacency), pack_rows(adjacency[0])
        before = rows.copy()
        weights, values = rng.integers(0, 9, 7), rng.normal(size=(n, n))
        assert np.array_equal(bit_totals(rows, weights), np.einsum("g,gij->ij", weights, adjacency))
        np.testing.assert_allclose(sum_over_bits(rows, values), (adjacency * values).sum(axis=(1, 2)), atol=1e-9)
        differs = adjacency ^ adjacency[0]
        pairs = np.triu(differs | differs.transpose(0, 2, 1)).sum(axis=(1, 2))
        assert np.array_equal(count_differing_pairs(rows, one), pairs)
        first, label = label_rows(rows[[2, 0, 2, 5 % 7, 0]])
        assert label[0] == label[2] == 0
        assert label[1] == label[4]
        assert first[0] == 0
        assert np.array_equal(rows, before)


def test_a_cycle_is_refused():
    rows = pack_rows(np.array([[[False, True], [False, False]], [[False, True], [True, False]]]))
    for f in (descendant_rows, class_rows):
        with pytest.raises(ArgumentError, match=r"rows\[1\] has a cycle; every graph must be acyclic"):
            f(rows)


# --- the numbers ---------------------------------------------------------------------------------------------------


def probabilities(exact, dags, holds):
    """Exact probability that ``holds(dag, a, b)`` for every ordered pair of nodes."""
    return {
        (a, b): sum(p for p, dag in zip(exact.probability, dags, strict=True) if holds(dag, a, b))
        for a in NAMES
        for b in NAMES
        if a != b
    }


def farthest(frame, columns, truth, n):
    """Largest deviation of independent draws from the truth in its own standard errors, and how many were compared."""
    found = {tuple(row[c] for c in columns): row["probability"] for _, row in frame.iterrows()}
    assert found.keys() == truth.keys()
    p = np.array([truth[key] for key in found])
    usable = n * p * (1 - p) >= 30
    assert usable.sum() >= 5
    p, seen = p[usable], np.array(list(found.values()))[usable]
    return worst_z(seen, p, np.sqrt(p * (1 - p) / n)), int(usable.sum())


def assert_judged_together(row, alone):
    """A row of a table has the frequency of that quantity alone, and an error that is judged among the other rows."""
    assert row.probability == pytest.approx(alone.value)
    assert row.mcse <= alone.mcse * (1 + 1e-9)
    assert row.mcse**2 * row.ess == pytest.approx(alone.mcse**2 * alone.ess)


RELATIONS = {
    "ancestors": (("ancestor", "descendant"), lambda dag, a, b: a in dag.ancestors(b)),
    "markov_blankets": (("node", "member"), lambda dag, a, b: b in dag.markov_blanket(a)),
}


@pytest.mark.parametrize("method", RELATIONS)
def test_relations_have_their_exact_probability(posterior, exact, dags, method):
    columns, holds = RELATIONS[method]
    frame = getattr(posterior, method)()
    assert list(frame.columns) == [*columns, "probability", "mcse", "ess", "r_hat"]
    assert frame["probability"].is_monotonic_decreasing
    assert (frame["mcse"] > 0).all()
    z, compared = farthest(frame, columns, probabilities(exact, dags, holds), posterior.n_edges.size)
    assert z < z_limit(compared)
    for row in frame.itertuples(index=False):  # and is the very frequency that `feature` finds
        assert_judged_together(row, posterior.feature(lambda dag, row=row: holds(dag, row[0], row[1])))
    # The same check refuses the edges themselves, which are some of the relations.
    z, compared = farthest(
        posterior.edges(), ("source", "target"), probabilities(exact, dags, holds), posterior.n_edges.size
    )
    assert z > z_limit(compared)


def class_truth(exact, dags):
    cpdags = [dag.cpdag() for dag in dags]
    truth = {}
    for i, a in enumerate(NAMES):
        for j, b in enumerate(NAMES):
            if i != j:
                truth[a, b, "directed"] = sum(
                    exact.probability[k] for k, c in enumerate(cpdags) if (a, b) in c.directed
                )
            if i < j:
                truth[a, b, "undirected"] = sum(
                    exact.probability[k] for k, c in enumerate(cpdags) if (a, b) in c.undirected
                )
    return truth


def test_edges_of_classes_have_their_exact_probability(posterior, exact, dags, monkeypatch):
    frame = posterior.cpdag_edges()
    assert list(frame.columns) == ["source", "target", "kind", "probability", "mcse", "ess", "r_hat"]
    assert frame["probability"].is_monotonic_decreasing
    truth, n = class_truth(exact, dags), posterior.n_edges.size
    z, compared = farthest(frame, ("source", "target", "kind"), truth, n)
    assert z < z_limit(compared)
    for row in posterior.adjacencies().itertuples():
        pair = frame[frame[["source", "target"]].isin([row.node_a, row.node_b]).all(axis=1)]
        assert len(pair) == 3
        assert pair["probability"].sum() == pytest.approx(row.probability, abs=1e-12)
    # The check refuses a labelling that takes every edge for compelled.
    monkeypatch.setattr(
        "doxa.structure.posterior.structure_posterior.class_rows", lambda rows, _targets: (rows, np.zeros_like(rows))
    )
    z, compared = farthest(posterior.cpdag_edges(), ("source", "target", "kind"), truth, n)
    assert z > z_limit(compared)


def test_parent_sets_have_their_exact_probability(posterior, exact, dags):
    for node in NAMES:
        frame = posterior.parent_sets(node, most=8)
        assert list(frame.columns) == ["parents", "probability", "mcse", "ess", "r_hat"]
        assert frame["probability"].is_monotonic_decreasing
        assert frame["probability"].sum() == pytest.approx(1.0)
        truth = {}
        for p, dag in zip(exact.probability, dags, strict=True):
            truth[dag.parents(node)] = truth.get(dag.parents(node), 0.0) + p
        n = posterior.n_edges.size
        seen = np.array(frame["probability"])
        p = np.array([truth[parents] for parents in frame["parents"]])
        usable = n * p * (1 - p) >= 30
        errors = np.sqrt(p * (1 - p) / n)
        assert worst_z(seen[usable], p[usable], errors[usable]) < z_limit(4 * 8)
        if node == "x3":  # the check refuses the sets in another order
            assert worst_z(seen[usable], np.roll(p[usable], 1), errors[usable]) > z_limit(4 * 8)
        for row in posterior.parent_sets(node, most=2).itertuples():
            same = posterior.feature(lambda dag, row=row, node=node: dag.parents(node) == row.parents)
            assert_judged_together(row, same)


def test_parent_sets_beyond_one_batch_are_all_there():
    """More sets than are diagnosed together, on nodes beyond the first word."""
    rng = np.random.default_rng(SEED)
    names = tuple(f"n{i}" for i in range(70))
    drawn = []
    for _ in range(200):
        adjacency = np.zeros((70, 70), dtype=np.bool_)
        adjacency[:, 66] = rng.random(70) < 0.1
        adjacency[66, 66] = False
        drawn.append(Dag(adjacency, names))
    posterior = posterior_of_dags([*drawn, *drawn[:1]])
    frame = posterior.parent_sets("n66", most=1000)
    assert set(frame["parents"]) == {dag.parents("n66") for dag in drawn}
    assert frame.loc[0, "parents"] == drawn[0].parents("n66")
    assert frame["probability"].sum() == pytest.approx(1.0)
    assert posterior.parent_sets("n0")["parents"].tolist() == [()]


def test_the_expected_number_of_edges(posterior, exact):
    truth = exact.edge_probabilities.sum()
    estimate = posterior.expected_edges
    assert estimate.value == pytest.approx(posterior.n_edges.mean())
    assert abs(estimate.value - truth) < z_limit(1) * estimate.mcse
    assert estimate == posterior.feature(lambda dag: dag.n_edges)


# --- the errors ----------------------------------------------------------------------------------------------------


def coverage(exact, truth, n_runs, stay):
    """Share of intervals of ancestor probabilities that hold the truth, by run: ours, and those of naive errors."""
    ours, naive = [], []
    for run in range(n_runs):
        posterior = independent_draws(exact, seed=10**6 * SEED + run, n_draws=200 * stay, stay=stay)
        frame = posterior.ancestors()
        p = np.array([truth[key] for key in zip(frame["ancestor"], frame["descendant"], strict=True)])
        usable = 800 * p * (1 - p) >= 30
        away = np.abs(frame["probability"] - p)[usable]
        ours.append((away <= 1.96 * frame["mcse"][usable]).mean())
        plain = np.sqrt(frame["probability"] * (1 - frame["probability"]) / posterior.n_edges.size)
        naive.append((away <= 1.96 * plain[usable]).mean())
    return np.array(ours), np.array(naive)


@pytest.mark.parametrize("stay", [1, 4])
def test_errors_cover_the_truth(exact, dags, stay):
    truth = probabilities(exact, dags, RELATIONS["ancestors"][1])
    ours, naive = coverage(exact, truth, 150, stay)
    error = ours.std() / np.sqrt(len(ours))
    assert 0.93 - 5 * error < ours.mean() < 0.97 + 5 * error
    if stay > 1:  # an error that takes the draws for independent fails the same check
        assert naive.mean() < 0.93 - 5 * naive.std() / np.sqrt(len(naive))


def test_what_no_draw_has_gets_a_bound():
    empty, edge = Dag.from_edges([], ["a", "b", "c"]), Dag.from_edges([("a", "b")], ["a", "b", "c"])
    rng = np.random.default_rng(SEED)
    posterior = posterior_of_dags([(empty, edge)[k] for k in rng.integers(0, 2, 400)])
    frame = posterior.ancestors().set_index(["ancestor", "descendant"])
    never = frame.loc[("c", "a")]
    assert never["probability"] == 0
    assert 0 < never["mcse"] < 0.05
    assert np.isnan(never["r_hat"])


# --- bad input -----------------------------------------------------------------------------------------------------


def test_unknown_nodes_and_numbers_are_refused(posterior):
    with pytest.raises(ArgumentError) as refused:
        posterior.parent_sets("cough")
    assert str(refused.value) == (
        "node is 'cough', which is not in this posterior; its nodes are 'x0', 'x1', 'x2', 'x3'"
    )
    with pytest.raises(ArgumentError, match="most is 0; it must be at least 1"):
        posterior.parent_sets("x0", most=0)
    with pytest.raises(ArgumentTypeError, match=r"most is 2\.5; it must be a whole number of at least 1"):
        posterior.parent_sets("x0", most=2.5)


# --- reasoning on graphs -------------------------------------------------------------------------------------------


def test_separations_have_their_exact_probability(posterior, exact, dags):
    def separation(x, y, observed):
        return exact.probability @ [dag.d_separated(x, y, observed) for dag in dags]

    pairs = list(permutations(NAMES, 2))
    apart = {(x, y): separation(x, y, ()) for x, y in pairs}
    no_edge = {(x, y): exact.probability @ [not dag.has_edge(x, y) for dag in dags] for x, y in pairs}
    seen, truth, twin = [], [], []
    for x, y, z in permutations(NAMES, 3):
        for observed in ((), (z,)):
            seen.append(posterior.d_separated(x, y, observed))
            truth.append(separation(x, y, observed) if observed else apart[x, y])
            twin.append(no_edge[x, y])
    p, n = np.array(truth), posterior.n_edges.size
    usable = n * p * (1 - p) >= 30
    errors = np.sqrt(p * (1 - p) / n)[usable]
    values = np.array([estimate.value for estimate in seen])[usable]
    assert worst_z(values, p[usable], errors) < z_limit(usable.sum())
    assert worst_z(values, np.array(twin)[usable], errors) > z_limit(usable.sum())  # no edge is not separation
    assert all(estimate.mcse > 0 for estimate in seen)


def test_adjustment_sets_have_their_exact_probability(posterior, exact, dags):
    cause, effect = "x0", "x3"
    frame = posterior.adjustment_sets(cause, effect)
    assert list(frame.columns) == ["given", "probability", "mcse", "ess", "r_hat"]
    assert frame["probability"].is_monotonic_decreasing
    found = {dag.adjustment_set(cause, effect) for dag in posterior_dags(posterior)} - {None}
    assert set(frame["given"]) == found
    truth, n = [], posterior.n_edges.size
    for row in frame.itertuples():
        same = posterior.is_adjustment_set(cause, effect, row.given)
        assert_judged_together(row, same)
        valid = [dag.is_adjustment_set(cause, effect, row.given) for dag in dags]
        truth.append(float(exact.probability[valid].sum()))
    p = np.array(truth)
    usable = n * p * (1 - p) >= 30
    errors = np.sqrt(p * (1 - p) / n)[usable]
    assert worst_z(frame["probability"].to_numpy()[usable], p[usable], errors) < z_limit(usable.sum())
    assert len(posterior.adjustment_sets(cause, effect, most=1)) == 1


def posterior_dags(posterior):
    return [Dag.from_rows(rows, posterior.names) for rows in posterior._distinct[0]]


def test_where_no_graph_has_a_set_none_is_listed():
    never = posterior_of_dags([Dag.from_edges([("b", "a")])] * 8)
    assert never.adjustment_sets("a", "b").empty
    with pytest.raises(ArgumentError, match="node 'z' is not in the graph"):
        never.d_separated("a", "z")
    with pytest.raises(ArgumentError, match="most is 0; it must be at least 1"):
        never.adjustment_sets("a", "b", most=0)
