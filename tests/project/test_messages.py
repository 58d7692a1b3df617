"""What a message repeats of its input: cut where it is long, and without control characters, wherever it is raised."""

from __future__ import annotations

import json
import logging
import tracemalloc

import numpy as np
import pytest

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError, FileError
from doxa.estimates.store import RunFileError, RunHeader, create_run, open_reader, open_writer
from doxa.models.graph_files import read_graph, read_parents
from doxa.models.network_files import read_evidence_file
from doxa.parameters import Averages
from doxa.structure import BDeu, BGe, MarkovBlanket, Tempered
from doxa.text import in_message

LONGEST = 2100  # characters
LONG, STEERING = "q" * 5000, "a\n\x1b[31m\x00\r\u202eb"
BROKEN = "w " * 2500
GIVEN = {"long": LONG, "steering": STEERING, "long, of words": BROKEN, "long and steering": "\x1b[0m" * 2000}
CODES = np.array([[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1]] * 3)


def table(name="a"):
    return Table.from_codes([name, "b", "c"], [["no", "yes"]] * 3, CODES)


def network(name="a"):
    return doxa.CategoricalNetwork(
        doxa.Dag.from_edges([(name, "b")]),
        {name: [0.5, 0.5], "b": [[0.5, 0.5], [0.1, 0.9]]},
        {name: ["no", "yes"], "b": ["no", "yes"]},
    )


def learned():
    return doxa.learn(table(), seed=1, chains=1)


def csv(folder, text):
    path = folder / "table.csv"
    path.write_text(text)
    return path


CALLS = {
    "column": lambda x, _: doxa.read_table(table(), columns=[x]),
    "file": lambda x, folder: doxa.read_table(folder / f"{x[:200]}.csv"),
    "end": lambda x, folder: doxa.read_table(folder / f"t.{x}"),
    "missing": lambda x, _: doxa.read_table(table(), missing=[len(x), x]),
    "bins": lambda x, _: doxa.read_table(table(), bins={x: 3}),
    "transform": lambda x, folder: doxa.read_table(csv(folder, "a,b\n1,2\n3,4\n"), transform={"a": x}),
    "ragged row": lambda x, folder: doxa.read_table(csv(folder, f'a,b\n1,2\n"{x}","{x}",3\n')),
    "header": lambda x, folder: doxa.read_table(csv(folder, f'"{x}","{x}"\n1,2\n')),
    "cell": lambda x, folder: doxa.read_table(csv(folder, f'a,b\n1.5,2\n2.5,"{x}"\n'), numbers=["a", "b"]),
    "empty column": lambda x, folder: doxa.read_table(csv(folder, f'"{x}",b\n,1\n,2\n')),
    "states": lambda x, _: Table.from_codes(["a"], [[x, x]], [[0]]),
    "names": lambda x, _: Table.from_codes([x, x], [["n", "y"]] * 2, [[0, 0]]),
    "family": lambda x, _: doxa.learn(table(), family=x),
    "score": lambda x, _: doxa.learn(table(), score=x),
    "sampler": lambda x, _: doxa.learn(table(), sampler=x),
    "prior": lambda x, _: doxa.learn(table(), prior=x),
    "required": lambda x, _: doxa.learn(table(), required=[(x, "b")]),
    "required, of texts": lambda x, _: doxa.learn(table(), required=x),
    "forbidden": lambda x, _: doxa.learn(table(), forbidden=[(x, x)]),
    "tiers": lambda x, _: doxa.learn(table(), tiers=[[x], ["b"]]),
    "max_parents": lambda x, _: doxa.learn(table(), max_parents={x: 1}),
    "edge_log_odds": lambda x, _: doxa.learn(table(), edge_log_odds={(x, "b"): 1.0}),
    "hidden": lambda x, _: doxa.learn(table(), hidden={"b": x}),
    "interventions": lambda x, _: doxa.learn(table(), interventions=x),
    "imperfect": lambda x, _: doxa.learn(table(), interventions={0: "a"}, imperfect=[x]),
    "draws": lambda x, _: doxa.learn(table(), draws=x),
    "seed": lambda x, _: doxa.learn(table(), seed=x),
    "chains": lambda x, _: doxa.learn(table(), chains=x),
    "until": lambda x, _: doxa.learn(table(), until=x),
    "quantities": lambda x, _: doxa.learn(table(), exact=False, until=doxa.Until(quantities=[x])),
    "store": lambda x, folder: doxa.learn(table(), store=folder / x[:200] / "run.doxa"),
    "a table with such a name": lambda x, _: doxa.learn(table(x), max_parents={"z": 1}),
    "mcse": lambda x, _: doxa.Until(mcse=x),
    "max_draws": lambda x, _: doxa.Until(max_draws=x),
    "every": lambda x, _: Averages(x),
    "weight": lambda x, _: BDeu(x),
    "alpha_mu": lambda x, _: BGe(alpha_mu=x),
    "scan": lambda x, _: MarkovBlanket(scan=x),
    "betas": lambda x, _: Tempered(betas=[1.0, x]),
    "equivalent_sample_size": lambda x, _: doxa.learn(table(), equivalent_sample_size=x),
    "fit's family": lambda x, _: doxa.fit(doxa.Dag.from_edges([("a", "b")]), table(), family=x),
    "fit's method": lambda x, _: doxa.fit(doxa.LogisticNetwork({"a": ["b"]}), table(), method=x),
    "fit's order": lambda x, _: doxa.fit(doxa.LogisticNetwork({"a": ["b"]}), table(), order=x),
    "fit's approximation": lambda x, _: doxa.fit(doxa.LogisticNetwork({"a": ["b"]}), table(), approximation=x),
    "a node": lambda x, _: doxa.LogisticNetwork({"a": [x, x]}),
    "a scale": lambda x, _: doxa.LogisticNetwork({"a": ["b"]}, prior_scale={x: 1.0}),
    "roots": lambda x, _: doxa.LogisticNetwork({"a": ["b"]}, roots={x: 0.5}),
    "coding": lambda x, _: doxa.LogisticNetwork({"a": ["b"]}, coding=x),
    "an edge": lambda x, _: doxa.Dag.from_edges([(x, x)]),
    "a cycle": lambda x, _: doxa.Dag.from_edges([(x, "b"), ("b", x)]),
    "parents of no node": lambda x, _: network().dag.parents(x),
    "query": lambda x, _: doxa.infer(network(), x),
    "given": lambda x, _: doxa.infer(network(), "b", given={x: "no"}),
    "given state": lambda x, _: doxa.infer(network(x), "b", given={x: x}),
    "soft": lambda x, _: doxa.infer(network(), "b", soft={"a": {x: 1.0}}),
    "infer's method": lambda x, _: doxa.infer(network(), "b", method=x),
    "log_partition's method": lambda x, _: doxa.log_partition(network(), method=x),
    "tables": lambda x, _: doxa.CategoricalNetwork(network().dag, {"a": [0.5, 0.5], "b": x}, {"a": ["n"], "b": [x, x]}),
    "posterior's query": lambda x, _: learned().query({x: "yes"}),
    "posterior's state": lambda x, _: learned().query({"a": x}),
    "posterior's edge": lambda x, _: learned().edge(x, "b"),
    "posterior's do": lambda x, _: learned().query({"a": "yes"}, do={x: "no"}),
    "trace": lambda x, _: learned().trace[x],
    "save": lambda x, folder: learned().save(folder / x[:200] / "no folder"),
    "load": lambda x, folder: doxa.load(folder / x[:200]),
    "load, long": lambda x, folder: doxa.load(folder / x),
    "resume": lambda x, folder: doxa.resume(folder / x[:200]),
    "read_network": lambda x, folder: doxa.read_network(folder / f"{x[:200]}.bif"),
    "read_network's end": lambda x, folder: doxa.read_network(folder / f"n.{x}"),
    "read_graph": lambda x, folder: read_graph(folder / f"{x[:200]}.csv"),
    "dataset": lambda x, _: doxa.datasets.load(x),
    "header of a run": lambda x, folder: create_run(folder / "r.doxa", RunHeader(x, {"a": object()}, "", {}, 0)),
    "seed of an inference": lambda x, _: doxa.infer(network(), "b", seed=x),
    "draws of an inference": lambda x, _: doxa.infer(network(), "b", method="gibbs", draws=x),
    "report": lambda x, folder: doxa.report(learned(), folder / x[:200] / "page.html"),
    "most probable": lambda x, _: doxa.most_probable(network(), given={"b": x}),
    "ising": lambda x, _: doxa.ising_grid(2, 2, coupling=x),
    "any exception": lambda x, _: _raise(ArgumentError(x)),
    "any file": lambda x, _: _raise(FileError(f"'{x}' cannot be read; '{x}'")),
}


def _raise(error):
    raise error


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", CALLS)
def test_messages_are_short_and_printable(name, given, tmp_path):
    with pytest.raises(doxa.DoxaError) as raised:
        CALLS[name](GIVEN[given], tmp_path)
    assert_fit(str(raised.value))


def assert_fit(message, *, lines=False):
    assert len(message) <= LONGEST, message
    assert all(line.isprintable() for line in (message.split("\n") if lines else [message])), message


FILES = {
    "n.bif": "network {x} {{ }} variable {x} {{ type discrete [ 2 ] {{ {x} }}; }} probability ( {x} | {x} ) {{ {x} }}",
    "n.xml": "<BIF><NETWORK><VARIABLE><NAME>{x}</NAME><OUTCOME>{x}</OUTCOME></VARIABLE></NETWORK></BIF>",
    "n.net": "net {{ }} node {x} {{ states = ( \"{x}\" \"{x}\" ); }} potential ( {x} | {x} ) {{ data = ( {x} ); }}",
    "n.dsc": "belief network node {x} {{ type : discrete [ 2 ] = {{ \"{x}\" }}; }} probability ( {x} ) {{ {x}; }}",
    "n.xdsl": '<smile id="{x}"><nodes><cpt id="{x}"><probabilities>{x}</probabilities></cpt></nodes></smile>',
    "n.uai": "BAYES {x} 2 2 1 1 0 2 {x}",
    "n.json": '{{"{x}": ["{x}"]}}',
    "g.csv": 'source,target,probability\n"{x}","{x}",{x}\n',
    "g.dot": 'digraph "{x}" {{ "{x}" -> "{x}" -> {x} [',
    "g.txt": "a: {x} {x}\n{x}",
}  # fmt: skip


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", FILES)
def test_messages_about_files_are_short_and_printable(name, given, tmp_path):
    path, value = tmp_path / name, GIVEN[given]
    path.write_text(FILES[name].format(x=json.dumps(value)[1:-1] if name.endswith("json") else value), newline="")
    with pytest.raises(doxa.DoxaError) as raised:
        (read_parents if name.startswith("g") else doxa.read_network)(path)
    assert_fit(str(raised.value))


@pytest.mark.parametrize("given", GIVEN)
def test_messages_about_evidence_and_runs_are_short_and_printable(given, tmp_path):
    value = GIVEN[given]
    (tmp_path / "e.uai.evid").write_text(f"1 {value} 0", newline="")
    with pytest.raises(doxa.DoxaError) as raised:
        read_evidence_file(tmp_path / "e.uai.evid", network())
    assert_fit(str(raised.value))
    for options in ({"nodes": value}, {value: 1}, {"nodes": [value, value]}):
        header = RunHeader("structure", options, value, {value: value}, 1)
        (tmp_path / "r.doxa").unlink(missing_ok=True)
        with create_run(tmp_path / "r.doxa", header):
            pass
        with pytest.raises(RunFileError) as raised:
            doxa.load(tmp_path / "r.doxa")
        assert_fit(str(raised.value))
    with pytest.raises(RunFileError) as raised:
        open_writer(tmp_path / "r.doxa", RunHeader("structure", {"other": value}, "", {}, 2))
    assert_fit(str(raised.value), lines=True)
    assert "\n  the number of chains is 1 in the file and 2 now" in str(raised.value)
    with open_reader(tmp_path / "r.doxa") as reader:
        assert value in reader.header.versions


@pytest.mark.parametrize("given", GIVEN)
def test_notices_are_short_and_printable(given, tmp_path, caplog):
    with caplog.at_level(logging.INFO, "doxa"):
        name = GIVEN[given].replace("\x00", "").replace("\r", "")
        doxa.read_table(csv(tmp_path, f'"{name}",b\n' + "".join(f"{k}.5,{k % 2}\n" for k in range(30)) + "no,1\n"))
    assert caplog.messages
    for message in caplog.messages:
        assert_fit(message)


def test_a_message_that_is_tidied_twice_stays_as_it_is():
    for value in GIVEN.values():
        once = in_message(f"x is '{value}'; it must be short: {value}")
        assert in_message(once) == once


@pytest.mark.parametrize(
    "given", ["'" + "0.5" * 40_000 + "'", '"' + "\\n" * 60_000 + '"', "'\"" * 60_000, "q" * 120_000]
)
def test_shortening_a_message_takes_little_memory(given):
    """A refusal takes at most 20 times the file: a group repeated without ``+`` took 150 bytes for each character."""
    tracemalloc.start()
    try:
        made = in_message(given)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(made) < LONGEST
    assert peak < 20 * len(given)
