r"""`NetworkProposal`: a table for every informed variable, from which it is drawn given variables drawn before it.

The weight of a draw is, over informed variables i and findings e (observed variables),

.. math:: w(x) = \prod_i \frac{p(x_i \mid x_{\pi(i)}) \, \ell_i(x_i)}{q_i(x_i \mid x_{s(i)})}
          \prod_e p(e \mid x_{\pi(e)}),

so its mean is the probability of the evidence, whatever the tables q, as long as they leave out nothing that is
possible.  *Likelihood weighting* draws from :math:`q_i \propto p(x_i \mid x_{\pi(i)}) \ell_i(x_i)`.  *Propagated*
proposals multiply in what belief propagation (Pearl 1988) says of the evidence below (EPIS of Yuan & Druzdzel 2006),
and keep more than that: a child's parents depend on each other once something is known of the child, so the last of
them to be drawn is drawn given the others, where the table stays small.  A message to a parent is the likelihood of
what lies below the child, by state of the parent, the other parents having their current beliefs: exact after a few
rounds on networks without loops, and close enough to make good proposals on others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.inference.flat import log_of
from doxa.inference.importance.layout import Layout, Table

__all__ = ["NetworkProposal", "likelihood_weighting", "propagated"]

ENOUGH = 1e-4  # change of a message, of sum 1, below which another round is not worth its time


class Messages(NamedTuple):
    """What is known of informed variables from below; likelihoods by state, scaled to sum 1."""

    below: Mapping[int, Floats]  # of everything below a variable, and of its own soft evidence and struck-out states
    single: Mapping[tuple[int, int], Floats]  # by (child, parent): of what lies below and at that child alone


def propagate(layout: Layout, rounds: int = 10) -> Messages:
    """Pass messages down and up the informed part of a network, at most so many rounds; fewer where they settle."""
    tables: dict[int, Table] = {v: layout.conditionals[v] for v in layout.informed}
    tables |= layout.findings
    order = [*layout.informed, *layout.findings]  # findings have no children here
    single = {(c, p): np.ones(layout.n_states[p]) for c in order for p in tables[c].variables if p != c}
    above = {v: np.ones(layout.n_states[v]) for v in layout.informed}
    children: dict[int, list[int]] = {v: [] for v in layout.informed}
    for c, p in single:
        children[p].append(c)
    for _ in range(rounds):
        for v in layout.informed:
            table = tables[v]
            above[v] = _scaled(_message(table, _incoming(table, v, above, single, children, layout), v))
        moved = 0.0
        for c in reversed(order):
            table = tables[c]
            for p in table.variables:
                if p != c:
                    incoming = _incoming(table, p, above, single, children, layout, child=c)
                    new = _scaled(_message(table, incoming, p))
                    moved = max(moved, float(np.abs(new - single[c, p]).max()))
                    single[c, p] = new
        if moved < ENOUGH:
            break
    below = {v: _below(v, single, children[v], layout) for v in layout.informed}
    return Messages(below, single)


def _incoming(
    table: Table,
    target: int,
    above: Mapping[int, Floats],
    single: Mapping[tuple[int, int], Floats],
    children: Mapping[int, list[int]],
    layout: Layout,
    child: int | None = None,
) -> dict[int, Floats]:
    """Messages into the table of ``child`` (of ``target`` itself when left out) from its variables but the target."""
    owner = target if child is None else child
    found = {}
    for v in table.variables:
        if v != target:
            below = _below(v, single, [c for c in children[v] if c != owner], layout)
            found[v] = below if v == owner else _scaled(above[v] * below)
    return found


def _below(v: int, single: Mapping[tuple[int, int], Floats], children: list[int], layout: Layout) -> Floats:
    product = layout.local[v]
    for c in children:
        product = _scaled(product * single[c, v])
    return _scaled(product)


def _message(table: Table, incoming: Mapping[int, Floats], target: int) -> Floats:
    """Sum of the table times the incoming messages over all variables but the target."""
    values = table.values
    axis = table.variables.index(target)
    for v in reversed(table.variables[axis + 1 :]):
        values = values @ incoming[v]
    for v in table.variables[:axis]:
        values = np.tensordot(incoming[v], values, axes=1)
    return np.asarray(values)


def _scaled(values: Floats) -> Floats:
    """To sum 1; all equal where nothing is left, as messages on loops may contradict each other."""
    total = float(values.sum())
    return values / total if total > 0 else np.full(values.shape, 1 / values.size)


MOST_CELLS = 4096  # of a table with more variables than the network's own: 32 kB, the fastest cache
PERTURBED = 0.5  # expected number of variables of a draw that are not drawn as the messages say
MOST_SHARE = 0.05
DEFENCE = 1 / 16


@dataclass(frozen=True, eq=False)
class NetworkProposal:
    """A distribution of the informed variables that is drawn from variable by variable.

    Attributes
    ----------
    layout : Layout
    tables : tuple of Table
        For each of ``layout.informed``: over variables drawn before it, its parents among them, and itself on the last
        axis, along which values sum to 1; to 0 where the network, too, leaves no state.
    name : str
        "likelihood weighting", "propagated" or "learned".
    defence : float
        Share of the draws that likelihood weighting makes in place of the tables.  Weights are over the mixture, so
        none is above those of likelihood weighting by more than 1 / defence.
    """

    layout: Layout
    tables: tuple[Table, ...]
    name: str
    defence: float = 0.0

    @cached_property
    def plain(self) -> tuple[Table, ...]:
        """The tables of likelihood weighting."""
        return tuple(plain_table(self.layout, v) for v in self.layout.informed)

    def log_ratios(self, i: int, *, plain: bool = False) -> Floats:
        """Log of target over proposal for informed variable number ``i``, in the shape of its table (nats)."""
        v, table = self.layout.informed[i], (self.plain if plain else self.tables)[i]
        target = self.layout.conditionals[v].over(table.variables) * self.layout.likelihood(v)
        values = np.where(table.values > 0, table.values, 1.0)
        ratios = log_of(np.broadcast_to(target, values.shape)) - np.log(values)
        ratios[table.values == 0] = -np.inf
        return np.asarray(ratios)

    def log_density(self, rows: ArrayLike) -> Floats:
        """Log probability (nats) of the informed variables of rows over all variables, shape (n, n_variables)."""
        codes = np.asarray(rows)
        own = _summed([table.logarithms() for table in self.tables], codes)
        if not self.defence:
            return own
        plain = _summed([table.logarithms() for table in self.plain], codes)
        return np.logaddexp(math.log1p(-self.defence) + own, math.log(self.defence) + plain)

    def log_weights(self, rows: ArrayLike) -> Floats:
        """Log weight (nats) of rows over all variables, shape (n, n_variables), that the proposal can draw."""
        codes, layout = np.asarray(rows), self.layout
        parts = [table.logarithms() for table in layout.findings.values()]
        for v in layout.informed:
            table = layout.conditionals[v]
            parts.append(Table(table.variables, table.values * layout.likelihood(v)).logarithms())
        return layout.log_constant + _summed(parts, codes) - self.log_density(codes)


def _summed(tables: Sequence[Table], codes: NDArray[np.integer]) -> Floats:
    total = np.zeros(len(codes))
    for table in tables:
        total += table.values[tuple(codes[:, v] for v in table.variables)]
    return total


def likelihood_weighting(layout: Layout) -> NetworkProposal:
    """Draw parents before children from the network's own tables; observed variables only weight.

    Parameters
    ----------
    layout : Layout
        Soft evidence and struck-out states are part of the tables drawn from.

    Examples
    --------
    >>> from doxa.inference.importance import lay_out
    >>> from doxa.models import Dag
    >>> from doxa.models.categorical import CategoricalNetwork
    >>> from doxa.models.evidence import read_evidence
    >>> tables = {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.0, 1.0]]}
    >>> states = dict.fromkeys(tables, ["no", "yes"])
    >>> network = CategoricalNetwork(Dag.from_edges([("rain", "wet")]), tables, states)
    >>> layout = lay_out(network, read_evidence(network, {"wet": "yes"}))
    >>> likelihood_weighting(layout).tables[0].values
    array([0.8, 0.2])
    >>> propagated(layout).tables[0].values.round(2)  # exact: 0.29, 0.71
    array([0.3, 0.7])
    """
    return NetworkProposal(layout, tuple(plain_table(layout, v) for v in layout.informed), "likelihood weighting")


def propagated(layout: Layout, *, rounds: int = 10, most_cells: int = MOST_CELLS) -> NetworkProposal:
    """Draw from tables that belief propagation has told of the evidence.

    Parameters
    ----------
    layout : Layout
    rounds : int, default=10
        Most rounds of messages; at least 1.
    most_cells : int, default=4096
        Largest size of a table with variables other than the parents; 0 to have none.

    Returns
    -------
    NetworkProposal
        No possible state has probability 0.

    Notes
    -----
    In each table a small share is that of `likelihood_weighting`, and as much again is uniform over its possible
    states, so that a draw has about half a variable that is drawn so; where the messages are exact no weight is
    above e^(1/2) times the mean.
    """
    check_whole("rounds", rounds, 1)
    check_whole("most_cells", most_cells, 0)
    messages = propagate(layout, rounds)
    rank = {v: i for i, v in enumerate(layout.informed)}
    tables = [mixed(layout, v, _informed_table(layout, messages, rank, v, most_cells)) for v in layout.informed]
    return NetworkProposal(layout, tuple(tables), "propagated", DEFENCE if tables else 0.0)


def plain_table(layout: Layout, v: int) -> Table:
    """P(v | parents) times soft evidence, without the states struck out; rows sum to 1, or to 0 where none is left."""
    table = layout.conditionals[v]
    return Table(table.variables, normalised(table.values * layout.local[v]))


def mixed(layout: Layout, v: int, table: Table) -> Table:
    """Mix in a share of the table of likelihood weighting, and one that is uniform over its possible states."""
    share = min(MOST_SHARE, PERTURBED / len(layout.informed)) / 2
    plain = np.broadcast_to(plain_table(layout, v).over(table.variables), table.values.shape)
    possible = plain > 0
    uniform = possible / np.maximum(possible.sum(axis=-1, keepdims=True), 1)
    best = normalised(np.where(possible, table.values, 0.0))
    best = np.where(best.sum(axis=-1, keepdims=True) > 0, best, plain)
    return Table(table.variables, normalised((1 - 2 * share) * best + share * (plain + uniform)))


def normalised(values: Floats) -> Floats:
    """Divide by the sums along the last axis; zeros stay."""
    sums = values.sum(axis=-1, keepdims=True)
    return np.asarray(values / np.where(sums > 0, sums, 1.0))


def _informed_table(layout: Layout, messages: Messages, rank: dict[int, int], v: int, most_cells: int) -> Table:
    """P(v | parents) times what is known from below: joint tables of v and other parents, else messages to v alone."""
    own = layout.conditionals[v]
    scope = list(own.variables[:-1])
    joint: list[Table] = []
    local = layout.local[v].copy()
    for child in _children(layout, v):
        others = _parents(layout, child)
        larger = [p for p in others if p != v and p not in scope]
        cells = math.prod(layout.n_states[p] for p in (*scope, *larger, v))
        last = all(rank[p] <= rank[v] for p in others)
        if last and (not larger or cells <= most_cells):
            joint.append(_seen_from_above(layout, messages, child))
            scope += larger
        else:
            local *= messages.single[child, v]
            local /= local.sum() or 1.0
    axes = (*sorted(scope, key=rank.__getitem__), v)
    values = own.over(axes) * local
    for table in joint:
        values = values * table.over(axes)
    shape = [layout.n_states[a] for a in axes]
    return Table(axes, np.array(np.broadcast_to(values, shape)))


def _children(layout: Layout, v: int) -> list[int]:
    """Those in the informed part; the ones that need the fewest other variables first."""
    found = [c for c in (*layout.informed, *layout.findings) if c != v and v in _parents(layout, c)]
    return sorted(found, key=lambda c: len(_parents(layout, c)))


def _parents(layout: Layout, child: int) -> Sequence[int]:
    if child in layout.findings:
        return layout.findings[child].variables
    return layout.conditionals[child].variables[:-1]


def _seen_from_above(layout: Layout, messages: Messages, child: int) -> Table:
    """Likelihood of what lies at and below a child, by state of its parents."""
    if child in layout.findings:
        table = layout.findings[child]
        return Table(table.variables, table.values / table.values.max())
    table = layout.conditionals[child]
    return Table(table.variables[:-1], table.values @ messages.below[child])
