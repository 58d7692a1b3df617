r"""The prior of a logistic network's coefficients: Gaussian for each node, given scales that may be learned.

.. math:: \theta_{ij} \mid \sigma \sim N(m_{ij}, \sigma^2), \qquad \sigma \sim \text{half-normal or half-Cauchy},

for the coefficients of the parents of every node i of a group; learned biases keep a scale that is given.  De Freitas
et al. (2001) name hierarchical schemes in section 6; Gelman (2006), Bayesian Analysis 1, recommends these two priors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.logistic_options import GaussianPrior, read_priors

__all__ = ["HYPERPRIORS", "LearnedScale", "NetworkPrior", "read_groups"]


HYPERPRIORS = ("half_normal", "half_cauchy")


@dataclass(frozen=True)
class LearnedScale:
    """A scale of the coefficients' prior that is learned: one for all nodes, or one for each group of nodes.

    Parameters
    ----------
    groups : mapping of str to sequence of str, optional
        Under the name of each scale, the nodes whose coefficients share it.  One scale, ``"prior_scale"``, for all
        nodes with parents when left out.
    hyperprior : {"half_normal", "half_cauchy"}, default="half_normal"
        Prior of each scale.
    width : float, default=2.5
        Scale of that prior.  With the default and a half-normal one the scale's median is 1.7, and it is below 4.9 with
        probability 0.95: coefficients of a few units of the logit, as effects mostly are.
    otherwise : float or mapping, default=10.0
        What ``prior_scale`` is for learned biases, and for nodes that are in no group.

    Raises
    ------
    ArgumentError
        If the hyperprior is unknown or the width not positive and finite.

    Examples
    --------
    >>> import doxa
    >>> doxa.LogisticNetwork({"c": ["a", "b"]}, prior_scale=LearnedScale(width=1.0)).parameters
    ('c', 'a', 'b', 'prior_scale')
    """

    groups: Mapping[str, Sequence[str]] | None = None
    hyperprior: str = "half_normal"
    width: float = 2.5
    otherwise: Any = field(default=10.0, hash=False)

    def __post_init__(self) -> None:
        """Refuse what is no hyperprior."""
        if self.hyperprior not in HYPERPRIORS:
            raise ArgumentError(
                f"hyperprior is {self.hyperprior!r}; it must be one of {', '.join(map(repr, HYPERPRIORS))}"
            )
        if not 0 < self.width < np.inf:
            raise ArgumentError(f"width is {self.width!r}; it must be above 0 and finite")

    @property
    def words(self) -> str:
        """The hyperprior, for people: half-normal of width 2.5."""
        return f"{self.hyperprior.replace('_', '-')} of width {self.width:g}"

    def log_density(self, scales: Floats) -> Floats:
        """Log prior density (nats) of scales; minus infinity below 0."""
        x = np.asarray(scales, dtype=np.float64) / self.width
        with np.errstate(over="ignore"):
            if self.hyperprior == "half_normal":
                inside = 0.5 * np.log(2 / np.pi) - 0.5 * x**2
            else:
                inside = np.log(2 / np.pi) - np.log1p(x**2)
        return np.asarray(np.where(x >= 0, inside - np.log(self.width), -np.inf))

    def slope(self, scales: Floats) -> Floats:
        """Derivative of the log prior density by the logarithm of the scale."""
        x2 = (np.asarray(scales, dtype=np.float64) / self.width) ** 2
        return np.asarray(-x2 if self.hyperprior == "half_normal" else -2 * x2 / (1 + x2))


def read_groups(
    learned: LearnedScale | None, families: Mapping[str, tuple[str, ...]], names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Nodes by the name of the scale they share, checked: of those with coefficients of parents, each in one group."""
    if learned is None:
        return {}
    given = {"prior_scale": tuple(families)} if learned.groups is None else learned.groups
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(
            f"groups is {given!r}; give a mapping of names of scales to nodes: {{'low': ['a', 'b']}}"
        )
    owner: dict[str, str] = {}
    for scale, nodes in given.items():
        if isinstance(nodes, str) or not isinstance(nodes, Sequence):
            raise ArgumentTypeError(f"groups[{scale!r}] is {nodes!r}; give a list of nodes")
        if not isinstance(scale, str) or not scale or scale in names:
            raise ArgumentError(f"groups names a scale {scale!r}; the name of a scale is a text that no node has")
        if not nodes:
            raise ArgumentError(
                f"groups[{scale!r}] has no nodes with parents; a scale needs a coefficient to be learned from"
            )
        for node in nodes:
            if node not in families:
                raise ArgumentError(f"groups[{scale!r}] names {node!r}, which is no node with parents")
            if node in owner:
                raise ArgumentError(f"groups names {node!r} in {owner[node]!r} and in {scale!r}; name every node once")
            owner[node] = scale
    return {scale: tuple(node for node in families if owner.get(node) == scale) for scale in given}


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

    def log_density(self, thetas: Mapping[str, Floats]) -> Floats:
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
