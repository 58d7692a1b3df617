r"""Posterior predictive checks: does the table look like tables that the posterior would make?

Each drawn network makes a table of as many rows, with the same cells missing.  A statistic of the observed table is
held against its values in these replicas.  A tail probability near 0 or 1 says that the model does not make such
tables (Rubin 1984; Gelman, Meng & Stern 1996); it is conservative, for the posterior has seen the table, and of many
pairs some will be extreme by chance.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.models.categorical import draw_records
from doxa.structure.averaging.answers import mean_over_draws
from doxa.structure.averaging.draws import NetworkDraws, draw_networks
from doxa.structure.averaging.number_draws import GaussianDraws
from doxa.structure.families.kind import FamilyKind

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["predictive_checks"]

_REPLICAS = 400
_STREAM = 20_021  # keeps the stream of replicas apart from those of chains and tables


def predictive_checks(
    posterior: StructurePosterior,
    table: Table,
    *,
    replicas: int | None = _REPLICAS,
    prior: FamilyKind | None = None,
    seed: int | None = None,
) -> pd.DataFrame:
    """Marginal counts and pairwise mutual information of the table against those of tables that the posterior makes.

    Of numbers means, standard deviations and skewnesses, their correlations, and how far categories tell them apart.

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
        rows where neither is missing; of numbers "mean" and "sd" in the unit of the column, "skewness", "correlation",
        and "correlation_ratio", of a category and a number: the share of the number's variance that is between the
        states), ``column, other`` (the state, or the second column, or nothing), ``observed, expected``
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

    if table.moments is not None:
        raise ArgumentError(
            f"the table has {table.n_rows} rows, of which only the moments are kept, and replicas are compared with "
            "rows; learn from fewer of them"
        )
    draws = draw_networks(posterior, table, replicas, prior=prior, seed=seed)
    rng = np.random.default_rng(np.random.SeedSequence(draws.entropy, spawn_key=(_STREAM,)))
    labels, observed, made = _compared(draws, rng)
    close = np.abs(made - observed) <= 1e-12 * np.maximum(1.0, np.abs(observed))
    larger = np.where(close, 0.5, made > observed).reshape(*draws.shape, -1)
    tails = mean_over_draws(larger, draws.reference_ess)
    lower, upper = np.quantile(made, [0.025, 0.975], axis=0)
    frame = pd.DataFrame(labels, columns=["statistic", "column", "other"])
    numbers = {
        "observed": observed,
        "expected": made.mean(axis=0),
        "lower": lower,
        "upper": upper,
        "tail": tails.value[:-1],
        "mcse": tails.errors[:-1],
    }
    return frame.assign(**numbers)


def _watched(draws: NetworkDraws) -> NDArray[np.intp]:
    """The table's distinct row of each row in which nobody intervened."""
    table, row_of = draws.completed.table, draws.completed.row_of
    if table.slices is not None:
        raise ArgumentError(
            "rows are moments in time, whose past is given, and replicas are tables that networks make from nothing; "
            "forecast(given=...) can be held against moments that were kept back"
        )
    if table.interventions is None:
        return row_of
    kept: NDArray[np.intp] = row_of[(table.interventions == 0).all(axis=1)[row_of]]
    if not len(kept):
        raise ArgumentError(
            "the table has interventions in every row, and what networks say is compared with rows in which nobody "
            "intervened"
        )
    return kept


def _compared(draws: NetworkDraws, rng: np.random.Generator) -> tuple[list[tuple[str, str, str]], Floats, Floats]:
    """Names of the statistics, those of the table, and those of a replica by each network."""
    table, row_of = draws.completed.table, _watched(draws)
    held, kept = (np.flatnonzero(draws.is_number == one).tolist() for one in (True, False))
    sizes = tuple(draws.n_states[j] for j in kept)
    missing = table.codes[row_of] < 0

    def statistics(codes: NDArray[np.integer], numbers: Floats | None) -> Floats:
        own = np.where(missing[:, kept], -1, codes[:, kept])
        counted = _statistics(own, sizes) if sizes else np.empty(0)
        if numbers is None:
            return counted
        assert isinstance(draws, GaussianDraws)  # which alone have numbers
        centre, scale = draws.scaling.centre[held], draws.scaling.scale[held]
        values = np.where(missing[:, held], np.nan, (numbers[:, held] - centre) / scale)
        found = _number_statistics(values, own, sizes)
        n = len(held)
        found[:n], found[n : 2 * n] = centre + scale * found[:n], scale * found[n : 2 * n]
        return np.concatenate([counted, found])

    observed = statistics(table.codes[row_of], None if table.numbers is None else table.numbers[row_of])
    made = np.stack([statistics(*_replica(draws, t, len(row_of), rng)) for t in range(len(draws))])
    numbers, categories = ([table.names[j] for j in columns] for columns in (held, kept))
    labels = [("count", table.names[j], state) for j in kept for state in table.states[j]]
    labels += [("mutual_information", a, b) for a, b in combinations(categories, 2)]
    labels += [(statistic, name, "") for statistic in ("mean", "sd", "skewness") for name in numbers]
    labels += [("correlation", a, b) for a, b in combinations(numbers, 2)]
    labels += [("correlation_ratio", a, b) for a in categories for b in numbers]
    return labels, observed, made


def _replica(
    draws: NetworkDraws, t: int, n_rows: int, rng: np.random.Generator
) -> tuple[NDArray[np.integer], Floats | None]:
    """Rows that one network makes: codes and, if there are any, numbers in the units of their columns."""
    if isinstance(draws, GaussianDraws):
        codes, numbers = draws.all[t].draw_cells(n_rows, rng)
        return codes, draws.restored(numbers)
    order = [draws.names.index(name) for name in draws.dag(t).topological_order()]
    tables = [np.exp(draws.log_table(t, node, mean=False)) for node in range(len(draws.names))]
    return draw_records(n_rows, order, draws.parents[t], tables, rng), None


def _number_statistics(values: Floats, codes: NDArray[np.integer], n_states: tuple[int, ...]) -> Floats:
    """Means, standard deviations and skewnesses of columns of numbers, correlations of their pairs, then, category by
    category, the share of each number's variance that is between the states; in rows where neither is missing.

    ``values`` are nan, ``codes`` -1 where missing.  What has no spread has a skewness, correlation or share of 0.
    """
    there = ~np.isnan(values)
    seen, x = there.astype(np.float64), np.where(there, values, 0.0)
    n = seen.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = x.sum(axis=0) / n
        around = np.where(there, x - mean, 0.0)
        variance = (around**2).sum(axis=0) / n
        skewness = np.nan_to_num((around**3).sum(axis=0) / n / variance**1.5)
        # [i, j]: of i where j is there, too
        cases, sums, squares = seen.T @ seen, around.T @ seen, (around**2).T @ seen
        spread = squares - sums**2 / cases
        products = around.T @ around - sums * sums.T / cases
        correlation = np.nan_to_num(products / np.sqrt(spread * spread.T))
        shares = []
        for k, size in enumerate(n_states):
            state = (codes[:, k, None] == np.arange(size)).astype(np.float64)
            in_state, own = state.T @ seen, state.T @ around
            level = own.sum(axis=0) ** 2 / in_state.sum(axis=0)
            between = np.where(in_state > 0, own**2 / in_state, 0.0).sum(axis=0) - level
            whole = state.sum(axis=1) @ around**2 - level
            shares.append(np.nan_to_num(np.where(whole > 0, between / whole, 0.0)))
        sd = np.sqrt(variance * n / (n - 1.0))
    pairs = correlation[np.triu_indices(len(n), 1)]
    return np.concatenate([mean, sd, skewness, pairs, *shares])


def _statistics(codes: NDArray[np.integer], n_states: tuple[int, ...]) -> Floats:
    """Counts of all states, then mutual information of all pairs of columns (nats) in rows where neither is missing."""
    n_rows, n = codes.shape
    starts = np.cumsum((0, *n_states[:-1]), dtype=np.intp)
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
