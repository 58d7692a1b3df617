"""Records of section 5.1: one child and d parents, 1000 records.

Parents are -1 or +1, each +1 with probability 0.5; the bias is fixed at 0.5; the generating coefficients are uniform on
(0, 1]; the prior is N(0, 100 I).  The paper's own records are lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.models import LogisticNetwork
from doxa.models.logistic_regression import LogisticRegressionProblem, make_problem
from doxa.parameters.variational.bound import log_logistic

__all__ = ["BIAS", "DIMENSIONS", "N_RECORDS", "PRIOR_SD", "Records", "draw_records", "log_likelihood"]

DIMENSIONS = (1, 5, 10, 20, 50)
N_RECORDS = 1000
BIAS = 0.5
PRIOR_SD = 10.0


class Records(NamedTuple):
    """A data set twice: equal records put together, and one by one in their order, as a single pass needs them."""

    thetas: NDArray[np.float64]  # (d,), that made them
    collapsed: LogisticRegressionProblem
    ordered: LogisticRegressionProblem

    @property
    def d(self) -> int:
        return self.thetas.size


def draw_records(d: int, seed: int, n: int = N_RECORDS, thetas: NDArray[np.float64] | None = None) -> Records:
    rng = np.random.default_rng([d, n, seed])
    names = [f"x{j}" for j in range(d)]
    network = LogisticNetwork({"y": names}, bias=BIAS, prior_scale=PRIOR_SD, roots=dict.fromkeys(names, 0.5))
    generating = 1 - rng.random(d) if thetas is None else thetas
    table = network.simulate(n, {"y": generating}, rng).select([*names, "y"])
    signs = 2.0 * table.codes[table.row_index] - 1
    ordered = make_problem(signs[:, :d], signs[:, d], offset=BIAS, prior_covariance=PRIOR_SD**2, collapse=False)
    return Records(generating, network.regression("y", table), ordered)


def log_likelihood(problem: LogisticRegressionProblem, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log likelihood (nats) of points (n, d), shape (n,)."""
    logits = problem.sign * (problem.offset + thetas @ problem.design.T)
    return np.asarray(log_logistic(logits) @ problem.counts)
