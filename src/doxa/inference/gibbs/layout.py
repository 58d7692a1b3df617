"""`Layout`: the tables of all blocks in flat arrays, as the kernel reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.gibbs.block_tables import BlockTable
from doxa.models.factors import Factor

__all__ = ["FlatFactors", "Layout", "flat_factors", "lay_out"]

Integers = NDArray[np.int64]


class Layout(NamedTuple):
    """Block b has ``n_configurations[b]`` of them, with members and groups from ``...[b]`` to ``...[b + 1]``."""

    kinds: Integers  # (n_blocks,)
    n_configurations: Integers  # (n_blocks,)
    members_at: Integers  # (n_blocks + 1,) in ``members``
    members: Integers  # variables
    codes_at: Integers  # (n_blocks,) in ``codes``: the states of configuration k begin at codes_at + k * n_members
    codes: Integers
    groups_at: Integers  # (n_blocks + 1,)
    blanket_at: Integers  # (n_groups + 1,) in ``blanket`` and ``strides``
    blanket: Integers  # variables
    strides: Integers  # what a state of each counts for in the place of a row
    values_at: Integers  # (n_groups,)
    columns_at: Integers  # (n_groups,) in ``columns``; -1 where configuration k reads column k
    columns: Integers
    values: NDArray[np.float64]
    sums_at: Integers  # (n_blocks,) in an array of all configurations of all blocks, one after another
    n_sums: int
    home: Integers  # (n_variables,) the smallest block that has the variable; -1 where there is none


def lay_out(tables: Sequence[BlockTable], n_variables: int) -> Layout:
    """Put the tables of blocks one after another."""
    groups = [group for table in tables for group in table.groups]
    n_configurations = [len(table.codes) for table in tables]
    is_own = [np.array_equal(group.columns, np.arange(group.values.shape[-1])) for group in groups]
    columns_at = _starts([0 if own else group.columns.size for group, own in zip(groups, is_own, strict=True)])
    home = np.full(n_variables, -1, dtype=np.int64)
    for b in sorted(range(len(tables)), key=lambda b: -n_configurations[b]):
        home[list(tables[b].block)] = b
    sums_at = _starts(n_configurations)
    return Layout(
        np.array([table.kind for table in tables], dtype=np.int64),
        np.array(n_configurations, dtype=np.int64),
        _starts([len(table.block) for table in tables]),
        _joined([np.array(table.block) for table in tables]),
        _starts([table.codes.size for table in tables])[:-1],
        _joined([table.codes.ravel() for table in tables]),
        _starts([len(table.groups) for table in tables]),
        _starts([len(group.blanket) for group in groups]),
        _joined([np.array(group.blanket, dtype=np.int64) for group in groups]),
        _joined([_strides(group.values.shape) for group in groups]),
        _starts([group.values.size for group in groups])[:-1],
        np.where(is_own, -1, columns_at[:-1]),
        _joined([group.columns for group, own in zip(groups, is_own, strict=True) if not own]),
        np.concatenate([np.zeros(0), *[group.values.ravel() for group in groups]]),
        sums_at[:-1],
        int(sums_at[-1]),
        home,
    )


class FlatFactors(NamedTuple):
    """Factors as they are given; factor f has variables from ``scopes_at[f]`` to ``scopes_at[f + 1]``."""

    scopes_at: Integers  # (n_factors + 1,)
    scopes: Integers
    strides: Integers
    values_at: Integers  # (n_factors,)
    log_values: NDArray[np.float64]  # nats


def flat_factors(factors: Iterable[Factor]) -> FlatFactors:
    """Put factors one after another."""
    given = tuple(factors)
    return FlatFactors(
        _starts([len(factor.variables) for factor in given]),
        _joined([np.array(factor.variables, dtype=np.int64) for factor in given]),
        _joined([_strides((*factor.log_values.shape, 1)) for factor in given]),
        _starts([factor.log_values.size for factor in given])[:-1],
        np.concatenate([np.zeros(0), *[factor.log_values.ravel() for factor in given]]),
    )


def _starts(sizes: Sequence[int]) -> Integers:
    """Where things of these sizes begin when laid end to end, and where the last ends."""
    return np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))]).astype(np.int64)


def _joined(parts: Sequence[Integers]) -> Integers:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)


def _strides(shape: tuple[int, ...]) -> Integers:
    """How far apart, in a flat array of this shape, the entries along every axis but the last are."""
    return np.cumprod(np.array(shape[:0:-1], dtype=np.int64))[::-1]
