"""Workers that die: the run ends all the same, with the draws of a run that lost none, or says what happened."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import BrokenExecutor

import distributed
import joblib
import numpy as np
import pytest

import doxa
from doxa.errors import DoxaError, WorkersLostError
from doxa.sampling import driver, workers
from doxa.sampling.runner import run_block
from doxa.sampling.workers import run_in_parallel
from support.tables import skewed_table


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", worker_dashboard_address=":0"
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


@pytest.fixture
def cluster(client):
    """Two workers, also where the last test has lost them."""
    client.cluster.scale(2)
    client.wait_for_workers(2)
    with joblib.parallel_config(backend="dask"):
        yield client.cluster


@pytest.fixture
def processes():
    with joblib.parallel_config(backend="loky", n_jobs=2):
        yield


@pytest.fixture(params=["processes", "cluster"])
def elsewhere(request):
    return request.getfixturevalue(request.param)


def dying(flag, at):
    """A block that kills its own process once, at a block of so many steps, after the chain has moved."""

    def block(sampler, chain, n_steps):
        done = run_block(sampler, chain, n_steps)
        if n_steps >= at:
            try:
                flag.unlink()
            except FileNotFoundError:
                return done
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return block


def test_a_run_that_loses_a_worker_has_the_same_draws(elsewhere, tmp_path, monkeypatch):
    options = {"draws": 600, "seed": 2, "exact": False}
    with joblib.parallel_config(backend="threading", n_jobs=1):
        here = doxa.learn(skewed_table(4, 50, seed=7), **options)
    flag = tmp_path / "alive"
    flag.touch()
    monkeypatch.setattr(driver, "run_block", dying(flag, 60_000))
    there = doxa.learn(skewed_table(4, 50, seed=7), **options)
    assert not flag.exists()  # one was killed
    assert np.array_equal(there.trace["rows"], here.trace["rows"])
    assert np.array_equal(there.log_score, here.log_score)


class Table:
    """Something that tasks share; counts how often it was unpickled in this process."""

    made = 0

    def __setstate__(self, state):
        Table.made += 1


def made(common, own, more):
    return os.getpid(), type(common).made


def test_what_tasks_share_is_unpacked_once_a_process(processes):
    with run_in_parallel(made, 4, None) as run_all:
        shared = Table()
        shared.content = 1
        seen = [one for _ in range(3) for one in run_all(shared, range(4), 0)]
    assert {n for _, n in seen} == {1}
    assert os.getpid() not in {pid for pid, _ in seen}


def fatal(common, own, more):
    os.kill(os.getpid(), signal.SIGKILL)


def test_processes_that_die_again_and_again_are_an_error(processes):
    with (
        run_in_parallel(fatal, 2, None) as run_all,
        pytest.raises(WorkersLostError, match="worker processes died 3 times in a row over the same steps"),
    ):
        run_all(None, range(2), 0)
    assert issubclass(WorkersLostError, DoxaError)


def wrong(common, own, more):
    raise OSError(f"task {own}")


def test_errors_of_tasks_are_those_of_the_tasks(elsewhere):
    with run_in_parallel(wrong, 2, None) as run_all, pytest.raises(OSError, match="task 0"):
        run_all(None, [0, 0], 0)


def slow(common, own, more):
    time.sleep(more)
    return common + own


def test_a_cluster_that_has_lost_all_its_workers_is_an_error(cluster, monkeypatch):
    monkeypatch.setattr(workers, "_PATIENCE", 0.5)
    monkeypatch.setattr(workers, "_LOOK", 0.2)
    options = {"backend": "dask", "wait_for_workers_timeout": 0.5}
    with joblib.parallel_config(**options), run_in_parallel(slow, 2, None) as run_all:
        assert run_all(10, [1, 2, 3], 0.0) == [11, 12, 13]
        threading.Timer(0.5, cluster.scale, [0]).start()
        with pytest.raises(WorkersLostError, match=r"has no workers any more \(\d+ seconds were waited\): start"):
            run_all(10, [1, 2], 30.0)


def test_a_run_that_has_lost_its_workers_keeps_what_was_drawn(tmp_path, monkeypatch):
    table, blocks = skewed_table(4, 50, seed=7), []
    options = {"draws": 3000, "seed": 2, "exact": False}
    whole = doxa.learn(table, **options)

    def lost(self, task, items):
        blocks.append(items)
        if len(blocks) > 4:
            raise WorkersLostError("gone")
        return all_of(self, task, items)

    all_of = workers.Threads.run
    monkeypatch.setattr(workers.Threads, "run", lost)
    with pytest.raises(WorkersLostError) as stopped:
        doxa.learn(table, store=tmp_path / "run.doxa", **options)
    assert stopped.value.__notes__[0].startswith("interrupted ")
    monkeypatch.setattr(workers.Threads, "run", all_of)
    resumed = doxa.resume(tmp_path / "run.doxa", table)
    assert np.array_equal(resumed.trace["rows"], whole.trace["rows"])


@pytest.mark.parametrize("in_place", [False, True])
def test_a_block_that_is_run_again_begins_where_it_began(in_place, monkeypatch):
    """Also where the block that was lost moved the chain's own stream: one that moves it in place must show."""
    table, lost = skewed_table(4, 50, seed=7), []
    options = {"draws": 60, "seed": 2, "sampler": "single_edge", "workers": 1}
    whole = doxa.learn(table, **options)

    def block(sampler, chain, n_steps):
        done = run_block(sampler, chain, n_steps)
        if not lost:
            lost.append(n_steps)
            if in_place:
                chain.rng.bit_generator.state = done[0].rng.bit_generator.state
            raise BrokenExecutor
        return done

    monkeypatch.setattr(driver, "run_block", block)
    with joblib.parallel_config(backend="threading"):
        again = doxa.learn(table, **options)
    assert lost
    assert np.array_equal(again.trace["rows"], whole.trace["rows"]) is not in_place


def test_threads_give_results_in_order_and_the_first_error():
    meet = threading.Barrier(3)  # passed by three at a time

    def task(k):
        meet.wait(timeout=60)
        return k, threading.get_ident()

    with workers.Threads(8, most=3) as threads:
        found = threads.run(task, range(6))
        with pytest.raises(ZeroDivisionError):
            threads.run(lambda k: 1 // k, range(3))
    assert [k for k, _ in found] == list(range(6))
    assert len({thread for _, thread in found}) == 3


@pytest.mark.skipif(os.name != "posix", reason="a signal that wakes the main thread")
def test_an_interrupt_does_not_wait_for_what_is_under_way():
    release, done = threading.Event(), []

    def task(k):
        if k == 0:
            time.sleep(0.2)  # until the main thread waits for results
            os.kill(os.getpid(), signal.SIGINT)
        release.wait(timeout=60)
        done.append(k)

    def run():
        with workers.Threads(2) as threads:
            threads.run(task, range(9))

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
        assert not done
    finally:
        release.set()
        signal.signal(signal.SIGINT, before)
