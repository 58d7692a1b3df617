"""Simulation-based calibration (Talts et al. 2018): parameters from the prior, tables from them, places in the draws.

A short form of the studies of `benchmarks/calibration.py`, in which they have a thousand replications.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from calibration_parts.fitting import FIT_SETTINGS, FITS, coefficients, tables
from support.checks import FALSE_ALARM
from support.ranks import p_values

SHORT = {"complete": 40, "20% blank": 15, "hidden root": 8, "tables": 60, "tables, 20% blank": 40}


def least_p(found):
    """Of the tests that places are uniform, times their number."""
    p = p_values(found)
    return min(p.values()) * len(p)


@pytest.mark.parametrize("name", SHORT)
def test_places_of_the_truth_are_uniform(name):
    assert least_p([FITS[name](number) for number in range(SHORT[name])]) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_places_of_the_truth_are_uniform_in_a_thousand_replications(name):
    assert least_p([FITS[name](number) for number in range(1000)]) > FALSE_ALARM


def test_places_under_a_wrong_prior_are_not():
    wrong = FIT_SETTINGS["complete"]._replace(fitted_scale=0.3)
    assert least_p([coefficients(wrong, 0, number) for number in range(40)]) < FALSE_ALARM


def test_places_in_tables_under_a_wrong_prior_are_not():
    assert least_p([tables(0.0, 50.0, 0, number) for number in range(60)]) < FALSE_ALARM
