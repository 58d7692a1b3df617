"""Networks to pyAgrum, pgmpy and NetworkX, and back: nothing is lost, and what cannot be held is refused."""

from __future__ import annotations

import sys
import warnings
from functools import reduce
from operator import mul

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError, MissingExtraError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.dag import Dag
from doxa.models.gaussian import GaussianNetwork, Regression
from doxa.models.interop import from_networkx, from_pgmpy, from_pyagrum, to_networkx, to_pgmpy, to_pyagrum
from doxa.models.markov import MarkovNetwork

rng = np.random.default_rng(7)
NETWORK = CategoricalNetwork(
    Dag.from_edges([("c d", "a"), ("b", "a"), ("b", "c d")], ["a", "b", "c d", "e"]),
    {
        "a": rng.dirichlet([1, 1], size=(2, 3)),
        "b": [0.25, 0.75],
        "c d": rng.dirichlet([1, 1, 1], size=2),
        "e": [1.0],
    },
    {"a": ["Asy/Patch", "x|y"], "b": ["10", "9"], "c d": ["low (1)", '"', "é"], "e": ["only"]},
)
FIELD = MarkovNetwork(
    {"x": ["-", "+"], "y": ["0", "1", "2"], "z": ["-", "+"]},
    [(["y", "x"], rng.normal(size=(3, 2))), (["z"], [0.0, -np.inf]), (["y", "z", "x"], rng.normal(size=(3, 2, 2)))],
)


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def same(network, other):
    assert (network.names, network.states) == (other.names, other.states)
    if isinstance(network, CategoricalNetwork):
        assert network.dag == other.dag
        for name in network.names:
            np.testing.assert_allclose(network.tables[name], other.tables[name], rtol=1e-15)
        return True
    rows = np.argwhere(np.ones(network.n_states))
    np.testing.assert_allclose(network.log_potential(rows), other.log_potential(rows), rtol=1e-13)
    return True


# --- pyAgrum ----------------------------------------------------------------------------------------------------------


def test_networks_come_back_from_pyagrum(gum):
    assert same(from_pyagrum(to_pyagrum(NETWORK)), NETWORK)
    assert same(from_pyagrum(to_pyagrum(FIELD)), FIELD)


def test_pyagrum_computes_what_the_tables_say(gum):
    engine = gum.LazyPropagation(to_pyagrum(NETWORK))
    rows = np.argwhere(np.ones(NETWORK.n_states))
    joint = np.exp(NETWORK.log_probability(rows))
    for i, name in enumerate(NETWORK.names):
        expected = np.bincount(rows[:, i], weights=joint)
        np.testing.assert_allclose(engine.posterior(name).toarray(), expected, atol=1e-12)
    engine = gum.ShaferShenoyMRFInference(to_pyagrum(FIELD))
    rows = np.argwhere(np.ones(FIELD.n_states))
    weights = np.exp(FIELD.log_potential(rows))
    for i, name in enumerate(FIELD.names):
        expected = np.bincount(rows[:, i], weights=weights / weights.sum())
        np.testing.assert_allclose(engine.posterior(name).toarray(), expected, atol=1e-12)


def test_a_twin_with_swapped_axes_is_caught():
    table = NETWORK.tables["c d"]
    swapped = CategoricalNetwork(
        NETWORK.dag,
        {**NETWORK.tables, "c d": table[::-1]},
        dict(zip(NETWORK.names, NETWORK.states, strict=True)),
    )
    with pytest.raises(AssertionError):
        same(swapped, NETWORK)


def test_potentials_over_the_same_variables_and_constants_are_merged(gum):
    one, other = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    states = {"x": ["-", "+"], "y": ["0", "1", "2"]}
    network = MarkovNetwork(states, [([], 0.5), (["x", "y"], one), (["y", "x"], other), ([], 1.5)])
    field = to_pyagrum(network)
    assert len(field.factors()) == 1
    assert same(from_pyagrum(field), MarkovNetwork(states, [(["x", "y"], one + other.T + 2.0)]))
    with pytest.raises(ArgumentError, match=r"^network has a constant and no other potential, which pyAgrum cannot"):
        to_pyagrum(MarkovNetwork(states, [([], 0.5)]))
    with pytest.raises(ArgumentError, match=r"^the potential over x has the log value 800; what other programs read"):
        to_pyagrum(MarkovNetwork(states, [(["x"], [400.0, 0.0]), (["x"], [400.0, 0.0])]))


def test_pyagrums_own_networks_are_taken(gum):
    other = gum.fastBN("a[3]->c{yes|no|maybe}<-b->d", 2)
    network = from_pyagrum(other)
    assert network.names == tuple(other.variable(node).name() for node in sorted(other.nodes()))
    assert network.states[network.names.index("c")] == ("yes", "no", "maybe")
    a, b, c = (other.variable(name) for name in "abc")
    for i in range(a.domainSize()):
        for j in range(b.domainSize()):
            for k in range(c.domainSize()):
                here = other.cpt("c")[{"a": i, "b": j, "c": k}]
                assert network.tables["c"][(i, j, k) if network.dag.parents("c") == ("a", "b") else (j, i, k)] == (
                    pytest.approx(here, rel=1e-14)
                )
    bare = gum.BayesNet()
    bare.add("a", 2)
    with pytest.raises(ArgumentError, match=r"^tables\['a'\] has P\(a\) that sums to 0; over the states"):
        from_pyagrum(bare)


def test_what_is_no_network_is_refused(gum):
    with pytest.raises(ArgumentTypeError, match=r"^network is of type Dag; give a network of categorical variables$"):
        to_pyagrum(NETWORK.dag)
    with pytest.raises(ArgumentTypeError, match=r"^network is of type int; give a pyagrum.BayesNet or a pyagrum.Mark"):
        from_pyagrum(3)


# --- pgmpy ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pgmpy():
    """Its models and tables; requirements/networks.txt has what their import needs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pgmpy.factors.continuous
        import pgmpy.factors.discrete
        import pgmpy.models
    return pgmpy


@pytest.mark.filterwarnings("ignore")
def test_networks_come_back_from_pgmpy(pgmpy):
    other = to_pgmpy(NETWORK)
    assert other.check_model()
    assert from_pgmpy(other) == NETWORK


@pytest.mark.filterwarnings("ignore")
def test_pgmpys_factors_make_our_joint_distribution(pgmpy):
    product = reduce(mul, [cpd.to_factor() for cpd in to_pgmpy(NETWORK).get_cpds()])
    rows = np.argwhere(np.ones(NETWORK.n_states))
    for row, log_p in zip(rows, NETWORK.log_probability(rows), strict=True):
        labels = {name: labels[k] for name, labels, k in zip(NETWORK.names, NETWORK.states, row, strict=True)}
        assert product.get_value(**labels) == pytest.approx(np.exp(log_p), rel=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_pgmpys_own_networks_are_taken_in_any_order_of_states_and_parents(pgmpy):
    table = pgmpy.factors.discrete.TabularCPD
    other = pgmpy.models.DiscreteBayesianNetwork([("a", "b"), ("c", "b")])
    numbers = np.array([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]])
    names = {"b": ["x", "y"], "c": ["p", "q", "r"], "a": [1, 0]}  # of a, the other way round
    other.add_cpds(table("b", 2, numbers, ["c", "a"], [3, 2], state_names=names))
    other.add_cpds(
        table("a", 2, [[0.25], [0.75]]), table("c", 3, [[0.5], [0.25], [0.25]], state_names={"c": ["p", "q", "r"]})
    )
    network = from_pgmpy(other)
    assert (network.names, network.states) == (("a", "b", "c"), (("0", "1"), ("x", "y"), ("p", "q", "r")))
    for k, (c, a) in enumerate((c, a) for c in range(3) for a in (1, 0)):
        assert network.tables["b"][a, c].tolist() == numbers[:, k].tolist()


@pytest.mark.filterwarnings("ignore")
def test_what_is_no_network_of_pgmpy_is_refused(pgmpy):
    table, make = pgmpy.factors.discrete.TabularCPD, pgmpy.models.DiscreteBayesianNetwork
    with pytest.raises(
        ArgumentTypeError, match=r"^network is of type MarkovNetwork; give a CategoricalNetwork or a GaussianNetwork$"
    ):
        to_pgmpy(FIELD)
    with pytest.raises(
        ArgumentTypeError, match=r"^network is of type int; give a pgmpy.models.DiscreteBayesianNetwork or a pgmpy"
    ):
        from_pgmpy(3)
    other = make([("a", "b")])
    with pytest.raises(ArgumentError, match=r"^network has no table for the node 'a'; give it one by add_cpds$"):
        from_pgmpy(other)
    other.add_cpds(table("a", 2, [[0.5], [0.5]], state_names={"a": ["u", "v"]}))
    other.add_cpds(table("b", 2, [[1, 0], [0, 1]], ["a"], [2]))
    with pytest.raises(
        ArgumentError, match=r"^the table of 'b' knows 'a' in the states \[0, 1\], and its own table in"
    ):
        from_pgmpy(other)
    with pytest.raises(ArgumentTypeError, match=r"^network has the node 1; names are text"):
        from_pgmpy(make([(1, 2)]))


LINEAR = GaussianNetwork(
    Dag.from_edges([("z", "x"), ("y z", "x"), ("z", "w")], ["x", "y z", "z", "w"]),
    {
        "x": Regression(1 / 3, {"y z": -0.1, "z": 1e-17}, 0.7),
        "y z": Regression(2.5, [], 0.0),
        "z": Regression(-1.0, [], 10.0),
        "w": Regression(0.0, [3.0], 1 / 7),
    },
)


@pytest.mark.filterwarnings("ignore")
def test_linear_gaussian_networks_come_back_from_pgmpy(pgmpy):
    other = to_pgmpy(LINEAR)
    assert type(other).__name__ == "LinearGaussianBayesianNetwork"
    assert other.check_model()
    assert from_pgmpy(other) == LINEAR


@pytest.mark.filterwarnings("ignore")
def test_pgmpy_computes_the_moments_of_the_lines(pgmpy):
    mean, covariance = to_pgmpy(LINEAR).to_joint_gaussian()  # rounded to eight decimals, parents before children
    at = {name: k for k, name in enumerate(nx_order(to_pgmpy(LINEAR)))}
    for name, expected, variance in (
        ("x", 1 / 3 - 0.25 - 1e-17, 0.7**2),
        ("y z", 2.5, 0.0),
        ("z", -1.0, 100.0),
        ("w", -3.0, 900.0 + 1 / 49),
    ):
        assert mean[at[name]] == pytest.approx(expected, abs=1e-8)
        assert covariance[at[name], at[name]] == pytest.approx(variance, abs=1e-8)
    assert covariance[at["w"], at["z"]] == pytest.approx(300.0)


def nx_order(graph):
    import networkx

    return list(networkx.topological_sort(graph))


@pytest.mark.filterwarnings("ignore")
def test_pgmpys_own_lines_are_taken_in_any_order_of_parents(pgmpy):
    line = pgmpy.factors.continuous.LinearGaussianCPD
    other = pgmpy.models.LinearGaussianBayesianNetwork([("a", "c"), ("b", "c")])
    other.add_cpds(line("c", [1.0, 2.0, 3.0], 0.5, ["b", "a"]), line("b", [4.0], 1.5), line("a", [5.0], 2.5))
    network = from_pgmpy(other)
    assert network.names == ("a", "c", "b")
    assert network.regressions["c"].coefficients.tolist() == [3.0, 2.0]  # a, b
    assert (network.regressions["c"].intercept, network.regressions["c"].sd) == (1.0, 0.5)


@pytest.mark.filterwarnings("ignore")
def test_lines_that_pgmpy_or_doxa_cannot_hold_are_refused(pgmpy):
    mixed = GaussianNetwork(
        Dag.from_edges([("s", "x")]), {"x": ([0.0, 1.0], [[], []], [1.0, 1.0])}, {"s": [0.5, 0.5]}, {"s": ["a", "b"]}
    )
    with pytest.raises(
        ArgumentError, match=r"^network has the category 's'; pgmpy holds networks of numbers alone, or"
    ):
        to_pgmpy(mixed)
    line = pgmpy.factors.continuous.LinearGaussianCPD
    other = pgmpy.models.LinearGaussianBayesianNetwork([("a", "b")])
    with pytest.raises(ArgumentError, match=r"^network has no LinearGaussianCPD for the node 'a'; give it one by add_"):
        from_pgmpy(other)
    other.add_cpds(line("a", [0.0], 1.0), line("b", [0.0], 1.0))
    with pytest.raises(ArgumentError, match=r"^the LinearGaussianCPD of 'b' depends on \[\], but by its edges it depe"):
        from_pgmpy(other)
    other.cpds[1] = line("b", [0.0], 1.0, ["a"])
    with pytest.raises(
        ArgumentError, match=r"^the LinearGaussianCPD of 'b' has 1 numbers in beta; it must have 2, the"
    ):
        from_pgmpy(other)
    other.cpds[1] = line("b", [0.0, 1.0], -1.0, ["a"])
    with pytest.raises(ArgumentError, match=r"^the sd of regressions\['b'\] is -1.0; it must be finite and not negati"):
        from_pgmpy(other)


# --- NetworkX ---------------------------------------------------------------------------------------------------------


def test_networks_come_back_from_networkx():
    pytest.importorskip("networkx")
    assert same(from_networkx(to_networkx(NETWORK)), NETWORK)
    assert from_networkx(to_networkx(FIELD)) == FIELD
    assert from_networkx(to_networkx(NETWORK.dag)) == NETWORK.dag


def test_graphs_hold_edges_and_attributes():
    pytest.importorskip("networkx")
    graph = to_networkx(NETWORK)
    assert graph.is_directed()
    assert set(graph.edges) == {("c d", "a"), ("b", "a"), ("b", "c d")}
    assert graph.nodes["a"]["states"] == ("Asy/Patch", "x|y")
    assert graph.nodes["a"]["table"].shape == (2, 3, 2)  # b, c d, a
    field = to_networkx(FIELD)
    assert not field.is_directed()
    assert {frozenset(edge) for edge in field.edges} == {frozenset("xy"), frozenset("yz"), frozenset("xz")}
    assert field.nodes["y"] == {"states": ("0", "1", "2")}


def test_graphs_that_are_no_networks_are_refused():
    nx = pytest.importorskip("networkx")
    graph = nx.DiGraph([("a", "b"), ("b", "a")])
    with pytest.raises(ArgumentError, match=r"^adjacency has the cycle a -> b -> a; remove one of its edges$"):
        from_networkx(graph)
    graph = nx.DiGraph([("a", "b")])
    graph.nodes["a"]["table"] = [0.5, 0.5]
    with pytest.raises(ArgumentError, match=r"^graph has no attribute 'table' at the node 'b'; give it at every node$"):
        from_networkx(graph)
    with pytest.raises(
        ArgumentTypeError, match=r"^graph has the node 0; names are text: networkx.relabel_nodes\(graph"
    ):
        from_networkx(nx.path_graph(3))
    with pytest.raises(ArgumentError, match=r"^graph is not directed and has no potentials in graph.graph\['potential"):
        from_networkx(nx.Graph([("a", "b")]))
    with pytest.raises(ArgumentTypeError, match=r"^graph is of type MultiDiGraph; give a networkx.DiGraph or networkx"):
        from_networkx(nx.MultiDiGraph())
    with pytest.raises(ArgumentTypeError, match=r"^network is of type int; give a network or a Dag$"):
        to_networkx(3)


@pytest.mark.parametrize(
    ("function", "argument", "package"),
    [
        (to_pyagrum, NETWORK, "pyagrum"),
        (from_pyagrum, None, "pyagrum"),
        (to_pgmpy, NETWORK, "pgmpy.models"),
        (from_pgmpy, None, "pgmpy.models"),
        (to_networkx, NETWORK, "networkx"),
        (from_networkx, None, "networkx"),
    ],
)
def test_a_missing_package_is_named(monkeypatch, function, argument, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as missing:
        function(argument)
    assert str(missing.value) == (
        f"{function.__name__} needs the package {package.partition('.')[0]}: pip install 'doxa[interop]'"
    )
