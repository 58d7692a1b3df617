"""The command line: answers, exit codes, one clear line for every slip, and nothing half-written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import doxa
from doxa import cli

QUICK = ["--draws", "60", "--warmup", "10", "--thin", "5", "--seed", "1"]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Call the command in a folder of its own; return exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["doxa", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        lines = [line for line in err.splitlines() if "compiling the sampling kernels" not in line]
        return left.value.code, out, "\n".join(lines)

    return call


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "weather.csv"
    path.write_text("rain,wet,age\n" + "no,no,1.5\nyes,yes,2.5\nno,yes,3.5\nyes,yes,4.5\nno,no,5.5\n" * 6)
    return path


def two_columns(tmp_path, text="rain,wet\n" + "no,no\nyes,yes\nno,yes\n" * 8):
    path = tmp_path / "two.csv"
    path.write_text(text)
    return path


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


def test_demo_tells_the_story_the_edges_the_verdict_and_what_to_try_next(run):
    code, out, err = run("demo")
    assert code == 0
    assert err == ""
    assert out.startswith("Risk factors of coronary thrombosis in 1841 men")
    assert re.search(r"^source +target +probability +95% interval +ess +r_hat +joined$", out, re.MULTILINE)
    assert "Converged: 4 chains from the empty graph, a greedy optimum and random graphs agree" in out
    assert out.rstrip().endswith("doxa learn FILE.csv --output edges.csv")


def test_learn_prints_edges_and_verdict(run, tmp_path):
    code, out, err = run("learn", two_columns(tmp_path), *QUICK)
    assert (code, err) == (0, "")
    assert "24 rows x 2 columns" in out
    assert "rain" in out
    assert re.search(r"^(Converged|Not converged|Cannot tell): ", out, re.MULTILINE)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_output_holds_every_edge(run, tmp_path, ending):
    target = tmp_path / f"edges.{ending}"
    code, out, _ = run("learn", two_columns(tmp_path), *QUICK, "--output", target)
    assert code == 0
    assert f"All 2 edges are in {target}." in out
    frame = {"csv": pd.read_csv, "json": lambda p: pd.DataFrame(json.loads(p.read_text())), "parquet": pd.read_parquet}[
        ending
    ](target)
    assert list(frame.columns) == ["source", "target", "probability", "mcse", "ess", "r_hat"]
    assert len(frame) == 2
    again = doxa.learn(tmp_path / "two.csv", draws=60, warmup=10, thin=5, seed=1).edges()
    assert frame["probability"].tolist() == pytest.approx(again["probability"].tolist())
    assert files_in(tmp_path) == sorted([target.name, "two.csv"])  # no temporary file is left


def test_options_reach_the_run(run, table):
    code, out, _ = run(
        "learn", table, *QUICK, "--columns", "wet", "--columns", "age", "--bins", "age=2", "--chains", "3",
        "--sampler", "markov_blanket", "--max-parents", "0", "--equivalent-sample-size", "2.5", "--workers", "2",
    )  # fmt: skip
    assert code == 0
    assert "30 rows x 2 columns; BDeu score, equivalent sample size 2.5" in out
    assert "at most 0 parents" in out
    assert "MarkovBlanket(k=5, w=0.95" in out
    assert "3 chains x 60 draws, one every 5 steps, after 50 steps of warm-up" in out


def test_one_number_bins_every_numeric_column(run, table):
    assert run("learn", table, *QUICK, "--bins", "3")[0] == 0


def test_missing_tokens_can_be_named(run, tmp_path):
    path = two_columns(tmp_path, "rain,wet\n" + "no,no\nyes,-\nno,NA\n" * 5)
    code, _, err = run("learn", path, *QUICK, "--missing", "-")
    assert code == 2
    assert err.startswith("doxa: table has missing cells, in the columns 'wet' (5); ")
    code, out, _ = run("learn", path, *QUICK, "--missing", "nothing")
    assert code == 0
    assert "15 rows x 2 columns" in out


def test_names_cannot_steer_the_terminal(run, tmp_path):
    path = two_columns(tmp_path, '"[red]a*\x1b[31m","q""u\note"\n' + "no,no\nyes,yes\nno,yes\n" * 5)
    code, out, _ = run("learn", path, *QUICK)
    assert code == 0
    assert "\x1b" not in out
    assert "[red]a*\\x1b[31m" in out
    assert 'q"u\\note' in out


# --- knowledge -------------------------------------------------------------------------------------------------------


def three_columns(tmp_path, header="rain,wet,cold"):
    path = tmp_path / "three.csv"
    path.write_text(f"{header}\n" + "no,no,no\nyes,yes,no\nno,yes,yes\nyes,yes,yes\nno,no,yes\n" * 6)
    return path


def learnt(run, tmp_path, path, *words):
    """The posterior of a run with these options, by the file that it was kept in."""
    code, _, err = run("learn", path, *QUICK, *words, "--store", tmp_path / "run.doxa")
    assert (code, err) == (0, "")
    posterior = doxa.load(tmp_path / "run.doxa")
    (tmp_path / "run.doxa").unlink()
    return posterior


def test_knowledge_reaches_the_run(run, tmp_path):
    options = learnt(
        run, tmp_path, three_columns(tmp_path), "--required", "rain,wet", "--forbidden", "wet,cold", "--forbidden",
        "rain,cold", "--max-parents", "wet=1", "--max-parents", "cold=0", "--edge-log-odds", "cold,rain=1.5",
        "--prior", "in_degree", "--score", "k2",
    ).options  # fmt: skip
    assert options.required == (("rain", "wet"),)
    assert options.forbidden == (("rain", "cold"), ("wet", "cold"))
    assert options.max_parents == (2, 1, 0)
    assert options.edge_log_odds == (("cold", "rain", 1.5),)
    assert (options.prior, options.score) == ("in_degree", doxa.structure.K2())


def test_tiers_are_given_in_the_order_of_time(run, tmp_path):
    posterior = learnt(run, tmp_path, three_columns(tmp_path), "--tier", "cold,rain", "--tier", "wet")
    assert posterior.options.forbidden == (("wet", "rain"), ("wet", "cold"))
    assert posterior.edge("wet", "rain").value == 0.0


def test_one_penalty_and_one_cap_are_for_all(run, tmp_path):
    options = learnt(run, tmp_path, three_columns(tmp_path), "--edge-log-odds", "-2", "--max-parents", "1").options
    assert {value for _, _, value in options.edge_log_odds} == {-2.0}
    assert len(options.edge_log_odds) == 6
    assert options.max_parents == (1, 1, 1)


def test_scores_are_chosen_by_name(run, tmp_path):
    path = three_columns(tmp_path)
    for name, text in (("bic", "BIC score"), ("k2", "K2 score, prior count 1")):
        code, out, _ = run("learn", path, *QUICK, "--score", name)
        assert code == 0
        assert out.startswith(f"30 rows x 3 columns; {text}; ")


def test_names_may_hold_commas_and_equals_signs(run, tmp_path):
    path = three_columns(tmp_path, '"rain, mm",wet=1,a=b')
    options = learnt(
        run, tmp_path, path, "--required", '"rain, mm",wet=1', "--forbidden", "wet=1,a=b", "--tier", '"rain, mm",a=b',
        "--tier", "wet=1", "--max-parents", "a=b=1", "--max-parents", "rain, mm=0", "--edge-log-odds", 'a=b,wet=1=-0.5',
    ).options  # fmt: skip
    assert options.required == (("rain, mm", "wet=1"),)
    assert options.forbidden == (("wet=1", "rain, mm"), ("wet=1", "a=b"))
    assert options.max_parents == (0, 2, 1)
    assert options.edge_log_odds == (("a=b", "wet=1", -0.5),)


COLUMNS = "which is not a column of the table; there are 'rain', 'wet', 'cold'"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--required", "rain,snow"], f"required names 'snow', {COLUMNS}"),
        (["--forbidden", "rain,rain"], "forbidden names the edge 'rain' -> 'rain'; an edge joins different nodes"),
        (["--tier", "rain", "--tier", "snow"], f"tiers names 'snow', {COLUMNS}"),
        (["--tier", "rain", "--tier", "wet,rain"], "tiers names 'rain' twice; a node is in one tier"),
        (
            ["--required", "rain,wet", "--forbidden", "rain,wet"],
            "the edge 'rain' -> 'wet' is required and forbidden at once; take one of the two away",
        ),
        (
            ["--required", "rain,wet", "--required", "wet,rain"],
            "the required edges form a cycle: 'rain' -> 'wet' -> 'rain'; a graph has none, so take one of them away",
        ),
        (
            ["--required", "rain,wet", "--tier", "wet", "--tier", "rain"],
            "the edge 'rain' -> 'wet' is required, but it leads from a later tier to an earlier one; change tiers or "
            "required",
        ),
        (
            ["--required", "rain,wet", "--max-parents", "wet=0"],
            "'wet' has 1 required parents ('rain'), but max_parents allows it 0; raise max_parents or take edges out "
            "of required",
        ),
        (["--max-parents", "snow=1"], f"max_parents names 'snow', {COLUMNS}"),
        (["--max-parents", "wet=-1"], "max_parents['wet'] is -1; it must be at least 0"),
        (
            ["--max-parents", "many"],
            "Invalid value for --max-parents: 'many' should be a whole number, or NAME=NUMBER, as in --max-parents "
            "age=4; see doxa --help",
        ),
        (
            ["--required", "rain"],
            "Invalid value for --required: 'rain' should be SOURCE,TARGET, as in --required smokes,heart; "
            "see doxa --help",
        ),
        (
            ["--forbidden", '"rain,wet'],
            "Invalid value for --forbidden: '\"rain,wet' should be names with commas between them; see doxa --help",
        ),
        (
            ["--tier", '"rain'],
            "Invalid value for --tier: '\"rain' should be names with commas between them; see doxa --help",
        ),
        (
            ["--edge-log-odds", "rain,wet"],
            "Invalid value for --edge-log-odds: 'rain,wet' should be a number, or SOURCE,TARGET=NUMBER; "
            "see doxa --help",
        ),
        (
            ["--edge-log-odds", "-1", "--edge-log-odds", "rain,wet=2"],
            "Invalid value for --edge-log-odds: '-1' should be SOURCE,TARGET=NUMBER; see doxa --help",
        ),
        (
            ["--edge-log-odds", "rain,snow=2"],
            "edge_log_odds names 'snow', which is not a column of the table",
        ),
        (
            ["--edge-log-odds", "nan"],
            "edge_log_odds is nan; it must be finite (required= and forbidden= say what is certain)",
        ),
        (
            ["--edge-log-odds", "rain,wet=inf"],
            "edge_log_odds[('rain', 'wet')] is inf; it must be finite (required= and forbidden= say what is certain)",
        ),
        (["--score", "aic"], "score is 'aic'; it must be one of 'bdeu', 'k2', 'bic'"),
        (
            ["--score", "k2", "--equivalent-sample-size", "2"],
            "equivalent_sample_size is 2.0, which belongs to score='bdeu'; with score='k2' leave it out",
        ),
        (["--prior", "flat"], "prior is 'flat'; it must be one of 'uniform', 'in_degree'"),
    ],
)
def test_bad_knowledge_is_refused_in_one_line(run, tmp_path, words, message):
    code, out, err = run("learn", three_columns(tmp_path), *QUICK, *words, "--store", "run.doxa")
    assert (code, out) == (2, "")
    assert err == f"doxa: {message}"
    assert files_in(tmp_path) == ["three.csv"]


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


BAD_FILES = {
    "empty": ("", "source '{path}' is empty; the first line holds the names of the columns"),
    "header only": ("a,b\n", "source '{path}' has a header but no rows"),
    "one column": ("a\nx\ny\n", "table has only the column 'a'; a structure needs at least two columns"),
    "duplicated names": (
        "a,b,a\n1,2,3\n",
        "source '{path}': the header has 'a' more than once; names of columns must differ",
    ),
    "ragged": (
        "a,b\n1,2\n1,2,3\n",
        "source '{path}': line 3 has 3 cells and the header has 2 (separated by commas); correct the line, or put "
        "a cell that contains the separator in quotes",
    ),
    "not UTF-8": (
        b"a,b\nx,caf\xe9\n",
        "source '{path}' is not UTF-8 text: line 2 contains the byte 0xe9; convert the file to UTF-8 (a spreadsheet "
        "saves it as 'CSV UTF-8')",
    ),
    "all missing": (
        "a,b\nx,\ny,NA\n",
        "column 'b': every cell is missing, so there are no states; leave out by naming the others with columns=[...] "
        "or --columns, or say with missing=[...] or --missing which texts mean missing",
    ),
    "10,000 states": (
        "id,b\n" + "".join(f"u{i},{i % 2}\n" for i in range(10_000)),
        "column 'id' has 10000 distinct values, and a category at most 1000: it looks like an identifier; leave it out "
        "by naming the others with columns=[...] or --columns, or group its values first",
    ),
    "empty cell in the header": (
        "a,,c\n1,2,3\n",
        "source '{path}': column 2 of 3 has no name in the header; give it one (or remove the column)",
    ),
    "numbers": (
        "age,b\n" + "".join(f"{i}.5,{i % 2}\n" for i in range(50)),
        "column 'age' (50 distinct numbers with decimals): numbers are categories only if they are integers of at "
        "most 20 distinct values; cut into quantile bins with bins=4 or bins={{'age': 4}} (--bins 4 or --bins "
        "NAME=4), or leave out by naming the others with columns=[...] or --columns",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused_in_one_line(run, tmp_path, name):
    content, message = BAD_FILES[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    code, out, err = run("learn", path, *QUICK, "--output", tmp_path / "edges.csv")
    assert (code, out) == (2, "")
    assert err == "doxa: " + message.format(path=path)
    assert files_in(tmp_path) == ["bad.csv"]


def test_a_file_that_is_not_there(run, tmp_path):
    code, _, err = run("learn", "weather.csv")
    assert code == 2
    assert err == f"doxa: source: no file 'weather.csv' in '{tmp_path}'"


GOOD_FILES = {
    "one row": "a,b\nx,y\n",
    "constant column": "a,b\n" + "x,1\nx,2\n" * 5,
    "star and quote in names": '"a*","q""uote"\n' + "x,y\ny,y\n" * 4,
    "quoted newline": '"two\nlines",b\n' + '"x\ny",z\nu,v\n' * 4,
    "byte-order mark": "\ufeffa,b\n" + "1,2\n2,1\n" * 4,
}


@pytest.mark.parametrize("name", GOOD_FILES)
def test_odd_but_sound_files_are_learnt_from(run, tmp_path, name):
    code, out, err = run("learn", two_columns(tmp_path, GOOD_FILES[name]), *QUICK)
    assert (code, err) == (0, "")
    assert "2 columns" in out
    assert "\ufeff" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--columns", "zzz"], "columns names 'zzz', which is no column; there are: 'rain', 'wet'"),
        (
            ["--sampler", "gibs"],
            "sampler is 'gibs'; it must be one of 'auto', 'single_edge', 'edge_gibbs', 'emc3', 'markov_blanket', "
            "'parent_set_gibbs', 'edge_reversal', 'tempered'",
        ),
        (["--max-parents", "-1"], "max_parents is -1; it must be at least 0"),
        (["--chains", "0"], "chains is 0; it must be at least 1"),
        (["--thin", "0"], "thin is 0; it must be at least 1"),
        (["--seed", "-4"], "seed is -4; it must be at least 0"),
        (["--bins", "1"], "bins is 1; a column is cut into 2 to 1000 bins"),
        (
            ["--bins", "rain"],
            "Invalid value for --bins: 'rain' should be a whole number, or NAME=NUMBER, as in --bins age=4; "
            "see doxa --help",
        ),
        (
            ["--bins", "rain=2", "--bins", "4"],
            "Invalid value for --bins: '4' should be NAME=NUMBER, as in --bins age=4; see doxa --help",
        ),
        (
            ["--equivalent-sample-size", "0"],
            "equivalent_sample_size is 0.0; it must be above 0 and finite (1.0 is usual)",
        ),
        (["--output", "edges.txt"], "output is 'edges.txt'; its ending must be one of .csv, .json, .parquet"),
        (["--output", "."], "output is '.'; its ending must be one of .csv, .json, .parquet"),
        (
            ["--output", "no/such/edges.csv"],
            "output is 'no/such/edges.csv', but the folder 'no/such' does not exist; create it first",
        ),
        (["--output", "/proc/edges.csv"], "output is '/proc/edges.csv', which cannot be written: {reason}"),
        (["--output", "folder.csv"], "output is 'folder.csv', which is a folder; give the name of a file in it"),
    ],
)
def test_bad_options_are_refused_in_one_line(run, tmp_path, words, message):
    path = two_columns(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    options = [word for k, word in enumerate(QUICK) if QUICK[k - k % 2] not in words]
    code, out, err = run("learn", path, *options, *words)
    assert (code, out) == (2, "")
    if "{reason}" in message:
        assert err.startswith("doxa: " + message.partition("{reason}")[0])
    else:
        assert err == f"doxa: {message}"
    assert files_in(tmp_path) == ["folder.csv", "two.csv"]


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


def test_the_table_cannot_be_the_output(run, tmp_path):
    path = two_columns(tmp_path)
    before = path.read_bytes()
    (tmp_path / "again.csv").symlink_to(path)
    for name in ("two.csv", "again.csv"):
        code, out, err = run("learn", path, *QUICK, "--output", name)
        assert (code, out) == (2, "")
        assert err == f"doxa: output is '{name}', which is the table itself; give it another name"
    assert path.read_bytes() == before


def test_written_files_have_the_usual_permissions_and_links_stay_links(run, tmp_path):
    path, target, link = two_columns(tmp_path), tmp_path / "target.csv", tmp_path / "link.csv"
    assert run("learn", path, *QUICK, "--output", target)[0] == 0
    (tmp_path / "plain").touch()
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert run("learn", path, *QUICK, "--output", link)[0] == 0
    assert link.is_symlink()
    assert target.read_text().startswith("source,target,")
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("columns", ["30", "80"])
def test_long_names_are_never_cut(run, tmp_path, monkeypatch, columns):
    names = [f"a_really_quite_long_name_of_a_column_number_{k}" for k in range(2)]
    path = two_columns(tmp_path, ",".join(names) + "\n" + "no,no\nyes,yes\nno,yes\n" * 8)
    monkeypatch.setenv("COLUMNS", columns)
    code, out, _ = run("learn", path, *QUICK)
    assert code == 0
    assert re.search(rf"^({names[0]}  {names[1]}|{names[1]}  {names[0]})  +\d", out, re.MULTILINE)
    assert "…" not in out


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


def test_accuracy_and_limits_can_be_asked_for(run, tmp_path):
    path = two_columns(tmp_path)
    code, out, _ = run("learn", path, "--seed", "1", "--mcse", "0.02", "--ess", "100", "--r-hat", "1.05")
    assert code == 0
    assert "as accurate as asked" in out
    code, out, _ = run("learn", path, "--seed", "1", "--mcse", "0.00001", "--max-draws", "600", "--max-seconds", "60")
    assert code == 0
    assert "4 chains x 600 draws" in out
    assert "The run stopped at its limit (max_draws)" in out


def test_a_run_can_be_kept_shown_and_gone_on_with(run, tmp_path):
    path = two_columns(tmp_path)
    code, out, _ = run("learn", path, *QUICK, "--store", "run.doxa")
    assert code == 0
    assert "4 chains x 60 draws" in out
    code, out, _ = run("show", "run.doxa")
    assert code == 0
    assert "4 chains x 60 draws" in out
    code, longer, _ = run("learn", "--resume", "run.doxa", "--draws", "90")
    assert code == 0
    assert "4 chains x 90 draws" in longer
    code, _, err = run("learn", path, *QUICK, "--store", "run.doxa")
    assert code == 2
    assert err.startswith(f"doxa: '{tmp_path}/run.doxa' exists already; continue that run (resume)")
    code, _, err = run("show", path)
    assert (code, err) == (2, f"doxa: '{path}' is not a run of doxa: it is not an SQLite database")


def test_bins_for_a_column_given_twice_are_refused(run, table):
    code, _, err = run("learn", table, *QUICK, "--bins", "age=2", "--bins", "age=3")
    assert code == 2
    assert err == "doxa: Invalid value for --bins: column 'age' is given twice; see doxa --help"


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


def test_an_interruption_says_what_was_done_and_writes_nothing(tmp_path):
    two_columns(tmp_path)
    words = ["learn", "two.csv", "--draws", "2000000", "--thin", "2000", "--output", "edges.csv"]
    process = subprocess.Popen(
        [Path(sys.executable).parent / "doxa", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert "interrupted" in err
    assert err.rstrip().endswith("nothing was written")
    assert files_in(tmp_path) == ["two.csv"]


def test_show_writes_edges_and_draws(run, table, tmp_path):
    code, _, _ = run("learn", table, *QUICK, "--bins", "2", "--store", tmp_path / "run.doxa")
    assert code == 0
    code, out, err = run(
        "show", tmp_path / "run.doxa", "--output", tmp_path / "edges.csv", "--draws", tmp_path / "draws.parquet"
    )
    assert (code, err) == (0, "")
    posterior = doxa.load(tmp_path / "run.doxa")
    assert f"All {posterior.n_edges.size} draws are in" in out
    assert pd.read_parquet(tmp_path / "draws.parquet").equals(posterior.to_frame())
    assert len(pd.read_csv(tmp_path / "edges.csv")) == len(posterior.edges())
    code, _, err = run("show", tmp_path / "run.doxa", "--draws", tmp_path / "run.doxa")
    assert code == 2
    assert err.startswith("doxa: ")
