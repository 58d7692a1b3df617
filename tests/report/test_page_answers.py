"""Tables, imputed cells and answers to queries, against the functions that the library answers with."""

from __future__ import annotations

import dataclasses
from importlib import import_module

import numpy as np
import pytest
from scipy.special import stdtrit

from doxa.errors import ArgumentError
from doxa.report.graphs import family_tables
from doxa.report.numbers import DIGITS
from doxa.report.of_graphs import (
    ERROR_STEPS,
    _parent_sets,
    effects,
    imputed_cells,
    inspection,
    pair_answers,
    regressions,
)
from doxa.report.simulation import simulate_pairs
from doxa.structure.posterior.structure_posterior import StructurePosterior
from support.checks import FALSE_ALARM


@pytest.fixture(scope="module")
def inspected(reinis):
    return inspection(reinis)


def test_tables_are_those_of_parent_tables(reinis, inspected):
    node = reinis.names.index("protein")
    table = inspected["tables"][node][0]
    frame = reinis.parent_tables("protein", most=1)
    assert tuple(reinis.names[k] for k in table["parents"]) == frame["parents"][0]
    for column, name in (("mean", "mean"), ("low", "lower"), ("high", "upper")):
        assert np.allclose(np.ravel(table[column]), frame[name], atol=6e-4)
    assert np.allclose(np.repeat(table["cases"], 2), frame["cases"])
    labels = [reinis.table.states[k] for k in table["parents"]]
    given = [tuple(own[s] for own, s in zip(labels, row, strict=True)) for row in table["given"]]
    assert given == list(dict.fromkeys(frame["given"]))


def test_large_tables_are_left_out_and_say_so(alarm, monkeypatch):
    monkeypatch.setattr(import_module("doxa.report.graphs"), "MOST_CELLS", 500)
    found = family_tables(alarm.network_draws(), _parent_sets(alarm))
    kept = [table for own in found for table in own if "why" not in table]
    assert 0 < sum(np.size(table["mean"]) for table in kept) <= 500
    assert any("has no room on this page" in table.get("why", "") for own in found for table in own)


def test_cells_are_those_of_impute(missing_cells):
    found = imputed_cells(missing_cells.network_draws())
    frame = missing_cells.impute()
    for j, name in enumerate(missing_cells.names):
        own = frame[frame["column"] == name]
        column = found["columns"][j]
        assert column["n"] == len(own) // 2 == len(column["rows"])
        assert np.repeat(column["rows"], 2).tolist() == own["row"].tolist()
        assert np.allclose(np.ravel(column["p"]), own["probability"], atol=6e-4)
        assert column["mcse"] == pytest.approx(own["mcse"].max(), rel=0.06)


def test_cells_are_cut_short(missing_cells, monkeypatch):
    monkeypatch.setattr(import_module("doxa.report.of_graphs"), "MOST_CELLS", 12)
    columns = imputed_cells(missing_cells.network_draws())["columns"]
    assert [len(column["rows"]) for column in columns] == [min(2, column["n"]) for column in columns]
    assert sum(column["n"] for column in columns) == missing_cells.table.n_missing > 12


def test_a_complete_table_has_no_cells_to_show(reinis):
    assert imputed_cells(reinis.network_draws()) == {"why": "", "columns": []}


def test_rows_without_an_order_have_no_place(missing_cells):
    table = dataclasses.replace(missing_cells.table, _row_index=None)
    found = imputed_cells(missing_cells.network_draws().with_table(table))
    assert found["why"].startswith("The rows of the table were counted where they are")


def compared(posterior, how):
    """z-values of simulated answers against those of `predictive`, for all pairs of columns."""
    draws = posterior.network_draws()
    found = simulate_pairs(draws, intervene=how == "do", rows=120_000)
    names, states = posterior.names, draws.states
    z = []
    for x in (0, 3, 5):
        for t, state in enumerate(states[x]):
            for y in {1, 2, 4}:
                exact = posterior.predictive(names[y], **{how: {names[x]: state}})
                at = found.starts[x] + t
                for s, label in enumerate(states[y]):
                    p, error = found.probability[found.starts[y] + s, at], found.mcse[found.starts[y] + s, at]
                    z.append((p - exact[label].value) / np.hypot(error, exact[label].mcse))
    return np.abs(z)


def agree(z):
    """Whether all are within the limit of Student's t: errors rest on the scatter of 20 batches."""
    return z.max() < -stdtrit(19, FALSE_ALARM / (2 * z.size))


@pytest.mark.parametrize("how", ["given", "do"])
def test_simulated_answers_agree_with_exact_inference(reinis, how):
    assert agree(compared(reinis, how))


def test_seeing_is_not_doing(reinis, monkeypatch):
    def the_other(draws, *, intervene, rows, real=simulate_pairs):
        return real(draws, intervene=not intervene, rows=rows)

    monkeypatch.setattr("test_page_answers.simulate_pairs", the_other)
    assert not agree(compared(reinis, "do"))


def test_answers_unpack_to_what_was_simulated(reinis):
    draws = reinis.network_draws()
    packed, found = pair_answers(draws), simulate_pairs(draws)
    assert packed["all"]
    assert len(packed["pairs"]) == 30
    at = 0
    for pair in packed["pairs"]:
        y, x = divmod(pair, 6)
        for s in range(draws.n_states[y]):
            for t in range(draws.n_states[x]):
                high, low, step = (DIGITS.index(c) for c in packed["seen"][at : at + 3])
                at += 3
                p = found.probability[found.starts[y] + s, found.starts[x] + t]
                assert abs((64 * high + low) / 4000 - p) <= 1.3e-4
                error = found.mcse[found.starts[y] + s, found.starts[x] + t]
                assert error <= ERROR_STEPS[step] <= 1.14 * error
    assert at == len(packed["seen"]) == len(packed["done"])


def test_many_columns_keep_the_pairs_that_tell_most(alarm, monkeypatch):
    monkeypatch.setattr(import_module("doxa.report.of_graphs"), "MOST_ANSWERS", 400)
    monkeypatch.setattr(import_module("doxa.report.simulation"), "_ROWS", 20_000)
    packed = pair_answers(alarm.network_draws())
    assert not packed["all"]
    assert len(packed["seen"]) // 3 <= 400
    assert packed["pairs"] == sorted(packed["pairs"])
    hr, hrbp = alarm.names.index("HR"), alarm.names.index("HRBP")
    assert hr * 37 + hrbp in packed["pairs"]
    monkeypatch.setattr(import_module("doxa.report.of_graphs"), "_MOST_STATES", 100)
    assert "too many for simulated answers" in pair_answers(alarm.network_draws())["why"]


def test_without_a_table_the_rest_is_there(reinis):
    alone = StructurePosterior(reinis.names, reinis.trace, reinis.sampler, reinis.options)
    found = inspection(alone)
    assert found["missing"] == "This posterior is over graphs alone and knows no table."
    assert len(found["sets"]) == len(found["blankets"]) == 6
    assert "tables" not in found


def test_a_loaded_posterior_that_cannot_find_its_table_says_so(reinis, inspected, tmp_path):
    import doxa

    reinis.save(tmp_path / "run.doxa")
    loaded = doxa.load(tmp_path / "run.doxa")
    with pytest.raises(ArgumentError):
        _ = loaded.table
    assert "does not know its table" in inspection(loaded)["missing"]
    again = inspection(doxa.load(tmp_path / "run.doxa", reinis.table))
    assert again["tables"] == inspected["tables"]


def test_families_that_no_network_has(reinis):
    sets = [[{"parents": [j for j in range(6) if j != node]}] for node in range(6)]
    found = family_tables(reinis.network_draws(), sets)
    assert any("no network that was drawn has these parents" in own[0].get("why", "") for own in found)


def test_coefficients_are_those_of_the_drawn_families(logistic):
    found = inspection(logistic)
    draws = logistic.network_draws()
    node = logistic.names.index("systol")
    regression = next(entry for entry in found["regressions"][node] if len(entry["parents"]) > 1 and "mean" in entry)
    family = draws.parameters_of((node, tuple(regression["parents"])))
    assert regression["share"] == pytest.approx(family.logistic_probability, abs=1.1e-4)
    drawn = family.coefficients(20_000)
    drawn = drawn[~np.isnan(drawn[:, 0])]
    assert np.allclose(regression["mean"], drawn.mean(axis=0), atol=6 * drawn.std(axis=0).max() / np.sqrt(1500))
    inside = (drawn > regression["low"]) & (drawn < regression["high"])
    assert np.allclose(inside.mean(axis=0), 0.95, atol=0.03)


def test_coefficients_have_room_or_say_so(logistic, monkeypatch):
    monkeypatch.setattr(import_module("doxa.report.of_graphs"), "MOST_COEFFICIENTS", 5)
    found = regressions(logistic.network_draws(), _parent_sets(logistic))
    assert sum(len(entry["mean"]) for own in found for entry in own if "mean" in entry) <= 5
    assert any("no room on this page" in entry.get("why", "") for own in found for entry in own)


def test_tables_have_no_coefficients(reinis, inspected):
    assert regressions(reinis.network_draws(), _parent_sets(reinis)) is None
    assert inspected["regressions"] is None


def test_effects_are_those_of_the_posterior(reinis, monkeypatch):
    found = effects(reinis, reinis.network_draws())
    frame = reinis.effects(networks=200)
    assert len(found["rows"]) == len(frame) == 30
    of, on, state, *numbers = found["rows"][0]
    first = frame.iloc[0]
    assert (reinis.names[of], reinis.names[on], state) == (first["of"], first["on"], first["state"])
    assert numbers == pytest.approx(first[["effect", "lower", "upper", "no_effect"]].tolist(), rel=0.05, abs=1e-9)
    assert found["levels"][of] == [first["from"], first["to"]]
    monkeypatch.setattr(import_module("doxa.report.of_graphs"), "_MOST_COLUMNS", 5)
    assert "ask posterior.effects" in effects(reinis, reinis.network_draws())["why"]
