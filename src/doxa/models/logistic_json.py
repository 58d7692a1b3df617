"""A `LogisticNetwork` as plain lists and numbers, and back: what a run file keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from doxa.errors import ArgumentError, DoxaError
from doxa.models.logistic import LogisticNetwork
from doxa.models.logistic_prior import LearnedScale
from doxa.schema import Many, made
from doxa.text import shown

__all__ = ["network_from_json", "network_to_json"]


def network_to_json(network: LogisticNetwork) -> dict[str, Any]:
    """Everything that makes the network; a diagonal prior covariance as the vector of its variances."""
    families = [node for node in network.names if network.parents(node)]
    learned = network.learned_scale
    shared = [node for node in families if network.scale_of(node)]
    priors = {node: network.prior(node, 1.0 if node in shared else None) for node in families}
    diagonal = {node: np.diag(prior.covariance) for node, prior in priors.items()}
    full = [node for node in families if (priors[node].covariance != np.diag(diagonal[node])).any()]
    return {
        "parents": [[node, list(network.parents(node))] for node in network.names],
        "bias": {node: network.bias(node) for node in families},
        "coding": network.coding,
        "means": {node: prior.mean.tolist() for node, prior in priors.items()},
        "variances": {
            node: variances.tolist() for node, variances in diagonal.items() if node not in full and node not in shared
        },
        "covariances": {node: priors[node].covariance.tolist() for node in full},
        "roots": [
            [list(block.nodes), None if block.probabilities is None else block.probabilities.tolist()]
            for block in network.root_blocks
        ],
    } | (
        {}
        if learned is None
        else {
            "learned_scale": {
                "groups": [[scale, list(nodes)] for scale, nodes in network.scales.items()],
                "hyperprior": learned.hyperprior,
                "width": learned.width,
                "otherwise": {node: np.sqrt(diagonal[node]).tolist() for node in families if node in shared},
            }
        }
    )


Numbers = tuple[float, ...]
_MOST_NODES, _MOST_PARENTS, _MOST_TOGETHER = 20_000, 5000, 24  # of a network, of a node, of roots in one table


@dataclass(frozen=True)
class _Scale:
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    hyperprior: str
    width: float
    otherwise: Mapping[str, Numbers]


@dataclass(frozen=True)
class _Stored:
    """What `network_to_json` returns."""

    parents: Annotated[tuple[tuple[str, Annotated[tuple[str, ...], Many(0, _MOST_PARENTS)]], ...], Many(1, _MOST_NODES)]
    bias: Mapping[str, float | None]
    coding: Literal["pm1", "01"]
    means: Mapping[str, Numbers]
    variances: Mapping[str, Numbers]
    covariances: Mapping[str, tuple[Numbers, ...]]
    roots: tuple[tuple[Annotated[tuple[str, ...], Many(1, _MOST_TOGETHER)], Any], ...]
    learned_scale: _Scale | None = None


def network_from_json(stored: Any) -> LogisticNetwork:
    """Undo `network_to_json`, trusting nothing; `ArgumentError` if it is not what that returns."""
    given: _Stored = made(_Stored, stored, "its network")
    size = {node: len(parents) + 1 for node, parents in given.parents}
    for node, values in [*given.means.items(), *given.variances.items(), *given.covariances.items()]:
        if len(values) > size.get(node, 0):
            raise ArgumentError(
                f"its network has {len(values)} numbers of the prior of {shown(node)}, which has at most "
                f"{size.get(node, 0)} coefficients"
            )
    scale = given.learned_scale
    try:
        return LogisticNetwork(
            dict(given.parents),
            prior_mean={node: np.array(values) for node, values in given.means.items()},
            prior_scale=10.0
            if scale is None
            else LearnedScale(dict(scale.groups), scale.hyperprior, scale.width, scale.otherwise),
            prior_covariance={node: np.diag(values) for node, values in given.variances.items()}
            | {node: np.array(_matrix(values)) for node, values in given.covariances.items()},
            bias={node: "learned" if value is None else value for node, value in given.bias.items()},
            roots={
                nodes[0] if len(nodes) == 1 else nodes: "learned" if table is None else _table(nodes, table)
                for nodes, table in given.roots
            },
            coding=given.coding,
        )
    except DoxaError as error:
        raise ArgumentError(f"its network cannot be made again: {error}") from error


def _matrix(rows: tuple[Numbers, ...]) -> tuple[Numbers, ...]:
    if any(len(row) != len(rows) for row in rows):
        raise ArgumentError("a covariance is no square of numbers")
    return rows


def _table(nodes: tuple[str, ...], stored: Any) -> Any:
    """Probabilities of the states of some roots: two numbers, or as many halves of a table in each other as nodes."""
    table = stored
    for _ in nodes:
        if not isinstance(table, tuple) or len(table) != 2:
            raise ArgumentError(f"the table of the roots {shown(list(nodes))} has not two entries for each")
        table = table[0]
    if len(nodes) == 1:
        return made(float, stored[1], "its network.roots")
    try:
        found = np.array(stored, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"the table of the roots {shown(list(nodes))} has other entries than numbers") from None
    return found
