"""`EMC3`: single-edge Metropolis-Hastings with covered-arc reversals before every step (Kočka & Castelo 2001).

Plain single-edge moves are slow to leave the graph at hand for an equivalent one.  Here each step begins with ``rcar``:
some covered arcs are turned, which wanders within the equivalence class, and then one edge is changed.
The corrected reversal is that of `doxa.structure.moves.covered_arcs`; ``published=True`` accepts every reversal, as
printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from doxa.checks import check_whole
from doxa.errors import ArgumentTypeError
from doxa.structure.moves.single_edge import advance_single_edge

__all__ = ["EMC3"]


@dataclass(frozen=True)
class EMC3:
    """Single-edge moves with repeated covered-arc reversal (Riggelsen, ch. 4, section 3.3; Kočka & Castelo 2001).

    Parameters
    ----------
    covered_arc_reversals : int, default=10
        Covered-arc reversals tried before each step, as in the chapter; they are not counted as steps.
    published : bool, default=False
        Accept every reversal, as printed.  Its answers are **biased**; it is here for comparison.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``covered_arc_reversals`` is negative or not whole, or ``published`` is neither True nor False.
    """

    covered_arc_reversals: int = 10
    published: bool = False

    name: ClassVar[str] = "emc3"
    uses_table: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "covered_arc_reversals", check_whole("covered_arc_reversals", self.covered_arc_reversals, 0)
        )
        if not isinstance(self.published, bool):
            raise ArgumentTypeError(f"published is {self.published!r}; it must be True or False")

    @property
    def bias(self) -> str | None:
        """What is wrong with the answers, if something is."""
        if not self.published or self.covered_arc_reversals == 0:
            return None
        return (
            "covered-arc reversal as printed does not keep the posterior (the number of covered arcs varies): "
            "these probabilities are biased"
        )

    def cycle_length(self, n_nodes: int) -> int:  # noqa: ARG002
        """Steps after which the kernel repeats itself: it is the same at every step."""
        return 1

    def advance(self, work: Any, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return early, at that step, when the cache should grow."""
        return advance_single_edge(work, self.covered_arc_reversals, self.published, first, n_steps, rng)
