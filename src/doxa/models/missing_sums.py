"""Sums over missing cells that share factors of a logistic network, those of equally many cells at once.

See `doxa.models.logistic_rows`, whose likelihoods are made of these sums.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["Component", "Together"]

_GATHER = 2**21  # numbers held at once while summing out: 16 MB
_LEAST = float(np.finfo(np.float64).min)


@dataclass(frozen=True)
class Component:
    """Missing cells that share factors, with the rows that have them."""

    rows: NDArray[np.int32]
    local: NDArray[np.int32]  # which distinct observed neighbourhood each row has
    weights: NDArray[np.float64]  # (n_local,), cases
    factors: tuple[int, ...]
    index: tuple[NDArray[np.int32], ...]  # for each factor (n_local, 2**n_missing), its configurations


class Together:
    """Components with equally many missing cells, summed out together.

    The values of all factors stand side by side, each from its ``first`` place, and a zero behind them: a component
    with fewer factors than another has it in their place.
    """

    def __init__(self, members: Mapping[int, Component], first: NDArray[np.intp], learned: Collection[int]) -> None:
        components = list(members.values())
        n_hidden = components[0].index[0].shape[1]
        begin = np.cumsum([0, *(component.weights.size for component in components)])
        self.weights = np.concatenate([component.weights for component in components])
        self.stretches = {k: slice(*pair) for k, pair in zip(members, pairwise(begin.tolist()), strict=True)}
        slots = max(len(component.factors) for component in components)
        self.index = np.full((slots, begin[-1], n_hidden), first[-1])  # places of values
        none = np.zeros(0, dtype=np.intp)
        orders, starts, targets, owners = [none], [none], [none], [none]
        for k, component in members.items():
            for slot, (f, index) in enumerate(zip(component.factors, component.index, strict=True)):
                self.index[slot, self.stretches[k]] = first[f] + index
                if f in learned:
                    order = np.argsort(index, axis=None, kind="stable")
                    configurations, at = np.unique(index.ravel()[order], return_index=True)
                    starts.append(at + sum(order.size for order in orders))
                    orders.append(self.stretches[k].start * n_hidden + order)
                    targets.append(first[f] + configurations)
                    owners.append(np.full(len(configurations), k))
        # in this order of all terms, runs from each start are of one configuration of one component
        self.order, self.starts = np.concatenate(orders), np.concatenate(starts)
        # the place of each such configuration, and whose it is
        self.targets, self.owners = np.concatenate(targets), np.concatenate(owners)

    def sum_out(
        self, values: NDArray[np.float64], sums: NDArray[np.float64], shares: NDArray[np.float64] | None = None
    ) -> None:
        """Write log sums over the missing cells (n_batch, n_local), and into ``shares``, if given, each configuration's
        expected cases in each component (n_batch, n_targets).
        """
        step = max(1, _GATHER // self.index[0].size)
        for start in range(0, len(values), step):
            some = slice(start, start + step)
            part = values[some]
            terms = part.take(self.index[0], axis=1)
            for index in self.index[1:]:
                terms += part.take(index, axis=1)
            top = np.maximum(_over_last(np.maximum, terms), _LEAST)  # an impossible row: -inf, not NaN
            np.exp(terms - top[..., None], out=terms)
            total = _over_last(np.add, terms)
            with np.errstate(divide="ignore", invalid="ignore"):
                sums[some] = np.log(total) + top
                if shares is not None and self.starts.size:
                    terms *= (self.weights / total)[..., None]
                    flat = terms.reshape(len(terms), -1).take(self.order, axis=1)
                    np.add.reduceat(flat, self.starts, axis=1, out=shares[some])


def _over_last(operation: np.ufunc, terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """The reduction over the last axis; by whole arrays where it is short: the same bits in a tenth of the time."""
    if terms.shape[-1] > 4 or terms.size < 500:
        return np.asarray(operation.reduce(terms, axis=-1))
    return reduce(operation, (terms[..., k] for k in range(terms.shape[-1])))
