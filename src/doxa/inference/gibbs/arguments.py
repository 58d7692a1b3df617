"""Numbers of states and factors, checked, and blocks of variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.factors import Factor

__all__ = ["Block", "check_block", "check_covered", "check_factors", "check_n_states"]

Block = tuple[int, ...]

_MOST_STATES = 2**15 - 1  # kept states are 16 bits wide


def check_n_states(n_states: Iterable[int]) -> tuple[int, ...]:
    """Return numbers of states, at least one each, as a tuple of at least one.

    Examples
    --------
    >>> check_n_states([2, 0])
    Traceback (most recent call last):
        ...
    doxa.errors.ArgumentError: n_states[1] is 0; it must be at least 1
    """
    sizes = tuple(check_whole(f"n_states[{v}]", size, 1) for v, size in enumerate(n_states))
    if not sizes:
        raise ArgumentError("n_states is empty; there must be a variable to draw")
    for v, size in enumerate(sizes):
        if size > _MOST_STATES:
            raise ArgumentError(f"n_states[{v}] is {size}; a variable has at most {_MOST_STATES} states")
    return sizes


def check_factors(factors: Iterable[Factor], n_states: Sequence[int]) -> tuple[Factor, ...]:
    """Return factors as a tuple; their tables must be over the variables they name, with neither nan nor +inf."""
    given = tuple(factors)
    for f, (variables, log_values) in enumerate(given):
        for v in variables:
            if not 0 <= v < len(n_states):
                raise ArgumentError(
                    f"factors[{f}] has the variable {v}; those of n_states are 0 to {len(n_states) - 1}"
                )
            if variables.count(v) > 1:
                raise ArgumentError(f"factors[{f}] has the variable {v} twice; the variables of a factor differ")
        shape = tuple(n_states[v] for v in variables)
        if np.shape(log_values) != shape:
            raise ArgumentError(
                f"factors[{f}], over {variables}, has shape {np.shape(log_values)}; it must be {shape}, the numbers of "
                "states"
            )
        if not (log_values < np.inf).all():  # nan too
            raise ArgumentError(f"factors[{f}] contains nan or +inf; log values are finite, or -inf where impossible")
    return given


def check_block(block: Iterable[int], name: str, n_variables: int) -> Block:
    """Return a block, different variables in the order given, as a tuple of at least one.

    Examples
    --------
    >>> check_block([2, 2], "blocks[0]", 3)
    Traceback (most recent call last):
        ...
    doxa.errors.ArgumentError: blocks[0] has the variable 2 twice; the variables of a block differ
    """
    if isinstance(block, (int, np.integer)):
        raise ArgumentTypeError(f"{name} is {block}; a block is a sequence of variables: ({block},)")
    members = tuple(check_whole(f"{name}[{j}]", v, 0) for j, v in enumerate(block))
    if not members:
        raise ArgumentError(f"{name} is empty; a block has at least one variable")
    for v in members:
        if v >= n_variables:
            raise ArgumentError(f"{name} has the variable {v}; there are {n_variables}, 0 to {n_variables - 1}")
        if members.count(v) > 1:
            raise ArgumentError(f"{name} has the variable {v} twice; the variables of a block differ")
    return members


def check_covered(blocks: Iterable[Block], n_states: Sequence[int]) -> None:
    """Raise unless every variable of two states or more is in a block."""
    covered = {v for block in blocks for v in block}
    for v, size in enumerate(n_states):
        if size > 1 and v not in covered:
            raise ArgumentError(f"no block has the variable {v}, so it would never move; add the block ({v},)")
