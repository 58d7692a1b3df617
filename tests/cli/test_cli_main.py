"""The command line as a whole: help, words that it does not know, streams and exit codes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from cli_cases import QUICK, files_in, two_columns

import doxa


def test_version(run):
    assert run("--version") == (0, f"doxa {doxa.__version__}\n", "")


def test_no_words_show_the_help(run):
    code, out, err = run()
    assert "Usage: doxa" in out + err
    assert "learn" in out + err
    assert code == 2


@pytest.mark.parametrize("command", ["learn", "demo"])
def test_help_is_for_newcomers(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Usage: doxa {command}" in out


def test_demo_tells_the_story_the_edges_the_verdict_and_what_to_try_next(run, monkeypatch):
    monkeypatch.setattr("doxa.cli.first_steps._FOLDS", 2)  # three seconds each
    code, out, err = run("demo")
    assert code == 0
    assert err == ""
    assert out.startswith("Risk factors of coronary thrombosis in 1841 men")
    assert re.search(r"^source +target +probability +95% interval +ess +r_hat +joined$", out, re.MULTILINE)
    starts = "the empty graph, the best graph of a search, a dense graph and a random graph"
    assert f"Converged: 4 chains from {starts} agree" in out
    assert "What the missing votes may have been" in out
    assert re.search(r"right in 9\d\.\d% \+/- \d\.\d% of 435 rows", out)
    assert out.rstrip().endswith("doxa impute FILE.csv --output cells.csv")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["learn"], "Invalid value for DATA: name the file with the table, or give --resume RUN"),
        (["learn", "x.csv", "--resume", "a", "--store", "b"], "Invalid value for --store: --resume goes on with a run"),
        (["fly"], "No such command 'fly'"),
        (["learn", "x.csv", "--fast"], "No such option: --fast"),
        (["learn", "x.csv", "--draws", "many"], "Invalid value for '--draws'"),
    ],
)
def test_words_that_cannot_be_parsed_are_refused_in_one_line(run, words, part):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith(f"doxa: {part}")
    assert err.endswith("; see doxa --help")
    assert err.count("\n") == 0


def test_names_beyond_the_terminal_s_letters_are_escaped(tmp_path):
    two_columns(tmp_path, "é,日本\n" + "no,no\nyes,yes\nno,yes\n" * 8)
    done = subprocess.run(
        [Path(sys.executable).parent / "doxa", "learn", "two.csv", *QUICK],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0
    assert b"\\xe9" in done.stdout
    assert b"\\u65e5\\u672c" in done.stdout


def test_a_full_disk_under_the_answer_is_one_line(tmp_path):
    two_columns(tmp_path)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [Path(sys.executable).parent / "doxa", "learn", "two.csv", *QUICK],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "doxa: the answer could not be printed: No space left on device"


def test_a_disk_that_fills_up_leaves_the_old_file_alone(tmp_path, monkeypatch):
    from doxa.errors import FileError
    from doxa.output import write_frame

    target = tmp_path / "edges.csv"
    target.write_text("old")

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    with pytest.raises(FileError) as refused:
        write_frame(pd.DataFrame({"a": [1]}), target)
    assert str(refused.value) == f"output is '{target}', which cannot be written: No space left on device"

    def full_for_duckdb(_frame, _path):
        raise duckdb.IOException("Could not write: No space left on device")

    monkeypatch.setattr("doxa.output._write_parquet", full_for_duckdb)
    with pytest.raises(FileError, match="No space left on device"):
        write_frame(pd.DataFrame({"a": [1]}), tmp_path / "edges.parquet")
    assert target.read_text() == "old"
    assert files_in(tmp_path) == ["edges.csv"]


def doxa_command(*words, **more):
    """The command as a process of its own."""
    return [sys.executable, "-m", "doxa", *map(str, words)]


def test_a_reader_that_leaves_does_not_lose_the_output_file(tmp_path):
    names = [f"column_{k}_with_a_long_name" for k in range(12)]
    rows = [names, *(["ab" * 6, "ba" * 6] * 9)]
    (tmp_path / "table.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    command = doxa_command("learn", "table.csv", "--draws", "60", "--seed", "1", "--output", "edges.csv")
    pipe, at_once = subprocess.PIPE, os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, env=at_once) as process:
        process.stdout.readline()
        process.stdout.close()  # as head does
        err = process.stderr.read()
    assert (process.returncode, b"Traceback" in err) == (0, False)
    assert len((tmp_path / "edges.csv").read_text().splitlines()) == 12 * 11 + 1


def test_python_runs_it_as_a_module():
    done = subprocess.run(doxa_command("--version"), capture_output=True, text=True, check=True)
    assert done.stdout == f"doxa {doxa.__version__}\n"


@pytest.mark.parametrize(("shell", "words", "found"), [
    ("bash", "doxa le", "learn"),
    ("bash", "doxa learn --max-sec", "--max-seconds"),
])  # fmt: skip
def test_a_shell_can_complete_what_was_begun(shell, words, found):
    asked = {"_DOXA_COMPLETE": f"complete_{shell}", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(doxa_command(), capture_output=True, text=True, check=False, env=os.environ | asked)
    assert found in done.stdout.split()


def test_help_tells_how_to_install_completion(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "--install-completion" in out
