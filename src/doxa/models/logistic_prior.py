"""The prior of a logistic network's coefficients: Gaussian for each node, given the scales that are learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.models.learned_scale import LearnedScale, read_groups
from doxa.models.logistic_options import GaussianPrior, read_priors

__all__ = ["NetworkPrior"]

_Floats = NDArray[np.float64]


class NetworkPrior:
    """Means, covariances and learned scales of all nodes with parents; the last four as `doxa.LogisticNetwork` takes
    them.

    ``families`` are the parents of each such node, ``coefficients`` the labels of its coefficients.
    """

    def __init__(
        self,
        families: Mapping[str, tuple[str, ...]],
        coefficients: Mapping[str, tuple[str, ...]],
        roots: Sequence[str],
        mean: object,
        scale: object,
        covariance: object,
    ) -> None:
        learned = LearnedScale() if isinstance(scale, str) and scale == "learned" else scale
        self.learned = learned if isinstance(learned, LearnedScale) else None
        self.scales = read_groups(self.learned, families, (*families, *roots))
        self.scale_of = {node: name for name, nodes in self.scales.items() for node in nodes}
        given = self.learned.otherwise if self.learned else scale
        self._given = read_priors(coefficients, roots, mean, given, covariance)
        for node in covariance if isinstance(covariance, Mapping) else ():
            if node in self.scale_of:
                raise ArgumentError(
                    f"prior_covariance names {node!r}, whose scale is learned ({self.scale_of[node]!r}); leave one out"
                )
        self.slopes = {  # positions of the coefficients that share a learned scale
            node: np.array([k for k, label in enumerate(coefficients[node]) if label in families[node]])
            for node in self.scale_of
        }
        self._standards = {node: prior.standardised() for node, prior in self._given.items()}

    def of(self, node: str, scale: float | None) -> GaussianPrior:
        """Mean and covariance of one node's coefficients, as fresh arrays; see `doxa.LogisticNetwork.prior`."""
        mean, covariance = (array.copy() for array in self._given[node])
        if node in self.scale_of:
            if scale is None:
                raise ArgumentError(
                    f"the prior of {node!r} has a scale that is learned ({self.scale_of[node]!r}), so that it is no "
                    "Gaussian, which is needed here; give prior_scale a number"
                )
            covariance[self.slopes[node], self.slopes[node]] = scale**2
        return GaussianPrior(mean, covariance)

    def log_density(self, thetas: Mapping[str, _Floats]) -> _Floats:
        """Log density (nats) of coefficients and learned scales, all (n or 1, n_coefficients); shape (n or 1,)."""
        total = np.zeros(1)
        for node, (whiten, log_constant) in self._standards.items():
            residual = thetas[node] - self._given[node].mean
            if node not in self.scale_of:
                total = total + log_constant - 0.5 * ((residual @ whiten) ** 2).sum(axis=1)
                continue
            variances = np.tile(np.diag(self._given[node].covariance), (len(thetas[self.scale_of[node]]), 1))
            variances[:, self.slopes[node]] = thetas[self.scale_of[node]] ** 2
            total = total - 0.5 * (residual**2 / variances + np.log(2 * np.pi * variances)).sum(axis=1)
        for scale in self.scales:
            assert self.learned is not None
            total = total + self.learned.log_density(thetas[scale][:, 0])
        return np.asarray(total)
