"""Marginals that stand on a grid, as a map: of networks such as `doxa.ising_grid` makes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.report.numbers import significant
from doxa.report.packing import packed

if TYPE_CHECKING:
    from doxa.inference.answers import Inference

__all__ = ["MOST_CELLS", "grid", "grid_places"]

MOST_CELLS = 16_384  # of a map; a larger grid is averaged over squares
_MOST_MAPS = 8  # states, where there are more than two
_NAME = re.compile(r"X(0|[1-9]\d{0,6})_(0|[1-9]\d{0,6})")

Floats = NDArray[np.float64]


def grid_places(answer: Inference) -> dict[str, tuple[int, int]] | None:
    """Row and column of every variable, asked for or observed, if they fill a grid of at least 2 x 2; else None.

    They do when all are called ``X{row}_{column}``, with nothing left out and nothing twice, and have the same states.

    Examples
    --------
    >>> import doxa
    >>> grid_places(doxa.infer(doxa.ising_grid(2, 2, coupling=0.5)))["X1_0"]
    (1, 0)
    """
    if len({tuple(table) for table in answer.values()}) != 1:
        return None
    found = {}
    for name in (*answer, *answer.given):
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        found[name] = (int(match[1]), int(match[2]))
    rows, columns = (1 + max(place[k] for place in found.values()) for k in (0, 1))
    filled = len(set(found.values())) == rows * columns == len(found)
    return found if filled and min(rows, columns) > 1 else None


def grid(answer: Inference) -> dict[str, Any] | None:
    """Maps of the probability of each state, of two states the second; None where there is no grid.

    Returns
    -------
    dict
        ``rows`` and ``columns`` of the map, ``square``, how many variables wide each of its cells is, and of each
        state in ``states`` a map in ``p``, packed from 0 to 1.  ``errors`` is a map of the largest Monte Carlo error
        over these states, packed from 0 to ``largest``; empty where all is exact or errors are not known.  ``given``
        are cells that were observed, as row * columns + column.
    """
    places = grid_places(answer)
    if places is None:
        return None
    labels = list(next(iter(answer.values())))
    shown = labels[1:] if len(labels) == 2 else labels[:_MOST_MAPS]
    rows, columns = (1 + max(place[k] for place in places.values()) for k in (0, 1))
    p, errors = np.empty((len(shown), rows, columns)), np.zeros((rows, columns))
    for name, place in places.items():
        if name in answer.given:
            p[(slice(None), *place)] = [label == answer.given[name] for label in shown]
            continue
        own = [answer.tables[name][label] for label in shown]
        p[(slice(None), *place)] = [estimate.value for estimate in own]
        errors[place] = max(estimate.mcse for estimate in own)
    square = int(np.ceil(np.sqrt(rows * columns / MOST_CELLS)))
    known = bool(np.isfinite(errors).all() and errors.max() > 0)
    given = [places[name] for name in answer.given] if square == 1 else []
    maps = [_averaged(one, square) for one in p]
    return {
        "rows": maps[0].shape[0],
        "columns": maps[0].shape[1],
        "square": square,
        "whole": [rows, columns],
        "states": shown,
        "p": [packed(one, 0.0, 1.0) for one in maps],
        "largest": significant([errors.max()], 2)[0] if known else None,
        "errors": packed(_averaged(errors, square, largest=True), 0.0, float(errors.max())) if known else "",
        "given": [row * columns + column for row, column in given],
    }


def _averaged(cells: Floats, square: int, *, largest: bool = False) -> Floats:
    """Means, or the largest, over squares; those at the lower and the right edge may be cut."""
    if square == 1:
        return cells
    rows, columns = (np.arange(0, size, square) for size in cells.shape)
    if largest:
        return np.asarray(np.maximum.reduceat(np.maximum.reduceat(cells, rows, axis=0), columns, axis=1))
    total = np.add.reduceat(np.add.reduceat(cells, rows, axis=0), columns, axis=1)
    sizes = [np.diff(np.append(start, size)) for start, size in zip((rows, columns), cells.shape, strict=True)]
    return np.asarray(total / np.outer(*sizes))
