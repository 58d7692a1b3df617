"""Tables with missing numbers, alone and beside categories: what it buys to sum cells out while the graph changes.

Run as ``python benchmarks/missing_numbers.py [draws]``.  Of each table, with it and without: the standard deviation
between four chains of the share of draws with an edge, on average over all pairs of columns, and the largest, after so
many draws of each chain (100), one a sweep, and as many before them that are discarded; CPU seconds; the share of the
proposals that were taken.  The chains start from the empty graph, the best graph of a search, a dense and a random one.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from doxa.data import Table
from doxa.models.bits import unpack_rows
from doxa.sampling.driver import Schedule, sample
from doxa.structure import BGe, ConditionalGaussian
from doxa.structure.cases.incomplete.missing_cells import IncompleteData
from doxa.structure.cases.incomplete.scored_sampler import ScoredCellsSampler
from doxa.structure.limits import make_limits

TABLES = (
    (0, 8, 500, 0.1), (0, 12, 300, 0.2), (0, 12, 300, 0.3), (0, 14, 400, 0.2), (0, 20, 500, 0.1), (0, 20, 500, 0.3),
    (2, 8, 400, 0.1), (1, 13, 400, 0.2), (2, 10, 300, 0.2),
    (2, 8, 400, 0.1, 0.1), (1, 13, 400, 0.2, 0.2), (2, 10, 300, 0.2, 0.2), (5, 10, 500, 0.1, 0.1),
    (2, 8, 400, 0.0, 0.1),
)  # categories, numbers, rows, shares of the numbers and of the categories that are blank  # fmt: skip


def random_numbers(
    categories: int, numbers: int, n_rows: int, missing: float, unknown: float = 0.0, seed: int = 2
) -> Table:
    """Categories, and numbers with up to two parents each among the columns before, and blank cells."""
    rng, n_columns = np.random.default_rng(seed), categories + numbers
    values = rng.normal(size=(n_rows, n_columns))
    for j in range(categories):
        values[:, j] = rng.integers(0, 2 + j % 2, n_rows)
    for j in range(max(1, categories), n_columns):
        for parent in rng.choice(j, size=min(j, 2), replace=False):
            values[:, j] += rng.choice([-0.8, 0.8]) * values[:, parent]
    is_number = np.arange(n_columns) >= categories
    blank = rng.random(values.shape) < np.where(is_number, missing, unknown)
    codes = np.where(blank, -1, np.where(is_number, 0, values)).astype(int)
    values[blank | ~is_number] = np.nan
    states = [() if is_number[j] else tuple("abc"[: 2 + j % 2]) for j in range(n_columns)]
    return Table.from_codes([f"x{j}" for j in range(n_columns)], states, codes, numbers=values)


def apart(table: Table, draws: int, **options: Any) -> str:
    """One entry of the table."""
    kind = BGe() if table.is_number.all() else ConditionalGaussian()
    forbidden = [(table.names[i], table.names[j]) for i, j in np.argwhere(kind.forbidden_edges(table.is_number))]
    sampler = ScoredCellsSampler(IncompleteData(table, kind), make_limits(table.names, forbidden=forbidden), **options)
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
    for categories in (0, 1):  # compiles
        apart(random_numbers(categories, 6, 100, 0.1, 0.1), 5)
        apart(random_numbers(categories, 6, 100, 0.1, 0.1), 5, summed_out=0)
    print("| categories, numbers, rows, blank | cells | apart, mean | most | CPU s | taken |\n" + "|---" * 6 + "|")
    for size in TABLES:
        table = random_numbers(*size)
        for name, options in (("summed out", {}), ("by columns", {"summed_out": 0})):
            print(
                f"| {', '.join(f'{part:g}' for part in size)} | {name} | {apart(table, draws, **options)} |", flush=True
            )


if __name__ == "__main__":
    main()
