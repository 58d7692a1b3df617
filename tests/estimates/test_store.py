"""The run store: what goes in comes out, to the bit; what does not fit is refused, and said."""

from __future__ import annotations

import ast
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import test_store_toy as toy
from hypothesis import given
from hypothesis import strategies as st

import doxa.estimates.store
from doxa.errors import ArgumentError, ArgumentTypeError, DoxaError
from doxa.estimates.store import (
    ChainRound,
    LeaseHeldError,
    Round,
    RunFileError,
    RunHeader,
    create_run,
    open_reader,
    open_writer,
)
from doxa.estimates.store import format as store_format
from doxa.estimates.store.format import decode_chain, encode_chain, pack, unpack
from support.run_files import importing

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
RNG_STATE = np.random.default_rng(1).bit_generator.state


def header(**changes):
    fields = {"kind": "toy", "options": {"draws": 10}, "data_digest": "d", "versions": {"doxa": "1"}, "n_chains": 1}
    return RunHeader(**(fields | changes))


def one_round(draws, phase="sampling", state=None, info=None, n_steps=4):
    return Round(phase, n_steps, [ChainRound(draws, info or {}, state or {}, RNG_STATE)])


@given(st.data())
def test_arrays_come_back_to_the_bit(data):
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES))).newbyteorder(data.draw(st.sampled_from("<>")))
    array = data.draw(arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)))
    back = unpack(pack("x", array))
    assert back.dtype == array.dtype.newbyteorder("=")
    assert back.shape == array.shape
    assert back.tobytes() == array.astype(back.dtype).tobytes()
    assert back.flags.writeable


@pytest.mark.parametrize("n_words", [1, 2, 10_000])
def test_long_arrays_come_back_whether_they_shrink_or_not(n_words):
    rng = np.random.default_rng(1)
    for array in (np.zeros(n_words, dtype=np.uint64), rng.integers(0, 2**63, n_words, dtype=np.uint64)):
        packed = pack("x", array)
        np.testing.assert_array_equal(unpack(packed), array)
        assert len(packed.data) <= array.nbytes
    assert packed.codec == "raw"


NAMES = st.text(min_size=1, max_size=20)
NUMBERS = st.one_of(st.integers(), st.floats(), arrays.arrays(np.uint64, (2, 1)), arrays.arrays(np.float64, (0, 2)))


@given(st.dictionaries(NAMES, NUMBERS, max_size=5), st.integers(0, 2**128 - 1), st.integers(-(2**63) + 1, 2**63 - 1))
def test_states_come_back_to_the_bit_and_in_order(state, words, count):
    rng_state = {**RNG_STATE, "state": {"state": words, "inc": 2**128 - 1}}
    text, packed = encode_chain(state, rng_state, {"moves": count})
    back, rng_back, info = decode_chain(text, {name: unpack(value) for name, value in packed.items()})
    assert list(back) == list(state)
    for name, value in state.items():
        assert type(back[name]) is type(value)
        if isinstance(value, int):
            assert back[name] == value
        else:
            np.testing.assert_array_equal(back[name], value, strict=isinstance(value, np.ndarray))
            if isinstance(value, float) and not math.isnan(value):  # a NaN has no sign that JSON could keep
                assert math.copysign(1, back[name]) == math.copysign(1, value)
    assert (rng_back, info) == (rng_state, {"moves": count})


def test_a_run_comes_back(tmp_path):
    rng = np.random.default_rng(3)
    values = {
        "words": rng.integers(0, 2**63, size=(7, 3, 2), dtype=np.uint64),
        "log_score": np.array([0.1, np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308]),
        "n_edges": np.arange(7, dtype=np.int32),
        "nothing": np.empty((7, 0)),
        "flags": np.arange(7) % 2 == 0,
    }
    made = header(thin=10, entropy=(1, 2), created="2026-01-01")
    with create_run(tmp_path / "run.doxa", made) as run:
        run.commit(one_round({}, "warmup", {"rows": values["words"][0], "t": np.int64(3)}, {"accepted": 9}, n_steps=20))
        assert (run.n_draws, run.n_warmup_steps) == (0, 20)
        with pytest.raises(RunFileError, match=r"holds no draws yet, only 20 steps of warm-up; continue the run"):
            run.trace()
        for begin, end in ((0, 2), (2, 2), (2, 7)):
            part = {name: array[begin:end] for name, array in values.items()}
            state = {"rows": values["words"][end - 1], "x": float("nan"), "t": end}
            run.commit(one_round(part, "sampling", state, {"accepted": 2}, n_steps=10 * (end - begin)))
        written = run.trace()
    with open_reader(tmp_path / "run.doxa") as reader:
        reader.verify()
        assert reader.header == made
        assert (reader.n_draws, reader.n_steps, reader.n_warmup_steps) == (7, 70, 20)
        trace, ((state, rng_state),) = reader.trace(), reader.states()
    for found in (written, trace):
        assert {name: found[name].tobytes() for name in found.names} == {n: v.tobytes() for n, v in values.items()}
        assert {name: found[name].dtype for name in found.names} == {n: v.dtype for n, v in values.items()}
        assert (found.thin, found.n_warmup, found.entropy) == (10, 20, (1, 2))
        assert found.info["accepted"].tolist() == [6]
    np.testing.assert_array_equal(state["rows"], values["words"][6])
    assert (rng_state, state["t"], list(state)) == (RNG_STATE, 7, ["rows", "x", "t"])
    assert reader.n_bytes == sum(value.nbytes for value in values.values())


def test_a_run_that_starts_over_keeps_its_steps_as_warm_up_and_no_draws(tmp_path):
    values = np.arange(5.0)
    with create_run(tmp_path / "run.doxa", header()) as run, open_reader(tmp_path / "run.doxa") as beside:
        run.commit(one_round({}, "warmup", {"t": 1}, {"accepted": 9}, n_steps=20))
        run.commit(one_round({"x": values}, "sampling", {"t": 2}, {"accepted": 3}, n_steps=50))
        run.commit(one_round({"x": values}, "sampling", {"t": 3}, {"accepted": 3}, n_steps=50))
        beside.refresh()
        with pytest.raises(ArgumentError, match="the round has 2 chains"):
            run.start_over(one_round({}, "warmup", {"t": 4}).chains * 2)
        assert run.trace()["x"].tolist() == [[*values, *values]]
        run.start_over(one_round({}, "warmup", {"t": 4}).chains)
        assert (run.n_draws, run.n_steps, run.n_warmup_steps, run.n_bytes) == (0, 0, 120, 0)
        with pytest.raises(RunFileError, match="fail their checksum"):  # what it opened is no longer there
            beside.trace()
        run.commit(one_round({}, "warmup", {"t": 5}, n_steps=10))
        run.commit(one_round({"y": values[:2]}, "sampling", {"t": 6}, {"accepted": 2}, n_steps=20))
        beside.refresh()
        beside.verify()
        trace = beside.trace()
    assert (trace.names, trace["y"].tolist(), trace.n_warmup) == (("y",), [[0.0, 1.0]], 130)
    assert trace.info["accepted"].tolist() == [2]
    assert [state["t"] for state, _ in beside.states()] == [6]


def test_large_rounds_are_cut_into_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(store_format, "_PIECE", 1000)
    draws = {"x": np.random.default_rng(1).normal(size=(1000, 7)), "y": np.zeros(1000)}
    with create_run(tmp_path / "run.doxa", header()) as run:
        run.commit(one_round(draws))
        run.commit(one_round(draws))
    with open_reader(tmp_path / "run.doxa") as reader:
        np.testing.assert_array_equal(reader.trace()["x"][0], np.concatenate([draws["x"]] * 2))
        assert len(reader._index.blocks) == 2 * (1000 // (1000 // 56) + 1 + 8)


def test_what_is_handed_out_is_not_what_was_handed_in(tmp_path):
    rows = np.ones(3)
    with create_run(tmp_path / "run.doxa", header()) as run:
        run.commit(one_round({"x": np.zeros(1)}, state={"rows": rows}))
        rows[:] = 9
        assert run.states()[0][0]["rows"].tolist() == [1, 1, 1]


BAD_ROUNDS = {
    "phase is 'burnin'; it must be 'warmup' or 'sampling'": one_round({}, "burnin"),
    "phase is 'warmup', but the run is sampling already; warm-up comes first": one_round({}, "warmup"),
    "the round has 2 chains; the run has 1": Round("sampling", 1, one_round({"x": np.zeros(2)}).chains * 2),
    r"n_steps is -1; it must be a whole number of at least 0": one_round({"x": np.zeros(2)}, n_steps=-1),
    r"chain 0 has no draws in a sampling round; give empty arrays if none were kept": one_round({}),
    r"draws\['x'\] of chain 0 is no array with an axis of draws": one_round({"x": np.float64(1)}),
    r"draws of chain 0 are x <i8 \[\]; those of the run so far are x <f8 \[\]": one_round({"x": np.zeros(2, int)}),
    r"draws of chain 0 are x <f8 \[3\]; those": one_round({"x": np.zeros((2, 3))}),
    r"draws of chain 0 are y <f8 \[\]; those": one_round({"y": np.zeros(2)}),
    r"state\['on'\] is True; a state holds arrays, ints and floats": one_round({"x": np.zeros(2)}, state={"on": True}),
    "rows is a list; a run keeps NumPy arrays": one_round({"x": np.zeros(2)}, state={"rows": [1]}),
    "rows has dtype object; a run keeps booleans, integers, float32": one_round(
        {"x": np.zeros(2)}, state={"rows": np.array([None])}
    ),
    r"info\['n'\] is 0.5; counters are whole numbers": one_round({"x": np.zeros(2)}, info={"n": 0.5}),
    r"info\['n'\] is too large": one_round({"x": np.zeros(2)}, info={"n": 2**63}),
    "rng_state is of 'MT19937'; a run keeps PCG64 and PCG64DXSM": Round(
        "sampling", 1, [ChainRound({"x": np.zeros(2)}, {}, {}, {"bit_generator": "MT19937"})]
    ),
    "rng_state is not the state of a PCG64 generator": Round(
        "sampling", 1, [ChainRound({"x": np.zeros(2)}, {}, {}, {"bit_generator": "PCG64"})]
    ),
}


@pytest.mark.parametrize("message", BAD_ROUNDS)
def test_rounds_that_do_not_fit_are_refused_and_nothing_is_written(tmp_path, message):
    with create_run(tmp_path / "run.doxa", header()) as run:
        run.commit(one_round({"x": np.zeros(2)}))
        with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
            run.commit(BAD_ROUNDS[message])
        run.commit(one_round({"x": np.ones(2)}))
    with open_reader(tmp_path / "run.doxa") as reader:
        assert reader.trace()["x"].tolist() == [[0, 0, 1, 1]]


def test_arrays_of_a_round_must_agree_in_length(tmp_path):
    with (
        create_run(tmp_path / "run.doxa", header()) as run,
        pytest.raises(ArgumentError, match=r"the arrays of a round have \[2, 3\] draws; all must have equally many"),
    ):
        run.commit(one_round({"x": np.zeros(2), "y": np.zeros(3)}))


def test_arrays_beyond_the_limits_are_refused(monkeypatch):
    monkeypatch.setattr(store_format, "MAX_BYTES", 100)
    with pytest.raises(ArgumentError, match="x takes 104 bytes; one array of a run takes at most 100"):
        pack("x", np.zeros(13))
    with pytest.raises(ArgumentError, match="x has 9 axes; a run keeps at most 8"):
        pack("x", np.zeros((1,) * 9))
    with pytest.raises(ArgumentError, match="a name is a text of 1 to 200 characters"):
        pack("", np.zeros(1))


def test_a_name_that_is_taken_is_refused(tmp_path):
    path = tmp_path / "run.doxa"
    create_run(path, header()).close()
    with pytest.raises(RunFileError) as refused:
        create_run(path, header())
    assert str(refused.value) == (
        f"'{path}' exists already; continue that run (resume), choose another name, or delete the file first"
    )
    with pytest.raises(RunFileError, match=r"the folder '.*nowhere' does not exist; create it first"):
        create_run(tmp_path / "nowhere" / "run.doxa", header())
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    with pytest.raises(RunFileError, match=r"'.*dangling' is a link that leads nowhere"):
        create_run(tmp_path / "dangling", header())
    with pytest.raises(ArgumentTypeError, match="path is 3; it must be the name of a file"):
        create_run(3, header())


def test_the_message_about_another_start_names_every_difference(tmp_path):
    path = tmp_path / "run.doxa"
    options = {"score": "bdeu", "draws": 500, "max_parents": 3, "tiers": [["a"], ["b"]], "ess": 1, "seen": None}
    with create_run(path, header(options=options, entropy=7)) as run:
        run.commit(one_round({"x": np.zeros(2)}))
    now = {"score": "k2", "draws": 900, "tiers": (("a",), ("b",)), "ess": 1.0, "new\n": "y" * 100, "seen": None}
    expect = header(
        kind="toys", options=now, data_digest="e", versions={"doxa": "2"}, n_chains=2, thin=5, entropy=8, created="now"
    )
    with pytest.raises(RunFileError) as refused:
        open_writer(path, expect, free=("draws",))
    assert str(refused.value) == (
        f"'{path}' cannot be continued, because it was started in another way:\n"
        '  the kind of run is "toy" in the file and "toys" now\n'
        "  the number of chains is 1 in the file and 2 now\n"
        "  thin is 1 in the file and 5 now\n"
        '  the data are others: their digest is "d" in the file and "e" now\n'
        "  the seed is 7 in the file and 8 now\n"
        "  option 'max_parents' is 3 in the file and absent now\n"
        '  option \'score\' is "bdeu" in the file and "k2" now\n'
        "  option 'new\\n' is absent in the file and \"" + "y" * 76 + "... now\n"
        '  the version of \'doxa\' is "1" in the file and "2" now\n'
        "Continue it with what it was started with, or start a run in another file"
    )
    assert sorted(item.name for item in tmp_path.iterdir()) == ["run.doxa"]  # the lease was given back


def test_free_options_are_taken_over_and_the_rest_stays(tmp_path):
    path = tmp_path / "run.doxa"
    create_run(path, header(options={"draws": 500, "until": None}, entropy=7)).close()
    changed = header(options={"draws": 900, "until": None}, versions={"doxa": "2"}, entropy=None)
    with open_writer(path, changed, free=("draws", "until"), free_versions=("doxa",)) as run:
        assert run.header.options == {"draws": 900, "until": None}
    with open_reader(path) as reader:
        assert reader.header == header(options={"draws": 900, "until": None}, entropy=7)
    with open_writer(path) as run:
        assert run.header.options["draws"] == 900


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": 1}, "kind is 1; it must be a str"),
        ({"n_chains": True}, "n_chains is True; it must be a int"),
        ({"n_chains": 0}, "n_chains is 0 and thin 1; they must be at least 1"),
        ({"entropy": -1}, "entropy is -1; it must be a whole number, a tuple of them, or None"),
        ({"options": {1: 2}}, r"options has keys that are not text: \[1\]"),
        ({"options": {"x": np.nan}}, r"options\['x'\] cannot be written as JSON"),
        ({"options": {"x": {1, 2}}}, r"options\['x'\] cannot be written as JSON"),
        ({"versions": {"doxa": 1}}, "versions are text"),
    ],
)
def test_headers_that_cannot_be_kept_are_refused(changes, message):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        header(**changes)


HOLD = """
import sys
from test_store_toy import HEADER, create_run
with create_run(sys.argv[1], HEADER):
    print("holding", flush=True)
    sys.stdin.readline()
"""


def test_the_second_writer_is_refused_while_the_first_lives_and_readers_are_welcome(tmp_path):
    path = tmp_path / "run.doxa"
    environment = importing(Path(toy.__file__).parent)
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as first:
        assert first.stdout.readline() == "holding\n"
        for attempt in (lambda: open_writer(path), lambda: create_run(path, toy.HEADER)):
            with pytest.raises(LeaseHeldError, match=rf"'{path}' is being written by process {first.pid} on .*; wait"):
                attempt()
        (tmp_path / "link.doxa").symlink_to(path)
        with pytest.raises(LeaseHeldError):
            open_writer(tmp_path / "link.doxa")
        with open_reader(path) as reader:
            assert reader.n_draws == 0
        first.kill()
    assert (tmp_path / "run.doxa.lock").exists()  # left behind, and harmless
    toy.run(path)
    assert not (tmp_path / "run.doxa.lock").exists()


def test_a_second_writer_in_the_same_process_is_refused_too(tmp_path):
    path = tmp_path / "run.doxa"
    with create_run(path, header()), pytest.raises(LeaseHeldError, match=f"by process {os.getpid()} on"):
        open_writer(path)
    open_writer(path).close()


def test_readers_follow_a_live_run(tmp_path):
    path = tmp_path / "run.doxa"
    create_run(path, toy.HEADER).close()
    seen, failures = [], []
    all_have_opened = threading.Barrier(3)

    def watch():
        try:
            with open_reader(path) as reader:
                all_have_opened.wait(60)  # a reader that opens after the last round has nothing to follow
                while reader.n_draws < toy.BLOCK * toy.ROUNDS:
                    reader.refresh()
                    if reader.n_draws:
                        assert reader.trace().n_draws == reader.n_draws
                        seen.append(reader.n_draws)
                    with open_reader(path) as other:  # opening and closing must not disturb the writer's locks
                        other.verify()
        except BaseException as error:
            failures.append(error)

    watchers = [threading.Thread(target=watch) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    all_have_opened.wait(60)
    toy.run(path)
    for watcher in watchers:
        watcher.join(60)
    assert not failures
    assert seen[-1] == toy.BLOCK * toy.ROUNDS
    toy.run(tmp_path / "alone.doxa")
    assert toy.contents(path) == toy.contents(tmp_path / "alone.doxa")


def test_a_reader_cannot_write_and_shows_what_it_opened(tmp_path):
    path = tmp_path / "run.doxa"
    with create_run(path, header()) as run:
        run.commit(one_round({"x": np.zeros(2)}))
        with open_reader(path) as reader:
            run.commit(one_round({"x": np.ones(2)}))
            assert reader.trace()["x"].tolist() == [[0, 0]]
            reader.refresh()
            assert reader.trace()["x"].tolist() == [[0, 0, 1, 1]]
            with pytest.raises(Exception, match="readonly"):
                reader._connection.execute("DELETE FROM blocks")


def test_names_that_mean_something_elsewhere_are_names(tmp_path):
    for name in ("a?mode=memory&x#y%20.doxa", "ünï 'q\".doxa", "file:x.doxa"):
        path = tmp_path / name
        create_run(path, header()).close()
        with open_reader(path) as reader:
            assert reader.header == header()
        assert path.exists()


def test_no_pickle_and_no_code_from_files():
    sources = list(Path(doxa.estimates.store.__file__).parent.glob("*.py"))
    assert len(sources) > 3
    for source in sources:
        tree = ast.parse(source.read_text(encoding="utf-8"))
        imported = {
            name.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for name in node.names
        } | {(node.module or "").partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert imported.isdisjoint({"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"})
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert called.isdisjoint({"eval", "exec", "compile", "__import__"})


def test_every_error_is_one_of_ours():
    assert issubclass(RunFileError, DoxaError)
    assert issubclass(RunFileError, (ValueError, OSError))
    assert issubclass(LeaseHeldError, RunFileError)


def test_the_documented_way_of_reading_without_doxa(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "run-store.md"
    if not page.exists():
        pytest.skip("the documentation is not here")
    code = page.read_text(encoding="utf-8").rpartition("```python\n")[2].partition("```")[0]
    draws = {"log_score": np.random.default_rng(1).normal(size=100), "zeros": np.zeros(1000)[:100]}
    with create_run(tmp_path / "run.doxa", header()) as run:
        run.commit(one_round(draws))
        run.commit(one_round(draws))
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(code, found)
    found["connection"].close()
    np.testing.assert_array_equal(found["log_score"], np.tile(draws["log_score"], 2))
