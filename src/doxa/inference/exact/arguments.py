"""Checks of scopes and factors, with words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from doxa.checks import check_whole
from doxa.errors import ArgumentError

if TYPE_CHECKING:
    from doxa.inference.exact.tree import Scope
    from doxa.models.factors import Factor

__all__ = ["check_factors", "check_scopes"]


def check_scopes(
    n_states: Sequence[int], scopes: Sequence[Sequence[int]], keep: Sequence[int]
) -> tuple[tuple[int, ...], tuple[Scope, ...], Scope]:
    """Return all three as tuples of ints, or raise `ArgumentError`."""
    sizes = tuple([check_whole(f"n_states[{at}]", size, 1) for at, size in enumerate(n_states)])
    checked = tuple([_variables(f"scopes[{at}]", scope, len(sizes)) for at, scope in enumerate(scopes)])
    return sizes, checked, _variables("keep", keep, len(sizes))


def _variables(name: str, variables: Sequence[int], n: int) -> Scope:
    scope = tuple([int(variable) for variable in variables])
    if len(set(scope)) < len(scope):
        raise ArgumentError(f"{name} is {scope}; a variable may be named once")
    for variable in scope:
        if not 0 <= variable < n:
            raise ArgumentError(f"{name} is {scope}; variables are 0..{n - 1}, as many as n_states has entries")
    return scope


def check_factors(n_states: Sequence[int], scopes: Sequence[Scope], factors: Sequence[Factor]) -> None:
    """Raise `ArgumentError` where factors are not over the scopes that were planned for; values are not looked at."""
    if len(factors) != len(scopes):
        raise ArgumentError(f"factors has {len(factors)} entries; the plan was made for {len(scopes)}: make a new one")
    for at, (scope, factor) in enumerate(zip(scopes, factors, strict=True)):
        if factor.variables != scope:
            raise ArgumentError(
                f"factors[{at}] is over variables {tuple(factor.variables)}; the plan was made for {scope}: "
                "make a new plan, or give the factors in their old order"
            )
        shape = tuple([n_states[variable] for variable in scope])
        if factor.log_values.shape != shape:
            raise ArgumentError(f"factors[{at}] has shape {factor.log_values.shape}; its variables have {shape} states")
