"""The states of a finite chain: their names, which of them reach which, and how often they can return."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.testing.checks import as_transition_matrix

__all__ = ["CommunicatingClass", "LabelledChain", "frozen"]

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
