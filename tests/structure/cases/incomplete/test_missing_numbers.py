"""Missing numbers, drawn with graphs and missing categories, held against sums over graphs and quadrature."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import doxa
from doxa._call_at import settled
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.real import diagnose_real
from doxa.models.bits import pack_rows, unpack_rows
from doxa.sampling.driver import Schedule, sample
from doxa.structure import Additive, AdditiveMixture, BGe, ConditionalGaussian, SingleEdge, Tempered
from doxa.structure.cases.incomplete import edges_with_cells
from doxa.structure.cases.incomplete.by_kind import sampler_with_cells
from doxa.structure.cases.incomplete.graph_moves import GraphMoves, standing_still
from doxa.structure.cases.incomplete.missing_cells import IncompleteData, completed_table, completion_of, put_cells
from doxa.structure.cases.incomplete.regressions import offer_number
from doxa.structure.cases.incomplete.scored_sampler import ScoredCellsSampler
from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain, fit_column, redraw_numbers
from doxa.structure.exact.enumeration import all_dags
from doxa.structure.families.family_weights import score_families
from doxa.structure.families.gaussian.box import GaussianBox
from doxa.structure.limits import forbid_more, make_limits
from support.checks import FALSE_ALARM, SEED, z_limit
from support.ranks import p_values

sys.path.insert(0, str(Path(__file__).parents[4] / "benchmarks"))

from calibration_parts.numbers import NUMBER_SETTINGS
from calibration_parts.numbers import numbers as numbers_study

NAN = np.nan


def both(n_rows=14, seed=5):
    """A category g and numbers x and y, with a missing cell in each."""
    rng = np.random.default_rng(seed)
    g = rng.integers(0, 2, n_rows)
    x = rng.normal(size=n_rows) + 0.9 * g
    y = rng.normal(size=n_rows) + 0.8 * x
    codes = np.column_stack([g, 0 * g, 0 * g])
    codes[2, 0] = -1
    x[0], y[1] = NAN, NAN
    return Table.from_codes(["g", "x", "y"], [("n", "y"), (), ()], codes, numbers=np.column_stack([g * NAN, x, y]))


def categories(n_rows=12, seed=9):
    """Categories g and h and numbers x and y; in one row g and x are missing, in another g and h."""
    rng = np.random.default_rng(seed)
    g = rng.integers(0, 2, n_rows)
    h = np.where(rng.random(n_rows) < 0.2, 1 - g, g)
    x = rng.normal(size=n_rows) + 0.9 * g
    y = rng.normal(size=n_rows) + 0.8 * x
    x[0] = NAN
    codes = np.column_stack([g, h, 0 * g, 0 * g])
    codes[0, 0], codes[1, :2] = -1, -1
    of_numbers = np.column_stack([g * NAN, g * NAN, x, y])
    return Table.from_codes(["g", "h", "x", "y"], [("n", "y"), ("n", "y"), (), ()], codes, numbers=of_numbers)


def only_categories(n_rows=12):
    """The same with all numbers known."""
    table = categories(n_rows)
    numbers, codes = table.numbers[table.row_index].copy(), table.codes[table.row_index].copy()
    numbers[0, 2], codes[0, 2] = 0.4, 0
    return Table.from_codes(table.names, table.states, codes, numbers=numbers)


def beside(n_rows=10, seed=7):
    """A category g that is known, and numbers x and y, of which both are missing in one row."""
    rng = np.random.default_rng(seed)
    g = rng.integers(0, 2, n_rows)
    x = rng.normal(size=n_rows) + 0.9 * g
    y = rng.normal(size=n_rows) + 0.8 * x
    x[0], y[0], y[1] = NAN, NAN, NAN
    codes = np.column_stack([g, 0 * g, 0 * g])
    return Table.from_codes(["g", "x", "y"], [("n", "y"), (), ()], codes, numbers=np.column_stack([g * NAN, x, y]))


def numbers(n_rows=10, seed=6):
    """Three numbers; two of them are missing in one row."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, 3))
    values[:, 1] += 0.7 * values[:, 0]
    values[:, 2] += 0.6 * values[:, 1]
    values[3, :2] = NAN
    return Table.from_codes(["x", "y", "z"], [(), (), ()], np.zeros((n_rows, 3), int), numbers=values)


def hidden(n_rows=7, seed=8):
    """Two groups of numbers, and a column that nobody observed."""
    rng = np.random.default_rng(seed)
    group = np.arange(n_rows) % 2
    values = np.column_stack([np.full(n_rows, NAN), rng.normal(size=(n_rows, 2)) + 3.0 * group[:, None]])
    codes = np.column_stack([np.full(n_rows, -1), 0 * group, 0 * group])
    return Table.from_codes(["h", "x", "y"], [("0", "1"), (), ()], codes, numbers=values)


def data_of(table, kind):
    empty = [name for name, count in table.missing_by_column.items() if count == table.n_rows]
    return IncompleteData(table, kind, hidden=empty)


@dataclass
class Exact:
    edges: np.ndarray
    mean: np.ndarray  # of the missing cells, scaled; of states their codes
    square: np.ndarray
    is_number: np.ndarray
    spread: float  # how wide all numbers are together, as `spread_of` says

    def spread_of(self, cells):
        """Of cells (..., cell): single cells tell less, and squares are decided by the few that are far out."""
        unit = (cells - self.mean) ** 2 / (self.square - self.mean**2)
        return np.log1p(unit[..., self.is_number]).sum(axis=-1)


def limits_of(table, kind):
    pairs = np.argwhere(kind.forbidden_edges(table.is_number))
    return forbid_more(make_limits(table.names), table.names, [(table.names[i], table.names[j]) for i, j in pairs])


def exact(table, kind):
    """Sum over graphs, states and a grid of the missing numbers, whose points are equally likely under Student's t."""
    data, limits = data_of(table, kind), limits_of(table, kind)
    missing, n = data.missing_cells, len(table.names)
    n_points = 61 if missing.is_number.sum() < 3 else 31  # moments off by a twentieth of the errors of draws, or less
    points = student(4).ppf((np.arange(n_points) + 0.5) / n_points) * 1.5
    log_weight = -student(4).logpdf(points / 1.5)
    grids, logs = [], []
    for cell, is_number in enumerate(missing.is_number):
        r = int(missing.n_states[missing.column[cell]])
        grids.append(points if is_number else np.arange(r))
        logs.append(log_weight if is_number else np.zeros(r))
    cells = np.stack([grid.ravel() for grid in np.meshgrid(*grids, indexing="ij")], axis=1).astype(float)
    weights = sum(grid.ravel() for grid in np.meshgrid(*logs, indexing="ij"))
    completion = completion_of(missing, cells[0])
    scoring, scorer = data.scoring(completion)
    graphs = unpack_rows(all_dags(n), n)
    parents = pack_rows(graphs.swapaxes(1, 2))
    allowed = limits.allowed_edges
    scores = np.zeros((len(cells), n, 2**n))
    sets = [np.array([[mask] for mask in range(2**n) if not mask >> child & 1], dtype=np.uint64) for child in range(n)]
    for k, one in enumerate(cells):
        put_cells(completion, missing, one)
        for child in range(n):
            found = np.empty(len(sets[child]))
            score_families(child, sets[child], scoring, found)
            scores[k, child, sets[child][:, 0].astype(int)] = found
    assert scorer is not None
    keep = [graph for graph in range(len(graphs)) if not (graphs[graph] & ~allowed).any()]
    joint = np.stack([scores[:, np.arange(n), parents[g, :, 0].astype(int)].sum(axis=1) for g in keep]) + weights
    share = np.exp(joint - joint.max())
    share /= share.sum()
    edges, of_cells = np.tensordot(share.sum(axis=1), graphs[keep].astype(float), 1), share.sum(axis=0)
    right = Exact(edges, of_cells @ cells, of_cells @ cells**2, missing.is_number, 0.0)
    return replace(right, spread=float(of_cells @ right.spread_of(cells)))


CASES = {
    "both": (both, ConditionalGaussian(2.0)),
    "beside": (beside, ConditionalGaussian(2.0)),
    "categories": (categories, ConditionalGaussian(2.0)),
    "only categories": (only_categories, ConditionalGaussian(2.0)),
    "numbers": (numbers, BGe()),
    "additive": (both, Additive()),
    "either": (both, AdditiveMixture(2.0)),
    "hidden": (hidden, ConditionalGaussian(2.0)),
    "hidden, additive": (hidden, Additive()),
}


@cache
def exact_of(case):
    make, kind = CASES[case]
    return exact(make(), kind)


def drawn(table, kind, move, seed, draws=400, **options):
    sampler = sampler_with_cells(data_of(table, kind), limits_of(table, kind), move, steps=40, **options)
    return sample(sampler, Schedule(4, draws, 200), seed=seed, workers=1)


@cache
def drawn_by_single_edges(case):
    """The chains that the exact sum accepts, and that another prior's must not."""
    make, kind = CASES[case]
    return drawn(make(), kind, SingleEdge(), seed=3)


def z_scores(trace, right):
    n = trace["rows"].shape[2]
    edges = unpack_rows(trace["rows"], n).astype(float)
    free = (right.edges > 1e-3) & (right.edges < 1 - 1e-3)
    cells = trace["cells"]
    parts = [(edges[..., free], right.edges[free]), (cells, right.mean), (cells**2, right.square)]
    if right.is_number.any():
        parts.append((right.spread_of(cells)[..., None], [right.spread]))
    found = []
    for values, wanted in parts:
        for k, value in enumerate(wanted):
            estimate = diagnose_real(values[..., k]).estimate
            found.append((estimate.value - value) / estimate.mcse)
    return np.abs(found)


@pytest.mark.parametrize("case", ["both", "additive", "numbers", "beside"])  # scored quickly, slowly, summed out
def test_draws_within_sweeps_do_not_depend_on_where_a_block_ends(case):
    make, kind = CASES[case]
    table = make()
    sampler = ScoredCellsSampler(data_of(table, kind), limits_of(table, kind), steps=40, thin=10)
    whole, again = (sample(sampler, Schedule(2, 30, 5), seed=4, block=block, workers=1) for block in (1000, 3))
    assert all(np.array_equal(whole[name], again[name]) for name in ("rows", "cells", "log_score", "n_edges"))


class OneByOne:
    """`SingleEdge` as a move of one's own: joint proposals then run it one at a time, and not in their own loop."""

    name, bias, uses_table, is_reversible = "one_by_one", None, False, True
    cycle_length, advance = SingleEdge.cycle_length, SingleEdge.advance


@pytest.mark.parametrize("case", ["numbers", "beside", "categories"])
def test_single_edges_in_the_loop_of_joint_proposals_draw_what_they_draw_alone(case):
    make, kind = CASES[case]
    ours, own = (drawn(make(), kind, move, seed=3, draws=30) for move in (SingleEdge(), OneByOne()))
    assert all(np.array_equal(ours[name], own[name]) for name in ("rows", "cells", "log_score", "n_edges"))


MOVES = [SingleEdge(), doxa.structure.Auto(), Tempered(betas=(1.0, 0.7))]


@pytest.mark.parametrize(
    ("case", "move"),
    [
        *((case, move) for case in ("both", "numbers") for move in MOVES),
        ("beside", doxa.structure.Auto()),
        ("categories", doxa.structure.Auto()),
        ("only categories", doxa.structure.Auto()),
        ("additive", SingleEdge()),
        ("either", doxa.structure.Auto()),
        ("both", doxa.structure.MarkovBlanket()),
        ("numbers", doxa.structure.MarkovBlanket()),
        ("hidden", doxa.structure.Auto()),
        ("hidden, additive", SingleEdge()),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_graphs_and_cells_are_drawn_from_their_joint_posterior(case, move):
    make, kind = CASES[case]
    if isinstance(move, SingleEdge):
        trace = drawn_by_single_edges(case)
    else:
        trace = drawn(make(), kind, move, seed=3, draws=300 if isinstance(move, Tempered) else 400)
    found = z_scores(trace, exact_of(case))
    assert found.max() < z_limit(len(found))


def test_another_prior_fails_the_same_check():
    found = z_scores(drawn_by_single_edges("both"), exact(both(), ConditionalGaussian(2.0, alpha_mu=0.1)))
    assert found.max() > z_limit(len(found))


def test_scores_of_another_completion_fail_the_same_check(monkeypatch):
    """The twin: the graph moves on scores of a completion that does not stand."""
    fresh = GraphMoves.score_afresh

    def stale(self, graph, completion, scoring, local):
        cells = completion.numbers.copy()
        completion.numbers[:2, completion.n_complete :] = 3.0
        fresh(self, graph, completion, scoring, local)
        completion.numbers[:] = cells

    monkeypatch.setattr(GraphMoves, "score_afresh", stale)
    monkeypatch.setattr(GaussianBox, "stand_still", lambda *_: None)  # whose sums would not be of that completion
    trace = drawn(numbers(), BGe(), doxa.structure.Auto(), seed=3, draws=300)
    found = z_scores(trace, exact_of("numbers"))
    assert found.max() > z_limit(len(found))


@pytest.mark.parametrize("family", ["conditional_gaussian", "bge"])
def test_sums_made_once_while_nothing_changes_are_those_of_the_rows(family):
    """Scores of lists while the completion stands still, and after it has changed, against scores of their own."""
    table = numbers(40) if family == "bge" else both(40)
    kind = BGe() if family == "bge" else ConditionalGaussian()
    data, rng = data_of(table, kind), np.random.default_rng(SEED)
    completion = completion_of(data.missing_cells, np.zeros(data.missing_cells.n_missing))
    scoring, scorer = data.scoring(completion)
    sets = pack_rows(np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]], dtype=bool))

    def scores():
        found = np.zeros(len(sets))
        score_families(2, sets, scoring, found)
        return found

    for _ in range(3):
        put_cells(completion, data.missing_cells, rng.integers(0, 2, data.missing_cells.n_missing).astype(float))
        by_rows = scores()
        with standing_still(scorer):
            assert scores() == pytest.approx(by_rows, abs=1e-9)
        assert scores() == pytest.approx(by_rows, abs=1e-9)
        if family == "bge":
            assert not np.allclose(by_rows, by_rows[0])


def test_chains_leave_a_mode_that_is_fifteen_nats_lower():
    """Four numbers in a row below four categories, a tenth of the cells blank: chains from every start agree."""
    rng = np.random.default_rng(8)
    columns = {f"c{j}": rng.integers(0, 2 + j % 2, 600) for j in range(4)}
    for j in range(4):
        near = list(columns.values())[-2:]
        columns[f"x{j}"] = near[0] - 0.7 * near[1] + rng.normal(size=600)
    frame = pd.DataFrame(columns)
    frame[["c0", "c1", "c2", "c3"]] = frame[["c0", "c1", "c2", "c3"]].map(lambda code: "abc"[code])
    frame = frame.mask(np.random.default_rng(1).random(frame.shape) < 0.1)
    posterior = doxa.learn(frame, draws=150, warmup=100, seed=1, progress=False)
    assert posterior.log_score_diagnosis.r_hat < 1.05
    assert posterior.edge_diagnostics.mcse.max() < 0.05  # by single edges and joint proposals of stale scores: 0.29


def chain_of(table, kind, graph):
    data = IncompleteData(table, kind)
    sampler = ScoredCellsSampler(data, limits_of(table, kind), SingleEdge(), block=1)
    cells = sampler.likely_cells(np.random.default_rng(1))
    return ScoredChain(sampler, sampler.start_at(pack_rows(np.array(graph, dtype=bool)), cells))


GRAPH = [[0, 1, 1], [0, 0, 1], [0, 0, 0]]


def law_of_a_cell(chain, column, row, points):
    """Weights of values of one missing number given everything else."""
    place = chain.completion.n_complete + row
    logs = np.empty(len(points))
    local = np.zeros(len(chain.local))
    for k, value in enumerate(points):
        chain.completion.numbers[column, place] = value
        chain._score(range(len(local)), chain.parents, local)
        logs[k] = local.sum()
    share = np.exp(logs - logs.max())
    return share / share.sum()


@pytest.mark.parametrize("corrected", [True, False])
def test_offers_of_numbers_are_accepted_by_the_right_ratio(corrected):
    """On one graph: the twin forgets by what the offers were drawn."""
    chain = chain_of(both(), ConditionalGaussian(2.0), GRAPH)
    column, row = 1, int(chain.data.missing_cells.row[chain.data.missing_cells.column == 1][0])
    points = np.linspace(-8, 8, 2001)
    law = law_of_a_cell(chain, column, row, points)
    place = chain.completion.n_complete + row
    chain.completion.numbers[column, place] = 0.0
    chain._score(range(3), chain.parents, chain.local)
    rng = np.random.default_rng(7)
    found = np.empty((4, 5000))
    work = chain.work
    fit_column(column, work.first[column], work.first[column + 1], chain.parents, chain.completion, work)
    redraw = settled(redraw_numbers, chain.scoring.address)
    for k in range(found.size):
        if corrected:
            redraw(column, chain.parents, chain.completion, chain.scoring, chain.work, rng)
        else:
            by_scores_alone(chain, column, row, rng)
        found.flat[k] = chain.completion.numbers[column, place]
    z = []
    for power in (1, 2):
        estimate = diagnose_real(found**power).estimate
        z.append(abs(estimate.value - law @ points**power) / estimate.mcse)
    assert (max(z) < z_limit(2)) == corrected


def by_scores_alone(chain, column, row, rng):
    numbers, place = chain.completion.numbers, chain.completion.n_complete + row
    centre, scale = settled(offer_number)(
        column, row, chain.parents, chain.completion, chain.work.numbers, chain.work.categories
    )
    before, fresh = numbers[column, place], np.empty(len(chain.local))
    numbers[column, place] = centre + scale * rng.standard_t(14)
    chain._score(range(len(fresh)), chain.parents, fresh)
    if np.log(rng.random()) < fresh.sum() - chain.local.sum():
        chain.local[:] = fresh
    else:
        numbers[column, place] = before


def test_offers_are_the_product_of_the_fitted_densities():
    """The centre and scale of an offer, from densities of the fits on a grid."""
    chain = chain_of(both(), ConditionalGaussian(2.0), GRAPH)
    column, row = 1, int(chain.data.missing_cells.row[chain.data.missing_cells.column == 1][0])
    completion, fits = chain.completion, chain.work.numbers
    fit_column(column, chain.work.first[column], chain.work.first[column + 1], chain.parents, completion, chain.work)
    centre, scale = offer_number(column, row, chain.parents, completion, fits, chain.work.categories)
    place = completion.n_complete + row
    g, y = completion.columns[0, place], completion.numbers[2, place]
    points = np.linspace(-9, 9, 4001)
    own, child = fits.fits[1][2 * g :], fits.fits[2][3 * g :]
    logs = -0.5 * (points - own[0]) ** 2 / own[1] - 0.5 * (y - child[0] - child[1] * points) ** 2 / child[2]
    share = np.exp(logs - logs.max())
    share /= share.sum()
    assert centre == pytest.approx(share @ points, abs=1e-6)
    assert scale == pytest.approx(np.sqrt(share @ points**2 - (share @ points) ** 2), rel=1e-5)


def moved_with_cells(case, n_draws=1000, seed=5):
    """Four chains of nothing but new cells and edges that take cells along."""
    make, kind = CASES[case]
    table = make()
    sampler = ScoredCellsSampler(data_of(table, kind), limits_of(table, kind), SingleEdge())
    traces = []
    for number in range(4):
        rng = np.random.default_rng([seed, number])
        chain = ScoredChain(sampler, sampler.start(number, rng))
        rows, cells = [], []
        for _ in range(n_draws + 50):
            chain.redraw_cells(rng)
            chain.move_edges(8, rng)
            rows.append(chain.rows.copy())
            cells.append(chain.cells)
        traces.append((rows[50:], cells[50:]))
    return {name: np.array(parts) for name, parts in zip(("rows", "cells"), zip(*traces, strict=True), strict=True)}


@pytest.mark.parametrize("case", ["both", "numbers", "either"])
def test_edges_that_take_cells_along_keep_the_joint_posterior(case):
    found = z_scores(moved_with_cells(case), exact_of(case))
    assert found.max() < z_limit(len(found))


def test_forgetting_the_law_of_the_cells_fails_the_same_check(monkeypatch):
    """The twin takes an edge with cells by scores alone."""
    offer = edges_with_cells._offer_cells
    monkeypatch.setattr(edges_with_cells, "_offer_cells", lambda *arguments: 0.0 * offer(*arguments))
    monkeypatch.setattr(edges_with_cells, "_move_edge", edges_with_cells._move_edge.py_func)
    monkeypatch.setattr(edges_with_cells, "move_edges", edges_with_cells.move_edges.py_func)
    found = z_scores(moved_with_cells("numbers", n_draws=600), exact_of("numbers"))
    assert found.max() > z_limit(len(found))


def test_cells_that_start_far_off_come_back():
    """Wild cells hold each other: they inflate the variance that speaks for them."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(400, 2))
    values[:, 1] += 0.5 * values[:, 0]
    values[rng.random(values.shape) < 0.2] = NAN
    table = Table.from_codes(["x", "y"], [(), ()], np.zeros((400, 2), int), numbers=values)
    data = IncompleteData(table, BGe())
    sampler = ScoredCellsSampler(data, make_limits(table.names), SingleEdge())
    wild = rng.uniform(-6, 6, data.missing_cells.n_missing)
    chain = ScoredChain(sampler, sampler.start_at(pack_rows(np.array([[0, 1], [0, 0]], dtype=bool)), wild))
    for _ in range(40):
        chain.redraw_cells(rng)
    assert chain.cells.std() < 1.5


@pytest.mark.parametrize("noise", [1.0, 0.2])
def test_cells_that_all_start_far_off_a_regression_come_back(noise):
    """One block of 15 cells: they widen the scatter in the score, and not in the fit that values are offered from."""
    rng = np.random.default_rng(SEED)
    first = rng.standard_normal(150)
    numbers = np.column_stack([first, 2 * first + noise * rng.standard_normal(150), rng.standard_normal(150)])
    numbers[:15, 0] = np.nan
    table = Table.from_codes(["a", "b", "c"], [()] * 3, np.zeros((150, 3), dtype=int), numbers=numbers)
    posterior = doxa.learn(table, draws=200, thin=180, seed=1)  # two sweeps a draw
    assert posterior.log_score_diagnosis.r_hat < 1.05  # chains that stay where they began have more than 2
    imputed = posterior.impute()["mean"].to_numpy()
    best = first[:15] if noise < 0.5 else numbers[:15, 1] * 2 / (4 + noise**2)
    assert np.corrcoef(imputed, best)[0, 1] > 0.97


def test_hidden_types_of_rows_are_found():
    """Which of three types is a row of?  The types' names mean nothing, so pairs of rows are compared."""
    rng = np.random.default_rng(1)
    group = np.arange(150) % 3
    centres = np.array([[0, 0, 0], [3, 1, -2], [-2, 3, 2]])
    frame = pd.DataFrame(centres[group] + rng.normal(size=(150, 3)), columns=list("abc"))
    posterior = doxa.learn(frame, hidden={"type": 3}, draws=150, warmup=1000, seed=2)
    assert posterior.edge("type", "a").value > 0.9
    assert posterior.edge("type", "c").value > 0.9
    cells = posterior.trace["cells"].reshape(-1, 150)
    together = (cells[::20, :, None] == cells[::20, None, :]).mean(axis=0)
    same = group[:, None] == group
    assert together[same].mean() > 0.9
    assert together[~same].mean() < 0.05


def test_completed_tables_keep_what_was_seen():
    table = both()
    data = IncompleteData(table, ConditionalGaussian())
    cells = np.array([1.0, 0.5, -1.25])[data.missing_cells.column]
    completed = completed_table(table, data.missing_cells, cells)
    assert completed.n_missing == 0
    seen = table.numbers[~np.isnan(table.numbers)]
    assert np.isin(seen, completed.numbers).all()
    scale, centre = data.missing_cells.numbers.scale[1:], data.missing_cells.numbers.centre[1:]
    drawn_x = completed.numbers[:, 1][~np.isin(completed.numbers[:, 1], table.numbers[:, 1])]
    assert drawn_x == pytest.approx(cells[data.missing_cells.column == 1] * scale[0] + centre[0])


@pytest.mark.parametrize("move", [doxa.structure.Auto(), doxa.structure.MarkovBlanket()], ids=repr)
def test_one_seed_means_one_answer_whatever_the_workers_and_interruptions(move, tmp_path):
    frame = pd.DataFrame({"x": [0.1, 1.2, NAN, 2.2, 0.4, 1.9] * 4, "g": list("aabbab") * 4})
    frame["y"] = frame["x"].fillna(1.0) + np.arange(24) % 5 / 3
    frame.loc[5, "y"] = NAN
    options = {"warmup": 10, "seed": 4, "sampler": move}
    whole = doxa.learn(frame, draws=40, workers=1, **options)
    again = doxa.learn(frame, draws=40, workers=2, **options)
    frame.to_csv(tmp_path / "t.csv", index=False)
    doxa.learn(tmp_path / "t.csv", draws=15, store=tmp_path / "run.doxa", **options)
    resumed = doxa.resume(tmp_path / "run.doxa", draws=40)
    for other in (again, resumed):
        assert np.array_equal(other.trace["cells"], whole.trace["cells"])
        assert np.array_equal(other.trace["rows"], whole.trace["rows"])


def test_exact_answers_sum_over_missing_categories_beside_numbers():
    table = both()
    values = table.numbers.copy()
    values[np.isnan(values)] = 0.3
    some = Table.from_codes(table.names, table.states, table.codes, numbers=values)
    assert some.missing_by_column == {"g": 1}
    posterior = doxa.learn(some, prior="uniform", equivalent_sample_size=2.0, seed=1)
    assert posterior.verdict.startswith("Exact")
    right = exact(some, ConditionalGaussian(2.0))
    assert np.allclose(posterior.edge_diagnostics.probability, right.edges, atol=1e-10)


def test_no_sum_is_over_missing_numbers():
    with pytest.raises(ArgumentError, match=r"^exact is True, but cells of columns of numbers"):
        doxa.learn(both(), exact=True)


BLANK = NUMBER_SETTINGS["conditional gaussian, 20% blank"]


def least_p(setting, replications=20):
    """Of the tests that the truth is one more draw, times their number."""
    p = p_values([numbers_study(setting, 5, number) for number in range(replications)])
    assert len(p) > 12
    return min(p.values()) * len(p)


def test_the_truth_is_one_more_draw():
    assert least_p(BLANK) > FALSE_ALARM


def test_a_prior_that_did_not_make_the_tables_is_not_calibrated():
    assert least_p(BLANK._replace(learned_as=ConditionalGaussian(2.0, alpha_mu=0.02)), 15) < FALSE_ALARM


def test_missing_numbers_are_imputed_and_completed():
    table = both()
    posterior = doxa.learn(table, equivalent_sample_size=2.0, prior="uniform", seed=2)
    right = exact_of("both")
    missing = IncompleteData(table, ConditionalGaussian(2.0)).missing_cells
    found = posterior.impute()
    assert found["row"].tolist() == [0, 1, 2, 2]
    assert found["column"].tolist() == ["x", "y", "g", "g"]
    scale, centre = missing.numbers.scale, missing.numbers.centre
    for j, row in ((1, found.iloc[0]), (2, found.iloc[1])):
        (cell,) = np.flatnonzero(missing.column == j)
        mean = right.mean[cell] * scale[j] + centre[j]
        sd = np.sqrt(right.square[cell] - right.mean[cell] ** 2) * scale[j]
        assert abs(row["mean"] - mean) < 5 * row["mcse"]
        assert row["sd"] == pytest.approx(sd, rel=0.1)
        assert row["lower"] < mean < row["upper"]
    (cell,) = np.flatnonzero(missing.column == 0)
    yes = found.iloc[3]
    assert (yes["state"], yes.isna()["mean"]) == ("y", True)
    assert abs(yes["probability"] - right.mean[cell]) < 5 * yes["mcse"]
    tables = posterior.completed_tables(5)
    observed = table.numbers[table.row_index]
    for filled in tables:
        assert not filled.isna().any().any()
        seen = ~np.isnan(observed[:, 1])
        assert np.array_equal(filled["x"][seen], observed[seen, 1])
    assert len({filled["x"][0] for filled in tables}) == 5
