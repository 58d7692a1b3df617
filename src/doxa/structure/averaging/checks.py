r"""Posterior predictive checks: does the table look like tables that the posterior would make?

Each drawn network makes a table of as many rows, with the same cells missing.  A statistic of the observed table is
held against its values in these replicas.  A tail probability near 0 or 1 says that the model does not make such
tables (Rubin 1984; Gelman, Meng & Stern 1996); it is conservative, for the posterior has seen the table, and of many
pairs some will be extreme by chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.data.table import check_categories
from doxa.models.categorical import draw_records
from doxa.structure.averaging.answers import mean_over_draws
from doxa.structure.averaging.draws import SampledGraphs, draw_networks
from doxa.structure.families.kind import FamilyKind

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["predictive_checks"]

Floats = NDArray[np.float64]

_REPLICAS = 400
_STREAM = 20_021  # keeps the stream of replicas apart from those of chains and tables


def predictive_checks(
    posterior: SampledGraphs,
    table: Table,
    *,
    replicas: int | None = _REPLICAS,
    prior: FamilyKind | None = None,
    seed: int | None = None,
) -> pd.DataFrame:
    """Marginal counts and pairwise mutual information of the table against those of tables that the posterior makes.

    Parameters
    ----------
    posterior : StructurePosterior
    table : Table
        The table that it was learned from.
    replicas : int, optional
        About how many tables to make, each by a network of its own; None for one of each draw of a graph.
    prior : FamilyKind, optional
        Of the parameters; that of the score when left out.
    seed : int, optional
        That of the run over graphs when left out.

    Returns
    -------
    pandas.DataFrame
        Columns ``statistic`` ("count", of a state in a column, or "mutual_information", nats, of two columns in the
        rows where neither is missing), ``column, other`` (the state, or the second column), ``observed, expected``
        (mean over replicas), ``lower, upper`` (their central 95%), ``tail`` (share of replicas with a larger value,
        half of equal ones), ``mcse`` (Monte Carlo error of the tail).

    Examples
    --------
    >>> import doxa
    >>> table = doxa.datasets.load("reinis")
    >>> found = predictive_checks(doxa.learn(table, seed=1), table, replicas=100)
    >>> len(found), sorted(set(found["statistic"]))
    (27, ['count', 'mutual_information'])
    """
    import pandas as pd

    check_categories(table, "a check of counts")
    draws = draw_networks(posterior, table, replicas, prior=prior, seed=seed)
    rng = np.random.default_rng(np.random.SeedSequence(draws.entropy, spawn_key=(_STREAM,)))
    codes = table.codes[draws.completed.row_of]
    missing = codes < 0
    sizes = np.array(draws.n_states, dtype=np.intp)
    starts = np.cumsum(sizes) - sizes
    observed = _statistics(codes, starts, draws.n_states)
    made = np.empty((len(draws), len(observed)))
    for t in range(len(draws)):
        order = [table.names.index(name) for name in draws.dag(t).topological_order()]
        tables = [np.exp(draws.log_table(t, node, mean=False)) for node in range(len(table.names))]
        replica = draw_records(table.n_rows, order, draws.parents[t], tables, rng)
        replica[missing] = -1
        made[t] = _statistics(replica, starts, draws.n_states)
    close = np.abs(made - observed) <= 1e-12 * np.maximum(1.0, np.abs(observed))
    larger = np.where(close, 0.5, made > observed).reshape(*draws.shape, -1)
    tails = mean_over_draws(larger, draws.reference_ess)
    lower, upper = np.quantile(made, [0.025, 0.975], axis=0)
    names = table.names
    counted = [("count", name, state) for name, states in zip(names, table.states, strict=True) for state in states]
    pairs = [("mutual_information", names[i], names[j]) for i, j in zip(*np.triu_indices(len(names), 1), strict=True)]
    frame = pd.DataFrame(counted + pairs, columns=["statistic", "column", "other"])
    numbers = {
        "observed": observed,
        "expected": made.mean(axis=0),
        "lower": lower,
        "upper": upper,
        "tail": tails.value[:-1],
        "mcse": tails.errors[:-1],
    }
    return frame.assign(**numbers)


def _statistics(codes: NDArray[np.integer], starts: NDArray[np.intp], n_states: tuple[int, ...]) -> Floats:
    """Counts of all states, then mutual information of all pairs of columns (nats) in rows where neither is missing."""
    n_rows, n = codes.shape
    indicators = np.zeros((n_rows, sum(n_states)), dtype=np.float64)
    row, column = np.nonzero(codes >= 0)
    indicators[row, starts[column] + codes[row, column]] = 1.0
    both = indicators.T @ indicators  # cases of every pair of states, exact below 2^53
    by_row = np.add.reduceat(both, starts, axis=1)  # [state, column]: cases of the state where the column is observed
    cases = np.add.reduceat(by_row, starts, axis=0)
    owner = np.repeat(np.arange(n), n_states)
    own, other = by_row[:, owner], by_row.T[owner]  # margins of each pair of states, within their pair of columns
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(both > 0, both * np.log(both * cases[np.ix_(owner, owner)] / (own * other)), 0.0)
        summed = np.add.reduceat(np.add.reduceat(terms, starts, axis=1), starts, axis=0)
        information = np.where(cases > 0, summed / cases, 0.0)
    upper = np.triu_indices(n, 1)
    return np.concatenate([np.diag(both), np.maximum(information[upper], 0.0)])
