"""Importance sampling of a target with two modes: proposals, variances by quadrature (eq. 4.6), repeated runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.sampling.importance import ImportanceSample, Mixture, Proposal, importance_sample

__all__ = [
    "EXACT", "GRID", "PROPOSALS", "Normal", "Replications", "Run", "Tabulated", "h", "largest_weight", "log_target",
    "ratio_variance", "replicate", "sample_from", "variance", "variance_by_component",
]  # fmt: skip

Floats: TypeAlias = NDArray[np.float64]

GRID = np.linspace(-30.0, 30.0, 60_001)  # quadrature: integrands are analytic and gone at its ends, or diverge
SHARES, MODES, SPREAD = (0.3, 0.7), (-2.0, 3.0), 0.5
SLOPE = 0.5  # of log h
SHARE_DELETED = 0.01  # draws with more of the weight than this are what the chapter would delete


@dataclass(frozen=True)
class Normal:
    """A normal proposal."""

    mean: float
    sd: float

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        return rng.normal(self.mean, self.sd, n)

    def log_density(self, draws: Floats) -> Floats:
        return np.asarray(-(((draws - self.mean) / self.sd) ** 2) / 2 - np.log(self.sd * np.sqrt(2 * np.pi)))


class Tabulated:
    """A proposal whose density is constant within cells, so that both of its faces are exact."""

    def __init__(self, edges: ArrayLike, densities: ArrayLike) -> None:
        self.edges = np.asarray(edges, dtype=np.float64)
        mass = np.asarray(densities, dtype=np.float64) * np.diff(self.edges)
        self.mass = mass / mass.sum()
        with np.errstate(divide="ignore"):
            self.log_height = np.log(self.mass / np.diff(self.edges))

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        cell = rng.choice(len(self.mass), size=n, p=self.mass)
        return np.asarray(self.edges[cell] + rng.random(n) * np.diff(self.edges)[cell])

    def log_density(self, draws: Floats) -> Floats:
        cell = np.searchsorted(self.edges, draws, side="right") - 1
        inside = (cell >= 0) & (cell < len(self.mass))
        return np.where(inside, self.log_height[np.clip(cell, 0, len(self.mass) - 1)], -np.inf)


TARGET = Mixture([Normal(mode, SPREAD) for mode in MODES], SHARES)
log_target = TARGET.log_density  # normalised, which only eq. 4.6 and the mean weight make use of


def h(x: Floats) -> Floats:
    """The function whose mean is wanted: positive, so that some proposal has variance 0."""
    return np.asarray(np.exp(SLOPE * x))


_tilts = np.array([v * np.exp(SLOPE * m + (SLOPE * SPREAD) ** 2 / 2) for v, m in zip(SHARES, MODES, strict=True)])
EXACT = float(_tilts.sum())  # mean of h: each mode is a normal whose h has a log-normal mean

_edges = np.linspace(-6.0, 8.0, 28_001)
_middle = (_edges[1:] + _edges[:-1]) / 2
PROPOSALS: dict[str, Proposal] = {
    "Pr itself": TARGET,
    "narrow": Normal(3.0, 0.6),
    "one mode, wider": Normal(3.0, 1.7),
    "thin tails": Mixture([Normal(mode, 0.3) for mode in MODES], [0.5, 0.5]),
    "wide": Normal(0.0, 5.0),
    "both modes": Mixture([Normal(mode, 0.6) for mode in MODES], [0.5, 0.5]),
    "narrow + 10% wide": Mixture([Normal(3.0, 0.6), Normal(0.0, 5.0)], [0.9, 0.1]),
    "narrow + 50% wide": Mixture([Normal(3.0, 0.6), Normal(0.0, 5.0)], [0.5, 0.5]),
    "|h| Pr": Mixture([Normal(mode + SLOPE * SPREAD**2, SPREAD) for mode in MODES], _tilts / EXACT),
    "|h - mean| Pr": Tabulated(_edges, np.abs(h(_middle) - EXACT) * np.exp(log_target(_middle))),
}


def variance(proposal: Proposal) -> float:
    """Eq. 4.6, of one draw: E[h^2 Pr / Pr'] - E[h]^2, infinite where the integral diverges."""
    found = _integral(2 * np.log(h(GRID)), proposal) - EXACT**2
    return found if found > 1e-9 else 0.0  # a difference of two numbers that are known to about 1e-12


def ratio_variance(proposal: Proposal) -> float:
    """n times the variance of eq. 4.4 for large n: E[(h - E h)^2 Pr / Pr'], its denominator counted too."""
    return _integral(2 * np.log(np.abs(h(GRID) - EXACT)), proposal)


def variance_by_component(mixture: Mixture) -> float:
    """Eq. 4.6 where each draw of a mixture is weighted by its own component, not by the whole."""
    log_terms = [2 * np.log(h(GRID)) + 2 * log_target(GRID) - c.log_density(GRID) for c in mixture.components]
    return max(0.0, sum(v * _exp_integral(t) for v, t in zip(mixture.weights, log_terms, strict=True)) - EXACT**2)


def largest_weight(proposal: Proposal) -> float:
    """Supremum of Pr / Pr', infinite where the ratio still rises at an end of the grid."""
    log_ratio = _log_ratio(proposal)
    rises = max(log_ratio[0], log_ratio[-1]) > log_ratio[1:-1].max()
    return np.inf if rises else float(np.exp(log_ratio.max()))


def _log_ratio(proposal: Proposal) -> Floats:
    log_q = np.asarray(proposal.log_density(GRID))
    with np.errstate(invalid="ignore"):
        return np.where(log_q > -np.inf, log_target(GRID) - log_q, -np.inf)


def _integral(log_square: Floats, proposal: Proposal) -> float:
    return _exp_integral(log_square + log_target(GRID) + _log_ratio(proposal))


def _exp_integral(log_values: Floats) -> float:
    top = log_values.max()
    if max(log_values[0], log_values[-1]) > top - 30:
        return np.inf
    return float(np.exp(top) * np.exp(log_values - top).sum() * (GRID[1] - GRID[0]))


class Run(NamedTuple):
    """What is kept of one run."""

    estimate: float  # eq. 4.4
    plain: float  # the plain average of h w, whose variance eq. 4.6 is
    naive_error: float  # delta method, whatever the verdict
    low: float  # doxa's 95% interval; nan where no error is offered
    high: float
    reliable: float  # 1, 0, or nan: cannot tell
    ess: float
    pareto_k: float
    mean_weight: float
    jumps: float  # times that the running variance doubled after the first tenth
    deleted: float  # draws with more than a hundredth of the weight
    high_numerator: float  # of these
    estimate_without: float  # eq. 4.4 without them
    log_mean_weight_without: float


class Replications(NamedTuple):
    """Many runs with one proposal; each field of `Run` as an array."""

    runs: Run
    n: int

    def covered(self, naive: bool) -> Floats:
        """Whether each run's 95% interval holds the mean: +- 1.96 errors, or doxa's (nan where none is offered)."""
        r = self.runs
        if naive:
            return np.asarray(np.abs(r.estimate - EXACT) <= 1.96 * np.asarray(r.naive_error), dtype=np.float64)
        return np.where(np.isnan(r.low), np.nan, (r.low <= EXACT) & (r.high >= EXACT))

    @property
    def offered(self) -> float:
        """Share of the runs that are offered an error."""
        return float(np.isfinite(self.runs.low).mean())

    @property
    def rmse(self) -> float:
        return float(np.sqrt(((np.asarray(self.runs.estimate) - EXACT) ** 2).mean()))


def sample_from(name: str, n: int, seed: int) -> ImportanceSample:
    return importance_sample(log_target, PROPOSALS[name], n, np.random.default_rng(seed))


def replicate(name: str, n: int, runs: int) -> Replications:
    """Independent runs of ``n`` draws."""
    found = [_look_at(sample_from(name, n, seed)) for seed in range(runs)]
    return Replications(Run(*np.array(found).T), n)


def _look_at(sample: ImportanceSample) -> Run:
    answer = sample.expectation(h)
    low, high = answer.interval() if np.isfinite(answer.mcse) else (np.nan, np.nan)
    raw = np.exp(sample.log_weights)
    jumps = sample.variance_jumps()
    reliable = sample.verdict.reliable
    deleted, numerators, without, log_mean = 0, 0, answer.value, np.log(raw.mean())
    if (sample.weights > SHARE_DELETED).any():
        cut = sample.without_outliers(above=SHARE_DELETED)
        assert cut.removal is not None
        deleted, numerators = cut.n_removed, cut.removal.causes.count("numerator")
        without, log_mean = cut.expectation(h).value, cut.log_normalising_constant().value
    return Run(
        answer.value, float((raw * h(sample.draws)).mean()), _delta_error(sample, answer.value), low, high,
        np.nan if reliable is None else float(reliable), sample.ess, sample.pareto_k, float(raw.mean()),
        float((jumps >= sample.n // 10).sum()), deleted, numerators, without, float(log_mean),
    )  # fmt: skip


def _delta_error(sample: ImportanceSample, value: float) -> float:
    """What eq. 4.4 would be given by the usual formula, with no look at the weights."""
    terms = sample.weights * (h(sample.draws) - value)
    return float(np.sqrt(terms @ terms))
