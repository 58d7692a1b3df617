"""Forged run files of graphs: right checksums, and something in them that no run writes; refused by its name."""

from __future__ import annotations

import shutil
import tracemalloc

import numpy as np
import pytest

import doxa
from doxa.data import Table
from doxa.estimates.store import RunFileError
from doxa.structure import EdgeGibbs, MarkovBlanket, Tempered
from support.forging import forge_chain, forge_draws, forge_header, forge_state, put

FEW = {"draws": 12, "warmup": 4, "chains": 2, "seed": 1, "thin": 10, "progress": False}
CYCLE = np.array([[2], [1], [0]], dtype=np.uint64)


def _table(holes):
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, (30, 3))
    codes[:, 1] = np.where(rng.random(30) < 0.8, codes[:, 0], codes[:, 1])
    if holes:
        codes[:4, 2] = -1
    return Table.from_codes(["a", "b", "c"], [["no", "yes"]] * 3, codes)


SAMPLERS = {
    "single": {"sampler": "single_edge", "max_parents": 1, "required": [("a", "b")]},
    "tempered": {"sampler": Tempered(MarkovBlanket(k=2), betas=(1.0, 0.5))},
    "auto": {},
    "holes": {"sampler": "single_edge", "holes": True},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One sound file of every kind."""
    folder = tmp_path_factory.mktemp("sound")
    for name, options in SAMPLERS.items():
        holes = options.pop("holes", False)
        options = options | FEW
        if holes:
            options.pop("thin")
        doxa.learn(_table(holes), store=folder / f"{name}.doxa", **options)
    return folder


def copied(made, tmp_path, name):
    return shutil.copyfile(made / f"{name}.doxa", tmp_path / "run.doxa"), _table(name == "holes")


HEADERS = {
    "an unknown option": (put("options", "magic", 1), "its option magic is nothing that this version of doxa knows"),
    "until, of an unknown name": (put("options", "until", "speed", 1), "its option until.speed is nothing"),
    "until, no mapping": (put("options", "until", 3), "its option until is 3; it must be a mapping"),
    "unhashable quantities": (put("options", "until", "quantities", [{}]), r"until.quantities\[0\] is {}"),
    "quantities, no list": (put("options", "until", "quantities", 5), "its option until.quantities is 5; it must be a"),
    "r_hat below 1": (put("options", "until", "r_hat", 0.5), "its option until cannot be: r_hat is 0.5"),
    "an endless number": (put("options", "n_rows", 10**400), "its option n_rows is a whole number of some 400 digits"),
    "rows, a truth": (put("options", "n_rows", True), "its option n_rows is True; it must be a whole number"),
    "too many states": (put("options", "n_states", [2, 2, 10**12]), r"its option n_states\[2\] is 1000000000000; it"),
    "no such column": (put("options", "numbers", ["z"]), "its option numbers has 'z', which is none of its nodes"),
    "more cells missing than there are": (put("options", "n_missing", 10**6), "its option n_missing is 1000000, and"),
    "an odd prior": (put("options", "prior", "odd"), "its options contradict each other: prior is 'odd'"),
    "an odd score": (put("options", "score", {"name": []}), r"its option score is {'name': \[\]}; it must name a kind"),
    "a score's setting": (put("options", "score", "ess", 1.0), "its option score.ess is nothing"),
    "a weight that is text": (
        put("options", "score", "equivalent_sample_size", "1"), "score.equivalent_sample_size is '1'; it must be a fin",
    ),
    "a sampler's setting": (put("options", "sampler", {"name": "auto", "k": 1}), "the run's sampler.k is nothing"),
    "a sampler without end": (
        put("options", "sampler", {"name": "markov_blanket", "k": 10**12}), "the run's sampler.k is 10+; it must be at",
    ),
    "a pair beyond the columns": (
        put("options", "sampler", {"name": "edge_gibbs", "scan": [[0, 1], [0, 2], [1, 2], [1, 7]]}),
        r"scan holds the pair \(1, 7\), but there are only 3 columns",
    ),
    "weights of other columns": (
        put("options", "sampler", {"name": "markov_blanket", "pair_weights": [[1, 1], [1, 1]]}),
        "pair_weights has shape .* but there are 3 columns",
    ),
    "samplers in samplers": (
        put("options", "sampler", {"name": "cycle", "moves": [[{"name": "cycle", "moves": []}, 1]]}), "sampler",
    ),
    "warm-up that is text": (put("options", "warmup", "4"), "its option warmup is '4'"),
    "draws below one": (put("options", "draws", -5), "its option draws is -5; it must be at least 1"),
    "a source of numbers": (put("options", "source", {"source": 5}), "its option source.source is 5; it must be a"),
    "a source with other words": (put("options", "source", {"source": "t.csv", "run": "x"}), "source.run is nothing"),
    "a reason that is none": (put("options", "stop", {"reason": 1}), "its option stop.held_back is missing"),
    "interventions": (put("options", "interventions", {"where": 5}), "its option interventions.where is 5; it must be"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_a_forged_header_is_refused_by_the_name_of_its_field(made, tmp_path, name):
    path, table = copied(made, tmp_path, "single")
    change, said = HEADERS[name]
    forge_header(path, change)
    for read in (lambda: doxa.load(path), lambda: doxa.load(path, table), lambda: doxa.resume(path, table, draws=20)):
        with pytest.raises(RunFileError, match=said):
            read()


STATES = {
    "a cycle": ("single", "rows", lambda _: CYCLE, "state.rows holds a graph with a cycle"),
    "bits beyond the nodes": ("single", "rows", lambda v: v | np.uint64(2**40), "state.rows holds an edge that cannot"),
    "an edge to itself": ("single", "rows", lambda v: v | np.array([[1], [0], [0]], np.uint64), "an edge that cannot"),
    "no required edge": ("single", "rows", lambda v: v * np.uint64(0), "without an edge that the limits require"),
    "too many parents": (
        "single", "rows", lambda _: np.array([[6], [4], [0]], np.uint64), "more parents than max_parents allows",
    ),
    "another shape": ("single", "rows", lambda v: v[:2], r"state.rows has the shape \[2, 1\]; it must be \[3, 1\]"),
    "another type": ("single", "rows", lambda v: v.astype(np.int64), "state.rows is of type int64; it must be of type"),
    "a node that is none": ("tempered", "memory", lambda v: v + 3, "state.memory is 3; it must be below 3"),
    "a node below none": ("tempered", "memory", lambda v: v - 1, "state.memory holds -1; it must hold nothing below 0"),
    "a block beyond the nodes": ("tempered", "block", lambda v: v | np.uint64(2**60), "state.block has nodes beyond"),
    "a position beyond the cycle": ("tempered", "position", lambda v: v + 900, "state.position is .*; it must be"),
    "other temperatures": ("tempered", "betas", lambda v: v * 0.9, "state.betas is .*; they fall from 1.0"),
    "temperatures that rise": ("auto", "betas", lambda v: v + np.arange(len(v)) + 1, "state.betas holds"),
    "one rung more": ("tempered", "betas", lambda v: np.append(v, 0.1), r"has the shape|must be \[2"),
    "rungs that are none": ("tempered", "farthest", lambda v: v + 5, "state.farthest is .*; it must be below 2"),
    "a temperature that is none": ("auto", "betas", lambda v: v * np.nan, "state.betas holds nan; it must be finite"),
    "streams of another shape": ("tempered", "streams", lambda v: v[:, :2], "state.streams has the shape"),
    "a state that the column has not": ("holes", "cells", lambda v: v + 2, "state.cells has the state .* in a column"),
    "a state below none": ("holes", "cells", lambda v: v * 0 - 1, "state.cells has the state -1 in a column of 2"),
    "a cell more": ("holes", "cells", lambda v: np.append(v, v[:1]), "state.cells has the shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_a_forged_state_is_refused_before_anything_runs(made, tmp_path, name):
    kind, field, change, said = STATES[name]
    path, table = copied(made, tmp_path, kind)
    forge_state(path, field, change)
    assert doxa.load(path).n_edges.shape == (2, 12)  # what was drawn can be read
    with pytest.raises(RunFileError, match=said):
        doxa.resume(path, table, draws=20)


CHAINS = {
    "a field less": (lambda b: b["state"].pop(0), "other fields|arrays that it does not name"),
    "a field with another name": (lambda b: b["state"].append(["more", "int", 1]), "another version of doxa"),
    "a position of text": (
        put("state", 1, ["position", "float", "0x1p+0"]),
        "state.position is 1.0; it must be a whole",
    ),
    "a negative position": (put("state", 1, ["position", "int", -1]), "state.position holds -1; it must hold nothing"),
    "an endless position": (put("state", 1, ["position", "int", 2**70]), "state.position holds"),
    "half warmed up": (lambda b: b["state"][-2].__setitem__(2, 7), "state.warmed_up is 7; it must be one of 0, 1"),
    "a thousand starts": (lambda b: b["state"][-1].__setitem__(2, 1000), "state.n_starts is 1000; it must be one of 1"),
    "another generator": (put("rng", "bit_generator", "MT19937"), "rng_state is of 'MT19937'"),
    "a counter of text": (put("info", "accepted", "many"), "counters are whole numbers with a name"),
}


@pytest.mark.parametrize("name", CHAINS)
def test_what_is_forged_about_a_chain_is_refused(made, tmp_path, name):
    path, table = copied(made, tmp_path, "single")
    change, said = CHAINS[name]
    forge_chain(path, change)
    with pytest.raises(RunFileError, match=said):
        doxa.resume(path, table, draws=20)


DRAWS = {
    "a cycle": ("single", "rows", lambda v: np.broadcast_to(CYCLE, v.shape), "rows holds a graph with a cycle"),
    "a graph that was forbidden": ("single", "rows", lambda v: v * np.uint64(0), "an edge that the limits require"),
    "bits beyond the nodes": ("auto", "rows", lambda v: v | np.uint64(2**40), "rows holds an edge that cannot be"),
    "scores that are none": ("auto", "log_score", lambda v: v * np.nan, "log_score holds nan; it must be finite"),
    "an endless score": ("auto", "log_score", lambda v: v - np.inf, "log_score holds -inf; it must be finite"),
    "a score beyond all": ("auto", "log_score", lambda v: v - 1e300, "log_score holds -1e.300; it must hold nothing"),
    "other numbers of edges": ("auto", "n_edges", lambda v: v + np.int32(1), "n_edges is not the number of edges"),
    "cells that are no numbers": ("holes", "cells", lambda v: v.astype(np.float64) * np.nan, "changes its shape|nan"),
}


@pytest.mark.parametrize("name", DRAWS)
def test_forged_draws_are_refused(made, tmp_path, name):
    kind, quantity, change, said = DRAWS[name]
    path, table = copied(made, tmp_path, kind)
    forge_draws(path, quantity, change)
    for read in (lambda: doxa.load(path), lambda: doxa.resume(path, table, draws=20)):
        with pytest.raises(RunFileError, match=said):
            read()


def test_draws_of_another_shape_or_none_at_all_are_refused(made, tmp_path):
    path, _ = copied(made, tmp_path, "auto")
    forge_draws(path, "rows", lambda v: np.repeat(v, 2, axis=1), everywhere=True)
    with pytest.raises(RunFileError, match=r"rows has the shape \[2, 0, 6, 1\]; it must be \[2, 0, 3, 1\]"):
        doxa.load(path)  # seen before any draw is read
    path, _ = copied(made, tmp_path, "single")
    forge_draws(path, "log_score", lambda v: v.sum(), everywhere=True)
    with pytest.raises(RunFileError, match="a block of draws has no axis of draws"):
        doxa.load(path)


def test_draws_of_another_shape_take_no_memory_before_they_are_refused(made, tmp_path):
    """Two blocks of a few kilobytes that unpack to 60 MB each, which is as much as a block may be."""
    path, table = copied(made, tmp_path, "auto")
    forge_draws(path, "rows", lambda v: np.zeros((len(v), 6 * 10**5, 1), np.uint64), everywhere=True, deflated=True)
    assert path.stat().st_size < 10**6
    for read in (lambda: doxa.load(path), lambda: doxa.resume(path, table, draws=20)):
        tracemalloc.start()
        with pytest.raises(RunFileError, match="rows has the shape"):
            read()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20 * path.stat().st_size


def test_cells_are_held_to_the_columns_of_the_table_when_there_is_one(made, tmp_path):
    path, table = copied(made, tmp_path, "holes")
    forge_draws(path, "cells", lambda v: v * 0 + 2)
    doxa.load(path)  # how many states the column has, only the table says
    with pytest.raises(doxa.DoxaError, match="cells has the state 2 in a column of 2"):
        doxa.load(path, table)
    with pytest.raises(RunFileError, match="cells has the state 2 in a column of 2"):
        doxa.resume(path, table, draws=20)


def test_a_header_of_another_table_is_refused_whatever_its_digest_says(made, tmp_path):
    path, table = copied(made, tmp_path, "single")
    forge_header(path, put("options", "n_states", [2, 2, 9]))
    with pytest.raises(doxa.DoxaError, match=r"the table's numbers of states differ: \(2, 2, 2\) now, and \(2, 2, 9\)"):
        doxa.load(path, table)
    with pytest.raises(RunFileError, match="the table's numbers of states differ"):
        doxa.resume(path, table, draws=20)


def test_steps_that_contradict_the_draws_are_refused(made, tmp_path):
    path, table = copied(made, tmp_path, "single")
    forge_header(path, put("thin", 10**9))
    with pytest.raises(RunFileError, match="steps for 12 draws, which are 1000000000 steps apart"):
        doxa.resume(path, table, draws=20)


def test_every_sampler_and_every_option_comes_through_a_file(tmp_path):
    """The schema refuses nothing that doxa writes."""
    table = _table(holes=False)
    samplers = ["edge_gibbs", "emc3", "parent_set_gibbs", "edge_reversal", EdgeGibbs([(0, 1), (0, 2), (1, 2)]),
                MarkovBlanket(pair_weights=np.ones((3, 3)))]  # fmt: skip
    for k, sampler in enumerate(samplers):
        path = tmp_path / f"{k}.doxa"
        made = doxa.learn(table, sampler=sampler, store=path, **FEW)
        assert doxa.load(path).sampler == made.sampler
        assert doxa.resume(path, table, draws=15).trace.n_draws == 15
