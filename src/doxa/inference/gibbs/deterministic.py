"""Blocks that join variables with those that determine them, so that they can move at all.

Where a variable is a function of others, none of them can change alone, as a rule: given the rest each has one state
left.  Redrawn together they move; and where one function feeds another, the whole chain has to move together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.gibbs.supports import Block, Supports, check_factors, check_n_states
from doxa.models.factors import Factor

__all__ = ["DeterministicBlocks", "Relation", "deterministic_blocks"]

Relation = tuple[int, tuple[int, ...], int]  # a variable, those that determine it, the factor that says so


class DeterministicBlocks(NamedTuple):
    """Blocks that cover all variables, and what could not be joined."""

    blocks: tuple[Block, ...]
    cut: tuple[Relation, ...]  # in one block, but a chain that they belong to would make it too large
    left_out: tuple[Relation, ...]  # in no block: their own variables have too many possible configurations


def deterministic_blocks(
    n_states: Sequence[int],
    factors: Sequence[Factor],
    determined: Iterable[Relation],
    most_configurations: int = 4096,
) -> DeterministicBlocks:
    """Join variables with those that determine them, along whole chains as long as blocks stay small enough.

    Parameters
    ----------
    n_states : sequence of int
    factors : sequence of Factor
    determined : iterable of (int, tuple of int, int)
        A variable, the others that determine it, and the position of the factor that says so.
    most_configurations : int, default=4096
        Largest number of configurations of a block that no single factor forbids.

    Returns
    -------
    DeterministicBlocks
        Variables that are in no relation make a block each.  Blocks overlap where a chain was cut.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If factors or relations do not fit the variables.

    Notes
    -----
    Blocks connect what the relations keep apart, and perhaps not all: zeros that determine nothing can do that too.
    See `doxa.inference.gibbs.connectivity`.

    Examples
    --------
    >>> import numpy as np
    >>> xor = np.where(np.indices((2, 2, 2)).sum(axis=0) % 2 == 0, 0.0, -np.inf)
    >>> found = deterministic_blocks([2, 2, 2, 2], [Factor((0, 1, 2), xor)], [(2, (0, 1), 0)])
    >>> found.blocks
    ((0, 1, 2), (3,))
    """
    sizes = check_n_states(n_states)
    given = check_factors(factors, sizes)
    most = check_whole("most_configurations", most_configurations, 1)
    relations = [_check_relation(i, relation, given) for i, relation in enumerate(determined)]
    supports = Supports.of(sizes, given)
    group: dict[int, Block] = {v: (v,) for v in range(len(sizes))}
    whole = _components([_scope(relation) for relation in relations])
    for component in whole:
        if supports.configurations(component, most) is not None:
            group |= dict.fromkeys(component, component)
    blocks: list[Block] = []
    cut: list[Relation] = []
    left_out: list[Relation] = []
    for relation in sorted(relations, key=lambda relation: _count(supports, _scope(relation), most)):
        scope = _scope(relation)
        joined = tuple(sorted({w for v in scope for w in group[v]}))
        if joined == group[scope[0]]:
            continue
        if supports.configurations(joined, most) is not None:
            group |= dict.fromkeys(joined, joined)
        elif supports.configurations(scope, most) is not None:
            blocks.append(scope)
            cut.append(relation)
        else:
            left_out.append(relation)
    every = sorted({*group.values(), *(b for b in blocks if not any(set(b) <= set(other) for other in group.values()))})
    return DeterministicBlocks(tuple(every), tuple(cut), tuple(left_out))


def _scope(relation: Relation) -> Block:
    return tuple(sorted({relation[0], *relation[1]}))


def _count(supports: Supports, scope: Block, most: int) -> tuple[int, Block]:
    """For sorting: the smaller first."""
    codes = supports.configurations(scope, most)
    return (most + 1 if codes is None else len(codes)), scope


def _check_relation(i: int, relation: Relation, factors: Sequence[Factor]) -> Relation:
    variable, others, f = relation
    if not 0 <= f < len(factors):
        raise ArgumentError(f"determined[{i}] names the factor {f}; there are {len(factors)}, from 0")
    if {variable, *others} != set(factors[f].variables):
        raise ArgumentError(
            f"determined[{i}] is over {(variable, *others)} but its factor {f} is over {factors[f].variables}; "
            "relations are those of these factors"
        )
    return variable, tuple(others), f


def _components(scopes: Iterable[Block]) -> list[Block]:
    """Sets of variables that scopes hold together."""
    found: list[set[int]] = []
    for scope in scopes:
        touched = [component for component in found if not component.isdisjoint(scope)]
        found = [component for component in found if component.isdisjoint(scope)]
        found.append(set(scope).union(*touched))
    return [tuple(sorted(component)) for component in found]
