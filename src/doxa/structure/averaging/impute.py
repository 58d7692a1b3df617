r"""Missing cells: the probability of every state, and completed tables.

Draws hold a state for each missing cell.  What is averaged is not these but, draw by draw, the probability of each
state given the graph, the table and all other missing cells: it has the same mean and less noise (Rao and Blackwell):

.. math:: p(x_j = s \mid G, \text{rest}) \propto \prod_{i:\, i = j \text{ or } j \in \pi(i)}
          \frac{N_{i, cell(s)} + a_i}{N_{i, config(s)} + r_i a_i},

parameters integrated out and the cell's own row taken out of the counts N.  For i = j the denominator is the same for
all s.  Families that may be logistic have no such formula: there it is the probability given the drawn parameters, too,
:math:`p(x_j = s \mid G, \theta, \text{rest})`, the product of the families' own.  Of tables with numbers the draws
themselves are averaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.data import Table
from doxa.data.bins import codes_of_numbers
from doxa.errors import ArgumentError
from doxa.structure.averaging.answers import mean_over_draws
from doxa.structure.averaging.counts import Family
from doxa.structure.averaging.draws import N_NETWORKS, NetworkDraws, draw_networks
from doxa.structure.cases.incomplete.missing_cells import MissingCells, missing_cells_of
from doxa.structure.families.kind import FamilyKind
from doxa.structure.families.tables import cell_index

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["cell_state_probabilities", "completed_tables", "impute", "impute_of"]

_AT_ONCE = 2**22  # probabilities held at once: 32 MB
_STREAM = 20_022  # keeps the numbers that stand for bins apart from draws of chains


def impute(
    posterior: StructurePosterior, table: Table, *, networks: int | None = N_NETWORKS, prior: FamilyKind | None = None
) -> pd.DataFrame:
    """Probability of every state of every missing cell, given all that was observed.

    Parameters
    ----------
    posterior : StructurePosterior
        With draws of the missing cells.
    table : Table
        The table that it was learned from.
    networks, prior
        As for `doxa.structure.averaging.query.query`: how many draws to average over.

    Returns
    -------
    pandas.DataFrame
        Columns ``row`` (of the source, from 0; ``unit`` and ``time`` where rows are moments), ``column, state,
        probability, mcse``, by row and column; states in their order.  Empty where nothing is missing.  Of tables with
        columns of numbers also ``mean, sd, lower, upper`` of each missing number, the last two its central 95%, with
        the error of the mean.

    Notes
    -----
    Cells are assumed missing at random.  Probabilities of several cells of a row do not multiply: for what holds
    together use `completed_tables`.
    """
    if table.numbers is not None or table.interventions is not None or table.slices is not None:
        return _impute_from_draws(posterior, table)
    return impute_of(draw_networks(posterior, table, networks, prior=prior))


def _impute_from_draws(posterior: StructurePosterior, table: Table) -> pd.DataFrame:
    """`impute` by the draws of the cells themselves."""
    from doxa.frames import ReadFrame

    missing, cells = _drawn_cells(posterior, table)
    rows = []
    shared, labels = missing.shared, ["row"] if missing.shared is None else ["unit", "time"]
    for cell in _in_order(table, missing).tolist():
        if shared is not None and shared.owner[cell] != cell:
            continue
        column, draws = int(missing.column[cell]), cells[..., cell]
        place = _place(table, int(missing.source_row[missing.row[cell]]), column)
        if table.states[column]:
            states = np.arange(len(table.states[column]))
            found = mean_over_draws((draws[..., None] == states).astype(np.float64), posterior.reference_ess)
            for label, value, error in zip(table.states[column], found.value, found.errors, strict=False):
                rows.append({**place, "state": label, "probability": value, "mcse": error})
        else:
            found = mean_over_draws(draws[..., None], posterior.reference_ess)
            lower, upper = np.quantile(draws, [0.025, 0.975])
            spread = {"mean": draws.mean(), "sd": draws.std(ddof=1), "lower": lower, "upper": upper}
            rows.append({**place, **spread, "mcse": float(np.nan_to_num(found.mcse[0]))})
    columns = [*labels, "column", "state", "probability", "mean", "sd", "lower", "upper", "mcse"]
    return ReadFrame(rows, columns=columns)


def _in_order(table: Table, missing: MissingCells) -> NDArray[np.intp]:
    """The missing cells by row and column, or by unit, time and column."""
    row = missing.source_row[missing.row]
    if table.slices is None:
        return np.lexsort((missing.column, row))
    lag, own = np.divmod(missing.column, table.slices.width)
    return np.lexsort((own, row - lag, table.slices.stretch[row]))


def _place(table: Table, row: int, column: int) -> dict[str, Any]:
    """Where a missing cell is: in which row, or of which unit and when."""
    slices = table.slices
    if slices is None:
        return {"row": row, "column": table.names[column]}
    lag, own = divmod(column, slices.width)
    return {"unit": slices.units[row], "time": slices.times[lag][row], "column": table.names[own]}


def _drawn_cells(posterior: StructurePosterior, table: Table) -> tuple[MissingCells, Floats]:
    """The missing cells and their draws, shape (n_chains, n_draws, n_missing): codes, and numbers in their own unit."""
    missing = missing_cells_of(table)
    cells = np.zeros((*posterior.trace["n_edges"].shape, 0))
    if missing.n_missing:
        cells = posterior.trace["cells"].astype(np.float64)
    is_number, scaling = missing.is_number, missing.numbers
    if scaling is not None and is_number.any():
        cells[..., is_number] = scaling.restored(cells[..., is_number], missing.column[is_number])
    return missing, cells


def impute_of(draws: NetworkDraws) -> pd.DataFrame:
    """`impute` by networks that are drawn already."""
    import pandas as pd

    from doxa.frames import ReadFrame

    completed = draws.completed
    parts = []
    for j, name in enumerate(draws.names):
        rows = np.flatnonzero(completed.missing_cell_of[:, j] >= 0)
        r = draws.n_states[j]
        step = max(1, _AT_ONCE // (len(draws) * r))
        for first in range(0, len(rows), step):
            chosen = rows[first : first + step]
            probabilities = cell_state_probabilities(draws, j, chosen)
            means = mean_over_draws(probabilities.reshape(*draws.shape, -1), draws.reference_ess)
            parts.append(
                ReadFrame(
                    {
                        "row": np.repeat(completed.source_row[chosen], r),
                        "position": j,
                        "column": name,
                        "state": list(draws.states[j]) * len(chosen),
                        "probability": means.value[:-1],
                        "mcse": means.errors[:-1],
                    }
                )
            )
    columns = ["row", "column", "state", "probability", "mcse"]
    if not parts:
        return ReadFrame({name: [] for name in columns})
    found = pd.concat(parts).sort_values(["row", "position"], kind="stable", ignore_index=True)
    return found[columns]


def cell_state_probabilities(draws: NetworkDraws, j: int, rows: NDArray[np.intp]) -> Floats:
    """p(cell = state | graph, all other cells) of a column in some rows, in every draw.

    Parameters
    ----------
    draws : NetworkDraws
    j : int
        Column.
    rows : ndarray of int, shape (n_rows,)
        Rows of the expanded table (`doxa.structure.averaging.counts.CompletedTable`) in which it is missing.

    Returns
    -------
    ndarray of float, shape (n_networks, n_rows, n_states)
    """
    log_p = np.zeros((len(draws), len(rows), draws.n_states[j]))
    for family, members in draws.users.items():
        if j == family[0] or j in family[1]:
            log_p[members] += _log_terms(draws, family, members, j, rows)
    log_p -= log_p.max(axis=-1, keepdims=True)
    probabilities: Floats = np.exp(log_p)
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    return probabilities


def _log_terms(
    draws: NetworkDraws, family: Family, members: NDArray[np.intp], j: int, rows: NDArray[np.intp]
) -> Floats:
    """What one family adds to the log probabilities, (n_members, n_rows, n_states of j)."""
    completed, own = draws.completed, draws.draws[members]
    columns = [*family[1], family[0]]
    sizes = [draws.n_states[i] for i in columns]
    at = columns.index(j)
    codes = [completed.column(i, rows, own) for i in columns]
    now = codes[at]
    codes[at] = np.zeros_like(now)
    stride = int(np.prod(sizes[at + 1 :]))
    cells = cell_index(codes, sizes)[..., None] + stride * np.arange(sizes[at])
    if not draws.is_of_tables:
        tables = draws.drawn_tables(family).reshape(len(own), -1)
        return np.asarray(np.take_along_axis(tables, cells.reshape(len(own), -1), axis=1).reshape(cells.shape))
    counts = draws.counts(family)
    prior = draws.prior.cell_prior(*counts.shape[1:])
    is_own = now[..., None] == np.arange(sizes[at])  # where the row itself was counted
    which = np.arange(len(own))[:, None, None]
    found = np.log(counts.reshape(len(counts), -1)[which, cells] - is_own + prior)
    if j != family[0]:
        total = counts.sum(axis=-1)
        found -= np.log(total[which, cells // sizes[-1]] - is_own + sizes[-1] * prior)
    return np.asarray(found)


def completed_tables(posterior: StructurePosterior, table: Table, n: int = 10) -> list[pd.DataFrame]:
    """The table with every missing cell filled in, several times: draws from the posterior of the missing cells.

    Parameters
    ----------
    posterior, table
        As for `impute`.
    n : int, default=10
        How many, at even distances along the chains.

    Returns
    -------
    list of pandas.DataFrame
        Labels and numbers, in the rows of the source (where rows are moments in time, those that have their past, with
        unit and time); what was observed stays as it was.  Columns that were cut into
        bins hold their numbers, and a missing one that is drawn in a bin is one of the numbers observed there.

    Raises
    ------
    ArgumentError
        If ``n`` is larger than the number of draws.
    """
    import pandas as pd

    check_whole("n", n, 1)
    n_draws = posterior.trace["n_edges"].size
    if n > n_draws:
        raise ArgumentError(f"n is {n}; the posterior has {n_draws} draws of the table")
    chosen = (2 * np.arange(n) + 1) * n_draws // (2 * n)
    own = posterior.trace.entropy
    rng = np.random.default_rng(np.random.SeedSequence(0 if own is None else own, spawn_key=(_STREAM,)))
    if table.numbers is not None:
        missing, cells = _drawn_cells(posterior, table)
        kept = cells.reshape(n_draws, missing.n_missing)[chosen]
        return [_when(posterior, table, _completed(table, missing, drawn, rng)) for drawn in kept]
    draws = draw_networks(posterior, table, None)
    completed = draws.completed
    everyone = np.arange(table.n_rows)
    order = np.empty(table.n_rows, dtype=np.intp)
    order[completed.source_row] = everyone
    frames = []
    for t in chosen:
        codes = [completed.column(j, everyone, draws.draws[[t]])[0][order] for j in range(table.n_columns)]
        frame = pd.DataFrame({name: _values(table, j, codes[j], rng) for j, name in enumerate(table.names)})
        frames.append(_when(posterior, table, frame))
    return frames


def _when(posterior: StructurePosterior, table: Table, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with columns of units and times in front, where rows are moments."""
    order = posterior.options.order
    if table.slices is None or order is None:
        return frame
    frame.insert(0, order.time, list(table.slices.times[0]))
    if order.unit is not None:
        frame.insert(0, order.unit, list(table.slices.units))
    return frame


def _values(table: Table, j: int, codes: NDArray[np.integer], rng: np.random.Generator) -> NDArray[Any]:
    """The completed cells of a column of categories by row: labels, or numbers where it was cut into bins."""
    name = table.names[j]
    if name not in table.measured:
        return np.asarray(np.array(table.states[j], dtype=object)[codes])
    values = table.measured[name].copy()
    cuts = table.cuts[name]
    bins = codes_of_numbers(cuts, values)
    for k in np.unique(codes[bins < 0]):
        rows, inside = np.flatnonzero((bins < 0) & (codes == k)), values[bins == k]
        values[rows] = rng.choice(inside, rows.size) if inside.size else np.mean(cuts[max(0, k - 1) : k + 1])
    return values


def _completed(table: Table, missing: MissingCells, drawn: Floats, rng: np.random.Generator) -> pd.DataFrame:
    """A table with numbers, its missing cells from one draw, shape (n_missing,)."""
    import pandas as pd

    assert table.numbers is not None  # the caller saw to it
    codes, numbers = table.codes[table.row_index], table.numbers[table.row_index]
    rows = missing.source_row[missing.row]
    is_number = missing.is_number
    codes[rows, missing.column] = np.where(is_number, 0, drawn).astype(np.int16)
    numbers[rows[is_number], missing.column[is_number]] = drawn[is_number]
    return pd.DataFrame(
        {
            name: _values(table, j, codes[:, j], rng) if states else numbers[:, j]
            for j, (name, states) in enumerate(zip(table.names, table.states, strict=True))
        }
    )
