"""`OutOfCoreSums`: the sums T of `doxa.structure.families.shared_counts`, from counts made where the data live."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.data.large.table import SizedCounts
from doxa.structure.families.rules import Rule
from doxa.structure.families.shared_counts import Data, SharedCounts, sum_terms

__all__ = ["OutOfCoreSums"]

_DENSE = 2**20  # possible cells of a set that are filled in their order; more are summed as they stand


class OutOfCoreSums(SharedCounts):
    """Sums of the sets of columns that a table has counts of; NaN for all others.

    Cells are added up in the order of tables in memory, so that the sums are the same to the last bit wherever these
    fill a table of all possible cells.
    """

    def __init__(
        self, sizes: Mapping[int, SizedCounts], data: Data, rule: Rule, most_columns: int, pool: ThreadPoolExecutor
    ) -> None:
        self._sizes = sizes
        super().__init__(data, rule, most_columns, pool)

    def _count(self, size: int, sums: NDArray[np.float64], keys: NDArray[np.int64] | None) -> None:
        sums[:] = np.nan
        if size not in self._sizes:
            return
        sized, n_states = self._sizes[size], self._data[2]
        radices = n_states[sized.members]
        own = np.empty((len(sized.members), sums.shape[1]))
        largest = int(radices.prod(axis=1, dtype=np.float64).max(initial=1.0))
        filled = np.zeros(min(largest, _DENSE), dtype=np.int64)
        _sum_sets(sized, radices, self._terms, filled, own)
        numbers = self.numbers(sized.members, np.empty(0, dtype=np.int64))  # rising: sets are in their order
        wanted = np.arange(len(sums)) if keys is None else keys
        place = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
        found = numbers[place] == wanted
        sums[found] = own[place[found]]
        self.n_counted += int(found.sum())


@hot
def _sum_sets(sized: Any, radices: Any, terms: Any, filled: Any, sums: Any) -> None:
    """Sums of all sets of one size; ``filled`` is left at zero."""
    first, codes, counts = sized.first, sized.codes, sized.counts
    size = radices.shape[1]
    for k in range(radices.shape[0]):
        begin, end = first[k], first[k + 1]
        n_possible = 1.0
        for j in range(size):
            n_possible *= radices[k, j]
        if n_possible > filled.size:
            sum_terms(counts[begin:end], end - begin, n_possible, terms, sums[k])
            continue
        n_cells = int(n_possible)
        for row in range(begin, end):
            label = 0
            for j in range(size - 1, -1, -1):  # the last column slowest
                label = label * radices[k, j] + codes[row, j]
            filled[label] = counts[row]
        sum_terms(filled, n_cells, n_possible, terms, sums[k])
        filled[:n_cells] = 0
