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
    """Share of the states whose interval holds the exact probability, in runs that are believed.

    States of a run share its luck, so the standard error is that of the runs' shares.  "ess pq >= 10" leaves out what
    is too rare for the run: effective draws times p (1 - p) below 10.
    """
    print("network     method       covered           ess pq >= 10      believed  largest error  CPU s")
    for name in NETWORKS:
        network = doxa.read_network(network_file(name))
        for method in os.environ.get("BENCH_METHODS", ",".join(METHODS)).split(","):
            rows = [_one(network, name, method, seed) for seed in range(SEEDS)]
            believed = [row for row in rows if row[2]]
            worst, seconds = max(row[3] for row in rows), np.median([row[4] for row in rows])
            trust = f"{len(believed)} of {len(rows)}"
            shares = [_with_error([row[k] for row in believed]) for k in (0, 1)]
            print(
                f"{name:11s} {method:11s} {shares[0]:17s} {shares[1]:17s} {trust:9s} {worst:13.4f}  {seconds:5.2f}",
                flush=True,
            )


def _with_error(shares):
    shares = np.array([share for share in shares if not np.isnan(share)])  # nan: all were exact
    if shares.size < 2:
        return "-"
    return f"{shares.mean():.3f} +- {shares.std(ddof=1) / np.sqrt(shares.size):.3f}"


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
        return np.nan, np.nan, False, np.nan, time.process_time() - begin
    seconds = time.process_time() - begin
    inside, common, error = [], [], 0.0
    for variable, table in found.items():
        for label, estimate in table.items():
            truth = exact[variable][label].value
            error = max(error, abs(estimate.value - truth))
            if not estimate.exact:
                low, high = estimate.interval()
                inside.append(low - 1e-12 <= truth <= high + 1e-12)
                if estimate.ess * truth * (1 - truth) >= 10:
                    common.append(inside[-1])
    shares = [float(np.mean(part)) if part else np.nan for part in (inside, common)]
    return *shares, bool(found.converged), error, seconds
