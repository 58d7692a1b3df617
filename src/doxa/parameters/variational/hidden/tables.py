r"""One xi for each configuration of a family, missing cells filled in: never a looser bound than one for each row.

The best xi of a configuration c, :math:`\xi_c^2 = E (o_c + \theta^T x_c)^2`, is the same in every row that c may have
come from.  So a family is its distinct configurations, :math:`n_c` expected cases each, and its Gaussian is that of
`doxa.parameters.variational.batch` for these; its term in the logarithm of q is the expected bound of each
configuration, averaged over the cells in other blocks.  (Jaakkola & Jordan 2000, below eq. 52, leave this form aside
for simplicity.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.models.logistic_factors import LogisticFactor
from doxa.models.logistic_options import GaussianPrior
from doxa.models.logistic_rows import MAX_CONFIGURATIONS, distinct_rows
from doxa.parameters.variational import batch
from doxa.parameters.variational.bound import expected_log_bound
from doxa.parameters.variational.hidden.configurations import Bits
from doxa.parameters.variational.hidden.families import Coordinates, FamilyFit, signs_of
from doxa.parameters.variational.hidden.instances import Instances
from doxa.parameters.variational.whitened import row_variances

__all__ = ["TableFamily"]

_Floats = NDArray[np.float64]
_Index = NDArray[np.intp]


class _Group(NamedTuple):
    """Instances whose missing cells are in the same stages, every configuration of these cells an entry."""

    stages: tuple[int, ...]
    bits: Bits  # (n_entries, n_scope)
    cases: _Floats  # (n_entries,), of the instance
    marginal: _Index  # (n_entries, n_stages), places in the marginals of all shares


class TableFamily:
    """A family with a xi for each of its configurations."""

    def __init__(
        self, factor: LogisticFactor, prior: GaussianPrior, complete: Bits, cases: _Floats, instances: Instances
    ) -> None:
        self.node = factor.node
        self.coordinates = Coordinates(factor, prior)
        self.shares = instances.shares
        sizes = [0 if share is None else len(share.bits) for share in self.shares]
        ends = np.cumsum(sizes, dtype=np.intp)
        self.stretches = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self._groups = _groups(instances, self.stretches, factor.node)
        blocks = [complete, *(group.bits for group in self._groups)]
        configurations, index = distinct_rows(np.concatenate(blocks))
        certain, *self._index = np.split(index.astype(np.intp), np.cumsum([len(bits) for bits in blocks])[:-1])
        self._cases = np.bincount(certain, weights=cases, minlength=len(configurations)).astype(np.float64)
        self._regression = self.coordinates.whitened(
            self.coordinates.rows(configurations[:, :-1]), signs_of(configurations[:, -1]), self._cases
        )
        self.n_xi = len(configurations)

    def marginals(self, q: _Floats) -> _Floats:
        """Marginals of all shares, one after another."""
        return np.concatenate([np.empty(0), *(share.marginals(q) for share in self.shares if share is not None)])

    def expected_cases(self, q: _Floats) -> _Floats:
        """Cases of each configuration, those that are certain included; shape (n_xi,)."""
        marginals = self.marginals(q)
        cases = self._cases.copy()
        for group, index in zip(self._groups, self._index, strict=True):
            probability = marginals[group.marginal].prod(axis=1)
            cases += np.bincount(index, weights=group.cases * probability, minlength=self.n_xi)
        return cases

    def averages(self, stage: int, values: _Floats, marginals: _Floats) -> _Floats:
        """Values of configurations averaged over the cells in other stages, one for each entry of the share."""
        stretch = self.stretches[stage]
        total = np.zeros(stretch.stop - stretch.start)
        for group, index in zip(self._groups, self._index, strict=True):
            if stage in group.stages:
                j = group.stages.index(stage)
                others = np.delete(group.marginal, j, axis=1)
                terms = values[index] * marginals[others].prod(axis=1)
                total += np.bincount(group.marginal[:, j] - stretch.start, weights=terms, minlength=total.size)
        return total

    def fit(self, xi: _Floats, q: _Floats) -> FamilyFit:
        """Best Gaussian at ``xi`` (n_xi,) and ``q``."""
        state = batch.init(self._regression._replace(counts=self.expected_cases(q)), xi)
        return FamilyFit(state.mean, state.factor, state.log_bound, state.next_xi)

    def best_xi(self, mean: _Floats, factor: _Floats, q: _Floats) -> _Floats:  # noqa: ARG002
        """Best xi for any Gaussian, whatever q is; shape (n_xi,)."""
        return np.sqrt(self._moments(mean, factor)[1])

    def terms(self, mean: _Floats, factor: _Floats, xi: _Floats, q: _Floats) -> _TableTerms:
        """Terms of the logarithm of q at these; ``q`` is where it starts."""
        centre, second = self._moments(mean, factor)
        return _TableTerms(self, expected_log_bound(centre, second, xi), self.marginals(q))

    def _moments(self, mean: _Floats, factor: _Floats) -> tuple[_Floats, _Floats]:
        centre = self._regression.offset + self._regression.rows @ mean
        return centre, centre**2 + row_variances(self._regression.rows, factor)


class _TableTerms:
    """What the family adds to the logarithm of q while blocks change one stage after another."""

    def __init__(self, family: TableFamily, values: _Floats, marginals: _Floats) -> None:
        self._family, self._values, self._marginals = family, values, marginals

    def add(self, stage: int, q: _Floats, logits: _Floats) -> None:  # noqa: ARG002
        """Average the values over the cells of other blocks."""
        share = self._family.shares[stage]
        if share is not None:
            logits[share.position] += self._family.averages(stage, self._values, self._marginals)[share.entry]

    def moved(self, stage: int, q: _Floats) -> None:
        """Use the new probabilities from now on."""
        share = self._family.shares[stage]
        if share is not None:
            self._marginals[self._family.stretches[stage]] = share.marginals(q)


def _groups(instances: Instances, stretches: list[slice], node: str) -> list[_Group]:
    n, n_stages = len(instances.codes), len(instances.shares)
    sizes, first = np.ones((n, n_stages), dtype=np.int64), np.zeros((n, n_stages), dtype=np.intp)
    for k, share in enumerate(instances.shares):
        if share is not None:
            sizes[share.instance, k], first[share.instance, k] = share.sizes, share.first
    n_entries = int(np.exp2(np.minimum(np.log2(sizes).sum(axis=1), 40)).sum())
    if n_entries > MAX_CONFIGURATIONS:
        raise ArgumentError(
            f"xi='configuration' needs {n_entries:,} configurations of the family of {node!r}, and the limit is "
            f"{MAX_CONFIGURATIONS:,}; xi='row' needs no more than its mean rows"
        )
    patterns, pattern = np.unique(sizes, axis=0, return_inverse=True)
    groups = []
    for g, lengths in enumerate(patterns):
        members = np.flatnonzero(pattern.ravel() == g)
        stages = tuple(np.flatnonzero(lengths > 1).tolist())
        size = int(lengths.prod())
        entry, stride = np.arange(size), 1
        bits = np.repeat(instances.codes[members], size, axis=0)
        marginal = np.empty((members.size * size, len(stages)), dtype=np.intp)
        for j, k in enumerate(stages):
            share = instances.shares[k]
            assert share is not None
            place = (first[members, k][:, None] + entry // stride % lengths[k]).ravel()
            stride *= int(lengths[k])
            bits = np.where(share.bits[place] < 0, bits, share.bits[place])
            marginal[:, j] = stretches[k].start + place
        groups.append(_Group(stages, bits, np.repeat(instances.cases[members], size), marginal))
    return groups
