"""What the inspector shows of every node: parent sets, their parameters, Markov blanket, missing cells, queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doxa.errors import DoxaError
from doxa.report.answers import pair_answers
from doxa.report.cells import imputed_cells
from doxa.report.families import family_tables
from doxa.report.numbers import decimals, significant
from doxa.report.regressions import regressions

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.averaging.draws import NetworkDraws
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["inspection"]

_MOST_SETS = 6  # parent sets of a node
_MOST_MEMBERS = 12  # of a Markov blanket
_LEAST_MEMBER = 0.01
_ROOM_FOR_SETS = 1500  # parent sets of all nodes together


def inspection(posterior: StructurePosterior) -> dict[str, Any]:
    """All that the inspector shows; ``missing`` says why there are no tables and no answers, if there are none."""
    sets = _parent_sets(posterior)
    found: dict[str, Any] = {"sets": sets, "blankets": _blankets(posterior), "missing": ""}
    draws, why = _networks(posterior)
    if draws is None:
        return found | {"missing": why}
    return found | {
        "states": [list(states) for states in draws.states],
        "tables": family_tables(draws, sets),
        "regressions": regressions(draws, sets),
        "cells": imputed_cells(draws),
        "answers": pair_answers(draws),
    }


def _networks(posterior: StructurePosterior) -> tuple[NetworkDraws | None, str]:
    """The networks that tables and answers come from, or why there are none."""
    from doxa.structure.averaging.posterior import Posterior

    if not isinstance(posterior, Posterior):
        return None, "This posterior is over graphs alone and knows no table."
    try:
        return posterior.network_draws(), ""
    except (DoxaError, OSError) as error:
        return None, f"The table of this posterior could not be used: {error}."


def _parent_sets(posterior: StructurePosterior) -> list[list[dict[str, Any]]]:
    """Of every node, its probable parent sets."""
    position = {name: k for k, name in enumerate(posterior.names)}
    most = max(2, min(_MOST_SETS, _ROOM_FOR_SETS // len(posterior.names)))
    found = []
    for name in posterior.names:
        frame = posterior.parent_sets(name, most)
        columns = zip(
            frame["parents"],
            decimals(frame["probability"], 4),
            significant(frame["mcse"], 2),
            decimals(frame["r_hat"], 3),
            strict=True,
        )
        found.append(
            [
                {"parents": [position[parent] for parent in own], "p": p, "mcse": e, "r_hat": r}
                for own, p, e, r in columns
            ]
        )
    return found


def _blankets(posterior: StructurePosterior) -> list[list[list[Any]]]:
    """Of every node, the probable members of its Markov blanket: [member, probability, error]."""
    frame: pd.DataFrame = posterior.markov_blankets()
    frame = frame[frame["probability"] >= _LEAST_MEMBER]
    position = {name: k for k, name in enumerate(posterior.names)}
    found: list[list[list[Any]]] = [[] for _ in posterior.names]
    columns = zip(
        frame["node"], frame["member"], decimals(frame["probability"], 3), significant(frame["mcse"], 2), strict=True
    )
    for node, member, p, error in columns:
        own = found[position[node]]
        if len(own) < _MOST_MEMBERS:
            own.append([position[member], p, error])
    return found
