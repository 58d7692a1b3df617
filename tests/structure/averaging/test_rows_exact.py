"""Prediction, log scores and imputation against sums over all graphs, and over all completions."""

from __future__ import annotations

import dataclasses
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from averaging_cases import Case, case, conditional, independent, mean_joint, posterior_of_draws

import doxa
from doxa.data import Table
from doxa.estimates.trace import Trace
from doxa.structure import SingleEdge
from doxa.structure.averaging import completed_tables, draw_networks, impute, log_score, predict, predictive, query
from doxa.structure.averaging import rows as rows_module
from doxa.structure.averaging.counts import CompletedTable
from doxa.structure.averaging.impute import cell_state_probabilities
from doxa.structure.averaging.rows import RowProbabilities
from doxa.structure.exact.enumeration import all_dags, enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.posterior.structure_posterior import StructurePosterior
from support.checks import SEED, worst_z, z_limit
from support.tables import skewed_table


def every_graph(of):
    return draw_networks(posterior_of_draws(of, np.tile(np.arange(len(of.listed.rows)), (4, 1))), of.table, None)


def exact_joint(of):
    return np.asarray(
        sum(p * mean_joint(of, rows, {}) for p, rows in zip(of.listed.probability, of.listed.rows, strict=True))
    )


@pytest.mark.parametrize("row", [[-1, -1, -1], [0, -1, -1], [-1, 2, 1], [1, -1, 0], [0, 1, 1]])
@pytest.mark.parametrize("limit", [4096, 2])
def test_rows_in_every_network_agree_with_listing(row, limit, monkeypatch):
    """Also where so many states are too many to list, and an elimination has to do it."""
    of = case()
    monkeypatch.setattr(rows_module, "_LIMIT", limit)
    draws = every_graph(of)
    missing_cells = [j for j in range(3) if row[j] < 0]
    log_weight, probabilities = RowProbabilities(draws).of(np.array(row), missing_cells)
    seen = {j: k for j, k in enumerate(row) if k >= 0}
    for t, graph in enumerate(of.listed.rows):
        joint = mean_joint(of, graph, {})
        evidence = joint[tuple(seen.get(j, slice(None)) for j in range(3))].sum()
        assert abs(log_weight[t] - np.log(evidence)) < 1e-11
        exact = np.concatenate([conditional(joint, j, seen) for j in missing_cells]) if missing_cells else np.empty(0)
        assert np.abs(probabilities[t] - exact).max(initial=0.0) < 1e-12


def test_wide_rows_fall_into_parts():
    """Seven columns, most missing, in random graphs: listed parts and elimination agree."""
    table = skewed_table(7, 60, seed=3, n_states=3)
    posterior = doxa.learn(table, exact=False, draws=12, warmup=0, thin=3, seed=2)
    draws = draw_networks(posterior, table, None)
    probabilities = RowProbabilities(draws)
    rng = np.random.default_rng(4)
    for _ in range(6):
        row = table.codes[0].astype(np.int64).copy()
        missing_cells = np.flatnonzero(rng.random(7) < 0.6).tolist()
        log_weight, found = probabilities.of(row, missing_cells)
        for t in range(0, len(draws), 7):
            other_weight, other = (
                probabilities._eliminate(row, missing_cells, t) if missing_cells else (log_weight[t], found[t])
            )
            assert abs(log_weight[t] - other_weight) < 1e-11
            assert np.abs(found[t] - other).max(initial=0.0) < 1e-12


def test_predictions_of_rows_agree_with_the_sum_over_all_graphs():
    of = case()
    posterior = independent(of, seed=SEED + 11)
    joint = exact_joint(of)
    codes = [[-1, 1, 0], [0, -1, -1], [1, 2, -1], [-1, 1, 0]]
    rows = Table.from_codes(of.table.names, of.table.states, codes)
    found = predict(posterior, of.table, rows, networks=None)
    assert found["row"].tolist() == [0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 3]
    exact = []
    for row in codes:
        seen = {j: k for j, k in enumerate(row) if k >= 0}
        exact += [p for j, k in enumerate(row) if k < 0 for p in conditional(joint, j, seen)]
    assert worst_z(found["probability"].to_numpy(), np.array(exact), found["mcse"].to_numpy()) < z_limit(11)
    assert found["mcse"].max() < 0.01
    one = predictive(posterior, of.table, "x0", {"x1": "s1", "x2": "s0"}, networks=None)
    assert np.abs(found["probability"][:2] - [e.value for e in one.values()]).max() < 1e-12
    assert np.abs(found["mcse"][:2] - [e.mcse for e in one.values()]).max() < 1e-12


def test_a_target_is_predicted_without_a_look_at_it():
    of = case()
    posterior = independent(of, seed=3, n_draws=100)
    with_it = Table.from_codes(of.table.names, of.table.states, [[0, 1, 0], [1, 1, 0], [-1, -1, 0]])
    frame = pd.DataFrame({"x1": ["s1", "s1", None], "x2": ["s0", "s0", "s0"]})
    one, two = (predict(posterior, of.table, rows, "x0") for rows in (with_it, frame))
    pd.testing.assert_frame_equal(one, two)
    assert one["column"].unique().tolist() == ["x0"]
    assert np.allclose(one["probability"].groupby(one["row"]).sum(), 1)


def test_log_scores_agree_with_the_sum_over_all_graphs():
    of = case()
    posterior = independent(of, seed=SEED + 12)
    joint = exact_joint(of)
    rows = Table.from_codes(of.table.names, of.table.states, [[0, 1, 0], [0, -1, -1], [1, 2, 1], [0, 1, 0]])
    score = log_score(posterior, of.table, rows, networks=None)
    exact = np.log([joint[0, 1, 0], joint[0].sum(), joint[1, 2, 1], joint[0, 1, 0]])
    values, errors = score.rows["log_probability"].to_numpy(), score.rows["mcse"].to_numpy()
    assert worst_z(values, exact, np.maximum(errors, 1e-9)) < z_limit(5)
    assert abs(score.total.value - exact.sum()) < z_limit(5) * score.total.mcse
    assert score.total.mcse > 1.2 * errors[[0, 2]].max()  # rows 0 and 3 are one row twice
    assert score.mean.value == pytest.approx(score.total.value / 4)


def test_a_state_never_seen_gets_the_share_of_a_column_declared_with_it():
    of = case(2, 25)
    posterior = independent(of, seed=5, n_draws=100)
    rows = pd.DataFrame({"x0": ["s9", "s0", "s9"], "x1": ["s1", "s1", None]})
    with pytest.raises(
        doxa.DoxaError, match="rows has 's9' in column 'x0', a state that the posterior was not learned"
    ):
        predict(posterior, of.table, rows)
    found = log_score(posterior, of.table, rows, unseen="prior").rows["log_probability"].to_numpy()
    wider = Table.from_codes(of.table.names, (("s0", "s1", "new"), of.table.states[1]), of.table.codes, of.table.counts)
    declared = Case(wider, of.listed, of.options, of.score)
    draws = draw_networks(posterior, of.table)
    own = np.mean([mean_joint(declared, rows, {}) for rows in draws.rows], axis=0)
    plain = np.mean([mean_joint(of, rows, {}) for rows in draws.rows], axis=0)
    assert np.allclose(found, np.log([own[2, 1], plain[0, 1], own[2].sum()]), atol=1e-10)
    predicted = predict(posterior, of.table, rows, unseen="prior")
    assert np.allclose(predicted["probability"], own[2] / own[2].sum(), atol=1e-10)  # says nothing about x1
    assert predicted["state"].tolist() == list(of.table.states[1])


# Missing cells: every completion of a small table, every graph.


@cache
def with_missing_cells():
    """A table with five missing cells in four rows, two of them equal, and its joint posterior."""
    of = case(3, 14, 5, 2)
    codes = of.table.codes[of.table.row_index].astype(np.int64)
    codes[[2, 3], 1] = -1
    codes[7, [0, 2]] = -1
    codes[11, 2] = -1
    codes[3] = codes[2]
    table = Table.from_codes(of.table.names, of.table.states, codes)
    where = np.argwhere(np.repeat(table.codes, table.counts, axis=0) < 0)
    completions = np.array(list(product(range(2), repeat=len(where))))
    log_joint = []
    for cells in completions:
        full = np.repeat(table.codes, table.counts, axis=0).astype(np.int64)
        full[tuple(where.T)] = cells
        listed = enumerate_posterior(FamilyScores(Table.from_codes(table.names, table.states, full), of.score))
        log_joint.append(listed.log_score)
    joint = np.exp(np.array(log_joint).T - np.max(log_joint))
    return of, table, where, completions, joint / joint.sum()


def incomplete_posterior(seed, n_draws=1000):
    of, table, _, completions, joint = with_missing_cells()
    rng = np.random.default_rng(seed)
    which = rng.choice(joint.size, size=(4, n_draws), p=joint.ravel())
    graph, completion = np.divmod(which, len(completions))
    rows = all_dags(3)[graph]
    trace = Trace(
        {
            "rows": rows,
            "log_score": np.log(joint[graph, completion]),
            "n_edges": np.bitwise_count(rows).sum(axis=(2, 3)).astype(np.int32),
            "cells": completions[completion].astype(np.int8),
        },
        entropy=seed,
        info={name: np.full(4, 9) for name in ("proposed", "accepted")},
    )
    options = dataclasses.replace(of.options, data_digest=table.digest)
    return StructurePosterior(table.names, trace, SingleEdge(), options), table


def completed_case(cells):
    of, table, where, _, _ = with_missing_cells()
    full = np.repeat(table.codes, table.counts, axis=0).astype(np.int64)
    full[tuple(where.T)] = cells
    return of._replace(table=Table.from_codes(table.names, table.states, full))


def test_imputed_cells_agree_with_the_sum_over_graphs_and_completions():
    _, table, where, completions, joint = with_missing_cells()
    posterior, table = incomplete_posterior(SEED + 21)
    found = impute(posterior, table, networks=None)
    weight = joint.sum(axis=0)
    source = np.argsort(table.row_index, kind="stable")[where[:, 0]]
    order = np.lexsort((where[:, 1], source))
    exact = np.array([[weight[completions[:, k] == s].sum() for s in range(2)] for k in order])
    assert found["row"].tolist() == np.repeat(source[order], 2).tolist() == [2, 2, 3, 3, 7, 7, 7, 7, 11, 11]
    assert found["column"].tolist() == [table.names[where[k, 1]] for k in order for _ in range(2)]
    values, errors = found["probability"].to_numpy(), found["mcse"].to_numpy()
    assert worst_z(values, exact.ravel(), errors) < z_limit(10)
    assert errors.max() < 0.02
    counted = np.array([(posterior.trace["cells"][..., k] == 1).mean() for k in order])
    assert np.abs(counted - values[1::2]).max() < 0.05
    assert worst_z(values[1::2], 1 - exact[:, 1], errors[1::2]) > z_limit(10)  # a wrong answer would show


def test_the_chances_of_a_cell_are_ratios_of_joint_scores():
    """p(cell | graph, rest) is P(D with it | graph) over the sum; to rounding, for every draw."""
    posterior, table = incomplete_posterior(3, n_draws=6)
    _, _, where, completions, joint = with_missing_cells()
    draws = draw_networks(posterior, table, None)
    graphs = {rows.tobytes(): g for g, rows in enumerate(all_dags(3))}
    number = {tuple(cells): c for c, cells in enumerate(completions.tolist())}
    for k, (row, column) in enumerate(where.tolist()):
        probabilities = cell_state_probabilities(draws, column, np.array([row]))[:, 0]
        for t in range(len(draws)):
            g = graphs[draws.rows[t].tobytes()]
            cells = draws.completed.cells[t].tolist()
            weights = [joint[g, number[(*cells[:k], s, *cells[k + 1 :])]] for s in range(2)]
            assert np.abs(probabilities[t] - np.array(weights) / sum(weights)).max() < 1e-9


def test_queries_and_predictions_average_over_completions():
    _, _, _, completions, joint = with_missing_cells()
    posterior, table = incomplete_posterior(SEED + 22)
    cases = [completed_case(cells) for cells in completions]
    total = np.zeros((2, 2, 2))
    for g, rows in enumerate(all_dags(3)):
        for c, of in enumerate(cases):
            if joint[g, c] > 1e-7:
                total += joint[g, c] * mean_joint(of, rows, {})
    exact = conditional(total, 0, {1: 1, 2: 0})
    found = predictive(posterior, table, "x0", {"x1": "s1", "x2": "s0"}, networks=None)
    values, errors = (np.array([getattr(e, name) for e in found.values()]) for name in ("value", "mcse"))
    assert worst_z(values, exact, errors) < z_limit(4)
    marginal = query(posterior, table, {"x2": "s1"}, networks=None)  # linear in the parameters: its mean is exact
    assert abs(marginal.value - total[:, :, 1].sum()) < z_limit(4) * marginal.mcse
    scored = log_score(posterior, table, table, networks=None)
    assert len(scored.rows) == table.n_rows


def test_counts_of_completed_tables():
    posterior, table = incomplete_posterior(4, n_draws=5)
    draws = draw_networks(posterior, table, None)
    for family in ((0, ()), (1, (0, 2)), (2, (1,))):
        found = draws.completed.counts(family, np.array([3, 7]))
        for draw, counts in zip((3, 7), found, strict=True):
            of = completed_case(draws.completed.cells[draw])
            columns = [*family[1], family[0]]
            plain = np.zeros((2,) * len(columns))
            np.add.at(plain, tuple(of.table.codes[:, j] for j in columns), of.table.counts)
            assert np.array_equal(counts.reshape(plain.shape), plain)


def test_completed_tables_keep_what_was_observed_and_fill_in_draws():
    posterior, table = incomplete_posterior(5, n_draws=50)
    frames = completed_tables(posterior, table, 200)
    codes = table.codes[table.row_index]
    filled = np.zeros((200, *codes.shape), dtype=int)
    for k, frame in enumerate(frames):
        assert list(frame.columns) == list(table.names)
        for j, states in enumerate(table.states):
            filled[k, :, j] = [states.index(label) for label in frame[table.names[j]]]
    assert (filled[:, codes >= 0] == codes[codes >= 0]).all()
    cells = posterior.trace["cells"].reshape(200, -1)
    _, _, where, _, _ = with_missing_cells()
    source = np.argsort(table.row_index, kind="stable")[where[:, 0]]
    assert (filled[:, source, where[:, 1]] == cells).all()
    with pytest.raises(doxa.DoxaError, match="n is 201; the posterior has 200 draws"):
        completed_tables(posterior, table, 201)


def test_draws_of_cells_have_to_fit_the_table():
    _, table = incomplete_posterior(5, n_draws=5)
    with pytest.raises(doxa.DoxaError, match="the table has 5 missing cells and the posterior has no draws of them"):
        CompletedTable(table)
    with pytest.raises(doxa.DoxaError, match=r"shape \(3, 2\); they must be \(draw, 5\)"):
        CompletedTable(table, np.zeros((3, 2), dtype=np.int8))


def test_nothing_to_impute_in_a_complete_table():
    of = case()
    posterior = independent(of, seed=1, n_draws=20)
    assert impute(posterior, of.table).shape == (0, 5)
    (frame,) = completed_tables(posterior, of.table, 1)
    assert len(frame) == of.table.n_rows
