"""Tables of a node over structures: probable parent sets with their conditional probabilities and their spread."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.estimate import check_prob
from doxa.structure.averaging.draws import NetworkDraws, draw_networks
from doxa.structure.averaging.questions import column_of
from doxa.structure.families.kind import FamilyKind
from doxa.structure.families.tables import DirichletFamily

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["FamilyTable", "family_table", "parent_tables", "probable_parents"]

_DRAWS = 2000  # of the parameters of a family whose quantiles have no formula


class FamilyTable(NamedTuple):
    """P(node | parents) with its posterior spread; configurations in order, the last parent varying fastest."""

    mean: Floats  # (n_configurations, n_states)
    lower: Floats
    upper: Floats
    cases: Floats  # (n_configurations,): rows of each, averaged over what missing cells may hold
    sd: Floats  # of the entries


def parent_tables(
    posterior: StructurePosterior,
    table: Table,
    node: str,
    most: int = 5,
    *,
    prob: float = 0.95,
    prior: FamilyKind | None = None,
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
    prior : FamilyKind, optional
        Of the parameters; that of the score when left out.

    Returns
    -------
    pandas.DataFrame
        Columns ``parents`` (a tuple), ``probability, mcse`` (of the parent set, as `StructurePosterior.parent_sets`),
        ``given`` (states of the parents, a tuple), ``state, mean, lower, upper``: P(node = state | parents) given that
        these are its parents, with the spread of the posterior; ``cases``: rows of this configuration of the parents.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the column is unknown, or holds numbers, or all its probable parent sets do, or a number is out of range.

    Notes
    -----
    Each table is that of `family_table`.  P(node = state | columns) *over* structures is
    `doxa.structure.averaging.query.query`.

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
    if table.is_number[child]:
        raise ArgumentError(
            f"node is {node!r}, a column of numbers, which has regressions and no tables; take parent_regressions"
        )
    check_prob(prob)
    draws = draw_networks(posterior, table, None, prior=prior)
    frames = []
    for names, parents, probability, mcse in probable_parents(posterior, draws, node, most):
        if table.is_number[list(parents)].any():
            continue  # it has log odds (`parent_regressions`)
        found = family_table(draws, child, parents, prob=prob)
        q, r = found.mean.shape
        labels = list(product(*(table.states[p] for p in parents)))
        frames.append(
            pd.DataFrame(
                {
                    "parents": pd.Series([names] * (q * r), dtype=object),
                    "probability": probability,
                    "mcse": mcse,
                    "given": pd.Series([given for given in labels for _ in range(r)], dtype=object),
                    "state": list(table.states[child]) * q,
                    "mean": found.mean.ravel(),
                    "lower": found.lower.ravel(),
                    "upper": found.upper.ravel(),
                    "cases": np.repeat(found.cases, r),
                }
            )
        )
    if not frames:
        raise ArgumentError(f"every probable parent set of {node!r} has numbers, and no table; take parent_regressions")
    return pd.concat(frames, ignore_index=True)


def probable_parents(
    posterior: StructurePosterior, draws: NetworkDraws, node: str, most: int
) -> Iterator[tuple[tuple[str, ...], tuple[int, ...], float, float]]:
    """Names and positions of a node's probable parents, as far as they were drawn, with probability and its error."""
    sets, child = posterior.parent_sets(node, check_whole("most", most, 1)), draws.names.index(node)
    for names, probability, mcse in zip(sets["parents"], sets["probability"], sets["mcse"], strict=True):
        parents = tuple(draws.names.index(name) for name in names)
        if (child, parents) in draws.users:  # of an exact posterior, a set may be probable and yet never drawn
            yield names, parents, probability, mcse


def family_table(draws: NetworkDraws, node: int, parents: tuple[int, ...], *, prob: float = 0.95) -> FamilyTable:
    """The table of one family: posterior means and credible intervals of its entries.

    Parameters
    ----------
    draws : NetworkDraws
        Of which at least one has the family.
    node : int
        Position.
    parents : tuple of int
        Positions, increasing.
    prob : float, default=0.95
        Of the credible intervals.

    Raises
    ------
    ArgumentError
        If none of the networks has the family.

    Notes
    -----
    Given a complete table an entry has a beta distribution, whose quantiles are exact.  With missing cells it is a
    mixture over draws of these: mean and cases are averages over the draws, the interval that of one draw of the
    parameters for each.  Of families that may be logistic the interval is that of 2000 draws, whatever the graphs.

    Examples
    --------
    >>> import doxa
    >>> draws = doxa.learn(doxa.datasets.load("reinis"), seed=1).network_draws()
    >>> found = family_table(draws, 0, draws.parents[0][0])
    >>> bool((found.lower < found.mean).all() and (found.mean < found.upper).all())
    True
    """
    family = (node, parents)
    if family not in draws.users:
        names = ", ".join(repr(draws.names[j]) for j in parents) or "none"
        raise ArgumentError(
            f"none of the {len(draws)} networks gives {draws.names[node]!r} the parents {names}; draw more networks, "
            "or ask for parents that are likelier"
        )
    tail = (1 - check_prob(prob)) / 2
    cases = draws.counts(family).sum(axis=-1).mean(axis=0)
    mixed = draws.parameters_of(family)
    if not isinstance(mixed, DirichletFamily):
        tables = np.exp(mixed.log_tables(_DRAWS))
        lower, upper = np.quantile(tables, [tail, 1 - tail], axis=0)
        return FamilyTable(np.exp(mixed.log_means()), lower, upper, cases, tables.std(axis=0, ddof=1))
    weights = draws.posterior_counts(family)
    total = weights.sum(axis=-1, keepdims=True)
    given = weights / total  # posterior means given each completion
    means = given.mean(axis=0)
    sd = np.sqrt((given * (1 - given) / (total + 1)).mean(axis=0) + given.var(axis=0))
    if len(weights) == 1:
        lower, upper = _beta_quantiles(weights[0], tail), _beta_quantiles(weights[0], 1 - tail)
    else:
        drawn = np.exp(draws.drawn_tables(family)).reshape(len(draws.users[family]), *weights.shape[1:])
        lower, upper = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return FamilyTable(means, lower, upper, cases, sd)


def _beta_quantiles(weights: Floats, level: float) -> Floats:
    """Quantiles of the entries of Dirichlet distributions, one a row."""
    from scipy.special import betaincinv

    rest = weights.sum(axis=-1, keepdims=True) - weights
    if weights.shape[-1] == 1:
        return np.ones_like(weights)
    found: Floats = betaincinv(weights, rest, level)
    return found
