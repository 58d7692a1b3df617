r"""`MeanFieldProblem`: the bound that mean field maximises, its updates and its gradient; where ascent begins.

.. math:: \log Z \ge L(q) = \sum_f E_q [\ell_f] + \sum_B H(q_B), \quad q = \prod_B q_B,

and :math:`\log Z - L(q) = KL(q \| p)` (the notes' I-projection, for tables in place of exponential families).  q is
one flat array: the tables of the blocks, one behind the other.

The bound has many maxima where variables depend on each other strongly, and coordinate ascent ends at one near its
start: the uniform q, one led up from a high temperature, random ones, a configuration.  The tempered start follows the
maximum of a flat bound as the log potentials grow from 0 to what they are, and is pushed a little at every level:
symmetric networks have a saddle at the uniform q.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.flat import end_to_end, starts_of, strides_of
from doxa.inference.mean_field.layout import (
    Layout,
    Scope,
    Scratch,
    block_logits,
    bounds,
    check_blocks,
    fill_slots,
    lay_out,
    scratch,
    sweep_rows,
    update_block,
)
from doxa.inference.mean_field.support import Ground
from doxa.models.factors import Factor

__all__ = ["MeanFieldProblem", "mean_field_problem"]


Q = TypeVar("Q")  # an array, or a mapping of factors


class Ascending(ABC, Generic[Q]):
    """A bound on log Z as a function of q, and sweeps that do not lower it."""

    def elbo(self, q: Q) -> float:
        """The bound at q, nats; -inf where q meets a forbidden configuration."""
        return self._bound(q)[0]

    def entropy(self, q: Q) -> float:
        """Entropy of q, nats."""
        return self._bound(q)[2]

    @abstractmethod
    def step(self, q: Q) -> tuple[Q, float]:
        """The q after one sweep, and the largest change."""

    @abstractmethod
    def _bound(self, q: Q) -> tuple[float, float, float]:
        """Bound, sum of the sizes of its terms, entropy."""


@dataclass(frozen=True, eq=False)
class MeanFieldProblem(Ascending[Floats]):
    """A network and the blocks whose tables make up q; made by `mean_field_problem`."""

    n_states: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]  # positions of variables, every one once
    layout: Layout
    values: Floats  # log values of all factors, one behind the other
    base: NDArray[np.int64]  # (n_factors,) where each factor's begin

    @property
    def is_exact(self) -> bool:
        """Whether no factor joins two blocks, so that the best q is p itself."""
        return not self.layout.is_coupled

    def uniform(self) -> Floats:
        """The q of independent uniform states."""
        return self.layout.uniform()

    def logits(self, q: Floats, block: int) -> Floats:
        """Log of the best table of a block given the others', up to a constant; -inf where it is 0."""
        fill_slots(self.layout, q, self._work)
        block_logits(self.layout, self.values, self.base, block, self._work)
        return self._work.logits[: len(self._part(q, block))].copy()

    def updated(self, q: Floats, block: int) -> Floats:
        """q with the best table of one block: the bound does not decrease.

        Raises
        ------
        ArgumentError
            If the others' support leaves the block no state, so that the bound at q is -inf whatever its table.
        """
        new = q.copy()
        fill_slots(self.layout, new, self._work)
        if update_block(self.layout, self.values, self.base, new, block, self._work) < 0:
            raise ArgumentError(f"q leaves block {block} no possible state; begin at a q whose bound is finite")
        return new

    def step(self, q: Floats) -> tuple[Floats, float]:
        """One sweep, block after block: the new q, and the largest change of a probability."""
        new, changes = q[None].copy(), np.zeros(1)
        sweep_rows(self.layout, self.values, self.base[None], new, changes, 1, 0.0, self._work)
        if changes[0] < 0:
            raise ArgumentError("q leaves a block no possible state; begin at a q whose bound is finite")
        return new[0], float(changes[0])

    def gradient(self, q: Floats) -> Floats:
        r"""Derivatives of the bound by the logits of q's tables, shape (n_q,).

        A table is the softmax of its logits; the derivative is :math:`q(s) [g(s) - \sum_t q(t) g(t)]` with
        :math:`g = E[\sum_f \ell_f \mid s] - \log q(s)`, and 0 where q is.  It vanishes at a fixed point.
        """
        out = np.zeros_like(q)
        for b in range(len(self.blocks)):
            table, logits = self._part(q, b), self.logits(q, b)
            there = table > 0
            g = logits[there] - np.log(table[there])
            self._part(out, b)[there] = table[there] * (g - table[there] @ g)
        return out

    def residual(self, q: Floats) -> float:
        """How far q is from its fixed-point condition: the largest change that updating one block alone would make."""
        changes = [np.abs(self.updated(q, b) - q).max() for b in range(len(self.blocks))]
        return float(max(changes))

    def tables(self, q: Floats) -> tuple[Floats, ...]:
        """The blocks' tables, an axis for each variable of the block."""
        shapes = [[self.n_states[v] for v in block] for block in self.blocks]
        return tuple(self._part(q, b).reshape(shape).copy() for b, shape in enumerate(shapes))

    def flat(self, tables: Sequence[ArrayLike]) -> Floats:
        """Undo `tables`."""
        return end_to_end(np.asarray(table, dtype=np.float64) for table in tables)

    def marginals(self, q: Floats) -> tuple[Floats, ...]:
        """Distribution of every variable under q."""
        found: dict[int, Floats] = {}
        for block, table in zip(self.blocks, self.tables(q), strict=True):
            for axis, v in enumerate(block):
                others = tuple(a for a in range(table.ndim) if a != axis)
                found[v] = table.sum(axis=others) if others else table
        return tuple(found[v] for v in range(len(self.n_states)))

    @cached_property
    def _work(self) -> Scratch:
        return scratch(self.layout)

    def _bound(self, q: Floats) -> tuple[float, float, float]:
        out = np.zeros((1, 3))
        bounds(self.layout, self.values, self.base[None], q[None], out, self._work)
        return float(out[0, 0]), float(out[0, 1]), float(out[0, 2])

    def _part(self, q: Floats, block: int) -> Floats:
        start = self.layout.block_start
        return q[start[block] : start[block + 1]]


def mean_field_problem(
    n_states: Sequence[int],
    factors: Iterable[Factor],
    blocks: Iterable[Iterable[int]] | None = None,
    *,
    max_block_states: int = 65_536,
) -> MeanFieldProblem:
    """Prepare factors for mean field.

    Parameters
    ----------
    n_states : sequence of int
        Number of states of every variable.
    factors : iterable of Factor
        Log potentials; -inf forbids.
    blocks : iterable of iterable of int, optional
        Disjoint sets of variables, each with one joint table in q; variables in none are by themselves.
    max_block_states : int, default=65536
        Most joint states of a block.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a factor does not fit the variables, has a NaN, a +inf or nothing but -inf, or blocks overlap or are too
        large.

    Examples
    --------
    >>> pair = Factor((0, 1), np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> problem = mean_field_problem([2, 2], [pair])
    >>> round(problem.elbo(problem.uniform()), 4)  # log Z is log(2e + 2) = 2.0065
    1.8863
    """
    sizes = tuple(check_whole(f"n_states[{i}]", n, 1) for i, n in enumerate(n_states))
    if not sizes:
        raise ArgumentError("n_states is empty; a network has at least one variable")
    most = check_whole("max_block_states", max_block_states, 1)
    groups = check_blocks(sizes, () if blocks is None else blocks, max(most, max(sizes)))
    kept = [_check_factor(k, factor, sizes) for k, factor in enumerate(factors)]
    scopes = [Scope(f.variables, tuple(strides_of(f.log_values.shape).tolist())) for f in kept]
    values, base = end_to_end(f.log_values for f in kept), starts_of(f.log_values.size for f in kept)[:-1]
    return MeanFieldProblem(sizes, tuple(groups), lay_out(sizes, scopes, groups), values, base)


def _check_factor(k: int, factor: Factor, sizes: tuple[int, ...]) -> Factor:
    try:
        variables, given = factor
        array = np.asarray(given, dtype=np.float64)
        scope = tuple(int(v) for v in variables)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"factors[{k}] is {factor!r}; give a Factor of variables and an array of numbers"
        ) from None
    for v in scope:
        if not 0 <= v < len(sizes):
            raise ArgumentError(f"factors[{k}] has the position {v}; those of the network are 0 to {len(sizes) - 1}")
    if len(set(scope)) < len(scope):
        raise ArgumentError(f"factors[{k}] has the positions {scope}; the variables of a factor differ")
    shape = tuple(sizes[v] for v in scope)
    if array.shape != shape:
        raise ArgumentError(f"factors[{k}] has shape {array.shape}; it must be {shape}, the numbers of states")
    if np.isnan(array).any() or (array == np.inf).any():
        raise ArgumentError(f"factors[{k}] contains NaN or +inf; log potentials are finite, or -inf where forbidden")
    if np.isneginf(array).all():
        raise ArgumentError(f"factors[{k}] is -inf everywhere, so that every configuration has probability 0")
    return Factor(scope, array)


_LEVELS, _SWEEPS = 20, 3  # of the tempered start
_OFF = 0.02  # standard deviation of the push that its logits get at every level
_FORBIDDEN = -10.0  # nats below the smallest finite value: what -inf is while q looks for a place
_SPREAD = 1e-3  # of a uniform q mixed in, so that no state begins at 0


def kinds(n: int, *first: str) -> list[str]:
    """Kinds of ``n`` starts: these first, then random ones."""
    return [*first, *["random"] * n][:n]


def begin_at(
    layout: Layout, values: Floats, base: NDArray[np.int64], ground: Ground, kind: str, rng: np.random.Generator
) -> Floats:
    """A q with a finite bound, for factors with flat log ``values``, those of factor f beginning at ``base[f]``."""
    if kind == "tempered":
        guess = _tempered(layout, values, base, ground, rng)
    elif kind == "random":
        guess = _normalised(layout, rng.standard_exponential(layout.n_q) * ground.possible)
    else:
        guess = _normalised(layout, ground.possible.astype(np.float64))
    preference = guess if kind != "uniform" else guess * (1 + 0.1 * rng.random(guess.size))
    kept = ground.product(np.maximum(preference, 1e-300))
    return _normalised(layout, (guess + _SPREAD * layout.uniform()) * kept)


def begin_around(problem: MeanFieldProblem, ground: Ground, codes: NDArray[np.int64]) -> Floats:
    """A q that holds nine tenths at one possible configuration, given as a state by variable."""
    at = np.array(
        [
            np.ravel_multi_index([int(codes[v]) for v in block], [problem.n_states[v] for v in block])
            for block in problem.blocks
        ],
        dtype=np.int64,
    )
    guess = 0.1 * problem.layout.uniform()
    guess[problem.layout.block_start[:-1] + at] += 0.9
    kept = ground.possible if ground.is_free else ground.around(at, guess)
    return _normalised(problem.layout, guess * kept)


def _tempered(
    layout: Layout, values: Floats, base: NDArray[np.int64], ground: Ground, rng: np.random.Generator
) -> Floats:
    work, changes = scratch(layout), np.zeros(1)
    finite = values[np.isfinite(values)]
    soft = np.maximum(values, float(finite.min(initial=0.0)) + _FORBIDDEN)
    q = ground.possible[None].astype(np.float64)
    for level in np.linspace(0.0, 1.0, _LEVELS + 1)[1:]:
        q = _normalised(layout, q[0] * np.exp(_OFF * rng.standard_normal(layout.n_q)))[None]
        sweep_rows(layout, level * soft, base[None], q, changes, _SWEEPS, 1e-6, work)
    found = q[0] * ground.possible
    sums = np.add.reduceat(found, layout.block_start[:-1])
    empty = np.repeat(sums == 0, np.diff(layout.block_start))
    return _normalised(layout, np.where(empty, ground.possible, found))


def _normalised(layout: Layout, q: Floats) -> Floats:
    start = layout.block_start
    return np.asarray(q / np.repeat(np.add.reduceat(q, start[:-1]), np.diff(start)))
