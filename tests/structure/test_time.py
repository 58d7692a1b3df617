"""Moments in time: sums over all graphs of two and three slices by arithmetic of their own, samplers, and bad input."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.structure import BIC, K2, BDeu, BGe
from doxa.structure.families.additive.kinds import Additive, AdditiveMixture
from doxa.structure.families.gaussian.kinds import ConditionalGaussian
from doxa.structure.families.logistic.score import FamilyMixture, Logistic

LIMIT = 4.9  # standard errors: a false alarm in a million


def moments(numbers=(), n_columns=2, n_units=6, n_times=9, seed=3, gap=True):
    """Units of moments, columns in ``numbers`` normal, others of two states; some moments of some units absent."""
    rng = np.random.default_rng(seed)
    rows = []
    for unit in range(n_units):
        state = rng.normal(size=n_columns)
        for time in range(n_times):
            drift = 0.8 * state[::-1] + rng.normal(size=n_columns)
            drift[1:] += 0.7 * drift[:-1]
            state = np.array([d if j in numbers else np.sign(d) for j, d in enumerate(drift)])
            if not (gap and unit % 3 == 1 and time == 4):
                rows.append((f"u{unit}", time, *state))
    names = [f"x{j}" for j in range(n_columns)]
    frame = pd.DataFrame(rows, columns=["unit", "time", *names])
    for j, name in enumerate(names):
        if j not in numbers:
            frame[name] = np.where(frame[name] > 0, "yes", "no")
    return frame.sample(frac=1.0, random_state=1, ignore_index=True)


def unrolled(frame, lags, by_unit=True):
    """Rows of present and past cells, numbers scaled by the present's mean and standard deviation: another route."""
    names = [name for name in frame.columns if name not in ("unit", "time")]
    known = {(u if by_unit else 0, t): row for u, t, *row in frame[["unit", "time", *names]].itertuples(index=False)}
    rows = [
        [cell for lag in range(lags + 1) for cell in known[u, t - lag]]
        for u, t in known
        if all((u, t - lag) in known for lag in range(lags + 1))
    ]
    cells, sizes = np.empty((len(rows), len(names) * (lags + 1))), []
    for j in range(cells.shape[1]):
        column, base = [row[j] for row in rows], [row[j % len(names)] for row in rows]
        if isinstance(base[0], str):
            cells[:, j] = [value == "yes" for value in column]
            sizes.append(2)
        else:
            cells[:, j] = (np.array(column) - np.mean(base)) / np.std(base, ddof=1)
            sizes.append(0)
    return cells, np.array(sizes)


def by_hand(kind, frame, lags=1, prior="uniform", by_unit=True):
    """Probabilities of all edges into the present, by a sum over all graphs; and the log evidence without the past."""
    cells, sizes = unrolled(frame, lags, by_unit)
    n, total = frame.shape[1] - 2, len(sizes)
    ones = np.ones(len(cells), dtype=np.int64)
    logs = []
    for node in range(n):
        own = {}
        for size in range(total):
            for parents in itertools.combinations([j for j in range(total) if j != node], size):
                members = [node, *parents]
                allowed = not (kind.forbidden_edges(sizes == 0)[list(parents), node]).any()
                share = -math.log(math.comb(total - 1, size)) - size * math.log(n) if prior == "sparse" else 0.0
                fits = prior != "sparse" or np.prod(np.maximum(sizes[list(parents)], 1)) <= len(cells)
                if allowed and (fits or kind.most_configurations(len(cells)) is None):
                    own[parents] = share + kind.of_node(node).log_marginal_likelihood(
                        cells[:, members] if (sizes == 0).any() else cells[:, members].astype(np.int64),
                        ones,
                        sizes[members],
                    )
        logs.append(own)
    weight, edges, norm = [], [], []
    for families in itertools.product(*(own.items() for own in logs)):
        graph = np.zeros((total, n))
        for node, (parents, _) in enumerate(families):
            graph[list(parents), node] = 1
        if not np.trace(np.linalg.matrix_power(np.eye(n) + graph[:n], n)) > n:  # no cycle among the present
            weight.append(sum(value for _, value in families))
            edges.append(graph)
            sizes_of = [len(parents) for parents, _ in families] if prior == "sparse" else []
            norm.append(sum(-math.log(math.comb(total - 1, k)) - k * math.log(n) for k in sizes_of))
    weight = np.array(weight)
    share = np.exp(weight - weight.max())
    evidence = weight.max() + np.log(share.sum()) - np.log(np.exp(norm).sum())
    return np.tensordot(share / share.sum(), np.array(edges), 1), evidence


def edges_of(posterior, lags=1):
    """The same of a posterior, from its table of edges."""
    n = posterior.options.n_present
    found = np.zeros((n * (lags + 1), n))
    names = list(posterior.names[:n])
    for source, target, lag, probability in posterior.edges()[["source", "target", "lag", "probability"]].to_numpy():
        found[names.index(source) + n * lag, names.index(target)] = probability
    return found


KINDS = {
    "bdeu": (BDeu(1.5), (), 1e-10),
    "k2": (K2(), (), 1e-10),
    "bic": (BIC(), (), 1e-10),
    "logistic": (Logistic(1.0), (), 2e-3),
    "mixture": (FamilyMixture(1.0, 1.0), (), 2e-3),
    "gaussian": (BGe(), (0, 1), 1e-9),
    "conditional": (ConditionalGaussian(), (1,), 1e-9),
    "additive": (Additive(1.0), (1,), 2e-3),
    "both": (AdditiveMixture(1.0, 1.0), (1,), 2e-3),
}


@pytest.mark.parametrize("name", KINDS)
def test_exact_sums_agree_with_a_list_of_all_graphs(name):
    kind, numbers, tolerance = KINDS[name]
    frame = moments(numbers)
    posterior = doxa.learn(frame, time="time", unit="unit", score=kind, prior="uniform", exact=True, seed=1)
    edges, evidence = by_hand(kind, frame)
    assert np.abs(edges_of(posterior) - edges).max() < tolerance
    assert posterior.log_marginal_likelihood.value == pytest.approx(evidence, abs=10 * tolerance)
    broken, _ = by_hand(kind, moments(numbers, gap=False))  # as if no moment were absent
    assert np.abs(edges_of(posterior) - broken).max() > 0.01


@pytest.mark.parametrize(("lags", "prior", "n_columns"), [(2, "uniform", 2), (1, "sparse", 2), (2, "sparse", 1)])
def test_more_lags_and_the_sparse_prior(lags, prior, n_columns):
    frame = moments(n_columns=n_columns)
    posterior = doxa.learn(frame, time="time", unit="unit", lags=lags, prior=prior, exact=True, seed=1)
    edges, evidence = by_hand(BDeu(), frame, lags, prior)
    assert np.abs(edges_of(posterior, lags) - edges).max() < 1e-10
    assert posterior.log_marginal_likelihood.value == pytest.approx(evidence, abs=1e-9)


def test_units_are_kept_apart():
    """Without its unit a row would be the moment after the last of another unit: that must show."""
    frame = moments(seed=8, n_times=3, n_units=12, gap=False)
    frame["time"] += 3 * frame["unit"].str[1:].astype(int)
    apart = doxa.learn(frame, time="time", unit="unit", prior="uniform", exact=True, seed=1)
    together = doxa.learn(frame.drop(columns="unit"), time="time", prior="uniform", exact=True, seed=1)
    right, joined = by_hand(BDeu(), frame)[0], by_hand(BDeu(), frame, by_unit=False)[0]
    assert np.abs(edges_of(apart) - right).max() < 1e-10
    assert np.abs(edges_of(together) - joined).max() < 1e-10
    assert np.abs(right - joined).max() > 0.02


@pytest.fixture(scope="module")
def three_columns():
    """Moments of three columns and the probabilities of their edges; and of those as if no moment were absent."""
    frame = moments(n_columns=3, n_times=7)
    return frame, by_hand(BDeu(), frame)[0], by_hand(BDeu(), moments(n_columns=3, n_times=7, gap=False))[0]


@pytest.mark.parametrize("sampler", ["auto", "single_edge", "parent_set_gibbs", "tempered"])
def test_samplers_agree_with_the_sum(sampler, three_columns):
    frame, edges, broken = three_columns
    posterior = doxa.learn(
        frame, time="time", unit="unit", prior="uniform", sampler=sampler, seed=2, draws=400, progress=False
    )
    found, errors = edges_of(posterior), posterior.edge_diagnostics.mcse[:, :3]
    inside = (errors > 0) & (edges > 1e-3)
    assert inside.sum() > 8
    assert np.abs((found - edges)[inside] / errors[inside]).max() < LIMIT
    assert np.abs((found - broken)[inside] / errors[inside]).max() > LIMIT
    assert posterior.edge_diagnostics.probability[:, 3:].max() == 0.0


def test_the_table_of_slices():
    frame = pd.DataFrame({"d": [3, 1, 2, 1, 3, 4], "p": list("aaabbb"), "x": list("nynyyn")})
    posterior = doxa.learn(frame, time="d", unit="p", seed=1)
    table = posterior.table
    assert table.names == ("x", "x [t-1]")
    assert table.slices.units == ("a", "a", "b")
    assert table.slices.times[0] == ("2", "3", "4")
    assert table.slices.previous.tolist() == [-1, 0, -1]
    assert posterior.options.of_time == (
        "6 moments of 2 units; 1 gap in time, after each of which a new stretch begins; 1 stretch too short to have "
        "all lags, and left out; 3 moments with all lags"
    )
    filled = doxa.data.time_order.in_slices(
        doxa.read_table(frame), doxa.data.time_order.TimeOrder.of("d", "p", gaps="missing")
    )
    assert filled.slices.times[0] == ("2", "3", "2", "3", "4")
    assert filled.codes[filled.row_index].tolist() == [[0, 1], [0, 0], [-1, 1], [1, -1], [0, 1]]
    assert "1 absent moment taken as missing cells" in filled.slices.text


def test_numbers_and_bins_have_their_past():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"t": np.arange(40) * 0.5, "x": rng.normal(size=40), "y": rng.normal(size=40)})
    table = doxa.read_table(frame, bins={"y": 3})
    posterior = doxa.learn(table, time="t", step=0.5, exact=True, seed=1)
    own = posterior.table
    assert own.names == ("x", "y", "x [t-1]", "y [t-1]")
    assert own.cuts["y [t-1]"] == table.cuts["y"]
    assert own.numbers[own.row_index, 2].tolist() == frame["x"][:-1].tolist()
    assert own.measured["y [t-1]"].tolist() == frame["y"][:-1].tolist()


def test_dates_and_ranks():
    frame = pd.DataFrame({"when": ["2024-02-28", "2024-03-01", "2024-02-29", "2024-03-03"], "x": list("nyny")})
    posterior = doxa.learn(frame, time="when", seed=1)
    assert posterior.table.slices.times[0] == ("2024-02-29", "2024-03-01")
    ranked = doxa.learn(frame, time="when", step="rank", seed=1)
    assert ranked.table.slices.times[0] == ("2024-02-29", "2024-03-01", "2024-03-03")


def test_knowledge_names_the_past():
    frame = moments()
    edges = {("x0 [t-1]", "x1"), ("x1 [t-1]", "x0")}
    posterior = doxa.learn(
        frame, time="time", unit="unit", required=[("x0 [t-1]", "x1")], forbidden=[("x1 [t-1]", "x0")], seed=1
    )
    assert posterior.edge("x0", "x1", lag=1).value == 1.0
    assert posterior.edge("x1", "x0", lag=1).value == 0.0
    assert posterior.edge("x1 [t-1]", "x0").value == 0.0
    assert set(posterior.options.required) | set(posterior.options.forbidden) == edges
    found = posterior.cpdag_edges().query("source == 'x0 [t-1]' and target == 'x1'")
    assert found["kind"].iloc[0] == "directed"
    with pytest.raises(ArgumentError, match=r"'x0' -> 'x0 \[t-1\]' is required, and leads into the past"):
        doxa.learn(frame, time="time", unit="unit", required=[("x0", "x0 [t-1]")])
    with pytest.raises(ArgumentError, match="lag is 2, and the past of this posterior reaches back 1"):
        posterior.edge("x0", "x1", lag=2)


def test_interventions_hold_in_the_present_alone():
    """A cell that was set says nothing of its parents, and is a past value like others."""
    frame = moments()
    rng = np.random.default_rng(4)
    frame["done"] = np.where(rng.random(len(frame)) < 0.3, "x1", None)
    posterior = doxa.learn(frame, time="time", unit="unit", interventions="done", prior="uniform", exact=True, seed=1)
    cells, sizes = unrolled(frame.drop(columns="done"), 1)
    done = unrolled(frame.drop(columns=["x0", "x1"]).fillna("yes").replace({"done": {"x1": "no"}}), 1)[0][:, 0] == 0
    logs = []
    for node in range(2):
        own = {}
        for size in range(4):
            for parents in itertools.combinations([j for j in range(4) if j != node], size):
                kept = cells[~done if node == 1 else slice(None)][:, [node, *parents]].astype(np.int64)
                own[parents] = BDeu().log_marginal_likelihood(
                    kept, np.ones(len(kept), dtype=np.int64), sizes[[node, *parents]]
                )
        logs.append(own)
    pairs = [(a, b) for a in logs[0] for b in logs[1] if not (1 in a and 0 in b)]
    weight = np.array([logs[0][a] + logs[1][b] for a, b in pairs])
    weight = np.exp(weight - weight.max())
    expected = sum(w for w, (_, b) in zip(weight, pairs, strict=True) if 2 in b) / weight.sum()
    assert posterior.edge("x0", "x1", lag=1).value == pytest.approx(expected, abs=1e-10)
    watched = by_hand(BDeu(), frame.drop(columns="done"))[0]
    assert abs(watched[2, 1] - expected) > 1e-3


def test_the_prior_expects_one_edge_in_all():
    """Without data: 3 columns may have parents, and each has k with a probability that falls as 3 to the -k."""
    prior = doxa.structure.priors.make_prior([f"x{j}" for j in range(6)], "sparse", None, 3)
    sets = np.array([math.comb(5, k) for k in range(6)])
    share = np.exp(prior.by_in_degree) * sets
    assert 0.8 < 3 * (share @ np.arange(6)) / share.sum() < 1.6


def test_files_hold_what_was_said_of_time(tmp_path):
    frame = moments(n_columns=3)
    posterior = doxa.learn(frame, time="time", unit="unit", seed=1, draws=50, store=tmp_path / "run.doxa")
    loaded = doxa.load(tmp_path / "run.doxa", table=frame)
    assert loaded.edges().equals(posterior.edges())
    assert loaded.options == posterior.options
    assert loaded.table.digest == posterior.table.digest
    longer = doxa.resume(tmp_path / "run.doxa", table=frame, draws=100)
    whole = doxa.learn(frame, time="time", unit="unit", seed=1, draws=100, warmup=25)
    assert longer.trace["rows"].shape[1] == 100
    assert (longer.trace["rows"] == whole.trace["rows"]).all()
    exact = doxa.learn(frame, time="time", unit="unit", seed=1)
    exact.save(tmp_path / "exact.doxa")
    again = doxa.load(tmp_path / "exact.doxa", table=frame)
    assert again.edges().equals(exact.edges())
    assert again.log_marginal_likelihood == exact.log_marginal_likelihood


def test_a_file_that_is_read_again(tmp_path):
    frame = pd.DataFrame({"index": range(30), "x": list("nynyyn") * 5})
    frame.to_csv(tmp_path / "series.csv", index=False)
    posterior = doxa.learn(tmp_path / "series.csv", time="index", seed=1, store=tmp_path / "run.doxa")
    assert doxa.load(tmp_path / "run.doxa").table.digest == posterior.table.digest


BAD = {
    "twice": (
        lambda f: pd.concat([f, f.iloc[[4]]], ignore_index=True),
        {},
        ArgumentError,
        r"time '\d' of unit 'u\d' is in the rows 4 and \d+; a moment of a unit is one row",
    ),
    "no unit": (lambda f: f.drop(columns="unit"), {"unit": None}, ArgumentError, "if the rows are of several units"),
    "one row": (
        lambda f: pd.concat([f, f.iloc[[0]].assign(unit="new")], ignore_index=True),
        {},
        ArgumentError,
        "unit 'new' of 'unit' has too few rows: with lags=1 a unit needs 2 moments at least; leave it out",
    ),
    "lags": (lambda f: f, {"lags": 30}, ArgumentError, "have too few rows: with lags=30 a unit needs 31 moments"),
    "lags of one": (
        lambda f: f[f["unit"] == "u0"].drop(columns="unit"),
        {"unit": None, "lags": 12},
        ArgumentError,
        "lags is 12, and no moment has its 12 predecessors in the table: the longest stretch has 9 moments",
    ),
    "column": (
        lambda f: f,
        {"time": "tiem"},
        ArgumentError,
        "time is 'tiem', which is not a column; did you mean 'time'",
    ),
    "unit column": (lambda f: f, {"unit": "who"}, ArgumentError, "unit is 'who', which is not a column"),
    "missing time": (
        lambda f: f.assign(time=f["time"].where(f.index != 3)),
        {},
        TableError,
        "time is 'time', which is missing in row 3; fill it in, or leave such rows out",
    ),
    "missing unit": (
        lambda f: f.assign(unit=f["unit"].where(f.index > 1)),
        {},
        TableError,
        "unit is 'unit', which is missing in row 0 and 1 more",
    ),
    "no steps": (
        lambda f: f.assign(time=f["time"] * 0.7),
        {},
        ArgumentError,
        r"time is 0 at first and \d\.\d in row \d+, .* steps of 1 later; times are whole steps apart",
    ),
    "no times": (
        lambda f: f.assign(time="day " + f["time"].astype(str)),
        {},
        TableError,
        "times are numbers, or dates",
    ),
    "far apart": (
        lambda f: f.assign(time=f["time"] * 1000),
        {"gaps": "missing"},
        ArgumentError,
        "gaps is 'missing', and .* moments are absent between the 52 rows",
    ),
    "no step": (lambda f: f.assign(time=f["time"] * 2), {}, ArgumentError, "say with step= how far apart"),
    "step": (lambda f: f, {"step": 0}, ArgumentError, "step is 0; give a number above 0"),
    "step word": (lambda f: f, {"step": "day"}, ArgumentError, "step is 'day'; give a number above 0"),
    "step type": (lambda f: f, {"step": [1]}, ArgumentTypeError, r"step is \[1\]"),
    "gaps": (lambda f: f, {"gaps": "skip"}, ArgumentError, "gaps is 'skip'; it must be 'break'"),
    "rank and gaps": (lambda f: f, {"step": "rank", "gaps": "missing"}, ArgumentError, "step is 'rank' and gaps"),
    "no lag": (lambda f: f, {"lags": 0}, ArgumentError, "lags is 0"),
    "same": (lambda f: f, {"unit": "time"}, ArgumentError, "time and unit are both 'time'"),
    "not text": (lambda f: f, {"unit": 3}, ArgumentTypeError, "unit is 3; give the name of a column"),
    "no time": (lambda f: f, {"time": None}, ArgumentError, "unit is 'unit', and time is not given"),
    "hidden": (lambda f: f, {"hidden": {"h": 2}}, ArgumentError, "which do not go together; leave one of them out"),
    "indicator": (lambda f: f, {"indicator": ["x0"]}, ArgumentError, "indicator is"),
    "nothing": (lambda f: f[["unit", "time"]], {}, ArgumentError, "the table has no column to learn from"),
    "named": (lambda f: f.rename(columns={"x1": "x0 [t-1]"}), {}, ArgumentError, "rename the column"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    change, options, error, words = BAD[case]
    with pytest.raises(error, match=words):
        doxa.learn(change(moments()), **{"time": "time", "unit": "unit", "seed": 1, **options})


def test_rows_that_nobody_can_put_in_order():
    table = Table.from_codes(["t", "x"], [["0", "1", "2"], ["n", "y"]], [[0, 0], [1, 1], [2, 1]])
    table = doxa.data.table.collapsed(table.names, table.states, [*table.codes.T], table.counts, in_order=False)
    with pytest.raises(TableError, match="counted where they are, so that nobody knows which is when"):
        doxa.learn(table, time="t")
