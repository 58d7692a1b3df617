"""Expected loss of graphs: against brute force, exact sums, and over all graphs of the sample."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import Dag
from doxa.structure.posterior.loss import MOST_EVALUATIONS, EdgeLoss, _measure
from support.checks import SEED, z_limit
from support.posteriors import independent_draws, posterior_of, posterior_of_dags

NAMES = ("x0", "x1", "x2", "x3")


# --- plain twins ---------------------------------------------------------------------------------------------------


def state(graph, a, b):
    """State of a pair, for a Dag or a Cpdag."""
    if isinstance(graph, Dag):
        return "->" * graph.has_edge(a, b) + "<-" * graph.has_edge(b, a)
    line = (a, b) in graph.undirected or (b, a) in graph.undirected
    return "->" * ((a, b) in graph.directed) + "<-" * ((b, a) in graph.directed) + "--" * line


@cache
def states(graph, names):
    """Of all pairs of these nodes: for one graph asked for beside every other."""
    return [state(graph, a, b) for a, b in combinations(names, 2)]


@cache
def class_of(graph):
    return graph.cpdag() if isinstance(graph, Dag) else graph


def shd(graph, sampled):
    names = sampled.names
    return sum(own != other for own, other in zip(states(graph, names), states(sampled, names), strict=True))


def shd_cpdag(graph, sampled):
    return shd(class_of(graph), class_of(sampled))


def two_to_one(graph, sampled):
    here, there = set(graph.edges), set(sampled.edges)
    return 2.0 * len(here - there) + 0.5 * len(there - here)


def all_edges(graph, sampled):
    return len(set(graph.edges) ^ set(sampled.edges))


LOSSES = {
    "shd": ("shd", shd),
    "shd_cpdag": ("shd_cpdag", shd_cpdag),
    "edges": ("edges", all_edges),
    "weights": (EdgeLoss(2.0, 0.5), two_to_one),
}


@pytest.fixture(scope="module")
def posterior(exact):
    return independent_draws(exact, seed=SEED, n_draws=500)


def sampled(posterior):
    return [graph.dag for graph in posterior.graphs(10**6)]


# --- values --------------------------------------------------------------------------------------------------------


def random_dag(rng, n, density):
    order = rng.permutation(n)
    return Dag(np.triu(rng.random((n, n)) < density, 1)[np.ix_(order, order)])


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.integers(0, 2**32 - 1), st.floats(0.05, 0.9))
def test_losses_are_those_of_their_plain_twins(n, seed, density):
    rng = np.random.default_rng(seed)
    graph, *others = (random_dag(rng, n, density) for _ in range(5))
    posterior = posterior_of_dags(others)
    for loss, plain in LOSSES.values():
        assert posterior.expected_loss(graph, loss).value == pytest.approx(np.mean([plain(graph, o) for o in others]))


def test_losses_of_large_graphs():
    rng = np.random.default_rng(SEED)
    graph, *others = (random_dag(rng, 70, density) for density in (0.05, 0.02, 0.05, 0.1, 0.3))
    posterior = posterior_of_dags(others)
    for loss, plain in LOSSES.values():
        assert posterior.expected_loss(graph, loss).value == pytest.approx(np.mean([plain(graph, o) for o in others]))


def test_a_reversed_edge_costs_one_and_a_class_costs_nothing():
    one, other = Dag.from_edges([("a", "b")]), Dag.from_edges([("b", "a")], ["a", "b"])
    empty = Dag.from_edges([], ["a", "b"])
    posterior = posterior_of_dags([other, empty], repeat=10)
    assert posterior.expected_loss(one).value == 1.0
    assert posterior.expected_loss(one, "shd_cpdag").value == 0.5
    assert posterior.expected_loss(one.cpdag(), "shd_cpdag").value == 0.5
    assert posterior.expected_loss(one, "edges").value == 1.5
    assert posterior.expected_loss(one, EdgeLoss(3.0, 1.0)).value == 3.5


@pytest.mark.parametrize("name", LOSSES)
def test_a_function_gives_what_the_built_in_loss_gives(posterior, dags, name):
    loss, plain = LOSSES[name]
    for dag in dags[::60]:
        mine, theirs = posterior.expected_loss(dag, loss), posterior.expected_loss(dag, plain)
        assert (mine.value, mine.mcse, mine.ess) == pytest.approx((theirs.value, theirs.mcse, theirs.ess))


def test_a_loss_that_is_true_or_false_gives_a_probability(posterior):
    best = posterior.graphs(1)[0]
    assert posterior.expected_loss(best.dag, lambda graph, drawn: graph == drawn) == best.frequency


def test_the_graph_comes_first_in_a_function():
    empty, edge = Dag.from_edges([], ["a", "b"]), Dag.from_edges([("a", "b")])
    posterior = posterior_of_dags([empty], repeat=4)

    def only_false(graph, drawn):
        return len(set(graph.edges) - set(drawn.edges))

    assert posterior.expected_loss(edge, only_false).value == 1.0


def test_nodes_may_stand_in_another_order(posterior):
    dag = posterior.graphs(1)[0].dag
    turned = Dag.from_edges(dag.edges, ("x2", "x0", "x3", "x1"))
    for loss, plain in LOSSES.values():
        assert posterior.expected_loss(turned, loss) == posterior.expected_loss(dag, loss)
        assert posterior.expected_loss(turned, plain) == posterior.expected_loss(dag, plain)
    turned_class, its_class = turned.cpdag(), dag.cpdag()
    assert posterior.expected_loss(turned_class, "shd_cpdag") == posterior.expected_loss(its_class, "shd_cpdag")


def test_the_expected_loss_of_the_empty_graph_is_the_expected_number_of_edges(posterior):
    empty = Dag.from_edges([], NAMES)
    for loss in ("shd", "shd_cpdag", "edges"):
        assert posterior.expected_loss(empty, loss) == posterior.expected_edges


# --- errors --------------------------------------------------------------------------------------------------------


def exact_loss(exact, dags, graph, plain):
    return sum(p * plain(graph, dag) for p, dag in zip(exact.probability, dags, strict=True))


def both_directions(graph, drawn):
    """A mistaken Hamming distance: a reversed edge counts twice."""
    return all_edges(graph, drawn)


def test_expected_losses_agree_with_the_exact_sum(exact, dags):
    posterior = independent_draws(exact, seed=SEED, n_draws=5000)
    graphs = dags[::100]
    for loss, plain in LOSSES.values():
        for graph in graphs:
            found = posterior.expected_loss(graph, loss)
            assert found.ess > 5000
            assert abs(found.value - exact_loss(exact, dags, graph, plain)) < z_limit(4 * len(graphs)) * found.mcse
    wrong = [  # the same check refuses a distance that counts a reversed edge twice
        abs(found.value - exact_loss(exact, dags, graph, shd)) / found.mcse
        for graph in graphs
        for found in [posterior.expected_loss(graph, both_directions)]
    ]
    assert max(wrong) > z_limit(4 * len(graphs))


@pytest.mark.parametrize("stay", [1, 4])
def test_errors_cover_the_exact_loss(exact, dags, stay):
    graph = Dag.from_edges([("x0", "x1"), ("x2", "x1")], NAMES)
    truth = {name: exact_loss(exact, dags, graph, plain) for name, (_, plain) in LOSSES.items()}
    ours, naive = [], []
    for run in range(120):
        posterior = independent_draws(exact, seed=10**6 * SEED + run, n_draws=200 * stay, stay=stay)
        rows, which = posterior._distinct
        for name, (loss, plain) in LOSSES.items():
            low, high = posterior.expected_loss(graph, loss).interval()
            ours.append(low <= truth[name] <= high)
            if name == "shd":
                drawn = np.array([plain(graph, Dag.from_rows(one, NAMES)) for one in rows])[which]
                naive.append(abs(drawn.mean() - truth[name]) <= 1.96 * drawn.std() / np.sqrt(drawn.size))
    by_run = np.array(ours).reshape(120, len(LOSSES)).mean(axis=1)
    error = by_run.std() / np.sqrt(120)
    assert 0.93 - 5 * error < by_run.mean() < 0.97 + 5 * error
    if stay > 1:  # an error that takes the draws for independent fails the same check
        assert np.mean(naive) < 0.93 - 5 * np.std(naive) / np.sqrt(120)


# --- the graph that loses least ------------------------------------------------------------------------------------


def assert_least(posterior, graph, loss):
    """No graph of the sample loses less, by the mean over the draws."""
    losses = {dag: posterior.expected_loss(dag, loss).value for dag in sampled(posterior)}
    assert losses[graph] == pytest.approx(min(losses.values()), abs=1e-9)
    return losses


@pytest.mark.parametrize("name", LOSSES)
def test_no_graph_of_the_sample_loses_less(posterior, name):
    loss, plain = LOSSES[name]
    best = posterior.least_loss_graph(loss)
    losses = assert_least(posterior, best, loss)
    by_function = posterior.least_loss_graph(plain)
    assert losses[by_function] == pytest.approx(losses[best], abs=1e-9)
    assert best == by_function
    # The best graph under another loss loses more under this one, so the check can tell.
    if name in ("shd", "weights"):
        other = posterior.least_loss_graph("shd_cpdag" if name == "shd" else EdgeLoss(0.5, 2.0))
        with pytest.raises(AssertionError):
            assert_least(posterior, other, loss)


@pytest.mark.parametrize("name", LOSSES)
def test_sums_over_pairs_are_the_means_over_the_draws(posterior, name):
    rows, which = posterior._distinct
    for loss in LOSSES[name]:
        means = _measure(loss, NAMES).means(rows[::9], rows, np.bincount(which.ravel()))
        one_by_one = [posterior.expected_loss(Dag.from_rows(one, NAMES), loss).value for one in rows[::9]]
        np.testing.assert_allclose(means, one_by_one, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 7), st.integers(0, 2**32 - 1), st.floats(0.05, 0.9))
def test_no_graph_of_any_sample_loses_less(n, seed, density):
    rng = np.random.default_rng(seed)
    posterior = posterior_of_dags([random_dag(rng, n, density) for _ in range(6)])
    for loss, _ in LOSSES.values():
        assert_least(posterior, posterior.least_loss_graph(loss), loss)


def test_no_large_graph_loses_less():
    rng = np.random.default_rng(SEED)
    posterior = posterior_of_dags([random_dag(rng, 70, density) for density in (0.02, 0.05, 0.05, 0.1, 0.3)])
    for loss, _ in LOSSES.values():
        assert_least(posterior, posterior.least_loss_graph(loss), loss)


def test_equal_losses_go_to_the_higher_score():
    one, other = Dag.from_edges([("a", "b")]), Dag.from_edges([("b", "a")], ["a", "b"])
    assert posterior_of_dags([one, other], [-5.0, -3.0], repeat=3).least_loss_graph() == other
    assert posterior_of_dags([one, other], [-3.0, -5.0], repeat=3).least_loss_graph() == one
    assert posterior_of_dags([one, other], [-3.0, -5.0], repeat=3).least_loss_graph(candidates=[other, one]) == other


def test_candidates_may_be_any_graphs(posterior, dags):
    chosen = dags[::50]
    for loss, plain in LOSSES.values():
        best = posterior.least_loss_graph(loss, candidates=chosen)
        assert best in chosen
        assert best == posterior.least_loss_graph(plain, candidates=iter(chosen))
        least = min(posterior.expected_loss(dag, loss).value for dag in chosen)
        assert posterior.expected_loss(best, loss).value == pytest.approx(least)
    turned = Dag.from_edges(chosen[3].edges, ("x2", "x0", "x3", "x1"))
    assert posterior.least_loss_graph(candidates=[turned]) == chosen[3]


def test_too_many_evaluations_are_refused_with_the_way_out(posterior):
    n = len(posterior._distinct[0])
    calls = []

    def counted(graph, drawn):
        calls.append(1)
        return shd(graph, drawn)

    with pytest.raises(ArgumentError) as refused:
        posterior.least_loss_graph(counted, max_evaluations=3 * n)
    assert str(refused.value) == (
        f"loss would be called {n * n} times, for {n} candidates against {n} different sampled graphs, and "
        f"max_evaluations is {3 * n}; give at most 3 candidates, such as candidates=[g.dag for g in "
        "posterior.graphs(3)], or raise max_evaluations"
    )
    assert not calls
    few = [graph.dag for graph in posterior.graphs(3)]
    posterior.least_loss_graph(counted, candidates=few, max_evaluations=3 * n)
    assert len(calls) == 3 * n
    with pytest.raises(ArgumentError, match="max_evaluations is 1; use a built-in loss, or raise max_evaluations"):
        posterior.least_loss_graph(counted, candidates=few, max_evaluations=1)
    posterior.least_loss_graph("shd", max_evaluations=1)  # a built-in loss needs none
    assert MOST_EVALUATIONS == 1_000_000


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["expected_loss", "least_loss_graph"])
def test_bad_losses_are_refused(posterior, method):
    best = posterior.graphs(1)[0].dag

    def ask(loss):
        return posterior.expected_loss(best, loss) if method == "expected_loss" else posterior.least_loss_graph(loss)

    with pytest.raises(ArgumentError) as refused:
        ask("hamming")
    assert str(refused.value) == (
        "loss is 'hamming'; it must be one of 'shd', 'shd_cpdag', 'edges', an EdgeLoss or a function of two graphs"
    )
    for wrong in (3, None, EdgeLoss):
        with pytest.raises(
            ArgumentTypeError, match=r"it must be one of 'shd', .*, or a function loss\(graph, sampled\)"
        ):
            ask(wrong)
    for value in (float("nan"), float("inf"), None, "much"):
        with pytest.raises(ArgumentError, match=r"^loss returned .*; it must return a finite number$") as refused:
            ask(lambda graph, drawn, value=value: value if graph != drawn else 0.0)
        assert f"loss returned {value!r} for Dag(4 nodes: " in str(refused.value)
        assert " against the sampled Dag(4 nodes: " in str(refused.value)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ({"false_positive": -1}, ArgumentError, "false_positive is -1; a weight must be finite and at least 0"),
        ({"false_negative": np.inf}, ArgumentError, "false_negative is inf; a weight must be finite and at least 0"),
        ({"false_negative": np.nan}, ArgumentError, "false_negative is nan; a weight must be finite and at least 0"),
        ({"false_positive": "2"}, ArgumentTypeError, "false_positive is '2'; it must be a number of at least 0"),
        (
            {"false_positive": 0, "false_negative": 0},
            ArgumentError,
            "false_positive and false_negative are both 0; every graph would be as good: raise one",
        ),
    ],
)
def test_bad_weights_are_refused(weights, error, message):
    with pytest.raises(error) as refused:
        EdgeLoss(**weights)
    assert str(refused.value) == message


def test_graphs_over_other_nodes_are_refused(posterior):
    other = Dag.from_edges([("x0", "y")], ["x0", "x1", "x2", "y"])
    for ask, name in (
        (lambda: posterior.expected_loss(other), "graph"),
        (lambda: posterior.least_loss_graph(candidates=[posterior.graphs(1)[0].dag, other]), "candidates[1]"),
    ):
        with pytest.raises(ArgumentError) as refused:
            ask()
        assert str(refused.value) == (
            f"{name} lacks 'x3' and has 'y' besides; it must have the nodes of the posterior, 'x0', 'x1', 'x2', 'x3'"
        )


def test_what_is_no_graph_is_refused(posterior):
    best = posterior.graphs(1)[0].dag
    with pytest.raises(
        ArgumentTypeError, match=r"graph is 'x0'; it must be a Dag, such as posterior\.graphs\(1\)\[0\]"
    ):
        posterior.expected_loss("x0")
    with pytest.raises(ArgumentTypeError) as refused:
        posterior.expected_loss(best.cpdag())
    assert str(refused.value) == "graph is a Cpdag, and this loss compares DAGs; give a Dag, or use loss='shd_cpdag'"
    with pytest.raises(ArgumentTypeError, match=r"candidates\[0\] is a Cpdag; give a Dag of the class"):
        posterior.least_loss_graph("shd_cpdag", candidates=[best.cpdag()])
    with pytest.raises(ArgumentTypeError, match=r"candidates is Dag\(.*\); it must be a list of graphs"):
        posterior.least_loss_graph(candidates=best)
    with pytest.raises(ArgumentError, match="candidates is empty; give at least one graph, or leave it out"):
        posterior.least_loss_graph(candidates=[])


def test_the_error_is_unknown_where_every_draw_loses_the_same():
    dag = Dag.from_edges([("a", "b")])
    rows = np.broadcast_to(dag.rows, (2, 8, 2, 1)).copy()
    found = posterior_of(dag.names, rows, np.zeros((2, 8))).expected_loss(dag)
    assert found.value == 0.0
    assert np.isnan(found.mcse)
