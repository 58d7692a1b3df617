"""Do 95% intervals of runs on incomplete tables, with the stopping rule on, hold the exact answer as often as they say?

Runs are independent, quantities of a run share its luck: the yardstick is the spread over runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from incomplete_coverage_cases import KINDS, PROBLEMS, run

from support.checks import z_limit


def pooled(runs, held, where, kinds=KINDS):
    """Mean over runs of the share of intervals that hold, and its standard error."""
    parts = [np.concatenate([getattr(r, held)[k][getattr(r, where)[k]] for k in kinds]) for r in runs if r.told]
    shares = [part.mean() for part in parts if part.size]
    return float(np.mean(shares)), float(np.std(shares, ddof=1) / np.sqrt(len(shares)))


@pytest.fixture(scope="module")
def few():
    return [run(PROBLEMS["3 columns, 30%"], number, networks=200) for number in range(10)]


def test_intervals_cover_with_holes_and_the_stopping_rule_on(few):
    assert sum(r.told for r in few) > 7
    limit = z_limit(1, 1e-4)
    covered, error = pooled(few, "inside", "promised")
    assert covered > 0.93 - limit * error
    halved, error = pooled(few, "halved", "promised")
    assert halved < 0.93 - limit * error  # the broken twin: errors of half the size


def check_many(runs):
    limit = z_limit(3 * len(KINDS))
    for kind in KINDS:
        covered, error = pooled(runs, "inside", "promised", (kind,))
        assert covered > 0.93 - limit * error, kind
    for kind in ("edges", "cells, as drawn"):  # others make room for what was never met
        covered, error = pooled(runs, "inside", "common", (kind,))
        assert 0.93 - limit * error < covered < 0.97 + limit * error, kind
        halved, error = pooled(runs, "halved", "promised", (kind,))
        assert halved < 0.93 - limit * error, kind


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_intervals_cover_in_many_runs(name):
    runs = [run(PROBLEMS[name], number) for number in range(100)]
    assert PROBLEMS[name].sampler == "auto" or len({r.draws for r in runs}) > 1, "the stopping rule was not tried"
    check_many(runs)
