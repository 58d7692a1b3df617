"""`IncompleteData`: a table with missing cells, the score and the prior of graphs, as samplers and oracle take them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.structure.cases.incomplete.missing_cells import Completion, MissingCells, completed_table, find_missing_cells
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.counting import CountingScratch, Rule
from doxa.structure.families.scores import BIC, K2, BDeu, Score
from doxa.structure.limits import Limits
from doxa.structure.priors import StructurePrior, uniform_prior

__all__ = ["IncompleteData"]


@dataclass(eq=False)
class IncompleteData:
    """A table with missing cells, assumed missing at random, and how its completions are scored.

    Parameters
    ----------
    table : Table
        At least two columns; no column without values but the hidden ones.
    score : Score, default=BDeu(1.0)
        `BDeu` or `K2`.
    prior : StructurePrior, optional
        Uniform over graphs when left out.
    hidden : sequence of str, default=()
        Columns that nobody observed.

    Raises
    ------
    ArgumentError
        If the score is `BIC`, or ``hidden`` does not fit the table.
    TableError
        If a column has no values and is not declared as hidden, or there are fewer than two columns.

    Examples
    --------
    >>> table = Table.from_codes(["a", "b"], [["n", "y"]] * 2, [[0, 0], [1, 1], [0, 0], [1, -1]])
    >>> IncompleteData(table).missing_cells.n_missing
    1
    """

    table: Table
    score: Score = field(default_factory=BDeu)
    prior: StructurePrior = None  # type: ignore[assignment]  # filled in below: it needs the table
    hidden: Sequence[str] = ()
    missing_cells: MissingCells = field(init=False, repr=False)
    _made: dict[tuple[Any, ...], Any] = field(init=False, repr=False, default_factory=dict)
    _making: Any = field(init=False, repr=False, default_factory=threading.RLock)

    def __post_init__(self) -> None:
        if isinstance(self.score, BIC):
            raise ArgumentError(
                "score is BIC(), which is no probability of the data, so it says nothing about missing cells; take "
                "BDeu() or K2() for a table with missing cells"
            )
        if not isinstance(self.score, (BDeu, K2)):
            raise ArgumentError(
                f"the score is {self.score.text}, whose families may be logistic: take `LogisticIncompleteData`, or "
                "family='categorical'"
            )
        self.missing_cells = find_missing_cells(self.table, self.hidden)
        if self.prior is None:
            self.prior = uniform_prior(self.n_nodes)

    @property
    def n_nodes(self) -> int:
        """Number of columns."""
        return len(self.table.names)

    @property
    def rule(self) -> Rule:
        """The score as compiled loops take it."""
        return self.score.rule(self.table.n_rows)

    def scoring(self, completion: Completion, scratch: CountingScratch) -> tuple[Any, ...]:
        """What `doxa.structure.families.cache.family_log_score` needs to count families in a completion."""
        data = (completion.columns, completion.weights, completion.n_states)
        return data, self.rule, self.prior.arrays, scratch

    def completed(self, cells: NDArray[np.integer[Any]]) -> FamilyScores:
        """The scores of one completion."""
        return FamilyScores(completed_table(self.table, self.missing_cells, cells), self.score, self.prior)

    def remember(self, what: str, limits: Limits, make: Callable[[], Any]) -> Any:
        """What ``make`` returned for these limits: made once a process, by the first chain that asks."""
        key = (what, *(array.tobytes() for array in limits))
        with self._making:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]

    def __getstate__(self) -> dict[str, Any]:
        # What was made, and the lock, stay behind: a worker process makes its own.
        return {**self.__dict__, "_made": {}, "_making": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._making = threading.RLock()
