"""Runs that are killed and writes that fail: how many were tried, and how many lost anything.

    python benchmarks/faults.py --kills 200 --failures 100 --copies 300 --workers 20 --seed 1

Kills      A run writes a commit every few thousandths of a second; it is killed (SIGKILL, SIGTERM, SIGINT) at a random
           moment, its file is checked, and it is gone on with, again and again, until it is done: the file must then
           hold the draws, counters and states of a run that nobody killed, to the last byte.
Failures   One statement of a commit fails: a full disk, an error of reading or writing, a lock; the file must be as
           it was before the commit, and the same commit must succeed afterwards.  And files that may not grow.
Copies     The run is stopped at a random moment and its file copied, with its journal or without, and cut or changed
           from a random byte on, as a power cut may leave it: whoever reads the copy must be refused, or must get
           whole rounds of the run.
Others     A second writer, file systems that refuse to lock or to be written, folders that vanish, and clocks that jump
           forwards and backwards at every look; a fiftieth as often as runs are killed.

Workers    Workers of joblib's pool of processes and of a local Dask cluster are killed at random moments of runs of
           `doxa.learn`, two in a run at the most; the draws must be those of threads of this process, that nobody
           killed.

A failure is printed with what was tried; the last line has the sums.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import joblib
import numpy as np

import doxa

_TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(_TESTS), str(_TESTS / "estimates")]

import test_store_toy as toy  # noqa: E402

from doxa.estimates.store import (  # noqa: E402
    LeaseHeldError,
    RunFileError,
    create_run,
    lease,
    open_reader,
    open_writer,
)
from support.run_files import Failing, Server, serving  # noqa: E402
from support.tables import skewed_table  # noqa: E402

_CODES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_READ,
          sqlite3.SQLITE_BUSY, sqlite3.SQLITE_READONLY)  # fmt: skip
_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_STATEMENTS = 14  # of a commit
_KILLS_A_RUN = 2  # a run whose workers die three times over the same steps ends, and a busy machine is slow to go on


class Count:
    """What was tried, and what failed."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def check(self, what: str, holds: bool, said: object = "") -> None:
        """One trial."""
        self.tried[what] += 1
        if not holds:
            self.failed[what] += 1
            print(f"FAILED {what}: {said}")


def kill(server: Server, count: Count, folder: Path, n_kills: int, rng: np.random.Generator) -> None:
    """Kill runs until so many have been killed."""
    whole = folder / "whole.doxa"
    for _ in range(2):  # the second shows how long a run takes
        whole.unlink(missing_ok=True)
        begin = time.perf_counter()
        server.start(whole)
        assert server.reap() == 0
        seconds = time.perf_counter() - begin
    expected = toy.contents(whole)
    path = folder / "run.doxa"
    while count.tried["kill"] < n_kills:
        number = _SIGNALS[int(rng.integers(len(_SIGNALS)))]
        child = server.start(path)
        time.sleep(seconds * rng.random() * 0.6)
        os.kill(child, number)
        status = server.reap()
        if path.exists():
            try:
                with open_reader(path) as reader:
                    reader.verify()
                holds, said = True, ""
            except RunFileError as error:
                holds, said = False, str(error)
        else:
            holds, said = True, "no file yet"
        count.check("kill", holds, f"{number.name}: {said}")
        if status == 0 or rng.random() < 0.1:
            toy.run(path)
            count.check("run to its end", toy.contents(path) == expected, "other bytes")
            path.unlink()


def fail(count: Count, folder: Path, n_failures: int, rng: np.random.Generator) -> None:
    """Let statements fail, and go on."""
    whole = folder / "whole2.doxa"
    toy.run(whole)
    expected = toy.contents(whole)
    while count.tried["failed statement"] < n_failures:
        path = folder / "fails.doxa"
        path.unlink(missing_ok=True)
        with create_run(path, toy.HEADER) as run:
            toy.go_on(run, until=int(rng.integers(1, 4)))
            before, real = toy.contents(path), run._connection
            for statement in range(1, _STATEMENTS):
                code = _CODES[int(rng.integers(len(_CODES)))]
                run._connection = Failing(real, statement, code)
                try:
                    toy.go_on(run, until=5)
                    said = "no error"
                except RunFileError as error:
                    said = str(error)
                run._connection = real
                holds = said != "no error" and not real.in_transaction and toy.contents(path) == before
                count.check("failed statement", holds, f"{statement}, code {code}: {said}")
            toy.go_on(run)
        count.check("run to its end", toy.contents(path) == expected, "other bytes after failures")


def outgrow(count: Count, folder: Path, n_failures: int, rng: np.random.Generator) -> None:
    """Let files grow to a random size, by the system's limit."""
    whole = folder / "whole4.doxa"
    toy.run(whole)
    expected, size = toy.contents(whole), whole.stat().st_size
    for _ in range(n_failures):
        path = folder / "limited.doxa"
        path.unlink(missing_ok=True)
        most = int(rng.integers(2**14, size))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
                toy.run(path)
            except RunFileError:
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        count.check("file that may not grow", status == 0, f"to {most} bytes: status {status}, no RunFileError")
        toy.run(path)
        count.check("run to its end", toy.contents(path) == expected, f"other bytes after {most} bytes were enough")


def cut(server: Server, count: Count, folder: Path, n_copies: int, rng: np.random.Generator) -> None:
    """Copies of a file in the middle of being written, cut or changed at any byte."""
    whole = folder / "whole3.doxa"
    toy.run(whole)
    draws = _draws(whole)
    while count.tried["copy"] < n_copies:
        path = folder / "cut.doxa"
        path.unlink(missing_ok=True)
        child = server.start(path)
        time.sleep(0.05 + 0.3 * rng.random())
        os.kill(child, signal.SIGSTOP)
        files = {end: _bytes(path.with_name(path.name + end)) for end in ("", "-journal")}
        os.kill(child, signal.SIGKILL)
        server.reap()
        for _ in range(20 if files[""] else 0):
            copy = folder / f"copy{count.tried['copy']}.doxa"
            kind = ("as it is", "no journal", "cut", "journal cut", "torn")[int(rng.integers(5))]
            data, journal = files[""] or b"", files["-journal"]
            if kind == "cut":
                data = data[: int(rng.integers(len(data)))]
            elif kind == "torn":  # a page that was written in part
                at = int(rng.integers(len(data)))
                data = data[:at] + bytes(min(512, len(data) - at)) + data[at + 512 :]
            if journal is not None and kind == "journal cut":
                journal = journal[: int(rng.integers(len(journal) + 1))]
            copy.write_bytes(data)
            if journal is not None and kind != "no journal":
                copy.with_name(copy.name + "-journal").write_bytes(journal)
            try:
                found = _draws(copy)
                n = next(iter(found.values())).shape[1] if found else 0
                holds = all(np.array_equal(values, draws[name][:, :n]) for name, values in found.items())
                said = "other draws"
            except RunFileError:
                holds, said = True, ""
            count.check("copy", holds, f"{kind}: {said}")
            for end in ("", "-journal", ".lock"):
                copy.with_name(copy.name + end).unlink(missing_ok=True)


def others(count: Count, folder: Path, n_trials: int, rng: np.random.Generator) -> None:
    """A second writer, a file system without locks, a folder that vanishes, a clock that jumps."""
    path = folder / "others.doxa"
    with create_run(path, toy.HEADER) as run:
        toy.go_on(run, until=2)
        for _ in range(n_trials):
            refused(count, "second writer", lambda: open_writer(path).close(), LeaseHeldError)
    before = toy.contents(path)
    for trial in range(n_trials):
        code = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO, errno.EINVAL)[trial % 4]
        with patch.object(lease, "_lock", side_effect=OSError(code, os.strerror(code))):
            refused(count, "file system without locks", lambda: open_writer(path).close(), RunFileError)
            new = folder / f"unlocked{trial}.doxa"
            refused(count, "file system without locks", partial(create_run, new, toy.HEADER), RunFileError)
        count.check(
            "file system without locks", not new.exists() and toy.contents(path) == before, "something was written"
        )
    shutil.copyfile(path, folder / "read_only.doxa")
    (folder / "read_only.doxa").chmod(0o444)
    if os.geteuid() != 0:
        refused(count, "read-only file", lambda: open_writer(folder / "read_only.doxa").close(), RunFileError)
    for trial in range(n_trials):
        gone = folder / f"gone{trial}"
        gone.mkdir()
        with create_run(gone / "run.doxa", toy.HEADER) as run:
            toy.go_on(run, until=int(rng.integers(1, 4)))
            shutil.rmtree(gone)
            refused(count, "vanishing folder", partial(toy.go_on, run, until=6), RunFileError)
    whole = folder / "whole5.doxa"
    toy.run(whole)
    expected = toy.contents(whole)
    for trial in range(n_trials):
        late = folder / f"clock{trial}.doxa"
        jumps: dict[str, Any] = {name: partial(_jumping, getattr(time, name), rng) for name in ("time", "time_ns")}
        with patch.multiple(time, **jumps):
            for until in (1, 4, toy.ROUNDS):
                toy.run(late, until)
        count.check("clock that jumps", toy.contents(late) == expected, "other bytes")


def lose_workers(count: Count, n_kills: int, rng: np.random.Generator) -> None:
    """Kill workers of a pool and of a cluster while they draw."""
    table, options = skewed_table(12, 400, seed=7), {"draws": 30_000, "chains": 4, "exact": False, "progress": False}
    for crew in (_a_pool, _a_cluster):
        what = crew.__name__[3:]
        while count.tried[f"killed worker of a {what}"] < n_kills:
            seed = int(rng.integers(1000))
            expected = doxa.learn(table, seed=seed, workers=2, **options)
            killed: list[int] = []
            with crew() as workers, _killing(workers, killed, rng):
                found = doxa.learn(table, seed=seed, **options)
            same = np.array_equal(found.trace["rows"], expected.trace["rows"])
            for process in killed:
                count.check(f"killed worker of a {what}", same, f"other draws, seed {seed}, process {process}")
            print(f"{len(killed)} workers of a {what} killed in one run", flush=True)


@contextmanager
def _a_pool() -> Iterator[Callable[[], list[int]]]:
    import psutil

    def workers() -> list[int]:
        return [one.pid for one in psutil.Process().children() if "popen_loky" in " ".join(one.cmdline())]

    with joblib.parallel_config(backend="loky", n_jobs=2):
        yield workers


@contextmanager
def _a_cluster() -> Iterator[Callable[[], list[int]]]:
    from distributed import Client, LocalCluster

    ports = {"dashboard_address": ":0", "worker_dashboard_address": ":0"}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, silence_logs=logging.CRITICAL, **ports) as cluster,
        Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        yield lambda: [nanny.pid for nanny in cluster.workers.values() if nanny.pid]


@contextmanager
def _killing(workers: Callable[[], list[int]], killed: list[int], rng: np.random.Generator) -> Iterator[None]:
    """Kill one of the workers every few seconds, for as long as this lasts, but no more than `_KILLS_A_RUN`."""
    done = threading.Event()

    def kill_some() -> None:
        while not done.wait(4.0 + 5.0 * rng.random()):
            found = workers()
            if found and len(killed) < _KILLS_A_RUN:
                killed.append(found[int(rng.integers(len(found)))])
                os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill_some)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def refused(count: Count, what: str, call: Callable[[], object], error: type[Exception]) -> None:
    """One trial of something that must be refused."""
    try:
        call()
        count.check(what, False, "no error")
    except error:
        count.check(what, True)


def _jumping(real: Callable[[], float], rng: np.random.Generator) -> float:
    return type(real())(real() + rng.choice([-1e9, -3600, -1, 0, 1, 3600, 1e9]))


def _draws(path: Path) -> dict[str, np.ndarray]:
    with open_reader(path) as reader:
        reader.verify()
        trace = reader.trace() if reader.n_draws else None
    return {} if trace is None else {name: trace[name] for name in trace.names}


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def main() -> int:
    """Read the words of the command line, and try."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    for name, usual in (("kills", 100), ("failures", 60), ("copies", 200), ("workers", 4), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    asked = parser.parse_args()
    count, rng = Count(), np.random.default_rng(asked.seed)
    with tempfile.TemporaryDirectory() as name, serving(toy.__file__) as server:
        folder = Path(name)
        kill(server, count, folder, asked.kills, rng)
        fail(count, folder, asked.failures, rng)
        cut(server, count, folder, asked.copies, rng)
        outgrow(count, folder, asked.failures // 10, rng)
        others(count, folder, max(4, asked.kills // 50), rng)
    lose_workers(count, asked.workers, rng)
    for what, tried in count.tried.items():
        print(f"{what:<28}{tried:>7} tried{count.failed[what]:>5} failed")
    print(f"{'all':<28}{count.tried.total():>7} tried{count.failed.total():>5} failed")
    return int(count.failed.total() > 0)


if __name__ == "__main__":
    sys.exit(main())
