"""Simulated runs of known chains that decide for themselves when to stop, many at once.

A run here is a run of the driver, less the sampler: warm-up in epochs that double until the chains have settled, then
looks at the draws at `decision_points`, until nothing falls short of `Until` at two looks running.  What falls short is
asked of `doxa.estimates.accuracy`, the very functions that a run over graphs asks.  The truth is known, so every
interval can be held against it.  A `look` is a way to make an interval and to say whether to go on; wrong ones can be
put in the place of doxa's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from known_chains import CHAINS, two_state_posterior
from numpy.typing import NDArray

from doxa._jit import compiled
from doxa.estimates import IndicatorCounts, Status, diagnose_indicators
from doxa.estimates.accuracy import confirmed, indicator_shortfalls, is_settled, real_shortfalls
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.effective import mean_error
from doxa.estimates.gelman_rubin import rank_r_hat
from doxa.estimates.indicators import split_r_hat
from doxa.estimates.intervals import student_quantile
from doxa.estimates.stopping import FIRST_LOOK, Shortfall, Until, decision_points
from doxa.sampling.runner import _MOST_DOUBLED

NORMAL = float(student_quantile(np.inf, 0.95))
FAR = 4.0  # standard deviations from the mean at which over-dispersed real chains start


# --- chains


@compiled
def _run_modes(rng, mode, active, up, down, inside, out):
    """Draw 1 with probability ``inside[mode]``; then the hidden mode moves. ``mode`` is moved on in place."""
    for i in range(active.size):
        run = active[i]
        for chain in range(mode.shape[1]):
            at = mode[run, chain]
            for t in range(out.shape[2]):
                out[i, chain, t] = rng.random() < inside[at]
                u = rng.random()
                at = int(u >= down[run]) if at else int(u < up[run])
            mode[run, chain] = at


@compiled
def _run_autoregression(rng, value, active, correlation, out):
    """Standard normal AR(1); ``value`` is moved on in place."""
    scale = np.sqrt(1 - correlation * correlation)
    for i in range(active.size):
        run = active[i]
        for chain in range(value.shape[1]):
            at = value[run, chain]
            for t in range(out.shape[2]):
                out[i, chain, t] = at
                at = correlation * at + scale * rng.standard_normal()
            value[run, chain] = at


class Modes:
    """A 0/1 quantity that flips inside two hidden modes, with its own parameters in every run.

    Mode 1 has probability ``weight`` and modes change at ``rate`` (0 to 1 at ``weight * rate``).  Inside a mode draws
    are independent, 1 with probability ``inside[mode]``; with (0, 1) the quantity is the mode: a two-state chain.
    """

    real = False

    def __init__(self, rng, runs, apart, weight, rate, inside=(0.0, 1.0)):
        weight = np.broadcast_to(np.asarray(weight, dtype=np.float64), (runs,))
        self.rng, self.inside = rng, np.array(inside)
        self.up, self.down = weight * rate, (1 - weight) * rate
        self.truth = self.inside[0] + weight * (self.inside[1] - self.inside[0])
        self.at = (rng.random((runs, CHAINS)) < weight[:, None]).astype(np.int64)
        if apart:
            self.at[:] = np.arange(CHAINS) % 2

    def draw(self, n, active):
        out = np.empty((active.size, CHAINS, n), dtype=np.bool_)
        _run_modes(self.rng, self.at, active, self.up, self.down, self.inside, out)
        return out


class Autoregression:
    """A real quantity: standard normal AR(1)."""

    real = True

    def __init__(self, rng, runs, apart, correlation):
        self.rng, self.correlation, self.truth = rng, correlation, np.zeros(runs)
        self.at = rng.standard_normal((runs, CHAINS))
        if apart:
            self.at[:] = np.linspace(-FAR, FAR, CHAINS)

    def draw(self, n, active):
        out = np.empty((active.size, CHAINS, n))
        _run_autoregression(self.rng, self.at, active, self.correlation, out)
        return out


class RealModes:
    """A real quantity: a standard normal in mode 0, ``distance`` higher in mode 1; `Modes` has weight and rate."""

    real = True

    def __init__(self, rng, runs, apart, weight, rate, distance):
        self.rng, self.distance = rng, distance
        self.mode = Modes(rng, runs, apart, weight, rate)
        self.truth = distance * self.mode.truth

    def draw(self, n, active):
        mode = self.mode.draw(n, active)
        return self.distance * mode + self.rng.standard_normal(mode.shape)


def side_by_side(quantities, n, active):
    """Draws of several quantities, the last axis; each chain's draws of one lie together, as they are counted."""
    return np.moveaxis(np.stack([one.draw(n, active) for one in quantities], axis=2), 2, -1)


class WithCompanion:
    """Two quantities a run: one whose probability is drawn from Beta(a, b), one of the same rate with p = 1/2."""

    real = False

    def __init__(self, rng, runs, apart, prior, rate):
        self.own = Modes(rng, runs, apart, rng.beta(*prior, runs), rate)
        self.companion = Modes(rng, runs, apart, 0.5, rate)
        self.truth = self.own.truth

    def draw(self, n, active):
        return side_by_side([self.own, self.companion], n, active)


class Among:
    """A quantity with slow modes among ``others`` of its run that switch fast, as one edge among many."""

    real = False
    fast = ((0.5, 0.5), (0.3, 0.3), (0.2, 0.4), (0.05, 0.3))  # probability and rate

    def __init__(self, rng, runs, apart, others, weight, rate, inside):
        self.own = Modes(rng, runs, apart, weight, rate, inside)
        self.others = [Modes(rng, runs, apart, *self.fast[k % len(self.fast)]) for k in range(others)]
        self.truth = self.own.truth

    def draw(self, n, active):
        return side_by_side([self.own, *self.others], n, active)


# --- looks: from draws (run, chain, draw) to intervals, and to whether to go on


class Look(NamedTuple):
    """What is known of every run at one decision point."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    short: NDArray[np.bool_]  # not accurate enough yet, (run, quantity)
    told: NDArray[np.bool_]  # the verdict is not 'cannot tell'
    never: NDArray[np.bool_]  # the quantity never switched
    well_known: NDArray[np.bool_]  # so is its error, (run, quantity)


def count(draws):
    """Counts of one 0/1 quantity in many runs."""
    return IndicatorCounts.from_draws(np.moveaxis(draws, 0, -1))


def look_at_indicators(draws, until):
    """doxa's: one quantity a run, so that there is nothing else by which to judge one that never switched."""
    found = diagnose_indicators(count(draws), reference_ess=0.0)
    told, never = found.status != Status.CANNOT_TELL, found.switches == 0
    return Look(found.lower, found.upper, short_of(found, until)[:, None], told, never, found.well_known[:, None])


def short_of(found, until):
    """Which of several quantities are not accurate enough yet."""
    short = np.zeros(found.probability.shape, dtype=bool)
    for shortfall in indicator_shortfalls(str, found, until):
        short[int(shortfall.name)] = True
    return short


def look_at_first(draws, until, interval=None):
    """doxa's: several quantities a run, all have to be accurate; one that never switched is judged by the others."""
    rows = []
    for run in draws:
        found = diagnose_indicators(IndicatorCounts.from_draws(run))
        told = found.status[0] != Status.CANNOT_TELL
        ends = found.estimate(0).interval() if interval is None else interval(found)
        rows.append((*ends, short_of(found, until), told, found.switches[0] == 0, found.well_known))
    return Look(*(np.array(column) for column in zip(*rows, strict=True)))


def look_at_first_without_batches(draws, until):
    """Wrong where the chain is not two-state: doxa's rule, and an interval that no long batch has widened."""

    def interval(found):
        unit = np.ones(found.probability.shape)
        return replace(found, dispersion=unit, df=np.inf * unit, skew=0 * unit).estimate(0).interval()

    return look_at_first(draws, until, interval)


def look_at_reals(draws, until):
    """doxa's, for a real quantity."""
    rows = []
    for run in draws:
        found = diagnose_real(run)
        rows.append((*found.estimate.interval(), any(True for _ in real_shortfalls("x", found, until))))
    lower, upper, short = np.array(rows, dtype=np.float64).T
    no = np.zeros(len(draws), dtype=bool)
    return Look(lower, upper, short.astype(bool)[:, None], ~np.isnan(lower), no, no[:, None])


def look_at_reals_as_symmetric(draws, until):
    """Wrong where visits are few: doxa's rule, and an interval no longer on one side than on the other."""
    seen, value = look_at_reals(draws, until), draws.mean(axis=(1, 2))
    half = np.minimum(value - seen.lower, seen.upper - value)
    return seen._replace(lower=value - half, upper=value + half)


def plainly(value, error, until, short=None):
    """value +/- 1.96 error, and no doubts."""
    no = np.zeros(len(value), dtype=bool)
    short = error[:, None] > until.mcse if short is None else short
    return Look(value - NORMAL * error, value + NORMAL * error, short, ~no, no, no[:, None])


def look_by_plain_ess(draws, until):
    """Wrong: the error of a general-purpose effective sample size, which is 0 where nothing switched."""
    error = [mean_error(run.astype(np.float64)) for run in draws]
    return plainly(draws.mean(axis=(1, 2)), np.array(error), until)


def look_by_rates_alone(draws, until):
    """Wrong where the chain is not two-state: independent Jeffreys priors on both switching rates, nothing else."""
    sample = two_state_posterior(np.random.default_rng(1), np.moveaxis(draws, 0, -1), 400)
    lower, upper = np.quantile(sample, (0.025, 0.975), axis=0)
    no = np.zeros(len(draws), dtype=bool)
    return Look(lower, upper, sample.std(axis=0)[:, None] > until.mcse, ~no, no, no[:, None])


def look_as_independent(draws, until):
    """Wrong: doxa's rule, but an error as if the draws were independent."""
    error = draws.std(axis=(1, 2)) / np.sqrt(draws[0].size)
    return plainly(draws.mean(axis=(1, 2)), error, until, look_at_reals(draws, until).short)


def look_by_plain_ess_of_reals(draws, until):
    """doxa's rule for real quantities with the plain error of their effective sample size."""
    return look_by_plain_ess(draws, until)._replace(short=look_at_reals(draws, until).short)


# --- runs


class Stopped(NamedTuple):
    """How simulated runs ended; one entry a run."""

    hit: NDArray[np.bool_]  # the interval holds the truth
    told: NDArray[np.bool_]  # the verdict was not 'cannot tell'
    never: NDArray[np.bool_]  # the quantity never switched
    reached: NDArray[np.bool_]  # stopped because it was accurate enough, not at the limit
    draws: NDArray[np.int64]  # kept draws of each chain


@dataclass(frozen=True)
class Case:
    """Runs to simulate.

    ``apart`` starts them over-dispersed, half of the chains in each state or mode; otherwise they start in the
    stationary distribution.  Both are warmed up until they have settled.
    """

    make: partial[Any]
    until: Until
    apart: bool = True
    careful: bool = (
        True  # two looks and a fewest number of draws; else the first look that finds nothing missing ends it
    )
    block: int = 200  # runs held in memory at once

    def look(self) -> Callable[..., Look]:
        looks = {
            Autoregression: look_at_reals,
            RealModes: look_at_reals,
            WithCompanion: look_at_first,
            Among: look_at_first,
            Modes: look_at_indicators,
        }
        return looks[self.make.func]

    def run(self, seed, runs, look=None) -> Stopped:
        rng = np.random.default_rng(seed)
        sizes = [min(self.block, runs - begin) for begin in range(0, runs, self.block)]
        parts = [self._run_block(rng, size, look or self.look()) for size in sizes]
        return Stopped(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _run_block(self, rng, runs, look) -> Stopped:
        chains = self.make(rng, runs, self.apart)
        n_warmup = warm_up(chains, runs)
        active = np.arange(runs)
        draws = None
        hit, told, never, reached = (np.zeros(runs, dtype=bool) for _ in range(4))
        length = np.zeros(runs, dtype=np.int64)
        short_before = np.ones((runs, 1), dtype=bool)
        for point in decision_points(self.until.max_draws):
            if draws is None:  # not joined to an array of none, which would say how they lie in memory
                draws = chains.draw(point, active)
            else:
                draws = np.concatenate([draws, chains.draw(point - draws.shape[2], active)], axis=2)
            seen = look(draws, self.until)
            truth = chains.truth[active]
            hit[active] = (seen.lower <= truth) & (truth <= seen.upper)
            told[active], never[active], length[active] = seen.told, seen.never, point
            doubtful = (short_before & ~seen.well_known).any(axis=1)
            ends = self.ends(seen.short.any(axis=1), doubtful, point, n_warmup[active])
            reached[active] = ends
            active, draws, short_before = active[~ends], draws[~ends], seen.short[~ends]
            if not active.size:
                break
        return Stopped(hit, told, never, reached, length)

    def ends(self, short, short_before, point, n_warmup):
        """Whether each run ends here, as `confirmed` says when it is told what this look and the one before found, what
        is well known by now left out.
        """
        if not self.careful:
            return ~short
        lacking = Shortfall("x", "error", 2.0, 1.0, 4.0)
        answers = {}
        for key in set(zip(short.tolist(), short_before.tolist(), n_warmup.tolist(), strict=True)):
            now, before, warmup = key

            def assess(n, now=now, before=before):
                return lacking if (now if n == point else before) else None

            answers[key] = confirmed(assess, point, self.until, warmup) is None
        keys = zip(short.tolist(), short_before.tolist(), n_warmup.tolist(), strict=True)
        return np.array([answers[key] for key in keys], dtype=bool)


def warm_up(chains, runs):
    """Epochs that double until the chains agree, as the driver's; returns how many draws each run discarded."""
    active, epoch = np.arange(runs), FIRST_LOOK
    n_warmup = np.zeros(runs, dtype=np.int64)
    while active.size:
        draws = chains.draw(epoch, active)
        if chains.real:
            r_hat = np.array([rank_r_hat(run) for run in draws])
        elif draws.ndim == 4:  # several quantities a run
            r_hat = np.stack([split_r_hat(count(draws[..., k])) for k in range(draws.shape[-1])])
        else:
            r_hat = split_r_hat(count(draws))
        settled = np.atleast_2d(is_settled(r_hat)).all(axis=0) | (epoch >= _MOST_DOUBLED * FIRST_LOOK)
        n_warmup[active] += epoch
        active, epoch = active[~settled], 2 * epoch
    return n_warmup


# --- what is simulated


def two_state(weight, rate, **until):
    return Case(partial(Modes, weight=weight, rate=rate), Until(**until))


def modes(weight, rate, inside, **until):
    return Case(partial(Modes, weight=weight, rate=rate, inside=inside), Until(**until))


def autoregression(correlation, **until):
    return Case(partial(Autoregression, correlation=correlation), Until(**until))


def real_modes(weight, rate, distance, **until):
    return Case(partial(RealModes, weight=weight, rate=rate, distance=distance), Until(**until))


def with_companion(prior, rate, **until):
    return Case(partial(WithCompanion, prior=prior, rate=rate), Until(**until))


def among(others, weight, rate, inside, **until):
    return Case(partial(Among, others=others, weight=weight, rate=rate, inside=inside), Until(**until), block=25)


REAL = {
    "AR(1) 0.5": autoregression(0.5),
    "AR(1) 0.95": autoregression(0.95, ess=100, r_hat=1.05),
}
REAL_MODES = {
    "modes 1:1, rate 0.02, 3 sd apart": real_modes(0.5, 0.02, 3.0),
    "modes 9:1, rate 0.02, 3 sd apart": real_modes(0.1, 0.02, 3.0),
    "modes 9:1, rate 0.02, 10 sd apart": real_modes(0.1, 0.02, 10.0),
    "modes 19:1, rate 0.02, 3 sd apart": real_modes(0.05, 0.02, 3.0),
}
MIXING = {
    "two-state, fast, p = 0.5": two_state(0.5, 0.5, mcse=0.01),
    "two-state, slow, p = 0.3": two_state(0.3, 0.02, mcse=0.04),
    "two-state, fast, p = 0.01": two_state(0.01, 0.3, mcse=0.003),
    "two-state, slow, p = 0.01": two_state(0.01, 0.05, mcse=0.003),
    "two-state, fast, p = 0.003": two_state(0.003, 0.3, mcse=0.0009),  # the first look may see one visit or two
    "modes 1:1, rate 0.02, flips .2/.8": modes(0.5, 0.02, (0.2, 0.8), mcse=0.02),
}
NOT_MIXING = {
    "modes 1:1, rate 0.004, flips .2/.8": modes(0.5, 0.004, (0.2, 0.8), mcse=0.03),
    "modes 7:3, rate 0.02, flips 0/.5": modes(0.3, 0.02, (0.0, 0.5), mcse=0.02),
    "modes 9:1, rate 0.02, flips .2/.8": modes(0.1, 0.02, (0.2, 0.8), mcse=0.02),
    "modes 9:1, rate 0.01, flips .2/.8": modes(0.1, 0.01, (0.2, 0.8), mcse=0.015),
    "two-state, p = 0.3, few switches": two_state(0.3, 0.002, max_draws=2000),
}
LONG = {
    "modes 9:1, rate 0.02, flips .2/.8, finer": modes(0.1, 0.02, (0.2, 0.8), mcse=0.01),
    "modes 1:1, rate 0.001, flips .2/.8": replace(modes(0.5, 0.001, (0.2, 0.8), mcse=0.03), block=100),
}
AMONG = {
    "modes 1:1, rate 0.004, flips .2/.8, among 40": among(40, 0.5, 0.004, (0.2, 0.8), mcse=0.03),
    "modes 9:1, rate 0.02, flips .2/.8, among 40": among(40, 0.1, 0.02, (0.2, 0.8), mcse=0.02),
    "modes 9:1, rate 0.01, flips .4/.8, among 100": among(100, 0.1, 0.01, (0.4, 0.8), mcse=0.015),
}
RARE = {  # p drawn from a prior; a companion of the same rate, p = 1/2, in the same run
    "p ~ Beta(1/2, 1/2), rate 0.05": with_companion((0.5, 0.5), 0.05, mcse=0.03),
    "p ~ Beta(1/10, 9/10), rate 0.05": with_companion((0.1, 0.9), 0.05, mcse=0.03),
    "p ~ Beta(1/2, 1/2), rate 0.003": with_companion((0.5, 0.5), 0.003, max_draws=2000),
}


def stationary(case):
    """The same, started in the stationary distribution."""
    return replace(case, apart=False)


def careless(case):
    """The same, ended by the first look that finds nothing missing."""
    return replace(case, careful=False)
