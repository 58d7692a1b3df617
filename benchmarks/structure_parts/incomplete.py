"""Graphs and missing cells together on ALARM: what a turn costs, and what each way of moving the graph buys.

    python benchmarks/structure_parts/incomplete.py [cost | devices [NAME] | tempered | agree | impute]

``cost``     one sweep, in milliseconds of one core: every missing cell once, changes of the graph with their cells as
             in a sweep, the listed families weighed, and the sweep's structure steps; against rows, columns and
             missing cells.
``devices``  1000 records with 10% of the cells blanked: how far the edge probabilities of four chains are apart after
             so many CPU seconds each.
``tempered`` the same for parallel tempering, the time being that of all rungs, and for what it is compared with.
``agree``    `doxa.learn` with its default sampler on the same table for BENCH_SECONDS of wall clock in all, 540 unless
             set: how far the edge probabilities of its four chains are apart.
``impute``   log loss of the blanked cells: by the chains, by the network that the records were drawn from, and by its
             graph with tables learned from the same records under several priors.

Else BENCH_SECONDS is the CPU time of each chain, 10 unless set.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from doxa._call_at import settled
from doxa.data import Table
from doxa.models.bits import unpack_rows
from doxa.structure import K2, Auto, BDeu, SingleEdge, Tempered
from doxa.structure.cases.incomplete import IncompleteData, IncompleteSampler, cell_probabilities
from doxa.structure.cases.incomplete.by_kind import sampler_with_cells
from doxa.structure.cases.incomplete.candidate_sets import arrange, fill_cache, weigh_lists
from doxa.structure.cases.incomplete.cells_sampler import observed_cells, reference_completions, shared_lists
from doxa.structure.cases.incomplete.joint_proposals import JointProposals
from doxa.structure.cases.incomplete.missing_cells import put_cells
from doxa.structure.cases.incomplete.sampler import CollapsedChain
from doxa.structure.families.cache import local_scores
from doxa.structure.graph import working_graph
from doxa.structure.limits import make_limits
from doxa.structure.moves.changes import accepts
from support.networks import load_network

WARM_UP = 40  # turns of the sampler itself, before each device's own time
SECONDS = float(os.environ.get("BENCH_SECONDS", "10"))


def blanked(table: Table, share: float, seed: int) -> Table:
    """Each cell is missing with this probability."""
    rng = np.random.default_rng(seed)
    codes = np.array(table.codes[table.row_index])
    codes[rng.random(codes.shape) < share] = -1
    return Table.from_codes(table.names, table.states, codes)


def first_rows(table: Table, n_rows: int, n_columns: int) -> Table:
    """The first rows and columns."""
    codes = table.codes[table.row_index[:n_rows], :n_columns]
    return Table.from_codes(table.names[:n_columns], table.states[:n_columns], codes)


# --- cost ------------------------------------------------------------------------------------------------------------


def milliseconds(do: Any, repeats: int = 3) -> float:
    do()
    begin = time.process_time()
    for _ in range(repeats):
        do()
    return (time.process_time() - begin) / repeats * 1e3


def sweep_cost(table: Table) -> dict[str, float]:
    data, limits = IncompleteData(table), make_limits(table.names)
    sampler = IncompleteSampler(data, limits)
    begin = time.process_time()
    lists, completions = shared_lists(data, limits, sampler.n_references, sampler.keep_within)
    making = time.process_time() - begin
    rng = np.random.default_rng(1)
    start = sampler.start(0, rng)
    joint_proposals = JointProposals(data, limits, lists, completions, sampler.least_spread)
    n_joint = sampler.joint_proposals
    chain = CollapsedChain(data, limits, sampler.move, lists, start, joint_proposals, n_joint=n_joint)
    for _ in range(5):
        chain.begin_sweep(rng)
        chain.move_graph(20_000, rng)
    steps = sampler.steps
    cells = milliseconds(lambda: chain.redraw_cells(1, rng))
    joint = milliseconds(lambda: joint_proposals.run(n_joint, chain.graph[1], chain.completion, rng))
    weigh = milliseconds(chain.score_afresh)

    def turn() -> None:
        chain.score_afresh()
        chain.move_graph(steps, rng)

    move = milliseconds(turn) - weigh
    return {"lists, s": making, "sets": lists.n_sets, "cells": cells, "joint": joint, "weigh": weigh, "move": move}


def cost() -> None:
    full = load_network("alarm").sample(100_000, 1)
    parts = "  cells  joint  weigh   move    sum, ms"
    print(f"{'rows':>6s} {'columns':>7s} {'missing':>7s} {'sets':>6s} {'lists, s':>8s} {parts}")
    cases = [(1000, 37, 0.1), (1000, 37, 0.01), (1000, 37, 0.03), (1000, 37, 0.3), (1000, 10, 0.1), (1000, 20, 0.1)]
    cases += [(300, 37, 0.1), (3000, 37, 0.1), (10_000, 37, 0.01), (100_000, 37, 0.001)]
    for n_rows, n_columns, share in cases:
        table = blanked(first_rows(full, n_rows, n_columns), share, 2)
        found = sweep_cost(table)
        total = found["cells"] + found["joint"] + found["weigh"] + found["move"]
        print(
            f"{n_rows:6d} {n_columns:7d} {table.n_missing:7d} {found['sets']:6.0f} {found['lists, s']:8.1f} "
            f"{found['cells']:7.1f}{found['joint']:7.1f}{found['weigh']:7.1f}{found['move']:7.1f}{total:8.1f}",
            flush=True,
        )


# --- devices ---------------------------------------------------------------------------------------------------------


class Frozen(CollapsedChain):
    """Structure moves on scores frozen at reference completions, accepted by what the completion at hand says.

    A step of `Auto` is a mixture of moves, each reversible for the frozen scores, so any number of steps is reversible;
    the joint proposal from G to G' is accepted with probability min(1, exp{[now - frozen](G') - [now - frozen](G)}).
    """

    def __init__(self, *arguments: Any, frozen: list[Any], length: int) -> None:
        super().__init__(*arguments)
        self.length, self.offered, self.taken = length, 0, 0
        data, limits, move, lists, state = arguments
        self.frozen = CollapsedChain(data, limits, move, lists, state._replace(cells=frozen[0]))
        weights, words = [], np.zeros_like(lists.sets[0])
        for cells in frozen[::-1]:  # the first last: other families are scored on it
            put_cells(self.frozen.completion, data.missing_cells, cells)
            scoring = self.frozen.scoring
            settled(weigh_lists, scoring.address)(self.frozen.completion, scoring, lists, words, self.moves.weight)
            weights.append(self.moves.weight.copy())
        mean = np.mean(weights, axis=0)
        arrange(self.frozen.moves.layout, lists, mean)
        settled(fill_cache)(lists, mean, words, self.frozen.moves.cache.arrays)
        self.frozen.is_scored = True  # else its first move would weigh the lists on the last completion alone

    def frozen_steps(self, number: int, rng: np.random.Generator) -> None:
        self.moves.cache.forget()
        score(self, self.graph)
        frozen = self.frozen
        frozen.graph = working_graph(self.graph[1])
        score(frozen, frozen.graph)
        now, then = self.local.sum(), frozen.local.sum()
        standing = self.graph[1].copy()
        for _ in range(number):
            frozen.move_graph(self.length, rng)
            while self.moves.cache.wants_to_grow and self.moves.cache.can_grow:
                self.moves.cache.grow()
            score(self, frozen.graph)
            after, after_then = self.local.sum(), frozen.local.sum()
            self.offered += 1
            if accepts(rng, (after - after_then) - (now - then)):
                self.taken += 1
                now, then = after, after_then
                standing = frozen.graph[1].copy()
            else:
                frozen.graph = working_graph(standing)
                score(frozen, frozen.graph)
        self.graph = working_graph(standing)


def score(chain: CollapsedChain, graph: Any) -> None:
    """Let a chain score the families of a graph, on its completion or as it has them stored."""
    scoring = chain.scoring
    settled(local_scores, scoring.address)(graph[0], chain.moves.cache.arrays, scoring, chain.local)


DEVICES: dict[str, dict[str, Any]] = {
    "as it is: cells, changes with cells": {"steps": 6845, "sweeps": 1, "joint_proposals": 740},
    "three times as many changes with cells": {"steps": 6845, "sweeps": 1, "joint_proposals": 2220},
    "no changes with cells": {"steps": 6845, "sweeps": 1},
    "lists weighed afresh": {"steps": 20_000},
    "lists weighed afresh, 5000 steps": {"steps": 5_000},
    "the same, 1 sweep of the cells": {"steps": 5_000, "sweeps": 1},
    "the same, 4 sweeps": {"steps": 5_000, "sweeps": 4},
    "lists weighed afresh, 80000 steps": {"steps": 80_000},
    "single edges": {"steps": 20_000, "move": SingleEdge()},
    "single edges, 2000 steps": {"steps": 2_000, "move": SingleEdge()},
    "frozen at 1 completion, 3 steps": {"references": 1, "length": 3},
    "frozen at 4 completions, 3 steps": {"references": 4, "length": 3},
    "frozen at 8 completions, 1 step": {"references": 8, "length": 1},
    "frozen at 8 completions, 3 steps": {"references": 8, "length": 3},
    "frozen at 8 completions, 10 steps": {"references": 8, "length": 10},
    "tempered with lists": {"betas": (1.0, 0.96, 0.92, 0.88), "joint_proposals": 0},
    "tempered with joint proposals": {"betas": (1.0, 0.96, 0.92, 0.88), "joint_proposals": 740},
    "the same, 2 rungs": {"betas": (1.0, 0.96), "joint_proposals": 740},
    "the same, betas of Tempered()": {"betas": Tempered().betas, "joint_proposals": 740},
}
TEMPERED = ["as it is: cells, changes with cells", "no changes with cells", *list(DEVICES)[-4:]]


def chains_of(name: str, data: IncompleteData, limits: Any) -> tuple[list[Any], str]:
    """Draws of the graph, turn by turn, of four chains that had the same time each, after the same warm-up."""
    device = DEVICES[name]
    move = device.get("move", Auto())
    sampler = IncompleteSampler(data, limits, move)
    shared, completions = shared_lists(data, limits, 4, sampler.keep_within)
    lists = shared if move.uses_table else None
    frozen = [cells for cells, _ in reference_completions(data, limits, device.get("references", 1), 4.0)]
    found, note = [], ""
    for number in range(4):
        rng = np.random.default_rng(np.random.SeedSequence(1, spawn_key=(number,)))
        usual = IncompleteSampler(data, limits)
        start, _, _ = usual.run(usual.start(number, rng), usual.thin * WARM_UP, rng)
        if "betas" in device:
            draws, note = tempered_draws(device, data, limits, start, rng)
            found.append(draws)
            continue
        arguments = (data, limits, move, lists, start)
        if "length" in device:
            chain: Any = Frozen(*arguments, frozen=frozen, length=device["length"])
        elif "joint_proposals" in device:
            joint_proposals = JointProposals(data, limits, shared, completions, sampler.least_spread)
            chain = CollapsedChain(*arguments, joint_proposals, n_joint=device["joint_proposals"])
        else:
            chain = CollapsedChain(*arguments)
        begin, draws = time.process_time(), []
        while time.process_time() - begin < SECONDS:
            if "joint_proposals" not in device:
                chain.redraw_cells(device.get("sweeps", 2), rng)
            if "length" in device:
                chain.frozen_steps(100, rng)
                note = f"{chain.taken / chain.offered:.2f} accepted"
            elif "joint_proposals" in device:
                chain.begin_sweep(rng)
                chain.move_graph(device["steps"], rng)
                note = "{2} of {1} changes taken".format(*chain.joint_proposals.done)
            else:
                chain.score_afresh()
                chain.move_graph(device["steps"], rng)
            draws.append(chain.graph[1].copy())
        found.append(np.array(draws))
    return found, note


def tempered_draws(device: dict[str, Any], data: IncompleteData, limits: Any, start: Any, rng: Any) -> tuple[Any, str]:
    """Draws of a first rung, turn by turn, and how often neighbours swapped; every rung starts where the chain is."""
    move = Tempered(betas=device["betas"], swap_every=1)
    sampler: Any = sampler_with_cells(data, limits, move, steps=6845, joint_proposals=device["joint_proposals"])
    state = sampler.init(rng)
    state = state._replace(rows=0 * state.rows + start.rows, cells=0 * state.cells + start.cells)
    draws, offered, taken = [], np.zeros(len(device["betas"]) - 1), np.zeros(len(device["betas"]) - 1)
    begin = time.process_time()
    while time.process_time() - begin < SECONDS:
        state, kept, info = sampler.run(state, 2 * sampler.thin, rng)
        draws.append(kept["rows"])
        offered += [info[f"swaps_{k}"] for k in range(len(offered))]
        taken += [info[f"swapped_{k}"] for k in range(len(offered))]
    return np.concatenate(draws), "swaps taken " + ", ".join(f"{share:.2f}" for share in taken / offered)


def devices(names: list[str]) -> None:
    table = blanked(load_network("alarm").sample(1000, 1), 0.1, 2)
    data, limits = IncompleteData(table), make_limits(table.names)
    print(f"{SECONDS:g} CPU s a chain; four chains, after {WARM_UP} turns of the first device")
    print(f"{'':36s}  turns  worst gap  root mean square  edges apart by over .05")
    for name in names or list(DEVICES):
        found, note = chains_of(name, data, limits)
        means = np.array([unpack_rows(draws, data.n_nodes).mean(axis=0) for draws in found])
        gap = means.max(axis=0) - means.min(axis=0)
        typical = np.sqrt((gap[means.max(axis=0) > 0.01] ** 2).mean())
        sweeps = sum(map(len, found)) // 4
        print(f"{name:36s} {sweeps:6d} {gap.max():10.3f} {typical:17.4f} {(gap > 0.05).sum():10d}   {note}", flush=True)


def agree() -> None:
    import doxa

    table = blanked(load_network("alarm").sample(1000, 1), 0.1, 2)
    seconds = float(os.environ.get("BENCH_SECONDS", "540"))
    begin = time.process_time()
    until = doxa.Until(max_seconds=seconds, mcse=1e-4)
    posterior = doxa.learn(table, until=until, seed=1, workers=2, progress=False)
    means = unpack_rows(posterior.trace["rows"], len(table.names)).mean(axis=1)
    gap = np.ptp(means, axis=0)
    chains, draws = posterior.n_edges.shape
    print(
        f"{chains} chains of {draws} draws, {time.process_time() - begin:.0f} CPU s in {seconds:.0f} s: worst gap "
        f"{gap.max():.3f}, edges apart by over .05: {(gap > 0.05).sum()}\n{posterior.verdict}"
    )


# --- imputation ------------------------------------------------------------------------------------------------------


PRIORS = {
    "equivalent sample size 1": BDeu(1.0),
    "5": BDeu(5.0),
    "20": BDeu(20.0),
    "K2, count .25": K2(0.25),
    "K2, .5": K2(0.5),
    "K2, 1": K2(1.0),
}


def impute() -> None:
    """Mean log loss of the blanked cells, nats, on tables of three seeds, and its ratio to that of the true network."""
    network = load_network("alarm")
    parents = np.zeros((len(network.dag.names), 1), dtype=np.uint64)
    for node, name in enumerate(network.dag.names):
        for parent in network.dag.parents(name):
            parents[network.dag.names.index(parent), 0] |= np.uint64(1 << node)  # rows of children
    for seed in (1, 2, 3):
        whole = network.sample(1000, seed)
        table = blanked(whole, 0.1, seed + 1)
        missing_cells = IncompleteData(table).missing_cells
        truth = whole.codes[whole.row_index][missing_cells.source_row[missing_cells.row], missing_cells.column]
        best = losses_of_the_true_network(network, table, missing_cells, truth).mean()
        learned = sampled_losses(table, truth, BDeu(1.0)).mean()
        print(
            f"table {seed}: the true network {best:.4f}; graph and tables learned {learned:.4f}, "
            f"{learned / best:.4f} times",
            flush=True,
        )
        for name, score in PRIORS.items():
            loss = losses_on_the_true_graph(table, truth, score, parents).mean()
            print(f"    true graph, tables learned, {name:25s} {loss:.4f}, {loss / best:.4f} times", flush=True)


def sampled_losses(table: Table, truth: Any, score: Any) -> Any:
    """Graphs and cells sampled by four chains."""
    data, limits = IncompleteData(table, score), make_limits(table.names)
    found = np.zeros((data.missing_cells.n_missing, int(data.missing_cells.n_states.max())))
    sampler = IncompleteSampler(data, limits)
    for number in range(4):
        rng = np.random.default_rng(np.random.SeedSequence(1, spawn_key=(number,)))
        state, begin = sampler.start(number, rng), time.process_time()
        state, _, _ = sampler.run(state, sampler.thin * 50, rng)
        is_over = False
        while not is_over:  # once at the least, where the warm-up took all the time
            state, draws, _ = sampler.run(state, sampler.thin * 10, rng)
            found += cell_probabilities(data, draws["rows"], draws["cells"])
            is_over = time.process_time() - begin >= SECONDS
    return -np.log(found[np.arange(len(truth)), truth] / found.sum(axis=1))


def losses_on_the_true_graph(table: Table, truth: Any, score: Any, rows: Any, passes: int = 400) -> Any:
    """The graph is known; only cells and, summed out, tables are not."""
    data, limits = IncompleteData(table, score), make_limits(table.names)
    rng = np.random.default_rng(1)
    start = IncompleteSampler(data, limits, SingleEdge()).start_at(rows, observed_cells(data.missing_cells, rng))
    chain = CollapsedChain(data, limits, SingleEdge(), None, start)
    chain.redraw_cells(50, rng)
    kept = []
    for _ in range(passes // 4):
        chain.redraw_cells(4, rng)
        kept.append(chain.cells)
    found = cell_probabilities(data, np.broadcast_to(rows, (len(kept), *rows.shape)), np.array(kept))
    return -np.log(found[np.arange(len(truth)), truth])


def losses_of_the_true_network(network: Any, table: Table, missing_cells: Any, truth: Any) -> Any:
    """Every cell given the known cells of its row, by exact inference."""
    from doxa.inference import infer
    from doxa.models import CategoricalNetwork

    states = dict(zip(network.dag.names, network.states, strict=True))
    tables = {
        name: network.tables[i].transpose(
            *[list(network.orders[i]).index(network.dag.names.index(p)) for p in network.dag.parents(name)], -1
        )
        for i, name in enumerate(network.dag.names)
    }
    true = CategoricalNetwork(network.dag, tables, states)
    losses = np.zeros(len(truth))
    for row in range(len(missing_cells.first) - 1):
        cells = range(missing_cells.first[row], missing_cells.first[row + 1])
        codes = missing_cells.base[:, missing_cells.n_complete + row]
        given = {name: states[name][codes[i]] for i, name in enumerate(table.names) if codes[i] >= 0}
        asked = [table.names[missing_cells.column[cell]] for cell in cells]
        answer = infer(true, asked, given=given, method="exact")
        for cell, name in zip(cells, asked, strict=True):
            losses[cell] = -np.log(answer[name][states[name][truth[cell]]].value)
    return losses


if __name__ == "__main__":
    part, *rest = sys.argv[1:] or ["cost"]
    {
        "cost": cost,
        "impute": impute,
        "devices": lambda: devices(rest),
        "tempered": lambda: devices(TEMPERED),
        "agree": agree,
    }[part]()
