"""`--watch` and `doxa watch`: what is said, refused and left as it was."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from cli_cases import QUICK, files_in, two_columns

from doxa.cli import report
from doxa.report.live_run import LiveRun

pytestmark = pytest.mark.usefixtures("drawing")


def _answer(out):
    """Without what depends on which chain came first."""
    return [line for line in out.splitlines() if not line.startswith("score cache:")]


def test_a_run_that_is_watched_says_where_and_answers_as_it_would(run, tmp_path):
    path = two_columns(tmp_path)
    code, plain, err = run("learn", path, *QUICK, "--store", "plain.doxa")
    assert (code, err) == (0, "")
    code, out, err = run("learn", path, *QUICK, "--store", "run.doxa", "--watch")
    assert (code, _answer(out)) == (0, _answer(plain))
    assert re.fullmatch(
        r"doxa: watch run\.doxa at http://127\.0\.0\.1:\d+/[\w-]{32}/ \(on this machine; to close the page stops "
        r"nothing\)",
        err,
    )
    assert files_in(tmp_path) == ["plain.doxa", "run.doxa", "two.csv"]
    code, _, err = run("learn", "--resume", "run.doxa", "--draws", "80", "--watch")
    assert code == 0
    assert "doxa: watch run.doxa at" in err


def test_a_fit_can_be_watched_too(run, tmp_path):
    (tmp_path / "g.txt").write_text("wet: rain\n")
    words = ["fit", "g.txt", two_columns(tmp_path), "--draws", "40", "--warmup", "10", "--seed", "1"]
    code, plain, _ = run(*words, "--store", "plain.doxa")
    assert code == 0
    code, out, err = run(*words, "--store", "run.doxa", "--watch")
    assert (code, out) == (0, plain)
    assert err.startswith("doxa: watch run.doxa at http://127.0.0.1:")
    assert run(*words, "--watch")[0] == 2
    live = LiveRun(tmp_path / "run.doxa")
    live.status()
    live.wait()
    status = live.status()
    assert (status.state, status.page, status.draws) == ("finished", 1, 40), status.text
    assert 'data-draws="40"' in live.page()
    live.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--watch"], "Invalid value for --watch: the page is made from the file of the run; give it one: --store RUN"),
        (["--watch-port", "8000"], "Invalid value for --watch-port: it is the port of --watch; give that, too"),
        (["--store", "r.doxa", "--watch", "--watch-port", "99999"], "the live view cannot be served on port 99999: "),
    ],
)
def test_what_belongs_together(run, tmp_path, words, message):
    code, out, err = run("learn", two_columns(tmp_path), *QUICK, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"doxa: {message}")
    assert files_in(tmp_path) == ["two.csv"]


def test_two_things_that_say_when_to_stop(run, tmp_path):
    code, _, err = run("learn", two_columns(tmp_path), *QUICK, "--max-draws", "500")
    assert code == 2
    assert err.startswith("doxa: Invalid value for --max-draws: --draws says when to stop, too; give one of them")
    assert run("learn", two_columns(tmp_path), *QUICK, "--max-seconds", "500")[0] == 0


def test_what_is_no_run_cannot_be_watched(run, tmp_path):
    code, _, err = run("watch", "none.doxa")
    assert (code, err) == (2, f"doxa: there is no run file '{tmp_path / 'none.doxa'}'")
    code, _, err = run("watch", two_columns(tmp_path))
    assert code == 2
    assert "is not a run of doxa" in err


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
def test_a_file_is_watched_until_ctrl_c(run, tmp_path):
    assert run("learn", two_columns(tmp_path), *QUICK, "--store", "run.doxa")[0] == 0
    before = (tmp_path / "run.doxa").read_bytes()
    command = [sys.executable, "-c", "from doxa.cli import main; main()", "watch", "run.doxa"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        address = re.search(r"http://\S+/", process.stderr.readline())[0]
        with urllib.request.urlopen(f"{address}status") as answer:
            assert b'"state": "finished"' in answer.read()
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()  # or a failure would wait for it without end
    assert process.returncode == 0
    assert err == "doxa: the page is closed; the run is as it was\n"
    assert (tmp_path / "run.doxa").read_bytes() == before


def test_a_ctrl_c_just_before_a_sleep_is_not_slept_over(run, tmp_path, monkeypatch):
    """Python looks for a signal between its own steps: one that comes at the threshold of a sleep waits for its end."""
    assert run("learn", two_columns(tmp_path), *QUICK, "--store", "run.doxa")[0] == 0
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(report.time, "sleep", sleep)
    code, _, err = run("watch", "run.doxa")
    assert (code, err.splitlines()[-1]) == (0, "doxa: the page is closed; the run is as it was")
    assert max(slept) <= 1.0, "seconds until a signal is seen"
