r"""`NetworkDraws`: draws from the posterior of networks, graph and parameters together.

Given a graph G and a complete table, the parameters of all families and configurations are independent Dirichlet with
the cases added to the prior, so that a draw of a network is a draw of a graph and then of its tables.  Where cells are
missing, each draw has a completed table of its own, and the same holds given that one.  Families of another kind are
the tables that their parameters stand for (`doxa.structure.families.kind.FamilyParameters`).

Tables are drawn when they are first asked for, from a stream of their own for each family: the networks of a posterior
are the same whatever is asked of them, and in whatever order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.models import CategoricalNetwork, Dag
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.averaging.counts import CompletedTable, Family, FamilyOverCompletions, parameter_prior
from doxa.structure.families.kind import IN_WORDS, FamilyKind, FamilyParameters
from doxa.structure.families.tables import DirichletFamily
from doxa.structure.posterior.exact_answer import ExactStructurePosterior
from doxa.text import listed

if TYPE_CHECKING:
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["N_NETWORKS", "NetworkDraws", "draw_networks", "networks"]

N_NETWORKS = 1000  # of all chains together
_STREAM, _OTHER_STREAM = 20_011, 20_012  # keep streams apart: of Dirichlet tables, and of other parameters
_MOST_LISTED = 15  # parents of a logistic family of which a table is made
_MOST_NUMBERS = 2**26  # in the drawn tables of one family: 512 MB


class NetworkDraws:
    """Draws of networks, in (chain, draw); made by `draw_networks`.

    Attributes
    ----------
    names, states : tuple
        Nodes and the labels of their states.
    is_number : ndarray of bool, shape (n_nodes,)
        Which of them are numbers; there are none but in `GaussianDraws`.
    shape : tuple of int
        Chains, and networks of each.
    draws : ndarray of int, shape (n_networks,)
        The posterior's draw of each network, counted over chains.
    parents : list of list of tuple of int
        ``parents[network][node]``.
    completed : CompletedTable
    prior : FamilyKind
    reference_ess : float
        Effective draws of the slowest quantity of the run over graphs.
    """

    def __init__(
        self,
        graphs: NDArray[np.uint64],
        chosen: NDArray[np.intp],
        completed: CompletedTable,
        prior: FamilyKind,
        entropy: tuple[int, ...],
        reference_ess: float,
    ) -> None:
        """Take (chain, draw, node, word) graphs and the draws (n,) chosen of each chain."""
        n_chains, n_draws = graphs.shape[:2]
        self.names = completed.table.names
        self.states = completed.table.states
        self.n_states = tuple(map(len, self.states))
        self.is_number = completed.table.is_number
        self.shape = (n_chains, len(chosen))
        self.draws = (np.arange(n_chains)[:, None] * n_draws + chosen).ravel()
        self.rows = graphs[:, chosen].reshape(-1, *graphs.shape[2:])
        self.completed = completed
        self.prior = prior
        self.entropy = entropy
        self.reference_ess = reference_ess
        self._drawn: dict[Family, Floats] = {}
        self._means: dict[Family, Floats] = {}
        self._parameters: dict[Family, FamilyParameters] = {}

    def __len__(self) -> int:
        """Number of networks."""
        return len(self.draws)

    def __repr__(self) -> str:
        return f"NetworkDraws({len(self)} networks of {len(self.names)} nodes)"

    @cached_property
    def parents(self) -> list[list[tuple[int, ...]]]:
        """``parents[network][node]``: positions, increasing; equal ones are one object, and so are those of a graph."""
        n = len(self.names)
        same: dict[tuple[int, ...], tuple[int, ...]] = {}
        of_graph: dict[bytes, list[tuple[int, ...]]] = {}
        found = []
        for rows in self.rows:
            graph = rows.tobytes()
            if graph not in of_graph:
                own: list[list[int]] = [[] for _ in range(n)]
                for parent, child in np.argwhere(unpack_rows(rows, n)).tolist():  # by parent: increasing
                    own[child].append(parent)
                sets = [tuple(group) for group in own]
                of_graph[graph] = [same.setdefault(group, group) for group in sets]
            found.append(of_graph[graph])
        return found

    @cached_property
    def of_graph(self) -> dict[tuple[tuple[int, ...], ...], list[int]]:
        """The networks of each graph, by the parents of its nodes."""
        found: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for t, sets in enumerate(self.parents):
            found.setdefault(tuple(sets), []).append(t)
        return found

    @cached_property
    def users(self) -> dict[Family, NDArray[np.intp]]:
        """The networks that have each family, increasing."""
        lists: dict[Family, list[int]] = {}
        for t, sets in enumerate(self.parents):
            for child, group in enumerate(sets):
                lists.setdefault((child, group), []).append(t)
        return {family: np.array(members) for family, members in lists.items()}

    @cached_property
    def place(self) -> list[list[int]]:
        """``place[network][node]``: which of the users of the node's family the network is."""
        places = [[0] * len(self.names) for _ in range(len(self))]
        for (child, _), members in self.users.items():
            for k, t in enumerate(members.tolist()):
                places[t][child] = k
        return places

    def drawn_tables(self, family: Family) -> Floats:
        """Log P(child | parents), drawn: shape (n_users, n_states of parents..., n_states), read-only."""
        if family not in self._drawn:
            self._check_size(family)
            tables = self.parameters_of(family).log_tables(len(self.users[family]))
            self._drawn[family] = self._shaped(family, tables)
        return self._drawn[family]

    def mean_tables(self, family: Family) -> Floats:
        """Log of the posterior mean of P(child | parents), shape (1 or n_users, as above), read-only."""
        if family not in self._means:
            if not self.is_of_tables:
                self._check_size(family)
            self._means[family] = self._shaped(family, self.parameters_of(family).log_mean_tables())
        return self._means[family]

    @property
    def is_of_tables(self) -> bool:
        """Whether all families are tables, each configuration of parents with a Dirichlet distribution of its own."""
        return self.prior.is_dirichlet

    def parameters_of(self, family: Family) -> Any:
        """The posterior of a family's parameters, over the completions of the table where cells are missing."""
        if family not in self._parameters:
            stream = partial(self._stream, family)
            sizes = [self.n_states[j] for j in (family[0], *family[1])]
            made: FamilyParameters
            kind = self.prior.of_node(family[0])
            if self.is_of_tables:
                made = DirichletFamily(self.prior, self.counts(family), stream)
            elif self.completed.has_missing_cells(family):
                drawn = self.completed.occurring_in(family, self.draws[self.users[family]])
                made = FamilyOverCompletions(kind, drawn, sizes, stream)
            else:
                made = kind.parameters(*self.completed.occurring(family), sizes, stream)
            self._parameters[family] = made
        return self._parameters[family]

    def drawn_coefficients(self, family: Family) -> Floats:
        """Bias and coefficients of the same draws, nan where they are tables: shape (n_users, 1 + n_parents)."""
        found: Floats = self.parameters_of(family).coefficients(len(self.users[family]))
        return found

    def counts(self, family: Family) -> Floats:
        """Cases of every cell in the table of every network that has the family, shape as `posterior_counts`."""
        return self.completed.counts(family, self.draws[self.users[family]])

    def posterior_counts(self, family: Family) -> Floats:
        """Cases and prior weight of every cell of a table, shape (1 or n_users, n_configurations, n_states)."""
        weights: Floats = self.parameters_of(family).weights
        return weights

    def log_table(self, t: int, node: int, mean: bool) -> Floats:
        """Log P(node | parents) of one network: drawn, or the posterior mean given its graph."""
        family = (node, self.parents[t][node])
        if not mean:
            return self.drawn_tables(family)[self.place[t][node]]  # type: ignore[no-any-return]
        means = self.mean_tables(family)
        return means[self.place[t][node] if len(means) > 1 else 0]  # type: ignore[no-any-return]

    def log_tables(self, family: Family, networks: NDArray[np.intp], *, mean: bool) -> Floats:
        """`log_table` of networks that all have the family: these on the first axis."""
        at = np.searchsorted(self.users[family], networks)
        found = self.mean_tables(family) if mean else self.drawn_tables(family)
        return found[at] if len(found) > 1 else np.broadcast_to(found, (len(networks), *found.shape[1:]))

    def named(self, known: Mapping[int, float]) -> dict[str, float | str]:
        """Numbers and states of columns, from their positions, in words."""
        return {self.names[j]: v if self.is_number[j] else self.states[j][int(v)] for j, v in known.items()}

    def dag(self, t: int) -> Dag:
        """The graph of one of the networks."""
        return Dag.from_rows(self.rows[t], self.names)

    def network(self, t: int, mean: bool = False) -> CategoricalNetwork:
        """One of the networks: with the parameters drawn, or with their posterior mean given its graph.

        Examples
        --------
        >>> import doxa
        >>> table = doxa.datasets.load("reinis")
        >>> draws = draw_networks(doxa.learn(table, seed=1), table, 100)
        >>> draws.network(0)
        CategoricalNetwork(6 nodes, 4 edges, 11 free probabilities)
        """
        tables = {name: np.exp(self.log_table(t, node, mean)) for node, name in enumerate(self.names)}
        return CategoricalNetwork(self.dag(t), tables, dict(zip(self.names, self.states, strict=True)))

    def with_table(self, table: Table) -> NetworkDraws:
        """The same graphs, with the parameters of another table of the same cells, such as one with more states."""
        made = copy(self)
        made.completed = CompletedTable(table, self.completed.cells)
        made.states = table.states
        made.n_states = tuple(map(len, table.states))
        made._drawn, made._means, made._parameters = {}, {}, {}
        most = self.prior.most_states
        if most is not None and max(made.n_states) > most:
            many = [name for name, states in zip(made.names, made.states, strict=True) if len(states) > most]
            raise ArgumentError(
                f"rows has a state that the table does not have in {listed(many, 8)}, and {self.prior.name} "
                f"families have {IN_WORDS.get(most, most)} states; leave the cell missing, or give a prior of tables, "
                "as in prior=BDeu(1.0)"
            )
        return made

    def with_graph(self, dag: Dag, completed: CompletedTable | None = None) -> NetworkDraws:
        """One graph in the place of all, each network with the completed table of its draw, or of ``completed``."""
        made = copy(self)
        rows = pack_rows(dag.adjacency)
        made.rows = np.broadcast_to(rows, (len(self), *rows.shape))
        made.completed = self.completed if completed is None else completed
        own = [tuple(np.flatnonzero(column).tolist()) for column in dag.adjacency.T]
        made.__dict__ |= {"parents": [own] * len(self), "_drawn": {}, "_means": {}, "_parameters": {}}
        for kept in ("of_graph", "users", "place"):
            made.__dict__.pop(kept, None)
        return made

    def _stream(self, family: Family, kind: int, number: int) -> np.random.Generator:
        """A generator of its own for a family: 0 for Dirichlet tables; others as the kind asks."""
        key = (_OTHER_STREAM, kind, number) if kind else (_STREAM,)
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(*key, family[0], *family[1])))

    def _check_size(self, family: Family) -> None:
        varying = [j for j in family[1] if self.n_states[j] > 1]
        if not self.is_of_tables and len(varying) > _MOST_LISTED and max(self.n_states[j] for j in varying) == 2:
            raise ArgumentError(
                f"{self.names[family[0]]!r} has {len(family[1])} parents in some network; answers list the states of "
                f"the parents of a {self.prior.name} family, at most {_MOST_LISTED} of them: learn with max_parents="
                f"{_MOST_LISTED} or fewer; its coefficients are in posterior.coefficients"
            )
        size = len(self.users[family]) * math.prod(self.n_states[j] for j in (*family[1], family[0]))
        if size > _MOST_NUMBERS:
            raise ArgumentError(
                f"the family of {self.names[family[0]]!r} with {len(family[1])} parents has tables of {size:.2e} "
                f"numbers in {len(self.users[family])} networks together; at most {_MOST_NUMBERS:.1e} are held: ask "
                "with fewer networks, or learn with fewer max_parents"
            )

    def _shaped(self, family: Family, tables: Floats) -> Floats:
        shaped = tables.reshape(-1, *(self.n_states[j] for j in (*family[1], family[0])))
        shaped.setflags(write=False)
        return shaped


def draw_networks(
    posterior: StructurePosterior,
    table: Table,
    n: int | None = N_NETWORKS,
    *,
    prior: FamilyKind | None = None,
    seed: int | None = None,
) -> NetworkDraws:
    """Draw networks from the posterior, from graphs at even distances along the chains.

    Parameters
    ----------
    posterior : StructurePosterior
    table : Table
        The table that it was learned from.
    n : int, optional
        About how many, over all chains; one for each draw of a graph when None or larger than that.  At least 4 of
        each chain.
    prior : FamilyKind, optional
        Of the parameters, such as `BDeu`, `K2` or `Logistic`; that of the score when left out.
    seed : int, optional
        Of the parameters; that of the run over graphs when left out, so that networks are the same at every call.

    Raises
    ------
    ArgumentError
        If the table is another one or one that the prior cannot have, ``n`` is too small, or the score has no prior
        and none is given.
    """
    if table.names != posterior.names:
        columns, nodes = listed(table.names, 8), listed(posterior.names, 8)
        raise ArgumentError(
            f"the table has the columns {columns}, the posterior the nodes {nodes}; give the table that it was learned "
            "from"
        )
    digest = posterior.options.data_digest
    if digest and digest != table.digest:
        raise ArgumentError("the table is not the one that the posterior was learned from; its contents differ")
    graphs = posterior.trace["rows"]
    n_chains, n_draws = graphs.shape[:2]
    if n_draws < 4:
        raise ArgumentError(f"the posterior has {n_draws} draws of each chain; errors need at least 4")
    each = n_draws if n is None else min(n_draws, -(-check_whole("networks", n, 1) // n_chains))
    if each < 4:
        raise ArgumentError(f"networks is {n}; it must be at least {4 * n_chains}, 4 of each of {n_chains} chains")
    chosen = (2 * np.arange(each) + 1) * n_draws // (2 * each)
    cells = posterior.trace["cells"] if table.n_missing and "cells" in posterior.trace.names else None
    completed = CompletedTable(table, None if cells is None else cells.reshape(n_chains * n_draws, -1))
    own = posterior.trace.entropy if seed is None else check_whole("seed", seed, 0)
    entropy = (0,) if own is None else own if isinstance(own, tuple) else (own,)
    made = parameter_prior(posterior.options.score, prior, table)
    is_exact = isinstance(posterior, ExactStructurePosterior)  # then draws are independent, even if none differs
    worth = float(n_chains * n_draws) if is_exact else posterior.reference_ess
    if table.numbers is not None:
        from doxa.structure.averaging.number_draws import GaussianDraws  # which is made of what is here

        return GaussianDraws(graphs, chosen, completed, made, entropy, worth)
    return NetworkDraws(graphs, chosen, completed, made, entropy, worth)


def networks(
    posterior: StructurePosterior,
    table: Table,
    n: int = 100,
    *,
    mean: bool = False,
    prior: FamilyKind | None = None,
    seed: int | None = None,
) -> Iterable[CategoricalNetwork]:
    """Networks drawn from the posterior, graph and parameters together.

    Parameters
    ----------
    posterior, table, n, prior, seed
        As for `draw_networks`; exactly ``n`` are yielded, or one for each draw of a graph where these are fewer.
    mean : bool, default=False
        Whether parameters are not drawn, but their posterior mean given the graph.

    Returns
    -------
    iterator of CategoricalNetwork
        Of `GaussianNetwork` for a table with numbers.

    Examples
    --------
    >>> import doxa
    >>> table = doxa.datasets.load("reinis")
    >>> drawn = list(networks(doxa.learn(table, seed=1), table, 20))
    >>> len(drawn), drawn[0].names == table.names
    (20, True)
    """
    n_chains = posterior.trace["rows"].shape[0]
    made = draw_networks(posterior, table, max(check_whole("n", n, 1), 4 * n_chains), prior=prior, seed=seed)
    n = min(n, len(made))
    chosen = np.unique((2 * np.arange(n) + 1) * len(made) // (2 * n))
    return (made.network(t, mean) for t in chosen.tolist())
