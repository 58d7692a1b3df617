"""The data sets in the package: `load` one as a Table, `describe` what it is.

``reinis``: the 64 cell counts published by Edwards and Havránek (1985, Biometrika 72, 339-351), one of
them zero, from the study of Reinis et al. (1981, Bratislavské lekárske listy 76, 137-150).  The first
level of every variable is the absent or low one, as in the original: 880 of the 1841 men smoke and 260 have a
positive family history.  Copies are in circulation whose labels are exchanged, so that 961 would smoke and 1581
have the family history; the counts are the same.

``house_votes``: the Congressional Voting Records of the UCI Machine Learning Repository (Schlimmer 1987),
doi 10.24432/C5C01P, licence CC BY 4.0, rows in the order of the repository.  Changes: the columns bear short names,
and the cells marked "?" there (392: neither yea nor nay was announced) are empty, which is missing.
"""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from doxa.data.options import near
from doxa.data.table import Table
from doxa.errors import ArgumentError

__all__ = ["describe", "load", "names"]


class _DataSet(NamedTuple):
    states: dict[str, tuple[str, ...]]  # of every column, in the order of the file
    story: str


_VOTE = ("n", "y")

_DATA_SETS = {
    "house_votes": _DataSet(
        {
            "party": ("democrat", "republican"),
            "handicapped_infants": _VOTE,
            "water_project": _VOTE,
            "budget_resolution": _VOTE,
            "physician_fee_freeze": _VOTE,
            "el_salvador_aid": _VOTE,
            "religious_groups_in_schools": _VOTE,
            "anti_satellite_test_ban": _VOTE,
            "aid_to_contras": _VOTE,
            "mx_missile": _VOTE,
            "immigration": _VOTE,
            "synfuels_cutback": _VOTE,
            "education_spending": _VOTE,
            "superfund_right_to_sue": _VOTE,
            "crime": _VOTE,
            "duty_free_exports": _VOTE,
            "export_act_south_africa": _VOTE,
        },
        """\
Votes of the 435 members of the United States House of Representatives on 16 key issues of 1984, with
their party (267 democrats, 168 republicans). y: voted, paired or announced for; n: against; the 392 cells
of members who took no known position are missing.
Source: Schlimmer (1987), Congressional Voting Records, UCI Machine Learning Repository,
doi 10.24432/C5C01P, CC BY 4.0; compiled from the Congressional Quarterly Almanac of 1984.""",
    ),
    "reinis": _DataSet(
        {
            "smoke": ("no", "yes"),
            "mental": ("no", "yes"),
            "phys": ("no", "yes"),
            "systol": ("<140", ">=140"),
            "protein": ("<3", ">=3"),
            "family": ("negative", "positive"),
        },
        """\
Risk factors of coronary thrombosis in 1841 men employed in a Czechoslovak car factory, at the start of a
follow-up of 15 years. smoke: does he smoke; mental, phys: is his work strenuous mentally, physically;
systol: systolic blood pressure in mm Hg; protein: ratio of beta to alpha lipoproteins;
family: coronary heart disease in the family.
Source: Reinis et al. (1981), Bratislavske lekarske listy 76, 137-150; counts from Edwards & Havranek (1985),
A fast procedure for model search in multidimensional contingency tables, Biometrika 72, 339-351.""",
    ),
}


def names() -> tuple[str, ...]:
    """Return the names of the data sets.

    Examples
    --------
    >>> names()
    ('house_votes', 'reinis')
    """
    return tuple(_DATA_SETS)


def load(name: str) -> Table:
    """Load a data set of the package.

    Parameters
    ----------
    name : {"reinis", "house_votes"}
        ``"reinis"``: six binary risk factors of coronary heart disease, 1841 men.
        ``"house_votes"``: party and 16 votes of 435 members of Congress, 392 cells missing.

    Returns
    -------
    Table

    Raises
    ------
    ArgumentError
        If there is no such data set.

    Examples
    --------
    >>> load("reinis")
    Table(1841 rows (63 distinct) x 6 columns, no missing cells)
    >>> load("house_votes").states[:2]
    (('democrat', 'republican'), ('n', 'y'))
    """
    states = _data_set(name).states
    text = (files("doxa.data") / "files" / f"{name}.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    codes = [[labels.index(row[column]) if row[column] else -1 for column, labels in states.items()] for row in rows]
    counts = np.array([int(row.get("count", "1")) for row in rows])
    return Table.from_codes(tuple(states), tuple(states.values()), codes, counts)


def describe(name: str) -> str:
    """Tell what a data set is, in a few lines of plain text.

    Parameters
    ----------
    name : str
        Name of the data set.

    Returns
    -------
    str
        Who was asked what, what the variables mean, and the source to cite.

    Raises
    ------
    ArgumentError
        If there is no such data set.

    Examples
    --------
    >>> print(describe("reinis").splitlines()[-1])
    A fast procedure for model search in multidimensional contingency tables, Biometrika 72, 339-351.
    """
    return _data_set(name).story


def _data_set(name: str) -> _DataSet:
    if name not in _DATA_SETS:
        raise ArgumentError(f"name is {name!r}, which is no data set of the package{near(str(name), names())}")
    return _DATA_SETS[name]
