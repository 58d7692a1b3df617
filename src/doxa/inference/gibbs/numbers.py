r"""Gibbs sampling in networks of numbers and categories.

A number's distribution given all others is normal where its children that are categories have no say: with the line
:math:`x_c = r_c + b_c x + \epsilon_c` of each child that is a number,

.. math:: \frac1{s^2} = \frac1{\sigma^2} + \sum_c \frac{b_c^2}{\sigma_c^2}, \qquad
   m = s^2 \Big(\frac\mu{\sigma^2} + \sum_c \frac{b_c (x_c - r_c)}{\sigma_c^2}\Big).

Where categories stand below it by log odds, a value from that distribution and then one nearby are offered, and
accepted by Metropolis and Hastings' ratio.  A category is drawn from its probabilities given all others.  What is kept
are means, standard deviations and probabilities given all others, whose averages vary less than those of the values.

Functions are compiled and trust their arguments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints
from doxa.errors import ArgumentError
from doxa.inference.flat import joined, log_of, starts_of
from doxa.models.gaussian import GaussianNetwork
from doxa.models.separation import requisite_families

__all__ = ["NumberGibbs", "has_zeros"]

_NUMBER, _TABLE, _ODDS = 0, 1, 2
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_NEARBY = 1.5  # standard deviations of the values that are offered nearby
_TRIES = 2000  # starts that are drawn before the evidence is called impossible
_FOR_SCALE = 1000  # rows that a number's spread is guessed from


class NumberPlan(NamedTuple):
    """A network as compiled loops take it; nodes without a bearing on the question have no place in ``free``."""

    kind: Any  # (n_nodes,)
    size: Any  # (n_nodes,): states of a category
    n_categories: Any  # (n_nodes,): parents that are categories
    categories: Any  # (n_nodes, most)
    strides: Any  # (n_nodes, most): of the configuration
    n_numbers: Any  # (n_nodes,)
    numbers: Any  # (n_nodes, most)
    begin: Any  # (n_nodes,): where a node's parameters stand
    width: Any  # (n_nodes,): how many a configuration has
    parameters: Any  # of a number intercept, slopes and sd; of a table log probabilities; of log odds, row by row
    first: Any  # (n_nodes + 1,): where a node's children stand
    children: Any
    free: Any  # nodes that are redrawn, parents first


@hot
def _place(node: int, x: Floats, plan: NumberPlan) -> int:
    """Where the parameters of the node's configuration stand."""
    config = 0
    for k in range(plan.n_categories[node]):
        config += int(x[plan.categories[node, k]]) * plan.strides[node, k]
    return plan.begin[node] + config * plan.width[node]  # type: ignore[no-any-return]


@hot
def _line(node: int, x: Floats, plan: NumberPlan) -> float:
    """A number's mean given its parents."""
    at = _place(node, x, plan)
    value = plan.parameters[at]
    for k in range(plan.n_numbers[node]):
        value += plan.parameters[at + 1 + k] * x[plan.numbers[node, k]]
    return value  # type: ignore[no-any-return]


@hot
def log_own(node: int, x: Floats, plan: NumberPlan) -> float:
    """Log density (nats) of the node given its parents."""
    at, p = _place(node, x, plan), plan.n_numbers[node]
    if plan.kind[node] == _NUMBER:
        sd = plan.parameters[at + p + 1]
        away = (x[node] - _line(node, x, plan)) / sd
        return float(-0.5 * away * away - math.log(sd)) - _HALF_LOG_2PI
    state = int(x[node])
    if plan.kind[node] == _TABLE:
        return plan.parameters[at + state]  # type: ignore[no-any-return]
    top, own, total = 0.0, 0.0, 0.0
    for lap in range(2):
        for k in range(plan.size[node]):
            odds = 0.0
            if k > 0:
                row = at + (k - 1) * (p + 1)
                odds = plan.parameters[row]
                for j in range(p):
                    odds += plan.parameters[row + 1 + j] * x[plan.numbers[node, j]]
            if lap == 0:
                top = max(top, odds)
            else:
                total += math.exp(odds - top)
                own = odds if k == state else own
    return float(own - top - math.log(total))


@hot
def _redraw_number(node: int, x: Floats, plan: NumberPlan, rng: np.random.Generator) -> tuple[float, float]:
    """Mean and standard deviation that it was drawn from; where it was offered, the value and NaN."""
    sd = plan.parameters[_place(node, x, plan) + plan.n_numbers[node] + 1]
    precision, weighted, below = 1.0 / (sd * sd), _line(node, x, plan) / (sd * sd), 0
    for at_child in range(plan.first[node], plan.first[node + 1]):
        child = plan.children[at_child]
        if plan.kind[child] != _NUMBER:
            below += 1
            continue
        at, slope = _place(child, x, plan), 0.0
        for k in range(plan.n_numbers[child]):
            if plan.numbers[child, k] == node:
                slope = plan.parameters[at + 1 + k]
        scatter = plan.parameters[at + plan.n_numbers[child] + 1]
        left = x[child] - _line(child, x, plan) + slope * x[node]
        precision += slope * slope / (scatter * scatter)
        weighted += slope * left / (scatter * scatter)
    mean, spread = weighted / precision, 1.0 / math.sqrt(precision)
    if below == 0:
        x[node] = mean + spread * rng.standard_normal()
        return mean, spread
    for nearby in range(2):
        old, before = x[node], _of_children(node, x, plan)
        new = old + _NEARBY * spread * rng.standard_normal() if nearby else mean + spread * rng.standard_normal()
        x[node] = new
        ratio = _of_children(node, x, plan) - before
        if nearby:  # the other's offers have the density of the rest
            ratio += 0.5 * (((old - mean) / spread) ** 2 - ((new - mean) / spread) ** 2)
        if math.log(1.0 - rng.random()) > ratio:
            x[node] = old
    return x[node], math.nan


@hot
def _of_children(node: int, x: Floats, plan: NumberPlan) -> float:
    """Log probability of the children that are categories."""
    total = 0.0
    for at_child in range(plan.first[node], plan.first[node + 1]):
        if plan.kind[plan.children[at_child]] != _NUMBER:
            total += log_own(plan.children[at_child], x, plan)
    return total


@hot
def _redraw_category(node: int, x: Floats, plan: NumberPlan, rng: np.random.Generator, share: Floats) -> None:
    """Draw a state from its probabilities given all others, which are left in ``share``."""
    size, top = plan.size[node], -math.inf
    for state in range(size):
        x[node] = state
        share[state] = log_own(node, x, plan)
        for at_child in range(plan.first[node], plan.first[node + 1]):
            share[state] += log_own(plan.children[at_child], x, plan)
        top = max(top, share[state])
    total = 0.0
    for state in range(size):
        share[state] = math.exp(share[state] - top)
        total += share[state]
    left, drawn = rng.random() * total, size - 1
    for state in range(size - 1, -1, -1):
        left -= share[state]
        share[state] /= total
        if left >= 0.0:
            drawn = state - 1
    x[node] = max(drawn, 0)


@hot
def advance(
    x: Floats, thin: int, plan: NumberPlan, wanted: Ints, rng: np.random.Generator, draws: tuple[Floats, ...]
) -> None:
    """Sweeps over the free nodes; after every ``thin`` of them what is kept of the wanted nodes.

    ``draws`` are the log densities (n_kept,), what is kept (n_kept, n_columns), and a place for the largest category.
    """
    log_density, kept, share = draws
    for draw in range(len(log_density)):
        for sweep in range(thin):
            for at_node in range(plan.free.size):
                node = plan.free[at_node]
                place = wanted[node] if sweep == thin - 1 else -1
                if plan.kind[node] == _NUMBER:
                    mean, spread = _redraw_number(node, x, plan, rng)
                    if place >= 0:
                        kept[draw, place], kept[draw, place + 1] = mean, spread
                    continue
                _redraw_category(node, x, plan, rng, share)
                if place >= 0:
                    for state in range(plan.size[node]):
                        kept[draw, place + state] = share[state]
        total = 0.0
        for node in range(plan.kind.size):
            if plan.kind[node] >= 0:
                total += log_own(node, x, plan)
        log_density[draw] = total


def has_zeros(network: GaussianNetwork, nodes: Sequence[int]) -> bool:
    """Whether some state of these nodes is impossible in some configuration: chains may then not reach all others."""
    names = [network.names[v] for v in nodes if network.names[v] in network.tables]
    return any((network.tables[name] == 0.0).any() for name in names)


@dataclass(frozen=True)
class NumberGibbs:
    """One chain of the nodes that bear on a question, given what was seen.

    Parameters
    ----------
    network : GaussianNetwork
    wanted : sequence of int
        Nodes asked for, none of them seen.
    seen, fixed : mapping of int to float
        Numbers, and positions of states, that were observed, and of nodes that were set.
    thin : int, default=5
        Sweeps between kept draws.

    Raises
    ------
    ArgumentError
        If a number that bears on the question has no scatter.

    Notes
    -----
    Draws are ``log_density`` (n_kept,), of all nodes that bear on the question; ``kept`` (n_kept, n_columns): of a
    wanted number two columns, of a category one for each state (`places`); and ``probability``, of a number its mean in
    standard deviations of the network without evidence, of a category its probabilities.
    """

    network: GaussianNetwork
    wanted: Sequence[int]
    seen: Mapping[int, float]
    fixed: Mapping[int, float]
    thin: int = 5

    def __post_init__(self) -> None:
        for v in self.nodes:
            name = self.network.names[v]
            if name in self.network.regressions and not np.all(self.network.regressions[name].sd):
                raise ArgumentError(
                    f"method is 'gibbs', and {name!r} has no scatter about its line, so that it would hold its parents "
                    "fast; take 'exact' or 'importance'"
                )

    @cached_property
    def nodes(self) -> tuple[int, ...]:
        """Those whose families bear on the question."""
        families = requisite_families(self.network.parents, self.wanted, list(self.seen), list(self.fixed))
        return tuple(child for child, _ in families)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The first column of each wanted node in ``kept``, -1 of others, shape (n_nodes,)."""
        found, column = np.full(len(self.network.names), -1, dtype=np.int64), 0
        for v in self.wanted:
            found[v] = column
            column += len(self.network.states[v]) or 2
        return found

    @cached_property
    def scale(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means and standard deviations of numbers before anything was seen, roughly, shapes (n_nodes,)."""
        _, values = self.network.draw_cells(_FOR_SCALE, np.random.default_rng(0))
        spread = values.std(axis=0)
        return values.mean(axis=0), np.where(spread > 0, spread, 1.0)  # NaN of categories, too

    @cached_property
    def _plan(self) -> NumberPlan:
        return _plan_of(self.network, self.nodes, self.seen)

    def init(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Values drawn from the network with what was seen in place; far apart, as the evidence has no say yet."""
        order = [v for v in self.network.order if v in self.nodes]
        x = np.zeros(len(self.network.names))
        for v, value in (*self.fixed.items(), *self.seen.items()):
            x[v] = value
        for _ in range(_TRIES):
            for v in order:
                if v not in self.seen:
                    _draw(v, x, self._plan, rng)
            if math.isfinite(sum(log_own(v, x, self._plan) for v in order)):
                return x
        raise ArgumentError(
            f"method is 'gibbs', and no state in {_TRIES} that were drawn agrees with what was seen; take 'exact', "
            "which says whether it is possible"
        )

    def run(
        self, state: NDArray[np.float64], n_steps: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[Any]], dict[str, int]]:
        """Make ``n_steps`` sweeps, a multiple of ``thin``."""
        x, n_kept = state.copy(), n_steps // self.thin
        n_columns = sum(len(self.network.states[v]) or 2 for v in self.wanted)
        log_density, kept = np.empty(n_kept), np.zeros((n_kept, n_columns))
        share = np.zeros(max(1, *map(len, self.network.states)))
        advance(x, self.thin, self._plan, self.places, rng, (log_density, kept, share))
        columns = []
        for v in self.wanted:
            at = self.places[v]
            size = len(self.network.states[v])
            centre, spread = self.scale[0][v], self.scale[1][v]
            columns.append(kept[:, at : at + size] if size else 0.5 + (kept[:, [at]] - centre) / spread)
        return x, {"log_density": log_density, "probability": np.concatenate(columns, axis=1), "kept": kept}, {}


def _draw(node: int, x: Floats, plan: NumberPlan, rng: np.random.Generator) -> None:
    """Draw a node given its parents alone."""
    if plan.kind[node] == _NUMBER:
        sd = plan.parameters[_place(node, x, plan) + plan.n_numbers[node] + 1]
        x[node] = _line(node, x, plan) + sd * rng.standard_normal()
        return
    logs = np.empty(plan.size[node])
    for state in range(plan.size[node]):
        x[node] = state
        logs[state] = log_own(node, x, plan)
    share = np.exp(logs)
    x[node] = rng.choice(len(share), p=share / share.sum())


def _plan_of(network: GaussianNetwork, nodes: Sequence[int], seen: Mapping[int, float]) -> NumberPlan:
    n = len(network.names)
    most = max(1, max((len(network.parents[v]) for v in nodes), default=1))
    kind, size = np.full(n, -1, dtype=np.int64), np.array([len(s) for s in network.states], dtype=np.int64)
    counts, lists = np.zeros((2, n), dtype=np.int64), np.zeros((2, n, most), dtype=np.int64)
    strides, begin, width = np.zeros((n, most), dtype=np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    parts: list[NDArray[np.float64]] = []
    children: list[list[int]] = [[] for _ in range(n)]
    total = 0
    for v in nodes:
        name, parents = network.names[v], network.parents[v]
        groups = [p for p in parents if size[p]], [p for p in parents if not size[p]]
        for which, group in enumerate(groups):
            counts[which, v] = len(group)
            lists[which, v, : len(group)] = group
        sizes = [int(size[p]) for p in groups[0]]
        for k in range(len(sizes)):
            strides[v, k] = math.prod(sizes[k + 1 :])
        n_configs, p = math.prod(sizes), len(groups[1])
        if name in network.regressions:
            own = network.regressions[name]
            flat = [np.reshape(own.intercept, (n_configs, 1)), np.reshape(own.coefficients, (n_configs, p))]
            rows = np.concatenate([*flat, np.reshape(own.sd, (n_configs, 1))], axis=1)
            kind[v] = _NUMBER
        elif name in network.tables:
            rows = log_of(np.reshape(network.tables[name], (n_configs, int(size[v]))))
            kind[v] = _TABLE
        else:
            odds, r = network.log_odds[name], int(size[v])
            intercept = np.reshape(odds.intercept, (n_configs, r - 1, 1))
            slopes = np.reshape(odds.coefficients, (n_configs, r - 1, p))
            rows = np.concatenate([intercept, slopes], axis=2).reshape(n_configs, -1)
            kind[v] = _ODDS
        begin[v], width[v] = total, rows.shape[1]
        total += rows.size
        parts.append(rows.ravel())
        for parent in parents:
            children[parent].append(v)
    free = [v for v in network.order if v in nodes and v not in seen]
    return NumberPlan(
        kind, size, counts[0], lists[0], strides, counts[1], lists[1], begin, width, np.concatenate(parts),
        starts_of(map(len, children)), joined(children), np.array(free, dtype=np.int64),
    )  # fmt: skip
