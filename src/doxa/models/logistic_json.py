"""A `LogisticNetwork` as plain lists and numbers, and back: what a run file keeps of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from doxa.errors import ArgumentError
from doxa.models.logistic import LogisticNetwork
from doxa.models.logistic_prior import LearnedScale

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


def network_from_json(stored: Any) -> LogisticNetwork:
    """Undo `network_to_json`, trusting nothing."""
    try:
        covariances = {node: np.diag(values) for node, values in stored["variances"].items()} | stored["covariances"]
        return LogisticNetwork(
            dict(stored["parents"]),
            prior_mean={node: np.array(values, dtype=np.float64) for node, values in stored["means"].items()},
            prior_scale=_scale(stored["learned_scale"]) if "learned_scale" in stored else 10.0,
            prior_covariance=covariances,
            bias={node: "learned" if value is None else value for node, value in stored["bias"].items()},
            roots={
                _key(nodes): "learned" if table is None else _table(nodes, table) for nodes, table in stored["roots"]
            },
            coding=stored["coding"],
        )
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise ArgumentError(f"its network cannot be made again: {error}") from error


def _scale(stored: Any) -> LearnedScale:
    groups = {scale: tuple(nodes) for scale, nodes in stored["groups"]}
    return LearnedScale(groups, stored["hyperprior"], stored["width"], stored["otherwise"])


def _key(nodes: list[str]) -> str | tuple[str, ...]:
    return nodes[0] if len(nodes) == 1 else tuple(nodes)


def _table(nodes: list[str], table: Any) -> Any:
    return table[1] if len(nodes) == 1 else np.array(table, dtype=np.float64)
