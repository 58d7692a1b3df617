"""Tables of numbers with missing cells: what it buys to sum these out while the graph changes.

Run as ``python benchmarks/missing_numbers.py [draws]``.  Of each table, with it and without: the standard deviation
between four chains of the share of draws with an edge, on average over all pairs of columns, and the largest, after so
many draws of each chain (100), one a sweep, and as many before them that are discarded; CPU seconds; the share of the
proposals that were taken.  The chains start from the empty graph, a greedy optimum, a dense and a random graph.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from doxa.data import Table
from doxa.models.bits import unpack_rows
from doxa.sampling.driver import Schedule, sample
from doxa.structure import BGe
from doxa.structure.cases.incomplete.missing_cells import IncompleteData
from doxa.structure.cases.incomplete.scored_sampler import ScoredCellsSampler
from doxa.structure.limits import make_limits

TABLES = ((8, 500, 0.1), (12, 300, 0.2), (12, 300, 0.3), (14, 400, 0.2), (20, 500, 0.1), (20, 500, 0.3))


def random_numbers(n_columns: int, n_rows: int, missing: float, seed: int = 2) -> Table:
    """Numbers, each with up to two parents among those before it, and cells that are missing at random."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, n_columns))
    for j in range(1, n_columns):
        for parent in rng.choice(j, size=min(j, 2), replace=False):
            values[:, j] += rng.choice([-0.8, 0.8]) * values[:, parent]
    values[rng.random(values.shape) < missing] = np.nan
    names = [f"x{j}" for j in range(n_columns)]
    return Table.from_codes(names, [()] * n_columns, np.where(np.isnan(values), -1, 0), numbers=values)


def apart(table: Table, draws: int, **options: Any) -> str:
    """One entry of the table."""
    sampler = ScoredCellsSampler(IncompleteData(table, BGe()), make_limits(table.names), **options)
    begin = time.process_time()
    trace = sample(sampler, Schedule(4, draws, draws), seed=1, workers=1)
    seconds = time.process_time() - begin
    edges = unpack_rows(trace["rows"], len(table.names)).mean(axis=1).std(axis=0, ddof=1)
    proposed, taken = (float(np.sum(trace.info[f"summed_{what}"])) for what in ("proposed", "accepted"))
    share = f"{taken / proposed:.2f}" if proposed else "-"
    return f"{edges.mean():.3f} | {edges.max():.2f} | {seconds:.1f} | {share}"


def main() -> None:
    """Print the table."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    apart(random_numbers(6, 100, 0.1), 5)  # compiles
    apart(random_numbers(6, 100, 0.1), 5, summed_out=0)
    print("| numbers, rows, missing | cells | apart, mean | most | CPU s | taken |\n" + "|---" * 6 + "|")
    for size in TABLES:
        table = random_numbers(*size)
        for name, options in (("summed out", {}), ("by columns", {"summed_out": 0})):
            print(f"| {size[0]}, {size[1]}, {size[2]:g} | {name} | {apart(table, draws, **options)} |", flush=True)


if __name__ == "__main__":
    main()
