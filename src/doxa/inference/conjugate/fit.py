"""`conjugate_mean_field`: the best product of factors found for a conjugate network, and its bound on the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.inference.conjugate.nodes import Node
from doxa.inference.conjugate.problem import conjugate_problem
from doxa.inference.mean_field import Start, climb
from doxa.inference.mean_field.fit import best_of, check_search

__all__ = ["ConjugateMeanField", "conjugate_mean_field"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ConjugateMeanField:
    """An approximation of a posterior by a product of exponential families; made by `conjugate_mean_field`.

    Attributes
    ----------
    factors : mapping of str to GaussianFactor, GammaFactor or CategoricalFactor
        Of every hidden node, each with ``mean``, ``natural`` and ``entropy``; the fit itself is indexed by them too.
    log_evidence_bound : float
        Lower bound on the log density of what was observed, nats, of the best start.
    bounds : ndarray
        The bound at the best start's beginning and after each sweep; never decreasing.
    converged : bool
        Whether no mean changed by more than the tolerance in the last sweep of the best start.
    starts : tuple of Start
        All starts, in the order they were made.
    entropy : float
        Of q, nats.
    exact : bool
        Whether no node joins two hidden ones: q is the posterior, and the bound is the log evidence.
    """

    factors: Mapping[str, Any]
    log_evidence_bound: float
    bounds: NDArray[np.float64]
    converged: bool
    starts: tuple[Start, ...]
    entropy: float
    exact: bool

    def __getitem__(self, name: str) -> Any:
        """The factor of a hidden node."""
        return self.factors[name]

    def __repr__(self) -> str:
        sign, kind = ("=", "exact") if self.exact else (">=", "an approximation")
        state = "" if self.converged else f"; not converged in {len(self.bounds) - 1} sweeps"
        return f"<mean field, {kind}: log evidence {sign} {self.log_evidence_bound:.6g}{state}>"


def conjugate_mean_field(
    nodes: Mapping[str, Node],
    given: Mapping[str, ArrayLike],
    *,
    starts: int = 4,
    seed: int | None = None,
    tolerance: float = 1e-9,
    max_sweeps: int = 1000,
) -> ConjugateMeanField:
    r"""Approximate the posterior of a conjugate network by a product, by coordinate ascent on the bound.

    Parameters
    ----------
    nodes : mapping of str to Node
        `Normal`, `Gamma`, `Categorical` and `Mixture` nodes by name.
    given : mapping of str to array_like
        What was observed, by node; the others are hidden, each with one factor.
    starts : int, default=4
        Starts: the prior's means, then random draws about them.  The best bound is kept.
    seed : int, optional
        Of the starts.
    tolerance : float, default=1e-9
        A start has converged when no mean changed by more in a sweep, relative to 1 + its size.
    max_sweeps : int, default=1000
        Most sweeps of a start.

    Returns
    -------
    ConjugateMeanField

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If nodes, observations or options are not as described.

    Notes
    -----
    Among products, q has the least :math:`KL(q \| p)`.  Between modes it settles in one, so that starts may end
    apart; its variances are too small as a rule, since what two nodes share is lost between their factors.

    Examples
    --------
    A linear regression with unknown precision:

    >>> from doxa.inference.conjugate import Gamma, Normal
    >>> nodes = {
    ...     "weights": Normal(precision=0.01, size=2),
    ...     "noise": Gamma(1.0, 1.0),
    ...     "y": Normal(slopes={"weights": [[1, -1], [1, 0], [1, 1], [1, 2]]}, precision="noise"),
    ... }
    >>> fit = conjugate_mean_field(nodes, {"y": [-1.1, 0.9, 3.1, 4.9]})
    >>> fit
    <mean field, an approximation: log evidence >= -10.0491>
    >>> fit["weights"].mean.round(2), fit["noise"].mean.round(2)
    (array([0.94, 2.02]), array([1.97]))
    """
    problem = conjugate_problem(nodes, given)
    n_starts = 1 if problem.is_exact else check_whole("starts", starts, 1)
    check_search(tolerance, max_sweeps)
    kinds = ["prior", *["random"] * (n_starts - 1)]
    climbs = []
    for kind, child in zip(kinds, np.random.SeedSequence(seed).spawn(n_starts), strict=True):
        begun = problem.start(None if kind == "prior" else np.random.default_rng(child))
        climbs.append(climb(problem, begun, tolerance=tolerance, max_sweeps=max_sweeps))
    best = climbs[best_of([found.bounds[-1] for found in climbs])]
    return ConjugateMeanField(
        factors={name: best.q[name] for name in problem.order},
        log_evidence_bound=float(best.bounds[-1]),
        bounds=best.bounds,
        converged=best.converged,
        starts=tuple(
            Start(kind, float(c.bounds[-1]), len(c.bounds) - 1, c.converged)
            for kind, c in zip(kinds, climbs, strict=True)
        ),
        entropy=problem.entropy(best.q),
        exact=problem.is_exact,
    )
