"""Gibbs sampling in reference networks given evidence: updates a microsecond, and errors after one CPU second.

    python benchmarks/inference_parts/gibbs.py [speed | errors | all] [network ...]

CPU time of one process.  Networks are pruned to what the evidence depends on, impossible states removed.  *single* is
each variable alone, *joined* the blocks of `deterministic_blocks`, then `scope_blocks`.  ``connected`` is what
`connectivity` says of them: a chain of blocks that are not is wrong for ever.  Errors are the largest over all
marginals against exact ones, of four chains from states that `find_state` found, warm-up (a tenth) counted; ``R-hat``
is the largest of the log density's and the worst marginal's.

*JAGS* is the same question for it, where it is installed (`inference_parts.jags`), from the same starts, of the worst
marginal's R-hat alone.  An update is a node redrawn; nodes that evidence implies are among its own.
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported, and paths are set before doxa's own are)

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE.parent), str(_HERE.parent.parent / "tests")]

import numpy as np

from doxa.estimates.real import diagnose_real
from doxa.inference.exact import plan_contraction
from doxa.inference.gibbs import (
    TableGibbs,
    connectivity,
    cyclic,
    deterministic_blocks,
    find_state,
    scope_blocks,
    single_sites,
)
from doxa.inference.problem import prepare
from doxa.inference.propagation import determined
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from inference_parts.jags import NOT_INSTALLED, Jags, installed
from inference_parts.networks import OBSERVED, draw_evidence, load

SPEED = ["alarm", "insurance", "hailfinder", "win95pts", "munin"]
ERRORS = ["alarm", "insurance", "hailfinder", "win95pts"]
GOALS = {"alarm": 0.002, "win95pts": 0.001, "hailfinder": 0.008}
SEEDS = 3
SECONDS = 1.0
CHAINS = 4


def network_of(name):
    reference = load(name)
    names = reference.dag.names
    tables = {}
    for child, node in enumerate(names):
        axes = np.argsort(reference.orders[child])
        table = reference.tables[child].transpose([*axes, len(axes)])
        tables[node] = table / table.sum(axis=-1, keepdims=True)
    return CategoricalNetwork(reference.dag, tables, dict(zip(names, reference.states, strict=True)))


def problem_of(name, seed):
    """What is left of a network given one of its evidence sets."""
    observed = draw_evidence(load(name), OBSERVED[name], seed)
    return prepare(network_of(name), Evidence(observed, {}), []).whole()


def jags_of(name, seed):
    """The same for JAGS, and the problem."""
    problem, rng = problem_of(name, seed), np.random.default_rng(1)
    starts = problem.decode([find_state(problem.n_states, problem.factors, rng) for _ in range(CHAINS)])
    return Jags(network_of(name), draw_evidence(load(name), OBSERVED[name], seed), starts), problem


def block_lists(problem):
    n_states, factors = problem.n_states, problem.factors
    determining = deterministic_blocks(n_states, factors, determined(factors)).blocks
    return {"single": single_sites(len(n_states)), "joined": scope_blocks(n_states, factors, determining)}


def seconds(work):
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


def speed(names):
    if not installed():
        print(NOT_INSTALLED)
    print("network      free | blocks          updates/us  thin 1 | build s")
    for name in names or SPEED:
        problem = problem_of(name, 0)
        for kind, blocks in block_lists(problem).items():
            sampler = TableGibbs(problem.n_states, problem.factors, cyclic(blocks), thin=100)
            rng = np.random.default_rng(0)
            build, _ = seconds(lambda: sampler.run(sampler.init(rng), 100, rng))  # noqa: B023
            rates = [rate(TableGibbs(problem.n_states, problem.factors, cyclic(blocks), thin=t)) for t in (100, 1)]
            print(
                f"{name:12} {len(problem.n_states):4} | {kind:8} {len(blocks):5} {rates[0]:12.1f} {rates[1]:7.1f} | "
                f"{build:7.2f}"
            )
        if installed() and name in ERRORS:
            sampler, _ = jags_of(name, 0)
            print(f"{name:12} {len(sampler.free):4} | JAGS     {len(sampler.free):5} {rate_of_jags(sampler):12.2f}")


def rate_of_jags(sampler):
    """Nodes redrawn a microsecond, without monitors, in a run of about half a second."""
    n_steps = 100
    while (taken := sampler.seconds(n_steps)) < 0.5:
        n_steps *= 2
    return 1e-6 * n_steps * CHAINS * len(sampler.free) / taken


def rate(sampler):
    """Blocks redrawn a microsecond, the best of five."""
    rng = np.random.default_rng(0)
    state, _, _ = sampler.run(sampler.init(rng), 100, rng)
    n_steps = max(1, 2_000_000 // (100 * len(sampler.scan.blocks))) * 100
    n_steps = n_steps if sampler.thin > 1 else n_steps // 4
    taken = [seconds(lambda: sampler.run(state, n_steps, rng)) for _ in range(5)]
    return max(1e-6 * info["updates"] / cpu for cpu, (_, _, info) in taken)


def errors(names):
    print("network      seed free | blocks          connected  max error     R-hat | goal")
    for name in names or ERRORS:
        for seed in range(SEEDS):
            problem = problem_of(name, seed)
            scopes = [factor.variables for factor in problem.factors]
            exact = np.concatenate(plan_contraction(problem.n_states, scopes).run(problem.factors).marginals)
            for kind, blocks in block_lists(problem).items():
                said = connectivity(problem.n_states, problem.factors, blocks).answer
                error, r_hat = after_a_second(problem, blocks, exact)
                print(
                    f"{name:12} {seed:4} {len(problem.n_states):4} | {kind:8} {len(blocks):5} {said!s:>10} "
                    f"{error:10.5f} {r_hat:9.3g} | {GOALS.get(name, '-')}",
                    flush=True,
                )
            if installed():
                error, r_hat = jags_after_a_second(name, seed, exact)
                said = connectivity(problem.n_states, problem.factors, block_lists(problem)["single"]).answer
                print(
                    f"{name:12} {seed:4} {len(problem.n_states):4} | JAGS     {len(problem.n_states):5} {said!s:>10} "
                    f"{error:10.5f} {r_hat:9.3g} | {GOALS.get(name, '-')}",
                    flush=True,
                )


def jags_after_a_second(name, seed, exact):
    """The same of JAGS; what it takes to read, compile and write is not counted."""
    sampler, problem = jags_of(name, seed)
    n_kept = int(1e6 * SECONDS * rate_of_jags(sampler) / CHAINS / len(sampler.free))
    draws = sampler.draws(n_kept // 10, n_kept - n_kept // 10)
    columns, states = [], []
    for variable, left in zip(problem.variables, problem.states, strict=True):
        columns += [sampler.free.index(variable)] * len(left)
        states += left.tolist()
    shares = np.array([(draws[..., c] == s).mean() for c, s in zip(columns, states, strict=True)])
    worst = np.abs(shares - exact).argmax()
    hits = (draws[..., columns[worst]] == states[worst]).astype(float)
    return np.abs(shares - exact).max(), np.nanmax([1.0, diagnose_real(hits).r_hat])


def after_a_second(problem, blocks, exact):
    """Largest error of the marginals, and largest R-hat."""
    sampler = TableGibbs(problem.n_states, problem.factors, cyclic(blocks), thin=20)
    rng = np.random.default_rng(1)
    sampler.run(sampler.init(rng), 20, rng)  # compiled and tabulated
    begin = time.process_time()
    states = [sampler.init(rng) for _ in range(CHAINS)]
    taken, _ = seconds(lambda: sampler.run(states[0], 400, rng))
    left = SECONDS - (time.process_time() - begin)
    n_kept = max(8, int(left / CHAINS / (taken / 400) / 20))
    runs = [sampler.run(state, 20 * n_kept, rng)[1] for state in states]
    cut = n_kept // 10
    draws = np.stack([run["probability"][cut:] for run in runs])
    off = np.abs(draws.mean(axis=(0, 1)) - exact)
    densities = np.stack([run["log_density"][cut:] for run in runs])
    r_hats = [diagnose_real(densities).r_hat, diagnose_real(draws[:, :, off.argmax()]).r_hat]
    return off.max(), np.nanmax([1.0, *r_hats])


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else "all"
    if what in ("speed", "all"):
        speed(sys.argv[2:])
    if what in ("errors", "all"):
        errors(sys.argv[2:])
