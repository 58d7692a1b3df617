r"""Where a Gibbs sampler forgets its past (Mykland, Tierney & Yu 1995; de Freitas et al. 2001, section 4.4.2).

A sweep redraws the first of its blocks given all other variables, and never looks at what that block held.  So all
states in which the other variables have certain values lead to the same distribution of the next state: in discrete
spaces they are a proper atom, and the step after a visit to it begins a tour, independent of all before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError

__all__ = ["regenerations"]

_SHARE = 10  # one draw in so many chooses the atom, and begins no tour


def regenerations(states: ArrayLike, first: Sequence[int], at: ArrayLike | None = None) -> NDArray[np.bool_]:
    """Which draws begin a tour, for `doxa.estimates.regenerative.cut_tours`.

    Parameters
    ----------
    states : array_like of int, shape (n_draws, n_variables) or (n_chains, n_draws, n_variables)
        Every state of chains whose steps are whole sweeps in one order: `TableGibbs` with ``keep_states=True``,
        ``thin=1`` and its own scan, or ``in_turn`` of one list of blocks.
    first : sequence of int
        The variables of the block that a sweep redraws first.
    at : array_like of int, shape (n_variables - len(first),), optional
        Values of the others, in the order of the variables, whose visits are waited for.  When left out, those that
        the first tenth of the draws visits most; tours then begin after that tenth.

    Returns
    -------
    ndarray of bool, shape (n_draws,) or (n_chains, n_draws)

    Raises
    ------
    ArgumentError
        If the shapes do not fit, or ``first`` names no variable, all of them, or one that there is not.

    Examples
    --------
    >>> regenerations([[0, 1], [1, 1], [0, 0], [1, 1], [1, 0]], [0], at=[1])
    array([False,  True,  True, False,  True])
    """
    draws = np.asarray(states)
    if draws.ndim not in (2, 3):
        raise ArgumentError(f"states has shape {draws.shape}; it must be (draw, variable) or (chain, draw, variable)")
    n = draws.shape[-1]
    if not set(first) < set(range(n)) or not len(first):
        raise ArgumentError(f"first is {list(first)}; it must name some of the {n} variables by number, and not all")
    others = draws[..., sorted(set(range(n)) - set(first))]
    begin = 0
    if at is None:
        begin = draws.shape[-2] // _SHARE
        seen = others[..., :begin, :].reshape(-1, others.shape[-1])
        if not len(seen):
            raise ArgumentError(f"there are {draws.shape[-2]} draws; at least {_SHARE} are needed to choose an atom")
        values, counts = np.unique(seen, axis=0, return_counts=True)
        at = values[counts.argmax()]
    atom = np.asarray(at)
    if atom.shape != (others.shape[-1],):
        raise ArgumentError(f"at has shape {atom.shape}; it must be ({others.shape[-1]},), for the other variables")
    marks = np.zeros(draws.shape[:-1], dtype=np.bool_)
    marks[..., begin + 1 :] = (others[..., begin:-1, :] == atom).all(axis=-1)
    return marks
