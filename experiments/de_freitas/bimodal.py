"""Section 5.2: two parents, one hidden, 50 records; chains and approximations against the posterior on a grid.

The bias is 2, the generating coefficients are 2 (hidden) and -1 (observed), the parents are +1 with probabilities 0.6
and 0.5, the prior is N(3, 10 I).  Not in the paper: the variance of the random walk (that of section 5.1 and 1 are
tried), the share of each kernel (1/2), where chains begin (random walks at draws from the prior, others at draws from
their approximation).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import doxa
from de_freitas.published import SHARE, WALK_SD
from doxa.data import Table
from doxa.models import LogisticNetwork
from doxa.models.logistic_parts import independent_parts
from doxa.parameters.joint_target import JointTarget
from doxa.parameters.kernels import Independence, Kernel, RandomWalk, mixture, start_at
from doxa.parameters.variational.hidden import hidden_posteriors, sequential_hidden_posterior
from doxa.sampling.gaussian import Gaussian
from logistic_papers.script import progress

__all__ = ["APPROXIMATIONS", "AXIS", "FIT", "LONG_SD", "Drawn", "Grid", "Result", "Results", "Scores", "run_all"]

Floats: TypeAlias = NDArray[np.float64]

N_RECORDS, BIAS = 50, 2.0
GENERATING = [2.0, -1.0]  # hidden, observed
PRIOR_MEAN, PRIOR_VARIANCE = 3.0, 10.0
ITERATIONS = 5000
LONG_SD = 1.0  # of the other random walk
CHAINS = 20
SETS, LOOKED_AT = 10, 60
APPROXIMATIONS = ("printed", "corrected", "doxa")
FIT = "doxa.fit"
AXIS = np.arange(-12, 18 + 1e-9, 0.1)
_BIN = 10  # grid points
_SEED = 52

NETWORK = LogisticNetwork(
    {"y": ["h", "x"]},
    prior_mean=PRIOR_MEAN,
    prior_scale=np.sqrt(PRIOR_VARIANCE),
    bias=BIAS,
    roots={"h": 0.6, "x": 0.5},
)


class Scores(NamedTuple):
    """How far draws or a Gaussian are from the posterior."""

    distance: float  # total variation, on squares of side 1
    minor: float  # mass of theta_h < 0
    mean: float  # root mean square error, in posterior standard deviations
    covariance: float  # root mean square error of variances and covariance, in products of standard deviations
    kurtosis: float  # root mean square error of the excess kurtosis
    outside: float  # share outside the smallest region with 99% of the mass


@dataclass(frozen=True)
class Grid:
    """The posterior of (theta_h, theta_x) on a grid."""

    log_density: Floats  # (m, m), largest = 0

    @cached_property
    def mass(self) -> Floats:
        p = np.exp(self.log_density)
        return np.asarray(p / p.sum())

    @cached_property
    def modes(self) -> Floats:
        """Local maxima, shape (k, 2), the highest first."""
        inner, n = self.log_density[1:-1, 1:-1], len(AXIS)
        top = np.ones_like(inner, dtype=bool)
        for i in (0, 1, 2):
            for j in (0, 1, 2):
                if (i, j) != (1, 1):
                    top &= inner > self.log_density[i : n - 2 + i, j : n - 2 + j]
        found = np.argwhere(top) + 1
        order = np.argsort(-self.log_density[tuple(found.T)])
        return AXIS[found[order]]

    @cached_property
    def level(self) -> float:
        """Log density at the edge of the smallest region with 99% of the mass."""
        order = np.argsort(-self.mass, axis=None)
        inside = int(np.searchsorted(np.cumsum(self.mass.ravel()[order]), 0.99))
        return float(self.log_density.ravel()[order[inside]])

    @cached_property
    def coarse(self) -> Floats:
        """Mass of squares of side 1."""
        m = (len(AXIS) - 1) // _BIN
        return np.asarray(self.mass[: m * _BIN, : m * _BIN].reshape(m, _BIN, m, _BIN).sum(axis=(1, 3)))

    def score(self, mass: Floats) -> Scores:
        """Of another distribution on the same grid."""
        other = Grid(np.log(np.maximum(mass / mass.max(), 1e-300)))
        return self._compare(other.coarse, other.moments, other.minor, self._outside(other))

    def score_draws(self, draws: Floats) -> Scores:
        """Of draws (n, 2)."""
        edges = AXIS[::_BIN] - 0.05
        counts, _, _ = np.histogram2d(*np.clip(draws, edges[0] + 1e-9, edges[-1] - 1e-9).T, bins=[edges, edges])
        centred = draws - draws.mean(axis=0)
        variance = (centred**2).mean(axis=0)
        kurtosis = (centred**4).mean(axis=0) / np.maximum(variance**2, 1e-300) - 3
        found = draws.mean(axis=0), centred.T @ centred / len(draws), kurtosis
        place = np.clip(np.rint((draws - AXIS[0]) / 0.1).astype(int), 0, len(AXIS) - 1)
        outside = float((self.log_density[tuple(place.T)] < self.level).mean())
        return self._compare(counts / len(draws), found, float((draws[:, 0] < 0).mean()), outside)

    @cached_property
    def moments(self) -> tuple[Floats, Floats, Floats]:
        """Mean (2,), covariance (2, 2), excess kurtosis (2,)."""
        along = [self.mass.sum(axis=1), self.mass.sum(axis=0)]
        mean = np.array([p @ AXIS for p in along])
        away = [AXIS - m for m in mean]
        variance = np.array([p @ a**2 for p, a in zip(along, away, strict=True)])
        kurtosis = np.array([p @ a**4 for p, a in zip(along, away, strict=True)]) / variance**2 - 3
        both = float(away[0] @ self.mass @ away[1])
        return mean, np.array([[variance[0], both], [both, variance[1]]]), kurtosis

    @property
    def minor(self) -> float:
        """Mass of theta_h < 0."""
        return float(self.mass[AXIS < 0].sum())

    def _outside(self, other: Grid) -> float:
        return float(other.mass[self.log_density < self.level].sum())

    def _compare(self, coarse: Floats, moments: tuple[Floats, Floats, Floats], minor: float, outside: float) -> Scores:
        mean, covariance, kurtosis = self.moments
        sd = np.sqrt(np.diag(covariance))
        gap = ((moments[1] - covariance) / np.outer(sd, sd))[np.triu_indices(2)]
        return Scores(
            0.5 * float(np.abs(coarse - self.coarse).sum()),
            minor,
            _rms((moments[0] - mean) / sd),
            _rms(gap),
            _rms(moments[2] - kurtosis),
            outside,
        )


class Drawn(NamedTuple):
    """Chains of one algorithm on one data set."""

    draws: Floats  # (chain, draw, 2); of the first set only, else empty
    scores: list[Scores]  # of each chain
    acceptance: float
    both: float  # share of the chains that saw both signs of theta_h


@dataclass(frozen=True)
class Result:
    """One data set."""

    grid: Grid
    gaussians: dict[str, Gaussian]
    gaussian_scores: dict[str, Scores]
    chains: dict[str, Drawn]
    noise: float  # total variation of as many independent draws
    arrival: Floats  # iterations of each random walk of section 5.1 before it is inside the 99% region
    method: str  # of doxa.fit
    seconds: float  # CPU, of doxa.fit with all its draws


@dataclass(frozen=True)
class Results:
    """All data sets with two modes, and how many were looked at for them."""

    sets: list[Result]
    modes: list[int]  # of all that were looked at
    minor: list[float]

    def of(self, name: str, which: str) -> Floats:
        """One score of the chains, shape (sets, chains)."""
        return np.array([[float(getattr(s, which)) for s in found.chains[name].scores] for found in self.sets])

    def average(self, name: str, which: str) -> float:
        """Mean score of chains or of an approximation."""
        return float((self.of_gaussian if name in APPROXIMATIONS else self.of)(name, which).mean())

    def of_gaussian(self, name: str, which: str) -> Floats:
        """One score of an approximation, shape (sets,)."""
        return np.array([float(getattr(found.gaussian_scores[name], which)) for found in self.sets])


def run_all(quick: bool) -> Results:
    n_sets, looked_at, n_chains, length = (1, 5, 4, 300) if quick else (SETS, LOOKED_AT, CHAINS, ITERATIONS)
    found: list[Result] = []
    modes, minor = [], []
    for seed in range(looked_at):
        table = draw_table(seed)
        target = make_target(table)
        grid = posterior_on_grid(target)
        modes.append(len(grid.modes))
        minor.append(grid.minor)
        if len(grid.modes) > 1 and len(found) < n_sets:
            progress(f"bimodal set {len(found)}")
            found.append(run_set(seed, table, target, grid, n_chains, length, keep=not found))
    return Results(found, modes, minor)


def draw_table(seed: int) -> Table:
    rng = np.random.default_rng([_SEED, seed])
    return NETWORK.simulate(N_RECORDS, {"y": GENERATING}, rng).select(["x", "y"])


def make_target(table: Table) -> JointTarget:
    (part,) = independent_parts(NETWORK, table)
    return JointTarget(NETWORK, part, table)


def posterior_on_grid(target: JointTarget) -> Grid:
    points = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), axis=-1).reshape(-1, 2)
    log_density = target.log_density(points).reshape(len(AXIS), len(AXIS))
    return Grid(log_density - log_density.max())


def run_set(seed: int, table: Table, target: JointTarget, grid: Grid, n: int, length: int, keep: bool) -> Result:
    rng = np.random.default_rng([_SEED, seed, 1])
    gaussians = approximate(table)
    points = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), axis=-1).reshape(-1, 2)
    scores = {name: grid.score(np.exp(q.log_density(points)).reshape(len(AXIS), -1)) for name, q in gaussians.items()}
    chains = {}
    arrival = np.empty(0)
    for name, kernel, gaussian in algorithms(gaussians):
        if gaussian is None:
            begun = PRIOR_MEAN + np.sqrt(PRIOR_VARIANCE) * rng.standard_normal((n, 2))
        else:
            begun = gaussian.sample(n, rng)
        _, path = kernel.run(target, start_at(target, begun), length, rng)
        if not arrival.size:  # the random walk of section 5.1 comes first
            peak = float(target.log_density(grid.modes[:1])[0])
            inside = path.log_density - peak >= grid.level
            arrival = np.where(inside.any(axis=0), inside.argmax(axis=0), length).astype(np.float64)
        chains[name] = drawn(path.thetas.swapaxes(0, 1), float(path.acceptance.mean()), grid, keep)
    begin = time.process_time()
    fit = doxa.fit(NETWORK, table, draws=length // 4, warmup=length // 20, seed=seed, chains=4)
    seconds = time.process_time() - begin
    draws = fit.draws("y")
    four = draws[:: len(draws) // 4].reshape(1, -1, 2)  # as many draws as the others have
    chains[FIT] = drawn(four, float(np.mean(fit.acceptance["y"])), grid, keep)
    sample = rng.choice(grid.coarse.size, size=(50, length), p=grid.coarse.ravel() / grid.coarse.sum())
    shares = np.array([np.bincount(row, minlength=grid.coarse.size) / length for row in sample])
    noise = 0.5 * float(np.abs(shares - grid.coarse.ravel()).sum(axis=1).mean())
    return Result(grid, gaussians, scores, chains, noise, arrival, fit.method["y"], seconds)


def approximate(table: Table) -> dict[str, Gaussian]:
    """As printed; with the equations corrected; with a xi for each value of the hidden cell, and the best optimum.

    As printed is one pass as in figure 3, with lambda from eq. 8: logit(lambda) = x mu_h, x being the child.  That
    drops the quadratic term, whose derivative in lambda is not zero, and the prior probability of the hidden parent,
    which the paper leaves out of its model; so nothing knows that the parent is +1 with probability 0.6.
    """
    printed = sequential_hidden_posterior(NETWORK, table, form="mean_field", xi="row", order="table", published=True)
    corrected = hidden_posteriors(NETWORK, table, starts=6, seed=0, form="mean_field", xi="row")[0]
    best = hidden_posteriors(NETWORK, table, starts=6, seed=0)[0]
    return {
        "printed": printed.gaussians["y"],
        "corrected": corrected.gaussians["y"],
        "doxa": best.gaussians["y"],
    }


def algorithms(gaussians: dict[str, Gaussian]) -> Iterator[tuple[str, Kernel, Gaussian | None]]:
    """Names, kernels, and what they begin at: None for the prior."""
    for sd in (WALK_SD, LONG_SD):
        yield f"RW {sd:g}", RandomWalk(sd), None
    for name, q in gaussians.items():
        yield f"VarMCMC, {name}", Independence(q), q
        for sd in (WALK_SD, LONG_SD):
            kernel = mixture(Independence(q), RandomWalk(sd), weights=[SHARE, 1 - SHARE])
            yield f"VarMixMCMC {sd:g}, {name}", kernel, q


def drawn(draws: Floats, acceptance: float, grid: Grid, keep: bool) -> Drawn:
    below = draws[:, :, 0] < 0
    both = float((below.any(axis=1) & ~below.all(axis=1)).mean())
    return Drawn(draws if keep else draws[:0], [grid.score_draws(chain) for chain in draws], acceptance, both)


def _rms(values: Floats) -> float:
    return float(np.sqrt((values**2).mean()))
