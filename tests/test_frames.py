"""Frames that people read: rounded where they are shown, and the numbers as they were."""

from __future__ import annotations

import pickle

import pandas as pd

import doxa
from doxa.frames import ReadFrame


def test_tables_of_results_are_shown_without_powers_of_ten():
    posterior = doxa.learn(doxa.datasets.load("reinis"), edge_log_odds=-9.0, seed=1)
    edges = posterior.edges()
    assert "e-01" in pd.DataFrame(edges).to_string()  # what pandas makes of tiny numbers beside others
    for shown in (repr(edges), edges._repr_html_(), repr(edges[edges["probability"] < 2].head(30))):
        assert "e-01" not in shown
        assert f"{edges['probability'][0]:.4f}" in shown
    assert edges["probability"][0] == posterior.exact.edge_probabilities.max()


def test_a_reader_who_has_chosen_a_format_gets_it():
    frame = ReadFrame({"p": [0.123456789]})
    with pd.option_context("display.float_format", "{:.1f}".format):
        assert repr(frame).split()[-1] == "0.1"
    assert repr(frame).split()[-1] == "0.1235"


def test_the_frame_is_a_frame_of_pandas(tmp_path):
    frame = ReadFrame({"p": [0.123456789, float("nan")]})
    assert isinstance(frame, pd.DataFrame)
    assert isinstance(pickle.loads(pickle.dumps(frame)), ReadFrame)
    frame.to_csv(tmp_path / "frame.csv", index=False)
    assert (tmp_path / "frame.csv").read_text().split()[1] == "0.123456789"
    pd.testing.assert_frame_equal(pd.DataFrame(frame), pd.DataFrame({"p": [0.123456789, float("nan")]}))


def test_filled_cells_and_predictions_are_shown_rounded():
    table = doxa.datasets.load("house_votes").select(["party", "crime", "physician_fee_freeze"])
    posterior = doxa.learn(table, draws=60, warmup=30, seed=1)
    rows = pd.DataFrame({"crime": ["y", "n"]})
    network = doxa.LogisticNetwork({"crime": ["party"]})
    fit = doxa.fit(network, table, draws=60, seed=1)
    for frame in (posterior.impute(), posterior.predict(rows, "party"), fit.predict(rows)):
        assert isinstance(frame, ReadFrame)
        assert len(str(frame["probability"][0])) > 8  # as it is
        assert f"{frame['probability'][0]:.4f}".rstrip("0") in repr(frame)
