"""The catalogue of bad calls, `bad_calls.txt`: each call of Python and of the command line with its exact message.

A line is a call, and the indented line below it is what is said.  To add one, write the call; then

    DOXA_UPDATE_SNAPSHOT=1 python -m pytest tests/project/test_bad_calls.py

writes what is said, which is to be read: does it name the argument, the value, the rule and the way out?
"""

from __future__ import annotations

import os
import shlex
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import doxa
from doxa import cli
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.models import GaussianNetwork
from doxa.models.graph_files import read_graph
from doxa.models.network_files import read_evidence_file
from doxa.parameters import Averages
from doxa.structure import K2, Additive, BDeu, BGe, ConditionalGaussian, MarkovBlanket, Tempered

CATALOGUE = Path(__file__).with_name("bad_calls.txt")
LEAST = 200  # calls
CODES = np.array([[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1]] * 3)
FILES = {
    "t.csv": "a,b,c\n" + "n,n,n\ny,y,y\nn,y,n\ny,n,y\n" * 3,
    "numbers.csv": "x,y,c\n" + "0.5,1.5,n\n1.5,0.25,y\n2.5,0.75,n\n-1.0,3.5,y\n" * 3,
    "days.csv": "day,a,x\n" + "".join(f"2026-01-{k:02d},{'ny'[k % 2]},{k * 0.37 % 1}\n" for k in range(1, 13)),
    "holes.csv": "a,b\nn,n\ny,\n,y\nn,n\n",
    "ragged.csv": "a,b\n1,2\n1,2,3\n",
    "empty.csv": "",
    "header.csv": "a,b\n",
    "twice.csv": "a,a\n1,2\n",
    "quote.csv": 'a,b\n"1,2\n',
    "empty_column.csv": "a,b\n1,\n2,\n",
    "cells.csv": "x,y\n0.5,1.5\n1.5,low\n2.5,0.5\n",
    "cycle.csv": "source,target\na,b\nb,a\n",
    "graph.csv": "source,target\na,b\n",
    "graph.dot": "digraph { a -> b -- c }",
    "n.bif": "network n { } variable a { type discrete [ 2 ] { n, y }; } probability ( a ) { table 0.5, 0.6; }",
    "short.bif": "network n { } variable a { type discrete [ 2 ] { n, y };",
    "n.xml": "<BIF><NETWORK></NETWORK></BIF>",
    "n.uai": "BAYES 1 2 1 1 0 2 0.5",
    "n.json": "[]",
    "n.txt": "network",
    "fine.bif": "network n { } variable a { type discrete [ 2 ] { n, y }; } probability ( a ) { table 0.5, 0.5; }",
    "e.evid": "1 7 0",
    "run.doxa": "SQLite format 3",
}


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What a call may name; files are in the current folder."""
    folder = tmp_path_factory.mktemp("calls")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "folder.csv").mkdir()
    table = Table.from_codes(["a", "b", "c"], [["n", "y"]] * 3, CODES)
    network = doxa.CategoricalNetwork(
        doxa.Dag.from_edges([("a", "b")]),
        {"a": [0.5, 0.5], "b": [[0.5, 0.5], [0.1, 0.9]]},
        {v: ["n", "y"] for v in "ab"},
    )
    given = {
        "doxa": doxa, "np": np, "pd": pd, "date": date, "Table": Table, "read_graph": read_graph,
        "GaussianNetwork": GaussianNetwork,
        "read_evidence_file": read_evidence_file, "Averages": Averages, "Additive": Additive, "BDeu": BDeu, "BGe": BGe,
        "ConditionalGaussian": ConditionalGaussian, "K2": K2, "MarkovBlanket": MarkovBlanket, "Tempered": Tempered,
        "table": table, "network": network, "dag": network.dag, "inf": np.inf, "nan": np.nan,
        "numbers": doxa.read_table(folder / "numbers.csv"), "logistic": doxa.LogisticNetwork({"b": ["a"]}),
        "posterior": doxa.learn(table, seed=1, chains=2), "spins": doxa.ising_grid(2, 2, coupling=0.3),
        "of_numbers": doxa.learn(doxa.read_table(folder / "numbers.csv"), seed=1, chains=2, progress=False),
        "line": GaussianNetwork(doxa.Dag.from_edges([("x", "y")]), {"x": (0.0, [], 1.0), "y": (0.0, [1.0], 1.0)}),
    }  # fmt: skip
    return folder, given


def entries():
    """Calls and what they say, in the order of the file."""
    found, blocks = {}, CATALOGUE.read_text(encoding="utf-8").splitlines()
    for line in blocks:
        if line.startswith("    "):
            found[call] = line[4:]  # noqa: F821 (the line before)
        elif line and not line.startswith("#"):
            call = line
            found[call] = ""
    return found


def said_by(call, names, monkeypatch, capsys):
    """What the call says; its folder's name is left out."""
    folder, given = names
    monkeypatch.chdir(folder)
    if call.startswith("$ doxa"):
        monkeypatch.setattr(sys, "argv", shlex.split(call[2:]))
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        said = f"status {left.value.code}: {err.strip()}"
        assert out == ""
    else:
        with pytest.raises(doxa.DoxaError) as raised:
            eval(call, dict(given))  # a line of our own file
        said = f"{type(raised.value).__name__}: {raised.value}"
    return said.replace(str(folder.resolve()), "FOLDER").replace(str(folder), "FOLDER").replace("\n", "\\n")


@pytest.mark.parametrize("call", entries())
def test_the_exact_message(call, names, monkeypatch, capsys):
    said = said_by(call, names, monkeypatch, capsys)
    if os.environ.get("DOXA_UPDATE_SNAPSHOT"):
        text = CATALOGUE.read_text(encoding="utf-8").splitlines()
        at = text.index(call)
        old = at + 1 < len(text) and text[at + 1].startswith("    ")
        text[at + 1 : at + 1 + old] = [f"    {said}"]
        CATALOGUE.write_text("\n".join(text) + "\n", encoding="utf-8")
    else:
        assert said == entries()[call]


def test_the_catalogue_is_long_and_whole():
    assert len(entries()) >= LEAST
    assert all(entries().values())


def test_another_message_is_seen(names, monkeypatch, capsys):
    call = next(iter(entries()))
    said = said_by(call, names, monkeypatch, capsys)
    assert said == entries()[call] != said + "."
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        said_by("doxa.read_table('t.csv')", names, monkeypatch, capsys)
    assert issubclass(ArgumentError, ValueError)
