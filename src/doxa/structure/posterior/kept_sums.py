"""`KeptSums`: the sums over all graphs as a run file keeps them, without the tables that they were made with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.structure.exact.dag_sums import ParentSets

if TYPE_CHECKING:
    from doxa.structure.cases.incomplete.sums import ExactMixture
    from doxa.structure.exact.dag_sums import ExactPosterior

__all__ = ["KeptSums"]

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
