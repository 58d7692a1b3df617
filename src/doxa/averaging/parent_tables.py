"""Tables of a node over structures: probable parent sets with their conditional probabilities and their spread."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.averaging.draws import SampledGraphs, draw_networks
from doxa.averaging.words import column_of
from doxa.checks import check_whole
from doxa.data import Table
from doxa.estimates.estimate import check_prob
from doxa.structure.scores import K2, BDeu

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["parent_tables"]

Floats = NDArray[np.float64]


def parent_tables(
    posterior: SampledGraphs,
    table: Table,
    node: str,
    most: int = 5,
    *,
    prob: float = 0.95,
    prior: BDeu | K2 | None = None,
) -> pd.DataFrame:
    """The probable parent sets of a node, each with its table: posterior means and credible intervals of the entries.

    Parameters
    ----------
    posterior : StructurePosterior
    table : Table
        The table that it was learned from.
    node : str
    most : int, default=5
        Parent sets.
    prob : float, default=0.95
        Of the credible intervals.
    prior : BDeu or K2, optional
        Of the parameters; that of the score when left out.

    Returns
    -------
    pandas.DataFrame
        Columns ``parents`` (a tuple), ``probability, mcse`` (of the parent set, as `StructurePosterior.parent_sets`),
        ``given`` (states of the parents, a tuple), ``state, mean, lower, upper``: P(node = state | parents) given that
        these are its parents, with the spread of the posterior; ``cases``: rows of this configuration of the parents.

    Notes
    -----
    Given parents and a complete table an entry has a beta distribution, whose quantiles are exact.  With missing cells
    it is a mixture over draws of these: mean and cases are averages over the draws, the interval that of one draw of
    the parameters for each.  P(node = state | columns) *over* structures is `doxa.averaging.query.query`.

    Examples
    --------
    >>> import doxa
    >>> table = doxa.datasets.load("reinis")
    >>> found = parent_tables(doxa.learn(table, seed=1), table, "smoke", most=1)
    >>> list(found.columns)
    ['parents', 'probability', 'mcse', 'given', 'state', 'mean', 'lower', 'upper', 'cases']
    """
    import pandas as pd

    child = column_of("node", node, table.names)
    tail = (1 - check_prob(prob)) / 2
    draws = draw_networks(posterior, table, None, prior=prior)
    asked: Any = posterior
    sets = asked.parent_sets(node, check_whole("most", most, 1))
    frames = []
    for names, probability, mcse in zip(sets["parents"], sets["probability"], sets["mcse"], strict=True):
        parents = tuple(table.names.index(name) for name in names)
        family = (child, parents)
        if family not in draws.users:
            continue  # of an exact posterior: probable, and yet never drawn
        weights = draws.posterior_counts(family)
        means = weights / weights.sum(axis=-1, keepdims=True)
        if len(weights) == 1:
            lower, upper = _beta_quantiles(weights[0], tail), _beta_quantiles(weights[0], 1 - tail)
        else:
            drawn = np.exp(draws.drawn_tables(family)).reshape(len(draws.users[family]), *weights.shape[1:])
            lower, upper = np.quantile(drawn, [tail, 1 - tail], axis=0)
        q, r = weights.shape[1:]
        labels = list(product(*(table.states[p] for p in parents)))
        cases = draws.counts(family).sum(axis=-1).mean(axis=0)
        frames.append(
            pd.DataFrame(
                {
                    "parents": pd.Series([names] * (q * r), dtype=object),
                    "probability": probability,
                    "mcse": mcse,
                    "given": pd.Series([given for given in labels for _ in range(r)], dtype=object),
                    "state": list(table.states[child]) * q,
                    "mean": means.mean(axis=0).ravel(),
                    "lower": lower.ravel(),
                    "upper": upper.ravel(),
                    "cases": np.repeat(cases, r),
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def _beta_quantiles(weights: Floats, level: float) -> Floats:
    """Quantiles of the entries of Dirichlet distributions, one a row."""
    from scipy.special import betaincinv

    rest = weights.sum(axis=-1, keepdims=True) - weights
    if weights.shape[-1] == 1:
        return np.ones_like(weights)
    found: Floats = betaincinv(weights, rest, level)
    return found
