"""Missing cells of moments in time, which several rows share: chains against every graph and every completion.

The oracle completes the table of moments, puts rows with their past together by a loop of its own, and scores families
of the present from all rows, and those of the past, which have no parents, from the first row of each stretch.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import doxa
from doxa.data.time_order import TimeOrder, in_slices
from doxa.errors import ArgumentError
from doxa.structure import K2, BDeu, BGe
from doxa.structure.cases.incomplete.missing_cells import IncompleteData
from doxa.structure.cases.incomplete.scored_sampler import ScoredCellsSampler
from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain
from doxa.structure.families.gaussian.kinds import ConditionalGaussian
from doxa.structure.families.logistic.score import Logistic
from doxa.structure.moves.single_edge import SingleEdge

LIMIT = 4.9  # standard errors: a false alarm in a million


def moments(holes, numbers=(), n_columns=2, seed=5, lengths=(5, 4, 4)):
    """Units of moments; ``holes`` are (unit, time, column)."""
    rng = np.random.default_rng(seed)
    rows = []
    for unit, length in enumerate(lengths):
        state = rng.normal(size=n_columns)
        for time in range(length):
            drift = 1.5 * state[::-1] + rng.normal(size=n_columns)
            state = np.array([drift[j] if j in numbers else np.sign(drift[j]) for j in range(n_columns)])
            rows.append([unit, time, *state])
    frame = pd.DataFrame(rows, columns=["unit", "time", *(f"x{j}" for j in range(n_columns))])
    for j in range(n_columns):
        name = f"x{j}"
        if j not in numbers:
            frame[name] = np.where(frame[name] > 0, "yes", "no")
        for unit, time, column in holes:
            if column == j:
                frame.loc[(frame["unit"] == unit) & (frame["time"] == time), name] = None
    return frame


def put_together(values, frame, lags):
    """Cells of rows with their past, and which of them are the first of a stretch."""
    place = {(u, t): k for k, (u, t) in enumerate(zip(frame["unit"], frame["time"], strict=True))}
    present = [(u, t) for u, t in place if all((u, t - lag) in place for lag in range(lags + 1))]
    rows = [np.concatenate([values[place[u, t - lag]] for lag in range(lags + 1)]) for u, t in present]
    return np.array(rows), np.array([(u, t - 1) not in present for u, t in present])


def log_joint(kind, rows, first, sizes, n):
    """Of every graph, by its parent sets: scores of the present from all rows, of the past from first ones."""
    total = len(sizes)
    constant = sum(_score(kind, rows[first], [j], sizes) for j in range(n, total))
    forbidden = kind.forbidden_edges(sizes == 0)
    own = [
        {
            parents: _score(kind, rows, [node, *parents], sizes)
            for k in range(total)
            for parents in itertools.combinations([j for j in range(total) if j != node], k)
            if not forbidden[list(parents), node].any()
        }
        for node in range(n)
    ]
    return {
        key: constant + sum(own[node][parents] for node, parents in enumerate(key))
        for key in itertools.product(*own)
        if _is_acyclic(key, n)
    }


def _score(kind, rows, members, sizes):
    cells = rows[:, members] if (sizes == 0).any() else rows[:, members].astype(np.int64)
    return kind.of_node(members[0]).log_marginal_likelihood(cells, np.ones(len(rows), dtype=np.int64), sizes[members])


@functools.cache
def _is_acyclic(key, n):
    graph = np.zeros((n, n))
    for node, parents in enumerate(key):
        graph[[j for j in parents if j < n], node] = 1
    return np.trace(np.linalg.matrix_power(np.eye(n) + graph, n)) == n


CASES = {
    "bdeu": {"holes": [(0, 0, 0), (0, 2, 1), (0, 3, 1), (1, 1, 0), (2, 3, 1)]},
    "k2": {"kind": K2(0.5), "holes": [(0, 1, 0), (0, 2, 0), (1, 0, 0), (1, 0, 1), (1, 1, 1)]},
    "logistic": {"kind": Logistic(1.0), "holes": [(0, 0, 1), (0, 1, 1), (0, 2, 0), (1, 3, 1)]},
    "two lags": {"lags": 2, "n_columns": 1, "holes": [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 2, 0), (2, 3, 0)]},
    "with numbers": {"kind": ConditionalGaussian(), "numbers": (1,), "holes": [(0, 0, 0), (0, 2, 0), (1, 1, 0)]},
}


def recipe(name):
    own = {"kind": BDeu(), "lags": 1, "numbers": (), "n_columns": 2, **CASES[name]}
    return own, moments(own["holes"], own["numbers"], own["n_columns"])


@functools.lru_cache
def oracle(name, shared=True):
    """Probabilities of edges into the present and of every unknown's second state; and the joint log scores.

    Unless ``shared``, copies of a cell are unknowns of their own: the twin that must be rejected.
    """
    own, frame = recipe(name)
    kind, lags, n, numbers = own["kind"], own["lags"], own["n_columns"], own["numbers"]
    values = np.empty((len(frame), n))
    for j in range(n):
        column = frame[f"x{j}"]
        values[:, j] = column if j in numbers else np.where(column.isna(), np.nan, column == "yes")
    sizes = np.array([0 if j in numbers else 2 for j in range(n)] * (lags + 1))
    rows, first = put_together(values, frame, lags)
    for j in range(n * (lags + 1)):
        if j % n in numbers:
            seen, _ = put_together(values, frame, lags)
            rows[:, j] = (rows[:, j] - seen[:, j % n].mean()) / seen[:, j % n].std(ddof=1)
    holes = np.argwhere(np.isnan(values)) if shared else np.argwhere(np.isnan(rows))
    found = {}
    for states in itertools.product((0.0, 1.0), repeat=len(holes)):
        if shared:
            filled = np.where(np.isnan(values), 0.0, values)
            filled[tuple(holes.T)] = states
            whole = np.where(np.isnan(rows), put_together(filled, frame, lags)[0], rows)
        else:
            whole = rows.copy()
            whole[tuple(holes.T)] = states
        for key, value in log_joint(kind, whole, first, sizes, n).items():
            found[key, states] = value
    weight = np.array(list(found.values()))
    weight = np.exp(weight - logsumexp(weight))
    edges, cells = np.zeros((n * (lags + 1), n)), np.zeros(len(holes))
    for (key, states), share in zip(found, weight, strict=True):
        for node, parents in enumerate(key):
            edges[list(parents), node] += share
        cells += share * np.array(states)
    return edges, cells, found, holes


@functools.lru_cache
def posterior_of(name):
    """Of many draws, for several tests."""
    return learned(name, thin=40)


def learned(name, **options):
    own, frame = recipe(name)
    return doxa.learn(
        frame, time="time", unit="unit", lags=own["lags"], score=own["kind"], prior="uniform", seed=3, progress=False,
        **{"draws": 1000, "warmup": 50, **options},
    )  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_chains_agree_with_every_graph_and_completion(name):
    own, _ = recipe(name)
    edges, cells, _, holes = oracle(name)
    posterior = posterior_of(name)
    n = own["n_columns"]
    found, errors = (getattr(posterior.edge_diagnostics, what)[:, :n] for what in ("probability", "mcse"))
    inside = (edges > 1e-3) & (edges < 1 - 1e-3) & (errors > 0)
    assert inside.sum() > 1
    assert np.abs((found - edges)[inside] / errors[inside]).max() < LIMIT
    frame = posterior.impute()
    frame = frame[frame["state"] == "yes"]
    assert len(frame) == len(holes) == posterior.options.n_missing
    unit_time = recipe(name)[1]
    for at, (k, j) in enumerate(holes.tolist()):
        here = frame[
            (frame["unit"] == str(unit_time["unit"][k]))
            & (frame["time"] == str(unit_time["time"][k]))
            & (frame["column"] == f"x{j}")
        ]
        assert abs(float(here["probability"].iloc[0]) - cells[at]) < LIMIT * float(here["mcse"].iloc[0])


@pytest.mark.parametrize("name", ["bdeu", "k2", "two lags"])
def test_copies_that_are_unknowns_of_their_own_are_rejected(name):
    own, _ = recipe(name)
    n = own["n_columns"]
    apart, together = oracle(name, shared=False)[0], oracle(name)[0]
    posterior = posterior_of(name)
    found, errors = (getattr(posterior.edge_diagnostics, what)[:, :n] for what in ("probability", "mcse"))
    inside = (together > 1e-3) & (together < 1 - 1e-3) & (errors > 0)
    assert np.abs((found - apart)[inside] / errors[inside]).max() > LIMIT


@pytest.mark.parametrize("name", CASES)
def test_the_chain_keeps_the_scores_of_the_oracle(name):
    """At every graph and completion that it comes to, up to a constant."""
    own, frame = recipe(name)
    _, _, scores, holes = oracle(name)
    table = in_slices(doxa.read_table(frame, categories=["time", "unit"]), TimeOrder.of("time", "unit", own["lags"]))
    data = IncompleteData(table, own["kind"])
    n, total = own["n_columns"], table.n_columns
    limits = doxa.structure.limits.make_limits(table.names)
    limits = doxa.structure.limits.without_parents(limits, table.names, n)
    rng = np.random.default_rng(1)
    sampler = ScoredCellsSampler(data, limits, SingleEdge(), block=3)
    chain = ScoredChain(sampler, sampler.start(0, rng))
    cell = data.missing_cells
    place = {(f"{u}", f"{t}"): k for k, (u, t) in enumerate(zip(frame["unit"], frame["time"], strict=True))}
    offsets = set()
    for _ in range(60):
        chain.move_afresh(3, rng)
        chain.move_edges(3, rng)
        chain.redraw_cells(rng)
        parents = doxa.models.bits.unpack_rows(chain.parents, total)
        key = tuple(tuple(np.flatnonzero(parents[node]).tolist()) for node in range(n))
        states = {}
        for number in np.flatnonzero(cell.shared.owner == np.arange(cell.n_missing)).tolist():
            row, column = int(cell.source_row[cell.row[number]]), int(cell.column[number])
            k = place[table.slices.units[row], table.slices.times[0][row]] - column // n
            states[k, column % n] = float(chain.cells[number])
        assert (chain.cells == chain.cells[cell.shared.owner]).all()
        own_states = tuple(states[k, j] for k, j in holes.tolist())
        offsets.add(round(float(chain.local.sum()) - scores[key, own_states], 3 if name == "logistic" else 6))
    assert len(offsets) == 1
    assert chain.blocks_done[1] > 10
    assert chain.edges_done[1] > 5


def test_a_missing_number_agrees_with_its_density():
    """One number that is missing in the middle, and one of the first moment: a grid over both."""
    frame = moments([(0, 2, 0), (1, 0, 0)], (0, 1))
    posterior = doxa.learn(
        frame, time="time", unit="unit", prior="uniform", seed=3, draws=1000, warmup=100, thin=40, progress=False
    )
    values = frame[["x0", "x1"]].to_numpy(dtype=float)
    rows, first = put_together(values, frame, 1)
    centre, scale = np.nanmean(rows[:, :2], axis=0), np.nanstd(rows[:, :2], axis=0, ddof=1)
    scaled = (values - centre) / scale
    grid = np.linspace(-6.0, 6.0, 25)
    edges, total, means, found = np.zeros((4, 2)), [], [], []
    for a, b in itertools.product(grid, grid):
        whole = scaled.copy()
        whole[np.isnan(whole)] = [a, b]
        for key, value in log_joint(BGe(), put_together(whole, frame, 1)[0], first, np.zeros(4, dtype=int), 2).items():
            total.append(value)
            means.append((a, b))
            found.append(key)
    weight = np.exp(np.array(total) - logsumexp(total))
    for key, share in zip(found, weight, strict=True):
        for node, parents in enumerate(key):
            edges[list(parents), node] += share
    own, errors = (getattr(posterior.edge_diagnostics, what)[:, :2] for what in ("probability", "mcse"))
    inside = (edges > 1e-3) & (errors > 0)
    assert np.abs((own - edges)[inside] / (errors[inside] + 1e-3)).max() < LIMIT
    cells = posterior.impute().sort_values(["unit", "time"])
    expected = weight @ np.array(means) * scale[0] + centre[0]
    assert np.abs((cells["mean"].to_numpy() - expected) / cells["mcse"].to_numpy()).max() < LIMIT


def test_moments_that_are_absent_are_rows_of_missing_cells():
    frame = moments([])
    absent = frame[~((frame["unit"] == 0) & (frame["time"] == 2))]
    emptied = frame.copy()
    emptied.loc[(frame["unit"] == 0) & (frame["time"] == 2), ["x0", "x1"]] = None
    options = {"time": "time", "unit": "unit", "seed": 1, "draws": 40, "progress": False}
    one = doxa.learn(absent, gaps="missing", **options)
    other = doxa.learn(emptied, **options)
    assert one.table.digest == other.table.digest
    assert one.edges().equals(other.edges())
    assert "1 absent moment taken as missing cells" in one.options.of_time


def test_what_is_not_known_of_shared_cells_is_refused():
    posterior = learned("bdeu", draws=40, warmup=10)
    with pytest.raises(ArgumentError, match="its rows are moments in time; sums over graphs and cells"):
        _ = posterior.log_marginal_likelihood
    with pytest.raises(ArgumentError, match="exact is True, but 5 cells of moments in time are missing"):
        learned("bdeu", exact=True, draws=None, warmup=None)
