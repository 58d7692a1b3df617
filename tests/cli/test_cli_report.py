"""`doxa report` and `doxa infer --report`: runs and answers as pages."""

from __future__ import annotations

import hashlib
import json

import pytest

import doxa


@pytest.fixture
def kept(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,0\n0,1\n1,\n,0\n" * 5)
    assert run("learn", "t.csv", "--draws", "20", "--seed", "1", "--store", "run.doxa")[0] == 0
    return tmp_path / "run.doxa"


@pytest.fixture
def kept_fit(run, tmp_path):
    (tmp_path / "f.csv").write_text("a,b\n" + "1,0\n0,1\n1,1\n0,0\n0,1\n" * 5)
    (tmp_path / "g.txt").write_text("b: a\n")
    assert run("fit", "g.txt", "f.csv", "--draws", "20", "--seed", "7", "--store", "fit.doxa")[0] == 0
    return tmp_path / "fit.doxa"


@pytest.fixture
def rain(tmp_path):
    dag = doxa.Dag.from_edges([("rain", "wet")])
    states = {"rain": ["no", "yes"], "wet": ["no", "yes"]}
    tables = {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.1, 0.9]]}
    doxa.write_network(doxa.CategoricalNetwork(dag, tables, states), tmp_path / "rain.bif")
    return tmp_path / "rain.bif"


def data_of(path):
    text = path.read_text(encoding="utf-8")
    assert "Content-Security-Policy" in text
    assert "https://" not in text.split("<script", 1)[0]
    return json.loads(text.split('id="doxa-data">', 1)[1].split("</script>", 1)[0])


@pytest.mark.usefixtures("drawing")
def test_a_run_becomes_a_page(run, kept, tmp_path):
    code, out, err = run("report", kept, "-o", "page.html")
    assert (code, err) == (0, "")
    assert out.startswith("The report is in page.html; open it in a browser")
    data = data_of(tmp_path / "page.html")
    assert data["kind"] == "graphs"
    assert data["facts"][0] == ["Run file", "run.doxa"]


@pytest.mark.usefixtures("drawing")
def test_a_fit_becomes_a_page(run, kept_fit, tmp_path):
    code, out, err = run("report", kept_fit, "-o", "page.html")
    assert (code, err) == (0, "")
    assert out.startswith("The report is in page.html")
    data = data_of(tmp_path / "page.html")
    assert data["kind"] == "parameters"
    assert data["coefficients"]["label"] == ["bias", "a", "probability"]
    assert dict(data["facts"])["Seed"] == "7"


def test_an_answer_becomes_a_page(run, rain, tmp_path):
    words = ("--given", "wet=yes", "--soft", "rain=1,3", "--method", "importance", "--seed", "5")
    code, out, err = run("infer", rain, *words, "--report", "page.html")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("The report is in page.html")
    data = data_of(tmp_path / "page.html")
    facts = dict(data["facts"])
    assert (data["kind"], data["marginals"]["names"]) == ("values", ["rain"])
    assert facts["Network"] == "rain.bif: 2 variables, directed"
    assert facts["Digest of its file"] == hashlib.sha256(rain.read_bytes()).hexdigest()
    assert facts["Options"] == "method=importance, chains=4, seed=5"
    assert (facts["Seed"], facts["Soft evidence"]) == ("5", "rain: 1, 3")


def test_a_page_states_the_seed_that_was_taken(run, rain, tmp_path):
    run("infer", rain, "--method", "importance", "--draws", "200", "--report", "page.html")
    first = data_of(tmp_path / "page.html")
    seed = dict(first["facts"])["Seed"]
    run("infer", rain, "--method", "importance", "--draws", "200", "--seed", seed, "--report", "again.html")
    assert data_of(tmp_path / "again.html")["marginals"] == first["marginals"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", "t.csv", "-o", "p.html"], "is not a run of doxa"),
        (
            ["report", "t.csv", "-o", "p.html"],
            "reports are made of files of `doxa learn --store` or `doxa fit --store`",
        ),
        (["report", "rain.bif", "-o", "p.html"], "is the file of a network, and pages are made of runs"),
        (["report", "rain.bif", "-o", "p.html"], "doxa infer rain.bif --report p.html"),
        (["report", "run.doxa", "-o", "no/p.html"], "there is no folder"),
        (["report", "run.doxa", "-o", "."], "which is a folder; give the name of a file in it"),
        (["report", "run.doxa", "-o", "run.doxa"], "which is what it is made of; give it another name"),
        (["infer", "rain.bif", "--report", "no/p.html"], "there is no folder"),
        (["infer", "rain.bif", "--report", "rain.bif"], "which is what it is made of"),
    ],
)
def test_what_cannot_be_a_page_is_refused(run, kept, rain, tmp_path, words, said):
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_with_its_table_the_page_of_a_fit_shows_the_approximation(run, kept_fit, tmp_path):
    for words in ([], ["--table", "f.csv"]):
        assert run("report", kept_fit, *words, "-o", "page.html")[0] == 0
        drawn = data_of(tmp_path / "page.html")["coefficients"]["drawn"].values()
        assert [one["curve"] != "" for one in drawn] == [bool(words)] * len(drawn)
    (tmp_path / "f.csv").write_text((tmp_path / "f.csv").read_text() * 2)
    code, _, err = run("report", kept_fit, "--table", "f.csv", "-o", "page.html")
    assert code == 2
    assert "f.csv" in err or "the table is not the one" in err


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("exact", [True, False])
def test_learning_writes_the_page_too(run, tmp_path, exact):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,0\n0,1\n1,1\n0,0\n" * 5)
    words = ["--exact"] if exact else ["--draws", "20"]
    code, out, err = run("learn", "t.csv", *words, "--seed", "1", "--store", "run.doxa", "--report", "page.html")
    assert (code, err.startswith("doxa: summing over all graphs: at most")) == (0, exact)
    assert out.endswith("\nThe report is in page.html; open it in a browser, no network is needed.\n")
    data = data_of(tmp_path / "page.html")
    assert (data["kind"], data["graphs"]["exact"]) == ("graphs", exact)
    assert ["File", "t.csv"] in data["facts"]
    code, shown, _ = run("show", "run.doxa")
    assert code == 0
    assert ("(exact)" in shown) is exact
    assert run("report", "run.doxa", "-o", "again.html")[0] == 0
    again = data_of(tmp_path / "again.html")
    assert (again["graphs"], again["verdict"], again["nodes"]) == (data["graphs"], data["verdict"], data["nodes"])


def test_what_cannot_become_a_page_is_said_before_learning(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,0\n0,1\n")
    code, out, err = run("learn", "t.csv", "--report", "no/page.html")
    assert (code, out) == (2, "")
    assert "there is no folder" in err
    code, _, err = run("learn", "t.csv", "--report", "t.csv")
    assert (code, err) == (2, "doxa: the page is 't.csv', which is what it is made of; give it another name")
