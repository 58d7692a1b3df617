r"""`ParallelTempering`: chains at several temperatures that trade states, over any discrete network (Geyer 1991).

Rung 0 samples the network itself, zeros and all; rung k the softened :math:`f_{\beta_k}` of a `TablePath`, down to
:math:`\beta = 0`, the base.  Its variables too are redrawn one by one, which mixes at once where they are independent,
and helps little where the base is a directed network with modes of its own.  After every sweep neighbours offer each
other their states (`doxa.sampling.temperatures`), s being :math:`\partial \ln f_\beta / \partial \beta`,
rung 0 refusing states that are impossible.  That keeps the product of all distributions, so the first rung's draws are
of the network however coarse the ladder or the softening; these decide only how often it is led elsewhere.

*Schedules* of inverse temperatures go slowly where weights spread.  Let V be the variance of the log weights along a
pilot run.  Where steps are small it grows by :math:`\zeta(\beta) / \rho(\beta)` per unit of beta, with :math:`\rho`
steps per unit and :math:`\zeta` a friction of the path and its kernels: the variance of
:math:`\partial \ln f_\beta / \partial \beta` times twice its autocorrelation time in sweeps.  Minimising
:math:`\int \zeta / \rho` for :math:`K = \int \rho` steps gives :math:`\rho \propto \sqrt\zeta` and the variance

.. math:: V = \Lambda^2 / K, \qquad \Lambda = \int_0^1 \sqrt{\zeta(\beta)} \, d\beta,

the squared thermodynamic length over the number of steps.  With a pilot of :math:`\Delta K_b` steps in bin b, where V
grew by :math:`\Delta V_b`, :math:`\int_b \sqrt\zeta = \sqrt{\Delta K_b \Delta V_b}`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined
from doxa.arrays import Floats, Ints, Words
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.annealing.path import Annealed, Path, anneal
from doxa.inference.annealing.tables import TablePath, Tables, log_densities, log_parts, sweep_tables
from doxa.inference.spins.model import BaseSampler, Draws, Run
from doxa.inference.spins.words import fresh_streams, uniform
from doxa.sampling.temperatures import barrier_along, equally_rejected, log_swap_ratio

__all__ = [
    "Ladder",
    "ParallelTempering",
    "Schedule",
    "TemperingState",
    "adapted",
    "geometric",
    "linear",
    "tune_ladder",
    "tune_schedule",
]

_BINS = 24
_EVEN = 0.1  # share of the steps that is spread as in the pilot, in case that missed something
_FIRST_STEPS = 64
_SETTLED = 2.5  # variance of log weights (nats squared) at which a pilot tells enough
_GROWTH = 4


def linear(n_steps: int) -> Floats:
    """Even steps.

    Examples
    --------
    >>> linear(4)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    return np.linspace(0.0, 1.0, check_whole("n_steps", n_steps, 1) + 1)


def geometric(n_steps: int, first: float = 1e-3) -> Floats:
    """0, then ``first``, then numbers of constant ratio up to 1.

    Examples
    --------
    >>> geometric(4, 0.001).round(3)
    array([0.   , 0.001, 0.01 , 0.1  , 1.   ])
    """
    if not 0 < first < 1:
        raise ArgumentError(f"first is {first}; it must lie between 0 and 1")
    return np.append(0.0, np.geomspace(first, 1.0, check_whole("n_steps", n_steps, 2)))


class Schedule(NamedTuple):
    """A schedule made from a pilot run, and what to expect of it."""

    betas: Floats
    length: float  # Lambda, nats times the root of a step: the log weights' variance is its square over the steps

    @property
    def variance(self) -> float:
        """Expected variance of the log weights."""
        return self.length**2 / (len(self.betas) - 1)


def adapted(pilot: Annealed, n_steps: int) -> Schedule:
    """Spread ``n_steps`` as the pilot's variances ask for.

    Examples
    --------
    >>> pilot = Annealed(np.zeros(2), np.zeros((2, 1)), linear(4), np.array([0.0, 0.0, 0.0, 0.4]))
    >>> adapted(pilot, 8).betas.round(2)  # all variance in the last quarter
    array([0.  , 0.75, 0.79, 0.82, 0.86, 0.89, 0.93, 0.96, 1.  ])
    """
    n_steps, betas = check_whole("n_steps", n_steps, 1), pilot.betas
    ends = np.unique(np.linspace(0, len(betas) - 1, min(_BINS, len(betas) - 1) + 1).round().astype(int))
    steps = np.diff(ends)
    variances = np.maximum.accumulate(np.append(0.0, pilot.variances))
    growth = np.diff(variances[ends])
    growth = np.maximum(growth, variances[-1] * 1e-3 / len(steps) + 1e-12)
    lengths = np.sqrt(steps * growth)
    share = (1 - _EVEN) * lengths / lengths.sum() + _EVEN * steps / steps.sum()
    inner = np.interp(np.linspace(0, 1, n_steps + 1), np.append(0.0, np.cumsum(share)), betas[ends])
    inner[0], inner[-1] = 0.0, 1.0
    return Schedule(inner, float(lengths.sum()))


def tune_schedule(
    path: Path, n: int, rng: np.random.Generator, *, variance: float, most_steps: int, workers: int | None = None
) -> Schedule:
    """Find a schedule whose log weights will have a given variance, by pilots that are thrown away.

    Parameters
    ----------
    path : Path
    n : int
        Particles of each pilot.
    rng : numpy.random.Generator
    variance : float
        Of the log weights, nats squared; 0.2 leaves 80 in 100 particles effective.
    most_steps : int
        The schedule takes no more, whatever the variance then; nor do the pilots, together.

    Returns
    -------
    Schedule
        Frozen: what it will be used for has no part in it.
    """
    betas, left, n_steps = linear(min(_FIRST_STEPS, most_steps)), most_steps, _FIRST_STEPS
    while True:
        pilot = anneal(path, betas, n, rng, workers=workers)
        left -= n_steps
        n_steps = min(n_steps * _GROWTH, left)
        if pilot.variances[-1] <= _SETTLED or n_steps < len(betas):
            break
        betas = adapted(pilot, n_steps).betas
    length = adapted(pilot, 1).length
    wanted = int(np.ceil(length**2 / variance))
    return adapted(pilot, min(max(wanted, _FIRST_STEPS // 2), most_steps))


_log_swap_ratio = inlined(log_swap_ratio)
FROM_COLD, FROM_HOT = 1, 2  # which end of the ladder a state was at last, having been at the cold one before


@hot
def temper(tables: Tables, betas: Floats, first_step: int, run: Run, origins: Ints, work: Floats, counts: Ints) -> None:
    """Make the steps of a run.

    Row k of ``counts`` gets the offers between rungs k and k + 1 and the swaps, the last row round trips.
    """
    states, streams, sums = run.state, run.streams, run.sums
    kept, log_values, marginals = run.draws
    for step in range(run.n_steps):
        for r in range(betas.size):
            if r == 0 and sums.size > 0:
                _add_conditionals(tables, states[0], streams, work, sums)
            else:
                sweep_tables(tables, betas[r], r == 0, False, states[r], streams, r & 7, work)
        for r in range((first_step + step) & 1, betas.size - 1, 2):
            offer_states(tables, betas, r, states, origins, streams, counts)
        counts[betas.size - 1, 0] += _follow(origins)
        if (step + 1) % run.thin == 0:
            at = (step + 1) // run.thin - 1
            for i in range(states.shape[1]):
                kept[at, i] = states[0, i]
            low, rise, _ = log_parts(tables, states[0])
            log_values[at] = low + rise
            for c in range(sums.size):
                marginals[at, c] = sums[c] / run.thin
                sums[c] = 0.0


@hot
def offer_states(
    tables: Tables, betas: Floats, r: int, states: NDArray[np.int32], origins: Ints, streams: Words, counts: Ints
) -> None:
    """Swap the states of rungs r and r + 1 with the probability that keeps both distributions."""
    _, rise_cold, _ = log_parts(tables, states[r])
    _, rise_hot, is_zero = log_parts(tables, states[r + 1])
    counts[r, 0] += 1
    log_ratio = _log_swap_ratio(betas[r], betas[r + 1], rise_cold, rise_hot)
    if r == 0 and is_zero:
        return  # the first rung is exact
    if math.log(1.0 - uniform(streams, r & 7)) < log_ratio:
        counts[r, 1] += 1
        for i in range(states.shape[1]):
            states[r, i], states[r + 1, i] = states[r + 1, i], states[r, i]
        origins[r], origins[r + 1] = origins[r + 1], origins[r]


@hot
def _follow(origins: Ints) -> int:
    """Note which states are at an end of the ladder; 1 if one came back to the cold end from the hot one."""
    is_back = origins[0] == FROM_HOT
    origins[0] = FROM_COLD
    if origins[origins.size - 1] == FROM_COLD and origins.size > 1:
        origins[origins.size - 1] = FROM_HOT
    return 1 if is_back else 0


@hot
def _add_conditionals(tables: Tables, state: NDArray[np.int32], streams: Words, work: Floats, sums: Floats) -> None:
    """Sweep the first rung, adding the probability of every state at the moment of drawing to ``sums``."""
    place = 0
    for i in range(state.size):
        size = tables.n_states[i]
        log_densities(tables, 1.0, True, i, state, work)
        largest, total = -np.inf, 0.0
        for s in range(size):
            largest = max(largest, work[s])
        for s in range(size):
            work[s] = math.exp(work[s] - largest)
            total += work[s]
        left = uniform(streams, 0) * total
        found, is_found = 0, False
        for s in range(size):
            sums[place + s] += work[s] / total
            if work[s] > 0.0 and not is_found:
                found = s  # rounding must not lead beyond the last that is possible
                left -= work[s]
                is_found = left < 0.0
        state[i] = found
        place += size


_START_STEPS = (64, 512, 4096)  # of an annealing run that looks for a state that is possible
_PILOT_STEPS = (200, 400, 1600)
_REJECTED = 0.4  # share of offers between neighbours that a tuned ladder lets fail
_MOST_RUNGS = 32


class TemperingState(NamedTuple):
    """Where a chain stands."""

    states: NDArray[np.int32]  # (n_rungs, n_variables)
    origins: NDArray[np.int64]  # (n_rungs,) end of the ladder that a rung's state was at last; 0 if at none
    streams: NDArray[np.uint64]  # (32,), of the random words
    n_steps: int  # since the beginning: whether even or odd pairs are next


@dataclass(frozen=True, eq=False)
class ParallelTempering(BaseSampler[TemperingState]):
    """A chain on a discrete network that leaves the modes that single-variable draws are caught in.

    Parameters
    ----------
    path : TablePath
    betas : sequence of float
        Inverse temperatures: 1.0 first, falling to 0.0, the last.  `tune_ladder` finds good ones.
    thin : int, default=1
        Steps between kept draws; a step is a sweep of every rung, and a round of offers.
    marginals : bool, default=True
        Keep the probability of every state of every variable given the others, at the moment of drawing.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If betas are no such sequence, or ``thin`` is not a whole number of at least one.

    Notes
    -----
    Draws are ``states`` (n_kept, n_variables); ``log_value`` (n_kept,), the log of the product of the factors, nats;
    and ``marginals`` (n_kept, sum of n_states), averaged over the steps since the last kept draw, one variable after
    another.  Counted are ``offers_k`` and ``swaps_k`` between rungs k and k + 1, and ``round_trips``: states that went
    from the first rung to the last and back.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> from doxa.models.factors import Factor
    >>> xor = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)  # single-variable draws never move
    >>> path = TablePath((2, 2), [Factor((0, 1), xor), Factor((0,), np.log([0.8, 0.2]))])
    >>> trace = sample(ParallelTempering(path, (1.0, 0.5, 0.0)), Schedule(4, 2000, 100), seed=1)
    >>> bool(abs(trace["states"][..., 0].mean() - 0.2) < 0.02), bool((trace.info["round_trips"] > 100).all())
    (True, True)
    """

    path: TablePath
    betas: Sequence[float]
    thin: int = 1
    marginals: bool = True
    state_type: ClassVar[type[TemperingState]] = TemperingState

    def __post_init__(self) -> None:
        """Refuse what is no ladder, and a bad ``thin``."""
        super().__post_init__()
        betas = np.asarray(self.betas, dtype=np.float64)
        falls = betas.ndim == 1 and len(betas) > 1 and bool((np.diff(betas) < 0).all())
        if not falls or betas[0] != 1.0 or betas[-1] != 0.0:
            raise ArgumentError(f"betas is {self.betas!r}; they fall from 1.0, the first, to 0.0, the last")
        object.__setattr__(self, "betas", tuple(betas.tolist()))

    def init(self, rng: np.random.Generator) -> TemperingState:
        """A state of the base for every rung but the first, which gets a possible state: one that was annealed."""
        n_rungs = len(self.betas)
        states = self.path.draw_base(n_rungs, rng)
        for n_steps in _START_STEPS:
            log_weights, found, _ = self.path.forward(linear(n_steps), rng)
            possible = np.flatnonzero(log_weights > -np.inf)
            if possible.size:
                states[0] = found[rng.choice(possible)]
                return TemperingState(states, np.zeros(n_rungs, dtype=np.int64), fresh_streams(rng), 0)
        raise ArgumentError(
            f"no possible state was found in {len(_START_STEPS) * self.path.block} annealing runs; the network's zeros "
            "leave few: propagate evidence first, or use an exact method"
        )

    def _advance(self, state: TemperingState, n_steps: int) -> tuple[TemperingState, Draws, dict[str, int]]:
        n, n_rungs, n_kept = self.path.n_variables, len(self.betas), n_steps // self.thin
        n_cells = int(sum(self.path.n_states)) if self.marginals else 0
        states, origins, streams = state.states.copy(), state.origins.copy(), state.streams.copy()
        draws: Draws = {
            "states": np.empty((n_kept, n), dtype=np.int32),
            "log_value": np.empty(n_kept),
            "marginals": np.empty((n_kept, n_cells)),
        }
        counts = np.zeros((n_rungs, 2), dtype=np.int64)
        run = Run(states, streams, np.zeros(n_cells), n_steps, self.thin, tuple(draws.values()))
        work = np.empty(max(self.path.n_states))
        temper(self.path.tables, np.array(self.betas), state.n_steps, run, origins, work, counts)
        info = {"round_trips": int(counts[-1, 0])}
        for k, (offers, swaps) in enumerate(counts[:-1].tolist()):
            info |= {f"offers_{k}": offers, f"swaps_{k}": swaps}
        return TemperingState(states, origins, streams, state.n_steps + n_steps), draws, info


class Ladder(NamedTuple):
    """A ladder made from pilot runs."""

    betas: tuple[float, ...]
    barrier: float  # sum of the rejection rates between neighbours; a round trip takes about twice as many steps


def tune_ladder(path: TablePath, rng: np.random.Generator, *, rejected: float = _REJECTED) -> Ladder:
    """Find inverse temperatures between which equally many offers fail, by pilots that are thrown away.

    Parameters
    ----------
    path : TablePath
    rng : numpy.random.Generator
    rejected : float, default=0.4
        Share of offers that fail, in (0, 1): fewer rungs the larger it is.

    Returns
    -------
    Ladder
        Frozen: 1.0 first, 0.0 last.

    Notes
    -----
    Rejection rates add up along a ladder to about the same barrier however it is divided (Syed et al. 2022), so rungs
    are put at equal parts of the sum that the pilot found.

    Examples
    --------
    >>> from doxa.models.factors import Factor
    >>> path = TablePath((2, 2), [Factor((0, 1), 2.0 * np.eye(2))])
    >>> tune_ladder(path, np.random.default_rng(1)).betas[::2]
    (1.0, 0.0)
    """
    if not 0 < rejected < 1:
        raise ArgumentError(f"rejected is {rejected}; it must lie strictly between 0 and 1, such as {_REJECTED}")
    betas, barrier = np.append(np.geomspace(1.0, 0.02, 12), 0.0), 0.0
    for n_steps in _PILOT_STEPS:
        sampler = ParallelTempering(path, betas.tolist(), thin=n_steps, marginals=False)
        info = sampler.run(sampler.init(rng), n_steps, rng)[2]
        rates = [1 - info[f"swaps_{k}"] / max(info[f"offers_{k}"], 1) for k in range(len(betas) - 1)]
        along = barrier_along(rates)
        barrier = float(along[-1])
        n_rungs = min(max(int(np.ceil(barrier / rejected)) + 1, 3), _MOST_RUNGS)
        betas = equally_rejected(betas, along, n_rungs)
        betas[0], betas[-1] = 1.0, 0.0
    return Ladder(tuple(betas.tolist()), barrier)
