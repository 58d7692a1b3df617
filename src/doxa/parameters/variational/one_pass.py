r"""One pass over the rows: each replaces the Gaussian before it by one that has seen its outcome.

What the methods of this kind share.  A row's log likelihood is replaced by :math:`-w h^2 / 2 + p h` + constant in its
signed logit h, whose law before it is Gaussian with mean m and variance v; a method chooses the weight w, the pull p
and what it says of the row's predictive probability.  The result depends on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from doxa.errors import ArgumentError
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.parameters.variational.whitened import covariance_factor, to_posterior, whiten
from doxa.sampling.gaussian import GaussianPosterior

__all__ = ["Repeats", "RowRule", "one_pass"]

Repeats = Literal["each", "weighted"]
RowRule = Callable[[float, float, float], tuple[float, float, float]]  # (m, v, n) -> (w, p, log predictive)


def one_pass(
    problem: LogisticRegressionProblem,
    rule: RowRule,
    *,
    repeats: Repeats,
    method: str,
    evidence_kind: Literal["lower bound", "estimate"],
) -> GaussianPosterior:
    """Apply ``rule`` to the rows in their order; time O(cases d^2), or O(rows d^2) when weighted."""
    whitened = whiten(problem)
    times, shares = _occasions(whitened.counts, repeats)
    rows, offset = whitened.rows, whitened.offset
    d = rows.shape[1]
    mean, covariance = np.zeros(d), np.eye(d)
    weights, pulls = np.zeros(len(rows)), np.zeros(len(rows))
    trace: list[float] = []
    for t, row in enumerate(rows):
        for _ in range(times[t]):
            reach = covariance @ row
            m, v = float(offset[t] + row @ mean), max(float(row @ reach), 0.0)
            w, pull, log_predictive = rule(m, v, shares[t])
            growth = 1 + w * v
            mean = mean + ((pull - w * m) / growth) * reach
            covariance -= (w / growth) * np.multiply.outer(reach, reach)
            weights[t] += w
            pulls[t] += pull
            trace.append(log_predictive)
    # The rows' weights and pulls say it all; summing them afresh removes what rounding did on the way.
    factor = covariance_factor(rows, weights)
    mean = factor @ (factor.T @ (rows.T @ (pulls - weights * offset)))
    return to_posterior(
        whitened,
        mean,
        factor,
        method=method,
        log_evidence=float(np.sum(trace)),
        evidence_kind=evidence_kind,
        n_iterations=len(trace),
        converged=True,
        trace=np.array(trace),
    )


def _occasions(counts: np.ndarray, repeats: Repeats) -> tuple[list[int], list[float]]:
    if repeats == "weighted":
        return [1] * len(counts), counts.tolist()
    if repeats != "each":
        raise ArgumentError(f"repeats is {repeats!r}; it must be 'each' or 'weighted'")
    if (counts != np.round(counts)).any():
        bad = int(np.flatnonzero(counts != np.round(counts))[0])
        raise ArgumentError(
            f"counts[{bad}] is {counts[bad]:g}; a row cannot be seen that often one at a time (repeats='weighted' can)"
        )
    return [int(c) for c in counts], [1.0] * len(counts)
