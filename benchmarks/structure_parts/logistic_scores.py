"""Logistic families: new families a second on one core, how well they are known, and what that leaves of edges.

    python benchmarks/structure_parts/logistic_scores.py [rate | kinds | errors | edges | lists | missing_cells]

``rate``    families a CPU second, counting included, kernels compiled beforehand; the goal is 2000 at 1000 rows and 3
            parents.  ``network`` rows are collapsed records of a random network, ``distinct`` rows are all different.
``kinds``   the same for tables that are tame, drawn from a wide prior, of rare outcomes, or separable.
``errors``  standard errors, nodes used, and differences from far more nodes.
``edges``   what scores known to the tolerance change in edge probabilities, by enumeration of 4 nodes.
``lists``   score tables of 37 columns and 1000 rows: CPU seconds, size, what a family costs and what was estimated; a
            sparse network, and ALARM with its columns made binary.
``missing_cells``   with missing cells: a sweep of offers, how many are accepted, and joint proposals of the graph.
"""

# ruff: noqa: E402 (the cases of the tests are found first)

from __future__ import annotations

import sys
import time
from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np

sys.path[:0] = [
    str(Path(__file__).resolve().parents[2] / "tests" / part) for part in (".", "structure/families/logistic")
]

from logistic_score_cases import KINDS, binary_table, random_codes

from doxa.data import Table, datasets
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.cases.incomplete import IncompleteData, ScoredCellsSampler
from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain
from doxa.structure.exact.enumeration import all_dags
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.family_weights import score_families
from doxa.structure.families.logistic import FamilyMixture, Logistic
from doxa.structure.families.logistic.report import family_evidence
from doxa.structure.families.logistic.score import family_cost
from doxa.structure.families.score_table import build_score_table
from doxa.structure.families.set_numbers import subsets
from doxa.structure.limits import capped
from support.networks import load_network
from support.tables import skewed_table


def rows_of(kind: str, n_nodes: int, n_rows: int) -> Table:
    """Records of a binary network, or the same with noise columns that make all rows different."""
    table = skewed_table(n_nodes, n_rows, seed=1, density=0.25)
    if kind == "network":
        return table
    codes = np.repeat(table.codes, table.counts, axis=0)
    noise = np.random.default_rng(1).integers(0, 2, (n_rows, 40))
    names = [f"x{i}" for i in range(n_nodes + 40)]
    return Table.from_codes(names, [("n", "y")] * len(names), np.column_stack([codes, noise]))


def rate() -> None:
    for kind, n_rows, n_parents in (
        ("network", 1000, 1), ("network", 1000, 2), ("network", 1000, 3), ("distinct", 1000, 3), ("distinct", 100, 3),
        ("distinct", 10_000, 3), ("distinct", 1000, 5), ("distinct", 1000, 9), ("distinct", 1000, 15),
    ):  # fmt: skip
        table = rows_of(kind, 16, n_rows)
        scores = FamilyScores(table)
        sets = subsets(15, n_parents)
        members = np.zeros((len(sets), scores.n_nodes), dtype=bool)
        np.put_along_axis(members, sets, True, axis=1)
        words = pack_rows(members)[np.random.default_rng(0).permutation(len(sets))[: 2000 if n_parents < 9 else 40]]
        line = []
        for score in (Logistic(), Logistic(10.0), Logistic(method="jaakkola_jordan"), Logistic(method="optimal"),
                      FamilyMixture()):  # fmt: skip
            fill, out = scorer(table, score), np.empty(len(words))
            fill(15, words[:1], out[:1])
            begin = time.process_time()
            fill(15, words, out)
            seconds = time.process_time() - begin
            method = getattr(score, "method", "mixture")
            line.append(f"{method} {score.prior_scale:g}: {len(words) / seconds:,.0f}/s")
        size = f"{n_rows} rows ({len(table.counts)} distinct), {n_parents} parents"
        print(f"{kind}, {size}: {'; '.join(line)}", flush=True)


def scorer(table, score):
    """From a child and bit sets of parents to their scores, as score tables are made."""
    scores = FamilyScores(table, score)

    def fill(child, words, out):
        with scores.borrow() as (_, scoring):
            score_families(child, words, scoring, out)

    return fill


def kinds() -> None:
    rng = np.random.default_rng(0)
    for n_parents, n_rows in ((2, 1000), (3, 100), (3, 1000), (5, 1000), (8, 1000)):
        line = []
        for kind in KINDS:
            seconds = []
            for _ in range(20):
                table = binary_table(random_codes(rng, n_parents, n_rows, kind))
                fill, words = scorer(table, Logistic()), np.full((20, 1), 2 ** (n_parents + 1) - 2, np.uint64)
                fill(0, words[:1], np.empty(1))
                begin = time.process_time()
                fill(0, words, np.empty(20))
                seconds.append((time.process_time() - begin) / 20)
            line.append(f"{kind} {1 / np.mean(seconds):,.0f}/s (slowest table {1 / max(seconds):,.0f}/s)")
        print(f"{n_rows} rows, {n_parents} parents: {'; '.join(line)}", flush=True)


def errors() -> None:
    rng = np.random.default_rng(0)
    for scale in (2.0, 10.0):
        for n_parents, n_rows in ((2, 100), (3, 100), (3, 1000), (5, 1000), (8, 1000)):
            for kind in KINDS:
                found, gaps = [], []
                for _ in range(20):
                    table = binary_table(random_codes(rng, n_parents, n_rows, kind))
                    found.append(family_evidence(table, "x0", table.names[1:], Logistic(scale)))
                    fine = family_evidence(table, "x0", table.names[1:], Logistic(scale, tolerance=1e-5))
                    gaps.append(abs(found[-1].log_evidence - fine.log_evidence))
                values = np.array(found)
                print(
                    f"scale {scale:g}, {n_parents} parents, {n_rows} rows, {kind}: "
                    f"error mean {values[:, 1].mean():.4f} largest {values[:, 1].max():.4f}; "
                    f"from 32768 nodes rms {np.sqrt(np.mean(np.square(gaps))):.4f} largest {max(gaps):.4f}; "
                    f"nodes median {np.median(values[:, 2]):.0f}",
                    flush=True,
                )


def edge_probabilities(scores: FamilyScores, score: Logistic, noise: np.ndarray | None = None) -> np.ndarray:
    """By enumeration of four nodes; ``noise`` (4, 16) is added to the families' scores."""
    fill, n = scorer(scores.table, score), scores.n_nodes
    bits = np.array(list(np.ndindex(*[2] * n)), dtype=bool)
    table = np.full((n, 2**n), -np.inf)
    for child in range(n):
        legal = bits[~bits[:, child]]
        words, out = pack_rows(legal), np.empty(len(legal))
        fill(child, words, out)
        table[child, words[:, 0].astype(int)] = out
    if noise is not None:
        table = table + noise
    present = unpack_rows(all_dags(n), n)
    masks = (present * (1 << np.arange(n))[None, :, None]).sum(axis=1)
    log_p = table[np.arange(n), masks].sum(axis=1)
    p = np.exp(log_p - log_p.max())
    return np.einsum("g,gij->ij", p / p.sum(), present)


def edges() -> None:
    for n_rows in (30, 100, 1000):
        moved, shaken = [], []
        for seed in range(40):
            scores = FamilyScores(skewed_table(4, n_rows, seed=seed))
            fine = edge_probabilities(scores, Logistic(tolerance=1e-5))
            moved.append(np.abs(edge_probabilities(scores, Logistic()) - fine))
            noise = 0.01 * np.random.default_rng(seed).standard_normal((4, 16))
            shaken.append(np.abs(edge_probabilities(scores, Logistic(tolerance=1e-5), noise) - fine))
        off = ~np.eye(4, dtype=bool)
        found, noisy = np.array(moved)[:, off], np.array(shaken)[:, off]
        print(
            f"{n_rows} rows, 40 tables: edges move by {found.mean():.5f} on average, at most {found.max():.5f}; "
            f"independent noise of 0.01 nats would move them by {noisy.mean():.5f}, at most {noisy.max():.5f}",
            flush=True,
        )


def sparse_table(n_nodes: int = 37, n_rows: int = 1000) -> Table:
    """Logistic, two parents a node."""
    rng, codes = np.random.default_rng(1), np.zeros((n_rows, n_nodes), dtype=int)
    for j in range(n_nodes):
        logits = np.full(n_rows, 0.4 * rng.standard_normal())
        for parent in rng.choice(j, min(j, 2), replace=False) if j else ():
            logits += rng.choice([-1, 1]) * rng.uniform(0.7, 1.3) * (2 * codes[:, parent] - 1)
        codes[:, j] = rng.random(n_rows) < 1 / (1 + np.exp(-logits))
    return Table.from_codes([f"x{i}" for i in range(n_nodes)], [("n", "y")] * n_nodes, codes)


def binary_alarm(n_rows: int = 1000) -> Table:
    """Records of ALARM: the first state of every column against the rest."""
    table = load_network("alarm").sample(n_rows, 1)
    return Table.from_codes(table.names, [("first", "rest")] * 37, np.minimum(table.codes[table.row_index], 1))


def lists() -> None:
    for name, table in (("sparse", sparse_table()), ("alarm", binary_alarm())):
        for score in (Logistic(), FamilyMixture()):
            build_score_table(FamilyScores(sparse_table(5, 50), score), capped([4] * 5))  # compiles
            scores, limits = FamilyScores(table, score), capped([36] * 37)
            begin = time.process_time()
            info = build_score_table(scores, limits, keep_within=8.0).info
            seconds = time.process_time() - begin
            listed = 37 * sum(comb(36, k) * family_cost(score, k, len(table.counts)) for k in range(4)) * 1e-6
            print(
                f"{name}, {score.name}: {seconds:.1f} s for {info.n_computed} families ({info.n_kept} kept), all to "
                f"{info.complete_size} parents (estimate of these {listed:.1f} s), the largest {info.largest_size}",
                flush=True,
            )


def missing_cells() -> None:
    blanked = binary_alarm()
    codes = np.array(blanked.codes[blanked.row_index])
    codes[np.random.default_rng(5).random(codes.shape) < 0.1] = -1
    blanked = Table.from_codes(blanked.names, blanked.states, codes)
    for name, table in (("house_votes", datasets.load("house_votes")), ("alarm, 10% missing", blanked)):
        n, rng = len(table.names), np.random.default_rng(1)
        data, limits = IncompleteData(table, Logistic()), capped([n - 1] * n)
        sampler = ScoredCellsSampler(data, limits, steps=n * n)
        state = sampler.run(sampler.start(1, rng), (20 if n < 20 else 4) * n * n, rng)[0]
        chain = ScoredChain(sampler, state)
        for block in (1, 16, 64):
            begin, chain.blocks_done[:] = time.process_time(), 0
            chain.work = chain.work._replace(block=block)
            chain.redraw_cells(rng)
            seconds, (made, taken) = time.process_time() - begin, chain.blocks_done
            print(f"{name}: sweep in blocks of {block}: {1e3 * seconds:.0f} ms, {taken}/{made} accepted", flush=True)
        for joint_proposal in (1, 3, 10):
            chain = ScoredChain(replace(sampler, joint_proposal=joint_proposal), state)
            chain.move_graph(joint_proposal, rng)  # makes its lists
            begin, chain.graphs_done[:] = time.process_time(), 0
            chain.move_graph(n * n, rng)
            seconds, (made, taken) = time.process_time() - begin, chain.graphs_done
            print(
                f"{name}: {n * n} steps, {joint_proposal} at once: {seconds:.2f} s, {taken}/{made} accepted", flush=True
            )


PARTS = {"rate": rate, "kinds": kinds, "errors": errors, "edges": edges, "lists": lists, "missing_cells": missing_cells}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
