"""`doxa infer`, `doxa convert`, `doxa sample`: answers, files, and one clear line for every slip."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_cases import files_in

import doxa
from doxa.inference import ChosenBy
from doxa.models import GaussianNetwork
from support.networks import network_file


@pytest.fixture
def rain(tmp_path):
    """Rain wets the ground; the sprinkler too."""
    dag = doxa.Dag.from_edges([("rain", "wet"), ("sprinkler", "wet")])
    tables = {"rain": [0.8, 0.2], "sprinkler": [0.7, 0.3], "wet": [[[1.0, 0.0], [0.2, 0.8]], [[0.1, 0.9], [0.0, 1.0]]]}
    path = tmp_path / "rain.bif"
    doxa.write_network(doxa.CategoricalNetwork(dag, tables, {name: ["no", "yes"] for name in dag.names}), path)
    return path


def test_infer_prints_distributions_method_and_evidence(run, rain):
    code, out, err = run("infer", rain, "--given", "wet=yes", "--query", "rain")
    assert (code, err) == (0, "")
    wet = 0.8 * 0.3 * 0.8 + 0.2 * (0.7 * 0.9 + 0.3)
    lines = out.splitlines()
    assert lines[0] == f"rain = no   {0.8 * 0.3 * 0.8 / wet:.6g} (exact)"
    assert lines[1].startswith("rain = yes  ")
    assert "Method: exact (an exact answer is within the budget)." in out
    assert "Log evidence: " in out


def test_infer_asks_for_all_that_was_not_observed(run, rain):
    _, out, _ = run("infer", rain, "--given", "wet=yes")
    assert [line.split(" = ")[0] for line in out.splitlines()[:4]] == ["rain", "rain", "sprinkler", "sprinkler"]


def test_infer_writes_its_table(run, rain):
    for name, read in (("t.csv", pd.read_csv), ("t.json", pd.read_json), ("t.parquet", pd.read_parquet)):
        code, out, _ = run("infer", rain, "--query", "rain", "--query", "wet", "--output", name)
        assert code == 0
        assert f"The table is in {name}." in out
        frame = read(name)
        assert frame["variable"].tolist() == ["rain", "rain", "wet", "wet"]
        assert frame["probability"].iloc[1] == pytest.approx(0.2)


def test_infer_by_other_methods_with_a_seed(run, rain):
    words = ("infer", rain, "--given", "wet=yes", "--query", "rain", "--method", "importance", "--seed", "1")
    code, out, _ = run(*words, "--mcse", "0.003")
    assert code == 0
    assert " +/- " in out
    assert "Reliable: " in out
    assert run(*words, "--mcse", "0.003")[1] == out


def test_blocks_and_scans_are_those_of_python(run, rain):
    seen = {"wet": "yes"}
    chosen = ChosenBy("rain", {"yes": [["sprinkler"]], "no": []})
    for words, scan in ((("--scan", "1,2,3"), [1, 2, 3]), (("--scan", "reversed"), "reversed"), ((), None)):
        choice = '{"rain": {"yes": [["sprinkler"]], "no": []}}'
        blocks = ("--block", "rain", "--block", choice, "--block", "rain,sprinkler")
        settings = ("--method", "gibbs", "--draws", "200", "--seed", "1", *blocks, *words)
        code, out, err = run("infer", rain, "--given", "wet=yes", *settings)
        own = [["rain"], chosen, ["rain", "sprinkler"]]
        found = doxa.infer(
            doxa.read_network(rain), given=seen, method="gibbs", blocks=own, scan=scan, draws=200, seed=1
        )
        assert (code, err) == (0, "")
        assert out.startswith(str(found))


def test_the_likeliest_states_of_all_variables(run, rain):
    code, out, err = run("infer", rain, "--given", "wet=yes", "--most-probable")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "rain = no",
        "sprinkler = yes",
        "",
        f"Log probability, with what was observed: {math.log(0.8 * 0.3 * 0.8):.6g} nats.",
        "Exact: the maximum over all states.",
    ]


def test_a_graph_is_written_for_graphviz(run, rain):
    code, out, _ = run("convert", rain, "rain.dot")
    assert (code, out) == (0, "3 variables are in rain.dot.\n")
    assert '"rain" -> "wet";' in (rain.parent / "rain.dot").read_text()


@pytest.mark.parametrize("end", ["net", "dsc", "xdsl", "json"])
def test_every_format_is_taken_by_its_name(run, rain, end):
    assert run("convert", rain, f"rain.{end}")[0] == 0
    assert run("infer", f"rain.{end}", "--query", "rain") == run("infer", rain, "--query", "rain")
    assert run("sample", f"rain.{end}", "--seed", "1", "--output", "a.csv")[0] == 0


def test_warm_up_workers_and_time_are_those_of_learn(run, rain):
    words = ("infer", rain, "--given", "wet=yes", "--query", "rain", "--method", "gibbs", "--seed", "1")
    short = ("--draws", "200", "--warmup", "20")
    one, two = (run(*words, *short, "--workers", str(workers)) for workers in (1, 2))
    assert one == two
    exact = doxa.infer(
        doxa.read_network(rain), "rain", given={"wet": "yes"}, method="gibbs", draws=200, warmup=20, seed=1
    )
    assert one[1].startswith(str(exact))
    assert run(*words, "--max-seconds", "60", "--mcse", "0.02")[0] == 0


def test_odd_names_go_by_json_and_soft_evidence_by_numbers(run, tmp_path):
    dag = doxa.Dag.from_edges([("a=b", "wet?")])
    states = {"a=b": ["x=1", "y"], "wet?": ["no", "yes"]}
    network = doxa.CategoricalNetwork(dag, {"a=b": [0.5, 0.5], "wet?": [[0.9, 0.1], [0.3, 0.7]]}, states)
    doxa.write_network(network, tmp_path / "odd.bif")
    _, out, _ = run("infer", "odd.bif", "--given", json.dumps({"a=b": "x=1"}), "--query", "wet?")
    assert "wet? = yes  0.1 (exact)" in out
    _, out, _ = run("infer", "odd.bif", "--soft", "wet?=1,0", "--query", "a=b")
    assert "a=b = x=1  0.75 (exact)" in out


def test_convert_and_back_is_the_same_network(run, rain):
    for words in (("rain.bif", "a.xml"), ("a.xml", "b.uai"), ("b.uai", "c.bif.gz")):
        code, out, err = run("convert", *words)
        assert (code, out, err) == (0, f"3 variables are in {words[1]}.\n", "")
    assert doxa.read_network("c.bif.gz") == doxa.read_network(rain)


def test_sample_draws_records_that_learn_reads(run, rain):
    code, out, _ = run("sample", rain, "-n", "2000", "--missing", "0.25", "--seed", "3", "--output", "records.csv")
    assert (code, out) == (0, "2000 records of 3 variables are in records.csv.\n")
    table = doxa.read_table("records.csv")
    assert table.names == ("rain", "wet", "sprinkler")
    assert abs(table.n_missing / 6000 - 0.25) < 0.04
    assert abs((pd.read_csv("records.csv")["rain"] == "yes").sum() / 1500 - 0.2) < 0.06
    first = (rain.parent / "records.csv").read_bytes()
    run("sample", rain, "-n", "2000", "--missing", "0.25", "--seed", "3", "--output", "records.csv")
    assert (rain.parent / "records.csv").read_bytes() == first


@pytest.fixture
def pressure(tmp_path):
    """Blood pressure goes with smoking and age."""
    dag = doxa.Dag.from_edges([("smokes", "pressure"), ("age", "pressure")])
    lines = {"age": (50.0, [], 10.0), "pressure": ([80.0, 88.0], [[0.7], [0.7]], [8.0, 8.0])}
    network = GaussianNetwork(dag, lines, {"smokes": [0.6, 0.4]}, {"smokes": ["no", "yes"]})
    network.write(tmp_path / "pressure.json")
    return network


def test_a_network_with_numbers_is_sampled_converted_and_drawn(run, pressure):
    words = ("-n", "2000", "--missing", "0.25", "--seed", "3", "--output", "records.csv")
    code, out, err = run("sample", "pressure.json", *words)
    assert (code, out, err) == (0, "2000 records of 3 variables are in records.csv.\n", "")
    frame = pd.read_csv("records.csv")
    assert list(frame.columns) == ["smokes", "pressure", "age"]
    assert set(frame["smokes"].dropna()) == {"no", "yes"}
    assert abs(frame["age"].mean() - 50) < 1.5
    assert abs(frame.isna().to_numpy().mean() - 0.25) < 0.03
    table = pressure.simulate(2000, seed=3, missing=0.25)
    assert frame["age"].isna().sum() == np.isnan(table.numbers[table.row_index, 2]).sum()
    code, out, _ = run("convert", "pressure.json", "again.json.gz")
    assert (code, out) == (0, "3 variables are in again.json.gz.\n")
    assert doxa.read_network("again.json.gz") == pressure
    assert run("convert", "pressure.json", "pressure.dot")[0] == 0
    assert '"age" -> "pressure";' in Path("pressure.dot").read_text()
    code, _, err = run("convert", "pressure.json", "pressure.bif")
    assert code
    assert "network is a GaussianNetwork, which the format 'bif' cannot hold; write JSON (.json)" in err


def test_infer_asks_networks_with_numbers(run, pressure):
    right = doxa.infer(pressure, given={"pressure": 140.0})
    code, out, _ = run("infer", "pressure.json", "--given", "pressure=140", "--output", "answer.csv")
    assert code == 0
    assert str(right) in out
    assert "by linear algebra" in out
    rows = pd.read_csv("answer.csv").set_index(["variable", "state"])
    assert rows.loc[("smokes", "yes"), "probability"] == right["smokes"]["yes"].value
    code, out, _ = run("infer", "pressure.json", "--given", "pressure=140", "--report", "page.html")
    assert code == 0
    assert "below" in Path("page.html").read_text(encoding="utf-8")
    code, out, err = run("infer", "pressure.json", "--given", "pressure=high")
    assert (code, out) == (2, "")
    assert "pressure is 'high', and the column holds numbers" in err
    code, out, _ = run("infer", "pressure.json", "--soft", "smokes=1,2", "--soft", "pressure=140,5")
    assert code == 0
    assert "exact" in out


def test_a_reference_network_from_the_shell(run):
    code, out, _ = run("infer", network_file("alarm"), "--given", "BP=LOW", "--query", "HYPOVOLEMIA")
    assert code == 0
    assert "HYPOVOLEMIA = TRUE   0.267335 (exact)" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["infer", "none.bif"], "there is no such file"),
        (["infer", "rain.bif", "--given", "wet"], "'wet' should be VARIABLE=..., as in --given BP=LOW"),
        (["infer", "rain.bif", "--given", "wte=yes"], "close to it is 'wet'"),
        (["infer", "rain.bif", "--given", "wet=maybe"], "maybe"),
        (["infer", "rain.bif", "--given", "wet=yes", "--given", "wet=no"], "'wet' is given twice"),
        (["infer", "rain.bif", "--given", "{"], "is no JSON object"),
        (["infer", "rain.bif", "--given", '{"wet": [1]}'], "a label is a text"),
        (["infer", "rain.bif", "--soft", "wet=a,b"], "as in --soft BP=0.5,1,2"),
        (["infer", "rain.bif", "--query", "snow"], "query has 'snow', which is no variable"),
        (["infer", "rain.bif", "--method", "magic"], "method is 'magic'; it must be one of 'auto'"),
        (["infer", "rain.bif", "--method", "exact", "--exact-budget", "1"], "the budget is 1 operations"),
        (["infer", "rain.bif", "--block", "rain"], "blocks is given, but method is 'auto'"),
        (["infer", "rain.bif", "--scan", "random"], "scan is given, but method is 'auto'"),
        (["infer", "rain.bif", "--method", "gibbs", "--block", "rain,snow"], "blocks[0] has 'snow'"),
        (["infer", "rain.bif", "--method", "gibbs", "--block", "rain", "--scan", "1,x"], "scan is '1,x'; it must be"),
        (["infer", "rain.bif", "--method", "gibbs", "--block", '"rain'], "names with commas between them"),
        (["infer", "rain.bif", "--method", "gibbs", "--block", "{1"], "is no JSON object"),
        (["infer", "rain.bif", "--method", "gibbs", "--block", "{}"], "one variable chooses"),
        (["infer", "rain.bif", "--output", "t.txt"], "its ending must be one of"),
        (["infer", "rain.bif", "--output", "rain.bif"], "its ending must be one of"),
        (["infer", "rain.bif", "--most-probable", "--query", "rain"], "it has no --query; leave that out"),
        (["infer", "rain.bif", "--draws", "9", "--mcse", "0.1"], "--draws says when to stop, too; give one of them"),
        (["convert", "rain.bif", "rain.bif"], "which is the network itself"),
        (["convert", "rain.bif", "rain.txt"], "its end must be one of"),
        (["sample", "rain.bif", "-n", "-1", "--output", "t.csv"], "n is -1"),
        (["sample", "rain.bif", "--missing", "2", "--output", "t.csv"], "missing is 2"),
    ],
)
def test_slips_give_one_line_and_leave_no_file(run, rain, words, message):
    before = files_in(rain.parent)
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err
    assert files_in(rain.parent) == before


def test_impossible_evidence_is_named(run, rain):
    code, _, err = run("infer", rain, "--given", "wet=yes", "--given", "rain=no", "--given", "sprinkler=no")
    assert code == 2
    assert "have probability 0 together" in err
