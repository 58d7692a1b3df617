r"""One case under the posterior that the cases before it left: xi and q found by EM, and what the case teaches.

The factors that hold the case's missing cells, whose parameters have independent Gaussians and Betas, are bounded as in
`doxa.parameters.variational.hidden.ascent` (Jaakkola & Jordan 2000, eqs. 47-66).  An *entry* of a family is a
configuration of its missing cells.  All that a family's entries have in common is linear in few numbers, :math:`u =
(h_0, \delta_1, \dots, \delta_k)`: the logit with the k missing parents at code 0, and what each of them adds at code 1.
So the loop works on the law of u, of k + 1 dimensions however many the parents, and the coefficients are changed once,
at its end (eqs. 29 and 30, with the offset of de Freitas et al. 2001, eq. 6):

.. math:: \Sigma^{-1} \leftarrow \Sigma^{-1} + \sum_e 2 p_e \lambda(\xi_e) x_e x_e^T, \qquad
   \Sigma^{-1} \mu \leftarrow \Sigma^{-1} \mu + \sum_e p_e [s_e / 2 - 2 \lambda(\xi_e) o_e] x_e,

p_e being the entry's probability under q, s_e the child's value and o_e the offset.  With every entry a xi of its own,
:math:`\xi_e^2 = E h_e^2`; with one for all, :math:`\xi^2 = \sum_e p_e E h_e^2`.  A learned root's Beta gets q of its
cell.

The work is compiled: a pass is thousands of such loops over matrices of two or three rows.  Arrays are copied number by
number: ``a[:] = b`` would have Numba compile the message of its error, for seconds.
"""

from __future__ import annotations

import math

import numpy as np

from doxa._jit import compiled
from doxa.arrays import Floats
from doxa.parameters.variational.hidden.pass_layout import Case, Shape, State

__all__ = ["see_case"]


@compiled
def see_case(
    shape: Shape,
    case: Case,
    state: State,
    q: Floats,
    free_q: bool,
    learn: bool,
    rules: tuple[bool, bool, float, int],
) -> tuple[float, int, bool]:
    """Find xi and q of one case, and move the state on; the bound (nats), iterations and whether they sufficed."""
    by_row, published, tolerance, most = rules
    n_families, n_roots = shape.family.size, shape.root.size
    n_entries, width = shape.unit.shape
    base = np.zeros((n_families, width))
    spread = np.zeros((n_families, width, width))
    _project(shape, case, state, base, spread)
    mean, covariance = base.copy(), spread.copy()
    beta = np.empty((n_roots, 2))
    for r in range(n_roots):
        for bit in range(2):
            beta[r, bit] = state.beta[shape.root[r], bit]
    marginal = np.zeros(shape.share_at[shape.share_at.size - 1])
    probability = np.ones(shape.entry_at[shape.entry_at.size - 1])
    value = np.zeros(shape.entry_at[shape.entry_at.size - 1])
    centre, second = np.empty(n_entries), np.empty(n_entries)
    xi, slope = np.ones(n_entries), np.empty(n_entries)
    old_q, old_xi = q.copy(), xi.copy()
    _all_marginals(shape, q, marginal)
    _all_probabilities(shape, marginal, probability)
    _moments(shape, mean, covariance, centre, second)
    _best_xi(shape, probability, second, by_row, xi, slope)
    log_integral = 0.0
    converged = False
    n_done = 0
    while n_done < most and not converged:
        n_done += 1
        for j in range(q.size):
            old_q[j] = q[j]
        for e in range(n_entries):
            old_xi[e] = xi[e]
        if free_q:
            _values(shape, case, (centre, second, xi, slope), beta, by_row, published, value)
            _better_q(shape, case, value, published, q, marginal)
            _all_probabilities(shape, marginal, probability)
            _best_xi(shape, probability, second, by_row, xi, slope)
        if learn:
            log_integral = _condition(shape, case, base, spread, probability, slope, mean, covariance)
            _moments(shape, mean, covariance, centre, second)
            _count(shape, state, probability, beta)
        converged = True
        for j in range(q.size):
            if abs(q[j] - old_q[j]) > tolerance:
                converged = False
        if learn:  # the Gaussian is that of the xi before
            _best_xi(shape, probability, second, by_row, xi, slope)
        for e in range(n_entries):
            if abs(xi[e] - old_xi[e]) > tolerance * xi[e]:
                converged = False
    if not learn:
        return np.nan, n_done, converged
    log_integral = _condition(shape, case, base, spread, probability, slope, mean, covariance)
    _count(shape, state, probability, beta)
    log_bound = log_integral + _constants(shape, case, state, probability, xi, slope, beta, q)
    _learn(shape, case, state, probability, slope, beta)
    return log_bound, n_done, converged


@compiled
def _project(shape: Shape, case: Case, state: State, base: Floats, spread: Floats) -> None:
    """Mean and covariance of u under the Gaussians of the state."""
    for f in range(shape.family.size):
        g, k = shape.family[f], shape.n_units[f]
        d = state.dimension[g]
        at, first, square = case.row_at[f], state.mean_at[g], state.covariance_at[g]
        reach = np.zeros((k, d))
        for i in range(k):
            row = at + i * (d + 1)
            total = case.rows[row]
            for a in range(d):
                total += case.rows[row + 1 + a] * state.mean[first + a]
                for b in range(d):
                    reach[i, b] += case.rows[row + 1 + a] * state.covariance[square + a * d + b]
            base[f, i] = total
        for i in range(k):
            for j in range(k):
                row = at + j * (d + 1) + 1
                total = 0.0
                for a in range(d):
                    total += reach[i, a] * case.rows[row + a]
                spread[f, i, j] = total


@compiled
def _all_marginals(shape: Shape, q: Floats, marginal: Floats) -> None:
    for s in range(shape.share_block.size):
        _marginals(shape, q, marginal, s)


@compiled
def _marginals(shape: Shape, q: Floats, marginal: Floats, s: int) -> None:
    marginal[shape.share_at[s] : shape.share_at[s + 1]] = 0.0
    begin, end = shape.block_at[shape.share_block[s]], shape.block_at[shape.share_block[s] + 1]
    at = shape.share_cell_at[s]
    for j in range(end - begin):
        marginal[shape.share_at[s] + shape.share_cell[at + j]] += q[begin + j]


@compiled
def _all_probabilities(shape: Shape, marginal: Floats, probability: Floats) -> None:
    """Of entries: products of the marginals of the blocks that share them."""
    for g in range(shape.factor_share.size - 1):
        for e in range(shape.entry_at[g], shape.entry_at[g + 1]):
            product = 1.0
            for s in range(shape.factor_share[g], shape.factor_share[g + 1]):
                local = shape.share_entry[shape.share_entry_at[s] + e - shape.entry_at[g]]
                product *= marginal[shape.share_at[s] + local]
            probability[e] = product


@compiled
def _moments(shape: Shape, mean: Floats, covariance: Floats, centre: Floats, second: Floats) -> None:
    """Of each entry's logit and of its square."""
    for f in range(shape.family.size):
        k = shape.n_units[f]
        for e in range(shape.entry_at[f], shape.entry_at[f + 1]):
            m, v = 0.0, 0.0
            for i in range(k):
                m += shape.unit[e, i] * mean[f, i]
                for j in range(k):
                    v += shape.unit[e, i] * covariance[f, i, j] * shape.unit[e, j]
            centre[e] = m
            second[e] = m * m + max(v, 0.0)


@compiled
def _best_xi(shape: Shape, probability: Floats, second: Floats, by_row: bool, xi: Floats, slope: Floats) -> None:
    for f in range(shape.family.size):
        first, last = shape.entry_at[f], shape.entry_at[f + 1]
        if by_row:
            total = 0.0
            for e in range(first, last):
                total += probability[e] * second[e]
            xi[first:last] = math.sqrt(total)
        else:
            for e in range(first, last):
                xi[e] = math.sqrt(second[e])
        for e in range(first, last):
            size = max(xi[e], 1e-8)  # as in `doxa.parameters.variational.bound`
            slope[e] = math.tanh(size / 2) / (4 * size)


@compiled
def _values(
    shape: Shape,
    case: Case,
    moments: tuple[Floats, Floats, Floats, Floats],
    beta: Floats,
    by_row: bool,
    published: bool,
    value: Floats,
) -> None:
    """What each entry adds to the logarithm of q (eq. 65), up to what all entries of its factor have in common."""
    centre, second, xi, slope = moments
    for e in range(centre.size):
        value[e] = case.sign[e] * centre[e] / 2
        if not published:  # eq. 8 sets the derivative of this to zero
            value[e] -= slope[e] * second[e]
            if not by_row:
                value[e] += -math.log1p(math.exp(-xi[e])) - xi[e] / 2 + slope[e] * xi[e] * xi[e]
    for r in range(beta.shape[0]):
        e = shape.entry_at[shape.family.size + r]
        total = _digamma(beta[r, 0] + beta[r, 1])
        for bit in range(2):
            value[e + bit] = 0.0 if published else _digamma(beta[r, bit]) - total


@compiled
def _better_q(shape: Shape, case: Case, value: Floats, published: bool, q: Floats, marginal: Floats) -> None:
    """Make each block's distribution the best for the others."""
    logits = np.empty(q.size)
    for b in range(shape.block_at.size - 1):
        begin, end = shape.block_at[b], shape.block_at[b + 1]
        for j in range(begin, end):
            logits[j] = 0.0 if published else case.log_given[j]
        for at in range(shape.block_share_at[b], shape.block_share_at[b + 1]):
            s = shape.block_share[at]
            g = shape.share_factor[s]
            average = np.zeros(shape.share_at[s + 1] - shape.share_at[s])
            for e in range(shape.entry_at[g], shape.entry_at[g + 1]):
                product = value[e]
                for other in range(shape.factor_share[g], shape.factor_share[g + 1]):
                    if other != s:
                        local = shape.share_entry[shape.share_entry_at[other] + e - shape.entry_at[g]]
                        product *= marginal[shape.share_at[other] + local]
                average[shape.share_entry[shape.share_entry_at[s] + e - shape.entry_at[g]]] += product
            for j in range(end - begin):
                logits[begin + j] += average[shape.share_cell[shape.share_cell_at[s] + j]]
        top = logits[begin]
        for j in range(begin + 1, end):
            top = max(top, logits[j])
        total = 0.0
        for j in range(begin, end):
            q[j] = math.exp(logits[j] - top)
            total += q[j]
        for j in range(begin, end):
            q[j] /= total
        for at in range(shape.block_share_at[b], shape.block_share_at[b + 1]):
            _marginals(shape, q, marginal, shape.block_share[at])


@compiled
def _condition(
    shape: Shape,
    case: Case,
    base: Floats,
    spread: Floats,
    probability: Floats,
    slope: Floats,
    mean: Floats,
    covariance: Floats,
) -> float:
    """Gaussians of u given the case, and the log integral of what each entry adds, exp(p s h / 2 - p lambda h^2)."""
    log_integral = 0.0
    reach = np.empty(shape.unit.shape[1])
    for f in range(shape.family.size):
        k = shape.n_units[f]
        for i in range(k):
            mean[f, i] = base[f, i]
            for j in range(k):
                covariance[f, i, j] = spread[f, i, j]
        for e in range(shape.entry_at[f], shape.entry_at[f + 1]):
            m, v = 0.0, 0.0
            for i in range(k):
                reach[i] = 0.0
                for j in range(k):
                    reach[i] += covariance[f, i, j] * shape.unit[e, j]
            for i in range(k):
                m += shape.unit[e, i] * mean[f, i]
                v += shape.unit[e, i] * reach[i]
            v = max(v, 0.0)
            weight, pull = 2 * probability[e] * slope[e], probability[e] * case.sign[e] / 2
            growth = 1 + weight * v
            log_integral += (pull * m + pull * pull * v / 2 - weight * m * m / 2) / growth - 0.5 * math.log(growth)
            for i in range(k):
                mean[f, i] += (pull - weight * m) / growth * reach[i]
                for j in range(k):
                    covariance[f, i, j] -= weight / growth * reach[i] * reach[j]
    return log_integral


@compiled
def _count(shape: Shape, state: State, probability: Floats, beta: Floats) -> None:
    """Betas given the case."""
    for r in range(shape.root.size):
        e = shape.entry_at[shape.family.size + r]
        for bit in range(2):
            beta[r, bit] = state.beta[shape.root[r], bit] + probability[e + bit]


@compiled
def _constants(
    shape: Shape,
    case: Case,
    state: State,
    probability: Floats,
    xi: Floats,
    slope: Floats,
    beta: Floats,
    q: Floats,
) -> float:
    """The rest of the bound: what does not depend on coefficients, the roots, and the entropy of q."""
    total = 0.0
    for e in range(xi.size):
        total += probability[e] * (-math.log1p(math.exp(-xi[e])) - xi[e] / 2 + slope[e] * xi[e] * xi[e])
    for r in range(shape.root.size):
        old = state.beta[shape.root[r]]
        for bit in range(2):
            total += math.lgamma(beta[r, bit]) - math.lgamma(old[bit])
        total -= math.lgamma(beta[r, 0] + beta[r, 1]) - math.lgamma(old[0] + old[1])
    for j in range(q.size):
        if q[j] > 0:
            total += q[j] * (case.log_given[j] - math.log(q[j]))
    return total


@compiled
def _learn(shape: Shape, case: Case, state: State, probability: Floats, slope: Floats, beta: Floats) -> None:
    """Change the state by what was found."""
    for f in range(shape.family.size):
        g, k = shape.family[f], shape.n_units[f]
        d = state.dimension[g]
        at, first, square = case.row_at[f], state.mean_at[g], state.covariance_at[g]
        row, reach = np.empty(d + 1), np.empty(d)
        for e in range(shape.entry_at[f], shape.entry_at[f + 1]):
            row[:] = 0.0
            for i in range(k):
                if shape.unit[e, i] != 0.0:
                    for a in range(d + 1):
                        row[a] += shape.unit[e, i] * case.rows[at + i * (d + 1) + a]
            m, v = row[0], 0.0
            for a in range(d):
                reach[a] = 0.0
                for b in range(d):
                    reach[a] += state.covariance[square + a * d + b] * row[1 + b]
                m += row[1 + a] * state.mean[first + a]
                v += row[1 + a] * reach[a]
            weight, pull = 2 * probability[e] * slope[e], probability[e] * case.sign[e] / 2
            growth = 1 + weight * max(v, 0.0)
            for a in range(d):
                state.mean[first + a] += (pull - weight * m) / growth * reach[a]
                for b in range(d):
                    state.covariance[square + a * d + b] -= weight / growth * reach[a] * reach[b]
            state.weight[case.configuration[e]] += weight
            state.pull[case.configuration[e]] += pull
    for r in range(shape.root.size):
        for bit in range(2):
            state.beta[shape.root[r], bit] = beta[r, bit]


@compiled
def _digamma(x: float) -> float:
    """Derivative of the log gamma function, x > 0: shifted to 10 and beyond, where the series is exact to rounding."""
    total = 0.0
    while x < 10.0:
        total -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * (691 / 32760 - y / 12))))))
    return total + math.log(x) - 0.5 / x - series
