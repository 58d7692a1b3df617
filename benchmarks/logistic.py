"""Fits of logistic networks: effective draws a second beside NUTS, acceptance, first draws, scale, modes, missing
cells.

    python benchmarks/logistic.py [fit | ess | acceptance | first | rows | wide | modes | missing_cells | all]

One core and CPU seconds unless said; medians, and the worst, of BENCH_SEEDS (5) seeds.  Goals stand beside the figures.

``fit``         least bulk effective draws a CPU second of `doxa.fit` with its default options and 4 x 20,000 draws, all
                included: planning, warm-up, draws, the trace; with its roots given and learned.  NUTS_RATES (``20=3300
                50=1000``) are effective draws a CPU second of NUTS on the same machine, for the ratio.
``ess``         the same of the regressions alone, ours with and without the fit's own time, beside NUTS by NumPyro,
                BlackJAX and nutpie in the same run, one after the other on the same data.  They run in the Python that
                NUTS_PYTHON names; else in a virtual environment made for it in a temporary folder.
``acceptance``  of independence and flip proposals from the optimal Gaussian.
``first``       a fresh process: wall-clock seconds of the first 1000 draws, after imports.
``rows``        a million rows, ten binary parents: fit and 1000 effective draws.
``wide``        a thousand parents, ten thousand rows: fit, memory, acceptance.
``modes``       mass of the minor mode of a network with a hidden parent, against a grid.
``missing_cells`` effective draws a second, eight parents, 500 rows, a tenth of the cells missing.
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import os
import sys

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from logistic_parts.cascade import acceptance, first, first_draws
from logistic_parts.fit import fit
from logistic_parts.networks import missing_cells, modes
from logistic_parts.peers import ess
from logistic_parts.scale import rows, wide

PARTS = {
    "fit": fit,
    "ess": ess,
    "acceptance": acceptance,
    "first": first,
    "rows": rows,
    "wide": wide,
    "modes": modes,
    "missing_cells": missing_cells,
}


def main() -> None:
    asked = sys.argv[1:] or ["fit", "acceptance", "first", "rows", "wide", "modes", "missing_cells"]
    if asked == ["--first"]:
        first_draws()
        return
    for name in PARTS if asked == ["all"] else asked:
        print(f"-- {name}")
        PARTS[name]()


if __name__ == "__main__":
    main()
