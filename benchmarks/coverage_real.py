"""Coverage of nominal 95% intervals for real quantities, by method, on chains whose mean is known.

Run as ``python benchmarks/coverage_real.py [runs]``; 10,000 runs of each process take some minutes on two cores.
Columns: the true number of effective draws; value +/- 1.96 s / sqrt(n), as if draws were independent; batch means; the
three lag windows and Geyer's three sequences; tours, where the process is an AR(1) that can be split; and doxa's
`diagnose_real` (first 1000 runs).  A second table shows how often Geweke's z exceeds 1.96 on stationary chains.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "estimates"))

from test_diagnostics_coverage import (
    METHODS,
    autoregression,
    covered,
    covered_as_independent,
    covered_by_tours,
    regenerations,
)

from doxa.estimates.diagnostics import diagnose_real, geweke_z

BLOCK = 500  # runs simulated at once
FEW = 1000  # runs for diagnose_real, which takes milliseconds
RARE = 1.2815515655446004  # the standard normal's 90% quantile


def ar1(phi, small=None):
    """A normal AR(1); ``small`` is the small set by which it is split."""

    def simulate(rng, chains, draws, runs):
        x = autoregression(rng, phi, chains, draws, runs)
        return x, None if small is None else regenerations(rng, x, phi, small)

    return simulate, 0.0


def rare(phi, small):
    """Whether a normal AR(1) is above its 90% quantile."""

    def simulate(rng, chains, draws, runs):
        x = autoregression(rng, phi, chains, draws, runs)
        return (x > RARE).astype(float), regenerations(rng, x, phi, small)

    return simulate, 0.1


def hidden(phi, share):
    """A slow AR(1) with the given share of the variance, under independent noise."""

    def simulate(rng, chains, draws, runs):
        slow = autoregression(rng, phi, chains, draws, runs)
        return np.sqrt(share) * slow + np.sqrt(1 - share) * rng.standard_normal(slow.shape), None

    return simulate, 0.0


def log_normal(phi):
    """The exponential of a normal AR(1): skewed, with a heavy tail."""

    def simulate(rng, chains, draws, runs):
        return np.exp(autoregression(rng, phi, chains, draws, runs)), None

    return simulate, float(np.exp(0.5))


PROCESSES = (
    ("independent", 1, 200, *ar1(0.0, 10.0)),
    ("AR(1) 0.5", 1, 1000, *ar1(0.5, 1.0)),
    ("AR(1) -0.9", 1, 1000, *ar1(-0.9, 0.4)),
    ("AR(1) 0.9", 1, 500, *ar1(0.9, 0.4)),
    ("AR(1) 0.9", 1, 2000, *ar1(0.9, 0.4)),
    ("AR(1) 0.9", 4, 2000, *ar1(0.9, 0.4)),
    ("AR(1) 0.9 above 1.28", 1, 2000, *rare(0.9, 0.4)),
    ("exp of AR(1) 0.9", 1, 2000, *log_normal(0.9)),
    ("AR(1) 0.98", 1, 2000, *ar1(0.98, 0.15)),
    ("AR(1) 0.98", 4, 2000, *ar1(0.98, 0.15)),
    ("AR(1) 0.98, 10%, in noise", 1, 5000, *hidden(0.98, 0.1)),
    ("AR(1) 0.995", 1, 2000, *ar1(0.995)),
)
COLUMNS = ("independent", *METHODS, "tours", "doxa")


def block_hits(number, block, runs, with_doxa):
    """Hits of every method in one block of runs, the number of runs tried, and the squared error of the mean."""
    _, chains, draws, simulate, truth = PROCESSES[number]
    x, starts = simulate(np.random.default_rng([8, number, block]), chains, draws, runs)
    hits = {name: covered(method, x, truth).sum() for name, method in METHODS.items()}
    hits["independent"] = covered_as_independent(x, truth).sum()
    hits["tours"] = np.nan if starts is None else covered_by_tours(x, starts, truth).sum()
    hits["doxa"] = covered(lambda one: diagnose_real(one).estimate, x, truth).sum() if with_doxa else 0
    square = ((x.mean(axis=(0, 1)) - truth) ** 2).sum()
    return np.array([hits[name] for name in COLUMNS], dtype=float), square, x.var() * runs


def geweke_tails(number, runs):
    """Standard deviation of z and its share beyond 1.96, ours and with variances as if draws were independent."""
    _, chains, draws, simulate, _ = PROCESSES[number]
    x, _ = simulate(np.random.default_rng([9, number]), chains, draws, runs // chains)
    z = geweke_z(x).ravel()
    early, late = x[:, : draws // 10], x[:, draws - draws // 2 :]
    naive = (early.mean(axis=1) - late.mean(axis=1)) / np.sqrt(
        early.var(axis=1, ddof=1) / early.shape[1] + late.var(axis=1, ddof=1) / late.shape[1]
    )
    moved = np.isfinite(z)
    return z[moved].std(), (np.abs(z[moved]) > 1.96).mean(), naive.std(), (np.abs(naive) > 1.96).mean()


def main() -> None:
    """Print the tables."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{runs} runs; coverage in %")
    heads = (
        "independent",
        "batches",
        "bartlett",
        "parzen",
        "tukey-h",
        "positive",
        "monotone",
        "convex",
        "tours",
        "doxa",
    )
    print(f"| process | chains x draws | effective | {' | '.join(heads)} |")
    print("|---" * (3 + len(heads)) + "|")
    sizes = [min(BLOCK, runs - start) for start in range(0, runs, BLOCK)]
    with Parallel(n_jobs=-1) as pool:
        for number, (name, chains, draws, *_) in enumerate(PROCESSES):
            parts = pool(delayed(block_hits)(number, b, n, b * BLOCK < FEW) for b, n in enumerate(sizes))
            hits, squares, variances = (sum(part[k] for part in parts) for k in range(3))
            tried = np.full(len(COLUMNS), float(runs))
            tried[-1] = sum(n for b, n in enumerate(sizes) if b * BLOCK < FEW)
            shares = " | ".join("-" if np.isnan(s) else f"{100 * s:.1f}" for s in hits / tried)
            print(f"| {name} | {chains} x {draws} | {variances / squares:.0f} | {shares} |", flush=True)
    print("\nGeweke's z on stationary chains: standard deviation, share beyond 1.96 in %; the same with s^2 / N")
    for number, (name, chains, draws, *_) in enumerate(PROCESSES):
        if chains == 1:
            sd, beyond, naive, naive_beyond = geweke_tails(number, min(runs, 4000))
            print(f"| {name} | {draws} | {sd:.2f} | {100 * beyond:.1f} | {naive:.2f} | {100 * naive_beyond:.1f} |")


if __name__ == "__main__":
    main()
