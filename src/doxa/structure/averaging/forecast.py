"""What comes next: distributions over the moments to come, and paths through them, averaged over graphs and parameters.

A forecast is a mean over networks, each with some paths from what was seen last (`doxa.structure.averaging.paths`): its
error is that of networks and paths together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.data import Table
from doxa.data.read import read_without_empty
from doxa.data.slices import later_name, name_and_lag
from doxa.data.time_order import last_moments
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.structure.averaging.answers import mean_over_draws
from doxa.structure.averaging.draws import NetworkDraws
from doxa.structure.averaging.number_draws import GaussianDraws
from doxa.structure.averaging.numbers import level_of
from doxa.structure.averaging.paths import PathDraws, fresh_noise
from doxa.structure.averaging.predict import places_of_states
from doxa.structure.averaging.questions import column_of, column_of_numbers

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["forecast", "read_do", "refuse_without_time", "simulate"]

_SEED = 20_441
_PATHS = 10  # of each unit in each network
_KEPT = 4000  # numbers of which quantiles are taken, about
_MOST = 2**26  # numbers held at once
_MOST_AHEAD = 1000
_LATER = re.compile(r"(.+) \[t\+([1-9][0-9]*)\]", re.DOTALL)


class _Seen(NamedTuple):
    """What was seen of units last."""

    cells: Floats | None  # (n_units, lags, n_columns), on the scales of networks, the latest first; None: of the table
    rows: NDArray[np.int64]  # (n_units,): of the table
    units: tuple[str, ...] | None
    after: tuple[str, ...] | None  # when the latest was


def refuse_without_time(posterior: StructurePosterior, what: str) -> None:
    """Raise `ArgumentError` unless rows are moments in time."""
    if posterior.options.order is None:
        raise ArgumentError(
            f"{what} is about moments in time, and the posterior was learned from rows that are none; say which column "
            "is the time: doxa.learn(table, time='day')"
        )


def forecast(
    posterior: StructurePosterior, draws: NetworkDraws, ahead: int, given: Any, do: Mapping[str, Any] | None
) -> pd.DataFrame:
    """Distributions of every column; see `doxa.structure.averaging.posterior.Posterior.forecast`."""
    from doxa.frames import ReadFrame

    refuse_without_time(posterior, "forecast")
    paths = PathDraws(draws)
    ahead = _check_ahead(ahead)
    seen, done = _read_given(posterior, draws, given), read_do(draws, do, ahead)
    n_units, width = len(seen.rows) if seen.cells is None else len(seen.cells), paths.width
    sizes = np.where(paths.is_number, 1, [max(1, len(labels)) for labels in draws.states[:width]])
    first = np.concatenate([[0], np.cumsum(sizes)])
    if len(draws) * n_units * ahead * int(first[-1]) > _MOST:
        raise ArgumentError(
            f"the forecast has {n_units} units, {ahead} moments and {width} columns, in {len(draws)} networks; that is "
            "more than is held at once: ask for fewer units or moments, or of fewer networks"
        )
    shares = np.empty((len(draws), ahead, n_units, int(first[-1])))
    squares = np.zeros((ahead, n_units, width))
    n_kept = min(_PATHS, -(-_KEPT // len(draws)))
    kept = np.empty((len(draws), ahead, n_units, n_kept, int(paths.is_number.sum())))
    for t in range(len(draws)):
        found = _paths_of(paths, t, seen, ahead, done, _PATHS)
        for j in range(width):
            own = found[..., j]
            if paths.is_number[j]:
                shares[t, :, :, first[j]] = own.mean(axis=-1)
                squares[:, :, j] += (own**2).mean(axis=-1) / len(draws)
            else:
                shares[t, :, :, first[j] : first[j + 1]] = (own[..., None] == np.arange(sizes[j])).mean(axis=2)
        kept[t] = found[:, :, :n_kept, paths.is_number]
    means, errors = _means(shares.reshape(*draws.shape, -1), draws.reference_ess)
    means, errors = means.reshape(shares.shape[1:]), errors.reshape(shares.shape[1:])
    rows = []
    number = {int(j): k for k, j in enumerate(np.flatnonzero(paths.is_number))}
    for u in range(n_units):
        where = {} if seen.units is None else {"unit": seen.units[u]}
        where |= {} if seen.after is None else {"after": seen.after[u]}
        for k in range(ahead):
            for j in range(width):
                place = {**where, "ahead": k + 1, "column": draws.names[j]}
                if j in number:
                    pool = kept[:, k, u, :, number[j]].ravel()
                    mean = means[k, u, first[j]]
                    low, high = np.quantile(pool, [0.025, 0.975])
                    variance = squares[k, u, j] - mean**2
                    sd = float(np.sqrt(variance)) if variance > 1e-12 * mean**2 else 0.0  # of what was set: rounding
                    rows.append({**place, "mean": mean, "sd": sd, "lower": low, "upper": high,
                                 "mcse": errors[k, u, first[j]]})  # fmt: skip
                    continue
                for s, label in enumerate(draws.states[j]):
                    at = k, u, first[j] + s
                    rows.append({**place, "state": label, "probability": means[at], "mcse": errors[at]})
    columns = [*where, "ahead", "column", "state", "probability", "mean", "sd", "lower", "upper", "mcse"]
    present = {name for row in rows for name in row}
    return ReadFrame(rows, columns=[name for name in columns if name in present])


def simulate(
    posterior: StructurePosterior,
    draws: NetworkDraws,
    ahead: int,
    given: Any,
    do: Mapping[str, Any] | None,
    n: int,
    seed: int,
) -> pd.DataFrame:
    """Paths, each in a network of its own; see `doxa.structure.averaging.posterior.Posterior.simulate`."""
    import pandas as pd

    refuse_without_time(posterior, "simulate")
    paths = PathDraws(draws)
    ahead, n, seed = _check_ahead(ahead), check_whole("n", n, 1), check_whole("seed", seed, 0)
    seen, done = _read_given(posterior, draws, given), read_do(draws, do, ahead)
    networks = (2 * np.arange(n) + 1) * len(draws) // (2 * n)
    n_units = len(seen.rows) if seen.cells is None else len(seen.cells)
    found = np.empty((n_units, n, ahead, paths.width))
    for t in np.unique(networks).tolist():
        own = np.flatnonzero(networks == t)
        found[:, own] = np.moveaxis(_paths_of(paths, t, seen, ahead, done, len(own), seed), 0, 2)
    columns: dict[str, Any] = {"path": np.tile(np.repeat(np.arange(n), ahead), n_units)}
    columns |= {} if seen.units is None else {"unit": np.repeat(np.array(seen.units, dtype=object), n * ahead)}
    columns["ahead"] = np.tile(np.arange(1, ahead + 1), n_units * n)
    for j in range(paths.width):
        values, labels = found[..., j].ravel(), draws.states[j]
        columns[draws.names[j]] = values if not labels else [labels[int(code)] for code in values]
    order = ["path"] if seen.units is None else ["unit", "path"]
    return pd.DataFrame(columns).sort_values([*order, "ahead"], kind="stable", ignore_index=True)


def _paths_of(
    paths: PathDraws, t: int, seen: _Seen, ahead: int, do: list[dict[int, float]], n_paths: int, seed: int = 0
) -> Floats:
    """So many paths of every unit in a network, in the units of columns: (ahead, n_units, n_paths, n_columns)."""
    history = paths.histories(t, seen.rows, 0) if seen.cells is None else seen.cells
    n_units = len(history)
    noise = fresh_noise(np.random.default_rng([_SEED, seed, t]), ahead, n_units * n_paths, paths.width)
    found = paths.run(t, np.repeat(history, n_paths, axis=0), ahead, do, noise)
    if isinstance(paths.draws, GaussianDraws):
        for j, own in enumerate(paths.draws.scaling.transforms[: paths.width]):
            if own is not None:
                found[..., j] = own.inverse(found[..., j])
    return found.reshape(ahead, n_units, n_paths, paths.width)


def _means(series: Floats, worth: float) -> tuple[Floats, Floats]:
    """Means over networks (chain, draw, quantity) of numbers of any size, and their Monte Carlo errors."""
    low, high = series.min(axis=(0, 1)), series.max(axis=(0, 1))
    spread = np.where(high > low, high - low, 1.0)
    found = mean_over_draws((series - low) / spread, worth)
    errors = np.where(high > low, found.errors[:-1] * spread, 0.0)
    return np.asarray(low + spread * found.value[:-1]), errors


def _check_ahead(ahead: int) -> int:
    if check_whole("ahead", ahead, 1) > _MOST_AHEAD:
        raise ArgumentError(f"ahead is {ahead}; it is a number of moments, {_MOST_AHEAD} at most")
    return int(ahead)


def read_do(draws: NetworkDraws, do: Mapping[str, Any] | None, ahead: int) -> list[dict[int, float]]:
    """What is set at each of the moments to come, by position and on the scales of networks.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a name is none of a column at such a moment, or a value none of the column.
    """
    found: list[dict[int, float]] = [{} for _ in range(ahead)]
    if do is None:
        return found
    if not isinstance(do, Mapping):
        raise ArgumentTypeError(f"do is {do!r}; give a mapping of columns at moments to values: {{'x [t+1]': 'yes'}}")
    slices = draws.completed.table.slices
    assert slices is not None  # the caller saw to it
    for name, value in do.items():
        parts = _LATER.fullmatch(name) if isinstance(name, str) else None
        if parts is None:
            raise ArgumentError(
                f"do names {name!r}; say at which of the moments to come it is set, as in "
                f"{later_name(draws.names[0], 1)!r} for the first"
            )
        j, k = column_of("do", parts[1], draws.names[: slices.width]), int(parts[2])
        if k > ahead:
            raise ArgumentError(f"do names {name!r}, and the last of the moments asked for is [t+{ahead}]; take more")
        found[k - 1][j] = level_of(draws, f"do[{name!r}]", j, value)
    return found


def _read_given(posterior: StructurePosterior, draws: NetworkDraws, given: Any) -> _Seen:
    """What was seen last: in the table, in a mapping, or in rows."""
    table, order = draws.completed.table, posterior.options.order
    slices = table.slices
    assert slices is not None  # the caller saw to it
    assert order is not None
    nothing = np.empty(0, dtype=np.int64)
    if given is None:
        units = np.array(slices.units, dtype=object)
        last = np.flatnonzero(np.append(units[1:] != units[:-1], True))
        named = None if order.unit is None else tuple(units[last].tolist())
        return _Seen(None, last, named, tuple(slices.times[0][row] for row in last.tolist()))
    if isinstance(given, Mapping):
        cells = np.full((1, slices.lags, slices.width), np.nan)
        for name, value in given.items():
            own, lag = name_and_lag(name) if isinstance(name, str) else (name, 0)
            j = column_of("given", own, draws.names[: slices.width])
            if lag >= slices.lags:
                raise ArgumentError(
                    f"given names {name!r}, and what comes depends on the last {slices.lags} moments alone, the latest "
                    f"of which is {own!r}; leave it out"
                )
            cells[0, lag, j] = level_of(draws, f"given[{name!r}]", j, value)
        return _Seen(cells, nothing, None, None)
    rows = given if isinstance(given, Table) else read_without_empty(given, (), known=posterior.options.keys)
    last_rows, named_units, times = last_moments(rows, order)
    cells = np.full((len(last_rows), slices.lags, slices.width), np.nan)
    for j, name in enumerate(draws.names[: slices.width]):
        if name not in rows.names:
            continue
        column = rows.names.index(name)
        if draws.states[j]:
            places = np.array([*places_of_states(rows, column, table, j, "error"), -1])
            values = places[rows.codes[rows.row_index, column]].astype(np.float64)
            values[values < 0] = np.nan
        else:
            assert isinstance(draws, GaussianDraws)
            values = draws.on_scale([j], column_of_numbers(rows, column)[:, None])[:, 0]
        cells[:, :, j] = np.where(last_rows >= 0, values[last_rows], np.nan)
    return _Seen(cells, nothing, None if order.unit is None else named_units, times)
