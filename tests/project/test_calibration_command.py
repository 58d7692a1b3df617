"""`benchmarks/calibration.py`: killed, it goes on where it was; what is right passes, what is wrong does not."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import doxa
from support.checks import SEED
from support.ranks import place

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import calibration
from calibration_parts import STUDIES, chosen
from calibration_parts.fitting import tables
from calibration_parts.inferring import categories, directed


def toy(number, *, width=1.0):
    """A number from a normal distribution, among draws from one as wide or not."""
    rng = np.random.default_rng([SEED, number])
    return {"number": place(width * rng.standard_normal(19), rng.standard_normal(), rng)}


def test_a_command_that_was_killed_goes_on_where_it_was(tmp_path):
    path, studies = tmp_path / "found.jsonl", {"one": toy, "two": partial(toy, width=1.01)}
    whole = calibration.Records()
    list(calibration.examine(studies, 30, whole))
    done = calibration.examine(studies, 30, calibration.Records(path))
    assert [next(done) for _ in range(5)] == [("one", 0), ("two", 0), ("one", 1), ("two", 1), ("one", 2)]
    with path.open("a") as file:
        file.write('{"study": "two", "number": 2, "pla')  # the moment at which it was killed
    records = calibration.Records(path)
    rest = list(calibration.examine(studies, 30, records))
    assert rest[0] == ("two", 2)
    assert len(rest) == 55
    again = calibration.Records(path)
    for name in studies:
        assert whole.found(name) == records.found(name) == again.found(name)
    assert not list(calibration.examine(studies, 30, again))
    assert (
        calibration.table(whole, list(studies))[0].split("CPU")[0].rpartition(";")[0]
        in calibration.table(again, list(studies))[0]
    )


def test_results_of_other_sources_are_not_gone_on_with(tmp_path):
    path = tmp_path / "found.jsonl"
    calibration.Records(path)
    made = json.loads(path.read_text())
    assert made["doxa"] == doxa.__version__
    path.write_text(json.dumps(made | {"sources": "other"}) + "\n")
    with pytest.raises(SystemExit, match="give another file"):
        calibration.Records(path)


def of_one(study, replications):
    records = calibration.Records()
    list(calibration.examine({"study": study}, replications, records))
    return calibration.table(records, ["study"])


def test_what_is_right_passes_and_what_is_wrong_does_not():
    for study, replications, holds in (
        (toy, 300, True),
        (partial(toy, width=0.5), 300, False),
        (STUDIES["fit: tables"], 60, True),
        (partial(tables, 0.0, 50.0, 0), 60, False),  # another equivalent sample size
        (STUDIES["infer: exact"], 300, True),
        (partial(categories, directed, {"method": "exact"}, 0, forgets=True), 1000, False),  # evidence is not looked at
    ):
        text, held = of_one(study, replications)
        assert held == holds, text


def test_every_study_answers():
    assert {name.partition(":")[0] for name in STUDIES} == {"learn", "fit", "infer"}
    assert list(chosen(["fit: tables"])) == ["fit: tables", "fit: tables, 20% blank"]
    for study in chosen(["fit: tables", "infer: exact", "infer: gaussian", "learn: complete"]).values():
        assert all(0 <= one <= 1 for one in study(1).values())
