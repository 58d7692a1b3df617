"""`Rule`: a score as compiled loops take it, a number of its kind and its settings."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BDEU_RULE", "BIC_RULE", "CONSTANT_RULE", "Rule"]

BDEU_RULE, CONSTANT_RULE, BIC_RULE = 0, 1, 2


class Rule(NamedTuple):
    """A score as compiled loops take it."""

    kind: int
    log_weight: float  # of the prior: in a family for BDeu, in a cell for K2
    log_cases: float  # in the table
