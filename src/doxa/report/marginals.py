"""Marginals of an inference: columns over variables and their states, as far as there is room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.report.numbers import decimals, significant

if TYPE_CHECKING:
    from doxa.estimates.estimate import Estimate
    from doxa.inference.answers import Inference

__all__ = ["MOST_STATES", "how_found", "marginals"]

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

    Returns
    -------
    dict
        ``names``; ``labels``, lists of states; ``states``, of each variable the place of its list among these; and over
        the states of all variables, one after another: ``p``, and where there are errors ``low``, ``high``, ``mcse``,
        ``ess``.  Of variables of two states only the second is held (``half``) where there are many; ``left_out`` are
        the variables that had no room.
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


def how_found(answer: Inference) -> dict[str, Any]:
    """Method and why, log evidence, and the numbers that the verdict rests on: name, what it is, value."""
    errors = [estimate.mcse for table in answer.values() for estimate in table.values() if not np.isnan(estimate.mcse)]
    numbers = [
        [key, _WHAT_NUMBERS_ARE.get(key, ""), significant([value], 5)[0]] for key, value in answer.numbers.items()
    ]
    if answer.method not in ("exact", "mean_field") and errors:
        numbers.append(["mcse", "largest Monte Carlo error of a probability", significant([max(errors)], 2)[0]])
    return {
        "method": answer.method,
        "why": answer.why,
        "evidence": "" if answer.log_evidence is None else str(answer.log_evidence),
        "numbers": numbers,
        "given": [[name, label] for name, label in answer.given.items()],
    }
