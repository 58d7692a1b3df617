"""Time and memory of reading, counting and learning from Parquet files that are larger than memory as tables.

Run as ``python benchmarks/large_table.py [rows] [folder] [task]``: a million rows by default; 100000000 is the full
size.  DuckDB draws the rows from a random network of twelve binary and ternary columns, straight into a file in the
folder (a temporary one by default), which is deleted afterwards unless it was there before.  A second file has a fifth
of the rows and forty ternary columns: its rows hardly repeat, and `doxa.learn` counts all families of two parents
where they are.  The same sets of columns are counted in a DuckDB relation and in lazy frames of Polars, Ibis and Dask,
where these are installed (`_LAZY`: the frame is described, then all sets are counted).  Each task runs in a process of
its own, whose seconds, CPU seconds and peak resident memory are printed; a part of a task's name picks the tasks.
A third file, of a fifth of the rows, has eight
columns of numbers beside four of categories.  Target for the full size: 3 GB.
"""

import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

_NARROW, _WIDE = [2, 3] * 6, [3] * 40
_LABELS = {2: "['no', 'yes']", 3: "['low', 'mid', 'high']"}

_START = """
import itertools, json, resource, sys, time
start, cpu = time.perf_counter(), time.process_time()
import doxa.data.duck
from doxa.data import read_table
from doxa.data.large import open_source
def brief(found): return repr(found).splitlines()[0]
"""
_END = """
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"said": said, "wall": time.perf_counter() - start, "cpu": time.process_time() - cpu,
                  "peak": used.ru_maxrss / 2**20}))
"""
_TASKS = {
    "read_table": """
doxa.data.duck._LARGE_ROWS = 0
said = repr(read_table(sys.argv[1]))
""",
    "read_table, Polars scan_parquet": """
import polars
said = repr(read_table(polars.scan_parquet(sys.argv[1])))
""",
    "learn": """
import doxa
doxa.data.duck._LARGE_ROWS = 0
posterior = doxa.learn(sys.argv[1], seed=1)
said = f"{brief(posterior)}, {posterior.table!r}, {len(posterior.query('column 3', given={'column 0': 'yes'}))} answers"
""",
    "count_sets: all sets of up to 4 columns": """
with open_source(sys.argv[1]) as counted:
    sets = [s for k in range(5) for s in itertools.combinations(counted.names, k)]
    found = counted.count_sets(sets)
    assert all(one.counts.sum() == counted.n_rows for one in found)
said = f"{len(found)} sets, {sum(one.counts.size for one in found)} cells"
""",
    "the same by groups, at most 5000 cells a pass": """
with open_source(sys.argv[1]) as counted:
    sets = [s for k in range(5) for s in itertools.combinations(counted.names, k)]
    passes, group = [], counted._engine.group
    counted._engine.count_blocks = lambda blocks, most: passes.append(len(blocks)) or group(blocks, most)
    counted.count_sets(sets, cells_a_pass=5000)
said = f"{sum(passes)} blocks of columns in {len(passes)} passes"
""",
}
_WIDE_TASKS = {
    "learn, 40 columns, max_parents=2": """
import doxa
from doxa.data.large import OutOfCoreSource
doxa.data.duck._LARGE_ROWS = 0
whole = OutOfCoreSource.try_table
OutOfCoreSource.try_table = lambda self: whole(self, min(2**23, self.n_rows // 3))
posterior = doxa.learn(sys.argv[1], max_parents=2, draws=300, warmup=300, seed=1)
said = f"{brief(posterior)}, {posterior.table!r}, converged: {posterior.converged}"
""",
}
_NUMBER_TASKS = {
    "learn from moments, numbers and categories": """
import doxa
doxa.data.duck._LARGE_ROWS = 0
posterior = doxa.learn(sys.argv[1], seed=1)
effect = posterior.effect("column 0", "number 7")
said = f"{brief(posterior)}, {posterior.table!r}, {posterior.table.n_distinct} rows made, effect {effect.value:.4f}"
""",
}
_LAZY_TASK = """
import warnings
warnings.simplefilter("ignore")
with open_source({frame}) as counted:
    opened = time.process_time() - cpu
    sets = [s for k in range({most} + 1) for s in itertools.combinations(counted.names, k)]
    passes, count = [], counted._engine.count_blocks
    counted._engine.count_blocks = lambda blocks, most: passes.append(len(blocks)) or count(blocks, most)
    counted.count_sets(sets)
said = f"{{len(sets)}} sets, {{sum(passes)}} blocks in {{len(passes)}} passes; described after {{opened:.1f}} s of CPU"
"""
_LAZY = {
    "DuckDB relation": ("duckdb", "__import__('duckdb').sql(f\"FROM '{sys.argv[1]}'\")"),
    "Polars": ("polars", "__import__('polars').scan_parquet(sys.argv[1])"),
    "Ibis on DuckDB": ("ibis", "__import__('ibis').duckdb.connect().read_parquet(sys.argv[1])"),
    "Dask": ("dask", "__import__('dask.dataframe').dataframe.read_parquet(sys.argv[1])"),
}


def _lazy_tasks(most):
    """The tasks of `_LAZY` that can run here, for all sets of up to ``most`` columns."""
    return {
        f"count_sets, {engine}: all sets of up to {most} columns": _LAZY_TASK.format(frame=frame, most=most)
        for engine, (module, frame) in _LAZY.items()
        if importlib.util.find_spec(module)
    }


def network_sql(n_rows, radix_of=_NARROW, seed=1):
    """Write the query that draws rows: each column depends on the one before it and the one three before."""
    rng = random.Random(seed)
    drawn, rows = "", f"(SELECT random() AS u0 FROM range({n_rows}))"
    for j, radix in enumerate(radix_of):
        n_configurations, configuration = 1, "0"
        for parent in (p for p in (j - 1, j - 3) if p >= 0):
            configuration = f"({configuration}) * {radix_of[parent]} + x{parent}"
            n_configurations *= radix_of[parent]
        ends = [_cumulative(rng, radix) for _ in range(n_configurations)]
        state = " + ".join(
            f"(u{j} >= ({[row[k] for row in ends]})[1 + {configuration}])::INT" for k in range(radix - 1)
        )
        rows = f"(SELECT {drawn}{state} AS x{j}, random() AS u{j + 1} FROM {rows})"
        drawn += f"x{j}, "
    named = ", ".join(f'({_LABELS[radix]})[1 + x{j}] AS "column {j}"' for j, radix in enumerate(radix_of))
    return f"SELECT {named} FROM {rows}"


def _cumulative(rng, radix):
    weights = [rng.random() + 0.05 for _ in range(radix)]
    return [round(sum(weights[: k + 1]) / sum(weights), 4) for k in range(radix - 1)]


def main():
    """Draw, run every task in a process of its own, print."""
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    chosen = sys.argv[3] if len(sys.argv) > 3 else ""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else scratch)
        _run(folder / f"large-table-{n_rows}.parquet", n_rows, _NARROW, _tasks(_TASKS | _lazy_tasks(4), chosen))
        _run(
            folder / f"wide-table-{n_rows // 5}.parquet",
            n_rows // 5,
            _WIDE,
            _tasks(_WIDE_TASKS | _lazy_tasks(3), chosen),
        )
        path = folder / f"numbers-{n_rows // 5}.parquet"
        _run(path, n_rows // 5, [0] * 12, _tasks(_NUMBER_TASKS, chosen), _numbers_sql(n_rows // 5))


def _numbers_sql(n_rows):
    """Four columns of categories, and eight of numbers, each a sum of the one before, a category and noise."""
    inner = network_sql(n_rows, _NARROW[:4])
    drawn, rows = '"column 0", "column 1", "column 2", "column 3"', f"({inner})"
    above = "0.0"
    for k in range(8):
        noise = "sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())"
        own = f"""0.3 * ({above}) + 0.2 * ("column {k % 4}" = 'yes')::INT + {noise}"""
        rows = f'(SELECT {drawn}, {own} AS "number {k}" FROM {rows})'
        drawn, above = f'{drawn}, "number {k}"', f'"number {k}"'
    return f"SELECT * FROM {rows}"


def _tasks(tasks, chosen):
    return {task: program for task, program in tasks.items() if chosen in task}


def _run(path, n_rows, radix_of, tasks, query=None):
    was_there = path.exists()
    try:
        if not was_there and tasks:
            with duckdb.connect(config={"memory_limit": "2GB"}) as connection:
                connection.execute("SELECT setseed(0.5)")
                connection.execute(f"COPY ({query or network_sql(n_rows, radix_of)}) TO '{path}' (FORMAT parquet)")
        if tasks:
            print(f"{path.stat().st_size / 2**20:.0f} MB of Parquet, {n_rows} rows by {len(radix_of)} columns")
        for task, program in tasks.items():
            command = [sys.executable, "-c", _START + program + _END, str(path)]
            run = subprocess.run(command, check=True, capture_output=True, text=True)
            found = json.loads(run.stdout)
            print(f"{task}: {found['said']}")
            print(f"    {found['wall']:.1f} s, CPU {found['cpu']:.1f} s, peak RSS {found['peak']:.2f} GB", flush=True)
    finally:
        if not was_there:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
