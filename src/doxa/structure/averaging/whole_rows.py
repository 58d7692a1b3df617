r"""The states of one column in rows of which all else was seen, parameters integrated out.

Given a graph G and a complete table D, the parameters of all families are independent, so that a new row has

.. math:: p(x \mid G, D) = \prod_i p(x_i \mid x_{pa(i)}, D),

a product of one density or probability for each family: Student's t of a number, the posterior mean of a table, and
the mean over draws of the coefficients where a category depends on numbers.  A row's graphs count as much as they make
what was seen of it probable.  Nothing is drawn but such coefficients, once for each family.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from doxa.arrays import Floats
from doxa.structure.averaging.counts import Family
from doxa.structure.averaging.number_draws import GaussianDraws
from doxa.structure.families.tables import cell_index

__all__ = ["log_states_of_rows", "takes_whole_rows"]

_ENTRIES = 2**24  # of log densities at a time


def takes_whole_rows(draws: GaussianDraws) -> bool:
    """Whether the table that networks were learned from is complete."""
    return draws.completed.cells is None


def log_states_of_rows(draws: GaussianDraws, codes: NDArray[np.int64], numbers: Floats, target: int) -> Floats:
    """Log probabilities of the states of one column, shape (n_rows, n_states).

    Parameters
    ----------
    draws : GaussianDraws
        Of a complete table.
    codes : ndarray of int, shape (n_rows, n_columns)
        Positions of states; those of the target are not looked at.
    numbers : ndarray of float, shape (n_rows, n_columns)
        In the units of the columns; NaN where a column has categories.
    target : int
        A column of categories.
    """
    centre, scale = draws.scaling.centre, draws.scaling.scale
    on = np.flatnonzero(draws.is_number).tolist()
    z = np.zeros(numbers.shape)
    z[:, on] = (draws.on_scale(on, numbers[:, on]) - centre[on]) / scale[on]
    n_states = draws.n_states[target]
    step = max(1, _ENTRIES // (len(draws) * n_states))
    parts = [_of_some(draws, codes[k : k + step], z[k : k + step], target) for k in range(0, len(codes), step)]
    return np.concatenate(parts) if parts else np.zeros((0, n_states))


def _of_some(draws: GaussianDraws, codes: NDArray[np.int64], z: Floats, target: int) -> Floats:
    joint = np.zeros((len(draws), len(codes), draws.n_states[target]))
    for family, users in draws.users.items():
        joint[users] += _log_family(draws, family, codes, z, target)
    found = logsumexp(joint, axis=0)
    return np.asarray(found - logsumexp(found, axis=1, keepdims=True))


def _log_family(draws: GaussianDraws, family: Family, codes: NDArray[np.int64], z: Floats, target: int) -> Floats:
    """Log densities of a family's node, shape (n_rows, n_states of the target), or (n_rows, 1) without the target."""
    node, parents = family
    members = [node, *parents]
    own = np.where(draws.is_number[members], z[:, members], codes[:, members])
    made = draws.posterior_of_whole(family)
    if node == target:
        return _log_states(draws, family, made, own)
    if target not in parents:
        return _log_own(draws, family, made, own)[:, None]
    at, columns = members.index(target), []
    for state in range(draws.n_states[target]):
        own[:, at] = state
        columns.append(_log_own(draws, family, made, own))
    return np.stack(columns, axis=1)


def _log_own(draws: GaussianDraws, family: Family, made: object, own: Floats) -> Floats:
    if draws.is_number[family[0]]:
        return made.log_predictive(own)  # type: ignore[attr-defined,no-any-return]
    states = _log_states(draws, family, made, own)
    return states[np.arange(len(own)), own[:, 0].astype(np.int64)]


def _log_states(draws: GaussianDraws, family: Family, made: object, own: Floats) -> Floats:
    """Of a category, in every row; shape (n_rows, n_states)."""
    parents = family[1]
    if any(draws.is_number[j] for j in parents):
        return made.log_state_means(own)  # type: ignore[attr-defined,no-any-return]
    means: Floats = made.log_means()  # type: ignore[attr-defined]
    if not parents:
        return np.broadcast_to(means[0], (len(own), means.shape[1]))
    return means[cell_index(own[:, 1:].T.astype(np.int64), [draws.n_states[j] for j in parents])]
