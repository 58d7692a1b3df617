"""Score tables for scores whose families share no sums: every family is scored by itself.

`doxa.structure.score_table` counts sets of columns once for all families that hold them, since a Dirichlet score is a
difference of two sums over sets.  A logistic family is an integral of its own.  `DirectWeights` stands in the place of
`FamilyWeights` there: nothing is counted beforehand, families are scored when they are weighed, on as many threads.
The lists, what is left out of them and the bound on it are those of `doxa.structure.score_table`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.checks import check_whole
from doxa.structure.cache import FamilyScores
from doxa.structure.counting import counting_scratch
from doxa.structure.family_weights import FamilyWeights, NodeFamilies, list_nodes
from doxa.structure.limits import Limits
from doxa.structure.logistic.box import Box
from doxa.structure.logistic.score import FamilyMixture, Logistic
from doxa.structure.priors import family_log_prior
from doxa.structure.score_table import ScoreTable, _Builder, _nats
from doxa.structure.scores import BDEU_RULE, Rule, family_log_marginal

__all__ = ["DirectWeights", "build_direct_table", "score_sets_of"]

_MOST_FAMILIES = 150_000  # some ten seconds on one core, at 60 microseconds each

ScoreSets = Callable[[int, NDArray[np.uint64], NDArray[np.float64]], None]


class DirectWeights(FamilyWeights):
    """Weighs families one by one; see the module's notes.

    Parameters
    ----------
    scores : FamilyScores
    max_size : int
    pool : ThreadPoolExecutor
    score_sets : callable
        Fills its third argument with the log scores, prior included, of the child in its first with the parent sets
        (bit sets, one a row) in its second.  Called from several threads at once.
    """

    def __init__(self, scores: FamilyScores, max_size: int, pool: ThreadPoolExecutor, score_sets: ScoreSets) -> None:
        super().__init__(scores, max_size, pool)
        self.score_sets = score_sets

    def count_level(self, size: int, pools: Sequence[tuple[NodeFamilies, NDArray[np.int64]]]) -> None:
        """Nothing is shared, so nothing is counted."""

    def count(self, families: Iterable[tuple[NodeFamilies, NDArray[np.int64]]]) -> None:
        """Nothing is shared, so nothing is counted."""

    def weigh(self, node: NodeFamilies, free: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log weights of sets of free parents, each with the required ones."""
        weight = np.empty(len(free))
        if len(free):
            self.score_sets(node.child, self.words(node, free), weight)
        return weight


class _DirectBuilder(_Builder):
    def __init__(self, scores: FamilyScores, limits: Limits, max_size: int, *rest: Any, score_sets: ScoreSets) -> None:
        max_families, keep_within, extend_within, pool = rest
        self.max_size, self.max_families, self.pool = max_size, max_families, pool
        self.keep_within, self.extend_within = keep_within, extend_within
        self.weights = DirectWeights(scores, max_size, pool, score_sets)
        self.nodes = list_nodes(limits, max_size)


def build_direct_table(
    scores: FamilyScores,
    limits: Limits,
    score_sets: ScoreSets,
    *,
    max_size: int = 3,
    max_families: int | None = None,
    keep_within: float = 16.0,
    extend_within: float = 10.0,
    workers: int = 1,
) -> ScoreTable:
    """List the parent sets of every node as `build_score_table` does, each family scored by itself.

    Parameters
    ----------
    scores : FamilyScores
    limits : Limits
    score_sets : callable
        As for `DirectWeights`.
    max_size, keep_within, extend_within, workers
        As for `build_score_table`.
    max_families : int, optional
        As there; 150 000 when left out.

    Returns
    -------
    ScoreTable
        ``info.n_counted`` is 0.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of its range.
    """
    max_size = check_whole("max_size", max_size, 0)
    keep_within, extend_within = _nats("keep_within", keep_within), _nats("extend_within", extend_within)
    families = check_whole("max_families", _MOST_FAMILIES if max_families is None else max_families, 1)
    with ThreadPoolExecutor(check_whole("workers", workers, 1)) as pool:
        options = (families, keep_within, extend_within, pool)
        return _DirectBuilder(scores, limits, max_size, *options, score_sets=score_sets).build()


def score_sets_of(scores: FamilyScores, score: Logistic | FamilyMixture) -> ScoreSets:
    """Scores of a node's parent sets for `build_direct_table`, the log prior of ``scores`` included.

    Raises
    ------
    ArgumentError
        If the score is `Logistic` and a column has more than two states.
    """
    scores_data, prior = scores.data, scores.prior.arrays
    score.check_states(scores.names, scores_data[2])
    log_weight = score.logistic_rule(0).log_weight
    scoring = scores_data, Rule(BDEU_RULE, log_weight, 0.0), prior

    def fill(child: int, sets: NDArray[np.uint64], weight: NDArray[np.float64]) -> None:
        weight[:] = 0.0
        if isinstance(score, FamilyMixture):
            _as_tables(child, sets, scoring, counting_scratch(len(scores_data[1])), weight)
        Box(score, scores_data).score(child, sets, weight)
        _add_prior(child, sets, prior, weight)

    return fill


@hot
def _as_tables(child: int, sets: Any, scoring: Any, scratch: Any, weight: Any) -> None:
    for row in range(sets.shape[0]):
        weight[row] = family_log_marginal(child, sets[row], scoring[0], scoring[1], scratch)


@hot
def _add_prior(child: int, sets: Any, prior: Any, weight: Any) -> None:
    for row in range(sets.shape[0]):
        weight[row] += family_log_prior(child, sets[row], prior)
