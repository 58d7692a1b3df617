"""A map of binary data: each row at the mean of its latent position, with an ellipse for what its cells leave open.

The positions are those of the latent trait model (Jaakkola & Jordan 2000, section 6; Tipping 1999 drew such maps).
Rows that answer alike lie close together.  Pictures are made in `doxa.plots.latent_map`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.parameters.variational.latent_rows import opened
from doxa.parameters.variational.latent_trait import LatentTrait, fit_latent_trait

__all__ = ["Ellipses", "LatentMap", "latent_map"]

_Floats = NDArray[np.float64]


class Ellipses(NamedTuple):
    """Outlines at one number of standard deviations about the positions; each of shape (n_rows,)."""

    major: _Floats  # semi-axes, in units of the map
    minor: _Floats
    angle: _Floats  # of the major axis against the first dimension, degrees in (-90, 90]


@dataclass(frozen=True, eq=False, repr=False)
class LatentMap:
    """Rows of binary data in a few dimensions.

    Attributes
    ----------
    positions : ndarray of float, shape (n_rows, k)
        Posterior mean of each row, in the order of the source. A priori a position is standard normal.
    covariances : ndarray of float, shape (n_rows, k, k)
        Of the positions given the loadings; too small where ``fit.spacing`` is None, as of every such bound.
    fit : LatentTrait
        The model: names and loadings of the columns, the likelihood or the bound on it.
    """

    positions: _Floats
    covariances: _Floats
    fit: LatentTrait

    @property
    def sd(self) -> _Floats:
        """Standard deviations of the positions, shape (n_rows, k)."""
        return np.asarray(np.sqrt(np.einsum("tii->ti", self.covariances)))

    def ellipses(self, n_sd: float = 1.0) -> Ellipses:
        """Outline of each row's position at ``n_sd`` standard deviations; 1 holds 39% of a Gaussian, 2.45 holds 95%.

        Raises
        ------
        ArgumentError
            If the map has not two dimensions, or ``n_sd`` is not above 0.
        """
        if self.positions.shape[1] != 2:
            raise ArgumentError(f"the map has n_components={self.positions.shape[1]}; ellipses need 2")
        if not 0 < n_sd < np.inf:
            raise ArgumentError(f"n_sd is {n_sd!r}; it must be above 0 and finite")
        variances, axes = np.linalg.eigh(self.covariances)  # increasing
        major = axes[:, :, 1]
        angle = np.degrees(np.arctan2(major[:, 1], major[:, 0]))
        angle = -((90 - angle) % 180 - 90)
        minor_length, major_length = n_sd * np.sqrt(np.maximum(variances, 0)).T
        return Ellipses(major_length, minor_length, angle)

    def __repr__(self) -> str:
        n_rows, k = self.positions.shape
        return f"<LatentMap(n_rows={n_rows}, n_components={k}, n_columns={len(self.fit.names)})>"


def latent_map(data: Any, n_components: int = 2, **options: Any) -> LatentMap:
    """Place the rows of binary data in a few dimensions, so that rows that answer alike lie close.

    Parameters
    ----------
    data : Table, frame, path, or array_like, shape (n_rows, p)
        Two states a column; missing cells are integrated out. Columns that are to be compared with the map, not
        explained by it, are left out first: ``table.select([...])``.
    n_components : int, default=2
        Dimensions, at most p.
    **options
        As `fit_latent_trait` takes them: ``counts``, ``likelihood``, ``prior_scale``, ``tolerance``,
        ``max_iterations``, ``memory``.

    Returns
    -------
    LatentMap
        The first dimension explains most. Signs are fixed by the loadings, whose largest entry in each dimension is
        positive.

    Raises
    ------
    ArgumentError, ArgumentTypeError, TableError
        As `fit_latent_trait` does.

    Examples
    --------
    >>> import doxa
    >>> table = doxa.datasets.load("house_votes")
    >>> votes = latent_map(table.select(table.names[1:]))
    >>> votes
    <LatentMap(n_rows=435, n_components=2, n_columns=16)>
    >>> party = table.codes[table.row_index, 0]
    >>> [float(votes.positions[party == k, 0].mean().round(2)) for k in (0, 1)]
    [-0.6, 0.96]
    """
    source = opened(data)
    fit = fit_latent_trait(source, n_components, **options)
    found = fit.posterior(source)
    return LatentMap(found.mean, found.covariance, fit)
