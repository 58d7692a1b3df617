"""Files and options that `doxa learn` refuses: one clear line each, and nothing half-written."""

from __future__ import annotations

import pytest
from cli_cases import QUICK, files_in, two_columns

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
        "id,b\n" + "".join(f"u{i // 2},{i % 2}\n" for i in range(20_000)),
        "column 'id' has 10000 distinct values, and a category at most 1000: it looks like an identifier or free text; "
        "leave it out by naming the others with columns=[...] or --columns, or group its values first",
    ),
    "empty cell in the header": (
        "a,,c\n1,2,3\n",
        "source '{path}': column 2 of 3 has no name in the header; give it one (or remove the column)",
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


def test_bins_for_a_column_given_twice_are_refused(run, table):
    code, _, err = run("learn", table, *QUICK, "--bins", "age=2", "--bins", "age=3")
    assert code == 2
    assert err == "doxa: Invalid value for --bins: column 'age' is given twice; see doxa --help"


def test_the_table_cannot_be_the_output(run, tmp_path):
    path = two_columns(tmp_path)
    before = path.read_bytes()
    (tmp_path / "again.csv").symlink_to(path)
    for name in ("two.csv", "again.csv"):
        code, out, err = run("learn", path, *QUICK, "--output", name)
        assert (code, out) == (2, "")
        assert err == f"doxa: output is '{name}', which is the table itself; give it another name"
    assert path.read_bytes() == before
