"""The oracle against sums written out in plain Python; what tables are refused; the order of the missing cells."""

from __future__ import annotations

from itertools import product
from math import exp, log

import numpy as np
import pytest
from incomplete_cases import blanked, case

from doxa.data import Table
from doxa.errors import ArgumentError, TableError
from doxa.models.bits import unpack_rows
from doxa.structure import BIC, K2, BDeu
from doxa.structure.cases.incomplete import IncompleteData, completed_table, enumerate_joint, find_missing_cells
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.counting import count_family
from doxa.structure.families.scores import log_bdeu
from doxa.structure.limits import capped
from support.tables import skewed_table

BINARY = [["n", "y"]]


def test_a_complete_table_has_the_known_posterior():
    table = skewed_table(4, 40, seed=2, n_states=3)
    for score in (BDeu(2.0), K2()):
        data = IncompleteData(table, score)
        exact, known = enumerate_joint(data), enumerate_posterior(data.completed(np.zeros(0, dtype=np.int16)))
        assert np.array_equal(exact.rows, known.rows)
        np.testing.assert_allclose(exact.log_score[:, 0], known.log_score, atol=1e-9)
        np.testing.assert_allclose(exact.edge_probabilities, known.edge_probabilities, atol=1e-12)


def test_sums_agree_with_plain_python():
    """Two columns, three graphs, two missing cells in equal rows, written out."""
    codes = [[0, 0], [1, 1], [1, 1], [0, -1], [0, -1], [1, 2]]
    states = [["n", "y"], ["a", "b", "c"]]
    data = IncompleteData(Table.from_codes(["a", "b"], states, codes))
    weights = {}
    for first, second in product(range(3), repeat=2):
        filled = [
            row if row[1] >= 0 else [0, value] for row, value in zip(codes, (0, 0, 0, first, second, 0), strict=True)
        ]
        table = Table.from_codes(["a", "b"], states, filled)
        empty = log_bdeu(count_family(table, "a")) + log_bdeu(count_family(table, "b"))
        for graph, score in (
            ("none", empty),
            ("a -> b", log_bdeu(count_family(table, "a")) + log_bdeu(count_family(table, "b", ("a",)))),
            ("b -> a", log_bdeu(count_family(table, "b")) + log_bdeu(count_family(table, "a", ("b",)))),
        ):
            weights[graph, first, second] = exp(score)
    total = sum(weights.values())
    exact = enumerate_joint(data)
    assert exact.log_evidence == pytest.approx(log(total), abs=1e-10)
    joined = sum(weight for (graph, *_), weight in weights.items() if graph == "a -> b") / total
    assert exact.edge_probabilities[0, 1] == pytest.approx(joined, abs=1e-12)
    for value in range(3):
        share = sum(weight for (_, first, _), weight in weights.items() if first == value) / total
        np.testing.assert_allclose(exact.cell_probabilities[:, value], share, atol=1e-12)


def test_everything_sums_to_one():
    _, _, exact = case("limits, odds")
    assert exact.probability.sum() == pytest.approx(1.0)
    assert exact.graph_probabilities.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(exact.cell_probabilities.sum(axis=1), 1.0)
    assert unpack_rows(exact.rows, 3)[:, 1, 2].all()


def test_missing_cells_are_numbered_by_distinct_row_copy_and_column():
    codes = [[0, -1, 1], [1, 1, 1], [-1, -1, 0], [0, -1, 1]]
    table = Table.from_codes(["a", "b", "c"], BINARY * 3, codes)
    missing_cells = find_missing_cells(table)
    assert missing_cells.source_row.tolist() == [0, 3, 2]
    assert missing_cells.row.tolist() == [0, 1, 2, 2]
    assert missing_cells.column.tolist() == [1, 1, 0, 1]
    assert missing_cells.n_complete == 1
    filled = completed_table(table, missing_cells, np.array([0, 1, 1, 0]))
    assert sorted(filled.codes[filled.row_index].tolist()) == sorted([[0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 1]])


def test_hidden_columns_must_be_declared_and_empty():
    table = Table.from_codes(["a", "b", "h"], BINARY * 3, [[0, 1, -1], [1, -1, -1]])
    with pytest.raises(TableError, match=r"column 'h' has no value at all; leave it out, or declare it with hidden="):
        find_missing_cells(table)
    assert find_missing_cells(table, ["h"]).hidden.tolist() == [2]
    with pytest.raises(ArgumentError, match="hidden names 'b', which has values"):
        find_missing_cells(table, ["h", "b"])
    with pytest.raises(ArgumentError, match="hidden names 'q', which is not a column"):
        find_missing_cells(table, ["h", "q"])
    with pytest.raises(ArgumentError, match=r"it is a list of names: hidden=\['h'\]"):
        find_missing_cells(table, "h")


def test_tables_and_scores_without_a_meaning_are_refused():
    table = Table.from_codes(["a", "b"], BINARY * 2, [[0, -1], [1, 1]])
    with pytest.raises(ArgumentError, match=r"BIC.*no probability of the data.*take BDeu"):
        IncompleteData(table, BIC())
    with pytest.raises(TableError, match="needs at least two columns"):
        find_missing_cells(Table.from_codes(["a"], BINARY, [[0], [-1]]))
    with pytest.raises(TableError, match="no rows"):
        find_missing_cells(Table.from_codes(["a", "b"], BINARY * 2, np.zeros((0, 2), dtype=int)))


def test_too_many_completions_are_refused():
    data = IncompleteData(blanked(skewed_table(4, 100, seed=1), 0.2, seed=1))
    with pytest.raises(ArgumentError, match=r"missing cells, .* completions, and there are 543 graphs"):
        enumerate_joint(data)
    with pytest.raises(ArgumentError, match="n_nodes is 6"):
        enumerate_joint(IncompleteData(skewed_table(6, 10, seed=1)), capped([5] * 6))
