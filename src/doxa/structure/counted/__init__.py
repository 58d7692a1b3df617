"""Learning from a table that is counted where it lives: which counts it takes, and scores made from them alone."""

from typing import TYPE_CHECKING

from doxa._face import lazy_face

if TYPE_CHECKING:
    from doxa.structure.counted.families import FamilyCost as FamilyCost
    from doxa.structure.counted.families import needed_sets as needed_sets
    from doxa.structure.counted.families import predicted_cost as predicted_cost
    from doxa.structure.counted.learning import beside as beside
    from doxa.structure.counted.learning import check_counts as check_counts
    from doxa.structure.counted.learning import count_table as count_table
    from doxa.structure.counted.learning import kept_table as kept_table
    from doxa.structure.counted.learning import stored_options as stored_options
    from doxa.structure.counted.learning import uncounted as uncounted
    from doxa.structure.counted.learning import with_counts as with_counts
    from doxa.structure.counted.scores import CountedScores as CountedScores

__all__ = lazy_face(
    __name__,
    {
        "families": ["FamilyCost", "needed_sets", "predicted_cost"],
        "learning": [
            "beside",
            "check_counts",
            "count_table",
            "kept_table",
            "stored_options",
            "uncounted",
            "with_counts",
        ],
        "scores": ["CountedScores"],
    },
)
