r"""Which parameters of a logistic network are independent a posteriori, given what a table observes.

Complete families have posteriors of their own (de Freitas et al. 2001, section 2 (i)).  Factors that share a missing
cell in some row are in one *part*, whose parameters have a joint posterior; a missing cell without observed descendants
ties nothing.  Families that share a learned scale of their prior are in one part too, with the scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.models.logistic_factors import LogisticFactor
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.models.logistic_rows import (
    LogisticLikelihood,
    binary_codes,
    components_of_pattern,
    distinct_rows,
    family_regression,
    ordered_regression,
)

if TYPE_CHECKING:
    from doxa.data import Table
    from doxa.models.logistic import LogisticNetwork

__all__ = [
    "Part",
    "fixed_log_likelihood",
    "independent_parts",
    "part_likelihood",
    "part_regression",
    "root_counts",
]


class Part(NamedTuple):
    """Nodes whose parameters have a posterior of their own."""

    nodes: tuple[str, ...]  # with parameters, in node order
    factors: tuple[int, ...]  # positions in the network's factors, fixed ones that take part included
    complete: bool  # no missing cell in its factors but such as sum to one


def independent_parts(network: LogisticNetwork, table: Table) -> list[Part]:
    """Parts of the posterior, in node order of their first node; factors without parameters that stand alone have none.

    Examples
    --------
    >>> from doxa.data import Table
    >>> from doxa.models import LogisticNetwork
    >>> network = LogisticNetwork({"c": ["a", "b"]}, roots={"b": 0.5})
    >>> rows = [[1, -1, 1], [0, 1, 0]]
    >>> table = Table.from_codes(["a", "b", "c"], [["0", "1"]] * 3, rows)
    >>> [part.nodes for part in independent_parts(network, table)]
    [('c',), ('a',)]
    """
    parts = [Part(nodes, members, complete) for nodes, members, complete in _groups(network, table) if nodes]
    place = {name: k for k, name in enumerate(network.names)}
    return sorted(parts, key=lambda part: place[part.nodes[0]])


def fixed_log_likelihood(network: LogisticNetwork, table: Table) -> float:
    """Log probability (nats) of what the factors without parameters say that no part has: given roots, mostly."""
    members = [f for nodes, group, _ in _groups(network, table) if not nodes for f in group]
    if not members:
        return 0.0
    return float(part_likelihood(network, Part((), tuple(members), complete=True), table).log_likelihood({}))


def part_likelihood(network: LogisticNetwork, part: Part, table: Table) -> LogisticLikelihood:
    """The share of the likelihood that depends on the part's parameters, which are not checked: doxa's own."""
    nodes = [node for node in part.nodes if node not in network.scales]

    def check(thetas: Mapping[str, ArrayLike]) -> tuple[dict[str, NDArray[np.float64]], int | None]:
        arrays = {node: np.array(thetas[node], dtype=np.float64, ndmin=2) for node in nodes}
        return arrays, len(arrays[nodes[0]]) if nodes else None

    return LogisticLikelihood(network.names, [network.factors[f] for f in part.factors], check, table)


def part_regression(
    network: LogisticNetwork, part: Part, table: Table, cases: NDArray[np.intp] | None = None
) -> LogisticRegressionProblem:
    """The regression that a complete part with parents is: distinct rows with counts, or one row for each of ``cases``.

    ``cases`` are distinct rows of the table in the order of its cases, for what takes them one by one.
    """
    (f,) = part.factors
    factor = network.factors[f]
    assert isinstance(factor, LogisticFactor)
    codes = binary_codes(table, [network.names[v] for v in factor.scope])
    prior = network.prior(factor.node)
    if cases is None:
        return family_regression(factor, codes, table.counts, prior)
    return ordered_regression(factor, codes[cases], prior)


def root_counts(network: LogisticNetwork, node: str, table: Table) -> tuple[int, int]:
    """How many cases a root is observed to be 1 and 0 in: with the prior Beta(1, 1) it is Beta(1 + ones, 1 + zeros)."""
    codes = binary_codes(table, network.names)[:, network.names.index(node)]
    return int(table.counts[codes == 1].sum()), int(table.counts[codes == 0].sum())


def _with_parameters(network: LogisticNetwork, members: Sequence[int]) -> tuple[str, ...]:
    factors: list[Any] = [network.factors[f] for f in members]
    named = {factor.node for factor in factors if isinstance(factor, LogisticFactor) or factor.node is not None}
    named |= {scale for scale, nodes in network.scales.items() if not named.isdisjoint(nodes)}
    return tuple(node for node in network.parameters if node in named)


def _groups(network: LogisticNetwork, table: Table) -> list[tuple[tuple[str, ...], tuple[int, ...], bool]]:
    """Factors that share missing cells: whose parameters they have, which they are, and whether all is observed."""
    codes = binary_codes(table, network.names)
    factors = network.factors
    owner = list(range(len(factors)))
    for nodes in network.scales.values():
        sharing = [f for f, factor in enumerate(factors) if isinstance(factor, LogisticFactor) and factor.node in nodes]
        for f in sharing:
            owner[f] = sharing[0]
    tied: set[int] = set()
    patterns, _ = distinct_rows((codes < 0).astype(np.int8))
    for mask in patterns:
        for _, touched in components_of_pattern(factors, frozenset(np.flatnonzero(mask).tolist())):
            tied.update(touched)
            together = {owner[f] for f in touched}
            first = min(together)
            owner = [first if group in together else group for group in owner]
    found = []
    for group in sorted(set(owner)):
        members = tuple(f for f in range(len(factors)) if owner[f] == group)
        found.append((_with_parameters(network, members), members, tied.isdisjoint(members)))
    return found
