"""Networks of numbers and categories: equality, cells left blank, and the file they write."""

from __future__ import annotations

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import Dag, GaussianNetwork, LogOdds, Regression

DAG = Dag.from_edges([("smokes", "pressure"), ("pressure", "ill"), ("smokes", "ill")])
STATES = {"smokes": ["no", "yes"], "ill": ["no", "yes"]}
NETWORK = GaussianNetwork(
    DAG,
    {"pressure": Regression([80.0, 88.0], [[], []], [8.0, 9.0])},
    {"smokes": [0.6, 0.4]},
    STATES,
    {"ill": LogOdds([[-8.0], [-7.0]], [[[0.1]], [[0.08]]])},
)


def test_a_table_is_not_log_odds():
    dag = Dag.from_edges([("smokes", "ill")])
    table = GaussianNetwork(dag, {}, {"smokes": [0.6, 0.4], "ill": [[0.5, 0.5], [0.5, 0.5]]}, STATES)
    odds = GaussianNetwork(
        dag, {}, {"smokes": [0.6, 0.4]}, STATES, {"ill": LogOdds(np.zeros((2, 1)), np.zeros((2, 1, 0)))}
    )
    assert table != odds
    assert odds != table
    assert odds == GaussianNetwork(dag, {}, odds.tables, STATES, odds.log_odds)


def test_blank_cells_are_a_share_of_all_and_leave_the_others_as_they_are():
    whole, holes = (NETWORK.simulate(4000, seed=3, missing=share) for share in (0.0, 0.25))
    codes, numbers = holes.codes[holes.row_index], holes.numbers[holes.row_index]
    gone = codes < 0
    assert (gone[:, 1] == np.isnan(numbers[:, 1])).all()
    assert abs(gone.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / gone.size)
    assert (codes[~gone] == whole.codes[whole.row_index][~gone]).all()
    assert (numbers[:, 1][~gone[:, 1]] == whole.numbers[whole.row_index][:, 1][~gone[:, 1]]).all()
    assert NETWORK.simulate(10, seed=3, missing=1.0).n_missing == 30
    with pytest.raises(ArgumentError, match=r"^missing is 1.5; it must be from 0 to 1, the share of cells to blank$"):
        NETWORK.simulate(10, seed=3, missing=1.5)
    with pytest.raises(ArgumentTypeError, match=r"^missing is 'a'; it must be a number from 0 to 1$"):
        NETWORK.simulate(10, seed=3, missing="a")


def test_a_network_writes_itself(tmp_path):
    NETWORK.write(tmp_path / "a.json.gz")
    assert doxa.read_network(tmp_path / "a.json.gz") == NETWORK
    with pytest.raises(
        ArgumentError, match=r"^network is a GaussianNetwork, which the format 'bif' cannot hold; write J"
    ):
        NETWORK.write(tmp_path / "a.bif")
