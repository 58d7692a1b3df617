r"""`LearnedScale`: standard deviations of a Gaussian prior that are parameters themselves (a hierarchical prior).

.. math:: \theta_{ij} \mid \sigma \sim N(m_{ij}, \sigma^2), \qquad \sigma \sim \text{half-normal or half-Cauchy},

for the coefficients of the parents of every node i of a group; learned biases keep a scale that is given.  De Freitas
et al. (2001) name hierarchical schemes in section 6; Gelman (2006), Bayesian Analysis 1, recommends these two priors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["HYPERPRIORS", "LearnedScale", "read_groups"]

_Floats = NDArray[np.float64]

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

    def log_density(self, scales: _Floats) -> _Floats:
        """Log prior density (nats) of scales; minus infinity below 0."""
        x = np.asarray(scales, dtype=np.float64) / self.width
        with np.errstate(over="ignore"):
            if self.hyperprior == "half_normal":
                inside = 0.5 * np.log(2 / np.pi) - 0.5 * x**2
            else:
                inside = np.log(2 / np.pi) - np.log1p(x**2)
        return np.asarray(np.where(x >= 0, inside - np.log(self.width), -np.inf))

    def slope(self, scales: _Floats) -> _Floats:
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
