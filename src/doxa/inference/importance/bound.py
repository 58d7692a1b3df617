r"""The largest weight that a proposal can give: what draws that were not met could do at most.

The log weight is a sum of tables, so its maximum is found by eliminating one variable after another.  Where a table
would become too large the tables of a variable are split, and each part takes its maximum for itself (mini-buckets;
Dechter & Rish 2003): the result is then a bound from above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from doxa.inference.importance.layout import Table
from doxa.inference.importance.proposal import NetworkProposal

__all__ = ["largest_log_weight", "largest_sum"]

MOST_CELLS = 2**16  # of a table: a tenth of a millisecond


def largest_log_weight(proposal: NetworkProposal, most_cells: int = MOST_CELLS) -> float:
    """Bound from above of the log weights (nats) of all draws that the proposal can make; -inf where all are 0.

    Examples
    --------
    >>> from doxa.inference.importance import lay_out, likelihood_weighting
    >>> from doxa.models import Dag
    >>> from doxa.models.categorical import CategoricalNetwork
    >>> from doxa.models.evidence import Evidence
    >>> tables = {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.0, 1.0]]}
    >>> states = dict.fromkeys(tables, ["no", "yes"])
    >>> network = CategoricalNetwork(Dag.from_edges([("rain", "wet")]), tables, states)
    >>> round(largest_log_weight(likelihood_weighting(lay_out(network, Evidence({1: 0}, {})))), 3)  # log .9
    -0.105
    """
    layout = proposal.layout
    with np.errstate(divide="ignore"):
        findings = [Table(finding.variables, np.log(finding.values)) for finding in layout.findings.values()]
    bounds = []
    for plain, tables in ((False, proposal.tables), (True, proposal.plain)):
        share = proposal.defence if plain else 1 - proposal.defence
        if share > 0:
            ratios = [Table(t.variables, proposal.log_ratios(i, plain=plain)) for i, t in enumerate(tables)]
            bounds.append(largest_sum(findings + ratios, layout.n_states, most_cells) - math.log(share))
    return layout.log_constant + min(bounds)


def largest_sum(tables: Sequence[Table], n_states: Sequence[int], most_cells: int) -> float:
    """Bound from above of the sum of tables, over all states of their variables; the maximum where none is split.

    Notes
    -----
    The variable whose tables have the fewest cells together is eliminated next.
    """
    left = dict(enumerate(tables))
    holding: dict[int, set[int]] = {}
    for f, table in left.items():
        for v in table.variables:
            holding.setdefault(v, set()).add(f)
    costs = {v: _cells(v, holding, left, n_states) for v in holding}
    constant = sum(float(table.values) for table in left.values() if not table.variables)
    number = len(left)
    while costs:
        v = min(costs, key=costs.__getitem__)
        del costs[v]
        touched: set[int] = set()
        for part in _parts([left[f] for f in holding[v]], n_states, most_cells):
            scope = tuple(sorted({u for table in part for u in table.variables} - {v}))
            total = sum(table.over((*scope, v)) for table in part)
            shape = [n_states[u] for u in (*scope, v)]
            best = np.broadcast_to(np.asarray(total), shape).max(axis=-1)
            if scope:
                left[number] = Table(scope, best)
                for u in scope:
                    holding[u].add(number)
                number += 1
            else:
                constant += float(best)
        for f in holding.pop(v):
            for u in left.pop(f).variables:
                if u != v:
                    holding[u].discard(f)
                    touched.add(u)
        costs.update({u: _cells(u, holding, left, n_states) for u in touched})
    return constant


def _cells(v: int, holding: dict[int, set[int]], left: dict[int, Table], n_states: Sequence[int]) -> float:
    """Log of the number of cells of all tables of a variable together."""
    return sum(math.log(n_states[u]) for u in {u for f in holding[v] for u in left[f].variables})


def _parts(tables: list[Table], n_states: Sequence[int], most_cells: int) -> list[list[Table]]:
    """Tables in groups of not too many cells together, large ones first."""
    groups: list[tuple[set[int], list[Table]]] = []
    for table in sorted(tables, key=lambda table: -table.values.size):
        scope = set(table.variables)
        for variables, group in groups:
            if math.prod(n_states[u] for u in variables | scope) <= most_cells:
                variables |= scope
                group.append(table)
                break
        else:
            groups.append((scope, [table]))
    return [group for _, group in groups]
