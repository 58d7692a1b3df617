"""A small problem whose posterior is known."""

from __future__ import annotations

import pytest

from doxa.models import Dag
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from support.tables import skewed_table


@pytest.fixture(scope="module")
def exact():
    """All graphs on x0, x1, x2 and x3 with their probabilities."""
    return enumerate_posterior(FamilyScores(skewed_table(4, 50, seed=7)))


@pytest.fixture(scope="module")
def dags(exact):
    """The same graphs, as `Dag`."""
    return [Dag.from_rows(rows, ("x0", "x1", "x2", "x3")) for rows in exact.rows]
