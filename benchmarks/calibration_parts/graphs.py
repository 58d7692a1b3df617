"""`doxa.learn` on categories: the settings of tests/support/calibration_cases.py, and causal effects."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from support.calibration_cases import SETTINGS, Look, Network, replication, run_of, world_of
from support.ranks import place

__all__ = ["GRAPHS", "effects"]


def effects(number: int, before: Any = None) -> dict[str, float]:
    """The causal effect of one column on another; ``before`` has draws of a world that is not this one, for a twin."""
    world, rng = world_of(SETTINGS["complete, summed"], number)
    posterior = run_of(SETTINGS["complete, summed"], world.table, number)
    draws = posterior.effect("x0", {"x2": "s1"}, values=("s0", "s1"), networks=400).draws
    truth = _share(world.truth, 1) - _share(world.truth, 0)
    if before is None:
        return {"effect": place(draws, truth, rng)}
    sign = Look(world, [world.truth]).sign  # of what is seen in the table
    found = {"effect in another world": place(sign * before[-1], sign * truth, rng)}
    before.append(draws)
    return found


def _share(truth: Network, k: int) -> float:
    """P(x2 = its second state) where x0 is set to its k-th."""
    own = np.moveaxis(np.exp(truth.log_joint({0: k})), 2, 0)
    return float(own[1].sum() / own.sum())


GRAPHS = {name: partial(replication, setting) for name, setting in SETTINGS.items()} | {"effects": effects}
