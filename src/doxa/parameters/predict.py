"""Probabilities of the missing cells of rows, averaged over draws of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table, read_table
from doxa.data.coding import EmptyColumnsError
from doxa.data.table import check_categories
from doxa.errors import TableError
from doxa.estimates.batches import batch_means_error
from doxa.models.logistic_rows import binary_codes

if TYPE_CHECKING:
    import pandas as pd

    from doxa.models import LogisticNetwork

__all__ = ["predict_cells", "read_new_rows", "recode"]

Floats: TypeAlias = NDArray[np.float64]

_MOST_CELLS = 2**22  # probabilities held at once: 32 MB


def read_new_rows(rows: Any, network: LogisticNetwork, states: Mapping[str, tuple[str, ...]]) -> Table:
    """Rows to be predicted, in which a column without a value is a column that is missing in every row.

    Raises
    ------
    TableError
        If the source cannot be read.
    """
    if isinstance(rows, Table):
        return rows
    try:
        return read_table(rows)
    except EmptyColumnsError as error:
        known = [name for name in error.names if name in network.names]
        left = [name for name in known if name not in error.empty]
        if left:
            return read_table(rows, columns=left)
        if not known or not error.n_rows:
            raise
        labels = states.get(known[0], ("0", "1"))
        return Table.from_codes(known[:1], [labels], np.full((error.n_rows, 1), -1))


def recode(table: Table, network: LogisticNetwork, states: Mapping[str, tuple[str, ...]]) -> Table:
    """The network's columns with the codes that their labels had when the network was fitted.

    Raises
    ------
    TableError
        If a label is new, or no column is the network's.
    """
    names = [name for name in table.names if name in network.names]
    if not names:
        raise TableError(
            f"rows has no column of the network's: its columns are {', '.join(map(repr, table.names))}; the nodes are "
            f"{', '.join(map(repr, network.names))}"
        )
    check_categories(table, "a network of binary nodes", names)
    codes = table.select(names).codes.copy() if names != list(table.names) else table.codes.copy()
    chosen = table.select(names)
    labels = []
    for j, name in enumerate(names):
        known = states.get(name, chosen.states[j])
        for label in chosen.states[j]:
            if label not in known:
                raise TableError(
                    f"rows has {label!r} in column {name!r}; when the network was fitted its labels were "
                    f"{', '.join(map(repr, known))}"
                )
        order = np.array([*(known.index(label) for label in chosen.states[j]), -1], dtype=codes.dtype)
        codes[:, j] = order[chosen.codes[:, j]]
        labels.append(known)
    return Table.from_codes(names, labels, codes[chosen.row_index])


def predict_cells(network: LogisticNetwork, thetas: Mapping[str, Floats], table: Table) -> pd.DataFrame:
    r"""Posterior predictive probability of every missing cell being 1.

    Parameters
    ----------
    network : LogisticNetwork
    thetas : mapping of str to ndarray, shape (chain, draw, n_coefficients)
    table : Table
        Columns of the network's; nodes without a column are missing in every row.

    Returns
    -------
    pandas.DataFrame
        Columns ``row`` (of the source), ``node, probability, mcse, sd, lower, upper``; the last three are the standard
        deviation and the central 95% of :math:`P(x = 1 | observed, \theta)` over the posterior of theta.

    Notes
    -----
    :math:`P(x_v = 1 | x_o, D) = E_\theta [p(x_v = 1, x_o | \theta) / p(x_o | \theta)]`, other missing cells of the row
    summed out.
    """
    import pandas as pd

    from doxa.frames import ReadFrame

    codes = binary_codes(table, network.names)
    rows, nodes = np.nonzero(codes < 0)
    filled = codes[rows]
    filled[np.arange(len(rows)), nodes] = 1
    both = Table.from_codes(network.names, [("0", "1")] * len(network.names), np.concatenate([codes, filled]))
    shape = next(iter(thetas.values())).shape[:2]
    flat = {node: values.reshape(-1, values.shape[-1]) for node, values in thetas.items()}
    n_draws = shape[0] * shape[1]
    chances = np.empty((n_draws, len(rows)))
    likelihood = network.likelihood(both) if len(rows) else None
    step = max(1, _MOST_CELLS // max(1, both.n_distinct))
    for start in range(0, n_draws if likelihood is not None else 0, step):
        part = {node: values[start : start + step] for node, values in flat.items()}
        assert likelihood is not None
        log_rows = likelihood.log_rows(part)[..., both.row_index].reshape(-1, len(codes) + len(rows))
        chances[start : start + step] = np.exp(log_rows[:, len(codes) :] - log_rows[:, rows])
    columns = [_described(chances[:, k].reshape(shape)) for k in range(len(rows))]
    cells = pd.DataFrame(columns, columns=["probability", "mcse", "sd", "lower", "upper"], dtype=np.float64)
    cells.insert(0, "node", [network.names[v] for v in nodes])
    cells.insert(0, "distinct", rows)
    source = ReadFrame({"row": np.arange(table.n_rows), "distinct": table.row_index})
    return source.merge(cells, on="distinct", sort=False).drop(columns="distinct").reset_index(drop=True)


def _described(chances: Floats) -> tuple[float, float, float, float, float]:
    estimate = batch_means_error(chances)
    lower, upper = np.quantile(chances, (0.025, 0.975))
    return estimate.value, estimate.mcse, float(chances.std(ddof=1)), float(lower), float(upper)
