"""`StructurePosterior`: what a run over graphs says, every number with its Monte Carlo error.

Probabilities are frequencies of the sampled graphs (Riggelsen, ch. 4, eq. 4.12); their errors come from
`doxa.estimates`.  Whether the run can be trusted is decided in `doxa.structure.posterior.verdict`.  What is more than a
few lines is answered beside it, in `features`, `consensus` and `loss`.  What is worked out for each graph is worked out
once for the different graphs of the sample.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa import estimates
from doxa.checks import check_whole
from doxa.data.slices import name_and_lag, past_name
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import Estimate
from doxa.estimates.indicators import IndicatorDiagnostics, diagnose_words
from doxa.estimates.trace import Trace
from doxa.models import Cpdag, Dag
from doxa.structure.posterior import features
from doxa.structure.posterior.consensus import (
    MedianGraph,
    SampledClass,
    SampledGraph,
    consensus,
    median_probability_graph,
    most_probable_class,
    most_probable_graphs,
)
from doxa.structure.posterior.loss import MOST_EVALUATIONS, Loss, expected_loss, least_loss_graph
from doxa.structure.posterior.relations import blanket_rows, class_rows, descendant_rows, label_rows
from doxa.structure.posterior.summary import draws_frame, draws_to_arviz, posterior_card, posterior_text, summary_text
from doxa.structure.posterior.verdict import PosteriorComparison, Verdict, compare_posteriors, judge

if TYPE_CHECKING:
    import pandas as pd

    from doxa.estimates.diagnostics import RealDiagnosis
    from doxa.estimates.stopping import StopReport
    from doxa.models.dag import Nodes
    from doxa.structure.families.cache import CacheUse
    from doxa.structure.moves.sampler import StructureMove
    from doxa.structure.runs.options import RunOptions

__all__ = ["SampledGraph", "StructurePosterior", "diagnoses_of", "distinct_graphs"]

_OF_DRAWS = (
    "_edges_alone", "log_score_diagnosis", "n_edges_diagnosis", "reference_ess", "edge_diagnostics",
    "adjacency_diagnostics",
)  # fmt: skip


def diagnoses_of(posterior: StructurePosterior) -> dict[str, Any]:
    """What was found out about its draws so far, by attribute: another posterior of the same draws may be given it."""
    return {name: vars(posterior)[name] for name in _OF_DRAWS if name in vars(posterior)}


def distinct_graphs(rows: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """The different graphs among draws (chain, draw, n_nodes, n_words), as they appear, and which of them each is.

    Examples
    --------
    >>> graphs, which = distinct_graphs(np.array([[[[2], [0]], [[0], [0]], [[2], [0]]]], dtype=np.uint64))
    >>> graphs[..., 0].tolist(), which.tolist()
    ([[2, 0], [0, 0]], [[0, 1, 0]])
    """
    flat = rows.reshape(-1, *rows.shape[2:])
    first, label = label_rows(flat)
    return flat[first], label.reshape(rows.shape[:2])


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
    source : dict or None
        How the table was read, if from a file.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), exact=False, seed=1)
    >>> posterior.stop.reason, posterior.converged
    ('reached', True)
    """

    how: str = ""  # how it came from another one, as `doxa.Posterior.update` says; kept with it

    def __init__(
        self,
        names: tuple[str, ...],
        trace: Trace,
        sampler: StructureMove,
        options: RunOptions,
        cache: CacheUse | None = None,
        stop: StopReport | None = None,
        source: dict[str, Any] | None = None,
    ) -> None:
        self.names = names
        self.trace = trace
        self.sampler = sampler
        self.options = options
        self.cache = cache
        self.stop = stop
        self.source = source

    @property
    def parts(self) -> dict[str, Any]:
        """The arguments that it was made of."""
        names = ("names", "trace", "sampler", "options", "cache", "stop", "source")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return posterior_text(self)

    def _repr_html_(self) -> str:
        return posterior_card(self)

    @property
    def n_edges(self) -> NDArray[np.int32]:
        """Number of edges of every sampled graph, shape (chain, draw)."""
        return self.trace["n_edges"]

    @property
    def log_score(self) -> NDArray[np.float64]:
        """Log of score times prior weight of every sampled graph, nats, shape (chain, draw).

        Log P(data | graph) + log P(graph), the second up to its constant: the families' log marginal likelihoods, and
        their shares in the prior over graphs, which are 0 under the uniform one.  Where cells are missing, the drawn
        ones count as data.
        """
        return self.trace["log_score"]

    def edges(self, least: float | None = None, where: str | Iterable[str] | None = None) -> pd.DataFrame:
        """Posterior probability of every directed edge.

        Parameters
        ----------
        least : float, optional
            Only edges of this probability or more.
        where : str or iterable of str, optional
            Only edges with one end among these nodes.  Of more than 100,000 pairs of nodes (317 columns) without
            ``least`` and ``where``, those that some sampled graph has are listed; ``least=0`` lists all.

        Returns
        -------
        pandas.DataFrame
            Columns ``source, target, probability, mcse, ess, r_hat``, one row for each ordered pair of nodes, most
            probable first.  ``mcse`` is the Monte Carlo standard error of ``probability``, 0 only where the limits
            forbid or require the edge; ``ess`` the effective number of draws; ``r_hat`` the split R-hat over the chains
            (nan where the edge never changed).  Where rows are moments in time, ``lag`` follows ``target``: from how
            many moments before the edge leads, 0 within a moment.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
        >>> list(posterior.edges().columns)
        ['source', 'target', 'probability', 'mcse', 'ess', 'r_hat']
        >>> len(posterior.edges()), len(posterior.edges(least=0.5)), len(posterior.edges(where="smoke"))
        (30, 2, 10)
        """
        frame = features.pair_frame(self, ("source", "target"), self.edge_diagnostics, least, where)
        if self.options.order is not None:
            told = [name_and_lag(name) for name in frame["source"]]
            frame["source"] = [name for name, _ in told]
            frame.insert(2, "lag", [lag for _, lag in told])
        return frame

    def adjacencies(self, least: float | None = None, where: str | Iterable[str] | None = None) -> pd.DataFrame:
        """Posterior probability that two nodes are joined, in either direction.

        Parameters
        ----------
        least, where : optional
            Which pairs, as for `edges`.

        Returns
        -------
        pandas.DataFrame
            Columns ``node_a, node_b, probability, mcse, ess, r_hat``, one row for each pair of nodes, in the order of
            the table's columns, most probable first.
        """
        return features.pair_frame(self, ("node_a", "node_b"), self.adjacency_diagnostics, least, where, once=True)

    def cpdag_edges(self, least: float | None = None, where: str | Iterable[str] | None = None) -> pd.DataFrame:
        """Posterior probability of every edge of the equivalence class: what data alone can tell of directions.

        Parameters
        ----------
        least, where : optional
            Which pairs, as for `edges`.

        Returns
        -------
        pandas.DataFrame
            Columns ``source, target, kind, probability, mcse, ess, r_hat``, most probable first.  ``kind`` is
            ``"directed"`` for a compelled edge source -> target, which all graphs of the class share (one row for each
            ordered pair), and ``"undirected"`` for an edge that has either direction in some graph of the class (one
            row for each pair, in the order of the nodes).  The three rows of a pair add up to the probability that the
            two are joined.  Where somebody intervened, the classes are interventional: fewer edges are reversible.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
        >>> posterior.cpdag_edges().loc[0, ["source", "target", "kind"]].tolist()
        ['mental', 'phys', 'undirected']
        """
        import pandas as pd

        directed, undirected = class_rows(self._distinct[0], self.options.targets)
        frames = []
        for kind, rows, once in (("directed", directed, False), ("undirected", undirected, True)):
            found = self._relation(rows)
            frame = features.pair_frame(self, ("source", "target"), found, least, where, once=once)
            frame.insert(2, "kind", kind)
            frames.append(frame)
        filled = [frame for frame in frames if len(frame)] or frames  # an empty one would change the types of columns
        return features.most_probable_first(pd.concat(filled, ignore_index=True))

    def ancestors(self, least: float | None = None, where: str | Iterable[str] | None = None) -> pd.DataFrame:
        """Posterior probability that there is a directed path from one node to another.

        Parameters
        ----------
        least, where : optional
            Which pairs, as for `edges`.

        Returns
        -------
        pandas.DataFrame
            Columns ``ancestor, descendant, probability, mcse, ess, r_hat``, one row for each ordered pair of nodes,
            most probable first.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
        >>> paths = posterior.ancestors().set_index(["ancestor", "descendant"])["probability"]
        >>> bool(paths["smoke", "systol"] > posterior.edge("smoke", "systol").value)
        True
        """
        found = self._relation(descendant_rows(self._distinct[0]))
        return features.pair_frame(self, ("ancestor", "descendant"), found, least, where)

    def markov_blankets(self, least: float | None = None, where: str | Iterable[str] | None = None) -> pd.DataFrame:
        """Posterior probability that one node belongs to the Markov blanket of another.

        Parameters
        ----------
        least, where : optional
            Which pairs, as for `edges`.

        Returns
        -------
        pandas.DataFrame
            Columns ``node, member, probability, mcse, ess, r_hat``, most probable first.  Membership is mutual; each
            pair stands in both orders, so that the rows with one ``node`` are its blanket.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
        >>> frame = posterior.markov_blankets()
        >>> frame[frame["node"] == "smoke"]["member"].head(2).tolist()
        ['phys', 'protein']
        """
        found = self._relation(blanket_rows(self._distinct[0]))
        return features.pair_frame(self, ("node", "member"), found, least, where, with_past=True)

    def parent_sets(self, node: str, most: int = 10) -> pd.DataFrame:
        """Posterior probability of the parent sets of a node.

        Parameters
        ----------
        node : str
            Name of the node.
        most : int, default=10
            How many to return; there may be fewer.

        Returns
        -------
        pandas.DataFrame
            Columns ``parents, probability, mcse, ess, r_hat``, most probable first; ``parents`` is a tuple of names in
            the order of the nodes.  Sets that no sampled graph has are not listed.

        Raises
        ------
        ArgumentError
            If ``node`` is not a node of the posterior, or ``most`` is below 1.
        ArgumentTypeError
            If ``most`` is not a whole number.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
        >>> posterior.parent_sets("family", most=1).loc[0, "parents"]
        ()
        """
        return features.parent_sets(self, node, most)

    def edge(self, source: str, target: str, lag: int = 0) -> Estimate:
        """Posterior probability of the edge source -> target.

        Parameters
        ----------
        source, target : str
        lag : int, default=0
            Where rows are moments in time, from how many moments before the edge leads; 0 within a moment.

        Raises
        ------
        ArgumentError
            If a name is not a node, both are the same, or the past does not reach so far.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), exact=False, seed=1)
        >>> low, high = posterior.edge("smoke", "protein").interval()
        >>> bool(0 < low < high < 1)
        True
        """
        if lag:
            lags = 0 if self.options.order is None else self.options.order.lags
            if not 0 <= check_whole("lag", lag, 0) <= lags:
                raise ArgumentError(f"lag is {lag}, and the past of this posterior reaches back {lags} moments")
            source = past_name(source, lag)
        for node in (source, target):
            if node not in self.names:
                known = ", ".join(map(repr, self.names))
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
        >>> drawn = doxa.learn(doxa.datasets.load("reinis"), exact=False, seed=1)
        >>> drawn.feature(lambda dag: dag.n_edges) == drawn.expected_edges
        True
        """
        if not callable(f):
            raise ArgumentTypeError(f"f is {f!r}; give a function that makes a number of a Dag")
        values = [f(Dag.from_rows(graph, self.names)) for graph in self._distinct[0]]
        return features.mean_over_draws(self, values, "f")

    def d_separated(self, x: Nodes, y: Nodes, given: Nodes = ()) -> Estimate:
        """Posterior probability that nodes are d-separated given others, so that the graph makes them independent.

        Parameters
        ----------
        x, y, given : node or iterable of nodes
            Three groups without a node in common; ``given`` may be empty.

        Returns
        -------
        Estimate

        Raises
        ------
        ArgumentError
            As `doxa.Dag.d_separated`.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
        >>> joined = posterior.d_separated("smoke", "systol")
        >>> joined.value < posterior.d_separated("smoke", "systol", given=["protein", "phys"]).value
        True
        """
        return self.feature(lambda dag: dag.d_separated(x, y, given))

    def is_adjustment_set(self, cause: Nodes, effect: Nodes, given: Nodes = ()) -> Estimate:
        """Posterior probability that adjusting for a set identifies an effect; see `doxa.Dag.is_adjustment_set`."""
        return self.feature(lambda dag: dag.is_adjustment_set(cause, effect, given))

    def adjustment_sets(self, cause: Nodes, effect: Nodes, most: int = 10) -> pd.DataFrame:
        """Sets to adjust for, and the probability that each of them identifies the effect of one node on another.

        Parameters
        ----------
        cause, effect : node or iterable of nodes
            As `Dag.adjustment_set` takes them.
        most : int, default=10
            How many sets to return; there may be fewer.

        Returns
        -------
        pandas.DataFrame
            Columns ``given, probability, mcse, ess, r_hat``, most probable first; ``given`` is a tuple of names in the
            order of the nodes.  Listed are the sets that `Dag.adjustment_set` finds in most draws; each counts in every
            graph where it is valid.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
        >>> posterior.adjustment_sets("smoke", "systol").columns.tolist()
        ['given', 'probability', 'mcse', 'ess', 'r_hat']
        """
        return features.adjustment_sets(self, cause, effect, most)

    @property
    def expected_edges(self) -> Estimate:
        """Posterior mean of the number of edges."""
        return self.n_edges_diagnosis.estimate

    def graphs(self, most: int = 10) -> tuple[SampledGraph, ...]:
        """The most probable graphs of the sample, by their exact relative posterior, with their frequencies.

        Parameters
        ----------
        most : int, default=10
            How many to return; there may be fewer.

        Returns
        -------
        tuple of SampledGraph
            By log score, highest first (the prior included); equal scores in order of appearance.
        """
        return most_probable_graphs(self, most)

    def most_probable_class(self) -> SampledClass:
        """The most probable equivalence class, by frequency, then score; see `doxa.structure.posterior.consensus`."""
        return most_probable_class(self)

    def median_probability_graph(self) -> MedianGraph:
        """All edges with a probability above 1/2, which may have a cycle; see `doxa.structure.posterior.consensus`."""
        return median_probability_graph(self)

    def consensus(self, threshold: float = 0.5) -> Dag:
        """The edges above a threshold, most probable first, without cycles: `doxa.structure.posterior.consensus`."""
        return consensus(self, threshold)

    def expected_loss(self, graph: Dag | Cpdag, loss: Loss = "shd") -> Estimate:
        """Posterior expected loss of reporting ``graph``; see `doxa.structure.posterior.loss.expected_loss`."""
        return expected_loss(self, graph, loss)

    def least_loss_graph(
        self, loss: Loss = "shd", candidates: Iterable[Dag] | None = None, max_evaluations: int = MOST_EVALUATIONS
    ) -> Dag:
        """The sampled graph with the smallest expected loss; see `doxa.structure.posterior.loss.least_loss_graph`."""
        return least_loss_graph(self, loss, candidates, max_evaluations)

    def compare(self, other: StructurePosterior) -> PosteriorComparison:
        """Edge probabilities beside another posterior's; see `doxa.structure.posterior.verdict`."""
        return compare_posteriors(self, other)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the posterior to a new file, which `doxa.load` reads.

        Parameters
        ----------
        path : path
            A name that is not taken.

        Raises
        ------
        RunFileError
            If the name is taken or the file cannot be written; nothing is then left behind.

        Notes
        -----
        A saved posterior cannot be gone on with: ``learn(..., store=path)`` keeps what `doxa.resume` needs.  An exact
        posterior stays exact; of each node the 1000 most probable parent sets are kept.
        """
        from doxa.structure.runs.files import save_run

        save_run(self, path)

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
        return draws_frame(self)

    def to_arviz(self) -> Any:
        """All draws as an ArviZ ``DataTree``; needs ``pip install 'doxa[arviz]'``.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` with ``edge`` (chain, draw, edge_name) as int8, ``log_score`` and ``n_edges``.  The
            edges that are the same in all draws, which have no diagnostics, are in the group ``constant_data``:
            ``constant_edge`` (constant_edge_name).  An edge has a name such as ``"smoke -> phys"``.

        Raises
        ------
        MissingExtraError
            If arviz-base is not installed.

        Notes
        -----
        ArviZ would give an edge that never changed an error of 0; `edges` does not.
        """
        return draws_to_arviz(self)

    @property
    def verdict(self) -> str:
        """In words: has the run converged, why, and what to do."""
        return self.judgement.text

    @property
    def converged(self) -> bool | None:
        """Whether the chains agree well enough to trust; None when the run cannot tell."""
        return self.judgement.converged

    def summary(self, most: int = 12) -> str:
        """A page of text: the run, its most probable edges with errors, and the verdict.

        Parameters
        ----------
        most : int, default=12
            Edges listed.
        """
        return summary_text(self, check_whole("most", most, 0))

    @cached_property
    def edge_diagnostics(self) -> IndicatorDiagnostics:
        """Diagnostics of all edges, arrays of shape (n_nodes, n_nodes); ``[i, j]`` is i -> j."""
        return self._edges_alone.judged_by(self.reference_ess).with_known(self._decided)

    @cached_property
    def adjacency_diagnostics(self) -> IndicatorDiagnostics:
        """Diagnostics of all adjacencies, arrays of shape (n_nodes, n_nodes), symmetric."""
        found = diagnose_words(self.trace["rows"], len(self.names), self.reference_ess, folded=True).mirrored()
        limits = self.options.limits
        joined, possible = limits.required_edges, limits.allowed_edges
        decided = joined | joined.T | ~(possible | possible.T)
        return found.with_known(decided & ~np.eye(len(self.names), dtype=np.bool_))

    @cached_property
    def _decided(self) -> NDArray[np.bool_]:
        """Edges that the limits forbid or require, and the reverse of these, (n_nodes, n_nodes)."""
        limits = self.options.limits
        decided = limits.required_edges | limits.required_edges.T | ~limits.allowed_edges
        return np.asarray(decided & ~np.eye(len(self.names), dtype=np.bool_))

    @cached_property
    def log_score_diagnosis(self) -> RealDiagnosis:
        """Mean, error and R-hat of the log score: the quantity that shows a chain in another mode."""
        return estimates.diagnose_real(self.log_score)

    @cached_property
    def n_edges_diagnosis(self) -> RealDiagnosis:
        """Mean, error and R-hat of the number of edges (the chapter's own convergence diagnostic)."""
        return estimates.diagnose_real(self.n_edges.astype(np.float64))

    @cached_property
    def _edges_alone(self) -> IndicatorDiagnostics:
        """Diagnostics of the edges that see no other quantity."""
        return diagnose_words(self.trace["rows"], len(self.names))

    @cached_property
    def reference_ess(self) -> float:
        """Effective draws of the slowest quantity that changed; 0 if nothing did, and no chain had to come there.

        What never changed is judged by it: a bound of 3 / ess, not an error of 0.  Three chains or more start at
        different graphs: where all of them came to one and never left it in all their draws, each of which had every
        pair of nodes look for something better, these count as so many draws of it.
        """
        alone = self.options.n_missing and self.options.limits.one_graph  # cells move, and only the score shows how
        if not alone and self.n_edges.shape[0] > 2 and (self.trace["rows"] == self.trace["rows"][:1, :1]).all():
            return float(self.n_edges.size)
        slowest = [
            self._edges_alone.reference_ess,
            self.log_score_diagnosis.bulk_ess,
            self.n_edges_diagnosis.bulk_ess,
        ]
        return min((ess for ess in slowest if np.isfinite(ess) and ess > 0), default=0.0)

    @cached_property
    def judgement(self) -> Verdict:
        """The verdict taken apart: ``converged``, ``word``, ``reason``, ``advice``, and the ``text`` of all."""
        return judge(self)

    def _relation(self, rows: NDArray[np.uint64]) -> IndicatorDiagnostics:
        """Diagnostics of a relation between nodes, given as bit rows of every different graph."""
        return diagnose_words(rows[self._distinct[1]], len(self.names), self.reference_ess)

    @cached_property
    def _distinct(self) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
        """The different graphs of the sample in order of appearance, and for each draw which of them it is."""
        return distinct_graphs(self.trace["rows"])

    @cached_property
    def _distinct_score(self) -> NDArray[np.float64]:
        """Log score of each different graph."""
        rows, which = self._distinct
        found = np.empty(len(rows))
        found[which.ravel()] = self.log_score.ravel()
        return found
