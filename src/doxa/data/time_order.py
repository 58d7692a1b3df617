"""`TimeOrder`: that rows are moments in time, as a caller says it; and the table of moments with their past.

The moments of a unit are put in order, and cut into *stretches* of moments that follow each other.  Each moment of a
stretch that has all its predecessors, as many as there are *lags*, becomes a row, which holds the cells of that moment
and copies of those before (`doxa.data.slices`).  So what happens at a moment depends on the same row alone.

A moment that is not in the table is a *gap*.  Nothing is guessed about it: it ends a stretch, or, if the caller says
so, it is a row of missing cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.data.options import near, shown
from doxa.data.slices import Slices, all_names, name_and_lag, past_name
from doxa.data.table import Table, collapsed
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.schema import made_of_fields
from doxa.text import counted

__all__ = ["TimeOrder", "in_slices", "last_moments"]

GAPS = ("break", "missing")
_RANK = "rank"
_MOST_FILLED = 10  # moments that are filled in, for each that there is
_WHOLE = 1e-6  # of a step, by which times may miss whole steps: rounding
_WAY = "time='day', unit='patient', lags=1"


@dataclass(frozen=True)
class TimeOrder:
    """That rows are moments in time, as a caller says it and a run file keeps it.

    Parameters
    ----------
    time : str
        The column that says when.
    unit : str, optional
        The column that says of whom; all rows are of one unit when None.
    lags : int, default=1
        How many moments back the past reaches that a moment may depend on.
    step : float or "rank", default=1.0
        How far apart moments are that follow each other; by rank, those that occur anywhere in the table follow each
        other.
    gaps : {"break", "missing"}, default="break"
        What a moment is that is not in the table.
    """

    time: str
    unit: str | None = None
    lags: int = 1
    step: float | str = 1.0
    gaps: str = "break"

    @classmethod
    def of(
        cls, time: Any = None, unit: Any = None, lags: Any = None, step: Any = None, gaps: Any = None
    ) -> TimeOrder | None:
        """Check what `doxa.learn` was given, None where something was left out; None where it was given no time.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If something is of the wrong type or out of range, or is given without a time.
        """
        if time is None:
            for name, value in (("unit", unit), ("lags", lags), ("step", step), ("gaps", gaps)):
                if value is not None:
                    raise ArgumentError(f"{name} is {value!r}, and time is not given; say which column is it: {_WAY}")
            return None
        for name, value in (("time", time), ("unit", unit)):
            if not (isinstance(value, str) or (value is None and name == "unit")):
                raise ArgumentTypeError(f"{name} is {value!r}; give the name of a column: {_WAY}")
        if time == unit:
            raise ArgumentError(f"time and unit are both {time!r}; one column says when, the other of whom: {_WAY}")
        if gaps is not None and gaps not in GAPS:
            raise ArgumentError(
                f"gaps is {gaps!r}; it must be 'break', a moment that is not there ends a stretch, or 'missing', it is "
                "a row of missing cells"
            )
        made = cls(time, unit, 1 if lags is None else check_whole("lags", lags, 1), _step(step), gaps or "break")
        if made.step == _RANK and made.gaps == "missing":
            raise ArgumentError(
                "step is 'rank' and gaps is 'missing'; moments that occur anywhere follow each other by rank, so how "
                "many are missing is not known: give the step in numbers, or leave gaps out"
            )
        return made

    @property
    def text(self) -> str:
        """In words."""
        units = "" if self.unit is None else f", units by {self.unit!r}"
        step = "ranks" if self.step == _RANK else f"steps of {self.step:g}"
        gaps = "ends a stretch" if self.gaps == "break" else "is a row of missing cells"
        return f"moments by {self.time!r} in {step}{units}; {counted(self.lags, 'lag')}; a moment that is absent {gaps}"

    def to_json(self) -> dict[str, Any]:
        """Plain data, for run files."""
        return {"time": self.time, "unit": self.unit, "lags": self.lags, "step": self.step, "gaps": self.gaps}

    @classmethod
    def from_stored(cls, stored: Any, where: str) -> TimeOrder:
        """Undo `to_json`, trusting nothing; `ArgumentError` where it is something else."""
        asked = made_of_fields(cls, stored, where)
        made = cls.of(asked.time, asked.unit, asked.lags, asked.step, asked.gaps)
        assert made is not None  # time is no None
        return made


def _step(step: Any) -> float | str:
    form = "give a number above 0, how far apart moments are that follow each other, or 'rank'"
    if step is None:
        return 1.0
    if isinstance(step, str):
        if step != _RANK:
            raise ArgumentError(f"step is {step!r}; {form}")
        return _RANK
    if isinstance(step, bool) or not isinstance(step, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"step is {step!r}; {form}")
    if not 0.0 < float(step) < math.inf:
        raise ArgumentError(f"step is {step!r}; {form}")
    return float(step)


def in_slices(table: Table, order: TimeOrder | None) -> Table:
    """The table of moments with their past; the columns of time and unit are left out.

    A table that is one already is left alone.

    Raises
    ------
    ArgumentError
        If a column is unknown, a time occurs twice in a unit, a unit has too few rows, or no moment has all its
        predecessors.
    TableError
        If cells of time or unit are missing, times are no numbers or dates, or the table does not know the order of
        its rows.
    """
    if order is None or table.slices is not None:
        return table
    names = _columns(table, order)
    laid = _moments(table, order)
    present = np.flatnonzero(laid.age >= order.lags)
    if not len(present):
        raise ArgumentError(
            f"lags is {order.lags}, and no moment has its {counted(order.lags, 'predecessor')} in the table: the "
            f"longest stretch has {counted(int(laid.age.max()) + 1, 'moment')}; say with step= how far apart moments "
            "are that follow each other, or take fewer lags"
        )
    rows = [laid.source[present - lag] for lag in range(order.lags + 1)]
    previous = np.where(laid.age[present] > order.lags, np.arange(len(present)) - 1, -1)
    copied, is_first = _copied(table, names, rows, previous < 0)
    slices = Slices(
        len(names),
        order.lags,
        previous,
        tuple(laid.units[k] for k in laid.unit[present].tolist()),
        tuple(tuple(laid.times[k - lag] for k in present.tolist()) for lag in range(order.lags + 1)),
        _told(laid, len(present), order),
        is_first,
    )
    return replace(copied, slices=slices)


def last_moments(table: Table, order: TimeOrder) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...]]:
    """The last moments of every unit, as many as there are lags, the latest first: rows of the table, -1 where absent.

    Returns
    -------
    ndarray of int64, shape (n_units, lags)
    tuple of str
        Labels of the units.
    tuple of str
        When the latest moment of each was.

    Raises
    ------
    ArgumentError, TableError
        As for `in_slices`, but units may have few rows.
    """
    _columns(table, order)
    laid = _moments(table, replace(order, gaps="missing" if order.step != _RANK else "break"), fewest=1)
    last = np.flatnonzero(np.append(laid.unit[1:] != laid.unit[:-1], True))
    back = last[:, None] - np.arange(order.lags)
    same = (back >= 0) & (laid.unit[np.maximum(back, 0)] == laid.unit[last][:, None])
    rows = np.where(same & (laid.age[last][:, None] >= np.arange(order.lags)), laid.source[np.maximum(back, 0)], -1)
    units = tuple(laid.units[k] for k in laid.unit[last].tolist())
    return rows, units, tuple(laid.times[k] for k in last.tolist())


class _Moments(NamedTuple):
    """The moments of all units in order, those that are filled in among them."""

    source: NDArray[np.int64]  # (n_moments,): row of the table; -1 of one that is filled in
    unit: NDArray[np.int64]  # (n_moments,)
    age: NDArray[np.int64]  # (n_moments,): how many moments of its stretch come before it
    units: Sequence[str]  # labels
    times: Sequence[str]  # (n_moments,): labels


def _columns(table: Table, order: TimeOrder) -> list[str]:
    """Names of the columns that are neither time nor unit."""
    for argument, name in (("time", order.time), ("unit", order.unit)):
        if name is not None and name not in table.names:
            raise ArgumentError(f"{argument} is {name!r}, which is not a column{near(name, table.names)}")
    names = [name for name in table.names if name not in (order.time, order.unit)]
    if not names:
        raise ArgumentError(f"beside {order.time!r}, the column of times, the table has no column to learn from")
    for name in names:
        if name_and_lag(name)[1]:
            raise ArgumentError(
                f"the table has the column {name!r}, and so the past of {name_and_lag(name)[0]!r} would be called; "
                "rename the column"
            )
    if not table.has_row_order or table.moments is not None:
        raise TableError(
            "time is given, and the rows of the table were counted where they are, so that nobody knows which is "
            "when; give fewer rows, or a table that is held in memory"
        )
    return names


def _moments(table: Table, order: TimeOrder, fewest: int | None = None) -> _Moments:
    """All moments in order; units have ``fewest`` rows at least, one more than there are lags when left out."""
    unit, units = _units(table, order.unit)
    position, label_of = _positions(table, order)
    rows = np.lexsort((position, unit))
    unit, position = unit[rows], position[rows]
    same = (unit[1:] == unit[:-1]) & (position[1:] == position[:-1])
    if same.any():
        at = int(np.flatnonzero(same)[0])
        of = "" if order.unit is None else f" of {order.unit} {units[unit[at]]!r}"
        twice = sorted(rows[at : at + 2].tolist())
        way = "" if order.unit is not None else "; if the rows are of several units, name their column: unit='patient'"
        raise ArgumentError(
            f"time {label_of(int(position[at]))!r}{of} is in the rows {twice[0]} and {twice[1]}; a moment of "
            f"a unit is one row{way}"
        )
    times = np.bincount(unit, minlength=len(units))
    few = np.flatnonzero((times > 0) & (times < (order.lags + 1 if fewest is None else fewest)))
    if len(few) and order.unit is not None:
        raise ArgumentError(
            f"unit{'s' * (len(few) > 1)} {shown(units[k] for k in few.tolist())} of {order.unit!r} "
            f"{'have' if len(few) > 1 else 'has'} too few rows: with lags={order.lags} a unit needs "
            f"{order.lags + 1} moments at least; leave {'them' if len(few) > 1 else 'it'} out, or take fewer lags"
        )
    if order.gaps == "missing":
        unit, position, rows = _filled(unit, position, rows)
    begins = np.concatenate([[True], (unit[1:] != unit[:-1]) | (position[1:] != position[:-1] + 1)])
    place = np.arange(len(unit))
    age = place - np.maximum.accumulate(np.where(begins, place, 0))
    return _Moments(rows, unit, age, units, [label_of(k) for k in position.tolist()])


def _filled(
    unit: NDArray[np.int64], position: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The same with moments that are not there, from the first of each unit to its last."""
    steps = np.where(unit[1:] == unit[:-1], position[1:] - position[:-1], 1)
    n = int(steps.sum()) + 1
    if n > (_MOST_FILLED + 1) * len(unit):
        raise ArgumentError(
            f"gaps is 'missing', and {n - len(unit)} moments are absent between the {len(unit)} rows of the table; "
            "say with step= how far apart moments are that follow each other, or leave gaps out"
        )
    place = np.concatenate([[0], np.cumsum(steps)])
    source = np.full(n, -1, dtype=np.int64)
    source[place] = rows
    before = np.repeat(np.arange(len(unit)), np.diff(np.append(place, n)))
    return unit[before], position[before] + np.arange(n) - place[before], source


def _units(table: Table, name: str | None) -> tuple[NDArray[np.int64], Sequence[str]]:
    """The unit of every row by number, and the labels of the units."""
    if name is None:
        return np.zeros(table.n_rows, dtype=np.int64), [""]
    j = table.names.index(name)
    _refuse_missing(table, j, "unit")
    if table.states[j]:
        return table.codes[table.row_index, j].astype(np.int64), table.states[j]
    assert table.numbers is not None  # the column holds some
    values, number = np.unique(table.numbers[table.row_index, j], return_inverse=True)
    return number.ravel().astype(np.int64), [_short(value) for value in values.tolist()]


def _positions(table: Table, order: TimeOrder) -> tuple[NDArray[np.int64], Any]:
    """The moment of every row in whole steps, and how a moment is called."""
    j = table.names.index(order.time)
    _refuse_missing(table, j, "time")
    is_date = False
    if table.states[j]:
        known, is_date = _times_of(table.states[j], order.time)
        times = known[table.codes[table.row_index, j]]
    else:
        assert table.numbers is not None  # the column holds some
        times = table.numbers[table.row_index, j]
    called = (lambda time: date.fromordinal(round(time)).isoformat()) if is_date else _short
    distinct = np.unique(times)
    if order.step == _RANK:
        return np.searchsorted(distinct, times), lambda k: called(float(distinct[k]))
    first, step = float(distinct[0]), float(order.step)
    steps = (times - first) / step
    wrong = np.flatnonzero(np.abs(steps - np.round(steps)) > _WHOLE)
    if len(wrong):
        raise ArgumentError(
            f"time is {called(first)} at first and {called(float(times[wrong[0]]))} in row {wrong[0]}, "
            f"{steps[wrong[0]]:g} steps of {step:g} later; times are whole steps apart: give step=, how far apart "
            "moments are that follow each other, or step='rank' if those that occur follow each other"
        )
    if steps.max(initial=0.0) > 2**52:
        raise ArgumentError(f"time spans {steps.max():g} steps of {step:g}; give a larger step=, or step='rank'")
    return np.round(steps).astype(np.int64), lambda k: called(first + k * step)


def _times_of(labels: Sequence[str], name: str) -> tuple[NDArray[np.float64], bool]:
    """Times of the states of a column, and whether they are dates, in days."""
    try:
        times = np.array([float(label) for label in labels])
        if np.isfinite(times).all():
            return times, False
    except ValueError:
        pass
    try:
        return np.array([float(date.fromisoformat(label).toordinal()) for label in labels]), True
    except ValueError:
        raise TableError(
            f"time is {name!r}, whose cells are such as {labels[0]!r}; times are numbers, or dates as in '2024-01-31'"
        ) from None


def _refuse_missing(table: Table, j: int, argument: str) -> None:
    absent = np.flatnonzero(table.codes[table.row_index, j] < 0)
    if len(absent):
        raise TableError(
            f"{argument} is {table.names[j]!r}, which is missing in row {absent[0]}"
            f"{'' if len(absent) == 1 else f' and {len(absent) - 1} more'}; fill it in, or leave such rows out"
        )


def _copied(
    table: Table, names: Sequence[str], rows: Sequence[NDArray[np.int64]], is_first: NDArray[np.bool_]
) -> tuple[Table, NDArray[np.bool_] | None]:
    """A table with the columns of the first rows, and copies of those of the others; -1 is a row of missing cells.

    Where cells are missing, rows that are the first of a stretch are distinct from others, and it is told which.
    """
    columns, lags = [table.names.index(name) for name in names], len(rows) - 1
    width = len(names)
    codes, done = [], np.zeros((len(rows[0]), width * (lags + 1) + 1), dtype=np.int8)
    numbers: dict[int, NDArray[np.float64]] = {}
    measured: dict[str, NDArray[np.float64]] = {}
    for lag, own in enumerate(rows):
        distinct, absent = table.row_index[own], own < 0
        for at, j in enumerate(columns):
            codes.append(np.where(absent, -1, table.codes[distinct, j]).astype(np.int16))
            if not table.states[j]:
                assert table.numbers is not None  # the column holds some
                numbers[lag * width + at] = np.where(absent, np.nan, table.numbers[distinct, j])
            if table.names[j] in table.measured:
                was = table.measured[table.names[j]]
                measured[past_name(table.names[j], lag)] = np.where(absent, np.nan, was[own])
        if table.interventions is not None and lag == 0:
            done[:, :width] = np.where(absent[:, None], 0, table.interventions[distinct][:, columns])
    cuts, transforms = (
        {past_name(name, lag): of_names[name] for lag in range(lags + 1) for name in names if name in of_names}
        for of_names in (table.cuts, table.transforms)
    )
    is_incomplete = any((own < 0).any() for own in codes)
    done[:, -1] = is_first
    made = collapsed(
        all_names(names, lags),
        tuple(table.states[j] for j in columns) * (lags + 1),
        codes,
        numbers=numbers,
        interventions=done if is_incomplete else None if table.interventions is None else done[:, :-1],
        measured=measured,
        cuts=cuts,
        transforms=transforms,
    )
    if not is_incomplete or made.interventions is None:
        return made, None
    own_done = np.ascontiguousarray(made.interventions[:, :-1])
    return replace(made, interventions=None if table.interventions is None else own_done), made.interventions[:, -1] > 0


def _told(laid: _Moments, n_rows: int, order: TimeOrder) -> str:
    """What was made of the table, in words."""
    begins = np.flatnonzero(laid.age == 0)
    n_units, n_filled = len(np.unique(laid.unit)), int((laid.source < 0).sum())
    lengths = np.diff(np.append(begins, len(laid.age)))
    n_short = int((lengths <= order.lags).sum())
    text = f"{counted(len(laid.age) - n_filled, 'moment')} of {counted(n_units, 'unit')}"
    gaps = len(begins) - n_units
    if n_filled:
        text += f"; {counted(n_filled, 'absent moment')} taken as missing cells"
    elif gaps:
        text += f"; {counted(gaps, 'gap')} in time, after each of which a new stretch begins"
    if n_short:
        text += f"; {counted(n_short, 'stretch', 'stretches')} too short to have all lags, and left out"
    return f"{text}; {counted(n_rows, 'moment')} with all lags"


def _short(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else f"{number:.12g}"
