r"""Variational EM for the latent trait model (Jaakkola & Jordan 2000, eqs. 36-42).

Given its latent position z, the cells of a row are independent, :math:`P(S_i = 1 | z) = g(b_i + w_i^T z)`, and
:math:`z \sim N(\mu, \Sigma)`. (The paper writes :math:`\theta` for z and :math:`X_i` for :math:`w_i`; its model has no
:math:`b_i`, which is :math:`w_i^T \mu` there.)  With a :math:`\xi` for each row and column the bounded likelihood of a
row is the exponential of a quadratic in z, so its posterior is Gaussian and its integral has a closed form.  Each of
the updates of posteriors, :math:`\xi` and parameters maximises the same bound, which so never falls.

With a posterior of loadings and biases (variational Bayes) the bound is one of the evidence: every column's
:math:`(w_i, b_i)` has a Gaussian law of its own, the logits in the equations above become expectations under it, and
what is lost is its divergence from the prior.

Positions are handled as u, where :math:`z = \mu + L u` and :math:`\Sigma = L L^T`: u is standard normal a priori, and a
row's precision :math:`I + \sum_i 2 \lambda(\xi_i) w_i w_i^T` has no eigenvalue below 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from doxa.arrays import Floats
from doxa.parameters.variational.bound import lambda_of, log_logistic
from doxa.parameters.variational.latent_rows import BinaryRows
from doxa.parameters.variational.whitened import extrapolate

__all__ = [
    "LOADINGS",
    "PRIOR",
    "EMResult",
    "Learned",
    "Moments",
    "TraitParameters",
    "TraitState",
    "ascend",
    "cost",
    "init",
    "logit_variances",
    "moments",
    "run_em",
    "settle",
    "step",
    "whitened",
]

_MOST_STEPS = 10_000
_BLOCK = 2**16  # cells worked on at once: a quarter faster than two million of them, as they stay in the cache
_SETTLED = 1e-10  # of 1 + xi: EM shrinks errors at least by a tenth a step, so posterior means are good to 1e-9


class TraitParameters(NamedTuple):
    """Parameters of the model; z is the latent position of a row."""

    loadings: Floats  # (p, k), the w_i
    biases: Floats  # (p,), the b_i
    prior_mean: Floats  # (k,), of z
    prior_root: Floats  # (k, k), lower triangular; root root' is the prior covariance of z
    spread: Floats | None = None  # (p, k + 1, k + 1), covariances of (w_i, b_i); only where z is standard normal


class Learned(NamedTuple):
    """Which of the parameters EM changes."""

    loadings: bool
    biases: bool  # only with the loadings
    mean: bool  # of the positions
    covariance: bool
    spread: bool = False  # of loadings and biases, whose posteriors are learned in the place of their maximum


LOADINGS = Learned(loadings=True, biases=True, mean=False, covariance=False)
PRIOR = Learned(loadings=False, biases=False, mean=True, covariance=True)


class Moments(NamedTuple):
    """Gaussian posteriors of all rows, in whitened positions u, and their bounds."""

    mean: Floats  # (rows, k)
    covariance: Floats  # (rows, k, k)
    log_bound: Floats  # (rows,), at most log P(observed cells), nats
    next_xi: Floats  # (rows, p), the root mean square of each logit


class TraitState(NamedTuple):
    """Parameters and xi, the posteriors that are best for them, and what is maximised."""

    parameters: TraitParameters
    xi: Floats  # (rows, p)
    rows: Moments
    objective: float  # counts @ log_bound + log prior of the parameters relative to its peak, nats


class EMResult(NamedTuple):
    """Where EM ended."""

    state: TraitState
    trace: list[float]  # the objective after each iteration
    n_iterations: int  # times that the posteriors of all rows were computed
    converged: bool


def init(rows: BinaryRows, parameters: TraitParameters, xi: Floats | None = None, *, ridge: float = 0.0) -> TraitState:
    """State at ``xi``; by default the root mean square of each logit under the prior.

    ``ridge`` is the precision of a Gaussian prior, about 0, of loadings and biases where positions are whitened; only
    there they have a scale.
    """
    if xi is None:
        loadings, biases = whitened(parameters)
        xi = np.broadcast_to(np.sqrt(biases**2 + (loadings**2).sum(axis=1)), rows.half.shape)
    found = moments(rows, parameters, xi)
    return TraitState(parameters, xi, found, float(rows.counts @ found.log_bound) - cost(parameters, ridge))


def cost(parameters: TraitParameters, ridge: float) -> float:
    """What the prior of loadings and biases takes off the bound, nats.

    Of a point, its log density relative to the peak; of a posterior, its divergence from the prior.
    """
    if ridge == 0:
        return 0.0
    total = ridge * sum(float((part**2).sum()) for part in whitened(parameters))
    if parameters.spread is not None:
        d = parameters.spread.shape[1] - (not parameters.spread[0, -1, -1])  # a bias that is held has no spread
        variances = ridge * np.linalg.eigvalsh(parameters.spread[:, :d, :d])
        total += float((variances - 1 - np.log(variances)).sum())
    return 0.5 * total


def step(rows: BinaryRows, state: TraitState, learn: Learned, *, ridge: float = 0.0) -> TraitState:
    """One iteration of EM: xi (eq. 12), the parameters learned, the posteriors. The objective does not decrease."""
    return init(rows, _improved(rows, state, learn, ridge), state.rows.next_xi, ridge=ridge)


def settle(rows: BinaryRows, parameters: TraitParameters, xi: Floats | None = None) -> TraitState:
    """State with every row's xi at its best, sought from ``xi``; each row is iterated until it settles by itself."""
    xi = np.array(init(rows, parameters).xi if xi is None else xi)
    active = np.arange(len(xi))
    for _ in range(_MOST_STEPS):
        part = BinaryRows(rows.half[active], rows.seen[active], rows.counts[active])
        new = moments(part, parameters, xi[active], with_bound=False).next_xi
        moves = np.abs(new - xi[active]) > _SETTLED * (1 + new)
        xi[active] = new
        active = active[moves.any(axis=1)]
        if active.size == 0:
            break
    return init(rows, parameters, xi)


def run_em(
    rows: BinaryRows,
    parameters: TraitParameters,
    learn: Learned,
    *,
    ridge: float,
    tolerance: float,
    max_iterations: int,
    memory: int,
) -> EMResult:
    """EM from ``parameters``; the arguments are those of `ascend`."""

    def at(new: TraitParameters, old: TraitState) -> TraitState:
        return init(rows, new, old.rows.next_xi, ridge=ridge)

    def far(new: TraitParameters, old: TraitState) -> TraitState:
        return at(new, at(new, old))  # the old xi fits the new parameters badly

    return ascend(
        init(rows, parameters, ridge=ridge), lambda state: _improved(rows, state, learn, ridge), at, far, learn,
        tolerance=tolerance, max_iterations=max_iterations, memory=memory,
    )  # fmt: skip


def ascend(
    state: TraitState,
    improved: Callable[[TraitState], TraitParameters],
    at: Callable[[TraitParameters, TraitState], TraitState],
    far: Callable[[TraitParameters, TraitState], TraitState],
    learn: Learned,
    *,
    tolerance: float,
    max_iterations: int,
    memory: int,
) -> EMResult:
    """Iterate until three iterations in a row raise the objective by less than ``tolerance`` of 1 + its size.

    ``improved`` gives the parameters of the next iteration, ``at`` the state there, which is not below the last, and
    ``far`` the state of parameters that are extrapolated by Anderson's method from the last ``memory`` iterations;
    where that lowers the objective, the plain step is taken, which cannot.
    """
    trace, n_iterations, quiet = [state.objective], 1, 0
    changes: list[Floats] = []
    ends: list[Floats] = []
    while quiet < 3 and n_iterations < max_iterations:
        better = improved(state)
        end = _packed(better, learn)
        changes = [*changes, end - _packed(state.parameters, learn)][-memory - 1 :]
        ends = [*ends, end][-memory - 1 :]
        extrapolated = len(ends) > 2
        if extrapolated:
            new = far(_unpacked(extrapolate(changes, ends), better, learn), state)
            n_iterations += 1 if far is at else 2
        if not extrapolated or not new.objective >= state.objective:
            if extrapolated:
                changes, ends = [], []
            new = at(better, state)
            n_iterations += 1
        if not new.objective > state.objective:  # nothing but rounding is left
            quiet = 3
            break
        quiet = quiet + 1 if new.objective - state.objective < tolerance * (1 + abs(new.objective)) else 0
        state = new
        trace.append(state.objective)
    return EMResult(state, trace, n_iterations, quiet >= 3)


def whitened(parameters: TraitParameters) -> tuple[Floats, Floats]:
    """Loadings and biases for positions that are standard normal a priori."""
    loadings, biases, mean, root, _ = parameters
    return loadings @ root, biases + loadings @ mean


def moments(rows: BinaryRows, parameters: TraitParameters, xi: Floats, *, with_bound: bool = True) -> Moments:
    """Posterior and bound of each row at ``xi`` (eqs. 36 and 37; the bound is eq. 14's, for all cells of a row)."""
    n, p = rows.half.shape
    loadings, biases = whitened(parameters)
    k = loadings.shape[1]
    second = np.concatenate([loadings, biases[:, None]], axis=1)
    second = second[:, :, None] * second[:, None, :]  # of (w, b), whose expectation is all that the bound sees
    if parameters.spread is not None:
        second = second + parameters.spread
    squares, cross, bias_square = second[:, :k, :k].reshape(p, k * k), second[:, :k, k], second[:, k, k]
    out = Moments(np.empty((n, k)), np.empty((n, k, k)), np.zeros(n), np.empty((n, p)))
    block = max(1, _BLOCK // p)
    for begin in range(0, n, block):
        part = slice(begin, begin + block)
        half, seen, xi_part = rows.half[part], rows.seen[part], xi[part]
        slope = lambda_of(xi_part) * seen
        precision = (2 * slope @ squares).reshape(-1, k, k) + np.eye(k)
        covariance = np.linalg.inv(precision)
        pull = half @ loadings - 2 * slope @ cross
        mean = np.einsum("tij,tj->ti", covariance, pull)
        out.mean[part], out.covariance[part] = mean, covariance
        out.next_xi[part] = np.sqrt(logit_variances(parameters, mean, covariance) + (biases + mean @ loadings.T) ** 2)
        if with_bound:
            constant = seen * (log_logistic(xi_part) - xi_part / 2) + slope * (xi_part**2 - bias_square) + half * biases
            growth = np.linalg.slogdet(precision)[1]
            out.log_bound[part] = constant.sum(axis=1) + 0.5 * ((pull * mean).sum(axis=1) - growth)
    return out


def logit_variances(parameters: TraitParameters, mean: Floats, covariance: Floats) -> Floats:
    """Variances of the logits of rows, (rows, p), for whitened positions with these means and covariances."""
    loadings, _ = whitened(parameters)
    p, k = loadings.shape
    squares = loadings[:, :, None] * loadings[:, None, :]
    if parameters.spread is None:
        found = covariance.reshape(-1, k * k) @ squares.reshape(p, k * k).T
    else:
        squares = squares + parameters.spread[:, :k, :k]
        ends = np.concatenate([mean, np.ones((len(mean), 1))], axis=1)
        outer = (ends[:, :, None] * ends[:, None, :]).reshape(-1, (k + 1) ** 2)
        found = covariance.reshape(-1, k * k) @ squares.reshape(p, k * k).T + outer @ parameters.spread.reshape(p, -1).T
    return np.maximum(found, 0.0)


def _improved(rows: BinaryRows, state: TraitState, learn: Learned, ridge: float) -> TraitParameters:
    parameters = state.parameters
    if learn.loadings:
        parameters = _improved_loadings(rows, state, learn, ridge)
    if learn.mean:
        parameters = _improved_mean(rows.counts, state, parameters, ridge)
    if learn.covariance:
        parameters = _improved_covariance(rows.counts, state, parameters, ridge)
    return parameters


def _improved_loadings(rows: BinaryRows, state: TraitState, learn: Learned, ridge: float) -> TraitParameters:
    """Eqs. 40-42: one weighted regression a column, on (z, 1), or on z alone where biases stay as they are.

    With a prior, A is the precision of the posterior as well.
    """
    mean, covariance = _positions(state)
    n, k = mean.shape
    centre, root = state.parameters.prior_mean, state.parameters.prior_root
    prior = np.append(centre, 1.0)[:, None] * np.append(centre, 1.0)
    prior[:k, :k] += root @ root.T  # the size of whitened loadings and biases is (w, b) prior (w, b)'
    position = np.concatenate([mean, np.ones((n, 1))], axis=1)
    second = position[:, :, None] * position[:, None, :]
    second[:, :k, :k] += covariance
    weights = 2 * lambda_of(state.rows.next_xi) * rows.seen * rows.counts[:, None]
    a = (weights.T @ second.reshape(n, -1)).reshape(-1, k + 1, k + 1) + ridge * prior
    b = (rows.half * rows.counts[:, None]).T @ position
    d = k + 1 if learn.biases else k
    if not learn.biases:
        b = b - a[:, :, k] * state.parameters.biases[:, None]
    parameters = state.parameters
    if learn.spread:
        spread = np.zeros_like(a)
        spread[:, :d, :d] = np.linalg.inv(a[:, :d, :d])
        parameters = parameters._replace(spread=spread)
    solved = np.linalg.solve(a[:, :d, :d], b[:, :d, None])[:, :, 0]
    if learn.biases:
        parameters = parameters._replace(biases=solved[:, k].copy())
    return parameters._replace(loadings=solved[:, :k].copy())


def _improved_mean(counts: Floats, state: TraitState, parameters: TraitParameters, ridge: float) -> TraitParameters:
    """Eq. 39, for the loadings of ``parameters``; a ridge holds their biases, and so the mean."""
    loadings, biases = whitened(parameters)
    total = counts.sum()
    a = ridge * loadings.T @ loadings + total * np.eye(loadings.shape[1])
    centre = np.linalg.solve(a, counts @ state.rows.mean - ridge * loadings.T @ biases)
    return parameters._replace(prior_mean=parameters.prior_mean + parameters.prior_root @ centre)


def _improved_covariance(
    counts: Floats, state: TraitState, parameters: TraitParameters, ridge: float
) -> TraitParameters:
    """Eq. 38, which leaves out the spread of the means about mu, without which the bound can fall.

    A ridge costs tr(V C V') / 2 times itself, C being the covariance sought and V the loadings, in the old whitened
    positions.  The best C then has C + C M C = S, with S the mean second moment about mu and M the ridge times V'V over
    the number of cases; it is :math:`S^{1/2} P S^{1/2}`, where P has the eigenvectors of :math:`S^{1/2} M S^{1/2}`
    and, for its eigenvalue n, the eigenvalue p with :math:`p + n p^2 = 1`.
    """
    shares = counts / counts.sum()
    root = parameters.prior_root
    centre = solve_triangular(root, parameters.prior_mean - state.parameters.prior_mean, lower=True)
    away = state.rows.mean - centre
    spread = np.einsum("t,tij->ij", shares, state.rows.covariance) + (away * shares[:, None]).T @ away
    half = cholesky(spread, lower=True)
    loadings = whitened(parameters)[0] @ half
    size, axes = np.linalg.eigh(ridge / counts.sum() * loadings.T @ loadings)
    shrunk = half @ (axes * (2 / (1 + np.sqrt(1 + 4 * np.maximum(size, 0.0)))))
    return parameters._replace(prior_root=np.tril(root @ cholesky(shrunk @ (half @ axes).T, lower=True)))


def _positions(state: TraitState) -> tuple[Floats, Floats]:
    """Posterior means and covariances of z."""
    root = state.parameters.prior_root
    return state.parameters.prior_mean + state.rows.mean @ root.T, root @ state.rows.covariance @ root.T


def _packed(parameters: TraitParameters, learn: Learned) -> Floats:
    """What is learned, as free numbers."""
    loadings, biases, mean, root, _ = parameters
    free = np.concatenate([np.log(np.diag(root)), root[np.tril_indices(len(root), -1)]])
    parts = (loadings.ravel(), biases, mean, free)
    return np.concatenate([part for part, learned in zip(parts, learn[:4], strict=True) if learned])


def _unpacked(numbers: Floats, parameters: TraitParameters, learn: Learned) -> TraitParameters:
    p, k = parameters.loadings.shape
    sizes = [size if learned else 0 for size, learned in zip((p * k, p, k), learn[:3], strict=True)]
    loadings, biases, mean, free = np.split(numbers, np.cumsum(sizes))
    if learn.loadings:
        parameters = parameters._replace(loadings=loadings.reshape(p, k))
    if learn.biases:
        parameters = parameters._replace(biases=biases)
    if learn.mean:
        parameters = parameters._replace(prior_mean=mean)
    if learn.covariance:
        root = np.diag(np.exp(np.clip(free[:k], -300, 300)))
        root[np.tril_indices(k, -1)] = free[k:]
        parameters = parameters._replace(prior_root=root)
    return parameters
