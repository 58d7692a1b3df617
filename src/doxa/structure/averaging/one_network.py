"""One network to hand on: a graph that stands for the posterior, with the posterior means of its tables.

A single network hides how uncertain the graph is.  What is open about its tables is kept: `PosteriorNetwork.entries`.

Columns that nobody observed have states whose names mean nothing, and draws exchange them.  Averaged as they are, their
tables would all be alike, so the states of every draw are first put in one order: that in which most cells agree with
what most draws say (after Stephens 2000, algorithm 1, with the share of equal cells in the place of his loss).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import CategoricalNetwork, Dag
from doxa.structure.averaging.counts import CompletedTable
from doxa.structure.averaging.draws import N_NETWORKS, NetworkDraws, draw_networks
from doxa.structure.averaging.parent_tables import family_table
from doxa.structure.families.kind import FamilyKind

if TYPE_CHECKING:
    import pandas as pd

    from doxa.data import Table
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["PosteriorNetwork", "aligned", "entries_of", "graph_to_hand_on", "network_to_hand_on", "tables_of_graph"]

_ROUNDS = 20  # of putting states in order; a few are enough


class PosteriorNetwork(CategoricalNetwork):
    """A `CategoricalNetwork` whose tables are posterior means, with what the data leave open; made by
    `doxa.Posterior.network`.

    Attributes
    ----------
    how : str
        Which graph it has, and what its tables are, in words.

    Examples
    --------
    >>> import doxa
    >>> network = doxa.learn(doxa.datasets.load("reinis"), seed=1).network("most_probable")
    >>> list(network.entries().columns)
    ['node', 'parents', 'given', 'state', 'mean', 'sd', 'lower', 'upper', 'cases']
    """

    how: str
    _draws: NetworkDraws

    def __init__(
        self, dag: Dag, tables: Mapping[str, ArrayLike], states: Mapping[str, Any], how: str, draws: NetworkDraws
    ) -> None:
        super().__init__(dag, tables, states)
        self.__dict__.update(how=how, _draws=draws)

    def entries(self, prob: float = 0.95) -> pd.DataFrame:
        """Every entry of every table, with its posterior spread.

        Parameters
        ----------
        prob : float, default=0.95
            Of the credible intervals.

        Returns
        -------
        pandas.DataFrame
            Columns ``node, parents, given`` (states of the parents; both tuples), ``state, mean, sd, lower, upper``:
            P(node = state | parents) with standard deviation and equal-tailed credible interval over the posterior;
            ``cases``: rows of this configuration of the parents.
        """
        return entries_of(self._draws, prob)


def graph_to_hand_on(posterior: StructurePosterior, which: str | Dag) -> tuple[Dag, str]:
    """The graph that a word means, over the posterior's nodes in their order, and in words how it was chosen.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the word is unknown, or a graph has other nodes.
    """
    if isinstance(which, Dag):
        if set(which.names) != set(posterior.names):
            odd = sorted(set(which.names) ^ set(posterior.names))
            raise ArgumentError(
                f"the graph and the posterior differ in the node {odd[0]!r}; give a graph over exactly the columns "
                f"{', '.join(map(repr, posterior.names))}"
            )
        return Dag.from_edges(which.edges, posterior.names), "the graph that was given"
    if posterior.options.graph_given:
        return Dag.from_rows(posterior.trace["rows"][0, 0], posterior.names), "the graph that was given"
    if which == "consensus":
        from doxa.structure.posterior.consensus import consensus

        dag, sure = consensus(posterior, joined=True), set(consensus(posterior).edges)
        open_ones = [f"{a} -> {b}" for a, b in dag.edges if (a, b) not in sure]
        how = "the consensus of the graphs: the pairs that are joined with a probability above 1/2"
        if open_ones:
            how += f"; the data hardly tell the direction of {', '.join(open_ones)}"
        return dag, how
    if which == "most_probable":
        if not posterior.options.n_missing:
            best = posterior.graphs(1)[0]
            return best.dag, f"the most probable graph, probability {best.frequency}"
        rows, draw = posterior._distinct
        counts = np.bincount(draw.ravel(), minlength=len(rows))
        k = int(counts.argmax())
        share = counts[k] / counts.sum()
        return Dag.from_rows(rows[k], posterior.names), f"the most frequent graph of the draws, share {share:.3g}"
    if isinstance(which, str):
        raise ArgumentError(f"which is {which!r}; it must be 'consensus', 'most_probable', or a Dag")
    raise ArgumentTypeError(f"which is of type {type(which).__name__}; give 'consensus', 'most_probable', or a Dag")


def network_to_hand_on(
    posterior: StructurePosterior,
    table: Table,
    which: str | Dag = "consensus",
    *,
    networks: int | None = N_NETWORKS,
    prior: FamilyKind | None = None,
) -> PosteriorNetwork:
    """One network that stands for a posterior; see `doxa.Posterior.network`."""
    if posterior.options.numbers:
        first = posterior.options.numbers[0]
        raise ArgumentError(
            f"column {first!r} holds numbers, and a network of tables has categories alone; cut numbers into bins "
            "(bins= of read_table, --bins) and learn again, or take the graph alone: posterior.consensus(), "
            "posterior.graphs(1)"
        )
    dag, how = graph_to_hand_on(posterior, which)
    draws = tables_of_graph(posterior, table, dag, networks=networks, prior=prior)
    means = {}
    for node, name in enumerate(draws.names):
        found = family_table(draws, node, draws.parents[0][node])
        means[name] = found.mean.reshape([draws.n_states[j] for j in (*draws.parents[0][node], node)])
    how += "; tables are posterior means given the graph"
    if posterior.options.n_missing:
        how += ", averaged over what missing cells may hold"
        how += "" if posterior.options.graph_given else " as drawn with all graphs"
    if posterior.options.hidden:
        how += "; the states of hidden columns, whose names mean nothing, are in the order that draws agree on best"
    return PosteriorNetwork(dag, means, dict(zip(draws.names, draws.states, strict=True)), how, draws)


def tables_of_graph(
    posterior: StructurePosterior,
    table: Table,
    dag: Dag,
    *,
    networks: int | None = N_NETWORKS,
    prior: FamilyKind | None = None,
) -> NetworkDraws:
    """Draws of networks that all have one graph, with the posterior's draws of the missing cells."""
    draws = draw_networks(posterior, table, networks, prior=prior)
    hidden = [table.names.index(name) for name in posterior.options.hidden_names]
    return draws.with_graph(dag, aligned(draws.completed, hidden, draws.draws) if hidden else None)


def aligned(completed: CompletedTable, hidden: Collection[int], draws: NDArray[np.intp]) -> CompletedTable:
    """The same draws of the cells, the states of every hidden column named so that draws agree as far as they can.

    Parameters
    ----------
    completed : CompletedTable
        With cells.
    hidden : collection of int
        Columns that nobody observed.
    draws : ndarray of int
        The draws that matter; others are left as they are.
    """
    from scipy.optimize import linear_sum_assignment

    assert completed.cells is not None
    cells = completed.cells.copy()
    for column in hidden:
        r = int(completed.table.n_states[column])
        places = completed.missing_cell_of[:, column]
        own = cells[np.ix_(draws, places)]  # (n_draws, n_rows)
        votes = np.eye(r)[own[-1]]  # (n_rows, r): the share of draws in which a row has each state
        for _ in range(_ROUNDS):
            changed = False
            for t in range(len(own)):
                agree = np.stack([votes[own[t] == k].sum(axis=0) for k in range(r)])
                _, names = linear_sum_assignment(-agree)
                if (names != np.arange(r)).any() and agree[np.arange(r), names].sum() > np.trace(agree) + 1e-9:
                    own[t] = names.astype(own.dtype)[own[t]]
                    changed = True
            votes = np.stack([(own == k).mean(axis=0) for k in range(r)], axis=1)
            if not changed:
                break
        cells[np.ix_(draws, places)] = own
    return replace(completed, cells=cells)


def entries_of(
    draws: NetworkDraws,
    prob: float = 0.95,
    more: Mapping[str, Floats] | None = None,
    nodes: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Every entry of the tables of draws that have one graph; ``more`` are columns of as many numbers, in that order.

    Of all nodes, or of some.  See `PosteriorNetwork.entries`.
    """
    import pandas as pd

    from doxa.frames import ReadFrame

    columns: dict[str, list[Any]] = {name: [] for name in ("node", "parents", "given", "state")}
    numbers: dict[str, list[Floats]] = {name: [] for name in ("mean", "sd", "lower", "upper", "cases")}
    for node in range(len(draws.names)) if nodes is None else nodes:
        name, parents = draws.names[node], draws.parents[0][node]
        found = family_table(draws, node, parents, prob=prob)
        names = tuple(draws.names[j] for j in parents)
        for given in product(*(draws.states[j] for j in parents)):
            for state in draws.states[node]:
                for key, value in zip(columns, (name, names, given, state), strict=True):
                    columns[key].append(value)
        for key in ("mean", "sd", "lower", "upper"):
            numbers[key].append(getattr(found, key).ravel())
        numbers["cases"].append(np.repeat(found.cases, draws.n_states[node]))
    frame: dict[str, Any] = {key: pd.Series(values, dtype=object) for key, values in columns.items()}
    joined = {key: np.concatenate([np.empty(0), *values]) for key, values in numbers.items()}
    cases = joined.pop("cases")
    return ReadFrame(frame | joined | dict(more or {}) | {"cases": cases})
