"""Single families for people and tests: log evidences with their errors, and which type of family the data favour."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.structure.families.counting import count_family, family_data
from doxa.structure.families.logistic.box import Box
from doxa.structure.families.logistic.score import FamilyMixture, Logistic
from doxa.structure.families.logistic.work import MOST_PARENTS
from doxa.structure.families.scores import log_bdeu

__all__ = ["FamilyEvidence", "FamilyTypes", "family_evidence", "family_types"]


class FamilyEvidence(NamedTuple):
    """Log evidence of a logistic family."""

    log_evidence: float  # nats
    error: float  # its standard error, nats: too large rather than too small; NaN for a bound
    n_nodes: int  # points at which the integrand was weighed; 0 where a formula or a bound was enough


class FamilyTypes(NamedTuple):
    """A family under both types."""

    log_table: float  # log marginal likelihood as a table, nats
    log_logistic: float  # as a logistic regression; the table's where both are the same model, -inf where impossible
    error: float  # of ``log_logistic``
    log_score: float  # of the sum over the types with their prior shares
    logistic_probability: float  # of the type given the family and the data


def family_evidence(
    table: Table, child: str, parents: tuple[str, ...] = (), score: Logistic | None = None
) -> FamilyEvidence:
    """Log evidence of the logistic regression of ``child`` on ``parents``.

    Parameters
    ----------
    table : Table
        Without missing cells; the family's columns have two states at most.
    child : str
    parents : tuple of str, default=()
    score : Logistic, optional
        ``Logistic()`` when left out.

    Raises
    ------
    ArgumentError
        If a name is unknown or given twice, a cell is missing, a column has more than two states, or there are more
        than 63 parents.

    Examples
    --------
    >>> from doxa.data import datasets
    >>> found = family_evidence(datasets.load("reinis"), "systol", ("smoke", "protein"))
    >>> round(found.log_evidence, 1), found.error <= 0.01
    (-1254.6, True)
    """
    score = Logistic() if score is None else score
    data = family_data(table, child, parents)
    score.check_columns((child, *parents), data[2], np.zeros(len(data[2]), dtype=np.bool_))
    if len(parents) > MOST_PARENTS:
        raise ArgumentError(f"parents has {len(parents)} names; a logistic family has at most {MOST_PARENTS}")
    value, error, n_nodes = _score(score, data)
    return FamilyEvidence(value, error, n_nodes) if score.method == "laplace" else FamilyEvidence(value, math.nan, 0)


def family_types(
    table: Table, child: str, parents: tuple[str, ...] = (), score: FamilyMixture | None = None
) -> FamilyTypes:
    """How well a family does as a table and as a logistic regression, and the sum over both.

    Parameters
    ----------
    table : Table
        Without missing cells.
    child : str
    parents : tuple of str, default=()
    score : FamilyMixture, optional
        ``FamilyMixture()`` when left out.

    Raises
    ------
    ArgumentError
        If a name is unknown or given twice, or a cell is missing.

    Examples
    --------
    >>> from doxa.data import datasets
    >>> found = family_types(datasets.load("reinis"), "systol", ("smoke", "protein"))
    >>> round(found.log_logistic - found.log_table, 1), round(found.logistic_probability, 2)
    (4.8, 0.99)
    """
    score = FamilyMixture() if score is None else score
    log_table = log_bdeu(count_family(table, child, parents), score.equivalent_sample_size)
    data = family_data(table, child, parents)
    if (data[2] > 2).any() or len(parents) > MOST_PARENTS:
        return FamilyTypes(log_table, -math.inf, 0.0, log_table, 0.0)
    if data[2][0] < 2 or (data[2][1:] == 2).sum() < 2:
        return FamilyTypes(log_table, log_table, 0.0, log_table, score.logistic_share)
    log_logistic, error, _ = _score(Logistic(score.prior_scale, tolerance=score.tolerance), data)
    rule = score.logistic_rule(table.n_rows)
    total = float(np.logaddexp(rule.log_table_share + log_table, rule.log_logistic_share + log_logistic))
    probability = math.exp(rule.log_logistic_share + log_logistic - total)
    return FamilyTypes(log_table, log_logistic, error, total, probability)


def _score(score: Logistic, data: tuple[NDArray[Any], ...]) -> tuple[float, float, int]:
    """Score of the first column with all others as its parents, its error, and the nodes it took."""
    box = Box(score, data)
    return box.score_first(len(data[2])), float(box.report[4]), int(box.report[5])
