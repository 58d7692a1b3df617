"""`Posterior.network`: its graph, its tables against closed forms and all completions, and that others can have it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.real import diagnose_averages
from doxa.models import Dag
from doxa.structure import BDeu
from doxa.structure.averaging.counts import CompletedTable
from doxa.structure.averaging.one_network import aligned
from doxa.structure.cases.incomplete import IncompleteData, enumerate_joint
from doxa.structure.limits import capped
from doxa.structure.posterior.consensus import consensus
from support.checks import z_limit
from support.tables import skewed_table

COMPLETE = [[0, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 2]] * 5 + [[0, 1, 0], [1, 0, 2]]
MISSING_CELLS = [[0, -1, 0], [-1, 1, 1], [1, -1, 2], [-1, -1, 0]]
STATES = [("no", "yes"), ("no", "yes"), ("low", "mid", "high")]
GRAPH = Dag.from_edges([("a", "b"), ("c", "b")], ("a", "b", "c"))


def counted(codes, parents, child, sizes):
    """Cases by states of the parents, then the child: slow and plain."""
    found = np.zeros([sizes[j] for j in (*parents, child)])
    for row in codes:
        found[tuple(row[j] for j in (*parents, child))] += 1
    return found


def posterior_weights(codes, dag, sizes, alpha=1.0):
    """Dirichlet weights of every table under BDeu."""
    found = {}
    for child, name in enumerate(dag.names):
        parents = [dag.names.index(p) for p in dag.parents(name)]
        counts = counted(codes, parents, child, sizes)
        found[name] = counts + alpha / counts.size
    return found


def test_tables_of_a_complete_table_have_a_closed_form():
    table = skewed_table(4, 60, 3, 3)
    posterior = doxa.learn(table, seed=1, equivalent_sample_size=2.0)
    network = posterior.network("most_probable")
    assert network.dag == posterior.graphs(1)[0].dag
    codes, sizes = table.codes[table.row_index], table.n_states.tolist()
    entries = network.entries(0.9)
    for alpha, right in ((2.0, True), (20.0, False)):  # the twin has another prior
        for name, weights in posterior_weights(codes, network.dag, sizes, alpha).items():
            total = weights.sum(axis=-1, keepdims=True)
            agrees = np.allclose(network.tables[name], weights / total, rtol=1e-12, atol=0)
            own = entries[entries["node"] == name]
            law = beta(weights, total - weights)
            for column, truth in (("lower", law.ppf(0.05)), ("upper", law.ppf(0.95)), ("sd", law.std())):
                agrees &= np.allclose(own[column].to_numpy(), truth.ravel(), rtol=1e-9)
            assert agrees == right


def test_tables_with_missing_cells_are_means_over_all_completions():
    table = Table.from_codes(["a", "b", "c"], STATES, COMPLETE + MISSING_CELLS)
    posterior = doxa.learn(table, prior="uniform", exact=False, draws=600, warmup=100, seed=3)
    data = IncompleteData(table)
    oracle = enumerate_joint(data, capped([2, 2, 2]))
    network = posterior.network(GRAPH, networks=None)
    cells, known = data.missing_cells, [row for row in table.codes[table.row_index].tolist() if min(row) >= 0]
    holes = np.array([row for row in table.codes[np.repeat(np.arange(table.n_distinct), table.counts)] if min(row) < 0])
    of_completion = []
    for drawn in oracle.cells:
        filled = holes.copy()
        filled[cells.row, cells.column] = drawn
        weights = posterior_weights([*known, *filled.tolist()], GRAPH, [2, 2, 3])
        of_completion.append(np.concatenate([(w / w.sum(axis=-1, keepdims=True)).ravel() for w in weights.values()]))
    found = np.concatenate([network.tables[name].ravel() for name in GRAPH.names])
    probability = oracle.probability.sum(axis=0)
    exact = probability @ of_completion
    draws = posterior.network_draws(None).with_graph(GRAPH)
    series = [draws.mean_tables((j, draws.parents[0][j])).reshape(-1, exact_j) for j, exact_j in enumerate((2, 12, 3))]
    open_ones = np.ptp(of_completion, axis=0) > 1e-9  # a column without missing cells, and no such parents, is known
    np.testing.assert_allclose(found[~open_ones], exact[~open_ones], rtol=1e-12)
    whole = np.concatenate([np.broadcast_to(np.exp(s), (len(draws), s.shape[1])) for s in series], axis=1)
    error = diagnose_averages(whole.reshape(*draws.shape, -1)).mcse[open_ones]
    z = (found - exact)[open_ones] / error
    assert np.abs(z).max() < z_limit(len(z))
    alike = np.mean(of_completion, axis=0)  # the twin: all completions count alike
    assert np.abs((found - alike)[open_ones] / error).max() > z_limit(len(z))
    assert "missing cells" in network.how


def test_states_of_hidden_columns_are_put_in_one_order():
    rng = np.random.default_rng(2)
    group = rng.permutation(np.arange(60) % 3)
    codes = np.column_stack([rng.integers(2, size=60), np.full(60, -1)])
    table = Table.from_codes(["seen", "h"], [("no", "yes"), ("0", "1", "2")], codes)
    drawn = np.tile(group, (200, 1))
    noise = rng.random(drawn.shape) < 0.15
    drawn[noise] = rng.integers(3, size=noise.sum())
    names = np.array([rng.permutation(3) for _ in drawn])
    mixed = np.take_along_axis(names, drawn, axis=1).astype(np.int8)
    made = aligned(CompletedTable(table, mixed), [1], np.arange(200)).cells
    assert made is not None

    def least_share(cells):
        """Of the likeliest state of a row, the least over the rows."""
        return min((np.bincount(column, minlength=3) / len(cells)).max() for column in cells.T)

    assert least_share(made) > 0.8
    assert least_share(mixed) < 0.5  # the twin: as drawn
    for before, after in zip(mixed, made, strict=True):  # nothing but names has changed
        assert len(set(zip(before.tolist(), after.tolist(), strict=True))) == len(set(before.tolist()))


def test_a_hidden_column_has_tables_that_tell_its_states_apart():
    rng = np.random.default_rng(4)
    group = rng.random(300) < 0.4
    columns = [rng.random(300) < np.where(group, 0.95, 0.05) for _ in range(4)]
    table = Table.from_codes(["w", "x", "y", "z"], [("no", "yes")] * 4, np.column_stack(columns).astype(int))
    names = ("w", "x", "y", "z", "h")
    edges = [("h", name) for name in "wxyz"]
    banned = [(a, b) for a in names for b in names if a != b and (a, b) not in edges]
    posterior = doxa.learn(table, hidden={"h": 2}, required=edges, forbidden=banned, seed=1, draws=400, warmup=100)
    network = posterior.network("most_probable")
    assert set(network.dag.edges) == set(edges)
    yes = network.tables["x"][:, 1]
    assert abs(yes[1] - yes[0]) > 0.8
    plain = np.mean([drawn.tables["x"][:, 1] for drawn in posterior.networks(200)], axis=0)
    assert abs(plain[1] - plain[0]) < 0.5  # the twin: states as they are drawn
    assert "hidden columns" in network.how


def of_probabilities(names, matrix):
    return SimpleNamespace(names=names, edge_diagnostics=SimpleNamespace(probability=np.array(matrix)))


def test_a_consensus_has_no_cycle_and_every_pair_that_is_joined():
    cyclic = of_probabilities(("a", "b", "c"), [[0, 0.9, 0], [0, 0, 0.8], [0.7, 0, 0]])
    assert set(consensus(cyclic).edges) == {("a", "b"), ("b", "c")}  # the edge that closes the cycle is left out
    assert set(consensus(cyclic, joined=True).edges) == {("a", "b"), ("b", "c"), ("a", "c")}  # or turned round
    either = of_probabilities(("a", "b", "c"), [[0, 0.3, 0.1], [0.4, 0, 0], [0.3, 0, 0]])
    assert consensus(either).n_edges == 0
    assert consensus(either, joined=True).edges == (("b", "a"),)


def test_a_posterior_whose_pairs_are_open_keeps_them_joined():
    posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
    network = posterior.network()
    joined = {
        frozenset((row.node_a, row.node_b)) for row in posterior.adjacencies().itertuples() if row.probability > 0.5
    }
    assert {frozenset(edge) for edge in network.dag.edges} == joined
    assert "direction of" in network.how


def test_others_read_what_is_written(tmp_path):
    table = tmp_path / "t.csv"
    rows = [dict(zip(("smoke", "age"), pair, strict=True)) for pair in (("no", "old"), ("yes", "young")) * 20]
    table.write_text("smoke,age\n" + "".join(f"{row['smoke']},{row['age']}\n" for row in rows))
    doxa.learn(table, draws=50, seed=1, store=tmp_path / "run.doxa")
    network = doxa.load(tmp_path / "run.doxa").network()
    for end in ("bif", "net", "xdsl", "xml", "json"):
        network.write(tmp_path / f"x.{end}")
        again = doxa.read_network(tmp_path / f"x.{end}")
        assert again == network
        assert type(again) is doxa.CategoricalNetwork


def test_logistic_families_come_as_the_tables_they_stand_for():
    table = doxa.datasets.load("reinis")
    posterior = doxa.learn(table, family="logistic", seed=1)
    network = posterior.network(Dag.from_edges([("smoke", "systol"), ("protein", "systol")], table.names))
    entries = network.entries().query("node == 'systol'")
    assert len(entries) == 8
    assert (entries["lower"] < entries["mean"]).all()
    assert (entries["mean"] < entries["upper"]).all()
    tabular = doxa.learn(table, seed=1).network(network.dag)
    np.testing.assert_allclose(network.tables["systol"], tabular.tables["systol"], atol=0.03)


def test_bad_input_is_refused():
    posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
    with pytest.raises(ArgumentError, match="'consensus', 'most_probable', or a Dag"):
        posterior.network("best")
    with pytest.raises(ArgumentTypeError, match="of type int"):
        posterior.network(3)
    with pytest.raises(ArgumentError, match="differ in the node 'x'"):
        posterior.network(Dag.from_edges([("smoke", "x")], (*posterior.names, "x")))


def test_numbers_are_refused_with_the_way_out(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "numbers.csv"
    path.write_text("x,y\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in rng.normal(size=(50, 2))))
    with pytest.raises(ArgumentError, match="cut numbers into bins"):
        doxa.learn(path, seed=1).network()


def test_prior_of_the_tables_can_be_another():
    table = doxa.datasets.load("reinis")
    network = doxa.learn(table, score="bic", seed=1).network("most_probable", prior=BDeu(1.0))
    assert isinstance(network, doxa.CategoricalNetwork)
