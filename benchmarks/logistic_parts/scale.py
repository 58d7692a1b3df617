"""A million rows, and a thousand parents."""

from __future__ import annotations

import resource
import time

import numpy as np

import doxa
from doxa.models.logistic_regression import make_problem
from doxa.parameters.regression import sample_regression
from logistic_parts.problems import SEEDS, least_ess, spread, worst_r_hat


def rows() -> None:
    names = [f"x{j}" for j in range(10)]
    network = doxa.LogisticNetwork({"y": names}, bias=0.5, roots=dict.fromkeys(names, 0.5))
    seconds, effective = [], []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        table = network.simulate(1_000_000, {"y": 1 - rng.random(10)}, rng)
        begin = time.process_time()
        fit = doxa.fit(network, table, draws=400, warmup=0, seed=seed)
        seconds.append(time.process_time() - begin)
        effective.append(least_ess(fit.draws("y")))
    print(
        f"a million rows, 10 parents: {spread(seconds)} s for {spread(effective)} effective draws; goal: 2 s for 1000"
    )


def wide() -> None:
    rng = np.random.default_rng(0)
    design = rng.choice([-1.0, 1.0], (10_000, 1000))
    theta = rng.standard_normal(1000) * 2 / np.sqrt(1000)
    sign = np.where(rng.random(10_000) < 1 / (1 + np.exp(-(0.5 + design @ theta))), 1, -1)
    problem = make_problem(design, sign, offset=0.5, prior_covariance=100.0, collapse=False)
    begin = time.process_time()
    sample = sample_regression(problem, draws=4, warmup=0, seed=1, workers=1)
    fitted = time.process_time() - begin
    begin = time.process_time()
    sample = sample_regression(problem, draws=50, warmup=5, seed=1, workers=1)
    seconds = time.process_time() - begin - fitted
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    chosen = sample.draws[..., ::50]
    print(
        f"1000 parents, 10,000 rows: ready after {fitted:.1f} s (goal 30), peak {peak:.2f} GB (goal 1), by "
        f"{sample.method} ({sample.why}); acceptance {sample.acceptance:.2f}, {least_ess(chosen) / seconds:.1f} "
        f"effective draws a second, R-hat at most {worst_r_hat(chosen):.3f} (twenty coefficients)"
    )
