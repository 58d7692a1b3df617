"""`doxa learn`: priors, limits and scores on the command line."""

from __future__ import annotations

import pytest
from cli_cases import QUICK, files_in

import doxa


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
        (["--score", "aic"], "score is 'aic'; it must be one of 'bdeu', 'k2', 'bic', 'bge', 'gaussian_bic'"),
        (
            ["--score", "k2", "--equivalent-sample-size", "2"],
            "equivalent_sample_size is 2.0, which belongs to score='bdeu'; with score='k2' leave it out",
        ),
        (["--prior", "flat"], "prior is 'flat'; it must be one of 'sparse', 'uniform', 'in_degree'"),
    ],
)
def test_bad_knowledge_is_refused_in_one_line(run, tmp_path, words, message):
    code, out, err = run("learn", three_columns(tmp_path), *QUICK, *words, "--store", "run.doxa")
    assert (code, out) == (2, "")
    assert err == f"doxa: {message}"
    assert files_in(tmp_path) == ["three.csv"]
