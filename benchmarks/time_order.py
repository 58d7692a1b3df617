"""Dynamic tables: how long a run takes to converge, and what it finds.

    python benchmarks/time_order.py [--columns 12] [--units 100] [--moments 50] [--missing 0.0] [--numbers]

A random network of moments with their past (two or so parents a column) makes units of moments; `doxa.learn` with its
defaults learns from them.  Printed are the verdict, CPU seconds, how the probable edges agree with the network's, and,
with ``--missing``, the share of cells that were taken out.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd

import doxa


def dynamic_table(
    n: int, units: int, moments: int, rng: np.random.Generator, *, numbers: bool = False
) -> tuple[pd.DataFrame, set[tuple[str, str, int]]]:
    """Units of moments, and the edges (source, target, lag) of the network that made them."""
    names = [f"x{j}" for j in range(n)]
    slopes = np.zeros((2, n, n))  # [lag, source, target]
    for j in range(n):
        slopes[1, j, j] = 0.6 if rng.random() < 0.7 else 0.0
        for source in rng.choice(n, size=2, replace=False).tolist():
            lag = int(rng.random() < 0.5)
            if lag or source < j:
                slopes[lag, source, j] = rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 0.9)
    slopes[1] *= 0.9 / max(0.9, np.abs(np.linalg.eigvals(slopes[1])).max())
    edges = {
        (names[i], names[j], lag)
        for lag in (0, 1)
        for i in range(n)
        for j in range(n)
        if slopes[lag, i, j] and not (lag == 0 and i == j)
    }
    rows: list[tuple[Any, ...]] = []
    for unit in range(units):
        state = rng.normal(size=n)
        for moment in range(-10, moments):
            new = np.zeros(n)
            for j in range(n):
                pull = slopes[1, :, j] @ state + slopes[0, :, j] @ new
                new[j] = pull + rng.normal() if numbers else np.sign(pull * 1.2 + rng.logistic() * 0.8)
            state = new
            if moment >= 0:
                rows.append((f"u{unit}", moment, *state))
    frame = pd.DataFrame(rows, columns=["unit", "moment", *names])
    if not numbers:
        frame[names] = np.where(frame[names] > 0, "high", "low")
    return frame, edges


def main() -> None:
    """Make a table, learn, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("columns", 12), ("units", 100), ("moments", 50), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--missing", type=float, default=0.0)
    parser.add_argument("--numbers", action="store_true")
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    frame, edges = dynamic_table(asked.columns, asked.units, asked.moments, rng, numbers=asked.numbers)
    if asked.missing:
        cells = frame.iloc[:, 2:].astype(object)
        frame[cells.columns] = cells.mask(rng.random(cells.shape) < asked.missing, None)
        if asked.numbers:
            frame[cells.columns] = frame[cells.columns].astype(float)
    small = frame[frame["unit"].isin(["u0", "u1"])]
    doxa.learn(small, time="moment", unit="unit", draws=8, warmup=2, seed=1, progress=False)  # compiles
    begin, wall = time.process_time(), time.perf_counter()
    posterior = doxa.learn(frame, time="moment", unit="unit", seed=asked.seed, progress=False)
    seconds, wall = time.process_time() - begin, time.perf_counter() - wall
    probable = posterior.edges().query("probability > 0.5")
    found = set(zip(probable["source"], probable["target"], probable["lag"], strict=True))
    print(posterior.options.of_time)
    print(f"{asked.columns} columns, {posterior.options.n_missing} unknown cells")
    print(posterior.verdict)
    print(f"{seconds:.1f} CPU seconds ({wall:.1f} of the clock); {posterior.n_edges.size} draws")
    print(f"edges of the network: {len(edges)}; probable: {len(found)}; of these in the network: {len(found & edges)}")


if __name__ == "__main__":
    main()
