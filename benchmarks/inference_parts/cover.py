"""Coverage of the 95% intervals of `doxa.infer`, over networks, evidence and methods."""

from __future__ import annotations

import os
import time

import numpy as np

import doxa
from doxa.inference import ImpossibleEvidenceError
from inference_parts.networks import OBSERVED
from support.networks import network_file

SEEDS = int(os.environ.get("BENCH_SEEDS", "5"))
NETWORKS = os.environ.get("BENCH_NETWORKS", "asia,alarm,insurance,hailfinder,win95pts,andes").split(",")
METHODS = ("importance", "gibbs", "tempering")


def cover() -> None:
    """Share of the states whose interval holds the exact probability; runs that are not believed stand apart."""
    print("network     method       covered  believed  largest error  CPU s")
    for name in NETWORKS:
        network = doxa.read_network(network_file(name))
        for method in os.environ.get("BENCH_METHODS", ",".join(METHODS)).split(","):
            rows = [_one(network, name, method, seed) for seed in range(SEEDS)]
            believed = [row for row in rows if row[1]]
            shares = [row[0] for row in believed if not np.isnan(row[0])]  # nan: all were exact
            covered = np.mean(shares) if shares else np.nan
            worst, seconds = max(row[2] for row in rows), np.median([row[3] for row in rows])
            trust = f"{len(believed)} of {len(rows)}"
            print(f"{name:11s} {method:11s} {covered:8.3f}  {trust:8s}  {worst:13.4f}  {seconds:5.1f}", flush=True)


def _one(network, name, method, seed):
    rng = np.random.default_rng(seed)
    codes = network.simulate(1, rng).codes[0]
    seen = rng.choice(len(codes), OBSERVED.get(name, 2), replace=False)
    given = {network.names[v]: network.states[v][codes[v]] for v in seen}
    exact = doxa.infer(network, given=given)
    begin = time.process_time()
    try:
        found = doxa.infer(network, given=given, method=method, seed=seed)
    except ImpossibleEvidenceError:
        return np.nan, False, np.nan, time.process_time() - begin
    seconds = time.process_time() - begin
    inside, error = [], 0.0
    for variable, table in found.items():
        for label, estimate in table.items():
            truth = exact[variable][label].value
            error = max(error, abs(estimate.value - truth))
            if not estimate.exact:
                low, high = estimate.interval()
                inside.append(low - 1e-12 <= truth <= high + 1e-12)
    return float(np.mean(inside)) if inside else np.nan, bool(found.converged), error, seconds
