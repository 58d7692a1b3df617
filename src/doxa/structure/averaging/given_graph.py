r"""`TablePosterior`: the tables of a graph that is given, for columns of any number of states; `fit_tables` makes it.

It is the posterior over graphs where only one is possible, so everything that is asked of such a posterior is answered:
queries, predictions, missing cells, run files.  With a complete table the parameters of every configuration of parents
have a Dirichlet distribution, and nothing is sampled.  Where cells are missing, these are drawn from
:math:`P(Z \mid D, G)` with the tables integrated out, all cells of a row that hang together at once
(`doxa.structure.cases.incomplete.sweep`), and every entry is averaged over its mean given each completion, which has
less error than draws of tables would have (Rao-Blackwell).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.arrays import Floats
from doxa.data import Table
from doxa.data.declared import declared
from doxa.errors import ArgumentError
from doxa.estimates.bridge import bridge
from doxa.estimates.estimate import Estimate, Verdict
from doxa.estimates.real import AverageDiagnostics, diagnose_averages
from doxa.estimates.stopping import StopReport
from doxa.estimates.trace import Trace
from doxa.models import Dag
from doxa.models.bits import pack_rows
from doxa.sampling.agreement import judge_chains
from doxa.structure.averaging.one_network import entries_of, tables_of_graph
from doxa.structure.averaging.posterior import Posterior, with_table
from doxa.structure.cases.incomplete.sequential import log_summed
from doxa.structure.families.cache import FamilyScores, local_weights
from doxa.structure.posterior.structure_posterior import StructurePosterior
from doxa.structure.runs.options import LearnOptions
from doxa.structure.runs.plan import RunPlan, make_plan

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.averaging.draws import NetworkDraws

__all__ = ["GraphFit", "TablePosterior", "fit_plan", "fit_tables"]

_CLOSED_FORM_DRAWS = 1000  # of each chain: what queries average over
_NETWORKS = 4000  # completions that entries are averaged over
_EVIDENCE_DRAWS, _SEED = 2000, 20264  # of cells, by sequential imputation
_OF_NUMBERS = ("gaussian", "conditional_gaussian", "additive", "auto")
_STATES = 2  # of a node without a column, when nothing is said


class GraphFit(Posterior):
    """The posterior of the parameters of one graph, and of missing cells: what `TablePosterior` and its kin share."""

    _known = "no cell is missing: the entries of the tables have Dirichlet distributions, and the evidence a sum."

    @property
    def graph(self) -> Dag:
        """The graph whose parameters were fitted."""
        return Dag.from_rows(self.trace["rows"][0, 0], self.names)

    @property
    def is_closed_form(self) -> bool:
        """Whether no cell is missing, so that no chain was run."""
        return self.options.n_missing == 0

    @cached_property
    def judgement(self) -> Verdict:
        """The verdict taken apart; nothing is sampled where no cell is missing."""
        if self.is_closed_form:
            return Verdict(True, "Exact", self._known)
        converged, reason, advice = self._judged()
        stopped = "" if self.stop is None else self.stop.text
        names = ", ".join(self.options.hidden_names)
        more = (
            f"The states of {names}, which nobody observed, have no names of their own: draws are put in the order in "
            "which most cells agree."
            if names
            else ""
        )
        return Verdict.of_chains(converged, f"{reason}.", stopped, more, advice=advice)

    def _judged(self) -> tuple[bool | None, str, str]:
        n_chains, n_draws = self.log_score.shape
        if n_chains == 1:
            return None, "one chain alone cannot show that others would agree", "Run several: chains=4."
        score = self.log_score_diagnosis
        names, r_hat, ess = ["the log score"], [max(1.0, score.r_hat)], [score.bulk_ess]  # 1.0 where it is NaN
        for node, own in self._diagnoses.items():
            if own is not None:
                names.append(f"the {self._what(node)} of {self.names[node]}")
                r_hat.append(float(np.nanmax(own.r_hat, initial=1.0)))
                ess.append(float(np.nanmin(own.ess, initial=np.inf)))
        if np.isnan(ess[0]) and np.isfinite(ess).any():  # to the score the values of the cells are alike, not to tables
            names, r_hat, ess = names[1:], r_hat[1:], ess[1:]
        agree, reason, _ = judge_chains(names, r_hat, ess, n_chains, n_draws, "quantity")
        return agree, reason, "" if agree else f"Run longer: draws={4 * n_draws}, warmup={2 * n_draws}."

    @cached_property
    def reference_ess(self) -> float:
        """Effective draws of the log score; all of them where nothing was sampled."""
        found = self.log_score_diagnosis.bulk_ess
        return float(self.n_edges.size) if self.is_closed_form else found if np.isfinite(found) else 0.0

    def _what(self, node: int) -> str:  # noqa: ARG002
        return "table"

    def entries(self, prob: float = 0.95) -> pd.DataFrame:
        """Every entry of every table; of categories that depend on categories alone, where columns hold numbers.

        Parameters
        ----------
        prob : float, default=0.95
            Of the credible intervals.

        Returns
        -------
        pandas.DataFrame
            Columns ``node, parents, given`` (states of the parents; both tuples), ``state, mean, sd, lower, upper``:
            P(node = state | parents) with standard deviation and equal-tailed credible interval over the posterior;
            ``mcse, ess, r_hat`` of the mean (0, nan and nan where it is exact); ``cases``, rows of this configuration
            of the parents.

        Examples
        --------
        >>> import doxa
        >>> graph = doxa.Dag.from_edges([("smoke", "systol")])
        >>> fit = doxa.fit(graph, doxa.datasets.load("reinis"), seed=1)
        >>> fit.entries()[["node", "given", "state", "mean"]].round(2)
             node   given  state  mean
        0   smoke      ()     no  0.52
        1   smoke      ()    yes  0.48
        2  systol   (no,)   <140  0.54
        3  systol   (no,)  >=140  0.46
        4  systol  (yes,)   <140  0.61
        5  systol  (yes,)  >=140  0.39
        """
        found = {name: [np.empty(0)] for name in ("mcse", "ess", "r_hat")}
        for node in self._tabled:
            own = self._diagnoses[node]
            size = self._draws.mean_tables(self._family(node))[0].size
            blank = {"mcse": 0.0, "ess": np.nan, "r_hat": np.nan}
            for name, column in found.items():
                column.append(np.full(size, blank[name]) if own is None else getattr(own, name)[:size])
        more = {name: np.concatenate(column) for name, column in found.items()}
        return entries_of(self._draws, prob, more, self._tabled)

    def _described(self, what: str, frame: pd.DataFrame, method: str, more: str = "") -> str:
        """The first rows of a frame and the verdict; ``method`` has the others."""
        frame = frame.drop(columns=["parents", "cases"])
        rest = f"\n... {len(frame) - 8} more: see {method}" if len(frame) > 8 else ""
        shown = frame.head(8).to_string(index=False)
        return f"{type(self).__name__}: the {what} of {self.graph!r}\n{shown}{rest}{more}\n{self.verdict}"

    @property
    def _tabled(self) -> list[int]:
        """Nodes that have tables."""
        return list(range(len(self.names)))

    def _node(self, node: str) -> int:
        if node not in self.names:
            raise ArgumentError(f"{node!r} is no node; nodes are {', '.join(map(repr, self.names))}")
        return self.names.index(node)

    def _family(self, node: int) -> tuple[int, tuple[int, ...]]:
        return node, self._draws.parents[0][node]

    @cached_property
    def _draws(self) -> NetworkDraws:
        """Networks of the one graph, the states of hidden columns in one order."""
        return tables_of_graph(self, self.table, self.graph, networks=_NETWORKS)

    @cached_property
    def _diagnoses(self) -> dict[int, AverageDiagnostics | None]:
        """Of the parameters of every node; None where they are exact."""
        raise NotImplementedError


class TablePosterior(GraphFit):
    """The posterior of the tables of one graph, and of missing cells; made by `doxa.fit`.

    All of `doxa.Posterior` (``query``, ``predict``, ``impute``, ``network``, ``save`` ...), and the entries of the
    tables with their errors.

    Examples
    --------
    >>> import doxa
    >>> graph = doxa.Dag.from_edges([("smoke", "systol"), ("phys", "systol")])
    >>> fit = doxa.fit(graph, doxa.datasets.load("reinis"), seed=1)
    >>> print(fit.entry("systol", ">=140", {"smoke": "no", "phys": "no"}))
    0.451874 (exact)
    """

    def entry(self, node: str, state: str, given: Mapping[str, str] | None = None) -> Estimate:
        """Posterior mean of P(node = state | states of all its parents), with its Monte Carlo error.

        Parameters
        ----------
        node, state : str
        given : mapping of str to str, optional
            The state of every parent; left out of a node without parents.

        Raises
        ------
        ArgumentError
            If there is no such node or state, or ``given`` does not name exactly the parents.
        """
        j = self._node(node)
        parents = [self.names[p] for p in self._family(j)[1]]
        given = given or {}
        if set(given) != set(parents):
            named, listed = (", ".join(map(repr, names)) or "none" for names in (given, parents))
            raise ArgumentError(f"given names {named}; the parents of {node!r} are {listed}: name each of them")
        place = []
        for name, label in [*((p, given[p]) for p in parents), (node, state)]:
            labels = self._draws.states[self.names.index(name)]
            if label not in labels:
                raise ArgumentError(f"{label!r} is no state of {name!r}; there are {', '.join(map(repr, labels))}")
            place.append(labels.index(label))
        tables = self._draws.mean_tables(self._family(j))
        own = self._diagnoses[j]
        if own is None:
            return Estimate.exactly(float(np.exp(tables[0][tuple(place)])))
        return own.estimate(int(np.ravel_multi_index(place, tables.shape[1:])))

    def draws(self, node: str) -> Floats:
        """Draws of a node's table, shape (chain, draw, states of the parents..., states of the node)."""
        tables = np.exp(self._draws.drawn_tables(self._family(self._node(node))))
        return tables.reshape(*self._draws.shape, *tables.shape[1:])

    @cached_property
    def log_marginal_likelihood(self) -> Estimate:
        r"""Log P(data | graph), nats, tables and missing cells summed out.

        Exact for a complete table.  Else by bridge sampling (`doxa.estimates.bridge`) between the drawn completions and
        completions by sequential imputation, whose probabilities are known (Kong, Liu & Wong 1994).
        """
        if self.is_closed_form:
            return Estimate.exactly(float(self.log_score[0, 0]))
        data, rng = self.options.incomplete(self.table), np.random.default_rng(_SEED)
        parents = np.ascontiguousarray(pack_rows(self.graph.adjacency.T))
        n_chains, n_draws = self.log_score.shape
        step = max(1, n_chains * n_draws // _EVIDENCE_DRAWS)
        kept = self.trace["cells"][:, :: min(step, n_draws // 4)]
        flat = kept.reshape(-1, kept.shape[-1]).astype(np.int16)
        of_graph = partial(np.broadcast_to, parents)
        inside = log_summed(data, of_graph((len(flat), *parents.shape)), rng, flat).reshape(kept.shape[:2])
        outside = log_summed(data, of_graph((_EVIDENCE_DRAWS, *parents.shape)), rng)
        return bridge(inside, outside)

    def __repr__(self) -> str:
        """The first entries and the verdict."""
        return self._described("tables", self.entries(), "entries()")

    @cached_property
    def _diagnoses(self) -> dict[int, AverageDiagnostics | None]:
        """Of the entries of every node's table, given each completion; None where they are exact."""
        found: dict[int, AverageDiagnostics | None] = {}
        for node in range(len(self.names)):
            tables = np.exp(self._draws.mean_tables(self._family(node)))
            several = len(tables) > 1
            found[node] = diagnose_averages(tables.reshape(*self._draws.shape, -1)) if several else None
        return found


def fit_tables(
    graph: Dag,
    table: Table,
    source: dict[str, Any] | None,
    asked: LearnOptions,
    store: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> GraphFit:
    """The posterior of a graph's tables, or of its regressions where columns hold numbers; see `doxa.fit`.

    Parameters
    ----------
    graph : Dag
        Nodes without a column are hidden.
    table : Table
        Columns that are no nodes are left out.
    source : dict, optional
        How the table was read, for `doxa.load` and `doxa.resume`.
    asked : LearnOptions
        Score, hidden columns' states, and how long to sample where cells are missing.
    store, workers, progress
        As for `doxa.learn`.

    Returns
    -------
    GraphFit
        `TablePosterior`, or where a column holds numbers
        `doxa.structure.averaging.given_numbers.RegressionPosterior`.

    Raises
    ------
    ArgumentError
        If no column is a node, the graph has a single node, the score is no Dirichlet prior of tables, or the family
        or score does not go with the columns and edges.
    """
    names = [name for name in table.names if name in graph.names]
    if not names:
        raise ArgumentError(
            f"table has no column of the graph's: its columns are {', '.join(map(repr, table.names[:8]))}, and the "
            f"nodes {', '.join(map(repr, graph.names[:8]))}; rename the columns"
        )
    if len(graph.names) < 2:
        raise ArgumentError(f"the graph has the single node {graph.names[0]!r}; tables of graphs have two or more")
    hidden = {name: _STATES for name in graph.names if name not in names} | dict(asked.hidden or {})
    for name in hidden:
        if name not in graph.names:
            raise ArgumentError(f"hidden names {name!r}, which is no node of the graph; leave it out, or add the node")
    data = declared(table if names == list(table.names) else table.select(names), (), hidden)
    required = list(graph.edges)
    there = set(required)
    forbidden = [(a, b) for a in data.names for b in data.names if a != b and (a, b) not in there]
    asked = dataclasses.replace(asked, hidden=hidden, required=required, forbidden=forbidden, prior="uniform")
    if data.is_number.any():
        from doxa.structure.averaging.given_numbers import kind_for

        asked = kind_for(asked, data, graph)
    elif asked.family in _OF_NUMBERS:
        raise ArgumentError(
            f"family is {asked.family!r}, and none of the nodes' columns holds numbers; leave it out, or take "
            "'categorical' or 'logistic'"
        )
    elif not asked.kind(data).is_dirichlet:
        raise ArgumentError(
            f"score is {asked.score!r}; tables need a Dirichlet prior: 'bdeu', 'k2', or such as K2(0.5)"
        )
    plan = make_plan(data, source, asked, asked.limits(data))
    plan = plan._replace(options=dataclasses.replace(plan.options, graph_given=True))
    return fit_plan(plan, store, workers, progress)


def fit_plan(
    plan: RunPlan, store: str | os.PathLike[str] | None, workers: int | None, progress: bool | None
) -> GraphFit:
    """`fit_tables` of a plan, whose limits leave one graph."""
    if plan.table.n_missing:
        from doxa.structure.runs.files import begin
        from doxa.structure.runs.running import run_plan

        answer = run_plan(plan, None if store is None else partial(begin, store, plan), workers, progress)
    else:
        answer = _closed_form(plan)
        if store is not None:
            answer.save(store)
    made = with_table(answer, plan.table)
    assert isinstance(made, GraphFit)
    return made


def _closed_form(plan: RunPlan) -> StructurePosterior:
    """As many draws of the one graph as queries average over, with its score."""
    options, chains = plan.options, plan.schedule.chains
    adjacency = options.limits.required_edges
    rows = np.ascontiguousarray(pack_rows(adjacency))
    score = local_weights(FamilyScores(plan.table, options.score, options.structure_prior), rows[None]).sum()
    shape = (chains, _CLOSED_FORM_DRAWS)
    draws = {
        "rows": np.broadcast_to(rows, (*shape, *rows.shape)).copy(),
        "log_score": np.full(shape, float(score)),
        "n_edges": np.full(shape, int(adjacency.sum()), dtype=np.int32),
    }
    nothing = {"proposed": np.zeros(chains, dtype=np.int64), "accepted": np.zeros(chains, dtype=np.int64)}
    trace = Trace(draws, thin=1, n_warmup=0, entropy=plan.entropy, info=nothing)
    return StructurePosterior(
        options.names, trace, plan.move, options, None, StopReport("exact", None, 0.0), plan.source
    )
