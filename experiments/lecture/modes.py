"""Distributions with two modes: independent chains, tempering, cluster moves and annealing, against exact sums."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.gelman_rubin import rank_r_hat
from doxa.estimates.real import diagnose_real
from doxa.inference.annealing import ParallelTempering, SpinPath, TablePath, anneal, linear, tune_ladder
from doxa.inference.exact import plan_contraction
from doxa.inference.gibbs import TableGibbs
from doxa.inference.spins import IsingGibbs, IsingModel, SwendsenWang
from doxa.models.factors import Factor
from doxa.models.ising import IsingNetwork, ising_grid
from doxa.sampling.driver import Schedule, sample

__all__ = [
    "CHAINS", "FIELD", "METHODS", "SIDE", "WIDTHS", "Annealing", "Cause", "Coupling", "Sets", "Sizes", "caught",
    "compute_cause", "compute_coupling", "hidden_cause", "make_grid",
]  # fmt: skip

Floats: TypeAlias = NDArray[np.float64]

SIDE, FIELD, CHAINS = 10, 0.005, 4  # the two modes weigh 0.73 and 0.27 where all spins agree
METHODS = ("Gibbs", "tempering", "Swendsen-Wang")
THIN = {"Gibbs": 10, "tempering": 5, "Swendsen-Wang": 2}  # sweeps or steps behind a kept draw
AGREE = 1.01  # R-hat below which chains are said to agree
CHILDREN, STATES, RARE = 20, 4, 0.3  # of the hidden cause; the probability of its sharp state
WIDTHS = ((0.9, 0.9), (0.97, 0.6), (0.99, 0.4))  # how sure a child is of its state under either cause


class Sizes(NamedTuple):
    """How much is run."""

    draws: dict[str, int]  # kept draws of a chain
    sets: dict[str, int]  # sets of four chains
    particles: int
    steps: int  # of the annealing


class Sets(NamedTuple):
    """Sets of four chains with one method."""

    chains: Floats  # (set, chain, draw) mean spin
    r_hat: Floats  # (set,)
    ess: Floats  # (set,)
    intervals: Floats  # (set, 2) 95%, of the mean spin
    error: float  # mean over sets and sites of |P(up) - exact|
    seconds: float  # CPU, of a set

    @property
    def pooled(self) -> Floats:
        """Mean spin by each set."""
        return np.asarray(self.chains.mean(axis=(1, 2)))

    def covers(self, exact: float) -> float:
        """Share of the sets whose interval holds the exact mean."""
        return float(((self.intervals[:, 0] <= exact) & (exact <= self.intervals[:, 1])).mean())

    @property
    def rate(self) -> float:
        """Effective draws a second."""
        return float(np.median(self.ess) / self.seconds)


class Annealing(NamedTuple):
    """Annealed importance sampling."""

    log_z_error: float  # nats
    stated: float  # the error that it states, nats
    error: float  # mean over sites of |P(up) - exact|
    seconds: float


class Coupling(NamedTuple):
    """The ferromagnet at one coupling."""

    coupling: float
    exact: float  # mean spin
    sets: dict[str, Sets]
    annealing: Annealing
    rungs: int
    tuning: float  # CPU seconds
    round_trips: float  # of a chain, per 1000 steps


def make_grid(coupling: float) -> IsingNetwork:
    return ising_grid(SIDE, SIDE, coupling=coupling, field=FIELD)


def compute_coupling(coupling: float, sizes: Sizes, seed: int = 1) -> Coupling:
    """Every method at one coupling."""
    network = make_grid(coupling)
    exact = plan_contraction(list(network.n_states), [f.variables for f in network.factors]).run(network.factors)
    up = np.array([p[1] for p in exact.marginals])
    model = IsingModel(network.edges, network.couplings, network.fields)
    path = TablePath(network.n_states, network.factors)
    begin = time.process_time()
    ladder = tune_ladder(path, np.random.default_rng(seed))
    tuning = time.process_time() - begin
    tempering = ParallelTempering(path, ladder.betas, thin=THIN["tempering"])
    samplers: dict[str, Any] = {
        "Gibbs": IsingGibbs(model, thin=THIN["Gibbs"]),
        "tempering": tempering,
        "Swendsen-Wang": SwendsenWang(model, thin=THIN["Swendsen-Wang"]),
    }
    found, trips = {}, 0.0
    for name, sampler in samplers.items():
        schedule = Schedule(CHAINS * sizes.sets[name], sizes.draws[name], sizes.draws[name] // 10)
        begin = time.process_time()
        trace = sample(sampler, schedule, seed=seed, workers=1)
        seconds = time.process_time() - begin
        spins = 2 * trace["states"].mean(axis=2) - 1 if name == "tempering" else trace["magnetisation"]
        conditional = trace["marginals"][..., 1::2] if name == "tempering" else trace["up"]
        found[name] = _in_sets(np.asarray(spins), np.asarray(conditional), up, seconds)
        if name == "tempering":
            trips = 1000 * float(np.mean(trace.info["round_trips"])) / (THIN[name] * sum(schedule[1:]))
    return Coupling(
        coupling, float((2 * up - 1).mean()), found, _anneal(network, up, exact.log_z, sizes, seed), len(ladder.betas),
        tuning, trips,
    )  # fmt: skip


def _in_sets(spins: Floats, conditional: Floats, up: Floats, seconds: float) -> Sets:
    n = len(spins) // CHAINS
    grouped = spins.reshape(n, CHAINS, -1)
    diagnosed = [diagnose_real(one) for one in grouped]
    error = np.abs(conditional.mean(axis=1).reshape(n, CHAINS, -1).mean(axis=1) - up).mean()
    return Sets(
        grouped, np.array([d.r_hat for d in diagnosed]), np.array([d.bulk_ess for d in diagnosed]),
        np.array([d.estimate.interval() for d in diagnosed]), float(error), seconds / n,
    )  # fmt: skip


def _anneal(network: IsingNetwork, up: Floats, log_z: float, sizes: Sizes, seed: int) -> Annealing:
    path = SpinPath(network.edges, network.couplings, network.fields, constant=network.constant)
    begin = time.process_time()
    run = anneal(path, linear(sizes.steps), sizes.particles, np.random.default_rng(seed), workers=1)
    seconds = time.process_time() - begin
    weights = np.exp(run.log_weights - run.log_weights.max())
    answer = run.estimate()
    error = np.abs(weights @ run.states / weights.sum() - up).mean()
    return Annealing(answer.value - log_z, answer.delta_error, float(error), seconds)


def caught(chains: Floats, n_chains: int, repeats: int, seed: int = 1) -> float:
    """Share of random sets of ``n_chains`` whose R-hat raises the alarm; chains (n, draw)."""
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(len(chains), n_chains, replace=False) for _ in range(repeats)]
    return float(np.mean([float(np.ravel(rank_r_hat(chains[own]))[0]) > AGREE for own in chosen]))


def hidden_cause(sharp: float, blunt: float) -> tuple[list[int], list[Factor]]:
    """A cause of two states and its children: under either state every child prefers one of its four, more or less.

    A mode of few likely states beside one of many, the less sure the children are under the second.  Nothing is
    observed, so that the cause's distribution is known: its table.
    """
    rows = np.empty((2, STATES))
    for cause, sure in enumerate((sharp, blunt)):
        rows[cause] = (1 - sure) / (STATES - 1)
        rows[cause, cause] = sure
    cause_table = Factor((0,), np.log([RARE, 1 - RARE]))
    children = [Factor((0, i), np.log(rows)) for i in range(1, CHILDREN + 1)]
    return [2] + [STATES] * CHILDREN, [cause_table, *children]


class Cause(NamedTuple):
    """P(the sharp cause) by each chain of each method, and what the method says of it."""

    widths: tuple[float, float]
    by_chain: dict[str, Floats]
    r_hat: dict[str, float]
    round_trips: int
    annealed: float  # P(the sharp cause) by annealing
    log_z: tuple[float, float]  # annealing: estimate (exact: 0) and stated error, nats
    exact: float  # P(the sharp cause) by contraction
    seconds: float  # CPU, of that


def compute_cause(widths: tuple[float, float], draws: int, seed: int = 1) -> Cause:
    """The hidden cause by Gibbs from random starts, by tempering from a uniform base, by annealing."""
    n_states, factors = hidden_cause(*widths)
    begin = time.process_time()
    exact = plan_contraction(n_states, [f.variables for f in factors]).run(factors).marginals[0][0]
    seconds = time.process_time() - begin
    path = TablePath(n_states, factors)
    ladder = tune_ladder(path, np.random.default_rng(seed))
    gibbs = TableGibbs(n_states, factors, thin=5, starts=partial(_anywhere, n_states))
    schedule = Schedule(CHAINS, draws, draws // 10)
    traces = {
        "Gibbs": sample(gibbs, schedule, seed=seed, workers=1),
        "tempering": sample(ParallelTempering(path, ladder.betas, thin=5), schedule, seed=seed, workers=1),
    }
    shares = {n: np.asarray(t["probability" if n == "Gibbs" else "marginals"][..., 0]) for n, t in traces.items()}
    run = anneal(path, linear(200), 256, np.random.default_rng(seed), workers=1)
    answer, weights = run.estimate(), np.exp(run.log_weights - run.log_weights.max())
    return Cause(
        widths, {n: s.mean(axis=1) for n, s in shares.items()},
        {n: float(np.ravel(rank_r_hat(s))[0]) for n, s in shares.items()},
        int(traces["tempering"].info["round_trips"].sum()), float(weights[run.states[:, 0] == 0].sum() / weights.sum()),
        (answer.value, answer.delta_error), float(exact), seconds,
    )  # fmt: skip


def _anywhere(n_states: list[int], rng: np.random.Generator) -> list[int]:
    return [int(rng.integers(k)) for k in n_states]
