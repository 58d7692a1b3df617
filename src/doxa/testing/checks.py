"""Arguments as arrays of numbers, distributions and transition matrices, or an error that names the entry at fault.

And the states of a finite chain: their names, which of them reach which, and how often they can return.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "ROUNDING",
    "CommunicatingClass",
    "Floats",
    "LabelledChain",
    "as_distribution",
    "as_numbers",
    "as_transition_matrix",
    "check_not_negative",
    "frozen",
]


ROW_SUM = 1e-9  # how far from 1 probabilities may sum: far above rounding, far below a digit left out
ROUNDING = 1e-12  # 1 - sum of the rest may come out as little below 0; such entries become 0


def as_numbers(values: ArrayLike, name: str, n: int | None = None, finite: bool = True) -> Floats:
    """A copy as floats: finite unless told, in one row of ``n``, or of any shape when ``n`` is left out.

    Examples
    --------
    >>> as_numbers([1, 2], "values", 2)
    array([1., 2.])
    """
    refusal = ArgumentTypeError(f"{name} is not an array of real numbers")
    if getattr(getattr(values, "dtype", None), "kind", None) == "c":  # NumPy would drop the imaginary part
        raise refusal
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise refusal from None
    if n is not None and numbers.shape != (n,):
        seen = f"{len(numbers)} entries" if numbers.ndim == 1 else f"shape {numbers.shape}"
        raise ArgumentError(f"{name} has {seen} but there are {n} states")
    if finite and not np.isfinite(numbers).all():
        where = tuple(np.argwhere(~np.isfinite(numbers))[0].tolist())
        raise ArgumentError(f"{name}{list(where)} is {numbers[where]}; it must be a finite number")
    return numbers


def as_distribution(values: ArrayLike, name: str, n: int | None = None) -> Floats:
    """Probabilities that sum to 1, in one row.

    Examples
    --------
    >>> as_distribution([0.25, 0.75], "weights")
    array([0.25, 0.75])
    """
    p = as_numbers(values, name, n)
    if p.ndim != 1 or p.size == 0:
        raise ArgumentError(f"{name} has shape {p.shape}; it is one row of probabilities")
    check_not_negative(p, name)
    if abs(p.sum() - 1) > ROW_SUM:
        raise ArgumentError(f"{name} sums to {p.sum():.10g}, not 1")
    return p


def as_transition_matrix(matrix: ArrayLike, name: str = "matrix") -> Floats:
    """A copy as floats, once it has passed as a stochastic matrix.

    Entries that rounding has put below 0 by at most 1e-12 become 0.

    Examples
    --------
    >>> as_transition_matrix([[0, 1], [1, 0]])
    array([[0., 1.],
           [1., 0.]])
    """
    p = as_numbers(matrix, name)
    if p.ndim != 2 or p.shape[0] != p.shape[1] or p.size == 0:
        raise ArgumentError(f"{name} has shape {p.shape}; a transition matrix is square, with at least one state")
    p[(p < 0) & (p >= -ROUNDING)] = 0.0
    check_not_negative(p, name)
    off = np.abs(p.sum(axis=1) - 1)
    if off.max() > ROW_SUM:
        row = int(off.argmax())
        raise ArgumentError(f"row {row} of {name} sums to {p[row].sum():.10g}, not 1")
    return p


def check_not_negative(p: Floats, name: str) -> None:
    """Raise if a probability is below 0."""
    if (p < 0).any():
        where = np.argwhere(p < 0)[0].tolist()
        raise ArgumentError(f"{name}{where} is {p[tuple(where)]}; probabilities are at least 0")


Scalar = TypeVar("Scalar", bound=np.generic)


class CommunicatingClass(NamedTuple):
    """States that can all be reached from each other."""

    states: tuple[int, ...]  # in increasing order
    closed: bool  # no way out; the states of a class that is not closed are transient
    period: int  # greatest common divisor of the lengths of its cycles; 0 for a state that never returns


@dataclass(frozen=True, eq=False, init=False)
class LabelledChain:
    """A transition matrix with a name for each state, and its communicating classes.

    What `FiniteChain` says before it asks for numbers; the parameters are described there.
    """

    matrix: Floats
    labels: tuple[Hashable, ...] = field(repr=False)

    def __init__(self, matrix: ArrayLike, labels: Sequence[Hashable] | None = None) -> None:
        checked = frozen(as_transition_matrix(matrix))
        names = tuple(range(len(checked)) if labels is None else labels)
        if len(names) != len(checked):
            raise ArgumentError(f"labels has {len(names)} entries but matrix has {len(checked)} states")
        if len(set(names)) != len(names):
            raise ArgumentError(f"labels has {max(names, key=names.count)!r} twice; each state needs a name of its own")
        object.__setattr__(self, "matrix", checked)
        object.__setattr__(self, "labels", names)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.matrix)

    @cached_property
    def classes(self) -> tuple[CommunicatingClass, ...]:
        """Communicating classes, in the order of their first states.

        Examples
        --------
        >>> from doxa.testing import FiniteChain
        >>> FiniteChain([[1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]).classes  # doctest: +NORMALIZE_WHITESPACE
        (CommunicatingClass(states=(0,), closed=True, period=1),
         CommunicatingClass(states=(1,), closed=False, period=0),
         CommunicatingClass(states=(2,), closed=True, period=1))
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        moves = self.matrix > 0
        _, component = connected_components(csr_array(moves.astype(np.int8)), directed=True, connection="strong")
        groups = [np.flatnonzero(component == c) for c in np.unique(component)]
        groups.sort(key=lambda group: int(group[0]))
        return tuple(
            CommunicatingClass(
                tuple(group.tolist()),
                bool(moves[group].sum() == moves[np.ix_(group, group)].sum()),
                _period(moves[np.ix_(group, group)]),
            )
            for group in groups
        )

    @property
    def is_irreducible(self) -> bool:
        """Can every state be reached from every other (definition 4.1)?"""
        return len(self.classes) == 1

    @property
    def period(self) -> int:
        """Period of the closed class; 1 is aperiodic (definition 4.2).

        Examples
        --------
        >>> from doxa.testing import FiniteChain
        >>> FiniteChain([[0, 1, 0], [0, 0, 1], [1, 0, 0]]).period
        3
        """
        return self._closed_class("period").period

    def _closed_class(self, what: str) -> CommunicatingClass:
        closed = [one for one in self.classes if one.closed]
        if len(closed) > 1:
            listed = [self._named(one.states) for one in closed]
            shown = listed if len(listed) <= 4 else [*listed[:3], f"{len(listed) - 3} more"]
            raise ArgumentError(
                f"the chain has {len(closed)} closed classes, {', '.join(shown[:-1])} and {shown[-1]}, and never "
                f"leaves the one it enters, so its {what} is not unique; look at each of them with restricted_to"
            )
        return closed[0]

    def _named(self, states: Sequence[int]) -> str:
        names = [str(self.labels[state]) for state in states]
        return "{" + ", ".join(names if len(names) <= 6 else [*names[:5], f"... {len(names) - 5} more"]) + "}"


def _period(moves: NDArray[np.bool_]) -> int:
    """Of one communicating class: the gcd of level[x] + 1 - level[y] over its moves (Denardo 1977)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    level = shortest_path(csr_array(moves.astype(np.int8)), method="D", unweighted=True, indices=0)
    x, y = np.nonzero(moves)
    return int(np.gcd.reduce((level[x] + 1 - level[y]).astype(np.int64), initial=0))


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """The same array, which can no longer be written to."""
    array.flags.writeable = False
    return array
