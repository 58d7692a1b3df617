"""How near the default sampler comes to the posterior: to exact sums, and four chains to one another."""

from __future__ import annotations

import time
from itertools import combinations
from statistics import median

import numpy as np

from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure import Auto
from doxa.structure.exact.enumeration import exact_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.moves.starts import greedy_graph, random_dag, smallest_graph
from structure_parts.chains import SEEDS, WARMUP, caps, compile_kernels, load, run_for, spread, verdict
from support.networks import load_network

# network, records, cap on parents, CPU seconds, goals for the mean and the largest error
ACCURACY = (
    ("asia", 1000, None, 2.0, 0.001, np.inf),
    ("sachs", 1000, None, 2.0, 0.001, np.inf),
    ("child", 1000, 3, 10.0, 0.0005, 0.01),
    ("child", 5000, 3, 10.0, 0.0005, 0.01),
)
AGREEMENT = (("insurance", 1000), ("insurance", 5000), ("alarm", 1000), ("alarm", 5000))
APART = 0.02


def accuracy() -> None:
    compile_kernels(Auto())
    print(f"one chain of {Auto()} a run, from a random graph; {SEEDS} seeds; first {WARMUP:.0%} discarded")
    for name, n_rows, cap, seconds, mean_goal, max_goal in ACCURACY:
        table = load_network(name).sample(n_rows, seed=1)
        limits, n = caps(table, cap), len(table.names)
        begin = time.process_time()
        exact = exact_posterior(FamilyScores(table), limits).edge_probabilities
        summed = time.process_time() - begin
        off, means, largest, steps = ~np.eye(n, dtype=bool), [], [], []
        for seed in range(1, SEEDS + 1):
            begin = time.process_time()
            sampler = StructureSampler(Auto(), FamilyScores(table), limits, thin=20)
            rng = np.random.default_rng(seed)
            chain = run_for(sampler, sampler.init(rng), rng, seconds, begin)
            error = np.abs(chain.edges - exact)[off]
            means.append(float(error.mean()))
            largest.append(float(error.max()))
            steps.append(chain.n_steps)
        goal = f"<= {mean_goal}" + (f", largest <= {max_goal}" if max_goal < np.inf else "")
        reached = max(means) <= mean_goal and max(largest) <= max_goal
        print(
            f"{name:6s} {n_rows:5d} records, at most {n - 1 if cap is None else cap:2d} parents, {seconds:4.1f} CPU s: "
            f"goal mean {goal}; mean {spread(means)}, largest {spread(largest, 4)}: {verdict(reached)}; "
            f"{median(steps) / 1e6:.1f} million steps; exact sum {summed:.1f} CPU s; {load()}",
            flush=True,
        )


def agreement() -> None:
    compile_kernels(Auto())
    print(
        f"four chains of {Auto()}, from the empty, a random, the greedy and the true graph, 15 CPU s each, own table "
        f"included; {SEEDS} seeds; first {WARMUP:.0%} discarded; goal: no edge differs by more than {APART}"
    )
    for name, n_rows in AGREEMENT:
        network = load_network(name)
        table = network.sample(n_rows, seed=1)
        limits = caps(table)
        apart, deviation, steps, edges = [], [], [], []
        for seed in range(1, SEEDS + 1):
            chains = []
            for number in range(4):
                begin = time.process_time()
                scores = FamilyScores(table)
                sampler = StructureSampler(Auto(), scores, limits, thin=100)
                rng = np.random.default_rng((seed, number))
                start = (
                    smallest_graph(limits),
                    pack_rows(random_dag(rng, limits)),
                    greedy_graph(scores, limits) if number == 2 else smallest_graph(limits),
                    pack_rows(network.dag.adjacency),
                )[number]
                chains.append(run_for(sampler, sampler.start_at(start), rng, 15.0, begin))
            pairs = [np.abs(a.edges - b.edges) for a, b in combinations(chains, 2)]
            skeletons = [c.edges + c.edges.T for c in chains]
            apart.append(float(max(pair.max() for pair in pairs)))
            deviation.append(float(max(np.abs(a - b).max() for a, b in combinations(skeletons, 2))))
            steps.append(sum(c.n_steps for c in chains))
            edges.extend(float(c.edges.sum()) for c in chains)
            assert all(unpack_rows(c.state.rows, len(table.names)).any() for c in chains)
        print(
            f"{name:9s} {n_rows:5d} records: largest difference {spread(apart, 4)}, in either direction "
            f"{spread(deviation, 4)}: {verdict(max(apart) <= APART)}; {min(edges):.3f} to {max(edges):.3f} edges on "
            f"average; {median(steps) / 1e6:.0f} million steps; {load()}",
            flush=True,
        )
