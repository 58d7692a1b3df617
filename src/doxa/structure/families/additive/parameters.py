r"""The posteriors of additive families: draws of regressions, of log odds, and of their types in a mixture.

A number's regression on numbers and contrasts is that of `doxa.structure.families.gaussian.parameters`, with the
degrees of freedom of its parents that are numbers; contrasts move its intercept from configuration to configuration.

A category's log odds have no posterior in closed form.  Draws begin as a weighted choice among proposals from Student's
t about the mode, with the curvature there for scale, and each then takes a few independent Metropolis steps under the
same proposal.  Most of these are accepted, so what the choice left wrong is forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from doxa.arrays import Floats
from doxa.structure.families.gaussian.parameters import GaussianFamily, RegressionDraws, Spread
from doxa.structure.families.kind import FamilyParameters, Stream

if TYPE_CHECKING:
    from doxa.structure.families.additive.kinds import AdditiveKind, AdditiveMixture

__all__ = ["AdditiveFamily", "LogOddsDraws", "MixtureFamily", "contrasts", "mixture_family"]


_OF_LOG_ODDS, _OF_TYPES = 4, 5
_FREEDOM, _WIDER = 8.0, 1.05  # of the proposals
_FIRST, _STEPS = 4, 5  # proposals for a draw to choose among, and Metropolis steps
_ENTRIES = 4_000_000  # of log odds at a time
_MEAN_OF = 2000  # draws
_OF_MEANS = 400  # draws that probabilities of new rows are means over


class LogOddsDraws(NamedTuple):
    """Draws of a category's log odds against its first state, in the units of the values that the family was given."""

    intercept: Floats  # (n, n_states of each parent that is a category..., n_states - 1)
    coefficients: Floats  # (as intercept..., n_parents that are numbers)


def contrasts(n_states: int) -> Floats:
    """What each state has in the columns of a category, shape (n_states, n_states - 1).

    Examples
    --------
    >>> contrasts(2).tolist()
    [[-1.0], [1.0]]
    """
    made = np.zeros((n_states, n_states - 1))
    for k in range(1, n_states):
        unit = math.sqrt(2.0 / (k * (k + 1)))
        made[:k, k - 1], made[k, k - 1] = -unit, k * unit
    return made


class AdditiveFamily(FamilyParameters):
    """The posterior of one additive family; see the module's notes.

    Parameters
    ----------
    kind : AdditiveKind
    codes : ndarray of float, shape (n_rows, 1 + n_parents)
        The node, first, and its parents: values of numbers, positions of states of categories.
    cases : ndarray of int, shape (n_rows,)
        How often each row occurs.
    sizes : sequence of int
        Numbers of states; 0 for numbers.
    stream : callable
        A fresh generator for purposes 3 to 5 and a number.
    n_numbers : int
        Columns of the table that hold numbers.
    """

    def __init__(
        self,
        kind: AdditiveKind,
        codes: NDArray[Any],
        cases: NDArray[Any],
        sizes: Sequence[int],
        stream: Stream,
        n_numbers: int,
    ) -> None:
        self.kind, self._stream = kind, stream
        self.n_states = sizes[0]
        self.numbers = [j for j in range(1, len(sizes)) if not sizes[j]]
        self.categories = [j for j in range(1, len(sizes)) if sizes[j]]
        self.shape = tuple(sizes[j] for j in self.categories)
        self._contrasts = [contrasts(size) for size in self.shape]
        self._kept: Floats | None = None
        x = self._columns(codes)
        if not sizes[0]:
            rule = kind.gaussian_rule(n_numbers, int(np.sum(cases)))
            n_contrasts = x.shape[1] - len(self.numbers)
            self._regression = GaussianFamily(
                rule._replace(freedom=rule.freedom - n_contrasts), np.column_stack([codes[:, 0], x]), cases,
                [0] * (1 + x.shape[1]), stream,
            )  # fmt: skip
        else:
            design = np.column_stack([np.ones(len(x)), x])
            self._odds = _LogOdds(design, codes[:, 0].astype(np.int64), np.asarray(cases), sizes[0], kind.prior_scale)

    def _columns(self, codes: NDArray[Any]) -> Floats:
        """Numbers and contrasts, without the one."""
        parts = [codes[:, self.numbers].astype(np.float64)]
        parts += [own[codes[:, j].astype(np.int64)] for own, j in zip(self._contrasts, self.categories, strict=True)]
        return np.concatenate(parts, axis=1)

    def log_predictive(self, codes: NDArray[Any]) -> Floats:
        """As `GaussianFamily.log_predictive`, of a number."""
        return self._regression.log_predictive(np.column_stack([codes[:, 0], self._columns(codes)]))

    def log_state_means(self, codes: NDArray[Any]) -> Floats:
        """Log of the posterior means of P(node | parents) in new rows, by a few hundred draws.

        Parameters
        ----------
        codes : ndarray of float, shape (n_rows, 1 + n_parents)
            As those that the family was made of; the node's states are not looked at.

        Returns
        -------
        ndarray of float, shape (n_rows, n_states)
        """
        if self._kept is None:
            self._kept = self._odds.draws(_OF_MEANS, self._stream(_OF_LOG_ODDS, 0))
        x = self._columns(codes)
        design = np.column_stack([np.ones(len(x)), x])
        found, step = np.empty((len(x), self.n_states)), max(1, _ENTRIES // (len(self._kept) * self.n_states))
        for first in range(0, len(x), step):
            odds = self._kept @ design[first : first + step].T
            whole = np.concatenate([np.zeros_like(odds[:, :1]), odds], axis=1)
            whole -= logsumexp(whole, axis=1, keepdims=True)
            found[first : first + step] = (logsumexp(whole, axis=0) - math.log(len(whole))).T
        return found

    def regressions(self, n: int, number: int = 0) -> RegressionDraws:
        """Of a number, drawn ``n`` times; ``number`` is that of the stream."""
        drawn, p = self._regression.regressions(n, number), len(self.numbers)
        wide = (n, *self.shape)
        intercept = self._added(drawn.intercept, drawn.coefficients[:, p:])
        coefficients = _spread(drawn.coefficients[:, :p], len(self.shape), (*wide, p))
        return RegressionDraws(intercept, coefficients, _spread(drawn.sd, len(self.shape), wide))

    def linear(self, weights: Floats, prob: float) -> Spread:
        """As `GaussianFamily.linear`, of a number."""
        q = math.prod(self.shape)
        columns = []
        for axis, own in enumerate(self._contrasts):
            shape = [len(own) if k == axis else 1 for k in range(len(self.shape))]
            columns.append(np.broadcast_to(own.reshape(*shape, -1), (*self.shape, own.shape[1])).reshape(q, -1))
        moved = np.concatenate(columns, axis=1) if columns else np.zeros((q, 0))
        whole = np.concatenate(
            [np.broadcast_to(weights, (q, *weights.shape)), weights[None, :, :1] * moved[:, None, :]], axis=2
        )
        return self._regression.linear_in(whole, prob, self.shape)

    def scatter(self, prob: float) -> Spread:
        """As `GaussianFamily.scatter`, of a number: the same in every configuration."""
        return Spread(*(np.broadcast_to(part, self.shape) for part in self._regression.scatter(prob)))

    def log_odds(self, n: int, number: int = 0) -> LogOddsDraws:
        """Of a category, drawn ``n`` times; ``number`` is that of the stream."""
        drawn, p = self._odds.draws(n, self._stream(_OF_LOG_ODDS, number)), len(self.numbers)
        k = self.n_states - 1
        parts = [self._added(drawn[:, j, 0], drawn[:, j, 1 + p :]) for j in range(k)]
        coefficients = _spread(drawn[:, :, 1 : 1 + p], len(self.shape), (n, *self.shape, k, p))
        return LogOddsDraws(np.stack(parts, axis=-1), coefficients)

    def log_tables(self, n: int) -> Floats:
        """As `FamilyParameters.log_tables`, of a category that no number is a parent of."""
        odds = self.log_odds(n).intercept.reshape(n, -1, self.n_states - 1)
        whole = np.concatenate([np.zeros((*odds.shape[:2], 1)), odds], axis=2)
        return np.asarray(whole - logsumexp(whole, axis=2, keepdims=True))

    def log_means(self) -> Floats:
        """As `FamilyParameters.log_means`, by two thousand draws."""
        return np.asarray(logsumexp(self.log_tables(_MEAN_OF), axis=0) - math.log(_MEAN_OF))

    def _added(self, intercept: Floats, effects: Floats) -> Floats:
        """Intercepts (n,) and effects of contrasts (n, n_contrasts) as intercepts of every configuration."""
        total, first = intercept.reshape(-1, *(1 for _ in self.shape)), 0
        for axis, own in enumerate(self._contrasts):
            of_state = effects[:, first : first + own.shape[1]] @ own.T
            first += own.shape[1]
            total = total + of_state.reshape(-1, *(len(own) if k == axis else 1 for k in range(len(self.shape))))
        return np.broadcast_to(total, (len(intercept), *self.shape)).copy()


def _spread(values: Floats, n_axes: int, shape: tuple[int, ...]) -> Floats:
    """The same values in every configuration: axes are put in after the first."""
    return np.broadcast_to(values.reshape(values.shape[0], *(1,) * n_axes, *values.shape[1:]), shape)


class _LogOdds:
    """The posterior of a multinomial regression's coefficients, shape (n_states - 1, n_columns)."""

    def __init__(self, x: Floats, own: NDArray[np.int64], cases: NDArray[Any], n_states: int, scale: float) -> None:
        self.k, self.d = n_states - 1, x.shape[1]
        rows, place = np.unique(x, axis=0, return_inverse=True)
        counts = np.zeros((len(rows), n_states))
        np.add.at(counts, (place.ravel(), own), cases)
        self.x, self.counts, self.cases = rows, counts[:, 1:], counts.sum(axis=1)
        utilities = 0.5 * scale**2 * (np.eye(self.k) + 1.0)
        self.precision = np.kron(np.linalg.inv(utilities), np.eye(self.d))
        self.mode = self._mode()
        self.root = _WIDER * np.linalg.inv(np.linalg.cholesky(self._curvature(self.mode))).T

    def log_posterior(self, flat: Floats) -> Floats:
        """Log posterior less a constant of coefficients, shape (n, k * d)."""
        found, step = np.empty(len(flat)), max(1, _ENTRIES // max(1, len(self.x) * self.k))
        for first in range(0, len(flat), step):
            part = flat[first : first + step]
            odds = part.reshape(-1, self.k, self.d) @ self.x.T
            top = np.maximum(odds.max(axis=1), 0.0)
            log_sum = top + np.log(np.exp(-top) + np.exp(odds - top[:, None]).sum(axis=1))
            likelihood = np.einsum("nkr,rk->n", odds, self.counts) - log_sum @ self.cases
            found[first : first + step] = likelihood - 0.5 * np.einsum("ni,ij,nj->n", part, self.precision, part)
        return found

    def draws(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw ``n`` times, shape (n, k, d)."""
        flat, log_weight = self._proposals(_FIRST * n, rng)
        share = np.exp(log_weight - log_weight.max())
        chosen = rng.choice(len(flat), size=n, p=share / share.sum())
        at, weight = flat[chosen], log_weight[chosen]
        for _ in range(_STEPS):
            other, other_weight = self._proposals(n, rng)
            taken = np.log1p(-rng.random(n)) < other_weight - weight
            at, weight = np.where(taken[:, None], other, at), np.where(taken, other_weight, weight)
        return at.reshape(n, self.k, self.d)

    def _proposals(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        size = self.k * self.d
        z = rng.standard_normal((n, size))
        z /= np.sqrt(rng.chisquare(_FREEDOM, n) / _FREEDOM)[:, None]
        flat = self.mode + z @ self.root.T
        log_density = -0.5 * (_FREEDOM + size) * np.log1p((z**2).sum(axis=1) / _FREEDOM)
        return flat, self.log_posterior(flat) - log_density

    def _shares(self, flat: Floats) -> Floats:
        odds = flat.reshape(self.k, self.d) @ self.x.T
        return np.asarray(np.exp(odds - logsumexp(np.vstack([np.zeros(len(self.x)), odds]), axis=0)))

    def _curvature(self, flat: Floats) -> Floats:
        share = self._shares(flat)
        weight = self.cases * (np.eye(self.k)[:, :, None] * share[:, None] - share[:, None] * share[None])
        found = np.einsum("abr,ri,rj->aibj", weight, self.x, self.x, optimize=True)
        return np.asarray(found.reshape(self.k * self.d, -1) + self.precision)

    def _mode(self) -> Floats:
        flat = np.zeros(self.k * self.d)
        value = self.log_posterior(flat[None])[0]
        for _ in range(100):
            slope = ((self.counts.T - self.cases * self._shares(flat)) @ self.x).ravel() - self.precision @ flat
            step = np.linalg.solve(self._curvature(flat), slope)
            if slope @ step < 1e-10:
                break
            length = 1.0
            while length > 1e-9:
                new = self.log_posterior((flat + length * step)[None])[0]
                if new > value:
                    break
                length *= 0.5
            if length <= 1e-9:
                break
            flat, value = flat + length * step, new
        return flat


class MixtureFamily(FamilyParameters):
    """A family that is conditional Gaussian or additive: the type of every draw is drawn, too.

    Parameters
    ----------
    additive, conditional : FamilyParameters
        The posteriors of both.
    additive_probability : float
        Of the type, given the data.
    stream : callable
        A fresh generator for purpose 5 and a number.
    """

    def __init__(
        self, additive: FamilyParameters, conditional: FamilyParameters, additive_probability: float, stream: Stream
    ) -> None:
        self._parts, self.additive_probability, self._stream = (additive, conditional), additive_probability, stream

    def regressions(self, n: int, number: int = 0) -> RegressionDraws:
        """Of a number, drawn ``n`` times; ``number`` is that of the stream."""
        one, two = (part.regressions(n, number) for part in self._parts)  # type: ignore[attr-defined]
        return RegressionDraws(*(self._either(a, b, number) for a, b in zip(one, two, strict=True)))

    def log_predictive(self, codes: NDArray[Any]) -> Floats:
        """As `GaussianFamily.log_predictive`, of a number."""
        w = self.additive_probability
        one, two = (part.log_predictive(codes) for part in self._parts)  # type: ignore[attr-defined]
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log(w) + one, np.log1p(-w) + two))

    def log_tables(self, n: int) -> Floats:
        """As `FamilyParameters.log_tables`."""
        one, two = (part.log_tables(n) for part in self._parts)
        return self._either(one, two, 0)

    def log_means(self) -> Floats:
        """As `FamilyParameters.log_means`."""
        w = self.additive_probability
        one, two = (part.log_means() for part in self._parts)
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log(w) + one, np.log1p(-w) + two))

    def _either(self, one: Floats, two: Floats, number: int) -> Floats:
        is_additive = self._stream(_OF_TYPES, number).random(len(one)) < self.additive_probability
        return np.where(is_additive.reshape(-1, *(1,) * (one.ndim - 1)), one, two)


def mixture_family(
    kind: AdditiveMixture,
    codes: NDArray[Any],
    cases: NDArray[Any],
    sizes: Sequence[int],
    stream: Stream,
    n_numbers: int,
) -> FamilyParameters:
    """The posterior of a family of an `AdditiveMixture`."""
    conditional = kind.conditional
    n_categories = sum(size > 1 for size in sizes[1:])
    above = sum(not size for size in sizes[1:])
    if n_categories == 0 if not sizes[0] else above == 0 and n_categories < 2:
        return conditional.parameters(codes, cases, sizes, stream, n_numbers=n_numbers)
    additive = AdditiveFamily(kind, codes, cases, sizes, stream, n_numbers)
    if sizes[0] and above:
        return additive
    own = sum(not size for size in sizes)
    shares = []
    for part in (kind.alone, conditional):
        if part.alpha_w is not None:  # which counts from the columns of the table
            part = replace(part, alpha_w=part.alpha_w - n_numbers + own)
        shares.append(part.log_marginal_likelihood(codes, np.asarray(cases, dtype=np.int64), sizes))
    w = kind.additive_share
    assert isinstance(w, float)  # of one node
    log_odds = math.log(w) + shares[0] - math.log1p(-w) - shares[1]
    probability = float(np.exp(-np.logaddexp(0.0, -log_odds)))
    of_conditional = conditional.parameters(codes, cases, sizes, stream, n_numbers=n_numbers)
    return MixtureFamily(additive, of_conditional, probability, stream)
