"""Fits on disk: kept as they go, gone on with to the same draws, saved and read back; strangers' files refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from parameter_cases import blanked, two_parents
from scipy.stats import beta, kstest

import doxa
from doxa import LogisticNetwork
from doxa.errors import ArgumentError
from doxa.estimates.store import RunFileError, RunHeader, create_run, open_reader
from doxa.models.logistic_json import network_from_json, network_to_json
from doxa.parameters import drawing, runs
from doxa.parameters.fit import load
from doxa.sampling import runner


def holed(n=80):
    rng = np.random.default_rng(9)
    network, table = two_parents(rng, n=n)
    return network, blanked(table, 0.2, rng)


def same_draws(one, other):
    return all(np.array_equal(one.trace[name], other.trace[name]) for name in one.trace.names)


def test_a_fit_that_goes_on_is_the_fit_that_was_never_interrupted(tmp_path):
    network, table = holed()
    whole = doxa.fit(network, table, draws=600, warmup=50, seed=5)
    doxa.fit(network, table, draws=130, warmup=50, seed=5, store=tmp_path / "run.doxa")
    more = doxa.resume(tmp_path / "run.doxa", table, draws=600)
    assert same_draws(whole, more)
    assert more.summary().equals(whole.summary())
    loaded = doxa.load(tmp_path / "run.doxa")
    assert same_draws(whole, loaded)
    assert loaded.report == more.completed_report
    assert loaded.log_marginal_likelihood == whole.log_marginal_likelihood
    assert loaded.verdict == more.verdict
    assert loaded.states == whole.states


def test_gradient_kernels_go_on_too(tmp_path):
    network, table = holed()
    options = {"method": "hmc", "chains": 2, "warmup": 20, "seed": 5}
    whole = doxa.fit(network, table, draws=150, **options)
    doxa.fit(network, table, draws=70, store=tmp_path / "run.doxa", **options)
    assert same_draws(whole, doxa.resume(tmp_path / "run.doxa", table, draws=150))


KILLED = """
import sys
sys.path.insert(0, {folder!r})
from test_fit_runs import holed
import doxa
network, table = holed()
doxa.fit(network, table, method="random_walk", chains=2, draws=300_000, warmup=20, seed=5, store={run!r}, workers=1)
"""


def test_a_fit_that_was_killed_goes_on_to_the_same_draws(tmp_path):
    run = str(tmp_path / "run.doxa")
    code = KILLED.format(folder=os.path.dirname(__file__), run=run)  # noqa: PTH120
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            time.sleep(0.05)
            if os.path.exists(run) and _draws_in(run) > 0:  # noqa: PTH110
                break
            if process.poll() is not None:
                break
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    network, table = holed()
    n = _draws_in(run)
    assert n > 0
    assert n < 300_000
    resumed = doxa.resume(run, table, draws=n + 100)
    whole = doxa.fit(network, table, method="random_walk", chains=2, draws=n + 100, warmup=20, seed=5)
    assert same_draws(whole, resumed)


def _draws_in(run):
    try:
        with open_reader(run, check=False) as reader:
            return reader.n_draws
    except RunFileError:
        return 0


def test_a_saved_fit_is_read_back_and_not_gone_on_with(tmp_path):
    network, table = holed()
    fit = doxa.fit(network, table, draws=100, seed=5)
    fit.save(tmp_path / "saved.doxa")
    loaded = doxa.load(tmp_path / "saved.doxa")
    assert same_draws(fit, loaded)
    assert loaded.verdict == fit.verdict
    assert loaded.log_marginal_likelihood == fit.log_marginal_likelihood
    assert loaded.predict(table).equals(fit.predict(table))
    with pytest.raises(RunFileError, match="not gone on with"):
        doxa.resume(tmp_path / "saved.doxa", table, draws=200)
    with pytest.raises(RunFileError, match="exists already"):
        fit.save(tmp_path / "saved.doxa")
    with pytest.raises(ArgumentError, match="loaded from a run file"):
        loaded.approximation("y")


@pytest.mark.parametrize(
    ("made", "options"),
    [
        (two_parents, {}),
        (two_parents, {"approximation": "jaakkola_jordan"}),
        (lambda rng: holed(), {}),  # parts with hidden values: a mixture around modes that are searched for
        (lambda rng: holed(), {"method": "variational", "approximation": "structured"}),
    ],
)
def test_the_approximation_is_found_again_from_the_table(made, options, tmp_path):
    network, table = made(np.random.default_rng(3))
    fit = doxa.fit(network, table, draws=20, seed=5, store=tmp_path / "run.doxa", **options)
    with pytest.raises(ArgumentError, match=r"load a run that was made with store= together with its table"):
        doxa.load(tmp_path / "run.doxa").approximation("y")
    loaded = doxa.load(tmp_path / "run.doxa", table=table)
    for node in network.parameters:
        dimensions = fit.approximation(node).n_dimensions
        points = fit.approximation(node).sample(20, np.random.default_rng(0))
        assert points.shape == (20, dimensions)
        assert np.array_equal(
            loaded.approximation(node).log_density(points), fit.approximation(node).log_density(points)
        )
    assert same_draws(fit, loaded)


def test_a_table_that_is_not_that_of_a_fit_is_refused(tmp_path, monkeypatch):
    network, table = two_parents(np.random.default_rng(3), n=80)
    fit = doxa.fit(network, table, draws=20, seed=5, store=tmp_path / "run.doxa")
    other = two_parents(np.random.default_rng(4), n=80)[1]
    with pytest.raises(ArgumentError, match=r"the table is not the one that '.*run\.doxa' was made from"):
        doxa.load(tmp_path / "run.doxa", table=other)
    fit.save(tmp_path / "saved.doxa")
    with pytest.raises(ArgumentError, match="holds a saved posterior, which does not say how it was approximated"):
        doxa.load(tmp_path / "saved.doxa", table=table)
    monkeypatch.setattr(sys.modules["doxa.parameters.fit"], "version", lambda _: "9.9")
    with pytest.raises(ArgumentError, match=r"was made by doxa .*, and doxa 9\.9 may approximate in another way"):
        doxa.load(tmp_path / "run.doxa", table=table)


def test_a_table_is_read_as_it_was_for_the_fit(tmp_path):
    (tmp_path / "rows.csv").write_text("a,y\n" + "1,1\n0,0\n1,0\n" * 20)
    network = LogisticNetwork({"y": ["a"]}, prior_scale=2.0)
    fit = doxa.fit(network, tmp_path / "rows.csv", draws=50, seed=5, store=tmp_path / "run.doxa")
    (tmp_path / "rows.csv").rename(tmp_path / "moved.csv")
    loaded = doxa.load(tmp_path / "run.doxa", table=tmp_path / "moved.csv")
    assert np.array_equal(loaded.approximation("y").mean, fit.approximation("y").mean)


def test_another_table_is_named(tmp_path):
    network, table = holed()
    doxa.fit(network, table, draws=50, seed=5, store=tmp_path / "run.doxa")
    _, other = holed(n=81)
    with pytest.raises(RunFileError, match="the data are others"):
        doxa.resume(tmp_path / "run.doxa", other, draws=100)
    with pytest.raises(ArgumentError, match="give the table again"):
        doxa.resume(tmp_path / "run.doxa", draws=100)
    with pytest.raises(ArgumentError, match="give one of them"):
        doxa.resume(tmp_path / "run.doxa", table, draws=100, until=doxa.Until())


def test_a_table_is_read_again_from_where_it_was(tmp_path):
    (tmp_path / "rows.csv").write_text("a,y\n" + "1,1\n0,0\n1,0\n" * 20)
    network = LogisticNetwork({"y": ["a"]}, prior_scale=2.0)
    doxa.fit(network, tmp_path / "rows.csv", draws=50, seed=5, store=tmp_path / "run.doxa")
    assert doxa.resume(tmp_path / "run.doxa", draws=90).n_draws == 90


NETWORKS = [
    LogisticNetwork({"b": ["a"]}),
    LogisticNetwork(
        {"c": ["a", "b", "h"], "e": ["h", "c"]}, prior_scale={"c": 2.0}, prior_mean={"e": {"bias": 1.0}},
        bias={"c": 0.3}, roots={"a": 0.25, ("b", "h"): [[0.1, 0.2], [0.3, 0.4]]}, coding="01",
    ),
    LogisticNetwork({"c": ["a", "b"]}, prior_covariance={"c": [[2, 0.5, 0], [0.5, 1, 0], [0, 0, 3]]}),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(NETWORKS)))
def test_a_network_survives_the_file(k):
    stored = json.loads(json.dumps(network_to_json(NETWORKS[k]), sort_keys=True))
    again = network_from_json(stored)
    assert network_to_json(again) == network_to_json(NETWORKS[k])
    assert again.names == NETWORKS[k].names


def _header(**changes):
    network, table = holed()
    posterior = doxa.fit(network, table, draws=20, seed=1)
    options = {
        "network": network_to_json(network), "states": {"a": ["0", "1"]}, "method": "auto", "approximation": None,
        "warmup": 5, "draws": 20, "until": {}, "source": None, "report": runs.report_as_json(posterior.report),
        "stop": None,
    }  # fmt: skip
    return RunHeader("parameters", options | changes, table.digest, {}, 4)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"network": {}}, "its network.parents is missing"),
        ({"network": 3}, "its network is 3; it must be a mapping of names to values"),
        (
            {
                "network": {
                    "parents": [["b", ["b"]]],
                    "bias": {},
                    "coding": "pm1",
                    "means": {},
                    "variances": {},
                    "covariances": {},
                    "roots": [],
                }
            },
            "cannot be made again",
        ),
        ({"method": "magic"}, "is not a run that doxa wrote: method is 'magic'; it must be one of"),
        ({"states": {"a": [1]}}, r"its option states\['a'\]\[0\] is 1; it must be a text"),
        ({"order": "sideways"}, "is not a run that doxa wrote: order is 'sideways'"),
        ({"report": {"method": "auto"}}, "its option report.method is nothing that this version of doxa knows"),
        ({"report": None}, "has not begun to draw"),
        ({"draws": "many"}, "its option draws is 'many'; it must be a whole number"),
    ],
)
def test_a_stranger_s_file_is_refused_in_words(tmp_path, changes, said):
    with create_run(tmp_path / "run.doxa", _header(**changes)):
        pass
    with pytest.raises(RunFileError, match=said):
        doxa.load(tmp_path / "run.doxa")


def test_a_run_of_graphs_is_no_fit(tmp_path):
    doxa.learn(doxa.datasets.load("reinis"), draws=20, seed=1, store=tmp_path / "graphs.doxa")
    with pytest.raises(RunFileError, match="not of parameters"):
        load(tmp_path / "graphs.doxa")
    assert doxa.load(tmp_path / "graphs.doxa").n_edges.shape == (4, 20)


class Clock:
    """A second at each look."""

    def __init__(self):
        self.now = 0.0

    thread_time = staticmethod(time.thread_time)

    def monotonic(self):
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("seconds", [5, 11, 16])  # in the first epoch, after its end, in the second
def test_time_that_ends_in_the_warm_up_leaves_a_prefix_of_the_run(seconds, monkeypatch, tmp_path):
    network, table = two_parents(np.random.default_rng(1), n=60)
    whole = doxa.fit(network, table, draws=2000, warmup=4, seed=3, workers=1)
    settled = doxa.fit(network, table, until=doxa.Until(max_draws=200), seed=3, workers=1)
    monkeypatch.setattr(runner, "time", Clock())
    monkeypatch.setattr(runner, "_FIRST_STEPS", 64)
    monkeypatch.setattr(drawing, "has_settled", lambda trace: False)
    limit = doxa.Until(max_seconds=seconds)
    cut = doxa.fit(network, table, until=limit, seed=3, workers=1, store=tmp_path / "cut.doxa")
    begin, n = cut.trace.n_warmup, cut.trace.n_draws
    assert (begin, n) == {5: (0, 192), 11: (0, 500), 16: (500, 1000)}[seconds]
    assert np.array_equal(cut.draws("y")[:, 4:], whole.draws("y")[:, begin : begin + n - 4])
    assert cut.converged is False
    assert "warm-up" in cut.verdict
    fixed = doxa.fit(network, table, until=limit, warmup=10**6, seed=3, workers=1)
    assert fixed.stop.is_provisional
    monkeypatch.undo()
    resumed = doxa.resume(tmp_path / "cut.doxa", table, until=doxa.Until(max_draws=200), workers=1)
    if seconds == 5:  # the draws of the epoch that was cut are forgotten
        assert same_draws(resumed, settled)


def with_known_roots(n=300):
    rng = np.random.default_rng(11)
    network = LogisticNetwork({"y": ["a", "b"]})
    return network, network.simulate(n, {"y": [0.3, 0.8, -0.5], "a": [0.3], "b": [0.9]}, rng)


def test_draws_of_known_roots_are_made_when_they_are_asked_for(tmp_path):
    network, table = with_known_roots()
    path = tmp_path / "run.doxa"
    whole = doxa.fit(network, table, draws=4000, warmup=10, seed=5)
    first = doxa.fit(network, table, draws=130, warmup=10, seed=5, store=path)
    more = doxa.resume(path, table, draws=4000)
    whole.save(tmp_path / "saved.doxa")
    assert {name.split(".")[0] for name in whole.trace.names} == {"0"}  # of three parts, one is drawn by chains
    for node in ("y", "a", "b"):
        for other in (more, doxa.load(path), doxa.load(tmp_path / "saved.doxa")):
            assert np.array_equal(whole.draws(node), other.draws(node))
            assert np.array_equal(whole.log_density(node), other.log_density(node))
        assert np.array_equal(first.draws(node), whole.draws(node)[:, :130])
    assert whole.acceptance["a"] == 1
    assert not np.array_equal(whole.draws("a"), whole.draws("b"))


@pytest.mark.parametrize("shift", [0, 30])  # of the counts: a broken twin
def test_draws_of_known_roots_have_their_beta_distribution(shift):
    network, table = with_known_roots()
    fit = doxa.fit(network, table, draws=4000, warmup=10, seed=5)
    ones = sum(count for code, count in zip(table.codes[:, table.names.index("b")], table.counts, strict=True) if code)
    law = beta(1 + ones - shift, 1 + 300 - ones + shift)
    draws = fit.draws("b")
    z = (draws.mean() - law.mean()) / (law.std() / np.sqrt(draws.size))
    assert (abs(z) < 4.9) == (shift == 0)
    assert (kstest(draws.ravel(), law.cdf).pvalue > 1e-6) == (shift == 0)
    density = fit.log_density("b") - law.logpdf(draws[..., 0]) - np.log(draws[..., 0] * (1 - draws[..., 0]))
    assert (np.abs(density) < 1e-8).all() == (shift == 0)


def test_a_fit_may_stop_by_the_probability_of_a_known_root():
    network, table = with_known_roots()
    until = doxa.Until(ess=9000, quantities=("a: probability",))
    fit = doxa.fit(network, table, until=until, seed=5, warmup=10)
    assert fit.coefficient("a", "probability").ess > 9000
    assert doxa.fit(network, table, seed=5, warmup=10).coefficient("a", "probability").ess < 9000
