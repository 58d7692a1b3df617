"""Parallel tempering of graphs and missing cells: the swaps, the first rung against exact sums, runs that are cut."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from incomplete_cases import blanked, case, number_of
from test_incomplete_powers import z_of
from test_incomplete_sampler import WELL, problem

import doxa
from doxa import cli
from doxa.structure import Auto, MarkovBlanket, SingleEdge, Tempered
from doxa.structure.cases.incomplete import IncompleteSampler, enumerate_joint
from doxa.structure.cases.incomplete.by_kind import sampler_with_cells
from doxa.structure.moves.tempered import TemperedSampler
from support.checks import SEED
from support.tables import skewed_table

# --- swaps -----------------------------------------------------------------------------------------------------------


class Fixed:
    """A generator whose number is known."""

    def __init__(self, u):
        self.u = u

    def random(self):
        return self.u


def swap_chance(sampler, states, scores):
    """The chance that `_swap` exchanges two rungs, by bisection on its random number, and what they are then."""

    def after(u):
        standing, info = list(states), {"swaps_0": 0, "swapped_0": 0}
        sampler._swap(sampler.rungs, standing, np.array(scores), 0, Fixed(u), info)
        return standing, info["swapped_0"]

    if after(0.0)[1]:
        return 1.0, after(0.0)[0]
    low, high = 0.0, 1.0 - 2.0**-53  # the larger the number, the likelier: the chance is 1 - u at the border
    if not after(high)[1]:
        return 0.0, list(states)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if after(middle)[1] else (middle, high)
    return 1.0 - high, after(high)[0]


def imbalance(kind):
    """Largest difference, relative to the flow, between a swap's flow and that of the way back, on pairs of states."""
    data, limits, exact = case("BDeu")
    rungs = tuple(IncompleteSampler(data, limits, beta=beta) for beta in (0.9, 0.4))
    sampler = kind(rungs, rungs[0].thin, 1)
    known = {rows.tobytes(): graph for graph, rows in enumerate(exact.rows)}
    targets = [beta * exact.log_score.ravel() for beta in (0.9, 0.4)]

    def state_of(number):
        graph, completion = divmod(number, len(exact.cells))
        return rungs[0].start_at(exact.rows[graph], exact.cells[completion])

    def number(state):
        return known[state.rows.tobytes()] * len(exact.cells) + number_of(exact, state.cells)

    def flow(pair):
        chance, after = swap_chance(sampler, [state_of(k) for k in pair], [exact.log_score.ravel()[k] for k in pair])
        return targets[0][pair[0]] + targets[1][pair[1]] + np.log(chance), tuple(number(state) for state in after)

    worst = 0.0
    for pair in np.random.default_rng(SEED).integers(exact.probability.size, size=(60, 2)).tolist():
        forth, there = flow(tuple(pair))
        back_again, here = flow(there)
        assert here == tuple(pair)
        worst = max(worst, abs(np.expm1(forth - back_again)))
    return worst


class WithoutBetas(TemperedSampler):
    def _swap(self, rungs, states, scores, first, rng, info):
        beta = self.rungs[0].beta - self.rungs[1].beta
        super()._swap(rungs, states, scores / beta, first, rng, info)


class GraphsAlone(TemperedSampler):
    swapped = ("rows",)


def test_swaps_keep_the_product_of_the_targets():
    assert imbalance(TemperedSampler) < 1e-10


@pytest.mark.parametrize("kind", [WithoutBetas, GraphsAlone])
def test_broken_swaps_do_not(kind):
    assert imbalance(kind) > 0.1


# --- chains ----------------------------------------------------------------------------------------------------------


def ratio_of(kind=TemperedSampler, move=None, joint_proposals=0, draws=1000, least_ess=400):
    """Chains that do little but swap: their worst deviation from the exact sum, where 1 is too much."""
    data, limits = problem(4, 40, 0.05)
    move = Tempered(move or SingleEdge(), (1.0, 0.9, 0.8), swap_every=1)
    made = sampler_with_cells(data, limits, move, steps=1, joint_proposals=joint_proposals)
    ratio, trace = z_of(
        data, kind(made.rungs, made.thin, made.swap_every), enumerate_joint(data, limits), draws, least_ess
    )
    for k in range(2):
        assert (trace.info[f"swapped_{k}"] > 0.2 * trace.info[f"swaps_{k}"]).all()
    return ratio


@pytest.mark.parametrize(
    ("move", "joint_proposals"),
    [
        (SingleEdge(), 0),
        pytest.param(Auto(), 3, marks=pytest.mark.slow),
        pytest.param(MarkovBlanket(), 0, marks=pytest.mark.slow),
    ],
    ids=["edges", "auto", "blankets"],
)
def test_the_first_rung_agrees_with_the_exact_sum(move, joint_proposals):
    assert ratio_of(move=move, joint_proposals=joint_proposals, least_ess=50) < 1.0


def test_swaps_without_the_betas_fail_the_same_check():
    assert ratio_of(WithoutBetas, least_ess=50) > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("move", [SingleEdge(), Auto()], ids=repr)
def test_long_chains_agree_with_the_exact_sum(move):
    assert ratio_of(move=move, joint_proposals=3 if move.uses_table else 0, draws=5000) < 1.0


# --- runs ------------------------------------------------------------------------------------------------------------

HOLED = blanked(skewed_table(4, 30, seed=1), 0.15, seed=2)
OPTIONS = {"sampler": Tempered(MarkovBlanket(), (1.0, 0.8, 0.6), swap_every=3), "thin": 7, "warmup": 10, "seed": 4}


def test_blocks_workers_and_interruptions_do_not_change_the_draws(tmp_path):
    whole = doxa.learn(HOLED, draws=100, workers=1, **OPTIONS)
    assert sorted(whole.trace.info) == [
        "accepted", "from_1", "from_2", "proposed", "rows_accepted", "rows_proposed", "swapped_0", "swapped_1",
        "swaps_0", "swaps_1",
    ]  # fmt: skip
    both = doxa.learn(HOLED, draws=100, workers=2, **OPTIONS)
    doxa.learn(HOLED, draws=31, store=tmp_path / "run.doxa", **OPTIONS)
    resumed = doxa.resume(tmp_path / "run.doxa", HOLED, draws=100)
    for other in (both, resumed):
        for name in ("rows", "cells", "log_score", "n_edges"):
            assert np.array_equal(other.trace[name], whole.trace[name])
        for name, counts in whole.trace.info.items():
            assert np.array_equal(other.trace.info[name], counts)
    assert resumed.sampler == whole.sampler == OPTIONS["sampler"]


def test_the_draws_are_one_run_however_it_is_cut():
    data, limits = problem(**WELL["4 binary columns, 25%"])
    sampler = sampler_with_cells(data, limits, Tempered(betas=(1.0, 0.7), swap_every=3), steps=7)
    runs = []
    for cuts in ((40,), (1, 2, 3, 10, 24)):
        rng = np.random.default_rng(1)
        state, parts = sampler.start(0, rng), []
        for kept in cuts:
            state, draws, _ = sampler.run(state, 7 * kept, rng)
            parts.append(draws)
        runs.append({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        assert state.n_draws == 40
        assert state.cells.shape == (2, data.missing_cells.n_missing)
    for name, draws in runs[0].items():
        assert np.array_equal(draws, runs[1][name])


def test_learn_takes_the_name_and_every_answer_stands():
    posterior = doxa.learn(HOLED, sampler="tempered", draws=20, warmup=5, seed=1)
    assert posterior.sampler == Tempered()
    assert len(posterior.impute()) == 2 * HOLED.n_missing
    assert set(posterior.edges().columns) >= {"source", "target", "probability"}


def test_the_command_line_takes_the_name(tmp_path, monkeypatch, capsys):
    states = HOLED.states
    codes = HOLED.codes[HOLED.row_index]
    rows = [[states[j][code] if code >= 0 else "" for j, code in enumerate(row)] for row in codes]
    (tmp_path / "missing_cells.csv").write_text("".join(",".join(line) + "\n" for line in [HOLED.names, *rows]))
    options = ["--sampler", "tempered", "--draws", "20", "--warmup", "5", "--seed", "1"]
    monkeypatch.setattr(sys, "argv", ["doxa", "learn", str(tmp_path / "missing_cells.csv"), *options])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert "tempered" in capsys.readouterr().out.lower()
