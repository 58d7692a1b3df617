"""Do the intervals of answers about numbers hold the truth as often as they say, and how good are imputed numbers?

    python benchmarks/coverage_numbers.py [query | impute | infer]

``query``   the mean of a number given another and a category, in 1000 complete tables of 200 rows, each from a network
            of its own: how often the truth lies in the 50%, 80% and 95% interval of what the data leave open, by
            `doxa.learn` and by `doxa.fit` of the graph that the rows were drawn from.  Truths are not drawn from the
            prior, which expects few edges: weak ones that it leaves out cost some coverage of the first.
``impute``  tables of 100 rows with a tenth of the numbers blanked: how often a blanked number lies in its 95% interval,
            and its mean log density, by `doxa.learn` and by `doxa.fit` of the graph that the rows were drawn from.
``infer``   sampled answers of `doxa.infer` with its stopping rule on, by weighted draws and by Gibbs sampling, in 1000
            networks: two numbers above a category that was seen, against integrals on a grid; how often the truth lies
            in the Monte Carlo intervals of the means, of a probability and of the evidence.

``BENCH_REPLICATIONS`` is the number of tables: 1000, or 20.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import pandas as pd
from scipy.stats import norm

import doxa
from doxa.models import GaussianNetwork

GRAPH = doxa.Dag.from_edges([("g", "x"), ("g", "h"), ("x", "y"), ("h", "y"), ("y", "z")])
LEVELS = (0.5, 0.8, 0.95)


def network_of(rng: np.random.Generator) -> GaussianNetwork:
    """The graph with parameters drawn: slopes of either sign, other lines in other states."""
    return GaussianNetwork(
        GRAPH,
        {
            "x": (rng.normal(size=2), np.zeros((2, 0)), rng.uniform(0.5, 1.5, 2)),
            "y": (rng.normal(size=2), rng.normal(size=(2, 1)), rng.uniform(0.5, 1.5, 2)),
            "z": (0.0, [rng.normal()], 1.0),
        },
        {"g": rng.dirichlet([2.0, 2.0]), "h": rng.dirichlet([1.0, 1.0], 2)},
        {"g": ["n", "y"], "h": ["n", "y"]},
    )


def query(replications: int) -> None:
    inside, errors = np.zeros((2, len(LEVELS))), []
    for seed in range(replications):
        rng = np.random.default_rng([seed, 1])
        network = network_of(rng)
        rows = network.simulate(200, rng)
        given = {"x": float(rng.normal()), "h": "y"}
        truth = doxa.infer(network, "y", given=given)["y"].mean.value
        for k, posterior in enumerate((doxa.learn(rows, seed=seed, progress=False), doxa.fit(GRAPH, rows, seed=seed))):
            found = posterior.query("y", given=given, networks=400).mean
            for at, level in enumerate(LEVELS):
                low, high = found.credible_interval(level)
                inside[k, at] += low < truth < high
            errors.append(found.mcse)
    for k, name in enumerate(("learn", "fit of the graph")):
        for level, count in zip(LEVELS, inside[k] / replications, strict=True):
            error = np.sqrt(count * (1 - count) / replications)
            print(f"{name}, {level:.0%}: {count:.1%} +/- {error:.1%} of {replications} tables")
    print(f"median Monte Carlo error {np.median(errors):.4f}")


def impute(replications: int) -> None:
    inside, of_learn, of_fit = [], [], []
    for seed in range(replications):
        rng = np.random.default_rng([seed, 2])
        rows = network_of(rng).simulate(100, rng)
        frame = pd.DataFrame({
            name: np.array(states)[rows.codes[rows.row_index, j]] if states else rows.numbers[rows.row_index, j]
            for j, (name, states) in enumerate(zip(rows.names, rows.states, strict=True))
        })  # fmt: skip
        gone = rng.random((100, 3)) < 0.1
        blanked = frame.copy()
        blanked[["x", "y", "z"]] = frame[["x", "y", "z"]].mask(gone)
        for made, log_density in (
            (doxa.learn(blanked, seed=seed, draws=1500, progress=False), of_learn),
            (doxa.fit(GRAPH, blanked, seed=seed, progress=False), of_fit),
        ):
            cells = made.impute()
            truth = np.array([frame.loc[row, name] for row, name in zip(cells["row"], cells["column"], strict=True)])
            truth = truth.astype(float)
            log_density += norm.logpdf(truth, cells["mean"], cells["sd"]).tolist()
            if log_density is of_learn:
                inside += ((cells["lower"] < truth) & (truth < cells["upper"])).tolist()
    share, n = np.mean(inside), len(inside)
    print(f"95%: {share:.1%} +/- {np.sqrt(share * (1 - share) / n):.1%} of {n} blanked numbers")
    apart = np.array(of_learn) - np.array(of_fit)
    print(f"mean log density {np.mean(of_learn):.3f}, by the graph of the rows {np.mean(of_fit):.3f}, "
          f"difference {apart.mean():.3f} +/- {apart.std() / np.sqrt(n):.3f} nats")  # fmt: skip


def infer(replications: int) -> None:
    asked: dict[str, list[list[float]]] = {"importance": [], "gibbs": []}
    open_verdicts = dict.fromkeys(asked, 0)
    for seed in range(replications):
        rng = np.random.default_rng([seed, 3])
        slope, scatter, odds, start = rng.normal(), rng.uniform(0.5, 1.5), rng.normal(0, 1.5), rng.normal()
        network = GaussianNetwork(
            doxa.Dag.from_edges([("x", "y"), ("y", "g")]),
            {"x": (0.5, [], 1.0), "y": (-0.3, [slope], scatter)},
            states={"g": ["n", "y"]},
            log_odds={"g": ([start], [[odds]])},
        )
        spread = np.hypot(slope, scatter)
        y = np.linspace(-9, 9, 20001) * spread + 0.5 * slope - 0.3
        density = norm.pdf(y, 0.5 * slope - 0.3, spread) / (1 + np.exp(-start - odds * y))
        step = y[1] - y[0]
        evidence = density.sum() * step
        p = density * step / evidence
        mean_y = p @ y
        mean_x = 0.5 + slope / spread**2 * (mean_y - 0.5 * slope + 0.3)
        above = p[y > 0].sum()
        for method, rows in asked.items():
            found = doxa.infer(network, ["x", "y"], given={"g": "y"}, method=method, seed=seed, progress=False)
            if not found.converged:
                open_verdicts[method] += 1
                continue
            known = [(found["x"].mean, mean_x), (found["y"].mean, mean_y), (found["y"].probability(above=0), above)]
            if found.log_evidence is not None:
                known.append((found.log_evidence, np.log(evidence)))
            rows.append([(estimate.value - truth) / estimate.mcse for estimate, truth in known])
    for method, rows in asked.items():
        z = np.abs(np.array(rows))
        for name, own in zip(("mean of x", "mean of y", "P(y > 0)", "log evidence"), z.T, strict=False):
            share = [(own < norm.isf((1 - level) / 2)).mean() for level in LEVELS]
            said = ", ".join(f"{level:.0%}: {one:.1%}" for level, one in zip(LEVELS, share, strict=True))
            print(f"{method}, {name}: {said} of {len(own)} networks; {open_verdicts[method]} without a verdict")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["query", "impute", "infer"]
    if "query" in wanted:
        query(int(os.environ.get("BENCH_REPLICATIONS", "1000")))
    if "impute" in wanted:
        impute(int(os.environ.get("BENCH_REPLICATIONS", "20")))
    if "infer" in wanted:
        infer(int(os.environ.get("BENCH_REPLICATIONS", "1000")))
