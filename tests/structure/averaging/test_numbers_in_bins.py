"""After learning with bins, numbers can be asked about: they are cut where those of the table were."""

import numpy as np
import pandas as pd
import pytest

import doxa
from doxa import read_table
from doxa.errors import ArgumentError, ArgumentTypeError

RNG = np.random.default_rng(8)
LENGTH = np.round(RNG.normal(44, 5, 300), 1)
FRAME = pd.DataFrame(
    {
        "length": np.where(RNG.random(300) < 0.1, np.nan, LENGTH),
        "rain": np.where(RNG.random(300) < 0.6, 0.0, np.round(RNG.gamma(2, 3, 300), 2)),
        "kind": np.where(LENGTH + RNG.normal(0, 2, 300) > 45, "big", "small"),
    }
)
BINS = {"length": [40, 45, 50], "rain": 3}
ASKED = {"draws": 200, "chains": 2, "warmup": 200, "seed": 1}


@pytest.fixture(scope="module")
def posterior():
    return doxa.learn(read_table(FRAME, bins=BINS), **ASKED)


def test_a_question_names_a_number_or_the_bin_that_holds_it(posterior):
    for number, label in [(45.2, "[45, 50)"), (45, "[45, 50)"), (39.99, "< 40"), ("61.5", ">= 50"), (50, ">= 50")]:
        by_number = posterior.query("kind", given={"length": number})
        by_label = posterior.query("kind", given={"length": label})
        assert by_number["big"].value == by_label["big"].value
    assert posterior.query({"rain": 0}).value == posterior.query({"rain": "0"}).value
    assert posterior.predictive("kind", do={"length": 47})["big"].value > 0.5
    assert posterior.query("kind", given={"length": 41})["big"].value < 0.3


def test_numbers_that_are_no_answer(posterior):
    with pytest.raises(ArgumentError, match=r"given\['length'\] is nan; leave the column out where it was not seen"):
        posterior.query("kind", given={"length": float("nan")})
    with pytest.raises(ArgumentError, match=r"given\['length'\] is 'long', which is not one of its states"):
        posterior.query("kind", given={"length": "long"})
    with pytest.raises(ArgumentTypeError, match=r"given\['kind'\] is 3.5; give the label of a state, such as 'big'"):
        posterior.query("length", given={"kind": 3.5})


def test_new_rows_are_cut_where_the_table_was(posterior):
    rows = pd.DataFrame({"length": [41.0, 48.3, 60.0, np.nan], "rain": [0, 0, 1, 30]})
    labels = pd.DataFrame({"length": ["[40, 45)", "[45, 50)", ">= 50", None], "rain": ["0", "0", None, None]})
    labels["rain"] = ["0", "0", *(posterior.table.states[1][k] for k in (1, 2))]
    by_number, by_label = posterior.predict(rows, "kind"), posterior.predict(labels, "kind")
    pd.testing.assert_frame_equal(by_number, by_label)
    assert by_number["probability"][2] > 0.8  # the second row is big
    # one row alone, whose own quantiles would all be itself
    alone = posterior.predict(rows[1:2].reset_index(drop=True), "kind")
    assert alone["probability"].tolist() == by_number["probability"][2:4].tolist()
    assert posterior.log_predictive(FRAME.drop(columns="rain")).mean.value < 0


def test_bins_of_the_rows_own_are_refused(posterior):
    with pytest.raises(ArgumentError, match="give its numbers as they are, without bins: they are cut where those of"):
        posterior.predict(read_table(FRAME, bins=2), "kind")


def test_identifiers_of_new_rows_are_left_out_and_known_columns_are_not(posterior, caplog):
    rows = FRAME.assign(id=[f"r{i}" for i in range(300)])
    rows["kind"] = None
    assert len(posterior.predict(rows, "kind")) == 600
    assert "column 'id' is left out" in caplog.text


def test_completed_tables_hold_the_observed_numbers(posterior):
    for frame in posterior.completed_tables(3):
        seen = FRAME["length"].notna()
        assert frame["length"].dtype == np.float64
        assert np.array_equal(frame["length"][seen], FRAME["length"][seen])
        assert np.array_equal(frame["rain"], FRAME["rain"])
        assert set(frame["length"][~seen]) <= set(FRAME["length"][seen])  # of the bin that was drawn
    cells = posterior.impute()
    assert set(cells["state"]) == set(posterior.table.states[0])
    one, other = (frame["length"] for frame in posterior.completed_tables(2))
    assert not one.equals(other)


def test_filled_numbers_stand_in_the_bin_that_was_drawn():
    """Two columns that determine each other: a missing number lies in the bin of its twin."""
    x = np.arange(200) / 2.0
    frame = pd.DataFrame({"x": np.where(np.arange(200) % 9 == 0, np.nan, x), "y": x})
    posterior = doxa.learn(read_table(frame, bins={"x": 3, "y": 3}), **ASKED)
    filled = posterior.completed_tables(1)[0]["x"].to_numpy()
    cuts = posterior.table.cuts["x"]
    same = np.searchsorted(cuts, filled, side="right") == np.searchsorted(cuts, x, side="right")
    assert same.mean() > 0.97


def test_new_rows_that_are_added_are_cut_where_the_table_was():
    """As if all rows had been read together with these cuts."""
    frame = FRAME.dropna().reset_index(drop=True)
    bins = {"length": [40, 45, 50], "rain": [0.5, 5]}
    first = doxa.learn(read_table(frame[:200], bins=bins), seed=1)
    assert first.stop.reason == "exact"
    whole = doxa.learn(read_table(frame, bins=bins), seed=1)
    updated = first.update(frame[200:])
    assert updated.table.digest == whole.table.digest
    assert np.array_equal(updated.table.measured["length"], frame["length"])
    assert updated.table.cuts == whole.table.cuts
    assert updated.edge("length", "kind").value == pytest.approx(whole.edge("length", "kind").value, abs=1e-12)
    by_label = frame[200:].assign(length="[45, 50)")
    assert first.update(by_label).table.codes.max() < 4
    with pytest.raises(ArgumentError, match=r"rows has 'long' in column 'length', which was cut into the bins < 40"):
        first.update(frame[200:].assign(length="long"))
