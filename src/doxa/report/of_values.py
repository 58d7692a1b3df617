"""What a page about the values of variables shows: marginals as far as there is room, and how they were found.

Numbers stand on it with their intervals as states; marginals of a grid, such as `doxa.ising_grid` makes, as a map.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np

from doxa.arrays import Floats
from doxa.estimates.estimate import Estimate
from doxa.inference.answers import Inference
from doxa.inference.by_numbers import GaussianInference
from doxa.inference.number_distribution import NetworkNumber
from doxa.report.numbers import closing_facts, decimals, packed, rounded, significant, verdict_box
from doxa.text import counted, printable

__all__ = ["MOST_CELLS", "MOST_STATES", "grid", "grid_places", "how_found", "marginals", "of_values"]

MOST_CELLS = 16_384  # of a map; a larger grid is averaged over squares
_MOST_MAPS = 8  # states, where there are more than two
_NAME = re.compile(r"X(0|[1-9]\d{0,6})_(0|[1-9]\d{0,6})")


def grid_places(answer: Inference) -> dict[str, tuple[int, int]] | None:
    """Row and column of every variable, asked for or observed, if they fill a grid of at least 2 x 2; else None.

    They do when all are called ``X{row}_{column}``, with nothing left out and nothing twice, and have the same states.
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

    ``rows`` and ``columns`` of the map, ``square``, how many variables wide each of its cells is, and of each state in
    ``states`` a map in ``p``, packed from 0 to 1.  ``errors`` is a map of the largest Monte Carlo error over these
    states, packed from 0 to ``largest``; empty where all is exact or errors are not known.  ``given`` are cells that
    were observed, as row * columns + column.
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
        "largest": rounded(errors.max(), 2) if known else None,
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


MOST_STATES = 4100  # of all variables together
_WHAT_NUMBERS_ARE = {
    "draws": "draws",
    "chains": "chains",
    "r_hat": "largest R-hat; below 1.01 is good",
    "ess": "effective draws of the slowest quantity",
    "pareto_k": "Pareto k of the weights; below 0.5 is good",
    "log_evidence_bound": "lower bound of the log evidence, nats",
    "rungs": "temperatures",
    "barrier": "communication barrier between the temperatures",
}


def marginals(answer: Inference) -> dict[str, Any]:
    """Variables with their states and probabilities; how they were found.

    ``names``; ``labels``, lists of states; ``states``, of each variable the place of its list among these; and over the
    states of all variables, one after another: ``p``, and where there are errors ``low``, ``high``, ``mcse``, ``ess``.
    Of variables of two states only the second is held (``half``) where there are many; ``left_out`` had no room.
    """
    half = all(len(table) == 2 for table in answer.tables.values()) and 2 * len(answer) > MOST_STATES
    names: list[str] = []
    shown: list[Estimate] = []
    for name, table in answer.items():
        estimates = list(table.values())[1 if half else 0 :]
        if len(shown) + len(estimates) > MOST_STATES:
            break
        names.append(name)
        shown += estimates
    labels = list(dict.fromkeys(tuple(answer.tables[name]) for name in names))
    place = {own: k for k, own in enumerate(labels)}
    exact = all(estimate.exact for estimate in shown)
    return {
        "names": names,
        "labels": [list(own) for own in labels],
        "states": [place[tuple(answer.tables[name])] for name in names],
        "half": half,
        "exact": exact,
        "left_out": len(answer) - len(names),
        "n": len(answer),
        "p": decimals([estimate.value for estimate in shown], 5),
        **(_errors(shown) if any(estimate.mcse > 0 for estimate in shown) else {}),
    }


def _errors(shown: Sequence[Estimate]) -> dict[str, Any]:
    ends = np.array([estimate.interval() for estimate in shown])
    return {
        "low": decimals(ends[:, 0], 4),
        "high": decimals(ends[:, 1], 4),
        "mcse": significant([estimate.mcse for estimate in shown], 2),
        "ess": decimals([estimate.ess for estimate in shown], 0),
    }


_BARS = 12  # of a number, open ones at the ends included
_TAIL = 0.005  # of the probability, beyond the closed bars
_MOST_FACTS = 20  # numbers whose mean and spread are told


def with_intervals(answer: GaussianInference) -> Inference:
    """The same answer with the probabilities of intervals in the place of each number's distribution."""
    tables = {
        name: _intervals(own) if isinstance(own, NetworkNumber) else own for name, own in answer.distributions.items()
    }
    given = {name: value if isinstance(value, str) else f"{value:.6g}" for name, value in answer.given.items()}
    return Inference(
        tables, answer.method, answer.why, answer.judgement, answer.log_evidence, answer.numbers, given, answer.seed
    )


def _intervals(number: NetworkNumber) -> dict[str, Estimate]:
    """Intervals of one width from tail to tail, and what lies beyond them."""
    low, high = (number.distribution.quantile(p) for p in (_TAIL, 1 - _TAIL))
    if not high > low:
        return {f"{low:.6g}": Estimate.exactly(1.0)}  # a number that cannot vary
    digits = max(0, 1 - int(np.floor(np.log10((high - low) / (_BARS - 2)))))
    edges = np.unique(np.round(np.linspace(low, high, _BARS - 1), digits))
    words = [f"{edge:.{digits}f}" if digits < 7 else f"{edge:.6g}" for edge in edges]
    found = {f"below {words[0]}": number.probability(below=float(edges[0]))}
    for k in range(len(edges) - 1):
        between = number.probability(between=(float(edges[k]), float(edges[k + 1])))
        found[f"{words[k]} to {words[k + 1]}"] = between
    found[f"above {words[-1]}"] = number.probability(above=float(edges[-1]))
    return found


def _told(answer: GaussianInference) -> list[tuple[str, str]]:
    """Mean, standard deviation and central 95% of the first numbers."""
    found: list[tuple[str, str]] = []
    for name, own in answer.distributions.items():
        if isinstance(own, NetworkNumber) and len(found) < _MOST_FACTS:
            low, high = own.interval()
            told = f"mean {own.mean}, standard deviation {own.sd}; 95% of cases from {low:.4g} to {high:.4g}"
            found.append((printable(name), told))
    return found


def how_found(answer: Inference) -> dict[str, Any]:
    """Method and why, log evidence, and the numbers that the verdict rests on: name, what it is, value."""
    errors = [estimate.mcse for table in answer.values() for estimate in table.values() if not np.isnan(estimate.mcse)]
    numbers = [[key, _WHAT_NUMBERS_ARE.get(key, ""), rounded(value, 5)] for key, value in answer.numbers.items()]
    if answer.method not in ("exact", "mean_field") and errors:
        numbers.append(["mcse", "largest Monte Carlo error of a probability", rounded(max(errors), 2)])
    return {
        "method": answer.method,
        "why": answer.why,
        "evidence": "" if answer.log_evidence is None else str(answer.log_evidence),
        "numbers": numbers,
        "given": [[name, label] for name, label in answer.given.items()],
    }


def of_values(answer: Inference, written: datetime) -> dict[str, Any]:
    """As plain data."""
    told: list[tuple[str, str]] = []
    if isinstance(answer, GaussianInference):
        told, answer = _told(answer), with_intervals(answer)
    asked = counted(len(answer), "variable")
    facts = [
        *told,
        ("Asked for", asked),
        ("Observed", counted(len(answer.given), "variable") if answer.given else "no variables"),
        ("Method", f"{answer.method}: {answer.why}"),
        *([] if answer.method == "exact" or answer.seed is None else [("Seed", str(answer.seed))]),
        *closing_facts(("doxa", "numpy", "scipy"), written),
    ]
    return {
        "kind": "values",
        "title": f"Distribution of {asked}, inferred by doxa",
        "verdict": verdict_box(answer.judgement),
        "facts": [list(fact) for fact in facts],
        "marginals": marginals(answer),
        "grid": grid(answer),
        "method": how_found(answer),
    }
