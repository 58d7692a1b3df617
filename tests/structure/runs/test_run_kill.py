"""`doxa.learn(..., store=...)` killed, or short of space, at random moments, and gone on with until it is done.

The same run is killed again and again.  After every kill the file must open, and hold the beginning of the run that
nobody killed; when the run is done at last, draws, counters and states must be those of that run, to the last byte.
Interruptions from the keyboard, which store what was done up to them, are among the kills.  Then the same with writes
that fail, and by the command line.

DOXA_KILLS sets how many kills the long form makes of each kind of run (default 250, so 1000 in all).
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import time
from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import doxa
from doxa.cli.show import show_graphs
from doxa.estimates.store import RunFileError, open_reader
from doxa.sampling import driver, runner
from doxa.structure import MarkovBlanket
from support.run_files import Failing, contents, draws_in, serve, serving, signalled
from support.tables import skewed_table

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes as POSIX does")

TABLE = skewed_table(4, 50, seed=7)
FIXED = {"sampler": "single_edge", "draws": 3000, "warmup": 700, "thin": 6, "chains": 2}
KINDS = {
    "fixed length": FIXED,
    "until accurate": {"until": doxa.Until(mcse=0.002, max_draws=3000), "thin": 5, "chains": 3},
    "markov_blanket": {"sampler": MarkovBlanket(k=3), "draws": 3000, "thin": 7, "chains": 2},
    "long blocks": {"sampler": "single_edge", "draws": 200, "warmup": 80, "thin": 6000, "chains": 3, "workers": 2},
}
COMMITS = {"long blocks": (0.1, 2**16)}  # seconds from one to the next, steps of a block
SMALL = (0.0, 2**10)  # a commit for every block


def run(job):
    """Begin a run or go on with it, in many small rounds; where it is killed is the test's business."""
    kind, size, path = job.split(":")
    runner._SECONDS_PER_COMMIT, driver.STEPS_PER_BLOCK = COMMITS.get(kind, SMALL)
    if size:
        Path(f"{path}.said").write_text(run_short_of_space(int(size), kind, path))
    else:
        begin_or_go_on(kind, path)


def begin_or_go_on(kind, path):
    options = {"workers": 1, **KINDS[kind]}
    if Path(path).exists():
        doxa.resume(path, TABLE, workers=options["workers"])
    else:
        doxa.learn(TABLE, **options, seed=3, store=path)


def run_short_of_space(size, kind, path):
    """Run while no file may grow beyond a size; return what was said."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        begin_or_go_on(kind, path)
    except RunFileError as error:
        return str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "done"


@pytest.fixture(scope="module")
def server():
    with serving(__file__) as made:
        yield made


def uninterrupted(server, kind, path):
    """A run that nobody disturbs: what its file holds, its draws, and how long it takes."""
    for _ in range(2):  # the second shows how long
        path.unlink(missing_ok=True)
        begin = time.perf_counter()
        server.start(f"{kind}::{path}")
        assert server.reap() == 0
        duration = time.perf_counter() - begin
    with open_reader(path) as reader:
        return contents(path), reader.trace(), duration


def kill_repeatedly(server, folder, kind, n_kills, seed, signals=(signal.SIGKILL,)):
    """Kill runs of one kind; return what was met."""
    expected, draws, duration = uninterrupted(server, kind, folder / "whole.doxa")
    path, rng, seen = folder / "run.doxa", np.random.default_rng(seed), Counter()
    while seen["kills"] < n_kills or path.exists():  # the last run, too, is gone on with to its end
        child = server.start(f"{kind}::{path}")
        if seen["kills"] < n_kills:
            time.sleep(duration * rng.random() * 0.5)
            os.kill(child, signals[int(rng.integers(len(signals)))])
        stopped = server.reap() != 0
        seen["kills"] += stopped
        if not path.exists():
            seen["before there was a file"] += 1
            continue
        seen["in a transaction"] += path.with_name("run.doxa-journal").exists()
        n_draws = assert_beginning_of(draws, path)
        seen["in the warm-up" if n_draws == 0 else "in the draws"] += stopped
        if not stopped:
            assert contents(path) == expected, f"{kind}, after {seen}"
            seen["runs done"] += 1
            path.unlink()
    litter = {item.name for item in folder.iterdir()} - {"whole.doxa", "run.doxa.lock"}
    assert litter <= {".run.doxa.new", ".run.doxa.new-journal"}
    print(kind, dict(seen))
    return seen


def assert_beginning_of(whole, path):
    """The file is sound and holds the beginning of the whole run; return its number of draws."""
    with open_reader(path) as reader:
        reader.verify()
        if reader.n_draws:
            part = reader.trace()
            for name in whole.names:
                assert np.array_equal(part[name], whole[name][:, : reader.n_draws]), (name, reader.n_draws)
        return reader.n_draws


@pytest.mark.parametrize("kind", ["fixed length", "until accurate"])
def test_a_run_killed_again_and_again_ends_with_the_same_bytes(server, tmp_path, kind):
    seen = kill_repeatedly(server, tmp_path, kind, n_kills=5, seed=1)
    assert seen["in the warm-up"] + seen["in the draws"] >= 2


def test_a_run_interrupted_from_the_keyboard_goes_on_to_the_same_bytes(server, tmp_path):
    kill_repeatedly(server, tmp_path, "long blocks", n_kills=4, seed=2, signals=(signal.SIGINT,))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_again_and_again_long_form(server, tmp_path, kind):
    n_kills = int(os.environ.get("DOXA_KILLS", "250"))
    signals = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGINT)
    seen = kill_repeatedly(server, tmp_path, kind, n_kills, seed=3, signals=signals)
    assert seen["in the warm-up"] + seen["in the draws"] > seen["kills"] / 2, "too few kills met a run to mean anything"


def try_sizes(server, folder, sizes):
    """Go on with one run while files may grow to these sizes, then without a limit."""
    expected, draws, _ = uninterrupted(server, "fixed length", folder / "whole.doxa")
    path = folder / "run.doxa"
    for size in sizes:
        server.start(f"fixed length:{size}:{path}")
        assert server.reap() == 0
        said = (folder / "run.doxa.said").read_text()
        assert said == "done" or f"'{path}' cannot be " in said, (size, said)
        if path.exists():
            n_draws = assert_beginning_of(draws, path)
            if said != "done":
                assert f"the file holds {n_draws} draws of each chain" in said or "Nothing was changed" in said, said
    server.start(f"fixed length::{path}")
    assert server.reap() == 0
    assert contents(path) == expected
    path.unlink()


def test_writes_that_fail_anywhere_in_a_run(server, tmp_path):
    try_sizes(server, tmp_path, range(0, 130_000, 14_000))


@pytest.mark.slow
def test_writes_that_fail_anywhere_in_a_run_long_form(server, tmp_path):
    for begin in range(0, 4000, 400):
        try_sizes(server, tmp_path, range(begin, 140_000, 4000))


@pytest.fixture
def in_small_rounds(monkeypatch):
    monkeypatch.setattr(runner, "_SECONDS_PER_COMMIT", SMALL[0])
    monkeypatch.setattr(driver, "STEPS_PER_BLOCK", SMALL[1])


def learn_on(monkeypatch, path, spoil):
    """`doxa.learn` on a connection that ``spoil(writer)`` has prepared to fail; return what was said."""
    learning = import_module("doxa.structure.runs.files")
    begin = learning.begin

    def begin_and_spoil(*arguments):
        writer = begin(*arguments)
        spoil(writer)
        return writer

    with monkeypatch.context() as patched:
        patched.setattr(learning, "begin", begin_and_spoil)
        with pytest.raises(RunFileError) as refused:
            doxa.learn(TABLE, **FIXED, seed=3, store=path, workers=1)
    return str(refused.value)


@pytest.fixture
def expected(in_small_rounds, tmp_path):
    doxa.learn(TABLE, **FIXED, seed=3, store=tmp_path / "whole.doxa", workers=1)
    return contents(tmp_path / "whole.doxa")


def test_a_full_disk_is_said_and_the_run_goes_on_once_there_is_space(tmp_path, monkeypatch, expected):
    path = tmp_path / "run.doxa"
    size = (tmp_path / "whole.doxa").stat().st_size // 4096
    for pages in (size // 2, size * 9 // 10):
        said = learn_on(
            monkeypatch, path, lambda writer, n=pages: writer._connection.execute(f"PRAGMA max_page_count = {n}")
        )
        with open_reader(path) as reader:
            reader.verify()
            n_draws = reader.n_draws
        assert said == (
            f"'{path}' cannot be written: the disk is full (database or disk is full). Nothing of this round was "
            f"stored; the file holds {n_draws} draws of each chain. Make space or remove the cause, then continue the "
            "run (resume): it goes on from there"
        )
        assert doxa.resume(path, TABLE, workers=1).trace.n_draws == FIXED["draws"]
        assert contents(path) == expected
        path.unlink()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC])
def test_a_write_that_fails_is_said_and_the_run_goes_on(tmp_path, monkeypatch, expected, code):
    def spoil(writer, statement):
        writer._connection = Failing(writer._connection, statement, code)

    path = tmp_path / "run.doxa"
    for statement in (2, 97):
        said = learn_on(monkeypatch, path, partial(spoil, statement=statement))
        assert re.match(rf"'{re.escape(str(path))}' cannot be (read or )?written[: ].*\(injected\)", said), said
        doxa.resume(path, TABLE, workers=1)
        assert contents(path) == expected
        path.unlink()


def test_the_command_line_goes_on_with_what_was_stopped(tmp_path, capsys):
    path, table = tmp_path / "run.doxa", tmp_path / "table.csv"
    lines = [",".join(TABLE.names), *(",".join(f"s{code}" for code in row) for row in TABLE.codes[TABLE.row_index])]
    table.write_text("\n".join(lines) + "\n")
    options = {"sampler": "single_edge", "draws": 2000, "warmup": 200, "thin": 50, "chains": 2, "seed": 3}
    whole = doxa.learn(table, **options)  # first: commands that find nothing to compile do not speak of it
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    killed = signalled(path, "learn", table, *words, "--store", "run.doxa", send=signal.SIGKILL)
    assert killed == (-signal.SIGKILL, "", "")
    stored = draws_in(path)
    code, out, err = signalled(path, "learn", "--resume", "run.doxa", send=signal.SIGINT, after=stored)
    assert (code, out) == (130, "")
    found = re.fullmatch(
        r"doxa: interrupted after (\d+) of 2000 draws of each of the 2 chains; warm-up was done; "
        r"go on with it by: doxa learn --resume run\.doxa\n", err
    )  # fmt: skip
    assert found, err
    assert stored < draws_in(path) <= int(found[1]) < 2000
    stored = draws_in(path)
    code, out, err = signalled(path, "learn", "--resume", "run.doxa", full=True)
    assert (code, out) == (2, "")
    assert stored <= draws_in(path) < 2000  # the last page may have had room for one more round
    assert err == (
        f"doxa: '{path}' cannot be written: the disk is full (database or disk is full). Nothing of this round was "
        f"stored; the file holds {draws_in(path)} draws of each chain. Make space or remove the cause, then continue "
        "the run (resume): it goes on from there\n"
    )
    code, out, err = signalled(path, "learn", "--resume", "run.doxa")
    assert (code, err) == (0, "")
    show_graphs(whole)
    assert without_cache(out) == without_cache(capsys.readouterr().out)


def without_cache(text):
    """The score cache is that of a process, not of the run."""
    return [line for line in text.splitlines() if not line.startswith("score cache: ")]


if __name__ == "__main__":
    for _kind in KINDS:  # compile and import all that a child needs
        doxa.learn(TABLE, **{**KINDS[_kind], "workers": 1}, seed=1)
    serve(run)
