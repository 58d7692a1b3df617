r"""`mean_field`: the best product of tables found for a discrete network, and its bound on log Z.

The answer is an approximation, and of a certain kind: among products it is the one of least :math:`KL(q \| p)`, which
avoids configurations that p avoids.  Between several modes it settles in one; its marginals are too sure as a rule.
Hard constraints between blocks make it worse, see `doxa.inference.mean_field.support`: a naive product may then hold
a single configuration, which `MeanField.excluded` shows.  Joining such variables in a block is the cure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.checks import check_positive, check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.mean_field.problem import (
    Ascending,
    MeanFieldProblem,
    begin_around,
    begin_at,
    kinds,
    mean_field_problem,
)
from doxa.inference.mean_field.support import Ground
from doxa.models.factors import Factor
from doxa.models.markov import sum_factors

__all__ = ["Ascent", "MeanField", "Start", "ascend", "best_ascent", "check_search", "mean_field"]

_ROUNDING = 1e-12  # of the sum of the sizes of the bound's terms


class Start(NamedTuple):
    """One start of coordinate ascent, and where it led."""

    kind: str  # "uniform", "tempered", "random", ...
    log_z_bound: float  # nats
    n_sweeps: int
    converged: bool


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MeanField:
    """An approximation of a network by a product of tables; made by `mean_field` and `ising_mean_field`.

    Attributes
    ----------
    marginals : tuple of ndarray of shape (n_states,), or ndarray of shape (n_variables, 2) for Ising models
        Distribution of every variable under q.
    log_z_bound : float
        Lower bound on log Z, nats, of the best start.
    bounds : ndarray
        The bound at the best start's beginning and after each sweep; never decreasing.
    converged : bool
        Whether no probability changed by more than the tolerance in the last sweep of the best start.
    starts : tuple of Start
        All starts, in the order they were made.
    entropy : float
        Of q, nats.
    exact : bool
        Whether no factor joins two blocks: q is the network's distribution, and the bound is log Z.
    method : str
        "mean field", or "structured mean field" where a block has several variables.
    blocks : tuple of tuple of int
        The variables of each table; of Ising models empty, for every variable by itself.
    tables : tuple of ndarray
        The tables, an axis for each variable of the block.
    excluded : mapping of int to tuple of int
        Variables, and their states that q gives 0 because of constraints between blocks, although no factor rules them
        out.  Where it is not empty q cannot hold the network's hard constraints: marginals are those of a part of it.
    """

    marginals: tuple[Floats, ...] | Floats
    log_z_bound: float
    bounds: Floats
    converged: bool
    starts: tuple[Start, ...]
    entropy: float
    exact: bool
    method: str
    blocks: tuple[tuple[int, ...], ...] = ()
    tables: tuple[Floats, ...] = ()
    excluded: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        sign = "=" if self.exact else ">="
        words = [f"{self.method}, {'exact' if self.exact else 'an approximation'}: log Z {sign} {self.log_z_bound:.6g}"]
        if not self.converged:
            words.append(f"not converged in {len(self.bounds) - 1} sweeps")
        if self.excluded:
            n = len(self.excluded)
            words.append(f"hard constraints cost {n} {'variable' if n == 1 else 'variables'} states that are possible")
        return f"<{'; '.join(words)}>"


class Ascent(NamedTuple):
    """Where coordinate ascent ended."""

    q: Any
    bounds: Floats  # (n_sweeps + 1,) nats
    converged: bool


def ascend(problem: Ascending[Any], q: Any, *, tolerance: float = 1e-9, max_sweeps: int = 1000) -> Ascent:
    """Sweep from q until nothing changes by more than ``tolerance``; the bound at q must be finite."""
    bound, size, _ = problem._bound(q)
    trace, converged = [bound], False
    while not converged and len(trace) <= max_sweeps:
        q, change = problem.step(q)
        bound, size, _ = problem._bound(q)
        assert bound >= trace[-1] - _ROUNDING * (1 + size), "the bound fell, which no update can do"
        trace.append(max(bound, trace[-1]))  # the difference is rounding
        converged = change <= tolerance
    return Ascent(q, np.array(trace), converged)


def best_ascent(
    problem: Ascending[Any], begins: Iterable[tuple[str, Any]], tolerance: float, max_sweeps: int
) -> tuple[Ascent, dict[str, Any]]:
    """The best of the ascents from several starts, and what a `MeanField` says of the search."""
    ascents = [(kind, ascend(problem, q, tolerance=tolerance, max_sweeps=max_sweeps)) for kind, q in begins]
    best = ascents[int(np.argmax([found.bounds[-1] for _, found in ascents]))][1]  # the first of equals
    starts = tuple(Start(kind, float(c.bounds[-1]), len(c.bounds) - 1, c.converged) for kind, c in ascents)
    bound = float(best.bounds[-1])
    return best, {"log_z_bound": bound, "bounds": best.bounds, "converged": best.converged, "starts": starts}


def mean_field(
    n_states: Sequence[int],
    factors: Iterable[Factor],
    *,
    blocks: Iterable[Iterable[int]] | None = None,
    starts: int = 4,
    start: ArrayLike | None = None,
    seed: int | None = None,
    tolerance: float = 1e-9,
    max_sweeps: int = 1000,
    max_block_states: int = 65_536,
) -> MeanField:
    r"""Approximate a discrete network by a product, by coordinate ascent on the bound of log Z.

    Parameters
    ----------
    n_states : sequence of int
        Number of states of every variable.
    factors : iterable of Factor
        Log potentials; -inf forbids.
    blocks : iterable of iterable of int, optional
        Disjoint sets of variables that keep their joint table in q ("structured" mean field); variables in none are
        by themselves.  One block of all variables makes the answer exact.
    starts : int, default=4
        Starts: the uniform q, one led up from a high temperature, then random ones.  The best bound is kept.
    start : array_like of int, shape (n_variables,), optional
        One more start: about this configuration, which must be possible.
    seed : int, optional
        Of the starts.
    tolerance : float, default=1e-9
        A start has converged when no probability changed by more in a sweep.
    max_sweeps : int, default=1000
        Most sweeps of a start.
    max_block_states : int, default=65536
        Most joint states of a block.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If factors, blocks or options are not as described, every configuration has probability 0
        (`ImpossibleError`), or the search for a possible one was given up (`SearchStoppedError`).

    Notes
    -----
    A sweep costs, for each factor, its size times the square of the number of blocks it meets.

    Examples
    --------
    >>> pair = Factor((0, 1), np.array([[1.0, 0.0], [0.0, 0.5]]))
    >>> fit = mean_field([2, 2], [pair], seed=1)
    >>> fit
    <mean field, an approximation: log Z >= 1.78603>
    >>> fit.marginals[0].round(3)  # exact: 0.584, 0.416
    array([0.598, 0.402])
    >>> mean_field([2, 2], [pair], blocks=[[0, 1]], seed=1)
    <structured mean field, exact: log Z = 1.85113>
    """
    kept = list(factors)
    problem = mean_field_problem(n_states, kept, blocks, max_block_states=max_block_states)
    n_starts = check_whole("starts", starts, 0 if start is not None else 1)
    check_search(tolerance, max_sweeps)
    ground = Ground(problem.layout, problem.values, problem.base)
    begins: list[tuple[str, Floats]] = []
    if start is not None:
        begins.append(("given", begin_around(problem, ground, _check_start(start, problem, kept))))
    children = np.random.SeedSequence(seed).spawn(n_starts)
    for kind, child in zip(kinds(n_starts, "uniform", "tempered"), children, strict=True):
        if problem.is_exact and begins:
            break  # any other leads to the same
        rng = np.random.default_rng(child)
        begins.append((kind, begin_at(problem.layout, problem.values, problem.base, ground, kind, rng)))
    best, search = best_ascent(problem, begins, tolerance, max_sweeps)
    return MeanField(
        marginals=problem.marginals(best.q),
        entropy=problem.entropy(best.q),
        exact=problem.is_exact,
        method="structured mean field" if any(len(block) > 1 for block in problem.blocks) else "mean field",
        blocks=problem.blocks,
        tables=problem.tables(best.q),
        excluded=_excluded(problem, ground, best.q),
        **search,
    )


def check_search(tolerance: float, max_sweeps: int) -> None:
    """Raise unless the options of a search are in range."""
    check_positive("tolerance", tolerance)
    check_whole("max_sweeps", max_sweeps, 1)


def _excluded(problem: MeanFieldProblem, ground: Ground, q: Floats) -> dict[int, tuple[int, ...]]:
    """States of variables that are possible as far as single factors say, and that the other blocks forbid."""
    if ground.is_free:
        return {}
    forbidden = np.concatenate([np.isneginf(problem.logits(q, b)) for b in range(len(problem.blocks))])
    possible = problem.marginals(ground.possible.astype(np.float64))  # > 0 where some state of the block is left
    left = problem.marginals((ground.possible & ~forbidden).astype(np.float64))
    lost = {v: np.flatnonzero((possible[v] > 0) & (left[v] == 0)) for v in range(len(problem.n_states))}
    return {v: tuple(states.tolist()) for v, states in lost.items() if states.size}


def _check_start(start: ArrayLike, problem: MeanFieldProblem, factors: Sequence[Factor]) -> NDArray[np.int64]:
    codes, n = np.asarray(start), len(problem.n_states)
    if codes.shape != (n,):
        raise ArgumentError(f"start has shape {codes.shape}; it must be ({n},), a state for every variable")
    if codes.dtype.kind not in "iu":
        raise ArgumentTypeError(f"start has dtype {codes.dtype}; it holds positions of states, whole numbers")
    wrong = np.flatnonzero((codes < 0) | (codes >= np.array(problem.n_states)))
    if wrong.size:
        v = int(wrong[0])
        raise ArgumentError(
            f"start[{v}] is {codes[v]}, and the variable has {problem.n_states[v]} states; "
            f"positions are 0 to {problem.n_states[v] - 1}"
        )
    if sum_factors(factors, codes[None].astype(np.intp))[0] == -np.inf:
        raise ArgumentError("start is a configuration of probability 0; give a possible one, or none")
    return codes.astype(np.int64)
