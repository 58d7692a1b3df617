"""`doxa.fit` of tables: closed forms, all completions of tables with missing cells, hidden nodes, files, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import beta
from test_one_network import COMPLETE, MISSING_CELLS, STATES, posterior_weights

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.models import Dag
from doxa.models.bits import unpack_rows
from doxa.structure import K2
from doxa.structure.averaging import TablePosterior
from doxa.structure.cases.incomplete import IncompleteData, enumerate_joint
from doxa.structure.families.scores import log_bdeu
from support.checks import z_limit
from support.tables import skewed_table

GRAPH = Dag.from_edges([("a", "b"), ("c", "b")], ("a", "b", "c"))
TABLE = Table.from_codes(["a", "b", "c"], STATES, COMPLETE + MISSING_CELLS)


@pytest.fixture(scope="module")
def fitted():
    return doxa.fit(GRAPH, TABLE, draws=4000, warmup=100, seed=2)


class Listed:
    """All completions of the table, given the graph: probabilities, entries, evidence."""

    def __init__(self):
        data = IncompleteData(TABLE)
        oracle = enumerate_joint(data)
        adjacency = unpack_rows(oracle.rows, 3)
        (k,) = np.flatnonzero((adjacency == GRAPH.adjacency).all(axis=(1, 2)))
        self.log_evidence = float(logsumexp(oracle.log_score[k]))
        self.probability = np.exp(oracle.log_score[k] - self.log_evidence)
        places, codes = data.missing_cells, TABLE.codes[np.repeat(np.arange(TABLE.n_distinct), TABLE.counts)]
        holes = codes[(codes < 0).any(axis=1)]
        known = codes[(codes >= 0).all(axis=1)].tolist()
        means, variances = [], []
        for cells in oracle.cells:
            filled = holes.copy()
            filled[places.row, places.column] = cells
            weights = posterior_weights([*known, *filled.tolist()], GRAPH, [2, 2, 3]).values()
            own = np.concatenate([(w / w.sum(axis=-1, keepdims=True)).ravel() for w in weights])
            total = np.concatenate([np.broadcast_to(w.sum(axis=-1, keepdims=True), w.shape).ravel() for w in weights])
            means.append(own)
            variances.append(own * (1 - own) / (total + 1))
        self.means = np.array(means)
        self.mean = self.probability @ self.means
        self.sd = np.sqrt(self.probability @ (np.array(variances) + (self.means - self.mean) ** 2))


@pytest.fixture(scope="module")
def listed():
    return Listed()


def test_a_complete_table_has_a_closed_form():
    table = skewed_table(4, 80, 7, 3)
    graph = Dag.from_edges([(table.names[0], table.names[1]), (table.names[2], table.names[1])], table.names)
    fit = doxa.fit(graph, table, equivalent_sample_size=3.0, seed=1)
    assert isinstance(fit, TablePosterior)
    assert fit.converged
    assert fit.verdict.startswith("Exact")
    entries, evidence = fit.entries(), 0.0
    codes, sizes = table.codes[table.row_index], table.n_states.tolist()
    for name, weights in posterior_weights(codes, graph, sizes, 3.0).items():
        total, own = weights.sum(axis=-1, keepdims=True), entries[entries["node"] == name]
        law = beta(weights, total - weights)
        for column, truth in (("mean", law.mean()), ("sd", law.std()), ("lower", law.ppf(0.025))):
            np.testing.assert_allclose(own[column].to_numpy(), truth.ravel(), rtol=1e-9)
        counts = np.rint(weights - 3.0 / weights.size).reshape(-1, weights.shape[-1])
        evidence += log_bdeu(counts, 3.0)
    assert fit.log_marginal_likelihood.exact
    assert fit.log_marginal_likelihood.value == pytest.approx(evidence, abs=1e-9)
    other = doxa.fit(graph, table, score=K2(1.0), seed=1).log_marginal_likelihood.value  # the twin: another prior
    assert abs(other - evidence) > 0.1
    drawn = fit.draws(table.names[1])
    exact = fit.network().tables[table.names[1]]
    assert np.abs(drawn.mean(axis=(0, 1)) - exact).max() < 5 * drawn.std(axis=(0, 1)).max() / np.sqrt(drawn.shape[1])


def test_entries_agree_with_all_completions(fitted, listed):
    entries = fitted.entries()
    assert fitted.converged, fitted.verdict
    mcse = entries["mcse"].to_numpy()
    sampled = mcse > 0
    assert sampled.sum() == 12  # c has no missing cell, and no completion has cases of b where a is no and c high
    found = entries["mean"].to_numpy()
    np.testing.assert_allclose(found[~sampled], listed.mean[~sampled], rtol=1e-12)
    z = (found - listed.mean)[sampled] / mcse[sampled]
    assert np.abs(z).max() < z_limit(12)
    np.testing.assert_allclose(entries["sd"], listed.sd, rtol=0.03)
    alike = listed.means.mean(axis=0)  # the twin: completions count alike, as if cells were drawn without the data
    assert np.abs((found - alike)[sampled] / mcse[sampled]).max() > z_limit(12)


def test_the_evidence_is_the_sum_over_completions(fitted, listed):
    found = fitted.log_marginal_likelihood
    assert 0 < found.mcse < 0.1
    assert abs(found.value - listed.log_evidence) < z_limit(1) * found.mcse
    complete = doxa.fit(GRAPH, Table.from_codes(["a", "b", "c"], STATES, COMPLETE), seed=1)  # the twin: rows left out
    assert abs(complete.log_marginal_likelihood.value - listed.log_evidence) > z_limit(1) * found.mcse


def test_an_entry_has_an_error(fitted, listed):
    found = fitted.entry("b", "yes", {"a": "no", "c": "mid"})
    place = 2 + 3  # of P(b = yes | a = no, c = mid): after the table of a
    assert abs(found.value - listed.mean[place]) < 5 * found.mcse
    assert fitted.entry("c", "low").exact
    with pytest.raises(ArgumentError, match="the parents of 'b' are 'a', 'c'"):
        fitted.entry("b", "yes", {"a": "no"})
    with pytest.raises(ArgumentError, match="no state of 'c'"):
        fitted.entry("c", "none")


def test_answers_of_posteriors_are_there(fitted):
    assert fitted.query({"b": "yes"}, given={"a": "yes"}).value == pytest.approx(0.8, abs=0.2)
    assert len(fitted.predict(TABLE.select(["a"]), "b")) == 2 * TABLE.n_rows
    assert set(fitted.impute()["column"]) == {"a", "b"}
    assert fitted.network().how.startswith("the graph that was given")
    assert fitted.draws("b").shape == (*fitted.draws("a").shape[:2], 2, 3, 2)


def test_a_hidden_node_is_summed_out_and_its_states_are_told_apart():
    rng = np.random.default_rng(4)
    group = rng.integers(3, size=400)
    columns = [(rng.random(400) < 0.85) * (group + k) % 3 for k in range(5)]
    table = Table.from_codes(list("vwxyz"), [("0", "1", "2")] * 5, np.column_stack(columns).astype(int))
    graph = Dag.from_parents({name: ["h"] for name in "vwxyz"})
    fit = doxa.fit(graph, table, hidden={"h": 3}, seed=1, draws=500, warmup=200)
    assert fit.options.hidden == (("h", 3),)
    assert "h, which nobody observed" in fit.verdict
    tables = fit.network().tables["w"]
    assert tables.shape == (3, 3)
    assert np.ptp(tables, axis=0).max() > 0.4
    assert np.isfinite(fit.log_marginal_likelihood.value)


def test_chains_that_disagree_about_hidden_cells_have_not_converged():
    """One graph leaves nothing open about edges, and much about cells: the run must not be called converged by that."""
    fit = doxa.fit(GRAPH, TABLE, draws=6, warmup=0, seed=1)
    assert fit.converged is not True
    names = GRAPH.names
    banned = [(a, b) for a in names for b in names if a != b and (a, b) not in GRAPH.edges]
    learned = doxa.learn(TABLE, required=GRAPH.edges, forbidden=banned, draws=6, warmup=0, prior="uniform", seed=1)
    assert learned.converged is not True


def test_a_log_score_that_never_changes_is_no_sign_of_chains_that_stand():
    """Two and two rows have each pair of states: whichever the missing cell is, the log score is the same."""
    codes = [[0, 0], [1, 1], [0, 1], [1, 0], [-1, 0]]
    table = Table.from_codes(["x", "y"], [["a", "b"], ["c", "d"]], np.array(codes))
    found = doxa.fit(Dag(np.zeros((2, 2), dtype=bool), ["x", "y"]), table, seed=1)
    assert np.ptp(found.log_score) < 1e-9
    assert found.verdict.startswith("Converged: 4 chains agree")
    x = found.entries().iloc[0]
    assert abs(x["mean"] - 0.5) < 5 * x["mcse"]


def test_only_the_columns_of_the_graph_are_read(tmp_path):
    rows = "".join(f"p{k},{k * 1.37:.3f},{'yes' if k % 3 else 'no'},{'abc'[k % 3]}\n" for k in range(60))
    (tmp_path / "t.csv").write_text("id,weight,rain,kind\n" + rows)
    fit = doxa.fit(Dag.from_edges([("kind", "rain")]), tmp_path / "t.csv", store=tmp_path / "run.doxa", seed=1)
    assert set(fit.names) == {"kind", "rain"}
    logistic = doxa.fit(doxa.LogisticNetwork({"rain": []}), tmp_path / "t.csv", seed=1)
    assert list(logistic.method) == ["rain"]
    with pytest.raises(TableError, match="no column of the network's"):
        doxa.fit(Dag.from_edges([("x", "y")]), tmp_path / "t.csv")
    assert set(doxa.fit(Dag.from_edges([("kind", "weight")]), tmp_path / "t.csv", seed=1).names) == {"kind", "weight"}
    again = doxa.load(tmp_path / "run.doxa")
    assert isinstance(again, TablePosterior)
    assert again.entries().equals(fit.entries())


def test_a_fit_is_kept_and_gone_on_with(tmp_path):
    path = tmp_path / "run.doxa"
    part = doxa.fit(GRAPH, TABLE, draws=50, warmup=20, seed=3, store=path)
    more = doxa.resume(path, TABLE, draws=80)
    whole = doxa.fit(GRAPH, TABLE, draws=80, warmup=20, seed=3)
    assert isinstance(more, TablePosterior)
    np.testing.assert_array_equal(more.trace["cells"], whole.trace["cells"])
    part.save(tmp_path / "saved.doxa")
    loaded = doxa.load(tmp_path / "saved.doxa", TABLE)
    assert loaded.entries().equals(part.entries())
    assert loaded.verdict == part.verdict


def test_the_family_decides_and_its_options_belong_to_it():
    table = doxa.datasets.load("reinis")
    graph = Dag.from_edges([("smoke", "systol")])
    logistic = doxa.fit(graph, table, family="logistic", seed=1)
    assert isinstance(logistic, doxa.ParameterPosterior)
    network = doxa.LogisticNetwork({"systol": ["smoke"]})
    assert isinstance(doxa.fit(network, table, family="categorical", seed=1), TablePosterior)
    with pytest.raises(ArgumentError, match="method is 'hmc', which belongs to family='logistic'"):
        doxa.fit(graph, table, method="hmc")
    with pytest.raises(ArgumentError, match=r"equivalent_sample_size is 2\.0, which belongs to family='categorical'"):
        doxa.fit(network, table, equivalent_sample_size=2.0)
    with pytest.raises(ArgumentError, match="family is 'gaussian'"):
        doxa.fit(graph, table, family="gaussian")
    with pytest.raises(ArgumentTypeError, match="or a Dag"):
        doxa.fit({"systol": ["smoke"]}, table)
    with pytest.raises(ArgumentError, match="Dirichlet prior"):
        doxa.fit(graph, table, score="bic")
    with pytest.raises(TableError, match="family='categorical'"):
        doxa.fit(doxa.LogisticNetwork({"c": ["a"]}), TABLE)


def test_a_network_says_how_many_states_its_hidden_nodes_have():
    network = doxa.CategoricalNetwork(
        Dag.from_edges([("h", "a")]),
        {"h": [0.2, 0.3, 0.5], "a": [[0.5, 0.5]] * 3},
        {"h": ["x", "y", "z"], "a": ["no", "yes"]},
    )
    fit = doxa.fit(network, TABLE, draws=20, warmup=5, seed=1)
    assert fit.options.hidden == (("h", 3),)
