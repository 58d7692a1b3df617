"""Averages over networks: queries, predictions, imputation, predictive checks.  CPU seconds on one core.

    python benchmarks/averaging.py [query | rows | cells | checks | all]

The posterior is that of 1000 records of ALARM (37 columns), 4 chains of 250 draws, nearly all of different graphs.

``query``   seconds for a query averaged over 1000 networks, first and again, and its errors.
``rows``    seconds for predictions of rows with a tenth of the cells missing, and log scores beside the true network's.
``cells``   seconds for the probabilities of 3700 missing cells, completions made up.
``checks``  seconds for predictive checks, 400 tables made.
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import os
import sys
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import dataclasses
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

import doxa
from doxa.data import Table
from doxa.estimates.trace import Trace
from doxa.structure.averaging import impute, log_score, predict, predictive, predictive_checks, query
from doxa.structure.posterior.structure_posterior import StructurePosterior
from support.networks import load_network

QUESTIONS: list[tuple[Any, dict[str, str]]] = [
    ("HYPOVOLEMIA", {"BP": "LOW"}),
    ("LVFAILURE", {"CVP": "LOW", "HR": "HIGH"}),
    ({"INTUBATION": "NORMAL", "CATECHOL": "HIGH"}, {"BP": "LOW", "SAO2": "LOW", "HR": "HIGH"}),
]


def timed(what: str, run: Callable[[], Any], times: int = 2) -> Any:
    for turn in range(times):
        begin = time.process_time()
        found = run()
        print(
            f"{what:56} {time.process_time() - begin:7.2f} s" + ("" if turn else "  (compiled and loaded)"), flush=True
        )
    return found


@cache
def learned() -> tuple[Table, StructurePosterior]:
    table = load_network("alarm").sample(1000, 1)
    posterior = timed("learn", lambda: doxa.learn(table, draws=250, warmup=250, seed=1, workers=1), 1)
    new = StructurePosterior(posterior.names, posterior.trace, posterior.sampler, posterior.options)
    timed("its diagnostics once more", lambda: new.reference_ess, 1)  # the run's own posterior holds them
    return table, posterior


def queries() -> None:
    table, posterior = learned()
    for target, given in QUESTIONS:
        text = (
            f"{target} | {', '.join(given)}" if isinstance(target, str) else f"{', '.join(target)} | {', '.join(given)}"
        )
        for name, ask in (("query", query), ("predictive", predictive)):
            found = timed(f"{name} {text}", partial(ask, posterior, table, target, given))
            first = found if isinstance(found, doxa.Estimate) else next(iter(found.values()))
            spread = f", spread {first.posterior_sd:.4f}" if hasattr(first, "posterior_sd") else ""
            print(f"    {first.value:.4f}, Monte Carlo error {first.mcse:.4f}{spread}")
    timed("query with do", lambda: query(posterior, table, "BP", do={"CATECHOL": "HIGH"}))


def rows() -> None:
    table, posterior = learned()
    network = load_network("alarm")
    new = network.sample(200, 7)
    codes = new.codes[new.row_index].astype(np.int64)
    blank = np.random.default_rng(0).random(codes.shape) < 0.1
    holed = Table.from_codes(new.names, new.states, np.where(blank, -1, codes))
    timed("predict one column of 200 rows", lambda: predict(posterior, table, new, "HYPOVOLEMIA"))
    timed("predict the missing tenth of 200 rows", lambda: predict(posterior, table, holed))
    score = timed("log score of 200 rows", lambda: log_score(posterior, table, new))
    true = 0.0
    for node, (probabilities, parents) in enumerate(zip(network.tables, network.orders, strict=True)):
        true += float(np.log(probabilities[(*(codes[:, p] for p in parents), codes[:, node])]).mean())
    print(f"    a row: {score.mean} nats; the true network {true:.4f}")


def cells() -> None:
    table, posterior = learned()
    rng = np.random.default_rng(0)
    codes = table.codes[table.row_index].astype(np.int64)
    codes[rng.random(codes.shape) < 0.1] = -1
    holed = Table.from_codes(table.names, table.states, codes)
    column = np.nonzero(np.repeat(holed.codes, holed.counts, axis=0) < 0)[1]
    made_up = (rng.random((*posterior.n_edges.shape, len(column))) * holed.n_states[column]).astype(np.int8)
    trace = Trace(dict(posterior.trace.draws) | {"cells": made_up}, info=posterior.trace.info)
    options = dataclasses.replace(posterior.options, data_digest=holed.digest)
    missing_cells = StructurePosterior(posterior.names, trace, posterior.sampler, options)
    timed(f"impute {len(column)} cells", lambda: impute(missing_cells, holed))
    timed("query over completions", lambda: query(missing_cells, holed, *QUESTIONS[1]))


def checks() -> None:
    table, posterior = learned()
    timed("predictive checks", lambda: predictive_checks(posterior, table))


PARTS = {"query": queries, "rows": rows, "cells": cells, "checks": checks}


def main() -> None:
    asked = sys.argv[1:] or ["all"]
    for name in PARTS if asked == ["all"] else asked:
        print(f"-- {name}", flush=True)
        PARTS[name]()


if __name__ == "__main__":
    main()
