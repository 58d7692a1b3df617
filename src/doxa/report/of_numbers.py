"""What the inspector shows of tables with numbers: distributions, slopes, missing cells, queries.

A number has the histogram of what was observed, the density that all networks make on the average, and that among cases
in which another column is seen in one of its fifths, or is set there.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.arrays import Floats
from doxa.errors import DoxaError
from doxa.plots.densities import observed_bars
from doxa.report.numbers import decimal, decimals, packed, rounded, significant
from doxa.report.of_graphs import MOST_CELLS, packed_pairs
from doxa.report.simulation import Cells, simulate_number_pairs
from doxa.structure.averaging.numbers import NumberAnswer

if TYPE_CHECKING:
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["inspection_of_numbers"]


_POINTS = 100  # of a curve
_BARS = 24  # of a number in answers
_LEVELS = 5  # of a number that is seen or set
_MOST_ANSWERS = 20_000  # of one kind: 60 kB
_MOST_CELLS_OF_PAIRS = 4000  # of all columns together, whose pairs are counted
_MOST_SLOPES = 12  # of a node


def inspection_of_numbers(posterior: StructurePosterior, draws: Any) -> dict[str, Any]:
    """As `doxa.report.of_graphs.inspection`, of a table with numbers.

    ``numbers`` has for each node its distribution, ``slopes`` for each number the edges that lead to it; ``states`` are
    those of categories, and of numbers the names of their fifths; ``bars`` are the numbers of bars in answers.
    """
    try:
        distributions = [_distribution(posterior, draws, j) for j in range(len(draws.names))]
    except DoxaError as error:  # such as a table with a transform
        return {"missing": f"Networks could not be asked: {error}."}
    bars, levels, names = _cells(draws, distributions)
    return {
        "states": names,
        "tables": [[] for _ in draws.names],
        "regressions": None,
        "numbers": distributions,
        "slopes": _slopes(posterior, draws),
        "cells": _missing_cells(posterior, draws),
        "bars": list(bars.sizes),
        "answers": _answers(draws, bars, levels),
    }


def _distribution(posterior: Any, draws: Any, j: int) -> dict[str, Any]:
    """Of a number the curve with its mean and ends, and the bars of what was observed; of a category shares."""
    found = posterior.query(draws.names[j])
    if not isinstance(found, NumberAnswer):
        return {
            "p": decimals([estimate.value for estimate in found.values()], 4),
            "mcse": significant([estimate.mcse for estimate in found.values()], 2),
        }
    table = draws.completed.table
    observed = np.repeat(table.numbers[:, j], table.counts)
    x, density = found.distribution.curve(_POINTS)
    heights, edges = observed_bars(observed)
    top = max(float(density.max()), float(heights.max()))
    low, high = found.interval()
    numbers = significant([x[0], x[-1], edges[0], edges[-1]], 15)
    return {
        "curve_range": numbers[:2],
        "bar_range": numbers[2:],
        "top": rounded(top, 6),
        "curve": packed(density, 0.0, top),
        "observed": packed(heights, 0.0, top),
        "n": int((~np.isnan(observed)).sum()),
        "mean": str(found.mean),
        "sd": str(found.sd),
        "at": significant([found.mean.value, low, high], 15),
    }


def _slopes(posterior: Any, draws: Any) -> list[list[dict[str, Any]]]:
    """Of every number the edges from other numbers with their slopes, most probable first."""
    found: list[list[dict[str, Any]]] = [[] for _ in draws.names]
    place = {name: k for k, name in enumerate(draws.names)}
    rows: list[list[Any]] = posterior.slopes().to_numpy().tolist()
    for source, target, probability, _, mean, _, lower, upper, mcse in rows:
        own = found[place[target]]
        if len(own) < _MOST_SLOPES and np.isfinite(mean):
            ends = significant([mean, lower, upper], 4)
            own.append(
                {
                    "source": place[source],
                    "p": decimal(probability, 4),
                    "mean": ends[0],
                    "low": ends[1],
                    "high": ends[2],
                    "mcse": rounded(mcse, 2),
                }
            )
    return found


def _missing_cells(posterior: Any, draws: Any) -> dict[str, Any]:
    """As `doxa.report.of_graphs.imputed_cells`; numbers have ``mean``, ``low`` and ``high`` in the place of ``p``."""
    table = draws.completed.table
    if not table.n_missing:
        return {"why": "", "columns": []}
    if table.n_missing > MOST_CELLS or not table.has_row_order:
        return {"why": f"{table.n_missing} cells are missing: ask posterior.impute.", "columns": []}
    frame = posterior.impute()
    columns = []
    for j, name in enumerate(draws.names):
        own = frame[frame["column"] == name]
        cells = own.drop_duplicates("row")["row"].tolist()
        shown: dict[str, Any] = {"n": len(cells), "rows": cells, "mcse": None}
        if cells:
            shown["mcse"] = rounded(own["mcse"].max(), 2)
        if draws.is_number[j]:
            shown |= {
                key: significant(own[of], 8) for key, of in (("mean", "mean"), ("low", "lower"), ("high", "upper"))
            }
        else:
            size = len(draws.states[j])
            shown["p"] = [decimals(row, 3) for row in own["probability"].to_numpy().reshape(-1, size)]
        columns.append(shown)
    return {"why": "", "columns": columns}


def _cells(draws: Any, distributions: list[dict[str, Any]]) -> tuple[Cells, Cells, list[list[str]]]:
    """Bars of numbers over the range that is drawn, levels between fifths of what was observed, and their names."""
    table = draws.completed.table
    bars: list[Floats | None] = []
    levels: list[Floats | None] = []
    names: list[list[str]] = []
    for j, own in enumerate(distributions):
        if not draws.is_number[j]:
            bars.append(None)
            levels.append(None)
            names.append(list(draws.states[j]))
            continue
        low = min(own["curve_range"][0], own["bar_range"][0])
        high = max(own["curve_range"][1], own["bar_range"][1])
        own["range"] = [low, high]
        bars.append(np.linspace(low, high, _BARS + 1)[1:-1])
        values = np.repeat(table.numbers[:, j], table.counts)
        ends = np.unique(np.quantile(values[~np.isnan(values)], np.arange(1, _LEVELS) / _LEVELS))
        levels.append(ends)
        texts = _told_apart(ends.tolist())
        middle = [f"{a} to {b}" for a, b in pairwise(texts)]
        names.append([f"below {texts[0]}", *middle, f"{texts[-1]} or more"])
    sizes = tuple(len(own) for own in names)
    of_bars = tuple(size if own is None else _BARS for size, own in zip(sizes, bars, strict=True))
    return Cells(of_bars, tuple(bars)), Cells(sizes, tuple(levels)), names


def _told_apart(ends: list[float]) -> list[str]:
    """Increasing numbers to as few digits, at least four, as tell them apart."""
    for digits in range(4, 17):
        texts = [f"{end:.{digits}g}" for end in ends]
        if len(set(texts)) == len(ends):
            break
    return texts


def _answers(draws: Any, bars: Cells, levels: Cells) -> dict[str, Any]:
    """As `doxa.report.of_graphs.pair_answers`: of a number the shares of its bars."""
    if sum(bars.sizes) > _MOST_CELLS_OF_PAIRS:
        return {"why": "The columns are too many for simulated answers: ask posterior.query."}
    seen, done = (simulate_number_pairs(draws, bars, levels, intervene=set_) for set_ in (False, True))
    marginal = np.add.reduceat(seen.joint, seen.x_starts[:-1], axis=1)[:, 0]
    return packed_pairs(len(draws.names), seen, done, marginal, _MOST_ANSWERS)
