"""Is the truth one more draw from the posterior?  Simulation-based calibration of graphs, parameters and missing cells.

Each check has twins that are wrong on purpose and must be told apart by the same limit, in no more replications.
"""

from __future__ import annotations

import numpy as np
import pytest

from doxa.data import Table
from doxa.structure.cases.incomplete import sampler as incomplete_sampler
from support.broken_sweeps import childless_sweep
from support.calibration_cases import (
    ESS,
    SETTINGS,
    networks_of,
    places,
    run_of,
    study,
    world_of,
)
from support.checks import FALSE_ALARM
from support.ranks import least_tail, p_values, tail_law

QUANTITIES = {name: 21 if setting.share else 17 if setting.hidden else 16 for name, setting in SETTINGS.items()}
LIMIT = FALSE_ALARM / sum(QUANTITIES.values())
REPLICATIONS = {
    "complete": 60,
    "complete, summed": 40,
    "10% blank": 25,
    "30% blank": 25,
    "30% blank, single_edge": 80,
    "logistic": 30,
    "hidden": 20,
}
# What the twins are judged by: the score that a twin reports is of another target and says so at once.
TOLD = ("log P(table, cells | graph)",)


def least(found, leave_out=()):
    return min(p for name, p in p_values(found).items() if name not in leave_out)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_truth_is_one_more_draw(name):
    found = p_values(study(SETTINGS[name], range(REPLICATIONS[name])))
    assert len(found) == QUANTITIES[name]
    assert min(found.values()) > LIMIT, found


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_the_truth_is_one_more_draw_in_1000_replications(name):
    found = p_values(study(SETTINGS[name], range(1000)))
    assert min(found.values()) > LIMIT, found


# --- twins -----------------------------------------------------------------------------------------------------------


def test_another_equivalent_sample_size_is_seen():
    assert least(study(SETTINGS["complete"], range(40), equivalent_sample_size=ESS / 8), TOLD) < LIMIT


def test_parameters_at_their_mean_are_seen():
    setting, found = SETTINGS["complete"], []
    for number in range(40):
        world, rng = world_of(setting, number)
        found.append(places(world, networks_of(world, run_of(setting, world.table, number), mean=True), rng))
    p = p_values(found)
    assert p["P(x2 | x0)"] < LIMIT
    assert p["x0 -> x1"] > LIMIT  # graphs are right


def filled(table, rng):
    """Each missing cell by an independent draw from its column's other values."""
    codes = np.array(table.codes[table.row_index])
    for column in codes.T:
        missing = column < 0
        column[missing] = rng.choice(column[~missing], size=missing.sum())
    return Table.from_codes(table.names, table.states, codes)


def test_cells_filled_in_once_are_seen_by_graphs_and_parameters():
    setting, found = SETTINGS["30% blank"], []
    for number in range(120):
        world, rng = world_of(setting, number)
        networks = networks_of(world, run_of(setting, filled(world.table, rng), number))
        found.append(places(world, networks, rng))
    of_cells = tuple(name for name in found[0] if "cell" in name or "=" in name)
    assert least(found, (*TOLD, "log joint density", *of_cells)) < LIMIT


def test_cells_drawn_without_regard_to_their_children_are_seen(monkeypatch):
    monkeypatch.setattr(incomplete_sampler, "sweep_cells", childless_sweep)
    assert least(study(SETTINGS["30% blank, single_edge"], range(80))) < LIMIT


# --- the test itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [40, 120])
def test_the_least_tail_follows_its_law(n):
    rng = np.random.default_rng(n)
    p = np.array([tail_law(n, least_tail(rng.random(n))) for _ in range(200)])
    for level in (0.05, 0.2, 0.5):
        error = np.sqrt(level * (1 - level) / len(p))
        assert level - 0.12 - 5 * error < (p <= level).mean() < level + 5 * error  # counts are whole: never too many


@pytest.mark.parametrize("shape", [(2.0, 2.0), (0.5, 0.5), (1.7, 1.0)], ids=["too wide", "too narrow", "to one side"])
def test_places_that_are_not_uniform_are_seen(shape):
    values = np.random.default_rng(3).beta(*shape, size=400)
    assert tail_law(400, least_tail(values)) < LIMIT
