r"""Causal effects over time: what setting a column at a moment changes so many moments later.

In one network, with rows of the table as pasts h,

.. math:: \frac1R \sum_h E[y_{s+l} \mid do(x_s = b), h, \theta, G] - E[y_{s+l} \mid do(x_s = a), h, \theta, G].

Where all columns are numbers and lines are straight, means follow the path without noise from the mean past.  Else
paths are drawn (`doxa.structure.averaging.paths`), under both values with the same noise, and the last step of each is
a probability or a mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate
from doxa.models.bits import unpack_rows
from doxa.structure.averaging.category_effects import told_states
from doxa.structure.averaging.draws import NetworkDraws
from doxa.structure.averaging.effects import (
    Effect,
    Level,
    assembled,
    read_pair,
    shown_level,
    told_effects,
    usual_levels,
)
from doxa.structure.averaging.forecast import refuse_without_time
from doxa.structure.averaging.number_draws import GaussianDraws
from doxa.structure.averaging.paths import PathDraws, fresh_noise
from doxa.structure.posterior.features import frequency_of

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["all_effects_in_time", "effect_in_time", "later_descendants"]

Outcomes = dict[tuple[int, int, int | None], Floats]  # after so many moments, of a column, of a state: every network

_SEED = 20_442
_ROWS, _FEWER_ROWS = 400, 50  # pasts in each network, of one effect and of all; again and again where fewer
_MOST_LAG = 1000


def later_descendants(adjacency: NDArray[np.bool_], lags: int, last: int) -> NDArray[np.bool_]:
    """Whether a directed path leads from a column at a moment to one so many moments later.

    Parameters
    ----------
    adjacency : ndarray of bool, shape (..., n_columns, n_columns)
        Edges among the columns of a moment and their past; ``[i, j]`` is i -> j.
    lags : int
    last : int

    Returns
    -------
    ndarray of bool, shape (last + 1, ..., width, width)
    """
    width = adjacency.shape[-1] // (lags + 1)
    within = np.asarray(adjacency[..., :width, :width], dtype=np.float64)
    closure = np.linalg.inv(np.eye(width) - within) > 0.5  # counts paths: a graph has no cycle
    steps = [adjacency[..., lag * width : (lag + 1) * width, :width] for lag in range(lags + 1)]
    found = [closure]
    for k in range(1, last + 1):
        into = np.zeros_like(closure)
        for lag in range(1, min(k, lags) + 1):
            into |= (found[k - lag].astype(np.int64) @ steps[lag].astype(np.int64)) > 0
        found.append((into.astype(np.int64) @ closure.astype(np.int64)) > 0)
    return np.stack(found)


def effect_in_time(
    posterior: StructurePosterior,
    draws: NetworkDraws,
    of: str,
    on: str | Mapping[str, str],
    values: Sequence[Level] | None,
    lag: int,
) -> Effect:
    """One effect; see `doxa.structure.averaging.posterior.Posterior.effect`."""
    refuse_without_time(posterior, "lag")
    if check_whole("lag", lag, 0) > _MOST_LAG:
        raise ArgumentError(f"lag is {lag}; it is a number of moments, {_MOST_LAG} at most")
    paths = PathDraws(draws)
    pair, levels = read_pair(draws, of, on, values, same=lag > 0)
    for argument, j in (("of", pair.of), ("on", pair.on)):
        if j >= paths.width:
            raise ArgumentError(
                f"{argument} names {draws.names[j]!r}, a copy of the past; name the column, and say with lag= how many "
                "moments lie between"
            )
    found = [_outcomes(paths, pair.of, level, lag, _ROWS) for level in pair.levels]
    before, after = (one[lag, pair.on, pair.state] for one in found)
    reach = later_descendants(unpack_rows(draws.rows, len(draws.names)), paths.lags, lag)[lag, :, pair.of, pair.on]
    no_path = _no_path(posterior, pair.of, pair.on, lag)
    return assembled(draws, pair, levels, before, after, after - before, reach, no_path)


def all_effects_in_time(posterior: StructurePosterior, draws: NetworkDraws, prob: float) -> pd.DataFrame:
    """Every effect within a moment and after up to as many moments as there are lags."""
    from doxa.frames import ReadFrame

    paths = PathDraws(draws)
    last = paths.lags
    reach = later_descendants(unpack_rows(draws.rows, len(draws.names)), paths.lags, last)
    rows, none = posterior._distinct
    of_graphs = later_descendants(unpack_rows(rows, len(posterior.names)), paths.lags, last)
    found: list[list[Any]] = []
    for of in range(paths.width):
        levels = usual_levels(draws, of)
        shown = tuple(shown_level(draws, of, level) for level in levels)
        before, after = (_outcomes(paths, of, level, last, _FEWER_ROWS) for level in levels)
        changes = {
            (k, on, state): np.where(reach[k, :, of, on], value - before[k, on, state], 0.0)
            for (k, on, state), value in after.items()
            if (on != of or k > 0) and (state is None or state in told_states(draws.n_states[on]))
        }
        is_probability = [state is not None for *_, state in changes]
        every_told = told_effects(draws, list(changes.values()), is_probability, prob)
        for (k, on, state), told in zip(changes, every_told, strict=True):
            label = None if state is None else draws.states[on][state]
            no_effect = frequency_of(posterior, ~of_graphs[k, :, of, on][none])
            found.append([draws.names[of], *shown, draws.names[on], k, label, *told, no_effect.value, no_effect.mcse])
    found.sort(key=lambda row: (row[-2], -abs(row[6])))
    head = ["of", "from", "to", "on", "lag", "state", "effect", "mcse", "sd", "lower", "upper", "no_effect",
            "no_effect_mcse"]  # fmt: skip
    return ReadFrame(found, columns=head)


def _no_path(posterior: StructurePosterior, of: int, on: int, lag: int) -> Estimate:
    rows, which = posterior._distinct
    order = posterior.options.order
    assert order is not None  # the caller saw to it
    paths = later_descendants(unpack_rows(rows, len(posterior.names)), order.lags, lag)[lag, :, of, on]
    return frequency_of(posterior, ~paths[which])


def _outcomes(paths: PathDraws, of: int, level: float, last: int, n_rows: int) -> Outcomes:
    """Means of numbers, and probabilities of states, of every column after setting one, in every network."""
    draws = paths.draws
    if isinstance(draws, GaussianDraws) and draws.is_number.all() and not any(draws.scaling.transforms):
        return _straight(draws, paths, of, level, last)
    sizes = [1 if number else draws.n_states[j] for j, number in enumerate(paths.is_number.tolist())]
    found: Outcomes = {
        (k, j, None if paths.is_number[j] else s): np.empty(len(draws))
        for k in range(last + 1)
        for j in range(paths.width)
        for s in range(sizes[j])
    }
    n_all = draws.completed.table.n_rows
    do: list[dict[int, float]] = [{of: level}, *({} for _ in range(last))]
    for t in range(len(draws)):
        rng = np.random.default_rng([_SEED, t])
        rows = rng.permutation(n_all)[:n_rows] if n_all > n_rows else np.tile(np.arange(n_all), -(-n_rows // n_all))
        history = paths.histories(t, rows, 1)
        noise = fresh_noise(rng, last + 1, len(rows), paths.width)
        cells = paths.run(t, history, last + 1, do, noise)
        for k in range(last + 1):
            for j, mean in paths.expected(t, history, cells, k, do[k]).items():
                for s in range(sizes[j]):
                    found[k, j, None if paths.is_number[j] else s][t] = mean[:, s].mean()
    return found


def _straight(draws: GaussianDraws, paths: PathDraws, of: int, level: float, last: int) -> Outcomes:
    """The same where all is linear: means follow the path without noise from the mean past."""
    found: Outcomes = {(k, j, None): np.empty(len(draws)) for k in range(last + 1) for j in range(paths.width)}
    rows = np.arange(draws.completed.table.n_rows)
    do: list[dict[int, float]] = [{of: level}, *({} for _ in range(last))]
    nothing = np.zeros((last + 1, 1, paths.width))
    mean = None
    for t in range(len(draws)):
        if mean is None or draws.completed.cells is not None:
            mean = paths.histories(t, rows, 1).mean(axis=0, keepdims=True)
        cells = paths.run(t, mean, last + 1, do, (nothing, nothing))
        for k in range(last + 1):
            for j in range(paths.width):
                found[k, j, None][t] = cells[k, 0, j]
    return found
