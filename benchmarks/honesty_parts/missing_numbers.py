r"""Graphs from tables with missing numbers, whose integrals are done without a chain.

Of **numbers alone**, each graph's evidence is an average over coefficients :math:`\theta` of p(what was observed |
:math:`\theta`), in which a row's missing cells are left out of its normal distribution.  The coefficients are drawn
from the posterior of a complete table with moments that the EM algorithm finds, and weighted by the likelihood over
that table's: importance sampling, with an error that is counted through to the edges.

With **categories beside numbers** a few cells are missing: the sum over states and over a grid of numbers, of the
evidence of each completion.

Families are regressions with the priors of `doxa.structure.BGe`, in units of the observed standard deviation, written
out here anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import t as student

import doxa
from doxa.arrays import Floats
from doxa.models.bits import unpack_rows
from doxa.models.dag import Dag
from doxa.structure.exact.enumeration import all_dags
from honesty_parts.learning import edges_of, prior_options
from honesty_parts.numbers import linear_rows, mixed_rows, number_table
from honesty_parts.problems import Answer, Codes, Exact, NoOracleError, Question, kind, pick, run_seed

__all__ = ["Regression", "by_weights", "in_units", "observed_moments", "on_a_grid"]

_MEAN_WEIGHT, _FREEDOM, _SCALE = 1.0, 2.0, 0.5  # of the prior, as `doxa.structure.families.gaussian.kinds` gives it
_LOG_2PI = math.log(2 * math.pi)
_DRAWS, _MOST_DRAWS = 500, 128_000  # of the coefficients of a graph
_IMPORTANT = 1e-5  # share of the evidence that a class of graphs must have for more draws
_PRECISE = 1e-3  # standard error of an edge's probability
_POINTS = 61  # of the grid of a missing number; half as many must give the same edges


class Regression(NamedTuple):
    """The normal-inverse-gamma posterior of a regression with an intercept, from sums over its cases; (..., p + 1)."""

    shape: float
    scale: Floats  # (...)
    centre: Floats  # (..., p + 1)
    precision: Floats  # (..., p + 1, p + 1): of the coefficients, in units of the residual variance
    log_evidence: Floats  # (...)

    @classmethod
    def of(cls, n: Floats, design: Floats, both: Floats, square: Floats) -> Regression:
        """From the number of cases (...), and sums of products: of the design, with the child, of the child."""
        k = design.shape[-1]
        before = np.append(_MEAN_WEIGHT, np.full(k - 1, _SCALE))
        precision = design + np.diag(before)
        centre = np.linalg.solve(precision, both[..., None])[..., 0]
        a, b = (_FREEDOM + k) / 2, _SCALE / 2
        shape = a + n / 2
        scale = b + (square - (centre * both).sum(axis=-1)) / 2
        log_evidence = (
            (np.log(before).sum() - np.linalg.slogdet(precision)[1]) / 2
            + (a * math.log(b) - shape * np.log(scale))
            + (gammaln(shape) - gammaln(a) - n / 2 * _LOG_2PI)
        )
        return cls(shape, scale, centre, precision, log_evidence)

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """Coefficients (n, p + 1) and residual variances (n,)."""
        variance = self.scale / rng.gamma(self.shape, size=n)
        normal = np.linalg.solve(np.linalg.cholesky(self.precision).T, rng.standard_normal((len(self.centre), n)))
        return self.centre + np.sqrt(variance)[:, None] * normal.T, variance


def with_missing_numbers(title: str, rows: Floats, options: dict[str, Any], seed: int) -> Question:
    """`doxa.learn` of a table of numbers alone, against `by_weights`."""

    def ask() -> Answer:
        return edges_of(doxa.learn(number_table(rows), seed=seed, workers=1, **options))

    def exact() -> Exact:
        return _named(by_weights(in_units(rows), options.get("prior", "sparse"), np.random.default_rng(seed)))

    words = f"{rows.shape[1]} columns, {len(rows)} rows, {np.isnan(rows).sum()} cells missing, {options}"
    return Question(f"{title}: {words}", ask, exact)


def with_categories(
    title: str, codes: Codes, n_states: Codes, rows: Floats, options: dict[str, Any], seed: int
) -> Question:
    """`doxa.learn` of categories and numbers, against `on_a_grid`."""

    def ask() -> Answer:
        return edges_of(doxa.learn(number_table(rows, codes, n_states), exact=False, seed=seed, workers=1, **options))

    def exact() -> Exact:
        prior, numbers = options.get("prior", "sparse"), in_units(rows)
        fine, coarse = (on_a_grid(codes, n_states, numbers, prior, points) for points in (_POINTS, _POINTS // 2))
        if np.abs(fine - coarse).max() > _PRECISE:
            raise NoOracleError(
                f"the grid of {_POINTS} points is too coarse: edges differ by {abs(fine - coarse).max():.2g}"
            )
        return _named(fine)

    holes = f"{(codes < 0).sum()} states and {np.isnan(rows).sum()} numbers missing"
    words = f"{codes.shape[1]} categories and {rows.shape[1]} numbers, {len(rows)} rows, {holes}, {options}"
    return Question(f"{title}: {words}", ask, exact)


def in_units(rows: Floats) -> Floats:
    """Numbers centred and in units of their standard deviations, as families take them."""
    return (rows - np.nanmean(rows, axis=0)) / np.nanstd(rows, axis=0, ddof=1)


def _named(edges: Floats) -> Exact:
    n = len(edges)
    return {f"x{i} -> x{j}": float(edges[i, j]) for i in range(n) for j in range(n) if i != j}


def log_prior(graph: Floats, prior: str) -> float:
    """Of a graph, but for a constant: uniform, or about one edge in all."""
    if prior == "uniform":
        return 0.0
    n = len(graph)
    return -sum(math.log(math.comb(n - 1, k)) + k * math.log(n) for k in graph.sum(axis=0).tolist())


# --- numbers alone ---------------------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """Of the rows in which the same cells are observed."""

    seen: Codes
    n: int
    mean: Floats
    around: Floats  # sums of products around the mean


class Weighted(NamedTuple):
    """A class of equivalent graphs: the draws' log weights, to which others can be added."""

    graphs: list[Floats]
    log_prior: Floats  # (n_graphs,)
    log_base: float  # evidence of the complete table
    families: list[tuple[list[int], Regression]]
    logs: list[Floats]

    @property
    def log_evidence(self) -> float:
        logs = np.concatenate(self.logs)
        return self.log_base + float(logsumexp(logs)) - math.log(len(logs))

    @property
    def variance(self) -> float:
        """Of the evidence, relative."""
        weights = np.concatenate(self.logs)
        weights = np.exp(weights - weights.max())
        return float(weights.var() / weights.mean() ** 2 / len(weights))


def by_weights(values: Floats, prior: str, rng: np.random.Generator) -> Floats:
    """Probabilities of the edges, (n, n), of at most four columns of scaled numbers; NaN is missing."""
    n = values.shape[1]
    sums, (mean, covariance) = list(_patterns(values)), observed_moments(values)
    together = ~np.isnan(values)
    n_cases = 0.8 * float((together.T.astype(float) @ together).min())  # somewhat wider than what was observed says
    classes: dict[Any, Weighted] = {}
    for graph in unpack_rows(all_dags(n), n):
        cpdag = Dag(graph, [f"x{j}" for j in range(n)]).cpdag()
        key = (cpdag.directed, cpdag.undirected)
        if key not in classes:
            families = [_frozen(graph, j, n_cases, mean, covariance) for j in range(n)]
            base = sum(float(family.log_evidence) for _, family in families)
            classes[key] = Weighted([], np.zeros(0), base, families, [])
        one = classes[key]
        classes[key] = one._replace(
            graphs=[*one.graphs, graph], log_prior=np.append(one.log_prior, log_prior(graph, prior))
        )
    found = list(classes.values())
    active, n_draws = found, _DRAWS
    while True:
        for one in active:
            one.logs.append(_log_weights(one.families, n_draws, n_cases, mean, covariance, sums, rng))
        logs = np.array([one.log_evidence + logsumexp(one.log_prior) for one in found])
        share = np.exp(logs - logsumexp(logs))
        edges = np.array(
            [np.average(one.graphs, axis=0, weights=np.exp(one.log_prior - one.log_prior.max())) for one in found]
        )
        mean_edges = np.einsum("c,cij->ij", share, edges)
        variances = np.array([one.variance for one in found])
        error = np.sqrt(np.einsum("c,cij->ij", share**2 * variances, (edges - mean_edges) ** 2)).max()
        if error < _PRECISE and n_draws > _DRAWS:
            return np.asarray(mean_edges)
        if n_draws >= _MOST_DRAWS:
            raise NoOracleError(f"weights leave an error of {error:.2g} in an edge")
        active, n_draws = [one for one, p in zip(found, share, strict=True) if p > _IMPORTANT], 4 * n_draws


def _patterns(values: Floats) -> Iterator[Sums]:
    seen = ~np.isnan(values)
    for pattern in np.unique(seen, axis=0):
        at = np.flatnonzero(pattern)
        if at.size:
            rows = values[(seen == pattern).all(axis=1)][:, at]
            around = rows - rows.mean(axis=0)
            yield Sums(at, len(rows), rows.mean(axis=0), around.T @ around)


def observed_moments(values: Floats, rounds: int = 300) -> tuple[Floats, Floats]:
    """Mean and covariance of a normal distribution, by the EM algorithm (Dempster, Laird & Rubin 1977)."""
    n_rows, n = values.shape
    mean, covariance = np.zeros(n), np.eye(n)
    for _ in range(rounds):
        filled, rest = values.copy(), np.zeros((n, n))
        for i in range(n_rows):
            out = np.isnan(values[i])
            if out.any():
                slopes = np.linalg.solve(covariance[np.ix_(~out, ~out)], covariance[np.ix_(~out, out)])
                filled[i, out] = mean[out] + (values[i, ~out] - mean[~out]) @ slopes
                rest[np.ix_(out, out)] += covariance[np.ix_(out, out)] - covariance[np.ix_(out, ~out)] @ slopes
        mean = filled.mean(axis=0)
        around = filled - mean
        covariance = (around.T @ around + rest + _SCALE * np.eye(n)) / n_rows  # the prior keeps it from being singular
    return mean, covariance


def _frozen(
    graph: Floats, child: int, n_cases: float, mean: Floats, covariance: Floats
) -> tuple[list[int], Regression]:
    """A family of the complete table."""
    parents = np.flatnonzero(graph[:, child]).tolist()
    moments = _about_zero(mean, covariance) * n_cases
    at = [0, *[1 + j for j in parents]]
    design, both = moments[np.ix_(at, at)], moments[at, 1 + child]
    return parents, Regression.of(np.asarray(n_cases), design, both, moments[1 + child, 1 + child])


def _about_zero(mean: Floats, covariance: Floats) -> Floats:
    """Means of products of a one and the columns."""
    one = np.append(1.0, mean)
    moments = np.outer(one, one)
    moments[1:, 1:] += covariance
    return moments


def _log_weights(
    families: Sequence[tuple[list[int], Regression]],
    n_draws: int,
    n_cases: float,
    mean: Floats,
    covariance: Floats,
    sums: Sequence[Sums],
    rng: np.random.Generator,
) -> Floats:
    """Log likelihoods of what was observed over those of the complete table, (n_draws,)."""
    n, moments = len(families), _about_zero(mean, covariance)
    inverse, centre, variance = np.tile(np.eye(n), (n_draws, 1, 1)), np.zeros((n_draws, n)), np.zeros((n_draws, n))
    of_complete = np.zeros(n_draws)
    for child, (parents, family) in enumerate(families):
        coefficients, variance[:, child] = family.draw(rng, n_draws)
        inverse[:, child, parents], centre[:, child] = -coefficients[:, 1:], coefficients[:, 0]
        residual = np.zeros((n_draws, n + 1))
        residual[:, 1 + child] = 1.0
        residual[:, [0, *[1 + j for j in parents]]] -= coefficients
        square = np.einsum("di,ij,dj->d", residual, moments, residual)
        of_complete -= n_cases / 2 * (_LOG_2PI + np.log(variance[:, child]) + square / variance[:, child])
    through = np.linalg.inv(inverse)
    covariances = np.einsum("dik,dk,djk->dij", through, variance, through)
    means = np.einsum("dij,dj->di", through, centre)
    of_observed = np.zeros(n_draws)
    for one in sums:
        own = covariances[:, one.seen[:, None], one.seen]
        off = one.mean - means[:, one.seen]
        square = np.linalg.solve(own, one.around + one.n * off[:, :, None] * off[:, None, :])
        of_observed -= one.n / 2 * (len(one.seen) * _LOG_2PI + np.linalg.slogdet(own)[1])
        of_observed -= np.trace(square, axis1=1, axis2=2) / 2
    return np.asarray(of_observed - of_complete)


# --- categories beside numbers ---------------------------------------------------------------------------------------


def on_a_grid(codes: Codes, n_states: Codes, numbers: Floats, prior: str, n_points: int) -> Floats:
    """Probabilities of the edges, (n, n), by a sum over states and a grid of scaled numbers in the missing cells."""
    points = student(4).ppf((np.arange(n_points) + 0.5) / n_points) * 1.5
    spacing = -student(4).logpdf(points / 1.5)
    holes, cells = np.argwhere(codes < 0), np.argwhere(np.isnan(numbers))
    grids = [np.arange(n_states[j]) for _, j in holes] + [np.arange(n_points)] * len(cells)
    chosen = np.array(list(product(*grids)), dtype=np.int64)
    filled, values = np.tile(codes, (len(chosen), 1, 1)), np.tile(numbers, (len(chosen), 1, 1))
    logs = np.zeros(len(chosen))
    for at, (i, j) in enumerate(holes):
        filled[:, i, j] = chosen[:, at]
    for at, (i, j) in enumerate(cells, len(holes)):
        values[:, i, j] = points[chosen[:, at]]
        logs += spacing[chosen[:, at]]
    k, n = len(n_states), len(n_states) + numbers.shape[1]
    scores: dict[tuple[int, tuple[int, ...]], Floats] = {}
    totals, graphs = [], []
    for graph in unpack_rows(all_dags(n), n):
        if graph[k:, :k].any():
            continue  # no edge leads from a number to a category
        total = logs + (log_prior(graph, prior) if _has_few(graph, n_states, len(codes), prior) else -np.inf)
        for child in range(n):
            family = child, tuple(np.flatnonzero(graph[:, child]).tolist())
            if family not in scores:
                scores[family] = _mixed_family(filled, n_states, values, *family)
            total = total + scores[family]
        totals.append(logsumexp(total))
        graphs.append(graph)
    return np.asarray(np.einsum("g,gij->ij", np.exp(np.array(totals) - logsumexp(totals)), graphs))


def _has_few(graph: Floats, n_states: Codes, n_rows: int, prior: str) -> bool:
    """The sparse prior has no more configurations of parents than rows."""
    k = len(n_states)
    return prior == "uniform" or all(n_states[graph[:k, child]].prod() <= n_rows for child in range(len(graph)))


def _mixed_family(filled: Codes, n_states: Codes, values: Floats, child: int, parents: tuple[int, ...]) -> Floats:
    """Log evidence of a family in each completion: BDeu of sample size 1, or a regression a configuration."""
    k = len(n_states)
    above, slopes = [j for j in parents if j < k], [j - k for j in parents if j >= k]
    place = np.zeros(filled.shape[:2], dtype=np.int64)
    for j in above:
        place = place * n_states[j] + filled[:, :, j]
    n_places = int(np.prod(n_states[above]))
    total = np.zeros(len(filled))
    for configuration in range(n_places):
        here = place == configuration
        if child < k:
            prior = 1.0 / (n_places * n_states[child])
            cases = [(here & (filled[:, :, child] == state)).sum(axis=1) for state in range(n_states[child])]
            total += gammaln(1 / n_places) - gammaln(1 / n_places + here.sum(axis=1))
            total += sum(gammaln(prior + n) - gammaln(prior) for n in cases)
            continue
        design = np.concatenate([here[:, :, None], np.where(here[:, :, None], values[:, :, slopes], 0.0)], axis=2)
        own = np.where(here, values[:, :, child - k], 0.0)
        total += Regression.of(
            here.sum(axis=1),
            np.einsum("cri,crj->cij", design, design),
            np.einsum("cri,cr->ci", design, own),
            (own**2).sum(axis=1),
        ).log_evidence
    return total


# --- kinds -----------------------------------------------------------------------------------------------------------


def _blank(rng: np.random.Generator, rows: Floats, n_cells: int) -> Floats:
    holed = rows.copy()
    holed.flat[rng.choice(rows.size, n_cells, replace=False)] = np.nan
    return holed


@kind("learn", share=3)
def regressions_with_missing_cells(rng: np.random.Generator, small: bool) -> Question:
    n, n_rows = (3 if small else int(rng.integers(3, 5))), int(rng.integers(15, 60 if small else 300))
    rows = linear_rows(rng, n_rows, n, scatter=pick(rng, 0.3, 1.0), df=pick(rng, np.inf, np.inf, 3.0))
    blank = _blank(rng, rows, max(1, int(rows.size * rng.uniform(0.02, 0.3))))
    return with_missing_numbers("regressions", blank, prior_options(rng), run_seed(rng))


@kind("learn", share=2)
def numbers_and_categories_with_missing_cells(rng: np.random.Generator, small: bool) -> Question:
    n_categories = 1 if small else int(rng.integers(1, 3))
    n_states = np.full(n_categories, 2)
    codes, rows = mixed_rows(rng, int(rng.integers(10, 60)), n_states, 3 - n_categories)
    codes = codes.copy()
    codes.flat[rng.choice(codes.size, int(rng.integers(0, 3)), replace=False)] = -1
    blank = _blank(rng, rows, int(rng.integers(1, 3)))
    return with_categories("a few cells", codes, n_states, blank, prior_options(rng), run_seed(rng))
