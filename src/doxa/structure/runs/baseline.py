"""Importance resampling for graphs: what a sampled posterior is held against (slides on stochastic inference, step 6).

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
from scipy.special import logsumexp

from doxa.checks import check_whole
from doxa.data import Table
from doxa.models.bits import unpack_rows
from doxa.sampling.importance import ImportanceSample
from doxa.sampling.importance_baseline import all_agree
from doxa.structure.exact.order_sums import OrderMixture, parents_of
from doxa.structure.runs.evidence import listed_sets

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["GraphBaseline", "graph_baseline"]


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
