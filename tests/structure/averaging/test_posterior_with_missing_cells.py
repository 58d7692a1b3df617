"""`doxa.learn` on tables with missing cells: the posterior against all graphs and completions, files."""

from __future__ import annotations

import numpy as np
import pytest

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError, TableError
from doxa.structure.averaging import cross_validate
from doxa.structure.cases.incomplete import IncompleteData, enumerate_joint
from doxa.structure.limits import capped
from support.checks import z_limit

BINARY = ("no", "yes")
COMPLETE = [[0, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0]] * 5 + [[0, 1, 0], [1, 0, 1]]
MISSING_CELLS = [[0, -1, 0], [-1, 1, 1], [1, -1, 1], [-1, -1, 0], [-1, -1, -1]]
TABLE = Table.from_codes(["a", "b", "c"], [BINARY] * 3, COMPLETE + MISSING_CELLS)
OWN_ABSENCE = [("b", "b is missing"), ("b is missing", "b")]


@pytest.fixture(scope="module")
def posterior():
    return doxa.learn(TABLE, prior="uniform", draws=3000, warmup=100, thin=30, seed=2, progress=False)


@pytest.fixture(scope="module")
def oracle():
    return enumerate_joint(IncompleteData(TABLE), capped([2, 2, 2]))


def test_edges_agree_with_all_graphs_and_completions(posterior, oracle):
    found, truth = posterior.edge_diagnostics, oracle.edge_probabilities
    pairs = ~np.eye(3, dtype=bool)
    z = (found.probability - truth)[pairs] / found.mcse[pairs]
    assert np.abs(z).max() < z_limit(6)
    wrong = (found.probability - 1 / 3)[pairs] / found.mcse[pairs]  # the broken twin: no data
    assert np.abs(wrong).max() > z_limit(6)


def test_cells_agree_with_all_graphs_and_completions(posterior, oracle):
    found = posterior.impute()
    yes = found[found["state"] == "yes"]
    assert len(yes) == TABLE.n_missing
    missing_cells = IncompleteData(TABLE).missing_cells
    sources = missing_cells.source_row[missing_cells.row].tolist()
    place = {(row, TABLE.names[c]): k for k, (row, c) in enumerate(zip(sources, missing_cells.column, strict=True))}
    cells = zip(yes["row"], yes["column"], strict=True)
    truth = np.array([oracle.cell_probabilities[place[cell], 1] for cell in cells])
    z = (yes["probability"].to_numpy() - truth) / yes["mcse"].to_numpy()
    assert np.abs(z).max() < z_limit(len(yes))


def test_completed_tables_keep_what_was_observed(posterior):
    made = posterior.completed_tables(3)
    codes = TABLE.codes[TABLE.row_index]
    for frame in made:
        labels = frame.to_numpy()
        seen = codes >= 0
        expected = np.where(codes == 1, "yes", "no")
        assert (labels[seen] == expected[seen]).all()
        assert np.isin(labels, BINARY).all()


def test_queries_and_predictions_go_through_the_posterior(posterior):
    answer = posterior.query({"b": "yes"}, given={"a": "yes"})
    low, high = answer.credible_interval()
    assert low < answer.value < high
    assert posterior.predictive({"b": "yes"}, given={"a": "yes"}).value == pytest.approx(answer.value, abs=0.1)
    assert posterior.query("b", do={"a": "yes"})["yes"].value <= answer.value + 0.05
    rows = posterior.predict(TABLE, "b")
    assert rows.groupby("row")["probability"].sum().to_numpy() == pytest.approx(1.0)
    assert posterior.log_predictive(TABLE).total.value < 0
    assert len(list(posterior.networks(8))) == 8


def test_a_loaded_posterior_reads_its_table_or_is_given_it(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,0\n0,1\n1,\n,0\n" * 5)
    made = doxa.learn(path, draws=20, seed=1, store=tmp_path / "run.doxa", progress=False)
    loaded = doxa.load(tmp_path / "run.doxa")
    assert isinstance(loaded, doxa.Posterior)
    assert loaded.impute().equals(made.impute())
    more = doxa.resume(tmp_path / "run.doxa", draws=30, progress=False)
    whole = doxa.learn(path, draws=30, warmup=10, seed=1, progress=False)
    np.testing.assert_array_equal(more.trace["cells"], whole.trace["cells"])
    path.write_text("a,b\n1,0\n")
    with pytest.raises(ArgumentError, match="its contents differ"):
        _ = doxa.load(tmp_path / "run.doxa").table


def test_a_table_from_memory_has_to_be_given_again(tmp_path):
    doxa.learn(TABLE, draws=20, seed=1, store=tmp_path / "run.doxa", progress=False)
    with pytest.raises(ArgumentError, match=r"load it with the table: doxa.load\(path, table=...\)"):
        doxa.load(tmp_path / "run.doxa").impute()
    given = doxa.load(tmp_path / "run.doxa", table=TABLE)
    assert len(given.impute()) == 2 * TABLE.n_missing
    with pytest.raises(ArgumentError, match="the table is not the one"):
        doxa.load(tmp_path / "run.doxa", table=TABLE.select(["a", "b"]))


def test_declared_columns_are_nodes_and_survive_the_file(tmp_path):
    made = doxa.learn(
        TABLE, indicator=["b"], hidden={"h": 2}, draws=20, seed=1, store=tmp_path / "r.doxa", progress=False
    )
    assert made.names == ("a", "b", "c", "b is missing", "h")
    again = doxa.resume(tmp_path / "r.doxa", TABLE, draws=24, progress=False)
    assert again.names == made.names
    assert made.trace["cells"].shape[-1] == TABLE.n_missing + TABLE.n_rows


def test_a_column_and_its_own_absence_are_not_joined():
    options = {"indicator": ["b"], "draws": 200, "seed": 1, "progress": False}
    made = doxa.learn(TABLE, forbidden=[("a", "c")], **options)
    assert set(made.options.forbidden) == {("a", "c"), *OWN_ABSENCE}
    edges = made.edges().set_index(["source", "target"])["probability"]
    assert [edges.get(edge, 0.0) for edge in OWN_ABSENCE] == [0.0, 0.0]
    assert edges["a", "b is missing"] > 0  # other columns may go with it


@pytest.mark.parametrize("edge", OWN_ABSENCE)
def test_an_edge_to_its_own_absence_that_is_required_is_kept(edge, tmp_path):
    options = {"indicator": iter(["b"]), "draws": 20, "seed": 1, "progress": False, "store": tmp_path / "r.doxa"}
    made = doxa.learn(TABLE, required=iter([edge]), **options)
    assert made.options.required == (edge,)
    assert made.options.forbidden == (edge[::-1],)
    assert doxa.resume(tmp_path / "r.doxa", TABLE, draws=24, progress=False).options == made.options
    with pytest.raises(ArgumentError, match="is required and forbidden at once"):
        doxa.learn(TABLE, required=[edge], forbidden=[edge], indicator=["b"], draws=20)


def test_an_empty_column_of_a_file_may_be_declared_as_hidden(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,h\n" + "1,\n0,\n" * 5)
    made = doxa.learn(path, hidden={"h": 2}, draws=20, seed=1, store=tmp_path / "r.doxa", progress=False)
    assert made.names == ("a", "h")
    assert doxa.resume(tmp_path / "r.doxa", draws=24, progress=False).names == made.names
    assert len(doxa.load(tmp_path / "r.doxa").impute()) == 20
    assert len(doxa.load(tmp_path / "r.doxa", table=path).impute()) == 20
    with pytest.raises(TableError, match="'h': every cell is missing"):
        doxa.learn(path, hidden={"g": 2}, draws=20)


def test_refused():
    with pytest.raises(ArgumentError, match=r"score is BIC\(\), which is no probability"):
        doxa.learn(TABLE, score="bic", draws=10)
    with pytest.raises(ArgumentError, match=r"sampler is MarkovBlanket\(.*missing cells and family_mixture"):
        doxa.learn(TABLE, family="auto", sampler="markov_blanket", draws=10)
    empty = Table.from_codes(["a", "b"], [BINARY] * 2, [[0, -1], [1, -1]])
    with pytest.raises(TableError, match="column 'b' has no value at all"):
        doxa.learn(empty, draws=10)


def test_cross_validation_leaves_each_row_out_of_its_own_networks():
    found = cross_validate(TABLE, "b", folds=3, seed=1, draws=20, warmup=10, progress=False)
    seen = TABLE.codes[TABLE.row_index, 1] >= 0
    assert np.isnan(found.probabilities[~seen]).all()
    assert found.probabilities[seen].sum(axis=1) == pytest.approx(1.0)
    loss, error = found.log_loss
    assert 0 < loss < np.log(2) + 0.3
    assert error > 0
    assert 0.4 < found.accuracy[0] <= 1
    with pytest.raises(ArgumentError, match="folds is 50, and there are"):
        cross_validate(TABLE, "b", folds=50)
