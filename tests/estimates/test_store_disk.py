"""Full disks and failing writes: a clear message, nothing half done, and the run goes on once there is space."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import test_store_toy as toy

from doxa.estimates.store import RunFileError, create_run, open_reader, open_writer
from support.run_files import Failing, importing


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "whole.doxa"
    toy.run(path)
    return toy.contents(path)


def test_a_full_disk_is_said_and_the_same_round_can_be_written_later(tmp_path, expected):
    path = tmp_path / "run.doxa"
    with create_run(path, toy.HEADER) as run:
        toy.go_on(run, until=4)
        (pages,) = run._connection.execute("PRAGMA page_count").fetchone()
        run._connection.execute(f"PRAGMA max_page_count = {pages + 1}")  # SQLite then finds the disk full
        before = toy.contents(path)
        for _ in range(3):
            with pytest.raises(RunFileError) as refused:
                toy.go_on(run)
            assert str(refused.value) == (
                f"'{path}' cannot be written: the disk is full (database or disk is full). Nothing of this round was "
                f"stored; the file holds {4 * toy.BLOCK} draws of each chain. Make space or remove the cause, "
                "then continue the run (resume): it goes on from there"
            )
            assert toy.contents(path) == before
        run._connection.execute(f"PRAGMA max_page_count = {2**30}")
        toy.go_on(run)
    assert toy.contents(path) == expected


FAILING = [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_BUSY]


@pytest.mark.parametrize("code", FAILING)
def test_a_failure_at_any_statement_leaves_the_run_as_it_was(tmp_path, expected, code):
    path = tmp_path / "run.doxa"
    with create_run(path, toy.HEADER) as run:
        toy.go_on(run, until=2)
        before, real = toy.contents(path), run._connection
        for n in range(1, 14):
            run._connection = Failing(real, n, code)
            with pytest.raises(RunFileError, match=r"\(injected\)|locked by another program"):
                toy.go_on(run, until=3)
            assert not real.in_transaction
            assert toy.contents(path) == before
        run._connection = real
        toy.go_on(run)
    assert toy.contents(path) == expected


def test_an_interrupt_within_a_commit_leaves_the_run_as_it_was(tmp_path, expected):
    class Interrupted(Failing):
        def execute(self, *arguments):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return self.connection.execute(*arguments)

    path = tmp_path / "run.doxa"
    with create_run(path, toy.HEADER) as run:
        toy.go_on(run, until=2)
        before, real = toy.contents(path), run._connection
        for n in range(2, 14):
            run._connection = Interrupted(real, n, None)
            with pytest.raises(KeyboardInterrupt):
                toy.go_on(run, until=3)
            assert toy.contents(path) == before
        run._connection = real
        toy.go_on(run)
    assert toy.contents(path) == expected


def test_a_change_by_another_program_is_noticed(tmp_path):
    path = tmp_path / "run.doxa"
    with create_run(path, toy.HEADER) as run:
        toy.go_on(run, until=2)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("DELETE FROM rounds WHERE round = (SELECT max(round) FROM rounds)")
        other.close()
        with pytest.raises(RunFileError, match="was changed by another program; open it again to continue the run"):
            toy.go_on(run)


LIMITED = """
import resource, sys
from test_store_toy import HEADER, create_run, go_on, open_writer
from doxa.estimates.store import RunFileError
import os
path = sys.argv[1]
for size in map(int, sys.argv[2:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        with open_writer(path, HEADER) if os.path.exists(path) else create_run(path, HEADER) as run:
            go_on(run)
        print("done")
    except RunFileError as error:
        print(str(error).replace(chr(10), " "))
"""


def limited(path, sizes):
    """Go on with a run while no file may grow beyond a size; one line for each size."""
    command = [sys.executable, "-c", LIMITED, str(path), *map(str, sizes)]
    env = importing(Path(toy.__file__).parent)
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env).stdout.splitlines()


def try_sizes(folder, sizes, expected):
    path = folder / "run.doxa"
    for size, line in zip(sizes, limited(path, sizes), strict=True):
        assert line == "done" or "cannot be" in line, (size, line)
    if path.exists():
        with open_reader(path) as reader:
            reader.verify()
    toy.run(path)
    assert toy.contents(path) == expected
    path.unlink()


@pytest.mark.skipif(sys.platform == "win32", reason="limits file sizes as POSIX does")
def test_writes_that_fail_anywhere_in_a_file(tmp_path, expected):
    try_sizes(tmp_path, range(0, 60_000, 3000), expected)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits file sizes as POSIX does")
def test_writes_that_fail_anywhere_in_a_file_long_form(tmp_path, expected):
    for begin in range(0, 3000, 100):
        try_sizes(tmp_path, range(begin, 90_000, 3000), expected)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_devices_are_no_run_files():
    with pytest.raises(RunFileError, match="'/dev/full' is a device or a pipe, not a file"):
        open_writer("/dev/full")
