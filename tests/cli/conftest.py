"""The command line, called in the process of the test."""

from __future__ import annotations

import sys

import pytest

from doxa import cli
from doxa.report.document import AssetsMissingError, libraries

collect_ignore = ["conftest.py"]  # a search for doctests would import two modules of this name


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
        lines = [line for line in err.splitlines() if "compiling, once for this version" not in line]
        return left.value.code, out, "\n".join(lines)

    return call


@pytest.fixture
def drawing():
    """The libraries that pages of runs are drawn with."""
    try:
        libraries()
    except AssetsMissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "weather.csv"
    path.write_text("rain,wet,age\n" + "no,no,1.5\nyes,yes,2.5\nno,yes,3.5\nyes,yes,4.5\nno,no,5.5\n" * 6)
    return path
