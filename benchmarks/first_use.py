"""What the first answer costs: a table of the functions that are compiled for it, with an empty cache, and the totals.

    python benchmarks/first_use.py learn8          # the table of one question
    python benchmarks/first_use.py all             # cold and warm CPU seconds of all questions

Every question is asked in a process of its own, with a cache folder that is empty at first.  Seconds are of CPU, so a
busy machine changes them little; ``own`` leaves out the functions that are compiled on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from typing import Any

import numpy as np

QUESTIONS = {
    "learn8": "doxa learn, 8 columns, complete: summed",
    "learn20": "doxa learn, 20 columns, 1000 rows: sampled",
    "missing8": "doxa learn, 8 columns, 10% missing",
    "votes": "doxa learn, house_votes",
    "mixed": "doxa learn, 4 categories and 4 numbers: summed",
    "missing_mixed": "doxa learn, the same with 10% missing",
    "additive": "doxa learn, 4 categories and 4 numbers, additive families",
    "fit": "doxa fit, three parents",
    "infer": "doxa infer, the Asia network",
}


def random_table(n_columns: int, n_rows: int, missing: float = 0.0) -> Any:
    """A table drawn from a random network of two-state columns, each with up to two parents."""
    import doxa

    rng = np.random.default_rng(n_columns)
    codes = np.zeros((n_rows, n_columns), dtype=np.int64)
    for j in range(n_columns):
        parents = rng.choice(j, size=min(j, 2), replace=False)
        logit = rng.normal() + sum(rng.choice([-2.0, 2.0]) * codes[:, p] for p in parents)
        codes[:, j] = rng.random(n_rows) < 1 / (1 + np.exp(-logit))
    codes[rng.random(codes.shape) < missing] = -1
    names = [f"x{j}" for j in range(n_columns)]
    return doxa.Table.from_codes(names, [["no", "yes"]] * n_columns, codes)


def mixed_frame(n_rows: int) -> Any:
    """Four categories, and four numbers each of which depends on two columns before it."""
    import pandas as pd

    rng = np.random.default_rng(8)
    columns: dict[str, Any] = {f"c{j}": rng.integers(0, 2 + j % 2, n_rows) for j in range(4)}
    for j in range(4):
        near = list(columns.values())[-2:]
        columns[f"x{j}"] = near[0] - 0.7 * near[1] + rng.normal(size=n_rows)
    frame = pd.DataFrame(columns)
    for j in range(4):
        frame[f"c{j}"] = frame[f"c{j}"].map(lambda code: "abc"[code])
    return frame


def ask(question: str) -> str:
    """Ask one question, and say how it ended."""
    import doxa

    if question == "fit":
        network = doxa.LogisticNetwork({"x3": ["x0", "x1", "x2"]})
        return doxa.fit(network, random_table(4, 1000), seed=1, progress=False).verdict
    if question == "infer":
        asia = [("visit", "tub"), ("smoke", "lung"), ("smoke", "bronc"), ("tub", "either"), ("lung", "either"),
                ("either", "xray"), ("either", "dysp"), ("bronc", "dysp")]  # fmt: skip
        nodes = sorted({name for edge in asia for name in edge})
        parents = {node: [a for a, b in asia if b == node] for node in nodes}
        tables = {node: np.broadcast_to([0.7, 0.3], (2,) * len(parents[node]) + (2,)) for node in nodes}
        states = {node: ["no", "yes"] for node in nodes}
        known = doxa.CategoricalNetwork(doxa.Dag.from_edges(asia), tables, states)
        return doxa.infer(known, "lung", given={"xray": "yes"}).verdict
    if question in ("mixed", "missing_mixed", "additive"):
        frame = mixed_frame(1000)
        if question == "missing_mixed":
            frame = frame.mask(np.random.default_rng(1).random(frame.shape) < 0.1)
        family = "additive" if question == "additive" else None
        return doxa.learn(frame, family=family, seed=1, progress=False).verdict
    makers = {
        "learn8": lambda: random_table(8, 1000),
        "learn20": lambda: random_table(20, 1000),
        "missing8": lambda: random_table(8, 1000, 0.1),
        "votes": lambda: doxa.datasets.load("house_votes"),
    }
    return doxa.learn(makers[question](), seed=1, progress=False).verdict


def watch(question: str) -> dict[str, Any]:
    """Ask in this process; what was compiled, in order of its own time."""
    from numba.core import event

    own: dict[str, list[float]] = defaultdict(list)
    stack: list[list[float]] = []

    class Watch(event.Listener):
        def on_start(self, event: Any) -> None:  # noqa: ARG002
            stack.append([time.thread_time(), 0.0])

        def on_end(self, event: Any) -> None:
            begin, inside = stack.pop()
            total = time.thread_time() - begin
            function = event.data["dispatcher"].py_func
            own[f"{function.__module__.removeprefix('doxa.')}.{function.__name__}"].append(total - inside)
            if stack:
                stack[-1][1] += total

    with event.install_listener("numba:compile", Watch()):
        ended = ask(question)
    rows = sorted(((sum(times), len(times), name) for name, times in own.items()), reverse=True)
    return {"rows": rows, "cpu": time.process_time(), "ended": ended}


def run(question: str, cache: str) -> dict[str, Any]:
    """The same in a process of its own, with this cache folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    made = subprocess.run(
        [sys.executable, __file__, question, "--here"], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    found: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=[*QUESTIONS, "all"])
    parser.add_argument("--here", action="store_true", help="ask in this process, and print what was found as JSON")
    parser.add_argument("--rows", type=int, default=30, help="functions to print")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(watch(given.question)))
        return
    for question in QUESTIONS if given.question == "all" else [given.question]:
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = run(question, cache), run(question, cache)
        compiling, number = sum(row[0] for row in cold["rows"]), sum(row[1] for row in cold["rows"])
        print(f"{QUESTIONS[question]}: {cold['cpu']:.1f} CPU s cold ({compiling:.1f} of them compiling {number} "
              f"functions), {warm['cpu']:.1f} warm; {cold['ended']}")  # fmt: skip
        if given.question != "all":
            for seconds, count, name in cold["rows"][: given.rows]:
                print(f"{seconds:8.2f} s  x{count}  {name}")


if __name__ == "__main__":
    main()
