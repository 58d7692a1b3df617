"""Section 5.1: the chains on fully observed networks, and how far each estimate is from the exact posterior.

Each data set has three chains of each published algorithm, which differ in where they begin: at a draw from the
variational Gaussian, at 0 (the prior mean), at a draw from the prior.  The paper does not say where its chains began.
The first 500 iterations of a chain of 5000 are the chain of 500.  Beside the published one-pass Gaussian stand the one
with all xi fitted together (`batch_posterior`) and the optimal one, each with chains begun at a draw from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from de_freitas.published import BLOCK, WALK_SD, mixed, printed_pass, sequential_posterior, variational, walk
from de_freitas.records import DIMENSIONS, PRIOR_SD, Records, draw_records, log_likelihood
from doxa.estimates.diagnostics import diagnose_real
from doxa.parameters.kernels import BlockIndependence, Independence, Kernel, RandomWalk, start_at
from doxa.parameters.targets import RegressionTarget
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.laplace import maximum_likelihood
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.sampling.gaussian import Gaussian, GaussianPosterior
from logistic_papers.script import progress

__all__ = ["HALF", "LENGTHS", "OURS", "SECOND_HALF", "STARTS", "Moments", "Results", "Score", "Set", "run_all"]

Floats: TypeAlias = NDArray[np.float64]

LENGTHS = (500, 5000)
REPEATS = 10
STARTS = ("approximation", "zero", "prior")
SECOND_HALF = "second half"  # in place of a start: of the chain begun at the approximation
OURS = "independence, optimal"
HALF = 5  # sets on which chains on the batch Gaussian are run as well
SINGLE = 2  # and blocks of one coordinate
_REFERENCE = 40_000  # draws
_WALKERS = 8


class Moments(NamedTuple):
    """Mean (d,), covariance (d, d) and excess kurtosis (d,)."""

    mean: Floats
    covariance: Floats
    kurtosis: Floats


class Score(NamedTuple):
    """How good an estimate of the moments is."""

    log_likelihood: float  # at the mean, nats: the paper's measure
    mean: float  # root mean square error of the mean, in posterior standard deviations
    variance: float  # root mean square relative error of the variances
    covariance: float  # root mean square error of the covariances, in products of standard deviations; nan for d = 1
    kurtosis: float  # root mean square error of the excess kurtosis
    sd_ratio: float  # mean of estimated over exact standard deviation


@dataclass(frozen=True)
class Set:
    """What came of one data set."""

    scores: dict[tuple[str, str, int], Score]  # algorithm, start ("" where there is none), iterations (0: none)
    acceptance: dict[str, float]
    ess: dict[str, float]  # effective draws an iteration of the chain begun at the approximation: the least of ten
    seconds: dict[str, float]  # CPU, of a full run (three chains) or a fit
    iterations: dict[str, int]  # of the fits
    best: float  # largest log likelihood


@dataclass(frozen=True)
class Results:
    """All sets."""

    sets: dict[int, list[Set]]  # by number of parents
    length: int  # of the full chains

    def of(self, d: int, name: str, which: str, start: str = "", length: int = 0) -> Floats:
        """One score of an algorithm on the sets on which it was run, the first ones."""
        key = name, start, min(length, self.length)
        return np.array([float(getattr(s.scores[key], which)) for s in self.sets[d] if key in s.scores])

    def below_best(self, d: int, name: str, start: str = "", length: int = 0) -> Floats:
        """Nats by which the log likelihood at the mean is below the largest."""
        found = self.of(d, name, "log_likelihood", start, length)
        return np.array([s.best for s in self.sets[d]])[: found.size] - found

    def average(self, d: int, table: str, name: str) -> float:
        """Mean over sets of "acceptance", "ess", "seconds" or "iterations"."""
        return float(np.mean([getattr(s, table)[name] for s in self.sets[d] if name in getattr(s, table)]))


def run_all(quick: bool) -> Results:
    dimensions, repeats, length = ((1, 5), 2, 100) if quick else (DIMENSIONS, REPEATS, LENGTHS[-1])
    sets: dict[int, list[Set]] = {}
    for d in dimensions:
        sets[d] = []
        for seed in range(repeats):
            progress(f"{d} parents, set {seed}")
            sets[d].append(run_set(draw_records(d, seed), seed, length, 800 if quick else _REFERENCE))
    return Results(sets, length)


def run_set(records: Records, seed: int, length: int, n_reference: int) -> Set:
    rng = np.random.default_rng([records.d, seed, 51])
    target = RegressionTarget(records.collapsed)
    fits, seconds = fit_all(records)
    exact = reference(target, fits["optimal"], n_reference, rng)
    judge = Judge(records, exact)
    scores = {(name, "", 0): judge.score(gaussian_moments(fit)) for name, fit in fits.items()}
    scores["exact", "", 0] = judge.score(exact)
    acceptance, ess = {}, {}
    lengths = {min(n, length) for n in LENGTHS}
    for name, kernel, gaussian, n, starts in chains(fits, records.d, seed, length):
        begun = start_at(target, start_points(gaussian, records.d, rng)[: len(starts)])
        begin = time.process_time()
        _, path = kernel.run(target, begun, n, rng)
        seconds[name] = time.process_time() - begin
        acceptance[name] = float(path.acceptance[:, 0].mean())
        ess[name] = effective(path.thetas[:, 0])
        for k, start in enumerate(starts):
            for m in lengths:
                if m <= n:
                    scores[name, start, m] = judge.score(moments(path.thetas[:m, k]))
        scores[name, SECOND_HALF, n] = judge.score(moments(path.thetas[n // 2 :, 0]))
    iterations = {name: fit.n_iterations for name, fit in fits.items()}
    return Set(scores, acceptance, ess, seconds, iterations, maximum_likelihood(records.collapsed).log_likelihood)


class Chain(NamedTuple):
    """An algorithm to run."""

    name: str
    kernel: Kernel
    gaussian: Gaussian  # where it may begin
    n_steps: int
    starts: tuple[str, ...]


def chains(fits: dict[str, GaussianPosterior], d: int, seed: int, length: int) -> Iterator[Chain]:
    published, batch, optimal = (fits[name] for name in ("variational", "batch", "optimal"))
    yield Chain("VarMCMC", variational(published), published, length, STARTS)
    yield Chain("VarMixMCMC", mixed(published), published, length, STARTS)
    yield Chain("RW", walk(d), published, length, STARTS)
    yield Chain("RW, whole vector", RandomWalk(WALK_SD), published, length, STARTS)
    near = STARTS[:1]
    if seed < HALF:
        yield Chain("VarMCMC, batch", variational(batch), batch, length, near)
        yield Chain("VarMixMCMC, batch", mixed(batch), batch, length, near)
    yield Chain("independence, variational", Independence(published), published, length, near)
    yield Chain("independence, batch", Independence(batch), batch, length, near)
    yield Chain(OURS, Independence(optimal), optimal, length, near)
    short = min(LENGTHS[0], length)
    yield Chain("conditional blocks, batch", BlockIndependence(batch, BLOCK), batch, short, near)
    yield Chain("conditional blocks, optimal", BlockIndependence(optimal, BLOCK), optimal, short, near)
    if seed < SINGLE:
        yield Chain("VarMCMC, blocks of 1", variational(published, 1), published, short, near)
        yield Chain("VarMixMCMC, blocks of 1", mixed(published, size=1), published, short, near)


def fit_all(records: Records) -> tuple[dict[str, GaussianPosterior], dict[str, float]]:
    """The variational Gaussian as published, to the letter, in batch, and the optimal one."""
    ways: dict[str, Callable[[], GaussianPosterior]] = {
        "variational": lambda: sequential_posterior(records.ordered),
        "variational, to the letter": lambda: printed_pass(records.ordered),
        "batch": lambda: batch_posterior(records.collapsed),
        "optimal": lambda: optimal_posterior(records.collapsed),
    }
    fits, seconds = {}, {}
    for name, way in ways.items():
        begin = time.process_time()
        fits[name] = way()
        seconds[name] = time.process_time() - begin
    return fits, seconds


def start_points(gaussian: Gaussian, d: int, rng: np.random.Generator) -> Floats:
    """In the order of STARTS, shape (3, d)."""
    return np.stack([gaussian.sample(1, rng)[0], np.zeros(d), PRIOR_SD * rng.standard_normal(d)])


def reference(target: RegressionTarget, optimal: Gaussian, n: int, rng: np.random.Generator) -> Moments:
    """Moments of the posterior by a long independence chain on the optimal Gaussian."""
    begun = start_at(target, optimal.sample(_WALKERS, rng))
    _, path = Independence(optimal).run(target, begun, n // _WALKERS, rng)
    return moments(path.thetas.reshape(-1, target.n_dimensions))


def moments(draws: Floats) -> Moments:
    """Of draws (n, d)."""
    mean = draws.mean(axis=0)
    centred = draws - mean
    variance = (centred**2).mean(axis=0)
    kurtosis = np.full(variance.size, 3.0)  # of a chain that never moved: no excess
    np.divide((centred**4).mean(axis=0), variance**2, out=kurtosis, where=variance > 1e-20)
    return Moments(mean, centred.T @ centred / len(draws), kurtosis - 3)


def gaussian_moments(gaussian: Gaussian) -> Moments:
    return Moments(gaussian.mean, gaussian.covariance, np.zeros(gaussian.mean.size))


def effective(draws: Floats) -> float:
    """Least effective draws of at most ten coordinates, per iteration; a chain that never moved has none."""
    if (draws == draws[0]).all(axis=0).any():
        return 0.0
    columns = draws.T[:: max(1, draws.shape[1] // 10)]
    return min(float(diagnose_real(column[None]).bulk_ess) for column in columns) / len(draws)


@dataclass(frozen=True)
class Judge:
    """Scores of estimates, given the exact moments."""

    records: Records
    exact: Moments

    def score(self, found: Moments) -> Score:
        sd = np.sqrt(np.diag(self.exact.covariance))
        gap = (found.covariance - self.exact.covariance) / np.outer(sd, sd)
        apart = ~np.eye(sd.size, dtype=bool)
        return Score(
            float(log_likelihood(self.records.collapsed, found.mean[None])[0]),
            _rms((found.mean - self.exact.mean) / sd),
            _rms(np.diag(gap)),
            _rms(gap[apart]) if sd.size > 1 else np.nan,
            _rms(found.kurtosis - self.exact.kurtosis),
            float((np.sqrt(np.diag(found.covariance)) / sd).mean()),
        )


def _rms(values: Floats) -> float:
    return float(np.sqrt((values**2).mean()))
