"""Learning from a table that is counted where it lives: which counts it takes, and scores made from them alone."""

from doxa.structure.counted.families import FamilyCost, needed_sets, predicted_cost
from doxa.structure.counted.learning import (
    beside,
    check_counts,
    count_table,
    kept_table,
    stored_options,
    uncounted,
    with_counts,
)
from doxa.structure.counted.scores import CountedScores

__all__ = [
    "CountedScores",
    "FamilyCost",
    "beside",
    "check_counts",
    "count_table",
    "kept_table",
    "needed_sets",
    "predicted_cost",
    "stored_options",
    "uncounted",
    "with_counts",
]
