"""Targets on grids, and what marks, tours and draws of regenerative chains must look like there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit

from doxa.estimates.regenerative import Tours, cut_tours
from doxa.models.logistic_regression import LogisticRegressionProblem, make_problem
from doxa.parameters.kernels.gaussians import Normal
from doxa.parameters.kernels.kernel import Function, Target, values_at
from doxa.parameters.kernels.splitting import Atom, log_nu, log_s
from doxa.sampling.importance_proposals import Proposal

Floats = NDArray[np.float64]

N_CELLS = {1: 8, 2: 4}  # of each axis, by dimension


@dataclass(frozen=True, eq=False)
class OnGrid:
    """A target of one or two dimensions that a fine grid knows exactly, cut into cells by its own quantiles."""

    target: Function
    axes: tuple[Floats, ...]

    @cached_property
    def points(self) -> Floats:
        return np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1).reshape(-1, len(self.axes))

    @cached_property
    def p(self) -> Floats:
        values = self.target.log_density(self.points)
        weights = np.exp(values - values.max())
        return np.asarray(weights / weights.sum())

    @cached_property
    def edges(self) -> list[Floats]:
        shape = [len(axis) for axis in self.axes]
        table = self.p.reshape(shape)
        found = []
        for k, axis in enumerate(self.axes):
            below = np.cumsum(table.sum(axis=tuple(j for j in range(len(shape)) if j != k)))
            at = np.searchsorted(below, np.arange(1, self._per_axis) / self._per_axis)
            found.append(axis[at] + 0.5 * (axis[1] - axis[0]))  # between points of the grid
        return found

    @property
    def _per_axis(self) -> int:
        return N_CELLS[len(self.axes)]

    @property
    def n_cells(self) -> int:
        return int(self._per_axis ** len(self.axes))

    def cells(self, thetas: Floats) -> NDArray[np.intp]:
        """Number of the cell of each row."""
        index = np.zeros(len(thetas), dtype=np.intp)
        for k, edges in enumerate(self.edges):
            index = index * self._per_axis + np.searchsorted(edges, thetas[:, k])
        return index

    @cached_property
    def _cells_of_points(self) -> NDArray[np.intp]:
        return self.cells(self.points)

    def sums(self, weights: Floats) -> Floats:
        """Sum of weights of the grid's points in each cell."""
        return np.asarray(np.bincount(self._cells_of_points, weights=weights, minlength=self.n_cells), dtype=np.float64)

    def nu(self, atom: Atom) -> Floats:
        """Probability of each cell under nu."""
        log_q = atom.proposal.log_density(self.points)
        density = np.exp(log_q + log_nu(self.target.log_density(self.points) - log_q, atom.log_c))
        return np.asarray(self.sums(density) / density.sum())


def _two_bumps(x: Floats) -> Floats:
    left, right = -0.5 * ((x[:, 0] + 1) / 0.5) ** 2, -0.5 * (x[:, 0] - 2) ** 2
    return np.asarray(np.logaddexp(np.log(0.7) + left, np.log(0.15) + right))


def _bent(x: Floats) -> Floats:
    away = x[:, 1] - 1.5 / (1 + x[:, 0] ** 2)
    return np.asarray(-0.5 * (x[:, 0] - 0.5) ** 2 / 1.3 - 0.5 * away**2 / 0.3)


def _banana(x: Floats) -> Floats:
    """With a tail beyond the reach of Gaussians that fit the bulk."""
    return np.asarray(-0.5 * (x[:, 0] - 1) ** 2 / 1.3 - 0.5 * (x[:, 1] + 0.5 * x[:, 0] ** 2 - 1) ** 2 / 0.4)


BUMPS = OnGrid(Function(lambda x: _two_bumps(x) + 3, 1), (np.linspace(-9, 12, 8401),))
BENT = OnGrid(Function(_bent, 2), (np.linspace(-8, 9, 341), np.linspace(-6, 8, 421)))
BANANA = OnGrid(Function(_banana, 2), (np.linspace(-7, 9, 321), np.linspace(-30, 6, 601)))
WIDE = {1: Normal(np.zeros(1), np.array([[1.6]])), 2: Normal(np.array([0.3, 0.9]), np.array([[1.3, 0.0], [-0.3, 0.9]]))}

BAD = {1: Normal(np.array([1.0]), np.array([[2.5]])), 2: Normal(np.array([0.0, 1.0]), 2.0 * np.eye(2))}
GRIDS = {1: BUMPS, 2: BENT}


class Marked(NamedTuple):
    """Draws of one chain that begin a tour where they are marked."""

    thetas: Floats  # (n, d)
    starts: NDArray[np.bool_]  # (n,)

    def tours(self, values: Floats) -> Tours:
        return cut_tours(values, self.starts)

    @property
    def firsts(self) -> Floats:
        return self.thetas[self.starts]


def run_marked(sampler: Any, n_steps: int, seed: Any) -> tuple[Any, Marked]:
    rng = np.random.default_rng(seed)
    state, draws, _ = sampler.run(sampler.init(rng), n_steps, rng)
    return state, Marked(draws["theta"][:, 0], draws["regenerated"][:, 0])


def target_z(on: OnGrid, marked: Marked) -> float:
    """Worst z of the cells' frequencies against the target, with errors from the tours."""
    cells = on.cells(marked.thetas)
    exact = on.sums(on.p)
    worst = 0.0
    for k in range(on.n_cells):
        sums, lengths = marked.tours((cells == k).astype(float))
        if lengths.sum() * exact[k] < 100:
            continue
        residual = sums - exact[k] * lengths
        worst = max(worst, abs(residual.sum()) / np.sqrt((residual**2).sum()))
    return worst


def nu_z(on: OnGrid, marked: Marked, atom: Atom) -> float:
    """Worst z of the cells' frequencies among first draws of tours, which are independent draws from nu."""
    exact, n = on.nu(atom), len(marked.firsts)
    counts = np.bincount(on.cells(marked.firsts), minlength=on.n_cells)
    usable = n * exact * (1 - exact) >= 30
    return float(np.abs((counts - n * exact) / np.sqrt(n * exact * (1 - exact)))[usable].max())


def length_z(marked: Marked, exact: float) -> float:
    lengths = marked.tours(marked.thetas[:, 0]).lengths
    return float((lengths.mean() - exact) / (lengths.std() / np.sqrt(lengths.size)))


def dependence_z(marked: Marked, values: Floats) -> float:
    """Worst z of lag-1 correlations of the ranks of first draws, tour lengths and tour means; ``values`` of draws."""
    sums, lengths = marked.tours(values)
    ties = np.random.default_rng(0).random(lengths.size)
    centred = [_centred_ranks(one, ties) for one in (values[marked.starts][:-1], lengths, sums / lengths)]
    return max(
        float(abs(one[:-1] @ other[1:]) / (one.std() * other.std() * np.sqrt(one.size - 1)))
        for one in centred
        for other in centred
    )


def _centred_ranks(values: NDArray[Any], ties: Floats) -> Floats:
    ranks = np.empty(values.size)
    ranks[np.lexsort((ties, values))] = np.arange(values.size)
    return np.asarray(ranks - ranks.mean())


def rank_correlation_z(one: Floats, other: Floats) -> float:
    """z of the rank correlation of two samples, pair by pair."""
    a, b = (_centred_ranks(values, np.zeros(values.size)) for values in (one, other))
    return float(abs(a @ b) / (a.std() * b.std() * np.sqrt(a.size)))


# Switching between two proposals: when may it depend on where the chain was?

NARROW, FAR = Normal(np.array([-0.7]), np.array([[1.5]])), Normal(np.array([2.5]), np.array([[1.8]]))


def choose_by(theta: Floats) -> Proposal:
    """A rule that depends strongly on the past."""
    return FAR if theta[0] > 0 else NARROW


class Logistic(NamedTuple):
    """The posterior of a logistic regression, up to a constant."""

    problem: LogisticRegressionProblem

    @property
    def n_dimensions(self) -> int:
        return int(self.problem.design.shape[1])

    def log_density(self, thetas: Floats) -> Floats:
        design, sign, counts, offset, mean, covariance = self.problem
        away = thetas - mean
        prior = -0.5 * ((away @ np.linalg.inv(covariance)) * away).sum(axis=1)
        return np.asarray(counts @ log_expit(sign[:, None] * (offset[:, None] + design @ thetas.T)) + prior)


def paper_problem(d: int, seed: int, n_rows: int = 1000) -> Logistic:
    """de Freitas et al. 2001, section 5.1: parents of -1 and +1, bias 0.5, coefficients uniform on (0, 1]."""
    rng = np.random.default_rng([seed, d])
    design, theta = rng.choice([-1.0, 1.0], (n_rows, d)), 1 - rng.random(d)
    sign = np.where(rng.random(n_rows) < 1 / (1 + np.exp(-(0.5 + design @ theta))), 1, -1)
    return Logistic(make_problem(design, sign, offset=0.5, prior_covariance=100.0))


def acceptance_of(target: Logistic, proposal: Any, n: int = 8000, seed: int = 1) -> float:
    """Acceptance rate in equilibrium, from independent weights."""
    rng = np.random.default_rng(seed)
    parts = [proposal.sample(1000, rng) for _ in range(n // 1000)]
    weights = np.concatenate([target.log_density(part) - proposal.log_density(part) for part in parts])
    w = np.sort(np.exp(weights - weights.max()))
    return float(2 * (w * np.arange(w.size - 1, -1, -1)).sum() / (w.size - 1) / w.sum())


def regeneration_rate(log_weights: ArrayLike, log_c: float) -> float:
    """Share of steps that regenerate in equilibrium, estimated from log weights of draws from the proposal."""
    weights = np.asarray(log_weights, dtype=np.float64) - log_c
    top = max(0.0, float(weights.max()))
    mean_weight = np.exp(weights - top).mean()
    return float(np.exp(np.minimum(weights, 0.0)).mean() ** 2 / mean_weight * np.exp(-top))


def mean_tour_length(target: Target, atom: Atom, axes: Sequence[ArrayLike], local_share: float = 0.0) -> float:
    r"""Mean number of steps of a tour, :math:`1 / (\tilde\nu(\Theta) \int s\, p)`, by numerical integration.

    By the rectangle rule, whose error on smooth densities that vanish at the ends of the grid is far below that of a
    simulation; here only s and nu have kinks, where w = c.
    """
    lines = [np.asarray(axis, dtype=np.float64) for axis in axes]
    thetas = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(lines))
    log_p, log_q = values_at(target, thetas), atom.proposal.log_density(thetas)
    cell = float(np.prod([line[1] - line[0] for line in lines]))
    log_z = log_p.max() + np.log(np.exp(log_p - log_p.max()).sum() * cell)
    weights = log_p - log_q
    mean_s = cell * np.exp(log_p - log_z + log_s(weights, atom.log_c)).sum()
    total_nu = cell * np.exp(log_q + log_nu(weights, atom.log_c)).sum()
    return float(1 / (mean_s * total_nu * (1 - local_share)))
