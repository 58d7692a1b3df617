"""`Posterior.update`: against the posterior learned from all rows at once, with a twin that forgets the weights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.models import Dag
from doxa.structure.averaging.update import held_in_proportion
from support.checks import z_limit
from support.tables import skewed_table

ALL = skewed_table(4, 130, 11, 3)
PAIRS = ~np.eye(4, dtype=bool)


def part(first, last):
    return Table.from_codes(ALL.names, ALL.states, ALL.codes[ALL.row_index][first:last])


@pytest.fixture(scope="module")
def exact():
    return doxa.learn(ALL, prior="uniform", seed=1).edge_diagnostics.probability


def sampled(table, **options):
    return doxa.learn(table, prior="uniform", exact=False, seed=5, **options)


def largest_z(posterior, truth):
    found = posterior.edge_diagnostics
    return float(np.abs((found.probability - truth)[PAIRS] / found.mcse[PAIRS]).max())


def test_kept_graphs_are_weighted_where_the_weights_can_be_trusted(exact, tmp_path):
    old = sampled(part(0, 115), draws=6000, warmup=200)
    updated = old.update(part(115, 130), seed=1)
    assert "the kept graphs were weighted by the new rows (effective number" in updated.how
    assert "Pareto k" in updated.how
    assert "nan" not in updated.how
    assert updated.converged, updated.verdict
    assert largest_z(updated, exact) < z_limit(12)
    assert largest_z(old, exact) > z_limit(12)  # the twin: the weights forgotten
    assert updated.options.n_rows == 130
    assert updated.table.digest == ALL.digest
    assert updated.reference_ess <= old.reference_ess * 1.1  # repeated draws are worth no more than they were
    assert updated.query(ALL.names[0])  # tables are those of all rows
    updated.save(tmp_path / "updated.doxa")
    assert doxa.load(tmp_path / "updated.doxa").how == updated.how


def test_chains_run_again_where_the_weights_cannot_be_trusted(exact):
    updated = sampled(part(0, 25), draws=400, warmup=100).update(part(25, 130), seed=2)
    assert "cannot be trusted" in updated.how
    assert "a new run over all rows" in updated.how
    assert updated.converged, updated.verdict
    assert "graphs of an older posterior agree" in updated.verdict
    assert largest_z(updated, exact) < z_limit(12)


def test_sums_over_graphs_are_made_again(exact):
    updated = doxa.learn(part(0, 50), prior="uniform", seed=1).update(part(50, 130))
    np.testing.assert_allclose(updated.edge_diagnostics.probability, exact, atol=1e-10)
    assert updated.how == "updated by 80 rows: all graphs were summed again, over all rows"
    assert updated.verdict.startswith("Exact")


def test_tables_of_a_graph_are_fitted_again():
    graph = Dag.from_edges([(ALL.names[0], ALL.names[1])], ALL.names)
    updated = doxa.fit(graph, part(0, 50), seed=1).update(part(50, 130))
    whole = doxa.fit(graph, ALL, seed=1)
    np.testing.assert_allclose(updated.entries()["mean"], whole.entries()["mean"], rtol=1e-12)
    assert updated.log_marginal_likelihood.value == pytest.approx(whole.log_marginal_likelihood.value, abs=1e-9)
    assert "fitted again" in updated.how


def test_tables_with_missing_cells_are_sampled_again():
    codes = ALL.codes[ALL.row_index].copy()
    codes[::9, 1] = -1
    new = Table.from_codes(ALL.names, ALL.states, codes[60:])
    updated = sampled(part(0, 60), draws=200, warmup=50).update(new, seed=3)
    assert "cells are missing" in updated.how
    whole = doxa.learn(
        Table.from_codes(ALL.names, ALL.states, np.concatenate([ALL.codes[ALL.row_index][:60], codes[60:]])),
        prior="uniform",
        exact=False,
        seed=4,
    )
    difference = updated.edge_diagnostics.probability - whole.edge_diagnostics.probability
    error = np.hypot(updated.edge_diagnostics.mcse, whole.edge_diagnostics.mcse)
    assert np.abs(difference[PAIRS] / error[PAIRS]).max() < z_limit(12)


def test_holding_times_are_in_proportion_to_weights():
    rng = np.random.default_rng(1)
    log_weights = rng.normal(size=5000)
    values = rng.normal(size=5000) + log_weights
    weights = np.exp(log_weights) / np.exp(log_weights).sum()
    held = held_in_proportion(log_weights)
    times = np.bincount(held, minlength=5000)
    assert np.abs(times - 5000 * weights).max() < 1
    assert values[held].mean() == pytest.approx(weights @ values, abs=0.01)
    assert (np.diff(held) >= 0).all()  # repeated draws stand together: errors count them as such


def test_bad_rows_are_refused(tmp_path):
    posterior = doxa.learn(part(0, 50), seed=1)
    with pytest.raises(ArgumentError, match="lacks the column"):
        posterior.update(part(50, 60).select(ALL.names[:2]))
    labels = {name: [states[0]] * 3 for name, states in zip(ALL.names, ALL.states, strict=True)}
    odd = pd.DataFrame(labels | {ALL.names[0]: ["new", *labels[ALL.names[0]][1:]]})
    with pytest.raises(ArgumentError, match="unseen='add'"):
        posterior.update(odd)
    more = posterior.update(odd, unseen="add")
    assert more.table.states[0][-1] == "new"
    with pytest.raises(ArgumentError, match="'error', or 'add'"):
        posterior.update(odd, unseen="drop")
    blank = Table.from_codes(ALL.names, ALL.states, np.where(np.eye(20, 4) > 0, -1, ALL.codes[ALL.row_index][:20]))
    with pytest.raises(ArgumentError, match="has an indicator column"):
        doxa.learn(blank, indicator=[ALL.names[0]], draws=20, progress=False).update(part(50, 60))


@pytest.fixture(scope="module")
def measured():
    rng = np.random.default_rng(7)
    g = rng.integers(0, 2, 140)
    x = np.exp(0.3 * rng.normal(size=140) + 0.3 * g)
    y = 20 + 3 * np.log(x) + rng.normal(0, 2.0, 140)
    return pd.DataFrame({"g": np.array(["n", "y"])[g], "x": x, "y": y, "k": rng.integers(0, 3, 140)})


def test_numbers_are_updated_too_as_if_all_rows_had_been_there(measured):
    options = {"numbers": ["k"], "transform": {"x": "log", "y": "normal scores"}}
    whole = doxa.learn(doxa.read_table(measured, **options), prior="uniform", seed=1)
    old = doxa.learn(doxa.read_table(measured[:60], **options), prior="uniform", seed=1)
    for rows in (measured[60:], doxa.read_table(measured[60:])):
        updated = old.update(rows)
        assert updated.table.digest == whole.table.digest
        assert updated.edge_diagnostics.probability == pytest.approx(whole.edge_diagnostics.probability, abs=1e-10)
    assert old.edge_diagnostics.probability != pytest.approx(whole.edge_diagnostics.probability, abs=0.05)  # the twin
    assert updated.query("y", given={"x": 1.5}).mean.value == pytest.approx(
        whole.query("y", given={"x": 1.5}).mean.value, rel=0.02
    )


def test_graphs_of_numbers_are_weighted_by_new_rows(measured):
    right = doxa.learn(measured, prior="uniform", family="auto", seed=1).edge_diagnostics.probability
    old = doxa.learn(measured[:130], prior="uniform", family="auto", exact=False, draws=4000, seed=3, progress=False)
    updated = old.update(measured[130:], seed=1)
    assert "the kept graphs were weighted" in updated.how
    assert largest_z(updated, right) < z_limit(12)
    assert largest_z(old, right) > z_limit(12)


def test_missing_numbers_are_sampled_again(measured):
    holes = measured.mask(np.random.default_rng(2).random(measured.shape) < 0.05)
    old = doxa.learn(holes[:70], draws=50, warmup=20, progress=False, seed=1)
    until = doxa.Until(max_draws=60)
    updated = old.update(holes[70:], seed=1, until=until, progress=False)
    assert updated.options.n_rows == 140
    assert updated.options.n_missing == holes.isna().sum().sum()
    assert "cells are missing" in updated.how
