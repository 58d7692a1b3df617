"""The log marginal likelihood of a sampled posterior over graphs.

The sum over graphs of score times prior weight comes from the draws (`doxa.structure.exact.order_sums`).  That of the
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
from doxa.sampling.driver import Schedule, sample
from doxa.structure.cases.incomplete.data import IncompleteData
from doxa.structure.cases.incomplete.joint_proposals import frozen_lists
from doxa.structure.cases.incomplete.references import shared_lists
from doxa.structure.cases.incomplete.sequential import log_summed
from doxa.structure.exact.dag_sums import log_sum_over_dags
from doxa.structure.exact.enumeration import prior_weights
from doxa.structure.exact.order_sums import LogSummed, log_sum_by_bridge
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.scores import BDeu
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.parent_sets import ParentSets, parent_sets
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.runs.options import RunOptions

if TYPE_CHECKING:
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["listed_sets", "log_marginal_likelihood", "log_sum_by_size"]

_SEED = 20263
_SUMMED = 20  # columns up to which the prior's sum is exact: seconds
_REFERENCES, _KEEP_WITHIN = 4, 8.0  # completions of which parent sets are listed, and nats below a subset's weight
_COMPLETIONS = 64  # drawn ones, over which weights are averaged
_PRIOR_RUN = Schedule(4, 1000, 300)


def log_marginal_likelihood(posterior: StructurePosterior, table: Table) -> Estimate:
    """Log P(data) (nats) of a posterior that was sampled, from its draws.

    Raises
    ------
    ArgumentError
        If cells are missing and families may be logistic, or draws and listed parent sets do not meet.
    """
    rng = np.random.default_rng(_SEED)
    listed, summed = listed_sets(posterior, table, rng)
    trace = posterior.trace
    joint = log_sum_by_bridge(trace["rows"], listed, rng, summed, None if summed is None else trace["cells"])
    prior = _log_sum_of_prior(posterior.options)
    return Estimate(joint.value - prior.value, float(np.hypot(joint.mcse, prior.mcse)), np.nan)


def listed_sets(
    posterior: StructurePosterior, table: Table, rng: np.random.Generator
) -> tuple[ParentSets, LogSummed | None]:
    """The lists of parent sets that sums over orders run over, and how cells that are missing are summed out.

    With missing cells, a set weighs its mean over drawn completions.
    """
    options = posterior.options
    limits = options.limits
    if not options.n_missing:
        return parent_sets(FamilyScores(table, options.score, options.structure_prior), limits, 1.0), None
    if options.score.is_logistic:
        raise ArgumentError(
            f"the table has {options.n_missing} missing cells, and families may be logistic; sums over graphs and "
            "cells are known for family='categorical'"
        )
    data = IncompleteData(table, options.score, options.structure_prior, [name for name, _ in options.hidden])
    lists, _ = shared_lists(data, limits, _REFERENCES, _KEEP_WITHIN)
    cells = posterior.trace["cells"].reshape(-1, data.missing_cells.n_missing)
    drawn = cells[np.linspace(0, len(cells) - 1, _COMPLETIONS).astype(np.int64)].astype(np.int16)
    listed, _ = frozen_lists(data, limits, lists, list(drawn))
    return listed, lambda parents, cells: log_summed(data, parents, rng, cells)


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
