"""Files changed at random: a few seconds of `benchmarks/fuzz.py`, drawn anew for each version; ten minutes if slow.

A failure names the format, the seed and the number of the input: ``benchmarks/fuzz.py --formats ... --only`` reads it
again.  What is found becomes a small test of its own, beside those of its format.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

import doxa

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import fuzz
from fuzz_parts.mutations import changed_bytes, changed_json, changed_text
from fuzz_parts.texts import Format

SEED = crc32(f"files of doxa {doxa.__version__}".encode()) % 10**6 + 1000 * int(os.environ.get("DOXA_TEST_SEED", "0"))
TEXTS = ["bif", "xmlbif", "net", "dsc", "xdsl", "uai", "json", "bif.gz", "evidence", "graph csv", "graph dot",
         "table csv", "table csv.gz", "table parquet"]  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore")  # as in the children of the script


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return fuzz.make_formats(tmp_path_factory.mktemp("fuzz"), TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_changed_files_are_read_or_refused(name, texts, tmp_path):
    tally = fuzz.Tally()
    for number in range(60):
        tally.add(fuzz.try_one(name, texts[name], SEED, number, tmp_path, traced=number % 20 == 7))
    assert not tally.failed, f"seed {SEED}: {tally.findings}"
    assert tally.refused > 20


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return fuzz.make_formats(tmp_path_factory.mktemp("runs"), ["run"])["run"]


def test_forged_and_damaged_runs_are_read_or_refused(runs, tmp_path):
    tally = fuzz.Tally()
    for number in range(150):
        tally.add(fuzz.try_one("run", runs, SEED, number, tmp_path))
    assert not tally.failed, f"seed {SEED}: {tally.findings}"
    assert tally.refused > 60
    assert tally.accepted > 5


@pytest.mark.slow
def test_ten_minutes_of_changed_files(tmp_path):
    tallies = fuzz.fuzz(fuzz.make_formats(tmp_path), 600.0, SEED, tmp_path)
    print(fuzz.table(tallies))
    assert not any(tally.failed for tally in tallies.values()), fuzz.table(tallies)


def test_what_goes_wrong_is_noticed(tmp_path, monkeypatch):
    """The twin: readers that let an error through, crash, take long or take memory."""
    whole = tmp_path / "whole.txt"
    whole.write_text("1 2 3")
    held = []

    def use(path, rng):
        match rng.integers(5):
            case 0:
                raise KeyError(path)
            case 1:
                raise doxa.errors.ArgumentError(path.read_text())
            case 2:
                held.append(bytes(2**22))
                raise doxa.errors.ArgumentError("large")

    form = Format(".txt", [whole], lambda _, one, to: to.write_bytes(one.read_bytes()), use)
    tally = fuzz.Tally()
    for number in range(60):
        tally.add(fuzz.try_one("toy", form, 1, number, tmp_path, traced=True))
    assert tally.tried == 60 == tally.refused + tally.accepted + tally.uncaught
    assert tally.uncaught > 3 < tally.memory
    assert any("KeyError" in what for what in tally.findings)
    assert "memory beyond" in fuzz.table({"toy": tally})
    crash = form._replace(use=lambda *_: os.abort())
    found, following = fuzz._slice("toy", crash, 1, 5, tmp_path, 0.3)
    assert (found.crashed, found.tried, following) == (1, 1, 6)
    monkeypatch.setattr(fuzz, "_LONGEST", 0.05)

    def endless(*_):
        while True:
            pass

    found, following = fuzz._slice("toy", form._replace(use=endless), 1, 5, tmp_path, 0.3)
    assert (found.slow, found.tried, following) == (1, 1, 6)


def test_the_same_seed_draws_the_same_inputs(texts, tmp_path):
    for name in ("bif", "json", "bif.gz", "table parquet"):
        one, two = (fuzz.drawn(name, texts[name], 7, 11, tmp_path)[0].read_bytes() for _ in range(2))
        other = fuzz.drawn(name, texts[name], 7, 12, tmp_path)[0].read_bytes()
        assert one == two != other


def test_changes_change():
    whole = b"network a { } probability ( a ) { table 0.5, 0.5; }"
    tree = {"a": [1, 2, {"b": "c"}], "d": None}
    rng = np.random.default_rng(1)
    assert len({changed_bytes(rng, whole) for _ in range(100)}) > 60
    assert len({changed_text(rng, whole) for _ in range(100)}) > 60
    assert sum(changed_json(rng, tree) != tree for _ in range(100)) > 80
    assert tree == {"a": [1, 2, {"b": "c"}], "d": None}
