"""`doxa fit`: answers, options that reach the fit, predictions, and one clear line for every slip."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from cli_cases import files_in

import doxa
from doxa.models import LogisticNetwork

QUICK = ["--draws", "40", "--seed", "1"]
GRAPH = "wet: rain, cold  # two parents\ncold: rain\n"


@pytest.fixture
def weather(tmp_path):
    """A graph of three nodes, and a table with them and one column more."""
    (tmp_path / "graph.txt").write_text(GRAPH)
    rows = "no,dry,no,x\nyes,wet,no,y\nno,wet,yes,x\nyes,wet,yes,y\nno,dry,yes,x\nyes,dry,no,y\n"
    (tmp_path / "table.csv").write_text("rain,wet,cold,other\n" + rows * 8)
    return tmp_path / "table.csv"


def fitted(run, *words):
    """The posterior of a fit with these options, by the file that it was kept in."""
    code, _, err = run("fit", "graph.txt", "table.csv", *QUICK, *words, "--store", "fit.doxa")
    assert (code, err) == (0, "")
    return doxa.load("fit.doxa")


def test_help_is_for_newcomers(run):
    code, out, _ = run("fit", "--help")
    assert code == 0
    assert "Usage: doxa fit [OPTIONS] [GRAPH] [DATA]" in out


def test_fit_prints_data_model_methods_parameters_evidence_and_verdict(run, weather):
    code, out, err = run("fit", "graph.txt", weather, "--seed", "1")
    assert (code, err) == (0, "")
    again = doxa.fit(LogisticNetwork({"wet": ["rain", "cold"], "cold": ["rain"]}), weather, seed=1)
    lines = out.splitlines()
    assert lines[:4] == [
        "parents count as -1 and +1, so a coefficient is half a log odds ratio: odds ratio = exp(2 x mean)",
        "48 rows x 3 nodes; no missing cells; 1 means 'wet' (wet), 'yes' (cold, rain)",
        "normal prior of mean 0 and standard deviation 10 on the coefficients",
        f"4 chains x {again.n_draws} draws after {again.trace.n_warmup} of warm-up; seed 1",
    ]
    for line, node in zip(lines[4:6], ("wet", "cold"), strict=True):
        part = again.part(node)
        assert line == f"{node}: {part.method}, {again.acceptance[node]:.1%} accepted; {part.why}"
    assert lines[6:8] == ["rain: exact, a Beta distribution", ""]
    assert lines[8].split("  ")[-1] == "r_hat"
    assert "odds ratio (95%)" in lines[8]
    for line, row in zip(lines[9:15], again.summary().itertuples(), strict=True):
        node, label, mean, sd, lower, to, upper, *odds, mcse, ess, r_hat = line.split()
        assert (node, label, to) == (row.node, row.coefficient, "to")
        if label in again.network.parents(node):
            ratios = [float(odds[k].strip("()<>")) for k in (0, 1, 3)]
            expected = np.clip(np.exp([2 * row.mean, 2 * row.lower, 2 * row.upper]), 1e-6, 1e6)
            assert ratios == pytest.approx(expected, rel=0.05)
        else:
            assert odds == ["-"]
        assert abs(float(mean) - row.mean) <= float(mcse)
        assert float(mcse) == pytest.approx(row.mcse, rel=0.5)
        assert [float(x) for x in (sd, lower, upper)] == pytest.approx([row.sd, row.lower, row.upper], abs=row.sd / 10)
        assert (float(ess), float(r_hat)) == (round(row.ess), round(row.r_hat, 3))
    evidence = re.fullmatch(r"log marginal likelihood: (\S+) \+/- (\S+); lower bound (\S+)", lines[16])
    assert [float(x) for x in evidence.groups()] == pytest.approx(
        [again.log_marginal_likelihood.value, again.log_marginal_likelihood.mcse, again.log_marginal_likelihood_bound],
        abs=again.log_marginal_likelihood.mcse,
    )
    assert lines[17:] == [again.verdict]


def test_model_options_reach_the_network(run, weather):
    posterior = fitted(
        run, "--prior-scale", "wet=2.5", "--prior-mean", "1", "--coding", "01", "--bias", "cold=-0.5", "--bias",
        "wet=learned", "--root", "rain=0.25",
    )  # fmt: skip
    network = posterior.network
    assert network.coding == "01"
    assert (network.bias("wet"), network.bias("cold")) == (None, -0.5)
    assert network.prior("wet").mean.tolist() == [1.0, 1.0, 1.0]
    assert np.diag(network.prior("wet").covariance).tolist() == [6.25] * 3
    assert network.prior("cold").covariance.tolist() == [[100.0]]
    assert network.root_blocks[0].probabilities.tolist() == [0.75, 0.25]
    assert network.parameters == ("wet", "cold")


def test_one_number_is_for_all_nodes(run, weather):
    posterior = fitted(run, "--prior-scale", "3", "--bias", "0.5", "--prior-mean", "-1")
    network = posterior.network
    assert (network.bias("wet"), network.bias("cold")) == (0.5, 0.5)
    assert network.prior("wet").covariance.tolist() == [[9.0, 0.0], [0.0, 9.0]]
    assert network.prior("cold").mean.tolist() == [-1.0]


def test_what_was_asked_of_the_model_is_said(run, weather):
    _, out, _ = run("fit", "graph.txt", weather, *QUICK, "--coding", "01", "--bias", "wet=0.5", "--prior-scale",
                    "cold=2", "--root", "rain=0.5")  # fmt: skip
    assert out.startswith("parents count as 0 and 1, so a coefficient is a log odds ratio: odds ratio = exp(mean)\n")
    assert out.splitlines()[2] == (
        "normal prior of mean 0 and standard deviation 2 to 10 on the coefficients; "
        "bias fixed at 0.5 for wet; probability given for rain"
    )


def test_sampling_options_reach_the_run(run, weather):
    posterior = fitted(run, "--chains", "3", "--warmup", "7", "--method", "flip", "--approximation", "laplace",
                       "--workers", "2")  # fmt: skip
    assert (posterior.n_chains, posterior.n_draws, posterior.trace.n_warmup, posterior.trace.entropy) == (3, 40, 7, 1)
    assert posterior.method == {"wet": "flip", "cold": "flip", "rain": "exact"}
    assert posterior.part("wet").approximation == "Laplace"


def test_the_order_of_cases_reaches_the_run(run, weather):
    for words, ending in ((["--order", "random"], "cases in random order"), ([], "sequential variational")):
        code, _, err = run(
            "fit", "graph.txt", weather, *QUICK, "--approximation", "sequential", *words, "--store", ending
        )
        assert (code, err) == (0, "")
        assert doxa.load(ending).part("wet").approximation.endswith(ending)


def test_accuracy_and_limits_can_be_asked_for(run, weather):
    words = ["fit", "graph.txt", weather, "--seed", "1"]
    code, out, _ = run(*words, "--ess", "100", "--r-hat", "1.05")
    assert code == 0
    assert "as accurate as asked" in out
    code, out, _ = run(*words, "--ess", "1000000", "--max-draws", "600", "--max-seconds", "600")
    assert code == 0
    assert "4 chains x 600 draws" in out
    assert "The run stopped at its limit (max_draws)" in out


def test_reading_options_reach_the_table(run, tmp_path):
    (tmp_path / "graph.txt").write_text("b: age")
    (tmp_path / "table.csv").write_text(
        "id,age,b\n" + "".join(f"{i},{i}.5,{'-' if i < 5 else i % 2}\n" for i in range(60))
    )
    words = ["--columns", "age", "--columns", "b", "--bins", "age=2", "--missing", "-"]
    code, out, _ = run("fit", "graph.txt", "table.csv", *QUICK, *words)
    assert code == 0
    assert "\n60 rows x 2 nodes; 5 missing cells, summed out; 1 means '1' (b), '[" in out


def test_a_graph_may_be_a_bif_file_or_edges(run, weather, tmp_path):
    expected = fitted(run)
    (tmp_path / "graph.bif").write_text(
        "network unknown {}\n"
        + "".join(f"variable {name} {{ type discrete [ 2 ] {{ a, b }}; }}\n" for name in ("wet", "cold", "rain"))
        + "probability ( wet | rain, cold ) { table 0.1; }\nprobability ( cold | rain ) {}\nprobability ( rain ) {}\n"
    )
    (tmp_path / "edges.csv").write_text(
        "source,target,probability\nrain,wet,0.9\ncold,wet,0.51\nwet,rain,0.5\nrain,cold,1\n"
    )
    for graph in ("graph.bif", "edges.csv"):
        code, _, _ = run("fit", graph, weather, *QUICK, "--store", f"{graph}.doxa")
        assert code == 0
        again = doxa.load(f"{graph}.doxa")
        for node in ("wet", "cold", "rain"):
            assert again.network.parents(node) == expected.network.parents(node)


def test_a_node_without_a_column_is_said_to_be_hidden(run, weather, tmp_path):
    (tmp_path / "hidden.txt").write_text("wet: rian\n")
    code, out, err = run("fit", "hidden.txt", weather, *QUICK, "--prior-scale", "1", "--root", "rian=0.5")
    assert code == 0
    assert err == "doxa: 'rian' is no column of the table, so it is a hidden node; did you mean 'rain'?"
    assert "\n48 rows x 2 nodes; hidden: rian; no missing cells; 1 means 'wet'\n" in out
    (tmp_path / "hidden.txt").write_text(f"wet: rain\ncold: {' '.join(f'h{k}' for k in range(7))}\n")
    code, _, err = run("fit", "hidden.txt", weather, *QUICK, "--coding", "no")
    assert code == 2
    code, _, err = run("fit", "hidden.txt", weather, *QUICK, "--chains", "0")
    assert code == 2
    assert err.splitlines()[4:6] == [
        "doxa: 'h4' is no column of the table, so it is a hidden node",
        "doxa: 2 more nodes are no columns, and hidden",
    ]


def test_many_parts_are_grouped_by_method(run, tmp_path):
    rng = np.random.default_rng(1)
    names = [f"x{k}" for k in range(12)]
    pd.DataFrame(rng.integers(0, 2, (60, 12)), columns=names).to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "graph.txt").write_text("".join(f"x{k}: x{k - 1}\n" for k in range(1, 12)))
    code, out, _ = run("fit", "graph.txt", "table.csv", *QUICK)
    assert code == 0
    methods = out.splitlines()[4:6]
    assert methods[0].startswith("x1, x2, x3, x4, x5, x6 and 5 more: independence, ")
    assert "least good for x" in methods[0]
    assert methods[1] == "x0: exact, a Beta distribution"


def test_long_tables_are_shortened_but_written_whole(run, tmp_path):
    rng = np.random.default_rng(1)
    names = [f"x{k}" for k in range(61)]
    pd.DataFrame(rng.integers(0, 2, (30, 61)), columns=names).to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "graph.txt").write_text("".join(f"x{k}: x{k - 1}\n" for k in range(1, 61)))
    code, out, _ = run("fit", "graph.txt", "table.csv", *QUICK, "--prior-scale", "1", "--output", "summary.csv")
    assert code == 0
    assert "\n... and 21 more; --output FILE writes all\n" in out
    assert "All 121 parameters are in summary.csv." in out
    assert len(pd.read_csv(tmp_path / "summary.csv")) == 121


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_output_holds_the_summary(run, weather, tmp_path, ending):
    target = tmp_path / f"summary.{ending}"
    code, out, _ = run("fit", "graph.txt", weather, *QUICK, "--output", target)
    assert code == 0
    assert out.endswith(f"\nAll 6 parameters are in {target}.\n")
    frame = {"csv": pd.read_csv, "json": lambda p: pd.DataFrame(json.loads(p.read_text())), "parquet": pd.read_parquet}[
        ending
    ](target)
    network = LogisticNetwork({"wet": ["rain", "cold"], "cold": ["rain"]})
    expected = doxa.fit(network, weather, draws=40, seed=1).summary()
    assert list(frame.columns) == list(expected.columns)
    assert frame["mean"].tolist() == pytest.approx(expected["mean"].tolist())


def test_holes_of_rows_are_predicted(run, weather, tmp_path):
    (tmp_path / "rows.csv").write_text("rain,wet,other\nyes,\n,wet\n".replace("\n", ",?\n").replace("other,?", "other"))
    words = ["--predict", "rows.csv", "--predictions", "cells.csv", "--store", "fit.doxa"]
    code, out, err = run("fit", "graph.txt", weather, *QUICK, *words)
    assert code == 2
    assert err.startswith("doxa: --predict: column 'other': every cell is missing, so there are no states; ")
    assert err.endswith("leave out of the file what has no use: nodes without a column are predicted in every row")
    (tmp_path / "rows.csv").write_text("rain,wet\nyes,\n,wet\n")
    code, out, err = run("fit", "graph.txt", weather, *QUICK, *words)
    assert (code, err) == (0, "")
    assert out.endswith("\nPredictions of 4 missing cells are in cells.csv.\n")
    frame = pd.read_csv(tmp_path / "cells.csv")
    expected = doxa.load("fit.doxa").predict("rows.csv")
    assert frame.equals(expected) or np.allclose(frame["probability"], expected["probability"], atol=1e-15)
    assert [*zip(frame["row"], frame["node"], strict=True)] == [(0, "wet"), (0, "cold"), (1, "cold"), (1, "rain")]


def test_rows_that_cannot_be_predicted_are_refused_before_the_fit(run, weather, tmp_path):
    words = ["--predict", "rows.csv", "--predictions", "cells.csv", "--store", "fit.doxa"]
    for text, said in (
        (
            "rain,wet\nmaybe,\nyes,wet\n",
            "rows has 'maybe' in column 'rain'; when the network was fitted its labels were",
        ),
        ("sun\nyes\n", "rows has no column of the network's: its columns are 'sun'; the nodes are"),
    ):
        (tmp_path / "rows.csv").write_text(text)
        code, out, err = run("fit", "graph.txt", weather, *QUICK, *words)
        assert (code, out) == (2, "")
        assert err.startswith(f"doxa: {said}")
        assert files_in(tmp_path) == ["graph.txt", "rows.csv", "table.csv"]


def test_draws_of_an_approximation_do_not_tell_the_evidence(run, weather):
    code, out, _ = run("fit", "graph.txt", weather, *QUICK, "--method", "variational")
    assert code == 0
    assert re.search(r"^log marginal likelihood: not known; lower bound -\d+\.\d+$", out, re.MULTILINE)
    assert "\nApproximation: independent draws from the variational approximation" in out


def test_roots_alone_are_exact(run, weather, tmp_path):
    (tmp_path / "graph.txt").write_text("rain\ncold\n")
    code, out, _ = run("fit", "graph.txt", weather, *QUICK)
    assert code == 0
    assert "rain, cold: exact, a Beta distribution" in out
    assert re.search(r"^log marginal likelihood: -\d+\.\d+ \(exact\)$", out, re.MULTILINE)


def test_names_cannot_steer_the_terminal(run, tmp_path):
    (tmp_path / "graph.txt").write_text('"a\x1b[31m": "q""u,\t"\n')
    (tmp_path / "table.csv").write_text('a\x1b[31m,"q""u,\t"\n' + "x,y\nx,\x1b[0m\nz,y\n" * 9)
    code, out, _ = run("fit", "graph.txt", "table.csv", *QUICK)
    assert code == 0
    assert "\x1b" not in out
    assert "a\\x1b[31m" in out
    assert 'q"u,\\t' in out


REFUSED = {
    "no graph": ([], "Invalid value for GRAPH: name the files with the graph and the table, or give --resume RUN"),
    "no table": (["graph.txt"], "Invalid value for DATA: name the file with the table, after that with the graph"),
    "not there": (["grpah.txt", "table.csv"], "graph: no file 'grpah.txt' in '{folder}'"),
    "no table there": (["graph.txt", "rows.csv"], "source: no file 'rows.csv' in '{folder}'"),
    "cycle": (["cycle.txt", "table.csv"], "parents has the cycle wet -> rain -> wet; remove one of its edges"),
    "exchanged": (
        ["table.csv", "graph.txt"],
        "graph 'table.csv': line 1: the header names the two ends of an edge, once each: source,target or from,to or "
        "parent,child",
    ),
    "three states": (
        ["three.txt", "three.csv", "--family", "logistic"],
        "table column 'a' has 3 states ('0', '1', '2'), and the nodes of a logistic network have two; merge its "
        "states, read numbers with bins={{'a': 2}}, take the node out of the network, or fit tables: "
        "family='categorical'",
    ),
    "no column": (
        ["graph.txt", "three.csv"],
        "table has no column of the network's: its columns are 'a', 'b', and the nodes 'wet', 'cold', 'rain'; "
        "rename the columns",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_files_are_refused_in_one_line(run, weather, tmp_path, name):
    (tmp_path / "cycle.txt").write_text("wet: rain\nrain: wet\n")
    (tmp_path / "three.txt").write_text("b: a")
    (tmp_path / "three.csv").write_text("a,b\n" + "0,x\n1,y\n2,x\n" * 3)
    before = files_in(tmp_path)
    words, message = REFUSED[name]
    code, out, err = run("fit", *words, *QUICK, "--output", "summary.csv", "--store", "fit.doxa")
    assert (code, out) == (2, "")
    assert err == "doxa: " + message.format(folder=tmp_path) + ("; see doxa --help" if "Invalid" in message else "")
    assert files_in(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "gibs"], "method is 'gibs'; it must be one of 'auto', "),
        (["--order", "sorted"], "order is 'sorted'; it must be one of 'auto', 'table', 'random'"),
        (["--approximation", "gauss"], "approximation is 'gauss'; it must be one of 'optimal', 'laplace', "),
        (["--coding", "2"], "coding is '2'; it must be 'pm1' (parents -1 and +1) or '01' (parents 0 and 1)"),
        (["--chains", "0"], "chains is 0; it must be at least 1"),
        (["--draws", "3"], "draws is 3; it must be at least 4"),
        (["--average", "0"], "every is 0; it must be at least 1"),
        (
            ["--average", "9", "--predict", "table.csv", "--predictions", "cells.csv"],
            "Invalid value for --predict: predictions need draws, and --average keeps none; leave one of them out",
        ),
        (["--seed", "-4"], "seed is -4; it must be at least 0"),
        (["--prior-scale", "0"], "prior_scale of coefficient 'bias' of 'wet' is 0; a standard deviation is positive"),
        (["--prior-scale", "inf"], "prior_scale is inf; it must be finite"),
        (["--prior-scale", "snow=1"], "prior_scale names 'snow', which is not a node of the network"),
        (["--prior-mean", "rain=1"], "prior_mean names 'rain', which has no parents and so no coefficients"),
        (["--root", "wet=0.5"], "roots names 'wet', which is not a parentless node; those are 'rain'"),
        (["--root", "rain=1"], "roots['rain'] is 1; P(rain = 1) lies strictly between 0 and 1"),
        (
            ["--root", "0.5"],
            "Invalid value for --root: '0.5' should be NODE=NUMBER, as in --root heart=0.5; see doxa --help",
        ),
        (
            ["--prior-scale", "wide"],
            "Invalid value for --prior-scale: 'wide' should be 'learned', a number, or NODE=NUMBER, as in",
        ),
        (
            ["--bias", "wet=fixed"],
            "Invalid value for --bias: 'fixed' should be 'learned', a number, or NODE=NUMBER, as in --bias heart=0.5",
        ),
        (["--bias", "wet=1", "--bias", "wet=2"], "Invalid value for --bias: node 'wet' is given twice"),
        (["--prior-mean", "1", "--prior-mean", "wet=2"], "Invalid value for --prior-mean: '1' should be NODE=NUMBER"),
        (
            ["--draws", "50", "--ess", "100"],
            "Invalid value for --ess: --draws says when to stop, too; give one of them; see doxa --help",
        ),
        (["--ess", "0"], "ess is 0.0; it must be a finite number above 0"),
        (["--max-draws", "2"], "max_draws is 2; it must be at least 4"),
        (
            ["--predict", "table.csv"],
            "Invalid value for --predict: --predict ROWS and --predictions FILE belong together; give both",
        ),
        (["--output", "summary.txt"], "output is 'summary.txt'; its ending must be one of .csv, .json, .parquet"),
        (
            ["--output", "table.csv"],
            "Invalid value for --output: 'table.csv' is read or written by this command already; give it another name",
        ),
        (
            ["--output", "a.csv", "--predict", "table.csv", "--predictions", "./a.csv"],
            "Invalid value for --predictions: 'a.csv' is read or written by this command already",
        ),
        (
            ["--output", "fit.csv", "--store", "fit.csv"],
            "Invalid value for --output: 'fit.csv' is read or written by this command already",
        ),
    ],
)  # fmt: skip
def test_bad_options_are_refused_in_one_line(run, weather, tmp_path, words, message):
    before = files_in(tmp_path)
    code, out, err = run("fit", "graph.txt", weather, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"doxa: {message}")
    assert "\n" not in err
    assert files_in(tmp_path) == before


KINDS = "".join(f"p{k},{'abc'[k % 3]},{'yes' if k % 4 else 'no'},{k * 0.37:.2f}\n" for k in range(60))


def test_columns_of_three_states_get_tables_and_the_result_says_so(run, tmp_path):
    (tmp_path / "kinds.csv").write_text(f"id,kind,rain,weight\n{KINDS}")  # an identifier and numbers are not read
    (tmp_path / "kinds.txt").write_text("rain: kind\n")
    words = ["--seed", "1", "--store", "run.doxa", "--network", "n.bif", "--output", "entries.csv"]
    code, out, err = run("fit", "kinds.txt", "kinds.csv", *words)
    assert (code, err) == (0, "doxa: 'kind' has more than two states, so tables are fitted, not coefficients")
    fit = doxa.fit(doxa.Dag.from_edges([("kind", "rain")]), tmp_path / "kinds.csv", seed=1)
    assert str(fit.log_marginal_likelihood) in out
    assert fit.verdict in out
    assert doxa.read_network("n.bif") == fit.network()
    written = pd.read_csv("entries.csv")
    np.testing.assert_allclose(written["mean"], fit.entries()["mean"])
    assert set(written["given"]) == {"-", "kind = a", "kind = b", "kind = c"}
    code, shown, err = run("show", "run.doxa")
    assert (code, err) == (0, "")
    assert fit.verdict in shown
    code, _, err = run("fit", "kinds.txt", "kinds.csv", "--method", "hmc")
    assert code == 2
    assert "'kind' has more than two states" in err
    two = ["learn", "kinds.csv", "--columns", "kind", "--columns", "rain"]
    code, out, err = run(*two, "--network", "l.net", "--seed", "1")
    assert (code, "One network is in l.net: the consensus" in out) == (0, True), err
    assert doxa.read_network("l.net").names == ("kind", "rain")
    for words, message in (
        (["--network", "l.txt"], "must end in one of"),
        (["--network", "l.net", "--graph", "best"], "must be consensus or most_probable"),
        (["--graph", "consensus"], "give that, too"),
    ):
        code, _, err = run(*two, *words)
        assert (code, message in err) == (2, True), err


def test_columns_of_numbers_get_regressions_and_the_result_says_so(run, tmp_path):
    (tmp_path / "kinds.csv").write_text(f"id,kind,rain,weight\n{KINDS}")
    (tmp_path / "kinds.txt").write_text("weight: kind\nrain: weight\n")
    words = ["--seed", "1", "--store", "run.doxa", "--output", "terms.csv"]
    code, out, err = run("fit", "kinds.txt", "kinds.csv", *words)
    assert (code, err) == (0, "doxa: 'weight' holds numbers, so regressions are fitted")
    fit = doxa.fit(doxa.Dag.from_edges([("kind", "weight"), ("weight", "rain")]), tmp_path / "kinds.csv", seed=1)
    assert str(fit.log_marginal_likelihood) in out
    assert fit.verdict in out
    written = pd.read_csv("terms.csv")
    np.testing.assert_allclose(written["mean"][:6], fit.regressions()["mean"].astype(float))
    assert set(written["term"][6:]) == {
        "log odds of yes: intercept", "log odds of yes: weight", "P(a)", "P(b)", "P(c)"
    }  # fmt: skip
    code, shown, err = run("show", "run.doxa")
    assert (code, err) == (0, "")
    assert fit.verdict in shown
    for words, message in (
        (["--method", "hmc"], "of logistic families"),
        (["--family", "linear"], "must be one of logistic, categorical, gaussian"),
        (["--family", "categorical"], "takes categories"),
        (["--family", "conditional_gaussian"], "from a number to a category"),
        (["--network", "n.bif"], "files of networks hold tables"),
    ):
        code, _, err = run("fit", "kinds.txt", "kinds.csv", *words)
        assert (code, message in err) == (2, True), err
