r"""M-projection: the member of a family that is closest to p by :math:`KL(p \| q)`; beside it the I-projection.

The notes have two ways to approximate p by a simple q.  The I-projection, :math:`\min_q KL(q \| p)`, is what mean field
seeks: it needs expectations under q only, and q must be small wherever p is, so that it settles in one mode
(mode-seeking).  The M-projection, :math:`\min_q KL(p \| q)`, has q match moments of p: it needs marginals of p, exact
or from samples, and q must be large wherever p is, so that it covers all modes and what lies between (mass-covering).

Among products over blocks the M-projection is the product of p's marginals; among distributions that follow a forest,
the one with p's marginals on its edges; over all forests with edges among given ones, that with the largest sum of
mutual informations (Chow & Liu 1968).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.flat import log_of, over
from doxa.inference.mean_field.fit import MeanField, mean_field
from doxa.inference.mean_field.layout import check_blocks
from doxa.models.factors import Factor
from doxa.models.markov import check_rows, read_array, sum_factors

__all__ = [
    "Comparison",
    "Marginals",
    "Projection",
    "compare_projections",
    "enumerate_joint",
    "joint_marginals",
    "kl_divergence",
    "m_projection",
    "sample_marginals",
]

Marginals: TypeAlias = Callable[[tuple[int, ...]], Floats]  # variables -> their distribution, an axis for each
_MOST_STATES = 2**22  # of a table that is listed
_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class Projection:
    """An M-projection; made by `m_projection`."""

    n_states: tuple[int, ...]
    factors: tuple[Factor, ...]  # sum to log q, normalised: marginals of blocks, or of roots and of nodes given parents
    blocks: tuple[tuple[int, ...], ...]  # independent parts of a product; () for forests
    edges: tuple[tuple[int, int], ...]  # of the forest, from parent to child; () for products

    def log_probability(self, rows: ArrayLike) -> Floats:
        """Log q of complete rows of positions of states, shape (n, n_variables); nats."""
        names = [str(v) for v in range(len(self.n_states))]
        return sum_factors(self.factors, check_rows(rows, names, self.n_states))

    def joint(self) -> Floats:
        """q as a table with an axis for each variable."""
        return enumerate_joint(self.n_states, self.factors)[1]

    def __repr__(self) -> str:
        form = f"product over {len(self.blocks)} blocks" if self.blocks else f"forest of {len(self.edges)} edges"
        return f"<M-projection on a {form}, {len(self.n_states)} variables>"


def m_projection(
    marginals: Marginals,
    n_states: Sequence[int],
    *,
    blocks: Iterable[Iterable[int]] | None = None,
    edges: ArrayLike | None = None,
) -> Projection:
    r"""The q of a family with the least :math:`KL(p \| q)`: moments of p matched.

    Parameters
    ----------
    marginals : callable of tuple of int to ndarray
        Gives the distribution of a few variables under p, an axis for each; see `joint_marginals` and
        `sample_marginals`.
    n_states : sequence of int
        Number of states of every variable.
    blocks : iterable of iterable of int, optional
        Disjoint sets of variables, independent of each other in q; variables in none are by themselves.
    edges : array_like of int, shape (n_edges, 2), optional
        In place of blocks: pairs that q may join.  Where they have cycles, the forest among them with the largest sum
        of mutual informations is taken, so that the projection is that over all forests of these pairs.

    Returns
    -------
    Projection
        The fully factorised one without ``blocks`` and ``edges``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If both are given, they name variables that are not there, or a marginal is no distribution of the right shape.

    Examples
    --------
    >>> p = np.array([[0.5, 0.0], [0.1, 0.4]])
    >>> m_projection(joint_marginals(p), p.shape).joint().round(2)
    array([[0.3, 0.2],
           [0.3, 0.2]])
    >>> m_projection(joint_marginals(p), p.shape, edges=[[0, 1]]).joint().round(2)
    array([[0.5, 0. ],
           [0.1, 0.4]])
    """
    sizes = tuple(int(n) for n in n_states)
    if blocks is not None and edges is not None:
        raise ArgumentError("blocks and edges are both given; a family is of the one kind or of the other")
    checked = _checked(marginals, sizes)
    if edges is not None:
        return _forest(checked, sizes, _check_edges(edges, len(sizes)))
    parts = tuple(check_blocks(sizes, () if blocks is None else blocks, math.prod(sizes)))
    return Projection(sizes, tuple(Factor(part, log_of(checked(part))) for part in parts), parts, ())


def joint_marginals(joint: ArrayLike) -> Marginals:
    """Marginals of a table with an axis for each variable, which is divided by its sum.

    Examples
    --------
    >>> joint_marginals([[1.0, 0.0], [1.0, 2.0]])((1,))
    array([0.5, 0.5])
    """
    table = read_array("joint", joint)
    if not (np.isfinite(table) & (table >= 0)).all() or not table.any():
        raise ArgumentError("joint has an entry that is negative or not finite, or is 0 everywhere; give probabilities")
    table /= table.sum()

    def marginal(variables: tuple[int, ...]) -> Floats:
        total = table.sum(axis=tuple(a for a in range(table.ndim) if a not in variables))
        return np.asarray(total.transpose(np.argsort(np.argsort(variables))))

    return marginal


def sample_marginals(rows: ArrayLike, n_states: Sequence[int], weights: ArrayLike | None = None) -> Marginals:
    """Marginals of draws, as shares of their weights.

    Parameters
    ----------
    rows : array_like of int, shape (n, n_variables)
        Positions of states.
    n_states : sequence of int
    weights : array_like, shape (n,), optional
        Not negative; all equal by default.

    Examples
    --------
    >>> sample_marginals([[0, 1], [0, 0], [1, 1], [0, 1]], [2, 2])((1,))
    array([0.25, 0.75])
    """
    codes = check_rows(rows, [str(v) for v in range(len(n_states))], n_states)
    w = np.ones(len(codes)) if weights is None else read_array("weights", weights)
    if w.shape != (len(codes),):
        raise ArgumentError(f"weights has shape {w.shape}; it must be ({len(codes)},), a weight for every row")
    if not (np.isfinite(w) & (w >= 0)).all() or not w.any():
        raise ArgumentError("weights has one that is negative or not finite, or all are 0; give at least one above 0")

    def marginal(variables: tuple[int, ...]) -> Floats:
        shape = tuple(int(n_states[v]) for v in variables)
        place = np.ravel_multi_index([codes[:, v] for v in variables], shape)
        counts = np.bincount(place, weights=w, minlength=int(np.prod(shape)))
        return np.asarray(counts / counts.sum()).reshape(shape)

    return marginal


def kl_divergence(p: ArrayLike, q: ArrayLike) -> float:
    r""":math:`KL(p \| q)` of two distributions of the same shape, nats; inf where q is 0 and p is not.

    Examples
    --------
    >>> round(kl_divergence([0.5, 0.5], [0.9, 0.1]), 4), kl_divergence([0.5, 0.5], [1.0, 0.0])
    (0.5108, inf)
    """
    one, other = read_array("p", p), read_array("q", q)
    if one.shape != other.shape:
        raise ArgumentError(
            f"p has shape {one.shape} and q {other.shape}; they must be distributions over the same states"
        )
    for name, array in (("p", one), ("q", other)):
        if not (array >= 0).all() or abs(array.sum() - 1) > _SUM_TOLERANCE:
            raise ArgumentError(f"{name} is no distribution: it has an entry below 0, or sums to {array.sum():.9g}")
    return float(rel_entr(one, other).sum())


class Comparison(NamedTuple):
    """Both projections of a network on products, and how far they are from it, nats."""

    i_projection: MeanField  # the best found; coordinate ascent promises no more
    m_projection: Projection
    log_z: float
    i_reverse: float  # KL(q || p) of the I-projection: log Z less its bound
    i_forward: float  # KL(p || q) of it; inf where q leaves out what p has
    m_reverse: float  # KL(q || p) of the M-projection; inf where q meets what p forbids
    m_forward: float  # KL(p || q) of it


def compare_projections(
    n_states: Sequence[int],
    factors: Iterable[Factor],
    *,
    blocks: Iterable[Iterable[int]] | None = None,
    seed: int | None = None,
) -> Comparison:
    """I- and M-projection of a network small enough to list, on products over the same blocks.

    Examples
    --------
    >>> couple = Factor((0, 1), np.array([[2.0, -2.0], [-2.0, 2.0]]))  # two modes, both equal or both different
    >>> found = compare_projections([2, 2], [couple], seed=1)
    >>> abs(found.i_projection.marginals[0] - 0.5).round(3)  # it settles in one of them
    array([0.479, 0.479])
    >>> found.m_projection.joint()  # it covers both, and all between
    array([[0.25, 0.25],
           [0.25, 0.25]])
    >>> round(found.i_reverse, 2), round(found.m_reverse, 2), round(found.i_forward, 2), round(found.m_forward, 2)
    (0.67, 1.33, 3.09, 0.6)
    """
    listed = list(factors)
    groups = None if blocks is None else [tuple(block) for block in blocks]
    log_z, p = enumerate_joint(n_states, listed)
    inner = mean_field(n_states, listed, blocks=groups, starts=8, seed=seed)
    logs = [Factor(block, log_of(table)) for block, table in zip(inner.blocks, inner.tables, strict=True)]
    q = enumerate_joint(n_states, logs)[1]
    outer = m_projection(joint_marginals(p), n_states, blocks=groups)
    other = outer.joint()
    return Comparison(
        inner, outer, log_z, kl_divergence(q, p), kl_divergence(p, q), kl_divergence(other, p), kl_divergence(p, other)
    )


def enumerate_joint(n_states: Sequence[int], factors: Iterable[Factor]) -> tuple[float, Floats]:
    """Log Z (nats) and the distribution of all variables, an axis for each, by listing every configuration."""
    shape = tuple(int(n) for n in n_states)
    size = int(np.prod(shape, dtype=object))
    if size > _MOST_STATES:
        raise ArgumentError(
            f"n_states has {size} configurations, and at most {_MOST_STATES} are listed; take a smaller network"
        )
    total = np.zeros(shape)
    for variables, log_values in factors:
        total += over(np.asarray(log_values), variables, range(len(shape)))
    most = total.max()
    if most == -np.inf:
        raise ArgumentError("factors give every configuration the probability 0; there is nothing to project")
    p = np.exp(total - most)
    return float(most + np.log(p.sum())), p / p.sum()


def _checked(marginals: Marginals, sizes: tuple[int, ...]) -> Marginals:
    """Marginals that are checked when they are asked for."""
    if not callable(marginals):
        raise ArgumentTypeError(
            f"marginals is of type {type(marginals).__name__}; give a function of variables, "
            f"as joint_marginals and sample_marginals make"
        )

    def checked(variables: tuple[int, ...]) -> Floats:
        table = read_array(f"marginals({variables})", marginals(variables))
        shape = tuple(sizes[v] for v in variables)
        if table.shape != shape:
            raise ArgumentError(
                f"marginals({variables}) has shape {table.shape}; it must be {shape}, the numbers of states"
            )
        if not (table >= 0).all() or not abs(table.sum() - 1) <= _SUM_TOLERANCE:
            raise ArgumentError(
                f"marginals({variables}) has an entry below 0 or sums to {table.sum():.9g}; it must be a distribution"
            )
        return np.asarray(table / table.sum())

    return checked


def _forest(marginals: Marginals, sizes: tuple[int, ...], pairs: list[tuple[int, int]]) -> Projection:
    chosen = _spanning(marginals, len(sizes), pairs)
    near: dict[int, list[int]] = {v: [] for v in range(len(sizes))}
    for a, b in chosen:
        near[a].append(b)
        near[b].append(a)
    factors, edges, seen = [], [], set()
    for root in range(len(sizes)):
        if root in seen:
            continue
        factors.append(Factor((root,), log_of(marginals((root,)))))
        seen.add(root)
        waiting = [root]
        while waiting:
            parent = waiting.pop()
            for child in near[parent]:
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
                    edges.append((parent, child))
                    factors.append(Factor((parent, child), _conditional(marginals((parent, child)))))
    return Projection(sizes, tuple(factors), (), tuple(edges))


def _spanning(marginals: Marginals, n: int, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs without cycles, those of the most mutual information first; all where there are none."""
    weights = [_mutual_information(marginals(pair)) for pair in pairs]
    part = list(range(n))
    kept = []
    for k in np.argsort(-np.array(weights), kind="stable"):
        a, b = pairs[int(k)]
        if part[a] != part[b]:
            kept.append((a, b))
            old, new = part[b], part[a]
            part = [new if p == old else p for p in part]
    return kept


def _mutual_information(table: Floats) -> float:
    return float(rel_entr(table, np.outer(table.sum(axis=1), table.sum(axis=0))).sum())


def _conditional(table: Floats) -> Floats:
    """Log P(second | first); where the first cannot be, 0: its own factor is -inf there."""
    sums = table.sum(axis=1, keepdims=True)
    return log_of(np.divide(table, sums, out=np.ones_like(table), where=sums > 0))


def _check_edges(edges: ArrayLike, n: int) -> list[tuple[int, int]]:
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return []
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ArgumentTypeError("edges is no array of shape (n_edges, 2) of positions; give pairs of variables")
    for k, (a, b) in enumerate(pairs.tolist()):
        if not (0 <= a < n and 0 <= b < n):
            raise ArgumentError(f"edges[{k}] is ({a}, {b}); positions of variables are 0 to {n - 1}")
        if a == b:
            raise ArgumentError(f"edges[{k}] joins {a} to itself; the two ends of an edge differ")
    return [(a, b) for a, b in pairs.tolist()]
