"""For tests of runs in files: what a file holds, to the last byte, writes that fail, a server whose runs can be killed.

The server is a script that calls `serve`.  It imports once, then forks a child for every line (a job) on its standard
input, prints the child's number, and after another line its exit status, so that a test can kill runs by the hundred.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from doxa.estimates.store import open_reader

TESTS = Path(__file__).parents[1]


def contents(path):
    """All that must be the same to the last byte: draws, counters, states."""
    with open_reader(path) as reader:
        reader.verify()
        trace = reader.trace()
        draws = {name: (trace[name].dtype.str, trace[name].shape, trace[name].tobytes()) for name in trace.names}
        info = {name: trace.info[name].tolist() for name in trace.info}
        states = [
            ({name: np.asarray(value).tobytes() for name, value in state.items()}, rng)
            for state, rng in reader.states()
        ]
        return draws, info, states, (reader.n_steps, reader.n_warmup_steps, trace.n_warmup, trace.thin, trace.entropy)


def importing(*folders: Path | str) -> dict[str, str]:
    """The environment of a process that imports from these folders, from tests/ and from where this process does."""
    path = [*map(str, folders), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


COMMAND = """
import os, time
from doxa import cli
from doxa.sampling import driver, runner

runner._SECONDS_PER_COMMIT, driver.STEPS_PER_BLOCK = 0.0, int(os.environ["BLOCK"])
commit = runner.Runner.commit

def commit_slowly(self):  # some seconds in all, on any machine
    time.sleep(0.03)
    if "FULL" in os.environ:
        self.store._connection.execute("PRAGMA max_page_count = 1")  # it cannot grow any more
    commit(self)

runner.Runner.commit = commit_slowly
cli.main()
"""


STARTED = """
import sys
from doxa import cli
from doxa.sampling import runner

advance = runner.Runner._advance

def advance_and_tell(self, *arguments, **options):
    print("started", flush=True)
    runner.Runner._advance = advance
    return advance(self, *arguments, **options)

runner.Runner._advance = advance_and_tell
cli.main()
"""


def interrupted(folder, *words):
    """Call the command line and press Ctrl-C once its chains run; returns exit status, standard output and error."""
    command = [sys.executable, "-c", STARTED, *map(str, words)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True, env=importing()) as process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def signalled(path, *words, send=None, after=0, block=2**12, full=False):
    """Call the command line where its run is kept; send it a signal once that has more draws than ``after``.

    Returns its exit status, standard output and standard error.
    """
    command = [sys.executable, "-c", COMMAND, *map(str, words)]
    environment = importing() | {"BLOCK": str(block)} | ({"FULL": "1"} if full else {})
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=path.parent, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        while send is not None and process.poll() is None and draws_in(path) <= after:
            time.sleep(0.03)
        if send is not None:
            process.send_signal(send)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def draws_in(path):
    """Draws of each chain that a run file holds; 0 if there is none."""
    if not path.exists():
        return 0
    with open_reader(path, check=False) as reader:
        return reader.n_draws


class Failing:
    """A connection to a database that fails at the n-th statement from now."""

    def __init__(self, connection, n, code):
        self.connection, self.left, self.code = connection, n, code

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def execute(self, *arguments):
        self.left -= 1
        if self.left == 0:
            error = sqlite3.OperationalError("injected")
            error.sqlite_errorcode = self.code
            raise error
        return self.connection.execute(*arguments)


class Server:
    """The test's side: starts jobs one at a time, and waits for them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def start(self, job: object) -> int:
        """Fork a child for a job; return its number."""
        self.process.stdin.write(f"{job}\n")
        return int(self.process.stdout.readline())

    def reap(self) -> int:
        """Wait for the child; return its status, as `os.waitpid` gives it."""
        self.process.stdin.write("\n")
        return int(self.process.stdout.readline())


@contextlib.contextmanager
def serving(script: str) -> Iterator[Server]:
    """A server made of a script."""
    pipe = subprocess.PIPE
    command = [sys.executable, script]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=importing()) as process:
        yield Server(process)
        process.stdin.close()


def serve(do: Callable[[str], object]) -> None:
    """The server's side: ``do(job)`` in a child of its own; its exit status is 0 if nothing was raised."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(BaseException):
                do(line.strip())
                status = 0
            os._exit(status)
        print(child, flush=True)
        sys.stdin.readline()  # until then it stays, if dead as a zombie, so that its number is its own
        _, status = os.waitpid(child, 0)
        print(status, flush=True)
