"""Coverage of nominal 95% intervals for 0/1 quantities on chains whose answer is known.

Run as ``python benchmarks/coverage_indicators.py [runs]``; 10,000 runs of each process take some minutes.  Columns:
doxa's interval, the share of runs it calls 'cannot tell' and 'unconverged', value +/- 1.96 mcse by arviz-stats (first
1000 runs), a two-state chain with independent Jeffreys priors taken alone, and the scatter of the four chain means
taken alone. Where p is drawn from a prior, a companion of the same switching rate and p = 1/2 in the same run lends
its effective draws to the quantities that never switched.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "estimates"))

from known_chains import (
    CHAINS,
    between_chains_alone,
    covered,
    normal_ar1,
    plain_ess,
    slow_modes,
    two_state,
    two_state_alone,
)

from doxa.estimates import IndicatorCounts, Status, diagnose_indicators
from doxa.estimates.intervals import unseen_bound

BLOCK = 2000  # runs simulated at once


def fixed(p, rate):
    """A two-state chain with known p."""
    return lambda rng, draws, runs: (two_state(rng, draws, np.full(runs, p), rate), np.full(runs, p), None)


def from_prior(a, b, rate):
    """Two-state chains with p from Beta(a, b), and a companion of the same rate with p = 1/2."""

    def simulate(rng, draws, runs):
        p = rng.beta(a, b, runs)
        return two_state(rng, draws, p, rate), p, two_state(rng, draws, np.full(runs, 0.5), rate)

    return simulate


def modes(weight, rate, inside):
    """Fast flips inside slow modes."""
    p = inside[0] + weight * (inside[1] - inside[0])
    return lambda rng, draws, runs: (slow_modes(rng, draws, runs, weight, rate, inside), np.full(runs, p), None)


def above(correlation, threshold, p):
    """A normal AR(1) above a threshold."""
    return lambda rng, draws, runs: (
        (normal_ar1(rng, draws, runs, correlation) > threshold).astype(np.int8),
        np.full(runs, p),
        None,
    )


PROCESSES = (
    ("independent, p = 0.5", 1000, fixed(0.5, 1.0)),
    ("independent, p = 0.02", 1000, fixed(0.02, 1.0)),
    ("two-state, rate 0.3, p = 0.1", 1000, fixed(0.1, 0.3)),
    ("two-state, rate 0.05, p = 0.5", 1000, fixed(0.5, 0.05)),
    ("two-state, rate 0.02, p = 0.3", 2000, fixed(0.3, 0.02)),
    ("AR(1) 0.9 above 0", 1000, above(0.9, 0.0, 0.5)),
    ("AR(1) 0.9 above 1.2816", 1000, above(0.9, 1.2815516, 0.1)),
    ("AR(1) 0.98 above 0", 2000, above(0.98, 0.0, 0.5)),
    ("modes 1:1, rate 0.02, flips .2/.8", 2000, modes(0.5, 0.02, (0.2, 0.8))),
    ("modes 1:1, rate 0.01, flips .2/.8", 1000, modes(0.5, 0.01, (0.2, 0.8))),
    ("modes 1:1, rate 0.004, flips .2/.8", 1000, modes(0.5, 0.004, (0.2, 0.8))),
    ("modes 7:3, rate 0.01, flips 0/.5", 2000, modes(0.3, 0.01, (0.0, 0.5))),
    ("modes 9:1, rate 0.01, flips .2/.8", 1000, modes(0.1, 0.01, (0.2, 0.8))),
    ("modes 1:1, rate 0.001, flips .2/.8", 1000, modes(0.5, 0.001, (0.2, 0.8))),
    ("modes 1:1, rate 0.0001, flips .2/.8", 1000, modes(0.5, 0.0001, (0.2, 0.8))),
    ("p ~ Beta(1/2, 1/2), rate 1", 1000, from_prior(0.5, 0.5, 1.0)),
    ("p ~ Beta(1/2, 1/2), rate 0.05", 1000, from_prior(0.5, 0.5, 0.05)),
    ("p ~ Beta(1/2, 1/2), rate 0.003", 1000, from_prior(0.5, 0.5, 0.003)),
    ("p ~ Beta(1/10, 9/10), rate 0.05", 1000, from_prior(0.1, 0.9, 0.05)),
    ("p ~ Beta(1/10, 9/10), rate 0.003", 1000, from_prior(0.1, 0.9, 0.003)),
)


def share(limits, truth):
    """Share of runs whose interval holds the truth."""
    lower, upper = limits
    return covered(lower, upper, truth)


def study(rng, simulate, draws, runs):
    """Coverages and shares of verdicts over ``runs`` runs, in blocks."""
    hits = {"ours": 0.0, "cannot": 0.0, "unconverged": 0.0, "two": 0.0, "between": 0.0, "ess": [], "never": 0.0}
    errors, scale = 0.0, 0.0
    done = 0
    while done < runs:
        block = min(BLOCK, runs - done)
        x, p, companion = simulate(rng, draws, block)
        result = diagnose_indicators(IndicatorCounts.from_draws(x), reference_ess=None if companion is None else 0.0)
        lower, upper, status = result.lower, result.upper, result.status
        if companion is not None:
            side = diagnose_indicators(IndicatorCounts.from_draws(companion), reference_ess=0.0)
            bound = unseen_bound(np.minimum(side.ess, CHAINS * draws))
            known = side.ess > 0
            never = result.switches == 0
            lower = np.where(never & known & (result.probability == 1), 1 - bound, lower)
            upper = np.where(never & known & (result.probability == 0), bound, upper)
            status = np.where(never & known, Status.OK, status)
        told = status != Status.CANNOT_TELL
        hits["ours"] += ((lower <= p) & (p <= upper) & told).sum()
        hits["cannot"] += (~told).sum()
        hits["never"] += (result.switches == 0).sum()
        hits["unconverged"] += (status == Status.UNCONVERGED).sum()
        hits["two"] += block * share(two_state_alone(rng, x), p)
        hits["between"] += block * share(between_chains_alone(x), p)
        if done == 0:
            few = min(block, 1000)
            hits["ess"] = share(plain_ess(x, few), p[:few])
        errors, scale = errors + ((result.probability - p) ** 2).sum(), scale + ((p * (1 - p)) ** 2).sum()
        done += block
    told = runs - hits["cannot"]
    shares = [hits["ours"] / told, *(hits[k] / runs for k in ("cannot", "unconverged", "never")), hits["ess"]]
    return [scale / errors, *shares, hits["two"] / runs, hits["between"] / runs]


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    columns = ("e p(1-p)", "doxa", "cannot", "unconv", "never", "ess", "2-state", "between")
    print(f"{runs} runs of {CHAINS} chains; e p(1-p): effective draws times p (1 - p); the rest in %")
    print(f"{'process':36}{'draws':>6}" + "".join(f"{c:>9}" for c in columns))
    for number, (name, draws, simulate) in enumerate(PROCESSES):
        size, *shares = study(np.random.default_rng([7, number]), simulate, draws, runs)
        print(f"{name:36}{draws:6}{size:9.1f}" + "".join(f"{100 * s:9.1f}" for s in shares), flush=True)


if __name__ == "__main__":
    main()
