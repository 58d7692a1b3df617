r"""Exact inference in conditional Gaussian networks, by one factorisation for each configuration that evidence leaves.

Given the categories, numbers are jointly normal, :math:`x = A (c + \sigma \varepsilon)` with
:math:`A = (I - B)^{-1}`: the rows of :math:`L = A \sigma` say how each number depends on independent scatter.  With the
rows :math:`L_e` of what was observed, :math:`L_e^T = QR` gives

.. math::
    z = R^{-T} (x_e - \mu_e), \quad \ln p(x_e) = -\tfrac12 |z|^2 - \sum \ln |R_{ii}| - \tfrac{n_e}2 \ln 2\pi, \quad
    E[x_t \mid x_e] = \mu_t + L_t Q z, \quad \mathrm{var} = |L_t - L_t Q Q^T|^2,

without a covariance matrix, so with twice as many correct digits.  No edge leads from a number to a category: the
categories are a network of their own, summed out by contraction (`doxa.inference.exact.plan`) but for those above
numbers, whose configurations are the components of a mixture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.exact.mixture import NormalMixture
from doxa.inference.exact.plan import ContractionPlan, plan_contraction
from doxa.inference.exact.program import Budget, BudgetError, Cost
from doxa.inference.propagation import ImpossibleEvidenceError
from doxa.models.factors import Factor
from doxa.models.gaussian import GaussianNetwork, check_number
from doxa.models.separation import requisite_families

__all__ = ["Conditioned", "condition", "conditional_distribution", "log_density"]

Floats = NDArray[np.float64]

_MOST_CONFIGURATIONS = 2**16  # of a mixture
_BUDGET = Budget()


class Conditioned(NamedTuple):
    """Numbers and categories given rows of evidence: a mixture over configurations of categories."""

    log_evidence: Floats  # (n_rows,): nats, of what was not set; that which the question depends on, unless `whole`
    log_weights: Floats  # (n_rows, n_configurations): nats; sum to 1
    means: Floats  # (n_rows, n_configurations, n_targets)
    sds: Floats  # (n_configurations, n_targets)
    listed: tuple[int, ...]  # the categories that are listed
    configurations: NDArray[np.int64]  # (n_configurations, n_listed)

    def mixture(self, row: int = 0, target: int = 0) -> NormalMixture:
        """The distribution of a number in a row."""
        return NormalMixture(np.exp(self.log_weights[row]), self.means[row, :, target], self.sds[:, target])

    def components(self, target: int) -> tuple[Floats, Floats]:
        """Means and standard deviations of a number in each configuration, in the first row."""
        return self.means[0, :, target], self.sds[:, target]

    def event_probability(self, target: Sequence[int], event: Sequence[int], inside: Floats | float = 1.0) -> float:
        """That categories have these states, in the first row, times what has the probability ``inside`` in each
        configuration.
        """
        holds = np.all(self.configurations[:, [self.listed.index(j) for j in target]] == np.array(event), axis=1)
        return float((np.exp(self.log_weights[0]) * holds * inside).sum())

    def state_probabilities(self, category: int, n_states: int) -> Floats:
        """Of a category among the listed, shape (n_rows, n_states)."""
        own = self.configurations[:, self.listed.index(category)]
        return np.asarray(np.exp(self.log_weights) @ np.eye(n_states)[own])


def condition(
    network: GaussianNetwork,
    targets: Sequence[int],
    given: Mapping[int, int],
    columns: Sequence[int],
    values: Floats,
    do: Mapping[int, float],
    *,
    whole: bool = False,
) -> Conditioned:
    """Distributions of some nodes given evidence and interventions.

    Parameters
    ----------
    network : GaussianNetwork
    targets : sequence of int
        Numbers and categories; numbers are in the answer in this order, categories are listed.
    given : mapping of int to int
        Categories that were seen, and their states.
    columns : sequence of int
        Numbers that were seen.
    values : ndarray of float, shape (n_rows, n_columns)
        What was seen.
    do : mapping of int to float
        What was set: numbers, and positions of states.
    whole : bool, default=False
        Whether the density of all the evidence is wanted, too.

    Raises
    ------
    ArgumentError
        If a number was seen that others determine, or the answer depends on a category that depends on numbers.
    ImpossibleEvidenceError
        If the evidence is impossible.
    BudgetError
        If too many configurations of categories are left, or the network of the categories is too wide.
    """
    known = {**given, **{v: int(k) for v, k in do.items() if network.states[v]}}
    families = requisite_families(network.parents, targets, [*given, *columns], do, whole=whole)
    for child, _ in families:
        if network.names[child] in network.log_odds:
            raise ArgumentError(
                f"the answer depends on {network.names[child]!r}, a category that depends on numbers, and there is no "
                "exact answer; doxa.infer has one by weighted draws"
            )
    is_number = [not labels for labels in network.states]
    asked = [v for v in targets if not is_number[v]]
    above = {p for child, own in families if is_number[child] for p in own if not is_number[p] and p not in known}
    listed = tuple(sorted(above.union(asked)))
    log_p, configurations, constant = _categories(network, families, known, listed)
    inside = [child for child in network.order if is_number[child] and any(child == own for own, _ in families)]
    fixed = sorted({p for v in inside for p in network.parents[v] if is_number[p] and p not in inside})
    means, scatter = _lines(network, inside, fixed, known, listed, configurations)
    at = {v: k for k, v in enumerate(columns)}
    set_to = np.empty((len(values), len(fixed)))
    for k, v in enumerate(fixed):
        set_to[:, k] = float(do[v]) if v in do else values[:, at[v]]
    mean = means[None, :, :, 0] + np.einsum("kmf,rf->rkm", means[:, :, 1:], set_to)
    place = {v: k for k, v in enumerate(inside)}
    seen = [v for v in columns if v in place]
    numbers = [place[v] for v in targets if is_number[v]]
    own_mean, own_scatter = mean[:, :, numbers], scatter[:, numbers]
    log_weights = np.broadcast_to(log_p, (len(values), len(log_p)))
    if seen:
        rows = [place[v] for v in seen]
        q, r = np.linalg.qr(scatter[:, rows].transpose(0, 2, 1))
        diagonal = np.abs(np.diagonal(r, axis1=1, axis2=2))
        if not (diagonal > 0).all():
            raise ArgumentError(
                "given names numbers of which one follows from the others without scatter; leave it out"
            )
        apart = values[:, [at[v] for v in seen]][:, None, :] - mean[:, :, rows]
        z = np.linalg.solve(r.transpose(0, 2, 1), apart.transpose(1, 2, 0))  # (configuration, seen, row)
        log_seen = -0.5 * (z**2).sum(axis=1) - np.log(diagonal).sum(axis=1)[:, None]
        log_weights = log_weights + log_seen.T - 0.5 * len(seen) * math.log(2 * math.pi)
        share = own_scatter @ q
        own_mean = own_mean + (share @ z).transpose(2, 0, 1)
        own_scatter = own_scatter - share @ q.transpose(0, 2, 1)
    total = np.logaddexp.reduce(log_weights, axis=1)  # SciPy's function takes longer than all the rest of a small table
    return Conditioned(
        total + constant,
        log_weights - total[:, None],
        own_mean,
        np.sqrt((own_scatter**2).sum(axis=2)),
        listed,
        configurations,
    )


def conditional_distribution(
    network: GaussianNetwork,
    target: str,
    given: Mapping[str, float | str] | None = None,
    do: Mapping[str, float | str] | None = None,
) -> NormalMixture | dict[str, float]:
    """The distribution of one node given what was seen and what was set, exactly.

    Parameters
    ----------
    network : GaussianNetwork
    target : str
        A node.
    given, do : mapping of str to float or str, optional
        Numbers of numbers, in their units, and states of categories.

    Returns
    -------
    NormalMixture or dict of str to float
        Of a number its distribution; of a category the probability of each state.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a node or state is unknown, a value is no finite number, the target is also given or set, or the evidence is
        impossible.

    Examples
    --------
    >>> from doxa.models import Dag, Regression
    >>> chain = GaussianNetwork(
    ...     Dag.from_edges([("x", "y")]), {"x": Regression(0.0, [], 1.0), "y": Regression(1.0, [2.0], 1.0)}
    ... )
    >>> seen = conditional_distribution(chain, "x", given={"y": 6.0})
    >>> round(seen.mean, 12), round(seen.sd**2, 12)
    (2.0, 0.2)
    >>> conditional_distribution(chain, "x", do={"y": 6.0}).mean
    0.0
    """
    if target not in network.names:
        raise ArgumentError(f"target names {target!r}, which is not a node of the network")
    seen, made = _read(network, "given", given), _read(network, "do", do)
    j = network.names.index(target)
    for v in (j, *made):
        if v in seen or (v == j and v in made):
            raise ArgumentError(f"{network.names[v]!r} is in two of target, given and do; leave it in one")
    numbers = [v for v in seen if not network.states[v]]
    states = {v: int(k) for v, k in seen.items() if network.states[v]}
    found = condition(network, [j], states, numbers, np.array([[seen[v] for v in numbers]]), made)
    if not network.states[j]:
        return found.mixture()
    probabilities = found.state_probabilities(j, len(network.states[j]))[0]
    return dict(zip(network.states[j], probabilities.tolist(), strict=True))


def log_density(network: GaussianNetwork, codes: ArrayLike, numbers: ArrayLike) -> Floats:
    """Log density of rows, what is missing summed and integrated out; nats, shape (n_rows,).

    Parameters
    ----------
    network : GaussianNetwork
    codes : array_like of int, shape (n_rows, n_nodes)
        Positions of states; -1 where missing.  Those of numbers are not read.
    numbers : array_like of float, shape (n_rows, n_nodes)
        NaN where missing.  Those of categories are not read.
    """
    states, values = np.asarray(codes, dtype=np.int64), np.asarray(numbers, dtype=np.float64)
    is_number = np.array([not labels for labels in network.states])
    key = np.where(is_number, np.isnan(values), states)
    found = np.zeros(len(states))
    groups, member = np.unique(key, axis=0, return_inverse=True)
    for k, group in enumerate(groups.tolist()):
        rows = np.flatnonzero(member.ravel() == k)
        seen = [v for v in range(len(group)) if is_number[v] and not group[v]]
        given = {v: int(group[v]) for v in range(len(group)) if not is_number[v] and group[v] >= 0}
        if seen or given:
            found[rows] = condition(network, (), given, seen, values[rows][:, seen], {}, whole=True).log_evidence
    return found


def _read(network: GaussianNetwork, argument: str, given: Mapping[str, float | str] | None) -> dict[int, float]:
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentTypeError(f"{argument} is {given!r}; give a mapping of nodes to numbers and states")
    found: dict[int, float] = {}
    for name, value in (given or {}).items():
        if name not in network.names:
            raise ArgumentError(f"{argument} names {name!r}, which is not a node of the network")
        v = network.names.index(name)
        labels = network.states[v]
        if not labels:
            found[v] = check_number(f"{argument}[{name!r}]", value)
        elif value not in labels:
            raise ArgumentError(f"{argument}[{name!r}] is {value!r}; its states are {', '.join(map(repr, labels))}")
        else:
            found[v] = labels.index(str(value))
    return found


@lru_cache(maxsize=512)
def _plan(sizes: tuple[int, ...], scopes: tuple[tuple[int, ...], ...], keep: tuple[int, ...]) -> ContractionPlan:
    made = plan_contraction(sizes, scopes, keep=keep, budget=_BUDGET)
    _BUDGET.check(made.joint_cost, "the joint distribution of the categories above numbers")
    return made


def _categories(
    network: GaussianNetwork,
    families: Sequence[tuple[int, tuple[int, ...]]],
    known: Mapping[int, int],
    listed: Sequence[int],
) -> tuple[Floats, NDArray[np.int64], float]:
    """Log probability of each possible configuration of the listed categories, the configurations, and a constant."""
    own = [(*parents, child) for child, parents in families if network.states[child]]
    constant, cut = 0.0, []
    for members in own:
        table = network.tables[network.names[members[-1]]][tuple(known.get(v, slice(None)) for v in members)]
        free = tuple(v for v in members if v not in known)
        with np.errstate(divide="ignore"):
            log_table = np.log(table)
        if free:
            cut.append((free, log_table))
        else:
            constant += float(log_table)
    sizes = [len(network.states[v]) for v in listed]
    if math.prod(sizes) > _MOST_CONFIGURATIONS:
        n = math.prod(sizes)
        what = f"a mixture over the {n} configurations of categories above numbers"
        raise BudgetError(what, Cost(n, 8 * n), Budget(_MOST_CONFIGURATIONS, 8 * _MOST_CONFIGURATIONS))
    log_p, configurations = np.zeros(1), np.zeros((1, len(listed)), dtype=np.int64)
    if cut:
        free_nodes = sorted({v for scope, _ in cut for v in scope})
        number = {v: k for k, v in enumerate(free_nodes)}
        scopes = tuple(tuple(number[v] for v in scope) for scope, _ in cut)
        plan = _plan(tuple(len(network.states[v]) for v in free_nodes), scopes, tuple(number[v] for v in listed))
        joint = plan.joint([Factor(scope, table) for scope, (_, table) in zip(scopes, cut, strict=True)])
        constant += joint.log_z
        probabilities = joint.probabilities.ravel()
        possible = np.flatnonzero(probabilities > 0)
        log_p = np.log(probabilities[possible])
        if listed:
            configurations = np.stack(np.unravel_index(possible, sizes), axis=1)
    if constant == -math.inf:
        raise ImpossibleEvidenceError("given has probability zero; leave out part of it")
    return log_p, configurations, constant


def _lines(
    network: GaussianNetwork,
    inside: Sequence[int],
    fixed: Sequence[int],
    known: Mapping[int, int],
    listed: Sequence[int],
    configurations: NDArray[np.int64],
) -> tuple[Floats, Floats]:
    """Of the numbers inside: means as (1, those that are fixed) give them, and how they depend on scatter.

    Shapes (n_configurations, n_inside, 1 + n_fixed) and (n_configurations, n_inside, n_inside).
    """
    k, m = len(configurations), len(inside)
    place = {v: i for i, v in enumerate(inside)}
    constant = {v: 1 + i for i, v in enumerate(fixed)}
    column = {v: i for i, v in enumerate(listed)}
    system, right, sds = np.zeros((k, m, m)), np.zeros((k, m, 1 + len(fixed))), np.zeros((k, m))
    system[:, range(m), range(m)] = 1.0
    for i, v in enumerate(inside):
        regression = network.regressions[network.names[v]]
        at: tuple[NDArray[np.int64] | int, ...] = tuple(
            known[p] if p in known else configurations[:, column[p]] for p in network.parents[v] if network.states[p]
        )
        right[:, i, 0] = regression.intercept[at]
        sds[:, i] = regression.sd[at]
        on = [p for p in network.parents[v] if not network.states[p]]
        if on:
            slopes = np.broadcast_to(regression.coefficients[at], (k, len(on)))
            for slope, p in zip(slopes.T, on, strict=True):
                if p in place:
                    system[:, i, place[p]] = -slope
                else:
                    right[:, i, constant[p]] = slope
    solved = np.linalg.inv(system)  # lower triangular with a diagonal of 1
    return solved @ right, solved * sds[:, None, :]
