"""How long `import doxa` takes: the median of seven fresh processes, beside an empty Python and NumPy alone.

python benchmarks/import_time.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

N_PROCESSES = 7
LIMIT = 0.5  # seconds, beyond an empty Python: what the project promises


def seconds(statement: str) -> float:
    """Median wall time of a fresh process that runs ``statement``; one more process warms the disk cache."""
    times = []
    for _ in range(N_PROCESSES + 1):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def main() -> None:
    empty = seconds("pass")
    print(f"{'empty Python':<16}{empty:7.3f} s")
    for statement in ("import numpy", "import doxa"):
        spent = seconds(statement) - empty
        print(f"{statement:<16}{spent:7.3f} s more")
    verdict = "within" if spent < LIMIT else "over"
    print(f"import doxa is {verdict} its limit of {LIMIT} s (median of {N_PROCESSES} processes)")
    sys.exit(spent >= LIMIT)


if __name__ == "__main__":
    main()
