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
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.exact.mixture import NormalMixture
from doxa.inference.exact.plan import ContractionPlan, plan_contraction
from doxa.inference.exact.program import Budget, Cost
from doxa.inference.flat import log_of
from doxa.inference.propagation import ImpossibleEvidenceError
from doxa.models.gaussian import GaussianNetwork, Regression, check_number
from doxa.models.separation import requisite_families

__all__ = ["Conditioned", "Networks", "condition", "condition_each", "conditional_distribution", "log_density"]

Family = tuple[int, tuple[int, ...]]  # child and parents

_LISTED = Budget(2**16, 8 * 2**16)  # configurations of a mixture
_AT_ONCE = 2**18  # numbers of networks that are conditioned together
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
        return np.asarray(np.exp(self.log_weights) @ (own[:, None] == np.arange(n_states)))


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
    families = requisite_families(network.parents, targets, [*given, *columns], do, whole=whole)
    for child, _ in families:
        if network.names[child] in network.log_odds:
            raise ArgumentError(
                f"the answer depends on {network.names[child]!r}, a category that depends on numbers, and there is no "
                "exact answer; doxa.infer has one by weighted draws"
            )

    def parameters(family: Family, _: NDArray[np.intp]) -> Regression | Floats:
        name = network.names[family[0]]
        if name in network.tables:
            return network.tables[name][None]
        return Regression(*(part[None] for part in network.regressions[name]))

    alone = Networks(network.states, [families], np.zeros(1, np.int64), np.argsort(network.order)[None], parameters)
    return condition_each(alone, targets, given, columns, values, do)[0]


class Networks(NamedTuple):
    """Networks of the same nodes, as far as an answer depends on them."""

    states: tuple[tuple[str, ...], ...]
    families: Sequence[tuple[Family, ...]]  # as `requisite_families` finds them; each once
    which: NDArray[np.int64]  # (n_networks,): those of each network
    place: NDArray[np.int64]  # (n_networks, n_nodes): increases from parents to children
    parameters: Callable[[Family, NDArray[np.intp]], Regression | Floats]
    # of a family, in networks that have it, by position: their regressions or tables, the network on the first axis


class _Part(NamedTuple):
    """What networks that are conditioned together have in common, whatever their edges."""

    inside: tuple[int, ...]  # numbers that are random
    fixed: tuple[int, ...]  # numbers that stand as they are, and have children among these
    listed: tuple[int, ...]  # categories that are listed


def condition_each(
    networks: Networks,
    targets: Sequence[int],
    given: Mapping[int, int],
    columns: Sequence[int],
    values: Floats,
    do: Mapping[int, float],
) -> list[Conditioned]:
    """`condition` in each of many networks; those that need the same nodes are conditioned together."""
    states = networks.states
    known = {**given, **{v: int(k) for v, k in do.items() if states[v]}}
    asked = {v for v in targets if states[v]}
    parts = []
    for families in networks.families:
        above = {p for child, own in families if not states[child] for p in own}
        inside = tuple(child for child, _ in families if not states[child])
        listed = asked.union(p for p in above if states[p] and p not in known)
        fixed = (p for p in above if not states[p] and p not in inside)
        parts.append([_Part(inside, tuple(sorted(fixed)), tuple(sorted(listed)))])
    found: dict[int, Conditioned] = {}
    for part, own in _users(networks.which, parts).items():
        n_configurations = _check_size([len(states[v]) for v in part.listed])
        size = n_configurations * max(1, len(part.inside)) * (len(part.inside) + len(values))
        at_once = max(1, _AT_ONCE // size)
        for first in range(0, len(own), at_once):
            some = own[first : first + at_once]
            together = _condition_part(networks, some, part, known, targets, columns, values, do)
            found.update(zip(some.tolist(), together, strict=True))
    return [found[t] for t in range(len(networks.which))]


_Key = TypeVar("_Key")


def _users(which: NDArray[np.int64], keys: Sequence[Sequence[_Key]]) -> dict[_Key, NDArray[np.intp]]:
    """Where in ``which`` stand those that have each of the ``keys``."""
    found: dict[_Key, list[int]] = {}
    for k in np.unique(which).tolist():
        for key in keys[k]:
            found.setdefault(key, []).append(k)
    has = np.zeros((len(found), len(keys)), dtype=np.bool_)
    for own, some in zip(has, found.values(), strict=True):
        own[some] = True
    return {key: np.flatnonzero(own[which]) for key, own in zip(found, has, strict=True)}


def _condition_part(
    networks: Networks,
    members: NDArray[np.intp],
    part: _Part,
    known: Mapping[int, int],
    targets: Sequence[int],
    columns: Sequence[int],
    values: Floats,
    do: Mapping[int, float],
) -> list[Conditioned]:
    """Axes are the network, the row of evidence, the configuration of categories, the number."""
    log_p, configurations, constant = _categories(networks, members, part, known)
    means, scatter = _lines(networks, members, part, known, configurations)
    at = {v: k for k, v in enumerate(columns)}
    set_to = np.empty((len(values), len(part.fixed)))
    for k, v in enumerate(part.fixed):
        set_to[:, k] = float(do[v]) if v in do else values[:, at[v]]
    mean = means[:, None, ..., 0] + np.einsum("nkmf,rf->nrkm", means[..., 1:], set_to)
    place = {v: k for k, v in enumerate(part.inside)}
    seen = [v for v in columns if v in place]
    numbers = [place[v] for v in targets if not networks.states[v]]
    own_mean, own_scatter = mean[..., numbers], scatter[:, :, numbers]
    log_weights = np.broadcast_to(log_p[:, None], mean.shape[:3])
    if seen:
        rows = [place[v] for v in seen]
        q, r = np.linalg.qr(scatter[:, :, rows].swapaxes(2, 3))
        diagonal = np.abs(np.diagonal(r, axis1=2, axis2=3))
        if not (diagonal > 0).all():
            raise ArgumentError(
                "given names numbers of which one follows from the others without scatter; leave it out"
            )
        apart = values[:, [at[v] for v in seen]][:, None, :] - mean[..., rows]
        z = np.linalg.solve(r.swapaxes(2, 3), apart.transpose(0, 2, 3, 1))  # (network, configuration, seen, row)
        log_seen = -0.5 * (z**2).sum(axis=2) - np.log(diagonal).sum(axis=2)[..., None]
        log_weights = log_weights + log_seen.swapaxes(1, 2) - 0.5 * len(seen) * math.log(2 * math.pi)
        share = own_scatter @ q
        own_mean = own_mean + (share @ z).transpose(0, 3, 1, 2)
        own_scatter = own_scatter - share @ q.swapaxes(2, 3)
    total = np.logaddexp.reduce(log_weights, axis=2)  # SciPy's function takes longer than all the rest of a small table
    log_evidence, log_weights = total + constant[:, None], log_weights - total[..., None]
    sds = np.sqrt((own_scatter**2).sum(axis=3))
    each = zip(log_evidence, log_weights, own_mean, sds, strict=True)
    return [Conditioned(*own, part.listed, configurations) for own in each]


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


def _check_size(sizes: Sequence[int]) -> int:
    """How many configurations there are; refuses too many."""
    n = math.prod(sizes)
    _LISTED.check(Cost(n, 8 * n), f"a mixture over the {n} configurations of categories above numbers")
    return n


def _categories(
    networks: Networks, members: NDArray[np.intp], part: _Part, known: Mapping[int, int]
) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Log probability of configurations of the listed categories, (n_members, n_configurations), these, and a constant.

    Configurations that are possible in none of the networks are left out.
    """
    sizes = [len(networks.states[v]) for v in part.listed]
    log_p, constant = np.zeros((len(members), math.prod(sizes))), np.zeros(len(members))
    of_categories = [[tuple(own for own in families if networks.states[own[0]])] for families in networks.families]
    for families, at in _users(networks.which[members], of_categories).items():
        log_p[at], constant[at] = _joint(networks, members[at], families, part.listed, known)
    if (constant == -math.inf).any():
        raise ImpossibleEvidenceError("given has probability zero; leave out part of it")
    possible = np.flatnonzero((log_p > -math.inf).any(axis=0))
    configurations = np.zeros((1, 0), dtype=np.int64)
    if part.listed:
        configurations = np.stack(np.unravel_index(possible, sizes), axis=1)
    return log_p[:, possible], configurations, constant


def _joint(
    networks: Networks,
    members: NDArray[np.intp],
    families: Sequence[Family],
    listed: Sequence[int],
    known: Mapping[int, int],
) -> tuple[Floats, Floats]:
    """Log probability of each configuration of the listed categories, and that of what is known of all."""
    constant, scopes, tables = np.zeros(len(members)), [], []
    for child, parents in families:
        cut = tuple(known.get(v, slice(None)) for v in (*parents, child))
        log_table = log_of(np.asarray(networks.parameters((child, parents), members))[:, *cut])
        free = tuple(v for v in (*parents, child) if v not in known)
        if free:
            scopes.append(free)
            tables.append(log_table)
        else:
            constant += log_table
    if not scopes:
        return np.zeros((len(members), 1)), constant
    free_nodes = sorted({v for scope in scopes for v in scope})
    number = {v: k for k, v in enumerate(free_nodes)}
    plan = _plan(
        tuple(len(networks.states[v]) for v in free_nodes),
        tuple(tuple(number[v] for v in scope) for scope in scopes),
        tuple(number[v] for v in listed),
    )
    joints = plan.joints(tables)
    return log_of(joints.probabilities.reshape(len(members), -1)), constant + joints.log_z


def _lines(
    networks: Networks,
    members: NDArray[np.intp],
    part: _Part,
    known: Mapping[int, int],
    configurations: NDArray[np.int64],
) -> tuple[Floats, Floats]:
    """Of the numbers inside: means as (1, those that are fixed) give them, and how they depend on scatter.

    Shapes (n_members, n_configurations, n_inside, 1 + n_fixed) and (n_members, n_configurations, n_inside, n_inside).
    """
    n, k, m = len(members), len(configurations), len(part.inside)
    order = np.argsort(networks.place[members][:, list(part.inside)], axis=1, kind="stable")
    rank = np.argsort(order, axis=1)  # in each network, parents before children
    place = dict(zip(part.inside, rank.T, strict=True))
    constant = {v: 1 + i for i, v in enumerate(part.fixed)}
    column = {v: i for i, v in enumerate(part.listed)}
    system, right, sds = np.zeros((n, k, m, m)), np.zeros((n, k, m, 1 + len(part.fixed))), np.zeros((n, k, m))
    system[..., range(m), range(m)] = 1.0
    of_numbers = [[own for own in families if not networks.states[own[0]]] for families in networks.families]
    for (v, parents), at in _users(networks.which[members], of_numbers).items():
        own = networks.parameters((v, parents), members[at])
        assert isinstance(own, Regression)
        cut = tuple(known[p] if p in known else configurations[:, column[p]] for p in parents if networks.states[p])
        right[at, :, place[v][at], 0] = own.intercept[:, *cut].reshape(len(at), -1)
        sds[at, :, place[v][at]] = own.sd[:, *cut].reshape(len(at), -1)
        for i, p in enumerate(p for p in parents if not networks.states[p]):
            slope = own.coefficients[:, *cut, i].reshape(len(at), -1)
            if p in place:
                system[at, :, place[v][at], place[p][at]] = -slope
            else:
                right[at, :, place[v][at], constant[p]] = slope
    solved = np.linalg.inv(system)  # lower triangular with a diagonal of 1
    back = np.arange(n)[:, None, None], np.arange(k)[:, None], rank[:, None]
    return (solved @ right)[back], (solved * sds[:, :, None])[back]
