"""`ParameterPosterior`: draws of the parameters, and what a fit says of them, with its Monte Carlo error.

Draws of parameters in the shapes that other tools read.

Probabilities of the missing cells of rows, averaged over draws of the parameters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.arrays import Floats
from doxa.data import Table, read_table
from doxa.data.coding import EmptyColumnsError
from doxa.data.table import check_categories
from doxa.errors import MissingExtraError, TableError
from doxa.estimates.batches import batch_means_error
from doxa.estimates.diagnostics import RealDiagnosis, diagnose_real
from doxa.models.logistic_rows import binary_codes
from doxa.parameters.drawing import chains_of
from doxa.parameters.fitted import FittedParameters
from doxa.parameters.targets import RootPosterior

if TYPE_CHECKING:
    import pandas as pd

    from doxa.models import LogisticNetwork

__all__ = ["ParameterPosterior", "predict_cells", "read_new_rows", "recode"]


_MOST_CELLS = 2**22  # probabilities held at once: 32 MB


def read_new_rows(rows: Any, network: LogisticNetwork, states: Mapping[str, tuple[str, ...]]) -> Table:
    """Rows to be predicted, in which a column without a value is a column that is missing in every row."""
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
    """The network's columns with the codes that their labels had when the network was fitted."""
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
    probabilities = np.empty((n_draws, len(rows)))
    likelihood = network.likelihood(both) if len(rows) else None
    step = max(1, _MOST_CELLS // max(1, both.n_distinct))
    for start in range(0, n_draws if likelihood is not None else 0, step):
        part = {node: values[start : start + step] for node, values in flat.items()}
        assert likelihood is not None
        log_rows = likelihood.log_rows(part)[..., both.row_index].reshape(-1, len(codes) + len(rows))
        probabilities[start : start + step] = np.exp(log_rows[:, len(codes) :] - log_rows[:, rows])
    columns = [_described(probabilities[:, k].reshape(shape)) for k in range(len(rows))]
    cells = pd.DataFrame(columns, columns=["probability", "mcse", "sd", "lower", "upper"], dtype=np.float64)
    cells.insert(0, "node", [network.names[v] for v in nodes])
    cells.insert(0, "distinct", rows)
    source = ReadFrame({"row": np.arange(table.n_rows), "distinct": table.row_index})
    return source.merge(cells, on="distinct", sort=False).drop(columns="distinct").reset_index(drop=True)


def _described(probabilities: Floats) -> tuple[float, float, float, float, float]:
    estimate = batch_means_error(probabilities)
    lower, upper = np.quantile(probabilities, (0.025, 0.975))
    return estimate.value, estimate.mcse, float(probabilities.std(ddof=1)), float(lower), float(upper)


_PREDICTED_WITH = 2000  # draws of all chains, evenly spaced; more would narrow errors that are small already


class ParameterPosterior(FittedParameters):
    """The posterior of a network's parameters, as drawn by `doxa.fit`.

    Attributes
    ----------
    network : LogisticNetwork
    states : dict of str to tuple of str
        Labels of each observed node's values; the second is 1.
    trace : Trace
        Draws of each part k of the posterior, ``k.theta`` (group, draw, walker, coefficient), with ``k.log_density``
        (nats) and ``k.acceptance``; a learned root is represented by the logit of its probability, and left out where
        that is known exactly: `draws` makes its draws from the seed.
    report : FitReport
        How each part was drawn, and why so.
    stop : StopReport or None
        Why the run stopped.

    Examples
    --------
    >>> import doxa
    >>> network = doxa.LogisticNetwork({"systol": ["smoke", "phys"]})
    >>> fit = doxa.fit(network, doxa.datasets.load("reinis"), seed=1)
    >>> fit.draws("systol").shape, fit.converged
    ((4, 1525, 3), True)
    """

    @property
    def kept(self) -> str:
        """What is kept of the chains, in words."""
        return "draws"

    def draws(self, node: str) -> Floats:
        """Draws of a node's parameters, shape (chain, draw, coefficient), in the order of `coefficients`.

        For a learned root its probability; by the name of a learned scale of the prior, that.  ArgumentError if the
        node has no parameters.
        """
        k = self._part(node)
        packing = self._packings[k]
        return packing.unpack(self._vectors(k))[node]

    def log_density(self, node: str) -> Floats:
        """Log of prior times likelihood (nats) of the part that holds a node, at each draw, shape (chain, draw).

        With data augmentation, that of the parameters and the hidden values drawn with them.
        """
        k = self._part(node)
        if (root := self._drawn_later(k)) is not None:
            vectors = self._vectors(k)
            return root.log_density(vectors.reshape(-1, 1)).reshape(vectors.shape[:2])
        return chains_of(self.trace[f"{k}.log_density"])

    def _drawn_later(self, k: int) -> RootPosterior | None:
        """The law of part k, if no chain has drawn it."""
        return None if f"{k}.theta" in self.trace.names else RootPosterior(*self.report.parts[k].counts)

    def _vectors(self, k: int) -> Floats:
        """Draws of part k as free numbers, shape (chain, draw, d)."""
        root = self._drawn_later(k)
        if root is None:
            return chains_of(self.trace[f"{k}.theta"])
        if k not in self._made:
            self._made[k] = root.chains(self.trace, k)
        return self._made[k]

    @cached_property
    def _made(self) -> dict[int, Floats]:
        """Draws that no chain has made, by their part."""
        return {}

    def predict(self, rows: Table | Any | str | os.PathLike[str]) -> pd.DataFrame:
        """Posterior predictive probabilities of the missing cells of rows.

        Parameters
        ----------
        rows : Table, data frame or path
            As `doxa.read_table` takes it.  What is missing is predicted given what is there; so is a node without a
            column, in every row.

        Returns
        -------
        pandas.DataFrame
            Columns ``row, node, probability, mcse, sd, lower, upper``: the probability that the cell is 1 (the second
            state), averaged over the posterior, its Monte Carlo error, and how it varies over the posterior.

        Raises
        ------
        TableError
            If no column is the network's, or a label is new.

        Examples
        --------
        >>> import doxa, pandas as pd
        >>> network = doxa.LogisticNetwork({"systol": ["smoke"]}, roots={"smoke": 0.5})
        >>> fit = doxa.fit(network, doxa.datasets.load("reinis"), seed=1)
        >>> fit.predict(pd.DataFrame({"smoke": ["yes", "no"]}))[["row", "node", "probability"]].round(2)
           row    node  probability
        0    0  systol         0.39
        1    1  systol         0.46
        """
        table = read_new_rows(rows, self.network, self.states)
        return predict_cells(self.network, self._thinned(), recode(table, self.network, self.states))

    def to_arviz(self) -> Any:
        """Draws as an ArviZ DataTree, a variable for each node with dimensions (chain, draw, coefficient).

        Raises
        ------
        MissingExtraError
            If arviz-base is not installed (``pip install 'doxa[arviz]'``).
        """
        try:
            from arviz_base import from_dict
        except ModuleNotFoundError as error:
            raise MissingExtraError("to_arviz needs the package arviz-base: pip install 'doxa[arviz]'") from error
        draws = {node: self.draws(node) for node in self.network.parameters}
        dims = {node: [f"{node} coefficient"] for node in draws}
        coords = {f"{node} coefficient": list(self.network.coefficients(node)) for node in draws}
        tree = from_dict({"posterior": draws}, coords=coords, dims=dims)
        made = {"method": str(self.report.method), "thin": self.trace.thin, "n_warmup": self.trace.n_warmup}
        tree["posterior"].attrs.update(made, seed=str(self.trace.entropy))
        return tree

    def to_frame(self) -> pd.DataFrame:
        """Draws as a plain frame: ``chain, draw``, and a column ``node: coefficient`` for each parameter."""
        import pandas as pd

        n_chains, n_draws = self.n_chains, self.n_draws
        columns: dict[str, Any] = {
            "chain": np.repeat(np.arange(n_chains), n_draws),
            "draw": np.tile(np.arange(n_draws), n_chains),
        }
        for node, labels in self._coefficients():
            draws = self.draws(node)
            columns |= {f"{node}: {label}": draws[..., j].ravel() for j, label in enumerate(labels)}
        return pd.DataFrame(columns)

    @cached_property
    def _diagnoses(self) -> dict[str, list[RealDiagnosis]]:
        return {
            node: [diagnose_real(self.draws(node)[..., j]) for j in range(len(labels))]
            for node, labels in self._coefficients()
        }

    def _spread(self, node: str, j: int) -> tuple[float, float, float]:
        column = self.draws(node)[..., j]
        lower, upper = np.quantile(column, (0.025, 0.975))
        return float(column.std(ddof=1)), float(lower), float(upper)

    def _thinned(self) -> dict[str, Floats]:
        """Some 2000 draws of all chains."""
        step = max(1, self.n_chains * self.n_draws // _PREDICTED_WITH)
        step = min(step, max(1, self.n_draws // 8))
        return {node: self.draws(node)[:, ::step] for node in self._part_of}
