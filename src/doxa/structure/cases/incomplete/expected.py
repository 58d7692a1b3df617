"""Scores of a table that has rows in fractions, and expected values in some of its cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import carray, typeof
from numba.core.ccallback import CFunc
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.structure.families.call import ONE_ROW, opener, scorer
from doxa.structure.families.counting import weighing_scratch
from doxa.structure.families.gaussian.box import (
    BGE_RULE,
    GaussianBox,
    GaussianRule,
    gaussian_log_marginal,
    gaussian_work,
)
from doxa.structure.families.gaussian.kinds import ConditionalGaussian

__all__ = ["ExpectedKind"]


@dataclass(frozen=True, eq=False)
class ExpectedKind(ConditionalGaussian):
    """The scores of one table by what its rows count, and the covariances of the numbers of its last rows."""

    counts: Floats | None = None
    spread: Floats | None = None

    def scorer(
        self, data: tuple[NDArray[Any], ...], numbers: NDArray[np.float64] | None = None, *, fixed: bool = False
    ) -> GaussianBox:
        """A compiled scorer, which does not ask the counts of ``data``."""
        assert numbers is not None
        assert self.counts is not None
        columns, _, n_states = data
        return _ExpectedBox(self, (columns, self.counts, n_states), numbers, fixed=fixed, spread=self.spread)


class _ExpectedBox(GaussianBox):
    """A box for counts that are no whole numbers."""

    @property
    def compiled(self) -> tuple[CFunc, Any, Callable[[int], tuple[NDArray[Any], ...]]]:
        """As of `GaussianBox`."""
        return _scorer, _CONTENTS, weighing_scratch


_CONTENTS = typeof(
    (
        (ONE_ROW[0], ONE_ROW[1].astype(np.float64), ONE_ROW[2]),
        GaussianRule(BGE_RULE, 0.0, 0.0, 0.0, 0.0, 0.0),
        gaussian_work(np.zeros((1, 1)), np.zeros(1, dtype=np.bool_)),
        weighing_scratch(1),
    )
)
_open = opener(_CONTENTS)


@scorer
def _scorer(child: int, words: Any, n_words: int, box: Any, _of_table: float) -> float:
    data, rule, work, scratch = _open(box)
    return gaussian_log_marginal(child, carray(words, n_words), data, rule, scratch, work)
