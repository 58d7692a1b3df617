"""Run sumu for a CPU time and print edge probabilities as JSON; run by sumu's own Python, which knows nothing of doxa.

python sumu_run.py DATA.npy K CHAINS SECONDS SEED

Iterations are fitted to the time by two short runs, which are not charged.  Warm-up is the first tenth.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from sumu.gadget import Data, Gadget

THIN = 10


def run(data: np.ndarray, k: int, chains: int, iterations: int) -> tuple[np.ndarray, float]:
    """Edge probabilities and CPU seconds."""
    begin = time.process_time()
    settings = {"scoref": "bdeu", "ess": 1, "max_id": -1, "cp_algo": "top", "cp_path": None, "tolerance": 2.0**-32}
    lengths = {"burn_in": iterations // 10, "iterations": iterations, "thinning": THIN}
    graphs, _ = Gadget(data=Data(data), K=k, d=k, mc3_chains=chains, **settings, **lengths).sample()
    edges = np.zeros((data.shape[1], data.shape[1]))
    for families in graphs:
        for family in families:
            if len(family) > 1:
                edges[list(family[1]), family[0]] += 1
    return edges / len(graphs), time.process_time() - begin


if __name__ == "__main__":
    data = np.load(sys.argv[1]).astype(np.int32)
    k, chains, seconds, seed = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
    np.random.seed(seed)  # noqa: NPY002 (the generator that sumu draws from)
    run(data, k, chains, 100)
    short, longer = run(data, k, chains, 200)[1], run(data, k, chains, 1200)[1]
    iterations = int(200 + (seconds - short) / (longer - short) * 1000)
    edges, took = run(data, k, chains, iterations)
    print(json.dumps({"edges": edges.tolist(), "seconds": took, "iterations": iterations}))
