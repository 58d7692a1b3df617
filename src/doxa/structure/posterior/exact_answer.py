"""`ExactStructurePosterior`: what `doxa.learn` returns when there are few enough graphs to sum over all of them.

Edges, adjacencies, ancestors, parent sets, probabilities of single graphs and the log marginal likelihood are exact.
All else is the mean of independent exact draws of graphs, with its Monte Carlo error.  Whether a sum is worth its cost
is decided in `doxa.structure.exact.dag_budget`.  A run file keeps the sums as `KeptSums`, without the tables that they
were made with.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate
from doxa.estimates.indicators import Status
from doxa.estimates.stopping import StopReport
from doxa.estimates.trace import Trace
from doxa.progress import tell
from doxa.structure.exact.dag_budget import exact_cost
from doxa.structure.exact.dag_sums import MOST_NODES, ExactPosterior, ParentSets, log_sum_over_dags
from doxa.structure.families.cache import FamilyScores
from doxa.structure.moves.by_name import Exact
from doxa.structure.posterior.features import DIAGNOSED, pair_frame
from doxa.structure.posterior.structure_posterior import SampledGraph, StructurePosterior
from doxa.structure.posterior.verdict import Verdict, notes
from doxa.text import duration

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.cases.incomplete.missing_cells import IncompleteData
    from doxa.structure.cases.incomplete.sums import ExactMixture
    from doxa.structure.runs.options import RunOptions

__all__ = [
    "ExactProbabilities",
    "ExactStructurePosterior",
    "KeptSums",
    "sum_over_graphs",
]


logger = logging.getLogger("doxa")

_LONG = 5.0  # seconds: a sum that takes longer says so beforehand
DRAWS = 2500  # of each chain, for what has no exact sum


@dataclass(frozen=True)
class ExactProbabilities:
    """Exact probabilities in the place of `doxa.estimates.indicators.IndicatorDiagnostics`."""

    probability: NDArray[np.float64]

    @property
    def mcse(self) -> NDArray[np.float64]:
        """Zero."""
        return np.zeros_like(self.probability)

    @property
    def ess(self) -> NDArray[np.float64]:
        """Infinite."""
        return np.full_like(self.probability, np.inf)

    @property
    def r_hat(self) -> NDArray[np.float64]:
        """Not a number: no chains are compared."""
        return np.full_like(self.probability, np.nan)

    @property
    def status(self) -> NDArray[np.int8]:
        """All known."""
        return np.full(self.probability.shape, Status.OK, dtype=np.int8)

    def interval(self, prob: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # noqa: ARG002
        """The probabilities themselves."""
        return self.probability, self.probability

    def estimate(self, index: tuple[int, ...] = ()) -> Estimate:
        """One of them."""
        return Estimate.exactly(float(self.probability[index]))


class ExactStructurePosterior(StructurePosterior):
    """The posterior over directed acyclic graphs, summed over all of them.

    Everything that `StructurePosterior` offers is there.  ``trace`` holds independent draws of graphs.

    Attributes
    ----------
    exact : ExactPosterior, ExactMixture or KeptSums
        The sums; the second where cells are missing, the third in a posterior that was loaded.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
    >>> print(posterior.edge("smoke", "protein"))
    0.268793 (exact)
    """

    def __init__(
        self,
        names: tuple[str, ...],
        trace: Trace,
        options: RunOptions,
        exact: ExactPosterior | ExactMixture | KeptSums,
        seconds: float,
        source: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(names, trace, Exact(), options, None, StopReport("exact", None, seconds), source)
        self.exact = exact

    @property
    def parts(self) -> dict[str, Any]:
        """The arguments that it was made of."""
        seconds = 0.0 if self.stop is None else self.stop.seconds
        return {"names": self.names, "trace": self.trace, "options": self.options, "exact": self.exact,
                "seconds": seconds, "source": self.source}  # fmt: skip

    @property
    def log_evidence(self) -> float:
        """Log of the sum over graphs of score times prior weight, nats; the weights need not sum to 1."""
        return self.exact.log_evidence

    @cached_property
    def log_marginal_likelihood(self) -> Estimate:
        """Log P(data), nats: the evidence divided by the sum of the prior weights over all possible graphs."""
        from doxa.structure.exact.enumeration import prior_weights

        return Estimate.exactly(self.log_evidence - log_sum_over_dags(prior_weights(self.options)))

    @cached_property
    def edge_diagnostics(self) -> Any:
        """Probabilities of all edges, arrays of shape (n_nodes, n_nodes); ``[i, j]`` is i -> j."""
        return ExactProbabilities(self.exact.edge_probabilities)

    @cached_property
    def adjacency_diagnostics(self) -> Any:
        """Probabilities of all adjacencies, arrays of shape (n_nodes, n_nodes), symmetric."""
        return ExactProbabilities(self.exact.edge_probabilities + self.exact.edge_probabilities.T)

    @property
    def expected_edges(self) -> Estimate:
        """Posterior mean of the number of edges."""
        return Estimate.exactly(float(self.exact.edge_probabilities.sum()))

    def ancestors(self, least: float | None = None, where: str | Iterable[str] | None = None) -> pd.DataFrame:
        """Posterior probability that there is a directed path from one node to another; exact."""
        found: Any = ExactProbabilities(self.exact.ancestor_probabilities)
        return pair_frame(self, ("ancestor", "descendant"), found, least, where)

    def parent_sets(self, node: str, most: int = 10) -> pd.DataFrame:
        """Posterior probability of the parent sets of a node; exact."""
        import pandas as pd

        from doxa.frames import ReadFrame

        sets = self.exact.parent_sets(node)
        masks = sets.masks[: check_whole("most", most, 1)].tolist()
        parents = [tuple(name for j, name in enumerate(self.names) if mask >> j & 1) for mask in masks]
        found = ExactProbabilities(sets.probability[: len(masks)])
        columns = {name: getattr(found, name) for name in DIAGNOSED}
        return ReadFrame({"parents": pd.Series(parents, dtype=object), **columns})

    def graphs(self, most: int = 10) -> tuple[SampledGraph, ...]:
        """The most probable graphs among the draws, with their exact probabilities."""
        return tuple(
            graph._replace(frequency=Estimate.exactly(math.exp(graph.log_score - self.log_evidence)))
            for graph in super().graphs(most)
        )

    @cached_property
    def judgement(self) -> Verdict:
        """The verdict taken apart: there is nothing to run longer."""
        error = math.exp(self.exact.log_relative_error)
        n_tables = self.exact.n_completions
        cells = f" and all {n_tables} completions" if n_tables > 1 else ""
        text = (
            f"a sum over all graphs within the limits{cells}, with an error below "
            f"{error:.0e}. Edges, adjacencies, ancestors and parent sets need no sampling; other features are means "
            f"over {self.n_edges.size} independent draws."
        )
        wide = notes(self)
        return Verdict(True, "Exact", f"{text} {wide}".rstrip())


def sum_over_graphs(
    cases: FamilyScores | IncompleteData,
    options: RunOptions,
    chains: int,
    entropy: int,
    workers: int | None,
    source: dict[str, Any] | None = None,
) -> ExactStructurePosterior:
    """Sum over all graphs, and all completions of a table with missing cells; and draw some of them.

    Raises
    ------
    ArgumentError
        If there are more nodes than can be summed over.
    PrecisionError
        If the sums lose too many digits.
    """
    from doxa.structure.exact.enumeration import exact_posterior

    if len(options.names) > MOST_NODES:
        raise ArgumentError(
            f"exact is True, but the table has {len(options.names)} columns, and all graphs are summed for at most "
            f"{MOST_NODES}; leave exact out to sample, or select columns"
        )
    begin = time.monotonic()
    streams = [np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(chain,))) for chain in range(chains)]
    exact: ExactPosterior | ExactMixture
    if isinstance(cases, FamilyScores):
        cost = exact_cost(options)
        long = f", about {duration(cost.seconds)}" if cost.seconds >= _LONG else ""
        tell(f"summing over all graphs{long}")
        logger.info("summing over all graphs: at most %s%s", cost, long)
        exact = exact_posterior(cases, options.limits, workers)
        rows, cells = [exact.draw(DRAWS, rng) for rng in streams], {}
    else:
        from doxa.structure.cases.incomplete.sums import ExactMixture

        tell("summing over all graphs and missing cells")
        exact = ExactMixture.of(cases, options.limits, workers)
        both = [exact.draw(DRAWS, rng) for rng in streams]
        rows = [graphs for graphs, _ in both]
        cells = {"cells": np.stack([states for _, states in both]).astype(cases.missing_cells.dtype)}
    draws = {"log_score": np.stack([exact.log_scores(chain) for chain in rows])} | cells
    draws["rows"] = np.stack(rows)
    draws["n_edges"] = np.bitwise_count(draws["rows"]).sum(axis=(2, 3)).astype(np.int32)
    nothing = {"proposed": np.zeros(chains, dtype=np.int64), "accepted": np.zeros(chains, dtype=np.int64)}
    trace = Trace(draws, thin=1, n_warmup=0, entropy=entropy, info=nothing)
    return ExactStructurePosterior(options.names, trace, options, exact, time.monotonic() - begin, source)


_MOST_SETS, _LEAST_PROBABILITY = 1000, 1e-12  # of the parent sets of a node: 20 columns then take some 0.5 MB


@dataclass(frozen=True, eq=False, repr=False)
class KeptSums:
    """What an exact posterior answers from: the face of `doxa.structure.exact.dag_sums.ExactPosterior` without draws.

    The parent sets of a node are the 1000 most probable ones, as far as their probability exceeds 1e-12.
    """

    names: tuple[str, ...]
    log_evidence: float
    log_relative_error: float
    n_completions: int
    edge_probabilities: NDArray[np.float64]
    ancestor_probabilities: NDArray[np.float64]
    _parent_sets: tuple[ParentSets, ...]

    @classmethod
    def of(cls, sums: ExactPosterior | ExactMixture | KeptSums, names: tuple[str, ...]) -> KeptSums:
        """What is kept of sums."""
        return cls(
            names,
            sums.log_evidence,
            sums.log_relative_error,
            sums.n_completions,
            sums.edge_probabilities,
            sums.ancestor_probabilities,
            tuple(_probable(sums.parent_sets(name)) for name in names),
        )

    def parent_sets(self, node: str) -> ParentSets:
        """The probable parent sets of a node, likeliest first."""
        return self._parent_sets[self.names.index(node)]

    def to_json(self) -> dict[str, Any]:
        """Plain data; every bit of a number is kept."""
        return {
            "log_evidence": self.log_evidence,
            "log_relative_error": self.log_relative_error,
            "n_completions": self.n_completions,
            "edges": self.edge_probabilities.tolist(),
            "ancestors": self.ancestor_probabilities.tolist(),
            "parent_sets": [[sets.masks.tolist(), sets.probability.tolist()] for sets in self._parent_sets],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], names: tuple[str, ...]) -> KeptSums:
        """Undo `to_json`, trusting nothing.

        Raises
        ------
        ArgumentError
            If something is not as `to_json` writes it.
        """
        n = len(names)
        try:
            sums = cls(
                names,
                float(stored["log_evidence"]),
                float(stored["log_relative_error"]),
                int(stored["n_completions"]),
                np.array(stored["edges"], dtype=np.float64),
                np.array(stored["ancestors"], dtype=np.float64),
                tuple(
                    ParentSets(np.array(masks, dtype=np.uint64), np.array(probability, dtype=np.float64))
                    for masks, probability in stored["parent_sets"]
                ),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ArgumentError("its option 'sums' has no such form") from None
        tables = (sums.edge_probabilities, sums.ancestor_probabilities)
        sets = sums._parent_sets
        sound = (
            math.isfinite(sums.log_evidence)
            and sums.log_relative_error < 0
            and sums.n_completions >= 1
            and all(table.shape == (n, n) and _are_probabilities(table) for table in tables)
            and len(sets) == n
            and all(own.masks.shape == own.probability.shape and own.masks.ndim == 1 for own in sets)
            and all(_are_probabilities(own.probability) and (own.masks < 2**n).all() for own in sets)
        )
        if not sound:
            raise ArgumentError("its option 'sums' has no such form")
        return sums


def _probable(sets: ParentSets) -> ParentSets:
    """The likeliest come first."""
    n_kept = min(_MOST_SETS, int((sets.probability > _LEAST_PROBABILITY).sum()))
    return ParentSets(sets.masks[:n_kept], sets.probability[:n_kept])


def _are_probabilities(values: NDArray[np.float64]) -> bool:
    """Rounding may carry a sum a little beyond 1."""
    return bool(((values >= 0) & (values <= 1 + 1e-6)).all())
