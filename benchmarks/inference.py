"""Inference in discrete networks: exact answers, spins, Gibbs sampling, importance sampling, log Z.

    python benchmarks/inference.py [exact | ising | gibbs | importance | partition | cover | all]

One core and CPU seconds.

``exact``       all marginals of reference networks given evidence, first question and again, beside pyAgrum.
``ising``       updates a nanosecond, beside other packages where ISING_PYTHON names a Python that has them.
``gibbs``       updates a microsecond on tables; largest error of any marginal after a CPU second.
``importance``  largest error of any marginal after a CPU second, beside pyAgrum's weighted and importance sampling.
``partition``   log Z of Ising grids by annealing: errors, two-sided bounds.
``cover``       how often 95% intervals of `doxa.infer` hold the exact value, over networks and evidence, by method.
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import os
import sys

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from inference_parts.cover import cover
from inference_parts.exact import exact
from inference_parts.gibbs import errors, speed
from inference_parts.importance import importance
from inference_parts.ising import main as ising
from inference_parts.partition import partition


def gibbs() -> None:
    speed(None)
    errors(None)


PARTS = {
    "exact": exact,
    "ising": ising,
    "gibbs": gibbs,
    "importance": importance,
    "partition": partition,
    "cover": cover,
}


def main() -> None:
    asked = sys.argv[1:] or ["exact", "gibbs", "importance", "partition"]
    for name in PARTS if asked == ["all"] else asked:
        print(f"-- {name}", flush=True)
        sys.argv = [sys.argv[0]]
        PARTS[name]()


if __name__ == "__main__":
    main()
