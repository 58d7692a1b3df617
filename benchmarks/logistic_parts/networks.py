"""A network with a hidden parent, and a table with missing cells."""

from __future__ import annotations

import time

import numpy as np

import doxa
from doxa.models.logistic_parts import independent_parts
from doxa.parameters.joint_target import JointTarget
from logistic_parts.problems import SEEDS, least_ess, spread, worst_r_hat


def modes() -> None:
    """De Freitas et al. 2001, section 5.2: fifty records, bias 2, prior N(3, 10 I), hidden parent with P(1) = 0.6."""
    errors, seconds, masses = [], [], []
    network = doxa.LogisticNetwork(
        {"y": ["h", "x"]}, prior_mean=3.0, prior_scale=np.sqrt(10.0), bias=2.0, roots={"h": 0.6, "x": 0.5}
    )
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        table = network.simulate(50, {"y": [2.0, -1.0]}, rng).select(["x", "y"])
        (part,) = independent_parts(network, table)
        exact = minor_mass(JointTarget(network, part, table))
        begin = time.process_time()
        fit = doxa.fit(network, table, draws=25_000, warmup=100, seed=seed)
        seconds.append(time.process_time() - begin)
        errors.append((fit.draws("y")[..., 0] < 0).mean() / exact - 1)
        masses.append(exact)
    print(
        f"minor mode of mass {spread(masses)}: relative error {spread(np.abs(errors))} in {spread(seconds)} s; "
        "goal 0.10 in 5 s"
    )


def minor_mass(target: JointTarget) -> float:
    axis = np.linspace(-25.0, 35.0, 1201)
    log_p = np.concatenate([target.log_density(np.column_stack([np.full(axis.size, a), axis])) for a in axis])
    p = np.exp(log_p - log_p.max()).reshape(axis.size, axis.size)
    return float(p[axis < 0].sum() / p.sum())


def missing_cells() -> None:
    names = [f"x{j}" for j in range(8)]
    network = doxa.LogisticNetwork({"y": names}, prior_scale=5.0)
    rates, r_hats, methods = [], [], set()
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        thetas = {"y": rng.standard_normal(9)} | {name: [0.4] for name in names}
        table = network.simulate(500, thetas, rng)
        codes = table.codes[table.row_index].copy()
        codes[rng.random(codes.shape) < 0.1] = -1
        table = doxa.Table.from_codes(table.names, table.states, codes)
        begin = time.process_time()
        fit = doxa.fit(network, table, draws=1000, warmup=100, seed=seed)
        seconds = time.process_time() - begin
        draws = np.concatenate([fit.draws(node) for node in network.parameters], axis=-1)
        rates.append(least_ess(draws) / seconds)
        r_hats.append(worst_r_hat(draws))
        methods.add(fit.method["y"])
    print(
        f"8 parents, 500 rows, a tenth missing: {spread(rates)} effective draws a second, the fit included, by "
        f"{'/'.join(sorted(methods))}; R-hat at most {max(r_hats):.3f}; goal 300"
    )
