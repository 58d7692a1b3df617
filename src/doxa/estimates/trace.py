"""What a run kept: named arrays of draws, and how they were made.

A `Trace` is data and nothing else: it is checked once, never changed, and holds plain arrays, so it can be stored and
read back without pickling.  Diagnosing it, storing it and drawing from it live elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["Trace"]


@dataclass(frozen=True, eq=False)
class Trace:
    """Draws of several chains.

    Parameters
    ----------
    draws : mapping of str to ndarray, shape (n_chains, n_draws, ...)
        One array for each quantity, at least one; all agree in their first two axes. Kept as read-only views, not
        copied.
    thin : int, default=1
        Steps of the sampler for each draw kept.
    n_warmup : int, default=0
        Steps a chain made and dropped before its first kept draw.
    entropy : int, tuple of int or None, default=None
        Entropy of the `numpy.random.SeedSequence` the chains descend from; None if unknown.
    info : mapping of str to ndarray, shape (n_chains, ...)
        Counters summed over the run, such as ``accepted`` and ``proposed``.

    Raises
    ------
    ArgumentError
        If there are no draws, arrays disagree in chains or draws, or ``thin`` or ``n_warmup`` is out of range.
    ArgumentTypeError
        If an array holds Python objects.

    Examples
    --------
    >>> trace = Trace({"log_score": np.zeros((4, 100))}, thin=10, info={"accepted": np.full(4, 250)})
    >>> trace.names, trace.n_chains, trace.n_draws
    (('log_score',), 4, 100)
    >>> trace["log_score"].shape
    (4, 100)
    """

    draws: Mapping[str, NDArray[Any]]
    thin: int = 1
    n_warmup: int = 0
    entropy: int | tuple[int, ...] | None = None
    info: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check and freeze."""
        if self.thin < 1 or self.n_warmup < 0:
            raise ArgumentError(f"thin is {self.thin} and n_warmup {self.n_warmup}; they must be at least 1 and 0")
        if not self.draws:
            raise ArgumentError("draws is empty; a trace needs at least one named array")
        draws = {name: _frozen(f"draws[{name!r}]", array) for name, array in self.draws.items()}
        info = {name: _frozen(f"info[{name!r}]", array) for name, array in self.info.items()}
        (first, reference), *_ = draws.items()
        for name, array in draws.items():
            if array.ndim < 2 or array.shape[:2] != reference.shape[:2]:
                raise ArgumentError(
                    f"draws[{name!r}] has shape {array.shape} and draws[{first!r}] {reference.shape}; "
                    "all must begin with the same (chain, draw)"
                )
        for name, array in info.items():
            if array.ndim < 1 or array.shape[0] != reference.shape[0]:
                raise ArgumentError(
                    f"info[{name!r}] has shape {array.shape}; its first axis must be the {reference.shape[0]} chains"
                )
        object.__setattr__(self, "draws", MappingProxyType(draws))
        object.__setattr__(self, "info", MappingProxyType(info))

    def __reduce__(self) -> tuple[type[Trace], tuple[Any, ...]]:
        """Copies and workers of other processes get plain dictionaries; the views are made anew there."""
        return Trace, (dict(self.draws), self.thin, self.n_warmup, self.entropy, dict(self.info))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the quantities, in the order given."""
        return tuple(self.draws)

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(next(iter(self.draws.values())).shape[0])

    @property
    def n_draws(self) -> int:
        """Draws kept in each chain."""
        return int(next(iter(self.draws.values())).shape[1])

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Draws of one quantity, shape (n_chains, n_draws, ...); read-only."""
        if name not in self.draws:
            raise ArgumentError(f"there is no quantity {name!r} in this trace; it holds {', '.join(self.names)}")
        return self.draws[name]

    def concatenate(self, other: Trace) -> Trace:
        """Append the draws of a continuation of the same chains.

        Parameters
        ----------
        other : Trace
            Later draws, with the same chains, names, trailing shapes, thinning, entropy and counters.

        Returns
        -------
        Trace
            Draws of both, counters added, warm-up of the first.

        Raises
        ------
        ArgumentError
            If the two do not belong together.

        Examples
        --------
        >>> one = Trace({"x": np.zeros((2, 5))}, info={"accepted": np.array([1, 2])})
        >>> both = one.concatenate(one)
        >>> both.n_draws, both.info["accepted"]
        (10, array([2, 4]))
        """
        pairs: tuple[tuple[str, object, object], ...] = (
            ("names", self.names, other.names),
            ("chains", self.n_chains, other.n_chains),
            ("thin", self.thin, other.thin),
            ("entropy", self.entropy, other.entropy),
            ("info", tuple(self.info), tuple(other.info)),
        )
        for what, mine, theirs in pairs:
            if mine != theirs:
                raise ArgumentError(
                    f"cannot concatenate: {what} is {mine} here and {theirs} in other; both must come from one run"
                )
        for name in self.names:
            old, new = self[name], other[name]
            if old.shape[2:] != new.shape[2:] or old.dtype != new.dtype:
                raise ArgumentError(
                    f"cannot concatenate {name!r}: {old.dtype} {old.shape} here, {new.dtype} {new.shape} there"
                )
        draws = {name: np.concatenate([self[name], other[name]], axis=1) for name in self.names}
        info = {name: self.info[name] + other.info[name] for name in self.info}
        return Trace(draws, self.thin, self.n_warmup, self.entropy, info)


def _frozen(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Read-only view of an array of plain numbers."""
    view = np.asarray(array).view()
    if view.dtype.hasobject:
        raise ArgumentTypeError(f"{name} holds Python objects; a trace keeps plain numbers only")
    view.flags.writeable = False
    return view
