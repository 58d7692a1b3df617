"""The Trace type: what it holds, what it refuses, and that it cannot be changed."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates import Trace


def make(n_draws=5, **options):
    rng = np.random.default_rng(1)
    draws = {"log_score": rng.normal(size=(2, n_draws)), "words": np.ones((2, n_draws, 3, 1), dtype=np.uint64)}
    return Trace(draws, thin=10, n_warmup=100, entropy=7, info={"accepted": np.array([3, 4])}, **options)


def test_holds_what_it_was_given():
    trace = make()
    assert trace.names == ("log_score", "words")
    assert (trace.n_chains, trace.n_draws, trace.thin, trace.n_warmup, trace.entropy) == (2, 5, 10, 100, 7)
    assert trace["words"].shape == (2, 5, 3, 1)


def test_is_read_only_but_leaves_the_callers_array_alone():
    mine = np.zeros((2, 5))
    trace = Trace({"x": mine})
    with pytest.raises(ValueError, match="read-only"):
        trace["x"][0, 0] = 1
    with pytest.raises(TypeError):
        trace.draws["y"] = mine
    mine[0, 0] = 1
    assert mine.flags.writeable


def test_concatenates_a_continuation():
    both = make(5).concatenate(make(7))
    assert both.n_draws == 12
    np.testing.assert_array_equal(both["log_score"][:, 5:], make(7)["log_score"])
    np.testing.assert_array_equal(both.info["accepted"], [6, 8])
    assert both.n_warmup == 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"draws": {}}, "draws is empty"),
        ({"draws": {"x": np.zeros(3)}}, r"draws\['x'\] has shape \(3,\)"),
        (
            {"draws": {"x": np.zeros((2, 3)), "y": np.zeros((2, 4))}},
            r"draws\['y'\] has shape \(2, 4\) and draws\['x'\]",
        ),
        ({"draws": {"x": np.zeros((2, 3))}, "thin": 0}, "thin is 0"),
        ({"draws": {"x": np.zeros((2, 3))}, "n_warmup": -1}, "n_warmup -1"),
        ({"draws": {"x": np.zeros((2, 3))}, "info": {"accepted": np.zeros(3)}}, "first axis must be the 2 chains"),
        ({"draws": {"x": np.zeros((2, 3))}, "info": {"accepted": np.array(3)}}, "first axis must be the 2 chains"),
    ],
)
def test_bad_traces_are_refused(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        Trace(**arguments)


def test_objects_are_refused():
    with pytest.raises(ArgumentTypeError, match="holds Python objects"):
        Trace({"x": np.full((2, 3), None)})


def test_unknown_names_and_strangers_are_refused():
    trace = make()
    with pytest.raises(ArgumentError, match="no quantity 'score' in this trace; it holds log_score, words"):
        trace["score"]
    with pytest.raises(ArgumentError, match="cannot concatenate: names is"):
        trace.concatenate(Trace({"x": np.zeros((2, 5))}))
    with pytest.raises(ArgumentError, match="cannot concatenate: thin is 10 here and 1 in other"):
        trace.concatenate(Trace(trace.draws, entropy=7, info=trace.info))
    other = {**trace.draws, "words": np.ones((2, 5, 4, 1), dtype=np.uint64)}
    with pytest.raises(ArgumentError, match="cannot concatenate 'words'"):
        trace.concatenate(Trace(other, thin=10, entropy=7, info=trace.info))
