"""Runs killed at random moments: every file opens, goes on, and ends with the bytes of the uninterrupted run.

DOXA_KILLS sets how many kills the slow form makes (default 200; 1000 before a release).
"""

from __future__ import annotations

import os
import shutil
import signal
import time

import numpy as np
import pytest
import test_store_toy as toy

from doxa.estimates.store import open_reader
from support.run_files import serving

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes as POSIX does")


@pytest.fixture
def server():
    with serving(toy.__file__) as made:
        yield made


def kill_repeatedly(server, folder, n_kills, seed):
    whole = folder / "whole.doxa"
    for _ in range(2):  # the second shows how long a run takes
        whole.unlink(missing_ok=True)
        begin = time.perf_counter()
        server.start(whole)
        assert server.reap() == 0
        duration = time.perf_counter() - begin
    expected = toy.contents(whole)
    path, rng = folder / "run.doxa", np.random.default_rng(seed)
    seen = {"kills": 0, "no file yet": 0, "in a transaction": 0}
    while seen["kills"] < n_kills:
        child = server.start(path)
        time.sleep(duration * rng.random() * 0.6)
        os.kill(child, signal.SIGKILL)
        status = server.reap()
        seen["kills"] += os.WIFSIGNALED(status)
        assert os.WIFSIGNALED(status) or status == 0
        if not path.exists():
            seen["no file yet"] += 1
            continue
        seen["in a transaction"] += path.with_name("run.doxa-journal").exists()
        copy = folder / "copy.doxa"
        for suffix in ("", "-journal"):
            if (folder / f"run.doxa{suffix}").exists():
                shutil.copyfile(folder / f"run.doxa{suffix}", folder / f"copy.doxa{suffix}")
        with open_reader(copy) as reader:
            reader.verify()
            done = reader.n_draws
        toy.run(copy)
        assert toy.contents(copy) == expected, f"after {seen}, killed with {done} draws"
        copy.unlink()
        if done == toy.BLOCK * toy.ROUNDS:
            path.unlink()
    litter = {item.name for item in folder.iterdir()} - {"whole.doxa", "run.doxa", "run.doxa.lock", "run.doxa-journal"}
    assert litter <= {".run.doxa.new", ".run.doxa.new-journal"}
    print(seen)
    return seen


def test_a_run_killed_anywhere_goes_on_to_the_same_bytes(server, tmp_path):
    kill_repeatedly(server, tmp_path, n_kills=30, seed=1)


@pytest.mark.slow
def test_a_run_killed_anywhere_long_form(server, tmp_path):
    seen = kill_repeatedly(server, tmp_path, n_kills=int(os.environ.get("DOXA_KILLS", "200")), seed=2)
    assert seen["in a transaction"] > seen["kills"] / 50, "too few kills met a transaction to mean anything"
