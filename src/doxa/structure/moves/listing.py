"""The lists of parent sets that the moves of a table draw from, made once.

Where larger sets are made from candidates, they are made twice: what a node's parents may be is seen best in a good
graph, in which nodes that hang together with it more than any parent, its children, come after it.  So the best graph
of the first lists (`doxa.structure.moves.best_graph`) gives the second ones an order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa.models.bits import unpack_rows
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.family_weights import list_nodes
from doxa.structure.families.score_table import ScoreTable, build_score_table
from doxa.structure.limits import Limits
from doxa.structure.moves.best_graph import best_graph
from doxa.structure.moves.joint_parents import with_own_work_space
from doxa.structure.moves.parent_sets import ParentSets, scaled
from doxa.structure.moves.starts import random_order

__all__ = ["MOST_LARGE", "lists_are_complete", "parent_sets", "score_table"]

_KEEP = 8.0  # nats below the best subset: longer lists mix no better for the time they take
MOST_LARGE = 1_000  # sets of more than three parents that a node's list holds: walks along more take too long
_SEED = 20262  # of the search between: the lists follow from the table


def parent_sets(scores: FamilyScores, limits: Limits, beta: float) -> ParentSets:
    """The lists of a table, with work space of the caller's own."""

    def scale() -> ParentSets:
        table = score_table(scores, limits)
        return scaled(table.first, table.sets, table.log_weight, beta)

    shared: ParentSets = scores.remember(f"parent sets at {beta!r}", limits, scale)
    own = ("cumulative", "chosen", "where", "reached", "order")
    return shared._replace(
        **{name: getattr(shared, name).copy() for name in own}, joint=with_own_work_space(shared.joint)
    )


def lists_are_complete(scores: FamilyScores, limits: Limits) -> bool:
    """Whether all families within the limits were computed: then none outside the lists beats all in them."""
    most = max(node.most_free for node in list_nodes(limits, scores.n_nodes))
    return score_table(scores, limits).info.complete_size >= most


def score_table(scores: FamilyScores, limits: Limits) -> ScoreTable:
    """The lists as they are scored, made once a process."""
    made: ScoreTable = scores.remember("score table", limits, lambda: _build(scores, limits))
    return made


def _build(scores: FamilyScores, limits: Limits) -> ScoreTable:
    def order(table: ScoreTable) -> NDArray[np.int64] | None:
        rng = np.random.default_rng(_SEED)
        found = best_graph(scaled(table.first, table.sets, table.log_weight, 1.0), rng)
        return None if found is None else random_order(rng, unpack_rows(found.rows, scores.n_nodes))

    return build_score_table(scores, limits, keep_within=_KEEP, most_large=MOST_LARGE, order=order)
