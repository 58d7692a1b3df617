"""`StructurePosterior`: what a run over graphs says, every number with its Monte Carlo error.

Probabilities are frequencies of the sampled graphs (Riggelsen, ch. 4, eq. 4.12); their errors come from
`doxa.estimates`.  Whether the run can be trusted is decided in `doxa.structure.verdict`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.diagnostics import RealDiagnosis, diagnose_real
from doxa.estimates.estimate import Estimate
from doxa.estimates.indicators import IndicatorDiagnostics, diagnose_indicators
from doxa.estimates.trace import Trace
from doxa.models import Dag

if TYPE_CHECKING:
    import pandas as pd

    from doxa.estimates.stopping import StopReport
    from doxa.structure.cache import CacheUse
    from doxa.structure.sampler import StructureMove
    from doxa.structure.verdict import Verdict

__all__ = ["RunOptions", "SampledGraph", "StructurePosterior"]


class SampledGraph(NamedTuple):
    """One graph of the sample."""

    dag: Dag
    log_score: float  # log P(data | graph), nats
    frequency: Estimate  # its posterior probability


class RunOptions(NamedTuple):
    """What a run was asked for, beside the table."""

    equivalent_sample_size: float
    max_parents: tuple[int, ...]  # of each node
    n_rows: int
    data_digest: str


class StructurePosterior:
    """The posterior over directed acyclic graphs, as sampled by `doxa.learn`.

    Attributes
    ----------
    names : tuple of str
        The nodes, in the order of the table's columns.
    trace : Trace
        The draws: ``rows`` (adjacency rows as bit sets), ``log_score`` (nats) and ``n_edges``, each (chain, draw, ...).
    sampler : object
        The move that made them, with its settings.
    options : RunOptions
        Score, limits and data of the run.
    cache : CacheUse or None
        Memory and work of the score caches; None if not known.
    stop : StopReport or None
        Why the run stopped; None if not known.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
    >>> posterior.stop.reason, posterior.converged
    ('reached', True)
    """

    def __init__(
        self,
        names: tuple[str, ...],
        trace: Trace,
        sampler: StructureMove,
        options: RunOptions,
        cache: CacheUse | None = None,
        stop: StopReport | None = None,
    ) -> None:
        self.names = names
        self.trace = trace
        self.sampler = sampler
        self.options = options
        self.cache = cache
        self.stop = stop

    def __repr__(self) -> str:
        n_chains, n_draws = self.n_edges.shape
        return f"StructurePosterior({len(self.names)} nodes, {n_chains} chains of {n_draws} draws, {self.sampler.name})"

    @property
    def n_edges(self) -> NDArray[np.int32]:
        """Number of edges of every sampled graph, shape (chain, draw)."""
        return self.trace["n_edges"]

    @property
    def log_score(self) -> NDArray[np.float64]:
        """Log P(data | graph) of every sampled graph, nats, shape (chain, draw)."""
        return self.trace["log_score"]

    def edges(self) -> pd.DataFrame:
        """Posterior probability of every directed edge.

        Returns
        -------
        pandas.DataFrame
            Columns ``source, target, probability, mcse, ess, r_hat``, one row for each ordered pair of nodes, most
            probable first.  ``mcse`` is the Monte Carlo standard error of ``probability`` and never 0; ``ess`` the
            effective number of draws; ``r_hat`` the split R-hat over the chains (nan where the edge never changed).

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
        >>> list(posterior.edges().columns)
        ['source', 'target', 'probability', 'mcse', 'ess', 'r_hat']
        """
        n = len(self.names)
        pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
        return self._frame(("source", "target"), pairs, self.edge_diagnostics)

    def adjacencies(self) -> pd.DataFrame:
        """Posterior probability that two nodes are joined, in either direction.

        Returns
        -------
        pandas.DataFrame
            Columns ``node_a, node_b, probability, mcse, ess, r_hat``, one row for each pair of nodes, in the order of
            the table's columns, most probable first.
        """
        n = len(self.names)
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        return self._frame(("node_a", "node_b"), pairs, self.adjacency_diagnostics)

    def edge(self, source: str, target: str) -> Estimate:
        """Posterior probability of the edge source -> target.

        Raises
        ------
        ArgumentError
            If a name is not a node, or both are the same.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
        >>> low, high = posterior.edge("smoke", "protein").interval()
        >>> bool(0 < low < high < 1)
        True
        """
        for node in (source, target):
            if node not in self.names:
                known = ", ".join(repr(name) for name in self.names)
                raise ArgumentError(f"{node!r} is not a node of this posterior; its nodes are {known}")
        if source == target:
            raise ArgumentError(f"source and target are both {source!r}; an edge joins two different nodes")
        return self.edge_diagnostics.estimate((self.names.index(source), self.names.index(target)))

    def feature(self, f: Callable[[Dag], float]) -> Estimate:
        """Posterior mean of any function of the graph (eq. 4.12).

        Parameters
        ----------
        f : callable
            From a `Dag` to a number, or to True or False for the probability of a property.  Called once for
            every different graph of the sample.

        Returns
        -------
        Estimate
            With the error of an indicator when ``f`` returns True or False, else that of a real quantity.

        Raises
        ------
        ArgumentError
            If ``f`` returns something that is not a finite number.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
        >>> estimate = posterior.feature(lambda dag: "smoke" in dag.markov_blanket("phys"))
        >>> estimate.value > 0.99
        True
        """
        rows, which = self._distinct
        values = [f(Dag.from_rows(graph, self.names)) for graph in rows]
        if all(isinstance(value, (bool, np.bool_)) for value in values):
            holds = np.array(values, dtype=np.bool_)[which]
            return diagnose_indicators(IndicatorCounts.from_draws(holds), self.reference_ess).estimate()
        numbers = []
        for value in values:
            try:
                numbers.append(float(value))
            except (TypeError, ValueError):
                raise ArgumentError(f"f returned {value!r}; it must return a number, True or False") from None
        draws = np.array(numbers)[which]
        if not np.isfinite(draws).all():
            raise ArgumentError("f returned a value that is not finite; its posterior mean would not be a number")
        return diagnose_real(draws).estimate

    def graphs(self, most: int = 10) -> tuple[SampledGraph, ...]:
        """The most probable graphs of the sample, by their exact relative posterior, with their frequencies.

        Parameters
        ----------
        most : int, default=10
            How many to return; there may be fewer.

        Returns
        -------
        tuple of SampledGraph
            By log score, highest first (the prior is uniform); equal scores in order of appearance.
        """
        most = check_whole("most", most, 0)
        rows, which = self._distinct
        score = np.empty(len(rows))
        score[which.ravel()] = self.log_score.ravel()
        best = np.argsort(-np.round(score, 9), kind="stable")[:most]
        found = []
        for number in best:
            counts = IndicatorCounts.from_draws(which == number)
            frequency = diagnose_indicators(counts, self.reference_ess).estimate()
            found.append(SampledGraph(Dag.from_rows(rows[number], self.names), float(score[number]), frequency))
        return tuple(found)

    def to_frame(self) -> pd.DataFrame:
        """All draws as a frame, one row for each draw of each chain; write it with ``to_csv`` or ``to_parquet``.

        Returns
        -------
        pandas.DataFrame
            Columns ``chain, draw, log_score, n_edges``, then one 0/1 column (int8) ``"source -> target"`` for each
            ordered pair of nodes.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=10, seed=1)
        >>> posterior.to_frame().shape
        (40, 34)
        """
        from doxa.structure.export import draws_frame

        return draws_frame(self)

    def to_arviz(self) -> Any:
        """All draws as an ArviZ ``DataTree``; needs ``pip install 'doxa[arviz]'``.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` with ``edge`` (chain, draw, source, target) as int8, ``log_score`` and ``n_edges``.

        Raises
        ------
        MissingExtraError
            If arviz-base is not installed.

        Notes
        -----
        ArviZ gives an edge that never changed an error of 0; `edges` does not.
        """
        from doxa.structure.export import draws_to_arviz

        return draws_to_arviz(self)

    @property
    def verdict(self) -> str:
        """In words: has the run converged, why, and what to do."""
        return self._verdict.text

    @property
    def converged(self) -> bool | None:
        """Whether the chains agree well enough to trust; None when the run cannot tell."""
        return self._verdict.converged

    def summary(self, most: int = 12) -> str:
        """A page of text: the run, its most probable edges with errors, and the verdict.

        Parameters
        ----------
        most : int, default=12
            Edges listed.
        """
        from doxa.structure.summary import summary_text

        return summary_text(self, check_whole("most", most, 0))

    @cached_property
    def edge_diagnostics(self) -> IndicatorDiagnostics:
        """Diagnostics of all edges, arrays of shape (n_nodes, n_nodes); ``[i, j]`` is i -> j."""
        return diagnose_indicators(self._edge_counts, self.reference_ess)

    @cached_property
    def adjacency_diagnostics(self) -> IndicatorDiagnostics:
        """Diagnostics of all adjacencies, arrays of shape (n_nodes, n_nodes), symmetric."""
        from doxa.structure.adjacency import symmetric_rows

        counts = IndicatorCounts.from_words(symmetric_rows(self.trace["rows"]), len(self.names))
        return diagnose_indicators(counts, self.reference_ess)

    @cached_property
    def log_score_diagnosis(self) -> RealDiagnosis:
        """Mean, error and R-hat of the log score: the quantity that shows a chain in another mode."""
        return diagnose_real(self.log_score)

    @cached_property
    def n_edges_diagnosis(self) -> RealDiagnosis:
        """Mean, error and R-hat of the number of edges (the chapter's own convergence diagnostic)."""
        return diagnose_real(self.n_edges.astype(np.float64))

    @cached_property
    def _edge_counts(self) -> IndicatorCounts:
        return IndicatorCounts.from_words(self.trace["rows"], len(self.names))

    @cached_property
    def reference_ess(self) -> float:
        """Effective draws of the slowest quantity that changed; 0 if nothing did.

        What never changed is judged by it: a bound of 3 / ess, not an error of 0.
        """
        slowest = [
            diagnose_indicators(self._edge_counts).reference_ess,
            self.log_score_diagnosis.bulk_ess,
            self.n_edges_diagnosis.bulk_ess,
        ]
        return min((ess for ess in slowest if np.isfinite(ess) and ess > 0), default=0.0)

    @cached_property
    def _verdict(self) -> Verdict:
        from doxa.structure.verdict import judge

        return judge(self)

    @cached_property
    def _distinct(self) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
        """The different graphs of the sample in order of appearance, and for each draw which of them it is."""
        rows = self.trace["rows"]
        n_chains, n_draws = rows.shape[:2]
        flat = np.ascontiguousarray(rows).reshape(n_chains * n_draws, -1)
        keys = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return flat[first[order]].reshape(-1, *rows.shape[2:]), rank[inverse].reshape(n_chains, n_draws)

    def _frame(
        self, columns: tuple[str, str], pairs: list[tuple[int, int]], diagnostics: IndicatorDiagnostics
    ) -> pd.DataFrame:
        import pandas as pd

        i, j = np.array(pairs).T
        data: dict[str, Any] = {
            columns[0]: [self.names[k] for k in i],
            columns[1]: [self.names[k] for k in j],
            "probability": diagnostics.probability[i, j],
            "mcse": diagnostics.mcse[i, j],
            "ess": diagnostics.ess[i, j],
            "r_hat": diagnostics.r_hat[i, j],
        }
        return pd.DataFrame(data).sort_values("probability", ascending=False, kind="stable", ignore_index=True)
