r"""Coordinate ascent on one bound of the log evidence, over Gaussians, Betas, xi and q.

With E over the Gaussians, the Betas and q, and every factor of theta under the bound of
`doxa.parameters.variational.bound`,

.. math:: \log P(D) \ge E[\log \text{likelihood}] - KL(\text{Gaussians, Betas} \,\|\, \text{priors}) + \sum_t n_t H(q_t)

(Jaakkola & Jordan 2000, eqs. 55-57; de Freitas et al. 2001, eqs. 4 and 5, with the factors of roots).  `Ascent.fit` has
the best Gaussians and Betas for given xi and q and the bound there; `Ascent.step` goes on to the best xi and then to
better q, one stage of blocks after another.  Neither lowers the bound.

Plain steps are slow where hidden nodes leave much open: thousands where the posterior has a ridge.  `ascend`
extrapolates from the last few (`doxa.parameters.variational.whitened`), which is fast near the optimum.  Where that
lowers the bound it takes a plain step, and then leaps along parabolas for a while, which are made for long bent ways:
about a third of the steps of either alone (median of nine problems).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from doxa.arrays import Floats
from doxa.parameters.variational.hidden.blocks import Layout
from doxa.parameters.variational.hidden.families import Family, FamilyFit, LearnedRoot, RootFit
from doxa.parameters.variational.whitened import extrapolate

__all__ = ["Ascent", "AscentFit", "AscentResult", "ascend", "logarithms"]

_LEAST_LOG = -745.0  # exp of it is the smallest float
_ROUNDING = 1e-9
_LEAPS, _TRIES = 5, 3  # after an extrapolated step that fell; 2 to 10 leaps do about as well
_LONGEST = 1e4  # in plain steps


class AscentFit(NamedTuple):
    """The best Gaussians and Betas at some xi and q, and the bound there."""

    xi: Floats  # (n_xi,), of all families
    q: Floats  # (n_q,)
    families: tuple[FamilyFit, ...]
    roots: tuple[RootFit, ...]
    log_bound: float  # on the log evidence, nats
    next_xi: Floats  # (n_xi,)


class Ascent:
    """The coupled part of a network's posterior: families and roots that hold missing cells, and q."""

    def __init__(
        self,
        families: Sequence[Family],
        roots: Sequence[LearnedRoot],
        layout: Layout,
        log_given: Floats,
        log_constant: float = 0.0,
    ) -> None:
        self.families, self.roots, self.layout = tuple(families), tuple(roots), layout
        self._log_given, self._constant = log_given, log_constant
        self._possible = ~np.isneginf(log_given)
        ends = np.cumsum([family.n_xi for family in self.families], dtype=np.intp)
        self._stretches = [slice(end - f.n_xi, end) for f, end in zip(self.families, ends, strict=True)]

    def fit(self, xi: Floats, q: Floats) -> AscentFit:
        """Best Gaussians and Betas at ``xi`` and ``q``, and the bound."""
        fits = tuple(f.fit(xi[part], q) for f, part in zip(self.families, self._stretches, strict=True))
        roots = tuple(root.fit(q) for root in self.roots)
        given = np.where(self._possible, self._log_given, 0.0)
        log_bound = self._constant + float(self.layout.cases @ (entr(q) + q * given))
        log_bound += sum(fit.log_bound for fit in fits) + sum(root.log_bound for root in roots)
        next_xi = np.concatenate([np.empty(0), *(fit.next_xi for fit in fits)])
        return AscentFit(xi, q, fits, roots, log_bound, next_xi)

    def best_xi(self, fits: Sequence[FamilyFit], q: Floats) -> Floats:
        """Best xi for any Gaussians, shape (n_xi,)."""
        found = [f.best_xi(fit.mean, fit.factor, q) for f, fit in zip(self.families, fits, strict=True)]
        return np.concatenate([np.empty(0), *found])

    def better_q(self, fits: Sequence[FamilyFit], roots: Sequence[RootFit], xi: Floats, q: Floats) -> Floats:
        """Make each block's distribution the best for the others, stage after stage; a new array."""
        q = q.copy()
        parts = zip(self.families, fits, self._stretches, strict=True)
        terms = [family.terms(fit.mean, fit.factor, xi[part], q) for family, fit, part in parts]
        for k, stage in enumerate(self.layout.stages):
            logits = self._log_given.copy()
            for root, found in zip(self.roots, roots, strict=True):
                root.add(found, k, logits)
            for term in terms:
                term.add(k, q, logits)
            q[stage.place] = stage.softmax(logits[stage.place])
            for term in terms:
                term.moved(k, q)
        return q

    def step(self, fit: AscentFit) -> AscentFit:
        """Best xi, then better q, then the best Gaussians and Betas for these: the bound does not decrease."""
        return self.fit(fit.next_xi, self.better_q(fit.families, fit.roots, fit.next_xi, fit.q))

    def flat_q(self) -> Floats:
        """What is known of q before the data: the given roots' law, uniform where there is none."""
        return self.layout.softmax(self._log_given)

    def normalised(self, logits: Floats) -> Floats:
        """Make ``logits`` (n_q,) a q, with 0 where a given table has one."""
        return self.layout.softmax(np.where(self._possible, logits, -np.inf))


class AscentResult(NamedTuple):
    """Where the ascent ended."""

    fit: AscentFit
    trace: Floats  # (n,), bounds (nats), increasing
    n_iterations: int
    converged: bool


def ascend(
    ascent: Ascent, fit: AscentFit, *, tolerance: float = 1e-10, max_iterations: int = 2000, memory: int = 6
) -> AscentResult:
    """Go up from ``fit`` until three steps in a row gain less than ``tolerance`` times 1 + the bound's size.

    Parameters
    ----------
    ascent : Ascent
    fit : AscentFit
        Where to begin.
    tolerance : float, default=1e-10
    max_iterations : int, default=2000
        Limit of the number of fits, each with one sweep over q and one Gaussian a family.
    memory : int, default=6
        Steps from which the next is extrapolated; 0 for plain steps.

    Returns
    -------
    AscentResult
        With a trace that only increases.
    """
    trace, n_fits, quiet, leaps = [fit.log_bound], 1, 0, 0
    path: list[_Step] = []
    while quiet < 3 and n_fits < max_iterations:
        ahead = ascent.better_q(fit.families, fit.roots, fit.next_xi, fit.q)
        path = [*path, _Step(_point(fit.xi, fit.q), _point(fit.next_xi, ahead))][-memory - 1 :]
        new = None
        if len(path) > 1 and leaps:
            new, cost = _leap(ascent, path, fit)
            path, leaps, n_fits = [], leaps - 1, n_fits + cost
        elif len(path) > 1:
            new = _extrapolated(ascent, path, fit)
            n_fits += 1
            if new is None:
                path, leaps = path[-1:], _LEAPS
        if new is None:
            new = ascent.fit(fit.next_xi, ahead)
            n_fits += 1
        if new.log_bound <= fit.log_bound:  # nothing but rounding is left
            quiet = 3 if fit.log_bound - new.log_bound <= _ROUNDING * (1 + abs(fit.log_bound)) else 0
            break
        quiet = quiet + 1 if new.log_bound - fit.log_bound < tolerance * (1 + abs(new.log_bound)) else 0
        fit = new
        trace.append(fit.log_bound)
    return AscentResult(fit, np.array(trace), n_fits, quiet >= 3)


class _Step(NamedTuple):
    """A plain step: xi and log q, where it begins and ends."""

    begin: Floats
    end: Floats


def logarithms(q: Floats) -> Floats:
    """Logarithms of probabilities, those of 0 as if of the smallest float."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(q), _LEAST_LOG)


def _point(xi: Floats, q: Floats) -> Floats:
    return np.concatenate([xi, logarithms(q)])


def _at(ascent: Ascent, fit: AscentFit, point: Floats) -> AscentFit:
    return ascent.fit(np.abs(point[: fit.xi.size]), ascent.normalised(point[fit.xi.size :]))


def _scale(ascent: Ascent, fit: AscentFit) -> Floats:
    """What makes changes comparable: the bound is about as sensitive to log q as q times the cases."""
    return np.concatenate([np.ones(fit.xi.size), np.sqrt(ascent.layout.cases * fit.q)])


def _extrapolated(ascent: Ascent, path: list[_Step], fit: AscentFit) -> AscentFit | None:
    scale = _scale(ascent, fit)
    changes = [scale * (step.end - step.begin) for step in path]
    new = _at(ascent, fit, extrapolate(changes, [step.end for step in path]))
    return new if new.log_bound >= fit.log_bound else None


def _leap(ascent: Ascent, path: list[_Step], fit: AscentFit) -> tuple[AscentFit | None, int]:
    """Along the parabola through three points of two plain steps (Varadhan & Roland 2008, S3); and the fits it cost."""
    start, middle, end = path[-2].begin, path[-1].begin, path[-1].end
    first, bend = middle - start, end - 2 * middle + start
    scale = _scale(ascent, fit)
    length = min(float(np.linalg.norm(scale * first)) / max(float(np.linalg.norm(scale * bend)), 1e-300), _LONGEST)
    for k in range(_TRIES):
        if length < 1.01:  # 1 is where the two steps led
            return None, 2 * k
        new = ascent.step(_at(ascent, fit, start + 2 * length * first + length**2 * bend))
        if new.log_bound > fit.log_bound:
            return new, 2 * k + 2
        length = (length + 1) / 2
    return None, 2 * _TRIES
