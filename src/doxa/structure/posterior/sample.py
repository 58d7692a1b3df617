"""`GraphSample`: what answers are worked out from, whatever made the draws.

`doxa.structure.posterior.structure_posterior.StructurePosterior` is one.  What it answers is in the modules beside it,
which need to know no more of it than this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from doxa.estimates.diagnostics import RealDiagnosis
    from doxa.estimates.estimate import Estimate, Verdict
    from doxa.estimates.indicators import IndicatorDiagnostics
    from doxa.estimates.stopping import StopReport
    from doxa.estimates.trace import Trace
    from doxa.structure.families.cache import CacheUse
    from doxa.structure.moves.sampler import StructureMove
    from doxa.structure.runs.options import RunOptions

__all__ = ["GraphSample"]


class GraphSample(Protocol):
    """Draws of graphs, how they were made, and how well they tell what."""

    names: tuple[str, ...]
    trace: Trace
    sampler: StructureMove
    options: RunOptions
    cache: CacheUse | None
    stop: StopReport | None
    source: dict[str, Any] | None
    how: str

    @property
    def n_edges(self) -> NDArray[np.int32]:
        """Number of edges of every graph, shape (chain, draw)."""

    @property
    def log_score(self) -> NDArray[np.float64]:
        """Log P(data | graph) of every graph, nats, shape (chain, draw)."""

    @property
    def expected_edges(self) -> Estimate:
        """Posterior mean of the number of edges."""

    @property
    def edge_diagnostics(self) -> IndicatorDiagnostics:
        """Diagnostics of all edges, arrays of shape (n_nodes, n_nodes)."""

    @property
    def adjacency_diagnostics(self) -> IndicatorDiagnostics:
        """Diagnostics of all adjacencies, arrays of shape (n_nodes, n_nodes), symmetric."""

    @property
    def log_score_diagnosis(self) -> RealDiagnosis:
        """Mean, error and R-hat of the log score."""

    @property
    def reference_ess(self) -> float:
        """Effective draws of the slowest quantity that changed; 0 if nothing did."""

    @property
    def verdict(self) -> str:
        """In words: has the run converged, why, and what to do."""

    @property
    def judgement(self) -> Verdict:
        """The verdict taken apart."""

    @property
    def _distinct(self) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
        """The different graphs in order of appearance, and for each draw which of them it is."""

    @property
    def _distinct_score(self) -> NDArray[np.float64]:
        """Log score of each different graph."""
