"""Effective draws a second of `doxa.fit` as a user calls it."""

from __future__ import annotations

import os
import time
from statistics import median

import numpy as np

import doxa
from logistic_parts.problems import SEEDS, least_ess, spread

DRAWS = 20_000
GOALS = {20: 15, 50: 30}  # times NUTS
ROOTS_SHARE = 0.03  # of the time, at most
NUTS = dict(pair.split("=") for pair in os.environ.get("NUTS_RATES", "20=3300").split())


def paper_network(d, seed, n_rows=1000):
    """As `paper_problem`, with roots given, and learned, and the table."""
    names = [f"x{j}" for j in range(d)]
    given = doxa.LogisticNetwork({"y": names}, bias=0.5, roots=dict.fromkeys(names, 0.5))
    rng = np.random.default_rng([seed, d])
    return given, doxa.LogisticNetwork({"y": names}, bias=0.5), given.simulate(n_rows, {"y": 1 - rng.random(d)}, rng)


def fit() -> None:
    for d, goal in GOALS.items():
        found = {"roots given": [], "roots learned": []}
        for seed in range(SEEDS):
            given, learned, table = paper_network(d, seed)
            doxa.fit(given, table, draws=4, warmup=0, seed=seed, workers=1)  # imports
            for name, network in zip(found, (given, learned), strict=True):
                begin = time.process_time()
                fitted = doxa.fit(network, table, draws=DRAWS, seed=seed, workers=1)
                seconds = time.process_time() - begin
                found[name].append((least_ess(fitted.draws("y")) / seconds, seconds, fitted.method["y"]))
        for name, rows in found.items():
            rates, seconds, methods = zip(*rows, strict=True)
            ratio = f", {median(rates) / float(NUTS[str(d)]):.1f} times NUTS" if str(d) in NUTS else ""
            print(
                f"d = {d}, {name}: {spread(rates)} effective draws a CPU second{ratio} (goal {goal} times); "
                f"{spread(seconds)} s, by {'/'.join(sorted(set(methods)))}"
            )
        times = {name: median(row[1] for row in rows) for name, rows in found.items()}
        share = times["roots learned"] / times["roots given"] - 1
        print(f"d = {d}: learning the {d} roots adds {share:.1%} of the time, goal at most {ROOTS_SHARE:.0%}")
