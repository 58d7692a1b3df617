"""Is doxa ever wrong with confidence?  A standing examination: problems from seeds, default options, exact oracles.

    PYTHONPATH=tests python benchmarks/honesty.py --problems 2000 --output honesty.jsonl
    PYTHONPATH=tests python benchmarks/honesty.py --one "parities" 100003

A verdict is *false* if it vouches for the run (*Converged*, *Exact*) while a number that the run gives is off by more
than five of its errors and by more than .01.  *Told* are the runs that vouch; coverage is that of their 95% intervals,
and, so that one sees that the figure can fail, that of intervals made half as wide.  Numbers of one run depend on one
another: the standard error takes runs as units.  Seconds are of the processor; the first runs after an edit compile.

Every problem is a line of the output, written as it ends; ``--resume`` goes on with a file, and a file whose name ends
in .csv gets the same as a table.  Kinds are functions in `benchmarks/honesty_parts`.
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import os
import sys
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from itertools import zip_longest

from honesty_parts.examining import LONGEST, Record, examine
from honesty_parts.problems import Kind, load_kinds
from honesty_parts.summary import bound_on_false, table, worst_lines

_SEEDS = 100_000  # problems of one kind that an examination can draw


def plan(kinds: Sequence[Kind], n_problems: int, seed: int) -> list[tuple[str, int]]:
    """Kinds with seeds, by their shares; the kinds take turns, so that an examination cut short is a small one."""
    total = sum(kind.share for kind in kinds)
    seeds = [
        [(kind.name, seed * _SEEDS + k) for k in range(max(1, round(n_problems * kind.share / total)))]
        for kind in kinds
    ]
    return [task for turn in zip_longest(*seeds) for task in turn if task is not None]


def records_in(path: Path) -> list[Record]:
    """What a file of lines holds; a last line that was cut off is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(Record(**json.loads(line)))
        except json.JSONDecodeError:
            print(f"{path}: a line that is no record is left out")
    return records


def run(tasks: Iterable[tuple[str, int]], workers: int, *, small: bool, most_seconds: float) -> Iterator[Record]:
    """Records as they come."""
    one = partial(examine, small=small, most_seconds=most_seconds)
    if workers == 1:
        yield from (one(*task) for task in tasks)
        return
    with ProcessPoolExecutor(workers) as pool:
        for done in as_completed([pool.submit(one, *task) for task in tasks]):
            yield done.result()


def write_csv(path: Path, records: Sequence[Record]) -> None:
    """The same lines as a table."""
    import pandas as pd

    pd.json_normalize([record.as_json() for record in records]).to_csv(path, index=False)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--problems", type=int, default=200, help="how many, about; 2000 is the whole examination")
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help="only these, or those of a room: learn, fit, infer")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other problems")
    parser.add_argument("--small", action="store_true", help="the sizes that the test draws from")
    parser.add_argument(
        "--max-seconds-each", type=float, default=LONGEST, help="CPU seconds after which a run is ended"
    )
    parser.add_argument("--output", type=Path, help="a line of JSON for each problem; .csv: a table besides")
    parser.add_argument("--resume", action="store_true", help="go on with the output")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "SEED"), help="examine one problem and print its record")
    return parser.parse_args()


def main() -> None:
    """Examine, and print the table."""
    asked = arguments()
    if asked.one:
        record = examine(asked.one[0], int(asked.one[1]), small=asked.small, most_seconds=asked.max_seconds_each)
        print(json.dumps(record.as_json(), indent=2))
        return
    kinds = [
        kind for kind in load_kinds().values() if not asked.kinds or {kind.name, kind.room}.intersection(asked.kinds)
    ]
    if not kinds:
        sys.exit(f"there is no such kind; there are {', '.join(load_kinds())}")
    lines = None if asked.output is None else asked.output.with_suffix(".jsonl")
    if lines is not None and lines.exists() and not asked.resume:
        sys.exit(f"{lines} exists; --resume goes on with it")
    records = records_in(lines) if lines is not None and lines.exists() else []
    known = {(record.kind, record.seed) for record in records if record.small == asked.small}
    tasks = [task for task in plan(kinds, asked.problems, asked.seed) if task not in known]
    for record in run(tasks, asked.workers, small=asked.small, most_seconds=asked.max_seconds_each):
        records.append(record)
        if lines is not None:
            with lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record.as_json()) + "\n")
        mark = "FALSE" if record.false else "told" if record.told else "not told"
        print(
            f"{mark:9}{record.seconds:7.1f} s  {record.kind} {record.seed}: {record.title}", file=sys.stderr, flush=True
        )
    if asked.output is not None and asked.output.suffix == ".csv":
        write_csv(asked.output, records)
    print(table(records) + "\n\n" + worst_lines(records))
    false, told, bound = bound_on_false(records)
    print(f"\n{false} false verdicts in {told} that vouch for their numbers: at most {bound:.2%} (one-sided 95%)")


if __name__ == "__main__":
    main()
