"""Structure posteriors of numbers: families a second, and what default runs on known networks cost.

    python benchmarks/gaussian.py [rate | answers | mixed | ecoli70 | magic-niab | magic-irri | arth150] ...

``rate``    families a CPU second on one core, 1000 rows, three parents, compiled beforehand: Gaussian from sums of
            products (the goal is 2 million), conditional Gaussian from rows (50,000), additive ones of a number and of
            a category of three states (5,000).
``answers`` a marginal of arth150 with 20 nodes seen (the goal is 5 ms), and a query averaged over 1000 networks of 37
            mixed nodes, these made (5 CPU seconds).
a network   one of the Gaussian networks that pgmpy ships (the extra ``interop``), 500 rows: a default run of
            `doxa.learn` on one core; CPU seconds, the verdict, and how far a chain is from the mean of all on any edge.
``mixed``   the same for a random mixed network of 20 columns, with a tenth of the cells missing and without.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import doxa
from doxa import Until
from doxa.data import Table
from doxa.inference.exact import conditional_distribution
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure import Additive, BGe, ConditionalGaussian
from doxa.structure.families.cache import FamilyScores

NETWORKS = ("ecoli70", "magic-niab", "magic-irri", "arth150")


def numbers_of(names: list[str], values: Any) -> Table:
    return Table.from_codes(names, [()] * len(names), np.zeros(values.shape, dtype=int), numbers=values)


def records(name: str, n_rows: int, seed: int) -> Table:
    """Rows of a linear Gaussian network of pgmpy's."""
    import pgmpy

    folder = Path(pgmpy.__file__).parent / "utils" / "example_models"
    return doxa.read_network(folder / f"{name}.json").simulate(n_rows, seed=seed)


def mixed_records(n: int, n_rows: int, missing: float, seed: int) -> Table:
    """Rows of a random network: every other column a category of two or three states, two parents at most."""
    rng = np.random.default_rng(seed)
    codes, values = np.zeros((n_rows, n), dtype=int), np.full((n_rows, n), np.nan)
    for j in range(n):
        parents = rng.choice(j, size=min(j, int(rng.integers(0, 3))), replace=False)
        cause = sum((codes[:, p] - 0.5 if p % 2 else np.nan_to_num(values[:, p]) for p in parents), np.zeros(n_rows))
        if j % 2:
            causes = [p for p in parents if p % 2]
            cause = sum((codes[:, p] - 0.5 for p in causes), np.zeros(n_rows))
            codes[:, j] = (rng.random(n_rows) < 1 / (1 + np.exp(-2 * cause))).astype(int) + (rng.random(n_rows) < 0.2)
        else:
            values[:, j] = 0.8 * cause + rng.normal(size=n_rows)
    gone = rng.random((n_rows, n)) < missing
    states = [("0", "1", "2") if j % 2 else () for j in range(n)]
    names = [f"x{j}" for j in range(n)]
    return Table.from_codes(names, states, np.where(gone, -1, codes), numbers=np.where(gone, np.nan, values))


def rate() -> None:
    rng = np.random.default_rng(1)
    table = numbers_of([f"x{j}" for j in range(40)], rng.normal(size=(1000, 40)))
    mixed = mixed_records(40, 1000, 0.0, 1)
    for kind, data, child, n_families in (
        (BGe(), table, 0, 400_000),
        (ConditionalGaussian(), mixed, 0, 20_000),
        (Additive(), mixed, 0, 400_000),
        (Additive(), mixed, 1, 4000),
    ):
        scores = FamilyScores(data, kind)
        members = np.zeros((n_families, 40), dtype=bool)
        for family in members:
            family[rng.choice(np.delete(np.arange(40), child), 3, replace=False)] = True
        sets, found = pack_rows(members), np.zeros(n_families)
        scorer: Any = kind.scorer(scores.data, scores.numbers, fixed=True)
        scorer.score(child, sets[:10], found[:10])
        begin = time.process_time()
        scorer.score(child, sets, found)
        what = f"{kind.name}, {'a category' if child else 'a number'}"
        print(f"{what:32s} {n_families / (time.process_time() - begin):12,.0f} families a CPU second")


def run(what: str, table: Table) -> None:
    begin = time.process_time()
    posterior = doxa.learn(table, seed=1, workers=1, until=Until(max_seconds=600))
    seconds = time.process_time() - begin
    shares = unpack_rows(posterior.trace["rows"], table.n_columns).mean(axis=1)
    apart = float(np.abs(shares - shares.mean(axis=0)).max())
    print(f"{what:22s} {seconds:6.0f} CPU s; {posterior.verdict.split(':')[0]}; a chain is {apart:.3f} from the mean")


def answers() -> None:
    import pgmpy

    network = doxa.read_network(Path(pgmpy.__file__).parent / "utils" / "example_models" / "arth150.json")
    drawn, rng = network.simulate(1, seed=1), np.random.default_rng(0)
    seen = rng.choice(len(network.names), 20, replace=False).tolist()
    given = {network.names[j]: float(drawn.numbers[0, j]) for j in seen}
    others = [name for name in network.names if name not in given][:21]
    took = []
    for name in others:
        begin = time.perf_counter()
        conditional_distribution(network, name, given)
        took.append(time.perf_counter() - begin)
    print(f"a marginal of arth150, 20 nodes seen: {np.median(took) * 1e3:.2f} ms")
    table = mixed_records(37, 500, 0.0, 3)
    posterior = doxa.learn(table, seed=1, draws=500, progress=False)
    begin = time.process_time()
    found = posterior.query("x0", given={"x2": 0.5, "x1": "1"}, networks=1000)
    print(f"a query over 1000 networks of 37 nodes: {time.process_time() - begin:.2f} CPU s; mean {found.mean}")


def main(wanted: list[str]) -> None:
    if "rate" in wanted:
        rate()
    if "answers" in wanted:
        answers()
    for missing in (0.0, 0.1) if "mixed" in wanted else ():
        run(f"mixed, {missing:.0%} missing", mixed_records(20, 500, missing, 3))
    for name in NETWORKS:
        if name in wanted:
            run(name, records(name, 500, 1))


if __name__ == "__main__":
    main(sys.argv[1:] or ["rate", "mixed", "ecoli70", "magic-niab"])
