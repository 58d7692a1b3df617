"""The log marginal likelihood of a sampled posterior over graphs.

The sum over graphs of score times prior weight comes from the draws (`doxa.structure.sums.order_sums`).  That of the
prior weights alone, by which it is divided, is exact for up to twenty columns, and for any number where all columns are
alike to the prior; else, under the sparse prior, it comes as the other sum does, from chains that have seen no data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate
from doxa.mcmc.driver import Schedule, sample
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.scores import BDeu
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.parent_sets import parent_sets
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.runs.options import RunOptions
from doxa.structure.sums.dag_sums import log_sum_over_dags
from doxa.structure.sums.enumeration import prior_weights
from doxa.structure.sums.order_sums import log_sum_by_bridge

if TYPE_CHECKING:
    from doxa.structure.answers.posterior import StructurePosterior

__all__ = ["log_marginal_likelihood", "log_sum_by_size"]

_SEED = 20263
_SUMMED = 20  # columns up to which the prior's sum is exact: seconds
_PRIOR_RUN = Schedule(4, 1000, 300)


def log_marginal_likelihood(posterior: StructurePosterior, table: Table) -> Estimate:
    """Log P(data) (nats) of a posterior that was sampled, from its draws.

    Raises
    ------
    ArgumentError
        If the table has missing cells, or draws and listed parent sets do not meet.
    """
    options = posterior.options
    if options.n_missing:
        raise ArgumentError(
            f"the table has {options.n_missing} missing cells; the log marginal likelihood is known for complete tables"
        )
    scores = FamilyScores(table, options.score, options.structure_prior)
    rng = np.random.default_rng(_SEED)
    joint = log_sum_by_bridge(posterior.trace["rows"], parent_sets(scores, options.limits, 1.0), rng)
    prior = _log_sum_of_prior(options)
    return Estimate(joint.value - prior.value, float(np.hypot(joint.mcse, prior.mcse)), np.nan)


def _log_sum_of_prior(options: RunOptions) -> Estimate:
    """Log of the sum of the prior weights of all graphs within the limits."""
    if len(options.names) <= _SUMMED:
        return Estimate.exactly(log_sum_over_dags(prior_weights(options)))
    limits, prior = options.limits, options.structure_prior
    if limits.only_caps and not prior.edge_log_odds.any():
        caps = np.unique(np.minimum(limits.max_parents, len(options.names) - 1))
        if len(caps) == 1:
            return Estimate.exactly(log_sum_by_size(prior.by_in_degree[: caps[0] + 1], len(options.names)))
    if prior.kind != "sparse":
        raise ArgumentError(
            f"prior is {options.prior!r}; what its weights sum to with these limits is known for up to {_SUMMED} "
            f"columns, and the table has {len(options.names)}; take prior='sparse', or one cap for all columns and no "
            "other limits"
        )
    states = [[str(k) for k in range(max(1, count))] for count in options.n_states]
    nothing = Table.from_codes(options.names, states, np.empty((0, len(states)), dtype=np.int64))
    scores = FamilyScores(nothing, BDeu(), prior)
    sampler = StructureSampler(Auto(), scores, limits, len(states) ** 2)
    trace = sample(sampler, _PRIOR_RUN, seed=_SEED, progress=False)
    return log_sum_by_bridge(trace["rows"], parent_sets(scores, limits, 1.0), np.random.default_rng(_SEED))


def log_sum_by_size(log_weight: NDArray[np.float64], n: int) -> float:
    r"""Log of the sum over all graphs on n nodes of a product of weights that depend on numbers of parents alone.

    With :math:`W(m) = \sum_k \binom{m}{k} w_k`, what the families of a node among m others weigh together,
    :math:`A_m = \sum_{k=1}^{m} (-1)^{k+1} \binom{m}{k} W(m - k)^k A_{m-k}`, k nodes having no children (Robinson 1973).

    Parameters
    ----------
    log_weight : ndarray of float, shape (cap + 1,)
        Of k parents, nats.
    n : int

    Examples
    --------
    >>> round(float(np.exp(log_sum_by_size(np.zeros(5), 5))))
    29281
    """
    sizes = np.arange(len(log_weight))
    families = [logsumexp(_log_choose(m, sizes[: m + 1]) + log_weight[: m + 1]) for m in range(n)]
    sums = [0.0]
    for m in range(1, n + 1):
        k = np.arange(1, m + 1)
        terms = _log_choose(m, k) + k * np.array(families[m - 1 :: -1][:m]) + np.array(sums[::-1])
        sums.append(float(logsumexp(terms, b=1.0 - 2.0 * ((k + 1) % 2))))
    return sums[n]


def _log_choose(m: int, k: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1), dtype=np.float64)
