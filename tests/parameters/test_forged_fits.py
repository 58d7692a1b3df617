"""Forged run files of fits: right checksums, and something in them that no fit writes; refused by its name."""

from __future__ import annotations

import shutil
from functools import partial

import numpy as np
import pytest

import doxa
from doxa.data import Table
from doxa.estimates.store import RunFileError
from doxa.parameters import Averages
from support import forging
from support.forging import forge_draws, forge_header, forge_state

FEW = {"draws": 30, "warmup": 10, "chains": 2, "seed": 1, "progress": False}
NETWORK = doxa.LogisticNetwork({"y": ["a", "b"]})


def _table(holes=False):
    codes = np.random.default_rng(3).integers(0, 2, (30, 3))
    if holes:
        codes[:3, 0] = -1
    return Table.from_codes(["a", "b", "y"], [["no", "yes"]] * 3, codes)


KINDS = {
    "draws": ({}, False),
    "averages": ({"keep": Averages(10)}, False),
    "hidden": ({"method": "augmentation"}, True),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One sound file of every kind."""
    folder = tmp_path_factory.mktemp("sound")
    for name, (options, holes) in KINDS.items():
        doxa.fit(NETWORK, _table(holes), store=folder / f"{name}.doxa", **options, **FEW)
    return folder


def copied(made, tmp_path, name):
    return shutil.copyfile(made / f"{name}.doxa", tmp_path / "run.doxa"), _table(KINDS[name][1])


put = partial(forging.put, "options")


HEADERS = {
    "an unknown option": ("draws", put("magic", 1), "its option magic is nothing"),
    "a network of numbers": ("draws", put("network", "means", "y", ["x"]), "its network.means.'y'..0. is 'x'"),
    "more coefficients than parents": ("draws", put("network", "variances", "y", [1.0] * 10**5), "has 100000 numbers"),
    "a covariance that is no square": ("draws", put("network", "covariances", {"y": [[1.0], [1.0, 2.0]]}), "no square"),
    "roots in a table that is none": ("draws", put("network", "roots", [[["a", "b"], [0.5, 0.5]]]), "two entries for"),
    "a coding that is none": ("draws", put("network", "coding", "02"), "its network.coding is '02'; it must be one of"),
    "labels that are no texts": ("draws", put("states", {"a": [1]}), "its option states.'a'..0. is 1; it must"),
    "three labels": ("draws", put("states", "a", ["x", "y", "z"]), "has 3 entries; it must have 0 at least and 2 at"),
    "parts of other nodes": ("draws", put("report", "parts", 0, "nodes", ["z"]), "its option report.parts has the n"),
    "a part too few": ("draws", put("report", "parts", []), "its option report.parts has the n"),
    "a number in plain text": ("draws", put("report", "parts", 0, "tail", "soon"), "report.parts.0..tail is 'soon'"),
    "an error beyond all": (
        "draws", put("report", "parts", 0, "log_evidence_mcse", "0x1p+1023"), "mcse holds 8.98.*; it must hold nothing"
    ),
    "an infinite evidence": ("draws", put("report", "parts", 0, "log_evidence", "-inf"), "log_evidence holds -inf; it"),
    "an infinite bound": ("draws", put("report", "parts", 0, "bound", "inf"), "bound holds inf; it must be finite"),
    "infinite factors": ("draws", put("report", "fixed", "-inf"), "report.fixed holds -inf; it must be finite"),
    "counts below none": ("draws", put("report", "parts", 0, "counts", [-1, 2]), "parts.0..counts.0. is -1; it"),
    "counts of no root": ("draws", put("report", "parts", 0, "counts", [1, 2]), "two counts belong to one root"),
    "levels that fall": (
        "averages", lambda b: b["options"]["report"]["parts"][0]["levels"][0].reverse(), "levels are finite, and rise",
    ),
    "levels of one parameter": (
        "averages", lambda b: b["options"]["report"]["parts"][0]["levels"].pop(), "has not as many levels of each of",
    ),
    "a method that is none": ("draws", put("method", {"name": "block", "blocks": -3}), "the run's method cannot be"),
    "an order that is none": ("draws", put("order", 7), "order is 7"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_a_forged_header_is_refused_by_the_name_of_its_field(made, tmp_path, name):
    kind, change, said = HEADERS[name]
    path, table = copied(made, tmp_path, kind)
    forge_header(path, change)
    for read in (lambda: doxa.load(path), lambda: doxa.resume(path, table, draws=40)):
        with pytest.raises(RunFileError, match=said):
            read()


DRAWS = {
    "numbers that are none": ("draws", "0.theta", lambda v: v * np.nan, "0.theta holds nan; it must be finite"),
    "numbers beyond all": ("draws", "0.theta", lambda v: v + 1e200, "0.theta holds 1e.200; it must hold nothing above"),
    "densities that are none": ("hidden", "0.log_density", lambda v: v - np.inf, "0.log_density holds -inf"),
    "acceptance above 1": (
        "draws",
        "0.acceptance",
        lambda v: v + 2,
        "0.acceptance holds .*; it must hold nothing above",
    ),
    "shares above 1": ("averages", "0.below", lambda v: v + v.dtype.type(2), "0.below holds .*; it must hold nothing"),
    "squares below 0": ("averages", "0.square", lambda v: -v - 1, "0.square holds .*; it must hold nothing below 0"),
}


@pytest.mark.parametrize("name", DRAWS)
def test_forged_draws_are_refused(made, tmp_path, name):
    kind, quantity, change, said = DRAWS[name]
    path, table = copied(made, tmp_path, kind)
    forge_draws(path, quantity, change)
    for read in (lambda: doxa.load(path), lambda: doxa.resume(path, table, draws=40)):
        with pytest.raises(RunFileError, match=said):
            read()


def test_draws_of_another_shape_are_refused(made, tmp_path):
    path, _ = copied(made, tmp_path, "draws")
    forge_draws(path, "0.theta", lambda v: v[..., :2], everywhere=True)
    with pytest.raises(RunFileError, match=r"0.theta has the shape \[2, 0, 1, 2\]; it must be \[2, 0, 1, 3\]"):
        doxa.load(path)


STATES = {
    "numbers that are none": (
        "draws",
        "0__thetas",
        lambda v: v * np.nan,
        "state.0__thetas holds nan; it must be finite",
    ),
    "another shape": ("draws", "0__thetas", lambda v: v[:, :2], "state.0__thetas has the shape"),
    "steps ahead of each other": ("draws", "0__ahead__log_density", lambda v: v[1:], "state.0__ahead_.* has the shape"),
    "cells that are none": (
        "hidden",
        "0__cells",
        lambda v: v + v.dtype.type(2),
        "state.0__cells holds .*nothing above 1",
    ),
    "a cell more": ("hidden", "0__cells", lambda v: np.append(v, v[:1]), "state.0__cells has the shape"),
}


@pytest.mark.parametrize("name", STATES)
def test_a_forged_state_is_refused_before_anything_runs(made, tmp_path, name):
    kind, field, change, said = STATES[name]
    path, table = copied(made, tmp_path, kind)
    forge_state(path, field, change)
    doxa.load(path)
    with pytest.raises(RunFileError, match=said):
        doxa.resume(path, table, draws=40)
