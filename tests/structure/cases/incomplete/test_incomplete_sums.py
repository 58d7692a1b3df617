"""Sums over graphs and completions: against lists of both, draws against the sums, and what is too much."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from incomplete_cases import blanked, with_missing_cells

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.models.bits import unpack_rows
from doxa.structure import K2, BDeu, FamilyMixture, Logistic
from doxa.structure.cases.incomplete import IncompleteData, enumerate_joint
from doxa.structure.cases.incomplete.sums import ExactMixture, completion_sums_fit, n_completions
from support.checks import SEED, z_limit
from support.tables import skewed_table

HOLED = with_missing_cells(skewed_table(4, 25, seed=3), [(0, 1), (4, 1), (4, 2), (9, 3), (11, 0)])
CASES = {
    "tables": {},
    "K2, limits, odds": {
        "score": K2(0.5),
        "required": [("x1", "x2")],
        "max_parents": {"x3": 1},
        "edge_log_odds": {("x0", "x1"): 0.9},
        "prior": "uniform",
    },
    "logistic": {"score": Logistic()},
    "mixed": {"score": FamilyMixture()},
    "indicator": {"indicator": ["x1"]},
    "hidden": {"hidden": {"h": 2}},
}


@cache
def learned(name, **options):
    """A run, and the list of all graphs and completions of its table."""
    table = HOLED if name != "hidden" else skewed_table(3, 8, seed=2)
    if name == "indicator":
        table = table.select(["x0", "x1", "x2"])
    posterior = doxa.learn(table, seed=1, **CASES[name], **options)
    own = posterior.options
    data = IncompleteData(posterior.table, own.score, own.structure_prior, [name for name, _ in own.hidden])
    return posterior, enumerate_joint(data, own.limits)


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_all_graphs_with_all_completions(name):
    posterior, listed = learned(name)
    assert posterior.verdict.startswith("Exact: a sum over all graphs within the limits and all ")
    found = posterior.edge_diagnostics
    np.testing.assert_allclose(found.probability, listed.edge_probabilities, atol=1e-9)
    assert (found.mcse == 0).all()
    assert posterior.exact.log_evidence == pytest.approx(listed.log_evidence, abs=1e-9)
    np.testing.assert_allclose(posterior.exact.probability, listed.probability.sum(axis=0), atol=1e-9)
    present = unpack_rows(listed.rows, len(posterior.names))
    chance = listed.graph_probabilities
    for node, label in enumerate(posterior.names):
        for parents, probability in posterior.parent_sets(label, 100)[["parents", "probability"]].to_numpy().tolist():
            own = np.isin(posterior.names, list(parents))
            assert probability == pytest.approx(chance[(present[:, :, node] == own).all(axis=1)].sum(), abs=1e-9)
    paths = present.copy()
    for _ in posterior.names:
        paths = paths | (paths.astype(int) @ present.astype(int) > 0)
    np.testing.assert_allclose(posterior.exact.ancestor_probabilities, np.einsum("g,gij->ij", chance, paths), atol=1e-9)
    best = posterior.graphs(1)[0]
    assert best.frequency.value == pytest.approx(chance.max(), abs=1e-9)


def worst_draw(posterior, listed):
    """How far draws of graphs and cells together are from the list, in standard errors."""
    rows = posterior.trace["rows"].reshape(-1, *posterior.trace["rows"].shape[2:])
    cells = posterior.trace["cells"].reshape(len(rows), -1)
    number = {graph.tobytes(): g for g, graph in enumerate(listed.rows)}
    places = {own.tobytes(): c for c, own in enumerate(listed.cells.astype(cells.dtype))}
    counted = np.zeros(listed.probability.shape)
    for graph, own in zip(rows, cells, strict=True):
        counted[number[graph.tobytes()], places[own.tobytes()]] += 1
    expected = len(rows) * listed.probability
    seen = expected > 20
    assert seen.sum() > 10
    return np.abs((counted - expected) / np.sqrt(expected))[seen].max() / z_limit(int(seen.sum()))


def test_draws_are_of_graphs_and_cells_together(monkeypatch):
    posterior, listed = learned("tables")
    assert worst_draw(posterior, listed) < 1
    again, _ = learned("tables", workers=1)
    np.testing.assert_array_equal(posterior.trace["cells"], again.trace["cells"])

    def alike(self):
        return np.full(len(self.parts), 1 / len(self.parts))

    monkeypatch.setattr(ExactMixture, "probability", property(alike))
    broken, _ = learned.__wrapped__("tables")
    assert worst_draw(broken, listed) > 1
    assert np.abs(broken.edge_diagnostics.probability - listed.edge_probabilities).max() > 1e-3


def test_averages_over_parameters_and_cells_agree_with_a_sampled_run():
    exact, listed = learned("tables")
    sampled = doxa.learn(HOLED, exact=False, seed=SEED, draws=500)
    for node in range(4):
        question = {exact.names[node]: exact.table.states[node][1]}
        one, other = exact.query(question, networks=2000), sampled.query(question, networks=None)
        assert abs(one.value - other.value) < 4.5 * np.hypot(one.mcse, other.mcse)
    second = exact.impute()["probability"].to_numpy()[1::2]
    assert np.abs(np.sort(second) - np.sort(listed.cell_probabilities[:, 1])).max() < 0.03
    one, other = exact.log_marginal_likelihood, sampled.log_marginal_likelihood
    assert one.mcse == 0
    assert abs(one.value - other.value) < 4.5 * other.mcse
    assert len(exact.completed_tables(2)) == 2


def test_exact_answers_can_be_kept(tmp_path):
    posterior, _ = learned("tables")
    posterior.save(tmp_path / "run.doxa")
    again = doxa.load(tmp_path / "run.doxa", HOLED)
    np.testing.assert_array_equal(again.trace["cells"], posterior.trace["cells"])
    assert again.impute().equals(posterior.impute())


def test_what_is_too_much_is_sampled_or_refused():
    table = blanked(skewed_table(5, 60, seed=2), 0.2, seed=1)
    data = IncompleteData(table, BDeu())
    assert n_completions(data.missing_cells) == 2**table.n_missing
    assert not completion_sums_fit(data.missing_cells, 4)
    assert type(doxa.learn(table, draws=10, seed=1)).__name__ == "Posterior"
    with pytest.raises(ArgumentError, match=rf"has {table.n_missing} missing cells: the sums over graphs of its 10\^"):
        doxa.learn(table, exact=True)
    with pytest.raises(ArgumentError, match="score is BIC"):
        doxa.learn(HOLED, score="bic")
    wide = Table.from_codes([f"x{i}" for i in range(13)], [["n", "y"]] * 13, [[0] * 13, [1] * 12 + [-1]] * 3)
    assert not completion_sums_fit(IncompleteData(wide, BDeu()).missing_cells, 12)
