r"""New rows: what their missing cells are, and how probable they were.

Both are predictive probabilities (`doxa.structure.averaging.query`): for a row of which x was observed

.. math:: p(y \mid x, D) = \frac{\sum_G P(G \mid D)\, p(y, x \mid G, D)}{\sum_G P(G \mid D)\, p(x \mid G, D)},

each term in the network of posterior mean parameters.  Rows are predicted one by one: none teaches the network
anything about the next.  They are coded as the table was that the posterior was learned from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.data import Table
from doxa.data.bins import codes_of_numbers
from doxa.data.coding import EmptyColumnsError
from doxa.data.read import read_without_empty
from doxa.data.table import check_categories
from doxa.errors import ArgumentError
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.estimate import Estimate
from doxa.inference.exact import Budget
from doxa.structure.averaging.answers import mean_over_draws, weighted_mean
from doxa.structure.averaging.draws import N_NETWORKS, NetworkDraws, draw_networks
from doxa.structure.averaging.questions import column_of, number_of
from doxa.structure.averaging.rows import RowProbabilities
from doxa.structure.families.kind import FamilyKind
from doxa.text import near

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = [
    "LogScore",
    "NewRows",
    "extended",
    "log_score",
    "log_score_of",
    "places_of_states",
    "predict",
    "predict_of",
    "read_rows",
    "row_table",
]


class NewRows(NamedTuple):
    """Distinct rows in the codes of the table they are held against."""

    codes: NDArray[np.int64]  # (n_distinct, n_columns); -1 missing; n_states of the column where the state is new
    row_index: NDArray[np.integer]  # (n_rows,): the distinct row of each row


def read_rows(rows: Any, like: Table, unseen: str = "error") -> NewRows:
    """Code rows.

    Parameters
    ----------
    rows : Table, data frame or path
        Columns that are not there, or all missing, are missing in every row.  Columns that were cut into bins hold
        numbers, which are cut where those of the table were, or labels of bins.
    like : Table
        The table that the posterior was learned from.
    unseen : str
        ``"error"`` or ``"prior"``: what to do about a state that the table does not have.

    Raises
    ------
    ArgumentError
        If a column is unknown, or a state is and ``unseen`` is "error"; close matches are suggested.
    """
    if unseen not in ("error", "prior"):
        raise ArgumentError(f"unseen is {unseen!r}; it must be 'error' or 'prior'")
    table = row_table(rows, like.names)
    for name in table.names:
        if name not in like.names:
            raise ArgumentError(
                f"rows has the column {name!r}, which the posterior does not know; {near(name, like.names)}; leave it "
                "out"
            )
    check_categories(table, "a posterior of categories", [name for name in table.names if name not in like.cuts])
    codes = np.full((table.n_distinct, len(like.names)), -1, dtype=np.int64)
    for j, name in enumerate(table.names):
        column = like.names.index(name)
        if table.is_number[j]:
            assert table.numbers is not None
            codes[:, column] = codes_of_numbers(like.cuts[name], table.numbers[:, j])
        else:
            places = places_of_states(table, j, like, column, unseen)
            codes[:, column] = np.array([*places, -1])[table.codes[:, j]]
    return NewRows(codes, table.row_index)


def places_of_states(table: Table, j: int, like: Table, column: int, unseen: str) -> list[int]:
    """Codes of the states of a column of new rows."""
    name, known = table.names[j], list(like.states[column])
    places = []
    for k, label in enumerate(table.states[j]):
        number = number_of(label) if name in like.cuts and label not in known else None
        if number is not None:
            places.append(int(codes_of_numbers(like.cuts[name], np.array([number]))[0]))
            continue
        if label not in known and unseen == "error" and (table.codes[:, j] == k).any():
            way = "unseen='prior' gives it the prior's share"
            if name in like.cuts:
                way = "give its numbers as they are, without bins: they are cut where those of the table were"
            raise ArgumentError(
                f"rows has {label!r} in column {name!r}, a state that the posterior was not learned with; "
                f"{near(label, known)}; {way}"
            )
        places.append(known.index(label) if label in known else len(known))
    return places


def extended(table: Table, columns: Sequence[int]) -> Table:
    """The table with one more state in some columns, in which no row is."""
    states = [list(labels) for labels in table.states]
    for j in columns:
        label = "(unseen)"
        while label in states[j]:
            label += "'"
        states[j].append(label)
    return Table.from_codes(table.names, states, table.codes, table.counts)


def row_table(rows: Any, known: Sequence[str] = ()) -> Table:
    """New rows as a table, columns without a cell left out."""
    if isinstance(rows, Table):
        return rows
    try:
        return read_without_empty(rows, known=known)
    except EmptyColumnsError:
        raise ArgumentError("rows has no cell that is observed; give at least one") from None


@dataclass(frozen=True, eq=False)
class LogScore:
    """How probable new rows were, in nats.

    Attributes
    ----------
    rows : pandas.DataFrame
        Columns ``row, log_probability, mcse``: log p(observed cells of the row | D).
    total : Estimate
        Their sum, the held-out log likelihood of rows that are predicted one by one.  Rows share networks, and so does
        its error.
    """

    rows: pd.DataFrame
    total: Estimate

    @property
    def mean(self) -> Estimate:
        """The log score of a row, on average."""
        n = len(self.rows)
        return Estimate(self.total.value / n, self.total.mcse / n, self.total.ess, self.total.exact, self.total.law)


def predict(
    posterior: StructurePosterior,
    table: Table,
    rows: Any,
    target: str | None = None,
    *,
    unseen: str = "error",
    networks: int | None = N_NETWORKS,
    prior: FamilyKind | None = None,
    exact_budget: Budget | int | None = None,
) -> pd.DataFrame:
    """Predictive probabilities of one column, or of all missing cells, of every row.

    Parameters
    ----------
    posterior : StructurePosterior
    table : Table
        The table that it was learned from.
    rows : Table, data frame or path
        Any cells may be missing; a column that is not there is missing in every row.
    target : str, optional
        A column to predict in every row from the others: what ``rows`` has there is not looked at.  When left out, all
        missing cells.
    unseen : {"error", "prior"}
        A state that the table does not have is an error, or gets the prior's share: the row is predicted as if the
        column had been declared with one more state that no case was in (under BDeu each cell of a family of r + 1
        states gets alpha / (q (r + 1)); a configuration with the new state says nothing about a child).  The graphs
        are those learned without it.
    networks, prior, exact_budget
        As for `doxa.structure.averaging.query.query`.

    Returns
    -------
    pandas.DataFrame
        Columns ``row`` (of ``rows``, from 0), ``column, state, probability, mcse``; states in their order.

    Raises
    ------
    ArgumentError
        If a column or state is unknown.
    BudgetError
        If a row has so many missing cells that exact inference is too costly.

    Examples
    --------
    >>> import doxa, pandas
    >>> table = doxa.datasets.load("reinis")
    >>> rows = pandas.DataFrame({"phys": ["no", "yes"], "mental": ["yes", None]})
    >>> found = predict(doxa.learn(table, seed=1), table, rows, "smoke")
    >>> found[["row", "state"]].values.tolist()
    [[0, 'no'], [0, 'yes'], [1, 'no'], [1, 'yes']]
    """
    return predict_of(draw_networks(posterior, table, networks, prior=prior), rows, target, unseen, exact_budget)


def predict_of(
    draws: NetworkDraws,
    rows: Any,
    target: str | None = None,
    unseen: str = "error",
    exact_budget: Budget | int | None = None,
) -> pd.DataFrame:
    """`predict` by networks that are drawn already."""
    from doxa.frames import ReadFrame

    if draws.completed.table.numbers is not None:
        from doxa.structure.averaging.numbers import predict_numbers

        return predict_numbers(draws, rows, target)  # type: ignore[arg-type]  # such a table has such draws
    asked = None if target is None else column_of("target", target, draws.names)
    new = read_rows(rows, draws.completed.table, unseen)
    if asked is not None:
        new.codes[:, asked] = -1
    found: dict[int, list[tuple[str, str, float, float]]] = {}
    for i, missing_cells, own, log_weight, probabilities in _rows_in_networks(draws, new, exact_budget):
        found[i] = []
        if not missing_cells:
            continue
        starts = np.cumsum([own.n_states[j] for j in missing_cells])
        if asked is not None:
            k = missing_cells.index(asked)
            probabilities = probabilities[:, starts[k] - own.n_states[asked] : starts[k]]
            missing_cells = [asked]
        means = weighted_mean(probabilities, log_weight, own.shape, own.reference_ess).means
        labels = [(draws.names[j], state) for j in missing_cells for state in draws.states[j]]
        errors = means.errors
        found[i] = [(*label, float(means.value[k]), float(errors[k])) for k, label in enumerate(labels)]
    cells = [(row, *cell) for row, i in enumerate(new.row_index.tolist()) for cell in found[i]]
    return ReadFrame(cells, columns=["row", "column", "state", "probability", "mcse"])


def log_score(
    posterior: StructurePosterior,
    table: Table,
    rows: Any,
    *,
    unseen: str = "error",
    networks: int | None = N_NETWORKS,
    prior: FamilyKind | None = None,
    exact_budget: Budget | int | None = None,
) -> LogScore:
    """Log predictive probability of new rows: log p(row | D), missing cells summed out.

    Parameters
    ----------
    posterior, table, rows, unseen, networks, prior, exact_budget
        As for `predict`.

    Returns
    -------
    LogScore

    Notes
    -----
    The sum over rows is not the log of the rows' joint predictive probability, in which the first would teach the
    network about the next.  Errors are those of the logarithm, to first order, and know of no mode that chains never
    met.

    Examples
    --------
    >>> import doxa
    >>> table = doxa.datasets.load("reinis")
    >>> score = log_score(doxa.learn(table, seed=1), table, table)
    >>> len(score.rows), bool(-3.7 < score.mean.value < -3.6)
    (1841, True)
    """
    return log_score_of(draw_networks(posterior, table, networks, prior=prior), rows, unseen, exact_budget)


def log_score_of(
    draws: NetworkDraws, rows: Any, unseen: str = "error", exact_budget: Budget | int | None = None
) -> LogScore:
    """`log_score` by networks that are drawn already."""
    if draws.completed.table.numbers is not None:
        from doxa.structure.averaging.numbers import log_evidence_of

        logs = log_evidence_of(draws, rows)  # type: ignore[arg-type]  # such a table has such draws
        return _score_of(draws, enumerate(logs.T), np.arange(logs.shape[1]), logs.shape[1])
    new = read_rows(rows, draws.completed.table, unseen)
    found = ((i, log_weight) for i, _, _, log_weight, _ in _rows_in_networks(draws, new, exact_budget))
    return _score_of(draws, found, new.row_index, len(new.codes))


def _score_of(
    draws: NetworkDraws, found: Iterable[tuple[int, Floats]], row_index: NDArray[np.integer], n_distinct: int
) -> LogScore:
    """The score of rows, from the log probability of each distinct one in every network."""
    from doxa.frames import ReadFrame

    times = np.bincount(row_index, minlength=n_distinct)
    logs, errors = np.empty(n_distinct), np.empty(n_distinct)
    relative = np.zeros(draws.shape)
    for i, log_weight in found:
        peak = log_weight.max()
        weight = np.exp(log_weight - peak).reshape(draws.shape)
        logs[i] = peak + np.log(weight.mean())
        share = weight / weight.mean()
        relative += times[i] * share
        moved = mean_over_draws(share[:, :, None], draws.reference_ess).mcse[0]
        errors[i] = 0.0 if np.isnan(moved) else moved
    total = float(logs @ times)
    spread = diagnose_real(relative).estimate
    frame = ReadFrame(
        {
            "row": np.arange(len(row_index)),
            "log_probability": logs[row_index],
            "mcse": errors[row_index],
        }
    )
    return LogScore(frame, Estimate(total, spread.mcse, spread.ess, law=spread.law))


def _rows_in_networks(
    draws: NetworkDraws, new: NewRows, budget: Budget | int | None
) -> Iterator[tuple[int, list[int], NetworkDraws, Floats, Floats]]:
    """Distinct rows: number, missing cells, networks, and log evidence and probabilities in these."""
    sizes = np.array(draws.n_states)
    is_new = new.codes >= sizes
    groups: dict[tuple[int, ...], list[int]] = {}
    for i in range(len(new.codes)):
        groups.setdefault(tuple(np.flatnonzero(is_new[i]).tolist()), []).append(i)
    for columns, members in groups.items():
        own = draws.with_table(extended(draws.completed.table, columns)) if columns else draws
        probabilities = RowProbabilities(own, budget)
        for i in members:
            missing_cells = np.flatnonzero(new.codes[i] < 0).tolist()
            yield i, missing_cells, own, *probabilities.of(new.codes[i], missing_cells)
