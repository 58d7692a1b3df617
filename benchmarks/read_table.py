"""Time and memory of `read_table` on a large CSV file: a million rows by fifty columns.

Run as ``python benchmarks/read_table.py [rows] [columns]``.  The file is made in a temporary folder and
read in a process of its own, whose seconds and peak resident memory are printed.  Target for the default size:
under 15 seconds and 3 GB.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

_LABELS = [
    ["no", "yes"],
    ["low", "high"],
    ["a", "b", "c"],
    ["north", "south", "east", "west"],
    [str(i) for i in range(5)],
    [f"level {i}" for i in range(8)],
    [str(i) for i in range(20)],
]

_READ = """
import json, resource, sys, time
start = time.perf_counter()
import doxa.data
table = doxa.data.read_table(sys.argv[1])
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"table": repr(table), "seconds": seconds, "peak": peak}))
"""


def write_table(path, n_rows, n_columns, seed=1):
    """Write a file in which 9 rows of 10 repeat one of 3000 patterns, and 2 cells of 1000 are missing."""
    rng = np.random.default_rng(seed)
    labels = [np.array([*_LABELS[j % len(_LABELS)], ""], dtype=object) for j in range(n_columns)]
    n_states = np.array([len(column) - 1 for column in labels])
    patterns = rng.integers(0, n_states, size=(3000, n_columns))
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(f"column {j}" for j in range(n_columns)) + "\n")
        for start in range(0, n_rows, 100_000):
            size = min(100_000, n_rows - start)
            own = rng.integers(0, n_states, size=(size, n_columns))
            codes = np.where(rng.random((size, 1)) < 0.9, patterns[rng.integers(0, 3000, size)], own)
            codes = np.where(rng.random((size, n_columns)) < 0.002, n_states, codes)
            columns = [labels[j][codes[:, j]] for j in range(n_columns)]
            file.writelines(",".join(row) + "\n" for row in zip(*columns, strict=True))


def main():
    """Write, read in a process of its own, print."""
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    n_columns = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(path, n_rows, n_columns)
        print(f"{path.stat().st_size / 2**20:.0f} MB of CSV, {n_rows} rows by {n_columns} columns")
        read = subprocess.run([sys.executable, "-c", _READ, str(path)], check=True, capture_output=True, text=True)
    found = json.loads(read.stdout)
    print(found["table"])
    print(f"{found['seconds']:.1f} s, peak RSS {found['peak']:.2f} GB")


if __name__ == "__main__":
    main()
