"""The bundled data against their published margins.

The counts of votes and of risk factors are those of the copies in the R packages mlbench 2.1 (HouseVotes84)
and deal (reinis), counted there.
"""

import csv
from importlib.resources import files

import numpy as np
import pytest

from doxa.data import datasets, read_table
from doxa.errors import ArgumentError

# name: (second state, men in it)
REINIS = {
    "smoke": ("yes", 880),
    "mental": ("yes", 778),
    "phys": ("yes", 914),
    "systol": (">=140", 787),
    "protein": (">=3", 780),
    "family": ("positive", 260),
}

# name: (against, for, missing)
VOTES = {
    "handicapped_infants": (236, 187, 12),
    "water_project": (192, 195, 48),
    "budget_resolution": (171, 253, 11),
    "physician_fee_freeze": (247, 177, 11),
    "el_salvador_aid": (208, 212, 15),
    "religious_groups_in_schools": (152, 272, 11),
    "anti_satellite_test_ban": (182, 239, 14),
    "aid_to_contras": (178, 242, 15),
    "mx_missile": (206, 207, 22),
    "immigration": (212, 216, 7),
    "synfuels_cutback": (264, 150, 21),
    "education_spending": (233, 171, 31),
    "superfund_right_to_sue": (201, 209, 25),
    "crime": (170, 248, 17),
    "duty_free_exports": (233, 174, 28),
    "export_act_south_africa": (62, 269, 104),
}


def count(table, name, code):
    return int(table.counts[table.codes[:, table.names.index(name)] == code].sum())


def test_reinis():
    table = datasets.load("reinis")
    assert table.names == tuple(REINIS)
    assert (table.n_rows, table.n_columns, table.n_missing) == (1841, 6, 0)
    assert table.n_distinct == 63  # one of the 64 cells is empty
    assert table.n_states.tolist() == [2] * 6
    assert {
        name: (states[1], count(table, name, 1)) for name, states in zip(table.names, table.states, strict=True)
    } == REINIS
    assert [states[0] for states in table.states] == ["no", "no", "no", "<140", "<3", "negative"]


def test_the_cells_of_reinis():
    with (files("doxa.data") / "files" / "reinis.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 64
    assert len({tuple(row[name] for name in REINIS) for row in rows}) == 64
    assert sum(int(row["count"]) for row in rows) == 1841
    empty = [row for row in rows if row["count"] == "0"]
    assert [[row[name] for name in REINIS] for row in empty] == [["yes", "no", "no", ">=140", ">=3", "positive"]]
    # strenuous mental and strenuous physical work exclude each other in this factory
    table = datasets.load("reinis").select(["mental", "phys"])
    cells = {tuple(row): int(times) for row, times in zip(table.codes.tolist(), table.counts, strict=True)}
    odds_ratio = cells[0, 0] * cells[1, 1] / (cells[0, 1] * cells[1, 0])
    assert odds_ratio < 0.1


def test_house_votes():
    table = datasets.load("house_votes")
    assert table.names == ("party", *VOTES)
    assert (table.n_rows, table.n_columns, table.n_missing) == (435, 17, 392)
    assert table.states == (("democrat", "republican"), *[("n", "y")] * 16)
    assert (count(table, "party", 0), count(table, "party", 1)) == (267, 168)
    assert {name: tuple(count(table, name, code) for code in (0, 1, -1)) for name in VOTES} == VOTES
    assert table.missing_by_column == {name: missing for name, (_, _, missing) in VOTES.items()}
    # the first and the last row of the repository's file
    rows = table.codes[table.row_index]
    assert rows[0].tolist() == [1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, -1, 1, 1, 1, 0, 1]
    assert rows[434].tolist() == [1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1, -1, 0]


def test_the_file_of_votes_reads_as_the_data_set():
    with_reader = read_table(str(files("doxa.data") / "files" / "house_votes.csv"))
    assert with_reader.digest == datasets.load("house_votes").digest
    assert np.array_equal(with_reader.row_index, datasets.load("house_votes").row_index)


@pytest.mark.parametrize("name", datasets.names())
def test_stories_name_the_variables_and_the_source(name):
    story = datasets.describe(name)
    assert 3 <= len(story.splitlines()) <= 6
    assert all(len(line) <= 110 for line in story.splitlines())
    assert "Source: " in story
    if name == "reinis":
        assert all(f"{column}" in story for column in datasets.load(name).names)
        assert "1841 men" in story
        assert "Biometrika 72, 339-351" in story
    else:
        assert "10.24432/C5C01P" in story
        assert "CC BY 4.0" in story


UNKNOWN = {
    "renis": "; did you mean 'reinis'? (there are: 'house_votes', 'reinis')",
    "zzz": "; there are: 'house_votes', 'reinis'",
}


@pytest.mark.parametrize("function", [datasets.load, datasets.describe])
@pytest.mark.parametrize(("name", "hint"), UNKNOWN.items())
def test_unknown_names(function, name, hint):
    with pytest.raises(ArgumentError) as raised:
        function(name)
    assert str(raised.value) == f"name is {name!r}, which is no data set of the package{hint}"
