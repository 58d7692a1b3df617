"""The log marginal likelihood of a sampled posterior over graphs.

The sum over graphs of score times prior weight comes from the draws (`doxa.structure.exact.order_sums`).  That of the
prior weights alone, by which it is divided, is exact for up to twenty columns, and for any number where all columns are
alike to the prior; else, under the sparse prior, it comes as the other sum does, from chains that have seen no data.

Importance resampling for graphs: what a sampled posterior is held against (slides on stochastic inference, step 6).

The approximation is the mixture of the graphs of many orders in which draws of the posterior lead forward
(`doxa.structure.exact.order_sums`): a mixture around modes, drawn from exactly.  Its draws, weighted, estimate every
edge without a chain.  It never draws graphs of other orders.  How many there are, the second half of each chain says,
the orders being of the first; by so much an edge may differ.  Both can miss the same mode: agreement is no proof.

An edge that only graphs of large weight have is missing from most samples, whose own variance then knows nothing of it.
But the chains have seen such graphs: the variance of a weighted mean is the posterior mean of weight times squared
deviation over n, so it is estimated by the chains' draws too, and the larger estimate counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from doxa.checks import check_whole
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate
from doxa.models.bits import unpack_rows
from doxa.sampling.driver import Schedule, sample
from doxa.sampling.importance import ImportanceSample
from doxa.sampling.importance_baseline import all_agree
from doxa.structure.cases.incomplete.cells_sampler import shared_lists
from doxa.structure.cases.incomplete.joint_proposals import frozen_lists
from doxa.structure.cases.incomplete.sequential import log_summed
from doxa.structure.exact.dag_sums import log_sum_over_dags
from doxa.structure.exact.enumeration import prior_weights
from doxa.structure.exact.order_sums import LogSummed, OrderMixture, log_sum_by_bridge, parents_of
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.scores import BDeu
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.parent_sets import ParentSets
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.runs.options import RunOptions

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["GraphBaseline", "graph_baseline", "listed_sets", "log_marginal_likelihood", "log_sum_by_size"]

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
    value = joint.value - prior.value - log_past(posterior.options, table)
    return Estimate(value, float(np.hypot(joint.mcse, prior.mcse)), np.nan)


def log_past(options: RunOptions, table: Table) -> float:
    """Log probability (nats) that scores give the past of moments in time; the evidence is given that past.

    Raises
    ------
    ArgumentError
        If cells are missing in a table of moments.
    """
    if options.order is None:
        return 0.0
    if options.n_missing:
        raise ArgumentError(
            "the table has missing cells and its rows are moments in time; sums over graphs and cells that several "
            "rows share are not known"
        )
    scores = FamilyScores(table, options.score)
    return sum(scores.log_score(name) for name in options.names[options.n_present :])


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
    log_past(options, table)  # raises
    if not options.score.is_dirichlet or table.interventions is not None:
        what = "interventions" if options.score.is_dirichlet else f"the score is {options.score.text}"
        raise ArgumentError(
            f"the table has {options.n_missing} missing cells, and {what}; sums over graphs and cells are known for "
            "family='categorical' where nobody intervened"
        )
    data = options.incomplete(table)
    lists, _ = shared_lists(data, limits, _REFERENCES, _KEEP_WITHIN)
    cells = posterior.trace["cells"].reshape(-1, data.missing_cells.n_missing)
    drawn = cells[np.linspace(0, len(cells) - 1, _COMPLETIONS).astype(np.int64)].astype(np.int16)
    listed, *_ = frozen_lists(data, limits, lists, list(drawn))
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


@dataclass(frozen=True, eq=False)
class GraphBaseline:
    """A posterior over graphs beside importance sampling from graphs of many orders."""

    sample: ImportanceSample  # draws: adjacency rows (n, n_nodes, n_words)
    edges: pd.DataFrame  # source, target, probability, mcse, chain, chain_mcse, z; largest |z| first
    outside: float  # share of the chains' graphs that the mixture never draws: by so much an edge may differ
    agrees: bool | None  # None where the weights cannot be trusted
    text: str

    def __str__(self) -> str:
        return self.text


def graph_baseline(posterior: StructurePosterior, table: Table, n: int, seed: int) -> GraphBaseline:
    """Draw, weigh and compare; see `doxa.Posterior.baseline`."""
    import pandas as pd

    options = posterior.options
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    n = check_whole("n", n, 100)
    listed, summed = listed_sets(posterior, table, rng)
    rows = posterior.trace["rows"]
    first, second = (part.reshape(-1, *rows.shape[2:]) for part in np.array_split(rows, 2, axis=1))
    mixture = OrderMixture.of_graphs(first, listed, rng)._replace(log_summed=summed)
    late = parents_of(second[:: -(-len(second) // n)])
    log_ratio = mixture.log_weights(late)
    outside = float(np.isposinf(log_ratio).mean())
    drawn = mixture.draw(n, rng)
    graphs = parents_of(drawn)
    log_q = mixture.log_f(drawn) + mixture.log_y(drawn)
    sample = ImportanceSample(graphs, log_q + mixture.log_weights(drawn), log_q)
    present = unpack_rows(graphs, len(options.names)).astype(np.float64)
    weights = sample.weights
    probability = np.einsum("g,gij->ij", weights, present)
    squared = np.einsum("g,gij->ij", weights**2, (present - probability) ** 2)
    inside = np.isfinite(log_ratio)
    ratio = np.exp(log_ratio[inside] - logsumexp(sample.log_weights) + np.log(n))
    seen = unpack_rows(parents_of(late[inside]), len(options.names)).astype(np.float64)
    by_chains = np.einsum("g,gij->ij", ratio, (seen - probability) ** 2) / (len(late) * n)
    mcse = np.sqrt(np.maximum(squared, by_chains))
    chain = posterior.edge_diagnostics
    i, j = np.nonzero(~np.eye(len(options.names), dtype=np.bool_))
    difference = chain.probability - probability
    difference = np.sign(difference) * np.maximum(np.abs(difference) - outside, 0.0)
    error = np.hypot(np.maximum(mcse, 1.0 / n), chain.mcse)
    frame = pd.DataFrame(
        {
            "source": [options.names[k] for k in i],
            "target": [options.names[k] for k in j],
            "probability": probability[i, j],
            "mcse": mcse[i, j],
            "chain": chain.probability[i, j],
            "chain_mcse": chain.mcse[i, j],
            "z": (difference / error)[i, j],
        }
    ).sort_values("z", key=np.abs, ascending=False, ignore_index=True)
    worst = frame.iloc[0]
    agrees, word, limit = all_agree(worst["z"], len(frame), sample.verdict.reliable)
    text = (
        f"{word}: of {len(frame)} edges {worst['source']} -> {worst['target']} differs most, {worst['chain']:.3f} by "
        f"the chains and {worst['probability']:.3f} by weighted draws, {abs(worst['z']):.1f} standard errors (limit "
        f"{limit:.1f}) beyond the {outside:.3f} of graphs that only the chains draw; {sample.ess:.0f} of {n} draws are "
        "effective."
    )
    return GraphBaseline(sample, frame, outside, agrees, text)
