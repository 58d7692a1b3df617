"""The chains of section 3.3.5: data, samplers, starts, and what is kept of each run.

What an iteration is.  Algorithm 1 counts visits: its outer loop (line 2) goes to one node, tries ``rcar(10)``, makes
k + 1 Metropolis-Hastings steps and records the graph once (line 17).  So here an iteration of MB-MCMC is one visit, of
k + 1 steps.  eMC3 is not printed as an algorithm; an iteration of it is one ``rcar(10)`` and one single-edge step.
With k = 5 MB-MCMC has six proposals where eMC3 has one, so `EMC3_SIX`, with six steps to an iteration, is beside it.
An iteration of plain single-edge sampling or of doxa's own `Auto` is one step.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from doxa.data import Table
from doxa.models.bits import unpack_rows
from doxa.structure import EMC3, Auto, MarkovBlanket, SingleEdge
from doxa.structure.exact.enumeration import exact_edge_probabilities
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import Limits, capped
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.moves.starts import smallest_graph
from doxa.structure.posterior.relations import class_rows, count_differing_pairs, label_rows
from support.networks import ReferenceNetwork, load_network

DATA_SEED = 1
STARTS = (("empty", 1), ("empty", 2), ("true", 3))  # where a chain starts, and its seed
RECORDED = 100_000  # graphs of a run that are recorded, at equal distances, or all iterations if there are fewer
SAME_MODE = 3.0  # nats: mean log scores of runs that are in the same mode differ by less
TRACE = 500  # points of a trace that is drawn


@dataclass(frozen=True)
class Setting:
    """Records sampled from a reference network."""

    network: str  # "alarm", "insurance" or "asia"
    n_records: int
    seed: int = DATA_SEED

    def __str__(self) -> str:
        name = "ALARM" if self.network == "alarm" else self.network.capitalize()
        return f"{name}, {self.n_records:,} records"


@dataclass(frozen=True)
class Sampler:
    """A move, and how many of its steps make an iteration."""

    label: str
    move: Any
    steps: int


def markov_blanket(kernel: str, k: int = 5, w: float = 0.95) -> Sampler:
    """MB-MCMC as printed, or corrected and otherwise the same (rcar(10) too)."""
    label = f"MB-MCMC, {kernel}" if (k, w) == (5, 0.95) else f"MB-MCMC, {kernel}, k={k}, w={w}"
    return Sampler(label, MarkovBlanket(k=k, w=w, covered_arc_reversals=10, published=kernel == "printed"), k + 1)


MB = {kernel: markov_blanket(kernel) for kernel in ("printed", "corrected")}
EMC = {kernel: Sampler(f"eMC3, {kernel}", EMC3(published=kernel == "printed"), 1) for kernel in MB}
EMC3_SIX = Sampler("eMC3, corrected, 6 steps", EMC3(), 6)
SINGLE = Sampler("single edge", SingleEdge(), 1)
AUTO = Sampler("doxa's Auto", Auto(), 1)
SAMPLERS = (*MB.values(), *EMC.values(), SINGLE, AUTO)

ALARM = {n: Setting("alarm", n) for n in (1000, 5000, 7000)}
INSURANCE = {n: Setting("insurance", n) for n in (500, 10_000)}
SETTINGS = (*ALARM.values(), *INSURANCE.values())
SCANNED = (Setting("asia", 1000), ALARM[1000])
SCAN = ((5, 0.95), (0, 0.95), (1, 0.95), (20, 0.95), (100, 0.95), (5, 0.5), (5, 0.8), (5, 0.99))  # k, w


@dataclass(frozen=True)
class Distance:
    """How far a graph is from the one that made the data."""

    hamming: int  # pairs of nodes in another state: absent, one direction, the other
    of_classes: int  # the same for the graphs of the equivalence classes
    extra: int  # adjacencies that the true graph lacks
    missing: int  # adjacencies of the true graph that it lacks

    def __str__(self) -> str:
        return f"{self.hamming} (class {self.of_classes}; {self.extra} extra, {self.missing} missing)"


@dataclass(frozen=True)
class Run:
    """What is kept of a chain; the second half is what remains when the first is dropped as burn-in."""

    setting: Setting
    sampler: Sampler
    start: str
    iterations: int
    seconds: float  # CPU seconds, scores counted in the data included, compilation not
    trace: NDArray[np.int32]  # number of edges along the whole run
    score_trace: NDArray[np.float64]
    edges: NDArray[np.int32]  # number of edges, of the recorded graphs of the second half
    scores: NDArray[np.float64]  # their log scores, nats
    frequent: Distance  # the most frequent graph of the second half
    share: float  # its frequency
    best: Distance  # the graph with the highest score of the whole run
    best_score: float

    @property
    def seconds_per_million(self) -> float:
        return self.seconds * 1e6 / self.iterations


@cache
def network(name: str) -> ReferenceNetwork:
    return load_network(name)


@cache
def table(setting: Setting) -> Table:
    return network(setting.network).sample(setting.n_records, setting.seed)


def limits(name: str) -> Limits:
    n = network(name).dag.n_nodes
    return capped(np.full(n, n - 1))  # the chapter names no cap on the number of parents


def run(
    setting: Setting, sampler: Sampler, start: str, seed: int, iterations: int, scores: FamilyScores | None = None
) -> Run:
    """One chain, with an empty score cache; with scores that are given its time means nothing."""
    dag, limit = network(setting.network).dag, limits(setting.network)
    thin = max(1, iterations // RECORDED) * sampler.steps
    chain = StructureSampler(sampler.move, scores or FamilyScores(table(setting)), limit, thin=thin)
    rng = np.random.default_rng(seed)
    first = chain.start_at(dag.rows if start == "true" else smallest_graph(limit))
    if scores is None:
        compile_kernels(setting.network, sampler)
    begin = time.process_time()
    _, draws, _ = chain.run(first, iterations * sampler.steps, rng)
    seconds = time.process_time() - begin
    half = len(draws["n_edges"]) // 2
    kinds, label = label_rows(draws["rows"][half:])
    counts = np.bincount(label)
    best = int(np.argmax(draws["log_score"]))
    points = np.linspace(0, len(draws["n_edges"]) - 1, min(TRACE, 2 * half)).astype(int)
    return Run(
        setting, sampler, start, iterations, seconds, draws["n_edges"][points], draws["log_score"][points],
        draws["n_edges"][half:].copy(), draws["log_score"][half:].copy(),
        distance(draws["rows"][half + kinds[counts.argmax()]], dag.rows), counts.max() / len(label),
        distance(draws["rows"][best], dag.rows), float(draws["log_score"][best]),
    )  # fmt: skip


def scores_of_few_records(setting: Setting) -> FamilyScores:
    """Of a tenth of the records, for runs that share them and whose numbers mean nothing."""
    return FamilyScores(network(setting.network).sample(setting.n_records // 10, setting.seed))


@cache
def compile_kernels(name: str, sampler: Sampler) -> None:
    """A few steps that nobody times."""
    small = Setting(name, 50)
    chain = StructureSampler(sampler.move, FamilyScores(table(small)), limits(name), thin=1)
    chain.run(chain.start_at(smallest_graph(limits(name))), 10, np.random.default_rng(0))


def distance(rows: NDArray[np.uint64], true: NDArray[np.uint64]) -> Distance:
    found, wanted = _adjacent(rows), _adjacent(true)
    directed, undirected = class_rows(np.stack([rows, true]))
    classes = directed | undirected
    return Distance(
        int(count_differing_pairs(rows[None], true)[0]),
        int(count_differing_pairs(classes[:1], classes[1])[0]),
        int((found & ~wanted).sum()) // 2,
        int((wanted & ~found).sum()) // 2,
    )


def _adjacent(rows: NDArray[np.uint64]) -> NDArray[np.bool_]:
    edges = unpack_rows(rows, len(rows))
    return edges | edges.T


def true_score(setting: Setting) -> float:
    """Log score of the graph that made the data, nats."""
    dag, scores = network(setting.network).dag, FamilyScores(table(setting))
    return sum(scores.log_score(node, dag.parents(node)) for node in dag.names)


def edge_range(run: Run) -> tuple[int, int]:
    """The middle 90% of the numbers of edges of the second half."""
    low, high = np.quantile(run.edges, (0.05, 0.95), method="nearest")
    return int(low), int(high)


@dataclass(frozen=True)
class Results:
    """All runs."""

    runs: dict[tuple[Setting, Sampler], tuple[Run, ...]]  # in the order of STARTS
    scan: tuple[Run, ...]  # of k and w
    others: tuple[Run, ...]  # on other records of the same size
    exact_asia: float  # exact posterior mean of the number of edges, for the Asia runs of the scan
    seconds: float  # CPU seconds of everything

    def reference(self, setting: Setting) -> float:
        """Posterior mean of the number of edges, by `Auto`."""
        return float(np.mean([r.edges.mean() for r in self._reference_runs(setting)]))

    def reference_score(self, setting: Setting) -> float:
        """Posterior mean of the log score, by `Auto`."""
        return float(np.mean([r.scores.mean() for r in self._reference_runs(setting)]))

    def _reference_runs(self, setting: Setting) -> list[Run]:
        """Runs of `Auto` in the best mode that any found; a mode that scores 20 nats less does not count."""
        runs = self.runs[setting, AUTO]
        best = max(r.scores.mean() for r in runs)
        return [r for r in runs if r.scores.mean() > best - SAME_MODE]


def run_all(quick: bool) -> Results:
    """Every run of the experiment, in turn."""
    begin = time.process_time()
    iterations = 1000 if quick else 1_000_000
    runs = {}
    for setting in SETTINGS:
        six = (EMC3_SIX,) if setting in (ALARM[7000], INSURANCE[10_000]) else ()
        few = scores_of_few_records(setting) if quick else None
        for sampler in (*SAMPLERS, *six):
            progress(f"{setting}: {sampler.label}")
            runs[setting, sampler] = tuple(run(setting, sampler, *start, iterations, few) for start in STARTS)
    scan = []
    for setting in SCANNED:
        for kernel in MB:
            for k, w in SCAN[::4] if quick else SCAN:
                progress(f"{setting}: k={k}, w={w}")
                scan.append(run(setting, markov_blanket(kernel, k, w), "empty", 1, 6 * iterations // (k + 1)))
    others = []
    for setting in SETTINGS[:1] if quick else SETTINGS:
        for seed in range(DATA_SEED + 1, DATA_SEED + (2 if quick else 4)):
            progress(f"{setting}, set {seed}")
            again = Setting(setting.network, setting.n_records, seed)
            few = scores_of_few_records(again) if quick else None
            others += [run(again, sampler, "empty", 1, iterations, few) for sampler in (MB["printed"], AUTO)]
    exact = float(exact_edge_probabilities(FamilyScores(table(SCANNED[0]))).sum())
    progress("")
    return Results(runs, tuple(scan), tuple(others), exact, time.process_time() - begin)


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:60s}", end="", file=sys.stderr, flush=True)
