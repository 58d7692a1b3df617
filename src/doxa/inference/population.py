"""`Population`: annealed particles that tell chains where to begin, and whether they have been everywhere.

Chains that all begin on one side of a barrier agree with each other, however long they run.  Particles that were
cooled from independent variables, where there are no barriers, come to every mode that is reached from there, and
their weights say how much each is worth (Neal 2001).  So chains begin at particles far from each other, and what they
then agree upon is held against the weighted particles.  A mode that is narrow at every temperature is missed by both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from doxa.arrays import Floats
from doxa.estimates.estimate import Verdict
from doxa.inference.annealing import SpinPath, TablePath, anneal, tune_schedule
from doxa.inference.annealing.path import as_sample
from doxa.inference.chains import ChainRun, Running, run_to_accuracy

_ADVICE = "Use method='tempering'."
HOPELESS = 12.0  # nats below the best at which a place to begin, or a particle, is not worth a chain: 6e-6
_VARIANCE = 0.5  # of the log weights that a schedule is made for: 60 in 100 particles effective
_SPINS, _SPIN_STEPS = 512, 500  # hundredths of a second for a grid of 64 spins: a tenth of its shortest run
_ROWS, _ROW_STEPS = 128, 64  # of tables, whose particles cost as much as the chains' own updates
_CLOSER = 8  # times as many particles, and steps of tables, for the second look
_MOST_UPDATES = 10**8  # of tables, at a second look: some seconds
_FEWEST = 16  # particles to choose starts from, whatever their weights
_SUSPECT = 0.05  # share of the right runs that get a second look, with particles of its own
_DISAGREE = 1e-4  # share of these that are not believed
_LEAST_ESS = 25.0  # effective particles below which a first look says nothing


@dataclass(frozen=True, eq=False)
class Population:
    """Weighted particles at the end of a path; made by `Population.annealed`."""

    path: SpinPath | TablePath
    states: NDArray[Any]  # (n, n_variables), possible ones alone
    log_weights: Floats  # (n,), nats

    @classmethod
    def annealed(
        cls, path: SpinPath | TablePath, rng: np.random.Generator, times: int = 1, rows: int = _ROWS
    ) -> Population:
        """Anneal particles, ``times`` as many as for a first look (there ``rows`` of tables)."""
        is_fast = isinstance(path, SpinPath)
        n, n_steps = (_SPINS, _SPIN_STEPS) if is_fast else (rows, _ROW_STEPS)
        if is_fast or times > 1:
            allowed = n_steps if is_fast else _MOST_UPDATES // (n * times * path.n_variables)
            most_steps = max(n_steps, min(n_steps * times, allowed))
            betas = tune_schedule(path, n, rng, variance=_VARIANCE, most_steps=most_steps, workers=1).betas
        else:
            betas = np.linspace(0.0, 1.0, n_steps + 1)  # no more steps than a pilot would need
        found = anneal(path, betas, n * times, rng, workers=1)
        possible = found.log_weights > -np.inf
        return cls(path, found.states[possible], found.log_weights[possible])

    @cached_property
    def weights(self) -> Floats:
        """Shares of the sum."""
        shares = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(shares / shares.sum())

    @property
    def ess(self) -> float:
        """Effective particles; 0 where there are none."""
        return float(1 / (self.weights**2).sum()) if len(self.states) else 0.0

    @property
    def is_reliable(self) -> bool:
        """Whether the weights can be relied on, by their number and tail."""
        return len(self.states) > 1 and bool(as_sample(self.log_weights).verdict.reliable)

    def probabilities(self, columns: NDArray[np.intp], values: NDArray[np.intp]) -> Floats:
        """Weighted shares of the particles that have ``values`` in ``columns``; shape of either."""
        return np.asarray(self.weights @ (self.states[:, columns] == values))

    def error_at(self, p: Floats) -> Floats:
        """Standard errors of shares if their mean is p; at least as if one effective particle had been met or missed.

        Of p, not of the shares: with so few particles those that are off by chance have the smaller errors, and of a
        hundred right quantities the worst was beyond its limit in 45 runs of 100 where 5 were meant.
        """
        return np.asarray(np.sqrt(np.maximum(p * (1 - p), 1 / self.ess) / self.ess))

    def apart(self, n: int, rng: np.random.Generator, first: Sequence[NDArray[np.int64]] = ()) -> NDArray[np.int64]:
        """Places to begin for n chains, shape (n, n_variables): far from each other, none of them hopeless.

        Half of the chains, or more if there are no particles, begin at those given.  The first particle is drawn by its
        weight; each that follows differs in the most variables from those before.
        """
        chosen = [np.asarray(row, dtype=np.int64) for row in first[: -(-n // 2)]]
        if len(self.states):
            near = self.log_weights > self.log_weights.max() - HOPELESS
            rows = self.states[near] if near.sum() >= _FEWEST else self.states
            if not chosen:
                chosen.append(self.states[rng.choice(len(self.states), p=self.weights)].astype(np.int64))
            chosen = _farthest(chosen, rows, n)
        return np.array([chosen[k % len(chosen)] for k in range(n)]) if chosen else np.empty((0, 0), np.int64)


def spread(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Of rows, the first and those that differ most from each other, shape (n, n_variables) or (0, 0)."""
    return np.array(_farthest([rows[0]], rows, n)) if len(rows) else np.empty((0, 0), np.int64)


def _farthest(chosen: list[NDArray[np.int64]], rows: NDArray[Any], n: int) -> list[NDArray[np.int64]]:
    """Add rows until there are n, each of those that differ in the most variables from the ones before."""
    distance = np.min([(rows != row).sum(axis=1) for row in chosen], axis=0)
    while len(chosen) < n:
        at = int(distance.argmax())
        chosen.append(rows[at].astype(np.int64))
        distance = np.minimum(distance, (rows != rows[at]).sum(axis=1))
    return chosen


class Around:
    """A sampler around another, whose answers it passes on."""

    sampler: Any

    @property
    def thin(self) -> int:
        """Steps between kept draws."""
        return int(self.sampler.thin)

    @property
    def state_type(self) -> type[Any]:
        """The type of its states."""
        found: type[Any] = self.sampler.state_type
        return found

    def init(self, rng: np.random.Generator) -> Any:
        """The sampler's own start."""
        return self.sampler.init(rng)

    def begin(self, states: NDArray[np.int64], rng: np.random.Generator) -> Any:
        """Where a chain is that stands at these states."""
        return self.sampler.begin(states, rng)

    def run(self, state: Any, n_steps: int, rng: np.random.Generator) -> Any:
        """The sampler's run."""
        return self.sampler.run(state, n_steps, rng)


@dataclass(frozen=True, eq=False)
class Begun(Around):
    """A sampler whose chains begin where they are told."""

    sampler: Any
    rows: NDArray[np.int64]  # (n_chains, n_variables), for the sampler's ``begin``

    def start(self, number: int, rng: np.random.Generator) -> Any:
        """Where chain ``number`` begins."""
        return self.begin(self.rows[number % len(self.rows)], rng)


def run_apart(
    sampler: Any,
    path: SpinPath | TablePath,
    running: Running,
    columns: NDArray[np.intp],
    values: NDArray[np.intp],
    name_of: Callable[[int], str],
    *,
    starts: NDArray[np.int64] | None = None,
    first: Sequence[NDArray[np.int64]] = (),
    particles: int = _ROWS,
    **options: Any,
) -> ChainRun:
    """`run_to_accuracy`, from places far apart, held against particles that were annealed along a path.

    The quantities are of given columns and values.  Chains begin at ``starts``, possible states drawn nearly as they
    should be; else at particles, half of them at the places that come ``first``.  ``particles`` are those of tables.
    """
    rng = np.random.default_rng(np.random.SeedSequence(running.seed, spawn_key=(0, 1)))  # of none of the chains
    population, n_chains = Population.annealed(path, rng, rows=particles), running.schedule.chains
    rows = population.apart(n_chains, rng, first) if starts is None else spread(starts, n_chains)
    begun = Begun(sampler, rows) if len(rows) else sampler
    run = run_to_accuracy(begun, running, len(columns), name_of, **options)
    return vouched(run, population, columns, values, name_of, rng)


def vouched(
    run: ChainRun,
    population: Population,
    columns: NDArray[np.intp],
    values: NDArray[np.intp],
    name_of: Callable[[int], str],
    rng: np.random.Generator,
) -> ChainRun:
    """The run of chains, whose quantities are of given columns and values, held against the population if they agree.

    Where a quantity is further off than one in twenty right runs would have it, a population eight times as large,
    which had no part in the suspicion, decides; where its weights are no good either, nobody can tell.
    """
    if not run.judgement.converged or population.ess < _LEAST_ESS:
        return run
    if _largest(run, population, columns, values)[0] <= _limit(_SUSPECT, len(columns)):
        return run
    closer = Population.annealed(population.path, rng, _CLOSER)
    if not len(closer.states):
        return run
    z, k = _largest(run, closer, columns, values)
    if z <= _limit(_DISAGREE if closer.is_reliable else _SUSPECT, len(columns)):
        return run
    p = float(closer.probabilities(columns[k : k + 1], values[k : k + 1])[0])
    found = f"their P({name_of(k)}) is {run.marginals.value[k]:.3g}, and {p:.3g} by annealed particles"
    if closer.is_reliable:
        reason = f"the chains agree, but {found}, {z:.0f} standard errors apart: they miss a mode."
        return run._replace(judgement=Verdict.of_chains(False, reason, advice=_ADVICE))
    reason = f"the chains agree, but {found}, whose weights are not reliable."
    return run._replace(judgement=Verdict.of_chains(None, reason, advice=_ADVICE))


def _limit(share: float, n: int) -> float:
    """Standard errors that one of n quantities exceeds by chance, in that share of the runs at most."""
    return float(-ndtri(share / (2 * n)))


def _largest(
    run: ChainRun, population: Population, columns: NDArray[np.intp], values: NDArray[np.intp]
) -> tuple[float, int]:
    """How many standard errors chains and particles are apart at most, and where."""
    value = np.clip(run.marginals.value, 0.0, 1.0)
    apart = np.abs(value - population.probabilities(columns, values))
    z = apart / np.hypot(run.marginals.errors, population.error_at(value))
    k = int(z.argmax())
    return float(z[k]), k
