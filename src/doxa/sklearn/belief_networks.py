"""What the belief networks of scikit-learn's face share: cells into a table, a posterior learned from it.

Categories are states; numbers are cut into bins, or stay numbers, as the estimator decides.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_random_state

from doxa.arrays import Floats
from doxa.data.coding import MAX_INTEGERS
from doxa.data.table import Table
from doxa.errors import ArgumentError
from doxa.estimates.stopping import Until
from doxa.sklearn.coded_columns import CodedColumn, MeasuredColumn, unlike
from doxa.structure.averaging.posterior import Posterior
from doxa.structure.cases.incomplete.cells_sampler import usual_steps
from doxa.structure.learn import learn

__all__ = [
    "BeliefNetworkEstimator",
    "Cells",
    "UsedColumn",
    "coded",
    "most_states_of_numbers",
    "table_of",
    "whole_weights",
]

_SUMMED = 10  # columns up to which summing over all graphs is quicker than sampling
_DRAWS, _INCOMPLETE_DRAWS = 250, 60  # of each chain; between two of the latter, missing cells are redrawn
_APART = 1.1  # R-hat of the log score: chains that sit in different modes


class UsedColumn(NamedTuple):
    """A feature that is a node of the network."""

    place: int  # among the features
    column: CodedColumn


class Cells(NamedTuple):
    """Rows in codes and numbers, as `doxa.data.Table` has them; both of shape (n_rows, n_columns)."""

    codes: NDArray[np.int64]  # -1 where missing; the number of states where a state was never seen
    numbers: Floats  # NaN in columns of categories


class BeliefNetworkEstimator(BaseEstimator):  # type: ignore[misc]
    """Learns a posterior over networks from a table; of estimators, which say what they ask of it."""

    posterior_: Posterior
    max_parents: int | None
    prior: str
    edge_log_odds: float
    chains: int
    draws: int | None
    warmup: int | None
    until: Until | None
    n_jobs: int | None
    random_state: Any

    @property
    def converged_(self) -> bool | None:
        """Whether the chains agree; None where that cannot be told."""
        return self.posterior_.converged

    @property
    def verdict_(self) -> str:
        """The same in words."""
        return self.posterior_.verdict

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _learn_columns(
        self, cells: NDArray[Any], learned: Callable[[int, str], CodedColumn], stacklevel: int = 4
    ) -> list[UsedColumn]:
        """Features of which a cell was seen; ``learned`` makes one of its place and name."""
        names: list[str] = []
        for name in getattr(self, "feature_names_in_", [f"x{j}" for j in range(cells.shape[1])]):
            names.append(unlike(str(name) or "feature", names))
        made = [UsedColumn(j, learned(j, name)) for j, name in enumerate(names)]
        seen = [(own.code(cells[:, j]) >= 0).any() for j, own in made]
        empty = [name for name, here in zip(names, seen, strict=True) if not here]
        if len(empty) == len(names):
            raise ArgumentError("every cell of X is missing; there is nothing to learn from")
        if empty:
            warnings.warn(f"every cell is missing in {', '.join(empty)}, which will not be used", stacklevel=stacklevel)
        return [one for one, here in zip(made, seen, strict=True) if here]

    def _learn(
        self, table: Table, equivalent_sample_size: float, *, sampled: bool = False, family: str | None = None
    ) -> Posterior:
        """The posterior given a table; ``sampled``: draws of its missing cells are wanted."""
        n, numbers = len(table.names), table.is_number
        has_tables = not numbers.all() and family != "additive"
        asked = any(value is not None for value in (self.draws, self.warmup, self.until))
        exact = not asked and not table.n_missing and n <= _SUMMED and not sampled
        draws = self.draws
        if draws is None and self.until is None and not exact:
            draws = _INCOMPLETE_DRAWS if table.n_missing else _DRAWS
        posterior = learn(
            table,
            family=family if numbers.any() and not numbers.all() else None,
            equivalent_sample_size=equivalent_sample_size if has_tables or not numbers.any() else 1.0,
            max_parents=self.max_parents,
            prior=self.prior,
            edge_log_odds=self.edge_log_odds or None,
            exact=None if exact else False,
            chains=self.chains,
            draws=draws,
            warmup=self.warmup,
            thin=usual_steps(n, quick=family != "additive") if table.n_missing else None,  # every draw has its cells
            until=self.until,
            seed=int(check_random_state(self.random_state).randint(2**31)),
            workers=self.n_jobs,
            progress=False,
        )
        if not exact and self.chains > 1 and posterior.log_score_diagnosis.r_hat > _APART:
            warnings.warn(posterior.verdict, ConvergenceWarning, stacklevel=3)
        return posterior


def coded(columns: list[UsedColumn], cells: NDArray[Any]) -> Cells:
    """Cells of features in the codes of their columns, (n_rows, n_columns)."""
    codes = np.full((len(cells), len(columns)), -1, dtype=np.int64)
    numbers = np.full(codes.shape, np.nan)
    for k, (j, column) in enumerate(columns):
        if isinstance(column, MeasuredColumn):
            numbers[:, k] = column.measure(cells[:, j])
        codes[:, k] = column.code(cells[:, j])
    return Cells(codes, numbers)


def table_of(
    names: list[str], states: list[tuple[str, ...]], cells: Cells, counts: NDArray[np.int64] | None = None
) -> Table:
    """A table of codes and numbers; with counts, its rows are in an order that depends on their values alone."""
    codes, numbers = cells
    if counts is not None:
        both = np.column_stack([codes, np.where(np.isnan(numbers), 0.0, numbers)])
        _, first, place = np.unique(both, axis=0, return_index=True, return_inverse=True)
        times = np.zeros(len(first), dtype=np.int64)
        np.add.at(times, place.ravel(), counts)
        codes, numbers, counts = codes[first], numbers[first], times
    held = numbers if any(not labels for labels in states) else None
    return Table.from_codes(names, states, codes, counts, numbers=held)


def whole_weights(weight: Floats) -> NDArray[np.int64]:
    """Weights as counts.

    Raises
    ------
    ArgumentError
        If one is not whole or is negative, or all are 0.
    """
    counts = weight.astype(np.int64)
    wrong = np.flatnonzero((counts != weight) | (weight < 0))
    if wrong.size:
        raise ArgumentError(
            f"sample_weight[{wrong[0]}] is {weight[wrong[0]]:g}; weights say how many times a row was seen: whole "
            "numbers, 0 or more"
        )
    if not counts.any():
        raise ArgumentError("sample_weight is 0 everywhere; at least one row must be seen")
    return counts


def most_states_of_numbers(categorical_features: str) -> int:
    """Up to how many different whole numbers are states.

    Raises
    ------
    ArgumentError
        If the option is neither "auto" nor "from_dtype".
    """
    if categorical_features not in ("auto", "from_dtype"):
        raise ArgumentError(f"categorical_features is {categorical_features!r}; it must be 'auto' or 'from_dtype'")
    return MAX_INTEGERS if categorical_features == "auto" else 0
