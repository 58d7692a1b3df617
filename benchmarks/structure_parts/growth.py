"""How cost and agreement grow with nodes and records; each case in a process of its own, for its peak memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from doxa.models.bits import pack_rows
from doxa.structure import Auto
from doxa.structure.families.cache import FamilyScores
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.moves.starts import random_dag, smallest_graph
from score_table import random_table
from structure_parts.chains import caps, compile_kernels, load, run_for

SECONDS = 10.0  # CPU, each of two chains, beside the table
CASES = [(20, 2000), (50, 2000), (100, 2000), (200, 2000), (50, 500), (50, 5000), (50, 15_000), (50, 50_000)]


def one(n_nodes: int, n_rows: int) -> dict[str, float]:
    compile_kernels(Auto())
    table = random_table(n_nodes, n_rows, seed=1)
    limits = caps(table)
    begin = time.process_time()
    scores = FamilyScores(table)
    lists = parent_sets(scores, limits, 1.0)
    seconds = time.process_time() - begin
    sampler = StructureSampler(Auto(), scores, limits, thin=200)
    rng = np.random.default_rng(1)
    chains = []
    for start in (smallest_graph(limits), pack_rows(random_dag(rng, limits))):
        begin = time.process_time()
        chains.append(run_for(sampler, sampler.start_at(start), rng, SECONDS, begin))
    return {
        "nodes": n_nodes,
        "records": n_rows,
        "table": seconds,
        "sets": len(lists.sets),
        "rate": sum(chain.n_steps for chain in chains) / 0.9 / sum(chain.seconds for chain in chains) / 1e6,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
        "apart": float(np.abs(chains[0].edges - chains[1].edges).max()),
        "typical": float(np.abs(chains[0].edges - chains[1].edges).sum() / max(1.0, chains[0].edges.sum())),
        "edges": float(chains[0].edges.sum()),
    }


def growth() -> None:
    print(f"{Auto()}; two chains, from the empty and a random graph, {SECONDS:.0f} CPU s each beside the table")
    print(
        f"{'nodes':>5s} {'records':>7s} {'table, s':>8s} {'sets':>7s} {'million steps/s':>15s} {'peak MiB':>8s} "
        f"{'largest difference':>18s} {'differences an edge':>19s} {'edges':>6s}"
    )
    found = []
    for n_nodes, n_rows in CASES:
        command = [sys.executable, str(Path(__file__).parents[1] / "structure.py"), "--growth", str(n_nodes)]
        answer = subprocess.run([*command, str(n_rows)], check=True, capture_output=True, text=True)
        case = json.loads(answer.stdout.splitlines()[-1])
        found.append(case)
        print(
            f"{n_nodes:5d} {n_rows:7d} {case['table']:8.2f} {case['sets']:7d} {case['rate']:15.2f} "
            f"{case['memory']:8.0f} {case['apart']:18.4f} {case['typical']:19.5f} {case['edges']:6.1f}  {load()}",
            flush=True,
        )
    if find_spec("matplotlib"):
        print(f"drawn in {plot(found)}")


def plot(found: list[dict[str, float]]) -> Path:
    """One column for nodes, one for records; a row for each figure."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from doxa.plots import panels, plot_curves, save_png

    rows = {"table": "table, CPU s", "rate": "million steps/s", "memory": "peak MiB", "apart": "largest difference"}
    columns = {
        "nodes": [case for case in found if case["records"] == 2000],
        "records": sorted((case for case in found if case["nodes"] == 50), key=lambda case: case["records"]),
    }
    figure, axes = panels(len(rows), 2, width=7.0, height=2.25, sharex="col", sharey="row")
    for column, (along, cases) in enumerate(columns.items()):
        settings = [case[along] for case in cases]
        for row, (what, label) in enumerate(rows.items()):
            axis = plot_curves(
                settings,
                {label: [case[what] for case in cases]},
                x_label=along if row == len(rows) - 1 else "",
                y_label=label if column == 0 else "",
                title="" if row else "2000 records" if along == "nodes" else "50 nodes",
                legend=False,
                ax=axes[row, column],
            )
            axis.set(xscale="log", yscale="log")
        axes[-1, column].set_xticks(settings, [f"{setting:,.0f}" for setting in settings])
        axes[-1, column].minorticks_off()
    for axis in axes[:, 0]:
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
    return save_png(
        figure, Path(os.environ.get("BENCH_FOLDER", tempfile.gettempdir())) / "structure_growth.png", dpi=120
    )
