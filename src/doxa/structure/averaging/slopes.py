"""Slopes of edges between numbers, averaged over graphs, and over configurations of categories by cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.structure.averaging.coefficients import Coefficients
from doxa.structure.averaging.number_draws import GaussianDraws
from doxa.structure.averaging.questions import column_of, state_of
from doxa.structure.posterior.structure_posterior import StructurePosterior

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["all_slopes", "slopes_of"]


def slopes_of(draws: GaussianDraws, node: str, where: Mapping[str, str] | None = None) -> Coefficients:
    """Intercept and slopes of a number on all other numbers, in units of the columns; 0 where one is no parent.

    Where parents are categories, the mean over their configurations by the cases in which ``where`` was observed;
    configurations that agree with it count the same where there is no such case.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the column is unknown or a category, or ``where`` names a number or an unknown column or state.
    """
    child = column_of("node", node, draws.names)
    if not draws.is_number[child]:
        raise ArgumentError(f"node is {node!r}, which is a category; slopes are those of columns of numbers")
    known = _read_where(draws, where)
    others = [j for j in range(len(draws.names)) if draws.is_number[j] and j != child]
    found, is_parent = np.zeros((len(draws), 1 + len(others))), np.zeros((len(draws), 1 + len(others)), dtype=np.bool_)
    is_parent[:, 0] = True
    for (own, parents), members in draws.users.items():
        if own != child:
            continue
        regression = draws.parameters_in_units((child, parents))
        share = _shares(draws, tuple(j for j in parents if not draws.is_number[j]), known)
        configurations = tuple(range(1, 1 + share.ndim))
        found[members, 0] = (share * regression.intercept).sum(axis=configurations)
        places = [1 + others.index(j) for j in parents if draws.is_number[j]]
        found[members[:, None], places] = (share[..., None] * regression.coefficients).sum(axis=configurations)
        is_parent[members[:, None], places] = True
    shape = (*draws.shape, 1 + len(others))
    ones = np.ones(draws.shape)
    labels = ("intercept", *(draws.names[j] for j in others))
    return Coefficients(
        node, "", labels, found.reshape(shape), is_parent.reshape(shape), ones, False, 0.0, draws.reference_ess
    )


def all_slopes(
    posterior: StructurePosterior, draws: Any, where: Mapping[str, str] | None = None, prob: float = 0.95
) -> pd.DataFrame:
    """Every edge between two numbers: see `Posterior.slopes`."""
    from doxa.frames import ReadFrame

    if not isinstance(draws, GaussianDraws) or not draws.is_number.any():
        raise ArgumentError(
            "no column holds numbers, and slopes are those of edges between numbers; coefficients(node) has those of "
            "logistic families"
        )
    edge = posterior.edge_diagnostics
    rows: list[list[Any]] = []
    for child in np.flatnonzero(draws.is_number).tolist():
        frame = slopes_of(draws, draws.names[child], where).given_parent(prob)
        own: list[list[Any]] = frame.iloc[1:].to_numpy().tolist()
        for source, _, *found in own:
            at = (draws.names.index(source), child)
            rows.append([source, draws.names[child], float(edge.probability[at]), float(edge.mcse[at]), *found])
    order = {name: j for j, name in enumerate(draws.names)}
    # those that are equal but for rounding stand in the order of the table
    rows.sort(key=lambda row: (-round(row[2], 9), order[row[0]], order[row[1]]))
    head = ["source", "target", "probability", "probability_mcse", "mean", "sd", "lower", "upper", "mcse"]
    return ReadFrame(rows, columns=head)


def _read_where(draws: GaussianDraws, where: Mapping[str, str] | None) -> dict[int, int]:
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise ArgumentTypeError(f"where is {where!r}; give a mapping of categories to states")
    found = {}
    for name, value in where.items():
        j = column_of("where", name, draws.names)
        if draws.is_number[j]:
            raise ArgumentError(
                f"where names {name!r}, which holds numbers; slopes differ between states of categories"
            )
        cuts = draws.completed.table.cuts.get(name)
        found[j] = int(state_of(f"where[{name!r}]", value, draws.states[j], cuts))
    return found


def _shares(draws: GaussianDraws, above: tuple[int, ...], known: Mapping[int, int]) -> Floats:
    """Weight of each configuration of some categories, with a sum of 1."""
    if not above:
        return np.ones(())
    table = draws.completed.table
    codes = table.codes
    fits = (codes[:, list(above)] >= 0).all(axis=1)
    for j, state in known.items():
        fits &= codes[:, j] == state
    share = np.zeros(tuple(draws.n_states[j] for j in above))
    np.add.at(share, tuple(codes[fits][:, list(above)].T), table.counts[fits].astype(np.float64))
    if not share.sum():
        share[tuple(known.get(j, slice(None)) for j in above)] = 1.0
    return np.asarray(share / share.sum())
