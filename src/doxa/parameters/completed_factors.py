r"""The factors of a network's joint probability on a table whose hidden cells have values.

Given those, every node with parents is a logistic regression of its own.  Its rows are configurations of the parents,
with the cases of each and the ones among them: all :math:`2^k` configurations of k parents, counted anew for every
completion; or, where these are more than the rows, the distinct complete rows and one for each row with hidden cells.

Moves of the coefficients of one node given a completed table: they keep its posterior whatever it looks like.

The first is independence Metropolis-Hastings with a Gaussian refitted to the completed table, at the posterior's mode
m.  The ascent to the mode begins at a fixed place, so the Gaussian is a function of what it conditions on and the
proposals' ratio is exact.  Several steps z are drawn and each is tried at both ends, m + z and m - z, which cancels the
posterior's skewness.  With :math:`W(z) = [p(m + z) + p(m - z)] / q(z)`, one of the new z is chosen in proportion to W
and accepted with probability :math:`\min(1, \sum_i W_i / (\sum_i W_i - W_j + W_0))`, 0 being the current one (multiple
try Metropolis with independent tries: Liu, Liang & Wong 2000); an end is then chosen in proportion to p.

The second are a few leapfrog steps in coordinates in which that Gaussian is round: where the posterior has heavier
tails than a Gaussian, independent proposals never leave them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from doxa.arrays import Bits, Floats
from doxa.errors import ArgumentError
from doxa.models.logistic_factors import LogisticFactor, RootFactor, log_logistic
from doxa.models.logistic_options import GaussianPrior
from doxa.models.logistic_rows import all_configurations, distinct_rows
from doxa.parameters.targets import log_gamma_draws

__all__ = [
    "Centre",
    "Completed",
    "CompletedFamily",
    "GivenRoots",
    "LearnedRoots",
    "Moved",
    "Slope",
    "find_centre",
    "hamiltonian",
    "try_ends",
]


_MOST_COUNTED = 16  # parents; above, tables of counts would not stay in the cache

Ints: TypeAlias = NDArray[np.intp]


class Completed(NamedTuple):
    """A logistic regression with the cases and ones of each row; rows may have no cases."""

    design: Floats  # (rows, d)
    cases: Floats  # (rows,)
    lean: Floats  # (d,), design' (ones - cases / 2)
    total_lean: float
    row: Ints  # (n_share,), in which row each row of the table with hidden cells is


class Slope(NamedTuple):
    """Log density at a point, and its derivatives."""

    value: float  # nats
    gradient: Floats  # (d,)
    small: Floats  # (rows,), exp(-|logit|)

    def curvature(self, completed: Completed) -> Floats:
        """The negative Hessian is design' diag(curvature) design + precision; shape (rows,)."""
        return completed.cases * self.small / (1.0 + self.small) ** 2


class CompletedFamily:
    """A node with parents: its coefficients' posterior given a completed table."""

    def __init__(
        self,
        factor: LogisticFactor,
        place: slice,
        prior: GaussianPrior,
        codes: Bits,
        counts: NDArray[np.int64],
        share: Ints,
    ) -> None:
        self.place, self.share = place, share
        self.mean, self.offset = prior.mean, factor.bias or 0.0
        self.precision = np.asarray(np.linalg.inv(prior.covariance), dtype=np.float64)
        log_det = float(np.linalg.slogdet(self.precision)[1])
        self._log_peak = 0.5 * log_det - 0.5 * self.mean.size * float(np.log(2 * np.pi))
        family = codes[:, list(factor.scope)]
        whole = (family >= 0).all(axis=1)
        family, times = family[whole], counts[whole]
        parents, index = distinct_rows(family[:, :-1])
        n_parents = family.shape[1] - 1
        self._digits = 2.0 ** np.arange(n_parents)
        self._counted = n_parents < _MOST_COUNTED and 2**n_parents <= len(parents) + len(share)
        if self._counted:
            parents = all_configurations(n_parents)
            index = (family[:, :-1] @ self._digits).astype(np.int32)
        self._cases = np.bincount(index, weights=times, minlength=len(parents)).astype(np.float64, copy=False)
        ones = np.bincount(index, weights=times * (family[:, -1] == 1), minlength=len(parents))
        self._ones = ones.astype(np.float64, copy=False)
        self._code = factor.design
        self._design = self._code(parents)[0]

    def complete(self, values: Floats) -> Completed:
        """The regression given the hidden cells' ``values`` (n_cells + 3,)."""
        if not self._counted:
            return self.complete_roughly(values)
        hidden = values[self.share]
        index = (hidden[:, :-1] @ self._digits).astype(np.intp)
        cases = self._cases + np.bincount(index, minlength=self._cases.size)
        ones = self._ones + np.bincount(index, weights=hidden[:, -1], minlength=self._cases.size)
        return _completed(self._design, cases, ones, index)

    def complete_roughly(self, values: Floats) -> Completed:
        """The same row by row, where ``values`` may be from 0 to 1: expected ones."""
        hidden = values[self.share]
        design = np.concatenate([self._design, self._code(hidden[:, :-1])[0]])
        cases = np.concatenate([self._cases, np.ones(len(hidden))])
        ones = np.concatenate([self._ones, hidden[:, -1]])
        return _completed(design, cases, ones, np.arange(len(self._design), len(design)))

    def logits(self, completed: Completed, theta: Floats) -> Floats:
        """Logits of the child in the rows with hidden cells, shape (n_share,)."""
        return np.asarray((completed.design @ theta + self.offset)[completed.row])

    def log_density(self, completed: Completed, thetas: Floats) -> Floats:
        """Log prior density plus log likelihood (nats), shape (n,), of coefficients (n, d)."""
        size = np.abs(thetas @ completed.design.T + self.offset)
        value = thetas @ completed.lean - 0.5 * (size @ completed.cases)
        value -= np.log1p(np.exp(np.negative(size, out=size), out=size), out=size) @ completed.cases
        away = thetas - self.mean
        value -= 0.5 * ((away @ self.precision) * away).sum(axis=1)
        return np.asarray(value + (self.offset * completed.total_lean + self._log_peak))

    def slope(self, completed: Completed, theta: Floats) -> Slope:
        """Log density of one vector of coefficients, with its derivatives."""
        logits = completed.design @ theta + self.offset
        size = np.abs(logits)
        value = theta @ completed.lean - 0.5 * (size @ completed.cases)
        small = np.exp(np.negative(size, out=size), out=size)
        away = theta - self.mean
        pull = self.precision @ away
        value -= np.log1p(small) @ completed.cases + 0.5 * (away @ pull)
        tanh = np.copysign((1.0 - small) / (1.0 + small), logits)
        gradient = completed.lean - 0.5 * ((completed.cases * tanh) @ completed.design) - pull
        value += self.offset * completed.total_lean + self._log_peak
        return Slope(float(value), gradient, small)


def _completed(design: Floats, cases: Floats, ones: Floats, index: Ints) -> Completed:
    excess = ones - 0.5 * cases
    return Completed(design, cases, excess @ design, float(excess.sum()), index)


class LearnedRoots:
    """Roots whose probabilities have the prior Beta(1, 1); their parameters are the logits."""

    def __init__(
        self,
        factors: Sequence[RootFactor],
        places: Sequence[int],
        codes: Bits,
        counts: NDArray[np.int64],
        shares: Sequence[Ints],
    ) -> None:
        self.places = np.array(places, dtype=np.intp)
        columns = codes[:, [factor.scope[0] for factor in factors]]
        self.observed = np.stack([counts @ (columns == 1), counts @ (columns == 0)]).astype(np.float64)
        sizes = [len(share) for share in shares]
        self._cells = np.concatenate([np.empty(0, dtype=np.intp), *(share[:, 0] for share in shares)])
        self._root = np.repeat(np.arange(len(shares)), sizes)
        self._cases = self.observed.sum(axis=0) + sizes

    def complete(self, values: Floats) -> Floats:
        """Ones and zeros of each root, shape (2, n)."""
        ones = self.observed[0] + np.bincount(self._root, weights=values[self._cells], minlength=self.places.size)
        return np.stack([ones, self._cases - ones])

    def draw(self, cases: Floats, rng: np.random.Generator) -> Floats:
        """Logits (n,) of draws from Beta(1 + ones, 1 + zeros), which may be closer to 0 or 1 than numbers come."""
        ones, zeros = log_gamma_draws(1.0 + cases, rng)
        return np.asarray(ones - zeros)

    def log_density(self, cases: Floats, logits: Floats) -> float:
        """Log prior density of the logits plus log probability of the roots' values (nats)."""
        return float(((1.0 + cases) * log_logistic(np.stack([logits, -logits]))).sum())


class GivenRoots:
    """Roots whose distribution is given: no parameters, but a say in what is hidden."""

    def __init__(
        self, factor: RootFactor, codes: Bits, counts: NDArray[np.int64], share: Ints, names: Sequence[str]
    ) -> None:
        assert factor.probabilities is not None
        self.share = share
        with np.errstate(divide="ignore"):  # zeros of a joint table
            self._log_probabilities = np.log(factor.probabilities)
        family = codes[:, list(factor.scope)]
        for row in np.unique(family, axis=0):
            if not factor.probabilities[tuple(slice(None) if code < 0 else code for code in row)].any():
                at = ", ".join(f"{names[v]} = {code}" for v, code in zip(factor.scope, row, strict=True) if code >= 0)
                raise ArgumentError(
                    f"table has a row with {at}, which roots gives probability 0; no parameters explain it: give it a "
                    f"probability above 0, or leave the row out"
                )
        whole = (family >= 0).all(axis=1)
        self._observed = float((counts[whole] * self._log_probabilities[tuple(family[whole].T)]).sum())

    def log_probability(self, values: Floats) -> float:
        """Log probability of the roots' values (nats)."""
        hidden = values[self.share].astype(np.intp)
        return self._observed + float(self._log_probabilities[tuple(hidden.T)].sum())


_CLOSE = 0.1  # nats, twice what the last step gains; it is taken, and what it leaves is far less
_MOST_STEPS = 50
_LEAPFROGS = 5
_SHORTEST = 0.1  # lengths are from here to 1, evenly in their logarithm: short ones for tails unlike the centre


class Centre(NamedTuple):
    """The Gaussian at a mode: N(mean, inverse(factor factor'))."""

    mean: Floats  # (d,)
    factor: Floats  # (d, d), lower

    def spread(self, noise: Floats) -> Floats:
        """Steps from the mean that standard normal ``noise`` stands for, shape (d,) or (d, n)."""
        return np.asarray(dtrtrs(self.factor, noise, lower=1, trans=1)[0])


class Moved(NamedTuple):
    """Where a move ended."""

    theta: Floats  # (d,)
    log_density: float
    acceptance: float  # probability with which the proposal was to be accepted


def find_centre(family: CompletedFamily, completed: Completed, start: Floats) -> Centre:
    """Newton's method with step halving from ``start``: a function of the arguments alone."""
    theta = at = start
    value, step, size = -np.inf, np.zeros_like(start), 1.0
    factor = np.eye(start.size)
    for _ in range(_MOST_STEPS):
        slope = family.slope(completed, theta)
        if slope.value < value - 1e-9 * abs(value):  # past the top
            size *= 0.5
            theta = at + size * step
            continue
        at, value, size = theta, slope.value, 1.0
        root = completed.design * np.sqrt(slope.curvature(completed))[:, None]
        factor = _factor(root.T @ root + family.precision)
        step = dpotrs(factor, slope.gradient, lower=1)[0]
        theta = at + step
        if slope.gradient @ step < _CLOSE:
            return Centre(theta, factor)
    return Centre(at, factor)


def try_ends(
    family: CompletedFamily, completed: Completed, centre: Centre, theta: Floats, tries: int, rng: np.random.Generator
) -> Moved:
    """Independent proposals, each at both ends of a step from the centre."""
    noise = np.empty((theta.size, tries + 1))
    noise[:, 0] = centre.factor.T @ (theta - centre.mean)
    noise[:, 1:] = rng.standard_normal((theta.size, tries))
    steps = centre.spread(noise).T
    steps[0] = theta - centre.mean
    ends = np.concatenate([centre.mean + steps, centre.mean - steps])
    ends[0] = theta
    values = family.log_density(completed, ends)
    log_weights = np.logaddexp(values[: tries + 1], values[tries + 1 :]) + 0.5 * (noise * noise).sum(axis=0)
    weights = np.exp(log_weights - log_weights.max())
    cumulative = np.cumsum(weights[1:])
    uniform, accept, end = rng.random(3)
    taken = 1 + min(int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right")), tries - 1)
    total = float(cumulative[-1])
    others = total - float(weights[taken]) + float(weights[0])
    acceptance = 1.0 if total >= others else total / others
    if accept >= acceptance:
        taken = 0
    gain = float(values[taken + tries + 1] - values[taken])
    if end * (1.0 + math.exp(-abs(gain))) < math.exp(min(gain, 0.0)):  # below g(gain)
        taken += tries + 1
    return Moved(ends[taken], float(values[taken]), acceptance)


def hamiltonian(
    family: CompletedFamily, completed: Completed, centre: Centre, moved: Moved, rng: np.random.Generator
) -> Moved:
    """A few leapfrog steps with a fresh velocity, in coordinates in which the Gaussian at the centre is round."""
    first = velocity = rng.standard_normal(moved.theta.size)
    uniform, accept = rng.random(2)
    length = _SHORTEST**uniform
    theta, value = moved.theta, moved.log_density
    for step in range(_LEAPFROGS + 1):
        at_an_end = step in (0, _LEAPFROGS)
        value, gradient, _ = family.slope(completed, theta)
        kick = dtrtrs(centre.factor, gradient, lower=1)[0]
        velocity = velocity + (0.5 * length if at_an_end else length) * kick
        if step < _LEAPFROGS:
            theta = theta + length * centre.spread(velocity)
    ratio = value - moved.log_density + _energy(first) - _energy(velocity)
    acceptance = math.exp(min(ratio, 0.0))
    if accept < acceptance:
        return Moved(theta, value, acceptance)
    return moved._replace(acceptance=acceptance)


def _energy(velocity: Floats) -> float:
    return 0.5 * float(velocity @ velocity)


def _factor(matrix: Floats) -> Floats:
    """Cholesky factor, lower; of a matrix raised a little where rounding has left it without one."""
    factor, failed = dpotrf(matrix, lower=1)
    lift = 1e-12 * matrix.trace()
    while failed:
        factor, failed = dpotrf(matrix + lift * np.eye(len(matrix)), lower=1)
        lift *= 10
    return np.asarray(factor)
